"""Compiled functions as operations of JAX: values, jit, vmap, derivatives of both modes and orders, precision, errors."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from simulate.bodies import a_pendulum
from workbench.connect.samples import compiled_network, compiled_running, network_values, swinging_loop, swinging_values

import condyle as cd
from condyle.errors import ShapeError, TraceError

jax: Any = pytest.importorskip("jax", reason="functions of JAX arrays need jax: pip install 'condyle[jax]'")
jnp: Any = jax.numpy


@pytest.fixture(autouse=True)
def wide() -> Iterator[None]:
    """Double precision in JAX, for the time of a test."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


@pytest.fixture(scope="module")
def op() -> Any:
    return cd.jax.function(compiled_network())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_are_the_bits_of_the_function(op: Any, dtype: Any) -> None:
    x, u, W, gain = [a.astype(dtype) for a in network_values(9)]
    expected = compiled_network()(x, u, W, gain=gain)
    for call in (op, jax.jit(op)):
        found = call(x, u, W, gain=gain)
        assert found._fields == ("y", "z") and found.y.dtype == dtype
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    again = op(x.reshape(3, 3, 3), u=u.tolist(), W=W)
    assert np.array_equal(again.y.reshape(9, 2), compiled_network()(x, u, W).y) and again.y.dtype == dtype


@pytest.mark.parametrize("mode", ["fwd", "rev"])
def test_gradients(op: Any, mode: str) -> None:
    from jax.test_util import check_grads

    def f(x: Any, u: Any, W: Any, gain: Any) -> Any:
        return tuple(op(x, u, W, gain=gain))

    check_grads(jax.jit(f), network_values(2), order=2, modes=[mode])


def test_transforms(op: Any) -> None:
    x, u, W, _ = network_values()

    def total(x: Any, u: Any) -> Any:
        return op(x, u, W).y.sum()

    assert np.array_equal(jax.vmap(lambda x: op(x, u, W).y)(x), op(x, u, W).y)
    many, tables = jnp.stack([x, 2.0 * x], axis=1), jnp.stack([W, -W])
    assert np.array_equal(jax.vmap(lambda x: op(x, u, W).y, in_axes=1)(many)[1], op(2.0 * x, u, W).y)
    for f in (jax.vmap, lambda f: jax.jit(jax.vmap(f))):
        assert np.array_equal(f(lambda W: op(x, u, W).y)(tables)[1], op(x, u, -W).y)
    each = jax.jit(jax.vmap(jax.grad(total), (0, None)))(x, u)
    assert np.array_equal(each, jax.grad(total)(x, u))
    forward, backward = (mode(lambda x: op(x, u, W).y)(x[0]) for mode in (jax.jacfwd, jax.jacrev))
    assert np.allclose(forward, backward, rtol=1e-14, atol=1e-14)
    assert np.allclose(np.diagonal(jax.hessian(total)(x[0], u)), -1.5 * np.sin(x[0]) * (u @ W), rtol=1e-13)
    ones = (jnp.ones(3),)
    third = jax.grad(lambda x: jax.jvp(lambda x: jax.jvp(lambda x: total(x, u), (x,), ones)[1], (x,), ones)[1])(x[0])
    assert np.allclose(third, -1.5 * np.cos(x[0]) * (u @ W), rtol=1e-13)


def test_inside_control_flow(op: Any) -> None:
    x, u, W, _ = network_values()

    def five(x: Any) -> Any:
        return jax.lax.scan(lambda s, _: (0.9 * s + op(s, u, W).z, None), x, length=5)[0].sum()

    # z moves by u[1] times the first entry; floor has no derivative
    expected = (np.diag([0.9] * 3) + np.outer(np.ones(3), [u[1], 0.0, 0.0])).T
    assert np.allclose(jax.grad(five)(x[0]), np.linalg.matrix_power(expected, 5) @ np.ones(3), rtol=1e-13)


def test_robots_and_worlds() -> None:
    from jax.test_util import check_grads

    robot = a_pendulum()
    world = cd.Simulation(robot, dt=0.01, ground=None)
    q, v, tau = np.array([0.3]), np.array([-0.2]), np.array([0.1])
    check_grads(cd.jax.function(robot.forward_dynamics, q=1, v=1, tau=1), (q, v, tau), order=1)
    x, us = np.concatenate([q, v]), np.full((4, 1), 0.3)
    check_grads(cd.jax.function(world.rollout, x=2, us=(4, 1)), (x, us), order=1)


def test_scans_over_any_number_of_rows_and_rollouts() -> None:
    from jax.test_util import check_grads

    x, us = np.array([0.3, 0.4]), np.ones((7, 2))
    op = cd.jax.function(compiled_running())
    check_grads(op, (x, us), order=1)
    with pytest.raises(TraceError, match="there are no second derivatives through rows whose number is known at run time"):
        jax.hessian(lambda x: op(x, us)[1].sum())(x)
    loop, given = swinging_loop(), swinging_values()
    rollout = cd.jax.rollout(loop, record=["q"], checkpoint=2)
    names = list(given)
    check_grads(jax.jit(lambda *arrays: rollout(**dict(zip(names, arrays, strict=True)))), tuple(given.values()), order=1)


def test_precision_is_never_lost_silently(op: Any) -> None:
    x, u, W, _ = network_values()
    mixed = op(x.astype(np.float32), u, W).y
    assert mixed.dtype == np.float64
    assert jax.grad(lambda x: op(x, u, W).y.sum())(x.astype(np.float32)).dtype == np.float32
    jax.config.update("jax_enable_x64", False)
    with pytest.raises(ShapeError, match=r"'x' is float64, which JAX would round to float32; call jax.config.update"):
        op(x, u, W)
    assert op(*[a.astype(np.float32) for a in (x, u, W)], gain=2.0).y.dtype == np.float32


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda op, x, u, W: op(x, u, W, gian=2.0), "network has no input 'gian'; did you mean 'gain'?"),
        (lambda op, x, u, W: op(x, x, W), "network: input 'u' has shape"),
        (lambda op, x, u, W: jax.jit(op)(x, x, W), "network: input 'u' has shape"),
        (lambda op, x, u, W: op(x.astype(np.float16), u, W), "network: input 'x' must be float64 or float32, got float16"),
        (lambda op, x, u, W: op("a", u, W), "network: input 'x' must be an array of numbers, got 'a'"),
        (lambda op, x, u, W: jax.jit(op)(x, np.ones((2, 2)), W), "network: the batch axes of the inputs do not fit each other"),
    ],
)
def test_wrong_calls(op: Any, call: Any, sentence: str) -> None:
    with pytest.raises(ShapeError) as caught:
        call(op, *network_values()[:3])
    assert str(caught.value).startswith(sentence) and "\n" not in str(caught.value)
