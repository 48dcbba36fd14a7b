"""PiDog's actions as data: frames of the legs, the head and the tail, each with its own speed.

Angles are servo degrees: legs as leg, foot of LF, RF, LH, RH; head as yaw (left), roll, pitch (down); tail. Legs, head and tail
move independently: each goes through its own frames, a frame takes 1000 - 9.9 speed milliseconds or as long as the fastest servo
of its part needs (gaits.frame_ticks).

An action begins standing, goes through `enter` once, through its frames `cycles` times, and through `leave` once. Frames with
source "table" are those of the manufacturer's library (walk, backward, turns, the table's trot, and the poses of sit, lie,
push-up and stretch); those with source "ours" are designed here from these poses, because the tables of these actions are not
known to us: doze-off, scratch, handshake, high-five, body-twist, head and tail, and the smooth trot.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from condyle.apps.pidog.gaits import gait_frames
from condyle.apps.pidog.kinematics import servo_angles
from condyle.apps.pidog.poses import POSES, STAND
from condyle.errors import CondyleError
from condyle.robot.names import nearest

Array = np.ndarray

HEAD_LIMITS = ((-90.0, 90.0), (-70.0, 70.0), (-45.0, 30.0))  # degrees: yaw, roll, pitch
TAIL_LIMIT, LEG_LIMIT = 30.0, 90.0  # degrees
TABLE, OURS = "table", "ours"


@dataclass(frozen=True)
class Action:
    """One action: frames (n, 8) of the legs, (n, 3) of the head and (n, 1) of the tail, and how fast and often they are played.

    `legs` is one cycle; `head` and `tail` are one cycle of their own, or nothing: then they stay. `upright` actions are gaits,
    whose metrics are those of walking. `lies` may touch the ground with its body.
    """

    name: str
    summary: str
    source: str
    legs: Array
    head: Array = field(default_factory=lambda: np.zeros((0, 3)))
    tail: Array = field(default_factory=lambda: np.zeros((0, 1)))
    enter: Array = field(default_factory=lambda: np.zeros((0, 8)))
    leave: Array = field(default_factory=lambda: np.zeros((0, 8)))
    speed: float = 70.0
    head_speed: float = 70.0
    tail_speed: float = 90.0
    cycles: int = 1
    gait: bool = False
    lies: bool = False


def action(name: str) -> Action:
    """The action with this name, in which spaces and underscores stand for hyphens; the nearest is named if there is none."""
    meant = name.strip().lower().replace(" ", "-").replace("_", "-")
    if meant not in ACTIONS:
        raise CondyleError(f"PiDog has no action '{name:.60}'{nearest(meant, list(ACTIONS))}; `condyle pidog` lists all")
    return ACTIONS[meant]()


def _legs(*frames: Sequence[float] | str) -> Array:
    """Frames of the legs: eight angles, or the name of a pose."""
    return np.array([POSES[each] if isinstance(each, str) else each for each in frames], dtype=float)


def _replaced(pose: str, leg: int, angles: tuple[float, float]) -> tuple[float, ...]:
    """A pose with other angles of one leg, given as for a left leg."""
    found = list(POSES[pose])
    sign = -1.0 if leg % 2 else 1.0
    found[2 * leg : 2 * leg + 2] = [sign * each for each in angles]
    return tuple(found)


def _gait(name: str, summary: str, source: str, gait: str, **options: Any) -> Callable[[], Action]:
    def build() -> Action:
        return Action(name, summary, source, gait_frames(gait, 1, **options), speed=98.0, cycles=3, gait=True)

    return build


def _pose(name: str, summary: str, pose: str, *through: str, lies: bool = False) -> Callable[[], Action]:
    def build() -> Action:
        return Action(
            name, summary, TABLE, _legs(pose, pose), enter=_legs(*through) if through else np.zeros((0, 8)), speed=60.0, lies=lies
        )

    return build


def _still(name: str, summary: str, *, head: Any = (), tail: Any = (), **options: Any) -> Callable[[], Action]:
    """Standing, with the head or the tail in motion."""

    def build() -> Action:
        frames: dict[str, Any] = {
            "head": np.array(head, dtype=float).reshape(-1, 3),
            "tail": np.array(tail, dtype=float).reshape(-1, 1),
        }
        return Action(name, summary, OURS, _legs("stand"), speed=60.0, cycles=2, **frames, **options)

    return build


def _push_up() -> Action:
    legs = _legs("push-up A", "push-up B", "push-up A")
    return Action(
        "push-up",
        "front legs bend and stretch",
        TABLE,
        legs[:2],
        enter=_legs("push-up B"),
        head=np.array([[0.0, 0.0, -20.0], [0.0, 0.0, 10.0]]),
        speed=60.0,
        head_speed=60.0,
        cycles=3,
        lies=True,
    )


def _doze_off() -> Action:
    """Lying, it breathes: its hips rise by 8 mm and sink; the head sinks, and comes up with a start."""
    lie, up = POSES["lie"], [a + s * d for a, s, d in zip(POSES["lie"], (1, 1, -1, -1, 1, 1, -1, -1), (-6, 6) * 4, strict=True)]
    head = [[0.0, 0.0, 0.0], [0.0, 0.0, 10.0], [0.0, 0.0, 20.0], [0.0, 0.0, 28.0], [0.0, 0.0, 28.0], [0.0, 0.0, 5.0]]
    return Action(
        "doze-off",
        "lies, breathes, and its head sinks",
        OURS,
        _legs(lie, up),
        head=np.array(head),
        speed=20.0,
        head_speed=30.0,
        cycles=3,
        lies=True,
    )


def _sitting(name: str, summary: str, paws: Sequence[tuple[float, float]], **options: Any) -> Callable[[], Action]:
    """Sitting on its hind legs, the right front leg moves through these angles, given as for a left leg."""

    def build() -> Action:
        sit = "sit"
        return Action(
            name,
            summary,
            OURS,
            _legs(*[_replaced(sit, 1, each) for each in paws]),
            enter=_legs("sit to stand", sit, sit),
            leave=_legs(sit, sit),
            lies=True,
            **options,
        )

    return build


def _body_twist() -> Action:
    """Standing, feet of one side move 14 mm forward and of the other back: the body turns left, then right, its head the other
    way."""
    feet = np.tile(STAND, (4, 1, 1))
    for frame, sign in enumerate((1.0, 0.0, -1.0, 0.0)):
        feet[frame, :, 0] += sign * np.array([14.0, -14.0, 14.0, -14.0])
    head = np.array([[20.0, 0.0, 0.0], [0.0, 0.0, 0.0], [-20.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    return Action(
        "body-twist",
        "its body turns left and right above its feet",
        OURS,
        servo_angles(feet),
        head=head,
        tail=np.array([[-20.0], [20.0]]),
        speed=75.0,
        cycles=2,
    )


@cache
def _stand() -> Action:
    return Action("stand", "stands", TABLE, _legs("stand", "stand"), speed=60.0)


ACTIONS: dict[str, Callable[[], Action]] = {
    "walk": _gait("walk", "walks", TABLE, "walk"),
    "backward": _gait("backward", "walks backward", TABLE, "walk", forward=False),
    "turn-left": _gait("turn-left", "walks and turns left", TABLE, "walk", turn="left"),
    "turn-right": _gait("turn-right", "walks and turns right", TABLE, "walk", turn="right"),
    "trot": _gait("trot", "trots, with a gait of ours that does not fall", OURS, "smooth trot"),
    "trot-backward": _gait("trot-backward", "trots backward", OURS, "smooth trot", forward=False),
    "trot-left": _gait("trot-left", "trots and turns left", OURS, "smooth trot", turn="left"),
    "trot-right": _gait("trot-right", "trots and turns right", OURS, "smooth trot", turn="right"),
    "table-trot": _gait("table-trot", "trots by the manufacturer's table, and falls", TABLE, "trot"),
    "stand": _stand,
    "sit": _pose("sit", "sits", "sit", "sit to stand", lies=True),
    "half-sit": _pose("half-sit", "sits with its back high", "half sit", lies=True),
    "lie": _pose("lie", "lies down", "lie", lies=True),
    "lie-hands-out": _pose("lie-hands-out", "lies with its front legs stretched out", "lie, hands out", "lie", lies=True),
    "stretch": _pose("stretch", "stretches its front legs forward, back up", "stretch", lies=True),
    "push-up": _push_up,
    "doze-off": _doze_off,
    "scratch": _sitting(
        "scratch",
        "sits and scratches itself with a front paw",
        [(-50.0, 50.0), (-40.0, 40.0)],
        head=np.array([[-30.0, 25.0, 10.0]]),
        speed=94.0,
        cycles=6,
    ),
    "handshake": _sitting(
        "handshake",
        "sits and gives a paw, which goes up and down",
        [(-60.0, 20.0), (-45.0, 5.0)],
        head=np.array([[0.0, 0.0, -15.0]]),
        tail=np.array([[-25.0], [25.0]]),
        speed=85.0,
        cycles=3,
    ),
    "high-five": _sitting(
        "high-five",
        "sits and raises a paw high",
        [(-88.0, 30.0), (-88.0, 30.0)],
        head=np.array([[0.0, 0.0, -25.0]]),
        tail=np.array([[-25.0], [25.0]]),
        speed=80.0,
        cycles=1,
    ),
    "body-twist": _body_twist,
    "nod": _still("nod", "nods", head=[(0.0, 0.0, 20.0), (0.0, 0.0, -15.0)], head_speed=75.0),
    "shake-head": _still("shake-head", "shakes its head", head=[(35.0, 0.0, 0.0), (-35.0, 0.0, 0.0)], head_speed=80.0),
    "tilt-head": _still(
        "tilt-head", "tilts its head", head=[(0.0, 25.0, 0.0), (0.0, 25.0, 0.0), (0.0, -25.0, 0.0), (0.0, -25.0, 0.0)]
    ),
    "wag-tail": _still("wag-tail", "wags its tail", tail=[(25.0,), (-25.0,)], tail_speed=95.0),
}
