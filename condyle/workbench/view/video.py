"""Videos: frames of the software renderer, written as GIF by Pillow or as MP4 by ffmpeg (needs the extra `plot`)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.atomic_write import atomic_file
from condyle.errors import FileError, MissingExtraError, ShapeError, install_command, require
from condyle.workbench.view.camera import VIEW, framed
from condyle.workbench.view.picture import image_size, picture
from condyle.workbench.view.scene import FORCE, PLAN, PUSH, TRAIL, force_arrows, survey
from condyle.workbench.view.trajectory import Trajectory, frame_positions, sample_run, spread

if TYPE_CHECKING:
    from condyle.workbench.runs.run import Run

Progress = Callable[[int, int], object]
SUFFIXES = (".gif", ".mp4")
MOST_FRAMES = 3_000
MOST_FPS = 100.0
STRIPE = 24  # pixels: height of the colour stripes from which the palette of a GIF is made
TRACE_POINTS = 400


def save_video(
    run_or_trajectory: Run | Trajectory,
    path: str | os.PathLike[str],
    *,
    fps: float = 30.0,
    speed: float = 1.0,
    size: tuple[int, int] = (640, 360),
    dark: bool = False,
    azimuth: float = VIEW[0],
    elevation: float = VIEW[1],
    trace: bool | str = False,
    progress: Progress | None = None,
) -> None:
    """Write the motion as .gif or .mp4, seen from one camera that has all of it in view; forces are arrows, recorded polylines
    are lines with dots.

    `speed`: simulated seconds per second of video, 0.5 is slow motion. `azimuth`, `elevation`: the direction of the camera in
    degrees. `trace`: True draws the path of the centre of mass up to each frame, a name that of this frame. `progress(done,
    frames)` is called after each frame. The file appears when it is complete.
    """
    target = check_suffix(path)
    if not (np.isfinite(fps) and 0.0 < fps <= MOST_FPS):
        raise ShapeError(f"fps must be more than 0 and at most {MOST_FPS:g}, got {fps:g}")
    if not (np.isfinite(speed) and speed > 0.0):
        raise ShapeError(f"speed must be more than 0, got {speed:g}")
    size = image_size(size)
    if target.suffix.lower() == ".mp4" and (size[0] % 2 or size[1] % 2):
        raise ShapeError(f"an MP4 needs an even number of pixels each way, got {size[0]} x {size[1]}")
    require("PIL", "plot", "videos")
    duration = float(run_or_trajectory.t[-1] - run_or_trajectory.t[0])
    if duration * fps / speed > MOST_FRAMES:
        count = f"{duration * fps / speed:,.0f}"
        raise ShapeError(f"{count} frames are more than a video may have, {MOST_FRAMES:,}: raise speed or lower fps")
    shown = run_or_trajectory if isinstance(run_or_trajectory, Trajectory) else sample_run(run_or_trajectory, fps / speed)
    path_points = frame_positions(shown.robot, shown.R, shown.p, trace) if isinstance(trace, str) else shown.center
    scene = survey(shown)
    points = np.concatenate([scene.points, path_points]) if trace else scene.points
    camera = framed(points, size, azimuth=azimuth, elevation=elevation)
    which = frame_indices(shown.t, fps, speed)
    style: dict[str, Any] = {"size": size, "camera": camera, "dark": dark, "ground": scene.level, "extent": scene.extent}

    def frames() -> Iterator[np.ndarray]:
        for number, k in enumerate(which):
            arrows = force_arrows(shown, k, scene.extent)
            trail = path_points[spread(k + 1, TRACE_POINTS)] if trace and k else None
            drawn = [points[k] for points in shown.polylines]
            yield picture(shown.robot, shown.q[k], arrows=arrows, trail=trail, polylines=drawn, **style)
            if progress is not None:
                progress(number + 1, len(which))

    write_video(target, frames(), fps, size)


def frame_indices(t: np.ndarray, fps: float, speed: float) -> np.ndarray:
    """Which samples of the increasing times t (n,) are shown: the nearest to each frame's time, `speed / fps` seconds apart."""
    frames = int((t[-1] - t[0]) * fps / speed + 1e-6) + 1
    return np.asarray(np.searchsorted((t[1:] + t[:-1]) / 2.0, t[0] + np.arange(frames) * (speed / fps)))


def check_suffix(path: str | os.PathLike[str]) -> Path:
    """The path of a video, if it ends in .gif or .mp4."""
    target = Path(path)
    if target.suffix.lower() not in SUFFIXES:
        raise FileError(f"a video is written as {' or '.join(SUFFIXES)}, and '{target.name}' is neither: try {target.stem}.gif")
    return target


def write_video(path: str | os.PathLike[str], frames: Iterator[np.ndarray], fps: float, size: tuple[int, int]) -> None:
    """Encode frames (height, width, 3) uint8 as .gif or .mp4; the file appears when it is complete."""
    target = check_suffix(path)
    program = ffmpeg() if target.suffix.lower() == ".mp4" else ""
    with atomic_file(target, parents=True) as temporary:
        if program:
            _mp4(temporary, frames, fps, size, program)
        else:
            _gif(temporary, frames, fps)


def ffmpeg() -> str:
    """The path of an ffmpeg: that of the package imageio-ffmpeg, or one on the PATH."""
    with suppress(ImportError, RuntimeError):
        import imageio_ffmpeg

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    found = shutil.which("ffmpeg")
    if found is None:
        sentence = f"ffmpeg is needed for videos as MP4: {install_command('plot')}, or write a .gif"
        raise MissingExtraError(sentence, name="imageio_ffmpeg")
    return found


def _gif(path: Path, frames: Iterator[np.ndarray], fps: float) -> None:
    """By Pillow, with one palette for all frames so that none flickers. Durations are whole hundredths of a second."""
    from PIL import Image

    images: list[Any] = []
    for frame in frames:
        if not images:
            palette = Image.fromarray(_with_stripes(frame)).quantize(255, method=Image.Quantize.MEDIANCUT)
        images.append(Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE))
    ticks = np.diff(np.rint(np.arange(len(images) + 1) * (100.0 / fps)).astype(int))
    durations = [10 * max(int(tick), 2) for tick in ticks]  # browsers slow down shorter ones
    images[0].save(path, "gif", save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=False)


def _with_stripes(image: np.ndarray) -> np.ndarray:
    """The first frame above stripes in all shades of arrows and traces, which appear only in later frames."""
    shade = np.linspace(0.25, 1.15, image.shape[1])[None, :, None]
    stripes = [
        np.clip(255.0 * shade * np.array(color), 0.0, 255.0).repeat(STRIPE, axis=0) for color in (FORCE, PUSH, TRAIL, PLAN)
    ]
    return np.concatenate([image, *[stripe.astype(np.uint8) for stripe in stripes]])


def _mp4(path: Path, frames: Iterator[np.ndarray], fps: float, size: tuple[int, int], program: str) -> None:
    """By ffmpeg, as H.264 that every browser plays."""
    given = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{size[0]}x{size[1]}", "-r", f"{fps:g}", "-i", "-"]
    made = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20", "-movflags", "+faststart", "-f", "mp4"]
    command = [program, "-loglevel", "error", "-y", *given, *made, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as encoder:
        assert encoder.stdin is not None and encoder.stderr is not None
        try:
            for frame in frames:
                encoder.stdin.write(np.ascontiguousarray(frame).tobytes())
            encoder.stdin.close()
        except BrokenPipeError:
            pass
        message = encoder.stderr.read().decode(errors="replace").strip()
    if encoder.returncode:
        raise FileError(f"ffmpeg, {program}, failed: {message[:200] or encoder.returncode}; or write a .gif")
