"""Line plots over time as HTML with SVG inside: no script, nothing fetched, colours that follow the page's theme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

import numpy as np

from condyle.errors import ShapeError
from condyle.workbench.runs.signals import extremes

Array = np.ndarray

WIDTH, HEIGHT = 640, 210
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 10, 34  # what the axes' numbers need
MAX_POINTS = 600  # of a line
COLORS = 8  # of the palette; further lines begin again with it

PLAYHEAD = files("condyle.workbench.view").joinpath("web", "playhead.js").read_text(encoding="utf-8")
STYLE = files("condyle.workbench.view").joinpath("web", "chart.css").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Chart:
    """Named lines over the same times; `bands`: intervals (begin, end) that are shaded, such as pushes; `label`: of the times."""

    title: str
    t: Array
    lines: Mapping[str, Array]
    bands: Sequence[tuple[float, float]] = ()
    label: str = "time, s"

    def __post_init__(self) -> None:
        for name, values in self.lines.items():
            if np.shape(values) != np.shape(self.t) or np.ndim(self.t) != 1 or len(self.t) < 2:
                raise ShapeError(f"chart '{self.title}': '{name}' has shape {np.shape(values)}, its times {np.shape(self.t)}")


def chart_html(plot: Chart) -> str:
    """The chart; put STYLE into the page once."""
    t = np.asarray(plot.t, dtype=float)
    values = [np.asarray(y, dtype=float) for y in plot.lines.values()]
    low, high = value_range(values)
    ticks, decimals = _ticks(low, high, 5)
    low, high = min(low, ticks[0]), max(high, ticks[-1])
    times, time_decimals = _ticks(float(t[0]), float(t[-1]), 8)

    def across(time: float) -> float:
        return float(LEFT + (time - t[0]) / (t[-1] - t[0]) * (WIDTH - LEFT - RIGHT))

    def down(value: float) -> float:
        return TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)

    # where a playhead moves: from LEFT to WIDTH - RIGHT for these times (playhead.js)
    span = f'data-begin="{t[0]:g}" data-end="{t[-1]:g}" data-left="{LEFT}" data-right="{WIDTH - RIGHT}"'
    out = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(plot.title)}" {span}>']
    for begin, end in plot.bands:
        x = across(begin)
        width = max(across(end) - x, 1.0)
        out.append(f'<rect class="band" x="{x:.1f}" y="{TOP}" width="{width:.1f}" height="{HEIGHT - TOP - BOTTOM}"/>')
    for tick in ticks:
        y = down(tick)
        out.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        out.append(f'<text x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{_tick_label(tick, decimals)}</text>')
    for tick in times:
        x, label = across(tick), _tick_label(tick, time_decimals)
        out.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{label}</text>')
    out.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 2}" text-anchor="end">{escape(plot.label)}</text>')
    for k, line in enumerate(values):
        finite = np.flatnonzero(np.isfinite(line))
        which = finite[drawn_samples(line[finite, None], MAX_POINTS)] if len(finite) else finite
        points = " ".join(f"{across(t[i]):.1f},{down(line[i]):.1f}" for i in which)
        out.append(f'<polyline class="line" style="stroke:var(--c{k % COLORS})" points="{points}"/>')
    out.append(f'<path class="playhead" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}" visibility="hidden"/>')
    out.append("</svg>")
    keys = [f'<span><i style="background:var(--c{k % COLORS})"></i>{escape(name)}</span>' for k, name in enumerate(plot.lines)]
    legend = f'<div class="legend">{"".join(keys)}</div>' if list(plot.lines) != [""] else ""
    return f'<div class="chart"><h4>{escape(plot.title)}</h4>{"".join(out)}{legend}</div>'


def round_up(length: float) -> float:
    """The smallest number 1, 2 or 5 times a power of ten that is not below a length."""
    power = 10.0 ** np.floor(np.log10(length))
    return float(next((f * power for f in (1.0, 2.0, 5.0) if f * power >= 0.999 * length), 10.0 * power))


def value_range(values: Sequence[Array]) -> tuple[float, float]:
    """(lowest, highest) of all finite values; a constant line gets room, so that its rounding is not magnified."""
    finite = np.concatenate([y[np.isfinite(y)] for y in values] or [np.zeros(0)])
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    if high - low < 1e-9 * max(abs(high), abs(low), 1e-3):
        margin = max(0.1 * abs(high), 1e-3)
        return low - margin, high + margin
    return low, high


def drawn_samples(values: Array, most: int) -> Array:
    """About `most` indices of values (n, lines) that a drawing needs: the first, the last, and every peak of every line."""
    if len(values) <= most:
        return np.arange(len(values))
    spans = max(most // (2 * max(values.shape[1], 1)), 1)
    peaks = [extremes(column, spans) for column in values.T]
    return np.unique(np.concatenate([[0, len(values) - 1], *peaks]).astype(int))


def _ticks(low: float, high: float, count: int) -> tuple[list[float], int]:
    """(about `count` round numbers from `low` to `high`, the decimals they need)."""
    step = round_up((high - low) / count)
    first, last = int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9))
    decimals = max(0, -int(np.floor(np.log10(step) + 1e-9)))
    return [k * step for k in range(first, last + 1)] or [low, high], decimals


def _tick_label(value: float, decimals: int) -> str:
    return f"{value:z.{decimals}f}" if decimals <= 6 and abs(value) < 1e7 else f"{value:.3g}"
