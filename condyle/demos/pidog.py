"""PiDog stands, and walks its manufacturer's gait on the ground.

done = run()                              # stands, walks two cycles, stands: 3,000 steps of 2 ms
done.x, done.u, done.extras["reference"]  # states, torques, commands of the servos

loop(...) is a closed loop for any simulation of the robot; walking(...) and standing(...) give its references.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import chain, count, islice, repeat
from os import PathLike
from typing import Any

import numpy as np

from condyle.closed_loop.loop import Loop
from condyle.control.controllers import Control, scattered
from condyle.demos.checks import Check, Progress, largest, near, recorded, replays, silent
from condyle.errors import CondyleError
from condyle.multibody.robot import Robot, load
from condyle.pidog.gaits import frame_ticks, gait_frames, ideal_advance, ticks, walk
from condyle.pidog.kinematics import FEET, JOINTS, foot_position, leg_angles
from condyle.pidog.poses import POSES, STAND, pose_angles
from condyle.pidog.servos import PERIOD, SERVOS, TICK, quantized, servo_torque
from condyle.robot.library.pidog import EFFORT, FOOT_FRICTION, FOOT_RADIUS
from condyle.runs.loops import built_in
from condyle.runs.run import Run
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import Plane

Array = np.ndarray

DT = 0.002  # s
STEPS = 3000
REST = 0.8  # s of standing before it walks
SPEED, CYCLES = 98.0, 2  # the manufacturer's examples walk at 98
SETTLING = 60.0  # the speed at which it goes back to standing


@cache
def robot() -> Robot:
    """PiDog with a free base."""
    return load("pidog")


@cache
def world() -> Simulation:
    """A simulation on a plane with the friction of its feet."""
    return Simulation(robot(), DT, Plane(FOOT_FRICTION), "*_foot")


def standing_state(simulation: Simulation, pose: str = "stand") -> Array:
    """The state at rest in a pose, pitched so that front and hind feet touch the ground z = 0."""
    robot = simulation.robot
    q = robot.neutral()
    for name, angle in zip(JOINTS, np.radians(pose_angles(pose)), strict=True):
        q[robot.q_slice(name)] = angle
    front, hind = (robot.frame_pose(q, foot)[1] for foot in FEET[::2])
    # the half angle by square roots: sines of NumPy depend on the processor
    ahead, up = front[0] - hind[0], front[2] - hind[2]
    far = np.sqrt(ahead * ahead + up * up)
    q[6] = np.sqrt(0.5 * (1.0 + ahead / far))
    q[4] = up / (2.0 * far * q[6])
    lowest = min(float(robot.frame_pose(q, foot)[1][2]) for foot in FEET)
    q[2] = FOOT_RADIUS - lowest
    return simulation.state(q)


def servos(simulation: Simulation) -> Control:
    """The function of a loop: servos whose torque follows the reference, twelve angles, rad; those of head and tail are last."""
    robot, motors = simulation.robot, _motors(simulation)
    joints = np.array([robot.q_slice(name).start for name in SERVOS])
    efforts = [simulation.joint_forces[robot.v_slice(name).start].effort for name in SERVOS]
    effort = np.array([EFFORT if each is None else each for each in efforts])

    def torques(x: Any, reference: Any) -> dict[str, Any]:
        return {"u": scattered(simulation.nu, motors, servo_torque(reference, x.q[joints], effort))}

    return torques


@built_in("pidog")
def loop(simulation: Simulation, x0: Any) -> Loop:
    """The servos of all joints, which follow the reference."""
    return Loop(simulation, servos(simulation), reference=len(SERVOS))


def commands(simulation: Simulation, angles: Iterator[Array]) -> Iterator[Array]:
    """The reference of every step, (12,), rad, from leg angles of every 10 ms, degrees, of which every second one is sent.

    The servos of head and tail hold zero.
    """
    # a pulse carries the latest angles
    sent = islice(angles, 0, None, round(PERIOD / TICK))
    number, pulse = -1, np.zeros(len(SERVOS))
    for k in count():
        while number < int(k * simulation.dt / PERIOD + 1e-9):
            number += 1
            pulse = np.radians(quantized(np.concatenate([next(sent), np.zeros(4)])))
        yield pulse


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


def standing(simulation: Simulation, x0: Any, pose: str = "stand", *, speed: float = SETTLING) -> Iterator[Array]:
    """The references that move to a pose, from where the joints are in x0, and stay."""
    wanted = pose_angles(pose)
    return commands(simulation, chain(ticks([wanted], speed, _angles(simulation, x0)), repeat(wanted)))


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
) -> Iterator[Array]:
    """The references that stand for `rest` seconds, then walk: `cycles` times, after which they stand, or without end."""
    stand = pose_angles()
    cycle = gait_frames(gait, 1, forward=forward, turn=turn)
    frame_ticks(stand, stand, speed)  # an impossible speed is an error now
    begin = ticks([stand], SETTLING, _angles(simulation, x0))
    still = repeat(stand, max(round(rest / TICK) - frame_ticks(_angles(simulation, x0), stand, SETTLING), 0))
    cycles_ = repeat(cycle) if cycles is None else repeat(cycle, cycles)
    frames = (frame for one in cycles_ for frame in one)
    steps = ticks(frames, speed, stand)
    end = chain(ticks([stand], SETTLING, cycle[-1]), repeat(stand))
    return commands(simulation, chain(begin, still, steps, end))


def _angles(simulation: Simulation, x0: Any) -> Array:
    """The angles of the eight leg joints in a state, degrees."""
    _motors(simulation)
    q = simulation.split(x0)[0]
    return np.degrees([float(q[simulation.robot.q_slice(name)][0]) for name in JOINTS])


def timetable(speed: float = SPEED, cycles: int = CYCLES, rest: float = REST) -> list[float]:
    """When the command of each cycle begins, and when that of the last one ends, s; the first frame of the first cycle is
    reached from standing before that."""
    cycle = gait_frames("walk", 1)
    into = frame_ticks(pose_angles(), cycle[0], speed)
    once = [frame_ticks(before, after, speed) for before, after in zip(np.roll(cycle, 1, axis=0), cycle, strict=True)]
    return [rest + TICK * (into - once[0] + n * sum(once)) for n in range(cycles + 1)]


def run(path: str | PathLike[str] | None = None, *, progress: Progress = silent) -> Run:
    """It stands for 0.8 s, walks two cycles, and stands: 6 s."""
    x0 = standing_state(world())
    here = loop(world(), x0)
    about = {"gait": "walk", "speed": SPEED, "cycles": CYCLES, "rest": REST}
    named: dict[str, Any] = {"title": "PiDog stands and walks", "controller": "walk", "about": about}
    references = {"reference": walking(world(), x0, cycles=CYCLES)}
    return recorded(here, here.state(world().split(x0)[0]), path, STEPS, references, progress=progress, **named)


# -- checks


def attitude(x: Any) -> Array:
    """Roll, pitch and yaw of the torso, rad, (..., 3): R = Rz(yaw) Ry(pitch) Rx(roll); nose down is positive."""
    x = np.asarray(x, dtype=float)
    a, b, c, w = (x[..., k] for k in range(3, 7))
    roll = np.arctan2(2.0 * (w * a + b * c), 1.0 - 2.0 * (a * a + b * b))
    pitch = np.arcsin(np.clip(2.0 * (w * b - c * a), -1.0, 1.0))
    yaw = np.arctan2(2.0 * (w * c + a * b), 1.0 - 2.0 * (b * b + c * c))
    return np.stack([roll, pitch, yaw], axis=-1)


def checks(run: Run) -> Iterator[Check]:
    """Published mass, leg angles and gait, and how it stands and walks."""
    yield near("model", "mass: the sum of its parts", robot().mass, 0.629, 1e-9, "kg", ".3f")
    angles = np.array(POSES["stand"][:2])
    yield Check("model", "leg angles standing - published 40.61, 15.54", largest(angles - (40.61, 15.54)), "deg", high=0.005)
    error = largest(foot_position(leg_angles(STAND)) - STAND)
    yield Check("model", "inverse kinematics of the legs", error, "mm", high=1e-10)
    yield near("model", "advance of a cycle without slip", ideal_advance(walk()), 91.4, 0.05, "mm", ".2f")
    k, weight, forces = round(REST / DT) - 1, robot().mass * 9.81, run.contact_forces
    yield near("standing", "force of the ground / weight", forces[k, :, 2].sum() / weight, 1.0, 1e-3, "", ".5f")
    lean = -float(np.degrees(np.arctan2(95.0 - 90.0, 2.0 * 58.5 + 15.0 + 5.0)))  # front legs reach 5 mm lower
    yield near("standing", "pitch", np.degrees(attitude(run.x[k])[1]), lean, 0.25, "deg", ".2f")
    knee = weight / 4.0 * (42.0 * np.sin(np.radians(40.61)) + 15.0) / 1e3  # a quarter of the weight about a front knee
    yield near("standing", "largest torque of a knee", largest(run.u[k, 1:8:2]), knee, 0.1 * knee, "N m", ".3f")
    ends = [round(t / DT) for t in timetable()]
    advance = 1e3 * float(run.x[ends[-1], 0] - run.x[ends[-2], 0])
    yield near("walking", f"advance of cycle {CYCLES}", advance, 91.4, 0.05 * 91.4, "mm", ".1f")
    mean = float(forces[ends[-2] : ends[-1], :, 2].sum(axis=1).mean()) / weight
    yield near("walking", "mean force of the ground in a cycle / weight", mean, 1.0, 1e-3, "", ".4f")
    law = servo_torque(run.extras["reference"][:, :8], run.q[:-1, 7:15])
    yield Check("servos", "torques of the legs - those of the law", largest(run.u[:, :8] - law), "N m", high=1e-12)
    slip = np.hypot(forces[..., 0], forces[..., 1]) - FOOT_FRICTION * forces[..., 2]
    yield Check("walking", "friction beyond the cone, by the weight", float(slip.max()) / weight, "", high=1e-9)
    for name, angle, bound in zip(("roll", "pitch"), np.degrees(np.abs(attitude(run.x)).max(axis=0)), (3.5, 3.0), strict=False):
        yield Check("walking", f"largest {name}", float(angle), "deg", high=bound, form=".2f")
    yield Check("walking", "lateral drift", 1e3 * largest(run.x[: ends[-1], 1]), "mm", high=7.0, form=".1f")
    yield Check("walking", "fastest servo", largest(run.v[:, 6:]), "rad/s", high=8.5, form=".2f")
    yield replays("run", run)
