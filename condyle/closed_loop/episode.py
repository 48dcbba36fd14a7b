"""Episodes: when a robot starts again, and where, inside of the kernel. No robot waits for another."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np

from condyle.closed_loop.block import Weights
from condyle.errors import ControlError, SimulationError, require_importable
from condyle.robot.model import Model
from condyle.robot.names import nearest
from condyle.simulate.standing import require_unit_quaternions
from condyle.tape import random

TICK, COUNT = "episode.tick", "episode.count"  # states: ticks since the start of the episode, episodes before it
SIGNALS = ("episode.terminated", "episode.truncated", "episode.failed")
CHANNEL = crc32(b"episode")


@dataclass(frozen=True)
class Episode:
    """When an episode ends and how the next one begins.

    `terminated(x)`: a condition on the state x after a tick, written in NumPy; & | ~ combine comparisons. `time_limit`: s, after
    which an episode is truncated. A robot that is not finite or whose solver does not converge has failed, and begins again, too.
    `reset(draw)`: {name: value} of the parts of the state that differ from the initial one ("q", "v", states of blocks);
    draw.uniform(low, high, shape) and draw.normal(shape) are random numbers keyed by seed, robot and tick. `states`: {name: (K,
    *shape)}, given states to begin at, one of the K rows drawn at random, before `reset` changes parts of it; they are shared by
    all robots, and not compiled in: parameters={"episode.q": ...} of a call replaces them. `every`: ticks between two checks.
    """

    terminated: Callable[[Any], Any] | None = None
    time_limit: float | None = None
    reset: Callable[[Draw], Mapping[str, Any]] | None = None
    every: int = 1
    states: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        for name in ("terminated", "reset"):
            if getattr(self, name) is not None and not callable(getattr(self, name)):
                raise ControlError(f"Episode: {name} must be a function, got {type(getattr(self, name)).__name__}")
        limit = self.time_limit
        if limit is not None and not (isinstance(limit, (int, float)) and math.isfinite(limit) and limit > 0.0):
            raise ControlError(f"Episode: time_limit must be a positive number of seconds, got {limit!r:.40}")
        if isinstance(self.every, bool) or not isinstance(self.every, (int, np.integer)) or self.every < 1:
            raise ControlError(f"Episode: every must be a whole number of ticks from 1 up, got {self.every!r:.40}")

    def trace_data(self) -> tuple[Any, ...]:
        """All that a trace depends on: of given states their names and shapes."""
        return self.terminated, self.time_limit, self.reset, self.every, [w.trace_data() for w in self.tables.values()]

    def __reduce__(self) -> tuple[Any, ...]:
        require_importable("the episode", self.terminated, self.reset)
        return Episode, (self.terminated, self.time_limit, self.reset, self.every, self.states)

    def initial(self) -> dict[str, np.ndarray]:
        """Initial values of its own states."""
        return {TICK: np.zeros(()), COUNT: np.zeros(())}

    @cached_property
    def tables(self) -> dict[str, Weights]:
        """The given states, by the name of what they are of."""
        return {name: Weights(f"episode.{name}", rows) for name, rows in (self.states or {}).items()}

    def check(self, layout: Mapping[str, tuple[slice, tuple[int, ...]]]) -> None:
        """Raise a ControlError unless the given states are states of a loop with this layout, equally many of each."""
        counts = {w.shape[0] for w in self.tables.values()}
        if len(counts) > 1:
            raise ControlError(f"Episode: states must have equally many rows of each, got {', '.join(map(str, sorted(counts)))}")
        for name, w in self.tables.items():
            if name not in layout or name in ("tick", TICK, COUNT):
                raise ControlError(
                    f"Episode: states gives '{name!s:.60}', which the loop does not have{nearest(name, list(layout))}"
                )
            if w.shape[1:] != layout[name][1]:
                raise ControlError(f"Episode: a row of '{name}' has shape {layout[name][1]}, got {w.shape[1:]}")


def check_reset(model: Model, q: np.ndarray) -> None:
    """Raise a ControlError if a reset gives configurations with quaternions that are not of length 1."""
    try:
        require_unit_quaternions(model, q)
    except SimulationError as error:
        raise ControlError(f"reset: {error}") from None


class Draw:
    """Random numbers of one reset, or of one episode."""

    def __init__(self, seed: Any, robot: Any, counter: Any, channel: int = CHANNEL) -> None:
        self._keys, self._draws, self._channel = (seed, robot, counter), 0, channel

    def uniform(self, low: Any = 0.0, high: Any = 1.0, shape: int | tuple[int, ...] = ()) -> Any:
        """Uniform numbers from `low` to `high`."""
        return low + (high - low) * random.uniform(*self._keys, self._next(), shape=shape)

    def normal(self, shape: int | tuple[int, ...] = ()) -> Any:
        """Normal numbers of mean 0 and variance 1."""
        return random.normal(*self._keys, self._next(), shape=shape)

    def _next(self) -> int:
        self._draws += 1
        return (self._channel + self._draws) & 0xFFFFFFFF
