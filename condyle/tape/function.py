"""A compiled function: arrays in, arrays out, leading axes are the batch."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np

from condyle.errors import ShapeError
from condyle.tape.backends.interface import FastCall, Kernel, Options, find_backend
from condyle.tape.compose import any_traced, call_tape, traced_array, traced_table
from condyle.tape.derive import hessian, jacobian, jvp, sparse_jacobian, vjp
from condyle.tape.device import on_device
from condyle.tape.device_call import device_call
from condyle.tape.export.c import c_source
from condyle.tape.export.casadi import casadi_function
from condyle.tape.limbs import has_limbs, unrolled
from condyle.tape.parameter import Parameter
from condyle.tape.passes import lower
from condyle.tape.progress import compiling
from condyle.tape.ptx import ptx_source
from condyle.tape.table import is_recording
from condyle.tape.tape import Constant, Operations, Port, Tape, run_time_rows
from condyle.tape.threads import made_once
from condyle.tape.trace import Shape
from condyle.tape.trace_cache import cached_trace, source_hash, traced_function
from condyle.tape.two_pass import backward_pass, forward_pass

Dtype = np.dtype[Any]
_FLOATS = (np.dtype(np.float64), np.dtype(np.float32))
_PRECISION = dict(zip(_FLOATS, ("f64", "f32"), strict=True))


def function(callable: Callable[..., Any], /, *, cache: bool = True, **shapes: Shape) -> Function:
    """The compiled form of a Python function over NumPy arrays, with one named shape per argument.

    Its trace is kept on disk, for as long as the code and all values that it uses stay the same; `cache=False` traces it now.

    step = condyle.function(lambda x, u: x + 0.01 * np.sin(u), x=3, u=3)
    step(x, u)          # x of shape (3,), or (1000, 3), or (10, 1000, 3)
    """
    label = getattr(callable, "__name__", "a function").replace("<lambda>", "a function")
    with compiling(label):
        tape = traced_function(callable, shapes, cache=cache)
    return Function(tape, label=label)


class Function:
    """A tape on a backend. It computes in float32 when every array given is float32, otherwise in float64.

    `differentiable`: gives a tape of the same function whose derivatives are to be taken instead, such as one that solves an
    equation by an iteration without derivatives and adds the derivatives of the solution. `label`: what the terminal says while
    it is compiled, its name by default.
    """

    def __init__(
        self,
        tape: Tape,
        backend: str = "cpu",
        *,
        lanes: int | None = None,
        threads: int | None = None,
        differentiable: Callable[[], Tape] | None = None,
        label: str = "",
    ) -> None:
        self.tape, self.backend = tape, backend
        self.label = label or tape.name
        self._differentiable = differentiable
        self._backend, self._options = find_backend(backend), Options(lanes, threads)
        self._arguments = Arguments(tape)
        self._kernels: dict[str, Kernel] = {}
        self.device_plans: dict[Any, Any] = {}  # of calls with arrays on a GPU, by their layout
        self._fast: FastCall | None = None
        self._filled: FastCall | None = None  # the fast call with all parameters given, where there are some
        self._has_parameters = any(p.parameter is not None for p in tape.inputs)
        self._result = outputs_class(tape)

    # ---- calling

    def __call__(self, *args: Any, out: Any = None, **named: Any) -> Any:
        """The outputs for one state or a batch: one array, or a named tuple of arrays when there are several outputs.

        Parameters are given by name, and have their defaults otherwise.

        `out`: an array, or one per output, to write into; they are returned. While another function is traced, a call with
        traced arguments records this function's operations in that trace, and gives traced values.
        """
        if self._fast is not None and out is None and not named:
            result = self._fast(args)
            if result is not None:
                return result
        elif self._filled is not None and out is None:
            result = self._filled(self._arguments.filled(args, named))
            if result is not None:
                return result
        if any_traced((*args, *named.values())) or (self._has_parameters and is_recording()):
            return self._inlined(args, named, out)
        if on_device((*args, *named.values())):
            results = device_call(self, self._arguments.values(args, named), out)
            return results[0] if self._result is None else self._result(*results)
        inputs, lead, dtype = self._arguments.bind(args, named, objects=self._backend.takes_objects)
        outputs = self._arguments.outputs(lead, dtype, out, inputs)
        if len(outputs[0]):
            self.kernel(_PRECISION.get(dtype, "f64"))(inputs, outputs)
            if self._fast is None and dtype == np.float64 and len(outputs[0]) == 1:
                self._fast = self.fast_call()
                if self._has_parameters and self._fast is not None:
                    self._fill_in_defaults(self._fast)
        results = self._arguments.shaped(outputs, lead, out)
        return results[0] if self._result is None else self._result(*results)

    def subroutine(self, *args: Any, **named: Any) -> Any:
        """The outputs as a call gives them, inside of a trace with the same bits: as a subroutine of it (subroutine.py)."""
        return self._inlined(args, named, None, alone=True) if is_recording() else self(*args, **named)

    def _fill_in_defaults(self, fast: FastCall) -> None:
        """Let the fast call take arguments without parameters."""
        self._filled, filled = fast, self._arguments.filled
        self._fast = lambda args: fast(filled(args, {}))

    def fast_call(self, *, guarded: bool = False) -> FastCall | None:
        """A function of a tuple of arguments for one float64 state, which gives None for any other; None on most backends.

        Of an input with any number of rows it takes one.

        `guarded`: the last output is a check that is not given back, and where it is not zero the result is None.
        """
        return self.kernel().fast_call(None if guarded else self._result, guarded=guarded)

    # ---- what it is

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the inputs, without batch axes and parameters."""
        return {p.name: p.shape for p in self.tape.inputs if p.parameter is None}

    @property
    def parameters(self) -> dict[str, Parameter]:
        """The parameters by name, with `shape` and `default`: inputs that need not be given."""
        return {p.name: p.parameter for p in self.tape.inputs if p.parameter is not None}

    @property
    def outputs(self) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the outputs, without batch axes."""
        return {p.name: p.shape for p in self.tape.outputs}

    @property
    def operations(self) -> Operations:
        """Exact operations for one state in float64, at worst: elementary functions written out, an fma counting one.

        `operations.expected` counts a few iterations of loops that exit, `operations.worst` all.
        """
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
        return Function(self.tape, backend, lanes=lanes, threads=threads, differentiable=self._differentiable, label=self.label)

    def lowered(self, precision: str = "f64") -> Tape:
        """The tape in exact operations, as every backend of this precision computes it."""
        return lower(self.tape, precision)

    def kernel(self, precision: str = "f64") -> Kernel:
        """The compiled kernel; the first call compiles it or finds it in the cache."""

        def make() -> Kernel:
            with compiling(self.label):
                return self._backend.compile(self.tape, precision, self._options)

        return made_once(self._kernels, precision, make)

    def device_kernel(self, precision: str, number: int) -> Any:
        """The compiled kernel on a GPU, by its number."""
        from condyle.tape.backends.cuda import cuda_kernel

        def make() -> Kernel:
            with compiling(self.label):
                return cuda_kernel(self.tape, precision, number)

        return made_once(self._kernels, f"cuda:{number} {precision}", make)

    def source(self, language: str, precision: str = "f64") -> str:
        """The kernel as text: "tape", "c" (C99 for one state), on the cpu backend "llvm" or "asm" (of this processor), "ptx"."""
        if language == "tape":
            return str(self.lowered(precision))
        if language == "c":
            return c_source(self.lowered(precision), precision)
        if language == "ptx":
            return ptx_source(self.lowered(precision), precision)
        return self._backend.source(self.tape, language, precision, self._options)

    def casadi(self) -> Any:
        """The same function for CasADi (needs the extra `casadi`)."""
        return casadi_function(self.tape)

    def __repr__(self) -> str:
        ports = [", ".join(f"{p.name}{list(p.shape)}" for p in side) for side in (self.tape.inputs, self.tape.outputs)]
        return f"<condyle function {self.tape.name}({ports[0]}) -> {ports[1]} on {self.backend}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles hold the tape, and that of its derivatives if it is another one; kernels come again from the cache."""
        lanes, threads = self._options.lanes, self._options.threads
        derived = None if self._differentiable is None else Constant(self.differentiable)
        make = partial(Function, backend=self.backend, lanes=lanes, threads=threads, differentiable=derived, label=self.label)
        return make, (self.tape,)

    def __copy__(self) -> Function:
        return self.on(self.backend, lanes=self._options.lanes, threads=self._options.threads)

    def __deepcopy__(self, memo: Any) -> Function:
        return self.__copy__()

    # ---- derivatives

    def jacobian(
        self, of: str | Sequence[str] | None = None, wrt: str | Sequence[str] | None = None, *, mode: str = "auto"
    ) -> Function:
        """A function whose outputs d<of>_d<wrt> have shape (*of, *wrt); zero entries that the structure forces cost nothing."""
        return self._derived(jacobian, of, wrt, mode=mode)

    def sparse_jacobian(self, of: str, wrt: str, *, mode: str = "auto") -> tuple[Function, np.ndarray, np.ndarray]:
        """(function that gives the nonzero entries, their rows, their columns) of one Jacobian, flattened to a matrix."""
        tape, rows, columns = sparse_jacobian(self.differentiable, of, wrt, mode=mode)
        return self._like(tape), rows, columns

    def vjp(self, wrt: str | Sequence[str] | None = None) -> Function:
        """A function of the inputs and of a weight <output>_weight per output that gives <input>_gradient = J^T weight."""
        return self._derived(vjp, wrt)

    def forward_and_backward(self, wrt: str | Sequence[str] | None = None) -> tuple[Function, Function]:
        """Reverse mode in two functions, also through scans over any number of rows, whose carried values need memory.

        The first one gives the outputs, and then what the second one needs; that one takes the inputs, these values, and a weight
        <output>_weight per output, and gives <input>_gradient = J^T weight.
        """
        value = {} if self._differentiable is None else {"value": self.tape}
        return self._derived(forward_pass, wrt, **value), self._derived(backward_pass, wrt)

    @cached_property
    def differentiable(self) -> Tape:
        """The tape whose derivatives are taken, with limbs written out."""
        tape = self.tape if self._differentiable is None else self._differentiable()
        return replace(tape, block=unrolled(tape.block)) if has_limbs(tape.block) else tape

    def jvp(self, wrt: str | Sequence[str] | None = None) -> Function:
        """A function of the inputs and of a direction <input>_tangent per input that gives <output>_tangent = J tangent."""
        return self._derived(jvp, wrt)

    def hessian(self, of: str | None = None, wrt: str | Sequence[str] | None = None) -> Function:
        """A function that gives the second derivatives of one scalar output, as d2<of>_d<a>_d<b> for each pair of inputs."""
        return self._derived(hessian, of, wrt)

    # ---- inside

    def _inlined(self, args: tuple[Any, ...], named: dict[str, Any], out: Any, *, alone: bool = False) -> Any:
        """The outputs as traced values; `alone`: of a subroutine."""
        if out is not None:
            raise ShapeError(f"{self.tape.name}: `out` has no meaning inside a trace, where results have no values; leave it out")
        results = call_tape(self.tape, self._arguments.traced(args, named), alone=alone)
        return results[0] if self._result is None else self._result(*results)

    def trace_data(self) -> tuple[Any, ...]:
        """All that a trace which calls the function depends on."""
        return self.tape.hash, [p.parameter for p in self.tape.inputs]

    def _derived(self, derivative: Callable[..., Tape], *names: Any, **options: Any) -> Function:
        """The function of a derivative, whose tape is made only when someone looks into it if it was made before."""
        tape = self.differentiable
        described = {name: value.hash if isinstance(value, Tape) else value for name, value in options.items()}
        key = f"{source_hash(derivative.__module__)} {derivative.__name__} {names} {described} {tape.name} {tape.hash}"
        make = partial(derivative, tape, *names, **options)
        with compiling(f"derivatives of {self.label}"):
            found = cached_trace(key, make, parameters=self.parameters)
        return self._like(found)

    def _like(self, tape: Tape) -> Function:
        label = f"derivatives of {self.label}"
        return Function(tape, self.backend, lanes=self._options.lanes, threads=self._options.threads, label=label)


# ---- results of a call


def outputs_class(tape: Tape) -> Any:
    """The named tuple of a tape's outputs; None if there is one output."""
    return _named_outputs(tuple(p.name for p in tape.outputs)) if len(tape.outputs) > 1 else None


@lru_cache(maxsize=256)
def _named_outputs(names: tuple[str, ...]) -> Any:
    # no module has the class by its name, so pickles hold the names of its fields
    own = {"__slots__": (), "__reduce__": lambda self: (_outputs, (names, tuple(self)))}
    return type("Outputs", (namedtuple("Outputs", names, rename=True),), own)


def _outputs(names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return _named_outputs(names)(*values)


# ---- arguments of a call: checked, broadcast over the batch, and laid out as rows


class Arguments:
    """The calling convention of a tape."""

    def __init__(self, tape: Tape) -> None:
        self.name = tape.name
        self.rows_vary = any(port.run_time for port in tape.outputs)
        self.plain = not any(port.run_time or port.uniform for port in tape.inputs)
        self.ports, self.results = tape.inputs, tape.outputs
        self.shapes = [port.shape for port in tape.outputs]
        self.parameters: dict[str, Parameter] = {p.name: p.parameter for p in tape.inputs if p.parameter is not None}
        # defaults, where all parameters follow the other inputs
        last = [p.name for p in tape.inputs[len(tape.inputs) - len(self.parameters) :]] == list(self.parameters)
        self.trailing = tuple(p.default for p in self.parameters.values()) if last else None

    def values(self, args: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        """One value per input; a parameter that is not given is itself."""
        return self._match(args, named) if named or len(args) != len(self.ports) or self.parameters else list(args)

    def bind(
        self, args: tuple[Any, ...], named: dict[str, Any], *, objects: bool
    ) -> tuple[list[np.ndarray], tuple[int, ...], Dtype]:
        """(one array of rows per input, batch axes, dtype)."""
        values = self.values(args, named)
        given = [v for v, p in zip(values, self.ports, strict=True) if v is not p.parameter] if self.parameters else values
        if not objects and self.plain and (quick := self._contiguous(values)) is not None:
            return quick
        single = bool(given) and all(isinstance(v, (np.ndarray, np.float32)) and v.dtype == np.float32 for v in given)
        dtype = np.dtype(object) if objects else _FLOATS[1] if single else _FLOATS[0]
        arrays = [self._array(port, value, dtype) for port, value in zip(self.ports, values, strict=True)]
        self._one_length(arrays)
        leads = [a.shape[: a.ndim - len(p.shape)] for a, p in zip(arrays, self.ports, strict=True)]
        try:
            lead = np.broadcast_shapes(*leads)
        except ValueError:
            axes = ", ".join(f"{p.name} {lead}" for p, lead in zip(self.ports, leads, strict=True))
            raise ShapeError(f"{self.name}: the batch axes of the inputs do not fit each other: {axes}") from None
        return [_rows(a, own, lead) for a, own in zip(arrays, leads, strict=True)], lead, dtype

    def filled(self, args: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """All inputs in order, defaults included; none for a call that is wrong or inside a trace."""
        if is_recording():
            return ()
        if not named and self.trailing is not None:
            return args + self.trailing
        values = {name: p.default for name, p in self.parameters.items()} | named
        if len(args) + len(values) != len(self.ports):
            return ()
        rest = iter(args)
        return tuple([values[p.name] if p.name in values else next(rest) for p in self.ports])

    def traced(self, args: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        """One array of traced values, or table, per input, for a call inside a trace."""
        values = self._match(args, named)
        what = f"{self.name}: input"
        return [
            traced_table(f"{what} '{p.name}'", v, p) if p.table else traced_array(f"{what} '{p.name}'", v, p.shape)
            for p, v in zip(self.ports, values, strict=True)
        ]

    def _contiguous(self, values: list[Any]) -> tuple[list[np.ndarray], tuple[int, ...], Dtype] | None:
        """What `bind` gives when every value is a contiguous array of one float type, with the same single batch axis or none."""
        dtype, count, rows = None, None, []
        for value, port in zip(values, self.ports, strict=True):
            if type(value) is not np.ndarray or not value.flags.c_contiguous or (dtype or value.dtype) is not value.dtype:
                return None
            dtype = value.dtype
            if value.shape[1:] == port.shape and value.ndim == 1 + len(port.shape) and count in (None, len(value)):
                count = len(value)
                rows.append(value.reshape(count, port.size))
            else:
                return None
        return (rows, (count,), dtype) if count is not None and dtype in _FLOATS else None

    def outputs(self, lead: tuple[int, ...], dtype: Dtype, out: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """One array of rows per output: new ones, or views of what the caller passed."""
        rows = math.prod(lead)
        shapes = self.shapes
        if self.rows_vary:
            count = run_time_rows(self.ports, inputs)
            shapes = [(count, *p.shape[1:]) if p.run_time else p.shape for p in self.results]
        if out is None:
            return [np.empty((rows, math.prod(shape)), dtype) for shape in shapes]
        given = [out] if isinstance(out, np.ndarray) else list(out)
        if len(given) != len(self.results):
            raise ShapeError(f"{self.name}: `out` needs {len(self.results)} arrays, one per output, got {len(given)}")
        views = []
        for port, shape, array in zip(self.results, shapes, given, strict=True):
            wanted = (*lead, *shape)
            if not isinstance(array, np.ndarray) or array.shape != wanted or array.dtype != dtype:
                what = f"{array.dtype} of shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
                raise ShapeError(f"{self.name}: out array for '{port.name}' must be {dtype} of shape {wanted}, got {what}")
            if not array.flags.c_contiguous or not array.flags.writeable:
                raise ShapeError(f"{self.name}: out array for '{port.name}' must be writeable and C-contiguous")
            if any(np.may_share_memory(array, x) for x in inputs):
                raise ShapeError(f"{self.name}: out array for '{port.name}' shares memory with an input; pass a separate array")
            views.append(array.reshape(rows, math.prod(shape)))
        return views

    def shaped(self, outputs: list[np.ndarray], lead: tuple[int, ...], out: Any) -> list[Any]:
        """The outputs as the caller sees them: batch axes, then the shape of the port."""
        if out is not None:
            return [out] if isinstance(out, np.ndarray) else list(out)
        now = self._shapes_now(outputs, math.prod(lead)) if self.rows_vary else self.shapes
        shaped = [a.reshape((*lead, *shape)) for a, shape in zip(outputs, now, strict=True)]
        return [a[()] if a.ndim == 0 else a for a in shaped]

    def _shapes_now(self, outputs: list[np.ndarray], batch: int) -> list[tuple[int, ...]]:
        """The shapes of the outputs, with as many rows as one with entries has."""
        sizes = [(a.size, batch * math.prod(p.shape[1:])) for a, p in zip(outputs, self.results, strict=True) if p.run_time]
        rows = next((size // row for size, row in sizes if row), 0)
        return [(rows, *p.shape[1:]) if p.run_time else p.shape for p in self.results]

    def _one_length(self, arrays: list[np.ndarray]) -> None:
        lengths = {p.name: a.shape[a.ndim - len(p.shape)] for p, a in zip(self.ports, arrays, strict=True) if p.run_time}
        if len(set(lengths.values())) > 1 or 0 in lengths.values():
            given = ", ".join(f"{name} {rows}" for name, rows in lengths.items())
            raise ShapeError(f"{self.name}: these inputs need one and the same number of rows, at least one: {given}")

    def _match(self, args: tuple[Any, ...], named: dict[str, Any]) -> list[Any]:
        names = [p.name for p in self.ports if p.parameter is None]
        if len(args) > len(names):
            raise ShapeError(f"{self.name} takes {len(names)} arrays ({', '.join(names)}), got {len(args)}")
        values = dict(zip(names, args, strict=False))
        for name, value in named.items():
            if name not in names and name not in self.parameters:
                raise ShapeError(f"{self.name} has no input '{name}'; its inputs are {', '.join([*names, *self.parameters])}")
            if name in values:
                raise ShapeError(f"{self.name}: input '{name}' was given twice")
            values[name] = value
        missing = [name for name in names if name not in values]
        if missing:
            raise ShapeError(f"{self.name} needs the input '{missing[0]}'; its inputs are {', '.join(names)}")
        return [values.get(p.name, p.parameter) for p in self.ports]

    def _array(self, port: Port, value: Any, dtype: Dtype) -> np.ndarray:
        try:
            array = np.asarray(value)
            if array.dtype.kind not in "fiuO" or (array.dtype.kind == "O" and any(x is None for x in array.flat)):
                raise TypeError
            array = array.astype(dtype, copy=False)
        except (TypeError, ValueError):
            raise ShapeError(f"{self.name}: input '{port.name}' must be an array of real numbers, got {value!r:.60}") from None
        core = array.shape[array.ndim - len(port.shape) :] if array.ndim >= len(port.shape) else None
        if core != port.shape and not (port.run_time and core is not None and core[1:] == port.shape[1:]):
            wanted = ", ".join(["rows" if port.run_time and k == 0 else str(n) for k, n in enumerate(port.shape)])
            batch = f" or a batch (..., {wanted})" if port.shape else " or a batch of any shape"
            raise ShapeError(
                f"{self.name}: input '{port.name}' has shape {array.shape}, expected ({wanted}{',' * (len(port.shape) == 1)})"
                f"{'' if port.uniform else batch}"
            )
        if port.uniform and array.ndim > len(port.shape):
            raise ShapeError(f"{self.name}: input '{port.name}' is shared by the batch: no batch axes; got shape {array.shape}")
        return array


def _rows(array: np.ndarray, own: tuple[int, ...], lead: tuple[int, ...]) -> np.ndarray:
    """The array as (rows, size), entries of a row side by side; one row with stride 0 when the input is not batched."""
    rows, size = math.prod(lead), math.prod(array.shape[len(own) :])
    if math.prod(own) == 1 and array.size:
        row = np.ascontiguousarray(array).reshape(1, size)
        return row if rows == 1 else np.broadcast_to(row, (rows, size))
    if own != lead:
        array = np.broadcast_to(array, (*lead, *array.shape[len(own) :]))
    flat = array.reshape(rows, size)
    packed = flat.strides[1] == flat.itemsize or size == 1
    return flat if packed and flat.strides[0] >= 0 else np.ascontiguousarray(flat)
