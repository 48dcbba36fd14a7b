"""Passive forces of joints: their law, forward as the inverse of inverse dynamics, derivatives, and following a motion."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.dynamics.passive import FRICTION_SPEED
from condyle.robot.description import Description
from condyle.robot.library.chains import double_pendulum

EXACT = 1e-12  # relative, of one algorithm in float64
STEP, DIFFERENCES = 1e-6, 2e-8  # central differences, and their error relative to the largest entry
B, F, K, REST = (0.4, 0.2), (0.8, 0.3), (2.0, 0.0), (0.3, 0.0)


def with_joint_forces() -> cd.Robot:
    """A double pendulum whose joints have damping and dry friction, and the first one a spring."""
    plain: Description = double_pendulum()
    numbers = zip(plain.joints, B, F, K, REST, strict=True)
    joints = tuple(replace(j, damping=b, friction=f, stiffness=k, rest=r) for j, b, f, k, r in numbers)
    return cd.load(replace(plain, joints=joints))


@pytest.fixture(scope="module")
def robot() -> cd.Robot:
    return with_joint_forces()


@pytest.fixture(scope="module", params=["free", "coupled"])
def either(request: Any, robot: cd.Robot) -> cd.Robot:
    return robot if request.param == "free" else robot.couple("elbow", "shoulder", -0.7, 0.2)


def state(robot: cd.Robot) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(3)
    q, v, a = rng.normal(size=(3, 5, robot.nv))
    v[0] *= 1e-3  # where dry friction is smooth
    return q, v, a


def test_the_law(robot: cd.Robot) -> None:
    q, v, _ = state(robot)
    for speed in (FRICTION_SPEED, 0.05):
        friction = np.array(F) * v / np.sqrt(v * v + speed * speed)
        expected = -np.array(B) * v - friction - np.array(K) * (q - np.array(REST))
        np.testing.assert_allclose(robot.passive_forces(q, v, speed), expected, rtol=EXACT)


def test_forward_dynamics_inverts_inverse_dynamics(either: cd.Robot) -> None:
    q, v, a = (x[1:] for x in state(either))
    v = v + np.sign(v)  # in motion: both have the same dry friction, to a part in 1e8
    tau = either.inverse_dynamics(q, v, a, passive=True)
    np.testing.assert_allclose(tau, either.inverse_dynamics(q, v, a) - either.passive_forces(q, v), rtol=1e-7)
    np.testing.assert_allclose(either.forward_dynamics(q, v, tau, passive=True), a, rtol=1e-6)
    # with a wrench, and with another speed
    pull = {"tip": np.array([1.0, 0.0, 2.0, 0.0, 0.1, 0.0])}
    tau = either.inverse_dynamics(q, v, a, pull, passive=1e-6)
    np.testing.assert_allclose(either.forward_dynamics(q, v, tau, pull, passive=1e-6), a, rtol=1e-9, atol=1e-9)
    # one state, the second time by the fast call
    for _ in range(2):
        one = either.inverse_dynamics(q[1], v[1], a[1], passive=1e-6)
        np.testing.assert_array_equal(one, either.inverse_dynamics(q, v, a, passive=1e-6)[1])


def test_at_rest_inverse_dynamics_has_the_friction_of_the_motion_that_begins(robot: cd.Robot) -> None:
    q, rest, a = np.array([0.1, 0.2]), np.zeros(2), np.array([2.0, -3.0])
    needed = robot.inverse_dynamics(q, rest, a, passive=1e-6) - robot.inverse_dynamics(q, rest, a)
    spring = np.array(K) * (q - np.array(REST))
    np.testing.assert_allclose(needed - spring, np.array(F) * np.sign(a), rtol=1e-6)
    np.testing.assert_allclose(robot.passive_forces(q, rest), -spring, rtol=EXACT)


@pytest.mark.parametrize("name", ["forward_dynamics", "inverse_dynamics"])
def test_derivatives_are_those_of_differences(either: cd.Robot, name: str) -> None:
    function, derivatives = getattr(either, name), getattr(either, f"{name}_derivatives")
    speed = 0.05
    given = [x[1:] for x in state(either)]
    found = derivatives(*given, passive=speed)
    for k, J in enumerate(found):
        columns = []
        for direction in STEP * np.eye(either.nv):
            sides = [function(*[x + s * direction if i == k else x for i, x in enumerate(given)], passive=speed) for s in (1, -1)]
            columns.append((sides[0] - sides[1]) / (2.0 * STEP))
        D = np.stack(columns, axis=-1)
        assert np.abs(J - D).max() < DIFFERENCES * max(np.abs(D).max(), 1.0)


def test_passive_is_checked(robot: cd.Robot) -> None:
    q, v, a = state(robot)
    for wrong in (0.0, -1.0, np.nan, "yes", None, [1.0]):
        with pytest.raises(cd.RobotError, match="passive is True, False, or a speed above zero"):
            robot.inverse_dynamics(q, v, a, passive=wrong)  # type: ignore[arg-type]
    with pytest.raises(cd.CondyleError, match="no option 'passive'"):
        robot.mass_matrix(q, passive=True)  # type: ignore[call-arg]


def test_parameters_of_passive_forces_are_inputs(robot: cd.Robot) -> None:
    function = robot.function("passive_forces", parameters=["elbow.damping", "elbow.friction"])
    q, v, _ = state(robot)
    np.testing.assert_array_equal(function(q, v, 0.2, 0.3), robot.passive_forces(q, v))
    assert np.all(function(q, v, 0.0, 0.0)[:, 1] == 0.0)


def test_computed_torque_follows_in_the_simulation(robot: cd.Robot) -> None:
    """A slow sine with reversals: within 1e-4 rad with the passive forces, not without."""
    world, kp, kd = cd.Simulation(robot, 0.001, springs={"shoulder": (K[0], REST[0])}), 2500.0, 100.0
    size, rate = np.array([0.5, 0.8]), np.array([2.0, 1.5])

    def follow(passive: bool) -> Any:
        def law(x: Any) -> Any:
            phase = rate * x.t
            q, v, a = size * np.sin(phase), size * rate * np.cos(phase), -size * rate * rate * np.sin(phase)
            return robot.inverse_dynamics(x.q, x.v, a + kp * (q - x.q) + kd * (v - x.v), passive=passive)

        loop = cd.Loop(world, law)
        t = world.dt * np.arange(1, 5001)[:, None]
        out = loop.rollout(loop.state(np.zeros(2), size * rate), steps=5000, record=["q"])["q"]
        return np.abs(out - size * np.sin(rate * t)).max()

    assert follow(True) < 1e-4
    assert follow(False) > 1e-3
