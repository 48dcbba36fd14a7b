"""Welding: the tool goes round a rectangle with rounded corners at a constant speed, pointing down.

done = run("weld.cdl")                # recorded and replayable
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from os import PathLike

import numpy as np

from condyle.apps.demos import arm_tracking as tracking
from condyle.apps.demos.arm import CENTER, DOWN, HALF, HEIGHT, TOOL, robot
from condyle.apps.demos.arm_tracking import Plan, joints_along, planned, rest, run_plan, times, tool_errors
from condyle.apps.demos.checks import Check, Progress, largest, near, replays, silent
from condyle.methods.planning.joined_path import Joined, rounded
from condyle.methods.planning.paths import Timed
from condyle.methods.planning.profiles import Profile, Sample, jerk_limited, trapezoidal
from condyle.robot.library.ur3 import MAX_ACCELERATION
from condyle.workbench.runs.run import Run

SPEED = 0.05  # m/s along the seam
RADIUS = 0.01  # m, of the corners
LEAD = 0.02  # m before and after the seam, in which the tool gains and loses its speed
ACCELERATION, JERK = 0.25, 10.0  # m/s^2 and m/s^3 along the path


def seam() -> Joined:
    """Once round the rectangle, from the middle of its side at the least x."""
    signs = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])
    corners = np.column_stack([np.array(CENTER) + signs * np.array(HALF), np.full(4, HEIGHT)])
    return rounded(corners, RADIUS, closed=True)


@dataclass(frozen=True)
class Laps:
    """A closed path that begins `lead` before its start and ends as far after it: s in [0, 1] of the whole way."""

    path: Joined
    lead: float

    @property
    def length(self) -> float:
        """The whole way, m."""
        return self.path.length + 2.0 * self.lead

    def at(self, s: np.ndarray) -> Sample:
        """Position and two derivatives by s."""
        share = self.length / self.path.length
        p, first, second = self.path.at(np.mod(np.asarray(s) * share - self.lead / self.path.length, 1.0))
        return Sample(p, first * share, second * share**2)


def law() -> Profile:
    """s of the whole way over time: constant speed on the seam."""
    way = Laps(seam(), LEAD).length
    return jerk_limited([0.0], [1.0], speed=SPEED / way, acceleration=ACCELERATION / way, jerk=JERK / way)


@cache
def plan() -> Plan:
    """From the start to the seam, round it, and back."""
    arm, q0 = robot(), tracking.start()
    motion = Timed(Laps(seam(), LEAD), law())  # type: ignore[arg-type]
    tool = Sample(*motion.at(times(motion.duration)))
    first = arm.inverse_kinematics(TOOL, (DOWN, tool.position[0]), q0, tolerance=1e-12, method="analytic").q
    weld = joints_along(tool, first)
    limits = {"speed": arm.velocity_limits, "acceleration": MAX_ACCELERATION}
    there, back = (trapezoidal(a, b, **limits) for a, b in ((q0, first), (weld.position[-1], q0)))
    return planned(
        [
            ("approach", Sample(*there.at(times(there.duration))), 0.0),
            ("wait", rest(first, 0.25), 0.0),
            ("weld", weld, 0.0),
            ("stop", rest(weld.position[-1], 0.25), 0.0),
            ("back", Sample(*back.at(times(back.duration))), 0.0),
            ("rest", rest(q0, 0.25), 0.0),
        ]
    )


def on_seam() -> np.ndarray:
    """The rows of the plan on which the tool is on the seam, after the first lead and before the last."""
    weld, way = np.flatnonzero(plan().part == "weld"), Laps(seam(), LEAD)
    along = law().at(times(float(law().duration))).position[:, 0] * way.length
    rows: np.ndarray = weld[(along >= LEAD) & (along <= way.length - LEAD)]
    return rows


def run(path: str | PathLike[str] | None = None, *, progress: Progress = silent) -> Run:
    """From the start to the seam, round it, and back."""
    return run_plan(plan(), path, "arm: welding a rectangle", progress=progress)


def off_seam(points: np.ndarray) -> np.ndarray:
    """The distance of points (n, 3) from the seam, m: to the rounded rectangle in its plane, and out of the plane."""
    x, y = (np.abs(points[:, k] - CENTER[k]) - (HALF[k] - RADIUS) for k in range(2))
    outside = np.hypot(np.maximum(x, 0.0), np.maximum(y, 0.0)) + np.minimum(np.maximum(x, y), 0.0) - RADIUS
    distance: np.ndarray = np.hypot(outside, points[:, 2] - HEIGHT)
    return distance


def checks(run: Run) -> Iterator[Check]:
    """The seam, the plan, the tool's distance from the seam, and its speed."""
    arm, to, rows, path = robot(), plan(), on_seam(), seam()
    length = 4.0 * (HALF[0] + HALF[1]) - (8.0 - 2.0 * np.pi) * RADIUS
    yield near("seam", "length", path.length, length, 1e-12, "m", ".6f")
    R, p = arm.frame_pose(to.q[rows], TOOL)
    yield Check("plan", "tool - seam", largest(off_seam(p)), "m", high=1e-11)
    yield Check("plan", "rotation of the tool from down", largest(R - DOWN), "", high=1e-11)
    V = np.linalg.norm(arm.frame_velocity(to.q[rows], to.v[rows], TOOL)[:, :3], axis=1)
    yield Check("plan", "speed on the seam - 50 mm/s", 1e3 * largest(V - SPEED), "mm/s", high=1e-9)
    yield Check("plan", "largest acceleration", largest(to.a), "rad/s^2", high=MAX_ACCELERATION + 1e-9, form=".2f")
    yield near("plan", "time on the seam", len(rows) / tracking.RATE, path.length / SPEED, 2e-3, "s", ".3f")
    ticks = slice(tracking.EVERY * rows[0], tracking.EVERY * rows[-1])
    R, p = arm.frame_pose(run.q[:-1][ticks], TOOL)
    yield Check("weld", "largest distance of the tool from the seam", 1e3 * float(off_seam(p).max()), "mm", high=0.1, form=".4f")
    errors = 1e3 * tool_errors(run.q[:-1], to)
    yield Check("weld", "largest error along and across it", float(errors[rows].max()), "mm", high=0.1, form=".4f")
    yield Check("weld", "largest tilt of the tool", 1e3 * largest(R - DOWN), "mrad", high=0.2, form=".3f")
    V = np.linalg.norm(arm.frame_velocity(run.q[:-1][ticks], run.v[:-1][ticks], TOOL)[:, :3], axis=1)
    yield Check("weld", "largest difference of its speed, relative", largest(V / SPEED - 1.0), "", high=0.01, form=".4f")
    yield Check("weld", "largest torque / the joint's limit", largest(run.u / arm.effort_limits), "", high=0.5, form=".2f")
    k = np.flatnonzero(to.part == "wait")[-1]
    weight = largest(run.u[tracking.EVERY * k] - arm.gravity_forces(to.q[k]))
    yield Check("weld", "torque at rest before it - that of the arm's weight", weight, "N m", high=1e-3)
    yield replays("run", run)
