"""The model-predictive controller of airframes: the scenario of FACTS, references, status, batches, bad input."""

import numpy as np
import pytest

import condyle as cd
from condyle.flight.nmpc import problem
from condyle.flight.references import state_references

STAGES = 4  # of the loop's controller: a short horizon compiles faster


@pytest.fixture(scope="module")
def body() -> cd.flight.SingleBody:
    return cd.flight.single_body(cd.flight.airframe("birotor"), gravity=9.798)


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


@pytest.fixture(scope="module")
def loop(body: cd.flight.SingleBody) -> cd.Loop:
    nmpc, plant = cd.flight.Nmpc(body, every=2, stages=STAGES), cd.flight.SingleBodyPlant(body)

    def fly(clock, reference, force):
        return {"state": plant(nmpc(plant.now, reference, force=force))}

    return cd.Loop(None, fly, dt=0.005, reference=nmpc.reference_size, force=3)


def test_robots_have_their_own_numbers_and_the_same_bits(body: cd.flight.SingleBody, loop: cd.Loop) -> None:
    row = state_references(cd.flight.Allocation(body), cd.flight.Hover((0.1, 0.0, 0.1)).sample([0.0]))[0]
    push, count = np.array([0.0, 0.0, -1.0]), 9
    parameters = {"nmpc.mass": np.linspace(1.4, 1.5, count), "body.mass": np.linspace(1.5, 1.4, count)}
    x0 = np.tile(loop.state(), (count, 1))
    given = {"reference": row, "force": push}
    out = loop.rollout(x0, given, 12, parameters=parameters, record=["state", "nmpc.failures"])
    assert np.ptp(out["state"][:, -1, 2]) > 1e-5 and out["nmpc.failures"].max() == 0.0
    for k in (0, 8):
        one = loop.rollout(x0[k], given, 12, parameters={name: v[k] for name, v in parameters.items()}, record=["state"])
        assert np.array_equal(one["state"], out["state"][k])
    # the sign of a quaternion is no matter
    other = row.copy()
    other[6:10] *= -1.0
    one = loop.rollout(x0[0], {"reference": row, "force": push}, 12, record=["state"])
    same = loop.rollout(x0[0], {"reference": other, "force": push}, 12, record=["state"])
    assert np.array_equal(one["state"], same["state"])


def test_a_state_that_is_not_finite_keeps_the_plan(body: cd.flight.SingleBody) -> None:
    nmpc = cd.flight.Nmpc(body, stages=STAGES)
    state = {name: value.copy() for name, value in nmpc.states.items()}
    row = state_references(nmpc.allocation, cd.flight.Hover().sample([0.0]))[0]
    function = cd.function(
        lambda x: dict(zip(("u", "failures", "states"), _parts(nmpc.step(state, x, row)), strict=True)), cache=False, x=body.nx
    )
    x = body.state()
    fine, broken = function(x), function(np.where(np.arange(15) == 2, np.nan, x))
    assert fine.failures == 0.0 and broken.failures == 1.0
    assert np.array_equal(broken.u, state["controls"][0]) and np.array_equal(broken.states, state["states"])


def _parts(found):
    return found[0], found[1]["failures"], found[1]["states"]


def test_bad_input(body: cd.flight.SingleBody) -> None:
    with pytest.raises(cd.ControlError, match="max_velocity must be finite and above zero"):
        cd.flight.Nmpc(body, max_velocity=-1.0)
    with pytest.raises(cd.ControlError, match="thrust has limits"):
        cd.flight.Nmpc(body, thrust=(3.0, 1.0))
    with pytest.raises(cd.ControlError, match="start is a state of the single body"):
        cd.flight.Nmpc(body, start=np.zeros(3))
