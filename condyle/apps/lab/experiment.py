"""Experiments: an arm, its controller, reference, faults and disturbances as plain data, and the closed loop that they describe.

    experiment = Experiment.read("lab.toml")
    setup = experiment.setup()                     # simulation, loop, first state and rows of the reference
    out = setup.loop.rollout(setup.x0, setup.rows, setup.ticks, seed=experiment.seed)

The loop is the built-in "lab" (condyle/workbench/runs/loops.py), with the experiment as its options: a recorded run holds all of
it, and `condyle replay --check` builds it again from the file alone.
"""

# ruff: noqa: RUF009 (the fields of tables are made by functions that add their rules)

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from condyle.apps.lab import controllers
from condyle.apps.lab.elastic_wall import ElasticWall
from condyle.apps.lab.experiment_data import flat, put, toml_data
from condyle.apps.lab.payload import with_payload
from condyle.apps.lab.references import TOOL_ROW, JointRows, control_times, joint_rows, tool_rows
from condyle.apps.lab.schema import Table, integer, number, options, read, table, tables, text, texts
from condyle.apps.lab.smooth_friction import SmoothFriction
from condyle.apps.lab.tables import (
    Actuators,
    ControllerTable,
    Flexibility,
    ForceSensor,
    Friction,
    ObstacleTable,
    Rates,
    Reference,
    RobotTable,
    Safety,
    Sensors,
    Wall,
    Wrench,
)
from condyle.apps.lab.torque_path import TorquePath
from condyle.atomic_write import PathLike
from condyle.blocks.disturbances import RandomPushes, SineWrench, WrenchPulse
from condyle.blocks.encoders import Encoders
from condyle.blocks.friction import JointFriction
from condyle.blocks.joints import combined
from condyle.blocks.measurement import Measurement
from condyle.blocks.motors import SeriesElastic
from condyle.closed_loop.loop import Loop
from condyle.errors import ControlError
from condyle.methods.control.arm_controller import ToolSample
from condyle.methods.control.safety_filter import SafetyFilter
from condyle.methods.planning.profiles import Sample
from condyle.methods.planning.robot_distances import robot_distances
from condyle.multibody.robot import Robot, load
from condyle.robot.names import nearest
from condyle.robot.parameters import body_values
from condyle.simulate.simulation import Simulation
from condyle.workbench.runs.loops import built_in

MAX_SECONDS = 100_000.0


@dataclass(frozen=True)
class Experiment(Table):
    """All of an experiment. Tables are those of `condyle.apps.lab.tables`; a dict serves in their place.

    `duration`: s, after `warm_up` s in which the reference holds and nothing is counted. `plant`: parameters of the robot that
    differ from the controller's model, such as {"wrist_3.mass": 0.5}. `record`: further signals to keep.
    """

    title: str = text("")
    duration: float = number(4.0, above=0.0, high=MAX_SECONDS, unit="s")
    warm_up: float = number(0.0, low=0.0, high=MAX_SECONDS, unit="s")
    seed: int = integer(0, low=0, high=2**32 - 1)
    record: tuple[str, ...] = texts()
    robot: RobotTable = table(RobotTable, optional=False)
    rates: Rates = table(Rates, optional=False)
    controller: ControllerTable = table(ControllerTable, optional=False)
    reference: Reference = table(Reference, optional=False)
    friction: Friction | None = table(Friction)
    flexibility: Flexibility | None = table(Flexibility)
    sensors: Sensors | None = table(Sensors)
    force_sensor: ForceSensor | None = table(ForceSensor)
    actuators: Actuators | None = table(Actuators)
    wall: Wall | None = table(Wall)
    safety: Safety | None = table(Safety)
    obstacles: tuple[ObstacleTable, ...] = tables(ObstacleTable)
    wrenches: tuple[Wrench, ...] = tables(Wrench)
    plant: Any = options()

    def check(self) -> None:
        """Names are known and unique."""
        controllers.canonical(self.controller.name)
        if self.obstacles and self.safety is None:
            raise ControlError("[obstacles] only the safety filter sees obstacles: add a table [safety]")
        taken = ["safety", "controller", "friction", "flexibility", "sensors", "force_sensor", "actuators", "wall"]
        for each in self.wrenches:
            if each.name in taken:
                raise ControlError(f"[wrenches] name '{each.name}' is taken: give this wrench a name of its own")
            taken.append(each.name)
        for what in ("duration", "warm_up"):
            updates = getattr(self, what) * self.rates.control
            if abs(updates - round(updates)) > 1e-6 or (what == "duration" and round(updates) < 1):
                raise ControlError(
                    f"{what} must be a whole number of updates of the controller, 1 / {self.rates.control} s each; got "
                    f"{getattr(self, what)} s"
                )

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Experiment:
        """The experiment of plain data, as a file holds it."""
        return read(cls, data)

    @classmethod
    def read(cls, path: PathLike) -> Experiment:
        """The experiment of a TOML file; errors name the file, the table and the key. Nothing in the file is executed."""
        return cls.from_toml(toml_data(path), path)

    @classmethod
    def from_toml(cls, data: Mapping[str, Any], path: PathLike) -> Experiment:
        """The experiment of the data of a TOML file; paths in it are relative to the file."""
        try:
            made = cls.from_data(data)
        except ControlError as error:
            raise ControlError(f"{path}: {error}") from None
        return made._relative_to(Path(path).parent)

    def _relative_to(self, folder: Path) -> Experiment:
        """Paths of files in it, as seen from the present folder."""
        made = self
        if self.reference.path is not None and not Path(self.reference.path).is_absolute():
            made = replace(made, reference=replace(self.reference, path=str(folder / self.reference.path)))
        name = self.robot.name
        if Path(name).suffix and not Path(name).is_absolute() and (folder / name).is_file():
            made = replace(made, robot=replace(self.robot, name=str(folder / name)))
        return made

    def with_values(self, values: Mapping[str, Any]) -> Experiment:
        """The experiment with other values at these paths, such as {"controller.kp": 300.0, "wrenches.push.start": 0.5}."""
        data = self.data()
        for path, value in values.items():
            put(data, path, value)
        return Experiment.from_data(data)

    # ---- sizes

    @property
    def control_updates(self) -> int:
        """Updates of the controller in all, with those of the warm-up."""
        return round((self.warm_up + self.duration) * self.rates.control)

    @property
    def ticks(self) -> int:
        """Steps of the physics in all."""
        return self.control_updates * self.rates.control_ticks

    @property
    def space(self) -> str:
        """ "joint" or "tool": what the reference is about."""
        name = controllers.canonical(self.controller.name)
        return "joint" if name == controllers.EXTERNAL else controllers.CONTROLLERS[name].space

    # ---- what is built

    @cached_property
    def arm(self) -> Robot:
        """The robot as the controller knows it: with the payload if that is known."""
        of = self.robot
        robot = load(of.name, of.base, of.gravity)
        if of.lock:
            robot = robot.lock(list(of.lock))
        if robot.nq != robot.nv or not robot.coordinate_map.identity:
            raise ControlError(
                f"[robot] name '{of.name}' has coupled joints, joints with several coordinates, or a moving base; the lab is for "
                "arms on a fixed base with one coordinate in each joint; lock = [...] fixes the joints of a gripper"
            )
        if of.payload is not None and of.payload.known:
            robot = Robot(with_payload(robot.model, of.payload, self.tool_of(robot)))
        return robot

    def tool_of(self, robot: Robot) -> str:
        """The frame of the tool: that of the file, 'tool', or the last one."""
        name = self.robot.tool
        if name is None:
            return "tool" if "tool" in robot.frame_names else robot.frame_names[-1]
        if name not in robot.frame_names:
            raise ControlError(f"[robot] tool '{name:.60}' is no frame of {robot.name}{nearest(name, robot.frame_names)}")
        return name

    def simulation(self, threads: int | None = None) -> Simulation:
        """The arm in its world; steps of 1 / physics s."""
        wrenches = sorted({*([self._frame(each.frame) for each in self.wrenches]), *([self.tool] if self.wall else [])})
        return Simulation(
            self.arm,
            1.0 / self.rates.physics,
            None,
            integrator=self.robot.integrator,
            limits=self.robot.joint_limits,
            wrenches=wrenches,
            threads=threads,
        )

    @property
    def tool(self) -> str:
        """The frame of the tool."""
        return self.tool_of(self.arm)

    def _frame(self, name: str | None) -> str:
        if name is None:
            return self.tool
        if name not in self.arm.frame_names:
            raise ControlError(
                f"[wrenches] frame '{name:.60}' is no frame of {self.arm.name}{nearest(name, self.arm.frame_names)}"
            )
        return name

    @property
    def q0(self) -> np.ndarray:
        """Where the arm starts."""
        return self.start(self.arm)

    def start(self, robot: Robot) -> np.ndarray:
        """Where a robot starts: `q` of the file, or its neutral configuration."""
        n, q = robot.nq, self.robot.q
        if q is None:
            return np.asarray(robot.neutral(), dtype=float)
        if np.shape(q) != (n,):
            raise ControlError(f"[robot] q must be a list of {n} numbers, one for each joint of {robot.name}; got {np.size(q)}")
        return np.array(q, dtype=float)

    def rows(self, robot: Robot | None = None) -> np.ndarray:
        """The reference at every update of the controller: (updates, 3 n) of joints, (updates, 30) of the tool."""
        rates, arm = self.rates, self.arm if robot is None else robot
        t = control_times(self.reference, self.control_updates, rates.control, rates.planner, self.warm_up)
        make = joint_rows if self.space == "joint" else tool_rows
        return make(self.reference, arm, self.start(arm), self.tool_of(arm), t)

    @property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the robot that the controller's model does not have: an unknown payload, and `plant`."""
        found: dict[str, Any] = {}
        payload = self.robot.payload
        if payload is not None and not payload.known:
            model = with_payload(self.arm.model, payload, self.tool)
            link = model.links[model.frame(payload.frame or self.tool).link]
            values = body_values(link)
            found = {f"{link.name}.{name}": np.asarray(values[name], dtype=float) for name in ("mass", "com", "inertia")}
        return found | {name: np.asarray(value, dtype=float) for name, value in flat(self.plant).items()}

    def setup(self, threads: int | None = None) -> Setup:
        """Simulation, loop, first state and rows of the reference."""
        simulation = self.simulation(threads)
        made = loop(simulation, simulation.state(self.q0), experiment=self.data())
        for name in self.parameters:
            if name not in made.parameters:
                raise ControlError(f"[plant] the loop has no parameter '{name:.60}'{nearest(name, list(made.parameters))}")
        return Setup(self, simulation, made)


@dataclass(frozen=True)
class Setup:
    """What an experiment builds. `rows` and `x0` are computed when they are used."""

    experiment: Experiment
    simulation: Simulation
    loop: Loop

    @property
    def ticks(self) -> int:
        """Steps of the physics."""
        return self.experiment.ticks

    @cached_property
    def rows(self) -> np.ndarray:
        """The reference at every update of the controller."""
        return self.experiment.rows()

    @cached_property
    def x0(self) -> np.ndarray:
        """The first state: at rest where the reference starts."""
        return self.loop.state(self.experiment.q0)

    def references(self) -> Any:
        """The references of a rollout; that of an external controller has zero commands."""
        if "u_external" not in self.loop.inputs:
            return {"reference": self.rows}
        return {"reference": self.rows, "u_external": np.zeros((len(self.rows), self.simulation.nu))}


# ---- the loop


@built_in("lab")
def loop(simulation: Simulation, x0: Any, *, experiment: Mapping[str, Any]) -> Loop:
    """The closed loop of an experiment; references: `reference`, and `u_external` (nu,) of an external controller."""
    of = Experiment.from_data(experiment)
    name = controllers.canonical(of.controller.name)
    tool, joints = of.tool_of(simulation.robot), simulation.robot.joint_names
    every = of.rates.control_ticks
    external = name == controllers.EXTERNAL
    entry = None if external else controllers.CONTROLLERS[name]
    controller = None
    if not external:
        slow = of.rates.planner_ticks if of.controller.rate == "planner" else every
        motion = Motion(of, simulation.robot)
        controller, entry = controllers.build(name, simulation, tool, of.controller.options, slow, motion)
    elif of.controller.options:
        raise ControlError(f"[controller] an external controller has no options; leave out {', '.join(of.controller.options)}")
    safety = None if of.safety is None else _safety_filter(simulation, of.safety, of.obstacles, every)
    pushes = [_disturbance(each, each.frame or tool) for each in of.wrenches]
    wall = None if of.wall is None else ElasticWall(tool, **_given(of.wall), name="wall")
    sensors = None if of.sensors is None else Encoders(joints, name="sensors", every=every, **_given(of.sensors))
    force_sensor = None
    if of.force_sensor is not None:
        force_sensor = Measurement(6, "N", name="force_sensor", every=every, **_given(of.force_sensor))
    actuators = None if of.actuators is None else TorquePath(simulation.nu, name="actuators", **_given(of.actuators))
    friction = None if of.friction is None else _friction(joints, of.friction)
    flexible = None if of.flexibility is None else SeriesElastic(joints, name="flexibility", **_given(of.flexibility))
    rows = JointRows(simulation.robot.nv)
    space = "joint" if entry is None else entry.space

    def closed(x: Any, reference: Any, u_external: Any = None) -> dict[str, Any]:
        measured = x
        if sensors is not None:
            read = sensors(x)
            measured = x.with_state(read["position"], read["velocity"])
        commands = [push() for push in pushes]
        if wall is not None:
            commands.append({"wrenches": {tool: wall(x)}})
        signals: dict[str, Any] = {}
        if controller is None:
            u = u_external
        else:
            more: dict[str, Any] = {}
            if entry is not None and entry.wrench:
                w = _wrench_at(x, commands, tool)
                more["wrench"] = w if force_sensor is None else force_sensor(w)["value"]
            sample = rows.sample(reference) if space == "joint" else tool_sample(reference)
            out = controller(measured, sample, **more)
            u = out["u"] if isinstance(out, Mapping) else out
        if safety is not None:
            u = safety(measured, u + np.zeros(simulation.nu))["u"]
        signals["command"] = u + np.zeros(simulation.nu)
        torque = u if actuators is None else actuators(u)
        moved = {"u": torque} if flexible is None else flexible(torque, x)
        if flexible is not None:
            moved = {key: value for key, value in moved.items() if key in ("u", "parameters")}
        return combined(moved, *([] if friction is None else [friction(x)]), *commands, signals)

    sizes: dict[str, Any] = {"reference": rows.size if space == "joint" else TOOL_ROW}
    if external:
        sizes["u_external"] = simulation.nu
        return Loop(simulation, closed, **sizes)
    return Loop(simulation, lambda x, reference: closed(x, reference), **sizes)


def tool_sample(row: Any) -> ToolSample:
    """A row of thirty numbers as the reference of a controller of the tool."""
    return ToolSample(row[:9].reshape(3, 3), row[9:12], row[12:18], row[18:24], row[24:30])


@dataclass(frozen=True)
class Motion:
    """The reference of an experiment, for controllers that linearise along it when they are made."""

    experiment: Experiment
    robot: Robot

    @property
    def duration(self) -> float:
        """The time of the experiment with its warm-up, s."""
        return self.experiment.warm_up + self.experiment.duration

    def at(self, t: Any) -> Sample:
        """Position, velocity and acceleration of the joints at times (rows,), s."""
        of = self.experiment
        since = np.asarray(t, dtype=float) - (of.warm_up + of.reference.start)
        return JointRows(self.robot.nv).sample(
            joint_rows(of.reference, self.robot, of.start(self.robot), of.tool_of(self.robot), since)
        )


def _given(of: Table) -> dict[str, Any]:
    """The keys of a table that are not None, as keywords of a block; lists are arrays."""
    found = {name: value for name, value in vars(of).items() if value is not None}
    return {name: np.array(value) if isinstance(value, tuple) else value for name, value in found.items()}


def _friction(joints: list[str], of: Friction) -> JointFriction | SmoothFriction:
    given = _given(of)
    if of.smooth_speed is None:
        return JointFriction(joints, name="friction", **given)
    return SmoothFriction(joints, given["coulomb"], given["viscous"], given["smooth_speed"], name="friction")


def _safety_filter(simulation: Simulation, of: Safety, obstacles: tuple[ObstacleTable, ...], every: int) -> SafetyFilter:
    solids = [each.solid() for each in obstacles]
    if not solids and not of.self_collision:
        raise ControlError("[safety] has nothing to keep away from: add [[obstacles]], or self_collision = true")
    given = {name: value for name, value in _given(of).items() if name != "self_collision"}
    distances = robot_distances(simulation.robot, solids, self_collision=of.self_collision)
    return SafetyFilter(simulation, distances, name="safety", every=every, **given)


def _disturbance(of: Wrench, frame: str) -> Any:
    axes = "local" if of.local else "world_aligned"
    named: dict[str, Any] = {"name": of.name, "axes": axes}
    if of.kind == "pulse":
        return WrenchPulse(frame, np.array(of.wrench), of.start, of.duration, period=of.period, **named)
    if of.kind == "sine":
        return SineWrench(frame, np.array(of.wrench), of.frequency, of.phase, **named)
    return RandomPushes(frame, np.array(of.deviation), of.rate, of.duration, **named)


def _wrench_at(x: Any, commands: list[dict[str, Any]], tool: str) -> Any:
    """The sum of the wrenches that act at the tool, in world axes."""
    total: Any = np.zeros(6)
    for command in commands:
        six = command["wrenches"].get(tool)
        if six is None:
            continue
        if isinstance(six, tuple):
            R = x.frame_pose(tool).R
            six = np.concatenate([R @ six[0][:3], R @ six[0][3:]])
        total = total + six
    return total
