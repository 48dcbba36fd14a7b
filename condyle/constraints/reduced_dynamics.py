"""The physics of a constrained robot: T^T of the full equations, with  v = T w  and  a = T dw/dt + Tdot w  put into them.

    T^T M T dw/dt = tau - T^T (c + M Tdot w)

All functions have the arguments of those of a free robot, with y, w in the entries of q, v; `tau` are the forces along the
velocities that remain, T^T of the joint forces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.constraints.coordinate_map import Configurations, CoordinateMap, EvaluatedMap
from condyle.constraints.couplings import Coupled
from condyle.dynamics import coriolis, energy, kernels, kinematics, manifold
from condyle.dynamics.crba import mass_matrix as full_mass_matrix
from condyle.dynamics.derivatives import inverse_dynamics_derivatives as full_derivatives
from condyle.dynamics.kernels import Kernel
from condyle.dynamics.rnea import Wrenches
from condyle.dynamics.rnea import inverse_dynamics as full_inverse_dynamics
from condyle.dynamics.solve import cholesky_solve
from condyle.errors import RobotError
from condyle.robot.model import Model
from condyle.robot.spatial import Array, Force
from condyle.tape.local_derivatives import jacobian_at_zero


@dataclass(frozen=True)
class ReducedSystem:
    """A robot with the map from the coordinates that remain to its own."""

    model: Model
    coordinate_map: CoordinateMap

    @property
    def name(self) -> str:
        return self.model.name

    @property
    def nq(self) -> int:
        return self.coordinate_map.reduced.nq

    @property
    def nv(self) -> int:
        return self.coordinate_map.nv

    @property
    def may_not_converge(self) -> bool:
        """Whether there may be configurations at which the constraint cannot be met: linear couplings have none."""
        return not all(isinstance(layer, Coupled) for layer in self.coordinate_map.constraints)

    def at(self, y: Array) -> EvaluatedMap:
        return self.coordinate_map.at(self.model, y)

    def for_precision(self, bits: int) -> ReducedSystem:
        """With searches that go on until numbers of so many bits are right."""
        constraints = tuple(
            layer.for_precision(bits) if hasattr(layer, "for_precision") else layer for layer in self.coordinate_map.constraints
        )
        return ReducedSystem(self.model, CoordinateMap(constraints))


def congruence(T: Array, M: Array) -> Array:
    """T^T M T for a symmetric M, each entry computed once."""
    MT = M @ T
    out = np.zeros((T.shape[1], T.shape[1]), dtype=object)
    for i in range(len(out)):
        for j in range(i + 1):
            out[i, j] = out[j, i] = T[:, i] @ MT[:, j]
    return out


def lift(system: ReducedSystem, y: Array, w: Array) -> dict[str, Array]:
    """q and v of all coordinates."""
    place = system.at(y)
    return {"q": place.q, "v": place.T @ w}


def all_lifted(system: ReducedSystem, arrays: dict[str, Array]) -> dict[str, Array]:
    """Arguments called q, v and a, made of y, w and dw/dt; the others as they are."""
    place = system.at(arrays["q"]) if "q" in arrays else None
    out = dict(arrays)
    if place is not None:
        w = arrays.get("v", np.zeros(system.nv))
        out["q"] = place.q
        if "v" in arrays:
            out["v"] = place.T @ w
        if "a" in arrays:
            out["a"] = place.T @ arrays["a"] + place.drift(w)
    return out


def mass_matrix(system: ReducedSystem, y: Array) -> Array:
    place = system.at(y)
    return congruence(place.T, full_mass_matrix(system.model, place.q))


def inverse_mass_matrix(system: ReducedSystem, y: Array) -> Array:
    return cholesky_solve(mass_matrix(system, y), np.eye(system.nv).astype(object))


def inverse_dynamics(system: ReducedSystem, y: Array, w: Array, a: Array, wrenches: Wrenches | None = None) -> Array:
    place = system.at(y)
    full = full_inverse_dynamics(system.model, place.q, place.T @ w, place.T @ a + place.drift(w), wrenches)
    return place.T.T @ full


def bias_forces(system: ReducedSystem, y: Array, w: Array) -> Array:
    return inverse_dynamics(system, y, w, np.zeros(system.nv))


def gravity_forces(system: ReducedSystem, y: Array) -> Array:
    place = system.at(y)
    return place.T.T @ coriolis.gravity_forces(system.model, place.q)


def forward_dynamics(system: ReducedSystem, y: Array, w: Array, tau: Array, wrenches: Wrenches | None = None) -> Array:
    return _acceleration(system, system.at(y), w, tau, wrenches)


def _acceleration(system: ReducedSystem, place: EvaluatedMap, w: Array, tau: Array, wrenches: Wrenches | None = None) -> Array:
    bias = full_inverse_dynamics(system.model, place.q, place.T @ w, place.drift(w), wrenches)
    M = congruence(place.T, full_mass_matrix(system.model, place.q))
    return cholesky_solve(M, np.array(tau - place.T.T @ bias, dtype=object))


def coriolis_matrix(system: ReducedSystem, y: Array, w: Array) -> Array:
    """T^T (C T + M Tdot): its product with w is c - g, and Mdot - 2 C is skew-symmetric as it is for the full robot."""
    place = system.at(y)
    C = coriolis.coriolis_matrix(system.model, place.q, place.T @ w)
    return place.T.T @ (C @ place.T + full_mass_matrix(system.model, place.q) @ place.map_rate(w))


def inverse_dynamics_derivatives(system: ReducedSystem, y: Array, w: Array, a: Array) -> tuple[Array, Array, Array]:
    """(dtau/dy, dtau/dw, dtau/da); y in its tangent space."""
    place = system.at(y)
    by_y, by_w, M = _derivatives(system, place, w, a)
    return by_y, by_w, congruence(place.T, M)


def forward_dynamics_derivatives(system: ReducedSystem, y: Array, w: Array, tau: Array) -> tuple[Array, Array, Array]:
    place = system.at(y)
    a = _acceleration(system, place, w, tau)
    by_y, by_w, M = _derivatives(system, place, w, a)
    answer = cholesky_solve(congruence(place.T, M), np.column_stack([-by_y, -by_w, np.eye(system.nv)]))
    m, n = by_y.shape[1], system.nv
    return answer[:, :m], answer[:, m : m + n], answer[:, m + n :]


def _derivatives(system: ReducedSystem, place: EvaluatedMap, w: Array, a: Array) -> tuple[Array, Array, Array]:
    """(by y, by w, the full M): the recursions for the full robot, and tape derivatives of the map around them."""
    model, T = system.model, place.T
    v, acceleration = T @ w, T @ a + place.drift(w)
    force = full_inverse_dynamics(model, place.q, v, acceleration)
    by_q, by_v, M = full_derivatives(model, place.q, v, acceleration)

    def displaced(d: Array) -> Any:
        there = place.moved(d)
        return {"v": there.T @ w, "a": there.T @ a + there.drift(w), "tau": there.T.T @ force}

    def faster(d: Array) -> Any:
        return {"a": place.drift(w + d)}

    move, speed = jacobian_at_zero(displaced, system.coordinate_map.reduced.nv), jacobian_at_zero(faster, system.nv)
    by_y = move["tau"] + T.T @ (by_q @ place.dq_dy + by_v @ move["v"] + M @ move["a"])
    return by_y, T.T @ (by_v @ T + M @ speed["a"]), M


def constraint_forces(system: ReducedSystem, y: Array, w: Array, tau: Array) -> Array:
    """What the full equations lack,  M a + c - tau, for joint forces tau of the full robot: the constraint exerts it."""
    return _lacking(system, system.at(y), w, tau)


def _lacking(system: ReducedSystem, place: EvaluatedMap, w: Array, tau: Array) -> Array:
    a = _acceleration(system, place, w, place.T.T @ tau)
    return full_inverse_dynamics(system.model, place.q, place.T @ w, place.T @ a + place.drift(w)) - tau


def reactions(system: ReducedSystem, y: Array, w: Array, tau: Array) -> dict[str, Array]:
    """The forces by which the constraints are held: those along their rows that add up to `constraint_forces`."""
    place = system.at(y)
    at = Configurations(system.model, [place.q], [], None)
    rows = np.vstack([layer.reaction_rows(at) for layer in system.coordinate_map.constraints])
    return {"r": cholesky_solve(rows @ rows.T, np.array(rows @ _lacking(system, place, w, tau), dtype=object))}


def reduced_forces(system: ReducedSystem, y: Array, tau: Array) -> Array:
    """T^T tau."""
    return system.at(y).T.T @ tau


def kinetic_energy(system: ReducedSystem, y: Array, w: Array) -> Any:
    place = system.at(y)
    return energy.kinetic_energy(system.model, place.q, place.T @ w)


def momentum(system: ReducedSystem, y: Array, w: Array) -> Array:
    place = system.at(y)
    return energy.momentum(system.model, place.q, place.T @ w)


def potential_energy(system: ReducedSystem, y: Array) -> Any:
    return energy.potential_energy(system.model, system.coordinate_map.lifted(system.model, y)[0])


def center_of_mass(system: ReducedSystem, y: Array) -> Array:
    return energy.center_of_mass(system.model, system.coordinate_map.lifted(system.model, y)[0])


def com_jacobian(system: ReducedSystem, y: Array) -> Array:
    place = system.at(y)
    return energy.com_jacobian(system.model, place.q) @ place.T


def frame_pose(system: ReducedSystem, y: Array, frame: str) -> dict[str, Any]:
    return kernels.frame_pose(system.model, system.coordinate_map.lifted(system.model, y)[0], frame)


def jacobian(system: ReducedSystem, y: Array, frame: str, reference: str) -> dict[str, Any]:
    place = system.at(y)
    return {"J": kinematics.jacobian(system.model, place.q, frame, reference) @ place.T}


def jacobian_rate(system: ReducedSystem, y: Array, w: Array, frame: str, reference: str) -> dict[str, Any]:
    place = system.at(y)
    rate = kinematics.jacobian_rate(system.model, place.q, place.T @ w, frame, reference)
    return {"dJ": rate @ place.T + kinematics.jacobian(system.model, place.q, frame, reference) @ place.map_rate(w)}


def applied(system: ReducedSystem, y: Array, where: Sequence[tuple[str, str]], wrenches: Sequence[Any]) -> dict[int, Force]:
    return kernels.applied(system.model, system.coordinate_map.lifted(system.model, y)[0], where, wrenches)


def integrate(system: ReducedSystem, y: Array, dw: Array) -> Array:
    """y moved by velocity times time; where only velocities obey the constraint, to first order."""
    if system.coordinate_map.holonomic:
        return manifold.integrate(system.coordinate_map.reduced, y, dw)
    return manifold.integrate(system.coordinate_map.reduced, y, system.at(y).rate(dw))


def difference(system: ReducedSystem, y0: Array, y1: Array) -> Array:
    if not system.coordinate_map.holonomic:
        raise RobotError(
            [
                f"robot '{system.name}' has velocities that are not the rates of its coordinates, so none leads straight from "
                "one configuration to another; subtract the coordinates instead"
            ]
        )
    return manifold.difference(system.coordinate_map.reduced, y0, y1)


# fmt: off
KERNELS: dict[str, Kernel] = {
    "forward_dynamics":   Kernel(("q", "v", "tau"), forward_dynamics, ("a",)),
    "inverse_dynamics":   Kernel(("q", "v", "a"), inverse_dynamics, ("tau",)),
    "mass_matrix":        Kernel(("q",), mass_matrix, ("M",)),
    "inverse_mass_matrix": Kernel(("q",), inverse_mass_matrix, ("Minv",)),
    "gravity_forces":     Kernel(("q",), gravity_forces, ("g",)),
    "bias_forces":        Kernel(("q", "v"), bias_forces, ("c",)),
    "coriolis_matrix":    Kernel(("q", "v"), coriolis_matrix, ("C",)),
    "inverse_dynamics_derivatives": Kernel(("q", "v", "a"), inverse_dynamics_derivatives, ("dtau_dq", "dtau_dv", "dtau_da")),
    "forward_dynamics_derivatives": Kernel(("q", "v", "tau"), forward_dynamics_derivatives, ("da_dq", "da_dv", "da_dtau")),
    "center_of_mass":     Kernel(("q",), center_of_mass, ("com",)),
    "center_of_mass_jacobian": Kernel(("q",), com_jacobian, ("Jcom",)),
    "kinetic_energy":     Kernel(("q", "v"), kinetic_energy, ("T",)),
    "potential_energy":   Kernel(("q",), potential_energy, ("V",)),
    "momentum":           Kernel(("q", "v"), momentum, ("h",)),
    "integrate":          Kernel(("q", "dv"), integrate, ("q1",)),
    "difference":         Kernel(("q0", "q1"), difference, ("dv",)),
    "lift":               Kernel(("q", "v"), lift, ("q", "v")),
    "constraint_forces":  Kernel(("q", "v", "tau_full"), constraint_forces, ("f",)),
    "reactions":          Kernel(("q", "v", "tau_full"), reactions, ("r",)),
    "reduce_forces":      Kernel(("q", "tau_full"), reduced_forces, ("tau",)),
}
# fmt: on
