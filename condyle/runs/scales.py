"""Numbers that a simulation computes when it is made, kept with it: on another processor their last digits could be others.

They set where the solver begins and how joint limits are scaled. NumPy computes them, and its sums of products depend on the
processor; so a simulation that is made again takes those of the first one, and repeats it bit for bit.
"""

from __future__ import annotations

from dataclasses import astuple, fields, replace
from typing import Any

import numpy as np

from condyle.runs import plain
from condyle.runs.plain import Wrong, entry
from condyle.simulate.setup import Setup
from condyle.simulate.simulation import Simulation
from condyle.simulate.world import JointForces

CLOSE = 1e-6  # how far such a number may be from the one computed here, relative


def scales_of(simulation: Simulation) -> dict[str, Any]:
    """The numbers as plain data."""
    world = simulation.world
    return {
        "joints": [[plain.optional(x) for x in astuple(joint)] for joint in world.joints],
        "felt": [plain.data_of(x) for x in world.felt],
        "lightness": plain.table(world.lightness),
    }


def set_scales(simulation: Simulation, data: Any) -> None:
    """None; the simulation has these numbers, which must be those it computed itself but for their last digits, or Wrong."""
    world, at = simulation.world, "recipe.scales"
    count = len(fields(JointForces))

    def joint(row: Any, where: str) -> JointForces:
        numbers = plain.items(row, where, plain.maybe, count)
        if len(numbers) != count:
            raise Wrong(f"{where} does not have {count} numbers")
        return JointForces(*numbers)

    joints = plain.items(entry(data, "joints", at), f"{at}.joints", joint)
    felt = plain.items(entry(data, "felt", at), f"{at}.felt", plain.number)
    lightness = plain.array(entry(data, "lightness", at), f"{at}.lightness", (len(world.lightness),))
    for name, given, own in (
        ("joints", [x for j in joints for x in astuple(j)], [x for j in world.joints for x in astuple(j)]),
        ("felt", list(felt), list(world.felt)),
        ("lightness", lightness.tolist(), world.lightness.tolist()),
    ):
        if len(given) != len(own) or not all(map(_close, given, own)):
            raise Wrong(f"{at}.{name} is not what this robot and its contacts have")
    world = replace(world, joints=joints)
    # cached values, which nothing has used yet
    world.__dict__.update(felt=felt, lightness=lightness)
    simulation.world, simulation.setup = world, Setup(world, simulation.integrator, simulation.substeps)


def _close(a: float | None, b: float | None) -> bool:
    if a is None or b is None:
        return a is b
    return bool(abs(a - b) <= CLOSE * np.maximum(abs(a), abs(b)))
