"""The ten modes of DiffNE, each as a compiled function of (state, torque) with its derivatives.

N is the number of coordinates, h the time step.

    mode                    given          gives       meaning
    INVERSE_I               (q, v, a)      torque      with which one step goes from (q, v) to the velocity v + h a
    FORWARD_I               (q, v)         (v+, a)     the velocity after one step, and a = (v+ - v) / h
    INVERSE_LF              (q, v, a)      torque      for the acceleration a now, contact forces those of the velocity v
    FORWARD_LF              (q, v)         (v, a)      the acceleration now, likewise
    INVERSE_BACKWARD_RK1F   (q, v, a)      torque      with which a step of backward Euler ends at (q, v), having begun at v - h a
    BACKWARD_RK1F           (q+, v+, v)    residual    of a step of backward Euler from the velocity v to (q+, v+)
    FORWARD_RK1F            (q, v)         (q+, v+)    semi-implicit Euler: v+ from the step's optimum, q+ = q + h v+
    FORWARD_RK1I, 2I, 4I    (q, v)         (q+, v+)    explicit Runge-Kutta of 1, 2, 4 stages on the rates (v, a) of impulse level
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Any

import numpy as np

from condyle.errors import SimulationError
from condyle.robot.names import nearest
from condyle.robot.spatial import Array
from condyle.simulate import inverse
from condyle.simulate.backward import ResidualJacobians, backward_residual, backward_residual_derivatives
from condyle.simulate.integrate import integrate_step, step_jacobian
from condyle.simulate.inverse import ForceBalance, StartOfStep
from condyle.simulate.step import Inputs, next_velocity
from condyle.simulate.step_derivatives import next_velocity_derivatives
from condyle.simulate.world import World
from condyle.tape.function import Function
from condyle.tape.trace import trace
from condyle.tape.trace_cache import cached_trace, trace_key


class Mode(Enum):
    """What a simulator computes; see the table at the top of condyle/apps/compat/modes.py."""

    INVERSE_I = "INVERSE_I"
    FORWARD_I = "FORWARD_I"
    INVERSE_LF = "INVERSE_LF"
    FORWARD_LF = "FORWARD_LF"
    INVERSE_BACKWARD_RK1F = "INVERSE_BACKWARD_RK1F"
    BACKWARD_RK1F = "BACKWARD_RK1F"
    FORWARD_RK1F = "FORWARD_RK1F"
    FORWARD_RK1I = "FORWARD_RK1I"
    FORWARD_RK2I = "FORWARD_RK2I"
    FORWARD_RK4I = "FORWARD_RK4I"

    @staticmethod
    def of(name: str | Mode) -> Mode:
        """The mode of this name."""
        try:
            return Mode(name.upper() if isinstance(name, str) else name)
        except ValueError:
            known = [mode.value for mode in Mode]
            raise SimulationError(
                f"there is no mode {name!r:.40}{nearest(str(name), known)}; the modes are {', '.join(known)}"
            ) from None

    @property
    def parts(self) -> tuple[str, ...]:
        """What a state consists of, N numbers each."""
        if self.gives_torque:
            return ("q", "v", "a")
        return ("q+", "v+", "v") if self is Mode.BACKWARD_RK1F else ("q", "v")

    @property
    def gives_torque(self) -> bool:
        """Whether the torque is the result, not an input."""
        return self.value.startswith("INVERSE")

    @property
    def size(self) -> int:
        """Numbers in a result, as a multiple of N."""
        return 1 if self.gives_torque or self is Mode.BACKWARD_RK1F else 2


INTEGRATORS = {
    Mode.FORWARD_RK1F: "semi_implicit_euler",
    Mode.FORWARD_RK1I: "explicit_euler",
    Mode.FORWARD_RK2I: "rk2",
    Mode.FORWARD_RK4I: "rk4",
}
EXPLICIT = (Mode.FORWARD_RK1I, Mode.FORWARD_RK2I, Mode.FORWARD_RK4I)  # springs and damping are explicit too


def value(world: World, mode: Mode, x: Array, tau: Array) -> tuple[Array, Any]:
    """(the result, the residual of the solver behind it)."""
    q, v, third = _split(world, x)
    if mode is Mode.INVERSE_I:
        return inverse.inverse_step(world, q, v, third), 0.0
    if mode is Mode.INVERSE_LF:
        return inverse.limiting_inverse(world, q, v, third), 0.0
    if mode is Mode.INVERSE_BACKWARD_RK1F:
        return backward_residual(world, q, v, StartOfStep.of(world, q, v - third * world.h), np.zeros(len(v))), 0.0
    if mode is Mode.BACKWARD_RK1F:
        return backward_residual(world, q, v, StartOfStep.of(world, q, third), tau), 0.0
    if mode is Mode.FORWARD_LF:
        return np.concatenate([v, inverse.limiting_forward(world, q, v, tau)]), 0.0
    if mode is Mode.FORWARD_I:
        solution = next_velocity(world, Inputs(q, v, tau))
        return np.concatenate([solution.v, (solution.v - v) * (1.0 / world.h)]), solution.residual
    after = integrate_step(world, Inputs(q, v, tau), INTEGRATORS[mode])
    return np.concatenate([after.q, after.v]), after.residual


def derivatives(world: World, mode: Mode, x: Array, tau: Array) -> tuple[Array, Array]:
    """(d result / d state, d result / d torque)."""
    q, v, third = _split(world, x)
    h, n = world.h, len(v)
    zero = np.zeros((n, n))
    if mode is Mode.INVERSE_I:
        return np.hstack(inverse.inverse_step_derivatives(world, q, v, third)), zero
    if mode is Mode.INVERSE_LF:
        return np.hstack(inverse.limiting_inverse_derivatives(world, q, v, third)), zero
    if mode is Mode.INVERSE_BACKWARD_RK1F:
        by = _of_end(world, q, v, v - third * h)
        return np.hstack([by.by_q1, by.by_v1 + by.by_v, by.by_v * -h]), zero
    if mode is Mode.BACKWARD_RK1F:
        by = _of_end(world, q, v, third)
        return np.hstack([by.by_q1, by.by_v1, by.by_v]), -np.eye(n)
    if mode is Mode.FORWARD_LF:
        _, by_q, by_v, by_tau = inverse.limiting_forward_derivatives(world, q, v, tau)
        return np.block([[zero, np.eye(n)], [by_q, by_v]]), np.vstack([zero, by_tau])
    if mode is Mode.FORWARD_I:
        found = next_velocity_derivatives(world, Inputs(q, v, tau))
        of_v = np.hstack([found.by_q, found.by_v])
        of_a = np.hstack([found.by_q, found.by_v - np.eye(n)]) * (1.0 / h)
        return np.vstack([of_v, of_a]), np.vstack([found.by_u, found.by_u * (1.0 / h)])
    both = step_jacobian(world, Inputs(q, v, tau), INTEGRATORS[mode])
    return both.A, both.B


def _of_end(world: World, q: Array, v1: Array, v: Array) -> ResidualJacobians:
    start = StartOfStep.of(world, q, v)
    return backward_residual_derivatives(world, ForceBalance.of_end(world, q, v1, start), start)


def _split(world: World, x: Array) -> tuple[Array, Array, Array]:
    n = world.model.nv
    return x[:n], x[n : 2 * n], x[2 * n :]


def kernel(world: World, mode: Mode, *, with_derivatives: bool) -> Function:
    """The compiled mode: (x, tau, gains) -> (result, residual), or the derivatives by x and tau.

    The torque is  tau + P (target - q) - D v  with gains = (P, D, target), and derivatives by x include it.
    """
    n = world.model.nv
    world = replace(world, implicit=mode not in EXPLICIT)

    def traced(x: Array, tau: Array, gains: Array) -> Any:
        P, D, target = gains
        torque = tau + P * (target - x[:n]) - D * x[n : 2 * n]
        if not with_derivatives:
            result, residual = value(world, mode, x, torque)
            return {"result": result, "residual": residual + 0.0 * x[0]}
        by_x, by_tau = derivatives(world, mode, x, torque)
        by_x = np.array(by_x, dtype=object)
        by_x[:, :n] = by_x[:, :n] - by_tau * P
        by_x[:, n : 2 * n] = by_x[:, n : 2 * n] - by_tau * D
        return {"by_x": by_x, "by_tau": np.array(by_tau, dtype=object) + 0.0 * x[0]}

    traced.__name__ = mode.value.lower() + ("_derivatives" if with_derivatives else "")
    key = f"{trace_key(traced)} {world.key()} {traced.__name__}"
    return Function(cached_trace(key, partial(trace, traced, x=n * len(mode.parts), tau=n, gains=(3, n))))
