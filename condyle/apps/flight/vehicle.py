"""A vehicle in the air: the multibody of an airframe with its servos, rotors, battery and the air inside of the step.

vehicle = cd.flight.Vehicle(cd.flight.airframe("birotor"), wind=cd.flight.Wind((2, 0, 0)))
loop = cd.Loop(vehicle.simulation, lambda x, command: vehicle(command, x), command=vehicle.nu)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from math import ceil
from typing import Any

import numpy as np

from condyle.apps.flight.air import Air, flapping, ground_effect, induced_power
from condyle.apps.flight.airframe import GRAVITY, Airframe, airframe
from condyle.apps.flight.allocation import Allocation
from condyle.apps.flight.attachments import ElasticArms, Load, with_damping, with_elastic_arms, with_load
from condyle.apps.flight.battery import Battery
from condyle.apps.flight.gimbals import RIGID, inverse_dynamics_torques, lagged, smooth_motion
from condyle.apps.flight.single_body import SingleBody, single_body
from condyle.apps.flight.wind import Wind
from condyle.blocks.discretization import decay, mean_decay
from condyle.closed_loop.block import Block
from condyle.closed_loop.loop import Loop
from condyle.dynamics.crba import mass_matrix
from condyle.dynamics.energy import center_of_mass, total_mass
from condyle.errors import ControlError
from condyle.multibody.robot import Robot
from condyle.robot.model import Link, Model
from condyle.robot.spatial import cross
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import Ground
from condyle.tape.array import array

SERVOS = ("kinematic", "torque")
INTEGRATORS = ("rk4", "semi_implicit_euler")
ALIKE = 1e-9  # torque in m per weight that counts as none
HUGE = 1e300  # beyond every force
STABLE = 2.0  # damping rate times the step, up to which a Runge-Kutta step follows it


class Vehicle(Block):
    """An airframe that is given commands: thrusts (N) of its rotors, then angles (rad) of its gimbals.

    `dt`: the tick, s. `servo`: "kinematic" (a first-order lag, exactly) or "torque" (P (command - a) against a damping).
    `air`: an `Air`. `wind`: three numbers, a `Wind`, `Gust` or `Dryden`, or several, which add. `battery`: a `Battery`. `ground`:
    a ground such as cd.Plane(), on which it stands on its feet (`contacts` says otherwise). `load`: a `Load` on a cable.
    `arms`: `ElasticArms`. `integrator`: "rk4", or, on a ground, "semi_implicit_euler". Further options: of a Simulation.

    Parameters, each one for all robots or one for each: "vehicle.thrust_factor" (a rotor at 70 %), ".thrust_min", ".thrust_max",
    ".drag", ".lag", ".servo_lag", and those of air, wind, battery, robot and ground. To record: "vehicle.thrusts" (mean over the
    tick, N), ".commands", ".angles", ".rates", ".speeds" (rad/s), ".torques" (of the servos, N m), ".power" (W), ".wind" (m/s).
    """

    def __init__(
        self,
        frame: Airframe | str | Any,
        dt: float = 0.005,
        *,
        servo: str = "kinematic",
        air: Air | None = None,
        wind: Any = None,
        battery: Battery | None = None,
        ground: Ground | None = None,
        load: Load | None = None,
        arms: ElasticArms | None = None,
        contacts: Any = None,
        integrator: str | None = None,
        substeps: int | None = None,
        name: str = "vehicle",
        **options: Any,
    ) -> None:
        super().__init__(name=name)
        self.airframe = made = frame if isinstance(frame, Airframe) else airframe(frame)
        if servo not in SERVOS:
            raise ControlError(f"Vehicle: servo must be 'kinematic' or 'torque', got {servo!r:.40}")
        chosen = integrator or ("rk4" if ground is None else "semi_implicit_euler")
        if chosen not in INTEGRATORS:
            raise ControlError(f"Vehicle: the integrator must be {' or '.join(INTEGRATORS)}, got {integrator!r:.40}")
        self.servo, self.air, self.battery, self.load = servo, _is(Air, air), _is(Battery, battery), _is(Load, load)
        self.winds = _winds(wind)
        robot = with_damping(made.robot, made.gimbals, made.servo_lags) if servo == "torque" else made.robot
        _is(ElasticArms, arms)
        robot = robot if arms is None else with_elastic_arms(robot, made.gimbals, arms)
        self._carrier = robot.model
        robot = robot if load is None else with_load(robot, load)
        if substeps is None:
            substeps = _substeps(robot, dt) if servo == "torque" and chosen == "rk4" else 1
        defaults: dict[str, Any] = {"limits": False, "torque_limits": False, "actuated": ()}
        if ground is not None and contacts is None:
            contacts = _feet(robot.model)
        self.simulation = Simulation(robot, dt, ground, contacts, integrator=chosen, substeps=substeps, **{**defaults, **options})
        self.base = robot.model.links[0].name

        rotors, limits = made.rotors, made.thrust_limits
        self.thrust_factor = self.parameter("thrust_factor", np.ones(made.n), "1", minimum=0.0)
        self.thrust_min = self.parameter("thrust_min", limits[:, 0], "N", minimum=0.0)
        self.thrust_max = self.parameter("thrust_max", limits[:, 1], "N", minimum=0.0)
        self.drag = self.parameter("drag", [r.drag for r in rotors], "m", minimum=0.0)
        self.lag = self.parameter("lag", made.lags, "s", minimum=0.0)
        if made.gimbals:
            self.servo_lag = self.parameter("servo_lag", made.servo_lags, "s", minimum=1e-6)
        self.spins = any(r.spin_inertia for r in rotors)
        initial = np.clip(self.hover[: made.n], *limits.T)
        self.lags = bool(np.any(made.lags > 0.0)) or self.spins or battery is not None
        if self.lags:
            self.state("thrust", initial)
        if any(r.thrust_rate for r in rotors):
            self.state("commanded", initial)

    @property
    def nu(self) -> int:
        """Entries of a command: thrusts, then gimbal angles."""
        return self.airframe.nu

    @property
    def hover(self) -> np.ndarray:
        """The command that carries the weight, with a load, while level: (nu,)."""
        return hover_command(self.airframe, self.simulation.robot.model)

    def loop(self, function: Any = None, **references: Any) -> Loop:
        """The closed loop: commands as references, or `function(x, **references)` -> a command, or a dict with "command"."""
        if function is None:
            return Loop(self.simulation, lambda x, command: self(command, x), command=self.nu)

        def flown(x: Any, **given: Any) -> Any:
            found = function(x, **given)
            outputs = {name: value for name, value in found.items() if name != "command"} if isinstance(found, dict) else {}
            return {**self(found["command"] if isinstance(found, dict) else found, x), **outputs}

        return Loop(self.simulation, _with_names(flown, list(references)), **references)

    def configuration(
        self, position: Any = (0.0, 0.0, 0.0), attitude: Any = (1.0, 0.0, 0.0, 0.0), angles: Any = 0.0
    ) -> np.ndarray:
        """q with the centre of mass at `position`, the quaternion `attitude` (w, x, y, z) and these gimbal angles."""
        model = self.simulation.robot.model
        q, (w, x, y, z) = model.neutral(), np.asarray(attitude, dtype=float) / np.linalg.norm(attitude)
        q[3:7] = x, y, z, w
        for k, link in enumerate(self._gimbals(model)):
            q[link.q.start] = np.broadcast_to(np.asarray(angles, dtype=float), (len(self.airframe.gimbals),))[k]
        q[:3] = np.asarray(position, dtype=float) - np.asarray(center_of_mass(model, q), dtype=float)
        return q

    # ---- what a controller sees

    @cached_property
    def body(self) -> SingleBody:
        """The airframe as one body, as a flight controller sees it: without a load."""
        return replace(single_body(self.airframe, float(np.linalg.norm(self._carrier.gravity)) or GRAVITY), model=self._carrier)

    def measured(self, x: Any) -> Any:
        """The state of `body` inside of a loop: centre of mass, world velocity, quaternion w, x, y, z, rate, gimbal angles,
        thrusts with a lag."""
        return self.body.from_multibody(x.q, x.v, self._now("thrust") if self.lags else None)

    def measured_states(self, loop: Loop, x: np.ndarray) -> np.ndarray:
        """The same of packed states of a loop, (..., nx) -> (..., n)."""
        parts, body = loop.unpacked(x), self.body
        q, v = parts["q"][..., : self._carrier.nq], parts["v"][..., : self._carrier.nv]  # those of a load are the last
        found = np.asarray(body.compiled_from_multibody(q, v))
        return np.concatenate([found[..., : 13 + body.n_g], self._lagging_thrusts(parts)], axis=-1)

    def _now(self, name: str) -> Any:
        """A state of this block at the start of the tick."""
        return self._tick(name).state(f"{self.name}.{name}", self.states[name])

    def _lagging_thrusts(self, parts: dict[str, Any]) -> np.ndarray:
        lagging = list(self.body.lagging)
        return np.asarray(parts[f"{self.name}.thrust"][..., lagging] if lagging else parts["q"][..., :0])

    # ---- inside of the step

    def __call__(self, command: Any, x: Any) -> dict[str, Any]:
        """What the robot is given in this tick: wrenches of rotors and air, and the forces of the servos."""
        out = super().__call__(command, x)
        wrenches: dict[str, Any] = {r.frame: (_rounded(out["rotors"][k]), "local") for k, r in enumerate(self.airframe.rotors)}
        if self.has_drag:
            wrenches[self.base] = (_rounded(out["drag"]), "local")
        return {"wrenches": wrenches, "parameters": self._servos(x, out) if self.airframe.gimbals else {}}

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        """Commands within their limits, thrusts, wrenches, and the motion of the gimbals."""
        command, x = inputs
        command = array(command).ravel() if isinstance(command, (list, tuple)) else command
        if len(command) != self.nu:
            raise ControlError(
                f"the vehicle '{self.airframe.name}' takes {self.nu} commands, {self.airframe.n} thrusts and "
                f"{len(self.airframe.gimbals)} gimbal angles; got {len(command)}"
            )
        wind = sum((wind(x) for wind in self.winds), np.zeros(3))
        thrusts, speeds, power, after = self._thrusts(state, command[: self.airframe.n])
        out: dict[str, Any] = {"wind": wind, "thrusts": thrusts, "power": power}
        out |= self._rotors(x, wind, thrusts, speeds)
        if self.has_drag:
            assert self.air is not None
            out["drag"] = self.air(x, wind, self.base, self.airframe.center_of_mass)
        if self.airframe.gimbals:
            out |= self._motion(x, command[self.airframe.n :], out)
        return out, after

    @property
    def has_drag(self) -> bool:
        """Whether the air acts on the body."""
        return self.air is not None and (self.air.has_drag or self.air.has_spin)

    def _gimbals(self, model: Model) -> list[Link]:
        return [next(link for link in model.links if link.joint == name) for name in self.airframe.gimbals]

    @cached_property
    def _inertias(self) -> np.ndarray:
        model = self.simulation.robot.model
        return np.array(np.diag(mass_matrix(model, model.neutral())), dtype=float)

    def _thrusts(self, state: dict[str, Any], command: Any) -> tuple[Any, tuple[Any, Any], Any, dict[str, Any]]:
        """(mean thrusts over the tick, speeds at its start and end, power, next states)."""
        rotors, after, dt = self.airframe.rotors, {}, self.dt
        most = +self.thrust_max
        power: Any = 0.0
        if self.battery is not None:
            density = 1.225 if self.air is None else self.air.density
            power = sum((induced_power(f, r.radius, density) for f, r in zip(state["thrust"], rotors, strict=True)), 0.0)
            found = self.battery(power)
            most, power = most * found["fraction"], found["power"]
        wanted = np.minimum(np.maximum(command, self.thrust_min), most)
        if "commanded" in state:
            rates = np.array([np.inf if r.thrust_rate is None else r.thrust_rate for r in rotors])
            change = np.where(np.isfinite(rates), rates, 1e12) * dt
            wanted = np.minimum(np.maximum(wanted, state["commanded"] - change), state["commanded"] + change)
            after["commanded"] = wanted
        begin = state["thrust"] if self.lags else wanted
        end = wanted + (begin - wanted) * decay(dt, self.lag)
        mean = wanted + (begin - wanted) * mean_decay(dt, self.lag)
        if self.lags:
            after["thrust"] = end
        k = np.array([r.thrust_coefficient for r in rotors])
        speeds = np.sqrt(np.maximum(begin, 1e-12) / k), np.sqrt(np.maximum(end, 1e-12) / k)
        return mean * self.thrust_factor, speeds, power, after

    def _rotors(self, x: Any, wind: Any, thrusts: Any, speeds: tuple[Any, Any]) -> dict[str, Any]:
        """The wrench of each rotor at its frame, in its axes."""
        rows, drag = [], self.drag.resolve()
        for k, rotor in enumerate(self.airframe.rotors):
            f, s = thrusts[k], rotor.direction
            force, torque = array([0.0 * f, 0.0 * f, f]), array([0.0 * f, 0.0 * f, -s * (drag[k] * f)])
            if self.air is not None and self.air.ground_effect:
                force = force * ground_effect(self.air.height(x, x.frame_pose(rotor.frame).p), rotor.radius)
            if self.air is not None and self.air.flapping and (rotor.flapping or rotor.hub_stiffness):
                u = x.frame_velocity(rotor.frame, "local").linear - x.frame_pose(rotor.frame).R.T @ wind
                side, hub = flapping(f, u, rotor.flapping, rotor.hub_stiffness)
                force, torque = force + side, torque + hub
            if rotor.spin_inertia:
                before, end = speeds[0][k], speeds[1][k]
                J = s * rotor.spin_inertia
                spin = array([0.0 * f, 0.0 * f, 0.5 * (before + end) * J])
                turning = x.frame_velocity(rotor.frame, "local").angular
                torque = torque - cross(turning, spin) - array([0.0 * f, 0.0 * f, (end - before) / self.dt * J])
            rows.append(array([*force, *torque]))
        return {"rotors": array(rows), "speeds": speeds[1]}

    def _motion(self, x: Any, target: Any, out: dict[str, Any]) -> dict[str, Any]:
        """Commands of the gimbals within their limits, angles and rates now, how they move, and the torque that this takes."""
        links, limits = self._gimbals(x.model), self.airframe.gimbal_limits
        q, v = x.full_q, x.full_v
        target = np.minimum(np.maximum(target, limits[:, 0]), limits[:, 1])
        angles, rates = array([q[link.q.start] for link in links]), array([v[link.v.start] for link in links])
        found = {"commands": target, "angles": angles, "rates": rates}
        if self.servo == "torque":
            gains, rest = self._springs(links, angles, target)
            damping = np.array([link.damping for link in links])
            return {**found, "torques": gains * (rest - angles) - rates * damping, "gains": gains, "rest": rest}
        end, speed = lagged(angles, target, self.servo_lag, self.dt, self._speeds)
        steps = None if self.simulation.integrator == "rk4" else self.simulation.substeps
        start, slope = smooth_motion(angles, rates, end, speed, self.dt, steps)
        frames: list[Any] = [(r.frame, "local") for r in self.airframe.rotors]
        wrenches = list(out["rotors"])
        if self.has_drag:
            frames, wrenches = [*frames, (self.base, "local")], [*wrenches, out["drag"]]
        joints = [link.v.start for link in links]
        base = None if x.world.ground is None else x.acceleration
        # of copies: nothing of it is shared with the physics, whose bits do not depend on what is recorded
        q, v = _rounded(q), _rounded(v)
        torques = inverse_dynamics_torques(x.model, q, v, joints, start, frames, wrenches, base)
        return {**found, "torques": torques, "acceleration": start, "jerk": slope}

    @cached_property
    def _speeds(self) -> np.ndarray | None:
        """The largest rates of the servos, rad/s; None if none is limited."""
        given = [next(r.servo_speed for r in self.airframe.rotors if r.gimbal == name) for name in self.airframe.gimbals]
        return np.array([1e6 if s is None else s for s in given]) if any(s is not None for s in given) else None

    def _servos(self, x: Any, out: dict[str, Any]) -> dict[str, Any]:
        """The parameters of the gimbals' joints for this tick: springs to their targets, or prescribed motions."""
        given: dict[str, Any] = {}
        for k, link in enumerate(self._gimbals(x.model)):
            if self.servo == "torque":
                given |= {f"{link.joint}.stiffness": out["gains"][k], f"{link.joint}.rest": out["rest"][k]}
                continue
            inertia = RIGID * float(self._inertias[link.v.start])
            given[f"{link.joint}.drive_inertia"] = np.minimum(inertia, x.tick + HUGE)  # traced, as in a replay
            given[f"{link.joint}.drive_force"] = _rounded(inertia * out["acceleration"][k])
            if self.simulation.integrator == "rk4" or self.simulation.substeps > 1:
                given[f"{link.joint}.drive_force_rate"] = _rounded(inertia * out["jerk"][k])
        return given

    def _springs(self, links: list[Link], angles: Any, target: Any) -> tuple[Any, Any]:
        """(P, rest) of servos in torque form: P = D / lag, and a rest at which the torque is within the effort."""
        gains, rests, lag = [], [], self.servo_lag.resolve()
        for k, link in enumerate(links):
            rotor = next(r for r in self.airframe.rotors if r.gimbal == link.joint)
            P, error = link.damping / lag[k], target[k] - angles[k]
            efforts = [rotor.servo_effort or link.limits.effort, rotor.servo_speed and rotor.servo_speed * link.damping]
            for limit in (float(e) / P for e in efforts if e):
                error = np.minimum(np.maximum(error, -limit), limit)
            gains.append(P)
            rests.append(angles[k] + error)
        return array(gains), array(rests)


def hover_command(made: Airframe, model: Model) -> np.ndarray:
    """The thrusts and angles with which an airframe carries all that the model has: alike, if this gives no torque."""
    mass, g = float(total_mass(model)), float(np.linalg.norm(model.gravity))
    if g == 0.0:
        return np.zeros(made.nu)
    allocation = Allocation(single_body(made, gravity=g))
    thrusts, angles = np.full(made.n, mass * g / made.n), np.zeros(len(made.gimbals))
    if np.abs(allocation.matrix[:, 1::2] @ thrusts - [0.0, 0.0, mass * g, 0.0, 0.0, 0.0]).max() > ALIKE * mass * g:
        thrusts, angles = allocation.hover(np.array([1.0, 0.0, 0.0, 0.0]), mass, g)
    return np.concatenate([np.asarray(thrusts, dtype=float), np.asarray(angles, dtype=float)])


def _rounded(value: Any) -> Any:
    """The value by itself: no product of it is fused with a sum of the physics, so that a run repeats from what was recorded."""
    return np.minimum(value, HUGE)


def _winds(wind: Any) -> tuple[Wind, ...]:
    if wind is None:
        return ()
    if isinstance(wind, Wind):
        return (wind,)
    if isinstance(wind, Sequence) and any(isinstance(w, Wind) for w in wind):
        return tuple(_is(Wind, w) for w in wind)
    return (Wind(wind),)


def _is(kind: type, value: Any) -> Any:
    if value is not None and not isinstance(value, kind):
        raise ControlError(f"Vehicle: {kind.__name__.lower()} must be a condyle.apps.flight.{kind.__name__}, got {value!r:.60}")
    return value


def _feet(model: Model) -> Any:
    """The contact shapes on which it stands: those called foot_*, and a load; else all that contacts="auto" finds."""
    names = [shape.name for link in model.links for shape in link.collisions if shape.name.startswith(("foot", "load"))]
    return names if any(name.startswith("foot") for name in names) else None


def _substeps(robot: Robot, dt: float) -> int:
    """Steps of the physics in a tick for which the damping of the joints is well within the stability of Runge-Kutta steps."""
    model = robot.model
    M = np.array(mass_matrix(model, model.neutral()), dtype=float)
    damping = np.diag([link.damping for link in model.links for _ in range(link.kind.nv)])
    rate = float(np.max(np.abs(np.linalg.eigvals(np.linalg.solve(M, damping)))))
    return max(1, ceil(rate * dt / STABLE))


def _with_names(function: Any, names: list[str]) -> Any:
    """The function with these keywords in its signature, as a loop checks it."""
    import inspect

    kinds = inspect.Parameter
    parameters = [kinds("x", kinds.POSITIONAL_OR_KEYWORD), *[kinds(name, kinds.KEYWORD_ONLY) for name in names]]
    function.__signature__ = inspect.Signature(parameters)
    return function
