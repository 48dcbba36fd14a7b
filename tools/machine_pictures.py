"""Draw the pictures of the tutorials of the birotor and the arm, from the runs that they show.

python tools/machine_pictures.py birotor        # writes docs/images/tutorial_birotor.png
python tools/machine_pictures.py all --to out   # writes out/tutorial_birotor.png and out/tutorial_arm.png
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from picture_style import BLUE, FAINT, GREEN, INK, ORANGE, RED, VIOLET, WASH, labelled, save, sheet

from condyle.demos import arm, arm_checks, arm_plan, birotor, birotor_checks, birotor_plan
from condyle.robot.library.birotor import SERVO_LAG, THRUST
from condyle.runs.run import Run
from condyle.view.camera import framed
from condyle.view.picture import picture
from condyle.view.scene import Arrow

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
SHOWN = (760, 1220)  # pixels of a robot's picture
ARROW = (0.48, 0.31, 0.71)
NEWTON = 0.025  # m of an arrow


def panels(title: str, image: np.ndarray) -> tuple[Any, list[Any]]:
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


# -- birotor


def flying(done: Run) -> np.ndarray:
    """In the circle, with its way and where it was, and the thrusts."""
    now, since = round(6.6 / done.dt), round(3.7 / done.dt)
    before = [since, now - round(0.95 / done.dt)]
    q = done.q[now]
    places = [birotor.robot().frame_pose(q, frame)[1] for frame in birotor.ROTORS]
    arrows = [Arrow(tuple(p), tuple(NEWTON * w[:3]), ARROW) for p, w in zip(places, done.wrenches[now], strict=True)]
    way = birotor.robot().center_of_mass(done.q[: round(8.7 / done.dt) : 20])
    near = framed(np.vstack([way, places]), SHOWN, azimuth=-52.0, elevation=12.0, margin=0.66)
    return picture(birotor.robot(), q, size=SHOWN, ghosts=done.q[before], arrows=arrows, trail=way, camera=near)


def draw_birotor(path: Path) -> None:
    done = birotor.run()
    figure, (place, tilt, thrust, servo) = panels("Birotor: it rises, flies a circle, tilted, and goes on", flying(done))
    t, wanted = done.t, done.extras["reference"]
    com = birotor.robot().center_of_mass(done.q)
    for k, (axis, color) in enumerate(zip("xyz", (RED, GREEN, BLUE), strict=True)):
        place.plot(t, com[:, k], color=color, lw=1.6)
        place.plot(t[:-1], wanted[:, k], color=INK, lw=0.8, ls=(0, (2, 2)))
        named(place, 3.35, com[round(3.4 / done.dt), k] + 0.035, axis, color)
    labelled(place, "centre of mass, and its plan (dotted)", "", "m")
    angle, heading = birotor_checks.headings(done.q)
    steady = np.degrees(np.arctan2(birotor_plan.RADIUS * birotor_plan.RATE**2, birotor_checks.GRAVITY))
    tilt.plot(t, np.degrees(angle), color=ORANGE)
    tilt.axhline(steady, color=INK, lw=0.8, ls=(0, (2, 2)))
    named(tilt, 0.0, steady + 2.0, "atan(a / g) of the circle", INK)
    named(tilt, 2.5, 6.0, "tilt", ORANGE, ha="center")
    tilt.plot(t, np.degrees(np.unwrap(heading)), color=VIOLET)
    named(tilt, 5.9, 75.0, "heading", VIOLET, ha="right")
    labelled(tilt, "tilt of the body, and its heading", "s", "degrees")
    thrust.plot(t[:-1], done.extras["thrusts"][:, 0], color=BLUE, lw=1.2)
    thrust.plot(t[:-1], done.extras["thrusts"][:, 1], color=RED, lw=1.2)
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
    """When the push ends, with the way drawn so far and where it began."""
    now = round((arm.PUSHED_AT + arm.PUSHED_FOR) / done.dt) - 1
    q = done.q[now]
    tool = arm.robot().frame_pose(q, arm.TOOL)[1]
    arrows = [Arrow(tuple(tool), tuple(NEWTON * np.array(arm.PUSH)), ARROW)]
    way = arm.robot().frame_pose(done.q[::10], arm.TOOL)[1]
    near = framed(
        np.vstack([way, way - [0.0, 0.0, 0.15], np.zeros((1, 3)), [[0.0, 0.15, 0.5]]]), SHOWN, azimuth=35.0, elevation=22.0
    )
    return picture(arm.robot(), q, size=SHOWN, ghosts=[done.q[0]], arrows=arrows, trail=way, camera=near)


def draw_arm(path: Path) -> None:
    done, plan = arm.run(), arm.way()
    figure, (away, angles, above, torque) = panels("Arm: it draws a rectangle and is pushed", drawing(done))
    t = plan.t
    pushed = (arm.PUSHED_AT, arm.PUSHED_AT + arm.PUSHED_FOR)
    away.semilogy(t[1:], 1e3 * arm_checks.errors(done)[1:], color=BLUE)
    away.set_ylim(3e-3, 500.0)
    named(away, pushed[0] - 0.15, 60.0, "pushed by 10 N for 0.2 s", VIOLET, va="center", ha="right")
    named(away, arm_plan.DRAWS + 0.1, 5.0, "draws", INK)
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
        ax.axvspan(0.0, arm_plan.DRAWS, color=WASH, lw=0, zorder=0)
        ax.set_xlim(0.0, t[-1])
    tool = arm.robot().frame_pose(done.q, arm.TOOL)[1]
    begin = round(arm_plan.DRAWS / done.dt)
    above.plot(tool[:begin, 0], tool[:begin, 1], color=FAINT, lw=1.0)
    above.plot(tool[begin:, 0], tool[begin:, 1], color=BLUE, lw=1.3)
    corners = np.vstack([arm_plan.corners(), arm_plan.corners()[:1]])
    above.plot(corners[:, 0], corners[:, 1], color=INK, lw=0.9, ls=(0, (2, 2)))
    above.set_aspect("equal", "datalim")
    labelled(above, "the tool from above", "x, m", "y, m")
    for k, (name, color) in enumerate(zip(("pan", "lift", "elbow"), (BLUE, RED, GREEN), strict=True)):
        torque.plot(t, done.u[:, k], color=color, lw=1.2, label=name)
    torque.legend(frameon=False, fontsize=9.5, loc="lower right", ncols=3, columnspacing=1.0, handlelength=1.2)
    torque.set_ylim(-17.0, 3.0)
    labelled(torque, "torques: mostly the arm's weight", "s", "N m")
    save(figure, path)


DRAWN = {"birotor": draw_birotor, "arm": draw_arm}


def main() -> None:
    parser = argparse.ArgumentParser(description="Draw the pictures of the tutorials of the birotor and the arm.")
    parser.add_argument("names", nargs="+", choices=[*DRAWN, "all"], metavar="NAME", help=", ".join([*DRAWN, "all"]))
    parser.add_argument("--to", type=Path, default=IMAGES, help="the folder to write to (docs/images)")
    given = parser.parse_args()
    for name in DRAWN if "all" in given.names else given.names:
        path = given.to / f"tutorial_{name}.png"
        DRAWN[name](path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
