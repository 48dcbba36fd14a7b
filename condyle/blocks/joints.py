"""Blocks that act on joints by name, and how the outputs of several blocks become one command of the robot.

An actuator is called with its command and the state of the robot, and gives what a loop's function may return:

    {"parameters": {"knee.drive_force": ..., "knee.drive_damping": ..., ...}}

A drive is an implicit force of the joint,  tau = clip(force + K (target - q - h v) - B v, -effort, effort)  with the velocity v
after the step of length h, which is solved together with contact, limits and friction. It is stable at any K and B.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from condyle.closed_loop.block import Block, BlockParameter
from condyle.errors import ControlError
from condyle.robot.model import Link, Model
from condyle.robot.names import nearest
from condyle.tape.array import array

DRIVE = ("stiffness", "damping", "target", "force", "effort")


class JointBlock(Block):
    """A block of one or several joints with one coordinate each. Numbers of it are one for all joints, or one for each."""

    def __init__(self, joints: str | Sequence[str], **options: Any) -> None:
        super().__init__(**options)
        self.joints = (joints,) if isinstance(joints, str) else tuple(joints)
        if not self.joints or not all(isinstance(name, str) for name in self.joints):
            raise ControlError(f"block '{self.name}' needs the names of one or more joints, got {joints!r:.60}")
        if len(set(self.joints)) < len(self.joints):
            raise ControlError(f"block '{self.name}' names a joint twice: {', '.join(self.joints)}")

    @property
    def size(self) -> int:
        """The number of joints."""
        return len(self.joints)

    def number(
        self, name: str, value: Any, unit: str, *, minimum: float | None = None, maximum: float | None = None
    ) -> BlockParameter:
        """A parameter with one value for all joints, or one for each."""
        if np.shape(value) not in ((), (self.size,)):
            raise ControlError(
                f"block '{self.name}': {name} must be one number, or {self.size} for its {self.size} joints; got shape "
                f"{np.shape(value)}"
            )
        return self.parameter(name, value, unit, minimum=minimum, maximum=maximum)

    def links(self, model: Model) -> list[Link]:
        """The links that the joints move."""
        return [joint_of(model, name) for name in self.joints]

    def positions(self, x: Any) -> Any:
        """The positions of the joints at a state of the robot, (n,)."""
        q = x.full_q
        return array([q[link.q.start] for link in self.links(x.model)])

    def velocities(self, x: Any) -> Any:
        """The velocities of the joints, (n,)."""
        v = x.full_v
        return array([v[link.v.start] for link in self.links(x.model)])

    def inertias(self, x: Any) -> Any:
        """The inertia that each joint moves where every joint is at zero, kg m^2 or kg, (n,)."""
        return array([x.world.joints[link.v.start].inertia for link in self.links(x.model)])

    def drive(self, **values: Any) -> dict[str, Any]:
        """The command that gives the joints a drive: numbers of DRIVE, one for all joints or one for each; None is left out."""
        return self.joint_parameters(**{f"drive_{name}": value for name, value in values.items()})

    def joint_parameters(self, **values: Any) -> dict[str, Any]:
        """The command that gives the joints these parameters for this tick."""
        given = {name: self.entries(value) for name, value in values.items() if value is not None}
        return {"parameters": {f"{joint}.{name}": v[k] for k, joint in enumerate(self.joints) for name, v in given.items()}}

    def entries(self, value: Any) -> list[Any]:
        """One entry for each joint."""
        value = value.resolve() if isinstance(value, BlockParameter) else value
        if isinstance(value, (np.ndarray, list, tuple)) and np.ndim(value):
            if len(value) != self.size:
                raise ControlError(f"block '{self.name}' has {self.size} joints, and is given {len(value)} numbers")
            return list(value)
        return [value] * self.size


def joint_of(model: Model, name: str) -> Link:
    """The link that a joint with one coordinate moves, or an error with the closest name."""
    for link in model.links:
        if link.joint == name:
            if link.kind.nv != 1:
                raise ControlError(f"joint '{name}' has {link.kind.nv} coordinates; a block of joints acts on joints with one")
            return link
    known = [link.joint for link in model.links if link.kind.nv == 1]
    raise ControlError(f"robot '{model.name}' has no joint '{name!s:.60}'{nearest(name, known)}")


def combined(*commands: Any) -> dict[str, Any]:
    """One command from several: controls and wrenches add, parameters and further outputs join.

    return cd.blocks.combined(servo(target, x), friction(x), gusts(x))
    """
    out: dict[str, Any] = {}
    wrenches: dict[str, list[Any]] = {}
    parameters: dict[str, Any] = {}
    for command in commands:
        given = dict(command) if isinstance(command, Mapping) else {"u": command}
        for frame, value in (given.pop("wrenches", None) or {}).items():
            wrenches.setdefault(frame, []).extend(value if isinstance(value, list) else [value])
        for name, value in (given.pop("parameters", None) or {}).items():
            if name in parameters:
                raise ControlError(f"two of the combined commands set the parameter '{name}'; let one block act on each joint")
            parameters[name] = value
        u = given.pop("u", None)
        if u is not None:
            out["u"] = out["u"] + u if "u" in out else array(u)
        out |= given
    return out | ({"wrenches": wrenches} if wrenches else {}) | ({"parameters": parameters} if parameters else {})
