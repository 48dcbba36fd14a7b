"""How far a robot's own shapes reach: the support functions of boxes, balls, rods and meshes, and where they stick out between
contact points."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from condyle.robot.description import Shape
from condyle.robot.model import Link, Model
from condyle.robot.spatial import product
from condyle.simulate.auto_points import Poses, link_poses, supports_of, that_move
from condyle.simulate.candidates import candidates, directions, mesh_vertices
from condyle.simulate.points import ContactPoint

CONFIGURATIONS = 128  # drawn at random within the limits
STICKING_OUT = 0.03  # distance of a link beyond the contact points, over the robot's size, above which it gets a note


def shape_reach(shape: Shape, d: np.ndarray, *, every: bool = False) -> np.ndarray:
    """max over the shape of  x . d  for unit directions d (n, 3), in the link's frame, m: (n,); -inf without vertices.

    `every`: over every vertex of a mesh, not only the outermost ones.
    """
    local, size = product(d, shape.pose.R), shape.size
    if shape.kind == "sphere":
        out = np.full(len(d), size[0])
    elif shape.kind == "capsule":
        out = size[0] + np.abs(local[:, 2]) * (size[1] / 2.0)
    elif shape.kind == "cylinder":
        out = size[0] * np.sqrt(local[:, 0] ** 2 + local[:, 1] ** 2) + np.abs(local[:, 2]) * (size[1] / 2.0)
    elif shape.kind == "box":
        out = np.sum(np.abs(local) * (np.array(size) / 2.0), axis=1)
    elif shape.kind == "ellipsoid":
        out = np.sqrt(np.sum((local * np.array(size)) ** 2, axis=1))
    else:
        vertices = mesh_vertices(shape)[0 if every else 1]
        out = np.max(local @ vertices.T, axis=1) if len(vertices) else np.full(len(d), -np.inf)
    return out + product(d, np.asarray(shape.pose.p, dtype=float))  # type: ignore[no-any-return]


def link_shapes(link: Link) -> list[Shape]:
    """The shapes by which a link may touch: its collision shapes, or the visual ones of a link without any."""
    return [shape for shape in link.collisions if shape.contact] if link.collisions else list(link.visuals)


def link_reach(model: Model, X: Poses, d: np.ndarray) -> np.ndarray:
    """How far the shapes of each link reach along d (n, 3), about the base, m: (configurations, links, n)."""
    out = np.full((len(X), len(model.links), len(d)), -np.inf)
    for i, link in enumerate(model.links):
        local = np.concatenate([product(d, links[i][0]) for links in X])
        for shape in link_shapes(link):
            reach = shape_reach(shape, local).reshape(len(X), len(d))
            out[:, i] = np.maximum(out[:, i], reach + np.array([product(d, links[i][1] - links[0][1]) for links in X]))
    return out


def sticking_out(model: Model, points: Sequence[ContactPoint]) -> np.ndarray:
    """How far the shapes of each link are beyond all contact points at most, m: (links,), -inf without shapes.

    So deep a link can be in level ground on which the robot lies on its points: over many directions and configurations within
    the limits, of which the worst one found counts. Of a mesh the outermost vertices are taken. -inf also for links that no
    joint moves up or down.
    """
    X, d = link_poses(model, CONFIGURATIONS), directions()
    reach = link_reach(model, X, d)
    of_points = supports_of(X, points).max(axis=1) if points else np.full((len(X), len(d)), -np.inf)
    lifted = np.array([bool(own) for own in that_move(model, candidates(model))])
    return np.where(lifted, np.max(reach - of_points[:, None], axis=(0, 2)), -np.inf)


def coverage(model: Model, points: Sequence[ContactPoint]) -> float:
    """How far the robot's shapes are beyond its contact points at most, see `sticking_out`, m; 0 for a robot without shapes."""
    return float(np.max(sticking_out(model, points), initial=0.0))


def contact_notes(model: Model, asked: Sequence[ContactPoint], points: Sequence[ContactPoint]) -> list[str]:
    """Sentences about contact points that were asked for and are left out, and about links that are beyond the others by more
    than STICKING_OUT of the robot's size."""
    if not asked:
        return []
    notes = [f"contact point '{point.name}' is left out: no joint moves it" for point in asked if point not in points]
    first, d = link_poses(model, 0), directions()
    width = link_reach(model, first, d)[0].max(axis=0)
    size = float(np.max(width[: len(d) // 2] + width[len(d) // 2 :]))
    beyond = sticking_out(model, points)
    worst = [int(i) for i in np.argsort(-beyond, kind="stable") if STICKING_OUT * size < beyond[i] < np.inf]
    if not worst:
        return notes
    named = ", ".join(f"'{model.links[i].name}' by {1000.0 * beyond[i]:.0f} mm" for i in worst[:3])
    more = f" and {len(worst) - 3} more" if len(worst) > 3 else ""
    sentence = (
        f"links stick out between the contact points: {named}{more}; so deep they can be in the ground. More points hold them "
        f"up: contacts=['{model.links[worst[0]].name}', 'auto']"
    )
    return [*notes, sentence]
