"""Randomisation: which parameters of a loop differ from robot to robot, and how they are drawn at the start of an episode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from condyle.closed_loop.loop import Loop
from condyle.errors import ControlError
from condyle.robot.parameters import ParameterSpec
from condyle.tape.array import Array, where


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
