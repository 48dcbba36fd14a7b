"""Inverse kinematics: damped least squares (Levenberg 1944, Marquardt 1963) within joint limits, many seeds in one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from condyle.constraints.reduced_coordinates import floats
from condyle.constraints.reduced_dynamics import ROBOT_FUNCTIONS, RobotFunction, System
from condyle.dynamics.manifold import integrate, random_configuration
from condyle.dynamics.solve import factor
from condyle.errors import RobotError
from condyle.multibody.closed_form_kinematics import analytic_solutions, nearer_turns
from condyle.multibody.compiled import Compiled, check_frame
from condyle.multibody.frame_task import FrameTask, damped_step, target, task_jacobian
from condyle.multibody.null_space import objective, refined, require_objective
from condyle.robot.spatial import Array
from condyle.tape.array import where
from condyle.tape.compose import any_traced
from condyle.tape.loop import loop
from condyle.tape.scalar import caller

DAMPING = 1e-2  # the first damping, as a part of the mean squared column of J
MORE, LESS = 8.0, 0.1  # how the damping changes after a step that is rejected, and after one that is accepted
STALLED = 1e9  # the damping at which no step makes the error smaller
CHOICES = ("first", "nearest", "manipulability")
METHODS = ("numeric", "analytic")
ROUND = 4  # seeds of one kernel call while the first solution is searched; the result does not depend on it


class InverseKinematics(NamedTuple):
    """A solution: the configuration, the length of the error (m and rad together), and whether it is within the tolerance."""

    q: np.ndarray
    residual: np.ndarray
    ok: np.ndarray


# -- one pose from one seed, traced


def damped_least_squares(task: FrameTask, q0: Array, tolerance: Any, count: int) -> tuple[Array, Any]:
    """(y, |e|^2) after at most `count` steps of damped least squares from q0."""
    system, reduced = task.system, task.system.coordinate_map.reduced

    def body(_: Any, state: Any) -> Any:
        y = state["y"]
        at = system.at(y)
        e, J = task.error(at.q), task.jacobian(at)
        # a joint at its limit that the error pushes outward stays there
        for column, outward in task.outward(y, J.T @ e):
            J[:, column] = [where(outward, 0.0, x) for x in J[:, column]]
        new = task.clipped(integrate(reduced, y, damped_step(J, e, state["damping"])))
        left = task.error(system.q(new))
        squared = left @ left
        better = squared < state["squared"]  # not where a constraint cannot be met
        return {
            "y": np.array([where(better, a, b) for a, b in zip(new, y, strict=True)], dtype=object),
            "squared": where(better, squared, state["squared"]),
            "damping": where(better, np.maximum(state["damping"] * LESS, 1e-12), state["damping"] * MORE),
        }

    start = task.clipped(q0)
    e = task.error(system.q(start))
    end = loop(
        body,
        {"y": start, "squared": e @ e, "damping": DAMPING},
        count,
        until=lambda s: (s["squared"] <= tolerance * tolerance) | (s["damping"] >= STALLED),
    )
    return end["y"], end["squared"]


def solve(system: System, q0: Array, p: Array, R: Array | None, tolerance: Array, posture: Array | None, *static: Any) -> Any:
    """(q, |e|): damped least squares, then the null space; `static`: frame, number of steps, name of the objective or None."""
    frame, count, name = static
    task = FrameTask(system, frame, p, R)
    y, squared = damped_least_squares(task, q0, tolerance[0], count)
    if name is not None:
        y, squared = refined(task, y, objective(system, name, posture, frame, task.rows), tolerance[0])
    return y, np.sqrt(squared)


def _pose(posed: bool, leaning: bool) -> RobotFunction:
    """`solve` with or without a rotation and a posture among its inputs."""
    names = ("q0", "p", *(["R"] if posed else []), "tolerance", *(["posture"] if leaning else []))

    def physics(system: System, *given: Any) -> Any:
        arrays = dict(zip(names, given, strict=False))
        return solve(
            system, arrays["q0"], arrays["p"], arrays.get("R"), arrays["tolerance"], arrays.get("posture"), *given[len(names) :]
        )

    return RobotFunction(names, physics, ("q", "residual"))


FUNCTIONS = {(posed, leaning): _pose(posed, leaning) for posed in (False, True) for leaning in (False, True)}


def _determinant(system: System, y: Array, frame: str, task: str) -> Any:
    """det(J J^T), which orders solutions as manipulability does."""
    J = task_jacobian(system, y, frame, task, 1.0)
    return np.prod([where(pivot > 0.0, 1.0 / pivot, 0.0) for pivot in factor(J @ J.T)[1]])


DETERMINANT = RobotFunction(("q",), _determinant, ("w",))


# -- many poses, many seeds


def search(
    compiled: Compiled,
    frame: str,
    pose: Any,
    q0: Any,
    *,
    tolerance: float,
    iterations: int,
    restarts: int,
    choose: str,
    null_space: str | None,
    posture: Any,
    method: str,
    options: dict[str, Any],
) -> InverseKinematics:
    """The solutions for a pose or a batch of them, from q0 and from `restarts` random configurations."""
    check_frame(compiled.system.model, frame)
    if any_traced((q0, pose, posture)):
        raise RobotError(
            f"{caller()}: inverse_kinematics repeats its search until it converges, which needs values: "
            "call it outside of the trace, or use condyle.methods.control.differential_ik in a loop"
        )
    (p, R), system = target(pose), compiled.system
    name = objective_name(system, null_space, posture, 3 if R is None else 6)
    _check(choose, method, restarts, tolerance, name, R)
    start = configurations(system, "q0", q0)
    rest = None if name != "posture" else start if posture is None else configurations(system, "posture", posture)
    lead = np.broadcast_shapes(
        p.shape[:-1], () if R is None else R.shape[:-2], start.shape[:-1], () if rest is None else rest.shape[:-1]
    )

    def rows(array: np.ndarray, axes: int) -> np.ndarray:
        tail = array.shape[array.ndim - axes :]
        return np.broadcast_to(array, (*lead, *tail)).reshape(-1, *tail)

    poses = [rows(p, 1)] if R is None else [rows(p, 1), rows(R, 2)]
    first = rows(start, 1)
    if method == "analytic":
        return _shaped(*_analytic(compiled, frame, poses, first, tolerance, iterations, choose, options), lead, tolerance)
    rest = None if rest is None else rows(rest, 1)
    kernel = _kernel(compiled, frame, poses, tolerance, iterations, name, rest, options)

    def seeds() -> np.ndarray:
        # the same for every pose: a row of a batch has the bits of a single call
        return random_configuration(system.coordinate_map.reduced, np.random.default_rng(0), restarts)

    if choose == "first":
        return _shaped(*_first(kernel, first, seeds, restarts, tolerance), lead, tolerance)
    count = 1 + restarts
    starts = np.broadcast_to(np.concatenate([np.zeros((1, system.nq)), seeds()]), (len(first), count, system.nq)).copy()
    starts[:, 0] = first
    q, residual = kernel(starts.reshape(-1, system.nq), np.repeat(np.arange(len(first)), count))
    q, residual = q.reshape(-1, count, system.nq), residual.reshape(-1, count)
    if system.coordinate_map.identity:  # a joint that others follow is not the same after a turn
        q = nearer_turns(system, q, first[:, None])
    return _shaped(*_best(compiled, frame, poses, q, residual, first, tolerance, choose), lead, tolerance)


def _analytic(
    compiled: Compiled,
    frame: str,
    poses: list[np.ndarray],
    first: np.ndarray,
    tolerance: float,
    iterations: int,
    choose: str,
    options: dict[str, Any],
) -> tuple[np.ndarray, np.ndarray]:
    """(q, residual) of the closed form's solution that is nearest to q0, or chosen otherwise."""
    q, residual, ok = analytic_solutions(compiled, frame, poses[0], poses[1], first, tolerance, options)
    wanted = "nearest" if choose == "first" else choose
    q, residual = _best(compiled, frame, poses, q, np.where(ok, residual, np.inf), first, tolerance, wanted)
    missing = np.flatnonzero(~np.isfinite(residual))
    if len(missing):
        # no branch reaches the pose: the best is that of the search from q0
        kernel = _kernel(compiled, frame, [each[missing] for each in poses], tolerance, iterations, None, None, options)
        q[missing], residual[missing] = kernel(first[missing], slice(None))
    return q, residual


def _kernel(
    compiled: Compiled,
    frame: str,
    poses: list[np.ndarray],
    tolerance: float,
    iterations: int,
    name: str | None,
    posture: np.ndarray | None,
    options: dict[str, Any],
) -> Callable[[np.ndarray, Any], tuple[np.ndarray, np.ndarray]]:
    """kernel(starts, rows) -> (q, residual) of the poses in these rows, one start each, in one call."""
    posed, leaning = len(poses) == 2, posture is not None
    key, function = ("inverse_kinematics", posed, frame, iterations, name), FUNCTIONS[posed, leaning]

    def kernel(starts: np.ndarray, rows: Any) -> tuple[np.ndarray, np.ndarray]:
        arrays: list[Any] = [starts, *[each[rows] for each in poses], np.array([float(tolerance)])]
        arrays += [] if posture is None else [posture[rows]]
        q, residual = compiled.run(key, function, tuple(arrays), options, (frame, iterations, name))
        return q, residual

    return kernel


def _first(
    kernel: Callable[[np.ndarray, Any], tuple[np.ndarray, np.ndarray]],
    first: np.ndarray,
    seeds: Callable[[], np.ndarray],
    restarts: int,
    tolerance: float,
) -> tuple[np.ndarray, np.ndarray]:
    """(q, residual) of the first seed that converges, q0 before the random ones; else of the least residual."""
    q, residual = kernel(first, slice(None))
    for begin in range(0, restarts, ROUND):
        rows = np.flatnonzero(~(residual <= tolerance))
        if not len(rows):
            break
        part = seeds()[begin : begin + ROUND]
        found, left = kernel(np.tile(part, (len(rows), 1)), np.repeat(rows, len(part)))
        found, left = found.reshape(len(rows), len(part), -1), left.reshape(len(rows), len(part))
        ok = left <= tolerance
        chosen = np.where(np.any(ok, axis=1), np.argmax(ok, axis=1), np.argmin(left, axis=1))
        each = np.arange(len(rows))
        found, left = found[each, chosen], left[each, chosen]
        better = left < residual[rows]
        q[rows[better]], residual[rows[better]] = found[better], left[better]
    return q, residual


def _best(
    compiled: Compiled,
    frame: str,
    poses: list[np.ndarray],
    q: np.ndarray,
    residual: np.ndarray,
    first: np.ndarray,
    tolerance: float,
    choose: str,
) -> tuple[np.ndarray, np.ndarray]:
    """(q, residual) of the solution of (rows, seeds, nq) nearest to q0, or with the highest manipulability; first of equals."""
    ok, each = residual <= tolerance, np.arange(len(q))
    finite = np.where(np.isfinite(q), q, 0.0)
    if choose == "nearest":
        dv = compiled.run("difference", ROBOT_FUNCTIONS["difference"], (np.broadcast_to(first[:, None], q.shape), finite), {})
        score = np.max(np.abs(dv), axis=-1, initial=0.0)
    else:
        task = "position" if len(poses) == 1 else "pose"
        score = -compiled.run(("determinant", frame, task), DETERMINANT, (finite,), {}, (frame, task))
    # where none converged, the least residual
    score = np.where(np.any(ok, axis=1)[:, None], np.where(ok, score, np.inf), residual)
    chosen = np.argmin(score, axis=1)
    return q[each, chosen], residual[each, chosen]


def configurations(system: System, name: str, q: Any) -> np.ndarray:
    """q as an array (..., nq) of floats."""
    given = floats(system.model, name, q)
    if given.shape[-1:] != (system.nq,):
        raise RobotError(f"robot '{system.name}': {name} must have {system.nq} entries, got the shape {given.shape}")
    return given


def _shaped(q: np.ndarray, residual: np.ndarray, lead: tuple[int, ...], tolerance: float) -> InverseKinematics:
    return InverseKinematics(q.reshape(*lead, -1), residual.reshape(lead), (residual <= tolerance).reshape(lead))


def objective_name(system: System, null_space: str | None, posture: Any, rows: int) -> str | None:
    """The objective in the null space of so many rows, or None; an error if it is none, or if posture= has no use."""
    name = null_space or (None if posture is None else "posture")
    if name is not None:
        require_objective(system, name, rows)
    if posture is not None and name != "posture":
        raise RobotError(f"posture= is for null_space='posture'; with null_space={name!r:.40} leave it out")
    return name


def _check(choose: str, method: str, restarts: int, tolerance: float, name: str | None, R: np.ndarray | None) -> None:
    """None; an error for an option that is none."""
    for what, given, known in (("choose", choose, CHOICES), ("method", method, METHODS)):
        if given not in known:
            raise RobotError(f"inverse_kinematics: {what} is {' or '.join(map(repr, known))}; got {given!r:.40}")
    if isinstance(restarts, bool) or not isinstance(restarts, (int, np.integer)) or restarts < 0:
        raise RobotError(f"inverse_kinematics: restarts is a whole number from 0 up; got {restarts!r:.40}")
    if not isinstance(tolerance, (int, float, np.floating)) or not 0.0 < float(tolerance) < np.inf:
        raise RobotError(f"inverse_kinematics: the tolerance is a positive number; got {tolerance!r:.40}")
    if method == "analytic" and R is None:
        raise RobotError("method='analytic' needs a whole pose, (R, p): a position alone leaves infinitely many solutions")
    if method == "analytic" and name is not None:
        raise RobotError("method='analytic' is for arms with six joints, which have no null space; leave null_space out")
