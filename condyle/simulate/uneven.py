"""Uneven ground with a few numbers that may differ from robot to robot: waves, steps and a slope, for learning to walk."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Any

import numpy as np

from condyle.errors import SimulationError
from condyle.robot.angles import of_degrees
from condyle.simulate.terrain import Heights
from condyle.simulate.validate import assign, finite, finites, not_negative

# directions and lengths of the waves, relative to `wavelength`: none is a multiple of another, so no place repeats soon
WAVES = ((1.0, 0.31), (-0.42, 0.83), (0.55, -0.67))
STEEP = 0.05  # m, the smallest part of a tread that its riser takes


@dataclass(frozen=True)
class Uneven(Heights):
    """Ground with waves of `roughness` (m, from the lowest to the highest point), steps of `step` (m) along x, and a slope.

    The waves are about `wavelength` m long. Steps go up towards +x without end, or down if `step` is negative, one every `run` m,
    with risers of width `rounding`. The plane rises by `slope` degrees towards `azimuth`: 0 is +x, 90 is +y. `offset` (m) shifts
    waves and steps under the robot. All but friction, run, rounding and wavelength are zero by default, and all are parameters:
    "ground.roughness", "ground.step", "ground.slope", "ground.azimuth", "ground.offset".
    """

    friction: float = 0.8
    roughness: float = 0.0
    step: float = 0.0
    slope: float = 0.0
    azimuth: float = 0.0
    offset: tuple[float, float] = (0.0, 0.0)
    wavelength: float = 0.2
    run: float = 0.3
    rounding: float = STEEP

    def __post_init__(self) -> None:
        own = {name: finite("Uneven", name, getattr(self, name)) for name in ("step", "slope", "azimuth", "run", "rounding")}
        own |= {name: not_negative("Uneven", name, getattr(self, name)) for name in ("friction", "roughness", "wavelength")}
        offset = finites("Uneven", "offset", self.offset, 2)
        if own["run"] <= 0.0 or not 0.0 < own["rounding"] <= own["run"] or own["wavelength"] <= 0.0:
            raise SimulationError("Uneven: run, rounding and wavelength must be positive, rounding at most run")
        if abs(own["slope"]) >= 90.0:
            raise SimulationError(f"Uneven: slope must be less than 90 degrees, got {self.slope!r:.40}")
        assign(self, **own, offset=tuple(offset))

    def surface(self, x: Any, y: Any) -> tuple[Any, Any, Any]:
        """(h, h_x, h_y): the plane, the waves, and the steps."""
        (c, s), (along_x, along_y) = _cos_sin(self.slope), _cos_sin(self.azimuth)
        h_x, h_y = (s / c) * along_x, (s / c) * along_y
        h = h_x * x + h_y * y
        u, v = x + self.offset[0], y + self.offset[1]
        if not _zero(self.roughness):
            size, k = self.roughness * (0.5 / len(WAVES)), 2.0 * pi / self.wavelength
            for a, b in WAVES:
                phase = (k * a) * u + (k * b) * v
                slope = (size * k) * np.cos(phase)
                h, h_x, h_y = h + size * np.sin(phase), h_x + a * slope, h_y + b * slope
        if not _zero(self.step):
            # a step lies in the middle of its tile, so that the robot stands on a tread at the origin
            t = u * (1.0 / self.run)
            tile = np.floor(t)
            part = np.minimum(np.maximum((t - tile - 0.5) * (self.run / self.rounding) + 0.5, 0.0), 1.0)
            risen = part * part * part * (part * (6.0 * part - 15.0) + 10.0)
            inner = part * (1.0 - part)
            h, h_x = h + self.step * (tile + risen), h_x + (self.step * 30.0 / self.rounding) * (inner * inner)
        return h, h_x, h_y


def _cos_sin(degrees: Any) -> tuple[Any, Any]:
    """(cos, sin) of an angle in degrees, a number or traced."""
    if isinstance(degrees, (int, float)):
        return of_degrees(degrees)
    return np.cos(degrees * (pi / 180.0)), np.sin(degrees * (pi / 180.0))


def _zero(value: Any) -> bool:
    """Whether a number is known to be zero."""
    return isinstance(value, (int, float)) and value == 0.0
