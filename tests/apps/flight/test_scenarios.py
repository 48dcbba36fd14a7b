"""Flights: the rigid vehicle against the controller's model, scenarios, landings, and reports."""

from dataclasses import replace

import numpy as np
import pytest

import condyle as cd
from condyle.apps.flight.report import Flown, page, solve_times
from condyle.apps.flight.rigid_vehicle import RigidVehicle
from condyle.apps.flight.scenarios import SCENARIOS, Flight
from condyle.errors import ControlError

BIROTOR = cd.flight.airframe("birotor")
COMMAND = np.array([7.6, 7.2, 0.3, -0.2])


def test_the_rigid_vehicle_is_the_single_body_to_second_order() -> None:
    body = replace(cd.flight.single_body(BIROTOR), inertia=BIROTOR.inertia)  # with its small products
    wanted = body.state([0.1, 0.2, 1.0])
    for _ in range(80):
        wanted = body.simulate(wanted, COMMAND)
    errors = []
    for dt in (0.01, 0.005):
        vehicle = RigidVehicle(BIROTOR, dt)
        loop = vehicle.loop()
        x = loop.rollout(loop.state(vehicle.configuration([0.1, 0.2, 1.0])), COMMAND, round(0.4 / dt)).x
        errors.append(vehicle.measured_states(loop, x) - wanted)
        np.testing.assert_allclose(errors[-1][13:], 0.0, atol=1e-8)
    # thrusts have their mean directions during a step
    coarse, fine = (np.abs(error).max() for error in errors)
    assert fine < 2e-4 and 3.8 < coarse / fine < 4.2


def test_what_is_measured_of_a_vehicle_with_elastic_arms_and_a_load() -> None:
    """Hinges before the gimbals shift their coordinates, and a load is none of the airframe's."""
    options = {"arms": cd.flight.ElasticArms(50.0), "load": cd.flight.Load(0.2, 0.5)}
    for given in ({}, options):
        vehicle = cd.flight.Vehicle(BIROTOR, **given)
        loop = vehicle.loop()
        q = vehicle.configuration([0.1, 0.2, 1.0], angles=[0.3, -0.2])
        found = vehicle.measured_states(loop, loop.state(q))
        np.testing.assert_allclose(found[13:15], [0.3, -0.2])
        np.testing.assert_allclose(found[:2], [0.1, 0.2], atol=1e-2)


def test_a_rotor_with_lag_and_no_gimbals_is_measured() -> None:
    frame = cd.flight.airframe("quadrotor")
    vehicle = RigidVehicle(frame)
    loop = vehicle.loop()
    found = vehicle.measured_states(loop, loop.state(vehicle.configuration([0.0, 0.0, 1.0])))
    assert found.shape == (vehicle.body.nx,) and found[2] == pytest.approx(1.0)


@pytest.fixture(scope="module")
def landed() -> Flown:
    """The end of a landing, from shortly above the ground."""
    flight = Flight("birotor", "land", controller="geometric")
    return Flown.of(flight, *flight.record())


@pytest.mark.slow
def test_a_landing_touches_down_softly_and_stands(landed: Flown) -> None:
    found = landed.results()
    assert found["stands"] and not found["overturned"] and 0.05 < found["touchdown_speed"] < 0.6
    assert landed.run.check() and len(landed.solves) == 0
    assert landed.flight.standing == pytest.approx(landed.state[-1, 2], abs=5e-3)
    text = page([landed])
    assert "speed at touchdown" in text and "energies, J" in text


def test_scenarios_have_paths_and_flights_are_checked() -> None:
    for name, scenario in SCENARIOS.items():
        path = scenario.path(0.2).sample(np.linspace(0.0, scenario.seconds, 50))
        assert np.isfinite(path.position).all() and scenario.summary, name
    with pytest.raises(ControlError, match="2 rotors, and thrust_factor 3"):
        Flight("birotor", thrust_factor=(1.0, 1.0, 1.0))
    assert solve_times(Flight("birotor", controller="indi"), None).shape == (0,)  # type: ignore[arg-type]
