"""What a compiled MJCF model has and a Description has not: first what changes the motion, each kind once, then the rest."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from condyle.robot.mjcf_files import active, loop_kind, text_at
from condyle.robot.report import Report

SHOWN = 8  # names in one note

# a table with one row per joint, body, geom, tendon or velocity, and what a row that is not zero is; all change the motion
FORCES = {
    "jnt_stiffnesspoly": "nonlinear springs of joints",
    "jnt_springyield": "yielding springs of joints",
    "dof_dampingpoly": "nonlinear damping of joints",
    "tendon_armature": "inertia of tendons",
    "geom_surfacevel": "moving surfaces of geoms",
    "geom_adhesion": "adhesion of geoms",
}

# contact parameters without a meaning here, and the value MuJoCo gives where none is written
CONTACT = {
    "geom_margin": (0.0,),
    "geom_gap": (0.0,),
    "geom_solmix": (1.0,),
    "geom_solref": (0.02, 1.0),
    "geom_solimp": (0.9, 0.95, 0.001, 0.5, 2.0),
}

# options that change the equations of motion; those of MuJoCo's solver and integrator have no meaning here
OPTIONS = ("wind", "magnetic", "density", "viscosity", "o_margin", "o_solref", "o_solimp", "o_friction")

# what has no influence on the motion: MuJoCo's word for a table, and what it holds
BESIDE = {
    "sensor": "sensors",
    "cam": "cameras",
    "light": "lights",
    "skin": "skins",
    "numeric": "custom numbers",
    "text": "custom texts",
    "tuple": "custom tuples",
}


def note_the_rest(mujoco: ModuleType, model: Any, report: Report, file: str, joints: list[str], coupled: dict[int, str]) -> None:
    """Add the notes for everything that was not read into links, joints, frames, loops, shapes and actuators.

    `coupled`: equality -> the joint that mimics another by it.
    """

    def note(what: str, names: list[str]) -> None:
        if names:
            report.ignored(file, f"{what}: {listed(names)}")

    names = {
        "body": [model.body(i).name or f"body{i}" for i in range(model.nbody)],
        "geom": [model.geom(i).name or f"geom{i}" for i in range(model.ngeom)],
        "tendon": _named(model, "tendon"),
        "jnt": joints,
        "dof": [joints[int(j)] for j in model.dof_jntid],
    }
    _equalities(mujoco, model, report, file, coupled)
    note("deformable bodies (flex), which are left out", _named(model, "flex"))
    note("plugins, which are left out", _named(model, "plugin"))
    for field, what in FORCES.items():
        owners = names[field.partition("_")[0]]
        rows = _rows(model, field, len(owners))
        note(f"{what}, which are not simulated", list(dict.fromkeys(n for n, row in zip(owners, rows, strict=True) if row.any())))
    types = [mujoco.mjtJoint(int(kind)) for kind in model.jnt_type]
    kinds = mujoco.mjtJoint
    limited = [joints[j] for j, kind in enumerate(types) if kind == kinds.mjJNT_BALL and model.jnt_limited[j]]
    note("limits of ball joints, which do not act", limited)
    stiff = [joints[j] for j, kind in enumerate(types) if kind == kinds.mjJNT_FREE and model.jnt_stiffness[j]]
    note("springs of free joints, which are not simulated", stiff)
    rubbing = [joints[j] for j, kind in enumerate(types) if kind == kinds.mjJNT_FREE and _rubs(mujoco, model, j)]
    note("dry friction of free joints, which does not act", rubbing)
    note("mocap bodies, which do not move", [names["body"][i] for i in range(model.nbody) if model.body_mocapid[i] >= 0])
    _options(mujoco, model, report, file)
    own = [i for i in range(model.ngeom) if _own_contact(model, i)]
    if own:
        what = "contact is as hard as `rest_depth_mm` says, and touches only the ground"
        report.ignored(file, f"margin, gap, solref and solimp of {len(own)} geoms, and contact of geoms with each other: {what}")


def note_beside(model: Any, report: Report, file: str) -> None:
    """Add one note for all that has no influence on the motion."""
    beside = {what: _named(model, table) for table, what in BESIDE.items()}
    if any(beside.values()):
        rest = ", ".join(f"{len(found)} {what}" for what, found in beside.items() if found)
        report.ignored(file, f"what does not change the motion: {rest}")


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more."""
    more = f", and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def _named(model: Any, table: str) -> list[str]:
    """The names of everything in one of MuJoCo's tables, its number where it has none."""
    return [text_at(model.names, start) or str(i) for i, start in enumerate(getattr(model, f"name_{table}adr", ()))]


def _rows(model: Any, field: str, count: int) -> np.ndarray:
    """A table as one row per thing; zeros where this version of MuJoCo has no such table."""
    table = np.asarray(getattr(model, field, np.zeros(count)), dtype=float)
    return table.reshape(count, -1) if count else np.zeros((0, 1))


def _rubs(mujoco: ModuleType, model: Any, joint: int) -> bool:
    """Whether a joint has dry friction that the file does not turn off."""
    off = model.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS
    return not off and bool(model.dof_frictionloss[model.jnt_dofadr[joint]])


def _own_contact(model: Any, i: int) -> bool:
    return any(not np.allclose(_rows(model, f, model.ngeom)[i], usual, atol=1e-12) for f, usual in CONTACT.items())


def _equalities(mujoco: ModuleType, model: Any, report: Report, file: str, coupled: dict[int, str]) -> None:
    """Couplings that became mimic joints, and loops, are exact here and soft in MuJoCo; the other constraints are left out."""
    followers, loops = list[str](), list[str]()
    left: dict[str, list[str]] = {}
    for i in range(model.neq):
        name, kind = model.eq(i).name or str(i), mujoco.mjtEq(int(model.eq_type[i])).name.removeprefix("mjEQ_").lower()
        if i in coupled:
            followers.append(coupled[i])
        elif loop_kind(mujoco, model, i):
            loops.append(f"{name} ({kind})")
        else:
            off = "" if active(mujoco, model, i) else ", not active at the start"
            left.setdefault(f"equality constraints ({kind}{off}), which are left out", []).append(name)
    if followers:
        report.kept(file, f"joints that mimic others, softly in MuJoCo and exactly here: {listed(followers)}")
    if loops:
        report.kept(file, f"equality constraints that close loops, softly in MuJoCo and exactly here: {listed(loops)}")
    for what, names in left.items():
        report.ignored(file, f"{what}: {listed(names)}")


def _options(mujoco: ModuleType, model: Any, report: Report, file: str) -> None:
    """Options with an influence on the motion that differ from MuJoCo's defaults."""
    usual, found = mujoco.MjModel.from_xml_string("<mujoco/>").opt, []
    for name in OPTIONS:
        given, default = np.asarray(getattr(model.opt, name, 0.0)), np.asarray(getattr(usual, name, 0.0))
        if not np.array_equal(given, default):
            found.append(f"{name} = {given.tolist()}")
    if found:
        report.ignored(file, f"options, which have no effect: {', '.join(found)}")
