"""Tapes that need not be traced again: what they compute is known by a key, and their ports and hash are in the cache."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import cache, cached_property
from pathlib import Path

from condyle.tape.cpu import shared_cache
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


@cache
def source_hash(*folders: str) -> str:
    """A hash of the source in these folders of the package, which decides what the tapes traced by it are."""
    package = Path(__file__).parents[1]
    files = [file for folder in folders for file in sorted((package / folder).glob("*.py"))]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def cached_trace(key: str, make: Callable[[], Tape]) -> Tape:
    """The tape that `make` traces, without tracing it if it was recorded under this key before.

    The key must say all that the tape depends on, the source of the functions that are traced included.
    """
    place = hashlib.sha256(f"tape {key}".encode()).hexdigest()
    stored = shared_cache().load(place)
    if stored is not None:
        record = json.loads(stored)
        inputs, outputs = (tuple(Port(n, tuple(s), t) for n, s, t in record[side]) for side in ("inputs", "outputs"))
        return CachedTape(record["name"], inputs, outputs, record["hash"], make)
    tape = make()
    ports = {side: [(p.name, p.shape, p.table) for p in getattr(tape, side)] for side in ("inputs", "outputs")}
    shared_cache().store(place, json.dumps({"name": tape.name, "hash": tape.hash, **ports}).encode())
    return tape
