"""Shadows: the robot as the lamp sees it, on the ground with soft edges and on the robot itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condyle.view.camera import Camera
from condyle.view.raster import nearest
from condyle.view.scene import Triangles
from condyle.view.theme import LIGHT

PIXELS = 512
EDGE = 40  # empty pixels around the robot
SOFT = (2.2, 9.0)  # pixels: the blur of what is near the ground, and of what is high
HIGH = 0.22  # of the robot's size: what is higher casts a softer shadow

TAPS = ((-1.1, -0.4), (0.4, -1.1), (1.1, 0.4), (-0.4, 1.1))  # pixels beside the one asked for, whose mean is softer


@dataclass(frozen=True, eq=False)
class Shadow:
    """What the lamp sees: axes (3, 3) with rows right, up and to the lamp; `near` of each pixel, and darkness on the ground."""

    axes: np.ndarray
    origin: np.ndarray
    scale: np.float32  # pixels for one metre
    near: np.ndarray
    dark: np.ndarray

    @staticmethod
    def of(triangles: Triangles, camera: Camera, level: float | None, extent: float) -> Shadow:
        """The shadow of triangles in the light of a theme's lamp, on a ground at height `level`."""
        lamp = LIGHT.lamp(camera).astype(float)
        side = np.cross((0.0, 0.0, 1.0), lamp)
        side /= max(float(np.linalg.norm(side)), 1e-9)
        axes = np.stack([side, np.cross(lamp, side), lamp])
        seen = triangles.vertices @ axes.T
        low, high = (seen.min(axis=0), seen.max(axis=0)) if len(seen) else (np.zeros(3), np.ones(3))
        scale = (PIXELS - 2 * EDGE) / max(float((high - low)[:2].max()), 1e-9)
        origin = low - EDGE / scale
        pixels = (seen[:, :2] - origin[:2]) * scale
        # larger for what is nearer to the lamp, and never zero
        near = ((seen[:, 2] - origin[2]) * scale + 1.0).astype(np.float32)
        usable = np.ones(len(seen), dtype=bool)
        size = (PIXELS, PIXELS)
        found = nearest(pixels, near, triangles.faces, size, usable)
        dark = np.zeros((PIXELS, PIXELS), np.float32)
        if level is not None:
            height = triangles.vertices[triangles.faces, 2].mean(axis=1) - level
            low_part = nearest(pixels, near, triangles.faces[height < HIGH * extent], size, usable)
            parts = [blurred(seen.face >= 0, soft) for seen, soft in zip((low_part, found), SOFT, strict=True)]
            dark[:] = 1.0 - (1.0 - 0.55 * parts[0]) * (1.0 - 0.75 * parts[1])
        return Shadow(axes.astype(np.float32), origin.astype(np.float32), np.float32(scale), found.near, dark)

    def on_ground(self, points: np.ndarray) -> np.ndarray:
        """How dark the ground is at points (..., 3), 0 to 1."""
        x = (points @ self.axes[0] - self.origin[0]) * self.scale - 0.5
        y = (points @ self.axes[1] - self.origin[1]) * self.scale - 0.5
        inside = (x >= 0.0) & (x < PIXELS - 1.0) & (y >= 0.0) & (y < PIXELS - 1.0)
        out = np.zeros(x.shape, np.float32)
        x, y = x[inside], y[inside]
        i, j = x.astype(np.int32), y.astype(np.int32)
        a, b = x - i, y - j
        d = self.dark
        out[inside] = (1 - b) * ((1 - a) * d[j, i] + a * d[j, i + 1]) + b * ((1 - a) * d[j + 1, i] + a * d[j + 1, i + 1])
        return out

    def on_robot(self, points: np.ndarray, normals: np.ndarray) -> np.ndarray:
        """The part of the lamp that something of the robot hides from points (k, 3), 0 to 1."""
        # a little outward, so that a surface does not shade itself
        seen = (points + normals * np.float32(2.0 / self.scale)) @ self.axes.T
        at = (seen[:, :2] - self.origin[:2]) * self.scale
        near = (seen[:, 2] - self.origin[2]) * self.scale + 2.0
        hidden = np.zeros(len(points), np.float32)
        # all is well inside the edge, and so are its neighbours
        at = np.clip(at, 2.0, PIXELS - 3.0)
        flat = self.near.ravel()
        for dx, dy in TAPS:
            pixel = (at[:, 1] + np.float32(dy)).astype(np.int32) * PIXELS + (at[:, 0] + np.float32(dx)).astype(np.int32)
            hidden += flat[pixel] > near
        return hidden / np.float32(len(TAPS))


def blurred(mask: np.ndarray, sigma: float) -> np.ndarray:
    """The mask under three boxes one after the other, which is nearly a Gaussian."""
    out = mask.astype(np.float32)
    half = max(1, round(sigma))
    for axis in (0, 1):
        for _ in range(3):
            pad = [(half + 1, half) if k == axis else (0, 0) for k in (0, 1)]
            sums = np.cumsum(np.pad(out, pad), axis=axis, dtype=np.float64)
            ahead = np.take(sums, range(2 * half + 1, sums.shape[axis]), axis=axis)
            behind = np.take(sums, range(sums.shape[axis] - 2 * half - 1), axis=axis)
            out = ((ahead - behind) / (2 * half + 1)).astype(np.float32)
    return out
