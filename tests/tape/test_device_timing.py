"""Kernels measured on a GPU: what is timed computes the results of the processor; here in the interpreter of PTX."""

import numpy as np
import pytest
from tape.interpreted_gpu import take_the_place_of_a_gpu

import condyle as cd
from condyle.tape.backends.cuda import cuda_kernel
from condyle.tape.device_timing import DeviceBatch, first_launch


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    take_the_place_of_a_gpu(monkeypatch)


def test_a_batch_repeats_the_given_states_and_gives_their_bits() -> None:
    function = cd.function(lambda x, y: (np.outer(x, x), x + y), cache=False, x=6, y=6)  # 36 entries lie side by side
    x, y = np.random.default_rng(0).normal(size=(2, 3, 6))
    wanted = [np.resize(a.reshape(3, -1), (5, a[0].size)) for a in function(x, y)]
    batch = DeviceBatch(cuda_kernel(function.tape, "f64", 0), [x, y], 8)
    found = batch.outputs(5)
    assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))
    assert batch.milliseconds(2, repeats=2) > 0.0


def test_rows_known_at_run_time() -> None:
    def total(x: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return cd.scan(lambda i, s, row: (s + row, s), x, rows)[1]

    function = cd.function(total, cache=False, x=2, rows=cd.Rows(None, 2))
    rng = np.random.default_rng(1)
    x, rows = rng.normal(size=(3, 2)).astype(np.float32), rng.normal(size=(3, 4, 2)).astype(np.float32)
    seconds, (found,) = first_launch(cuda_kernel(function.tape, "f32", 0), [x, rows], 3)
    assert seconds > 0.0 and np.array_equal(found, function(x, rows).reshape(3, -1))
