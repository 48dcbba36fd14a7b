"""Meshes: files read with care, and spheres, cylinders and ellipsoids found at the end of them."""

import struct
from pathlib import Path

import numpy as np
import published
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markers import slow_except

from condyle.errors import SimulationError
from condyle.robot.build import build
from condyle.robot.description import Description, Shape
from condyle.robot.mesh import read_vertices
from condyle.robot.parts import body, frame, link, pose
from condyle.simulate.mesh_fit import Cylinder, Ellipsoid, Sphere, detected, fit_end_effector

EXACT = 2e-9  # exact vertices are fitted to the nanometre that results are rounded to
AXIS = 1e-4  # the axis of a cylinder is searched for
DOWN = np.array([0.0, 0.0, -1.0])


def ball(radius: float, centre=(0.0, 0.0, 0.0), count: int = 400) -> np.ndarray:
    """Vertices spread evenly over a sphere."""
    k = np.arange(count) + 0.5
    z, turn = 1.0 - 2.0 * k / count, np.pi * (1.0 + np.sqrt(5.0)) * k
    r = np.sqrt(1.0 - z * z)
    return radius * np.column_stack([r * np.cos(turn), r * np.sin(turn), z]) + centre


def roller(radius: float, length: float, yaw: float = 0.0, count: int = 48, rings: int = 2) -> np.ndarray:
    """Vertices of a cylinder that lies along y, rotated by `yaw`, on `rings` rings."""
    turn = 2.0 * np.pi * np.arange(count) / count
    circle = np.column_stack([radius * np.cos(turn), 0.0 * turn, radius * np.sin(turn)])
    lying = np.concatenate([circle + np.array([0.0, y, 0.0]) for y in np.linspace(-length / 2.0, length / 2.0, rings)])
    c, s = np.cos(yaw), np.sin(yaw)
    return lying @ np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]])


def binary_stl(vertices: np.ndarray, header: bytes = b"made by a test") -> bytes:
    """Triangles of three vertices in a row."""
    triangles = vertices[: len(vertices) // 3 * 3].reshape(-1, 9)
    packed = b"".join(struct.pack("<12fH", 0.0, 0.0, 0.0, *t, 0) for t in triangles)
    return header.ljust(80, b" ") + struct.pack("<I", len(triangles)) + packed


def text_stl(vertices: np.ndarray) -> str:
    lines = [f"  vertex {x!r} {y!r} {z!r}" for x, y, z in vertices.tolist()]
    return "solid thing\nfacet normal 0 0 1\n outer loop\n" + "\n".join(lines) + "\n endloop\nendfacet\nendsolid thing\n"


# -- fits


@given(st.floats(0.005, 5.0), st.tuples(*[st.floats(-3.0, 3.0)] * 3), st.tuples(*[st.floats(-1.0, 1.0)] * 3))
def test_a_ball_is_found(radius, centre, direction) -> None:
    if np.linalg.norm(direction) < 0.1:
        direction = DOWN
    fitted = fit_end_effector(ball(radius, centre), direction, thickness=0.4 * radius)
    assert isinstance(fitted, Sphere) and fitted.residual < 1e-9
    np.testing.assert_allclose(fitted.centre, centre, atol=EXACT)
    assert fitted.radius == pytest.approx(radius, abs=EXACT)


def test_only_the_end_of_a_leg_counts() -> None:
    shank = np.random.default_rng(0).uniform([-0.02, -0.02, 0.0], [0.02, 0.02, 0.3], size=(500, 3))
    inside = np.random.default_rng(1).uniform(-0.01, 0.01, size=(100, 3))
    fitted = fit_end_effector(np.concatenate([shank, inside, ball(0.03)]), DOWN, thickness=0.02)
    assert fitted.radius == pytest.approx(0.03, abs=EXACT)


@pytest.mark.parametrize("yaw", slow_except([0.3, 2.5], [0.0, 0.3, 1.0, np.pi / 2.0, 2.5]))
@pytest.mark.parametrize(("radius", "length"), [(0.04, 0.02), (0.02, 0.1), (0.1, 0.11)])
@pytest.mark.parametrize("rings", [2, 5])
def test_a_roller_is_found(radius: float, length: float, yaw: float, rings: int) -> None:
    fitted = fit_end_effector(roller(radius, length, yaw, rings=rings), DOWN, 0.5 * radius, "cylinder")
    assert isinstance(fitted, Cylinder)
    assert abs(fitted.axis @ [-np.sin(yaw), np.cos(yaw), 0.0]) == pytest.approx(1.0, abs=AXIS**2)
    np.testing.assert_allclose(fitted.centre, 0.0, atol=AXIS * radius)
    assert (fitted.radius, fitted.length) == pytest.approx((radius, length), rel=AXIS)
    assert len(fitted.spheres()) == 2


def test_the_wheel_of_a_tyre_is_the_larger_circle() -> None:
    turn, around = np.meshgrid(np.linspace(0.0, 2.0 * np.pi, 60, endpoint=False), np.linspace(-1.2, 1.2, 15))
    r = 0.3 + 0.05 * np.cos(around)
    tyre = np.column_stack([(r * np.cos(turn)).ravel(), (0.05 * np.sin(around)).ravel(), (r * np.sin(turn)).ravel()])
    fitted = fit_end_effector(tyre, DOWN, 0.1, "cylinder")
    assert fitted.radius == pytest.approx(0.35, rel=1e-3)
    assert abs(fitted.axis[1]) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("yaw", [0.0, 0.4, 1.2])
@pytest.mark.parametrize("radii", [(0.08, 0.04, 0.03), (0.05, 0.03, 0.06), (0.04, 0.04, 0.02)])
def test_an_ellipsoid_is_found(radii, yaw: float) -> None:
    c, s = np.cos(yaw), np.sin(yaw)
    turned = (ball(1.0, count=1000) * radii) @ np.array([[c, s, 0.0], [-s, c, 0.0], [0.0, 0.0, 1.0]]) + [0.1, -0.2, 0.3]
    fitted = fit_end_effector(turned, DOWN, 0.6 * radii[2], "ellipsoid")
    assert isinstance(fitted, Ellipsoid) and fitted.residual < EXACT
    np.testing.assert_allclose(fitted.centre, [0.1, -0.2, 0.3], atol=EXACT)
    np.testing.assert_allclose([*sorted(fitted.radii[:2]), fitted.radii[2]], [*sorted(radii[:2]), radii[2]], atol=EXACT)
    # the spheres that stand for it are inside, and the lowest reaches as low
    centres, r = (np.array(each) for each in zip(*fitted.spheres(), strict=True))
    away = (centres - fitted.centre) @ fitted.axes
    assert np.all(np.abs(away).max(axis=1) + r <= max(radii) + EXACT)
    assert np.min(centres[:, 2] - r) == pytest.approx(0.3 - radii[2], abs=EXACT)


CUBE = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])


@pytest.mark.parametrize(
    ("vertices", "options", "part"),
    [
        (CUBE, {}, "4 vertices"),
        (CUBE, {"kind": "cylinder"}, "4 vertices"),
        (np.concatenate([CUBE, 0.5 * CUBE, CUBE * [1.0, 0.5, 1.0]]), {"thickness": 0.1}, "vertices"),
        (np.random.default_rng(0).uniform([-1, -1, 0], [1, 1, 1e-6], (200, 3)), {}, "in a plane"),
        (ball(1.0) * [4.0, 1.0, 1.0], {"thickness": 1.0}, "no sphere"),
        (np.zeros((50, 3)), {}, "1 vertices"),
        (np.zeros((0, 3)), {}, "shape"),
        (np.zeros((5, 2)), {}, "shape"),
        (np.full((5, 3), np.nan), {}, "finite"),
        (ball(0.1), {"direction": (0, 0, 0)}, "leads nowhere"),
        (ball(0.1), {"direction": (0, 0)}, "direction"),
        (ball(0.1), {"thickness": 0.0}, "positive"),
        (ball(0.1), {"thickness": np.nan}, "thickness"),
        (ball(0.1), {"kind": "cone"}, "'cone'"),
        (roller(0.1, 0.5, rings=9), {"thickness": 0.1, "kind": "ellipsoid"}, "no ellipsoid"),
        (roller(0.1, 0.05, count=6), {"thickness": 0.05, "kind": "cylinder"}, "thicker"),
    ],
)
def test_refused(vertices, options, part: str) -> None:
    with pytest.raises(SimulationError, match=part) as caught:
        fit_end_effector(vertices, **options)
    assert "\n" not in str(caught.value)


# -- on a robot


def robot(mesh: Path | None, size=(1.0, 1.0, 1.0)):
    shape = Shape("mesh", size, pose((0.1, 0.0, -0.4), (np.pi / 2.0, 0.0, 0.0)), mesh=mesh)
    rotated = frame("toe", "leg", rpy=(np.pi / 2.0, 0.0, 0.0))
    return build(Description("walker", (link("leg", body(1.0), [shape]),), (), (rotated,)), "free")


def test_detected_applies_scale_and_pose(tmp_path: Path) -> None:
    (tmp_path / "foot.stl").write_bytes(binary_stl(ball(30.0, (0.0, 5.0, 0.0), count=600)))
    # millimetres, mirrored in y, which the pose turns into z
    model = robot(tmp_path / "foot.stl", (1e-3, -1e-3, 1e-3))
    (point,) = detected(model, "leg", thickness=0.015)
    assert (point.name, point.link) == ("leg_tip", 0)
    np.testing.assert_allclose(point.position, [0.1, 0.0, -0.405], atol=1e-7)
    assert point.radius == pytest.approx(0.03, abs=1e-7)
    # the same direction, in a frame whose y is the link's z
    (same,) = detected(model, "toe", direction=(0.0, -1.0, 0.0), thickness=0.015)
    np.testing.assert_allclose(same.position, point.position, atol=1e-8)


def test_detected_cylinders_have_two_ends(tmp_path: Path) -> None:
    (tmp_path / "wheel.obj").write_text("\n".join(f"v {x!r} {z!r} {y!r}" for x, y, z in roller(0.04, 0.02).tolist()))
    points = detected(robot(tmp_path / "wheel.obj"), "leg", thickness=0.02, kind="cylinder")
    assert [p.name for p in points] == ["leg_tip0", "leg_tip1"]
    assert np.linalg.norm(np.subtract(points[1].position, points[0].position)) == pytest.approx(0.02, rel=AXIS)


def test_detected_refuses(tmp_path: Path) -> None:
    with pytest.raises(SimulationError, match="no mesh file"):
        detected(robot(None), "leg")
    with pytest.raises(SimulationError, match="did you mean 'leg'"):
        detected(robot(None), "legg")
    (tmp_path / "cube.stl").write_text(text_stl(np.concatenate([CUBE, CUBE[:1]])))
    with pytest.raises(SimulationError, match="link 'leg' of robot 'walker': the slab has 4 vertices"):
        detected(robot(tmp_path / "cube.stl"), "leg", thickness=0.1)


@pytest.mark.skipif(not published.URDFS, reason="example-robot-data is not installed")
def test_published_meshes() -> None:
    vertices = read_vertices(published.FOLDER / "solo_description/meshes/stl/with_foot/solo_foot.stl")
    assert fit_end_effector(vertices, DOWN, 0.005, "cylinder").radius == pytest.approx(0.016, abs=1e-6)
    wheel = read_vertices(published.FOLDER / "tiago_description/meshes/pmb2/wheels/wheel.stl")
    assert fit_end_effector(wheel, (1.0, 0.0, 0.0), 0.02, "cylinder").radius == pytest.approx(0.0983, abs=1e-4)
