"""What `status` and the exception say of a step that is not solved: which state, at which step, which law."""

import copy
import gc
import pickle
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from simulate.bodies import light_feet

import condyle as cd
from condyle.errors import ControlError, SimulationError
from condyle.simulate import solver
from condyle.simulate.law_residuals import law_names
from condyle.simulate.status import Failure, Status, worst_law
from condyle.tape import trace_cache
from condyle.tape.cache import ObjectCache

# a torso so heavy that rounding errors of its motion are larger than all that feet of a kilogram can do
HEAVY = {"torso.mass": 1e22}
STEPS = 50


@pytest.fixture(scope="module")
def world() -> cd.Simulation:
    """A body on four feet, each on a slide of its own, on a floor."""
    return cd.Simulation(light_feet(1000.0, friction=0.5), 0.002, cd.Plane(friction=0.5), "foot*")


@pytest.fixture(scope="module")
def states(world: cd.Simulation) -> np.ndarray:
    """Standing, in fast motion."""
    x = np.tile(world.stand(), (8, 1))
    x[:, world.robot.nq :] = 3.0 * np.random.default_rng(0).normal(size=(8, world.robot.nv))
    return x


def names_a_law(world: cd.Simulation, failures: list[Failure]) -> Iterator[bool]:
    """Whether each failure names a law that the world has, or numbers that are not finite."""
    for failure in failures:
        yield failure.law in law_names(world.world) and failure.residual > 1e-10


def test_a_rollout_that_is_not_solved_names_states_steps_and_laws(world: cd.Simulation, states: np.ndarray) -> None:
    controls = np.zeros((STEPS, world.nu))
    xs = world.rollout(states, controls, parameters=HEAVY, freeze=True)
    status = world.status
    assert status is not None and not status.ok.all()
    assert [failure.state for failure in status.failures] == [(int(k),) for k in np.flatnonzero(~status.ok)]
    assert all(names_a_law(world, status.failures))
    for failure in status.failures:
        own = xs[failure.state]
        assert failure.step is not None
        # the last step that moved is the one before
        assert np.all(own[failure.step :] == own[failure.step])
        assert failure.step == 0 or np.any(own[failure.step] != own[failure.step - 1])
    first = status.failures[0]
    law = re.escape(first.law or "")
    sentence = rf"^light_feet: step {first.step} of state \[{first.state[0]}\] .* in the {law}; take a smaller dt"
    with pytest.raises(SimulationError, match=sentence):
        world.rollout(states, controls, parameters=HEAVY)


def test_a_single_step_names_its_law(world: cd.Simulation, states: np.ndarray) -> None:
    controls = np.zeros((STEPS, world.nu))
    stopped = world.rollout(states, controls, parameters=HEAVY, freeze=True)[:, -1]
    failure = world.status.failures[0] if world.status else None
    assert failure is not None and failure.law
    with pytest.raises(SimulationError, match=rf"^light_feet: the step of state .* in the {re.escape(failure.law)}; take"):
        world.step(stopped[failure.state], parameters=HEAVY)


def test_a_loop_names_the_robot_the_tick_and_the_law(world: cd.Simulation, states: np.ndarray) -> None:
    still = cd.blocks.ImplicitPD(world.control_names, 200.0, 2.0, 30.0)
    loop = cd.Loop(world, lambda x, target: still(target, x), target=world.nu)
    q, v = world.split(states)
    targets = np.tile(q[:, None, 7:], (1, 10, 1))
    out = loop.rollout(loop.state(q, v), targets, STEPS, parameters=HEAVY, freeze=True)
    failures = out.status.failures
    assert not out.status.ok.all() and all(names_a_law(world, failures))
    assert [failure.state for failure in failures] == [(int(k),) for k in np.flatnonzero(~out.status.ok)]
    ticks = loop.unpacked(out.x)["tick"].ravel()
    assert [failure.step for failure in failures] == [int(ticks[failure.state]) for failure in failures]
    sentence = rf"the loop of robot \[{failures[0].state[0]}\] stops at tick {failures[0].step} .* in the {failures[0].law}; look"
    with pytest.raises(ControlError, match=sentence):
        loop.rollout(loop.state(q, v), targets, STEPS, parameters=HEAVY)


def test_a_call_that_is_solved_has_no_failures(world: cd.Simulation, states: np.ndarray) -> None:
    world.rollout(states, np.zeros((3, world.nu)))
    assert world.status is not None and world.status.ok.all() and world.status.failures == []


def test_numbers_that_are_not_finite_name_no_law() -> None:
    assert worst_law(["a", "b"], np.array([np.nan, np.nan])) == (None, -1.0)
    assert worst_law(["a", "b"], np.array([1e-12, 1e-9])) == ("b", 1e-9)
    assert worst_law(["a", "b"], np.array([1e-5, 1e-6], np.float32))[0] is None


def test_copies_of_a_status_hold_its_numbers(world: cd.Simulation, states: np.ndarray) -> None:
    world.rollout(states, np.zeros((STEPS, world.nu)), parameters=HEAVY, freeze=True)
    assert world.status is not None
    for other in (copy.copy(world.status), pickle.loads(pickle.dumps(world.status))):
        np.testing.assert_array_equal(other.ok, world.status.ok)
        assert other.failures == []


# -- the smoothing of each state

GIVEN = 1e-5


def status_after(world: cd.Simulation, *args: Any, **options: Any) -> Status:
    """The status of a rollout of two axes of controls, else of a step."""
    (world.rollout if len(args) > 1 and np.ndim(args[1]) == 2 else world.step)(*args, freeze=True, **options)
    assert world.status is not None
    return world.status


@pytest.fixture(scope="module")
def thrown(world: cd.Simulation) -> tuple[np.ndarray, np.ndarray]:
    """Robots thrown at the floor with joints at several rad/s, float32: 64 steps without controls, and all states on the way."""
    rng = np.random.default_rng(0)
    x = np.tile(world.stand(), (512, 1))
    x[:, 2] += rng.uniform(-0.05, 0.1, len(x))
    x[:, world.robot.nq :] = 6.0 * rng.normal(size=(len(x), world.robot.nv))
    x = x.astype(np.float32)
    xs = world.rollout(x, np.zeros((64, world.nu), np.float32))
    return x, xs[:, :-1].reshape(-1, world.nx)


def test_float32_says_which_states_were_solved_again_with_more_smoothing(
    world: cd.Simulation, thrown: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, on_the_way = thrown
    status = status_after(world, on_the_way)
    smoothing = status.smoothing
    again = smoothing > GIVEN * 1.001
    assert smoothing.dtype == np.float32 and status.ok.all() and np.min(smoothing) == np.float32(GIVEN)
    assert 10 < np.sum(again) < 0.03 * len(again)
    # a rollout has the largest of its steps
    rolled = status_after(world, x, np.zeros((64, world.nu), np.float32)).smoothing
    assert np.array_equal(rolled, smoothing.reshape(len(x), -1).max(axis=1))
    # they are those that the first attempt does not solve
    monkeypatch.setattr(trace_cache, "shared_cache", lambda: ObjectCache(None))
    monkeypatch.setattr(solver, "ATTEMPTS", solver.ATTEMPTS[:1])
    once = cd.Simulation(world.robot, 0.002, cd.Plane(friction=0.5), "foot*")
    assert np.array_equal(status_after(once, on_the_way).ok, ~again)


@pytest.mark.slow
@pytest.mark.parametrize("options", ({"integrator": "rk4"}, {"substeps": 2}), ids=str)
def test_stages_and_substeps_count(world: cd.Simulation, thrown: tuple[np.ndarray, np.ndarray], options: dict[str, Any]) -> None:
    _, on_the_way = thrown
    again = cd.Simulation(world.robot, 0.002, cd.Plane(friction=0.5), "foot*", **options)
    smoothing = status_after(again, on_the_way).smoothing
    assert 10 < np.sum(smoothing > GIVEN * 1.001) < 0.06 * len(smoothing)


@pytest.mark.parametrize("given", (GIVEN, pytest.param(3e-4, marks=pytest.mark.slow)))
def test_ordinary_states_have_the_smoothing_that_is_given(world: cd.Simulation, states: np.ndarray, given: float) -> None:
    parameters = {} if given == GIVEN else {"parameters": {"contact.smoothing": given}}
    us = np.zeros((3, world.nu))
    for x in (states, states[0], states[0]):  # one state alone is stepped by the fast call the second time
        for calls in ((x,), (x, us)):
            assert np.array_equal(status_after(world, *calls, **parameters).smoothing, np.full(x.shape[:-1], given))
    standing = np.tile(world.stand().astype(np.float32), (2, 1))
    np.testing.assert_allclose(status_after(world, standing, **parameters).smoothing, given, rtol=1e-6)


def test_a_loop_records_the_smoothing_of_each_tick(world: cd.Simulation, thrown: tuple[np.ndarray, np.ndarray]) -> None:
    x, on_the_way = thrown
    expected = status_after(world, on_the_way).smoothing.reshape(len(x), -1)
    loop = cd.Loop(world, lambda x, u: u, u=world.nu)
    q, v = world.split(x)
    start = np.zeros((len(x), loop.nx), np.float32)
    start[:, : loop.nq], start[:, loop.nq : loop.nq + loop.nv] = q, v
    out = loop.rollout(start, np.zeros((64, world.nu), np.float32), record=["smoothing"])
    assert np.array_equal(out["smoothing"], expected)
    with pytest.raises(SimulationError, match=r"a loop records it for each tick, record=\['smoothing'\]"):
        _ = out.status.smoothing


def test_the_smoothing_of_float32_needs_the_arrays_of_the_call(
    world: cd.Simulation, thrown: tuple[np.ndarray, np.ndarray]
) -> None:
    own = cd.Simulation(world.robot, 0.002, cd.Plane(friction=0.5), "foot*")
    x = thrown[0].copy()
    status = status_after(own, x)
    kept, other = status.smoothing, copy.copy(status)
    x[:] = x[::-1].copy()
    with pytest.raises(SimulationError, match="its arrays have changed since"):
        _ = status.smoothing
    x[:] = x[::-1].copy()
    assert np.array_equal(status.smoothing, kept)
    with pytest.raises(SimulationError, match="right after a call with NumPy arrays"):
        _ = other.smoothing
    del own
    gc.collect()
    with pytest.raises(SimulationError, match="its simulation is gone"):
        _ = status.smoothing
