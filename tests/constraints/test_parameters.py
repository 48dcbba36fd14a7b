"""Numbers of a constrained robot left free: masses, and lengths, by which the loops close elsewhere."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from constraints import mechanisms as m
from markers import slow_except

import condyle as cd
from condyle.dynamics.rnea import inverse_dynamics

STEP = 1e-5  # central differences: the error is about STEP^2 and 1e-16 / STEP of the value
NEAR = 1e-8


def linkage() -> cd.Robot:
    bars = m.four_bar()
    return bars.robot.close_loops(bars.loops, q=bars.pose(), independent=bars.independent)


def with_foot(at: np.ndarray) -> cd.Robot:
    """The four-bar whose rocker stands elsewhere, made anew."""
    bars = m.four_bar()
    joints = [replace(j, pose=replace(j.pose, p=at)) if j.name == "rocker" else j for j in bars.description.joints]
    robot = cd.load(replace(bars.description, joints=tuple(joints)))
    return robot.close_loops(bars.loops, q=bars.pose(), independent=bars.independent)


def jacobians(function: Any, args: tuple[Any, ...], port: int) -> np.ndarray:
    """Central differences by one argument."""
    columns = []
    for e in np.eye(np.size(args[port])).reshape(-1, *np.shape(args[port])):
        plus, minus = ([*args[:port], args[port] + s * STEP * e, *args[port + 1 :]] for s in (1.0, -1.0))
        columns.append((function(*plus) - function(*minus)) / (2.0 * STEP))
    return np.stack(columns, axis=-1)


@pytest.mark.parametrize("foot", [(1.0, 0.0, -0.125), (1.0625, 0.0, -0.25), (0.875, 0.0, 0.0)])
def test_a_free_length_gives_the_robot_made_with_it(foot: tuple[float, float, float]) -> None:
    at = np.array(foot)
    robot, other = linkage(), with_foot(at)
    y, w, tau = np.array([0.7]), np.array([-1.5]), np.array([2.0])
    f = robot.function("forward_dynamics", parameters=["rocker.position"])
    np.testing.assert_allclose(f(y, w, tau, at), other.forward_dynamics(y, w, tau), rtol=1e-12)
    q, v = robot.function("lift", parameters=["rocker.position"])(y, w, at)
    np.testing.assert_allclose(q, other.lift(y, w)[0], atol=1e-13)
    np.testing.assert_allclose(v, other.lift(y, w)[1], atol=1e-12)


@pytest.mark.parametrize(
    "name",
    slow_except(
        ["rocker.position", "coupler.mass"],
        ["rocker.position", "coupler.position", "coupler.mass", "rocker.com", "rocker.inertia"],
    ),
)
@pytest.mark.parametrize("kernel", ["forward_dynamics", "inverse_dynamics"])
def test_derivatives_by_free_numbers(kernel: str, name: str) -> None:
    robot = linkage()
    f = robot.function(kernel, parameters=[name])
    value = robot.parameter(name)
    args = (np.array([0.7]), np.array([-1.5]), np.array([2.0]), np.array(value))
    exact = f.jacobian(wrt=name.replace(".", "_"))(*args)
    near = jacobians(f, args, 3).reshape(np.shape(exact))
    np.testing.assert_allclose(exact, near, atol=NEAR * max(1.0, float(np.max(np.abs(near)))))


def test_second_derivative_by_a_free_length() -> None:
    robot = linkage()
    f = robot.function("potential_energy", parameters=["rocker.position"])
    first = f.jacobian(wrt="rocker_position")
    at = robot.parameter("rocker.position")
    y = np.array([0.7])
    mixed = first.jacobian(wrt="q")(y, at)
    near = jacobians(lambda y, at: first(y, at), (y, at), 0)
    np.testing.assert_allclose(np.ravel(mixed), np.ravel(near), atol=NEAR)


def test_a_function_of_ones_own_sees_all_coordinates() -> None:
    robot = linkage()

    def everything(model: Any, q: Any, v: Any, a: Any) -> Any:
        assert q.shape == (3,)
        return {"tau": inverse_dynamics(model, q, v, a), "q": q}

    f = robot.function(everything, parameters=["rocker.position"])
    y, w, a = np.array([0.7]), np.array([-1.5]), np.array([2.0])
    tau, q = f(y, w, a, robot.parameter("rocker.position"))
    np.testing.assert_allclose(robot.reduce_forces(y, tau), robot.inverse_dynamics(y, w, a), rtol=1e-12)
    np.testing.assert_allclose(q, robot.lift(y, w)[0], atol=1e-14)
