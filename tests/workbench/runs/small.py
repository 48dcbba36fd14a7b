"""Small simulations that compile quickly, and runs of them."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import condyle as cd
from condyle.workbench.runs.run import Run


@cache
def pendulum() -> cd.Simulation:
    """Two links, two motors, a frame to push: nx 4, nu 2, one wrench."""
    robot = cd.load("double_pendulum")
    return cd.Simulation(robot, 0.002, wrenches=[robot.frame_names[-1]])


def swing(steps: int, path: Path | None = None, **options: Any) -> Run:
    """The pendulum under controls, pushes and signals that look random, from a state with -0.0 and a denormal."""
    simulation = pendulum()
    rng = np.random.default_rng(3)
    with cd.Recorder(simulation, [-0.0, 0.3, 5e-324, -1.0], path, title="a swing", seed=3, **options) as recorder:
        for k in range(steps):
            u, push = 0.1 * rng.standard_normal(2), np.zeros((1, 6))
            push[0, 0] = 0.1 * (k % 7)
            recorder.step(u, push, reference=[-0.0, 5e-324, 0.1 * k], error=rng.standard_normal((2, 2)), level=float(k))
    assert recorder.run is not None
    return recorder.run


def same(a: Run, b: Run) -> bool:
    """Whether two runs have the same bits and the same `about`."""
    arrays = [(a.x, b.x), (a.u, b.u), (a.wrenches, b.wrenches), *[(a.extras[n], b.extras[n]) for n in a.extras]]
    bits = all(x.shape == y.shape and x.tobytes() == y.tobytes() for x, y in arrays)
    return bits and list(a.extras) == list(b.extras) and a.about == b.about and a.hash == b.hash
