"""Force laws add up: random robots with random combinations of them move as under one force, the sum that is computed here."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from dynamics.random_robots import TOOL, random_description, random_state
from hypothesis import example, given, settings
from hypothesis import strategies as st

import condyle as cd
from condyle.blocks.actuators import ImplicitPD
from condyle.blocks.joints import combined
from condyle.dynamics.rotations import quaternion_log
from condyle.robot.description import Description, Limits
from condyle.robot.joints import Ball

H = 0.004
CLOSE = 1e-10  # of the change of velocity: the same equation of motion, its forces summed in another order
LAWS = ("compensation", "ball springs", "springs", "damping", "motors", "wrench", "local wrench", "force", "drive")
EULER = ("semi_implicit_euler", "explicit_euler")
INTEGRATORS = (*EULER, "rk2", "rk4", "backward_euler")
PUSH, PULL = np.array([1.0, -2.0, 0.5, 0.3, 0.1, -0.2]), np.array([-0.3, 0.4, 1.5, 0.2, -0.1, 0.4])
EFFORT, KP, KD, TARGET = 0.7, 30.0, 2.0, 0.2


def own_force(model: Any, q: Any, v: Any) -> Any:
    """A force of the user's."""
    return np.array([0.1 * (k + 1) * np.cos(v[0] + 0.3 * k) - 0.2 * v[k] for k in range(model.nv)])


def described(seed: int, acting: set[str]) -> Description:
    """A random tree of a ball joint, a hinge and one more joint, with those laws that belong to a robot."""
    rng = np.random.default_rng(seed)
    plain = random_description(rng, 3, ("ball", "revolute", str(rng.choice(["prismatic", "ball", "continuous"]))))
    joints, links = [], []
    for joint in plain.joints:
        k, b, rest = (float(x) for x in rng.uniform((1.0, 0.1, -0.3), (20.0, 2.0, 0.3)))
        ball = joint.kind == "ball"
        if ("ball springs" if ball else "springs") in acting:
            joint = replace(joint, stiffness=k, rest=0.0 if ball else rest)
        joint = replace(joint, damping=b if "damping" in acting else 0.0)
        joints.append(joint if ball else replace(joint, limits=Limits(effort=EFFORT)))
    for link in plain.links:
        part = float(rng.uniform(0.2, 1.2))
        links.append(replace(link, gravity_compensation=part if "compensation" in acting else 0.0))
    return replace(plain, joints=tuple(joints), links=tuple(links))


def hinge_of(robot: cd.Robot) -> str:
    return next(link.joint for link in robot.model.links if link.kind.nv == 1)


def explicit_forces(robot: cd.Robot, written: Description, acting: set[str], q: Any, v: Any) -> Any:
    """Forces of the laws that act at (q, v) with every integrator, by frame Jacobians."""
    model, tau = robot.model, np.zeros(robot.nv)

    def at(frame: str, arm: Any, force: Any, torque: Any) -> Any:
        J = robot.jacobian(q, frame)
        return J.T @ np.concatenate([force, torque + np.cross(arm, force)])

    for link in written.links:
        if link.gravity_compensation:
            arm = robot.frame_pose(q, link.name)[0] @ link.inertia.com
            lift = -link.gravity_compensation * link.inertia.mass * np.array(model.gravity)
            tau = tau + at(link.name, arm, lift, np.zeros(3))
    for joint in model.links:
        if isinstance(joint.kind, Ball):
            spring = np.zeros(robot.nv, dtype=object)
            spring[joint.v] = -joint.stiffness * quaternion_log(q[joint.q])
            tau = tau + spring
    if "wrench" in acting:
        tau = tau + at(TOOL, np.zeros(3), PUSH[:3], PUSH[3:])
    if "local wrench" in acting:
        R = robot.frame_pose(q, TOOL)[0]
        tau = tau + at(TOOL, np.zeros(3), R @ PULL[:3], R @ PULL[3:])
    return tau + own_force(model, q, v) if "force" in acting else tau


def joint_laws(robot: cd.Robot, acting: set[str], q: Any, v: Any) -> Any:
    """Springs and damping of the joints, and the drive, at (q, v)."""
    tau = []
    for link in robot.model.links:
        for k in range(link.v.start, link.v.stop):
            one = link.kind.nv == 1
            force = -link.damping * v[k] + ((link.rest - q[link.q.start]) * link.stiffness if one else 0.0)
            if "drive" in acting and link.joint == hinge_of(robot):
                force = force + KP * (TARGET - q[link.q.start]) - KD * v[k]
            tau.append(force)
    return np.array(tau)


def bare(robot: cd.Robot, **options: Any) -> cd.Simulation:
    """The robot without any law, and with a motor in each coordinate."""
    links = [replace(x, stiffness=0.0, damping=0.0, compensated=(0.0, 0.0, 0.0, 0.0)) for x in robot.model.links]
    plain = cd.Robot(replace(robot.model, links=tuple(links)))
    return cd.Simulation(plain, H, None, actuated=plain.joint_names, torque_limits=False, limits=False, **options)


def check_sum(seed: int, base: str, acting: set[str], integrator: str, looped: bool, named: bool) -> None:
    """One step under the laws is one step under the sum of their forces. `named`: frames are named, zero wrenches given."""
    acting = acting if looped and integrator in EULER else acting - {"drive"}
    written = described(seed, acting)
    robot = cd.load(written, base=base, gravity=(1.0, -2.0, -9.0))
    q, v, _ = random_state(robot.model, np.random.default_rng(seed))
    motors = [link.joint for link in robot.model.links if link.kind.nv == 1]
    u = np.array([2.0, -0.3][: len(motors)]) if "motors" in acting else np.zeros(len(motors))
    frames = {(TOOL, "world_aligned"): "wrench", (TOOL, "local"): "local wrench"}
    wrenches = [(PUSH, PULL)[k] * (law in acting) for k, law in enumerate(frames.values())]
    pushed = named or {"wrench", "local wrench"} & acting
    options: dict[str, Any] = {"integrator": integrator, "force": own_force if "force" in acting else None}
    if looped:
        world = cd.Simulation(robot, H, None, actuated=motors, limits=False, **options)
        drive = ImplicitPD(hinge_of(robot), KP, KD)

        def controls(x: Any) -> Any:
            pushes = {"wrenches": {TOOL: [wrenches[0], (wrenches[1], "local")]}} if pushed else {}
            return combined(u, pushes, drive(TARGET) if "drive" in acting else {})

        loop = cd.Loop(world, controls)
        x1 = loop.step(loop.state(q, v), backend="reference")[: world.nx]
    else:
        world = cd.Simulation(robot, H, None, actuated=motors, wrenches=list(frames) if pushed else (), limits=False, **options)
        x1 = world.step(world.state(q, v), u, wrenches=np.array(wrenches) if pushed else None, backend="reference")
    q1, v1 = world.split(x1)

    # springs and damping act at the end of a semi-implicit step, and a drive in all Euler methods; what follows is one force
    tau = np.zeros(robot.nv)
    tau[list(world.actuated)] = np.clip(u, -EFFORT, EFFORT)
    at_end = {"semi_implicit_euler": acting, "explicit_euler": {"drive"} & acting}.get(integrator, set())
    if integrator == "semi_implicit_euler":
        tau = tau + joint_laws(robot, acting, q1, v1)
    elif at_end:
        k = next(link for link in robot.model.links if link.joint == hinge_of(robot))
        tau[k.v.start] += KP * (TARGET - q[k.q.start] - H * v1[k.v.start]) - KD * v1[k.v.start]

    def total(model: Any, q: Any, v: Any) -> Any:
        tau = explicit_forces(robot, written, acting, q, v)
        return tau if integrator == "semi_implicit_euler" else tau + joint_laws(robot, acting - {"drive"}, q, v)

    plain = bare(robot, integrator=integrator, force=total)
    change = plain.split(plain.step(plain.state(q, v), tau, backend="reference"))[1] - v
    np.testing.assert_allclose(v1 - v, change, rtol=0.0, atol=CLOSE * np.max(np.abs(change)))


# each law by itself and all together, with a frame that is named
@pytest.mark.parametrize(
    "acting", [*[{law} for law in LAWS], set(LAWS)], ids=lambda acting: " ".join(acting) if len(acting) == 1 else "all"
)
def test_each_law_and_all_together(acting: set[str]) -> None:
    check_sum(1, "fixed", acting, "semi_implicit_euler", looped=True, named=True)


@pytest.mark.parametrize("integrator", INTEGRATORS)
def test_all_laws_with_every_integrator(integrator: str) -> None:
    check_sum(2, "fixed", set(LAWS), integrator, looped=False, named=True)


COMBINATIONS = {
    "seed": st.integers(0, 10**6),
    "base": st.sampled_from(["fixed", "free"]),
    "acting": st.sets(st.sampled_from(LAWS)),
    "integrator": st.sampled_from(INTEGRATORS),
    "looped": st.booleans(),
    "named": st.booleans(),
}


@settings(max_examples=4)
@given(**COMBINATIONS)
@example(3, "fixed", {"compensation"}, "semi_implicit_euler", False, True)
@example(3, "fixed", {"ball springs"}, "rk4", True, True)
def test_any_laws_together(seed: int, base: str, acting: set[str], integrator: str, looped: bool, named: bool) -> None:
    check_sum(seed, base, acting, integrator, looped, named)


def test_worlds_that_differ_in_one_ball_spring_are_compiled_apart() -> None:
    soft = cd.load(described(7, {"ball springs"}))
    links = [replace(link, stiffness=2.0 * link.stiffness) for link in soft.model.links]
    stiff = cd.Robot(replace(soft.model, links=tuple(links)))
    q, v, _ = random_state(soft.model, np.random.default_rng(0))
    one, other = (cd.Simulation(robot, H, None) for robot in (soft, stiff))
    assert one.hash != other.hash
    assert not np.array_equal(one.step(one.state(q, v), backend="reference"), other.step(other.state(q, v), backend="reference"))


@pytest.mark.slow
@settings(max_examples=40)
@given(**COMBINATIONS)
def test_many_laws_together(seed: int, base: str, acting: set[str], integrator: str, looped: bool, named: bool) -> None:
    check_sum(seed, base, acting, integrator, looped, named)
