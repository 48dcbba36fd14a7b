"""A description is one tree of bodies that can exist; whatever is wrong has a sentence, and strict loading lets nothing pass."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from published import PACKAGE_DIRS, REFUSED, URDFS, name

from condyle.errors import RobotError
from condyle.robot.check import check, checked
from condyle.robot.description import Description, FrameSpec, JointSpec, Limits, LinkSpec, LoopSpec, Mimic, Note
from condyle.robot.spatial import Inertia, Pose
from condyle.robot.urdf import read_urdf

BODY = Inertia.about_com(1.0, np.array([0.1, 0.0, 0.0]), np.diag([0.1, 0.1, 0.1]))


def body(mass: float, *moments: float) -> Inertia:
    return Inertia.about_com(mass, np.zeros(3), np.diag(moments))


def chain(count: int, kind: str = "revolute", inertia: Inertia | None = BODY) -> Description:
    """l0 -j1- l1 -j2- l2 ..."""
    links = tuple(LinkSpec(f"l{i}", inertia, where=f"r.urdf:{i}") for i in range(count))
    joints = tuple(JointSpec(f"j{i}", kind, f"l{i - 1}", f"l{i}", where=f"r.urdf:{100 + i}") for i in range(1, count))
    return Description("chain", links, joints, source="r.urdf")


def with_joint(robot: Description, i: int, **changes: object) -> Description:
    joints = list(robot.joints)
    joints[i] = replace(joints[i], **changes)  # type: ignore[arg-type]
    return replace(robot, joints=tuple(joints))


def with_link(robot: Description, i: int, **changes: object) -> Description:
    links = list(robot.links)
    links[i] = replace(links[i], **changes)  # type: ignore[arg-type]
    return replace(robot, links=tuple(links))


def test_a_good_robot_has_nothing_to_say() -> None:
    for kind in ("revolute", "continuous", "prismatic", "fixed", "free", "ball", "planar"):
        findings = check(chain(4, kind))
        assert findings.problems == [] and findings.notes == ()


def test_loops_lie_between_frames_of_links_joints_and_others() -> None:
    for frame_a, frame_b in (("l0", "l3"), ("j1", "j3"), ("l1", "tip")):
        assert check(with_loop(frame_a, frame_b, ("x", "z", "ry"))).problems == []
    # a joint that shares its name with a link is called joint:NAME
    twin = with_joint(with_loop("l0", "joint:l2"), 1, name="l2")
    assert check(twin).problems == []


@pytest.mark.slow
def test_long_chains_do_not_recurse() -> None:
    assert check(chain(5000)).problems == []
    findings = check(chain(30_000))
    assert findings.problems == ["r.urdf:20000: the robot has 30,000 links, more than 20,000"]


def with_loop(frame_a: str = "l0", frame_b: str = "l3", axes: tuple[str, ...] = ("x",), name: str = "ring") -> Description:
    tip = FrameSpec("tip", "l3", Pose.identity(), "r.urdf:200")
    return replace(R, frames=(tip,), loops=(LoopSpec(name, frame_a, frame_b, axes, "r.urdf:300"),))


R = chain(4)
RING = replace(R, joints=(*R.joints[:2], replace(R.joints[2], parent="l3", child="l2"), JointSpec("j4", "fixed", "l2", "l3")))
PROBLEMS = {
    "no such link": (with_joint(R, 0, child="l9"), "r.urdf:101: joint 'j1' <child>: link 'l9' does not exist"),
    "near": (with_joint(R, 0, parent="l00"), r"link 'l00' does not exist \(did you mean 'l0'\?\)"),
    "own parent": (with_joint(R, 2, parent="l3"), "r.urdf:103: joint 'j3': link 'l3' cannot be its own parent"),
    "two parents": (with_joint(R, 2, child="l1"), "joint 'j3' <child>: link 'l1' already has the parent 'l0' by joint 'j1'"),
    "two roots": (replace(R, joints=R.joints[:2]), r"link 'l3': the robot has 2 roots, 'l0' \(r.urdf:0\), 'l3' \(r.urdf:3\)"),
    "cycle": (with_joint(R, 0, parent="l3"), "the joints form a cycle, 'l.' -> 'l.' -> 'l.' -> 'l.'"),
    "ring": (RING, "already has the parent"),
    "link twice": (with_link(R, 1, name="l0"), "r.urdf:1: link 'l0': the name is already used at r.urdf:0: rename"),
    "joint twice": (with_joint(R, 1, name="j1"), "r.urdf:102: joint 'j1': the name is already used at r.urdf:101"),
    "no name": (with_joint(R, 1, name=" "), "r.urdf:102: joint without a name"),
    "long name": (with_joint(R, 1, name="j" * 300), "a name has at most 200 printable characters"),
    "odd name": (with_joint(R, 1, name="j\n1"), r"joint 'j\\n1': a name has at most"),
    "frame nowhere": (replace(R, frames=(FrameSpec("f", "l7", Pose.identity()),)), "frame 'f': link 'l7' does not exist"),
    "kind": (with_joint(R, 1, kind="revolut"), r"joint 'j2': kind 'revolut' is unknown \(did you mean 'revolute'\?\)"),
    "axis": (with_joint(R, 1, axis=np.zeros(3)), "joint 'j2' <axis>: the axis is zero"),
    "nan": (with_joint(R, 1, axis=np.array([0, np.nan, 1])), "joint 'j2' <axis>: .* is not finite"),
    "pose": (with_joint(R, 1, pose=Pose(np.eye(3), np.array([0, np.inf, 0]))), "joint 'j2': a number of the pose is not finite"),
    "mirror": (with_joint(R, 1, pose=Pose(-np.eye(3), np.zeros(3))), "joint 'j2': the rotation of the pose is not a rotation"),
    "limits": (with_joint(R, 1, limits=Limits(2.0, -1.0)), "joint 'j2' <limit>: lower 2 is above upper -1: exchange them"),
    "effort": (with_joint(R, 1, limits=Limits(effort=-1.0)), "joint 'j2' <limit>: effort is -1: it must not be negative"),
    "velocity": (with_joint(R, 1, limits=Limits(velocity=-1.0)), "velocity is -1: it must not be negative"),
    "damping": (with_joint(R, 1, damping=-1.0), "joint 'j2' <dynamics>: damping is -1"),
    "friction": (with_joint(R, 1, friction=-1.0), "friction is -1"),
    "armature": (with_joint(R, 1, armature=-1.0), "armature is -1"),
    "mimic nobody": (with_joint(R, 1, mimic=Mimic("j9")), "joint 'j2' <mimic>: joint 'j9' does not exist"),
    "mimic itself": (with_joint(R, 1, mimic=Mimic("j2")), "joint 'j2' <mimic>: the joint cannot mimic itself"),
    "mimic fixed": (with_joint(with_joint(R, 0, kind="fixed"), 1, mimic=Mimic("j1")), "joint 'j1' is fixed: only revolute"),
    "fixed mimic": (with_joint(R, 1, kind="ball", mimic=Mimic("j1")), "a ball joint cannot mimic"),
    "mimic circle": (
        with_joint(with_joint(with_joint(R, 0, mimic=Mimic("j2")), 1, mimic=Mimic("j3")), 2, mimic=Mimic("j1")),
        "joint 'j1' <mimic>: the joints follow each other in a circle, 'j1' -> 'j2' -> 'j3' -> 'j1'",
    ),
    "loop nowhere": (with_loop("l0", "tap"), r"r.urdf:300: loop 'ring': frame 'tap' does not exist \(did you mean 'tip'\?\)"),
    "loop on itself": (with_loop("tip", "tip"), "r.urdf:300: loop 'ring': frame 'tip' cannot stay on itself"),
    "loop of two meanings": (
        replace(with_loop("l0", "j2"), frames=(FrameSpec("j2", "l3", Pose.identity()),)),
        "loop 'ring': frame 'j2' has the name of a link or joint: rename the frame",
    ),
    "loop without axes": (with_loop(axes=()), "r.urdf:300: loop 'ring': it holds no axis: name some of x, y, z, rx, ry, rz"),
    "loop axis": (with_loop(axes=("x", "rX")), "r.urdf:300: loop 'ring': axis 'rX' is unknown \\(did you mean 'rx'\\?\\)"),
    "loop axis twice": (with_loop(axes=("x", "y", "x")), "loop 'ring': axis 'x' is named more than once"),
    "loop without a name": (with_loop(name=" "), "r.urdf:300: loop without a name"),
    "loop twice": (
        replace(with_loop(), loops=with_loop().loops * 2),
        "r.urdf:300: loop 'ring': the name is already used at r.urdf:300: rename",
    ),
    "mass": (with_link(R, 1, inertia=body(-1, 1, 1, 1)), "link 'l1' <inertial>: mass -1 must not be negative"),
    "moments": (with_link(R, 1, inertia=body(1, -1, 1, 1)), "principal moments -1, 1, 1: none may be negative"),
    "nan mass": (with_link(R, 1, inertia=body(np.nan, 1, 1, 1)), "link 'l1' <inertial>: .* is not finite"),
    "negative": (with_link(R, 3, inertia=body(1, 1, 1, -0.4)), "joint 'j3': the links it moves have the negative inertia"),
}


@pytest.mark.parametrize("what", PROBLEMS)
def test_problems(what: str) -> None:
    robot, sentence = PROBLEMS[what]
    with pytest.raises(RobotError, match=sentence) as error:
        checked(robot)
    assert len(error.value.problems) <= 3, "one mistake, not a flood"


NOTES = {
    "triangle": (with_link(R, 1, inertia=body(1, 0.1, 0.1, 0.5)), "link 'l1' <inertial>: principal moments 0.1, 0.1, 0.5"),
    "a little negative": (with_link(R, 1, inertia=body(1, -0.1, 0.5, 0.5)), "no body has a negative one"),
    "no mass": (with_link(R, 1, inertia=body(0, 0.1, 0.1, 0.1)), "link 'l1' <inertial>: an inertia without mass"),
    "nothing moves": (with_link(R, 3, inertia=None), "joint 'j3' moves no inertia"),
    "a point on the axis": (with_link(R, 3, inertia=body(1, 0, 0, 0)), "joint 'j3' moves no inertia"),
    "rack and pinion": (
        with_joint(R, 1, kind="prismatic", mimic=Mimic("j1")),
        "a prismatic joint follows the revolute joint 'j1'",
    ),
}


@pytest.mark.parametrize("what", NOTES)
def test_notes_become_problems_when_strict(what: str) -> None:
    robot, sentence = NOTES[what]
    (note,) = check(robot).notes
    assert note.what.startswith("kept: ") and sentence in note.what
    assert checked(robot).notes == (note,)
    (problem,) = check(robot, strict=True).problems
    assert sentence in problem and "strict" in problem


def test_strict_counts_the_loader_s_repairs_but_not_what_it_ignored() -> None:
    repaired = replace(R, notes=(Note("r.urdf:1", "repaired: axis"), Note("r.urdf:2", "ignored: gazebo")))
    assert check(repaired).problems == []
    assert check(repaired, strict=True).problems == ["r.urdf:1: repaired: axis (refused, because loading is strict)"]


def test_massless_links_in_between_are_fine() -> None:
    assert check(with_link(with_link(R, 1, inertia=None), 2, inertia=body(0, 0, 0, 0))).notes == ()
    assert check(with_joint(with_link(R, 3, inertia=None), 2, armature=0.1)).notes == ()
    # a follower needs no mass of its own when its leader has some
    assert check(with_joint(with_link(R, 3, inertia=None), 2, mimic=Mimic("j1"))).notes == ()
    # a point off the axis has inertia
    off = Inertia.about_com(1.0, np.array([0.0, 0.3, 0.0]), np.zeros((3, 3)))
    assert check(with_link(R, 3, inertia=off)).notes == ()


@pytest.mark.parametrize("path", URDFS, ids=name)
def test_published_robots_pass(path: Path) -> None:
    if path.name in REFUSED:
        with pytest.raises(RobotError) as error:
            checked(read_urdf(path.read_bytes(), path.name, package_dirs=PACKAGE_DIRS))
        assert REFUSED[path.name] in str(error.value)
    else:
        checked(read_urdf(path.read_bytes(), path.name, package_dirs=PACKAGE_DIRS))
