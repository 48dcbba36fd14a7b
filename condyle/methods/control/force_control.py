"""Controllers that touch: admittance, hybrid force and position, hand guiding.

    sensor, external = ForceTorque("tool"), ExternalWrench(world, "tool")
    hybrid = HybridForcePosition(world, "tool", force_axes="z")
    loop = cd.Loop(world, lambda x: hybrid(x, ToolSample(R, p, wrench=push), wrench=external(x, sensor(x))))

A measured wrench is that of the environment on the tool; the wrench of a reference is what the tool exerts on the environment.
Both are force, then torque, at the tool in world axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from condyle.dynamics.rotations import normalized, quaternion_exp, quaternion_log, quaternion_product
from condyle.errors import ControlError
from condyle.methods.control.arm_controller import ToolSample
from condyle.methods.control.task_control import followed
from condyle.methods.control.task_space import AXES, TaskController, ToolController, ToolState, chosen_rows, six, tool_sample
from condyle.robot.joints import rotation_of
from condyle.simulate.simulation import Simulation
from condyle.tape.array import array, where

PERIOD = 0.5  # s of the default admittance's oscillation
# of hand guiding, relative to the load of gravity of a joint, or to the weight of the arm
JOINT_DAMPING = 0.02  # s/rad: damping of the joints
LIMIT_ANGLE = 0.1  # rad: how far the load pushes a joint into its limit's spring
FIXTURE_DEPTH = 0.02  # m: how far the weight pushes into a wall or a lock
SPEED_DAMPING = 2.0  # s/m: above the limit of the speed


class Admittance(TaskController):
    """M d'' + D d' + K d = F: the measured force F moves a virtual body by d from the reference, and the tool follows it.

    d is a displacement and a rotation, the latter a quaternion in the block's state, in the axes of the task frame; `mass`,
    `damping`, `stiffness` are of the six axes (or one number each). With no stiffness the tool goes where it is pushed. A wrench
    in the reference is what should be exerted: F + wrench takes the place of F. Steps of the virtual body are implicit, so any
    numbers are stable by themselves. By default the mass is that of the arm, the damping critical, the stiffness mass (2 pi /
    PERIOD)^2.

    The inner loop is computed torque of the tool, `kp` and `kd` in 1/s^2 and 1/s, which cancels the measured force
    (`compensate`); without that it yields by Lambda^-1 F / kp. `friction` as in `OperationalSpace`.
    Output: {"u": (nu,), "offset": (6,) d in world axes, "error": (6,) of the inner loop}.
    """

    def __init__(
        self,
        simulation: Simulation,
        frame: str,
        *,
        mass: Any = None,
        damping: Any = None,
        stiffness: Any = None,
        kp: Any = 900.0,
        kd: Any = None,
        compensate: bool = True,
        friction: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(simulation, frame, **options)
        lengths = np.array([1.0] * 3 + [self.lever] * 3)
        M = np.broadcast_to(np.asarray(self.robot.mass * lengths**2 if mass is None else mass, dtype=float), (6,))
        K = np.broadcast_to(np.asarray(M * (2.0 * np.pi / PERIOD) ** 2 if stiffness is None else stiffness, dtype=float), (6,))
        # without a spring, a time constant of a period
        D = np.where(K > 0.0, 2.0 * np.sqrt(K * M), 2.0 * np.pi * M / PERIOD) if damping is None else damping
        self.mass = self.parameter("mass", M, "kg, kg m^2", minimum=1e-12)
        self.stiffness = self.parameter("stiffness", K, "N/m, N m/rad", minimum=0.0)
        self.damping = self.parameter(
            "damping", np.broadcast_to(np.asarray(D, dtype=float), (6,)), "N s/m, N m s/rad", minimum=0.0
        )
        self.kp = self.axis_gain("kp", kp, "1/s^2")
        self.kd = self.axis_gain("kd", 2.0 * np.sqrt(kp) if kd is None else kd, "1/s")
        self.compensate, self.friction = bool(compensate), bool(friction)
        self.state("displacement", np.zeros(3))
        self.state("rotation", np.array([0.0, 0.0, 0.0, 1.0]))
        self.state("velocity", np.zeros(6))

    def step(self, state: dict[str, Any], x: Any, reference: Any, wrench: Any = None) -> tuple[Any, dict[str, Any]]:
        """The joint forces at the state x of the robot, for the reference of the tool and the measured wrench."""
        r, measured = tool_sample(self.name, reference), measured_wrench(self.name, wrench)
        tool, h = self.at(x), self.dt
        F = tool.into_task(measured + six(r.wrench))
        d = np.concatenate([state["displacement"], quaternion_log(state["rotation"])])
        # the velocity at the end of the step, with spring and damper of that time
        M, D, K = self.mass, self.damping, self.stiffness
        velocity = (M * state["velocity"] + h * (F - K * d)) / (M + h * D + h * h * K)
        acceleration = (velocity - state["velocity"]) / h
        displacement = state["displacement"] + h * velocity[:3]
        rotation = normalized(quaternion_product(quaternion_exp(h * velocity[3:]), state["rotation"]))
        # the rotation of the task frame's axes, in world axes
        turn = rotation_of(rotation)
        R_t = np.asarray(self.task_frame.resolve(), dtype=object)
        goal = ToolSample(
            R_t @ turn @ R_t.T @ np.asarray(r.R),
            r.p + R_t @ displacement,
            six(r.velocity) + tool.into_world(velocity),
            six(r.acceleration) + tool.into_world(acceleration),
        )
        a, error = followed(tool, goal, self.kp, self.kd)
        tau = tool.accelerating(a, friction=self.friction)
        if self.compensate:
            tau = tau - tool.torque(tool.chosen(measured))
        offset = tool.into_world(np.concatenate([displacement, quaternion_log(rotation)]))
        after = {"displacement": displacement, "rotation": rotation, "velocity": velocity}
        return {"u": tau, "offset": offset, "error": tool.into_world(error)}, after


class HybridForcePosition(TaskController):
    """Force along chosen axes of the task frame, motion along the others (Raibert and Craig 1981, Khatib 1987):

        F = Lambda (S (a_d + kd e' + kp e) - (1 - S) force_damping V) + (1 - S) f + mu + p
        f = f_d + force_kp (f_d - f_m) + force_ki integral of (f_d - f_m)

    S is 1 on axes of motion and 0 on `force_axes`. f_d is the wrench of the reference, what the tool exerts on the environment,
    and f_m = -wrench the measured one. The integral is at most `integral_limit`, N and N m. Before contact the tool moves along a
    force axis with about f_d / (Lambda force_damping). `compensation` (0 to 1): part of the measured wrench that is cancelled on
    axes of motion, against friction. Output: {"u": (nu,), "error": (6,), "force_error": (6,) of f_d - f_m, zero on axes of
    motion}.
    """

    def __init__(
        self,
        simulation: Simulation,
        frame: str,
        *,
        force_axes: Sequence[str] | str = "z",
        kp: Any = 400.0,
        kd: Any = None,
        force_kp: Any = 0.5,
        force_ki: Any = 100.0,
        force_damping: Any = 40.0,
        integral_limit: float | None = None,
        compensation: float = 0.9,
        friction: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(simulation, frame, **options)
        forced = chosen_rows(self.name, force_axes)
        for k in forced:
            if k not in self.rows:
                raise ControlError(f"controller '{self.name}': the force axis '{AXES[k]}' is not one of its axes")
        self.selection = np.array([0.0 if k in forced else 1.0 for k in self.rows])
        self.kp = self.axis_gain("kp", kp, "1/s^2")
        self.kd = self.axis_gain("kd", 2.0 * np.sqrt(kp) if kd is None else kd, "1/s")
        self.force_kp = self.axis_gain("force_kp", force_kp)
        self.force_ki = self.axis_gain("force_ki", force_ki, "1/s")
        self.force_damping = self.axis_gain("force_damping", force_damping, "1/s")
        self.integral_limit = self.parameter(
            "integral_limit", self.weight if integral_limit is None else integral_limit, "N", minimum=0.0
        )
        self.compensation = self.parameter("compensation", compensation, minimum=0.0, maximum=1.0)
        self.friction = bool(friction)
        self.state("integral", np.zeros(len(self.rows)))

    def step(self, state: dict[str, Any], x: Any, reference: Any, wrench: Any = None) -> tuple[Any, dict[str, Any]]:
        """The joint forces at the state x of the robot, for the reference of the tool and the measured wrench."""
        r, measured = tool_sample(self.name, reference), measured_wrench(self.name, wrench)
        tool, rows, S = self.at(x), list(self.rows), self.selection
        a, error = followed(tool, r, self.kp, self.kd)
        w, wanted = tool.chosen(measured), tool.chosen(six(r.wrench))
        lacking = (1.0 - S) * (wanted + w)
        bound = self.integral_limit
        integral = np.minimum(np.maximum(state["integral"] + self.dt * self.force_ki * lacking, -bound), bound)
        force = (1.0 - S) * (wanted + self.force_kp * lacking + integral) - self.compensation * (S * w)
        tau = tool.accelerating(S * a - (1.0 - S) * (self.force_damping * tool.velocity[rows]), friction=self.friction)
        short = array([lacking[rows.index(k)] if k in rows else 0.0 * lacking[0] for k in range(6)])
        output = {"u": tau + tool.torque(force), "error": tool.into_world(error), "force_error": tool.into_world(short)}
        return output, {"integral": integral}


class HandGuiding(ToolController):
    """tau = g - d v + virtual fixtures: the arm floats, and a hand can move it.

    `damping`: d of each joint, N m s/rad; by default JOINT_DAMPING times the load of gravity. Fixtures, each a spring with
    damping inside of it, or damping alone, so that none of them adds energy:

    - `joint_stiffness`: of springs from `margin` rad before each limit of a joint on; 0 for none.
    - `walls`: planes (normal, offset), normal . p >= offset for the frame's position p, with `wall_stiffness`, N/m.
    - `speed`: m/s of the frame, above which a force `speed_damping` (|v| - speed) opposes it; None for no limit.
    - `locked`: axes of the task frame along which the frame stays at the reference, with `lock_stiffness`.

    Dampings of walls and locks are `fixture_damping` times their stiffness, s. The reference may be left out where no axis is
    locked. Output: {"u": (nu,), "stored": energy of the springs, J}.
    """

    def __init__(
        self,
        simulation: Simulation,
        frame: str,
        *,
        damping: Any = None,
        joint_stiffness: Any = None,
        margin: float = 0.1,
        walls: Sequence[tuple[Any, float]] = (),
        wall_stiffness: float | None = None,
        speed: float | None = None,
        speed_damping: float | None = None,
        locked: Sequence[str] | str = (),
        lock_stiffness: Any = None,
        fixture_damping: float = 0.02,
        **options: Any,
    ) -> None:
        super().__init__(simulation, frame, **options)
        loads = np.array([joint.load for joint in simulation.joint_forces], dtype=float)
        self.damping = self.gain("damping", JOINT_DAMPING * loads if damping is None else damping, "N m s/rad")
        self.joint_stiffness = self.gain(
            "joint_stiffness", loads / LIMIT_ANGLE if joint_stiffness is None else joint_stiffness, "N m/rad"
        )
        self.margin = self.parameter("margin", margin, "rad", minimum=0.0)
        self.walls = self._planes(walls)
        self.wall_stiffness = self.parameter(
            "wall_stiffness", self.weight / FIXTURE_DEPTH if wall_stiffness is None else wall_stiffness, "N/m", minimum=0.0
        )
        self.speed = None if speed is None else self.parameter("speed", speed, "m/s", minimum=0.0)
        self.speed_damping = self.parameter(
            "speed_damping", SPEED_DAMPING * self.weight if speed_damping is None else speed_damping, "N s/m", minimum=0.0
        )
        self.locked = chosen_rows(self.name, locked) if locked else ()
        stiff = np.array([1.0 if k < 3 else self.lever**2 for k in self.locked]) * self.weight / FIXTURE_DEPTH
        given = stiff if lock_stiffness is None else np.broadcast_to(np.asarray(lock_stiffness, dtype=float), (len(self.locked),))
        self.lock_stiffness = self.parameter("lock_stiffness", given, "N/m, N m/rad", minimum=0.0) if self.locked else None
        self.fixture_damping = self.parameter("fixture_damping", fixture_damping, "s", minimum=0.0)

    def _planes(self, walls: Any) -> list[tuple[np.ndarray, float]]:
        found = []
        for wall in walls:
            try:
                normal, offset = np.asarray(wall[0], dtype=float), float(wall[1])
            except (TypeError, ValueError, IndexError):
                normal, offset = np.zeros(0), 0.0
            if normal.shape != (3,) or not np.isfinite(normal).all() or not np.any(normal):
                raise ControlError(f"controller '{self.name}': a wall is (normal of 3 numbers, offset in m), got {wall!r:.60}")
            size = float(np.linalg.norm(normal))
            found.append((normal / size, offset / size))
        return found

    def step(self, state: dict[str, Any], x: Any, reference: Any = None) -> tuple[Any, dict[str, Any]]:
        """The joint forces at the state x of the robot."""
        tool = self.at(x)
        tau, stored = self._joints(x)
        _, p = tool.pose
        V = tool.into_world(tool.velocity)
        force, torque = np.zeros(3), np.zeros(3)
        for normal, offset in self.walls:
            depth = offset - normal @ p
            inside = np.maximum(depth, 0.0)
            push = self.wall_stiffness * (inside - where(depth > 0.0, self.fixture_damping * (normal @ V[:3]), 0.0))
            force, stored = force + push * normal, stored + 0.5 * self.wall_stiffness * inside * inside
        if self.speed is not None:
            fast = np.sqrt(V[:3] @ V[:3] + 1e-300)
            force = force - self.speed_damping * np.maximum(fast - self.speed, 0.0) / fast * V[:3]
        wrench = np.concatenate([force, torque])
        if self.locked:
            held, energy = self._locked(tool, reference)
            wrench, stored = wrench + held, stored + energy
        J = self.robot.jacobian(x.q, self.tool)
        return {"u": tau + J.T @ wrench, "stored": stored}, {}

    def _joints(self, x: Any) -> tuple[Any, Any]:
        """(joint forces of gravity compensation, damping and limits, energy of the limits' springs)."""
        tau = self.robot.gravity_forces(x.q) - self.damping * x.v
        k = np.zeros(self.size) + self.joint_stiffness
        stored: Any = 0.0
        pushes = []
        for j in range(self.size):
            low, high = self.robot.lower[j], self.robot.upper[j]
            below = np.maximum(low + self.margin - x.q[j], 0.0) if np.isfinite(low) else 0.0 * x.q[j]
            above = np.maximum(x.q[j] - high + self.margin, 0.0) if np.isfinite(high) else 0.0 * x.q[j]
            pushes.append(k[j] * (below - above))
            stored = stored + 0.5 * k[j] * (below * below + above * above)
        return tau + array(pushes), stored

    def _locked(self, tool: ToolState, reference: Any) -> tuple[Any, Any]:
        """(wrench of the locks in world axes, their energy)."""
        if reference is None:
            raise ControlError(
                f"controller '{self.name}' has locked axes, so it needs a reference: controller(x, ToolSample(R, p))"
            )
        assert self.lock_stiffness is not None
        r, K = tool_sample(self.name, reference), np.zeros(len(self.locked)) + self.lock_stiffness
        full = array([K[self.locked.index(k)] if k in self.locked else 0.0 * K[0] for k in range(6)])
        error = tool.error(r.R, r.p)
        rate = tool.into_task(six(r.velocity)) - tool.velocity
        wrench = tool.spring(error, full) + full * self.fixture_damping * rate
        return tool.into_world(wrench), 0.5 * (full @ (error * error))


def measured_wrench(name: str, wrench: Any) -> Any:
    """The wrench of a call, six numbers."""
    if wrench is None:
        raise ControlError(
            f"controller '{name}' needs the measured wrench: controller(x, reference, wrench=w), six "
            "numbers of the environment on the tool in world axes, as ExternalWrench gives them"
        )
    return six(wrench)
