"""Files written whole or not at all, and what the operating system refuses as one sentence."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from condyle.errors import FileError

PathLike = str | os.PathLike[str]
ROOM = "the folder must exist, allow writing and have room"


@contextmanager
def sentence(path: PathLike, done: str, cure: str) -> Iterator[None]:
    """What the operating system refuses inside, as a FileError; folders, pipes and devices are refused at once."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise FileError(f"{path} cannot be {done} because it is not a plain file: give the name of a file.")
        yield
    except FileError:
        raise
    except (OSError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        cure = "check its name" if isinstance(error, FileNotFoundError) and done == "read" else cure
        raise FileError(f"{path} cannot be {done} ({reason}): {cure}.") from error
    except ValueError as error:
        raise FileError(f"{path!s:.200} cannot be {done}: {error!s:.200}.") from error


@contextmanager
def unwritten(path: PathLike) -> Iterator[None]:
    """A FileError if somebody is recording into this file; while the block lasts, nobody else passes."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except (OSError, ValueError):  # none yet, or one that whoever writes will hear about
        yield
        return
    try:
        if not locked(handle):
            raise FileError(f"{path} is being written by another recorder: finish that one first, or give another name.")
        yield
    finally:
        os.close(handle)


def locked(handle: int) -> bool:
    """Whether the open file is ours alone from now on, until it is closed; True where the system knows no such thing."""
    try:
        import fcntl
    except ImportError:  # Windows, which itself refuses to replace a file that is open
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # some network disks
        return True
    return True


@contextmanager
def whole(path: PathLike) -> Iterator[Path]:
    """The name of a temporary file to write; it takes the place of `path` when the block ends well, and is gone otherwise."""
    with sentence(path, "written", ROOM):
        target = Path(os.path.realpath(path))  # the file behind a link is replaced, not the link
        temporary = target.parent / f"condyle-{os.getpid()}-{secrets.token_hex(8)}.tmp"
        try:
            yield temporary
            settle(temporary)
            os.replace(temporary, target)
        finally:
            with suppress(OSError):
                temporary.unlink()
        settle(target.parent)


def settle(path: Path) -> None:
    """None; what was written to a file, or the names in a folder, are on the disk afterwards."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(path: PathLike, content: bytes) -> None:
    """None; the file holds `content`, all of it, and its folder has been made."""
    with sentence(path, "written", ROOM):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    with whole(path) as temporary:
        temporary.write_bytes(content)
