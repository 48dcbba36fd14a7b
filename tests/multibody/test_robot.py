"""The public robot: loading, names, batches, options, wrenches, locked joints, parameters, any precision, the same bits."""

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from dynamics.random_robots import random_description
from markers import slow_except
from tape.random_tapes import same_bits

import condyle as cd
from condyle.constraints.reduced_dynamics import ROBOT_FUNCTIONS
from condyle.robot import library
from condyle.robot.description import Limits
from condyle.robot.library import chains

SAME = 1e-12


@pytest.fixture(scope="module")
def arm():
    return cd.load("ur3")


@pytest.fixture(scope="module")
def dog():
    return cd.load("pidog")


def states(robot, count=None, seed=0):
    rng = np.random.default_rng(seed)
    shape = () if count is None else (count,)
    return robot.random_configuration(rng, count), rng.normal(size=(*shape, robot.nv)), rng.normal(size=(*shape, robot.nv))


def close(a, b, tolerance=SAME):
    return np.abs(np.asarray(a) - b).max() <= tolerance * max(1.0, np.abs(b).max())


@pytest.mark.parametrize("name", [*library.names(), "chain:5"])
def test_every_built_in_robot_falls_and_comes_back(name):
    robot = cd.load(name.replace("chain:n", "chain:3"))
    q, v, tau = states(robot)
    a = robot.forward_dynamics(q, v, tau)
    assert close(robot.inverse_dynamics(q, v, a), tau, 1e-10)
    assert len(robot.joint_names) == len(robot.model.links) and robot.mass > 0.0
    assert np.array_equal(robot.integrate(robot.neutral(), np.zeros(robot.nv)), robot.neutral())


def test_functions_agree_with_each_other(dog):
    q, v, tau = states(dog)
    M, c = dog.mass_matrix(q), dog.bias_forces(q, v)
    a = dog.forward_dynamics(q, v, tau)
    assert close(M @ a + c, tau, 1e-11)
    assert close(dog.inverse_mass_matrix(q) @ M, np.eye(dog.nv), 1e-9)
    assert close(dog.coriolis_matrix(q, v) @ v + dog.gravity_forces(q), c)
    assert close(0.5 * v @ M @ v, dog.kinetic_energy(q, v))
    assert close(dog.difference(q, dog.integrate(q, 0.3 * v)), 0.3 * v, 1e-10)
    R, p = dog.frame_pose(q, dog.frame_names[0])
    assert close(R @ R.T, np.eye(3)) and p.shape == (3,)
    J = dog.jacobian(q, dog.frame_names[-1])
    assert J.shape == (6, dog.nv)
    dq, dv, dtau = dog.forward_dynamics_derivatives(q, v, tau)
    assert close(dtau, dog.inverse_mass_matrix(q), 1e-9) and dq.shape == dv.shape == (dog.nv, dog.nv)
    assert dog.momentum(q, v).shape == (6,) and dog.center_of_mass(q).shape == (3,)
    assert dog.jacobian_rate(q, v, dog.frame_names[-1], "local").shape == (6, dog.nv)


def test_one_state_and_a_batch_give_the_same_bits(dog):
    q, v, tau = states(dog, 13)
    batch = dog.forward_dynamics(q, v, tau)
    assert batch.shape == (13, dog.nv)
    assert same_bits(np.array([dog.forward_dynamics(*s) for s in zip(q, v, tau, strict=True)]), batch)
    square = dog.forward_dynamics(q[:12].reshape(3, 4, -1), v[:12].reshape(3, 4, -1), tau[0])
    assert square.shape == (3, 4, dog.nv) and same_bits(square[0, 0], batch[0])


def results(function, arrays):
    out = function(*arrays)
    return [np.asarray(o) for o in (out if isinstance(out, tuple) else (out,))]


# one of each kind: recursions, a factorisation, frames, derivatives
SOME = ("inverse_dynamics", "forward_dynamics", "mass_matrix", "coriolis_matrix", "forward_dynamics_derivatives")


@pytest.mark.parametrize("kernel", slow_except(SOME, sorted(ROBOT_FUNCTIONS)))
def test_the_bits_do_not_change_with_lanes_batch_threads_or_machine(arm, kernel):
    function = arm.function(kernel)
    rng = np.random.default_rng(1)
    inputs = [rng.uniform(-1.0, 1.0, (70, *shape)) for shape in function.inputs.values()]
    wanted = results(function, inputs)
    for lanes in (1, 2, 4, 8):
        got = results(function.on("cpu", lanes=lanes, threads=2), inputs)
        assert all(same_bits(a, b) for a, b in zip(wanted, got, strict=True)), lanes
    few = [x[:3] for x in inputs]
    for other in (function, function.on("reference")):
        assert all(same_bits(a[:3], b) for a, b in zip(wanted, results(other, few), strict=True))


@pytest.mark.slow
def test_hash_seed_does_not_change_the_bits():
    code = (
        "import numpy as np, hashlib, condyle as cd\n"
        "r = cd.load('birotor'); q = r.neutral(); v = np.linspace(-1, 1, r.nv)\n"
        "d = hashlib.sha256()\n"
        "for x in (r.forward_dynamics(q, v, v), *r.forward_dynamics_derivatives(q, v, v)): d.update(x.tobytes())\n"
        "print(d.hexdigest(), r.function('forward_dynamics').tape.hash)\n"
    )
    found = set()
    for seed in ("0", "1234"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "CONDYLE_CACHE": "off"}
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    assert len(found) == 1


def test_any_precision():
    gmpy2 = pytest.importorskip("gmpy2")
    flint = pytest.importorskip("flint")
    robot = cd.load("ur3")
    q, v, tau = states(robot)
    double = robot.forward_dynamics(q, v, tau)
    p256 = robot.forward_dynamics(q, v, tau, backend="mpfr:256")
    p512 = robot.forward_dynamics(q, v, tau, backend="mpfr:512")
    assert close(double, p256.astype(float), 1e-11), "float64 accuracy"
    with gmpy2.context(precision=600):
        assert max(abs(a - b) / abs(b) for a, b in zip(p256, p512, strict=True)) < 1e-70, "256 bits are 77 digits"
    # the ball at 53 bits is around the exact value and around float64's; at 300 bits it is narrow, and around the 256-bit one
    with flint.ctx.workprec(600):
        for ball, x, precise in zip(robot.forward_dynamics(q, v, tau, backend="interval"), double, p512, strict=True):
            assert ball.contains(flint.arb(float(x))) and ball.contains(flint.arb(str(precise)))
        for ball, fine in zip(robot.forward_dynamics(q, v, tau, backend="interval:300"), p256, strict=True):
            assert float(ball.rad()) < 1e-70 and abs(ball - flint.arb(str(fine))) < 1e-70


# ---- wrenches


def test_a_wrench_at_a_frame_does_the_work_of_its_jacobian(arm):
    q, v, tau = states(arm)
    frame = arm.frame_names[-1]
    push = np.array([1.0, -2.0, 3.0, 0.1, 0.2, -0.3])
    for key, reference in ((frame, "world_aligned"), ((frame, "local"), "local")):
        J = arm.jacobian(q, frame, reference)
        pushed = arm.forward_dynamics(q, v, tau, wrenches={key: push})
        assert close(pushed, arm.forward_dynamics(q, v, tau + J.T @ push), 1e-10)
        a = arm.forward_dynamics(q, v, tau)
        assert close(arm.inverse_dynamics(q, v, a, wrenches={key: push}), tau - J.T @ push, 1e-10)
    both = arm.forward_dynamics(q, v, tau, wrenches={frame: push, (frame, "local"): np.ones((4, 6))})
    assert both.shape == (4, arm.nv)


# ---- locked joints and parameters


def test_locked_joints_leave_the_rest_as_it_was(dog):
    q, v, _ = states(dog)
    locked = dog.lock(dog.joint_names[1:4], q)
    assert locked.nv == dog.nv - 3 and set(locked.joint_names) == set(dog.joint_names) - set(dog.joint_names[1:4])
    mine = q[locked.locked.q]
    assert np.allclose(locked.full(mine), q)
    w = v[locked.locked.v]
    full_v = locked.full_velocity(w)
    assert full_v.shape == (dog.nv,) and np.array_equal(full_v[locked.locked.v], w)
    assert close(locked.mass_matrix(mine), dog.mass_matrix(q)[np.ix_(locked.locked.v, locked.locked.v)])
    assert close(locked.bias_forces(mine, w), dog.bias_forces(q, full_v)[locked.locked.v], 1e-11)
    for frame in dog.frame_names[::5]:
        assert close(locked.frame_pose(mine, frame)[1], dog.frame_pose(q, frame)[1])
    assert np.isclose(locked.mass, dog.mass)


def test_numbers_left_free_become_inputs_with_derivatives(arm):
    q, v, tau = states(arm)
    link = arm.model.links[2].name
    free = (f"{link}.mass", f"{link}.com", f"{arm.joint_names[1]}.armature")
    f = arm.function("forward_dynamics", parameters=free)
    now = [arm.parameter(name) for name in free]
    assert close(f(q, v, tau, *now), arm.forward_dynamics(q, v, tau), 1e-11)
    mass = free[0].replace(".", "_")
    derivative = f.jacobian(wrt=mass)(q, v, tau, *now)
    h = 1e-6
    change = (f(q, v, tau, now[0] + h, *now[1:]) - f(q, v, tau, now[0] - h, *now[1:])) / (2 * h)
    assert close(derivative, change, 1e-6)
    with pytest.raises(cd.RobotError, match=f"no parameter '{link}.colour'"):
        arm.function("forward_dynamics", parameters=(f"{link}.colour",))


def test_any_function_of_the_robot_can_be_compiled(arm):
    from condyle.dynamics import energy, kinematics

    def lagrangian(model, q, v, scale):
        return scale * (energy.kinetic_energy(model, q, v) - energy.potential_energy(model, q))

    f = arm.function(lagrangian, scale=())
    q, v, _ = states(arm, 5)
    assert np.allclose(f(q, v, 2.0), 2.0 * (arm.kinetic_energy(q, v) - arm.potential_energy(q)))
    height = arm.function(lambda model, q: kinematics.frame_pose(model, q, arm.frame_names[-1]).p[2])
    J = arm.jacobian(q, arm.frame_names[-1])
    assert np.allclose(height.jacobian()(q), J[:, 2, :])
    with pytest.raises(cd.RobotError, match="the shape of 'gain' is not known"):
        arm.function(lambda model, q, gain: gain * q)


def test_results_can_be_written_into_given_arrays(dog):
    q, v, tau = states(dog, 9)
    a, M = np.empty((9, dog.nv)), np.empty((9, dog.nv, dog.nv))
    assert dog.forward_dynamics(q, v, tau, out=a) is a and same_bits(a, dog.forward_dynamics(q, v, tau))
    assert dog.mass_matrix(q, out=M) is M and same_bits(M, dog.mass_matrix(q))
    three = tuple(np.empty((9, dog.nv, dog.nv)) for _ in range(3))
    assert dog.forward_dynamics_derivatives(q, v, tau, out=three)[2] is three[2]
    spoiled = np.where(np.arange(9)[:, None] == 4, np.nan, v)
    with pytest.raises(cd.RobotError, match=r"v\[4, 0\] is nan"):
        dog.forward_dynamics(q, spoiled, tau, out=a)


def test_a_locked_free_joint_and_a_robot_that_cannot_move(dog):
    standing = dog.lock("root_joint")
    assert standing.full_velocity(np.ones(standing.nv)).shape == (dog.nv,)
    assert standing.full(standing.neutral()).shape == (dog.nq,)
    with pytest.raises(cd.RobotError, match="no joint that moves"):
        cd.load("pendulum").lock(cd.load("pendulum").joint_names).mass_matrix(np.zeros(0))
    with pytest.raises(cd.RobotError, match="has no joint"):
        dog.q_slice("nosuch")


# ---- what does not fit


def test_numbers_that_are_not_finite_are_named(arm):
    q, v, tau = states(arm, 4)
    spoiled = v.copy()
    spoiled[2, 3] = np.inf
    with pytest.raises(cd.RobotError, match=r"v\[2, 3\] is inf; pass finite numbers, or mask=True"):
        arm.forward_dynamics(q, spoiled, tau)
    with pytest.raises(cd.RobotError, match=r"q\[1\] is nan"):
        arm.mass_matrix(np.array([0.0, np.nan, 0.0, 0.0, 0.0, 0.0]))
    arm.forward_dynamics(q[0], v[0], tau[0])
    with pytest.raises(cd.RobotError, match=r"tau\[0\] is nan"):
        arm.forward_dynamics(q[0], v[0], np.full(arm.nv, np.nan))
    a, ok = arm.forward_dynamics(q, spoiled, tau, mask=True)
    assert ok.tolist() == [True, True, False, True]
    assert same_bits(a[ok], arm.forward_dynamics(q, v, tau)[ok]), "neighbours keep their bits"


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (
            lambda r: r.forward_dynamics(np.zeros(5), np.zeros(6), np.zeros(6)),
            cd.ShapeError,
            r"'q' has shape \(5,\), expected \(6,\)",
        ),
        (lambda r: r.jacobian(np.zeros(6), "tol"), cd.RobotError, "no frame 'tol'"),
        (
            lambda r: r.jacobian(np.zeros(6), r.frame_names[0], "body"),
            cd.RobotError,
            "must be one of local, world, world_aligned",
        ),
        (lambda r: r.lock("nosuch"), cd.RobotError, "no joint 'nosuch'"),
        (lambda r: r.lock(""), cd.RobotError, "no joint ''"),
        (lambda r: r.mass_matrix(np.zeros(6), backends="cpu"), cd.CondyleError, "no option 'backends'"),
        (lambda r: r.function("forward_dynamic"), cd.RobotError, "did you mean 'forward_dynamics'"),
        (lambda r: cd.load("pidgo"), cd.RobotError, "did you mean 'pidog'"),
        (lambda r: cd.load("nosuch/arm.urdf"), cd.RobotError, "there is no such file"),
        (lambda r: cd.load("ur3", base="floating"), cd.RobotError, "must be one of fixed, free, planar, euler"),
        (lambda r: cd.load("ur3", gravity=(0, 0)), cd.RobotError, "gravity must be three finite numbers"),
        (lambda r: cd.load("ur3", gravity=(0, 0, np.nan)), cd.RobotError, "gravity must be three finite numbers"),
    ],
)
def test_what_does_not_fit_is_a_sentence(arm, call, kind, words):
    with pytest.raises(kind, match=words):
        call(arm)


def test_a_robot_seen_before_is_not_traced_again(monkeypatch):
    first = cd.load("ur3")
    q, v, tau = states(first)
    wanted = first.forward_dynamics(q, v, tau), first.mass_matrix(q)

    def traced_again(*_, **__):
        raise AssertionError("traced again")

    monkeypatch.setattr("condyle.multibody.compiled.trace_values", traced_again)
    again = cd.load("ur3")
    assert same_bits(again.forward_dynamics(q, v, tau), wanted[0]) and same_bits(again.mass_matrix(q), wanted[1])
    # any other number is another robot
    with pytest.raises(AssertionError, match="traced again"):
        cd.load("ur3", gravity=(0.0, 0.0, -9.8100001)).forward_dynamics(q, v, tau)
    # who looks into the tape gets it traced
    monkeypatch.undo()
    once_more = cd.load("ur3")
    once_more.forward_dynamics(q, v, tau)
    assert same_bits(once_more.forward_dynamics(q, v, tau, backend="reference"), wanted[0])


# ---- bases, files, gravity


@pytest.mark.parametrize("base, nv", [("fixed", 6), ("free", 12), ("planar", 9), ("euler", 12)])
def test_bases(base, nv):
    robot = cd.load("ur3", base=base)
    q, v, tau = states(robot)
    assert robot.nv == nv
    assert close(robot.inverse_dynamics(q, v, robot.forward_dynamics(q, v, tau)), tau, 1e-9)


def test_gravity_is_explicit():
    arm = cd.load("ur3", gravity=(0.0, 0.0, 0.0))
    assert np.array_equal(arm.gravity_forces(arm.neutral()), np.zeros(6))
    falling = cd.load("pidog", gravity=(0.0, 0.0, -9.798))
    a = falling.forward_dynamics(falling.neutral(), np.zeros(falling.nv), np.zeros(falling.nv))
    assert close(a[:3], [0.0, 0.0, -9.798], 1e-10), "a robot alone in the air falls"


def test_a_description_made_in_code():
    description = random_description(np.random.default_rng(7), joints=6)
    robot = cd.load(description)
    q, v, tau = states(robot)
    assert close(robot.inverse_dynamics(q, v, robot.forward_dynamics(q, v, tau)), tau, 1e-9)


def test_files_of_each_kind(tmp_path):
    pytest.importorskip("mujoco")
    moments = '<inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/>'
    inertial = '<inertial><mass value="{m}"/><origin xyz="0 0 -0.5"/>' + moments + "</inertial>"
    urdf = (
        '<robot name="p"{ns}><link name="base"/><link name="rod">' + inertial + "</link>"
        '<joint name="hinge" type="continuous"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/></joint></robot>'
    )
    (tmp_path / "p.urdf").write_text(urdf.format(ns="", m="2"))
    xacro = urdf.format(ns=' xmlns:xacro="http://www.ros.org/wiki/xacro"', m="${2 * half}")
    xacro = xacro.replace(
        '<link name="base"/>',
        '<xacro:arg name="h" default="1"/><xacro:property name="half" value="$(arg h)"/><link name="base"/>',
    )
    (tmp_path / "p.xacro").write_text(xacro)
    (tmp_path / "p.xml").write_text(
        '<mujoco><worldbody><body name="rod"><joint name="hinge" axis="0 1 0"/>'
        '<inertial pos="0 0 -0.5" mass="2" diaginertia="0.1 0.1 0.1"/></body></worldbody></mujoco>'
    )
    q, v, tau = np.array([0.3]), np.array([0.1]), np.array([0.2])
    wanted = (0.2 - 2 * 9.81 * 0.5 * np.sin(0.3)) / (0.1 + 2 * 0.25)
    for name in ("p.urdf", "p.xacro", "p.xml"):
        robot = cd.load(tmp_path / name)
        assert close(robot.forward_dynamics(q, v, tau), [wanted]), name
    assert cd.load(str(tmp_path / "p.xacro"), xacro_args={"h": "2"}).mass == 4.0


# ---- limits, and how frames move


def test_limits_are_arrays_in_the_order_of_q_and_v():
    arm, dog = cd.load("ur3"), cd.load("pidog")
    assert arm.lower.shape == arm.upper.shape == (6,) and arm.upper[2] == pytest.approx(np.pi)
    assert arm.velocity_limits.tolist() == [link.limits.velocity for link in arm.model.links]
    assert arm.effort_limits.tolist() == [link.limits.effort for link in arm.model.links]
    assert np.all(dog.lower[:7] == -np.inf) and np.all(dog.upper[:7] == np.inf) and dog.velocity_limits.shape == (dog.nv,)
    coupled = arm.couple("wrist_3_joint", "wrist_1_joint")
    assert coupled.upper.tolist() == arm.upper[:5].tolist() and coupled.effort_limits.shape == (5,)


def test_frames_move_as_their_jacobians_say(arm):
    q, v, a = states(arm, 4)
    frame = arm.frame_names[-1]
    for reference in ("local", "world", "world_aligned"):
        assert close(
            arm.frame_velocity(q, v, frame, reference), np.einsum("nij,nj->ni", arm.jacobian(q, frame, reference), v), 1e-12
        )
    J, dJ = arm.jacobian(q, frame), arm.jacobian_rate(q, v, frame)
    assert close(arm.frame_acceleration(q, v, a, frame), np.einsum("nij,nj->ni", J, a) + np.einsum("nij,nj->ni", dJ, v), 1e-10)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: cd.load(3), "the path of a file"),
        (lambda: cd.load("ur3").jacobian(np.zeros(6), 3), "given by its name, got 3"),
        (lambda: cd.load("ur3").frame_pose(np.zeros(6), "tol"), "did you mean 'tool'"),
        (lambda: cd.load("pidog").mass_matrix(np.r_[np.zeros(6), 2.0, np.zeros(12)]), "must have length 1, got 2"),
        (lambda: cd.load("ur3").gravity_forces(np.zeros(6), wrench=1), "no option 'wrench'"),
    ],
)
def test_wrong_arguments_are_a_sentence(call, words):
    with pytest.raises(cd.CondyleError, match=words):
        call()


def test_a_quaternion_that_is_not_of_length_one_is_masked():
    dog = cd.load("pidog")
    q = np.tile(dog.neutral(), (3, 1))
    q[1, 6] = 2.0
    assert dog.center_of_mass(q, mask=True)[1].tolist() == [True, False, True]


@pytest.mark.parametrize("number", ["friction", "damping", "limits"])
def test_robots_that_differ_in_their_joints_alone_share_no_compiled_function(number: str) -> None:
    """The cache on disk distinguishes them: passive forces and inverse kinematics depend on these numbers."""
    description, found = chains.double_pendulum(), []
    for size in (0.3, 0.9):
        value = Limits(-size, size) if number == "limits" else size
        joints = tuple(replace(joint, **{number: value}) for joint in description.joints)
        robot = cd.load(replace(description, joints=joints))
        if number == "limits":
            p = cd.load(description).frame_pose(np.array([0.7, 0.8]), "tip")[1]
            found.append(robot.inverse_kinematics("tip", p, np.array([0.1, 0.1])).q)
        else:
            found.append(robot.inverse_dynamics([0.1, 0.2], [1.0, -1.0], [0.0, 0.0], passive=True))
    assert np.abs(found[0] - found[1]).max() > 0.1
