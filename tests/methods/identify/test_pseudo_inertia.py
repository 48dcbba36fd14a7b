"""Pseudo-inertias: every ten numbers give a real body, and the distance is Bregman's."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from condyle.methods.identify.consistent import body_function
from condyle.methods.identify.pseudo_inertia import body, bregman_residuals, inertial_numbers, pseudo_inertia, upper_factor

TEN = arrays(float, 10, elements=st.floats(-1.5, 1.5))
LINK = np.array([2.0, 0.1, -0.2, 0.4, 0.3, 0.01, 0.25, -0.02, 0.03, 0.1])


@given(TEN)
@settings(max_examples=60, deadline=None)
def test_every_ten_numbers_are_a_body(x):
    pi = np.asarray(body(upper_factor(pseudo_inertia(LINK)), x), dtype=float)
    P = pseudo_inertia(pi)
    assert pi[0] > 0.0 and np.linalg.eigvalsh(P / np.trace(P))[0] > -1e-12
    m, c = pi[0], pi[1:4] / pi[0]
    xx, xy, yy, xz, yz, zz = pi[4:]
    about = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) - m * (c @ c * np.eye(3) - np.outer(c, c))
    low, middle, high = np.linalg.eigvalsh(about)
    assert low > -1e-12 * high and low + middle >= high * (1.0 - 1e-9)


@given(TEN)
@settings(max_examples=60, deadline=None)
def test_residuals_are_the_square_root_of_the_distance(x):
    U = upper_factor(pseudo_inertia(LINK))
    P0 = U @ U.T
    ratio = np.linalg.solve(P0, pseudo_inertia(np.asarray(body(U, x), dtype=float)))
    distance = np.trace(ratio) - np.linalg.slogdet(ratio)[1] - 4.0
    r = np.asarray(bregman_residuals(x), dtype=float)
    assert abs(r @ r - distance) < 1e-9 * (1.0 + distance)


def test_zero_is_the_nominal_body_and_the_tape_has_the_derivatives():
    P = pseudo_inertia(LINK) + 0.5 * np.diag([1.0, 1.0, 1.0, 0.0])
    pi, U = np.asarray(inertial_numbers(P), dtype=float), upper_factor(P)
    assert np.allclose(np.asarray(body(U, np.zeros(10)), dtype=float), pi, atol=1e-12)
    function, jacobian = body_function()
    # on both sides of the series near zero
    for x in (np.zeros(10), np.full(10, 0.005), np.linspace(-0.7, 0.6, 10)):
        h = 1e-6
        differences = [(function(U, x + h * e) - function(U, x - h * e)) / (2.0 * h) for e in np.eye(10)]
        assert np.allclose(np.stack(differences, axis=1), jacobian(U, x), atol=1e-7)


def test_a_point_mass_is_given_an_extent():
    U = upper_factor(pseudo_inertia(np.array([1.0, 0.0, 0.0, 0.5, 0.25, 0.0, 0.25, 0.0, 0.0, 0.0])))
    assert np.linalg.eigvalsh(U @ U.T)[0] > 0.0
