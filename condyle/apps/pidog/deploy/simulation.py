"""dog.py in a closed loop with the simulated PiDog, in lock-step: its own loop, safety, log and driver, unchanged.

The program believes that it is on the dog: `SimulatedPiDog.packages` are `robot_hat` and `pidog` with the manufacturer's classes
`Servo`, `fileDB` and `Sh3001`, in whole counts of pulses and of the IMU. Behind them are the servos, the IMU and the ground of
condyle/apps/pidog/training_robot.py, all of the body may touch the ground, and time passes while the program sleeps.

    found = simulate(dog_program(Path("dog/dog.py")), 10.0, (0.22, 0.0), log=Path("log.csv"))
    found.speed, found.reason

The second process, which lies the dog down when the first one dies, is not part of it.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from types import ModuleType
from typing import Any

import numpy as np

from condyle.apps.pidog import get_up_task as pidog_get_up
from condyle.apps.pidog import training_robot as pidog_robot
from condyle.apps.pidog.deploy import servo_commands
from condyle.apps.pidog.deploy.drivers import ACCELERATION_COUNT, AXES, LEG_PINS, RATE_COUNT
from condyle.apps.pidog.deploy.step import COUNTS, LONGEST, PERIOD, SHORTEST
from condyle.apps.pidog.kinematics import FEET
from condyle.apps.pidog.poses import pose_angles
from condyle.closed_loop.loop import Loop
from condyle.errors import ControlError, FileError
from condyle.robot.library.pidog import FOOT_RADIUS
from condyle.simulate.terrain import Terrain

Array = np.ndarray

SETTLING = 2.0  # s at the start of the walk that do not count for the speed: the command is ramped
LONGEST_RUN = 600.0  # s


@cache
def loop() -> Loop:
    """The simulated dog with servos, IMU and pushes on the rough ground of training; reference "action": eight servo angles."""
    ground = Terrain(pidog_robot.rough, pidog_robot.FRICTION)
    return pidog_robot.dog_loop(pidog_get_up.world(ground, dt=pidog_robot.DT), module=servo_commands)


def crouching() -> Array:
    """q in the manufacturer's pose "lie", feet just above the ground."""
    robot = pidog_robot.robot()
    q = robot.neutral()
    q[7:] = np.radians(pose_angles("lie"))
    q[2] += FOOT_RADIUS + 0.5 * pidog_robot.ROUGHNESS - min(float(robot.frame_pose(q, foot)[1][2]) for foot in FEET)
    return np.asarray(q)


class SimulatedPiDog:
    """The dog behind the manufacturer's packages; `seed` draws one of the dogs of training, None is the nominal one."""

    def __init__(self, seed: int | None = None) -> None:
        self.loop, self.seed, q = loop(), seed or 0, crouching()
        # all that training draws, so that every dog has the same kernel; pulses are whole counts already
        names = [*pidog_robot.randomization(), "push.rate", "servo.resolution"]
        self.parameters: dict[str, Any] = {name: np.asarray(self.loop.parameters[name].default) for name in names}
        self.parameters["servo.resolution"] = np.zeros(())
        if seed is not None:
            drawn = pidog_robot.randomized(np.random.default_rng(seed), 1)
            self.parameters |= {name: value[0] for name, value in drawn.items()}
        self.x = self.loop.state(q)
        self.angles = q[7:].copy()
        self.time = 0.0
        self.ticks = 0
        self.pulses = np.zeros(8, dtype=int)

    # ---- time

    def clock(self) -> float:
        """Simulated seconds."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Let so much time pass."""
        self.time += max(seconds, 0.0)
        while (self.ticks + 1) * self.loop.dt <= self.time + 1e-9:
            self.x = self._tick()[0]
            self.ticks += 1

    def _tick(self) -> Any:
        parameters = self.parameters if self.pulses.any() else {**self.parameters, "servo.effort": 0.0}
        return self.loop.step(self.x, self.angles, seed=self.seed, parameters=parameters, record=("controller.seen",))

    # ---- what the manufacturer's packages do

    def pulse(self, pin: int, counts: int) -> None:
        """A pulse for a servo; 0 counts are none: when no leg has pulses, all give way. Head and tail are locked here."""
        if pin in LEG_PINS:
            k = LEG_PINS.index(pin)
            self.pulses[k] = counts
            if counts:
                degrees = (counts * PERIOD / COUNTS - SHORTEST) / (LONGEST - SHORTEST) * 180.0 - 90.0
                self.angles[k] = np.radians(degrees)

    def imu_counts(self) -> tuple[list[int], list[int]]:
        """(acceleration, rate) in counts and in the axes of the sensor."""
        # the sample at the beginning of this tick; the tick itself comes with `sleep`
        seen = self._tick()[1]["controller.seen"]
        axes = np.array(AXES).T
        found = [axes @ seen[3:] / ACCELERATION_COUNT, axes @ seen[:3] / RATE_COUNT]
        acceleration, rate = ([int(n) for n in np.clip(np.rint(each), -32768, 32767)] for each in found)
        return acceleration, rate

    @property
    def packages(self) -> dict[str, ModuleType]:
        """{name: module} of `robot_hat` and `pidog` for this dog."""
        dog = self

        class Servo:
            """robot_hat.Servo."""

            def __init__(self, pin: int) -> None:
                self.pin = pin

            def pulse_width(self, counts: int) -> None:
                """Give a pulse, in counts of 20 ms / 4095."""
                dog.pulse(self.pin, counts)

            def angle(self, degrees: float) -> None:
                """Give the pulse for an angle."""
                dog.pulse(self.pin, round((SHORTEST + (degrees + 90.0) / 180.0 * (LONGEST - SHORTEST)) / PERIOD * COUNTS))

        class FileDB:
            """robot_hat.fileDB of a dog whose horns are calibrated."""

            def __init__(self, path: str) -> None:
                self.path = path

            def get(self, name: str, default_value: Any) -> Any:
                """The default."""
                return default_value

        class Sh3001:
            """pidog.sh3001.Sh3001."""

            def __init__(self, db: str) -> None:
                self.db = db

            def _sh3001_getimudata(self) -> Any:
                return dog.imu_counts()

        contents: dict[str, dict[str, Any]] = {
            "robot_hat": {"Servo": Servo, "fileDB": FileDB},
            "pidog": {},
            "pidog.sh3001": {"Sh3001": Sh3001},
        }
        modules = {name: ModuleType(name) for name in contents}
        for name, content in contents.items():
            modules[name].__dict__.update(content)
        return modules


# ---- a run of the program


@dataclass(frozen=True)
class SimulatedRun:
    """What a run of the program gave; rows are ticks of 20 ms from the first to the last."""

    reason: str  # why it ended
    times: Array  # s
    modes: list[str]
    halting: Array  # whether it was walking to a stop
    q: Array
    v: Array
    degrees: Array  # of the servos, as commanded
    step_times: Array  # s of the computer for each step of the policy

    @property
    def walking(self) -> Array:
        """Which rows belong to the policy, (rows,)."""
        return np.array([mode == "walk" for mode in self.modes])

    @property
    def commanded(self) -> Array:
        """Which of them have the command that was given, (rows,)."""
        commanded: Array = self.walking & ~self.halting
        return commanded

    @property
    def speed(self) -> float:
        """Mean forward speed of the walk after its first seconds, m/s; nan if it did not walk so long."""
        forward = self.v[self.commanded, 0][round(SETTLING * 50.0) :]
        return float(forward.mean()) if forward.size else float("nan")

    @property
    def tilt(self) -> float:
        """The largest tilt of the torso while it walked, degrees."""
        q = self.q[self.walking]
        up = 1.0 - 2.0 * (q[:, 3] ** 2 + q[:, 4] ** 2)
        return float(np.degrees(np.arccos(np.clip(up, -1.0, 1.0))).max()) if len(q) else float("nan")

    @property
    def turned(self) -> float:
        """By how much the heading changed while it walked, degrees to the left."""
        q = self.q[self.walking]
        yaw = 2.0 * np.arctan2(q[:, 5], q[:, 6])
        return float(np.degrees(np.unwrap(yaw)[-1] - yaw[0])) if len(q) else float("nan")


def dog_program(path: Path) -> ModuleType:
    """dog.py as a module."""
    spec = importlib.util.spec_from_file_location("deployed_dog", path)
    if spec is None or spec.loader is None or not path.exists():
        raise FileError(f"{path} is not there: write it with `condyle deploy` first.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def simulate(
    program: ModuleType, seconds: float, command: Any, *, dog: SimulatedPiDog | None = None, log: Path | None = None
) -> SimulatedRun:
    """The program walks so many seconds to a command (m/s, rad/s): it rises, walks, holds, lies down and releases its servos."""
    dog = SimulatedPiDog() if dog is None else dog
    if not 0.0 < seconds <= LONGEST_RUN or not np.isfinite(command).all():
        raise ControlError(
            f"a simulated run takes up to {LONGEST_RUN:g} s and a command of numbers, got {seconds:g} s and {list(command)}"
        )
    rows: list[tuple[float, str, bool, dict[str, Array], Array]] = []
    step_times: list[float] = []

    class TimedSafety(program.Safety):  # type: ignore[name-defined, misc]
        def tick(self, *given: Any) -> Any:
            begin, mode = perf_counter(), self.mode
            out = super().tick(*given)
            if mode == "walk":
                step_times.append(perf_counter() - begin)
            return out

    data = program.DATA
    functions = program.Controller(program.initial, program.observe, program.act)
    network = program.numpy_network(data, program.unpacked(data, program.WEIGHTS))
    safety, written = TimedSafety(data, functions, network), program.Log(log, data)

    def keep(now: float, out: Any) -> None:
        rows.append((now, out.mode, bool(safety.halting), dog.loop.unpacked(dog.x), out.degrees))

    with imported_as(dog.packages):
        driver = program.SunFounderDog(sleep=dog.sleep)
    try:
        program.control(
            data,
            safety,
            driver,
            program.Keyboard(data, command, watched=False),
            written,
            seconds=seconds,
            clock=dog.clock,
            sleep=dog.sleep,
            show=keep,
        )
    finally:
        written.close()
    times, modes, halting, states, degrees = zip(*rows, strict=True)
    return SimulatedRun(
        safety.reason,
        np.array(times),
        list(modes),
        np.array(halting),
        np.array([x["q"] for x in states]),
        np.array([x["v"] for x in states]),
        np.array(degrees),
        np.array(step_times),
    )


@contextmanager
def imported_as(packages: Mapping[str, ModuleType]) -> Iterator[None]:
    """Within it these are the packages that are imported."""
    before = {name: sys.modules.get(name) for name in packages}
    sys.modules.update(packages)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
