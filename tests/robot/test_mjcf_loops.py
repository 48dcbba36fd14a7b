"""Connects and welds of MJCF become loops: their frames are where MuJoCo has them, at qpos0 and everywhere else."""

from typing import Any

import numpy as np
import pytest

from condyle.dynamics.kinematics import frame_pose
from condyle.errors import RobotError
from condyle.robot.build import build
from condyle.robot.check import check, checked
from condyle.robot.conventions import q_from_mujoco
from condyle.robot.description import LOOP_AXES
from condyle.robot.mjcf import read_mjcf
from condyle.robot.model import Loop, Model
from condyle.robot.spatial import Pose

mujoco = pytest.importorskip("mujoco")

# the same products of a few rotations in float64, on mechanisms of a metre
SAME = 1e-12

# a crank, a coupler whose end is a body fixed to it, and a rocker with its hinge beside its origin and a ref; in the x-z plane
BARS = """
<mujoco model="bars">
  <compiler angle="radian"/>
  <worldbody>
    <body name="crank" pos="0 0 0.2">
      <joint name="drive" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 0.3" size="0.02"/>
      <body name="coupler" pos="0 0 0.3" euler="0 0.4 0">
        <joint name="bend" axis="0 1 0" ref="0.3"/><geom type="capsule" fromto="0 0 0 0.5 0 0" size="0.02"/>
        <body name="tip" pos="0.5 0 0" quat="0.6 0 0 0.8"><geom size="0.03"/><site name="pin" euler="0.3 0 0"/></body>
      </body>
    </body>
    <body name="rocker" pos="0.6 0 0" euler="0 -0.2 0.5">
      <joint name="sway" axis="0 1 0" pos="0 0 0.05" ref="-0.7"/><geom type="capsule" fromto="0 0 0 0 0 0.4" size="0.02"/>
      <site name="eye" pos="0.01 0.02 0.4"/>
    </body>
  </worldbody>
  <equality>
    EQUALITY
  </equality>
</mujoco>
"""

CONNECT = '<connect name="hinge" body1="tip" body2="rocker" anchor="0.01 0 0.02"/>'
WELD = '<weld name="glue" body1="tip" body2="rocker" anchor="0.1 0.2 0.3" torquescale="2"/>'
POSED = '<weld name="glue" body1="rocker" body2="tip" relpose="0.1 0.2 0.3 0.5 -0.5 0.5 0.5" anchor="0.02 0.1 0"/>'
TO_WORLD = '<connect name="hinge" body1="rocker" anchor="0 0.1 0.4"/>'
WORLD_WELD = '<weld name="glue" body1="tip"/>'
SITES = '<connect name="hinge" site1="pin" site2="eye"/>'
SITE_WELD = '<weld name="glue" site1="pin" site2="eye"/>'

# what MuJoCo closes itself at qpos0, and what is written as it is
CLOSED = [CONNECT, WELD, TO_WORLD, WORLD_WELD]
OPEN = [POSED, SITES, SITE_WELD]


def bars(equality: str) -> str:
    return BARS.replace("EQUALITY", equality)


def ends(model: Model, loop: Loop, qpos: np.ndarray) -> tuple[Pose, Pose]:
    q = q_from_mujoco(model, qpos)
    a, b = (frame_pose(model, q, name) for name in (loop.frame_a, loop.frame_b))
    return Pose(a.R.astype(float), a.p.astype(float)), Pose(b.R.astype(float), b.p.astype(float))


def residual(theirs: Any, qpos: np.ndarray) -> np.ndarray:
    """MuJoCo's own: how far the constraint is open, in the world's axes."""
    data = mujoco.MjData(theirs)
    data.qpos[:] = qpos
    mujoco.mj_forward(theirs, data)
    return data.efc_pos[data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY].copy()


@pytest.mark.parametrize("equality", CLOSED)
def test_frames_coincide_at_qpos0(equality: str) -> None:
    theirs = mujoco.MjModel.from_xml_string(bars(equality))
    model = build(checked(read_mjcf(bars(equality))))
    (loop,) = model.loops
    a, b = ends(model, loop, theirs.qpos0)
    np.testing.assert_allclose(a.p, b.p, atol=SAME)
    if "rx" in loop.axes:
        np.testing.assert_allclose(a.R, b.R, atol=SAME)


@pytest.mark.parametrize("equality", CLOSED + OPEN)
def test_a_loop_is_as_open_as_in_mujoco(equality: str) -> None:
    theirs = mujoco.MjModel.from_xml_string(bars(equality))
    model = build(checked(read_mjcf(bars(equality))))
    (loop,) = model.loops
    assert loop.axes == (LOOP_AXES if "weld" in equality else ("x", "y", "z"))
    torquescale = 2.0 if "torquescale" in equality else 1.0
    rng = np.random.default_rng(0)
    for _ in range(20):
        qpos = theirs.qpos0 + rng.uniform(-2.0, 2.0, theirs.nq)
        a, b = ends(model, loop, qpos)
        r = residual(theirs, qpos)
        np.testing.assert_allclose(a.p - b.p, r[:3], atol=SAME)
        if "weld" in equality:
            # the vector part of the quaternion of R_ba, up to the quaternion's sign
            quat = np.zeros(4)
            mujoco.mju_mat2Quat(quat, (b.R.T @ a.R).ravel())
            sign = np.sign(quat[1:] @ r[3:])
            np.testing.assert_allclose(torquescale * sign * quat[1:], r[3:], atol=SAME)


@pytest.mark.parametrize(("equality", "a", "b"), [(CONNECT, "tip", "rocker"), (TO_WORLD, "rocker", "world")])
def test_anchors_are_those_of_mujoco(equality: str, a: str, b: str) -> None:
    theirs = mujoco.MjModel.from_xml_string(bars(equality))
    data = mujoco.MjData(theirs)
    mujoco.mj_kinematics(theirs, data)
    robot = read_mjcf(bars(equality))
    (spec,) = robot.loops
    assert (spec.name, spec.frame_a, spec.frame_b, spec.where) == ("hinge", "hinge_a", "hinge_b", "model.xml:18")
    frames = {frame.name: frame for frame in robot.frames}
    assert (frames["hinge_a"].link, frames["hinge_b"].link) == (a, b)
    for name, numbers in (("hinge_a", theirs.eq_data[0, :3]), ("hinge_b", theirs.eq_data[0, 3:6])):
        np.testing.assert_array_equal(frames[name].pose.p, numbers)
        body = theirs.body(frames[name].link).id
        point = data.xpos[body] + data.xmat[body].reshape(3, 3) @ numbers
        model = build(robot)
        np.testing.assert_allclose(frame_pose(model, q_from_mujoco(model, theirs.qpos0), name).p.astype(float), point, atol=SAME)


def test_sites_of_a_closed_model_meet() -> None:
    # the rocker's site moved to where the pin is
    theirs = mujoco.MjModel.from_xml_string(bars(""))
    data = mujoco.MjData(theirs)
    mujoco.mj_kinematics(theirs, data)
    rocker = theirs.body("rocker").id
    p = data.xmat[rocker].reshape(3, 3).T @ (data.site("pin").xpos - data.xpos[rocker])
    text = bars(SITES).replace('pos="0.01 0.02 0.4"', f'pos="{p[0]:.17g} {p[1]:.17g} {p[2]:.17g}"')
    model = build(checked(read_mjcf(text)))
    (loop,) = model.loops
    assert (loop.frame_a, loop.frame_b, loop.axes) == ("hinge_a", "hinge_b", ("x", "y", "z"))
    a, b = ends(model, loop, theirs.qpos0)
    np.testing.assert_allclose(a.p, b.p, atol=SAME)
    pin, eye = ends(model, Loop("", "pin", "eye", ()), theirs.qpos0)
    assert (a.p == pin.p).all() and (a.R == pin.R).all() and (b.p == eye.p).all() and (b.R == eye.R).all()


def test_nameless_equalities_get_names_that_nothing_else_has() -> None:
    text = bars(
        '<connect body1="tip" body2="rocker" anchor="0 0 0"/><weld body1="tip" body2="rocker"/>'
        '<connect name="connect0" body1="crank" anchor="0 0 0"/><connect name="tip" body1="crank" anchor="0 0 0"/>'
    ).replace('name="eye"', 'name="weld1_a"')
    robot = checked(read_mjcf(text))
    assert [(loop.name, loop.frame_a, loop.frame_b) for loop in robot.loops] == [
        ("connect0_", "connect0__a", "connect0__b"),
        ("weld1", "weld1_a_2", "weld1_b"),
        ("connect0", "connect0_a", "connect0_b"),
        ("tip", "tip_a", "tip_b"),
    ]


def test_the_rest_is_as_without_the_loop() -> None:
    closed, tree = read_mjcf(bars(CONNECT)), read_mjcf(bars(""))
    for one, two in zip(closed.joints, tree.joints, strict=True):
        assert all(np.array_equal(vars(one)[key], vars(two)[key]) for key in vars(one) if key != "pose")
        assert np.array_equal(one.pose.R, two.pose.R) and np.array_equal(one.pose.p, two.pose.p)
    assert [frame.name for frame in closed.frames] == ["pin", "eye", "hinge_a", "hinge_b"]
    assert tree.loops == () and build(tree).loops == ()


def test_the_notes_say_what_is_soft_in_mujoco_and_what_is_left_out() -> None:
    robot = read_mjcf(
        bars(
            CONNECT + WELD + '<connect name="idle" active="false" body1="tip" anchor="0 0 0"/>'
            '<joint name="bent" joint1="bend" joint2="drive" polycoef="0 1 0.5 0 0"/>'
            '<joint name="off" joint1="bend" joint2="drive" active="false"/>'
            '<joint name="line" joint1="bend" joint2="drive" polycoef="0 2 0 0 0"/>'
        )
    )
    assert [loop.name for loop in robot.loops] == ["hinge", "glue"]
    assert [note.what for note in robot.notes] == [
        "kept: joints that mimic others, softly in MuJoCo and exactly here: bend",
        "kept: equality constraints that close loops, softly in MuJoCo and exactly here: hinge (connect), glue (weld)",
        "not simulated: equality constraints (connect, not active at the start), which are left out: idle",
        "not simulated: equality constraints (joint), which are left out: bent",
        "not simulated: equality constraints (joint, not active at the start), which are left out: off",
        "not simulated: contact of moving bodies with each other: crank - rocker, coupler - rocker",
    ]
    assert check(robot, strict=True).problems


def test_switched_off_equalities_are_left_out() -> None:
    text = bars(CONNECT + '<joint joint1="bend" joint2="drive"/>')
    robot = read_mjcf(text.replace("<worldbody>", '<option><flag equality="disable"/></option><worldbody>'))
    assert robot.loops == () and all(joint.mimic is None for joint in robot.joints)
    assert sum("not active" in note.what for note in robot.notes) == 2


def test_a_weld_of_what_stands_still_anyway_is_no_loop() -> None:
    # the tip is fixed to the coupler: nothing moves between them
    assert build(checked(read_mjcf(bars('<weld name="glue" body1="tip" body2="coupler"/>')))).loops == ()
    open_weld = bars('<weld name="glue" body1="tip" body2="coupler" relpose="0 0 0 1 0 0 0"/>')
    with pytest.raises(
        RobotError, match=r"'bars': loop 'glue': frames 'glue_a' and 'glue_b' are fixed to each other, 0\.5 m, 1\.85 rad apart"
    ):
        build(checked(read_mjcf(open_weld)))


HOSTILE = {
    "nobody": ('<connect body1="nobody" anchor="0 0 0"/>', r"model\.xml:18: .*unknown element 'nobody'"),
    "no site": ('<weld site1="pin" site2="nowhere"/>', r"model\.xml:18: .*unknown element 'nowhere'"),
    "itself": ('<connect body1="tip" body2="tip" anchor="0 0 0"/>', r"model\.xml:18: .*'tip' is repeated"),
    "two forms": ('<weld site1="pin" body2="tip"/>', r"model\.xml:18: .*at most one of"),
    "nan": ('<connect name="c" body1="tip" anchor="nan 0 0"/>', r"model\.xml: eq 'c': eq_data is .*: numbers must be finite"),
    "huge": ('<weld name="w" body1="tip" anchor="1e300 0 0"/>', r"model\.xml: eq 'w': eq_data is .*: numbers must be finite"),
    "nan turn": ('<weld name="w" body1="tip" relpose="0 0 0 nan 0 0 1"/>', r"eq 'w': eq_data is .*: numbers must be finite"),
    "long name": (f'<weld name="{"w" * 300}" body1="tip"/>', "loop 'w+...': a name has at most 200 printable characters"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_bad_equalities_are_refused(what: str) -> None:
    equality, sentence = HOSTILE[what]
    with pytest.raises(RobotError, match=sentence):
        checked(read_mjcf(bars(equality)))
