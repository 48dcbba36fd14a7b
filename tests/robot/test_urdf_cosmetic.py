"""Cosmetic faults of URDF files are notes, never refusals: what Pinocchio loads is loaded, and the report says what was done."""

from pathlib import Path

import pytest

from condyle.errors import RobotError
from condyle.robot.check import checked
from condyle.robot.description import Description
from condyle.robot.urdf import read_urdf

BODY = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
JOINT = '<joint name="j" type="revolute"><parent link="a"/><child link="b"/><axis xyz="0 0 1"/>EXTRA'
JOINT += '<limit lower="-1" upper="1" effort="1" velocity="1"/></joint>'
BOX = '<visual><geometry><box size="1 1 1"/></geometry>{}</visual>'
MESH = '<visual><geometry><mesh filename="{}"{}/></geometry></visual>'


def robot(*, b: str = "", joint: str = "", top: str = "", body: str = BODY) -> str:
    return f'<robot name="r">{top}<link name="a"/><link name="b">{body}{b}</link>{JOINT.replace("EXTRA", joint)}</robot>'


MATERIAL = '<material name="m"><color rgba="{}"/></material>'

# what is written, and a part of the note
NOTED = {
    "material twice": (
        robot(b=BOX.format(MATERIAL.format("1 0 0 1") * 2)),
        "<material> is given twice (first in line 1)",
    ),
    "one scale": (robot(b=MESH.format("m.stl", ' scale="0.001"')), "scale '0.001' is not three numbers: it is 0.001 0.001 0.001"),
    "four scales": (robot(b=MESH.format("m.stl", ' scale="1 2 3 4"')), "it is 1 2 3"),
    "commas in a scale": (robot(b=MESH.format("m.stl", ' scale="1, 2, 3"')), "it is 1 2 3"),
    "unknown attribute": (
        robot(b='<visual glossy="yes"><geometry><box size="1 1 1"/></geometry></visual>'),
        "'glossy'",
    ),
    "unknown element": (robot(joint="<backlash value='1'/>"), "unknown element <backlash>"),
    "no name of a material": (robot(top='<material><color rgba="1 0 0 1"/></material>'), "<material> without a name"),
    "empty name of a material": (
        robot(top='<material name=""><color rgba="1 0 0 1"/></material>'),
        "a <material> without a name",
    ),
    "no alpha": (robot(b=BOX.format(MATERIAL.format("1 0 0"))), "it is 1 0 0 1"),
    "color in bytes": (robot(b=BOX.format(MATERIAL.format("255 128 0 255"))), "it is 1 1 0 1"),
    "no color": (robot(b=BOX.format(MATERIAL.format("red"))), "'red' is not four numbers: it is grey"),
    "no such material": (robot(b=BOX.format('<material name="gold"/>')), "material 'gold', which has no color"),
    "texture": (robot(b=BOX.format('<material name="m"><texture filename="t.png"/></material>')), "<texture>"),
    "transmission": (robot(top='<transmission name="t"><type>x</type></transmission>'), "<transmission>"),
    "axis twice": (robot(joint='<axis xyz="1 0 0"/>'), "joint 'j' <axis> is given twice"),
    "origin twice": (robot(joint="<origin/><origin/>"), "joint 'j' <origin> is given twice"),
    "inertial twice": (robot(b=BODY), "link 'b' <inertial> is given twice"),
    "no mass": (robot(body="<inertial/>"), "<inertial> has no <mass>: the link counts as one without mass"),
    "mesh elsewhere": (
        robot(b=MESH.format("../../../../other/m.stl", "")),
        "mesh files not found in the allowed folders",
    ),
    "mesh of no package": (robot(b=MESH.format("package:///../other/m.stl", "")), "mesh files not found in the allowed folders"),
    "no geometry": (robot(b="<visual/>"), "link 'b' <visual> has no shape: nothing is shown"),
    "no shape": (robot(b="<collision><geometry/></collision>"), "link 'b' <collision> has no shape: nothing touches"),
    "late declaration": ("\n<!-- made by hand -->\n<?xml version='1.0'?>\n" + robot(joint="<axis/>"), "<axis> is given twice"),
}


def load(text: str) -> Description:
    return checked(read_urdf(text, "r.urdf"))


@pytest.mark.parametrize("what", NOTED)
def test_cosmetic_faults_are_notes(what: str) -> None:
    text, note = NOTED[what]
    pinocchio = pytest.importorskip("pinocchio")
    if what != "late declaration":
        assert pinocchio.buildModelFromXML(text).nv == 1
    notes = [each.what for each in load(text).notes]
    assert any(note in each for each in notes), notes


def test_what_they_become() -> None:
    assert load(NOTED["one scale"][0]).links[1].visuals[0].size == (0.001,) * 3
    assert load(NOTED["color in bytes"][0]).links[1].visuals[0].color == (1.0, 1.0, 0.0, 1.0)
    assert list(load(NOTED["axis twice"][0]).joints[0].axis) == [0.0, 0.0, 1.0]
    assert load(NOTED["no mass"][0]).links[1].inertia is None
    # lines stay where they are
    assert load(NOTED["late declaration"][0]).joints[0].where == "r.urdf:4"


def test_a_world_that_is_no_link_is_added() -> None:
    weld = '<joint name="w" type="fixed"><parent link="world"/><child link="a"/></joint>'
    found = load(robot(top=weld))
    assert found.links[-1].name == "world" and any("'world'" in note.what for note in found.notes)


def test_a_mimic_without_its_prefix() -> None:
    def hand(leader: str) -> str:
        parts = ['<robot name="hand"><link name="palm"/>']
        for side in ("left", "right"):
            for k, mimic in ((1, ""), (2, f'<mimic joint="{leader}"/>')):
                name = f"{side}_q{k}"
                parts.append(f'<link name="{name}_l">{BODY}</link><joint name="{name}" type="continuous"><parent link="palm"/>')
                parts.append(f'<child link="{name}_l"/>{mimic}</joint>')
        return "".join([*parts, "</robot>"])

    found = {joint.name: joint.mimic for joint in load(hand("q1")).joints}
    assert found["left_q2"] is not None and found["left_q2"].joint == "left_q1"
    assert found["right_q2"] is not None and found["right_q2"].joint == "right_q1"
    with pytest.raises(RobotError, match="joint 'q3' does not exist"):
        load(hand("q3"))


def test_thresholds_of_inertias_are_in_the_message() -> None:
    with pytest.raises(RobotError, match=r"below -0\.5 of the largest it is refused"):
        load(robot(body=BODY.replace('ixx="1"', 'ixx="-1"')))
    notes = [note.what for note in load(robot(body=BODY.replace('ixx="1"', 'ixx="3"'))).notes]
    assert any("larger than the sum of the others (by more than 0.1%)" in note for note in notes)


def test_meshes_in_a_folder_two_above(tmp_path: Path) -> None:
    from condyle.robot.load import describe

    for file in ("assets/mesh/chair/leg.obj", "assets/urdf/chair/leg.urdf"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "assets/mesh/chair/leg.obj").touch()
    (tmp_path / "assets/urdf/chair/leg.urdf").write_text(robot(b=MESH.format("../../mesh/chair/leg.obj", "")))
    found = describe(tmp_path / "assets/urdf/chair/leg.urdf", (), {})
    assert found.links[1].visuals[0].mesh == (tmp_path / "assets/mesh/chair/leg.obj").resolve()
