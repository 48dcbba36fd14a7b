"""MJCF: MuJoCo's own compiler reads the model, and what it compiled is written down as a Description.

Links and joints keep MuJoCo's order (depth first, as written) and MuJoCo's coordinates: our q of a hinge or slide is
MuJoCo's qpos, so a joint with `ref` r stands in its written pose at q = r. Free and ball joints differ in layout only
(`condyle.robot.conventions`). A body with several joints becomes a chain of massless links; a joint beside its body's origin
moves a massless link at the joint, to which the body is fixed. Equalities are soft in MuJoCo and exact here: of two joints,
a mimic joint; `connect` and `weld`, a loop. Whatever has no place in a Description is a Note.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from condyle.errors import require
from condyle.robot import mjcf_actuators
from condyle.robot.description import (
    LOOP_AXES,
    Description,
    FrameSpec,
    JointSpec,
    Keyframe,
    Limits,
    LinkSpec,
    LoopSpec,
    Mimic,
)
from condyle.robot.joints import rotation_about
from condyle.robot.mjcf_files import Gathered, active, compiled, gather, loop_kind, text_at
from condyle.robot.mjcf_shapes import Shapes, pose_of
from condyle.robot.mjcf_unsupported import Asked, note_beside, note_the_rest
from condyle.robot.report import Report, listed
from condyle.robot.spatial import Inertia, Pose, product, symmetric


def read_mjcf(source: Path | str, *, roots: Sequence[str | Path] = ()) -> Description:
    """The robot of an MJCF file, or of a text that begins with `<`; its root is the link "world", so the base is "fixed".

    Files are read from the model's own folder and from `roots`, nowhere else.
    """
    mujoco = require("mujoco", "mjcf", "loading MJCF")
    gathered = gather(source, tuple(Path(root) for root in roots))
    warnings: list[str] = []
    reader = _Reader(mujoco, compiled(mujoco, gathered, warnings), gathered)
    for warning in dict.fromkeys(warnings):
        reader.report.kept(reader.file, f"MuJoCo warns: {' '.join(warning.split())}")
    return reader.description()


EARTH = (0.0, 0.0, -9.81)
SAME_FRAME, SAME_ROTATION = 1, 3  # of mjtSameFrame: a body's inertial frame is its own, or turned as it is
WIDTH = {"free": 7, "ball": 4}  # coordinates of joints that have more than one


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
        self.renamed: list[str] = []  # sites with the name of a link or joint
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
        shapes = Shapes(self.mujoco, self.model, self.gathered.paths)
        for i, name in enumerate(self.bodies):
            if i > 0:
                self.join(i)
            inertia = self.inertia(i) if i > 0 else None
            carried = 0.0 if self.off("gravity") else float(self.model.body_gravcomp[i])
            visuals, collisions = tuple(shapes.visuals[i]), tuple(shapes.collisions[i])
            self.links.append(LinkSpec(name, inertia, visuals, collisions, self.where("body", name), carried))
        frames = tuple(self.frame(i) for i in range(self.model.nsite))
        ends, closed = self.loops()
        actuators = mjcf_actuators.actuators(self.mujoco, self.model, self.joints, [frame.name for frame in frames])
        if self.gravity() != EARTH:
            self.report.used(self.file, f"the gravity of the file, ({', '.join(f'{g:g}' for g in self.gravity())})")
        followers = {i: self.joints[joint] for i, (joint, _) in self.couplings.items()}
        options, floor = self.gathered.options, shapes.floor_number
        asked = Asked(self.mujoco, self.model, self.bodies, self.joints, followers, actuators, floor, options)
        note_the_rest(asked, self.report, self.file)
        shapes.note(self.report, self.where)
        note_beside(self.model, self.report, self.file)
        if self.renamed:
            what = "sites with the name of a link or joint, which are called NAME_site"
            self.report.repaired(self.where("site", self.renamed[0]), f"{what}: {listed(self.renamed)}")
        name = text_at(self.model.names, 0)
        name = Path(self.file).stem if name in ("", "MuJoCo Model") else name
        return Description(
            name,
            tuple(self.links),
            tuple(self.specs),
            (*frames, *ends),
            self.report.notes,
            self.file,
            closed,
            self.keyframes(),
            shapes.ground,
            self.gravity(),
            float(self.model.opt.timestep),
            actuators=actuators,
            tendons=() if self.off("limit") else mjcf_actuators.tendons(self.model, self.joints),
        )

    def inertia(self, i: int) -> Inertia | None:
        """The body about its own frame; MuJoCo keeps principal moments about the centre of mass."""
        m = self.model
        if m.body_mass[i] == 0.0 and not m.body_inertia[i].any():
            return None
        X = pose_of(m.body_ipos[i], m.body_iquat[i])
        if m.body_sameframe[i] in (SAME_FRAME, SAME_ROTATION):
            # within 1e-6 of the body's own frame, which MuJoCo takes then
            X = Pose(np.eye(3), np.zeros(3) if m.body_sameframe[i] == SAME_FRAME else X.p)
        I_com = symmetric(product(product(X.R, np.diag(m.body_inertia[i])), X.R.T))
        return Inertia.about_com(float(m.body_mass[i]), X.p, I_com)

    def frame(self, i: int) -> FrameSpec:
        m, given = self.model, self.model.site(i).name
        name = given if given and given not in self.taken else self.fresh(f"{given}_site" if given else f"site{i}")
        if given and name != given:
            self.renamed.append(given)
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
        bounded = m.jnt_limited[j] and kind in ("revolute", "prismatic") and not self.off("limit")
        springs = kind != "free" and not self.off("spring")
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
            damping=0.0 if self.off("damper") else float(m.dof_damping[dof]) + self.motors.damping.get(j, 0.0),
            friction=0.0 if self.off("frictionloss") else float(m.dof_frictionloss[dof]),
            armature=float(m.dof_armature[dof]) + self.motors.armature.get(j, 0.0),
            mimic=self.mimics.get(j),
            where=self.where("joint", self.joints[j]),
            written=self.written(j, kind),
            stiffness=float(m.jnt_stiffness[j]) if springs else 0.0,
            rest=float(m.qpos_spring[m.jnt_qposadr[j]]) if springs and kind != "ball" else 0.0,
            actuator_range=mjcf_actuators.actuator_range(m, j),
        )

    def written(self, j: int, kind: str) -> tuple[float, ...]:
        """Our coordinates of a joint at qpos0."""
        at = int(self.model.jnt_qposadr[j])
        return () if kind == "ball" else tuple(ours(kind, self.model.qpos0[at : at + WIDTH.get(kind, 1)]))

    def straight_couplings(self) -> dict[int, tuple[int, Mimic]]:
        """Equality -> (joint, what it mimics) of those that keep two joints on a straight line; of several for one joint the
        first counts."""
        m, found = self.model, dict[int, tuple[int, Mimic]]()
        for i in range(m.neq):
            line = self.line(i) if active(self.mujoco, m, i) else None
            if line is None:
                continue
            one, two, ratio, offset = line
            leads = {joint: mimic.joint for joint, mimic in found.values()}
            follows = {self.joints[joint]: leader for joint, leader in leads.items()}
            leader = self.joints[two]
            while leader in follows:
                leader = follows[leader]
            if one in leads or leader == self.joints[one]:
                continue
            found[i] = one, Mimic(self.joints[two], ratio, offset)
        return found

    def line(self, i: int) -> tuple[int, int, float, float] | None:
        """(joint, other joint, ratio, offset) of an equality of two joints, q1 - ref1 = a0 + a1 (q2 - ref2), or of a fixed
        tendon of two joints, c1 q1 + c2 q2 = length + a0."""
        m, kinds = self.model, self.mujoco.mjtEq
        one, two, a, kind = int(m.eq_obj1id[i]), int(m.eq_obj2id[i]), m.eq_data[i], int(m.eq_type[i])
        if kind == kinds.mjEQ_JOINT and two >= 0 and not a[2:5].any():
            ref1, ref2 = m.qpos0[m.jnt_qposadr[one]], m.qpos0[m.jnt_qposadr[two]]
            return one, two, float(a[1]), float(ref1 + a[0] - a[1] * ref2)
        if kind == kinds.mjEQ_TENDON and two < 0:
            wraps = range(int(m.tendon_adr[one]), int(m.tendon_adr[one]) + int(m.tendon_num[one]))
            jointed = all(int(m.wrap_type[w]) == self.mujoco.mjtWrap.mjWRAP_JOINT and m.wrap_prm[w] for w in wraps)
            if len(wraps) == 2 and jointed:
                (first, c1), (second, c2) = ((int(m.wrap_objid[w]), float(m.wrap_prm[w])) for w in wraps)
                return (first, second, -c2 / c1, float(m.tendon_length0[one] + a[0]) / c1) if first != second else None
        return None

    # -- the file's own state, gravity and time

    def keyframes(self) -> dict[str, Keyframe]:
        """The keyframes by name, in our layout; one without a name is called key and its number."""
        m, nq = self.model, self.model.nq
        out: dict[str, Keyframe] = {}
        for i in range(m.nkey):
            q, v = np.zeros(nq), m.key_qvel[i].copy()
            for j in range(m.njnt):
                kind, at, dof = self.kind(j), int(m.jnt_qposadr[j]), int(m.jnt_dofadr[j])
                q[at : at + WIDTH.get(kind, 1)] = ours(kind, m.key_qpos[i, at : at + WIDTH.get(kind, 1)])
                if kind == "free":
                    # MuJoCo has the linear velocity in the axes of the world
                    v[dof : dof + 3] = pose_of(np.zeros(3), m.key_qpos[i, at + 3 : at + 7]).R.T @ v[dof : dof + 3]
            out[m.key(i).name or f"key{i}"] = Keyframe(q, v, m.key_ctrl[i].copy())
        return out

    def off(self, name: str) -> bool:
        """Whether an option of the file turns something off: "gravity", "spring", "damper", "frictionloss", "limit"."""
        flags, bits = self.mujoco.mjtDisableBit, getattr(self.mujoco.mjtDisableBit, f"mjDSBL_{name.upper()}")
        if name in ("frictionloss", "limit"):
            bits |= flags.mjDSBL_CONSTRAINT
        return bool(self.model.opt.disableflags & bits)

    def gravity(self) -> tuple[float, float, float]:
        """The gravity of the file."""
        x, y, z = (float(g) for g in self.model.opt.gravity)
        return (0.0, 0.0, 0.0) if self.off("gravity") else (x, y, z)

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


def ours(kind: str, qpos: Sequence[float]) -> list[float]:
    """Our coordinates of a joint: a quaternion (x, y, z, w) where MuJoCo has (w, x, y, z), of length one."""
    values = [float(x) for x in qpos]
    if kind not in WIDTH:
        return values
    w, *xyz = values[-4:]
    size = float(np.linalg.norm(values[-4:]))
    turn = [0.0, 0.0, 0.0, 1.0] if size == 0.0 else [*xyz, w] if abs(size - 1.0) < 1e-15 else [x / size for x in (*xyz, w)]
    return values[:-4] + turn
