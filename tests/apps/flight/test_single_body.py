"""The controller's model against formulas by hand, and its states against those of the multibody."""

from dataclasses import replace

import numpy as np
import pytest
from apps.demos import birotor_rigid_body as by_hand
from apps.demos.facts import Birotor as F

import condyle as cd
from condyle.apps.flight.quaternions import conjugate, quaternion_of_angles, quaternion_product, rotated
from condyle.apps.flight.single_body import SingleBody

ROUNDING = 1e-13  # relative, of sums in another order


@pytest.fixture(scope="module")
def body() -> SingleBody:
    return cd.flight.single_body(cd.flight.airframe("birotor"), gravity=9.798)


def random_states(body: SingleBody, count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, body.nx))
    x[:, 6:10] /= np.linalg.norm(x[:, 6:10], axis=-1, keepdims=True)
    x[:, 13:15] = rng.uniform(-1.0, 1.0, (count, 2))
    return x, np.concatenate([rng.uniform(1.0, 18.0, (count, 2)), rng.uniform(-1.0, 1.0, (count, 2))], axis=-1)


def test_numbers_are_the_published_ones(body: SingleBody) -> None:
    assert (body.nx, body.nu) == (15, 4)
    assert abs(body.mass - F.MASS) < 5e-7 and np.abs(np.diag(body.inertia) - F.MOMENTS).max() < 1e-6
    assert np.abs(body.positions - F.ROTORS).max() < 1e-6
    assert abs(body.hover_thrust - 7.0762) < 1e-4
    assert abs(cd.flight.single_body(cd.flight.airframe("birotor")).hover_thrust - 7.0848) < 1e-4


def test_derivative_is_that_of_formulas_by_hand(body: SingleBody) -> None:
    x, u = random_states(body, 20)
    I = np.broadcast_to(body.inertia, (20, 3, 3))
    linear, angular = by_hand.acceleration(x, u[:, :2], body.positions, body.mass, I, np.array([0.0, 0.0, -9.798]))
    for k in range(20):
        found = np.asarray(body.derivative(x[k], u[k]), dtype=float)
        assert np.array_equal(found[:3], x[k, 3:6])
        assert np.abs(found[3:6] - linear[k]).max() < ROUNDING * 100
        assert np.abs(found[10:13] - angular[k]).max() < ROUNDING * 1000
        assert np.allclose(found[13:], (u[k, 2:] - x[k, 13:]) / F.SERVO_LAG, rtol=1e-15)
        w = quaternion_product(conjugate(x[k, 6:10]), found[6:10])
        assert np.abs(w[1:] - 0.5 * x[k, 10:13]).max() < ROUNDING


def test_parameters_change_what_they_name(body: SingleBody) -> None:
    x, u = (a[0] for a in random_states(body, 1))
    known = np.asarray(body.derivative(x, u), dtype=float)
    found = np.asarray(body.derivative(x, u, {**body.defaults(), "force": np.array([1.0, 2.0, 3.0])}), dtype=float)
    assert np.abs(found[3:6] - known[3:6] - np.array([1.0, 2.0, 3.0]) / body.mass).max() < ROUNDING * 100
    found = np.asarray(body.derivative(x, u, {**body.defaults(), "torque": np.array([0.1, 0.2, 0.3])}), dtype=float)
    assert np.abs(body.inertia @ (found[10:13] - known[10:13]) - [0.1, 0.2, 0.3]).max() < ROUNDING * 100
    heavy = np.asarray(body.derivative(x, u, {"mass": 2.0 * body.mass, "gravity": 0.0}), dtype=float)
    assert np.abs(2.0 * heavy[3:6] - known[3:6] - [0.0, 0.0, 9.798]).max() < ROUNDING * 100


def test_a_step_is_the_classical_method_and_a_lag_a_lag(body: SingleBody) -> None:
    x, u = body.state(), body.trim()
    u[2:] = 0.3
    end = x
    for _ in range(20):
        end = body.simulate(end, u)
    lag = 0.3 * (1.0 - np.exp(-0.1 / F.SERVO_LAG))
    assert np.abs(end[13:] - lag).max() < 1e-9  # h^4 of the method
    assert abs(np.linalg.norm(end[6:10]) - 1.0) < 1e-9
    unit = replace(body, unit_quaternion=True).simulate(end, u)
    assert abs(np.linalg.norm(unit[6:10]) - 1.0) < 1e-15
    # each gimbal about its own arm: opposite forces along x, which turn it about z
    assert abs(end[3]) < 1e-5 and end[12] < -0.01
    batch = body.simulate(np.stack([x, end]), u)
    assert np.array_equal(batch[0], body.simulate(x, u)) and np.array_equal(batch[1], body.simulate(end, u))


def test_states_of_the_multibody_and_back(body: SingleBody) -> None:
    robot, rng = cd.flight.airframe("birotor").robot, np.random.default_rng(1)
    q = robot.integrate(np.tile(robot.neutral(), (10, 1)), rng.uniform(-1.0, 1.0, (10, robot.nv)))
    v = rng.normal(size=(10, robot.nv))
    x = body.compiled_from_multibody(q, v)
    assert np.abs(x[:, :3] - robot.center_of_mass(q)).max() < 1e-14
    assert np.abs(body.mass * x[:, 3:6] - robot.momentum(q, v)[:, :3]).max() < 1e-14
    back = body.compiled_to_multibody(x, v)
    assert np.abs(back.q - q).max() < 1e-14 and np.abs(back.v - v).max() < 1e-13
    # another state: rates of the gimbals are kept, and momentum is that of the state
    other = x + 0.0
    other[:, 3:6], other[:, 10:13], other[:, 13:] = 0.5, -0.2, 0.1
    moved = body.compiled_to_multibody(other, v)
    assert np.array_equal(moved.v[:, 6:], v[:, 6:])
    assert np.abs(robot.momentum(moved.q, moved.v)[:, :3] - 0.5 * body.mass).max() < 1e-14
    assert np.abs(body.compiled_from_multibody(moved.q, moved.v) - other).max() < 1e-14
    # of a resting vehicle, too, the centre of mass is not the root
    assert abs(float(body.compiled_from_multibody(robot.neutral(), np.zeros(robot.nv))[2]) + 0.069980) < 1e-6


def test_quaternions() -> None:
    q = quaternion_of_angles(*np.radians([30.0, 60.0, 90.0]))
    R = by_hand.rotation(q)
    assert np.abs(rotated(q, np.array([1.0, 2.0, 3.0])) - R @ [1.0, 2.0, 3.0]).max() < 1e-15
    # about x, then y, then z of the world: x goes to the horizon, to -z, and stays there
    assert np.abs(R[:, 0] - [0.0, 0.5, -np.sqrt(0.75)]).max() < 1e-15


def test_bad_numbers() -> None:
    frame = cd.flight.airframe("birotor")
    with pytest.raises(cd.ControlError, match="gravity must be finite"):
        cd.flight.single_body(frame, gravity=float("nan"))
    alone = replace(cd.flight.single_body(frame), model=None)
    with pytest.raises(cd.ControlError, match="made of numbers alone"):
        alone.from_multibody(np.zeros(9), np.zeros(8))
