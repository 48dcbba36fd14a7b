"""The geoms of a compiled MJCF model as shapes of links, how they touch the ground, and the ground that the file has.

MuJoCo decides by bits whether two geoms touch, and takes the larger of their frictions, or that of the geom with more priority.
Here a robot touches the ground alone: a shape keeps the answer of MuJoCo for the file's own floor, or for a plain one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from condyle.robot.description import Shape, WrittenGround
from condyle.robot.joints import rotation_of
from condyle.robot.mjcf_files import text_at
from condyle.robot.report import Report, listed
from condyle.robot.spatial import Pose

VISIBLE_GROUPS = (0, 1, 2)  # MuJoCo's viewer hides the others by default
NO_COLOR = (0.5, 0.5, 0.5, 1.0)  # what MuJoCo gives a geom without one
LEVEL = 1e-6  # how far the normal of a floor may be from vertical


def pose_of(position: np.ndarray, wxyz: np.ndarray) -> Pose:
    """The pose with this position and MuJoCo quaternion."""
    w, x, y, z = (float(a) for a in wxyz)
    return Pose(rotation_of((x, y, z, w)), np.array(position, dtype=float))


@dataclass(frozen=True)
class Surface:
    """What decides how a geom touches another: MuJoCo's contact bits, friction, priority and dimension."""

    contype: int = 1
    conaffinity: int = 1
    friction: float = 1.0
    priority: int = 0
    condim: int = 3

    @staticmethod
    def of(model: Any, i: int) -> Surface:
        """That of geom i."""
        tables = (model.geom_contype, model.geom_conaffinity, model.geom_friction[:, 0], model.geom_priority, model.geom_condim)
        contype, conaffinity, friction, priority, condim = (table[i].item() for table in tables)
        return Surface(contype, conaffinity, friction, priority, condim)

    def collides_with(self, other: Surface) -> bool:
        """Whether MuJoCo's contact bits let the two touch."""
        return bool(self.contype & other.conaffinity or other.contype & self.conaffinity)

    def friction_with(self, other: Surface) -> float:
        """The coefficient of friction of a contact of the two."""
        if self.priority != other.priority:
            first = self if self.priority > other.priority else other
            return first.friction if first.condim > 1 else 0.0
        return max(self.friction, other.friction) if max(self.condim, other.condim) > 1 else 0.0


class Shapes:
    """`visuals` and `collisions` of each body, and the `ground` of a file: its first level plane that touches something."""

    def __init__(self, mujoco: ModuleType, model: Any, paths: Mapping[str, Path]) -> None:
        self.mujoco, self.model, self.paths = mujoco, model, paths
        self.visuals: list[list[Shape]] = [[] for _ in range(model.nbody)]
        self.collisions: list[list[Shape]] = [[] for _ in range(model.nbody)]
        self.ground: WrittenGround | None = None
        self.left: dict[str, list[str]] = {}
        self.floor = Surface()
        self.floor_number = self._floor()
        paired = {int(i) for i in model.pair_geom1} | {int(i) for i in model.pair_geom2}
        for i in range(model.ngeom):
            if i != self.floor_number:
                self._take(i, paired)
        if not any(shape.contact for shapes in self.collisions[1:] for shape in shapes):
            # bits for a floor of another file
            self.collisions = [[replace(shape, contact=True) for shape in shapes] for shapes in self.collisions]

    def note(self, report: Report, where: Callable[[str, str], str]) -> None:
        """Tell what could not be read, once for each kind."""
        for what, names in self.left.items():
            report.ignored(where("geom", names[0]), f"{what}: {listed(names)}")

    def _name(self, i: int) -> str:
        return self.model.geom(i).name or f"geom{i}"

    def _floor(self) -> int:
        """The number of the geom that is the ground, -1 for none."""
        model, planes = self.model, self.mujoco.mjtGeom.mjGEOM_PLANE
        flags = self.mujoco.mjtDisableBit
        if model.opt.disableflags & (flags.mjDSBL_CONTACT | flags.mjDSBL_CONSTRAINT):
            return -1
        in_world = _fixed_poses(model)
        for i in range(model.ngeom):
            X = in_world.get(int(model.geom_bodyid[i]))
            if X is None or int(model.geom_type[i]) != planes:
                continue
            pose = X @ pose_of(model.geom_pos[i], model.geom_quat[i])
            surface = Surface.of(model, i)
            if pose.R[2, 2] > 1.0 - LEVEL and (surface.contype or surface.conaffinity):
                self.floor = surface
                self.ground = WrittenGround(float(pose.p[2]), float(surface.friction))
                return i
        return -1

    def _take(self, i: int, paired: set[int]) -> None:
        model, name, body = self.model, self._name(i), int(self.model.geom_bodyid[i])
        shape = self._shape(i, name)
        if shape is None:
            kind = self.mujoco.mjtGeom(int(model.geom_type[i])).name.removeprefix("mjGEOM_").lower()
            self.left.setdefault(f"{kind} geoms, which a link cannot have here", []).append(name)
            return
        surface = Surface.of(model, i)
        seen = int(model.geom_group[i]) in VISIBLE_GROUPS
        collides = bool(surface.contype or surface.conaffinity) or i in paired
        if seen:
            self.visuals[body].append(shape)
        if collides:
            pair = self._floor_pair(i)
            friction = surface.friction_with(self.floor) if pair is None else self._pair_friction(pair)
            usual = self.floor.friction if self.ground is None else self.ground.friction
            contact = self._meets_floor(i, body, surface)
            own = None if friction == usual else float(friction)
            self.collisions[body].append(replace(shape, friction=own, contact=contact))
        if not seen and not collides:
            self.left.setdefault("geoms that are hidden and touch nothing", []).append(name)

    def _meets_floor(self, i: int, body: int, surface: Surface) -> bool:
        """Whether a geom of a moving body can touch the floor."""
        model = self.model
        if self._floor_pair(i) is not None:
            return True
        under = int(model.geom_bodyid[self.floor_number]) if self.floor_number >= 0 else 0
        signature = (min(body, under) << 16) + max(body, under)
        return surface.collides_with(self.floor) and signature not in {int(s) for s in model.exclude_signature}

    def _floor_pair(self, i: int) -> int | None:
        """The contact pair of geom i and the floor, if the file has one."""
        ends = zip(self.model.pair_geom1, self.model.pair_geom2, strict=True)
        return next((pair for pair, (a, b) in enumerate(ends) if {int(a), int(b)} == {i, self.floor_number}), None)

    def _pair_friction(self, pair: int) -> float:
        return float(self.model.pair_friction[pair, 0]) if self.model.pair_dim[pair] > 1 else 0.0

    def _shape(self, i: int, name: str) -> Shape | None:
        """The geom as a shape, whole lengths for half ones; None for planes, height fields and meshes without a file."""
        model, kinds = self.model, self.mujoco.mjtGeom
        kind, (a, b, c) = kinds(int(model.geom_type[i])), (float(x) for x in model.geom_size[i])
        pose, color = pose_of(model.geom_pos[i], model.geom_quat[i]), _color(model, i)
        if kind == kinds.mjGEOM_BOX:
            return Shape("box", (2 * a, 2 * b, 2 * c), pose, name, color=color)
        if kind == kinds.mjGEOM_SPHERE:
            return Shape("sphere", (a,), pose, name, color=color)
        if kind == kinds.mjGEOM_ELLIPSOID:
            return Shape("ellipsoid", (a, b, c), pose, name, color=color)
        if kind in (kinds.mjGEOM_CYLINDER, kinds.mjGEOM_CAPSULE):
            return Shape("cylinder" if kind == kinds.mjGEOM_CYLINDER else "capsule", (a, 2 * b), pose, name, color=color)
        if kind == kinds.mjGEOM_MESH:
            mesh = int(model.geom_dataid[i])
            start = int(model.mesh_pathadr[mesh])
            path = self.paths.get(text_at(model.paths, start)) if start >= 0 else None
            if path is None:
                return None
            # MuJoCo moves the mesh to its centre of mass and principal axes: undo that, so that the file's own frame is meant
            pose = pose @ pose_of(model.mesh_pos[mesh], model.mesh_quat[mesh]).inv()
            x, y, z = (float(s) for s in model.mesh_scale[mesh])
            return Shape("mesh", (x, y, z), pose, name, path, color)
        return None


def _fixed_poses(model: Any) -> dict[int, Pose]:
    """The poses in the world of all bodies that are fixed to it."""
    found = {0: Pose.identity()}
    for i in range(1, model.nbody):
        parent = found.get(int(model.body_parentid[i]))
        if parent is not None and not model.body_jntnum[i]:
            found[i] = parent @ pose_of(model.body_pos[i], model.body_quat[i])
    return found


def _color(model: Any, i: int) -> tuple[float, float, float, float]:
    """The geom's own colour, or that of its material."""
    rgba = model.geom_rgba[i]
    if tuple(rgba) == NO_COLOR and model.geom_matid[i] >= 0:
        rgba = model.mat_rgba[model.geom_matid[i]]
    red, green, blue, alpha = (round(float(x), 6) for x in rgba)
    return red, green, blue, alpha
