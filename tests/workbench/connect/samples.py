"""Small functions that the tests of torch and JAX share."""

from functools import cache
from typing import Any

import numpy as np
from simulate.bodies import a_pendulum

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


def running(x: Any, us: Any) -> Any:
    """A scan over any number of rows."""
    return cd.scan(lambda i, s, u: (s + u * np.sin(s), s * u), x, us)


@cache
def compiled_running() -> cd.Function:
    return cd.function(running, x=2, us=cd.Rows(None, 2))


class Gain(cd.Block):
    """u = K (r - q) - w . (q, v), with K a parameter and w shared by all robots."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.stiffness = self.parameter("stiffness", 30.0, "N m")
        self.w = self.weights("w", np.array([[0.5, 3.0]]))

    def step(self, state: Any, r: Any, q: Any, v: Any) -> Any:
        return self.stiffness * (r - q) - self.w.value[:] @ np.concatenate([q, v]), {}


@cache
def swinging_loop() -> cd.Loop:
    """A pendulum under feedback."""
    feedback = Gain(name="feedback")
    return cd.Loop(cd.Simulation(a_pendulum(), dt=0.01, ground=None), lambda x, r: feedback(r, x.q, x.v), r=1)


def swinging_values(rows: int = 6) -> dict[str, np.ndarray]:
    """States of three robots, references, a stiffness for each, and shared weights."""
    rng = np.random.default_rng(8)
    x = swinging_loop().state(rng.normal(size=(3, 1)), rng.normal(size=(3, 1)))
    stiffness, w = rng.uniform(20.0, 40.0, 3), rng.uniform(0.5, 3.0, (1, 2))
    return {"x": x, "r": rng.normal(size=(3, rows, 1)), "feedback.stiffness": stiffness, "feedback.w": w}
