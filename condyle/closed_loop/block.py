"""Blocks: actuators, sensors, filters and controllers with parameters and named state, written in NumPy.

    class LowPass(cd.Block):
        def __init__(self, size, cutoff, **options):
            super().__init__(**options)
            self.cutoff = self.parameter("cutoff", cutoff, "Hz", minimum=0.0)
            self.state("y", np.zeros(size))

        def step(self, state, u):
            y = u + (state["y"] - u) * np.exp(-2.0 * np.pi * self.cutoff * self.dt)
            return y, {"y": y}

`step` is a pure function of state and inputs. A loop calls the block inside of its own function, keeps its state in the packed x
as "low_pass.y", and makes "low_pass.cutoff" a parameter that can be given with each call.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import inf
from typing import Any, ClassVar

import numpy as np

from condyle.closed_loop.tick import Tick, current_tick
from condyle.errors import ControlError
from condyle.robot.parameters import ParameterSpec
from condyle.tape.compose import traced_array
from condyle.tape.parameter import Parameter
from condyle.tape.scalar import caller
from condyle.tape.table import Table


class Block:
    """A part of a closed loop. Subclasses declare parameters and state when they are made, and define `step`.

    `name`: under which state, parameters and output appear in the loop; the class's name by default. `every`: ticks of the loop
    between two updates; state and output are held in between, and the work is skipped.

    `smooth`: {parameter: value} with which the block has derivatives that are not zero nearly everywhere; a class attribute.
    """

    smooth: ClassVar[Mapping[str, float]] = {}

    def __init__(self, *, name: str | None = None, every: int = 1) -> None:
        chosen = _snake_case(type(self).__name__) if name is None else name
        if not isinstance(chosen, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", chosen):
            raise ControlError(f"a block has a name of letters, digits and _, like 'left_servo'; got {name!r:.60}")
        if isinstance(every, bool) or not isinstance(every, (int, np.integer)) or every < 1:
            raise ControlError(f"block '{chosen}': every must be a whole number of ticks from 1 up, got {every!r:.60}")
        self.name, self.every = chosen, int(every)
        self.states: dict[str, np.ndarray] = {}
        self.parameters: dict[str, BlockParameter] = {}
        self.tables: dict[str, Weights] = {}

    # ---- declared when the block is made

    def parameter(
        self, name: str, default: Any, unit: str = "", *, minimum: float | None = None, maximum: float | None = None
    ) -> BlockParameter:
        """A number or array that may be given with each call as "block.name"; used like a number inside of `step`."""
        self._new(name)
        made = BlockParameter(f"{self.name}.{name}", default, unit, minimum, maximum)
        made.spec.checked(made.default, ControlError)
        self.parameters[name] = made
        return made

    def state(self, name: str, initial: Any) -> None:
        """A state "block.name" with its initial value, a number or an array."""
        self._new(name)
        try:
            value = np.array(initial, dtype=float)
        except (TypeError, ValueError):
            raise ControlError(
                f"block '{self.name}': the initial value of state '{name}' must be an array of numbers, got {initial!r:.60}"
            ) from None
        if not np.all(np.isfinite(value)):
            raise ControlError(f"block '{self.name}': the initial value of state '{name}' must be finite")
        value.flags.writeable = False
        self.states[name] = value

    def weights(self, name: str, array: Any) -> Weights:
        """An array that all robots share, as weights of a network or a map: a table inside of `step`, and never compiled in."""
        self._new(name)
        made = self.tables[name] = Weights(f"{self.name}.{name}", array)
        return made

    def _new(self, name: str) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise ControlError(f"block '{self.name}': names are like 'cutoff', got {name!r:.60}")
        if name in self.states or name in self.parameters or name in self.tables:
            raise ControlError(f"block '{self.name}' has a parameter or state '{name}' already")

    # ---- used inside of step

    @property
    def dt(self) -> Any:
        """The time between two updates, s."""
        return self._tick("dt").h * float(self.every)

    @property
    def t(self) -> Any:
        """The time at the start of the tick, s."""
        return self._tick("t").t

    def normal(self, shape: int | tuple[int, ...] = ()) -> Any:
        """Normal random numbers of mean 0 and variance 1, functions of seed, robot, tick, block and the number of the draw."""
        return self._tick("normal").draw("normal", self, shape)

    def uniform(self, shape: int | tuple[int, ...] = ()) -> Any:
        """Uniform random numbers from 0 to 1, likewise."""
        return self._tick("uniform").draw("uniform", self, shape)

    def _tick(self, what: str) -> Tick:
        tick = current_tick()
        if tick is None:
            raise ControlError(
                f"{caller()}: block '{self.name}' has `{what}` only inside of a loop's function, where there is a tick"
            )
        return tick

    # ---- what it does

    def prepare(self, dt: float | None) -> None:
        """Declare what depends on the time between two updates, such as the length of a delay line; None if dt is a parameter.

        Called when a loop is made, before the first `step`.
        """

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        """(output, next state): the output is a number, an array, or a tuple or dict of them; states left out stay."""
        raise NotImplementedError(f"block '{self.name}' ({type(self).__name__}) defines no step(self, state, ...)")

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """The output for this tick; its next state becomes that of the loop."""
        tick = current_tick()
        if tick is None:
            raise ControlError(
                f"{caller()}: block '{self.name}' is called inside of a loop's function (condyle.Loop); to try it alone, call "
                f"{self.name}.step(state, ...)"
            )
        return tick.run(self, inputs, named)

    def __repr__(self) -> str:
        return f"<block {self.name}: {type(self).__name__}, every {self.every} ticks>"


class BlockParameter(Parameter):
    """A named number of a block, with unit and bounds: inside of a loop the value of the call, outside the default."""

    __slots__ = ("maximum", "minimum", "unit")

    def __init__(self, name: str, default: Any, unit: str, minimum: float | None, maximum: float | None) -> None:
        try:
            values = np.array(default.default if isinstance(default, Parameter) else default, dtype=float)
        except (TypeError, ValueError):
            raise ControlError(f"parameter '{name}' must be an array of numbers, got {default!r:.60}") from None
        if not values.size:
            raise ControlError(f"parameter '{name}' has no entries, shape {values.shape}")
        values.flags.writeable = False
        self.name, self.default, self.unit, self.minimum, self.maximum = name, values, unit, minimum, maximum

    def __reduce__(self) -> tuple[Any, ...]:
        return BlockParameter, (self.name, self.default, self.unit, self.minimum, self.maximum)

    @property
    def spec(self) -> ParameterSpec:
        """Name, unit, default and bounds."""
        default = self.default if self.shape else float(self.default)
        low, high = (-inf if self.minimum is None else self.minimum), (inf if self.maximum is None else self.maximum)
        return ParameterSpec(self.name, self.unit, default, low, high)

    def resolve(self) -> Any:
        """What it is now; inside of a loop the default is a constant of the trace, whose functions are not NumPy's."""
        tick = current_tick()
        if tick is None:
            return self.default if self.shape else float(self.default)
        given = tick.parameters.get(self.name)
        return traced_array(self.name, self.default, self.shape) if given is None else given


class Weights:
    """An array shared by all robots: `value` is a table inside of a loop, and the array outside."""

    def __init__(self, name: str, array: Any) -> None:
        try:
            self.default = np.array(array, dtype=float)
        except (TypeError, ValueError):
            raise ControlError(f"'{name}' must be an array of numbers, got {array!r:.60}") from None
        if not self.default.ndim or not self.default.size or not np.all(np.isfinite(self.default)):
            raise ControlError(f"'{name}' must be a non-empty array of finite numbers, got shape {self.default.shape}")
        self.name = name

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.default.shape

    @property
    def value(self) -> Table | np.ndarray:
        """The table of the loop that is running, or the array."""
        tick = current_tick()
        return self.default if tick is None else tick.table(self)

    def trace_data(self) -> tuple[Any, ...]:
        """Name and shape: the entries are no part of a compiled loop."""
        return self.name, self.shape


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
