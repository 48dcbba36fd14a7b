"""Solvers and estimators of batches on a GPU: the bits of the processor, results there, and nothing that waits for them."""

from typing import Any

import numpy as np
import pytest
from methods.mpc.problems import bounded, cart_pole
from tape import fake_gpu
from tape.fake_gpu import here, there, torch

import condyle as cd
from condyle.errors import ControlError, ShapeError

pytestmark = pytest.mark.gpu

RNG = np.random.default_rng(4)
X = 0.1 * RNG.normal(size=(3, 4))


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpu.install(monkeypatch)


def same(found: Any, wanted: Any) -> bool:
    """Whether all of a solution on the GPU has the bits of one on the processor."""
    pairs = [(found.u, wanted.u), (found.status, wanted.status), (found.cost, wanted.cost)]
    pairs += [(found.plan[name], wanted.plan[name]) for name in wanted.plan]
    pairs += [(found.residuals[name], wanted.residuals[name]) for name in wanted.residuals]
    return all(np.array_equal(here(a), b) for a, b in pairs)


@pytest.mark.parametrize("method", ["rti", "sqp"])
def test_shooting(method: str) -> None:
    solver = getattr(bounded(), method)()
    wanted, found = solver(X), solver(there(X))
    assert same(found, wanted) and isinstance(found.ok, torch.Tensor) and isinstance(found.states, torch.Tensor)
    assert found.message == wanted.message
    # a warm start with data for each state, one for all, and one of the processor
    gain, reference = RNG.uniform(0.8, 1.2, (3, 1)), RNG.normal(scale=0.05, size=4)
    data = {"gain": gain, "reference": reference, "upper": np.array(bounded().data["upper"].default)}
    placed = {"gain": there(gain), "reference": there(reference), "upper": data["upper"]}
    wanted = solver(X, solver.shifted(wanted.plan), **data)
    found = solver(there(X), solver.shifted(found.plan), **placed)
    assert same(found, wanted)
    # a plan of the processor is moved
    assert same(solver(there(X), solver.start(X)), solver(X))
    assert same(solver(there(X[0])), solver(X[0]))


def test_nothing_is_moved_twice() -> None:
    solver, x = bounded().rti(), there(X)
    found = solver(x)
    before = fake_gpu.moves()
    for _ in range(3):
        found = solver(x, found.plan)
    assert fake_gpu.moves() == before


def test_ilqr_and_move_blocking() -> None:
    problem = cd.ocp(
        cart_pole, N=6, dt=0.05, x=4, u=1, residual=lambda x, u: np.concatenate([x, u]), weights=np.ones(5), bounds={"u": 5.0}
    )
    assert same(problem.ilqr(iterations=5)(there(X)), problem.ilqr(iterations=5)(X))
    blocked = cd.ocp(
        cart_pole, N=6, dt=0.05, x=4, u=1, residual=lambda x, u: np.concatenate([x, u]), weights=np.ones(5), move_blocking=[2, 4]
    )
    solver = blocked.rti()
    assert same(solver(there(X)), solver(X))
    assert np.array_equal(here(solver(there(X)).controls), solver(X).controls)


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_sampling(precision: str) -> None:
    problem = cd.ocp(
        cart_pole, N=5, dt=0.05, x=4, u=1, cost=lambda x, u: x @ x + 0.1 * u @ u, parameters={"unused": 1.0}, bounds={"u": 5.0}
    )
    solver = problem.mppi(samples=16, noise=1.0, temperature=0.5, iterations=2, precision=precision)
    noise = np.array([0.5])
    wanted, found = solver(X, noise=noise), solver(there(X), noise=there(noise))
    assert same(found, wanted) and np.array_equal(here(found.effective), wanted.effective)  # type: ignore[attr-defined]
    assert np.array_equal(here(solver.trajectory(there(X), found.plan)), solver.trajectory(X, wanted.plan))
    single = solver(there(X, np.float32))
    assert here(single.u).dtype == np.float32


def test_estimation() -> None:
    A, C = np.array([[1.0, 0.1], [-0.2, 0.9]]), np.array([[1.0, 0.0]])
    estimator = cd.mpc.mhe(
        lambda x, u: A @ x + 0.1 * u, N=2, x=2, u=2, measure=lambda x: C @ x, process={"x": [0.02, 0.05]},
        measurement=[0.1], prior=[1.0, 0.5],
    )  # fmt: skip
    x, memory_here, memory_there = X[:, :2], estimator.start(X[:, :2]), estimator.start(there(X[:, :2]))
    assert isinstance(memory_there["covariance"], torch.Tensor)
    for k in range(5):
        y, u = RNG.normal(size=(3, 1)), RNG.normal(size=(3, 2))
        y[k % 3] = np.nan
        wanted = estimator(y, memory_here, u)
        found = estimator(there(y), memory_there, there(u) if k % 2 else u)
        assert np.array_equal(here(found.x), wanted.x) and np.array_equal(here(found.states), wanted.states)
        memory_here, memory_there = wanted.memory, found.memory
    with pytest.raises(ShapeError, match=r"start: x has shape \(3, 3\)"):
        estimator.start(there(np.zeros((3, 3))))
    assert x.shape == (3, 2)


def test_wrong_arrays() -> None:
    solver = bounded().rti()
    with pytest.raises(ShapeError, match=r"start: x has shape \(3, 5\), expected"):
        solver(there(np.zeros((3, 5))))
    with pytest.raises(ShapeError, match=r"gain has shape \(2,\), expected \(1,\)"):
        solver(there(X), gain=there(np.ones(2)))
    with pytest.raises(ControlError, match="the problem has no data 'gian'"):
        solver(there(X), gian=there(np.ones(1)))
