"""Energy in and out of a controlled robot, measured in the loop: whether it stores no more than what pushes put into it.

`EnergyMeter` takes any force and the velocity it acts on, `EnergyBalance` a wrench at a frame.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.closed_loop.block import Block
from condyle.dynamics.rotations import quaternion_log, quaternion_of
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


class EnergyBalance(Block):
    """{"excess", "supplied"}, J: the largest energy(t) - energy(0) - work(t) so far, and the largest energy(0) + work(t).

    Called as `balance(x, energy, wrench)` with the stored energy (of motion and of the controller's springs) and the wrench that
    acts at the frame during this tick, force then torque in world axes. A tick's wrench does the work F . dp + T . log(dR), which
    is exact for the force, and for the torque to second order in the tick. The excess of a passive system is zero.
    """

    def __init__(self, frame: str, *, name: str = "balance") -> None:
        super().__init__(name=name)
        self.frame = frame
        for part, shape in {"p": 3, "R": (3, 3), "wrench": 6}.items():
            self.state(part, np.zeros(shape))
        for part in ("first", "begun", "work", "most", "most_excess"):
            self.state(part, 0.0)

    def step(self, state: dict[str, Any], x: Any, energy: Any, wrench: Any) -> tuple[Any, dict[str, Any]]:
        """Excess and supplied energy up to this tick."""
        X, begun = x.frame_pose(self.frame), state["begun"] > 0.5
        # at the first tick there is no pose before; any rotation keeps the logarithm finite
        before = state["R"].T @ X.R + where(begun, 0.0, 1.0) * np.eye(3)
        turn = X.R @ quaternion_log(quaternion_of(before))
        done = state["wrench"][:3] @ (X.p - state["p"]) + state["wrench"][3:] @ turn
        work = state["work"] + where(begun, done, 0.0)
        first = where(begun, state["first"], energy)
        excess = np.maximum(state["most_excess"], energy - first - work)
        most = np.maximum(state["most"], first + work)
        after = {"p": X.p, "R": X.R, "wrench": np.zeros(6) + wrench, "first": first, "begun": 1.0, "work": work}
        return {"excess": excess, "supplied": most}, {**after, "most": most, "most_excess": excess}
