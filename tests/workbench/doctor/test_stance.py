"""Robots that seem made to stand, roll or fly: reported, and left as they are."""

from pathlib import Path

import published
import pytest
from markers import slow_except

from condyle.robot.load import load_model
from condyle.robot.stance import is_foot
from condyle.workbench.doctor.diagnose import FIXED_BASE, diagnose

BODY = '<inertial><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>'


def robot(*limbs: tuple[str, float], root: str = "trunk", kind: str = "continuous") -> str:
    """A trunk with limbs (name, how high they begin), each a link with a ball at its end."""
    parts = [f'<robot name="it"><link name="{root}">{BODY}</link>']
    for name, z in limbs:
        ball = f'<collision><origin xyz="0 0 {z}"/><geometry><sphere radius="0.02"/></geometry></collision>'
        parts.append(f'<link name="{name}">{BODY}{ball}</link><joint name="{name}_j" type="{kind}"><parent link="{root}"/>')
        parts.append(f'<child link="{name}"/><origin xyz="0 0 {z}"/><axis xyz="0 1 0"/></joint>')
    return "".join([*parts, "</robot>"])


def hint(tmp_path: Path, text: str) -> str:
    (tmp_path / "it.urdf").write_text(text)
    found = diagnose(tmp_path / "it.urdf", fix=True)
    assert found.corrected is None or FIXED_BASE not in found.corrected
    hints = [finding for finding in found.findings if finding.rule == FIXED_BASE]
    assert all(hint.severity == "hint" and "--base free" in hint.advice and not hint.fixable for hint in hints)
    return hints[0].what if hints else ""


@pytest.mark.parametrize("name", ["l_foot", "FL_FOOT", "LeftFoot", "RToe", "toe_1", "l_sole", "leftSole", "front_wheel", "LFeet"])
def test_what_is_called_a_foot(name):
    assert is_foot(name)


@pytest.mark.parametrize("name", ["TorsoLeftIMU", "console", "shoulder", "tool0", "vetoed", "elbow"])
def test_what_is_not(name):
    assert not is_foot(name)


def test_by_names_and_by_legs(tmp_path):
    assert "'front_foot' seems made to carry it" in hint(tmp_path, robot(("front_foot", 0.1)))
    assert "'propeller_1' and 'propeller_2' and more seem made" in hint(
        tmp_path, robot(*[(f"propeller_{n}", 0.0) for n in (1, 2, 3)])
    )
    assert "'a' and 'b' seem made" in hint(tmp_path, robot(("a", -0.2), ("b", -0.21), ("head", 0.2)))


@pytest.mark.parametrize(
    "text",
    [
        robot(("a", -0.2)),  # a pendulum
        robot(("a", -0.2), ("b", -0.4)),  # two limbs of two lengths
        robot(("a", 0.3), ("b", 0.3)),  # arms
        robot(("l_foot", -0.2), ("r_foot", -0.2), root="world"),
        robot(("l_foot", -0.2), kind="floating"),  # the file itself lets it move
    ],
)
def test_what_does_not_stand(tmp_path, text):
    assert not hint(tmp_path, text)


STAND = {"a1", "go2", "g1_29dof_rev_1_0", "talos_full_v2", "simple_humanoid", "tiago", "iris_simple", "solo12"}
FIXED = {"panda", "ur5_robot", "allegro_left_hand", "baxter", "so101", "kinova", "talos_left_arm", "xarm7"}


SOME = ("a1", "tiago", "iris_simple", "panda", "baxter", "talos_left_arm")


@pytest.mark.skipif(not published.URDFS, reason="example-robot-data is not installed")
@pytest.mark.parametrize("name", slow_except(SOME, sorted(STAND | FIXED)))
def test_published_robots(name):
    (path,) = (path for path in published.URDFS if path.stem == name)
    found = diagnose(path, package_dirs=published.PACKAGE_DIRS)
    assert any(finding.rule == FIXED_BASE for finding in found.findings) == (name in STAND)


@pytest.mark.parametrize(
    "text, chosen",
    [
        (robot(("l_foot", -0.2), ("r_foot", -0.2)), "free"),
        (robot(("left_wheel", 0.0)), "free"),
        (robot(("propeller_1", 0.0), kind="fixed"), "free"),
        (robot(("a", -0.2), ("b", -0.21), ("head", 0.2)), "free"),
        (robot(("shoulder", 0.3)), "fixed"),
        (robot(("base_footprint", -0.1), ("shoulder", 0.3)), "fixed"),
        (robot(("l_foot", -0.2), ("r_foot", -0.2), root="world"), "fixed"),
        (robot(("l_foot", -0.2), kind="floating"), "fixed"),  # the file itself lets it move
    ],
)
def test_the_base_follows_what_carries_the_robot(text, chosen, tmp_path):
    (tmp_path / "it.urdf").write_text(text)
    auto, fixed = (load_model(tmp_path / "it.urdf", base=base) for base in ("auto", None))
    free = load_model(tmp_path / "it.urdf", base="free")
    assert auto.nv == (free if chosen == "free" else fixed).nv
    said = [[note.what for note in model.notes if note.what.startswith("base: ")] for model in (auto, fixed, free)]
    if chosen == "free":
        assert "base: free, because" in said[0][0] and "base: fixed, though" in said[1][0] and 'base="auto"' in said[1][0]
        assert said[2] == [] and load_model(tmp_path / "it.urdf", strict=True).nv == fixed.nv
    else:
        assert said == [[], [], []]
    assert load_model("pidog", base="auto").nv == load_model("pidog").nv
