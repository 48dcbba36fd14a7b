"""Model-predictive control of an arm's joints, as a block: `controller(x, reference)` gives the torques.

mpc = ArmMPC(world, horizon=0.4, steps=16, every=10, torque=0.5 * robot.effort_limits)
loop = cd.Loop(world, lambda x: mpc(x, move.at(x.t)))
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.methods.control.arm_controller import ArmController, ToolSample
from condyle.methods.mpc.block import SolverBlock
from condyle.methods.mpc.problem import Problem, ocp
from condyle.methods.planning.profiles import Sample
from condyle.multibody.robot import Robot
from condyle.simulate.simulation import Simulation
from condyle.tape.array import array

MOST_STEPS = 200


class ArmMPC(ArmController):
    """Torques that minimise, over a horizon of `steps` intervals, the weighted squares of

        q_k - r_k by `position`,    v_k - r'_k by `velocity`,    a_k - r''_k by `effort`,

    and at the end `terminal` times the first two, with q'' = a constant in each interval, under lower <= q <= upper,
    |v| <= speed and |ID(q, v, a)| <= torque. Unknowns are the accelerations, so the prediction is exact for any arm, and torques
    are constraints, affine in a. One real-time iteration is made every `every` ticks; the torque ID(q, v, a_0) follows at every
    tick, and is clipped to the limits, which linearised constraints may miss. Bounds of q and v are soft, so that a problem has a
    solution wherever the arm is.

    `frame`: the position of this frame is tracked instead of the joints, and `posture` says how much the joints stay where they
    are. `speed`, `torque`: one number, or one for each joint; by default those of the robot. `friction`: whether torques include
    damping and dry friction of the joints, as the model has them. `start`: joint positions that the first plan stays at; from far
    away the first three solves or so miss the torque limits, and their torques are clipped. The weights are parameters.

    The reference is a Sample, extrapolated over the horizon by its velocity and acceleration; or a motion with `at(t)`, whose
    preview is exact; with `frame`, a ToolSample or a motion of the position. Output: {"u": (nu,), "planned_acceleration": (nv,)};
    the plan is the state of a block inside, "NAME_solver". One stage is recorded, so compile time grows little with the
    number of steps.
    """

    def __init__(
        self,
        simulation: Simulation,
        *,
        horizon: float = 0.4,
        steps: int = 16,
        frame: str | None = None,
        position: float = 100.0,
        velocity: float = 1.0,
        effort: float = 1e-3,
        posture: float = 1e-2,
        terminal: float = 10.0,
        speed: Any = None,
        torque: Any = None,
        friction: bool = False,
        start: Any = None,
        every: int = 1,
        model: Robot | None = None,
        name: str | None = None,
        **solver: Any,
    ) -> None:
        super().__init__(simulation, model=model, name=name)
        if isinstance(steps, bool) or not isinstance(steps, (int, np.integer)) or not 2 <= steps <= MOST_STEPS:
            raise ControlError(
                f"controller '{self.name}': steps must be a whole number from 2 to {MOST_STEPS}, got {steps!r:.40}"
            )
        if not np.isfinite(horizon) or horizon <= 0.0:
            raise ControlError(f"controller '{self.name}': horizon must be a time above zero, s; got {horizon!r:.40}")
        self.tool = None if frame is None else self.frame(frame)
        self.steps, self.interval, self.friction = int(steps), float(horizon) / int(steps), bool(friction)
        self.position = self.parameter("position", position, minimum=0.0)
        self.velocity = self.parameter("velocity", velocity, minimum=0.0)
        self.effort = self.parameter("effort", effort, minimum=1e-12)
        self.posture = self.parameter("posture", posture, minimum=0.0)
        self.terminal = self.parameter("terminal", terminal, minimum=0.0)
        self.speed = self._limits("speed", self.robot.velocity_limits if speed is None else speed)
        self.torque = self._limits("torque", simulation.effort_limits if torque is None else torque)
        self.problem = self._problem()
        pose = self._inside() if start is None else np.asarray(start, dtype=float)
        if pose.shape != (self.size,) or not np.all(np.isfinite(pose)):
            raise ControlError(f"controller '{self.name}': start must have {self.size} joint positions, got {start!r:.60}")
        first = np.concatenate([pose, np.zeros(self.size)])
        self.solver = SolverBlock(self.problem.rti(**solver), first, name=f"{self.name}_solver", every=every)

    # ---- the problem

    @property
    def tracked(self) -> int:
        """Numbers of a reference: of the joints, or of the frame's position."""
        return self.size if self.tool is None else 3

    def _problem(self) -> Problem:
        n, m = self.size, self.tracked
        lower, upper = self.robot.lower, self.robot.upper
        bounds: dict[str, Any] = {}
        if np.any(np.isfinite(lower)) or np.any(np.isfinite(upper)):
            bounds["q"] = (lower, upper)
        if np.any(np.isfinite(self.speed)):
            bounds["v"] = (-self.speed, self.speed)
        soft = {name: (10.0, 1e4) for name in bounds}
        limited = bool(np.any(np.isfinite(self.torque)))
        if limited:
            bounds["torque"] = (-self.torque, self.torque)
        return ocp(
            partial(_step, self.interval),
            N=self.steps,
            x={"q": n, "v": n},
            u={"a": n},
            residual=partial(_residual, self.robot, self.tool),
            weights=np.ones(2 * m + n + (0 if self.tool is None else n)),
            terminal_residual=partial(_terminal, self.robot, self.tool),
            terminal_weights=np.ones(2 * m),
            reference=2 * m + n,
            bounds=bounds,
            soft=soft,
            constraints=partial(_torques, self.robot, self.friction) if limited else None,
        )

    def _limits(self, name: str, value: Any) -> np.ndarray:
        given = np.asarray(value, dtype=float)
        if given.shape not in ((), (self.size,)) or np.any(np.isnan(given)) or np.any(given <= 0.0):
            raise ControlError(
                f"controller '{self.name}': {name} must be one positive number, or {self.size} for the joints; got {value!r:.60}"
            )
        return np.array(np.broadcast_to(given, (self.size,)))

    def _inside(self) -> np.ndarray:
        """Zero, or the nearest position within the limits."""
        return np.asarray(np.minimum(np.maximum(np.zeros(self.size), self.robot.lower), self.robot.upper))

    # ---- inside of a loop

    def step(self, state: dict[str, Any], x: Any, reference: Any) -> tuple[Any, dict[str, Any]]:
        """The joint forces at the state x of the robot."""
        n, m, one = self.size, self.tracked, np.ones
        tracking = [self.position * one(m), self.velocity * one(m)]
        regular = [self.effort * one(n)] + ([] if self.tool is None else [self.posture * one(n)])
        a = self.solver(
            np.concatenate([x.q, x.v]),
            reference=self._preview(x, reference),
            weights=np.concatenate([*tracking, *regular]),
            terminal_weights=self.terminal * np.concatenate(tracking),
        )
        tau = (
            self.robot.inverse_dynamics(x.q, x.v, a, passive=True) if self.friction else self.robot.inverse_dynamics(x.q, x.v, a)
        )
        clipped = [
            np.minimum(np.maximum(t, -limit), limit) if np.isfinite(limit) else t
            for t, limit in zip(tau, self.torque, strict=True)
        ]
        return {"u": array(clipped), "planned_acceleration": a}, {}

    def _preview(self, x: Any, reference: Any) -> Any:
        """The reference of every stage, (steps + 1, numbers): position, velocity and the joints' accelerations."""
        n, m = self.size, self.tracked
        rows = []
        for k in range(self.steps + 1):
            ahead = k * self.interval
            r = reference.at(x.t + ahead) if hasattr(reference, "at") else self._extrapolated(reference, ahead)
            p, v, a = (np.zeros(m) + part for part in r)
            rows.append(np.concatenate([p, v, a if self.tool is None else np.zeros(n)]))
        return np.stack([np.asarray(row, dtype=object) for row in rows])

    def _extrapolated(self, reference: Any, ahead: float) -> Sample:
        if self.tool is not None and isinstance(reference, ToolSample):
            velocity, acceleration = (np.zeros(6) + part for part in (reference.velocity, reference.acceleration))
            p, v, a = np.asarray(reference.p), velocity[:3], acceleration[:3]
        elif self.tool is None and isinstance(reference, Sample):
            p, v, a = (np.zeros(self.size) + part for part in reference)
        else:
            wanted = "a Sample(position, velocity, acceleration)" if self.tool is None else "a ToolSample(R, p)"
            raise ControlError(
                f"controller '{self.name}' takes {wanted} or a motion with at(t) as reference; got {type(reference).__name__}"
            )
        return Sample(p + ahead * v + 0.5 * ahead**2 * a, v + ahead * a, a)


def _step(h: float, x: Any, u: Any) -> Any:
    """The double integrator, exactly."""
    n = len(u)
    q, v = x[:n], x[n:]
    return np.concatenate([q + h * v + (0.5 * h * h) * u, v + h * u])


def _tracked(robot: Robot, frame: str | None, x: Any) -> tuple[Any, Any]:
    """(position, velocity) of what is tracked."""
    n = robot.nv
    q, v = x[:n], x[n:]
    if frame is None:
        return q, v
    return robot.frame_pose(q, frame)[1], robot.jacobian(q, frame)[:3] @ v


def _residual(robot: Robot, frame: str | None, x: Any, u: Any, r: Any) -> Any:
    position, velocity = _tracked(robot, frame, x)
    m, n = len(position), robot.nv
    parts = [position - r[:m], velocity - r[m : 2 * m], u - r[2 * m :]]
    return np.concatenate(parts if frame is None else [*parts, x[n:]])


def _terminal(robot: Robot, frame: str | None, x: Any, r: Any) -> Any:
    position, velocity = _tracked(robot, frame, x)
    m = len(position)
    return np.concatenate([position - r[:m], velocity - r[m : 2 * m]])


def _torques(robot: Robot, friction: bool, x: Any, u: Any) -> dict[str, Any]:
    n = robot.nv
    q, v = x[:n], x[n:]
    return {"torque": robot.inverse_dynamics(q, v, u, passive=True) if friction else robot.inverse_dynamics(q, v, u)}
