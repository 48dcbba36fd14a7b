"""Avoidance of obstacles by forces and by motion in the null space of a task, as blocks of a loop.

    field = PotentialField(world, distances)
    loop = cd.Loop(world, lambda x, goal: controller(x, goal) + field(x))

    arm = NullSpaceAvoidance(world, "tool", distances)
    loop = cd.Loop(world, lambda x: arm(x, ToolSample(R, p)))

Neither is a guarantee: a potential field can be overcome by a controller or by inertia, and a null space may have no motion
away from an obstacle. `SafetyFilter` is one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.methods.control.arm_controller import ArmController, ToolSample
from condyle.methods.planning.robot_distances import RobotDistances
from condyle.multibody.robot import Robot
from condyle.simulate.simulation import Simulation
from condyle.tape import linalg
from condyle.tape.array import array

NEAREST = 0.1  # of the influence distance: nearer than this, forces do not grow any more
TASKS = {"position": 3, "pose": 6}  # rows of the Jacobian
CONFIGURATIONS = 200  # at random, for the default of the damping of singularities
DAMPING = 0.05  # of the pseudo-inverse at a singularity, as part of the size of the Jacobian


class _Avoidance(ArmController):
    """What both have: distances within an influence distance, whose obstacles may move."""

    def __init__(
        self, simulation: Simulation, distances: RobotDistances, influence: float, model: Robot | None, **options: Any
    ) -> None:
        super().__init__(simulation, model=model, **options)
        if not isinstance(distances, RobotDistances) or distances.robot.joint_names != self.robot.joint_names:
            raise ControlError(f"controller '{self.name}' needs the robot_distances of its own robot '{self.robot.name}'")
        self.distances = distances
        self.influence = self.parameter("influence", influence, "m", minimum=1e-6)
        if distances.moving:
            self.poses = self.parameter("poses", np.array([each.pose for each in distances.obstacles]), "m")

    def _distances(self, q: Any, poses: Any) -> tuple[Any, Any]:
        """(d, J) at q, with the poses given, those of the parameter, or none."""
        if not self.distances.moving:
            if poses is not None:
                raise ControlError(f"controller '{self.name}': its obstacles do not move; make the distances with moving=True")
            return tuple(map(array, self.distances.function_with_jacobian(q)))  # type: ignore[return-value]
        count = len(self.distances.obstacles)
        given = self.poses + 0.0 if poses is None else np.asarray(poses, dtype=object).reshape(count, 4, 4)
        return tuple(map(array, self.distances.function_with_jacobian(q, array(given))))  # type: ignore[return-value]

    def _nearness(self, d: Any) -> Any:
        """0 from the influence distance on, 1 at contact and below:  (1 - d / influence)^2, with a continuous derivative."""
        part = np.minimum(np.maximum(1.0 - d / self.influence, 0.0), 1.0)
        return part * part


class PotentialField(_Avoidance):
    """Joint forces  sum_i J_i^T f_i  away from obstacles (Khatib 1986), to be added to those of a controller: called (x).

    f_i = gain (1/d - 1/d0)^2 / d^2  for d < d0 = `influence`, and zero beyond: the gradient of gain (1/d - 1/d0)^3 / 3, whose
    third power, in place of Khatib's second, makes the force continuously differentiable at d0. Below d0 / 10 it does not grow
    any more. While a pair comes closer, it is damped by  damping (1 - d/d0)^2 |dd/dt|.

    `gain`: N m^4, by default such that a link at a quarter of the influence distance is pushed by the weight of the robot.
    `damping`: N s/m, by default the weight at 1 m/s. With moving obstacles, called (x, poses).
    """

    def __init__(
        self,
        simulation: Simulation,
        distances: RobotDistances,
        *,
        influence: float = 0.1,
        gain: float | None = None,
        damping: float | None = None,
        model: Robot | None = None,
        **options: Any,
    ) -> None:
        super().__init__(simulation, distances, influence, model, **options)
        weight = 9.81 * self.robot.mass
        # at a quarter of d0, (1/d - 1/d0)^2 / d^2 = 144 / d0^4
        self.strength = self.parameter("gain", weight * influence**4 / 144.0 if gain is None else gain, "N m^4", minimum=0.0)
        self.damping = self.parameter("damping", weight if damping is None else damping, "N s/m", minimum=0.0)

    def step(self, state: dict[str, Any], x: Any, poses: Any = None) -> tuple[Any, dict[str, Any]]:
        """(joint forces (nu,), {})."""
        d, J = self._distances(array(x.q), poses)
        near = np.maximum(d, NEAREST * self.influence)
        gap = np.maximum(1.0 / near - 1.0 / self.influence, 0.0)
        push = self.strength * gap * gap / (near * near)
        rate = J @ array(x.v)
        brake = self.damping * self._nearness(d) * np.maximum(-rate, 0.0)
        return J.T @ (push + brake), {}


class NullSpaceAvoidance(_Avoidance):
    """A tool that follows its reference while the rest of the arm moves away from obstacles: called (x, ToolSample).

    The primary task is the tool, in the null space of which the links move away (Maciejewski and Klein 1985):

        qd = J^+ xd + N (N A N + e I)^-1 N sum_i w_i J_i^T (v_i - J_i J^+ xd),     A = sum_i w_i J_i^T J_i,   N = I - J^+ J

    with J of the tool, J_i = dd_i/dq, xd = reference velocity + gain * error, the speed v_i = escape w_i at which pair i should
    come apart, and the weight w_i = (1 - d_i / influence)^2, which grows from zero as the distance falls: all pairs within the
    influence distance count, so that nothing jumps when another one becomes the closest. The output is a dict: "velocity"
    (nv,), the reference qd, and "u" (nu,), the joint forces  inverse_dynamics(q, v, rate (qd - v))  that follow it.

    `task`: "position" of the tool (three rows), or its "pose" (six). An arm with as many joints as rows has no null space.
    `gain`: 1/s. `escape`: m/s. `rate`: 1/s. Near singularities J^+ is damped. With moving obstacles, called (x, reference,
    poses).
    """

    def __init__(
        self,
        simulation: Simulation,
        frame: str,
        distances: RobotDistances,
        *,
        task: str = "position",
        gain: float = 10.0,
        influence: float = 0.15,
        escape: float = 0.5,
        rate: float = 50.0,
        regularization: float = 1e-3,
        model: Robot | None = None,
        **options: Any,
    ) -> None:
        super().__init__(simulation, distances, influence, model, **options)
        if task not in TASKS:
            raise ControlError(f"controller '{self.name}': task is 'position' or 'pose', got {task!r:.40}")
        if TASKS[task] >= self.size:
            raise ControlError(
                f"controller '{self.name}': robot '{self.robot.name}' has {self.size} joints and the {task} {TASKS[task]} rows, "
                "which leaves no null space: take task='position', or an arm with more joints"
            )
        self.tool, self.task = self.frame(frame), task
        self.position_gain = self.parameter("gain", gain, "1/s", minimum=0.0)
        self.escape = self.parameter("escape", escape, "m/s", minimum=0.0)
        self.rate = self.parameter("rate", rate, "1/s", minimum=0.0)
        self.regularization = self.parameter("regularization", regularization, "m^2", minimum=1e-12)
        q = self.robot.random_configuration(np.random.default_rng(0), CONFIGURATIONS)
        J = np.asarray(self.robot.jacobian(q, frame))[:, : TASKS[task]]
        sizes = np.linalg.svd(J, compute_uv=False)
        self.singular = 0.1 * float(np.median(np.prod(sizes, axis=1))) ** 2
        self.largest_damping = (DAMPING * float(np.median(sizes[:, 0]))) ** 2

    def step(self, state: dict[str, Any], x: Any, reference: ToolSample, poses: Any = None) -> tuple[Any, dict[str, Any]]:
        """({"u", "velocity"}, {})."""
        q, v, n = array(x.q), array(x.v), self.size
        rows = TASKS[self.task]
        J = array(self.robot.jacobian(q, self.tool))[:rows]
        R, p = self.robot.frame_pose(q, self.tool)
        error = [*(array(reference.p) - p)]
        if rows == 6:
            # the axis of the rotation to the reference, times the sine of its angle
            wanted = array(reference.R)
            error += [*(0.5 * sum((np.cross(R[:, k], wanted[:, k]) for k in range(3)), np.zeros(3)))]
        velocity = np.broadcast_to(np.asarray(reference.velocity, dtype=object), 6)[:rows]
        xd = array(velocity) + self.position_gain * array(error)
        JJ = J @ J.T
        far = np.minimum(linalg.det(JJ) / self.singular, 1.0)
        JJ = JJ + np.eye(rows) * (self.largest_damping * (1.0 - far) * (1.0 - far))
        inverse = linalg.inverse(JJ)
        first = J.T @ (inverse @ xd)
        N = np.eye(n) - J.T @ (inverse @ J)
        d, Jd = self._distances(q, poses)
        w = self._nearness(d)
        lacking = w * (self.escape * w - Jd @ first)
        A = Jd.T @ (w[:, None] * Jd)
        H = N @ A @ N + np.eye(n) * self.regularization
        qd = first + N @ linalg.solve(H, N @ (Jd.T @ lacking))
        u = self.robot.inverse_dynamics(q, v, self.rate * (qd - v), passive=True)
        return {"u": u, "velocity": qd}, {}


__all__ = ["NullSpaceAvoidance", "PotentialField"]
