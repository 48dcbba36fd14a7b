"""Controllers for any robot, and noisy sensors."""

import numpy as np
import pytest
from markers import slow_except

import condyle as cd
from condyle.blocks.frame_sensors import OF_BASE, OF_JOINTS, common_deviations
from condyle.errors import ControlError
from condyle.methods.control.controllers import (
    PHASE,
    SAG,
    PDController,
    gravity_compensation,
    hold,
    motors,
    random_torque,
    sine_motion,
    with_noise,
    zero_torque,
)

READY = (0.3, -0.8, 1.1, 0.2, -0.4, 0.1)


@pytest.fixture(scope="module")
def arm():
    return cd.Simulation(cd.load("ur3"), 0.002)


def simulated(simulation, x, control, steps, **options):
    """(states, controls) of so many steps."""
    loop = cd.Loop(simulation, control)
    out = loop.rollout(loop.state(*simulation.split(x)), None, steps, record=["q", "v", "u"], **options)
    return np.concatenate([x[None], np.concatenate([out["q"], out["v"]], axis=1)]), out["u"]


def control_at(simulation, x, control):
    """The controls at one state."""
    return simulated(simulation, x, control, 1)[1][0]


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
    from condyle.apps.demos.wheeled_pendulum import rolling

    bare = cd.Simulation(rolling(), 0.001, actuated=["axle"])
    with pytest.raises(ControlError, match=r"'wheeled_pendulum' has no motor .* nothing to control"):
        hold(bare, bare.state())


# ---- hold, gravity compensation


def test_zero_torque(arm):
    assert not control_at(arm, arm.state(READY), zero_torque(arm)).any()


def test_hold_keeps_the_pose_within_the_sag(arm):
    x = arm.state(READY)
    xs, us = simulated(arm, x, hold(arm, x), 601)
    away = np.abs(xs[-1, :6] - x[:6])
    assert 1e-4 < away.max() < 2.0 * SAG and np.abs(xs[-1, 6:]).max() < 1e-3
    # at rest it carries what gravity asks for
    assert us[-1] == pytest.approx(arm.robot.gravity_forces(xs[-1, :6]), abs=0.02)


@pytest.mark.parametrize("name", slow_except(["double_pendulum", "chain:6"], ["double_pendulum", "cartpole", "chain:6"]))
@pytest.mark.parametrize("dt", slow_except([0.01], [0.001, 0.01]))
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
    u = control_at(arm, arm.state(q, v), hold(arm, arm.state(READY), (P, D)))
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
    late = np.array([control.reference(0.002 * k)[0] for k in range(500, 2500)])
    assert late[:, 2].max() <= np.pi + 1e-12 and np.ptp(late[:, 2]) == pytest.approx(0.6, abs=0.01)


def test_the_reference_moves_as_it_says(arm):
    reference = sine_motion(arm, arm.state(READY)).reference
    for k in (0, 1, 137, 499, 500, 1234):
        (before, _), (_, rate), (after, _) = (reference(arm.dt * n) for n in (max(k - 1, 0), k, k + 1))
        h = arm.dt * (1 if k == 0 else 2)
        assert (after - before) / h == pytest.approx(rate, abs=2e-3)
    assert 0.0 < PHASE < 2.0 * np.pi


def test_random_torque_is_the_same_for_the_same_seed(arm):
    loop = cd.Loop(arm, random_torque(arm))
    x = loop.state(READY)
    us, again, other = (loop.rollout(x, None, 200, seed=seed, record=["u"])["u"] for seed in (7, 7, 8))
    assert np.array_equal(us, again) and not np.any(us == other)
    assert np.array_equal(us[0], us[24]) and not np.array_equal(us[24], us[25]), "a torque lasts 0.05 s"
    load = motors(arm).load
    assert np.abs(us / load).max() < 1.5 and np.std(us / load) == pytest.approx(0.3, rel=0.5)


# ---- sensors


def test_noise_has_the_size_of_its_level():
    simulation = cd.Simulation(cd.load("double_pendulum"), 0.002)
    loop = cd.Loop(simulation, with_noise(hold(simulation, simulation.state([0.3, 0.2])), simulation, 2.0))
    out = loop.rollout(loop.state([0.3, 0.2]), None, 2000, record=["q", "v", "u", "measured.q", "measured.v"])
    for name, size in (("q", OF_JOINTS["angle"]), ("v", OF_JOINTS["rate"])):
        error = out[f"measured.{name}"][1:] - out[name][:-1]
        assert np.std(error, axis=0) == pytest.approx(2.0 * size, rel=0.1) and np.abs(np.mean(error, axis=0)).max() < 0.2 * size
    # the controller sees the measured state
    bare = cd.Loop(simulation, hold(simulation, simulation.state([0.3, 0.2])))
    seen = bare.state(out["measured.q"], out["measured.v"])
    np.testing.assert_array_equal(bare.step(seen, record=["u"])[1]["u"], out["u"])


def test_the_base_is_measured_better_than_joints():
    found = common_deviations(cd.Simulation(cd.load("birotor"), 0.002))
    places, speeds = found["q_noise"], found["v_noise"]
    assert places[:6] == [OF_BASE["place"]] * 3 + [OF_BASE["angle"]] * 3 and places[6:] == [OF_JOINTS["angle"]] * 2
    assert speeds[:6] == [OF_BASE["speed"]] * 3 + [OF_BASE["rate"]] * 3 and speeds[6:] == [OF_JOINTS["rate"]] * 2


@pytest.mark.parametrize("level", [-1.0, np.nan, np.inf])
def test_a_level_that_makes_no_sense_is_refused(arm, level):
    with pytest.raises(ControlError, match="level of noise"):
        with_noise(zero_torque(arm), arm, level)


def test_a_reference_of_ones_own(arm):
    at = motors(arm)
    P, D = at.gains()
    goal = np.array(READY) + 0.2
    control = PDController(arm, at, P, D, lambda t: (goal, np.zeros(6)), gravity=True)
    xs, _ = simulated(arm, arm.state(READY), control, 600)
    assert xs[-1, :6] == pytest.approx(goal, abs=2e-3), "with gravity compensated it reaches the goal"
