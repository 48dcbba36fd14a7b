"""The model-predictive controller of airframes: the scenario of FACTS, references, status, batches, bad input."""

import numpy as np
import pytest
from apps.demos.facts import Birotor as F

import condyle as cd
from condyle.apps.flight.nmpc import problem
from condyle.apps.flight.references import state_references


@pytest.fixture(scope="module")
def body() -> cd.flight.SingleBody:
    return cd.flight.single_body(cd.flight.airframe("birotor"), gravity=9.798)


@pytest.mark.slow
def test_an_unreachable_attitude_ends_level_at_the_best_heading(body: cd.flight.SingleBody) -> None:
    """The published controller: yaw 72.4 degrees for (30, 60, 90), and no bound is violated by more than 1e-6."""
    mpc = problem(body, thrust=(0.0, 18.0), angle=(-1.5708, 1.5708)).rti()
    rows = state_references(cd.flight.Allocation(body), cd.flight.standard_scenario().sample([0.0, 2.0]))
    x = body.state(rows[0, :3])
    plan, most = mpc.start(x, body.trim()), 0.0
    for _ in range(400):
        found = mpc(x, plan, reference=rows[1])
        assert found.ok
        plan, u = found.plan, found.u
        most = max(most, float((u[:2] - 18.0).max()), float(-u[:2].min()), float(np.abs(u[2:]).max() - 1.5708))
        x = body.simulate(body.simulate(x, u), u)
    yaw = np.degrees(2.0 * np.arctan2(x[9], x[6]))
    assert abs(yaw - 72.4) < 0.05 and np.abs(x[7:9]).max() < 1e-3
    assert most < 1e-6
    assert found.status == 0.0


RECORD = ["state", "nmpc.force", "nmpc.torque", "nmpc.failures", "nmpc.controls"]


@pytest.fixture(scope="module")
def loop(body: cd.flight.SingleBody) -> cd.Loop:
    """A controller with a short horizon, which compiles faster; a `fault` of one makes what it measures infinite."""
    nmpc, plant = cd.flight.OffsetFreeNmpc(body, every=2, stages=4, interval=0.25), cd.flight.SingleBodyPlant(body)

    def fly(clock, reference, fault):
        return {"state": plant(nmpc(plant.now / (1.0 - fault[0]), reference))}

    return cd.Loop(None, fly, dt=0.005, reference=nmpc.reference_size, fault=1)


def flown(loop: cd.Loop, row: np.ndarray, steps: int, *, fault: float = 0.0, count: int = 4, **changes: np.ndarray) -> cd.Loop:
    """A rollout of a batch; mass that the controller assumes, mass, force and torque of the plant by name."""
    names = {"believed": "nmpc.mass", "mass": "body.mass", "force": "body.force", "torque": "body.torque"}
    given = {
        "believed": np.full(count, F.MASS),
        "mass": np.full(count, F.MASS),
        "force": np.zeros(3),
        "torque": np.zeros(3),
    } | changes
    x0 = np.tile(loop.state(), (count, 1))
    parameters = {names[key]: value for key, value in given.items()}
    references = {"reference": row, "fault": np.full(1, fault)}
    return loop.rollout(x0, references, steps, parameters=parameters, record=RECORD, every=2)


@pytest.mark.slow
def test_robots_have_their_own_numbers_and_the_same_bits(body: cd.flight.SingleBody, loop: cd.Loop) -> None:
    row = state_references(cd.flight.Allocation(body), cd.flight.Hover((0.1, 0.0, 0.1)).sample([0.0]))[0]
    mass, believed = np.linspace(1.5, 1.4, 9), np.linspace(1.4, 1.5, 9)
    out = flown(loop, row, 12, count=9, mass=mass, believed=believed)
    assert np.ptp(out["state"][:, -1, 2]) > 1e-5 and out["nmpc.failures"].max() == 0.0
    one = flown(loop, row, 12, count=1, mass=mass[[7]], believed=believed[[7]])
    assert np.array_equal(one["state"][0], out["state"][7]) and np.array_equal(one.x[0], out.x[7])
    # what the controller assumes matters; the sign of a quaternion does not
    two = flown(loop, row, 12, believed=np.array([1.4, 1.5, 1.4, 1.4]))
    assert two["state"][1, -1, 2] > two["state"][0, -1, 2] + 1e-4
    other = row.copy()
    other[6:10] *= -1.0
    assert np.array_equal(flown(loop, other, 12, believed=np.array([1.4, 1.5, 1.4, 1.4]))["state"], two["state"])


@pytest.mark.slow
def test_offset_free_tracking(body: cd.flight.SingleBody, loop: cd.Loop) -> None:
    """A constant wrench leaves no offset, because the prediction and its target have it."""
    row = state_references(cd.flight.Allocation(body), cd.flight.Hover((0.0, 0.0, 0.0)).sample([0.0]))[0]
    force, torque = np.array([1.0, 0.5, -0.5]), np.array([0.01, 0.02, 0.01])
    out = flown(loop, row, 1600, force=force, torque=torque)
    assert np.abs(out["state"][0, -1, :3]).max() < 2e-3
    assert np.abs(out["nmpc.force"][0, -1] - force).max() < 1e-2
    assert np.abs(out["nmpc.torque"][0, -1] - torque).max() < 1e-3


@pytest.mark.slow
def test_a_state_that_is_not_finite_keeps_the_plan(body: cd.flight.SingleBody, loop: cd.Loop) -> None:
    row = state_references(cd.flight.Allocation(body), cd.flight.Hover((0.0, 0.0, 0.1)).sample([0.0]))[0]
    out = flown(loop, row, 12, fault=1.0)
    assert np.array_equal(out["nmpc.failures"][0], np.arange(1.0, 7.0))
    assert np.array_equal(out["nmpc.controls"][0, -1], np.tile(body.trim(), (4, 1))) and np.isfinite(out["state"]).all()


def test_bad_input(body: cd.flight.SingleBody) -> None:
    with pytest.raises(cd.ControlError, match="max_velocity must be finite and above zero"):
        cd.flight.Nmpc(body, max_velocity=-1.0)
    with pytest.raises(cd.ControlError, match="thrust has limits"):
        cd.flight.Nmpc(body, thrust=(3.0, 1.0))
    with pytest.raises(cd.ControlError, match="start is a state of the single body"):
        cd.flight.Nmpc(body, start=np.zeros(3))
