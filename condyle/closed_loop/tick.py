"""One tick of a closed loop while its function runs: what blocks read, and what they leave for the next tick."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import local
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from condyle.errors import ControlError
from condyle.tape import random
from condyle.tape.array import assemble, where
from condyle.tape.compose import traced_array
from condyle.tape.loop import loop
from condyle.tape.pytree import Rebuild, flatten
from condyle.tape.scalar import Bool, caller, constant
from condyle.tape.table import Table

if TYPE_CHECKING:
    from condyle.closed_loop.block import Block, Weights

_threads = local()


def current_tick() -> Tick | None:
    """The tick whose function is running in this thread; None outside of a loop."""
    ticks = _threads.__dict__.get("ticks")
    return ticks[-1] if ticks else None


class Tick:
    """The values of one robot at one tick. A tick without `states` discovers what a loop's function uses.

    `h`: length of a tick, s. `count`: ticks since the start. `parameters`, `tables`: values given with the call, by name.
    `begins`: no time passes in it. Every block is updated for its output; one that is not updated at the next tick keeps its
    new state.
    """

    def __init__(
        self,
        h: Any,
        count: Any,
        *,
        t: Any = None,
        seed: Any = 0,
        robot: Any = 0,
        parameters: dict[str, Any] | None = None,
        tables: dict[str, Table] | None = None,
        states: dict[str, Any] | None = None,
        outputs: dict[str, Rebuild] | None = None,
        episode: Any = None,
        begins: bool = False,
    ) -> None:
        # a constant of the trace: no function of it is NumPy's, whose bits depend on the processor
        self.h = traced_array("dt", h, ()) if isinstance(h, float) else h
        self.count, self.seed, self.robot, self.episode = count, seed, robot, episode
        self.t = count * h if t is None else t
        self.parameters, self.tables = parameters or {}, tables or {}
        self.discovers, self.begins = states is None, begins
        self.states: dict[str, Any] = {} if states is None else states
        self.outputs: dict[str, Rebuild] = {} if outputs is None else outputs  # how to rebuild what slow blocks hold
        self.initial: dict[str, np.ndarray] = {}
        self.next: dict[str, Any] = {}
        self.signals: dict[str, Any] = {}
        self.blocks: dict[str, Block] = {}
        self._draws: dict[str, int] = {}

    @contextmanager
    def running(self) -> Iterator[Tick]:
        """Make this the tick that blocks see."""
        ticks = _threads.__dict__.setdefault("ticks", [])
        ticks.append(self)
        try:
            yield self
        finally:
            ticks.pop()

    # ---- states

    def state(self, name: str, initial: np.ndarray) -> Any:
        """The value of a state at the start of the tick."""
        if self.discovers and name not in self.states:
            self.initial[name] = initial
            # a traced value that nothing folds
            self.states[name] = initial + self.count * 0.0
        return self.states[name]

    def set(self, name: str, value: Any) -> None:
        """Leave a value for the next tick."""
        wanted = np.shape(self.states[name])
        given = np.asarray(value, dtype=object)
        if given.shape != wanted:
            try:
                given = np.broadcast_to(given, wanted)
            except ValueError:
                raise ControlError(f"{caller()}: state '{name}' has shape {wanted}, and its next value {given.shape}") from None
        self.next[name] = given

    # ---- blocks

    def run(self, block: Block, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """The output of a block in this tick."""
        if block.name in self.blocks:
            same = self.blocks[block.name] is block
            reason = "is called twice" if same else "has the name of another block"
            advice = "make two of them" if same else "give it a name of its own, name=..."
            raise ControlError(f"{caller()}: block '{block.name}' {reason} in the loop's function; {advice}")
        self.blocks[block.name] = block
        if self.discovers:
            block.prepare(constant(block.dt))
        before = {name: self.state(f"{block.name}.{name}", initial) for name, initial in block.states.items()}
        if block.every == 1:
            output, after = _stepped(block, before, inputs, named)
        else:
            output, after = self._zero_order_hold(block, before, inputs, named)
        for name, value in after.items() if not self.begins or block.every > 1 else ():
            self.set(f"{block.name}.{name}", value)
        self.signals |= signals_of(block.name, output)
        return output

    def _zero_order_hold(self, block: Block, before: dict[str, Any], inputs: Any, named: Any) -> tuple[Any, dict[str, Any]]:
        """Output and state of a block that is not updated at every tick."""
        place = f"{block.name}.output"
        if self.discovers:
            output, after = _stepped(block, before, inputs, named)
            leaves, self.outputs[block.name], _ = flatten(output)
            self.state(place, np.zeros(len(leaves)))
            return output, after
        every = float(block.every)
        due = self.count - np.floor(self.count / every) * every <= 0.0
        if self.begins:
            output, after = _stepped(block, before, inputs, named)
            leaves, _, _ = flatten(output)
            self.set(place, where(due, self.states[place], assemble(leaves, (len(leaves),))))
            return output, {name: where(due, before[name], _shaped(block, name, x, before[name])) for name, x in after.items()}

        def body(_: Any, carry: Any) -> Any:
            output, after = _stepped(block, carry["state"], inputs, named)
            leaves, _, _ = flatten(output)
            state = {name: _shaped(block, name, after.get(name, x), x) for name, x in carry["state"].items()}
            return {"output": assemble(leaves, (len(leaves),)), "state": state}

        start = {"output": self.states[place], "state": before}
        end = body(0, start) if due is True else loop(body, start, 1, until=lambda _: ~due)
        self.set(place, end["output"])
        return self.outputs[block.name](list(end["output"])), end["state"]

    def table(self, weights: Weights) -> Table | np.ndarray:
        """The table of a block's shared array."""
        return self.tables.get(weights.name, weights.default)

    def draw(self, kind: str, block: Block, shape: int | tuple[int, ...]) -> Any:
        """Random numbers of a block: the channel is a hash of its name and the number of the draw."""
        number = self._draws[block.name] = self._draws.get(block.name, -1) + 1
        channel = (crc32(block.name.encode()) + number) & 0xFFFFFFFF
        make = random.normal if kind == "normal" else random.uniform
        return make(self.seed, self.robot, self.count, channel, shape=shape)


def _stepped(block: Block, state: dict[str, Any], inputs: Any, named: Any) -> tuple[Any, dict[str, Any]]:
    found = block.step(dict(state), *inputs, **named)
    if not isinstance(found, tuple) or len(found) != 2 or not isinstance(found[1], dict):
        raise ControlError(
            f"{caller()}: step of block '{block.name}' must return (output, next state), the state a dict of the names that "
            f"change; got {type(found).__name__}"
        )
    output, after = found
    for name in after:
        if name not in state:
            raise ControlError(
                f"{caller()}: step of block '{block.name}' gives a state '{name}', which it does not have; its states are "
                f"{', '.join(state) or 'none'}"
            )
    return as_numbers(output), {name: as_numbers(value) for name, value in after.items()}


def _shaped(block: Block, name: str, value: Any, like: Any) -> Any:
    given = np.asarray(value, dtype=object)
    try:
        entries = np.broadcast_to(given, np.shape(like))
    except ValueError:
        raise ControlError(
            f"{caller()}: state '{block.name}.{name}' has shape {np.shape(like)}, and its next value {given.shape}"
        ) from None
    return assemble(entries.ravel().tolist(), np.shape(like))


def as_numbers(value: Any) -> Any:
    """A value with comparisons as 1 and 0."""
    if isinstance(value, Bool):
        return value.where(1.0, 0.0)
    if isinstance(value, dict):
        return {name: as_numbers(x) for name, x in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(as_numbers, value))
    if isinstance(value, (tuple, list)):
        return type(value)(map(as_numbers, value))
    if isinstance(value, np.ndarray) and value.dtype == object:
        return assemble([as_numbers(x) for x in value.ravel().tolist()], value.shape)
    return value


def signals_of(name: str, output: Any) -> dict[str, Any]:
    """{name: array} of an output: "imu" for an array, "imu.rate" for the entry of a dict, "imu.0" for one of a tuple."""
    if isinstance(output, dict):
        return {key: x for part, value in output.items() for key, x in signals_of(f"{name}.{part}", value).items()}
    if isinstance(output, (tuple, list)):
        fields = getattr(output, "_fields", range(len(output)))
        return {k: x for part, v in zip(fields, output, strict=True) for k, x in signals_of(f"{name}.{part}", v).items()}
    return {} if isinstance(output, Table | str) or output is None else {name: output}
