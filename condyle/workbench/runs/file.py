"""The file of a run, written while it is recorded: a sequence of records, each with a checksum of all before it.

    magic, version | HEAD | STRT | COLS | DATA | DATA | ... | END

    record   kind (4 letters), bytes of the payload, crc32 of these two | payload | sha256 of the previous checksum and all this
    HEAD     JSON: what is known before the first step
    STRT     the first state
    COLS     JSON: names and shapes of the further signals
    DATA     first step, number of steps | states | controls | wrenches | each further signal
    END      JSON: how many steps, and the sha256 of all numbers

Numbers are raw little-endian float64. A process killed at any moment leaves complete records and perhaps a part of one; reading
takes all records up to the first that is incomplete or wrong, and says what was lost. Nothing in the file is ever executed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

import numpy as np

from condyle.atomic_write import (
    READ_ADVICE,
    WRITE_ADVICE,
    PathLike,
    atomic_file,
    exclusive,
    file_errors,
    remove_abandoned,
    try_lock,
)
from condyle.errors import FileError
from condyle.workbench.runs.json_codec import DecodeError, EncodeError, decode, dumps, entry, loads, printable

if TYPE_CHECKING:
    from condyle.workbench.runs.run import Run

MAGIC, VERSION = b"\x89CDR\r\n\x1a\n", 2
PREFIX = struct.Struct("<8sI")
RECORD = struct.Struct("<4sQ")
CRC = struct.Struct("<I")
ROWS = struct.Struct("<QQ")
CHECKSUM_BYTES = 32
FRONT = RECORD.size + CRC.size

BLOCK = 64  # steps in a block, at most
MAX_HEADER_BYTES, MAX_ROW_BYTES, MAX_FILE_BYTES = 1 << 24, 1 << 24, 1 << 36
MAX_SIGNALS, MAX_AXES = 1000, 8
FLOAT = np.dtype("<f8")
SYNC_SECONDS = 1.0
DAMAGED = "is damaged"


@dataclass(frozen=True)
class Layout:
    """The sizes of a step: entries of a state and of a control, frames with wrenches, and the shapes of further signals."""

    nx: int
    nu: int
    frames: int
    extras: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shapes of state, control, wrenches and further signals of one step."""
        return [(self.nx,), (self.nu,), (self.frames, 6), *self.extras.values()]

    @property
    def row_bytes(self) -> int:
        """Bytes of one step."""
        return 8 * sum(math.prod(shape) for shape in self.shapes)


@dataclass(frozen=True)
class Content:
    """What could be read of a file; `changed` if it was damaged rather than cut."""

    about: dict[str, Any]
    x: np.ndarray
    u: np.ndarray
    wrenches: np.ndarray
    extras: dict[str, np.ndarray]
    end: dict[str, Any]
    lost: str | None
    changed: bool = False


def digest(arrays: Mapping[str, np.ndarray]) -> str:
    """The sha256, in hex, of names, shapes and bits in the order of the names: 0.0 and -0.0 differ."""
    found = hashlib.sha256()
    for name in sorted(arrays):
        found.update(json.dumps([name, arrays[name].shape]).encode())
        found.update(np.ascontiguousarray(arrays[name], dtype=FLOAT).tobytes())
    return found.hexdigest()


# ---- records


def prefix() -> tuple[bytes, bytes]:
    """(the first bytes of a file, their checksum)."""
    first = PREFIX.pack(MAGIC, VERSION)
    return first, hashlib.sha256(first).digest()


def record(kind: bytes, payload: bytes, before: bytes) -> tuple[bytes, bytes]:
    """(the bytes of a record, its checksum); `before`: the checksum of the record before it."""
    front = RECORD.pack(kind, len(payload))
    front += CRC.pack(zlib.crc32(front))
    checksum = hashlib.sha256(before + front + payload).digest()
    return front + payload + checksum, checksum


def chain(checksum: bytes, *parts: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """(the bytes of several records (kind, payload), the checksum of the last)."""
    data = b""
    for kind, payload in parts:
        added, checksum = record(kind, payload, checksum)
        data += added
    return data, checksum


def header(about: dict[str, Any]) -> bytes:
    """The payload of the HEAD record."""
    try:
        text = dumps(about)
    except EncodeError as error:
        raise FileError(f"a run cannot be written because its `about` is {error}.") from None
    if len(text) > MAX_HEADER_BYTES:
        size = f"{len(text):,} bytes, more than {MAX_HEADER_BYTES:,}"
        raise FileError(f"a run cannot be written because its header would have {size}: make `about` shorter.")
    return text


def beginning(about: dict[str, Any], start: np.ndarray) -> tuple[bytes, bytes]:
    """(the bytes of a file up to its first state, their last checksum)."""
    first, checksum = prefix()
    state = np.ascontiguousarray(start, dtype=FLOAT).tobytes()
    data, checksum = chain(checksum, (b"HEAD", header(about)), (b"STRT", state))
    return first + data, checksum


def signals(extras: Mapping[str, tuple[int, ...]]) -> bytes:
    """The payload of a COLS record."""
    return dumps([[name, list(shape)] for name, shape in extras.items()])


def rows(first: int, arrays: Sequence[np.ndarray]) -> bytes:
    """The payload of a DATA record: steps `first` + 1 and on; each array has one entry for each of these steps."""
    return b"".join([ROWS.pack(first, len(arrays[0])), *[np.ascontiguousarray(a, dtype=FLOAT).tobytes() for a in arrays]])


def end(run: Run) -> bytes:
    """The payload of the END record."""
    facts = {"stopped": run.about.get("stopped"), "lost": run.lost, "changed": run.changed or None}
    return dumps({"steps": run.steps, "sha256": run.hash, **{k: v for k, v in facts.items() if v is not None}})


# ---- writing


def records(run: Run) -> Iterator[bytes]:
    """The bytes of the file of a run, record by record."""
    if not all(np.isfinite(array).all() for array in (run.all_states, run.u, run.wrenches, *run.extras.values())):
        raise FileError("a run cannot be written because it has numbers that are not finite, which no step makes.")
    extras = {name: array.shape[1:] for name, array in run.extras.items()}
    # what is known only at the end is in the END record
    about = {name: value for name, value in run.about.items() if name not in ("steps", "stopped")}
    part, checksum = beginning(about, run.all_states[0])
    yield part
    part, checksum = record(b"COLS", signals(extras), checksum)
    yield part
    for first in range(0, run.steps, BLOCK):
        last = min(first + BLOCK, run.steps)
        arrays = [run.all_states[first + 1 : last + 1], *[a[first:last] for a in (run.u, run.wrenches, *run.extras.values())]]
        part, checksum = record(b"DATA", rows(first, arrays), checksum)
        yield part
    yield record(b"END ", end(run), checksum)[0]


class Written(NamedTuple):
    """How much of a file is written: replaced in one assignment, so that an interrupt sees the old value or the new."""

    size: int  # bytes, up to the end of the last complete record
    checksum: bytes
    steps: int


class Writer:
    """A file that grows by complete records. Written records survive a kill of the process; fsync follows each second."""

    def __init__(self, path: PathLike, about: dict[str, Any], start: np.ndarray, overwrite: bool) -> None:
        self.path = Path(path)
        first, checksum = beginning(about, start)
        self.handle = -1
        self.failed: FileError | None = None
        self._syncing: threading.Thread | None = None
        self.written = Written(0, checksum, 0)
        exists = False
        remove_abandoned(self.path.parent)
        with file_errors(path, "written", WRITE_ADVICE):
            try:
                self._create(self.path, first)
            except FileExistsError:
                exists = True
        if exists and not overwrite:
            raise FileError(f"{path} exists already: give another name, or pass overwrite=True.")
        if exists:
            # the old file stays until the new one has its header
            with exclusive(path), atomic_file(path) as temporary:
                self._create(temporary, first)
        self.synced = monotonic()

    def block(self, arrays: list[np.ndarray], extras: dict[str, tuple[int, ...]]) -> None:
        """None; the next steps are in the file, or none of them. `extras`: the shapes of further signals."""
        first = self.written.steps
        columns = [] if first else [(b"COLS", signals(extras))]
        self._append(*chain(self.written.checksum, *columns, (b"DATA", rows(first, arrays))), first + len(arrays[0]))
        if monotonic() - self.synced > SYNC_SECONDS and not (self._syncing and self._syncing.is_alive()):
            # a disk may take milliseconds, which a loop in real time does not have
            self._syncing = threading.Thread(target=_sync, args=(os.dup(self.handle),), name="condyle fsync", daemon=True)
            self._syncing.start()
            self.synced = monotonic()

    def close(self, payload: bytes | None) -> None:
        """None; the file has its END record, if there is a payload for it, and is on the disk."""
        if self.handle < 0:
            return
        if self._syncing is not None:
            self._syncing.join()
        try:
            if payload is not None and self.failed is None:
                self._append(*record(b"END ", payload, self.written.checksum), self.written.steps)
                with file_errors(self.path, "synced", "it is complete, but a power failure may cut it"):
                    os.fsync(self.handle)
        finally:
            handle, self.handle = self.handle, -1
            os.close(handle)

    def __del__(self) -> None:
        """A writer that was not closed releases its file."""
        if getattr(self, "handle", -1) >= 0:
            with suppress(OSError):
                os.close(self.handle)

    def _create(self, path: Path, first: bytes) -> None:
        """None; a new file with these first bytes, locked; no file after an error."""
        self.handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
        try:
            try_lock(self.handle)
            self._write_at(first, 0)
            self.written = self.written._replace(size=len(first))
        except BaseException:
            handle, self.handle = self.handle, -1
            os.close(handle)
            os.unlink(path)
            raise

    def _append(self, data: bytes, checksum: bytes, steps: int) -> None:
        """None; all of the data is in the file, or none of it after an error or an interrupt."""
        if self.failed is not None:
            raise self.failed
        safe = f"the first {self.written.steps:,} steps are safe in it"
        advice = f"{safe}; make room, or save all of them elsewhere: recorder.finish().save(path)"
        try:
            with file_errors(self.path, "written further", advice):
                self._write_at(data, self.written.size)
            self.written = Written(self.written.size + len(data), checksum, steps)
        except BaseException as error:
            if isinstance(error, FileError):
                self.failed = error
            # remove a partial record
            with suppress(OSError):
                os.ftruncate(self.handle, self.written.size)
            raise

    def _write_at(self, data: bytes, at: int) -> None:
        """None; the data is written at this offset."""
        os.lseek(self.handle, at, os.SEEK_SET)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self.handle, rest) :]


def _sync(handle: int) -> None:
    """None; the file is on the disk, and this handle of it closed."""
    with suppress(OSError):
        os.fsync(handle)
    os.close(handle)


# ---- reading


def read(path: PathLike) -> Content:
    """All complete records of a file, and what was lost; a FileError for a file that is not a run."""
    with file_errors(path, "read", READ_ADVICE), open(path, "rb") as file:
        return read_stream(file, os.fstat(file.fileno()).st_size, path)


def read_stream(stream: BinaryIO, size: int, path: PathLike) -> Content:
    """The same for a stream of `size` bytes; `path` is its name in errors."""
    checksum = _checked_prefix(path, stream.read(PREFIX.size), size)
    try:
        content = _content(_read_records(stream, size, checksum))
    except DecodeError as error:
        what = printable(str(error))
        raise FileError(f"{path} cannot be read as a run, {what}: copy it again from where it came.") from None
    if content.lost is None and (rest := size - stream.tell()):
        lost = f"the file goes on for {rest:,} bytes after its end, which were not read"
        return replace(content, lost=lost, changed=True)
    return content


def _checked_prefix(path: PathLike, first: bytes, size: int) -> bytes:
    """The checksum of the prefix."""
    if not first:
        raise FileError(f"{path} is empty, so there is no run in it: record it again.")
    if first[: len(MAGIC)] != MAGIC[: len(first)]:
        raise FileError(f"{path} is not a run: give a file that condyle sim -o, condyle.Recorder or Run.save wrote.")
    if len(first) < PREFIX.size:
        raise FileError(f"{path} ends after {size} bytes, before anything of the run was written: record it again.")
    _, version = PREFIX.unpack(first)
    if version > VERSION:
        raise FileError(f"{path} was made by a newer Condyle, in format {version}, not {VERSION}: pip install --upgrade condyle.")
    if 0 < version < VERSION:
        reason = f"in format {version}, and this Condyle reads format {VERSION} only"
        raise FileError(
            f"{path} was made by an older Condyle, {reason}: record it again, or read it with the Condyle that wrote it."
        )
    if version != VERSION or size > MAX_FILE_BYTES:
        raise FileError(f"{path} is damaged, format {version} and {size} bytes cannot be: copy it again from where it came.")
    return hashlib.sha256(first).digest()


class Stop(Exception):
    """The first incomplete or wrong record; the message completes "the file ..."."""


def _read_records(stream: BinaryIO, size: int, checksum: bytes) -> Iterator[tuple[bytes, bytes]]:
    """(kind, payload) of each record; Stop at the first that is incomplete or wrong."""
    at = PREFIX.size
    while at < size:
        front = stream.read(FRONT)
        if len(front) < FRONT:
            raise Stop("ends in the middle of a block")
        kind, length = RECORD.unpack(front[: RECORD.size])
        if CRC.unpack(front[RECORD.size :])[0] != zlib.crc32(front[: RECORD.size]):
            raise Stop(DAMAGED)
        at += FRONT + length + CHECKSUM_BYTES
        if at > size:
            raise Stop("ends in the middle of a block")
        before, payload, checksum = checksum, stream.read(length), stream.read(CHECKSUM_BYTES)
        if hashlib.sha256(before + front + payload).digest() != checksum:
            raise Stop(DAMAGED)
        if kind != b"DATA" and length > MAX_HEADER_BYTES:
            raise DecodeError(f"it has a record {kind!r} of {length:,} bytes, more than {MAX_HEADER_BYTES:,}")
        yield kind, payload
    raise Stop("ends")


def _content(records: Iterator[tuple[bytes, bytes]]) -> Content:
    """What the records hold, up to the first that is incomplete or wrong."""
    blocks: list[list[np.ndarray]] = []
    steps, ending, lost, changed, known = 0, dict[str, Any](), None, False, False
    try:
        about = loads(_payload(records, b"HEAD"))
        layout = layout_of(about)
        start = np.frombuffer(_payload(records, b"STRT"), np.uint8)
    except Stop as stop:
        raise DecodeError(f"it {stop} before its header is complete, so nothing of the run can be known") from None
    if start.size != 8 * layout.nx or not np.isfinite(start.view(FLOAT)).all():
        raise DecodeError(f"its first state is not {layout.nx} finite numbers")
    try:
        for kind, payload in records:
            if kind == b"COLS" and not known:
                layout, known = with_extras(layout, loads(payload)), True
            elif kind == b"DATA":
                blocks.append(_block(payload, layout, steps))
                steps += len(blocks[-1][0])
            elif kind == b"END ":
                ending = decode(dict[str, Any], loads(payload), "its end")
                if entry(ending, "steps", "its end") != steps:
                    raise DecodeError(f"it says that it has {ending['steps']!r:.20} steps, and has {steps:,}")
                break
            else:
                raise DecodeError(f"it has a record {kind!r} out of place after step {steps:,}")
    except Stop as stop:
        lost, changed = f"the file {stop} after step {steps:,}: ", str(stop) == DAMAGED
        cut = f"the run was not finished, and at most {BLOCK} steps were lost if its program was stopped"
        lost += "its checksum is wrong there, and what follows was not read" if changed else cut
    parts = [np.concatenate(p) for p in zip(*blocks, strict=True)] if blocks else [np.zeros((0, *s)) for s in layout.shapes]
    x = np.concatenate([start.view(FLOAT)[None], parts[0]])
    return Content(about, x, parts[1], parts[2], dict(zip(layout.extras, parts[3:], strict=True)), ending, lost, changed)


def _payload(records: Iterator[tuple[bytes, bytes]], kind: bytes) -> bytes:
    """The payload of the next record, which must be of this kind."""
    found, payload = next(records)
    if found != kind:
        raise DecodeError(f"it has a record {found!r} in place of {kind!r}")
    return payload


def layout_of(about: Any) -> Layout:
    """The sizes that the header states, without further signals."""
    names, where = entry(about, "columns", "the header"), "the header.columns"
    columns = (decode(tuple[Any, ...], entry(names, what, where), f"{where}.{what}") for what in ("x", "u", "wrenches"))
    nx, nu, frames = map(len, columns)
    layout = Layout(nx, nu, frames)
    if not layout.nx or layout.row_bytes > MAX_ROW_BYTES:
        raise DecodeError("its header has no states, or states that are too large")
    return layout


def layout_of_table(about: Any) -> Layout:
    """The sizes of a run exported with this metadata, which has the further signals in its entry "extras"."""
    return with_extras(layout_of(about), entry(about, "extras", "the header"))


def with_extras(layout: Layout, data: Any) -> Layout:
    """The layout with the further signals that a COLS record names."""
    where = "the further signals"
    pairs = decode(tuple[tuple[str, tuple[int, ...]], ...], data, where)
    extras = dict(pairs)
    if len(extras) != len(pairs) or len(pairs) > MAX_SIGNALS:
        raise DecodeError(f"{where} have two of one name, or are more than {MAX_SIGNALS:,}")
    if any(len(shape) > MAX_AXES or not all(0 <= n <= MAX_ROW_BYTES for n in shape) for shape in extras.values()):
        raise DecodeError(f"{where} have a shape that is too large")
    full = replace(layout, extras=extras)
    if full.row_bytes > MAX_ROW_BYTES:
        raise DecodeError(f"{where} are too large")
    return full


def _block(payload: bytes, layout: Layout, steps: int) -> list[np.ndarray]:
    """States, controls, wrenches and further signals of the steps in a DATA record, the first of which must be the next."""
    first, count = ROWS.unpack_from(payload) if len(payload) >= ROWS.size else (0, 0)
    if first != steps or not 1 <= count <= BLOCK or len(payload) != ROWS.size + count * layout.row_bytes:
        raise DecodeError(f"it has a block of {count:,} steps after step {first:,} that does not fit after step {steps:,}")
    numbers = np.frombuffer(payload, FLOAT, offset=ROWS.size)
    if not np.isfinite(numbers).all():
        raise DecodeError(f"it has a number that is not finite among the {count:,} steps after step {steps:,}")
    ends = np.cumsum([count * math.prod(shape) for shape in layout.shapes])
    return [part.reshape(count, *shape) for part, shape in zip(np.split(numbers, ends[:-1]), layout.shapes, strict=True)]
