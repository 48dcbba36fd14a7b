"""A run as a table with small plots for notebooks. Text from files is escaped, whatever it holds."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from condyle.multibody.html import html_table
from condyle.runs.signals import extremes

if TYPE_CHECKING:
    from condyle.runs.run import Run

WIDTH, HEIGHT = 300, 44  # units of a plot
POINTS = 150  # pairs of points in a line
MAX_LINES = 16
COLORS = ("#2a6fc9", "#d8572a", "#2d9a5b", "#8b57c9", "#b8860b", "#c23a6b", "#2596a8", "#7a7f87")


def run_html(run: Run) -> str:
    """An HTML table of what the run is, with small plots of its positions, velocities and controls; all text is escaped."""
    about = run.about
    rows = {
        "robot": about.get("robot", ""),
        "duration": f"{run.dt * run.steps:g} s, {run.steps:,} steps of {run.dt:g} s",
        "controller": about.get("controller", ""),
        "seed": about.get("seed"),
        "recorded": about.get("created", ""),
        "file": "" if run.path is None else run.path.name,
        "lost": run.lost or "",
    }
    cells = [(f"<b>{name}</b>", escape(str(value))) for name, value in rows.items() if value not in ("", None)]
    plots = [
        (f"<b>{name}</b>", sparkline(values))
        for name, values in (("positions", run.q), ("velocities", run.v), ("controls", run.u))
    ]
    return f"<div><b>{escape(run.title)}</b>{html_table([*cells, *plots])}</div>"


def sparkline(values: np.ndarray) -> str:
    """The columns of values (n, m) as lines of one small SVG with its range beside it; each pair of points keeps its extremes."""
    values = np.asarray(values, dtype=float)
    if values.ndim != 2 or not values.size:
        return "none"
    low, high = (float(f(values[np.isfinite(values)], initial=0.0)) for f in (np.min, np.max))
    span = (high - low) or 1.0
    lines = []
    for k, column in enumerate(values.T[:MAX_LINES]):
        y = np.nan_to_num(column, nan=0.0, posinf=high, neginf=low)
        y = y[extremes(y, POINTS)]
        x = np.linspace(1.0, WIDTH - 1.0, len(y))
        points = " ".join(f"{a:.1f},{HEIGHT - 2 - (b - low) / span * (HEIGHT - 4):.1f}" for a, b in zip(x, y, strict=True))
        lines.append(f'<polyline points="{points}" fill="none" stroke="{COLORS[k % len(COLORS)]}" stroke-width="1.2"/>')
    svg = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">{"".join(lines)}</svg>'
    more = f", {values.shape[1] - MAX_LINES} more not shown" if values.shape[1] > MAX_LINES else ""
    return (
        f'<span style="display:inline-flex;align-items:center;gap:8px">{svg}<small>{low:.3g} to {high:.3g}{more}</small></span>'
    )
