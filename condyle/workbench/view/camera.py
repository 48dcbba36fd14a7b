"""A pinhole camera, and where to put it so that all of a robot is in the picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Point = tuple[float, float, float]

VIEW = (-58.0, 17.0)  # degrees: azimuth and elevation of the camera, seen from the robot
FOV = 26.0  # degrees, of the picture's height
MARGIN = 0.82  # the part of the picture that the robot may fill
NEAR_PLANE = 1e-3  # of the distance to the target: what is nearer is not drawn


@dataclass(frozen=True)
class Camera:
    """A camera at `eye` that looks at `target`, z up; `fov`: the angle of the picture's height, degrees."""

    eye: Point
    target: Point
    fov: float = FOV

    @property
    def axes(self) -> np.ndarray:
        """Rows: right, up and forward, in the world."""
        forward = np.subtract(self.target, self.eye)
        forward = forward / max(float(np.linalg.norm(forward)), 1e-12)
        right = np.cross(forward, (0.0, 0.0, 1.0))
        if np.linalg.norm(right) < 1e-6:
            right = np.array([1.0, 0.0, 0.0])
        right = right / np.linalg.norm(right)
        return np.stack([right, np.cross(right, forward), forward])

    @property
    def distance(self) -> float:
        """From the eye to the target, m."""
        return float(np.linalg.norm(np.subtract(self.target, self.eye)))

    @property
    def lamp(self) -> np.ndarray:
        """The unit vector towards the lamp, which is above, behind and to the left of the camera."""
        right, _, forward = self.axes
        flat = np.array([forward[0], forward[1], 0.0])
        flat = flat / max(float(np.linalg.norm(flat)), 1e-9)
        toward = -0.52 * right - 0.42 * flat + np.array([0.0, 0.0, 1.0])
        return np.asarray(toward / np.linalg.norm(toward), dtype=np.float32)

    def focal(self, height: int) -> float:
        """Pixels on the picture for one metre at one metre's distance."""
        return 0.5 * height / float(np.tan(np.radians(self.fov) / 2.0))

    def project(self, points: np.ndarray, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
        """(pixels (n, 2), y down; depth (n,) along the view) of points (n, 3) on a picture of `size` (width, height)."""
        seen = (points - np.asarray(self.eye)) @ self.axes.T
        depth = seen[:, 2]
        safe = np.maximum(depth, NEAR_PLANE * self.distance)
        scale = self.focal(size[1]) / safe
        pixels = np.stack([0.5 * size[0] + seen[:, 0] * scale, 0.5 * size[1] - seen[:, 1] * scale], axis=1)
        return pixels, depth

    def rays(self, size: tuple[int, int]) -> np.ndarray:
        """(height, width, 3): the direction in which each pixel looks, one metre deep."""
        width, height = size
        x = (np.arange(width) + 0.5 - 0.5 * width) / self.focal(height)
        y = (0.5 * height - np.arange(height) - 0.5) / self.focal(height)
        right, up, forward = self.axes
        rays: np.ndarray = x[None, :, None] * right + y[:, None, None] * up + forward
        return rays


def framed(
    points: np.ndarray,
    size: tuple[int, int] = (960, 540),
    *,
    azimuth: float = VIEW[0],
    elevation: float = VIEW[1],
    fov: float = FOV,
    margin: float = MARGIN,
) -> Camera:
    """The camera that has all `points` (n, 3) in its picture, seen from azimuth and elevation in degrees (0: from +x, 90: +y)."""
    low, high = points.min(axis=0), points.max(axis=0)
    target = 0.5 * (low + high)
    a, e = np.radians(azimuth), np.radians(np.clip(elevation, -89.0, 89.0))
    toward = np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
    axes = Camera(_point(toward), (0.0, 0.0, 0.0), fov).axes
    tangent = float(np.tan(np.radians(fov) / 2.0)) * margin
    limits = np.array([tangent * size[0] / size[1], tangent])
    nearest = 1e-3 + 0.2 * float(np.linalg.norm(high - low))
    distance = 10.0 * nearest
    # the target in the middle of what is seen, then as near as the outermost point allows
    for _ in range(5):
        seen = (points - target) @ axes.T
        flat = seen[:, :2] / (distance + seen[:, 2:])
        shift = 0.5 * (flat.min(axis=0) + flat.max(axis=0)) * distance
        target = target + shift @ axes[:2]
        seen[:, :2] -= shift
        distance = max(float(np.max((np.abs(seen[:, :2]) / limits).max(axis=1) - seen[:, 2])), nearest)
    return Camera(_point(target + distance * toward), _point(target), fov)


def _point(p: np.ndarray) -> Point:
    return float(p[0]), float(p[1]), float(p[2])
