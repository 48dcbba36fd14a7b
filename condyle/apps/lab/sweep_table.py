"""The table of a sweep, written while it runs: records with length and checksum, read up to the first that is wrong.

    magic, version | HEAD (JSON: what is swept) | ROWS | ROWS | ...

    record   as in a file of a run: kind, bytes, crc32 | payload | sha256 of the checksum before and all this
    ROWS     number of rows (u64) | for each: index of the run (u64), ok (f64), metrics (f64 each)

A process that is killed at any moment leaves complete records and perhaps a part of one, which is cut off before the next is
written. The order of the rows is that in which runs end; the final table is sorted by the ids of runs.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from condyle.apps.lab.metrics import NAMES
from condyle.atomic_write import READ_ADVICE, WRITE_ADVICE, PathLike, file_errors, try_lock, write_bytes
from condyle.errors import FileError
from condyle.workbench.runs.file import CHECKSUM_BYTES, CRC, FRONT, RECORD, record
from condyle.workbench.runs.json_codec import dumps, loads

MAGIC, VERSION = b"\x89CDS\r\n\x1a\n", 1
PREFIX = struct.Struct("<8sI")
COUNT = struct.Struct("<Q")
MAX_HEADER, MAX_RECORD = 1 << 26, 1 << 30
ROW = np.dtype([("index", "<u8"), ("ok", "<f8"), ("metrics", "<f8", (len(NAMES),))])


class TableFile:
    """The growing file of a sweep. `rows`: {index of a run: its record} of all complete records; `lost`: what was cut off."""

    def __init__(self, path: PathLike, head: Mapping[str, Any], *, overwrite: bool = False) -> None:
        self.path = Path(path)
        self.rows: dict[int, np.void] = {}
        self.lost: str | None = None
        wanted = dumps(dict(head))
        with file_errors(path, "written", WRITE_ADVICE):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.handle = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o644)
        try:
            if not try_lock(self.handle):
                raise FileError(f"{path} is being written by another sweep: wait for it, or give another name.")
            content = b"" if overwrite else _content(self.handle)
            found, rows, size, checksum, self.lost = parsed(content, str(path))
            if found is not None and found != wanted:
                raise FileError(
                    f"{path} is the table of another sweep (other experiment, values or seed): --force starts again, or give "
                    "another name."
                )
            if found is None:
                size, checksum = 0, b""
            with file_errors(path, "written", WRITE_ADVICE):
                os.ftruncate(self.handle, size)
                os.lseek(self.handle, size, os.SEEK_SET)
                self.checksum = checksum
                if found is None:
                    first = PREFIX.pack(MAGIC, VERSION)
                    data, self.checksum = record(b"HEAD", wanted, hashlib.sha256(first).digest())
                    self._write(first + data)
        except BaseException:
            os.close(self.handle)
            raise
        self.rows = {int(row["index"]): row for row in rows}

    def append(self, indices: Sequence[int], ok: Sequence[bool], values: np.ndarray) -> None:
        """None; the rows of these runs are in the file, and survive a kill of the process."""
        rows = np.zeros(len(indices), ROW)
        rows["index"], rows["ok"], rows["metrics"] = indices, np.asarray(ok, dtype=float), values
        data, checksum = record(b"ROWS", COUNT.pack(len(rows)) + rows.tobytes(), self.checksum)
        with file_errors(self.path, "written", WRITE_ADVICE):
            self._write(data)
        self.checksum = checksum
        self.rows |= {int(row["index"]): row for row in rows}

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.handle, data) :]

    def close(self) -> None:
        """None; the file is synced and closed."""
        if self.handle >= 0:
            with file_errors(self.path, "written", WRITE_ADVICE):
                os.fsync(self.handle)
            os.close(self.handle)
            self.handle = -1

    def __enter__(self) -> TableFile:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def read_rows(path: PathLike) -> tuple[dict[str, Any], np.ndarray, str | None]:
    """(head, rows, what was lost) of a file of a sweep."""
    with file_errors(path, "read", READ_ADVICE):
        content = Path(path).read_bytes()
    head, rows, _, _, lost = parsed(content, str(path))
    if head is None:
        raise FileError(f"{path} is no table of a sweep: `condyle lab sweep` makes one.")
    return loads(head), rows, lost


def parsed(content: bytes, where: str) -> tuple[bytes | None, np.ndarray, int, bytes, str | None]:
    """(head, rows, bytes up to the last complete record, its checksum, what was lost) of the content of a file."""
    nothing = np.zeros(0, ROW)
    if not content:
        return None, nothing, 0, b"", None
    first = PREFIX.pack(MAGIC, VERSION)
    if content[: len(first)] != first[: len(content)]:
        raise FileError(f"{where} is no table of a sweep: give the name of one, or of a file that does not exist.")
    if len(content) < len(first):
        return None, nothing, 0, b"", "the file was cut before its first record"
    checksum, at = hashlib.sha256(first).digest(), len(first)
    head: bytes | None = None
    parts: list[np.ndarray] = []
    lost = None
    while at < len(content):
        payload, after, problem = _next(content, at, checksum)
        if payload is None:
            lost = f"the file {problem} after {sum(map(len, parts)):,} runs; the rest is computed again"
            break
        kind, data = payload
        rows = _rows(data) if kind == b"ROWS" else None
        if (head is None) != (kind == b"HEAD") or (head is not None and rows is None):
            lost = "a record is not what it should be; the runs after it are computed again"
            break
        if head is None:
            head = data
        elif rows is not None:
            parts.append(rows)
        at, checksum = at + FRONT + len(data) + CHECKSUM_BYTES, after
    return head, np.concatenate(parts) if parts else nothing, at, checksum, lost


def _next(content: bytes, at: int, checksum: bytes) -> tuple[tuple[bytes, bytes] | None, bytes, str]:
    """((kind, payload), checksum, "") of the record at a place, or (None, b"", what is wrong)."""
    front = content[at : at + FRONT]
    if len(front) < FRONT:
        return None, b"", "ends in the middle of a record"
    kind, size = RECORD.unpack(front[: RECORD.size])
    if CRC.unpack(front[RECORD.size :])[0] != zlib.crc32(front[: RECORD.size]) or size > MAX_RECORD:
        return None, b"", "is damaged"
    payload = content[at + FRONT : at + FRONT + size]
    found = content[at + FRONT + size : at + FRONT + size + CHECKSUM_BYTES]
    if len(payload) < size or len(found) < CHECKSUM_BYTES:
        return None, b"", "ends in the middle of a record"
    if hashlib.sha256(checksum + front + payload).digest() != found:
        return None, b"", "is damaged"
    return (kind, payload), found, ""


def _rows(payload: bytes) -> np.ndarray | None:
    if len(payload) < COUNT.size:
        return None
    (count,) = COUNT.unpack(payload[: COUNT.size])
    if len(payload) != COUNT.size + count * ROW.itemsize:
        return None
    return np.frombuffer(payload[COUNT.size :], ROW)


def _content(handle: int) -> bytes:
    os.lseek(handle, 0, os.SEEK_SET)
    parts = []
    while part := os.read(handle, 1 << 22):
        parts.append(part)
    return b"".join(parts)


# ---- the final table


def csv_text(ids: Sequence[str], paths: Sequence[str], values: Sequence[Sequence[float]], rows: Mapping[int, Any]) -> str:
    """The table sorted by the ids of runs: id, swept values, ok, metrics; floats as the shortest decimals with the same bits."""
    lines = [",".join(["id", *paths, "ok", *NAMES])]
    for k in sorted(range(len(ids)), key=lambda k: ids[k]):
        row = rows.get(k)
        if row is None:
            continue
        numbers = [repr(float(x)) for x in values[k]], [repr(float(x)) for x in row["metrics"]]
        lines.append(",".join([ids[k], *numbers[0], str(int(row["ok"])), *numbers[1]]))
    return "\n".join(lines) + "\n"


def write_parquet(path: PathLike, ids: Sequence[str], paths: Sequence[str], values: np.ndarray, rows: Mapping[int, Any]) -> bool:
    """Whether pyarrow is installed: then the same table is written as Parquet."""
    try:
        import pyarrow
        import pyarrow.parquet as parquet
    except ImportError:
        return False
    order = [k for k in sorted(range(len(ids)), key=lambda k: ids[k]) if k in rows]
    columns: dict[str, Any] = {"id": [ids[k] for k in order]}
    columns |= {path: values[order, j] for j, path in enumerate(paths)}
    columns["ok"] = [bool(rows[k]["ok"]) for k in order]
    columns |= {name: np.array([rows[k]["metrics"][j] for k in order]) for j, name in enumerate(NAMES)}
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(pyarrow.table(columns), sink)
    write_bytes(path, sink.getvalue().to_pybytes())
    return True
