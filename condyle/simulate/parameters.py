"""Parameters of a world: every number of robot, ground, contact and time that may vary from call to call and robot to robot.

`parameterized` gives the world with some of its numbers replaced, traced ones too. The scales that a world derives from its
numbers (the load and stiffness of contacts, effective masses, inertia and load of joints) follow as expressions of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import inf
from typing import Any

import numpy as np

from condyle.errors import SimulationError
from condyle.robot.joints import Prismatic, Revolute
from condyle.robot.model import Link
from condyle.robot.names import nearest
from condyle.robot.parameters import Parameters, ParameterSpec, geometric, model_parameters, with_numbers
from condyle.simulate.ground_parameters import ground_parameters, with_ground_parameters
from condyle.simulate.points import ContactPoint
from condyle.simulate.validate import assign
from condyle.simulate.world import JointForces, World, with_joint_scales

# number of a joint: (field of JointForces, unit of a hinge, unit of a slide, smallest value, where there is none)
JOINT_NUMBERS = {
    "friction": ("friction", "N m", "N", 0.0, 0.0),
    "damping": ("damping", "N m s/rad", "N s/m", 0.0, 0.0),
    "stiffness": ("spring", "N m/rad", "N/m", 0.0, 0.0),
    "rest": ("rest", "rad", "m", -inf, 0.0),
    "effort": ("effort", "N m", "N", 0.0, inf),
    "lower": ("lower", "rad", "m", -inf, -inf),
    "upper": ("upper", "rad", "m", -inf, inf),
}
POINT_NUMBERS = ("friction", "radius", "position")
SCALED_BY = ("gravity", "mass", "com", "inertia", "armature")  # what changes inertia and load of the joints, besides geometry


def world_parameters(world: World) -> Parameters:
    """The parameters of a world, with units, bounds and present values.

    Those of the model, with the joint forces that act in this world; JOINT.stiffness and .rest of a spring; POINT.friction,
    .radius and .position (in its link) of each contact point, as contact:POINT.position where a frame has that name, too;
    ground.friction, .height and more; contact.rest_depth, .smoothing and .recovery_time; limit.depth of hinges; and dt.
    """
    model = model_parameters(world.model)
    specs = {spec.name: spec for spec in [*_own(world), *model.values()]}
    aliases = dict(model.aliases)
    for name, k, what, link in joint_numbers(world):
        field, of_hinge, of_slide, least, none = JOINT_NUMBERS[what]
        value, unit = getattr(world.joints[k], field), of_hinge if isinstance(link.kind, Revolute) else of_slide
        specs[name] = ParameterSpec(name, unit, none if value is None else value, least, infinite=abs(none) == inf)
        aliases.setdefault(f"{link.name}.{what}", name)
    units = {"friction": "1", "radius": "m", "position": "m"}
    taken = set(specs)
    for point in world.points:
        for number, name in point_names(point, taken).items():
            value = getattr(point, number)
            if value is None:  # the friction of the ground
                assert world.ground is not None
                value = world.ground.friction
            least = -inf if number == "position" else 0.0
            specs[name] = ParameterSpec(name, units[number], np.array(value) if number == "position" else value, least)
    aliases = {alias: name for alias, name in aliases.items() if alias not in specs}
    return Parameters(specs.values(), aliases, f"the world of '{world.model.name}'", model.hints)


def _own(world: World) -> list[ParameterSpec]:
    """The numbers of time, ground, contact and limits."""
    specs = [ParameterSpec("dt", "s", world.h * world.substeps, 0.0, open_bounds=True)]
    specs += [] if world.ground is None else ground_parameters(world.ground)
    hinges = [world.joints[k].depth for _, k, _, link in joint_numbers(world) if isinstance(link.kind, Revolute)]
    for name, unit, value in (
        ("contact.rest_depth", "m", world.depth),
        ("contact.smoothing", "1", world.smoothing),
        ("contact.recovery_time", "s", None if world.ground is None else world.recovery_time),
        ("limit.depth", "rad", hinges[0] if hinges else None),
    ):
        specs += [] if value is None else [ParameterSpec(name, unit, value, 0.0, open_bounds=True)]
    return specs


def joint_numbers(world: World) -> Iterator[tuple[str, int, str, Link]]:
    """(name, velocity coordinate, number, link) of each number of a joint of one coordinate."""
    for link in world.model.links:
        if isinstance(link.kind, Revolute | Prismatic) and not link.base:
            for what in JOINT_NUMBERS:
                yield f"{link.joint}.{what}", link.v.start, what, link


def point_names(point: ContactPoint, taken: Iterable[str]) -> dict[str, str]:
    """{number: name} of the numbers of a contact point; `taken`: names of other parameters."""
    names = {number: f"{point.name}.{number}" for number in POINT_NUMBERS}
    return {number: f"contact:{name}" if name in taken else name for number, name in names.items()}


def parameterized(world: World, values: Mapping[str, Any]) -> World:
    """The world with these numbers, traced or not, and with the scales that follow from them; names of `world_parameters`.

    Nothing is checked, see `Parameters.checked`. Inside of a trace, call it outside of loops: scales are then computed once.
    The drives of joints, which blocks command, have names as well: JOINT.drive_stiffness and the other fields of JointForces.
    """
    if not values:
        return world
    known = world.known or world_parameters(world)
    drives = {name: value for name, value in values.items() if name.rpartition(".")[2].startswith("drive_")}
    given = {known.require(name, SimulationError).name: value for name, value in values.items() if name not in drives}
    model = with_numbers(world.model, given)
    moved = [name for name in given if geometric(name) and name not in _of_points(world, known)]
    coordinate_map = world.coordinate_map.with_iterations() if moved else world.coordinate_map

    joints = _with_drives(world, drives)
    for name, k, what, link in joint_numbers(world):
        if name in given:
            joints[k] = replace(joints[k], **{JOINT_NUMBERS[what][0]: given[name]})
        depth = "limit.depth" if isinstance(link.kind, Revolute) else "contact.rest_depth"
        if depth in given:
            joints[k] = replace(joints[k], depth=given[depth])
    if moved or any(name.rpartition(".")[2] in SCALED_BY for name in given):
        joints = list(with_joint_scales(model, coordinate_map, joints))

    ground = world.ground
    if ground is not None:
        numbers = {name.removeprefix("ground."): value for name, value in given.items() if name.startswith("ground.")}
        ground = with_ground_parameters(ground, numbers)
    new = replace(
        world,
        model=model,
        coordinate_map=coordinate_map,
        h=given["dt"] * (1.0 / world.substeps) if "dt" in given else world.h,
        ground=ground,
        points=tuple(_with_numbers(point, _names(point, known), given) for point in world.points),
        depth=given.get("contact.rest_depth", world.depth),
        smoothing=given.get("contact.smoothing", world.smoothing),
        recovery_time=given.get("contact.recovery_time", world.recovery_time),
        joints=tuple(joints),
        known=known,
    )
    # computed now, outside of the loops of a step
    _ = new.start, new.tendons, new.ancestor_dofs, new.inverse_inertia_diagonal, new.effective_masses
    return new


def _names(point: ContactPoint, known: Parameters) -> dict[str, str]:
    """{number: name} of a contact point in the list of parameters."""
    return point_names(point, [f"{point.name}.{n}" for n in POINT_NUMBERS if f"contact:{point.name}.{n}" in known])


def _of_points(world: World, known: Parameters) -> set[str]:
    return {name for point in world.points for name in _names(point, known).values()}


def _with_drives(world: World, drives: Mapping[str, Any]) -> list[JointForces]:
    """The joints with their drives as given."""
    joints, fields = list(world.joints), JointForces.__dataclass_fields__
    places = {name.removesuffix(".friction"): k for name, k, what, _ in joint_numbers(world) if what == "friction"}
    for name, value in drives.items():
        joint, _, field = name.rpartition(".")
        if joint not in places or field not in fields:
            hint = nearest(joint, list(places)) if field in fields else nearest(field, [f for f in fields if "drive" in f])
            raise SimulationError(f"there is no drive '{name!s:.60}' of a joint{hint}")
        joints[places[joint]] = replace(joints[places[joint]], **{field: value})
    return joints


def _with_numbers(point: ContactPoint, names: Mapping[str, str], given: Mapping[str, Any]) -> ContactPoint:
    """A contact point with those of the numbers that are its own, unchecked."""
    own = {number: given[name] for number, name in names.items() if name in given}
    if not own:
        return point
    new = object.__new__(ContactPoint)
    assign(new, **vars(point) | own)
    return new
