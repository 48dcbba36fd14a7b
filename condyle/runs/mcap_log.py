"""Runs as MCAP logs of JSON messages, for Foxglove, PlotJuggler and others. Every float comes back exactly.

    /joint_states   step, time, positions {name: value}, velocities {name: value}, efforts {name: value}
    /wrenches       step, time, frames {name: [fx, fy, fz, tx, ty, tz]}
    /signals        step, time, values {name: number or lists of numbers}

A state has a message; the last one has no efforts, because nothing acts any more. The metadata "condyle_run" hold all else.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from condyle.atomic_write import PathLike, file_errors
from condyle.errors import CondyleError, FileError, require
from condyle.runs import json_codec
from condyle.runs.file import Layout
from condyle.runs.run import Run
from condyle.runs.table import layout_in, run_of, told

KEY, LIBRARY = "condyle_run", "condyle"
MAGIC = b"\x89MCAP0\r\n"
STATES, WRENCHES, SIGNALS = "/joint_states", "/wrenches", "/signals"
MOST_NUMBERS = 1 << 31


def write_mcap(run: Run, path: Path) -> None:
    """None; the log holds the run, its times counted from zero."""
    writing = require("mcap.writer", "export", "MCAP logs")
    columns, nq = run.about["columns"], run.about["nq"]
    names = [row[0].partition(".")[2] or row[0] for row in columns["x"]]
    position, velocity = unique(names[:nq]), unique(names[nq:])
    effort = unique([row[0].partition(".")[2] for row in columns["u"]])
    frames = unique(columns["wrenches"])
    with open(path, "xb") as out:
        log = writing.Writer(out, enable_data_crcs=True)
        log.start(profile="", library=LIBRARY)
        log.add_metadata(KEY, {"json": json_codec.text_of(told(run)).decode()})
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


def read_mcap(path: PathLike) -> Run:
    """The run of an MCAP log that `write_mcap` wrote."""
    reading = require("mcap.reader", "export", "MCAP logs")
    with file_errors(path, "read", "check its name and its permissions"):
        try:
            with open(path, "rb") as stream:
                return _read(reading.make_reader(stream, validate_crcs=True), path)
        except CondyleError:
            raise
        except Exception as error:
            # whatever the package raises for a damaged file
            raise FileError(f"{path} is not a run that was exported as MCAP, {error!s:.200}: export it again.") from None


def _read(log: Any, path: PathLike) -> Run:
    found = [record.metadata for record in log.iter_metadata() if record.name == KEY]
    if len(found) != 1 or "json" not in found[0]:
        raise json_codec.Wrong("it has no metadata of a run")
    about = json_codec.from_text(found[0]["json"])
    layout = layout_in(about)
    states: list[np.ndarray] = []
    parts: dict[str, list[np.ndarray]] = {topic: [] for topic in (STATES, WRENCHES, SIGNALS)}
    ended = False
    for _, channel, message in log.iter_messages(topics=list(parts), log_time_order=False):
        data, topic = json_codec.from_text(message.data), channel.topic
        at = f"the message of {topic} with the number {message.sequence}"
        expected = len(parts[topic])
        if json_codec.entry(data, "step", at) != expected or (topic == STATES and ended):
            raise json_codec.Wrong(f"{at} is not that of step {expected}")
        if len(states) * layout.row_bytes > 8 * MOST_NUMBERS:
            raise json_codec.Wrong("it is too long")
        if topic == STATES:
            states.append(
                _values([json_codec.entry(data, "positions", at), json_codec.entry(data, "velocities", at)], layout.nx, at)
            )
            ended = not json_codec.entry(data, "efforts", at) and (layout.nu > 0)
            if not ended:
                parts[topic].append(_values([data["efforts"]], layout.nu, at))
        else:
            inside = json_codec.entry(data, "frames" if topic == WRENCHES else "values", at)
            parts[topic].append(_values([inside], _sizes(layout)[topic], at))
    return run_of(about, layout, np.array(states).reshape(-1, layout.nx), _between(parts, layout, len(states) - 1), path)


def _sizes(layout: Layout) -> dict[str, int]:
    """How many numbers act between two states, by topic."""
    signals = sum(math.prod(shape) for shape in layout.extras.values())
    return {STATES: layout.nu, WRENCHES: layout.frames * 6, SIGNALS: signals}


def _between(parts: dict[str, list[np.ndarray]], layout: Layout, steps: int) -> np.ndarray:
    """All that acts between states, one row for each step."""
    if steps < 0:
        raise json_codec.Wrong("it has no states")
    found = [np.zeros((steps, 0))]
    for topic, size in _sizes(layout).items():
        if size:
            if len(parts[topic]) != steps:
                raise json_codec.Wrong(f"it has {len(parts[topic])} messages of {topic} and {steps} steps")
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
            found.append(float(json_codec.number(item, at)))
    if len(found) != count:
        raise json_codec.Wrong(f"{at} has {len(found)} numbers, not {count}")
    return np.array(found)


def unique(names: Sequence[str]) -> list[str]:
    """The names, with a number behind those that were there before."""
    seen: dict[str, int] = {}
    out = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        out.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return out
