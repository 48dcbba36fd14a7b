"""contacts="auto": a few contact points about the whole robot, so that it stands on its feet and may fall over on any part.

In a configuration and with a direction d pointing down, the robot lies on the points of its shapes that are farthest along d.
First come the points on which it stands: corners of soles, spheres of feet and wheels. Then points are chosen one by one where a
shape is farthest beyond those chosen so far, over many directions and configurations: the largest distance that is left bounds
how deep any part of the robot can be in level ground.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

import numpy as np

from condyle.dynamics.kinematics import ancestors, poses
from condyle.dynamics.manifold import random_configuration
from condyle.robot.model import Model
from condyle.robot.spatial import cross, product
from condyle.robot.stance import is_foot
from condyle.simulate.candidates import DIGITS, Candidate, candidates, directions, foot
from condyle.simulate.points import ContactPoint

BUDGET = 64  # contact points
ENOUGH = 0.01  # distance of the shapes beyond the points, over the robot's size, at which no more are added
NEAR = 0.5  # of that distance: points that close a gap about as well
CONFIGURATIONS = 16  # drawn at random within the limits, besides the one where the robot begins
LOW = 0.05  # height above the lowest point over the size, up to which points carry the robot where it begins
STILL = 1e-9  # speed of a point over the robot's size, below which no joint moves it

MANY = 4096  # candidates, above which links inside of the robot are left out at once

Spheres = ContactPoint | Candidate
Poses = list[list[tuple[np.ndarray, np.ndarray]]]  # (R, p) of every link in every configuration


def auto_points(model: Model, given: Sequence[ContactPoint] = (), budget: int = BUDGET) -> list[ContactPoint]:
    """At most `budget` contact points about the robot, the `given` ones first, then its feet; fewer where they do.

    Points of a link that cannot come nearer to level ground, as those on the axis of an arm's first joint, are left out. Points
    that do not carry the robot where it begins are secondary.
    """
    X = link_poses(model)
    links, feet = _with_feet(model, X, that_move(model, candidates(model)))
    standing = {(point.link, point.name) for point in feet}
    outer = _outer(X, links)
    every = [c for own, out in zip(links, outer, strict=True) for c in own if out or (c.link, c.name) in standing]
    everything: list[Spheres] = [*given, *every]
    if not everything:
        return []
    supports, low = supports_of(X, everything), _heights(X[0], everything)
    size = _size(supports)
    chosen = list(range(len(given)))
    chosen += [len(given) + k for k, c in enumerate(every) if (c.link, c.name) in standing][: max(budget - len(given), 0)]
    farthest = supports.max(axis=1)
    reached = supports[:, chosen].max(axis=1) if chosen else np.full_like(farthest, -np.inf)
    while len(chosen) < budget:
        gap = np.round((farthest - reached) / size, DIGITS)
        worst = int(np.argmax(gap))
        if not gap.flat[worst] > ENOUGH:
            break
        c, d = np.unravel_index(worst, gap.shape)
        # of those that close the largest gap nearly, the one that closes most of the others
        near = np.flatnonzero(np.round((farthest[c, d] - supports[c, :, d]) / size, DIGITS) <= NEAR * ENOUGH)
        closed = [float(np.sum(np.maximum(supports[:, k] - reached, 0.0))) for k in near]
        chosen.append(int(near[int(np.argmax(np.round(np.array(closed) / size, DIGITS)))]))
        reached = np.maximum(reached, supports[:, chosen[-1]])
    bottom = float(np.min(low))
    points = list(given)
    for k in chosen[len(given) :]:
        candidate = every[k - len(given)]
        carries = (candidate.link, candidate.name) in standing or low[k] - bottom <= LOW * size
        points.append(candidate.point(secondary=not carries))
    return points


def foot_points(model: Model) -> list[ContactPoint]:
    """The points on which the robot stands: corners of its soles, spheres of its feet and wheels."""
    _, feet = _with_feet(model, link_poses(model, 0), that_move(model, candidates(model)))
    return [candidate.point() for candidate in feet]


def moves(model: Model, points: Sequence[Spheres], sizes: Sequence[float], *, up_or_down: bool = False) -> np.ndarray:
    """Whether some joint moves the centre of each point, faster than STILL times its size at unit velocity; `up_or_down`: along
    gravity. Over some configurations."""
    g = np.asarray(model.gravity, dtype=float)
    up = g / np.sqrt(np.sum(g * g)) if np.any(g) else np.array([0.0, 0.0, 1.0])
    on: dict[int, list[int]] = {}
    for k, point in enumerate(points):
        on.setdefault(point.link, []).append(k)
    out, slow = np.zeros(len(points), dtype=bool), STILL * np.asarray(sizes, dtype=float)
    for q in random_configuration(model, np.random.default_rng(1), 4):
        X = poses(model, q)
        motions = [[X_i @ axis for axis in link.axes] for X_i, link in zip(X, model.links, strict=True)]
        for i, own in on.items():
            # the nearest joints move most points
            j, left = i, [k for k in own if not out[k]]
            centres = [np.asarray(X[i].point(np.array(points[k].position)), dtype=float) for k in left]
            while j >= 0 and not np.all(out[left]):
                for motion in motions[j]:
                    speed = np.array([np.asarray(motion.linear + cross(motion.angular, c), dtype=float) for c in centres])
                    largest = np.abs(product(speed, up)) if up_or_down else np.max(np.abs(speed), axis=1)
                    out[left] |= largest > slow[left]
                j = model.links[j].parent
    return out


# -- inside


def that_move(model: Model, found: list[list[Candidate]]) -> list[list[Candidate]]:
    """The candidates that some joint moves along gravity; all of a robot with a moving base."""
    if any(link.base or link.kind.nv == 6 for link in model.links):
        return found
    sizes = [max((float(np.max(np.abs(c.position))) + c.radius for c in own), default=1.0) or 1.0 for own in found]
    every = [c for own in found for c in own]
    moved = moves(model, every, [size for own, size in zip(found, sizes, strict=True) for _ in own], up_or_down=True)
    kept = iter(moved.tolist())
    return [[c for c in own if next(kept)] for own in found]


def _outer(X: Poses, found: list[list[Candidate]]) -> list[bool]:
    """Whether a point of each link may be the farthest in some direction, or nearly; of robots with few points, every link's."""
    if sum(map(len, found)) <= MANY:
        return [True] * len(found)
    own = [k for k, points in enumerate(found) if points]
    one = [replace(found[k][0], radius=0.0) for k in own]
    around = [max(sqrt(sum((a - b) ** 2 for a, b in zip(c.position, o.position, strict=True))) + c.radius for c in found[k])
              for k, o in zip(own, one, strict=True)]  # fmt: skip
    supports = supports_of(X, one)
    most = supports + np.array(around)[:, None]
    near = most >= supports.max(axis=1, keepdims=True) - NEAR * ENOUGH * _size(most) * 1.01
    out = np.zeros(len(found), dtype=bool)
    out[own] = near.any(axis=(0, 2))
    return [bool(x) for x in out]


def _with_feet(model: Model, X: Poses, found: list[list[Candidate]]) -> tuple[list[list[Candidate]], list[Candidate]]:
    """(the candidates of every link, with those of wheels and round feet in place of theirs; the points of the feet)."""
    every = [c for own in found for c in own]
    if not every:
        return found, []
    outer = [c for own, out in zip(found, _outer(X[:1], found), strict=True) for c in own if out]
    low = _heights(X[0], every)
    reach = float(np.min(low)) + LOW * _size(supports_of(X[:1], outer))
    lowest, first = [], 0
    for own in found:
        lowest.append(float(np.min(low[first : first + len(own)])) if own else np.inf)
        first += len(own)
    names: list[list[str]] = [[link.name, *[shape.name for shape in link.collisions]] for link in model.links]
    for frame in model.frames:
        if frame.link >= 0:
            names[frame.link].append(frame.name)
    named = {i for i, own in enumerate(names) if any(map(is_foot, own)) and found[i]}
    standing = {i for i in range(len(found)) if lowest[i] <= reach} | named
    # of a leg, the end
    above = {j for i in standing for j in ancestors(model, i) if j != i}
    feet: list[Candidate] = []
    links = list(found)
    for i in sorted(standing - above):
        down = -X[0][i][0][2]  # the world's -z in the link's axes
        own = foot(model, i, found[i], down)
        feet += own
        if any(c not in found[i] for c in own):
            links[i] = own if any(c.name.startswith(f"{model.links[i].name}_wheel") for c in own) else [*own, *found[i]]
    return links, feet


def _size(supports: np.ndarray) -> float:
    """The largest width of the robot where it begins; directions come in opposite pairs."""
    farthest = supports[0].max(axis=0)
    half = len(farthest) // 2
    return float(np.max(farthest[:half] + farthest[half:])) or 1.0


def link_poses(model: Model, count: int = CONFIGURATIONS) -> Poses:
    """(R, p) of every link where the robot begins, every joint at zero or at the limit nearest to it, and in random ones."""
    first = model.written()
    for link in model.links:
        if link.kind.nv == 1 and not link.base:
            low, high = link.limits.lower, link.limits.upper
            first[link.q] = np.clip(first[link.q], -np.inf if low is None else low, np.inf if high is None else high)
    out = []
    for q in [first, *random_configuration(model, np.random.default_rng(0), count)]:
        X = poses(model, q)
        out.append([(np.asarray(x.R, dtype=float), np.asarray(x.p, dtype=float)) for x in X])
    return out


def supports_of(X: Poses, points: Sequence[Spheres]) -> np.ndarray:
    """How far each point reaches, (configurations, points, directions)."""
    d = directions().T
    radii = np.array([point.radius for point in points])
    return np.array([product(_centres(links, points), d) + radii[:, None] for links in X])


def _heights(links: list[tuple[np.ndarray, np.ndarray]], points: Sequence[Spheres]) -> np.ndarray:
    """The height of the lowest part of each point."""
    heights: np.ndarray = _centres(links, points)[:, 2] - np.array([point.radius for point in points])
    return heights


def _centres(links: list[tuple[np.ndarray, np.ndarray]], points: Sequence[Spheres]) -> np.ndarray:
    """The centres of points, (points, 3), about the base, so that a base far away does not cost digits."""
    at, on = np.array([point.position for point in points]), np.array([point.link for point in points])
    R, p = np.array([x[0] for x in links])[on], np.array([x[1] for x in links])[on]
    centres: np.ndarray = R[:, :, 0] * at[:, 0:1] + R[:, :, 1] * at[:, 1:2] + R[:, :, 2] * at[:, 2:3]
    centres += p - links[0][1]
    return centres
