"""Nonlinear model-predictive control of an airframe: the real-time iteration on its single-body model, as a block.

    nmpc = Nmpc(airframe, every=2)                       # every 10 ms in a loop with ticks of 5 ms
    command = nmpc(state, reference)                     # thrusts, then gimbal commands

The cost, over 20 intervals of 0.1 s: errors of position, velocity, attitude (x, y, z of conj(q_ref) q), rate, angle and thrust,
and command - angle. Thrusts, angles and commands have hard bounds, velocity and rate soft ones, so that a gust does not make the
problem infeasible. An attitude that cannot be reached ends at the best compromise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from condyle.apps.flight.allocation import Allocation, attitude_error
from condyle.apps.flight.references import Samples, Trajectory, state_references, with_preview
from condyle.apps.flight.single_body import SingleBody, single_body
from condyle.errors import ControlError
from condyle.methods.mpc.block import SolverBlock
from condyle.methods.mpc.problem import Problem, ocp
from condyle.methods.mpc.solver import FAILED, STOPPED
from condyle.tape.array import array, where

STAGES, INTERVAL = 20, 0.1  # s
POSITION, VELOCITY, ATTITUDE, RATE, ANGLE = (300.0, 300.0, 400.0), 10.0, (300.0, 300.0, 600.0), 5.0, 1.0
THRUST, MOTION = 1.0, 250.0  # weights of thrusts, and of command - angle
MAX_VELOCITY, MAX_RATE = 1.0, 6.0  # m/s and rad/s, soft
SOFT = 2000.0  # weight of the squared excess
DISTURBANCES = ("force", "torque")


def state_error(body: SingleBody, x: Any, r: Any) -> Any:
    """Errors of position, velocity, attitude, rate and angle for a row of `state_references`."""
    angle = 13 + body.n_g
    parts = [x[:6] - r[:6], attitude_error(r[6:10], x[6:10]), x[10:13] - r[10:13]]
    return np.concatenate([*parts, x[13:angle] - r[13 + body.n :]] if body.n_g else parts)


def problem(
    body: SingleBody,
    *,
    stages: int = STAGES,
    interval: float = INTERVAL,
    max_velocity: float | None = MAX_VELOCITY,
    max_rate: float | None = MAX_RATE,
    thrust: Any = None,
    angle: Any = None,
    soft: float = SOFT,
) -> Problem:
    """The optimal control problem; "mass", "gravity", "drag", "force" (world) and "torque" (body) are its parameters.

    `thrust`, `angle`: limits (low, high) instead of the airframe's.
    """
    body = replace(body, model=None)
    n, g = body.n, body.n_g
    bounds: dict[str, Any] = {"thrust": _limits("thrust", thrust, body.thrust)}
    if g:
        bounds |= dict.fromkeys(("angle", "command"), _limits("angle", angle, body.angle))
    bounds |= {} if max_velocity is None else {"velocity": _positive("max_velocity", max_velocity)}
    bounds |= {} if max_rate is None else {"rate": _positive("max_rate", max_rate)}

    def residual(x: Any, u: Any, r: Any) -> Any:
        parts = [state_error(body, x, r), u[:n] - r[13 : 13 + n]]
        return np.concatenate([*parts, u[n:] - x[13 : 13 + g]] if g else parts)

    weights = state_weights(body)
    return ocp(
        lambda x, u, p: body.derivative(x, u, p),
        N=stages,
        dt=interval,
        x=body.parts,
        u={"thrust": n, **({"command": g} if g else {})},
        residual=residual,
        weights=[*weights, *[THRUST] * n, *[MOTION] * g],
        terminal_residual=lambda x, r: state_error(body, x, r),
        terminal_weights=weights,
        reference=reference_size(body),
        parameters=body.defaults(),
        bounds=bounds,
        soft={name: soft for name in ("velocity", "rate") if name in bounds},
    )


def state_weights(body: SingleBody) -> list[float]:
    """Weights of `state_error`."""
    return [*POSITION, *[VELOCITY] * 3, *ATTITUDE, *[RATE] * 3, *[ANGLE] * body.n_g]


def reference_size(body: SingleBody) -> int:
    """Numbers of a row of references: position, velocity, quaternion, rate, thrusts, angles."""
    return 13 + body.n + body.n_g


class Nmpc(SolverBlock):
    """The controller as a block: (measured state, reference) -> (thrust commands, gimbal commands).

    `reference`: a row of `references`, for all stages, or with `preview=True` all stages in one row. Parameters, one for all
    robots or one each: "mass", "gravity", "drag", "weights", "terminal_weights". `force` (world, N) and `torque` (body, N m) of
    the call are a disturbance that the prediction holds constant (`OffsetFreeNmpc`). A state that is not finite keeps
    the last plan; "nmpc.failures" counts those solves, and "nmpc.unconverged" those that reached their limit of iterations.
    """

    def __init__(
        self,
        airframe: Any,
        *,
        gravity: float = 9.81,
        every: int = 1,
        preview: bool = False,
        start: Any = None,
        name: str = "nmpc",
        qp_iterations: int = 15,
        **options: Any,
    ) -> None:
        self.body = airframe if isinstance(airframe, SingleBody) else single_body(airframe, gravity)
        self.allocation, self.preview = Allocation(self.body), preview
        made = problem(self.body, **options)
        first = self.body.state() if start is None else np.asarray(start, dtype=float)
        if first.shape != (self.body.nx,):
            raise ControlError(f"block '{name}': start is a state of the single body, ({self.body.nx},), got shape {first.shape}")
        super().__init__(made.rti(qp_iterations=qp_iterations), first, self.body.trim(), name=name, every=every)
        own, units = self.body.defaults(), {"mass": "kg", "gravity": "m/s^2", "drag": "m"}
        self.own = {key: self.parameter(key, own[key], unit) for key, unit in units.items()}
        self.own |= {key: self.parameter(key, made.data[key].default, "") for key in ("weights", "terminal_weights")}
        self.state("failures", 0.0)
        self.state("unconverged", 0.0)

    @property
    def reference_size(self) -> int:
        """Numbers of a reference of the loop."""
        return reference_size(self.body) * (self.solver.problem.N + 1 if self.preview else 1)

    def references(self, trajectory: Trajectory | Samples, times: Any) -> np.ndarray:
        """(times, reference_size): what to follow at evenly spaced times."""
        samples = trajectory if isinstance(trajectory, Samples) else trajectory.sample(times)
        rows = state_references(self.allocation, samples)
        if not self.preview:
            return rows
        t = np.atleast_1d(np.asarray(times, dtype=float))
        every = round(float(np.asarray(self.solver.problem.intervals)[0]) / float(t[1] - t[0])) if len(t) > 1 else 1
        return with_preview(rows, self.solver.problem.N + 1, max(every, 1)).reshape(len(rows), -1)

    def step(self, state: dict[str, Any], *inputs: Any, **data: Any) -> tuple[Any, dict[str, Any]]:
        """(command, next plan) for (measured state, reference); `force`, `torque`: of a disturbance."""
        x, reference = inputs
        unknown = [key for key in data if key not in DISTURBANCES]
        if unknown:
            raise ControlError(f"block '{self.name}' takes force= and torque= of a disturbance, not {unknown[0]}=")
        size = reference_size(self.body)
        rows = np.asarray(reference, dtype=object).reshape(-1, size)
        # of the two quaternions of an attitude the one that is closer to the present one
        sign = where(rows[0, 6:10] @ x[6:10] < 0.0, -1.0, 1.0)
        rows = array([[*row[:6], *(row[6:10] * sign), *row[10:]] for row in rows])
        rows = rows[0] if len(rows) == 1 else rows
        given = {key: each.resolve() for key, each in self.own.items()}
        before = {key: value for key, value in state.items() if key not in ("failures", "unconverged")}
        u, after = super().step(before, x, reference=rows, **given, **data)
        counts = {
            "failures": state["failures"] + where(after["status"] >= FAILED, 1.0, 0.0),
            "unconverged": state["unconverged"] + where(abs(after["status"] - STOPPED) < 0.5, 1.0, 0.0),
        }
        return u, {**after, **counts}


def _limits(name: str, given: Any, own: np.ndarray) -> tuple[Any, Any]:
    found = np.broadcast_to(own if given is None else np.asarray(given, dtype=float), own.shape)
    if not (np.isfinite(found).all() and (found[:, 0] < found[:, 1]).all()):
        raise ControlError(f"{name} has limits (low, high), finite and low < high; got {given!r:.60}")
    return found[:, 0].tolist(), found[:, 1].tolist()


def _positive(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not (np.isfinite(value) and value > 0.0):
        raise ControlError(f"{name} must be finite and above zero, or None for no bound; got {value!r:.40}")
    return float(value)
