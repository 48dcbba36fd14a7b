"""Films have the frames, size and speed they should; what is drawn is where the robot is; and a file is whole or not there."""

import shutil
import sys
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
from constraints import wheel_closed_form as wheel
from matplotlib.figure import Figure
from PIL import Image

from condyle.errors import FileError, MissingExtraError, ShapeError, SimulationError
from condyle.multibody.robot import load
from condyle.view import animate
from condyle.view import video as movie
from condyle.view.animate import animate_path, animate_wheeled_pendulum, draw_path, draw_wheeled_pendulum

ROUNDING = 1e-15  # of a height of some decimetres


def fall(seconds: float = 0.5, phi: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """(t, q) of a passive fall, rolling without slip."""
    t, y, dy = wheel.fall(wheel.forward_dynamics, phi, seconds, 200)
    # r (phi + theta) is the way of the wheel's centre
    theta = (y[:, 0] - wheel.LENGTH * np.sin(y[:, 1])) / wheel.RADIUS - y[:, 1]
    return t, np.array([wheel.lift(a, b, angle)[0] for a, b, angle in zip(y, dy, theta, strict=True)])


def figure_of_eight(count: int = 161) -> tuple[np.ndarray, np.ndarray]:
    """(t, q) of the two-wheeled robot, upright, (count, 8)."""
    t = np.linspace(0.0, 2.0, count)
    x, y = np.sin(np.pi * t), 0.5 * np.sin(2.0 * np.pi * t)
    yaw = np.unwrap(np.arctan2(np.cos(2.0 * np.pi * t), np.cos(np.pi * t)))
    return t, np.column_stack([x, y, np.full(count, 0.24), yaw, np.zeros((count, 4))])


# -- what is drawn


def test_the_pendulum_is_where_its_frames_are() -> None:
    robot = load("wheeled_pendulum")
    t, q = fall()
    for row in q[::40]:
        drawing = draw_wheeled_pendulum(Figure().add_subplot(), row)
        (_, top), (R, center) = robot.frame_pose(row, "top"), robot.frame_pose(row, "center")
        np.testing.assert_allclose(np.transpose(drawing.body.get_data()), [top[[0, 2]], center[[0, 2]]], atol=ROUNDING)
        np.testing.assert_allclose(drawing.wheel.center, center[[0, 2]], atol=ROUNDING)
        # the spoke is the wheel's own x axis
        rim = np.transpose(drawing.spoke.get_data())[1]
        np.testing.assert_allclose(rim, (center + wheel.RADIUS * R[:, 0])[[0, 2]], atol=1e-14)
    assert len(t) == len(q)


def test_the_contact_stays_on_the_ground_line() -> None:
    axes = Figure().add_subplot()
    _, q = fall()
    drawing = draw_wheeled_pendulum(axes, q[0])
    (ground,) = set(drawing.ground.get_ydata())
    for row in q:
        drawing.show(row)
        ((x,), (z,)) = drawing.contact.get_data()
        assert abs(z - ground) < ROUNDING
        assert x == pytest.approx(row[0] - wheel.LENGTH * np.sin(row[2]), abs=ROUNDING)
    # one that is lifted is drawn lifted: the dot comes from q, not from the ground
    drawing.show(q[0] + [0.0, 0.05, 0.0, 0.0])
    assert drawing.contact.get_ydata()[0] == pytest.approx(0.05)


def test_a_picture_has_equal_scales_and_shows_all() -> None:
    axes = Figure().add_subplot()
    draw_wheeled_pendulum(axes, [3.0, 0.24, 0.0, 0.0])
    assert axes.get_aspect() == 1.0
    (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
    assert left < 3.0 - wheel.RADIUS and right > 3.0 + wheel.RADIUS and low < 0.0 and high > 0.24


def test_the_axle_is_where_its_frames_are() -> None:
    robot = load("two_wheeled")
    q = np.random.default_rng(0).normal(size=(5, 8))
    found = animate.axle(q)
    for name, points in zip(("axle", "left_center", "right_center"), found, strict=True):
        for row, point in zip(q, points, strict=True):
            np.testing.assert_allclose(point, robot.frame_pose(row, name)[1], atol=1e-14)


def test_a_path_has_the_robot_at_each_station() -> None:
    axes = Figure().add_subplot()
    _, q = figure_of_eight()
    way = draw_path(axes, q, stations=5, reference=q[:, :2])
    np.testing.assert_array_equal(np.transpose(way.get_data()), animate.axle(q)[0][:, :2])
    assert len(axes.lines) == 2 + 5 * 6 and axes.get_aspect() == 1.0


def test_the_camera_follows_only_when_it_must() -> None:
    x = np.array([0.0, 0.4, -0.4, 0.9, 0.7, 5.0])
    np.testing.assert_allclose(animate._followed(x, 0.5), [0.0, 0.0, 0.0, 0.4, 0.4, 4.5])


# -- films


@pytest.mark.parametrize(("seconds", "fps", "speed", "frames"), [(0.5, 30, 1.0, 16), (0.5, 25, 0.5, 26), (0.5, 20, 2.0, 6)])
def test_gif(tmp_path: Path, seconds: float, fps: float, speed: float, frames: int) -> None:
    t, q = fall(seconds)
    seen: list[tuple[int, int]] = []
    path = tmp_path / "new" / "fall.gif"
    animate_wheeled_pendulum(path, t, q, fps=fps, speed=speed, progress=lambda done, total: seen.append((done, total)))
    with Image.open(path) as image:
        assert image.n_frames == frames and image.size == movie.PIXELS
        durations = []
        for k in range(frames):
            image.seek(k)
            durations.append(image.info["duration"])
    # the film is as long as its frames ask for, though a GIF counts in hundredths of a second
    assert sum(durations) == pytest.approx(1000.0 * frames / fps, abs=5.0)
    assert seen == [(k + 1, frames) for k in range(frames)]
    assert [file.name for file in path.parent.iterdir()] == ["fall.gif"]


def test_a_gif_shows_the_inks(tmp_path: Path) -> None:
    """White paper, a black ground, a blue body and a red wheel, in the last frame as in the first."""
    t, q = fall(0.2)
    animate_wheeled_pendulum(tmp_path / "fall.gif", t, q)
    with Image.open(tmp_path / "fall.gif") as image:
        for k in (0, image.n_frames - 1):
            image.seek(k)
            pixels = np.asarray(image.convert("RGB")).reshape(-1, 3)
            assert tuple(pixels[0]) == (255, 255, 255)
            colors = {tuple(map(int, color)) for color in np.unique(pixels, axis=0)}
            assert {(0, 0, 0), (0x2A, 0x6B, 0xBF), (0xCC, 0x3A, 0x2E)} <= colors


def test_mp4(tmp_path: Path) -> None:
    t, q = fall(0.5)
    path = tmp_path / "fall.mp4"
    animate_wheeled_pendulum(path, t, q, {"energy, J": np.ones(len(t)), "drift, J": 1e-9 * np.sin(t)})
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(path))
    assert frames == 16 and seconds == pytest.approx(16 / 30, abs=0.04)
    about = next(imageio_ffmpeg.read_frames(str(path)))
    assert about["size"] == movie.PIXELS and about["fps"] == 30.0 and about["codec"] == "h264"
    assert [file.name for file in tmp_path.iterdir()] == ["fall.mp4"]


def test_path_film(tmp_path: Path) -> None:
    t, q = figure_of_eight()
    animate_path(tmp_path / "eight.gif", t, q, {"off, mm": np.zeros(len(t))}, reference=q[:, :2], fps=10)
    with Image.open(tmp_path / "eight.gif") as image:
        assert image.n_frames == 21 and image.size == movie.PIXELS


def test_no_text_is_cut_off_or_lies_on_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many numbers as there is room for, and long names."""
    t, q = fall(0.1)
    figures = []
    monkeypatch.setattr(animate, "figure", lambda: figures.append(movie.figure()) or figures[0])
    names = {f"height of some other thing {k}, N m": np.full(len(t), -123.456) for k in range(3)}
    animate_wheeled_pendulum(tmp_path / "text.gif", t, q, names, fps=10)
    figure = figures[0]
    (axes,) = figure.axes
    texts = [*figure.texts, axes.xaxis.label, axes.yaxis.label]
    boxes = [text.get_window_extent() for text in texts]
    for text, box in zip(texts, boxes, strict=True):
        assert box.x0 >= 0 and box.y0 >= 0 and box.x1 <= movie.PIXELS[0] and box.y1 <= movie.PIXELS[1], text.get_text()
    panel = boxes[: len(figure.texts)]
    assert len(panel) == 2 * animate.MOST_NUMBERS
    assert all(not a.overlaps(b) for k, a in enumerate(panel) for b in panel[:k])
    assert all(box.x0 > axes.get_window_extent().x1 for box in panel)


def test_a_number_that_rounds_to_nothing_has_no_sign() -> None:
    written = animate._written(np.array([-1e-17, 0.0]), "height")
    assert f"{-1e-17:z{written}}".strip() == "0.0000"
    assert f"{-1.5e-6:z{animate._written(np.array([-1.5e-6]), 'drift')}}" == "-1.5e-06"
    assert f"{12.3456:z{animate._written(np.array([12.3456]), 'force')}}".strip() == "12.35"


# -- what goes wrong


def test_an_interrupted_film_leaves_the_old_file(tmp_path: Path) -> None:
    t, q = fall(0.2)
    for suffix in movie.SUFFIXES:
        path = tmp_path / f"fall{suffix}"
        path.write_bytes(b"old")

        def stop(done: int, total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            animate_wheeled_pendulum(path, t, q, progress=stop)
        assert path.read_bytes() == b"old"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["fall.gif", "fall.mp4"]


def test_without_ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    t, q = fall(0.1)
    with pytest.raises(
        MissingExtraError, match=r"^ffmpeg is needed for films as MP4: .*pip install .*\[plot\]', or write a \.gif$"
    ):
        animate_wheeled_pendulum(tmp_path / "fall.mp4", t, q)
    assert not list(tmp_path.iterdir())
    # that of the machine serves as well
    monkeypatch.setattr(shutil, "which", lambda name: f"/opt/{name}")
    assert movie.ffmpeg() == "/opt/ffmpeg"


def test_an_ffmpeg_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\ncat > /dev/null\nexit 7\n")
    broken.chmod(0o755)
    monkeypatch.setattr(movie, "ffmpeg", lambda: str(broken))
    t, q = fall(0.1)
    with pytest.raises(FileError, match=r"ffmpeg, .*broken, gave up with the exit status 7; or write a \.gif"):
        animate_wheeled_pendulum(tmp_path / "fall.mp4", t, q)
    assert [file.name for file in tmp_path.iterdir()] == ["broken"]


@pytest.mark.parametrize(
    ("changed", "error", "sentence"),
    [
        ({"path": "film.avi"}, FileError, r"'.*film\.avi': a film is written as \.gif or \.mp4, got the suffix '\.avi'"),
        ({"path": "film"}, FileError, r"got the suffix ''"),
        ({"q": np.zeros((3, 5))}, ShapeError, r"q must have shape \(3, 4\) with rows \(x, z, phi, theta\), got \(3, 5\)"),
        ({"q": np.zeros((2, 4))}, ShapeError, r"q must have shape \(3, 4\) .* got \(2, 4\)"),
        ({"q": [[0.0] * 4, [np.nan] * 4, [0.0] * 4]}, SimulationError, r"q\[1\] is not finite and cannot be drawn"),
        ({"t": [[0.0], [1.0], [2.0]]}, ShapeError, r"t must have shape \(frames,\), got \(3, 1\)"),
        ({"t": [0.0, 0.0, 1.0]}, SimulationError, r"t must be finite and increase from each time to the next"),
        ({"fps": 0}, SimulationError, r"fps must be a positive number, got 0"),
        ({"speed": np.nan}, SimulationError, r"speed must be a positive number, got nan"),
        ({"speed": 1e-4}, SimulationError, r"60,000 frames are more than a film may have, 20,000: raise speed or lower fps"),
        ({"numbers": {"force, N": [1.0]}}, ShapeError, r"numbers\['force, N'\] must have shape \(3,\), one for each time, got"),
        ({"numbers": {"m" * 27 + ", N": [1.0] * 3}}, ShapeError, r"'mmm.*, N' is \d+ pixels wider than the room .*: shorten it"),
        ({"numbers": {"m, " + 27 * "N": [1.0] * 3}}, ShapeError, r"'m, NNN.*' is \d+ pixels wider than the room"),
        ({"numbers": {c: [1.0] * 3 for c in "abcd"}}, ShapeError, r"there is room for 7 numbers beside the picture, got 8: time"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(tmp_path: Path, changed, error, sentence) -> None:
    given = {"path": "film.gif", "t": [0.0, 0.1, 0.2], "q": np.tile([0.0, 0.24, 0.0, 0.0], (3, 1)), **changed}
    given["path"] = tmp_path / given["path"]
    with pytest.raises(error, match=sentence):
        animate_wheeled_pendulum(**given)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    t, q = fall(0.1)
    with pytest.raises(
        FileError, match=r"fall\.gif cannot be written \(.*\): the folder must exist, allow writing and have room"
    ):
        animate_wheeled_pendulum(tmp_path / "file" / "fall.gif", t, q)


def test_paths_that_are_none() -> None:
    axes = Figure().add_subplot()
    with pytest.raises(
        ShapeError, match=r"q must have shape \(times, 6 or more\) with rows \(x, y, z, yaw, pitch, roll, \.\.\.\), got"
    ):
        draw_path(axes, np.zeros((4, 5)))
    with pytest.raises(ShapeError, match=r"reference must have shape \(points, 2\), got \(4, 3\)"):
        draw_path(axes, np.zeros((4, 8)), reference=np.zeros((4, 3)))
