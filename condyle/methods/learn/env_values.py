"""The numbers of an environment, checked: its arguments, values that all robots share, parameters drawn for each episode."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from condyle.closed_loop.loop import Loop
from condyle.errors import ControlError
from condyle.robot.names import nearest
from condyle.robot.parameters import ParameterSpec
from condyle.tape.array import Array, where

RANDOMIZATION = "randomization"  # the shared number that scales all randomisation: 1 all of it, 0 none
TAKEN = ("x", "action", "step", "seed", "robot", "observation", "privileged", "episode.step", "episode.return", RANDOMIZATION)
Layout = dict[str, tuple[slice, tuple[int, ...]]]


def packed_layout(shapes: Mapping[str, tuple[int, ...]], start: int = 0) -> Layout:
    """{name: (place in a vector, shape)} of values one after another, from entry `start` on."""
    layout: Layout = {}
    for name, shape in shapes.items():
        end = start + math.prod(shape)
        layout[name], start = (slice(start, end), shape), end
    return layout


# ---- arguments


def check_loop(loop: Any, action: str) -> None:
    """A ControlError unless the loop has a reference of this name, and no episode of its own."""
    if not isinstance(loop, Loop):
        raise ControlError(f"VectorEnv needs a condyle.Loop, got {type(loop).__name__}")
    if loop.episode is not None:
        raise ControlError(
            "VectorEnv: the loop has an Episode of its own; give terminate, time_limit and reset to the environment"
        )
    if action not in loop.inputs:
        raise ControlError(
            f"VectorEnv: the action '{action!s:.60}' must be a reference of the loop{nearest(action, list(loop.inputs))}; "
            f"write cd.Loop(world, function, {action}=8)"
        )


def variables_of(loop: Loop, given: Mapping[str, Any] | None, action: str, taken: Sequence[str]) -> dict[str, np.ndarray]:
    """{name: initial value}, and an error for a reference of the loop that nothing gives."""
    found: dict[str, np.ndarray] = {}
    for name, value in (given or {}).items():
        if name in (*TAKEN, *taken) or name in loop.layout or name in loop.plan.signals or name in loop.parameters:
            raise ControlError(f"VectorEnv: a variable cannot be called '{name!s:.60}', which is the name of something else")
        sized = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if sized and value < 1:
            raise ControlError(
                f"VectorEnv: variable '{name}' needs its number of entries from 1 up, or its initial value; got {value}"
            )
        found[name] = np.zeros(int(value)) if sized else finite(f"variable '{name}'", value)
    for name, (size,) in loop.inputs.items():
        if name != action and name not in found:
            raise ControlError(
                f"VectorEnv: the loop has a reference '{name}' of {size} numbers; give variables={{'{name}': {size}}}"
            )
        if name != action and found[name].size != size:
            raise ControlError(f"VectorEnv: variable '{name}' is a reference of {size} numbers, got {found[name].size}")
    return found


def steps_of(time_limit: Any, dt: float) -> int | None:
    """The policy steps of a time limit, at least one."""
    if time_limit is None:
        return None
    return max(round(positive("time_limit", time_limit) / dt), 1)


def positive(what: str, value: Any) -> float:
    """The value, a number above zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not math.isfinite(value) or value <= 0.0:
        raise ControlError(f"VectorEnv: {what} must be a positive number, got {value!r:.40}")
    return float(value)


def finite(what: str, value: Any) -> np.ndarray:
    """The value as an array of finite numbers, at least one."""
    try:
        found = np.array(value, dtype=float)
    except (TypeError, ValueError):
        raise ControlError(f"{what} must be a number or an array of numbers, got {value!r:.60}") from None
    if not found.size or not np.all(np.isfinite(found)):
        raise ControlError(f"{what} must be finite numbers, got {value!r:.60}")
    return found


def mask_of(mask: Any, count: int) -> np.ndarray:
    """A truth value for each robot; all true for None."""
    if mask is None:
        return np.ones(count, bool)
    found = np.asarray(mask)
    if found.shape != (count,) or found.dtype != bool:
        raise ControlError(f"mask must be {count} truth values, one for each robot; got {found.dtype} of shape {found.shape}")
    return found


def seed_of(seed: Any) -> int:
    """The seed, from 0 to 2^32 - 1."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**32:
        raise ControlError(f"a seed is a whole number from 0 to 2^32 - 1, got {seed!r:.40}")
    return int(seed)


def actions_of(actions: Any, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Actions of this shape, finite; the same array if it has the type."""
    try:
        given = np.ascontiguousarray(actions, dtype=dtype)
    except (TypeError, ValueError):
        raise ControlError(f"actions must be an array of numbers of shape {shape}, got {type(actions).__name__}") from None
    if given.shape != shape:
        raise ControlError(f"actions must have shape {shape}, one row for each robot; got {given.shape}")
    if not np.all(np.isfinite(given)):
        first = tuple(int(k) for k in np.argwhere(~np.isfinite(given))[0])
        raise ControlError(f"actions must be finite; robot {first[0]} is given {given[first]} as action {first[-1]}")
    return given


# ---- values that all robots share


class SharedValues(MutableMapping[str, Any]):
    """Numbers that all robots share, by name; they may change between calls, and nothing compiles again."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = {name: finite(f"shared value '{name}'", value) for name, value in values.items()}
        self._table: np.ndarray | None = None

    def __getitem__(self, name: str) -> Any:
        value = self._values[name]
        return float(value) if value.ndim == 0 else value.copy()

    def __setitem__(self, name: str, value: Any) -> None:
        if name not in self._values:
            raise ControlError(f"the environment has no shared value '{name!s:.60}'{nearest(name, list(self._values))}")
        given, shape = finite(f"shared value '{name}'", value), self._values[name].shape
        if given.shape != shape:
            raise ControlError(f"shared value '{name}' has shape {shape}, got {given.shape}")
        self._values[name], self._table = given, None

    def __delitem__(self, name: str) -> None:
        raise ControlError(f"shared value '{name}' cannot be removed")

    def __iter__(self) -> Any:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def table(self, dtype: Any) -> np.ndarray:
        """All of them in one vector."""
        if self._table is None:
            self._table = np.concatenate([value.ravel() for value in self._values.values()]).astype(dtype)
        return self._table


# ---- parameters drawn for each episode


@dataclass(frozen=True)
class Randomized:
    """One parameter: uniform numbers from `low` to `high`, or what `function(draw)` gives, within the bounds of the parameter."""

    name: str
    default: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None
    function: Callable[[Any], Any] | None
    bounds: tuple[float, float]

    @property
    def shape(self) -> tuple[int, ...]:
        """() for a single number."""
        return self.default.shape

    def drawn(self, draw: Any, strength: Any) -> Any:
        """The value of an episode; `strength`: 1 for all of the range, 0 for the default, between them a part of the range."""
        if self.function is None:
            assert self.low is not None and self.high is not None
            # rounding must not lead out of the range
            value = np.minimum(draw.uniform(self.low, self.high, self.shape), self.high)
        else:
            found = self.function(draw)
            try:
                value = np.broadcast_to(np.asarray(found, dtype=object), self.shape).view(Array)
            except ValueError:
                raise ControlError(
                    f"randomize: the function of '{self.name}' gives shape {np.shape(found)}, and the parameter has {self.shape}"
                ) from None
            value = value if self.bounds[0] == -inf else np.maximum(value, self.bounds[0])
            value = value if self.bounds[1] == inf else np.minimum(value, self.bounds[1])
        value = where(strength >= 1.0, value, self.default + strength * (value - self.default))
        return value if self.shape else np.asarray(value, dtype=object).item()


def randomized(loop: Loop, given: Mapping[str, Any] | None) -> dict[str, Randomized]:
    """{parameter: how it is drawn}, checked: the parameter exists, and the range is within its bounds."""
    if given is not None and not isinstance(given, Mapping):
        raise ControlError(f"randomize must be a dict {{parameter: (low, high) or a function}}, got {type(given).__name__}")
    found: dict[str, Randomized] = {}
    for name, value in (given or {}).items():
        spec = loop.parameters.require(name, ControlError)
        if spec.name in found:
            raise ControlError(f"randomize: parameter '{spec.name}' is given twice, once as '{name}'")
        if spec.name == "dt":
            raise ControlError("randomize: dt is the length of a tick, and the same for all robots")
        found[spec.name] = _one(spec, value)
    return found


def _one(spec: ParameterSpec, value: Any) -> Randomized:
    default = np.asarray(spec.default, dtype=float)
    bounds = (spec.minimum, spec.maximum)
    if callable(value):
        return Randomized(spec.name, default, None, None, value, bounds)
    try:
        low, high = (np.broadcast_to(np.asarray(bound, dtype=float), spec.shape) for bound in value)
    except (TypeError, ValueError):
        shape = f", each a number or of shape {spec.shape}" if spec.shape else ""
        raise ControlError(
            f"randomize: '{spec.name}' needs (low, high){shape}, or a function of draw; got {value!r:.60}"
        ) from None
    spec.checked(low, ControlError)
    spec.checked(high, ControlError)
    if np.any(low > high):
        at = tuple(np.argwhere(np.atleast_1d(low > high))[0])
        raise ControlError(
            f"randomize: '{spec.name}' has its low end {np.atleast_1d(low)[at]:g} above its high end {np.atleast_1d(high)[at]:g}"
        )
    return Randomized(spec.name, default, low, high, None, bounds)
