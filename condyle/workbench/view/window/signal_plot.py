"""Signals over time in the panel, with a cursor at the present time. Drawn by uPlot, which viser includes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.workbench.view.plots import drawn_samples, value_range
from condyle.workbench.view.window.panel import Panel, legend, short

COLORS = ("#2f6fd0", "#d9541e", "#2a9d4a", "#8b3fd6", "#c79a00", "#00a0a8", "#d6336c", "#7a5c3e")
CURSOR_COLOR, SECOND_COLOR = "#e03131", "#808896"
MAX_LINES = 16
MAX_POINTS = 800
HEIGHT = 210  # pixels


@dataclass(frozen=True, eq=False)
class Signal:
    """Lines of one unit: values (n, columns) at times t (n,)."""

    t: np.ndarray
    values: np.ndarray
    unit: str
    names: Sequence[str]

    def thinned(self) -> Signal:
        """The signal with about MAX_POINTS samples, its peaks among them."""
        which = drawn_samples(self.values, MAX_POINTS)
        return Signal(self.t[which], self.values[which], self.unit, self.names)

    def minus(self, other: Signal) -> Signal:
        """This signal less another, where both have a column, at the times of the other that this one reaches."""
        names = [name for name in other.names if name in self.names]
        t = other.t[other.t <= self.t[-1] + 1e-12]
        columns = [
            np.interp(t, self.t, self.values[:, list(self.names).index(name)])
            - other.values[: len(t), list(other.names).index(name)]
            for name in names
        ]
        return Signal(t, np.stack(columns, axis=1) if columns else np.zeros((len(t), 0)), self.unit, names)


class SignalPlot:
    """One plot with a list of signals to choose from; `lines(group)` gives them, of a first run and perhaps a second."""

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
        self._lines, self._cursor, self._gui = lines, cursor, panel.gui
        self._groups = {short(group, 60): group for group in groups}
        choice = self._gui.add_dropdown("signal", tuple(self._groups), initial_value=short(first, 60))
        self.choice = panel.linked(choice, lambda _: self.draw())
        self.difference = panel.linked(self._gui.add_checkbox("difference", False), lambda _: self.draw()) if compare else None
        self._plot: Any = None
        self.data: tuple[np.ndarray, ...] = ()
        self._range = (0.0, 1.0)
        self._now = 0.0
        self.draw()

    def draw(self) -> None:
        """Draw the chosen signal again."""
        found = list(self._lines(self._groups[self.choice.value]))
        if self.difference is not None and self.difference.value and len(found) == 2:
            found = [found[1].minus(found[0])]
        t, rows, series = _on_one_axis(found)
        low, high = value_range(rows)
        self.data, self._range = (t, *rows), (low - 0.06 * (high - low), high + 0.06 * (high - low))
        series = [{"label": "t, s"}, *series]
        if self._cursor:
            series.append({"label": "now", "stroke": CURSOR_COLOR, "width": 1.5, "points": {"show": False}})
        unit = found[0].unit if found else ""
        options = {
            "series": tuple(series),
            "title": f"{self.choice.value}{', ' + unit if unit else ''}",
            "scales": {"x": {"time": False}, "y": {"range": self._range}},
            "legend": {"show": False},
            "data": (*self.data, self._cursor_line()) if self._cursor else self.data,
        }
        # a legend of our own: uPlot's takes half of the plot, and writes values that nobody asked for
        marks = [(each["stroke"], each["label"]) for each in series if "stroke" in each and "dash" not in each]
        if any("dash" in each for each in series):
            marks.append((f"{SECOND_COLOR} dashed", "second run"))
        if self._plot is None:
            self._plot = self._gui.add_uplot(**options, height=HEIGHT)
            self._legend = self._gui.add_html(legend(marks))
        else:
            self._legend.content = legend(marks)
            for name, value in options.items():
                setattr(self._plot, name, value)

    def now(self, time: float) -> None:
        """Move the cursor to a time."""
        self._now = time
        self._plot.data = (*self.data, self._cursor_line())

    def _cursor_line(self) -> np.ndarray:
        """Far below the plot everywhere, with a peak far above it at the present time: a line from edge to edge."""
        t, (low, high) = self.data[0], self._range
        line = np.full(len(t), low - 50.0 * (high - low))
        line[int(np.clip(np.searchsorted(t, self._now - 1e-9), 0, len(t) - 1))] = high + 50.0 * (high - low)
        return line


def _on_one_axis(found: Sequence[Signal]) -> tuple[np.ndarray, list[np.ndarray], list[dict[str, Any]]]:
    """(t, lines, style of each) of up to two signals at the times of both; the second is dashed."""
    thin = [signal.thinned() for signal in found if len(signal.t) > 1 and signal.values.shape[1]]
    if not thin:
        return np.array([0.0, 1.0]), [np.zeros(2)], [{"label": "nothing", "stroke": COLORS[0]}]
    t = np.unique(np.concatenate([signal.t for signal in thin]))
    rows, series = [], []
    for number, signal in enumerate(thin):
        for k in range(min(signal.values.shape[1], MAX_LINES // len(thin))):
            # after its end, the shorter one stays where it was
            rows.append(np.interp(t, signal.t, signal.values[:, k].astype(float)))
            style: dict[str, Any] = {"stroke": COLORS[k % len(COLORS)], "width": 1.5, "points": {"show": False}}
            style["label"] = short(f"{signal.names[k]} (2nd)", 46) if number else short(signal.names[k], 40)
            series.append(style | ({"dash": [4, 3]} if number else {}))
    return t, rows, series
