"""Closed mechanisms against formulas by hand, the published squeezer, and the open tree with multipliers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from constraints import mechanisms as m
from constraints import references as ref
from constraints.systems import closed, map_of, near
from markers import slow_except

import condyle as cd

SAME = 1e-12  # one formula against another, relative to the largest entry
SOLVED = 1e-10  # against a solution of the equations with multipliers
CHAIN = 1e-10  # a chain of 40 loops against one pendulum

pytest.importorskip("pinocchio")

TURN = np.linspace(-np.pi, np.pi, 41)
MANY = np.array([100.0, -100.0, 1000.25, -37.5])
ONE_COORDINATE = [
    (m.four_bar, ref.four_bar_curve, ref.four_bar_equation),
    (m.slider_crank, ref.slider_crank_curve, ref.slider_crank_equation),
]
# an angle of t has an error of t eps / 2 before anything is computed with it, and twice that where two angles are subtracted
EPS = np.finfo(float).eps


def apart(q: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Differences of coordinates, of angles within half a turn."""
    d = q - wanted
    return np.where(np.abs(d) > 3.0, d - 2.0 * np.pi * np.round(d / (2.0 * np.pi)), d)


# -- one coordinate


@pytest.mark.parametrize("make, curve, equation", ONE_COORDINATE)
def test_a_whole_turn_and_many_turns_by_formulas(make: Callable[[], m.Mechanism], curve: Any, equation: Any) -> None:
    robot, rng = closed(make), np.random.default_rng(0)
    assert robot.nq == robot.nv == 1 and robot.joint_names == ["crank"]
    for t in (*TURN, *MANY):
        rounding = 4.0 * EPS * abs(t)
        y, w, a = np.array([t]), rng.uniform(-3, 3, 1), rng.uniform(-3, 3, 1)
        place, law = curve(float(t)), equation(float(t))
        q, v = robot.lift(y, w)
        assert np.abs(apart(q, place.value)).max() < SAME + rounding
        assert near(v, place.first * w, SAME + rounding)
        scale = law.inertia * abs(a[0]) + abs(law.derivative) * w[0] ** 2 + abs(law.pull)
        assert near(robot.inverse_dynamics(y, w, a), [law.torque(w[0], a[0])], SAME + rounding, scale)
        assert near(robot.forward_dynamics(y, w, a), [law.acceleration(w[0], a[0])], SAME + rounding, scale / law.inertia)
        assert near(robot.mass_matrix(y), [[law.inertia]], SAME + rounding)
        assert near(robot.gravity_forces(y), [law.pull], SAME + rounding, scale)
        total = robot.kinetic_energy(y, w) + robot.potential_energy(y)
        assert near(total, law.energy(w[0]), SAME + rounding, abs(law.potential) + law.inertia * w[0] ** 2 + 1.0)


@pytest.mark.parametrize("make, curve, equation", ONE_COORDINATE)
def test_where_a_mechanism_was_does_not_matter(make: Callable[[], m.Mechanism], curve: Any, equation: Any) -> None:
    """A pose has one answer, and the dependent angles turn with the crank: no jump after a turn, in any order of calls."""
    robot = closed(make)
    y = np.linspace(-20.0, 20.0, 801)[:, None]
    q, _ = robot.lift(y, np.zeros_like(y))
    backwards, _ = robot.lift(y[::-1], np.zeros_like(y))
    assert np.array_equal(q, backwards[::-1])
    assert np.abs(np.diff(q, axis=0)).max() < 0.2, "no jump"
    for k in (0, 123, 800):
        assert np.array_equal(robot.lift(y[k], np.zeros(1))[0], q[k])


@pytest.mark.parametrize("make", slow_except([make for make in m.ALL if make is not m.ball_loop], m.ALL))
def test_the_loops_are_closed_and_the_pose_is_the_usual_one(make: Callable[[], m.Mechanism]) -> None:
    mechanism, robot = make(), closed(make)
    rng = np.random.default_rng(1)
    for _ in range(10):
        y = np.array(mechanism.start) + rng.uniform(-0.5, 0.5, robot.nq)
        q, _ = robot.lift(y, np.zeros(robot.nv))
        assert mechanism.gap(q) < 1e-14
        assert np.abs(apart(q, mechanism.pose(y))).max() < SAME


@pytest.mark.parametrize("make", slow_except([make for make in m.ALL if make is not m.ball_loop], m.ALL))
def test_acceleration_and_forces_with_multipliers(make: Callable[[], m.Mechanism]) -> None:
    """M a + c = tau + A^T multipliers, by Pinocchio: a, and the forces of the loops along all joints."""
    mechanism, robot = make(), closed(make)
    tree, rng = mechanism.robot, np.random.default_rng(2)
    free = [tree.v_slice(name).start for name in mechanism.independent]
    for _ in range(8):
        y, w = np.array(mechanism.start) + rng.uniform(-0.4, 0.4, robot.nq), rng.uniform(-2, 2, robot.nv)
        tau = rng.uniform(-1, 1, tree.nv) * np.abs(tree.mass_matrix(tree.neutral())).max()
        q, v = robot.lift(y, w)
        A, fast = ref.closure(tree, q, v, mechanism.loops)
        a, multipliers = ref.with_multipliers(tree, q, v, tau, A, fast)
        assert near(map_of(robot, y), ref.tangent(A, free), SOLVED)
        assert near(robot.forward_dynamics(y, w, robot.reduce_forces(y, tau)), a[free], SOLVED)
        assert near(robot.constraint_forces(y, w, tau), A.T @ multipliers, SOLVED)
        # what the loops hold with, along their conditions, does the same
        assert len(robot.reactions(y, w, tau)) == len(A)


def test_reactions_of_a_planar_loop_are_the_force_at_its_hinge() -> None:
    """The force of the coupler on the rocker, in the axes of the world: it turns the rocker, and its opposite the others."""
    mechanism, robot = m.four_bar(), closed(m.four_bar)
    tree = mechanism.robot
    y, w, tau = np.array([1.25]), np.array([2.0]), np.array([0.5, -0.25, 1.0])
    q, _ = robot.lift(y, w)
    found = robot.reactions(y, w, tau)
    assert list(found) == ["coupler_end-rocker_end.x", "coupler_end-rocker_end.z"]
    force = np.array([found["coupler_end-rocker_end.x"], 0.0, found["coupler_end-rocker_end.z"]])
    work = force @ (tree.jacobian(q, "rocker_end") - tree.jacobian(q, "coupler_end"))[:3]
    assert near(work, robot.constraint_forces(y, w, tau), SOLVED)
    # the rocker alone turns about its hinge:  I a = tau + weight's moment + the force's moment
    a = robot.forward_dynamics(y, w, robot.reduce_forces(y, tau))
    law = ref.four_bar_curve(float(y[0]))
    inertia = m.ROCKER.moment + m.ROCKER.mass * (m.ROCKER.com[0] ** 2 + m.ROCKER.com[1] ** 2)
    arm = ref.rotated(ref.Curve(q[2], 1, 0), m.ROCKER.com).first
    moment = (
        tau[2] - m.ROCKER.mass * ref.G * arm[1] + force[[0, 2]] @ ref.rotated(ref.Curve(q[2], 1, 0), (m.ROCKER.length, 0.0)).first
    )
    assert near(inertia * (law.first[2] * a[0] + law.second[2] * w[0] ** 2), moment, SOLVED, abs(tau[2]) + 1.0)


# -- many windows


@pytest.mark.parametrize("count", slow_except([10], [10, 25]))
def test_a_chain_of_four_bars_is_one_pendulum(count: int) -> None:
    robot = closed(m.four_bars, count, through=count == 10)
    assert robot.nv == 1 and robot.model.nv == 2 * count + 1
    rng = np.random.default_rng(3)
    y = np.array([[0.0], [1.0], [-1.0], [1.5], [3.0], [-2.0]]) if count == 10 else np.array([[0.0], [1.25]])
    w, tau = rng.uniform(-2, 2, (2, *y.shape))
    a = robot.forward_dynamics(y, w, tau)
    for k in range(len(y)):
        law = ref.four_bars_equation(count, float(y[k, 0]))
        assert near(a[k], [law.acceleration(w[k, 0], tau[k, 0])], CHAIN)
    assert a.shape == y.shape


def test_the_pose_of_a_chain_is_upright_or_leaning_throughout() -> None:
    robot, mechanism = closed(m.four_bars, 10), m.four_bars(10)
    for t in (-1.4, 0.0, 0.3, 1.4):
        q, v = robot.lift([t], [1.0])
        assert near(q, mechanism.pose([t]), SAME, 1.0)
        assert near(v, mechanism.pose([1.0]), SAME)
        law = ref.four_bars_equation(10, t)
        assert near(robot.mass_matrix([t]), [[law.inertia]], SAME)
        assert near(robot.kinetic_energy([t], [1.0]) + robot.potential_energy([t]), law.energy(1.0), SAME)


# -- Andrews' squeezer


def test_the_squeezer_starts_as_published() -> None:
    robot = closed(m.squeezer)
    beta = robot.q_slice("beta")
    y, w = np.array(m.SQUEEZER_START[:1]), np.zeros(1)
    q, _ = robot.lift(y, w)
    assert near(q[m.TO_BOOK], m.SQUEEZER_START, SAME)
    tau = ref.squeezer_forces(q)
    a = robot.forward_dynamics(y, w, robot.reduce_forces(y, tau))
    # the published start is rounded where the loops are concerned: its acceleration holds to 1e-10
    assert near(a[beta], ref.ANDREWS_ACCELERATION[:1], SOLVED)
    T = map_of(robot, y)
    assert near((T @ a)[m.TO_BOOK], ref.ANDREWS_ACCELERATION, SOLVED)
    _, G, _ = ref.andrews_constraints(np.array(m.SQUEEZER_START), np.zeros(7))
    assert near(robot.constraint_forces(y, w, tau)[m.TO_BOOK], -G.T @ np.array(ref.ANDREWS_MULTIPLIERS), SOLVED)


def test_the_squeezer_on_its_way_has_the_accelerations_and_forces_of_the_book() -> None:
    robot = closed(m.squeezer)
    rng = np.random.default_rng(4)
    for beta in (0.5, 3.0, 6.0, 12.0, 15.8):
        y, w = np.array([beta]), rng.uniform(500.0, 2000.0, 1)
        q, v = robot.lift(y, w)
        tau = ref.squeezer_forces(q)
        book_a, multipliers = ref.andrews_acceleration(q[m.TO_BOOK], v[m.TO_BOOK])
        _, G, _ = ref.andrews_constraints(q[m.TO_BOOK], v[m.TO_BOOK])
        assert near(robot.forward_dynamics(y, w, robot.reduce_forces(y, tau)), book_a[:1], SOLVED, np.abs(book_a).max())
        assert near(robot.constraint_forces(y, w, tau)[m.TO_BOOK], -G.T @ multipliers, SOLVED)


def test_the_squeezer_ends_as_published() -> None:
    robot = closed(m.squeezer)
    q, _ = robot.lift(np.array(ref.ANDREWS_END[:1]), np.zeros(1))
    # published with 16 digits; theta has turned twice the other way
    assert near(q[m.TO_BOOK], ref.ANDREWS_END, 1e-13)


# -- in space


@pytest.mark.slow
def test_two_cuts_of_the_spatial_loop_agree() -> None:
    one, other = closed(m.spatial_loop), closed(m.ball_loop)
    rng = np.random.default_rng(5)
    for t in np.linspace(-1.5, 2.5, 9):
        y, w, a = np.array([t]), rng.uniform(-2, 2, 1), rng.uniform(-2, 2, 1)
        assert near(one.mass_matrix(y), other.mass_matrix(y), SAME)
        assert near(one.inverse_dynamics(y, w, a), other.inverse_dynamics(y, w, a), 10 * SAME, 10.0)
        assert near(one.forward_dynamics(y, w, a), other.forward_dynamics(y, w, a), SOLVED)
        assert near(one.potential_energy(y), other.potential_energy(y), SAME, 1.0)
        assert near(one.center_of_mass(y), other.center_of_mass(y), SAME, 1.0)


def test_the_spatial_loop_turns_right_round() -> None:
    robot, mechanism = closed(m.spatial_loop), m.spatial_loop()
    q, _ = robot.lift(TURN[:, None], np.zeros((len(TURN), 1)))
    for t, place in zip(TURN, q, strict=True):
        assert np.abs(apart(place, mechanism.pose([t]))).max() < SAME and mechanism.gap(place) < 1e-14


def test_loops_may_be_closed_one_after_the_other() -> None:
    mechanism, at_once = m.squeezer(), closed(m.squeezer)
    robot = mechanism.robot
    for loop in mechanism.loops:
        robot = robot.close_loop(*loop, q=mechanism.pose() if robot.coordinate_map.identity else None)
    assert robot.nv == 1
    (name,) = robot.joint_names
    y, w = at_once.lift([0.25], [3.0])
    mine, fast = y[mechanism.robot.q_slice(name)], w[mechanism.robot.v_slice(name)]
    q, v = robot.lift(mine, fast)
    assert near(q, y, SAME) and near(v, w, SOLVED)


def test_the_other_way_to_assemble_is_kept() -> None:
    """Closed from a pose on the other branch, the rocker stays below, all round."""
    mechanism = m.four_bar()
    crank = mechanism.pose()[0]
    # mirrored in the line from the knee to the rocker's foot
    knee, foot = m.CRANK.length * m.direction(crank), np.array(m.GROUND)
    low = m.meet(knee, m.COUPLER.length, foot, m.ROCKER.length, -1.0)
    start = [crank, m.angle_of(low - knee) - crank, m.angle_of(low - foot)]
    robot = mechanism.robot.close_loops(mechanism.loops, q=start, independent=["crank"])
    for t in TURN:
        q, _ = robot.lift([t], [0.0])
        knee = m.CRANK.length * m.direction(t)
        low = m.meet(knee, m.COUPLER.length, foot, m.ROCKER.length, -1.0)
        assert np.abs(apart(q, np.array([t, m.angle_of(low - knee) - t, m.angle_of(low - foot)]))).max() < SAME


def test_any_joint_of_the_loop_may_be_the_independent_one() -> None:
    mechanism, by_crank = m.four_bar(), closed(m.four_bar)
    by_rocker = mechanism.robot.close_loops(mechanism.loops, q=mechanism.pose(), independent=["rocker"])
    q, v = by_crank.lift([0.75], [1.5])
    mine, speed = by_rocker.lift(q[2:], v[2:])
    assert near(mine, q, SAME) and near(v, speed, SAME)
    tau = np.array([1.0, 0.5, -0.25])
    forces = [r.constraint_forces(y, w, tau) for r, y, w in ((by_crank, [0.75], [1.5]), (by_rocker, q[2:], v[2:]))]
    assert near(*forces, SOLVED)


def test_more_digits() -> None:
    """At 256 bits the loop is closed to 76 digits, and dynamics are those of the formulas at 256 bits."""
    import gmpy2

    robot = closed(m.four_bar)
    with gmpy2.context(precision=256):
        t, w, tau = gmpy2.mpfr("0.7"), gmpy2.mpfr(2), gmpy2.mpfr("0.3")
        law = ref.four_bar_equation(t)
        a = robot.forward_dynamics(*[np.array([x], dtype=object) for x in (t, w, tau)], backend="mpfr:256")
        assert abs(a[0] - law.acceleration(w, tau)) < 1e-70 * abs(a[0])


def test_names_and_what_follows() -> None:
    robot = closed(m.five_bar)
    assert robot.joint_names == robot.velocity_names == ["left_thigh", "right_thigh"]
    assert near(robot.neutral(), m.five_bar().start, SAME)
    assert robot.explain(robot.neutral()) is None
    assert isinstance(robot, cd.Robot) and "nv 2 of 4" in repr(robot)
