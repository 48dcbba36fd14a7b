"""The ground: planes, slopes, stairs, height fields, and heights given by a function. Each has a signed distance.

`distance(p)` is generic over the scalar: floats give floats, traced scalars are recorded. Stairs, height fields and terrains
are heights over the plane z = 0; a height field is a cubic B-spline that interpolates, with the basis function

    B(t) = (max(2 - |t|, 0)^3 - 4 max(1 - |t|, 0)^3) / 6.

Before the first knot and after the last one the border's coefficient repeats, so the spline is constant from one knot outside on.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from condyle.errors import SimulationError, require_importable
from condyle.robot.angles import of_degrees
from condyle.robot.spatial import Array, vector
from condyle.simulate.validate import assign, finite, finites, not_negative
from condyle.tape.derive import jacobian
from condyle.tape.function import Function
from condyle.tape.inline import inline
from condyle.tape.scalar import Scalar
from condyle.tape.tape import Tape
from condyle.tape.trace import trace

PROBES = ((0.0, 0.0), (1.0, 0.5), (-0.5, 1.0), (-1.0, -2.0))  # (x, y) at which a height function is evaluated once
MAX_HEIGHTS = 4_096
FEW = 64  # points that are not worth compiling for


class Ground(ABC):
    """The ground of a simulation, with Coulomb's coefficient for every contact point that has none of its own."""

    friction: float

    @abstractmethod
    def distance(self, p: Array) -> tuple[Any, Array]:
        """(signed distance, unit outward normal) of the world point p: positive above the ground."""

    def key(self) -> str:
        """A text that differs whenever the ground does, the same in every process."""
        return repr(self)


@dataclass(frozen=True)
class Plane(Ground):
    """All points with normal . p = offset. The normal is made a unit vector; the offset is in metres along it."""

    friction: float = 0.8
    normal: tuple[float, float, float] = (0.0, 0.0, 1.0)
    offset: float = 0.0

    def __post_init__(self) -> None:
        given = finites("Plane", "normal", self.normal, 3)
        # scaled first, so that neither a huge nor a tiny normal is lost
        largest = max(map(abs, given))
        if largest == 0.0:
            raise SimulationError("Plane: the normal (0, 0, 0) has no direction; give the way up, as in (0, 0, 1)")
        scaled = [x / largest for x in given]
        length = math.sqrt(sum(x * x for x in scaled))
        assign(self, normal=tuple(x / length + 0.0 for x in scaled), offset=finite("Plane", "offset", self.offset))
        assign(self, friction=not_negative("Plane", "friction", self.friction))

    def distance(self, p: Array) -> tuple[Any, Array]:
        """(n . p - offset, n)."""
        n = self.normal
        return n[0] * p[0] + n[1] * p[1] + n[2] * p[2] - self.offset, vector(*n)


@dataclass(frozen=True)
class Slope(Ground):
    """A plane through the origin that rises by `degrees` towards `azimuth`: 0 is +x, 90 is +y."""

    degrees: float
    azimuth: float = 0.0
    friction: float = 0.8
    plane: Plane = field(init=False, repr=False)

    def __post_init__(self) -> None:
        degrees, azimuth = finite("Slope", "degrees", self.degrees), finite("Slope", "azimuth", self.azimuth)
        if not -90.0 < degrees < 90.0:
            raise SimulationError(f"Slope: degrees must be between -90 and 90, a wall is no slope; got {degrees!r}")
        (c, s), (along_x, along_y) = of_degrees(degrees), of_degrees(azimuth)
        plane = Plane(not_negative("Slope", "friction", self.friction), (-s * along_x, -s * along_y, c))
        assign(self, degrees=degrees, azimuth=azimuth, friction=plane.friction, plane=plane)

    def distance(self, p: Array) -> tuple[Any, Array]:
        """As of the plane."""
        return self.plane.distance(p)


class Heights(Ground):
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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Heights) and other.key() == self.key()

    def __hash__(self) -> int:
        return hash(self.key())


@dataclass(frozen=True)
class Stairs(Heights):
    """`count` steps along +x, the first riser centred on x = `start`; flat before and after.

    `rise` is the height of a step (negative: down), `run` its depth. A riser is a smooth ramp of width `rounding`, the quintic
    6 u^5 - 15 u^4 + 10 u^3 with steepest slope 1.875 rise / rounding: a small one is steep, and wants small time steps.
    """

    rise: float
    run: float
    count: int
    friction: float = 0.8
    rounding: float = 0.05
    start: float = 0.0

    def __post_init__(self) -> None:
        rise, run, rounding = (finite("Stairs", name, getattr(self, name)) for name in ("rise", "run", "rounding"))
        if run <= 0.0 or not 0.0 < rounding <= run:
            raise SimulationError(f"Stairs: run and rounding must be positive, rounding at most run; got {run!r}, {rounding!r}")
        if isinstance(self.count, bool) or not isinstance(self.count, (int, np.integer)) or self.count < 1:
            raise SimulationError(f"Stairs: count must be a combined number from 1, got {self.count!r:.60}")
        start, friction = finite("Stairs", "start", self.start), not_negative("Stairs", "friction", self.friction)
        assign(self, rise=rise, run=run, rounding=rounding, count=int(self.count), start=start, friction=friction)

    def surface(self, x: Any, y: Any) -> tuple[Any, Any, Any]:
        """(h, h_x, 0): combined steps below x, and a part of the one that x is on."""
        # steps are numbered in tiles that meet in the middle of the treads, where all is flat
        t = (x - self.start) / self.run + 0.5
        step = _clipped(np.floor(t), 0.0, self.count - 1.0)
        u = _clipped((t - step - 0.5) * (self.run / self.rounding) + 0.5, 0.0, 1.0)
        part = u * u * u * (u * (6.0 * u - 15.0) + 10.0)
        steepness = 30.0 * (u * (1.0 - u)) * (u * (1.0 - u))
        return self.rise * (step + part), (self.rise / self.rounding) * steepness, 0.0


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

    def __repr__(self) -> str:
        shape, digest = self.heights.shape, hashlib.sha256(self.heights.tobytes()).hexdigest()
        return (
            f"HeightField(heights={shape} sha256:{digest}, spacing={self.spacing!r}, origin={self.origin!r}, "
            f"friction={self.friction!r})"
        )


@dataclass(frozen=True, eq=False)
class Terrain(Heights):
    """The surface z = height(x, y) of a function written with NumPy; its slopes come by automatic differentiation.

    The function is traced once, when the terrain is made. It must be finite everywhere, and should be smooth: contact forces
    are as often differentiable as the slopes are.
    """

    height: Callable[[Any, Any], Any]
    friction: float = 0.8
    tape: Tape = field(init=False, repr=False)
    _reference: Function = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.height):
            raise SimulationError(f"Terrain: height must be a function of x and y, got {type(self.height).__name__}")
        friction = not_negative("Terrain", "friction", self.friction)
        tape = trace(lambda x, y: {"h": self.height(x, y)}, x=(), y=())
        if [port.shape for port in tape.outputs] != [()]:
            raise SimulationError(f"Terrain: height(x, y) must give one number, got shape {tape.outputs[0].shape}")
        gradient = jacobian(tape)
        # one tape for all three, so that what they share is computed once
        combined = trace(lambda x, y: (*_replayed(tape, x, y), *_replayed(gradient, x, y)), x=(), y=())
        assign(self, friction=friction, tape=combined, _reference=Function(combined, "reference"))
        for x, y in PROBES:
            if not np.all(np.isfinite(self.surface(x, y))):
                raise SimulationError(
                    f"Terrain: the height or its slope at x = {x}, y = {y} is not finite; keep clear of 0/0, sqrt(0) and log(0)"
                )

    def surface(self, x: Any, y: Any) -> tuple[Any, Any, Any]:
        """(h, h_x, h_y): the function and its derivatives, traced or in float64."""
        if isinstance(x, Scalar) or isinstance(y, Scalar):
            h, h_x, h_y = _replayed(self.tape, x, y)
        else:
            function = self._reference if np.size(x) <= FEW else self._reference.on("cpu")  # the same bits
            h, h_x, h_y = function(x, y)
        return h, h_x, h_y

    def __reduce__(self) -> tuple[Any, ...]:
        require_importable("the terrain", self.height)
        return Terrain, (self.height, self.friction)

    def __repr__(self) -> str:
        return f"Terrain(height=tape sha256:{self.tape.hash}, friction={self.friction!r})"


def _replayed(tape: Tape, x: Any, y: Any) -> list[Any]:
    """The outputs of a tape of two scalars, recorded again in the current trace."""
    return [values[0] for values in inline(tape, [x, y]).values()]


def _clipped(x: Any, low: float, high: float) -> Any:
    return np.minimum(np.maximum(x, low), high)


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


def _dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    total = a[0] * b[0]
    for x, y in zip(a[1:], b[1:], strict=True):
        total = total + x * y
    return total


def coefficients(values: np.ndarray) -> np.ndarray:
    """c with (c[i-1] + 4 c[i] + c[i+1]) / 6 = values[i] along the first axis, the border's repeated; at least two values.

    Elimination for three diagonals, row by row: no library decides the last digits.
    """
    n = len(values)
    diagonal = np.full(n, 4.0)
    diagonal[0] = diagonal[-1] = 5.0
    c = 6.0 * values
    for i in range(1, n):
        diagonal[i] = diagonal[i] - 1.0 / diagonal[i - 1]
        c[i] = c[i] - c[i - 1] / diagonal[i - 1]
    c[-1] = c[-1] / diagonal[-1]
    for i in reversed(range(n - 1)):
        c[i] = (c[i] - c[i + 1]) / diagonal[i]
    return c


def axis_weights(t: Any, n: int) -> tuple[list[Any], list[Any]]:
    """(weights, their derivatives by t) of the n coefficients at t, a number, an array or a traced scalar; knots at 0 ... n-1."""
    # where the spline is constant, any point will do
    t = np.minimum(np.maximum(t, -1.0), float(n))
    bumps = [_bump(t - float(i)) for i in range(-2, n + 2)]
    values, derivatives = ([b[k] for b in bumps] for k in (0, 1))
    return _folded(values), _folded(derivatives)


def _folded(x: list[Any]) -> list[Any]:
    """The two knots outside counted with the border on either side."""
    return [x[0] + x[1] + x[2], *x[3:-3], x[-3] + x[-2] + x[-1]]


def _bump(t: Any) -> tuple[Any, Any]:
    """(B(t), B'(t))."""
    size = abs(t)
    outer, inner = np.maximum(2.0 - size, 0.0), np.maximum(1.0 - size, 0.0)
    value = (outer * outer * outer - 4.0 * (inner * inner * inner)) / 6.0
    fall = 0.5 * (outer * outer) - 2.0 * (inner * inner)
    return value, np.where(t < 0.0, fall, -fall)
