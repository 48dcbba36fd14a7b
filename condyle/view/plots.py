"""Lines over time as a small piece of HTML with SVG inside: no script, nothing fetched, colours that follow the page's theme."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from condyle.errors import ShapeError
from condyle.runs.signals import extremes

Array = np.ndarray

WIDTH, HEIGHT = 640, 210
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 10, 34  # what the axes' numbers need
MOST_POINTS = 600  # of a line: more than its pixels would not be seen
COLORS = 8  # of the palette; further lines begin again with it

STYLE = """
.chart{--c0:#2a6bbf;--c1:#cc3a2e;--c2:#2e8b57;--c3:#b8860b;--c4:#7a4fbf;--c5:#0f8b8d;--c6:#c2528b;--c7:#6b7280;
--ink:#22252b;--faint:#6b7280;--grid:#dfe3e8;margin:0 0 1.2em;min-width:0}
@media (prefers-color-scheme:dark){.chart{--c0:#6aa9ff;--c1:#ff7b6e;--c2:#5fd08f;--c3:#e8bd4a;--c4:#b79bff;
--c5:#4fd1d3;--c6:#ff93c4;--c7:#a0a7b4;--ink:#e7e9ee;--faint:#a0a7b4;--grid:#343943}}
.chart h4{margin:0 0 .2em;font:600 14px system-ui,sans-serif;color:var(--ink)}
.chart svg{display:block;width:100%;height:auto;overflow:visible}
.chart text{font:12px system-ui,sans-serif;fill:var(--faint)}
.chart .grid{stroke:var(--grid);stroke-width:1;fill:none}
.chart .line{fill:none;stroke-width:1.6;stroke-linejoin:round}
.chart .band{fill:var(--c4);opacity:.13}
.chart .legend{display:flex;flex-wrap:wrap;gap:.1em 1.1em;font:12px system-ui,sans-serif;color:var(--ink)}
.chart .legend i{display:inline-block;width:14px;height:3px;border-radius:2px;margin-right:.4em;vertical-align:middle}
"""


@dataclass(frozen=True)
class Chart:
    """Named lines over the same times; `bands` are (begin, end) of what is worth a shade, such as a push."""

    title: str
    t: Array
    lines: Mapping[str, Array]
    bands: Sequence[tuple[float, float]] = ()

    def __post_init__(self) -> None:
        for name, values in self.lines.items():
            if np.shape(values) != np.shape(self.t) or np.ndim(self.t) != 1 or len(self.t) < 2:
                raise ShapeError(f"chart '{self.title}': '{name}' has shape {np.shape(values)}, its times {np.shape(self.t)}")


def chart_html(plot: Chart) -> str:
    """The chart; put STYLE into the page once."""
    t = np.asarray(plot.t, dtype=float)
    values = [np.asarray(y, dtype=float) for y in plot.lines.values()]
    low, high = _range(values)
    ticks, decimals = _ticks(low, high, 5)
    low, high = min(low, ticks[0]), max(high, ticks[-1])
    times, time_decimals = _ticks(float(t[0]), float(t[-1]), 8)

    def across(time: float) -> float:
        return float(LEFT + (time - t[0]) / (t[-1] - t[0]) * (WIDTH - LEFT - RIGHT))

    def down(value: float) -> float:
        return TOP + (high - value) / (high - low) * (HEIGHT - TOP - BOTTOM)

    out = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(plot.title)}">']
    for begin, end in plot.bands:
        x = across(begin)
        width = max(across(end) - x, 1.0)
        out.append(f'<rect class="band" x="{x:.1f}" y="{TOP}" width="{width:.1f}" height="{HEIGHT - TOP - BOTTOM}"/>')
    for tick in ticks:
        y = down(tick)
        out.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        out.append(f'<text x="{LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{_number(tick, decimals)}</text>')
    for tick in times:
        x, label = across(tick), _number(tick, time_decimals)
        out.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{label}</text>')
    out.append(f'<text x="{WIDTH - RIGHT}" y="{HEIGHT - 2}" text-anchor="end">time, s</text>')
    for k, line in enumerate(values):
        points = " ".join(f"{across(a):.1f},{down(b):.1f}" for a, b in _thinned(t, line))
        out.append(f'<polyline class="line" style="stroke:var(--c{k % COLORS})" points="{points}"/>')
    out.append("</svg>")
    return f'<div class="chart"><h4>{escape(plot.title)}</h4>{"".join(out)}{_legend(list(plot.lines))}</div>'


def _legend(names: list[str]) -> str:
    if names == [""]:
        return ""
    keys = [f'<span><i style="background:var(--c{k % COLORS})"></i>{escape(name)}</span>' for k, name in enumerate(names)]
    return f'<div class="legend">{"".join(keys)}</div>'


def _range(values: Sequence[Array]) -> tuple[float, float]:
    """(lowest, highest) of all finite values; a line that does not move gets room, so that its rounding is not magnified."""
    finite = np.concatenate([y[np.isfinite(y)] for y in values] or [np.zeros(0)])
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    if high - low < 1e-9 * max(abs(high), abs(low), 1e-3):
        reach = max(0.1 * abs(high), 1e-3)
        return low - reach, high + reach
    return low, high


def _ticks(low: float, high: float, count: int) -> tuple[list[float], int]:
    """(about `count` round numbers from `low` to `high`, the decimals they need)."""
    rough = (high - low) / count
    power = 10.0 ** np.floor(np.log10(rough))
    step = next(m * power for m in (1.0, 2.0, 2.5, 5.0, 10.0) if m * power >= rough * 0.999)
    first, last = int(np.ceil(low / step - 1e-9)), int(np.floor(high / step + 1e-9))
    decimals = max(0, -int(np.floor(np.log10(step) + 1e-9))) + (1 if round(step / power, 3) == 2.5 else 0)
    return [k * step for k in range(first, last + 1)] or [low, high], decimals


def _number(value: float, decimals: int) -> str:
    return f"{value:z.{decimals}f}" if decimals <= 6 and abs(value) < 1e7 else f"{value:.3g}"


def _thinned(t: Array, y: Array) -> list[tuple[float, float]]:
    """The points to draw, the first and the last included."""
    good = np.isfinite(y)
    t, y = t[good], y[good]
    if not len(t):
        return []
    which = np.unique([0, *extremes(y, MOST_POINTS // 2), len(t) - 1])
    return list(zip(t[which].tolist(), y[which].tolist(), strict=True))
