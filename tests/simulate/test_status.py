"""What `status` and the exception say of a step that is not solved: which state, at which step, which law."""

import copy
import pickle
import re
from collections.abc import Iterator

import numpy as np
import pytest
from simulate.bodies import light_feet

import condyle as cd
from condyle.errors import ControlError, SimulationError
from condyle.simulate.law_residuals import law_names
from condyle.simulate.status import Failure, worst_law

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
