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

from condyle.blocks.limiters import saturated
from condyle.dynamics.reference_motion import reference_forces, reference_regressor
from condyle.dynamics.regressor import inertial_parameters, inverse_dynamics_regressor
from condyle.errors import ControlError
from condyle.methods.control.arm_controller import ArmController
from condyle.methods.control.controllers import motors
from condyle.methods.control.joint_gains import DIGITS, FRICTION_SPEED, YIELD, PassiveForces, default_gains, joint_sample, rounded
from condyle.robot.model import Model
from condyle.robot.names import nearest
from condyle.simulate.simulation import Simulation

Array = np.ndarray

ADAPTING = 0.03  # rad or m: an error whose storage may change a link by as much as it is, by default
LIMIT, LIMIT_CHOSEN = 5.0, 20.0  # of the estimate, by default: of all links, and of those that are chosen
FRICTION_PART = 0.02  # of a joint's load: the size of friction forces, for the adaptation of friction
METRIC_DIGITS = 9
LEAST_MASS, LEAST_RADIUS = 1e-3, 0.01  # kg, m: of a link in the metric, radius of gyration along every axis: no points and rods


class PassivityControl(ArmController):
    """u = M a_r + C(q, v) v_r + g + Kd s  with  v_r = v_d + Lambda e,  s = v_r - v;  {"u": joint forces, "s": s}.

    `bandwidth`: Lambda, 1/s: e' + Lambda e = s. `kd`: Kd, N m s/rad. Both are positive, one for all joints or one for each; the
    storage 1/2 s^T M s of the error grows by no more than the work of pushes on -s. By default Lambda is the frequency at which
    a joint yields by 0.1 rad to its load, and Kd is that times its mean inertia. `friction`: whether damping, dry friction and
    springs in the joints of the model are made up for, at v_r, and their difference from those at v damps s.
    """

    def __init__(
        self, simulation: Simulation, *, bandwidth: Any = None, kd: Any = None, friction: bool = True, **options: Any
    ) -> None:
        super().__init__(simulation, **options)
        P, D = default_gains(self, YIELD)
        self.bandwidth = self.gain("bandwidth", rounded(2.0 * P / D, DIGITS) if bandwidth is None else bandwidth, "1/s")
        self.kd = self.gain("kd", 0.5 * D if kd is None else kd, "N m s/rad")
        self.friction = PassiveForces(self) if friction else None

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
        u = reference_forces(self.robot.model, x.q, x.v, v_r, a_r) + self.kd * s
        return {"u": u if self.friction is None else u + self.friction(x.q, v_r), "s": s}, {}


class AdaptiveControl(PassivityControl):
    """u = Y(q, v, v_r, a_r) p + Kd s  with  p' = gain Gamma Y^T s - leakage (p - p_0);  {"u", "s", "model"}, model = Y p.

    The estimate p is the block's state "estimate": mass, first moments and inertia of each link of `links` (by default all), ten
    numbers each as in `inertial_parameters`, so a load in the gripper is part of the last link; with
    estimate_friction=True then a viscous coefficient b and a dry friction f of each joint, in addition to those of the model, for
    the force  b v_r + f v_r / sqrt(v_r^2 + 0.01^2).  p starts at the controller's model; the other links are as in the model.

    `gain` (1/J) scales Gamma, one number for links of any size: with the pseudo-inertia P_0 of a link in the model, its
    pseudo-inertia P moves by  gain P_0 L P_0  for the symmetric L with tr(L P) = s^T Y p. So no units and no frames enter, and
    1/2 s^T M s + 1/(2 gain) tr((P_0^-1 (P - P_true))^2) never grows (the metric of Lee, Kwon and Park 2018, at the model).
    By default an error of 0.03 rad in every joint may change each link by as much as it is. `limit`: how far the estimate of a
    link may be from the model in this metric, in multiples of the link; it is projected back to there, because sampled control
    with a far too large inertia is unstable. By default 5, and 20 if `links` are chosen. `leakage`: 1/s, pulls the estimate back
    to the model where nothing excites it; 0 by default.
    """

    def __init__(
        self,
        simulation: Simulation,
        *,
        gain: Any = None,
        leakage: Any = 0.0,
        limit: Any = None,
        estimate_friction: bool = False,
        links: Any = None,
        **options: Any,
    ) -> None:
        super().__init__(simulation, **options)
        model = self.robot.model
        self.links = _chosen(self.name, model, links)
        stored = 0.5 * float(np.sum(np.zeros(self.size) + self.kd.default * self.bandwidth.default)) * ADAPTING**2
        gain = rounded(1.0 / max(stored, 1e-9), DIGITS) if gain is None else gain
        self.adaptation = self.parameter("gain", gain, "1/J", minimum=0.0)
        limit = (LIMIT if links is None else LIMIT_CHOSEN) if limit is None else limit
        self.limit = self.parameter("limit", limit, "1", minimum=1e-9)
        self.leakage = self.parameter("leakage", leakage, "1/s", minimum=0.0)
        self.estimate_friction = bool(estimate_friction)
        nominal = inertial_parameters(model).astype(float)
        self.columns = np.concatenate([np.arange(10 * k, 10 * (k + 1)) for k in self.links])
        # what is not adapted: the other links, and armature
        self.fixed = np.setdiff1d(np.arange(10 * len(model.links)), self.columns)
        self.known = nominal[self.fixed]
        self.armature = np.array([link.armature for link in model.links], dtype=float)
        self.start = np.concatenate([nominal[self.columns], np.zeros(2 * self.size if self.estimate_friction else 0)])
        metrics = [natural_metric(nominal[10 * k : 10 * (k + 1)]) for k in self.links]
        self.metrics, self.inverse_metrics = [G for G, _ in metrics], [inverse for _, inverse in metrics]
        size = rounded((FRICTION_PART * motors(simulation).load) ** 2, DIGITS)
        self.friction_metric = np.concatenate([size, size]) if self.estimate_friction else np.zeros(0)
        self.state("estimate", self.start)

    def regressor(self, q: Any, v: Any, v_r: Any, a_r: Any) -> tuple[Any, Any]:
        """(Y of the estimate, the joint forces of what is not estimated)."""
        Y = reference_regressor(self.robot.model, q, v, v_r, a_r)
        rest = self.armature * a_r
        rest = rest + Y[:, self.fixed] @ self.known if len(self.known) else rest
        rest = rest if self.friction is None else rest + self.friction(q, v_r)
        Y = Y[:, self.columns]
        return np.concatenate([Y, np.diag(v_r), np.diag(_direction(v_r))], axis=1) if self.estimate_friction else Y, rest

    def step(self, state: dict[str, Any], x: Any, reference: Any) -> tuple[Any, dict[str, Any]]:
        """The joint forces, and the estimate after the update."""
        v_r, a_r, s = self.reference(x.q, x.v, reference)
        Y, rest = self.regressor(x.q, x.v, v_r, a_r)
        p = state["estimate"]
        model = Y @ p + rest
        rate = self.adaptation * self._scaled(Y.T @ s) - self.leakage * (p - self.start)
        return {"u": model + self.kd * s, "s": s, "model": model}, {"estimate": self._projected(p + rate * self.dt)}

    def _scaled(self, gradient: Any) -> Any:
        """Gamma times a gradient by the parameters."""
        parts = [G @ gradient[10 * k : 10 * (k + 1)] for k, G in enumerate(self.metrics)]
        return np.concatenate([*parts, self.friction_metric * gradient[10 * len(self.links) :]])

    def _projected(self, p: Any) -> Any:
        """The nearest estimate within `limit` of the model, in the metric of the adaptation."""
        change, limit, parts = p - self.start, self.limit.resolve(), []
        for k, inverse in enumerate(self.inverse_metrics):
            d = change[10 * k : 10 * (k + 1)]
            # under one root, which has a derivative at the model, too
            parts.append(d * (limit / np.sqrt(np.maximum(d @ (inverse @ d), limit * limit))))
        bound = limit * np.sqrt(self.friction_metric)
        return self.start + np.concatenate([*parts, saturated(change[10 * len(self.links) :], -bound, bound)])

    def predicted(self, q: Any, v: Any, a: Any, estimate: Any) -> Array:
        """The joint forces of an estimate for motions (..., nv), in NumPy:  Y(q, v, a) p."""
        shape = np.shape(q)[:-1]
        Y = np.asarray(self.robot.function(inverse_dynamics_regressor)(q, v, a)).reshape(*shape, self.size, -1)
        p, v = np.asarray(estimate, dtype=float), np.asarray(v, dtype=float)
        n = len(self.columns)
        tau = np.einsum("...ij,...j->...i", Y[..., self.columns], p[..., :n])
        tau = tau + Y[..., self.fixed] @ self.known + self.armature * a
        tau = tau if self.friction is None else tau + self.friction(q, v)
        if self.estimate_friction:
            tau = tau + p[..., n : n + self.size] * v + p[..., n + self.size :] * _direction(v)
        return np.asarray(tau)


def natural_metric(parameters: Array) -> tuple[Array, Array]:
    """(G, G^-1), 10 x 10: G y are the parameters of  P_0 L P_0,  L that with tr(L P) = y . p, and  d . G^-1 d = tr((P_0^-1 D)^2).

    P_0 is the pseudo-inertia of `parameters`,  [[1/2 tr(I) - I, h], [h^T, m]],  positive definite for a body of positive density.
    """
    basis = np.array([pseudo_inertia(e) for e in np.eye(10)])
    P = pseudo_inertia(parameters)
    P[3, 3] = max(P[3, 3], LEAST_MASS)
    about_origin = np.outer(P[:3, 3], P[:3, 3]) / P[3, 3]
    w, V = np.linalg.eigh(P[:3, :3] - about_origin)
    P[:3, :3] = V @ np.diag(np.maximum(w, P[3, 3] * LEAST_RADIUS**2)) @ V.T + about_origin
    scaled = np.linalg.solve(P, basis)
    inverse = np.einsum("aij,bji->ab", scaled, scaled)
    return _without_last_bits(np.linalg.inv(inverse)), _without_last_bits(inverse)


def _without_last_bits(A: Array) -> Array:
    """A symmetric positive definite matrix without the last bits of LAPACK, which depend on the processor."""
    size = rounded(np.sqrt(np.diag(A)), METRIC_DIGITS)
    scale: Array = size[:, None] * size[None, :]
    # relative to the diagonal, small entries are rounding errors
    symmetric: Array = np.round((A + A.T) / (2.0 * scale), METRIC_DIGITS) * scale
    return symmetric


def pseudo_inertia(parameters: Array) -> Array:
    """[[1/2 tr(I) - I, h], [h^T, m]] of ten numbers (m, h, Ixx, Ixy, Iyy, Ixz, Iyz, Izz), 4 x 4."""
    m, hx, hy, hz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz = parameters
    I = np.array([[Ixx, Ixy, Ixz], [Ixy, Iyy, Iyz], [Ixz, Iyz, Izz]])
    h = np.array([[hx], [hy], [hz]])
    return np.block([[0.5 * np.trace(I) * np.eye(3) - I, h], [h.T, np.array([[m]])]])


def _direction(v: Any) -> Any:
    """v / |v|, smooth below FRICTION_SPEED."""
    return v / np.sqrt(v * v + FRICTION_SPEED**2)


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
