"""The file of a run, written while it happens: records one after the other, each with a checksum of all before it.

    magic, version | HEAD | STRT | COLS | DATA | DATA | ... | END

    record   kind (4 letters), bytes of the payload, crc32 of these two | payload | sha256 of the checksum before and all this
    HEAD     JSON: what the run is about
    STRT     the first state
    COLS     JSON: names and shapes of the further signals
    DATA     first step, number of steps | states | controls | wrenches | each further signal
    END      JSON: how many steps, and the sha256 of all numbers

Numbers are raw little-endian float64. A process killed at any moment leaves whole records and perhaps a part of one; reading
takes all up to the first that is not whole and right, and says what was lost. Nothing in the file is ever executed.
"""

from __future__ import annotations

import hashlib
import math
import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import numpy as np

from condyle.atomic_write import PathLike, file_errors
from condyle.errors import FileError
from condyle.runs import json_codec
from condyle.runs.json_codec import Wrong, entry
from condyle.simulate.record import MAGIC as ARRAYS_MAGIC

MAGIC, VERSION = b"\x89CDR\r\n\x1a\n", 1
PREFIX = struct.Struct("<8sI")
RECORD = struct.Struct("<4sQ")
CRC = struct.Struct("<I")
ROWS = struct.Struct("<QQ")
SUM_BYTES = 32
FRONT = RECORD.size + CRC.size

BLOCK = 64  # steps in a block, at most
MOST_HEADER_BYTES, MOST_ROW_BYTES, MOST_FILE_BYTES = 1 << 24, 1 << 24, 1 << 36
MOST_SIGNALS, MOST_AXES = 1000, 8
FLOAT = np.dtype("<f8")
DAMAGED = "is damaged"


@dataclass(frozen=True)
class Layout:
    """What a step has: entries of a state and of a control, frames with wrenches, and the shapes of further signals."""

    nx: int
    nu: int
    frames: int
    extras: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [(self.nx,), (self.nu,), (self.frames, 6), *self.extras.values()]

    @property
    def row_bytes(self) -> int:
        """Bytes of one step."""
        return 8 * sum(math.prod(shape) for shape in self.shapes)


@dataclass(frozen=True)
class Content:
    """What could be read of a file."""

    about: dict[str, Any]
    x: np.ndarray
    u: np.ndarray
    wrenches: np.ndarray
    extras: dict[str, np.ndarray]
    end: dict[str, Any]
    lost: str | None
    changed: bool = False  # damaged rather than cut


# ---- writing


def prefix() -> tuple[bytes, bytes]:
    """(the first bytes of a file, their checksum)."""
    first = PREFIX.pack(MAGIC, VERSION)
    return first, hashlib.sha256(first).digest()


def record(kind: bytes, payload: bytes, before: bytes) -> tuple[bytes, bytes]:
    """(the bytes of a record, its checksum)."""
    front = RECORD.pack(kind, len(payload))
    front += CRC.pack(zlib.crc32(front))
    checksum = hashlib.sha256(before + front + payload).digest()
    return front + payload + checksum, checksum


def rows(first: int, arrays: Sequence[np.ndarray]) -> bytes:
    """The payload of a DATA record: steps `first` + 1 and on; each array has one entry for each of these steps."""
    parts = [ROWS.pack(first, len(arrays[0])), *[np.ascontiguousarray(a, dtype=FLOAT).tobytes() for a in arrays]]
    return b"".join(parts)


def columns(extras: Mapping[str, tuple[int, ...]]) -> bytes:
    """The payload of a COLS record."""
    return json_codec.text_of([[name, list(shape)] for name, shape in extras.items()])


# ---- reading


def read(path: PathLike) -> Content:
    """All that is whole and right in the file, and what was lost; a FileError for a file that is not a run."""
    with file_errors(path, "read", "check its name, its permissions and the free memory"), open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        before = _checked_prefix(path, file.read(PREFIX.size), size)
        try:
            return _Reader(file, size, before).content()
        except Wrong as error:
            what = json_codec.printable(str(error))
            raise FileError(f"{path} cannot be read as a run, {what}: copy it again from where it came.") from None


def _checked_prefix(path: PathLike, first: bytes, size: int) -> bytes:
    """The checksum of the prefix."""
    if not first:
        raise FileError(f"{path} is empty, so there is no run in it: record it again.")
    if first.startswith(ARRAYS_MAGIC):
        raise FileError(f"{path} holds arrays that Simulation.save wrote, not a run: read it with simulation.load(path).")
    if first[: len(MAGIC)] != MAGIC[: len(first)]:
        raise FileError(f"{path} is not a run: give a file that condyle sim -o, condyle.Recorder or Run.save wrote.")
    if len(first) < PREFIX.size:
        raise FileError(f"{path} ends after {size} bytes, before anything of the run was written: record it again.")
    _, version = PREFIX.unpack(first)
    if version > VERSION:
        raise FileError(f"{path} was made by a newer Condyle, in format {version}, not {VERSION}: pip install --upgrade condyle.")
    if version != VERSION or size > MOST_FILE_BYTES:
        raise FileError(f"{path} is damaged, format {version} and {size} bytes cannot be: copy it again from where it came.")
    return hashlib.sha256(first).digest()


class Stop(Exception):
    """The first record that is not whole or not right; the message is half a sentence."""


class _Reader:
    """Reads records in their order, each as large as it may be."""

    def __init__(self, file: BinaryIO, size: int, before: bytes) -> None:
        self.file, self.size, self.before, self.at = file, size, before, PREFIX.size

    def content(self) -> Content:
        try:
            about = json_codec.from_text(self.next(b"HEAD", MOST_HEADER_BYTES)[1])
            layout = layout_of(about)
            start = np.frombuffer(self.next(b"STRT", 8 * layout.nx)[1], FLOAT)
        except Stop as stop:
            raise Wrong(f"it {stop} before its header is whole, so nothing of the run can be known") from None
        if start.shape != (layout.nx,):
            raise Wrong(f"its first state has {start.size} entries, not {layout.nx}")
        if not np.isfinite(start).all():
            raise Wrong("its first state has a number that is not finite")
        blocks: list[list[np.ndarray]] = []
        steps, end, lost, changed, known = 0, dict[str, Any](), None, False, False
        try:
            while True:
                kind, payload = self.next(None, max(MOST_HEADER_BYTES, ROWS.size + BLOCK * layout.row_bytes))
                if kind == b"COLS" and not known:
                    layout, known = with_extras(layout, json_codec.from_text(payload)), True
                elif kind == b"DATA":
                    blocks.append(_block(payload, layout, steps))
                    steps += len(blocks[-1][0])
                elif kind == b"END ":
                    end = _read_end(json_codec.from_text(payload), steps)
                    break
                else:
                    raise Wrong(f"it has a record {kind!r} out of place after step {steps:,}")
            if self.at != self.size:
                lost, changed = f"the file goes on for {self.size - self.at:,} bytes after its end, which were not read", True
        except Stop as stop:
            lost, changed = _what_was_lost(str(stop), steps), str(stop) == DAMAGED
        parts = [np.concatenate(p) for p in zip(*blocks, strict=True)] if blocks else [np.zeros((0, *s)) for s in layout.shapes]
        x = np.concatenate([start[None], parts[0]])
        return Content(about, x, parts[1], parts[2], dict(zip(layout.extras, parts[3:], strict=True)), end, lost, changed)

    def next(self, kind: bytes | None, most: int) -> tuple[bytes, bytes]:
        """(kind, payload) of the next record; Stop if it is not whole and right."""
        if self.at == self.size:
            raise Stop("ends")
        front = self.file.read(FRONT)
        if len(front) < FRONT:
            raise Stop("ends in the middle of a block")
        found, length = RECORD.unpack(front[: RECORD.size])
        if CRC.unpack(front[RECORD.size :])[0] != zlib.crc32(front[: RECORD.size]):
            raise Stop(DAMAGED)
        if length > most or (kind is not None and found != kind):
            raise Wrong(f"it has a record {found!r} of {length:,} bytes where there cannot be one")
        if self.at + FRONT + length + SUM_BYTES > self.size:
            raise Stop("ends in the middle of a block")
        payload, checksum = self.file.read(length), self.file.read(SUM_BYTES)
        if hashlib.sha256(self.before + front + payload).digest() != checksum:
            raise Stop(DAMAGED)
        self.before, self.at = checksum, self.at + FRONT + length + SUM_BYTES
        return found, payload


def _what_was_lost(stop: str, steps: int) -> str:
    if stop == DAMAGED:
        return f"the file is damaged after step {steps:,}: its checksum is wrong there, and what follows was not read"
    place = f"the file {stop} after step {steps:,}"
    return f"{place}: the run was not finished, and at most {BLOCK} steps were lost if its program was stopped"


def layout_of(about: Any) -> Layout:
    """The sizes that the header states, without further signals."""
    names = entry(about, "columns", "the header")

    def count(what: str) -> int:
        return len(json_codec.items(entry(names, what, "the header.columns"), f"the header.columns.{what}", lambda row, at: row))

    layout = Layout(count("x"), count("u"), count("wrenches"))
    if not layout.nx or layout.row_bytes > MOST_ROW_BYTES:
        raise Wrong("its header has no states, or states that are too large")
    return layout


def with_extras(layout: Layout, rows: Any) -> Layout:
    """With the further signals that a COLS record names."""
    extras: dict[str, tuple[int, ...]] = {}

    def signal(row: Any, at: str) -> None:
        if not isinstance(row, list) or len(row) != 2:
            raise Wrong(f"{at} is not a name and a shape")
        name = json_codec.text(row[0], at)
        if name in extras:
            raise Wrong(f"{at} repeats the signal '{name:.40}'")
        extras[name] = json_codec.items(row[1], at, lambda n, where: json_codec.whole(n, where, 0, MOST_ROW_BYTES), MOST_AXES)

    json_codec.items(rows, "the further signals", signal, MOST_SIGNALS)
    full = Layout(layout.nx, layout.nu, layout.frames, extras)
    if full.row_bytes > MOST_ROW_BYTES:
        raise Wrong("its further signals are too large")
    return full


def _block(payload: bytes, layout: Layout, steps: int) -> list[np.ndarray]:
    """States, controls, wrenches and further signals of the steps in a DATA record, the first of which must be the next."""
    first, count = ROWS.unpack_from(payload) if len(payload) >= ROWS.size else (0, 0)
    if first != steps or not 1 <= count <= BLOCK or len(payload) != ROWS.size + count * layout.row_bytes:
        raise Wrong(f"it has a block of {count:,} steps after step {first:,} that does not fit after step {steps:,}")
    at, found = ROWS.size, []
    for shape in layout.shapes:
        size = math.prod(shape)
        found.append(np.frombuffer(payload, FLOAT, count * size, at).reshape(count, *shape))
        if not np.isfinite(found[-1]).all():
            raise Wrong(f"it has a number that is not finite among the {count:,} steps after step {steps:,}")
        at += 8 * count * size
    return found


def _read_end(data: Any, steps: int) -> dict[str, Any]:
    if entry(data, "steps", "its end") != steps:
        raise Wrong(f"it says that it has {data['steps']!r:.20} steps, and has {steps:,}")
    return dict(data)
