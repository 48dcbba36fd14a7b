"""Wheels: thin round discs that roll without slipping, in the plane on flat ground or a curve, and in space on flat ground."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.dynamics.kinematics import ancestors, axes, poses
from condyle.errors import RobotError
from condyle.robot.edit import only
from condyle.robot.joints import Prismatic, Revolute
from condyle.robot.model import Model
from condyle.robot.spatial import Array, cross, vector
from condyle.tape.array import where
from condyle.tape.local_derivatives import derivative_at_zero
from condyle.tape.scalar import constant

UP = np.array([0.0, 0.0, 1.0])
FLAT = 1e-9  # how far an axis may lean out of the plane


@dataclass(frozen=True)
class Wheel:
    """A disc about the axis of a hinge, through the hinge's origin."""

    link: int
    joint: str
    radius: float

    @staticmethod
    def of(model: Model, joint: str, radius: float) -> Wheel:
        i = only(model, joint)
        kind = model.links[i].kind
        if not isinstance(kind, Revolute):
            raise RobotError([f"robot '{model.name}': joint '{joint}' does not turn about an axis, so no wheel is on it"])
        if not isinstance(radius, int | float | np.number) or not (np.isfinite(radius) and radius > 0.0):
            raise RobotError([f"robot '{model.name}': the radius of wheel '{joint}' must be a positive number, got {radius!r}"])
        return Wheel(i, joint, float(radius))

    def center(self, model: Model, q: Array) -> Array:
        return poses(model, q)[self.link].p

    def axle(self, model: Model, q: Array) -> Array:
        """The axis, in the world."""
        kind = model.links[self.link].kind
        assert isinstance(kind, Revolute)
        # the axis is the same on both sides of the hinge: the wheel's own angle does not enter
        still = np.array(q, dtype=object)
        still[model.links[self.link].q] = 0.0
        return poses(model, still)[self.link].R @ np.array(kind.axis)

    def height(self, model: Model, q: Array) -> Any:
        """How high the disc's lowest point is above z = 0."""
        a = self.axle(model, q)
        lean = np.sqrt(1.0 - a[2] * a[2]) if not _level(a) else 1.0
        return self.center(model, q)[2] - self.radius * lean

    def directions(self, model: Model, q: Array) -> tuple[Array, Array, Array]:
        """(forward, sideways, from the centre to the lowest point), in the world; forward is where a positive spin rolls."""
        a = self.axle(model, q)
        if _level(a):
            return cross(a, UP), vector(a[0], a[1], 0.0), UP * -self.radius
        across = 1.0 / np.sqrt(1.0 - a[2] * a[2])
        forward = cross(a, UP) * across
        return forward, vector(a[0], a[1], 0.0) * across, cross(a, forward) * self.radius

    def contact_rows(self, model: Model, q: Array) -> Array:
        """The velocity of the lowest point along (up, forward, sideways) by v, (3, nv)."""
        X = poses(model, q)
        S = axes(model, X)
        forward, sideways, arm = self.directions(model, q)
        point = self.center(model, q) + arm
        J = np.zeros((3, model.nv), dtype=object)
        for i in ancestors(model, self.link):
            for k in range(model.links[i].v.start, model.links[i].v.stop):
                J[:, k] = S[k].linear + cross(S[k].angular, point)
        return np.array([J[2], forward @ J, sideways @ J])


def _level(a: Array) -> bool:
    return constant(a[2]) == 0.0


# ---- in the plane


@dataclass(frozen=True)
class PlanarWheel:
    """A wheel under a robot that moves in the x-z plane, with what its geometry needs to know."""

    wheel: Wheel
    x: int  # links of the base's slides
    z: int
    senses: dict[int, float]  # +1 or -1: how each hinge that carries the wheel turns about +y
    ground: Callable[[Any], Any] | None  # the height of the ground by x; None: zero

    @staticmethod
    def of(model: Model, wheel: Wheel, ground: Callable[[Any], Any] | None) -> PlanarWheel:
        who = f"robot '{model.name}': wheel '{wheel.joint}'"
        x, z = model.base_link("x"), model.base_link("z")
        if x is None or z is None:
            raise RobotError(
                [f"{who} in the plane needs the base planar (slides along x and z): load the robot with base='planar'"]
            )
        X, senses = poses(model, model.neutral()), {}
        for i in ancestors(model, wheel.link):
            kind = model.links[i].kind
            if isinstance(kind, Prismatic):
                leaves = abs(float((X[i].R @ np.array(kind.axis))[1])) > FLAT
            else:
                axis = np.asarray(X[i].R @ np.array(kind.axis), dtype=float) if isinstance(kind, Revolute) else np.zeros(3)
                leaves = abs(abs(axis[1]) - 1.0) > FLAT
                senses[i] = float(np.sign(axis[1]))
            if leaves:
                raise RobotError([f"{who}: joint '{model.links[i].joint}' leaves the x-z plane, so it does not roll in it"])
        return PlanarWheel(wheel, x, z, senses, ground)

    def flat(self, model: Model, x: Array) -> Array:
        """x with the base's height and the wheel's angle set so that it rolls on z = 0, angle zero with its centre at x = 0."""
        own = model.links[self.wheel.link].q.start
        out = np.array(x, dtype=object)
        out[model.links[self.z].q], out[own] = 0.0, 0.0
        center = self.wheel.center(model, out)
        out[model.links[self.z].q.start] = self.wheel.radius - center[2]
        turned = sum((out[model.links[i].q.start] * s for i, s in self.senses.items() if i != self.wheel.link), 0.0)
        out[own] = (center[0] * (1.0 / self.wheel.radius) - turned) * self.senses[self.wheel.link]
        return out

    def curve_center(self, s: Any) -> Array:
        """The wheel's centre when it touches the curve at x = s."""
        assert self.ground is not None
        height = self.ground
        slope = derivative_at_zero(lambda t: {"z": np.array([height(s + t)], dtype=object)})["z"][0]
        length = 1.0 / np.sqrt(slope * slope + 1.0)
        return vector(s - self.wheel.radius * (slope * length), 0.0, height(s) + self.wheel.radius * length)

    def on_curve(self, model: Model, x: Array) -> Array:
        """x, whose entry for the base's x is the s of the contact, with the base where the wheel touches the curve there."""
        s = x[model.links[self.x].q.start]
        out = np.array(x, dtype=object)
        out[model.links[self.x].q], out[model.links[self.z].q] = 0.0, 0.0
        center, at = self.wheel.center(model, out), self.curve_center(s)
        out[model.links[self.x].q.start], out[model.links[self.z].q.start] = at[0] - center[0], at[2] - center[2]
        return out

    def curve_spin(self, s: Any) -> Any:
        """How fast the wheel turns about +y for ds/dt = 1: the speed of its centre along the curve, over its radius.

        Not a number where the wheel is too large for the hollow it is in.
        """
        assert self.ground is not None
        height = self.ground
        slope = derivative_at_zero(lambda t: {"z": np.array([height(s + t)], dtype=object)})["z"][0]
        velocity = derivative_at_zero(lambda t: {"c": self.curve_center(s + t)})["c"]
        speed = (velocity[0] + velocity[2] * slope) / np.sqrt(slope * slope + 1.0)
        return where(speed > 0.0, speed, np.nan) * (1.0 / self.wheel.radius)
