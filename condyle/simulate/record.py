"""States and trajectories kept in one file each: whole or absent, never half, and checked when read.

    magic, format, header length, file length | JSON header | array | array | ... | sha256 of all before

Arrays are raw little-endian bytes in C order, so that every bit of a NaN survives. The JSON header has their names,
dtypes, shapes and offsets, what the caller says `about` them, and who wrote the file.
The hash guards against damage, not against forgery; nothing in the file is ever executed.
"""

import hashlib
import json
import math
import os
import platform
import secrets
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from condyle.errors import FileError

Array = NDArray[Any]

MAGIC, VERSION = b"\x89CDL\r\n\x1a\n", 1  # like PNG's: a transfer as text or in 7 bits damages it at once
PREFIX = struct.Struct("<8sIIQ")  # magic, format version, bytes of the header, bytes of the file
HASH_BYTES = 32

MOST_HEADER_BYTES, MOST_ARRAYS, MOST_FILE_BYTES = 1 << 20, 1000, 1 << 36
DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
AGAIN = "copy it again from where it came, or save it again"


@dataclass(frozen=True)
class Saved:
    """What a file holds; `versions` are those of condyle, numpy and python that wrote it."""

    arrays: dict[str, Array]
    about: dict[str, Any]
    versions: dict[str, str]


def save(path: str | os.PathLike[str], arrays: Mapping[str, Array], about: Mapping[str, Any]) -> None:
    """None; the file `path` holds `arrays` and `about` afterwards, or is what it was before if there is a FileError.

    `about` is what JSON can hold and give back equal: strings, finite numbers, lists, and dicts with string keys.
    A process killed on the way leaves the old file or the new, and perhaps a `condyle-*.tmp` that may be deleted.
    The one FileError with the new file in place says so: the disk would not promise to keep its name.
    """
    plain = {name: _plain(name, array) for name, array in arrays.items()}
    parts: list[bytes | memoryview] = [_header(path, plain, about), *map(_bytes, plain.values())]
    with _sentence(path, "saved", "the folder must exist, allow writing and have room"):
        target = Path(os.path.realpath(path))  # the file behind a link is replaced, not the link
        temporary = target.parent / f"condyle-{os.getpid()}-{secrets.token_hex(8)}.tmp"
        try:
            with open(temporary, "xb") as file:
                digest = hashlib.sha256()
                for part in parts:
                    digest.update(part)
                    file.write(part)
                file.write(digest.digest())
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        finally:
            with suppress(OSError):
                temporary.unlink()
    with _sentence(path, "made to last", "it is saved and complete, but a power failure may bring the old one back"):
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def load(path: str | os.PathLike[str]) -> Saved:
    """The content of a file that `save` wrote, every byte verified; a FileError says what is wrong with any other."""
    with _sentence(path, "read", "check its name, its permissions and the free memory"), open(path, "rb") as file:
        size, prefix = os.fstat(file.fileno()).st_size, file.read(PREFIX.size)
        header_bytes = _checked_prefix(path, prefix, size)
        # only now is memory taken, as much as there is file
        data = np.empty(size - PREFIX.size, np.uint8)
        count, digest = file.readinto(data.data), hashlib.sha256(prefix)
        digest.update(data[:-HASH_BYTES].data)
        if count != len(data) or digest.digest() != data[-HASH_BYTES:].tobytes():
            raise FileError(f"{path} was changed or damaged, its hash differs from the one inside: {AGAIN}.")
        try:
            return _content(data[:header_bytes].tobytes(), data[header_bytes:-HASH_BYTES])
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
            # the hash is right, so this was no accident
            raise FileError(f"{path} was not written by Condyle, its header is wrong ({error}): do not use it.") from error


def digest_of(arrays: Mapping[str, Array]) -> str:
    """The sha256, in hex, of names, dtypes, shapes and bits, in the order of the names: the same only for the same bits.

    So 0.0 and -0.0 differ, and so do two kinds of NaN; strides, endianness and the order of the mapping do not matter.
    """
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = _plain(name, arrays[name])
        kind = json.dumps([name, array.dtype.name, array.shape]).encode()
        digest.update(len(kind).to_bytes(8, "little") + kind)
        digest.update(_bytes(array))
    return digest.hexdigest()


def _plain(name: str, array: Array) -> Array:
    """The same numbers, little-endian and in C order; a FileError for a dtype that is not mere numbers."""
    array = np.asarray(array)
    if array.dtype.name not in DTYPES:
        raise FileError(f"array {name!r} has dtype {array.dtype}, a file holds only {', '.join(DTYPES)}: convert it first.")
    return np.asarray(array, array.dtype.newbyteorder("<"), order="C")


def _bytes(array: Array) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _header(path: object, arrays: Mapping[str, Array], about: Mapping[str, Any]) -> bytes:
    """All that precedes the arrays in the file; their offsets count from its end."""
    from condyle import __version__  # here, because the package may still be loading when this file is

    rows, end = [], 0
    for name, array in arrays.items():
        rows.append({"name": name, "dtype": array.dtype.name, "shape": array.shape, "offset": end})
        end += array.nbytes
    versions = {"condyle": __version__, "numpy": np.__version__, "python": platform.python_version()}
    try:
        text = json.dumps({"arrays": rows, "about": dict(about), "versions": versions}, allow_nan=False).encode()
        same = json.loads(text)["about"] == dict(about) and all(isinstance(name, str) for name in arrays)
    except (ValueError, TypeError, RecursionError):
        same = False
    if not same:
        wanted = "names must be strings and `about` strings, finite numbers, lists (not tuples) and dicts with string keys"
        raise FileError(f"{path} cannot be saved because JSON would not give back what it is to hold: {wanted}.")
    size = PREFIX.size + len(text) + end + HASH_BYTES
    if len(rows) > MOST_ARRAYS or len(text) > MOST_HEADER_BYTES or size > MOST_FILE_BYTES:
        most = f"{MOST_ARRAYS} arrays, {MOST_HEADER_BYTES} bytes of header and {MOST_FILE_BYTES} bytes in all"
        given = f"{len(rows)}, {len(text)} and {size}"
        raise FileError(f"{path} can have at most {most}, got {given}: spread the arrays over several files.")
    return PREFIX.pack(MAGIC, VERSION, len(text), size) + text


def _checked_prefix(path: object, prefix: bytes, size: int) -> int:
    """The length of the header, in a file of `size` bytes that starts with `prefix` and is neither cut nor extended."""
    if prefix[: len(MAGIC)] != MAGIC[: len(prefix)]:
        raise FileError(f"{path} is not a Condyle file: give the name of a file that Condyle saved.")
    _, version, header_bytes, file_bytes = PREFIX.unpack(prefix.ljust(PREFIX.size, b"\0"))
    if version > VERSION:
        raise FileError(f"{path} was made by a newer Condyle, in format {version}, not {VERSION}: pip install --upgrade condyle.")
    least = PREFIX.size + HASH_BYTES
    if size != (wanted := max(file_bytes, least)):
        raise FileError(f"{path} is {'truncated' if size < wanted else 'too long'}, it has {size} of {wanted} bytes: {AGAIN}.")
    if version != VERSION or header_bytes > min(MOST_HEADER_BYTES, size - least) or size > MOST_FILE_BYTES:
        raise FileError(f"{path} is damaged, its format {version} or header of {header_bytes} bytes cannot be: {AGAIN}.")
    return int(header_bytes)


def _content(text: bytes, data: NDArray[np.uint8]) -> Saved:
    """The arrays copied out of `data`; any of the usual exceptions when the header is not one that `save` writes."""
    header, arrays, end = json.loads(text), dict[str, Array](), 0
    if not (len(header["arrays"]) <= MOST_ARRAYS and isinstance(header["about"], dict) and isinstance(header["versions"], dict)):
        raise ValueError(f"not a list of at most {MOST_ARRAYS} arrays and two dicts")
    for row in header["arrays"]:
        name, dtype, shape, offset = row["name"], row["dtype"], row["shape"], row["offset"]
        known = isinstance(name, str) and name not in arrays and dtype in DTYPES
        if not (known and offset == end and all(type(n) is int and n >= 0 for n in shape)):
            raise ValueError(f"array {name!r} repeated, misplaced, or of unknown kind")
        end += np.dtype(dtype).itemsize * math.prod(shape)  # Python integers: they cannot overflow
        piece = data[offset:end]
        if dtype == "bool" and (piece > 1).any():
            raise ValueError(f"array {name!r} has truth values other than 0 and 1")
        arrays[name] = piece.copy().view(np.dtype(dtype).newbyteorder("<")).reshape(shape)
    if end != len(data):
        raise ValueError("bytes that belong to no array")
    return Saved(arrays, header["about"], header["versions"])


@contextmanager
def _sentence(path: str | os.PathLike[str], done: str, cure: str) -> Iterator[None]:
    """What the operating system refuses inside, as one sentence; folders, pipes and devices are refused at once."""
    try:
        if os.path.exists(path) and not os.path.isfile(path):
            raise FileError(f"{path} cannot be {done} because it is not a plain file: give the name of a file.")
        yield
    except FileError:
        raise
    except (OSError, ValueError, MemoryError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise FileError(f"{path} cannot be {done} ({reason}): {cure}.") from error
