"""Logs of joint positions and forces, checked before anything is computed from them; `read_log` of workbench/runs reads files.

    log = Log.of(robot, t, q, tau)            # arrays (T,), (T, n), (T, n)

Rows are one sample of every joint, at a uniform rate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condyle.errors import CondyleError, ControlError
from condyle.multibody.robot import Robot

Array = np.ndarray

JITTER = 1e-3  # of the sample time: times further from uniform ones are resampled, or an error
GAP = 3.0  # sample times: a longer pause is a hole, which nothing is put into
FEWEST = 50  # samples


@dataclass(frozen=True)
class Log:
    """Samples of one motion: times (T,), positions and joint forces (T, n), in the order of the robot's joints; SI units.

    `periodic`: the last row is followed by the first one, as in an average over periods; `repeats`: of how many.
    """

    t: Array
    q: Array
    tau: Array
    v: Array | None = None
    source: str = "log"
    periodic: bool = False
    repeats: int = 1

    @property
    def dt(self) -> float:
        """The sample time, s."""
        return float(self.t[-1] - self.t[0]) / (len(self.t) - 1)

    @property
    def seconds(self) -> float:
        """How long it lasts, s."""
        return self.dt * len(self.t)

    @staticmethod
    def of(
        robot: Robot, t: Any, q: Any, tau: Any, v: Any = None, *, source: str = "log", lead: float = 0.0, resample: bool = False
    ) -> Log:
        """The log of arrays, checked. `lead`: the force of row k acts this long after the position of row k was read, s.

        A force that a controller holds from one sample to the next acts half a sample after its row: lead=dt / 2.
        `resample`: times that are not uniform are made so by linear interpolation.
        """
        t, arrays = np.asarray(t, dtype=float), {"q": q, "tau": tau} | ({} if v is None else {"v": v})
        if t.ndim != 1 or len(t) < FEWEST:
            raise ControlError(f"{source}: a log needs at least {FEWEST} samples, times of shape (T,); got shape {t.shape}")
        checked = {}
        for name, values in arrays.items():
            given = np.asarray(values, dtype=float)
            if given.shape != (len(t), robot.nv):
                raise ControlError(
                    f"{source}: {name} has shape {given.shape}, expected {(len(t), robot.nv)}: a row for each time, a column for "
                    f"each of the {robot.nv} joints of '{robot.name}'"
                )
            checked[name] = given
        for name, given in {"t": t[:, None], **checked}.items():
            if not np.all(np.isfinite(given)):
                row, column = np.argwhere(~np.isfinite(given))[0]
                which = "" if name == "t" else f" of joint '{robot.joint_names[column]}'"
                raise ControlError(f"{source}: {name}{which} is {given[row, column]} in row {row}; remove such rows at the ends")
        log = Log(t, checked["q"], checked["tau"], checked.get("v"), source)
        log = _uniform(log, resample)
        return log if not lead else replace(log, tau=_delayed(log, lead))

    def averaged(self, period: float, skip: float = 0.0) -> Log:
        """The mean over whole periods, s, after `skip` seconds: one period with noise smaller by sqrt(repeats).

        Noise in positions biases estimates by its variance over that of the motion; the mean divides it by `repeats`.
        """
        rows, first = period / self.dt, round(skip / self.dt)
        count = round(rows)
        if not period > 0.0 or abs(rows - count) > 1e-3:
            raise ControlError(
                f"{self.source}: a period of {period:g} s is {rows:.3f} samples of {self.dt:g} s; it must be whole"
            )
        repeats = (len(self.t) - first) // count
        if repeats < 2:
            raise ControlError(
                f"{self.source}: an average needs two periods of {period:g} s; there are {self.seconds - skip:.3g} s after the "
                f"first {skip:g} s"
            )

        def mean(values: Array) -> Array:
            stacked: Array = values[first : first + repeats * count].reshape(repeats, count, -1)
            return np.asarray(stacked.mean(axis=0))

        v = None if self.v is None else mean(self.v)
        t = self.t[first : first + count]
        return replace(self, t=t, q=mean(self.q), tau=mean(self.tau), v=v, periodic=True, repeats=repeats)


# ---- checks


def _uniform(log: Log, resample: bool) -> Log:
    """The log at uniform times."""
    steps = np.diff(log.t)
    dt = float(np.median(steps))
    if np.any(steps <= 0.0):
        row = int(np.argmax(steps <= 0.0)) + 1
        raise ControlError(f"{log.source}: times must increase, but row {row} is at {log.t[row]:g} s after {log.t[row - 1]:g} s")
    off = np.abs(log.t - (log.t[0] + dt * np.arange(len(log.t))))
    mean = (log.t[-1] - log.t[0]) / (len(log.t) - 1)
    off = np.minimum(off, np.abs(log.t - (log.t[0] + mean * np.arange(len(log.t)))))
    if np.max(off) <= JITTER * dt and np.max(np.abs(steps - dt)) <= 2.0 * JITTER * dt:
        return log
    if np.max(steps) > GAP * dt:
        row = int(np.argmax(steps))
        raise ControlError(f"{log.source}: no samples from {log.t[row]:g} s to {log.t[row + 1]:g} s; cut the log there into two")
    if not resample:
        row = int(np.argmax(np.abs(steps - dt)))
        raise ControlError(
            f"{log.source}: the sampling is not uniform, {steps[row]:.3g} s after row {row} where {dt:.3g} s is usual; give "
            "resample=True to interpolate"
        )
    t = np.arange(log.t[0], log.t[-1] + 0.5 * mean, mean)[: len(log.t)]

    def at(values: Array) -> Array:
        return np.column_stack([np.interp(t, log.t, column) for column in values.T])

    return replace(log, t=t, q=at(log.q), tau=at(log.tau), v=None if log.v is None else at(log.v))


def _delayed(log: Log, lead: float) -> Array:
    """The forces at the times of the positions, where that of row k acts at t_k + lead: linear between rows."""
    try:
        late = log.t + float(lead)
    except (TypeError, ValueError):
        raise CondyleError(f"lead must be a time in s, got {lead!r:.40}") from None
    return np.column_stack([np.interp(log.t, late, column) for column in log.tau.T])
