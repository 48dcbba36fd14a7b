"""One thread for each call of BLAS: threads of our own share the work, in an order that does not depend on their number."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

# (set, get) of the libraries that NumPy is built with
ENTRIES = tuple(
    (f"{a}openblas_set_num_threads{b}", f"{a}openblas_get_num_threads{b}") for a in ("scipy_", "") for b in ("64_", "")
)


class _Blocks:
    """The blocks that are inside of `single_threaded_blas` now, in all threads: the library has one number for all of them."""

    lock = Lock()
    count = 0
    before = 1  # threads of BLAS when the first one began


@contextmanager
def single_threaded_blas() -> Iterator[bool]:
    """Products of matrices use one thread inside of the block; False where the library offers no way to say so."""
    library = _openblas()
    if library is None:
        yield False
        return
    set_threads, get_threads = library
    entered = False
    try:
        with _Blocks.lock:
            if not _Blocks.count:
                _Blocks.before = get_threads()
                set_threads(1)
            _Blocks.count += 1
            entered = True
        yield True
    finally:
        if entered:
            with _Blocks.lock:
                _Blocks.count -= 1
                if not _Blocks.count:
                    set_threads(_Blocks.before)


@cache
def _openblas() -> tuple[Callable[[int], Any], Callable[[], int]] | None:
    """(set, get) of the number of threads of the OpenBLAS that NumPy loaded."""
    np.ones((2, 2)) @ np.ones((2, 2))
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return None
    for path in sorted({line.split(maxsplit=5)[-1] for line in lines if "openblas" in line and "/" in line}):
        try:
            library = ctypes.CDLL(path)
        except OSError:
            continue
        for set_name, get_name in ENTRIES:
            if hasattr(library, set_name) and "scipy.libs" not in path:  # SciPy has its own
                return getattr(library, set_name), getattr(library, get_name)
    return None
