"""Films: a figure that changes from frame to frame, written as GIF or MP4 (needs the extra `plot`)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

import numpy as np

from condyle.atomic_write import atomic_file
from condyle.errors import FileError, MissingExtraError, ShapeError, SimulationError, install_command, require

Progress = Callable[[int, int], object]
SUFFIXES = (".gif", ".mp4")
BLUE, RED, BLACK, INK, FAINT = INKS = ("#2a6bbf", "#cc3a2e", "#000000", "#22252b", "#8b909a")
MOST_FRAMES = 20_000  # eleven minutes at thirty a second
SHADES = 12  # of each ink on white, in a GIF
PIXELS = (840, 460)  # even, as H.264 wants them
DPI = 100


def figure() -> Any:
    """An empty matplotlib figure of the size of a film, on no screen."""
    require("matplotlib", "plot", "pictures and films")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    out = Figure(figsize=(PIXELS[0] / DPI, PIXELS[1] / DPI), dpi=DPI, facecolor="white")
    FigureCanvasAgg(out)
    return out


def frame_indices(t: Any, fps: float, speed: float) -> np.ndarray:
    """Which samples of the times t are shown: the nearest to each frame's time, frames `speed / fps` seconds apart."""
    times = np.asarray(t, dtype=float)
    if times.ndim != 1 or len(times) == 0:
        raise ShapeError(f"t must have shape (frames,), got {times.shape}")
    if not np.all(np.isfinite(times)) or not np.all(np.diff(times) > 0.0):
        raise SimulationError("t must be finite and increase from each time to the next")
    for name, value in (("fps", fps), ("speed", speed)):
        if not (np.isfinite(value) and value > 0.0):
            raise SimulationError(f"{name} must be a positive number, got {value}")
    count = (times[-1] - times[0]) * fps / speed
    if count >= MOST_FRAMES:
        raise SimulationError(f"{count:,.0f} frames are more than a film may have, {MOST_FRAMES:,}: raise speed or lower fps")
    shown = times[0] + np.arange(int(count + 1e-6) + 1) * (speed / fps)
    halfway = (times[1:] + times[:-1]) / 2.0
    return np.asarray(np.searchsorted(halfway, shown))


def write_movie(
    path: str | os.PathLike[str],
    of: Any,
    show: Callable[[int], object],
    frames: int,
    *,
    fps: float,
    progress: Progress | None = None,
) -> None:
    """Call `show(k)` for each frame, which changes the figure `of`, and write what it shows; the suffix decides the format.

    The file appears at once, when it is complete: an interrupted film leaves what was there before. `progress(done, frames)` is
    called after each frame.
    """
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise FileError(f"'{target}': a film is written as {' or '.join(SUFFIXES)}, got the suffix '{target.suffix}'")
    films = {".gif": _gif, ".mp4": _mp4}
    program = ffmpeg() if suffix == ".mp4" else ""

    def pictures() -> Iterator[None]:
        for k in range(frames):
            show(k)
            yield
            if progress is not None:
                progress(k + 1, frames)

    with atomic_file(target, suffix=suffix, parents=True) as temporary:
        films[suffix](temporary, of, pictures(), fps, program)


def ffmpeg() -> str:
    """The path of an ffmpeg: that of the package imageio-ffmpeg, or one of this machine."""
    with suppress(ImportError, RuntimeError):
        import imageio_ffmpeg

        return str(imageio_ffmpeg.get_ffmpeg_exe())
    found = shutil.which("ffmpeg")
    if found is None:
        raise MissingExtraError(
            f"ffmpeg is needed for films as MP4: {install_command('plot')}, or write a .gif", name="imageio_ffmpeg"
        )
    return found


def _gif(path: Path, of: Any, pictures: Iterator[None], fps: float, _: str) -> None:
    """By Pillow. A GIF counts in hundredths of a second: frames get 3, 3 and 4 of them, where each should have 3.33."""
    require("PIL", "plot", "films as GIF")
    from PIL import Image

    palette, nearest = _palette()
    images: list[Any] = []
    for _frame in pictures:
        of.canvas.draw()
        r, g, b = np.moveaxis(np.asarray(of.canvas.buffer_rgba())[..., :3] >> 3, -1, 0).astype(np.uint16)
        shades = nearest[(r << 10) | (g << 5) | b]
        image = Image.frombytes("P", shades.shape[::-1], shades.tobytes())
        image.putpalette(palette.tobytes())
        images.append(image)
    ticks = np.diff(np.rint(np.arange(len(images) + 1) * (100.0 / fps)).astype(int))
    durations = [10 * max(int(tick), 2) for tick in ticks]  # shorter ones are shown slowly by browsers
    images[0].save(path, "gif", save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=False)


def _palette() -> tuple[np.ndarray, np.ndarray]:
    """(colors, (n, 3); the nearest of them for every color of five bits each): the same for all frames, so that none flickers."""
    inks = np.array([[int(ink[i : i + 2], 16) for i in (1, 3, 5)] for ink in INKS], dtype=float)
    shade = np.linspace(0.0, 1.0, SHADES)[:, None, None]
    colors = np.unique(np.rint((1.0 - shade) * inks + shade * 255.0).astype(np.uint8).reshape(-1, 3), axis=0)
    level = np.arange(32) * 8.0 + 4.0
    cells = np.stack(np.meshgrid(level, level, level, indexing="ij"), axis=-1).reshape(-1, 1, 3)
    distance = ((cells - colors) ** 2).sum(axis=-1)
    return colors, distance.argmin(axis=1).astype(np.uint8)


def _mp4(path: Path, of: Any, pictures: Iterator[None], fps: float, program: str) -> None:
    """By ffmpeg, as H.264 that every browser plays."""
    import matplotlib
    from matplotlib.animation import FFMpegWriter

    rate: Any = fps  # matplotlib's types want a whole number; ffmpeg takes any
    options = ["-pix_fmt", "yuv420p", "-crf", "20", "-movflags", "+faststart"]
    with matplotlib.rc_context({"animation.ffmpeg_path": program}):
        writer = FFMpegWriter(fps=rate, codec="libx264", extra_args=options)
        try:
            with writer.saving(of, str(path), DPI):
                for _frame in pictures:
                    writer.grab_frame()
        except CalledProcessError as error:
            raise FileError(f"ffmpeg, {program}, gave up with the exit status {error.returncode}; or write a .gif") from error
