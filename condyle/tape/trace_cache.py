"""Tapes that need not be traced again: what they compute is known by a key, and their ports and hash are in the cache."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cached_property

from condyle.tape.cache import shared_cache
from condyle.tape.graph import Block
from condyle.tape.tape import Port, Tape


class CachedTape(Tape):
    """A tape that is traced only when someone looks into it; compiled code is found by its hash."""

    def __init__(
        self, name: str, inputs: tuple[Port, ...], outputs: tuple[Port, ...], known_hash: str, make: Callable[[], Tape]
    ) -> None:
        self.__dict__.update(name=name, inputs=inputs, outputs=outputs, hash=known_hash, make=make)

    @cached_property
    def block(self) -> Block:
        """The operations, traced now."""
        make: Callable[[], Tape] = self.__dict__["make"]
        return make().block


def cached_trace(key: str, make: Callable[[], Tape]) -> Tape:
    """The tape that `make` traces, without tracing it if it was recorded under this key before.

    The key must say all that the tape depends on: the data, and by `trace_key` the source of the functions that are traced.
    """
    traced: list[Tape] = []

    def traced_now() -> bytes:
        tape = make()
        traced.append(tape)
        ports = {side: [(p.name, p.shape, p.table) for p in getattr(tape, side)] for side in ("inputs", "outputs")}
        return json.dumps({"name": tape.name, "hash": tape.hash, **ports}).encode()

    record = json.loads(shared_cache().found(f"tape {key}", traced_now))
    if traced:
        return traced[0]
    inputs, outputs = (tuple(Port(n, tuple(s), t) for n, s, t in record[side]) for side in ("inputs", "outputs"))
    return CachedTape(record["name"], inputs, outputs, record["hash"], make)
