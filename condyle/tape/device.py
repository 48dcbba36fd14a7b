"""Arrays that lie on a GPU, of CuPy, PyTorch, JAX or Numba: where they are, and how to make others beside them.

An array is any object with `__cuda_array_interface__`. The functions at the end take arrays of the processor as well, so that
code around kernels is written once. None of them waits for a GPU, but `host` and the first move of a constant.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from condyle.errors import BackendError, ShapeError

PRECISIONS = {"<f8": "f64", "<f4": "f32"}
DTYPES: dict[str, np.dtype[Any]] = {"f64": np.dtype(np.float64), "f32": np.dtype(np.float32)}
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
    if hasattr(array, "block_until_ready"):
        # streams of JAX are its own: what it has queued for this array must be done before others read it
        array.block_until_ready()
    found: dict[str, Any] = array.__cuda_array_interface__
    return found


def precision_of(array: Any) -> str:
    """ "f32" for an array of float32, wherever it lies, else "f64"."""
    return "f32" if str(array.dtype).rpartition(".")[2] == "float32" else "f64"


# ---- libraries


class Library:
    """How to make an array like the caller's, and which stream is current.

    Arrays for a kernel are made by PyTorch for PyTorch, and by CuPy for all others; `own` gives them as the caller's.
    """

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number
        self._constants: dict[tuple[int, str], tuple[Any, Any]] = {}
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

    @property
    def namespace(self) -> Any:
        """The module whose functions take the caller's arrays."""
        if self.name == "torch":
            return self.torch
        return import_module("jax.numpy") if self.is_jax else self.cupy

    @property
    def is_jax(self) -> bool:
        """Whether arrays are those of JAX."""
        return self.name in ("jax", "jaxlib")

    @property
    def place(self) -> str:
        """Where tensors of PyTorch lie."""
        return f"cuda:{self.number}"

    def empty(self, lead: tuple[int, ...], shape: tuple[int, ...], precision: str) -> Any:
        """A new array (*lead, *shape); where a state has many entries, states lie side by side, which is faster to write."""
        apart = math.prod(shape) >= SIDE_BY_SIDE and math.prod(lead) > 1
        sizes = (*shape, *lead) if apart else (*lead, *shape)
        order = (*range(len(shape), len(sizes)), *range(len(shape))) if apart else tuple(range(len(sizes)))
        try:
            if self.name == "torch":
                kind = self.torch.float64 if precision == "f64" else self.torch.float32
                return self.torch.empty(sizes, dtype=kind, device=self.place).permute(order)
            with self.cupy.cuda.Device(self.number):
                return self.cupy.empty(sizes, dtype=DTYPES[precision].name).transpose(order)
        except Exception as error:
            size = math.prod(sizes) * DTYPES[precision].itemsize
            raise self._memory_error(error, f"results of {size / 1e9:.3g} GB ({lead} states of {shape})") from None

    def moved(self, value: Any, precision: str) -> Any:
        """A NumPy array or number as an array on the GPU; nothing waits for it."""
        array = np.array(value, dtype=DTYPES[precision], order="C")
        try:
            if self.name == "torch":
                # from memory that is not pinned the stream would be waited for
                return self.torch.from_numpy(array).pin_memory().to(self.place, non_blocking=True)
            with self.cupy.cuda.Device(self.number):
                return self.cupy.asarray(array)
        except Exception as error:
            raise self._memory_error(error, f"an array of {array.nbytes / 1e9:.3g} GB") from None

    def _memory_error(self, error: Exception, what: str) -> Exception:
        """One sentence for an error of missing memory, and any other error as it is."""
        if type(error).__name__ != "OutOfMemoryError":
            return error
        return BackendError(
            f"GPU {self.number} is out of memory for {what}; use a smaller batch, record less, or free other arrays"
        )

    def constant(self, owner: Any, value: Any, precision: str) -> Any:
        """The array of a value that never changes and belongs to `owner`, moved at the first call and kept."""
        key = (id(owner), precision)
        if key not in self._constants:
            # the owner is kept, so that no other object gets its id
            moved = self.moved(value, precision)
            self.wait()  # other streams and threads may read it
            self._constants[key] = (owner, moved)
        return self._constants[key][1]

    def wait(self) -> None:
        """Wait for the current stream."""
        if self.name == "torch":
            self.torch.cuda.current_stream(self.number).synchronize()
        else:
            self.cupy.cuda.get_current_stream().synchronize()

    def own(self, array: Any) -> Any:
        """An array made for a kernel as one of the caller's library."""
        if self.is_jax:
            return import_module("jax.dlpack").from_dlpack(self.cupy.ascontiguousarray(array))
        return array

    def repeated(self, value: Any, shape: tuple[int, ...]) -> Any:
        """An array of the caller's library, or one made for a kernel, broadcast to a shape, in memory of its own."""
        if self.name == "torch":
            return value.expand(shape).contiguous()
        if hasattr(value, "block_until_ready"):
            return self.namespace.broadcast_to(value, shape)
        return self.cupy.ascontiguousarray(self.cupy.broadcast_to(self.cupy.asarray(value), shape))

    def cast(self, value: Any, precision: str) -> Any:
        """An array of the caller's library, of any type, in a precision."""
        if self.name == "torch":
            return value.to(self.torch.float64 if precision == "f64" else self.torch.float32)
        return value.astype(DTYPES[precision])

    def host(self, array: Any) -> np.ndarray:
        """A copy in memory of the processor, when everything queued before is done."""
        if self.name == "torch":
            return np.asarray(array.detach().cpu())
        return np.asarray(array) if self.is_jax else self.cupy.asnumpy(self.cupy.asarray(array))


def library_of(array: Any) -> Library:
    """The library of an array on a GPU, for the GPU that it is on."""
    name, number = type(array).__module__.partition(".")[0], known_number(array)
    if number is None:
        from condyle.tape.cuda_driver import device_of

        number = device_of(int(interface(array)["data"][0]))
    return _library(name, number)


def known_number(array: Any) -> int | None:
    """The number of the GPU that an array says it is on; None if it says nothing."""
    place = getattr(array, "device", None)
    number = getattr(place, "index" if hasattr(array, "data_ptr") else "id", None)
    return number if isinstance(number, int) else None


_library = cache(Library)


# ---- arrays of the processor or a GPU, alike


def beside(like: Any, value: Any) -> Any:
    """Numbers as an array of the library, the place and the precision of the array `like`; what lies on a GPU stays as it is."""
    if on_device((value,)):
        return value
    if not on_device((like,)):
        return np.asarray(value, dtype=getattr(like, "dtype", float))
    library = library_of(like)
    return library.own(library.moved(value, precision_of(like)))


def placed_alike(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays, all on the GPU that the first one of them lies on, if any does: for several calls they are moved once."""
    there = next((array for array in arrays.values() if on_device((array,))), None)
    return dict(arrays) if there is None else {name: beside(there, array) for name, array in arrays.items()}


def repeated(value: Any, shape: tuple[int, ...]) -> Any:
    """An array broadcast to a shape, in memory of its own."""
    return library_of(value).repeated(value, shape) if on_device((value,)) else np.array(np.broadcast_to(value, shape), order="C")


def cast(value: Any, precision: str) -> Any:
    """An array of any type in a precision, where it lies."""
    return library_of(value).cast(value, precision) if on_device((value,)) else np.asarray(value, DTYPES[precision])


def joined(parts: Sequence[Any], axis: int) -> Any:
    """Arrays one after the other along an axis; those of the processor are moved if one lies on a GPU."""
    there = next((part for part in parts if on_device((part,))), None)
    if there is None:
        return np.concatenate(parts, axis)
    return library_of(there).namespace.concatenate([beside(there, part) for part in parts], axis)


def packed(parts: Sequence[Any]) -> Any:
    """Vectors (..., n) one after the other in the last axis, broadcast over their batch axes."""
    shapes = [tuple(np.shape(part)) for part in parts]
    try:
        lead = np.broadcast_shapes(*[shape[:-1] for shape in shapes])
    except ValueError:
        raise ShapeError(f"the batch axes of these arrays do not fit each other: {', '.join(map(str, shapes))}") from None
    there = next((part for part in parts if on_device((part,))), parts[0])
    return joined([repeated(beside(there, part), (*lead, shape[-1])) for part, shape in zip(parts, shapes, strict=True)], -1)


def namespace_of(array: Any) -> Any:
    """The module whose functions take an array: numpy, torch, cupy or jax.numpy."""
    return library_of(array).namespace if on_device((array,)) else np


def host(value: Any) -> np.ndarray:
    """The value as a NumPy array, copied and waited for if it lies on a GPU."""
    return library_of(value).host(value) if on_device((value,)) else np.asarray(value)
