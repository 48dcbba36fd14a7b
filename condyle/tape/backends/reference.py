"""Machines that interpret: the reference in IEEE floats, MPFR at any precision, and certified intervals.

Every backend has a `name` and `run(tape, inputs)`: one array of shape (N, size) per input port goes in, and one per
output port comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, islice
from typing import Any

import numpy as np

from condyle.errors import BackendError, ShapeError
from condyle.tape.backends.interval import Interval
from condyle.tape.backends.mpfr import Mpfr
from condyle.tape.graph import Block
from condyle.tape.interpret import Arithmetic, Ieee, evaluate
from condyle.tape.ops import OPS
from condyle.tape.tape import Tape

Convert = Callable[[Any], Any]


def interpreted(
    tape: Tape,
    inputs: list[np.ndarray],
    arithmetic: Arithmetic,
    convert_in: Convert,
    convert_out: Convert,
    dtype: Any = object,
) -> list[np.ndarray]:
    """The outputs of a tape in any arithmetic, one array of shape (N, size) and the given dtype per output port.

    `inputs` has one array of shape (N, size) per input port. Each entry goes through `convert_in`, each result through
    `convert_out`. A table is flattened row after row. A tape without inputs is computed once.
    """
    count = batch(tape, inputs)
    outputs = [np.empty((count, port.size), dtype=dtype) for port in tape.outputs]
    for lane in range(count):
        params = [convert_in(x) for array in inputs for x in array[lane]]
        results = iter(evaluate(tape.block, params, arithmetic))
        for port, array in zip(tape.outputs, outputs, strict=True):
            values = chain.from_iterable(next(results)) if port.table else islice(results, port.size)
            array[lane, :] = [convert_out(x) for x in values]
    return outputs


def batch(tape: Tape, inputs: list[np.ndarray]) -> int:
    """The number N of states, or a ShapeError unless there is one array of shape (N, size) per input port."""
    wanted = ", ".join(f"{port.name} (N, {port.size})" for port in tape.inputs) or "none"
    given = ", ".join(str(np.shape(a)) for a in inputs) or "none"
    sizes = [np.shape(a)[1] if np.ndim(a) == 2 else None for a in inputs]
    if sizes != [port.size for port in tape.inputs] or len({len(a) for a in inputs}) > 1:
        raise ShapeError(f"{tape.name}: expected arrays {wanted} with one N for all, got {given}")
    return len(inputs[0]) if inputs else 1


class Reference:
    """Plain Python floats: the definition that every backend of that precision must match bit for bit."""

    name = "reference"

    def run(self, tape: Tape, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """Outputs of a lowered tape in the dtype of its inputs, float64 or float32; float64 when it has none."""
        dtypes = sorted({np.asarray(a).dtype.name for a in inputs}) or ["float64"]
        if dtypes not in (["float64"], ["float32"]):
            given = " and ".join(dtypes)
            raise BackendError(f"{tape.name}: the reference backend takes arrays of float64 or of float32, got {given}")
        if missing := inexact(tape.block):
            names = ", ".join(sorted(missing))
            raise BackendError(f"{tape.name}: the reference backend has no {names}; lower the tape first (passes.lower)")
        return interpreted(tape, inputs, Ieee(single=dtypes == ["float32"]), float, float, dtypes[0])


class MpfrBackend:
    """MPFR numbers of `bits` digits; outputs are object arrays of gmpy2.mpfr."""

    def __init__(self, bits: int) -> None:
        self.name = f"mpfr:{bits}"
        self.bits = bits

    def run(self, tape: Tape, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """Outputs of a tape; entries of the inputs are floats, ints or mpfr, and are rounded to `bits` digits."""
        arithmetic = Mpfr(self.bits)
        return interpreted(tape, inputs, arithmetic, _python(arithmetic.number), lambda x: x)


class IntervalBackend:
    """Certified enclosures computed with `bits` digits; outputs are object arrays of flint.arb."""

    def __init__(self, bits: int = 53) -> None:
        self.name = f"interval:{bits}"
        self.bits = bits

    def run(self, tape: Tape, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """Outputs of a tape; entries of the inputs are exact floats or ints, or balls (arb)."""
        arithmetic = Interval(self.bits)
        with arithmetic.working():
            return interpreted(tape, inputs, arithmetic, _python(arithmetic.number), lambda x: x)


def _python(convert: Convert) -> Convert:
    # gmpy2 and flint do not know NumPy's numbers
    return lambda x: convert(x.item() if isinstance(x, np.generic) else x)


def inexact(block: Block) -> set[str]:
    """The elementary operations of a block and its loops."""
    found = {node.op for node in block.nodes if node.op in OPS and not OPS[node.op].exact}
    return found.union(*[inexact(node.data.body) for node in block.nodes if node.op == "loop"])
