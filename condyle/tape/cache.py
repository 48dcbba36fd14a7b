"""Compiled objects kept on disk, because compiling takes seconds and loading takes a millisecond.

One file per key, `<key>.cdo`: magic, format version, key, length and sha256 of the payload, then the payload itself.
What is loaded from here is executed, so the directory must belong to this user alone, and so must each file.
The header guards against damage; the permissions guard against other people.
"""

import hashlib
import os
import re
import stat
import struct
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

from condyle.atomic_write import replacing
from condyle.tape.threads import in_turn

MAGIC, VERSION = b"CONDYLE\0", 1
HEADER = struct.Struct("<8sI32sQ32s")  # magic, version, key, payload length, payload sha256

ENTRY_NAME = re.compile(r"[0-9a-f]{64}\.cdo")
TEMPORARY_NAME = re.compile(r"[0-9a-f]{64}\.[0-9]+-[0-9a-f]{16}\.tmp")

STALE_SECONDS = 3600  # a temporary file this old belongs to a process that died
ANY_ACCESS, WRITE_ACCESS = 0o077, 0o022  # permissions of group and others
PROCESSES = 8  # may fill the room that is left at once, each its part, before one of them looks at the directory again


class ObjectCache:
    """Bytes by key in a private directory, at most `limit_bytes` of files; always empty when `directory` is None."""

    def __init__(self, directory: Path | None, limit_bytes: int = 512 << 20) -> None:
        self.directory = directory
        self.limit_bytes = limit_bytes
        self._room = 0  # bytes that are stored before the directory is looked at: listing thousands of files takes longer

    def load(self, key: str) -> bytes | None:
        """The payload stored under `key`, verified; None when there is none that can be trusted."""
        name = _entry_name(key)
        directory = self._private_directory()
        if directory is None:
            return None
        path = directory / name
        try:
            with open(path, "rb", opener=_open_plain) as file:
                info = os.fstat(file.fileno())
                if stat.S_ISREG(info.st_mode) and _is_mine(info, forbidden=WRITE_ACCESS):
                    header, payload = file.read(HEADER.size), file.read()
                    if header == _header(key, payload):
                        # the modification time is the time of last use; a read-only disk keeps the old one
                        with suppress(OSError):
                            os.utime(file.fileno() if os.utime in os.supports_fd else path)
                        return payload
        except OSError:
            return None
        # a bad file; if another process replaced it by a good one just now, one compilation is repeated
        _remove(path)
        return None

    def store(self, key: str, payload: bytes) -> None:
        """None; `payload` is on disk under `key` afterwards, if it fits the limit and the disk allows."""
        name = _entry_name(key)
        if self.directory is None or HEADER.size + len(payload) > self.limit_bytes:
            return
        with suppress(OSError):
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory = self._private_directory()
        if directory is None:
            return
        # a full or read-only disk costs a compilation next time, nothing more
        with suppress(OSError):
            with replacing(directory / name, prefix=f"{key}.") as temporary, open(temporary, "xb", opener=_open_plain) as file:
                file.write(_header(key, payload) + payload)
            self._room -= HEADER.size + len(payload)
            if self._room < 0:
                self._evict(directory, keep=name)

    def found(self, text: str, make: Callable[[], bytes]) -> bytes:
        """The payload stored under the hash of `text`, or else what `make` gives, stored now."""
        key = hashlib.sha256(text.encode()).hexdigest()

        def find() -> bytes:
            payload = self.load(key)
            if payload is None:
                payload = make()
                self.store(key, payload)
            return payload

        return in_turn(key, find)

    def _private_directory(self) -> Path | None:
        """The directory if only this user can reach into it; else None, with a warning unless it is merely absent."""
        directory = self.directory
        if directory is None:
            return None
        try:
            link, target = os.lstat(directory), os.stat(directory)
        except OSError:
            return None
        if stat.S_ISDIR(target.st_mode) and _is_mine(link) and _is_mine(target, forbidden=ANY_ACCESS):
            return directory
        self.directory = None
        message = (
            f"compiled code is not cached because {directory} is not a directory that only this user can reach: "
            f"run 'chmod 700 {directory}' if it is yours, or set CONDYLE_CACHE to a private directory or to 'off'."
        )
        warnings.warn(message, RuntimeWarning, stacklevel=3)
        return None

    def _evict(self, directory: Path, keep: str) -> None:
        """None; if the limit was exceeded, the least recently used files but `keep` are gone, down to 90 % of it."""
        entries: list[tuple[int, str, int]] = []
        with os.scandir(directory) as listing:
            for file in listing:
                # another process may evict at the same time, so a file may vanish at any moment
                with suppress(FileNotFoundError):
                    info = file.stat(follow_symlinks=False)
                    if ENTRY_NAME.fullmatch(file.name):
                        entries.append((info.st_mtime_ns, file.name, info.st_size))
                    elif TEMPORARY_NAME.fullmatch(file.name) and time.time() - info.st_mtime > STALE_SECONDS:
                        _remove(directory / file.name)
        total = sum(size for _, _, size in entries)
        goal = total if total <= self.limit_bytes else 0.9 * self.limit_bytes
        for _, name, size in sorted(entries):
            if total > goal and name != keep:
                _remove(directory / name)
                total -= size
        self._room = (self.limit_bytes - total) // PROCESSES


def default_cache() -> ObjectCache:
    """The cache in CONDYLE_CACHE (none if "off" or empty), else XDG_CACHE_HOME/condyle, else ~/.cache/condyle."""
    chosen, xdg = os.environ.get("CONDYLE_CACHE"), os.environ.get("XDG_CACHE_HOME", "")
    try:
        if chosen is not None:
            return ObjectCache(None if chosen in ("", "off") else Path(chosen).expanduser().absolute())
        # the XDG rules say to ignore a relative path
        return ObjectCache((Path(xdg) if os.path.isabs(xdg) else Path.home() / ".cache") / "condyle")
    except RuntimeError:  # there is no home directory
        return ObjectCache(None)


@cache
def shared_cache() -> ObjectCache:
    """The default cache, one for the process."""
    return default_cache()


def _entry_name(key: str) -> str:
    """The file name of `key`, which must be a sha256 in lower-case hex: nothing else may become a path."""
    name = f"{key}.cdo"
    if not ENTRY_NAME.fullmatch(name):
        raise ValueError(f"the cache key must be 64 lower-case hex digits, got {key!r}: pass a sha256 hexdigest().")
    return name


def _header(key: str, payload: bytes) -> bytes:
    """The bytes that precede `payload` in the file of `key`."""
    return HEADER.pack(MAGIC, VERSION, bytes.fromhex(key), len(payload), hashlib.sha256(payload).digest())


def _open_plain(path: str, flags: int) -> int:
    """A descriptor of the file itself: no symbolic link is followed, no pipe waited for, a new file is private."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o600)


def _is_mine(info: os.stat_result, forbidden: int = 0) -> bool:
    """True when this user owns the file and no `forbidden` permission is granted; true where users have no numbers."""
    return not hasattr(os, "geteuid") or (info.st_uid == os.geteuid() and not info.st_mode & forbidden)


def _remove(path: Path) -> None:
    """None; the file is gone if it was there and could be removed."""
    with suppress(OSError):
        path.unlink()
