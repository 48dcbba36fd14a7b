"""Airframes: the built-in ones have the published numbers, files say theirs, and bad ones are refused in a sentence."""

import re
from pathlib import Path

import numpy as np
import pytest

from condyle import flight
from condyle.errors import RobotError
from condyle.multibody.robot import load


def test_the_birotor() -> None:
    birotor = flight.airframe("birotor")
    assert birotor.gimbals == ("tilt_1", "tilt_2") and birotor.n == 2 and birotor.nu == 4
    assert birotor.mass == pytest.approx(1.444422, abs=1e-9)
    np.testing.assert_allclose(birotor.center_of_mass, [0, 0, -0.069980], atol=5e-7)
    np.testing.assert_allclose(np.diag(birotor.inertia), [0.055430, 0.017874, 0.067852], atol=5e-7)
    np.testing.assert_allclose(birotor.positions, [[0, 0.2375, 0.12098], [0, -0.2375, 0.12098]], atol=5e-6)
    np.testing.assert_allclose(birotor.thrust_axes, [[0, 0, 1]] * 2, atol=1e-12)
    np.testing.assert_allclose(birotor.gimbal_axes, [[0, 1, 0], [0, -1, 0]], atol=1e-12)
    np.testing.assert_allclose(birotor.gimbal_limits, [[-1.57, 1.57]] * 2)
    np.testing.assert_allclose(birotor.thrust_limits, [[1, 18]] * 2)
    assert [r.direction for r in birotor.rotors] == [1, -1] and [r.drag for r in birotor.rotors] == [0.0172] * 2
    assert birotor.servo_lags.tolist() == [0.15858] * 2
    assert birotor.hover_thrust(9.798) == pytest.approx(7.0762, abs=5e-5)
    assert birotor.hover_thrust(9.81) == pytest.approx(7.0848, abs=1e-4)


def test_numbers_by_keyword() -> None:
    made = flight.airframe("birotor", thrust=(0.0, 18.0), servo_lag=[0.1, 0.2], gravity=9.798)
    assert [r.thrust for r in made.rotors] == [(0.0, 18.0)] * 2 and made.servo_lags.tolist() == [0.1, 0.2]
    assert made.robot.model.gravity == (0.0, 0.0, -9.798)
    assert flight.airframe(made, lag=0.03).rotors[1].lag == 0.03


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"thrust": (-1.0, 18.0)}, r"does not pull backwards"),
        ({"thrust": (5.0, 2.0)}, r"least thrust 5 N is not below"),
        ({"thrust": (0.0, float("nan"))}, r"thrust must be \(least, largest\)"),
        ({"thrust": 3.0}, r"thrust is \(least, largest\)"),
        ({"servo_lag": 0.0}, r"servo with zero lag"),
        ({"drag": -1.0}, r"drag must be at least 0"),
        ({"lag": float("nan")}, r"lag must be a finite number"),
        ({"direction": 0.5}, r"direction must be 1"),
        ({"drga": 0.1}, r"no number 'drga' \(did you mean 'drag'\?\)"),
        ({"drag": [0.1, 0.2, 0.3]}, r"or 2 for the 2 rotors; got 3"),
        ({"rotors": ["thrust_3"]}, r"no frame 'thrust_3'"),
        ({"gimbal": "tilt_9"}, r"no joint 'tilt_9'"),
    ],
)
def test_bad_numbers(given: dict, sentence: str) -> None:
    with pytest.raises(RobotError, match=sentence):
        flight.airframe("birotor", **given)


def test_sites_of_an_mjcf_file(tmp_path: Path) -> None:
    sites = "".join(
        f'<site name="x2/thrust{k}" pos="{x} {y} 0.05"/>' for k, (x, y) in enumerate([(1, 1), (-1, 1), (-1, -1), (1, -1)])
    )
    body = '<freejoint/><inertial pos="0 0 0" mass="1.3" diaginertia="0.04 0.025 0.06"/>'
    file = tmp_path / "x2.xml"
    file.write_text(f'<mujoco model="x2"><worldbody><body name="x2">{body}{sites}</body></worldbody></mujoco>')
    made = flight.airframe(file)
    assert made.n == 4 and made.gimbals == () and [r.direction for r in made.rotors] == [1, -1, 1, -1] and made.robot.nv == 6


def test_robots_that_are_no_airframes() -> None:
    with pytest.raises(RobotError, match="has no thrust frames"):
        flight.airframe("pidog")
    with pytest.raises(RobotError, match="has no free base"):
        flight.airframe(load("birotor", base="fixed"))


@pytest.mark.parametrize(
    ("name", "n", "tilts"), [("trirotor", 3, 3), ("quadrotor", 4, 4), ("hexarotor", 6, 6), ("crazyflie", 4, 0)]
)
def test_built_in_airframes(name: str, n: int, tilts: int) -> None:
    made = flight.airframe(name)
    assert (made.n, len(made.gimbals), made.nu) == (n, tilts, n + tilts)
    assert made.hover_thrust() < made.thrust_limits[:, 1].min()
    if tilts:
        outward = made.positions * [1, 1, 0] / np.linalg.norm(made.positions[:, :2], axis=1, keepdims=True)
        np.testing.assert_allclose(made.gimbal_axes, outward, atol=1e-12)


XACRO = """
<robot name="tilting_arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
  <xacro:property name="span" value="0.3"/>
  <link name="body">
    <inertial><mass value="1.0"/><inertia ixx="0.01" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <xacro:macro name="rotor" params="k side spin">
    <link name="gimbal_${k}">
      <inertial><mass value="0.1"/><inertia ixx="1e-4" iyy="1e-4" izz="1e-4" ixy="0" ixz="0" iyz="0"/></inertial>
    </link>
    <joint name="tilt_${k}" type="revolute">
      <parent link="body"/><child link="gimbal_${k}"/>
      <origin xyz="0 ${side * span} 0.05"/><axis xyz="0 1 0"/>
      <limit lower="-1" upper="1" effort="2" velocity="5"/>
    </joint>
    <link name="propeller_${k}">
      <inertial><mass value="0.01"/><inertia ixx="1e-6" iyy="1e-6" izz="1e-6" ixy="0" ixz="0" iyz="0"/></inertial>
    </link>
    <joint name="spin_${k}" type="continuous">
      <parent link="gimbal_${k}"/><child link="propeller_${k}"/><origin xyz="0 0 0.02"/><axis xyz="0 0 1"/>
    </joint>
    <rotor frame="propeller_${k}" direction="${spin}" drag="0.02" thrust_max="12" lag="0.03" servo_lag="0.05"/>
  </xacro:macro>
  <xacro:rotor k="1" side="1" spin="1"/>
  <xacro:rotor k="2" side="-1" spin="-1"/>
</robot>
"""


def test_a_xacro_file_says_its_rotors(tmp_path: Path) -> None:
    file = tmp_path / "tilting_arm.xacro"
    file.write_text(XACRO)
    made = flight.airframe(file)
    assert made.gimbals == ("tilt_1", "tilt_2") and made.mass == pytest.approx(1.22)
    assert made.robot.nv == 8, "the spin of a propeller has no coordinate"
    assert [(r.direction, r.drag, r.thrust, r.lag, r.servo_lag) for r in made.rotors] == [
        (1.0, 0.02, (0.0, 12.0), 0.03, 0.05),
        (-1.0, 0.02, (0.0, 12.0), 0.03, 0.05),
    ]
    np.testing.assert_allclose(made.positions[:, 1], [0.3, -0.3])
    np.testing.assert_allclose(made.gimbal_axes, [[0, 1, 0]] * 2)
    # without the elements: frames that are called so, spinning in turns
    plain = re.sub(r"<rotor .*?/>", "", XACRO)
    file.write_text(plain)
    found = flight.airframe(file)
    assert [r.frame for r in found.rotors] == ["propeller_1", "propeller_2"]
    assert [r.direction for r in found.rotors] == [1, -1]
    assert found.rotors[0].thrust == pytest.approx((0.0, 2.5 * 1.22 * 9.81 / 2))
    # and what is wrong in them
    for wrong, sentence in [
        ('thrust_max="-12"', "does not pull backwards"),
        ('thrust_max="twelve"', "is not a number"),
        ('thrust_max="12" servo_lag="0"', "servo with zero lag"),
    ]:
        file.write_text(XACRO.replace('thrust_max="12"', wrong).replace(' servo_lag="0.05"/', "/"))
        with pytest.raises(RobotError, match=sentence):
            flight.airframe(file)
