"""Compiled functions as operations of PyTorch: values, memory, derivatives of both modes and orders, vmap, compile, errors."""

from typing import Any

import numpy as np
import pytest
from simulate.bodies import a_pendulum
from workbench.connect.samples import compiled_network, compiled_running, network, network_values, swinging_loop, swinging_values

import condyle as cd
from condyle.errors import BackendError, ControlError, ShapeError, TraceError

torch: Any = pytest.importorskip("torch", reason="functions of tensors need torch: pip install 'condyle[torch]'")


@pytest.fixture(scope="module")
def op() -> Any:
    torch.set_num_threads(1)
    return cd.torch.function(compiled_network())


@pytest.fixture
def tensors() -> list[Any]:
    return [torch.from_numpy(a).requires_grad_() for a in network_values()]


def without_gradient(tensors: list[Any]) -> list[Any]:
    return [t.detach() for t in tensors]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_are_the_bits_of_the_function(op: Any, dtype: Any) -> None:
    x, u, W, gain = [a.astype(dtype) for a in network_values(9)]
    expected = compiled_network()(x, u, W, gain=gain)
    found = op(*map(torch.from_numpy, (x, u, W)), gain=torch.from_numpy(gain))
    assert found._fields == ("y", "z") and found.y.dtype == torch.from_numpy(x).dtype
    for a, b in zip(found, expected, strict=True):
        assert np.array_equal(a.numpy(), b)
    # axes in any order in memory, more batch axes, and numbers that are no tensors
    again = op(torch.from_numpy(np.asfortranarray(x)).reshape(3, 3, 3), u=u.tolist(), W=torch.from_numpy(W))
    assert np.array_equal(again.y.numpy().reshape(9, 2), compiled_network()(x, u, W).y) and again.y.dtype == found.y.dtype


def test_memory_is_shared(op: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}
    original = cd.Function.__call__

    def spy(self: Any, *args: Any, **named: Any) -> Any:
        seen["x"], seen["out"] = named["x"], original(self, *args, **named)
        return seen["out"]

    monkeypatch.setattr(cd.Function, "__call__", spy)
    x, u, W, _ = map(torch.from_numpy, network_values())
    found = op(x, u, W)
    assert np.shares_memory(seen["x"], x.numpy()) and np.shares_memory(seen["out"].y, found.y.numpy())


def test_gradients(op: Any, tensors: list[Any]) -> None:
    def f(x: Any, u: Any, W: Any, gain: Any) -> Any:
        return op(x, u, W, gain=gain)

    assert torch.autograd.gradcheck(f, tensors, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(f, tensors)


def test_only_what_is_needed_is_differentiated(op: Any, tensors: list[Any]) -> None:
    x, u, W, _ = tensors
    (single,) = torch.autograd.grad(op(x, u.detach(), W.detach()).z.sum(), x)
    both = torch.autograd.grad(op(x, u, W).z.sum(), (x, u))
    assert torch.equal(single, both[0]) and both[1].shape == u.shape
    assert not op(*without_gradient([x, u, W])).y.requires_grad


def test_mixed_precision_is_float64_with_gradients_of_the_inputs_type(op: Any, tensors: list[Any]) -> None:
    x, u, W, _ = without_gradient(tensors)
    x = x.float().requires_grad_()
    y = op(x, u, W).y
    y.sum().backward()
    assert y.dtype == torch.float64 and x.grad.dtype == torch.float32


def test_transforms(op: Any, tensors: list[Any]) -> None:
    x, u, W, _ = without_gradient(tensors)

    def total(x: Any, u: Any) -> Any:
        return op(x, u, W).y.sum()

    assert torch.equal(torch.func.vmap(lambda x: op(x, u, W).y)(x), op(x, u, W).y)
    # an axis in the middle, and a batch of its own below the mapped axis
    many = torch.stack([x, 2.0 * x], dim=1)
    assert torch.equal(torch.func.vmap(lambda x: op(x, u, W).y, in_dims=1)(many)[1], op(2.0 * x, u, W).y)
    # a table of the whole batch is mapped, too
    tables = torch.stack([W, -W])
    assert torch.equal(torch.func.vmap(lambda W: op(x, u, W).y)(tables)[1], op(x, u, -W).y)
    each = torch.func.vmap(torch.func.grad(total), (0, None))(x, u)
    assert torch.equal(each, torch.func.grad(total)(x, u))
    forward, backward = (mode(lambda x: op(x, u, W).y)(x[0]) for mode in (torch.func.jacfwd, torch.func.jacrev))
    assert torch.allclose(forward, backward, rtol=1e-14, atol=1e-14)
    assert torch.allclose(torch.func.hessian(total)(x[0], u).diagonal(), -1.5 * torch.sin(x[0]) * (u @ W), rtol=1e-13)


@pytest.mark.slow
def test_compile_sees_one_operator(op: Any, tensors: list[Any]) -> None:
    x, u, W, gain = tensors

    def total(x: Any, u: Any, gain: Any) -> Any:
        y, z = op(x, u, W.detach(), gain=2.0 * gain)
        return (y * y).sum() + z.sum()

    compiled = torch.compile(total, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(x, u, gain), total(x, u, gain))
    for a, b in zip(*[torch.autograd.grad(f(x, u, gain), (x, u, gain)) for f in (compiled, total)], strict=True):
        assert torch.equal(a, b)


def test_robots_worlds_and_rollouts() -> None:
    robot = a_pendulum()
    world = cd.Simulation(robot, dt=0.01, ground=None)
    q, v, tau = (torch.tensor([value], dtype=torch.float64, requires_grad=True) for value in (0.3, -0.2, 0.1))
    assert torch.autograd.gradcheck(cd.torch.function(robot.forward_dynamics, q=1, v=1, tau=1), (q, v, tau))
    x, us = torch.cat([q, v]).detach().requires_grad_(), torch.full((4, 1), 0.3, dtype=torch.float64, requires_grad=True)
    step, rollout = cd.torch.function(world.step, x=2, u=1), cd.torch.function(world.rollout, x=2, us=(4, 1))
    assert torch.autograd.gradcheck(rollout, (x, us))
    states = rollout(x, us)
    assert np.array_equal(states[1].detach(), step(x, us[0]).detach())


def test_scans_over_any_number_of_rows() -> None:
    op = cd.torch.function(compiled_running())
    x, us = torch.tensor([0.3, 0.4], dtype=torch.float64, requires_grad=True), torch.ones(7, 2, dtype=torch.float64)
    us.requires_grad_()
    assert torch.autograd.gradcheck(op, (x, us), check_forward_ad=True)
    alone = torch.autograd.grad(op(x, us.detach())[1].sum(), x)[0]
    assert torch.equal(torch.func.grad(lambda x: op(x, us.detach())[1].sum())(x.detach()), alone)
    with pytest.raises(TraceError, match="known at run time"):
        torch.autograd.gradgradcheck(op, (x, us))


def test_rollouts_of_loops() -> None:
    loop, given = swinging_loop(), swinging_values()
    values = {name: torch.from_numpy(value).requires_grad_() for name, value in given.items()}
    op = cd.torch.rollout(loop, record=["q"])
    x1, q = op(**values)
    out = loop.rollout(given.pop("x"), given.pop("r"), parameters=given, record=["q"])
    assert np.array_equal(x1.detach(), out.x) and np.array_equal(q.detach(), out["q"])
    names = list(values)
    assert torch.autograd.gradcheck(lambda *tensors: op(**dict(zip(names, tensors, strict=True))), tuple(values.values()))
    # a constant reference, records at another rate, checkpoints, one robot
    few = cd.torch.rollout(loop, steps=12, every=2, record="q", checkpoint=3)
    constant = torch.tensor([0.3], dtype=torch.float64, requires_grad=True)
    assert few(values["x"][0], constant)[1].shape == (6, 1)
    assert torch.autograd.gradcheck(lambda r: few(values["x"][0].detach(), r, seed=3, robots=7), constant)
    with pytest.raises(ShapeError, match=r"^rollout has no input 'feedback.stifness'; did you mean 'feedback.stiffness'\?$"):
        op(values["x"], values["r"], **{"feedback.stifness": 1.0})
    with pytest.raises(ControlError, match=r"^x must have 3 entries in its last axis \(q, v, tick\), got shape \(2,\)$"):
        op(torch.zeros(2), values["r"])


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda op, x, u, W: op(x, u), "network needs the input 'W'; its inputs are x, u, W"),
        (lambda op, x, u, W: op(x, u, W, gian=2.0), "network has no input 'gian'; did you mean 'gain'?"),
        (lambda op, x, u, W: op(x, u, W, u=u), "network: input 'u' was given twice"),
        (lambda op, x, u, W: op(x, u, W, u), "network takes 3 arrays"),
        (lambda op, x, u, W: op(x, x, W), "network: input 'u' has shape"),
        (lambda op, x, u, W: op(x.half(), u, W), "network: input 'x' must be float64 or float32, got torch.float16"),
        (lambda op, x, u, W: op("a", u, W), "network: input 'x' must be a tensor or numbers, got 'a'"),
        (lambda op, x, u, W: op(x, u.to("meta"), W), "network: input 'u' is on meta, and kernels run on the CPU"),
        (lambda op, x, u, W: op(x, u.expand(2, 2), W), "network: the batch axes of the inputs do not fit each other"),
    ],
)
def test_wrong_calls(op: Any, tensors: list[Any], call: Any, sentence: str) -> None:
    with pytest.raises(ShapeError) as caught:
        call(op, *without_gradient(tensors)[:3])
    assert str(caught.value).startswith(sentence) and "\n" not in str(caught.value)


def test_wrong_functions() -> None:
    with pytest.raises(TraceError, match="a Python function and one named shape per argument"):
        cd.torch.function(network)
    with pytest.raises(TraceError, match="is compiled and has its shapes; leave out x"):
        cd.torch.function(compiled_network(), x=3)
    with pytest.raises(BackendError, match="not mpfr:100"):
        cd.torch.function(compiled_network().on("mpfr:100"))
