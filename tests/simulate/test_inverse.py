"""Inverse dynamics with contact, the limiting force, and backward Euler: each undoes what goes forward."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from markers import slow_except

import condyle as cd
from condyle.dynamics.manifold import integrate
from condyle.robot.description import Description
from condyle.robot.parts import Y, box, joint, link, pose, rod, solid, sphere
from condyle.simulate.backward import backward_residual, backward_step
from condyle.simulate.friction_cone import Cone, Polytope
from condyle.simulate.integrate import integrate_step, step_jacobian
from condyle.simulate.integrate_pose import moved, transport_acceleration
from condyle.simulate.inverse import (
    ForceBalance,
    StartOfStep,
    constraints_at,
    inverse_step,
    inverse_step_derivatives,
    limiting_forward,
    limiting_forward_derivatives,
    limiting_inverse,
    limiting_inverse_derivatives,
    local_impulse,
)
from condyle.simulate.step import Inputs, in_body_axes, next_velocity, problem, solved
from condyle.simulate.step_derivatives import every_constraint
from condyle.simulate.world import World

ROUNDING = 1e-13  # relative, of a local law in float64 against 400 bits
ROUND_TRIP = 1e-9  # relative to the largest acceleration: the error after a stiff contact was undone
LARGEST = 1e-10  # residual of a step that is taken
CENTRAL = 1e-5  # relative, of central differences in float64
RECURSIVE = 1e-7  # relative; the cones agree to 1e-10, a pyramid subtracts large numbers


# -- one law by itself


def cone(p: Any, u: Any) -> Any:
    y, s = local_impulse(Cone.of(p[0], 0.8, p[1]), u)
    return {"y": y, "s": s}


def corner(p: Any, u: Any) -> Any:
    y, s = local_impulse(Polytope.of(np.array([[1.0]]) * p[0], p[1]), u[:1])
    return {"y": y, "s": s}


def pyramid(p: Any, u: Any) -> Any:
    turns = 2.0 * np.pi * np.arange(6) / 6.0
    y, s = local_impulse(Polytope.of(np.array([np.ones(6), 0.8 * np.cos(turns), 0.8 * np.sin(turns)]) * p[0], p[1]), u)
    return {"y": y, "s": s}


@cache
def law(which: Any) -> cd.Function:
    return cd.Function(cd.trace(which, p=2, u=3))


def velocities(count: int) -> np.ndarray:
    """Velocities over 24 decades, of both signs, and those at which a law changes its mind."""
    rng = np.random.default_rng(0)
    size = 10.0 ** rng.uniform(-12, 12, (count, 2))
    turn = rng.uniform(0.0, 2.0 * np.pi, count)
    size[::7, 1] = 0.8 * size[::7, 0]  # the velocity lies along the dual cone
    u = np.stack([rng.choice([-1.0, 1.0], count) * size[:, 1], size[:, 0] * np.cos(turn), size[:, 0] * np.sin(turn)], axis=1)
    u[::11, 1:] = 0.0
    u[::13, 0] = 0.0
    return u


def off(found: np.ndarray, exact: np.ndarray) -> float:
    return max(abs(float((a - b) / b)) if b else abs(float(a)) for a, b in zip(found.ravel(), exact.ravel(), strict=True))


@pytest.mark.parametrize("which", [cone, corner])
def test_a_local_impulse_is_exact(which: Any) -> None:
    u, p = velocities(300), np.ones(2)
    found, exact = law(which)(p, u), law(which).on("mpfr:400")(p, u)
    # beta = alpha is decided by their difference, which the velocity has to 16 digits of their size
    clear = np.abs(np.abs(u[:, 0]) - 0.8 * np.hypot(u[:, 1], u[:, 2])) > 1e-3 * np.abs(u[:, 0])
    for a, b in zip(found, exact, strict=True):
        assert off(a[clear], b[clear]) < ROUNDING
        assert off(a, b) < 1e-2
        assert np.all(a[..., :1] > 0.0) if a.ndim > 1 else np.all(a > 0.0)


@pytest.mark.parametrize("which", [cone, corner, pyramid])
def test_a_local_impulse_solves_its_law(which: Any) -> None:
    def left(p: Any, u: Any) -> Any:
        found = which(p, u)
        law = {
            cone: lambda: Cone.of(p[0], 0.8, p[1]),
            corner: lambda: Polytope.of(np.array([[1.0]]) * p[0], p[1]),
            pyramid: lambda: Polytope.of(
                np.array([[1.0] * 6, *(0.8 * f(2.0 * np.pi * np.arange(6) / 6.0) for f in (np.cos, np.sin))]) * p[0], p[1]
            ),
        }[which]()
        seen, gradient = (
            law.dual(u[: 3 if isinstance(law, Cone) else len(law.E)]),
            law.kappa * law.gradient(found["y"], found["s"]),
        )
        return {"left": seen - gradient, "seen": seen, "room": law.slack(found["y"]) - found["s"]}

    # 1e-300 at 2000 bits; near the cone's surface the gradient itself loses twice alpha's digits
    error, seen, room = cd.Function(cd.trace(left, p=2, u=3)).on("mpfr:2000")(np.array([0.3, 2.0]), velocities(60))
    assert np.max(np.abs(error)) < 1e-300 * np.max(np.abs(seen)) and np.max(np.abs(room)) < 1e-300


@pytest.mark.parametrize("which", [cone, corner, pyramid])
def test_no_strength_and_no_friction(which: Any) -> None:
    y, s = law(which)(np.array([0.0, 1.0]), np.array([0.3, -0.2, 0.1]))
    n = 2.0 / 3.0 if which is cone else 1.0 / (len(y) + 1.0)
    assert y[0] == pytest.approx(n, rel=1e-15) and s == pytest.approx(1.0 / 3.0 if which is cone else n, rel=1e-15)

    def smooth(u: Any) -> Any:
        return {"y": local_impulse(Cone.of(2.0, 0.0, 1.0), u)[0]}

    y = cd.Function(cd.trace(smooth, u=3))(np.array([0.5, 1.0, 2.0]))
    assert y[0] > 0.0 and y[1] == 0.0 and y[2] == 0.0


@pytest.mark.parametrize("which", [cone, corner, pyramid])
@pytest.mark.parametrize("u", [(0.3, 2.0, -1.0), (-5.0, 0.0, 0.0), (0.0, 1e-3, 0.0)])
def test_two_derivatives_of_a_local_impulse(which: Any, u: tuple[float, ...]) -> None:
    import gmpy2

    function = law(which)
    p, here = np.array([3.0, 0.5]), np.array(u)
    derivative = function.jacobian("y", "u")
    second = derivative.jacobian("dy_du", "u")
    with gmpy2.context(precision=256):
        step = gmpy2.mpfr(2) ** -80
        for f, df in ((function, derivative), (derivative, second)):
            exact, _ = df(p, here), None
            for k in range(3):
                ends = []
                for sign in (1, -1):
                    moved = np.array([gmpy2.mpfr(x) for x in here], dtype=object)
                    moved[k] = moved[k] + sign * step
                    out = f.on("mpfr:256")(p, moved)
                    ends.append(np.asarray(out[0] if f is function else out, dtype=object))
                difference = ((ends[0] - ends[1]) / (2 * step)).astype(float)
                scale = np.max(np.abs(exact)) + 1e-12
                assert np.max(np.abs(difference - exact[..., k])) < 1e-12 * scale


# -- robots in worlds


@cache
def hopper() -> cd.Robot:
    """A torso on a leg of two links with a round foot, in the plane."""
    torso, foot = box((0.3, 0.2, 0.1)), sphere(0.05, (0.0, 0.0, -0.3), name="foot")
    thigh, shin = rod((0.0, 0.0, 0.0), (0.0, 0.0, -0.3), 0.03), rod((0.0, 0.0, 0.0), (0.0, 0.0, -0.3), 0.03)
    links = (link("torso", solid(4.0, torso)), link("thigh", solid(1.0, thigh)), link("shin", solid(0.5, shin), [], [foot]))
    joints = (
        joint("hip", "revolute", "torso", "thigh", axis=Y, limits=2.0),
        joint("knee", "revolute", "thigh", "shin", pose((0.0, 0.0, -0.3)), axis=Y, limits=2.0),
    )
    return cd.load(Description("hopper", links, joints), base="planar")


@cache
def made(name: str, h: float = 0.005) -> World:
    """A world with a motor on every coordinate, and no bound on it."""
    if name == "box":
        shape = box((0.4, 0.3, 0.2), name="box")
        robot = cd.load(Description("box", (link("body", solid(3.0, shape), [shape], [shape]),), ()), base="free")
        sim = cd.Simulation(robot, dt=h, ground=cd.Plane(friction=0.6))
    elif name == "arm":
        robot = cd.load("ur3")
        sim = cd.Simulation(robot, dt=h, torque_limits=False)
        joints = tuple(replace(j, friction=0.5, damping=0.2, lower=-1.0, upper=1.0) for j in sim._world.joints)
        sim._world = replace(sim._world, joints=(replace(joints[0], spring=30.0, rest=0.2), *joints[1:]))
    elif name == "pyramid":
        sim = cd.Simulation(hopper(), dt=h, ground=cd.Slope(5.0), cone=6)
    else:
        robot = cd.load("fourlimb", base="planar").lock("roll_")
        sim = cd.Simulation(robot, dt=h, ground=cd.Plane(friction=0.7), contacts="foot_*", torque_limits=False)
    # the law of backward Euler
    return replace(sim._world, actuated=tuple(range(sim._world.model.nv)), smoothing=1e-3, on_surface=False)


def states(name: str, count: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(q, v, tau), most of them in contact or at a limit."""
    model = made(name).model
    rng = np.random.default_rng(2)
    n = model.nv
    dq, v, tau = rng.normal(0.0, 0.03, (count, n)), rng.normal(0.0, 0.3, (count, n)), rng.normal(0.0, 5.0, (count, n))
    if name == "arm":
        dq = rng.uniform(-1.01, 1.01, (count, n))
    else:
        height = {"box": 0.1, "fourlimb": 0.737, "pyramid": 0.651}[name]
        dq[:, 2 if name == "box" else 1] = height + rng.uniform(-2e-3, 2e-3, count)
    q = np.array([np.asarray(integrate(model, model.neutral(), d), dtype=float) for d in dq])
    return q, v, tau


@cache
def functions(name: str) -> dict[str, cd.Function]:
    world = made(name)
    n, nq = world.model.nv, world.model.nq

    def forward(q: Any, v: Any, tau: Any) -> Any:
        found = next_velocity(world, Inputs(q, v, tau))
        return {"a": (found.v - v) * (1.0 / world.h) - transport_acceleration(world, v), "residual": found.residual}

    def by(function: Any, *outputs: str) -> Any:
        def traced(q: Any, v: Any, x: Any) -> Any:
            found = function(world, q, v, x)
            return dict(zip(outputs, found, strict=True)) if len(outputs) > 1 else {outputs[0]: found}

        return cd.Function(cd.trace(traced, q=nq, v=n, x=n))

    return {
        "forward": cd.Function(cd.trace(forward, q=nq, v=n, tau=n)),
        "inverse": by(inverse_step, "tau"),
        "slopes": by(inverse_step_derivatives, "by_q", "by_v", "by_a"),
        "limiting": by(limiting_inverse, "tau"),
        "limiting slopes": by(limiting_inverse_derivatives, "by_q", "by_v", "by_a"),
        "limiting forward": by(limiting_forward, "a"),
    }


ROBOTS = ["fourlimb", "box", "arm", "pyramid"]


@pytest.mark.parametrize("name", slow_except(["arm", "pyramid"], ROBOTS))
def test_forward_undoes_inverse(name: str) -> None:
    q, v, tau = states(name)
    f = functions(name)
    a, residual = f["forward"](q, v, tau)
    assert np.all(residual <= LARGEST)
    again, _ = f["forward"](q, v, f["inverse"](q, v, a))
    assert np.max(np.abs(again - a).max(axis=1) / np.abs(a).max(axis=1)) < ROUND_TRIP


@pytest.mark.parametrize("name", slow_except(["arm", "pyramid"], ROBOTS))
def test_limiting_forces_and_back(name: str) -> None:
    q, v, a = states(name)
    f = functions(name)
    tau = f["limiting"](q, v, a)
    # the forces of contact may be thousands of times those that a asks for
    assert np.max(np.abs(f["limiting forward"](q, v, tau) - a)) < 1e-11 * np.max(np.abs(tau)) * 1e3


@pytest.mark.parametrize("name", slow_except(["pyramid"], ["box", "pyramid"]))
def test_the_local_law_is_the_coupled_one(name: str) -> None:
    """At the velocity that the coupled solver finds, each law by itself gives the impulse the solver gave it."""
    world = made(name)

    def both(q: Any, v: Any, tau: Any) -> Any:
        now = problem(world, Inputs(q, v, tau))
        found = in_body_axes(now, solved(world, now))
        _, iterates, _ = constraints_at(world, ForceBalance(q, v, v, v + found.dv, v))
        constraints, coupled = every_constraint(world, now, found)
        pairs = zip(constraints, iterates, coupled, strict=True)
        return {"apart": np.concatenate([b.law.impulse(x["y"]) - b.law.impulse(y["y"]) for b, x, y in pairs])}

    q, v, tau = states(name)
    apart = cd.Function(cd.trace(both, q=world.model.nq, v=world.model.nv, tau=world.model.nv))(q, v, tau)
    assert np.max(np.abs(apart)) < 1e-9 * world.nominal_load


@pytest.mark.parametrize("which", ["inverse", "limiting"])
@pytest.mark.parametrize("name", slow_except(["pyramid"], ROBOTS))
def test_recursive_derivatives_are_the_tapes_own(name: str, which: str) -> None:
    world = made(name)
    model = world.model
    q, v, a = states(name, 10)
    tau = inverse_step if which == "inverse" else limiting_inverse

    def moved(dq: Any, v: Any, a: Any, q: Any) -> Any:
        return {"tau": tau(world, integrate(model, q, dq), v, a)}

    shapes = {"dq": model.nv, "v": model.nv, "a": model.nv, "q": model.nq}
    own = cd.Function(cd.trace(moved, **shapes)).jacobian("tau", ["dq", "v", "a"], mode="forward")
    found = functions(name)["slopes" if which == "inverse" else "limiting slopes"](q, v, a)
    for x, y in zip(found, own(np.zeros(model.nv), v, a, q), strict=True):
        assert np.max(np.abs(x - y)) < RECURSIVE * np.max(np.abs(y))


def test_limiting_forward_derivatives() -> None:
    world = made("pyramid")
    n = world.model.nv

    def traced(q: Any, v: Any, tau: Any) -> Any:
        return dict(zip(("a", "by_q", "by_v", "by_tau"), limiting_forward_derivatives(world, q, v, tau), strict=True))

    function = cd.Function(cd.trace(traced, q=n, v=n, tau=n))
    q, v, tau = (x[0] for x in states("pyramid", 1))
    for k, exact in enumerate(function(q, v, tau)[1:]):
        for c in range(n):
            ends = []
            for sign in (1.0, -1.0):
                at = [q.copy(), v.copy(), tau.copy()]
                at[k][c] += sign * 1e-7
                ends.append(function(*at)[0])
            assert np.max(np.abs((ends[0] - ends[1]) / 2e-7 - exact[:, c])) < CENTRAL * np.max(np.abs(exact))


# -- backward Euler


@cache
def backward(name: str, h: float = 0.005) -> tuple[cd.Function, cd.Function]:
    world = made(name, h)
    n = world.model.nv

    def step(q: Any, v: Any, tau: Any) -> Any:
        end = backward_step(world, Inputs(q, v, tau))
        q1, v1 = moved(world, q, end.v * h, end.v)
        return {
            "q1": q1,
            "v1": v1,
            "residual": end.residual,
            "left": backward_residual(world, q1, v1, StartOfStep.of(world, q, v), tau),
        }

    def jacobians(q: Any, v: Any, tau: Any) -> Any:
        both = step_jacobian(world, Inputs(q, v, tau), "backward_euler")
        return {"A": both.A, "B": both.B}

    shapes = {"q": world.model.nq, "v": n, "tau": n}
    return cd.Function(cd.trace(step, **shapes)), cd.Function(cd.trace(jacobians, **shapes))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fourlimb", "box", "arm", "pyramid"])
def test_backward_euler_balances_its_forces(name: str) -> None:
    q, v, tau = states(name)
    _, _, residual, left = backward(name)[0](q, v, tau)
    converged = residual <= LARGEST
    assert np.mean(converged) >= 0.95
    weight = made(name).nominal_load * 9.81
    assert np.max(np.abs(left[converged])) < 1e-7 * weight


@pytest.mark.slow
def test_backward_euler_derivatives() -> None:
    q, v, tau = (x[3] for x in states("pyramid"))
    step, jacobians = backward("pyramid")
    n = len(v)
    exact = np.hstack(jacobians(q, v, tau))
    for c in range(3 * n):
        ends, size = [], 1e-7 if c < 2 * n else 1e-3
        for sign in (1.0, -1.0):
            d = np.zeros(3 * n)
            d[c] = sign * size
            q1, v1, residual, _ = step(q + d[:n], v + d[n : 2 * n], tau + d[2 * n :])
            assert residual <= LARGEST
            ends.append(np.concatenate([q1, v1]))
        assert np.max(np.abs((ends[0] - ends[1]) / (2.0 * size) - exact[:, c])) < CENTRAL * np.max(np.abs(exact[:, c]))

    world = made("pyramid")

    def combined(q: Any, v: Any, tau: Any) -> Any:
        return {"v1": integrate_step(world, Inputs(q, v, tau), "backward_euler").v}

    own = cd.Function(cd.trace(combined, q=n, v=n, tau=n)).jacobian("v1", mode="forward")
    assert np.hstack(own(q, v, tau)) == pytest.approx(exact[n:], rel=1e-7, abs=1e-7)


def swing(h: float, stiffness: float, seconds: float, angle: float) -> np.ndarray:
    """The angles of a pendulum with a spring, by backward Euler."""
    robot = cd.load("pendulum")
    world = cd.Simulation(robot, dt=h, springs={robot.joint_names[0]: (stiffness, 0.0)})._world

    def step(q: Any, v: Any) -> Any:
        end = backward_step(world, Inputs(q, v, np.zeros(world.nu)))
        return {"q": q + end.v * h, "v": end.v}

    function = cd.Function(cd.trace(step, q=1, v=1))
    q, v, angles = np.array([angle]), np.zeros(1), [angle]
    for _ in range(round(seconds / h)):
        q, v = function(q, v)
        angles.append(float(q[0]))
    return np.array(angles)


def test_backward_euler_is_of_first_order() -> None:
    coarse, middle, fine = (swing(h, 0.0, 0.5, 1.0)[-1] for h in (0.002, 0.001, 0.0005))
    assert (coarse - middle) / (middle - fine) == pytest.approx(2.0, abs=0.1)


def test_backward_euler_damps_a_stiff_spring() -> None:
    """h omega is 50 and more: the spring is at rest within a few steps, where an explicit method explodes."""
    angles = np.abs(swing(0.02, 1e7, 0.4, 0.1))
    assert np.all(np.diff(angles[:8]) < 0.0) and np.max(angles[10:]) < 1e-5
