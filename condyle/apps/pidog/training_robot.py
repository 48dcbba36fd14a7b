"""PiDog as its learning tasks have it: servos and IMU with all their faults, rough ground, pushes, and what of it is random.

A tick is 2 ms, and every tenth one a frame of the servos' pulses, 50 Hz: the controller (`controller.py`) turns the
action into angles and makes the next observation. What the IMU measured in one frame is used in the next.

    loop = dog_loop()                                  # reference "action"; the observation is "controller.seen"
    parameters = randomized(np.random.default_rng(0), 100)

`RANDOMIZATION` has the ranges, by the loop's parameter; `randomization(level)` is for cd.VectorEnv, level 0 to 1 of the spread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import pi, radians
from types import ModuleType
from typing import Any

import numpy as np

from condyle.apps.pidog import controller
from condyle.apps.pidog.kinematics import JOINTS
from condyle.apps.pidog.plant import on_feet
from condyle.blocks.hobby_servo import HobbyServo
from condyle.blocks.imu import IMU
from condyle.blocks.joints import combined
from condyle.closed_loop.block import Block, BlockParameter
from condyle.closed_loop.loop import Loop
from condyle.multibody.robot import Robot, load
from condyle.robot.library.pidog import EFFORT, SPEED
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import Ground, Plane, Terrain
from condyle.tape.array import where

Array = np.ndarray

DT, EVERY = 0.002, 10  # s of a tick; ticks of a frame
FRICTION, SMOOTHING = 0.65, 3e-3
DEAD_BAND, BACKLASH, DELAY, RESISTANCE = radians(3.5), radians(1.0), 0.020, 0.15  # whole width; rad, rad, s, ohm
PUSH, PUSHES, PUSH_TIME = 1.0, 0.25, 0.1  # N at most, pushes per second, s
ROUGHNESS = 0.005  # m from the lowest to the highest point of rough ground
GRAVITY = 9.81


@cache
def robot() -> Robot:
    """PiDog with head and tail held; what its servos lose by their speed is in the servos, not in the joints."""
    return load("pidog").lock(["head", "tail"])


def rough(x: Any, y: Any, roughness: float = ROUGHNESS) -> Any:
    """The height of rough ground: waves of 12 and 17 cm, together so high."""
    size = 0.25 * roughness
    return size * (np.sin(50.0 * x + 13.0 * y) + np.sin(-21.0 * x + 31.0 * y))


def world(ground: Ground | None = None, dt: float = DT) -> Simulation:
    """The dog on rough ground (default), or another."""
    # float32 needs more smoothing than the default of 1e-5: with saturated servos the solver would not converge
    return Simulation(robot(), dt, Terrain(rough, FRICTION) if ground is None else ground, "*_foot", smoothing=SMOOTHING)


def flat() -> Ground:
    """A level floor."""
    return Plane(FRICTION)


class Controller(Block):
    """condyle/apps/pidog/controller.py in a loop: angles of this frame from the action, then the observation for the next.

    `numbers`: those of the controller; the ones in `tuned` are parameters of the loop. `module`: another controller with the same
    functions, such as condyle/apps/pidog/get_up.py.
    """

    def __init__(
        self,
        numbers: Mapping[str, Any] | None = None,
        tuned: Sequence[str] = (),
        module: ModuleType = controller,
        **options: Any,
    ) -> None:
        super().__init__(**{"name": "controller", **options})
        self.module, self.numbers = module, {**module.NUMBERS, **(numbers or {})}
        begin = module.initial()
        seen, _ = module.observe(self.numbers, begin, np.zeros(3), np.array([0.0, 0.0, GRAVITY]), np.zeros(2))
        for name in tuned:
            self.numbers[name] = self.parameter(name, np.asarray(self.numbers[name], dtype=float))
        for name, value in {**begin, "seen": seen}.items():
            self.state(name, value)

    def step(self, state: dict[str, Any], action: Any, rate: Any, acceleration: Any, command: Any) -> tuple[Any, dict[str, Any]]:
        """The angles of the servos, rad."""
        inside = {name: value for name, value in state.items() if name != "seen"}
        numbers = {name: value.resolve() if isinstance(value, BlockParameter) else value for name, value in self.numbers.items()}
        angles, inside = self.module.act(numbers, inside, action)
        seen, inside = self.module.observe(numbers, inside, rate, acceleration, command)
        return angles, {**inside, "seen": seen}


class Command(Block):
    """What the dog is asked for: parameters "command.speed", m/s, and "command.turn", rad/s to the left."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"name": "command", **options})
        self.speed = self.parameter("speed", 0.22, "m/s")
        self.turn = self.parameter("turn", 0.0, "rad/s")

    def step(self, state: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """(speed, turn)."""
        return np.array([+self.speed, +self.turn]), {}


class HornOffset(Block):
    """Servo horns sit on splined shafts: each angle is off by the parameter "horn.offset", rad, (8,)."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"name": "horn", **options})
        self.offset = self.parameter("offset", np.zeros(len(JOINTS)), "rad")

    def step(self, state: dict[str, Any], angles: Any) -> tuple[Any, dict[str, Any]]:
        """The angles that the servos hold for these commands."""
        return angles + self.offset, {}


class Pushes(Block):
    """Forces on the torso at random times, each entry up to "push.force" N (up and down half of it) for PUSH_TIME."""

    def __init__(self, force: float = 0.0, **options: Any) -> None:
        super().__init__(**{"name": "push", **options})
        self.force = self.parameter("force", force, "N", minimum=0.0)
        self.rate = self.parameter("rate", PUSHES, "1/s", minimum=0.0)
        self.state("wrench", np.zeros(3))
        self.state("remaining", 0.0)

    def step(self, state: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The force of this frame."""
        drawn = self.uniform(4)
        starts = drawn[3] < self.rate * self.dt
        direction = np.array([2.0 * drawn[0] - 1.0, 2.0 * drawn[1] - 1.0, drawn[2] - 0.5])
        remaining = where(starts, PUSH_TIME, np.maximum(state["remaining"] - self.dt, 0.0))
        wrench = where(starts, direction * self.force, where(remaining > 0.5 * self.dt, state["wrench"], 0.0 * state["wrench"]))
        return wrench, {"wrench": wrench, "remaining": remaining}


def dog_loop(
    simulation: Simulation | None = None,
    *,
    numbers: Mapping[str, Any] | None = None,
    tuned: Sequence[str] = (),
    module: ModuleType = controller,
    pushes: bool = True,
    command: Callable[..., Any] | None = None,
    **references: Any,
) -> Loop:
    """Controller, servos, IMU, pushes around the dog, reference "action"; see the top of the file and `Controller`.

    `command`: a function of what the IMU measured and of further `references` that gives (speed, turn), in place of `Command`.
    """
    simulation = world() if simulation is None else simulation
    every = frame_ticks(simulation.dt)
    control, constant, horn = Controller(numbers, tuned, module, every=every), Command(every=every), HornOffset(every=every)
    servo = HobbyServo(
        JOINTS,
        effort=EFFORT,
        speed=SPEED,
        dead_band=0.5 * DEAD_BAND,
        backlash=BACKLASH,
        delay=DELAY,
        max_delay=0.040,
        source_resistance=RESISTANCE,
        name="servo",
    )
    # of a sample at 50 Hz about 0.1 degrees/s and 0.02 m/s^2
    imu = IMU("torso", delay=0.010, max_delay=0.020, rate_noise=3e-4, acceleration_noise=3e-3, every=every)
    push = Pushes(every=every)
    damping = {f"{joint}.damping": 0.0 for joint in JOINTS}

    def closed(x: Any, action: Any, **given: Any) -> Any:
        measured = imu(x)
        wanted = constant() if command is None else command(measured, **given)
        angles = horn(control(action, measured["rate"], measured["acceleration"], wanted))
        found = combined(servo(angles, x), {"parameters": damping})
        if pushes:
            force = push()
            found["wrenches"] = {"torso": np.concatenate([force, np.zeros(3)])}
        return found

    return Loop(simulation, closed, action=len(module.ACTION), **references)


def standing(numbers: Mapping[str, Any] | None = None) -> Array:
    """q of the dog standing on level ground at the origin, its feet where the controller has them, pitched so that all touch."""
    n = {**controller.NUMBERS, **(numbers or {})}
    q = robot().neutral()
    angles, _ = controller.act(n, controller.initial(), np.zeros(len(controller.ACTION)))
    q[7:] = angles
    return on_feet(robot(), q)


def frame_ticks(dt: float) -> int:
    """Ticks of dt seconds in a frame of the servos' pulses."""
    return round(EVERY * DT / dt)


def anywhere(draw: Any, q: Array, height: Callable[[Any, Any], Any] = rough) -> Any:
    """q of a dog somewhere on the ground, a little above it; `height` of the ground, m."""
    place = draw.uniform(-1.0, 1.0, 2)
    return np.concatenate([place, np.array([height(place[0], place[1]) + q[2] + 0.003]), q[3:]])


# -- what is random

Range = tuple[Any, Any]
EIGHT = np.ones(len(JOINTS))


def _ranges() -> dict[str, Range]:
    mass = float(robot().parameter("torso.mass"))
    com = np.asarray(robot().parameter("torso.com"), dtype=float)
    tilt, bias = radians(2.0), radians(0.5)
    three = np.ones(3)
    return {
        "torso.mass": (0.8 * mass, 1.2 * mass),
        "torso.com": (com - 0.010, com + 0.010),
        "ground.friction": (0.3, 1.0),
        "servo.effort": (0.6 * EFFORT, 1.1 * EFFORT),
        "servo.speed": (0.8 * SPEED, 1.1 * SPEED),
        "servo.dead_band": (0.5 * radians(2.0), 0.5 * radians(5.0)),
        "servo.delay": (0.0, 0.040),
        "servo.backlash": (0.0, radians(2.0)),
        "servo.source_resistance": (0.0, 0.3),
        "horn.offset": (-radians(3.0) * EIGHT, radians(3.0) * EIGHT),
        "imu.rate_bias": (-bias * three, bias * three),
        "imu.acceleration_bias": (-0.2 * three, 0.2 * three),
        "imu.misalignment": (-tilt * three, tilt * three),
        "imu.delay": (0.0, 0.020),
        "push.force": (0.0, PUSH),
    }


@cache
def ranges() -> Mapping[str, Range]:
    """(lowest, highest) of each random parameter; the slope is one of gravity's direction, see `slope`."""
    return _ranges()


SLOPE = radians(5.0)


def slope(draw: Any, level: Any = 1.0) -> Any:
    """Gravity on a slope of up to 5 degrees, uphill anywhere: the ground stays z = 0."""
    angle, way = draw.uniform(0.0, SLOPE) * level, draw.uniform(-pi, pi)
    return np.array([GRAVITY * np.sin(angle) * np.cos(way), GRAVITY * np.sin(angle) * np.sin(way), -GRAVITY * np.cos(angle)])


def randomization(level: float = 1.0) -> dict[str, Range | Callable[[Any], Any]]:
    """For cd.VectorEnv: all ranges, or narrower ones around their middle, and the slope."""
    found: dict[str, Any] = {}
    for name, (low, high) in ranges().items():
        middle = 0.5 * (np.asarray(low) + np.asarray(high)) if name != "push.force" else 0.0
        found[name] = (middle + level * (low - middle), middle + level * (high - middle))
    return {**found, "gravity": lambda draw: slope(draw, level)}


class _Draw:
    """Random numbers of NumPy with the interface of a loop's."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def uniform(self, low: Any = 0.0, high: Any = 1.0, shape: Any = ()) -> Any:
        return self.rng.uniform(low, high, shape or None)


def randomized(rng: np.random.Generator, robots: int, level: float = 1.0) -> dict[str, Array]:
    """Parameters of so many robots for loop.rollout, drawn with NumPy."""
    found = {}
    for name, value in randomization(level).items():
        if callable(value):
            found[name] = np.array([value(_Draw(rng)) for _ in range(robots)])
        else:
            low, high = np.asarray(value[0], dtype=float), np.asarray(value[1], dtype=float)
            found[name] = rng.uniform(low, high, (robots, *low.shape))
    return found
