"""Robots whose files say what is constrained: mimic joints follow and loops close when they are loaded."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from constraints import mechanisms as m

import condyle as cd
from condyle.robot.description import LoopSpec, Mimic

FOUR_BAR = """<mujoco><compiler angle="radian"/><worldbody>
  <body name="crank"><joint name="crank" axis="0 1 0" ref="{ref}"/><geom type="capsule" fromto="0 0 0 0 0 .25" size=".02"/>
    <body name="coupler" pos="0 0 .25"><joint name="coupler" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 1 0 .1" size=".02"/>
      <site name="end" pos="1 0 .1"/></body></body>
  <body name="rocker" pos="1 0 -.25"><joint name="rocker" axis="0 1 0" ref="{ref}"/><site name="top" pos="0 0 .6"/>
    <geom type="capsule" fromto="0 0 0 0 0 .6" size=".02"/></body>
</worldbody><equality><connect name="ring" site1="end" site2="top"/></equality></mujoco>"""

WELDED = """<mujoco><worldbody>
  <body name="a" pos="1 2 3" quat=".5 .5 .5 .5"><freejoint name="fa"/><geom size=".1"/></body>
  <body name="b" pos="1.5 2 3"><freejoint name="fb"/><geom size=".1"/></body>
</worldbody><equality><weld name="glue" body1="a" body2="b"/></equality></mujoco>"""


def described() -> "cd.Robot":
    """The four-bar with its loop in the description."""
    bars = m.four_bar()
    (a, b, _) = bars.loops[0]
    return cd.load(replace(bars.description, loops=(LoopSpec("ring", a, b, ("x", "z")),)))


def test_a_loop_in_a_description_is_closed() -> None:
    robot = described()
    assert (robot.nq, robot.nv, robot.model.nv) == (1, 1, 3)
    assert robot.report == ["constrained: coupler, rocker follow from 2 conditions (ring)"]
    q, _ = robot.lift(np.array([0.3]), np.zeros(1))
    assert m.four_bar().gap(q) < 1e-15


def test_a_loop_with_nothing_to_close_it_is_told_with_its_cure() -> None:
    bars = m.four_bar()
    far = [
        replace(j, pose=replace(j.pose, p=np.array([9.0, 0.0, 0.0]))) if j.name == "rocker" else j
        for j in bars.description.joints
    ]
    loop = LoopSpec("ring", *bars.loops[0][:2], ("x", "z"))
    broken = replace(bars.description, joints=tuple(far), loops=(loop,))
    with pytest.raises(cd.RobotError, match=r"cannot be closed(.|\n)*constraints=False"):
        cd.load(broken)
    assert cd.load(broken, constraints=False).nv == 3


def test_mimic_joints_and_loops_together() -> None:
    bars = m.five_bar()
    joints = [
        replace(j, mimic=Mimic("left_thigh", -1.0, np.pi)) if j.name == "right_thigh" else j for j in bars.description.joints
    ]
    loop = LoopSpec("foot", *bars.loops[0][:2], ("x", "z"))
    written = {"left_thigh": 2.5, "left_shin": -1.0, "right_shin": 1.0}
    joints = [replace(j, written=(written[j.name],)) if j.name in written else j for j in joints]
    robot = cd.load(replace(bars.description, joints=tuple(joints), loops=(loop,)))
    assert robot.joint_names == ["left_thigh"] and len(robot.report) == 2
    q, _ = robot.lift(np.array([2.4]), np.zeros(1))
    assert bars.gap(q) < 1e-15 and q[2] == pytest.approx(np.pi - 2.4, abs=1e-15)


def test_lock_comes_before_constraints() -> None:
    with pytest.raises(cd.RobotError, match="lock what was loaded"):
        cd.load("wheeled_pendulum").roll("axle", 0.04).lock("axle")
    bars = m.five_bar()
    loop = LoopSpec("foot", *bars.loops[0][:2], ("x", "z"))
    tree = cd.load(replace(bars.description, loops=(loop,)), constraints=False)
    q = bars.pose()
    locked = tree.lock("left_thigh", q).close_loop(*bars.loops[0], q=q[1:], independent=["right_thigh"])
    assert locked.nv == 1
    np.testing.assert_allclose(locked.full(q[2:3]), q, atol=1e-14)
    with pytest.raises(cd.RobotError, match="lift"):
        locked.full_velocity(np.zeros(1))


@pytest.mark.parametrize("ref", [0.0, 0.4])
def test_loops_of_mjcf_close_from_the_written_pose(ref: float, tmp_path) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("mujoco")
    path = tmp_path / "bars.xml"
    path.write_text(FOUR_BAR.format(ref=ref))
    robot, tree = cd.load(path), cd.load(path, constraints=False)
    np.testing.assert_array_equal(tree.model.written(), [ref, 0.0, ref])
    assert (robot.nv, tree.nv) == (1, 3)
    q, _ = robot.lift(robot.neutral(), np.zeros(1))
    # the written pose is nearly closed, and the robot begins there
    np.testing.assert_allclose(q, tree.model.written(), atol=0.2)
    (_, a), (_, b) = tree.frame_pose(q, "end"), tree.frame_pose(q, "top")
    np.testing.assert_allclose(a, b, atol=1e-14)


def test_a_weld_of_two_bodies_of_mjcf(tmp_path) -> None:  # type: ignore[no-untyped-def]
    pytest.importorskip("mujoco")
    path = tmp_path / "two.xml"
    path.write_text(WELDED)
    robot = cd.load(path)
    assert (robot.nv, robot.model.nv) == (6, 12)
    q, _ = robot.lift(robot.neutral(), np.zeros(6))
    np.testing.assert_allclose(q, robot.model.written(), atol=1e-12)


def test_locking_a_robot_with_mimic_joints_locks_those_that_go_with_them(tmp_path: Path) -> None:
    body = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    links = "".join(f'<link name="l{k}">{body}</link>' for k in range(4))
    follow = {2: '<mimic joint="j1" multiplier="-2" offset="0.25"/>'}
    joints = "".join(
        f'<joint name="j{k}" type="continuous"><parent link="l{k - 1}"/><child link="l{k}"/><origin xyz="0.1 0 0.2"/>'
        f'<axis xyz="0 1 0"/>{follow.get(k, "")}</joint>'
        for k in (1, 2, 3)
    )
    path = tmp_path / "gripper.urdf"
    path.write_text(f'<robot name="gripper">{links}{joints}</robot>')
    robot = cd.load(path)
    assert robot.joint_names == ["j1", "j3"]
    # whichever of the two is named
    for name in ("j1", "j2"):
        locked = robot.lock(name, [0.5, 0.0])
        assert locked.joint_names == ["j3"] and np.allclose(locked.full(np.array([0.3])), [0.5, -0.75, 0.3])
    assert robot.lock("j3").joint_names == ["j1"]
    assert np.allclose(robot.lock("j3").full(np.array([0.5])), [0.5, -0.75, 0.0])
