"""Draw docs/images/contact_laws.png: boxes and balls against the closed forms of dry friction.

    python scripts/contact_pictures.py [docs/images/contact_laws.png]

Lines are closed forms, dots are simulated with the defaults and dt = 1 ms; tested in tests/simulate/test_contact_laws.py.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from picture_style import save

import condyle as cd
from condyle.robot.description import Description
from condyle.robot.parts import box, link, solid, sphere
from condyle.simulate.config import DEFAULT_SMOOTHING

G, MU, DT, REST = 9.81, 0.5, 1e-3, 0.0  # REST: the depth of a body at rest on the surface
INK, FAINT, BLUE, ORANGE = "#22252b", "#8b909a", "#2b6cb0", "#c05621"
HALF, RADIUS = 0.05, 0.1


def body(kind: str, ground: Any, **options: Any) -> cd.Simulation:
    """A box of 0.2 x 0.2 x 0.1 m or a ball of 0.1 m, 1 kg, on the ground."""
    shape = box((0.2, 0.2, 2.0 * HALF), name="box") if kind == "box" else sphere(RADIUS, name="ball")
    robot = cd.load(Description(kind, (link(kind, solid(1.0, shape), [], [shape]),), ()), base="free")
    return cd.Simulation(robot, options.pop("dt", DT), ground, **options)


def run(s: cd.Simulation, q: Any, v: Any, seconds: float) -> np.ndarray:
    xs: np.ndarray = s.rollout(s.state(q, v), np.zeros((round(seconds / s.dt), s.nu)))
    return xs


def upright(height: float, count: int, angle: Any = 0.0) -> np.ndarray:
    """`count` bodies at this height, turned about z."""
    q = np.zeros((count, 7))
    q[:, 2], q[:, 5], q[:, 6] = height, np.sin(np.asarray(angle) / 2.0), np.cos(np.asarray(angle) / 2.0)
    return q


def on_slope(degrees: float, height: float) -> np.ndarray:
    """A body that stands on a slope which rises along x."""
    a = np.radians(degrees)
    depth = REST * np.cos(a) ** (1.0 / 3.0)
    z = height - depth
    return np.array([-np.sin(a) * z, 0.0, np.cos(a) * z, 0.0, -np.sin(a / 2.0), 0.0, np.cos(a / 2.0)])


def way_down(xs: np.ndarray, degrees: float) -> np.ndarray:
    a = np.radians(degrees)
    way: np.ndarray = -(xs[:, 0] * np.cos(a) + xs[:, 2] * np.sin(a))
    return way - way[0]


# -- panels


def stopping(ax: Any) -> None:
    speeds = np.linspace(0.0, 3.0, 13)
    v = np.zeros((13, 6))
    v[:, 0] = speeds
    xs = run(body("box", cd.Plane(MU)), upright(HALF - REST, 13), v, 0.8)
    fine = np.linspace(0.0, 3.0, 100)
    ax.plot(fine, fine**2 / (2.0 * MU * G), color=FAINT, lw=2.0, label="v² / (2 μ g)")
    ax.plot(speeds, xs[:, -1, 0], "o", color=BLUE, ms=5, label="simulated")
    labelled(ax, "A thrown box stops", "speed, m/s", "distance, m")
    ax.legend(frameon=False, fontsize=9)


def sliding(ax: Any) -> None:
    angles = np.array([0.0, 8.0, 16.0, 22.0, 26.0, 27.0, 30.0, 34.0, 38.0, 42.0, 46.0, 50.0])
    found = []
    for degrees in angles:
        way = way_down(run(body("box", cd.Slope(degrees, friction=MU)), on_slope(degrees, HALF), None, 0.4), degrees)
        found.append(2.0 * way[-1] / (DT * (len(way) - 1)) ** 2)
    fine = np.linspace(0.0, 50.0, 200)
    a = np.radians(fine)
    ax.plot(fine, np.maximum(0.0, G * (np.sin(a) - MU * np.cos(a))), color=FAINT, lw=2.0, label="g (sin α − μ cos α)")
    ax.plot(angles, found, "o", color=BLUE, ms=5, label="simulated")
    labelled(ax, "A box on a slope sticks, then slides", "slope α, degrees", "acceleration, m/s²")
    ax.legend(frameon=False, fontsize=9)


def bowling(ax: Any) -> None:
    v0 = 2.0
    xs = run(body("ball", cd.Plane(MU)), upright(RADIUS - REST, 1)[0], [v0, 0.0, 0.0, 0.0, 0.0, 0.0], 0.25)
    time, speed = DT * np.arange(1, len(xs)), np.diff(xs[:, 0]) / DT
    turn = 2.0 * v0 / (7.0 * MU * G)
    ax.plot([0.0, turn, 0.25], [v0, 5.0 / 7.0 * v0, 5.0 / 7.0 * v0], color=FAINT, lw=2.0)
    ax.plot([0.0, turn, 0.25], [0.0, 5.0 / 7.0 * v0, 5.0 / 7.0 * v0], color=FAINT, lw=2.0)
    ax.plot(time[4::9], speed[4::9], "o", color=BLUE, ms=5, label="speed")
    ax.plot(time[4::9], (RADIUS * xs[1:, 11])[4::9], "o", color=ORANGE, ms=5, label="radius × spin")
    ax.axvline(turn, color=FAINT, lw=0.8, ls=":")
    ax.annotate("slips", (0.5 * turn, 0.06), ha="center", color=INK, fontsize=9)
    ax.annotate("rolls at 5/7 of its speed", (0.185, 0.06), ha="center", color=INK, fontsize=9)
    labelled(ax, "A bowled ball begins to roll", "time, s", "m/s")
    ax.legend(frameon=False, fontsize=9, loc="center right")


def creeping(ax: Any) -> None:
    smoothings, degrees = np.geomspace(1e-6, 1e-2, 5), np.degrees(np.arctan(MU)) / 2.0
    for dt, color in ((2e-3, ORANGE), (1e-3, BLUE)):
        found = []
        for smoothing in smoothings:
            s = body("box", cd.Slope(degrees, friction=MU), dt=dt, smoothing=smoothing)
            way = way_down(run(s, on_slope(degrees, HALF), None, 0.3), degrees)
            found.append((way[-1] - way[-51]) / (50 * dt))
        ax.loglog(smoothings, 1e3 * np.array(found), "o-", color=color, ms=5, lw=1.2, label=f"dt {1e3 * dt:g} ms")
    ax.axvline(DEFAULT_SMOOTHING, color=FAINT, lw=0.8, ls=":")
    ax.annotate("the default", (1.25 * DEFAULT_SMOOTHING, 0.02), xycoords=("data", "axes fraction"), color=INK, fontsize=9)
    labelled(ax, "What creeps while it sticks", "smoothing", "creep, mm/s")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    ax.legend(frameon=False, fontsize=9)


def dropping(ax: Any) -> None:
    rng = np.random.default_rng(1)
    q = upright(0.0, 200)
    q[:, 2] = rng.uniform(0.12, 0.6, 200)
    turn = rng.standard_normal((200, 4))
    q[:, 3:] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    v = np.hstack([rng.uniform(-2.0, 2.0, (200, 3)), rng.uniform(-10.0, 10.0, (200, 3))])
    s = body("box", cd.Plane(MU))
    energy = s.energy(run(s, q, v, 1.0))
    time = DT * np.arange(energy.shape[1])
    ax.plot(time, energy[:40].T, color=BLUE, lw=0.7, alpha=0.5)
    rise = np.max(energy - np.minimum.accumulate(energy, axis=1))
    labelled(ax, "Boxes thrown down lose energy", "time, s", "kinetic + potential, J")
    note = f"200 boxes: none gains more than {1e3 * rise:.1g} mJ"
    ax.annotate(note, (0.98, 0.95), xycoords="axes fraction", ha="right", va="top", fontsize=9)
    ax.set_ylim(0.0, 1.12 * np.max(energy[:40]))


def directions(ax: Any) -> None:
    angle = np.linspace(0.0, 2.0 * np.pi, 65)
    v = np.zeros((65, 6))
    v[:, 0] = 1.0
    for cone, color, label in ((4, ORANGE, "pyramid, 4 corners"), ("round", BLUE, "round cone")):
        s = body("box", cd.Plane(MU), cone=cone)
        way = np.linalg.norm(run(s, upright(HALF - REST, 65, angle), v, 0.6)[:, -1, :2], axis=1)
        ax.plot(angle, 100.0 * way, color=color, lw=2.0, label=label)
    ax.set_title("How far a box slides, by direction", color=INK, fontsize=11)
    ax.set_thetagrids([0.0, 45.0, 90.0, 135.0, 180.0, 225.0, 270.0, 315.0], ["0°", "", "", "", "180°", "", "", ""])
    ax.set_rlim(0.0, 17.0)
    ax.set_rgrids([5.0, 10.0, 15.0], ["5 cm", "10", "15"], angle=45.0, fontsize=8)
    ax.tick_params(colors=INK, labelsize=8)
    ax.grid(color=FAINT, alpha=0.3, lw=0.6)
    ax.legend(frameon=False, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2)


def labelled(ax: Any, title: str, x: str, y: str) -> None:
    ax.set_title(title, loc="left", color=INK, fontsize=11)
    ax.set_xlabel(x, color=INK)
    ax.set_ylabel(y, color=INK)
    ax.grid(color=FAINT, alpha=0.2, lw=0.6)
    ax.tick_params(colors=INK, labelsize=9)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def draw(path: Path) -> None:
    figure = Figure(figsize=(12.5, 7.8), dpi=110, layout="constrained")
    figure.suptitle(f"The laws of contact: closed forms and steps of 1 ms, μ = {MU:g}", x=0.012, ha="left", weight="bold")
    figure.get_layout_engine().set(hspace=0.06)
    for k, panel in enumerate((stopping, sliding, bowling, creeping, dropping)):
        panel(figure.add_subplot(2, 3, k + 1))
    directions(figure.add_subplot(2, 3, 6, projection="polar"))
    save(figure, path)


if __name__ == "__main__":
    default = Path(__file__).resolve().parent.parent / "docs" / "images" / "contact_laws.png"
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
