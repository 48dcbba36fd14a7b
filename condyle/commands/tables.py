"""The numbers of `condyle bench`, as tables for the terminal and for the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.table import Table

KERNELS = ("forward_dynamics", "inverse_dynamics", "mass_matrix", "forward_dynamics_derivatives")
# lines only where they help: eight columns fit into eighty letters
PLAIN: dict[str, Any] = {"title_justify": "left", "box": box.SIMPLE_HEAD, "pad_edge": False}


@dataclass
class Measured:
    """The numbers of one robot: nanoseconds per state, microseconds per call, seconds to compile."""

    robot: str
    nv: int
    kernels: dict[str, dict[str, float]] = field(default_factory=dict)
    mujoco_step: float | None = None
    call: dict[str, float] = field(default_factory=dict)
    compile: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def kernel_table(found: Sequence[Measured]) -> Table:
    """Nanoseconds per state, robot by robot."""
    table = Table(title="nanoseconds per state", **PLAIN)
    for head in ("robot", "nv", "function", "operations", "Condyle", "Pinocchio", "times as fast", "difference"):
        table.add_column(head, justify="left" if head in ("robot", "function") else "right")
    for measured in found:
        for k, (name, row) in enumerate(measured.kernels.items()):
            theirs = row.get("pinocchio")
            compared = ("-", "-", "-")
            if theirs is not None:
                compared = (f"{theirs:,.0f}", f"{theirs / row['condyle']:.1f}", f"{row['difference']:.0e}")
            first = ("", "") if k else (measured.robot, str(measured.nv))
            table.add_row(*first, name.replace("_", " "), f"{row['operations']:,}", f"{row['condyle']:,.0f}", *compared)
        table.add_section()
    return table


def call_table(found: Sequence[Measured]) -> Table:
    """One state from Python, MuJoCo's step beside our batch, and the seconds until the first result."""
    table = Table(title="forward dynamics: one call, one step, one compilation", **PLAIN)
    heads = ["robot", "one call, us", "pin.aba, us", "times as fast", "mj_step, ns", "batch against it"]
    for head in [*heads, "first result, s", "from the cache, s"]:
        table.add_column(head, justify="left" if head == "robot" else "right")
    for m in found:
        ours, theirs = m.call["condyle"], m.call.get("pinocchio")
        batch = m.kernels["forward_dynamics"]["condyle"]
        table.add_row(
            m.robot,
            f"{ours:.2f}",
            *(("-", "-") if theirs is None else (f"{theirs:.2f}", f"{theirs / ours:.2f}")),
            *(("-", "-") if m.mujoco_step is None else (f"{m.mujoco_step:,.0f}", f"{m.mujoco_step / batch:.1f}")),
            f"{m.compile['cold']:.2f}",
            f"{m.compile['cached']:.3f}",
        )
    return table


def markdown(numbers: dict[str, Any]) -> str:
    """The tables of the documentation: times with their ratios, and the operations."""
    robots = [Measured(**row) for row in numbers["robots"]]
    heads = [f"{m.robot}, nv {m.nv}" for m in robots]
    lines = [_row("one thread, ns per state: Pinocchio / Condyle = ratio", *heads), _row("---", *["--:"] * len(heads))]
    for name in KERNELS:
        lines.append(_row(name.replace("_", " "), *[_ratio(m.kernels[name].get("pinocchio"), m.kernels[name]) for m in robots]))
    steps = [_ratio(m.mujoco_step, m.kernels["forward_dynamics"]) for m in robots]
    lines.append(_row("MuJoCo `mj_step` / forward dynamics", *steps))
    calls = [f"{m.call.get('pinocchio', float('nan')):.1f} / {m.call['condyle']:.1f} µs" for m in robots]
    lines.append(_row("one state called from Python, `pin.aba` / ours", *calls))
    firsts = [f"{m.compile['cold']:.2f} s, {m.compile['cached']:.3f} s" for m in robots]
    lines += [_row("first result: compiled, from the cache", *firsts), ""]
    lines += [_row("operations", *heads), _row("---", *["--:"] * len(heads))]
    lines += [_row(name.replace("_", " "), *[f"{m.kernels[name]['operations']:,}" for m in robots]) for name in KERNELS]
    return "\n".join(lines)


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _ratio(theirs: float | None, ours: dict[str, float]) -> str:
    return "-" if theirs is None else f"{theirs:,.0f} / {ours['condyle']:,.0f} = **{theirs / ours['condyle']:.1f}**"
