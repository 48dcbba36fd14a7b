"""The plots of a sweep and its HTML page: a line for one swept value, a heat map for two, scatter plots for more."""

from __future__ import annotations

from html import escape

import numpy as np

from condyle.apps.lab.compare import shown
from condyle.apps.lab.metrics import METRICS, NAMES
from condyle.apps.lab.sweep import SweepResult
from condyle.apps.lab.toml_text import toml_text
from condyle.workbench.view.page import facts_html, html_page
from condyle.workbench.view.plots import Chart, chart_html

# from dark to light, distinguishable in grey (viridis, Smith and van der Walt 2015)
RAMP = np.array([[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]], dtype=float)
WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT = 640, 420, 90, 56, 16, 110
MOST_CELLS, MOST_POINTS, MOST_ROWS = 100, 4000, 20


def color(part: float) -> str:
    """The colour of a number from 0 to 1; grey for nan."""
    if not np.isfinite(part):
        return "#999"
    at = min(max(part, 0.0), 1.0) * (len(RAMP) - 1)
    k = min(int(at), len(RAMP) - 2)
    r, g, b = RAMP[k] + (RAMP[k + 1] - RAMP[k]) * (at - k)
    return f"rgb({r:.0f},{g:.0f},{b:.0f})"


def is_grid(found: SweepResult) -> bool:
    """Whether two values are swept by a grid and nothing else."""
    return len(found.values) == 2 and not found.spec.random and found.spec.samples == 1


def plots(found: SweepResult, metric: str = "score") -> list[str]:
    """The plots of a metric over the swept values, as HTML."""
    paths, z = list(found.values), np.where(found.ok, found[metric], np.nan)
    if is_grid(found):
        return [heat_map(found, metric)]
    if len(paths) == 1 and not found.spec.random and len(z) > 1:
        order = np.argsort(found.values[paths[0]])
        return [chart_html(Chart(label(metric), found.values[paths[0]][order], {metric: z[order]}, label=paths[0]))]
    return [scatter(found.values[path], z, path, metric) for path in paths]


def label(metric: str) -> str:
    """A metric in words."""
    return metric.replace("_", " ")


def heat_map(found: SweepResult, metric: str) -> str:
    """A cell for each point of a grid of two values, coloured by a metric."""
    (x_name, x), (y_name, y) = found.values.items()
    xs, ys = np.unique(x), np.unique(y)
    z = np.where(found.ok, found[metric], np.nan)
    if len(xs) > MOST_CELLS or len(ys) > MOST_CELLS:
        return scatter(x, z, x_name, metric) + scatter(y, z, y_name, metric)
    low, high = _range(z)
    w, h = (WIDTH - LEFT - RIGHT) / len(xs), (HEIGHT - TOP - BOTTOM) / len(ys)
    out = [_svg(f"{label(metric)} over {x_name} and {y_name}")]
    for k in range(len(z)):
        i, j = int(np.searchsorted(xs, x[k])), int(np.searchsorted(ys, y[k]))
        title = f"<title>{escape(x_name)} {x[k]:g}, {escape(y_name)} {y[k]:g}: {shown(float(z[k]))}</title>"
        place = f'x="{LEFT + i * w:.1f}" y="{HEIGHT - BOTTOM - (j + 1) * h:.1f}" width="{w + 0.3:.1f}" height="{h + 0.3:.1f}"'
        out.append(f'<rect {place} fill="{color((z[k] - low) / (high - low))}">{title}</rect>')
    for i in _some(len(xs), 10):
        out.append(f'<text x="{LEFT + (i + 0.5) * w:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{xs[i]:.4g}</text>')
    for j in _some(len(ys), 10):
        out.append(f'<text x="{LEFT - 7}" y="{HEIGHT - BOTTOM - (j + 0.5) * h + 4:.1f}" text-anchor="end">{ys[j]:.4g}</text>')
    out += [_axis_names(x_name, y_name), _color_bar(low, high), "</svg>"]
    return f'<div class="chart"><h4>{escape(label(metric))}</h4>{"".join(out)}</div>'


def scatter(x: np.ndarray, z: np.ndarray, x_name: str, metric: str) -> str:
    """A point for each run: a swept value and a metric."""
    good = np.flatnonzero(np.isfinite(z))[:MOST_POINTS]
    if not len(good):
        return f'<div class="chart"><h4>{escape(label(metric))} over {escape(x_name)}</h4><p>no run reached its end</p></div>'
    (x0, x1), (low, high) = _range(x), _range(z)
    out = [_svg(f"{label(metric)} over {x_name}")]
    for k in good:
        a = LEFT + (x[k] - x0) / (x1 - x0) * (WIDTH - LEFT - RIGHT)
        b = HEIGHT - BOTTOM - (z[k] - low) / (high - low) * (HEIGHT - TOP - BOTTOM)
        out.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.2" fill="var(--c0)" fill-opacity="0.45"/>')
    for part in np.linspace(0.0, 1.0, 5):
        a, b = LEFT + part * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)
        out.append(f'<text x="{a:.1f}" y="{HEIGHT - BOTTOM + 17}" text-anchor="middle">{x0 + part * (x1 - x0):.4g}</text>')
        out.append(f'<text x="{LEFT - 7}" y="{b + 4:.1f}" text-anchor="end">{low + part * (high - low):.3g}</text>')
    out += [_axis_names(x_name, label(metric)), "</svg>"]
    return f'<div class="chart"><h4>{escape(label(metric))} over {escape(x_name)}</h4>{"".join(out)}</div>'


def _svg(title: str) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'


def _axis_names(x: str, y: str) -> str:
    middle = LEFT + (WIDTH - LEFT - RIGHT) / 2
    across = f'<text x="{middle}" y="{HEIGHT - 14}" text-anchor="middle">{escape(x)}</text>'
    turned = f'transform="translate(16 {(HEIGHT - BOTTOM + TOP) / 2}) rotate(-90)"'
    return f'{across}<text {turned} text-anchor="middle">{escape(y)}</text>'


def _color_bar(low: float, high: float) -> str:
    x, steps = WIDTH - RIGHT + 24, 40
    tall = HEIGHT - TOP - BOTTOM
    h = tall / steps
    cells = [
        f'<rect x="{x}" y="{HEIGHT - BOTTOM - (k + 1) * h:.1f}" width="16" height="{h + 0.4:.1f}" '
        f'fill="{color((k + 0.5) / steps)}"/>'
        for k in range(steps)
    ]
    marks = [
        f'<text x="{x + 22}" y="{HEIGHT - BOTTOM - part * tall + 4:.1f}">{low + part * (high - low):.3g}</text>'
        for part in (0.0, 0.5, 1.0)
    ]
    return "".join(cells + marks)


def _range(values: np.ndarray) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _some(count: int, most: int) -> list[int]:
    return list(range(0, count, -(-count // most)))


def sweep_page(found: SweepResult, metric: str = "score") -> str:
    """The sweep as one HTML page that needs no network."""
    runs = len(found.ids)
    failed = int(runs - found.ok.sum())
    title = found.experiment.title or found.experiment.arm.name
    header = (
        f"<h1>{escape(title)}: {runs:,} runs</h1><p>{escape(', '.join(found.values))}; {failed:,} did not reach their end.</p>"
    )
    extra = [name for name in ("rms_error", "effort") if name != metric]
    charts = "".join(part for name in (metric, *extra) for part in plots(found, name))
    order = np.argsort(np.where(found.ok & np.isfinite(found[metric]), found[metric], np.inf), kind="stable")[:MOST_ROWS]
    heads = ["id", *found.values, metric, "rms_error", "overshoot", "settling_time", "effort"]
    heads = list(dict.fromkeys(heads))
    body = []
    for k in order:
        cells = [found.ids[k], *(f"{found.values[p][k]:.5g}" for p in found.values)]
        cells += [shown(float(found[name][k])) for name in heads[1 + len(found.values) :]]
        body.append("<tr>" + "".join(f'<td class="value">{escape(cell)}</td>' for cell in cells) + "</tr>")
    head = "".join(f"<th>{escape(label(name))}</th>" for name in heads)
    table = f'<div class="rows"><table><tr>{head}</tr>{"".join(body)}</table></div>'
    facts = {"sha256 of the table": found.hash, **{m.name: m.summary for m in METRICS if m.name in heads and m.name in NAMES}}
    main = f"""<section><h2>{escape(label(metric))}</h2><div class="charts">{charts}</div></section>
<section><h2>The best runs by {escape(label(metric))}</h2>{table}</section>
<section><h2>Experiment</h2>{facts_html(facts)}<pre>{escape(toml_text(found.experiment.data()))}</pre></section>"""
    return html_page(f"{title}: {runs:,} runs", header, main)
