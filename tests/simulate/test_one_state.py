"""The step of one robot from Python: the fast way has the bits of the general one, and errors are those of the general one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.errors import SimulationError

U = np.array([0.3, -0.2])
PULL = np.array([[1.0, 0.0, 2.0, 0.0, 0.1, 0.0]])
HEAVY = {"rod_2.mass": 1.5, "gravity": np.array([0.0, 0.0, -3.0])}


@pytest.fixture(scope="module")
def world() -> cd.Simulation:
    return cd.Simulation(cd.load("double_pendulum"), 0.01, wrenches="rod_2")


@pytest.fixture(scope="module")
def x(world: cd.Simulation) -> np.ndarray:
    return world.state([0.4, -0.7], [1.0, 2.0])


CALLS: dict[str, dict[str, Any]] = {
    "no control": {},
    "control": {"u": U},
    "wrench": {"u": U, "wrenches": PULL},
    "parameters": {"u": U, "parameters": HEAVY},
    "all": {"u": U, "wrenches": PULL, "parameters": HEAVY},
    "one lane": {"u": U, "lanes": 1},
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_fast_step_has_the_bits_of_a_batch(world: cd.Simulation, x: np.ndarray, call: dict[str, Any]) -> None:
    expected = world.step(x[None], **call)[0]
    first, second = world.step(x, **call), world.step(x, **call)
    assert first.tobytes() == second.tobytes() == expected.tobytes()
    assert world.status is not None and world.status.ok and world.status.residual <= 1e-10
    # results are new arrays
    assert not np.may_share_memory(second, world.step(x, **call)) and not np.may_share_memory(second, x)


def test_parameters_that_change_between_steps_are_seen_and_checked(world: cd.Simulation, x: np.ndarray) -> None:
    gravity = np.array([0.0, 0.0, -9.0])
    for value in (-9.0, -9.0, 2.0, 2.0):
        gravity[2] = value  # the same array, other numbers
        given = {"gravity": gravity, "rod_2.mass": 1.0}
        assert world.step(x, U, parameters=given).tobytes() == world.step(x[None], U, parameters=given)[0].tobytes()
    for _ in range(2):
        with pytest.raises(SimulationError, match=r"rod_2\.mass"):
            world.step(x, U, parameters={"gravity": gravity, "rod_2.mass": -1.0})
        with pytest.raises(SimulationError, match="gravity"):
            world.step(x, U, parameters={"gravity": gravity[:2], "rod_2.mass": 1.0})
    gravity[2] = np.nan
    with pytest.raises(SimulationError, match="gravity"):
        world.step(x, U, parameters={"gravity": gravity, "rod_2.mass": 1.0})


def test_what_the_fast_step_does_not_take_goes_the_general_way(world: cd.Simulation, x: np.ndarray) -> None:
    expected = world.step(x, U)
    assert world.step(list(x), list(U)).tobytes() == expected.tobytes()
    assert world.step(np.repeat(x, 2)[::2], np.repeat(U, 2)[::2]).tobytes() == expected.tobytes()
    assert world.step(x, U.astype(np.float32).astype(float)[None]).shape == (1, 4)
    assert world.step(x.astype(np.float32), U.astype(np.float32)).dtype == np.float32
    bad = x.copy()
    bad[2] = np.nan
    with pytest.raises(SimulationError, match=r"entry \[2\] of the state is nan"):
        world.step(bad, U)
    assert np.array_equal(world.step(bad, U, freeze=True), bad, equal_nan=True)
    assert world.status is not None and not world.status.ok
    with pytest.raises(SimulationError, match="u must have 2 entries"):
        world.step(x, U[:1])


def test_out_of_one_state_is_written_and_checked() -> None:
    robot = cd.load("double_pendulum")
    q, v, tau = np.array([0.1, 0.2]), np.array([0.3, 0.4]), np.array([0.5, 0.6])
    expected, out = robot.forward_dynamics(q, v, tau), np.empty(2)
    for _ in range(2):
        assert robot.forward_dynamics(q, v, tau, out=out) is out and out.tobytes() == expected.tobytes()
        out[:] = 0.0
    for wrong in (np.empty(3), np.empty(2, np.float32), np.empty(4)[::2], v):
        with pytest.raises(cd.ShapeError):
            robot.forward_dynamics(q, v, tau, out=wrong)


# ---- robots with limbs


ROBOTS: dict[str, tuple[str, float]] = {"fourlimb": ("foot_*", 0.2), "pidog": ("*_foot", 0.05)}


@pytest.mark.slow
@pytest.mark.parametrize("precision", [np.float64, np.float32])
@pytest.mark.parametrize("name", ROBOTS)
def test_limbs_side_by_side_have_the_bits_of_a_batch(name: str, precision: type) -> None:
    """One robot takes another kernel than a batch if its limbs are alike; robots fall, touch the ground, and hit joint limits."""
    feet, drop = ROBOTS[name]
    robot = cd.load(name, "free")
    world = cd.Simulation(robot, 0.004, cd.Plane(friction=0.8), feet)
    rng = np.random.default_rng(3)
    count, steps = 9, 12
    q = np.tile(robot.neutral(), (count, 1))
    lowest = min(robot.frame_pose(q[0], point)[1][2] for point in world.contact_names)
    q[:, 2] += np.linspace(-lowest, drop - lowest, count)
    q[:, 7:] += 0.3 * rng.normal(size=(count, q.shape[1] - 7))
    x = world.state(q, 0.3 * rng.normal(size=(count, robot.nv))).astype(precision)
    us = (0.01 * rng.normal(size=(count, steps, world.nu))).astype(precision)
    together = world.rollout(x, us)
    assert np.isfinite(together).all()
    for k in range(count):
        assert world.rollout(x[k], us[k]).tobytes() == together[k].tobytes()
    state = x[0]
    for k in range(steps):
        state = world.step(state, us[0, k])
        assert state.tobytes() == together[0, k + 1].tobytes()
