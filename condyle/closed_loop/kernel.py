"""The traced tick of a closed loop, and the kernel that repeats it: references in, records out, any number of ticks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.closed_loop.arguments import halves
from condyle.closed_loop.episode import COUNT, SIGNALS, TICK, Draw
from condyle.closed_loop.plant import (
    ACCELERATION,
    FORCES,
    SMOOTHING,
    Clock,
    Commands,
    Plant,
    PlantStep,
    commands,
    plant_laws,
    plant_step,
)
from condyle.closed_loop.tick import Tick, as_numbers, signals_of
from condyle.errors import ControlError
from condyle.robot.names import nearest
from condyle.simulate.parameters import parameterized
from condyle.simulate.solver import limit
from condyle.simulate.world import World
from condyle.tape.array import array, assemble, isfinite, where
from condyle.tape.function import Function
from condyle.tape.loop import loop, scan
from condyle.tape.pytree import Rebuild
from condyle.tape.scalar import Int
from condyle.tape.table import Table
from condyle.tape.trace import trace, trace_values

if TYPE_CHECKING:
    from condyle.closed_loop.block import Block
    from condyle.closed_loop.loop import Loop

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Plan:
    """What a loop's function uses, found by running it once: initial states in packed order, signals, blocks, held outputs."""

    states: dict[str, np.ndarray]
    signals: Shapes
    blocks: dict[str, Block]
    outputs: dict[str, Rebuild]
    wrenches: tuple[tuple[str, str], ...]


def discover(loop: Loop) -> Plan:
    """The plan of a loop: its function is traced once, without the physics."""
    plans: list[Plan] = []
    world = loop.plant
    nq, nv = loop.nq, loop.nv

    def probe(count: Any, q: Any, v: Any, **references: Any) -> Any:
        tick = Tick(loop.dt, count)
        with tick.running():
            given = _commanded(loop, world, Plant(tick, world, q[:nq], v[:nv]) if world else Clock(tick), references)
        if world is not None:
            parameterized(world, given.parameters)
        shapes = {name: np.shape(value) for name, value in tick.signals.items()}
        if world is not None:
            shapes |= {name: np.shape(value) for name, value in _given_signals(given).items()}
            shapes |= {ACCELERATION: (nv,), **({FORCES: (len(world.points), 3)} if world.points else {}), SMOOTHING: ()}
        for name in given.signals:
            if name in (*shapes, *loop.inputs, "x", "q", "v", "t", "tick", "residual"):
                raise ControlError(f"the loop's function gives an output '{name}', which is the name of something else")
        shapes |= {name: np.shape(value) for name, value in given.signals.items()}
        initial = tick.initial
        if loop.episode is not None:
            initial = {**loop.episode.initial(), **initial}
            shapes |= dict.fromkeys(SIGNALS, ())
        plans.append(Plan(initial, shapes, tick.blocks, tick.outputs, tuple(given.wrenches)))
        return {"count": count}

    trace(probe, count=(), q=max(nq, 1), v=max(nv, 1), **loop.inputs)
    return plans[-1]


def _given_signals(given: Commands) -> dict[str, Any]:
    """What the robot is given in a tick, by name: "u", "wrenches" (frames, 6), and "parameters.knee.friction"."""
    wrenches = {"wrenches": array(list(given.wrenches.values()))} if given.wrenches else {}
    return {"u": given.u, **wrenches, **{f"parameters.{name}": value for name, value in given.parameters.items()}}


def _commanded(loop: Loop, world: World | None, state: Any, references: dict[str, Any]) -> Commands:
    """What the loop's function asks for, with its outputs as signals."""
    found = loop.function(state, **references)
    if world is None:
        named = found if isinstance(found, dict) else {"out": found}
        given = Commands(np.zeros(0), {}, {}, named)
    else:
        given = commands(world, found)
    signals = {key: x for name, value in given.signals.items() for key, x in signals_of(name, as_numbers(value)).items()}
    return Commands(given.u, given.wrenches, given.parameters, signals)


@dataclass(frozen=True)
class Context:
    """What is the same at every tick of a call: the world with its parameters, those of blocks, tables and random keys."""

    loop: Loop
    world: World | None
    parameters: dict[str, Any]
    tables: dict[str, Table]
    seed: Any
    robot: Any
    start: Any = None  # the tick at which an episode began that something around the loop counts

    @property
    def h(self) -> Any:
        """The length of a tick, s."""
        return self.loop.dt if self.world is None else self.world.h * float(self.loop.substeps)

    def tick(self, x: Any, references: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        """(the next packed state, the residual, signals) of one tick."""
        loop, world = self.loop, self.world
        values = loop.unpacked(x)
        tick, state = self.at(values)
        count, q, v = values.pop("tick"), values.pop("q", None), values.pop("v", None)
        with tick.running():
            given = _commanded(loop, world, state, references)
        signals = tick.signals | given.signals
        parts: dict[str, Any] = {"tick": count + 1.0}
        residual: Any = 0.0
        if world is not None:
            end = self._plant(q, v, tick.t, given)
            residual, found = end.residual, {ACCELERATION: end.acceleration, FORCES: end.contact_forces}
            parts |= {"q": end.q, "v": end.v}
            tick.next |= found
            signals |= _given_signals(given) | found | {SMOOTHING: end.smoothing}
        parts |= {name: tick.next.get(name, before) for name, before in values.items()}
        if loop.episode is not None:
            parts[TICK] = values[TICK] + 1.0
        return loop.packed(parts), residual, signals

    def at(self, values: dict[str, Any], *, begins: bool = False) -> tuple[Tick, Any]:
        """(the tick, what the loop's functions see of it) at the parts of a state; `begins`: see `Tick`."""
        loop, world, count = self.loop, self.world, values["tick"]
        t, episode = None, None
        if loop.episode is not None:
            t, episode = values[TICK] * self.h, Draw(self.seed, self.robot, values[COUNT])
        elif self.start is not None:
            t, episode = (count - self.start) * self.h, Draw(self.seed, self.robot, self.start)
        tick = Tick(
            self.h,
            count,
            t=t,
            seed=self.seed,
            robot=self.robot,
            parameters=self.parameters,
            tables=self.tables,
            states=values,
            outputs=loop.plan.outputs,
            episode=episode,
            begins=begins,
        )
        return tick, Clock(tick) if world is None else Plant(tick, world, values["q"], values["v"])

    def begin(self, values: dict[str, Any], references: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """(parts of the state, signals) at the start of an episode: what the loop's function gives before any time passes.

        States stay as they are, but for blocks whose first update comes later than the next tick: they hold their output.
        """
        loop, world = self.loop, self.world
        tick, state = self.at(values, begins=True)
        with tick.running():
            given = _commanded(loop, world, state, references)
        signals = tick.signals | given.signals
        if world is not None:
            signals |= _given_signals(given)
            none = (ACCELERATION, FORCES, SMOOTHING)
            signals |= {name: np.zeros(loop.plan.signals[name]) for name in none if name in loop.plan.signals}
        return {name: tick.next.get(name, value) for name, value in values.items()}, signals

    def _plant(self, q: Any, v: Any, t: Any, given: Commands) -> PlantStep:
        assert self.world is not None
        return plant_step(self.world, self.loop.integrator, self.loop.substeps, q, v, t, given)

    def checked_tick(self, state: dict[str, Any], references: dict[str, Any]) -> dict[str, Any]:
        """The state of a rollout after one tick: a robot that is not finite or does not converge stays as it is."""
        x = state["x"]
        after, residual, signals = self.tick(x, references)
        # a sum is finite only if all its terms are
        total = sum((*x, *after, *[entry for r in references.values() for entry in np.ravel(r)]), 0.0)
        worst = np.maximum(state["residual"], where(isfinite(total), residual, np.inf))
        after = where(worst <= limit(), after, x)
        if self.loop.episode is not None:
            after, worst, ends = self._episode(after, worst)
            signals |= ends
        kept = {name: _flat(signals[name]) for name in state if name not in ("x", "residual")}
        return {"x": after, "residual": worst, **kept}

    def _episode(self, x: Any, worst: Any) -> tuple[Any, Any, dict[str, Any]]:
        """(state, residual, signals) with the robots whose episode ended at the start of the next one."""
        loop, episode = self.loop, self.loop.episode
        assert episode is not None
        values = loop.unpacked(x)
        count, age = values["tick"], values[TICK]
        failed = where(worst <= limit(), 0.0, 1.0)
        terminated = truncated = failed * 0.0
        if episode.terminated is not None:
            tick, state = self.at(dict(values))
            with tick.running():
                terminated = where(episode.terminated(state), 1.0, 0.0)
        if episode.time_limit is not None:
            # half a tick less, so that rounding decides nothing
            truncated = where(age * self.h >= episode.time_limit - 0.5 * self.h, 1.0, 0.0)
        if episode.every > 1:
            every = float(episode.every)
            due = age - np.floor(age / every) * every <= 0.0
            terminated, truncated = where(due, terminated, 0.0), where(due, truncated, 0.0)
        ended = terminated + truncated + failed > 0.0

        def body(_: Any, __: Any) -> Any:
            return loop.packed(self._restarted(values, count))

        after = repeat_if(ended, body, x)
        signals = dict(zip(SIGNALS, (terminated, truncated, failed), strict=True))
        return after, where(ended, 0.0, worst), signals

    def _restarted(self, values: dict[str, Any], count: Any) -> dict[str, Any]:
        """The parts of the state at the start of an episode."""
        loop, episode = self.loop, self.loop.episode
        assert episode is not None
        parts: dict[str, Any] = dict(loop.initial) | {"tick": count, TICK: 0.0, COUNT: values[COUNT] + 1.0}
        draw = Draw(self.seed, self.robot, count)
        if episode.tables:
            rows = {name: self.tables[w.name] for name, w in episode.tables.items()}
            k = np.floor(draw.uniform(0.0, float(len(next(iter(rows.values()))))))
            parts |= {name: table[k] for name, table in rows.items()}
        given = episode.reset(draw) if episode.reset is not None else {}
        for name, value in given.items():
            if name not in parts or name in ("tick", TICK, COUNT):
                raise ControlError(f"Episode: reset gives a state '{name!s:.60}', which the loop does not have")
            shape = loop.layout[name][1]
            try:
                parts[name] = np.broadcast_to(np.asarray(value, dtype=object), shape)
            except ValueError:
                raise ControlError(
                    f"Episode: reset gives state '{name}' with shape {np.shape(value)}, expected {shape}"
                ) from None
        return parts


def first_resets(loop: Loop) -> np.ndarray | None:
    """The configurations at which some robots begin their first episodes; None if the episode gives none."""
    episode = loop.episode
    if episode is None or episode.reset is None or loop.world is None:
        return None
    reset = episode.reset

    def begin(seed: Any, robot: Any) -> dict[str, Any]:
        given = reset(Draw(word(seed), word(robot), 0.0))
        # what else is wrong with it is said where it is used
        q = given.get("q") if isinstance(given, Mapping) else None
        return {"q": array(loop.initial["q"] if q is None or np.shape(q) != (loop.nq,) else q)}

    robots = halves("robots", np.arange(4))
    found: np.ndarray = Function(trace_values(begin, seed=2, robot=2), "reference")(halves("seed", 0), robots)
    return found


def repeat_if(condition: Any, body: Callable[[Any, Any], Any], state: Any) -> Any:
    """`body(0, state)` where the condition holds, else the state; skipped if it holds for no lane of a vector."""
    return loop(body, state, 1, until=lambda _: ~condition)


@dataclass(frozen=True)
class Schedule:
    """Ticks of a rollout: references change every `hold` ticks, and records are written every `every` ticks.

    One of them is a multiple of the other. Reverse mode keeps the state of every `group`-th row and runs the others again.
    """

    hold: int
    every: int
    group: int

    @property
    def period(self) -> int:
        """Ticks of one row of the kernel."""
        return max(self.hold, self.every)


def rollout_kernel(
    loop: Loop, record: tuple[str, ...], schedule: Schedule, parameters: tuple[str, ...]
) -> Callable[..., dict[str, Any]]:
    """The traced function of a rollout: final state, worst residual, and one table for each recorded name."""

    def rollout(**arrays: Any) -> dict[str, Any]:
        context = call_context(loop, arrays, parameters)
        rows = {name: arrays[name] for name in loop.inputs} or {"clock": arrays["clock"]}
        signals = {name: np.zeros(math.prod(loop.plan.signals[name])) for name in record if name in loop.plan.signals}
        start = {"x": arrays["x"], "residual": 0.0, **signals}

        def body(_: Any, state: Any, row: dict[str, Any]) -> Any:
            row.pop("clock", None)
            if schedule.every >= schedule.hold:
                state = _over_rows(context, state, row, schedule.every // schedule.hold, schedule.hold)
                return state, _recorded(loop, record, state, row)
            count = schedule.hold // schedule.every

            def segment(_: Any, carry: Any, __: Any) -> Any:
                state, row = carry
                state = held_ticks(context, state, row, schedule.every)
                return (state, row), _recorded(loop, record, state, row)

            (state, _), written = scan(segment, (state, row), count=count)
            return state, {name: part[:] for name, part in written.items()} if record else None

        def group(_: Any, state: Any, rows: dict[str, Any]) -> Any:
            state, written = scan(body, state, rows)
            return state, {name: part[:] for name, part in written.items()} if record else None

        end, written = scan(group if schedule.group > 1 else body, start, rows)
        return {"x1": end["x"], "worst_residual": end["residual"], **(written or {})}

    return rollout


def laws_kernel(loop: Loop, parameters: tuple[str, ...]) -> Callable[..., dict[str, Any]]:
    """The traced function of the residuals of all laws in the steps of one tick, (substeps, laws); see law_residuals.py."""

    def residuals(**arrays: Any) -> dict[str, Any]:
        context = call_context(loop, arrays, parameters)
        assert context.world is not None
        values = loop.unpacked(arrays["x"])
        tick, state = context.at(values)
        with tick.running():
            given = _commanded(loop, context.world, state, {name: arrays[name] for name in loop.inputs})
        return {"laws": plant_laws(context.world, loop.integrator, loop.substeps, values["q"], values["v"], tick.t, given)}

    return residuals


def call_context(loop: Loop, arrays: dict[str, Any], parameters: tuple[str, ...]) -> Context:
    """The values of a call, from the inputs of a kernel."""
    given = {name: arrays[name] for name in parameters}
    of_world = {name: value for name, value in given.items() if name.partition(".")[0] not in loop.plan.blocks}
    tables = {name: arrays[name] for name in loop.weights}
    world = loop.plant if loop.plant is None else parameterized(loop.plant, of_world)
    return Context(loop, world, given, tables, word(arrays["seed"]), word(arrays["robot"]))


def word(halves: Any) -> Int:
    """A word from its upper and lower half, which are exact in every precision."""
    high, low = halves
    found: Int = high.to_int() << 16 | low.to_int()
    return found


def _over_rows(context: Context, state: Any, row: dict[str, Any], count: int, hold: int) -> Any:
    """The state after `count` rows of references, each held for `hold` ticks."""
    if count == 1:
        return held_ticks(context, state, {name: x[0] for name, x in row.items()}, hold)

    def body(_: Any, state: Any, row: Any) -> Any:
        return held_ticks(context, state, row or {}, hold), None

    return scan(body, state, row or None, count=count)[0]


def held_ticks(context: Context, state: Any, references: dict[str, Any], count: int) -> Any:
    """The state after some ticks under constant references.

    They are carried, so that arithmetic on them is inside of the loop, with the bits of a single tick.
    """
    if count == 1:
        return context.checked_tick(state, references)

    def body(_: Any, carry: Any) -> Any:
        return context.checked_tick(carry[0], carry[1]), carry[1]

    return loop(body, (state, references), count)[0]


def _recorded(loop: Loop, record: tuple[str, ...], state: dict[str, Any], references: dict[str, Any]) -> dict[str, Any] | None:
    """What a row of the records holds."""
    if not record:
        return None
    values = loop.unpacked(state["x"])
    found: dict[str, Any] = {}
    for name in record:
        if name == "x" or name == "residual":
            found[name] = _flat(state[name])
        else:
            found[name] = _flat(state[name] if name in state else values[name])
    return found


def _flat(value: Any) -> Any:
    leaves = np.asarray(value, dtype=object).ravel().tolist()
    return assemble(leaves, (len(leaves),))


def recordable(loop: Loop, record: tuple[str, ...]) -> Shapes:
    """The shapes of what is to be recorded, or an error that lists what can be."""
    known: Shapes = {"x": (loop.nx,), "residual": (), **{name: shape for name, (_, shape) in loop.layout.items()}}
    known |= loop.plan.signals
    for name in record:
        if name not in known:
            raise ControlError(f"the loop has no '{name!s:.60}' to record{nearest(name, list(known))}; it has {', '.join(known)}")
    return {name: known[name] for name in record}
