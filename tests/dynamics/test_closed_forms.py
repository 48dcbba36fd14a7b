"""Motions that people have solved with a pen: pendulums, spinning bodies and tops."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.dynamics import energy
from condyle.dynamics.aba import forward_dynamics
from condyle.dynamics.manifold import difference_derivatives, integrate
from condyle.dynamics.rnea import inverse_dynamics
from condyle.dynamics.rotations import quaternion_exp, quaternion_product
from condyle.robot.build import build
from condyle.robot.description import Description, JointSpec, LinkSpec
from condyle.robot.joints import rotation_of
from condyle.robot.model import Model
from condyle.robot.spatial import Inertia, Pose

# one evaluation in float64
SAME_FORMULA = 1e-12
# a motion followed by Runge-Kutta in steps so short that this is the residual
FOLLOWED = 1e-9
# the exponential is what remains for small disturbances; the first neglected term is their square
LINEARISED = 1e-5

G = 9.81
STEPS = 2000


def robot(*joints: tuple[str, tuple[float, float, float], tuple[float, float, float], Inertia], gravity: float = G) -> Model:
    """A chain of (kind, position in the parent, axis, inertia), without inertia at its foot."""
    links = [LinkSpec("foot")] + [LinkSpec(f"link{k}", body) for k, (*_, body) in enumerate(joints)]
    names = [link.name for link in links]
    specs = [
        JointSpec(f"joint{k}", kind, names[k], names[k + 1], Pose(np.eye(3), np.array(p)), np.array(axis))
        for k, (kind, p, axis, _) in enumerate(joints)
    ]
    return build(Description("chain", tuple(links), tuple(specs)), gravity=(0.0, 0.0, -gravity))


def particle(mass: float, at: tuple[float, float, float]) -> Inertia:
    return Inertia.about_com(mass, np.array(at), np.zeros((3, 3)))


def follow(model: Model) -> cd.Function:
    """(q, v, duration) -> (q, v) without joint forces: Runge-Kutta of order four on the manifold, STEPS steps inside the kernel.

    The unknown is the way u from the start of the step, q = integrate(start, u), whose rate is  d difference / d q  v.
    """

    def rate(start: Any, u: Any, v: Any) -> tuple[Any, Any]:
        q = integrate(model, start, u)
        return difference_derivatives(model, start, q)[1] @ v, forward_dynamics(model, q, v, np.zeros(model.nv))

    def step(q: Any, v: Any, h: Any) -> tuple[Any, Any]:
        u1, a1 = rate(q, np.zeros(model.nv), v)
        u2, a2 = rate(q, 0.5 * h * u1, v + 0.5 * h * a1)
        u3, a3 = rate(q, 0.5 * h * u2, v + 0.5 * h * a2)
        u4, a4 = rate(q, h * u3, v + h * a3)
        u = (h / 6.0) * (u1 + 2.0 * u2 + 2.0 * u3 + u4)
        return integrate(model, q, u), v + (h / 6.0) * (a1 + 2.0 * a2 + 2.0 * a3 + a4)

    def total(q: Any, v: Any, duration: Any) -> dict[str, Any]:
        q, v = cd.loop(lambda i, s: step(*s, duration / STEPS), (q, v), STEPS)
        return {"q": q, "v": v}

    return cd.function(total, q=model.nq, v=model.nv, duration=())


# -- pendulums


def agm(a: float, b: float) -> float:
    """The arithmetic-geometric mean."""
    while abs(a - b) > 1e-15 * a:
        a, b = (a + b) / 2, (a * b) ** 0.5
    return a


def test_pendulum_period_is_an_elliptic_integral() -> None:
    length, mass, turning = 0.7, 1.3, 0.02
    body = Inertia.about_com(mass, np.array([0.0, 0.0, -length]), np.eye(3) * turning)
    model = robot(("revolute", (0, 0, 0), (0, 1, 0), body))
    amplitudes = np.array([0.01, 0.5, 1.5, 2.5, 3.1])
    # the length of the mathematical pendulum that swings alike, and its period for each amplitude
    alike = (mass * length**2 + turning) / (mass * length)
    periods = np.array([2 * np.pi * np.sqrt(alike / G) / agm(1.0, np.cos(a / 2)) for a in amplitudes])
    swing = follow(model)
    end = swing(amplitudes[:, None], np.zeros((5, 1)), periods)
    assert np.allclose(end.q[:, 0], amplitudes, rtol=FOLLOWED, atol=0)
    assert np.allclose(end.v[:, 0], 0.0, atol=1e-7), "the speed at the end is that of the period's error"
    # a quarter of a period later it passes the bottom
    bottom = swing(amplitudes[:, None], np.zeros((5, 1)), periods / 4)
    assert np.allclose(bottom.q[:, 0], 0.0, atol=1e-8)


def test_double_pendulum_equations() -> None:
    m1, m2, l1, l2 = 1.1, 0.6, 0.8, 0.5
    model = robot(
        ("revolute", (0, 0, 0), (0, 1, 0), particle(m1, (0, 0, -l1))),
        ("revolute", (0, 0, -l1), (0, 1, 0), particle(m2, (0, 0, -l2))),
    )
    rng = np.random.default_rng(0)
    for q, v, a in rng.uniform(-3, 3, (20, 3, 2)):
        # absolute angles from the vertical, as the books write it
        A, B = q[0], q[0] + q[1]
        dA, dB, ddA, ddB = v[0], v[0] + v[1], a[0], a[0] + a[1]
        c, s = np.cos(A - B), np.sin(A - B)
        on_A = (m1 + m2) * l1**2 * ddA + m2 * l1 * l2 * (c * ddB + s * dB**2) + (m1 + m2) * G * l1 * np.sin(A)
        on_B = m2 * l2**2 * ddB + m2 * l1 * l2 * (c * ddA - s * dA**2) + m2 * G * l2 * np.sin(B)
        # a torque on the second joint acts on B and back on A
        tau = np.array([on_A + on_B, on_B])
        scale = (m1 + m2) * (l1 + l2) ** 2 * (np.abs(a).sum() + np.abs(v).sum() ** 2) + G
        assert np.abs(inverse_dynamics(model, q, v, a).astype(float) - tau).max() <= SAME_FORMULA * scale
        assert np.abs(forward_dynamics(model, q, v, tau).astype(float) - a).max() <= SAME_FORMULA * scale


@pytest.mark.parametrize("angle", [0.1, 0.8, 1.4])
def test_conical_pendulum(angle: float) -> None:
    length = 0.9
    rate = np.sqrt(G / (length * np.cos(angle)))
    # about the vertical first, then out to the side: it stays where it is
    hinges = robot(
        ("revolute", (0, 0, 0), (0, 0, 1), Inertia.zero()), ("revolute", (0, 0, 0), (0, 1, 0), particle(2.0, (0, 0, -length)))
    )
    a = forward_dynamics(hinges, np.array([0.3, angle]), np.array([rate, 0.0]), np.zeros(2)).astype(float)
    assert np.abs(a).max() <= SAME_FORMULA * rate**2


# -- bodies in free flight


BODY = np.array([0.4, 0.9, 1.1])  # three different moments
TOP = np.array([0.5, 0.5, 0.8])  # a symmetric body


@cache
def flying(moments: tuple[float, ...]) -> tuple[Model, cd.Function]:
    model = robot(("free", (0, 0, 0), (0, 0, 1), Inertia(2.0, np.zeros(3), np.diag(moments))), gravity=0.0)
    return model, follow(model)


def test_symmetric_body_precesses() -> None:
    across, along = TOP[0], TOP[2]
    model, fly = flying(tuple(TOP))
    q0, w0 = np.array([0.5, -0.5, 0.5, 0.5]), np.array([1.0, -0.5, 3.0])
    t = 2.5
    end = fly(np.concatenate([np.zeros(3), q0]), np.concatenate([np.zeros(3), w0]), np.array(t))
    # seen from the body, the spin turns about the symmetry axis at this rate
    rate = (along - across) / across * w0[2]
    c, s = np.cos(rate * t), np.sin(rate * t)
    assert np.allclose(end.v[3:], [c * w0[0] - s * w0[1], s * w0[0] + c * w0[1], w0[2]], rtol=FOLLOWED)
    # seen from the world, the body turns about its momentum at |L| / I, less the above about its own axis
    L = rotation_of(q0) @ (TOP * w0)
    expected = quaternion_product(
        quaternion_product(quaternion_exp(L * t / across), q0), quaternion_exp(np.array([0, 0, -rate * t]))
    )
    sign = np.sign(expected @ end.q[3:])
    assert np.allclose(end.q[3:], sign * expected, atol=FOLLOWED)
    assert np.allclose(end.q[:3], 0.0, atol=FOLLOWED)
    assert model.nv == 6


def test_intermediate_axis_is_unstable() -> None:
    I1, I2, I3 = BODY
    _, fly = flying(tuple(BODY))
    spin, small, t = 4.0, 1e-7, 3.0
    growth = spin * np.sqrt((I3 - I2) * (I2 - I1) / (I1 * I3))
    # on the growing mode: w3 follows w1 in this ratio
    ratio = growth * I1 / ((I2 - I3) * spin)
    start = np.array([small, spin, ratio * small])
    end = fly(np.array([0, 0, 0, 0, 0, 0, 1.0]), np.concatenate([np.zeros(3), start]), np.array(t))
    assert np.allclose(end.v[[3, 5]] / start[[0, 2]], np.exp(growth * t), rtol=LINEARISED)
    assert np.exp(growth * t) > 100.0, "it has really grown"


def test_energy_and_momentum_of_a_tumbling_body_last() -> None:
    model, fly = flying(tuple(BODY))
    rng = np.random.default_rng(0)
    quaternions = rng.standard_normal((6, 4))
    q = np.hstack([rng.uniform(-1, 1, (6, 3)), quaternions / np.linalg.norm(quaternions, axis=1, keepdims=True)])
    v = rng.uniform(-2, 2, (6, 6))
    end = fly(q, v, np.full(6, 10.0))
    for k in range(6):
        before, after = (energy.kinetic_energy(model, *state) for state in ((q[k], v[k]), (end.q[k], end.v[k])))
        assert abs(after - before) <= FOLLOWED * before
        before, after = (energy.momentum(model, *state).astype(float) for state in ((q[k], v[k]), (end.q[k], end.v[k])))
        assert np.allclose(after, before, atol=FOLLOWED * np.abs(before).max())
        # its centre flies straight on
        assert np.allclose(end.q[k, :3], q[k, :3] + 10.0 * rotation_of(q[k, 3:]) @ v[k, :3], atol=FOLLOWED * 10)


# -- a top on its tip


def test_heavy_top_precesses_steadily() -> None:
    mass, height, across, along = 0.8, 0.3, 0.12, 0.05  # moments about the tip
    model = robot(
        ("ball", (0, 0, 0), (0, 0, 1), Inertia(mass, np.array([0, 0, mass * height]), np.diag([across, across, along])))
    )
    tilt, precession, t = 0.7, 1.9, 2.0
    # across P^2 cos(tilt) - along w3 P + m g h = 0
    w3 = (across * precession**2 * np.cos(tilt) + mass * G * height) / (along * precession)
    spin = w3 - precession * np.cos(tilt)
    q0 = quaternion_exp(np.array([tilt, 0.0, 0.0]))
    up = rotation_of(q0).T @ np.array([0.0, 0.0, 1.0])
    w0 = precession * up + np.array([0.0, 0.0, spin])
    a = forward_dynamics(model, q0, w0, np.zeros(3)).astype(float)
    expected = precession * spin * np.cross(up, [0.0, 0.0, 1.0])
    assert np.abs(a - expected).max() <= SAME_FORMULA * np.abs(expected).max()
    # it keeps its tilt, goes round the vertical and spins
    end = follow(model)(q0, w0, np.array(t))
    z = np.array([0.0, 0.0, 1.0])
    there = quaternion_product(quaternion_product(quaternion_exp(z * precession * t), q0), quaternion_exp(z * spin * t))
    assert np.allclose(end.q, np.sign(there @ end.q) * there, atol=FOLLOWED)
