"""Derivatives of the velocity after a step, by the implicit function theorem: one linear solve at the solution.

With R(v+; q, v, u) = 0 the equation of motion over the step, impulses included, and H = dR/dv+ the solver's own matrix,

    dv+ = -H^-1 (R_q dq + R_v dv + R_u du).

The dynamics enter by the recursions of dynamics/derivatives.py, a contact by the derivatives of its own small function
(contact_derivatives.py), carried to the joints along the tree.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condyle.constraints.coordinate_map import EvaluatedMap
from condyle.dynamics.crba import mass_matrix
from condyle.dynamics.derivatives import inverse_dynamics_derivatives
from condyle.dynamics.kinematics import axes, root_poses
from condyle.dynamics.manifold import integrate
from condyle.dynamics.posture import has_posture_forces
from condyle.dynamics.rnea import inverse_dynamics
from condyle.dynamics.solve import pattern_factor
from condyle.robot.model import Model
from condyle.robot.spatial import Array, Motion, Pose, cross, product
from condyle.simulate.constraint_list import Constraint, with_smoothing
from condyle.simulate.contact_derivatives import contact_jacobians, limit_jacobian
from condyle.simulate.contact_frame import from_ground_axes, point_velocity, surface, to_ground_axes
from condyle.simulate.contacts import contact_constraints, coordinates, joint_constraints, position
from condyle.simulate.drives import Drive
from condyle.simulate.friction_cone import Iterate
from condyle.simulate.integrate_pose import free_links, transport_acceleration, transport_acceleration_jacobian
from condyle.simulate.points import ContactPoint
from condyle.simulate.solver import Solution
from condyle.simulate.step import (
    Inputs,
    Problem,
    along_reduced,
    augmented,
    bias_force,
    external,
    implicit_gains,
    in_body_axes,
    motors,
    problem,
    solved,
    springs,
)
from condyle.simulate.velocity_products import free_fall_jacobian, limits_products, velocity_products, without_translation
from condyle.simulate.world import World
from condyle.tape.derive import jacobian, jacobian_at_zero, trace_inside
from condyle.tape.inline import inline
from condyle.tape.limb_values import all_summed, with_term
from condyle.tape.loop import loop


@dataclass(frozen=True)
class VelocityDerivatives:
    """The solution of a step and its derivatives by q (in the tangent space), v and u."""

    v: Array
    acceleration: Array
    by_q: Array
    by_v: Array
    by_u: Array


@dataclass(frozen=True)
class Linearization:
    """H dv+ = -(R_q dq + R_v dv + R_u du) at the solution of a step, where the momentum that velocity products lose stays.

    H is in the solver's axes, the others are in body axes. `v` and `acceleration`: those of the step, in body axes.
    """

    v: Array
    acceleration: Array
    H: Array
    R_q: Array
    R_v: Array


def next_velocity_derivatives(world: World, x: Inputs, solution: Solution | None = None) -> VelocityDerivatives:
    """The velocity after a step and how it depends on the state and the controls.

    `solution`: that of the step, in the solver's coordinates, if it is known already.
    """
    now = problem(world, x)
    at = linearization(world, x, now, in_body_axes(now, solution or solved(world, now)))
    factor = pattern_factor(world.ancestor_dofs, at.H)
    columns = np.column_stack([at.R_q, at.R_v, by_controls(world, now.at, x.u), now.products.momentum])
    dv = -from_ground_axes(now.rotation, factor.solve(to_ground_axes(now.rotation, columns)))
    nd, nv = world.nd, world.nv
    if limits_products(world):
        # of rank one, and added to the solution, because R_q and R_v are sparse
        dv[:, : nd + nv] = dv[:, : nd + nv] + np.outer(dv[:, -1], lost_derivatives(world, now.at, x, now.products.lost))
    return VelocityDerivatives(at.v, at.acceleration, dv[:, :nd], dv[:, nd : nd + nv], dv[:, nd + nv : -1])


def linearization(world: World, x: Inputs, now: Problem, solution: Solution) -> Linearization:
    """The equation of motion over a step, linearized at its solution, which is given in body axes."""
    model, h = world.model, world.h
    here, full, v_after = now.at, now.full, x.v + solution.dv
    after = now.at.lift(v_after)
    # where momentum is lost, the equation of motion is `kept` times that of a larger acceleration
    products, lost, kept = now.products, now.products.lost, now.products.kept
    larger = (solution.dv + products.v * lost) * (1.0 / (h * kept)) - transport_acceleration(world, x.v)
    a = here.acceleration(larger, x.v)
    R_q, R_v, M = inverse_dynamics_derivatives(model, full.q, full.v, a)
    R_q, R_v = R_q * (h * kept), R_v * (h * kept)
    add_external(world, full, R_q, R_v)
    for k, joint in enumerate(world.joints):
        R_q[k, k] = R_q[k, k] + h * joint.spring
        if not world.implicit:
            R_v[k, k] = R_v[k, k] + h * joint.damping
        if joint.driven and joint.drive_effort is None:
            R_q[k, k] = R_q[k, k] + h * joint.drive_stiffness
    constraints, iterates = every_constraint(world, now, solution)
    add_constraint_derivatives(world, full, constraints, after, iterates, R_q, R_v)
    # the acceleration depends on the velocity before the step
    slows = np.diag(without_translation(world, np.ones(world.nv))) * lost
    by_v = slows - np.eye(world.nv) - transport_acceleration_jacobian(world, x.v) * (h * kept)
    if here.T is None:
        R_v = R_v + M @ by_v + np.array(implicit_gains(world))[:, None] * slows
    else:
        R_q, R_v = reduced_derivatives(world, x, now, solution, larger, (R_q, R_v, M), by_v, slows)
    if limits_products(world):
        R_q = R_q - products.M @ (free_fall_jacobian(world, x.q) * (h * lost))

    # H at the solution
    H = np.array(now.M, dtype=object)
    v = to_ground_axes(now.rotation, v_after)
    for b, iterate in zip([along_reduced(here.T, b) for b in constraints], iterates, strict=True):
        b.add_stiffness(b.law.stiffness(b.law.compliance(iterate["y"], iterate["s"], b.velocity(v))), H)
    return Linearization(v_after, solution.dv * (1.0 / h), H, R_q, R_v)


def every_constraint(world: World, now: Problem, solution: Solution) -> tuple[list[Constraint], list[Iterate]]:
    """(constraints in all coordinates one by one, their unknowns at the solution): of all contact points, then of the joints."""
    q, v = now.full.q, now.full.v
    listed = world.listed_points if world.ground is not None else []
    unknowns = dict(zip(listed, solution.iterates, strict=False))
    if now.contacts is not None and solution.points is not None:
        rows = zip(now.contacts.layout.points, solution.points[0], strict=True)
        unknowns |= {k: {"y": row[:3], "s": row[3]} for k, row in rows if k is not None}
    iterates = [*[unknowns[k] for k in sorted(unknowns)], *solution.iterates[len(listed) :]]
    found = with_smoothing([*contact_constraints(world, q, v), *joint_constraints(world, q, v)], solution.smoothing)
    constraints = [replace(b, trunk=world.trunk, limbs=world.limbs_along(b.path)) for b in found]
    return constraints, [iterate | {"smoothing": solution.smoothing} for iterate in iterates]


def reduced_derivatives(
    world: World,
    x: Inputs,
    now: Problem,
    solution: Solution,
    larger: Array,
    full_derivatives: Any,
    by_v: Array,
    slows: Array,
) -> tuple[Array, Array]:
    """(R_q, R_v) in reduced coordinates: T^T of the full derivatives, plus the terms from the derivative of T itself."""
    h, here, full, kept, slowed = world.h, now.at, now.full, now.products.kept, now.products.v * now.products.lost
    R_q, R_v, M = full_derivatives
    after, damped = here.lift(x.v + solution.dv), here.lift(x.v + solution.dv + slowed)
    # the derivatives of implicit forces and of constraint impulses by the velocity after the step, in the solver's axes
    H = np.zeros((world.model.nv, world.model.nv), dtype=object)
    push = np.zeros(world.model.nv, dtype=object)
    v = to_ground_axes(now.rotation, after)
    for b, iterate in zip(*every_constraint(world, now, solution), strict=True):
        b.add_stiffness(b.law.stiffness(b.law.compliance(iterate["y"], iterate["s"], b.velocity(v))), H)
        b.add_impulse(b.law.impulse(iterate["y"]), push)
    soft = augmented(world, np.zeros((world.model.nv, world.model.nv)))
    a = here.acceleration(larger, x.v)
    force = h * (inverse_dynamics(world.model, full.q, full.v, a) * kept - motors(world, x.u) - springs(world, full))
    force = force - h * external(world, full) + soft @ damped - from_ground_axes(now.rotation, push)

    def displaced(d: Array) -> Any:
        there = here.moved(d)
        velocities = {"v": there.lift(x.v), "after": there.lift(x.v + solution.dv), "damped": there.lift(slowed)}
        return {**velocities, "a": there.acceleration(larger, x.v), "tau": there.project(force)}

    move = jacobian_at_zero(displaced, world.nd)
    stiff = from_ground_axes(now.rotation, H @ to_ground_axes(now.rotation, move["after"]))
    stiff = soft @ (move["after"] + move["damped"]) + stiff
    by_y = move["tau"] + here.project(R_q @ here.dq_dy + R_v @ move["v"] + M @ move["a"] * (h * kept) + stiff)
    drifts = jacobian_at_zero(lambda d: {"a": here.drift(x.v + d)}, world.nv)["a"]
    moves = M @ (here.lift(by_v) + drifts * (h * kept)) + soft @ here.lift(slows)
    return by_y, here.project(here.pull_back(R_v) + moves)


def lost_derivatives(world: World, at: EvaluatedMap, x: Inputs, lost: Any) -> Array:
    """The derivatives of the momentum lost, a fraction, by the configuration (in the tangent space) and velocity, (nd + nv,)."""
    nd, n = world.nd, world.nd + world.nv

    def fraction(d: Array) -> dict[str, Any]:
        there, q, v = at.moved(d[:nd]), integrate(world.reduced, x.q, d[:nd]), x.v + d[nd:]
        M = there.congruence(augmented(world, mass_matrix(world.model, there.q)))
        return {"lost": np.array([velocity_products(world, M, there.project(bias_force(world, there, v)), q, v).lost])}

    tape, around = trace_inside(fraction, d=n)
    gradient = jacobian(tape, "lost", "d", mode="reverse")

    def body(_: Any, state: Any) -> Any:
        return inline(gradient, [*[0.0] * n, *around])["dlost_dd"].reshape(n)

    # computed where some state loses any
    out = np.array(loop(body, np.zeros(n), 1, until=lambda _: lost <= 0.0), dtype=object)
    # where a free base is and how fast it flies does not matter, and zeros that are known cost nothing
    for link in free_links(world):
        if link.parent < 0:
            k = link.v.start
            out[k : k + 3] = out[nd + k : nd + k + 3] = 0.0
    return out


def by_controls(world: World, at: EvaluatedMap, u: Array) -> Array:
    """R_u."""
    return -world.h * at.project(gates(world, u))


def gates(world: World, u: Array) -> Array:
    """d(motors)/du: 1 where a control is within its joint's effort, else 0."""
    G = np.zeros((world.model.nv, world.nu), dtype=object)
    for column, k in enumerate(world.actuated):
        effort = world.joints[k].effort
        G[k, column] = 1.0 if effort is None else np.where(abs(u[column]) <= effort, 1.0, 0.0)
    return G


def add_constraint_derivatives(
    world: World, x: Inputs, constraints: list[Any], after: Array, iterates: list[Iterate], R_q: Array, R_v: Array
) -> None:
    """Add the derivatives of the impulses by q and v, at the velocity after the step."""
    contacts = len(world.points) if world.ground is not None else 0
    if contacts:
        motion = _LinkMotions.of(world.model, x.q, x.v, after)
        for point, iterate in zip(world.points, iterates, strict=False):
            _add_contact(world, point, motion, iterate, R_q, R_v)
        R_q[:], R_v[:] = all_summed(R_q), all_summed(R_v)
    for b, iterate in zip(constraints[contacts:], iterates[contacts:], strict=True):
        k = b.label[1]
        if b.label[0] == "tendon":
            tendon = world.tendons[k - len(world.joints)]
            length, rates = tendon.length(x.q), (tendon.rate(after), tendon.rate(x.v))
            by_length, by_speed = limit_jacobian(world, k, length, *rates, iterate)
            for i, c_i in zip(tendon.path, tendon.coefficients, strict=True):
                for j, c_j in zip(tendon.path, tendon.coefficients, strict=True):
                    R_q[i, j], R_v[i, j] = R_q[i, j] - by_length * (c_i * c_j), R_v[i, j] - by_speed * (c_i * c_j)
        elif isinstance(b.law, Drive):
            inside = b.law.compliance(iterate["y"], iterate["s"])[0, 0]
            R_q[k, k] = R_q[k, k] + inside * (world.h * world.joints[k].drive_stiffness)
        elif isinstance(b.law.offset, float):  # a limit; dry friction does not depend on q and v
            by_angle, by_speed = limit_jacobian(world, k, x.q[position(world, k)], after[k], x.v[k], iterate)
            R_q[k, k], R_v[k, k] = R_q[k, k] - by_angle, R_v[k, k] - by_speed


@dataclass(frozen=True)
class _LinkMotions:
    """Poses, axes and velocities of all links in F, before and after the step."""

    X_0F: Pose
    X: list[Pose]
    S: list[Motion]
    joint_of: list[int]
    parent: list[int]
    before: list[Motion]
    after: list[Motion]

    @staticmethod
    def of(model: Model, q: Array, v: Array, v_after: Array) -> _LinkMotions:
        X_0F, X = root_poses(model, q)
        S = axes(model, X)
        joint_of = [i for i, link in model.outward() for _ in range(link.v.start, link.v.stop)]
        both = []
        for w in (v, v_after):
            V: list[Motion] = []
            for _, link in model.outward():
                V_i = V[link.parent] if link.parent >= 0 else Motion.zero()
                for k in range(link.v.start, link.v.stop):
                    V_i = V_i + S[k] * w[k]
                V.append(V_i)
            both.append(V)
        return _LinkMotions(X_0F, X, S, joint_of, [link.parent for link in model.links], both[0], both[1])

    def derivative_by(self, k: int, V: list[Motion], link: int) -> Motion:
        """dV_link/dq_k: all links beyond joint k rotate with it."""
        p = self.parent[self.joint_of[k]]
        rotated: Motion = self.S[k].cross(V[link] - V[p] if p >= 0 else V[link])
        return rotated


def _add_contact(world: World, point: ContactPoint, m: _LinkMotions, iterate: Iterate, R_q: Array, R_v: Array) -> None:
    """Take the derivatives of the joint impulses  J_j . f  of one contact from R_q and R_v, J_j how joint j moves the point."""
    i, path = point.link, coordinates(world, point.link)
    limbs, trunk = world.limbs_along(path), world.trunk
    centre = m.X[i].point(np.array(point.position))
    arm = surface(world, point, m.X_0F, centre).arm
    place = centre + arm
    J = {k: point_velocity(m.S[k], place) for k in path}
    s = contact_jacobians(
        world, point, m.X_0F, centre, point_velocity(m.after[i], place), point_velocity(m.before[i], place), iterate
    )
    f = s.impulse
    # J_j of a joint beyond joint k rotates with it, but for the arm, which stays
    rotating = {j: cross(J[j], f) - cross(arm, cross(f, m.S[j].angular)) for j in path}
    for k in path:
        shift = point_velocity(m.S[k], centre)
        arm_shift = s.arm_by_place @ shift
        change, moved = s.by_place @ shift, shift + arm_shift
        for V, by in ((m.after, s.by_after), (m.before, s.by_before)):
            dV = m.derivative_by(k, V, i)
            change = change + by @ (point_velocity(dV, place) + cross(V[i].angular, moved))
        before, turned, turned_arm = s.by_before @ J[k], cross(moved, f), cross(arm_shift, f)
        for j in path:
            if m.joint_of[j] >= m.joint_of[k]:
                also = product(m.S[k].angular, rotating[j]) + product(m.S[j].angular, turned_arm)
            else:
                also = product(m.S[j].angular, turned)
            joining = limbs if max(j, k) < trunk else 0
            R_q[j, k] = with_term(R_q[j, k], -(product(J[j], change) + also), joining)
            R_v[j, k] = with_term(R_v[j, k], -product(J[j], before), joining)


def add_external(world: World, x: Inputs, R_q: Array, R_v: Array) -> None:
    """Add the derivatives of the forces of `external` by q and v, by automatic differentiation."""
    if not world.wrenches and world.force is None and not has_posture_forces(world.model):
        return
    model = world.model
    count = max(len(world.wrenches), 1)

    def force(dq: Array, v: Array, q: Array, t: Array, wrenches: Array) -> Any:
        return {"tau": external(world, Inputs(integrate(model, q, dq), v, np.zeros(0), t[0], wrenches))}

    tape, around = trace_inside(force, dq=model.nv, v=model.nv, q=model.nq, t=1, wrenches=(count, 6))
    jacobians = jacobian(tape, "tau", ["dq", "v"], mode="forward")
    given = x.wrenches if x.wrenches is not None else np.zeros((count, 6))
    flat = [*np.zeros(model.nv), *x.v, *x.q, x.t, *np.ravel(given), *around]
    found = inline(jacobians, flat)
    R_q -= world.h * found["dtau_ddq"].reshape(model.nv, model.nv)
    R_v -= world.h * found["dtau_dv"].reshape(model.nv, model.nv)
