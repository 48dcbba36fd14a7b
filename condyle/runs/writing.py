"""Bytes of a run on their way to a file: a whole run at once, or block by block while it happens."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from condyle.atomic_write import WRITE_ADVICE, PathLike, atomic_file, exclusive, file_errors, try_lock
from condyle.errors import FileError
from condyle.runs import file, json_codec

if TYPE_CHECKING:
    from condyle.runs.run import Run

SYNC_SECONDS = 1.0


def parts_of(run: Run) -> Iterator[bytes]:
    """The file of a run, in parts."""
    if not all(np.isfinite(array).all() for array in (run.x, run.u, run.wrenches, *run.extras.values())):
        raise FileError("a run cannot be written because it has numbers that are not finite, which no step makes.")
    part, checksum = file.prefix()
    yield part
    extras = {name: array.shape[1:] for name, array in run.extras.items()}
    # what is known only at the end is written there
    about = {name: value for name, value in run.about.items() if name not in ("steps", "stopped")}
    start = np.ascontiguousarray(run.x[0], dtype=file.FLOAT).tobytes()
    for kind, payload in ((b"HEAD", header(about)), (b"STRT", start), (b"COLS", file.columns(extras))):
        part, checksum = file.record(kind, payload, checksum)
        yield part
    for first in range(0, run.steps, file.BLOCK):
        last = min(first + file.BLOCK, run.steps)
        arrays = [run.x[first + 1 : last + 1], *[a[first:last] for a in (run.u, run.wrenches, *run.extras.values())]]
        part, checksum = file.record(b"DATA", file.rows(first, arrays), checksum)
        yield part
    yield file.record(b"END ", end(run), checksum)[0]


def header(about: dict[str, Any]) -> bytes:
    """The payload of the HEAD record."""
    try:
        text = json_codec.text_of(about)
    except json_codec.Unwritable as error:
        raise FileError(f"a run cannot be written because its `about` is {error}.") from None
    if len(text) > file.MOST_HEADER_BYTES:
        most = f"more than {file.MOST_HEADER_BYTES:,}"
        raise FileError(
            f"a run cannot be written because its header would have {len(text):,} bytes, {most}: make `about` shorter."
        )
    return text


def end(run: Run) -> bytes:
    """The payload of the END record."""
    facts = {"stopped": run.about.get("stopped"), "lost": run.lost, "changed": run.changed or None}
    return json_codec.text_of({"steps": run.steps, "sha256": run.hash, **{k: v for k, v in facts.items() if v is not None}})


class Done(NamedTuple):
    """How far a file has come: replaced at once, so that an interrupt finds the one before a record or the one after it."""

    size: int  # bytes, up to the end of the last whole record
    checksum: bytes
    steps: int


class Writer:
    """A file that grows by whole records. What is written stays if the process is killed; the disk has it a second later."""

    def __init__(self, path: PathLike, about: dict[str, Any], start: np.ndarray, overwrite: bool) -> None:
        self.path = Path(path)
        first, checksum = file.prefix()
        parts = [first]
        for kind, payload in ((b"HEAD", header(about)), (b"STRT", start.astype(file.FLOAT).tobytes())):
            part, checksum = file.record(kind, payload, checksum)
            parts.append(part)
        self.handle = -1
        self.failed: FileError | None = None
        self.done = Done(0, checksum, 0)
        taken = False
        with file_errors(path, "written", WRITE_ADVICE):
            try:
                self._begin(self.path, b"".join(parts))
            except FileExistsError:
                taken = True
        if taken and not overwrite:
            cure = "give another name, or pass overwrite=True"
            raise FileError(f"{path} exists already, and a run is not written over it: {cure}.")
        if taken:
            # the old file stays until the new one has begun
            with exclusive(path), atomic_file(path) as temporary:
                self._begin(temporary, b"".join(parts))
        self.synced = monotonic()

    def block(self, arrays: list[np.ndarray], extras: dict[str, tuple[int, ...]]) -> None:
        """None; the next steps are in the file afterwards, or none of them. `extras`: the shapes of further signals."""
        parts, checksum, first = [], self.done.checksum, self.done.steps
        if not first:
            part, checksum = file.record(b"COLS", file.columns(extras), checksum)
            parts.append(part)
        part, checksum = file.record(b"DATA", file.rows(first, arrays), checksum)
        self._write(b"".join([*parts, part]), checksum, first + len(arrays[0]))
        if monotonic() - self.synced > SYNC_SECONDS:
            with suppress(OSError):
                os.fsync(self.handle)
            self.synced = monotonic()

    def close(self, payload: bytes | None) -> None:
        """None; the file has its end, if there is one to write, and is on the disk."""
        if self.handle < 0:
            return
        try:
            if payload is not None and self.failed is None:
                self._write(*file.record(b"END ", payload, self.done.checksum), self.done.steps)
                with file_errors(self.path, "made to last", "it is complete, but a power failure may cut it"):
                    os.fsync(self.handle)
        finally:
            handle, self.handle = self.handle, -1
            os.close(handle)

    def __del__(self) -> None:
        """A recorder that nobody finished lets go of its file."""
        if getattr(self, "handle", -1) >= 0:
            with suppress(OSError):
                os.close(self.handle)

    # ---- inside

    def _begin(self, path: Path, first: bytes) -> None:
        """The file is made here and now, by nobody else, and has its first bytes; or there is none."""
        self.handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
        try:
            try_lock(self.handle)
            self._put(first, 0)
            self.done = self.done._replace(size=len(first))
        except BaseException:
            handle, self.handle = self.handle, -1
            os.close(handle)
            os.unlink(path)
            raise

    def _write(self, data: bytes, checksum: bytes, steps: int) -> None:
        """None; all of the data is in the file, or none of it if anything comes between, be it an interrupt."""
        if self.failed is not None:
            raise self.failed
        safe = f"the first {self.done.steps:,} steps are safe in it"
        cure = f"{safe}; make room, or save all of them elsewhere: recorder.finish().save(path)"
        try:
            with file_errors(self.path, "written further", cure):
                self._put(data, self.done.size)
            self.done = Done(self.done.size + len(data), checksum, steps)
        except BaseException as error:
            if isinstance(error, FileError):
                self.failed = error
            # a part of a record is no use
            with suppress(OSError):
                os.ftruncate(self.handle, self.done.size)
            raise

    def _put(self, data: bytes, at: int) -> None:
        """All of it at this place, by one call unless the system takes it in parts."""
        os.lseek(self.handle, at, os.SEEK_SET)
        left = memoryview(data)
        while left:
            left = left[os.write(self.handle, left) :]
