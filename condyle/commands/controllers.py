"""The controllers that `condyle sim --controller` knows: what each does, for which robots, and how its run begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from condyle.commands.notes import command
from condyle.commands.scene import Scene, base_frame, placed, posed, push_frame, upward
from condyle.control.controller import Controller
from condyle.errors import CondyleError
from condyle.multibody.robot import Robot
from condyle.robot.library import meant
from condyle.robot.names import nearest
from condyle.robot.report import KEPT
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import Plane

WEIGHTLESS = "moves no inertia"  # what the report says of a joint that nothing resists


@dataclass(frozen=True)
class Plan:
    """What is done with the robot: how long, from how high and which pose, controlled how, pushed by which force."""

    seconds: float = 2.0
    height: float = 0.0
    controller: str | None = None
    gain: tuple[float, float] | None = None
    push: tuple[float, float, float] | None = None
    joints: tuple[str, ...] = ()  # NAME=VALUE, those that are not zero at first
    noise: float = 0.0  # of what the controller sees; 1 is that of common sensors
    seed: int = 0
    dt: float | None = None  # the time step, where one was asked for

    @property
    def named(self) -> str:
        """The controller that is meant."""
        return self.controller or ("none" if self.gain is None else "hold")


@dataclass(frozen=True)
class Start:
    """A simulation, its first state, what controls it, and how many of its wrenches, the first ones, are the controller's."""

    simulation: Simulation
    x: np.ndarray
    control: Controller
    wrenches: int = 0


@dataclass(frozen=True)
class Choice:
    """A controller: for which built-in robots, all if empty, and how a run with it begins."""

    summary: str
    begin: Callable[[Scene, Plan], Start]
    robots: tuple[str, ...] = ()


def standing(scene: Scene, plan: Plan) -> tuple[Simulation, np.ndarray]:
    """The robot in its world and its first state: in the given pose, its lowest contact at the given height."""
    robot = scene.origin.load()
    if not robot.model.nv:
        raise CondyleError(f"robot '{robot.name}' has no joint that moves: give it one, or let it fall with --base free")
    for note in robot.model.notes:
        if WEIGHTLESS in note.what:
            where = f"{note.where}: " if note.where else ""
            raise CondyleError(
                f"{where}{note.what.removeprefix(KEPT)}; {command('doctor', scene.origin.source)} --fix writes an estimate"
            )
    _check_base(robot, scene, plan)
    frame = push_frame(robot)
    simulation = scene.simulation(wrenches=[frame] if plan.push and frame else ())
    return simulation, simulation.state(placed(simulation, posed(robot, plan.joints), plan.height))


def _check_base(robot: Robot, scene: Scene, plan: Plan) -> None:
    """Refuses what would have no effect on a base that cannot move."""
    if plan.height and upward(robot) is None:
        raise CondyleError(
            f"--height lifts the base, and that of '{robot.name}' is fixed: let it move with --base free, or leave --height out"
        )
    if plan.height and scene.ground == "none":
        raise CondyleError("--height is that over the ground, and with --ground none there is none: leave one of them out")
    if plan.push and push_frame(robot) is None:
        raise CondyleError(
            f"--push pushes the base or an arm's tip, and the base of '{robot.name}' is fixed: let it move with --base free, "
            f"or push any link with the mouse, {command('view', scene.origin.source)} --live"
        )


def _any(make: Callable[[Simulation, np.ndarray, Plan], Controller]) -> Callable[[Scene, Plan], Start]:
    """A controller for any robot."""

    def begin(scene: Scene, plan: Plan) -> Start:
        simulation, x = standing(scene, plan)
        return Start(simulation, x, make(simulation, x, plan))

    return begin


def _none(simulation: Simulation, x: np.ndarray, plan: Plan) -> Controller:
    from condyle.control.simple import nothing

    return nothing(simulation)


def _hold(simulation: Simulation, x: np.ndarray, plan: Plan) -> Controller:
    from condyle.control.simple import holding

    return holding(simulation, x, plan.gain)


def _gravity(simulation: Simulation, x: np.ndarray, plan: Plan) -> Controller:
    from condyle.control.simple import floating

    return floating(simulation, x)


def _swing(simulation: Simulation, x: np.ndarray, plan: Plan) -> Controller:
    from condyle.control.simple import swaying

    return swaying(simulation, x)


def _noise(simulation: Simulation, x: np.ndarray, plan: Plan) -> Controller:
    from condyle.control.simple import shaking

    return shaking(simulation, plan.seed)


# ---- those of one machine


def _dog(gait: str) -> Callable[[Scene, Plan], Start]:
    """PiDog, from its standing pose."""

    def begin(scene: Scene, plan: Plan) -> Start:
        from condyle.demos import pidog

        _own_pose(plan)
        simulation, _ = standing(scene, plan)
        x = pidog.placed(simulation)
        if plan.height or simulation.ground != Plane(scene.friction):
            x = simulation.state(placed(simulation, simulation.split(x)[0], plan.height))
        control = pidog.standing(simulation, x) if gait == "stand" else pidog.walking(simulation, x, gait)
        return Start(simulation, x, control)

    return begin


def _hover(scene: Scene, plan: Plan) -> Start:
    """The birotor in the air, a metre above where it begins to count, or at the given height."""
    from condyle.demos import birotor

    _own_pose(plan)
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

    _own_pose(plan)
    if plan.dt not in (None, wheel.DT):
        raise CondyleError(f"the controller 'balance' is made for steps of {wheel.DT:g} s: leave --dt out")
    simulation, K = wheel.world(push=plan.push is not None), wheel.gain()

    def control(k: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        wanted = -(K[0] * x[0] + K[1] * x[1] + K[2] * x[2] + K[3] * x[3])
        return np.array([min(max(wanted, -wheel.TORQUE), wheel.TORQUE)]), None

    return Start(simulation, simulation.state(wheel.leaning()), control)


def _own_pose(plan: Plan) -> None:
    if plan.joints:
        raise CondyleError(f"the controller '{plan.named}' begins in a pose of its own: leave --joint out")


CONTROLLERS = {
    "none": Choice("motors do nothing", _any(_none)),
    "hold": Choice("every joint is held where it is at first", _any(_hold)),
    "gravity": Choice("the robot's weight is carried, and motion damped", _any(_gravity)),
    "swing": Choice("every joint sways gently within its limits", _any(_swing)),
    "noise": Choice("random torques, the same for the same --seed", _any(_noise)),
    "stand": Choice("PiDog stands", _dog("stand"), ("pidog",)),
    "walk": Choice("PiDog walks its maker's walk", _dog("walk"), ("pidog",)),
    "trot": Choice("PiDog trots its maker's trot, which falls without balance", _dog("trot"), ("pidog",)),
    "hover": Choice("the birotor stays in the air where it is", _hover, ("birotor",)),
    "balance": Choice("the wheeled pendulum rolls and stays upright", _balance, ("wheeled_pendulum",)),
}


def begin(scene: Scene, plan: Plan) -> Start:
    """The run's first state, with what goes on from there; noise of the sensors included."""
    name = plan.named
    choice = CONTROLLERS.get(name)
    if choice is None:
        raise CondyleError(f"there is no controller '{name}'{nearest(name, list(CONTROLLERS))}")
    source = scene.origin.source if Path(scene.origin.source).is_file() else meant(scene.origin.source)
    if choice.robots and source not in choice.robots:
        usable = [other for other, c in CONTROLLERS.items() if not c.robots or source in c.robots]
        raise CondyleError(
            f"the controller '{name}' is for {' and '.join(choice.robots)}, not for {source}: take one of {', '.join(usable)}"
        )
    if plan.gain is not None and name != "hold":
        raise CondyleError(f"--gain belongs to --controller hold, not to {name}: leave one of them out")
    start = choice.begin(scene, plan)
    if not plan.noise:
        return start
    from condyle.control.sensors import Sensed

    return Start(start.simulation, start.x, Sensed(start.control, start.simulation, plan.noise, plan.seed), start.wrenches)
