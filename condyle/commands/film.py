"""A film of a run: the robot as it moves, with the forces of the ground and the pushes as arrows."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from condyle.atomic_write import atomic_file
from condyle.commands.bar import bar
from condyle.errors import CondyleError, FileError, require
from condyle.runs.run import Run
from condyle.view.camera import framed
from condyle.view.picture import picture
from condyle.view.scene import FORCE, PUSH, body, force_arrows
from condyle.view.trajectory import Trajectory, sample_run
from condyle.view.video import SUFFIXES, ffmpeg

SIZE = (640, 360)  # even, as H.264 wants them
MOST_PICTURES = 3000
STRIPE = 24  # pixels
POSES = 12  # of the run, which must all be in the picture


def check_suffix(path: Path) -> None:
    if path.suffix.lower() not in SUFFIXES:
        raise CondyleError(f"a film is written as {' or '.join(SUFFIXES)}, and {path.name} is neither: try {path.stem}.gif")


def write_film(run: Run, path: Path, fps: float, console: Console) -> None:
    """Write the film (needs the extra `plot`); the file appears when it is complete."""
    check_suffix(path)
    if not (np.isfinite(fps) and 0.0 < fps <= 100.0):
        raise CondyleError(f"--fps must be more than 0 and at most 100, got {fps:g}")
    count = float(run.t[-1]) * fps
    if count > MOST_PICTURES:
        raise CondyleError(f"{count:,.0f} pictures are more than a film may have, {MOST_PICTURES:,}: lower --fps")
    require("PIL", "plot", "films")
    program = ffmpeg() if path.suffix.lower() == ".mp4" else ""
    with bar(console) as say:
        say("looking", 0, 1)
        seen = sample_run(run, fps)

        def pictures() -> Iterator[np.ndarray]:
            for k, image in enumerate(_pictures(seen)):
                yield image
                say(f"drawing {path.name}", k + 1, len(seen))

        with atomic_file(path) as temporary:
            if program:
                _mp4(Path(temporary), pictures(), fps, program)
            else:
                _gif(Path(temporary), pictures(), fps)


def _pictures(seen: Trajectory) -> Iterator[np.ndarray]:
    """All pictures from one place, from which the whole way can be seen."""
    shown = body(seen.robot)
    some = np.unique(np.linspace(0, len(seen) - 1, POSES).astype(int))
    points = np.concatenate([shown.at(seen.R[k], seen.p[k]).vertices for k in some])
    if not len(points):
        points = np.array([[-0.1] * 3, [0.1] * 3])
    camera = framed(points, SIZE)
    first = shown.at(seen.R[0], seen.p[0]).vertices
    size = float(np.ptp(first, axis=0).max()) if len(first) else 0.2
    for k in range(len(seen)):
        yield picture(seen.robot, seen.q[k], size=SIZE, camera=camera, arrows=force_arrows(seen, k, size))


def _gif(path: Path, pictures: Iterator[np.ndarray], fps: float) -> None:
    """By Pillow, with the colours of the first picture. A GIF counts in hundredths of a second, so that frames differ by one."""
    from PIL import Image

    images: list[Any] = []
    for picture_ in pictures:
        image = Image.fromarray(picture_)
        if not images:
            palette = Image.fromarray(_with_inks(picture_)).quantize(255, method=Image.Quantize.MEDIANCUT)
        images.append(image.quantize(palette=palette, dither=Image.Dither.NONE))
    ticks = np.diff(np.rint(np.arange(len(images) + 1) * (100.0 / fps)).astype(int))
    durations = [10 * max(int(tick), 2) for tick in ticks]  # shorter ones are shown slowly by browsers
    images[0].save(path, "gif", save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=False)


def _with_inks(image: np.ndarray) -> np.ndarray:
    """A picture above stripes in all shades of the arrows, which it may not show yet."""
    shade = np.linspace(0.25, 1.15, image.shape[1])[None, :, None]
    stripes = [np.clip(255.0 * shade * np.array(ink), 0.0, 255.0).repeat(STRIPE, axis=0) for ink in (FORCE, PUSH)]
    return np.concatenate([image, *[stripe.astype(np.uint8) for stripe in stripes]])


def _mp4(path: Path, pictures: Iterator[np.ndarray], fps: float, program: str) -> None:
    """By ffmpeg, as H.264 that every browser plays."""
    given = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{SIZE[0]}x{SIZE[1]}", "-r", f"{fps:g}", "-i", "-"]
    made = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "20", "-movflags", "+faststart", "-f", "mp4"]
    command = [program, "-loglevel", "error", "-y", *given, *made, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as encoder:
        assert encoder.stdin is not None and encoder.stderr is not None
        try:
            for image in pictures:
                encoder.stdin.write(np.ascontiguousarray(image).tobytes())
            encoder.stdin.close()
        except BrokenPipeError:
            pass
        said = encoder.stderr.read().decode(errors="replace").strip()
    if encoder.returncode:
        raise FileError(f"ffmpeg, {program}, gave up: {said[:200] or encoder.returncode}; or write a .gif")
