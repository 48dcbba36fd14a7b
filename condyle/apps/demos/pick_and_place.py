"""Pick and place: the arm fetches a payload of 0.5 kg, carries it across and sets it down, tool down all the time.

done = run("pick.cdl")                # recorded and replayable
condyle view pick.cdl
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from os import PathLike

import numpy as np

from condyle.apps.demos import arm_tracking as tracking
from condyle.apps.demos.arm import DOWN, TOOL, robot
from condyle.apps.demos.arm_tracking import EVERY, Plan, joints_along, planned, rest, run_plan, times, tool_errors, world
from condyle.apps.demos.checks import Check, Progress, largest, near, replays, silent
from condyle.methods.planning.paths import Timed, line
from condyle.methods.planning.profiles import Sample, jerk_limited, trapezoidal
from condyle.methods.planning.time_optimal import time_optimal
from condyle.robot.library.ur3 import MAX_ACCELERATION
from condyle.workbench.runs.run import Run

PICK, PICK_Z = (0.35, 0.15, 0.30), 0.20  # m: above the payload, and where it is gripped
PLACE, PLACE_Z = (0.25, -0.20, 0.32), 0.22  # m: above where it is set down, and there
PAYLOAD = 0.5  # kg
GRIP = 0.25  # s at rest, before and after the payload is gripped or released
LINE = {"speed": 0.25, "acceleration": 0.35, "jerk": 5.0}  # m/s and so on: of the tool, down and up
GRAVITY = 9.81


def corners() -> np.ndarray:
    """(4, 3): above and at the pick, above and at the place, m."""
    return np.array([PICK, (*PICK[:2], PICK_Z), PLACE, (*PLACE[:2], PLACE_Z)])


@cache
def plan() -> Plan:
    """To the pick, down, grip, up, across, down, release, up, and back: joints every millisecond."""
    above_pick, pick, above_place, place = corners()
    q0 = tracking.start()
    arm = robot()
    ends = arm.inverse_kinematics(TOOL, (DOWN, np.array([above_pick, above_place])), q0, tolerance=1e-12, method="analytic").q

    def vertical(begin: np.ndarray, end: np.ndarray, q: np.ndarray) -> Sample:
        edge = line(begin, end)
        limits = {name: value / edge.length for name, value in LINE.items()}
        motion = Timed(edge, jerk_limited([0.0], [1.0], **limits))
        return joints_along(Sample(*motion.at(times(motion.duration))), q)

    def across(begin: np.ndarray, end: np.ndarray) -> Sample:
        move = time_optimal(np.array([begin, end]), speed=arm.velocity_limits, acceleration=MAX_ACCELERATION)
        return Sample(*move.at(times(move.duration)))

    down, lower = vertical(above_pick, pick, ends[0]), vertical(above_place, place, ends[1])
    lift, leave = vertical(pick, above_pick, down.position[-1]), vertical(place, above_place, lower.position[-1])
    home = trapezoidal(ends[1], q0, speed=arm.velocity_limits, acceleration=MAX_ACCELERATION)
    return planned(
        [
            ("approach", across(q0, ends[0]), 0.0),
            ("down", down, 0.0),
            ("grip", rest(down.position[-1], GRIP), 0.0),
            ("hold", rest(down.position[-1], GRIP), 1.0),
            ("up", lift, 1.0),
            ("across", across(ends[0], ends[1]), 1.0),
            ("lower", lower, 1.0),
            ("place", rest(lower.position[-1], GRIP), 1.0),
            ("release", rest(lower.position[-1], GRIP), 0.0),
            ("leave", leave, 0.0),
            ("home", Sample(*home.at(times(home.duration))), 0.0),
            ("rest", rest(q0, GRIP), 0.0),
        ]
    )


def run(path: str | PathLike[str] | None = None, *, progress: Progress = silent) -> Run:
    """From the start to the pick, with the payload to the place, and back."""
    return run_plan(plan(), path, "arm: pick and place", PAYLOAD, progress=progress)


@cache
def without_feed_forward() -> np.ndarray:
    """(ticks, 6): the joints if the controller does not know the payload."""
    here, to = tracking.loop(world(), None, payload=PAYLOAD), plan()
    unknown = {"tracking.feed_forward": 0.0}
    q = here.rollout(here.state(to.q[0]), to.references, EVERY * len(to.q), parameters=unknown, record=["q"])["q"]
    joints: np.ndarray = np.concatenate([to.q[:1], q[:-1]])
    return joints


def payload_torque(q: np.ndarray) -> np.ndarray:
    """(6,): the joint torques of the payload's weight at q, J_c^T m g at its centre of mass c."""
    arm = robot()
    R, _ = arm.frame_pose(q, TOOL)
    J = arm.jacobian(q, TOOL)
    at_centre = J[:3] - np.cross(tracking.AHEAD * R[:, 2], J[3:].T).T
    torque: np.ndarray = at_centre.T @ np.array([0.0, 0.0, -PAYLOAD * GRAVITY])
    return torque


def sag(q: np.ndarray) -> float:
    """How far a controller that does not know the payload lets the tool sink at q, m: at rest its law gives  kp M e = -tau."""
    arm = robot()
    e = np.linalg.solve(arm.mass_matrix(q), payload_torque(q)) / tracking.KP
    return float(np.linalg.norm(arm.jacobian(q, TOOL)[:3] @ e))


def checks(run: Run) -> Iterator[Check]:
    """The plan, the tool's errors with and without knowledge of the payload, and its weight in the torques."""
    arm, to = robot(), plan()
    above_pick, pick, _, place = corners()
    at = {name: np.flatnonzero(to.part == name) for name in np.unique(to.part)}
    for name, part, wanted in (("pick", "grip", pick), ("place", "release", place)):
        R, p = arm.frame_pose(to.q[at[part][-1]], TOOL)
        yield Check("plan", f"tool - {name}", largest(p - wanted), "m", high=1e-11)
        yield Check("plan", f"rotation of the tool from down at the {name}", largest(R - DOWN), "", high=1e-11)
    sideways = np.concatenate([arm.frame_pose(to.q[at[part]], TOOL)[1][:, :2] - above_pick[:2] for part in ("down", "up")])
    yield Check("plan", "tool from the vertical line at the pick", largest(sideways), "m", high=1e-11)
    yield Check("plan", "largest speed / the joint's limit", largest(to.v / arm.velocity_limits), "", high=1.0 + 1e-9, form=".2f")
    yield Check("plan", "largest acceleration", largest(to.a), "rad/s^2", high=MAX_ACCELERATION + 1e-9, form=".2f")
    yield near("plan", "duration", len(to.q) / tracking.RATE, 9.5, 0.1, "s", ".2f")
    errors = 1e3 * tool_errors(run.q[:-1], to)
    holding = to.holding > 0.0
    yield Check("tracking", "largest tool error, payload known", float(errors.max()), "mm", high=0.1, form=".3f")
    yield Check("tracking", "tool error when it is gripped", float(errors[at["grip"][-1]]), "mm", high=1e-3)
    yield Check("tracking", "tool error when it is released", float(errors[at["place"][-1]]), "mm", high=1e-3)
    blind = 1e3 * tool_errors(without_feed_forward(), to)
    yield Check("tracking", "largest tool error, payload unknown", float(blind[holding].max()), "mm", low=1.0, form=".2f")
    k = at["place"][-1]
    expected = 1e3 * sag(to.q[k])
    yield near("payload", "sag when it is not known; by M e = tau / kp", blind[k], expected, 0.05 * expected, "mm", ".2f")
    # torques at rest just before and after the release differ by the payload's weight
    k, after = EVERY * at["place"][-1], EVERY * at["release"][-1]
    weight = np.linalg.norm(run.u[k] - run.u[after])
    wanted = float(np.linalg.norm(payload_torque(to.q[at["place"][-1]])))
    yield near("payload", "torque that it takes, of all joints", weight, wanted, 1e-4 * wanted, "N m", ".4f")
    yield Check("tracking", "largest torque / the joint's limit", largest(run.u / arm.effort_limits), "", high=0.5, form=".2f")
    yield replays("run", run)
