"""PiDog, its legs, gaits and servos against published numbers: what can be said without a simulation."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from apps.demos.comparison import composite_inertia, difference
from apps.demos.facts import GRAVITY
from apps.demos.facts import PiDog as F

from condyle.apps.demos.checks import Check, near
from condyle.apps.pidog import gaits, kinematics, plant, poses
from condyle.apps.pidog import servos as pulses
from condyle.apps.pidog.kinematics import LEGS
from condyle.apps.pidog.poses import STAND
from condyle.dynamics.energy import total_mass
from condyle.dynamics.kinematics import frame_pose
from condyle.robot.model import Link, Model

Array = np.ndarray

SIDES = {"lf": (+1, +1), "rf": (+1, -1), "lh": (-1, +1), "rh": (-1, -1)}  # (front, left)
NECK, TAIL = (0.075, 0.0, 0.025), (-0.075, 0.0, 0.02)  # m: ours, where the sources are silent


def model_checks(model: Model | None = None) -> Iterator[Check]:
    """Rows for this model, or for the library's."""
    model = plant.robot().model if model is None else model
    yield from lengths(model)
    yield from masses(model)
    yield from limits(model)
    yield from legs()
    yield from frames()
    yield from servos()


def _place(model: Model, name: str) -> Array:
    return np.asarray(frame_pose(model, model.neutral(), name).p, dtype=float)


def _links(model: Model) -> dict[str, Link]:
    return {link.name: link for link in model.links}


# -- the robot as data


def lengths(model: Model) -> Iterator[Check]:
    """Those of the maker's library, beside those of the common URDF."""
    group = "lengths"
    hip, knee, foot = (_place(model, f"lf_{name}") for name in ("hip", "knee", "foot"))
    found = (float(np.linalg.norm(knee - hip)), float(np.linalg.norm(foot - knee)), hip[0], hip[1])
    for what, listed, ours in zip(F.SIZES, F.LENGTHS, found, strict=True):
        yield near(group, f"{what}, here as in the library", 1e3 * ours, listed, 1e-9, "mm", ".2f")
    # hanging down the upper leg, and the lower one forward, at right angles
    wanted: list[tuple[float, float, float]] = []
    places: list[Array] = []
    upper, lower, ahead, beside = (1e-3 * length for length in F.LENGTHS)
    for name, (front, left) in SIDES.items():
        x, y = front * ahead, left * beside
        wanted += [(x, y, 0.0), (x, y, -upper), (x + lower, y, -upper)]
        places += [_place(model, f"{name}_{part}") for part in ("hip", "knee", "foot")]
    yield difference(group, "hips, knees and feet of all legs at zero, by hand", places, wanted, "m")
    yield near(group, "a standing foot off its place if the legs were the URDF's", _off_by_urdf(), 11.79, 0.01, "mm", ".2f")


def _off_by_urdf() -> float:
    """mm between where the library's angles put a front foot and where they would with the URDF's lengths."""
    alpha, beta = np.radians(kinematics.leg_angles(STAND[0]))
    shin = alpha - (np.pi - beta)
    upper, lower = F.URDF[:2]
    put = np.array([upper * np.sin(alpha) + lower * np.sin(shin), upper * np.cos(alpha) + lower * np.cos(shin)])
    return float(np.hypot(*(put - STAND[0])))


def masses(model: Model) -> Iterator[Check]:
    """The parts are the URDF's; every servo is in the link before its joint."""
    group, links = "masses", _links(model)
    yield near(group, "mass of all parts", total_mass(model), F.PARTS, 1e-9, "kg", ".3f")
    upper, lower, ahead, beside = (1e-3 * length for length in F.LENGTHS)
    # our x and y are the library's y and x; a leg has its smallest moment along, its largest across its plane
    x, y, z = F.TORSO_MOMENTS
    small, middle, large = F.LEG_MOMENTS
    hips = [(front * ahead, left * beside, 0.0) for front, left in SIDES.values()]
    servos = [(F.SERVO, at, F.SERVO_MOMENTS) for at in (*hips, NECK, TAIL)]
    torso = composite_inertia([(F.TORSO, (0, 0, 0), (y, x, z)), *servos])
    yield from _as_composed(group, "torso with six servos", [links["torso"]], torso)
    leg = (middle, large, small)
    thigh = composite_inertia([(F.LEG, (0, 0, -upper / 2.0), leg), (F.SERVO, (0, 0, -upper), F.SERVO_MOMENTS)])
    yield from _as_composed(group, "upper legs with a servo", [links[f"{name}_upper"] for name in SIDES], thigh)
    ball = (0.4 * F.FOOT * F.FOOT_RADIUS**2,) * 3
    shin = composite_inertia([(F.LEG, (0, 0, -lower / 2.0), leg), (F.FOOT, (0, 0, -lower), ball)])
    yield from _as_composed(group, "lower legs with a foot", [links[f"{name}_lower"] for name in SIDES], shin)
    found = [links[name].inertia.mass for name in ("neck_1", "neck_2", "neck_3", "tail")]
    wanted = (F.NECK + F.SERVO, F.NECK + F.SERVO, F.NECK + F.HEAD + F.EYES, F.TAIL)
    yield difference(group, "neck, head with eyes, and tail, off the published masses", found, wanted, "kg")


def _as_composed(group: str, what: str, links: list[Link], wanted: tuple[float, Array, Array]) -> Iterator[Check]:
    mass, centre, moments = ([one] * len(links) for one in wanted)
    yield difference(group, f"{what}: mass, off the sum", [link.inertia.mass for link in links], mass, "kg")
    yield difference(group, f"{what}: centre, by hand", [link.inertia.com for link in links], centre, "m")
    yield difference(group, f"{what}: moments, by hand", [link.inertia.I_com for link in links], moments, "kg m^2", 1e-16)


def limits(model: Model) -> Iterator[Check]:
    group = "joints and ground"
    by_name = {link.joint: link for link in model.links[1:]}
    wanted = {f"{leg}_{joint}": (-F.LEG_LIMIT, F.LEG_LIMIT) for leg in SIDES for joint in ("hip", "knee")} | F.OTHER_LIMITS
    found = [(by_name[name].limits.lower, by_name[name].limits.upper) for name in wanted]
    yield difference(
        group, "limits of the twelve joints", np.degrees(np.array(found, dtype=float)), list(wanted.values()), "degrees"
    )
    each = [by_name[name] for name in wanted]
    yield difference(group, "torques, off 0.216", [link.limits.effort for link in each], [F.EFFORT] * F.SERVOS, "N m", 0.0)
    yield difference(group, "speeds, off 7", [link.limits.velocity for link in each], [F.SPEED] * F.SERVOS, "rad/s", 0.0)
    # what a motor gives falls to nothing at full speed
    yield difference(
        group, "damping, off torque by speed", [link.damping for link in each], [F.EFFORT / F.SPEED] * F.SERVOS, "N m s"
    )
    here = plant.world()
    friction = np.nan if here.ground is None else here.ground.friction
    yield near(group, "friction of the feet", friction, F.FRICTION, 0.0, "", ".1f")
    yield difference(
        group, "radii of the feet, off 8 mm", [point.radius for point in here.contact_points], [F.FOOT_RADIUS] * 4, "m", 0.0
    )
    yield near(group, "gravity", -model.gravity[2], GRAVITY, 0.0, "m/s^2", ".2f")


# -- legs and gaits


def legs() -> Iterator[Check]:
    group, found = "legs", np.reshape(poses.POSES["stand"], (4, 2))
    yield difference(group, "feet that stand, off the published places", STAND[::2], F.STAND_FEET, "mm", 0.0)
    for leg, angles in F.STAND.items():
        # two digits are published
        yield difference(
            group, f"standing, {leg}: off {angles[0]} and {angles[1]}", found[LEGS.index(leg)], angles, "degrees", 0.005
        )
    yield difference(group, "standing: right side, off the left one negated", found[1::2], -found[::2], "degrees", 0.0)
    others = [poses.POSES[name] for name in F.POSES]
    yield difference(group, "eight other poses, off the published ones", others, list(F.POSES.values()), "degrees", 0.0)
    wrong = kinematics.foot_position(np.array(F.WRONG_STAND) + np.array([0.0, 90.0]))
    away = float(np.hypot(*(wrong - F.STAND_FEET[0])))
    yield near(group, "standing by the published 27.02 / -55.98: a front foot off its place", away, 99.8, 0.1, "mm", ".1f")


def frames() -> Iterator[Check]:
    group, walk, trot = "gaits", gaits.walk(), gaits.trot()
    up = walk[:-1, :, 1].reshape(8, 6, 4).min(axis=1) < F.HEIGHT
    wanted = np.array([[leg == lifted for leg in LEGS] for lifted in F.LIFTED])
    yield Check(group, "walk: sections whose lifted leg is wrong", float(np.sum(up != wanted)), high=0.0, form=".0f")
    yield difference(group, "walk: all 49 frames, off those by hand", walk, _walk_by_hand(), "mm", 1e-11)
    width, centre, offsets = F.TROT
    ends = [(width / 2.0 + centre + offset - width, width / 2.0 + centre + offset) for offset in offsets]
    reach = np.stack([trot[:, :, 0].min(axis=0), trot[:, :, 0].max(axis=0)], axis=-1)
    yield difference(group, "trot: reach of the feet, off that by hand", reach, ends, "mm", 1e-12)
    yield near(group, "walk: advance of a cycle", gaits.ideal_advance(walk), F.ADVANCE["walk"], 0.05, "mm", ".2f")
    yield near(group, "trot: advance of a cycle", gaits.ideal_advance(trot), F.ADVANCE["trot"], 1e-9, "mm", ".2f")
    slow, fast = (gaits.frame_ticks([0.0], [1.0], speed) for speed in (0.0, 98.0))
    yield near(group, "frame at speed 0, in ticks of 10 ms", slow, 100.0, 0.0, "", ".0f")
    yield near(group, "frame at speed 98, 29.8 ms, in ticks", fast, 3.0, 0.0, "", ".0f")
    # a way so long that only the servo's speed counts
    seconds = pulses.TICK * gaits.frame_ticks([0.0], [4280.0], 98.0)
    yield near(group, "a way of 4280 degrees at 428 degrees/s takes", seconds, 4280.0 / F.FASTEST["legs"], 1e-9, "s", ".2f")
    commands = np.array(list(gaits.ticks(gaits.gait_frames("walk", 2), 98.0, poses.POSES["stand"])))
    fastest = float(np.max(np.abs(np.diff(commands, axis=0)))) / pulses.TICK
    yield Check(group, "walk at 98: fastest servo command", fastest, "degrees/s", 400.0, F.FASTEST["legs"], ".1f")


def _walk_by_hand() -> Array:
    """(49, 4, 2), leg by leg: a foot swings once, and is moved back by W/42 in each of the other frames."""
    width, centre, offsets, starts = F.WALK
    frames = np.empty((49, 4, 2))
    for i, leg in enumerate(LEGS):
        origin = width / 2.0 + centre + offsets[i]
        first, swings = origin - starts[i] * 2.0 * width / 7.0, 6 * F.LIFTED.index(leg)
        for n in range(48):
            if swings <= n < swings + 6:
                part = (n - swings) / 5.0
                frames[n, i] = origin + width * (np.cos(part * np.pi) - 1.0) / 2.0, F.HEIGHT - F.LIFT * part
            elif n < swings:
                frames[n, i] = first + (n + 1) * width / 42.0, F.HEIGHT
            else:
                frames[n, i] = origin - width + (n - swings - 5) * width / 42.0, F.HEIGHT
        frames[48, i] = first, F.HEIGHT
    return frames


def servos() -> Iterator[Check]:
    group = "servo"
    shortest, longest = F.PULSES
    ends = [round(pulse * F.COUNTS / F.PERIOD) for pulse in F.PULSES]
    yield difference(group, "counts for -90 and 90 degrees, off 102 and 512", pulses.counts([-90.0, 90.0]), ends, "", 0.0)
    heard = pulses.quantized(np.linspace(-90.0, 90.0, 18001))
    step = float(np.max(np.diff(np.unique(heard))))
    yield near(group, "resolution of a command", step, 180.0 / (longest - shortest) * F.PERIOD / F.COUNTS, 1e-9, "degrees", ".4f")
    yield near(group, "the same, published", step, F.RESOLUTION, 0.005, "degrees", ".2f")
    yield near(group, "period of a pulse", 1e6 * pulses.PERIOD, F.PERIOD, 1e-9, "us", ".0f")
