"""The report of an identification: one HTML page with tables and charts as SVG, that needs no network."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from condyle.atomic_write import PathLike, write_bytes
from condyle.methods.identify.identified import Identified, Prediction
from condyle.methods.identify.regressor import Array

WIDTH, HEIGHT, LEFT, BOTTOM = 620, 150, 52, 22  # pixels of a chart and of its margins
POINTS = 900  # of a curve, at most
MEASURED, PREDICTED, BEFORE, FAINT = "#8b909a", "#2a6bbf", "#c05621", "#c9ced6"
STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #22252b; max-width: 1300px; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; font-size: 13px; } td, th { padding: 2px 12px 2px 0; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; } tr.weak td { color: #8b909a; }
.charts { display: flex; flex-wrap: wrap; gap: 12px 24px; } svg text { font: 11px system-ui, sans-serif; fill: #22252b; }
"""


def write_report(found: Identified, path: PathLike) -> None:
    """None; the page of an identification, written atomically."""
    write_bytes(path, report_html(found).encode())


def report_html(found: Identified) -> str:
    """The page: how well forces are predicted, base parameters with intervals, numbers of links and joints."""
    p, robot = found.prediction, found.regressor.robot
    e = found.estimate
    facts = [
        ("logs", ", ".join(found.sources)),
        ("terms", ", ".join(found.regressor.terms)),
        ("cut-off", ", ".join(f"{c:.3g} Hz" for c in found.cutoffs)),
        ("equations", f"{found.rows:,} for {len(found.names)} base parameters"),
        ("condition number", f"{e.condition:.3g} with columns of length one"),
        ("noise of the forces", ", ".join(f"{n} {s:.3g}" for n, s in zip(found.joints, np.sqrt(np.diag(e.noise)), strict=True))),
        ("weakly determined", ", ".join(found.weak) or "none"),
    ]
    parts = [f"<h1>Identification of {escape(robot.name)}</h1>", _table(("", ""), facts)]
    if p is not None:
        on = "a log that was not used for the fit" if found.validated else "the log of the fit"
        rows = [
            (joint, f"{a:.3g}", f"{b:.2%}") for joint, a, b in zip(p.joints, p.rms.tolist(), p.relative.tolist(), strict=True)
        ]
        parts += [
            f"<h2>Joint forces: error {p.total:.2%}, before {p.total_nominal:.1%}</h2>",
            f"<p>Predicted from the positions of {on}; both are low-pass filtered. Grey: measured, blue: predicted, orange: by "
            "the model before.</p>",
            f'<div class="charts">{"".join(force_chart(p, j) for j in range(len(p.joints)))}</div>',
            _table(("joint", "rms error, N m or N", "relative"), rows),
        ]
    base_rows: list[tuple[str, ...]] = []
    for row in found.table():
        low, high = row["interval"]
        cells = (
            row["name"],
            f"{row['value']:.6g}",
            f"[{low:.6g}, {high:.6g}]",
            f"{row['nominal']:.6g}",
            row["unit"],
            row["combination"],
        )
        base_rows.append(cells)
    weak = [not row["determined"] for row in found.table()]
    parts += [
        f"<h2>Base parameters with {found.confidence:.0%} intervals</h2>",
        "<p>All that joint forces depend on. Grey rows are weakly determined.</p>",
        interval_chart(found),
        _table(("parameter", "value", "interval", "nominal", "unit", "combination"), base_rows, weak),
        "<h2>Links and joints</h2>",
        "<p>Physically consistent: every link is a body of positive density. The deviation counts the nominal model as a prior; "
        "a standard error is given where the forces alone determine a number.</p>",
        _table(("number", "value", "deviation", "standard error", "nominal", "unit"), _numbers(found)),
    ]
    head = f'<meta charset="utf-8"><title>Identification of {escape(robot.name)}</title><style>{STYLE}</style>'
    return f'<!doctype html><html lang="en">{head}{"".join(parts)}</html>\n'


def _numbers(found: Identified) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for number in found.as_dict()["numbers"]:
        error = "" if number["standard_error"] is None else f"{number['standard_error']:.2g}"
        deviation = f"{number['deviation_with_prior']:.2g}"
        rows.append((number["name"], f"{number['value']:.5g}", deviation, error, f"{number['nominal']:.5g}", number["unit"]))
    return rows


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], weak: Sequence[bool] = ()) -> str:
    names = "".join(f"<th>{escape(name)}</th>" for name in head) if any(head) else ""
    lines = []
    for k, row in enumerate(rows):
        cells = "".join(f"<td{_number_class(cell)}>{escape(cell)}</td>" for cell in row)
        lines.append(f"<tr{' class=weak' if k < len(weak) and weak[k] else ''}>{cells}</tr>")
    return f"<table><tr>{names}</tr>{''.join(lines)}</table>"


def _number_class(cell: str) -> str:
    try:
        float(cell.rstrip("%"))
    except ValueError:
        return ""
    return ' class="number"'


# ---- charts


def force_chart(p: Prediction, joint: int) -> str:
    """Measured and predicted force of a joint over time."""
    step = max(len(p.t) // POINTS, 1)
    t = p.t[::step] - p.t[0]
    curves = [
        (p.nominal[::step, joint], BEFORE, 0.8),
        (p.measured[::step, joint], MEASURED, 2.4),
        (p.predicted[::step, joint], PREDICTED, 1.0),
    ]
    low, high = (float(f([f(c[0]) for c in curves])) for f in (np.min, np.max))
    body = "".join(_curve(t, y, (float(t[-1]), low, high), color, width) for y, color, width in curves)
    ticks = f'<text x="2" y="24">{high:.3g}</text><text x="2" y="{HEIGHT - BOTTOM}">{low:.3g}</text>'
    ends = f'<text x="{LEFT}" y="{HEIGHT - 6}">0</text><text x="{WIDTH - 40}" y="{HEIGHT - 6}">{t[-1]:.3g} s</text>'
    title = f'<text x="{LEFT}" y="11">{escape(p.joints[joint])}, N m or N: error {p.relative[joint]:.2%}</text>'
    return f'<svg width="{WIDTH}" height="{HEIGHT}">{title}{ticks}{ends}{body}</svg>'


def _curve(t: Array, y: Array, scale: tuple[float, float, float], color: str, width: float) -> str:
    end, low, high = scale
    px = LEFT + t / max(end, 1e-12) * (WIDTH - LEFT - 8)
    py = HEIGHT - BOTTOM - (y - low) / max(high - low, 1e-12) * (HEIGHT - BOTTOM - 18)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(px, py, strict=True))
    return f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="{width}"/>'


def interval_chart(found: Identified) -> str:
    """Intervals and nominal values, each as a deviation from the estimate over the larger of its size and the nominal one's."""
    row, width, left = 15, 900, 190
    size = np.maximum(np.maximum(np.abs(found.values), np.abs(found.nominal)), found.standard_errors)
    half = np.minimum(found.quantile * found.standard_errors / size, 1.0)
    before = np.clip((found.nominal - found.values) / size, -1.0, 1.0)
    middle, reach = left + (width - left) / 2, (width - left) / 2 - 10
    lines = [f'<line x1="{middle}" x2="{middle}" y1="0" y2="{row * len(half) + 6}" stroke="{FAINT}"/>']
    for k, (name, h, b) in enumerate(zip(found.names, half.tolist(), before.tolist(), strict=True)):
        y = 10 + row * k
        lines.append(f'<text x="0" y="{y + 4}">{escape(name)}</text>')
        ends = f'x1="{middle - h * reach:.1f}" x2="{middle + h * reach:.1f}" y1="{y}" y2="{y}"'
        lines.append(f'<line {ends} stroke="{PREDICTED}" stroke-width="4"/>')
        lines.append(f'<circle cx="{middle + b * reach:.1f}" cy="{y}" r="3" fill="{BEFORE}"/>')
    end = row * len(half) + 20
    lines.append(f'<text x="{middle - reach}" y="{end}">-100 %</text><text x="{middle + reach - 34}" y="{end}">+100 %</text>')
    lines.append(f'<text x="{middle - 110}" y="{end}">blue: interval; orange: nominal value</text>')
    return f'<svg width="{width}" height="{end + 6}">{"".join(lines)}</svg>'
