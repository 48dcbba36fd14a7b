"""The quick way for one state: prepared buffers, so that a call costs little more than the copies in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from condyle.tape.cpu import Kernel, aligned
from condyle.tape.tape import Tape

# (places and shapes of the inputs, outputs, address of the frame, what must stay alive)
Frame = tuple[list[tuple[np.ndarray, tuple[int, ...]]], list[np.ndarray], int, tuple[np.ndarray, ...]]


def frame(kernel: Kernel, tape: Tape) -> Frame:
    """Buffers for one call in flight, and the address of (scratch, ports ...) that the kernel reads."""
    inputs = [np.zeros(p.shape) for p in tape.inputs]
    outputs = [np.zeros(p.shape) for p in tape.outputs]
    scratch = aligned(kernel.scratch)
    ports = [n for a in (*inputs, *outputs) for n in (a.ctypes.data, 0)]
    words = np.array([scratch.ctypes.data, *ports], dtype=np.int64)
    return [(a, a.shape) for a in inputs], outputs, words.ctypes.data, (scratch, words)


def single_state(kernel: Kernel, tape: Tape) -> Callable[[tuple[Any, ...]], list[Any] | None]:
    """A function that computes one float64 state: the list of outputs, or None when the arguments are anything else."""
    frames: list[Frame] = []  # each call takes one away and puts it back, so calls from threads do not meet
    count, run, array, double = len(tape.inputs), kernel.single, np.ndarray, np.dtype(np.float64)

    def call(args: tuple[Any, ...]) -> list[Any] | None:
        if len(args) != count:
            return None
        mine = frames.pop() if frames else frame(kernel, tape)
        inputs, outputs, address, _ = mine
        for value, (place, shape) in zip(args, inputs, strict=False):
            kind = type(value)
            if kind is array:
                if value.shape != shape or value.dtype is not double:
                    frames.append(mine)
                    return None
            elif kind is not float or shape:
                frames.append(mine)
                return None
            place[...] = value
        run(address)
        results = [a.copy() if a.ndim else a[()] for a in outputs]
        frames.append(mine)
        return results

    return call
