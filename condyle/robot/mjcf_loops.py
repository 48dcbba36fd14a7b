"""The equality constraints of a compiled MJCF model that close loops: `connect` holds a point, `weld` a whole pose.

Each becomes a loop between two new frames, NAME_a on body1 and NAME_b on body2. How stiff and how fast MuJoCo would close it
(solref, solimp, torquescale) means nothing to a loop that is exact, and is not read.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from condyle.robot.description import LOOP_AXES, FrameSpec, LoopSpec
from condyle.robot.mjcf_shapes import pose_of
from condyle.robot.spatial import Pose


def active(mujoco: ModuleType, model: Any, i: int) -> bool:
    """Whether equality i acts when the simulation begins."""
    off = mujoco.mjtDisableBit
    return bool(model.eq_active0[i]) and not model.opt.disableflags & (off.mjDSBL_EQUALITY | off.mjDSBL_CONSTRAINT)


def loop_kind(mujoco: ModuleType, model: Any, i: int) -> str:
    """ "connect" or "weld"; "" for an equality of another kind, and for one that is not active."""
    kinds = {int(mujoco.mjtEq.mjEQ_CONNECT): "connect", int(mujoco.mjtEq.mjEQ_WELD): "weld"}
    return kinds.get(int(model.eq_type[i]), "") if active(mujoco, model, i) else ""


def loops(
    mujoco: ModuleType, model: Any, bodies: list[str], fresh: Callable[[str], str], where: Callable[[str, str], str]
) -> tuple[tuple[FrameSpec, ...], tuple[LoopSpec, ...]]:
    """(frames, loops) of all active connects and welds; `fresh` gives names that nothing else has, `where` places in the file."""
    names = {model.eq(i).name for i in range(model.neq)}
    frames: list[FrameSpec] = []
    found: list[LoopSpec] = []
    for i in range(model.neq):
        kind = loop_kind(mujoco, model, i)
        if not kind:
            continue
        given = model.eq(i).name
        name = given or _unused(f"{kind}{i}", names)
        place = where(kind, given)
        a, b = (FrameSpec(fresh(f"{name}_{end}"), bodies[body], X, place) for end, body, X in _ends(mujoco, model, i, kind))
        frames += [a, b]
        found.append(LoopSpec(name, a.name, b.name, LOOP_AXES[:3] if kind == "connect" else LOOP_AXES, place))
    return tuple(frames), tuple(found)


def _ends(mujoco: ModuleType, model: Any, i: int, kind: str) -> list[tuple[str, int, Pose]]:
    """("a" or "b", body, pose in it) of the two frames that MuJoCo keeps together."""
    one, two, data = int(model.eq_obj1id[i]), int(model.eq_obj2id[i]), model.eq_data[i]
    if int(model.eq_objtype[i]) == mujoco.mjtObj.mjOBJ_SITE:
        sites = (("a", one), ("b", two))
        return [(end, int(model.site_bodyid[s]), pose_of(model.site_pos[s], model.site_quat[s])) for end, s in sites]
    if kind == "connect":
        # one point in each body: MuJoCo found the second where the first is at qpos0
        return [("a", one, Pose(np.eye(3), data[0:3].copy())), ("b", two, Pose(np.eye(3), data[3:6].copy()))]
    # the point in body2 first, then where it is in body1, and how body2 is turned there
    return [("a", one, pose_of(data[3:6], data[6:10])), ("b", two, Pose(np.eye(3), data[0:3].copy()))]


def _unused(name: str, taken: set[str]) -> str:
    """The name, with a line behind it while another equality has it."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name
