"""Obstacles beside a robot: as shapes to be drawn with it, and as plain data of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from condyle.errors import RobotError
from condyle.methods.planning.obstacle_shapes import Box, Capsule, Plane, Solid, Sphere
from condyle.multibody.robot import Robot
from condyle.robot.description import Shape
from condyle.robot.spatial import Pose

COLOR = (0.79, 0.42, 0.16)
KINDS = {
    "sphere": (Sphere, ("radius",)),
    "capsule": (Capsule, ("radius", "length")),
    "box": (Box, ("size",)),
    "plane": (Plane, ()),
}

Rgb = tuple[float, float, float]


def with_obstacles(robot: Robot, solids: Sequence[Solid], colors: Mapping[str, Rgb] | None = None) -> Robot:
    """The robot with the obstacles as visual shapes fixed in the world, for pictures and the viewer; planes are not drawn.

    `colors`: red, green and blue from 0 to 1 by name. The obstacles do not touch anything; `robot_distances` measures them.
    """
    shapes = []
    for each in solids:
        if not isinstance(each, Plane):
            size = tuple(each.size) if isinstance(each, Box) else (each.radius,)
            size = (*size, each.length) if isinstance(each, Capsule) else size
            color = (*(colors or {}).get(each.name, COLOR), 1.0)
            shapes.append(Shape(each.kind, tuple(map(float, size)), Pose(each.rotation, each.position), each.name, color=color))
    model = replace(robot.model, visuals=(*robot.model.visuals, *shapes))
    return Robot(model, robot.locked, None if robot.coordinate_map.identity else robot.coordinate_map)


def solids_data(solids: Sequence[Solid]) -> list[dict[str, Any]]:
    """The obstacles as JSON data."""
    found = []
    for each in solids:
        sizes = {name: getattr(each, name) for name in KINDS[each.kind][1]}
        numbers = {"position": each.position, "rotation": each.rotation, **sizes}
        listed = {name: value.tolist() if hasattr(value, "tolist") else value for name, value in numbers.items()}
        found.append({"kind": each.kind, "name": each.name, **listed})
    return found


def solids_from(data: Any) -> list[Solid]:
    """The obstacles of JSON data; a RobotError for what `solids_data` does not write."""
    if not isinstance(data, list):
        raise RobotError("obstacles are a list of objects")
    found: list[Solid] = []
    for each in data:
        kind = each.get("kind") if isinstance(each, dict) else None
        if not isinstance(kind, str) or kind not in KINDS:
            raise RobotError(f"an obstacle is a {', '.join(KINDS)}, got {kind!r:.40}")
        make, sizes = KINDS[kind]
        if set(each) != {"kind", "name", "position", "rotation", *sizes} or not isinstance(each["name"], str):
            raise RobotError(
                f"an obstacle of kind '{kind}' has kind, name, position, rotation {' and '.join(sizes)}, and nothing else"
            )
        found.append(make(**{name: value for name, value in each.items() if name != "kind"}))
    return found
