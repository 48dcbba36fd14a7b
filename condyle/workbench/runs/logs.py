"""Logs for identification from runs, CSV tables and MCAP bags.

    log = read_log(robot, "log.csv")          # columns t, q.NAME, u.NAME for every joint; v.NAME is kept if it is there

Joints may stand in any order in a file, by their names.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from condyle.atomic_write import READ_ADVICE, PathLike, file_errors
from condyle.errors import ControlError, FileError
from condyle.methods.identify.log import Log
from condyle.multibody.robot import Robot
from condyle.robot.names import nearest
from condyle.workbench.runs import bags
from condyle.workbench.runs.convert import import_run
from condyle.workbench.runs.run import Run

FORCES = ("u", "tau", "effort")  # prefixes of columns with joint forces
# when the force of row k acts, in sample times after row k, as the positions of each integrator show it
LEADS = {"semi_implicit_euler": 0.0, "backward_euler": 0.0, "explicit_euler": 1.0}


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
    if path.is_dir():
        return _of_bag(robot, path, lead, resample)
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
    values = {
        what: np.array([[_number(path, n, row, k) for k in at] for n, row in enumerate(body, 2)]) for what, at in places.items()
    }
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
    if not path.is_dir():
        try:
            run = import_run(path)
        except FileError:
            run = None
        if run is not None:
            return _of_run(robot, run, None, None, lead)
    found = bags.read_joint_states(path)
    at = _order(robot, list(found.names), "joint states", str(path))
    q, tau = np.asarray(found.position, dtype=float)[:, at], np.asarray(found.effort, dtype=float)[:, at]
    # the last message of a run has no effort
    rows = len(tau) - 1 if len(tau) and np.all(np.isnan(tau[-1])) else len(tau)
    return Log.of(robot, found.t[:rows], q[:rows], tau[:rows], source=path.name, lead=lead or 0.0, resample=resample)


# ---- columns


def _order(robot: Robot, names: Sequence[str], what: str, source: str) -> list[int]:
    for joint in robot.joint_names:
        if joint not in names:
            raise ControlError(f"{source} has no {what} of joint '{joint}' of robot '{robot.name}'{nearest(joint, list(names))}")
    return [list(names).index(joint) for joint in robot.joint_names]
