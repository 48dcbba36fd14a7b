"""The picture of a run: panels over time, one below the other."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from condyle.atomic_write import write_bytes
from condyle.commands.panels import Panel, panels, pushed
from condyle.errors import CondyleError, require
from condyle.runs.run import Run

SUFFIXES = (".png", ".svg", ".pdf")
INK, FAINT, PUSHED = "#22252b", "#8b909a", "#7b4fc9"
# told apart by people who see red and green alike, too (Okabe and Ito 2008)
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#3b3f46", "#8c6d31")
STYLES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)))
MANY = len(COLORS) * len(STYLES)  # lines beyond which a legend is more ink than help
TALL = 10  # names in one column of a legend
WIDTH, PANEL, HEAD = 11.0, 2.0, 1.1  # inches
DPI = 110
HARDLY = 1e-3  # of its size: a line that changes by less is shown as one that does not


def check_suffix(option: str, path: Path) -> None:
    if path.suffix.lower() not in SUFFIXES:
        raise CondyleError(
            f"{option} writes {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}, and {path.name} is none of them: "
            f"try {option} {path.stem}.png"
        )


def plot(run: Run, path: Path, *, signals: Sequence[str] = (), other: Run | None = None) -> None:
    """Write the picture (needs the extra `plot`); `other` is drawn dotted over the first, where their lines share names."""
    check_suffix("-o", path)
    if not run.steps:
        raise CondyleError(f"{run.path or run.title} holds no step, so there is nothing to draw; record a longer run")
    matplotlib = require("matplotlib", "plot", "the picture of a run")
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    shown = panels(run, signals)
    over = {panel.label: panel for panel in panels(other, signals)} if other is not None else {}
    style = {"font.size": 10, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": FAINT, "xtick.color": INK}
    # the same bytes for the same run: no dates, no random names
    style |= {"ytick.color": INK, "svg.hashsalt": "condyle", "axes.formatter.useoffset": False, "font.family": "DejaVu Sans"}
    with matplotlib.rc_context(style):
        height = PANEL * len(shown) + HEAD
        figure = Figure(figsize=(WIDTH, height), dpi=DPI, layout="constrained", facecolor="white")
        engine: Any = figure.get_layout_engine()
        engine.set(rect=(0.0, 0.0, 1.0, 1.0 - 0.62 / height), h_pad=0.06)
        figure.text(0.012, 1.0 - 0.12 / height, _cut(run.title), va="top", weight="bold", fontsize=12)
        figure.text(0.012, 1.0 - 0.38 / height, subtitle(run, other), va="top", fontsize=9, color=FAINT)
        axes = list(figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0])
        for ax, panel in zip(axes, shown, strict=True):
            _draw(ax, panel, over.get(panel.label))
        _shade(axes, run)
        end = max(float(run.t[-1]), 0.0 if other is None else float(other.t[-1]))
        axes[-1].set_xlabel("time, s")
        axes[-1].set_xlim(0.0, end)
        content = BytesIO()
        kind = path.suffix.lower()[1:]
        figure.savefig(content, format=kind, metadata={"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind))
    write_bytes(path, _small(content) if kind == "png" else content.getvalue())


def _small(png: BytesIO) -> bytes:
    """The picture in 256 colours, which lines on white need no more than: half the bytes."""
    from PIL import Image

    out = BytesIO()
    with Image.open(png) as image:
        image.convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE).save(
            out, "png", optimize=True
        )
    return out.getvalue()


def subtitle(run: Run, other: Run | None) -> str:
    """What it is a picture of, in one line."""
    text = f"{run.steps:,} steps of {run.dt * 1e3:g} ms"
    if run.about.get("controller"):
        text += f"; controller {run.about['controller']}"
    if other is not None:
        first, second = (of.path.name if of.path is not None else of.title for of in (run, other))
        text += f"; solid: {first}, dotted: {second}"
    return _cut(text, 150)


def _cut(text: str, most: int = 100) -> str:
    """One line; `$` would begin a formula."""
    line = " ".join(text.split())
    return (line if len(line) <= most else f"{line[: most - 3]}...").replace("$", r"\$")


def _draw(ax: Any, panel: Panel, over: Panel | None) -> None:
    for n, (name, y) in enumerate(panel.lines.items()):
        color, style = COLORS[n % len(COLORS)], STYLES[n // len(COLORS) % len(STYLES)]
        label = "_" if not name else _cut(name, 28)
        if over is None:
            ax.plot(panel.t, y, color=color, ls=style, lw=1.4, label=label)
        else:
            ax.plot(panel.t, y, color=color, lw=1.2, alpha=0.8, label=label)
            if name in over.lines:
                ax.plot(over.t, over.lines[name], color=color, lw=1.9, ls=(0, (1.0, 1.6)), label="_")
    named = [name for name in panel.lines if name]
    alone = f" of {_cut(named[0], 40)}" if len(panel.lines) == len(named) == 1 else ""
    ax.set_title(f"{_head(panel.label, alone)}", loc="left", fontsize=10)
    ax.grid(color=FAINT, alpha=0.25, lw=0.6)
    ax.tick_params(length=3, labelsize=9)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if 1 < len(named) <= MANY:
        columns = -(-len(named) // TALL)
        ax.legend(
            loc="center left",
            bbox_to_anchor=(1.005, 0.5),
            frameon=False,
            fontsize=8,
            ncols=columns,
            handlelength=1.6,
            labelspacing=0.25,
            borderaxespad=0.0,
            columnspacing=1.0,
        )
    elif len(named) > MANY:
        ax.annotate(f"{len(named)} lines", (1.01, 0.5), xycoords="axes fraction", color=FAINT, fontsize=8)
    _room(ax, [*panel.lines.values(), *(over.lines.values() if over is not None else ())])


def _head(label: str, alone: str) -> str:
    """The label, with the name of a line that is alone before the unit: "joint angles of swing, rad"."""
    what, comma, unit = label.rpartition(", ")
    return f"{what}{alone}{comma}{unit}" if comma else f"{label}{alone}"


def _room(ax: Any, lines: Sequence[np.ndarray]) -> None:
    """A line that hardly moves is drawn in the middle, not magnified to its last digits."""
    low, high = min(float(y.min()) for y in lines), max(float(y.max()) for y in lines)
    size = max(abs(high), abs(low), 1e-3)
    if high - low < HARDLY * size:
        ax.set_ylim(0.5 * (low + high) - HARDLY * size, 0.5 * (low + high) + HARDLY * size)


def _shade(axes: Sequence[Any], run: Run) -> None:
    """The times in which somebody pushes."""
    times = pushed(run)
    for begin, end in times:
        for ax in axes:
            ax.axvspan(begin, end, color=PUSHED, alpha=0.16, lw=0)
    if times:
        middle = 0.5 * (times[0][0] + times[0][1])
        axes[0].annotate(
            "pushed",
            (middle, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=8,
            color=PUSHED,
        )
