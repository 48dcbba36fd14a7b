"""Logs of joint positions and forces, from runs, CSV tables and MCAP bags, checked before anything is computed from them.

    log = read_log(robot, "log.csv")          # columns t, q.NAME, u.NAME for every joint; v.NAME is kept if it is there
    log = Log.of(robot, t, q, tau)            # arrays (T,), (T, n), (T, n)

Rows are one sample of every joint, at a uniform rate. Joints may stand in any order in a file, by their names.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from condyle.atomic_write import READ_ADVICE, PathLike, file_errors
from condyle.errors import CondyleError, ControlError, FileError
from condyle.multibody.robot import Robot
from condyle.robot.names import nearest
from condyle.runs.convert import import_run
from condyle.runs.run import Run

Array = np.ndarray

JITTER = 1e-3  # of the sample time: times further from uniform ones are resampled, or an error
GAP = 3.0  # sample times: a longer pause is a hole, which nothing is put into
FEWEST = 50  # samples
FORCES = ("u", "tau", "effort")  # prefixes of columns with joint forces
# when the force of row k acts, in sample times after row k, as the positions of each integrator show it
LEADS = {"semi_implicit_euler": 0.0, "backward_euler": 0.0, "explicit_euler": 1.0}


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
            raise ControlError(f"{self.source}: a period of {period:g} s is {rows:.3f} samples of {self.dt:g} s; it must be whole")
        repeats = (len(self.t) - first) // count
        if repeats < 2:
            raise ControlError(
                f"{self.source}: an average needs two periods of {period:g} s; there are {self.seconds - skip:.3g} s after the "
                f"first {skip:g} s"
            )

        def mean(values: Array) -> Array:
            stacked: Array = values[first : first + repeats * count].reshape(repeats, count, -1)
            return stacked.mean(axis=0)

        v = None if self.v is None else mean(self.v)
        t = self.t[first : first + count]
        return replace(self, t=t, q=mean(self.q), tau=mean(self.tau), v=v, periodic=True, repeats=repeats)


def read_log(
    robot: Robot,
    source: PathLike | Run,
    *,
    position: str | None = None,
    force: str | None = None,
    lead: float | None = None,
    resample: bool = False,
) -> Log:
    """The log of a run (.cdl or `cd.Run`), of a CSV table, or of an MCAP bag, for the joints of the robot.

    `position`, `force`: names of recorded signals of a run, (T, n), in the place of its true q and u: what sensors measured.
    `lead`: see `Log.of`; by default zero for tables and bags, and for runs what their integrator makes of a held force.
    """
    if isinstance(source, Run):
        return _of_run(robot, source, position, force, lead)
    path = Path(source)
    with file_errors(path, "read", READ_ADVICE), open(path, "rb") as stream:
        start = stream.read(16)
    if start.startswith(b"# condyle run") or path.suffix.lower() == ".cdl":
        return _of_run(robot, import_run(path), position, force, lead)
    if position is not None or force is not None:
        raise ControlError(f"{path}: position= and force= name signals of a run; a table has columns q.NAME and u.NAME")
    if path.suffix.lower() == ".mcap" or start.startswith(b"\x89MCAP"):
        return _of_bag(robot, path, lead, resample)
    if path.suffix.lower() != ".csv":
        raise FileError(f"{path} is no log: give a run (.cdl), a table (.csv) or a bag (.mcap).")
    return _of_table(robot, path, lead or 0.0, resample)


# ---- runs


def _of_run(robot: Robot, run: Run, position: str | None, force: str | None, lead: float | None) -> Log:
    source = str(run.path or run.title)
    if np.any(run.wrenches):
        raise ControlError(f"{source}: wrenches act on the robot during the run; identification needs a motion without them")
    columns = run.about["columns"]
    q_names = [str(row[0]).removeprefix("q.") for row in columns["x"][: run.about["nq"]]]
    u_names = [str(row[0]).partition(".")[2] for row in columns["u"]]
    at_q, at_u = _order(robot, q_names, "positions", source), _order(robot, u_names, "joint forces", source)
    q, tau = run.q[:-1][:, at_q], run.u[:, at_u]
    for name, what in ((position, "position"), (force, "force")):
        if name is None:
            continue
        if name not in run.extras:
            raise ControlError(f"{source}: {what}='{name}' was not recorded{nearest(name, list(run.extras))}")
        given = run.extras[name]
        if given.shape != tau.shape:
            raise ControlError(f"{source}: '{name}' has shape {given.shape}, expected {tau.shape}")
        q, tau = (given, tau) if what == "position" else (q, given)
    if lead is None:
        config = run.about.get("simulation") or {}
        lead = _run_lead(config) * run.dt
    v = None if position is not None else run.v[:-1][:, at_q]
    return Log.of(robot, run.t[:-1], q, tau, v, source=source, lead=lead)


def _run_lead(config: Mapping[str, Any]) -> float:
    """When a held force acts, in steps after its state: a step of n Euler substeps has n forces, the first one at once."""
    options = config.get("config", config)
    kind, substeps = options.get("integrator", "semi_implicit_euler"), int(options.get("substeps", 1) or 1)
    return LEADS.get(kind, 0.5) / substeps + (0.5 * (1.0 - 1.0 / substeps) if kind in LEADS else 0.0)


# ---- tables


def _of_table(robot: Robot, path: Path, lead: float, resample: bool) -> Log:
    with file_errors(path, "read", READ_ADVICE), open(path, newline="", encoding="utf-8-sig") as stream:
        rows = [row for row in csv.reader(stream) if row and not row[0].startswith("#") and any(cell.strip() for cell in row)]
    if len(rows) < 2:
        raise FileError(f"{path} has no rows: give a table with a line of names (t, q.NAME, u.NAME) and one line per sample.")
    names = [cell.strip() for cell in rows[0]]
    prefix = next((p for p in FORCES if any(name.startswith(f"{p}.") for name in names)), "u")
    if "t" not in names:
        raise FileError(f"{path} has no column 't', the time in s{nearest('t', names)}.")
    places = {"t": [names.index("t")]}
    for what, start in (("q", "q"), ("tau", prefix)):
        places[what] = [_column(path, names, f"{start}.{joint}") for joint in robot.joint_names]
    if all(f"v.{joint}" in names for joint in robot.joint_names):
        places["v"] = [names.index(f"v.{joint}") for joint in robot.joint_names]
    # a run's last row is a state without forces
    body = rows[1:-1] if len(rows) > 2 and any(not _cell(rows[-1], k) for k in places["tau"]) else rows[1:]
    values = {what: np.array([[_number(path, n, row, k) for k in at] for n, row in enumerate(body, 2)]) for what, at in places.items()}
    source = path.name
    return Log.of(
        robot, values["t"][:, 0], values["q"], values["tau"], values.get("v"), source=source, lead=lead, resample=resample
    )


def _column(path: Path, names: Sequence[str], wanted: str) -> int:
    if wanted not in names:
        raise FileError(f"{path} has no column '{wanted}'{nearest(wanted, list(names))}.")
    return names.index(wanted)


def _cell(row: Sequence[str], k: int) -> str:
    return row[k].strip() if k < len(row) else ""


def _number(path: Path, line: int, row: Sequence[str], k: int) -> float:
    try:
        return float(_cell(row, k))
    except ValueError:
        raise FileError(f"{path}: row {line} has {_cell(row, k)!r:.40} in column {k + 1}, which is not a number.") from None


# ---- bags


def _of_bag(robot: Robot, path: Path, lead: float | None, resample: bool) -> Log:
    """A run that was exported as MCAP, or the joint states of a ROS 2 bag."""
    try:
        return _of_run(robot, import_run(path), None, None, lead)
    except FileError as error:
        reason = error
    if find_spec("condyle.runs.bags") is None:
        raise FileError(f"{path} is not a run that was exported as MCAP ({reason}); write the joint states as a CSV table.")
    found = import_module("condyle.runs.bags").read_joint_states(path)
    names = list(found["name"] if isinstance(found, Mapping) else found.names)
    at = _order(robot, names, "joint states", str(path))
    parts = {
        what: np.asarray(found[what] if isinstance(found, Mapping) else getattr(found, what), dtype=float)
        for what in ("t", "position", "effort")
    }
    return Log.of(
        robot, parts["t"], parts["position"][:, at], parts["effort"][:, at], source=path.name, lead=lead or 0.0, resample=resample
    )


# ---- checks


def _order(robot: Robot, names: Sequence[str], what: str, source: str) -> list[int]:
    for joint in robot.joint_names:
        if joint not in names:
            raise ControlError(f"{source} has no {what} of joint '{joint}' of robot '{robot.name}'{nearest(joint, list(names))}")
    return [list(names).index(joint) for joint in robot.joint_names]


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
