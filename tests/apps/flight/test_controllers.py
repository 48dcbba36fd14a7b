"""Geometric control, INDI, and what is estimated: on the single body, whose disturbances are known."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.apps.flight.estimation import InertialEstimator, StateNoise, WrenchObserver, measured_state
from condyle.apps.flight.quaternions import rotation, small_rotation

DT = 0.005  # s
FAST_INDI = partial(cd.flight.Indi, filter_lag=0.03)  # the single body has no gimbals that react
PATH = cd.flight.Circle(radius=0.5, period=3.0, turns=1.0, ramp=1.0, begin=0.5)
PUSH = {"body.force": np.array([1.0, 0.5, -0.5]), "body.torque": np.array([0.02, 0.02, 0.01])}


class Imu(cd.Block):
    """Rate, specific force, position and altitude of the single body, with noise and a bias of the gyroscope."""

    BIAS = np.array([0.02, -0.01, 0.015])

    def __init__(self) -> None:
        super().__init__(name="imu")
        self.state("v", np.zeros(3))

    def step(self, state, x):
        up = np.array([0.0, 0.0, 9.81])
        force = rotation(x[6:10]).T @ ((x[3:6] - state["v"]) / self.dt + up)
        n = self.normal(10)
        measured = {"position": x[:3] + 1e-3 * n[6:9], "altitude": x[2] + 0.1 * n[9]}
        return {"rate": x[10:13] + self.BIAS + 5e-3 * n[:3], "force": force + 0.05 * n[3:6], **measured}, {"v": x[3:6]}


class Last(cd.Block):
    """The command of the last tick."""

    def __init__(self, first) -> None:
        super().__init__(name="last")
        self.state("u", first)

    def step(self, state, u):
        return state["u"], {"u": u}


def flight(name: str, controller: Any, estimating: bool = False) -> tuple[cd.Loop, np.ndarray, np.ndarray]:
    body = cd.flight.single_body(cd.flight.airframe(name))
    control, plant, noise = controller(body), cd.flight.SingleBodyPlant(body), StateNoise()
    wrench, imu, filtered, last = WrenchObserver(body), Imu(), InertialEstimator(position=(0.5, 0.0, 1.0)), Last(body.trim())

    def fly(clock, reference):
        x = plant.now
        if not estimating:
            return {"state": plant(control(x, reference))}
        measured = imu(x)
        estimate = filtered(measured["rate"], measured["force"], position=measured["position"], altitude=measured["altitude"])
        noisy = noise(x)
        u = control(noisy, reference)
        wrench(noisy, last(u))
        return {"before": x, "noisy": noisy, "estimate": estimate, "state": plant(u)}

    loop = cd.Loop(None, fly, dt=DT, reference=control.reference_size)
    start = loop.state(**{"body.x": body.state((0.5, 0.0, 1.0))})
    return loop, start, control.references(PATH, DT * np.arange(1200))


@pytest.mark.parametrize(
    ("name", "controller", "circle", "offset"),
    [
        # largest distance in the circle, and at the end of a constant disturbance, m
        ("birotor", cd.flight.Geometric, 0.02, 0.5),
        ("birotor", FAST_INDI, 0.03, 5e-3),
        ("trirotor", cd.flight.Geometric, 0.06, 0.5),
        ("quadrotor", FAST_INDI, 0.06, 3e-3),
    ],
)
def test_a_circle_and_a_disturbance(name: str, controller: Any, circle: float, offset: float) -> None:
    loop, start, rows = flight(name, controller)
    calm = {key: 0.0 * value for key, value in PUSH.items()}
    out = loop.rollout(start, rows, 1200, record=["state"], parameters=calm)
    away = np.linalg.norm(out["state"][:-1, :3] - rows[1:, :3], axis=-1)
    assert away.max() < circle and away[-1] < 3e-3
    assert np.abs(out["state"][-1, 7:9]).max() < 3e-3  # level
    pushed = loop.rollout(start, rows, 1200, record=["state"], parameters=PUSH)
    away = np.linalg.norm(pushed["state"][:-1, :3] - rows[1:, :3], axis=-1)
    assert away[-1] < offset
    if offset > 0.1:  # without integral action it stays away
        assert away[-1] > 0.02


def test_a_controller_of_a_batch_has_the_same_bits() -> None:
    loop, start, rows = flight("birotor", FAST_INDI)
    gains = {"indi.position_gain": np.linspace(3.0, 5.0, 5)}
    many = loop.rollout(np.tile(start, (5, 1)), rows[:50], 50, record=["state"], parameters=gains)
    one = loop.rollout(start, rows[:50], 50, record=["state"], parameters={"indi.position_gain": gains["indi.position_gain"][3]})
    assert np.array_equal(one["state"], many["state"][3])
    first = {name: value[:2] for name, value in gains.items()}
    defined = loop.rollout(np.tile(start, (2, 1)), rows[:1], 1, record=["state"], parameters=first, backend="reference")
    assert np.array_equal(defined["state"], many["state"][:2, :1])


def test_estimates() -> None:
    """A constant wrench is found; the filter is better than its sensors, and finds the bias of the gyroscope."""
    loop, start, rows = flight("birotor", cd.flight.Geometric, estimating=True)
    record = ["before", "noisy", "wrench.force", "wrench.torque", "estimate.position", "estimate.velocity", "estimate.gyro_bias"]
    out = loop.rollout(start, rows, 1200, record=record, parameters=PUSH, seed=1)
    assert np.abs(out["wrench.force"][600:].mean(axis=0) - PUSH["body.force"]).max() < 0.03
    assert np.abs(out["wrench.torque"][600:].mean(axis=0) - PUSH["body.torque"]).max() < 1e-3
    x = out["before"]
    rms = [
        np.sqrt(np.mean((out[f"estimate.{what}"] - x[:, k : k + 3])[400:] ** 2)) for what, k in (("position", 0), ("velocity", 3))
    ]
    assert rms[0] < 0.4e-3 and rms[1] < 4e-3
    assert np.abs(out["estimate.gyro_bias"][-1, :2] - Imu.BIAS[:2]).max() < 2e-3
    noise = (out["noisy"] - x)[:, [0, 3, 10]].std(axis=0)
    assert np.abs(noise / [1e-3, 5e-3, 5e-3] - 1.0).max() < 0.1


@pytest.mark.slow
def test_the_multibody_flies_by_its_sensors() -> None:
    """IMU with a bias, position and barometer at the base, encoders of the gimbals: a circle by what the filter makes of them."""
    airframe = cd.flight.airframe("birotor")
    vehicle, control = cd.flight.Vehicle(airframe), cd.flight.Geometric(airframe, every=2)
    start, per_root_hertz = vehicle.configuration((0.5, 0.0, 1.0)), np.sqrt(DT)
    noise = {"rate_noise": 5e-3 * per_root_hertz, "acceleration_noise": 0.05 * per_root_hertz, "rate_bias": Imu.BIAS}
    imu, estimator = cd.blocks.IMU("flight_controller", **noise), InertialEstimator(position=start[:3])
    place = cd.blocks.Measurement(3, "m", noise=1e-3, name="position")
    barometer = cd.blocks.Measurement((), "m", noise=0.1, name="barometer")

    def flown(x, reference):
        sample, p = imu(x), x.frame_pose("flight_controller").p
        measured = {"position": place(p)["value"], "altitude": barometer(p[2])["value"]}
        estimate = estimator(sample["rate"], sample["acceleration"], **measured)
        state = measured_state(control.body, estimate, x.q[7:9], x.v[6:8])
        return {"command": control(state, reference), "state": state, "true": vehicle.measured(x)}

    loop = vehicle.loop(flown, reference=control.reference_size)
    rows = control.references(PATH, DT * np.arange(1200))
    out = loop.rollout(loop.state(start), rows, 1200, record=["state", "true"], seed=2)
    error = (out["state"] - out["true"])[400:]
    assert np.sqrt(np.mean(error[:, :3] ** 2)) < 1e-3 and np.sqrt(np.mean(error[:, 3:6] ** 2)) < 5e-3
    assert np.linalg.norm(out["true"][:, :3] - rows[:, :3], axis=-1).max() < 0.06


def test_small_rotations() -> None:
    q, turn = np.array([0.8, 0.0, 0.6, 0.0]), np.array([1e-3, -2e-3, 3e-3])
    R = rotation(small_rotation(q, turn)).astype(float)
    w = rotation(q).astype(float).T @ R
    assert np.abs(np.array([w[2, 1] - w[1, 2], w[0, 2] - w[2, 0], w[1, 0] - w[0, 1]]) / 2.0 - turn).max() < 1e-8


def test_bad_input() -> None:
    with pytest.raises(cd.ControlError, match="has no deviation 'gyro'"):
        InertialEstimator(gyro=1.0)
    geometric = cd.flight.Geometric(cd.flight.airframe("birotor"))
    with pytest.raises(cd.ControlError, match="takes force= of a disturbance"):
        geometric.step({}, np.zeros(15), np.zeros(18), wind=np.zeros(3))
    body = cd.flight.single_body(cd.flight.airframe("birotor"))
    with pytest.raises(cd.ControlError, match="cannot be stabilised"):
        cd.flight.Geometric(replace(body, positions=np.zeros((2, 3))))
