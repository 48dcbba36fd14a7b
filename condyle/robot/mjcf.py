"""MJCF: MuJoCo's own compiler reads the model, and what it compiled is written down as a Description.

Links and joints keep MuJoCo's order (depth first, as written) and MuJoCo's coordinates: our q of a hinge or slide is
MuJoCo's qpos, so a joint with `ref` r stands in its written pose at q = r. Free and ball joints differ in layout only
(`condyle.robot.layouts`). A body with several joints becomes a chain of massless links; a joint beside its body's origin
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
from condyle.robot.description import Description, FrameSpec, JointSpec, Limits, LinkSpec, Mimic
from condyle.robot.joints import rotation_about
from condyle.robot.mjcf_compile import compiled
from condyle.robot.mjcf_files import Gathered, gather
from condyle.robot.mjcf_loops import active, loops
from condyle.robot.mjcf_motors import Motors, motors
from condyle.robot.mjcf_notes import note_the_rest
from condyle.robot.mjcf_shapes import pose_of, shapes
from condyle.robot.report import Report
from condyle.robot.spatial import Inertia, Pose, product, symmetric


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
        self.motors: Motors = motors(mujoco, model, self.joints, self.report, self.file)
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
        visuals, collisions = shapes(self.mujoco, self.model, self.gathered, self.report, self.file)
        for i, name in enumerate(self.bodies):
            if i > 0:
                self.join(i)
            inertia = self.inertia(i) if i > 0 else None
            self.links.append(LinkSpec(name, inertia, tuple(visuals[i]), tuple(collisions[i]), self.where("body", name)))
        frames = tuple(self.frame(i) for i in range(self.model.nsite))
        ends, closed = loops(self.mujoco, self.model, self.bodies, self.fresh, self.where)
        note_the_rest(self.mujoco, self.model, self.report, self.file, self.joints, set(self.couplings))
        name = _text(self.model.names, 0)
        name = Path(self.file).stem if name in ("", "MuJoCo Model") else name
        joints = tuple(self.specs)
        return Description(name, tuple(self.links), joints, (*frames, *ends), self.report.notes, self.file, closed)

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
            arrives = j == first + count - 1 and not p.any()
            link = body if arrives else self.fresh(f"{body}/{self.joints[j]}")
            if not arrives:
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
        lower, upper = m.jnt_range[j] if m.jnt_limited[j] and kind in ("revolute", "prismatic") else (None, None)
        limits = Limits(_float(lower), _float(upper), None, self.motors.effort.get(j))
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


def _float(x: Any) -> float | None:
    return None if x is None else float(x)


def _text(names: bytes, start: int) -> str:
    """The name that begins at `start` in MuJoCo's table of names."""
    return names[start : names.index(b"\0", start)].decode()
