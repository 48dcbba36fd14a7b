"""Where the arm's tool should be, and the joints that put it there.

It leaves its ready pose by a smooth move of the joints, then draws a rectangle with the tool pointing down, resting an instant at
each corner. The ready pose has two parallel wrist axes: there the tool cannot turn every way, so the search begins beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import pi
from typing import Any

import numpy as np

from condyle.demos.smooth import smooth
from condyle.dynamics import kinematics
from condyle.dynamics.solve import cholesky_solve
from condyle.errors import ControlError
from condyle.multibody.robot import Robot, load
from condyle.robot.library.ur3 import READY
from condyle.robot.model import Model
from condyle.robot.spatial import cross
from condyle.tape.function import Function, function

Array = Any

TOOL = "tool"
CENTRE, HALF, HEIGHT = (0.35, 0.0), (0.08, 0.06), 0.22  # m
DOWN = np.array([[0.0, -1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])  # the tool's axes: z down
BESIDE = (0.0, -pi / 2.0, pi / 2.0, -pi / 2.0, -pi / 2.0, 0.0)  # the ready pose with the tool down
APPROACH = (0.2, 2.8)  # s: when it leaves the ready pose, and how long that takes
SIDES, ROUNDS = (1.95, 1.4, 1.95, 1.4), 2  # s for each side of the rectangle; how often it goes round
DRAWS = APPROACH[0] + APPROACH[1] + 0.2  # s, when it begins to draw
SECONDS = DRAWS + ROUNDS * sum(SIDES) + 0.3
DAMPED = 1e-8  # of the search: how little it trusts directions in which the tool hardly moves
NEAR = 1e-12  # m and rad, where the search ends
SEARCHED = 50  # steps


@cache
def robot() -> Robot:
    """The arm on its base; gravity 9.81."""
    return load("ur3")


def corners() -> np.ndarray:
    """(4, 3): the rectangle's corners in the order they are visited, m."""
    signs = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    return np.column_stack([np.array(CENTRE) + signs * np.array(HALF), np.full(4, HEIGHT)])


def rectangle(t: Any) -> dict[str, Any]:
    """Where the tool should be at a time, and how much of the approach is done."""
    at = corners()
    place = at[0] + 0.0 * t
    begin = DRAWS
    for k in range(4 * ROUNDS):
        place = place + smooth(t, begin, SIDES[k % 4]) * (at[(k + 1) % 4] - at[k % 4])
        begin += SIDES[k % 4]
    return {"place": place, "near": smooth(t, *APPROACH)}


# -- from the tool to the joints


def nearer(model: Model, q: Array, place: Array) -> dict[str, Array]:
    """One step of the search: q moved by J^T (J J^T + d 1)^-1 e, and the error e that there was, m and rad."""
    X = kinematics.frame_pose(model, q, TOOL)
    turned = sum((cross(X.R[:, i], DOWN[:, i]) for i in range(3)), np.zeros(3)) * 0.5
    error = np.concatenate([place - X.p, turned])
    J = kinematics.jacobian(model, q, TOOL)
    return {"q": q + J.T @ cholesky_solve(J @ J.T + DAMPED * np.eye(6), error), "error": error}


def moving(model: Model, q: Array, velocity: Array, acceleration: Array) -> dict[str, Array]:
    """Velocities and accelerations of the joints for those of the tool, which does not turn:  J v = V,  J a = A - Jdot v."""
    J = kinematics.jacobian(model, q, TOOL)
    v = _through(J, np.concatenate([velocity, np.zeros(3)]))
    drift = kinematics.jacobian_rate(model, q, v, TOOL) @ v
    return {"v": v, "a": _through(J, np.concatenate([acceleration, np.zeros(3)]) - drift)}


def _through(J: Array, motion: Array) -> Array:
    """J^-1 motion."""
    return J.T @ cholesky_solve(J @ J.T, motion)


@cache
def compiled() -> tuple[Function, Function, tuple[Function, ...]]:
    """(nearer, moving, the plan with its first two derivatives) as machine code."""
    orders = [function(rectangle, t=())]
    for _ in range(2):
        orders.append(orders[-1].jacobian())
    return robot().function(nearer, place=3), robot().function(moving, velocity=3, acceleration=3), tuple(orders)


def joints_for(places: np.ndarray, start: Any = BESIDE) -> np.ndarray:
    """(..., 6): the joints with the tool down at these places (..., 3), found by steps of Newton from `start`."""
    places = np.asarray(places, dtype=float)
    q: np.ndarray = np.broadcast_to(np.asarray(start, dtype=float), (*places.shape[:-1], 6)).copy()
    step = compiled()[0]
    for _ in range(SEARCHED):
        q, error = step(q, places)
        if np.abs(error).max(initial=0.0) <= NEAR:
            break
    else:
        raise ControlError(_out_of_reach(places, error))
    # a joint that went round ends within half a turn
    turns: np.ndarray = np.where(np.abs(q) > pi, np.rint(q * (0.5 / pi)), 0.0)
    return q - 2.0 * pi * turns


def _out_of_reach(places: np.ndarray, error: np.ndarray) -> str:
    left = np.abs(error).reshape(-1, 6).max(axis=-1)
    place = np.round(places.reshape(-1, 3)[int(np.argmax(left))], 4)
    return (
        f"no joints were found that put the tool down at {place.tolist()} m: after {SEARCHED} steps {left.max():.3g} m or rad "
        "are left; choose a place that is nearer to the arm, and not within 0.1 m of the axis of its base"
    )


# -- all of it over time


@dataclass(frozen=True)
class Way:
    """At every time: joints, their velocities and accelerations, (times, 6); where the tool should be, (times, 3), and whether
    it draws."""

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    place: np.ndarray
    drawing: np.ndarray


def demonstration(t: np.ndarray) -> Way:
    """From the ready pose to the rectangle, and round it."""
    _, joints, orders = compiled()
    (place, near), (velocity, near1), (acceleration, near2) = (order(t) for order in orders)
    drawing = t >= DRAWS
    q = np.empty((len(t), 6))
    q[drawing] = joints_for(place[drawing])
    first = joints_for(place[:1])[0]
    q[~drawing] = np.array(READY) + near[~drawing, None] * (first - READY)
    v, a = near1[:, None] * (first - READY), near2[:, None] * (first - READY)
    v[drawing], a[drawing] = joints(q[drawing], velocity[drawing], acceleration[drawing])
    return Way(t, q, v, a, place, drawing)
