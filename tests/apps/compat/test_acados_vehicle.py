"""Airframes as acados' integrator object: the single body and the multibody, and states that x does not contain."""

from typing import Any

import numpy as np
import pytest

from condyle.compat.acados import AcadosVehicleSimSolver
from condyle.errors import CondyleError
from condyle.flight.airframe import airframe
from condyle.flight.single_body import single_body

BIROTOR = airframe("birotor")
COMMAND = np.array([7.3, 7.1, 0.2, -0.1])


@pytest.fixture(scope="module")
def multibody() -> AcadosVehicleSimSolver:
    return AcadosVehicleSimSolver(BIROTOR)


def moved(sim: AcadosVehicleSimSolver, steps: int = 20) -> np.ndarray:
    """The state after some steps from rest."""
    sim.set("x", sim.body.state([0.0, 0.0, 1.0]))
    for _ in range(steps):
        sim.simulate(u=COMMAND)
    return np.asarray(sim.get("x"))


def test_the_single_body_is_the_controllers_model() -> None:
    sim = AcadosVehicleSimSolver("birotor", model="single", dt=0.005)
    assert (sim.acados_sim.dims.nx, sim.acados_sim.dims.nu) == (15, 4)
    body = single_body(BIROTOR)
    x = body.state([0.0, 0.0, 1.0])
    for _ in range(20):
        x = body.simulate(x, COMMAND)
    np.testing.assert_allclose(moved(sim), x, rtol=0.0, atol=1e-14)
    np.testing.assert_array_equal(sim.thrust_forces, np.tile(COMMAND[:2], (20, 1)))
    np.testing.assert_allclose(sim.joint_velocities[0], COMMAND[2:] / body.servo_lags)
    assert not sim.joint_torques.any() and sim.center_of_mass.shape == (20, 3)
    assert sim.energies["potential"][0] == pytest.approx(body.mass * 9.81)


def test_setting_the_state_keeps_what_it_does_not_contain(multibody: AcadosVehicleSimSolver) -> None:
    x = moved(multibody)
    rates = multibody.joint_velocities[-1]
    assert np.abs(rates).min() > 0.1
    before = multibody._plant.state.copy()  # type: ignore[union-attr]
    multibody.set("x", multibody.get("x"))
    np.testing.assert_array_equal(multibody._plant.state, before)  # type: ignore[union-attr]
    # another position, velocity, attitude, rate and angle: the rates of the gimbals go on
    x[:3] += 0.5
    x[13] += 0.01
    multibody.set("x", x)
    after = multibody.simulate()
    found, last = multibody.joint_velocities[-2:]
    assert np.abs(last - found).max() < 0.2 * np.abs(found).max() and np.abs(after[:3] - x[:3]).max() < 0.05
    np.testing.assert_allclose(multibody.center_of_mass[-1], x[:3], atol=1e-12)


def test_the_multibody_of_heavy_gimbals_moves_otherwise(multibody: AcadosVehicleSimSolver) -> None:
    x = moved(multibody, 40)
    single = moved(AcadosVehicleSimSolver(BIROTOR, model="single"), 40)
    assert 1e-4 < np.abs(x - single)[:3].max() < 0.02
    power = multibody.joint_torques * multibody.joint_velocities
    assert power.shape[1] == 2 and multibody.energies["total"].shape == (len(power),)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: AcadosVehicleSimSolver("birotor", model="simple"), "model is 'single' or 'multibody'"),
        (lambda: AcadosVehicleSimSolver("birotor", dt=0.0), "above zero"),
        (lambda: AcadosVehicleSimSolver("ur3"), "no free base"),
    ],
)
def test_what_cannot_be_made_is_a_sentence(call: Any, sentence: str) -> None:
    with pytest.raises(CondyleError, match=sentence):
        call()


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("x", np.zeros(14), "15 entries, got 14"),
        ("x", np.full(15, np.nan), "not finite"),
        ("x", np.zeros(15), "quaternion"),
        ("z", 0.0, "there are x and u"),
    ],
)
def test_what_cannot_be_set_is_a_sentence(multibody: AcadosVehicleSimSolver, field: str, value: Any, sentence: str) -> None:
    with pytest.raises(CondyleError, match=sentence):
        multibody.set(field, value)
