"""PiDog's poses and gaits as its maker has them: feet in millimetres, servos in degrees, frames in time.

A gait is a list of frames, each with four feet (y, z) in the plane of their legs, y backward and z down from the hip. From one
frame to the next all servos move evenly, in ticks of 10 ms, for as long as the speed says, or longer if a servo would have to be
faster than it may.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil, cos, pi
from typing import Any

import numpy as np

from condyle.demos.pidog_legs import STAND, servo_angles
from condyle.errors import CondyleError

Array = np.ndarray

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
WRONG_STAND = (
    27.02,
    -55.98,
)  # a published table has this for every leg; it puts the feet 47 mm in front of the hips, and no lower than them

# the walk
WALK_WIDTH, WALK_CENTER, WALK_OFFSETS = 80.0, -15.0, (-10.0, -10.0, 20.0, 20.0)  # mm
WALK_SECTIONS, WALK_STEPS = 8, 6
WALK_LIFTED: tuple[int | None, ...] = (0, None, 3, None, 1, None, 2, None)  # LF, none, RH, none, RF, none, LH, none
WALK_STARTS = (0, 2, 3, 1)  # of LF, RF, LH, RH: how many double sections each is ahead
TURNING = 0.3  # the width of a step on the inner side, by that on the outer
HEIGHT, LIFT = 80.0, 20.0  # mm, of both gaits

# the trot
TROT_WIDTH, TROT_CENTER, TROT_OFFSETS = 100.0, -17.0, (-5.0, -5.0, 5.0, 5.0)
TROT_STEPS = 3
TROT_PAIRS = ((0, 3), (1, 2))  # LF and RH, then RF and LH

# time
TICK = 0.010  # s
FASTEST = {"legs": 428.0, "head": 300.0, "tail": 500.0}  # degrees/s
GAITS = ("walk", "trot")


def walk(forward: bool = True, turn: str = "") -> Array:
    """Feet (49, 4, 2) of one cycle: eight sections of six steps, and the frame that closes it, which is where it began.

    `turn`: "left", "right", or nothing. One foot at a time swings, in every other section; the others move evenly the other way.
    """
    widths = [WALK_WIDTH * scale for scale in _scales(turn)]
    origins = [width / 2.0 + WALK_CENTER + offset for width, offset in zip(widths, WALK_OFFSETS, strict=True)]
    section = [width / (WALK_SECTIONS - 1) for width in widths]
    start = [[origins[i] - WALK_STARTS[i] * 2.0 * section[i], HEIGHT] for i in range(4)]
    lifted = WALK_LIFTED if forward else WALK_LIFTED[::-1]
    way = 1.0 if forward else -1.0
    feet, frames = [list(foot) for foot in start], []
    for number in range(WALK_SECTIONS):
        for step in range(WALK_STEPS):
            for i in range(4):
                if i == lifted[number]:
                    feet[i] = _swing(origins[i], widths[i], step, WALK_STEPS, way)
                else:
                    feet[i] = [feet[i][0] + way * section[i] / WALK_STEPS, HEIGHT]
            frames.append([list(foot) for foot in feet])
    return np.array([*frames, start])


def trot(forward: bool = True) -> Array:
    """Feet (6, 4, 2) of one cycle: two sections of three steps, two feet across swing in each."""
    origins = [TROT_WIDTH / 2.0 + TROT_CENTER + offset for offset in TROT_OFFSETS]
    feet = [[origin - TROT_WIDTH * (i in TROT_PAIRS[1]), HEIGHT] for i, origin in enumerate(origins)]
    way = 1.0 if forward else -1.0
    frames = []
    for pair in TROT_PAIRS if forward else TROT_PAIRS[::-1]:
        for step in range(TROT_STEPS):
            for i in range(4):
                if i in pair:
                    feet[i] = _swing(origins[i], TROT_WIDTH, step, TROT_STEPS, way)
                else:
                    feet[i] = [feet[i][0] + way * TROT_WIDTH / TROT_STEPS, HEIGHT]
            frames.append([list(foot) for foot in feet])
    return np.array(frames)


def _swing(origin: float, width: float, step: int, steps: int, way: float) -> list[float]:
    """Forward along half a cosine, and evenly up: with the next frame the foot snaps down."""
    part = step / (steps - 1)
    return [origin + way * width * (cos(part * pi) - way) / 2.0, HEIGHT - LIFT * part]


def _scales(turn: str) -> tuple[float, float, float, float]:
    known = {"": (1.0, 1.0, 1.0, 1.0), "left": (TURNING, 1.0, TURNING, 1.0), "right": (1.0, TURNING, 1.0, TURNING)}
    if turn not in known:
        raise CondyleError(f'turn must be "left", "right" or nothing; got {turn!r:.40}')
    return known[turn]


def ideal_advance(frames: Array) -> float:
    """mm that the body moves forward in a cycle if no foot on the ground slips: what a foot on the ground moves back in a
    frame, times the frames with motion; the mean over the feet where they differ, as they do in a turn."""
    way = np.diff(np.concatenate([frames[-1:], frames]), axis=0)[:, :, 0]
    down = (frames[:, :, 1] == HEIGHT) & (np.roll(frames[:, :, 1], 1, axis=0) == HEIGHT)
    moving = np.any(np.abs(way) > 1e-9, axis=1)
    back = [float(np.median(way[moving & down[:, i], i])) for i in range(4)]
    return float(np.mean(back) * np.sum(moving))


# -- in time


def frame_ticks(before: Any, after: Any, speed: float) -> int:
    """Ticks of 10 ms from one frame to the next: 1000 - 9.9 speed milliseconds, or as long as the servo with the longest way
    needs at 428 degrees/s, rounded up."""
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
