"""Success and time of inverse kinematics on random reachable poses of the UR3 and the Panda, beside a loop with Pinocchio.

Both search from the neutral configuration, then from the same kind of random configurations within the limits, until the pose is
reached to 1e-9 (m and rad together) or 101 starts have failed. Pinocchio's loop is the same damped least squares, with the same
constants, in Python: kinematics, Jacobian and logarithm in C++, linear algebra by NumPy, one pose at a time.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks.measure import best
from condyle.commands.bench import load_average
from condyle.multibody.closed_form_kinematics import inverse_kinematics_solutions
from condyle.multibody.inverse_kinematics import DAMPING, LESS, MORE, STALLED
from condyle.multibody.inverse_kinematics_path import inverse_kinematics_path

TOLERANCE = 1e-9
STARTS, ITERATIONS = 101, 50
ARMS = {"ur3": "tool", "panda": "panda_hand"}


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the tables and return their numbers."""
    count, peer_count, seconds = (64, 2, 0.01) if tiny else (10_000, 10_000, 1.0)
    table = Table("arm", "method", "poses", "reached", "time per pose, us", "largest error of those reached")
    numbers: dict[str, Any] = {}
    for name, frame in ARMS.items():
        if tiny and name == "panda":
            continue
        robot = arm(name)
        q = robot.random_configuration(np.random.default_rng(1), count)
        R, p = robot.frame_pose(q, frame)
        for method, options in methods(name).items():
            found = robot.inverse_kinematics(frame, (R, p), threads=1, **options)
            call = partial(robot.inverse_kinematics, frame, (R, p), threads=1, **options)
            time = best(call, seconds)
            row(table, numbers, name, method, count, found.ok, time / count, error_of(robot, frame, found.q, R, p, found.ok))
        if name == "ur3":
            found_all = inverse_kinematics_solutions(robot, frame, (R, p), threads=1)
            time = best(partial(inverse_kinematics_solutions, robot, frame, (R, p), threads=1), seconds)
            worst = float(np.max(found_all.residual[found_all.ok]))
            row(table, numbers, name, "analytic, all eight", count, np.any(found_all.ok, axis=-1), time / count, worst)
        one = best(partial(robot.inverse_kinematics, frame, (R[0], p[0]), threads=1), seconds)
        row(table, numbers, name, "one pose in a call", 1, np.array([True]), one, float("nan"))
        if find_spec("pinocchio") is not None:
            ok, time, worst = pinocchio_loop(robot, frame, R[:peer_count], p[:peer_count])
            row(table, numbers, name, "Pinocchio, a loop in Python", peer_count, ok, time, worst)
    console.print(load_average())
    console.print(table)
    numbers["path"] = path_times(console, 50 if tiny else 1000, seconds)
    return numbers


def arm(name: str) -> Any:
    """The robot; of the Panda without its fingers."""
    robot = cd.load(name)
    return robot.lock("panda_finger") if name == "panda" else robot


def methods(name: str) -> dict[str, dict[str, Any]]:
    """Options by what the table calls them."""
    found: dict[str, dict[str, Any]] = {
        "first that converges": {},
        "nearest of 21 starts": {"choose": "nearest", "restarts": 20},
        "highest manipulability of 21": {"choose": "manipulability", "restarts": 20},
    }
    if name == "ur3":
        return found | {"analytic, nearest": {"method": "analytic"}}
    return found | {f"null space: {each}": {"null_space": each} for each in ("posture", "centre", "manipulability")}


def row(table: Table, numbers: dict[str, Any], name: str, method: str, count: int, ok: Any, time: float, worst: float) -> None:
    """Add a line to the table and to the numbers."""
    numbers[f"{name}: {method}"] = {"poses": count, "reached": float(np.mean(ok)), "seconds": time, "error": worst}
    shown = "" if np.isnan(worst) else f"{worst:.1e}"
    table.add_row(name, method, f"{count:,}", f"{np.mean(ok):.2%}", f"{1e6 * time:,.2f}", shown)


def error_of(robot: Any, frame: str, q: np.ndarray, R: np.ndarray, p: np.ndarray, ok: np.ndarray) -> float:
    """The largest error of position, m, and of entries of the rotation, over the poses that were reached."""
    R1, p1 = robot.frame_pose(q[ok], frame)
    return float(max(np.max(np.abs(p1 - p[ok])), np.max(np.abs(R1 - R[ok]))))


def path_times(console: Console, points: int, seconds: float) -> dict[str, float]:
    """Seconds per point of a straight path of the tool, one path and 64 of them."""
    robot, q0 = cd.load("ur3"), np.array([0.0, -1.57, 1.57, -1.57, -1.57, 0.0])
    R, p = robot.frame_pose(q0, "tool")
    way = p + np.linspace(0.0, 1.0, points)[:, None] * np.array([0.05, 0.2, -0.1])
    many = np.broadcast_to(way, (64, points, 3))
    found = {
        "one path": best(lambda: inverse_kinematics_path(robot, "tool", R, way, q0, threads=1), seconds) / points,
        "64 paths": best(lambda: inverse_kinematics_path(robot, "tool", R, many, q0, threads=1), seconds) / (64 * points),
    }
    console.print(
        f"path of {points:,} points, UR3: " + ", ".join(f"{name} {1e6 * t:.2f} us a point" for name, t in found.items())
    )
    return found


# -- the peer


def pinocchio_loop(robot: Any, frame: str, R: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, float, float]:
    """(which poses are reached, seconds per pose, largest error) of damped least squares with Pinocchio."""
    import pinocchio as pin

    from benchmarks.peers import pinocchio_twin

    model = pinocchio_twin(robot.model)
    data, joint = model.createData(), model.njoints - 1
    at = robot.model.frame(frame).pose
    offset = pin.SE3(np.array(at.R, dtype=float), np.array(at.p, dtype=float)).inverse()
    targets = [pin.SE3(a, b) * offset for a, b in zip(R, p, strict=True)]
    lower, upper = robot.lower, robot.upper
    seeds = robot.random_configuration(np.random.default_rng(0), STARTS - 1)
    starts = [robot.neutral(), *seeds]

    def error_at(q: np.ndarray, target: Any) -> np.ndarray:
        pin.forwardKinematics(model, data, q)
        e: np.ndarray = pin.log6(data.oMi[joint].actInv(target)).vector
        return e

    def solve(target: Any) -> tuple[bool, float]:
        for start in starts:
            q, damping = start, DAMPING
            e = error_at(q, target)
            error = float(e @ e)
            for _ in range(ITERATIONS):
                if error <= TOLERANCE**2 or damping >= STALLED:
                    break
                pin.computeJointJacobians(model, data, q)
                J = pin.getJointJacobian(model, data, joint, pin.LOCAL)
                pull = J.T @ e
                J = J * ~(((q <= lower) & (pull < 0.0)) | ((q >= upper) & (pull > 0.0)))
                A = J @ J.T
                step = J.T @ np.linalg.solve(A + (damping * np.trace(A) / 6.0 + 1e-12) * np.eye(6), e)
                new = np.clip(q + step, lower, upper)
                left = error_at(new, target)
                if left @ left < error:
                    q, e, error, damping = new, left, float(left @ left), max(damping * LESS, 1e-12)
                else:
                    damping *= MORE
            if error <= TOLERANCE**2:
                return True, error**0.5
        return False, np.inf

    begin = perf_counter()
    found = [solve(target) for target in targets]
    time = (perf_counter() - begin) / len(targets)
    ok = np.array([good for good, _ in found])
    return ok, time, max((error for good, error in found if good), default=np.nan)
