"""An airframe as its flight controller sees it: one rigid body, rotors that tilt without inertia, servos and thrusts with lags.

State: position of the centre of mass (3), its velocity in the world (3), quaternion w, x, y, z (4), body rate (3), gimbal angles,
and the thrusts of rotors with a lag. Control: thrust commands, gimbal commands. With the thrust f_i along n_i(a) in body axes,

    m v' = R sum f_i n_i - m g e_z + force,     I w' = sum (p_i x f_i n_i - spin_i drag f_i n_i) - w x I w + torque,
    a' = (command - a) / servo_lag,             f' = (command - f) / lag

The centre of mass and the inertia are those of gimbals at zero. The multibody has both, and the momentum of its gimbals, change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from condyle.apps.flight.airframe import Airframe
from condyle.apps.flight.quaternions import combination, is_zero, matrix_times, plus, quaternion_product, rotated, sparse_cross
from condyle.closed_loop.block import Block
from condyle.dynamics.energy import center_of_mass, momentum, total_mass
from condyle.dynamics.kinematics import poses
from condyle.errors import ControlError
from condyle.methods.mpc.dynamics import INTEGRATORS
from condyle.methods.mpc.space import quaternion
from condyle.robot.model import Model
from condyle.robot.spatial import cross, vector
from condyle.tape.array import array
from condyle.tape.function import Function, function

Array = Any

DT = 0.005  # s, of a Runge-Kutta step
SMALL_PRODUCT = 0.01  # products of inertia below this part of the least moment are left out


@dataclass(frozen=True)
class SingleBody:
    """The numbers of the model, SI units, body axes from the centre of mass; `single_body` makes one of an airframe.

    `directions` (n, 3): of the thrusts at zero angles; `axes` (n, 3): about which they tilt; `gimbal` (n,): which angle tilts
    each rotor, -1 for none. `thrust` (n, 2) and `angle` (n_g, 2): limits. `lags` (n,): of thrusts, zero for none. Published
    records are those of steps that leave the quaternion's length as it is, by default; `unit_quaternion` makes it one.
    """

    mass: float
    inertia: np.ndarray
    positions: np.ndarray
    directions: np.ndarray
    axes: np.ndarray
    gimbal: tuple[int, ...]
    spin_directions: np.ndarray
    drags: np.ndarray
    thrust: np.ndarray
    angle: np.ndarray
    lags: np.ndarray
    servo_lags: np.ndarray
    gravity: float
    gimbals: tuple[str, ...]
    model: Model | None = None
    unit_quaternion: bool = False  # whether a step ends with a quaternion of length one

    @property
    def n(self) -> int:
        """Rotors."""
        return len(self.positions)

    @property
    def n_g(self) -> int:
        """Gimbals."""
        return len(self.gimbals)

    @property
    def lagging(self) -> tuple[int, ...]:
        """The rotors whose thrust is a state."""
        return tuple(i for i in range(self.n) if self.lags[i] > 0.0)

    @property
    def nx(self) -> int:
        """Numbers of a state."""
        return 13 + self.n_g + len(self.lagging)

    @property
    def nu(self) -> int:
        """Numbers of a control: thrust commands, gimbal commands."""
        return self.n + self.n_g

    @property
    def parts(self) -> dict[str, Any]:
        """The named parts of a state, as condyle.ocp takes them."""
        found: dict[str, Any] = {"position": 3, "velocity": 3, "attitude": quaternion("wxyz"), "rate": 3}
        found |= {"angle": self.n_g} if self.n_g else {}
        return found | ({"rotor_thrust": len(self.lagging)} if self.lagging else {})

    @cached_property
    def inverse_inertia(self) -> np.ndarray:
        """The inverse of the inertia; of a diagonal one, entry by entry."""
        d = np.diag(self.inertia)
        diagonal = np.array_equal(self.inertia, np.diag(d))
        return np.diag(1.0 / d) if diagonal else np.linalg.inv(self.inertia)

    @property
    def hover_thrust(self) -> float:
        """The weight by the number of rotors, N."""
        return self.mass * self.gravity / self.n

    def trim(self) -> np.ndarray:
        """The control that carries the weight while level, gimbals at zero: of rotors that thrust upwards."""
        return np.concatenate([np.full(self.n, self.hover_thrust), np.zeros(self.n_g)])

    def state(
        self, position: Any = (0.0, 0.0, 0.0), attitude: Any = (1.0, 0.0, 0.0, 0.0), velocity: Any = (0.0, 0.0, 0.0)
    ) -> np.ndarray:
        """A state without rotation, gimbals at zero, thrusts that hover; `attitude`: quaternion w, x, y, z."""
        parts = [position, velocity, attitude, np.zeros(3 + self.n_g), np.full(len(self.lagging), self.hover_thrust)]
        return np.concatenate([np.asarray(part, dtype=float) for part in parts])

    def trace_data(self) -> tuple[Any, ...]:
        """All that a trace which uses the body depends on."""
        return tuple(getattr(self, each.name) for each in fields(self))

    # ---- physics, for any scalar

    def thrusts(self, x: Array, u: Array) -> list[Any]:
        """The thrust of each rotor: a state if it has a lag, else its command."""
        place = {rotor: 13 + self.n_g + k for k, rotor in enumerate(self.lagging)}
        return [x[place[i]] if i in place else u[i] for i in range(self.n)]

    def direction(self, rotor: int, angles: Array) -> Array:
        """The direction of a thrust in body axes:  n cos a + (axis x n) sin a."""
        n, k = self.directions[rotor], self.gimbal[rotor]
        if k < 0:
            return n
        return combination(n, np.cos(angles[k]), cross(self.axes[rotor], n), np.sin(angles[k]))

    def wrench(self, thrusts: Array, angles: Array, drag: Any = None) -> tuple[Array, Array]:
        """(force, torque about the centre of mass) of all rotors in body axes."""
        force: list[Any] = []
        torque: list[Any] = []
        for i in range(self.n):
            n = self.direction(i, angles)
            f = [0.0 if is_zero(c) else thrusts[i] * c for c in n]
            d = self.drags[i] if drag is None else drag
            turning = sparse_cross(self.positions[i], f)
            twisting = [0.0 if is_zero(c) else c * (d * float(-self.spin_directions[i])) for c in f]
            force = f if not force else [plus(a, b) for a, b in zip(force, f, strict=True)]
            both = [plus(a, b) for a, b in zip(turning, twisting, strict=True)]
            torque = both if not torque else [plus(a, b) for a, b in zip(torque, both, strict=True)]
        return vector(*force), vector(*torque)

    def derivative(self, x: Array, u: Array, p: Mapping[str, Any] | None = None) -> Array:
        """dx/dt. `p`: "mass", "gravity", "drag" (of all rotors), "force" (world) and "torque" (body), where they differ."""
        p = p or {}
        v, q, w, angles = x[3:6], x[6:10], x[10:13], x[13 : 13 + self.n_g]
        force, torque = self.wrench(self.thrusts(x, u), angles, p.get("drag"))
        if "torque" in p:
            torque = torque + p["torque"]
        world = rotated(q, force)
        if "force" in p:
            world = world + p["force"]
        mass = p.get("mass", self.mass)
        acceleration = world / mass - vector(0.0, 0.0, 1.0) * p.get("gravity", self.gravity)
        turning = matrix_times(self.inverse_inertia, torque - cross(w, matrix_times(self.inertia, w)))
        parts = [v, acceleration, 0.5 * quaternion_product(q, vector(0.0, *w)), turning]
        if self.n_g:
            parts.append((u[self.n :] - angles) / self.servo_lags)
        for k, i in enumerate(self.lagging):
            parts.append(vector((u[i] - x[13 + self.n_g + k]) / float(self.lags[i])))
        return np.concatenate(parts)

    def step(self, x: Array, u: Array, p: Mapping[str, Any] | None = None, dt: Any = DT) -> Array:
        """The state after `dt` by the classical Runge-Kutta method, its quaternion of length one with `unit_quaternion`."""
        rate = total = self.derivative(x, u, p) * 0.0
        at = x
        for ahead, weight in INTEGRATORS["rk4"]:
            rate = self.derivative(at, u, p)
            total = total + rate * weight
            at = x + rate * (ahead * dt)
        x1 = x + total * dt
        if not self.unit_quaternion:
            return x1
        q = x1[6:10]
        return np.concatenate([x1[:6], q * (1.0 / np.sqrt(q @ q)), x1[10:]])

    @cached_property
    def simulate(self) -> Function:
        """The compiled step of (x, u), one or a batch; "mass", "gravity", "drag", "force" and "torque" as parameters."""
        from condyle.tape.parameter import parameter

        p = {name: parameter(name, value) for name, value in self.defaults().items()}
        return function(lambda x, u: self.step(x, u, {name: each.resolve() for name, each in p.items()}), x=self.nx, u=self.nu)

    def defaults(self) -> dict[str, Any]:
        """What `derivative` takes as p, with the values of the model."""
        drag = float(self.drags.mean())
        return {"mass": self.mass, "gravity": self.gravity, "drag": drag, "force": np.zeros(3), "torque": np.zeros(3)}

    # ---- to and from the multibody

    def _own(self) -> Model:
        if self.model is None:
            raise ControlError("this single body was made of numbers alone; make it of an airframe to convert states of a robot")
        return self.model

    @cached_property
    def gimbal_places(self) -> list[tuple[int, int]]:
        """(place in q, place in v) of each gimbal."""
        links = {link.joint: link for link in self._own().links}
        return [(links[name].q.start, links[name].v.start) for name in self.gimbals]

    def from_multibody(self, q: Array, v: Array, thrusts: Array = None) -> Array:
        """The state of a robot with configuration q and velocity v; `thrusts` (n,) where rotors have a lag, hovering by default.

        Position and velocity are those of the robot's own centre of mass, so that momentum is the same; rate is that of its base.
        """
        model = self._own()
        mass = total_mass(model)
        parts = [center_of_mass(model, q), momentum(model, q, v)[:3] * (1.0 / mass), vector(q[6], q[3], q[4], q[5]), v[3:6]]
        parts.append(array([q[place] for place, _ in self.gimbal_places]) if self.n_g else np.zeros(0))
        held = [self.hover_thrust if thrusts is None else thrusts[i] for i in self.lagging]
        return np.concatenate([*parts, array(held) if held else np.zeros(0)])

    def to_multibody(self, x: Array, v: Array) -> tuple[Array, Array]:
        """(q, v) of the robot whose centre of mass, attitude, rate and angles are those of the state x.

        Of the velocity that is given, the rates of the gimbals stay: a state of 15 numbers does not have them.
        """
        model = self._own()
        q1 = model.neutral().astype(object)
        q1[3:7] = vector(x[7], x[8], x[9], x[6])
        for k, (place, _) in enumerate(self.gimbal_places):
            q1[place] = x[13 + k]
        q1[:3] = x[:3] - center_of_mass(model, q1)
        v1 = np.array(list(v), dtype=object)
        v1[:3], v1[3:6] = np.zeros(3), x[10:13]
        missing = x[3:6] - momentum(model, q1, v1)[:3] * (1.0 / total_mass(model))
        v1[:3] = poses(model, q1)[0].R.T @ missing
        return q1, v1

    @cached_property
    def compiled_from_multibody(self) -> Function:
        """`from_multibody(q, v)`, compiled, for batches."""
        model = self._own()
        return function(lambda q, v: self.from_multibody(q, v), q=model.nq, v=model.nv)

    @cached_property
    def compiled_to_multibody(self) -> Function:
        """`to_multibody(x, v)`, compiled, for batches."""
        return function(lambda x, v: dict(zip("qv", self.to_multibody(x, v), strict=True)), x=self.nx, v=self._own().nv)


class SingleBodyPlant(Block):
    """The single body as the plant of a loop without a robot, cd.Loop(None, ..., dt=0.005): `plant.now`, then plant(command).

    Parameters, one for all robots or one each: "mass", "gravity", "drag", "force" (world, N), "torque" (body, N m).
    """

    def __init__(self, body: SingleBody, start: Any = None, *, name: str = "body") -> None:
        super().__init__(name=name)
        self.body = body
        self.start = body.state() if start is None else np.asarray(start, dtype=float)
        self.state("x", self.start)
        self.own = {key: self.parameter(key, value) for key, value in body.defaults().items()}

    @property
    def now(self) -> Array:
        """The state at the start of the tick."""
        return self._tick("now").state(f"{self.name}.x", self.start)

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        """The state after the tick under the command, and under a force (world) where one is given beside it."""
        command, *pushes = inputs
        p = {key: each.resolve() for key, each in self.own.items()}
        if pushes:
            p["force"] = p["force"] + pushes[0]
        x1 = self.body.step(state["x"], command, p, self.dt)
        return x1, {"x": x1}


def single_body(airframe: Airframe, gravity: float = 9.81) -> SingleBody:
    """The controller's model of an airframe (condyle.apps.flight.airframe); products of inertia below 1 % are left out."""
    if not (np.isfinite(gravity) and gravity > 0.0):
        raise ControlError(f"gravity must be finite and above zero, in m/s^2; got {gravity!r:.40}")
    inertia = np.asarray(airframe.inertia, dtype=float)
    moments = np.diag(np.diag(inertia))
    if np.abs(inertia - moments).max() < SMALL_PRODUCT * np.diag(inertia).min():
        inertia = moments
    angle = np.clip(airframe.gimbal_limits, -np.pi / 2.0, np.pi / 2.0)
    return SingleBody(
        float(airframe.mass), inertia, _rounded(airframe.positions), _rounded(airframe.thrust_axes),
        _rounded(airframe.gimbal_axes), tuple(-1 if k is None else k for k in airframe.gimbal_of),
        np.array([r.direction for r in airframe.rotors]), np.array([r.drag for r in airframe.rotors]), airframe.thrust_limits,
        angle, airframe.lags, airframe.servo_lags, float(gravity), airframe.gimbals, airframe.robot.model,
    )  # fmt: skip


def _rounded(x: Any) -> np.ndarray:
    """Numbers whose zeros and ones are exact: what is zero by geometry is zero."""
    given = np.asarray(x, dtype=float)
    whole = np.round(given)
    found: np.ndarray = np.where(np.abs(given - whole) < 1e-12, whole, given) + 0.0
    return found
