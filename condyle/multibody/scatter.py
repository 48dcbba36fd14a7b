"""Coordinates of a robot with locked joints among those of the robot it was locked from."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.constraints.reduced_coordinates import floats
from condyle.errors import RobotError
from condyle.robot.model import Model
from condyle.tape.array import array
from condyle.tape.compose import any_traced


def scattered(model: Model, name: str, x: Any, size: int, into: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
    """x as an array; with (entries, rest), the rest with x at these entries."""
    given = array(x) if any_traced((x,)) else floats(model, name, x)
    if into is None:
        return given
    entries, rest = into
    if given.shape[-1:] != (size,):
        raise RobotError(f"robot '{model.name}': {name} must have {size} entries, got the shape {given.shape}")
    full = np.broadcast_to(rest, (*given.shape[:-1], len(rest))).astype(given.dtype).view(type(given))
    full[..., entries] = given
    return full
