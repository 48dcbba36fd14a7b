"""Contact points: which ones a robot's shapes, names and frames give, in which order, and what is refused."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import published
import pytest

from condyle.errors import SimulationError
from condyle.robot.build import build
from condyle.robot.description import Description, Shape
from condyle.robot.load import load_model
from condyle.robot.parts import body, box, cylinder, frame, joint, link, pose, rod, sphere
from condyle.simulate.points import ContactPoint, contact_points, moving_frame, point_on

PIDOG = load_model("pidog")
FOURLIMB = load_model("fourlimb")


def robot(*shapes: Shape, base: str = "free"):
    """One body with these collision shapes and a frame 'tool' on it."""
    description = Description("thing", (link("body", body(1.0), (), shapes),), (), (frame("tool", "body", (0.1, 0.0, -0.2)),))
    return build(description, base)


def places(points) -> np.ndarray:
    return np.array([p.position for p in points])


# -- shapes


def test_a_sphere_is_one_point() -> None:
    (point,) = contact_points(robot(sphere(0.03, (0.1, 0.2, 0.3))))
    assert (point.name, point.link, point.radius, point.friction) == ("body_sphere0", 0, 0.03, None)
    assert point.position == (0.1, 0.2, 0.3)


def test_a_capsule_is_its_two_ends() -> None:
    points = contact_points(robot(rod((0.0, 0.0, 0.0), (0.3, 0.0, 0.0), 0.05)))
    assert [p.name for p in points] == ["body_capsule0_end0", "body_capsule0_end1"]
    assert [p.radius for p in points] == [0.05, 0.05]
    np.testing.assert_allclose(places(points), [[0.0, 0.0, 0.0], [0.3, 0.0, 0.0]], atol=1e-16)


def test_a_box_is_its_corners() -> None:
    points = contact_points(robot(box((0.2, 0.4, 0.6), pose((1.0, 0.0, 0.0), (0.0, 0.0, np.pi / 2.0)))))
    assert len(points) == 8 and all(p.radius == 0.0 for p in points)
    np.testing.assert_allclose(np.abs(places(points) - [1.0, 0.0, 0.0]), np.tile([0.2, 0.1, 0.3], (8, 1)), atol=1e-16)
    assert len({tuple(p) for p in places(points)}) == 8


def test_a_cylinder_is_its_rims() -> None:
    points = contact_points(robot(cylinder(0.04, 0.02, name="tread")), "collisions")
    assert [p.name for p in points] == [f"tread_rim{n}" for n in range(16)]
    np.testing.assert_allclose(np.linalg.norm(places(points)[:, :2], axis=1), 0.04)
    assert sorted(places(points)[:, 2]) == [-0.01] * 8 + [0.01] * 8
    # the axes are hit exactly
    assert places(points)[2].tolist() == [0.0, 0.04, -0.01]


def test_shapes_of_size_zero_have_no_point_twice() -> None:
    assert len(contact_points(robot(rod((0, 0, 0), (0, 0, 1), 0.1), box((0.0, 0.0, 0.0))))) == 3
    assert len(contact_points(robot(cylinder(0.0, 0.1)), "collisions")) == 2


def test_fixed_links_are_part_of_the_moving_one() -> None:
    links = (link("body", body(1.0)), link("foot", None, (), [sphere(0.02)]))
    fixed = joint("ankle", "fixed", "body", "foot", pose((0.0, 0.0, -0.5)))
    (point,) = contact_points(build(Description("thing", links, (fixed,)), "free"))
    assert point.name == "body_sphere0" and point.position == (0.0, 0.0, -0.5)


# -- what can be passed


def test_everything_in_order() -> None:
    points = contact_points(PIDOG, "collisions")
    assert [p.link for p in points] == sorted(p.link for p in points)
    assert len({p.name for p in points}) == len(points) == 8 + 4 * 3 + 8


@pytest.mark.parametrize(
    ("contacts", "names"),
    [
        ("lf_lower", ["lf_foot"]),  # a link: its shapes
        ("lf_foot", ["lf_foot"]),  # a shape
        ("nose", ["nose"]),  # a frame
        ("tail", ["tail"]),  # a link without collision shapes is still a frame
        ("*_lower", ["lf_foot", "rf_foot", "lh_foot", "rh_foot"]),
        ("*_foot", ["lf_foot", "rf_foot", "lh_foot", "rh_foot"]),
        ("*_hip", ["lf_hip", "rf_hip", "lh_hip", "rh_hip"]),
        (["rh_foot", "lf_foot", "rh_foot"], ["rh_foot", "lf_foot"]),
        ("lf_upper_capsule0", ["lf_upper_capsule0_end0", "lf_upper_capsule0_end1"]),
        (("nose", "torso"), ["nose", *[f"torso_corner{n}" for n in range(8)]]),
        ({"lf_foot": 0.02, "nose": 0.0}, ["lf_foot", "nose"]),
    ],
)
def test_names(contacts, names: list[str]) -> None:
    assert [p.name for p in contact_points(PIDOG, contacts)] == names


def test_radii() -> None:
    assert [p.radius for p in contact_points(PIDOG, ["lf_foot", "nose"])] == [0.008, 0.0]
    assert [p.radius for p in contact_points(PIDOG, {"lf_foot": 0.02, "nose": 0.01})] == [0.02, 0.01]
    assert [p.radius for p in contact_points(FOURLIMB, "foot_*")] == [0.05] * 4


def test_points_on_frames() -> None:
    model = robot()
    point = point_on(model, "tool", (0.0, 0.0, -0.1), radius=0.02, friction=0.3)
    assert (point.name, point.radius, point.friction) == ("tool", 0.02, 0.3)
    np.testing.assert_allclose(point.position, [0.1, 0.0, -0.3], atol=1e-16)
    assert contact_points(model, point)[0] is point
    assert [p.name for p in contact_points(model, [point, "body"])] == ["tool", "body"]


def test_equal_names_are_numbered() -> None:
    model = robot(sphere(0.1, (0, 0, 1), name="ball"), sphere(0.1, (0, 0, 2), name="ball"))
    assert [p.name for p in contact_points(model)] == ["ball", "ball_2"]


def test_keys_have_all_numbers() -> None:
    a = point_on(PIDOG, "nose", (0.1, 0.2, 0.3), 0.01)
    others = [replace(a, radius=0.02), replace(a, friction=0.5), replace(a, position=(0.1 + 1e-15, 0.2, 0.3)), replace(a, link=2)]
    assert len({p.key() for p in (a, *others)}) == 5


@pytest.mark.skipif(not published.URDFS, reason="example-robot-data is not installed")
def test_feet_of_a_published_robot() -> None:
    (file,) = [p for p in published.URDFS if p.name == "anymal.urdf" and "anymal_b" in str(p)]
    model = load_model(file, base="free", package_dirs=published.PACKAGE_DIRS)
    feet = contact_points(model, "*_SHANK_sphere2")
    assert [p.radius for p in feet] == [0.031] * 4
    assert [p.name for p in contact_points(model, ["LF_FOOT", "RH_FOOT"])] == ["LF_FOOT", "RH_FOOT"]
    assert moving_frame(model, "LF_FOOT").link == feet[0].link
    assert len({p.name for p in contact_points(model)}) == len(contact_points(model))


# -- what is refused


@pytest.mark.parametrize(
    ("contacts", "part"),
    [
        ("lf_foott", "did you mean 'lf_foot'"),
        ("lf_f", r"write 'lf_f\*'"),
        (["nose", "zzz"], "'zzz'; there are"),
        ("zz*", r"'zz\*'"),
        ({"nos": 0.1}, "did you mean 'nose'"),
        ({"nose": -0.1}, "radius must not be negative"),
        ({"nose": float("nan")}, "radius"),
        ({"nose": "big"}, "radius"),
        ([3], "got int"),
        (3, "got int"),
        ([], "is empty"),
        ({}, "is empty"),
        (ContactPoint("far", 99, np.zeros(3), 0.0), "moving links 0 to"),
    ],
)
def test_refused(contacts, part: str) -> None:
    with pytest.raises(SimulationError, match=part) as caught:
        contact_points(PIDOG, contacts)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("position", [(0.0, 0.0), (0.0, 0.0, np.nan), ("a", "b", "c"), None])
def test_positions_are_three_numbers(position) -> None:
    with pytest.raises(SimulationError, match="position"):
        point_on(PIDOG, "nose", position)


def test_a_robot_without_shapes_says_what_can_be_passed() -> None:
    with pytest.raises(SimulationError, match=r"no simple collision shapes.*\{frame: radius\}"):
        contact_points(robot(), "collisions")
    assert contact_points(robot(), "none") == ()


def test_what_stands_still_cannot_touch() -> None:
    with pytest.raises(SimulationError, match="fixed to the world"):
        contact_points(robot(sphere(0.1), base="fixed"), "tool")


def test_meshes_that_cannot_be_read() -> None:
    mesh = Shape("mesh", (1.0, 1.0, 1.0), mesh=Path("foot.stl"))
    assert len(contact_points(robot(mesh, sphere(0.1)))) == 1
    with pytest.raises(SimulationError, match="no simple collision shapes"):
        contact_points(robot(mesh), "collisions")
    # the box of its inertia
    assert all("inertia" in point.name for point in contact_points(robot(mesh), "body"))
