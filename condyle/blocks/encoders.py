"""Encoders: positions and velocities of joints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from condyle.blocks.measurement import Quantity, Sensor
from condyle.errors import ControlError
from condyle.robot.model import Link, Model
from condyle.robot.names import nearest
from condyle.tape.array import where

TURN = 2.0 * np.pi  # rad


class Encoders(Sensor):
    """Positions q and velocities v of joints with one coordinate each, rad and rad/s (m and m/s of sliding joints).

    `joints`: their names, as `world.control_names` for all that have a motor. `counts`: per turn, which rounds the position to
    multiples of 2 pi / counts (instead of position_resolution). `differences`: the velocity is the change of the measured
    position per sample,  (q_k - q_k-1) / dt,  zero at the first sample, instead of the true one with errors of its own.
    Output: {"position": (n,), "velocity": (n,), "valid": 1 or 0}.
    """

    def __init__(self, joints: Sequence[str], *, counts: float | None = None, differences: bool = False, **options: Any) -> None:
        self.joints = (joints,) if isinstance(joints, str) else tuple(joints)
        n = len(self.joints)
        if not n:
            raise ControlError("Encoders: give the name of at least one joint")
        self.differences = differences
        quantities = [Quantity("position", (n,), "rad"), Quantity("velocity", (n,), "rad/s")]
        super().__init__(quantities[:1] if differences else quantities, {"name": "encoders", **options}, prefixed=True)
        if counts is not None and options.get("position_resolution") is not None:
            raise ControlError(f"sensor '{self.name}': give counts or position_resolution, not both")
        self.counts = None if counts is None else self.parameter("counts", counts, "1/turn", minimum=1.0)
        if differences:
            self.state("position_before", np.zeros(n))
            if "started" not in self.states:
                self.state("started", 0.0)

    def resolution(self, quantity: Quantity) -> Any:
        """That of the counts, where they are given."""
        return TURN / self.counts if quantity.name == "position" and self.counts is not None else super().resolution(quantity)

    def step(self, state: dict[str, Any], x: Any) -> tuple[Any, dict[str, Any]]:
        """The measured positions and velocities at the state x of the loop."""
        links = [joint_of(x.model, name) for name in self.joints]
        q, v = x.full_q, x.full_v
        true_values = {"position": [q[link.q.start] for link in links], "velocity": [v[link.v.start] for link in links]}
        output, after = self.measure(state, true_values)
        if self.differences:
            change = output["position"] - state["position_before"]
            output["velocity"] = where(state["started"] <= 0.0, 0.0, change / self.dt)
            after["position_before"] = output["position"]
        return output, after


def joint_of(model: Model, name: str) -> Link:
    """The link that a joint with one coordinate moves, or an error with the closest name."""
    for link in model.links:
        if link.joint == name:
            if link.kind.nv != 1:
                raise ControlError(f"joint '{name}' has {link.kind.nv} coordinates; an encoder measures a joint with one")
            return link
    known = [link.joint for link in model.links if link.kind.nv == 1]
    raise ControlError(f"robot '{model.name}' has no joint '{name!s:.60}'{nearest(name, known)}")
