"""Allocation: the wrench of all rotors is linear in s = f sin(a) and c = f cos(a) of each, and so is its pseudo-inverse.

    (force, torque) = A (s_1, c_1, s_2, c_2, ...),      f = sqrt(s^2 + c^2),   a = atan2(s, c)

A rotor without gimbal has no s. Two tilting rotors have four columns, of rank four: forces along the line between them are
impossible, and a forward force comes with a torque.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from condyle.apps.flight.quaternions import conjugate, quaternion_product, rotated
from condyle.apps.flight.single_body import SingleBody
from condyle.errors import ControlError
from condyle.robot.spatial import cross, vector

Array = Any

DIGITS = 14  # of pseudo-inverses, behind the point


def allocation_matrix(body: SingleBody) -> np.ndarray:
    """(6, 2 n): force and torque in body axes for (s_1, c_1, s_2, c_2, ...); columns of fixed rotors' s are zero."""
    columns = []
    for i in range(body.n):
        for f in (cross(body.axes[i], body.directions[i]), body.directions[i]):
            columns.append(np.concatenate([f, np.cross(body.positions[i], f) - body.spin_directions[i] * body.drags[i] * f]))
    return np.array(columns).T


@dataclass(frozen=True)
class Allocation:
    """The matrix of an airframe with its pseudo-inverse, and what of a wrench it can give."""

    body: SingleBody

    @cached_property
    def matrix(self) -> np.ndarray:
        """(6, 2 n)."""
        return allocation_matrix(self.body)

    @cached_property
    def inverse(self) -> np.ndarray:
        """(2 n, 6): of all (s, c) whose wrench is closest, the smallest. Rounded, so that no processor matters."""
        return np.round(np.linalg.pinv(self.matrix), DIGITS) + 0.0

    @cached_property
    def rank(self) -> int:
        """How many of the six components of a wrench can be chosen: six for three tilting rotors or more, four for two."""
        return int(np.linalg.matrix_rank(self.matrix))

    @cached_property
    def lift_and_torque(self) -> np.ndarray:
        """(2 n, 4): (s, c) for an upward force and three torques, which every airframe that hovers can give."""
        rows = self.matrix[2:]
        if np.linalg.matrix_rank(rows) < 4:
            raise ControlError(
                "the rotors cannot give an upward force and three torques independently of each other; the airframe cannot be "
                "stabilised: check positions, spin_directions and gimbals of its rotors"
            )
        return np.round(np.linalg.pinv(rows), DIGITS) + 0.0

    def components(self, wrench: Array) -> list[tuple[Any, Any]]:
        """(s, c) of each rotor for a wrench (6,) in body axes, by least squares."""
        return _pairs(self.inverse, wrench)

    def components_of_lift(self, lift: Any, torque: Array) -> list[tuple[Any, Any]]:
        """(s, c) of each rotor for an upward force and a torque in body axes; the other forces are what they are."""
        return _pairs(self.lift_and_torque, vector(lift, *torque))

    def thrusts_and_angles(self, wrench: Array) -> tuple[Array, Array]:
        """(thrusts, angles of the gimbals) for a wrench (6,) in body axes, by least squares, without limits."""
        return self.controls(self.components(wrench))

    def controls(self, components: list[tuple[Any, Any]]) -> tuple[Array, Array]:
        """(thrusts, angles) of (s, c); a gimbal with several rotors takes the angle of their sum, fixed rotors have only c."""
        thrusts: list[Any] = []
        sums: list[tuple[Any, Any]] = [(0.0, 0.0)] * self.body.n_g
        for (s, c), k in zip(components, self.body.gimbal, strict=True):
            thrusts.append(c if k < 0 else np.sqrt(s * s + c * c))
            if k >= 0:
                sums[k] = s + sums[k][0], c + sums[k][1]
        return vector(*thrusts), vector(*[np.arctan2(s, c) for s, c in sums])

    def hover(self, attitude: Array, mass: Any = None, gravity: Any = None) -> tuple[Array, Array]:
        """(thrusts, angles) that carry the weight best at an attitude (quaternion w, x, y, z)."""
        body = self.body
        weight = (body.mass if mass is None else mass) * (body.gravity if gravity is None else gravity)
        up = rotated(conjugate(attitude), vector(0.0, 0.0, 1.0))
        return self.thrusts_and_angles(np.concatenate([up * weight, np.zeros(3)]))

    def hover_error(self, attitude: Array) -> float:
        """The part of the weight that no thrusts and angles carry at an attitude, from 0 to 1: zero where it can hover."""
        up = np.asarray(rotated(conjugate(attitude), vector(0.0, 0.0, 1.0)), dtype=float)
        wrench = np.concatenate([up, np.zeros(3)])
        left = wrench - self.matrix @ (self.inverse @ wrench)
        return float(np.sqrt(left @ left))


def _pairs(inverse: np.ndarray, wrench: Array) -> list[tuple[Any, Any]]:
    found = []
    for row in inverse:
        total: Any = 0.0
        for a, x in zip(row, wrench, strict=True):
            total = total if a == 0.0 else x * float(a) if isinstance(total, float) and total == 0.0 else total + x * float(a)
        found.append(total)
    return list(zip(found[::2], found[1::2], strict=True))


def attitude_error(reference: Array, attitude: Array) -> Array:
    """The x, y, z of the error quaternion conj(q_ref) q, of quaternions w, x, y, z."""
    return quaternion_product(conjugate(reference), attitude)[1:]
