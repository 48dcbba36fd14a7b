"""What a URDF file asks of other simulators and a simulation here does not do: one table, a row and a note for each kind.

URDF itself has no words for it. <gazebo reference="LINK"> is read by Gazebo, and <contact> inside of a link by Bullet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from condyle.robot.fields import number
from condyle.robot.report import Report, listed
from condyle.robot.xml import Element

OTHERS = ("gazebo", "contact")  # elements of other simulators
PROGRAMS = ("plugin", "sensor")  # whose numbers are their own


def note_the_rest(root: Element, report: Report, file: str) -> None:
    """Add a note for each kind of thing that would act in Gazebo or Bullet and does not here, with the links that ask it."""
    asked: dict[str, dict[str, None]] = {}
    for owner, element in _written(root):
        for what, tags in NOT_SIMULATED.items():
            if element.tag in tags and tags[element.tag](_value(element)):
                asked.setdefault(what, {})[owner] = None
    for what in NOT_SIMULATED:
        if what in asked:
            report.not_simulated(file, f"{what}: {listed(list(asked[what]))}")


def _written(root: Element) -> Iterator[tuple[str, Element]]:
    """(link or joint, element) of everything that other simulators read, without their programs."""
    robot = root.attributes.get("name", "") or "the robot"
    for part in (root, *root.children):
        of = robot if part is root else part.attributes.get("name", "")
        for child in part.children:
            if child.tag in OTHERS:
                waiting = [child]
                while waiting:
                    element = waiting.pop()
                    yield child.attributes.get("reference", of), element
                    waiting.extend(inner for inner in reversed(element.children) if inner.tag not in PROGRAMS)


def _value(element: Element) -> str:
    """What an element says, as text or as an attribute."""
    return element.attributes.get("value", element.text).strip().lower()


# ---- what a value asks


def _any(value: str) -> bool:
    return bool(value)


def _true(value: str) -> bool:
    return value in ("true", "1")


def _false(value: str) -> bool:
    return value in ("false", "0")


def _nonzero(value: str) -> bool:
    try:
        return number(value) != 0.0
    except ValueError:
        return bool(value)


# what a file asks, and what a simulation does instead -> elements that ask it, by their values
NOT_SIMULATED: dict[str, dict[str, Callable[[str], bool]]] = {
    "contact of links with the others (selfCollide)": {"selfCollide": _true, "self_collide": _true},
    "friction of links (it is that of the ground, or of a `ContactPoint`)": dict.fromkeys(
        ("mu", "mu1", "mu2", "fdir1", "slip1", "slip2", "lateral_friction", "rolling_friction", "spinning_friction"), _any
    ),
    "stiffness and damping of contact (it is as hard as `rest_depth_mm` says)": dict.fromkeys(
        ("kp", "kd", "minDepth", "maxVel", "soft_cfm", "soft_erp", "contact_cfm", "contact_erp", "stiffness", "damping"), _any
    ),
    "restitution of contact (nothing bounces)": {"restitution": _nonzero, "restitution_coefficient": _nonzero},
    "links without gravity": {"turnGravityOff": _true, "gravity": _false},
    "damping of links against the world": {"dampingFactor": _nonzero},
    "springs of joints (`springs` of a Simulation)": {"springStiffness": _nonzero},
    "softness of joint limits (they are as hard as `limit_depth` says)": dict.fromkeys(
        ("stopKp", "stopKd", "stopCfm", "stopErp"), _any
    ),
    "a robot that does not move (static)": {"static": _true},
}
