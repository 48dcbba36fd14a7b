"""A simulation called with traced values: steps, rollouts, derivatives and outputs inside a trace."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from simulate.bodies import a_pendulum, a_sphere
from simulate.test_derivatives import limb

import condyle as cd

SAME = 1e-12


@pytest.fixture(scope="module")
def leg():
    """Two links, limits, friction, and a foot on the ground."""
    return cd.Simulation(limb(), 0.002, cd.Plane(offset=-0.78))


@pytest.fixture(scope="module")
def pendulum():
    """A pendulum near its limit, with friction and damping."""
    return cd.Simulation(a_pendulum(0.1, 0.2, limits=(-1.0, 0.5)), 0.01, substeps=2)


STATE, CONTROL = np.array([0.49, 0.6]), np.array([0.5])


def test_a_step_in_a_trace_with_contact(leg):
    rng = np.random.default_rng(0)
    x, u = np.array([0.1, -0.5, 0.3, -0.2]) + 0.1 * rng.normal(size=(8, 4)), rng.normal(size=(8, 2))
    step = cd.function(leg.step, x=leg.nx, u=leg.nu)
    assert np.abs(step(x, u) - leg.step(x, u)).max() < SAME
    _, A, B = leg.step(x, u, derivatives=True)
    found = step.jacobian(mode="forward")(x, u)
    assert np.abs(found[0] - A).max() < 1e-9 * np.abs(A).max() and np.abs(found[1] - B).max() < 1e-9 * np.abs(B).max()


@pytest.mark.slow
def test_its_tape_derivatives_are_those_of_the_step(pendulum):
    _, A, B = pendulum.step(STATE, CONTROL, derivatives=True)
    step = cd.function(lambda x, u: pendulum.step(x, u), x=2, u=1)
    for mode in ("forward", "reverse"):
        found = step.jacobian(mode=mode)(STATE, CONTROL)
        assert np.abs(found[0] - A).max() < 1e-9 * np.abs(A).max()
        assert np.abs(found[1] - B).max() < 1e-9 * np.abs(B).max()
    value, A1, B1 = cd.linearize(pendulum.step, STATE, CONTROL)
    assert np.abs(value - pendulum.step(STATE, CONTROL)).max() < SAME
    assert np.abs(A1 - A).max() < 1e-9 * np.abs(A).max() and np.abs(B1 - B).max() < 1e-9 * np.abs(B).max()


@pytest.mark.slow
def test_derivatives_and_rollouts_in_a_trace(pendulum):
    us = np.random.default_rng(1).normal(size=(3, 1))

    def both(x, us):
        x1, A, B = pendulum.step(x, us[0], derivatives=True)
        xs, As, Bs = pendulum.rollout(x, us, derivatives=True)
        return {"x1": x1, "A": A, "B": B, "xs": xs, "As": As, "Bs": Bs, "end": pendulum.rollout(x, us)[-1]}

    f = cd.function(both, x=2, us=us.shape)
    found = f(STATE, us)
    wanted = (*pendulum.step(STATE, us[0], derivatives=True), *pendulum.rollout(STATE, us, derivatives=True))
    for got, exact in zip(found[:6], wanted, strict=True):
        assert got.shape == exact.shape and np.abs(got - exact).max() < 1e-11 * max(1.0, np.abs(exact).max())
    gradient = f.jacobian("end", "us", mode="forward")(STATE, us)
    _, As, Bs = wanted[3:]
    assert np.abs(gradient[:, 0] - As[2] @ As[1] @ Bs[0]).max() < 1e-9


def test_a_state_that_is_not_finite_stays_and_the_status_says_so():
    world = cd.Simulation(a_pendulum())

    def step(x, u):
        x1 = world.step(x, u)
        return {"x1": x1, "ok": cd.where(world.status.ok, 1.0, 0.0)}

    f = cd.function(step, x=2, u=1)
    x, u = np.array([[0.1, 0.2], [0.1, 0.2]]), np.array([[0.0], [np.inf]])
    found = f(x, u)
    assert np.array_equal(found.ok, [1.0, 0.0]) and np.array_equal(found.x1[1], x[1])
    assert np.array_equal(found.x1[0], world.step(x[0], u[0]))
    assert pickle.loads(pickle.dumps(world)).nx == 2
    cd.function(step, x=2, u=1, cache=False)
    assert pickle.loads(pickle.dumps(world)).status is None


def test_outputs_states_and_wrenches_in_a_trace():
    ball = cd.Simulation(a_sphere(), 0.002, cd.Plane(), wrenches="ball")
    q = np.array([0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1.0])
    v = np.arange(6.0) * 0.1

    def look(q, v, push):
        x = ball.state(q, v)
        return {
            "x": x,
            "q": ball.split(x)[0],
            "energy": ball.energy(x),
            "forces": ball.contact_forces(x, wrenches={"ball": push}),
            "x1": ball.step(x, wrenches={"ball": push}),
            "x2": ball.step(x, wrenches=[push]),
        }

    push = np.array([0.1, 0.0, -1.0, 0.0, 0.0, 0.2])
    found, x = cd.function(look, q=7, v=6, push=6)(q, v, push), ball.state(q, v)
    assert np.array_equal(found.x, x) and np.array_equal(found.q, q)
    assert np.allclose(found.energy, ball.energy(x), rtol=SAME)
    assert np.allclose(found.forces, ball.contact_forces(x, wrenches={"ball": push}), rtol=1e-9)
    assert np.abs(found.x1 - ball.step(x, wrenches={"ball": push})).max() < SAME and np.array_equal(found.x1, found.x2)


def test_options_of_the_backend_are_refused_inside_a_trace(pendulum):
    with pytest.raises(cd.SimulationError, match=r"test_traced_step.py:\d+: backend, lanes and threads have no meaning"):
        cd.function(lambda x: pendulum.step(x, CONTROL, backend="reference"), x=2)
