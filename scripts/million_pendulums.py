"""Where a million driven pendulums end, one of their orbits, and how fast a difference of one bit grows."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from condyle.apps.demos.compiler import PERIODS, TURN, period, step
from condyle.atomic_write import write_bytes
from condyle.errors import require
from condyle.tape.function import function
from condyle.tape.loop import scan

GROUND, INK, FAINT = "#0c0a14", "#f2ead8", "#8f8799"
WARM = "#ffb454"
PIXELS = (1200, 860)  # cells of the density
LONG, SHORT, FINE = 40, 6, 240  # of two orbits: periods seen at their starts; periods seen at each of FINE steps


def orbit(x: Any) -> Any:
    """The states at every step of SHORT periods, and at the beginning of each of LONG periods."""
    _, fine = scan(lambda i, x, _: (step(i, x, FINE), x), x, count=SHORT * FINE)
    _, coarse = scan(lambda i, x, _: (period(x), x), x, count=LONG)
    return {"fine": fine, "coarse": coarse}


def draw(final: np.ndarray, path: Path) -> None:
    """Write the picture of the final states to `path` (needs the extra `plot`)."""
    matplotlib = require("matplotlib", "plot", "the picture of the demo")
    matplotlib.use("Agg")
    from matplotlib.figure import Figure
    from PIL import Image

    style = {"font.size": 11, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": FAINT}
    with matplotlib.rc_context(style):
        figure = Figure(figsize=(15, 8.4), dpi=88, facecolor=GROUND)
        frame = {"left": 0.052, "right": 0.978, "bottom": 0.08, "top": 0.84, "wspace": 0.17, "hspace": 0.42}
        grid = figure.add_gridspec(2, 2, width_ratios=[2.25, 1], **frame)
        figure.text(
            0.052, 0.94, f"{len(final):,} driven pendulums after {PERIODS} periods of the drive", fontsize=22, weight="bold"
        )
        figure.text(
            0.052, 0.9, "chaos, and yet the same bits for every lane width, batch size and thread", fontsize=13, color=FAINT
        )
        _density(figure.add_subplot(grid[:, 0]), final)
        # the last bit of the angle is worth 4e-16
        start = np.array([[2.0, 0.0], [np.nextafter(2.0, 3.0), 0.0]])
        orbits = function(orbit, x=2)(start)
        _orbit(figure.add_subplot(grid[0, 1]), orbits.fine[0])
        _separation(figure.add_subplot(grid[1, 1]), orbits.coarse)
        full = BytesIO()
        figure.savefig(full, format="png", facecolor=GROUND)
    # 128 colours are enough for this picture, and take a third of the room
    small = BytesIO()
    Image.open(full).convert("RGB").quantize(128, dither=Image.Dither.NONE).save(small, "png", optimize=True)
    write_bytes(path, small.getvalue())


def _bare(axes: Any, title: str) -> None:
    axes.set_facecolor(GROUND)
    axes.set_title(title, loc="left", fontsize=12, color=INK, pad=8)
    axes.tick_params(colors=FAINT, labelsize=10)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _angles(axes: Any) -> None:
    axes.set_xlim(-np.pi, np.pi)
    axes.set_xticks(np.pi * np.array([-1.0, -0.5, 0.0, 0.5, 1.0]), ["-π", "-π/2", "0", "π/2", "π"])
    axes.set_xlabel("angle, rad")


def _density(axes: Any, final: np.ndarray) -> None:
    """The million states as light: each cell as bright as the logarithm of how many ended there."""
    angle, rate = final.T
    low, high = rate.min() - 0.15, rate.max() + 0.15
    counts, _, _ = np.histogram2d(angle, rate, bins=PIXELS, range=[[-np.pi, np.pi], [low, high]])
    light = np.log1p(_blur(counts.T, 0.6) + 0.35 * _blur(counts.T, 2.5))
    axes.imshow(
        light,
        origin="lower",
        extent=(-np.pi, np.pi, low, high),
        aspect="auto",
        cmap=_glow(),
        vmax=np.quantile(light[light > 0.05], 0.995),
        interpolation="bilinear",
    )
    _bare(axes, "where they are: each cell as bright as the logarithm of its count")
    _angles(axes)
    axes.set_ylabel("rate, rad per sqrt(l/g)")


def _blur(image: np.ndarray, width: float) -> np.ndarray:
    """The image under a Gaussian of the given width, angle and rate one after the other."""
    reach = np.arange(-int(4 * width) - 1, int(4 * width) + 2)
    weights = np.exp(-0.5 * (reach / width) ** 2)
    weights /= weights.sum()
    for axis in (0, 1):
        image = sum(w * np.roll(image, int(r), axis) for w, r in zip(weights, reach, strict=True))
    return image


def _glow() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    colours = [GROUND, "#2a1550", "#6a1f7a", "#c23a6b", "#f7834a", "#ffd27a", "#fffbe8"]
    return LinearSegmentedColormap.from_list("glow", colours)


def _orbit(axes: Any, states: np.ndarray) -> None:
    """One orbit, step by step, from violet to white."""
    from matplotlib.collections import LineCollection

    angle = (states[:, 0] + np.pi) % TURN - np.pi
    points = np.stack([angle, states[:, 1]], axis=1)
    parts = np.stack([points[:-1], points[1:]], axis=1)
    inside = abs(np.diff(angle)) < np.pi  # the line breaks where the angle goes round
    axes.add_collection(LineCollection(parts[inside], array=np.flatnonzero(inside), cmap=_glow(), linewidths=1.4))
    axes.collections[0].set_clim(-0.35 * len(parts), len(parts))
    axes.plot(*points[0], "o", color=INK, ms=6)
    axes.set_ylim(points[:, 1].min() - 0.3, points[:, 1].max() + 0.3)
    _bare(axes, f"one orbit, {SHORT} periods from the dot")
    _angles(axes)
    axes.set_ylabel("rate")


def _separation(axes: Any, pair: np.ndarray) -> None:
    """The distance of two orbits whose starts differ in the last bit."""
    difference = pair[0] - pair[1]
    difference[:, 0] -= TURN * np.rint(difference[:, 0] / TURN)
    distance = np.linalg.norm(difference, axis=1)
    seen = distance > 0
    axes.semilogy(np.arange(LONG)[seen], distance[seen], color=WARM, lw=1.8)
    axes.axhline(1.0, color=FAINT, lw=0.8, ls=":")
    axes.set_xlim(0, LONG)
    axes.set_ylim(1e-17, 1e2)
    _bare(axes, "two that start one bit apart: their distance")
    axes.set_xlabel("periods")
    axes.set_ylabel("distance")
