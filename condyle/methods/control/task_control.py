"""Controllers of the tool: operational space, and Cartesian impedance.

impedance = CartesianImpedance(world, "tool", stiffness=[800, 800, 800, 20, 20, 20])
loop = cd.Loop(world, lambda x: impedance(x, ToolSample(R, p)))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.methods.control.arm_controller import ToolSample
from condyle.methods.control.task_space import AXES, TaskController, TaskState, six, tool_sample
from condyle.simulate.simulation import Simulation
from condyle.tape.array import array
from condyle.tape.linalg import eigh

SAG = 0.1  # m: the displacement by the arm's own weight that the default stiffness allows


class OperationalSpace(TaskController):
    """tau = J^T F + N^T (M a0 + c + g),   F = Lambda (a_d + kd e' + kp e) + mu + p     (Khatib 1987)

    so that each axis of the tool follows e'' + kd e' + kp e = 0 by itself, and the posture moves in the null space without
    disturbing it: a0 = null_kp (posture - q) - null_kd v. e is displacement and rotation vector from the tool to the reference.

    `kp`, `kd`: 1/s^2 and 1/s, one number or one for each of `axes`; kd critically damps kp by default. `friction`: whether
    damping and dry friction of the joints, as the model has them, are cancelled as well. Other options as `TaskController`.
    A wrench in the reference is added to F. Output: {"u": (nu,), "error": (6,)}.
    """

    def __init__(
        self,
        simulation: Simulation,
        frame: str,
        *,
        kp: Any = 400.0,
        kd: Any = None,
        axes: Sequence[str] | str = AXES,
        friction: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(simulation, frame, axes=axes, **options)
        self.kp = self.axis_gain("kp", kp, "1/s^2")
        self.kd = self.axis_gain("kd", 2.0 * np.sqrt(kp) if kd is None else kd, "1/s")
        self.friction = bool(friction)

    def step(self, state: dict[str, Any], x: Any, reference: Any) -> tuple[Any, dict[str, Any]]:
        """The joint forces at the state x of the robot, for the reference of the tool."""
        r, tool = tool_sample(self.name, reference), self.at(x)
        a, error = followed(tool, r, self.kp, self.kd)
        tau = tool.accelerating(a, friction=self.friction) + tool.torque(tool.chosen(six(r.wrench)))
        return {"u": tau, "error": tool.into_world(error)}, {}


def followed(tool: TaskState, r: ToolSample, kp: Any, kd: Any) -> tuple[Any, Any]:
    """(a_d + kd e' + kp e of the chosen rows, e of all six), in the axes of the task frame."""
    rows = list(tool.owner.rows)
    error = tool.error(r.R, r.p)
    rate = tool.into_task(six(r.velocity)) - tool.velocity
    return tool.chosen(six(r.acceleration)) + kd * rate[rows] + kp * error[rows], error


class CartesianImpedance(TaskController):
    """tau = J^T (K e + D e') + g + N^T M a0: the tool is held by springs and dampers, and yields to a push F by K^-1 F.

    `stiffness`: N/m and N m/rad for each of `axes`, in the axes of the task frame; by default the weight of the arm over SAG. The
    spring is the gradient of e^T K e / 2, for rotations of any size. `damping`: D, constant, N s/m and N m s/rad.
    `damping_ratio`: adds a D that gives every mode of  Lambda e'' + D e' + K e = 0  this ratio, at every pose:

        K^1/2 A K^1/2 = V diag(w^2) V^T,    D = 2 ratio K^1/2 V diag(1/w) V^T K^1/2

    None adds nothing. `passive`: the null space is damped, by -null_kd M v, without a spring to the posture. Then for a reference
    at rest the energy  v^T M v / 2 + e^T K e / 2  never grows by more than the work of external forces.
    `feedforward`: also c(q, v) and Lambda (a_d - Jdot v), so that a moving reference is followed; needs the model of the masses.
    `shaped_inertia`: kg and kg m^2 of each axis, M in  M e'' + D e' + K e = -F_ext. It needs the measured wrench,
    `controller(x, reference, wrench=w)`, six numbers in world axes, of the environment on the tool.
    Output: {"u": (nu,), "error": (6,), "stored": energy of the spring, J}.
    """

    def __init__(
        self,
        simulation: Simulation,
        frame: str,
        *,
        stiffness: Any = None,
        damping: Any = 0.0,
        damping_ratio: float | None = 1.0,
        axes: Sequence[str] | str = AXES,
        passive: bool = False,
        feedforward: bool = False,
        shaped_inertia: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(simulation, frame, axes=axes, **options)
        if passive and (feedforward or shaped_inertia is not None):
            raise ControlError(
                f"controller '{self.name}': feedforward and shaped_inertia cancel parts of the dynamics and are not passive; "
                "leave them out, or passive"
            )
        if passive and self.null_kd.shape:
            raise ControlError(f"controller '{self.name}': a passive null space has one null_kd for all joints")
        self.K = self.axis_gain("stiffness", self._default() if stiffness is None else stiffness, "N/m, N m/rad")
        self.D = self.axis_gain("damping", damping, "N s/m, N m s/rad")
        self.ratio = None if damping_ratio is None else self.parameter("damping_ratio", damping_ratio, minimum=0.0)
        self.inertia = (
            None if shaped_inertia is None else self.axis_gain("shaped_inertia", shaped_inertia, "kg, kg m^2", minimum=1e-12)
        )
        self.passive, self.feedforward = bool(passive), bool(feedforward)

    def _default(self) -> np.ndarray:
        along = self.weight / SAG
        return np.array([along if k < 3 else along * self.lever**2 for k in self.rows])

    def step(self, state: dict[str, Any], x: Any, reference: Any, wrench: Any = None) -> tuple[Any, dict[str, Any]]:
        """The joint forces at the state x of the robot, for the reference of the tool."""
        r, tool, rows = tool_sample(self.name, reference), self.at(x), list(self.rows)
        K = np.zeros(len(rows)) + self.K
        error = tool.error(r.R, r.p)
        rate = (tool.into_task(six(r.velocity)) - tool.velocity)[rows]
        full = array([K[rows.index(k)] if k in rows else 0.0 * K[0] for k in range(6)])
        force = tool.spring(error, full)[rows] + self._damping(tool, K, rate)
        exerted = tool.chosen(six(r.wrench))
        if self.inertia is not None:
            if wrench is None:
                raise ControlError(
                    f"controller '{self.name}' shapes the inertia, so it needs the measured wrench: "
                    "controller(x, reference, wrench=w)"
                )
            measured = tool.chosen(six(wrench))
            tau = tool.accelerating(tool.chosen(six(r.acceleration)) + (force + measured) / self.inertia)
            tau = tau + tool.torque(exerted - measured)
        elif self.feedforward:
            tau = tool.accelerating(tool.chosen(six(r.acceleration))) + tool.torque(force + exerted)
        else:
            tau = self.robot.gravity_forces(x.q) + tool.torque(force + exerted) + self._null(tool)
        stored = 0.5 * (full @ (error * error))
        return {"u": tau, "error": tool.into_world(error), "stored": stored}, {}

    def _damping(self, tool: TaskState, K: Any, rate: Any) -> Any:
        """D e' of the chosen rows."""
        constant = self.D * rate
        if self.ratio is None:
            return constant
        if self.inertia is not None:
            return constant + 2.0 * self.ratio * np.sqrt(K * self.inertia) * rate
        root = np.sqrt(K)
        w2, V = eigh(array(np.asarray(tool.A, dtype=object) * np.outer(root, root)))
        # an axis without stiffness has no mode, and no damping by ratio
        least = np.maximum(w2, 1e-12 * w2[-1] + 1e-300)
        return constant + 2.0 * self.ratio * (root * (V @ ((V.T @ (root * rate)) / np.sqrt(least))))

    def _null(self, tool: TaskState) -> Any:
        if not self.redundant:
            return np.zeros(self.size)
        a0 = -(self.null_kd * tool.v) if self.passive else tool.posture_acceleration()
        return tool.projected(a0)
