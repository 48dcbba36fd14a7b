"""Draw the pictures of the tutorials, docs/images/tutorial_NAME.png, from the runs that `condyle verify NAME` checks.

python scripts/tutorial_pictures.py birotor
python scripts/tutorial_pictures.py all --to out
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from picture_style import BLUE, FAINT, GREEN, INK, ORANGE, RED, VIOLET, WASH, labelled, save, sheet

from condyle.apps.demos import arm, birotor, birotor_control, fourlimb, pidog, wheeled_pendulum
from condyle.apps.pidog import trajectories
from condyle.apps.pidog.kinematics import FEET, LEGS
from condyle.robot.library.birotor import SERVO_LAG, THRUST
from condyle.robot.library.pidog import EFFORT, FOOT_RADIUS
from condyle.workbench.runs.run import Run
from condyle.workbench.view.camera import framed
from condyle.workbench.view.picture import picture
from condyle.workbench.view.scene import FORCE, PUSH, Arrow, robot_mesh
from condyle.workbench.view.trajectory import link_poses

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
SIZE = (1560, 560)
SIDES = (BLUE, ORANGE, GREEN, VIOLET)
SHOWN = (760, 1220)  # pixels of a robot's picture beside charts
ARROW = (0.48, 0.31, 0.71)
NEWTON = 0.025  # m of an arrow


# -- on legs and wheels: a picture above three charts


def seen(
    done: Run,
    times: Sequence[float],
    *,
    view: tuple[float, float],
    margin: float,
    per_newton: float,
    half: float = 0.0,
    **options: Any,
) -> Any:
    """The robot at the last of these times, and ghosts at the others, with the forces of that time as arrows."""
    steps = [min(round(t / done.dt), done.steps - 1) for t in times]
    robot, k = done.robot, steps[-1]
    shapes = robot_mesh(robot)
    points = np.concatenate([shapes.at(*link_poses(robot, done.q[i])).vertices for i in steps])
    arrows = []
    for point, force in zip(done.simulation.contact_points, done.contact_forces[k], strict=True):
        R, p = (part[point.link] for part in link_poses(robot, done.q[k]))
        foot = R @ point.position + p - (0.0, 0.0, point.radius)
        if np.linalg.norm(force) * per_newton > 1e-3:
            arrows.append(Arrow(foot, force * per_newton, FORCE))
    for frame, wrench in zip(done.simulation.wrench_frames, done.wrenches[k], strict=True):
        if np.any(wrench):
            # it ends at the side of the torso
            along = wrench[:3] * per_newton
            at = robot.frame_pose(done.q[k], frame)[1] - half * wrench[:3] / np.linalg.norm(wrench[:3])
            arrows.append(Arrow(at - along, along, PUSH))
    camera = framed(points, SIZE, azimuth=view[0], elevation=view[1], margin=margin)
    return picture(robot, done.q[k], size=SIZE, camera=camera, ghosts=[done.q[i] for i in steps[:-1]], arrows=arrows, **options)


def two_rows(title: str, image: Any, charts: int) -> tuple[Any, Any]:
    figure = sheet(title, 13.0, 8.6)
    rows = figure.subfigures(2, 1, height_ratios=(1.0, 0.82))
    top = rows[0].subplots()
    top.imshow(image)
    top.set_axis_off()
    return figure, rows[1].subplots(1, charts)


def walking(path: Path) -> None:
    done = pidog.run()
    ends = trajectories.timetable()
    trail = done.x[:: round(0.02 / done.dt), :3].copy()
    trail[:, 2] = 0.001
    image = seen(done, (0.5, 2.0, 3.4), view=(-72.0, 14.0), margin=0.9, per_newton=0.03, trail=trail)
    figure, axes = two_rows("PiDog stands, walks two cycles of its manufacturer's walk, and stands", image, 3)
    t = done.t
    ax = axes[0]
    for end in ends:
        ax.axvline(end, color=FAINT, lw=0.8, ls=":")
    ax.plot(t, 1e3 * done.x[:, 0], color=BLUE, lw=1.8, label="forward")
    rate = 91.43 / (ends[-1] - ends[-2])
    there = np.array(ends)
    ideal = 1e3 * np.interp(ends[-1], t, done.x[:, 0]) + rate * (there - ends[-1])
    ax.plot(there, ideal, color=RED, lw=1.0, ls="--", label="91.4 mm a cycle")
    ax.plot(t, 1e3 * done.x[:, 2], color=GREEN, lw=1.8, label="height")
    labelled(ax, "Where the torso is", "time, s", "mm")
    ax.legend(frameon=False, fontsize=10, loc="upper left")
    ax = axes[1]
    for i, (foot, color) in enumerate(zip(FEET, SIDES, strict=True)):
        high = 1e3 * (done.robot.frame_pose(done.q, foot)[1][:, 2] - FOOT_RADIUS)
        ax.plot(t, np.maximum(high, 0.0) - 25.0 * i, color=color, lw=1.6)
        ax.annotate(LEGS[i], (0.15, -25.0 * i + 3.0), color=color, fontsize=11, weight="bold")
    labelled(ax, "Feet above the ground; lines 25 mm apart", "time, s", "")
    ax.set_xlim(0.0, 5.0)
    ax.set_yticks([])
    ax = axes[2]
    k = slice(round(ends[0] / done.dt), round(ends[1] / done.dt))
    ax.plot(t[k], np.degrees(done.extras["reference"][k, 0]), color=FAINT, lw=1.2, label="LF leg, command")
    ax.plot(t[k], np.degrees(done.q[k, 7]), color=BLUE, lw=1.6, label="LF leg")
    labelled(ax, "A servo follows, in one cycle", "time, s", "degrees")
    twin = ax.twinx()
    twin.plot(t[k], np.abs(done.u[k, 1]) / EFFORT, color=ORANGE, lw=1.0, alpha=0.8)
    twin.set_ylim(0.0, 3.0)
    twin.set_yticks([0.0, 0.5, 1.0])
    twin.set_ylabel("LF foot: torque / 0.216 N m", color=ORANGE, fontsize=10)
    twin.spines["top"].set_visible(False)
    ax.set_ylim(-45.0, 95.0)
    ax.legend(frameon=False, fontsize=10, loc="upper center")
    save(figure, path)


def landing(path: Path) -> None:
    done = fourlimb.run()
    image = seen(done, (0.0, 2.149), view=(-38.0, 12.0), margin=0.84, per_newton=0.0009, half=0.21)
    figure, axes = two_rows("100 kg on four limbs: dropped by 0.15 m, then pushed from the right with 500 N", image, 3)
    t, weight = done.t, done.robot.mass * 9.81
    for ax in axes:
        ax.axvspan(fourlimb.PUSHED_AT, fourlimb.PUSHED_AT + fourlimb.PUSHED_FOR, color=VIOLET, alpha=0.18, lw=0.0)
    axes[0].plot(t, done.x[:, 2], color=BLUE, lw=1.8, label="height")
    axes[0].plot(t, 0.6 + done.x[:, 1], color=ORANGE, lw=1.8, label="to the left, + 0.6")
    axes[0].plot(t, 0.6 + done.x[:, 0], color=FAINT, lw=1.2, label="forward, + 0.6")
    labelled(axes[0], "Where the torso is", "time, s", "m")
    axes[0].legend(frameon=False, fontsize=10)
    # front and hind feet carry the same
    for i, (name, color) in enumerate((("left feet, each", BLUE), ("right feet, each", ORANGE))):
        axes[1].plot(t[:-1], done.contact_forces[:, i, 2], color=color, lw=1.2, label=name)
    axes[1].axhline(weight / 4.0, color=INK, lw=0.8, ls=":")
    axes[1].set_ylim(0.0, 1000.0)
    labelled(axes[1], "Normal forces; dotted: a quarter of the weight", "time, s", "N")
    axes[1].legend(frameon=False, fontsize=10, loc="upper right")
    axes[2].plot(t, np.degrees(fourlimb.tilt(done.x)), color=RED, lw=1.8)
    labelled(axes[2], "Tilt of the torso", "time, s", "degrees")
    save(figure, path)


def balancing(path: Path) -> None:
    done = wheeled_pendulum.run()
    robot, free = done.robot, wheeled_pendulum.unconstrained()
    times = (0.0, 0.12, 0.4)
    q = [np.array(robot.lift(done.q[round(m / done.dt)], np.zeros(2))[0]) for m in times]
    shapes = robot_mesh(free)
    points = np.concatenate([shapes.at(*link_poses(free, each)).vertices for each in q])
    camera = framed(points, SIZE, azimuth=-84.0, elevation=9.0, margin=0.86)
    image = picture(free, q[-1], size=SIZE, camera=camera, ghosts=q[:-1])
    figure, axes = two_rows("The wheeled pendulum leans by 0.25 rad, rolls under itself, and is pushed after 4 s", image, 3)
    for ax in axes:
        ax.axvspan(wheeled_pendulum.PUSHED_AT, wheeled_pendulum.PUSHED_AT + 0.1, color=VIOLET, alpha=0.25, lw=0.0)
    axes[0].plot(done.t, done.x[:, 1], color=BLUE, lw=1.8, label="angle, rad")
    axes[0].plot(done.t, done.x[:, 0], color=ORANGE, lw=1.8, label="upper end, m")
    labelled(axes[0], "The two coordinates that remain", "time, s", "")
    axes[0].legend(frameon=False, fontsize=10)
    axes[1].plot(done.t[:-1], done.u[:, 0], color=BLUE, lw=1.6)
    for sign in (1.0, -1.0):
        axes[1].axhline(sign * wheeled_pendulum.TORQUE, color=INK, lw=0.8, ls=":")
    labelled(axes[1], "Torque of the motor, and its limit", "time, s", "N m")
    axes[2].plot(done.t[:-1], wheeled_pendulum.friction_needed(done), color=BLUE, lw=1.6)
    axes[2].axhline(wheeled_pendulum.FRICTION, color=INK, lw=0.8, ls=":")
    axes[2].annotate("a dry floor", (7.95, wheeled_pendulum.FRICTION - 0.035), ha="right", fontsize=10)
    labelled(axes[2], "Friction that rolling needs", "time, s", "")
    save(figure, path)


def charts(title: str, image: np.ndarray) -> tuple[Any, list[Any]]:
    """A sheet with a picture on the left and four charts on the right."""
    figure = sheet(title, 12.0, 8.0)
    spec = figure.add_gridspec(3, 3, width_ratios=(1.25, 1.0, 1.0))
    left = figure.add_subplot(spec[:, 0])
    left.imshow(image, interpolation="lanczos")
    left.set_axis_off()
    charts = [figure.add_subplot(spec[0, 1:]), figure.add_subplot(spec[1, 1:]), figure.add_subplot(spec[2, 1])]
    return figure, [*charts, figure.add_subplot(spec[2, 2])]


def named(ax: Any, x: float, y: float, text: str, color: str, **options: Any) -> None:
    """A word beside its curve."""
    ax.text(x, y, text, color=color, fontsize=9.5, **options)


# -- birotor and arm: a picture beside four charts


def flying(done: Run) -> np.ndarray:
    """In the circle, with its path and where it was, and the thrusts."""
    now, since = round(6.6 / done.dt), round(3.7 / done.dt)
    before = [since, now - round(0.95 / done.dt)]
    q = done.q[now]
    places = [birotor.robot().frame_pose(q, frame)[1] for frame in birotor.ROTORS]
    arrows = [Arrow(tuple(p), tuple(NEWTON * w[:3]), ARROW) for p, w in zip(places, done.wrenches[now], strict=True)]
    trail = birotor.robot().center_of_mass(done.q[: round(8.7 / done.dt) : 20])
    near = framed(np.vstack([trail, places]), SHOWN, azimuth=-52.0, elevation=12.0, margin=0.66)
    return picture(birotor.robot(), q, size=SHOWN, ghosts=done.q[before], arrows=arrows, trail=trail, camera=near)


def flight(path: Path) -> None:
    sys.path.insert(0, str(ROOT / "tests"))
    from apps.demos import birotor_checks

    done = birotor.run()
    figure, (place, tilt, thrust, servo) = charts("Birotor: it rises, flies a circle, tilted, and goes on", flying(done))
    t, wanted = done.t, done.extras["reference"]
    com = birotor.robot().center_of_mass(done.q)
    for k, (axis, color) in enumerate(zip("xyz", (RED, GREEN, BLUE), strict=True)):
        place.plot(t, com[:, k], color=color, lw=1.6)
        place.plot(t[:-1], wanted[:, k], color=INK, lw=0.8, ls=(0, (2, 2)))
        named(place, 3.35, com[round(3.4 / done.dt), k] + 0.035, axis, color)
    labelled(place, "centre of mass, and its plan (dotted)", "", "m")
    angle, heading = birotor.tilt_and_heading(done.q)
    steady = np.degrees(np.arctan2(birotor_control.RADIUS * birotor_control.RATE**2, birotor.GRAVITY))
    tilt.plot(t, np.degrees(angle), color=ORANGE)
    tilt.axhline(steady, color=INK, lw=0.8, ls=(0, (2, 2)))
    named(tilt, 0.0, steady + 2.0, "atan(a / g) of the circle", INK)
    named(tilt, 2.5, 6.0, "tilt", ORANGE, ha="center")
    tilt.plot(t, np.degrees(np.unwrap(heading)), color=VIOLET)
    named(tilt, 5.9, 75.0, "heading", VIOLET, ha="right")
    labelled(tilt, "tilt of the body, and its heading", "s", "degrees")
    thrust.plot(t[:-1], done.extras["law.thrusts"][:, 0], color=BLUE, lw=1.2)
    thrust.plot(t[:-1], done.extras["law.thrusts"][:, 1], color=RED, lw=1.2)
    named(thrust, 8.3, 8.6, "rotor 1", BLUE)
    named(thrust, 8.3, 6.1, "rotor 2", RED)
    labelled(thrust, f"thrusts; from {THRUST[0]:g} to {THRUST[1]:g} N possible", "s", "N")
    t, a, _ = birotor_checks.servo_step()
    servo.plot(t, a / birotor_checks.STEP, color=BLUE, lw=2.2)
    servo.plot(t, 1.0 - np.exp(-t / SERVO_LAG), color=INK, lw=0.9, ls=(0, (2, 2)))
    t, a = birotor_checks.spring_step(seconds=1.2)
    servo.plot(t, a / birotor_checks.STEP, color=FAINT)
    named(servo, 1.2, 1.08, "a lag", BLUE, ha="right")
    named(servo, 0.62, 1.8, "(I/t)(cmd - a):\na spring", FAINT, ha="right", va="center")
    labelled(servo, "a gimbal after its command jumps", "s", "of the step")
    save(figure, path)


# -- arm


def drawing(done: Run) -> np.ndarray:
    """When the push ends, with the path drawn so far and where it began."""
    now = round((arm.PUSHED_AT + arm.PUSHED_FOR) / done.dt) - 1
    q = done.q[now]
    tool = arm.robot().frame_pose(q, arm.TOOL)[1]
    arrows = [Arrow(tuple(tool), tuple(NEWTON * np.array(arm.PUSH)), ARROW)]
    trail = arm.robot().frame_pose(done.q[::10], arm.TOOL)[1]
    near = framed(
        np.vstack([trail, trail - [0.0, 0.0, 0.15], np.zeros((1, 3)), [[0.0, 0.15, 0.5]]]), SHOWN, azimuth=35.0, elevation=22.0
    )
    return picture(arm.robot(), q, size=SHOWN, ghosts=[done.q[0]], arrows=arrows, trail=trail, camera=near)


def rectangle(path: Path) -> None:
    done, plan = arm.run(), arm.trajectory()
    figure, (away, angles, above, torque) = charts("Arm: it draws a rectangle and is pushed", drawing(done))
    t = plan.t
    pushed = (arm.PUSHED_AT, arm.PUSHED_AT + arm.PUSHED_FOR)
    away.semilogy(t[1:], 1e3 * arm.tool_errors(done)[1:], color=BLUE)
    away.set_ylim(3e-3, 500.0)
    named(away, pushed[0] - 0.15, 60.0, "pushed by 10 N for 0.2 s", VIOLET, va="center", ha="right")
    named(away, arm.DRAWS + 0.1, 5.0, "draws", INK)
    named(away, 0.15, 1.0, "approaches", INK)
    labelled(away, "tool from its plan", "", "mm")
    off = done.q[:-1] - done.extras["reference"]
    for k, (name, color) in enumerate(
        zip(("pan", "lift", "elbow", "wrist 1", "wrist 2"), (BLUE, RED, GREEN, INK, VIOLET), strict=True)
    ):
        angles.plot(t, off[:, k], color=color, label=name, lw=1.3)
    angles.legend(frameon=False, fontsize=9.5, loc="lower right", ncols=3)
    labelled(angles, "joints from their plan", "s", "rad")
    for ax in (away, angles):
        ax.axvspan(*pushed, color=VIOLET, alpha=0.18, lw=0)
        ax.axvspan(0.0, arm.DRAWS, color=WASH, lw=0, zorder=0)
        ax.set_xlim(0.0, t[-1])
    tool = arm.robot().frame_pose(done.q, arm.TOOL)[1]
    begin = round(arm.DRAWS / done.dt)
    above.plot(tool[:begin, 0], tool[:begin, 1], color=FAINT, lw=1.0)
    above.plot(tool[begin:, 0], tool[begin:, 1], color=BLUE, lw=1.3)
    corners = np.vstack([arm.corners(), arm.corners()[:1]])
    above.plot(corners[:, 0], corners[:, 1], color=INK, lw=0.9, ls=(0, (2, 2)))
    above.set_aspect("equal", "datalim")
    labelled(above, "the tool from above", "x, m", "y, m")
    for k, (name, color) in enumerate(zip(("pan", "lift", "elbow"), (BLUE, RED, GREEN), strict=True)):
        torque.plot(t, done.u[:, k], color=color, lw=1.2, label=name)
    torque.legend(frameon=False, fontsize=9.5, loc="lower right", ncols=3, columnspacing=1.0, handlelength=1.2)
    torque.set_ylim(-17.0, 3.0)
    labelled(torque, "torques: mostly the arm's weight", "s", "N m")
    save(figure, path)


DRAWN = {"birotor": flight, "arm": rectangle, "wheeled_pendulum": balancing, "pidog": walking, "fourlimb": landing}


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the pictures of the tutorials.")
    parser.add_argument("names", nargs="+", choices=[*DRAWN, "all"], metavar="NAME", help=", ".join([*DRAWN, "all"]))
    parser.add_argument("--to", type=Path, default=IMAGES, help="the folder to write to (docs/images)")
    given = parser.parse_args()
    for name in DRAWN if "all" in given.names else given.names:
        path = given.to / f"tutorial_{name}.png"
        DRAWN[name](path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
