"""Files replaced atomically: written under a temporary name, synced, renamed. Errors of the disk become one sentence each."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

from condyle.errors import CondyleError, FileError

PathLike = str | os.PathLike[str]
WRITE_ADVICE = "the folder must exist, allow writing and have room"
READ_ADVICE = "check its name, its permissions and the free memory"
TEMPORARY_NAME = re.compile(r"condyle-([0-9a-f]{8})-(\d{1,9})-[0-9a-f]{16}\.\w+")
ABANDONED_SECONDS = 3600


@contextmanager
def file_errors(path: PathLike, action: str, advice: str) -> Iterator[None]:
    """OSError, MemoryError and ValueError of the block as a FileError; folders, pipes and devices are refused at once."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise FileError(f"{path} cannot be {action} because it is not a plain file: give the name of a file.")
        yield
    except CondyleError:
        raise
    except (OSError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        advice = "check its name" if isinstance(error, FileNotFoundError) and action == "read" else advice
        raise FileError(f"{path} cannot be {action} ({reason}): {advice}.") from error
    except ValueError as error:
        raise FileError(f"{path!s:.200} cannot be {action}: {error!s:.200}.") from error


@contextmanager
def replacing(target: Path, prefix: str = "condyle-", suffix: str = ".tmp") -> Iterator[Path]:
    """A temporary path in the folder of `target`, synced and renamed to `target` if the block succeeds, deleted otherwise."""
    temporary = target.parent / f"{prefix}{os.getpid()}-{secrets.token_hex(8)}{suffix}"
    try:
        yield temporary
        _fsync(temporary)
        os.replace(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def atomic_file(path: PathLike, *, suffix: str = ".tmp", parents: bool = False) -> Iterator[Path]:
    """A temporary path that replaces `path` if the block succeeds; the file behind a symbolic link is replaced, not the link.

    `suffix`: how the temporary name ends. `parents`: create the folder if it does not exist.
    """
    with file_errors(path, "written", WRITE_ADVICE):
        target = Path(os.path.realpath(path))
        if parents:
            target.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(target.parent)
        with replacing(target, prefix=f"condyle-{_host()}-", suffix=suffix) as temporary:
            yield temporary
        _fsync(target.parent)


def remove_abandoned(folder: Path) -> None:
    """Remove temporary files whose process was killed: it runs no longer here, or wrote nothing for an hour, wherever it runs."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = TEMPORARY_NAME.fullmatch(entry.name)
            # another process may have removed it
            with suppress(OSError):
                if name is not None and (_ended(*name.groups()) or time.time() - entry.stat().st_mtime > ABANDONED_SECONDS):
                    os.unlink(entry.path)


def _ended(host: str, process: str) -> bool:
    """Whether a process ran on this computer and does not run any more."""
    if host != _host() or os.name != "posix":
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except OSError:  # that of another user
        return False
    return False


@cache
def _host() -> str:
    """A name for all processes that see each other's numbers: those of one computer, or of one container."""
    namespace = ""
    with suppress(OSError):
        namespace = os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(f"{platform.node()} {namespace}".encode()).hexdigest()[:8]


def write_bytes(path: PathLike, content: bytes) -> None:
    """None; the file holds exactly `content`, and its folder is created if it did not exist."""
    with atomic_file(path, parents=True) as temporary:
        temporary.write_bytes(content)


@contextmanager
def exclusive(path: PathLike) -> Iterator[None]:
    """The lock of an existing file, held during the block; a FileError if another recorder holds it."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError):  # no file yet, or one whose error the writer reports
        yield
        return
    try:
        if not try_lock(handle):
            raise FileError(f"{path} is being written by another recorder: finish that one first, or give another name.")
        yield
    finally:
        os.close(handle)


def try_lock(handle: int) -> bool:
    """Whether the open file is locked for this process until it is closed; True where the system has no locks."""
    try:
        import fcntl
    except ImportError:  # Windows refuses to replace an open file by itself
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network disks
        return True
    return True


def _fsync(path: Path) -> None:
    """None; the content of a file, or the names in a folder, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
