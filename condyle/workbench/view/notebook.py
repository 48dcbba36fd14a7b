"""Robots and runs in notebooks: an inline player that needs no server and no network."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condyle.errors import CondyleError, ShapeError
from condyle.multibody.robot import Robot
from condyle.robot.joints import Prismatic, Revolute
from condyle.robot.model import Link
from condyle.workbench.runs.run import Run
from condyle.workbench.view.player import framed_page
from condyle.workbench.view.scene import ground_level, robot_mesh
from condyle.workbench.view.trajectory import Trajectory, link_poses, sample_run, trajectory

SWEEP = 1.6  # s for each joint, from its middle to both limits and back
MAX_SWEEP = 24.0  # s for all joints
FPS = 30.0


@dataclass(frozen=True, eq=False)
class Inline:
    """A player that a notebook displays: `html` is one <iframe> with everything inside."""

    html: str
    text: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return f"<condyle player of {self.text}>"


def show(shown: Run | Trajectory | Robot, height: int = 420, *, q: Any = None, title: str = "", **options: Any) -> Inline:
    """A player for a notebook: of a run, of a trajectory, or of a robot that moves each joint between its limits.

    `q`: shows a robot at rest at this configuration instead. Further options as of condyle.workbench.view.player.player_html.
    """
    if isinstance(shown, Robot):
        options = {"autoplay": q is None, **options}
        shown = sweep(shown) if q is None else trajectory(shown, [0.0], np.asarray(q, dtype=float)[None])
    elif isinstance(shown, Run):
        shown = sample_run(shown, options.pop("fps", FPS))
    elif not isinstance(shown, Trajectory):
        raise ShapeError(f"show() takes a robot, a run or a trajectory, got {type(shown).__name__}")
    title = title or shown.title or shown.robot.name
    return Inline(framed_page(shown, title=title, height=height, **options), f"{title!r} ({shown.robot.name})")


def sweep(robot: Robot) -> Trajectory:
    """The robot moving one joint after the other to both limits and back, its base at rest; at most MAX_SWEEP seconds."""
    neutral = robot.neutral()
    joints = [link for link in robot.reduced.links if isinstance(link.kind, Revolute | Prismatic) and not link.base]
    if not joints:
        return trajectory(robot, [0.0], neutral[None])
    count = max(2, round(min(SWEEP, MAX_SWEEP / len(joints)) * FPS))
    phase = np.sin(np.linspace(0.0, 2.0 * np.pi, count, endpoint=False))
    q = np.tile(neutral, (count * len(joints) + 1, 1))
    for k, link in enumerate(joints):
        index = link.q.start
        down, up = _range(link, float(neutral[index]))
        q[k * count : (k + 1) * count, index] += np.where(phase > 0.0, up * phase, down * -phase)
    # a constraint may not let a joint go so far: those configurations are left out
    if not _possible(robot, q):
        q = q[[_possible(robot, row) for row in q]]
    shown = trajectory(robot, np.arange(len(q)) / FPS, q)
    # the robot stands on the ground at first, wherever its joints take it
    low, high = robot_mesh(robot).bounds(shown.R[0], shown.p[0])
    return replace(shown, ground=ground_level(low[2], float(np.linalg.norm(high - low))))


def _range(link: Link, at: float) -> tuple[float, float]:
    """(down, up): how far the joint goes from `at`, within its limits and at most 1.2 rad or 0.25 m."""
    far = 1.2 if isinstance(link.kind, Revolute) else 0.25
    lower, upper = link.limits.lower, link.limits.upper
    down = -far if lower is None or not np.isfinite(lower) else lower - at
    up = far if upper is None or not np.isfinite(upper) else upper - at
    return float(np.clip(down, -far, 0.0)), float(np.clip(up, 0.0, far))


def _possible(robot: Robot, q: np.ndarray) -> bool:
    try:
        link_poses(robot, q)
    except CondyleError:
        return False
    return True
