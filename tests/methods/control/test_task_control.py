"""Controllers of the tool: stiffness by a push, energy, closed-form responses, null space, singularities, the same bits."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from methods.control.arms import READY, TOOL, arm, here, pose_rows, random_pushes, regular_poses

import condyle as cd
from condyle.dynamics.rotations import quaternion_exp
from condyle.errors import ControlError
from condyle.methods.control.arm_controller import ToolSample
from condyle.methods.control.force_control import Admittance, HandGuiding, HybridForcePosition
from condyle.methods.control.passivity import EnergyBalance
from condyle.methods.control.task_control import CartesianImpedance, OperationalSpace
from condyle.robot.joints import rotation_of

TURN = rotation_of(quaternion_exp(np.array([0.3, -0.8, 0.5])))


@cache
def impedance_loop(name: str, passive: bool) -> Any:
    """An arm under Cartesian impedance in turned axes, with its energy balance; `counted` is the part of the work that counts."""
    frame, world = TOOL[name], cd.Simulation(arm(name), dt=0.001, ground=None)
    control = CartesianImpedance(world, frame, task_frame=TURN, passive=passive, name="impedance")
    balance = EnergyBalance(frame)

    def closed(x: Any, R: Any, p: Any, push: Any, counted: Any) -> dict[str, Any]:
        out = control(x, here(R, p))
        ledger = balance(x, arm(name).kinetic_energy(x.q, x.v) + out["stored"], push * counted[0])
        return {**out, **ledger, "wrenches": {frame: push}}

    return cd.Loop(world, closed, R=9, p=3, push=6, counted=1)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "passive"), [("ur3", True), ("panda", False)])
def test_stiffness_by_a_push(name: str, passive: bool) -> None:
    """A constant wrench along each axis of the task frame moves the tool by F / K along it; the null space has no part in it."""
    loop = impedance_loop(name, passive)
    q = np.repeat(regular_poses(name, 3, sigma=0.02), 6, axis=0)
    stiffness = np.array([900.0, 1200.0, 1500.0, 30.0, 40.0, 50.0]) * np.random.default_rng(1).uniform(0.7, 1.3, (len(q), 6))
    axes = np.kron(np.eye(2), TURN)  # columns: the six directions in the world
    push = np.tile(axes.T * np.array([12.0] * 3 + [1.0] * 3)[:, None], (3, 1))
    rows = {**pose_rows(name, q), "push": push[:, None], "counted": np.ones(1)}
    out = loop.rollout(
        loop.state(q), rows, 4000, record=["error", "v"], every=4000,
        parameters={"impedance.stiffness": stiffness},
    )  # fmt: skip
    moved = -out["error"][:, -1] @ axes
    expected = push @ axes / stiffness
    np.testing.assert_allclose(moved, expected, atol=1e-4 * np.abs(expected).max(axis=1).min())
    assert np.abs(out["v"][:, -1]).max() < 1e-3


@pytest.mark.slow
def test_no_more_energy_than_was_put_in() -> None:
    """1,000 random pairs of pushes, one batch: kinetic energy and energy of the spring stay below the work of the pushes."""
    name, loop = "ur3", impedance_loop("ur3", True)
    q = regular_poses(name, 1000, seed=3)
    rows = {**pose_rows(name, q), "push": random_pushes(1000)}
    out = loop.rollout(loop.state(q), {**rows, "counted": np.ones(1)}, 400, record=["excess", "supplied"], every=400)
    assert np.all(out["supplied"] > 1e-4)
    assert np.max(out["excess"] / out["supplied"]) < 1e-12
    # a quarter of the work is too little, so the balance would show an excess
    less = loop.rollout(loop.state(q), {**rows, "counted": np.full(1, 0.25)}, 400, record=["excess"], every=400)["excess"]
    assert np.mean(less > 0.1 * out["supplied"]) > 0.5


def response(dt: float) -> np.ndarray:
    """The error of the Panda's tool at 20 times within 0.5 s, (20, 6), under OperationalSpace from a displaced reference."""
    loop, numbers = displaced(), {"dt": dt}
    # the error is that at the start of a tick, so one more
    x, first = loop.step(loop.state(PANDA), record=["error"], parameters=numbers)
    np.testing.assert_allclose(first["error"], E0, atol=1e-12)
    out = loop.rollout(x, steps=round(0.5 / dt), record=["error"], every=50, parameters=numbers)
    seldom = round(0.025 / dt / 50)
    return np.asarray(out["error"])[seldom - 1 :: seldom]


@cache
def displaced() -> cd.Loop:
    """The Panda under OperationalSpace, whose goal is beside its first pose; `dt` is a parameter of its calls."""
    robot, frame = arm("panda"), TOOL["panda"]
    control = OperationalSpace(cd.Simulation(robot, dt=5e-4, ground=None), frame, kp=KP, friction=True, null_kp=4.0)
    R, p = robot.frame_pose(PANDA, frame)
    goal = ToolSample(rotation_of(quaternion_exp(E0[3:])) @ R, p + E0[:3])
    return cd.Loop(control.simulation, lambda x: control(x, goal))


KP = np.array([100.0, 150.0, 200.0, 120.0, 120.0, 120.0])
PANDA = np.array([0.2, -0.5, 0.1, -2.2, 0.1, 1.8, 0.5])
E0 = np.array([0.05, -0.04, 0.03, 0.1, 0.2, -0.1])


@pytest.mark.slow
def test_each_axis_of_the_tool_has_its_closed_form() -> None:
    """e(t) = e0 (1 + w t) exp(-w t) of every axis by itself; the step's error is linear in dt, and is extrapolated to zero."""
    t, w = 0.025 * np.arange(1, 21)[:, None], np.sqrt(KP)
    expected = E0 * (1.0 + w * t) * np.exp(-w * t)
    coarse, fine = response(5e-4), response(2.5e-4)
    assert np.abs(fine - expected).max() < 4e-4
    np.testing.assert_allclose(2.0 * fine - coarse, expected, atol=2e-6)


@pytest.fixture(scope="module")
def posed() -> Any:
    """The loop of a Panda under OperationalSpace, with what it takes for the tool's inverse inertia."""
    world = cd.Simulation(arm("panda"), dt=0.001, ground=None)
    control = OperationalSpace(world, TOOL["panda"], name="tool")

    def closed(x: Any, R: Any, p: Any) -> dict[str, Any]:
        return {**control(x, here(R, p)), "A": control.at(x).A}

    return cd.Loop(world, closed, R=9, p=3), control


def test_the_null_space_does_not_disturb_the_tool(posed: Any) -> None:
    """Torques of two postures differ by N m, and accelerate the joints, but not the tool."""
    loop, _ = posed
    robot, frame, q = arm("panda"), TOOL["panda"], regular_poses("panda", 50)
    x, rows = loop.state(q, np.random.default_rng(0).normal(size=q.shape)), pose_rows("panda", q)
    u = [loop.rollout(x, rows, 1, record=["u"], parameters={"tool.posture": q + shift})["u"][:, 0] for shift in (0.0, 0.3)]
    joints = np.einsum("nij,nj->ni", robot.inverse_mass_matrix(q), u[1] - u[0])
    tool = np.einsum("nij,nj->ni", robot.jacobian(q, frame), joints)
    assert np.abs(joints).max(axis=1).min() > 0.1
    assert np.abs(tool).max() < 1e-10


def test_the_inertia_is_exact_and_bounded_at_singularities(posed: Any) -> None:
    """A = J M^-1 J^T wherever the sum of effective masses is below max_mass, and no effective mass is above 4/3 of it."""
    loop, control = posed
    robot, frame, bound = arm("panda"), TOOL["panda"], 200.0
    q = np.concatenate([regular_poses("panda", 100, sigma=0.0), np.zeros((1, 7)), np.tile([0, 0, 0, -0.1, 0, 0, 0], (1, 1))])
    rows = pose_rows("panda", q)
    out = loop.rollout(loop.state(q), rows, 1, record=["A", "u"], parameters={"tool.max_mass": bound})
    J, S = robot.jacobian(q, frame), np.diag([1.0, 1.0, 1.0, *[control.lever] * 3])
    A = S @ J @ robot.inverse_mass_matrix(q) @ np.swapaxes(J, 1, 2) @ S
    used = S @ out["A"][:, 0] @ S
    exact = np.array([np.linalg.cond(a) < 1e9 and np.trace(np.linalg.inv(a)) < bound for a in A])
    assert 50 < exact.sum() < 100
    np.testing.assert_allclose(used[exact], A[exact], rtol=1e-9, atol=1e-9)
    assert np.linalg.eigvalsh(used)[:, 0].min() > 0.75 / bound * (1.0 - 1e-9)
    assert np.all(np.isfinite(out["u"]))


def test_arms_with_few_joints() -> None:
    """Two joints reach a position in the plane; with three rows they do as well as two joints can."""
    robot = cd.load("double_pendulum")
    world, frame = cd.Simulation(robot, dt=0.002, ground=None), robot.frame_names[-1]
    R, p = robot.frame_pose(np.array([0.9, 0.8]), frame)
    moving = [k for k, row in enumerate(robot.jacobian(np.array([0.4, 0.5]), frame)) if np.abs(row).max() > 1e-9]
    names = ("x", "y", "z", "rx", "ry", "rz")
    exact = OperationalSpace(world, frame, axes=[names[k] for k in moving if k < 3], friction=True, name="exact")
    more = OperationalSpace(world, frame, axes=[names[k] for k in moving], friction=True, name="more")
    chosen = cd.Loop(
        world, lambda x, which: cd.where(which[0] > 0.5, more(x, ToolSample(R, p))["u"], exact(x, ToolSample(R, p))["u"]), which=1
    )
    out = chosen.rollout(chosen.state(np.tile([0.4, 0.5], (2, 1))), np.array([[[0.0]], [[1.0]]]), 1500, every=1500)
    np.testing.assert_allclose(robot.frame_pose(out["q"][:, -1], frame)[1], [p, p], atol=1e-4)


def test_shaped_inertia() -> None:
    """With the measured wrench, the tool's acceleration under a push is F / M_d, whatever the arm is."""
    world, frame = cd.Simulation(arm(), dt=0.001, ground=None, damping=False), "tool"
    M = np.array([3.0, 4.0, 5.0, 0.1, 0.2, 0.3])
    control = CartesianImpedance(world, frame, shaped_inertia=M, name="shaped")
    push = np.array([1.0, -2.0, 3.0, 0.1, 0.2, -0.3])

    def closed(x: Any, R: Any, p: Any) -> dict[str, Any]:
        return {**control(x, here(R, p), wrench=push), "wrenches": {frame: push}}

    loop, q = cd.Loop(world, closed, R=9, p=3), regular_poses("ur3", 8)
    out = loop.rollout(loop.state(q), pose_rows("ur3", q), 1, record=["v"])
    v = out["v"][:, 0]
    found = np.einsum("nij,nj->ni", arm().jacobian(q, frame), v) / 0.001
    np.testing.assert_allclose(found, np.tile(push / M, (8, 1)), rtol=1e-9)


@pytest.mark.slow
def test_same_bits_alone_in_a_batch_and_in_any_lanes() -> None:
    world, frame = cd.Simulation(arm(), dt=0.001, ground=None), "tool"
    space, impedance = OperationalSpace(world, frame), CartesianImpedance(world, frame)
    soft, hybrid = Admittance(world, frame), HybridForcePosition(world, frame)
    guided = HandGuiding(world, frame, walls=[((0, 0, 1), 0.2)], speed=0.1, locked="y")

    def closed(x: Any, R: Any, p: Any, push: Any) -> dict[str, Any]:
        r = here(R, p)
        parts = [space(x, r), impedance(x, r), soft(x, r, wrench=push), hybrid(x, r, wrench=push), guided(x, r)]
        return {"u": 0.2 * sum(part["u"] for part in parts), "wrenches": {frame: push}}

    loop, q = cd.Loop(world, closed, R=9, p=3, push=6), regular_poses("ur3", 9)
    x, rows = loop.state(q, 0.1 * q), {**pose_rows("ur3", q + 0.1), "push": random_pushes(9)[:, 1:2]}
    whole = loop.rollout(x, rows, 50, record=["u"], threads=1)
    for lanes in (1, 2):
        other = loop.rollout(x, rows, 50, record=["u"], lanes=lanes, threads=1)
        assert np.array_equal(other["u"], whole["u"]) and np.array_equal(other.x, whole.x)
    alone = loop.rollout(x[4], {name: value[4] for name, value in rows.items()}, 50, record=["u"], robots=4)
    assert np.array_equal(alone.x, whole.x[4]) and np.array_equal(alone["u"], whole["u"][4])


def test_wrong_arguments_are_explained() -> None:
    world = cd.Simulation(arm(), dt=0.001, ground=None)
    cases: list[tuple[Any, str]] = [
        (lambda: OperationalSpace(world, "tol"), "no frame 'tol'.*did you mean 'tool'"),
        (lambda: OperationalSpace(world, "tool", axes=["x", "rox"]), "no axis 'rox'"),
        (lambda: OperationalSpace(world, "tool", axes=["x", "x"]), "each once"),
        (lambda: OperationalSpace(world, "tool", kp=[1.0, 2.0]), "kp must be one number, or 6 for the axes x, y"),
        (lambda: CartesianImpedance(world, "tool", task_frame=np.ones((3, 3))), "rotation matrix"),
        (lambda: CartesianImpedance(world, "tool", stiffness=-1.0), "stiffness"),
        (lambda: CartesianImpedance(world, "tool", passive=True, feedforward=True), "not passive"),
        (lambda: OperationalSpace(cd.Simulation(cd.load("panda"), dt=0.001), "panda_hand"), "is for arms"),
    ]
    for make, words in cases:
        with pytest.raises(ControlError, match=words):
            make()
    for control, reference, words in (
        (OperationalSpace(world, "tool"), READY, "takes a ToolSample"),
        (CartesianImpedance(world, "tool", shaped_inertia=1.0), ToolSample(np.eye(3), np.zeros(3)), "needs the measured wrench"),
        (Admittance(world, "tool"), ToolSample(np.eye(3), np.zeros(3)), "needs the measured wrench"),
    ):
        with pytest.raises(ControlError, match=words):
            cd.Loop(world, lambda x, c=control, r=reference: c(x, r))
