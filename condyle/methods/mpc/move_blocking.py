"""Move blocking: controls that stay for several intervals, as a problem whose state holds the control before.

    u_eff = u + m (u_before - u),    m = 1 in an interval that keeps the control of the one before, else 0

The control of such an interval has no effect; a cost m |u - u_before|^2 / 2 makes it the one that acts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condyle.methods.mpc.cost import Cost
from condyle.methods.mpc.dynamics import Dynamics
from condyle.methods.mpc.space import Component, Space

REPEATS = "repeats"  # the stage parameter m


@dataclass(frozen=True)
class BlockedDynamics(Dynamics):
    """The step of `plant`, with the control that acted as a part of the state."""

    plant: Dynamics | None = None

    def step(self, x: Any, u: Any, p: Any, h: Any) -> Any:
        """The state after one interval, and the control that acted."""
        assert self.plant is not None
        n = self.plant.states.size
        acting = acting_control(n, x, u, p)
        return np.concatenate([self.plant.step(x[:n], acting, p, h), acting])

    def checked_step(self, x: Any, u: Any, p: Any, h: Any) -> tuple[Any, Any]:
        """The same, and whether the simulation converged."""
        assert self.plant is not None
        n = self.plant.states.size
        acting = acting_control(n, x, u, p)
        x1, ok = self.plant.checked_step(x[:n], acting, p, h)
        return np.concatenate([x1, acting]), ok


def acting_control(n: int, x: Any, u: Any, p: Any) -> Any:
    """u_eff of a state whose entries from n on are the control before."""
    return u + p[REPEATS][0] * (x[n:] - u)


def blocked_dynamics(plant: Dynamics) -> BlockedDynamics:
    """The dynamics with the control before in the state."""
    nu = plant.controls.size
    states = Space((*plant.states.parts, Component("control_before", nu, nu)))
    return BlockedDynamics(states, plant.controls, plant.function, None, 1, None, plant)


def blocked_cost(cost: Cost, dynamics: BlockedDynamics) -> Cost:
    """The cost of a stage with the control that acts, or of the final state."""
    assert dynamics.plant is not None
    n = dynamics.plant.states.size

    def acting(function: Callable[..., Any] | None) -> Callable[..., Any] | None:
        if function is None:
            return None
        if cost.controls is None:
            return lambda x, *rest: function(x[:n], *rest)
        return lambda x, u, r, p: function(x[:n], acting_control(n, x, u, p), r, p)

    def total(x: Any, u: Any, r: Any, p: Any) -> Any:
        e = u - x[n:]
        own = 0.5 * p[REPEATS][0] * (e @ e)
        return own if cost.cost is None else own + cost.cost(x[:n], acting_control(n, x, u, p), r, p)

    scalar = acting(cost.cost) if cost.controls is None else total
    return replace(cost, states=dynamics.states, residual=acting(cost.residual), cost=scalar)


def blocked_constraints(function: Callable[..., Any] | None, n: int, *, end: bool) -> Callable[..., Any] | None:
    """Constraints of the control that acts; n numbers are those of the plant's state."""
    if function is None:
        return None
    if end:
        return lambda x, p: function(x[:n], p)
    return lambda x, u, p: function(x[:n], acting_control(n, x, u, p), p)
