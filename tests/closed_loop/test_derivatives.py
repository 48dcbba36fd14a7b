"""Derivatives of closed loops: A and B of a tick with blocks, and of ticks inside of a trace, against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from closed_loop.parts import Lag
from simulate.bodies import a_box, lower_corners

import condyle as cd
from condyle.closed_loop.derivatives import change, displaced


@pytest.fixture(scope="module")
def loop() -> cd.Loop:
    """A box on the ground, pushed by a force that a lag delays."""
    lag = Lag(3, 0.02, name="lag")

    def control(x: Any, push: Any) -> Any:
        return {"wrenches": {"box": np.concatenate([lag(push), 0.1 * x.v[3:]])}}

    return cd.Loop(cd.Simulation(a_box(), 0.004, cd.Plane(0.6), lower_corners()), control, push=3)


def moving(loop: cd.Loop) -> np.ndarray:
    """The box as it slides, a little tilted."""
    q = np.array([0.1, 0.2, 0.0493, 0.004, 0.002, 0.05, 1.0])
    q[3:] /= np.linalg.norm(q[3:])
    x: np.ndarray = loop.state(q, [0.3, -0.1, -0.05, 0.1, 0.2, 0.3], **{"lag.angle": [1.0, 0.5, -2.0]})
    return x


def test_A_and_B_are_the_derivatives_of_a_tick(loop: cd.Loop) -> None:
    x, push = moving(loop), np.array([2.0, 1.0, 0.5])
    x1, A, B = loop.step(x, push, derivatives=True)
    np.testing.assert_array_equal(x1, loop.step(x, push))
    assert A.shape == (loop.ndx, loop.ndx) and B.shape == (loop.ndx, 3)
    move = cd.function(lambda x, d: displaced(loop, x, d), x=loop.nx, d=loop.ndx)
    apart = cd.function(lambda a, b: change(loop, a, b), a=loop.nx, b=loop.nx)
    eps = 1e-6
    for k in range(loop.ndx):
        d = np.zeros(loop.ndx)
        d[k] = eps
        ends = [loop.step(move(x, sign * d), push) for sign in (1.0, -1.0)]
        np.testing.assert_allclose(A[:, k], apart(ends[1], ends[0]) / (2.0 * eps), atol=2e-5 * np.abs(A).max())
    for k in range(3):
        # a longer step: states have the rounding of the solver's last iteration
        d = 10.0 * eps * np.eye(3)[k]
        difference = apart(loop.step(x, push - d), loop.step(x, push + d)) / (20.0 * eps)
        np.testing.assert_allclose(B[:, k], difference, atol=1e-8)
    # the lag is part of the loop
    where = loop.layout["lag.angle"][0].start - loop.nq + loop.world.robot.nv
    np.testing.assert_allclose(A[where, where], np.exp(-0.004 / 0.02), rtol=1e-12)


def test_a_tick_inside_of_a_trace_has_its_value_and_gradient(loop: cd.Loop) -> None:
    def height(push: Any, lag: Any) -> Any:
        x = moving(loop)
        for _ in range(2):
            x = loop.step(x, push, parameters={"lag.lag": lag})
        return x[2]

    function = cd.function(height, push=3, lag=())
    push, lag = np.array([2.0, 1.0, 0.5]), 0.02
    x = moving(loop)
    for _ in range(2):
        x = loop.step(x, push, parameters={"lag.lag": lag})
    np.testing.assert_allclose(function(push, lag), x[2], rtol=1e-14)
    gradient = function.vjp()(push, lag, 1.0)
    eps = 1e-6
    difference = (function(push, lag + eps) - function(push, lag - eps)) / (2.0 * eps)
    np.testing.assert_allclose(gradient.lag_gradient, difference, rtol=1e-5)
