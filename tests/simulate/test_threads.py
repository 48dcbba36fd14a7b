"""One simulation or loop in several threads: each call has its own numbers, parameters, status and error."""

from __future__ import annotations

import copy
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import condyle as cd


@pytest.fixture(autouse=True)
def quick_switches() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def at_once(*works: Callable[[], None]) -> None:
    """Run each in a thread of its own, and raise the first error of any."""
    errors: list[BaseException] = []

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@pytest.fixture(scope="module")
def pendulum() -> cd.Simulation:
    return cd.Simulation(cd.load("pendulum"), dt=0.01)


@pytest.fixture(scope="module")
def loop(pendulum: cd.Simulation) -> cd.Loop:
    return cd.Loop(pendulum, lambda x, torque: torque, torque=1)


def good_and_bad(world: Any) -> tuple[np.ndarray, np.ndarray]:
    x = np.tile(world.state(), (3, 1))
    bad = x.copy()
    bad[1, 0] = np.nan
    return x, bad


@pytest.mark.parametrize("name", ["pendulum", "loop"])
def test_a_thread_reads_the_status_of_its_own_calls(name: str, request: pytest.FixtureRequest) -> None:
    world = request.getfixturevalue(name)
    (x, bad), turn = good_and_bad(world), threading.Barrier(2, timeout=10.0)
    u = {"references": np.zeros((3, 1))} if name == "loop" else {}

    def fails() -> None:
        assert world.status is None
        for _ in range(3):
            world.step(bad, freeze=True, **u)
            turn.wait()  # the other one steps
            turn.wait()
            assert world.status.ok.tolist() == [True, False, True]

    def succeeds() -> None:
        assert world.status is None
        for _ in range(3):
            turn.wait()
            world.step(x[0], **({"references": np.zeros(1)} if u else {}))
            assert world.status.ok
            turn.wait()

    at_once(fails, succeeds)
    world.step(x, **u)
    assert world.status.ok.all()
    alike = copy.deepcopy(world.status), pickle.loads(pickle.dumps(world.status))
    assert all(np.array_equal(status.residual, world.status.residual) for status in alike)


@pytest.mark.parametrize("name", ["pendulum", "loop"])
def test_a_call_raises_its_own_error_and_no_other(name: str, request: pytest.FixtureRequest) -> None:
    world = request.getfixturevalue(name)
    x, bad = good_and_bad(world)
    rows = np.zeros((3, 4, 1))

    def succeeds() -> None:
        for _ in range(150):
            world.rollout(x, rows)

    def fails() -> None:
        for _ in range(150):
            with pytest.raises((cd.SimulationError, cd.ControlError), match=r"finite|nan"):
                world.rollout(bad, rows)

    def frozen() -> None:
        for _ in range(150):
            out = world.rollout(bad, rows, freeze=True)
            status = out.status if name == "loop" else world.status
            assert status.ok.tolist() == [True, False, True]

    at_once(succeeds, fails, frozen)


@pytest.mark.parametrize("derivatives", [False, True])
def test_steps_with_parameters_of_their_own(pendulum: cd.Simulation, derivatives: bool) -> None:
    x = pendulum.state(np.array([0.5]), np.array([0.3]))
    damping = next(name for name in pendulum.parameters if name.endswith("damping"))
    values = [0.1 * k for k in range(1, 7)]

    def result(value: float) -> tuple[Any, ...]:
        found = pendulum.step(x, parameters={damping: value}, derivatives=derivatives)
        return found if derivatives else (found,)

    right = {value: result(value) for value in values}

    def work(value: float) -> None:
        for _ in range(150):
            for a, b in zip(result(value), right[value], strict=True):
                assert np.array_equal(a, b)

    at_once(*[lambda value=value: work(value) for value in values])  # type: ignore[misc]


def test_a_solver_in_several_threads() -> None:
    def dynamics(x: Any, u: Any) -> Any:
        return x + 0.05 * np.array([x[1], u[0] - 0.3 * x[0]])

    problem = cd.ocp(dynamics, N=400, x=2, u=1, residual=lambda x, u: np.concatenate([x, 0.3 * u]))
    solver = problem.sqp()
    starts = [np.array([1.0 + 0.1 * k, 0.0]) for k in range(4)]
    right = [solver(x) for x in starts]

    def work(k: int) -> None:
        for _ in range(40):
            found = solver(starts[k])
            assert np.array_equal(found.states, right[k].states) and np.array_equal(found.controls, right[k].controls)

    at_once(*[lambda k=k: work(k) for k in range(4)])  # type: ignore[misc]
