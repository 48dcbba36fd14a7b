"""How the pictures of the pages look: one palette on white, plain axes, small files."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib.figure import Figure
from PIL import Image

from condyle.atomic_write import write_bytes

INK, FAINT = "#22252b", "#8b909a"
BLUE, RED, ORANGE, GREEN, VIOLET = "#2a6bbf", "#cc3a2e", "#c05621", "#3f8f5b", "#7a4fb5"
WASH = "#eef2f7"  # behind boxes and bands
COLORS = 256  # of a file
matplotlib.rcParams.update({"font.size": 11, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": FAINT})


def sheet(title: str, width: float = 10.0, height: float = 5.0) -> Figure:
    """An empty figure of 120 dots per inch under a title."""
    figure = Figure(figsize=(width, height), dpi=120, layout="constrained", facecolor="white")
    figure.suptitle(title, x=0.012, ha="left", weight="bold", fontsize=13)
    figure.get_layout_engine().set(h_pad=0.08, w_pad=0.08, wspace=0.03)
    return figure


def labelled(ax: Any, title: str, x: str, y: str) -> None:
    """Title on the left, named axes, a faint grid, no box."""
    ax.set_title(title, loc="left", color=INK, fontsize=11.5)
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.grid(color=FAINT, alpha=0.2, lw=0.6)
    ax.tick_params(colors=INK, labelsize=10)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def save(figure: Figure, path: Path) -> None:
    """Write the figure as a PNG of few colours."""
    full = BytesIO()
    figure.savefig(full, format="png", facecolor="white")
    save_image(Image.open(full), path)


def save_image(image: Any, path: Path, colors: int = COLORS) -> None:
    """Write an image as a PNG of few colours."""
    small = BytesIO()
    image.convert("RGB").quantize(colors, dither=Image.Dither.NONE, kmeans=2).save(small, "png", optimize=True)
    write_bytes(path, small.getvalue())
