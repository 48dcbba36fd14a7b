"""Draw docs/images/tutorial_pidog.png, tutorial_fourlimb.png and tutorial_wheeled_pendulum.png: what the three machines do.

    python tools/legs_pictures.py [docs/images]

They are the runs that `condyle demo` makes and `condyle verify` checks.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from picture_style import BLUE, FAINT, GREEN, INK, ORANGE, RED, VIOLET, labelled, save, sheet

from condyle.demos import fourlimb, pidog, wheel_run, wheeled_pendulum
from condyle.demos.pidog_legs import FEET, LEGS
from condyle.robot.library.pidog import EFFORT, FOOT_RADIUS
from condyle.runs.run import Run
from condyle.view.camera import framed
from condyle.view.picture import picture
from condyle.view.scene import FORCE, PUSH, Arrow, body
from condyle.view.trajectory import link_poses

SIZE = (1560, 560)
SIDES = (BLUE, ORANGE, GREEN, VIOLET)


def seen(
    done: Run,
    moments: Sequence[float],
    *,
    view: tuple[float, float],
    margin: float,
    per_newton: float,
    half: float = 0.0,
    **options: Any,
) -> Any:
    """The robot at the last of these times, and ghosts at the others, with the forces of that time as arrows."""
    steps = [min(round(t / done.dt), done.steps - 1) for t in moments]
    robot, k = done.robot, steps[-1]
    shapes = body(robot, "visual")
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


def two_rows(title: str, image: Any, panels: int) -> tuple[Any, Any]:
    figure = sheet(title, 13.0, 8.6)
    rows = figure.subfigures(2, 1, height_ratios=(1.0, 0.82))
    top = rows[0].subplots()
    top.imshow(image)
    top.set_axis_off()
    return figure, rows[1].subplots(1, panels)


def walking(path: Path) -> None:
    done = pidog.run()
    ends = pidog.timetable()
    way = done.x[:: round(0.02 / done.dt), :3].copy()
    way[:, 2] = 0.001
    image = seen(done, (0.5, 2.0, 3.4), view=(-72.0, 14.0), margin=0.9, per_newton=0.03, trail=way)
    figure, axes = two_rows("PiDog stands, walks two cycles of its maker's walk, and stands", image, 3)
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
    ax.plot(t[k], np.degrees(done.extras["reference"][k, 0]), color=FAINT, lw=1.2, label="LF leg, told")
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
    done = wheel_run.run()
    told = wheel_run.told(done)
    robot, whole = done.robot, wheeled_pendulum.whole()
    moments = (0.0, 0.12, 0.4)
    q = [np.array(robot.lift(done.q[round(m / done.dt)], np.zeros(2))[0]) for m in moments]
    shapes = body(whole, "visual")
    points = np.concatenate([shapes.at(*link_poses(whole, each)).vertices for each in q])
    camera = framed(points, SIZE, azimuth=-84.0, elevation=9.0, margin=0.86)
    image = picture(whole, q[-1], size=SIZE, camera=camera, ghosts=q[:-1])
    figure, axes = two_rows("The wheeled pendulum leans by 0.25 rad, rolls under itself, and is pushed after 4 s", image, 3)
    for ax in axes:
        ax.axvspan(wheeled_pendulum.PUSHED_AT, wheeled_pendulum.PUSHED_AT + 0.1, color=VIOLET, alpha=0.25, lw=0.0)
    axes[0].plot(done.t, done.x[:, 1], color=BLUE, lw=1.8, label="angle, rad")
    axes[0].plot(done.t, done.x[:, 0], color=ORANGE, lw=1.8, label="upper end, m")
    labelled(axes[0], "The two coordinates that remain", "time, s", "")
    axes[0].legend(frameon=False, fontsize=10)
    axes[1].plot(told.t[:-1], told.torque, color=BLUE, lw=1.6)
    for sign in (1.0, -1.0):
        axes[1].axhline(sign * wheeled_pendulum.TORQUE, color=INK, lw=0.8, ls=":")
    labelled(axes[1], "Torque of the motor, and its limit", "time, s", "N m")
    axes[2].plot(told.t[:-1], told.needed, color=BLUE, lw=1.6)
    axes[2].axhline(wheeled_pendulum.FRICTION, color=INK, lw=0.8, ls=":")
    axes[2].annotate("a dry floor", (7.95, wheeled_pendulum.FRICTION - 0.035), ha="right", fontsize=10)
    labelled(axes[2], "Friction that rolling needs", "time, s", "")
    save(figure, path)


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    for name, draw in (("pidog", walking), ("fourlimb", landing), ("wheeled_pendulum", balancing)):
        draw(folder / f"tutorial_{name}.png")
        print(folder / f"tutorial_{name}.png")


if __name__ == "__main__":
    main()
