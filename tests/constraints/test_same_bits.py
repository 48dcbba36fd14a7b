"""The bits of a constrained robot's dynamics: the same in every batch, with any lanes and threads, and in every process."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from constraints import mechanisms as m
from constraints.systems import closed, on_hills, two_wheeled, wheeled
from markers import slow_except
from tape.random_tapes import same_bits

import condyle as cd

ROBOTS = {
    "four_bar": lambda: closed(m.four_bar),
    "squeezer": lambda: closed(m.squeezer),
    "five_bar": lambda: closed(m.five_bar),
    "wheeled_pendulum": wheeled,
    "on hills": on_hills,
    "two_wheeled": two_wheeled,
}
KERNELS = ("forward_dynamics", "forward_dynamics_derivatives")
SLOW = {("two_wheeled", "forward_dynamics_derivatives")}  # to compile for every number of lanes
COUNT = 37  # no multiple of any number of lanes


def inputs(robot: cd.Robot) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    y = robot.neutral() + rng.uniform(-0.5, 0.5, (COUNT, robot.nq))
    return [y, *rng.uniform(-1, 1, (2, COUNT, robot.nv))]


def results(function: Any, arrays: list[np.ndarray], **options: Any) -> list[np.ndarray]:
    out = function(*arrays, **options)
    return [np.asarray(o) for o in (out if isinstance(out, tuple) else (out,))]


def all_same(a: list[np.ndarray], b: list[np.ndarray]) -> bool:
    return len(a) == len(b) and all(same_bits(x, y) for x, y in zip(a, b, strict=True))


ALL = [(name, kernel) for name in ROBOTS for kernel in KERNELS if (name, kernel) not in SLOW]


# linkages of more links are as one of four bars
@pytest.mark.parametrize("name, kernel", slow_except([case for case in ALL if case[0] not in ("squeezer", "five_bar")], ALL))
def test_one_state_batches_lanes_threads_and_machines(name: str, kernel: str) -> None:
    robot = ROBOTS[name]()
    arrays, method, function = inputs(robot), getattr(robot, kernel), robot.function(kernel)
    wanted = results(method, arrays)
    assert all(np.all(np.isfinite(x)) for x in wanted)
    for k in (0, 11, COUNT - 1):
        alone = results(method, [x[k] for x in arrays])
        assert all_same(alone, [x[k] for x in wanted])
        # the quick call after the first one
        assert all_same(results(method, [x[k] for x in arrays]), alone)
    assert all_same(results(method, arrays, threads=2), wanted)
    for lanes in (1, 2, 4, 8):
        assert all_same(results(function.on("cpu", lanes=lanes, threads=2), arrays), wanted), lanes
    few = [x[:3] for x in arrays]
    assert all_same(results(method, few, backend="reference"), [x[:3] for x in wanted])
    assert all_same(results(function.on("reference"), few), [x[:3] for x in wanted])
    square = results(method, [x[:36].reshape(6, 6, -1) for x in arrays])
    assert all_same([x[2, 3] for x in square], [x[15] for x in wanted])


def test_a_robot_constrained_again_is_the_same() -> None:
    mechanism = m.four_bar()
    one, other = (
        cd.load(mechanism.description).close_loops(mechanism.loops, q=mechanism.pose(), independent=["crank"]) for _ in range(2)
    )
    arrays = inputs(one)
    assert all_same(results(one.forward_dynamics, arrays), results(other.forward_dynamics, arrays))
    assert one.function("forward_dynamics").tape.hash == other.function("forward_dynamics").tape.hash


def test_a_robot_loaded_from_the_cache_keeps_what_ties_it() -> None:
    """Two robots that differ only in their constraint do not share compiled functions."""
    tree = m.five_bar().robot
    geared = [tree.couple("right_thigh", "left_thigh", ratio, 3.0) for ratio in (-1.0, -1.0000000000000002, 1.0)]
    y = np.array([2.0, 0.5, 0.25])
    found = [robot.inverse_dynamics(y, np.ones(3), np.ones(3)) for robot in geared]
    assert not same_bits(found[0], found[1]) and not same_bits(found[0], found[2])
    rolls = [cd.load("wheeled_pendulum").roll("axle", r) for r in (0.04, 0.0625)]
    heights = [robot.lift([0.0, 0.5], [1.0, 1.0])[0][1] for robot in rolls]
    assert abs(heights[1] - heights[0] - 0.0225) < 1e-15


def digest() -> str:
    """A hash of tapes and results, for another process to print."""
    found = hashlib.sha256()
    for robot in (closed(m.four_bar), closed(m.squeezer), wheeled()):
        y, w = robot.neutral() + 0.25, np.linspace(-1, 1, robot.nv + 2)[1:-1] + 0.5
        derivatives = robot.forward_dynamics_derivatives(y, w, w)
        for x in (robot.forward_dynamics(y, w, w), *derivatives, *robot.lift(y, w)):
            found.update(x.tobytes())
        found.update(robot.function("forward_dynamics").tape.hash.encode())
    return found.hexdigest()


@pytest.mark.slow
def test_another_process_gives_the_same_bits() -> None:
    tests = str(Path(__file__).parents[1])
    code = f"import runpy, sys; sys.path.insert(0, {tests!r}); print(runpy.run_path({__file__!r})['digest']())"
    environment = {**os.environ, "PYTHONHASHSEED": "1234", "CONDYLE_CACHE": "off"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120)
    assert done.stdout.strip() == digest(), done.stderr
