"""Signals over time in the panel, with a line at the present time. Drawn by uPlot, which viser brings along."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.view.window.panel import Panel
from condyle.view.window.text import short

COLORS = ("#2f6fd0", "#d9541e", "#2a9d4a", "#8b3fd6", "#c79a00", "#00a0a8", "#d6336c", "#7a5c3e")
NOW = "#e03131"
MOST_LINES = 16
MOST_POINTS = 800
MOST_NAMES = 8  # lines whose names are written below
HEIGHT = 210


@dataclass(frozen=True, eq=False)
class Signal:
    """Lines of one unit: values (n, columns) at times t (n,)."""

    t: np.ndarray
    values: np.ndarray
    unit: str
    names: Sequence[str]


class Plot:
    """One chart with a list of signals to choose from; `lines(group)` gives them, of a first run and perhaps a second."""

    def __init__(
        self,
        panel: Panel,
        groups: Sequence[str],
        lines: Callable[[str], Sequence[Signal]],
        first: str,
        *,
        compare: bool = False,
        cursor: bool = True,
    ) -> None:
        self._lines, self._cursor = lines, cursor
        gui = panel.gui
        self._names = {short(group, 60): group for group in groups}
        self.choice = gui.add_dropdown("signal", tuple(self._names), initial_value=short(first, 60))
        self.choice.on_update(panel.does(self.draw))
        self.difference = gui.add_checkbox("difference", False) if compare else None
        if self.difference is not None:
            self.difference.on_update(panel.does(self.draw))
        self._chart: Any = None
        self._gui = gui
        self._data: tuple[np.ndarray, ...] = ()
        self._range = (0.0, 1.0)
        self._now = 0.0

    def draw(self) -> None:
        """Draw the chosen signal anew."""
        found = list(self._lines(self._names[self.choice.value]))
        if self.difference is not None and self.difference.value and len(found) == 2:
            found = [apart(*found)]
        t, rows, series = _joined(found)
        self._data, self._range = (t, *rows), span(rows)
        title = f"{self.choice.value}{', ' + found[0].unit if found and found[0].unit else ''}"
        names = len(rows) <= MOST_NAMES
        data = (*self._data, self._line()) if self._cursor else self._data
        more = [{"label": "t, s"}, *series]
        if self._cursor:
            more.append({"label": "now", "stroke": NOW, "width": 1.5, "points": {"show": False}})
        scales = {"x": {"time": False}, "y": {"range": self._range}}
        options = {"title": title, "scales": scales, "legend": {"show": names}, "height": HEIGHT}
        if self._chart is None:
            self._chart = self._gui.add_uplot(data, tuple(more), **options)
        else:
            self._chart.series = tuple(more)
            self._chart.title = title
            self._chart.legend = options["legend"]
            self._chart.scales = scales
            self._chart.data = data

    def now(self, time: float) -> None:
        """Move the line to a time."""
        self._now = time
        if self._chart is not None and self._data:
            self._chart.data = (*self._data, self._line())

    def _line(self) -> np.ndarray:
        """Far below the chart everywhere, but for a peak far above it at the present time: a line from edge to edge."""
        t, (low, high) = self._data[0], self._range
        line = np.full(len(t), low - 50.0 * (high - low))
        line[int(np.clip(np.searchsorted(t, self._now - 1e-9), 0, len(t) - 1))] = high + 50.0 * (high - low)
        return line


def span(rows: Sequence[np.ndarray]) -> tuple[float, float]:
    """The lowest and highest value of all rows, and a little more."""
    values = np.concatenate(rows) if rows else np.zeros(1)
    values = values[np.isfinite(values)]
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    # a line that does not move is drawn in the middle, not magnified to its rounding
    margin = max(0.06 * (high - low), 1e-3 * max(abs(low), abs(high)), 1e-6)
    return low - margin, high + margin


def apart(one: Signal, two: Signal) -> Signal:
    """The second signal less the first, where both have a column, at the times of the first that the second reaches."""
    names = [name for name in one.names if name in two.names]
    t = one.t[one.t <= two.t[-1] + 1e-12]
    columns = [
        np.interp(t, two.t, two.values[:, list(two.names).index(name)]) - one.values[: len(t), list(one.names).index(name)]
        for name in names
    ]
    return Signal(t, np.stack(columns, axis=1) if columns else np.zeros((len(t), 0)), one.unit, names)


def thinned(signal: Signal, most: int = MOST_POINTS) -> Signal:
    """The signal with at most so many points: of each stretch, the one farthest from its middle, so that no peak is lost."""
    n = len(signal.t)
    if n <= most:
        return signal
    size = int(np.ceil(n / most))
    count = n // size
    values = signal.values[: count * size].reshape(count, size, -1)
    far = np.abs(values - values.mean(axis=1, keepdims=True)).argmax(axis=1)
    picked = np.take_along_axis(values, far[:, None, :], axis=1)[:, 0, :]
    return Signal(signal.t[: count * size : size], picked, signal.unit, signal.names)


def groups_of(signals: Mapping[str, Any]) -> list[str]:
    """The groups that have columns."""
    return [group for group, (values, _) in signals.items() if np.ndim(values) == 2 and np.shape(values)[1]]


def _joined(found: Sequence[Signal]) -> tuple[np.ndarray, list[np.ndarray], list[dict[str, Any]]]:
    """(t, lines, how each looks) of up to two signals on the times of both; the second is dashed."""
    thin = [thinned(signal) for signal in found if len(signal.t) > 1 and signal.values.shape[1]]
    if not thin:
        return np.array([0.0, 1.0]), [np.zeros(2)], [{"label": "nothing", "stroke": COLORS[0]}]
    t = thin[0].t if len(thin) == 1 else np.unique(np.concatenate([signal.t for signal in thin]))
    rows, series = [], []
    for which, signal in enumerate(thin):
        for k in range(min(signal.values.shape[1], MOST_LINES // len(thin))):
            y = signal.values[:, k].astype(float)
            # after its end, the shorter one stays where it was
            rows.append(y if len(thin) == 1 else np.interp(t, signal.t, y))
            look: dict[str, Any] = {"label": short(signal.names[k], 40), "stroke": COLORS[k % len(COLORS)], "width": 1.5}
            look["points"] = {"show": False}
            if which:
                look |= {"dash": [4, 3], "label": short(f"{signal.names[k]} (2nd)", 46)}
            series.append(look)
    return t, rows, series
