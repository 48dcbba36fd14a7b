"""Pictures of programs around a simulation: who waits for whom, how punctual real time is, and ROS 2."""

from __future__ import annotations

import threading
import time
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from matplotlib.patches import FancyBboxPatch
from plots.style import BLUE, FAINT, GREEN, INK, ORANGE, RED, WASH, columns, labelled, picture

import condyle as cd


@picture("An external program in the loop: lock-step, real time, and how punctual real time is", 12.0, 4.6,
         ncols=2, width_ratios=[1.55, 1.0])  # fmt: skip
def software_in_the_loop(left: Any, right: Any) -> None:
    """Timelines of lock-step and real time, and how late the periods of a run at 1 kHz begin."""
    from benchmarks.software_in_the_loop import DT, EVERY, PRIORITY, Connections, Inside, in_real_time
    from condyle.workbench.connect.external import ExternalControl

    timelines(left)
    world = cd.Simulation(cd.load("ur3"), dt=DT)
    with TemporaryDirectory() as folder:
        run = ExternalControl(world, Inside(), every=EVERY).loop, Connections(folder).all()["shared memory, Python"], 5.0
        pacing = in_real_time(*run, PRIORITY) or in_real_time(*run, 0)
    late, edges = 1e6 * pacing.late, np.geomspace(5.0, 5000.0, 40)
    right.hist(np.clip(late, edges[0], edges[-1]), edges, color=GREEN, alpha=0.85)
    right.axvline(800.0, color=RED, lw=1.0)
    words = f"median {np.median(late):.0f} us, 99 % below {np.quantile(late, 0.99):.0f} us\n"
    words += f"{pacing.overruns} of {len(late) + 1:,} commands late"
    back = {"facecolor": "white", "edgecolor": "none", "pad": 2.0}
    right.text(0.98, 0.72, words, transform=right.transAxes, fontsize=10, ha="right", va="top", bbox=back)
    scales = {"xscale": "log", "yscale": "log"}
    labelled(right, "UR3, 1 kHz, a program in Python", "begin of a period after its due time, us", "periods", **scales)
    right.text(760.0, right.get_ylim()[1] * 0.6, "deadline of the command", color=RED, fontsize=9.5, ha="right", va="top")


def timelines(ax: Any) -> None:
    """Bars of the simulation and of the program over time, in both modes."""
    step, deadline, durations = 0.12, 0.8, [0.25, 0.6, 0.3, 1.15, 0.3, 0.3]  # of a control period
    # (mode, tick, state sent, command there, simulation steps, answered in time)
    rows, free, busy = [], 0.0, 0.0
    for tick, needed in enumerate(durations):
        rows.append(("lock-step", tick, free, free + needed, free + needed, True))
        free += needed + step
    for tick, needed in enumerate(durations[:5]):
        begin = max(float(tick), busy)  # a program that was late takes up the newest state
        busy = begin + needed
        rows.append(("real time", tick, begin, busy, min(busy, tick + deadline), busy <= tick + deadline))
    places = {"lock-step": (4.4, 3.3), "real time": (1.4, 0.3)}
    arrow = {"arrowstyle": "-|>", "lw": 0.8, "color": FAINT, "shrinkA": 0, "shrinkB": 0, "mutation_scale": 7}
    for mode, tick, begin, end, stepped, in_time in rows:
        top, low = places[mode]
        ax.barh(low, end - begin, left=begin, height=0.7, color=ORANGE if in_time else RED, alpha=0.85)
        ax.barh(top, step, left=stepped, height=0.7, color=BLUE if in_time else RED)
        ax.text((begin + end) / 2, low, f"{tick}", ha="center", va="center", color="white", fontsize=9)
        if in_time:
            ax.annotate("", (begin, low + 0.36), (begin, top - 0.36), arrowprops=arrow)
            ax.annotate("", (end, top - 0.36), (end, low + 0.36), arrowprops=arrow)
        if mode == "real time":
            ax.plot([tick, tick], [low - 0.5, top + 0.5], color=FAINT, lw=0.9, ls=":")
            ax.plot([tick + deadline] * 2, [top - 0.45, top + 0.45], color=RED, lw=0.9)
    ax.text(3.86, 2.02, "late: the last command is held", color=RED, fontsize=9.5, ha="center")
    for mode, (top, low) in places.items():
        ax.text(0.0, top + 0.62, mode, weight="bold", fontsize=11)
        for y, who, color in ((top, "simulation", BLUE), (low, "program", ORANGE)):
            ax.text(-0.08, y, who, ha="right", va="center", fontsize=10, color=color)
    labelled(ax, "Who waits for whom", "time, control periods", xlim=(-0.95, 5.0), ylim=(-0.3, 5.5), yticks=[])
    ax.spines["left"].set_visible(False)
    ax.grid(False)


# -- ROS 2


@picture("A simulated UR3 on topics of ROS 2: what goes out, what comes in, and a run", 11.2, 5.8)
def ros2(figure: Any) -> None:
    """Topics and services, and a run in real time, commanded by a node in a thread."""
    run, names = commanded_run(3.2)
    left, right = figure.subfigures(1, 2, width_ratios=[1.15, 1.0])
    topics(left.subplots(1, 1))
    upper, lower = right.subplots(2, 1, sharex=True)
    upper.plot(run.t[:-1], run.extras["position"][:, :4], color=FAINT, lw=3.0, alpha=0.6)
    columns(upper, run.t, run.q, names, lw=1.3)
    legend = {"fontsize": 9, "ncols": 2, "loc": "upper right"}
    labelled(upper, "/joint_states, position; grey: the trajectory", "", "rad", legend, ylim=(-2.1, 3.0))
    force = run.extras["ft_sensor.force"]
    columns(lower, run.t[:-1], force, "xyz", (RED, GREEN, BLUE), lw=1.3)
    pushed = run.t[:-1][run.extras["wrench"].any(axis=1)]
    lower.axvspan(pushed[0], pushed[-1], color=WASH)
    place, style = lower.get_xaxis_transform(), {"ha": "center", "va": "top", "fontsize": 9}
    lower.text(0.5 * (pushed[0] + pushed[-1]), 0.97, "/apply_wrench\n8 N along y", transform=place, **style)
    low, high = float(force.min()), float(force.max())
    title, limits = "/wrench: measured at the tool, in its axes", (low - 1.0, high + 0.45 * (high - low))
    labelled(lower, title, "time, s", "force, N", {"fontsize": 9, "loc": "upper left", "ncols": 3}, ylim=limits)


def commanded_run(seconds: float) -> tuple[Any, list[str]]:
    """The run of an arm that a node commands, and the names of its joints."""
    from condyle.workbench.connect.ros2_bridge import TOPICS, ros2_control
    from condyle.workbench.connect.ros2_node import Ros2Node
    from condyle.workbench.runs.ros2_messages import CLOCK, TRAJECTORY, WRENCH, header, message_class, nanoseconds

    world, start, domain, none = cd.Simulation(cd.load("ur3"), dt=0.002), [0.0, -1.4, 1.3, -1.5, -1.5, 0.0], 27, np.zeros(0)
    control, names = ros2_control(world, domain=domain), list(world.control_names)
    kinds = (
        "builtin_interfaces/msg/Duration",
        "trajectory_msgs/msg/JointTrajectoryPoint",
        "geometry_msgs/msg/Vector3",
        "geometry_msgs/msg/Wrench",
    )
    duration, point, vector, wrench = (message_class(name) for name in kinds)
    targets = (0.6, [0.5, -1.1, 1.0, -1.3, -1.5, 0.3]), (1.2, [-0.3, -1.3, 1.6, -1.8, -1.5, 0.0]), (1.8, start)
    points = [point(np.array(q), none, none, none, duration(int(t), round(t % 1 * 1e9))) for t, q in targets]

    def wait_until(clock: Any, when: float) -> None:
        end = time.monotonic() + 10.0
        while time.monotonic() < end and not any(1e-9 * nanoseconds(message.clock) >= when for message in clock.take()):
            time.sleep(0.002)

    def command() -> None:
        with Ros2Node("commander", domain=domain) as node:
            trajectory, push = node.publisher(TOPICS["trajectory"], TRAJECTORY), node.publisher(TOPICS["wrench"], WRENCH)
            while not (trajectory.subscribers and push.subscribers):
                time.sleep(0.01)
            clock = node.subscription("/clock", CLOCK)
            wait_until(clock, 0.2)
            trajectory.publish(message_class(TRAJECTORY)(header(0), names, points))
            for when, newtons in ((2.3, 8.0), (2.8, 0.0)):
                wait_until(clock, when)
                push.publish(message_class(WRENCH)(header(0, "world"), wrench(vector(0.0, newtons, 0.0), vector(0.0, 0.0, 0.0))))
            wait_until(clock, seconds - 0.1)

    thread = threading.Thread(target=command, daemon=True)
    thread.start()
    run = control.run(control.loop.state(np.array(start)), round(seconds / 0.002))
    thread.join(5.0)
    return run, names


def topics(ax: Any) -> None:
    """The simulation and ROS 2, with the names between them."""
    ax.set(xlim=(0.0, 10.0), ylim=(0.0, 10.0))
    ax.axis("off")
    simulation, others = "Condyle\n\nloop of the\nrobot, one\nkernel", "ROS 2\n\nnodes,\nRViz,\nros2 bag,\ncontrollers"
    for x, text in ((0.1, simulation), (7.9, others)):
        ax.add_patch(FancyBboxPatch((x, 0.3), 2.0, 9.4, boxstyle="round,pad=0.02,rounding_size=0.2", fc=WASH, ec=FAINT))
        ax.text(x + 1.0, 5.0, text, ha="center", va="center", fontsize=11.5)
    commands = [
        "/effort_controller/commands",
        "/position_controller/commands",
        "/joint_commands",
        ".../joint_trajectory",
        "/apply_wrench",
    ]
    rows = [
        (name, (2.3, 7.7, "-|>"), BLUE)
        for name in ("/joint_states", "/clock", "/tf   /tf_static", "/robot_description", "/wrench")
    ]
    rows += [(name, (7.7, 2.3, "-|>"), ORANGE) for name in commands]
    rows += [(name, (7.7, 2.3, "<|-|>"), GREEN) for name in ("/condyle/reset", "/condyle/pause")]
    for k, (name, (start, end, style), color) in enumerate(rows):
        y = 9.35 - 0.76 * k
        ax.annotate("", (end, y - 0.19), (start, y - 0.19), arrowprops={"arrowstyle": style, "color": color, "lw": 1.5})
        ax.text(5.0, y + 0.08, name, ha="center", va="center", fontsize=10.5, color=INK, family="monospace")
