"""What a compiled MJCF model has and a Description has not: one note for each kind of thing, with names."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from condyle.robot.mjcf_files import active, loop_kind, text_at
from condyle.robot.report import Report

SHOWN = 8  # names in one note

# MuJoCo's word for a table, and what it holds
TABLES = {
    "pair": "contact pairs with their own parameters (the geoms collide as any others)",
    "exclude": "pairs of bodies excluded from contact",
    "sensor": "sensors",
    "cam": "cameras",
    "light": "lights",
    "flex": "deformable bodies (flex)",
    "skin": "skins",
    "key": "keyframes (load_mjcf returns them)",
    "plugin": "plugin instances",
    "numeric": "custom numbers",
    "text": "custom texts",
    "tuple": "custom tuples",
}

# a table with one row per joint, body or geom, and what a row that is not zero is
FIELDS = {
    "jnt_stiffness": "springs of joints",
    "jnt_stiffnesspoly": "nonlinear springs of joints",
    "jnt_springyield": "yielding springs of joints",
    "jnt_actgravcomp": "gravity compensation by actuators of joints",
    "body_gravcomp": "gravity compensation of bodies",
    "geom_surfacevel": "moving surfaces of geoms",
    "geom_adhesion": "adhesion of geoms",
    "geom_fluid": "fluid forces on geoms",
}

# contact parameters, and the value MuJoCo gives where none is written
CONTACT = {
    "geom_friction": (1.0, 0.005, 0.0001),
    "geom_condim": (3,),
    "geom_priority": (0,),
    "geom_margin": (0.0,),
    "geom_gap": (0.0,),
    "geom_solmix": (1.0,),
    "geom_solref": (0.02, 1.0),
    "geom_solimp": (0.9, 0.95, 0.001, 0.5, 2.0),
}


def note_the_rest(mujoco: ModuleType, model: Any, report: Report, file: str, joints: list[str], coupled: set[int]) -> None:
    """Add the notes for everything that was not read into links, joints, frames, loops and shapes.

    `coupled` are the equalities that became mimic joints.
    """

    def note(what: str, names: list[str]) -> None:
        if names:
            more = f", and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
            report.ignored(file, f"{what}: {', '.join(names[:SHOWN])}{more}")

    bodies = [model.body(i).name or f"body{i}" for i in range(model.nbody)]
    geoms = [model.geom(i).name or f"geom{i}" for i in range(model.ngeom)]

    for table, what in TABLES.items():
        starts = getattr(model, f"name_{table}adr", ())
        note(what, [text_at(model.names, start) or str(i) for i, start in enumerate(starts)])
    for field, what in FIELDS.items():
        names = {"jnt": joints, "body": bodies, "geom": geoms}[field.partition("_")[0]]
        note(what, [name for name, row in zip(names, _rows(model, field, len(names)), strict=True) if row.any()])

    types = [mujoco.mjtJoint(int(kind)) for kind in model.jnt_type]
    balls = [j for j, kind in enumerate(types) if kind == mujoco.mjtJoint.mjJNT_BALL]
    note("limits of ball joints", [joints[j] for j in balls if model.jnt_limited[j]])
    curved = _rows(model, "dof_dampingpoly", model.nv)
    note("nonlinear damping of joints", [joints[j] for j in range(model.njnt) if curved[model.jnt_dofadr[j]].any()])
    note("mocap bodies, which do not move here", [bodies[i] for i in range(model.nbody) if model.body_mocapid[i] >= 0])
    start = [bodies[model.jnt_bodyid[j]] for j, kind in enumerate(types) if kind == mujoco.mjtJoint.mjJNT_FREE]
    note("written poses of free bodies (load_mjcf returns qpos0; at the neutral q they stand at the origin)", start)
    note("contact parameters of geoms", [geoms[i] for i in range(model.ngeom) if _own_contact(model, i)])
    _equalities(mujoco, model, report, file, joints, coupled)
    _options(mujoco, model, report, file)


def _rows(model: Any, field: str, count: int) -> np.ndarray:
    """A table as one row per thing; zeros where this version of MuJoCo has no such table."""
    table = np.asarray(getattr(model, field, np.zeros(count)), dtype=float)
    return table.reshape(count, -1) if count else np.zeros((0, 1))


def _own_contact(model: Any, i: int) -> bool:
    return any(not np.allclose(_rows(model, f, model.ngeom)[i], usual, atol=1e-12) for f, usual in CONTACT.items())


def _equalities(mujoco: ModuleType, model: Any, report: Report, file: str, joints: list[str], coupled: set[int]) -> None:
    """Couplings that became mimic joints, and loops, are exact here and soft in MuJoCo; the other constraints are left out."""
    for i in range(model.neq):
        kind = mujoco.mjtEq(int(model.eq_type[i]))
        name, what = model.eq(i).name or str(i), kind.name.removeprefix("mjEQ_").lower()
        if not active(mujoco, model, i):
            report.ignored(file, f"equality constraint '{name}' ({what}), which is not active")
        elif i in coupled:
            follower = joints[int(model.eq_obj1id[i])]
            report.kept(file, f"joint '{follower}' mimics another: the coupling is soft in MuJoCo, and exact here")
        elif loop_kind(mujoco, model, i):
            report.kept(file, f"equality constraint '{name}' ({what}) closes a loop: it is soft in MuJoCo, and exact here")
        else:
            report.ignored(file, f"equality constraint '{name}' ({what})")


def _options(mujoco: ModuleType, model: Any, report: Report, file: str) -> None:
    """Options that differ from MuJoCo's defaults."""
    usual = mujoco.MjModel.from_xml_string("<mujoco/>").opt
    for name in [name for name in dir(usual) if not name.startswith("_")]:
        given, default = getattr(model.opt, name), getattr(usual, name)
        if not np.array_equal(given, default):
            given = given.tolist() if isinstance(given, np.ndarray) else given
            comes = " (load_mjcf returns it)" if name in ("gravity", "timestep") else ""
            report.ignored(file, f"option {name} = {given}{comes}")
