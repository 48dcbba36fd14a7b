"""Passivity-based control and adaptive control of arms (Slotine and Li 1987).

    controller = AdaptiveControl(world, gain=5.0)
    loop = cd.Loop(world, lambda x: controller(x, move.at(x.t)))

With e = q_d - q, the reference velocity v_r = v_d + Lambda e, its rate a_r = a_d + Lambda e' and s = v_r - v = e' + Lambda e,

    u = M(q) a_r + C(q, v) v_r + g(q) + Kd s

gives  M s' + C s + Kd s = 0,  and because Mdot - 2 C is skew-symmetric, 1/2 s^T M s decays at the rate s^T Kd s: no acceleration
is measured, and nothing is inverted. The adaptive form has the same terms linear in parameters that it estimates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.control.arm_controller import ArmController
from condyle.control.controllers import motors
from condyle.control.joint_gains import DIGITS, YIELD, default_gains, joint_sample, rounded
from condyle.dynamics.passive import FRICTION_SPEED
from condyle.dynamics.reference_motion import reference_forces, reference_regressor
from condyle.dynamics.regressor import inertial_parameters, inverse_dynamics_regressor
from condyle.errors import ControlError
from condyle.robot.model import Model
from condyle.robot.names import nearest
from condyle.simulate.simulation import Simulation

Array = np.ndarray

FRICTION_PART = 0.02  # of a joint's load: the size of friction forces, for the adaptation of friction
SMALLEST = 1e-3  # of the largest eigenvalue of a pseudo-inertia: floor of the others, for links modelled as points or rods


class PassivityControl(ArmController):
    """u = M a_r + C(q, v) v_r + g + Kd s  with  v_r = v_d + Lambda e,  s = v_r - v;  {"u": joint forces, "s": s}.

    `bandwidth`: Lambda, 1/s: e' + Lambda e = s. `kd`: Kd, N m s/rad. Both are positive, one for all joints or one for each; the
    storage 1/2 s^T M s of the error grows by no more than the work of pushes on -s. By default Lambda is 10 1/s and Kd is that
    times the mean inertia of each joint.
    """

    def __init__(self, simulation: Simulation, *, bandwidth: Any = None, kd: Any = None, **options: Any) -> None:
        super().__init__(simulation, **options)
        P, D = default_gains(self, YIELD)
        self.bandwidth = self.gain("bandwidth", rounded(2.0 * P / D, DIGITS) if bandwidth is None else bandwidth, "1/s")
        self.kd = self.gain("kd", 0.5 * D if kd is None else kd, "N m s/rad")

    def reference(self, q: Any, v: Any, reference: Any) -> tuple[Any, Any, Any]:
        """(v_r, a_r, s)."""
        q_d, v_d, a_d = joint_sample(self, reference)
        v_r, a_r = v_d + self.bandwidth * (q_d - q), a_d + self.bandwidth * (v_d - v)
        return v_r, a_r, v_r - v

    def energy(self, q: Any, v: Any, reference: Any) -> Any:
        """1/2 s^T M s, J: the storage of the error."""
        return self.robot.kinetic_energy(q, self.reference(q, v, reference)[2])

    def step(self, state: dict[str, Any], x: Any, reference: Any) -> tuple[Any, dict[str, Any]]:
        """The joint forces."""
        v_r, a_r, s = self.reference(x.q, x.v, reference)
        return {"u": reference_forces(self.robot.model, x.q, x.v, v_r, a_r) + self.kd * s, "s": s}, {}


class AdaptiveControl(PassivityControl):
    """u = Y(q, v, v_r, a_r) p + Kd s  with  p' = gain Gamma Y^T s - leakage (p - p_0);  {"u", "s", "model"}, model = Y p.

    The estimate p is the block's state "estimate": mass, first moments and inertia of each link of `links` (by default all), ten
    numbers each as in `inertial_parameters`, so a load in the gripper is part of the last link; with friction=True then a viscous
    coefficient and a dry friction of each joint, for the force  b v_r + f v_r / sqrt(v_r^2 + friction_speed^2).  p starts at the
    controller's model, friction at zero. The other links are as in the model.

    `gain` (1/J) scales Gamma, one number for all robots and arms: with the pseudo-inertia P_0 of a link in the model, its
    pseudo-inertia P moves by  gain P_0 L P_0  for the symmetric L with tr(L P) = s^T Y p. So no units and no frames enter, and
    1/2 s^T M s + 1/(2 gain) tr((P_0^-1 (P - P_true))^2) never grows (the metric of Lee, Kwon and Park 2018, at the model).
    `leakage`: 1/s, pulls the estimate back to the model where nothing excites it; 0 by default.
    """

    def __init__(
        self,
        simulation: Simulation,
        *,
        gain: Any = 1.0,
        leakage: Any = 0.0,
        friction: bool = False,
        friction_speed: float = FRICTION_SPEED,
        links: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(simulation, **options)
        model = self.robot.model
        self.links = _chosen(self.name, model, links)
        self.adaptation = self.parameter("gain", gain, "1/J", minimum=0.0)
        self.leakage = self.parameter("leakage", leakage, "1/s", minimum=0.0)
        self.friction, self.friction_speed = bool(friction), float(friction_speed)
        nominal = inertial_parameters(model).astype(float)
        self.columns = np.concatenate([np.arange(10 * k, 10 * (k + 1)) for k in self.links])
        # what is not adapted: the other links, and armature
        self.fixed = np.setdiff1d(np.arange(10 * len(model.links)), self.columns)
        self.known = nominal[self.fixed]
        self.armature = np.array([link.armature for link in model.links], dtype=float)
        self.start = np.concatenate([nominal[self.columns], np.zeros(2 * self.size if self.friction else 0)])
        self.metrics = [natural_metric(nominal[10 * k : 10 * (k + 1)]) for k in self.links]
        self.friction_metric = (FRICTION_PART * motors(simulation).load) ** 2
        self.state("estimate", self.start)

    def regressor(self, q: Any, v: Any, v_r: Any, a_r: Any) -> tuple[Any, Any]:
        """(Y of the estimate, the joint forces of what is not estimated)."""
        Y = reference_regressor(self.robot.model, q, v, v_r, a_r)
        rest = Y[:, self.fixed] @ self.known + self.armature * a_r if len(self.known) else self.armature * a_r
        return self._with_friction(Y[:, self.columns], v_r), rest

    def _with_friction(self, Y: Any, v_r: Any) -> Any:
        if not self.friction:
            return Y
        dry = v_r / np.sqrt(v_r * v_r + self.friction_speed**2)
        return np.concatenate([Y, np.diag(v_r), np.diag(dry)], axis=1)

    def step(self, state: dict[str, Any], x: Any, reference: Any) -> tuple[Any, dict[str, Any]]:
        """The joint forces, and the estimate after the update."""
        v_r, a_r, s = self.reference(x.q, x.v, reference)
        Y, rest = self.regressor(x.q, x.v, v_r, a_r)
        p = state["estimate"]
        model = Y @ p + rest
        rate = self.adaptation * self._scaled(Y.T @ s) - self.leakage * (p - self.start)
        return {"u": model + self.kd * s, "s": s, "model": model}, {"estimate": p + rate * self.dt}

    def _scaled(self, gradient: Any) -> Any:
        """Gamma times a gradient by the parameters."""
        parts = [G @ gradient[10 * k : 10 * (k + 1)] for k, G in enumerate(self.metrics)]
        if self.friction:
            n = 10 * len(self.links)
            parts += [self.friction_metric * gradient[n : n + self.size], self.friction_metric * gradient[n + self.size :]]
        return np.concatenate(parts)

    def predicted(self, q: Any, v: Any, a: Any, estimate: Any) -> Array:
        """The joint forces of an estimate for motions (..., nv), in NumPy:  Y(q, v, a) p."""
        model, shape = self.robot.model, np.shape(q)[:-1]
        if not hasattr(self, "_regressor"):
            self._regressor = self.robot.function(lambda model, q, v, a: inverse_dynamics_regressor(model, q, v, a))
        Y = np.asarray(self._regressor(q, v, a)).reshape(*shape, self.size, 10 * len(model.links))
        p, v = np.asarray(estimate, dtype=float), np.asarray(v, dtype=float)
        n = len(self.columns)
        tau = np.einsum("...ij,...j->...i", Y[..., self.columns], p[..., :n])
        tau = tau + Y[..., self.fixed] @ self.known + self.armature * a
        if self.friction:
            dry = v / np.sqrt(v * v + self.friction_speed**2)
            tau = tau + p[..., n : n + self.size] * v + p[..., n + self.size :] * dry
        return np.asarray(tau)


def natural_metric(parameters: Array) -> Array:
    """G (10, 10) with  G y  the parameters of  P_0 L P_0:  P_0 the pseudo-inertia of `parameters`, L that with tr(L P) = y . p.

    The pseudo-inertia is  [[1/2 tr(I) - I, h], [h^T, m]],  4 x 4, positive definite for a body of positive density.
    """
    basis = np.array([pseudo_inertia(e) for e in np.eye(10)])
    w, V = np.linalg.eigh(pseudo_inertia(parameters))
    P = V @ np.diag(np.maximum(w, SMALLEST * max(float(w[-1]), 1e-12))) @ V.T
    # the 10 x 10 matrix of <A, B> = tr(P^-1 A P^-1 B); its inverse takes gradients to rates
    scaled = np.linalg.solve(P, basis)
    metric = np.einsum("aij,bji->ab", scaled, scaled)
    found = np.linalg.inv((metric + metric.T) / 2.0)
    # the last bits of LAPACK depend on the processor
    size = np.sqrt(np.diag(found))
    return np.round((found + found.T) / (2.0 * np.outer(size, size)), 9) * np.array(
        [[float(f"{a:.8e}") * float(f"{b:.8e}") for b in size] for a in size]
    )


def pseudo_inertia(parameters: Array) -> Array:
    """[[1/2 tr(I) - I, h], [h^T, m]] of ten numbers (m, h, Ixx, Ixy, Iyy, Ixz, Iyz, Izz), 4 x 4."""
    m, hx, hy, hz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz = parameters
    I = np.array([[Ixx, Ixy, Ixz], [Ixy, Iyy, Iyz], [Ixz, Iyz, Izz]])
    h = np.array([[hx], [hy], [hz]])
    return np.block([[0.5 * np.trace(I) * np.eye(3) - I, h], [h.T, np.array([[m]])]])


def _chosen(name: str, model: Model, links: Any) -> list[int]:
    """The indices of links by name; all by default."""
    if links is None:
        return list(range(len(model.links)))
    known = [link.name for link in model.links]
    wanted = [links] if isinstance(links, str) else list(links)
    for each in wanted:
        if each not in known:
            raise ControlError(f"controller '{name}': the robot has no moving link '{each!s:.60}'{nearest(str(each), known)}")
    if not wanted:
        raise ControlError(f"controller '{name}': links= names no link; leave it out to adapt all of them")
    return sorted({known.index(each) for each in wanted})
