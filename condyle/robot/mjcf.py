"""MJCF: MuJoCo's own compiler reads the model, and what it compiled is written down as a Description.

Links and joints keep MuJoCo's order (depth first, as written) and MuJoCo's coordinates: our q of a hinge or slide is
MuJoCo's qpos, so a joint with `ref` r stands in its written pose at q = r. Free and ball joints differ in layout only
(`condyle.robot.conventions`). A body with several joints becomes a chain of massless links; a joint beside its body's origin
moves a massless link at the joint, to which the body is fixed. Equalities are soft in MuJoCo and exact here: of two joints,
a mimic joint; `connect` and `weld`, a loop. Whatever has no place in a Description is a Note.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from condyle.errors import require
from condyle.robot import mjcf_actuators
from condyle.robot.description import LOOP_AXES, Description, FrameSpec, JointSpec, Limits, LinkSpec, LoopSpec, Mimic, Shape
from condyle.robot.joints import rotation_about, rotation_of
from condyle.robot.mjcf_files import Gathered, active, compiled, gather, loop_kind, text_at
from condyle.robot.mjcf_unsupported import note_the_rest
from condyle.robot.report import Report
from condyle.robot.spatial import Inertia, Pose, product, symmetric

VISIBLE_GROUPS = (0, 1, 2)  # MuJoCo's viewer hides the others by default
NO_COLOR = (0.5, 0.5, 0.5, 1.0)  # what MuJoCo gives a geom without one


@dataclass(frozen=True)
class Mjcf:
    """A compiled MJCF model: the robot, and what MuJoCo keeps beside it. `qpos` are in MuJoCo's layout."""

    description: Description
    gravity: tuple[float, float, float]
    timestep: float
    qpos0: np.ndarray
    keyframes: Mapping[str, np.ndarray]


def read_mjcf(source: Path | str, *, roots: Sequence[str | Path] = ()) -> Description:
    """The robot of an MJCF file, or of a text that begins with `<`; its root is the link "world", so the base is "fixed".

    Files are read from the model's own folder and from `roots`, nowhere else.
    """
    return load_mjcf(source, roots=roots).description


def load_mjcf(source: Path | str, *, roots: Sequence[str | Path] = ()) -> Mjcf:
    """The robot of an MJCF file or text, with the gravity, initial pose and keyframes written there."""
    mujoco = require("mujoco", "mjcf", "loading MJCF")
    gathered = gather(source, tuple(Path(root) for root in roots))
    warnings: list[str] = []
    model = compiled(mujoco, gathered, warnings)
    reader = _Reader(mujoco, model, gathered)
    for warning in dict.fromkeys(warnings):
        reader.report.kept(reader.file, f"MuJoCo warns: {' '.join(warning.split())}")
    gravity = model.opt.gravity
    if model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY:
        gravity = np.zeros(3)
    return Mjcf(
        reader.description(),
        (float(gravity[0]), float(gravity[1]), float(gravity[2])),
        float(model.opt.timestep),
        model.qpos0.copy(),
        {model.key(i).name or f"key{i}": model.key_qpos[i].copy() for i in range(model.nkey)},
    )


class _Reader:
    """Reads one compiled model. Nameless bodies, joints and sites get names; all names of links and joints are distinct."""

    def __init__(self, mujoco: ModuleType, model: Any, gathered: Gathered) -> None:
        self.mujoco, self.model, self.gathered = mujoco, model, gathered
        self.file = gathered.lines[0].rpartition(":")[0]
        self.report = Report()
        self.taken = {model.body(i).name for i in range(model.nbody)} | {model.joint(i).name for i in range(model.njnt)}
        self.bodies = [model.body(i).name or self.fresh(f"body{i}") for i in range(model.nbody)]
        self.joints = [model.joint(i).name or self.fresh(f"joint{i}") for i in range(model.njnt)]
        self.motors = mjcf_actuators.motors(mujoco, model)
        self.couplings = self.straight_couplings()
        self.mimics = {one: mimic for one, mimic in self.couplings.values()}
        self.links: list[LinkSpec] = []
        self.specs: list[JointSpec] = []

    def fresh(self, name: str) -> str:
        """The name, with a number behind it if something else has it already."""
        unique, count = name, 1
        while unique in self.taken:
            count += 1
            unique = f"{name}_{count}"
        self.taken.add(unique)
        return unique

    def where(self, tag: str, name: str) -> str:
        return self.gathered.places.get((tag, name), self.file)

    def description(self) -> Description:
        visuals, collisions = self.shapes()
        for i, name in enumerate(self.bodies):
            if i > 0:
                self.join(i)
            inertia = self.inertia(i) if i > 0 else None
            self.links.append(LinkSpec(name, inertia, tuple(visuals[i]), tuple(collisions[i]), self.where("body", name)))
        frames = tuple(self.frame(i) for i in range(self.model.nsite))
        ends, closed = self.loops()
        actuators = mjcf_actuators.actuators(self.mujoco, self.model, self.joints, [frame.name for frame in frames])
        for what in mjcf_actuators.notes(self.mujoco, self.model, actuators):
            self.report.ignored(self.file, what)
        note_the_rest(self.mujoco, self.model, self.report, self.file, self.joints, set(self.couplings))
        name = text_at(self.model.names, 0)
        name = Path(self.file).stem if name in ("", "MuJoCo Model") else name
        joints = tuple(self.specs)
        return Description(
            name, tuple(self.links), joints, (*frames, *ends), self.report.notes, self.file, closed, actuators=actuators
        )

    def inertia(self, i: int) -> Inertia | None:
        """The body about its own frame; MuJoCo keeps principal moments about the centre of mass."""
        m = self.model
        if m.body_mass[i] == 0.0 and not m.body_inertia[i].any():
            return None
        R = pose_of(m.body_ipos[i], m.body_iquat[i]).R
        I_com = symmetric(product(product(R, np.diag(m.body_inertia[i])), R.T))
        return Inertia.about_com(float(m.body_mass[i]), m.body_ipos[i].copy(), I_com)

    def frame(self, i: int) -> FrameSpec:
        m, given = self.model, self.model.site(i).name
        name = given if given and given not in self.taken else self.fresh(f"{given}_site" if given else f"site{i}")
        if given and name != given:
            what = f"site '{given}' has the name of a link or joint: it is called '{name}'"
            self.report.repaired(self.where("site", given), what)
        self.taken.add(name)
        return FrameSpec(name, self.bodies[m.site_bodyid[i]], pose_of(m.site_pos[i], m.site_quat[i]), self.where("site", given))

    def join(self, i: int) -> None:
        """The joints that carry body i, as a chain: X_parent,body  T(p)  motion(q - ref)  T(-p)  and so on for each joint."""
        m, body = self.model, self.bodies[i]
        at, pose = self.bodies[m.body_parentid[i]], pose_of(m.body_pos[i], m.body_quat[i])
        first, count = int(m.body_jntadr[i]), int(m.body_jntnum[i])
        for j in range(first, first + count):
            kind = self.kind(j)
            if kind == "free":
                pose = Pose.identity()  # MuJoCo's qpos is the pose itself; the written one is in qpos0
            # a slide moves the same wherever it stands
            p = np.zeros(3) if kind in ("prismatic", "free") else m.jnt_pos[j].copy()
            last = j == first + count - 1 and not p.any()
            link = body if last else self.fresh(f"{body}/{self.joints[j]}")
            if not last:
                self.links.append(LinkSpec(link, where=self.where("joint", self.joints[j])))
            self.specs.append(self.joint(j, kind, at, link, pose @ Pose(np.eye(3), p) @ self.zero(j, kind)))
            at, pose = link, Pose(np.eye(3), -p)
        if at != body:
            name = self.fresh(f"{body}_fixed")
            self.specs.append(JointSpec(name, "fixed", at, body, pose, where=self.where("body", body)))

    def kind(self, j: int) -> str:
        types = self.mujoco.mjtJoint
        turning = "revolute" if self.model.jnt_limited[j] else "continuous"
        names = {types.mjJNT_FREE: "free", types.mjJNT_BALL: "ball", types.mjJNT_SLIDE: "prismatic", types.mjJNT_HINGE: turning}
        return names[types(int(self.model.jnt_type[j]))]

    def zero(self, j: int, kind: str) -> Pose:
        """Where the joint stands at q = 0: `ref` back from the pose in which the model is written."""
        if kind in ("free", "ball"):
            return Pose.identity()
        axis, ref = self.model.jnt_axis[j], float(self.model.qpos0[self.model.jnt_qposadr[j]])
        if kind == "prismatic":
            return Pose(np.eye(3), -ref * axis)
        return Pose(rotation_about(tuple(axis), -ref), np.zeros(3)) if ref else Pose.identity()

    def joint(self, j: int, kind: str, parent: str, child: str, pose: Pose) -> JointSpec:
        m, dof = self.model, int(self.model.jnt_dofadr[j])
        bounded = m.jnt_limited[j] and kind in ("revolute", "prismatic")
        lower, upper = m.jnt_range[j].tolist() if bounded else (None, None)
        limits = Limits(lower, upper, None, self.motors.effort.get(j))
        if kind == "free" and m.dof_armature[dof]:
            what = f"joint '{self.joints[j]}': armature of a free joint acts in the link's frame here, in the world in MuJoCo"
            self.report.kept(self.where("joint", self.joints[j]), what)
        return JointSpec(
            self.joints[j],
            kind,
            parent,
            child,
            pose,
            m.jnt_axis[j].copy(),
            limits,
            damping=float(m.dof_damping[dof]) + self.motors.damping.get(j, 0.0),
            friction=float(m.dof_frictionloss[dof]),
            armature=float(m.dof_armature[dof]) + self.motors.armature.get(j, 0.0),
            mimic=self.mimics.get(j),
            where=self.where("joint", self.joints[j]),
            written=self.written(j, kind),
            actuator_range=mjcf_actuators.actuator_range(m, j),
        )

    def written(self, j: int, kind: str) -> tuple[float, ...]:
        """Our coordinates of a joint at qpos0."""
        at = int(self.model.jnt_qposadr[j])
        if kind == "ball":
            return ()
        values = [float(x) for x in self.model.qpos0[at : at + (7 if kind == "free" else 1)]]
        return tuple(values[:3] + values[4:] + values[3:4]) if kind == "free" else tuple(values)

    def straight_couplings(self) -> dict[int, tuple[int, Mimic]]:
        """Equality -> (joint, what it mimics) of those between joints that are straight lines:  q1 - ref1 = a0 + a1 (q2 - ref2).

        Of several for one joint the first counts, and chains are left.
        """
        m, found = self.model, dict[int, tuple[int, Mimic]]()
        for i in range(m.neq):
            one, two, a = int(m.eq_obj1id[i]), int(m.eq_obj2id[i]), m.eq_data[i]
            straight = int(m.eq_type[i]) == self.mujoco.mjtEq.mjEQ_JOINT and two >= 0 and not a[2:5].any()
            if not straight or not active(self.mujoco, m, i):
                continue
            followers, leaders = {joint for joint, _ in found.values()}, {mimic.joint for _, mimic in found.values()}
            if one in followers or two in followers or self.joints[one] in leaders or one == two:
                continue
            ref1, ref2 = m.qpos0[m.jnt_qposadr[one]], m.qpos0[m.jnt_qposadr[two]]
            found[i] = one, Mimic(self.joints[two], float(a[1]), float(ref1 + a[0] - a[1] * ref2))
        return found

    # -- shapes

    def shapes(self) -> tuple[list[list[Shape]], list[list[Shape]]]:
        """(visuals, collisions) of each body: a geom is visual by its group, and collides by its contact bits or a <pair>."""
        model, report = self.model, self.report
        visuals: list[list[Shape]] = [[] for _ in self.bodies]
        collisions: list[list[Shape]] = [[] for _ in self.bodies]
        paired = {int(i) for i in model.pair_geom1} | {int(i) for i in model.pair_geom2}
        for i in range(model.ngeom):
            name = model.geom(i).name or f"geom{i}"
            shape = self.shape(i, name)
            if shape is None:
                kind = self.mujoco.mjtGeom(int(model.geom_type[i])).name.removeprefix("mjGEOM_").lower()
                report.ignored(self.where("geom", name), f"{kind} geom '{name}', a shape that a link cannot have here")
                continue
            body = int(model.geom_bodyid[i])
            seen = int(model.geom_group[i]) in VISIBLE_GROUPS
            collides = bool(model.geom_contype[i]) or bool(model.geom_conaffinity[i]) or i in paired
            if seen:
                visuals[body].append(shape)
            if collides:
                collisions[body].append(shape)
            if not seen and not collides:
                report.ignored(self.file, f"geom '{name}', which is hidden and touches nothing")
        return visuals, collisions

    def shape(self, i: int, name: str) -> Shape | None:
        """The geom as a shape, whole lengths for half ones; None for planes, height fields, ellipsoids, meshes without a file."""
        model, kinds = self.model, self.mujoco.mjtGeom
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
            path = self.gathered.paths.get(text_at(model.paths, start)) if start >= 0 else None
            if path is None:
                return None
            # MuJoCo moves the mesh to its centre of mass and principal axes: undo that, so that the file's own frame is meant
            pose = pose @ pose_of(model.mesh_pos[mesh], model.mesh_quat[mesh]).inv()
            x, y, z = (float(s) for s in model.mesh_scale[mesh])
            return Shape("mesh", (x, y, z), pose, name, path, color)
        return None

    # -- loops

    def loops(self) -> tuple[tuple[FrameSpec, ...], tuple[LoopSpec, ...]]:
        """(frames, loops) of all active connects and welds."""
        model = self.model
        names = {model.eq(i).name for i in range(model.neq)}
        frames: list[FrameSpec] = []
        found: list[LoopSpec] = []
        for i in range(model.neq):
            kind = loop_kind(self.mujoco, model, i)
            if not kind:
                continue
            given = model.eq(i).name
            name = given or f"{kind}{i}"
            while not given and name in names:
                name += "_"
            names.add(name)
            place = self.where(kind, given)
            a, b = (FrameSpec(self.fresh(f"{name}_{end}"), self.bodies[body], X, place) for end, body, X in self.ends(i, kind))
            frames += [a, b]
            found.append(LoopSpec(name, a.name, b.name, LOOP_AXES[:3] if kind == "connect" else LOOP_AXES, place))
        return tuple(frames), tuple(found)

    def ends(self, i: int, kind: str) -> list[tuple[str, int, Pose]]:
        """("a" or "b", body, pose in it) of the two frames that MuJoCo keeps together."""
        model = self.model
        one, two, data = int(model.eq_obj1id[i]), int(model.eq_obj2id[i]), model.eq_data[i]
        if int(model.eq_objtype[i]) == self.mujoco.mjtObj.mjOBJ_SITE:
            sites = (("a", one), ("b", two))
            return [(end, int(model.site_bodyid[s]), pose_of(model.site_pos[s], model.site_quat[s])) for end, s in sites]
        if kind == "connect":
            # one point in each body: MuJoCo found the second where the first is at qpos0
            return [("a", one, Pose(np.eye(3), data[0:3].copy())), ("b", two, Pose(np.eye(3), data[3:6].copy()))]
        # the point in body2 first, then where it is in body1, and how body2 is turned there
        return [("a", one, pose_of(data[3:6], data[6:10])), ("b", two, Pose(np.eye(3), data[0:3].copy()))]


def pose_of(position: np.ndarray, wxyz: np.ndarray) -> Pose:
    """The pose with this position and MuJoCo quaternion."""
    w, x, y, z = (float(a) for a in wxyz)
    return Pose(rotation_of((x, y, z, w)), np.array(position, dtype=float))


def _color(model: Any, i: int) -> tuple[float, float, float, float]:
    """The geom's own colour, or that of its material."""
    rgba = model.geom_rgba[i]
    if tuple(rgba) == NO_COLOR and model.geom_matid[i] >= 0:
        rgba = model.mat_rgba[model.geom_matid[i]]
    red, green, blue, alpha = (round(float(x), 6) for x in rgba)
    return red, green, blue, alpha
