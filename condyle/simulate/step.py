"""The velocity after one step: equation of motion, joint forces, external forces, constraints, solver."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condyle.constraints.coordinate_map import EvaluatedMap
from condyle.dynamics.crba import mass_matrix
from condyle.dynamics.kinematics import root_poses, wrench_forces
from condyle.dynamics.rnea import inverse_dynamics
from condyle.robot.spatial import Array
from condyle.simulate.contact_frame import from_ground_axes, ground_axes, matrix_to_ground_axes, surface, to_ground_axes
from condyle.simulate.contacts import contact_constraints, joint_constraints, position
from condyle.simulate.friction_cone import Iterate
from condyle.simulate.integrate_pose import transport_acceleration
from condyle.simulate.solution import Equations, solution
from condyle.simulate.solver import Constraint, Solution
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
    rotation: Array | None
    at: EvaluatedMap
    full: Inputs  # the state in all coordinates
    full_constraints: list[Constraint]


def problem(world: World, x: Inputs) -> Problem:
    """The equation of motion over one step, in the reduced velocities."""
    at = world.at(x.q)
    full = replace(x, q=at.q, v=at.lift(x.v))
    M = augmented(world, mass_matrix(world.model, full.q))
    # the bias force: in the inertial frame of integrate_pose.py it has no w x v
    a = at.acceleration(-transport_acceleration(world, x.v), x.v)
    p = motors(world, x.u) + springs(world, full) + external(world, full) - inverse_dynamics(world.model, full.q, full.v, a)
    p = world.h * p - np.array(implicit_gains(world)) * full.v
    full_constraints = [*contact_constraints(world, full.q, full.v), *joint_constraints(world, full.q, full.v)]
    rotation = ground_axes(world, full.q) if full_constraints else None
    M, p, constraints = at.congruence(M), at.project(p), [along_reduced(at.T, b) for b in full_constraints]
    return Problem(
        matrix_to_ground_axes(rotation, M),
        to_ground_axes(rotation, p),
        to_ground_axes(rotation, x.v),
        constraints,
        rotation,
        at,
        full,
        full_constraints,
    )


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
    """The change of velocity in one step, with the unknowns of the constraints."""
    equations = Equations(now.M, now.p, now.v, now.constraints, world.inverse_inertia_diagonal)
    found = solution(world.ancestor_dofs, equations, world.tolerance)
    return replace(found, dv=from_ground_axes(now.rotation, found.dv))


@dataclass(frozen=True)
class NextVelocity:
    """The velocity after a step, in the axes at its start, the mean acceleration in body axes, and the contact impulses."""

    v: Array
    acceleration: Array
    contact_impulses: Array
    residual: Any


def next_velocity(world: World, x: Inputs) -> NextVelocity:
    """The velocity after one step from a state."""
    now = problem(world, x)
    found = solved(world, now)
    return ended(world, x, now, found.dv, found.iterates, found.residual)


def ended(world: World, x: Inputs, now: Problem, dv: Array, iterates: list[Iterate], residual: Any) -> NextVelocity:
    """The end of a step whose velocity changes by dv."""
    a = dv * (1.0 / world.h) - transport_acceleration(world, x.v)
    return NextVelocity(x.v + dv, a, contact_impulses(world, now.full.q, now.constraints, iterates), residual)


def augmented(world: World, M: Array) -> Array:
    """M + h B + h^2 K: damping and springs act with the velocity after the step, which is stable at any stiffness."""
    M = np.array(M, dtype=object)
    for k, more in enumerate(implicit_gains(world)):
        M[k, k] = M[k, k] + more
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
            if constant(joint.drive_stiffness) != 0.0:
                tau[k] = tau[k] + (joint.drive_target - x.q[position(world, k)]) * joint.drive_stiffness
        elif joint.driven and not joint.drive_yields:
            tau[k] = tau[k] + np.minimum(np.maximum(joint.drive_force, -joint.drive_effort), joint.drive_effort)
    return tau


def spring_energy(world: World, q: Array) -> Any:
    """1/2 K (q - rest)^2, summed over the joints, J."""
    total: Any = 0.0
    for k, joint in enumerate(world.joints):
        if constant(joint.spring) != 0.0:
            away = q[position(world, k)] - joint.rest
            total = total + 0.5 * joint.spring * (away * away)
    return total


def external(world: World, x: Inputs) -> Array:
    """The joint forces of wrenches given from outside and of the user's own function."""
    tau = np.zeros(world.model.nv, dtype=object)
    if world.wrenches and x.wrenches is not None:
        tau = wrench_forces(world.model, x.q, world.wrenches, list(x.wrenches))
    if world.force is not None:
        tau = tau + np.asarray(world.force(world.model, x.q, x.v, x.t), dtype=object)
    return tau


def contact_impulses(world: World, q: Array, constraints: list[Constraint], iterates: list[Iterate]) -> Array:
    """The impulse on the robot at each contact point at the configuration q of the model, world axes, N s: (contacts, 3)."""
    if world.ground is None:
        return np.zeros((len(world.points), 3))
    X_0F, X = root_poses(world.model, q)
    rows = np.zeros((len(world.points), 3), dtype=object)
    for k, (point, b, iterate) in enumerate(zip(world.points, constraints, iterates, strict=False)):
        C = surface(world, point, X_0F, X[point.link].point(np.array(point.position))).C
        rows[k] = X_0F.R @ (C.T @ b.law.impulse(iterate["y"]))
    return rows
