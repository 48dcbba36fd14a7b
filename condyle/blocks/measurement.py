"""The imperfections that all sensors share: what a sensor gives for the true values of its quantities.

A sensor measures one or several quantities, each an array with one unit, at its own rate (`every` ticks). In this order:

1. delay: the true value of `delay` seconds ago, interpolated linearly between samples; before the first sample, that sample;
2. scale: multiplied by `scale`, 1 for a perfect sensor;
3. bias: plus the constant `bias`, and plus a random walk that starts at zero and grows by `walk` sqrt(dt) per sample;
4. noise: plus normal numbers of standard deviation `noise`, or `noise` / sqrt(dt) where it is a density (see Quantity);
5. saturation: clipped to [-limit, limit];
6. quantisation: rounded to a multiple of `resolution`;
7. dropout: with the probability `dropout` the sample is lost, the last one is given again, and `valid` is 0 instead of 1.

White noise has no memory, so it makes no difference that it is added after the delay. Bias, walk and noise of a rotation or of a
configuration are small motions (rad, m) in its own axes. Derivatives are those of the steps above: zero where a value is clipped
or rounded. Every number is a parameter: "imu.rate_noise" of the IMU's quantity "rate",
"range_finder.noise" of a sensor with one quantity, "imu.delay" and "imu.dropout" of all that a sensor measures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from condyle.blocks.delay import delayed, line_length
from condyle.closed_loop.block import Block, BlockParameter
from condyle.closed_loop.tick import current_tick
from condyle.dynamics.manifold import integrate, normalized_configuration
from condyle.dynamics.rotations import normalized, quaternion_exp, quaternion_product
from condyle.errors import ControlError
from condyle.robot.model import Model
from condyle.robot.names import nearest
from condyle.robot.spatial import Array
from condyle.tape.array import array, where
from condyle.tape.scalar import caller, constant


@dataclass(frozen=True)
class Quantity:
    """An array of measured numbers with one unit. `density`: its noise is given per sqrt(Hz), as in data sheets of gyroscopes."""

    name: str
    shape: tuple[int, ...]
    unit: str
    density: bool = False
    effects: tuple[str, ...] = ("scale", "bias", "walk", "noise", "limit", "resolution")

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return prod(self.shape)

    @property
    def errors(self) -> int:
        """How many numbers a bias of it has."""
        return self.size

    def plus(self, value: Array, error: Array) -> Array:
        """The value with an error."""
        return value + error

    def blended(self, value: Array) -> Array:
        """A weighted mean of two values that are close, as a value."""
        return value

    def near(self, value: Array, other: Array) -> Array:
        """The value in the form that is closest to another value."""
        return value


@dataclass(frozen=True)
class Rotation(Quantity):
    """A unit quaternion (x, y, z, w); its errors are rotation vectors in the axes of what is rotated, rad."""

    shape: tuple[int, ...] = (4,)
    unit: str = "rad"
    effects: tuple[str, ...] = ("bias", "walk", "noise")

    @property
    def errors(self) -> int:
        """The entries of a rotation vector."""
        return 3

    def plus(self, value: Array, error: Array) -> Array:
        """The rotation, then a small one in its own axes."""
        return quaternion_product(value, quaternion_exp(error))

    def blended(self, value: Array) -> Array:
        """With length one."""
        return normalized(value)

    def near(self, value: Array, other: Array) -> Array:
        """Of the two quaternions of a rotation the one with the smaller angle to another."""
        return value * where(value @ other < 0.0, -1.0, 1.0)


@dataclass(frozen=True)
class Configuration(Quantity):
    """A configuration q of a model; its errors are small motions, with as many entries as v."""

    effects: tuple[str, ...] = ("bias", "walk", "noise")
    model: Model = field(kw_only=True)

    @property
    def errors(self) -> int:
        """The entries of a velocity."""
        return self.model.nv

    def plus(self, value: Array, error: Array) -> Array:
        """Where the configuration is after the small motion."""
        return integrate(self.model, value, error)

    def blended(self, value: Array) -> Array:
        """With quaternions of length one."""
        return normalized_configuration(self.model, value)


# effect -> (unit from that of the quantity, default; None: only where it is given, smallest value)
EFFECTS: dict[str, tuple[str, float | None, float | None]] = {
    "scale": ("", 1.0, None),
    "bias": ("{}", 0.0, None),
    "walk": ("{}/sqrt(s)", None, 0.0),
    "noise": ("{}", 0.0, 0.0),
    "limit": ("{}", None, 0.0),
    "resolution": ("{}", 0.0, 0.0),
}
OF_THE_SENSOR = ("delay", "max_delay", "dropout")


class Sensor(Block):
    """A block that measures quantities with the imperfections of this file; what is not given has no error.

    `max_delay`: the longest delay that may be given with a call, s; the delay itself by default. `walk`, `limit`, `delay` and
    `dropout` can be given with a call if they were given, zero too, when the sensor was made; they cost state or arithmetic.
    Subclasses pass their quantities and the user's options on, and call `measure` in `step`.
    """

    def __init__(self, quantities: Sequence[Quantity], options: Mapping[str, Any], *, prefixed: bool | None = None) -> None:
        super().__init__(**{key: options[key] for key in ("name", "every") if key in options})
        self.quantities = tuple(quantities)
        self.prefixed = len(quantities) > 1 if prefixed is None else prefixed  # "rate_noise" instead of "noise"
        given = {key: value for key, value in options.items() if key not in ("name", "every") and value is not None}
        self._check_names(given)
        self.effects: dict[str, BlockParameter] = {}
        for quantity in self.quantities:
            for effect in quantity.effects:
                self._declare(quantity, effect, given.get(self.option(quantity, effect)))
        self.dropout: BlockParameter | None = None
        if "dropout" in given:
            self.dropout = self.parameter("dropout", given["dropout"], "", minimum=0.0, maximum=1.0)
            for quantity in self.quantities:
                self.state(f"{quantity.name}_last", np.zeros(quantity.size))
        self.delay: BlockParameter | None = None
        if "delay" in given or "max_delay" in given:
            delay = given.get("delay", 0.0)
            longest = given.get("max_delay", delay)
            if not longest > 0.0:
                what = "max_delay" if "max_delay" in given or not delay else "delay"
                raise ControlError(f"sensor '{self.name}': {what} must be greater than zero seconds, got {longest!r:.40}")
            self.delay = self.parameter("delay", delay, "s", minimum=0.0, maximum=longest)
        if self.dropout is not None or self.delay is not None:
            self.state("started", 0.0)

    def option(self, quantity: Quantity, effect: str) -> str:
        """The name of a quantity's effect, as option and as parameter: "noise", or "rate_noise" of a sensor with several."""
        return f"{quantity.name}_{effect}" if self.prefixed else effect

    def measure(self, state: dict[str, Any], true_values: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """({quantity: measured value, "valid": 1 or 0}, the next state) for the true values of all quantities."""
        after: dict[str, Any] = {}
        first = state["started"] <= 0.0 if "started" in state else False
        fresh: Any = True
        if self.dropout is not None:
            # drawn first, and always, so that no number depends on which errors are zero
            drawn = self.uniform()
            fresh = True if self.given(self.dropout) is None else (drawn >= self.dropout) | first
        draws = self._normal_numbers(state)
        output: dict[str, Any] = {}
        for quantity in self.quantities:
            value = _vector(true_values[quantity.name], quantity.size)
            if (line := f"{quantity.name}_line") in state:
                value, after[line] = self._delayed(quantity, value, state[line], first)
            value = self._with_errors(quantity, value, state, after, draws)
            if self.dropout is not None:
                value = after[f"{quantity.name}_last"] = where(fresh, value, state[f"{quantity.name}_last"])
            output[quantity.name] = value.reshape(quantity.shape) if quantity.shape else value[0]
        if "started" in state:
            after["started"] = 1.0
        return output | {"valid": where(fresh, 1.0, 0.0)}, after

    def __call__(self, *inputs: Any, **named: Any) -> Any:
        """The measured values at this tick."""
        tick = current_tick()
        if tick is not None and tick.discovers and self.delay is not None:
            # how many samples a delay line keeps is known with the length of a tick
            dt = constant(self.dt)
            if dt is None or self.delay.maximum is None:
                raise ControlError(f"sensor '{self.name}': the length of its delay line needs a loop whose dt is a number")
            samples = max(1, line_length(self.name, self.delay.maximum, dt))
            for quantity in self.quantities:
                self.states[f"{quantity.name}_line"] = np.zeros((samples, quantity.size))
        return super().__call__(*inputs, **named)

    def three(self, name: str, value: Any, unit: str) -> BlockParameter:
        """A parameter of three numbers."""
        if np.shape(value) != (3,):
            raise ControlError(f"sensor '{self.name}': {name} must be three numbers, got {value!r:.60}")
        return self.parameter(name, value, unit)

    def given(self, parameter: BlockParameter, neutral: float = 0.0) -> Any:
        """What a parameter is now; None where it is known to do nothing."""
        now = parameter.resolve()
        entries = now.ravel().tolist() if isinstance(now, np.ndarray) else [now]
        return None if all(constant(x) == neutral for x in entries) else now

    def resolution(self, quantity: Quantity) -> Any:
        """The step between two values that a quantity can have; None for any value."""
        return self._value(quantity, "resolution", 0.0)

    # ---- inside

    def _check_names(self, given: dict[str, Any]) -> None:
        known = [self.option(quantity, effect) for quantity in self.quantities for effect in quantity.effects]
        known += OF_THE_SENSOR
        for name in given:
            if name not in known:
                raise ControlError(f"sensor '{self.name}' has no option '{name}'{nearest(name, [*known, 'name', 'every'])}")

    def _declare(self, quantity: Quantity, effect: str, given: Any) -> None:
        """Make the parameter of an effect, and the state of a random walk."""
        unit, default, minimum = EFFECTS[effect]
        value = default if given is None else given
        if value is None:
            return
        name = self.option(quantity, effect)
        unit = unit.format(quantity.unit) + ("/sqrt(Hz)" if effect == "noise" and quantity.density else "")
        sizes = ((), (quantity.errors,))
        if effect == "bias" and np.ndim(value) == 0:
            value = np.full(quantity.errors, value)
        if np.shape(value) not in sizes:
            raise ControlError(
                f"sensor '{self.name}': {name} must be one number or {quantity.errors}, got shape {np.shape(value)}"
            )
        self.effects[name] = self.parameter(name, value, unit, minimum=minimum)
        if effect == "walk":
            self.state(f"{quantity.name}_drift", np.zeros(quantity.errors))

    def _value(self, quantity: Quantity, effect: str, neutral: float) -> Any:
        """What an effect is now; None where it is known to do nothing."""
        parameter = self.effects.get(self.option(quantity, effect))
        return None if parameter is None else self.given(parameter, neutral)

    def _normal_numbers(self, state: dict[str, Any]) -> dict[str, Array]:
        """{name of a noise or walk: its random numbers}: one draw for all, the same whichever of them are zero."""
        names = [(f"{quantity.name}_{effect}", quantity.errors) for quantity in self.quantities for effect in ("noise", "drift")]
        names = [(name, size) for name, size in names if name.endswith("noise") or name in state]
        noisy = any(self._value(quantity, "noise", 0.0) is not None for quantity in self.quantities)
        if not noisy and all(name.endswith("noise") for name, _ in names):
            return {}
        numbers = self.normal(sum(size for _, size in names))
        ends = np.cumsum([size for _, size in names])
        return {name: numbers[end - size : end] for (name, size), end in zip(names, ends, strict=True)}

    def _with_errors(
        self, quantity: Quantity, value: Array, state: dict[str, Any], after: dict[str, Any], draws: dict[str, Array]
    ) -> Array:
        """The value with scale, bias, random walk, noise, saturation and quantisation."""
        if (scale := self._value(quantity, "scale", 1.0)) is not None:
            value = value * scale
        errors = []
        if (bias := self._value(quantity, "bias", 0.0)) is not None:
            errors.append(bias)
        if (drift := f"{quantity.name}_drift") in state:
            errors.append(state[drift])
            after[drift] = state[drift] + draws[drift] * (self.effects[self.option(quantity, "walk")] * np.sqrt(self.dt))
        if (noise := self._value(quantity, "noise", 0.0)) is not None:
            errors.append(draws[f"{quantity.name}_noise"] * (noise / np.sqrt(self.dt) if quantity.density else noise))
        if errors:
            value = quantity.plus(value, sum(errors[1:], start=errors[0]))
        if (limit := self._value(quantity, "limit", np.inf)) is not None:
            value = np.minimum(np.maximum(value, -limit), limit)
        if (resolution := self.resolution(quantity)) is not None:
            value = quantized(value, resolution)
        return value

    def _delayed(self, quantity: Quantity, value: Array, line: Array, first: Any) -> tuple[Array, Array]:
        """(the value `delay` ago, the next line); rows of a line are earlier samples, the latest first."""
        past = where(first, np.array([value] * len(line)), line)
        value = quantity.near(value, past[0])
        samples = [value, *past]
        return quantity.blended(delayed(samples, self.delay / self.dt)), np.array(samples[:-1])


class Measurement(Sensor):
    """A sensor of any values that the loop's function has: a battery's voltage, a motor's current, a joint's effort.

    voltage = cd.blocks.Measurement((), "V", noise=0.02, resolution=0.01, name="voltage")
    voltage(battery_voltage)["value"]
    """

    def __init__(self, shape: int | tuple[int, ...] = (), unit: str = "", **options: Any) -> None:
        shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
        super().__init__([Quantity("value", shape, unit)], options)

    def step(self, state: dict[str, Any], value: Any) -> tuple[Any, dict[str, Any]]:
        """{"value": the measured values, "valid": 1 or 0}."""
        return self.measure(state, {"value": value})


def quantized(value: Array, resolution: Any) -> Array:
    """The nearest multiple of `resolution`, half to even; the value itself where the resolution is zero."""
    step = where(resolution > 0.0, resolution, 1.0)
    return where(resolution > 0.0, np.rint(value / step) * step, value)


def _vector(value: Any, size: int) -> Array:
    """The entries of a value in one row."""
    entries = np.asarray(value, dtype=object).reshape(-1)
    if len(entries) != size:
        raise ControlError(f"{caller()}: a sensor of {size} numbers is given {len(entries)}")
    return array(entries)
