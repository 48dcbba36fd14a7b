"""Stances: keyframes held by the actuators of a file, beside MuJoCo; PD control of motors; what `condyle sim` does by default."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import CliRunner

import condyle as cd
from condyle.commands.cli import app
from condyle.errors import ControlError
from condyle.methods.control.stance import neutral_pose
from condyle.robot.mjcf import read_mjcf

mujoco = pytest.importorskip("mujoco")

# a base on three legs that slide, each with a servo
TRIPOD = """
<mujoco model="tripod">
  <option timestep="0.004" cone="elliptic" impratio="10" noslip_iterations="5"/>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <body name="base" pos="0 0 0.5">
      <freejoint name="root"/><geom type="box" size="0.2 0.2 0.05" mass="4" contype="0" conaffinity="0"/>
      <body name="a" pos="0.2 0 -0.2"><joint name="a" type="slide" axis="0 0 1"/><geom size="0.03" mass="0.5"/></body>
      <body name="b" pos="-0.1 0.2 -0.2"><joint name="b" type="slide" axis="0 0 1"/><geom size="0.03" mass="0.5"/></body>
      <body name="c" pos="-0.1 -0.2 -0.2"><joint name="c" type="slide" axis="0 0 1"/><geom size="0.03" mass="0.5"/></body>
    </body>
  </worldbody>
  <actuator>
    <position name="a" joint="a" kp="2000" dampratio="1"/>
    <position name="b" joint="b" kp="2000" dampratio="1" forcerange="-50 50"/>
    <position name="c" joint="c" kp="1000" kv="50"/>
  </actuator>
  <keyframe>
    <key name="low" qpos="0 0 0.5 1 0 0 0 0 0 0"/>
    <key name="home" qpos="0 0 0.5 1 0 0 0 -0.05 -0.05 -0.05" ctrl="-0.06 -0.05 -0.05"/>
  </keyframe>
</mujoco>
"""
# a servo, a motor, and a joint whose zero is beyond its limits
ARM = """
<mujoco model="arm">
  <option timestep="0.004"/>
  <worldbody>
    <body name="upper">
      <joint name="shoulder" axis="0 1 0"/><geom size="0.05" pos="0.2 0 0" mass="1"/>
      <body name="lower" pos="0.4 0 0">
        <joint name="elbow" axis="0 1 0" range="20 60"/><geom size="0.05" pos="0.2 0 0" mass="1"/>
      </body>
    </body>
  </worldbody>
  <actuator><position joint="shoulder" kp="500" dampratio="1"/><motor joint="elbow" gear="2" ctrlrange="-20 20"/></actuator>
  <keyframe>
    <key name="low" qpos="0.1 0.5"/>
    <key name="home" qpos="-0.2 0.6" ctrl="-0.21 0"/>
  </keyframe>
</mujoco>
"""


@pytest.fixture(scope="module")
def arm() -> cd.Simulation:
    return cd.Simulation(cd.load(read_mjcf(ARM)), 0.004)


@pytest.mark.peers
def test_a_robot_stands_under_its_actuators_as_in_mujoco() -> None:
    world = cd.Simulation(cd.load(read_mjcf(TRIPOD)), 0.004, cd.Plane(1.0))
    stance = cd.stance(world)
    assert stance.summary == "the 3 actuators of its file hold the keyframe 'home'"
    loop = cd.Loop(world, stance)
    end = loop.rollout(loop.state(stance.q), steps=250, every=250)["q"][-1]
    theirs = mujoco.MjModel.from_xml_string(TRIPOD)
    data = mujoco.MjData(theirs)
    data.qpos[:], data.ctrl[:] = theirs.key("home").qpos, stance.u
    data.qpos[2] = stance.q[2]
    for _ in range(250):
        mujoco.mj_step(theirs, data)
    assert end[2] == pytest.approx(data.qpos[2], abs=2e-3)
    assert end[7:] == pytest.approx(data.qpos[7:], abs=2e-3)


def test_controls_that_are_not_written_hold_the_pose(arm: cd.Simulation) -> None:
    assert cd.stance(arm).u == pytest.approx([-0.21, 0.0])
    stance = cd.stance(arm, "low")
    assert stance.u == pytest.approx([0.1, 0.0]) and stance.servo is not None and stance.servo.joints == ("elbow",)
    # at q, those of the keyframe whose joints are there
    assert cd.stance(arm, q=stance.q).source == "the keyframe 'low'"
    with pytest.raises(ControlError, match=r"no keyframe 'hom' .*did you mean 'home'.*it has low, home"):
        cd.stance(arm, "hom")


def test_a_neutral_pose_is_within_the_limits(arm: cd.Simulation) -> None:
    assert neutral_pose(arm.robot) == pytest.approx([0.0, np.radians(40.0)])


def test_motors_of_a_urdf_are_held_by_pd_control_within_their_effort() -> None:
    arm = cd.Simulation(cd.load("ur3"), 0.005)
    stance = cd.stance(arm, q=[0.3, -0.8, 1.1, 0.2, -0.4, 0.1])
    assert stance.actuators is None and stance.servo is not None and stance.servo.size == 6
    loop = cd.Loop(arm, stance)
    out = loop.rollout(loop.state(stance.q), steps=400, every=400)
    assert np.abs(out["q"][-1] - stance.q).max() < 0.03 and np.abs(out["v"]).max() < 1e-6
    with pytest.raises(ControlError, match="nothing can hold it"):
        cd.stance(cd.Simulation(cd.load("double_pendulum"), 0.002, actuated=[]))


def test_sim_holds_the_stance_by_default(tmp_path: Path) -> None:
    path = tmp_path / "arm.xml"
    path.write_text(ARM)

    def facts(*more: str) -> Any:
        return json.loads(CliRunner().invoke(app, ["sim", str(path), "--seconds", "0.4", "--json", *more]).stdout)

    held = facts("-o", str(tmp_path / "run.cdl"))
    assert held["controller"] == "stance" and held["dt"] == 0.004
    assert held["stance"] == "the 2 actuators of its file and PD control of 1 joint hold the keyframe 'home'"
    assert [held["joints"][name] for name in ("shoulder", "elbow")] == pytest.approx([-0.2, 0.6], abs=0.03)
    cd.read_run(tmp_path / "run.cdl").check()
    fallen = facts("--passive", "--keyframe", "low")
    assert fallen["controller"] == "none" and fallen["stance"] is None and fallen["joints"]["shoulder"] > 0.2


def test_a_free_base_is_put_on_the_ground_at_a_given_pose() -> None:
    world = cd.Simulation(cd.load("fourlimb"), 0.002, cd.Plane())
    q = world.robot.neutral()
    q[2], q[8] = 5.0, 0.3
    np.testing.assert_array_equal(cd.stance(world, q=q).q, world.split(world.stand(q))[0])
    air = cd.Simulation(cd.load("fourlimb"), 0.002)
    np.testing.assert_array_equal(cd.stance(air, q=q).q, q)
