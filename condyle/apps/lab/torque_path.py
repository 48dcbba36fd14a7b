"""What lies between the torque that a controller commands and that of the motor: a limit, a delay and a lag."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.blocks.delay import delayed, line_length
from condyle.blocks.limiters import saturated
from condyle.closed_loop.block import Block
from condyle.errors import ControlError
from condyle.tape.array import where


class TorquePath(Block):
    """From the commanded torque to that of the motor:  clip to +-effort, wait `delay`, then  lag tau' = u - tau,  exactly.

    `effort` in N m, `delay` (up to `max_delay`) and `lag` in s; None leaves a part out. Torques start at the first command.
    """

    def __init__(
        self,
        size: int,
        *,
        effort: Any = None,
        delay: float | None = None,
        max_delay: float | None = None,
        lag: float | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.size = size
        self.effort = None if effort is None else self.parameter("effort", effort, "N m", minimum=0.0)
        longest = max_delay if max_delay is not None else delay
        if delay is not None and longest is not None and delay > longest:
            raise ControlError(f"block '{self.name}': the delay of {delay} s is longer than max_delay, {longest} s")
        self.delay = None
        if longest is not None and longest > 0.0:
            self.delay = self.parameter("delay", 0.0 if delay is None else delay, "s", minimum=0.0, maximum=longest)
        self.lag = None if lag is None else self.parameter("lag", lag, "s", minimum=0.0)
        if self.lag is not None:
            self.state("torque", np.zeros(size))
        if self.lag is not None or self.delay is not None:
            self.state("started", 0.0)

    def prepare(self, dt: float | None) -> None:
        """Make the delay line as long as updates of every dt seconds need."""
        if self.delay is not None:
            if dt is None or self.delay.maximum is None:
                raise ControlError(f"block '{self.name}': the length of its delay line needs a loop whose dt is a number")
            self.states["line"] = np.zeros((max(1, line_length(self.name, self.delay.maximum, dt)), self.size))

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        """The torque over this update for the command u."""
        u: Any = inputs[0]
        after: dict[str, Any] = {}
        if self.effort is not None:
            u = saturated(u, -self.effort, +self.effort)
        u = u + np.zeros(self.size)
        first = state["started"] <= 0.0 if "started" in state else False
        if self.delay is not None:
            line = where(first, np.array([u] * len(state["line"])), state["line"])
            after["line"] = np.array([u, *line[:-1]])
            u = delayed([u, *line], self.delay / self.dt)
        if self.lag is not None:
            before = where(first, u, state["torque"])
            small = np.maximum(self.lag.resolve(), 1e-12)
            u = after["torque"] = u + (before - u) * np.exp(-self.dt / small)
        if "started" in state:
            after["started"] = 1.0
        return u, after
