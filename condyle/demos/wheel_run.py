"""The wheeled pendulum as a recorded run, like those of the other machines, and its checks."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike

import numpy as np

from condyle.demos import wheel_checks, wheeled_pendulum
from condyle.demos.row import Row, Say, silent
from condyle.demos.wheeled_pendulum import DT, LEAN, PUSH, PUSHED_AT, PUSHED_FOR, SECONDS, TORQUE, gain, leaning, world
from condyle.demos.work import repeated
from condyle.runs.recorder import Recorder
from condyle.runs.run import Run


def run(path: str | PathLike[str] | None = None, *, say: Say = silent) -> Run:
    """It begins at rest, leaning by 0.25 rad; its motor brings it upright; half-way it is pushed: 8 s, as `balance` has it."""
    here, K = world(push=True), gain()
    steps, begin, end = (round(t / DT) for t in (SECONDS, PUSHED_AT, PUSHED_AT + PUSHED_FOR))
    push = np.array([[PUSH, 0.0, 0.0, 0.0, 0.0, 0.0]])
    about = {"lean": LEAN, "push": PUSH, "pushed_at": PUSHED_AT, "pushed_for": PUSHED_FOR}
    title = "The wheeled pendulum balances"
    with Recorder(here, here.state(leaning()), path, title=title, controller="balance", about=about, overwrite=True) as recorder:
        for k in range(steps):
            if k % 1000 == 0:
                say("the wheeled pendulum balances", k, steps)
            x = recorder.x
            wanted = -(K[0] * x[0] + K[1] * x[1] + K[2] * x[2] + K[3] * x[3])
            u = np.array([min(max(wanted, -TORQUE), TORQUE)])
            recorder.step(u, push if begin <= k < end else None)
        return recorder.finish()


def told(run: Run) -> wheeled_pendulum.Run:
    """The run with all coordinates and the forces of the ground."""
    return wheeled_pendulum.told(run.simulation, run.x, run.u[:, 0], run.wrenches[:, 0, 0])


def checks(run: Run | None = None, *, quick: bool = False, say: Say = silent) -> Iterator[Row]:
    """The rows of wheel_checks for a recorded run, and that it repeats."""
    done = recorded(say=say) if run is None else run
    yield from wheel_checks.checks(told(done), quick=quick, say=say)
    yield repeated("run", done)


recorded = run
