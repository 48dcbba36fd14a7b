"""Draw docs/images/touchdown.png: a ball through touchdown, with strength growing as depth^3 and as depth^2.

    python scripts/touchdown_picture.py [docs/images/touchdown.png]

Rows: the normal force, and the first and second derivative of the next vertical velocity by the height, from the compiled step.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from picture_style import save

import condyle as cd
from condyle.robot.description import Description
from condyle.robot.parts import link, solid, sphere

RADIUS, MASS, DT, DEPTH = 0.1, 1.0, 0.002, 1e-3  # DEPTH: contact begins so far above the surface
INK, FAINT, SMOOTH, SHARP = "#22252b", "#8b909a", "#2b6cb0", "#c05621"
# of the ball's lowest point over where contact begins, m; a nanometre to either side of it is there
HEIGHTS = np.concatenate([np.linspace(0.15e-3, 1e-9, 20), np.linspace(-1e-9, -0.45e-3, 400)])


def falling(power: int) -> cd.Simulation:
    """A ball whose contact strength grows with this power of the depth."""
    shape = sphere(RADIUS, name="ball")
    robot = cd.load(Description("ball", (link("ball", solid(MASS, shape), [], [shape]),), ()), base="free")
    return cd.Simulation(
        robot, DT, cd.Plane(friction=0.5), actuated=robot.joint_names[:1], depth_exponent=power, rest_depth_mm=1e3 * DEPTH
    )


def curves(power: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(normal force in N, dv/dz in 1/s, d2v/dz2 in 1/(m s)) over the heights, at rest."""
    simulation = falling(power)
    q = np.tile([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0], (len(HEIGHTS), 1))
    q[:, 2] = RADIUS + DEPTH + HEIGHTS
    x, u = simulation.state(q), np.zeros(6)
    weight = np.zeros(12)
    weight[8] = 1.0
    _, A, _ = simulation.step(x, u, derivatives=True)
    return simulation.contact_forces(x, u)[:, 0, 2], A[:, 8, 2], simulation.step_hessian(x, u, weight)[:, 2, 2]


def draw(path: Path) -> None:
    rows = ("normal force, N", "dv/dz, 1/s", "d²v/dz², 1000/(m s)")
    scales = (1.0, 1.0, 1e-3)
    figure = Figure(figsize=(10.5, 7.6), dpi=110, layout="constrained")
    figure.suptitle(
        "A ball through touchdown: how its next vertical velocity depends on its height", x=0.012, ha="left", weight="bold"
    )
    axes = figure.subplots(3, 2, sharex=True, sharey="row")
    for column, (power, color, note) in enumerate(((3, SMOOTH, "no jump"), (2, SHARP, "a jump"))):
        for row, values in enumerate(curves(power)):
            ax = axes[row, column]
            values = values * scales[row]
            # the curve is drawn in two parts, so that a jump shows as one
            for part in (HEIGHTS > 0.0, HEIGHTS < 0.0):
                ax.plot(1e3 * HEIGHTS[part], values[part], color=color, lw=2.0)
            ax.axvline(0.0, color=FAINT, lw=0.8, ls=":")
            ax.grid(color=FAINT, alpha=0.2, lw=0.6)
            ax.tick_params(colors=INK, labelsize=9)
            for side in ("top", "right"):
                ax.spines[side].set_visible(False)
            if column == 0:
                ax.set_ylabel(rows[row], color=INK)
            if row == 2:
                inside = values[HEIGHTS < 0.0][0]
                ax.plot([0.0, 0.0], [0.0, inside], "o", color=color, ms=5)
                jumps = inside >= 0.1
                ax.annotate(f"{note} of {inside:.1f}" if jumps else note, (-0.03, 30.0) if jumps else (0.145, 48.0), color=color)
        axes[0, column].set_title(f"strength ~ depth{'³' if power == 3 else '²'}", loc="left", color=color, fontsize=12)
        axes[2, column].set_xlabel("height above where contact begins, mm (falling: to the right)")
        axes[2, column].xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes[2, 0].invert_xaxis()  # shared by all
    save(figure, path)


if __name__ == "__main__":
    default = Path(__file__).resolve().parent.parent / "docs" / "images" / "touchdown.png"
    draw(Path(sys.argv[1]) if len(sys.argv) > 1 else default)
