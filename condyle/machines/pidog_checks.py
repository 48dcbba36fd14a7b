"""Everything that is checked about PiDog, one row each: its numbers, its legs, its gaits, and how it stands and walks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from condyle.dynamics.robot import load
from condyle.machines import pidog, pidog_gaits, pidog_legs, pidog_servo
from condyle.machines.pidog import CYCLES, DT, attitude, dog, timetable
from condyle.machines.pidog_legs import FEET, LEGS, STAND
from condyle.machines.row import Row, Say, silent, worst
from condyle.machines.work import repeated
from condyle.robot.library import pidog as model
from condyle.runs.run import Run
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import Plane

Array = np.ndarray

PUBLISHED = {"LF": (40.61, 15.54), "LH": (60.28, 5.26)}  # degrees; the right side negated
LISTED = {"upper leg": 42.0, "lower leg": 76.0, "hip forward of the middle": 58.5, "hip beside the middle": 49.0}  # mm
URDF = {"upper leg": 47.0, "lower leg": 63.9, "hip forward of the middle": 53.15, "hip beside the middle": 40.5}
SHEET_EFFORT = 0.137  # N m, of the data sheet's table at 6 V
GRAVITY = 9.81


def checks(run: Run | None = None, *, quick: bool = False, say: Say = silent) -> Iterator[Row]:
    """The rows, in order. `quick` leaves out the walk with a weaker servo."""
    say("masses, legs and gaits", 0, 1)
    yield from parts()
    yield from legs()
    yield from gaits()
    yield from servos()
    done = pidog.run(say=say) if run is None else run
    say("standing and walking", 0, 1)
    yield from standing(done)
    yield from walking(done)
    yield from weaker(quick, say)
    yield repeated("run", done)


# -- the robot as data


def parts() -> Iterator[Row]:
    """Masses, and the lengths of the maker's library beside those of the common URDF."""
    group, robot = "masses and lengths", dog()
    yield Row(group, "mass of all parts; the whole robot is said to have about 0.637", robot.mass, "kg", 0.628, 0.638, ".3f")
    torso = float(robot.model.links[0].inertia.mass) - 6.0 * 0.0135
    yield Row(group, "mass of the torso without its six servos", torso, "kg", 0.2999, 0.3001, ".3f")
    hip, knee, foot = (robot.frame_pose(robot.neutral(), f"lf_{name}")[1] for name in ("hip", "knee", "foot"))
    found = (float(np.linalg.norm(knee - hip)), float(np.linalg.norm(foot - knee)), float(hip[0]), float(hip[1]))
    for (what, listed), ours in zip(LISTED.items(), found, strict=True):
        yield Row(group, f"{what}, here as in the library", 1e3 * ours, "mm", listed - 1e-9, listed + 1e-9, ".2f")
        yield Row(group, f"{what}, in the common URDF", URDF[what], "mm", form=".2f")
    yield Row(group, "a standing foot off its place if the legs were the URDF's", _off_by_urdf(), "mm", low=10.0, form=".1f")


def _off_by_urdf() -> float:
    """mm between where the library's angles put a front foot and where they would with the URDF's lengths."""
    alpha, beta = np.radians(pidog_legs.leg_angles(STAND[0]))
    shin = alpha - (np.pi - beta)
    upper, lower = URDF["upper leg"], URDF["lower leg"]
    put = np.array([upper * np.sin(alpha) + lower * np.sin(shin), upper * np.cos(alpha) + lower * np.cos(shin)])
    return float(np.hypot(*(put - STAND[0])))


# -- legs and gaits


def legs() -> Iterator[Row]:
    group, found = "legs", np.reshape(pidog_gaits.POSES["stand"], (4, 2))
    for leg, angles in PUBLISHED.items():
        off = worst(found[LEGS.index(leg)] - angles)
        yield Row(group, f"standing, {leg}: off {angles[0]} and {angles[1]}", off, "degrees", high=0.005, form=".4f")
    yield Row(group, "standing: right side, off the left one negated", worst(found[::2] + found[1::2]), "degrees", high=0.0)
    wrong = pidog_legs.foot_place(np.array(pidog_gaits.WRONG_STAND) + np.array([0.0, 90.0]))
    yield Row(
        group,
        "standing by the published 27.02 / -55.98: a front foot off its place",
        float(np.hypot(*(wrong - STAND[0]))),
        "mm",
        50.0,
        None,
        ".0f",
    )
    # a grid of places well within reach
    y, z = np.meshgrid(np.linspace(-60.0, 60.0, 61), np.linspace(45.0, 100.0, 56))
    places = np.stack([y, z], axis=-1)
    places = places[np.hypot(y, z) <= 115.0]
    there = pidog_legs.foot_place(pidog_legs.leg_angles(places))
    yield Row(group, f"there and back, {len(places)} places, relative", worst(there - places) / 115.0, high=1e-12)
    yield Row(group, "places of the robot's own feet, less the library's, relative", _against_robot(places), high=1e-12)
    far = np.array([[0.0, 130.0], [90.0, 90.0], [0.0, 20.0]])
    reach = np.hypot(*pidog_legs.foot_place(pidog_legs.leg_angles(far)).T)
    yield Row(
        group, "out of reach: stretched to 118 mm, or folded to 34, off by", worst(reach - (118.0, 118.0, 34.0)), "mm", high=1e-9
    )


def _against_robot(places: Array) -> float:
    """The library's forward kinematics against the simulated robot's, on all four legs at once."""
    robot = dog()
    feet = np.stack([np.roll(places, 100 * i, axis=0) for i in range(4)], axis=1)
    q = np.tile(robot.neutral(), (len(feet), 1))
    q[:, 7:15] = np.radians(pidog_legs.servo_angles(feet))
    off = []
    for i, name in enumerate(model.LEGS):
        hip, foot = robot.frame_pose(q, f"{name}_hip")[1], robot.frame_pose(q, f"{name}_foot")[1]
        off.append(1e3 * (foot - hip)[:, [0, 2]] + feet[:, i])
    return worst(off) / 115.0


def gaits() -> Iterator[Row]:
    group, walk, trot = "gaits", pidog_gaits.walk(), pidog_gaits.trot()
    up = walk[:-1, :, 1].reshape(8, 6, 4).min(axis=1) < pidog_gaits.HEIGHT
    wanted = np.zeros((8, 4), dtype=bool)
    for section, leg in enumerate(("LF", "", "RH", "", "RF", "", "LH", "")):
        wanted[section, [LEGS.index(leg)] if leg else []] = True
    yield Row(group, "walk: sections whose lifted leg is wrong", float(np.sum(up != wanted)), high=0.0, form=".0f")
    yield Row(group, "walk: advance of a cycle", pidog_gaits.ideal_advance(walk), "mm", 91.42, 91.44, ".2f")
    yield Row(group, "walk: step of a foot, front to back", float(np.ptp(walk[:, 0, 0])), "mm", 79.999, 80.001, ".2f")
    yield Row(group, "walk: lift of a foot", float(np.ptp(walk[:, 0, 1])), "mm", 19.999, 20.001, ".2f")
    yield Row(group, "walk: closing frame, less where the stance ends", worst(walk[-1] - walk[-2]), "mm", high=1e-12)
    yield Row(group, "trot: advance of a cycle", pidog_gaits.ideal_advance(trot), "mm", 199.99, 200.01, ".2f")
    slow, fast = (pidog_gaits.frame_ticks([0.0], [1.0], speed) for speed in (0.0, 98.0))
    yield Row(group, "frame at speed 0, in ticks of 10 ms", float(slow), "", 100.0, 100.0, ".0f")
    yield Row(group, "frame at speed 98, 29.8 ms, in ticks", float(fast), "", 3.0, 3.0, ".0f")
    told = np.array(list(pidog_gaits.ticks(pidog_gaits.gait_frames("walk", 2), 98.0, pidog_gaits.POSES["stand"])))
    fastest = worst(np.diff(told, axis=0)) / pidog_gaits.TICK
    yield Row(group, "walk at 98: fastest servo command", fastest, "degrees/s", high=428.0, form=".1f")


def servos() -> Iterator[Row]:
    group = "servo"
    angles = np.linspace(-90.0, 90.0, 18001)
    heard = pidog_servo.heard(angles)
    step = float(np.max(np.diff(np.unique(heard))))
    yield Row(group, "resolution of a command", step, "degrees", 0.435, 0.445, ".4f")
    yield Row(group, "gain", pidog_servo.GAIN, "N m/rad", high=5.0, form=".2f")
    yield Row(group, "lag of a free joint", 1e3 * pidog_servo.LAG, "ms", 5.0, 30.0, ".1f")


# -- the run


def standing(done: Run) -> Iterator[Row]:
    """Before it walks."""
    group, robot = "standing", done.robot
    k = round(pidog.REST / DT) - 1
    x, still = done.x[k], done.x[k - 100 : k + 1]
    weight = robot.mass * GRAVITY
    carried = float(done.contact_forces[k, :, 2].sum())
    told = np.radians(pidog_gaits.POSES["stand"])
    yield Row(group, "height of the hips' middle", 1e3 * x[2], "mm", 95.0, 100.0, ".2f")
    yield Row(group, "roll", worst(np.degrees(attitude(x)[0])), "degrees", high=0.2, form=".3f")
    yield Row(
        group,
        "pitch; front legs reach 5 mm lower, which is -2.09",
        float(np.degrees(attitude(x)[1])),
        "degrees",
        -2.5,
        -1.5,
        ".2f",
    )
    yield Row(group, "off where it was placed", 1e3 * float(np.hypot(*(x[:2] - done.x[0, :2]))), "mm", high=5.0, form=".2f")
    yield Row(group, "way in the last 0.2 s", 1e3 * worst(np.ptp(still[:, :3], axis=0)), "mm", high=0.2, form=".3f")
    yield Row(group, "force of the ground, by the weight", carried / weight, "", 0.99, 1.01, ".5f")
    torque = worst(done.u[k, :8])
    yield Row(group, "largest torque of a leg's servo", torque, "N m", 0.03, 0.5 * model.EFFORT, ".3f")
    yield Row(group, "knees alone: a quarter of the weight, 42 mm from the foot", _knee(weight), "N m", 0.06, 0.07, ".3f")
    yield Row(group, "how far a leg's servo gives way", float(np.degrees(worst(x[7:15] - told))), "degrees", high=2.5, form=".2f")


def _knee(weight: float) -> float:
    """N m: the torque that a quarter of the weight exerts about a front knee."""
    alpha = np.radians(pidog_legs.leg_angles(STAND[0])[0])
    return weight / 4.0 * (pidog_legs.UPPER * float(np.sin(alpha)) - float(STAND[0, 0])) / 1e3


def walking(done: Run) -> Iterator[Row]:
    """Two cycles; the second begins as it ends."""
    group, robot = "walking", done.robot
    ends = [round(t / DT) for t in timetable()]
    way = 1e3 * np.diff(done.x[ends, 0])
    yield Row(group, "advance of the first cycle, from standing", float(way[0]), "mm", 75.0, 95.0, ".1f")
    yield Row(group, f"advance of cycle {CYCLES}; 91.4 without slip", float(way[-1]), "mm", 85.0, 95.0, ".1f")
    yield Row(group, "seconds that a cycle takes", float(np.diff(ends)[-1] * DT), "s", 1.5, 2.0, ".2f")
    yield Row(group, "sideways in all", 1e3 * worst(done.x[: ends[-1], 1]), "mm", high=8.0, form=".1f")
    roll, pitch, yaw = np.degrees(np.abs(attitude(done.x)).max(axis=0))
    yield Row(group, "largest roll", float(roll), "degrees", high=5.0, form=".2f")
    yield Row(group, "largest pitch", float(pitch), "degrees", high=5.0, form=".2f")
    yield Row(group, "largest yaw", float(yaw), "degrees", high=3.0, form=".2f")
    forces, cycle = done.contact_forces, slice(ends[-2], ends[-1])
    weight = robot.mass * GRAVITY
    mean = float(forces[cycle, :, 2].sum(axis=1).mean())
    yield Row(group, "force of the ground over a cycle, by the weight", mean / weight, "", 0.99, 1.01, ".4f")
    feet = np.stack([robot.frame_pose(done.q, foot)[1] for foot in FEET], axis=1)
    high = 1e3 * (feet[cycle, :, 2].max(axis=0) - model.FOOT_RADIUS)
    yield Row(group, "how high the front feet swing; 20 mm are told", float(high[:2].min()), "mm", 5.0, 20.0, ".1f")
    yield Row(group, "how high the hind feet swing", float(high[2:].min()), "mm", 10.0, 20.0, ".1f")
    slid = np.hypot(*np.moveaxis(np.diff(feet[:, :, :2], axis=0), -1, 0)) * (forces[:, :, 2] > 0.05 * weight)
    yield Row(
        group,
        "way a foot slides under load in a cycle, the worst",
        1e3 * float(slid[cycle].sum(axis=0).max()),
        "mm",
        high=40.0,
        form=".1f",
    )
    yield Row(group, "deepest foot", 1e3 * float((model.FOOT_RADIUS - feet[:, :, 2]).max()), "mm", high=2.0, form=".2f")
    pull = np.hypot(forces[..., 0], forces[..., 1]) - model.FOOT_FRICTION * forces[..., 2]
    yield Row(group, "friction beyond 0.5 times the normal force, by the weight", float(pull.max()) / weight, "", high=1e-9)
    yield Row(group, "largest torque told to a servo", worst(done.u), "N m", high=model.EFFORT, form=".3f")
    yield Row(
        group,
        "largest torque of a servo, braking included",
        worst(done.u - model.DAMPING * done.v[1:, 6:]),
        "N m",
        high=2.0 * model.EFFORT,
        form=".3f",
    )
    yield Row(group, "fastest servo; 7 without load, more if pulled", worst(done.v[:, 6:]), "rad/s", high=9.0, form=".2f")


def weaker(quick: bool, say: Say) -> Iterator[Row]:
    """The same walk with the torque of the data sheet's table."""
    group, way, tilt = "with 0.137 N m instead", None, None
    if not quick:
        say("walking with a weaker servo", 0, 1)
        here = weak_world()
        x = pidog.placed(here)
        control, xs = pidog.walking(here, x, cycles=CYCLES), [x]
        ends = [round(t / DT) for t in timetable()]
        for k in range(ends[-1]):
            xs.append(here.step(xs[-1], control(k, xs[-1])[0]))
        told = np.array(xs)
        way = 1e3 * float(told[ends[-1], 0] - told[ends[-2], 0])
        tilt = float(np.degrees(worst(attitude(told)[:, :2])))
    yield Row(group, f"advance of cycle {CYCLES}: it walks, with less to spare", way, "mm", 75.0, 95.0, ".1f")
    yield Row(group, "largest roll or pitch", tilt, "degrees", high=10.0, form=".1f")


def weak_world(effort: float = SHEET_EFFORT) -> Simulation:
    """The robot with other servos, of the same speed."""
    described = model.description()
    joints = [
        replace(joint, damping=effort / model.SPEED, limits=replace(joint.limits, effort=effort)) for joint in described.joints
    ]
    robot = load(replace(described, joints=tuple(joints)), "free")
    return Simulation(robot, DT, Plane(model.FOOT_FRICTION), "*_foot")
