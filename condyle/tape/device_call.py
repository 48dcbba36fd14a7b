"""Calls of compiled functions with arrays on a GPU: no copy in or out, on the caller's stream, and nothing waits for the results.

Results are arrays of the library of the first array on a GPU. Arrays of the processor in the same call are moved.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from condyle.errors import ShapeError
from condyle.tape.device import DTYPES, PRECISIONS, Library, interface, known_number, library_of, on_device
from condyle.tape.parameter import Parameter
from condyle.tape.tape import Port

MOST_PLANS = 256  # of one function: layouts of calls that are remembered


class Placed(NamedTuple):
    """An array on a GPU: its address, batch axes, bytes from state to state and from entry to entry."""

    address: int
    lead: tuple[int, ...]
    state_bytes: int
    entry_bytes: int
    precision: str
    rows: int  # of a port with any number of rows
    entries: int

    def words(self) -> tuple[int, int, int]:
        """What a kernel is given: an array without a batch is that of every state."""
        return self.address, 0 if math.prod(self.lead) == 1 else self.state_bytes, self.entry_bytes

    def extent(self) -> tuple[int, int]:
        """The first address, and the one after the last."""
        states, size = math.prod(self.lead), DTYPES[self.precision].itemsize
        if not states * self.entries:
            return self.address, self.address
        steps = [(states - 1) * self.state_bytes, (self.entries - 1) * self.entry_bytes]
        return self.address + sum(min(step, 0) for step in steps), self.address + sum(max(step, 0) for step in steps) + size


def placed(what: str, port: Port, value: Any, view: Any = None) -> Placed:
    """Where an array lies, as a kernel needs it; an error for other shapes, types and layouts."""
    view = interface(value) if view is None else view
    shape, precision = tuple(view["shape"]), PRECISIONS.get(view["typestr"])
    if precision is None:
        kind = view["typestr"].rpartition(".")[2]
        raise ShapeError(f"{what} must be an array of float64 or float32 on the GPU, got the type {kind}; convert it")
    axes = len(shape) - len(port.shape)
    core = shape[max(axes, 0) :]
    if axes < 0 or core[port.run_time :] != port.shape[port.run_time :]:
        wanted = ", ".join(["rows" if port.run_time and k == 0 else str(n) for k, n in enumerate(port.shape)])
        raise ShapeError(f"{what} has shape {shape}, expected ({wanted}) or a batch (..., {wanted})")
    if port.uniform and axes:
        raise ShapeError(f"{what} is shared by the batch: no batch axes; got shape {shape}")
    size = 8 if precision == "f64" else 4
    strides = view.get("strides") or tuple(size * math.prod(shape[k + 1 :]) for k in range(len(shape)))
    state_bytes, entry_bytes = one_step(shape[:axes], strides[:axes], 0), one_step(core, strides[axes:], size)
    if state_bytes is None or entry_bytes is None:
        raise ShapeError(f"{what} has strides {strides}, which no single step from state to state describes; make it contiguous")
    address, rows = int(view["data"][0]), core[0] if port.run_time else 0
    return Placed(address, shape[:axes], state_bytes, entry_bytes, precision, rows, math.prod(core))


def one_step(shape: Sequence[int], strides: Sequence[int], alone: int) -> int | None:
    """The step through all entries of some axes in order; None if it is not one, `alone` for a single entry or none."""
    if 0 in shape:
        return alone
    axes = [(n, stride) for n, stride in zip(shape, strides, strict=True) if n != 1]
    for (_, outer), (n, inner) in pairwise(axes):
        if outer != n * inner:
            return None
    return axes[-1][1] if axes else alone


def with_one_step(port: Port, value: Any) -> Any:
    """An array on a GPU as a kernel takes it without code for its layout: a copy if it is repeated or its strides need one."""
    view = interface(value)
    shape, strides = tuple(view["shape"]), view.get("strides")
    if strides is None:
        return value
    axes = len(shape) - len(port.shape)
    steps = one_step(shape[:axes], strides[:axes], 1), one_step(shape[axes:], strides[axes:], 1)
    return library_of(value).repeated(value, shape) if steps[0] is None or not steps[1] else value


class CallPlan(NamedTuple):
    """What a call needs beside addresses, for arrays of the same shapes, strides and types."""

    lead: tuple[int, ...]
    rows: int
    arrays: list[Placed]  # the inputs of the first such call
    repeats: list[int]  # inputs that have some batch axes, and not all
    steps: list[tuple[int, int]]  # of the inputs: bytes from state to state and from entry to entry
    shapes: list[tuple[int, ...]]  # of the outputs
    made: list[tuple[int, int]]  # steps of the outputs, known after the first call


def device_call(function: Any, values: list[Any], out: Any) -> list[Any]:
    """The outputs of a compiled function for arrays on a GPU; those on the processor are copied there."""
    there = [on_device((value,)) for value in values]
    first = values[there.index(True)]
    library, view = library_of(first), interface(first)
    precision = PRECISIONS.get(view["typestr"], "f64")
    # what is moved must live until the kernel is queued
    given = [x if ours else _moved(library, x, precision) for x, ours in zip(values, there, strict=True)]
    views = [view if x is first else interface(x) for x in given]
    key = (library, *[(v["shape"], v["typestr"], v.get("strides"), known_number(x)) for v, x in zip(views, given, strict=True)])
    plan: CallPlan | None = function.device_plans.get(key)
    if plan is None:
        if len(function.device_plans) >= MOST_PLANS:
            function.device_plans.clear()
        plan = function.device_plans[key] = _planned(function, library, given, views, precision)
    if plan.repeats:
        for k in plan.repeats:
            given[k] = library.repeated(given[k], (*plan.lead, *given[k].shape[len(plan.arrays[k].lead) :]))
        return device_call(function, given, out)
    if out is None:
        made = [library.empty(plan.lead, shape, precision) for shape in plan.shapes]
        if not plan.made:
            plan.made[:] = [placed("", p, x).words()[1:] for p, x in zip(function.tape.outputs, made, strict=True)]
        targets = [(_address(array), *steps) for array, steps in zip(made, plan.made, strict=True)]
    else:
        made = list(out) if isinstance(out, (tuple, list)) else [out]
        arrays = [array._replace(address=int(v["data"][0])) for array, v in zip(plan.arrays, views, strict=True)]
        targets = [target.words() for target in _targets(function, library, made, plan.lead, precision, arrays)]
    if (states := math.prod(plan.lead)) > 0:
        words = [(int(v["data"][0]), *steps) for v, steps in zip(views, plan.steps, strict=True)]
        function.device_kernel(precision, library.number).launch([*words, *targets], states, plan.rows, library.stream)
    return made if out is not None else [library.own(array) for array in made]


def _planned(function: Any, library: Library, given: Sequence[Any], views: Sequence[Any], precision: str) -> CallPlan:
    """The plan of a call, or an error for arrays that do not fit each other."""
    name, ports = function.tape.name, function.tape.inputs
    arrays = [placed(f"{name}: input '{p.name}'", p, x, v) for p, x, v in zip(ports, given, views, strict=True)]
    if any(array.precision != precision for array in arrays):
        kinds = ", ".join(f"{port.name} {DTYPES[array.precision]}" for port, array in zip(ports, arrays, strict=True))
        raise ShapeError(f"{name}: arrays on a GPU need one type for all inputs, float64 or float32; got {kinds}")
    _check_numbers(name, library, [(port.name, x) for port, x in zip(ports, given, strict=True)])
    lead = _batch_axes(name, ports, arrays)
    rows = max([array.rows for array in arrays], default=0)
    if any(port.run_time and array.rows != rows for port, array in zip(ports, arrays, strict=True)):
        raise ShapeError(
            f"{name}: these inputs need one and the same number of rows: {', '.join(p.name for p in ports if p.run_time)}"
        )
    # one step from state to state takes all batch axes, or none
    repeats = [k for k, array in enumerate(arrays) if math.prod(array.lead) not in (1, math.prod(lead))]
    shapes = [(rows, *port.shape[1:]) if port.run_time else port.shape for port in function.tape.outputs]
    return CallPlan(lead, rows, arrays, repeats, [array.words()[1:] for array in arrays], shapes, [])


def _address(array: Any) -> int:
    return int(array.data_ptr()) if hasattr(array, "data_ptr") else int(interface(array)["data"][0])


def _moved(library: Library, value: Any, precision: str) -> Any:
    """An array of the processor on the GPU; the default of a parameter only once."""
    if isinstance(value, Parameter):
        return library.constant(value, value.default, precision)
    return library.moved(value, precision)


def _check_numbers(name: str, library: Library, arrays: Sequence[tuple[str, Any]]) -> None:
    """Raise a ShapeError if the arrays lie on several GPUs."""
    for each, array in arrays:
        number = known_number(array)
        if number is not None and number != library.number:
            raise ShapeError(
                f"{name}: '{arrays[0][0]}' is on GPU {library.number} and '{each}' on GPU {number}; move all arrays of a call "
                "to one"
            )


def _targets(
    function: Any, library: Library, made: Sequence[Any], lead: tuple[int, ...], precision: str, arrays: Sequence[Placed]
) -> list[Placed]:
    """Where the arrays of `out` lie; an error for those that no kernel can write to, or that are inputs."""
    name, results = function.tape.name, function.tape.outputs
    if len(made) != len(results):
        raise ShapeError(f"{name}: `out` needs {len(results)} arrays, one per output, got {len(made)}")
    found = []
    for port, value in zip(results, made, strict=True):
        what = f"{name}: out array '{port.name}'"
        if not on_device((value,)):
            raise ShapeError(f"{what} must be on the GPU, as the inputs are; got {type(value).__name__}")
        view = interface(value)
        if view["data"][1]:
            raise ShapeError(f"{what} cannot be written to (arrays of JAX never can); leave `out` out")
        target = placed(what, port, value, view)
        if target.lead != lead or target.precision != precision:
            raise ShapeError(
                f"{what} must be {DTYPES[precision]} with the batch axes {lead}, got {DTYPES[target.precision]} with "
                f"{target.lead}"
            )
        if (target.state_bytes == 0 and math.prod(lead) > 1) or (target.entry_bytes == 0 and target.entries > 1):
            raise ShapeError(f"{what} has several entries in one place of memory; make it contiguous")
        found.append(target)
    _check_numbers(name, library, [("the first input", None), *[(port.name, x) for port, x in zip(results, made, strict=True)]])
    _check_apart(name, results, found, arrays)
    return found


def _check_apart(name: str, results: Sequence[Port], targets: Sequence[Placed], arrays: Sequence[Placed]) -> None:
    """Raise a ShapeError if an output would overwrite an input."""
    read = [array.extent() for array in arrays]
    for port, target in zip(results, targets, strict=True):
        begin, end = target.extent()
        if any(begin < other_end and other_begin < end for other_begin, other_end in read):
            raise ShapeError(f"{name}: out array for '{port.name}' shares memory with an input; pass a separate array")


def _batch_axes(name: str, ports: Sequence[Port], arrays: Sequence[Placed]) -> tuple[int, ...]:
    """The batch axes of a call."""
    try:
        return np.broadcast_shapes(*[array.lead for array in arrays])
    except ValueError:
        given = ", ".join(f"{port.name} {array.lead}" for port, array in zip(ports, arrays, strict=True))
        raise ShapeError(f"{name}: the batch axes of the inputs do not fit each other: {given}") from None
