"""The actuators of a robot's file, as one block: controls in the units of the file, forces in joints and at sites.

An actuator of one joint whose force falls with position or velocity (a servo, a damper) is a drive, implicit in the velocity
after the step and exact at its limits, so it is stable at any gain. One of several joints (a fixed tendon) is explicit, with a
damping of the change of velocity that keeps it stable. Forces at sites are explicit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.closed_loop.block import Block
from condyle.dynamics.actuation import joint_links, site_wrenches, transmission
from condyle.errors import ControlError
from condyle.multibody.robot import Robot
from condyle.robot.actuator import ActuatorSpec, clipped
from condyle.tape.array import array, where
from condyle.tape.scalar import constant

Range = tuple[float, float] | None


class RobotActuators(Block):
    """The actuators of the robot's file: u has one entry for each, in the file's units and order.

    State "act": the activations of the actuators that have one, in their order; they begin with `act`. Its output is a command
    of the robot, with "force" added: the force of each actuator at the start of the tick, before its gear.
    """

    def __init__(self, robot: Robot, *, act: Any = 0.0, name: str = "actuators", **options: Any) -> None:
        super().__init__(name=name, **options)
        if not isinstance(robot, Robot):
            raise ControlError(f"block '{self.name}' needs a robot, as from condyle.load; got {type(robot).__name__}")
        self.actuators = robot.actuators
        if not any(not actuator.unsupported for actuator in self.actuators):
            raise ControlError(
                f"robot '{robot.name}' has no actuators in its file that can be simulated: drive its joints with other blocks, "
                "such as condyle.blocks.ImplicitPD"
            )
        self.stateful = [k for k, actuator in enumerate(self.actuators) if actuator.stateful]
        if self.stateful:
            self.state("act", np.broadcast_to(np.asarray(act, dtype=float), len(self.stateful)))

    @property
    def nu(self) -> int:
        """The number of controls."""
        return len(self.actuators)

    @property
    def names(self) -> list[str]:
        """The names of the actuators, in the order of u."""
        return [actuator.name for actuator in self.actuators]

    def step(self, state: dict[str, Any], u: Any, x: Any) -> tuple[Any, dict[str, Any]]:
        """The command of the robot for the controls u (nu,) at the state x of the robot."""
        given = np.asarray(array(u), dtype=object).ravel()
        if len(given) != self.nu:
            raise ControlError(f"block '{self.name}' has {self.nu} controls, one for each actuator, and is given {len(given)}")
        activations = dict(zip(self.stateful, state.get("act", ()), strict=True))
        inputs, after = list[Any](), list[Any]()
        for k, actuator in enumerate(self.actuators):
            a, later = actuator.input(given[k], activations.get(k), self.dt)
            inputs.append(a)
            after += [] if later is None else [later]
        return self._command(inputs, x), ({"act": array(after)} if after else {})

    def _command(self, inputs: list[Any], x: Any) -> dict[str, Any]:
        """The command for the input of each actuator: a control within its range, or an activation."""
        model, q, v = x.model, x.full_q, x.full_v
        links = joint_links(model)
        terms: dict[str, list[Term]] = {}
        forces, wrenches = list[Any](), dict[str, list[Any]]()
        for actuator, a in zip(self.actuators, inputs, strict=True):
            if actuator.unsupported:
                forces.append(0.0)
                continue
            length, velocity = transmission(model, q, v, actuator)
            law = actuator.law(a)
            force = clipped(law[0] + law[1] * length + law[2] * velocity, actuator.forcerange)
            forces.append(force)
            for joint, gear in actuator.joints:
                term = (
                    alone(actuator, gear, law)
                    if len(actuator.joints) == 1
                    else shared(actuator, gear, law, force, v[links[joint].v.start], x.world.h)
                )
                terms.setdefault(joint, []).append(term)
            for (frame, axes), six in site_wrenches(model, q, actuator, force) if actuator.site else ():
                wrenches.setdefault(frame, []).append((six, axes))
        u = np.zeros(x.world.nu, dtype=object)
        parameters: dict[str, Any] = {}
        for joint, several in terms.items():
            link = links[joint]
            motor = x.world.actuated.index(link.v.start) if link.v.start in x.world.actuated else None
            drive, force = summed(several, q[link.q.start], v[link.v.start], link.actuator_range, motor is not None)
            if motor is None:
                drive["force"] = drive.get("force", 0.0) + force
            else:
                u[motor] = force
            parameters |= {f"{joint}.drive_{name}": value for name, value in drive.items()}
        return {"u": u, "parameters": parameters, "wrenches": wrenches, "force": array(forces)}


@dataclass(frozen=True)
class Term:
    """The force clip(force - stiffness q - damping v, range) of one actuator in one joint."""

    force: Any
    stiffness: Any
    damping: Any
    range: Range

    @property
    def constant_force(self) -> bool:
        """Whether it does not depend on the motion."""
        return constant(self.stiffness) == 0.0 and constant(self.damping) == 0.0

    def implicit(self, q: Any, v: Any) -> Term:
        """The term whose stiffness and damping are not negative; what is negative acts as a force at q and v."""
        K, B = (np.maximum(gain, 0.0) for gain in (self.stiffness, self.damping))
        return Term(self.force - (self.stiffness - K) * q - (self.damping - B) * v, K, B, self.range)

    def saturated(self, q: Any, v: Any) -> Term:
        """The term without a range: at its bound where it is beyond it at q and v."""
        if self.range is None:
            return self
        force = self.force - self.stiffness * q - self.damping * v
        bounded = clipped(force, self.range)
        if self.constant_force:
            return Term(bounded, 0.0, 0.0, None)
        inside = (force >= self.range[0]) & (force <= self.range[1])
        K, B = (where(inside, gain, 0.0) for gain in (self.stiffness, self.damping))
        return Term(where(inside, self.force, bounded), K, B, None)


def alone(actuator: ActuatorSpec, gear: float, law: tuple[Any, Any, Any]) -> Term:
    """An actuator of one joint, by the joint's own position and velocity."""
    f0, f1, f2 = law
    bounds = actuator.forcerange
    if bounds is not None:
        low, high = sorted(gear * bound for bound in bounds)
        bounds = low, high
    return Term(gear * (f0 + f1 * actuator.offset), -(gear * gear) * f1, -(gear * gear) * f2, bounds)


def shared(actuator: ActuatorSpec, gear: float, law: tuple[Any, Any, Any], force: Any, v: Any, h: Any) -> Term:
    """An actuator of several joints in one of them: gear * force - D (v' - v), with a D that keeps the sum over joints stable.

    |g_i| sum |g_j| bounds the matrix g g^T by its rows, so that D of all joints is at least  g g^T (B + h K).
    """
    gears = sum(abs(g) for _, g in actuator.joints)
    D = np.maximum(-law[2] - law[1] * h, 0.0) * (abs(gear) * gears)
    return Term(gear * force + D * v, 0.0, D, None)


def summed(terms: list[Term], q: Any, v: Any, bounds: Range, actuated: bool) -> tuple[dict[str, Any], Any]:
    """(drive, force besides it) of all actuators of one joint, whose sum is within `bounds`."""
    terms = [term if term.constant_force else term.implicit(q, v) for term in terms]
    if len(terms) > 1:
        terms = [term.saturated(q, v) for term in terms]
    force, K, B = (
        sum((getattr(t, name) for t in terms[1:]), getattr(terms[0], name)) for name in ("force", "stiffness", "damping")
    )
    total = Term(force, K, B, intersection(terms[0].range, bounds))
    if total.constant_force:
        return {}, clipped(total.force, total.range)
    if total.range is not None and total.range[0] == total.range[1]:
        return {}, total.range[0]
    if total.range is not None and not actuated and total.range[0] != -total.range[1]:
        total = total.saturated(q, v)
    drive = {"force": total.force, "stiffness": total.stiffness, "damping": total.damping}
    if total.range is None:
        return drive, 0.0
    # limits that are not symmetric: those of a drive about their middle
    low, high = total.range
    middle = 0.5 * (low + high)
    return drive | {"force": total.force - middle, "effort": 0.5 * (high - low)}, middle


def intersection(a: Range, b: Range) -> Range:
    """The range of clip(clip(x, a), b)."""
    if a is None or b is None:
        return a or b
    low, high = clipped(a[0], b), clipped(a[1], b)
    return float(low), float(high)
