"""Manipulability and its gradient, singular values, distances to singularities, ellipsoids: against NumPy and differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.multibody.manipulability import (
    force_ellipsoid,
    manipulability,
    manipulability_gradient,
    singular_values,
    singularity,
    velocity_ellipsoid,
)

TASKS = ("pose", "position", "orientation")


@pytest.fixture(scope="module")
def arm() -> cd.Robot:
    return cd.load("ur3")


@pytest.fixture(scope="module")
def q(arm: cd.Robot) -> np.ndarray:
    return arm.random_configuration(np.random.default_rng(0), 50)


@pytest.mark.parametrize("task", TASKS)
def test_manipulability_is_the_product_of_the_singular_values(arm: cd.Robot, q: np.ndarray, task: str) -> None:
    w = manipulability(arm, q, "tool", task=task, length=0.3)
    s = singular_values(arm, q, "tool", task=task, length=0.3)
    assert w == pytest.approx(np.prod(s, axis=-1), rel=1e-9, abs=1e-15)
    assert manipulability(arm, q[3], "tool", task=task, length=0.3) == w[3]  # the same bits


@pytest.mark.parametrize("task", TASKS)
def test_the_gradient_is_that_of_differences(arm: cd.Robot, q: np.ndarray, task: str) -> None:
    h, at = 1e-5, q[:5]
    differences = [
        (manipulability(arm, at + e, "tool", task=task) - manipulability(arm, at - e, "tool", task=task)) / (2.0 * h)
        for e in h * np.eye(6)
    ]
    assert manipulability_gradient(arm, at, "tool", task=task) == pytest.approx(np.array(differences).T, abs=1e-8)


def test_a_coupled_arm_has_the_gradient_of_its_own_coordinates(arm: cd.Robot) -> None:
    coupled = arm.couple("wrist_3_joint", "wrist_1_joint", -0.5, 0.1)
    y, h = np.array([0.3, -1.0, 0.8, -0.6, 0.5]), 1e-5

    def w(y: np.ndarray) -> Any:
        return manipulability(coupled, y, "tool", task="position")

    differences = [(w(y + e) - w(y - e)) / (2.0 * h) for e in h * np.eye(5)]
    assert manipulability_gradient(coupled, y, "tool", task="position") == pytest.approx(differences, abs=1e-8)


def test_distance_to_the_wrist_singularity(arm: cd.Robot) -> None:
    """The wrist is singular at joint 5 = 0: to first order the distance is the angle."""
    for angle in (1e-4, 1e-3, 1e-2):
        near = singularity(arm, np.array([0.0, -1.5, 1.5, -1.5, angle, 0.0]), "tool")
        assert near.distance == pytest.approx(angle, rel=0.02) and near.condition > 10.0 / angle
    exact = singularity(arm, np.array([0.0, -np.pi / 2, np.pi / 2, -np.pi / 2, 0.0, 0.0]), "tool")
    assert exact.smallest < 1e-15
    assert manipulability(arm, np.zeros(6), "tool") < 1e-9 and np.all(
        np.isfinite(manipulability_gradient(arm, np.zeros(6), "tool"))
    )


def test_velocities_and_forces_lie_in_their_ellipsoids(arm: cd.Robot, q: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    limits = np.array([2.0, 2.0, 3.0, 3.0, 3.0, 3.0])
    J = arm.jacobian(q[0], "tool")[:3]
    axes, lengths = velocity_ellipsoid(arm, q[0], "tool", weights=limits)
    v = rng.normal(size=(1000, 6))
    v = limits * v / np.linalg.norm(v, axis=1, keepdims=True)
    inside = np.sum((v @ J.T @ axes / lengths) ** 2, axis=1)
    assert inside.max() <= 1.0 + 1e-12 and inside.max() > 0.9
    axes, lengths = force_ellipsoid(arm, q[0], "tool", weights=limits)
    # a force on the boundary takes torques of weighted norm one
    d = rng.normal(size=(100, 3))
    f = (d / np.linalg.norm(d, axis=1, keepdims=True) * lengths) @ axes.T
    assert np.linalg.norm(f @ J / limits, axis=1) == pytest.approx(np.ones(100), rel=1e-10)
    assert velocity_ellipsoid(arm, q, "tool").axes.shape == (50, 3, 3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda r: manipulability(r, np.zeros(6), "tol"), "did you mean 'tool'"),
        (lambda r: manipulability(r, np.zeros(6), "tool", task="speed"), "'pose', 'position' or 'orientation'"),
        (lambda r: singular_values(r, np.zeros(6), "tool", length=0.0), "positive number of metres"),
        (lambda r: velocity_ellipsoid(r, np.zeros(6), "tool", weights=np.zeros(6)), "weights of an ellipsoid"),
    ],
)
def test_wrong_arguments_are_sentences(arm: cd.Robot, call: Any, words: str) -> None:
    with pytest.raises(cd.RobotError, match=words):
        call(arm)
