"""A model written as URDF and read again is the same robot: joints, limits, frames and dynamics."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import condyle as cd
from condyle.robot.angles import rotation_rpy
from condyle.robot.build import build
from condyle.robot.description import Description, Mimic
from condyle.robot.parts import body, box, joint, link, pose, rod
from condyle.robot.to_urdf import fixed_frames, roll_pitch_yaw, root_of, to_urdf

RELATIVE = 1e-12  # the same algorithm on numbers that went through decimals and angles

angles = st.floats(-3.2, 3.2)


@given(angles, st.one_of(angles, st.sampled_from([np.pi / 2, -np.pi / 2, np.pi / 2 - 1e-9, np.pi / 2 + 1e-13])), angles)
def test_angles_of_any_rotation(roll: float, pitch: float, yaw: float) -> None:
    """R = Rz(yaw) Ry(pitch) Rx(roll) again to rounding, also next to a pitch of a quarter turn."""
    R = rotation_rpy(roll, pitch, yaw)
    assert np.abs(rotation_rpy(*roll_pitch_yaw(R)) - R).max() < 1e-15 * 4


@pytest.mark.parametrize("name", ["ur3", "pidog", "double_pendulum"])
def test_dynamics_are_the_same(name: str, tmp_path: Path) -> None:
    robot = cd.load(name)
    path = tmp_path / f"{name}.urdf"
    path.write_text(to_urdf(robot.model))
    again = cd.load(path, base="free" if robot.model.base_coordinates else "fixed")
    assert sorted(again.joint_names) == sorted(robot.joint_names)
    assert {*(frame.name for frame in fixed_frames(robot.model)), root_of(robot.model)} <= set(again.frame_names)
    rng = np.random.default_rng(0)
    q, v, tau = robot.random_configuration(rng), rng.normal(size=robot.nv), rng.normal(size=robot.nv)
    order_q = np.concatenate([np.arange(robot.nq)[robot.q_slice(joint)] for joint in again.joint_names])
    order_v = np.concatenate([np.arange(robot.nv)[robot.v_slice(joint)] for joint in again.joint_names])
    a, b = robot.forward_dynamics(q, v, tau)[order_v], again.forward_dynamics(q[order_q], v[order_v], tau[order_v])
    assert np.abs(a - b).max() <= RELATIVE * np.abs(a).max()
    for what in ("lower", "upper", "effort_limits", "velocity_limits"):
        mine, theirs = getattr(robot, what), getattr(again, what)
        assert len(mine) == len(theirs)
        ordered = mine[order_q if len(mine) == robot.nq else order_v]
        finite = np.isfinite(ordered)
        assert np.array_equal(ordered[finite], theirs[finite])
    for frame in fixed_frames(robot.model):
        R, p = robot.frame_pose(q, frame.name)
        S, r = again.frame_pose(q[order_q], frame.name)
        assert np.abs(R - S).max() < RELATIVE and np.abs(p - r).max() < RELATIVE


def small(kind: str = "revolute", **more: object) -> Description:
    """Two links on joints of this kind; the second follows the first."""
    links = (
        link("base"),
        link(
            "arm",
            body(1.0, (0.1, 0.0, 0.2), (0.02, 0.03, 0.01)),
            [rod((0, 0, 0), (0, 0, 0.3), 0.02, (1, 0, 0, 1))],
            [box((1, 2, 3))],
        ),
        link("tip & <end>", body(0.5, (0.0, 0.1, 0.0), (0.01, 0.01, 0.01))),
    )
    first = joint(
        "first", kind, "base", "arm", pose((0, 0, 1), (0.3, 0.2, 0.1)), (0.0, 0.6, 0.8), limits=(-1.0, 2.0), damping=0.1
    )
    second = joint("second", "prismatic", "arm", "tip & <end>", pose((0.1, 0, 0)), limits=(-0.5, 0.5))
    return Description("small", links, (first, replace(second, mimic=Mimic("first", 0.5, 0.1))), **more)  # type: ignore[arg-type]


def test_names_are_escaped_shapes_and_mimic_are_written(tmp_path: Path) -> None:
    path = tmp_path / "small.urdf"
    path.write_text(to_urdf(build(small())))
    again = cd.load(path, constraints=False)
    arm, tip = again.model.links
    assert tip.name == "tip & <end>" and tip.mimic == Mimic("first", 0.5, 0.1)
    assert (arm.limits.lower, arm.limits.upper, arm.damping) == (-1.0, 2.0, 0.1)
    # a capsule is a cylinder and two spheres, because ROS has no capsules
    assert [shape.kind for shape in arm.visuals] == ["cylinder", "sphere", "sphere"]
    assert [shape.size for shape in arm.collisions] == [(1.0, 2.0, 3.0)]
    assert arm.visuals[0].color == (1.0, 0.0, 0.0, 1.0)
    assert ElementTree.fromstring(path.read_text()).attrib["name"] == "small"


def test_what_urdf_does_not_have() -> None:
    with pytest.raises(cd.RobotError, match="joint 'first': URDF has no ball joints"):
        to_urdf(build(small("ball")))
    model = cd.load("pidog").model
    stiff = replace(model, links=tuple(replace(each, armature=0.1) for each in model.links))
    assert "not in this file: armatures" in to_urdf(stiff)
