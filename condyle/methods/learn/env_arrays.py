"""Where the arrays of an environment are: NumPy arrays, or tensors of PyTorch on the processor or on a GPU.

Both classes have the same methods. Tensors on a GPU stay there: nothing is copied to the host, and nothing waits for a result.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from condyle.errors import ControlError, require
from condyle.methods.learn.env_values import actions_of, finite, mask_of
from condyle.tape.device import SIDE_BY_SIDE, on_device

DEVICE = re.compile(r"cpu|cuda(:\d+)?")


class HostArrays:
    """NumPy arrays."""

    device: str | None = None
    double: Any = np.float64

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)

    def moved(self, value: Any) -> Any:
        """An array or number in the precision of the environment."""
        return np.asarray(value).astype(self.dtype, copy=False)

    def rows(self, value: np.ndarray) -> Any:
        """The states of the robots, (num_envs, size), in memory of their own."""
        return value.astype(self.dtype)

    def copied(self, value: Any) -> Any:
        """A copy."""
        return value.copy()

    def is_array(self, value: Any) -> bool:
        """Whether the value is an array of this library, and not a policy."""
        return isinstance(value, np.ndarray)

    def actions(self, value: Any, shape: tuple[int, ...]) -> Any:
        """Actions of this shape, or a ControlError."""
        return actions_of(value, shape, self.dtype)

    def values(self, what: str, value: Any, shape: tuple[int, ...]) -> Any:
        """Finite numbers, broadcast to a shape, or a ControlError."""
        given = finite(what, value)
        try:
            return np.broadcast_to(given, shape)
        except ValueError:
            raise ControlError(f"{what} of {shape[0]} robots has shape {shape}, got {given.shape}") from None

    def mask(self, mask: Any, count: int) -> Any:
        """A truth value for each robot; all true for None."""
        return mask_of(mask, count)

    def where(self, condition: Any, one: Any, other: Any) -> Any:
        """One of two values for each entry."""
        return np.where(condition, one, other)

    def columns(self, results: Any) -> list[Any]:
        """The arrays (num_envs, steps) of results (num_envs, steps, n)."""
        return [np.ascontiguousarray(results[..., k]) for k in range(results.shape[-1])]

    def call(self, function: Any, arrays: dict[str, Any]) -> tuple[Any, ...]:
        """The outputs of a compiled function."""
        found = function(**arrays)
        return found if isinstance(found, tuple) else (found,)


class TensorArrays:
    """Tensors of PyTorch on a device: "cpu", "cuda" or "cuda:1"."""

    def __init__(self, dtype: Any, device: str) -> None:
        self.dtype, self.device = np.dtype(dtype), checked_device(device)
        self.torch = torch = require("torch", "torch", f"device='{device}'")
        self.place = torch.device(self.device)
        self.kind = torch.float64 if self.dtype == np.float64 else torch.float32
        self.double = torch.float64

    def __reduce__(self) -> tuple[Any, ...]:
        return TensorArrays, (self.dtype, self.device)

    def moved(self, value: Any) -> Any:
        """An array or number on the device, in the precision of the environment."""
        if isinstance(value, self.torch.Tensor):
            return value.detach().to(self.place, self.kind)
        # memory that is not pinned is read before the call returns, so nothing has to wait
        return self.torch.from_numpy(np.array(value, self.dtype)).to(self.place, non_blocking=True)

    def rows(self, value: Any) -> Any:
        """The states of the robots, (num_envs, size), in memory of their own, with the layout that kernels give them."""
        found = self.moved(value)
        if found.shape[1] < SIDE_BY_SIDE or len(found) == 1:
            return found.clone(memory_format=self.torch.contiguous_format)
        return found.T.clone(memory_format=self.torch.contiguous_format).T

    def copied(self, value: Any) -> Any:
        """A copy."""
        return value.clone()

    def is_array(self, value: Any) -> bool:
        """Whether the value is an array, and not a policy."""
        return isinstance(value, (np.ndarray, self.torch.Tensor))

    def actions(self, value: Any, shape: tuple[int, ...]) -> Any:
        """Actions of this shape; tensors are not searched for values that are not finite, which would wait for them."""
        if not isinstance(value, self.torch.Tensor):
            return self.moved(actions_of(value, shape, self.dtype))
        if tuple(value.shape) != shape:
            raise ControlError(f"actions must have shape {shape}, one row for each robot; got {tuple(value.shape)}")
        return self.moved(value).contiguous()

    def values(self, what: str, value: Any, shape: tuple[int, ...]) -> Any:
        """Numbers broadcast to a shape, or a ControlError; tensors are not searched for values that are not finite."""
        if not isinstance(value, self.torch.Tensor):
            return self.moved(HostArrays(self.dtype).values(what, value, shape))
        try:
            return self.moved(value).expand(shape)
        except RuntimeError:
            raise ControlError(f"{what} of {shape[0]} robots has shape {shape}, got {tuple(value.shape)}") from None

    def mask(self, mask: Any, count: int) -> Any:
        """A truth value for each robot; all true for None."""
        if not isinstance(mask, self.torch.Tensor):
            return self.torch.from_numpy(mask_of(mask, count)).to(self.place, non_blocking=True)
        if tuple(mask.shape) != (count,) or mask.dtype != self.torch.bool:
            raise ControlError(
                f"mask must be {count} truth values, one for each robot; got {mask.dtype} of shape {tuple(mask.shape)}"
            )
        return mask.to(self.place)

    def where(self, condition: Any, one: Any, other: Any) -> Any:
        """One of two values for each entry."""
        return self.torch.where(condition, self.moved(one), other)

    def columns(self, results: Any) -> list[Any]:
        """The arrays (num_envs, steps) of results (num_envs, steps, n)."""
        return list(results.permute(2, 0, 1).contiguous().unbind(0))

    def call(self, function: Any, arrays: dict[str, Any]) -> tuple[Any, ...]:
        """The outputs of a compiled function: on a GPU queued only, on the processor computed by the kernel of its backend."""
        if on_device(arrays.values()):
            found = function(**arrays)
            return found if isinstance(found, tuple) else (found,)
        found = function(**{name: value.numpy() for name, value in arrays.items()})
        return tuple(self.torch.from_numpy(each) for each in (found if isinstance(found, tuple) else (found,)))


Arrays = HostArrays | TensorArrays


def arrays_of(dtype: Any, device: Any) -> Arrays:
    """The arrays of an environment on a device; NumPy arrays for None."""
    return HostArrays(dtype) if device is None else TensorArrays(dtype, device)


def checked_device(device: Any) -> str:
    """The name of a device that PyTorch can use: "cpu", or "cuda:0" with its number; a ControlError for others."""
    if not isinstance(device, str) or not DEVICE.fullmatch(device):
        raise ControlError(f"a device is 'cpu', 'cuda', or one of several GPUs such as 'cuda:1'; got {device!r:.40}")
    torch = require("torch", "torch", f"device='{device}'")
    if device == "cpu":
        return device
    if not torch.cuda.is_available():
        raise ControlError(
            f"device '{device}' needs an NVIDIA GPU that PyTorch can use, and torch.cuda.is_available() is False here; use the "
            "processor, or look at nvidia-smi and at the version of torch"
        )
    number = int(device.partition(":")[2] or torch.cuda.current_device())
    if number >= torch.cuda.device_count():
        raise ControlError(f"there is no GPU {number}: PyTorch sees {torch.cuda.device_count()}, numbered from 0")
    return f"cuda:{number}"


def on_host(value: Any) -> Any:
    """A tensor as a NumPy array, after what it waits for; anything else as it is."""
    return value.detach().cpu().numpy() if hasattr(value, "data_ptr") else value


def integers(value: Any) -> Any:
    """Numbers without fractions as int64."""
    return value.long() if hasattr(value, "data_ptr") else value.astype(np.int64)
