"""Dynamics of a problem: a step of any kind, and its linearisation in the tangent space.

A step is a Python function of traced arrays, an integrated derivative dx/dt, a Simulation with contact, or a closed loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.methods.mpc.space import Space, no_change
from condyle.simulate.simulation import Simulation
from condyle.tape.array import array, stop_gradient, where
from condyle.tape.linearize import linearize
from condyle.tape.loop import scan

# the stages of explicit methods: how far the next stage is, the weight of this one
INTEGRATORS: dict[str, np.ndarray] = {
    "euler": np.array([[0.0, 1.0]]),
    "midpoint": np.array([[1 / 2, 0.0], [0.0, 1.0]]),
    "rk4": np.array([[1 / 2, 1 / 6], [1 / 2, 1 / 3], [1.0, 1 / 3], [0.0, 1 / 6]]),
}


@dataclass(frozen=True)
class Dynamics:
    """x1 = step(x, u, p, h): `function` is a step, or the derivative of the state if there is an integrator.

    `world`: the simulation whose step it is, with derivatives by structured recursions.
    """

    states: Space
    controls: Space
    function: Callable[..., Any]
    integrator: str | None
    substeps: int
    world: Simulation | None = None

    def step(self, x: Any, u: Any, p: Any, h: Any) -> Any:
        """The state after one interval of length h, with the control u all along."""
        if self.world is not None:
            world, own = self.world, self._of_world(p)
            return self._repeated(lambda x: world.step(x, u, parameters=own), x)
        if self.integrator is None:
            return self._repeated(lambda x: self._checked(self.function(x, u, p), self.states.size), x)
        return self._repeated(lambda x: self._integrated(x, u, p, h), x)

    def checked_step(self, x: Any, u: Any, p: Any, h: Any) -> tuple[Any, Any]:
        """(the state after one interval, whether the simulation converged): a state of one that did not stays as it is."""
        if self.world is None:
            return self.step(x, u, p, h), True
        world, own = self.world, self._of_world(p)

        def once(state: Any) -> Any:
            x1 = world.step(state[0], u, parameters=own)
            assert world.status is not None
            return x1, where(world.status.ok, state[1], 1.0)

        start = (x, 0.0)
        x1, failed = once(start) if self.substeps == 1 else scan(lambda _, s, __: (once(s), None), start, count=self.substeps)[0]
        return x1, failed < 0.5

    def linearized(self, x: Any, u: Any, p: Any, h: Any) -> tuple[Any, Any, Any]:
        """(x1, A, B): d x1 = A dx + B du, in the tangent spaces at x and x1."""
        if self.world is not None and self.substeps == 1:
            return self.world.step(x, u, parameters=self._of_world(p), derivatives=True)  # type: ignore[no-any-return]
        x1 = self.step(x, u, p, h)
        _, A, B = self._change(x, u, stop_gradient(x1), p, h)
        return x1, A, B

    def gap(self, x: Any, u: Any, following: Any, p: Any, h: Any) -> tuple[Any, Any, Any]:
        """(c, A, B) of step(x (+) dx, u + du) (-) following  =  c + A dx + B du."""
        if self.world is None or self.substeps > 1:
            return self._change(x, u, following, p, h)
        x1, A, B = self.linearized(x, u, p, h)
        c, D = linearize(lambda d: self.states.difference(following, self.states.retract(x1, d)), no_change(self.states.tangent))
        return c, D @ A, D @ B

    def _of_world(self, p: Any) -> dict[str, Any]:
        """The parameters of the problem that are those of the simulation: "ground_friction" is its "ground.friction"."""
        assert self.world is not None
        return {spec.name: p[spec.port] for spec in self.world.parameters.values() if spec.port in p} if p else {}

    def _change(self, x: Any, u: Any, following: Any, p: Any, h: Any) -> tuple[Any, Any, Any]:
        def change(d: Any, u: Any) -> Any:
            return self.states.difference(following, self.step(self.states.retract(x, d), u, p, h))

        return linearize(change, no_change(self.states.tangent), u)

    def _integrated(self, x: Any, u: Any, p: Any, h: Any) -> Any:
        step = h / float(self.substeps)

        def stage(_: Any, state: Any, row: Any) -> Any:
            at, total = state
            k = self._checked(self.function(at, u, p), self.states.size)
            return (x + (step * row[0]) * k, total + (step * row[1]) * k), None

        return scan(stage, (x, x), INTEGRATORS[self.integrator or "rk4"])[0][1]

    def _repeated(self, once: Callable[[Any], Any], x: Any) -> Any:
        return once(x) if self.substeps == 1 else scan(lambda _, x, __: (once(x), None), x, count=self.substeps)[0]

    def _checked(self, value: Any, size: int) -> Any:
        shape = np.shape(value)
        if shape != (size,):
            what = "the next state" if self.integrator is None else "the derivative of the state"
            raise ControlError(f"the dynamics must return {what}, {size} numbers, got an array of shape {shape}")
        return array(value)
