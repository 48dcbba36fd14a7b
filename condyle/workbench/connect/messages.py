"""The messages of the WebSocket: their members as tables, from which they are checked, and numbers as bytes.

A message is a JSON object with a "type". States and commands may also be bytes: the tick as u64, of a state the time in s as f64,
then all numbers as f64 in the order of the "welcome", little-endian.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.errors import ConnectError
from condyle.robot.names import nearest
from condyle.workbench.connect.transport import Exchange

MAX_BYTES = 1 << 16  # of a message from a client
MAX_TICK = 2**53  # beyond which a float has no odd numbers


@dataclass(frozen=True)
class Member:
    """A member of a message: its type, whether it may be missing, and what it is."""

    type: str
    about: str
    required: bool = False


FROM_CLIENT: dict[str, dict[str, Member]] = {
    "hello": {
        "role": Member("role", '"commander", of whom there is one, or "watcher" (default)'),
        "token": Member("text", "the token of the server, if it has one"),
        "rate": Member("rate", "states per second for a watcher, 1 to 1000; 30 by default"),
        "binary": Member("boolean", "whether states come as bytes; false by default"),
    },
    "command": {
        "tick": Member("tick", "the tick of the state that it answers; by default the last that was sent"),
        "values": Member("values", "{name: numbers}; commands that are not given stay as they are", required=True),
    },
    "pause": {},
    "resume": {},
    "step": {"periods": Member("count", "control periods to go on for, then paused; 1 by default")},
    "reset": {},
    "stop": {"reason": Member("text", "why the run is to end")},
    "describe": {},
}
FROM_SERVER: dict[str, dict[str, Member]] = {
    "welcome": {
        "version": Member("count", "of these messages, 1", required=True),
        "robot": Member("text", "name of the robot", required=True),
        "mode": Member("text", '"lockstep" or "realtime"', required=True),
        "dt": Member("number", "length of a tick, s", required=True),
        "every": Member("count", "ticks of a control period", required=True),
        "name": Member("names", "joints, in the order of position, velocity and effort", required=True),
        "signals": Member("shapes", "{name: shape} of what a state has", required=True),
        "commands": Member("shapes", "{name: shape} of what a command has", required=True),
    },
    "state": {
        "tick": Member("tick", "tick of the state", required=True),
        "t": Member("number", "simulated time, s", required=True),
        "name": Member("names", "joints", required=True),
        "position": Member("numbers", "of each joint, rad or m", required=True),
        "velocity": Member("numbers", "of each joint, rad/s or m/s", required=True),
        "effort": Member("numbers", "of each joint in the last tick, N m or N", required=True),
        "signals": Member("values", "{name: numbers} of all signals", required=True),
    },
    "description": {
        "robot": Member("text", "name of the robot", required=True),
        "urdf": Member("text", "the robot as URDF; empty if it has none", required=True),
    },
    "end": {"reason": Member("text", "why the run is over", required=True)},
    "error": {"message": Member("text", "one sentence about a message that was refused", required=True)},
}
VERSION = 1
ROLES = ("commander", "watcher")


def parsed(text: str) -> tuple[str, dict[str, Any]]:
    """(type, members) of a message of a client; a ConnectError with one sentence for anything else."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise ConnectError(f"a message must be a JSON object, got {text!r:.60}") from None
    if not isinstance(found, dict) or not isinstance(found.get("type"), str):
        raise ConnectError(f'a message must be a JSON object with a "type", got {text!r:.60}')
    kind = found.pop("type")
    if kind not in FROM_CLIENT:
        raise ConnectError(f"there is no message {kind!r:.40}{nearest(kind[:40], list(FROM_CLIENT))}")
    members = FROM_CLIENT[kind]
    for name, value in found.items():
        if name not in members:
            known = nearest(name[:40], list(members)) if members else "; it has none"
            raise ConnectError(f"a message '{kind}' has no member {name!r:.40}{known}")
        _check(kind, name, members[name].type, value)
    for name, member in members.items():
        if member.required and name not in found:
            raise ConnectError(f"a message '{kind}' needs the member '{name}': {member.about}")
    return kind, found


def _check(kind: str, name: str, wanted: str, value: Any) -> None:
    """None, or a ConnectError if the member is not of its type."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    real = (whole and abs(value) < 2**63) or (isinstance(value, float) and math.isfinite(value))
    fits = {
        "text": isinstance(value, str),
        "boolean": isinstance(value, bool),
        "role": isinstance(value, str) and value in ROLES,
        "rate": real and 1 <= value <= 1000,
        "tick": whole and 0 <= value < MAX_TICK,
        "count": whole and 1 <= value <= 1_000_000,
        "values": isinstance(value, dict) and all(_numbers(each) for each in value.values()),
    }
    words = {
        "text": "text",
        "boolean": "true or false",
        "role": "one of " + ", ".join(ROLES),
        "rate": "a number from 1 to 1000",
        "tick": "a whole number from 0 up",
        "count": "a whole number from 1 to 1,000,000",
        "values": "an object of lists of numbers",
    }
    if not fits[wanted]:
        raise ConnectError(f"'{name}' of a message '{kind}' must be {words[wanted]}, got {value!r:.60}")


def _numbers(value: Any, depth: int = 4) -> bool:
    """Whether this is a list of numbers, or of such lists."""
    if not isinstance(value, list) or not depth:
        return False
    return all(_numbers(v, depth - 1) if isinstance(v, list) else type(v) in (int, float) for v in value)


# ---- what the server sends


def welcome(exchange: Exchange) -> str:
    """The first message to a client."""
    shapes = {"signals": exchange.signals, "commands": exchange.commands}
    facts = {"version": VERSION, "robot": exchange.robot, "mode": exchange.mode, "dt": exchange.dt, "every": exchange.every}
    listed = {name: {each: list(shape) for each, shape in found.items()} for name, found in shapes.items()}
    return message("welcome", **facts, name=joint_names(exchange), **listed)


def state(exchange: Exchange, tick: int, numbers: np.ndarray) -> str:
    """A state as JSON."""
    signals = exchange.signals_of(numbers)
    names = joint_names(exchange)
    columns = {"q": exchange.coordinates, "v": exchange.velocities, "u": exchange.joints}
    found = {}
    for key, signal in (("position", "q"), ("velocity", "v"), ("effort", "u")):
        values = dict(zip(columns[signal], signals[signal].tolist(), strict=True)) if signal in signals else {}
        found[key] = [values.get(name, 0.0) for name in names]
    given = {name: value.tolist() for name, value in signals.items()}
    return message("state", tick=tick, t=tick * exchange.dt, name=names, **found, signals=given)


def joint_names(exchange: Exchange) -> list[str]:
    """The joints with one coordinate, in the order of q."""
    return [name for name in exchange.coordinates if name in exchange.velocities]


def message(kind: str, **members: Any) -> str:
    """A message as text."""
    return json.dumps({"type": kind, **members}, allow_nan=False)


# ---- numbers as bytes


def state_bytes(exchange: Exchange, tick: int, numbers: np.ndarray) -> bytes:
    """A state as bytes."""
    return struct.pack("<Qd", tick, tick * exchange.dt) + numbers.astype("<f8").tobytes()


def command_from(exchange: Exchange, data: bytes) -> tuple[int, Mapping[str, np.ndarray]]:
    """(tick, values) of a command as bytes."""
    wanted = 8 + 8 * exchange.answered
    if len(data) != wanted:
        raise ConnectError(f"a command as bytes has {wanted} of them, a tick and {exchange.answered} numbers; got {len(data)}")
    tick = struct.unpack_from("<Q", data)[0]
    return tick, exchange.command_of(np.frombuffer(data, "<f8", -1, 8))
