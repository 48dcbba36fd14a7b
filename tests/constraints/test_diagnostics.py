"""What does not close, is singular or does not fit: sentences with residual and rank, and a mask that spares neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from constraints import mechanisms as m
from constraints.systems import closed, two_wheeled, wheel_gamma, wheel_map, wheel_place, wheeled
from tape.random_tapes import same_bits

import condyle as cd

NUMBER = r"[0-9.]+(e-?[0-9]+)?"


def leg_by_one_side() -> cd.Robot:
    """Both joints of the left leg are free, the right leg follows: the left foot can be out of its reach."""
    leg = m.five_bar()
    return leg.robot.close_loops(leg.loops, q=leg.pose(), independent=["left_thigh", "left_shin"])


def slider_driven() -> cd.Robot:
    mechanism = m.slider_crank()
    return mechanism.robot.close_loops(mechanism.loops, q=mechanism.pose(), independent=["slide"])


def top() -> float:
    """How high the slider is when crank and rod are in line: at a dead centre."""
    return float(np.sqrt((m.ARM.length + m.ROD.length) ** 2 - m.OFFSET**2))


# -- out of reach


@pytest.mark.slow
def test_out_of_reach_names_residual_and_rank() -> None:
    robot = leg_by_one_side()
    straight = np.array([np.pi, 0.0])  # the left foot is 1 m from the right hip, whose leg is 0.75 m long
    words = (
        rf"left_thigh = 3.14159; left_shin = 0 the loops do not close: {NUMBER} is left of '[^']+' \(m or rad\), and the rank is"
    )
    with pytest.raises(cd.RobotError, match=words):
        robot.forward_dynamics(straight, np.zeros(2), np.zeros(2))
    assert "do not close" in robot.explain(straight)
    assert robot.explain(robot.neutral()) is None
    for call in (robot.lift, robot.bias_forces, robot.kinetic_energy, robot.coriolis_matrix):
        with pytest.raises(cd.RobotError, match="do not close"):
            call(straight, np.zeros(2))
    for call in (robot.mass_matrix, robot.gravity_forces, robot.potential_energy, robot.center_of_mass):
        with pytest.raises(cd.RobotError, match="do not close"):
            call(straight)
    with pytest.raises(cd.RobotError, match="do not close"):
        robot.frame_pose(straight, "right_foot")
    with pytest.raises(cd.RobotError, match="do not close"):
        robot.jacobian(straight, "right_foot")


def test_a_mask_flags_only_the_rows_that_do_not_close() -> None:
    robot = leg_by_one_side()
    rng = np.random.default_rng(0)
    y = robot.neutral() + rng.uniform(-0.2, 0.2, (9, 2))
    w, tau = rng.uniform(-1, 1, (2, 9, 2))
    wanted = robot.forward_dynamics(y, w, tau)
    jacobians = robot.forward_dynamics_derivatives(y, w, tau)
    bad = [2, 3, 7]
    y[bad] = [np.pi, 0.0]
    good = np.array([k not in bad for k in range(9)])
    a, ok = robot.forward_dynamics(y, w, tau, mask=True)
    assert np.array_equal(ok, good) and same_bits(a[good], wanted[good]) and np.all(np.isnan(a[~good]))
    *d, ok = robot.forward_dynamics_derivatives(y, w, tau, mask=True)
    assert all(same_bits(mine[good], before[good]) for mine, before in zip(d, jacobians, strict=True))
    assert np.array_equal(ok, good)
    with pytest.raises(cd.RobotError, match=r"left_thigh = 3\.14159"):
        robot.forward_dynamics(y, w, tau)
    one, ok = robot.forward_dynamics(y[2], w[2], tau[2], mask=True)
    assert not ok and np.all(np.isnan(one))


# -- singular poses


def test_a_chain_with_all_rods_in_line_is_singular() -> None:
    robot = closed(m.four_bars, 3)
    flat = np.array([np.pi / 2])
    with pytest.raises(cd.RobotError, match=r"rod_0 = 1.5708 the pose is singular: .* that have the rank \d+ there"):
        robot.forward_dynamics(flat, np.ones(1), np.zeros(1))
    y = np.array([[0.5], [np.pi / 2], [1.5], [-np.pi / 2]])
    a, ok = robot.forward_dynamics(y, np.ones((4, 1)), np.zeros((4, 1)), mask=True)
    assert ok.tolist() == [True, False, True, False] and np.all(np.isfinite(a[ok]))
    assert same_bits(a[ok], robot.forward_dynamics(y[ok], np.ones((2, 1)), np.zeros((2, 1))))


def test_a_slider_at_its_dead_centre() -> None:
    robot = slider_driven()
    y = np.array([[top() - 2.0**-4], [top()], [top() + 2.0**-6]])
    _, ok = robot.forward_dynamics(y, np.ones((3, 1)), np.zeros((3, 1)), mask=True)
    assert ok.tolist() == [True, False, False]
    with pytest.raises(cd.RobotError, match=r"singular|do not close"):
        robot.lift(y[1], np.zeros(1))
    with pytest.raises(cd.RobotError, match=rf"do not close: {NUMBER} is left"):
        robot.lift(y[2], np.zeros(1))
    # nearer and nearer, it is right as long as it answers
    for k in range(5, 16):
        near_top = np.array([top() - 2.0**-k])
        q, _, ok = robot.lift(near_top, np.zeros(1), mask=True)
        assert not ok or m.slider_crank().gap(q) < 1e-13


def test_the_crank_drives_the_slider_through_its_dead_centre() -> None:
    robot = closed(m.slider_crank)
    crank = -np.arccos(m.OFFSET / (m.ARM.length + m.ROD.length))
    q, v = robot.lift([crank], [1.0])
    assert abs(q[2] - top()) < 1e-14 and abs(v[2]) < 1e-14


# -- poses and loops that cannot be


@pytest.mark.parametrize(
    "make, words",
    [
        # lengths that cannot meet, whatever the pose
        (
            lambda: m.four_bar().robot.close_loop("coupler", "rocker", "xyz rx ry rz", q=[0.5, 0.0, 0.0]),
            rf"cannot be closed from this pose: {NUMBER} is left of '[^']+' .*, where the 6 conditions have the rank \d",
        ),
        # more conditions than joints
        (
            lambda: m.four_bar().robot.close_loops(
                [("coupler_end", "rocker_end", "xz"), ("coupler", "rocker", "xz")], q=m.four_bar().pose()
            ),
            r"cannot be closed|leave nothing that can move",
        ),
        # in line from the start
        (
            lambda: m.four_bars(1).robot.close_loops(m.four_bars(1).loops, q=m.four_bars(1).pose([np.pi / 2])),
            r"singular: the conditions have the rank \d there, and \d near it",
        ),
        # the joints named cannot carry it
        (
            lambda: m.five_bar().robot.close_loops(
                m.five_bar().loops, q=m.five_bar().pose(), independent=m.five_bar().robot.joint_names[:3]
            ),
            r"2 independent conditions, and the joints that may follow can meet only \d of them",
        ),
        (
            lambda: m.five_bar().robot.close_loops(m.five_bar().loops, q=m.five_bar().pose(), independent=["left_thigh"]),
            r"1 more of the joints in them remain free: add",
        ),
        (lambda: m.four_bar().robot.close_loops([]), "name the loops to close"),
        (lambda: m.four_bar().robot.close_loop("coupler_end", "rocker_tip", "xz"), "no frame 'rocker_tip'"),
        (lambda: m.four_bar().robot.close_loop("coupler_end", "rocker_end", "xw"), "some of x, y, z, rx, ry, rz"),
        (lambda: m.four_bar().robot.close_loop("coupler_end", "rocker_end", "xx"), "axes of a loop are some of"),
        (lambda: m.four_bar().robot.close_loop("coupler_end", "coupler", "xz"), "fixed to each other"),
        (lambda: m.four_bar().robot.close_loop("coupler_end", "rocker_end", "xz", q=[0.0]), "must be 3 finite numbers"),
        (lambda: m.four_bar().robot.close_loop("coupler_end", "rocker_end", "xz", q=[0.0, np.nan, 0.0]), "3 finite numbers"),
        (lambda: m.four_bar().robot.close_loop("coupler_end", "rocker_end", "xz", independent=["cranck"]), "no joint 'cranck'"),
        (lambda: m.four_bar().robot.close_loop("coupler_end", "rocker_end", "xz", dependent=["cranck"]), "no joint 'cranck'"),
    ],
)  # fmt: skip
def test_loops_that_cannot_be_are_refused(make: Callable[[], cd.Robot], words: str) -> None:
    with pytest.raises(cd.RobotError, match=words):
        make()


def test_conditions_said_twice_count_once() -> None:
    """A planar loop closed in all three directions has one condition that always holds, and moves as before."""
    mechanism, planar = m.four_bar(), closed(m.four_bar)
    robot = mechanism.robot.close_loop("coupler_end", "rocker_end", "xyz", q=mechanism.pose(), independent=["crank"])
    assert robot.nv == 1 and len(robot.reactions([0.5], [1.0])) == 2
    assert np.allclose(robot.forward_dynamics([0.5], [1.0], [0.1]), planar.forward_dynamics([0.5], [1.0], [0.1]), rtol=1e-13)


# -- couplings, embeddings, wheels


def tree() -> cd.Robot:
    return m.five_bar().robot


def pendulum() -> cd.Robot:
    return cd.load("wheeled_pendulum")


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: tree().couple("left_thig", "right_thigh"), "no joint 'left_thig'"),
        (lambda: tree().couple("left_thigh", "right_thig"), "no joint 'right_thig'"),
        (lambda: tree().couple("left_thigh", "left_thigh"), "follow itself"),
        (lambda: tree().couple({"left_thigh": "right_thigh", "right_thigh": "left_shin"}), "which follows others itself"),
        (lambda: tree().couple("left_thigh", "right_thigh", np.nan), "ratio nan"),
        (lambda: tree().couple("left_thigh", "right_thigh", 1.0, np.inf), "offset inf"),
        (lambda: tree().couple({"left_thigh": {}}), "names no joint to follow"),
        (lambda: tree().couple({"left_thigh": 3.0}), "must name what it follows"),
        (lambda: cd.load("ur3", base="free").couple("root_joint", "root_joint"), "it has 6 coordinates"),
        (lambda: pendulum().embed(wheel_gamma), "how many coordinates remain"),
        (lambda: pendulum().embed(3.0, names=["x"]), "gamma must be a function"),
        (lambda: pendulum().embed(lambda y: y, names=["x", "phi"]), "must give 4 numbers"),
        (lambda: pendulum().embed(wheel_gamma, names=["x", "phi"], start=[0.0]), "start must be one finite number"),
        (lambda: pendulum().embed(lambda y: wheel_gamma(y[:2]), names=["x", "phi", "psi"]), "its derivative has the rank 2"),
        (lambda: pendulum().embed(wheel_place, lambda y: wheel_map(y)[:3], names=["x", "phi", "theta"]), "matrix of 4 rows"),
        (lambda: pendulum().embed(wheel_place, lambda y: wheel_map(y)[::-1], names=["x", "phi", "theta"]), "leads off gamma"),
        (lambda: pendulum().embed(lambda y: wheel_gamma(y) / y[0], names=["x", "phi"]), "not finite at y"),
        (lambda: pendulum().roll("axel", 0.04), "no joint 'axel'"),
        (lambda: pendulum().roll("root_x", 0.04), "does not turn about an axis"),
        (lambda: pendulum().roll("axle", -0.04), "must be a positive number"),
        (lambda: pendulum().roll("axle", np.nan), "must be a positive number"),
        (lambda: pendulum().roll([], 0.04), "name the hinges"),
        (lambda: pendulum().roll("axle", 0.04, ground=3.0), "ground under a wheel is a function"),
        (lambda: two_wheeled().roll("left_wheel", 0.04), "rolls already"),
        (lambda: two_wheeled().couple("left_wheel", "right_wheel"), "rolls already"),
        (lambda: cd.load("two_wheeled").roll(["left_wheel", "right_wheel"], 0.04, ground=lambda x: x), "flat ground only"),
        (lambda: cd.load("two_wheeled").roll(["left_wheel"], 0.04, independent=["nosuch"]), "no velocity 'nosuch'"),
        (lambda: cd.load("ur3").roll("wrist_3_joint", 0.04), "planar"),
        (lambda: wheeled().lock("axle"), "is constrained"),
        (lambda: pendulum().constrain(3.0), "must be a function of"),
        (lambda: pendulum().point_on("nosuch", lambda p: p[2]), "no frame 'nosuch'"),
        (lambda: pendulum().point_on("top", 3.0), "must be a function of a position"),
        (lambda: pendulum().point_on("top", lambda p: 0.0 * p[2] + 1.0), "cannot be closed"),
        (lambda: pendulum().point_on("top", lambda p: 0.0 * p[2]), "no joint moves the conditions"),
        (lambda: pendulum().constraint_forces(np.zeros(4), np.zeros(4)), "is not constrained"),
        (lambda: pendulum().reactions(np.zeros(4), np.zeros(4)), "is not constrained"),
    ],
)  # fmt: skip
def test_constraints_that_do_not_fit_are_a_sentence(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(cd.RobotError, match=words):
        make()


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (lambda r: r.forward_dynamics(np.zeros(3), np.zeros(1), np.zeros(1)), cd.ShapeError, r"shape \(3,\), expected \(1,\)"),
        (lambda r: r.forward_dynamics(np.zeros(1), np.zeros(3), np.zeros(1)), cd.ShapeError, r"shape \(3,\), expected \(1,\)"),
        (lambda r: r.forward_dynamics(np.zeros(1), np.zeros(1), np.zeros(3)), cd.ShapeError, r"shape \(3,\), expected \(1,\)"),
        (lambda r: r.lift(np.zeros(2), np.zeros(1)), cd.ShapeError, r"shape \(2,\), expected \(1,\)"),
        (lambda r: r.constraint_forces(np.zeros(1), np.zeros(1), np.zeros(1)), cd.RobotError, "tau must have 3 entries"),
        (lambda r: r.reactions(np.zeros(1), np.zeros(1), np.zeros(1)), cd.CondyleError, "3"),
        (lambda r: r.reduce_forces(np.zeros(1), np.zeros(1)), cd.CondyleError, "3"),
        (lambda r: r.forward_dynamics([np.nan], [0.0], [0.0]), cd.RobotError, r"q\[0\] is nan"),
        (lambda r: r.forward_dynamics([0.5], [np.inf], [0.0]), cd.RobotError, r"v\[0\] is inf"),
        (lambda r: r.forward_dynamics([0.5], [0.0], [np.nan]), cd.RobotError, r"tau\[0\] is nan"),
        (lambda r: r.jacobian([0.5], "nosuch"), cd.RobotError, "no frame 'nosuch'"),
        (lambda r: r.function("forward_dynamic"), cd.RobotError, "did you mean 'forward_dynamics'"),
        (lambda r: r.q_slice("coupler"), cd.RobotError, "'coupler'"),
    ],
)
def test_arguments_that_do_not_fit_are_a_sentence(call: Callable[[cd.Robot], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call(closed(m.four_bar))


def test_not_a_number_spoils_only_its_own_row() -> None:
    robot = closed(m.squeezer)
    y, w, tau = np.linspace(-0.5, 0.5, 5)[:, None], np.ones((5, 1)), np.zeros((5, 1))
    wanted = robot.forward_dynamics(y, w, tau)
    y[1], w[3] = np.nan, np.inf
    a, ok = robot.forward_dynamics(y, w, tau, mask=True)
    assert ok.tolist() == [True, False, True, False, True] and same_bits(a[ok], wanted[ok])
    assert same_bits(a[2], robot.forward_dynamics(y[2], w[2], tau[2]))


def test_explain_says_nothing_where_nothing_is_wrong() -> None:
    assert wheeled().explain(np.zeros(2)) is None and two_wheeled().explain(two_wheeled().neutral()) is None
    y = np.linspace(-3.0, 3.0, 7)[:, None]
    assert closed(m.four_bar).explain(y) is None
    assert cd.load("ur3").explain(np.zeros(6)) is None
