"""Calls with arrays that lie on a GPU: no copy in or out, on the caller's stream, and nothing waits for the results.

An array is any object with `__cuda_array_interface__`: of CuPy, PyTorch, JAX or Numba. Results are arrays of the same library.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

from condyle.errors import BackendError, ShapeError
from condyle.tape.tape import Port

PRECISIONS = {"<f8": "f64", "<f4": "f32"}


def on_device(values: Sequence[Any]) -> bool:
    """Whether any of the values lies on a GPU."""
    return any(hasattr(type(value), "__cuda_array_interface__") and _is_cuda(value) for value in values)


def _is_cuda(value: Any) -> bool:
    # a tensor of PyTorch and an array of JAX have the attribute on the processor as well, where reading it fails
    try:
        return value.__cuda_array_interface__ is not None
    except Exception:  # whatever the library raises
        return False


class Placed(NamedTuple):
    """An array on a GPU: its address, batch axes, bytes from state to state and from entry to entry."""

    address: int
    lead: tuple[int, ...]
    state_bytes: int
    entry_bytes: int
    precision: str
    rows: int  # of a port with any number of rows


class Library:
    """How to make an array like the caller's, and which stream is current."""

    def __init__(self, array: Any, number: int) -> None:
        self.name, self.number = type(array).__module__.partition(".")[0], number
        if self.name == "torch":
            self.torch = import_module("torch")
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

    def empty(self, shape: tuple[int, ...], precision: str) -> Any:
        """A new array on the GPU."""
        if self.name == "torch":
            kind = self.torch.float64 if precision == "f64" else self.torch.float32
            return self.torch.empty(shape, dtype=kind, device=f"cuda:{self.number}")
        with self.cupy.cuda.Device(self.number):
            return self.cupy.empty(shape, dtype=precision.replace("f64", "float64").replace("f32", "float32"))

    def moved(self, value: Any, precision: str) -> Any:
        """A NumPy array or number as an array on the GPU."""
        array = np.ascontiguousarray(value, dtype=np.float64 if precision == "f64" else np.float32)
        if self.name == "torch":
            return self.torch.from_numpy(array.copy()).to(f"cuda:{self.number}")
        with self.cupy.cuda.Device(self.number):
            return self.cupy.asarray(array)

    def given_back(self, array: Any) -> Any:
        """The array as one of the caller's library."""
        if self.name in ("jax", "jaxlib"):
            return import_module("jax.dlpack").from_dlpack(array)
        return array


def placed(what: str, port: Port, value: Any) -> Placed:
    """Where an array lies, as a kernel needs it; an error for other shapes, types and layouts."""
    view = value.__cuda_array_interface__
    shape, precision = tuple(view["shape"]), PRECISIONS.get(view["typestr"])
    if precision is None:
        raise ShapeError(f"{what} must be an array of float64 or float32 on the GPU, got the type {view['typestr']}")
    axes = len(port.shape)
    lead, core = shape[: len(shape) - axes], shape[len(shape) - axes :]
    if len(shape) < axes or (core[1:] if port.run_time else core) != (port.shape[1:] if port.run_time else port.shape):
        wanted = ", ".join(["rows" if port.run_time and k == 0 else str(n) for k, n in enumerate(port.shape)])
        raise ShapeError(f"{what} has shape {shape}, expected ({wanted}) or a batch (..., {wanted})")
    if port.uniform and lead:
        raise ShapeError(f"{what} is shared by the batch: no batch axes; got shape {shape}")
    size = np.dtype(view["typestr"]).itemsize
    strides = view.get("strides") or tuple(size * math.prod(shape[k + 1 :]) for k in range(len(shape)))
    between = [
        _one_stride(shape[part], strides[part], alone)
        for part, alone in ((slice(None, len(lead)), 0), (slice(len(lead), None), size))
    ]
    if None in between:
        raise ShapeError(f"{what} has strides {strides} that one step from state to state does not describe; make it contiguous")
    return Placed(int(view["data"][0]), lead, between[0] or 0, between[1] or size, precision, core[0] if port.run_time else 0)


def _one_stride(shape: tuple[int, ...], strides: tuple[int, ...], alone: int) -> int | None:
    """The step of axes that one step describes, taken together; None if there is none, `alone` for a single entry."""
    step = None
    for n, stride in reversed([(n, s) for n, s in zip(shape, strides, strict=True) if n != 1]):
        if step is None:
            step, expected = stride, stride * n
        elif stride != expected:
            return None
        else:
            expected *= n
    return alone if step is None else step


def device_call(function: Any, values: list[Any], ports: Sequence[Port], results: Sequence[Port], out: Any) -> list[Any]:
    """The outputs of a compiled function for arrays on a GPU; those on the processor are copied there."""
    from condyle.tape.cuda_driver import device_of

    name = function.tape.name
    first = next(value for value in values if on_device([value]))
    number = device_of(int(first.__cuda_array_interface__["data"][0]))
    library = Library(first, number)
    precision = PRECISIONS.get(first.__cuda_array_interface__["typestr"], "f64")
    given = [value if on_device([value]) else library.moved(getattr(value, "default", value), precision) for value in values]
    arrays = [placed(f"{name}: input '{port.name}'", port, value) for port, value in zip(ports, given, strict=True)]
    if len({array.precision for array in arrays}) > 1:
        raise ShapeError(f"{name}: arrays on a GPU need one type, float64 or float32, for all inputs")
    try:
        lead = np.broadcast_shapes(*[array.lead for array in arrays])
    except ValueError:
        axes = ", ".join(f"{port.name} {array.lead}" for port, array in zip(ports, arrays, strict=True))
        raise ShapeError(f"{name}: the batch axes of the inputs do not fit each other: {axes}") from None
    if any(math.prod(array.lead) not in (1, math.prod(lead)) for array in arrays):
        raise ShapeError(f"{name}: on a GPU an input has all batch axes {lead} or none; repeat it along the missing ones")
    rows = max([array.rows for array in arrays], default=0)
    shapes = [(*lead, *((rows, *port.shape[1:]) if port.run_time else port.shape)) for port in results]
    made = (
        [library.empty(shape, precision) for shape in shapes]
        if out is None
        else list(out)
        if isinstance(out, (tuple, list))
        else [out]
    )
    targets = [placed(f"{name}: out array '{port.name}'", port, value) for port, value in zip(results, made, strict=True)]
    if any(target.lead != lead or target.precision != precision for target in targets):
        raise ShapeError(f"{name}: out arrays must be {precision} with the batch axes {lead}")
    words = [
        (array.address, 0 if math.prod(array.lead) == 1 else array.state_bytes, array.entry_bytes)
        for array in (*arrays, *targets)
    ]
    if math.prod(lead):
        function.device_kernel(precision, number).launch(words, math.prod(lead), rows, library.stream)
    return made if out is not None else [library.given_back(array) for array in made]
