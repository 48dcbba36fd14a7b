"""Tapes computed array by array, one array of shape (N, size) per port: for tests that go past `Function`."""

from __future__ import annotations

from typing import Any

import gmpy2
import numpy as np

from condyle.tape.backends.interface import Kernel, Options, find_backend
from condyle.tape.backends.reference import InterpretedKernel
from condyle.tape.interpret import Arithmetic, Ieee
from condyle.tape.tape import Tape


def computed(kernel: Kernel, tape: Tape, inputs: list[np.ndarray], dtype: Any) -> list[np.ndarray]:
    """The outputs that a kernel of the tape gives."""
    outputs = [np.full((len(inputs[0]), p.size), 7.0, dtype) for p in tape.outputs]
    kernel(inputs, outputs)
    return outputs


def interpreted(tape: Tape, inputs: list[np.ndarray], arithmetic: Arithmetic, dtype: Any = object) -> list[np.ndarray]:
    """The outputs in any arithmetic."""
    return computed(InterpretedKernel(tape, arithmetic), tape, inputs, dtype)


def reference(lowered: Tape, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a lowered tape by definition, in the precision of the arrays."""
    dtype = inputs[0].dtype
    return interpreted(lowered, inputs, Ieee(single=dtype == np.float32), dtype)


def on(backend: str, tape: Tape, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a backend that takes objects."""
    return computed(find_backend(backend).compile(tape, "f64", Options()), tape, inputs, object)


BITS, STEP = 512, 2.0**-150


def differences(function, x, *others):
    """d function / d x by central differences at 512 bits, as float64."""
    precise, base = function.on(f"mpfr:{BITS}"), np.asarray(x, dtype=object)
    columns = []
    with gmpy2.context(precision=BITS):
        for place in np.ndindex(base.shape):
            low, high = base.copy(), base.copy()
            low[place] = gmpy2.mpfr(float(base[place])) - gmpy2.mpfr(STEP)
            high[place] = gmpy2.mpfr(float(base[place])) + gmpy2.mpfr(STEP)
            change = (np.asarray(precise(high, *others)) - np.asarray(precise(low, *others))) / (2 * gmpy2.mpfr(STEP))
            columns.append(np.asarray(change, dtype=object).astype(float))
    return np.stack(columns, -1).reshape((*columns[0].shape, *base.shape))
