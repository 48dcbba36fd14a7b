"""Triangles to pixels: for every pixel the nearest triangle, by rows of pixels, in NumPy alone."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

MOST_PIXELS = 4_000_000  # worked on at once


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
    for first, last in _portions(count):
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
        slope = (sign * d[:, 1])[face]
        level = np.abs(slope) < 1e-12
        with np.errstate(over="ignore", invalid="ignore"):
            cut = p[face, 0] + d[face, 0] * (y - p[face, 1]) / np.where(level, 1.0, d[face, 1])
        cut = np.clip(np.nan_to_num(cut), -1.0, width + 1.0)
        right = np.where(~level & (slope > 0.0), np.minimum(right, cut), right)
        left = np.where(~level & (slope < 0.0), np.maximum(left, cut), left)
    start = np.clip(np.ceil(left - 0.5), 0, width).astype(np.int64)
    count = np.maximum(np.clip(np.floor(right - 0.5), -1, width - 1).astype(np.int64) - start + 1, 0)
    some = count > 0
    return face[some], row[some], start[some], count[some]


def _portions(count: np.ndarray) -> list[tuple[int, int]]:
    """Ranges of spans with about MOST_PIXELS pixels each."""
    ends = np.cumsum(count)
    cuts = [0]
    while cuts[-1] < len(count):
        begun = ends[cuts[-1] - 1] if cuts[-1] else 0
        cuts.append(max(int(np.searchsorted(ends, begun + MOST_PIXELS)), cuts[-1] + 1))
    return [(a, min(b, len(count))) for a, b in pairwise(cuts)]


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    z: np.ndarray = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return z
