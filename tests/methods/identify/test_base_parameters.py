"""Base parameters against closed forms and published numbers, and the regressor against inverse dynamics."""

import numpy as np
import pytest
from methods.identify.arms import pendulum, true_pendulum

import condyle as cd
from condyle.errors import ControlError
from condyle.methods.identify.base_parameters import base_parameters
from condyle.methods.identify.regressor import Regressor


@pytest.fixture(scope="module")
def base():
    return base_parameters(Regressor(pendulum(), ("inertia", "armature", "damping", "friction", "offset")))


def test_the_double_pendulum_has_the_combinations_of_its_lagrangian(base):
    # rods of length 1 m about y: the second one's mass is at the end of the first
    words = [base.words(k) for k in range(len(base.independent))]
    assert words[:7] == [
        "rod_1.mcx",
        "rod_1.mcz - rod_2.m",
        "rod_1.Iyy + rod_2.m + shoulder.armature",
        "rod_2.mcx",
        "rod_2.mcz",
        "rod_2.Iyy",
        "elbow.armature",
    ]
    assert words[7:] == [f"{joint}.{what}" for what in ("damping", "friction", "offset") for joint in ("shoulder", "elbow")]


def test_single_numbers_that_forces_determine(base):
    alone = {base.regressor.names[k] for k in base.alone()}
    assert {"rod_1.mcx", "rod_2.mcz", "rod_2.Iyy", "elbow.friction"} <= alone
    assert not {"rod_1.m", "rod_2.m", "rod_1.Iyy", "rod_1.mcz", "shoulder.armature"} & alone


def test_base_parameters_give_the_forces_of_inverse_dynamics():
    robot = true_pendulum()
    regressor = Regressor(robot)
    base = base_parameters(regressor)
    q, v, a = regressor.random_states(20, seed=3)
    tau = regressor(q, v, a)[..., base.independent] @ (base.map @ regressor.nominal)
    assert np.allclose(tau, robot.inverse_dynamics(q, v, a) - robot.passive_forces(q, v), rtol=0.0, atol=1e-11)


@pytest.mark.parametrize(("name", "lock", "count"), [("ur3", None, 36), ("panda", "panda_finger", 43)])
def test_published_numbers_of_inertial_base_parameters(name, lock, count):
    try:
        robot = cd.load(name)
    except cd.CondyleError:
        pytest.skip(f"{name} is not installed")
    robot = robot if lock is None else robot.lock(lock)
    assert len(base_parameters(Regressor(robot, ("inertia",))).independent) == count


def test_wrong_robots_and_terms():
    with pytest.raises(ControlError, match=r"no term 'frictoin'.*did you mean 'friction'"):
        Regressor(pendulum(), ("inertia", "frictoin"))
    with pytest.raises(ControlError, match="fixed base"):
        Regressor(cd.load("pidog"))
