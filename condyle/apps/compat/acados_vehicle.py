"""A flying robot as acados' integrator object: the states of its controller in and out, the single body or the multibody inside.

    sim = AcadosVehicleSimSolver("birotor", model="multibody", dt=0.005)
    sim.set("x", x)
    sim.set("u", u)
    sim.solve()
    x = sim.get("x")
    sim.joint_torques, sim.joint_velocities, sim.thrust_forces, sim.energies, sim.center_of_mass        # of all steps

x is position of the centre of mass, world velocity, quaternion w, x, y, z, body rate, gimbal angles, and thrusts of rotors with a
lag (15 numbers for the birotor); u thrusts and gimbal commands. The multibody has states that x does not contain, such as gimbal
rates: setting x leaves them as they are, and setting the x that the last step gave changes nothing at all.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from condyle.apps.compat.acados_description import AcadosSimDims
from condyle.apps.flight.airframe import Airframe, airframe
from condyle.apps.flight.single_body import SingleBody, single_body
from condyle.apps.flight.vehicle import Vehicle
from condyle.errors import ControlError, ShapeError

MODELS = ("single", "multibody")


@dataclass
class VehicleDescription:
    """What scripts read of acados' description: `acados_sim.dims.nx`, `acados_sim.solver_options`."""

    dims: AcadosSimDims
    solver_options: dict[str, Any] = field(default_factory=dict)


class AcadosVehicleSimSolver:
    """The integrator of an airframe over `dt`, s: a built-in name, a robot file, or an Airframe; model "single" or "multibody".

    The single body is integrated by the classical Runge-Kutta method, the multibody by that of its simulation.
    """

    def __init__(
        self, source: Any = "birotor", *, model: str = "multibody", dt: float = 0.005, gravity: float = 9.81, **_: Any
    ) -> None:
        if model not in MODELS:
            raise ControlError(f"model is 'single' or 'multibody', got {model!r:.40}")
        if isinstance(dt, bool) or not isinstance(dt, (int, float)) or not (np.isfinite(dt) and dt > 0.0):
            raise ControlError(f"dt, the length of a step in seconds, must be finite and above zero; got {dt!r:.40}")
        self.airframe = source if isinstance(source, Airframe) else airframe(source, gravity=gravity)
        self.model_name, self.T = f"{self.airframe.name}, {model}", float(dt)
        self.body: SingleBody = single_body(self.airframe, gravity)
        self._plant = _Single(self.body, dt) if model == "single" else _Multibody(self.airframe, self.body, dt, gravity)
        dims = AcadosSimDims()
        dims.nx, dims.nu = self.body.nx, self.body.nu
        self.acados_sim = VehicleDescription(dims, {"T": self.T})
        self._x, self._u, self._time = self.body.state(), self.body.trim(), 0.0
        self._plant.set(self._x)
        self._rows: list[dict[str, Any]] = []

    def set(self, field_: str, value_: Any) -> None:
        """Set x or u."""
        if field_ not in ("x", "u"):
            raise ControlError(f"AcadosVehicleSimSolver.set: there is no '{field_!s:.40}'; there are x and u")
        value = np.atleast_1d(np.asarray(value_, dtype=float)).ravel()
        size = self.body.nx if field_ == "x" else self.body.nu
        if value.shape != (size,):
            raise ShapeError(f"AcadosVehicleSimSolver.set: '{field_}' of {self.model_name} has {size} entries, got {len(value)}")
        if not np.isfinite(value).all():
            raise ControlError(f"AcadosVehicleSimSolver.set: '{field_}' has a number that is not finite")
        if field_ == "u":
            self._u = value
        elif not np.array_equal(value, self._x):
            length = np.linalg.norm(value[6:10])
            if not 0.5 < length < 2.0:
                raise ControlError(
                    f"AcadosVehicleSimSolver.set: x[6:10] is a quaternion of length one, w, x, y, z; it is {length:.3g}"
                )
            value[6:10] /= length
            self._x = value
            self._plant.set(value)

    def solve(self) -> int:
        """One step; 0."""
        start = time.perf_counter()
        self._x, row = self._plant.step(self._x, self._u)
        self._rows.append(row)
        self._time = time.perf_counter() - start
        return 0 if np.isfinite(self._x).all() else 1

    def get(self, field_: str) -> Any:
        """The state x after the last step, u, or time_tot."""
        found: dict[str, Any] = {"x": self._x, "u": self._u, "time_tot": self._time, "CPUtime": self._time}
        if field_ not in found:
            raise ControlError(f"AcadosVehicleSimSolver.get: '{field_!s:.40}' is not supported; there are {', '.join(found)}")
        return np.copy(found[field_])[()]

    def simulate(self, x: Any = None, u: Any = None) -> np.ndarray:
        """The state after dt from x with u; those that are not given stay as they are."""
        for name, value in {"x": x, "u": u}.items():
            if value is not None:
                self.set(name, value)
        self.solve()
        return np.asarray(self.get("x"))

    # ---- of all steps so far

    @property
    def joint_torques(self) -> np.ndarray:
        """Torques of the gimbals' servos, N m: (steps, gimbals); zero for the single body, whose rotors tilt without inertia."""
        return self._recorded("joint_torques", self.body.n_g)

    @property
    def joint_velocities(self) -> np.ndarray:
        """Rates of the gimbals at the start of each step, rad/s: (steps, gimbals)."""
        return self._recorded("joint_velocities", self.body.n_g)

    @property
    def thrust_forces(self) -> np.ndarray:
        """Thrusts, N: (steps, rotors)."""
        return self._recorded("thrust_forces", self.body.n)

    @property
    def center_of_mass(self) -> np.ndarray:
        """The centre of mass at the start of each step, m: (steps, 3)."""
        return self._recorded("center_of_mass", 3)

    @property
    def energies(self) -> dict[str, np.ndarray]:
        """Kinetic and potential energy at the start of each step, and their sum, J: (steps,) each."""
        kinetic, potential = self._recorded("kinetic"), self._recorded("potential")
        return {"kinetic": kinetic, "potential": potential, "total": kinetic + potential}

    def _recorded(self, name: str, *shape: int) -> np.ndarray:
        return np.array([row[name] for row in self._rows], dtype=float).reshape(len(self._rows), *shape)


class _Single:
    """The controller's model as the plant."""

    def __init__(self, body: SingleBody, dt: float) -> None:
        from condyle.tape.function import function

        self.body = body
        self.function = function(lambda x, u: body.step(x, u, None, dt), x=body.nx, u=body.nu)

    def set(self, x: np.ndarray) -> None:
        """Nothing: x is all there is."""

    def step(self, x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
        """(x after the step, what is recorded)."""
        body, n, g = self.body, self.body.n, self.body.n_g
        rates = (u[n:] - x[13 : 13 + g]) / body.servo_lags if g else np.zeros(0)
        row = {
            "joint_torques": np.zeros(g),
            "joint_velocities": rates,
            "thrust_forces": np.array(body.thrusts(x, u), dtype=float),
            "kinetic": 0.5 * body.mass * x[3:6] @ x[3:6] + 0.5 * x[10:13] @ body.inertia @ x[10:13],
            "potential": body.mass * body.gravity * x[2],
            "center_of_mass": x[:3],
        }
        return np.asarray(self.function(x, u)), row


class _Multibody:
    """The airframe as it is, with the states that its controller does not see."""

    def __init__(self, frame: Airframe, body: SingleBody, dt: float, gravity: float) -> None:
        self.body, self.robot = body, frame.robot
        found = float(np.linalg.norm(self.robot.model.gravity))
        if abs(found - gravity) > 1e-9:
            raise ControlError(
                f"robot '{self.robot.name}' has a gravity of {found:g} m/s^2, and {gravity:g} was asked for: load it with that"
            )
        self.vehicle = Vehicle(frame, dt)
        self.loop = self.vehicle.loop()
        self.state = self.loop.state(self.vehicle.configuration())
        self.signals = [f"vehicle.{name}" for name in ("thrusts", *(["torques", "rates"] if body.n_g else []))]

    def set(self, x: np.ndarray) -> None:
        """Change the pose and velocity of the base, and the gimbal angles; what x does not contain stays."""
        parts, angles = self.loop.unpacked(self.state), 13 + self.body.n_g
        found = self.body.compiled_to_multibody(x, parts["v"])
        changed = {**parts, "q": found.q, "v": found.v}
        if self.body.lagging:
            thrusts = np.array(parts["vehicle.thrust"], dtype=float)
            thrusts[list(self.body.lagging)] = x[angles:]
            changed["vehicle.thrust"] = thrusts
        self.state = np.asarray(self.loop.packed(changed), dtype=float)

    def step(self, x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
        """(x after the step, what is recorded)."""
        parts, robot, none = self.loop.unpacked(self.state), self.robot, np.zeros(0)
        q, v = parts["q"], parts["v"]
        self.state, seen = self.loop.step(self.state, u, record=self.signals)
        row = {
            "joint_torques": seen.get("vehicle.torques", none),
            "joint_velocities": seen.get("vehicle.rates", none),
            "thrust_forces": seen["vehicle.thrusts"],
            "kinetic": float(robot.kinetic_energy(q, v)),
            "potential": float(robot.potential_energy(q)),
            "center_of_mass": robot.center_of_mass(q),
        }
        return self.vehicle.measured_states(self.loop, self.state), row
