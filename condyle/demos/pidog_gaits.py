"""PiDog's legs, gaits and servos as in its manufacturer's library: millimetres and degrees.

In the plane of a leg, from the hip, y backward and z down; legs in the order LF, RF, LH, RH. The servos of the right side (odd
index) are mounted mirrored, so their angles are negated. With k = 42 the upper and l = 76 the lower leg,

    u = sqrt(y^2 + z^2),   beta = acos((l^2 + k^2 - u^2) / (2 l k)),   alpha = acos((k^2 + u^2 - l^2) / (2 k u)) + atan2(y, z)
    leg = alpha,   foot = beta - 90

alpha is the angle of the upper leg from straight down, beta that in the knee. A gait is a list of frames with four feet (y, z)
each. From one frame to the next all servos move linearly, in ticks of 10 ms, for as long as the speed says, or longer if a servo
would exceed its speed limit.

A command is a pulse every 20 ms, 500 to 2500 us for -90 to 90 degrees, in whole counts of 20 ms / 4095: 0.44 degrees. The servo's
torque is proportional to its error up to BAND, and decreases linearly with its speed, to zero at full speed:

    torque = EFFORT (clip((command - q) / BAND, -1, 1) - v / SPEED)

The first part is the control of a step; the second is the damping of the model's joints, which the simulation treats implicitly.
BAND = 3 degrees is a gain of 4.1 N m/rad: saturated at seven counts. A gain of 150 would saturate at a fifth of one count; with
5 degrees the feet hang lower, and the robot stumbles over them where friction is 0.8; with 3 it walks from 0.3 to 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil, cos, pi, radians
from typing import Any

import numpy as np

from condyle.errors import CondyleError
from condyle.robot.library.pidog import EFFORT
from condyle.robot.library.pidog import LEGS as MODEL_LEGS

Array = np.ndarray

# legs
UPPER, LOWER = 42.0, 76.0  # mm
LEGS = ("LF", "RF", "LH", "RH")
SIDES = np.array([1.0, -1.0, 1.0, -1.0])  # of LEGS: the sign of a servo's angle
JOINTS = tuple(f"{leg}_{joint}" for leg in MODEL_LEGS for joint in ("hip", "knee"))  # of the model, in the servos' order
FEET = tuple(f"{leg}_foot" for leg in MODEL_LEGS)
STAND = np.array([[-15.0, 95.0], [-15.0, 95.0], [5.0, 90.0], [5.0, 90.0]])  # feet (y, z), mm

# the walk
WALK_WIDTH, WALK_CENTER, WALK_OFFSETS = 80.0, -15.0, (-10.0, -10.0, 20.0, 20.0)  # mm
WALK_STEPS = 6
WALK_LIFTED: tuple[tuple[int, ...], ...] = ((0,), (), (3,), (), (1,), (), (2,), ())  # LF, none, RH, none, RF, none, LH, none
WALK_STARTS = (0, 2, 3, 1)  # of LF, RF, LH, RH: how many double sections each is ahead
INNER = 0.3  # the width of a step on the inner side, by that on the outer
HEIGHT, LIFT = 80.0, 20.0  # mm, of both gaits

# the trot
TROT_WIDTH, TROT_CENTER, TROT_OFFSETS = 100.0, -17.0, (-5.0, -5.0, 5.0, 5.0)
TROT_STEPS = 3
TROT_LIFTED = ((0, 3), (1, 2))  # LF and RH, then RF and LH

# time
TICK = 0.010  # s
FASTEST = {"legs": 428.0, "head": 300.0, "tail": 500.0}  # degrees/s
GAITS = ("walk", "trot")

# servos
PERIOD = 0.020  # s between pulses
COUNTS = 4095  # in a period
SHORTEST, LONGEST = 500.0, 2500.0  # us, for -90 and 90 degrees
BAND = radians(3.0)  # rad: the error at which the servo saturates


# -- legs


def leg_angles(foot: Any) -> Array:
    """(alpha, beta), degrees, (..., 2), that bring a left leg's foot to (y, z), mm; a place out of reach gives the nearest
    stretch, or the nearest fold, in its direction: cosines are clamped to [-1, 1]."""
    foot = np.asarray(foot, dtype=float)
    y, z = foot[..., 0], foot[..., 1]
    u2 = y * y + z * z
    u = np.sqrt(u2)
    in_knee = (LOWER**2 + UPPER**2 - u2) / (2.0 * LOWER * UPPER)
    at_hip = (UPPER**2 + u2 - LOWER**2) / np.where(u > 0.0, 2.0 * UPPER * u, 1.0)
    beta = np.arccos(np.clip(in_knee, -1.0, 1.0))
    alpha = np.arccos(np.clip(at_hip, -1.0, 1.0)) + np.arctan2(y, z)
    angles: Array = np.degrees(np.stack([alpha, beta], axis=-1))
    return angles


def foot_position(angles: Any) -> Array:
    """(y, z), mm, of a left leg's foot for (alpha, beta), degrees: the knee at 42 (sin alpha, cos alpha), and from there the
    shin at alpha - (180 - beta)."""
    alpha, beta = np.moveaxis(np.radians(np.asarray(angles, dtype=float)), -1, 0)
    shin = alpha - (np.pi - beta)
    y = UPPER * np.sin(alpha) + LOWER * np.sin(shin)
    z = UPPER * np.cos(alpha) + LOWER * np.cos(shin)
    return np.stack([y, z], axis=-1)


def servo_angles(feet: Any) -> Array:
    """Eight servo angles, degrees, (..., 8) as leg, foot of LF, RF, LH, RH, for four feet (..., 4, 2), mm."""
    angles = leg_angles(feet)
    angles[..., 1] -= 90.0
    angles *= SIDES[:, None]
    return angles.reshape(*angles.shape[:-2], 8)


# servo degrees: leg and foot of LF, RF, LH, RH
POSES = {
    "stand": tuple(float(angle) for angle in servo_angles(STAND)),
    "sit": (30.0, 60.0, -30.0, -60.0, 80.0, -45.0, -80.0, 45.0),
    "half sit": (25.0, 25.0, -25.0, -25.0, 64.0, -45.0, -64.0, 45.0),
    "sit to stand": (25.0, 25.0, -25.0, -25.0, 70.0, -25.0, -70.0, 25.0),
    "lie": (45.0, -45.0, -45.0, 45.0, 45.0, -45.0, -45.0, 45.0),
    "lie, hands out": (-60.0, 60.0, 60.0, -60.0, 45.0, -45.0, -45.0, 45.0),
    "stretch": (-80.0, 70.0, 80.0, -70.0, -20.0, 64.0, 20.0, -64.0),
    "push-up A": (90.0, -30.0, -90.0, 30.0, 80.0, 70.0, -80.0, -70.0),
    "push-up B": (45.0, 35.0, -45.0, -35.0, 80.0, 70.0, -80.0, -70.0),
}


# -- gaits


def walk(forward: bool = True, turn: str = "") -> Array:
    """Feet (49, 4, 2) of one cycle: eight sections of six steps, and the frame that closes it, which is where it began.

    `turn`: "left", "right", or nothing. One foot at a time swings, in every other section; the others move linearly backward.
    """
    widths = [WALK_WIDTH * scale for scale in _scales(turn)]
    origins = [width / 2.0 + WALK_CENTER + offset for width, offset in zip(widths, WALK_OFFSETS, strict=True)]
    sections = [width / (len(WALK_LIFTED) - 1) for width in widths]
    start = [[origins[i] - WALK_STARTS[i] * 2.0 * sections[i], HEIGHT] for i in range(4)]
    return np.array([*_frames(start, origins, widths, sections, WALK_LIFTED, WALK_STEPS, forward), start])


def trot(forward: bool = True) -> Array:
    """Feet (6, 4, 2) of one cycle: two sections of three steps, two diagonal feet swing in each."""
    origins = [TROT_WIDTH / 2.0 + TROT_CENTER + offset for offset in TROT_OFFSETS]
    start = [[origin - TROT_WIDTH * (i in TROT_LIFTED[1]), HEIGHT] for i, origin in enumerate(origins)]
    widths = [TROT_WIDTH] * 4
    return np.array(_frames(start, origins, widths, widths, TROT_LIFTED, TROT_STEPS, forward))


def _frames(
    start: list[list[float]],
    origins: list[float],
    widths: list[float],
    sections: list[float],
    lifted: tuple[tuple[int, ...], ...],
    steps: int,
    forward: bool,
) -> list[list[list[float]]]:
    """A swinging foot follows half a cosine and rises linearly, to come down with the next frame; the others move backward."""
    sign, feet, frames = 1.0 if forward else -1.0, start, []
    for up in lifted if forward else lifted[::-1]:
        for step in range(steps):
            part = step / (steps - 1)
            feet = [
                [origins[i] + sign * widths[i] * (cos(part * pi) - sign) / 2.0, HEIGHT - LIFT * part]
                if i in up
                else [feet[i][0] + sign * sections[i] / steps, HEIGHT]
                for i in range(4)
            ]
            frames.append(feet)
    return frames


def _scales(turn: str) -> tuple[float, float, float, float]:
    known = {
        "": (1.0, 1.0, 1.0, 1.0),
        "left": (INNER, 1.0, INNER, 1.0),
        "right": (1.0, INNER, 1.0, INNER),
    }
    if turn not in known:
        raise CondyleError(f'turn must be "left", "right" or nothing; got {turn!r:.40}')
    return known[turn]


def ideal_advance(frames: Array) -> float:
    """Distance of the body in a cycle without slip, mm: that of a foot on the ground in a frame, times the frames with motion;
    the mean over the feet where they differ, as they do in a turn."""
    step = np.diff(np.concatenate([frames[-1:], frames]), axis=0)[:, :, 0]
    down = (frames[:, :, 1] == HEIGHT) & (np.roll(frames[:, :, 1], 1, axis=0) == HEIGHT)
    moving = np.any(np.abs(step) > 1e-9, axis=1)
    back = [float(np.median(step[moving & down[:, i], i])) for i in range(4)]
    return float(np.mean(back) * np.sum(moving))


# -- in time


def frame_ticks(before: Any, after: Any, speed: float) -> int:
    """Ticks of 10 ms from one frame to the next: 1000 - 9.9 speed milliseconds, or the longest move of a servo at 428 degrees/s,
    rounded up."""
    if not 0.0 <= speed <= 100.0:
        raise CondyleError(f"speed must be from 0 to 100, got {speed!r:.40}")
    longest = float(np.max(np.abs(np.asarray(after, dtype=float) - np.asarray(before, dtype=float)), initial=0.0))
    seconds = max((1000.0 - 9.9 * speed) / 1000.0, longest / FASTEST["legs"])
    return max(ceil(seconds / TICK - 1e-9), 1)


def ticks(frames: Iterable[Any], speed: float, start: Any) -> Iterator[Array]:
    """Servo angles (8,), degrees, of one tick after the other, from where the servos are now through all frames, each (8,)."""
    now = np.asarray(start, dtype=float)
    for each in frames:
        frame = np.asarray(each, dtype=float)
        count = frame_ticks(now, frame, speed)
        for k in range(1, count + 1):
            yield now + (frame - now) * (k / count)
        now = frame


def gait_frames(gait: str, cycles: int, *, forward: bool = True, turn: str = "") -> Array:
    """Servo frames (n, 8), degrees, of so many cycles."""
    if gait not in GAITS:
        raise CondyleError(f"a gait is one of {', '.join(GAITS)}; got {gait!r:.40}")
    if gait == "trot" and turn:
        raise CondyleError("the trot goes straight; turn with the walk")
    feet = walk(forward, turn) if gait == "walk" else trot(forward)
    return servo_angles(np.tile(feet, (cycles, 1, 1)))


# -- servos


def counts(degrees: Any) -> Array:
    """The pulse for an angle, in whole counts, the nearest; angles beyond +-90 degrees give the longest or shortest pulse."""
    angle = np.clip(np.asarray(degrees, dtype=float), -90.0, 90.0)
    pulse = SHORTEST + (angle + 90.0) / 180.0 * (LONGEST - SHORTEST)
    found: Array = np.rint(pulse * COUNTS / (1e6 * PERIOD))
    return found


def quantized(degrees: Any) -> Array:
    """The angle of a command's pulse, degrees."""
    pulse = counts(degrees) * (1e6 * PERIOD) / COUNTS
    return (pulse - SHORTEST) / (LONGEST - SHORTEST) * 180.0 - 90.0


def servo_torque(command: Array, q: Array, effort: Any = EFFORT) -> Array:
    """EFFORT clip((command - q) / BAND, -1, 1), N m, for commands and joint angles, rad."""
    u: Array = effort * np.minimum(np.maximum((command - q) / BAND, -1.0), 1.0)
    return u
