"""The tool of an arm at one state: pose error, Jacobian, inertia as it appears at the tool, and the null space beside it.

    V = J v,    A = J M^-1 J^T,    Lambda = A^-1,    N^T = 1 - J^T Lambda J M^-1      (Khatib 1987)

Rows are chosen axes of a task frame: "x", "y", "z" and rotations "rx", "ry", "rz" about them. Near a singularity A loses rank,
and Lambda would grow without bound. There A + d S^-2 takes its place, with S = (1, 1, 1, l, l, l) for a length l of the arm:

    sigma = 1 / trace((S A S)^-1),    d = max(0, 1 - m sigma)^2 / m

so that it is exact where sigma > 1 / m, and no effective mass is above 4/3 of m, the parameter `max_mass`. Where d is not zero,
the tool accelerates less than commanded along the lost directions, by the factor A / (A + d), and null-space torques reach the
tool by d / (A + d). An arm with fewer joints than rows is always there: then d = 1 / m, and its tool accelerates with nearly the
least squared error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from condyle.dynamics.kinematics import ancestors
from condyle.dynamics.rotations import e as inverse_jacobian_term
from condyle.dynamics.rotations import quaternion_log, quaternion_of
from condyle.dynamics.solve import cholesky_solve
from condyle.errors import ControlError
from condyle.methods.control.arm_controller import ArmController, ToolSample
from condyle.multibody.robot import Robot
from condyle.robot.names import nearest
from condyle.robot.spatial import length as norm
from condyle.robot.spatial import skew
from condyle.simulate.simulation import Simulation
from condyle.simulate.world import EARTH
from condyle.tape.array import array

AXES = ("x", "y", "z", "rx", "ry", "rz")
POSITION = ("x", "y", "z")
LEVER = 6.0  # part of the arm's length that weighs rotations against displacements
HEAVY = 50.0  # times the arm's mass: the effective mass above which a direction counts as singular
PIVOT = 1e-12  # relative: what keeps the measure of singularity finite where A has no inverse


def chosen_rows(name: str, axes: Sequence[str] | str) -> tuple[int, ...]:
    """The rows of axes by their names, in the order of AXES."""
    given = (axes,) if isinstance(axes, str) else tuple(axes)
    for axis in given:
        if axis not in AXES:
            raise ControlError(f"controller '{name}': there is no axis '{axis!s:.40}'{nearest(str(axis), AXES)}")
    if not given or len(set(given)) != len(given):
        raise ControlError(f"controller '{name}': axes are one or more of {', '.join(AXES)}, each once; got {given}")
    return tuple(k for k, axis in enumerate(AXES) if axis in given)


def arm_length(robot: Robot, frame: str) -> float:
    """The sum of the distances from joint to joint, and to the frame, m."""
    found = robot.model.frame(frame)
    path = [robot.model.links[i].placement.p for i in ancestors(robot.model, found.link)]
    return sum(norm(np.asarray(p, dtype=float)) for p in [*path, found.pose.p])


class ToolController(ArmController):
    """A controller of a frame of an arm, along chosen axes of a task frame.

    `axes`: the rows. `task_frame`: a parameter, the rotation (3, 3) of these axes in the world.
    """

    def __init__(
        self, simulation: Simulation, frame: str, *, axes: Sequence[str] | str = AXES, task_frame: Any = None, **options: Any
    ) -> None:
        super().__init__(simulation, **options)
        self.tool = self.frame(frame)
        self.rows = chosen_rows(self.name, axes)
        self.task_frame = self.parameter("task_frame", self._rotation(task_frame))
        self.lever = arm_length(self.robot, self.tool) / LEVER

    def axis_gain(self, name: str, value: Any, unit: str = "", *, minimum: float | None = 0.0) -> Any:
        """A parameter with one value for all rows, or one for each."""
        if np.shape(value) not in ((), (len(self.rows),)):
            raise ControlError(
                f"controller '{self.name}': {name} must be one number, or {len(self.rows)} for the axes "
                f"{', '.join(AXES[k] for k in self.rows)}; got shape {np.shape(value)}"
            )
        return self.parameter(name, value, unit, minimum=minimum)

    @property
    def weight(self) -> float:
        """Mass times gravity, N; 9.81 m/s^2 where the model has none."""
        return self.robot.mass * float(np.linalg.norm(self.robot.model.gravity) or EARTH)

    def at(self, x: Any) -> ToolState:
        """The tool at the state x."""
        return ToolState(self, x.q, x.v)

    def _rotation(self, given: Any) -> np.ndarray:
        R = np.eye(3) if given is None else np.asarray(given, dtype=float)
        if R.shape != (3, 3) or not np.abs(R @ R.T - np.eye(3)).max() < 1e-9 or np.linalg.det(R) < 0.0:
            raise ControlError(f"controller '{self.name}': task_frame must be a rotation matrix (3, 3)")
        return R


class TaskController(ToolController):
    """A controller that knows the inertia at the tool, and moves the joints in the null space.

    `posture`, `null_kp`, `null_kd`: where the joints go, 1/s^2 and 1/s, as far as the tool leaves them free. `max_mass`: the
    damping of singularities, kg, see above. Other options as `ToolController`.
    """

    def __init__(
        self,
        simulation: Simulation,
        frame: str,
        *,
        posture: Any = None,
        null_kp: Any = 25.0,
        null_kd: Any = None,
        max_mass: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(simulation, frame, **options)
        self.posture = self.gain("posture", self._middle() if posture is None else posture, "rad", minimum=None)
        self.null_kp = self.gain("null_kp", null_kp, "1/s^2")
        self.null_kd = self.gain("null_kd", 2.0 * np.sqrt(null_kp) if null_kd is None else null_kd, "1/s")
        heavy = HEAVY * self.robot.mass if max_mass is None else max_mass
        self.max_mass = self.parameter("max_mass", heavy, "kg", minimum=1e-9)

    @property
    def redundant(self) -> bool:
        """Whether there are more joints than rows, so that there is a null space."""
        return self.size > len(self.rows)

    def at(self, x: Any) -> TaskState:
        """The tool and its inertia at the state x."""
        return TaskState(self, x.q, x.v)

    def _middle(self) -> np.ndarray:
        """The middle of the joints' ranges; zero without limits."""
        lower, upper = self.robot.lower, self.robot.upper
        bounded = np.isfinite(lower) & np.isfinite(upper)
        return np.where(bounded, 0.5 * (np.where(bounded, lower, 0.0) + np.where(bounded, upper, 0.0)), 0.0)


def six(value: Any) -> Any:
    """Six numbers, from six or one."""
    return np.zeros(6) + value


def tool_sample(name: str, reference: Any) -> ToolSample:
    """The reference as a ToolSample; anything with R and p is one, such as a pose."""
    if isinstance(reference, ToolSample):
        return reference
    if hasattr(reference, "R") and hasattr(reference, "p"):
        return ToolSample(reference.R, reference.p)
    raise ControlError(
        f"controller '{name}' takes a ToolSample(R, p, ...) from condyle.methods.control.arm_controller as reference; got "
        f"{type(reference).__name__}"
    )


@dataclass(frozen=True)
class ToolState:
    """The tool at (q, v), in the axes of the task frame; what is not used is not computed."""

    owner: ToolController
    q: Any
    v: Any

    @cached_property
    def pose(self) -> tuple[Any, Any]:
        """(R, p) in the world."""
        R, p = self.owner.robot.frame_pose(self.q, self.owner.tool)
        return R, p

    @cached_property
    def J6(self) -> Any:
        """All six rows of the Jacobian in the axes of the task frame, (6, nv)."""
        return self.into_task(self.owner.robot.jacobian(self.q, self.owner.tool))

    @cached_property
    def J(self) -> Any:
        """The chosen rows, (rows, nv)."""
        return self.J6[list(self.owner.rows)]

    @cached_property
    def velocity(self) -> Any:
        """J v of all six rows."""
        return self.J6 @ self.v

    @cached_property
    def bias(self) -> Any:
        """Jdot v of the chosen rows."""
        rate = self.owner.robot.jacobian_rate(self.q, self.v, self.owner.tool)
        return self.into_task(rate @ self.v)[list(self.owner.rows)]

    def into_task(self, six_rows: Any) -> Any:
        """Six numbers, or six rows, in world axes: the same in those of the task frame."""
        R = np.asarray(self.owner.task_frame.resolve(), dtype=object).T
        return array(np.concatenate([R @ six_rows[:3], R @ six_rows[3:]]))

    def into_world(self, six_rows: Any) -> Any:
        """Back from the axes of the task frame."""
        R = np.asarray(self.owner.task_frame.resolve(), dtype=object)
        return array(np.concatenate([R @ six_rows[:3], R @ six_rows[3:]]))

    def chosen(self, six_rows: Any) -> Any:
        """The chosen rows of six numbers in world axes."""
        return self.into_task(six_rows)[list(self.owner.rows)]

    def error(self, R_d: Any, p_d: Any) -> Any:
        """(p_d - p, log(R_d R^T)), (6,): displacement and rotation vector from tool to reference, in axes of the task frame."""
        R, p = self.pose
        turn = R @ quaternion_log(quaternion_of(R.T @ np.asarray(R_d)))
        return self.into_task(np.concatenate([p_d - p, turn]))

    def spring(self, error: Any, stiffness: Any) -> Any:
        """The wrench (6,) of the potential e^T K e / 2, its exact gradient, with K = diag(stiffness):  (K e, Q K e).

        For a rotation vector e, Q = 1 - [e]/2 + c [e]^2 is the transposed inverse of its Jacobian; Q e = e.
        """
        wrench = stiffness * error
        turn, torque = error[3:], wrench[3:]
        W = skew(turn)
        turned = W @ torque
        t = turn @ turn
        return np.concatenate([wrench[:3], torque - 0.5 * turned + inverse_jacobian_term(t) * (W @ turned)])

    def torque(self, wrench: Any) -> Any:
        """J^T F of a wrench along the chosen rows."""
        return self.J.T @ wrench


@dataclass(frozen=True)
class TaskState(ToolState):
    """The tool with its inertia and its null space."""

    owner: TaskController

    @cached_property
    def A(self) -> Any:
        """J M^-1 J^T, or what takes its place near a singularity: A + d S^-2."""
        J, m = self.J, self.owner.max_mass
        A = J @ self.owner.robot.inverse_mass_matrix(self.q) @ J.T
        n, S = len(self.owner.rows), np.array([1.0 if k < 3 else self.owner.lever for k in self.owner.rows])
        if self.owner.size < n:
            return A + np.diag(S**-2.0) * (1.0 / m)
        scaled = np.asarray(A * np.outer(S, S), dtype=object)
        small = sum((scaled[k, k] for k in range(n)), 0.0) * PIVOT
        inverse = cholesky_solve(scaled + np.eye(n) * small, np.eye(n))
        sigma = 1.0 / sum((inverse[k, k] for k in range(n)), 0.0)
        lost = np.maximum(1.0 - m * sigma, 0.0)
        return A + np.diag(S**-2.0) * (lost * lost / m)

    def force(self, a: Any) -> Any:
        """Lambda a: the force at the tool that accelerates it by a, (rows,)."""
        return array(cholesky_solve(np.asarray(self.A, dtype=object), np.asarray(a, dtype=object)))

    def posture_acceleration(self) -> Any:
        """null_kp (posture - q) - null_kd v: what the joints would do if there were no tool."""
        at = self.owner
        return at.null_kp * (at.posture - self.q) - at.null_kd * self.v

    def projected(self, a0: Any) -> Any:
        """N^T M a0 = M a0 - J^T Lambda J a0: joint forces for the accelerations a0 that leave the tool where it is."""
        M = self.owner.robot.mass_matrix(self.q)
        return M @ a0 - self.J.T @ self.force(self.J @ a0)

    def accelerating(self, a: Any, *, friction: bool = False) -> Any:
        """Joint forces that give the tool the acceleration a of the chosen rows, and the null space the acceleration a0:

        J^T (Lambda a + mu + p) + N^T (M a0 + c + g)  =  ID(q, v, a0) + J^T Lambda (a - Jdot v - J a0)
        """
        robot, redundant = self.owner.robot, self.owner.redundant
        a0 = self.posture_acceleration() if redundant else np.zeros(self.owner.size)
        tau = robot.inverse_dynamics(self.q, self.v, a0, passive=True) if friction else robot.inverse_dynamics(self.q, self.v, a0)
        left = a - self.bias - self.J @ a0 if redundant else a - self.bias
        return tau + self.torque(self.force(left))
