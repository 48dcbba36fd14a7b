"""The vehicle: trim, invariants, servos, rotors, the air, a load and the ground, each against its formula."""

from functools import cache
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle import flight

LAG, G = 0.15858, 9.81


@cache
def birotor(dt: float = 0.005, **options: Any) -> tuple[flight.Vehicle, cd.Loop]:
    """A vehicle in still air, and its loop."""
    made = flight.Vehicle("birotor", dt, **options)
    return made, made.loop()


def step_command(vehicle: flight.Vehicle, *angles: float) -> np.ndarray:
    return np.concatenate([vehicle.hover[:2], angles])


def test_it_hovers_at_its_trim() -> None:
    vehicle, loop = birotor()
    assert vehicle.hover[0] == pytest.approx(7.0848, abs=1e-4)
    q = vehicle.configuration((0.3, -0.2, 1.0), (np.cos(0.4), 0, 0, np.sin(0.4)))
    out = loop.rollout(loop.state(q), vehicle.hover, 400, record=["q", "v", "vehicle.torques"], every=400)
    np.testing.assert_allclose(out["q"][-1], q, atol=1e-11)
    np.testing.assert_allclose(out["v"][-1], 0.0, atol=1e-11)
    np.testing.assert_allclose(out["vehicle.torques"][-1], 0.0, atol=1e-11)
    light = flight.Vehicle(flight.airframe("birotor", gravity=9.798))
    assert light.hover[0] == pytest.approx(7.0762, abs=5e-5)


def test_a_kinematic_servo_is_a_lag() -> None:
    vehicle, loop = birotor()
    out = loop.rollout(loop.state(vehicle.configuration()), step_command(vehicle, 1.0, -0.5), 200, record=["q", "v"])
    t = 0.005 * np.arange(1, 201)
    np.testing.assert_allclose(out["q"][:, 7], 1.0 - np.exp(-t / LAG), rtol=0, atol=1e-9)
    np.testing.assert_allclose(out["q"][:, 8], -0.5 * (1.0 - np.exp(-t / LAG)), rtol=0, atol=1e-9)
    np.testing.assert_allclose(out["v"][:, 6], np.exp(-t / LAG) / LAG, rtol=0, atol=1e-8)


def falling(dt: float) -> tuple[flight.Vehicle, np.ndarray, np.ndarray]:
    """(vehicle, q, v) at every tick of 0.2 s in free fall, rotating, while the gimbals move."""
    vehicle, loop = birotor(dt)
    x = loop.state(vehicle.configuration(), np.array([0.3, -0.1, 0.2, 0.5, -0.4, 0.3, 2.0 / LAG * 0.5, -1.0 / LAG * 0.5]))
    out = loop.rollout(
        x, np.array([0.0, 0.0, 1.0, -0.5]), round(0.2 / dt), record=["q", "v"], parameters={"vehicle.thrust_min": np.zeros(2)}
    )
    q, v = (np.concatenate([loop.unpacked(x)[name][None], out[name]]) for name in ("q", "v"))
    return vehicle, q, v


def test_momentum_is_conserved_while_gimbals_move_in_free_fall() -> None:
    dt = 2e-4
    vehicle, q, v = falling(dt)
    h = vehicle.airframe.robot.momentum(q, v)
    t = dt * np.arange(len(q))[:, None]
    h[:, :3] -= np.array([0.0, 0.0, -G * vehicle.airframe.mass]) * t
    # the gimbals move by a radian, with 0.02 kg m^2/s between them and the body
    assert np.abs(q[-1, 7:] - q[0, 7:]).max() > 0.5
    assert np.abs(h - h[0]).max() < 1e-12


def test_energy_is_the_work_of_the_actuators() -> None:
    dt = 1e-3
    vehicle, loop = birotor(dt)
    robot = vehicle.airframe.robot
    target, thrusts = np.array([0.6, -0.4]), np.array([8.0, 6.5])
    x = loop.state(vehicle.configuration(), np.array([0.3, -0.1, 0.2, 0.5, -0.4, 0.3, *(target / LAG)]))
    out = loop.rollout(x, np.concatenate([thrusts, target]), 400, record=["q", "v"])
    q, v = (np.concatenate([loop.unpacked(x)[name][None], out[name]]) for name in ("q", "v"))
    energy = robot.kinetic_energy(q, v) + robot.potential_energy(q)
    # rotors: force and torque at frames that move
    power = np.zeros(len(q))
    wrenches = {}
    for k, rotor in enumerate(vehicle.airframe.rotors):
        local = np.array([0, 0, thrusts[k], 0, 0, -rotor.direction * rotor.drag * thrusts[k]])
        power += robot.frame_velocity(q, v, rotor.frame, reference="local") @ local
        wrenches[(rotor.frame, "local")] = np.broadcast_to(local, (len(q), 6))
    # servos: the torques with which the gimbals have the acceleration of the lag, the base being free
    a = np.zeros_like(v)
    a[:, 6:] = -v[:, 6:] / LAG
    bias = robot.inverse_dynamics(q, v, a, wrenches=wrenches)
    M = robot.mass_matrix(q)
    a[:, :6] = np.linalg.solve(M[:, :6, :6], -bias[:, :6, None])[..., 0]
    torques = robot.inverse_dynamics(q, v, a, wrenches=wrenches)
    np.testing.assert_allclose(torques[:, :6], 0.0, atol=1e-9)
    power += np.sum(torques[:, 6:] * v[:, 6:], axis=1)
    # Simpson's rule over pairs of ticks
    work = np.concatenate([[0.0], np.cumsum((power[:-2:2] + 4.0 * power[1:-1:2] + power[2::2]) * dt / 3.0)])
    assert work[-1] > 0.5
    np.testing.assert_allclose(energy[::2] - energy[0], work, rtol=0, atol=1e-9)
