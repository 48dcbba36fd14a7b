"""Distances of a robot's links from obstacles and from each other, as one compiled function of q, with their derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from condyle.dynamics.kinematics import ancestors, poses
from condyle.errors import RobotError
from condyle.methods.planning import closest_points as pairs
from condyle.methods.planning.closest_points import Closest
from condyle.methods.planning.link_capsules import LinkCapsule, fit_capsules
from condyle.methods.planning.obstacle_shapes import Box, Capsule, Obstacle, Plane, Solid, Sphere, capsule_distance
from condyle.multibody.robot import Robot
from condyle.robot.names import nearest
from condyle.robot.spatial import Array, Force, Motion, Pose, cross
from condyle.tape.function import Function, function


class Pair(NamedTuple):
    """Two things whose distance is computed: a capsule of the robot, and an obstacle or another capsule, by their numbers."""

    capsule: int
    obstacle: int = -1
    other: int = -1


class RobotDistances:
    """Signed distances of a robot's capsules from obstacles, and of capsules of links that are no neighbours, at q.

    distances(q)                     # (..., pairs), named by `distances.names`
    d, J = distances.with_jacobian(q)  # J = dd/dq of shape (..., pairs, nv)
    p_a, p_b = distances.witness_points(q)

    With `moving=True` all take the obstacles' poses, 4 x 4 matrices (..., obstacles, 4, 4), as a second argument. Of a robot with
    quaternions in q, J is by v. `function` and `function_with_jacobian` are the compiled functions, which other traced functions
    may call.
    """

    def __init__(
        self,
        robot: Robot,
        obstacles: Sequence[Solid] = (),
        *,
        self_collision: bool = True,
        links: Iterable[str] | None = None,
        skip: Iterable[tuple[str, str]] = (),
        moving: bool = False,
        shapes: str = "collision",
        capsules: Sequence[LinkCapsule] | None = None,
    ) -> None:
        self.robot, self.moving = robot, bool(moving)
        self.obstacles = _checked(obstacles)
        self.capsules = fit_capsules(robot.model, shapes) if capsules is None else _on_links(robot, capsules)
        link_names = [link.name for link in robot.model.links]
        chosen = _known(links, link_names, robot.name) if links is not None else set(link_names)
        self.pairs = self._pairs([link_names.index(name) for name in link_names if name in chosen], self_collision, skip)
        if not self.pairs:
            raise RobotError(f"robot '{robot.name}' has no pair to compute: give obstacles, or self_collision=True")

    def _pairs(self, chosen: list[int], self_collision: bool, skip: Iterable[tuple[str, str]]) -> list[Pair]:
        parents = [link.parent for link in self.robot.model.links]
        names = {each.link: each.name for each in reversed(self.capsules)}
        skipped = set()
        for pair in skip:
            if not (isinstance(pair, tuple | list) and len(pair) == 2):
                raise RobotError(f"`skip` is a list of pairs of links such as ('pan', 'elbow'), got {pair!r:.60}")
            _known(pair, list(names.values()), self.robot.name)
            skipped.add(frozenset(pair))
        found = [Pair(k, obstacle=m) for k, a in enumerate(self.capsules) if a.link in chosen for m in range(len(self.obstacles))]
        for k, a in enumerate(self.capsules if self_collision else ()):
            for other in range(k):
                b = self.capsules[other]
                # links are in order, so that b is nearer to the base; a link and its parent touch at their joint
                near = a.link == b.link or parents[a.link] == b.link
                if not near and (a.link in chosen or b.link in chosen) and {names[a.link], names[b.link]} not in skipped:
                    found.append(Pair(other, other=k))
        return found

    @cached_property
    def names(self) -> list[tuple[str, str]]:
        """(capsule, obstacle or other capsule) of each pair; obstacles without a name are called by kind and number."""
        labels = [each.name or f"{each.kind}_{k}" for k, each in enumerate(self.obstacles)]
        return [
            (self.capsules[pair.capsule].name, labels[pair.obstacle] if pair.other < 0 else self.capsules[pair.other].name)
            for pair in self.pairs
        ]

    def __len__(self) -> int:
        return len(self.pairs)

    # ---- calling

    def __call__(self, q: Any, *poses: Any) -> Any:
        """The distances (..., pairs)."""
        return self.function(q, *self._given(poses))

    def with_jacobian(self, q: Any, *poses: Any) -> Any:
        """(distances (..., pairs), their derivatives (..., pairs, nv))."""
        return self.function_with_jacobian(q, *self._given(poses))

    def witness_points(self, q: Any, *poses: Any) -> Any:
        """(points on the capsules, points on the obstacles or other capsules), both (..., pairs, 3), in the world."""
        return self._witness(q, *self._given(poses))

    def _given(self, poses: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(poses) != int(self.moving):
            wanted = (
                f"the poses of {len(self.obstacles)} obstacles after q" if self.moving else "q alone; moving=True takes poses"
            )
            raise RobotError(f"the distances of robot '{self.robot.name}' take {wanted}")
        return poses

    @cached_property
    def function(self) -> Function:
        """q -> distance."""
        return self._compiled(lambda found, _: {"distance": np.array([each.distance for each in found])}, "distances")

    @cached_property
    def function_with_jacobian(self) -> Function:
        """q -> distance, jacobian."""
        return self._compiled(
            lambda found, J: {"distance": np.array([each.distance for each in found]), "jacobian": J()}, "distances, jacobian"
        )

    @cached_property
    def _witness(self) -> Function:
        return self._compiled(
            lambda found, _: {"a": np.stack([x.point_a for x in found]), "b": np.stack([x.point_b for x in found])},
            "witness points",
        )

    def _compiled(self, outputs: Callable[[list[Closest], Callable[[], Array]], Any], label: str) -> Function:
        def traced(q: Array, poses: Array | None = None) -> Any:
            at = self.robot.system.at(q)
            X = link_poses(self.robot, at.q)
            found = self._closest(X, poses)

            def jacobian() -> Array:
                J = self._jacobian(X, found)
                return J if at.at.total is None else J @ at.dq_dy

            return outputs(found, jacobian)

        traced.__name__ = f"{label} of {self.robot.name}"
        shapes: dict[str, Any] = {"q": self.robot.nq}
        if self.moving:
            return function(traced, cache=False, **shapes, poses=(len(self.obstacles), 4, 4))
        return function(lambda q: traced(q), cache=False, **shapes)

    # ---- physics

    def _closest(self, X: list[Pose], moved: Array | None) -> list[Closest]:
        ends = [(X[c.link].point(c.start), X[c.link].point(c.end), c.radius) for c in self.capsules]
        placed = [
            (each.rotation, each.position) if moved is None else (moved[k][:3, :3], moved[k][:3, 3])
            for k, each in enumerate(self.obstacles)
        ]
        return [
            pairs.capsule_capsule(*ends[pair.capsule], *ends[pair.other])
            if pair.other >= 0
            else capsule_distance(*ends[pair.capsule], self.obstacles[pair.obstacle], *placed[pair.obstacle])
            for pair in self.pairs
        ]

    def _jacobian(self, X: list[Pose], found: list[Closest]) -> Array:
        """dd/dq = n^T (J_b - J_a) at the witness points, (pairs, nv): the power of a unit force along n at each of them."""
        model = self.robot.model
        axes = {link.v.start + k: X[i] @ axis for i, link in model.outward() for k, axis in enumerate(link.axes)}
        J = np.zeros((len(found), model.nv), dtype=object)
        for row, (pair, at) in enumerate(zip(self.pairs, found, strict=True)):
            # both points lie on the line along n, so that one force serves for both
            force = Force(at.normal, cross(at.point_a, at.normal))
            a, b = (_coordinates(self.robot, self.capsules[k].link if k >= 0 else -1) for k in (pair.capsule, pair.other))
            for column in a ^ b:
                axis: Motion = axes[column]
                J[row, column] = axis.dot(force) if column in b else -axis.dot(force)
        return J


def robot_distances(robot: Robot, obstacles: Sequence[Solid] = (), **options: Any) -> RobotDistances:
    """The compiled distances of a robot from obstacles and from itself; options as of RobotDistances."""
    return RobotDistances(robot, obstacles, **options)


def link_poses(robot: Robot, q: Array) -> list[Pose]:
    """The poses of all links in the world, and that of the world itself at the end, so that it has the number -1."""
    return [*poses(robot.model, q), Pose.identity()]


def _coordinates(robot: Robot, link: int) -> set[int]:
    """The columns of J that move a link."""
    v = [robot.model.links[i].v for i in ancestors(robot.model, link)]
    return {k for each in v for k in range(each.start, each.stop)}


def _checked(obstacles: Sequence[Solid]) -> tuple[Solid, ...]:
    if isinstance(obstacles, Obstacle):
        raise RobotError("obstacles are a list: write [obstacle] for one")
    for each in obstacles:
        if not isinstance(each, Sphere | Capsule | Box | Plane):
            raise RobotError(
                f"an obstacle is a Sphere, Capsule, Box or Plane of condyle.methods.planning.obstacles, got {each!r:.60}"
            )
    return tuple(obstacles)


def _known(names: Iterable[str], known: list[str], robot: str) -> set[str]:
    for name in [names] if isinstance(names, str) else names:
        if name not in known:
            raise RobotError(f"robot '{robot}' has no link '{name!s:.60}'{nearest(name, known)}")
    return {names} if isinstance(names, str) else set(names)


def _on_links(robot: Robot, capsules: Sequence[LinkCapsule]) -> list[LinkCapsule]:
    count = len(robot.model.links)
    for each in capsules:
        if not (isinstance(each, LinkCapsule) and -1 <= each.link < count):
            raise RobotError(
                f"capsules are LinkCapsule on the links -1 (the world) to {count - 1} of '{robot.name}', got {each!r:.80}"
            )
        numbers = np.concatenate([np.ravel(each.start), np.ravel(each.end), [each.radius]])
        if numbers.shape != (7,) or not np.all(np.isfinite(numbers)) or not each.radius > 0.0:
            raise RobotError(f"capsule '{each.name}' needs two ends of three finite numbers and a positive radius")
    return sorted(capsules, key=lambda each: each.link)
