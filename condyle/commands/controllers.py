"""The controllers of `condyle sim --controller`: what each does, for which robots, and the initial state of its run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from condyle.commands.hints import shell_command
from condyle.commands.scene import Scene, base_frame, height_index, initial_configuration, place_on_ground, push_frame
from condyle.control import controllers
from condyle.control.controllers import Controller
from condyle.errors import CondyleError
from condyle.multibody.robot import Robot
from condyle.robot.library import meant
from condyle.robot.names import nearest
from condyle.robot.report import KEPT
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import Plane

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

    @property
    def named(self) -> str:
        """The name of the controller; --gain alone selects hold."""
        return self.controller or ("none" if self.gain is None else "hold")


@dataclass(frozen=True)
class Start:
    """A simulation, its initial state and controller, and how many of its wrenches, the first ones, are the controller's."""

    simulation: Simulation
    x: np.ndarray
    control: Controller
    wrenches: int = 0


@dataclass(frozen=True)
class Choice:
    """A controller: its summary, how a run with it starts, and its built-in robots (any robot if empty)."""

    summary: str
    start: Callable[[Scene, Plan], Start]
    robots: tuple[str, ...] = ()


def initial_state(scene: Scene, plan: Plan) -> tuple[Simulation, np.ndarray]:
    """The simulation and its initial state: in the given pose, the lowest contact at the given height."""
    robot = scene.origin.load()
    if not robot.model.nv:
        raise CondyleError(f"robot '{robot.name}' has no joint that moves: give it one, or let it fall with --base free")
    for note in robot.model.notes:
        if WITHOUT_INERTIA in note.what:
            where = f"{note.where}: " if note.where else ""
            fix = f"{shell_command('doctor', scene.origin.source)} --fix writes an estimate"
            raise CondyleError(f"{where}{note.what.removeprefix(KEPT)}; {fix}")
    _check_base(robot, scene, plan)
    frame = push_frame(robot)
    simulation = scene.simulation(wrenches=[frame] if plan.push and frame else ())
    return simulation, simulation.state(place_on_ground(simulation, initial_configuration(robot, plan.joints or ()), plan.height))


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


def _simple(build: Callable[[Simulation, np.ndarray, Plan], Controller]) -> Callable[[Scene, Plan], Start]:
    """The start of a run with a controller for any robot."""

    def start(scene: Scene, plan: Plan) -> Start:
        simulation, x = initial_state(scene, plan)
        return Start(simulation, x, build(simulation, x, plan))

    return start


# ---- controllers of one robot


def _dog(gait: str) -> Callable[[Scene, Plan], Start]:
    """PiDog, from its standing pose."""

    def start(scene: Scene, plan: Plan) -> Start:
        from condyle.demos import pidog

        _check_pose(plan)
        simulation, _ = initial_state(scene, plan)
        x = pidog.standing_state(simulation)
        if plan.height or simulation.ground != Plane(scene.friction):
            x = simulation.state(place_on_ground(simulation, simulation.split(x)[0], plan.height))
        control = pidog.standing(simulation, x) if gait == "stand" else pidog.walking(simulation, x, gait)
        return Start(simulation, x, control)

    return start


def _hover(scene: Scene, plan: Plan) -> Start:
    """The birotor in the air, at the given height or 1 m."""
    from condyle.demos import birotor

    _check_pose(plan)
    dt = plan.dt or birotor.DT
    flying = birotor.world(dt)
    simulation = flying
    if plan.push:
        frames = flying.wrench_frames
        simulation = Simulation(flying.robot, dt, integrator=flying.integrator, wrenches=[*frames, base_frame(flying.robot)])
    q = flying.robot.neutral()
    q[2] = plan.height or 1.0
    x = simulation.state(q)
    return Start(simulation, x, birotor.hover(flying, x), len(flying.wrench_frames))


def _balance(scene: Scene, plan: Plan) -> Start:
    """The wheeled pendulum on its wheel, leaning."""
    from condyle.demos import wheeled_pendulum as wheel

    _check_pose(plan)
    if plan.dt not in (None, wheel.DT):
        raise CondyleError(f"the controller 'balance' is designed for steps of {wheel.DT:g} s: leave --dt out")
    simulation = wheel.world(push=plan.push is not None)
    return Start(simulation, simulation.state(wheel.leaning()), wheel.balance)


def _check_pose(plan: Plan) -> None:
    if plan.joints:
        raise CondyleError(f"the controller '{plan.named}' starts in its own pose: leave --joint out")


CONTROLLERS = {
    "none": Choice("no torques", _simple(lambda s, x, plan: controllers.zero_torque(s))),
    "hold": Choice(
        "PD control of every joint to its initial position", _simple(lambda s, x, plan: controllers.hold(s, x, plan.gain))
    ),
    "gravity": Choice("gravity compensation with damping", _simple(lambda s, x, plan: controllers.gravity_compensation(s, x))),
    "swing": Choice("every joint follows a sine within its limits", _simple(lambda s, x, plan: controllers.sine_motion(s, x))),
    "noise": Choice(
        "random torques, the same for the same --seed", _simple(lambda s, x, plan: controllers.random_torque(s, plan.seed))
    ),
    "stand": Choice("PiDog stands", _dog("stand"), ("pidog",)),
    "walk": Choice("PiDog walks, with the manufacturer's gait", _dog("walk"), ("pidog",)),
    "trot": Choice("PiDog trots, with the manufacturer's gait, and falls for lack of balance", _dog("trot"), ("pidog",)),
    "hover": Choice("the birotor hovers", _hover, ("birotor",)),
    "balance": Choice("the wheeled pendulum balances on its wheel", _balance, ("wheeled_pendulum",)),
}


def start(scene: Scene, plan: Plan) -> Start:
    """The simulation, initial state and controller of a run, with the noise of its sensors."""
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
    begun = choice.start(scene, plan)
    if not plan.noise:
        return begun
    from condyle.control.sensors import NoisySensors

    return replace(begun, control=NoisySensors(begun.control, begun.simulation, plan.noise, plan.seed))
