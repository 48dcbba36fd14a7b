"""The replay of a run: every step computed again from the state before it, and compared bit by bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.closed_loop.loop import Loop
from condyle.errors import FileError
from condyle.simulate.status import Status
from condyle.workbench.runs.loops import CLOCK, OPEN, open_loop, plant
from condyle.workbench.runs.signals import extra_names

if TYPE_CHECKING:
    from condyle.workbench.runs.run import Run

BATCH = 1 << 17  # steps that are computed at once


@dataclass(frozen=True)
class Replay:
    """Whether a run repeats bit for bit; if not, the first state and entry that differ. `ulps`: how many floats lie between.

    State k is the one after k steps; `expected` is what was recorded, `got` what was computed. `reason` says why that
    step cannot be computed at all. `lost` is what the run lacks, and `changed` whether it was damaged or changed after it was
    recorded, rather than cut. True for a run whose steps repeat and that was not changed.
    """

    identical: bool
    steps: int
    entries: int
    step: int | None = None
    entry: str | None = None
    expected: float | None = None
    got: float | None = None
    ulps: int | None = None
    reason: str | None = None
    lost: str | None = None
    changed: bool = False

    @property
    def difference(self) -> float:
        """got - expected; zero for an identical run, and for 0.0 against -0.0."""
        return 0.0 if self.expected is None or self.got is None else self.got - self.expected

    def __bool__(self) -> bool:
        return self.identical and not self.changed

    def __str__(self) -> str:
        if self.identical:
            size = f"{self.steps:,} steps, {self.entries} entries each"
            if self.lost is None:
                return f"bit-identical: {size}"
            if self.changed:
                return f"the states repeat, {size}, but the numbers are not all as they were recorded: {self.lost}"
            return f"bit-identical as far as it goes: {size}; {self.lost}"
        if self.reason is not None:
            return f"differs first at step {self.step:,}, which cannot be computed: {self.reason}"
        apart = f"{self.ulps:,} ulp apart" if self.ulps is not None and self.ulps < 10_000 else f"{self.difference:.3g} apart"
        return f"differs first at step {self.step:,} in {self.entry}: {self.expected!r} recorded, {self.got!r} computed ({apart})"


@dataclass(frozen=True)
class Steps:
    """How steps are computed again: what was `recorded` of each, (T, n), with names, of which the first `entries` are states,
    and `step(part)`, the same computed for a slice of steps, with the status of their solver. `inputs`: what steps depend on.
    """

    recorded: np.ndarray
    names: list[str]
    entries: int
    step: Callable[[slice], tuple[np.ndarray, Status]]
    inputs: dict[str, np.ndarray]


def stepper(run: Run, loop: Loop | None, options: Mapping[str, Any]) -> Steps:
    """The steps of a run: those of its loop, or of its robot alone."""
    if loop is not None:
        return _loop_steps(run, loop, options)
    if run.loop is not None and run.loop.episodes:
        raise FileError(f"run '{run.title}' has episodes, which only its loop can begin again: pass it, run.check(loop).")
    if run.loop is not None and (run.loop.parameters or any(name.startswith(OPEN) for name in run.extras)):
        return _plant_steps(run, options)
    simulation, x, u = run.simulation, run.x, run.u
    # the kernel that recorded it has one lane and is compiled already; any other gives the same bits
    options = options if options.keys() & {"lanes", "backend"} else {"lanes": 1, **options}

    def step(part: slice) -> tuple[np.ndarray, Status]:
        push = run.wrenches[part] if run.wrenches.shape[1] else None
        got = simulation.step(x[part], u[part], wrenches=push, freeze=True, **options)
        assert simulation.status is not None
        return got, simulation.status

    return Steps(x[1:], run.names, x.shape[1], step, {"state": x, "control": u, "wrench": run.wrenches})


def _loop_steps(run: Run, loop: Loop, options: Mapping[str, Any]) -> Steps:
    """The steps of a loop, each from the recorded state before it."""
    data, size = run.loop, run.about["nq"] + run.about["nv"]
    if data is None:
        raise FileError(f"run '{run.title}' was recorded without a loop: pass its simulation, or nothing.")
    run.with_simulation(plant(loop))
    shapes = [(name, shape) for name, (_, shape) in loop.layout.items() if name not in ("q", "v")]
    for what, recorded, given in (
        ("states", list(data.states), shapes),
        ("references", list(data.references), list(loop.inputs)),
    ):
        if recorded != given:
            raise FileError(
                f"run '{run.title}' was recorded with another loop: its {what} are {recorded!r:.200}, those of this one "
                f"{given!r:.200}"
            )
    assert run.block_states is not None
    states = np.concatenate([run.x[:, :size], run.block_states], axis=1)
    # a run that was cut before its first block does not have the columns of its references
    rows = {name: run.extras[name] if run.steps else np.zeros((0, *shape)) for name, shape in loop.inputs.items()}

    # what the recorder records: its kernel is compiled already
    signals = {**({"u": run.u} if run.u.shape[1] else {}), **({"wrenches": run.wrenches} if run.wrenches.shape[1] else {})}
    known = loop.plan.signals
    timed = {name for name in run.extras if name.startswith(CLOCK) and name not in known}
    signals |= {name: values for name, values in run.extras.items() if name not in rows and name not in timed}
    record = ["x", *signals]

    def step(part: slice) -> tuple[np.ndarray, Status]:
        references = {name: values[part] for name, values in rows.items()} or None
        keys: dict[str, Any] = {"seed": run.about.get("seed") or 0, "robots": np.full(part.stop - part.start, data.robot)}
        given: dict[str, Any] = {"parameters": data.parameters, "record": record, "freeze": True}
        _, got = loop.step(states[part], references, **given, **keys, **options)
        assert loop.status is not None
        return _flat(got), loop.status

    names = [*run.names[:size], *run.names[run.x.shape[1] :]]
    names += [each for name, values in signals.items() for each in extra_names(name, values.shape[1:])]
    inputs = {"state": states, **{f"reference '{name}'": values for name, values in rows.items()}}
    return Steps(_flat({"x": states[1:], **signals}), names, states.shape[1], step, inputs)


def _flat(values: Mapping[str, np.ndarray]) -> np.ndarray:
    """One row for each step."""
    return np.concatenate([value.reshape(len(value), math.prod(value.shape[1:])) for value in values.values()], axis=1)


def _plant_steps(run: Run, options: Mapping[str, Any]) -> Steps:
    """The steps of a loop's robot alone, under the controls, wrenches and parameters that were recorded."""
    assert run.loop is not None
    simulation, size = run.simulation, run.about["nq"] + run.about["nv"]
    changing = {name.removeprefix(OPEN): values for name, values in run.extras.items() if name.startswith(OPEN)}
    loop = open_loop(simulation, {name: values.shape[1:] for name, values in changing.items()})
    constant = {name: value for name, value in run.loop.parameters.items() if name in loop.parameters}
    rows = {"u": run.u if simulation.nu else np.zeros((run.steps, 1)), "wrenches": run.wrenches.reshape(run.steps, -1)}
    rows |= {f"p{k}": values.reshape(run.steps, -1) for k, values in enumerate(changing.values())}
    rows = {name: rows[name] for name in loop.inputs}
    states = np.concatenate([run.x[:, :size], run.states["tick"][:, None]], axis=1)

    def step(part: slice) -> tuple[np.ndarray, Status]:
        references = {name: values[part] for name, values in rows.items()}
        got = loop.step(states[part], references, parameters=constant, freeze=True, **options)
        assert loop.status is not None
        return got, loop.status

    return Steps(
        states[1:], [*run.names[:size], "tick"], size + 1, step, {"state": states, "control": run.u, "wrench": run.wrenches}
    )


def replay(steps: Steps, count: int, batch: int | None, progress: Callable[[int, int], None] | None) -> Replay:
    """The replay of `count` steps; see Run.check.

    They are computed `batch` at once, each from the recorded state before it. If all agree, then by induction the whole run
    follows from its first state; if not, the first that differs is the first that a run from the first state would have. A step
    that cannot be computed differs, whatever was recorded after it.
    """
    entries = steps.entries
    for first in range(0, count, batch or BATCH):
        part = slice(first, min(first + (batch or BATCH), count))
        found, status = steps.step(part)
        got, failed = np.ascontiguousarray(found), ~status.ok
        expected = np.ascontiguousarray(steps.recorded[part], dtype=np.float64)
        apart = got.view(np.int64) != expected.view(np.int64)
        wrong = np.flatnonzero(apart.any(axis=1) | failed)
        if len(wrong):
            k = int(wrong[0])
            answer = Replay(False, count, entries, first + k + 1)
            if failed[k]:
                return replace(answer, reason=_why(steps, first + k, float(status.residual[k])))
            i = int(np.flatnonzero(apart[k])[0])
            a, b = float(expected[k, i]), float(got[k, i])
            return replace(answer, entry=steps.names[i], expected=a, got=b, ulps=abs(_rank(b) - _rank(a)))
        if progress is not None:
            progress(part.stop, count)
    return Replay(True, count, entries)


def _why(steps: Steps, k: int, residual: float) -> str:
    """Why step k + 1 cannot be computed."""
    for what, array in steps.inputs.items():
        if not np.isfinite(array[k]).all():
            return f"the {what} before it has a number that is not finite"
    if not np.isfinite(residual):
        return "it overflows"
    return f"its solver ends with a residual of {residual:.1e}"


def _rank(number: float) -> int:
    """The place of a float among all floats in their order."""
    bits = int(np.float64(number).view(np.int64))
    return bits if bits >= 0 else -(bits & 0x7FFF_FFFF_FFFF_FFFF) - 1
