"""A height field: the smooth surface through a grid of heights."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from condyle.errors import SimulationError
from condyle.simulate.heights import Heights
from condyle.simulate.spline import axis_weights, coefficients
from condyle.simulate.validate import assign, finites, not_negative

MAX_HEIGHTS = 4_096


@dataclass(frozen=True, eq=False)
class HeightField(Heights):
    """The smooth surface through heights[i, j] at x = origin[0] + i spacing[0], y = origin[1] + j spacing[1].

    A bicubic B-spline: twice continuously differentiable, and it passes through every height. Beyond the grid it goes on
    smoothly, and is level in that direction from one spacing outside on. Every height takes part in every evaluation, because
    a tape cannot look up an entry by a computed index, so there may be MAX_HEIGHTS of them at most.
    """

    heights: np.ndarray
    spacing: float | tuple[float, float]
    origin: tuple[float, float] = (0.0, 0.0)
    friction: float = 0.8
    coefficients: tuple[tuple[float, ...], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        heights = _grid(self.heights)
        both = np.ndim(self.spacing) == 0
        spacing = finites("HeightField", "spacing", (self.spacing,) * 2 if both else self.spacing, 2)
        if min(spacing) <= 0.0:
            raise SimulationError(f"HeightField: the spacing must be positive, got {self.spacing!r}")
        origin = finites("HeightField", "origin", self.origin, 2)
        friction = not_negative("HeightField", "friction", self.friction)
        solved = coefficients(coefficients(heights).T).T
        rows = tuple(tuple(row) for row in solved.tolist())
        assign(self, heights=heights, spacing=spacing, origin=origin, friction=friction, coefficients=rows)

    def surface(self, x: Any, y: Any) -> tuple[Any, Any, Any]:
        """(h, h_x, h_y) with h = sum_ij c_ij B(x - i) B(y - j), in units of the spacing."""
        (dx, dy), (x0, y0) = self.spacing, self.origin  # type: ignore[misc]
        a, a_x = axis_weights((x - x0) / dx, len(self.coefficients))
        b, b_y = axis_weights((y - y0) / dy, len(self.coefficients[0]))
        along = [_dot(row, b) for row in self.coefficients]
        across = [_dot(row, b_y) for row in self.coefficients]
        return _dot(a, along), _dot(a_x, along) / dx, _dot(a, across) / dy

    def key(self) -> str:
        """A text that differs whenever the ground does."""
        return repr(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HeightField) and other.key() == self.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def __repr__(self) -> str:
        shape, digest = self.heights.shape, hashlib.sha256(self.heights.tobytes()).hexdigest()
        return (
            f"HeightField(heights={shape} sha256:{digest}, spacing={self.spacing!r}, origin={self.origin!r}, "
            f"friction={self.friction!r})"
        )


def _dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    total = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        total = total + x * y
    return total


def _grid(given: Any) -> np.ndarray:
    """A read-only copy of the heights, checked."""
    try:
        heights = np.array(given, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise SimulationError("HeightField: heights must be a grid of numbers, one row per x and one column per y") from None
    if heights.ndim != 2 or min(heights.shape) < 2:
        raise SimulationError(f"HeightField: heights must be a grid of at least 2 by 2, got shape {heights.shape}")
    if heights.size > MAX_HEIGHTS:
        raise SimulationError(
            f"HeightField: {heights.size:,} heights are more than {MAX_HEIGHTS:,}; every contact computes with all of them, so "
            "take fewer (heights[::2, ::2] with twice the spacing), or write the height as a function for Terrain"
        )
    if not np.all(np.isfinite(heights)):
        i, j = np.argwhere(~np.isfinite(heights))[0]
        raise SimulationError(f"HeightField: heights[{i}, {j}] is {heights[i, j]}; fill in what was not measured")
    heights.setflags(write=False)
    return heights
