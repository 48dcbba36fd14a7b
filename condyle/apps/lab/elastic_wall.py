"""An elastic wall that a tool can touch."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.closed_loop.block import Block
from condyle.errors import ControlError
from condyle.tape.array import where


class ElasticWall(Block):
    """The wrench of a wall on a frame's origin:  f = max(0, k d - b s) n  while the depth d = (point - p) . n is positive.

    s is the speed along the normal. `stiffness` k in N/m, `damping` b in N s/m, `point` in m; the normal points out
    of the wall. No friction.
    """

    def __init__(self, frame: str, point: Any, normal: Any, stiffness: Any, damping: Any, **options: Any) -> None:
        super().__init__(**options)
        length = float(np.linalg.norm(normal))
        if length == 0.0:
            raise ControlError("[wall] normal must not be zero: give the direction out of the wall")
        self.frame, self.normal_vector = frame, np.asarray(normal, dtype=float) / length
        self.point = self.parameter("point", point, "m")
        self.stiffness = self.parameter("stiffness", stiffness, "N/m", minimum=0.0)
        self.damping = self.parameter("damping", damping, "N s/m", minimum=0.0)

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        """Six numbers, force then torque, at the frame in world axes."""
        x = inputs[0]
        n = self.normal_vector
        depth = (self.point.resolve() - x.frame_pose(self.frame).p) @ n
        speed = x.frame_velocity(self.frame).linear @ n
        force = np.maximum(self.stiffness * depth - self.damping * speed, 0.0)
        force = where(depth > 0.0, force, 0.0)
        return np.concatenate([force * n, np.zeros(3)]), {}
