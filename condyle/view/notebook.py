"""Robots and runs in notebooks: an inline viewer that needs no server and no network, and plain tables."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.errors import CondyleError, ShapeError
from condyle.multibody.html import robot_html
from condyle.multibody.robot import Robot
from condyle.robot.joints import Prismatic, Revolute
from condyle.runs.html import run_html
from condyle.view.geometry import bounds, pieces
from condyle.view.player import framed_page
from condyle.view.scene import BELOW
from condyle.view.trajectory import Trajectory, link_poses, sample_run, trajectory

if TYPE_CHECKING:
    from condyle.runs.run import Run

SWEEP = 1.6  # s for each joint, from its middle to both limits and back
LONGEST = 24.0  # s for all joints
FPS = 30.0

__all__ = ["Inline", "robot_html", "run_html", "show", "sweep"]


@dataclass(frozen=True, eq=False)
class Inline:
    """What a notebook shows as a player: `html` is one <iframe> with everything inside."""

    html: str
    text: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return f"<condyle player of {self.text}>"


def show(run_or_robot: Run | Trajectory | Robot, height: int = 420, *, q: Any = None, title: str = "", **options: Any) -> Inline:
    """A player for a notebook: of a run, of a motion, or of a robot that moves each joint between its limits.

    `q`: the configuration in which a robot stands still instead. Further options as of condyle.view.player.player_html.
    """
    if isinstance(run_or_robot, Robot):
        robot = run_or_robot
        shown = sweep(robot) if q is None else trajectory(robot, [0.0], np.asarray(q, dtype=float)[None])
        options = {"autoplay": q is None, **options}
    elif isinstance(run_or_robot, Trajectory):
        shown = run_or_robot
    elif hasattr(run_or_robot, "steps") and hasattr(run_or_robot, "about"):
        shown = sample_run(run_or_robot, options.pop("fps", FPS))
    else:
        raise ShapeError(f"show() takes a robot, a run or a trajectory, got {type(run_or_robot).__name__}")
    title = title or shown.title or shown.robot.name
    return Inline(framed_page(shown, title=title, height=height, **options), f"{title!r} ({shown.robot.name})")


def sweep(robot: Robot) -> Trajectory:
    """The robot moving one joint after the other to both limits and back, its base at rest; at most LONGEST seconds."""
    middle = robot.neutral()
    joints = [link for link in robot.reduced.links if isinstance(link.kind, Revolute | Prismatic)]
    joints = [link for link in joints if not link.base]
    if not joints:
        return trajectory(robot, [0.0], middle[None])
    each = min(SWEEP, LONGEST / len(joints))
    count = max(2, round(each * FPS))
    phase = np.sin(np.linspace(0.0, 2.0 * np.pi, count, endpoint=False))
    rows = np.tile(middle, (count * len(joints) + 1, 1))
    for number, link in enumerate(joints):
        place = link.q.start
        down, up = _room(link, float(middle[place]))
        part = rows[number * count : (number + 1) * count, place]
        part += np.where(phase > 0.0, up * phase, down * -phase)
    try:
        shown = trajectory(robot, np.arange(len(rows)) / FPS, rows)
    except CondyleError:
        # a constraint may not let a joint go so far: those poses are left out
        rows = rows[[_possible(robot, row) for row in rows]]
        shown = trajectory(robot, np.arange(len(rows)) / FPS, rows)
    # the robot stands on the ground at first, wherever its joints take it
    low, high = bounds(pieces(robot.model), shown.R[0], shown.p[0])
    below = float(low[2]) < -BELOW * float(np.linalg.norm(high - low))
    return replace(shown, ground=float(low[2]) if below else 0.0)


def _room(link: Any, at: float) -> tuple[float, float]:
    """(down, up): how far the joint goes from `at`, negative and positive, within its limits and not too far."""
    far = 1.2 if isinstance(link.kind, Revolute) else 0.25
    lower, upper = link.limits.lower, link.limits.upper
    down = -far if lower is None or not np.isfinite(lower) else float(np.clip(lower - at, -far, 0.0))
    up = far if upper is None or not np.isfinite(upper) else float(np.clip(upper - at, 0.0, far))
    return down, up


def _possible(robot: Robot, q: np.ndarray) -> bool:
    try:
        link_poses(robot, q)
    except CondyleError:
        return False
    return True
