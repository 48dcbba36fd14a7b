"""How the pictures of the pages look and are declared: one palette on white, plain axes, small files."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib.figure import Figure
from PIL import Image

from condyle.atomic_write import write_bytes

ROOT = Path(__file__).resolve().parents[2]
INK, FAINT = "#22252b", "#8b909a"
BLUE, RED, ORANGE, GREEN, VIOLET = "#2a6bbf", "#cc3a2e", "#c05621", "#3f8f5b", "#7a4fb5"
WASH = "#eef2f7"  # behind boxes and bands
BLOCK = re.compile(r"(?ms)^(<!-- not run.*?\n)?```python\n(.*?)^```")
matplotlib.rcParams.update({"font.size": 11, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": FAINT})
matplotlib.rcParams.update({"legend.frameon": False, "legend.fontsize": 10})
sys.path += [str(ROOT), str(ROOT / "tests"), str(ROOT / "examples")]  # pictures show what programs of these folders compute


# -- sheets and files


def picture(title: str = "", width: float = 10.0, height: float = 5.0, *, colors: int = 256, **axes: Any) -> Any:
    """Decorator: the function becomes one of a path, to which it writes what it draws, or the image or figure that it returns.

    With `axes`, the options of `Figure.subplots`, it draws in these axes of a sheet; with a title alone, in the sheet.
    """

    def decorate(draw: Callable[..., Any]) -> Callable[[Path], None]:
        @functools.wraps(draw)
        def write(path: Path) -> None:
            figure = sheet(title, width, height)
            given = figure.subplots(squeeze=False, **axes).flat if axes else [figure] if title else []
            drawn = draw(*given)
            save(figure if drawn is None else drawn, path, colors)

        return write

    return decorate


def sheet(title: str, width: float = 10.0, height: float = 5.0) -> Figure:
    """An empty figure of 120 dots per inch under a title."""
    figure = Figure(figsize=(width, height), dpi=120, layout="constrained", facecolor="white")
    entitle(figure, title)
    figure.get_layout_engine().set(h_pad=0.08, w_pad=0.08, wspace=0.03)
    return figure


def entitle(figure: Figure, title: str) -> None:
    """Write the title of a sheet, which may tell a result."""
    figure.suptitle(title, x=0.012, ha="left", weight="bold", fontsize=13)


def save(drawn: Any, path: Path, colors: int = 256) -> None:
    """Write a figure or an image as a PNG of few colours."""
    if isinstance(drawn, Figure):
        full = io.BytesIO()
        drawn.savefig(full, format="png", facecolor="white")
        drawn = Image.open(full)
    small = io.BytesIO()
    drawn.convert("RGB").quantize(colors, dither=Image.Dither.NONE, kmeans=2).save(small, "png", optimize=True)
    write_bytes(path, small.getvalue())


# -- what is in axes


def labelled(ax: Any, title: str, x: str = "", y: str = "", legend: str | dict[str, Any] = "", **limits: Any) -> None:
    """Title on the left, named axes, a faint grid, no box; a legend at a place or with options; limits, scales and ticks."""
    ax.set_title(title, loc="left", color=INK, fontsize=11.5)
    ax.set(xlabel=x, ylabel=y, **limits)
    ax.grid(color=FAINT, alpha=0.2, lw=0.6)
    ax.tick_params(colors=INK, labelsize=10)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if legend:
        ax.legend(**{"loc": legend} if isinstance(legend, str) else legend)


def columns(ax: Any, t: Any, values: Any, names: Iterable[str | None], colors: Iterable[str] = (BLUE, ORANGE, GREEN, VIOLET),
            **style: Any) -> None:  # fmt: skip
    """One curve for each column, as far as there are names and colours."""
    for k, (name, color) in enumerate(zip(names, colors, strict=False)):
        ax.plot(t, values[:, k], color=color, label=name, **style)


def levels(ax: Any, *values: float, **style: Any) -> None:
    """Faint horizontal lines, such as limits and targets."""
    for value in values:
        ax.axhline(value, **{"color": FAINT, "lw": 0.8, **style})


def show(ax: Any, image: Any, title: str = "", size: float = 11.5, **options: Any) -> None:
    """An image in place of axes, under a title."""
    ax.imshow(image, **options)
    ax.set_axis_off()
    ax.set_title(title, loc="left", fontsize=size)


# -- what pages compute


def program(page: str) -> dict[str, Any]:
    """The variables after the Python program of a page, run in an empty folder."""
    names: dict[str, Any] = {"__name__": "__main__"}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        os.chdir(folder)
        try:
            for skipped, code in BLOCK.findall((ROOT / "docs" / f"{page}.md").read_text()):
                if not skipped:
                    exec(compile(code, f"{page}.md", "exec"), names)
        finally:
            os.chdir(before)
    return names
