"""A compiled function: arrays in, arrays out, leading axes are the batch."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from condyle.tape.arguments import Arguments
from condyle.tape.backends.interface import FastCall, Kernel, Options, find_backend
from condyle.tape.passes import lower
from condyle.tape.tape import Tape
from condyle.tape.trace import Shape, trace

_PRECISION = {np.dtype(np.float64): "f64", np.dtype(np.float32): "f32"}


def function(callable: Callable[..., Any], /, **shapes: Shape) -> Function:
    """The compiled form of a Python function over NumPy arrays, with one named shape per argument.

    step = condyle.function(lambda x, u: x + 0.01 * np.sin(u), x=3, u=3)
    step(x, u)          # x of shape (3,), or (1000, 3), or (10, 1000, 3)
    """
    return Function(trace(callable, **shapes))


class Function:
    """A tape on a backend. It computes in float32 when every array given is float32, otherwise in float64."""

    def __init__(self, tape: Tape, backend: str = "cpu", *, lanes: int | None = None, threads: int | None = None) -> None:
        self.tape, self.backend = tape, backend
        self._backend, self._options = find_backend(backend), Options(lanes, threads)
        self._arguments = Arguments(tape)
        self._kernels: dict[str, Kernel] = {}
        self._fast: FastCall | None = None
        names = [p.name for p in tape.outputs]
        self._result: Any = namedtuple("Outputs", names, rename=True) if len(names) > 1 else None

    # ---- calling

    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        """The outputs for one state or a batch: one array, or a named tuple of arrays when there are several outputs.

        `out`: an array, or one per output, to write into; they are returned.
        """
        if self._fast is not None and out is None and not named:
            result = self._fast(args)
            if result is not None:
                return result
        inputs, lead, dtype = self._arguments.bind(args, named, objects=self._backend.takes_objects)
        outputs = self._arguments.outputs(lead, dtype, out, inputs)
        if len(outputs[0]):
            self.kernel(_PRECISION.get(dtype, "f64"))(inputs, outputs)
            if self._fast is None and dtype == np.float64:
                self._fast = self.fast_call()
        results = self._arguments.shaped(outputs, lead, out)
        return results[0] if self._result is None else self._result(*results)

    def fast_call(self, *, guarded: bool = False) -> FastCall | None:
        """A function of a tuple of arguments for one float64 state, which gives None for any other; None on most backends.

        `guarded`: the last output is a check that is not given back, and where it is not zero the result is None.
        """
        return self.kernel().fast_call(None if guarded else self._result, guarded=guarded)

    # ---- what it is

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the inputs, without batch axes."""
        return {p.name: p.shape for p in self.tape.inputs}

    @property
    def outputs(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the outputs, without batch axes."""
        return {p.name: p.shape for p in self.tape.outputs}

    @property
    def operations(self) -> int:
        """Exact operations for one state in float64: elementary functions written out, an fma counting one."""
        return self.lowered("f64").operations

    @property
    def threads(self) -> int:
        """Threads that share a large batch."""
        return self._backend.threads(self._options)

    @property
    def encloses(self) -> bool:
        """Whether results are enclosures, which say themselves whether they are bounded (the interval backend)."""
        return self._backend.encloses

    def lanes(self, precision: str = "f64") -> int:
        """States computed side by side in one vector."""
        return self._backend.lanes(precision, self._options)

    def on(self, backend: str, *, lanes: int | None = None, threads: int | None = None) -> Function:
        """The same function on another backend: "cpu", "reference", "mpfr:BITS", or "interval" ("interval:BITS")."""
        return Function(self.tape, backend, lanes=lanes, threads=threads)

    def lowered(self, precision: str = "f64") -> Tape:
        """The tape in exact operations, as every backend of this precision computes it."""
        return lower(self.tape, precision)

    def kernel(self, precision: str = "f64") -> Kernel:
        """The compiled kernel; the first call compiles it or finds it in the cache."""
        if precision not in self._kernels:
            self._kernels[precision] = self._backend.compile(self.tape, precision, self._options)
        return self._kernels[precision]

    def source(self, language: str, precision: str = "f64") -> str:
        """The kernel as text: "tape", "c" (C99 for one state), or on the cpu backend "llvm" or "asm" (of this processor)."""
        if language == "tape":
            return str(self.lowered(precision))
        if language == "c":
            from condyle.tape.export.c import c_source

            return c_source(self.lowered(precision), precision)
        return self._backend.source(self.tape, language, precision, self._options)

    def casadi(self) -> Any:
        """The same function for CasADi (needs the extra `casadi`)."""
        from condyle.tape.export.casadi import casadi_function

        return casadi_function(self.tape)

    def __repr__(self) -> str:
        ports = [", ".join(f"{p.name}{list(p.shape)}" for p in side) for side in (self.tape.inputs, self.tape.outputs)]
        return f"<condyle function {self.tape.name}({ports[0]}) -> {ports[1]} on {self.backend}>"

    # ---- derivatives

    def jacobian(
        self, of: str | Sequence[str] | None = None, wrt: str | Sequence[str] | None = None, *, mode: str = "auto"
    ) -> Function:
        """A function whose outputs d<of>_d<wrt> have shape (*of, *wrt); zero entries that the structure forces cost nothing."""
        from condyle.tape.derive import jacobian

        return self._like(jacobian(self.tape, of, wrt, mode=mode))

    def sparse_jacobian(self, of: str, wrt: str, *, mode: str = "auto") -> tuple[Function, np.ndarray, np.ndarray]:
        """(function that gives the nonzero entries, their rows, their columns) of one Jacobian, flattened to a matrix."""
        from condyle.tape.derive import sparse_jacobian

        tape, rows, columns = sparse_jacobian(self.tape, of, wrt, mode=mode)
        return self._like(tape), rows, columns

    def vjp(self, wrt: str | Sequence[str] | None = None) -> Function:
        """A function of the inputs and of a weight <output>_weight per output that gives <input>_gradient = J^T weight."""
        from condyle.tape.derive import vjp

        return self._like(vjp(self.tape, wrt))

    def jvp(self, wrt: str | Sequence[str] | None = None) -> Function:
        """A function of the inputs and of a direction <input>_tangent per input that gives <output>_tangent = J tangent."""
        from condyle.tape.derive import jvp

        return self._like(jvp(self.tape, wrt))

    def hessian(self, of: str | None = None, wrt: str | Sequence[str] | None = None) -> Function:
        """A function that gives the second derivatives of one scalar output, as d2<of>_d<a>_d<b> for each pair of inputs."""
        from condyle.tape.derive import hessian

        return self._like(hessian(self.tape, of, wrt))

    # ---- inside

    def _like(self, tape: Tape) -> Function:
        return Function(tape, self.backend, lanes=self._options.lanes, threads=self._options.threads)
