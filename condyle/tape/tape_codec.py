"""Blocks of operations as bytes, for the cache on disk."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import fields
from functools import partial
from typing import Any

from condyle.errors import TraceError
from condyle.tape.tape import Block, Call, Loop, Node, Port, Subroutine, Tape, ValueCall

VERSION = 1


def encode_block(block: Block) -> bytes:
    """The block as compressed JSON; numbers keep all their bits."""
    return zlib.compress(json.dumps({"version": VERSION, "block": _plain(block)}, separators=(",", ":")).encode(), 1)


def decode_block(stored: bytes) -> Block:
    """The block that was encoded."""
    found = json.loads(zlib.decompress(stored))
    if found["version"] != VERSION:
        raise ValueError(f"a block of version {VERSION} is expected, got {found['version']}")
    block: Block = _block(found["block"])
    return block


def _plain(value: Any) -> Any:
    """Data of a node as JSON has it: a block by columns, a loop or call by its fields."""
    if isinstance(value, Block):
        ops = sorted({node.op for node in value.nodes})
        number = {op: k for k, op in enumerate(ops)}
        return {
            "ops": ops,
            "op": [number[node.op] for node in value.nodes],
            "args": [list(node.args) for node in value.nodes],
            "data": [[k, _plain(node.data)] for k, node in enumerate(value.nodes) if node.data is not None],
            "params": value.params,
            "results": value.results,
        }
    if isinstance(value, ValueCall):
        return {"kind": "ValueCall", "body": _plain(value.body)}
    if isinstance(value, Subroutine):
        tape = value.tape
        ports = {side: [_port(port) for port in getattr(tape, side)] for side in ("inputs", "outputs")}
        return {"kind": "Subroutine", "name": tape.name, "body": _plain(tape.block), **ports}
    if isinstance(value, Loop | Call):
        return {"kind": type(value).__name__, **{field.name: _plain(getattr(value, field.name)) for field in fields(value)}}
    return value


def _block(stored: dict[str, Any]) -> Block:
    data = {k: _data(value) for k, value in stored["data"]}
    ops = stored["ops"]
    nodes = [
        Node(ops[op], tuple(args), data.get(k)) for k, (op, args) in enumerate(zip(stored["op"], stored["args"], strict=True))
    ]
    return Block(tuple(nodes), stored["params"], tuple(stored["results"]))


def _data(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_data, value))
    if not isinstance(value, dict):
        return value
    if "ops" in value:
        return _block(value)
    kinds: dict[str, Callable[..., Any]] = {"Loop": Loop, "Call": Call, "ValueCall": partial(ValueCall, make_rule=_no_rule)}
    kinds["Subroutine"] = _subroutine
    kind = kinds[value.pop("kind")]
    return kind(**{name: _data(part) for name, part in value.items()})


def _port(port: Port) -> list[Any]:
    """A port of a subroutine; its parameters are arguments like all others."""
    return [port.name, list(port.shape), port.table, port.uniform]


def _subroutine(name: str, body: Block, inputs: Any, outputs: Any) -> Subroutine:
    return Subroutine(Tape(name, body, *[tuple([Port(*port) for port in side]) for side in (inputs, outputs)]))


def _no_rule() -> Block:
    raise TraceError("a function traced for its values alone has no derivatives once its trace was stored; trace it anew")
