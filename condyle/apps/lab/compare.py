"""Runs of experiments side by side: a table of metrics, and a page with their responses, errors and torques."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from math import isfinite
from typing import Any

import numpy as np

from condyle.apps.lab.metrics import METRICS
from condyle.apps.lab.run import Signals, experiment_of, run_metrics, run_signals
from condyle.apps.lab.toml_text import toml_text
from condyle.errors import ControlError
from condyle.workbench.runs.run import Run
from condyle.workbench.view.page import facts_html, html_page
from condyle.workbench.view.plots import Chart, chart_html

BETTER = "ok"  # class of the smallest value of a row
MOST_COLUMNS = 7  # joints with a chart of their own


@dataclass(frozen=True)
class Comparison:
    """Runs by name, with metrics and signals of each."""

    runs: dict[str, Run]
    metrics: dict[str, dict[str, float]]
    signals: dict[str, Signals]

    @property
    def unit(self) -> str:
        """The unit of errors: rad, or m."""
        return next(iter(self.signals.values())).unit


def compare(runs: Mapping[str, Run]) -> Comparison:
    """The metrics of runs, which must be about the same thing: joints, or the tool."""
    if not runs:
        raise ControlError("there is no run to compare: give one or more")
    found = {name: run_signals(run) for name, run in runs.items()}
    units = {signals.unit for signals in found.values()}
    if len(units) > 1:
        raise ControlError("runs of joint controllers (errors in rad) and of tool controllers (errors in m) cannot be compared")
    return Comparison(dict(runs), {name: run_metrics(run) for name, run in runs.items()}, found)


def rows(of: Comparison) -> list[tuple[str, str, str, list[float]]]:
    """(metric, unit, what it is, values of the runs) for every metric that a run has."""
    found = []
    for metric in METRICS:
        values = [of.metrics[name][metric.name] for name in of.runs]
        if any(map(isfinite, values)):
            found.append((metric.name, metric.unit.format(of.unit), metric.summary, values))
    return found


def shown(value: float) -> str:
    """A value with four digits, or a dash."""
    return f"{value:.4g}" if isfinite(value) else "-"


def compare_page(of: Comparison, title: str = "") -> str:
    """The comparison as one HTML page that needs no network."""
    names = list(of.runs)
    heading = title or (f"{len(names)} runs compared" if len(names) > 1 else next(iter(of.runs.values())).title)
    header = f"<h1>{escape(heading)}</h1><p>{escape(', '.join(names))}</p>"
    overview, responses = (
        "".join(chart_html(chart) for chart in charts) for charts in (overview_charts(of), response_charts(of))
    )
    parts = [
        f"<section><h2>Metrics</h2>{_metrics_table(of)}</section>",
        f'<section><h2>Errors and torques</h2><div class="charts">{overview}</div></section>',
        f'<section><h2>Responses</h2><div class="charts">{responses}</div></section>',
    ]
    for name, run in of.runs.items():
        experiment = experiment_of(run)
        facts = {
            "robot": run.about["robot"],
            "steps": f"{run.steps:,} of {run.dt * 1e3:g} ms",
            "seed": run.about["seed"],
            "sha256": run.hash,
        }
        text = toml_text(experiment.data())
        parts.append(f"<section><h2>{escape(name)}</h2>{facts_html(facts)}<pre>{escape(text)}</pre></section>")
    return html_page(heading, header, "\n".join(parts))


def _metrics_table(of: Comparison) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in of.runs)
    body = []
    for name, unit, what, values in rows(of):
        finite = [x for x in values if isfinite(x)]
        best = min(finite) if len(values) > 1 else None
        cells = "".join(f'<td class="value{" good" if x == best else ""}">{shown(x)}</td>' for x in values)
        label = f"{name.replace('_', ' ')}{f', {unit}' if unit else ''}"
        body.append(f'<tr title="{escape(what)}"><td>{escape(label)}</td>{cells}<td class="said">{escape(what)}</td></tr>')
    return f'<div class="rows"><table><tr><th>metric</th>{head}<th></th></tr>{"".join(body)}</table></div>'


def overview_charts(of: Comparison) -> list[Chart]:
    """The norms of error and torque of every run over time."""
    t = _times(of)
    return [
        Chart(
            f"norm of the error, {of.unit}", t, {n: _over(t, s.t, _norm(s.reference - s.response)) for n, s in of.signals.items()}
        ),
        Chart("norm of the torque, N m", t, {n: _over(t, s.t, _norm(s.torque)) for n, s in of.signals.items()}),
    ]


def response_charts(of: Comparison) -> list[Chart]:
    """A chart for each joint or axis: the reference, and the response of every run."""
    t, first = _times(of), next(iter(of.signals.values()))
    found = []
    for k, name in enumerate(first.names[:MOST_COLUMNS]):
        lines = {n: _over(t, s.t, s.response[:, k]) for n, s in of.signals.items() if k < s.response.shape[1]}
        lines["reference"] = _over(t, first.t, first.reference[:, k])
        found.append(Chart(f"{name}, {of.unit}", t, lines))
    return found


def _times(of: Comparison) -> np.ndarray:
    return max((s.t for s in of.signals.values()), key=len)


def _over(t: np.ndarray, own: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values at the times t; nan after their own end."""
    found: np.ndarray = np.interp(t, own, values, right=np.nan)
    return found


def _norm(values: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.sqrt(np.sum(values * values, axis=1))
    return found


def named_runs(runs: Sequence[Run]) -> dict[str, Run]:
    """Runs by the names of their files, or by their titles; numbered where two are the same."""
    found: dict[str, Any] = {}
    for run in runs:
        name = run.path.stem if run.path is not None else run.title
        again = name
        for k in range(2, len(runs) + 2):
            if again not in found:
                break
            again = f"{name} ({k})"
        found[again] = run
    return found
