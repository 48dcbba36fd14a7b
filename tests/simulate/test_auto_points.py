"""contacts="auto": robots that fall over come to rest on the ground, whatever shapes they have."""

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from simulate.bodies import a_box, a_sphere, random_drops, run, simulation

import condyle as cd
from condyle.robot.description import Description, JointSpec, Limits, Shape
from condyle.robot.parts import Y, box, link, pose, rod, solid, sphere
from condyle.simulate.auto_points import BUDGET, auto_points, coverage


@cache
def two_links() -> cd.Robot:
    """A box with an arm, a capsule on a hinge."""
    body, arm = box((0.3, 0.2, 0.1), name="body"), rod((0.0, 0.0, 0.0), (0.0, 0.0, -0.2), 0.02, name="arm")
    hinge = JointSpec("hinge", "revolute", "body", "arm", pose((0.15, 0.0, 0.0)), np.array(Y), Limits(-1.0, 1.0), 0.05)
    links = (link("body", solid(2.0, body), [], [body]), link("arm", solid(0.3, arm), [], [arm]))
    return cd.load(Description("two_links", links, (hinge,)), base="free")


def of_shapes(*shapes: Shape) -> cd.Robot:
    return cd.load(Description("thing", (link("thing", solid(1.0, box((0.1, 0.2, 0.3))), [], list(shapes)),), ()), base="free")


def test_boxes_and_balls_keep_their_points() -> None:
    assert len(auto_points(a_box().model)) == 8 and coverage(a_box().model, auto_points(a_box().model)) == 0.0
    (ball,) = auto_points(a_sphere().model)
    assert ball.radius == 0.1 and not ball.secondary


def test_points_are_few_the_same_again_and_cover_the_robot() -> None:
    model = two_links().model
    points = auto_points(model)
    assert 4 <= len(points) <= BUDGET and points == auto_points(model)
    assert coverage(model, points) <= 0.01 * 0.6
    assert len(auto_points(model, budget=5)) == 5
    # where it begins it would stand on the end of its arm
    assert {p.link for p in points if not p.secondary} == {1}
    feet = cd.Simulation(two_links(), ground=cd.Plane(), contacts=["body", "auto"]).contact_names
    assert feet[:8] == [f"body_corner{k}" for k in range(8)] and any(name.startswith("arm") for name in feet)


@pytest.mark.parametrize(
    "shapes, least",
    (
        ((), 8),  # a box of its inertia
        ((Shape("mesh", (1.0, 1.0, 1.0), mesh=Path("nowhere.stl")),), 8),
        ((sphere(1e-6),), 1),
        ((box((1e3, 2e3, 3e3)),), 8),
        (tuple(sphere(0.01, (0.05 * (k % 17), 0.05 * (k // 17), 0.0)) for k in range(289)), 4),
    ),
)
def test_any_shapes(shapes: tuple[Shape, ...], least: int) -> None:
    points = auto_points(of_shapes(*shapes).model)
    assert least <= len(points) <= BUDGET
    assert np.all(np.isfinite([p.position for p in points]))


def test_the_default_is_auto_where_collisions_are_too_many_or_missing() -> None:
    for shapes in ((), tuple(box((0.1, 0.1, 0.1), pose((0.1 * k, 0.0, 0.0))) for k in range(10))):
        assert 0 < len(cd.Simulation(of_shapes(*shapes), ground=cd.Plane()).contact_points) <= BUDGET


def test_a_fallen_robot_lies_on_the_ground() -> None:
    s = simulation(two_links(), 2e-3, cd.Plane(0.8), "auto")
    q = np.zeros((26, 8))
    q[:, :7], _ = random_drops(np.random.default_rng(1), 26)
    q[:, 2] = 0.3
    xs = run(s, s.state(q), 2.5)
    end = xs[:, -1]
    assert np.max(np.abs(s.split(end)[1])) < 0.05
    # corners of the body and ends of the arm, as all of the collision shapes have them
    every = cd.Simulation(two_links(), ground=cd.Plane(), contacts="collisions").contact_points
    R, p = two_links().frame_pose(end[:, :8], "body")
    A, a = two_links().frame_pose(end[:, :8], "arm")
    low = [((R, A)[c.link] @ np.array(c.position) + (p, a)[c.link])[:, 2] - c.radius for c in every]
    assert np.min(low) > -8e-3 and np.max(np.min(low, axis=0)) < 2e-3


def test_secondary_points_in_the_air_do_not_change_a_step() -> None:
    # standing on the body's lower corners, the others are secondary
    size = (0.2, 0.2, 0.1)
    points = auto_points(a_box(size).model)
    assert [p.secondary for p in points].count(True) == 4
    s = simulation(a_box(size), 2e-3, cd.Plane(0.8), tuple(points))
    alone = simulation(a_box(size), 2e-3, cd.Plane(0.8), tuple(p for p in points if not p.secondary))
    x = s.state([0.0, 0.0, 0.0499, 0.0, 0.0, 0.0, 1.0], [0.1, 0.2, -0.1, 0.0, 0.3, 0.0])
    np.testing.assert_allclose(s.step(x), alone.step(x), rtol=0.0, atol=1e-15)
    for a, b in zip(s.step(x, derivatives=True), alone.step(x, derivatives=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=0.0, atol=1e-9)
