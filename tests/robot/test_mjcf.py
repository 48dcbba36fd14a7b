"""MJCF models become the robot that MuJoCo simulates: same poses, mass matrix and bias; the rest is noted, bad files refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from condyle.dynamics.crba import mass_matrix
from condyle.dynamics.kinematics import frame_pose
from condyle.dynamics.rnea import inverse_dynamics
from condyle.errors import RobotError
from condyle.robot.actuator import ActuatorSpec
from condyle.robot.build import build
from condyle.robot.check import check
from condyle.robot.conventions import a_to_mujoco, q_from_mujoco, q_to_mujoco, v_from_mujoco, v_to_mujoco
from condyle.robot.mjcf import read_mjcf

mujoco = pytest.importorskip("mujoco")

# two implementations of the same formulas in float64, on robots of a few metres and kilograms
SAME = 1e-10

PENDULUM = """
<mujoco model="pendulum">
  <worldbody>
    <body name="rod" pos="0.1 0 1">
      <joint name="swing" axis="0 1 0" damping="0.1" armature="0.02"/>
      <geom type="capsule" fromto="0 0 0 0 0 -1" size="0.03"/>
    </body>
  </worldbody>
</mujoco>
"""

# hinges with and without offsets, a slide and a ball on one body, refs in degrees and metres, unusual axes, a fixed body
CHAIN = """
<mujoco model="chain">
  <compiler angle="degree"/>
  <option gravity="0.5 -0.3 -9"/>
  <worldbody>
    <body name="a" pos="0.1 0.2 0.3" euler="10 20 30">
      <joint name="a1" axis="1 2 3" pos="0.1 -0.2 0.05" ref="25" range="-90 120" frictionloss="0.3"/>
      <joint name="a2" type="slide" axis="0 1 1" pos="1 2 3" ref="0.3" range="-1 2"/>
      <joint name="a3" axis="0 1 0" pos="0 0.3 0" ref="-40"/>
      <geom type="box" size="0.1 0.2 0.3" pos="0.05 0 0.1" euler="20 0 50"/>
      <site name="on_a" pos="0.2 0 0.1" euler="0 90 0"/>
      <body name="b" pos="0 0 0.6">
        <joint name="b1" type="ball" pos="0.02 0.03 -0.1"/>
        <geom type="cylinder" size="0.1 0.2" pos="0 0.1 0"/>
        <body name="plate" pos="0.2 0 0" euler="0 45 0">
          <geom type="sphere" size="0.07"/>
          <body name="c" pos="0 0 0.2">
            <joint name="c1" type="slide" axis="1 0 0"/>
            <joint name="c2" type="ball"/>
            <geom type="capsule" size="0.05 0.1"/>
          </body>
        </body>
      </body>
    </body>
    <body name="d" pos="1 0 0"><joint name="d1"/><geom type="sphere" size="0.1" pos="0.3 0 0"/></body>
  </worldbody>
</mujoco>
"""

FIGURE = """
<mujoco model="figure">
  <compiler angle="radian"/>
  <default><joint armature="0.01" damping="0.5"/></default>
  <worldbody>
    <body name="torso" pos="0 0 1.3">
      <freejoint name="root"/>
      <geom type="capsule" fromto="0 -0.1 0 0 0.1 0" size="0.08"/>
      <body name="neck" pos="0 0 0.2">
        <joint name="neck" type="ball" damping="0.2"/>
        <geom type="sphere" size="0.09" pos="0 0 0.1"/>
      </body>
      <body name="thigh" pos="0 0.1 -0.1">
        <joint name="hip_x" axis="1 0 0" range="-0.4 0.1"/>
        <joint name="hip_z" axis="0 0 1"/>
        <joint name="hip_y" axis="0 1 0" pos="0 0 0.02"/>
        <geom type="capsule" fromto="0 0 0 0 0.01 -0.34" size="0.06"/>
        <body name="shin" pos="0 0.01 -0.4">
          <joint name="knee" pos="0 0 0.02" axis="0 -1 0" ref="0.3"/>
          <geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.05"/>
          <body name="foot" pos="0 0 -0.4"><geom type="box" size="0.1 0.05 0.02" pos="0.04 0 0"/></body>
        </body>
      </body>
      <body name="arm" pos="0 -0.2 0.1">
        <joint name="telescope" type="slide" axis="0 -1 0" ref="0.1"/>
        <geom type="capsule" fromto="0 0 0 0 -0.3 0" size="0.04"/>
      </body>
    </body>
    <body name="ball" pos="1 0 0.5" quat="0.5 0.5 0.5 -0.5">
      <freejoint/><geom type="ellipsoid" size="0.1 0.2 0.3" pos="0.1 0 0"/>
    </body>
  </worldbody>
</mujoco>
"""


# inertial frames that MuJoCo takes for the bodies' own, and for turned as they are
ALIGNED = """
<mujoco>
  <worldbody>
    <body name="a"><joint axis="0 1 0"/>
      <inertial pos="3e-7 0 -2e-7" quat="1 2e-7 0 0" mass="1" diaginertia="0.1 0.2 0.25"/>
      <body name="b" pos="0 0.1 0.2"><joint axis="1 0 0"/>
        <inertial pos="0.1 0 0.2" quat="1 0 2e-7 0" mass="2" diaginertia="0.1 0.2 0.25"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""


def random_state(model: Any, rng: np.random.Generator) -> Any:
    """MuJoCo's data at a random state, quaternions of unit length, all of MuJoCo's own quantities computed."""
    data = mujoco.MjData(model)
    data.qpos[:] = model.qpos0 + rng.uniform(-1.0, 1.0, model.nq)
    mujoco.mj_normalizeQuat(model, data.qpos)
    data.qvel[:] = rng.uniform(-2.0, 2.0, model.nv)
    mujoco.mj_forward(model, data)
    return data


@pytest.mark.parametrize("text", [PENDULUM, CHAIN, FIGURE, ALIGNED], ids=["pendulum", "chain", "figure", "aligned"])
@pytest.mark.parametrize("seed", range(5))
def test_poses_mass_matrix_and_bias_are_those_of_mujoco(text: str, seed: int) -> None:
    theirs = mujoco.MjModel.from_xml_string(text)
    data = random_state(theirs, np.random.default_rng(seed))
    description = read_mjcf(text)
    assert check(description).problems == [] and description.gravity is not None
    ours = build(description, gravity=description.gravity)
    assert (ours.nq, ours.nv) == (theirs.nq, theirs.nv)
    q = q_from_mujoco(ours, data.qpos)
    v = v_from_mujoco(ours, q, data.qvel)

    for i in range(1, theirs.nbody):
        X = frame_pose(ours, q, theirs.body(i).name)
        np.testing.assert_allclose(X.p.astype(float), data.xpos[i], atol=SAME)
        np.testing.assert_allclose(X.R.astype(float), data.xmat[i].reshape(3, 3), atol=SAME)
    for i in range(theirs.nsite):
        np.testing.assert_allclose(frame_pose(ours, q, theirs.site(i).name).p.astype(float), data.site_xpos[i], atol=SAME)

    # columns of T map our velocities to MuJoCo's:  M_theirs = T M T^T,  and the bias has what turning adds to accelerations
    nv = ours.nv
    T = np.array([v_to_mujoco(ours, q, e) for e in np.eye(nv)]).T
    M = np.zeros((nv, nv))
    for i, e in enumerate(np.eye(nv)):
        mujoco.mj_mulM(theirs, data, M[i], e)
    np.testing.assert_allclose(T @ mass_matrix(ours, q).astype(float) @ T.T, M, atol=SAME)

    bias = T @ inverse_dynamics(ours, q, v, np.zeros(nv)).astype(float) - M @ a_to_mujoco(ours, q, v, np.zeros(nv))
    np.testing.assert_allclose(bias, data.qfrc_bias, atol=SAME * np.abs(data.qfrc_bias).max())


def test_joints_keep_order_kinds_limits_and_losses() -> None:
    joints = {joint.name: joint for joint in read_mjcf(CHAIN).joints}
    moving = [name for name, joint in joints.items() if joint.kind != "fixed"]
    assert moving == ["a1", "a2", "a3", "b1", "c1", "c2", "d1"]
    assert [joints[name].kind for name in moving] == [
        "revolute", "prismatic", "continuous", "ball", "prismatic", "ball", "continuous",
    ]  # fmt: skip
    assert joints["a1"].limits.upper == pytest.approx(np.radians(120.0), rel=1e-15)
    assert (joints["a2"].limits.lower, joints["a2"].limits.upper) == (-1.0, 2.0)
    assert joints["a1"].friction == 0.3
    (swing,) = read_mjcf(PENDULUM).joints
    assert (swing.damping, swing.armature, swing.where) == (0.1, 0.02, "model.xml:5")


def test_masses_are_those_of_mujoco() -> None:
    theirs = mujoco.MjModel.from_xml_string(FIGURE)
    links = {link.name: link for link in read_mjcf(FIGURE).links}
    for i in range(1, theirs.nbody):
        body = theirs.body(i)
        inertia = links[body.name].inertia
        assert inertia is not None and inertia.mass == body.mass[0]
        np.testing.assert_allclose(inertia.com, body.ipos, atol=1e-15)
        np.testing.assert_allclose(np.sort(np.linalg.eigvalsh(inertia.I_com)), np.sort(body.inertia), rtol=1e-9)


SHAPES = """
<mujoco>
  <asset><material name="red" rgba="1 0 0 1"/></asset>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1"/>
    <geom name="wall" type="box" size="1 2 3"/>
    <body name="a">
      <joint/>
      <geom name="both" type="box" size="0.1 0.2 0.3" material="red"/>
      <geom name="seen" type="sphere" size="0.1" contype="0" conaffinity="0" rgba="0 1 0 1"/>
      <geom name="hidden" type="cylinder" size="0.1 0.2" group="3"/>
      <geom name="neither" type="capsule" size="0.1 0.2" group="4" contype="0" conaffinity="0"/>
      <geom name="egg" type="ellipsoid" size="0.1 0.2 0.3"/>
    </body>
  </worldbody>
</mujoco>
"""


def test_geoms_become_shapes_by_group_and_contact_bits() -> None:
    robot = read_mjcf(SHAPES)
    world, a = robot.links
    assert [shape.name for shape in a.visuals] == ["both", "seen", "egg"]
    assert [(shape.kind, shape.size) for shape in a.collisions] == [
        ("box", (0.2, 0.4, 0.6)), ("cylinder", (0.1, 0.4)), ("ellipsoid", (0.1, 0.2, 0.3)),
    ]  # fmt: skip
    assert a.visuals[0].color == (1.0, 0.0, 0.0, 1.0) and a.visuals[1].color == (0.0, 1.0, 0.0, 1.0)
    assert [shape.name for shape in world.collisions] == ["wall"]
    assert [note.what for note in robot.notes] == [
        "not simulated: contact with geoms fixed in the world: wall",
        "not simulated: contact with the floor, for a robot that is fixed in the world (`ground` gives it one): floor",
        "not simulated: links that begin inside each other, and would be pushed apart: world - a",
        "ignored: geoms that are hidden and touch nothing: neither",
    ]


MOTORS = """
<mujoco>
  <worldbody>
    <body>
      <joint name="j"/><geom size="0.1"/>
      <body pos="1 0 0">
        <joint name="k" actuatorfrcrange="-7 5" actuatorfrclimited="true"/><geom size="0.1"/>
        <body pos="1 0 0"><joint name="l"/><geom size="0.1"/></body>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor name="m1" joint="j" gear="3" ctrlrange="-2 1" armature="0.5" damping="0.7"/>
    <motor name="m2" joint="j" gear="-10" ctrlrange="-1 1" forcerange="-0.5 0.5"/>
    <motor name="m3" joint="k" gear="100"/>
    <position name="p" joint="l" kp="10" forcerange="-4 4" gear="2"/>
  </actuator>
</mujoco>
"""


def test_motors_limit_efforts_and_add_rotor_inertia() -> None:
    robot = read_mjcf(MOTORS)
    j, k, l = robot.joints
    assert j.limits.effort == pytest.approx(3 * 2 + 10 * 0.5)
    assert k.limits.effort == 7.0
    assert l.limits.effort == 8.0
    assert (j.armature, j.damping) == pytest.approx((9 * 0.5, 9 * 0.7))
    m1, m2, _, p = robot.actuators
    assert m1 == ActuatorSpec("m1", (("j", 3.0),), ctrlrange=(-2.0, 1.0))
    assert m2.joints == (("j", -10.0),) and m2.forcerange == (-0.5, 0.5) and k.actuator_range == (-7.0, 5.0)
    assert p.gain == (10.0, 0.0, 0.0) and p.bias == (0.0, -10.0, 0.0) and p.forcerange == (-4.0, 4.0)
    assert [note.what for note in robot.notes if "actuators" in note.what] == [
        "not simulated: controls of actuators as u of a Simulation, which has joint forces "
        "(`condyle.blocks.RobotActuators` takes them): m1, m2, m3, p"
    ]

    # MuJoCo agrees about the rotor's inertia and damping
    theirs = mujoco.MjModel.from_xml_string(MOTORS)
    data = mujoco.MjData(theirs)
    data.qvel[0] = 1.0
    mujoco.mj_forward(theirs, data)
    assert data.qfrc_passive[0] == pytest.approx(-j.damping)
    column = np.zeros(3)
    mujoco.mj_mulM(theirs, data, column, np.eye(3)[0])
    assert mass_matrix(build(robot), np.zeros(3))[0, 0] == pytest.approx(column[0], rel=1e-12)


EVERYTHING = """
<mujoco>
  <compiler angle="radian"/>
  <option timestep="0.004" gravity="0 0 -1.62" viscosity="0.1" wind="1 0 0" integrator="implicitfast"/>
  <worldbody>
    <light name="sun"/><camera name="eye"/>
    <body name="target" mocap="true"/>
    <body name="a" gravcomp="0.5">
      <joint name="j" stiffness="3" springref="0.2"/><geom name="ga" size="0.1" friction="0.3"/><site name="s"/>
      <body name="b" pos="1 0 0"><joint name="k" ref="0.5"/><geom name="gb" size="0.1"/><site name="t"/>
        <body name="c" pos="1 0 0"><joint name="l" type="ball" range="0 0.5"/><geom name="gc" size="0.1"/></body>
      </body>
    </body>
  </worldbody>
  <contact><pair geom1="ga" geom2="gc"/><exclude body1="a" body2="b"/></contact>
  <tendon><spatial name="rope"><site site="s"/><site site="t"/></spatial></tendon>
  <equality>
    <joint name="gears" joint1="k" joint2="j" polycoef="0.1 2 0 0 0"/>
    <connect name="loop" body1="c" body2="a" anchor="0 0 0"/>
  </equality>
  <sensor><jointpos name="encoder" joint="j"/></sensor>
  <keyframe><key name="home" qpos="0.1 0.2 1 0 0 0"/></keyframe>
  <custom><numeric name="magic" data="42"/><text name="motto" data="x"/></custom>
</mujoco>
"""


def test_nothing_is_dropped_in_silence() -> None:
    robot = read_mjcf(EVERYTHING)
    # what changes the motion comes first, each kind once
    assert [note.what for note in robot.notes] == [
        "used: the gravity of the file, (0, 0, -1.62)",
        "kept: joints that mimic others, softly in MuJoCo and exactly here: k",
        "kept: equality constraints that close loops, softly in MuJoCo and exactly here: loop (connect)",
        "not simulated: tendons that are no linear combination of joints: rope",
        "not simulated: limits of ball joints: l",
        "not simulated: mocap bodies, which do not move: target",
        "not simulated: contact of the robot with itself, by links: a - c",
        "not simulated: friction and softness of contact pairs: ga - gc",
        "not simulated: options of a fluid or field: wind = [1.0, 0.0, 0.0], viscosity = 0.1",
        "not simulated: options of MuJoCo's integrator and solver (`integrator`, `cone` and `smoothing` are those of a "
        "Simulation): integrator = implicitfast",
        "ignored: what does not change the motion: 1 sensors, 1 cameras, 1 lights, 1 custom numbers, 1 custom texts",
    ]
    assert robot.gravity == (0.0, 0.0, -1.62) and robot.timestep == 0.004
    np.testing.assert_array_equal(robot.keyframes["home"].q, [0.1, 0.2, 0, 0, 0, 1])
    np.testing.assert_array_equal(build(robot).written(), [0, 0.5, 0, 0, 0, 1])

    # k - 0.5 = 0.1 + 2 j
    mimic = next(joint.mimic for joint in robot.joints if joint.name == "k")
    assert mimic is not None and (mimic.joint, mimic.multiplier) == ("j", 2.0) and mimic.offset == pytest.approx(0.6)
    assert read_mjcf(PENDULUM).notes == ()


def test_nameless_things_get_names_and_a_site_gives_way_to_a_link() -> None:
    robot = read_mjcf("<mujoco><worldbody><body><joint/><geom size='1'/><site/><site name='body1'/></body></worldbody></mujoco>")
    assert [link.name for link in robot.links] == ["world", "body1"]
    assert [frame.name for frame in robot.frames] == ["site0", "body1_site"]
    assert robot.notes[0].what.endswith("NAME_site: body1")
    assert check(robot).problems == []


# -- files


def tetrahedron() -> str:
    """An OBJ mesh away from its own origin, so that MuJoCo moves it."""
    return "v 1 1 1\nv 2 1 1\nv 1 3 1\nv 1 1 4\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


def test_includes_and_meshes_come_from_the_folder(tmp_path: Path) -> None:
    (tmp_path / "parts" / "meshes").mkdir(parents=True)
    mesh = tmp_path / "parts" / "meshes" / "wedge.obj"
    mesh.write_text(tetrahedron())
    (tmp_path / "parts" / "assets.xml").write_text(
        '<mujoco><compiler meshdir="parts/meshes"/><asset><mesh file="wedge.obj" scale="0.1 0.2 0.3"/></asset></mujoco>'
    )
    (tmp_path / "robot.xml").write_text(
        """<mujoco>
        <include file="parts/assets.xml"/>
        <worldbody><body name="a"><joint name="j"/><geom type="mesh" mesh="wedge" pos="1 2 3" euler="0 0 90"/></body></worldbody>
        </mujoco>"""
    )
    robot = read_mjcf(tmp_path / "robot.xml")
    assert robot.name == "robot"
    (shape,) = robot.links[1].visuals
    assert (shape.kind, shape.mesh) == ("mesh", mesh) and shape.size == pytest.approx((0.1, 0.2, 0.3))

    # the shape's pose is that of the file's own frame
    np.testing.assert_allclose(shape.pose.p, [1, 2, 3], atol=1e-6)
    np.testing.assert_allclose(shape.pose.R, [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-6)
    # and MuJoCo finds the same mass without our help
    theirs = mujoco.MjModel.from_xml_path(str(tmp_path / "robot.xml"))
    inertia = robot.links[1].inertia
    assert inertia is not None and inertia.mass == theirs.body_mass[1]


def test_a_model_in_a_model(tmp_path: Path) -> None:
    (tmp_path / "hand.xml").write_text("<mujoco><worldbody><body name='palm'><geom size='0.1'/></body></worldbody></mujoco>")
    (tmp_path / "robot.xml").write_text(
        """<mujoco><asset><model name="hand" file="hand.xml"/></asset><worldbody><body name="a"><joint/><geom size="0.1"/>
        <attach model="hand" body="palm" prefix="left_"/></body></worldbody></mujoco>"""
    )
    assert [link.name for link in read_mjcf(tmp_path / "robot.xml").links] == ["world", "a", "left_palm"]


@pytest.mark.parametrize(
    "content",
    [
        '<mujoco><include file="../outside.xml"/></mujoco>',
        '<mujoco><asset><mesh name="m" file="../outside.obj"/></asset></mujoco>',
        '<mujoco><compiler meshdir=".."/><asset><mesh name="m" file="outside.obj"/></asset></mujoco>',
        '<mujoco><asset><mesh name="m" file="linked.obj"/></asset></mujoco>',
        '<mujoco><asset><hfield name="h" size="1 1 1 1" file="/etc/hostname"/></asset></mujoco>',
        '<mujoco><asset><texture name="t" type="cube" fileright="../outside.png"/></asset></mujoco>',
        '<mujoco><asset><mesh name="m" file="file:///etc/hostname"/></asset></mujoco>',
    ],
)
def test_no_file_outside_of_the_folder_is_read(tmp_path: Path, content: str) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    (tmp_path / "outside.xml").write_text("<mujoco/>")
    (tmp_path / "outside.obj").write_text(tetrahedron())
    (tmp_path / "outside.png").write_bytes(b"")
    (folder / "linked.obj").symlink_to(tmp_path / "outside.obj")
    (folder / "robot.xml").write_text(content)
    with pytest.raises(RobotError, match=r"robot\.xml:1: .*(allowed folders|only plain paths|no such file)"):
        read_mjcf(folder / "robot.xml")


def test_roots_widen_what_may_be_read(tmp_path: Path) -> None:
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside.xml").write_text("<mujoco><worldbody><body name='a'/></worldbody></mujoco>")
    (tmp_path / "inside" / "robot.xml").write_text('<mujoco><include file="../outside.xml"/></mujoco>')
    assert len(read_mjcf(tmp_path / "inside" / "robot.xml", roots=[tmp_path]).links) == 2
    assert len(read_mjcf('<mujoco><include file="outside.xml"/></mujoco>', roots=[tmp_path]).links) == 2


def test_an_include_includes_nothing_twice(tmp_path: Path) -> None:
    (tmp_path / "robot.xml").write_text('<mujoco><include file="loop.xml"/></mujoco>')
    (tmp_path / "loop.xml").write_text('<mujoco><include file="loop.xml"/></mujoco>')
    with pytest.raises(RobotError, match=r"loop\.xml:1: .*included before"):
        read_mjcf(tmp_path / "robot.xml")
    (tmp_path / "self.xml").write_text('<mujoco><asset><model name="me" file="self.xml"/></asset></mujoco>')
    with pytest.raises(RobotError, match=r"self\.xml:1: the model contains itself"):
        read_mjcf(tmp_path / "self.xml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<mujoco>\n<worldbody>", r"model\.xml:2: the XML is broken"),
        ("<!DOCTYPE mujoco [<!ENTITY a 'b'>]><mujoco/>", r"model\.xml:1: document types and entities"),
        ("<robot name='r'/>", r"'robot', not 'mujoco'"),
        ("<mujoco>\n<worldbody>\n<body>\n<joint kind='hinge'/></body></worldbody></mujoco>", r"model\.xml:4: .*'kind'"),
        ("<mujoco><worldbody>\n<body name='a'><joint/></body></worldbody></mujoco>", r"model\.xml:2: .*mass and inertia"),
        ("<mujoco><asset><mesh name='m' file='m.obj'/></asset></mujoco>", r"model\.xml:1: .*given as text names no files"),
    ],
)
def test_bad_models_are_refused_with_file_and_line(text: str, message: str) -> None:
    with pytest.raises(RobotError, match=message):
        read_mjcf(text)


@pytest.mark.parametrize("value", ["nan", "inf", "1e300"])
@pytest.mark.parametrize(("attribute", "written"), [("damping", "0.1"), ("armature", "0.02")])
def test_numbers_that_no_robot_has_are_refused(attribute: str, written: str, value: str) -> None:
    text = PENDULUM.replace(f'{attribute}="{written}"', f'{attribute}="{value}"')
    with pytest.raises(RobotError, match=rf"model\.xml: coordinate '0': dof_{attribute} is .*: numbers must be finite"):
        read_mjcf(text)


def test_warnings_are_notes_and_nothing_is_printed_or_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = PENDULUM.replace('damping="0.1"', 'margin="nan"')
    (note,) = read_mjcf(text).notes
    assert note.what.startswith("kept: MuJoCo warns: XML contains a 'NaN'. Please check it")
    assert capfd.readouterr() == ("", "") and list(tmp_path.iterdir()) == []


def test_missing_files_are_all_named(tmp_path: Path) -> None:
    (tmp_path / "robot.xml").write_text(
        '<mujoco><asset>\n<mesh name="a" file="a.obj"/>\n<mesh name="b" file="b.obj"/></asset></mujoco>'
    )
    with pytest.raises(RobotError) as caught:
        read_mjcf(tmp_path / "robot.xml")
    assert len(caught.value.problems) == 2 and "robot.xml:3: <mesh> file 'b.obj'" in caught.value.problems[1]
    with pytest.raises(RobotError, match=r"nowhere\.xml.*cannot be read"):
        read_mjcf(tmp_path / "nowhere.xml")


def test_errors_name_the_included_file(tmp_path: Path) -> None:
    (tmp_path / "robot.xml").write_text('<mujoco>\n\n<include file="part.xml"/></mujoco>')
    (tmp_path / "part.xml").write_text("<mujoco>\n<worldbody>\n<geom size='-1'/></worldbody></mujoco>")
    with pytest.raises(RobotError, match=r"part\.xml:3: MuJoCo cannot compile this"):
        read_mjcf(tmp_path / "robot.xml")


def test_q_is_qpos() -> None:
    """At MuJoCo's qpos0 a joint with ref stands as written."""
    model = build(read_mjcf(CHAIN))
    theirs = mujoco.MjModel.from_xml_string(CHAIN)
    q = q_from_mujoco(model, theirs.qpos0)
    np.testing.assert_allclose(frame_pose(model, q, "a").p.astype(float), [0.1, 0.2, 0.3], atol=1e-15)
    np.testing.assert_array_equal(q_to_mujoco(model, q), theirs.qpos0)


def test_a_free_joint_is_a_base_whatever_its_name() -> None:
    leg = '<body name="leg"><joint name="root_x"/><geom size="0.1" pos="1 0 0"/></body>'
    torso = f'<body name="torso"><freejoint name="floating"/><geom size="0.1"/>{leg}</body>'
    model = build(read_mjcf(f"<mujoco><worldbody>{torso}</worldbody></mujoco>"))
    assert [(link.joint, link.base) for link in model.links] == [("floating", "free"), ("root_x", "")]
    assert model.base_coordinates == set(range(6)) and model.base_link("free") == 0
