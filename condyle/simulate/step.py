"""The velocity after one step: equation of motion, joint forces, external forces, constraints, solver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from condyle.constraints.coordinate_map import EvaluatedMap
from condyle.dynamics.crba import mass_matrix
from condyle.dynamics.kinematics import root_poses, wrench_forces
from condyle.dynamics.posture import posture_energy, posture_forces
from condyle.dynamics.rnea import inverse_dynamics
from condyle.robot.spatial import Array
from condyle.simulate.constraint_list import Constraint
from condyle.simulate.contact_frame import from_ground_axes, ground_axes, matrix_to_ground_axes, surface, to_ground_axes
from condyle.simulate.contact_table import ContactTable
from condyle.simulate.contacts import contact_constraints, contact_table, joint_constraints, position
from condyle.simulate.folded_world import FoldedWorld, folded
from condyle.simulate.integrate_pose import transport_acceleration
from condyle.simulate.solution import Equations, solution
from condyle.simulate.solver import Solution
from condyle.simulate.velocity_products import VelocityProducts, velocity_products
from condyle.simulate.world import World
from condyle.tape.scalar import constant


@dataclass(frozen=True)
class Inputs:
    """What a step is given: configuration, velocity, controls, time, and one wrench (six numbers) per frame of the world."""

    q: Array
    v: Array
    u: Array
    t: Any = 0.0
    wrenches: Array | None = None


@dataclass(frozen=True)
class Problem:
    """M dv = p + constraint impulses: the equation of motion of one step, M with the implicit damping and springs.

    It is solved for the increment dv = v+ - v, so that the acceleration dv / h has no rounding error of the size of v / h.
    In the solver's coordinates: `rotation` takes the base's velocity to the axes of flat ground, see contact_frame.py.
    """

    M: Array
    p: Array
    v: Array
    constraints: list[Constraint]
    contacts: ContactTable | None
    rotation: Array | None
    at: EvaluatedMap
    full: Inputs  # the state in all coordinates
    products: VelocityProducts


class Terms(NamedTuple):
    """M, p and the velocity products of a step, in the axes of the base."""

    M: Array
    p: Array
    products: VelocityProducts


def problem(world: World, x: Inputs, *, fold: bool = False) -> Problem:
    """The equation of motion over one step, in the reduced velocities; `fold`: written for one limb that stands for all."""
    at = world.at(x.q)
    full = replace(x, q=at.q, v=at.lift(x.v))
    other = folded(world) if fold else None
    if other is not None:
        return folded_problem(other, at, full)
    M, p, products = terms(world, at, full, x.v, external(world, full))
    listed = [*contact_constraints(world, full.q, full.v, world.listed_points), *joint_constraints(world, full.q, full.v)]
    contacts = contact_table(world, full.q, at.T)
    rotation = ground_axes(world, full.q) if listed or contacts is not None else None
    return Problem(
        matrix_to_ground_axes(rotation, M),
        to_ground_axes(rotation, p),
        to_ground_axes(rotation, x.v),
        [along_reduced(at.T, b) for b in listed],
        contacts,
        rotation,
        at,
        full,
        products,
    )


def folded_problem(world: FoldedWorld, at: EvaluatedMap, full: Inputs) -> Problem:
    """The same in folded coordinates, unfolded at the end: what the solver folds again is not computed."""
    limbs, robot = world.limbs, world.of
    x = replace(full, q=world.configuration(full.q), v=limbs.fold(full.v), u=world.controls(full.u))
    M, p, products = terms(world, world.at(x.q), x, x.v, limbs.fold(external(robot, full)))
    touching, joints = contact_constraints(world, x.q, x.v), joint_constraints(world, x.q, x.v)
    contacts = None if robot.point_table is None else contact_table(robot, full.q, None, world.poses(x.q))
    rotation = ground_axes(world, x.q) if touching or joints or contacts is not None else None
    unfolded = replace(products, M=limbs.unfold_matrix(M), v=limbs.unfold(products.v), momentum=limbs.unfold(products.momentum))
    return Problem(
        limbs.unfold_matrix(matrix_to_ground_axes(rotation, M)),
        limbs.unfold(to_ground_axes(rotation, p)),
        limbs.unfold(to_ground_axes(rotation, x.v)),
        [*world.contacts(touching), *world.joint_constraints(joints)],
        contacts,
        rotation,
        at,
        full,
        unfolded,
    )


def terms(world: World, at: EvaluatedMap, full: Inputs, v: Array, outside: Array) -> Terms:
    """M, p and the velocity products; `full`: the state in all coordinates; `v`: reduced velocity; `outside`: other forces."""
    bias = bias_force(world, at, v)
    p = motors(world, full.u) + springs(world, full) + outside - bias
    p = at.project(world.h * p - np.array(implicit_gains(world)) * full.v)
    M = at.congruence(driven(world, augmented(world, mass_matrix(world.model, full.q))))
    products = velocity_products(world, M, at.project(bias), at.reduced_q, v)
    return Terms(M, p - products.momentum * products.lost, products)


def bias_force(world: World, at: EvaluatedMap, v: Array) -> Array:
    """Gravity and velocity products in all coordinates: in the inertial frame of integrate_pose.py they have no w x v."""
    a = at.acceleration(-transport_acceleration(world, v), v)
    return inverse_dynamics(world.model, at.q, at.lift(v), a)


def along_reduced(T: Array | None, full: Constraint) -> Constraint:
    """A constraint on the velocities of the model, as one on the reduced velocities."""
    if T is None:
        return full
    rows = T[list(full.path)]
    columns = tuple(c for c in range(rows.shape[1]) if any(constant(x) != 0.0 for x in rows[:, c]))
    if full.J is None and len(columns) == 1 and constant(rows[0, columns[0]]) == 1.0:
        return replace(full, path=columns, J=None, C=None)
    J = rows[:, list(columns)] if full.J is None else full.J @ rows[:, list(columns)]
    return replace(full, path=columns, J=J)


def solved(world: World, now: Problem) -> Solution:
    """The change of velocity in one step, with the unknowns of the constraints, in the solver's coordinates."""
    equations = Equations(now.M, now.p, now.v, now.constraints, now.contacts, world.inverse_inertia_diagonal)
    return solution(world.ancestor_dofs, equations, world.tolerance)


def in_body_axes(now: Problem, found: Solution) -> Solution:
    """A solution with the change of velocity in body axes."""
    return replace(found, dv=from_ground_axes(now.rotation, found.dv))


@dataclass(frozen=True)
class NextVelocity:
    """The velocity after a step and its change per time, both in the axes at its start, and the contact impulses."""

    v: Array
    acceleration: Array
    contact_impulses: Array
    residual: Any
    solution: Solution | None = None  # in the solver's coordinates

    @property
    def least_smoothing(self) -> Any:
        """The least smoothing of the laws that the solution was found with, J; zero where each has its own."""
        return 0.0 if self.solution is None else self.solution.smoothing


def next_velocity(world: World, x: Inputs) -> NextVelocity:
    """The velocity after one step from a state."""
    now = problem(world, x, fold=True)
    solution = solved(world, now)
    found = in_body_axes(now, solution)
    a = found.dv * (1.0 / world.h)
    listed = zip(world.listed_points, now.constraints, found.iterates, strict=False)
    along = {k: b.law.impulse(iterate["y"]) for k, b, iterate in listed}
    if found.points is not None and now.contacts is not None:
        along |= {k: row for k, row in zip(now.contacts.layout.points, found.points[1], strict=True) if k is not None}
    return NextVelocity(added(world, x.v, found.dv), a, contact_impulses(world, now.full.q, along), found.residual, solution)


def added(world: World, v: Array, dv: Array) -> Array:
    """v + dv, of one limb that stands for all where there are limbs."""
    other = folded(world)
    return v + dv if other is None else other.limbs.unfold(other.limbs.fold(v) + other.limbs.fold(dv))


def augmented(world: World, M: Array) -> Array:
    """M + h B + h^2 K: damping and springs act with the velocity after the step, which is stable at any stiffness."""
    M = np.array(M, dtype=object)
    for k, more in enumerate(implicit_gains(world)):
        M[k, k] = M[k, k] + more
    return M


def driven(world: World, M: Array) -> Array:
    """M with the inertias of drives."""
    for k, joint in enumerate(world.joints):
        if constant(joint.drive_inertia) != 0.0:
            M[k, k] = M[k, k] + joint.drive_inertia
    return M


def implicit_gains(world: World) -> list[Any]:
    """h B + h^2 K of every joint: of its damping and spring where the integrator treats them implicitly, and of its drive."""
    h, gains = world.h, []
    for joint in world.joints:
        gain = h * joint.damping + h * h * joint.spring if world.implicit else 0.0
        if joint.drive_yields and joint.drive_effort is None:
            gain = gain + (h * joint.drive_damping + h * h * joint.drive_stiffness)
        gains.append(gain)
    return gains


def motors(world: World, u: Array) -> Array:
    """The joint forces of the controls, each within its joint's effort."""
    tau = np.zeros(world.model.nv, dtype=object)
    for k, u_k in zip(world.actuated, u, strict=False):  # a robot without motors has one idle control
        effort = world.joints[k].effort
        tau[k] = u_k if effort is None else np.minimum(np.maximum(u_k, -effort), effort)
    return tau


def springs(world: World, x: Inputs) -> Array:
    """-K (q - rest), -B v where the integrator treats damping explicitly, and drives that need no constraint."""
    tau = np.zeros(world.model.nv, dtype=object)
    for k, joint in enumerate(world.joints):
        if constant(joint.spring) != 0.0:
            tau[k] = (joint.rest - x.q[position(world, k)]) * joint.spring
        if constant(joint.damping) != 0.0 and not world.implicit:
            tau[k] = tau[k] - joint.damping * x.v[k]
        if joint.driven and joint.drive_effort is None:
            tau[k] = tau[k] + joint.drive_force
            if constant(joint.drive_force_rate) != 0.0:
                tau[k] = tau[k] + joint.drive_force_rate * (x.t - world.since)
            if constant(joint.drive_stiffness) != 0.0:
                tau[k] = tau[k] + (joint.drive_target - x.q[position(world, k)]) * joint.drive_stiffness
        elif joint.driven and not joint.drive_yields:
            tau[k] = tau[k] + np.minimum(np.maximum(joint.drive_force, -joint.drive_effort), joint.drive_effort)
    return tau


def spring_energy(world: World, q: Array) -> Any:
    """1/2 K (q - rest)^2, summed over the joints, and the energy of gravity compensation, J."""
    total = posture_energy(world.model, q)
    for k, joint in enumerate(world.joints):
        if constant(joint.spring) != 0.0:
            away = q[position(world, k)] - joint.rest
            total = total + 0.5 * joint.spring * (away * away)
    return total


def external(world: World, x: Inputs) -> Array:
    """The joint forces of gravity compensation, of wrenches given from outside and of the user's own function."""
    tau = posture_forces(world.model, x.q)
    if world.wrenches and x.wrenches is not None:
        tau = tau + wrench_forces(world.model, x.q, world.wrenches, list(x.wrenches))
    if world.force is not None:
        tau = tau + np.asarray(world.force(world.model, x.q, x.v, x.t), dtype=object)
    return tau


def contact_impulses(world: World, q: Array, along: Mapping[int, Array]) -> Array:
    """The impulse on the robot at each contact point, world axes, N s: (contacts, 3).

    `along`: those along the axes of the ground at each point; q is the configuration of the model.
    """
    rows = np.zeros((len(world.points), 3), dtype=object)
    if world.ground is None:
        return rows.astype(float)
    X_0F, X = root_poses(world.model, q)
    for k, impulse in along.items():
        point = world.points[k]
        C = surface(world, point, X_0F, X[point.link].point(np.array(point.position))).C
        rows[k] = X_0F.R @ (C.T @ impulse)
    return rows
