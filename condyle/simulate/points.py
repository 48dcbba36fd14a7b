"""Contact points: the spheres, fixed to moving links, by which a robot touches the ground."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from math import sqrt
from typing import Any

import numpy as np

from condyle.errors import SimulationError
from condyle.robot.description import Shape
from condyle.robot.model import Frame, Model
from condyle.robot.names import nearest
from condyle.simulate.validate import assign, finites, not_negative

# the points on each rim of a cylinder of radius 1
D = sqrt(0.5)
RIM = ((1.0, 0.0), (D, D), (0.0, 1.0), (-D, D), (-1.0, 0.0), (-D, -D), (0.0, -1.0), (D, -D))

FEW = 32  # points of simple shapes, up to which "auto" takes all of them
SIMPLE = ("box", "sphere", "capsule")

WHAT_CAN_BE_PASSED = (
    'contacts may be "auto" for a few points about the whole robot; "feet" for those on which it stands; "collisions" for all '
    "simple collision shapes; names of moving links, collision shapes or frames, in which * stands "
    "for any letters; {frame: radius}; or ContactPoints, as point_on and detected make them"
)


@dataclass(frozen=True)
class ContactPoint:
    """A sphere on a moving link: its centre in the link's frame, and its radius, 0 for a point.

    `friction`: its own coefficient; None for that of the ground. `secondary`: mostly above the ground, so that it has no
    code of its own in a kernel and is worked on in a table, where it touches.
    """

    name: str
    link: int
    position: tuple[float, float, float]
    radius: float
    friction: float | None = None
    secondary: bool = False

    def __post_init__(self) -> None:
        what = f"contact point '{self.name}'"
        friction = None if self.friction is None else not_negative(what, "friction", self.friction)
        assign(self, position=finites(what, "position", self.position, 3), friction=friction)
        assign(self, radius=not_negative(what, "radius", self.radius))

    def key(self) -> str:
        """A text that differs whenever the point does, the same in every process."""
        return f"{self.name!r} {self.link} {list(self.position)!r} {self.radius!r} {self.friction!r} {self.secondary!r}"


Contacts = str | ContactPoint | Mapping[str, float] | Iterable[str | ContactPoint] | None


def contact_points(model: Model, contacts: Contacts = None) -> tuple[ContactPoint, ...]:
    """The contact points that `contacts` asks for, in the order asked, and within a link in that of its shapes; names are unique.

    None or "auto": the feet, then points about the whole robot, so that it may fall over: auto_points.py. Of a robot with at most
    FEW points in all, of simple shapes, these. "feet": those on which it stands. "collisions": every simple collision shape of
    every moving link. A list may hold these words besides names. "none": no points.

    A name: of a moving link, then all its collision shapes; else of such a shape (one without a name is called LINK_KIND and its
    number in the link, as in "LF_SHANK_sphere2"); else of a frame, then the point at its origin. In a name * stands for any
    letters: "*_SHANK_sphere2", the feet, are four shapes. A mapping {frame: radius}: spheres about frames. ContactPoints are
    taken as they are.

    A sphere is one point with its radius, a capsule two at the ends of its axis. Edges are points of radius 0: a box has 8, its
    corners, and a cylinder 8 on each rim, so that it rolls as a prism does; for a wheel, take "auto", a sphere or detected(...).
    An ellipsoid has a sphere about its centre and one inside each end of its longer axes. A shape that cannot touch the ground,
    by the contact bits of its file, has points only if it is named itself. Meshes have points in "auto" and "feet", or by name.
    """
    if contacts is None:
        contacts = "auto"
    items: list[Any] = [contacts] if isinstance(contacts, str) or not isinstance(contacts, Iterable) else [*contacts]
    if "auto" in items and not isinstance(contacts, Mapping):
        return _with_auto(model, [item for item in items if item != "auto"])
    if items == ["none"]:
        return ()
    everything = isinstance(contacts, str) and contacts == "collisions"
    if everything:
        points = [p for i in range(len(model.links)) for p in _link_points(model, i)]
    elif isinstance(contacts, Mapping):
        points = [point_on(model, name, radius=radius, name=name) for name, radius in contacts.items()]
    else:
        points = []
        for item in contacts if isinstance(contacts, Iterable) and not isinstance(contacts, str) else [contacts]:
            points += [_on_model(model, item)] if isinstance(item, ContactPoint) else _of_name(model, item)
    if not points:
        given = (
            f"robot '{model.name}' has no simple collision shapes on its moving links"
            if everything
            else f"contacts={contacts!r:.60} is empty"
        )
        raise SimulationError(f"{given}, so there is nothing to touch the ground with; {WHAT_CAN_BE_PASSED}")
    return _unique(points)


def point_on(
    model: Model,
    frame: str,
    position: Sequence[float] = (0.0, 0.0, 0.0),
    radius: float = 0.0,
    friction: float | None = None,
    name: str | None = None,
) -> ContactPoint:
    """The contact point at `position`, given in a frame of the model."""
    f = moving_frame(model, frame)
    point = ContactPoint(frame if name is None else name, f.link, position, radius, friction)  # type: ignore[arg-type]
    return replace(point, position=tuple(f.pose.point(np.array(point.position))))


def moving_frame(model: Model, name: str) -> Frame:
    """The frame of this name, if it is on a moving link."""
    for frame in model.frames:
        if frame.name == name:
            if frame.link < 0:
                raise SimulationError(
                    f"frame '{name}' of robot '{model.name}' is fixed to the world and cannot touch the ground; "
                    "load the robot with another base, or take a frame on a moving link"
                )
            return frame
    raise SimulationError(f"robot '{model.name}' has no frame '{name}'{nearest(name, [f.name for f in model.frames])}")


# -- inside


def _with_auto(model: Model, others: list[str | ContactPoint]) -> tuple[ContactPoint, ...]:
    """The points of the other items, and those of "auto"."""
    from condyle.simulate.auto_points import auto_points

    if not others and (few := _few(model)):
        return _unique(few)
    points = auto_points(model, contact_points(model, others) if others else ())
    if not points:
        raise SimulationError(
            f"robot '{model.name}' has no shapes, and no masses to take boxes for, that move up or down; give contacts as "
            "{frame: radius}"
        )
    return _unique(points)


def _few(model: Model) -> list[ContactPoint]:
    """All points of a robot whose shapes are simple and may touch, if they are few and all can move; else none."""
    links = model.links
    simple = all(s.contact and s.kind in SIMPLE for link in links for s in link.collisions)
    bare = any(link.visuals and not link.collisions for link in links)
    points = [p for i in range(len(links)) for p in _link_points(model, i)] if simple and not bare else []
    return points if len(points) <= FEW and len(movable(model, points)) == len(points) else []


def movable(model: Model, points: Sequence[ContactPoint]) -> list[ContactPoint]:
    """The points that some joint moves: not those on the axis of the only joint before them."""
    from condyle.simulate.auto_points import moves

    size = max((float(np.max(np.abs(p.position))) for p in points), default=1.0) or 1.0
    return [p for p, moved in zip(points, moves(model, points, [size] * len(points)), strict=True) if moved]


def _of_name(model: Model, name: object) -> list[ContactPoint]:
    """The points of one item: of a word, or of a name."""
    if name == "collisions":
        return [p for i in range(len(model.links)) for p in _link_points(model, i)]
    if name != "feet":
        return _named_points(model, name)
    from condyle.simulate.auto_points import foot_points

    return foot_points(model)


def _named_points(model: Model, name: object) -> list[ContactPoint]:
    """The points of one name: of links, else of shapes, else of frames."""
    if not isinstance(name, str):
        raise SimulationError(f"a contact must be a name or a ContactPoint, got {type(name).__name__}; {WHAT_CAN_BE_PASSED}")
    star = "*" in name

    def meant(known: str) -> bool:
        return fnmatchcase(known, name) if star else known == name

    links = [i for i, link in enumerate(model.links) if meant(link.name) and link.collisions]
    points = [p for i in links for p in _link_points(model, i)]
    if links and not points:
        points = [p for i in links for p in _mesh_points(model, i)]
        if not points:
            raise SimulationError(
                f"link '{model.links[links[0]].name}' has only meshes as collision shapes, and they cannot be read: give a "
                "frame and a radius, {frame: radius}"
            )
    every = [(i, k) for i, link in enumerate(model.links) for k in range(len(link.collisions))]
    points = points or [p for i, k in every if meant(shape_name(model, i, k)) for p in _shape_points(model, i, k)]
    frames = [f.name for f in model.frames if meant(f.name) and (f.link >= 0 or not star)]
    points = points or [point_on(model, frame) for frame in frames]
    if not points:
        known = list(dict.fromkeys([f.name for f in model.frames] + [shape_name(model, i, k) for i, k in every]))
        begin = not star and any(k.startswith(name) for k in known)
        hint = f" (for all that begin so write '{name}*')" if begin else nearest(name, known)
        raise SimulationError(f"robot '{model.name}' has no link, collision shape or frame '{name}'{hint}")
    return points


def _mesh_points(model: Model, i: int) -> list[ContactPoint]:
    """The outermost points of a link that has only meshes."""
    from condyle.simulate.candidates import mesh_candidates

    return [candidate.point() for candidate in mesh_candidates(model, i)]


def _link_points(model: Model, i: int) -> list[ContactPoint]:
    return [p for k, shape in enumerate(model.links[i].collisions) if shape.contact for p in _shape_points(model, i, k)]


def _shape_points(model: Model, i: int, k: int) -> list[ContactPoint]:
    """The points of shape k of link i, named after the shape."""
    shape, stem = model.links[i].collisions[k], shape_name(model, i, k)
    part = {"box": "_corner", "cylinder": "_rim", "capsule": "_end", "ellipsoid": "_sphere"}.get(shape.kind, "")
    distinct = list(dict.fromkeys(spheres(shape)))  # a shape of size zero would have some twice
    return [
        ContactPoint(f"{stem}{part}{n}" if part else stem, i, tuple(shape.pose.point(np.array(p))), radius, shape.friction)
        for n, (p, radius) in enumerate(distinct)
    ]


def shape_name(model: Model, i: int, k: int) -> str:
    """The shape's own name, or the link's with the shape's kind and number."""
    shape = model.links[i].collisions[k]
    return shape.name or f"{model.links[i].name}_{shape.kind}{k}"


def spheres(shape: Shape) -> list[tuple[tuple[float, float, float], float]]:
    """(centre in its own frame, radius) of the spheres that stand for a shape; none for a mesh."""
    if shape.kind == "sphere":
        return [((0.0, 0.0, 0.0), shape.size[0])]
    if shape.kind == "capsule":
        return [((0.0, 0.0, sign * shape.size[1] / 2.0), shape.size[0]) for sign in (-1.0, 1.0)]
    if shape.kind == "box":
        a, b, c = (length / 2.0 for length in shape.size)
        return [((x, y, z), 0.0) for x in (-a, a) for y in (-b, b) for z in (-c, c)]
    if shape.kind == "cylinder":
        r, length = shape.size
        return [((r * x, r * y, sign * length / 2.0), 0.0) for sign in (-1.0, 1.0) for x, y in RIM]
    if shape.kind == "ellipsoid":
        return inside_ellipsoid(shape.size)
    return []


def inside_ellipsoid(radii: Sequence[float]) -> list[tuple[tuple[float, float, float], float]]:
    """The sphere about the centre, and one at each end of a longer axis, as round as the ellipsoid is there."""
    least = min(radii)
    found = [((0.0, 0.0, 0.0), least)]
    for axis, a in enumerate(radii):
        r = min(b for k, b in enumerate(radii) if k != axis) ** 2 / a if a > 0.0 else 0.0
        if a > least and r < a:
            ends = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
            ends[0][axis], ends[1][axis] = r - a, a - r
            found += [((x, y, z), r) for x, y, z in ends]
    return found


def _on_model(model: Model, point: ContactPoint) -> ContactPoint:
    if not 0 <= point.link < len(model.links):
        raise SimulationError(
            f"contact point '{point.name}' is on link {point.link}, and robot '{model.name}' has the moving links 0 to "
            f"{len(model.links) - 1}; make it with point_on(model, frame, ...)"
        )
    return point


def _unique(points: Sequence[ContactPoint]) -> tuple[ContactPoint, ...]:
    """The points with a number added to every name that was there before; a point asked for twice is there once."""
    taken: dict[str, ContactPoint] = {}
    for point in points:
        if point.name in taken and taken[point.name] == point:
            continue
        name, number = point.name, 1
        while name in taken:
            number += 1
            name = f"{point.name}_{number}"
        taken[name] = point if name == point.name else replace(point, name=name)
    return tuple(taken.values())
