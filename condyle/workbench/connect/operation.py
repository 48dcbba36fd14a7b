"""A compiled function as an operation of another library: arrays in a fixed order, and its derivatives as operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from typing import Any

import numpy as np

from condyle.errors import BackendError, ShapeError, TraceError
from condyle.tape.device import beside, library_of, on_device, precision_of
from condyle.tape.device_call import with_one_step
from condyle.tape.function import Function
from condyle.tape.function import function as compile_function
from condyle.tape.tape import Tape
from condyle.tape.trace import Shape

Shapes = Sequence[Sequence[int]]


class Operation:
    """A function of arrays in a fixed order, which gives a list of arrays.

    `names`: its inputs in order, parameters only where they are given. All inputs may have batch axes in front, which broadcast;
    a table that a batch shares (Uniform), too.
    """

    residuals = 0  # outputs at the end that are kept for the backward pass, and are no results

    def __init__(self, function: Function, names: tuple[str, ...], order: int = 0) -> None:
        ports = {p.name: p for p in function.tape.inputs}
        self.function, self.names, self.order = function, names, order
        self.inputs, self.outputs = [ports[name] for name in names], list(function.tape.outputs)
        # the same for equal operations, and for no others
        self.key = " ".join([function.tape.hash, function.backend, f"{function._options}", *names])
        self.linear_in: tuple[Operation, tuple[int, ...]] | None = None  # of which operation, by which inputs, it is the jvp
        self._derived: dict[tuple[str, tuple[int, ...]], Operation] = {}

    def __repr__(self) -> str:
        return f"<operation {self.function.tape.name}({', '.join(self.names)})>"

    # ---- shapes

    def batch_axes(self, shapes: Shapes) -> list[int]:
        """The number of batch axes of each input."""
        return [len(shape) - len(port.shape) for port, shape in zip(self.inputs, shapes, strict=True)]

    def output_shapes(self, shapes: Shapes, broadcast: Callable[..., Any] = np.broadcast_shapes) -> list[tuple[int, ...]]:
        """The shapes of the outputs for inputs with these shapes."""
        for port, shape in zip(self.inputs, shapes, strict=True):
            fixed = slice(max(len(shape) - len(port.shape), 0) + port.run_time, None)
            if len(shape) < len(port.shape) or tuple(shape[fixed]) != port.shape[int(port.run_time) :]:
                wanted = f"({', '.join(['rows' if port.run_time and k == 0 else f'{n}' for k, n in enumerate(port.shape)])})"
                where = f"{self.function.tape.name}: input '{port.name}'"
                raise ShapeError(f"{where} has shape {tuple(shape)}, expected {wanted} after any batch axes")
        leads = [tuple(s[: len(s) - len(p.shape)]) for p, s in zip(self.inputs, shapes, strict=True)]
        try:
            lead = tuple(broadcast(*leads))
        except (ValueError, RuntimeError):
            axes = ", ".join(f"{p.name} {lead}" for p, lead in zip(self.inputs, leads, strict=True))
            raise ShapeError(f"{self.function.tape.name}: the batch axes of the inputs do not fit each other: {axes}") from None
        rows = next((s[len(s) - len(p.shape)] for p, s in zip(self.inputs, shapes, strict=True) if p.run_time), 0)
        return [(*lead, *((rows, *p.shape[1:]) if p.run_time else p.shape)) for p in self.outputs]

    # ---- values

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """The outputs as new arrays: float32 if all inputs are, otherwise float64; on a GPU if an input lies there."""
        there = next((a for a in arrays if on_device((a,))), None)
        if there is None:
            dtype = np.dtype(np.float32 if all(a.dtype == np.float32 for a in arrays) else np.float64)
            given = [np.asarray(a, dtype) for a in arrays]
        else:
            given = [with_one_step(p, beside(there, a)) for a, p in zip(arrays, self.inputs, strict=True)]
        leads = [tuple(a.shape[: a.ndim - len(p.shape)]) for a, p in zip(given, self.inputs, strict=True) if p.uniform]
        if all(n == 1 for lead in leads for n in lead):
            return self._on_batch(given)
        # a table of the whole batch has one value per call of the kernel
        axes = self.batch_axes([a.shape for a in given])
        given = [a[(None,) * (max(axes) - n)] for a, n in zip(given, axes, strict=True)]
        varied = np.broadcast_shapes((1,) * max(axes), *leads)
        out = self._empty(there, given)
        for index in np.ndindex(varied):
            at = [(i, n) for i, n in zip(index, varied, strict=True)]
            for result, found in zip(out, self([_one(a, at) for a in given]), strict=True):
                _one(result, at)[...] = found
        return out

    def _empty(self, there: Any, given: list[Any]) -> list[Any]:
        """Outputs that are filled later, for inputs as they are given; `there`: one of them that lies on a GPU."""
        shapes = self.output_shapes([a.shape for a in given])
        if there is None:
            return [np.empty(shape, given[0].dtype) for shape in shapes]
        library = library_of(there)
        if library.is_jax:
            raise ShapeError(
                f"{self.function.tape.name}: a table that a batch shares cannot be mapped over for arrays of JAX on a GPU; "
                "call it for each table, or use arrays of the processor"
            )
        return [library.empty((), shape, precision_of(there)) for shape in shapes]

    def _on_batch(self, arrays: list[Any]) -> list[Any]:
        values = {
            name: a.reshape(p.shape) if p.uniform else a for name, a, p in zip(self.names, arrays, self.inputs, strict=True)
        }
        found = self.function(**values)
        return [a if on_device((a,)) else np.asarray(a) for a in (found if isinstance(found, tuple) else (found,))]

    # ---- derivatives

    @property
    def run_time(self) -> bool:
        """Whether it has inputs of any number of rows, through which only two kernels go backward."""
        return any(p.run_time for p in self.inputs)

    def two_pass(self, wrt: tuple[int, ...]) -> TwoPassOperation:
        """The same operation with residuals, from which its vjp by the inputs at these positions starts."""
        if ("two_pass", wrt) not in self._derived:
            self._derived["two_pass", wrt] = TwoPassOperation(self, wrt)
        found = self._derived["two_pass", wrt]
        assert isinstance(found, TwoPassOperation)
        return found

    def vjp(self, wrt: tuple[int, ...]) -> Operation:
        """The operation of (inputs, one weight per output) that gives the gradients by the inputs at these positions."""
        return self._derivative("vjp", wrt, [f"{p.name}_weight" for p in self._source.tape.outputs])

    def jvp(self, wrt: tuple[int, ...]) -> Operation:
        """The operation of (inputs, a tangent per input at these positions) that gives the tangents of the outputs."""
        found = self._derivative("jvp", wrt, [f"{self._source_names[k]}_tangent" for k in wrt])
        found.linear_in = (self, wrt)
        return found

    def _derivative(self, kind: str, wrt: tuple[int, ...], more: list[str]) -> Operation:
        if (kind, wrt) not in self._derived:
            derived = getattr(self._source, kind)([self._source_names[k] for k in wrt])
            self._derived[kind, wrt] = Operation(derived, (*self._source_names, *more), self.order + 1)
        return self._derived[kind, wrt]

    @cached_property
    def _source(self) -> Function:
        """The function to differentiate: a derivative has its ports renamed, so that no name is taken twice."""
        tape, f = self.function.tape, self.function
        if self.order == 0:
            return f
        inputs = tuple([replace(p, name=f"in{self.order}_{k}") for k, p in enumerate(tape.inputs)])
        outputs = tuple([replace(p, name=f"out{self.order}_{k}") for k, p in enumerate(tape.outputs)])
        return Function(
            Tape(tape.name, tape.block, inputs, outputs), f.backend, lanes=f._options.lanes, threads=f._options.threads
        )

    @cached_property
    def _source_names(self) -> tuple[str, ...]:
        renamed = {a.name: b.name for a, b in zip(self.function.tape.inputs, self._source.tape.inputs, strict=True)}
        return tuple([renamed[name] for name in self.names])


class TwoPassOperation(Operation):
    """The forward pass of an operation through any number of rows: its vjp takes (inputs, residuals, one weight per output)."""

    def __init__(self, source: Operation, wrt: tuple[int, ...]) -> None:
        if source.order:
            raise TraceError(
                f"{source.function.tape.name}: there are no second derivatives through rows whose number is known at run time; "
                "trace it with the number of rows, Rows(100, ...)"
            )
        forward, backward = source.function.forward_and_backward([source.names[k] for k in wrt])
        super().__init__(forward, source.names, 1)
        results = len(source.outputs)
        kept = [p.name for p in self.outputs[results:]]
        self.source, self.wrt, self.residuals = source, wrt, len(kept)
        self.backward = Operation(backward, (*self.names, *kept, *[f"{p.name}_weight" for p in source.outputs]), 1)

    def vjp(self, wrt: tuple[int, ...]) -> Operation:
        """The backward pass, which gives the gradients by all inputs that were chosen."""
        return self.backward

    def jvp(self, wrt: tuple[int, ...]) -> Operation:
        """The tangents of the results; the residuals are inputs, so that it can be transposed, and are not read."""
        return LinearOperation(self, wrt)


class LinearOperation(Operation):
    """The jvp of a forward pass, as an operation of (inputs, residuals, tangents)."""

    def __init__(self, source: TwoPassOperation, wrt: tuple[int, ...]) -> None:
        self.tangents = source.source.jvp(wrt)
        kept = source.outputs[len(source.outputs) - source.residuals :]
        super().__init__(self.tangents.function, self.tangents.names, 1)
        own = len(source.inputs)
        self.inputs = [*self.inputs[:own], *kept, *self.inputs[own:]]
        self.skipped = range(own, own + len(kept))
        self.key, self.linear_in = f"{self.key} after {source.key}", (source, wrt)

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        return self.tangents([a for k, a in enumerate(arrays) if k not in self.skipped])


def _one(array: Any, at: list[tuple[int, int]]) -> Any:
    """The part of an array at an index of the axes that vary, as a view; they have the length 1 in it."""
    return array[tuple([slice(i, i + 1) if n > 1 and m > 1 else slice(None) for (i, n), m in zip(at, array.shape, strict=False)])]


class Operations:
    """The operations of one function, by the parameters that are given."""

    def __init__(self, function: Any, shapes: dict[str, Shape], library: str) -> None:
        self.function = compiled(function, shapes, library)
        self.name, self.inputs, self.parameters = self.function.tape.name, [*self.function.inputs], [*self.function.parameters]
        self.run_time = any(p.run_time for p in self.function.tape.inputs)
        self._result = self.function._result
        self._by_names: dict[tuple[str, ...], Operation] = {}

    def operation(self, names: tuple[str, ...]) -> Operation:
        """The operation of these inputs."""
        if names not in self._by_names:
            self._by_names[names] = Operation(self.function, names)
        return self._by_names[names]

    def bind(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """The values of a call by the names of inputs."""
        if len(args) > len(self.inputs):
            raise ShapeError(f"{self.name} takes {len(self.inputs)} arrays ({', '.join(self.inputs)}), got {len(args)}")
        values = dict(zip(self.inputs, args, strict=False))
        for key, value in named.items():
            if key not in self.inputs and key not in self.parameters:
                known = [*self.inputs, *self.parameters]
                near = get_close_matches(key, known, 1)
                advice = f"did you mean '{near[0]}'?" if near else f"its inputs are {', '.join(known)}"
                raise ShapeError(f"{self.name} has no input '{key}'; {advice}")
            if key in values:
                raise ShapeError(f"{self.name}: input '{key}' was given twice")
            values[key] = value
        for key in self.inputs:
            if key not in values:
                raise ShapeError(f"{self.name} needs the input '{key}'; its inputs are {', '.join(self.inputs)}")
        return {key: values[key] for key in (*self.inputs, *self.parameters) if key in values}

    def arranged(self, values: dict[str, Any], library: Any, constant: Any) -> tuple[Operation, list[Any], Any]:
        """(operation, arrays in its order, how its outputs become the result) for the arrays of a call.

        `library`: torch or jax.numpy; `constant`: makes an array of it from numbers.
        """
        return self.operation(tuple(values)), list(values.values()), self.result

    def result(self, outputs: Sequence[Any]) -> Any:
        """What a call gives: one array, or a named tuple of several."""
        return outputs[0] if self._result is None else self._result(*outputs)


def compiled(function: Any, shapes: dict[str, Shape], library: str) -> Function:
    """The function of an operation: one that is compiled, or a Python function that is compiled for these shapes."""
    if isinstance(function, Function):
        if shapes:
            raise TraceError(f"{function.tape.name} is compiled and has its shapes; leave out {', '.join(shapes)}")
        found = function
    elif callable(function) and shapes:
        found = compile_function(function, cache=True, **shapes)
    else:
        raise TraceError(
            f"condyle.{library}.function takes a compiled function, or a Python function and one named shape per argument, such "
            f"as q=7; got {function!r:.60}"
        )
    if found.backend not in ("cpu", "reference"):
        raise BackendError(
            f"condyle.{library}.function needs floating-point numbers: the backend cpu or reference, not {found.backend}"
        )
    return found
