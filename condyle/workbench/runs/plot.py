"""A run drawn over time: a figure with a subplot for each kind of signal (needs the extra `plot`), and a table for notebooks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.atomic_write import PathLike, write_bytes
from condyle.errors import CondyleError, require
from condyle.multibody.html import html_table
from condyle.robot.names import nearest
from condyle.workbench.runs.signals import extremes, signals

if TYPE_CHECKING:
    from condyle.workbench.runs.run import Run

SUFFIXES = (".png", ".svg", ".pdf")
INK, GREY, PUSH_COLOR = "#22252b", "#8b909a", "#7b4fc9"
# distinguishable with red-green colour blindness (Okabe and Ito 2008)
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#3b3f46", "#8c6d31")
STYLES = ("-", (0, (5, 1.5)), (0, (1.2, 1.2)))
MAX_LEGEND = len(COLORS) * len(STYLES)  # lines beyond which there is no legend
LEGEND_ROWS = 10
WIDTH, SUBPLOT_HEIGHT, TITLE_HEIGHT = 11.0, 2.0, 1.1  # inches
DPI = 110
MIN_RANGE = 1e-3  # relative; a line that changes by less is not magnified
MAX_POINTS = 20_000  # of one line
ZERO_FORCE = 1e-12
SPARK_WIDTH, SPARK_HEIGHT, SPARK_POINTS, SPARK_LINES = 300, 44, 150, 16  # units, pairs of points in a line, lines
CONTINUOUS = 0.5  # a frame with a wrench for more than this part of the time is actuated, not pushed


@dataclass(frozen=True)
class Subplot:
    """Lines by name that share one axis, over the times `t`."""

    label: str
    t: np.ndarray
    lines: dict[str, np.ndarray]


def plot(run: Run, path: PathLike | None, names: Sequence[str], compare: Run | None) -> Any:
    """The matplotlib figure of the subplots `names`, written to `path` unless that is None; see Run.plot."""
    if path is not None:
        check_suffix(path)
    if not run.steps:
        raise CondyleError(f"{run.path or run.title} holds no step, so there is nothing to draw; record a longer run")
    matplotlib = require("matplotlib", "plot", "the plot of a run")
    from matplotlib.figure import Figure

    shown = subplots(run, names)
    over = {subplot.label: subplot for subplot in subplots(compare, names)} if compare is not None else {}
    style = {"font.size": 10, "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": GREY, "xtick.color": INK}
    # the same bytes for the same run: no dates, no random names
    style |= {"ytick.color": INK, "svg.hashsalt": "condyle", "axes.formatter.useoffset": False, "font.family": "DejaVu Sans"}
    with matplotlib.rc_context(style):
        height = SUBPLOT_HEIGHT * len(shown) + TITLE_HEIGHT
        figure = Figure(figsize=(WIDTH, height), dpi=DPI, layout="constrained", facecolor="white")
        engine: Any = figure.get_layout_engine()
        engine.set(rect=(0.0, 0.0, 1.0, 1.0 - 0.62 / height), h_pad=0.06)
        figure.text(0.012, 1.0 - 0.12 / height, _one_line(run.title), va="top", weight="bold", fontsize=12)
        figure.text(0.012, 1.0 - 0.38 / height, _subtitle(run, compare), va="top", fontsize=9, color=GREY)
        axes = list(figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0])
        for ax, subplot in zip(axes, shown, strict=True):
            _draw(ax, subplot, over.get(subplot.label))
        _shade_pushes(axes, run)
        axes[-1].set_xlabel("time, s")
        axes[-1].set_xlim(0.0, max(run.seconds, 0.0 if compare is None else compare.seconds))
        if path is not None:
            content, kind = BytesIO(), Path(path).suffix.lower()[1:]
            figure.savefig(content, format=kind, metadata={"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind))
            write_bytes(path, content.getvalue())
    return figure


def check_suffix(path: PathLike) -> None:
    """None; a CondyleError if the name does not end in .png, .svg or .pdf."""
    name = Path(path)
    if name.suffix.lower() not in SUFFIXES:
        raise CondyleError(f"a plot is written as {', '.join(SUFFIXES)}, and {name.name} is none of them: try {name.stem}.png")


# ---- what the subplots show


def _groups(run: Run, *groups: str) -> Subplot | None:
    """The signals of these groups, their names without a common beginning or ending; None if the run has none."""
    found = {group: signal for group, signal in signals(run).items() if group in groups and signal.values.shape[1]}
    if not found:
        return None
    lines = {name: values[:, k] for values, _, names in found.values() for k, name in enumerate(names)}
    unit = " or ".join(dict.fromkeys(unit for _, unit, _ in found.values() if unit))
    label = " and ".join(found) + (f", {unit}" if unit else "")
    return Subplot(label, run.t[: len(next(iter(lines.values())))], _short_names(lines))


def _short_names(lines: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The lines without the beginning or ending that all their names share, such as _joint."""
    names = list(lines)
    for mark in ("_joint", "root_joint.", "root_"):
        for matches, shorten in ((str.endswith, str.removesuffix), (str.startswith, str.removeprefix)):
            if len(names) > 1 and all(matches(name, mark) and len(name) > len(mark) for name in names):
                return {shorten(name, mark): line for name, line in lines.items()}
    return lines


def _height(run: Run) -> Subplot | None:
    base = signals(run).get("base position")
    vertical = [k for k, name in enumerate(base.names) if name.endswith("z")] if base else []
    return Subplot("height of the base, m", run.t, {"": base.values[:, vertical[0]]}) if base and vertical else None


def _contact_forces(run: Run) -> Subplot | None:
    """The vertical force of each contact point that ever touches."""
    values = run.contact_forces[:, :, 2]
    lines = {n: values[:, k] for k, n in enumerate(run.simulation.contact_names) if np.abs(values[:, k]).max(initial=0.0) > 1e-9}
    return Subplot("vertical contact force, N", run.t[:-1], lines) if lines else None


def _external_forces(run: Run) -> Subplot | None:
    subplot = _groups(run, "external forces")
    lines = {} if subplot is None else {name: y for name, y in subplot.lines.items() if np.any(np.abs(y) > ZERO_FORCE)}
    return Subplot(subplot.label, subplot.t, lines) if subplot is not None and lines else None


SUBPLOTS: dict[str, Callable[[Run], Subplot | None]] = {
    "height": _height,
    "contact_forces": _contact_forces,
    "energy": lambda run: Subplot("energy, J", run.t, {"": np.asarray(run.simulation.energy(run.x))}),
    "joints": lambda run: _groups(run, "joint angles", "joint positions"),
    "velocities": lambda run: _groups(run, "joint velocities", "joint linear velocities"),
    "controls": lambda run: _groups(run, "torques", "forces") if np.any(np.abs(run.u) > ZERO_FORCE) else None,
    "external_forces": _external_forces,
    "position": lambda run: _groups(run, "base position"),
    "orientation": lambda run: _groups(run, "base orientation"),
    "velocity": lambda run: _groups(run, "base velocity"),
    "angular_velocity": lambda run: _groups(run, "base angular velocity"),
}
DEFAULT = ("height", "contact_forces", "energy", "joints", "controls")


def subplots(run: Run, names: Sequence[str] = ()) -> list[Subplot]:
    """The subplots of these names (of SUBPLOTS, or groups of `Run.signals`); by default those of DEFAULT that the run has."""
    found = []
    for name in names or DEFAULT:
        if name not in SUBPLOTS and name not in signals(run):
            raise CondyleError(f"signals: a run of {run.about['robot']} has no '{name}'{nearest(name, drawable(run))}")
        subplot = SUBPLOTS[name](run) if name in SUBPLOTS else _groups(run, name)
        if subplot is None and names:
            raise CondyleError(f"signals: this run has no {name}; it has {', '.join(drawable(run))}")
        if subplot is not None:
            found.append(_thinned(subplot))
    # external forces that act most of the time, as those of rotors do, are the controls of such a robot
    if not names and run.steps and np.any(_active(run).mean(axis=0) > CONTINUOUS) and (forces := _external_forces(run)):
        found.append(_thinned(forces))
    return found


def drawable(run: Run) -> list[str]:
    """The names that can be drawn of this run."""
    more = [name for name in (*run.states, *run.extras) if name not in SUBPLOTS and name != "tick"]
    return [*[name for name, make in SUBPLOTS.items() if make(run) is not None], *more]


def pushed(run: Run) -> list[tuple[float, float]]:
    """(from, to), s, of the times in which an external force acts on a frame that is free of it most of the time."""
    active = _active(run)
    now = np.any(active[:, active.mean(axis=0) <= CONTINUOUS], axis=1) if run.steps else np.zeros(0, dtype=bool)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], now.astype(np.int8), [0]])))
    return [(run.dt * a, run.dt * b) for a, b in edges.reshape(-1, 2)]


def _active(run: Run) -> np.ndarray:
    """(T, frames): whether a wrench acts there."""
    return np.asarray(np.any(np.abs(run.wrenches) > ZERO_FORCE, axis=2))


def _thinned(subplot: Subplot) -> Subplot:
    """The subplot with at most about MAX_POINTS times; every line keeps its extremes."""
    if len(subplot.t) <= MAX_POINTS:
        return subplot
    found = [extremes(line, MAX_POINTS // 2) for line in subplot.lines.values()]
    which = np.unique(np.concatenate([[0], *found, [len(subplot.t) - 1]]))
    return Subplot(subplot.label, subplot.t[which], {name: line[which] for name, line in subplot.lines.items()})


# ---- how they are drawn


def _subtitle(run: Run, compare: Run | None) -> str:
    text = f"{run.steps:,} steps of {run.dt * 1e3:g} ms"
    text += f"; controller {run.about['controller']}" if run.about.get("controller") else ""
    if compare is not None:
        first, second = (of.path.name if of.path is not None else of.title for of in (run, compare))
        text += f"; solid: {first}, dotted: {second}"
    return _one_line(text, 150)


def _one_line(text: str, most: int = 100) -> str:
    """At most so many characters in one line; `$` would begin a formula."""
    line = " ".join(text.split())
    return (line if len(line) <= most else f"{line[: most - 3]}...").replace("$", r"\$")


def _draw(ax: Any, subplot: Subplot, over: Subplot | None) -> None:
    for n, (name, y) in enumerate(subplot.lines.items()):
        color, style = COLORS[n % len(COLORS)], STYLES[n // len(COLORS) % len(STYLES)]
        label = _one_line(name, 28) if name else "_"
        if over is None:
            ax.plot(subplot.t, y, color=color, ls=style, lw=1.4, label=label)
        else:
            ax.plot(subplot.t, y, color=color, lw=1.2, alpha=0.8, label=label)
            if name in over.lines:
                ax.plot(over.t, over.lines[name], color=color, lw=1.9, ls=(0, (1.0, 1.6)), label="_")
    named = [name for name in subplot.lines if name]
    what, comma, unit = subplot.label.rpartition(", ")
    only = f" of {_one_line(named[0], 40)}" if len(subplot.lines) == 1 and named not in ([], [subplot.label]) else ""
    ax.set_title(f"{what}{only}{comma}{unit}" if comma else f"{unit}{only}", loc="left", fontsize=10)
    ax.grid(color=GREY, alpha=0.25, lw=0.6)
    ax.tick_params(length=3, labelsize=9)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    if 1 < len(named) <= MAX_LEGEND:
        place = {"loc": "center left", "bbox_to_anchor": (1.005, 0.5), "borderaxespad": 0.0, "frameon": False}
        space = {"handlelength": 1.6, "labelspacing": 0.25, "columnspacing": 1.0, "ncols": -(-len(named) // LEGEND_ROWS)}
        ax.legend(fontsize=8, **place, **space)
    elif len(named) > MAX_LEGEND:
        ax.annotate(f"{len(named)} lines", (1.01, 0.5), xycoords="axes fraction", color=GREY, fontsize=8)
    values = [*subplot.lines.values(), *(over.lines.values() if over is not None else ())]
    low, high = min(float(y.min()) for y in values), max(float(y.max()) for y in values)
    margin = MIN_RANGE * max(abs(high), abs(low), 1e-3)
    if high - low < margin:
        ax.set_ylim(0.5 * (low + high) - margin, 0.5 * (low + high) + margin)


def _shade_pushes(axes: Sequence[Any], run: Run) -> None:
    times = pushed(run)
    for begin, end in times:
        for ax in axes:
            ax.axvspan(begin, end, color=PUSH_COLOR, alpha=0.16, lw=0)
    if times:
        place = {"xy": (0.5 * sum(times[0]), 1.0), "xycoords": ("data", "axes fraction"), "xytext": (0, 2)}
        axes[0].annotate("pushed", **place, textcoords="offset points", ha="center", va="bottom", fontsize=8, color=PUSH_COLOR)


# ---- in notebooks


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
    for k, column in enumerate(values.T[:SPARK_LINES]):
        y = np.nan_to_num(column, nan=0.0, posinf=high, neginf=low)
        y = y[extremes(y, SPARK_POINTS)]
        x = np.linspace(1.0, SPARK_WIDTH - 1.0, len(y))
        points = " ".join(
            f"{a:.1f},{SPARK_HEIGHT - 2 - (b - low) / span * (SPARK_HEIGHT - 4):.1f}" for a, b in zip(x, y, strict=True)
        )
        lines.append(f'<polyline points="{points}" fill="none" stroke="{COLORS[k % len(COLORS)]}" stroke-width="1.2"/>')
    size = f'viewBox="0 0 {SPARK_WIDTH} {SPARK_HEIGHT}" width="{SPARK_WIDTH}" height="{SPARK_HEIGHT}"'
    svg = f'<svg {size} role="img">{"".join(lines)}</svg>'
    more = f", {values.shape[1] - SPARK_LINES} more not shown" if values.shape[1] > SPARK_LINES else ""
    return (
        f'<span style="display:inline-flex;align-items:center;gap:8px">{svg}<small>{low:.3g} to {high:.3g}{more}</small></span>'
    )
