"""Servos and IMU of the twin in MuJoCo beside the blocks of a loop, and a trained walk in both engines."""

from pathlib import Path

import numpy as np
import pytest

import condyle as cd
from condyle.apps.pidog.gait_episodes import Trial
from condyle.apps.pidog.judge import judge
from condyle.apps.pidog.twin import Inertial, Line, Servos, rotation_vector
from condyle.methods.learn.policy_file import PolicyFile
from condyle.workbench.compare.mujoco_world import MujocoWorld

pytest.importorskip("mujoco")

SERVO = {
    "servo.delay": np.array([0.0, 0.0065, 0.012]),
    "servo.backlash": np.array([0.0, 0.005, 0.01]),
    "servo.dead_band": np.array([0.01, 0.02, 0.04]),
    "servo.effort": np.array([60.0, 50.0, 40.0]),
    "servo.source_resistance": np.array([0.0, 0.001, 0.003]),
}


def test_servo_steps_in_both_engines() -> None:
    """Two links on servos with all their faults: over ways of 40 degrees the angles agree to 0.3 degrees, and to 1 degree
    with backlash, in which a joint is free for a moment."""
    world = cd.Simulation(cd.load("ur3").lock(["pan", "wrist"]), dt=0.001)
    joints = world.control_names
    servo = cd.blocks.HobbyServo(joints, effort=60.0, speed=3.0, kp=900.0, kd=30.0, delay=0.01, max_delay=0.012, name="servo")
    loop = cd.Loop(world, lambda x, target: servo(target, x), target=2)
    targets = np.repeat([[0.4, -0.3], [-0.2, 0.5]], 200, axis=0)
    here = loop.rollout(np.repeat(loop.state()[None], 3, axis=0), targets, parameters=SERVO)["q"]
    there = MujocoWorld(world, joints, 3, threads=1)
    law, found = Servos(servo, 3, world.dt, SERVO), []
    for target in targets:
        there.step(law(np.broadcast_to(target, (3, 2)), there.q, there.v))
        found.append(there.q)
    difference = np.abs(here - np.stack(found, axis=1))
    worst = np.degrees(difference.max(axis=(1, 2)))
    assert worst[0] < 0.3 and worst.max() < 1.0
    assert np.ptp(here[:, -1], axis=0).min() > 0.005  # the three differ: gaps and sagging matter


def test_delay_line_interpolates() -> None:
    line = Line(np.array([[0.0], [1.5]]), 2)
    out = [line(np.full((2, 1), float(k))) for k in range(4)]
    assert np.allclose(np.concatenate(out, axis=1), [[0.0, 1.0, 2.0, 3.0], [0.0, 0.0, 0.5, 1.5]])


def test_imu_at_rest_and_mounted_askew() -> None:
    """At rest it measures -g; a mounting turned by 0.1 rad about x turns it, and the bias is added after that."""
    turn = np.array([[0.0, 0.0, 0.0], [0.1, 0.0, 0.0]])
    given = {"imu.misalignment": turn, "imu.rate_bias": np.array([[0.0] * 3, [0.01, 0.0, 0.0]])}
    imu = Inertial(cd.blocks.IMU("torso"), 2, 0.02, given)
    upright, still = np.tile([0.0, 0.0, 0.0, 1.0], (2, 1)), np.zeros((2, 3))
    out = imu(upright, still, still, still, np.array([0.0, 0.0, -9.81]))
    assert np.allclose(out["acceleration"][0], [0.0, 0.0, 9.81])
    assert np.allclose(out["acceleration"][1], [0.0, 9.81 * np.sin(0.1), 9.81 * np.cos(0.1)])
    assert np.allclose(out["rate"], given["imu.rate_bias"])
    assert np.allclose(np.linalg.norm(rotation_vector(turn), axis=1), 1.0)


@pytest.mark.peers
def test_a_trained_walk_keeps_its_speed_in_mujoco() -> None:
    file = PolicyFile.load(Path(__file__).parent / "deploy" / "walk.cdp")
    trial = Trial(16, 4.0, seed=3)
    here, there = judge(file, trial), judge(file, trial, "mujoco")
    assert here["falls"] == 0.0 and there["falls"] <= 1 / 16
    assert there["speed"] > 0.7 * here["speed"] > 0.7 * 0.17
    assert min(there["lift"]) > 0.008 and there["slip"] < 0.15
