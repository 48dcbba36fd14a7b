"""End effectors found in a mesh: the slab of vertices farthest out in some direction, fitted by a sphere, cylinder or ellipsoid.

Fits are linear minimum squares for |x|^2 = 2 c . x + (r^2 - |c|^2), and for the quadric of an ellipsoid; results are rounded to a
nanometre.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from condyle.errors import SimulationError
from condyle.robot import ordered
from condyle.robot.mesh import read_vertices
from condyle.robot.model import Model
from condyle.robot.names import nearest
from condyle.robot.spatial import length, product
from condyle.simulate.points import ContactPoint, inside_ellipsoid, moving_frame
from condyle.simulate.validate import finite, finites

DIGITS = 9  # after the point, in metres
FLATTEST = 1e-3  # thickness of a slab over its width, below which it has no curvature to fit
WORST = 0.1  # rms distance of the vertices from the fitted surface, over its radius and over the slab's height
NEAR = 0.02  # distance from a cylinder, over its radius or its slab's height, up to which vertices are on it
TILT = 0.2  # radians, between a cylinder's axis and where its slab is longest or shortest
ROUNDEST = 0.9  # length over width of a slab, above which it is too round to tell
ANGLES, REFINEMENTS = 21, 6  # directions tried for a cylinder's axis, and how often again around the best one
DIRECTIONS, OUTLINE = 1_000, 64  # in which the outermost vertices are looked for, in space and in a plane
STEEPEST = 1.2  # radians, the largest angle between them and the given direction


@dataclass(frozen=True, eq=False)
class Sphere:
    """A fitted sphere; `residual` is the rms distance of its vertices from it."""

    centre: np.ndarray
    radius: float
    residual: float

    def spheres(self) -> list[tuple[np.ndarray, float]]:
        """(centre, radius) of itself."""
        return [(self.centre, self.radius)]


@dataclass(frozen=True, eq=False)
class Cylinder:
    """A fitted cylinder: the middle of its axis, the unit axis, radius and length; `residual` as of a sphere."""

    centre: np.ndarray
    axis: np.ndarray
    radius: float
    length: float
    residual: float

    def spheres(self) -> list[tuple[np.ndarray, float]]:
        """(centre, radius) at the two ends of the axis; at its middle when it has no length."""
        if self.length == 0.0:
            return [(self.centre, self.radius)]
        return [(self.centre + sign * self.length / 2.0 * self.axis, self.radius) for sign in (-1.0, 1.0)]


@dataclass(frozen=True, eq=False)
class Ellipsoid:
    """A fitted ellipsoid: its centre, its axes as columns, the last along the direction, and its radii; `residual` as above."""

    centre: np.ndarray
    axes: np.ndarray
    radii: np.ndarray
    residual: float

    def spheres(self) -> list[tuple[np.ndarray, float]]:
        """(centre, radius) of the spheres inside it that stand for it: about its centre, and at the ends of its longer axes."""
        inside = inside_ellipsoid([float(r) for r in self.radii])
        return [(_settled(self.centre + product(self.axes, np.array(p))), round(r, DIGITS)) for p, r in inside]


def fit_end_effector(
    vertices: np.ndarray, direction: Sequence[float] = (0.0, 0.0, -1.0), thickness: float = 0.01, kind: str = "sphere"
) -> Sphere | Cylinder | Ellipsoid:
    """The sphere, cylinder or ellipsoid through the vertices (n, 3) within `thickness` of the farthest one along `direction`.

    Only the outermost vertices count. A cylinder lies across the direction, as a wheel or a round foot does, and a tyre's is the
    larger of its two circles; an ellipsoid has one axis along it. The slab should be thick enough to hold a good part of it.
    """
    if kind not in FITS:
        raise SimulationError(f"the kind of an end effector is {' or '.join(map(repr, FITS))}, got {kind!r:.60}")
    d = np.array(finites("end effector", "direction", direction, 3))
    if not np.any(d):
        raise SimulationError("end effector: the direction (0, 0, 0) leads nowhere; give the way to the ground, as in (0, 0, -1)")
    d = d / np.max(np.abs(d))
    d /= length(d)
    slab = _slab(vertices, d, finite("end effector", "thickness", thickness))
    return FITS[kind](slab, d)


def detected(
    model: Model, link_name: str, direction: Sequence[float] = (0.0, 0.0, -1.0), thickness: float = 0.01, kind: str = "sphere"
) -> list[ContactPoint]:
    """The contact points at the end of a link's meshes: a fitted sphere's centre, the two ends of a fitted cylinder's axis, or
    spheres inside a fitted ellipsoid.

    `link_name` is a moving link or any frame fixed to one; `direction` is given in its axes. The collision meshes of the moving
    link are used, or the visual ones when it has none.
    """
    frame = moving_frame(model, link_name)
    link = model.links[frame.link]
    chosen = [[s for s in shapes if s.kind == "mesh" and s.mesh is not None] for shapes in (link.collisions, link.visuals)]
    meshes = chosen[0] or chosen[1]
    if not meshes:
        having = [a.name for a in model.links if any(s.mesh is not None for s in (*a.collisions, *a.visuals))]
        raise SimulationError(f"link '{link.name}' of robot '{model.name}' has no mesh file{nearest(link.name, having)}")
    parts = []
    for shape in meshes:
        assert shape.mesh is not None
        parts.append(product(read_vertices(shape.mesh) * np.array(shape.size), shape.pose.R.T) + shape.pose.p)
    try:
        toward = product(frame.pose.R, np.array(finites("end effector", "direction", direction, 3)))
        fitted = fit_end_effector(np.concatenate(parts), toward, thickness, kind)
    except SimulationError as error:
        raise SimulationError(f"link '{link.name}' of robot '{model.name}': {error}") from None
    spheres = fitted.spheres()
    names = [f"{link_name}_tip{n}" if len(spheres) > 1 else f"{link_name}_tip" for n in range(len(spheres))]
    return [ContactPoint(name, frame.link, tuple(end), radius) for name, (end, radius) in zip(names, spheres, strict=True)]


# -- inside


def _slab(vertices: np.ndarray, d: np.ndarray, thickness: float) -> np.ndarray:
    """The different vertices within `thickness` of the farthest one along d."""
    given = np.asarray(vertices, dtype=np.float64)
    if given.ndim != 2 or given.shape[1] != 3 or not len(given) or not np.all(np.isfinite(given)):
        raise SimulationError(f"vertices must be a finite array of shape (n, 3), got shape {given.shape}")
    if thickness <= 0.0:
        raise SimulationError(f"the thickness of the slab must be positive, got {thickness!r}")
    depth = product(given, d)
    slab: np.ndarray = np.unique(given[depth >= depth.max() - thickness], axis=0)
    return slab


def _sphere(slab: np.ndarray, d: np.ndarray) -> Sphere:
    outer = _outermost(slab, _cap(d))
    _check(outer, 5, "sphere")
    centre, radius, residual = _round(outer)
    _accept(slab @ d, float(centre @ d), radius, residual, "sphere")
    return Sphere(_settled(centre), round(radius, DIGITS), residual)


def _ellipsoid(slab: np.ndarray, d: np.ndarray) -> Ellipsoid:
    """The quadric  z^2 + a x^2 + 2 c x y + b y^2 + p x + q y + r z + s = 0  of z along d, by linear minimum squares."""
    outer = _outermost(slab, _cap(d))
    _check(outer, 8, "ellipsoid")
    basis = np.column_stack([*_basis(d), d])
    # about the mean and in units of the spread, where squares do not cancel
    mean = outer.mean(axis=0)
    spread = float(np.max(np.abs(outer - mean))) or 1.0
    local = product((outer - mean) / spread, basis)
    x, y, z = local.T
    columns = np.column_stack([x * x, 2.0 * x * y, y * y, x, y, z, np.ones(len(x))])
    a, c, b, p, q, r, s = (float(value) for value in ordered.fit(columns, -z * z))
    determinant = a * b - c * c
    if a <= 0.0 or determinant <= 0.0:
        raise SimulationError("the slab's vertices are no ellipsoid; change the thickness or the direction, or take another kind")
    centre = np.array([(c * q - b * p) / (2.0 * determinant), (c * p - a * q) / (2.0 * determinant), -r / 2.0])
    size = centre[2] ** 2 - s - (p * centre[0] + q * centre[1]) / 2.0
    # the axes across d are those of [[a, c], [c, b]]
    turn = 0.5 * float(np.arctan2(2.0 * c, a - b))
    u, v = np.array([np.cos(turn), np.sin(turn), 0.0]), np.array([-np.sin(turn), np.cos(turn), 0.0])
    middle, half = 0.5 * (a + b), float(np.hypot(0.5 * (a - b), c))
    radii = np.sqrt(max(size, 0.0) / np.array([middle + half, middle - half, 1.0]))
    axes = np.column_stack([u, v, np.array([0.0, 0.0, 1.0])])
    away = product(local - centre, axes)
    far = np.sqrt(np.sum((away / np.maximum(radii, 1e-300)) ** 2, axis=1))
    misses = (1.0 - 1.0 / np.maximum(far, 1e-300)) * np.sqrt(np.sum(away * away, axis=1))
    residual = spread * float(np.sqrt(np.mean(misses * misses)))
    place = mean + spread * product(basis, centre)
    _accept(slab @ d, float(place @ d), spread * float(np.min(radii)), residual, "ellipsoid")
    return Ellipsoid(_settled(place), _settled(product(basis, axes)), np.round(spread * radii, DIGITS), residual)


def _cap(d: np.ndarray) -> np.ndarray:
    """Directions on a spiral over the cap around d, evenly."""
    a, b = _basis(d)
    k = np.arange(DIRECTIONS) + 0.5
    height = 1.0 - (1.0 - np.cos(STEEPEST)) * k / DIRECTIONS
    turn, width = np.pi * (1.0 + np.sqrt(5.0)) * k, np.sqrt(1.0 - height * height)
    cap: np.ndarray = np.outer(width * np.cos(turn), a) + np.outer(width * np.sin(turn), b) + np.outer(height, d)
    return cap


def _cylinder(slab: np.ndarray, d: np.ndarray) -> Cylinder:
    """Seen along its axis, a cylinder's outline is a circle: the axis is the direction in which the outline fits one best."""
    _check(slab, 5, "cylinder")
    a, b = _basis(d)

    def seen_along(angle: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        # the axis, the plane across it (two columns, the second along d), and the outline in that plane
        axis, side = np.cos(angle) * a + np.sin(angle) * b, np.cos(angle) * b - np.sin(angle) * a
        plane = np.column_stack([side, d])
        turn = np.linspace(-STEEPEST, STEEPEST, OUTLINE)
        return axis, plane, _outermost(slab @ plane, np.column_stack([np.sin(turn), np.cos(turn)]))

    def miss(angle: float) -> float:
        # over the outline's height, because a flat one is near to some large circle; fewer than five vertices are on one anyway:
        # three always, and the four corners of a chamfered tread
        outline = seen_along(angle)[2]
        height = float(np.ptp(outline[:, 1]))
        return _round(outline)[2] / height if len(outline) >= 5 and height > 0.0 else np.inf

    # the slab is longest along the axis or across it, unless it is about as long as wide: then the axis may lie anywhere
    flat = slab @ np.column_stack([a, b])
    _, (longest, shortest), principal = np.linalg.svd(flat - flat.mean(axis=0), full_matrices=False)
    tilt = TILT if shortest < ROUNDEST * longest else np.pi / 4.0
    best = [_minimum(miss, float(np.arctan2(axis[1], axis[0])), tilt) for axis in principal]
    # a tyre is round both ways: the wheel is the larger circle
    fitting = [angle for angle in best if miss(angle) <= NEAR]
    angle = max(fitting, key=lambda angle: _round(seen_along(angle)[2])[1]) if fitting else min(best, key=miss)
    if miss(angle) == np.inf:
        raise SimulationError("the slab's outline has too few vertices for a cylinder; make it thicker")
    axis, plane, outline = seen_along(angle)
    centre, radius, residual = _round(outline)
    _accept(slab @ d, float(centre[1]), radius, residual, "cylinder")
    # a tread may be rounded: the cylinder is as long as what lies on it
    on_it = np.abs(np.linalg.norm(slab @ plane - centre, axis=1) - radius) <= NEAR * radius
    along = slab[on_it] @ axis if np.any(on_it) else slab @ axis
    length = float(np.ptp(along))
    middle = plane @ centre + axis * (float(np.min(along)) + length / 2.0)
    return Cylinder(_settled(middle), _settled(axis), round(radius, DIGITS), round(length, DIGITS), residual)


def _minimum(miss: Callable[[float], float], angle: float, tilt: float) -> float:
    """The angle within `tilt` of the given one where `miss` is minimum: the best of a row, then again around it, closer."""
    for _ in range(REFINEMENTS):
        angle = float(min(angle + tilt * np.linspace(-1.0, 1.0, ANGLES), key=miss))
        tilt *= 4.0 / ANGLES
    return angle


def _basis(d: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two unit vectors across d and each other."""
    a = np.cross(d, np.eye(3)[int(np.argmin(np.abs(d)))])
    a /= length(a)
    return a, np.cross(d, a)


def _outermost(points: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """The points that are the farthest ones in some of the directions: the surface, not what lies inside of it."""
    centred = points - points.mean(axis=0)
    found: np.ndarray = points[sorted({int(np.argmax(centred @ u)) for u in directions})]
    return found


def _round(points: np.ndarray) -> tuple[np.ndarray, float, float]:
    """(centre, radius, rms distance) of the circle or sphere through points (n, 2) or (n, 3), by linear minimum squares."""
    # about the mean and in units of the spread, where squares do not cancel
    mean = points.mean(axis=0)
    spread = float(np.max(np.abs(points - mean))) or 1.0
    x = (points - mean) / spread
    columns = np.column_stack([2.0 * x, np.ones(len(x))])
    found = ordered.fit(columns, np.sum(x * x, axis=1))
    centre = found[:-1]
    radius = float(np.sqrt(max(found[-1] + product(centre, centre), 0.0)))
    misses = np.linalg.norm(x - centre, axis=1) - radius
    return mean + spread * centre, spread * radius, spread * float(np.sqrt(np.mean(misses * misses)))


def _check(slab: np.ndarray, minimum: int, kind: str) -> None:
    """Raise when there are too few vertices, or all of them lie in a plane."""
    if len(slab) < minimum:
        raise SimulationError(f"the slab has {len(slab)} vertices, and a {kind} needs at minimum {minimum}; make it thicker")
    widths = np.linalg.svd(slab - slab.mean(axis=0), compute_uv=False)
    if widths[2] <= FLATTEST * widths[0]:
        raise SimulationError(
            f"the slab's {len(slab)} vertices lie in a plane, which no {kind} can be fitted to; make it thicker, or, for a flat "
            "foot, put contact points at its corners"
        )


def _accept(depths: np.ndarray, centre: float, radius: float, residual: float, kind: str) -> None:
    """Raise unless the vertices are the outer side of the fitted surface."""
    if radius <= 0.0 or residual > WORST * min(radius, float(np.ptp(depths))):
        raise SimulationError(
            f"the slab's vertices are no {kind}: they are {residual:.3g} m off the best one, of radius {radius:.3g} m; "
            "change the thickness or the direction, or take another kind"
        )
    if centre > float(depths.max()):
        raise SimulationError(f"the slab's vertices are the inside of a {kind}: turn the direction around")


def _settled(vector: np.ndarray) -> np.ndarray:
    return np.round(vector, DIGITS) + 0.0


FITS: dict[str, Callable[[np.ndarray, np.ndarray], Sphere | Cylinder | Ellipsoid]] = {
    "sphere": _sphere,
    "cylinder": _cylinder,
    "ellipsoid": _ellipsoid,
}
