"""The air, rotors, the battery and a load: each effect against its formula, and the spectra of turbulence."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle import flight
from condyle.apps.flight import air, wind
from condyle.apps.flight.battery import loaded
from condyle.errors import ControlError, RobotError

G = 9.81
EVERYTHING = {
    "lag": 0.05,
    "spin_inertia": 8e-5,
    "thrust_coefficient": 2e-5,
    "flapping": 0.02,
    "hub_stiffness": 3.0,
    "thrust_rate": 60.0,
    "servo_speed": 3.0,
}


@cache
def everything() -> tuple[flight.Vehicle, cd.Loop]:
    """A birotor with all effects at once."""
    vehicle = flight.Vehicle(
        flight.airframe("birotor", **EVERYTHING),
        air=flight.Air((0.1, 0.2, 0.3), (0.01, 0.02, 0.03), spin=0.001, ground_effect=True, flapping=True),
        wind=[flight.Wind((3.0, -1.0, 0.5)), flight.Gust((0.0, 2.0, 0.0), 0.1, 0.2, name="gust")],
        battery=flight.Battery(resistance=0.05),
    )
    return vehicle, vehicle.loop()


def test_every_effect_is_its_formula() -> None:
    vehicle, loop = everything()
    made, robot = vehicle.airframe, vehicle.simulation.robot
    names = [
        "q",
        "v",
        "wrenches",
        "vehicle.thrust",
        "vehicle.speeds",
        "vehicle.wind",
        "vehicle.thrusts",
        "battery.fraction",
        "battery.voltage",
    ]
    q0 = vehicle.configuration((0.0, 0.0, 0.2), (0.97, 0.1, -0.1, 0.2), (0.3, -0.2))
    x = loop.state(q0, np.array([0.5, -0.4, 0.3, 0.8, -0.6, 0.5, 0.2, -0.1]))
    out = loop.rollout(x, np.array([9.0, 5.0, 0.6, -0.4]), 40, record=names)
    q, v = (np.concatenate([loop.unpacked(x)[n][None], out[n][:-1]]) for n in ("q", "v"))
    thrust = np.concatenate([loop.unpacked(x)["vehicle.thrust"][None], out["vehicle.thrust"]])

    # wind: constant, and a gust of (1 - cos) / 2 from 0.1 to 0.3 s
    t = 0.005 * (np.arange(40) + 0.5)
    size = np.where(t >= 0.1, 1.0 - np.cos(2.0 * np.pi * (t - 0.1) / 0.2), 0.0)
    np.testing.assert_allclose(out["vehicle.wind"], np.stack([3.0 + 0 * t, -1.0 + size, 0.5 + 0 * t], axis=1), atol=1e-12)

    # thrust lag with a bounded rate of the command
    wanted, commanded = np.array([9.0, 5.0]), thrust[0]
    for k in range(40):
        commanded = np.clip(wanted, commanded - 0.3, commanded + 0.3)
        end = commanded + (thrust[k] - commanded) * np.exp(-0.005 / 0.05)
        np.testing.assert_allclose(thrust[k + 1], end, atol=1e-12)

    # wrenches of the rotors in their axes: ground effect, flapping, drag, reaction and gyroscopic torque
    speed = np.sqrt(thrust / 2e-5)
    np.testing.assert_allclose(out["vehicle.speeds"], speed[1:], rtol=1e-12)
    for i, rotor in enumerate(made.rotors):
        R, p = robot.frame_pose(q, rotor.frame)
        V = robot.frame_velocity(q, v, rotor.frame, reference="local")
        u = V[:, :3] - np.einsum("kji,kj->ki", R, out["vehicle.wind"])
        f, w = out["vehicle.thrusts"][:, i], 0.5 * (speed[:-1, i] + speed[1:, i])
        z = np.maximum(p[:, 2], 0.5 * rotor.radius)
        J = rotor.direction * rotor.spin_inertia
        about = -rotor.direction * rotor.drag * f - J * (speed[1:, i] - speed[:-1, i]) / 0.005
        force = np.stack([-f * 0.02 * u[:, 0], -f * 0.02 * u[:, 1], f / (1.0 - (rotor.radius / (4.0 * z)) ** 2)], axis=1)
        torque = np.stack([0.06 * u[:, 1], -0.06 * u[:, 0], about], axis=1)
        torque -= np.cross(V[:, 3:], np.stack([0 * w, 0 * w, J * w], axis=1))
        np.testing.assert_allclose(out["wrenches"][:, i], np.hstack([force, torque]), atol=1e-10)

    # drag of the body about its centre of mass
    R = robot.frame_pose(q, "base")[0]
    u = v[:, :3] + np.cross(v[:, 3:6], made.center_of_mass) - np.einsum("kji,kj->ki", R, out["vehicle.wind"])
    F = -(np.array([0.1, 0.2, 0.3]) + np.array([0.01, 0.02, 0.03]) * np.linalg.norm(u, axis=1)[:, None]) * u
    torque = np.cross(made.center_of_mass, F) - 0.001 * v[:, 3:6]
    np.testing.assert_allclose(out["wrenches"][:, 2], np.hstack([F, torque]), atol=1e-10)

    # battery: V = E - R P / V
    P = np.sum(thrust[:-1] ** 1.5, axis=1) / np.sqrt(2.0 * 1.225 * np.pi * 0.1**2) / 0.6 + 10.0
    V = out["battery.voltage"]
    charge = 1.0 - np.concatenate([[0.0], np.cumsum(P / V * 0.005 / 3600.0 / 5.0)[:-1]])
    np.testing.assert_allclose(V, 13.2 + charge * 3.6 - 0.05 * P / V, atol=1e-9)
    np.testing.assert_allclose(out["battery.fraction"], (V / 16.8) ** 2, rtol=1e-12)

    # the servo moves at its largest speed, 3 rad/s, while its target is farther than 3 * lag, and as a lag from then on
    np.testing.assert_allclose(out["q"][:, 7], 0.6 - 0.3 * np.exp(-0.005 * np.arange(1, 41) / 0.15858), atol=1e-9)


def test_a_fast_servo_ends_as_a_lag() -> None:
    angle, rate = flight.gimbals.lagged(0.0, 1.0, 0.1, 0.5, 3.0)
    # 0.7 rad at 3 rad/s, then 0.3 rad by the lag
    assert angle == pytest.approx(1.0 - 0.3 * np.exp(-(0.5 - 0.7 / 3.0) / 0.1)) and rate == pytest.approx((1.0 - angle) / 0.1)
    angle, rate = flight.gimbals.lagged(0.0, -1.0, 0.1, 0.1, 3.0)
    assert angle == pytest.approx(-0.3) and rate == -3.0


def test_formulas() -> None:
    assert air.ground_effect(1.0, 0.5) == pytest.approx(1.0 / (1.0 - 0.125**2))
    assert air.ground_effect(0.0, 0.5) == air.ground_effect(0.25, 0.5) == pytest.approx(4.0 / 3.0)
    assert air.induced_power(9.0, 0.2, 1.2) == pytest.approx(27.0 / np.sqrt(2.0 * 1.2 * np.pi * 0.04))
    np.testing.assert_allclose(air.body_drag(np.array([3.0, 0.0, 4.0]), 0.1, 0.02), [-0.6, 0.0, -0.8])
    assert loaded(16.0, 0.0, 100.0) == 16.0 and loaded(16.0, 1.0, 64.0) == loaded(16.0, 1.0, 99.0) == 8.0


def test_turbulence_has_its_variance_and_autocorrelation() -> None:
    """Of the filters, as linear recursions: covariance P = F P F' + L L', autocorrelation c F^k P c', exactly."""
    for a in (1e-5, 1e-3, 0.1, 0.3, 2.0):
        unit = np.eye(2)
        zero = np.zeros(2)
        F = np.array([wind.second_order(e, a, zero) for e in unit]).T
        L = np.array([wind.second_order(zero, a, e) for e in unit]).T
        P = np.array([[1.0, 0.5], [0.5, 0.5]])
        np.testing.assert_allclose(F @ P @ F.T + L @ L.T, P, rtol=0, atol=1e-15)
        # the noise of one step itself, which the sum above hides for small a
        exact = [[wind.moment(i + j, a) for i in (0, 1)] for j in (0, 1)]
        np.testing.assert_allclose(L @ L.T, exact, rtol=1e-9)
        c = np.array([wind.across(e) for e in unit])
        assert c @ P @ c == pytest.approx(1.0, abs=1e-15)
        for k in (1, 3):
            found = c @ np.linalg.matrix_power(F, k) @ P @ c
            assert found == pytest.approx(np.exp(-k * a) * (1.0 - 0.5 * k * a), abs=1e-14)
        assert wind.first_order(1.0, a, 0.0) == pytest.approx(np.exp(-a), rel=1e-15)
        assert wind.first_order(0.0, a, 1.0) ** 2 == pytest.approx(-np.expm1(-2.0 * a), rel=1e-9)
    deviations, lengths = wind.low_altitude(10.0, 100.0 * wind.FOOT)
    h = 0.177 + 0.0823
    np.testing.assert_allclose(deviations, [h**-0.4, h**-0.4, 1.0])
    np.testing.assert_allclose(lengths / wind.FOOT, [100.0 / h**1.2, 100.0 / h**1.2, 100.0])


def test_turbulence_over_many_robots() -> None:
    turbulence = flight.Dryden(5.0, 10.0, direction=(0.0, 1.0, 0.0))
    loop = cd.Loop(None, lambda x: {"w": turbulence(x)}, dt=0.05)
    out = loop.rollout(np.repeat(loop.state()[None], 2000, axis=0), steps=40, record=["w"], seed=7)["w"]
    deviation, T = turbulence.deviation.default, turbulence.length.default / 5.0
    along = out - np.array([0.0, 5.0, 0.0])
    np.testing.assert_allclose(along.mean(axis=(0, 1)), 0.0, atol=0.05)
    for k, entry in ((0, 1), (39, 1), (39, 0), (39, 2)):
        assert along[:, k, entry].std() == pytest.approx(deviation[{1: 0, 0: 1, 2: 2}[entry]], rel=0.05)
    lag = 39 * 0.05
    found = np.mean(along[:, 0, 1] * along[:, 39, 1]) / deviation[0] ** 2
    assert found == pytest.approx(np.exp(-lag / T[0]), abs=0.05)
    found = np.mean(along[:, 0, 2] * along[:, 39, 2]) / deviation[2] ** 2
    assert found == pytest.approx(np.exp(-lag / T[2]) * (1.0 - lag / (2.0 * T[2])), abs=0.05)


@pytest.mark.parametrize("joint", ["universal", "ball"])
def test_a_load_swings_as_a_pendulum(joint: str) -> None:
    """Below a vehicle that is much heavier it is a pendulum: w^2 = m g l / (m l^2 + 0.4 m r^2)."""
    frame = flight.airframe("birotor", thrust=(0.0, 1e9))
    vehicle = flight.Vehicle(frame, load=flight.Load(1e-6, 0.5, joint=joint), dt=0.002)
    loop = vehicle.loop()
    q = vehicle.configuration()
    load = vehicle.simulation.robot.model.links[-1]
    if joint == "ball":
        q[load.q] = [np.sin(0.005), 0.0, 0.0, np.cos(0.005)]
    else:
        q[load.q.start - 1] = 0.01
    out = loop.rollout(loop.state(q), vehicle.hover, 400, record=["q"])
    p = vehicle.simulation.robot.frame_pose(out["q"], "load")[1]
    w = np.sqrt(G * 0.5 / (0.25 + 0.4 * 0.03**2))
    np.testing.assert_allclose(p[:, 1], 0.5 * np.sin(0.01) * np.cos(w * 0.002 * np.arange(1, 401)), atol=2e-6)
    assert flight.Vehicle("birotor", load=flight.Load(0.3, 0.5)).hover[0] == pytest.approx((1.444422 + 0.3) * G / 2)


def test_arms_bend_under_their_thrusts() -> None:
    """At rest in hover, K angle = lever (f - weight of the gimbal), to first order of the angle."""
    vehicle = flight.Vehicle("birotor", arms=flight.ElasticArms(40.0, 0.6))
    loop, model = vehicle.loop(), vehicle.simulation.robot.model
    assert model.nv == 10
    arms = [link for link in model.links if link.joint.endswith("_arm")]
    out = loop.rollout(loop.state(vehicle.configuration()), vehicle.hover, 300, record=["q", "v"], every=300)
    lever = 0.2375 - 0.25 * 0.154
    expected = lever * (vehicle.hover[0] - 0.25097 * G) / 40.0
    found = [out["q"][-1, link.q.start] for link in arms]
    np.testing.assert_allclose(found, expected, rtol=0.005)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: flight.Vehicle("pidog"), "has no thrust frames"),
        (lambda: flight.Vehicle("birotor", wind=(np.nan, 0.0, 0.0)), "'wind.velocity' must be finite, got nan"),
        (lambda: flight.Vehicle("birotor", wind=(1.0, 0.0)), "velocity must be three numbers"),
        (lambda: flight.Vehicle("birotor", wind=3.0), "velocity must be three numbers"),
        (lambda: flight.Vehicle("birotor", wind=[flight.Wind(), 3.0]), "must be a condyle.apps.flight.Wind"),
        (lambda: flight.Vehicle("birotor", air=3.0), "must be a condyle.apps.flight.Air"),
        (lambda: flight.Vehicle("birotor", servo="hydraulic"), "'kinematic' or 'torque'"),
        (lambda: flight.Vehicle("birotor", integrator="leapfrog"), "rk4 or semi_implicit_euler"),
        (lambda: flight.Vehicle("birotor").loop(lambda x: np.zeros(3)), "takes 4 commands, 2 thrusts and 2 gimbal angles; got 3"),
        (lambda: flight.Air((0.1, 0.2)), "one number or three"),
        (lambda: flight.Air(-0.1), "'air.linear' must be finite and at least 0"),
        (lambda: flight.Dryden(np.nan), "speed must be a positive number"),
        (lambda: flight.Dryden(3.0, direction=(0, 0, 1)), "not vertical"),
        (lambda: flight.Gust((1, 0, 0), shape="square"), "'cosine' or 'pulse'"),
        (lambda: flight.ElasticArms(-1.0), "stiffness must be a number of at least"),
        (lambda: flight.Load(0.0, 1.0), "mass must be greater than 0"),
        (lambda: flight.Load(1.0, 1.0, joint="hinge"), "'ball' or 'universal'"),
        (lambda: flight.Battery(resistance=-1.0), "'battery.resistance' must be finite and at least 0"),
    ],
)
def test_bad_input(make: Any, sentence: str) -> None:
    with pytest.raises((ControlError, RobotError), match=sentence):
        make()
