"""What a controller flies: an airframe as one body, or as the multibody it is, each as a simulation with rotors and servos.

    world = SingleBodyWorld(airframe)                       # gimbals locked at zero; thrusts tilt, the masses do not
    world = MultibodyWorld(airframe)                        # servos turn the gimbals

Inside of a loop, `world(x, command)` is what acts on the robot for a command (thrusts, gimbal angles), with the outputs "thrusts"
and "angles", and `world.measured(x)` is the state of condyle.flight.single_body.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.blocks.discretization import decay, mean_decay
from condyle.closed_loop.block import Block
from condyle.flight.airframe import Airframe
from condyle.flight.single_body import SingleBody, rotated, single_body
from condyle.simulate.simulation import Simulation
from condyle.tape.array import array

Array = Any

STIFFNESS = 20.0  # of a servo: its damping over inertia / lag


class Lag(Block):
    """Values that follow commands with time constants (n,), s, exactly; one without follows at once."""

    def __init__(self, lags: Any, start: Any, *, name: str) -> None:
        super().__init__(name=name)
        self.lags = [float(lag) for lag in lags]
        self.state("value", np.full(len(self.lags), start, dtype=float))

    @property
    def now(self) -> Array:
        """The values at the start of the tick."""
        return self._tick("now").state(f"{self.name}.value", self.states["value"])

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        """The means over the tick; the values at its end are the next state."""
        (command,) = inputs
        mean, end = [], []
        for k, lag in enumerate(self.lags):
            away = state["value"][k] - command[k]
            mean.append(command[k] + away * mean_decay(self.dt, lag) if lag else command[k])
            end.append(command[k] + away * decay(self.dt, lag) if lag else command[k])
        return array(mean), {"value": array(end)}


class FlightWorld:
    """An airframe in a simulation; a world is one of its subclasses."""

    def __init__(self, airframe: Airframe, simulation: Simulation, body: SingleBody) -> None:
        self.airframe, self.simulation, self.body = airframe, simulation, body
        self.thrust = Lag(airframe.lags, body.hover_thrust, name="thrust")

    def __call__(self, x: Any, command: Array) -> dict[str, Any]:
        """What acts on the robot: "u", "wrenches", and the outputs "thrusts" (N) and "angles" (rad)."""
        raise NotImplementedError

    def measured(self, x: Any) -> Array:
        """The state of the single body."""
        raise NotImplementedError

    def start(self, position: Any, attitude: Any = (1.0, 0.0, 0.0, 0.0)) -> np.ndarray:
        """The configuration with the centre of mass there, gimbals at zero; `attitude`: quaternion w, x, y, z."""
        robot = self.simulation.robot
        q = np.array(robot.neutral(), dtype=float)
        q[3:7] = np.roll(np.asarray(attitude, dtype=float) / np.linalg.norm(attitude), -1)
        q[:3] = np.asarray(position, dtype=float) - robot.center_of_mass(q)
        return q

    def _thrusts(self, command: Array) -> Array:
        limits = self.airframe.thrust_limits
        return self.thrust([np.minimum(np.maximum(command[i], low), high) for i, (low, high) in enumerate(limits)])


class SingleBodyWorld(FlightWorld):
    """The airframe with its gimbals locked at zero: the thrusts tilt with the lags of the servos, and nothing else does."""

    def __init__(self, airframe: Airframe, dt: float = 0.005, *, ground: Any = None, **options: Any) -> None:
        robot = airframe.robot.lock(list(airframe.gimbals)) if airframe.gimbals else airframe.robot
        gravity = float(np.linalg.norm(robot.model.gravity)) or 9.81
        simulation = Simulation(robot, dt, ground, wrenches=_frames(airframe), **options)
        super().__init__(airframe, simulation, single_body(airframe, gravity))
        self.angle = Lag(airframe.servo_lags, 0.0, name="angle")

    def __call__(self, x: Any, command: Array) -> dict[str, Any]:
        """Wrenches at the thrust frames, which do not turn: the force is tilted in their axes."""
        body, thrusts = self.body, self._thrusts(command)
        angles = self.angle(command[body.n :]) if body.n_g else np.zeros(0)
        wrenches = {}
        for i, rotor in enumerate(self.airframe.rotors):
            R_bf = np.asarray(self.airframe._pose(rotor.frame).R, dtype=float)
            along = R_bf.T @ array(body.direction(i, angles))
            force = along * thrusts[i]
            wrenches[rotor.frame] = array([*force, *(force * (-rotor.direction * rotor.drag))]), "local"
        return {"u": np.zeros(self.simulation.nu), "wrenches": wrenches, "thrusts": thrusts, "angles": angles}

    def measured(self, x: Any) -> Array:
        """Position of the centre of mass, world velocity, quaternion, rate, angles, thrusts with a lag."""
        q, v, com = array([x.q[6], x.q[3], x.q[4], x.q[5]]), x.v, self.airframe.center_of_mass
        velocity = rotated(q, v[:3] + np.cross(v[3:6], com))
        held = [self.thrust.now[i] for i in self.body.lagging]
        parts = [x.q[:3] + rotated(q, com), velocity, q, v[3:6], *([self.angle.now] if self.body.n_g else [])]
        return np.concatenate([*parts, array(held)] if held else parts)


class MultibodyWorld(FlightWorld):
    """The airframe with its gimbals: servos of proportional and derivative gain, whose response is the lag of the airframe."""

    def __init__(self, airframe: Airframe, dt: float = 0.005, *, ground: Any = None, **options: Any) -> None:
        robot = airframe.robot
        gravity = float(np.linalg.norm(robot.model.gravity)) or 9.81
        simulation = Simulation(robot, dt, ground, wrenches=_frames(airframe), actuated=list(airframe.gimbals), **options)
        super().__init__(airframe, simulation, single_body(airframe, gravity))
        links = {link.joint: link for link in robot.model.links}
        inertia = np.diag(robot.mass_matrix(robot.neutral()))
        self.servos = []
        for name, lag in zip(airframe.gimbals, airframe.servo_lags, strict=True):
            link = links[name]
            damping = max(link.damping, STIFFNESS * float(inertia[link.v.start]) / float(lag))
            self.servos.append((link.q.start, link.v.start, damping / float(lag), damping - link.damping))

    def __call__(self, x: Any, command: Array) -> dict[str, Any]:
        """Torques of the servos, and wrenches along the axes of the rotors."""
        body, thrusts = self.body, self._thrusts(command)
        torques = [p * (command[body.n + k] - x.q[i]) - d * x.v[j] for k, (i, j, p, d) in enumerate(self.servos)]
        wrenches = {
            rotor.frame: (array([0.0, 0.0, thrusts[i], 0.0, 0.0, thrusts[i] * (-rotor.direction * rotor.drag)]), "local")
            for i, rotor in enumerate(self.airframe.rotors)
        }
        angles = array([x.q[i] for i, *_ in self.servos]) if self.servos else np.zeros(0)
        return {"u": array(torques), "wrenches": wrenches, "thrusts": thrusts, "angles": angles}

    def measured(self, x: Any) -> Array:
        """Position of the centre of mass, world velocity, quaternion, rate, angles, thrusts with a lag."""
        return self.body.from_multibody(x.q, x.v, self.thrust.now)


WORLDS: dict[str, type[SingleBodyWorld] | type[MultibodyWorld]] = {"single": SingleBodyWorld, "multibody": MultibodyWorld}


def _frames(airframe: Airframe) -> dict[str, str]:
    return {rotor.frame: "local" for rotor in airframe.rotors}
