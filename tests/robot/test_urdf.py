"""URDF files mean here what they mean to Pinocchio, and every problem of a file is reported with its place and what to do."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from published import PACKAGE_DIRS, REFUSED, URDFS, name

import condyle as cd
from condyle.errors import RobotError
from condyle.robot.angles import rotation_rpy
from condyle.robot.description import Description, JointSpec
from condyle.robot.spatial import Inertia, Pose
from condyle.robot.urdf import read_urdf

# Pinocchio turns roll, pitch, yaw into a quaternion first: the same numbers but for rounding
SAME = 1e-12

ARM = """<robot name="arm">
  <material name="red"><color rgba="1 0 0 1"/></material>
  <link name="base"/>
  <link name="upper">
    <inertial><origin xyz="0 0 0.5" rpy="0 0 1.5707963267948966"/><mass value="2"/>
      <inertia ixx="0.1" iyy="0.2" izz="0.25" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual name="tube"><origin xyz="0 0 0.5"/><material name="red"/>
      <geometry><cylinder radius="0.1" length="1"/></geometry></visual>
    <collision><geometry><capsule radius="0.1" length="1"/></geometry></collision>
    <collision><geometry><box size="1 2 3"/></geometry></collision>
  </link>
  <link name="hand"><visual><geometry><mesh filename="hand.stl" scale="1 1 -1"/></geometry></visual></link>
  <joint name="j2" type="prismatic"><parent link="upper"/><child link="hand"/><axis xyz="0 0 2"/>
    <limit lower="-1" upper="2" effort="3" velocity="4"/><dynamics damping="0.5" friction="0.25"/>
    <mimic joint="j1" multiplier="-2" offset="0.1"/></joint>
  <joint name="j1" type="continuous"><parent link="base"/><child link="upper"/><origin xyz="1 2 3" rpy="0.1 0.2 0.3"/></joint>
  <gazebo/><gazebo reference="hand"/><unheard-of/>
</robot>"""


def test_a_small_arm() -> None:
    robot = read_urdf(ARM, "arm.urdf")
    assert (robot.name, robot.source) == ("arm", "arm.urdf")
    assert [link.name for link in robot.links] == ["base", "upper", "hand"]
    assert robot.links[0].inertia is None
    upper = robot.links[1]
    assert upper.where == "arm.urdf:4" and upper.inertia is not None
    # turned by 90 degrees about z, x and y change places; then moved by half a metre
    np.testing.assert_allclose(upper.inertia.I_com, np.diag([0.2, 0.1, 0.25]), atol=1e-15)
    np.testing.assert_allclose(upper.inertia.com, [0, 0, 0.5])
    tube = upper.visuals[0]
    assert (tube.kind, tube.size, tube.name, tube.color) == ("cylinder", (0.1, 1.0), "tube", (1.0, 0.0, 0.0, 1.0))
    assert [(shape.kind, shape.size) for shape in upper.collisions] == [("capsule", (0.1, 1.0)), ("box", (1.0, 2.0, 3.0))]
    mesh = robot.links[2].visuals[0]
    assert (mesh.kind, mesh.size, mesh.mesh) == ("mesh", (1.0, 1.0, -1.0), None)

    j1, j2 = robot.joints
    assert (j1.name, j1.kind, j1.parent, j1.child, j1.where) == ("j1", "continuous", "base", "upper", "arm.urdf:16")
    np.testing.assert_array_equal(j1.axis, [1, 0, 0])
    np.testing.assert_array_equal(j1.pose.p, [1, 2, 3])
    np.testing.assert_array_equal(j2.axis, [0, 0, 1])
    assert (j2.limits.lower, j2.limits.upper, j2.limits.effort, j2.limits.velocity) == (-1.0, 2.0, 3.0, 4.0)
    assert (j2.damping, j2.friction) == (0.5, 0.25)
    assert j2.mimic is not None and (j2.mimic.joint, j2.mimic.multiplier, j2.mimic.offset) == ("j1", -2.0, 0.1)
    assert [f"{note.where} {note.what}" for note in robot.notes] == [
        "arm.urdf:13 repaired: joint 'j2' <axis> has length 2: scaled to one",
        "arm.urdf:12 ignored: mesh files not found in the allowed folders, such as 'hand.stl'",
        "arm.urdf:17 ignored: <gazebo> of <robot>, which other simulators read (2 times)",
        "arm.urdf:17 ignored: unknown element <unheard-of> in <robot>",
    ]


# what a file asks of Gazebo or Bullet, and what is said of it without the words in brackets; None where it is done here
ASKED = {
    '<gazebo reference="a"><selfCollide>true</selfCollide></gazebo>': "contact of links with the others: a",
    '<gazebo reference="a"><self_collide> 1 </self_collide></gazebo>': "contact of links with the others: a",
    '<gazebo><self_collide value="true"/></gazebo>': "contact of links with the others: r",
    '<gazebo reference="a"><selfCollide>false</selfCollide></gazebo>': None,
    '<gazebo reference="b"><mu1 value="0.9"/><mu2>0.9</mu2></gazebo>': "friction of links: b",
    '<link name="c"><contact><lateral_friction value="1"/></contact></link>': "friction of links: c",
    '<gazebo reference="a"><collision><surface><contact><ode><kp>1e6</kp></ode></contact></surface></collision></gazebo>': (
        "stiffness and damping of contact: a"
    ),
    '<link name="c"><contact><restitution value="0.5"/></contact></link>': "restitution of contact: c",
    '<link name="c"><contact><restitution value="0.0"/></contact></link>': None,
    '<gazebo reference="a"><turnGravityOff>true</turnGravityOff></gazebo>': "links without gravity: a",
    '<link name="c"><gazebo><gravity>0</gravity></gazebo></link>': "links without gravity: c",
    '<gazebo reference="a"><gravity>1</gravity></gazebo>': None,
    '<gazebo reference="a"><dampingFactor>0.01</dampingFactor></gazebo>': "damping of links against the world: a",
    '<gazebo reference="j"><springStiffness>10</springStiffness></gazebo>': "springs of joints: j",
    '<gazebo reference="j"><stopKd value="1.0"/></gazebo>': "softness of joint limits: j",
    "<gazebo><static>true</static></gazebo>": "a robot that does not move: r",
    # numbers of their own
    '<gazebo><plugin name="p"><gravity>0</gravity><kp>1</kp></plugin><sensor><static>1</static></sensor></gazebo>': None,
    '<gazebo reference="a"><material>Gazebo/Red</material><implicitSpringDamper>1</implicitSpringDamper></gazebo>': None,
}


@pytest.mark.parametrize(("text", "said"), ASKED.items(), ids=range(len(ASKED)))
def test_what_other_simulators_would_do_is_said(text: str, said: str | None) -> None:
    joint = '<joint name="j" type="continuous"><parent link="a"/><child link="b"/></joint>'
    robot = read_urdf(f'<robot name="r"><link name="a"/><link name="b"/>{joint}{text}</robot>', "r.urdf")
    notes = [f"{note.where} {note.what}" for note in robot.notes if note.what.startswith("not simulated: ")]
    assert [re.sub(r" \(.*\)", "", note) for note in notes] == ([] if said is None else [f"r.urdf not simulated: {said}"])


def test_many_links_that_ask_the_same_are_one_note() -> None:
    links = "".join(f'<link name="l{k}"/><gazebo reference="l{k}"><mu1>1</mu1></gazebo>' for k in range(10))
    (note,) = [note.what for note in read_urdf(f'<robot name="r">{links}</robot>', "r.urdf").notes if "friction" in note.what]
    assert note.endswith(": l0, l1, l2, l3, l4, l5, l6, l7, and 2 more")


def test_a_simulation_warns_once_of_what_a_urdf_asks(tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(ARM.replace('<gazebo reference="hand"/>', '<gazebo reference="hand"><selfCollide>1</selfCollide></gazebo>'))
    robot = cd.load(path)
    with pytest.warns(cd.CondyleWarning, match=r"contact of links with the others \(selfCollide\): hand"):
        cd.Simulation(robot)
    with warnings.catch_warnings():
        warnings.simplefilter("error", cd.CondyleWarning)
        cd.Simulation(robot)


def test_roll_pitch_yaw() -> None:
    def turn(axis: int, angle: float) -> np.ndarray:
        i, j = [(1, 2), (2, 0), (0, 1)][axis]
        R = np.eye(3)
        R[i, i] = R[j, j] = np.cos(angle)
        R[j, i], R[i, j] = np.sin(angle), -np.sin(angle)
        return R

    rng = np.random.default_rng(0)
    for roll, pitch, yaw in rng.uniform(-7, 7, (100, 3)):
        np.testing.assert_allclose(rotation_rpy(roll, pitch, yaw), turn(2, yaw) @ turn(1, pitch) @ turn(0, roll), atol=1e-15)


def test_all_problems_are_told_at_once() -> None:
    text = """<robot name="bad">
  <link name="a"/>
  <link name="b"><inertial><mass value="1,5"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link>
  <joint name="i" type="revolut"><parent link="a"/><child link="bb"/>
    <origin xyz="0 0"/><limit lower="0x1" upper="2" effort="1" velocity="1"/></joint>
  <joint name="j" type="revolute"><parent link="a"/><child link="b"/><axis xyz="0 0 0"/><mimic joint="k"/></joint>
</robot>"""
    with pytest.raises(RobotError) as error:
        read_urdf(text, "bad.urdf")
    assert error.value.problems == (
        "bad.urdf:3: link 'b' <mass>: attribute 'value': '1,5' is not a number: write 1.5",
        "bad.urdf:4: joint 'i': type 'revolut' is unknown (did you mean 'revolute'?)",
        "bad.urdf:5: joint 'i' <origin>: attribute 'xyz': '0 0' has 2 numbers, not 3",
        "bad.urdf:5: joint 'i' <limit>: attribute 'lower': '0x1' is not a number: write it in decimal",
        "bad.urdf:6: joint 'j' <axis>: the axis has no direction: write one that is not zero, such as '0 0 1'",
        "bad.urdf:4: joint 'i' <child>: link 'bb' does not exist (did you mean 'b'?)",
        "bad.urdf:6: joint 'j' <mimic>: joint 'k' does not exist; there are i, j",
    )


def test_meshes_are_found_in_allowed_folders_only(tmp_path: Path) -> None:
    for file in ("own/robot.urdf", "own/mesh.stl", "packages/arm/meshes/a.stl", "outside.stl", "more/b.stl"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    (tmp_path / "own" / "link.stl").symlink_to(tmp_path / "outside.stl")
    (tmp_path / "own" / "inside.stl").symlink_to(tmp_path / "own" / "mesh.stl")

    def mesh(name: str) -> Path | None:
        text = f'<robot name="r"><link name="a"><visual><geometry><mesh filename="{name}"/></geometry></visual></link></robot>'
        robot = read_urdf(
            text,
            str(tmp_path / "own" / "robot.urdf"),
            package_dirs=[tmp_path / "packages"],
            roots=[tmp_path / "more"],
        )
        return robot.links[0].visuals[0].mesh

    assert mesh("mesh.stl") == tmp_path / "own/mesh.stl"
    assert mesh("inside.stl") == tmp_path / "own/mesh.stl"
    assert mesh("package://arm/meshes/a.stl") == tmp_path / "packages/arm/meshes/a.stl"
    assert mesh("model://arm/meshes/a.stl") == tmp_path / "packages/arm/meshes/a.stl"
    assert mesh("../more/b.stl") == tmp_path / "more/b.stl"
    assert mesh(f"file://{tmp_path}/more/b.stl") == tmp_path / "more/b.stl"
    assert mesh("package://leg/meshes/a.stl") is None
    assert mesh(f"file://{tmp_path}/outside.stl") is None
    # what is written to lie elsewhere is not opened; what is no mesh, or leads there by a link, is refused
    for escape in ("../outside.stl", "package://arm/../../outside.stl", "package://../outside.stl"):
        assert mesh(escape) is None
    for escape in ("link.stl", "a/../../b", "../outside", "package://arm/../../outside", "package://../outside"):
        with pytest.raises(RobotError, match=r"robot\.urdf:1: link 'a' <mesh>: .*(leads out|proper name)"):
            mesh(escape)
    with pytest.raises(RobotError, match="'https://' is not allowed"):
        mesh("https://example.org/mesh.stl")


# -- against Pinocchio


def moving(robot: Description) -> tuple[list[JointSpec], dict[str, Pose], dict[str, Inertia]]:
    """Moving joints in the order of a walk, their placements in the moving parent, and the inertia each moves rigidly."""
    children: dict[str, list[JointSpec]] = {}
    for joint in robot.joints:
        children.setdefault(joint.parent, []).append(joint)
    links = {link.name: link for link in robot.links}
    (root,) = set(links) - {joint.child for joint in robot.joints}
    order: list[JointSpec] = []
    placements: dict[str, Pose] = {}
    inertias: dict[str, Inertia] = {"": Inertia.zero()}

    def walk(link: str, body: str, X: Pose) -> None:
        inertias[body] = inertias[body] + (links[link].inertia or Inertia.zero()).seen_from(X)
        for joint in children.get(link, []):
            if joint.kind == "fixed":
                walk(joint.child, body, X @ joint.pose)
            else:
                order.append(joint)
                placements[joint.name], inertias[joint.name] = X @ joint.pose, Inertia.zero()
                walk(joint.child, joint.name, Pose.identity())

    walk(root, "", Pose.identity())
    return order, placements, inertias


@pytest.mark.peers
@pytest.mark.parametrize("path", [path for path in URDFS if path.name not in REFUSED], ids=name)
def test_published_robots_read_as_in_pinocchio(path: Path) -> None:
    pinocchio = pytest.importorskip("pinocchio")
    model = pinocchio.buildModelFromUrdf(str(path))
    robot = read_urdf(path.read_bytes(), str(path), package_dirs=PACKAGE_DIRS)
    order, placements, inertias = moving(robot)
    assert [joint.name for joint in order] == list(model.names)[1:]
    frames = {frame.name for frame in model.frames if frame.type == pinocchio.FrameType.BODY}
    assert {link.name for link in robot.links} <= frames | {"universe"}
    q = pinocchio.neutral(model)
    for i, joint in enumerate(order, start=1):
        placement, body = model.jointPlacements[i], model.inertias[i]
        np.testing.assert_allclose(placements[joint.name].R, placement.rotation, atol=SAME)
        np.testing.assert_allclose(placements[joint.name].p, placement.translation, atol=SAME)
        ours = inertias[joint.name]
        assert ours.mass == pytest.approx(body.mass, rel=SAME)
        # the 6 x 6 matrix: h in its corner, the inertia about the origin below
        six = body.matrix()
        scale = max(1.0, np.abs(six).max())
        np.testing.assert_allclose(ours.I, six[3:, 3:], atol=SAME * scale)
        np.testing.assert_allclose(ours.h, [six[5, 1], six[3, 2], six[4, 0]], atol=SAME * scale)
        if joint.kind in ("revolute", "continuous", "prismatic"):
            data = model.joints[i].createData()
            model.joints[i].calc(data, q)
            S = np.asarray(data.S).ravel()
            np.testing.assert_allclose(joint.axis, S[:3] if joint.kind == "prismatic" else S[3:], atol=1e-9)
        if joint.limits.lower is not None:
            assert joint.limits.lower == model.lowerPositionLimit[model.joints[i].idx_q]
            assert joint.limits.upper == model.upperPositionLimit[model.joints[i].idx_q]
        if joint.limits.effort is not None and joint.kind != "free":
            assert joint.limits.effort == model.upperEffortLimit[model.joints[i].idx_v]


def test_a_joint_named_like_one_of_a_base_keeps_its_motor(tmp_path: Path) -> None:
    joint = '<joint name="{}" type="continuous"><parent link="{}"/><child link="{}"/></joint>'
    body = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>'
    links = '<link name="world"/>' + "".join(f'<link name="{name}">{body}</link>' for name in "ab")
    file = tmp_path / "arm.urdf"
    file.write_text(
        f'<robot name="arm">{links}{joint.format("root_yaw", "world", "a")}{joint.format("root_x", "a", "b")}</robot>'
    )
    robot = cd.load(file)
    assert robot.model.base_coordinates == set() and [link.base for link in robot.model.links] == ["", ""]
    simulation = cd.Simulation(robot, 0.01)
    assert simulation.nu == 2 and np.any(
        simulation.step(simulation.state(), [1.0, 0.0]) != simulation.step(simulation.state(), [0.0, 0.0])
    )
    # the joints of a base keep their names apart from those of the file
    euler = cd.load(file, base="euler").model
    assert [link.base for link in euler.links] == ["x", "y", "z", "yaw", "pitch", "roll", "", ""]
    assert euler.base_coordinates == set(range(6)) and euler.links[3].joint == "root_yaw_"
    assert euler.base_link("yaw") == 3 and euler.base_link("free") is None
