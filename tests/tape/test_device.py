"""Arrays on a GPU beside kernels: batch axes, `out`, one sentence for each thing that cannot be, and a driver that refuses."""

import ctypes
import threading
import time
from contextlib import nullcontext
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tape import fake_gpu
from tape.fake_gpu import here, there, torch

import condyle as cd
from condyle.errors import BackendError, ShapeError
from condyle.tape import cuda_driver, device, device_call

RNG = np.random.default_rng(6)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpu.install(monkeypatch)


@pytest.fixture(scope="module")
def added() -> cd.Function:
    return cd.function(lambda x, y: {"sum": x + y, "product": x * y}, x=3, y=3)


# ---- what works


def test_batch_axes_broadcast(gpu: None, added: cd.Function) -> None:
    for first, second in (((2, 4), (4,)), ((2, 1), (1, 4)), ((2, 4), ()), ((), (1, 4))):
        x, y = RNG.normal(size=(*first, 3)), RNG.normal(size=(*second, 3))
        found, wanted = added(there(x), there(y)), added(x, y)
        assert all(np.array_equal(here(a), b) and a.shape == b.shape for a, b in zip(found, wanted, strict=True))


def test_several_threads_plan_a_layout_at_once(gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    function = cd.function(lambda x, y: x - y, cache=False, x=3, y=3)
    function.device_kernel("f64", 0)
    placed, start, wrong = device_call.placed, threading.Barrier(3), []

    def slow(*arguments: Any) -> device_call.Placed:
        time.sleep(0.02 * (not arguments[0]))  # what outputs are like is found
        return placed(*arguments)

    monkeypatch.setattr(device_call, "placed", slow)

    def work(k: int) -> None:
        x, y = np.full((4, 3), 1.0 * k), np.ones((4, 3))
        start.wait()
        wrong.extend([k for _ in range(3) if not np.array_equal(here(function(there(x), there(y))), x - y)] or [None])

    workers = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert wrong == [None] * 3


def test_a_layout_is_planned_once(gpu: None) -> None:
    function = cd.function(lambda x, y: x - y, cache=False, x=3, y=3)
    for _ in range(3):
        x, y = RNG.normal(size=(4, 3)), RNG.normal(size=(4, 3))
        assert np.array_equal(here(function(there(x), there(y))), x - y)
        out = there(np.zeros((4, 3)))
        assert np.array_equal(here(function(there(x), there(y), out=out)), x - y)
    assert len(function.device_plans) == 1
    # another layout, another type
    assert np.array_equal(here(function(there(x.T.copy()).T, there(y))), x - y)
    assert here(function(there(x, np.float32), there(y, np.float32))).dtype == np.float32
    assert len(function.device_plans) == 3


def test_arrays_of_the_processor_are_moved_in_order(gpu: None, added: cd.Function) -> None:
    x, y = RNG.normal(size=(4, 3)), np.asfortranarray(RNG.normal(size=(4, 3)))
    found = added(there(x), y)
    assert np.array_equal(here(found[0]), x + y)
    # a tensor whose states lie side by side
    assert np.array_equal(here(added(there(x), there(y.T.copy()).T)[0]), x + y)


def test_out_of_a_robot(gpu: None) -> None:
    robot = cd.load("double_pendulum")
    q, v, tau = (RNG.normal(size=(5, 2)) for _ in range(3))
    inputs = [there(a) for a in (q, v, tau)]
    out = there(np.zeros((5, 2)))
    assert robot.forward_dynamics(*inputs, out=out) is out
    assert np.array_equal(here(out), robot.forward_dynamics(q, v, tau))
    found, ok = robot.forward_dynamics(*inputs, out=out, mask=True)
    assert found is out and bool(np.all(here(ok)))
    many = tuple(there(np.zeros((5, 2, 2))) for _ in range(3))
    found = robot.forward_dynamics_derivatives(*inputs, out=many)
    wanted = robot.forward_dynamics_derivatives(q, v, tau)
    assert all(a is b and np.array_equal(here(a), c) for a, b, c in zip(found, many, wanted, strict=True))


def test_constants_are_moved_once(gpu: None) -> None:
    gain = cd.parameter("gain", 2.0)
    scaled = cd.function(lambda x: gain * x, cache=False, x=3)
    x = there(np.ones((4, 3)))
    scaled(x)
    before = fake_gpu.moves()
    assert np.array_equal(here(scaled(x)), np.full((4, 3), 2.0)) and fake_gpu.moves() == before


def test_arrays_beside_others(gpu: None) -> None:
    x = there(np.zeros((2, 3)), np.float32)
    assert device.beside(x, [1.0, 2.0]).dtype == torch.float32
    assert device.beside(np.zeros(2), [1, 2]).dtype == np.float64
    joined = device.joined([x, np.ones((2, 1))], -1)
    assert np.array_equal(here(joined), np.column_stack([np.zeros((2, 3)), np.ones(2)]))
    packed = device.packed([np.ones(2), x, np.zeros((2, 0))])
    assert np.array_equal(here(packed), np.column_stack([np.ones((2, 2)), np.zeros((2, 3))]))
    with pytest.raises(ShapeError, match=r"do not fit each other: \(3, 2\), \(2, 3\)"):
        device.packed([np.ones((3, 2)), x])
    assert np.array_equal(device.host(x), np.zeros((2, 3))) and device.precision_of(x) == "f32"


# ---- what does not


def read_only(x: Any) -> Any:
    """An array that cannot be written to, as those of JAX."""
    view = {"shape": (4, 3), "typestr": "<f8", "data": (x.data_ptr(), True), "strides": None}
    return type("Array", (), {"__cuda_array_interface__": view, "device": SimpleNamespace(id=0), "__module__": "jax"})()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda x: (there(np.zeros((4, 3))),), "`out` needs 2 arrays, one per output, got 1"),
        (
            lambda x: (there(np.zeros((4, 3))), np.zeros((4, 3))),
            "out array 'product' must be on the GPU, as the inputs are; got ndarray",
        ),
        (
            lambda x: (there(np.zeros((4, 3))), there(np.zeros((5, 3)))),
            r"must be float64 with the batch axes \(4,\), got .* \(5,\)",
        ),
        (lambda x: (there(np.zeros((4, 3))), there(np.zeros((4, 3)), np.float32)), "must be float64 .* got float32"),
        (lambda x: (there(np.zeros((4, 3))), x), "out array for 'product' shares memory with an input"),
        (lambda x: (there(np.zeros((4, 3))), there(np.zeros((1, 3))).expand(4, 3)), "several entries in one place"),
        (lambda x: (there(np.zeros((4, 3))), read_only(there(np.zeros((4, 3))))), "'product' cannot be written to"),
    ],
)
def test_wrong_out(gpu: None, monkeypatch: pytest.MonkeyPatch, added: cd.Function, make: Any, message: str) -> None:
    monkeypatch.setattr(device, "_is_cuda", lambda value: not isinstance(value, np.ndarray))
    x = there(np.ones((4, 3)))
    with pytest.raises(ShapeError, match=message):
        added(x, there(np.ones((4, 3))), out=make(x))


def test_out_of_a_robot_on_the_processor(gpu: None) -> None:
    robot = cd.load("double_pendulum")
    q = there(np.zeros((5, 2)))
    with pytest.raises(ShapeError, match="`out` must be on the GPU, as the inputs are; got ndarray"):
        robot.forward_dynamics(q, q, q, out=np.zeros((5, 2)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda x: (x.half(), x),
            "input 'x' must be an array of float64 or float32 on the GPU, got the type float16; convert it",
        ),
        (lambda x: (x, x.long()), "input 'y' must be an array of float64 or float32 on the GPU, got the type int64; convert it"),
        (lambda x: (x, x.float()), "need one type for all inputs, float64 or float32; got x float64, y float32"),
        (lambda x: (there(np.zeros((4, 5, 3)))[:, :2], x[0]), "strides .* make it contiguous"),
    ],
)
def test_wrong_types_and_layouts(gpu: None, added: cd.Function, make: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        added(*make(there(np.ones((4, 3)))))


def test_two_gpus(gpu: None, added: cd.Function, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = there(np.ones((4, 3))), there(np.ones((4, 3)))
    numbers = {x.data_ptr(): 0, y.data_ptr(): 1}
    monkeypatch.setattr("condyle.tape.device_call.known_number", lambda array: numbers.get(array.data_ptr()))
    with pytest.raises(ShapeError, match="'x' is on GPU 0 and 'y' on GPU 1; move all arrays of a call to one"):
        added(x, y)


@pytest.mark.parametrize("name", ["torch", "cupy"])
def test_out_of_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def empty(*_: Any, **__: Any) -> Any:
        raise type("OutOfMemoryError", (RuntimeError,), {})("CUDA out of memory")

    module = SimpleNamespace(empty=empty, float64=None, cuda=SimpleNamespace(Device=lambda number: nullcontext()))
    library = device.Library.__new__(device.Library)
    library.name, library.number = name, 0
    setattr(library, name, module)
    module.from_numpy = module.asarray = empty
    with pytest.raises(BackendError, match=r"GPU 0 is out of memory for an array of 8e-06 GB; use a smaller batch"):
        library.moved(np.zeros(1000), "f64")
    with pytest.raises(BackendError, match=r"GPU 0 is out of memory for results of 8 GB \(\(1000000,\) states of \(1000,\)\)"):
        library.empty((1_000_000,), (1000,), "f64")


# ---- a driver that refuses


class FakeDriver:
    """A library of the driver that shows GPUs of one compute capability, and fails in one function."""

    def __init__(self, capability: tuple[int, int] = (9, 0), count: int = 1, fails: tuple[str, int] = ("", 0)) -> None:
        self.capability, self.count, self.fails = capability, count, fails

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> int:
            if name == self.fails[0]:
                return self.fails[1]
            if name == "cuDeviceGetCount":
                arguments[0]._obj.value = self.count
            if name == "cuDeviceGetAttribute":
                arguments[0]._obj.value = self.capability[arguments[1] == cuda_driver.MINOR]
            if name == "cuDeviceGetName":
                arguments[0].value = b"NVIDIA Test"
            if name == "cuGetErrorString":
                arguments[1]._obj.value = b"an illegal memory access was encountered"
            return 0

        return call


@pytest.mark.parametrize(
    ("library", "message"),
    [
        (FakeDriver((6, 1)), r"NVIDIA Test has compute capability 6\.1, and the cuda backend needs 7\.0 or newer \(Volta\)"),
        (FakeDriver(count=0), "there is no GPU 0: the driver shows 0; use backend 'cpu', or another device"),
        (FakeDriver(fails=("cuInit", 100)), "there is an NVIDIA driver, but no GPU that it can use"),
        (FakeDriver(fails=("cuMemAlloc_v2", 2)), "the GPU is out of memory; use a smaller batch"),
        (FakeDriver(fails=("cuLinkCreate_v2", 222)), "the NVIDIA driver is too old for this code"),
        (
            FakeDriver(fails=("cuModuleLoadData", 700)),
            r"failed in cuModuleLoadData: an illegal memory access was encountered \(700\)",
        ),
    ],
)
def test_drivers_that_refuse(library: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    monkeypatch.setattr(cuda_driver, "driver", cache(cuda_driver.Driver))
    with pytest.raises(BackendError, match=message) as error:
        gpu = cuda_driver.Device(0)
        cuda_driver.Buffer(gpu, 8)
        gpu.compiled("", 1)
        cuda_driver.Code(gpu, b"", "kernel")
    assert "\n" not in str(error.value)
