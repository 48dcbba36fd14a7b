"""Derivatives of inverse and forward dynamics: against Pinocchio, and against finite differences at 512 bits."""

from dataclasses import replace

import numpy as np
import pytest
from dynamics.random_robots import KINDS, pinocchio_model, random_description, random_model, random_state
from dynamics.test_against_pinocchio import load

import condyle as cd
from condyle.dynamics import chain_derivatives, manifold
from condyle.dynamics.aba import forward_dynamics
from condyle.dynamics.derivatives import forward_dynamics_derivatives, inverse_dynamics_derivatives
from condyle.dynamics.rnea import inverse_dynamics
from condyle.robot.build import build

pin = pytest.importorskip("pinocchio")
gmpy2 = pytest.importorskip("gmpy2")

DERIVATIVE = 1e-9  # relative to the largest entry; Pinocchio's own rounding is in it
EXACT = 1e-12  # against differences at 512 bits, relative to the largest entry, times the condition of M where it is inverted
BITS, STEP = 512, 2.0**-160

CASES = [
    ("panda_description/urdf/panda.urdf", "fixed"),
    ("ur_description/urdf/ur5_robot.urdf", "free"),
    ("anymal_b_simple_description/robots/anymal.urdf", "free"),
    ("hyq_description/robots/hyq_no_sensors.urdf", "fixed"),
    ("solo_description/robots/solo12.urdf", "free"),
]


def error(ours, theirs):
    return np.abs(ours - theirs).max() / max(np.abs(theirs).max(), 1.0)


def both_sides(model, twin, seed):
    data = twin.createData()
    q, v, a = random_state(model, np.random.default_rng(seed))
    tau = 3.0 * a
    ours = {"q": model.nq, "v": model.nv}
    inverse = cd.function(lambda q, v, a: inverse_dynamics_derivatives(model, q, v, a), **ours, a=model.nv)(q, v, a)
    forward = cd.function(lambda q, v, tau: forward_dynamics_derivatives(model, q, v, tau), **ours, tau=model.nv)(q, v, tau)
    pin.computeRNEADerivatives(twin, data, q, v, a)
    full = np.triu(data.M) + np.triu(data.M, 1).T
    for mine, theirs in zip(inverse, (data.dtau_dq, data.dtau_dv, full), strict=True):
        assert error(mine, theirs) < DERIVATIVE
    pin.computeABADerivatives(twin, data, q, v, tau)
    full = np.triu(data.Minv) + np.triu(data.Minv, 1).T
    for mine, theirs in zip(forward, (data.ddq_dq, data.ddq_dv, full), strict=True):
        assert error(mine, theirs) < DERIVATIVE


@pytest.mark.peers
@pytest.mark.parametrize("file, base", CASES)
def test_published_robots_agree_with_pinocchio(file, base):
    both_sides(*load(file, base), seed=3)


@pytest.mark.peers
@pytest.mark.parametrize("seed", range(6))
def test_random_trees_agree_with_pinocchio(seed):
    model = random_model(np.random.default_rng(seed), joints=5)
    both_sides(model, pinocchio_model(model), seed)


def random_chain(seed, joints, kinds=KINDS):
    """The random robot with each link on the one before."""
    made = random_description(np.random.default_rng(seed), joints, kinds)
    return build(replace(made, joints=tuple([replace(j, parent=f"link{k}") for k, j in enumerate(made.joints)])))


@pytest.mark.parametrize("seed", range(4))
def test_the_recursion_along_a_chain_agrees_with_solves(seed):
    """Every kind of joint, in floats: the same three matrices."""
    model = random_chain(seed, 9)
    q, v, tau = random_state(model, np.random.default_rng(seed))
    solved = forward_dynamics_derivatives(model, q, v, tau)
    recursive = chain_derivatives.forward_dynamics_derivatives(model, q, v, tau)
    for a, b in zip(recursive, solved, strict=True):
        assert error(np.array(a, dtype=float), np.array(b, dtype=float)) < 1e-11


def test_a_long_chain_takes_fewer_operations_and_agrees_with_pinocchio():
    model = random_chain(5, 18, ("revolute", "prismatic"))
    assert chain_derivatives.is_long_chain(model) and not chain_derivatives.is_long_chain(cd.load("ur3").model)
    twin = pinocchio_model(model)
    data = twin.createData()
    q, v, tau = random_state(model, np.random.default_rng(5))
    pin.computeABADerivatives(twin, data, q, v, tau)
    full = np.triu(data.Minv) + np.triu(data.Minv, 1).T
    recursive = chain_derivatives.forward_dynamics_derivatives(model, q, v, tau)
    for mine, theirs in zip(recursive, (data.ddq_dq, data.ddq_dv, full), strict=True):
        assert error(np.array(mine, dtype=float), theirs) < DERIVATIVE
    robot = cd.load("chain:20")
    solves = cd.trace(lambda q, v, tau: forward_dynamics_derivatives(robot.model, q, v, tau), q=20, v=20, tau=20)
    assert robot.function("forward_dynamics_derivatives").tape.operations < 0.5 * solves.operations


@pytest.mark.parametrize("seed", range(3))
def test_random_trees_agree_with_differences_at_512_bits(seed):
    """Along tangent directions of the manifold: f(q + e dq) - f(q - e dq), every joint kind included."""
    model = random_model(np.random.default_rng(100 + seed), joints=4)
    rng = np.random.default_rng(seed)
    q, v, a = random_state(model, rng)
    direction = rng.normal(size=model.nv)
    sizes = {"q": model.nq, "v": model.nv, "x": model.nv, "e": (), "d": model.nv}

    def along(physics):
        def moved(q, v, x, e, d):
            return {"by_q": physics(model, manifold.integrate(model, q, e * d), v, x), "by_v": physics(model, q, v + e * d, x)}

        return cd.function(moved, **sizes).on(f"mpfr:{BITS}")

    for physics, derivatives in (
        (inverse_dynamics, inverse_dynamics_derivatives),
        (forward_dynamics, forward_dynamics_derivatives),
    ):
        exact = cd.function(lambda q, v, x, f=derivatives: f(model, q, v, x), q=model.nq, v=model.nv, x=model.nv)(q, v, a)
        precise = along(physics)
        with gmpy2.context(precision=BITS):
            step = gmpy2.mpfr(STEP)
            high, low = (precise(*[np.asarray(s, object) for s in (q, v, a, sign * step, direction)]) for sign in (1, -1))
            jacobians = [((h - l) / (2 * step)).astype(float) for h, l in zip(high, low, strict=True)]
        for mine, jacobian in zip(exact, jacobians, strict=False):
            assert error(mine @ direction, jacobian) < EXACT * 100
