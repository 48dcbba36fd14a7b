"""Configurations are not vectors: how to go from one along a velocity, how to come from one to another, and the derivatives.

Derivatives are taken in the tangent space: a change of q is a small velocity there (nv numbers), not a change of nq numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.dynamics import rotations as so3
from condyle.dynamics.rotations import conjugate, normalized, quaternion_exp, quaternion_log, quaternion_product
from condyle.errors import RobotError
from condyle.robot.joints import Ball, Free, rotation_of
from condyle.robot.model import Link, Model
from condyle.robot.spatial import Array, Motion, Pose, cross, skew


def integrate(model: Model, q: Array, dv: Array) -> Array:
    """Where q is after unit time at the constant joint velocity dv, as Pinocchio's; quaternions come out with length one.

    A free joint follows a screw (its velocity is constant in its own frame), a ball joint turns about a fixed axis, others add.
    """
    out = np.zeros(model.nq, dtype=object)
    for _, link in model.outward():
        at, by = q[link.q], dv[link.v]
        if isinstance(link.kind, Ball):
            out[link.q] = normalized(quaternion_product(at, quaternion_exp(by)))
        elif isinstance(link.kind, Free):
            out[link.q][:3] = at[:3] + rotation_of(at[3:]) @ screw(by).p
            out[link.q][3:] = normalized(quaternion_product(at[3:], quaternion_exp(by[3:])))
        else:
            out[link.q] = at + by
    return out


def difference(model: Model, q0: Array, q1: Array) -> Array:
    """The joint velocity that goes from q0 to q1 in unit time, the shorter way round: integrate(q0, difference(q0, q1)) = q1."""
    out = np.zeros(model.nv, dtype=object)
    for _, link in model.outward():
        a, b = q0[link.q], q1[link.q]
        if isinstance(link.kind, Ball):
            out[link.v] = quaternion_log(quaternion_product(conjugate(a), b))
        elif isinstance(link.kind, Free):
            w = quaternion_log(quaternion_product(conjugate(a[3:]), b[3:]))
            away = rotation_of(a[3:]).T @ (b[:3] - a[:3])
            curl = cross(w, away)
            out[link.v][:3] = away - 0.5 * curl + so3.e(w @ w) * cross(w, curl)
            out[link.v][3:] = w
        else:
            out[link.v] = b - a
    return out


def normalized_configuration(model: Model, q: Array) -> Array:
    """q with quaternions of length one."""
    out = np.array(q, dtype=object)
    for link in model.links:
        if isinstance(link.kind, Ball | Free):
            out[link.q][-4:] = normalized(q[link.q][-4:])
    return out


def velocity_of_rate(model: Model, q: Array, rate: Array) -> Array:
    """The joint velocity at which q changes at the rate dq/dt; of a quaternion's, the part that keeps its length."""
    out = np.zeros(model.nv, dtype=object)
    for _, link in model.outward():
        at, by = q[link.q], rate[link.q]
        if isinstance(link.kind, Ball | Free):
            turn = quaternion_product(conjugate(at[-4:]), by[-4:])[:3] * (2.0 / (at[-4:] @ at[-4:]))
            shift = rotation_of(normalized(at[-4:])).T @ by[:3] if isinstance(link.kind, Free) else []
            out[link.v] = [*shift, *turn]
        else:
            out[link.v] = by
    return out


def screw(six: Array) -> Pose:
    """The pose after unit time at the constant velocity (linear, angular) in the moving frame: exp of SE(3)."""
    v, w = six[:3], six[3:]
    t, curl = w @ w, cross(w, v)
    return Pose(rotation_of(quaternion_exp(w)), v + so3.b(t) * curl + so3.c(t) * cross(w, curl))


def integrate_derivatives(model: Model, dv: Array) -> tuple[Array, Array]:
    """(by q, by dv) of `integrate`, nv x nv each, in the tangent spaces; the same at every q."""
    by_q, by_dv = _identity(model), _identity(model)
    for at in _quaternion_joints(model):
        if at.stop - at.start == 3:
            by_q[at, at] = rotation_of(quaternion_exp(dv[at])).T
        else:
            X = screw(dv[at])
            by_q[at, at] = np.array([X.carry(Motion.of(column)).vector() for column in np.eye(6)]).T
        by_dv[at, at] = _block(_right_jacobian, _right_derivative, dv[at])
    return by_q, by_dv


def tangent_rate(model: Model, dv: Array, v: Array) -> Array:
    """How fast dv changes while integrate(q, dv) moves at v: the inverse of integrate's derivative by dv, times v."""
    out = np.array(v, dtype=object)
    for at in _quaternion_joints(model):
        out[at] = _block(_inverse_right, _inverse_right_derivative, dv[at]) @ v[at]
    return out


def difference_derivatives(model: Model, q0: Array, q1: Array) -> tuple[Array, Array]:
    """(by q0, by q1) of `difference`, nv x nv each, in the tangent spaces."""
    by_q0, by_q1 = -_identity(model), _identity(model)
    d = difference(model, q0, q1)
    for at in _quaternion_joints(model):
        by_q0[at, at] = -_block(_inverse_right, _inverse_right_derivative, -d[at])
        by_q1[at, at] = _block(_inverse_right, _inverse_right_derivative, d[at])
    return by_q0, by_q1


def _quaternion_joints(model: Model) -> list[slice]:
    """The entries of v of ball and free joints."""
    return [link.v for link in model.links if isinstance(link.kind, Ball | Free)]


def _identity(model: Model) -> Array:
    return np.eye(model.nv).astype(object)


def _right_jacobian(w: Array) -> Array:
    """The right Jacobian of rotations, 1 - b W + c W^2: how exp(w) turns, in its own frame, when w changes."""
    t, W = w @ w, skew(w)
    return np.eye(3) - so3.b(t) * W + so3.c(t) * (W @ W)


def _right_derivative(w: Array, v: Array) -> Array:
    """The derivative of `_right_jacobian` along v."""
    t, W, V = w @ w, skew(w), skew(v)
    along = 2.0 * (w @ v)
    return so3.c(t) * (V @ W + W @ V) - so3.b(t) * V + along * (so3.c_derivative(t) * (W @ W) - so3.b_derivative(t) * W)


def _inverse_right(w: Array) -> Array:
    """The inverse of `_right_jacobian`, 1 + W/2 + e W^2."""
    W = skew(w)
    return np.eye(3) + 0.5 * W + so3.e(w @ w) * (W @ W)


def _inverse_right_derivative(w: Array, v: Array) -> Array:
    """The derivative of `_inverse_right` along v."""
    t, W, V = w @ w, skew(w), skew(v)
    return 0.5 * V + so3.e(t) * (V @ W + W @ V) + 2.0 * (w @ v) * so3.e_derivative(t) * (W @ W)


def _block(turn: Any, derivative: Any, d: Array) -> Array:
    """The 3 x 3 of a ball joint, or the 6 x 6 of a free one: a screw is a rotation in dual numbers, w + epsilon v."""
    if len(d) == 3:
        return turn(d)
    v, w = d[:3], d[3:]
    return np.block([[turn(w), derivative(w, v)], [np.zeros((3, 3)), turn(w)]])


def random_configuration(
    model: Model, rng: np.random.Generator, count: int | None = None, *, turn: float = np.pi, reach: float = 1.0
) -> np.ndarray:
    """A configuration drawn at random, or `count` of them in rows.

    Joints lie within their limits, or +-turn (rad) and +-reach (m) where there are none; quaternions are uniform over all
    rotations; the position of a free joint is within +-reach on each axis.
    """
    if not isinstance(rng, np.random.Generator) or not (count is None or (isinstance(count, int | np.integer) and count >= 0)):
        raise RobotError(
            f"a random configuration needs np.random.default_rng(seed) and a count, got {rng!r:.40} and {count!r:.40}"
        )
    rows = np.zeros((1 if count is None else count, model.nq))
    for _, link in model.outward():
        rows[:, link.q] = _random_joint(link, rng, len(rows), turn, reach)
    return rows[0] if count is None else rows


def _random_joint(link: Link, rng: np.random.Generator, count: int, turn: float, reach: float) -> np.ndarray:
    if isinstance(link.kind, Ball | Free):
        quaternions = rng.standard_normal((count, 4))
        squares = quaternions * quaternions
        quaternions /= np.sqrt(squares[:, 0] + squares[:, 1] + squares[:, 2] + squares[:, 3])[:, None]
        positions = rng.uniform(-reach, reach, (count, link.kind.nq - 4))
        return np.hstack([positions, quaternions])
    far = turn if np.any(link.axes[0].angular) else reach
    lower, upper = link.limits.lower, link.limits.upper
    return rng.uniform(-far if lower is None else lower, far if upper is None else upper, (count, 1))
