"""Regulators cost what their Riccati equations say, balance what cannot be held, and beat PD control along a fast swing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.errors import CondyleError, ControlError, ShapeError
from condyle.methods.control.joint_control import JointPID
from condyle.methods.control.lqr_control import LQRControl, TimeVaryingLQR
from condyle.methods.planning.profiles import quintic

pytest.importorskip("scipy")
READY = np.array([0.0, -np.pi / 2, np.pi / 2, -np.pi / 2, 0.0, 0.0])
UPRIGHT = np.array([np.pi, 0.0])


@pytest.fixture(scope="module")
def pendulum() -> cd.Simulation:
    return cd.Simulation(cd.load("double_pendulum"), dt=2e-3, threads=1)


@pytest.fixture(scope="module")
def acrobot() -> cd.Simulation:
    return cd.Simulation(cd.load("double_pendulum"), dt=2e-3, actuated=["elbow"], threads=1)


def simulated(loop: cd.Loop, x0: np.ndarray, n: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """(states (..., steps + 1, 2 n), controls (..., steps, nu))."""
    out = loop.rollout(x0, steps=steps, record=["q", "v", "u"])
    first = x0[..., None, : 2 * n]
    return np.concatenate([first, np.concatenate([out["q"], out["v"]], axis=-1)], axis=-2), out["u"]


def cost(law: Any, X: np.ndarray, U: np.ndarray, end: np.ndarray | None = None) -> np.ndarray:
    """The cost of deviations at the updates of a controller."""
    Z, W = X[..., : -1 : law.every, :], U[..., :: law.every, :]
    total = np.einsum("...ki,ij,...kj->...", Z, law.Q, Z) + np.einsum("...ki,ij,...kj->...", W, law.R, W)
    return total if end is None else total + np.einsum("...i,ij,...j->...", X[..., -1, :], end, X[..., -1, :])


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 4])
def test_the_regulator_costs_what_its_riccati_equation_says(every: int) -> None:
    world = cd.Simulation(cd.load("ur3"), dt=1e-3, threads=1)
    law = LQRControl(world, READY, every=every)
    loop = cd.Loop(world, lambda x: law(x))
    d = 1e-6 * np.random.default_rng(0).normal(size=12)
    X, U = simulated(loop, loop.state(READY + d[:6], d[6:]), 6, 3000)
    assert cost(law, X - np.concatenate([READY, np.zeros(6)]), U - law.u) == pytest.approx(d @ law.cost_to_go @ d, rel=1e-6)


def test_the_closed_loop_is_that_of_the_gains(pendulum: cd.Simulation) -> None:
    law = LQRControl(pendulum, UPRIGHT)
    loop = cd.Loop(pendulum, lambda x: law(x))
    A = loop.step(loop.state(UPRIGHT), derivatives=True)[1]
    _, A0, B0 = pendulum.step(pendulum.state(UPRIGHT), law.u, derivatives=True)
    np.testing.assert_allclose(A[:4, :4], A0 - B0 @ law.K.default, rtol=1e-8, atol=1e-9)
    assert np.abs(np.linalg.eigvals(A[:4, :4])).max() < 1.0 < np.abs(np.linalg.eigvals(A0)).max()


def test_a_double_pendulum_stands_on_the_motor_of_its_elbow(acrobot: cd.Simulation) -> None:
    law = LQRControl(acrobot, UPRIGHT)
    loop = cd.Loop(acrobot, lambda x: law(x))
    out = loop.rollout(loop.state(UPRIGHT + np.array([0.004, 0.0])), steps=4000, every=1000)
    assert law.K.default.shape == (1, 4) and np.abs(out["q"][-1] - UPRIGHT).max() < 1e-5
    with pytest.raises(ControlError, match=r"no equilibrium, because joint 'shoulder' has no motor"):
        LQRControl(acrobot, [2.0, 0.0])
    with pytest.raises(ControlError, match=r"give \(states, controls\)"):
        TimeVaryingLQR(acrobot, quintic([0.0, 0.0], UPRIGHT, 1.0))


@pytest.mark.parametrize("every", [1, 4])
def test_the_regulator_along_a_motion_costs_what_its_sweep_says(pendulum: cd.Simulation, every: int) -> None:
    """About a motion that the simulation itself has made, small deviations cost d^T P_0 d."""
    t = pendulum.dt * np.arange(400)[:, None]
    U = np.repeat((20.0 * np.sin([[3.0, 5.0]] * t))[::4], 4, axis=0)
    X = pendulum.rollout(pendulum.state(np.array([0.4, -0.3])), U)
    law = TimeVaryingLQR(pendulum, (X, U), every=every)
    loop = cd.Loop(pendulum, lambda x: law(x))
    d = 1e-6 * np.random.default_rng(1).normal(size=4)
    moved, u = simulated(loop, loop.state(X[0, :2] + d[:2], X[0, 2:] + d[2:]), 2, 400)
    assert law.gains.shape == (400 // every + 1, 2, 4)
    assert cost(law, moved - X, u - U, law.cost_to_go[-1]) == pytest.approx(d @ law.cost_to_go[0] @ d, rel=1e-5)
    # it ends in the regulator of the last state
    assert np.all(np.linalg.eigvalsh(law.cost_to_go[-1]) > 0.0)


def test_it_beats_pd_control_along_a_fast_swing(pendulum: cd.Simulation) -> None:
    robot, move = pendulum.robot, quintic(np.zeros(2), UPRIGHT, 0.8)
    law, pd = TimeVaryingLQR(pendulum, move), JointPID(pendulum, gravity=False, coriolis=False)

    def with_feedforward(x: Any) -> Any:
        reference = move.at(x.t)
        return pd(x, reference) + robot.inverse_dynamics(*reference)

    rng = np.random.default_rng(2)
    d = rng.normal(size=(50, 4)) * [0.05, 0.05, 0.3, 0.3]
    costs, X0, U0 = [], law.states_table.default, law.controls_table.default[:400]
    for control in (lambda x: law(x), with_feedforward):
        loop = cd.Loop(pendulum, control)
        X, U = simulated(loop, loop.state(d[:, :2], d[:, 2:]), 2, 400)
        costs.append(cost(law, X - X0, U - U0, law.cost_to_go[-1]))
    expected = np.einsum("ni,ij,nj->n", d, law.cost_to_go[0], d)
    assert np.mean(costs[0]) < 0.8 * np.mean(costs[1]) and np.all(costs[0] < costs[1])
    np.testing.assert_allclose(costs[0], expected, rtol=0.3)


def test_it_keeps_an_unstable_motion_of_an_acrobot(acrobot: cd.Simulation) -> None:
    """Without feedback a thousandth of a radian becomes radians; the elbow's motor alone keeps all of it on the motion."""
    U = 12.0 * np.sin(2.5 * acrobot.dt * np.arange(1500))[:, None]
    X = acrobot.rollout(acrobot.state(np.array([2.5, 0.3])), U)
    law = TimeVaryingLQR(acrobot, (X, U), terminal_cost=1.0)
    loop = cd.Loop(acrobot, lambda x: law(x))
    d = 1e-3 * np.random.default_rng(3).normal(size=(20, 4))
    out = loop.rollout(loop.state(X[0, :2] + d[:, :2], X[0, 2:] + d[:, 2:]), steps=1500, every=1500)
    kept = np.abs(out["q"][:, -1] - X[-1, :2]).max()
    lost = np.abs(acrobot.rollout(X[0] + d, U)[:, -1, :2] - X[-1, :2]).max()
    assert kept < 2e-3 and lost > 50.0 * kept


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda w: LQRControl(w, [0.0]), ShapeError, "the pose has 2 joints"),
        (lambda w: LQRControl(w, state_cost=np.ones(3)), ShapeError, "4 numbers or a 4 x 4 matrix"),
        (lambda w: TimeVaryingLQR(w, (np.zeros((5, 4)), np.zeros((5, 2)))), ShapeError, r"states must have shape \(T \+ 1, 4\)"),
        (lambda w: TimeVaryingLQR(w, "swing"), ControlError, "motion is one with at"),
        (lambda w: TimeVaryingLQR(w, quintic(np.zeros(2), UPRIGHT, 0.1), control_cost=-1.0), CondyleError, "control_cost|R must"),
    ],
)
def test_mistakes_are_named(pendulum: cd.Simulation, make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make(pendulum)
