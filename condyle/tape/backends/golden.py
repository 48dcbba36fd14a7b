"""The golden vector: a short kernel whose bits are known. A backend that gives other bits is refused."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import numpy as np

from condyle.errors import BackendError
from condyle.tape.array import fma, where
from condyle.tape.loop import loop
from condyle.tape.tape import Tape
from condyle.tape.trace import trace

# sha256 of the outputs, as the reference interpreter gives them; a test computes them again
BITS = {
    "f64": "f95e6fff39308588b6eafe14ce4930c31f45fb08fc40e8d057a293f50bbb2ebb",
    "f32": "6efaa8d002aab40d91da64e7ce4bdca3332476f36fd6ef03fed4c634aa7f376c",
}


def exercise(x: Any) -> Any:
    """Every exact operation on three numbers, then a chaotic iteration that blows up any difference."""
    a, b, c = x
    parts = [
        a + b,
        a - b * c,
        a / c,
        fma(a, b, c),
        np.sqrt(abs(b)),
        np.rint(8.0 * a),
        np.floor(8.0 * b),
        np.copysign(a, b),
    ]
    parts += [
        np.minimum(a, b),
        np.maximum(b, c),
        where((a < b) & ~(b <= c), a, c),
        np.sin(b),
        np.exp(a),
        np.log(abs(c)),
    ]
    start = 0.25 + 0.5 * abs(a - np.floor(a))
    return np.array([*parts, loop(lambda i, y: 3.9 * y * (1.0 - y), start, 60)])


def states() -> np.ndarray:
    """Seventeen states: more than one block of lanes, and a tail."""
    n = np.arange(51.0).reshape(17, 3)
    return (n * 37.0 % 101.0 - 50.0) / 7.0


@cache
def tape() -> Tape:
    return trace(exercise, x=3)


def digest(outputs: np.ndarray) -> str:
    """The hash of the bits, every NaN counting as the same."""
    outputs = np.where(np.isnan(outputs), outputs.dtype.type(np.nan), outputs)
    return hashlib.sha256(outputs.astype(outputs.dtype.newbyteorder("<")).tobytes()).hexdigest()


@cache
def check(precision: str, lanes: int) -> None:
    """Raise unless this processor gives the golden bits."""
    from condyle.tape.backends.cpu import compiled

    inputs = states().astype(np.float64 if precision == "f64" else np.float32)
    outputs = np.empty((len(inputs), tape().outputs[0].size), inputs.dtype)
    compiled(tape(), precision, lanes).run([inputs], [outputs], 1)
    if digest(outputs) != BITS[precision]:
        raise BackendError(
            f"the cpu backend ({precision}, {lanes} lanes) does not give the golden bits on this processor, so its results could "
            "not be trusted; use backend 'reference' and report the processor's name"
        )
