"""Pictures of arms: motions, obstacles, inverse kinematics and tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from plots.style import BLUE, FAINT, GREEN, INK, ORANGE, RED, VIOLET, WASH, columns, labelled, levels, picture, program, show

import condyle as cd
from condyle.methods.planning.obstacle_shapes import Solid
from condyle.methods.planning.obstacles import Box, Capsule, Plane, Sphere, robot_distances, with_obstacles
from condyle.methods.planning.profiles import jerk_limited, quintic, trapezoidal
from condyle.methods.planning.time_optimal import time_optimal
from condyle.workbench.view.picture import picture as render


@picture("One joint by three profiles, and six joints as fast as their torques allow", 12.0, 3.8, ncols=3)
def motion(left: Any, middle: Any, right: Any) -> None:
    """Speed and acceleration of three profiles, and the torques of a time-optimal path as parts of their limits."""
    limits = {"speed": 2.16, "acceleration": 2.0}
    moves = {
        "quintic": (quintic([0.0], [4.0], **limits), BLUE),
        "trapezoidal": (trapezoidal([0.0], [4.0], **limits), ORANGE),
        "jerk-limited": (jerk_limited([0.0], [4.0], jerk=8.0, **limits), GREEN),
    }
    for name, (move, color) in moves.items():
        t = np.linspace(0.0, move.duration, 800)
        _, v, a = move.at(t)
        left.plot(t, v[:, 0], color=color, label=f"{name}, {move.duration:.2f} s")
        middle.plot(t, a[:, 0], color=color)
    levels(left, 2.16, ls="--")
    levels(middle, -2.0, 2.0, ls="--")
    levels(right, -1.0, 1.0, ls="--")
    labelled(left, "Speed, at most 2.16", "time, s", "rad/s", "upper left", ylim=(0.0, 3.3))
    labelled(middle, "Acceleration, at most 2", "time, s", "rad/s^2")
    robot, torque = cd.load("ur3"), np.array([3.0, 16.0, 8.0, 1.5, 1.0, 0.5])  # N m
    waypoints = [[0.0, -1.57, 1.57, -1.57, 0.0, 0.0], [0.8, -1.0, 1.2, -1.2, 0.5, 0.3], [1.2, -1.4, 1.8, -2.0, 0.2, 1.0]]
    fastest = time_optimal(waypoints, robot=robot, torque=torque, grid=3000)
    t = np.linspace(0.0, fastest.duration, 1500)
    q, v, a = fastest.at(t)
    tau = robot.inverse_dynamics(q, v, a) / torque
    columns(right, t, tau, ("pan", "lift", "elbow", "wrist 1"), (BLUE, RED, GREEN, VIOLET), lw=1.3)
    right.plot(t, np.max(np.abs(v) / robot.velocity_limits, axis=1), color=FAINT, lw=1.3, ls=":", label="largest speed")
    legend = {"loc": "upper left", "ncols": 3, "fontsize": 9}
    labelled(right, "UR3, time-optimal: torque / limit", "time, s", "of the limit", legend, ylim=(-1.15, 2.0))


# -- obstacles

UNDER = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.14), "handlelength": 1.2, "columnspacing": 1.2}  # of a legend


def among(solids: Sequence[Solid], colors: Mapping[str, str]) -> cd.Robot:
    """The UR3 with obstacles."""
    rgb = {name: tuple(int(color[k : k + 2], 16) / 255.0 for k in (1, 3, 5)) for name, color in colors.items()}
    return with_obstacles(cd.load("ur3"), solids, rgb)


@picture("The UR3 among obstacles: closest pairs, and the distance of the arm from each obstacle", 11.0, 4.6,
         ncols=2, width_ratios=(1.25, 1.0))  # fmt: skip
def obstacles(left: Any, right: Any) -> None:
    """The closest pair of each obstacle, and how the distances change while the arm turns."""
    along_x = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])  # its z axis is x
    scene = [
        Box((0.2, 0.3, 0.24), position=(0.42, 0.12, 0.12), name="crate"),
        Capsule(0.04, 0.6, position=(0.1, -0.38, 0.34), name="post"),
        Capsule(0.03, 0.5, position=(0.1, 0.42, 0.62), rotation=along_x, name="rail"),
        Sphere(0.09, position=(-0.34, 0.12, 0.52), name="ball"),
        Plane(name="floor"),
    ]
    colors = {"crate": ORANGE, "post": BLUE, "rail": VIOLET, "ball": RED, "floor": GREEN}
    links = ["lift", "elbow", "wrist_1", "wrist_2", "wrist_3"]
    distances = robot_distances(cd.load("ur3"), scene, links=links, self_collision=False)
    time, at = np.linspace(0.0, 1.0, 400), 215
    first, last = np.array([-1.6, -1.3, 1.2, -1.4, -1.4, 0.0]), np.array([1.9, -0.9, 1.3, -1.7, -1.4, 0.0])
    q = first + time[:, None] * (last - first)
    d, pairs = distances(q), np.stack([each[at] for each in distances.witness_points(q)], axis=1)
    lines = []
    for name, color in colors.items():
        rows = [k for k, (_, other) in enumerate(distances.names) if other == name]
        lines.append(pairs[rows[int(np.argmin(d[at, rows]))]])
        right.plot(time, 1e3 * d[:, rows].min(axis=1), color=color, lw=1.8, label=name)
    show(left, render(among(scene, colors), q[at], size=(1100, 900), polylines=lines, label=False))
    right.axvline(time[at], color=INK, lw=0.8, ls=":")
    levels(right, 0.0, color=INK)
    labelled(right, "least distance over the links", "part of the motion", "mm; below zero: overlap", {**UNDER, "ncols": 5})


@picture("A path over a wall, and a controller that knows no wall, with and without the safety filter", 9.6, 4.0,
         ncols=2, width_ratios=(1.05, 1.0))  # fmt: skip
def avoidance(left: Any, right: Any) -> None:
    """The tool's path by the page's plan, and the least distance of its controller, which knows no obstacles."""
    p, margin = program("avoidance"), 0.02  # m
    robot, distances, control, start = p["robot"], p["distances"], p["control"], p["start"]

    def simulate(function: Any) -> np.ndarray:
        loop = cd.Loop(p["world"], function, goal=6)
        return loop.rollout(loop.state(start), p["goal"], 12000, record=["q"], every=4)["q"]

    without, filtered = simulate(control), simulate(lambda x, goal: p["safety"](x, control(x, goal)))
    smooth, middle = p["plan"].path.at(np.linspace(0.0, 1.0, 200)).position, p["plan"].path.at(0.5).position
    lines = [robot.frame_pose(q, "tool")[1] for q in (smooth, filtered)]
    scene = among([p["wall"], Plane(position=(0.0, 0.0, -0.01), name="floor")], {"wall": ORANGE, "floor": FAINT})
    image = render(scene, middle, size=(1000, 860), polylines=lines, label=False)
    show(left, image, "Planned path of the tool, and filtered")
    t = 0.001 * np.arange(1, len(without) + 1)
    planned = p["motion"].at(t[t <= p["motion"].duration]).position
    curves = (without, RED, "controller alone"), (filtered, GREEN, "with the filter"), (planned, BLUE, "planned, fastest")
    for q, color, label in curves:
        right.plot(t[: len(q)], 1e3 * distances(q).min(axis=1), color=color, lw=1.8, label=label)
    levels(right, 1e3 * margin, color=INK, ls="--")
    right.annotate("margin", (t[-1], 1e3 * margin), (0, 4), textcoords="offset points", ha="right", fontsize=10)
    levels(right, 0.0, color=INK)
    labelled(right, "least distance of any pair", "time, s", "mm; below zero: overlap", {**UNDER, "ncols": 3})


# -- inverse kinematics, and tasks that use it


@picture(
    "UR3: all solutions for one pose of the tool, and its workspace at y = 0", 13.0, 4.3, ncols=3, width_ratios=(1.05, 1.0, 1.0)
)
def inverse_kinematics(left: Any, middle: Any, right: Any) -> None:
    """The solutions for one pose of the UR3, and two slices through its workspace."""
    from condyle.multibody.closed_form_kinematics import inverse_kinematics_solutions
    from condyle.workbench.view.workspace import draw_slice, workspace_map

    robot, down = cd.load("ur3"), np.array([[0.0, -1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
    solutions = inverse_kinematics_solutions(robot, "tool", (down, np.array([0.3, 0.1, 0.25])))
    q = solutions.q[solutions.ok]
    image = render(robot, q[0], ghosts=list(q[1:]), size=(900, 860), label=False)
    show(left, image, f"{len(q)} solutions, tool down; one of them is solid")
    space = workspace_map(robot, "tool", samples=400_000, voxel=0.04, orientations=60)
    draw_slice(middle, space, space.manipulability, "xz", 0.0, "viridis", None)
    draw_slice(right, space, space.reachability, "xz", 0.0, "magma", 1.0)
    for ax, words in ((middle, "highest manipulability, m^3/rad^3"), (right, "share of orientations reached")):
        labelled(ax, words, "x, m", "z, m")
        ax.grid(False)


@picture("Computed torque at 1 kHz on physics at 4 kHz: pick and place of 0.5 kg, and a weld at 50 mm/s", 13.0, 4.3,
         ncols=3, width_ratios=(0.9, 1.1, 1.1))  # fmt: skip
def arm_tasks(left: Any, middle: Any, right: Any) -> None:
    """Pick and place with the tool's path and its errors with and without knowledge of the payload; the weld's errors."""
    from condyle.apps.demos import pick_and_place, welding
    from condyle.apps.demos.arm_tracking import EVERY, tool_errors

    robot, plan, run = cd.load("ur3"), pick_and_place.plan(), pick_and_place.run()
    q, trail = plan.q[np.flatnonzero(plan.part == "across")[600]], robot.frame_pose(plan.q[::20], "tool")[1]
    image = render(robot, q, ghosts=[plan.q[0]], trail=trail, size=(900, 860), label=False)
    show(left, image, "pick and place: path of the tool")
    errors = {
        "payload unknown": (tool_errors(pick_and_place.without_feed_forward(), plan), RED),
        "payload known": (tool_errors(run.q[:-1], plan), BLUE),
    }
    for name, (error, color) in errors.items():
        middle.semilogy(plan.t, np.maximum(1e3 * error, 1e-7), color=color, lw=1.2, label=name)
    carried = plan.t[plan.holding > 0.0]
    middle.axvspan(carried[0], carried[-1], color=WASH, zorder=0)
    middle.text(carried[0] + 0.1, 20.0, "payload at the tool", fontsize=10)
    labelled(middle, "error of the tool, mm", "time, s", "mm", "lower center", ylim=(1e-7, 60.0))
    done, rows = welding.run(), welding.on_seam()
    at = slice(EVERY * rows[0], EVERY * rows[-1], EVERY)
    p, t = robot.frame_pose(done.q[:-1][at], "tool")[1], done.t[:-1][at] - done.t[at.start]
    right.plot(t, 1e6 * welding.off_seam(p), color=BLUE, lw=1.0)
    title = "weld: distance of the tool from the seam"
    labelled(right, title, "time on the seam, s", "micrometres", ylim=(0.0, 2.4))


# -- identification


@picture("A UR3 with hidden masses and friction, identified from a noisy log of 20 s", 11.4, 4.0, colors=48,
         ncols=3, width_ratios=(1.0, 1.15, 1.15))  # fmt: skip
def identification(left: Any, middle: Any, right: Any) -> None:
    """An excitation, measured and predicted forces of another motion, and estimates with intervals over the true numbers."""
    from benchmarks.identification import READY, hidden_parameters, of_one, recorded_logs
    from condyle.methods.identify import excitation, identify
    from condyle.methods.identify.regressor import Regressor
    from condyle.robot.parameters import with_parameters

    robot, limits, colors = (
        cd.load("ur3"),
        {"centre": READY, "reach": 1.5, "acceleration": 6.0},
        (BLUE, RED, GREEN, VIOLET, ORANGE, FAINT),
    )
    motion = excitation(robot, iterations=60, starts=3, **limits)
    new = excitation(robot, iterations=1, starts=1, periods=2, seed=77, **limits)
    hidden = hidden_parameters(robot, np.random.default_rng(11), 1)
    (log,), (other,) = (recorded_logs(robot, each, hidden, 1, seed=k) for k, each in ((1, motion), (2, new)))
    fit = identify(robot, log, validation=other)
    t = np.linspace(0.0, motion.period, 600)
    columns(left, t, motion.at(t).position, ("pan", "lift", "elbow", "wrist 1", "wrist 2", "wrist 3"), colors, lw=1.4)
    legend = {"fontsize": 9, "ncols": 3, "loc": "upper left"}
    title = f"Excitation, condition number {motion.condition:.1f}"
    labelled(left, title, "time, s", "joint angle, rad", legend, ylim=(-3.0, 4.6))
    p = fit.prediction
    assert p is not None
    for j, scale, name in ((1, 1.0, "lift"), (3, 10.0, "wrist 1, times 10")):
        middle.plot(other.t[::10], scale * other.tau[::10, j], color="#b9c0cb", lw=0.7, zorder=0)
        middle.plot(p.t, scale * p.nominal[:, j], color=ORANGE, lw=1.0, ls="--")
        middle.plot(p.t, scale * p.predicted[:, j], color=colors[j], label=name)
    middle.plot([], [], color=ORANGE, lw=1.0, ls="--", label="nominal model")
    middle.plot([], [], color="#b9c0cb", lw=2.0, label="measured")
    title, legend = (
        f"New motion: error {p.total:.1%}, {p.total_nominal:.0%} before",
        {"fontsize": 8.5, "ncols": 2, "loc": "upper left"},
    )
    labelled(middle, title, "time, s", "joint force, N m", legend, xlim=(3.0, 13.0), ylim=(-16.0, 20.0))
    true = fit.base.map @ Regressor(cd.Robot(with_parameters(robot.model, of_one(hidden, 0)))).nominal
    names = [
        "lift.mcz +",
        "lift.Iyy +",
        "elbow.mcz +",
        "elbow.Iyy +",
        "wrist_1.mcz +",
        "wrist_2.mcy +",
        "wrist_3.mcz",
        "wrist_3.Iyy",
    ]
    names = [*names, *(f"{joint}.friction" for joint in robot.joint_names)][::-1]
    for row, name in enumerate(names):
        k = fit.names.index(name)
        half, nominal = fit.quantile * fit.standard_errors[k] / abs(true[k]), fit.nominal[k] / true[k]
        right.errorbar(fit.values[k] / true[k], row, xerr=half, color=BLUE, fmt="o", ms=3.5, lw=1.6, capsize=2.5)
        if abs(nominal - 1.0) < 0.4 and nominal != 0.0:
            right.plot(nominal, row, "D", color=ORANGE, ms=4.0)
    right.axvline(1.0, color=INK, lw=0.8)
    labelled(right, "Estimates with 95 % intervals", "over the true value (orange: nominal)", xlim=(0.75, 1.3))
    right.set_yticks(range(len(names)), [name.replace("_joint", "").replace("_", " ") for name in names], fontsize=9)
