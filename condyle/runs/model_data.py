"""A robot's model as plain data, and back: every number exactly, so that both have the same hash."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from condyle.robot.description import LOOP_AXES, Limits, Mimic, Note, Shape
from condyle.robot.joints import Ball, Free, Kind, Prismatic, Revolute
from condyle.robot.mesh import mesh_hash
from condyle.robot.model import BASE_MOTIONS, Frame, Link, Loop, Model
from condyle.robot.spatial import Inertia, Pose
from condyle.runs import json_codec
from condyle.runs.json_codec import Unwritable, Wrong, entry

MOST_LINKS = 20_000
SHAPES = {"box": 3, "sphere": 1, "cylinder": 2, "capsule": 2, "mesh": 3}  # kind -> numbers in its size

# ---- to data


def data_of_model(model: Model) -> dict[str, Any]:
    """The model as JSON can hold it; Unwritable if some number is not one."""
    q = v = 0
    for link in model.links:
        if link.q != slice(q, q + link.kind.nq) or link.v != slice(v, v + link.kind.nv):
            raise Unwritable(f"robot '{model.name}', whose coordinates are not in the order of its links")
        q, v = q + link.kind.nq, v + link.kind.nv
    return {
        "name": model.name,
        "gravity": [json_codec.data_of(x) for x in model.gravity],
        "links": [_link(link) for link in model.links],
        "frames": [{"name": f.name, "link": f.link, "pose": _pose(f.pose)} for f in model.frames],
        "loops": [{"name": k.name, "a": k.frame_a, "b": k.frame_b, "axes": list(k.axes)} for k in model.loops],
        "notes": [[note.where, note.what] for note in model.notes],
        "visuals": [_shape(shape) for shape in model.visuals],
        "collisions": [_shape(shape) for shape in model.collisions],
    }


def _link(link: Link) -> dict[str, Any]:
    limits, mimic = link.limits, link.mimic
    return {
        "name": link.name,
        "joint": link.joint,
        "parent": link.parent,
        "kind": type(link.kind).__name__,
        "axis": [json_codec.data_of(x) for x in link.kind.axis] if isinstance(link.kind, Revolute | Prismatic) else None,
        "placement": _pose(link.placement),
        "mass": json_codec.data_of(link.inertia.mass),
        "h": json_codec.table(link.inertia.h),
        "I": json_codec.table(link.inertia.I),
        "limits": [json_codec.optional(x) for x in (limits.lower, limits.upper, limits.velocity, limits.effort)],
        "damping": json_codec.data_of(link.damping),
        "friction": json_codec.data_of(link.friction),
        "armature": json_codec.data_of(link.armature),
        "mimic": None if mimic is None else [mimic.joint, json_codec.data_of(mimic.multiplier), json_codec.data_of(mimic.offset)],
        "visuals": [_shape(shape) for shape in link.visuals],
        "collisions": [_shape(shape) for shape in link.collisions],
        "written": [json_codec.data_of(x) for x in link.written],
        "base": link.base,
    }


def _pose(pose: Pose) -> dict[str, Any]:
    return {"R": json_codec.table(pose.R), "p": json_codec.table(pose.p)}


def _shape(shape: Shape) -> dict[str, Any]:
    return {
        "kind": shape.kind,
        "size": [json_codec.data_of(x) for x in shape.size],
        "pose": _pose(shape.pose),
        "name": shape.name,
        "mesh": None if shape.mesh is None else str(shape.mesh),
        # one that came from a run stays what it was there
        "mesh_sha256": None if shape.mesh is None else mesh_hash(shape.mesh) if shape.sha256 is None else shape.sha256,
        "color": None if shape.color is None else [json_codec.data_of(x) for x in shape.color],
    }


# ---- from data


def model_of_data(data: Any) -> Model:
    """The model, every entry checked; Wrong says where the first fault is."""
    where = "robot"
    links: list[Link] = []
    rows = entry(data, "links", where)
    json_codec.items(rows, f"{where}.links", lambda row, at: links.append(_read_link(row, at, links)), MOST_LINKS)
    if len({link.joint for link in links}) != len(links):
        raise Wrong(f"{where}.links has two joints of one name")

    def frame(row: Any, at: str) -> Frame:
        link = json_codec.whole(entry(row, "link", at), f"{at}.link", -1, len(links) - 1)
        return Frame(
            json_codec.text(entry(row, "name", at), f"{at}.name"), link, _read_pose(entry(row, "pose", at), f"{at}.pose")
        )

    def note(row: Any, at: str) -> Note:
        return Note(*_exactly(json_codec.items(row, at, json_codec.text, 2), 2, at))

    frames = json_codec.items(entry(data, "frames", where), f"{where}.frames", frame)
    known = {f.name for f in frames}

    def loop(row: Any, at: str) -> Loop:
        name, a, b = (json_codec.text(entry(row, key, at), f"{at}.{key}") for key in ("name", "a", "b"))
        axes = json_codec.items(entry(row, "axes", at), f"{at}.axes", json_codec.text, len(LOOP_AXES))
        if not {a, b} <= known or not set(axes) <= set(LOOP_AXES):
            raise Wrong(f"{at} names a frame or an axis that does not exist")
        return Loop(name, a, b, axes)

    return Model(
        name=json_codec.text(entry(data, "name", where), f"{where}.name"),
        links=tuple(links),
        frames=frames,
        gravity=_numbers(entry(data, "gravity", where), f"{where}.gravity", 3),
        notes=json_codec.items(entry(data, "notes", where), f"{where}.notes", note),
        visuals=json_codec.items(entry(data, "visuals", where), f"{where}.visuals", _read_shape),
        collisions=json_codec.items(entry(data, "collisions", where), f"{where}.collisions", _read_shape),
        loops=json_codec.items(entry(data, "loops", where), f"{where}.loops", loop),
    )


def _read_link(row: Any, at: str, before: list[Link]) -> Link:
    """The link; its coordinates follow those of the links before, among which is its parent."""

    def at_of(name: str) -> tuple[Any, str]:
        return entry(row, name, at), f"{at}.{name}"

    kind = _read_kind(row, at)
    q, v = (before[-1].q.stop, before[-1].v.stop) if before else (0, 0)
    limits = json_codec.items(*at_of("limits"), lambda x, where: json_codec.maybe(x, where, endless=True), 4)
    mimic, mimic_at = at_of("mimic")
    if mimic is not None:
        leader, *rest = _exactly(json_codec.items(mimic, mimic_at, _as_it_is, 3), 3, mimic_at)
        mimic = Mimic(json_codec.text(leader, mimic_at), *[json_codec.number(x, mimic_at) for x in rest])
    return Link(
        name=json_codec.text(*at_of("name")),
        joint=json_codec.text(*at_of("joint")),
        parent=json_codec.whole(*at_of("parent"), -1, len(before) - 1),
        kind=kind,
        placement=_read_pose(*at_of("placement")),
        inertia=Inertia(
            json_codec.number(*at_of("mass")), json_codec.array(*at_of("h"), (3,)), json_codec.array(*at_of("I"), (3, 3))
        ),
        q=slice(q, q + kind.nq),
        v=slice(v, v + kind.nv),
        limits=Limits(*_exactly(limits, 4, f"{at}.limits")),
        damping=json_codec.number(*at_of("damping")),
        friction=json_codec.number(*at_of("friction")),
        armature=json_codec.number(*at_of("armature")),
        mimic=mimic,
        visuals=json_codec.items(*at_of("visuals"), _read_shape),
        collisions=json_codec.items(*at_of("collisions"), _read_shape),
        written=_numbers(*at_of("written"), kind.nq if entry(row, "written", at) else 0),
        base=_read_base(*at_of("base")),
    )


def _read_base(data: Any, at: str) -> str:
    if data not in ("", *BASE_MOTIONS):
        raise Wrong(f"{at} is not one of {', '.join(BASE_MOTIONS)}, or empty")
    return str(data)


def _read_kind(row: Any, at: str) -> Kind:
    name = json_codec.text(entry(row, "kind", at), f"{at}.kind")
    if name in ("Ball", "Free"):
        return Ball() if name == "Ball" else Free()
    if name not in ("Revolute", "Prismatic"):
        raise Wrong(f"{at}.kind is not Revolute, Prismatic, Ball or Free")
    axis = _numbers(entry(row, "axis", at), f"{at}.axis", 3)
    return Revolute(axis) if name == "Revolute" else Prismatic(axis)


def _read_pose(data: Any, at: str) -> Pose:
    return Pose(
        json_codec.array(entry(data, "R", at), f"{at}.R", (3, 3)), json_codec.array(entry(data, "p", at), f"{at}.p", (3,))
    )


def _read_shape(row: Any, at: str) -> Shape:
    kind = json_codec.text(entry(row, "kind", at), f"{at}.kind")
    if kind not in SHAPES:
        raise Wrong(f"{at}.kind is not one of {', '.join(SHAPES)}")
    mesh, color = entry(row, "mesh", at), entry(row, "color", at)
    if mesh is not None and "\0" in json_codec.text(mesh, f"{at}.mesh"):
        raise Wrong(f"{at}.mesh is not the name of a file")
    return Shape(
        kind,
        _numbers(entry(row, "size", at), f"{at}.size", SHAPES[kind]),
        _read_pose(entry(row, "pose", at), f"{at}.pose"),
        json_codec.text(entry(row, "name", at), f"{at}.name"),
        None if mesh is None else Path(mesh),
        None if color is None else _numbers(color, f"{at}.color", 4),
        None if mesh is None else json_codec.text(row.get("mesh_sha256") or "", f"{at}.mesh_sha256"),
    )


def _numbers(data: Any, at: str, count: int) -> Any:
    return _exactly(json_codec.items(data, at, json_codec.number, count), count, at)


def _exactly(found: Any, count: int, at: str) -> Any:
    if len(found) != count:
        raise Wrong(f"{at} has {len(found)} entries, not {count}")
    return found


def _as_it_is(data: Any, at: str) -> Any:
    return data
