"""What a compiled MJCF model asks for and a simulation here does not do: one table, a row and a note for each kind."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any

import numpy as np

from condyle.robot import mjcf_actuators
from condyle.robot.actuator import ActuatorSpec
from condyle.robot.mjcf_collisions import Collisions, collisions, overlapping, rests_on_world
from condyle.robot.mjcf_files import active, loop_kind, text_at
from condyle.robot.report import Report, listed

SOLREF, SOLIMP = (0.02, 1.0), (0.9, 0.95, 0.001, 0.5, 2.0)  # where a file says nothing

# contact parameters without a meaning here, and the value MuJoCo gives where none is written
CONTACT = {"geom_margin": (0.0,), "geom_gap": (0.0,), "geom_solmix": (1.0,), "geom_solref": SOLREF, "geom_solimp": SOLIMP}

# options that change the equations of motion, and those of MuJoCo's integrator and solver
MEDIUM = ("wind", "magnetic", "density", "viscosity")
METHOD = ("integrator", "cone", "impratio", "noslip_iterations", "o_margin", "o_solref", "o_solimp", "o_friction")
FLAGS = ("EULERDAMP", "REFSAFE"), ("INVDISCRETE", "SLEEP", "IPC", "SPECULATIVE")  # disabled, enabled

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


@dataclass(frozen=True)
class Asked:
    """A compiled model, and what was made of it."""

    mujoco: ModuleType
    model: Any
    bodies: Sequence[str]
    joints: Sequence[str]
    coupled: Mapping[int, str]  # equality -> the joint that mimics another by it
    actuators: Sequence[ActuatorSpec]
    floor: int  # the geom that is the ground, -1 for none
    written: Mapping[str, str]  # the attributes of <option>

    @cached_property
    def collisions(self) -> Collisions:
        """What can touch."""
        return collisions(self.mujoco, self.model, self.floor)

    def joint_type(self, name: str) -> list[int]:
        """The joints of a type, "BALL" or "FREE"."""
        kind = int(getattr(self.mujoco.mjtJoint, f"mjJNT_{name}"))
        return [j for j in range(self.model.njnt) if int(self.model.jnt_type[j]) == kind]

    def off(self, name: str) -> bool:
        """Whether an option of the file disables something."""
        return bool(self.model.opt.disableflags & getattr(self.mujoco.mjtDisableBit, f"mjDSBL_{name}"))

    def on(self, name: str) -> bool:
        """Whether an option of the file enables something that this version of MuJoCo knows."""
        return bool(self.model.opt.enableflags & int(getattr(self.mujoco.mjtEnableBit, f"mjENBL_{name}", 0)))

    def touching(self, pairs: Iterable[tuple[int, int]]) -> list[str]:
        """The names of pairs of bodies."""
        return [f"{self.bodies[a]} - {self.bodies[b]}" for a, b in pairs]


def note_the_rest(asked: Asked, report: Report, file: str) -> None:
    """Add a note for each kind of thing that acts in MuJoCo and not here."""
    _equalities(asked, report, file)
    for what, names in mjcf_actuators.unsupported(asked.mujoco, asked.model, asked.actuators).items():
        report.not_simulated(file, f"{what}: {listed(names)}")
    for what, find in NOT_SIMULATED.items():
        if names := list(dict.fromkeys(find(asked))):
            report.not_simulated(file, f"{what}: {listed(names)}")


def note_beside(model: Any, report: Report, file: str) -> None:
    """Add one note for all that has no influence on the motion."""
    beside = {what: _named(model, table) for table, what in BESIDE.items()}
    if any(beside.values()):
        rest = ", ".join(f"{len(found)} {what}" for what, found in beside.items() if found)
        report.ignored(file, f"what does not change the motion: {rest}")


# ---- the rows


def _named(model: Any, table: str) -> list[str]:
    """The names of everything in one of MuJoCo's tables, its number where it has none."""
    return [text_at(model.names, start) or str(i) for i, start in enumerate(getattr(model, f"name_{table}adr", ()))]


def _geoms(asked: Asked, chosen: Callable[[int], bool]) -> list[str]:
    return [asked.model.geom(i).name or f"geom{i}" for i in range(asked.model.ngeom) if chosen(i)]


def _rows(model: Any, field: str, count: int) -> np.ndarray:
    """A table as one row per thing; zeros where this version of MuJoCo has no such table."""
    table = np.asarray(getattr(model, field, np.zeros(count)), dtype=float)
    return table.reshape(count, -1) if count else np.zeros((0, 1))


def _nonzero(field: str) -> Callable[[Asked], list[str]]:
    """The owners of the rows of a table that are not zero."""

    def find(asked: Asked) -> list[str]:
        names = {
            "geom": _geoms(asked, lambda i: True),
            "tendon": _named(asked.model, "tendon"),
            "jnt": asked.joints,
            "dof": [asked.joints[int(j)] for j in asked.model.dof_jntid],
        }[field.partition("_")[0]]
        rows = _rows(asked.model, field, len(names))
        return [name for name, row in zip(names, rows, strict=True) if row.any()]

    return find


def _other(model: Any, i: int, usual: Mapping[str, tuple[float, ...]]) -> bool:
    """Whether row i of a table is not what MuJoCo gives where nothing is written."""
    return any(not np.allclose(np.asarray(getattr(model, field)[i]), value, atol=1e-12) for field, value in usual.items())


def _collides(asked: Asked, i: int) -> bool:
    return bool(asked.model.geom_contype[i] or asked.model.geom_conaffinity[i])


def _ball_limits(asked: Asked) -> list[str]:
    return [asked.joints[j] for j in asked.joint_type("BALL") if asked.model.jnt_limited[j]]


def _free_springs(asked: Asked) -> list[str]:
    return [asked.joints[j] for j in asked.joint_type("FREE") if asked.model.jnt_stiffness[j] and not asked.off("SPRING")]


def _free_friction(asked: Asked) -> list[str]:
    rubs = asked.model.dof_frictionloss[asked.model.jnt_dofadr] > 0.0 if asked.model.njnt else []
    return [] if asked.off("FRICTIONLOSS") else [asked.joints[j] for j in asked.joint_type("FREE") if rubs[j]]


def _mocap(asked: Asked) -> list[str]:
    return [name for name, number in zip(asked.bodies, asked.model.body_mocapid, strict=True) if number >= 0]


def _fixed_geoms(asked: Asked) -> list[str]:
    return _geoms(asked, lambda i: i in asked.collisions.fixed)


def _floor_of_bolted(asked: Asked) -> list[str]:
    unused = asked.collisions.floor and rests_on_world(asked.mujoco, asked.model)
    return _geoms(asked, lambda i: unused and i == asked.floor)


def _overlaps(asked: Asked) -> list[str]:
    found = overlapping(asked.mujoco, asked.model, asked.floor)
    return [
        name + (f" (keyframe {asked.model.key(key).name or f'key{key}'})" if key >= 0 else "")
        for name, key in zip(asked.touching(found), found.values(), strict=True)
    ]


def _turning_friction(asked: Asked) -> list[str]:
    model = asked.model
    own = _geoms(asked, lambda i: model.geom_condim[i] > 3 and _collides(asked, i))
    return own + [name for name, dim in zip(_pairs(asked), model.pair_dim, strict=True) if dim > 3]


def _pairs(asked: Asked) -> list[str]:
    """The names of all contact pairs."""
    geoms, model = _geoms(asked, lambda i: True), asked.model
    return [f"{geoms[int(a)]} - {geoms[int(b)]}" for a, b in zip(model.pair_geom1, model.pair_geom2, strict=True)]


def _own_pairs(asked: Asked) -> list[str]:
    """The contact pairs whose numbers do not act: all but those of the floor with one coefficient of friction."""
    model, usual = asked.model, {"pair_solref": SOLREF, "pair_solimp": SOLIMP, "pair_margin": (0.0,), "pair_gap": (0.0,)}
    return [
        name
        for i, name in enumerate(_pairs(asked))
        if asked.floor not in (int(model.pair_geom1[i]), int(model.pair_geom2[i]))
        or model.pair_friction[i][0] != model.pair_friction[i][1]
        or _other(model, i, usual)
    ]


def _soft_limits(asked: Asked) -> list[str]:
    usual = {"jnt_solref": SOLREF, "jnt_solimp": SOLIMP, "jnt_margin": (0.0,)}
    joints = [name for j, name in enumerate(asked.joints) if asked.model.jnt_limited[j] and _other(asked.model, j, usual)]
    usual = {"tendon_solref_lim": SOLREF, "tendon_solimp_lim": SOLIMP, "tendon_margin": (0.0,)}
    limited = asked.model.tendon_limited
    tendons = enumerate(_named(asked.model, "tendon"))
    return joints + [name for t, name in tendons if limited[t] and _other(asked.model, t, usual)]


def _soft_friction(asked: Asked) -> list[str]:
    usual, model = {"dof_solref": SOLREF, "dof_solimp": SOLIMP}, asked.model
    return [asked.joints[int(j)] for k, j in enumerate(model.dof_jntid) if model.dof_frictionloss[k] and _other(model, k, usual)]


def _motor_compensation(asked: Asked) -> list[str]:
    return [name for name, own in zip(asked.joints, asked.model.jnt_actgravcomp, strict=True) if own]


def _activations(asked: Asked) -> list[str]:
    model = asked.model
    return [model.key(i).name or f"key{i}" for i in range(model.nkey) if model.na and np.any(model.key_act[i])]


def _medium(asked: Asked) -> list[str]:
    return _options(asked, MEDIUM)


def _method(asked: Asked) -> list[str]:
    own = [] if asked.on("OVERRIDE") else [name for name in METHOD if name.startswith("o_")]
    found = _options(asked, [name for name in METHOD if name not in own])
    if asked.written.get("cone") == "pyramidal":
        found.append("cone = pyramidal (contact is round; `cone=4` gives a pyramid)")
    disabled, enabled = FLAGS
    found += [f"flag {name.lower()} = disable" for name in disabled if asked.off(name)]
    return found + [f"flag {name.lower()} = enable" for name in enabled if asked.on(name)]


def _options(asked: Asked, names: Iterable[str]) -> list[str]:
    """Options that differ from MuJoCo's defaults, as a file writes them."""
    usual, found = asked.mujoco.MjModel.from_xml_string("<mujoco/>").opt, []
    words = {"integrator": asked.mujoco.mjtIntegrator, "cone": asked.mujoco.mjtCone}
    for name in names:
        value, default = np.asarray(getattr(asked.model.opt, name, 0.0)), np.asarray(getattr(usual, name, 0.0))
        if not np.array_equal(value, default):
            word = words[name](int(value)).name.partition("_")[2].lower() if name in words else f"{value.tolist()}"
            found.append(f"{name} = {word}" + (" (contact has round cones in any case)" if name == "cone" else ""))
    return found


def _controls(asked: Asked) -> list[str]:
    return [actuator.name for actuator in asked.actuators if not actuator.unsupported]


def _without_motor(asked: Asked) -> list[str]:
    """The joints with a motor in a Simulation that no actuator of the file drives; of a file with actuators."""
    if not _controls(asked):
        return []
    driven = {joint for actuator in asked.actuators for joint, _ in actuator.joints} | set(asked.coupled.values())
    free = {asked.joints[j] for j in asked.joint_type("FREE")}
    return [joint for joint in asked.joints if joint not in driven | free]


# what a file asks, and what a simulation does instead -> the names of those that ask it
NOT_SIMULATED: dict[str, Callable[[Asked], Iterable[str]]] = {
    "deformable bodies (flex), which are left out": lambda asked: _named(asked.model, "flex"),
    "plugins, which are left out": lambda asked: _named(asked.model, "plugin"),
    "nonlinear springs of joints": _nonzero("jnt_stiffnesspoly"),
    "yielding springs of joints": _nonzero("jnt_springyield"),
    "nonlinear damping of joints": _nonzero("dof_dampingpoly"),
    "inertia of tendons": _nonzero("tendon_armature"),
    "moving surfaces of geoms": _nonzero("geom_surfacevel"),
    "adhesion of geoms": _nonzero("geom_adhesion"),
    "limits of ball joints": _ball_limits,
    "springs of free joints": _free_springs,
    "dry friction of free joints": _free_friction,
    "mocap bodies, which do not move": _mocap,
    "contact of the robot with itself, by links": lambda asked: asked.touching(sorted(asked.collisions.itself)),
    "contact of moving bodies with each other": lambda asked: asked.touching(sorted(asked.collisions.others)),
    "contact with geoms fixed in the world": _fixed_geoms,
    "contact with the floor, for a robot that is fixed in the world (`ground` gives it one)": _floor_of_bolted,
    "links that begin inside each other, and would be pushed apart": _overlaps,
    "condim 4 and 6, friction against turning and rolling, of geoms": _turning_friction,
    "friction and softness of contact pairs": _own_pairs,
    "margin, gap, solref and solimp of geoms (contact is as hard as `rest_depth_mm` says)": lambda asked: _geoms(
        asked, lambda i: _other(asked.model, i, CONTACT)
    ),
    "solreflimit, solimplimit and margin of limits (they are as hard as `limit_depth` says)": _soft_limits,
    "solreffriction and solimpfriction of dry friction": _soft_friction,
    "actuatorgravcomp (gravity compensation acts beside the actuators, not as a part of their force)": _motor_compensation,
    "activations (act) of keyframes (those of `cd.stance` hold its pose)": _activations,
    "options of a fluid or field": _medium,
    "options of MuJoCo's integrator and solver (`integrator`, `cone` and `smoothing` are those of a Simulation)": _method,
    "controls of actuators as u of a Simulation, which has joint forces (`condyle.blocks.RobotActuators` takes them)": _controls,
    "joints without a motor, which have one in u of a Simulation unless `actuated` leaves them out": _without_motor,
}


def _equalities(asked: Asked, report: Report, file: str) -> None:
    """Couplings that became mimic joints, and loops, are exact here and soft in MuJoCo; the other constraints are left out."""
    mujoco, model = asked.mujoco, asked.model
    followers, loops = list[str](), list[str]()
    left: dict[str, list[str]] = {}
    for i in range(model.neq):
        name, kind = model.eq(i).name or str(i), mujoco.mjtEq(int(model.eq_type[i])).name.removeprefix("mjEQ_").lower()
        if i in asked.coupled:
            followers.append(asked.coupled[i])
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
        report.not_simulated(file, f"{what}: {listed(names)}")
