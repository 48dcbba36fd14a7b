"""Derivatives of the dynamics of constrained robots, against differences at 512 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from constraints.systems import LARGE, MPFR, SYSTEMS, System, near, precise, time_derivative
from markers import slow_except

from condyle.dynamics import manifold

# of the largest entry, or of one; forward dynamics solves with M, and loops solve with their conditions
DERIVATIVE = 1e-10
SEED = 5


def check(system: System, physics: Callable[..., Any], derivatives: Callable[..., Any]) -> None:
    """d physics(y, w, x) along some tangent of y, some w and some x, against differences of physics."""
    reduced, rng = system.robot.reduced, np.random.default_rng(SEED)
    y, w, x = system.state(SEED)
    by_y, by_w, by_x = derivatives(y, w, x)
    Y, W, X = precise(y), precise(w), precise(x)
    d, e = rng.standard_normal(reduced.nv), rng.standard_normal(system.robot.nv)

    def there(t: Any) -> np.ndarray:
        if reduced.nq == reduced.nv:
            return Y + precise(d) * t
        return system.robot.integrate(Y, precise(d) * t, backend=MPFR)

    for mine, function in (
        (by_y @ d, lambda t: physics(there(t), W, X, backend=MPFR)),
        (by_w @ e, lambda t: physics(Y, W + precise(e) * t, X, backend=MPFR)),
        (by_x @ e, lambda t: physics(Y, W, X + precise(e) * t, backend=MPFR)),
    ):
        (reference,) = time_derivative(function)
        assert near(mine, reference, DERIVATIVE, max(np.abs(reference).max(), 1.0))


# those that compile slowest have a simpler one of their kind beside them
SLOW = ("two_wheeled", "squeezer", "five_bar", "four_bars", "spatial_loop", "on a curved surface", "coupled")
QUICK = [name for name in SYSTEMS if name not in SLOW]


@pytest.mark.parametrize("name", slow_except(QUICK, [*SYSTEMS, *LARGE]))
def test_derivatives_of_forward_dynamics(name: str) -> None:
    system = (SYSTEMS | LARGE)[name]()
    check(system, system.robot.forward_dynamics, system.robot.forward_dynamics_derivatives)


@pytest.mark.parametrize("name", slow_except(QUICK, [*SYSTEMS, "ball_loop"]))
def test_derivatives_of_inverse_dynamics(name: str) -> None:
    system = (SYSTEMS | LARGE)[name]()
    check(system, system.robot.inverse_dynamics, system.robot.inverse_dynamics_derivatives)


def test_tangents_of_the_chart_are_those_of_the_manifold() -> None:
    """The differences above go along these tangents: a base with a quaternion has one tangent less than coordinates."""
    robot = SYSTEMS["coupled"]().robot
    y, w, _ = SYSTEMS["coupled"]().state(SEED)
    assert robot.reduced.nq > robot.reduced.nv == robot.nv
    assert near(robot.integrate(y, w), manifold.integrate(robot.reduced, y, w), 1e-14)
