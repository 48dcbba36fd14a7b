"""Actuators as MJCF writes them: a force of control, length and velocity along a transmission, with limits and an activation.

    a = clip(u, ctrlrange), or the activation that follows it by the actuator's dynamics
    force = clip(gain . (1, l, dl/dt) a + bias . (1, l, dl/dt), forcerange)

l is the length of the transmission: `offset` plus the sum of gear times position of its joints, or, of a site, gear times its
displacement from a reference site. The force acts on each joint as gear times force, on a site as a wrench.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condyle.robot.names import nearest

DYNAMICS = ("none", "integrator", "filter", "filterexact")
MIN_TIME = 1e-15  # s: the least time constant of a filter, as in MuJoCo


@dataclass(frozen=True)
class ActuatorSpec:
    """One actuator, and one entry of u, in the units of the file. `unsupported`: why its control has no effect here."""

    name: str
    joints: tuple[tuple[str, float], ...] = ()  # (joint, gear)
    offset: float = 0.0
    site: str = ""  # the frame at which its wrench acts
    refsite: str = ""  # the frame in whose axes the wrench is, and which has the reaction; the site itself without one
    wrench: tuple[float, ...] = ()  # force and torque at the site per unit of the actuator's force
    gain: tuple[float, float, float] = (1.0, 0.0, 0.0)
    bias: tuple[float, float, float] = (0.0, 0.0, 0.0)
    dynamics: str = "none"  # one of DYNAMICS
    timeconst: float = 0.0  # s, of a filter
    ctrlrange: tuple[float, float] | None = None
    forcerange: tuple[float, float] | None = None
    actrange: tuple[float, float] | None = None
    actearly: bool = False  # whether the force has the activation at the end of the step
    unsupported: str = ""

    @property
    def stateful(self) -> bool:
        """Whether it has an activation."""
        return self.dynamics != "none"

    @property
    def is_motor(self) -> bool:
        """Whether its force is a multiple of its control, perhaps filtered."""
        return not any(self.gain[1:]) and not any(self.bias) and self.dynamics != "integrator"

    @property
    def largest_force(self) -> float:
        """The largest force before the gear; the larger side where a range is lopsided, inf where nothing limits it."""
        bound = np.inf if self.forcerange is None else max(map(abs, self.forcerange))
        if self.is_motor and self.ctrlrange is not None:
            bound = min(bound, abs(self.gain[0]) * max(map(abs, self.ctrlrange)))
        return float(bound)

    def input(self, u: Any, activation: Any, h: Any) -> tuple[Any, Any]:
        """(a, next activation) of one step of length h; the activation of an actuator without dynamics is None."""
        control = clipped(u, self.ctrlrange)
        if not self.stateful:
            return control, None
        if self.dynamics == "integrator":
            after = activation + h * control
        elif self.dynamics == "filter":
            after = activation + (control - activation) * (h / max(self.timeconst, MIN_TIME))
        else:
            after = activation + (control - activation) * (1.0 - np.exp(h * (-1.0 / max(self.timeconst, MIN_TIME))))
        after = clipped(after, self.actrange)
        return after if self.actearly else activation, after

    def law(self, a: Any) -> tuple[Any, Any, Any]:
        """(f0, f1, f2): the force f0 + f1 l + f2 dl/dt for the input a, before its limits."""
        return tuple(b if not g else g * a + b for g, b in zip(self.gain, self.bias, strict=True))  # type: ignore[return-value]

    def locked(self, positions: Mapping[str, float]) -> ActuatorSpec:
        """The actuator with some of its joints fixed at these positions."""
        fixed = sum(gear * positions[joint] for joint, gear in self.joints if joint in positions)
        left = tuple((joint, gear) for joint, gear in self.joints if joint not in positions)
        if len(left) == len(self.joints):
            return self
        idle = "" if left else "its joints are locked"
        return replace(self, joints=left, offset=self.offset + float(fixed), unsupported=self.unsupported or idle)


def clipped(x: Any, limits: tuple[float, float] | None) -> Any:
    """x within a range; None: anywhere."""
    return x if limits is None else np.minimum(np.maximum(x, limits[0]), limits[1])


def actuator_problems(actuators: Sequence[ActuatorSpec], joints: Sequence[str], frames: Sequence[str]) -> list[str]:
    """Sentences about actuators that name a joint or frame which does not exist, or whose numbers make no sense."""
    problems = []
    for actuator in actuators:
        about = f"actuator '{actuator.name!s:.60}'"
        for joint, _ in actuator.joints:
            if joint not in joints:
                problems.append(f"{about}: there is no joint '{joint!s:.60}' with one coordinate{nearest(joint, joints)}")
        for frame in filter(None, (actuator.site, actuator.refsite)):
            if frame not in frames:
                problems.append(f"{about}: there is no frame '{frame!s:.60}'{nearest(frame, frames)}")
        if actuator.dynamics not in DYNAMICS:
            problems.append(f"{about}: dynamics must be one of {', '.join(DYNAMICS)}, got {actuator.dynamics!r:.40}")
        if len(actuator.wrench) != (6 if actuator.site else 0):
            problems.append(f"{about}: a site needs a wrench of six numbers, and only a site; got {len(actuator.wrench)}")
        numbers = [*[gear for _, gear in actuator.joints], actuator.offset, *actuator.wrench, *actuator.gain, *actuator.bias]
        ranges = [r for r in (actuator.ctrlrange, actuator.forcerange, actuator.actrange) if r is not None]
        if not np.all(np.isfinite([*numbers, actuator.timeconst])) or any(not low <= high for low, high in ranges):
            problems.append(f"{about}: gears, gains and biases must be finite, and ranges in order, (lower, upper)")
    names = [actuator.name for actuator in actuators]
    problems += [f"two actuators have the name '{name!s:.60}'" for name in dict.fromkeys(names) if names.count(name) > 1]
    return problems
