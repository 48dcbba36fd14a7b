"""Differentiable operations of PyTorch and JAX on a GPU: both directions there, the bits of the processor."""

from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from methods.mpc.problems import bounded
from tape import fake_gpu
from tape.fake_gpu import here, there, torch
from workbench.connect.samples import compiled_network, compiled_running, network_values, swinging_loop, swinging_values

import condyle as cd
from condyle.errors import ShapeError
from condyle.tape import device

pytestmark = pytest.mark.gpu


def gradients(function: Any, tensors: list[Any]) -> tuple[list[Any], list[Any]]:
    """(outputs, gradients) of a weighted sum of all outputs."""
    tensors = [t.detach().requires_grad_() for t in tensors]
    outputs = function(*tensors)
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    sum(((k + 1.0) * out * out).sum() for k, out in enumerate(outputs)).backward()
    return [out.detach() for out in outputs], [t.grad for t in tensors]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["network", "running"])
def test_forward_and_backward(monkeypatch: pytest.MonkeyPatch, name: str, dtype: Any) -> None:
    if name == "network":
        values = [a.astype(dtype) for a in network_values(5)]
        op = cd.torch.function(compiled_network())

        def function(x: Any, u: Any, W: Any, gain: Any) -> Any:
            return op(x, u, W, gain=gain)
    else:
        function = op = cd.torch.function(compiled_running())
        rng = np.random.default_rng(2)
        values = [rng.normal(size=(3, 2)).astype(dtype), rng.normal(size=(3, 4, 2)).astype(dtype)]
    wanted = gradients(function, [torch.from_numpy(a) for a in values])
    fake_gpu.install(monkeypatch)
    found = gradients(function, [there(a, dtype) for a in values])
    assert len(fake_gpu.launches) == 2
    for ours, theirs in zip((*found[0], *found[1]), (*wanted[0], *wanted[1]), strict=True):
        assert np.array_equal(here(ours), here(theirs))


def test_mapped_tables_and_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    op = cd.torch.function(compiled_network())
    x, u, W, _ = network_values(3)
    tables = np.stack([W, 2.0 * W])
    wanted = torch.func.vmap(op, (None, None, 0))(*map(torch.from_numpy, (x, u, tables)))
    fake_gpu.install(monkeypatch)
    # a list of numbers is moved
    found = torch.func.vmap(lambda W: op(there(x), u.tolist(), W))(there(tables))
    assert len(fake_gpu.launches) == 2 and np.array_equal(here(found.y), here(wanted.y))


def test_rollouts(monkeypatch: pytest.MonkeyPatch) -> None:
    rollout = cd.torch.rollout(swinging_loop(), record=["q"])
    values = swinging_values()
    x, r = values.pop("x"), values.pop("r")

    def function(*tensors: Any) -> Any:
        return rollout(*tensors[:2], **dict(zip(values, tensors[2:], strict=True)))

    every = [x, r, *values.values()]
    wanted = gradients(function, [torch.from_numpy(a) for a in every])
    fake_gpu.install(monkeypatch)
    found = gradients(function, [there(a) for a in every])
    for ours, theirs in zip((*found[0], *found[1]), (*wanted[0], *wanted[1]), strict=True):
        assert np.array_equal(here(ours), here(theirs))


def test_wrong_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpu.install(monkeypatch)
    op = cd.torch.function(compiled_network())
    x, u, W, _ = network_values()
    with pytest.raises(ShapeError, match=r"input 'x' must be float64 or float32, got torch\.float16"):
        op(there(x).half(), there(u), there(W))
    elsewhere = torch.empty((3, 3), dtype=torch.float64, device="meta")
    with pytest.raises(ShapeError, match="input 'x' is on meta, and kernels run on the CPU or on an NVIDIA GPU"):
        op(elsewhere, torch.from_numpy(u), torch.from_numpy(W))


# ---- JAX: its own arrays of the processor, which are said to be on a GPU


@pytest.fixture
def jax(monkeypatch: pytest.MonkeyPatch) -> Any:
    library = pytest.importorskip("jax", reason="functions of JAX arrays need jax: pip install 'condyle[jax]'")
    fake_gpu.install(monkeypatch)

    class Cupy(device.Library):
        """CuPy, which is NumPy here."""

        stream = 0  # type: ignore[assignment]

        def __init__(self, name: str, number: int) -> None:
            assert name in ("jax", "jaxlib")
            self.name, self.number = name, number
            self._constants = {}
            self.cupy = SimpleNamespace(ascontiguousarray=np.ascontiguousarray, broadcast_to=np.broadcast_to, asarray=np.asarray)

        def empty(self, lead: tuple[int, ...], shape: tuple[int, ...], precision: str) -> Any:
            return np.full((*lead, *shape), 7.5, device.DTYPES[precision])

        def moved(self, value: Any, precision: str) -> Any:
            return np.array(value, dtype=device.DTYPES[precision])

        def wait(self) -> None:
            """There is nothing to wait for."""

    def interface(array: Any) -> dict[str, Any]:
        if isinstance(array, np.ndarray):
            return array.__array_interface__
        return {"shape": array.shape, "typestr": array.dtype.str, "data": (array.unsafe_buffer_pointer(), True), "strides": None}

    monkeypatch.setattr(device, "_library", cache(Cupy))
    monkeypatch.setattr(device, "_is_cuda", lambda value: isinstance(value, library.Array))
    monkeypatch.setattr(device, "interface", interface)
    monkeypatch.setattr("condyle.tape.device_call.interface", interface)
    before = library.config.jax_enable_x64
    library.config.update("jax_enable_x64", True)
    yield library
    library.config.update("jax_enable_x64", before)


def test_jax(jax: Any) -> None:
    dynamics = cd.jax.function(compiled_network())
    x, u, W, gain = network_values(4)
    expected = compiled_network()(x, u, W, gain=gain)
    found = dynamics(*map(jax.numpy.asarray, (x, u, W)), gain=jax.numpy.asarray(gain))
    assert fake_gpu.launches and isinstance(found.y, jax.Array)
    assert np.array_equal(found.y, expected.y) and np.array_equal(found.z, expected.z)

    def total(x: Any, gain: Any) -> Any:
        out = dynamics(x, u, W, gain=gain)
        return (out.y**2).sum() + out.z.sum()

    fake_gpu.launches.clear()
    eager = jax.grad(total, (0, 1))(jax.numpy.asarray(x), jax.numpy.asarray(gain))
    assert fake_gpu.launches
    fake_gpu.launches.clear()
    # inside of jit a callback of the processor computes, with the same bits
    compiled = jax.jit(jax.grad(total, (0, 1)))(jax.numpy.asarray(x), jax.numpy.asarray(gain))
    assert not fake_gpu.launches
    assert all(np.array_equal(a, b) for a, b in zip(eager, compiled, strict=True))


def test_solvers_and_gradients_of_jax_arrays(jax: Any) -> None:
    solver, x = bounded().rti(), 0.1 * np.random.default_rng(1).normal(size=(2, 3, 4))
    gain = np.array([[[0.9]], [[1.1]]])  # one for each row of the batch, moved and repeated
    found, wanted = solver(jax.numpy.asarray(x), gain=gain), solver(x, gain=gain)
    assert isinstance(found.status, jax.Array) and np.array_equal(found.u, wanted.u)
    moved, expected = solver.shifted(found.plan), solver.shifted(wanted.plan)
    assert all(isinstance(moved[name], jax.Array) and np.array_equal(moved[name], expected[name]) for name in expected)
    loop, values = swinging_loop(), swinging_values()
    gradients = [
        loop.vjp(place(values["x"]), place(values["r"]))[1](x1=np.ones(loop.nx)) for place in (np.asarray, jax.numpy.asarray)
    ]
    assert all(isinstance(a, jax.Array) and np.array_equal(a, gradients[0][name]) for name, a in gradients[1].items())
