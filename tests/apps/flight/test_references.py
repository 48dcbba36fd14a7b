"""Allocation, and trajectories with their derivatives."""

import numpy as np
import pytest

import condyle as cd
from condyle.apps.flight.allocation import Allocation
from condyle.apps.flight.quaternions import quaternion_of_angles
from condyle.apps.flight.references import Jet, state_references, with_preview
from condyle.apps.flight.single_body import single_body


@pytest.fixture(scope="module")
def allocation() -> Allocation:
    return Allocation(single_body(cd.flight.airframe("birotor"), gravity=9.798))


def test_wrench_is_linear_in_the_components(allocation: Allocation) -> None:
    body, rng = allocation.body, np.random.default_rng(0)
    f, a = rng.uniform(1.0, 18.0, 2), rng.uniform(-1.0, 1.0, 2)
    components = np.stack([f * np.sin(a), f * np.cos(a)], axis=-1).ravel()
    wrench = np.concatenate(body.wrench(f, a))
    assert np.abs(allocation.matrix @ components - wrench).max() < 1e-13
    assert allocation.matrix.shape == (6, 4) and allocation.rank == 4
    thrusts, angles = allocation.thrusts_and_angles(wrench)
    assert np.abs(thrusts - f).max() < 1e-10 and np.abs(angles - a).max() < 1e-11  # the inverse is rounded to 1e-12
    s_c = allocation.components_of_lift(wrench[2], wrench[3:])
    assert np.abs(np.ravel(s_c) - components).max() < 1e-10


def test_hovering(allocation: Allocation) -> None:
    level, tilted = quaternion_of_angles(0, 0, 0.7), quaternion_of_angles(0.5, 0.2, 0.7)
    thrusts, angles = allocation.hover(level)
    assert np.abs(thrusts - 7.0762).max() < 1e-4 and np.abs(angles).max() < 1e-12
    assert allocation.hover_error(level) < 1e-12 and allocation.hover_error(tilted) > 0.3


def test_jets_are_derivatives() -> None:
    t = np.linspace(0.1, 0.6, 5)
    s, c = (Jet.time(t) * 2.0).sin_cos()
    for k, d in enumerate(s.derivatives()):
        assert np.abs(d - 2.0**k * np.sin(2.0 * t + k * np.pi / 2.0)).max() < 1e-13
    one = s * s + c * c
    assert all(np.abs(d - (1.0 if k == 0 else 0.0)).max() < 1e-13 for k, d in enumerate(one.derivatives()))
    back = (s / c) * c - s + (c * c).sqrt() * 0.0
    assert all(np.abs(d).max() < 1e-12 for d in back.derivatives())


PATHS = {
    "circle": cd.flight.Circle(radius=0.8, period=3.0, turns=1.0, ramp=1.0, heading=None),
    "eight": cd.flight.FigureEight(radius=0.8, period=3.0, turns=1.0, ramp=1.0),
    "snap": cd.flight.MinimumSnap([[0, 0, 0], [1, 0, 1], [1, 1, 1], [0, 1, 2]], [0.0, 1.0, 2.5, 4.0], [0.0, 0.5, 1.0, 0.0]),
}


@pytest.mark.parametrize("name", PATHS)
def test_derivatives_of_trajectories(name: str) -> None:
    path, h = PATHS[name], 1e-4
    t = np.linspace(-0.2, 4.4, 47) + 0.0123
    at, before, after = (path.sample(times) for times in (t, t - h, t + h))
    for k in range(4):
        difference = (after.position[:, k] - before.position[:, k]) / (2.0 * h)
        scale = 1.0 + np.abs(at.position[:, k + 1]).max()
        smooth = np.abs(difference - at.position[:, k + 1]).max(axis=-1) < 1e-4 * scale
        assert smooth.mean() > (0.9 if k == 3 else 1.0) - 1e-9  # snap may jump where a ramp ends
    assert np.abs((after.heading[:, 0] - before.heading[:, 0]) / (2.0 * h) - at.heading[:, 1]).max() < 1e-5


def test_minimum_snap() -> None:
    path = PATHS["snap"]
    assert isinstance(path, cd.flight.MinimumSnap)
    found = path.sample(path.times)
    assert np.abs(found.position[:, 0] - [[0, 0, 0], [1, 0, 1], [1, 1, 1], [0, 1, 2]]).max() < 1e-12
    assert np.abs(found.position[[0, -1], 1:4]).max() < 1e-9 and np.abs(found.heading[:, 0] - [0, 0.5, 1, 0]).max() < 1e-12
    # any other path through the waypoints has more snap: change it by a bump that vanishes there with three derivatives
    t = np.linspace(0.0, 4.0, 4001)
    snap = path.sample(t).position[:, 4, 0]
    bump = ((t * (t - 1.0) * (t - 2.5) * (t - 4.0)) / 4.0) ** 4
    fourth = np.gradient(np.gradient(np.gradient(np.gradient(bump, t), t), t), t)
    assert abs(np.trapezoid(snap * fourth, t)) < 2e-3 * np.sqrt(np.trapezoid(snap**2, t) * np.trapezoid(fourth**2, t))
    with pytest.raises(cd.ControlError, match="times in seconds that increase"):
        cd.flight.MinimumSnap([[0, 0, 0], [1, 1, 1]], [1.0, 1.0])
    with pytest.raises(cd.ControlError, match="one finite heading"):
        cd.flight.MinimumSnap([[0, 0, 0], [1, 1, 1]], [0.0, 1.0], [np.nan, 0.0])


def test_state_references_follow_the_motion(allocation: Allocation) -> None:
    body = allocation.body
    t = 1.5 + 1e-4 * np.arange(3)
    rows = state_references(allocation, PATHS["circle"].sample(t))
    assert rows.shape == (3, 17)
    # a body that moves like the reference needs these thrusts and angles; two rotors cannot give the small forward force
    x = np.concatenate([rows[1, :13], rows[1, 15:17]])
    found = np.asarray(body.derivative(x, np.concatenate([rows[1, 13:15], rows[1, 15:17]])), dtype=float)
    assert np.abs(found[3:6] - (rows[2, 3:6] - rows[0, 3:6]) / 2e-4).max() < 0.6
    assert np.abs(found[6:10] - (rows[2, 6:10] - rows[0, 6:10]) / 2e-4).max() < 1e-6
    z = np.array([2 * (x[7] * x[9] + x[6] * x[8]), 2 * (x[8] * x[9] - x[6] * x[7]), 1 - 2 * (x[7] ** 2 + x[8] ** 2)])
    force = PATHS["circle"].sample(t).position[1, 2] + [0.0, 0.0, 9.798]
    assert np.abs(z - force / np.linalg.norm(force)).max() < 1e-12


def test_standard_scenario(allocation: Allocation) -> None:
    rows = state_references(allocation, cd.flight.standard_scenario().sample([0.0, 1.99, 2.0, 5.99, 6.0]))
    assert np.array_equal(rows[0], rows[1]) and np.array_equal(rows[2], rows[3])
    assert np.allclose(rows[4, :3], 1.0) and np.allclose(rows[0, :3], [0.3, 0.6, 1.0])
    assert np.allclose(rows[2, 6:10], quaternion_of_angles(*np.radians([30, 60, 90])))
    ahead = with_preview(rows, 3, 2)
    assert np.array_equal(ahead[1], rows[[1, 3, 4]])
