"""The controllers of `condyle sim --controller`: what each does, for which robots, and the initial state of its run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from condyle.closed_loop.loop import Loop
from condyle.commands.hints import shell_command
from condyle.commands.scene import Origin, Scene, base_frame, height_index, initial_configuration, place_on_ground, push_frame
from condyle.errors import CondyleError
from condyle.methods.control.stance import stance_pose
from condyle.multibody.robot import Robot
from condyle.robot.library import knows, meant
from condyle.robot.names import nearest
from condyle.robot.report import KEPT
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import Plane

PUSH = 0.1  # s, duration of a push
WITHOUT_INERTIA = "moves no inertia"  # in the report of a loaded robot


@dataclass(frozen=True)
class Plan:
    """The options of a run: its duration, initial pose, controller, push and noise."""

    seconds: float = 2.0
    height: float = 0.0
    controller: str | None = None
    gain: tuple[float, float] | None = None
    push: tuple[float, float, float] | None = None
    joints: Sequence[str] | None = None  # NAME=VALUE, initial positions
    noise: float = 0.0  # of the measured state; 1 is that of common sensors
    seed: int = 0
    dt: float | None = None  # the time step, if given
    keyframe: str | None = None  # of the robot's file: the initial pose

    @property
    def named(self) -> str:
        """The name of the controller; --gain alone selects hold."""
        return self.controller or ("none" if self.gain is None else "hold")

    def with_controller(self, origin: Origin) -> Plan:
        """The plan with a controller: where none is given, the stance of a robot file with motors; built-in robots fall."""
        if self.controller is not None or self.gain is not None:
            return self
        file = Path(origin.source).is_file() or not knows(origin.source)
        return replace(self, controller="stance" if file and has_motors(origin.load()) else "none")


def has_motors(robot: Robot) -> bool:
    """Whether the robot's file names actuators that can be simulated, or joints with a limited effort, which are motors."""
    own = any(not actuator.unsupported for actuator in robot.actuators)
    return own or any(link.limits.effort for link in robot.model.links if not link.base)


@dataclass(frozen=True)
class Start:
    """A simulation, the initial configuration of a run, its references for every tick, and the frame that --push pushes at."""

    simulation: Simulation
    q: np.ndarray
    references: dict[str, Iterator[np.ndarray]] = field(default_factory=dict)
    frame: str | None = None


@dataclass(frozen=True)
class Choice:
    """A controller: its summary, how a run with it starts, and its built-in robots (any robot if empty)."""

    summary: str
    start: Callable[[Scene, Plan], Start]
    robots: tuple[str, ...] = ()


def posed(scene: Scene, plan: Plan) -> Start:
    """The start of a run with a controller for any robot: in the given pose, the lowest contact at the given height."""
    robot = scene.origin.load()
    if not robot.model.nv:
        raise CondyleError(f"robot '{robot.name}' has no joint that moves: give it one, or let it fall with --base free")
    for note in robot.model.notes:
        if WITHOUT_INERTIA in note.what:
            where = f"{note.where}: " if note.where else ""
            fix = f"{shell_command('doctor', scene.origin.source)} --fix writes an estimate"
            raise CondyleError(f"{where}{note.what.removeprefix(KEPT)}; {fix}")
    _check_base(robot, scene, plan)
    simulation = scene.simulation()
    if plan.keyframe is not None or robot.keyframes or plan.named == "stance":
        q = initial_configuration(robot, plan.joints or (), stance_pose(robot, plan.keyframe))
    else:
        q = initial_configuration(robot, plan.joints or ())
    q = place_on_ground(simulation, q, plan.height)
    return Start(simulation, q, frame=push_frame(robot))


def _check_base(robot: Robot, scene: Scene, plan: Plan) -> None:
    """CondyleError for options without effect on a base that cannot move."""
    if plan.height and height_index(robot) is None:
        raise CondyleError(
            f"--height lifts the base, and that of '{robot.name}' is fixed: let it move with --base free, or leave --height out"
        )
    if plan.height and scene.ground == "none":
        raise CondyleError("--height is the height over the ground, and --ground none removes it: leave one of them out")
    if plan.push and push_frame(robot) is None:
        raise CondyleError(
            f"--push pushes the base or an arm's tip, and the base of '{robot.name}' is fixed: let it move with --base free, "
            f"or push any link with the mouse, {shell_command('view', scene.origin.source)} --live"
        )


# ---- controllers of one robot


def _dog(gait: str) -> Callable[[Scene, Plan], Start]:
    """PiDog, from its standing pose."""

    def start(scene: Scene, plan: Plan) -> Start:
        from condyle.apps.pidog import plant, trajectories

        _check_pose(plan)
        begun = posed(scene, plan)
        simulation = begun.simulation
        x = plant.standing_state(simulation)
        if plan.height or simulation.ground != Plane(scene.friction):
            x = simulation.state(place_on_ground(simulation, simulation.split(x)[0], plan.height))
        reference = trajectories.standing(simulation, x) if gait == "stand" else trajectories.walking(simulation, x, gait)
        return replace(begun, q=simulation.split(x)[0], references={"reference": reference})

    return start


def _hover(scene: Scene, plan: Plan) -> Start:
    """The birotor in the air, at the given height or 1 m."""
    from condyle.apps.demos import birotor

    _check_pose(plan)
    simulation = birotor.world(plan.dt or birotor.DT)
    q = simulation.robot.neutral()
    q[2] = plan.height or 1.0
    return Start(simulation, q, frame=base_frame(simulation.robot))


def _balance(scene: Scene, plan: Plan) -> Start:
    """The wheeled pendulum on its wheel, leaning."""
    from condyle.apps.demos import wheeled_pendulum as wheel

    _check_pose(plan)
    if plan.dt not in (None, wheel.DT):
        raise CondyleError(f"the controller 'balance' is designed for steps of {wheel.DT:g} s: leave --dt out")
    return Start(wheel.world(), wheel.leaning(), frame="top")


def _check_pose(plan: Plan) -> None:
    for option, given in (("--joint", plan.joints), ("--keyframe", plan.keyframe)):
        if given:
            raise CondyleError(f"the controller '{plan.named}' starts in its own pose: leave {option} out")


CONTROLLERS = {
    "none": Choice("no torques", posed),
    "hold": Choice("PD control of every joint to its initial position", posed),
    "gravity": Choice("gravity compensation with damping", posed),
    "swing": Choice("every joint follows a sine within its limits", posed),
    "noise": Choice("random torques, the same for the same --seed", posed),
    "stance": Choice("the robot's own actuators, or PD control of its motors, hold a keyframe or its neutral pose", posed),
    "stand": Choice("PiDog stands", _dog("stand"), ("pidog",)),
    "walk": Choice("PiDog walks, with the manufacturer's gait", _dog("walk"), ("pidog",)),
    "trot": Choice("PiDog trots, with the manufacturer's gait, and falls for lack of balance", _dog("trot"), ("pidog",)),
    "hover": Choice("the birotor hovers", _hover, ("birotor",)),
    "balance": Choice("the wheeled pendulum balances on its wheel", _balance, ("wheeled_pendulum",)),
}


def start(scene: Scene, plan: Plan) -> Start:
    """The simulation, initial pose and references of a run."""
    name = plan.named
    choice = CONTROLLERS.get(name)
    if choice is None:
        raise CondyleError(f"there is no controller '{name}'{nearest(name, list(CONTROLLERS))}")
    source = scene.origin.source if Path(scene.origin.source).is_file() else meant(scene.origin.source)
    if choice.robots and source not in choice.robots:
        usable = [other for other, c in CONTROLLERS.items() if not c.robots or source in c.robots]
        raise CondyleError(
            f"the controller '{name}' is for {' and '.join(choice.robots)}, not for {source}: use one of {', '.join(usable)}"
        )
    if plan.gain is not None and name != "hold":
        raise CondyleError(f"--gain belongs to --controller hold, not to {name}: leave one of them out")
    return choice.start(scene, plan)


def loop_of(begun: Start, plan: Plan, steps: int) -> Loop:
    """The loop of a run: its controller with the noise of its sensors, and a push for 0.1 s after a third of the time."""
    from condyle.apps.demos.loops import sim

    dt = begun.simulation.dt
    options: dict[str, Any] = {"controller": plan.named, "noise": plan.noise}
    if plan.gain is not None:
        options["gain"] = list(plan.gain)
    if plan.push is not None:
        duration = dt * max(round(PUSH / dt), 1)
        options |= {"push": list(plan.push), "frame": begun.frame, "start": dt * (steps // 3), "duration": duration}
    return sim(begun.simulation, begun.simulation.state(begun.q), **options)
