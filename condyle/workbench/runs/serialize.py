"""A simulation as JSON data and back: robot, ground, contact points and options. Functions cannot be written to a file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from condyle.multibody.robot import Robot
from condyle.robot.actuator import actuator_problems
from condyle.robot.description import LOOP_AXES, Keyframe, Limits, Shape, tendon_problems
from condyle.robot.mesh import mesh_hash
from condyle.robot.model import BASE_MOTIONS, Model
from condyle.robot.spatial import Inertia, Pose
from condyle.simulate.config import SimulationConfig
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import HeightField, Plane, Slope, Stairs
from condyle.simulate.uneven import Uneven
from condyle.workbench.runs.json_codec import DecodeError, EncodeError, Floats, Infinite, build, decode, encode

MAX_LINKS = 20_000
MAX_SUBSTEPS, MAX_EXPONENT = 10_000, 16
SHAPE_SIZES = {"box": 3, "sphere": 1, "cylinder": 2, "capsule": 2, "ellipsoid": 3, "mesh": 3}  # kind -> numbers in its size

# what the annotation of a field does not say
FIELDS: dict[tuple[type, str], Any] = {
    (Pose, "R"): Floats((3, 3)),
    (Pose, "p"): Floats((3,)),
    (Inertia, "mass"): float,
    (Inertia, "h"): Floats((3,)),
    (Inertia, "I"): Floats((3, 3)),
    (Keyframe, "q"): Floats((None,)),
    (Keyframe, "v"): Floats((None,)),
    (Keyframe, "u"): Floats((None,)),
    (SimulationConfig, "ground"): Plane | Slope | Stairs | HeightField | Uneven | None,
    (SimulationConfig, "force"): None,
    (HeightField, "heights"): Floats((None, None)),
    **{(Limits, name): Infinite | None for name in ("lower", "upper", "velocity", "effort")},
}


@dataclass(frozen=True)
class Rolling:
    """How wheels roll on flat ground: the arguments of Robot.roll."""

    wheels: tuple[str, ...]
    radius: float
    independent: tuple[str, ...] | None


@dataclass(frozen=True)
class RobotData:
    """A robot: its model, whether the couplings and loops of its description hold, and how its wheels roll."""

    model: Model
    described: bool
    rolling: Rolling | None


@dataclass(frozen=True)
class SimulationData:
    """All that a simulation is made of."""

    robot: RobotData
    config: SimulationConfig


# ---- to data


def encode_robot(robot: Robot) -> Any:
    """The robot as JSON data; an EncodeError if a constraint is a function."""
    return encode(_robot_data(robot), "robot")


def encode_simulation(simulation: Simulation) -> Any:
    """The simulation as JSON data; an EncodeError says what cannot be written."""
    return encode(SimulationData(_robot_data(simulation.robot), simulation.config), "simulation")


def _robot_data(robot: Robot) -> RobotData:
    rolled = robot.rolled
    if not robot.coordinate_map.identity and rolled is None and not robot.described:
        raise EncodeError(f"robot '{robot.name}' has constraints other than those of its file and wheels on flat ground")
    described = robot.described if rolled is None else bool(rolled["described"])
    rolling = None if rolled is None else Rolling(rolled["wheels"], rolled["radius"], rolled["independent"])
    return RobotData(_with_mesh_hashes(robot.model), described and not robot.coordinate_map.identity, rolling)


def _with_mesh_hashes(model: Model) -> Model:
    """The model with the sha256 of each mesh file, except where a shape has one already, as in a model that was read."""

    def hashed(of: Any) -> Any:
        return replace(of, **{name: tuple(map(_hashed, getattr(of, name))) for name in ("visuals", "collisions")})

    return hashed(replace(model, links=tuple(map(hashed, model.links))))  # type: ignore[no-any-return]


def _hashed(shape: Shape) -> Shape:
    return shape if shape.mesh is None or shape.sha256 is not None else replace(shape, sha256=mesh_hash(shape.mesh))


# ---- from data


def decode_robot(data: Any) -> Robot:
    """The robot; a DecodeError says where the data is wrong, or why no robot can be built from it."""
    return _robot(decode(RobotData, data, "robot", FIELDS))


def decode_simulation(data: Any) -> Simulation:
    """The simulation; a DecodeError says where the data is wrong, or why no simulation can be built from it."""
    found: SimulationData = decode(SimulationData, data, "simulation", FIELDS)
    # each adds to the length of the compiled code
    for name, limit in (("substeps", MAX_SUBSTEPS), ("depth_exponent", MAX_EXPONENT)):
        _check(getattr(found.config, name) <= limit, f"simulation.config.{name} is more than {limit:,}")
    robot = _robot(found.robot)
    return build("simulation", lambda: Simulation.from_config(robot, found.config))


def _robot(data: RobotData) -> Robot:
    _check_model(data.model)

    def make() -> Robot:
        robot = Robot(data.model)
        if data.described:
            robot = robot.constrain_as_described()
        if (rolling := data.rolling) is not None:
            robot = robot.roll(rolling.wheels, rolling.radius, independent=rolling.independent)
        return robot

    return build("robot", make)


def _check_model(model: Model) -> None:
    """None; a DecodeError if the entries of the model do not belong together."""
    links, q, v = model.links, 0, 0
    if len(links) > MAX_LINKS or len({link.joint for link in links}) != len(links):
        raise DecodeError(f"robot.model.links has two joints of one name, or more than {MAX_LINKS:,}")
    for i, link in enumerate(links):
        where = f"robot.model.links[{i}]"
        _check(-1 <= link.parent < i, f"{where}.parent is not a link before it")
        coordinates = (link.q, link.v) == (slice(q, q + link.kind.nq), slice(v, v + link.kind.nv))
        _check(coordinates, f"{where}.q or .v does not follow the link before it")
        _check(link.base in ("", *BASE_MOTIONS), f"{where}.base is not one of {', '.join(BASE_MOTIONS)}, or empty")
        _check(len(link.written) in (0, link.kind.nq), f"{where}.written does not have {link.kind.nq} entries")
        q, v = q + link.kind.nq, v + link.kind.nv
    for name, key in model.keyframes.items():
        _check((len(key.q), len(key.v)) == (q, v), f"robot.model.keyframes: '{name:.40}' is not of this robot")
    for frame in model.frames:
        _check(-1 <= frame.link < len(links), f"robot.model.frames: '{frame.name:.40}' is on a link that does not exist")
    known = {frame.name for frame in model.frames}
    for loop in model.loops:
        exist = {loop.frame_a, loop.frame_b} <= known and set(loop.axes) <= set(LOOP_AXES)
        _check(exist, f"robot.model.loops: '{loop.name:.40}' names a frame or an axis that does not exist")
    joints = [link.joint for link in links if link.kind.nv == 1]
    for problem in actuator_problems(model.actuators, joints, list(known)):
        raise DecodeError(f"robot.model.actuators: {problem}")
    for problem in tendon_problems(model.tendons, joints):
        raise DecodeError(f"robot.model.tendons: {problem}")
    shapes = [shape for link in links for shape in (*link.visuals, *link.collisions)]
    for shape in (*model.visuals, *model.collisions, *shapes):
        size = SHAPE_SIZES.get(shape.kind)
        _check(size is not None, f"robot.model: the kind of a shape is not one of {', '.join(SHAPE_SIZES)}")
        _check(len(shape.size) == size, f"robot.model: the size of a {shape.kind} does not have {size} entries")
        # a file without a hash would be any file of this disk
        _check((shape.mesh is None) == (shape.sha256 is None), "robot.model: a mesh has no sha256")


def _check(condition: bool, message: str) -> None:
    if not condition:
        raise DecodeError(message)
