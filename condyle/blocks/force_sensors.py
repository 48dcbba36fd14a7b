"""Forces: of the ground on contact points, and through a joint, as a force-torque sensor measures them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from condyle.blocks.measurement import Quantity, Sensor
from condyle.dynamics.kinematics import link_forces, poses
from condyle.dynamics.rnea import transmitted_forces
from condyle.errors import ControlError
from condyle.robot.joints import Free
from condyle.robot.names import nearest
from condyle.robot.spatial import Array, Force, cross, product
from condyle.simulate.world import World
from condyle.tape.array import array, where
from condyle.tape.scalar import constant


class ContactSensor(Sensor):
    """The force of the ground on contact points, N, world axes: of the solve of the last tick, so nothing is solved again.

    `points`: their names, as `world.contact_names` for all. `threshold`: a point is in contact where its measured force is
    larger, N. Output: {"force": (n, 3), "contact": (n,) of 1 and 0, "valid": 1 or 0}.
    """

    def __init__(self, points: Sequence[str], *, threshold: float = 1.0, **options: Any) -> None:
        self.points = (points,) if isinstance(points, str) else tuple(points)
        if not self.points:
            raise ControlError("ContactSensor: give the name of at least one contact point")
        super().__init__([Quantity("force", (len(self.points), 3), "N")], {"name": "contacts", **options})
        self.threshold = self.parameter("threshold", threshold, "N", minimum=0.0)

    def step(self, state: dict[str, Any], x: Any) -> tuple[Any, dict[str, Any]]:
        """The measured forces and contacts at the state x of the loop."""
        known = [point.name for point in x.world.points]
        for name in self.points:
            if name not in known:
                raise ControlError(f"sensor '{self.name}': there is no contact point '{name!s:.60}'{nearest(name, known)}")
        forces = [x.contact_forces[known.index(name)] for name in self.points]
        output, after = self.measure(state, {"force": np.array(forces)})
        large = self.threshold * self.threshold
        output["contact"] = array([where(product(f, f) > large, 1.0, 0.0) for f in output["force"]])
        return output, after


class ForceTorque(Sensor):
    """The force, N, and torque, N m, that a link exerts on the one that carries it, at a frame and in its axes.

    The sensor is in the joint of the link that the frame is fixed to, so everything beyond that joint is its load. By Newton and
    Euler, with the mean acceleration a of the last tick and the external forces F_ext on the links beyond,

        F = -sum over the links beyond (I A + V x* I V - F_ext),   A with a and -g,

    seen from the frame. A load of mass m at rest reads m g downwards. External forces are those of the ground, and `wrenches`, if
    the block is called with the dict {frame: six numbers, or (six numbers, "local")} that the loop's function gave in the last
    tick. Quantities "force" and "torque". Output: {"force": (3,), "torque": (3,), "valid": 1 or 0}.
    """

    def __init__(self, frame: str, **options: Any) -> None:
        super().__init__([Quantity("force", (3,), "N"), Quantity("torque", (3,), "N m")], options)
        self.frame = frame

    def step(self, state: dict[str, Any], x: Any, wrenches: Mapping[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """The measured force and torque at the state x of the loop."""
        model, q = x.model, x.full_q
        self._check(x.world)
        external = contact_loads(x.world, q, x.contact_forces)
        where_given = [(name, _axes(six)) for name, six in (wrenches or {}).items()]
        given = [six[0] if _axes(six) == "local" else six for six in (wrenches or {}).values()]
        for i, force in link_forces(model, q, where_given, [array(six) for six in given]).items():
            external[i] = external[i] + force if i in external else force
        frame = model.frame(self.frame)
        transmitted = transmitted_forces(model, q, x.full_v, x.acceleration, external)[frame.link]
        load = frame.pose.carry(-transmitted)
        return self.measure(state, {"force": load.linear, "torque": load.angular})

    def _check(self, world: World) -> None:
        """Raise where no joint transmits the force at the frame, or where more than one does."""
        link = world.model.frame(self.frame).link
        if link < 0 or isinstance(world.model.links[link].kind, Free):
            raise ControlError(
                f"sensor '{self.name}': no joint carries frame '{self.frame}'; take one on a link beyond the joint to measure in"
            )
        if not world.coordinate_map.identity:
            raise ControlError(
                f"sensor '{self.name}': robot '{world.model.name}' is constrained, so forces take more than one path through its "
                "links; a ForceTorque needs a robot without constraints"
            )


def contact_loads(world: World, q: Array, forces: Array) -> dict[int, Force]:
    """Link -> total force of the ground on it in its own frame; `forces` at the contact points in world axes, (contacts, 3)."""
    total: dict[int, Force] = {}
    X = poses(world.model, q) if world.points else []
    for point, force in zip(world.points, forces, strict=True):
        assert world.ground is not None
        pose, p = X[point.link], np.array(point.position)
        f = product(pose.R.T, force)
        if constant(point.radius) != 0.0:
            _, n = world.ground.distance(pose.point(p))
            p = p - product(pose.R.T, n) * point.radius
        load = Force(f, cross(p, f))
        total[point.link] = total[point.link] + load if point.link in total else load
    return total


def _axes(six: Any) -> str:
    local = isinstance(six, tuple) and len(six) == 2 and isinstance(six[1], str)
    return six[1] if local else "world_aligned"
