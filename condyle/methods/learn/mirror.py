"""Mirror symmetry of a robot: what its observations and actions become in a mirror."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from condyle.errors import ControlError


@dataclass(frozen=True)
class Mirror:
    """Signed permutations: entry i of a mirrored vector is signs[i] * vector[order[i]].

    `observation`, `action`, `privileged`: (order, signs) each; `privileged` is None if the environment has none.
    """

    observation: tuple[Sequence[int], Sequence[float]]
    action: tuple[Sequence[int], Sequence[float]]
    privileged: tuple[Sequence[int], Sequence[float]] | None = None

    def __post_init__(self) -> None:
        for name in ("observation", "action", "privileged"):
            given = getattr(self, name)
            if given is None:
                continue
            order, signs = np.asarray(given[0], int), np.asarray(given[1], float)
            vector = np.arange(1.0, len(order) + 1.0)
            if sorted(order.tolist()) != list(range(len(order))) or signs.shape != order.shape or not (abs(signs) == 1.0).all():
                raise ControlError(f"the mirror of the {name} must be a permutation and as many signs +1 or -1")
            once = signs * vector[order]
            if not np.array_equal(signs * once[order], vector):
                raise ControlError(f"the mirror of the {name}, applied twice, must give the {name} back")


def mirrored(vector: np.ndarray, map: tuple[Sequence[int], Sequence[float]]) -> np.ndarray:
    """The mirror images of vectors (..., n)."""
    order, signs = map
    image: np.ndarray = vector[..., np.asarray(order, int)] * np.asarray(signs, vector.dtype)
    return image
