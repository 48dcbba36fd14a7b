"""The functions of a robot, constrained or not: a model and a coordinate map  q = gamma(y), v = T w.

    T^T M T dw/dt = tau - T^T (c + M Tdot w)

y and w take the places of q and v, and `tau` are the forces along the reduced velocities, T^T of the joint forces. The identity
map returns its arguments, so a free robot has the recursions of condyle/dynamics unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condyle.constraints.coordinate_map import Configurations, CoordinateMap, EvaluatedMap
from condyle.constraints.couplings import Coupled
from condyle.dynamics import aba, chain_derivatives, coriolis, crba, derivatives, energy, kinematics, manifold, passive, rnea
from condyle.dynamics.posture import has_posture_forces
from condyle.dynamics.rnea import Wrenches
from condyle.dynamics.solve import cholesky_solve
from condyle.errors import RobotError
from condyle.robot.model import Model
from condyle.robot.names import nearest
from condyle.robot.spatial import Array, product
from condyle.tape.derive import jacobian_at_zero


@dataclass(frozen=True)
class System:
    """A model with the map from reduced coordinates to its own."""

    model: Model
    coordinate_map: CoordinateMap

    @property
    def name(self) -> str:
        """The robot's name."""
        return self.model.name

    @property
    def nq(self) -> int:
        """The number of reduced coordinates."""
        return self.coordinate_map.reduced.nq

    @property
    def nv(self) -> int:
        """The number of reduced velocities."""
        return self.coordinate_map.nv

    @property
    def may_not_converge(self) -> bool:
        """Whether there may be configurations at which the constraints cannot be met: linear couplings have none."""
        return not all(isinstance(constraint, Coupled) for constraint in self.coordinate_map.constraints)

    def at(self, y: Array) -> EvaluatedMap:
        """The coordinate map at y."""
        return self.coordinate_map.at(self.model, y)

    def q(self, y: Array) -> Array:
        """All coordinates."""
        return self.coordinate_map.configurations(self.model, y)[0]

    def for_precision(self, bits: int) -> System:
        """With the iterations that numbers of so many bits take."""
        return replace(self, coordinate_map=self.coordinate_map.for_precision(bits))


# ---- between reduced and all coordinates


def lift(system: System, y: Array, w: Array) -> tuple[Array, Array]:
    """(q, v) of all coordinates."""
    at = system.at(y)
    return at.q, at.lift(w)


def lifted_arguments(system: System, arrays: dict[str, Array]) -> dict[str, Array]:
    """Arguments called q, v and a of all coordinates, from y, w and dw/dt; the others as they are."""
    if "q" not in arrays:
        return arrays
    at, w, out = system.at(arrays["q"]), arrays.get("v", np.zeros(system.nv)), dict(arrays)
    out["q"] = at.q
    if "v" in arrays:
        out["v"] = at.lift(w)
    if "a" in arrays:
        out["a"] = at.acceleration(arrays["a"], w)
    return out


def reduced_forces(system: System, y: Array, tau: Array) -> Array:
    """T^T tau."""
    return system.at(y).project(tau)


def integrate(system: System, y: Array, dw: Array) -> Array:
    """y moved by velocity times time; where only velocities are constrained, to first order."""
    reduced = system.coordinate_map.reduced
    return manifold.integrate(reduced, y, dw if system.coordinate_map.holonomic else system.at(y).rate(dw))


def difference(system: System, y0: Array, y1: Array) -> Array:
    """The reduced velocity times time that leads from y0 to y1."""
    if not system.coordinate_map.holonomic:
        raise RobotError(
            f"robot '{system.name}' has velocities that are not the rates of its coordinates, so none leads straight from "
            "one configuration to another; subtract the coordinates instead"
        )
    return manifold.difference(system.coordinate_map.reduced, y0, y1)


# ---- the functions of all coordinates, in reduced ones


def _in_reduced(full: Callable[..., Any], arrays: int, back: Callable[[EvaluatedMap, Any], Any] | None = None) -> Any:
    """full(model, q, v, a, ...) of (y, w, dw/dt, ...), of which it takes so many `arrays`; `back` reduces the result."""

    def physics(system: System, y: Array, *rest: Any) -> Any:
        at = system.at(y)
        lifted = [at.lift(rest[0])] if arrays > 1 else []
        lifted += [at.acceleration(rest[1], rest[0])] if arrays > 2 else []
        result = full(system.model, at.q, *lifted, *rest[arrays - 1 :])
        return result if back is None else back(at, result)

    return physics


def _at_configuration(full: Callable[..., Any]) -> Any:
    """full(model, q, ...) of (y, ...); the map of velocities is not needed."""
    return lambda system, y, *rest: full(system.model, system.q(y), *rest)


frame_pose = _at_configuration(lambda *given: ((X := kinematics.frame_pose(*given)).R, X.p))
frame_velocity = _in_reduced(kinematics.frame_velocity, 2, lambda at, V: V.vector())
frame_acceleration = _in_reduced(kinematics.frame_acceleration, 3, lambda at, A: A.vector())
jacobian = _in_reduced(kinematics.jacobian, 1, EvaluatedMap.pull_back)
mass_matrix = _in_reduced(crba.mass_matrix, 1, EvaluatedMap.congruence)
inverse_dynamics = _in_reduced(rnea.inverse_dynamics, 3, EvaluatedMap.project)
gravity_forces = _in_reduced(rnea.gravity_forces, 1, EvaluatedMap.project)
kinetic_energy = _in_reduced(energy.kinetic_energy, 2)
potential_energy = _at_configuration(energy.potential_energy)
momentum = _in_reduced(energy.momentum, 2)
center_of_mass = _at_configuration(energy.center_of_mass)
com_jacobian = _in_reduced(energy.com_jacobian, 1, EvaluatedMap.pull_back)


def jacobian_rate(system: System, y: Array, w: Array, frame: str, reference: str) -> Array:
    """dJ/dt = Jdot T + J Tdot."""
    at = system.at(y)
    rate = kinematics.jacobian_rate(system.model, at.q, at.lift(w), frame, reference)
    if at.T is None:
        return rate
    return rate @ at.T + kinematics.jacobian(system.model, at.q, frame, reference) @ at.map_rate(w)


def inverse_mass_matrix(system: System, y: Array) -> Array:
    """(T^T M T)^-1."""
    if system.coordinate_map.identity:
        return crba.inverse_mass_matrix(system.model, y)
    return cholesky_solve(mass_matrix(system, y), np.eye(system.nv).astype(object))


def bias_forces(system: System, y: Array, w: Array) -> Array:
    """The forces at dw/dt = 0."""
    return inverse_dynamics(system, y, w, np.zeros(system.nv))


def forward_dynamics(system: System, y: Array, w: Array, tau: Array, wrenches: Wrenches | None = None) -> Array:
    """dw/dt; of a free robot by the articulated-body algorithm."""
    if system.coordinate_map.identity:
        return aba.forward_dynamics(system.model, y, w, tau, wrenches)
    return _acceleration(system.model, system.at(y), w, tau, wrenches)


def _acceleration(model: Model, at: EvaluatedMap, w: Array, tau: Array, wrenches: Wrenches | None = None) -> Array:
    bias = rnea.inverse_dynamics(model, at.q, at.lift(w), at.drift(w), wrenches)
    M = at.congruence(crba.mass_matrix(model, at.q))
    return cholesky_solve(M, np.array(tau - at.project(bias), dtype=object))


def coriolis_matrix(system: System, y: Array, w: Array) -> Array:
    """T^T (C T + M Tdot): its product with w is c - g, and Mdot - 2 C is skew-symmetric as it is for the full robot."""
    at = system.at(y)
    C = coriolis.coriolis_matrix(system.model, at.q, at.lift(w))
    if at.T is None:
        return C
    return at.project(C @ at.T + crba.mass_matrix(system.model, at.q) @ at.map_rate(w))


def inverse_dynamics_derivatives(system: System, y: Array, w: Array, a: Array) -> tuple[Array, Array, Array]:
    """(dtau/dy, dtau/dw, dtau/da); y in its tangent space."""
    if system.coordinate_map.identity:
        return derivatives.inverse_dynamics_derivatives(system.model, y, w, a)
    at = system.at(y)
    by_y, by_w, M = _derivatives(system, at, w, a)
    return by_y, by_w, at.congruence(M)


def forward_dynamics_derivatives(system: System, y: Array, w: Array, tau: Array) -> tuple[Array, Array, Array]:
    """(da/dy, da/dw, da/dtau); y in its tangent space."""
    if system.coordinate_map.identity:
        if chain_derivatives.is_long_chain(system.model):
            return chain_derivatives.forward_dynamics_derivatives(system.model, y, w, tau)
        return derivatives.forward_dynamics_derivatives(system.model, y, w, tau)
    at = system.at(y)
    a = _acceleration(system.model, at, w, tau)
    by_y, by_w, M = _derivatives(system, at, w, a)
    answer = cholesky_solve(at.congruence(M), np.column_stack([-by_y, -by_w, np.eye(system.nv)]))
    m, n = by_y.shape[1], system.nv
    return answer[:, :m], answer[:, m : m + n], answer[:, m + n :]


# ---- with the passive forces of the joints, whose dry friction is smooth below `friction_speed`


def passive_forces(system: System, y: Array, w: Array, friction_speed: float = passive.FRICTION_SPEED) -> Array:
    """T^T tau_p: the forces of damping, dry friction and springs along the reduced velocities."""
    return _passive(system, system.at(y), w, friction_speed)


def _passive(system: System, at: EvaluatedMap, w: Array, friction_speed: float, a: Array | None = None) -> Array:
    """T^T tau_p; in inverse dynamics, with the friction of the velocity to which the acceleration `a` leads."""
    v = at.lift(w)
    opposed = None if a is None else v + passive.AHEAD * at.acceleration(a, w)
    return at.project(passive.passive_forces(system.model, at.q, v, friction_speed, opposed))


def _passive_derivatives(
    system: System, y: Array, w: Array, friction_speed: float, a: Array | None = None
) -> tuple[Array, Array, Array]:
    """T^T tau_p by y, in its tangent space, by w and by a."""
    at, n = system.at(y), system.nv
    if at.T is None and not has_posture_forces(system.model):
        by_q, by_v, by_u = passive.passive_force_derivatives(
            system.model, w if a is None else w + passive.AHEAD * a, friction_speed
        )
        return np.diag(by_q), np.diag(by_v + by_u), np.diag(passive.AHEAD * by_u)

    def by(displaced: Callable[[Array], Array], size: int) -> Array:
        return jacobian_at_zero(lambda d: {"tau": displaced(d)}, size)["tau"]

    moved = by(lambda d: _passive(system, at.moved(d), w, friction_speed, a), system.coordinate_map.reduced.nv)
    faster = by(lambda d: _passive(system, at, w + d, friction_speed, a), n)
    return moved, faster, by(lambda d: _passive(system, at, w, friction_speed, a + d), n) if a is not None else np.zeros((n, n))


def forward_dynamics_with_passive(system: System, y: Array, w: Array, tau: Array, *rest: Any) -> Array:
    """dw/dt under tau and the passive forces; `rest`: wrenches, if there are any, and the speed of dry friction."""
    *wrenches, friction_speed = rest
    return forward_dynamics(system, y, w, tau + passive_forces(system, y, w, friction_speed), *wrenches)


def inverse_dynamics_with_passive(system: System, y: Array, w: Array, a: Array, *rest: Any) -> Array:
    """The forces that produce `a` against the passive forces; `rest` as in `forward_dynamics_with_passive`."""
    *wrenches, friction_speed = rest
    tau: Array = inverse_dynamics(system, y, w, a, *wrenches) - _passive(system, system.at(y), w, friction_speed, a)
    return tau


def forward_derivatives_with_passive(system: System, y: Array, w: Array, tau: Array, friction_speed: float) -> tuple[Array, ...]:
    """(da/dy, da/dw, da/dtau) of `forward_dynamics_with_passive`."""
    by_y, by_w, _ = _passive_derivatives(system, y, w, friction_speed)
    total = tau + passive_forces(system, y, w, friction_speed)
    a_y, a_w, a_tau = forward_dynamics_derivatives(system, y, w, total)
    return a_y + product(a_tau, by_y), a_w + product(a_tau, by_w), a_tau


def inverse_derivatives_with_passive(system: System, y: Array, w: Array, a: Array, friction_speed: float) -> tuple[Array, ...]:
    """(dtau/dy, dtau/dw, dtau/da) of `inverse_dynamics_with_passive`."""
    by_y, by_w, by_a = _passive_derivatives(system, y, w, friction_speed, a)
    tau_y, tau_w, M = inverse_dynamics_derivatives(system, y, w, a)
    return tau_y - by_y, tau_w - by_w, M - by_a


def _derivatives(system: System, at: EvaluatedMap, w: Array, a: Array) -> tuple[Array, Array, Array]:
    """(by y, by w, the full M): the recursions for the full robot, and tape derivatives of the map around them."""
    model, v, acceleration = system.model, at.lift(w), at.acceleration(a, w)
    force = rnea.inverse_dynamics(model, at.q, v, acceleration)
    by_q, by_v, M = derivatives.inverse_dynamics_derivatives(model, at.q, v, acceleration)

    def displaced(d: Array) -> Any:
        there = at.moved(d)
        return {"v": there.lift(w), "a": there.acceleration(a, w), "tau": there.project(force)}

    def faster(d: Array) -> Any:
        return {"a": at.drift(w + d)}

    move = jacobian_at_zero(displaced, system.coordinate_map.reduced.nv)
    speed = jacobian_at_zero(faster, system.nv)
    by_y = move["tau"] + at.project(by_q @ at.dq_dy + by_v @ move["v"] + M @ move["a"])
    return by_y, at.project(at.pull_back(by_v) + M @ speed["a"]), M


def constraint_forces(system: System, y: Array, w: Array, tau: Array) -> Array:
    """What the full equations lack,  M a + c - tau, for joint forces tau of the full robot: the constraint exerts it."""
    return _lacking(system.model, system.at(y), w, tau)


def _lacking(model: Model, at: EvaluatedMap, w: Array, tau: Array) -> Array:
    a = _acceleration(model, at, w, at.project(tau))
    return rnea.inverse_dynamics(model, at.q, at.lift(w), at.acceleration(a, w)) - tau


def reactions(system: System, y: Array, w: Array, tau: Array) -> Array:
    """The forces along the rows of the constraints that add up to `constraint_forces`."""
    at = system.at(y)
    here = Configurations.of(system.model, at.q)
    rows = np.vstack([constraint.reaction_rows(here) for constraint in system.coordinate_map.constraints])
    return cholesky_solve(rows @ rows.T, np.array(rows @ _lacking(system.model, at, w, tau), dtype=object))


# ---- the functions by name


SIZES: dict[str, Callable[[System], Any]] = {
    **dict.fromkeys(("q", "q0", "q1", "posture"), lambda system: system.nq),
    **dict.fromkeys(("v", "a", "tau", "dv"), lambda system: system.nv),
    "tau_full": lambda system: system.model.nv,
    "p": lambda system: 3,
    "R": lambda system: (3, 3),
    "tolerance": lambda system: 1,
}


@dataclass(frozen=True)
class RobotFunction:
    """Inputs by name (their sizes are in SIZES), the physics of a system and them, and the names of the outputs."""

    inputs: tuple[str, ...]
    physics: Callable[..., Any]
    outputs: tuple[str, ...]

    def named(self, result: Any) -> dict[str, Any]:
        """The results by their names."""
        return dict(zip(self.outputs, result if isinstance(result, tuple) else (result,), strict=True))


# fmt: off
ROBOT_FUNCTIONS: dict[str, RobotFunction] = {
    "forward_dynamics":   RobotFunction(("q", "v", "tau"), forward_dynamics, ("a",)),
    "inverse_dynamics":   RobotFunction(("q", "v", "a"), inverse_dynamics, ("tau",)),
    "mass_matrix":        RobotFunction(("q",), mass_matrix, ("M",)),
    "inverse_mass_matrix": RobotFunction(("q",), inverse_mass_matrix, ("Minv",)),
    "gravity_forces":     RobotFunction(("q",), gravity_forces, ("g",)),
    "bias_forces":        RobotFunction(("q", "v"), bias_forces, ("c",)),
    "coriolis_matrix":    RobotFunction(("q", "v"), coriolis_matrix, ("C",)),
    "inverse_dynamics_derivatives": RobotFunction(
        ("q", "v", "a"), inverse_dynamics_derivatives, ("dtau_dq", "dtau_dv", "dtau_da")),
    "forward_dynamics_derivatives": RobotFunction(
        ("q", "v", "tau"), forward_dynamics_derivatives, ("da_dq", "da_dv", "da_dtau")),
    "center_of_mass":     RobotFunction(("q",), center_of_mass, ("com",)),
    "center_of_mass_jacobian": RobotFunction(("q",), com_jacobian, ("Jcom",)),
    "kinetic_energy":     RobotFunction(("q", "v"), kinetic_energy, ("T",)),
    "potential_energy":   RobotFunction(("q",), potential_energy, ("V",)),
    "momentum":           RobotFunction(("q", "v"), momentum, ("h",)),
    "passive_forces":     RobotFunction(("q", "v"), passive_forces, ("tau",)),
    "integrate":          RobotFunction(("q", "dv"), integrate, ("q1",)),
    "difference":         RobotFunction(("q0", "q1"), difference, ("dv",)),
}
CONSTRAINT_FUNCTIONS: dict[str, RobotFunction] = {
    "lift":               RobotFunction(("q", "v"), lift, ("q", "v")),
    "constraint_forces":  RobotFunction(("q", "v", "tau_full"), constraint_forces, ("f",)),
    "reactions":          RobotFunction(("q", "v", "tau_full"), reactions, ("r",)),
    "reduce_forces":      RobotFunction(("q", "tau_full"), reduced_forces, ("tau",)),
}
# with the passive forces of the joints: the speed of dry friction follows the arrays
PASSIVE_FUNCTIONS: dict[str, RobotFunction] = {
    "passive_forces":     ROBOT_FUNCTIONS["passive_forces"],
    "forward_dynamics":   RobotFunction(("q", "v", "tau"), forward_dynamics_with_passive, ("a",)),
    "inverse_dynamics":   RobotFunction(("q", "v", "a"), inverse_dynamics_with_passive, ("tau",)),
    "inverse_dynamics_derivatives": RobotFunction(
        ("q", "v", "a"), inverse_derivatives_with_passive, ("dtau_dq", "dtau_dv", "dtau_da")),
    "forward_dynamics_derivatives": RobotFunction(
        ("q", "v", "tau"), forward_derivatives_with_passive, ("da_dq", "da_dv", "da_dtau")),
}
# of a frame: the frame, and the reference but for poses, follow the arrays
FRAME_FUNCTIONS: dict[str, RobotFunction] = {
    "frame_pose":         RobotFunction(("q",), frame_pose, ("R", "p")),
    "frame_velocity":     RobotFunction(("q", "v"), frame_velocity, ("V",)),
    "frame_acceleration": RobotFunction(("q", "v", "a"), frame_acceleration, ("A",)),
    "jacobian":           RobotFunction(("q",), jacobian, ("J",)),
    "jacobian_rate":      RobotFunction(("q", "v"), jacobian_rate, ("dJ",)),
}
# fmt: on


def robot_function(name: str, table: Mapping[str, RobotFunction]) -> RobotFunction:
    """The function of this name."""
    if name not in table:
        raise RobotError(f"there is no robot function '{name}'{nearest(name, list(table))}")
    return table[name]
