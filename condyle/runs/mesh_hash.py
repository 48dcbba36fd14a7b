"""The hash of a mesh file: a run holds it, so that whoever opens the run sees this mesh, and no other file of his disk."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

MOST_BYTES = 64 * 2**20  # larger ones are not shown anyway


def mesh_hash(path: Path) -> str:
    """The sha256 of a plain file that is not too large to be shown, otherwise ""; a file is read once as long as it stays."""
    try:
        stat = path.stat()
        if not path.is_file() or stat.st_size > MOST_BYTES:
            return ""
        return _hash(path, stat.st_mtime_ns, stat.st_size)
    except (OSError, ValueError):
        return ""


@lru_cache(maxsize=1024)
def _hash(path: Path, _changed: int, _size: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
