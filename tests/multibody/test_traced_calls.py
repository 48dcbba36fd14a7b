"""The functions of a robot called with traced values: every public one, of free and constrained robots, with derivatives."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from constraints.mechanisms import four_bar
from dynamics.random_robots import random_description

import condyle as cd
from condyle.constraints.reduced_dynamics import FRAME_FUNCTIONS
from condyle.multibody.robot import FUNCTIONS, Robot

SAME = 1e-12


@pytest.fixture(scope="module")
def robots():
    bars = four_bar()
    closed = bars.robot.close_loops(bars.loops, q=bars.pose(), independent=bars.independent)
    return {
        "chain": cd.load("chain:2"),
        "free": cd.load(random_description(np.random.default_rng(2), 1), base="free"),
        "closed": closed,
    }


def arguments(robot, names, seed=0):
    rng = np.random.default_rng(seed)
    start = robot.neutral()
    moved = robot.integrate(start, 0.1 * rng.normal(size=robot.nv))
    sizes = {"tau_full": robot.model.nv}
    known = {"q": moved, "q0": start, "q1": moved}
    return [known[n] if n in known else rng.normal(size=sizes.get(n, robot.nv)) for n in names]


def call(robot, name, args, **options):
    frame = (robot.frame_names[-1],) if name in FRAME_FUNCTIONS else ()
    return getattr(robot, name)(*args, *frame, **options)


METHODS = {name: entry.inputs for name, entry in (FUNCTIONS | FRAME_FUNCTIONS).items() if hasattr(Robot, name)}


@pytest.mark.slow
@pytest.mark.parametrize("robot", ["chain", "free", "closed"])
def test_every_function_gives_in_a_trace_what_it_gives_outside(robots, robot):
    robot = robots[robot]
    constrained = not robot.coordinate_map.identity
    names = [n for n in METHODS if constrained or n not in ("constraint_forces", "reactions")]
    given = {name: arguments(robot, METHODS[name]) for name in names}

    def everything(**arrays):
        out = {}
        for name in names:
            args = [arrays[f"{name}_{k}"] for k in range(len(METHODS[name]))]
            result = call(robot, name, args)
            parts = list(result.values()) if isinstance(result, dict) else result if isinstance(result, tuple) else (result,)
            out |= {f"{name}_{k}": part for k, part in enumerate(parts)}
        return out

    flat = {f"{name}_{k}": x for name, args in given.items() for k, x in enumerate(args)}
    found = cd.function(everything, **{name: len(x) for name, x in flat.items()}).on("reference")(**flat)._asdict()
    for name in names:
        result = call(robot, name, given[name], backend="reference")
        parts = list(result.values()) if isinstance(result, dict) else result if isinstance(result, tuple) else (result,)
        for k, part in enumerate(parts):
            got = found[f"{name}_{k}"]
            assert np.shape(got) == np.shape(part), name
            assert np.allclose(got, part, rtol=SAME, atol=SAME * np.abs(part).max()), name


def test_no_public_function_of_arrays_was_forgotten():
    members = inspect.getmembers(Robot, inspect.isfunction)
    public = {name for name, f in members if "options" in inspect.signature(f).parameters and not name.startswith("_")}
    assert public - {"close_loop", "close_loops", "constrain", "point_on"} == set(METHODS)


@pytest.mark.parametrize("name", ["chain", "closed"])
def test_derivatives_of_forward_dynamics_in_a_trace(robots, name):
    robot = robots[name]
    q, v, tau = arguments(robot, ("q", "v", "tau"))
    exact = robot.forward_dynamics_derivatives(q, v, tau)
    f = cd.function(lambda q, v, tau: robot.forward_dynamics(q, v, tau), q=robot.nq, v=robot.nv, tau=robot.nv)
    for mode in ("forward", "reverse"):
        for found, wanted in zip(f.jacobian(mode=mode)(q, v, tau), exact, strict=True):
            assert np.allclose(found, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())
    _, *jacobians = cd.linearize(robot.forward_dynamics, q, v, tau)
    for found, wanted in zip(jacobians, exact, strict=True):
        assert np.allclose(found, wanted, rtol=1e-9, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.parametrize("name", ["chain", "free"])
@pytest.mark.parametrize("function", ["forward_dynamics", "inverse_dynamics"])
def test_derivatives_in_a_trace_are_those_the_robot_has(robots, name, function):
    robot = robots[name]
    q, v, tau = arguments(robot, ("q", "v", "tau"))
    exact = getattr(robot, f"{function}_derivatives")(q, v, tau)
    f = cd.function(
        lambda d, v, tau: getattr(robot, function)(robot.integrate(q, d), v, tau), d=robot.nv, v=robot.nv, tau=robot.nv
    )
    zero = np.zeros(robot.nv)
    for mode in ("forward", "reverse"):
        for found, wanted in zip(f.on("reference").jacobian(mode=mode)(zero, v, tau), exact, strict=True):
            assert np.allclose(found, wanted, rtol=1e-11, atol=1e-11 * np.abs(wanted).max())
    # with no more operations, where coordinates are velocities
    if robot.nq == robot.nv:
        direct = cd.function(lambda q, v, tau: getattr(robot, function)(q, v, tau), q=robot.nq, v=robot.nv, tau=robot.nv)
        own = robot.function(f"{function}_derivatives").operations
        assert direct.jacobian(mode="forward").operations <= own and direct.jacobian(mode="reverse").operations <= own
    # second derivatives differentiate the rule
    weight, step = np.linspace(1.0, 2.0, robot.nv), 1e-6
    H = f.on("reference").hessian("out", "d")(zero, v, tau, weight)
    moved = [
        getattr(robot, f"{function}_derivatives")(robot.integrate(q, s * step * np.eye(robot.nv)[0]), v, tau)[0] for s in (1, -1)
    ]
    along = weight @ (moved[0] - moved[1]) / (2 * step)
    assert np.allclose(np.diag(H)[0], along[0], rtol=1e-5, atol=1e-5 * np.abs(H).max())


def test_calls_in_a_loop_with_wrenches_masks_and_numbers(robots):
    robot, frame = robots["chain"], robots["chain"].frame_names[-1]
    q, v, tau = arguments(robot, ("q", "v", "tau"))

    def fall(q, v, push):
        def step(_, state):
            q, v = state
            a, ok = robot.forward_dynamics(q, v, tau, {frame: push}, mask=True)
            v = cd.where(ok, v + 0.01 * a, 0.0)
            return robot.integrate(q, 0.01 * v), v

        return cd.loop(step, (q, v), 5)

    push = np.array([1.0, 2.0, 3.0, 0.1, 0.2, 0.3])
    found = cd.function(fall, q=robot.nq, v=robot.nv, push=6)(q, v, push)
    for _ in range(5):
        v = v + 0.01 * robot.forward_dynamics(q, v, tau, {frame: push})
        q = robot.integrate(q, 0.01 * v)
    assert np.allclose(found.out0, q, rtol=1e-11) and np.allclose(found.out1, v, rtol=1e-11)
    bad = cd.function(fall, q=robot.nq, v=robot.nv, push=6)(q, v, push * np.nan)
    assert np.array_equal(bad.out1, np.zeros(robot.nv))


def test_locked_joints(robots):
    robot = cd.load("chain:3")
    locked = robot.lock(robot.joint_names[1], [0.1, 0.2, 0.3])
    f = cd.function(lambda q, v: {"q": locked.full(q), "v": locked.full_velocity(v)}, q=2, v=2)
    q, v = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    assert np.array_equal(f(q, v).q, locked.full(q)) and np.array_equal(f(q, v).v, locked.full_velocity(v))


def test_what_needs_numbers_says_so(robots):
    robot = robots["chain"]
    with pytest.raises(cd.CondyleError, match="option 'backend' has no meaning inside a trace"):
        cd.function(lambda q: robot.mass_matrix(q, backend="reference"), q=robot.nq)
    with pytest.raises(cd.RobotError, match=r"test_traced_calls.py:\d+: inverse_kinematics repeats its search"):
        cd.function(lambda p: robot.inverse_kinematics(robot.frame_names[-1], p).q, p=3)
    with pytest.raises(cd.ShapeError, match="without batch axes"):
        cd.function(lambda q: robot.mass_matrix(np.stack([q, q])), q=robot.nq)
