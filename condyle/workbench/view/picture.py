"""A picture of a robot without any graphics card: triangles, light, shadow, a ground with a scale, in NumPy and Pillow."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np

from condyle.atomic_write import write_bytes
from condyle.errors import ShapeError, require
from condyle.multibody.robot import Robot
from condyle.workbench.view.camera import NEAR_PLANE, Camera, framed
from condyle.workbench.view.plots import round_up
from condyle.workbench.view.raster import Shadow, nearest, weights
from condyle.workbench.view.scene import (
    NO_POINTS,
    Arrow,
    Rgb,
    Triangles,
    arrow_triangles,
    ground_level,
    polyline_triangles,
    robot_mesh,
    trail_triangles,
)
from condyle.workbench.view.trajectory import link_poses

SQUARES = 5.0  # about so many to the robot's size
FADE = (1.3, 6.0)  # of the robot's size: the ground is clear up to here, and lost in the background from there on
FINE = 2  # pixels of the renderer for one of the picture, each way
MAX_PIXELS = 4096  # pixels, each way
GHOSTS = (0.26, 0.50)  # how opaque the first and the last ghost are
GAMMA = 2.2


@dataclass(frozen=True)
class Theme:
    """Colours and lights, by default those of a light picture: colours are sRGB from 0 to 1, lights are linear."""

    above: Rgb = (0.865, 0.895, 0.930)  # the background at the top
    horizon: Rgb = (0.955, 0.962, 0.970)  # the background elsewhere, and the ground far away
    floor: Rgb = (0.985, 0.987, 0.990)  # the ground near the robot
    line: Rgb = (0.60, 0.65, 0.71)  # of the grid
    line_strength: float = 0.62
    shade: Rgb = (0.43, 0.47, 0.54)  # the ground in full shadow
    ghost: Rgb = (0.62, 0.70, 0.82)
    ink: tuple[int, int, int] = (96, 104, 116)
    sky: Rgb = (0.50, 0.53, 0.58)  # light from above
    bounce: Rgb = (0.28, 0.27, 0.26)  # light from below
    key: Rgb = (0.88, 0.85, 0.80)  # the lamp
    shine: float = 0.32
    rim: float = 0.16


LIGHT = Theme()
DARK = Theme(
    above=(0.055, 0.062, 0.078),
    horizon=(0.092, 0.102, 0.122),
    floor=(0.135, 0.147, 0.172),
    line=(0.36, 0.40, 0.46),
    line_strength=0.60,
    shade=(0.035, 0.040, 0.050),
    ghost=(0.42, 0.52, 0.68),
    ink=(150, 158, 172),
    sky=(0.34, 0.38, 0.46),
    bounce=(0.13, 0.13, 0.15),
    key=(0.92, 0.88, 0.82),
    shine=0.32,
    rim=0.34,
)


@dataclass(frozen=True, eq=False)
class Stage:
    """What a picture has around its robot: the height of the ground, None for none, and the size of the robot, m."""

    camera: Camera
    size: tuple[int, int]
    level: float | None
    extent: float
    shadow: Shadow
    theme: Theme


def picture(
    robot: Robot,
    q: Any,
    *,
    size: tuple[int, int] = (960, 540),
    camera: Camera | None = None,
    dark: bool = False,
    ghosts: Sequence[Any] = (),
    arrows: Iterable[Arrow] = (),
    ground: bool | float = True,
    trail: Any = None,
    polylines: Sequence[Any] = (),
    which: str = "visual",
    label: bool = True,
    extent: float | None = None,
) -> np.ndarray:
    """The robot at q as a picture (height, width, 3) uint8, y down.

    `ghosts`: earlier configurations, shown translucent. `arrows`: see scene.Arrow. `ground`: its height; True is zero, or the
    lowest point of a robot that reaches below it. `trail`: points (n, 3), or a list of such. `polylines`: lists of points (n, 3)
    with a dot at each. `camera`: framed(...) makes one; by default all that is shown is in the picture. `extent`: the robot's
    size in metres, which sets the grid and the thickness of arrows; by default that of this configuration.
    """
    width, height = image_size(size)
    shown = robot_mesh(robot, which)
    scenes = [shown.at(*link_poses(robot, each)) for each in (*ghosts, q)]
    main = scenes[-1]
    points = np.concatenate([scene.vertices for scene in scenes]) if len(main.vertices) else NO_POINTS
    if extent is None:
        own = main.vertices if len(main.vertices) else points
        extent = max(float(np.linalg.norm(own.max(axis=0) - own.min(axis=0))), 1e-6)
    trails = [] if trail is None else [trail] if np.ndim(trail) == 2 else list(trail)
    extras = [arrow_triangles(arrows, extent), *(trail_triangles(path, 0.006 * extent) for path in trails)]
    extras += [polyline_triangles(line, extent) for line in polylines]
    points = np.concatenate([points, *(extra.vertices for extra in extras)])
    level = None if ground is False else ground_level(points[:, 2].min(), extent) if ground is True else float(ground)
    eye = camera or framed(points, (width, height))
    main = Triangles.joined([main, *extras])
    stage = Stage(eye, (width, height), level, extent, Shadow.of(main, eye, level, extent), DARK if dark else LIGHT)
    image = _background(stage)
    if level is not None:
        _draw_ground(image, stage, level, points)
    _draw_robot(image, main, scenes[:-1], stage)
    out = (np.clip(image, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
    return _labelled(out, grid_step(extent), stage.theme) if label and level is not None else out


def save_picture(path: str | os.PathLike[str], robot: Robot, q: Any, **options: Any) -> None:
    """Write the picture as a PNG file; options as of `picture`."""
    write_bytes(path, png(picture(robot, q, **options)))


def png(image: np.ndarray) -> bytes:
    """A picture (height, width, 3) uint8 as the bytes of a PNG file."""
    pillow = require("PIL.Image", "plot", "pictures")
    out = BytesIO()
    pillow.fromarray(image).save(out, "png", compress_level=6)
    return out.getvalue()


# -- the robot


def _draw_robot(image: np.ndarray, main: Triangles, ghosts: Sequence[Triangles], stage: Stage) -> None:
    """Everything but the ground, drawn over the image in place, FINE times finer and averaged."""
    width, height = stage.size
    opaque = main.color[:, 3] > 0.98
    drawn = [_fragments(main.chosen(opaque), stage)]
    for opacity, ghost in zip(np.linspace(*GHOSTS, max(len(ghosts), 2)), ghosts, strict=False):
        drawn.append(_fragments(ghost, stage, float(opacity)))
    if not np.all(opaque):
        drawn.append(_fragments(main.chosen(~opaque), stage))
    canvas = np.zeros((height * width * FINE**2, 4), np.float32)
    depth = np.zeros(len(canvas), np.float32)
    for number, (pixel, near, sample, lit, alpha) in enumerate(drawn):
        front = near > depth[pixel]
        pixel, sample = pixel[front], sample[front]
        paint = np.concatenate([alpha[:, None] * lit, alpha[:, None]], axis=1)
        canvas[pixel] = canvas[pixel] * (1.0 - alpha[sample, None]) + paint[sample]
        if number == 0:
            depth[pixel] = near[front]
    fine = canvas.reshape(height, FINE, width, FINE, 4)
    coarse = np.add.reduce([fine[:, i, :, j] for i in range(FINE) for j in range(FINE)]) * np.float32(1.0 / FINE**2)
    image *= 1.0 - coarse[..., 3:]
    image += coarse[..., :3]


def _fragments(triangles: Triangles, stage: Stage, ghost: float | None = None) -> tuple[np.ndarray, ...]:
    """The nearest triangles, lit: pixel, near, sample (k,) of the fine image; colour (n, 3), alpha (n,) of samples.

    `ghost`: how opaque they are all over, without shadows; None for their own colours' opacity.
    """
    camera, size = stage.camera, (stage.size[0] * FINE, stage.size[1] * FINE)
    pixels, depth = camera.project(triangles.vertices, size)
    usable = depth > NEAR_PLANE * camera.distance
    near = (1.0 / np.where(usable, depth, 1.0)).astype(np.float32)
    seen = nearest(pixels, near, triangles.faces, size, usable)
    x, y, sample, at_x, at_y = _samples(seen.face)
    face = seen.face[np.floor(at_y).astype(int), np.floor(at_x).astype(int)]
    weight = weights(pixels, near, triangles.faces, face, at_x, at_y)
    corners = triangles.faces[face]
    at = np.einsum("kc,kci->ki", weight, triangles.vertices[corners])
    normal = _unit(np.einsum("kc,kci->ki", weight, triangles.normals[corners]))
    color = triangles.color[face]
    lit, edge = _lit(color[:, :3], normal, at, stage, stage.shadow if ghost is None else None)
    if ghost is not None:
        # the outline of a ghost is clearer than its inside
        lit = 0.45 * lit + 0.55 * rgb(stage.theme.ghost)
        alpha = np.clip(ghost * (0.75 + 1.3 * edge**2), 0.0, 0.9)
    else:
        alpha = color[:, 3].copy()
    if stage.level is not None and camera.eye[2] > stage.level:
        alpha[at[:, 2] < stage.level - 1e-3 * stage.extent] = 0.0
    return y * size[0] + x, seen.near[y, x], sample, lit, alpha.astype(np.float32)


def _samples(face: np.ndarray) -> tuple[np.ndarray, ...]:
    """(x, y, sample) of every fine pixel with a face, and (x, y) of every sample: one for the pixels of a picture's pixel that
    show the same face, else one for each."""
    height, width = face.shape
    blocks = face.reshape(height // FINE, FINE, width // FINE, FINE)
    first = blocks[:, 0, :, 0]
    uniform = (first >= 0) & np.all(blocks == first[:, None, :, None], axis=(1, 3))
    block_y, block_x = np.nonzero(uniform)
    rest = (face >= 0) & ~np.repeat(np.repeat(uniform, FINE, axis=0), FINE, axis=1)
    y, x = np.nonzero(rest)
    shifts = [(i, j) for i in range(FINE) for j in range(FINE)]
    all_x = np.concatenate([x, *(block_x * FINE + j for _, j in shifts)])
    all_y = np.concatenate([y, *(block_y * FINE + i for i, _ in shifts)])
    sample = np.concatenate([np.arange(len(x)), *(len(x) + np.arange(len(block_x)) for _ in shifts)])
    middle = 0.5 * (FINE - 1)
    return all_x, all_y, sample, np.concatenate([x, block_x * FINE + middle]), np.concatenate([y, block_y * FINE + middle])


def _lit(
    color: np.ndarray, normal: np.ndarray, at: np.ndarray, stage: Stage, shadow: Shadow | None
) -> tuple[np.ndarray, np.ndarray]:
    """(colours (k, 3), how much each point faces sideways (k,)): a lamp with shadows, the sky, a shine and a rim."""
    camera, theme = stage.camera, stage.theme
    toward = _unit(rgb(camera.eye) - at.astype(np.float32))
    facing = np.einsum("ki,ki->k", normal, toward)
    # what shows its back is seen from inside
    normal = np.where((facing < -0.15)[:, None], -normal, normal)
    facing = np.abs(facing)
    lamp = camera.lamp
    lit = np.clip(normal @ lamp, 0.0, 1.0)
    if shadow is not None:
        some = np.flatnonzero(lit > 0.02)
        lit[some] *= 1.0 - np.float32(0.85) * shadow.on_robot(at[some], normal[some])
    shine = np.clip(np.einsum("ki,ki->k", normal, _unit(toward + lamp)), 0.0, 1.0)
    for _ in range(5):
        shine *= shine
    edge = (1.0 - np.clip(facing, 0.0, 1.0)).astype(np.float32)
    up = (0.5 + 0.5 * normal[:, 2])[:, None]
    light = (1.0 - up) * rgb(theme.bounce) + up * rgb(theme.sky) + lit[:, None] * rgb(theme.key)
    linear = color.astype(np.float32) ** np.float32(GAMMA) * light
    rim = np.square(np.square(edge)) * (0.35 + 0.65 * up[:, 0])
    linear += (theme.shine * shine * np.sqrt(lit) + theme.rim * rim)[:, None]
    # very bright light becomes white slowly
    soft = np.where(linear > 0.7, 1.0 - 0.3 * np.exp(-(linear - 0.7) / 0.3), linear)
    return np.clip(soft, 0.0, 1.0) ** np.float32(1.0 / GAMMA), edge


def rgb(color: Rgb) -> np.ndarray:
    """A colour as an array."""
    return np.array(color, dtype=np.float32)


def _unit(vectors: np.ndarray) -> np.ndarray:
    out: np.ndarray = vectors / np.sqrt(np.maximum(np.einsum("ki,ki->k", vectors, vectors), 1e-18))[:, None]
    return out


# -- the ground


def grid_step(extent: float) -> float:
    """The side of a square of the ground's grid, m, for a robot of this size: 1, 2 or 5 times a power of ten."""
    return round_up(extent / SQUARES)


def _background(stage: Stage) -> np.ndarray:
    """(height, width, 3) in 0 to 1: a gradient from the horizon to what is above."""
    width, height = stage.size
    mix = np.linspace(1.0, 0.0, height, dtype=np.float32)[:, None, None] ** 1.5
    rows = mix * rgb(stage.theme.above) + (1.0 - mix) * rgb(stage.theme.horizon)
    return np.broadcast_to(rows, (height, width, 3)).astype(np.float32).copy()


def _draw_ground(image: np.ndarray, stage: Stage, level: float, points: np.ndarray) -> None:
    """Ground at height `level`, grid and shadow, drawn over the image in place; points (n, 3) are what stands on it."""
    camera, extent, theme = stage.camera, stage.extent, stage.theme
    rays = camera.rays(stage.size).astype(np.float32)
    drop = camera.eye[2] - level
    down = -rays[..., 2] * np.sign(drop or 1.0)
    rows = np.flatnonzero(down.max(axis=1) > 1e-4)
    if not len(rows) or drop == 0.0:
        return
    part = slice(rows[0], rows[-1] + 1)
    far = abs(drop) / np.maximum(down[part], 1e-4)
    x = camera.eye[0] + rays[part, :, 0] * far
    y = camera.eye[1] + rays[part, :, 1] * far
    middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
    spread = 0.5 * float(np.linalg.norm((points.max(axis=0) - points.min(axis=0))[:2]))
    away = np.maximum(np.hypot(x - middle[0], y - middle[1]) - max(spread - 0.5 * extent, 0.0), 0.0) / extent
    clear = np.clip((FADE[1] - away) / (FADE[1] - FADE[0]), 0.0, 1.0)
    clear = (clear * clear * (3.0 - 2.0 * clear)) * (down[part] > 1e-4)
    step = grid_step(extent)
    lines = np.maximum(0.55 * _lines(x, y, step), _lines(x, y, 5.0 * step)) * clear * theme.line_strength
    ground = rgb(theme.floor) * np.ones((*x.shape, 1), np.float32)
    ground += lines[..., None] * (rgb(theme.line) - rgb(theme.floor))
    if drop > 0.0:
        dark = stage.shadow.on_ground(np.stack([x, y, np.full_like(x, level)], axis=-1)) * clear
        ground += dark[..., None] * (rgb(theme.shade) - ground) * 0.8
    image[part] += clear[..., None] * (ground - image[part])


def _lines(x: np.ndarray, y: np.ndarray, step: float) -> np.ndarray:
    """1 on the lines of a grid and 0 beside them, smooth over a pixel; nothing where squares are smaller than pixels."""
    strength = np.zeros(x.shape, np.float32)
    for along in (x, y):
        u = along / np.float32(step)
        width = np.abs(np.gradient(u, axis=0)) + np.abs(np.gradient(u, axis=1)) + 1e-9
        away = np.abs(u - np.rint(u)) / width
        strength = np.maximum(strength, np.clip(1.15 - away, 0.0, 1.0) * np.clip(1.6 - 4.0 * width, 0.0, 1.0))
    return strength


# -- sizes and labels


def image_size(size: tuple[int, int]) -> tuple[int, int]:
    """(width, height) in pixels, if it is one that can be drawn."""
    try:
        width, height = (int(n) for n in size)
    except (TypeError, ValueError):
        raise ShapeError(f"the size of a picture is (width, height) in pixels, got {size!r:.60}") from None
    if not (16 <= width <= MAX_PIXELS and 16 <= height <= MAX_PIXELS):
        raise ShapeError(f"a picture has 16 to {MAX_PIXELS} pixels each way, got {width} x {height}")
    return width, height


def _labelled(image: np.ndarray, step: float, theme: Theme) -> np.ndarray:
    """The picture with the size of the ground's squares in its lower left corner."""
    require("PIL.Image", "plot", "pictures")
    from PIL import Image, ImageDraw, ImageFont

    height = image.shape[0]
    sheet = Image.fromarray(image)
    text = f"squares {step:g} m" if step < 1000.0 else f"squares {step / 1000.0:g} km"
    font = ImageFont.load_default(max(11, round(height / 42)))
    margin = max(6, height // 45)
    ImageDraw.Draw(sheet).text((margin, height - margin), text, fill=theme.ink, font=font, anchor="ls")
    return np.asarray(sheet)
