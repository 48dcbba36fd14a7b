"""A GPU for tests of what is around kernels: tensors of PyTorch in memory of this process, and kernels of the processor.

The tensors refuse everything that would wait for a GPU or copy from it. The code of kernels is tested by the interpreter of PTX
instead.
"""

from __future__ import annotations

import ctypes
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from condyle.tape import cuda_driver, device
from condyle.tape.backends import cuda
from condyle.tape.backends.interface import Kernel, Options, find_backend
from condyle.tape.tape import Port, Tape

torch: Any = pytest.importorskip("torch", reason="the fake GPU has tensors: pip install 'condyle[torch]'")

launches: list[str] = []  # names of the tapes that were launched


# what would wait for a GPU, or copy from it
FORBIDDEN = ("numpy", "cpu", "item", "tolist", "__array__", "__bool__", "__float__", "__int__", "__index__")
to_numpy = torch.Tensor.numpy


def _waits(*_: Any, **__: Any) -> Any:
    raise AssertionError("this would wait for the GPU, or copy from it")


class Library(device.Library):
    """PyTorch with its tensors in memory of this process."""

    stream = 0  # type: ignore[assignment]

    def __init__(self, name: str, number: int) -> None:
        super().__init__(name, number)
        self.moves = 0
        plain = {name: getattr(torch, name) for name in ("float64", "float32", "concatenate", "where", "isfinite", "zeros_like")}
        self.torch = SimpleNamespace(**plain, empty=lambda sizes, dtype, device: torch.full(sizes, 7.5, dtype=dtype))

    def moved(self, value: Any, precision: str) -> Any:
        """A NumPy array as a tensor of the fake GPU."""
        self.moves += 1
        return torch.from_numpy(np.array(value, dtype=device.DTYPES[precision], order="C"))

    def wait(self) -> None:
        """There is nothing to wait for."""

    def host(self, array: Any) -> np.ndarray:
        """A copy, which is allowed here."""
        return here(array)


class HostKernel(Kernel):
    """The kernel of the processor, on addresses."""

    def __init__(self, tape: Tape, precision: str) -> None:
        self.tape, self.dtype = tape, device.DTYPES[precision]
        self.kernel = find_backend("cpu").compile(tape, precision, Options())

    def launch(self, ports: list[tuple[int, int, int]], states: int, rows: int = 0, stream: int = 0) -> None:
        """Compute now."""
        launches.append(self.tape.name)
        both = zip((*self.tape.inputs, *self.tape.outputs), ports, strict=True)
        views = [self._view(port, words, states, rows) for port, words in both]
        inputs = [np.ascontiguousarray(view) for view in views[: len(self.tape.inputs)]]
        results = [np.empty(view.shape, self.dtype) for view in views[len(inputs) :]]
        self.kernel(inputs, results)
        for view, result in zip(views[len(inputs) :], results, strict=True):
            view[...] = result

    def __call__(self, arrays: list[np.ndarray], out: list[np.ndarray]) -> None:
        """The outputs for NumPy arrays, as the backend gives them."""
        self.kernel(arrays, out)

    def _view(self, port: Port, words: tuple[int, int, int], states: int, rows: int) -> np.ndarray:
        address, state_bytes, entry_bytes = words
        entries = rows * port.columns if port.run_time else port.size
        if not entries:
            return np.empty((states, 0), self.dtype)
        memory = np.frombuffer((ctypes.c_char * self.dtype.itemsize).from_address(address), self.dtype)
        return as_strided(memory, (states, entries), (state_bytes, entry_bytes))


def install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the fake in the place of the GPU: from now on all tensors lie there."""
    monkeypatch.setattr(device, "_is_cuda", lambda value: isinstance(value, torch.Tensor))
    for name in FORBIDDEN:
        monkeypatch.setattr(torch.Tensor, name, _waits)
    monkeypatch.setattr(device, "_library", cache(Library))
    monkeypatch.setattr(cuda, "cuda_kernel", lambda tape, precision, number: HostKernel(tape, precision))
    monkeypatch.setattr(cuda_driver, "device_of", lambda pointer: 0)
    launches.clear()


def there(array: Any, dtype: Any = np.float64) -> Any:
    """A tensor on the fake GPU."""
    return torch.from_numpy(np.array(array, dtype=dtype))


def here(tensor: Any) -> np.ndarray:
    """A copy of a tensor of the fake GPU."""
    assert isinstance(tensor, torch.Tensor)
    return np.array(to_numpy(tensor.detach()))


def moves() -> int:
    """How many arrays were moved to the fake GPU so far."""
    return device._library("torch", 0).moves  # type: ignore[attr-defined,no-any-return]
