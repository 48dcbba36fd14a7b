"""Legged robots of ANYmal's class that walk to a command: any quadruped with torque motors, by the names of feet and joints.

The ground is uneven, and different for each robot: waves, steps and slopes grow with a level that rises when an episode succeeds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from condyle.blocks.actuators import ImplicitPD
from condyle.closed_loop.loop import Loop
from condyle.dynamics import kinematics
from condyle.errors import ControlError
from condyle.methods.learn.curriculum import levels
from condyle.methods.learn.env import Rollouts, VectorEnv
from condyle.methods.learn.mirror import Mirror
from condyle.methods.learn.task import Task
from condyle.multibody.robot import Robot, load
from condyle.robot.joints import rotation_of
from condyle.robot.names import nearest
from condyle.simulate.ground_parameters import with_ground_parameters
from condyle.simulate.simulation import Simulation
from condyle.simulate.uneven import Uneven
from condyle.tape.array import where

DT, EVERY = 0.004, 5
SMOOTHING, FRICTION = 1e-3, 0.7
COMMANDS = {"forward": (-0.5, 1.0), "sideways": (-0.3, 0.3), "turn": (-0.8, 0.8)}  # m/s, m/s, rad/s
ROUGHNESS, STEP, SLOPE = 0.06, 0.08, 12.0  # m, m and degrees at the highest level
JUDGED = 0.5  # level of the ground on which a policy is judged
EPISODE = 10.0  # s
TILTED, LOW = 0.5, 0.4  # cosine of the tilt, and height relative to that of standing, at which an episode ends


@dataclass(frozen=True)
class Legs:
    """What a quadruped needs to walk: its feet, the angles in which it stands (rad, by joint or by the end of its name), gains.

    `source`: a robot, its name or its file. `kp` in N m/rad, `kd` in N m s/rad, `effort` in N m, `action` in rad.
    `opposite`: for each leg the one on the other side, if left and right are mirror images with joints in the order of the feet,
    each leg's first joint about the forward axis, and the others across the body; then learning uses the symmetry.
    """

    source: str | Robot
    feet: tuple[str, ...]
    stand: Mapping[str, float]
    kp: float
    kd: float
    effort: float
    action: float = 0.3
    opposite: tuple[int, ...] = ()

    def angles(self, robot: Robot) -> np.ndarray:
        """The angle of every joint in which it stands."""
        found = []
        for name in robot.joint_names[1:]:
            known = self.stand.get(name, next((angle for end, angle in self.stand.items() if name.endswith(end)), None))
            if known is None:
                raise ControlError(f"the stance has no angle for the joint '{name}'{nearest(name, list(self.stand))}")
            found.append(known)
        return np.array(found)


def _legs(names: str, foot: str) -> tuple[str, ...]:
    return tuple(f"{leg}{foot}" for leg in names.split())


ROBOTS = {
    "anymal_c": Legs(
        "anymal_c",
        _legs("LF LH RF RH", "_FOOT"),
        {"HAA": 0.0, "LF_HFE": 0.4, "RF_HFE": 0.4, "LH_HFE": -0.4, "RH_HFE": -0.4}
        | {"LF_KFE": -0.8, "RF_KFE": -0.8, "LH_KFE": 0.8, "RH_KFE": 0.8},
        kp=150.0,
        kd=4.0,
        effort=80.0,
        opposite=(2, 3, 0, 1),
    ),
    **{
        name: Legs(
            name,
            _legs("FL FR RL RR", "_foot"),
            {"hip_joint": 0.0, "thigh_joint": 0.8, "calf_joint": -1.5},
            kp=30.0,
            kd=0.8,
            effort=33.5,
            opposite=(1, 0, 3, 2),
        )
        for name in ("a1", "go1")
    },
    "solo12": Legs(
        "solo12",
        _legs("FL FR HL HR", "_FOOT"),
        {"HAA": 0.0, "FL_HFE": 0.7, "FR_HFE": 0.7, "HL_HFE": -0.7, "HR_HFE": -0.7}
        | {"FL_KFE": -1.4, "FR_KFE": -1.4, "HL_KFE": 1.4, "HR_KFE": 1.4},
        kp=3.0,
        kd=0.1,
        effort=2.5,
        opposite=(1, 0, 3, 2),
    ),
}


def make(
    num_envs: int,
    seed: int = 0,
    randomize: bool = True,
    dtype: Any = np.float32,
    *,
    legs: Legs | str,
    terrain: bool = True,
    level: float | None = None,
    **options: Any,
) -> VectorEnv:
    """The environment of a quadruped; `terrain`: uneven ground with levels, otherwise a plane floor.

    `level`: that of all robots, 0 to 1, in place of a curriculum from 0 up.
    """
    chosen = ROBOTS[legs] if isinstance(legs, str) else legs
    robot = chosen.source if isinstance(chosen.source, Robot) else load(chosen.source, base="free")
    missing = [foot for foot in chosen.feet if foot not in robot.frame_names]
    if missing:
        raise ControlError(f"'{robot.name}' has no frame '{missing[0]:.60}' for a foot{nearest(missing[0], robot.frame_names)}")
    made = Walk(robot, chosen)
    ranges = made.randomized(terrain) if randomize else {}
    return VectorEnv(
        made.loop(),
        made.observe,
        made.reward,
        made.fallen,
        made.start,
        num_envs=num_envs,
        every=EVERY,
        time_limit=EPISODE,
        privileged=made.privileged,
        randomize=ranges or None,
        variables={"command": 3, "level": 0.0 if level is None else float(level), "error": 0.0, "air": len(chosen.feet)},
        update=made.update,
        curriculum=levels(success) if level is None else (lambda draw: {"level": draw["level"]}),
        seed=seed,
        dtype=dtype,
        **options,
    )


def success(draw: Any) -> Any:
    """Whether an episode lasted, and the velocity was near the command."""
    return where(draw.terminated, 0.0, 1.0) * where(draw["error"] < 0.35 * EPISODE, 1.0, 0.0) > 0.5


class Walk:
    """The loop and the functions of the environment of one quadruped."""

    def __init__(self, robot: Robot, legs: Legs) -> None:
        self.robot, self.legs, self.stand = robot, legs, legs.angles(robot)
        self.joints = list(robot.joint_names[1:])
        self.base = robot.model.links[0].name
        feet = [kinematics.frame_pose(robot.model, self.pose(0.0), foot).p[2] for foot in legs.feet]
        self.world = Simulation(robot, DT, Uneven(FRICTION), list(legs.feet), smoothing=SMOOTHING)
        radius = max(float(point.radius) for point in self.world.contact_points)
        self.height = radius - float(min(feet))  # of the base over flat ground
        self.weight = 9.81 * float(sum(link.inertia.mass for link in robot.model.links))

    def pose(self, height: float) -> np.ndarray:
        """The configuration in which it stands, its base at this height."""
        q = np.array(self.robot.neutral(), dtype=float)
        q[2], q[7:] = height, self.stand
        return q

    def loop(self) -> Loop:
        """Drives of the joints toward angles around the stance."""
        legs, stand = self.legs, self.stand
        drive = ImplicitPD(self.joints, legs.kp, legs.kd, legs.effort, name="drive")
        return Loop(self.world, lambda x, action: drive(stand + legs.action * action, x), action=len(self.joints))

    def randomized(self, terrain: bool) -> dict[str, Any]:
        """What is different for each robot: body, drives, friction, and the ground by its level."""
        mass = float(self.robot.parameter(f"{self.base}.mass"))
        found: dict[str, Any] = {
            f"{self.base}.mass": (0.8 * mass, 1.2 * mass),
            "ground.friction": (0.4, 1.0),
            "drive.kp": (0.85 * self.legs.kp, 1.15 * self.legs.kp),
        }
        if terrain:
            found |= {
                "ground.roughness": lambda draw: ROUGHNESS * draw["level"] * draw.uniform(),
                "ground.step": lambda draw: STEP * draw["level"] * draw.uniform(-1.0, 1.0) * np.floor(draw.uniform(0.0, 2.0)),
                "ground.slope": lambda draw: SLOPE * draw["level"] * draw.uniform(),
                "ground.azimuth": (0.0, 360.0),
                "ground.offset": (0.0, 10.0),
            }
        return found

    def start(self, draw: Any) -> dict[str, Any]:
        """Standing on the ground with a new command."""
        names = ("roughness", "step", "slope", "azimuth", "offset")
        values = {name: draw[f"ground.{name}"] for name in names}
        below = with_ground_parameters(Uneven(FRICTION), values)
        assert isinstance(below, Uneven)
        h = below.surface(0.0, 0.0)[0]
        q = self.pose(self.height + 0.02) + np.concatenate([np.zeros(7), draw.uniform(-0.1, 0.1, len(self.stand))])
        q[2] = q[2] + h
        low, high = np.array(list(COMMANDS.values())).T
        return {"q": q, "command": draw.uniform(low, high, 3)}

    def moving(self, s: Any) -> tuple[Any, Any, Any]:
        """(linear velocity, angular velocity in body axes, direction up in body axes)."""
        return s.x.v[:3], s.x.v[3:6], rotation_of(s.x.q[3:7])[2]

    def observe(self, s: Any) -> Any:
        """Rate, direction up, command, angles and speeds of the joints with noise, and the last action."""
        _, rate, up = self.moving(s)
        n = len(self.stand)
        return np.concatenate(
            [
                0.25 * (rate + 0.1 * s.normal(3)),
                up + 0.02 * s.normal(3),
                s["command"],
                s.x.q[7:] - self.stand + 0.01 * s.normal(n),
                0.05 * (s.x.v[6:] + 0.5 * s.normal(n)),
                s.action,
            ]
        )

    def privileged(self, s: Any) -> Any:
        """All of the state, the forces of the feet, and the ground."""
        linear, rate, up = self.moving(s)
        ground = [s[f"ground.{name}"] for name in ("friction", "roughness", "step", "slope")]
        return np.concatenate(
            [
                2.0 * linear,
                0.25 * rate,
                up,
                s["command"],
                s.x.q[7:] - self.stand,
                0.05 * s.x.v[6:],
                s.action,
                s.x.contact_forces[:, 2] / self.weight,
                np.array([ground[0], 20.0 * ground[1], 20.0 * ground[2], 0.1 * ground[3]]),
                np.array([s["level"]]),
            ]
        )

    def errors(self, s: Any) -> tuple[Any, Any]:
        """(squared error of the velocity, of the turning rate) against the command."""
        linear, rate, _ = self.moving(s)
        command = s["command"]
        dx, dy = linear[0] - command[0], linear[1] - command[1]
        return dx * dx + dy * dy, (rate[2] - command[2]) * (rate[2] - command[2])

    def reward(self, s: Any) -> dict[str, Any]:
        """Follow the command, level and smoothly, with feet that swing."""
        linear, rate, up = self.moving(s)
        velocity, turn = self.errors(s)
        change, drift = s.action - s.previous_action, s.x.q[7:] - self.stand
        touches = where(s.x.contact_forces[:, 2] > 0.02 * self.weight, 1.0, 0.0)
        swings = sum(touches * np.minimum(s["air"] - 0.25, 0.2) * where(s["air"] > 0.0, 1.0, 0.0))
        moves = where(s["command"] @ s["command"] > 0.04, 1.0, 0.0)
        return {
            "velocity": 1.0 * np.exp(-4.0 * velocity),
            "turn": 0.5 * np.exp(-4.0 * turn),
            "vertical": -1.0 * linear[2] * linear[2],
            "rates": -0.05 * (rate[0] * rate[0] + rate[1] * rate[1]),
            "level": -1.0 * (up[0] * up[0] + up[1] * up[1]),
            "change": -0.02 * (change @ change),
            "posture": -0.05 * (drift @ drift),
            "swings": 2.0 * moves * swings,
        }

    def update(self, s: Any, draw: Any) -> dict[str, Any]:
        """Time since each foot touched the ground, and the mean error of the velocity times the time."""
        touches = s.x.contact_forces[:, 2] > 0.02 * self.weight
        return {
            "air": where(touches, 0.0, s["air"] + s.dt),
            "error": s["error"] + s.dt * np.sqrt(self.errors(s)[0]),
        }

    def fallen(self, s: Any) -> Any:
        """Whether the body is tilted too far, or near the ground."""
        h = s.x.world.ground.surface(s.x.q[0], s.x.q[1])[0]
        return (self.moving(s)[2][2] < TILTED) | (s.x.q[2] - h < LOW * self.height)


def velocity_error(s: Any) -> Any:
    """Of the horizontal velocity against the command, m/s."""
    dx, dy = s.x.v[0] - s["command"][0], s.x.v[1] - s["command"][1]
    return np.sqrt(dx * dx + dy * dy)


def measure(rollouts: Rollouts) -> dict[str, float]:
    """Mean error of the velocity in m/s, mean level of the ground, and falls per 1,000 steps."""
    found = {name: float(rollouts[name].mean()) for name in ("velocity_error", "level")}
    return {**found, "falls": 1000.0 * float(rollouts.terminated.mean())}


def mirror(legs: Legs) -> Mirror | None:
    """Left and right exchanged, in the order of `observe`, of the action, and of `privileged`."""
    if not legs.opposite:
        return None
    joints = [3 * leg + k for leg in legs.opposite for k in range(3)], [-1.0, 1.0, 1.0] * len(legs.opposite)
    polar, axial, command = [1.0, -1.0, 1.0], [-1.0, 1.0, -1.0], [1.0, -1.0, -1.0]  # velocities, rates
    three = [0, 1, 2]
    parts = [(three, axial), (three, polar), (three, command), joints, joints, joints]
    feet, ground = (list(legs.opposite), [1.0] * len(legs.opposite)), (list(range(5)), [1.0] * 5)
    return Mirror(_joined(parts), joints, _joined([(three, polar), *parts, feet, ground]))


def _joined(parts: list[tuple[list[int], list[float]]]) -> tuple[list[int], list[float]]:
    """One map of vectors that are joined, from those of the parts."""
    order: list[int] = []
    signs: list[float] = []
    for own, sign in parts:
        order += [len(signs) + k for k in own]
        signs += sign
    return order, signs


def _task(name: str) -> Task:
    return Task(
        robot=name,
        name="walk",
        summary="walk to a command over uneven ground",
        make=partial(make, legs=name, level=JUDGED),
        training={"level": None},
        iterations=1000,
        hidden=(128, 128),
        mirror=mirror(ROBOTS[name]),
        measure=measure,
        record={"velocity_error": velocity_error, "level": lambda s: s["level"]},
        observation=(("rate", 3), ("up", 3), ("command", 3), ("angles", 12), ("speeds", 12), ("action", 12)),
        action=tuple(f"joint_{k}" for k in range(12)),
        commands=COMMANDS,
        episode_seconds=EPISODE,
    )


ANYMAL_C, A1, GO1, SOLO12 = (_task(name) for name in ROBOTS)
