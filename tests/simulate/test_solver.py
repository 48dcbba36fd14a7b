"""The solver converges: thousands of hard problems in batches, and the optimum against another method in high precision."""

from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markers import slow_except
from simulate.bodies import (
    BOX,
    HALF,
    REST,
    G,
    a_box,
    a_pendulum,
    a_sphere,
    light_feet,
    lower_corners,
    own_numbers,
    random_drops,
    simulation,
    upright,
)

import condyle as cd
from condyle.robot.joints import rotation_of
from condyle.simulate.contacts import LawNumbers, holding_speed, recovery_speed
from condyle.simulate.integrate import integrate_step
from condyle.simulate.points import point_on
from condyle.simulate.step import Inputs
from condyle.tape.function import Function
from condyle.tape.trace import trace

CONVERGED = 1e-10  # the residual that a step must have
COUNT = 2000
BUMPS = cd.HeightField(np.random.default_rng(1).normal(scale=0.03, size=(12, 12)), (0.2, 0.2), (-1.1, -1.1), friction=0.7)


def residuals(s: cd.Simulation, x: np.ndarray, u: Any = None, **numbers: Any) -> np.ndarray:
    """The residuals of a step; numbers of the world, its own or others as `ground_friction=0.5`, do not compile it again."""
    s.step(x, u, freeze=True, parameters=own_numbers(s) | {name.replace("_", "."): value for name, value in numbers.items()})
    assert s.status is not None
    out: np.ndarray = s.status.residual
    return out


def in_the_ground(seed: int, count: int = COUNT, speed: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """(q, v) of free bodies of 0.1 m about the ground, turned any way."""
    rng = np.random.default_rng(seed)
    q, v = random_drops(rng, count)
    q[:, :3] = rng.uniform(-0.1, 0.1, (count, 3))
    return q, v * (speed * 10.0 ** rng.uniform(-4.0, 0.0, (count, 1)))


# -- free bodies


@pytest.mark.parametrize("cone", slow_except(["round", 4], ("round", 4, 8)))
def test_boxes_of_eight_corners(cone: str | int) -> None:
    s = simulation(a_box((0.2, 0.12, 0.06)), 1e-3, cd.Plane(0.8), cone=cone)
    for dt in (1e-4, 1e-3, 5e-3, 2e-2):
        assert np.max(residuals(s, s.state(*in_the_ground(1)), dt=dt)) <= CONVERGED, dt


@pytest.mark.parametrize("friction", (0.0, 0.5))
def test_any_friction_and_smoothing(friction: float) -> None:
    # without friction the ground is built so: nothing of it is left in the code
    s = simulation(a_box(), 1e-3, cd.Plane(friction))
    x = s.state(*in_the_ground(2))
    for smoothing in (1e-6, 1e-3, 1e-1):
        for mu in (1e-3, 0.5, 2.0) if friction else (0.0,):
            numbers = {"contact_smoothing": smoothing} | ({"ground_friction": mu} if friction else {})
            assert np.max(residuals(s, x, **numbers)) <= CONVERGED, numbers


@pytest.mark.parametrize("dt", (1e-3, 2e-2))
def test_boxes_thrown_on_a_ground_with_friction_100_stay_on_it(dt: float) -> None:
    s = simulation(a_box(), dt, cd.Plane(100.0))
    us = np.zeros((round(max(1.0, 150.0 * dt) / dt), s.nu))
    x = s.rollout(s.state(*random_drops(np.random.default_rng(11), 200)), us, parameters=own_numbers(s))[:, -1]
    assert s.status is not None and np.max(s.status.residual) <= CONVERGED
    R, p = s.robot.frame_pose(x[:, :7], "box")
    lowest = np.min([R[:, 2, :] @ np.array(c.position) + p[:, 2] for c in s.contact_points], axis=0)
    assert np.min(lowest) > -0.01


@pytest.mark.parametrize("cone", slow_except([4], (4, 8)))
def test_a_pyramid_without_friction(cone: int) -> None:
    s = simulation(a_box(), 1e-3, cd.Plane(0.0), lower_corners(), cone=cone)
    assert np.max(residuals(s, s.state(*in_the_ground(3, 500)))) <= CONVERGED


def test_more_points_than_freedoms() -> None:
    # a grid of 25 points under a box, which has six coordinates
    places = [(x, y, -0.05) for x in np.linspace(-0.1, 0.1, 5) for y in np.linspace(-0.1, 0.1, 5)]
    points = tuple(point_on(a_box().model, "box", p, name=f"p{k}") for k, p in enumerate(places))
    s = simulation(a_box(), 1e-3, cd.Plane(0.6), points)
    assert np.max(residuals(s, s.state(*in_the_ground(4)))) <= CONVERGED
    flat = s.state(upright(0.05 - np.geomspace(1e-9, 1e-2, 200)))
    assert np.max(residuals(s, flat)) <= CONVERGED


def test_any_depth_and_speed() -> None:
    rng = np.random.default_rng(5)
    for robot in (a_box(), a_sphere()):
        s = simulation(robot, 1e-3, cd.Plane(0.8))
        q, v = random_drops(rng, COUNT)
        # corners from 0.1 mm to 0.5 m deep, speeds from 1 mm/s to 100 m/s
        q[:, 2] = 0.1 - 10.0 ** rng.uniform(-4.0, np.log10(0.5), COUNT)
        v *= 10.0 ** rng.uniform(-3.0, 1.7, (COUNT, 1))
        for dt in (1e-4, 2e-3, 2e-2):
            assert np.max(residuals(s, s.state(q, v), dt=dt)) <= CONVERGED, dt


def test_depths_from_nothing() -> None:
    # the strength goes with the cube of the depth: from 1e-40 N s up
    s = simulation(a_box(), 1e-3, cd.Plane(0.8))
    q = upright(0.05 - np.concatenate([[0.0], np.geomspace(1e-15, 1e-1, 300)]))
    x = s.state(q, np.tile((0.3, 0.1, -0.2, 0.0, 0.0, 0.0), (len(q), 1)))
    assert np.max(residuals(s, x)) <= CONVERGED


def test_a_height_field() -> None:
    s = simulation(a_box(), 2e-3, BUMPS)
    assert np.max(residuals(s, s.state(*in_the_ground(6)))) <= CONVERGED


def test_whole_trajectories_of_random_drops() -> None:
    for size in ((0.12, 0.12, 0.12), (0.2, 0.12, 0.06)):
        for dt, count in ((1e-3, 128), (1e-4, 16)):
            s = simulation(a_box(size), dt, cd.Plane(0.6))
            q, v = random_drops(np.random.default_rng(1), count)
            us = np.zeros((64 * round(1.0 / dt / 64), s.nu))
            s.rollout(s.state(q, v), us, freeze=True, parameters=own_numbers(s))
            assert s.status is not None
            assert np.max(s.status.residual) <= CONVERGED


# where an earlier solver jammed on the boundary of a cone: a cube that pivots, a brick that lands on an edge
JAMMED = (
    [-0.0151016656, 0.307152910, 0.0584828040, -0.703583948744, 0.06706888822, 0.70390140735, 0.070669654186, 0.0731662266,
     -0.0728812002, -7.4446542e-06, 0.000742864425, 0.000542608659, 1.22740428],
    [-0.1941485130, -0.649477959, 0.0589824392, -0.994208728058, 0.10746276437, -0.00085796814, -0.000152371414, 0.0023385011,
     -0.2992694442, 0.301613422, -5.08637881722, 0.058970272994, 0.09786047543],
)  # fmt: skip


def test_around_states_that_were_hard() -> None:
    s = simulation(a_box((0.12, 0.12, 0.12)), 1e-3, cd.Plane(0.6))
    rng = np.random.default_rng(8)
    x = np.repeat(np.array(JAMMED), COUNT // 2, axis=0)
    x *= 1.0 + 1e-2 * rng.standard_normal(x.shape) * 10.0 ** rng.uniform(-6.0, 0.0, (len(x), 1))
    x[:, 3:7] /= np.linalg.norm(x[:, 3:7], axis=1, keepdims=True)
    assert np.max(residuals(s, x)) <= CONVERGED


@settings(max_examples=60)
@given(
    height=st.floats(-0.1, 0.2),
    turn=st.tuples(*[st.floats(-1.0, 1.0)] * 4).filter(lambda t: np.linalg.norm(t) > 0.1),
    v=st.tuples(*[st.floats(-100.0, 100.0)] * 6),
)
def test_states_that_hypothesis_draws(height: float, turn: tuple[float, ...], v: tuple[float, ...]) -> None:
    s = simulation(a_box((0.2, 0.12, 0.06)), 1e-3, cd.Plane(0.8))
    q = np.array([0.0, 0.0, height, *(np.array(turn) / np.linalg.norm(turn))])
    assert residuals(s, s.state(q, v)) <= CONVERGED


# -- robots


@pytest.mark.parametrize("grams", slow_except([1.0], (1.0, 1000.0)))
def test_mass_ratios_limits_friction_and_contact_at_once(grams: float) -> None:
    robot = light_feet(grams, friction=0.5)
    s = simulation(robot, 1e-3, cd.Plane(0.8), ("foot0", "foot1", "foot2", "foot3"))
    rng = np.random.default_rng(9)
    q = np.tile(robot.neutral(), (COUNT, 1))
    q[:, 2] = rng.uniform(0.15, 0.24, COUNT)
    turn = np.hstack([rng.normal(scale=0.1, size=(COUNT, 3)), np.ones((COUNT, 1))])
    q[:, 3:7] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    # some beyond their limits of 20 mm
    q[:, 7:] = rng.uniform(-0.03, 0.03, (COUNT, 4))
    v = rng.standard_normal((COUNT, robot.nv)) * 10.0 ** rng.uniform(-4.0, 1.0, (COUNT, 1))
    u = rng.uniform(-100.0, 100.0, (COUNT, s.nu))
    for dt in (1e-4, 1e-3, 1e-2):
        assert np.max(residuals(s, s.state(q, v), u, dt=dt)) <= CONVERGED, dt


@pytest.mark.slow
def test_a_walker_in_any_state() -> None:
    robot = cd.load("pidog")
    s = simulation(robot, 1e-3, cd.Plane(0.8), "*_foot")
    rng = np.random.default_rng(10)
    q = robot.random_configuration(rng, COUNT)
    q[:, :3] = rng.uniform(-0.1, 0.1, (COUNT, 3))
    v = rng.standard_normal((COUNT, robot.nv)) * 10.0 ** rng.uniform(-3.0, 1.0, (COUNT, 1))
    assert np.max(residuals(s, s.state(q, v), rng.uniform(-0.2, 0.2, (COUNT, s.nu)))) <= CONVERGED


# -- the optimum, found in another way


def by_hand(s: cd.Simulation, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """The velocity after a step in the axes of q: damped Newton on the barrier's objective over y, with 30 digits.

    The robot is a free body with points for contacts on the plane z = 0; its mass matrix and bias are the robot's own.
    """
    robot, world, h = s.robot, s._world, s.dt
    M, bias = robot.mass_matrix(q), robot.bias_forces(q, v)
    # in an inertial frame: no w x v
    standing = np.concatenate([np.cross(v[3:], v[:3]), np.zeros(3)])
    v_free = v + standing * h - h * np.linalg.solve(M, bias)
    R = np.array(robot.frame_pose(q, robot.frame_names[0])[0])
    mu, n = world.ground.friction, len(world.points)
    rows, S, kappa, slip = [], np.zeros(n), np.zeros(n), np.zeros(3 * n)
    for i, point in enumerate(world.points):
        r = R @ point.position
        skew = np.array([[0.0, -r[2], r[1]], [r[2], 0.0, -r[0]], [-r[1], r[0], 0.0]])
        J = np.hstack([R, -skew @ R])[[2, 0, 1]]
        d, numbers = world.margin - (q[2] + r[2]), LawNumbers.of(world)
        S[i] = h * world.stiffness * max(d, 0.0) ** 3
        u = J @ v
        lift = recovery_speed(world, numbers, d)
        change = u @ u + lift**2
        speed = np.sqrt(change + (9.81 * h) ** 2)
        mass = np.sqrt(world.effective_masses[i] * world.nominal_load)
        kappa[i] = world.contact_smoothing + 1e-5 * mass * change * S[i] / (S[i] + mass * speed)
        sliding = u[1:] @ u[1:]
        offset = holding_speed(world, numbers, S[i], 2, change) - lift
        slip[3 * i] = S[i] * (mu * sliding / np.sqrt(sliding + (9.81 * h) ** 2) + offset)
        rows.append(np.diag([S[i], mu * S[i], mu * S[i]]) @ J)
    DJ = np.vstack(rows)
    A, b = DJ @ np.linalg.solve(M, DJ.T), DJ @ v_free + slip
    with mpmath.workdps(30):
        y = minimised(mpmath.matrix(A.tolist()), mpmath.matrix(b.tolist()), [mpmath.mpf(k) for k in kappa])
        impulse = DJ.T @ np.array([float(a) for a in y])
    return v_free + np.linalg.solve(M, impulse)


def minimised(A: Any, b: Any, kappa: list[Any]) -> Any:
    """argmin 1/2 y.Ay + b.y - sum kappa (log(y0^2 - y1^2 - y2^2) + log(1 - y0)), from the middle of every cone."""
    n = len(kappa)
    y = mpmath.matrix([0.5, 0.0, 0.0] * n)

    def inside(y: Any) -> bool:
        return all(0 < y[3 * i] < 1 and y[3 * i] ** 2 > y[3 * i + 1] ** 2 + y[3 * i + 2] ** 2 for i in range(n))

    def gradient(y: Any, t: Any) -> Any:
        g = A * y + b
        for i in range(n):
            a, c, e = y[3 * i], y[3 * i + 1], y[3 * i + 2]
            det = a * a - c * c - e * e
            g[3 * i] += t * kappa[i] * (1 / (1 - a) - 2 * a / det)
            g[3 * i + 1] += t * kappa[i] * 2 * c / det
            g[3 * i + 2] += t * kappa[i] * 2 * e / det
        return g

    def hessian(y: Any, t: Any) -> Any:
        H = A.copy()
        for i in range(n):
            a, c, e = y[3 * i], y[3 * i + 1], y[3 * i + 2]
            det = a * a - c * c - e * e
            d = (a, -c, -e)
            for j in range(3):
                for k in range(3):
                    flip = (0, 1, -1)[(j == k) * (1 if j == 0 else 2)]
                    H[3 * i + j, 3 * i + k] += t * kappa[i] * (4 * d[j] * d[k] / det**2 - 2 * flip / det)
            H[3 * i, 3 * i] += t * kappa[i] / (1 - a) ** 2
        return H

    # down the central path, then Newton to the end; a step is as long as the barrier's own metric allows
    for t in [mpmath.mpf(10) ** k for k in range(8, -1, -1)]:
        for _ in range(200):
            g = gradient(y, t)
            step = mpmath.lu_solve(hessian(y, t), -g)
            decrement = mpmath.sqrt(abs((g.T * step)[0]) / (t * min(kappa)))
            scale = 1 if decrement < 0.25 else 1 / (1 + decrement)
            while not inside(y + scale * step):
                scale /= 2
            y = y + scale * step
            if decrement < (mpmath.mpf("1e-2") if t > 1 else mpmath.mpf("1e-18")):
                break
    return y


@pytest.mark.slow
@pytest.mark.parametrize("friction", (0.5, 1.0))
def test_the_optimum_is_that_of_another_method(friction: float) -> None:
    robot = a_box()
    s = simulation(robot, 1e-3, cd.Plane(friction), lower_corners())
    rng = np.random.default_rng(11)
    for k in range(4):
        angles = rng.normal(scale=3e-3, size=3)
        q = np.array([0.0, 0.0, 0.05 - 10.0 ** rng.uniform(-3.2, -2.5), *angles, 1.0])
        q[3:] /= np.linalg.norm(q[3:])
        # at rest, sliding, landing
        v = rng.standard_normal(6) * (0.0, 0.03, 0.5, 3.0)[k]
        x1 = s.step(s.state(q, v))
        expected = by_hand(s, q, v)
        # the step ends in the new axes: turn it back
        _, v1 = s.split(x1)
        R0, R1 = (np.array(robot.frame_pose(p, "box")[0]) for p in (q, s.split(x1)[0]))
        found = np.concatenate([R0.T @ (R1 @ v1[:3]), v1[3:]])
        np.testing.assert_allclose(found, expected, atol=1e-8 * (1.0 + np.max(np.abs(v))))


# -- lanes


def test_a_lane_does_not_disturb_its_neighbours() -> None:
    s = simulation(a_box(BOX), 1e-3, cd.Plane(0.8))
    q, v = in_the_ground(12, 100)
    x = s.state(q, v)
    alone = np.array([s.step(one) for one in x])
    assert s.step(x).tobytes() == alone.tobytes()
    bad = np.insert(x, np.arange(0, 100, 3), np.nan, axis=0)
    found = s.step(bad, freeze=True)
    good = np.all(np.isfinite(bad), axis=1)
    assert found[good].tobytes() == alone.tobytes()


@pytest.mark.parametrize(
    "integrator", slow_except(["semi_implicit_euler", "rk4"], ["semi_implicit_euler", "explicit_euler", "rk4", "backward_euler"])
)
def test_a_step_reports_its_mean_acceleration_and_its_contact_impulses(integrator: str) -> None:
    # m a = m g + impulses / h, along and about the world's axes: a box that slides and tips
    world = cd.Simulation(a_box(), 0.002, cd.Plane(0.8), lower_corners(), integrator=integrator)

    def parts(x: Any) -> Any:
        after = integrate_step(world._world, Inputs(x[:7], x[7:], np.zeros(0)), integrator)
        return {"x1": np.concatenate([after.q, after.v]), "a": after.acceleration, "impulses": after.contact_impulses}

    x = world.state(q=[0.0, 0.0, HALF - 2.0 * REST, 0.0, 0.0, 0.0, 1.0], v=[0.3, 0.1, -0.05, 0.0, 0.1, 0.0])
    x1, a, impulses = Function(trace(parts, x=13), "reference")(x)
    assert impulses.shape == (len(world.contact_points), 3)
    assert np.sum(impulses[:, 2] > 0.0) == 4  # the lower corners
    total = impulses.sum(axis=0) / world.dt - [0.0, 0.0, G]
    # the box is level at the start, and its linear velocity does not turn with it
    np.testing.assert_allclose(a[:3], total, atol=1e-9 * np.max(np.abs(total)))
    v1 = np.concatenate([np.asarray(rotation_of(x1[3:7]), dtype=float) @ x1[7:10], x1[10:]])
    np.testing.assert_allclose(x[7:] + world.dt * a, v1, atol=1e-12)


@pytest.mark.parametrize("limited", [False, True])
def test_the_acceleration_of_a_short_step_has_no_rounding_error_of_the_velocity(limited: bool) -> None:
    # (v+ - v) / h carries eps |v| / h, here 1e-5; solved for the increment it is that of forward dynamics
    robot = a_pendulum(limits=(-1.0, 1.0) if limited else None)
    world = cd.Simulation(robot, 1e-9, integrator="explicit_euler", damping=False)

    def mean(x: Any) -> Any:
        return {"a": integrate_step(world._world, Inputs(x[:1], x[1:], np.zeros(1)), world.integrator).acceleration}

    q, v = np.array([0.3]), np.array([100.0])
    a = Function(trace(mean, x=2), "reference")(np.concatenate([q, v]))
    assert a == pytest.approx(robot.forward_dynamics(q, v, np.zeros(1)), rel=1e-13)
