"""The geoms of a compiled MJCF model as visual and collision shapes."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from condyle.robot.description import Shape
from condyle.robot.joints import rotation_of
from condyle.robot.mjcf_files import Gathered
from condyle.robot.report import Report
from condyle.robot.spatial import Pose

VISIBLE_GROUPS = (0, 1, 2)  # MuJoCo's viewer hides the others unless told
NO_COLOR = (0.5, 0.5, 0.5, 1.0)  # what MuJoCo gives a geom without one


def pose_of(position: np.ndarray, wxyz: np.ndarray) -> Pose:
    """The pose with this position and MuJoCo quaternion."""
    w, x, y, z = (float(a) for a in wxyz)
    return Pose(rotation_of((x, y, z, w)), np.array(position, dtype=float))


def shapes(
    mujoco: ModuleType, model: Any, gathered: Gathered, report: Report, file: str
) -> tuple[list[list[Shape]], list[list[Shape]]]:
    """(visuals, collisions) of each body: a geom is visual by its group, and collides by its contact bits or a <pair>."""
    visuals: list[list[Shape]] = [[] for _ in range(model.nbody)]
    collisions: list[list[Shape]] = [[] for _ in range(model.nbody)]
    paired = {int(i) for i in model.pair_geom1} | {int(i) for i in model.pair_geom2}
    for i in range(model.ngeom):
        name = model.geom(i).name or f"geom{i}"
        shape = _shape(mujoco, model, i, name, gathered)
        if shape is None:
            kind = mujoco.mjtGeom(int(model.geom_type[i])).name.removeprefix("mjGEOM_").lower()
            where = gathered.places.get(("geom", name), file)
            report.ignored(where, f"{kind} geom '{name}', a shape that a link cannot have here")
            continue
        body = int(model.geom_bodyid[i])
        seen = int(model.geom_group[i]) in VISIBLE_GROUPS
        collides = bool(model.geom_contype[i]) or bool(model.geom_conaffinity[i]) or i in paired
        if seen:
            visuals[body].append(shape)
        if collides:
            collisions[body].append(shape)
        if not seen and not collides:
            report.ignored(file, f"geom '{name}', which is hidden and touches nothing")
    return visuals, collisions


def _shape(mujoco: ModuleType, model: Any, i: int, name: str, gathered: Gathered) -> Shape | None:
    """The geom as a shape; MuJoCo keeps half lengths. None for planes, height fields, ellipsoids, and meshes without a file."""
    kinds = mujoco.mjtGeom
    kind, (a, b, c) = kinds(int(model.geom_type[i])), (float(x) for x in model.geom_size[i])
    pose, color = pose_of(model.geom_pos[i], model.geom_quat[i]), _color(model, i)
    if kind == kinds.mjGEOM_BOX:
        return Shape("box", (2 * a, 2 * b, 2 * c), pose, name, color=color)
    if kind == kinds.mjGEOM_SPHERE:
        return Shape("sphere", (a,), pose, name, color=color)
    if kind in (kinds.mjGEOM_CYLINDER, kinds.mjGEOM_CAPSULE):
        return Shape("cylinder" if kind == kinds.mjGEOM_CYLINDER else "capsule", (a, 2 * b), pose, name, color=color)
    if kind == kinds.mjGEOM_MESH:
        mesh = int(model.geom_dataid[i])
        start = int(model.mesh_pathadr[mesh])
        path = gathered.paths.get(model.paths[start : model.paths.index(b"\0", start)].decode()) if start >= 0 else None
        if path is None:
            return None
        # MuJoCo moves the mesh to its centre of mass and principal axes: undo that, so that the file's own frame is meant
        pose = pose @ pose_of(model.mesh_pos[mesh], model.mesh_quat[mesh]).inv()
        x, y, z = (float(s) for s in model.mesh_scale[mesh])
        return Shape("mesh", (x, y, z), pose, name, path, color)
    return None


def _color(model: Any, i: int) -> tuple[float, float, float, float]:
    """The geom's own colour, or that of its material."""
    rgba = model.geom_rgba[i]
    if tuple(rgba) == NO_COLOR and model.geom_matid[i] >= 0:
        rgba = model.mat_rgba[model.geom_matid[i]]
    red, green, blue, alpha = (round(float(x), 6) for x in rgba)
    return red, green, blue, alpha
