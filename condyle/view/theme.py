"""Colours and lights of a picture, light and dark. Colours are sRGB from 0 to 1, strengths of lights are linear."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condyle.view.camera import Camera

Rgb = tuple[float, float, float]

GAMMA = 2.2


@dataclass(frozen=True)
class Theme:
    """The colours and lights of one style."""

    above: Rgb  # the background at the top
    horizon: Rgb  # the background elsewhere, and the ground far away
    floor: Rgb  # the ground near the robot
    line: Rgb  # of the grid
    line_strength: float
    shade: Rgb  # the ground in full shadow
    ghost: Rgb
    ink: tuple[int, int, int]
    sky: Rgb  # light from above
    bounce: Rgb  # light from below
    key: Rgb  # the lamp
    shine: float
    rim: float

    def background(self, size: tuple[int, int]) -> np.ndarray:
        """(height, width, 3): a gradient from the horizon to what is above."""
        width, height = size
        mix = np.linspace(1.0, 0.0, height, dtype=np.float32)[:, None, None] ** 1.5
        rows = mix * rgb(self.above) + (1.0 - mix) * rgb(self.horizon)
        return np.broadcast_to(rows, (height, width, 3)).astype(np.float32).copy()


def light_direction(camera: Camera) -> np.ndarray:
    """The unit vector towards the lamp, which is above, behind and to the left of the camera."""
    right, _, forward = camera.axes
    flat = np.array([forward[0], forward[1], 0.0])
    flat = flat / max(float(np.linalg.norm(flat)), 1e-9)
    toward = -0.52 * right - 0.42 * flat + np.array([0.0, 0.0, 1.0])
    return np.asarray(toward / np.linalg.norm(toward), dtype=np.float32)


def rgb(color: Rgb) -> np.ndarray:
    """A colour as an array."""
    return np.array(color, dtype=np.float32)


def to_linear(color: np.ndarray) -> np.ndarray:
    """Amounts of light of sRGB colours."""
    out: np.ndarray = np.asarray(color, dtype=np.float32) ** np.float32(GAMMA)
    return out


def to_srgb(light: np.ndarray) -> np.ndarray:
    """sRGB colours of amounts of light; very bright light becomes white slowly."""
    soft = np.where(light > 0.7, 1.0 - 0.3 * np.exp(-(light - 0.7) / 0.3), light)
    out: np.ndarray = np.clip(soft, 0.0, 1.0) ** np.float32(1.0 / GAMMA)
    return out


LIGHT = Theme(
    above=(0.865, 0.895, 0.930),
    horizon=(0.955, 0.962, 0.970),
    floor=(0.985, 0.987, 0.990),
    line=(0.60, 0.65, 0.71),
    line_strength=0.62,
    shade=(0.43, 0.47, 0.54),
    ghost=(0.62, 0.70, 0.82),
    ink=(96, 104, 116),
    sky=(0.50, 0.53, 0.58),
    bounce=(0.28, 0.27, 0.26),
    key=(0.88, 0.85, 0.80),
    shine=0.32,
    rim=0.16,
)

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
