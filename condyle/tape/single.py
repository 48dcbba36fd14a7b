"""The quick way for one state: prepared buffers, so that a call costs little more than the copies in and out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from condyle.tape.backends.cpu import Kernel, aligned
from condyle.tape.native import native_call
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


def single_state(
    kernel: Kernel, tape: Tape, result: Callable[..., Any] | None, *, guarded: bool = False
) -> Callable[[tuple[Any, ...]], Any]:
    """A function that computes one float64 state: what a call returns, or None when the arguments are anything else.

    `result` puts several outputs together. `guarded`: the last output is a check that is not returned, and unless it is zero
    the answer is None. The code is written for speed: a loop over few things costs more than the things.
    """
    frames: list[Frame] = []  # each call takes one away and puts it back, so calls from threads do not meet
    count, run, array, double = len(tape.inputs), kernel.single, np.ndarray, np.dtype(np.float64)
    alone = len(tape.outputs) == 1 + guarded and tape.outputs[0].shape != ()
    native = native_call(kernel, tape, guarded=guarded) if alone else None

    def call(args: tuple[Any, ...]) -> Any:
        if len(args) != count:
            return None
        mine = frames.pop() if frames else frame(kernel, tape)
        inputs, outputs, address, _ = mine
        for value, (place, shape) in zip(args, inputs):  # noqa: B905
            if type(value) is array:
                if value.shape == shape and value.dtype is double:
                    place[...] = value
                    continue
            elif type(value) is float and not shape:
                place[...] = value
                continue
            frames.append(mine)
            return None
        run(address)
        if guarded and outputs[-1][()] != 0.0:
            frames.append(mine)
            return None
        if alone:
            single = outputs[0].copy()
            frames.append(mine)
            return single
        results = [a.copy() if a.ndim else a[()] for a in outputs]
        frames.append(mine)
        if guarded:
            return results[0] if len(results) == 2 else tuple(results[:-1])
        return results[0] if result is None else result(*results)

    if native is None:
        return call

    def either(args: tuple[Any, ...]) -> Any:
        single = native(args)
        return call(args) if single is None else single

    return either
