"""Random numbers of NumPy or Python in a traced function become constants, and a warning says so and names condyle.random."""

import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import condyle as cd

OUTSIDE = np.random.default_rng(0)
METHOD, DRAWN = OUTSIDE.normal, OUTSIDE.normal(size=2)


def helper(x: Any) -> Any:
    return x + np.random.normal(size=2)


class Noisy:
    def __init__(self) -> None:
        self.rng = np.random.default_rng(1)

    def __call__(self, x: Any) -> Any:
        return x + self.rng.normal()


STILL = Noisy()


def with_own_generator(x: Any) -> Any:
    return x * np.random.default_rng(3).uniform()


def with_import(x: Any) -> Any:
    import numpy.random as npr

    return x * npr.default_rng(3).uniform()


DRAWS: dict[str, Callable[[Any], Any]] = {
    "np.random": lambda x: x + np.random.uniform(-1.0, 1.0, 2),
    "helper": lambda x: helper(x),
    "global generator": lambda x: x + OUTSIDE.normal(size=2),
    "bound method": lambda x, draw=METHOD: x + draw(),
    "attribute": Noisy(),
    "python": lambda x: x + random.random(),
    "own": with_own_generator,
    "imported": with_import,
}
ORDINARY: dict[str, Callable[[Any], Any]] = {
    "plain": lambda x: np.sin(x),
    "condyle.random": lambda x: x + cd.random.normal(0, 0, 0, 0, shape=2),
    "drawn before": lambda x, noise=DRAWN: x + noise,
    "not drawn": lambda x, robot=STILL: x + len(vars(robot)),
    "printed": lambda x: print(end="") or x * 2.0,
}


def warned(function: Callable[[], Any]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    assert all(warning.filename == __file__ for warning in caught)
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("name", DRAWS)
def test_a_function_that_draws_is_warned_of(name: str) -> None:
    for _ in range(2):  # it is never taken from the cache
        (said,) = warned(lambda: cd.function(DRAWS[name], x=2)([1.0, 2.0]))
        assert "they become constants" in said and "condyle.random" in said


@pytest.mark.parametrize("name", ORDINARY)
def test_other_functions_are_not(name: str) -> None:
    assert warned(lambda: cd.function(ORDINARY[name], x=2)([1.0, 2.0])) == []


def test_loops_and_environments_and_forces_warn() -> None:
    world = cd.Simulation(cd.load("chain:2"))

    def control(x: Any) -> Any:
        return {"u": np.random.normal(size=2)}

    loop = cd.Loop(world, control)
    assert len(warned(lambda: loop.rollout(loop.state(), steps=2))) == 1
    assert len(warned(lambda: cd.Simulation(cd.load("chain:2"), force=lambda model, q, v: OUTSIDE.normal(size=2) * v))) == 1

    still = cd.Loop(world, lambda x, action: {"u": action}, action=2)
    observe, reward = (lambda s: s.x.q), (lambda s: np.cos(s.x.q[1]))

    def steps(reward: Callable[[Any], Any], **options: Any) -> None:
        env = cd.VectorEnv(still, observe, reward, num_envs=2, **options)
        env.reset()
        env.step(np.zeros((2, 2), np.float32))

    assert warned(lambda: steps(reward)) == []
    assert warned(lambda: steps(lambda s: np.cos(s.x.q[1]) + np.random.normal()))
    assert warned(lambda: steps(reward, reset=lambda s: {"q": np.random.normal(size=2), "v": np.zeros(2)}))
