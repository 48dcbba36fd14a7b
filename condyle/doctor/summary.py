"""What a robot is, in a few numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.doctor.shapes import half_sizes
from condyle.robot.description import Description
from condyle.robot.spatial import Pose


def summary(description: Description) -> dict[str, Any]:
    """What a robot is: its joints and degrees of freedom, its mass, and the box around it with all joints at zero."""
    parent = {joint.child: joint for joint in description.joints}
    poses: dict[str, Pose] = {}
    for link in description.links:
        trail, name = [], link.name
        while name not in poses and name in parent:
            trail.append(name)
            name = parent[name].parent
        poses.setdefault(name, Pose.identity())
        for each in reversed(trail):
            poses[each] = poses[parent[each].parent] @ parent[each].pose
    freedom = {"revolute": 1, "continuous": 1, "prismatic": 1, "fixed": 0, "free": 6, "ball": 3, "planar": 3}
    moving = [joint for joint in description.joints if joint.kind != "fixed"]
    points = [poses[link.name].p for link in description.links]
    for link in description.links:
        for shape in (*link.visuals, *link.collisions):
            if shape.kind != "mesh":
                X = poses[link.name] @ shape.pose
                reach = np.abs(X.R) @ half_sizes(shape)
                points += [X.p - reach, X.p + reach]
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
