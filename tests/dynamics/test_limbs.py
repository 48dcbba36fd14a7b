"""Derivatives of forward dynamics of robots with limbs, computed as one: those without, and the same bits on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dynamics.random_robots import limbed_model, random_state
from markers import slow_except
from tape.ptx_interpreter import Code, Device

import condyle as cd
from condyle.dynamics.derivatives import forward_dynamics_derivatives
from condyle.dynamics.limbs import find_limbs
from condyle.dynamics.solve import ancestor_dofs
from condyle.robot.model import Model
from condyle.tape.captured import BYTES
from condyle.tape.function import Function
from condyle.tape.limbs import has_limbs, lanes_of
from condyle.tape.partition import device_form
from condyle.tape.ptx import ptx_source
from condyle.tape.trace import trace_values

AGREE = 1e-12  # of two orders of the same sums, relative to the largest entry

ROBOTS = {
    "free base": limbed_model(0),
    "fixed base": limbed_model(1, base="fixed"),  # limbs that nothing joins
    "three limbs": limbed_model(2, 3, ("revolute", "continuous")),
    "six limbs": limbed_model(3, 6, ("revolute",) * 3),
    "balls": limbed_model(4, 4, ("ball", "revolute")),
}


def traced(model: Model) -> Function:
    """The derivatives with limbs."""
    sizes = {"q": model.nq, "v": model.nv, "tau": model.nv}
    made = Function(trace_values(lambda q, v, tau: forward_dynamics_derivatives(model, q, v, tau), **sizes))
    assert has_limbs(made.tape.block)
    return made


def states(model: Model, count: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    q, v, tau = random_state(model, np.random.default_rng(7), count)
    return q, v, 3.0 * tau


@pytest.mark.parametrize("name", slow_except([name for name in ROBOTS if name not in ("six limbs", "balls")], ROBOTS))
def test_derivatives_are_those_without_limbs(name: str) -> None:
    """In floats, limbs are not computed as one."""
    model = ROBOTS[name]
    q, v, tau = states(model)
    for a, b in zip(traced(model)(q, v, tau), forward_dynamics_derivatives(model, q, v, tau), strict=True):
        expected = np.array(b, dtype=float)
        assert np.max(np.abs(a - expected)) < AGREE * np.max(np.abs(expected))


def test_robots_without_limbs_are_not_folded() -> None:
    model = cd.load("ur3").model
    sizes = {"q": model.nq, "v": model.nv, "tau": model.nv}
    tape = trace_values(lambda q, v, tau: forward_dynamics_derivatives(model, q, v, tau), **sizes)
    assert find_limbs(ancestor_dofs(model)) is None and not has_limbs(tape.block)


@pytest.mark.slow
def test_limbs_take_no_more_operations_than_without(monkeypatch: pytest.MonkeyPatch) -> None:
    model = cd.load("fourlimb").model
    sizes = {"q": model.nq, "v": model.nv, "tau": model.nv}

    def operations() -> Any:
        return cd.trace(lambda q, v, tau: forward_dynamics_derivatives(model, q, v, tau), **sizes).operations

    folded = operations()
    monkeypatch.setattr("condyle.dynamics.derivatives.find_limbs", lambda pattern: None)
    assert folded < operations()


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["f64", "f32"])
@pytest.mark.parametrize("name, side_by_side", [("free base", False), ("free base", True), ("three limbs", False)])
def test_a_gpu_gives_the_bits_of_the_processor(name: str, side_by_side: bool, precision: str) -> None:
    """By the interpreter of PTX: a thread for each limb; entries of a result one after the other, or states side by side."""
    model, dtype = ROBOTS[name], np.float64 if precision == "f64" else np.float32
    function, count = traced(model), 3
    given = [np.ascontiguousarray(a, dtype) for a in states(model, count)]
    expected = function(*given)
    form = device_form(function.tape, precision)
    assert lanes_of(form.block) == 4
    n = model.nv * model.nv
    out = [np.full((n, count) if side_by_side else (count, n), 7.5, dtype) for _ in range(3)]
    rows = [a.T if side_by_side else a for a in out]
    words = np.array([w for a in (*given, *rows) for w in (a.ctypes.data, a.strides[0], a.strides[1])], np.int64)
    strided = range(3, 6) if side_by_side else ()
    code = Code(Device(), ptx_source(form, precision, sm=90, strided=strided).encode(), "kernel")
    code.launch(1, 32, words.tobytes(), (count, count), shared=code.number(BYTES))
    for found, own in zip(rows, expected, strict=True):
        assert np.array_equal(found.reshape(count, model.nv, model.nv), own)


@pytest.mark.slow
def test_derivatives_of_derivatives() -> None:
    """Forward, reverse and second order, along random directions: against differences."""
    model = ROBOTS["three limbs"]
    function, rng = traced(model), np.random.default_rng(3)
    q, v, tau = states(model)
    d = rng.normal(size=model.nv)
    step = 1e-6
    high, low = (function(q, v + s * step * d, tau) for s in (1.0, -1.0))
    differences = [(a - b) / (2.0 * step) for a, b in zip(high, low, strict=True)]
    along = function.jvp("v")(q, v, tau, d)
    weights = [rng.normal(size=a.shape) for a in high]
    back = function.vjp("v")(q, v, tau, *weights)
    for a, b in zip(along, differences, strict=True):
        assert np.max(np.abs(a - b)) < 1e-7 * max(np.max(np.abs(b)), 1.0)
    assert back @ d == pytest.approx(sum(np.sum(w * a) for w, a in zip(weights, along, strict=True)), rel=1e-10)

    def energy(q: Any, v: Any, tau: Any) -> Any:
        return {"e": np.sum(forward_dynamics_derivatives(model, q, v, tau)[1] ** 2)}

    sizes = {"q": model.nq, "v": model.nv, "tau": model.nv}
    total = cd.function(energy, cache=False, **sizes)
    H, gradient = total.hessian("e", "v")(q, v, tau), total.jacobian("e", "v")
    high, low = (gradient(q, v + s * step * d, tau) for s in (1.0, -1.0))
    expected = (high - low) / (2.0 * step)
    assert np.max(np.abs(H @ d - expected)) < 1e-6 * np.max(np.abs(expected))
