"""The actuators of MJCF files against MuJoCo: forces of every kind, activations over steps, stiff servos, and poses held."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.blocks.robot_actuators import Term, summed
from condyle.dynamics.actuation import actuator_joint_forces
from condyle.errors import ControlError, RobotError
from condyle.robot.actuator import ActuatorSpec
from condyle.robot.mjcf import read_mjcf

mujoco = pytest.importorskip("mujoco")

ARM = """
<mujoco>
  <option timestep="0.0005" gravity="0 0 -9.81"><flag contact="disable" constraint="disable" eulerdamp="disable"/></option>
  <worldbody>
    <site name="post" pos="0 0.3 0.1" euler="20 0 40"/>
    <body name="a">
      <joint name="j" axis="0 1 0" range="-60 60" ref="10" armature="0.1"/><geom size="0.1" pos="0.2 0 0"/>
      <site name="mid" pos="0.1 0 0" euler="10 20 30"/>
      <body name="b" pos="0.4 0 0">
        <joint name="k" type="slide" axis="1 0 0" actuatorfrcrange="-3 5" armature="0.1"/><geom size="0.05"/>
        <body name="c" pos="0.2 0 0">
          <joint name="l" axis="0 0 1" armature="0.1"/><geom size="0.05" pos="0.1 0 0"/>
          <site name="tip" pos="0.1 0 0.02" euler="40 0 -30"/>
        </body>
      </body>
    </body>
  </worldbody>
  <tendon><fixed name="t"><joint joint="j" coef="0.5"/><joint joint="l" coef="-0.7"/></fixed></tendon>
  <actuator>
    <motor name="motor" joint="j" gear="-3" ctrlrange="-0.5 0.8"/>
    <position name="position" joint="j" kp="5" kv="0.7" gear="2" forcerange="-3 6" inheritrange="1"/>
    <position name="critical" joint="j" kp="8" dampratio="1" timeconst="0.03"/>
    <velocity name="velocity" joint="k" kv="3" ctrlrange="-2 2"/>
    <intvelocity name="intvelocity" joint="l" kp="4" kv="0.1" actrange="-0.05 0.05"/>
    <damper name="damper" joint="l" kv="2" ctrlrange="0 1"/>
    <cylinder name="cylinder" joint="l" timeconst="0.2" area="3" bias="0.1 -0.2 -0.3"/>
    <general name="affine" joint="k" gaintype="affine" gainprm="1 0.5 -0.3" biastype="affine" biasprm="0.2 -1 -0.1"/>
    <general name="early" joint="k" dyntype="filter" dynprm="0.05" actearly="true" gainprm="2" actlimited="true" actrange="-1 1"/>
    <general name="tendon" tendon="t" gainprm="4" biastype="affine" biasprm="0 -4 -0.5" forcerange="-2 2"/>
    <motor name="thrust" site="tip" gear="1 -2 3 0.1 0.2 -0.3" ctrlrange="0 2"/>
    <general name="cartesian" site="tip" refsite="post" gear="1 2 -1 0.5 0.3 0.2" gainprm="3"
             biastype="affine" biasprm="0 -3 -1"/>
    <general name="inner" site="tip" refsite="mid" gear="0 1 -1 0 0 1" gainprm="3"
             biastype="affine" biasprm="0 -3 -1"/>
  </actuator>
</mujoco>
"""


@pytest.fixture(scope="module")
def arm() -> Any:
    return cd.load(read_mjcf(ARM))


def test_forces_of_every_kind_are_those_of_mujoco(arm: Any) -> None:
    theirs = mujoco.MjModel.from_xml_string(ARM)
    data, rng, n = mujoco.MjData(theirs), np.random.default_rng(1), len(arm.actuators)
    forces = arm.function(actuator_joint_forces, a=n)
    stateful = [k for k, actuator in enumerate(arm.actuators) if actuator.stateful]
    for _ in range(50):
        data.qpos[:], data.qvel[:], data.ctrl[:] = rng.normal(size=3), rng.normal(size=3), rng.normal(size=n)
        data.act[:] = rng.normal(size=theirs.na)
        mujoco.mj_forward(theirs, data)
        act = dict(zip(stateful, data.act, strict=True))
        inputs = [spec.input(u, act.get(k), 0.0005)[0] for k, (spec, u) in enumerate(zip(arm.actuators, data.ctrl, strict=True))]
        ours = forces(data.qpos, data.qvel, np.array(inputs, dtype=float))
        assert np.abs(ours - data.qfrc_actuator).max() <= 1e-12 * max(np.abs(data.qfrc_actuator).max(), 1.0)


def test_activations_over_steps_are_those_of_mujoco() -> None:
    text = ARM.replace('actuatorfrcrange="-3 5"', "")  # which limits the wrenches of sites as well there
    arm, theirs = cd.load(read_mjcf(text)), mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(theirs)
    actuators = cd.blocks.RobotActuators(arm)
    world = cd.Simulation(arm, 0.0005, limits=False)
    loop = cd.Loop(world, lambda x, u: actuators(u, x), u=actuators.nu)
    x, u = loop.state(data.qpos.copy()), np.linspace(-1.5, 2.0, actuators.nu)
    data.ctrl[:] = u
    out = loop.rollout(x, {"u": u}, 200, record=("actuators.act", "q", "actuators.force"))
    for row in range(200):
        mujoco.mj_step(theirs, data)
        assert out["actuators.act"][row] == pytest.approx(data.act, rel=1e-12, abs=1e-14)
    # explicit there, implicit here: the same motion but for the order of the step
    assert out["q"][-1] == pytest.approx(data.qpos, abs=1e-3)
    assert out["actuators.force"].shape == (200, actuators.nu)


STIFF = """
<mujoco>
  <worldbody><body name="a"><joint name="j" axis="0 1 0"/><geom size="0.05" pos="0.3 0 0" mass="1"/>
    <body pos="0.5 0 0"><joint name="k" axis="0 1 0"/><geom size="0.05" pos="0.3 0 0" mass="1"/></body></body></worldbody>
  <tendon><fixed name="t"><joint joint="k" coef="1"/><joint joint="j" coef="0.1"/></fixed></tendon>
  <actuator>
    <position name="p" joint="j" kp="1e5" kv="300" forcerange="-20 60"/>
    <position name="q" tendon="t" kp="1e5" kv="300"/>
  </actuator>
  <keyframe><key name="home" qpos="0.2 0.4" ctrl="0.3 0.5"/></keyframe>
</mujoco>
"""


def test_stiff_servos_are_stable_at_large_steps_and_keep_to_lopsided_limits() -> None:
    robot = cd.load(read_mjcf(STIFF))
    actuators = cd.blocks.RobotActuators(robot)
    loop = cd.Loop(cd.Simulation(robot, 0.005), lambda x, u: actuators(u, x), u=2)
    u = np.array([0.3, 0.5])
    out = loop.rollout(loop.state([0.2, 0.48]), {"u": u}, 600)
    assert np.abs(out["v"][-1]).max() < 1e-6
    # gravity over the gain is all that is left
    assert out["q"][-1] @ [[1.0, 0.1], [0.0, 1.0]] == pytest.approx(u, abs=5e-4)


def test_a_lopsided_range_is_a_drive_about_its_middle() -> None:
    servo = Term(1.0, 5.0, 2.0, (-20.0, 60.0))
    drive, besides = summed([servo], 0.0, 0.0, (-30.0, 60.0), actuated=True)
    assert drive == {"force": -19.0, "stiffness": 5.0, "damping": 2.0, "effort": 40.0} and besides == 20.0
    # beside a second actuator each is at its bound where it is beyond it at the start of the step
    drive, besides = summed([servo, Term(3.0, 0.0, 0.0, None)], -20.0, 0.0, None, actuated=True)
    assert drive == {} and besides == 63.0


def test_robots_without_actuators_and_wrong_controls_say_so(arm: Any) -> None:
    with pytest.raises(ControlError, match="has no actuators in its file"):
        cd.blocks.RobotActuators(cd.load("ur3"))
    actuators = cd.blocks.RobotActuators(arm)
    with pytest.raises(ControlError, match=f"has {actuators.nu} controls"):
        cd.Loop(cd.Simulation(arm, 0.004), lambda x: actuators(np.zeros(3), x))
    description = read_mjcf(STIFF)
    wrong = replace(description, actuators=(ActuatorSpec("p", (("jj", 1.0),)),))
    with pytest.raises(RobotError, match="there is no joint 'jj'"):
        cd.load(wrong)


def test_what_cannot_be_simulated_is_named_and_keeps_its_control() -> None:
    text = STIFF.replace(
        "</actuator>", '<muscle name="m" joint="j" lengthrange="0 1"/><adhesion name="s" body="a" ctrlrange="0 1"/></actuator>'
    )
    text = text.replace('ctrl="0.3 0.5"', 'ctrl="0.3 0.5 0 0"')
    robot = cd.load(read_mjcf(text))
    assert cd.blocks.RobotActuators(robot).nu == 4
    said = "\n".join(robot.report)
    assert "muscle: m" in said and "with a transmission by body: s" in said


def test_locked_joints_count_with_their_position_in_a_tendon() -> None:
    robot = cd.load(read_mjcf(STIFF)).lock("j", [0.5, 0.0])
    p, q = robot.actuators
    assert p.unsupported and q.joints == (("k", 1.0),) and q.offset == pytest.approx(0.05)
