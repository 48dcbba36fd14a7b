"""Ground as a height over the plane z = 0, and its distance to first order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from condyle.robot.spatial import Array, vector


class Heights(ABC):
    """Ground given by a height h(x, y), twice continuously differentiable.

    The distance is the first-order one: exact on the surface and for a plane, and off by about the curvature times the square
    of the distance elsewhere.
    """

    @abstractmethod
    def surface(self, x: Any, y: Any) -> tuple[Any, Any, Any]:
        """(h, h_x, h_y): the height and its slopes, for numbers, arrays of numbers, or traced scalars."""

    def distance(self, p: Array) -> tuple[Any, Array]:
        """((z - h) / s, (-h_x, -h_y, 1) / s) with s = sqrt(1 + |grad h|^2)."""
        h, h_x, h_y = self.surface(p[0], p[1])
        s = np.sqrt(1.0 + h_x * h_x + h_y * h_y)
        return (p[2] - h) / s, vector(-h_x / s, -h_y / s, 1.0 / s)
