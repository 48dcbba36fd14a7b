"""The interpreter of PTX in the place of a GPU, with a clock of its own, for code that measures on one."""

from __future__ import annotations

from time import perf_counter

import pytest
from tape.ptx_interpreter import Buffer, Code, Device

from condyle.tape import cuda_driver, device_timing
from condyle.tape.backends import cuda


class Timer:
    """Milliseconds between two marks; the interpreter has done everything queued before."""

    def __init__(self, on: Device, stream: int = 0) -> None:
        self.marks = [0.0, 0.0]

    def mark(self, k: int) -> None:
        self.marks[k] = perf_counter()

    @property
    def milliseconds(self) -> float:
        return 1e3 * (self.marks[1] - self.marks[0])


def take_the_place_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let kernels run in the interpreter until the test ends."""
    for module in (cuda, device_timing):
        monkeypatch.setattr(module, "Buffer", Buffer)
    monkeypatch.setattr(cuda, "Code", Code)
    monkeypatch.setattr(cuda, "device", lambda number: Device())
    monkeypatch.setattr(cuda_driver, "device", lambda number: Device())
    monkeypatch.setattr(device_timing, "Timer", Timer)
    monkeypatch.setattr(cuda, "_check_device", lambda precision, number: None)
