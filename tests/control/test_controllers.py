"""Controllers for any robot, and noisy sensors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condyle as cd
from condyle.blocks.frame_sensors import OF_BASE as BASE
from condyle.blocks.frame_sensors import OF_JOINTS as JOINT
from condyle.control.controllers import (
    PHASE,
    SAG,
    Controller,
    PDController,
    gravity_compensation,
    hold,
    motors,
    random_torque,
    sine_motion,
    zero_torque,
)
from condyle.control.sensors import NoisySensors, standard_deviations
from condyle.errors import ControlError, SimulationError

READY = (0.3, -0.8, 1.1, 0.2, -0.4, 0.1)


@pytest.fixture(scope="module")
def arm():
    return cd.Simulation(cd.load("ur3"), 0.002)


def simulated(simulation, x, control, steps):
    """(states, controls) of so many steps."""
    xs, us = [x], []
    for k in range(steps):
        u, wrenches = control(k, xs[-1])
        us.append(u)
        xs.append(simulation.step(xs[-1], u, wrenches=wrenches))
    return np.array(xs), np.array(us)


# ---- motors


def test_motors_know_their_places_and_limits(arm):
    at = motors(arm)
    robot = arm.robot
    assert list(at.names) == robot.joint_names and not at.standing
    assert np.array_equal(at.at_q, np.arange(6)) and np.array_equal(at.at_u, np.arange(6))
    assert at.upper[2] == pytest.approx(np.pi) and at.lower[2] == pytest.approx(-np.pi) and at.speed[0] == 2.16
    assert at.inertia == pytest.approx(np.diag(robot.mass_matrix(robot.neutral())), rel=1e-12)


def test_a_robot_on_legs_is_carried_by_its_joints():
    simulation = cd.Simulation(cd.load("pidog"), 0.002, cd.Plane(), "*_foot")
    at = motors(simulation)
    own = [simulation.joint_forces[k].load for k in simulation.actuated]
    assert at.standing and np.all(at.load >= np.array(own) * (1.0 - 1e-12))
    hip = at.load[at.names.index("lf_hip")]
    assert 0.02 < hip < simulation.robot.mass * 9.81 * 0.118 / 4.0 * 1.5, "N m: a quarter of the weight at the length of a leg"


def test_a_robot_without_motors_is_refused_in_a_sentence():
    from condyle.demos.wheeled_pendulum import rolling

    bare = cd.Simulation(rolling(), 0.001, actuated=["axle"])
    with pytest.raises(ControlError, match=r"'wheeled_pendulum' has no motor .* nothing to control"):
        hold(bare, bare.state())


# ---- hold, gravity compensation


def test_zero_torque(arm):
    u, wrenches = zero_torque(arm)(0, arm.state(READY))
    assert not u.any() and wrenches is None


def test_hold_keeps_the_pose_within_the_sag(arm):
    x = arm.state(READY)
    control = hold(arm, x)
    assert isinstance(control, Controller)
    xs, _ = simulated(arm, x, control, 600)
    away = np.abs(xs[-1, :6] - x[:6])
    assert 1e-4 < away.max() < 2.0 * SAG and np.abs(xs[-1, 6:]).max() < 1e-3
    # at rest it carries what gravity asks for
    u, _ = control(600, xs[-1])
    assert u == pytest.approx(arm.robot.gravity_forces(xs[-1, :6]), abs=0.02)


@pytest.mark.parametrize("name", ["double_pendulum", "cartpole", "chain:6"])
@pytest.mark.parametrize("dt", [0.001, 0.01])
def test_holding_is_stable_at_any_step(name, dt):
    simulation = cd.Simulation(cd.load(name), dt)
    x = simulation.state(0.3 * np.ones(simulation.robot.nq))
    xs, _ = simulated(simulation, x, hold(simulation, x), 300)
    assert np.abs(xs[:, : simulation.robot.nq] - 0.3).max() < 0.2
    assert np.abs(xs[-1, simulation.robot.nq :]).max() < 0.05


def test_a_joint_with_friction_and_damping_is_moved_all_the_same(tmp_path):
    path = tmp_path / "stiff.urdf"
    path.write_text(
        """<robot name="stiff"><link name="base"/><link name="rod"><inertial><mass value="0.02"/><origin xyz="0 0 -0.02"/>
        <inertia ixx="1e-5" iyy="1e-5" izz="1e-5" ixy="0" ixz="0" iyz="0"/></inertial></link>
        <joint name="j" type="revolute"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/>
        <limit lower="-1" upper="1" effort="15" velocity="7"/><dynamics damping="3" friction="10"/></joint></robot>"""
    )
    simulation = cd.Simulation(cd.load(path), 0.002)
    x = simulation.state()
    xs, us = simulated(simulation, x, sine_motion(simulation, x), 2000)
    assert 0.5 < np.ptp(xs[:, 0]) < 0.65 and 3.0 < np.abs(us).max() < 15.0, "0.3 rad to each side, by far more than its weight"


def test_a_robot_whose_joints_cannot_move_is_refused(tmp_path):
    path = tmp_path / "held.urdf"
    path.write_text(
        """<robot name="held"><link name="base"/><link name="rod"><inertial><mass value="1"/>
        <inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
        <joint name="j" type="revolute"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/>
        <limit lower="0" upper="0" effort="0" velocity="0"/></joint></robot>"""
    )
    simulation = cd.Simulation(cd.load(path), 0.002)
    with pytest.raises(ControlError, match="no joint of robot 'held' can move"):
        sine_motion(simulation, simulation.state())


def test_strong_gains_do_not_explode():
    simulation = cd.Simulation(cd.load("double_pendulum"), 0.01)
    x = simulation.state([1.0, -0.5])
    xs, _ = simulated(simulation, x, hold(simulation, x, (1e6, 1e1)), 400)
    assert np.abs(xs[-1, :2] - x[:2]).max() < 0.01


def test_gains_that_push_away_are_refused(arm):
    with pytest.raises(ControlError, match="gain P must not be negative, got -1"):
        hold(arm, arm.state(), (-1.0, 0.0))
    with pytest.raises(ControlError, match="gain D must not be negative"):
        hold(arm, arm.state(), (1.0, -2.0))


def test_the_law_is_that_of_the_paper(arm):
    """u = P (r - q') - D v',  v' = v + h a,  q' = q + h v',  M a = u - b v' - c  (Tan and others 2011), solved here by NumPy."""
    rng = np.random.default_rng(5)
    q, v, P, D, h = rng.normal(size=6), rng.normal(size=6), 70.0, 9.0, arm.dt
    u, _ = hold(arm, arm.state(READY), (P, D))(0, arm.state(q, v))
    robot = arm.robot
    wanted = P * (np.array(READY) - q - h * v) - D * v
    b = np.array([link.damping for link in robot.model.links])
    M = robot.mass_matrix(q) + np.diag(h * D + h * h * P + h * b)
    a = np.linalg.solve(M, wanted - b * v - robot.bias_forces(q, v))
    after = v + h * a
    assert u == pytest.approx(P * (np.array(READY) - (q + h * after)) - D * after, rel=1e-9, abs=1e-9)
    assert robot.forward_dynamics(q, v, u - b * after) == pytest.approx(a, rel=1e-6, abs=1e-6), (
        "what it reckons with is what happens"
    )


def test_gravity_compensation_stays_where_it_is_put_and_gives_way(arm):
    x = arm.state(READY)
    xs, us = simulated(arm, x, gravity_compensation(arm, x), 300)
    assert np.abs(xs[-1] - x).max() < 1e-9
    assert us[0] == pytest.approx(arm.robot.gravity_forces(np.array(READY)), abs=1e-12)
    moving = arm.state(READY, [0.5, 0.0, 0.0, 0.0, 0.0, 0.0])
    xs, _ = simulated(arm, moving, gravity_compensation(arm, moving), 500)
    assert xs[-1, 0] > READY[0] + 0.01 and abs(xs[-1, 6]) < 0.05, "it goes on a little, and comes to rest"


# ---- sine motion, random torque


def test_sine_motion_moves_every_joint_within_its_limits(arm):
    x = arm.state(READY)
    xs, _ = simulated(arm, x, sine_motion(arm, x), 2000)
    at = motors(arm)
    span = np.ptp(xs[:, :6], axis=0)
    assert np.all(span > 0.4) and np.all(span < 0.75), "0.3 rad to each side"
    assert np.all(xs[:, :6] > at.lower) and np.all(xs[:, :6] < at.upper)
    assert np.abs(xs[:3, 6:]).max() < 0.01, "it begins gently"
    assert np.all(np.abs(xs[:, 6:]) < at.speed)


def test_sine_motion_keeps_off_limits_that_the_pose_is_at():
    robot = cd.load("ur3")
    simulation = cd.Simulation(robot, 0.002)
    q = np.array(READY)
    q[2] = np.pi  # the elbow at its limit
    x = simulation.state(q)
    control = sine_motion(simulation, x)
    late = np.array([control.reference(k)[0] for k in range(500, 2500)])
    assert late[:, 2].max() <= np.pi + 1e-12 and np.ptp(late[:, 2]) == pytest.approx(0.6, abs=0.01)


def test_the_reference_moves_as_it_says(arm):
    reference = sine_motion(arm, arm.state(READY)).reference
    for k in (0, 1, 137, 499, 500, 1234):
        (before, _), (_, rate), (after, _) = reference(max(k - 1, 0)), reference(k), reference(k + 1)
        h = arm.dt * (1 if k == 0 else 2)
        assert (after - before) / h == pytest.approx(rate, abs=2e-3)
    assert 0.0 < PHASE < 2.0 * np.pi


def test_random_torque_is_the_same_for_the_same_seed(arm):
    x = arm.state(READY)
    first, again, other = random_torque(arm, 7), random_torque(arm, 7), random_torque(arm, 8)
    us = np.array([first(k, x)[0] for k in range(200)])
    assert np.array_equal(us[::-1], [again(k, x)[0] for k in reversed(range(200))]), "in any order"
    assert not np.array_equal(us, [other(k, x)[0] for k in range(200)])
    assert np.array_equal(us[0], us[24]) and not np.array_equal(us[24], us[25]), "a torque lasts 0.05 s"
    load = motors(arm).load
    assert np.abs(us / load).max() < 1.5 and np.std(us / load) == pytest.approx(0.3, rel=0.5)


# ---- sensors


def test_without_noise_the_controller_sees_the_state(arm):
    x = arm.state(READY, np.ones(6))
    bare = hold(arm, x)
    sensed = NoisySensors(hold(arm, x), arm, 0.0)
    assert np.array_equal(sensed(3, x)[0], bare(3, x)[0]) and np.array_equal(sensed.measured, x)


def test_noise_has_the_size_of_its_level(arm):
    x = arm.state(READY, np.ones(6))
    sensed = NoisySensors(zero_torque(arm), arm, 2.0, seed=1)
    seen = []
    for k in range(2000):
        sensed(k, x)
        seen.append(sensed.measured - x)
    spread = np.std(seen, axis=0)
    assert spread[:6] == pytest.approx(2.0 * JOINT["angle"], rel=0.1)
    assert spread[6:] == pytest.approx(2.0 * JOINT["rate"], rel=0.1)
    assert np.abs(np.mean(seen, axis=0) / spread).max() < 0.1


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**63), k=st.integers(0, 2**40), level=st.floats(0.0, 10.0))
def test_noise_keeps_quaternions_and_is_a_function(seed, k, level):
    simulation = birotor()
    x = simulation.state()
    first, again = (
        NoisySensors(zero_torque(simulation), simulation, level, seed),
        NoisySensors(zero_torque(simulation), simulation, level, seed),
    )
    first(k, x), again(k + 1, x), again(k, x)
    assert np.array_equal(first.measured, again.measured)
    assert np.linalg.norm(first.measured[3:7]) == pytest.approx(1.0, abs=1e-12)


_kept = []


def birotor():
    if not _kept:
        _kept.append(cd.Simulation(cd.load("birotor"), 0.002))
    return _kept[0]


def test_the_base_is_measured_better_than_joints():
    places, speeds = standard_deviations(birotor())
    assert list(places[:6]) == [BASE["place"]] * 3 + [BASE["angle"]] * 3 and list(places[6:]) == [JOINT["angle"]] * 2
    assert list(speeds[:6]) == [BASE["speed"]] * 3 + [BASE["rate"]] * 3 and list(speeds[6:]) == [JOINT["rate"]] * 2


@pytest.mark.parametrize("level", [-1.0, np.nan, np.inf])
def test_a_level_that_makes_no_sense_is_refused(arm, level):
    with pytest.raises(ControlError, match="level of noise"):
        NoisySensors(zero_torque(arm), arm, level)


def test_a_seed_that_is_none_is_refused(arm):
    with pytest.raises(SimulationError, match="seed must be a whole number"):
        NoisySensors(zero_torque(arm), arm, 1.0, seed=-1)(0, arm.state())


def test_a_reference_of_ones_own(arm):
    at = motors(arm)
    P, D = at.gains()
    goal = np.array(READY) + 0.2
    control = PDController(arm, at, P, D, lambda k: (goal, np.zeros(6)), gravity=True)
    xs, _ = simulated(arm, arm.state(READY), control, 600)
    assert xs[-1, :6] == pytest.approx(goal, abs=2e-3), "with gravity compensated it reaches the goal"
