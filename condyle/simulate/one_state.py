"""One step of one robot from Python in a few microseconds: arguments that need no closer look go straight to the fast call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from condyle.simulate.solver import LIMIT
from condyle.simulate.status import Questions, Status, given_smoothing
from condyle.simulate.world import World
from condyle.tape.function import Function

OK = np.asarray(True)
_FLOAT64 = np.dtype(np.float64)


class CheckedParameters:
    """The parameters of the last call: while names and numbers are the same, they need no second check."""

    def __init__(self) -> None:
        self._last: tuple[Any, tuple[Any, ...]] = (
            None,
            (),
        )  # names and numbers, values; replaced as one, for other threads look, too

    def find(self, parameters: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """The checked values of these parameters, in the order of the kernel; None if they were not the last ones."""
        given, (last, values) = _snapshot(parameters), self._last
        return values if given is not None and given == last else None

    def keep(self, parameters: Mapping[str, Any], values: tuple[Any, ...]) -> None:
        """None; `values`: the parameters as they were checked, in the order of the kernel."""
        self._last = _snapshot(parameters), values


def _snapshot(parameters: Mapping[str, Any]) -> Any:
    """Names and numbers as they are now, to be compared; None where an array may hide what it holds."""
    found: list[Any] = []
    for name, value in parameters.items():
        if type(value) is np.ndarray and value.dtype is _FLOAT64:
            found.append((name, value.shape, value.tobytes()))
        elif type(value) is float or type(value) is int:
            found.append((name, value))
        else:
            return None
    return found


class OneState:
    """The fast calls of a simulation's step, by names of parameters and lanes; each is known after the first such step."""

    def __init__(self, world: World) -> None:
        self.world, self.controls = world, world.nu
        self._idle = np.zeros((1, max(world.nu, 1)))
        self._questions = Questions(None, given_smoothing(world, {}))
        self._fast: dict[Any, Any] = {}
        self._parameters = CheckedParameters()

    def step(
        self, x: Any, u: Any, wrenches: Any, parameters: Mapping[str, Any] | None, lanes: int | None
    ) -> tuple[np.ndarray, Status] | None:
        """(the state after one step, its status); None for everything that needs a closer look."""
        fast = self._fast.get((tuple(parameters) if parameters else None, lanes))
        if fast is None:
            return None
        if u is None:
            rows = self._idle
        elif type(u) is np.ndarray and u.ndim == 1 and self.controls:
            rows = u[None]
        else:
            return None
        call: tuple[Any, ...] = (x, rows) if wrenches is None else (x, rows, wrenches)
        if parameters:
            values = self._parameters.find(parameters)
            if values is None:
                return None
            call += values
        found = fast(call)
        # a state that is not finite or does not converge has a residual above the limit, or none
        if found is None or not found[1] <= LIMIT:
            return None
        questions = self._questions
        if parameters and "contact.smoothing" in parameters:
            questions = Questions(None, given_smoothing(self.world, parameters))
        return found[0][0], Status(found[1], OK, questions)

    def keep(self, function: Function, given: tuple[Any, ...], parameters: Mapping[str, Any] | None, lanes: int | None) -> None:
        """None; after a step of one float64 state by `function`: the next one like it is fast. `given`: checked parameters."""
        if parameters:
            self._parameters.keep(parameters, given)
        key = (tuple(parameters) if parameters else None, lanes)
        if key not in self._fast:
            self._fast[key] = function.fast_call()
