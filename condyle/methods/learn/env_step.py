"""What the functions of an environment see of one policy step, and the random numbers they may draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np

from condyle.closed_loop.episode import Draw
from condyle.closed_loop.kernel import Context, repeat_if
from condyle.errors import ControlError
from condyle.robot.names import nearest
from condyle.tape.compose import traced_array
from condyle.tape.scalar import caller

RANDOMIZATION = "randomization"  # the shared number that scales all randomisation: 1 all of it, 0 none
CHANNELS = {name: crc32(name.encode()) for name in ("curriculum", "randomize", "reset", "update", "step", "first", "policy")}


class EnvDraw(Draw):
    """Random numbers of a reset or of an update, with values by name: draw["command"] of variables, shared values, parameters.

    Parameters are those of the episode that begins; variables are those of the one that ended, but for what the curriculum gives.
    `t` is its duration in s, and `terminated` whether it ended before its time.
    """

    def __init__(
        self, keys: tuple[Any, Any, Any], channel: str, value: Callable[[str], Any], t: Any = 0.0, terminated: Any = False
    ) -> None:
        super().__init__(*keys, CHANNELS[channel])
        self._value, self.t, self.terminated = value, t, terminated

    def __getitem__(self, name: str) -> Any:
        return self._value(name)

    def choice(self, count: int) -> Any:
        """A whole number from 0 to count - 1."""
        return np.minimum(np.floor(self.uniform(0.0, float(count))), float(count - 1))


class Step:
    """One policy step, after its ticks: `s.x` the robot, `s.action`, and everything with a name as `s["imu.rate"]`."""

    def __init__(
        self,
        context: Context,
        parts: Mapping[str, Any],
        signals: Callable[[str], Any],
        value: Callable[[str], Any],
        *,
        action: Any,
        previous_action: Any,
        time: tuple[Any, Any],
        before: Mapping[str, Any],
        draw: Draw,
    ) -> None:
        self._context, self._parts, self._signals, self._value = context, parts, signals, value
        self._before, self._draw = before, draw
        self.action, self.previous_action = action, previous_action
        self.t, self.dt = time  # of the episode, and of one policy step, s

    @cached_property
    def x(self) -> Any:
        """The robot after the ticks: `condyle.closed_loop.plant.Plant`."""
        return self._context.at(_Parts(self._parts, self._signals))[1]

    @cached_property
    def before(self) -> Any:
        """The robot at the start of the step."""
        return self._context.at(_Parts(self._before, _no_signal))[1]

    def __getitem__(self, name: str) -> Any:
        """A state or signal of the loop, a parameter, a variable or a shared value."""
        if name in self._parts:
            return self._parts[name]
        if name in self._context.loop.plan.signals:
            return self._signals(name)
        return self._value(name)

    def normal(self, shape: int | tuple[int, ...] = ()) -> Any:
        """Normal random numbers of mean 0 and variance 1, others at every step."""
        return self._draw.normal(shape)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, shape: int | tuple[int, ...] = ()) -> Any:
        """Uniform random numbers from `low` to `high`, others at every step."""
        return self._draw.uniform(low, high, shape)


class _Parts(dict[str, Any]):
    """Parts of a state, of which signals of the last tick are part, too."""

    def __init__(self, parts: Mapping[str, Any], signals: Callable[[str], Any]) -> None:
        super().__init__(parts)
        self._signals = signals

    def __missing__(self, name: str) -> Any:
        return self._signals(name)


def _no_signal(name: str) -> Any:
    raise ControlError(f"{caller()}: s.before has no '{name}', which is known of the last tick only; use s.x")


def named_values(context: Context, variables: Mapping[str, Any], shared: Mapping[str, Any]) -> Callable[[str], Any]:
    """Variables, shared values and parameters by name."""

    def value(name: str) -> Any:
        for known in (variables, shared, context.parameters):
            if name in known:
                return known[name]
        parameters = context.loop.parameters
        if isinstance(name, str) and name in parameters:
            spec = parameters[name]
            found = context.parameters.get(spec.name)
            return traced_array(spec.name, np.asarray(spec.default, dtype=float), spec.shape) if found is None else found
        names = [*variables, *shared, *context.loop.layout, *context.loop.plan.signals, *parameters]
        raise ControlError(f"{caller()}: the environment has no '{name!s:.60}'{nearest(name, names)}")

    return value


def if_due(condition: Any, value: Callable[[], Any], otherwise: Any) -> Any:
    """`value()` where a comparison holds, else `otherwise`; its work is skipped where it holds for no robot of a vector."""
    return repeat_if(condition, lambda _, __: value(), otherwise)
