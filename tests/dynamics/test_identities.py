"""Laws that every robot obeys, whoever computes it: on random trees of every kind of joint."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from dynamics.random_robots import KINDS, TOOL, random_description, random_model, random_pose, random_state
from hypothesis import given, settings
from hypothesis import strategies as st

import condyle as cd
from condyle.dynamics import coriolis, crba, energy, kinematics, rnea
from condyle.dynamics.aba import forward_dynamics
from condyle.dynamics.crba import mass_matrix
from condyle.dynamics.manifold import (
    difference,
    difference_derivatives,
    integrate,
    integrate_derivatives,
    random_configuration,
)
from condyle.dynamics.regressor import inertial_parameters, inverse_dynamics_regressor
from condyle.dynamics.rnea import inverse_dynamics
from condyle.dynamics.rotations import quaternion_product
from condyle.robot.build import build
from condyle.robot.description import Description, JointSpec, Limits
from condyle.robot.joints import Ball, Free, rotation_of
from condyle.robot.model import Model
from condyle.robot.spatial import Inertia, Pose

# both sides are sums of the same terms in another order
SAME_FORMULA = 1e-12
# one side solves with M, whose condition number is below 1e5 on these trees
SOLVED = 1e-10


def each_seed(test: Any) -> Any:
    """The test on trees that hypothesis draws, by the seed of the generator: every joint kind, any shape of tree."""
    return settings(max_examples=25)(given(seed=st.integers(0, 2**32 - 1))(test))


def near(a: Any, b: Any, tolerance: float, scale: float | None = None) -> bool:
    """Whether the largest difference is within tolerance of the largest entry (or of a scale, where zero is expected)."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    assert a.shape == b.shape, f"shapes {a.shape} and {b.shape}"
    return bool(np.abs(a - b).max() <= tolerance * (np.abs(b).max() if scale is None else scale))


def floats(x: Any) -> np.ndarray:
    return np.asarray(x, dtype=float)


# -- forward and inverse dynamics and the mass matrix are one


@each_seed
def test_forward_dynamics_undoes_inverse_dynamics(seed: int) -> None:
    model = random_model(seed, joints=9)
    q, v, tau = random_state(model, np.random.default_rng(seed))
    a = forward_dynamics(model, q, v, tau)
    assert near(inverse_dynamics(model, q, v, a), tau, SOLVED, scale=np.abs(floats(rnea.bias_forces(model, q, v))).max())


@each_seed
def test_mass_matrix_is_symmetric_positive_and_made_of_unit_accelerations(seed: int) -> None:
    model = random_model(seed, joints=9)
    q, v, _ = random_state(model, np.random.default_rng(seed))
    M, bias = floats(mass_matrix(model, q)), floats(rnea.bias_forces(model, q, v))
    assert np.array_equal(M, M.T)
    assert np.linalg.eigvalsh(M).min() > 0.0
    columns = np.column_stack([floats(inverse_dynamics(model, q, v, e)) - bias for e in np.eye(model.nv)])
    assert near(columns, M, SAME_FORMULA, scale=max(np.abs(M).max(), np.abs(bias).max()))
    inverse = floats(crba.inverse_mass_matrix(model, q))
    assert np.array_equal(inverse, inverse.T)
    assert near(inverse @ M, np.eye(model.nv), SOLVED)


@each_seed
def test_the_parts_add_up(seed: int) -> None:
    model = random_model(seed, joints=9)
    q, v, a = random_state(model, np.random.default_rng(seed))
    tau = floats(inverse_dynamics(model, q, v, a))
    bias, gravity = floats(rnea.bias_forces(model, q, v)), floats(rnea.gravity_forces(model, q))
    assert near(floats(coriolis.coriolis_matrix(model, q, v)) @ v, bias - gravity, SAME_FORMULA, scale=np.abs(bias).max())
    assert near(floats(mass_matrix(model, q)) @ a + bias, tau, SAME_FORMULA)
    armature = np.concatenate([np.full(link.kind.nv, link.armature) for link in model.links])
    Y = floats(inverse_dynamics_regressor(model, q, v, a))
    assert near(Y @ inertial_parameters(model) + armature * a, tau, SAME_FORMULA)
    assert near(energy.kinetic_energy(model, q, v), 0.5 * v @ floats(mass_matrix(model, q)) @ v, SAME_FORMULA)
    assert near(floats(energy.centroidal_map(model, q)) @ v, floats(energy.momentum(model, q, v)), SAME_FORMULA)


# -- what changes in time: every quantity, seen as a function of the time along (v, a), by the derivative of its tape at zero


@cache
def rates(seed: int, base: str = "fixed", gravity: tuple[float, ...] = (1.0, -2.0, -9.0)) -> tuple[Model, Any]:
    """(robot, compiled time derivatives of energies, momentum, mass matrix, centre of mass and a frame's Jacobian)."""
    model = random_model(seed, joints=5, kinds=KINDS[1:], base=base, gravity=gravity)

    def along(q: Any, v: Any, a: Any, t: Any) -> dict[str, Any]:
        q, v = integrate(model, q, t * v), v + t * a
        return {
            "kinetic": energy.kinetic_energy(model, q, v),
            "potential": energy.potential_energy(model, q),
            "momentum": energy.momentum(model, q, v),
            "mass": mass_matrix(model, q),
            "com": energy.center_of_mass(model, q),
            "jacobian": kinematics.jacobian(model, q, TOOL),
        }

    shapes = {"q": model.nq, "v": model.nv, "a": model.nv, "t": ()}
    return model, cd.function(along, **shapes).jacobian(wrt="t")


@pytest.mark.parametrize("seed", [0, 1])
def test_power_is_the_rate_of_energy(seed: int) -> None:
    model, rate = rates(seed)
    q, v, a = random_state(model, np.random.default_rng(seed), count=5)
    d = rate(q, v, a, np.zeros(5))
    for k in range(5):
        tau = floats(inverse_dynamics(model, q[k], v[k], a[k]))
        assert near(d.dkinetic_dt[k] + d.dpotential_dt[k], v[k] @ tau, SAME_FORMULA, scale=np.abs(v[k]) @ np.abs(tau))
        gravity = floats(rnea.gravity_forces(model, q[k]))
        assert near(d.dpotential_dt[k], v[k] @ gravity, SAME_FORMULA, scale=np.abs(v[k]) @ np.abs(gravity))


@pytest.mark.parametrize("seed", [0, 1])
def test_mass_matrix_rate_less_twice_coriolis_is_skew(seed: int) -> None:
    model, rate = rates(seed)
    q, v, a = random_state(model, np.random.default_rng(seed), count=5)
    d = rate(q, v, a, np.zeros(5))
    for k in range(5):
        C = floats(coriolis.coriolis_matrix(model, q[k], v[k]))
        assert near(C + C.T, d.dmass_dt[k], SAME_FORMULA)


@pytest.mark.parametrize("seed", [0, 1])
def test_jacobians_are_the_derivatives_of_positions(seed: int) -> None:
    model, rate = rates(seed)
    q, v, a = random_state(model, np.random.default_rng(seed), count=5)
    d = rate(q, v, a, np.zeros(5))
    for k in range(5):
        assert near(d.dcom_dt[k], floats(energy.com_jacobian(model, q[k])) @ v[k], SAME_FORMULA)
        assert near(d.djacobian_dt[k], kinematics.jacobian_rate(model, q[k], v[k], TOOL), SAME_FORMULA)


def test_momentum_is_conserved_in_free_fall_and_changes_by_the_weight() -> None:
    model, rate = rates(0, "free")
    q, v, _ = random_state(model, np.random.default_rng(0), count=5)
    # joint forces inside the robot, none on its base
    tau = np.random.default_rng(1).uniform(-1, 1, v.shape)
    tau[:, :6] = 0.0
    a = np.array([floats(forward_dynamics(without_armature(model), *each)) for each in zip(q, v, tau, strict=True)])
    d = rate(q, v, a, np.zeros(5))
    weight = np.concatenate([energy.total_mass(model) * np.array(model.gravity), np.zeros(3)])
    for k in range(5):
        assert near(d.dmomentum_dt[k], weight, SOLVED)


def without_armature(model: Model) -> Model:
    """The robot without armature, which has inertia but carries no momentum."""
    return replace(model, links=tuple(replace(link, armature=0.0) for link in model.links))


# -- nobody can tell where the world's axes are, or in which order joints were written


@each_seed
def test_turning_the_world_changes_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(seed, joints=9)
    X = random_pose(rng)
    links = [replace(link, placement=X @ link.placement) if link.parent < 0 else link for link in model.links]
    rotated = replace(model, links=tuple(links), gravity=tuple(X.R @ np.array(model.gravity)))
    q, v, a = random_state(model, rng)
    tau = floats(inverse_dynamics(model, q, v, a))
    assert near(inverse_dynamics(rotated, q, v, a), tau, SAME_FORMULA)
    assert near(forward_dynamics(rotated, q, v, tau), a, SOLVED)
    assert near(mass_matrix(rotated, q), mass_matrix(model, q), SAME_FORMULA)
    assert near(energy.center_of_mass(rotated, q), X.point(floats(energy.center_of_mass(model, q))), SAME_FORMULA)


@each_seed
def test_a_free_base_may_be_anywhere(seed: int) -> None:
    rng = np.random.default_rng(seed)
    model = random_model(seed, base="free")
    q, v, a = random_state(model, rng)
    turn, step = random_configuration(model, rng)[3:7], rng.uniform(-1, 1, 3)
    R = rotation_of(turn)
    moved = q.copy()
    moved[:3], moved[3:7] = R @ q[:3] + step, quaternion_product(turn, q[3:7])
    rotated = replace(model, gravity=tuple(R @ np.array(model.gravity)))
    assert near(inverse_dynamics(rotated, moved, v, a), inverse_dynamics(model, q, v, a), SAME_FORMULA)
    h, h_moved = floats(energy.momentum(model, q, v)), floats(energy.momentum(rotated, moved, v))
    assert near(h_moved, np.concatenate([R @ h[:3], R @ h[3:]]), SAME_FORMULA)


@each_seed
def test_the_order_of_children_only_permutes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    description = random_description(rng, joints=9)
    shuffled = replace(description, joints=tuple(description.joints[k] for k in rng.permutation(len(description.joints))))
    one, other = build(description), build(shuffled)
    place = {link.joint: link for link in other.links}
    q, v, a = random_state(one, rng)
    to_q = np.concatenate([np.arange(place[link.joint].q.start, place[link.joint].q.stop) for link in one.links])
    to_v = np.concatenate([np.arange(place[link.joint].v.start, place[link.joint].v.stop) for link in one.links])
    q2, v2, a2 = np.empty(one.nq), np.empty(one.nv), np.empty(one.nv)
    q2[to_q], v2[to_v], a2[to_v] = q, v, a
    assert near(floats(inverse_dynamics(other, q2, v2, a2))[to_v], inverse_dynamics(one, q, v, a), SAME_FORMULA)
    assert near(floats(mass_matrix(other, q2))[np.ix_(to_v, to_v)], mass_matrix(one, q), SAME_FORMULA)
    assert near(
        floats(coriolis.coriolis_matrix(other, q2, v2))[np.ix_(to_v, to_v)], coriolis.coriolis_matrix(one, q, v), SAME_FORMULA
    )


# -- what is bolted on is one body


def bolted_by_hand(description: Description) -> Description:
    """The same robot without fixed joints: masses added, centres averaged, inertias moved by Steiner's theorem."""
    links = {link.name: link for link in description.links}
    joints = list(description.joints)
    while fixed := next((joint for joint in joints if joint.kind == "fixed"), None):
        body, extra = links[fixed.parent].inertia, links[fixed.child].inertia
        R, p = fixed.pose.R, fixed.pose.p
        parts = [(body.mass, body.com, body.I_com), (extra.mass, R @ extra.com + p, R @ extra.I_com @ R.T)]
        mass = sum(m for m, _, _ in parts)
        com = sum(m * c for m, c, _ in parts) / mass
        inertia = sum(I + m * ((c - com) @ (c - com) * np.eye(3) - np.outer(c - com, c - com)) for m, c, I in parts)
        links[fixed.parent] = replace(links[fixed.parent], inertia=Inertia.about_com(mass, com, inertia))
        del links[fixed.child]
        joints.remove(fixed)
        joints = [_lifted(joint, fixed) if joint.parent == fixed.child else joint for joint in joints]
    return replace(description, links=tuple(links.values()), joints=tuple(joints), frames=())


def _lifted(joint: JointSpec, fixed: JointSpec) -> JointSpec:
    return replace(joint, parent=fixed.parent, pose=fixed.pose @ joint.pose)


@each_seed
def test_fixed_joints_add_their_links(seed: int) -> None:
    rng = np.random.default_rng(seed)
    description = random_description(rng, joints=10, kinds=("fixed", "revolute", "fixed", "ball", "prismatic"))
    model, by_hand = build(description, "free"), build(bolted_by_hand(description), "free")
    order = {link.joint: link for link in by_hand.links}
    q, v, a = random_state(model, rng)
    to_q = np.concatenate([np.arange(order[link.joint].q.start, order[link.joint].q.stop) for link in model.links])
    to_v = np.concatenate([np.arange(order[link.joint].v.start, order[link.joint].v.stop) for link in model.links])
    q2, v2, a2 = np.empty(model.nq), np.empty(model.nv), np.empty(model.nv)
    q2[to_q], v2[to_v], a2[to_v] = q, v, a
    assert near(floats(inverse_dynamics(by_hand, q2, v2, a2))[to_v], inverse_dynamics(model, q, v, a), SAME_FORMULA)


# -- units


@each_seed
def test_scales(seed: int) -> None:
    model = random_model(seed, joints=9, kinds=("revolute", "ball"))
    q, v, a = random_state(model, np.random.default_rng(seed))
    tau = floats(inverse_dynamics(model, q, v, a))
    heavy = replace(
        model, links=tuple(replace(x, inertia=_scaled(x.inertia, 3.0, 1.0), armature=3.0 * x.armature) for x in model.links)
    )
    assert near(inverse_dynamics(heavy, q, v, a), 3.0 * tau, SAME_FORMULA)
    large = replace(
        model,
        links=tuple(
            replace(
                x,
                placement=Pose(x.placement.R, 2.0 * x.placement.p),
                inertia=_scaled(x.inertia, 1.0, 2.0),
                armature=4.0 * x.armature,
            )
            for x in model.links
        ),
        gravity=tuple(2.0 * g for g in model.gravity),
    )
    assert near(inverse_dynamics(large, q, v, a), 4.0 * tau, SAME_FORMULA)
    # played twice as fast, under four times the gravity
    fast = replace(model, gravity=tuple(4.0 * g for g in model.gravity))
    assert near(inverse_dynamics(fast, q, 2.0 * v, 4.0 * a), 4.0 * tau, SAME_FORMULA)


def _scaled(I: Inertia, mass: float, length: float) -> Inertia:
    return Inertia(mass * I.mass, mass * length * I.h, mass * length**2 * I.I)


# -- the manifold of configurations


@cache
def manifold_functions() -> tuple[Model, Any, Any]:
    """(robot, there and back, derivatives by the tape and in closed form), for a free and a ball joint."""
    model = random_model(5, kinds=("free", "ball"), joints=2)

    def there_and_back(q: Any, dv: Any) -> tuple[Any, Any]:
        there = integrate(model, q, dv)
        return there, difference(model, q, there)

    def derived(q: Any, dv: Any, d0: Any, d1: Any) -> dict[str, Any]:
        """Small changes d0 before and d1 of the velocity, and what they do after."""
        moved = integrate(model, integrate(model, q, d0), dv + d1)
        there = integrate(model, q, dv)
        return {
            "after": difference(model, there, moved),
            "apart": difference(model, integrate(model, q, d0), integrate(model, there, d1)),
        }

    shapes = {"q": model.nq, "dv": model.nv}
    tape = cd.function(derived, **shapes, d0=model.nv, d1=model.nv).jacobian(wrt=["d0", "d1"])
    return model, cd.function(there_and_back, **shapes), tape


ANGLES = [0.0, 1e-160, 1e-9, 1e-3, 0.3, 0.69, 0.71, 0.9999999, 1.0000001, 2.0, 3.0, 3.14]


def turns(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Configurations and velocities that turn by all the angles."""
    q, dv, _ = random_state(model, np.random.default_rng(5), count=len(ANGLES))
    for link in model.links:
        turn = dv[:, link.v][:, -3:]
        turn *= np.array(ANGLES)[:, None] / np.linalg.norm(turn, axis=1, keepdims=True)
    return q, dv


def test_there_and_back() -> None:
    model, there_and_back, _ = manifold_functions()
    q, dv = turns(model)
    there, back = there_and_back(q, dv)
    assert near(back, dv, SAME_FORMULA)
    for link in model.links:
        assert isinstance(link.kind, Ball | Free)
        assert near(np.linalg.norm(there[:, link.q][:, -4:], axis=1), np.ones(len(q)), SAME_FORMULA)
    # the other quaternion of the same rotation is the same place
    for link in model.links:
        there[:, link.q][:, -4:] *= -1.0
    for k in range(len(q)):
        assert near(difference(model, q[k], there[k]), dv[k], SAME_FORMULA, scale=1.0)


def test_derivatives_on_the_manifold_are_those_of_the_tape_also_at_exactly_zero() -> None:
    model, _, tape = manifold_functions()
    q, dv = turns(model)
    zero = np.zeros_like(dv)
    d = tape(q, dv, zero, zero)
    assert all(np.all(np.isfinite(part)) for part in d)
    for k in range(len(q)):
        by_q, by_dv = integrate_derivatives(model, dv[k])
        there = floats(integrate(model, q[k], dv[k]))
        by_q0, by_q1 = difference_derivatives(model, q[k], there)
        for closed, taped in ((by_q, d.dafter_dd0), (by_dv, d.dafter_dd1), (by_q0, d.dapart_dd0), (by_q1, d.dapart_dd1)):
            assert near(taped[k], closed, SAME_FORMULA), f"at the angle {ANGLES[k]}"


def test_quaternions_stay_unit_over_many_steps() -> None:
    model, _, _ = manifold_functions()
    steps = 20_000

    def wander(q: Any, dv: Any) -> Any:
        return cd.loop(lambda i, q: integrate(model, q, dv), q, steps)

    q, dv, _ = random_state(model, np.random.default_rng(2))
    end = cd.function(wander, q=model.nq, dv=model.nv)(q, 0.1 * dv)
    for link in model.links:
        # two roundings, not twenty thousand
        assert abs(np.linalg.norm(end[link.q][-4:]) - 1.0) <= 4 * np.finfo(float).eps


def test_random_configurations_keep_their_limits() -> None:
    model = random_model(1, joints=7)
    links = [replace(link, limits=Limits(-0.25, 0.5)) if link.kind.nq == 1 else link for link in model.links]
    q = random_configuration(replace(model, links=tuple(links)), np.random.default_rng(0), 200)
    assert q.shape == (200, model.nq)
    for link in links:
        if link.kind.nq == 1:
            assert -0.25 <= q[:, link.q].min() < -0.2 and 0.45 < q[:, link.q].max() <= 0.5
        else:
            assert near(np.linalg.norm(q[:, link.q][:, -4:], axis=1), np.ones(200), SAME_FORMULA)
