"""Loops on a GPU: gradients of rollouts with the bits of the processor, and keys of noise that are moved once."""

from typing import Any

import numpy as np
import pytest
from closed_loop.parts import arm_loop
from tape import fake_gpu
from tape.fake_gpu import here, there, torch
from workbench.connect.samples import swinging_loop, swinging_values

import condyle as cd

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_gpu.install(monkeypatch)


@pytest.mark.parametrize("checkpoint", [1, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gradients_of_rollouts(checkpoint: int, dtype: Any) -> None:
    loop, values = swinging_loop(), {name: a.astype(dtype) for name, a in swinging_values().items()}
    x, r = values.pop("x"), values.pop("r")
    rng = np.random.default_rng(0)
    weights = {"x1": rng.normal(size=x.shape).astype(dtype), "q": rng.normal(size=(3, 6, 1)).astype(dtype)}
    rollout, pullback = loop.vjp(x, r, parameters=values, record=["q"], checkpoint=checkpoint)
    wanted = pullback(**weights)
    placed = {name: there(a, dtype) for name, a in values.items()}
    rollout_there, pullback = loop.vjp(there(x, dtype), there(r, dtype), parameters=placed, record=["q"], checkpoint=checkpoint)
    assert np.array_equal(here(rollout_there.x), rollout.x) and np.array_equal(here(rollout_there["q"]), rollout["q"])
    assert isinstance(rollout_there.status.ok, torch.Tensor)
    # weights of the processor are moved
    found = pullback(x1=there(weights["x1"], dtype), q=weights["q"])
    assert list(found) == list(wanted)
    for name, gradient in wanted.items():
        assert here(found[name]).dtype == dtype and here(found[name]).shape == gradient.shape
        # sums over a batch are those of PyTorch, in another order
        assert np.allclose(here(found[name]), gradient, rtol=1e-5 if dtype == np.float32 else 1e-13, atol=0.0)
    for name in ("x", "r", "feedback.stiffness"):
        assert np.array_equal(here(found[name]), wanted[name])


def test_keys_of_noise_are_moved_once() -> None:
    loop = arm_loop()
    x, target = loop.state(np.zeros((4, 2))), np.array([0.1, 0.2])
    wanted = loop.rollout(x, target, 8, seed=7)
    for _ in range(3):
        before = fake_gpu.moves()
        found = loop.rollout(there(x), there(target), 8, seed=7)
        assert np.array_equal(here(found["q"]), wanted["q"])
    assert fake_gpu.moves() == before
    # another seed moves two numbers, other robots theirs, and robots of the GPU none
    assert np.array_equal(here(loop.rollout(there(x), there(target), 8, seed=8).x), loop.rollout(x, target, 8, seed=8).x)
    robots = np.array([3, 70_000, 5, 1])
    other = loop.rollout(x, target, 8, seed=7, robots=robots).x
    assert not np.array_equal(other, wanted.x)
    assert np.array_equal(here(loop.rollout(there(x), there(target), 8, seed=7, robots=robots).x), other)
    assert np.array_equal(here(loop.rollout(there(x), there(target), 8, seed=7, robots=there(robots, np.int64)).x), other)


def test_states_are_made_there() -> None:
    world, loop = cd.Simulation(cd.load("double_pendulum"), dt=0.01), arm_loop()
    q, v, angle = (np.random.default_rng(k).normal(size=(3, 2)) for k in range(3))
    assert np.array_equal(here(world.state(there(q))), world.state(q))
    assert np.array_equal(here(world.state(v=there(v, np.float32))), world.state(v=v.astype(np.float32)))
    assert np.array_equal(here(loop.state(there(q[0]), v)), loop.state(q[0], v))
    assert np.array_equal(here(loop.state(q, **{"servo.angle": there(angle)})), loop.state(q, **{"servo.angle": angle}))


def test_derivatives_of_steps_and_rollouts() -> None:
    world = cd.Simulation(cd.load("double_pendulum"), dt=0.01, substeps=2)
    rng = np.random.default_rng(1)
    x, us = world.state(rng.normal(size=(3, 2))), rng.normal(size=(3, 4, 2))
    mass = rng.uniform(0.5, 1.5, 3)
    wanted = world.rollout(x, us, parameters={"elbow.mass": mass}, derivatives=True)
    found = world.rollout(there(x), there(us), parameters={"elbow.mass": there(mass)}, derivatives=True)
    assert all(np.array_equal(here(a), b) for a, b in zip(found, wanted, strict=True))
    found = world.step(there(x), there(us[:, 0]), parameters={"elbow.mass": mass}, derivatives=True)
    wanted = world.step(x, us[:, 0], parameters={"elbow.mass": mass}, derivatives=True)
    assert all(np.array_equal(here(a), b) for a, b in zip(found, wanted, strict=True))
