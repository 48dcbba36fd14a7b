"""Videos have the frames, size and speed that are asked for, the path is drawn, and a file is complete or not there."""

import shutil
import sys
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest
from markers import slow_except
from PIL import Image

import condyle as cd
from condyle.errors import FileError, MissingExtraError, ShapeError
from condyle.workbench.view import video
from condyle.workbench.view.scene import TRAIL
from condyle.workbench.view.trajectory import Trajectory, trajectory
from condyle.workbench.view.video import frame_indices, save_video

SIZE = (96, 54)


@pytest.fixture(scope="module")
def turning() -> Trajectory:
    """Half a second of an arm that turns, with 201 samples."""
    t = np.linspace(0.0, 0.5, 201)
    return trajectory(cd.load("double_pendulum"), t, np.stack([2.0 * t, 0.0 * t], axis=1))


@pytest.mark.parametrize(("fps", "speed", "frames"), slow_except([(30, 1.0, 16)], [(30, 1.0, 16), (25, 0.5, 26), (20, 2.0, 6)]))
def test_gif(tmp_path: Path, turning: Trajectory, fps: float, speed: float, frames: int) -> None:
    seen: list[tuple[int, int]] = []
    path = tmp_path / "new" / "arm.gif"
    save_video(turning, path, fps=fps, speed=speed, size=SIZE, progress=lambda done, total: seen.append((done, total)))
    with Image.open(path) as image:
        assert image.n_frames == frames and image.size == SIZE
        durations = []
        for k in range(frames):
            image.seek(k)
            durations.append(image.info["duration"])
    # the video is as long as its frames ask for, though a GIF counts in hundredths of a second
    assert sum(durations) == pytest.approx(1000.0 * frames / fps, abs=5.0)
    assert seen == [(k + 1, frames) for k in range(frames)]
    assert [file.name for file in path.parent.iterdir()] == ["arm.gif"]


@pytest.mark.slow
def test_mp4(tmp_path: Path, turning: Trajectory) -> None:
    path = tmp_path / "arm.mp4"
    save_video(turning, path, size=SIZE)
    frames, seconds = imageio_ffmpeg.count_frames_and_secs(str(path))
    assert frames == 16 and seconds == pytest.approx(16 / 30, abs=0.04)
    about = next(imageio_ffmpeg.read_frames(str(path)))
    assert about["size"] == SIZE and about["fps"] == 30.0 and about["codec"] == "h264"
    assert [file.name for file in tmp_path.iterdir()] == ["arm.mp4"]


def test_frames_are_at_their_times_though_samples_are_few_or_uneven() -> None:
    t = np.array([0.0, 0.1, 0.15, 0.4])
    assert frame_indices(t, 20.0, 1.0).tolist() == [0, 0, 1, 2, 2, 2, 3, 3, 3]
    assert frame_indices(t, 10.0, 2.0).tolist() == [0, 2, 3]
    assert frame_indices(t[:1], 30.0, 1.0).tolist() == [0]


def test_the_path_is_drawn_as_far_as_it_was_travelled(monkeypatch: pytest.MonkeyPatch, turning: Trajectory) -> None:
    shown: list[np.ndarray] = []
    monkeypatch.setattr(video, "write_video", lambda path, frames, fps, size: shown.extend(frames))
    tip = turning.robot.model.frames[-1].name
    save_video(turning, "arm.gif", fps=10, size=(320, 180), trace=tip)
    blue = [int(np.sum(np.abs(frame / 255.0 - TRAIL).max(axis=-1) < 0.2)) for frame in shown]
    assert len(shown) == 6 and blue[0] < blue[2] < blue[-1]


def test_an_interrupted_video_leaves_the_old_file(tmp_path: Path, turning: Trajectory) -> None:
    for suffix in video.SUFFIXES:
        path = tmp_path / f"arm{suffix}"
        path.write_bytes(b"old")

        def stop(done: int, total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            save_video(turning, path, size=SIZE, progress=stop)
        assert path.read_bytes() == b"old"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["arm.gif", "arm.mp4"]


def test_without_ffmpeg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turning: Trajectory) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(
        MissingExtraError, match=r"^ffmpeg is needed for videos as MP4: .*pip install .*\[plot\]', or write a \.gif$"
    ):
        save_video(turning, tmp_path / "arm.mp4", size=SIZE)
    assert not list(tmp_path.iterdir())
    # one on the PATH serves as well
    monkeypatch.setattr(shutil, "which", lambda name: f"/opt/{name}")
    assert video.ffmpeg() == "/opt/ffmpeg"


def test_an_ffmpeg_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turning: Trajectory) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\ncat > /dev/null\nexit 7\n")
    broken.chmod(0o755)
    monkeypatch.setattr(video, "ffmpeg", lambda: str(broken))
    with pytest.raises(FileError, match=r"ffmpeg, .*broken, failed: 7; or write a \.gif"):
        save_video(turning, tmp_path / "arm.mp4", size=SIZE)
    assert [file.name for file in tmp_path.iterdir()] == ["broken"]


@pytest.mark.parametrize(
    ("name", "options", "error", "sentence"),
    [
        ("video.avi", {}, FileError, r"a video is written as \.gif or \.mp4, and 'video\.avi' is neither: try video\.gif"),
        ("video", {}, FileError, r"'video' is neither"),
        ("video.gif", {"fps": 0}, ShapeError, r"fps must be more than 0 and at most 100, got 0"),
        ("video.gif", {"speed": np.nan}, ShapeError, r"speed must be more than 0, got nan"),
        ("video.gif", {"speed": 1e-4}, ShapeError, r"150,000 frames are more than a video may have, 3,000: raise speed"),
        ("video.mp4", {"size": (101, 60)}, ShapeError, r"an even number of pixels each way, got 101 x 60"),
        ("video.gif", {"size": (5, 5)}, ShapeError, r"16 to 4096 pixels each way, got 5 x 5"),
    ],
)
def test_errors_say_what_is_wrong(tmp_path: Path, turning: Trajectory, name, options, error, sentence) -> None:
    with pytest.raises(error, match=sentence):
        save_video(turning, tmp_path / name, **options)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made(tmp_path: Path, turning: Trajectory) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"arm\.gif cannot be written \(.*\): the folder must exist, allow writing"):
        save_video(turning, tmp_path / "file" / "arm.gif", size=SIZE)
