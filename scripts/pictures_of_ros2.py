"""The picture of the page about ROS 2: topics and services, a trajectory, and a push."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.patches import FancyBboxPatch
from picture_style import BLUE, FAINT, GREEN, INK, ORANGE, RED, VIOLET, WASH, labelled, save, sheet

import condyle as cd
from condyle.workbench.connect.ros2_bridge import TOPICS, ros2_control
from condyle.workbench.connect.ros2_node import Ros2Node
from condyle.workbench.runs.ros2_messages import CLOCK, TRAJECTORY, WRENCH, header, message_class, nanoseconds

DOMAIN = 27
START = np.array([0.0, -1.4, 1.3, -1.5, -1.5, 0.0])
POINTS = [(0.6, [0.5, -1.1, 1.0, -1.3, -1.5, 0.3]), (1.2, [-0.3, -1.3, 1.6, -1.8, -1.5, 0.0]), (1.8, START.tolist())]
PUSH = (2.3, 2.8), (0.0, 8.0, 0.0)  # s, N
SECONDS = 3.2


def ros2(path: Path) -> None:
    """Draw the page's picture from a run in real time, commanded by a node in a thread."""
    run, names = commanded_run()
    figure = sheet("A simulated UR3 on topics of ROS 2: what goes out, what comes in, and a run", 11.2, 5.8)
    left, right = figure.subfigures(1, 2, width_ratios=[1.15, 1.0])
    wires(left.subplots(1, 1))
    upper, lower = right.subplots(2, 1, sharex=True)
    for k, color in enumerate((BLUE, ORANGE, GREEN, VIOLET)):
        upper.plot(run.t[:-1], run.extras["position"][:, k], color=FAINT, lw=3.0, alpha=0.6)
        upper.plot(run.t, run.q[:, k], color=color, lw=1.3, label=names[k])
    upper.legend(frameon=False, fontsize=9, ncols=2, loc="upper right")
    upper.set_ylim(-2.1, 3.0)
    labelled(upper, "/joint_states, position; grey: the trajectory", "", "rad")
    force = run.extras["ft_sensor.force"]
    for k, color in enumerate((RED, GREEN, BLUE)):
        lower.plot(run.t[:-1], force[:, k], color=color, lw=1.3, label="xyz"[k])
    pushed = run.t[:-1][run.extras["wrench"].any(axis=1)]
    lower.axvspan(pushed[0], pushed[-1], color=WASH)
    lower.text(
        0.5 * (pushed[0] + pushed[-1]),
        0.97,
        "/apply_wrench\n8 N along y",
        transform=lower.get_xaxis_transform(),
        ha="center",
        va="top",
        fontsize=9,
    )
    lower.legend(frameon=False, fontsize=9, loc="upper left", ncols=3)
    low, high = float(force.min()), float(force.max())
    lower.set_ylim(low - 1.0, high + 0.45 * (high - low))
    labelled(lower, "/wrench: measured at the tool, in its axes", "time, s", "force, N")
    save(figure, path)


def commanded_run() -> tuple[Any, list[str]]:
    """The run of an arm that a node commands, and the names of its joints."""
    world = cd.Simulation(cd.load("ur3"), dt=0.002)
    control = ros2_control(world, domain=DOMAIN)
    names = list(world.control_names)
    duration, point = (
        message_class(name) for name in ("builtin_interfaces/msg/Duration", "trajectory_msgs/msg/JointTrajectoryPoint")
    )
    vector, wrench = message_class("geometry_msgs/msg/Vector3"), message_class("geometry_msgs/msg/Wrench")
    none = np.zeros(0)
    points = [point(np.array(q), none, none, none, duration(int(t), round(t % 1 * 1e9))) for t, q in POINTS]

    def command() -> None:
        with Ros2Node("commander", domain=DOMAIN) as node:
            trajectory, push = node.publisher(TOPICS["trajectory"], TRAJECTORY), node.publisher(TOPICS["wrench"], WRENCH)
            while not (trajectory.subscribers and push.subscribers):
                time.sleep(0.01)
            clock = node.subscription("/clock", CLOCK)
            wait_until(clock, 0.2)
            trajectory.publish(message_class(TRAJECTORY)(header(0), names, points))
            for when, force in zip(PUSH[0], (PUSH[1], (0.0, 0.0, 0.0)), strict=True):
                wait_until(clock, when)
                push.publish(message_class(WRENCH)(header(0, "world"), wrench(vector(*force), vector(0.0, 0.0, 0.0))))
            wait_until(clock, SECONDS - 0.1)

    thread = threading.Thread(target=command, daemon=True)
    thread.start()
    run = control.run(control.loop.state(START), round(SECONDS / 0.002))
    thread.join(5.0)
    return run, names


def wait_until(clock: Any, seconds: float) -> None:
    """None, when the simulated time is so late, or after ten seconds."""
    end = time.monotonic() + 10.0
    while time.monotonic() < end and not any(1e-9 * nanoseconds(message.clock) >= seconds for message in clock.take()):
        time.sleep(0.002)


def wires(ax: Any) -> None:
    """The simulation and ROS 2, with the names between them."""
    ax.set_xlim(0.0, 10.0)
    ax.set_ylim(0.0, 10.0)
    ax.axis("off")
    boxes = [
        ((0.1, 0.3), 2.0, 9.4, "Condyle\n\nloop of the\nrobot, one\nkernel"),
        ((7.9, 0.3), 2.0, 9.4, "ROS 2\n\nnodes,\nRViz,\nros2 bag,\ncontrollers"),
    ]
    for place, width, height, text in boxes:
        ax.add_patch(FancyBboxPatch(place, width, height, boxstyle="round,pad=0.02,rounding_size=0.2", fc=WASH, ec=FAINT))
        ax.text(place[0] + width / 2, place[1] + height / 2, text, ha="center", va="center", fontsize=11.5)
    out = ["/joint_states", "/clock", "/tf   /tf_static", "/robot_description", "/wrench"]
    back = [
        "/effort_controller/commands",
        "/position_controller/commands",
        "/joint_commands",
        ".../joint_trajectory",
        "/apply_wrench",
    ]
    services = ["/condyle/reset", "/condyle/pause"]
    rows = [(name, 1, BLUE) for name in out] + [(name, -1, ORANGE) for name in back] + [(name, 0, GREEN) for name in services]
    for k, (name, direction, color) in enumerate(rows):
        y = 9.35 - 0.76 * k
        ends = {1: (2.3, 7.7, "-|>"), -1: (7.7, 2.3, "-|>"), 0: (7.7, 2.3, "<|-|>")}[direction]
        ax.annotate("", (ends[1], y - 0.19), (ends[0], y - 0.19), arrowprops={"arrowstyle": ends[2], "color": color, "lw": 1.5})
        ax.text(5.0, y + 0.08, name, ha="center", va="center", fontsize=10.5, color=INK, family="monospace")
