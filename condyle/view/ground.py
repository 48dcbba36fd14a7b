"""The ground of a picture: level, with a grid of a round number of metres, the robot's shadow, and no edge."""

from __future__ import annotations

import numpy as np

from condyle.view.camera import Camera
from condyle.view.shadow import Shadow
from condyle.view.theme import Theme, rgb

SQUARES = 5.0  # about so many to the robot's size
FADE = (1.3, 6.0)  # of the robot's size: the ground is clear up to here, and lost in the background from there on


def grid_step(extent: float) -> float:
    """The side of a square, m: 1, 2 or 5 times a power of ten."""
    rough = extent / SQUARES
    power = 10.0 ** np.floor(np.log10(rough))
    return float(next((f * power for f in (1.0, 2.0, 5.0) if f * power >= 0.999 * rough), 10.0 * power))


def draw_ground(
    camera: Camera, size: tuple[int, int], level: float, extent: float, points: np.ndarray, shadow: Shadow, theme: Theme
) -> np.ndarray:
    """(height, width, 3) in 0 to 1: background, ground at height `level`, grid, shadow; points (n, 3) are what stands on it."""
    image = theme.background(camera, size)
    rays = camera.rays(size).astype(np.float32)
    drop = camera.eye[2] - level
    down = -rays[..., 2] * np.sign(drop or 1.0)
    rows = np.flatnonzero(down.max(axis=1) > 1e-4)
    if not len(rows) or drop == 0.0:
        return image
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
        dark = shadow.on_ground(np.stack([x, y, np.full_like(x, level)], axis=-1)) * clear
        ground += dark[..., None] * (rgb(theme.shade) - ground) * 0.8
    image[part] += clear[..., None] * (ground - image[part])
    return image


def _lines(x: np.ndarray, y: np.ndarray, step: float) -> np.ndarray:
    """1 on the lines of a grid and 0 beside them, smooth over a pixel; nothing where squares are smaller than pixels."""
    strength = np.zeros(x.shape, np.float32)
    for along in (x, y):
        u = along / np.float32(step)
        width = np.abs(np.gradient(u, axis=0)) + np.abs(np.gradient(u, axis=1)) + 1e-9
        away = np.abs(u - np.rint(u)) / width
        strength = np.maximum(strength, np.clip(1.15 - away, 0.0, 1.0) * np.clip(1.6 - 4.0 * width, 0.0, 1.0))
    return strength
