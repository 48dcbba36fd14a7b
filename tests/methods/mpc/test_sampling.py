"""Sampling control: swing-ups, the weighted mean against NumPy, the same bits on any lanes and threads, and samples that fail."""

from __future__ import annotations

import numpy as np
import pytest

import condyle as cd
from condyle.errors import ControlError
from condyle.methods.mpc.splines import basis, repeated_basis

N, STEP = 30, 0.05


def pendulum(x, u, p):
    """The angle from the upright, and its rate."""
    return np.array([x[1], p["gravity"] * np.sin(x[0]) + u[0]])


def cost(x, u):
    return 2.0 * (1.0 - np.cos(x[0])) + 0.1 * x[1] ** 2 + 0.01 * u[0] ** 2


def swing_up(**options):
    """The problem: half the torque that would hold the pendulum sideways."""
    return cd.ocp(
        pendulum, N=N, x={"angle": 1, "rate": 1}, u=1, dt=STEP, cost=cost, parameters={"gravity": 9.81},
        terminal_cost=lambda x: 20.0 * (1.0 - np.cos(x[0])) + x[1] ** 2, **{"bounds": {"u": 5.0}, **options},
    )  # fmt: skip


@pytest.fixture(scope="module")
def problem():
    return swing_up()


@pytest.fixture(scope="module")
def mppi(problem):
    return problem.mppi(samples=128, noise=3.0, temperature=0.5, knots=8)


@pytest.fixture(scope="module")
def plant(problem):
    return cd.function(lambda x, u: problem.dynamics.step(x, u, {"gravity": 9.81}, STEP), x=2, u=1)


@pytest.fixture(scope="module")
def predictive(problem):
    return problem.predictive_sampling(samples=64, noise=3.0, knots=8, spline="cubic")


def closed_loop(solver, plant, steps=120):
    x = np.array([np.pi, 0.0])
    plan, most = solver.start(x), 0.0
    for _ in range(steps):
        found = solver(x, plan)
        assert found.ok
        most = max(most, abs(float(found.u[0])))
        x, plan = plant(x, found.u), solver.shifted(found.plan)
    return x, most


def test_mppi_swings_a_pendulum_up(mppi, plant):
    x, most = closed_loop(mppi, plant)
    assert abs(np.sin(x[0])) < 0.2 and np.cos(x[0]) > 0.0 and abs(x[1]) < 0.6
    assert most <= 5.0


def test_predictive_sampling_swings_a_pendulum_up(predictive, plant):
    x, most = closed_loop(predictive, plant)
    assert abs(np.sin(x[0])) < 0.2 and np.cos(x[0]) > 0.0
    assert most <= 5.0


def test_the_best_sample_is_the_plan_and_its_cost_never_grows(predictive):
    x = np.array([2.0, 0.0])
    plan, last = predictive.start(x), np.inf
    for _ in range(10):
        found = predictive(x, plan)
        assert found.cost <= found.nominal_cost and (np.isinf(last) or found.nominal_cost == last)
        plan, last = found.plan, found.cost


def test_the_update_is_the_weighted_mean_of_the_noise(mppi):
    x, rng = np.array([2.0, 0.3]), np.random.default_rng(1)
    plan = {"controls": rng.normal(0.0, 1.0, (N, 1)), "tick": np.array(7.0)}
    found = mppi(x, plan, seed=3, temperature=2.0)
    s = np.arange(128.0)
    costs = mppi.rollout(x, plan["controls"], 7.0, s, seed=3)
    w = np.exp(-(costs - costs.min()) / 2.0)
    z = cd.random.normal(3, s[:, None], 7, np.arange(8.0)[None, :], shape=1) * (s > 0.5)[:, None, None]
    mean = (w[:, None, None] * z).sum(axis=0) / w.sum()
    shape = mppi.basis
    e = sum(shape.weights[:, a, None] * mean[shape.first.astype(int) + a] for a in range(2))
    assert np.allclose(found.controls, np.clip(plan["controls"] + 3.0 * e, -5.0, 5.0), rtol=0.0, atol=1e-12)
    assert found.cost == costs.min() and found.nominal_cost == costs[0] and found.finite == 128.0
    assert found.effective == pytest.approx(w.sum() ** 2 / (w**2).sum(), rel=1e-12)


def test_the_cost_is_that_of_the_trajectory(mppi):
    x, controls = np.array([2.0, 0.3]), np.linspace(-2.0, 2.0, N)[:, None]
    states = mppi.trajectory(x, {"controls": controls})
    end = states[-1]
    total = sum(cost(a, u) for a, u in zip(states[:-1], controls, strict=True))
    total += 20.0 * (1.0 - np.cos(end[0])) + end[1] ** 2
    assert mppi.rollout(x, controls, 0.0, 0.0) == pytest.approx(total, rel=1e-12)


def test_bits_do_not_depend_on_lanes_threads_or_batch(mppi):
    x = np.array([2.0, 0.3])
    plan = mppi.start(x)
    found = mppi(x, plan)
    arguments = (x, plan["controls"], plan["tick"])
    for function in (mppi.function, mppi.function.on("cpu", lanes=1)):
        assert function(*arguments).controls.tobytes() == found.controls.tobytes()
    s = np.arange(128.0)
    costs = mppi.rollout(*arguments, s)
    for lanes in (1, 2):
        other = mppi.rollout.on("cpu", lanes=lanes, threads=1)
        assert other(*arguments, s[5:21]).tobytes() == costs[5:21].tobytes()
    assert mppi.rollout.on("reference")(*arguments, s[:3]).tobytes() == costs[:3].tobytes()
    many = mppi(np.stack([x + 0.1, x]), {k: np.stack([v, v]) for k, v in plan.items()})
    assert many.controls[1].tobytes() == found.controls.tobytes()


def test_float32(mppi):
    x = np.array([2.0, 0.3], np.float32)
    plan = {name: np.asarray(a, np.float32) for name, a in mppi.start(x).items()}
    found = mppi(x, plan, temperature=0.5)
    assert found.controls.dtype == np.float32
    assert np.allclose(found.controls, mppi(x.astype(float), mppi.start(x)).controls, atol=1e-2)


def test_rollouts_in_float32(problem, mppi):
    solver = problem.mppi(samples=128, noise=3.0, temperature=0.5, knots=8, precision="float32")
    x = np.array([2.0, 0.3])
    found = solver(x, solver.start(x))
    assert found.controls.dtype == np.float64 and solver(x, solver.start(x)).cost == np.float32(found.cost)
    assert np.allclose(found.controls, mppi(x, mppi.start(x)).controls, atol=1e-2)


def test_samples_that_are_not_finite_have_no_weight():
    def dynamics(x, u):
        return np.array([x[0] + 0.1 * np.sqrt(u[0])])

    problem = cd.ocp(dynamics, N=5, x=1, u=1, residual=lambda x, u: x - 1.0)
    solver = problem.mppi(samples=64, noise=1.0, temperature=1.0, elites=8)
    x = np.zeros(1)
    found = solver(x, solver.start(x, np.array([1.0])))
    assert 0 < found.finite < 64 and found.status == 0.0
    assert np.isfinite(found.controls).all() and 1.0 <= found.effective <= 8.0
    # the ranks of those that count
    costs = solver.rollout(x, np.ones((5, 1)), 0.0, np.arange(64.0))
    best = np.sort(costs[np.isfinite(costs)])[:8]
    w = np.exp(-(best - best[0]))
    assert found.effective == pytest.approx(w.sum() ** 2 / (w**2).sum(), rel=1e-12)


def test_a_state_that_is_not_finite_keeps_the_plan(mppi):
    plan = {"controls": np.linspace(-2.0, 2.0, N)[:, None], "tick": np.array(3.0)}
    found = mppi(np.array([np.nan, 0.0]), plan)
    assert found.status == 2.0 and not found.ok and found.finite == 0.0
    assert (found.controls == plan["controls"]).all() and found.u == plan["controls"][0]
    assert "last plan is kept" in found.message


def test_a_simulation_that_fails_has_no_weight():
    world = cd.Simulation(cd.load("wheeled_pendulum"), 0.01)
    problem = cd.ocp(world, N=4, cost=lambda x, u: u[0] ** 2, substeps=2)
    solver = problem.mppi(samples=8, noise=0.01)
    x = np.tile(world.state(), (8, 1))
    plan = solver.start(x[0])
    costs = solver.rollout(x, plan["controls"], 0.0, np.arange(8.0))
    x[3] = np.nan
    # a frozen state has a finite cost of its own, which must not count
    others = solver.rollout(x, plan["controls"], 0.0, np.arange(8.0))
    assert np.isfinite(costs).all() and np.isinf(others[3])
    assert np.delete(others, 3).tobytes() == np.delete(costs, 3).tobytes()


def test_bounds_of_states_cost():
    def residual(x, u):
        return np.array([x[0] - 2.0, 0.1 * u[0]])

    integrator = {"N": 10, "x": {"x": 1}, "u": 1, "residual": residual}
    free = cd.ocp(lambda x, u: x + u, **integrator).predictive_sampling(samples=64, noise=0.3)
    bounded = cd.ocp(lambda x, u: x + u, bounds={"x": 1.0}, **integrator).predictive_sampling(samples=64, noise=0.3)
    controls = np.full((10, 1), 0.15)
    # x_k = 0.15 k passes 1 at k = 7: bounds hold from the second state to the last
    over = np.maximum(0.15 * np.arange(1, 11) - 1.0, 0.0)
    a, b = (solver.rollout(np.zeros(1), controls, 0.0, 0.0) for solver in (free, bounded))
    assert b - a == pytest.approx(0.5e4 * (over**2).sum(), rel=1e-9)


def test_held_controls_stay_held():
    solver = swing_up(move_blocking=[1, 4, 10, 15]).mppi(samples=16, noise=1.0, iterations=2)
    found = solver(np.array([2.0, 0.0]), solver.start(np.zeros(2)))
    u = found.controls[:, 0]
    assert [len(np.unique(part)) for part in np.split(u, [1, 5, 15])] == [1, 1, 1, 1] and len(np.unique(u)) == 4
    assert found.plan["tick"] == 2.0
    one = solver.function(np.array([2.0, 0.0]), *solver.start(np.zeros(2)).values())
    assert one.controls.tobytes() == found.controls.tobytes()


def test_splines_reproduce_lines():
    for spline in ("linear", "cubic"):
        shape = basis(20, 6, spline)
        knots = np.arange(6.0)
        values = sum(shape.weights[:, a] * knots[shape.first.astype(int) + a] for a in range(shape.weights.shape[1]))
        inside = slice(None) if spline == "linear" else slice(4, 16)
        assert np.allclose(values[inside], np.linspace(0.0, 5.0, 20)[inside], rtol=0.0, atol=1e-12)
        assert np.allclose(shape.weights.sum(axis=1), 1.0)
    assert basis(20, 5, "hold").first.tolist() == [float(k // 4) for k in range(20)]
    assert repeated_basis((False, False, True, False)).start.tolist() == [0.0, 1.0, 1.0, 3.0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"samples": 1}, "samples must be a whole number from 2"),
        ({"temperature": 0.0}, "temperature must be finite and above zero"),
        ({"noise": [1.0, 2.0]}, "one for each of the 1 controls"),
        ({"noise": -1.0}, "noise must be finite and not negative"),
        ({"knots": 31}, "knots must be a whole number from 1 to 30"),
        ({"spline": "quintic"}, "spline must be one of hold, linear, cubic"),
        ({"elites": 0}, "elites must be a whole number from 1 to 1024"),
        ({"penalty": np.inf}, "penalty must be a finite number"),
        ({"precision": "half"}, "precision must be 'float64' or 'float32'"),
        ({"seed": -1}, "seed must be a whole number from 0"),
    ],
)
def test_options_are_checked(problem, options, words):
    with pytest.raises(ControlError, match=words):
        problem.mppi(**options)


def test_data_is_checked(mppi):
    x = np.zeros(2)
    with pytest.raises(ControlError, match="no data 'heat'"):
        mppi(x, mppi.start(x), heat=1.0)
    with pytest.raises(ControlError, match="temperature must be above zero"):
        mppi(x, mppi.start(x), temperature=0.0)
    with pytest.raises(ControlError, match="the plan has no 'controls'"):
        mppi(x, {})
    with pytest.raises(ControlError, match="option of mppi; rename it"):
        cd.ocp(lambda x, u, p: x + u, N=2, x=1, u=1, cost=lambda x, u: u[0] ** 2, parameters={"noise": 1.0}).mppi()
