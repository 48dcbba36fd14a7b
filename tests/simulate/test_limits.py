"""Joint limits from any state: the solver converges at any depth and speed, and a joint far beyond its limit comes back."""

from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from simulate.bodies import G, Y, a_pendulum, simulation

import condyle as cd
from condyle.robot.description import Description, JointSpec, Limits
from condyle.robot.parts import body, link, pose
from condyle.simulate.contacts import RECOVERY_DEPTH, limit_law
from condyle.simulate.solver import solve
from condyle.simulate.step import Inputs, problem

CONVERGED = 1e-10  # the residual that a step must have
COUNT = 20000
UPPER = 1.0


@cache
def hinge(gravity: float = G) -> cd.Simulation:
    return simulation(a_pendulum(limits=(-4.0, UPPER), gravity=gravity), 1e-3)


def random_dt(rng: np.random.Generator, count: int) -> np.ndarray:
    return 10.0 ** rng.uniform(-3.0, np.log10(0.02), count)


@pytest.mark.parametrize("gravity", (0.0, G))
def test_a_hinge_at_any_depth_and_speed(gravity: float) -> None:
    rng, s = np.random.default_rng(1), hinge(gravity)
    q = UPPER + 10.0 ** rng.uniform(-4.0, 2.0, (COUNT, 1))
    v = rng.choice([-1.0, 1.0], (COUNT, 1)) * 10.0 ** rng.uniform(-6.0, 2.5, (COUNT, 1))
    u = rng.normal(size=(COUNT, s.nu)) * 10.0 ** rng.uniform(-3.0, 3.0, (COUNT, 1))
    x1 = s.step(s.state(q, v), u, parameters={"dt": random_dt(rng, COUNT)})
    assert s.status is not None and np.max(s.status.residual) <= CONVERGED
    assert np.all(np.isfinite(x1))


@pytest.mark.parametrize("depth", (1e-3, 0.03, 1.0, 30.0))
def test_the_velocity_is_the_root_of_the_law(depth: float) -> None:
    # I (u - u_free) = -S y,  -S u = kappa (1/y - 1/(1 - y)), with 50 digits
    s = hinge()
    world, joint, h = s.world, s.world.joints[0], s.dt
    for speed in (-20.0, 0.0, 1e-3, 0.2, 5.0):
        q, v = np.array([UPPER + depth]), np.array([speed])
        law = limit_law(world, 0, float(q[0]), speed)
        S, kappa = mpmath.mpf(float(abs(law.E[0, 0]))), mpmath.mpf(float(law.kappa))
        with mpmath.workdps(50):
            free = mpmath.mpf(speed) + mpmath.mpf(h) * mpmath.mpf(float(s.robot.forward_dynamics(q, v, np.zeros(1))[0]))
            inertia = mpmath.mpf(float(s.robot.mass_matrix(q)[0, 0]))
            low, high = mpmath.mpf(0), mpmath.mpf(1)
            for _ in range(200):
                y = (low + high) / 2
                low, high = (y, high) if kappa * (1 / y - 1 / (1 - y)) > S * (S * y / inertia - free) else (low, y)
            expected = free - S * y / inertia
        found = s.step(s.state(q, v))[1]
        assert abs(found - expected) <= 1e-10 * (abs(speed) + joint.load * h / joint.inertia)


@pytest.mark.parametrize("gravity", (0.0, G))
@pytest.mark.parametrize("dt", (1e-3, 0.02))
def test_a_joint_far_beyond_its_limit_comes_back(gravity: float, dt: float) -> None:
    s = hinge(gravity)
    x = s.state(UPPER + np.array([[0.2], [1.0]]))
    steps = round(2.0 / dt)
    xs = s.rollout(x, np.zeros((steps, s.nu)), parameters={"dt": dt})
    depth, outward = xs[..., 0] - UPPER, -xs[..., 1]
    assert np.max(depth[:, 1:] - depth[:, :-1]) <= 1e-6  # never farther
    assert np.max(depth[:, steps // 2]) <= 0.15 and np.max(depth[:, -1]) <= (RECOVERY_DEPTH + 1.0) * 0.01
    assert np.max(outward) <= 2.0


def test_an_impact_is_not_given_back() -> None:
    # into the limit at up to 20 rad/s: it leaves with 5 % of the speed, and the creep of the smoothing
    s = hinge(0.0)
    speeds = np.array([0.1, 1.0, 5.0, 20.0])
    x = s.state(np.full((4, 1), UPPER - 1e-3), speeds[:, None])
    for dt in (1e-3, 5e-3, 0.02):
        xs = s.rollout(x, np.zeros((200, s.nu)), parameters={"dt": dt})
        assert np.all(np.max(-xs[..., 1], axis=1) <= 0.05 * speeds + G * dt)


@cache
def two_links(ratio: float) -> cd.Robot:
    """Two links with limits and dry friction; the second has `ratio` times the mass of the first."""
    links, joints = [link("stand")], []
    for k, (parent, mass) in enumerate((("stand", 1.0), ("link0", ratio))):
        links.append(link(f"link{k}", body(mass, (0.2, 0.0, 0.0), (1e-3 * mass, 1e-2 * mass, 1e-2 * mass))))
        place = pose((0.4 * k, 0.0, 0.0))
        joints.append(
            JointSpec(f"joint{k}", "revolute", parent, f"link{k}", place, np.array(Y), Limits(-0.5, 0.5), 0.0, 0.1 * mass)
        )
    return cd.load(Description("two_links", tuple(links), tuple(joints)))


@pytest.mark.parametrize("ratio", (1e-6, 1e6))
@pytest.mark.parametrize("stiffness", (0.0, 1e8))
def test_mass_ratios_and_springs(ratio: float, stiffness: float) -> None:
    springs: Any = (("joint1", (stiffness, 0.1)),) if stiffness else ()
    s, rng = simulation(two_links(ratio), 1e-3, springs=springs), np.random.default_rng(2)
    q = rng.choice([-1.0, 1.0], (COUNT, 2)) * (
        0.5 + rng.choice([-0.1, 1.0], (COUNT, 2)) * 10.0 ** rng.uniform(-4.0, 0.5, (COUNT, 2))
    )
    v = rng.normal(size=(COUNT, 2)) * 10.0 ** rng.uniform(-4.0, 1.5, (COUNT, 2))
    s.step(s.state(q, v), freeze=True, parameters={"dt": random_dt(rng, COUNT)})
    assert s.status is not None and np.max(s.status.residual) <= CONVERGED


# -- chains of hinges at and beyond their limits


@cache
def chain(count: int) -> cd.Simulation:
    """Hinges one behind the other, each within +-0.5 rad."""
    links, joints = [link("stand")], []
    for k in range(count):
        links.append(link(f"link{k}", body(1.0, (0.2, 0.0, 0.0), (1e-3, 1e-2, 1e-2))))
        parent, place = ("stand", 0.0) if k == 0 else (f"link{k - 1}", 0.4)
        joints.append(
            JointSpec(f"joint{k}", "revolute", parent, f"link{k}", pose((place, 0.0, 0.0)), np.array(Y), Limits(-0.5, 0.5))
        )
    return simulation(cd.load(Description("chain", tuple(links), tuple(joints))), 1e-3)


def about_limits(count: int, near: float, push: float, states: int) -> tuple[np.ndarray, np.ndarray]:
    """(state, control): every joint about `near` rad from a limit, at about 1 rad/s, with motors of about `push` N m."""
    rng = np.random.default_rng([count, int(push), int(near * 1e7)])
    q = rng.choice([-1.0, 1.0], (states, count)) * (0.5 + rng.normal(size=(states, count)) * near)
    return chain(count).state(q, rng.normal(size=(states, count))), rng.normal(size=(states, count)) * push


@pytest.mark.parametrize("count", (1, 2, 3, 5))
def test_chains_near_their_limits(count: int) -> None:
    s = chain(count)
    for near in (1e-6, 5e-3, 0.3):
        for push in (10.0, 100.0, 1000.0):
            s.step(*about_limits(count, near, push, 5000), freeze=True)
            assert s.status is not None and np.max(s.status.residual) <= CONVERGED, (near, push)


def test_four_hinges_that_are_pushed_hard() -> None:
    chain(4).step(*about_limits(4, 1e-3, 1000.0, COUNT), freeze=True)
    status = chain(4).status
    assert status is not None and np.max(status.residual) <= CONVERGED


def least_energy(M: np.ndarray, p: np.ndarray, v: np.ndarray, E: np.ndarray, kappa: np.ndarray) -> np.ndarray:
    """The dv with  M dv = p + E y(v + dv)  by Newton's method with a line search, (states, n); E is zero inside the limits.

    The gradient of the strictly convex function
    1/2 dv^T M dv - p^T dv + sum kappa barrier*(E u / kappa),  u = v + dv,  where  E u = kappa (1/y - 1/(1 - y)).
    """

    def gradient(dv: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ratio = E * (v + dv) / kappa
        root = np.sqrt(ratio * ratio + 4.0)
        y, rest = 2.0 / (root + 2.0 + ratio), 2.0 / (root + 2.0 - ratio)
        slope = E * E / kappa / (1.0 / y**2 + 1.0 / rest**2)
        return (M @ dv[..., None])[..., 0] - p - E * y, slope

    dv = np.linalg.solve(M, p[..., None])[..., 0]
    for _ in range(400):
        g, slope = gradient(dv)
        step = -np.linalg.solve(M + slope[..., None] * np.eye(len(p[0])), g[..., None])[..., 0]
        # the longest of these steps after which the function still falls along it
        length = np.ones((len(p), 1))
        for _ in range(40):
            far = np.sum(gradient(dv + length * step)[0] * step, axis=1, keepdims=True) > 0.0
            length = np.where(far, 0.5 * length, length)
        dv = dv + length * step
        if np.max(np.abs(length * step)) <= 1e-14 * np.max(np.abs(dv)):
            break
    return dv


@pytest.mark.parametrize("count", (2, 4))
def test_a_step_that_is_ok_is_the_least_of_the_convex_function(count: int) -> None:
    s = chain(count)
    world = s.world

    def equations(x: Any, u: Any) -> Any:
        now = problem(world, Inputs(x[:count], x[count:], u))
        E, kappa = zip(*[(b.law.E[0, 0] * (1.0 - b.idle), b.law.kappa) for b in now.constraints], strict=True)
        found = solve(world.ancestor_dofs, now.M, now.p, now.v, now.constraints, None, world.inverse_inertia_diagonal)
        return {"M": now.M, "p": now.p, "E": np.array(E), "kappa": np.array(kappa), "dv": found.dv, "residual": found.residual}

    at = cd.function(equations, x=2 * count, u=count)
    for near, push in ((1e-3, 1000.0), (5e-3, 100.0), (0.3, 10.0)):
        x, u = about_limits(count, near, push, 100)
        now = at(x, u)
        v = x[:, count:]
        expected = least_energy(now.M, now.p, v, now.E, now.kappa)
        norm = [np.sqrt(np.einsum("si,sij,sj->s", e, now.M, e)) for e in (now.dv - expected, v, v + expected)]
        assert np.max(now.residual) <= CONVERGED and np.max(norm[0] / (norm[1] + norm[2])) <= 1e-9, (near, push)
