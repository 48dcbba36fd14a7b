"""Parameters of a world: numbers that may vary from call to call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from condyle.errors import SimulationError
from condyle.simulate.world import World


def world_parameters(world: World) -> dict[str, Any]:
    """The parameters of a world."""
    return {}


def parameterized(world: World, values: Mapping[str, Any]) -> World:
    """The world with these numbers replaced."""
    if values:
        raise SimulationError(f"the world has no parameter '{next(iter(values))}'")
    return world
