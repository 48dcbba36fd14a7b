"""Energy in and out of a controlled robot: whether it stores no more than what pushes put into it."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.closed_loop.block import Block
from condyle.tape.array import where


class EnergyMeter(Block):
    """{"stored", "supplied", "excess", "gain", "input"} of a storage V and a force f that acts on a velocity v, J.

    Called as meter(V, f, v) at every tick, with V and v at its start and f (n,), constant over it. `supplied` is the work
    sum of h f . (v + v1) / 2 with the velocity v1 after the tick, `excess` = V - V(0) - supplied, what was dissipated below zero.
    A passive system has  excess(t2) <= excess(t1)  for all t1 < t2; `gain` is the largest violation so far, the maximum of
    excess(t2) - excess(t1). `input`: the work of the ticks in which f puts energy in.
    """

    def __init__(self, size: int, **options: Any) -> None:
        super().__init__(**options)
        for name in ("force", "velocity"):
            self.state(name, np.zeros(size))
        for name in ("started", "start", "supplied", "input", "least", "gain"):
            self.state(name, 0.0)

    def step(self, state: dict[str, Any], stored: Any, force: Any, velocity: Any) -> tuple[Any, dict[str, Any]]:
        """The energies at the start of this tick."""
        # the force of the tick before, which is zero at first
        work = self.dt * (0.5 * (state["force"] @ (state["velocity"] + velocity)))
        supplied, put_in = state["supplied"] + work, state["input"] + np.maximum(work, 0.0)
        start = where(state["started"] > 0.0, state["start"], stored)
        excess = stored - start - supplied
        least = np.minimum(state["least"], excess)
        gain = np.maximum(state["gain"], excess - least)
        after = {"force": force, "velocity": velocity, "started": 1.0, "start": start, "supplied": supplied, "input": put_in}
        output = {"stored": stored, "supplied": supplied, "excess": excess, "gain": gain, "input": put_in}
        return output, {**after, "least": least, "gain": gain}
