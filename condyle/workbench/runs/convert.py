"""Runs for other programs: CSV, Parquet and MCAP files, written atomically and read back bit for bit.

A CSV or Parquet table has a row for each state: t, the state, and then controls, wrenches and further signals that act from it to
the next, which are empty in the last row. What a table cannot hold is one JSON text: in the second line of a CSV file, in the
metadata of the schema of a Parquet file. An MCAP log has messages by topic, and the run file as an attachment.
"""

from __future__ import annotations

import codecs
import csv
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from condyle.atomic_write import READ_ADVICE, PathLike, atomic_file, file_errors
from condyle.errors import CondyleError, FileError, require
from condyle.workbench.runs import file
from condyle.workbench.runs.bags import write_bag
from condyle.workbench.runs.json_codec import DecodeError, decode_text, dumps, loads, printable
from condyle.workbench.runs.run import Run, check_about, made_run, read_run, run_of
from condyle.workbench.runs.signals import extra_names

CSV_FIRST = "# condyle run 2"
CSV_MAX_BYTES = 1 << 34
PARQUET_KEY = b"condyle_run"
PARQUET_MAX_NUMBERS = 1 << 31
MCAP_ATTACHMENT = "run.cdl"
STATES, WRENCHES, SIGNALS = "/joint_states", "/wrenches", "/signals"
WRENCH = ("fx", "fy", "fz", "tx", "ty", "tz")
CHANGED = (
    "the numbers are not those that were exported, somebody changed them: check() says from which step on the states are no "
    "simulation"
)


def export_run(run: Run, path: PathLike, kind: str | None = None) -> None:
    """None; the file holds the run as "csv", "parquet" or "mcap", by default what its name ends in.

    kind="bag": the folder is a bag of ROS 2, see `condyle.workbench.runs.bags.write_bag`.
    """
    if kind == "bag":
        return write_bag(run, path, overwrite=True)
    chosen = Path(path).suffix[1:].lower() if kind is None else kind
    if chosen not in FORMATS:
        what = f"its name ends in '.{chosen}'" if kind is None else f"the kind is {kind!r:.20}"
        raise FileError(f"{path} cannot be exported, {what}: take .csv, .parquet or .mcap, or kind='bag'.")
    with atomic_file(path) as temporary:
        FORMATS[chosen][1](run, temporary)


def import_run(path: PathLike) -> Run:
    """The run in a file that `export_run` wrote, or in a run file: the same bits.

    Numbers that were changed in between are taken as they are, and `lost` says so; any other file is a FileError.
    """
    with file_errors(path, "read", READ_ADVICE), open(path, "rb") as stream:
        first = stream.read(16)
    if first.startswith(file.MAGIC):
        return read_run(path)
    for kind, (magic, _, reader) in FORMATS.items():
        if first.removeprefix(codecs.BOM_UTF8).startswith(magic):
            with file_errors(path, "read", READ_ADVICE):
                try:
                    return reader(path)
                except (CondyleError, OSError, MemoryError):
                    raise
                except Exception as error:  # whatever a package raises for a damaged file
                    reason = f"{error!s:.200}"
                raise FileError(f"{path} is not a run that was exported as {kind.upper()}, {reason}: export it again.")
    raise FileError(f"{path} is not a run: give a file that condyle export wrote, as .csv, .parquet or .mcap, or a run file.")


# ---- a run as one table


def metadata(run: Run) -> bytes:
    """What a table cannot hold, as JSON: `about`, the shapes of further signals, what was lost, and the hash of all numbers."""
    extras = [[name, list(array.shape[1:])] for name, array in run.extras.items()]
    return dumps({**run.about, "extras": extras, "lost": run.lost, "changed": run.changed, "sha256": run.hash})


def headings(run: Run) -> list[str]:
    """The names of all columns: time, states, and what acts between them."""
    columns = run.about["columns"]
    names = ["t", *run.names, *[str(row[0]) for row in columns["u"]]]
    names += [f"wrench.{frame}.{axis}" for frame in columns["wrenches"] for axis in WRENCH]
    return names + [each for name, array in run.extras.items() for each in extra_names(f"extra.{name}", array.shape[1:])]


def between_states(run: Run) -> np.ndarray:
    """Controls, wrenches and further signals, one row for each step."""
    parts = [run.u, run.wrenches, *run.extras.values()]
    return np.concatenate([part.reshape(run.steps, math.prod(part.shape[1:])) for part in parts], axis=1)


def run_of_table(about: dict[str, Any], x: np.ndarray, between: np.ndarray, path: PathLike, t: np.ndarray | None = None) -> Run:
    """The run of states x, (T + 1, nx), and of all between them, (T, columns); `lost` says if numbers were changed.

    `t`: the times as they are in the table, if they are to be compared.
    """
    layout = file.layout_of_table(about)
    check_about(about, layout.nx)
    if len(x) != len(between) + 1:
        raise DecodeError(f"it has {len(x)} states and {len(between)} steps between them, not one less")
    if not (np.isfinite(x).all() and np.isfinite(between).all()):
        raise DecodeError("it has numbers that are not finite")
    shapes = layout.shapes[1:]
    parts = np.split(between, np.cumsum([math.prod(shape) for shape in shapes])[:-1], axis=1)
    parts = [np.ascontiguousarray(part).reshape(len(between), *shape) for part, shape in zip(parts, shapes, strict=True)]
    about = {name: value for name, value in about.items() if name != "extras"}
    lost, hash, changed = about.pop("lost", None), about.pop("sha256", None), about.pop("changed", False) is True
    about["steps"] = len(between)
    u, wrenches, *extras = parts
    named = dict(zip(layout.extras, extras, strict=True))
    lost = None if lost is None else printable(decode_text(lost, "about.lost"))
    run = made_run(about, x, u, wrenches, named, lost, Path(path), changed)
    same = run.hash == hash and (t is None or t.tobytes() == run.t.tobytes())
    return run if same else replace(run, lost=CHANGED, changed=True)


# ---- CSV


def write_csv(run: Run, path: Path) -> None:
    """None; two lines that begin with "# ", one of names, then the rows."""
    between = between_states(run)
    with open(path, "x", newline="", encoding="utf-8") as out:
        out.write(f"{CSV_FIRST}\n# {metadata(run).decode()}\n")
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(headings(run))
        # Python writes the shortest decimals that give the same float again
        for t, x, rest in zip(run.t.tolist(), run.all_states.tolist(), [*between.tolist(), [""] * between.shape[1]], strict=True):
            rows.writerow([t, *x, *rest])


def read_csv(path: PathLike) -> Run:
    """The run of a CSV file that `write_csv` wrote; numbers that were changed since are taken, and `lost` says so."""
    with open(path, newline="", encoding="utf-8-sig") as text:
        if os.fstat(text.fileno()).st_size > CSV_MAX_BYTES:
            raise DecodeError(f"more than {CSV_MAX_BYTES:,} bytes")
        if text.readline(100).rstrip("\r\n") != CSV_FIRST:
            raise DecodeError(f"its first line is not '{CSV_FIRST}'")
        line = text.readline(1 << 24)
        if not line.startswith("# "):
            raise DecodeError("its second line does not begin with '# '")
        about = loads(line[2:])
        layout = file.layout_of_table(about)
        rows = csv.reader(text)
        names, width = next(rows, []), layout.row_bytes // 8 + 1
        if len(names) != width:
            raise DecodeError(f"line 3 does not have {width} names")
        states, between = _csv_rows(rows, layout.nx + 1, width)
    run = run_of_table(about, states[:, 1:], between, path, np.ascontiguousarray(states[:, 0]))
    for k, (name, found) in enumerate(zip(headings(run), names, strict=True), 1):
        if name.splitlines() != found.splitlines():
            raise DecodeError(f"column {k} is called {found!r:.40}, not {name!r:.40}")
    return run


def _csv_rows(rows: Iterator[list[str]], first: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """(the `first` columns of each row; the others of each row but the last, where they are empty)."""
    states, between, rest, blank = list[np.ndarray](), list[np.ndarray](), None, 0
    for number, row in enumerate(rows, 4):
        if not any(cell.strip() for cell in row):
            blank = blank or number
            continue
        if blank:
            raise DecodeError(f"line {blank} is empty, and it goes on after it")
        if rest is not None:
            between.append(_floats(rest, number - 1))
        if len(row) != width:
            raise DecodeError(f"line {number} has {len(row)} entries, not {width}")
        states.append(_floats(row[:first], number))
        rest = row[first:]
    if rest is None or any(rest):
        raise DecodeError("its last row must be a state, with nothing behind it")
    return np.array(states), np.array(between).reshape(len(between), width - first)


def _floats(row: list[str], line: int) -> np.ndarray:
    found = np.empty(len(row))
    for k, cell in enumerate(row):
        try:
            found[k] = float(cell)
        except ValueError:
            raise DecodeError(f"line {line} has {cell!r:.40}, which is not a number") from None
    if not np.all(np.isfinite(found)):
        raise DecodeError(f"line {line} has a number that is not finite")
    return found


# ---- Parquet


def write_parquet(run: Run, path: Path) -> None:
    """None; a float64 column for each number, with nulls in the last row of what acts between states."""
    pa, parquet = (require(name, "export", "Parquet tables") for name in ("pyarrow", "pyarrow.parquet"))
    columns = [pa.array(run.t), *[pa.array(np.ascontiguousarray(column)) for column in run.all_states.T]]
    columns += [pa.array([*column, None], pa.float64()) for column in between_states(run).T.tolist()]
    fields = [pa.field(name, pa.float64()) for name in headings(run)]
    schema = pa.schema(fields, metadata={PARQUET_KEY: metadata(run)})
    # a dictionary of values might take -0.0 for 0.0
    parquet.write_table(pa.Table.from_arrays(columns, schema=schema), path, use_dictionary=False, compression="zstd")


def read_parquet(path: PathLike) -> Run:
    """The run of a Parquet file that `write_parquet` wrote."""
    stored = require("pyarrow.parquet", "export", "Parquet tables").ParquetFile(path)
    about = loads((stored.schema_arrow.metadata or {}).get(PARQUET_KEY, b"no metadata of a run"))
    layout = file.layout_of_table(about)
    width, rows = layout.row_bytes // 8 + 1, stored.metadata.num_rows
    if stored.metadata.num_columns != width or rows < 1 or rows * width > PARQUET_MAX_NUMBERS:
        raise DecodeError(f"it has {stored.metadata.num_columns} columns, not {width}, or no rows")
    table = stored.read()
    if any(str(field.type) != "double" for field in table.schema):
        raise DecodeError("it has columns that are not float64")
    columns = [table.column(k).slice(0, rows if k <= layout.nx else rows - 1) for k in range(1, width)]
    if any(column.null_count for column in columns):
        raise DecodeError("it has empty entries")
    if any(table.column(k).slice(rows - 1).null_count != 1 for k in range(layout.nx + 1, width)):
        raise DecodeError("its last row has more than a state")
    arrays = [column.to_numpy() for column in columns]
    between = np.stack(arrays[layout.nx :], axis=1) if width - 1 > layout.nx else np.zeros((rows - 1, 0))
    return run_of_table(about, np.stack(arrays[: layout.nx], axis=1), between, path)


# ---- MCAP


def write_mcap(run: Run, path: Path) -> None:
    """None; the log has JSON messages for Foxglove, PlotJuggler and others, and the run file itself as an attachment.

    /joint_states   step, time, positions {name: value}, velocities {name: value}, efforts {name: value}
    /wrenches       step, time, frames {name: [fx, fy, fz, tx, ty, tz]}
    /signals        step, time, values {name: number or lists of numbers}
    """
    writing = require("mcap.writer", "export", "MCAP logs")
    columns, nq = run.about["columns"], run.about["nq"]
    names = [row[0].partition(".")[2] or row[0] for row in columns["x"]]
    position, velocity = _unique(names[:nq]), _unique(names[nq : run.x.shape[1]])
    effort = _unique([row[0].partition(".")[2] for row in columns["u"]])
    frames = _unique(columns["wrenches"])
    with open(path, "xb") as out:
        log = writing.Writer(out, enable_data_crcs=True)
        log.start(profile="", library="condyle")
        log.add_attachment(0, 0, MCAP_ATTACHMENT, "application/octet-stream", b"".join(file.records(run)))
        topics = [STATES, *[WRENCHES] * bool(frames), *[SIGNALS] * bool(run.extras or run.states)]
        channels = {topic: _channel(log, topic) for topic in topics}
        x, u, wrenches = run.x.tolist(), run.u.tolist(), run.wrenches.tolist()
        extras = {name: array.tolist() for name, array in {**run.states, **run.extras}.items()}
        for k, t in enumerate(run.t.tolist()):
            messages: dict[str, dict[str, Any]] = {STATES: {"positions": dict(zip(position, x[k][:nq], strict=True))}}
            messages[STATES]["velocities"] = dict(zip(velocity, x[k][nq:], strict=True))
            messages[STATES]["efforts"] = dict(zip(effort, u[k], strict=True)) if k < run.steps else {}
            if k < run.steps:
                messages[WRENCHES] = {"frames": dict(zip(frames, wrenches[k], strict=True))}
                messages[SIGNALS] = {"values": {name: rows[k] for name, rows in extras.items()}}
            for topic, channel in channels.items():
                if topic in messages:
                    data = json.dumps({"step": k, "time": t, **messages[topic]}, allow_nan=False).encode()
                    log.add_message(channel, round(t * 1e9), data, round(t * 1e9), k % (1 << 32))
        log.finish()


def _channel(log: Any, topic: str) -> int:
    table = {"type": "object", "additionalProperties": {"type": "number"}}
    properties: dict[str, Any] = {"step": {"type": "integer"}, "time": {"type": "number"}}
    if topic == STATES:
        properties |= {"positions": table, "velocities": table, "efforts": table}
    schema = {"type": "object", "properties": properties}
    identity = log.register_schema(f"condyle.{topic[1:]}", "jsonschema", json.dumps(schema).encode())
    return int(log.register_channel(topic, "json", identity))


def read_mcap(path: PathLike) -> Run:
    """The run of an MCAP log that `write_mcap` wrote: its attachment. The messages are not read."""
    reading = require("mcap.reader", "export", "MCAP logs")
    with open(path, "rb") as stream:
        attachments = reading.make_reader(stream, validate_crcs=True).iter_attachments()
        found = [attachment.data for attachment in attachments if attachment.name == MCAP_ATTACHMENT]
    if len(found) != 1:
        raise DecodeError("it has no run attached")
    return run_of(file.read_stream(BytesIO(found[0]), len(found[0]), path), path)


def _unique(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that were there before."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return out


# kind -> (how a file begins, writer, reader)
FORMATS: dict[str, tuple[bytes, Callable[[Run, Path], None], Callable[[PathLike], Run]]] = {
    "csv": (CSV_FIRST.encode()[:13], write_csv, read_csv),
    "parquet": (b"PAR1", write_parquet, read_parquet),
    "mcap": (b"\x89MCAP0\r\n", write_mcap, read_mcap),
}
