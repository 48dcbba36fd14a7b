"""Excitation trajectories: finite Fourier series of every joint, within limits, that make identification well conditioned.

    q_j(t) = c_j + sum over k of  A_jk sin(k w t) + B_jk cos(k w t),    w = 2 pi / period

(Swevers and others 1997). sum k A_jk = 0 and sum k^2 B_jk = 0, so a motion begins and ends at rest, without acceleration, and
repeats smoothly: `periods` of them can be averaged. Coefficients and centres maximise log det of the information about the base
parameters (D-optimality) by projected gradient steps from several starts; the gradient comes from the reverse derivative of the
compiled regressor.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from io import StringIO
from typing import Any

import numpy as np

from condyle.atomic_write import PathLike, write_bytes
from condyle.errors import ControlError
from condyle.methods.identify.base_parameters import BaseParameters, base_parameters
from condyle.methods.identify.regressor import DEFAULT_TERMS, Array, Regressor
from condyle.methods.planning.profiles import Sample, column, is_traced
from condyle.methods.planning.robot_distances import RobotDistances
from condyle.multibody.robot import Robot

MARGIN = 0.98  # of every limit that is used
SAMPLES = 16  # per harmonic and period, at which information and limits are computed
CHECKED = 64  # per harmonic and period, at which the found motion is checked
FASTEST_START = 0.5  # s: a joint reaches its speed limit in this time, where no acceleration limit is given
SMOOTH = 0.03  # of the speed limit: below it, dry friction is smooth while searching
UNLIMITED = 2.0  # rad/s or m/s: speed of a joint without a limit
RANGE = np.pi  # rad or m: how far a joint without limits may go from its centre


@dataclass(frozen=True)
class FourierMotion:
    """A periodic motion of all joints; `at(t)` gives position, velocity and acceleration, also traced in a loop.

    `condition`: condition number of the regressor along it, with columns of length one; `information`: log det of the
    information.
    """

    centre: Array  # (n,)
    sines: Array  # (harmonics, n)
    cosines: Array  # (harmonics, n)
    period: float  # s
    periods: int = 1
    joints: tuple[str, ...] = ()
    condition: float = np.nan
    information: float = np.nan

    @property
    def duration(self) -> float:
        """How long it lasts, s."""
        return self.period * self.periods

    @property
    def start(self) -> Array:
        """The configuration at both ends, (n,)."""
        return np.asarray(self.centre + self.cosines.sum(axis=0))

    def at(self, t: Any) -> Sample:
        """Position, velocity and acceleration at time t, s; at rest before 0 and after `duration`.

        t: a float, an array or a traced number; results (*t.shape, joints).
        """
        t = t if is_traced(t) else np.asarray(t, dtype=float)
        w = 2.0 * np.pi / self.period
        angle = np.minimum(np.maximum(t, 0.0), self.duration) * w
        s1, c1 = column(np.sin(angle)), column(np.cos(angle))
        s, c = s1, c1
        q, v, a = self.centre + 0.0 * s1, 0.0 * self.centre * s1, 0.0 * self.centre * s1
        for k, (A, B) in enumerate(zip(self.sines, self.cosines, strict=True), 1):
            q = q + (s * A + c * B)
            v = v + (c * A - s * B) * (k * w)
            a = a - (s * A + c * B) * (k * w) ** 2
            s, c = s * c1 + c * s1, c * c1 - s * s1
        return Sample(q, v, a)

    def repeated(self, periods: int) -> FourierMotion:
        """The same motion with another number of periods."""
        if not periods >= 1:
            raise ControlError(f"a motion needs at least one period, got {periods}")
        return replace(self, periods=int(periods))

    def save(self, path: PathLike, dt: float = 0.001) -> None:
        """None; a CSV table of t, q.NAME, v.NAME, a.NAME at every `dt`, written atomically."""
        if not 0.0 < dt <= self.period:
            raise ControlError(f"the sample time must be positive and at most one period, got {dt!r:.20} s")
        t = dt * np.arange(round(self.duration / dt) + 1)
        text = StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(["t", *[f"{what}.{name}" for what in "qva" for name in self.joints]])
        rows.writerows(np.column_stack([t, *self.at(t)]).tolist())
        write_bytes(path, text.getvalue().encode())


def excitation(
    robot: Robot,
    *,
    period: float = 10.0,
    periods: int = 2,
    harmonics: int = 5,
    terms: Any = DEFAULT_TERMS,
    centre: Any = None,
    reach: Any = None,
    speed: Any = None,
    acceleration: Any = None,
    torque: Any = None,
    noise: Any = None,
    distances: RobotDistances | None = None,
    margin: float = 0.02,
    iterations: int = 150,
    starts: int = 6,
    seed: int = 0,
) -> FourierMotion:
    """The excitation of an arm with the most information about its base parameters, within its limits.

    `centre`: (n,), about which it begins to search, the middle of the limits (zero without) by default; `reach`: rad, how far a
    joint may go from there. `speed`, `acceleration`: limits, one or one for each joint; by default those of the robot, and the
    speed limit in half a second. `torque`: N m, of the nominal model, the robot's effort limits by default. `noise`: standard
    deviation of the measured force of each joint, by default proportional to its torque limit. `distances`: what
    `condyle.methods.planning.robot_distances` gives: all distances stay above `margin`, m.
    """
    n = robot.nv
    base = base_parameters(Regressor(robot, terms))
    if not (period > 0.0 and harmonics >= 2 and periods >= 1 and starts >= 1 and iterations >= 1):
        raise ControlError(
            "an excitation needs a positive period, at least two harmonics, one period, one start and one iteration"
        )
    lower, upper = np.asarray(robot.lower, dtype=float), np.asarray(robot.upper, dtype=float)
    bounded = np.isfinite(lower) & np.isfinite(upper)
    middle = np.where(bounded, 0.5 * (np.where(bounded, lower, 0.0) + np.where(bounded, upper, 0.0)), 0.0)
    q0 = _per_joint("centre", middle if centre is None else centre, n, signed=True)
    far = _per_joint("reach", RANGE if reach is None else reach, n)
    lower, upper = np.maximum(lower, q0 - far), np.minimum(upper, q0 + far)
    if np.any(lower >= upper):
        raise ControlError("the centre of the excitation is outside of the joint limits")
    fastest = robot.velocity_limits
    V = _per_joint("speed", np.where(np.isfinite(fastest), fastest, UNLIMITED) if speed is None else speed, n)
    acc = _per_joint("acceleration", V / FASTEST_START if acceleration is None else acceleration, n)
    effort = _per_joint("torque", robot.effort_limits if torque is None else torque, n, infinite=True)
    sigma = _noise_scale(base, effort) if noise is None else _per_joint("noise", noise, n)
    search = _Search(base, period, harmonics, (lower, upper), (V, acc, effort), sigma, distances, margin)
    return search.best(q0, periods, iterations, starts, np.random.default_rng(seed))


class _Search:
    """Projected gradient ascent of log det; every row of a batch is one start."""

    def __init__(
        self,
        base: BaseParameters,
        period: float,
        harmonics: int,
        reach: Any,
        limits: Any,
        sigma: Array,
        distances: Any,
        margin: float,
    ) -> None:
        self.base, self.period, self.K = base, float(period), int(harmonics)
        room = 0.5 * (1.0 - MARGIN) * (reach[1] - reach[0])
        self.lower, self.upper = reach[0] + room, reach[1] - room
        self.V, self.A, self.effort = limits
        self.sigma, self.distances, self.margin = sigma, distances, float(margin)
        k = np.arange(1, self.K + 1)
        # zero speed and acceleration at the ends: the coefficients lie in a null space
        ends = np.zeros((2, 2 * self.K))
        ends[0, : self.K], ends[1, self.K :] = k, k**2
        _, _, Vt = np.linalg.svd(ends)
        self.Z = Vt[2:].T
        self.grid = self._grid(SAMPLES)
        smooth = Regressor(base.regressor.robot, base.regressor.terms, friction_speed=SMOOTH * float(np.min(self.V)))
        self.smooth, self.pullback = smooth, smooth.function.vjp(("q", "v", "a"))

    def _grid(self, per_harmonic: int) -> tuple[Array, Array, Array]:
        """Matrices of coefficients to q - c, v and a at the times of one period, (M, 2 K) each."""
        t = self.period * np.arange(per_harmonic * self.K) / (per_harmonic * self.K)
        kw = 2.0 * np.pi / self.period * np.arange(1, self.K + 1)
        s, c = np.sin(t[:, None] * kw), np.cos(t[:, None] * kw)
        return np.hstack([s, c]), np.hstack([c * kw, -s * kw]), np.hstack([-s * kw**2, -c * kw**2])

    def projected(self, y: Array, centre: Array, grid: Any = None) -> tuple[Array, Array]:
        """(y, centre) with every joint at its nearest limit: of position, speed or acceleration; (R, 2 K - 2, n), (R, n)."""
        Q, dQ, ddQ = (G @ self.Z @ y for G in (grid or self.grid))
        high, low = Q.max(axis=1), Q.min(axis=1)
        used = np.maximum(np.abs(dQ).max(axis=1) / self.V, np.abs(ddQ).max(axis=1) / self.A)
        used = np.maximum(used, (high - low) / (self.upper - self.lower)) / MARGIN
        scale = 1.0 / np.maximum(used, 1e-12)
        high, low = high * scale, low * scale
        centre = np.minimum(np.maximum(centre, self.lower - low), self.upper - high)
        return y * scale[:, None, :], centre

    def value(self, y: Array, centre: Array) -> tuple[Array, Array, Array]:
        """(log det of the information less penalties, its gradient by y and by the centre)."""
        q, v, a = (G @ self.Z @ y for G in self.grid)
        q = q + centre[:, None, :]
        index, chosen = self.smooth.index, self.base.independent
        full = np.asarray(self.smooth.function(q, v, a))
        Y = full[..., index][..., chosen] / self.sigma[:, None]
        W = Y.reshape(len(y), -1, Y.shape[-1])
        N = np.swapaxes(W, 1, 2) @ W
        _, value = np.linalg.slogdet(N)
        by_Y = 2.0 * (W @ np.linalg.pinv(N, rcond=1e-13, hermitian=True)).reshape(Y.shape) / self.sigma[:, None]
        weight = np.zeros_like(full)
        weight[..., index[chosen]] = by_Y
        by_q, by_v, by_a = (np.asarray(g) for g in self.pullback(q, v, a, weight))
        if self.distances is not None:
            d, J = self.distances.with_jacobian(q)
            inside = np.maximum(2.0 * self.margin - d, 0.0) / self.margin
            value = value - np.sum(inside**2, axis=(1, 2))
            by_q = by_q + np.einsum("rmp,rmpj->rmj", 2.0 * inside / self.margin, J)
        Gq, Gv, Ga = (G @ self.Z for G in self.grid)
        by_y = Gq.T @ by_q + Gv.T @ by_v + Ga.T @ by_a
        return value, by_y, by_q.sum(axis=1)

    def best(self, q0: Array, periods: int, iterations: int, starts: int, rng: np.random.Generator) -> FourierMotion:
        """The motion of the best start."""
        n = len(q0)
        y = rng.normal(size=(starts, 2 * self.K - 2, n))
        centre = q0 + rng.uniform(-0.3, 0.3, (starts, n)) * (np.arange(starts) > 0)[:, None]
        y, centre = self.projected(y, centre)
        size = np.abs(y).mean(axis=(1, 2), keepdims=True)
        m, s = [np.zeros_like(y), np.zeros_like(centre)], [np.zeros_like(y), np.zeros_like(centre)]
        top, kept = np.full(starts, -np.inf), (y.copy(), centre.copy())
        for k in range(iterations):
            value, *gradient = self.value(y, centre)
            better = (value > top) & np.isfinite(value)
            top = np.where(better, value, top)
            for old, new in zip(kept, (y, centre), strict=True):
                old[better] = new[better]
            # Adam, with a step that shrinks
            rate = 0.15 * (1.0 - k / iterations) + 0.01
            for i, g in enumerate(gradient):
                m[i], s[i] = 0.9 * m[i] + 0.1 * g, 0.98 * s[i] + 0.02 * g * g
                step = m[i] / (1.0 - 0.9 ** (k + 1)) / (np.sqrt(s[i] / (1.0 - 0.98 ** (k + 1))) + 1e-12)
                if i == 0:
                    y = y + rate * size * step
                else:
                    centre = centre + rate * 0.5 * step
            y, centre = self.projected(y, centre)
        return self._chosen(*kept, top, periods)

    def _chosen(self, y: Array, centre: Array, value: Array, periods: int) -> FourierMotion:
        """The best start that respects torques and distances; amplitudes are reduced where they must be."""
        fine, reasons = self._grid(CHECKED), []
        for r in np.argsort(-value):
            here, c = self.projected(y[r : r + 1], centre[r : r + 1], fine)
            for factor in (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3):
                motion = self._motion(here[0] * factor, c[0], periods)
                reason = self._violation(motion)
                if reason is None:
                    return self._judged(motion)
            reasons.append(reason)
        raise ControlError(f"no excitation was found within the limits: {reasons[0]}; give another centre, or a smaller reach")

    def _motion(self, y: Array, centre: Array, periods: int) -> FourierMotion:
        C = self.Z @ y
        joints = tuple(self.base.regressor.robot.joint_names)
        return FourierMotion(centre, C[: self.K], C[self.K :], self.period, int(periods), joints)

    def _times(self) -> Array:
        return self.period * np.arange(CHECKED * self.K) / (CHECKED * self.K)

    def _violation(self, motion: FourierMotion) -> str | None:
        """What a motion does that it must not; None if it respects torques and distances."""
        robot = self.base.regressor.robot
        q, v, a = motion.at(self._times())
        tau = np.abs(robot.inverse_dynamics(q, v, a, passive=True)).max(axis=0)
        if np.any(tau > self.effort):
            j = int(np.argmax(tau / self.effort))
            return f"joint {robot.joint_names[j]} needs {tau[j]:.3g} N m and has {self.effort[j]:.3g} N m"
        if self.distances is not None:
            d = np.asarray(self.distances(q)).min(axis=0)
            if d.min() < self.margin:
                return f"{self.distances.names[int(np.argmin(d))]} come as near as {d.min():.3g} m"
        return None

    def _judged(self, motion: FourierMotion) -> FourierMotion:
        """The motion with its condition number and information."""
        t = self._times()[:: CHECKED // SAMPLES]
        Y = self.base.regressor(*motion.at(t))[..., self.base.independent] / self.sigma[:, None]
        W = Y.reshape(-1, Y.shape[-1])
        s = np.linalg.svd(W / np.maximum(np.linalg.norm(W, axis=0), 1e-300), compute_uv=False)
        information = float(np.linalg.slogdet(W.T @ W)[1])
        return replace(motion, condition=float(s[0] / max(s[-1], 1e-300)), information=information)


def _noise_scale(base: BaseParameters, effort: Array) -> Array:
    """Torque limits where there are some, else the sizes of the nominal forces at random states."""
    q, v, a = base.regressor.random_states(100)
    tau = np.sqrt(np.mean(np.asarray(base.regressor.robot.inverse_dynamics(q, v, a)) ** 2, axis=0))
    finite = np.isfinite(effort)
    scale: Array = np.where(finite, np.where(finite, effort, 0.0), np.maximum(tau, 1e-6))
    return np.asarray(scale / np.max(scale))


def _per_joint(name: str, value: Any, n: int, *, signed: bool = False, infinite: bool = False) -> Array:
    try:
        given = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        given = np.asarray(np.nan)
    good = np.all(np.isfinite(given) | (infinite & (given == np.inf))) and (signed or np.all(given > 0.0))
    if given.shape not in ((), (n,)) or not good:
        kind = "a finite number" if signed else "a positive number"
        raise ControlError(f"{name} must be {kind}, or one for each of {n} joints; got {value!r:.60}")
    return np.array(np.broadcast_to(given, (n,)))
