"""A compiled function: arrays in, arrays out, leading axes are the batch."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from condyle.errors import BackendError
from condyle.tape.arguments import Arguments
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
        self.tape = tape
        self.backend, _, bits = backend.partition(":")
        self._bits = int(bits) if bits.isdigit() else None
        self._lanes, self._threads = lanes, threads
        self._arguments = Arguments(tape)
        self._kernels: dict[str, Any] = {}
        self._lowered: dict[str, Tape] = {}
        self._single: Callable[[tuple[Any, ...]], Any] | None = None
        names = [p.name for p in tape.outputs]
        self._result: Any = namedtuple("Outputs", names, rename=True) if len(names) > 1 else None
        self._check_backend(backend)

    # ---- calling

    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        """The outputs for one state or a batch: one array, or a named tuple of arrays when there are several outputs.

        `out`: an array, or one per output, to write into; they are returned.
        """
        if self._single is not None and out is None and not named:
            result = self._single(args)
            if result is not None:
                return result
        inputs, lead, dtype = self._arguments.bind(args, named, objects=self._interprets_objects)
        outputs = self._arguments.outputs(lead, dtype, out, inputs)
        self._run(inputs, outputs, dtype)
        results = self._arguments.shaped(outputs, lead, out)
        return results[0] if self._result is None else self._result(*results)

    def _run(self, inputs: list[np.ndarray], outputs: list[np.ndarray], dtype: np.dtype[Any]) -> None:
        if not len(outputs[0]):
            return
        if self.backend == "cpu":
            kernel = self.kernel(_PRECISION[dtype])
            if self._single is None and dtype == np.float64:
                from condyle.tape.single import single_state

                self._single = single_state(kernel, self.tape, self._result)
            kernel.run(inputs, outputs, self.threads)
            return
        for array, result in zip(outputs, self._interpreter(dtype)(inputs), strict=True):
            array[...] = result

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
        from condyle.tape.backends.cpu import available_threads

        return self._threads or available_threads()

    def lanes(self, precision: str = "f64") -> int:
        """States computed side by side in one vector."""
        from condyle.tape.backends.cpu import default_lanes

        return self._lanes or default_lanes(precision)

    def on(self, backend: str, *, lanes: int | None = None, threads: int | None = None) -> Function:
        """The same function on another backend: "cpu", "reference", "mpfr:BITS", or "interval" ("interval:BITS")."""
        return Function(self.tape, backend, lanes=lanes, threads=threads)

    def lowered(self, precision: str = "f64") -> Tape:
        """The tape in exact operations, as every backend of this precision computes it."""
        if precision not in self._lowered:
            self._lowered[precision] = lower(self.tape, precision)
        return self._lowered[precision]

    def kernel(self, precision: str = "f64") -> Any:
        """The compiled kernel; the first call compiles it or finds it in the cache."""
        if precision not in self._kernels:
            from condyle.tape.backends.cpu import compiled
            from condyle.tape.backends.golden import check

            lanes = self.lanes(precision)
            check(precision, lanes)
            self._kernels[precision] = compiled(self.tape, precision, lanes, lowered=lambda: self.lowered(precision))
        return self._kernels[precision]

    def source(self, language: str, precision: str = "f64") -> str:
        """The kernel as text: "tape", "llvm", "asm" (of this processor), or "c" (C99 for one state)."""
        if language == "tape":
            return str(self.lowered(precision))
        if language == "c":
            from condyle.tape.export.c import c_source

            return c_source(self.lowered(precision), {"f64": "float64", "f32": "float32"}[precision])
        if language in ("llvm", "asm"):
            from condyle.tape.backends.cpu import assembly, host
            from condyle.tape.llvm import kernel_ir

            text, _ = kernel_ir(self.lowered(precision), precision, self.lanes(precision), host().triple)
            return text if language == "llvm" else assembly(text)
        raise BackendError(f"source() can print 'tape', 'llvm', 'asm' or 'c', not {language!r}")

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
        backend = self.backend if self._bits is None else f"{self.backend}:{self._bits}"
        return Function(tape, backend, lanes=self._lanes, threads=self._threads)

    @property
    def _interprets_objects(self) -> bool:
        return self.backend in ("mpfr", "interval")

    def _interpreter(self, dtype: np.dtype[Any]) -> Callable[[list[np.ndarray]], list[np.ndarray]]:
        from condyle.tape.backends.reference import IntervalBackend, MpfrBackend, Reference

        if self.backend == "reference":
            return partial(Reference().run, self.lowered(_PRECISION[dtype]))
        if self.backend == "mpfr":
            return partial(MpfrBackend(self._bits or 0).run, self.tape)
        return partial(IntervalBackend(self._bits or 53).run, self.tape)

    def _check_backend(self, backend: str) -> None:
        if self.backend not in ("cpu", "reference", "mpfr", "interval") or (self.backend == "mpfr" and not self._bits):
            raise BackendError(
                f"there is no backend {backend!r}; there are 'cpu', 'reference', 'mpfr:BITS' (as 'mpfr:256') and 'interval'"
            )
        if self._lanes is not None and self._lanes not in (1, 2, 4, 8, 16):
            raise BackendError(f"lanes must be 1, 2, 4, 8 or 16, got {self._lanes}")
        if self._threads is not None and self._threads < 1:
            raise BackendError(f"threads must be at least 1, got {self._threads}")
