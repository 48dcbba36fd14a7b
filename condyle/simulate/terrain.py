"""The ground: planes, slopes, stairs, height fields, and any height a function gives. Each says how far a point is from it.

`distance(p)` is generic over the scalar: floats give floats, traced scalars are recorded. Stairs, height fields and terrains
are heights over the plane z = 0 (heights.py says what their distance is).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from condyle.errors import SimulationError
from condyle.robot.angles import of_degrees
from condyle.robot.spatial import Array, vector
from condyle.simulate.height_field import HeightField
from condyle.simulate.heights import Heights
from condyle.simulate.validate import assign, finite, finites, not_negative
from condyle.tape.derive import jacobian
from condyle.tape.function import Function
from condyle.tape.inline import inline
from condyle.tape.scalar import Scalar
from condyle.tape.tape import Tape
from condyle.tape.trace import trace

__all__ = ["Ground", "HeightField", "Plane", "Slope", "Stairs", "Terrain"]

PROBES = ((0.0, 0.0), (1.0, 0.5), (-0.5, 1.0), (-1.0, -2.0))  # where a height given as a function is tried out


class Ground(Protocol):
    """What a simulation asks of the ground."""

    @property
    def friction(self) -> float:
        """Coulomb's coefficient, for every contact point that has none of its own."""

    def distance(self, p: Array) -> tuple[Any, Array]:
        """(signed distance, unit outward normal) of the world point p: positive above the ground."""

    def key(self) -> str:
        """A text that differs whenever the ground does, the same in every process."""


@dataclass(frozen=True)
class Plane:
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

    def key(self) -> str:
        return repr(self)


@dataclass(frozen=True)
class Slope:
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

    def key(self) -> str:
        return repr(self)


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
            raise SimulationError(f"Stairs: count must be a whole number from 1, got {self.count!r:.60}")
        start, friction = finite("Stairs", "start", self.start), not_negative("Stairs", "friction", self.friction)
        assign(self, rise=rise, run=run, rounding=rounding, count=int(self.count), start=start, friction=friction)

    def surface(self, x: Any, y: Any) -> tuple[Any, Any, Any]:
        """(h, h_x, 0): whole steps below x, and a part of the one that x is on."""
        # steps are numbered in tiles that meet in the middle of the treads, where all is flat
        t = (x - self.start) / self.run + 0.5
        step = _clipped(np.floor(t), 0.0, self.count - 1.0)
        u = _clipped((t - step - 0.5) * (self.run / self.rounding) + 0.5, 0.0, 1.0)
        part = u * u * u * (u * (6.0 * u - 15.0) + 10.0)
        slope = 30.0 * (u * (1.0 - u)) * (u * (1.0 - u))
        return self.rise * (step + part), (self.rise / self.rounding) * slope, 0.0

    def key(self) -> str:
        return repr(self)


@dataclass(frozen=True, eq=False)
class Terrain(Heights):
    """The surface z = height(x, y) of a function written with NumPy; its slopes come by automatic differentiation.

    The function is traced once, when the terrain is made. It must be finite everywhere, and should be smooth: contact forces
    are as often differentiable as the slopes are.
    """

    height: Callable[[Any, Any], Any]
    friction: float = 0.8
    tape: Tape = field(init=False, repr=False)
    _plain: Function = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not callable(self.height):
            raise SimulationError(f"Terrain: height must be a function of x and y, got {type(self.height).__name__}")
        friction = not_negative("Terrain", "friction", self.friction)
        tape = trace(lambda x, y: {"h": self.height(x, y)}, x=(), y=())
        if [port.shape for port in tape.outputs] != [()]:
            raise SimulationError(f"Terrain: height(x, y) must give one number, got shape {tape.outputs[0].shape}")
        slopes = jacobian(tape)
        # one tape for all three, so that what they share is computed once
        whole = trace(lambda x, y: (*_replayed(tape, x, y), *_replayed(slopes, x, y)), x=(), y=())
        assign(self, friction=friction, tape=whole, _plain=Function(whole, "reference"))
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
            h, h_x, h_y = self._plain(x, y)
        return h, h_x, h_y

    def key(self) -> str:
        """A text that differs whenever the ground does."""
        return repr(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Terrain) and other.key() == self.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def __reduce__(self) -> tuple[Any, ...]:
        return Terrain, (self.height, self.friction)

    def __repr__(self) -> str:
        return f"Terrain(height=tape sha256:{self.tape.hash}, friction={self.friction!r})"


# -- inside


def _replayed(tape: Tape, x: Any, y: Any) -> list[Any]:
    """The outputs of a tape of two scalars, recorded again in the current trace."""
    return [values[0] for values in inline(tape, [x, y]).values()]


def _clipped(x: Any, low: float, high: float) -> Any:
    return np.minimum(np.maximum(x, low), high)
