"""How a robot without a joint to the world is carried: by feet, wheels, rotors or legs, or not at all; base="auto" follows it."""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np

from condyle.robot.description import Description, JointSpec, LinkSpec, Note, Shape
from condyle.robot.names import quoted
from condyle.robot.spatial import Pose

# what the end of a leg is called; a torso on the left has no sole, and a footprint is only a mark on the floor
FOOT = re.compile(r"(?i:foot(?!_?print)|feet|wheel)|(?<![A-Za-z])(?i:[lr]?(?:sole|toe))|Sole|Toe")
WINGS = ("propeller", "rotor")
FLYING = re.compile(r"(?i)quadrotor|hexarotor|octorotor|copter|drone|crazyflie")
GROUND = ("world", "world_link", "universe", "map", "odom", "ground")  # roots that stand for what does not move
BELOW = 0.05  # m: legs end at least so far below the root
LEVEL = 0.03  # m: and at one height, but for this


def chosen_base(description: Description, base: str) -> tuple[str, tuple[Note, ...]]:
    """The base of a robot file, and a note where it moves about: "auto" is free for a robot that is carried, else fixed."""
    carried = supports(description) if base in ("auto", "fixed") else []
    if not carried:
        return ("fixed" if base == "auto" else base), ()
    shown = " and ".join(quoted(name) for name in carried[:2]) + (" and more" if len(carried) > 2 else "")
    seem = f"{shown} seem{'s' * (len(carried) == 1)} made to carry it"
    if base == "auto":
        return "free", (Note(description.source, f"base: free, because nothing joins the robot to the world and {seem}"),)
    advice = 'load it with base="free", or base="auto", to let it move'
    return "fixed", (Note(description.source, f"base: fixed, though {seem}: {advice}"),)


def is_foot(name: str) -> bool:
    """Whether a link, shape or frame is called so."""
    return FOOT.search(name) is not None


def supports(description: Description) -> list[str]:
    """The links that support a robot whose root hangs on nothing: feet and rotors by their names, else the ends of its legs.

    Legs are two limbs or more that begin at the root and end below it, at one height. None for a robot with a base of its own.
    """
    children: dict[str, list[JointSpec]] = defaultdict(list)
    for joint in description.joints:
        children[joint.parent].append(joint)
    moved = {joint.child for joint in description.joints}
    root = next((link.name for link in description.links if link.name not in moved), "world")
    if root.lower() in GROUND or any(joint.kind in ("free", "planar") for joint in children[root]):
        return []
    if FLYING.search(description.name):
        return [root]
    feet = [link.name for link in description.links if link.name != root and is_foot(link.name)]
    ends = [link.name for link in description.links if not children[link.name] and link.name != root]
    return feet or [name for name in ends if any(word in name.lower() for word in WINGS)] or _legs(description, root, children)


def _legs(description: Description, root: str, children: dict[str, list[JointSpec]]) -> list[str]:
    """The lowest link of every leg."""
    placed, links = poses(description), {link.name: link for link in description.links}
    rigid, limbs = [root], []
    for name in rigid:
        rigid += [joint.child for joint in children[name] if joint.kind == "fixed"]
        limbs += [joint.child for joint in children[name] if joint.kind != "fixed"]
    heights = {}
    for limb in limbs:
        part = [limb]
        for name in part:
            part += [joint.child for joint in children[name]]
        height, name = min((lowest(links[name], placed[name]), name) for name in part)
        heights[name] = height
    floor = min(heights.values(), default=0.0)
    body = min(lowest(links[name], placed[name]) for name in rigid)
    legs = [name for name, height in heights.items() if height < floor + LEVEL]
    return legs if len(legs) > 1 and floor < body - BELOW else []


def poses(description: Description) -> dict[str, Pose]:
    """Where every link is with all joints at zero, in the frame of the root of its tree."""
    parent = {joint.child: joint for joint in reversed(description.joints)}
    found: dict[str, Pose] = {}
    for link in description.links:
        trail, name = dict[str, None](), link.name
        while name not in found and name in parent and name not in trail:
            trail[name] = None
            name = parent[name].parent
        found.setdefault(name, Pose.identity())
        for each in reversed(trail):
            found[each] = found.get(parent[each].parent, Pose.identity()) @ parent[each].pose
    return found


def lowest(link: LinkSpec, pose: Pose) -> float:
    """The height of its lowest point."""
    return min(float(point[2]) for point in corners(link, pose))


def corners(link: LinkSpec, pose: Pose) -> list[np.ndarray]:
    """The origin of a link and the corners of the boxes around its shapes, meshes not counted."""
    points = [pose.p]
    for shape in (*link.visuals, *link.collisions):
        if shape.kind != "mesh":
            X = pose @ shape.pose
            reach = np.abs(X.R) @ half_sizes(shape)
            points += [X.p - reach, X.p + reach]
    return points


def half_sizes(shape: Shape) -> np.ndarray:
    """Half the sides of the box around a shape, in its own axes."""
    s = shape.size
    if shape.kind == "box":
        return np.array(s) / 2.0
    if shape.kind == "ellipsoid":
        return np.array(s)
    if shape.kind == "sphere":
        return np.full(3, s[0])
    return np.array([s[0], s[0], s[1] / 2.0 + (s[0] if shape.kind == "capsule" else 0.0)])
