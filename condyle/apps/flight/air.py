"""The air around a vehicle: drag of the body, ground effect, and blade flapping of the rotors.

drag, at a point of the body, in its axes:   F = -(linear + quadratic |u|) u          u: velocity relative to the air
ground effect (Cheeseman and Bennett 1955):  f = f_free / (1 - (R / (4 z))^2)         z: height of the rotor of radius R
flapping, first order (Mahony et al. 2012):  the thrust leans back by the angle c u   u: velocity across the rotor's axis
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.closed_loop.block import Block
from condyle.errors import ControlError
from condyle.robot.spatial import cross
from condyle.tape.array import array

LOWEST = 0.5  # height over radius, below which the ground effect grows no more: the formula is not valid there


class Air(Block):
    """Drag of the body, ground effect and flapping; each is off unless its number or switch is given.

    `linear` (N s/m) and `quadratic` (N s^2/m^2): drag along the axes of the base, one number or three. `spin`: N m s, torque
    against the body's rate, likewise. `center`: of the drag, from the origin of the base, m; the centre of mass by default.
    `ground_effect`: of rotors over the ground of the simulation, or over a plane at `ground_height`. `flapping`: whether the
    rotors' numbers of flapping and hub stiffness act. `density` in kg/m^3, of the power of rotors.
    """

    def __init__(
        self,
        linear: Any = 0.0,
        quadratic: Any = 0.0,
        *,
        spin: Any = 0.0,
        center: Any = None,
        ground_effect: bool = False,
        ground_height: float = 0.0,
        flapping: bool = False,
        density: float = 1.225,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.has_drag = bool(np.any(linear) or np.any(quadratic))
        self.has_spin = bool(np.any(spin))
        self.linear = self._three("linear", linear, "N s/m")
        self.quadratic = self._three("quadratic", quadratic, "N s^2/m^2")
        self.spin = self._three("spin", spin, "N m s")
        self.center = None if center is None else self.parameter("center", center, "m")
        self.ground_effect, self.flapping = ground_effect, flapping
        self.ground_height = self.parameter("ground_height", ground_height, "m")
        self.density = self.parameter("density", density, "kg/m^3", minimum=1e-6)

    def _three(self, name: str, value: Any, unit: str) -> Any:
        try:
            three = np.broadcast_to(np.asarray(value, dtype=float), (3,))
        except (TypeError, ValueError):
            raise ControlError(f"Air: {name} must be one number or three along the body's axes, got {value!r:.60}") from None
        return self.parameter(name, three, unit, minimum=0.0)

    def step(self, state: dict[str, Any], x: Any, wind: Any, base: str, center: Any) -> tuple[Any, dict[str, Any]]:
        """The wrench of drag at the origin of the frame `base`, in its axes; `center`: of mass, in the base."""
        V = x.frame_velocity(base, "local")
        R = x.frame_pose(base).R
        at = center if self.center is None else +self.center
        force = body_drag(V.linear + cross(V.angular, at) - R.T @ wind, self.linear, self.quadratic)
        torque = cross(at, force) - V.angular * self.spin
        return array([*force, *torque]), {}

    def height(self, x: Any, p: Any) -> Any:
        """The height of a point over the ground, m."""
        return p[2] - self.ground_height if x.world.ground is None else x.world.ground.distance(p)[0]


def body_drag(u: Any, linear: Any, quadratic: Any) -> Any:
    """-(linear + quadratic |u|) u for the velocity u relative to the air, (3,)."""
    speed = np.sqrt(u @ u + 1e-60)
    return -(u * linear + u * quadratic * speed)


def ground_effect(height: Any, radius: Any) -> Any:
    """Thrust near the ground over that far from it: 1 / (1 - (R / (4 z))^2), from z = LOWEST R up."""
    ratio = radius / (4.0 * np.maximum(height, LOWEST * radius))
    return 1.0 / (1.0 - ratio * ratio)


def flapping(thrust: Any, u: Any, lean: Any, stiffness: Any) -> tuple[Any, Any]:
    """(force, torque) on the hub in the rotor's axes: the disc leans back by `lean` u, u relative to the air across z.

    force = -thrust lean (u_x, u_y, 0),  torque = stiffness lean (u_y, -u_x, 0).
    """
    a, b = lean * u[0], lean * u[1]
    return array([-thrust * a, -thrust * b, 0.0 * a]), array([stiffness * b, -(stiffness * a), 0.0 * a])


def induced_power(thrust: Any, radius: Any, density: Any) -> Any:
    """The power of a hovering rotor by momentum theory, f^(3/2) / sqrt(2 density pi R^2), W."""
    f = np.maximum(thrust, 0.0)
    return f * np.sqrt(f / (2.0 * np.pi * density * radius * radius) + 1e-60)
