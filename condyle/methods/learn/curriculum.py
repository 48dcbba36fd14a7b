"""Curricula: a level of each robot, from 0 to 1, that rises when an episode succeeds and falls when it does not.

env = cd.VectorEnv(..., variables={"level": 0.0}, curriculum=levels(),
                   randomize={"ground.roughness": lambda draw: 0.05 * draw["level"] * draw.uniform()})
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from condyle.tape.array import where


def raised(level: Any, success: Any, *, up: float = 0.05, down: float = 0.05) -> Any:
    """The next level of a robot: higher after a success, lower otherwise, between 0 and 1."""
    return np.minimum(np.maximum(where(success, level + up, level - down), 0.0), 1.0)


def levels(
    success: Callable[[Any], Any] | None = None, *, name: str = "level", up: float = 0.05, down: float = 0.05
) -> Callable[[Any], dict[str, Any]]:
    """The `curriculum` of an environment with the variable `name`.

    `success(draw)`: whether the episode that ended was one; by default, whether it reached its time limit.
    """

    def curriculum(draw: Any) -> dict[str, Any]:
        # of an episode that nothing ended, the level stays as it is
        good = where(draw.terminated, 0.0, 1.0) > 0.5 if success is None else success(draw)
        return {name: raised(draw[name], good, up=up, down=down)}

    return curriculum
