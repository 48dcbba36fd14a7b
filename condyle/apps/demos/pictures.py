"""Pictures of the demo: each robot with its path, and all of them in one image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from condyle.apps.demos.registry import Demo
from condyle.atomic_write import write_bytes
from condyle.errors import require
from condyle.workbench.runs.run import Run
from condyle.workbench.view.camera import framed
from condyle.workbench.view.picture import picture, png
from condyle.workbench.view.scene import PUSH, Arrow, force_arrows, robot_mesh
from condyle.workbench.view.trajectory import frame_positions, sample_run

SIZE = (1200, 675)
SHORTEST, BESIDE = 0.35, 0.18  # of the robot's size: the shortest arrow of a push, and its distance from where it acts
GAP = 6  # pixels between the pictures of the montage
ROWS = (3, 2)  # pictures in each row of the montage
WIDTH = 1140


def draw(demo: Demo, run: Run, path: Path) -> None:
    """Write the robot at its time, with the path of its frame, other poses, and the forces on it."""
    robot, seen = run.robot, sample_run(run, fps=60.0)
    k, *others = (int(np.argmin(np.abs(seen.t - time))) for time in (demo.time, *demo.ghosts))
    shown = robot_mesh(robot)
    scenes = [shown.at(seen.R[i], seen.p[i]).vertices for i in (*others, k)]
    extent = float(np.max(np.ptp(scenes[-1], axis=0)))
    arrows = [_from_outside(arrow, extent) if demo.pushed else arrow for arrow in force_arrows(seen, k, extent)]
    ends = [tuple(point) for arrow in arrows for point in (arrow.start, np.add(arrow.start, arrow.along))]
    trail = frame_positions(robot, seen.R, seen.p, demo.frame)
    points = np.concatenate([*scenes, trail, np.reshape(ends, (-1, 3))])
    camera = framed(points, SIZE, azimuth=demo.view[0], elevation=demo.view[1], margin=demo.fill)
    image = picture(
        robot,
        seen.q[k],
        size=SIZE,
        camera=camera,
        ghosts=[seen.q[i] for i in others],
        arrows=arrows,
        trail=trail if len(trail) > 1 and np.ptp(trail, axis=0).max() > 1e-3 else None,
    )
    write_bytes(path, png(image))


def _from_outside(arrow: Arrow, extent: float) -> Arrow:
    """The arrow of a push, long enough to be seen, its tip beside where it acts; a force of the ground is unchanged."""
    length = float(np.linalg.norm(arrow.along))
    if arrow.color != PUSH or length == 0.0:
        return arrow
    along = np.asarray(arrow.along) * max(1.0, SHORTEST * extent / length)
    back = along * (1.0 + BESIDE * extent / np.linalg.norm(along))
    return replace(arrow, start=tuple(np.subtract(arrow.start, back)), along=tuple(along))


def montage(pictures: Sequence[tuple[str, Path]], path: Path) -> None:
    """Write one image of all pictures, three above two, each with its title."""
    image, draw_on, font = (require(f"PIL.{name}", "plot", "pictures") for name in ("Image", "ImageDraw", "ImageFont"))
    heights = [round((WIDTH - GAP * (n - 1)) / n * SIZE[1] / SIZE[0]) for n in ROWS]
    canvas = image.new("RGB", (WIDTH, sum(heights) + GAP * (len(ROWS) - 1)), "white")
    at, top = iter(pictures), 0
    for count, height in zip(ROWS, heights, strict=True):
        width = (WIDTH - GAP * (count - 1)) // count
        for column in range(count):
            title, source = next(at, ("", None))
            if source is None:
                break
            with image.open(source) as one:
                small = one.convert("RGB").resize((width, height), image.Resampling.LANCZOS)
            draw_on.Draw(small).text((14, 10), title, fill=(34, 37, 43), font=font.load_default(17))
            canvas.paste(small, (column * (width + GAP), top))
        top += height + GAP
    write_bytes(path, png(np.asarray(canvas)))
