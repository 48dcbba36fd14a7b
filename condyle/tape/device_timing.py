"""The time of a kernel on a GPU by the GPU's own events, with states and results in its memory, for batches of several sizes."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from time import perf_counter

import numpy as np

from condyle.tape.backends.cuda import CudaKernel
from condyle.tape.cuda_driver import Buffer, Timer
from condyle.tape.device import SIDE_BY_SIDE
from condyle.tape.tape import run_time_rows

REPEATS = 7  # measurements, of which the median counts
LEAST = 2e-3  # s of a measurement: short launches are queued several times
MOST = 50  # launches of a measurement


class DeviceBatch:
    """A kernel with inputs and outputs on its GPU, for up to `states` states, taken from the given ones in turn.

    Inputs lie row after row. Outputs of many entries have their states side by side, as calls with arrays on a GPU make them.
    """

    def __init__(self, kernel: CudaKernel, arrays: Sequence[np.ndarray], states: int) -> None:
        self.kernel, self.states = kernel, states
        flat = [np.ascontiguousarray(a.reshape(len(a), -1)) for a in arrays]
        self.dtype = flat[0].dtype
        self.rows = run_time_rows(kernel.tape.inputs, flat)
        self.widths = [self.rows * port.columns if port.run_time else port.size for port in kernel.tape.outputs]
        self.inputs, self.columns = [], [a.shape[1] for a in flat]
        for a in flat:
            batch = np.resize(a, (states, a.shape[1]))
            self.inputs.append(Buffer(kernel.device, batch.nbytes))
            self.inputs[-1].fill(batch)
        self.results = [Buffer(kernel.device, states * width * self.dtype.itemsize) for width in self.widths]

    def launch(self, states: int) -> None:
        """Queue the computation of the first states."""
        size = self.dtype.itemsize
        ports = [(buffer.address, n * size, size) for buffer, n in zip(self.inputs, self.columns, strict=True)]
        for buffer, width in zip(self.results, self.widths, strict=True):
            apart = width >= SIDE_BY_SIDE
            ports.append((buffer.address, size, states * size) if apart else (buffer.address, width * size, size))
        self.kernel.launch(ports, states, self.rows)

    def milliseconds(self, states: int, repeats: int = REPEATS) -> float:
        """The median time of a launch, one behind the other, after one that loads the code."""
        once = self._timed(states, 1)
        count = min(MOST, max(1, round(1e3 * LEAST / max(min(once, self._timed(states, 1)), 1e-3))))
        return median([self._timed(states, count) / count for _ in range(repeats)])

    def seconds(self, states: int, repeats: int = REPEATS) -> float:
        """The median time from a launch until its results are there, by the wall clock."""
        self._timed(states, 1)
        times = []
        for _ in range(repeats):
            start = perf_counter()
            self._timed(states, 1)
            times.append(perf_counter() - start)
        return median(times)

    def wait(self, states: int) -> None:
        """Compute the first states, and return when their results are there."""
        self._timed(states, 1)

    def _timed(self, states: int, count: int) -> float:
        timer = Timer(self.kernel.device)
        timer.mark(0)
        for _ in range(count):
            self.launch(states)
        timer.mark(1)
        return timer.milliseconds

    def outputs(self, states: int) -> list[np.ndarray]:
        """The results of the first states as rows (states, entries)."""
        self.launch(states)
        found = []
        for buffer, width in zip(self.results, self.widths, strict=True):
            apart = width >= SIDE_BY_SIDE
            rows = np.empty((width, states) if apart else (states, width), self.dtype)
            buffer.read(rows)
            found.append(np.ascontiguousarray(rows.T) if apart else rows)
        return found


def first_launch(kernel: CudaKernel, arrays: Sequence[np.ndarray], states: int) -> tuple[float, list[np.ndarray]]:
    """(seconds to the first result, compilation included, the outputs as rows)."""
    start = perf_counter()
    outputs = DeviceBatch(kernel, arrays, states).outputs(states)
    return perf_counter() - start, outputs
