"""Pictures without a graphics card: the camera, the pixels, light, shadow, ghosts and arrows."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condyle as cd
from condyle.errors import FileError, ShapeError
from condyle.workbench.view.camera import Camera, framed
from condyle.workbench.view.picture import grid_step, picture, png, save_picture
from condyle.workbench.view.raster import blurred, nearest, weights
from condyle.workbench.view.scene import FORCE, PUSH, Arrow, arrow_triangles, force_arrows, robot_mesh

pytest.importorskip("PIL")
SMALL = (240, 136)
READY = np.array([0.0, -np.pi / 2, np.pi / 2, -np.pi / 2, 0.0, 0.0])


@pytest.fixture(scope="module")
def arm() -> cd.Robot:
    return cd.load("ur3")


# -- the camera


def test_the_camera_projects_as_a_pinhole() -> None:
    camera = Camera((0.0, -5.0, 0.0), (0.0, 0.0, 0.0), fov=90.0)
    points = np.array([[0.0, 0.0, 0.0], [5.0, 0.0, 0.0], [0.0, 0.0, 2.5], [0.0, 5.0, 5.0]])
    pixels, depth = camera.project(points, (200, 100))
    np.testing.assert_allclose(pixels, [[100, 50], [150, 50], [100, 25], [100, 25]])
    np.testing.assert_allclose(depth, [5, 5, 5, 10])


@settings(max_examples=100)
@given(azimuth=st.floats(-180, 180), elevation=st.floats(-80, 80), wide=st.integers(100, 2000), seed=st.integers(0, 99))
def test_all_is_in_the_picture_and_fills_it(azimuth: float, elevation: float, wide: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1.0, 1.0, (20, 3)) * rng.uniform(0.1, 5.0, 3) + rng.uniform(-9.0, 9.0, 3)
    size = (wide, 500)
    pixels, depth = framed(points, size, azimuth=azimuth, elevation=elevation, margin=0.9).project(points, size)
    assert np.all(depth > 0.0)
    away = np.abs(pixels / size - 0.5) * 2.0
    assert away.max() < 0.9 + 1e-9
    assert away.max() > 0.6, "no smaller than it must be"


# -- pixels


def test_the_nearest_face_is_seen_and_every_pixel_of_it_once() -> None:
    # a square of two triangles, and a smaller one nearer in its middle
    square = np.array([[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]])
    pixels = np.concatenate([square + 5.0, square * 0.5 + 7.0])
    near = np.array([1.0] * 4 + [2.0] * 4, np.float32)
    faces = np.array([[0, 1, 2], [0, 2, 3], [4, 6, 5], [4, 7, 6]])
    seen = nearest(pixels, near, faces, (20, 20), np.ones(8, bool))
    assert np.count_nonzero(seen.face >= 0) == 100
    assert np.count_nonzero(seen.face >= 2) == 25, "faces count whichever way they turn"
    assert set(np.unique(seen.near)) == {0.0, 1.0, 2.0}


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_pixels_of_any_triangle_are_those_inside_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    corners = rng.uniform(-10.0, 40.0, (3, 2))
    near = rng.uniform(0.5, 2.0, 3).astype(np.float32)
    seen = nearest(corners, near, np.array([[0, 1, 2]]), (30, 24), np.ones(3, bool))
    y, x = np.mgrid[0:24, 0:30]
    centres = np.stack([x + 0.5, y + 0.5], axis=-1)
    a, b, c = corners
    solved = np.linalg.solve(np.column_stack([b - a, c - a]), (centres - a).reshape(-1, 2).T).T.reshape(24, 30, 2)
    parts = np.stack([1.0 - solved.sum(axis=-1), solved[..., 0], solved[..., 1]], axis=-1)
    clearly = np.abs(parts).min(axis=-1) > 1e-6
    inside = np.all(parts > 0.0, axis=-1)
    assert np.array_equal((seen.face >= 0)[clearly], inside[clearly])
    np.testing.assert_allclose(seen.near[inside & clearly], (parts @ near)[inside & clearly], rtol=1e-4)
    if np.any(inside):
        yy, xx = np.nonzero(inside & clearly)
        weight = weights(corners, near, np.array([[0, 1, 2]]), np.zeros(len(xx), int), xx, yy)
        np.testing.assert_allclose(weight.sum(axis=1), 1.0, atol=1e-4)


def test_faces_behind_the_camera_are_left_out() -> None:
    corners, usable = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]]), np.array([True, True, False])
    seen = nearest(corners, np.ones(3), np.array([[0, 1, 2]]), (9, 9), usable)
    assert np.all(seen.face == -1)


def test_a_blur_keeps_the_sum() -> None:
    mask = np.zeros((64, 64), bool)
    mask[30, 31] = True
    out = blurred(mask, 3.0)
    assert out.sum() == pytest.approx(1.0, abs=1e-5)
    assert np.unravel_index(np.argmax(out), out.shape) == (30, 31)


# -- pictures


def test_a_picture_shows_the_robot_its_shadow_and_a_scale(arm: cd.Robot) -> None:
    image = picture(arm, READY, size=SMALL)
    assert image.shape == (136, 240, 3)
    assert image.dtype == np.uint8
    r, g, b = (image[..., k].astype(int) for k in range(3))
    assert np.count_nonzero((b > r + 60) & (b > 90)) > 60, "the blue shoulder"
    bare = picture(arm, READY, size=SMALL, ground=False)
    assert np.abs(bare.astype(int) - image).max(axis=-1).mean() > 1.0
    # the ground is darker where the shadow is: some pixels outside of the robot are grey-blue
    assert np.count_nonzero((g < 190) & (g > 120) & (abs(r - b) < 40)) > 200


def test_dark_is_dark_and_the_robot_is_seen(arm: cd.Robot) -> None:
    light, dark = (picture(arm, READY, size=SMALL, dark=d).astype(int) for d in (False, True))
    assert light[:8].mean() > 200 > 60 > dark[:8].mean()
    assert np.count_nonzero(dark.max(axis=-1) > 120) > 500


def test_the_same_picture_twice(arm: cd.Robot) -> None:
    assert np.array_equal(picture(arm, READY, size=SMALL), picture(arm, READY, size=SMALL))


def test_ghosts_arrows_and_trails_are_drawn(arm: cd.Robot) -> None:
    camera = framed(robot_mesh(arm).at(*_poses(arm)).vertices, SMALL)
    alone = picture(arm, READY, size=SMALL, camera=camera).astype(int)
    rotated = READY + np.array([0.6, 0.0, 0.0, 0.0, 0.0, 0.0])
    ghost = picture(arm, READY, size=SMALL, camera=camera, ghosts=[rotated]).astype(int)
    opaque = picture(arm, rotated, size=SMALL, camera=camera).astype(int)
    there = np.abs(ghost - alone).max(axis=-1) > 8
    assert np.count_nonzero(there) > 100
    assert np.abs(ghost - alone).sum() < 0.8 * np.abs(opaque - alone).sum(), "a ghost is fainter than the robot"
    for options in (
        {"arrows": [Arrow((0.0, -0.2, 0.1), (0.0, 0.0, 0.3))]},
        {"trail": np.array([[0, -0.3, 0.1], [0.3, -0.3, 0.5]])},
    ):
        with_it = picture(arm, READY, size=SMALL, camera=camera, **options).astype(int)
        assert np.count_nonzero(np.abs(with_it - alone).max(axis=-1) > 40) > 30
    red = picture(arm, READY, size=SMALL, camera=camera, arrows=[Arrow((0.0, -0.3, 0.1), (0.0, 0.0, 0.4), FORCE, 0.02)]).astype(
        int
    )
    assert np.count_nonzero((red[..., 0] > 150) & (red[..., 2] < 90)) > 40, "forces are red-orange"


def _poses(robot: cd.Robot) -> tuple[np.ndarray, np.ndarray]:
    from condyle.workbench.view.trajectory import link_poses

    return link_poses(robot, READY)


def test_nothing_under_the_ground_is_seen() -> None:
    robot = cd.load("birotor")
    q = robot.neutral()
    q[2] = -5.0
    camera = Camera((3.0, -3.0, 1.5), (0.0, 0.0, 0.0))
    under = picture(robot, q, size=SMALL, camera=camera, ground=0.0, label=False).astype(int)
    assert under.min() > 120, "neither the robot nor its colours"
    followed = picture(robot, q, size=SMALL)
    assert np.count_nonzero(followed.min(axis=-1) < 90) > 100, "the ground goes down with a robot that is below zero"


def test_arrows_as_long_as_their_forces(arm: cd.Robot) -> None:
    points = arrow_triangles([Arrow((1.0, 0.0, 0.0), (0.0, 0.0, 0.5)), Arrow((0, 0, 0), (0, 0, 0))], 1.0).vertices
    np.testing.assert_allclose(points.max(axis=0)[2], 0.5, atol=1e-6)
    np.testing.assert_allclose(points[:, 0].mean(), 1.0, atol=1e-3)
    with pytest.raises(ShapeError, match="three finite numbers"):
        arrow_triangles([Arrow((0, 0, 0), (0, float("nan"), 0))], 1.0)


def test_the_arrow_of_a_weight_is_as_long_as_the_robot(arm: cd.Robot) -> None:
    from dataclasses import replace

    from condyle.workbench.view.trajectory import trajectory

    still = trajectory(arm, [0.0], READY[None])
    push = replace(still, push_points=np.zeros((1, 1, 3)), pushes=np.array([[[0.0, arm.mass * 9.81, 0.0]]]))
    (arrow,) = force_arrows(push, 0, 0.7)
    np.testing.assert_allclose(arrow.along, [0.0, 0.7, 0.0])
    assert arrow.color == PUSH


@pytest.mark.parametrize(("extent", "step"), [(1.0, 0.2), (0.3, 0.1), (5.0, 1.0), (0.026, 0.01), (23.0, 5.0)])
def test_squares_are_round_numbers(extent: float, step: float) -> None:
    assert grid_step(extent) == pytest.approx(step)


def test_files_and_bad_requests(arm: cd.Robot, tmp_path: Path) -> None:
    from PIL import Image

    save_picture(tmp_path / "arm.png", arm, READY, size=SMALL)
    assert np.array_equal(np.asarray(Image.open(tmp_path / "arm.png")), picture(arm, READY, size=SMALL))
    assert png(np.zeros((20, 20, 3), np.uint8))[:4] == b"\x89PNG"
    with pytest.raises(FileError):
        save_picture(tmp_path, arm, READY, size=SMALL)
    for size in ((0, 10), (10_000, 10), "ab", (100,), None):
        with pytest.raises(ShapeError, match="picture"):
            picture(arm, READY, size=size)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="trail"):
        picture(arm, READY, size=SMALL, trail=np.zeros((3, 2)))
    with pytest.raises(ShapeError, match="entries"):
        picture(arm, READY[:3], size=SMALL)


def test_polylines_are_drawn_as_lines_with_dots(arm: cd.Robot) -> None:
    points = np.array([[0.2, 0.1 * k, 0.5] for k in range(4)])
    style = {"size": SMALL, "extent": 0.8, "label": False, "camera": framed(np.concatenate([points, [[0.0, 0.0, 0.0]]]), SMALL)}
    before, after = (picture(arm, READY, **style, polylines=lines) for lines in ([], [points]))
    green = (after[..., 1].astype(int) > after[..., 0] + 40) & (after[..., 1] > after[..., 2] + 25)
    assert np.count_nonzero(green) > 60 and np.count_nonzero(np.any(before != after, axis=-1)) > 60
    with pytest.raises(ShapeError, match=r"\(n, 3\)"):
        picture(arm, READY, polylines=[points[:, :2]])
