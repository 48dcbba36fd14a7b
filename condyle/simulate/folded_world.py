"""A world whose robot has one limb that stands for all: the equations of a step, written for it (condyle/dynamics/limbs.py)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from condyle.constraints.coordinate_map import CoordinateMap
from condyle.dynamics.folded_model import FoldedModel, folded_model
from condyle.dynamics.kinematics import root_poses
from condyle.dynamics.limbs import Limbs, as_array, find_limbs, merged
from condyle.robot.spatial import Array, Pose
from condyle.simulate.constraint_list import Constraint
from condyle.simulate.friction_cone import Iterate
from condyle.simulate.points import ContactPoint
from condyle.simulate.terrain import Terrain
from condyle.simulate.world import World
from condyle.tape.limb_values import limb_count, picks, spread, sum_of_all, sum_over


@dataclass(frozen=True)
class FoldedWorld(World):
    """A world in folded coordinates; scales of the whole robot are those of the world that it was made of."""

    of: World = field(kw_only=True)
    robot: FoldedModel = field(kw_only=True)
    point_groups: tuple[tuple[int, ...], ...] = field(kw_only=True)  # of each point: the points that it stands for

    @property
    def limbs(self) -> Limbs:
        """Those of the robot."""
        return self.robot.limbs

    @property
    def plain(self) -> World:
        """The world of all coordinates."""
        return self.of

    @property
    def gravity(self) -> Any:
        """That of the world."""
        return self.of.gravity

    @property
    def nominal_load(self) -> Any:
        """That of the world."""
        return self.of.nominal_load

    @property
    def stiffness(self) -> Any:
        """That of the world."""
        return self.of.stiffness

    @property
    def listed_points(self) -> list[int]:
        """All: those in tables are not folded."""
        return list(range(len(self.points)))

    @cached_property
    def effective_masses(self) -> tuple[Any, ...]:
        """Those of the world."""
        return tuple(merged([self.of.effective_masses[k] for k in group]) for group in self.point_groups)

    @property
    def trunk(self) -> int:
        """Coordinates of the whole robot."""
        return len(self.limbs.trunk)

    def limbs_along(self, path: Sequence[int]) -> int:
        """The number of limbs, each of which has such a path of coordinates; 0 for one of the whole robot."""
        return self.limbs.count if max(path, default=-1) >= self.trunk else 0

    def times(self, M: Array, x: Array) -> Array:
        """M x."""
        return self.limbs.times(M, x)

    def dot(self, a: Array, b: Array) -> Any:
        """a . b over all coordinates of the robot."""
        return self.limbs.dot(a, b)

    def over_coordinates(self, of: Any, terms: list[Any]) -> Any:
        """of(terms), one for each coordinate of the robot, where of(a + b) = of(a) + of(b)."""
        n = len(self.limbs.trunk)
        return of(terms[:n]) + sum_over(of(terms[n:]), self.limbs.count)

    # ---- numbers of a step

    def configuration(self, q: Array) -> Array:
        """A configuration, folded."""
        return self.robot.configuration(q)

    def controls(self, u: Array) -> Array:
        """Controls, folded."""
        place = {k: j for j, k in enumerate(self.of.actuated)}
        n, out = len(self.limbs.trunk), []
        for k in self.actuated:
            own = [self.limbs.trunk[k]] if k < n else [limb[k - n] for limb in self.limbs.limbs]
            out.append(u[place[own[0]]] if len(own) == 1 else spread(*[u[place[i]] for i in own]))
        return as_array(out)

    def state(self, x: Array) -> Array:
        """A packed state, folded: configuration, velocity, and the count of steps if there is one."""
        nq, nv = self.of.model.nq, self.of.model.nv
        return np.concatenate([self.configuration(x[:nq]), self.limbs.fold(x[nq : nq + nv]), x[nq + nv :]])

    def sum(self, values: list[Any]) -> Any:
        """The sum of numbers of the whole robot and of numbers of limbs, the latter over all limbs."""
        return sum_of_all(values, [limb_count(x) for x in values])

    # ---- and unfolded again

    def whole_state(self, x: Array) -> Array:
        """A packed state of the robot, from a folded one."""
        nq, nv = self.model.nq, self.model.nv
        return np.concatenate([self.all_coordinates(x[:nq]), self.limbs.unfold(x[nq : nq + nv]), x[nq + nv :]])

    def all_coordinates(self, q: Array) -> Array:
        """A configuration of the robot, from a folded one."""
        return self.robot.all_coordinates(q)

    def poses(self, q: Array) -> tuple[Pose, list[Pose]]:
        """`root_poses` of all links of the robot, at a folded configuration."""
        X_0F, folded = root_poses(self.model, q)
        out: list[Any] = [None] * len(self.of.model.links)
        for group, X in zip(self.robot.links, folded, strict=True):
            R, p = ([picks(x, len(group)) for x in np.ravel(part)] for part in (X.R, X.p))
            for k, i in enumerate(group):
                out[i] = X if len(group) == 1 else Pose(as_array([e[k] for e in R]).reshape(3, 3), as_array([e[k] for e in p]))
        return X_0F, out

    def contacts(self, constraints: Sequence[Constraint]) -> list[Constraint]:
        """One constraint for each listed point of the robot, of one for each folded point."""
        found = {
            k: b
            for group, b in zip(self.point_groups, constraints, strict=True)
            for k, b in zip(group, self.separate(b), strict=True)
        }
        return [found[k] for k in self.of.listed_points]

    def joint_constraints(self, constraints: Sequence[Constraint]) -> list[Constraint]:
        """Constraints of joints in the order of all coordinates."""
        found: dict[int, list[Constraint]] = {}
        for b in constraints:
            for own in self.separate(b):
                found.setdefault(own.path[0], []).append(own)
        return [b for k in sorted(found) for b in found[k]]

    def fold_iterates(self, constraints: Sequence[Constraint], iterates: Sequence[Iterate]) -> list[Iterate]:
        """Unknowns of folded constraints, of those of all listed points and of the joints of the robot in order."""
        limbs, n = self.limbs, self.trunk
        points = {k: iterate for k, iterate in zip(self.of.listed_points, iterates, strict=False)}
        of_points, of_joints = constraints[: len(self.point_groups)], constraints[len(self.point_groups) :]
        groups = [[points[k] for k in group] for group, _ in zip(self.point_groups, of_points, strict=True)]
        rest = iter(iterates[len(points) :])
        joints: dict[int, list[Iterate]] = {}
        owners = [[limbs.trunk[b.path[0]]] if b.path[0] < n else [limb[b.path[0] - n] for limb in limbs.limbs] for b in of_joints]
        for k in sorted(k for group in owners for k in group):
            joints.setdefault(k, []).append(next(rest))
        groups += [[joints[k].pop(0) for k in group] for group in owners]
        return [{name: merged([own[name] for own in group]) for name in group[0]} for group in groups]

    def separate(self, b: Constraint) -> list[Constraint]:
        """A constraint of each limb as one for each, or the one of the whole robot."""
        n, limbs = len(self.limbs.trunk), self.limbs
        if max(b.path) < n:
            return [replace(b, path=tuple(limbs.trunk[k] for k in b.path))]
        laws = _separate({f.name: getattr(b.law, f.name) for f in fields(b.law)}, limbs.count)
        names = ("J", "C", "max_speed", "mass", "velocity_scale", "idle")
        numbers = _separate({name: getattr(b, name) for name in names}, limbs.count)
        out = []
        for limb, law, own in zip(limbs.limbs, laws, numbers, strict=True):
            path = tuple(limbs.trunk[k] if k < n else limb[k - n] for k in b.path)
            out.append(replace(b, law=replace(b.law, **law), path=path, **own))
        return out


def _separate(numbers: dict[str, Any], limbs: int) -> list[dict[str, Any]]:
    """The numbers of each limb."""
    out: list[dict[str, Any]] = [{} for _ in range(limbs)]
    for name, value in numbers.items():
        if value is None:
            parts: list[Any] = [None] * limbs
        elif isinstance(value, np.ndarray):
            entries = [picks(x, limbs) for x in value.ravel().tolist()]
            parts = [as_array([e[k] for e in entries]).reshape(value.shape) for k in range(limbs)]
        else:
            parts = picks(value, limbs)
        for k, part in enumerate(parts):
            out[k][name] = part
    return out


def folded(world: World) -> FoldedWorld | None:
    """The world with one limb for all; None for a robot without limbs, or with limbs that differ in more than numbers."""
    ground = getattr(world.ground, "ground", world.ground)  # of a raised one, the one below
    if world.tendons or not world.coordinate_map.identity or isinstance(ground, Terrain) or isinstance(world, FoldedWorld):
        return None  # a function of the user may have loops, which know no limbs
    limbs = find_limbs(world.ancestor_dofs)
    robot = None if limbs is None else folded_model(world.model, limbs)
    points = None if robot is None else _point_groups(world, robot.links)
    actuated = None if limbs is None else _actuated(world, limbs)
    if limbs is None or robot is None or points is None or actuated is None:
        return None
    groups = [(k,) for k in limbs.trunk] + [tuple(limb[i] for limb in limbs.limbs) for i in range(len(limbs.limbs[0]))]
    joints = [_merged_fields([world.joints[k] for k in group]) for group in groups]
    if any(joint is None for joint in joints):
        return None
    model = robot.model
    given = {f.name: getattr(world, f.name) for f in fields(World)}
    given |= {"model": model, "coordinate_map": CoordinateMap(model), "joints": tuple(joints), "actuated": actuated}
    place = {i: k for k, group in enumerate(robot.links) for i in group}
    given["points"] = tuple(_point([world.points[k] for k in group], place) for group in points)
    return FoldedWorld(**given, of=world, robot=robot, point_groups=points)


def _point_groups(world: World, links: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...] | None:
    """Listed points of the whole robot one by one, and those of limbs together; None if limbs have others."""
    out: list[tuple[int, ...]] = []
    for group in links:
        own = [[k for k in world.listed_points if world.points[k].link == i] for i in group]
        if len({len(found) for found in own}) != 1:
            return None
        for k in zip(*own, strict=True):
            if len({world.points[p].friction is None for p in k}) != 1:
                return None
            out.append(k)
    return tuple(out)


def _actuated(world: World, limbs: Limbs) -> tuple[int, ...] | None:
    """Folded coordinates with motors; None if a motor is missing in some limb."""
    n, motors = len(limbs.trunk), set(world.actuated)
    out = [i for i, k in enumerate(limbs.trunk) if k in motors]
    for i in range(len(limbs.limbs[0])):
        found = {limb[i] in motors for limb in limbs.limbs}
        if len(found) != 1:
            return None
        out += [n + i] if found == {True} else []
    return tuple(out)


def _merged_fields(values: Sequence[Any]) -> Any:
    """A dataclass of numbers, merged field by field; None if a field is there for some only."""
    parts = {f.name: [getattr(value, f.name) for value in values] for f in fields(values[0])}
    if any(len({x is None for x in part}) != 1 for part in parts.values()):
        return None
    return replace(values[0], **{name: merged(part) for name, part in parts.items()})


def _point(points: Sequence[ContactPoint], place: dict[int, int]) -> ContactPoint:
    """Points of all limbs as one; its numbers are those of checked points."""
    out = copy(points[0])
    position = tuple(merged(list(column)) for column in zip(*[p.position for p in points], strict=True))
    numbers = {"radius": merged([p.radius for p in points]), "friction": merged([p.friction for p in points])}
    for name, value in {"link": place[points[0].link], "position": position, **numbers}.items():
        object.__setattr__(out, name, value)
    return out
