"""Coordinates of a robot as sliders set them: angles in degrees, lengths in metres, within their limits; and q as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from condyle.errors import RobotError, ShapeError
from condyle.multibody.robot import Robot
from condyle.robot.joints import Ball, Free, Prismatic
from condyle.robot.model import Link
from condyle.robot.parts import pose
from condyle.workbench.view.trajectory import quaternions, roll_pitch_yaw
from condyle.workbench.view.window.panel import short

FEW = 10  # sliders that need no folders
HALF_TURN = float(np.pi)
MAX_TURN = 4.0 * HALF_TURN  # of a slider
STEP = 1e-3  # of a slider, m
DEGREES = 0.1  # of a slider


@dataclass(frozen=True)
class Coordinate:
    """What one slider sets: an entry of q, or of a joint with a quaternion, an angle: 0, 1, 2 for roll, pitch, yaw."""

    number: int  # of the link among robot.reduced.links
    link: Link
    label: str
    low: float
    high: float
    entry: int
    angle: int | None = None

    def of(self, q: np.ndarray) -> float:
        """Its value at q."""
        return float(q[self.entry] if self.angle is None else self._angles(q)[self.angle])

    def set(self, q: np.ndarray, value: float) -> np.ndarray:
        """q with this value."""
        q = q.copy()
        if self.angle is None:
            q[self.entry] = value
        else:
            rpy = self._angles(q)
            rpy[self.angle] = value
            R = pose(rpy=tuple(float(angle) for angle in rpy)).R
            q[self.link.q.stop - 4 : self.link.q.stop] = quaternions(np.asarray(R, dtype=float)[None])[0]
        return q

    @property
    def angular(self) -> bool:
        """Whether it is an angle, shown in degrees."""
        return self.angle is not None or not isinstance(self.link.kind, Prismatic | Free)

    @property
    def scale(self) -> float:
        """What its slider shows per rad or m."""
        return 180.0 / float(np.pi) if self.angular else 1.0

    @property
    def step(self) -> float:
        """The step of its slider, degrees or m."""
        return DEGREES if self.angular else STEP

    def shown(self, q: np.ndarray) -> float:
        """Its value at q as its slider shows it, in degrees or m."""
        return float(np.clip(round(self.of(q) * self.scale, 1 if self.angular else 3), *self.ends))

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of its slider in whole steps, inside the limits where there is room."""
        low, high = self.low * self.scale, self.high * self.scale
        inside = np.ceil(low / self.step - 1e-6) * self.step, np.floor(high / self.step + 1e-6) * self.step
        return (
            (round(float(inside[0]), 3), round(float(inside[1]), 3)) if inside[1] - inside[0] > 2.0 * self.step else (low, high)
        )

    def _angles(self, q: np.ndarray) -> np.ndarray:
        """Roll, pitch, yaw of R = Rz(yaw) Ry(pitch) Rx(roll)."""
        return roll_pitch_yaw(np.asarray(self.link.kind.pose(q[self.link.q]).R, dtype=float))


def coordinates(robot: Robot, size: float) -> list[Coordinate]:
    """What the sliders of a robot set, in order; a range by its `size`, m, where the file has none."""
    found = []
    reach = float(np.ceil(max(2.0 * size, 0.5)))
    for i, link in enumerate(robot.reduced.links):
        entry = link.q.start
        if not isinstance(link.kind, Ball | Free):
            found.append(Coordinate(i, link, link.joint, *limits(link, reach), entry))
            continue
        if isinstance(link.kind, Free):
            found += [Coordinate(i, link, f"{link.joint} {axis}", -reach, reach, entry + k) for k, axis in enumerate("xyz")]
        for k, (name, far) in enumerate({"roll": HALF_TURN, "pitch": HALF_TURN / 2.0, "yaw": HALF_TURN}.items()):
            found.append(Coordinate(i, link, f"{link.joint} {name}", -far, far, entry, k))
    return found


def limits(link: Link, reach: float) -> tuple[float, float]:
    """The ends of a joint's slider: its limits, or `reach`, m, and half a turn about them."""
    far, most = (reach, 50.0 * reach) if isinstance(link.kind, Prismatic) else (HALF_TURN, MAX_TURN)
    low, high = (None if x is None or not np.isfinite(x) else float(x) for x in (link.limits.lower, link.limits.upper))
    # a limit on one side only leaves room on the other
    low = min(-far, high - far) if low is None and high is not None else -far if low is None else low
    high = max(far, low + far) if high is None else high
    low, high = (float(np.clip(x, -most, most)) for x in (low, high))
    return (low, high) if low < high else (min(low, most - STEP), min(low, most - STEP) + STEP)


def within(robot: Robot, found: Sequence[Coordinate], q: np.ndarray) -> np.ndarray:
    """q with its joints inside their sliders."""
    if q.shape != (robot.nq,):
        raise ShapeError(f"{robot.name}: q must have {robot.nq} entries, got shape {q.shape}")
    q = q.copy()
    for each in found:
        if not isinstance(each.link.kind, Ball | Free):
            q[each.entry] = np.clip(q[each.entry], each.low, each.high)
    return q


def chains(robot: Robot, found: Sequence[Coordinate]) -> list[list[Coordinate]]:
    """The coordinates in groups: a new one where a link is not the child of the one before; by tens with constraints."""
    tree = robot.coordinate_map.identity
    out: list[list[Coordinate]] = []
    for each in found:
        last = out[-1][-1] if out else None
        child = last is not None and each.link.parent == last.number and last.link.kind.nv == each.link.kind.nv
        if last is not None and (last.number == each.number or child if tree else len(out[-1]) < FEW):
            out[-1].append(each)
        else:
            out.append([each])
    # single joints share a group
    joined: list[list[Coordinate]] = []
    for chain in out:
        if joined and len(chain) == 1 and len(joined[-1]) < 4 and joined[-1][0].link.kind.nv == 1:
            joined[-1] += chain
        else:
            joined.append(chain)
    return joined


def as_text(q: np.ndarray) -> str:
    """q as Python reads it."""
    return "[" + ", ".join(f"{x + 0.0:.6g}" for x in q) + "]"


def from_text(robot: Robot, text: str) -> np.ndarray:
    """q from numbers with commas or spaces between them; quaternions are normalized."""
    try:
        q = np.array([float(word) for word in text.strip("[]() \n").replace(",", " ").split()])
    except ValueError:
        raise RobotError([f"q must be {robot.nq} numbers with commas between them, got {short(text, 60)!r}"]) from None
    if q.shape != (robot.nq,) or not np.all(np.isfinite(q)):
        raise RobotError([f"q of robot '{short(robot.name, 40)}' has {robot.nq} finite numbers, got {len(q)}"])
    for link in robot.reduced.links:
        if isinstance(link.kind, Ball | Free):
            quaternion = q[link.q.stop - 4 : link.q.stop]
            length = float(np.linalg.norm(quaternion))
            if length < 1e-6:
                raise RobotError([f"the quaternion of joint '{short(link.joint, 40)}' in q is zero: give it length one"])
            quaternion /= length
    return q
