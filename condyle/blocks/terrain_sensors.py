"""The ground around the robot: the distance along a ray, and the heights on a grid that turns with the robot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from condyle.blocks.measurement import Quantity, Sensor
from condyle.errors import ControlError
from condyle.robot.spatial import Array, length, product, vector
from condyle.simulate.terrain import Ground, Heights, Plane, Slope
from condyle.simulate.world import World
from condyle.tape.array import array, stop_gradient, where
from condyle.tape.loop import loop, map_rows
from condyle.tape.table import is_recording

STEPS = 32  # intervals in which a ray over uneven ground looks for the first crossing
BISECTIONS = 30  # of the interval that has it
NEWTON = 2  # steps at the end, which make the digits full
MARGIN = 1e-6  # of the limit: how far a Newton step may leave the last interval
UNROLLED = 8  # points of a grid that are written out; more of them become a loop
TINY = 1e-12  # of a squared length, 1


class RangeFinder(Sensor):
    """The distance from a frame's origin to the ground along a ray, m; `limit` where the ground is farther or not there.

    The ray p + s u leaves the frame along `direction`, in the frame's axes. Flat ground n . p = d is met at
    s = (d - n . p) / (n . u). Over other ground the limit is divided into 32 intervals; the first at whose end the ray is below
    the surface is bisected, and two Newton steps follow. A bump shorter than limit / 32 along the ray can be missed. A frame
    below the surface reads 0. Output: {"range": a number, "valid": 1 or 0}.
    """

    def __init__(self, frame: str, *, direction: Sequence[float] = (0.0, 0.0, -1.0), limit: float = 10.0, **options: Any) -> None:
        super().__init__([Quantity("range", (), "m")], {"limit": limit, **options})
        given = np.asarray(direction, dtype=float)
        if given.shape != (3,) or not 0.0 < length(given) < np.inf:
            raise ControlError(f"sensor '{self.name}': direction must be three numbers, not all zero, got {direction!r:.60}")
        self.frame, self.direction = frame, given / length(given)

    def step(self, state: dict[str, Any], x: Any) -> tuple[Any, dict[str, Any]]:
        """The measured range at the state x of the loop."""
        ground, X = ground_of(self, x.world), x.frame_pose(self.frame)
        limit = self.effects["limit"].resolve()
        return self.measure(state, {"range": ray_length(ground, X.p, product(X.R, self.direction), limit)})


class HeightScan(Sensor):
    """The heights of the ground around a frame, m, relative to the frame's origin: h(x, y) - z, negative below it.

    On the grid of the coordinates `xs` and `ys`, m, in the heading frame: its origin is the frame's, its z is up, and its x is
    that of the frame in the horizontal plane. Output: {"heights": (len(xs), len(ys)), "valid": 1 or 0}.
    """

    def __init__(self, frame: str, xs: Sequence[float], ys: Sequence[float], **options: Any) -> None:
        self.frame = frame
        self.xs, self.ys = (np.atleast_1d(np.asarray(axis, dtype=float)) for axis in (xs, ys))
        if self.xs.ndim != 1 or self.ys.ndim != 1 or not self.xs.size or not self.ys.size:
            raise ControlError(f"HeightScan: xs and ys must be rows of numbers, got shapes {self.xs.shape} and {self.ys.shape}")
        super().__init__([Quantity("heights", (len(self.xs), len(self.ys)), "m")], options)

    def step(self, state: dict[str, Any], x: Any) -> tuple[Any, dict[str, Any]]:
        """The measured heights at the state x of the loop."""
        ground, X = ground_of(self, x.world), x.frame_pose(self.frame)
        c, s = heading(X.R)

        def height(point: Array) -> Any:
            across = vector(X.p[0] + (c * point[0] - s * point[1]), X.p[1] + (s * point[0] + c * point[1]), X.p[2])
            return height_above(ground, across)

        points = np.array([(a, b) for a in self.xs for b in self.ys])
        if is_recording() and len(points) > UNROLLED:
            heights = map_rows(lambda point: height(point), points)[:]
        else:
            heights = array([height(point) for point in points.tolist()])
        return self.measure(state, {"heights": heights})


def heading(R: Array) -> tuple[Any, Any]:
    """(cos, sin) of the direction of a frame's x axis in the horizontal plane; (1, 0) where it is vertical."""
    x, y = R[0, 0], R[1, 0]
    square = x * x + y * y
    level = square > TINY
    size = np.sqrt(where(level, square, 1.0))
    return where(level, x / size, 1.0), where(level, y / size, 0.0)


def height_above(ground: Ground, p: Array) -> Any:
    """The height of the ground above the point p, m: exact for planes and for all ground that is a height over z = 0."""
    if isinstance(ground, Heights):
        return ground.surface(p[0], p[1])[0] - p[2]
    distance, n = ground.distance(p)
    return -distance / n[2]


def ray_length(ground: Ground, p: Array, u: Array, limit: Any) -> Any:
    """The distance from p along the unit vector u to the ground, m; `limit` where there is none before."""
    distance, n = ground.distance(p)
    inside = distance <= 0.0
    if isinstance(ground, Plane | Slope):
        closing = -product(n, u)
        meets = closing > 0.0
        s = distance / where(meets, closing, 1.0)
    else:
        s, meets = _first_crossing(ground, p, u, limit)
    return where(inside, 0.0, where(meets, np.minimum(s, limit), limit))


def _first_crossing(ground: Ground, p: Array, u: Array, limit: Any) -> tuple[Any, Any]:
    """(s where the ray first crosses the surface, whether it does before the limit)."""
    stopped, straight, end = (stop_gradient(x) for x in (p, u, limit))

    def below(s: Any) -> Any:
        return ground.distance(stopped + straight * s)[0] <= 0.0

    def march(i: Any, bracket: Any) -> Any:
        low, high, found = bracket
        s = end * ((i + 1.0) * (1.0 / STEPS))
        hit = below(s)
        # the first interval stays
        return where(found > 0.5, low, where(hit, low, s)), where(found > 0.5, high, s), where(hit, 1.0, found)

    def bisect(_: Any, bracket: Any) -> Any:
        low, high = bracket
        middle = 0.5 * (low + high)
        hit = below(middle)
        return where(hit, low, middle), where(hit, middle, high)

    low, high, found = _repeated(march, (0.0, 0.0, 0.0), STEPS)
    low, high = _repeated(bisect, (low, high), BISECTIONS)
    s, margin = 0.5 * (low + high), MARGIN * end
    # Newton at the crossing, whose derivative is that of the solution; where the ray only grazes the surface it stays close
    for _ in range(NEWTON):
        s = stop_gradient(s)
        distance, n = ground.distance(p + u * s)
        rate = product(n, u)
        s = np.minimum(np.maximum(s - distance / where(rate < 0.0, rate, -1.0), low - margin), high + margin)
    return s, found > 0.5


def _repeated(body: Callable[[Any, Any], Any], start: Any, count: int) -> Any:
    """The state after `count` times body(i, state): a loop of the trace, or of Python on numbers."""
    if is_recording():
        return loop(body, start, count)
    state = start
    for i in range(count):
        state = body(float(i), state)
    return state


def ground_of(sensor: Sensor, world: World) -> Ground:
    """The ground of a world, or an error."""
    if world.ground is None:
        raise ControlError(f"sensor '{sensor.name}': the world has no ground; give it one, as in Simulation(robot, dt, Plane())")
    return world.ground
