"""Small functions that the tests of torch and JAX share."""

from functools import cache
from typing import Any

import numpy as np

import condyle as cd

GAIN = cd.parameter("gain", 1.5)


def network(x: Any, u: Any, W: Any) -> dict[str, Any]:
    """Two outputs, a table shared by the batch, and a parameter."""
    return {"y": (W[:] @ (np.sin(x) * GAIN)) * u, "z": x[0] * u[1] + np.floor(x[2])}


@cache
def compiled_network() -> cd.Function:
    return cd.function(network, x=3, u=2, W=cd.Uniform(2, 3))


def network_values(batch: int = 3) -> list[np.ndarray]:
    """(x of a batch, one u, one W, gains of the batch)."""
    rng = np.random.default_rng(5)
    return [rng.uniform(0.1, 0.9, (batch, 3)), rng.normal(size=2), rng.normal(size=(2, 3)), rng.normal(size=batch)]
