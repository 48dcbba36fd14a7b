"""Draw docs/images/wheeled_pendulum.png, figure_of_eight.png and four_bar.png: what constrained robots do.

    python scripts/constraint_pictures.py [docs/images]

The first two are the runs that `condyle verify wheeled-pendulum` and `condyle verify two-wheeled` check.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from picture_style import save

import condyle as cd
from condyle.apps.demos import two_wheeled, wheeled_pendulum
from condyle.robot.description import Description
from condyle.robot.parts import Y, body, frame, joint, link, pose
from condyle.workbench.view.camera import framed
from condyle.workbench.view.picture import picture
from condyle.workbench.view.trajectory import frame_positions, trajectory

INK, FAINT, BLUE, RED, ORANGE = "#22252b", "#8b909a", "#2a6bbf", "#cc3a2e", "#c05621"
CRANK, COUPLER, ROCKER, GROUND = 0.25, 0.875, 0.75, 1.0  # m; the crank turns right round, the rocker swings
PEN = (0.45, 0.0, 0.35)  # on the coupler


def labelled(ax: Any, title: str, x: str, y: str) -> None:
    ax.set_title(title, loc="left", color=INK, fontsize=11)
    ax.set_xlabel(x, color=INK)
    ax.set_ylabel(y, color=INK)
    ax.grid(color=FAINT, alpha=0.2, lw=0.6)
    ax.tick_params(colors=INK, labelsize=9)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


# -- the wheeled pendulum


def balancing(path: Path) -> None:
    done = wheeled_pendulum.run()
    figure = Figure(figsize=(12.5, 7.0), dpi=110, layout="constrained")
    figure.suptitle("The wheeled pendulum leans, rolls under itself, is pushed and comes back", x=0.012, ha="left", weight="bold")
    rows = figure.subfigures(2, 1, height_ratios=(1.0, 1.25))
    moments = (0.0, 0.1, 0.3, 3.9, 4.1, 4.4)
    robot, q = done.robot, done.q
    camera = framed(np.array([[-0.07, 0.0, -0.01], [0.21, 0.0, 0.27]]), (420, 480), azimuth=-90.0, elevation=5.0)
    for ax, moment in zip(rows[0].subplots(1, len(moments)), moments, strict=True):
        ax.imshow(picture(robot, q[round(moment / done.dt)], size=(420, 480), camera=camera, label=False))
        ax.set_title(f"{moment:g} s")
        ax.set_axis_off()
    middle = done.t[:-1]
    panels = [
        ("Where it is", "", [(done.t, done.x[:, 1], BLUE, "angle, rad"), (done.t, done.x[:, 0], ORANGE, "upper end, m")]),
        ("What its motor does", "N m", [(middle, done.u[:, 0], BLUE, "")]),
        ("Friction over normal force", "", [(middle, wheeled_pendulum.friction_needed(done), BLUE, "needed")]),
    ]
    for ax, (title, unit, lines) in zip(rows[1].subplots(1, 3), panels, strict=True):
        ax.axvspan(wheeled_pendulum.PUSHED_AT, wheeled_pendulum.PUSHED_AT + 0.1, color=RED, alpha=0.15, lw=0.0)
        for t, values, color, name in lines:
            ax.plot(t, values, color=color, lw=1.5, label=name)
        labelled(ax, title, "time, s", unit)
        if title.startswith("What"):
            for sign in (1.0, -1.0):
                ax.axhline(sign * wheeled_pendulum.TORQUE, color=FAINT, lw=0.8, ls=":")
        if title.startswith("Friction"):
            ax.axhline(wheeled_pendulum.FRICTION, color=FAINT, lw=0.8, ls=":")
            ax.annotate("a dry floor", (7.9, wheeled_pendulum.FRICTION - 0.04), color=INK, fontsize=9, ha="right")
        if len(lines) > 1:
            ax.legend(frameon=False, fontsize=9)
    save(figure, path)


# -- the robot on two wheels


def driving(path: Path) -> None:
    done = two_wheeled.run()
    figure = Figure(figsize=(12.5, 5.4), dpi=110, layout="constrained")
    figure.suptitle("On two wheels once around a figure of eight, balancing", x=0.012, ha="left", weight="bold")
    left, right = figure.subfigures(1, 2, width_ratios=(1.55, 1.0))
    ax = left.subplots()
    shown = trajectory(done.robot, done.t, done.q)
    # poses evenly spaced along the path, away from the crossing
    length = np.cumsum(np.abs(two_wheeled.plan().speed))
    *ghosts, last = shown.q[np.searchsorted(length / length[-1], (np.arange(10) + 0.5) / 10.0)]
    path_of_axle = frame_positions(shown.robot, shown.R, shown.p, "axle")[::20]
    camera = framed(path_of_axle, (1200, 720), azimuth=-90.0, elevation=50.0, margin=0.72)
    ax.imshow(picture(shown.robot, last, ghosts=ghosts, trail=path_of_axle, size=(1200, 720), camera=camera))
    ax.set_axis_off()
    ax.set_title("the path of the axle's centre and ten poses along it", loc="left", color=INK, fontsize=11)
    top, middle, low = right.subplots(3, 1, sharex=True)
    now, forces = two_wheeled.State.of(done.x), two_wheeled.ground_forces(done)
    top.plot(done.t, now.speed, color=BLUE, lw=1.5, label="speed ahead, m/s")
    top.plot(done.t, now.yaw_rate / 10.0, color=ORANGE, lw=1.5, label="turning rate / 10, rad/s")
    top.legend(frameon=False, fontsize=9, loc="upper right", bbox_to_anchor=(1.01, 1.0), handlelength=1.2)
    middle.plot(done.t, 1e3 * now.pitch, color=BLUE, lw=1.5)
    for name, color in zip(two_wheeled.MOTORS, (BLUE, ORANGE), strict=True):
        low.plot(done.t[:-1], forces[f"{name}.normal"], color=color, lw=1.5, label=name.replace("_", " "))
    low.legend(frameon=False, fontsize=9)
    labelled(top, "How it moves", "", "")
    top.set_xlim(-0.4, 12.5)
    labelled(middle, "Pitch", "", "mrad")
    labelled(low, "Normal forces", "time, s", "N")
    save(figure, path)


# -- a four-bar linkage


def four_bar() -> cd.Robot:
    """A crank-rocker in the x-z plane, closed; its one coordinate is the crank's angle."""
    rod = {name: body(1.0, (length / 2.0, 0.0, 0.0), (0.0, 0.05, 0.05)) for name, length in BARS.items()}
    links = (link("stand"), *(link(name, inertia) for name, inertia in rod.items()))
    joints = (
        joint("crank", "continuous", "stand", "crank", pose(), Y),
        joint("coupler", "continuous", "crank", "coupler", pose((CRANK, 0.0, 0.0)), Y),
        joint("rocker", "continuous", "stand", "rocker", pose((GROUND, 0.0, 0.0)), Y),
    )
    ends = (frame("coupler_end", "coupler", (COUPLER, 0.0, 0.0)), frame("rocker_end", "rocker", (ROCKER, 0.0, 0.0)))
    open_chain = cd.load(Description("four_bar", links, joints, (*ends, frame("pen", "coupler", PEN))))
    return open_chain.close_loop("coupler_end", "rocker_end", "xz", q=[0.0, -1.0, -2.0], independent=["crank"])


BARS = {"crank": CRANK, "coupler": COUPLER, "rocker": ROCKER}


def ratio(crank: np.ndarray) -> np.ndarray:
    """Rocker's rate over the crank's by hand, from where the bars point."""
    knee = CRANK * np.stack([np.cos(crank), -np.sin(crank)])
    way = np.array([[GROUND], [0.0]]) - knee
    span = np.hypot(*way)
    along = (span**2 + COUPLER**2 - ROCKER**2) / (2.0 * span)
    across = np.sqrt(COUPLER**2 - along**2)
    tip = knee + (along * way + across * np.stack([-way[1], way[0]])) / span
    coupler, rocker = np.arctan2(-(tip - knee)[1], (tip - knee)[0]), np.arctan2(-tip[1], tip[0] - GROUND)
    return CRANK * np.sin(crank - coupler) / (ROCKER * np.sin(rocker - coupler))


def linkage(path: Path) -> None:
    robot = four_bar()
    crank = np.linspace(0.0, 2.0 * np.pi, 721)[:, None]
    q, v = robot.lift(crank, np.ones_like(crank))
    pen = robot.frame_pose(crank, "pen")[1]
    figure = Figure(figsize=(12.5, 5.2), dpi=110, layout="constrained")
    figure.suptitle("A crank-rocker: one coordinate, one loop, closed inside the kernel", x=0.012, ha="left", weight="bold")
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1.0))
    left.plot(pen[:, 0], pen[:, 2], color=ORANGE, lw=1.8)
    for k, strength in ((300, 0.25), (540, 0.25), (60, 1.0)):
        knee = CRANK * np.array([np.cos(crank[k, 0]), -np.sin(crank[k, 0])])
        tip = np.array([GROUND, 0.0]) + ROCKER * np.array([np.cos(q[k, 2]), -np.sin(q[k, 2])])
        style = {"lw": 4.0, "solid_capstyle": "round", "alpha": strength}
        if strength == 1.0:
            left.fill(*np.transpose([knee, tip, pen[k, [0, 2]]]), color=FAINT, alpha=0.2, lw=0.0)
        left.plot(*np.transpose([knee, tip]), color=INK, **style)
        left.plot(*np.transpose([(0.0, 0.0), knee]), color=RED, **style)
        left.plot(*np.transpose([(GROUND, 0.0), tip]), color=BLUE, **style)
        left.plot(*pen[k, [0, 2]], "o", color=ORANGE, ms=7.0, alpha=strength)
    left.plot([0.0, GROUND], [0.0, 0.0], "^", color=INK, ms=10.0)
    left.set_aspect("equal")
    labelled(left, "The curve of a point of the coupler (crank red, rocker blue)", "x, m", "z, m")
    right.plot(crank[::12, 0], ratio(crank[::12, 0]), "o", color=FAINT, ms=5.0, label="by hand")
    right.plot(crank[:, 0], v[:, 2], color=BLUE, lw=1.6, label="the entry of T")
    right.axhline(0.0, color=FAINT, lw=0.8)
    labelled(right, "Rate of the rocker for one of the crank", "crank angle, rad", "")
    right.legend(frameon=False, fontsize=9)
    save(figure, path)


def main(folder: Path) -> None:
    for name, draw in {"wheeled_pendulum": balancing, "figure_of_eight": driving, "four_bar": linkage}.items():
        draw(folder / f"{name}.png")


if __name__ == "__main__":
    default = Path(__file__).resolve().parent.parent / "docs" / "images"
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
