"""Triangles to pixels in NumPy: the nearest triangle of every pixel, and shadow maps made in the same way."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from condyle.workbench.view.camera import Camera
from condyle.workbench.view.scene import Triangles

BATCH = 4_000_000  # pixels processed at once
SHADOW_PIXELS = 512  # of a shadow map, each way
EDGE = 40  # empty pixels around the robot in a shadow map
BLUR = (2.2, 9.0)  # pixels: standard deviation for what is near the ground, and for what is high
HIGH = 0.22  # of the robot's size: what is higher casts a softer shadow
TAPS = ((-1.1, -0.4), (0.4, -1.1), (1.1, 0.4), (-0.4, 1.1))  # offsets in pixels of the samples that are averaged


@dataclass(frozen=True, eq=False)
class Nearest:
    """What is seen in each pixel of a picture (height, width): the face, -1 where there is none, and how near it is."""

    face: np.ndarray
    near: np.ndarray


def nearest(pixels: np.ndarray, near: np.ndarray, faces: np.ndarray, size: tuple[int, int], usable: np.ndarray) -> Nearest:
    """The nearest face of every pixel of a picture of `size` (width, height).

    pixels (n, 2): where vertices are; near (n,): a number that is linear over the picture and larger for what is nearer, such
    as 1 / depth; usable (n,): vertices in front of the camera, others take their faces with them.
    """
    width, height = size
    buffer = np.zeros(width * height, dtype=np.float32)
    found = np.full(width * height, -1, dtype=np.int32)
    kept = np.flatnonzero(np.all(usable[faces], axis=1))
    corners = pixels[faces[kept]].astype(np.float64)
    area = _cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    low, high = corners.min(axis=1), corners.max(axis=1)
    inside = (np.abs(area) > 1e-9) & (high[:, 0] > 0) & (high[:, 1] > 0) & (low[:, 0] < width) & (low[:, 1] < height)
    kept, corners, area = kept[inside], corners[inside], area[inside]
    # near = a + b x + c y over each face
    n = near[faces[kept]].astype(np.float64)
    one, two = corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]
    b = ((n[:, 1] - n[:, 0]) * two[:, 1] - (n[:, 2] - n[:, 0]) * one[:, 1]) / area
    c = ((n[:, 2] - n[:, 0]) * one[:, 0] - (n[:, 1] - n[:, 0]) * two[:, 0]) / area
    a = n[:, 0] - b * corners[:, 0, 0] - c * corners[:, 0, 1]
    face, row, start, count = _spans(corners, area, size)
    # about BATCH pixels at once
    cuts = np.searchsorted(np.cumsum(count), np.arange(0, count.sum(), BATCH))
    for first, last in pairwise([*cuts, len(count)]):
        f, many = face[first:last], count[first:last]
        owner = np.repeat(f, many)
        step = np.arange(len(owner)) - np.repeat(np.cumsum(many) - many, many)
        x = np.repeat(start[first:last], many) + step
        value = (np.repeat((a[f] + c[f] * (row[first:last] + 0.5)), many) + b[owner] * (x + 0.5)).astype(np.float32)
        pixel = np.repeat(row[first:last] * width, many) + x
        np.maximum.at(buffer, pixel, value)
        best = value == buffer[pixel]
        found[pixel[best]] = kept[owner[best]]
    return Nearest(found.reshape(height, width), buffer.reshape(height, width))


def weights(
    pixels: np.ndarray, near: np.ndarray, faces: np.ndarray, face: np.ndarray, x: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """(k, 3): how much of each corner of `face` (k,) is at the pixels x, y (k,), in perspective when `near` is 1 / depth."""
    which = faces[face]
    p = pixels[which].astype(np.float32)
    at = np.stack([x + 0.5, y + 0.5], axis=1).astype(np.float32)
    areas = [_cross(p[:, (k + 1) % 3] - at, p[:, (k + 2) % 3] - at) for k in range(3)]
    parts = np.stack(areas, axis=1) * near[which]
    total = parts.sum(axis=1, keepdims=True)
    return np.asarray(np.clip(parts / np.where(total == 0.0, 1.0, total), 0.0, 1.0), dtype=np.float32)


def _spans(corners: np.ndarray, area: np.ndarray, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(face, row, first column, number of columns) of every row of pixels inside a face; centres of pixels count."""
    width, height = size
    low = np.clip(np.ceil(corners[:, :, 1].min(axis=1) - 0.5), 0, height).astype(np.int64)
    high = np.clip(np.floor(corners[:, :, 1].max(axis=1) - 0.5), -1, height - 1).astype(np.int64)
    rows = np.maximum(high - low + 1, 0)
    face = np.repeat(np.arange(len(corners)), rows)
    row = np.repeat(low, rows) + np.arange(len(face)) - np.repeat(np.cumsum(rows) - rows, rows)
    left, right = np.full(len(face), -0.5), np.full(len(face), width + 0.5)
    sign = np.sign(area)
    y = row + 0.5
    for k in range(3):
        p, d = corners[:, k], corners[:, (k + 1) % 3] - corners[:, k]
        # inside: sign * (dx (y - py) - dy (x - px)) >= 0
        rise = (sign * d[:, 1])[face]
        level = np.abs(rise) < 1e-12
        with np.errstate(over="ignore", invalid="ignore"):
            cut = p[face, 0] + d[face, 0] * (y - p[face, 1]) / np.where(level, 1.0, d[face, 1])
        cut = np.clip(np.nan_to_num(cut), -1.0, width + 1.0)
        right = np.where(~level & (rise > 0.0), np.minimum(right, cut), right)
        left = np.where(~level & (rise < 0.0), np.maximum(left, cut), left)
    start = np.clip(np.ceil(left - 0.5), 0, width).astype(np.int64)
    count = np.maximum(np.clip(np.floor(right - 0.5), -1, width - 1).astype(np.int64) - start + 1, 0)
    some = count > 0
    return face[some], row[some], start[some], count[some]


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    z: np.ndarray = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return z


# -- shadows


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
        """The shadow of triangles in the light of the lamp, on a ground at height `level`."""
        lamp = camera.lamp.astype(float)
        side = np.cross((0.0, 0.0, 1.0), lamp)
        side /= max(float(np.linalg.norm(side)), 1e-9)
        axes = np.stack([side, np.cross(lamp, side), lamp])
        seen = triangles.vertices @ axes.T
        low, high = (seen.min(axis=0), seen.max(axis=0)) if len(seen) else (np.zeros(3), np.ones(3))
        scale = (SHADOW_PIXELS - 2 * EDGE) / max(float((high - low)[:2].max()), 1e-9)
        origin = low - EDGE / scale
        pixels = (seen[:, :2] - origin[:2]) * scale
        # larger for what is nearer to the lamp, and never zero
        near = ((seen[:, 2] - origin[2]) * scale + 1.0).astype(np.float32)
        usable = np.ones(len(seen), dtype=bool)
        size = (SHADOW_PIXELS, SHADOW_PIXELS)
        found = nearest(pixels, near, triangles.faces, size, usable)
        dark = np.zeros((SHADOW_PIXELS, SHADOW_PIXELS), np.float32)
        if level is not None:
            height = triangles.vertices[triangles.faces, 2].mean(axis=1) - level
            low_part = nearest(pixels, near, triangles.faces[height < HIGH * extent], size, usable)
            parts = [blurred(seen.face >= 0, soft) for seen, soft in zip((low_part, found), BLUR, strict=True)]
            dark[:] = 1.0 - (1.0 - 0.55 * parts[0]) * (1.0 - 0.75 * parts[1])
        return Shadow(axes.astype(np.float32), origin.astype(np.float32), np.float32(scale), found.near, dark)

    def on_ground(self, points: np.ndarray) -> np.ndarray:
        """How dark the ground is at points (..., 3), 0 to 1."""
        x = (points @ self.axes[0] - self.origin[0]) * self.scale - 0.5
        y = (points @ self.axes[1] - self.origin[1]) * self.scale - 0.5
        inside = (x >= 0.0) & (x < SHADOW_PIXELS - 1.0) & (y >= 0.0) & (y < SHADOW_PIXELS - 1.0)
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
        at = np.clip(at, 2.0, SHADOW_PIXELS - 3.0)
        flat = self.near.ravel()
        for dx, dy in TAPS:
            pixel = (at[:, 1] + np.float32(dy)).astype(np.int32) * SHADOW_PIXELS + (at[:, 0] + np.float32(dx)).astype(np.int32)
            hidden += flat[pixel] > near
        return hidden / np.float32(len(TAPS))


def blurred(mask: np.ndarray, sigma: float) -> np.ndarray:
    """The mask under three box filters one after the other, which is nearly a Gaussian."""
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
