"""Lines and arcs joined to one path by arc length, and polygons with rounded corners: what a weld or a glue bead follows.

path = rounded([[0, 0, 0], [0.1, 0, 0], [0.1, 0.1, 0]], radius=0.01, closed=True)
path.length                                   # m
path.at(s)                                    # s in [0, 1]: position and two derivatives, |dp/ds| = length everywhere
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.methods.planning.paths import Circle, Line, PathPoint, circle, line
from condyle.methods.planning.profiles import column, finite_array, is_traced
from condyle.tape.array import select

GAP = 1e-9  # m, between the end of a piece and the start of the next


@dataclass(frozen=True)
class Joined:
    """Lines and circles one after another, each as long in s as its part of the total length."""

    pieces: tuple[Line | Circle, ...]
    length: float

    def at(self, s: Any) -> PathPoint:
        """Position and its first and second derivative; the second jumps where a line meets an arc."""
        s = s if is_traced(s) else np.asarray(s, dtype=float)
        begin, found = 0.0, None
        for piece in self.pieces:
            share = piece.length / self.length
            local = np.minimum(np.maximum((s - begin) * (1.0 / share), 0.0), 1.0)
            p, first, second = piece.at(local)
            here = PathPoint(p, first * (1.0 / share), second * (1.0 / share**2))
            # a point between two pieces belongs to the second
            after = column(s >= begin)
            found = here if found is None else PathPoint(*[select(after, a, b) for a, b in zip(here, found, strict=True)])
            begin += share
        assert found is not None
        return found


def joined(pieces: Sequence[Line | Circle]) -> Joined:
    """The path through the pieces in their order; each must start where the one before ends."""
    if not pieces:
        raise ControlError("a joined path needs at least one line or circle")
    for k, piece in enumerate(pieces):
        if not isinstance(piece, (Line, Circle)) or not piece.length > 0.0:
            raise ControlError(f"piece {k} of a joined path must be a line or circle of a length above zero; got {piece!r:.60}")
        gap = np.linalg.norm(piece.at(0.0).position - pieces[k - 1].at(1.0).position) if k else 0.0
        if gap > GAP:
            raise ControlError(f"piece {k} of a joined path begins {gap:.3g} m from the end of piece {k - 1}; they must meet")
    return Joined(tuple(pieces), float(sum(piece.length for piece in pieces)))


def rounded(points: Any, radius: float, *, closed: bool = False) -> Joined:
    """The polygon through points (count, 3) with arcs of this radius, m, in place of its corners.

    closed: back to the start, in the middle of the last side; else from the first point to the last.
    """
    corners = finite_array(points, "the corners of a path")
    if corners.ndim != 2 or corners.shape[1:] != (3,) or len(corners) < 2 + closed:
        raise ControlError(f"a rounded path needs at least {2 + closed} points, an array (points, 3); got shape {corners.shape}")
    radius = float(finite_array(radius, "the radius of corners"))
    if radius <= 0.0:
        raise ControlError(f"the radius of corners must be above zero; got {radius:g}")
    if closed:
        middle = 0.5 * (corners[-1] + corners[0])
        corners = np.concatenate([middle[None], corners, middle[None]])
    pieces: list[Line | Circle] = []
    here = corners[0]
    for k in range(1, len(corners) - 1):
        a, b = corners[k - 1] - corners[k], corners[k + 1] - corners[k]
        to, on = a / np.linalg.norm(a), b / np.linalg.norm(b)
        normal = np.cross(-to, on)
        turn = float(np.arctan2(np.linalg.norm(normal), -(to @ on)))
        if turn < 1e-9:
            continue
        cut = radius * np.tan(0.5 * turn)
        room = (corners[k - 1] - here) @ to + np.linalg.norm(a)
        if turn > np.pi - 1e-6 or cut > room + GAP or cut > np.linalg.norm(b) + GAP:
            raise ControlError(
                f"corner {k - closed} of a rounded path has no room for a radius of {radius:g} m, which takes {cut:.3g} m "
                "of both its sides"
            )
        first = corners[k] + cut * to
        if np.linalg.norm(first - here) > GAP:
            pieces.append(line(here, first))
        centre = first + radius * np.cross(normal / np.linalg.norm(normal), -to)
        pieces.append(circle(first, centre=centre, normal=normal, angle=turn))
        here = pieces[-1].at(1.0).position
    if np.linalg.norm(corners[-1] - here) > GAP:
        pieces.append(line(here, corners[-1]))
    return joined(pieces)
