"""Poses and velocities of frames, as motion capture gives them, and the whole state of the robot with errors on its manifold."""

from __future__ import annotations

from typing import Any

from condyle.blocks.measurement import Configuration, Quantity, Rotation, Sensor
from condyle.dynamics.rotations import normalized, quaternion_of
from condyle.errors import ControlError
from condyle.robot.joints import Free, Prismatic
from condyle.robot.names import nearest
from condyle.simulate.simulation import Simulation

REFERENCES = ("local", "world_aligned", "world")
# standard deviations of common sensors: of joints, and of a base that is tracked
OF_JOINTS = {"angle": 0.01, "rate": 0.1, "place": 1e-3, "speed": 5e-3}  # rad, rad/s, m, m/s
OF_BASE = {"angle": 1e-3, "rate": 5e-3, "place": 1e-3, "speed": 5e-3}


class FramePose(Sensor):
    """The pose of a frame in the world: position, m, and rotation as a unit quaternion (x, y, z, w).

    Errors of the rotation are rotation vectors e in the frame's axes, rad: the measured rotation is R exp(e). It may be either of
    the two quaternions of a rotation. Output: {"position": (3,), "rotation": (4,), "valid": 1 or 0}.
    """

    def __init__(self, frame: str, **options: Any) -> None:
        super().__init__([Quantity("position", (3,), "m"), Rotation("rotation")], options)
        self.frame = frame

    def step(self, state: dict[str, Any], x: Any) -> tuple[Any, dict[str, Any]]:
        """The measured pose at the state x of the loop."""
        X = x.frame_pose(self.frame)
        return self.measure(state, {"position": X.p, "rotation": normalized(quaternion_of(X.R))})


class FrameVelocity(Sensor):
    """The velocity of a frame: linear, m/s, and angular, rad/s.

    `reference`: "world_aligned" at the frame's origin in world axes; "local" in the frame's own axes; "world" of the point at the
    world's origin. Output: {"linear": (3,), "angular": (3,), "valid": 1 or 0}.
    """

    def __init__(self, frame: str, reference: str = "world_aligned", **options: Any) -> None:
        if reference not in REFERENCES:
            raise ControlError(f"FrameVelocity: there is no reference '{reference!s:.40}'{nearest(reference, REFERENCES)}")
        super().__init__([Quantity("linear", (3,), "m/s"), Quantity("angular", (3,), "rad/s")], options)
        self.frame, self.reference = frame, reference

    def step(self, state: dict[str, Any], x: Any) -> tuple[Any, dict[str, Any]]:
        """The measured velocity at the state x of the loop."""
        V = x.frame_velocity(self.frame, self.reference)
        return self.measure(state, {"linear": V.linear, "angular": V.angular})


class StateSensor(Sensor):
    """The whole state of a robot: q with errors on its manifold, and v.

    An error of q is a small motion e with as many entries as v (rad or m; of a free base in body axes), and the measured
    configuration is integrate(q, e). Quantities "q" and "v", as in q_noise=0.01. Output: {"q": (nq,), "v": (nv,), "valid"}.
    """

    def __init__(self, world: Simulation, **options: Any) -> None:
        reduced, nv = world.robot.reduced, world.robot.nv
        super().__init__(
            [Configuration("q", (reduced.nq,), "rad, m", model=reduced), Quantity("v", (nv,), "rad/s, m/s")], options
        )

    def step(self, state: dict[str, Any], x: Any) -> tuple[Any, dict[str, Any]]:
        """The measured configuration and velocity at the state x of the loop."""
        return self.measure(state, {"q": x.q, "v": x.v})


def common_deviations(world: Simulation, level: float = 1.0) -> dict[str, list[float]]:
    """{"q_noise", "v_noise"}: options of a StateSensor, `level` times the noise of common sensors of joints and of a base."""
    reduced = world.robot.reduced
    places, speeds = [0.0] * reduced.nv, [0.0] * reduced.nv
    for link in reduced.links:
        of = OF_BASE if link.base else OF_JOINTS
        slides = [isinstance(link.kind, Prismatic)] * link.kind.nv
        if isinstance(link.kind, Free):
            slides = [True] * 3 + [False] * 3
        places[link.v] = [of["place"] if slide else of["angle"] for slide in slides]
        speeds[link.v] = [of["speed"] if slide else of["rate"] for slide in slides]
    # where only velocities are constrained, they are no longer those of the coordinates
    speeds = speeds if world.holonomic else [OF_BASE["speed"]] * world.robot.nv
    return {"q_noise": [level * each for each in places], "v_noise": [level * each for each in speeds]}
