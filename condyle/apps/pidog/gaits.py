"""PiDog's walk and trot as in its manufacturer's library, a trot of ours, and how servos move from frame to frame.

A gait is a list of frames with four feet (y, z), mm, in the planes of their legs (kinematics.py). From one frame to the next all
servos move linearly, in ticks of 10 ms, for as long as the speed says, or longer if a servo would exceed its speed limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil, cos, pi
from typing import Any

import numpy as np

from condyle.apps.pidog.kinematics import servo_angles
from condyle.apps.pidog.servos import FASTEST, TICK
from condyle.errors import CondyleError

Array = np.ndarray

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

# our trot: feet move evenly on the ground, and smoothly in the air
SMOOTH_STEPS = 14  # frames of a cycle: 0.42 s at speed 98
SMOOTH_WIDTH, SMOOTH_HEIGHT, SMOOTH_LIFT = 36.0, 98.0, 18.0  # mm
SMOOTH_CENTERS = (0.0, -14.0)  # mm: of the steps forward and backward
SMOOTH_DUTIES = (0.6, 0.65)  # parts of a cycle that a foot is on the ground: straight forward; backward and turning
SMOOTH_STARTS = (0.0, 0.5, 0.5, 0.0)  # of a cycle
SMOOTH_INNER = 0.3
GAITS = ("walk", "trot", "smooth trot")


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


def smooth_trot(forward: bool = True, turn: str = "") -> Array:
    """Feet (14, 4, 2) of one cycle of our trot: as the table of trot, with diagonal pairs, but one that does not fall.

    In the table feet jump by a third of 100 mm a frame and hit the ground from 20 mm above in one frame, with two feet carrying
    for all of a cycle of which 60 mm lie in front of the hips; here, with s the part of the swing that is over,

        on the ground  y moves evenly from -W/2 to W/2
        in the air     y = W/2 - W (s - sin(2 pi s) / (2 pi)),   z = H - lift sin^2(pi s)

    four feet carry for a fifth of the cycle or more, and steps are W = 36 mm about a place below the hips.
    """
    duty = SMOOTH_DUTIES[0 if forward and not turn else 1]
    widths = SMOOTH_WIDTH * np.array(_scales(turn, SMOOTH_INNER))
    part = (np.arange(1, SMOOTH_STEPS + 1)[:, None] / SMOOTH_STEPS + np.array(SMOOTH_STARTS)) % 1.0
    swing = np.clip((part - duty) / (1.0 - duty), 0.0, 1.0)
    along = np.where(part < duty, part / duty - 0.5, 0.5 - swing + np.sin(2.0 * pi * swing) / (2.0 * pi))
    y = SMOOTH_CENTERS[0 if forward else 1] + (1.0 if forward else -1.0) * widths * along
    return np.stack([y, SMOOTH_HEIGHT - SMOOTH_LIFT * np.sin(pi * swing) ** 2], axis=-1)


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


def _scales(turn: str, inner: float = INNER) -> tuple[float, float, float, float]:
    known = {
        "": (1.0, 1.0, 1.0, 1.0),
        "left": (inner, 1.0, inner, 1.0),
        "right": (1.0, inner, 1.0, inner),
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


def frame_ticks(before: Any, after: Any, speed: float, part: str = "legs") -> int:
    """Ticks of 10 ms from one frame to the next: 1000 - 9.9 speed milliseconds, or the longest move of a servo at the most that
    it may do, 428 degrees/s of the legs, 300 of the head, 500 of the tail; rounded up."""
    if not 0.0 <= speed <= 100.0:
        raise CondyleError(f"speed must be from 0 to 100, got {speed!r:.40}")
    longest = float(np.max(np.abs(np.asarray(after, dtype=float) - np.asarray(before, dtype=float)), initial=0.0))
    seconds = max((1000.0 - 9.9 * speed) / 1000.0, longest / FASTEST[part])
    return max(ceil(seconds / TICK - 1e-9), 1)


def ticks(frames: Iterable[Any], speed: float, start: Any, part: str = "legs") -> Iterator[Array]:
    """Servo angles, degrees, of one tick after the other, from where the servos are now through all frames."""
    now = np.asarray(start, dtype=float)
    for each in frames:
        frame = np.asarray(each, dtype=float)
        count = frame_ticks(now, frame, speed, part)
        for k in range(1, count + 1):
            yield now + (frame - now) * (k / count)
        now = frame


def gait_frames(gait: str, cycles: int, *, forward: bool = True, turn: str = "") -> Array:
    """Servo frames (n, 8), degrees, of so many cycles."""
    if gait not in GAITS:
        raise CondyleError(f"a gait is one of {', '.join(GAITS)}; got {gait!r:.40}")
    if gait == "trot" and turn:
        raise CondyleError("the trot of the table goes straight; turn with the walk or the smooth trot")
    feet = trot(forward) if gait == "trot" else {"walk": walk, "smooth trot": smooth_trot}[gait](forward, turn)
    return servo_angles(np.tile(feet, (cycles, 1, 1)))
