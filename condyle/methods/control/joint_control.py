"""Controllers of joints: PID with feed-forward, computed torque, and impedance.

    controller = JointPID(world, kp=100.0, kd=20.0)
    loop = cd.Loop(world, lambda x: controller(x, move.at(x.t)))

The error is e = q_d - q. All gains are parameters of the loop: one for all joints, or one for each. Gains that are not given
come from the inertia and the load of the joints. With friction=True, the default, all of them also make up for the damping, the
dry friction and the springs that the model has in its joints, at the velocity of the reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.blocks.filters import filtered_derivative
from condyle.blocks.limiters import saturated
from condyle.blocks.pid import ANTI_WINDUP, integrated
from condyle.errors import ControlError
from condyle.methods.control.arm_controller import ArmController
from condyle.methods.control.controllers import SAG
from condyle.methods.control.joint_gains import YIELD, PassiveForces, default_frequency, default_gains, joint_sample
from condyle.simulate.simulation import Simulation
from condyle.tape.array import where
from condyle.tape.linalg import eigh

UNLIMITED = 1e9  # N m or N: the clamp where a joint has no effort limit
DESIGNS = ("diagonal", "factorised")


class JointPID(ArmController):
    """u = clip(kp e + I + clip(kd e') + g(q) + C(q, v) v),  I' = ki e with anti-windup, within its clamp.

    `gravity`, `coriolis`, `friction`: whether these terms of the model are fed forward. `derivative_lag`: None takes
    e' = v_d - v from the measured velocity; a number (s) takes the filtered derivative of the position error instead.
    `integral_limit`, `derivative_limit`: clamps of these two terms, `torque_limit`: of u, N m; by default the effort limits.
    `anti_windup`: "clamping" stops the integral where u is at its clamp, "back_calculation" feeds the excess back within
    `tracking_time` (s), "none" leaves it.
    By default P lets a joint sag by 0.02 rad under its load without feed-forward, D is critical, and ki = 0.
    """

    def __init__(
        self,
        simulation: Simulation,
        *,
        kp: Any = None,
        ki: Any = 0.0,
        kd: Any = None,
        gravity: bool = True,
        coriolis: bool = True,
        friction: bool = True,
        derivative_lag: Any = None,
        integral_limit: Any = None,
        derivative_limit: Any = None,
        torque_limit: Any = None,
        anti_windup: str = "clamping",
        tracking_time: Any = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(simulation, **options)
        if anti_windup not in ANTI_WINDUP:
            raise ControlError(
                f"controller '{self.name}': anti_windup must be one of {', '.join(ANTI_WINDUP)}; got {anti_windup!r:.40}"
            )
        P, D = default_gains(self, SAG) if kp is None or kd is None else (kp, kd)
        effort = np.minimum(self.robot.effort_limits, UNLIMITED)
        self.kp = self.gain("kp", P if kp is None else kp, "N m/rad")
        self.ki = self.gain("ki", ki, "N m/(rad s)")
        self.kd = self.gain("kd", D if kd is None else kd, "N m s/rad")
        self.integral_limit = self.gain("integral_limit", effort if integral_limit is None else integral_limit, "N m")
        self.derivative_limit = self.gain("derivative_limit", effort if derivative_limit is None else derivative_limit, "N m")
        self.torque_limit = self.gain("torque_limit", effort if torque_limit is None else torque_limit, "N m")
        self.gravity, self.coriolis, self.anti_windup = bool(gravity), bool(coriolis), anti_windup
        self.friction = PassiveForces(self) if friction else None
        self.tracking_time = (
            self.parameter("tracking_time", tracking_time, "s", minimum=1e-9) if anti_windup == "back_calculation" else 1.0
        )
        self.derivative_lag = None
        if derivative_lag is not None:
            self.derivative_lag = self.parameter("derivative_lag", derivative_lag, "s", minimum=0.0)
            self.state("lagged", np.zeros(self.size))
            self.state("started", 0.0)
        self.state("integral", np.zeros(self.size))

    def step(self, state: dict[str, Any], x: Any, reference: Any) -> tuple[Any, dict[str, Any]]:
        """The joint forces, and the integral after the update."""
        q_d, v_d, _ = joint_sample(self, reference)
        e, after = q_d - x.q, {}
        if self.derivative_lag is None:
            rate = v_d - x.v
        else:
            before = where(state["started"] > 0.0, state["lagged"], e)
            rate, after["lagged"] = filtered_derivative(before, e, self.derivative_lag.resolve(), self.dt)
            after["started"] = 1.0
        limit = self.integral_limit.resolve()
        integral = saturated(state["integral"], -limit, limit)
        derivative = saturated(self.kd * rate, -self.derivative_limit, +self.derivative_limit)
        wanted = self.kp * e + integral + derivative + self.feedforward(x.q, x.v)
        if self.friction is not None:
            wanted = wanted + self.friction(x.q, v_d)
        u = saturated(wanted, -self.torque_limit, +self.torque_limit)
        after["integral"] = saturated(
            integrated(integral, self.ki * e, u - wanted, self.dt, self.anti_windup, self.tracking_time), -limit, limit
        )
        return u, after

    def feedforward(self, q: Any, v: Any) -> Any:
        """g(q), C(q, v) v, or both, of the controller's model."""
        if self.coriolis:
            bias = self.robot.bias_forces(q, v)
            return bias if self.gravity else bias - self.robot.gravity_forces(q)
        return self.robot.gravity_forces(q) if self.gravity else np.zeros(self.size)


class ComputedTorque(ArmController):
    """u = M(q) (a_d + kd e' + kp e) + C(q, v) v + g(q):  with the right model  e'' + kd e' + kp e = 0  in every joint.

    Gains: `frequency` (rad/s) and `damping_ratio`, with kp = frequency^2 and kd = 2 damping_ratio frequency, or kp and kd
    themselves (1/s^2 and 1/s; kd = 2 sqrt(kp) by default). `friction`: whether damping, dry friction and springs in the joints
    of the model are made up for, damping at the measured velocity.
    """

    def __init__(
        self,
        simulation: Simulation,
        *,
        kp: Any = None,
        kd: Any = None,
        frequency: Any = None,
        damping_ratio: Any = None,
        friction: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(simulation, **options)
        if (kp is not None or kd is not None) and (frequency is not None or damping_ratio is not None):
            raise ControlError(f"controller '{self.name}': give kp and kd, or frequency and damping_ratio, and not both")
        if kd is not None and kp is None:
            raise ControlError(f"controller '{self.name}': kd needs kp; give both, or frequency and damping_ratio")
        self.by_frequency = kp is None
        if kp is None:
            self.frequency = self.gain("frequency", default_frequency(self) if frequency is None else frequency, "rad/s")
            self.damping_ratio = self.gain("damping_ratio", 1.0 if damping_ratio is None else damping_ratio, "1")
        else:
            self.kp = self.gain("kp", kp, "1/s^2")
            self.kd = self.gain("kd", 2.0 * np.sqrt(np.asarray(kp, dtype=float)) if kd is None else kd, "1/s")
        self.friction = PassiveForces(self) if friction else None

    def gains(self) -> tuple[Any, Any]:
        """(kp, kd) as they are now."""
        if self.by_frequency:
            omega = self.frequency.resolve()
            return omega * omega, 2.0 * (self.damping_ratio * omega)
        return self.kp.resolve(), self.kd.resolve()

    def torque(self, q: Any, v: Any, reference: Any) -> Any:
        """The law itself, of any q and v: also for `Simulation(force=...)`, where it acts in continuous time."""
        q_d, v_d, a_d = joint_sample(self, reference)
        kp, kd = self.gains()
        u = self.robot.inverse_dynamics(q, v, a_d + kd * (v_d - v) + kp * (q_d - q))
        return u if self.friction is None else u + self.friction(q, v_d) + self.friction.damping * (v - v_d)

    def step(self, state: dict[str, Any], x: Any, reference: Any) -> tuple[Any, dict[str, Any]]:
        """The joint forces."""
        return self.torque(x.q, x.v, reference), {}


class JointImpedance(ArmController):
    """u = K (q_d - q) + D (v_d - v) + g(q): the arm is a spring and a damper about the reference; nothing else is cancelled.

    With a reference at rest the energy  1/2 v^T M v + 1/2 e^T K e  grows by no more than the work of what pushes the arm: it is
    passive for any positive stiffness and damping. `stiffness`: N m/rad. `damping`: N m s/rad, or by `damping_ratio`:
    "diagonal" (default) D = 2 zeta sqrt(K_j M_jj(q)) for each joint; "factorised"  D = 2 zeta K^1/2 S^1/2 K^1/2  with
    S = K^-1/2 M(q) K^-1/2, the full matrix with which M, D and K share their modes, each with this damping ratio.
    The acceleration of the reference is not used. By default a joint yields by 0.1 rad to a force of its load.
    """

    def __init__(
        self,
        simulation: Simulation,
        *,
        stiffness: Any = None,
        damping: Any = None,
        damping_ratio: Any = None,
        design: str = DESIGNS[0],
        gravity: bool = True,
        friction: bool = True,
        **options: Any,
    ) -> None:
        super().__init__(simulation, **options)
        if design not in DESIGNS:
            raise ControlError(f"controller '{self.name}': design must be {' or '.join(DESIGNS)}, got {design!r:.40}")
        if damping is not None and (damping_ratio is not None or design != DESIGNS[0]):
            raise ControlError(f"controller '{self.name}': give damping, or damping_ratio with a design, and not both")
        least = 1e-9 if design == DESIGNS[1] else 0.0  # its square root is divided by
        value = default_gains(self, YIELD)[0] if stiffness is None else stiffness
        self.stiffness = self.gain("stiffness", value, "N m/rad", minimum=least)
        self.damping = None if damping is None else self.gain("damping", damping, "N m s/rad")
        self.damping_ratio = None
        if damping is None:
            self.damping_ratio = self.gain("damping_ratio", 1.0 if damping_ratio is None else damping_ratio, "1")
        if self.damping_ratio is not None and design == DESIGNS[1] and self.damping_ratio.shape:
            raise ControlError(f"controller '{self.name}': the factorised design has one damping_ratio for all modes")
        self.design, self.gravity = design, bool(gravity)
        self.friction = PassiveForces(self) if friction else None

    def damping_force(self, q: Any, rate: Any) -> Any:
        """D(q) rate."""
        if self.damping_ratio is None:
            assert self.damping is not None
            return self.damping * rate
        M = self.robot.mass_matrix(q)
        root = np.sqrt(np.zeros(self.size) + self.stiffness.resolve())
        if self.design == DESIGNS[0]:
            return self.damping_ratio * (2.0 * root * np.sqrt(np.array([M[j, j] for j in range(self.size)])) * rate)
        S = M / (root[:, None] * root[None, :])
        w, V = eigh(S)
        inside = V @ (np.sqrt(w) * (V.T @ (root * rate)))
        return self.damping_ratio * (2.0 * root * inside)

    def energy(self, q: Any, v: Any, reference: Any) -> Any:
        """1/2 v^T M v + 1/2 e^T K e, J: what is stored if the reference is at rest and gravity is fed forward."""
        e = joint_sample(self, reference).position - q
        return self.robot.kinetic_energy(q, v) + 0.5 * (e @ (self.stiffness * e))

    def torque(self, q: Any, v: Any, reference: Any) -> Any:
        """The law itself, of any q and v: also for `Simulation(force=...)`, where it acts in continuous time."""
        q_d, v_d, _ = joint_sample(self, reference)
        u = self.stiffness * (q_d - q) + self.damping_force(q, v_d - v)
        u = u if self.friction is None else u + self.friction(q, v_d)
        return u + self.robot.gravity_forces(q) if self.gravity else u

    def step(self, state: dict[str, Any], x: Any, reference: Any) -> tuple[Any, dict[str, Any]]:
        """The joint forces."""
        return self.torque(x.q, x.v, reference), {}
