"""Differential inverse kinematics as a block: joint references (q, v, a) that bring the tool along a reference of its pose.

    ik = DifferentialIK(world, "tool", gain=50.0, posture=q0, posture_gain=2.0, every=4)
    torque = ComputedTorque(world, every=4)
    loop = cd.Loop(world, lambda x, p, R: torque(x, ik(x, ToolSample(R.reshape(3, 3), p))), p=3, R=9)

Resolved-rate control (Whitney 1969) of a model of the arm that the block keeps in its state, so that noise and errors of the real
arm do not enter, in closed loop with the pose of that model, so that it does not drift:

    v = J^+ (V_ref + gain e) + (I - J^+ J) z,     J^+ = J^T (J J^T + m I)^-1,     m = damping^2 max(0, 1 - w / threshold)^2

e is the error of the pose, w the manipulability of the task, z the motion towards the posture, the centre of the limits, or more
manipulability (Nakamura and Hanafusa 1986; Siciliano et al. 2009, section 3.5).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.dynamics.kinematics import frame_pose, jacobian
from condyle.dynamics.rotations import quaternion_log, quaternion_of
from condyle.dynamics.solve import cholesky_solve, factor
from condyle.errors import ControlError
from condyle.methods.control.arm_controller import ArmController, ToolSample
from condyle.methods.planning.profiles import Sample
from condyle.multibody.frame_task import log_manipulability
from condyle.multibody.manipulability import manipulability
from condyle.simulate.simulation import Simulation
from condyle.tape.array import where

TASKS = {"pose": 6, "position": 3}
OBJECTIVES = ("posture", "centre", "manipulability")
PASSES = 3  # solves of one update: joints that a limit stops leave the rest of the motion to the others


class DifferentialIK(ArmController):
    """`ik(x, ToolSample(...))` gives a `Sample` of joint references; the block starts at the measured joints x.q.

    frame: the tool. task: "pose", or "position", which leaves the orientation free. gain: 1/s, of the error of the pose.
    damping, threshold: below this manipulability, sqrt(det(J J^T)), the pseudo-inverse is damped; by default 5 % of the largest
    among 1,000 random configurations. null_space: "posture" (towards `posture`, by default the joints at the start), "centre" of
    the limits, "manipulability", or None; posture_gain: its gain, 1/s.

    No joint passes its limit: near it, its speed is at most limit_gain (1/s) times the distance, and the other joints take over.
    No joint is faster than `speed`, rad/s, by default its limit of the model: all are slowed together, so that the direction of
    the tool's motion stays.
    """

    def __init__(
        self,
        simulation: Simulation,
        frame: str,
        *,
        task: str = "pose",
        gain: Any = 20.0,
        damping: float = 0.1,
        threshold: float | None = None,
        null_space: str | None = None,
        posture: Any = None,
        posture_gain: float = 1.0,
        limit_gain: float = 10.0,
        speed: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(simulation, **options)
        self.tool = self.frame(frame)
        self.objective = null_space or (None if posture is None else "posture")
        if task not in TASKS:
            raise ControlError(f"block '{self.name}': task is 'pose' or 'position'; got {task!r:.40}")
        if self.objective is not None and self.objective not in OBJECTIVES:
            raise ControlError(
                f"block '{self.name}': null_space is 'posture', 'centre' or 'manipulability'; got {self.objective!r:.40}"
            )
        if self.objective is not None and self.size <= TASKS[task]:
            raise ControlError(
                f"block '{self.name}': robot '{self.robot.name}' has {self.size} joints and the {task} takes {TASKS[task]}: none "
                "is left for null_space; leave it out, or take task='position'"
            )
        self.rows = TASKS[task]
        if threshold is None:
            sample = self.robot.random_configuration(np.random.default_rng(0), 1000)
            threshold = 0.05 * float(np.max(manipulability(self.robot, sample, frame, task=task)))
        self.proportional = self.parameter("gain", gain, "1/s", minimum=0.0)
        self.damping = self.parameter("damping", damping, minimum=0.0)
        self.threshold = self.parameter("threshold", threshold, minimum=0.0)
        self.posture_gain = self.parameter("posture_gain", posture_gain, "1/s", minimum=0.0)
        self.limit_gain = self.parameter("limit_gain", limit_gain, "1/s", minimum=0.0)
        # a joint without a limit of its speed has none here, too
        limits = np.minimum(self.robot.velocity_limits, 1e6) if speed is None else speed
        self.speed = self.gain("speed", limits, "rad/s")
        self.posture = None if posture is None else self.gain("posture", posture, "rad", minimum=None)
        # a joint without limits is stopped nowhere
        self.lower, self.upper = np.maximum(self.robot.lower, -1e9), np.minimum(self.robot.upper, 1e9)
        self.state("q", np.zeros(self.size))
        self.state("v", np.zeros(self.size))
        self.state("started", 0.0)
        if self.objective == "posture" and posture is None:
            self.state("start", np.zeros(self.size))

    def step(self, state: dict[str, Any], x: Any, reference: ToolSample) -> tuple[Any, dict[str, Any]]:
        """(Sample of q, v, a, next state)."""
        begun = state["started"] > 0.5
        q = np.array([where(begun, a, b) for a, b in zip(state["q"], x.q, strict=True)], dtype=object)
        start = [where(begun, a, b) for a, b in zip(state["start"], x.q, strict=True)] if "start" in state else []
        v, scale = self._velocity(q, reference, np.array(start, dtype=object))
        v = v * scale
        # no acceleration is known at the first update
        a = np.array([where(begun, each, 0.0) for each in (v - state["v"]) / self.dt], dtype=object)
        after = {"q": q + v * self.dt, "v": v, "started": 1.0}
        return Sample(q, v, a), after | ({"start": np.array(start, dtype=object)} if start else {})

    def _velocity(self, q: Any, reference: ToolSample, start: Any) -> tuple[Any, Any]:
        """(v within the limits of position, the factor at most 1 that keeps the limits of speed)."""
        model, rows = self.robot.model, self.rows
        X = frame_pose(model, q, self.tool)
        error = np.asarray(reference.p - X.p, dtype=object)
        if rows == 6:
            error = np.concatenate([error, X.R @ quaternion_log(quaternion_of(X.R.T @ reference.R))])
        feed = reference.velocity
        V = self.proportional * error + (feed if np.ndim(feed) == 0 else np.asarray(feed, dtype=object)[:rows])
        J = np.array(jacobian(model, q, self.tool)[:rows], dtype=object)
        A = J @ J.T
        damping = self._damping(A)
        z = self._free_motion(q, start)
        low, high = self.limit_gain * (self.lower - q), self.limit_gain * (self.upper - q)
        # joints that would pass their limit move as fast as it allows, and the others make up for it
        free: list[Any] = [1.0] * self.size
        stopped: list[Any] = [0.0] * self.size
        v: Any = None
        for _ in range(PASSES):
            Jf = J * np.array(free, dtype=object)
            rest = V - J @ np.array(stopped, dtype=object)
            G = Jf @ Jf.T + np.eye(rows) * damping
            wanted = rest if z is None else rest - Jf @ z
            v = Jf.T @ cholesky_solve(G, wanted) + (0.0 if z is None else z * np.array(free, dtype=object))
            v = v + np.array(stopped, dtype=object)
            for k in range(self.size):
                below, above = v[k] < low[k], v[k] > high[k]
                free[k] = where(below | above, 0.0, free[k])
                stopped[k] = where(below, low[k], where(above, high[k], stopped[k]))
        bounded = np.minimum(np.maximum(v, low), high)
        limit = self.speed + np.zeros(self.size)
        use = [abs(bounded[k]) / limit[k] for k in range(self.size)]
        largest = use[0]
        for each in use[1:]:
            largest = np.maximum(largest, each)
        return bounded, 1.0 / np.maximum(largest, 1.0)

    def _damping(self, A: Any) -> Any:
        """damping^2 max(0, 1 - w / threshold)^2, and as much as keeps the solve finite at a singularity."""
        w = np.sqrt(np.maximum(1.0 / np.prod(factor(A + np.eye(self.rows) * 1e-12)[1]), 0.0))
        short = np.maximum(1.0 - w / np.maximum(self.threshold, 1e-300), 0.0)
        return self.damping * self.damping * short * short + 1e-12

    def _free_motion(self, q: Any, start: Any) -> Any:
        """z: the joint velocity of the secondary objective, or None."""
        if self.objective is None:
            return None
        if self.objective == "posture":
            goal = start if self.posture is None else self.posture
            return self.posture_gain * (goal - q)
        if self.objective == "centre":
            limited = self.upper - self.lower < 1e9
            middle = np.where(limited, 0.5 * (np.where(limited, self.lower, 0.0) + np.where(limited, self.upper, 0.0)), 0.0)
            return np.array(
                [self.posture_gain * (middle[k] - q[k]) if limited[k] else 0.0 for k in range(self.size)], dtype=object
            )
        _, gradient = log_manipulability(self.robot.system, q, self.tool, "pose" if self.rows == 6 else "position")
        return self.posture_gain * gradient
