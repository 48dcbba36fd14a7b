"""Parameters of a closed loop from a log, by gradients through its simulation: masses, friction, gains, time constants, ...

    min over p, dx_w   sum over windows w of  |y(x_w + dx_w, p) - y_w|^2 / noise^2  +  |dx_w|^2 / start_noise^2

The log is cut into windows (multiple shooting); every window is simulated from its own state x_w, whose error dx_w is unknown
where it was measured. Gauss and Newton's method with Levenberg's damping; the derivatives are forward sensitivities of the
compiled rollout, exact, through solvers of contact and friction too. The dx_w are eliminated window by window, so the normal
equations have the size of p.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np

from condyle.closed_loop.loop import Loop
from condyle.closed_loop.tangent import rollout_jvp
from condyle.errors import ControlError
from condyle.methods.identify.filtering import chosen_cutoff, filtered_motion
from condyle.methods.identify.log import Log
from condyle.methods.identify.regressor import Array
from condyle.robot.names import nearest

ITERATIONS = 200
CONVERGED = 1e-6  # relative decrease of the sum of squares that ends the search
START_NOISE = (1e-3, 2e-2)  # rad and rad/s (m and m/s): of the state at the start of a window, where it comes from a measured log
FRICTION_START = 0.02  # of the size of the joint forces: where the search of a dry friction begins that is zero in the model
CORRELATED = 0.999999  # of two parameters: they cannot be distinguished


@dataclass(frozen=True)
class SimulationFit:
    """What `fit_simulation` found: values by name, their standard errors, intervals, and the size of the residuals."""

    values: dict[str, Any]
    standard_errors: dict[str, Any]
    covariance: Array  # of all entries, in the order of the names
    rms: Array  # of the residuals of each entry of the compared signal
    rms_before: Array
    iterations: int
    confidence: float

    @property
    def intervals(self) -> dict[str, tuple[Any, Any]]:
        """{name: (lower, upper)} of the confidence intervals."""
        z = NormalDist().inv_cdf(0.5 + 0.5 * self.confidence)
        return {name: (self.values[name] - z * e, self.values[name] + z * e) for name, e in self.standard_errors.items()}

    def __repr__(self) -> str:
        z = NormalDist().inv_cdf(0.5 + 0.5 * self.confidence)
        lines = [
            f"{name} = {_shown(self.values[name])} +- {_shown(z * np.asarray(e))}" for name, e in self.standard_errors.items()
        ]
        before, after = np.sqrt(np.mean(self.rms_before**2)), np.sqrt(np.mean(self.rms**2))
        return "\n".join([*lines, f"residual {after:.3g}, {before:.3g} before; {self.iterations} iterations"])


def fit_simulation(
    loop: Loop,
    data: Any,
    names: Sequence[str],
    *,
    start: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    references: Mapping[str, Any] | None = None,
    signal: str = "q",
    measured: Any = None,
    window: float = 0.2,
    start_noise: tuple[float, float] | None = None,
    noise: float | None = None,
    seed: int = 0,
    confidence: float = 0.95,
    iterations: int = ITERATIONS,
) -> SimulationFit:
    """The values of parameters of a loop with which its rollouts match a log best, with confidence intervals.

    `data`: a `cd.Run` of the loop, whose states begin the windows and whose references are used; or a `Log`, whose filtered q
    and v do. `names`: of `loop.parameters`, numbers or vectors. `start`: where the search begins, the defaults by default;
    `parameters`: others that stay as given. `references`: {name: (T, size)} in the place of those of the run; a Log's forces are
    those of the only reference. `signal`: what is compared, a record of the loop after every tick; `measured`: its measured
    values (T, ...), by default the positions of the data. `window`: s. `start_noise`: standard deviations of q and v at the start
    of windows, None for exact states (runs) or usual ones (logs). `noise`: of the signal, by default estimated from the
    residuals.
    """
    names = [names] if isinstance(names, str) else list(names)
    known = loop.parameters
    for name in names:
        if known.require(name, ControlError).shape not in ((), *[(k,) for k in range(1, 33)]):
            raise ControlError(f"'{name}' is a matrix; fit_simulation takes numbers and vectors, identify() gives inertias")
    problem = _Problem(loop, data, names, parameters or {}, references, signal, measured, window, start_noise, noise, seed)
    theta = np.concatenate([np.ravel(_started(name, start or {}, known, data)) for name in names])
    lower = np.concatenate([np.full(np.size(known[name].default), known[name].minimum) for name in names])
    upper = np.concatenate([np.full(np.size(known[name].default), known[name].maximum) for name in names])
    scale = np.maximum(np.abs(theta), 1e-2)

    now = problem.equations(theta, problem.no_errors)
    before, damping, count = now.rms, 1e-3, 0
    while count < iterations:
        count += 1
        step, errors = now.step(scale, damping)
        new = theta + step
        # half-way to a bound, at most
        new = np.where(new <= lower, 0.5 * (theta + lower), np.where(new >= upper, 0.5 * (theta + upper), new))
        trial = problem.equations(new, errors)
        if np.isfinite(trial.cost) and trial.cost <= now.cost:
            ended = now.cost - trial.cost <= CONVERGED * now.cost
            theta, now, damping = new, trial, max(damping / 10.0, 1e-9)
            if ended:
                break
        else:
            damping *= 10.0
            if damping > 1e8:
                break
    else:
        raise ControlError(
            f"fit_simulation did not converge in {iterations} iterations; give a better start=, or shorter windows"
        )
    variance = 1.0 if noise else now.cost / max(problem.freedom - len(theta), 1)
    covariance = _covariance(now.eliminated()[0], names, known) * variance
    errors = np.sqrt(np.diag(covariance))
    return SimulationFit(problem.named(theta), problem.named(errors), covariance, now.rms, before, count, float(confidence))


@dataclass(frozen=True)
class _Equations:
    """The normal equations of parameters p and of the errors dx of the starts, window by window; rms of each entry."""

    cost: float
    rms: Array
    dx: Array  # (windows, k)
    N: Array  # (n_p, n_p): by p and p, with g the gradient
    g: Array
    H: Array  # (windows, k, k): by dx and dx, with e the gradient
    e: Array
    X: Array  # (windows, k, n_p): by dx and p

    def eliminated(self, damping: float = 0.0) -> tuple[Array, Array, Array, Array]:
        """(N, g) of the parameters alone, by a Schur complement, and H^-1 X and H^-1 e."""
        H = self.H + damping * self.H * np.eye(self.H.shape[-1])
        by_p, alone = np.linalg.solve(H, self.X), np.linalg.solve(H, self.e[..., None])[..., 0]
        N = self.N - np.einsum("wka,wkb->ab", self.X, by_p)
        return N, self.g - np.einsum("wka,wk->a", self.X, alone), by_p, alone

    def step(self, scale: Array, damping: float) -> tuple[Array, Array]:
        """(step of the parameters, dx after it), damped as Levenberg and Marquardt do."""
        N, g, by_p, alone = self.eliminated(damping)
        D = np.diag(self.N) * scale**2
        damped = N * np.outer(scale, scale) + damping * np.diag(np.maximum(D, 1e-12 * D.max()))
        dp = -scale * np.linalg.solve(damped, g * scale)
        return dp, self.dx - alone - by_p @ dp


class _Problem:
    """The windows of a log, and the normal equations of all of them at given parameters."""

    def __init__(
        self,
        loop: Loop,
        data: Any,
        names: list[str],
        fixed: Mapping[str, Any],
        references: Any,
        signal: str,
        measured: Any,
        window: float,
        start_noise: tuple[float, float] | None,
        noise: float | None,
        seed: int,
    ) -> None:
        self.loop, self.names, self.fixed, self.signal, self.seed = loop, names, dict(fixed), signal, seed
        if any(name in self.fixed for name in names):
            raise ControlError("a parameter is either fitted or given in parameters=, not both")
        self.shapes = [np.shape(loop.parameters[name].default) for name in names]
        states, rows, positions, dt = _data(loop, data)
        if abs(dt - loop.dt) > 1e-6 * dt:
            raise ControlError(
                f"the log has a sample every {dt:g} s, and the loop a tick every {loop.dt:g} s; they must be the same"
            )
        W = max(round(window / dt), 2)
        count = (len(states) - 1) // W
        if count < 1:
            raise ControlError(f"the log of {dt * (len(states) - 1):.3g} s is shorter than one window of {window:g} s")
        used = np.arange(count * W).reshape(count, W)
        target = positions if measured is None else np.asarray(measured, dtype=float)
        if len(target) < count * W:
            raise ControlError(f"measured has {len(target)} rows, and the log {count * W} ticks; give one row after each tick")
        self.x, self.steps = states[: count * W : W], W
        self.y = target[used]
        given = rows | {name: np.asarray(value, dtype=float) for name, value in (references or {}).items()}
        for name in loop.inputs:
            if name not in given:
                raise ControlError(f"the loop needs the reference '{name}': give references={{'{name}': (T, size)}}")
        self.references = {name: _tiled(given[name], used) for name in loop.inputs}
        loose = START_NOISE if start_noise is None and isinstance(data, Log) else start_noise
        sizes = [_size(loop, "q"), _size(loop, "v")]
        self.loose = np.zeros(0) if loose is None else np.repeat(np.asarray(loose, dtype=float), sizes)
        # a log shows its noise: what the filter takes away
        self.noise = noise or (max(float(np.std(positions - states[1:, : sizes[0]])), 1e-12) if isinstance(data, Log) else 1.0)
        self.no_errors = np.zeros((count, len(self.loose)))
        self.freedom = self.y.size

    def named(self, theta: Array) -> dict[str, Any]:
        """The entries of theta by name."""
        found, at = {}, 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            size = int(np.prod(shape, dtype=int))
            found[name] = theta[at : at + size].reshape(shape) if shape else float(theta[at])
            at += size
        return found

    def equations(self, theta: Array, dx: Array) -> _Equations:
        """The normal equations at parameters and errors of the starts, (windows, 0 or nq + nv)."""
        loop, p, k = self.loop, len(theta), len(self.loose)
        along: dict[str, Any] = {name: np.stack(self._unit(name, p + k))[:, None] for name in self.names}
        if k:
            along["x"] = np.zeros((p + k, 1, loop.nx))
            along["x"][np.arange(p, p + k), 0, np.arange(k)] = 1.0
        x = self.x.copy()
        x[:, :k] += dx
        values = {**self.fixed, **self.named(theta)}
        found, tangents = rollout_jvp(
            loop, x, self.references, self.steps, along=along, parameters=values, record=(self.signal,), seed=self.seed
        )
        off = found[self.signal].reshape(self.y.shape) - self.y
        r = (off / self.noise).reshape(len(x), -1)
        J = np.moveaxis(tangents[self.signal].reshape(p + k, len(x), -1), 0, -1) / self.noise
        Jp, Jx = J[..., :p], J[..., p:]
        prior = 1.0 / self.loose**2
        H, X = np.swapaxes(Jx, 1, 2) @ Jx + np.diag(prior), np.swapaxes(Jx, 1, 2) @ Jp
        e = np.einsum("wra,wr->wa", Jx, r) + dx * prior
        N, g = np.einsum("wra,wrb->ab", Jp, Jp), np.einsum("wra,wr->a", Jp, r)
        cost = float(np.sum(r * r) + np.sum(dx * dx * prior))
        return _Equations(cost, np.sqrt(np.mean(off**2, axis=(0, 1))), dx, N, g, H, e, X)

    def _unit(self, name: str, directions: int) -> list[Array]:
        at = sum(int(np.prod(s, dtype=int)) for s in self.shapes[: self.names.index(name)])
        shape = self.shapes[self.names.index(name)]
        found = np.zeros((directions, int(np.prod(shape, dtype=int))))
        for k in range(found.shape[1]):
            found[at + k, k] = 1.0
        return [row.reshape(shape) for row in found]


# ---- data


def _started(name: str, start: Mapping[str, Any], known: Any, data: Any) -> Array:
    """Where the search of a parameter begins; dry friction not at zero, where nothing depends on it."""
    value = np.asarray(start.get(name, known[name].default), dtype=float)
    if not name.endswith(".friction") or np.any(value):
        return value
    forces = data.tau if isinstance(data, Log) else data.u
    return np.asarray(value + FRICTION_START * float(np.sqrt(np.mean(forces**2))))


def _data(loop: Loop, data: Any) -> tuple[Array, dict[str, Array], Array, float]:
    """(states before and after every tick, references of every tick, positions after every tick, dt)."""
    if hasattr(data, "all_states"):  # a cd.Run
        states = data.all_states
        if states.shape[1] != loop.nx:
            raise ControlError(
                f"the states of the run have {states.shape[1]} entries and those of the loop {loop.nx}: it is another loop"
            )
        missing = [name for name in loop.inputs if name not in data.extras]
        rows = {name: data.extras[name] for name in loop.inputs if name in data.extras}
        if missing and data.loop is not None:
            raise ControlError(f"the run has no reference '{missing[0]}'{nearest(missing[0], list(data.extras))}")
        return states, rows, data.q[1:], data.dt
    if isinstance(data, Log):
        motion = filtered_motion(data, chosen_cutoff(data))
        first = round((motion.t[0] - data.t[0]) / data.dt)
        last = first + len(motion.t)
        states = loop.state(motion.q, motion.v)
        inputs = {name: size for name, size in loop.inputs.items() if np.prod(size, dtype=int) == data.tau.shape[1]}
        rows = {next(iter(inputs)): data.tau[first : last - 1]} if len(loop.inputs) == 1 and inputs else {}
        return np.asarray(states), rows, data.q[first + 1 : last], data.dt
    raise ControlError(f"fit_simulation takes a cd.Run or a condyle.methods.identify.Log, got {type(data).__name__}")


def _tiled(values: Array, used: Array) -> Array:
    """References of every window, (windows, W, size)."""
    rows = values if values.ndim > 1 else np.broadcast_to(values, (used.size, *values.shape))
    if len(rows) < used.size:
        raise ControlError(f"a reference has {len(rows)} rows, and {used.size} ticks are simulated")
    return np.asarray(rows[used])


def _size(loop: Loop, name: str) -> int:
    entries = loop.layout[name][0]
    return int(entries.stop - entries.start)


def _covariance(N: Array, names: Sequence[str], known: Any) -> Array:
    """N^-1; an error names parameters that the log cannot tell apart."""
    labels = [
        f"{name}[{k}]" if np.shape(known[name].default) else name for name in names for k in range(np.size(known[name].default))
    ]
    d = np.sqrt(np.diag(N))
    if np.any(d <= 1e-12 * np.max(d)) or not np.all(np.isfinite(d)):
        raise ControlError(f"the log does not depend on '{labels[int(np.argmin(d))]}': leave it out, or record another motion")
    values, vectors = np.linalg.eigh(N / np.outer(d, d))
    if values[0] < 1.0 - CORRELATED:
        worst = np.argsort(-np.abs(vectors[:, 0]))[:3]
        mixed = ", ".join(labels[int(k)] for k in worst if abs(vectors[k, 0]) > 0.2)
        raise ControlError(f"the log cannot tell {mixed} apart: leave one of them out, or record another motion")
    inverse = (vectors / values) @ vectors.T
    return np.asarray(inverse / np.outer(d, d))


def _shown(value: Any) -> str:
    entries = np.atleast_1d(np.asarray(value, dtype=float))
    text = ", ".join(f"{x:.5g}" for x in entries)
    return f"[{text}]" if np.ndim(value) else text
