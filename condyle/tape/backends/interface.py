"""The interface of all backends: `compile(tape, precision, options)` gives a kernel, and `kernel(arrays, out)` computes a batch.

A new backend is one file with a subclass of `Backend`, as backends/cpu.py has CpuBackend, and its name in NAME.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from condyle.errors import BackendError
from condyle.tape.tape import Tape

FastCall = Callable[[tuple[Any, ...]], Any]  # arguments -> result, or None for arguments that it does not take

# a backend's module, and the bits of its numbers: none to choose, to be given, or with a default
NAME = re.compile(r"(cpu(?!:)|cuda(?!:)|reference(?!:)|mpfr(?=:)|interval)(?::(\d*[1-9]\d*))?")


@dataclass(frozen=True)
class Options:
    """How a backend computes; no option changes a bit of the result. None is the backend's own choice."""

    lanes: int | None = None  # states computed side by side in one vector
    threads: int | None = None  # threads that share a batch

    def __post_init__(self) -> None:
        if self.lanes is not None and self.lanes not in (1, 2, 4, 8, 16):
            raise BackendError(f"lanes must be 1, 2, 4, 8 or 16, got {self.lanes}")
        if self.threads is not None and not (isinstance(self.threads, int) and self.threads >= 1):
            raise BackendError(f"threads must be a whole number, at least 1, got {self.threads!r:.40}")


class Kernel(ABC):
    """A tape compiled by a backend."""

    @abstractmethod
    def __call__(self, arrays: list[np.ndarray], out: list[np.ndarray]) -> None:
        """Write the outputs of a batch, one array (states, entries) per port; a stride of zero between rows repeats a state."""

    def compile_for(self, states: int) -> None:  # noqa: B027
        """Compile what a batch of so many states needs now, and not with the first call; by default all is compiled."""

    def fast_call(self, result: type | None, *, guarded: bool) -> FastCall | None:
        """A function for one float64 state given as a tuple of arrays; None where the backend has no such function.

        It gives a new array or number, or the named tuple `result` of several. `guarded`: the last output is a check that is not
        part of the result, and unless it is zero the function gives None.
        """
        return None


class Backend(ABC):
    """What computes tapes."""

    takes_objects = False  # whether arrays hold Python objects (numbers of any precision, balls) rather than floats
    encloses = False  # whether a result is an enclosure, which says itself whether it is bounded
    digits = 0  # binary digits of its numbers, if they are neither float64 nor float32

    @abstractmethod
    def compile(self, tape: Tape, precision: str, options: Options) -> Kernel:
        """The kernel of a tape for arrays of "f64" or "f32"; a backend that takes objects has its own precision."""

    def lanes(self, precision: str, options: Options) -> int:
        """States computed side by side in one vector."""
        return 1

    def threads(self, options: Options) -> int:
        """Threads that share a large batch."""
        return 1

    def source(self, tape: Tape, language: str, precision: str, options: Options) -> str:
        """The kernel as text in a language of the backend."""
        raise BackendError(f"source() can print 'tape' or 'c', and on the cpu backend 'llvm' or 'asm', not {language!r}")


def find_backend(name: str) -> Backend:
    """The backend of a name such as "cpu" or "mpfr:256", imported now.

    Where LLVM is not installed, "cpu" is the reference: the same bits, slowly, which is enough for the few states that a program
    computes on the processor while its batches are on a GPU.
    """
    match = NAME.fullmatch(name) if isinstance(name, str) else None
    if match is None:
        raise BackendError(
            f"there is no backend {name!r:.60}; there are 'cpu', 'cuda', 'reference', 'mpfr:BITS' (as 'mpfr:256') and 'interval'"
        )
    kind, bits = match.groups()
    if kind == "cpu" and find_spec("llvmlite") is None:
        kind = "reference"
    backend: Any = getattr(import_module(f"condyle.tape.backends.{kind}"), f"{kind.capitalize()}Backend")
    found: Backend = backend(int(bits)) if bits else backend()
    return found
