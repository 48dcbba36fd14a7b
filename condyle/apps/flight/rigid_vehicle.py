"""A vehicle as its controller sees it, in a simulation: one body, whose thrusts tilt while the masses of the gimbals stay."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from condyle.apps.flight.airframe import GRAVITY, Airframe, airframe
from condyle.apps.flight.quaternions import rotated
from condyle.apps.flight.single_body import SingleBody, single_body
from condyle.apps.flight.vehicle import Vehicle, hover_command
from condyle.blocks.discretization import decay, mean_decay
from condyle.closed_loop.loop import Loop
from condyle.errors import ControlError
from condyle.robot.spatial import cross
from condyle.tape.array import array

Array = Any


class RigidVehicle(Vehicle):
    """A `Vehicle` with its gimbals locked at zero: the wrench of each rotor turns about the gimbal's axis with the servo's lag.

    Commands, air, wind, battery, ground and signals are those of a `Vehicle`; the servos have no torque.
    """

    def __init__(self, frame: Airframe | str | Any, dt: float = 0.005, **options: Any) -> None:
        made = frame if isinstance(frame, Airframe) else airframe(frame)
        if options.get("load") is not None:
            raise ControlError("RigidVehicle is one body and has no load on a cable: fly the Vehicle")
        robot = made.robot.lock(list(made.gimbals)) if made.gimbals else made.robot
        locked = Airframe(robot, tuple(replace(rotor, gimbal=None) for rotor in made.rotors), made.name)
        self.tilting = made
        super().__init__(locked, dt, **options)
        if made.gimbals:
            self.servo_lag = self.parameter("servo_lag", made.servo_lags, "s", minimum=1e-6)
            self.state("angle", np.zeros(len(made.gimbals)))
        poses = [np.asarray(made._pose(rotor.frame).R, dtype=float) for rotor in made.rotors]
        self.axes = np.round([R.T @ axis for R, axis in zip(poses, made.gimbal_axes, strict=True)], 12) + 0.0

    @property
    def nu(self) -> int:
        """Entries of a command: thrusts, then gimbal angles."""
        return self.tilting.nu

    @property
    def hover(self) -> np.ndarray:
        """The command that carries the weight while level: (nu,)."""
        return hover_command(self.tilting, self.simulation.robot.model)

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        """As of a `Vehicle`; thrusts along the mean directions over the tick."""
        out, after = super().step(state, *inputs)
        if not self.tilting.gimbals:
            return out, after
        limits, angles, lag = self.tilting.gimbal_limits, state["angle"], self.servo_lag.resolve()
        target = np.minimum(np.maximum(inputs[0][self.airframe.n :], limits[:, 0]), limits[:, 1])
        away = angles - target
        mean = target + away * array([mean_decay(self.dt, t) for t in lag])
        end = target + away * array([decay(self.dt, t) for t in lag])
        rows = []
        for k, wrench in enumerate(out["rotors"]):
            gimbal = self.tilting.gimbal_of[k]
            turned = [wrench[:3], wrench[3:]]
            if gimbal is not None:
                turned = [about(self.axes[k], mean[gimbal], each) for each in turned]
            rows.append(np.concatenate(turned))
        found = {"commands": target, "angles": angles, "rates": (end - angles) / self.dt, "torques": away * 0.0}
        return {**out, **found, "rotors": array(rows)}, {**after, "angle": end}

    # ---- what a controller sees

    @cached_property
    def body(self) -> SingleBody:
        """The airframe as one body, as a flight controller sees it."""
        return single_body(self.tilting, float(np.linalg.norm(self.simulation.robot.model.gravity)) or GRAVITY)

    def measured(self, x: Any) -> Array:
        """The state of `body` inside of a loop, as of a `Vehicle`."""
        q, v, com = array([x.q[6], x.q[3], x.q[4], x.q[5]]), x.v, self.tilting.center_of_mass
        parts = [x.q[:3] + rotated(q, com), rotated(q, v[:3] + cross(v[3:6], com)), q, v[3:6]]
        parts += [self._now("angle")] if self.body.n_g else []
        parts += [array([self._now("thrust")[i] for i in self.body.lagging])] if self.body.lagging else []
        return np.concatenate(parts)

    def measured_states(self, loop: Loop, x: np.ndarray) -> np.ndarray:
        """The same of packed states of a loop, (..., nx) -> (..., n)."""
        parts, robot = loop.unpacked(x), self.simulation.robot
        q, v = parts["q"], parts["v"]
        turn = robot.frame_pose(q, robot.model.links[0].name)[0]
        velocity = np.einsum("...ij,...j->...i", turn, v[..., :3] + np.cross(v[..., 3:6], self.tilting.center_of_mass))
        found = [robot.center_of_mass(q), velocity, q[..., [6, 3, 4, 5]], v[..., 3:6]]
        found += [parts[f"{self.name}.angle"]] if self.body.n_g else []
        return np.concatenate([*found, self._lagging_thrusts(parts)], axis=-1)


def about(axis: np.ndarray, angle: Any, v: Array) -> Array:
    """v turned about a unit axis of numbers:  v + sin(a) k x v + (1 - cos(a)) k x (k x v)."""
    across = cross(axis, v)
    return v + across * np.sin(angle) + cross(axis, across) * (1.0 - np.cos(angle))


VEHICLES: dict[str, type[Vehicle]] = {"single": RigidVehicle, "multibody": Vehicle}
