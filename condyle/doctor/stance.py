"""Whether a robot is made to stand, roll or fly: the parts that say so."""

from __future__ import annotations

import re
from collections import defaultdict

from condyle.doctor.summary import lowest, poses
from condyle.robot.description import Description, JointSpec

# what the end of a leg is called; a torso on the left has no sole
FOOT = re.compile(r"(?i:foot|feet|wheel)|(?<![A-Za-z])(?i:[lr]?(?:sole|toe))|Sole|Toe")
WINGS = ("propeller", "rotor")
BELOW = 0.05  # m: legs end at least so far below the root
LEVEL = 0.03  # m: and at one height, but for this


def is_foot(name: str) -> bool:
    """Whether a link, shape or frame is called so."""
    return FOOT.search(name) is not None


def carriers(description: Description) -> list[str]:
    """The links that carry a robot whose root hangs on nothing: feet and rotors by their names, else the ends of its legs.

    Legs are two limbs or more that begin at the root and end below it, at one height. None for a robot with a base of its own.
    """
    children: dict[str, list[JointSpec]] = defaultdict(list)
    for joint in description.joints:
        children[joint.parent].append(joint)
    moved = {joint.child for joint in description.joints}
    root = next((link.name for link in description.links if link.name not in moved), "world")
    if root == "world" or any(joint.kind in ("free", "planar") for joint in children[root]):
        return []
    named = [link.name for link in description.links if link.name != root and is_foot(link.name)]
    ends = [link.name for link in description.links if not children[link.name] and link.name != root]
    return named or [name for name in ends if any(word in name.lower() for word in WINGS)] or _legs(description, root, children)


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
