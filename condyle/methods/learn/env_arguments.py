"""What a VectorEnv is given, checked: each function gives the value in its final form, or an error in one sentence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from condyle.closed_loop.loop import Loop
from condyle.errors import ControlError
from condyle.methods.learn.env_step import RANDOMIZATION
from condyle.robot.names import nearest

TAKEN = ("x", "action", "step", "seed", "robot", "observation", "privileged", "episode.step", "episode.return", RANDOMIZATION)


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
