"""Sections of the benchmark page about what is no rate of a robot: precision, constraints, control, the compiler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.measured import Measured
from benchmarks.page_text import Table, digits, faster, million, seconds


def facts_of(found: Sequence[Measured], name: str) -> tuple[Measured, dict[str, Any]] | None:
    """The newest result of a benchmark, if there is one."""
    return next(((each, each.facts) for each in reversed(found) if each.name == name), None)


def facts_sections(found: Sequence[Measured]) -> Iterator[str]:
    """float32, constraints and model-predictive control, in one table."""
    table = Table("what", "Condyle", "beside it", "how many times as fast", "command", left_end=True)
    for line in (*float32(found), *constraints(found), *mpc(found)):
        table.add(*line)
    if len(table.lines) > 2:
        yield "## Precision, constraints and control\n\nOne core, where nothing else is said.\n"
        yield str(table)


def float32(found: Sequence[Measured]) -> Iterator[tuple[str, ...]]:
    """A step of PiDog in float32 beside float64."""
    if known := facts_of(found, "float32"):
        each, facts = known
        for what in ("standing", "disturbed"):
            double, single = (1e-6 * t for t in facts[what][:2])
            name = f"a step of PiDog, {what}, float32"
            yield name, seconds(single), f"float64 {seconds(double)}", faster(double, single), f"`{each.command}`"


def constraints(found: Sequence[Measured]) -> Iterator[tuple[str, ...]]:
    """Reduced coordinates: a rolling pendulum, and legs with a four-bar mechanism."""
    if known := facts_of(found, "constraints"):
        each, facts = known
        one, other, batch = (facts["pendulum"][key] for key in ("one", "one_peer", "batch"))
        command = f"`{each.command}`"
        yield (
            "one state called from Python, a rolling pendulum",
            seconds(one),
            f"NumPy with Pinocchio {seconds(other)}",
            faster(other, one),
            command,
        )
        yield "the same in a batch", seconds(batch), "", "", command
        for name, cost in facts["costs"].items():
            apart = faster(cost["open"], cost["closed"])
            yield name, f"{digits(cost['closed'])} ns", f"its open tree {digits(cost['open'])} ns", apart, command


def mpc(found: Sequence[Measured]) -> Iterator[tuple[str, ...]]:
    """Quadratic programs of the birotor's MPC."""
    if known := facts_of(found, "mpc"):
        each, facts = known
        ours = 1e-6 * facts["peers"]["condyle (both phases)"]["us"]
        name, theirs = min(
            ((name, 1e-6 * row["us"]) for name, row in facts["peers"].items() if not name.startswith("condyle")),
            key=lambda p: p[1],
        )
        what = "quadratic programs of the birotor's MPC, with linearisation"
        yield what, seconds(ours), f"{name}, without, {seconds(theirs)}", faster(theirs, ours), f"`{each.command}`"


def readme_extra(found: Sequence[Measured]) -> Iterator[tuple[str, ...]]:
    """Lines for the README's table."""
    yield from mpc(found)
    yield from list(constraints(found))[:1]


def compiler_section(found: Sequence[Measured]) -> Iterator[str]:
    """Throughput and compile times of tapes."""
    table = Table("what", "measured", "command", left_end=True)
    for line in compiler(found):
        table.add(*line)
    if len(table.lines) > 2:
        yield "## The compiler\n"
        yield str(table)


def compiler(found: Sequence[Measured]) -> Iterator[tuple[str, ...]]:
    """Lines of that table."""
    if known := facts_of(found, "pendulums"):
        each, facts = known
        cores = f"{facts['cores']:.1f} of {facts['threads']} cores"
        yield (
            f"a million driven pendulums over ten periods, {cores}",
            f"{facts['states_per_second']:,.0f} states/s",
            f"`{each.command}`",
        )
        yield "the same, in operations", f"{million(facts['operations_per_second'])} million/s", f"`{each.command}`"
        both = f"{seconds(facts['fresh_seconds'])}, {seconds(facts['cached_seconds'])}"
        yield "that function compiled anew, and loaded from the cache", both, f"`{each.command}`"
    if known := facts_of(found, "compile_time"):
        each, facts = known
        for row in facts["rows"]:
            if row["operations"] > 20000:
                what = f"trace and compile {row['operations']:,} operations ({row['kind']})"
                yield what, seconds(row["total"]), f"`{each.command}`"
    if known := facts_of(found, "overhead"):
        each, facts = known
        calls = [1e-6 * row["condyle"] for row in facts["calls"].values()]
        yield "one call on one state, copies included", f"{seconds(min(calls))} to {seconds(max(calls))}", f"`{each.command}`"
    if known := facts_of(found, "throughput"):
        each, facts = known
        shares = [100.0 * row["ratio"] for row in facts["rows"]]
        what = "speed of a kernel against the same as vector C by gcc -O3"
        yield what, f"{min(shares):.0f} to {max(shares):.0f} %", f"`{each.command}`"
    if known := facts_of(found, "one_lane"):
        each, facts = known
        shares = [row["condyle"] / row["gcc"] for row in facts["rows"]]
        what = "time of a kernel of one lane against the exported C by gcc -O2"
        yield what, f"{min(shares):.2f} to {max(shares):.2f}", f"`{each.command}`"
