"""Motion planning in one call: a certified smooth joint path from a configuration to another, or the reason why there is none.

plan = plan_motion(robot, distances, start, goal, seed=0)
motion = time_optimal(plan.path, robot=robot, acceleration=2.0)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.methods.planning.certify import RESOLUTION, Clearance
from condyle.methods.planning.paths import PiecewisePolynomial
from condyle.methods.planning.robot_distances import RobotDistances
from condyle.methods.planning.rrt_connect import BATCH, STEP, Progress, rrt_connect
from condyle.methods.planning.shortcut import length, shortcut
from condyle.methods.planning.smooth import smooth
from condyle.multibody.robot import Robot

Array = np.ndarray


@dataclass(frozen=True)
class Plan:
    """A path, if `ok`: `path.at(s)` for s in [0, 1], for `time_optimal` and `Timed`; else `reason` says why there is none.

    `points` (k, nv): of the spline `path`. `lines` (k, nv): the certified polygon before smoothing, `searched` before shortening.
    `lengths`: rad, of these three in the order of their making. `goal`: the number of the goal that was reached. `evaluations`:
    configurations whose distances were computed.
    """

    ok: bool
    reason: str
    path: PiecewisePolynomial | None
    points: Array
    lines: Array
    searched: Array
    lengths: tuple[float, ...]
    goal: int
    iterations: int
    nodes: int
    evaluations: int
    clearance: float

    def __bool__(self) -> bool:
        return self.ok

    def __repr__(self) -> str:
        if not self.ok:
            return f"<condyle plan: none, {self.reason}>"
        lengths = ", ".join(f"{each:.2f}" for each in self.lengths)
        return f"<condyle plan: {len(self.points)} points; {lengths} rad searched, shortened, smoothed>"


def plan_motion(
    robot: Robot,
    distances: RobotDistances,
    start: Any,
    goal: Any,
    *,
    seed: int = 0,
    clearance: float = 0.01,
    poses: Any = None,
    iterations: int = 5000,
    seconds: float | None = None,
    shortcuts: int = 200,
    points: int = 32,
    step: float = STEP,
    batch: int = BATCH,
    resolution: float = RESOLUTION,
    progress: Progress | None = None,
) -> Plan:
    """A joint path from `start` (nv,) to `goal` that keeps `clearance`, m, from all pairs, certified between samples.

    `goal`: (nv,), or several (k, nv), such as solutions of inverse kinematics, of which any will do; those that are not free are
    left out. `poses`: (obstacles, 4, 4), of distances with moving=True. `iterations`, `seconds`: limits of the search; only
    without `seconds` is the result a function of the arguments alone. `shortcuts`: attempts to shorten. `points`: of the
    spline. `resolution`: m, of motion, at which an interval that is not certified counts as not free. `progress`: called with a
    sentence.
    """
    space = Clearance(distances, clearance, poses=poses, resolution=resolution)
    start, goals = _configurations(robot, start, goal)
    lower, upper = _box(robot, start, goals)
    rng = np.random.default_rng(seed)
    reason, usable = _reason_at_once(robot, space, start, goals)
    if reason:
        return _none(reason, space, 0, 0)
    found = rrt_connect(
        space, start, goals[usable], rng,
        lower=lower, upper=upper, step=step, batch=batch, iterations=iterations, seconds=seconds, progress=progress,
    )  # fmt: skip
    if found.path is None:
        return _none(found.reason, space, found.iterations, found.nodes)
    if progress is not None:
        progress("shortening and smoothing")
    lines = shortcut(space, found.path, rng, attempts=shortcuts)
    reached = int(usable[np.argmin(np.max(np.abs(goals[usable] - lines[-1]), axis=1))])
    if length(lines) <= 1e-9:
        return _none("start and goal are the same configuration", space, found.iterations, found.nodes)
    smoothed = smooth(space, lines, points=points, lower=robot.lower, upper=robot.upper)
    if smoothed is None:
        reason = f"no smooth path near the lines keeps the clearance of {1e3 * clearance:g} mm: lower it, or follow the lines"
        return _none(reason, space, found.iterations, found.nodes, lines, found.path)
    curve, chosen = smoothed
    dense = curve.at(np.linspace(0.0, 1.0, 1000)).position
    lengths = length(found.path), length(lines), length(dense)
    return Plan(
        True, "", curve, chosen, lines, found.path, lengths, reached, found.iterations, found.nodes, space.evaluations, clearance
    )


def _none(reason: str, space: Clearance, iterations: int, nodes: int, lines: Any = None, searched: Any = None) -> Plan:
    empty = np.zeros((0, space.distances.robot.nv))
    lines, searched = (empty if each is None else each for each in (lines, searched))
    lengths = tuple(length(each) for each in (searched, lines) if len(each))
    counts = iterations, nodes, space.evaluations
    return Plan(False, reason, None, empty, lines, searched, lengths, -1, *counts, space.clearance)


def _configurations(robot: Robot, start: Any, goal: Any) -> tuple[Array, Array]:
    """start (nv,) and goals (k, nv), checked."""
    if robot.nq != robot.nv:
        raise ControlError(
            f"a plan is for joints with one coordinate each; robot '{robot.name}' has nq {robot.nq}, nv {robot.nv}"
        )
    found = []
    for name, value in (("start", start), ("goal", goal)):
        try:
            given = np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            given = np.full((), np.nan)
        wanted = (1,) if name == "start" else (1, 2)
        if given.ndim not in wanted or given.shape[-1] != robot.nv or not given.size or not np.all(np.isfinite(given)):
            more = "" if name == "start" else f", or of several, (k, {robot.nv})"
            raise ControlError(
                f"the {name} of a plan is a configuration ({robot.nv},) of finite numbers{more}; got {given.shape}"
            )
        found.append(given)
    return found[0], np.atleast_2d(found[1])


def _box(robot: Robot, start: Array, goals: Array) -> tuple[Array, Array]:
    """The box of the search: the limits of the joints, or half a turn beyond start and goals where there are none."""
    low, high = np.min([start, *goals], axis=0) - np.pi, np.max([start, *goals], axis=0) + np.pi
    return np.where(np.isfinite(robot.lower), robot.lower, low), np.where(np.isfinite(robot.upper), robot.upper, high)


def _reason_at_once(robot: Robot, space: Clearance, start: Array, goals: Array) -> tuple[str, Array]:
    """(why no search is needed, or "", the numbers of the goals that are free)."""

    def beyond(q: Array) -> str:
        outside = np.flatnonzero((q < robot.lower - 1e-9) | (q > robot.upper + 1e-9))
        return f"joint '{robot.joint_names[outside[0]]}' is beyond its limit" if len(outside) else ""

    def collides(q: Array) -> str:
        (a, b), d = space.closest(q)
        return f"'{a}' and '{b}' are {1e3 * d:.1f} mm apart" if d < space.clearance else ""

    wrong = beyond(start) or collides(start)
    if wrong:
        return f"the start does not keep the clearance of {1e3 * space.clearance:g} mm and the limits: {wrong}", np.zeros(
            0, dtype=int
        )
    problems = [beyond(q) or collides(q) for q in goals]
    usable = np.flatnonzero([not each for each in problems])
    if len(usable):
        return "", usable
    which = "the goal does" if len(goals) == 1 else f"all of the {len(goals)} goals do"
    return f"{which} not keep the clearance of {1e3 * space.clearance:g} mm and the limits: {problems[0]}", usable
