"""Robots without mass somewhere: a sentence or a result, and no warning of NumPy."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.robot.description import Description, JointSpec, LinkSpec
from condyle.robot.parts import link, solid, sphere
from condyle.robot.spatial import Inertia


def chain(heavy: tuple[str, ...], moments: tuple[str, ...] = ()) -> Description:
    """Two hinges; links without mass but for the heavy ones, some with moments alone."""
    links = [LinkSpec("base")]
    for name in ("a", "b"):
        body = Inertia(0.0, np.zeros(3), np.eye(3)) if name in moments else None
        links.append(link(name, solid(1.0, sphere(0.1)), [], []) if name in heavy else LinkSpec(name, body))
    axes = np.array([0.0, 1.0, 0.0]), np.array([1.0, 0.0, 0.0])
    joints = (JointSpec("j", "continuous", "base", "a", axis=axes[0]), JointSpec("k", "continuous", "a", "b", axis=axes[1]))
    return Description("chain", tuple(links), joints)


def calls(robot: cd.Robot) -> list[Callable[[], Any]]:
    q, v = robot.neutral(), np.zeros(robot.nv)

    def simulated() -> Any:
        world = cd.Simulation(robot)
        return world.step(world.state(), derivatives=True)

    return [
        lambda: robot.forward_dynamics(q, v, v),
        lambda: robot.forward_dynamics_derivatives(q, v, v),
        lambda: robot.inverse_mass_matrix(q),
        lambda: robot.center_of_mass(q),
        lambda: [link.inertia.I_com for link in robot.model.links],
        simulated,
    ]


@pytest.mark.parametrize("base", ["fixed", "free"])
@pytest.mark.parametrize(("heavy", "moments"), [((), ()), (("a",), ()), ((), ("b",))])
def test_no_warning_of_numpy_leaks(base: str, heavy: tuple[str, ...], moments: tuple[str, ...]) -> None:
    robot = cd.load(chain(heavy, moments), base)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        for call in calls(robot):
            try:
                call()
            except cd.CondyleError as error:
                assert str(error)


def test_the_centre_of_mass_of_nothing_is_the_origin() -> None:
    np.testing.assert_array_equal(Inertia(0.0, np.zeros(3), np.eye(3)).com, np.zeros(3))
    np.testing.assert_array_equal(Inertia(0.0, np.zeros(3), np.eye(3)).I_com, np.eye(3))
