"""Every quantity against Pinocchio: on robots people have, with fixed and free base, and on random trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dynamics.random_robots import TOOL, pinocchio_model, random_model, random_state
from markers import slow_except

import condyle as cd
from condyle.dynamics import coriolis, crba, energy, kinematics, manifold, rnea
from condyle.dynamics.aba import forward_dynamics
from condyle.dynamics.crba import mass_matrix
from condyle.dynamics.regressor import inverse_dynamics_regressor
from condyle.dynamics.rnea import inverse_dynamics
from condyle.robot.build import build
from condyle.robot.model import Model
from condyle.robot.spatial import Force
from condyle.robot.urdf import read_urdf

pin = pytest.importorskip("pinocchio")

# largest difference over the largest entry; both sides are float64 and round differently
SAME_FORMULA = 1e-12
# inverses differ by rounding times the condition number of M, up to 1e6 on robots with fingers
INVERSE = 1e-10
# Pinocchio's derivatives on the manifold switch to short series at small angles
MANIFOLD_DERIVATIVE = 1e-9

ROBOTS = [
    "panda_description/urdf/panda.urdf",
    "ur_description/urdf/ur5_robot.urdf",
    "kinova_description/robots/kinova.urdf",
    "xarm_description/urdf/xarm7.urdf",
    "z1_description/urdf/z1.urdf",
    "double_pendulum_description/urdf/double_pendulum_continuous.urdf",
    "allegro_hand_description/urdf/allegro_right_hand.urdf",
    "anymal_b_simple_description/robots/anymal.urdf",
    "hyq_description/robots/hyq_no_sensors.urdf",
    "solo_description/robots/solo12.urdf",
    "go2_description/urdf/go2.urdf",
    "bolt_description/robots/bolt.urdf",
    "hextilt_description/urdf/hextilt_flying_arm_5.urdf",
    "tiago_description/robots/tiago.urdf",
    "icub_description/robots/icub_reduced.urdf",
    "romeo_description/urdf/romeo_small.urdf",
    "talos_data/robots/talos_reduced.urdf",
    "g1_description/urdf/g1_29dof_rev_1_0.urdf",
]
SEEDS = range(8)
REFERENCES = {
    "local": pin.ReferenceFrame.LOCAL,
    "world_aligned": pin.ReferenceFrame.LOCAL_WORLD_ALIGNED,
    "world": pin.ReferenceFrame.WORLD,
}


# -- the two sides


def robots_folder() -> Path:
    """Where the package example-robot-data keeps its robots."""
    for parent in Path(pin.__file__).parents:
        if (robots := parent / "share" / "example-robot-data" / "robots").is_dir():
            return robots
    pytest.skip("the package example-robot-data is not installed")


def load(file: str, base: str) -> tuple[Model, Any]:
    """One robot, read by both, with armatures added."""
    path = robots_folder() / file
    model = build(read_urdf(path.read_bytes(), path.name), base)
    armature = [0.01 * (i % 4) for i in range(len(model.links))]
    links = [replace(link, armature=extra) for link, extra in zip(model.links, armature, strict=True)]
    twin = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer()) if base == "free" else pin.buildModelFromUrdf(str(path))
    twin.armature = np.concatenate([np.full(link.kind.nv, link.armature) for link in links])
    return replace(model, links=tuple(links)), twin


def their_q(model: Model, twin: Any, q: np.ndarray) -> np.ndarray:
    """The configuration as Pinocchio writes it: (cos, sin) for joints that turn without end."""
    parts = []
    for i, link in model.outward():
        turns = twin.joints[i + 1].nq == 2
        parts.append(np.array([np.cos(q[link.q][0]), np.sin(q[link.q][0])]) if turns else q[link.q])
    return np.concatenate(parts)


def error(ours: Any, theirs: Any, floor: float = np.finfo(float).tiny) -> float:
    """The largest difference over the largest entry, or over `floor` where all entries may be zero but for rounding."""
    ours, theirs = np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float)
    assert ours.shape == theirs.shape, f"shapes {ours.shape} and {theirs.shape}"
    return float(np.abs(ours - theirs).max(initial=0.0) / max(np.abs(theirs).max(initial=0.0), floor))


# -- what is compared: our functions of (model, q, v, a), theirs of (twin, data, q, v, a)


def _their_inverse(m: Any, d: Any, q: np.ndarray) -> np.ndarray:
    upper = np.triu(pin.computeMinverse(m, d, q))
    return upper + np.triu(upper, 1).T


QUANTITIES: dict[str, tuple[Callable[..., Any], Callable[..., Any], float]] = {
    "inverse dynamics": (inverse_dynamics, pin.rnea, SAME_FORMULA),
    "gravity": (
        lambda m, q, v, a: rnea.gravity_forces(m, q),
        lambda m, d, q, v, a: pin.computeGeneralizedGravity(m, d, q),
        SAME_FORMULA,
    ),
    "bias": (
        lambda m, q, v, a: rnea.bias_forces(m, q, v),
        lambda m, d, q, v, a: pin.nonLinearEffects(m, d, q, v),
        SAME_FORMULA,
    ),
    "mass matrix": (lambda m, q, v, a: mass_matrix(m, q), lambda m, d, q, v, a: pin.crba(m, d, q), SAME_FORMULA),
    "Coriolis": (
        lambda m, q, v, a: coriolis.coriolis_matrix(m, q, v),
        lambda m, d, q, v, a: pin.computeCoriolisMatrix(m, d, q, v),
        SAME_FORMULA,
    ),
    "regressor": (inverse_dynamics_regressor, pin.computeJointTorqueRegressor, SAME_FORMULA),
    # the force that gives the acceleration a, so that the answer is of moderate size
    "forward dynamics": (
        lambda m, q, v, a: forward_dynamics(m, q, v, inverse_dynamics(m, q, v, a)),
        lambda m, d, q, v, a: pin.aba(m, d, q, v, pin.rnea(m, d, q, v, a)),
        INVERSE,
    ),
    "inverse mass matrix": (
        lambda m, q, v, a: crba.inverse_mass_matrix(m, q),
        lambda m, d, q, v, a: _their_inverse(m, d, q),
        INVERSE,
    ),
    # by the mass matrix: computeKineticEnergy (4.1) leaves out the armature of revolute joints about unaligned axes
    "kinetic energy": (
        lambda m, q, v, a: energy.kinetic_energy(m, q, v),
        lambda m, d, q, v, a: 0.5 * v @ pin.crba(m, d, q) @ v,
        SAME_FORMULA,
    ),
    "potential energy": (
        lambda m, q, v, a: energy.potential_energy(m, q),
        lambda m, d, q, v, a: pin.computePotentialEnergy(m, d, q),
        SAME_FORMULA,
    ),
    "mass": (lambda m, q, v, a: energy.total_mass(m), lambda m, d, q, v, a: pin.computeTotalMass(m), SAME_FORMULA),
    "centre of mass": (
        lambda m, q, v, a: energy.center_of_mass(m, q),
        lambda m, d, q, v, a: pin.centerOfMass(m, d, q),
        SAME_FORMULA,
    ),
    "its Jacobian": (
        lambda m, q, v, a: energy.com_jacobian(m, q),
        lambda m, d, q, v, a: pin.jacobianCenterOfMass(m, d, q),
        SAME_FORMULA,
    ),
    "momentum": (
        lambda m, q, v, a: energy.momentum(m, q, v),
        lambda m, d, q, v, a: pin.computeCentroidalMomentum(m, d, q, v).vector,
        SAME_FORMULA,
    ),
    "centroidal map": (
        lambda m, q, v, a: energy.centroidal_map(m, q),
        lambda m, d, q, v, a: pin.ccrba(m, d, q, v),
        SAME_FORMULA,
    ),
}


def compared(model: Model, twin: Any, seed: int = 0) -> Iterator[tuple[str, float, float]]:
    """(quantity, error, tolerance) for all of them, at one random state."""
    rng = np.random.default_rng(seed)
    q, v, a = random_state(model, rng)
    data, q_twin = twin.createData(), their_q(model, twin, q)
    for name, (ours, theirs, tolerance) in QUANTITIES.items():
        yield name, error(ours(model, q, v, a), theirs(twin, data, q_twin, v, a)), tolerance
    yield from _poses(model, twin, data, q, q_twin)
    known = [frame.name for frame in twin.frames]
    frames = [frame for frame in model.frames if frame.link >= 0 and known.count(frame.name) == 1]
    for frame in (frames[0], frames[len(frames) // 2], frames[-1]):
        yield from _jacobians(model, twin, data, q, q_twin, v, frame.name)
        yield from _frame_motion(model, twin, data, (q, v, a), q_twin, frame.name)
    yield from _wrenches(model, twin, data, rng)
    yield from _manifold(model, twin, rng)


def _poses(model: Model, twin: Any, data: Any, q: np.ndarray, q_twin: np.ndarray) -> Iterator[tuple[str, float, float]]:
    pin.framesForwardKinematics(twin, data, q_twin)
    for X, X_twin in zip(kinematics.poses(model, q), list(data.oMi)[1:], strict=True):
        yield "pose", error(X.R, X_twin.rotation) + error(X.p, X_twin.translation), SAME_FORMULA


def _jacobians(
    model: Model, twin: Any, data: Any, q: np.ndarray, q_twin: np.ndarray, v: np.ndarray, frame: str
) -> Iterator[tuple[str, float, float]]:
    which = twin.getFrameId(frame)
    X, X_twin = kinematics.frame_pose(model, q, frame), data.oMf[which]
    yield f"pose of {frame}", error(X.R, X_twin.rotation) + error(X.p, X_twin.translation), SAME_FORMULA
    pin.computeJointJacobiansTimeVariation(twin, data, q_twin, v)
    pin.updateFramePlacements(twin, data)
    for name, reference in REFERENCES.items():
        theirs = pin.getFrameJacobian(twin, data, which, reference)
        yield f"{name} Jacobian of {frame}", error(kinematics.jacobian(model, q, frame, name), theirs), SAME_FORMULA
        theirs = pin.getFrameJacobianTimeVariation(twin, data, which, reference)
        ours = kinematics.jacobian_rate(model, q, v, frame, name)
        yield f"{name} Jacobian's rate of {frame}", error(ours, theirs, floor=1.0), SAME_FORMULA


def _frame_motion(
    model: Model, twin: Any, data: Any, state: tuple[np.ndarray, ...], q_twin: np.ndarray, frame: str
) -> Iterator[tuple[str, float, float]]:
    (q, v, a), which = state, twin.getFrameId(frame)
    pin.forwardKinematics(twin, data, q_twin, v, a)
    for name, reference in REFERENCES.items():
        theirs = pin.getFrameVelocity(twin, data, which, reference).vector
        yield (
            f"{name} velocity of {frame}",
            error(kinematics.frame_velocity(model, q, v, frame, name).vector(), theirs),
            SAME_FORMULA,
        )
        theirs = pin.getFrameClassicalAcceleration(twin, data, which, reference).vector
        ours = kinematics.frame_acceleration(model, q, v, a, frame, name).vector()
        yield f"{name} acceleration of {frame}", error(ours, theirs), SAME_FORMULA


def _wrenches(model: Model, twin: Any, data: Any, rng: np.random.Generator) -> Iterator[tuple[str, float, float]]:
    q, v, a = random_state(model, rng)
    q_twin = their_q(model, twin, q)
    six = rng.uniform(-10, 10, (len(model.links), 6))
    ours = {i: Force.of(six[i]) for i in range(len(model.links)) if i % 2 == 0}
    theirs = [pin.Force.Zero()] + [pin.Force(six[i] * (i % 2 == 0)) for i in range(len(model.links))]
    tau = pin.rnea(twin, data, q_twin, v, a, theirs)
    yield "inverse dynamics with wrenches", error(inverse_dynamics(model, q, v, a, ours), tau), SAME_FORMULA
    yield "forward dynamics with wrenches", error(forward_dynamics(model, q, v, tau, ours), a), INVERSE


def _manifold(model: Model, twin: Any, rng: np.random.Generator) -> Iterator[tuple[str, float, float]]:
    q, dv, _ = random_state(model, rng)
    q_twin = their_q(model, twin, q)
    there = manifold.integrate(model, q, dv).astype(float)
    there_twin = pin.integrate(twin, q_twin, dv)
    yield "integrate", error(their_q(model, twin, there), there_twin), SAME_FORMULA
    yield "difference", error(manifold.difference(model, q, there), pin.difference(twin, q_twin, there_twin)), SAME_FORMULA
    ours, theirs = manifold.integrate_derivatives(model, dv), pin.dIntegrate(twin, q_twin, dv)
    yield "integrate by q", error(ours[0], theirs[0]), MANIFOLD_DERIVATIVE
    yield "integrate by dv", error(ours[1], theirs[1]), MANIFOLD_DERIVATIVE
    ours, theirs = manifold.difference_derivatives(model, q, there), pin.dDifference(twin, q_twin, there_twin)
    yield "difference by q0", error(ours[0], theirs[0]), MANIFOLD_DERIVATIVE
    yield "difference by q1", error(ours[1], theirs[1]), MANIFOLD_DERIVATIVE


def assert_agreement(rows: Iterator[tuple[str, float, float]]) -> None:
    apart = [f"{name}: {difference:.1e}" for name, difference, tolerance in rows if not difference <= tolerance]
    assert not apart, "; ".join(apart)


# -- the tests


@pytest.mark.peers
@pytest.mark.parametrize("base", ["fixed", "free"])
@pytest.mark.parametrize("file", ROBOTS, ids=lambda file: Path(file).stem)
def test_robots_people_have(file: str, base: str) -> None:
    model, twin = load(file, base)
    assert [link.v.start for link in model.links] == [twin.joints[j].idx_v for j in range(1, twin.njoints)]
    assert [link.joint for link in model.links][1:] == list(twin.names)[2:], "joints come in another order"
    assert_agreement(compared(model, twin))


@pytest.mark.parametrize("seed", slow_except(SEEDS[:4], SEEDS))
@pytest.mark.parametrize("base", ["fixed", "free"])
def test_random_trees(seed: int, base: str) -> None:
    model = random_model(seed, joints=9, base=base)
    assert_agreement(compared(model, pinocchio_model(model), seed))


@pytest.mark.peers
def test_a_compiled_batch_of_a_random_tree() -> None:
    model = random_model(3)
    twin = pinocchio_model(model)
    data = twin.createData()
    q, v, a = random_state(model, np.random.default_rng(3), count=21)
    names = {name.replace(" ", "_"): row for name, row in QUANTITIES.items()}
    compiled = cd.function(
        lambda q, v, a: {name: ours(model, q, v, a) for name, (ours, _, _) in names.items()}, q=model.nq, v=model.nv, a=model.nv
    )
    batch = compiled(q, v, a)
    for k in range(len(q)):
        rows = (
            (name, error(getattr(batch, name)[k], theirs(twin, data, q[k], v[k], a[k])), tolerance)
            for name, (_, theirs, tolerance) in names.items()
        )
        assert_agreement(rows)


@pytest.mark.parametrize("angle", [0.0, 1e-9, 1e-4, 0.69, 0.71, 0.99999, 1.00001, 3.0, np.pi - 1e-6])
def test_small_and_large_turns(angle: float) -> None:
    model = random_model(5, kinds=("free", "ball"), joints=2)
    twin = pinocchio_model(model)
    q, dv, _ = random_state(model, np.random.default_rng(5))
    for link in model.links:
        turn = dv[link.v][-3:]
        turn *= angle / np.linalg.norm(turn)
    there = manifold.integrate(model, q, dv).astype(float)
    assert error(there, pin.integrate(twin, q, dv)) <= SAME_FORMULA
    # the way back is as good as the quaternion, whose last digit is worth more of the angle near pi than Pinocchio's matrix
    assert error(manifold.difference(model, q, there), dv) <= SAME_FORMULA


def test_frames_of_random_trees_are_compared() -> None:
    model = random_model(0)
    assert pinocchio_model(model).existFrame(TOOL)
