"""The reference backend: a tape interpreted in IEEE floats, the definition that every other backend must match bit for bit.

The golden vector is how a backend shows that it does: a short kernel whose bits are known, computed before any other.
"""

from __future__ import annotations

import hashlib
from functools import cache
from itertools import chain, islice
from typing import Any

import numpy as np

from condyle.errors import BackendError, ShapeError
from condyle.tape.array import fma, where
from condyle.tape.backends.interface import Backend, Kernel, Options
from condyle.tape.interpret import Arithmetic, Ieee, evaluate
from condyle.tape.limbs import unrolled
from condyle.tape.loop import loop
from condyle.tape.passes import lower
from condyle.tape.tape import Tape
from condyle.tape.trace import trace

DTYPES = {"f64": np.float64, "f32": np.float32}


class InterpretedKernel(Kernel):
    """A tape interpreted state by state in any arithmetic."""

    def __init__(self, tape: Tape, arithmetic: Arithmetic) -> None:
        self.tape, self.arithmetic = tape, arithmetic

    def __call__(self, arrays: list[np.ndarray], out: list[np.ndarray]) -> None:
        for ports, given in ((self.tape.inputs, arrays), (self.tape.outputs, out)):
            sizes = [a.shape[-1] if port.run_time else port.size for a, port in zip(given, ports, strict=False)]
            if len(given) != len(ports) or [a.shape for a in given] != [(len(out[0]), size) for size in sizes]:
                wanted = ", ".join(f"{port.name} (N, {port.size})" for port in ports) or "none"
                found = ", ".join(str(a.shape) for a in given) or "none"
                raise ShapeError(f"{self.tape.name}: expected arrays {wanted} with one N for all, got {found}")
        with self.arithmetic.working():
            for lane in range(len(out[0])):
                params: list[Any] = []
                for port, array in zip(self.tape.inputs, arrays, strict=True):
                    # gmpy2 and flint do not know NumPy's numbers
                    entries = [self.arithmetic.number(x.item() if isinstance(x, np.generic) else x) for x in array[lane]]
                    params += (
                        [self.arithmetic.table(entries, len(entries) // port.columns, port.columns)] if port.table else entries
                    )
                results = iter(evaluate(unrolled(self.tape.block), params, self.arithmetic))
                for port, array in zip(self.tape.outputs, out, strict=True):
                    array[lane, :] = [*(chain.from_iterable(next(results)) if port.table else islice(results, port.size))]


class ReferenceBackend(Backend):
    """Plain Python floats."""

    def compile(self, tape: Tape, precision: str, options: Options) -> Kernel:
        """The lowered tape interpreted with floats."""
        return InterpretedKernel(lower(tape, precision), Ieee(single=precision == "f32"))


# ---- the golden vector

# sha256 of the outputs, as the reference backend gives them; a test computes them again
GOLDEN = {
    "f64": "7c9bc15b0123cf3a31703bcc8cecd7acc0f0a405a51d53099e50f4c302534be2",
    "f32": "922eb4ae1d5703f2a744fb1a33bd842fcc8ff0ce28f42558f5bfc15f7f9849e1",
}


def golden_function(x: Any) -> Any:
    """Every exact operation on three numbers, then a chaotic iteration that amplifies any difference."""
    a, b, c = x
    parts = [a + b, a - b * c, a / c, fma(a, b, c), np.sqrt(abs(b)), np.rint(8.0 * a), np.floor(8.0 * b), np.copysign(a, b)]
    parts += [np.minimum(a, b), np.maximum(b, c), where((a < b) & ~(b <= c), a, c), np.sin(b), np.exp(a), np.log(abs(c))]
    w, v = (1e6 * a).to_int(), (1e6 * b).to_int()
    words = [w + v, w - v, w * v, w.multiply_high(v), w & v, w | v, w ^ v, w << 7, w >> (v & 31), where(w < v, w, v)]
    parts += [x.to_real() for x in words]
    start = 0.25 + 0.5 * abs(a - np.floor(a))
    return np.array([*parts, loop(lambda i, y: 3.9 * y * (1.0 - y), start, 60)])


@cache
def golden_tape() -> Tape:
    """The tape of the golden vector."""
    return trace(golden_function, x=3)


def golden_digest(kernel: Kernel, precision: str) -> str:
    """Sha256 of what a kernel of the golden tape gives for seventeen states: more than one block of lanes, and a tail."""
    states = (np.arange(51.0).reshape(17, 3) * 37.0 % 101.0 - 50.0) / 7.0
    outputs = np.empty((len(states), golden_tape().outputs[0].size), DTYPES[precision])
    kernel([states.astype(DTYPES[precision])], [outputs])
    # every NaN counts as the same
    outputs = np.where(np.isnan(outputs), outputs.dtype.type(np.nan), outputs)
    return hashlib.sha256(outputs.astype(outputs.dtype.newbyteorder("<")).tobytes()).hexdigest()


def check_golden(kernel: Kernel, precision: str, name: str) -> None:
    """Raise unless a kernel of the golden tape gives the golden bits."""
    if golden_digest(kernel, precision) != GOLDEN[precision]:
        raise BackendError(
            f"the {name} backend ({precision}) does not give the golden bits on this processor, so its results could not be "
            "trusted; use backend 'reference' and report the processor's name"
        )
