"""A file in memory that two programs share: its layout, blocks that are read consistently while they are written, and waiting.

Every block has a sequence number, a 32-bit word: odd while the block is written, even when it is complete, and another one after
each write (a seqlock). A reader copies the block between two equal even numbers. The word is also a futex of Linux: who waits for
a change sleeps in the kernel and is woken by the writer. A side is alive as long as it holds the lock on its byte of the file (an
open file description lock), which the kernel releases when the process ends, however it ends.

Needs NumPy and the standard library only; the same in C is in examples/external/condyle_link.h.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import json
import mmap
import os
import platform
import struct
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from condyle.errors import ConnectError

FOLDER = Path("/dev/shm")
MAGIC, VERSION = b"CDYLLINK", 1
ALIGNMENT = 64  # bytes: a line of the cache
RUNNING, OVER = 0, 1  # of server_end and client_end
SERVER, CLIENT = 0, 1  # the byte of the file that each side locks
SIGNAL, COMMAND = 0, 1  # of a row of the table
SLICE = 0.02  # s between two looks at whether the other side is alive
SPIN = 0.0  # s of looking at the word before sleeping; from Python, sleeping at once is faster
LIMIT = 1 << 30  # bytes of a file that is opened
REASON = 256  # bytes of a sentence


@dataclass(frozen=True)
class Field:
    """A number or text of the header, at a fixed offset in bytes; little-endian."""

    offset: int
    type: str  # u32, u64, f64, or bytes such as 8s
    about: str

    @property
    def format(self) -> str:
        """As the module struct has it."""
        return "<" + {"u32": "I", "u64": "Q", "f64": "d"}.get(self.type, self.type)


HEADER: dict[str, Field] = {
    "magic": Field(0, "8s", "the letters CDYLLINK; written last, when all else is there"),
    "version": Field(8, "u32", "1"),
    "mode": Field(12, "u32", "0 lock-step, 1 real time"),
    "file_bytes": Field(16, "u64", "size of the file"),
    "dt": Field(24, "f64", "length of a tick, s"),
    "every": Field(32, "u32", "ticks of a control period"),
    "table_rows": Field(36, "u32", "rows of the table of names"),
    "table_offset": Field(40, "u64", "where the table begins"),
    "text_offset": Field(48, "u64", "where the description begins, JSON"),
    "text_bytes": Field(56, "u64", "its length"),
    "state_offset": Field(64, "u64", "where the signals begin, f64 each"),
    "state_count": Field(72, "u64", "how many numbers they are"),
    "command_offset": Field(80, "u64", "where the command begins, f64 each"),
    "command_count": Field(88, "u64", "how many numbers it is"),
    "server_pid": Field(96, "u32", "process of the simulation"),
    "client_pid": Field(100, "u32", "process of the external program; 0 before it connects"),
    "state_sequence": Field(128, "u32", "futex; odd while tick, time and signals are written"),
    "server_end": Field(132, "u32", "1 when the run is over"),
    "state_tick": Field(136, "u64", "tick of the signals"),
    "state_time": Field(144, "f64", "time of the signals, s"),
    "server_heartbeat": Field(152, "u64", "CLOCK_MONOTONIC in ns, the last sign of life of the simulation"),
    "command_sequence": Field(192, "u32", "futex; odd while tick and command are written"),
    "client_end": Field(196, "u32", "1 when the program ends the run"),
    "command_tick": Field(200, "u64", "tick of the signals that the command answers"),
    "client_heartbeat": Field(208, "u64", "CLOCK_MONOTONIC in ns, the last sign of life of the program"),
    "server_reason": Field(256, "256s", "why the run is over, UTF-8, ends with a zero byte"),
    "client_reason": Field(512, "256s", "why the program ends the run, UTF-8, ends with a zero byte"),
}
HEADER_BYTES = 768
ROW = struct.Struct("<96s8I")  # of the table
ROW_FIELDS = {
    "name": "96 bytes, UTF-8, ends with a zero byte",
    "kind": "u32: 0 a signal, 1 a command",
    "first": "u32: index of its first number in the block",
    "count": "u32: how many numbers",
    "axes": "u32: number of axes of its shape, at most 4",
    "shape": "4 u32",
}

Shapes = Mapping[str, tuple[int, ...]]


class Block:
    """The shared file, mapped into this process."""

    def __init__(self, descriptor: int, path: Path, *, writable: bool = True) -> None:
        self.path, self._descriptor = path, descriptor
        size = os.fstat(descriptor).st_size
        if not HEADER_BYTES <= size <= LIMIT:
            raise ConnectError(f"{path} is no shared memory of Condyle: it has {size:,} bytes")
        self._map = mmap.mmap(descriptor, size, prot=mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0))
        self._words = memoryview(self._map)[:HEADER_BYTES].cast("I")
        self._at = {name: field.offset // 4 for name, field in HEADER.items()}
        self._futex = Futex(self._map) if writable else None
        self.state = self.command = np.zeros(0)

    def number(self, name: str) -> Any:
        """A field of the header."""
        field = HEADER[name]
        return struct.unpack_from(field.format, self._map, field.offset)[0]

    def write(self, name: str, value: Any) -> None:
        """None; a field of the header is set."""
        field = HEADER[name]
        struct.pack_into(field.format, self._map, field.offset, value)

    def text(self, name: str) -> str:
        """A sentence of the header."""
        return str(bytes(self.number(name)).partition(b"\0")[0].decode("utf-8", "replace"))

    def write_text(self, name: str, text: str) -> None:
        """None; a sentence is written, cut where it is too long."""
        data = text.encode()[: REASON - 1].decode("utf-8", "ignore").encode()
        self.write(name, data)

    def sequence(self, name: str) -> int:
        """The sequence number of a block: "state" or "command"."""
        return self._words[self._at[f"{name}_sequence"]]

    def arrays(self) -> None:
        """None; `state` and `command` are the numbers of the blocks, in place."""
        for name in ("state", "command"):
            first, count = self.number(f"{name}_offset"), self.number(f"{name}_count")
            if first + 8 * count > len(self._map):
                raise ConnectError(f"{self.path} is damaged: its {name} block lies beyond its end")
            setattr(self, name, np.frombuffer(self._map, np.dtype("<f8"), count, first))

    def write_block(self, name: str, tick: int, numbers: np.ndarray | None, *more: tuple[str, Any]) -> None:
        """None; the block "state" or "command" has these numbers, and who waits for it is woken."""
        at = self._at[f"{name}_sequence"]
        self._words[at] = (self._words[at] + 1) & 0xFFFF_FFFF
        fence()
        self.write(f"{name}_tick", tick)
        for field, value in more:
            self.write(field, value)
        if numbers is not None:
            (self.state if name == "state" else self.command)[:] = numbers
        fence()
        self._words[at] = (self._words[at] + 1) & 0xFFFF_FFFF
        assert self._futex is not None
        self._futex.wake(4 * at)

    def read_block(self, name: str, seen: int) -> tuple[int, int, np.ndarray] | None:
        """(sequence number, tick, numbers) of a block; None if it has the number `seen`, or is being written."""
        at = self._at[f"{name}_sequence"]
        before = self._words[at]
        if before == seen or before & 1:
            return None
        fence()
        tick, numbers = self.number(f"{name}_tick"), np.array(self.state if name == "state" else self.command)
        fence()
        return (before, tick, numbers) if self._words[at] == before else None

    def wait(self, name: str, seen: int, deadline: float, alive: Callable[[], bool], spin: float = SPIN) -> bool:
        """Whether the block has another number than `seen`: after looking for a moment, and then asleep, until the deadline.

        `alive()` is asked every 20 ms; it may raise, and False ends the wait.
        """
        at = self._at[f"{name}_sequence"]
        words, futex = self._words, self._futex
        until = min(time.monotonic() + spin, deadline)
        while time.monotonic() < until:
            if words[at] != seen and not words[at] & 1:
                return True
        while True:
            now = words[at]
            if now != seen and not now & 1:
                return True
            rest = min(deadline - time.monotonic(), SLICE)
            if rest <= 0.0:
                return False
            if futex is not None:
                futex.wait(4 * at, now, rest)
            else:
                time.sleep(min(rest, 1e-3))
            if words[at] == now and not alive():
                return False

    def lock(self, side: int) -> bool:
        """Whether this process now holds the lock of a side."""
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _flock(fcntl.F_WRLCK, side))
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    def locked(self, side: int) -> bool:
        """Whether another open file holds the lock of a side: whether that side is alive."""
        found = fcntl.fcntl(self._descriptor, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK, side))
        return bool(struct.unpack_from("h", found)[0] != fcntl.F_UNLCK)

    def heartbeat(self, side: int) -> None:
        """None; a sign of life of this side."""
        self.write("server_heartbeat" if side == SERVER else "client_heartbeat", time.monotonic_ns())

    def quiet(self, side: int) -> float:
        """Seconds since the last sign of life of a side."""
        return 1e-9 * (time.monotonic_ns() - int(self.number("server_heartbeat" if side == SERVER else "client_heartbeat")))

    def description(self) -> dict[str, Any]:
        """The JSON text of the file."""
        first, size = self.number("text_offset"), self.number("text_bytes")
        try:
            return dict(json.loads(self._map[first : first + size].decode()))
        except (ValueError, TypeError):
            raise ConnectError(f"{self.path} is damaged: its description is not JSON") from None

    def shapes(self, kind: int) -> dict[str, tuple[int, ...]]:
        """{name: shape} of the signals or of the commands, from the table."""
        found = {}
        for row in range(self.number("table_rows")):
            name, which, _, _, axes, *shape = ROW.unpack_from(self._map, self.number("table_offset") + row * ROW.size)
            if which == kind:
                found[name.partition(b"\0")[0].decode()] = tuple(shape[:axes])
        return found

    def close(self) -> None:
        """None; the lock and the mapping are given up."""
        self.state = self.command = np.zeros(0)
        self._words.release()
        if self._futex is not None:
            self._futex.release()
        # if somebody keeps an array of it, it is unmapped with that
        with suppress(BufferError):
            self._map.close()
        os.close(self._descriptor)


def create(path: Path, signals: Shapes, commands: Shapes, mode: int, dt: float, every: int, text: Mapping[str, Any]) -> Block:
    """A new shared file with this side as its server; a ConnectError if another server uses it."""
    _require_linux()
    data = json.dumps(text).encode()
    rows = _table(signals, SIGNAL) + _table(commands, COMMAND)
    sizes = {"state": sum(map(prod, signals.values())), "command": sum(map(prod, commands.values()))}
    table_offset = HEADER_BYTES
    state_offset = _padded(table_offset + len(rows))
    command_offset = _padded(state_offset + 8 * sizes["state"])
    text_offset = _padded(command_offset + 8 * sizes["command"])
    size = text_offset + len(data)
    _remove_old(path)
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConnectError(f"the shared memory {path} cannot be created ({error.strerror}): give another name or path") from None
    try:
        os.posix_fallocate(descriptor, 0, size)
        block = Block(descriptor, path)
    except OSError as error:
        os.close(descriptor)
        os.unlink(path)
        raise ConnectError(f"there is no room for {size:,} bytes in {path.parent} ({error.strerror})") from None
    block.lock(SERVER)
    facts = {"version": VERSION, "mode": mode, "file_bytes": size, "dt": dt, "every": every, "server_pid": os.getpid()}
    facts |= {
        "table_rows": len(rows) // ROW.size,
        "table_offset": table_offset,
        "text_offset": text_offset,
        "text_bytes": len(data),
    }
    facts |= {"state_offset": state_offset, "state_count": sizes["state"]}
    facts |= {"command_offset": command_offset, "command_count": sizes["command"]}
    for name, value in facts.items():
        block.write(name, value)
    block._map[table_offset : table_offset + len(rows)] = rows
    block._map[text_offset:size] = data
    block.heartbeat(SERVER)
    block.arrays()
    fence()
    block.write("magic", MAGIC)
    return block


def attach(path: Path, *, read_only: bool = False) -> Block:
    """The shared file of a running server; a ConnectError if there is none, or if another program is connected."""
    _require_linux()
    try:
        descriptor = os.open(path, (os.O_RDONLY if read_only else os.O_RDWR) | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        why = "no simulation serves there" if error.errno == errno.ENOENT else str(error.strerror)
        raise ConnectError(
            f"{path} cannot be opened ({why}): start the server first, or give the name it was started with"
        ) from None
    try:
        block = Block(descriptor, path, writable=not read_only)
    except BaseException:
        os.close(descriptor)
        raise
    try:
        if block.number("magic") != MAGIC:
            raise ConnectError(f"{path} is no shared memory of Condyle, or not ready yet")
        if block.number("version") != VERSION:
            raise ConnectError(f"{path} has version {block.number('version')} of the layout, and this program knows {VERSION}")
        block.arrays()
        if not read_only and not block.lock(CLIENT):
            raise ConnectError(f"another program (process {block.number('client_pid')}) is connected to {path}")
    except BaseException:
        block.close()
        raise
    if not read_only:
        block.write("client_pid", os.getpid())
        block.heartbeat(CLIENT)
    return block


def path_of(name: str | os.PathLike[str]) -> Path:
    """/dev/shm/condyle-NAME of a name; a path stays as it is."""
    text = os.fspath(name)
    if not text or "\0" in text:
        raise ConnectError(f"shared memory needs a name such as arm, or a path; got {text!r:.60}")
    return Path(text) if "/" in text else FOLDER / f"condyle-{text}"


FUTEX = {"x86_64": 202, "aarch64": 98}  # number of the system call


class Futex:
    """Sleeping until a 32-bit word of shared memory changes, by the system call futex of Linux."""

    WAIT, WAKE, ALL = 0, 1, 2**31 - 1

    def __init__(self, memory: mmap.mmap) -> None:
        self._anchor: Any = ctypes.c_char.from_buffer(memory)
        self._start = ctypes.addressof(self._anchor)
        self._number = FUTEX.get(platform.machine())
        self._call = ctypes.CDLL(None, use_errno=True).syscall
        self._time = Timespec()

    def wait(self, offset: int, value: int, seconds: float) -> None:
        """None, when the word at the offset is not `value`, was changed, or after some seconds; may also return early."""
        if self._number is None:
            time.sleep(min(seconds, 2e-4))
            return
        whole = int(seconds)
        self._time.seconds, self._time.nanoseconds = whole, int(1e9 * (seconds - whole))
        address, limit = ctypes.c_void_p(self._start + offset), ctypes.byref(self._time)
        self._call(self._number, address, self.WAIT, ctypes.c_uint32(value), limit, None, 0)

    def wake(self, offset: int) -> None:
        """None; everybody who waits for the word is woken."""
        if self._number is not None:
            self._call(self._number, ctypes.c_void_p(self._start + offset), self.WAKE, self.ALL, None, None, 0)

    def release(self) -> None:
        """None; the memory is not used any more."""
        self._anchor = None


class Timespec(ctypes.Structure):
    """struct timespec of C."""

    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


_ORDERED = platform.machine() in ("x86_64", "AMD64")  # stores are seen in their order, and so are loads
_BARRIER = threading.Lock()
_BARRIER.acquire()


def fence() -> None:
    """None; what was written or read before stays before what follows, also on processors that reorder it."""
    if not _ORDERED:
        # a release followed by an acquire
        with _FENCE:
            _BARRIER.release()
            _BARRIER.acquire()


_FENCE = threading.Lock()


def _flock(kind: int, side: int) -> bytes:
    """struct flock of C for one byte of the file."""
    return struct.pack("hhqqi4x", kind, os.SEEK_SET, side, 1, 0)


def _table(shapes: Shapes, kind: int) -> bytes:
    rows, first = b"", 0
    for name, shape in shapes.items():
        text = name.encode()
        if len(text) > 95 or len(shape) > 4:
            raise ConnectError(f"'{name:.60}' cannot be shared: names have at most 95 bytes and shapes four axes")
        count = prod(shape)
        rows += ROW.pack(text, kind, first, count, len(shape), *shape, *[0] * (4 - len(shape)))
        first += count
    return rows


def _padded(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _remove_old(path: Path) -> None:
    """None; a file that a server left behind is removed. A ConnectError if one still uses it, or if it is something else."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConnectError(f"the shared memory {path} cannot be opened ({error.strerror}): give another name") from None
    try:
        if os.pread(descriptor, len(MAGIC), 0) not in (MAGIC, b"", bytes(len(MAGIC))):
            raise ConnectError(f"{path} exists and is no shared memory of Condyle: give another name or path")
        found = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _flock(fcntl.F_WRLCK, SERVER))
        if struct.unpack_from("h", found)[0] != fcntl.F_UNLCK:
            raise ConnectError(f"another simulation serves at {path}: give this one another name")
        os.unlink(path)
    finally:
        os.close(descriptor)


def _require_linux() -> None:
    if sys.platform != "linux":
        raise ConnectError("shared memory needs Linux: use the WebSocket on this system")
