"""A correct arm of two links, which the tests break."""

from pathlib import Path
from typing import Any

from condyle.robot.load import load_model
from condyle.robot.model import Model
from condyle.workbench.doctor.diagnose import Diagnosis, diagnose

GOOD = """<?xml version="1.0"?>
<!-- an arm & a comment with <tags> in it -->
<robot name="arm">
  <material name="blue"><color rgba="0 0 1 1"/></material>
  <link name="base"/>
  <link name="upper">
    <inertial>
      <origin xyz="0 0 0.15" rpy="0 0 0"/>
      <mass value="1.5"/>
      <inertia ixx="0.012" ixy="0" ixz="0" iyy="0.012" iyz="0" izz="0.001"/>
    </inertial>
    <visual>
      <origin xyz="0 0 0.15"/>
      <geometry><cylinder radius="0.03" length="0.3"/></geometry>
      <material name="blue"/>
    </visual>
    <collision>
      <origin xyz="0 0 0.15"/>
      <geometry><box size="0.06 0.06 0.3"/></geometry>
    </collision>
  </link>
  <link name='fore'>
    <inertial>
      <mass value="0.5"/>
      <inertia ixx="0.002" ixy="0" ixz="0" iyy="0.002" iyz="0" izz="0.001"/>
    </inertial>
  </link>
  <joint name="shoulder" type="revolute">
    <parent link="base"/>
    <child link="upper"/>
    <origin xyz="0 0 0.1"/>
    <axis xyz="0 1 0"/>
    <limit lower="-1.5" upper="1.5" effort="20" velocity="3"/>
  </joint>
  <joint name="elbow" type="revolute">
    <parent link="upper"/>
    <child link="fore"/>
    <origin xyz="0 0 0.3"/>
    <axis xyz="0 1 0"/>
    <limit lower="-2" upper="2" effort="10" velocity="3"/>
    <dynamics damping="0.1"/>
  </joint>
</robot>
"""
UPPER_INERTIAL = GOOD[GOOD.index("    <inertial>") : GOOD.index("    <visual>")]
FORE_INERTIAL = GOOD[GOOD.rindex("    <inertial>") : GOOD.rindex("  </link>")]
LIMIT = '    <limit lower="-1.5" upper="1.5" effort="20" velocity="3"/>\n'


def line(text: str, part: str) -> int:
    assert part in text, part
    return text[: text.index(part)].count("\n") + 1


def look(folder: Path, text: str, name: str = "arm.urdf", **options: Any) -> Diagnosis:
    """The diagnosis of this text with its corrections."""
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return diagnose(path, fix=True, **options)


def fixed(folder: Path, found: Diagnosis) -> Model:
    """The corrected robot, loaded as anybody would."""
    assert found.corrected is not None
    path = folder / "corrected.urdf"
    path.write_bytes(found.corrected.encode())
    return load_model(path)
