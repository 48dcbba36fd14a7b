"""Runs as MCAP logs of JSON messages, for Foxglove, PlotJuggler and others. Every float comes back exactly.

    /joint_states   step, time, positions {name: value}, velocities {name: value}, efforts {name: value}
    /wrenches       step, time, frames {name: [fx, fy, fz, tx, ty, tz]}
    /signals        step, time, values {name: number or lists of numbers}

There is one message of /joint_states for each state; the last has no efforts. The metadata "condyle_run" hold the rest.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from condyle.atomic_write import PathLike
from condyle.errors import require
from condyle.runs.file import Layout, layout_of_table
from condyle.runs.json_codec import DecodeError, decode_number, entry, loads
from condyle.runs.run import Run

KEY, LIBRARY = "condyle_run", "condyle"
MAGIC = b"\x89MCAP0\r\n"
STATES, WRENCHES, SIGNALS = "/joint_states", "/wrenches", "/signals"
MAX_NUMBERS = 1 << 31


def write_mcap(run: Run, path: Path, metadata: bytes) -> None:
    """None; the log holds the run, its times counted from zero, and the JSON text `metadata`."""
    writing = require("mcap.writer", "export", "MCAP logs")
    columns, nq = run.about["columns"], run.about["nq"]
    names = [row[0].partition(".")[2] or row[0] for row in columns["x"]]
    position, velocity = _unique(names[:nq]), _unique(names[nq:])
    effort = _unique([row[0].partition(".")[2] for row in columns["u"]])
    frames = _unique(columns["wrenches"])
    with open(path, "xb") as out:
        log = writing.Writer(out, enable_data_crcs=True)
        log.start(profile="", library=LIBRARY)
        log.add_metadata(KEY, {"json": metadata.decode()})
        topics = [STATES, *[WRENCHES] * bool(frames), *[SIGNALS] * bool(run.extras)]
        channels = {topic: _channel(log, topic) for topic in topics}
        x, u, wrenches = run.x.tolist(), run.u.tolist(), run.wrenches.tolist()
        extras = {name: array.tolist() for name, array in run.extras.items()}
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


def read_mcap(path: PathLike) -> tuple[Any, np.ndarray, np.ndarray]:
    """(metadata; states, (T + 1, nx); controls, wrenches and further signals, (T, columns)) of a log that `write_mcap` wrote."""
    reading = require("mcap.reader", "export", "MCAP logs")
    with open(path, "rb") as stream:
        return _read(reading.make_reader(stream, validate_crcs=True))


def _read(log: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    found = [record.metadata for record in log.iter_metadata() if record.name == KEY]
    if len(found) != 1 or "json" not in found[0]:
        raise DecodeError("it has no metadata of a run")
    about = loads(found[0]["json"])
    layout = layout_of_table(about)
    states: list[np.ndarray] = []
    parts: dict[str, list[np.ndarray]] = {topic: [] for topic in (STATES, WRENCHES, SIGNALS)}
    ended = False
    for _, channel, message in log.iter_messages(topics=list(parts), log_time_order=False):
        data, topic = loads(message.data), channel.topic
        at = f"the message of {topic} with the number {message.sequence}"
        expected = len(parts[topic])
        if entry(data, "step", at) != expected or (topic == STATES and ended):
            raise DecodeError(f"{at} is not that of step {expected}")
        if len(states) * layout.row_bytes > 8 * MAX_NUMBERS:
            raise DecodeError("it is too long")
        if topic == STATES:
            states.append(_values([entry(data, "positions", at), entry(data, "velocities", at)], layout.nx, at))
            ended = not entry(data, "efforts", at) and (layout.nu > 0)
            if not ended:
                parts[topic].append(_values([data["efforts"]], layout.nu, at))
        else:
            inside = entry(data, "frames" if topic == WRENCHES else "values", at)
            parts[topic].append(_values([inside], _sizes(layout)[topic], at))
    return about, np.array(states).reshape(-1, layout.nx), _between(parts, layout, len(states) - 1)


def _sizes(layout: Layout) -> dict[str, int]:
    """How many numbers act between two states, by topic."""
    signals = sum(math.prod(shape) for shape in layout.extras.values())
    return {STATES: layout.nu, WRENCHES: layout.frames * 6, SIGNALS: signals}


def _between(parts: dict[str, list[np.ndarray]], layout: Layout, steps: int) -> np.ndarray:
    """All that acts between states, one row for each step."""
    if steps < 0:
        raise DecodeError("it has no states")
    found = [np.zeros((steps, 0))]
    for topic, size in _sizes(layout).items():
        if size:
            if len(parts[topic]) != steps:
                raise DecodeError(f"it has {len(parts[topic])} messages of {topic} and {steps} steps")
            found.append(np.array(parts[topic]).reshape(steps, size))
    return np.concatenate(found, axis=1)


def _values(groups: Sequence[Any], count: int, at: str) -> np.ndarray:
    """The numbers in tables and lists, in their order, of which there are `count`."""
    found: list[float] = []
    left = list(reversed(groups))
    while left:
        item = left.pop()
        if isinstance(item, dict | list):
            left += reversed(list(item.values()) if isinstance(item, dict) else item)
        else:
            found.append(float(decode_number(item, at)))
    if len(found) != count:
        raise DecodeError(f"{at} has {len(found)} numbers, not {count}")
    return np.array(found)


def _unique(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that were there before."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return out
