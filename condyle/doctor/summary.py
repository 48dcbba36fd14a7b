"""What a robot is, in a few numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.doctor.shapes import half_sizes
from condyle.robot.description import Description, LinkSpec
from condyle.robot.spatial import Pose


def poses(description: Description) -> dict[str, Pose]:
    """Where every link is in the frame of the root, with all joints at zero."""
    parent = {joint.child: joint for joint in description.joints}
    found: dict[str, Pose] = {}
    for link in description.links:
        trail, name = [], link.name
        while name not in found and name in parent:
            trail.append(name)
            name = parent[name].parent
        found.setdefault(name, Pose.identity())
        for each in reversed(trail):
            found[each] = found[parent[each].parent] @ parent[each].pose
    return found


def corners(link: LinkSpec, pose: Pose) -> list[np.ndarray]:
    """The origin of a link and the corners of the boxes around its shapes, meshes not counted."""
    points = [pose.p]
    for shape in (*link.visuals, *link.collisions):
        if shape.kind != "mesh":
            X = pose @ shape.pose
            reach = np.abs(X.R) @ half_sizes(shape)
            points += [X.p - reach, X.p + reach]
    return points


def lowest(link: LinkSpec, pose: Pose) -> float:
    """The height of its lowest point."""
    return min(float(point[2]) for point in corners(link, pose))


def summary(description: Description) -> dict[str, Any]:
    """What a robot is: its joints and degrees of freedom, its mass, and the box around it with all joints at zero."""
    placed = poses(description)
    freedom = {"revolute": 1, "continuous": 1, "prismatic": 1, "fixed": 0, "free": 6, "ball": 3, "planar": 3}
    moving = [joint for joint in description.joints if joint.kind != "fixed"]
    points = [corner for link in description.links for corner in corners(link, placed[link.name])]
    low, high = (np.min(points, axis=0), np.max(points, axis=0)) if points else (np.zeros(3), np.zeros(3))
    return {
        "name": description.name,
        "links": len(description.links),
        "moving_joints": len(moving),
        "degrees_of_freedom": sum(freedom[joint.kind] for joint in moving if joint.mimic is None),
        "mass": float(sum(link.inertia.mass for link in description.links if link.inertia is not None)),
        "extent": [float(x) for x in high - low],
        "lowest": float(low[2]),
        "meshes": sum(shape.kind == "mesh" for link in description.links for shape in (*link.visuals, *link.collisions)),
    }
