"""Everything that is checked about PiDog, one check each: its numbers, its legs, its gaits, and how it stands and walks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat

import numpy as np
from apps.demos.comparison import difference, sliding_distance
from apps.demos.facts import GRAVITY
from apps.demos.facts import PiDog as F
from apps.demos.pidog_model import model_checks

from condyle.apps.demos.checks import Check, largest, near, next_rows, replays
from condyle.apps.pidog import gaits, kinematics, plant, poses, trajectories
from condyle.apps.pidog.kinematics import FEET
from condyle.apps.pidog.plant import DT, attitude, robot
from condyle.apps.pidog.trajectories import CYCLES, timetable
from condyle.multibody.robot import load
from condyle.robot.library import pidog as model
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import Plane
from condyle.workbench.runs.run import Run

Array = np.ndarray


def checks(done: Run) -> Iterator[Check]:
    """All checks of a run."""
    yield from model_checks()
    yield from legs()
    yield from servo()
    yield from standing(done)
    yield from walking(done)
    yield from weaker()
    yield replays("run", done)


# -- legs and servos


def legs() -> Iterator[Check]:
    """Kinematics there and back, and against the simulated robot's."""
    group = "legs, there and back"
    # a grid of places well within reach
    y, z = np.meshgrid(np.linspace(-60.0, 60.0, 61), np.linspace(45.0, 100.0, 56))
    places = np.stack([y, z], axis=-1)
    places = places[np.hypot(y, z) <= 115.0]
    there = kinematics.foot_position(kinematics.leg_angles(places))
    yield Check(group, f"there and back, {len(places)} places, relative", largest(there - places) / 115.0, high=1e-12)
    yield Check(group, "places of the robot's own feet, less the library's, relative", _against_robot(places), high=1e-12)
    far = np.array([[0.0, 130.0], [90.0, 90.0], [0.0, 20.0]])
    reach = np.hypot(*kinematics.foot_position(kinematics.leg_angles(far)).T)
    yield difference(group, "out of reach: stretched to 118 mm, or folded to 34, off by", reach, (118.0, 118.0, 34.0), "mm", 1e-9)


def _against_robot(places: Array) -> float:
    """The library's forward kinematics against the simulated robot's, on all four legs at once."""
    dog = robot()
    feet = np.stack([np.roll(places, 100 * i, axis=0) for i in range(4)], axis=1)
    q = np.tile(dog.neutral(), (len(feet), 1))
    q[:, 7:15] = np.radians(kinematics.servo_angles(feet))
    off = []
    for i, name in enumerate(model.LEGS):
        hip, foot = dog.frame_pose(q, f"{name}_hip")[1], dog.frame_pose(q, f"{name}_foot")[1]
        off.append(1e3 * (foot - hip)[:, [0, 2]] + feet[:, i])
    return largest(off) / 115.0


def servo() -> Iterator[Check]:
    """Dropped from high up, where nothing is heavy, one knee is commanded to turn by 40 degrees."""
    here = plant.world()
    x = plant.standing_state(here)
    x[2] += 1.0
    commanded = poses.pose_angles()
    commanded[1] += 40.0
    loop = plant.loop(here, x)
    references = next_rows({"reference": trajectories.commands(here, repeat(commanded))}, 75)
    assert references is not None
    out = loop.rollout(loop.state(here.split(x)[0]), references, record=["q", "v"])
    rates, angle = out["v"][:, here.robot.v_slice("lf_knee").start], out["q"][-1, here.robot.q_slice("lf_knee").start]
    # the whole dog turns a little the other way
    yield near("servo", "fastest of a knee that is free to move", max(rates), F.SPEED, 0.02 * F.SPEED, "rad/s", ".2f")
    left = float(np.degrees(references["reference"][-1, 1] - angle))
    yield Check("servo", "left of 40 degrees after 0.15 s", abs(left), "degrees", high=0.05, form=".3f")


# -- the run


def standing(done: Run) -> Iterator[Check]:
    """Before it walks."""
    group, robot = "standing", done.robot
    k = round(trajectories.REST / DT) - 1
    x, still = done.x[k], done.x[k - 100 : k + 1]
    weight = robot.mass * GRAVITY
    total = float(done.contact_forces[k, :, 2].sum())
    commanded = np.radians(poses.POSES["stand"])
    # hips are 95 mm above the front feet's centres and 90 above the hind ones', whose radius is 8; legs give way a little
    yield Check(group, "height of the hips' middle", 1e3 * x[2], "mm", 98.0, 100.5, ".2f")
    yield Check(group, "roll", largest(np.degrees(attitude(x)[0])), "degrees", high=0.1, form=".3f")
    lean = -float(np.degrees(np.arctan2(95.0 - 90.0, 2.0 * 58.5 + 15.0 + 5.0)))
    pitch = float(np.degrees(attitude(x)[1]))
    yield near(group, "pitch; front legs reach 5 mm lower, which is -2.09", pitch, lean, 0.25, "degrees", ".2f")
    yield Check(group, "off where it was placed", 1e3 * float(np.hypot(*(x[:2] - done.x[0, :2]))), "mm", high=2.0, form=".2f")
    yield Check(group, "way in the last 0.2 s", 1e3 * largest(np.ptp(still[:, :3], axis=0)), "mm", high=0.05, form=".3f")
    creeps = 1e3 * largest(sliding_distance(done, FEET, F.FOOT_RADIUS)[k - 100 : k].sum(axis=0)) / (100 * DT)
    yield Check(group, "how fast a foot creeps", creeps, "mm/s", high=0.05, form=".3f")
    yield near(group, "force of the ground, by the weight", total / weight, 1.0, 1e-3, "", ".5f")
    by_hand, knees = _knee(weight), largest(done.u[k, 1:8:2])
    # front and hind do not carry quite the same
    yield near(group, "largest torque of a knee; by hand 0.065", knees, by_hand, 0.1 * by_hand, "N m", ".3f")
    yield Check(
        group, "how far a leg's servo gives way", float(np.degrees(largest(x[7:15] - commanded))), "degrees", high=1.3, form=".2f"
    )


def _knee(weight: float) -> float:
    """N m, by hand: the torque that a quarter of the weight, 42 mm from the foot, exerts about a front knee."""
    knee = F.LENGTHS[0] * float(np.sin(np.radians(F.STAND["LF"][0])))
    return weight / 4.0 * (knee - F.STAND_FEET[0][0]) / 1e3


def walking(done: Run) -> Iterator[Check]:
    """Two cycles; the second begins as it ends."""
    group, robot = "walking", done.robot
    ends = [round(t / DT) for t in timetable()]
    advance = 1e3 * np.diff(done.x[ends, 0])
    ideal = F.ADVANCE["walk"]
    yield near(group, "advance of the first cycle, from standing", float(advance[0]), ideal, 0.05 * ideal, "mm", ".1f")
    yield near(group, f"advance of cycle {CYCLES}; 91.4 without slip", float(advance[-1]), ideal, 0.05 * ideal, "mm", ".1f")
    yield near(group, "seconds that a cycle takes", float(np.diff(ends)[-1] * DT), _cycle(), DT, "s", ".2f")
    yield Check(group, "sideways in all", 1e3 * largest(done.x[: ends[-1], 1]), "mm", high=7.0, form=".1f")
    roll, pitch, yaw = np.degrees(np.abs(attitude(done.x)).max(axis=0))
    yield Check(group, "largest roll", float(roll), "degrees", high=3.5, form=".2f")
    yield Check(group, "largest pitch", float(pitch), "degrees", high=3.0, form=".2f")
    yield Check(group, "largest yaw", float(yaw), "degrees", high=2.0, form=".2f")
    forces, cycle = done.contact_forces, slice(ends[-2], ends[-1])
    weight = robot.mass * GRAVITY
    mean = float(forces[cycle, :, 2].sum(axis=1).mean())
    yield Check(group, "force of the ground over a cycle, by the weight", mean / weight, "", 0.999, 1.001, ".4f")
    feet = np.stack([robot.frame_pose(done.q, foot)[1] for foot in FEET], axis=1)
    high = 1e3 * (feet[cycle, :, 2].max(axis=0) - F.FOOT_RADIUS)
    yield Check(group, "how high the front feet swing; 20 mm are commanded", float(high[:2].min()), "mm", 9.0, F.LIFT, ".1f")
    yield Check(group, "how high the hind feet swing", float(high[2:].min()), "mm", 14.0, F.LIFT, ".1f")
    way_of_feet = 1e3 * sliding_distance(done, FEET, F.FOOT_RADIUS)[cycle].sum(axis=0)
    yield Check(group, "way a loaded foot slides in a cycle, the worst", float(way_of_feet.max()), "mm", high=18.0, form=".1f")
    yield Check(group, "deepest foot", 1e3 * float((F.FOOT_RADIUS - feet[:, :, 2]).max()), "mm", high=1.6, form=".2f")
    pull = np.hypot(forces[..., 0], forces[..., 1]) - F.FRICTION * forces[..., 2]
    yield Check(group, "friction beyond 0.5 times the normal force, by the weight", float(pull.max()) / weight, "", high=1e-9)
    limited = 100.0 * float(np.mean(np.abs(done.u[cycle, :8]) >= F.EFFORT))
    yield Check(group, "time that a leg's servo gives all it has", limited, "%", high=8.0, form=".1f")
    # what is commanded, less what speed takes: more than 0.216 only where a leg is pulled back against its motor
    braking = largest(done.u - F.EFFORT / F.SPEED * done.v[1:, 6:])
    yield Check(group, "largest torque of a servo, braking included", braking, "N m", high=1.3 * F.EFFORT, form=".3f")
    yield Check(group, "fastest servo; 7 without load, more if pulled", largest(done.v[:, 6:]), "rad/s", high=8.5, form=".2f")


def _cycle() -> float:
    """s, by hand: 29.8 ms are three ticks, but for frames in which a servo has too far to go at 428 degrees/s."""
    frames = gaits.gait_frames("walk", 1)
    longest = np.abs(frames - np.roll(frames, 1, axis=0)).max(axis=1)
    return float(np.maximum(3.0, np.ceil(longest / F.FASTEST["legs"] / 0.01 - 1e-9)).sum()) * 0.01


def weaker() -> Iterator[Check]:
    """The same walk with the torque of the data sheet's table."""
    group, here = "with 0.137 N m instead", weak_world()
    x = plant.standing_state(here)
    ends = [round(t / DT) for t in timetable()]
    loop, references = plant.loop(here, x), next_rows({"reference": trajectories.walking(here, x, cycles=CYCLES)}, ends[-1])
    out = loop.rollout(loop.state(here.split(x)[0]), references, record=["q", "v"])
    found = np.concatenate([x[None], np.concatenate([out["q"], out["v"]], axis=1)])
    advance = 1e3 * float(found[ends[-1], 0] - found[ends[-2], 0])
    yield Check(group, f"advance of cycle {CYCLES}: it walks, with less to spare", advance, "mm", 80.0, 95.0, ".1f")
    tilt = float(np.degrees(largest(attitude(found)[:, :2])))
    yield Check(group, "largest roll or pitch", tilt, "degrees", high=6.5, form=".1f")


def weak_world(effort: float = F.SHEET_EFFORT) -> Simulation:
    """The robot with other servos, of the same speed."""
    described = model.description()
    joints = [
        replace(joint, damping=effort / model.SPEED, limits=replace(joint.limits, effort=effort)) for joint in described.joints
    ]
    robot = load(replace(described, joints=tuple(joints)), "free")
    return Simulation(robot, DT, Plane(F.FRICTION), "*_foot")
