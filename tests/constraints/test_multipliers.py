"""Constrained random robots against the full robots with multipliers, whose M, c and Jacobians are Pinocchio's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from constraints import references as ref
from constraints.systems import (
    ANCHOR,
    SURFACES,
    System,
    anchored,
    coupled,
    coupling_rows,
    map_of,
    near,
    parallel_leg,
    touching,
    waved,
)
from dynamics.random_robots import TOOL
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.peers

pytest.importorskip("pinocchio")

# one side solves with M and the other with M and A, whose condition numbers are below 1e4 on these robots
SOLVED = 1e-10
SAME_FORMULA = 1e-12
BASES = ("fixed", "free", "planar")


def each_robot(count: int) -> Any:
    """The test on robots that hypothesis draws, by seed and base; the same ones every time. A seed has no simpler one."""

    def decorated(test: Any) -> Any:
        drawn = given(seed=st.integers(0, 2**32 - 1), base=st.sampled_from(BASES))(test)
        return settings(max_examples=count, derandomize=True, phases=[Phase.generate])(drawn)

    return decorated


def check(system: System, seed: int, rows: Any, tolerance: float = SOLVED) -> None:
    """Accelerations, forces and the map of velocities, against (A, Adot v) = rows(q, v) and multipliers.

    With rows of full rank the motion is T w with A T = 0: the reduced accelerations and those with multipliers are the same
    motion, if its part along T is.
    """
    robot, free = system.robot, system.free
    (y, w, _), tau = system.state(seed), system.tau(seed)
    q, v = robot.lift(y, w)
    A, fast = rows(q, v)
    assert len(A) == free.nv - robot.nv
    T = map_of(robot, y)
    assert near(A @ T, np.zeros((len(A), robot.nv)), SAME_FORMULA, 10.0 * np.abs(A).max() * np.abs(T).max())
    a, multipliers = ref.with_multipliers(free, q, v, tau, A, fast)
    mine = robot.forward_dynamics(y, w, robot.reduce_forces(y, tau))
    # a = T dw/dt + Tdot w, where the velocities that remain are among the full ones, or in their space
    M = free.mass_matrix(q)
    drift = robot.inverse_dynamics(y, w, np.zeros(robot.nv)) - T.T @ free.bias_forces(q, v)
    reduced = np.linalg.solve(T.T @ M @ T, T.T @ M @ a - drift)
    assert near(mine, reduced, tolerance, np.abs(a).max())
    constraint = A.T @ multipliers
    assert near(robot.constraint_forces(y, w, tau), constraint, tolerance, np.abs(constraint).max() + np.abs(tau).max())
    # forces of the constraint are right only if the acceleration of every coordinate is
    assert near(T.T @ constraint, np.zeros(robot.nv), tolerance, np.abs(T).max() * np.abs(constraint).max())


@each_robot(6)
def test_random_couplings(seed: int, base: str) -> None:
    system, couplings = coupled(seed, base)
    A = coupling_rows(system.free, couplings)
    check(system, seed % 100, lambda q, v: (A, np.zeros(len(A))))
    # and the coordinates follow
    y, w, _ = system.state(seed % 100)
    q, _ = system.robot.lift(y, w)
    at = {name: q[system.free.q_slice(name)][0] for name in system.free.joint_names}
    for name, (ratios, offset) in couplings.items():
        assert near(at[name], offset + sum(r * at[o] for o, r in ratios.items()), SAME_FORMULA, 10.0)


@each_robot(6)
def test_random_curved_surfaces(seed: int, base: str) -> None:
    """q = gamma(y) with T and Tdot w by hand; A is what is orthogonal to T, and A T = 0 gives Adot v = -A Tdot w."""
    system, wave = waved(seed, base)
    y, w, _ = system.state(seed % 100)
    T, drift = wave.motion(y, w)
    assert near(map_of(system.robot, y), T, SAME_FORMULA)
    A = np.linalg.svd(T.T)[2][system.robot.nv :]
    check(system, seed % 100, lambda q, v: (A, -A @ drift))
    # accelerations themselves, not only their part along T
    q, v = system.robot.lift(y, w)
    tau = system.tau(seed % 100)
    a, _ = ref.with_multipliers(system.free, q, v, tau, A, -A @ drift)
    mine = T @ system.robot.forward_dynamics(y, w, T.T @ tau) + drift
    assert near(mine, a, SOLVED)


@pytest.mark.parametrize("seed, base", [(2, "fixed"), (4, "planar"), (5, "free")])
def test_random_loops_after_couplings(seed: int, base: str) -> None:
    system, couplings = anchored(seed, base)
    ties = coupling_rows(system.free, couplings)

    def rows(q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        A, fast = ref.closure(system.free, q, v, [(ANCHOR, TOOL, "xyz")])
        return np.vstack([A, ties]), np.concatenate([fast, np.zeros(len(ties))])

    check(system, seed, rows)


def test_a_geared_leg_of_five_bars() -> None:
    system = parallel_leg()
    ties = coupling_rows(system.free, {"right_thigh": ({"left_thigh": -1.0}, 3.0)})

    def rows(q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        A, fast = ref.closure(system.free, q, v, [("left_foot", "right_foot", "xz")])
        return np.vstack([A, ties]), np.concatenate([fast, np.zeros(1)])

    for seed in range(5):
        check(system, seed, rows)
    # the couple in the gear, and the force in the foot, together are all that holds
    y, w, _ = system.state(0)
    found = system.robot.reactions(y, w, system.tau(0))
    assert list(found) == ["right_thigh", "left_foot-right_foot.x", "left_foot-right_foot.z"]


@pytest.mark.parametrize(
    "seed, base, surface",
    [(8, "fixed", "sphere"), (8, "fixed", "waves"), (3, "planar", "waves"), (3, "free", "sphere")],
)
def test_a_tool_on_a_surface(seed: int, base: str, surface: str) -> None:
    """phi' = n . v,  phi'' = n . a + v . H v, for the tool's position, with slopes n and second derivatives H by hand."""
    system = touching(seed, base, surface)

    def rows(q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        tool = ref.moving(system.free, q, v, TOOL)
        n, H = SURFACES[surface][1](tool.p)
        speed = tool.velocity[:3]
        return (n @ tool.J[:3])[None], np.array([n @ tool.Jdot_v[:3] + speed @ H @ speed])

    check(system, seed, rows)
    # it stays at its level
    law = SURFACES[surface][0]
    levels = [law(system.robot.frame_pose(system.state(k)[0], TOOL)[1]) for k in range(3)]
    assert np.ptp(levels) < 1e-13 * max(1.0, abs(levels[0]))
