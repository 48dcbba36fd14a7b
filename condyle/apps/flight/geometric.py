"""Geometric control on SE(3) (Lee, Leok and McClamroch 2010) for airframes with tilting rotors, as a block.

A force for the position, an attitude for the force, a torque for the attitude, and the rotors that give both:

    a = a_ref + kp (p_ref - p) + kv (v_ref - v),    F = m (a + g e_z),
    T = I (alpha_ref - kR e_R - kw (w - w_ref)) + w x I w,     e_R = vee(R_ref^T R - R^T R_ref) / 2

An airframe that gives any wrench stays level at the heading and points its rotors. One with two rotors points its z axis along
the force, and computes (F_z, T): its forward force is what the torques make of it, and the law allows for that of the trajectory.
Hovering, it must be level: a roll leaves a side force that nothing balances.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.apps.flight.allocation import DIGITS, Allocation
from condyle.apps.flight.quaternions import matrix_times, rotation
from condyle.apps.flight.references import FLAT, Samples, Trajectory
from condyle.apps.flight.single_body import SingleBody, single_body
from condyle.closed_loop.block import Block
from condyle.errors import ControlError
from condyle.robot.spatial import cross, vector

Array = Any

POSITION_GAIN, VELOCITY_GAIN = 4.0, 3.4  # 1/s^2 and 1/s
ATTITUDE_GAIN, RATE_GAIN = (64.0, 49.0, 16.0), (14.0, 11.0, 7.0)  # 1/s^2 and 1/s
MAX_ACCELERATION = 6.0  # m/s^2, of each axis: a tilt of 31 degrees
MIN_UPRIGHT = 0.3  # cosine of the tilt beyond which more thrust does not compensate it
GIMBAL_LAG, THRUST_LAG = 0.05, 0.04  # s, which the law makes of longer ones by commanding more


@dataclass(frozen=True)
class FlatReference:
    """The 18 numbers of a row of `Samples.rows`: position with four derivatives, heading with two."""

    position: Array
    velocity: Array
    acceleration: Array
    jerk: Array
    snap: Array
    heading: Any
    yaw_rate: Any
    yaw_acceleration: Any

    @staticmethod
    def of(row: Array) -> FlatReference:
        """The parts of a row."""
        return FlatReference(row[:3], row[3:6], row[6:9], row[9:12], row[12:15], row[15], row[16], row[17])


@dataclass(frozen=True)
class Gains:
    """The gains of the law, and the mass and gravity that it assumes."""

    position: Any
    velocity: Any
    attitude: Any
    rate: Any
    mass: Any
    gravity: Any


def wanted_acceleration(x: Array, r: FlatReference, gains: Gains) -> Array:
    """The acceleration that leads back to the trajectory, within limits."""
    asked = r.acceleration + gains.position * (r.position - x[:3]) + gains.velocity * (r.velocity - x[3:6])
    return np.minimum(np.maximum(asked, np.full(3, -MAX_ACCELERATION)), np.full(3, MAX_ACCELERATION))


def attitude_of_force(force: Array, heading: Any) -> tuple[Array, Any, Array, Any]:
    """(R with its z axis along the force and this heading, |force|, the horizontal x, |z x it|)."""
    strength = np.sqrt(force @ force)
    z = force * (1.0 / strength)
    ahead = vector(np.cos(heading), np.sin(heading), 0.0)
    across = cross(z, ahead)
    wide = np.sqrt(across @ across)
    y = across * (1.0 / wide)
    return np.array([cross(y, z), y, z]).T, strength, ahead, wide


def attitude_acceleration(x: Array, R: Array, R_wanted: Array, rate: Array, change: Array, gains: Gains) -> Array:
    """The angular acceleration, in body axes, that leads to an attitude with its rate and their change."""
    E = R_wanted.T @ R
    error = 0.5 * vector(E[2, 1] - E[1, 2], E[0, 2] - E[2, 0], E[1, 0] - E[0, 1])
    return change - gains.attitude * error - gains.rate * (x[10:13] - rate)


@dataclass(frozen=True)
class Wanted:
    """What the outer loops ask for: the acceleration in the world, and the angular acceleration in body axes."""

    acceleration: Array
    angular: Array
    R: Array


def outer_loops(
    allocation: Allocation,
    x: Array,
    r: FlatReference,
    gains: Gains,
    asked: Array,
    force: Array | None = None,
    torque: Array | None = None,
    measured: Array | None = None,
) -> Wanted:
    """The accelerations for a state and a reference; `asked`: of the position.

    `force`: the one of the rotors that gives it, by mass; `torque`: the one that comes with side forces, of the trajectory by
    default; `measured`: the acceleration, what the model says of the thrust by default.
    """
    body, R = allocation.body, rotation(x[6:10])
    up = vector(0.0, 0.0, 1.0) * gains.gravity
    if allocation.rank == 6:
        c, s = np.cos(r.heading), np.sin(r.heading)
        R_wanted = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        to_body = R.T[:, 2]
        found = attitude_acceleration(x, R, R_wanted, to_body * r.yaw_rate, to_body * r.yaw_acceleration, gains)
        return Wanted(asked, found, R)
    # angular acceleration of the trajectory alone, and the sideways forces that come with it
    planned = r.acceleration + up
    change = cross(planned, r.snap) * (1.0 / (planned @ planned)) + vector(0.0, 0.0, 1.0) * r.yaw_acceleration
    change = R.T @ change
    sideways = _side_forces(allocation, matrix_times(body.inertia, change) if torque is None else torque)
    force = asked + up if force is None else force
    force = force - (R[:, 0] * sideways[0] + R[:, 1] * sideways[1]) * (1.0 / gains.mass)
    R_wanted, strength, ahead, wide = attitude_of_force(force, r.heading)
    z = R_wanted[:, 2]
    # angular velocity of that attitude, with the thrust along the present z axis
    now = (force @ R[:, 2]) * R[:, 2] - up if measured is None else measured
    slow = r.velocity - x[3:6]
    hurry = r.jerk + gains.position * slow + gains.velocity * (r.acceleration - now)
    tipping = (hurry - (hurry @ z) * z) * (1.0 / strength)
    sideway = vector(-ahead[1], ahead[0], 0.0) * r.yaw_rate
    about_z = -(R_wanted[:, 0] @ (cross(tipping, ahead) + cross(z, sideway))) * (1.0 / wide)
    rate = R.T @ (cross(z, tipping) + about_z * z)
    return Wanted(asked, attitude_acceleration(x, R, R_wanted, rate, change, gains), R)


def rotor_components(allocation: Allocation, R: Array, force: Array, torque: Array) -> list[tuple[Any, Any]]:
    """(s, c) of each rotor for a force (world) and a torque (body): all of both, or the upward force and the torque."""
    if allocation.rank == 6:
        return allocation.components(np.concatenate([R.T @ force, torque]))
    sideways = _side_forces(allocation, torque)
    upright = np.maximum(R[2, 2], MIN_UPRIGHT)
    lift = (force[2] - (R[2, 0] * sideways[0] + R[2, 1] * sideways[1])) / upright
    return allocation.components_of_lift(lift, torque)


def commands(allocation: Allocation, x: Array, components: list[tuple[Any, Any]]) -> Array:
    """Thrust commands and gimbal commands, within limits: each rotor gives the part of its force along its present axis."""
    body = allocation.body
    thrusts: list[Any] = []
    angles = x[13 : 13 + body.n_g]
    place = {rotor: 13 + body.n_g + k for k, rotor in enumerate(body.lagging)}
    for i, ((s, c), k) in enumerate(zip(components, body.gimbal, strict=True)):
        f = c if k < 0 else s * np.sin(angles[k]) + c * np.cos(angles[k])
        if i in place and body.lags[i] > THRUST_LAG:
            f = x[place[i]] + (f - x[place[i]]) * float(body.lags[i] / THRUST_LAG)
        thrusts.append(_clipped(f, *body.thrust[i]))
    targets = allocation.controls(components)[1]
    found = []
    for k in range(body.n_g):
        lead = max(float(body.servo_lags[k]) / GIMBAL_LAG, 1.0)
        found.append(_clipped(angles[k] + (targets[k] - angles[k]) * lead, *body.angle[k]))
    return vector(*thrusts, *found)


def law(allocation: Allocation, x: Array, row: Array, gains: Gains) -> Array:
    """The command for a state and a reference of 18 numbers."""
    body, r = allocation.body, FlatReference.of(row)
    asked = wanted_acceleration(x, r, gains)
    wanted = outer_loops(allocation, x, r, gains, asked)
    w = x[10:13]
    torque = matrix_times(body.inertia, wanted.angular) + cross(w, matrix_times(body.inertia, w))
    force = (asked + vector(0.0, 0.0, 1.0) * gains.gravity) * gains.mass
    return commands(allocation, x, rotor_components(allocation, wanted.R, force, torque))


class FlatController(Block):
    """A controller that follows a position with its derivatives and a heading: gains as parameters, mass and gravity too."""

    def __init__(
        self,
        airframe: Any,
        *,
        gravity: float = 9.81,
        every: int = 1,
        name: str | None = None,
        position_gain: Any = POSITION_GAIN,
        velocity_gain: Any = VELOCITY_GAIN,
        attitude_gain: Any = ATTITUDE_GAIN,
        rate_gain: Any = RATE_GAIN,
    ) -> None:
        super().__init__(name=name, every=every)
        self.body = airframe if isinstance(airframe, SingleBody) else single_body(airframe, gravity)
        self.allocation = Allocation(self.body)
        if self.allocation.rank < 6:
            _ = self.allocation.lift_and_torque
        self.own = {
            "position": self.parameter("position_gain", position_gain, "1/s^2", minimum=0.0),
            "velocity": self.parameter("velocity_gain", velocity_gain, "1/s", minimum=0.0),
            "attitude": self.parameter("attitude_gain", attitude_gain, "1/s^2", minimum=0.0),
            "rate": self.parameter("rate_gain", rate_gain, "1/s", minimum=0.0),
            "mass": self.parameter("mass", self.body.mass, "kg", minimum=1e-6),
            "gravity": self.parameter("gravity", self.body.gravity, "m/s^2"),
        }

    @property
    def reference_size(self) -> int:
        """Numbers of a reference: position and its four derivatives, heading and its two."""
        return FLAT

    def references(self, trajectory: Trajectory | Samples, times: Any) -> np.ndarray:
        """(times, 18): what to follow."""
        return (trajectory if isinstance(trajectory, Samples) else trajectory.sample(times)).rows()

    def gains(self) -> Gains:
        """The gains of the call."""
        return Gains(**{key: each.resolve() for key, each in self.own.items()})


class Geometric(FlatController):
    """Geometric control as a block: (measured state, reference of 18 numbers) -> (thrust commands, gimbal commands)."""

    def step(self, state: dict[str, Any], *inputs: Any, **given: Any) -> tuple[Any, dict[str, Any]]:
        """The command; `force` (world, N): a disturbance that it compensates."""
        x, reference = inputs
        if strange := [key for key in given if key not in ("force", "torque")]:
            raise ControlError(f"block '{self.name}' takes force= of a disturbance, not {strange[0]}=")
        gains = self.gains()
        if "force" in given:
            # the same as a trajectory with more acceleration
            reference = np.concatenate([reference[:6], reference[6:9] - given["force"] * (1.0 / gains.mass), reference[9:]])
        return law(self.allocation, x, reference, gains), {}


def _side_forces(allocation: Allocation, torque: Array) -> list[Any]:
    """(F_x, F_y) in body axes that come with a torque, where they cannot be chosen."""
    coupling = np.round(allocation.matrix[:2] @ allocation.lift_and_torque[:, 1:], DIGITS) + 0.0
    return list(matrix_times(coupling, torque))


def _clipped(x: Any, low: float, high: float) -> Any:
    return np.minimum(np.maximum(x, float(low)), float(high))
