"""contacts="auto": robots that fall over come to rest on the ground, whatever shapes they have."""

import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from simulate.bodies import a_box, a_sphere, random_drops, run, simulation

import condyle as cd
from condyle.errors import SimulationError
from condyle.robot.description import Description, JointSpec, Limits, Shape
from condyle.robot.parts import Y, box, link, pose, rod, solid, sphere
from condyle.simulate import auto_points as choosing
from condyle.simulate.auto_points import BUDGET, auto_points
from condyle.simulate.points import contact_points
from condyle.simulate.shape_reach import coverage, sticking_out


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
    assert len(auto_points(a_box().model)) == 8
    assert coverage(a_box().model, auto_points(a_box().model)) == pytest.approx(0.0, abs=1e-15)
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


def test_the_default_is_auto() -> None:
    for shapes in ((), tuple(box((0.1, 0.1, 0.1), pose((0.1 * k, 0.0, 0.0))) for k in range(10)), (box((0.1, 0.2, 0.3)),)):
        points = cd.Simulation(of_shapes(*shapes), ground=cd.Plane()).contact_points
        assert 0 < len(points) <= BUDGET and points == contact_points(of_shapes(*shapes).model, "auto")


def stl(path: Path, corners: np.ndarray) -> Path:
    """A file with triangles through all corners; only its vertices matter."""
    data = np.zeros(len(corners), np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")]))
    data["corners"] = np.stack([corners, np.roll(corners, 1, axis=0), np.roll(corners, 2, axis=0)], axis=1)
    path.write_bytes(bytes(80) + len(corners).to_bytes(4, "little") + data.tobytes())
    return path


def on_a_leg(*shapes: Shape, limits: tuple[float, float] | None = (-0.5, 0.5), axis: tuple[float, ...] = Y) -> cd.Robot:
    """A box with these shapes 0.5 m below it, on a hinge."""
    hull = box((0.3, 0.3, 0.1), name="hull")
    lower, upper = limits or (None, None)
    kind = "revolute" if limits else "continuous"
    hinge = JointSpec("hinge", kind, "hull", "end", pose((0.0, 0.0, -0.5)), np.array(axis), Limits(lower, upper))
    links = (link("hull", solid(2.0, hull), [], [hull]), link("end", solid(0.3, sphere(0.05)), [], list(shapes)))
    return cd.load(Description("leg", links, (hinge,)), base="free")


def test_soles_have_corners_round_feet_a_sphere_and_wheels_one(tmp_path: Path) -> None:
    # a sole with a round top
    k = np.linspace(0.0, 2.0 * np.pi, 60, endpoint=False)
    top = np.column_stack([0.1 * np.cos(k), 0.04 * np.sin(k), np.zeros(60)])
    sole = np.array([(x, y, -0.05) for x in np.linspace(-0.1, 0.1, 9) for y in np.linspace(-0.05, 0.05, 5)])
    flat = Shape("mesh", (1.0, 1.0, 1.0), mesh=stl(tmp_path / "sole.stl", np.vstack([top, sole])))
    corners = contact_points(on_a_leg(flat).model, "feet")
    assert {tuple(np.round(p.position, 6)) for p in corners} == {(x, y, -0.05) for x in (-0.1, 0.1) for y in (-0.05, 0.05)}
    # a shin that ends in a ball
    n = np.arange(400) + 0.5
    z, turn = 1.0 - 2.0 * n / 400, n * 2.4
    ball = 0.03 * np.column_stack([np.cos(turn) * np.sqrt(1 - z * z), np.sin(turn) * np.sqrt(1 - z * z), z]) - (0.0, 0.0, 0.2)
    shin = np.array([(x, y, z) for x in (-0.02, 0.02) for y in (-0.02, 0.02) for z in (-0.18, 0.1)])
    (tip,) = contact_points(
        on_a_leg(Shape("mesh", (1.0, 1.0, 1.0), mesh=stl(tmp_path / "shin.stl", np.vstack([ball, shin])))).model, "feet"
    )
    assert tip.radius == pytest.approx(0.03, rel=0.02) and tip.position == pytest.approx((0.0, 0.0, -0.2), abs=1e-3)
    # a wheel turns without end about its own axis
    tread = Shape("cylinder", (0.1, 0.04), pose((0.0, 0.0, 0.0), (np.pi / 2.0, 0.0, 0.0)))
    (wheel,) = contact_points(on_a_leg(tread, limits=None).model, "feet")
    assert (wheel.radius, wheel.position) == (0.1, (0.0, 0.0, 0.0))
    assert len(contact_points(on_a_leg(tread).model, "feet")) == 2  # with limits it is no wheel
    # an ellipsoid is made of spheres inside it; shapes that cannot touch are left out
    egg = [p for p in auto_points(on_a_leg(Shape("ellipsoid", (0.1, 0.06, 0.05))).model) if p.link == 1]
    assert all(p.radius == 0.025 for p in egg) and min(p.position[2] - p.radius for p in egg) == pytest.approx(-0.05)
    none = replace(tread, contact=False)
    assert {p.link for p in auto_points(on_a_leg(none).model)} == {0}


def test_points_that_no_joint_moves_are_left_out() -> None:
    base, arm = sphere(0.1, name="base"), sphere(0.05, (0.5, 0.0, 0.0), name="arm")
    turn = JointSpec("turn", "revolute", "world", "one", pose((0.0, 0.0, 0.1)), np.array((0.0, 0.0, 1.0)), Limits(-1.0, 1.0))
    lift = JointSpec("lift", "revolute", "one", "two", pose(), np.array(Y), Limits(-1.0, 1.0))
    links = (link("world"), link("one", solid(1.0, base), [], [base]), link("two", solid(1.0, arm), [], [arm]))
    robot = cd.load(Description("arm", links, (turn, lift)))
    assert cd.Simulation(robot, ground=cd.Plane()).contact_names == ["arm"]
    both = cd.Simulation(robot, ground=cd.Plane(), contacts=["base", "arm"])
    assert both.contact_names == ["arm"] and "'base' is left out: no joint moves it" in both.report[-1]
    with pytest.raises(SimulationError, match="no joint moves the contact points 'base'"):
        cd.Simulation(robot, ground=cd.Plane(), contacts="base")


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


@pytest.mark.slow
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


def test_coverage_is_that_of_the_shapes_and_not_of_the_points_that_may_be_chosen(tmp_path: Path) -> None:
    # a ball, a rod with round ends and a cylinder, against points inside of them
    model = of_shapes(rod((0.0, 0.0, 0.0), (0.3, 0.0, 0.0), 0.05)).model
    ends = contact_points(model, "collisions")
    assert coverage(model, ends) == pytest.approx(0.0, abs=1e-12)
    assert coverage(model, [replace(end, radius=0.02) for end in ends]) == pytest.approx(0.03)
    drum = of_shapes(Shape("cylinder", (0.1, 0.2))).model
    # corners on the rim of a drum leave an arc of a sixteenth of a turn between them
    assert 0.0 < coverage(drum, auto_points(drum)) < 0.1 * (1.0 - np.cos(np.pi / 8.0))
    # every vertex of a mesh counts, also one that no point was chosen for
    spike = np.array([(x, y, z) for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1)] + [(0.0, 0.0, 0.25)])
    mesh = of_shapes(Shape("mesh", (1.0, 1.0, 1.0), mesh=stl(tmp_path / "spike.stl", spike))).model
    corners = [p for p in contact_points(mesh, "auto") if p.position[2] < 0.2]
    assert sticking_out(mesh, corners) == pytest.approx([0.15], abs=1e-6)


def test_links_that_stick_out_are_said() -> None:
    robot = two_links()
    assert not [note for note in cd.Simulation(robot, ground=cd.Plane()).report if "stick out" in note]
    (note,) = [note for note in cd.Simulation(robot, ground=cd.Plane(), contacts="arm").report if "stick out" in note]
    assert note.startswith("links stick out between the contact points: 'body' by ") and "contacts=['body', 'auto']" in note
    assert not [note for note in cd.Simulation(robot, ground=cd.Plane(), contacts=["body", "auto"]).report if "stick out" in note]


def test_leaving_out_what_is_inside_changes_no_point(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("fourlimb", "ur3"):
        model = cd.load(name, base="free").model
        monkeypatch.setattr(choosing, "MANY", 4096)
        points = auto_points(model)
        monkeypatch.setattr(choosing, "MANY", 0)
        assert auto_points(model) == points


@pytest.mark.parametrize("base", ["fixed", "free"])
def test_points_of_a_robot_of_many_links_are_chosen_soon(base: str) -> None:
    links = [link(f"l{k}", solid(0.1, box((0.1, 0.02, 0.02))), [], [box((0.1, 0.02, 0.02), name=f"b{k}")]) for k in range(150)]
    hinges = [
        JointSpec(f"j{k}", "revolute", f"l{k - 1}", f"l{k}", pose((0.1, 0.0, 0.0)), np.array(Y), Limits(-1.0, 1.0))
        for k in range(1, 150)
    ]
    model = cd.load(Description("snake", tuple(links), tuple(hinges)), base=base).model
    begin = time.process_time()
    points = contact_points(model, "auto")
    assert 0 < len(points) <= BUDGET and time.process_time() - begin < 10.0
