"""Pictures of the tutorials and of constraints, from the runs that `condyle verify NAME` checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from plots.style import BLUE, FAINT, GREEN, INK, ORANGE, RED, VIOLET, WASH, columns, labelled, levels, picture, program, show

from condyle.apps.demos import arm, birotor, birotor_control, fourlimb, pidog, two_wheeled, wheeled_pendulum
from condyle.apps.pidog import trajectories
from condyle.apps.pidog.kinematics import FEET, LEGS
from condyle.robot.library.birotor import SERVO_LAG, THRUST
from condyle.robot.library.pidog import EFFORT, FOOT_RADIUS
from condyle.workbench.runs.run import Run
from condyle.workbench.view.camera import framed
from condyle.workbench.view.picture import picture as render
from condyle.workbench.view.scene import FORCE, PUSH, Arrow, robot_mesh
from condyle.workbench.view.trajectory import frame_positions, link_poses, trajectory

WIDE, TALL = (1560, 560), (760, 1220)  # pixels of a robot above charts, and beside them
DOTTED = {"color": INK, "lw": 0.8, "ls": ":"}
DASHED = {"color": INK, "lw": 0.8, "ls": (0, (2, 2))}
THRUSTS = ((0.48, 0.31, 0.71), 0.025)  # colour of arrows, m per newton


# -- on legs and wheels: a picture above three charts


def above_charts(figure: Any, image: Any) -> Any:
    """The axes of three charts under an image."""
    rows = figure.subfigures(2, 1, height_ratios=(1.0, 0.82))
    show(rows[0].subplots(), image)
    return rows[1].subplots(1, 3)


def with_forces(
    done: Run,
    times: Sequence[float],
    view: tuple[float, float],
    margin: float,
    per_newton: float,
    half: float = 0.0,
    **options: Any,
) -> Any:
    """The robot at the last of these times, and ghosts at the others, with the forces of that time as arrows."""
    steps, robot, shapes = [min(round(t / done.dt), done.steps - 1) for t in times], done.robot, robot_mesh(done.robot)
    k, arrows = steps[-1], []
    points = np.concatenate([shapes.at(*link_poses(robot, done.q[i])).vertices for i in steps])
    for point, force in zip(done.simulation.contact_points, done.contact_forces[k], strict=True):
        R, p = (part[point.link] for part in link_poses(robot, done.q[k]))
        if np.linalg.norm(force) * per_newton > 1e-3:
            arrows.append(Arrow(R @ point.position + p - (0.0, 0.0, point.radius), force * per_newton, FORCE))
    for frame, wrench in zip(done.simulation.wrench_frames, done.wrenches[k], strict=True):
        if np.any(wrench):
            # it ends at the side of the torso
            along = wrench[:3] * per_newton
            at = robot.frame_pose(done.q[k], frame)[1] - half * wrench[:3] / np.linalg.norm(wrench[:3])
            arrows.append(Arrow(at - along, along, PUSH))
    camera = framed(points, WIDE, azimuth=view[0], elevation=view[1], margin=margin)
    return render(robot, done.q[k], size=WIDE, camera=camera, ghosts=[done.q[i] for i in steps[:-1]], arrows=arrows, **options)


@picture("PiDog stands, walks two cycles of its manufacturer's walk, and stands", 13.0, 8.6)
def tutorial_pidog(figure: Any) -> None:
    done, ends = pidog.run(), np.array(trajectories.timetable())
    trail, t = done.x[:: round(0.02 / done.dt), :3].copy(), done.t
    trail[:, 2] = 0.001
    place, feet, servo = above_charts(figure, with_forces(done, (0.5, 2.0, 3.4), (-72.0, 14.0), 0.9, 0.03, trail=trail))
    for end in ends:
        place.axvline(end, color=FAINT, lw=0.8, ls=":")
    place.plot(t, 1e3 * done.x[:, 0], color=BLUE, lw=1.8, label="forward")
    ideal = 1e3 * np.interp(ends[-1], t, done.x[:, 0]) + 91.43 / (ends[-1] - ends[-2]) * (ends - ends[-1])
    place.plot(ends, ideal, color=RED, lw=1.0, ls="--", label="91.4 mm a cycle")
    place.plot(t, 1e3 * done.x[:, 2], color=GREEN, lw=1.8, label="height")
    labelled(place, "Where the torso is", "time, s", "mm", "upper left")
    for i, (foot, color) in enumerate(zip(FEET, (BLUE, ORANGE, GREEN, VIOLET), strict=True)):
        high = 1e3 * (done.robot.frame_pose(done.q, foot)[1][:, 2] - FOOT_RADIUS)
        feet.plot(t, np.maximum(high, 0.0) - 25.0 * i, color=color, lw=1.6)
        feet.annotate(LEGS[i], (0.15, -25.0 * i + 3.0), color=color, fontsize=11, weight="bold")
    labelled(feet, "Feet above the ground; lines 25 mm apart", "time, s", xlim=(0.0, 5.0), yticks=[])
    k = slice(round(ends[0] / done.dt), round(ends[1] / done.dt))
    servo.plot(t[k], np.degrees(done.extras["reference"][k, 0]), color=FAINT, lw=1.2, label="LF leg, command")
    servo.plot(t[k], np.degrees(done.q[k, 7]), color=BLUE, lw=1.6, label="LF leg")
    labelled(servo, "A servo follows, in one cycle", "time, s", "degrees", "upper center", ylim=(-45.0, 95.0))
    twin = servo.twinx()
    twin.plot(t[k], np.abs(done.u[k, 1]) / EFFORT, color=ORANGE, lw=1.0, alpha=0.8)
    twin.set(ylim=(0.0, 3.0), yticks=[0.0, 0.5, 1.0])
    twin.set_ylabel("LF foot: torque / 0.216 N m", color=ORANGE, fontsize=10)
    twin.spines["top"].set_visible(False)


@picture("100 kg on four limbs: dropped by 0.15 m, then pushed from the right with 500 N", 13.0, 8.6)
def tutorial_fourlimb(figure: Any) -> None:
    done = fourlimb.run()
    t, weight = done.t, done.robot.mass * 9.81
    place, force, tilt = axes = above_charts(figure, with_forces(done, (0.0, 2.149), (-38.0, 12.0), 0.84, 0.0009, 0.21))
    for ax in axes:
        ax.axvspan(fourlimb.PUSHED_AT, fourlimb.PUSHED_AT + fourlimb.PUSHED_FOR, color=VIOLET, alpha=0.18, lw=0.0)
    place.plot(t, done.x[:, 2], color=BLUE, lw=1.8, label="height")
    place.plot(t, 0.6 + done.x[:, 1], color=ORANGE, lw=1.8, label="to the left, + 0.6")
    place.plot(t, 0.6 + done.x[:, 0], color=FAINT, lw=1.2, label="forward, + 0.6")
    labelled(place, "Where the torso is", "time, s", "m", "best")
    # front and hind feet carry the same
    columns(force, t[:-1], done.contact_forces[..., 2], ("left feet, each", "right feet, each"), lw=1.2)
    levels(force, weight / 4.0, **DOTTED)
    title = "Normal forces; dotted: a quarter of the weight"
    labelled(force, title, "time, s", "N", "upper right", ylim=(0.0, 1000.0))
    tilt.plot(t, np.degrees(fourlimb.tilt(done.x)), color=RED, lw=1.8)
    labelled(tilt, "Tilt of the torso", "time, s", "degrees")


@picture("The wheeled pendulum leans by 0.25 rad, rolls under itself, and is pushed after 4 s", 13.0, 8.6)
def tutorial_wheeled_pendulum(figure: Any) -> None:
    done, free = wheeled_pendulum.run(), wheeled_pendulum.unconstrained()
    q = [np.array(done.robot.lift(done.q[round(t / done.dt)], np.zeros(2))[0]) for t in (0.0, 0.12, 0.4)]
    points = np.concatenate([robot_mesh(free).at(*link_poses(free, each)).vertices for each in q])
    camera = framed(points, WIDE, azimuth=-84.0, elevation=9.0, margin=0.86)
    where, torque, friction = axes = above_charts(figure, render(free, q[-1], size=WIDE, camera=camera, ghosts=q[:-1]))
    for ax in axes:
        ax.axvspan(wheeled_pendulum.PUSHED_AT, wheeled_pendulum.PUSHED_AT + 0.1, color=VIOLET, alpha=0.25, lw=0.0)
    columns(where, done.t, done.x[:, [1, 0]], ("angle, rad", "upper end, m"), lw=1.8)
    labelled(where, "The two coordinates that remain", "time, s", "", "best")
    torque.plot(done.t[:-1], done.u[:, 0], color=BLUE, lw=1.6)
    levels(torque, wheeled_pendulum.TORQUE, -wheeled_pendulum.TORQUE, **DOTTED)
    labelled(torque, "Torque of the motor, and its limit", "time, s", "N m")
    friction.plot(done.t[:-1], wheeled_pendulum.friction_needed(done), color=BLUE, lw=1.6)
    levels(friction, wheeled_pendulum.FRICTION, **DOTTED)
    friction.annotate("a dry floor", (7.95, wheeled_pendulum.FRICTION - 0.035), ha="right", fontsize=10)
    labelled(friction, "Friction that rolling needs", "time, s")


# -- birotor and arm: a picture beside four charts


def beside_charts(figure: Any, image: np.ndarray) -> list[Any]:
    """The axes of four charts to the right of an image."""
    spec = figure.add_gridspec(3, 3, width_ratios=(1.25, 1.0, 1.0))
    show(figure.add_subplot(spec[:, 0]), image, interpolation="lanczos")
    return [figure.add_subplot(spec[at]) for at in ((0, slice(1, 3)), (1, slice(1, 3)), (2, 1), (2, 2))]


def words(ax: Any, x: float, y: float, text: str, color: str, **options: Any) -> None:
    """Text beside its curve."""
    ax.text(x, y, text, color=color, fontsize=9.5, **options)


@picture("Birotor: it rises, flies a circle, tilted, and goes on", 12.0, 8.0)
def tutorial_birotor(figure: Any) -> None:
    from apps.demos import birotor_checks

    done, robot = birotor.run(), birotor.robot()
    # in the circle, with its path and where it was, and the thrusts
    k, ghosts, com = round(6.6 / done.dt), [round(3.7 / done.dt), round(5.65 / done.dt)], robot.center_of_mass(done.q)
    places, (color, per_newton) = [robot.frame_pose(done.q[k], frame)[1] for frame in birotor.ROTORS], THRUSTS
    arrows = [Arrow(tuple(p), tuple(per_newton * w[:3]), color) for p, w in zip(places, done.wrenches[k], strict=True)]
    trail = com[: round(8.7 / done.dt) : 20]
    camera = framed(np.vstack([trail, places]), TALL, azimuth=-52.0, elevation=12.0, margin=0.66)
    image = render(robot, done.q[k], size=TALL, ghosts=done.q[ghosts], arrows=arrows, trail=trail, camera=camera)
    place, tilt, thrust, servo = beside_charts(figure, image)
    t = done.t
    place.plot(t[:-1], done.extras["reference"][:, :3], **DASHED)
    columns(place, t, com, "xyz", (RED, GREEN, BLUE), lw=1.6)
    for axis, color, height in zip("xyz", (RED, GREEN, BLUE), com[round(3.4 / done.dt)], strict=True):
        words(place, 3.35, height + 0.035, axis, color)
    labelled(place, "centre of mass, and its plan (dotted)", "", "m")
    angle, heading = birotor.tilt_and_heading(done.q)
    steady = np.degrees(np.arctan2(birotor_control.RADIUS * birotor_control.RATE**2, birotor.GRAVITY))
    tilt.plot(t, np.degrees(angle), color=ORANGE)
    levels(tilt, steady, **DASHED)
    words(tilt, 0.0, steady + 2.0, "atan(a / g) of the circle", INK)
    words(tilt, 2.5, 6.0, "tilt", ORANGE, ha="center")
    tilt.plot(t, np.degrees(np.unwrap(heading)), color=VIOLET)
    words(tilt, 5.9, 75.0, "heading", VIOLET, ha="right")
    labelled(tilt, "tilt of the body, and its heading", "s", "degrees")
    columns(thrust, t[:-1], done.extras["law.thrusts"], (None, None), (BLUE, RED), lw=1.2)
    words(thrust, 8.3, 8.6, "rotor 1", BLUE)
    words(thrust, 8.3, 6.1, "rotor 2", RED)
    labelled(thrust, f"thrusts; from {THRUST[0]:g} to {THRUST[1]:g} N possible", "s", "N")
    t, a, _ = birotor_checks.servo_step()
    servo.plot(t, a / birotor_checks.STEP, color=BLUE, lw=2.2)
    servo.plot(t, 1.0 - np.exp(-t / SERVO_LAG), **DASHED)
    t, a = birotor_checks.spring_step(seconds=1.2)
    servo.plot(t, a / birotor_checks.STEP, color=FAINT)
    words(servo, 1.2, 1.08, "a lag", BLUE, ha="right")
    words(servo, 0.62, 1.8, "(I/t)(cmd - a):\na spring", FAINT, ha="right", va="center")
    labelled(servo, "a gimbal after its command jumps", "s", "of the step")


@picture("Arm: it draws a rectangle and is pushed", 12.0, 8.0)
def tutorial_arm(figure: Any) -> None:
    done, robot, t = arm.run(), arm.robot(), arm.trajectory().t
    pushed, names, colors = (
        (arm.PUSHED_AT, arm.PUSHED_AT + arm.PUSHED_FOR),
        ("pan", "lift", "elbow", "wrist 1", "wrist 2"),
        (BLUE, RED, GREEN, INK, VIOLET),
    )
    tool = robot.frame_pose(done.q, arm.TOOL)[1]
    # when the push ends, with the path drawn so far and where it began
    k, trail, (color, per_newton) = round(pushed[1] / done.dt) - 1, tool[::10], THRUSTS
    arrows = [Arrow(tuple(tool[k]), tuple(per_newton * np.array(arm.PUSH)), color)]
    corners = np.vstack([trail, trail - [0.0, 0.0, 0.15], np.zeros((1, 3)), [[0.0, 0.15, 0.5]]])
    camera = framed(corners, TALL, azimuth=35.0, elevation=22.0)
    image = render(robot, done.q[k], size=TALL, ghosts=[done.q[0]], arrows=arrows, trail=trail, camera=camera)
    away, angles, above, torque = beside_charts(figure, image)
    away.semilogy(t[1:], 1e3 * arm.tool_errors(done)[1:], color=BLUE)
    words(away, pushed[0] - 0.15, 60.0, "pushed by 10 N for 0.2 s", VIOLET, va="center", ha="right")
    words(away, arm.DRAWS + 0.1, 5.0, "draws", INK)
    words(away, 0.15, 1.0, "approaches", INK)
    labelled(away, "tool from its plan", "", "mm", ylim=(3e-3, 500.0))
    columns(angles, t, done.q[:-1] - done.extras["reference"], names, colors, lw=1.3)
    legend = {"fontsize": 9.5, "loc": "lower right", "ncols": 3}
    labelled(angles, "joints from their plan", "s", "rad", legend)
    for ax in (away, angles):
        ax.axvspan(*pushed, color=VIOLET, alpha=0.18, lw=0)
        ax.axvspan(0.0, arm.DRAWS, color=WASH, lw=0, zorder=0)
        ax.set_xlim(0.0, t[-1])
    begin, path = round(arm.DRAWS / done.dt), np.vstack([arm.corners(), arm.corners()[:1]])
    above.plot(tool[:begin, 0], tool[:begin, 1], color=FAINT, lw=1.0)
    above.plot(tool[begin:, 0], tool[begin:, 1], color=BLUE, lw=1.3)
    above.plot(path[:, 0], path[:, 1], **DASHED)
    above.set_aspect("equal", "datalim")
    labelled(above, "the tool from above", "x, m", "y, m")
    columns(torque, t, done.u, names[:3], colors, lw=1.2)
    legend |= {"columnspacing": 1.0, "handlelength": 1.2}
    labelled(torque, "torques: mostly the arm's weight", "s", "N m", legend, ylim=(-17.0, 3.0))


# -- constraints


@picture("On two wheels once around a figure of eight, balancing", 12.5, 5.4)
def figure_of_eight(figure: Any) -> None:
    done = two_wheeled.run()
    left, right = figure.subfigures(1, 2, width_ratios=(1.55, 1.0))
    shown, length = trajectory(done.robot, done.t, done.q), np.cumsum(np.abs(two_wheeled.plan().speed))
    # poses evenly spaced along the path, away from the crossing
    *ghosts, last = shown.q[np.searchsorted(length / length[-1], (np.arange(10) + 0.5) / 10.0)]
    axle, size = frame_positions(shown.robot, shown.R, shown.p, "axle")[::20], (1200, 720)
    camera = framed(axle, size, azimuth=-90.0, elevation=50.0, margin=0.72)
    image = render(shown.robot, last, ghosts=ghosts, trail=axle, size=size, camera=camera)
    show(left.subplots(), image, "the path of the axle's centre and ten poses along it")
    top, middle, low = right.subplots(3, 1, sharex=True)
    state, forces = two_wheeled.State.of(done.x), two_wheeled.ground_forces(done)
    top.plot(done.t, state.speed, color=BLUE, label="speed ahead, m/s")
    top.plot(done.t, state.yaw_rate / 10.0, color=ORANGE, label="turning rate / 10, rad/s")
    legend = {"fontsize": 9, "loc": "upper right", "bbox_to_anchor": (1.01, 1.0), "handlelength": 1.2}
    labelled(top, "How it moves", legend=legend, xlim=(-0.4, 12.5))
    middle.plot(done.t, 1e3 * state.pitch, color=BLUE)
    labelled(middle, "Pitch", "", "mrad")
    for name, color in zip(two_wheeled.MOTORS, (BLUE, ORANGE), strict=True):
        low.plot(done.t[:-1], forces[f"{name}.normal"], color=color, label=name.replace("_", " "))
    labelled(low, "Normal forces", "time, s", "N", {"fontsize": 9})


@picture("A crank-rocker: one coordinate, one loop, closed inside the kernel", 12.5, 5.2, ncols=2, width_ratios=(1.15, 1.0))
def four_bar(left: Any, right: Any) -> None:
    """The linkage of the page, the curve of a point of its coupler, and the rocker's rate by the page's map and by hand."""
    p, crank = program("constraints"), np.linspace(0.0, 2.0 * np.pi, 721)
    q, v = p["linkage"].lift(crank[:, None], np.ones((721, 1)))
    (r, coupler, rocker), ground = p["bars"].values(), np.array([1.0, 0.0])

    def along(angle: np.ndarray) -> np.ndarray:
        return np.stack([np.cos(angle), -np.sin(angle)], axis=-1)

    knee, tip, angle = r * along(crank), ground + rocker * along(q[:, 2]), crank + q[:, 1]
    pen = knee + 0.45 * along(angle) + 0.35 * np.stack([np.sin(angle), np.cos(angle)], axis=-1)
    left.plot(*pen.T, color=ORANGE, lw=1.8)
    for k, strength in ((300, 0.25), (540, 0.25), (60, 1.0)):
        style = {"lw": 4.0, "solid_capstyle": "round", "alpha": strength}
        if strength == 1.0:
            left.fill(*np.transpose([knee[k], tip[k], pen[k]]), color=FAINT, alpha=0.2, lw=0.0)
        for start, end, color in ((knee, tip, INK), (0.0 * knee, knee, RED), (ground + 0.0 * tip, tip, BLUE)):
            left.plot(*np.transpose([start[k], end[k]]), color=color, **style)
        left.plot(*pen[k], "o", color=ORANGE, ms=7.0, alpha=strength)
    left.plot([0.0, 1.0], [0.0, 0.0], "^", color=INK, ms=10.0)
    left.set_aspect("equal")
    labelled(left, "The curve of a point of the coupler (crank red, rocker blue)", "x, m", "z, m")
    # the closure by hand: the triangle of coupler and rocker on the line from the knee to the ground
    way = ground - knee
    span = np.hypot(*way.T)[:, None]
    beyond = (span**2 + coupler**2 - rocker**2) / (2.0 * span)
    end = knee + (beyond * way + np.sqrt(coupler**2 - beyond**2) * np.stack([-way[:, 1], way[:, 0]], axis=-1)) / span
    of_coupler, of_rocker = (np.arctan2(-bar[:, 1], bar[:, 0]) for bar in (end - knee, end - ground))
    rate = r * np.sin(crank - of_coupler) / (rocker * np.sin(of_rocker - of_coupler))
    right.plot(crank[::12], rate[::12], "o", color=FAINT, ms=5.0, label="by hand")
    right.plot(crank, v[:, 2], color=BLUE, lw=1.6, label="the entry of T")
    levels(right, 0.0)
    labelled(right, "Rate of the rocker for one of the crank", "crank angle, rad", "", {"fontsize": 9})
