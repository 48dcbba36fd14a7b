"""Integrators with anti-windup, and PID control."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.blocks.filters import Filter, Size, filtered_derivative
from condyle.blocks.limiters import saturated
from condyle.closed_loop.block import Block
from condyle.errors import ControlError
from condyle.tape.array import where

ANTI_WINDUP = ("clamping", "back_calculation", "none")


def integrated(value: Any, u: Any, excess: Any, dt: Any, anti_windup: str, tracking_time: Any = 1.0) -> Any:
    """The integral after a tick with the constant input u; `excess` = bounded output - output.

    clamping: no integration while the output is bounded and u would push it further. back_calculation: u + excess / tracking_time
    is integrated.
    """
    if anti_windup == "clamping":
        u = where(u * excess < 0.0, 0.0, u)
    elif anti_windup == "back_calculation":
        u = u + excess / tracking_time
    return value + u * dt


class Integrator(Block):
    """y' = u, from `initial`, within [lower, upper] (None: unbounded), exact for inputs constant within a tick.

    Called as integrator(u) or integrator(u, excess), where excess = (what the actuator gives) - (what was asked of it); see
    `anti_windup`: "clamping" stops integration, "back_calculation" feeds excess / tracking_time (s) back.
    """

    def __init__(
        self,
        size: Size,
        *,
        lower: Any = None,
        upper: Any = None,
        anti_windup: str = "clamping",
        tracking_time: Any = 1.0,
        initial: Any = 0.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.anti_windup = _rule(self.name, anti_windup)
        self.lower = None if lower is None else self.parameter("lower", lower)
        self.upper = None if upper is None else self.parameter("upper", upper)
        if anti_windup == "back_calculation":
            self.tracking_time = self.parameter("tracking_time", tracking_time, "s", minimum=1e-9)
        self.state("y", np.full(size, initial, dtype=float))

    def step(self, state: dict[str, Any], u: Any, excess: Any = 0.0) -> tuple[Any, dict[str, Any]]:
        """The integral at the end of the tick."""
        time = self.tracking_time if self.anti_windup == "back_calculation" else 1.0
        y = _bounded(integrated(state["y"], u, excess, self.dt, self.anti_windup, time), self.lower, self.upper)
        return y, {"y": y}


class PID(Filter):
    """u = kp (b r - y) + I + kd d(c r - y)/dt + feedforward within [lower, upper],  I' = ki (r - y) with anti-windup.

    `derivative_lag`: of the derivative's filter, s. `setpoint_weight`, `derivative_weight`: b and c, 1 and 0 by default, so a
    step of the reference gives no kick. Given the rate of y, the derivative is kd (c * reference_rate - rate), without filter.
    """

    def __init__(
        self,
        size: Size,
        kp: Any,
        ki: Any = 0.0,
        kd: Any = 0.0,
        *,
        lower: Any = None,
        upper: Any = None,
        derivative_lag: Any = 0.0,
        setpoint_weight: Any = 1.0,
        derivative_weight: Any = 0.0,
        anti_windup: str = "clamping",
        tracking_time: Any = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(None, **options)
        self.anti_windup = _rule(self.name, anti_windup)
        self.kp, self.ki, self.kd = self.parameter("kp", kp), self.parameter("ki", ki), self.parameter("kd", kd)
        self.lower = None if lower is None else self.parameter("lower", lower)
        self.upper = None if upper is None else self.parameter("upper", upper)
        self.derivative_lag = self.parameter("derivative_lag", derivative_lag, "s", minimum=0.0)
        self.b = self.parameter("setpoint_weight", setpoint_weight, "1")
        self.c = self.parameter("derivative_weight", derivative_weight, "1")
        if anti_windup == "back_calculation":
            self.tracking_time = self.parameter("tracking_time", tracking_time, "s", minimum=1e-9)
        self.memory("lagged", size, None)
        self.state("integral", np.zeros(size))

    def step(
        self,
        state: dict[str, Any],
        reference: Any,
        y: Any,
        rate: Any = None,
        reference_rate: Any = 0.0,
        feedforward: Any = 0.0,
    ) -> tuple[Any, dict[str, Any]]:
        """The control for a reference and a measured value, both of the block's size."""
        after: dict[str, Any] = {}
        if rate is None:
            signal = self.c * reference - y
            d, after["lagged"] = filtered_derivative(
                self.before(state, "lagged", signal), signal, self.derivative_lag.resolve(), self.dt
            )
        else:
            d = self.c * reference_rate - rate
        wanted = self.kp * (self.b * reference - y) + state["integral"] + self.kd * d + feedforward
        u = _bounded(wanted, self.lower, self.upper)
        time = self.tracking_time if self.anti_windup == "back_calculation" else 1.0
        after["integral"] = integrated(state["integral"], self.ki * (reference - y), u - wanted, self.dt, self.anti_windup, time)
        return u, self.after(**after)


def _rule(name: str, anti_windup: str) -> str:
    if anti_windup not in ANTI_WINDUP:
        raise ControlError(f"block '{name}': anti_windup must be one of {', '.join(ANTI_WINDUP)}; got {anti_windup!r:.40}")
    return anti_windup


def _bounded(u: Any, lower: Any, upper: Any) -> Any:
    return saturated(u, -np.inf if lower is None else lower, np.inf if upper is None else upper)
