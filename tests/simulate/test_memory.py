"""What is traced is freed with the objects that hold it: reference cycles through arrays of objects are never collected."""

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from simulate.bodies import a_box

import condyle as cd
from condyle.tape import trace_cache
from condyle.tape.cache import ObjectCache
from condyle.tape.graph import Graph


def chain(dt: float = 0.002, **options: Any) -> cd.Simulation:
    return cd.Simulation(cd.load("chain:3"), dt, **options)


def traced_chain() -> Any:
    world = chain()
    return world.step(world.state(), np.zeros(world.nu), derivatives=True)


def robot_on_the_ground() -> Any:
    world = cd.Simulation(a_box(), 0.002, cd.Plane(friction=0.5))
    return world.step(world.stand())


def closed_loop() -> Any:
    filter = cd.blocks.LowPass(3, 5.0, every=2)
    loop = cd.Loop(chain(), lambda x: {"u": -filter(x.q), "wrist": x.v})
    return loop.rollout(loop.state(), steps=3)


def environment() -> Any:
    loop = cd.Loop(chain(), lambda x, action: action, action=3)
    env = cd.VectorEnv(loop, lambda s: s.x.q, lambda s: -s.x.q @ s.x.q, num_envs=2)
    return env.step(np.zeros((2, 3)))


def linear_solves() -> Any:
    solve = cd.function(lambda A, b: [np.linalg.solve(A, b), {"tr": np.linalg.inv(A) @ b}["tr"]], A=(3, 3), b=3)
    return solve.jacobian()(np.eye(3), np.ones(3))


def implicit_equation() -> Any:
    def root(a: Any) -> Any:
        return cd.loop(lambda _, x: (x + a / x) / 2.0, a, 20)

    return cd.function(cd.implicit(root, lambda x, a: x * x - a), a=()).jacobian()(2.0)


def tables() -> Any:
    def rows(us: Any) -> Any:
        return cd.scan(lambda i, x, u: ((x[0] + u, x[1].set(i, u[0])), x[0]), (np.zeros(2), cd.zeros_table((4, 1))), us)[1]

    return cd.function(rows, us=cd.Rows(4, 2))(np.ones((4, 2)))


def optimal_control() -> Any:
    problem = cd.ocp(lambda x, u: cd.array([x[1], u[0]]), N=3, dt=0.1, x=2, u=1, residual=lambda x, u: cd.array([*x, *u]))
    return problem.rti()(np.ones(2))


USES = (traced_chain, robot_on_the_ground, closed_loop, environment, linear_solves, implicit_equation, tables, optimal_control)


def graphs() -> int:
    gc.collect()
    return sum(type(x) is Graph for x in gc.get_objects())


@pytest.fixture(scope="module", autouse=True)
def alone() -> None:
    """What other tests left behind need not be looked at again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def traced_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """No trace comes from the cache; what is known of the package's sources does."""
    sources = trace_cache.Sources(trace_cache.ROOT)
    monkeypatch.setattr(trace_cache, "Sources", lambda root: sources)
    monkeypatch.setattr(trace_cache, "shared_cache", lambda: ObjectCache(None))


@pytest.mark.parametrize("use", USES)
def test_traces_are_freed(use: Callable[[], Any]) -> None:
    before = graphs()
    use()
    assert graphs() == before


def test_a_traced_simulation_leaves_next_to_nothing() -> None:
    """What NumPy keeps of small arrays, and no more: 30 kB for each simulation, whose trace takes 100."""
    count, bound = 3, 30e3
    for _ in range(2):
        world = chain()
        world.step(world.state(), np.zeros(world.nu))
    tracemalloc.start()
    try:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for k in range(count):
            world = chain(0.002 + 1e-4 * k)
            world.step(world.state(), np.zeros(world.nu))
        del world
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < count * bound
    finally:
        tracemalloc.stop()
