"""PiDog stands, and walks its maker's walk on the ground.

done = run()                              # stands, walks two cycles, stands: 3,000 steps of 2 ms
done.x, done.u, done.extras["reference"]  # states, torques, what the servos were told

walking(...) and standing(...) are controllers for any simulation of the robot: (k, x) -> (u, wrenches).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import chain, islice, repeat
from os import PathLike
from typing import Any

import numpy as np

from condyle.control.controller import Controller
from condyle.demos.pidog_gaits import POSES, TICK, frame_ticks, gait_frames, ticks
from condyle.demos.pidog_legs import FEET, JOINTS
from condyle.demos.pidog_servo import PERIOD, drive, heard
from condyle.demos.row import Say, silent
from condyle.errors import CondyleError
from condyle.multibody.robot import Robot, load
from condyle.robot.library.pidog import EFFORT, FOOT_FRICTION, FOOT_RADIUS
from condyle.robot.names import nearest
from condyle.runs.recorder import Recorder
from condyle.runs.run import Run
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import Plane

Array = np.ndarray

DT = 0.002  # s
STEPS = 3000
REST = 0.8  # s of standing before it walks
SPEED, CYCLES = 98.0, 2  # the maker's examples walk at 98
SETTLING = 60.0  # the speed at which it goes back to standing
SERVOS = (*JOINTS, "head_yaw", "head_roll", "head_pitch", "tail_wag")


@cache
def dog() -> Robot:
    return load("pidog")


@cache
def world() -> Simulation:
    """On a plane with the friction of its feet."""
    return Simulation(dog(), DT, Plane(FOOT_FRICTION), "*_foot")


def posed(pose: str = "stand") -> Array:
    """The eight servo angles of a pose, degrees."""
    if pose not in POSES:
        raise CondyleError(f"PiDog has no pose '{pose}'{nearest(pose, list(POSES))}")
    return np.array(POSES[pose])


def placed(simulation: Simulation, pose: str = "stand") -> Array:
    """The state at rest in a pose, leaning so that front and hind feet touch the ground z = 0, as deep as they will stand."""
    robot = simulation.robot
    q = robot.neutral()
    for name, angle in zip(JOINTS, np.radians(posed(pose)), strict=True):
        q[robot.q_slice(name)] = angle
    front, hind = (robot.frame_pose(q, foot)[1] for foot in FEET[::2])
    # the half angle by square roots: sines of NumPy depend on the processor
    ahead, up = front[0] - hind[0], front[2] - hind[2]
    far = np.sqrt(ahead * ahead + up * up)
    q[6] = np.sqrt(0.5 * (1.0 + ahead / far))
    q[4] = up / (2.0 * far * q[6])
    lowest = min(float(robot.frame_pose(q, foot)[1][2]) for foot in FEET)
    q[2] = FOOT_RADIUS - simulation.rest_depth - lowest
    return simulation.state(q)


class Following:
    """A controller: servos that follow angles, one set of eight for every tick of 10 ms, of which every second one is heard.

    The servos of head and tail hold zero. `reference` is what the servos were told last, rad.
    """

    def __init__(self, simulation: Simulation, angles: Iterator[Array]) -> None:
        robot = simulation.robot
        self.dt = simulation.dt
        self.joints = np.array([robot.q_slice(name).start for name in SERVOS])
        self.motors = _motors(simulation)
        self.nu = simulation.nu
        efforts = [simulation.joint_forces[robot.v_slice(name).start].effort for name in SERVOS]
        self.effort = np.array([EFFORT if effort is None else effort for effort in efforts])
        self.reference = np.zeros(len(SERVOS))
        # a pulse carries the latest tick
        self._told = islice(angles, 0, None, round(PERIOD / TICK))
        self._pulses: list[Array] = []

    def __call__(self, k: int, x: Array) -> tuple[Array, Array | None]:
        number = int(k * self.dt / PERIOD + 1e-9)
        while len(self._pulses) <= number:
            legs = next(self._told)
            self._pulses.append(np.radians(heard(np.concatenate([legs, np.zeros(4)]))))
        self.reference = self._pulses[number]
        u = np.zeros(self.nu)
        u[self.motors] = drive(self.reference, x[self.joints], self.effort)
        return u, None


def _motors(simulation: Simulation) -> Array:
    """Which control moves each servo's joint."""
    robot, actuated = simulation.robot, list(simulation.actuated)
    try:
        return np.array([actuated.index(robot.v_slice(name).start) for name in SERVOS])
    except (CondyleError, ValueError):
        raise CondyleError(
            f"PiDog's controllers need motors in all of its twelve joints, and this simulation of '{robot.name}' lacks some; "
            'make it of condyle.load("pidog") without actuated=...'
        ) from None


def standing(simulation: Simulation, x0: Any, pose: str = "stand", *, speed: float = SETTLING) -> Controller:
    """It goes to a pose, from where its joints are in x0, and stays."""
    wanted = posed(pose)
    return Following(simulation, chain(ticks([wanted], speed, _angles(simulation, x0)), repeat(wanted)))


def walking(
    simulation: Simulation,
    x0: Any,
    gait: str = "walk",
    speed: float = SPEED,
    *,
    rest: float = REST,
    cycles: int | None = None,
    forward: bool = True,
    turn: str = "",
) -> Controller:
    """It stands for `rest` seconds, then goes: for so many cycles, after which it stands, or for ever."""
    stand = posed()
    cycle = gait_frames(gait, 1, forward=forward, turn=turn)
    frame_ticks(stand, stand, speed)  # a speed that cannot be is said now
    begin = ticks([stand], SETTLING, _angles(simulation, x0))
    still = repeat(stand, max(round(rest / TICK) - frame_ticks(_angles(simulation, x0), stand, SETTLING), 0))
    count = repeat(cycle) if cycles is None else repeat(cycle, cycles)
    frames = (frame for one in count for frame in one)
    went = ticks(frames, speed, stand)
    end = chain(ticks([stand], SETTLING, cycle[-1]), repeat(stand))
    return Following(simulation, chain(begin, still, went, end))


def _angles(simulation: Simulation, x0: Any) -> Array:
    """The angles of the eight leg joints in a state, degrees."""
    _motors(simulation)
    q = simulation.split(x0)[0]
    return np.degrees([float(q[simulation.robot.q_slice(name)][0]) for name in JOINTS])


def timetable(speed: float = SPEED, cycles: int = CYCLES, rest: float = REST) -> list[float]:
    """s: when each cycle of the walk is told to begin, and when the last one is told to end. The first frame of the first
    cycle is reached from standing before that."""
    cycle = gait_frames("walk", 1)
    into = frame_ticks(posed(), cycle[0], speed)
    once = [frame_ticks(before, after, speed) for before, after in zip(np.roll(cycle, 1, axis=0), cycle, strict=True)]
    return [rest + TICK * (into - once[0] + n * sum(once)) for n in range(cycles + 1)]


def run(path: str | PathLike[str] | None = None, *, say: Say = silent) -> Run:
    """It stands for 0.8 s, walks two cycles, and stands: 6 s."""
    here = world()
    x0 = placed(here)
    control = walking(here, x0, cycles=CYCLES)
    assert isinstance(control, Following)
    about = {"gait": "walk", "speed": SPEED, "cycles": CYCLES, "rest": REST}
    with Recorder(here, x0, path, title="PiDog stands and walks", controller="walk", about=about, overwrite=True) as recorder:
        for k in range(STEPS):
            if k % 500 == 0:
                say("PiDog walks", k, STEPS)
            u, _ = control(k, recorder.x)
            recorder.step(u, reference=control.reference)
        return recorder.finish()


def attitude(x: Any) -> Array:
    """Roll, pitch and yaw of the torso, rad, (..., 3): R = Rz(yaw) Ry(pitch) Rx(roll); nose down is positive."""
    x = np.asarray(x, dtype=float)
    a, b, c, w = (x[..., k] for k in range(3, 7))
    roll = np.arctan2(2.0 * (w * a + b * c), 1.0 - 2.0 * (a * a + b * b))
    pitch = np.arcsin(np.clip(2.0 * (w * b - c * a), -1.0, 1.0))
    yaw = np.arctan2(2.0 * (w * c + a * b), 1.0 - 2.0 * (b * b + c * c))
    return np.stack([roll, pitch, yaw], axis=-1)
