"""Mimic joints follow one leader each, however long the chain; the numbers are exact but for one rounding."""

import time
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from condyle.errors import RobotError
from condyle.robot.build import build
from condyle.robot.check import checked
from condyle.robot.couplings import linear_couplings
from condyle.robot.description import Description, JointSpec, LinkSpec, Mimic
from condyle.robot.edit import lock
from condyle.robot.model import Model, digest
from condyle.robot.spatial import Inertia
from condyle.robot.urdf import read_urdf

BODY = Inertia.about_com(1.0, np.array([0.1, 0.0, 0.0]), np.diag([0.1, 0.1, 0.1]))


def comb(mimics: dict[str, Mimic | None]) -> Model:
    """One link for each joint, all on one base, in this order."""
    links = [LinkSpec("base"), *(LinkSpec(f"{name}_link", BODY) for name in mimics)]
    joints = [JointSpec(name, "revolute", "base", f"{name}_link", mimic=mimic) for name, mimic in mimics.items()]
    return build(Description("comb", tuple(links), tuple(joints)))


HAND = """<robot name="hand">
  <link name="palm"/>
  <link name="a"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="b"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <link name="c"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="j1" type="continuous"><parent link="palm"/><child link="a"/></joint>
  <joint name="j2" type="continuous"><parent link="a"/><child link="b"/><mimic joint="j3" multiplier="-2" offset="0.5"/></joint>
  <joint name="j3" type="continuous"><parent link="b"/><child link="c"/><mimic joint="j1" multiplier="0.75" offset="1"/></joint>
</robot>"""


def test_a_urdf_keeps_its_chain_of_mimics() -> None:
    model = build(checked(read_urdf(HAND, "hand.urdf")), "free")
    assert [link.mimic for link in model.links] == [None, None, Mimic("j3", -2.0, 0.5), Mimic("j1", 0.75, 1.0)]
    # j2 = -2 (0.75 j1 + 1) + 0.5
    assert linear_couplings(model) == {"j2": ("j1", -1.5, -1.5), "j3": ("j1", 0.75, 1.0)}


def test_couplings_come_in_the_order_of_the_links() -> None:
    model = comb({"d": Mimic("c", 2.0), "c": Mimic("b", 3.0, 1.0), "b": Mimic("a", 5.0, -1.0), "a": None, "e": None})
    found = linear_couplings(model)
    assert list(found) == ["d", "c", "b"]
    assert found == {"d": ("a", 30.0, -4.0), "c": ("a", 15.0, -2.0), "b": ("a", 5.0, -1.0)}
    assert linear_couplings(comb({"a": None})) == {}


def test_chains_are_rounded_once() -> None:
    rng = np.random.default_rng(0)
    numbers = [(float(m), float(o)) for m, o in rng.uniform(-2.0, 2.0, (30, 2))]
    model = comb({"j0": None} | {f"j{i}": Mimic(f"j{i - 1}", m, o) for i, (m, o) in enumerate(numbers, 1)})
    scale, shift = Fraction(1), Fraction(0)
    found = linear_couplings(model)
    for i, (m, o) in enumerate(numbers, 1):
        scale, shift = Fraction(m) * scale, Fraction(m) * shift + Fraction(o)
        assert found[f"j{i}"] == ("j0", float(scale), float(shift))


@pytest.mark.slow
def test_long_chains_are_quick() -> None:
    count = 5000
    model = comb({f"j{i}": Mimic(f"j{i + 1}", 0.9999, 0.1) if i < count else None for i in range(count + 1)})
    start = time.process_time()
    leader, scale, _ = linear_couplings(model)["j0"]
    assert time.process_time() - start < 10.0
    assert leader == f"j{count}" and scale == pytest.approx(0.9999**count, rel=1e-10)


def test_what_cannot_be_followed() -> None:
    model = comb({"a": None, "b": Mimic("a")})
    with pytest.raises(RobotError, match="'comb': joint 'b' follows joint 'a', which does not move: lock both, or neither"):
        linear_couplings(lock(model, "a").model)
    assert linear_couplings(lock(model, ["a", "b"]).model) == {} and linear_couplings(lock(model, "b").model) == {}
    circle = comb({"a": Mimic("b"), "b": Mimic("a")})
    with pytest.raises(RobotError, match="joint 'a' follows itself, by a -> b"):
        linear_couplings(circle)
    with pytest.raises(RobotError, match="joint 'c' follows joint 'a' by a number that is too large"):
        linear_couplings(comb({"a": None, "b": Mimic("a", 1e300), "c": Mimic("b", 1e300)}))


def test_the_digest_has_the_couplings() -> None:
    def hashed(mimic: Mimic | None, names: str = "abc") -> str:
        one, two, three = names
        return digest(replace(comb({one: None, two: None, three: mimic}), frames=()))

    different = (None, Mimic("a", 2.0, 1.0), Mimic("b", 2.0, 1.0), Mimic("a", 3.0, 1.0), Mimic("a", 2.0, 0.0))
    assert len({hashed(mimic) for mimic in different}) == len(different)
    # a name says nothing, the joint that has it does
    assert hashed(Mimic("a", 2.0, 1.0), "bac") == hashed(Mimic("b", 2.0, 1.0), "abc")
    assert hashed(Mimic("x", 2.0, 1.0), "xyz") == hashed(Mimic("a", 2.0, 1.0), "abc")
