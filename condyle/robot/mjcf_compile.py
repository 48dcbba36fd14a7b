"""MuJoCo's compiler, and its complaints as ours: with the file and line, all in one family, nothing printed or written."""

from __future__ import annotations

import re
from types import ModuleType
from typing import Any

import numpy as np

from condyle.errors import RobotError
from condyle.robot.mjcf_files import Gathered

MAX_BODIES = 10_000
MAX_NUMBER = 1e10  # MuJoCo's own limit for coordinates (mjMAXVAL), here for every number of the robot

# the tables that are read, by whose numbers they hold
READ = {
    "body": ("body_pos", "body_quat", "body_mass", "body_ipos", "body_iquat", "body_inertia"),
    "joint": ("jnt_pos", "jnt_axis", "jnt_range"),
    "geom": ("geom_pos", "geom_quat", "geom_size", "geom_rgba"),
    "site": ("site_pos", "site_quat"),
    "actuator": ("actuator_gear", "actuator_armature", "actuator_damping"),
    "mat": ("mat_rgba",),
    "eq": ("eq_data",),
}
# and those with one row per coordinate
READ_BY_COORDINATE = ("qpos0", "dof_damping", "dof_frictionloss", "dof_armature")


def compiled(mujoco: ModuleType, gathered: Gathered, warnings: list[str]) -> Any:
    """MuJoCo's model of the text, or a RobotError that says what MuJoCo said, and where."""
    # left alone, MuJoCo prints its warnings and writes them to a file in the working directory
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(warnings.append)
    try:
        model = mujoco.MjModel.from_xml_string(gathered.text, gathered.assets)
    except (ValueError, mujoco.FatalError) as error:
        raise RobotError([_sentence(str(error), gathered)]) from None
    finally:
        mujoco.set_mju_user_warning(before)
    file = gathered.lines[0].rpartition(":")[0]
    if model.nbody > MAX_BODIES:
        raise RobotError([f"{file}: the model has {model.nbody:,} bodies, more than {MAX_BODIES:,}"])
    problems = _wild_numbers(model, file)
    if problems:
        raise RobotError(problems)
    return model


def _wild_numbers(model: Any, file: str) -> list[str]:
    """A problem for everything whose numbers are not finite, or larger than any robot has."""
    problems = []
    tables = [(kind, field) for kind, fields in READ.items() for field in fields]
    for kind, field in [*tables, *(("coordinate", field) for field in READ_BY_COORDINATE)]:
        table = getattr(model, field, ())
        for i in range(len(table)):
            if not np.all(np.abs(table[i]) <= MAX_NUMBER):
                name = "" if kind == "coordinate" else getattr(model, kind)(i).name
                value = np.asarray(table[i]).tolist()
                problems.append(
                    f"{file}: {kind} '{name or i}': {field} is {value}: numbers must be finite and at most {MAX_NUMBER:g}"
                )
    return problems


def _sentence(message: str, gathered: Gathered) -> str:
    """MuJoCo's message in one line, after the place it is about."""
    where = gathered.lines[0].rpartition(":")[0]
    if (found := re.search(r"line (\d+)", message)) and 0 < int(found[1]) <= len(gathered.lines):
        where = gathered.lines[int(found[1]) - 1]
        message = message[: found.start()] + message[found.end() :]
    for key, path in gathered.paths.items():
        message = message.replace(key, str(path))
    parts = [part.strip(" ,") for part in message.splitlines()]
    said = "; ".join(part for part in parts if part).replace("Error: ", "").replace("XML ", "")
    return f"{where}: MuJoCo cannot compile this: {said}"
