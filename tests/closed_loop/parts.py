"""Blocks and loops that the tests of closed loops share."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import condyle as cd


class Lag(cd.Block):
    """A first-order lag: angle' = (target - angle) / lag."""

    def __init__(self, size: int, lag: float, **options: Any) -> None:
        super().__init__(**options)
        self.lag = self.parameter("lag", lag, "s", minimum=1e-6)
        self.state("angle", np.zeros(size))

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        """The angle after the tick."""
        (target,) = inputs
        angle = target + (state["angle"] - target) * np.exp(-self.dt / self.lag)
        return angle, {"angle": angle}


class NoisyPD(cd.Block):
    """tau = kp (target - q + noise) - kd v, with the sum of its errors as state."""

    def __init__(self, size: int, **options: Any) -> None:
        super().__init__(**options)
        self.kp, self.kd = self.parameter("kp", 20.0, "N m/rad", minimum=0.0), self.parameter("kd", 2.0)
        self.size = size
        self.state("sum", np.zeros(size))

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        """The torque, and the error that it saw."""
        target, q, v = inputs
        error = target - q + 0.01 * self.normal(self.size) + 0.001 * self.uniform(self.size)
        return {"tau": self.kp * error - self.kd * v, "error": error}, {"sum": state["sum"] + error}


class Delay(cd.Block):
    """The input of three updates before."""

    def __init__(self, size: int, **options: Any) -> None:
        super().__init__(**options)
        self.state("line", np.zeros((3, size)))

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        """The oldest entry."""
        line = state["line"]
        return line[0], {"line": np.concatenate([line[1:], [inputs[0]]])}


@cache
def arm_loop() -> cd.Loop:
    """A double pendulum: a lag, a delay, and a noisy controller at a quarter of the rate, in episodes."""
    lag, delay, pd = Lag(2, 0.05, name="servo"), Delay(2, every=2), NoisyPD(2, every=4, name="pd")

    def control(x: Any, target: Any) -> Any:
        found = pd(lag(delay(target)), x.q, x.v)
        return {"u": found["tau"], "speed": x.v @ x.v, "load": x.episode.uniform(0.5, 1.5)}

    episode = cd.Episode(
        terminated=lambda x: x.q[1] > 0.25,
        time_limit=0.2,
        reset=lambda draw: {"q": draw.uniform(-0.3, 0.3, 2), "servo.angle": 0.1 * draw.normal(2)},
    )
    return cd.Loop(cd.Simulation(cd.load("double_pendulum"), 0.004), control, episode=episode, target=2)
