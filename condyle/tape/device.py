"""Calls with arrays that lie on a GPU: no copy in or out, on the caller's stream, and nothing waits for the results.

An array is any object with `__cuda_array_interface__`: of CuPy, PyTorch, JAX or Numba. Results are arrays of the same library.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from condyle.errors import BackendError, ShapeError
from condyle.tape.tape import Port

PRECISIONS = {"<f8": "f64", "<f4": "f32"}
TORCH_TYPES = {"torch.float64": "<f8", "torch.float32": "<f4"}
SIDE_BY_SIDE = 32  # entries of a state from which on the states of a result lie side by side


def on_device(values: Iterable[Any]) -> bool:
    """Whether any of the values lies on a GPU."""
    return any([hasattr(type(value), "__cuda_array_interface__") and _is_cuda(value) for value in values])


def _is_cuda(value: Any) -> bool:
    # a tensor of PyTorch and an array of JAX have the attribute on the processor as well, where reading it fails
    known = getattr(value, "is_cuda", None)
    if known is not None:
        return bool(known)
    try:
        return value.__cuda_array_interface__ is not None
    except Exception:  # whatever the library raises
        return False


def interface(array: Any) -> dict[str, Any]:
    """`__cuda_array_interface__` of an array; that of PyTorch is made here, ten times quicker than by its own property."""
    if hasattr(array, "data_ptr"):
        kind, size = TORCH_TYPES.get(str(array.dtype), str(array.dtype)), array.element_size()
        strides = tuple([step * size for step in array.stride()])
        return {"shape": tuple(array.shape), "typestr": kind, "data": (array.data_ptr(), False), "strides": strides}
    found: dict[str, Any] = array.__cuda_array_interface__
    return found


# ---- libraries


class Library:
    """How to make an array like the caller's, and which stream is current."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number
        if self.name == "torch":
            self.torch, self.place = import_module("torch"), f"cuda:{number}"
            return
        try:
            self.cupy = import_module("cupy")
        except ModuleNotFoundError:
            raise BackendError(
                f"results for arrays of {self.name} on a GPU are made by CuPy: pip install 'condyle[cuda]'"
            ) from None

    @property
    def stream(self) -> int:
        """The handle of the current stream."""
        if self.name == "torch":
            return int(self.torch.cuda.current_stream(self.number).cuda_stream)
        return int(self.cupy.cuda.get_current_stream().ptr)

    def empty(self, lead: tuple[int, ...], shape: tuple[int, ...], precision: str) -> Any:
        """A new array (*lead, *shape); where a state has many entries, states lie side by side, which is faster to write."""
        apart = math.prod(shape) >= SIDE_BY_SIDE and math.prod(lead) > 1
        sizes = (*shape, *lead) if apart else (*lead, *shape)
        order = (*range(len(shape), len(sizes)), *range(len(shape))) if apart else tuple(range(len(sizes)))
        if self.name == "torch":
            kind = self.torch.float64 if precision == "f64" else self.torch.float32
            return self.torch.empty(sizes, dtype=kind, device=self.place).permute(order)
        with self.cupy.cuda.Device(self.number):
            return self.cupy.empty(sizes, dtype="float64" if precision == "f64" else "float32").transpose(order)

    def moved(self, value: Any, precision: str) -> Any:
        """A NumPy array or number as an array on the GPU."""
        array = np.array(value, dtype=np.float64 if precision == "f64" else np.float32)
        if self.name == "torch":
            return self.torch.from_numpy(array).to(self.place)
        with self.cupy.cuda.Device(self.number):
            return self.cupy.asarray(array)

    def repeated(self, value: Any, shape: tuple[int, ...]) -> Any:
        """An array broadcast to a shape, in memory of its own."""
        if self.name == "torch":
            return value.expand(shape).contiguous()
        return self.cupy.ascontiguousarray(self.cupy.broadcast_to(self.cupy.asarray(value), shape))

    def joined(self, first: Any, rest: Any) -> Any:
        """The states `first` (..., n) in front of the states `rest` (..., T, n)."""
        start = self.repeated(first[..., None, :], (*rest.shape[:-2], 1, rest.shape[-1]))
        return self.torch.cat([start, rest], -2) if self.name == "torch" else self.cupy.concatenate([start, rest], -2)

    def given_back(self, array: Any) -> Any:
        """The array as one of the caller's library."""
        if self.name in ("jax", "jaxlib"):
            return import_module("jax.dlpack").from_dlpack(self.cupy.ascontiguousarray(array))
        return array


def library_of(array: Any) -> Library:
    """The library of an array on a GPU, for the GPU that it is on."""
    name, place = type(array).__module__.partition(".")[0], getattr(array, "device", None)
    number = getattr(place, "index" if name == "torch" else "id", None)
    if not isinstance(number, int):
        from condyle.tape.cuda_driver import device_of

        number = device_of(int(interface(array)["data"][0]))
    return _library(name, number)


_library = cache(Library)


# ---- arrays


class Placed(NamedTuple):
    """An array on a GPU: its address, batch axes, bytes from state to state and from entry to entry."""

    address: int
    lead: tuple[int, ...]
    state_bytes: int
    entry_bytes: int
    precision: str
    rows: int  # of a port with any number of rows

    def words(self) -> tuple[int, int, int]:
        """What a kernel is given: an array without a batch is that of every state."""
        return self.address, 0 if math.prod(self.lead) == 1 else self.state_bytes, self.entry_bytes


def placed(what: str, port: Port, value: Any, view: Any = None) -> Placed:
    """Where an array lies, as a kernel needs it; an error for other shapes, types and layouts."""
    view = interface(value) if view is None else view
    shape, precision = tuple(view["shape"]), PRECISIONS.get(view["typestr"])
    if precision is None:
        raise ShapeError(f"{what} must be an array of float64 or float32 on the GPU, got the type {view['typestr']}")
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
    return Placed(address, shape[:axes], state_bytes, entry_bytes, precision, rows)


def one_step(shape: Sequence[int], strides: Sequence[int], alone: int) -> int | None:
    """The step through all entries of some axes in order; None if it is not one, `alone` for a single entry."""
    axes = [(n, stride) for n, stride in zip(shape, strides, strict=True) if n != 1]
    for (_, outer), (n, inner) in pairwise(axes):
        if outer != n * inner:
            return None
    return axes[-1][1] if axes else alone


def device_call(function: Any, values: list[Any], out: Any) -> list[Any]:
    """The outputs of a compiled function for arrays on a GPU; those on the processor are copied there."""
    name, ports, results = function.tape.name, function.tape.inputs, function.tape.outputs
    there = [on_device((value,)) for value in values]
    first = values[there.index(True)]
    library, view = library_of(first), interface(first)
    precision = PRECISIONS.get(view["typestr"], "f64")
    # what is moved must live until the kernel is queued
    given = [x if ours else library.moved(getattr(x, "default", x), precision) for x, ours in zip(values, there, strict=True)]
    arrays = [
        placed(f"{name}: input '{port.name}'", port, value, view if value is first else None)
        for port, value in zip(ports, given, strict=True)
    ]
    if any(array.precision != precision for array in arrays):
        raise ShapeError(f"{name}: arrays on a GPU need one type for all inputs, float64 or float32")
    lead = _batch_axes(name, ports, arrays)
    rows = max([array.rows for array in arrays], default=0)
    if any(port.run_time and array.rows != rows for port, array in zip(ports, arrays, strict=True)):
        raise ShapeError(
            f"{name}: these inputs need one and the same number of rows: {', '.join(p.name for p in ports if p.run_time)}"
        )
    shapes = [(rows, *port.shape[1:]) if port.run_time else port.shape for port in results]
    made = [library.empty(lead, shape, precision) for shape in shapes] if out is None else _as_list(out)
    targets = [placed(f"{name}: out array '{port.name}'", port, value) for port, value in zip(results, made, strict=True)]
    if any(target.lead != lead or target.precision != precision for target in targets):
        raise ShapeError(f"{name}: out arrays must be {precision} with the batch axes {lead}")
    if math.prod(lead):
        words = [array.words() for array in (*arrays, *targets)]
        function.device_kernel(precision, library.number).launch(words, math.prod(lead), rows, library.stream)
    return made if out is not None else [library.given_back(array) for array in made]


def _as_list(out: Any) -> list[Any]:
    return list(out) if isinstance(out, (tuple, list)) else [out]


def _batch_axes(name: str, ports: Sequence[Port], arrays: Sequence[Placed]) -> tuple[int, ...]:
    """The batch axes of a call; each array has all of them, or none."""
    given = ", ".join(f"{port.name} {array.lead}" for port, array in zip(ports, arrays, strict=True))
    try:
        lead = np.broadcast_shapes(*[array.lead for array in arrays])
    except ValueError:
        raise ShapeError(f"{name}: the batch axes of the inputs do not fit each other: {given}") from None
    if any(math.prod(array.lead) not in (1, math.prod(lead)) for array in arrays):
        raise ShapeError(f"{name}: on a GPU an input has all batch axes, or none; repeat it along the missing ones: {given}")
    return lead
