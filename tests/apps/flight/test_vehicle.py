"""The vehicle: trim, invariants, servos, rotors, the air, a load and the ground, each against its formula."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle import flight

LAG, G = 0.15858, 9.81


@cache
def birotor(**options: Any) -> tuple[flight.Vehicle, cd.Loop]:
    """A vehicle in still air, and its loop."""
    made = flight.Vehicle("birotor", **options)
    return made, made.loop()


def step_command(vehicle: flight.Vehicle, *angles: float) -> np.ndarray:
    return np.concatenate([vehicle.hover[:2], angles])


def test_it_hovers_at_its_trim() -> None:
    vehicle, loop = birotor()
    assert vehicle.hover[0] == pytest.approx(7.0848, abs=1e-4)
    q = vehicle.configuration((0.3, -0.2, 1.0), (np.cos(0.4), 0, 0, np.sin(0.4)))
    out = loop.rollout(loop.state(q), vehicle.hover, 200, record=["q", "v", "vehicle.torques"])
    np.testing.assert_allclose(out["q"][-1], q, atol=1e-11)
    np.testing.assert_allclose(out["v"][-1], 0.0, atol=1e-11)
    np.testing.assert_allclose(out["vehicle.torques"][-1], 0.0, atol=1e-11)
    light = flight.Vehicle(flight.airframe("birotor", gravity=9.798))
    assert light.hover[0] == pytest.approx(7.0762, abs=5e-5)


def test_a_kinematic_servo_is_a_lag() -> None:
    vehicle, loop = birotor()
    out = loop.rollout(
        loop.state(vehicle.configuration()), step_command(vehicle, 1.0, -0.5), 200, record=["q", "v", "vehicle.torques"]
    )
    t = 0.005 * np.arange(1, 201)
    np.testing.assert_allclose(out["q"][:, 7], 1.0 - np.exp(-t / LAG), rtol=0, atol=1e-9)
    np.testing.assert_allclose(out["q"][:, 8], -0.5 * (1.0 - np.exp(-t / LAG)), rtol=0, atol=1e-9)
    np.testing.assert_allclose(out["v"][:, 6], np.exp(-t / LAG) / LAG, rtol=0, atol=1e-8)


def flown(dt: float, ticks: int, v: np.ndarray, command: np.ndarray) -> tuple[flight.Vehicle, np.ndarray, np.ndarray]:
    """(vehicle, q, v) at every tick of a flight with this dt, from the origin at the velocity v."""
    vehicle, loop = birotor()
    x, given = loop.state(vehicle.configuration(), v), {"dt": dt, "vehicle.thrust_min": np.zeros(2)}
    out = loop.rollout(x, command, ticks, record=["q", "v"], parameters=given)
    return vehicle, *(np.concatenate([loop.unpacked(x)[name][None], out[name]]) for name in ("q", "v"))


def test_momentum_is_conserved_while_gimbals_move_in_free_fall() -> None:
    dt, target = 2e-4, np.array([1.0, -0.5])
    start = np.array([0.3, -0.1, 0.2, 0.5, -0.4, 0.3, *(target / LAG)])
    vehicle, q, v = flown(dt, 1000, start, np.array([0.0, 0.0, *target]))
    h = vehicle.airframe.robot.momentum(q, v)
    t = dt * np.arange(len(q))[:, None]
    h[:, :3] -= np.array([0.0, 0.0, -G * vehicle.airframe.mass]) * t
    assert np.abs(q[-1, 7:] - q[0, 7:]).max() > 0.5
    assert np.abs(h - h[0]).max() < 1e-12


def test_energy_is_the_work_of_the_actuators() -> None:
    dt, target, thrusts = 1e-3, np.array([0.6, -0.4]), np.array([8.0, 6.5])
    start = np.array([0.3, -0.1, 0.2, 0.5, -0.4, 0.3, *(target / LAG)])
    vehicle, q, v = flown(dt, 400, start, np.concatenate([thrusts, target]))
    robot = vehicle.airframe.robot
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


def test_it_is_the_single_body_where_gimbals_have_no_mass() -> None:
    vehicle, loop = birotor()
    made, body = vehicle.airframe, flight.single_body(vehicle.airframe)
    command, start = np.array([7.6, 6.9, 0.5, -0.3]), np.array([0.3, -0.1, 0.2, 0.5, -0.4, 0.3])
    x = body.state(velocity=start[:3])
    x[10:13] = start[3:]
    for _ in range(100):
        x = body.step(x, command)
    q = vehicle.configuration()
    velocity = np.concatenate([start[:3] + np.cross(start[3:], -made.center_of_mass), start[3:], command[2:] / LAG])
    errors = []
    for part in (0.1, 1e-3, 1e-5):
        out = loop.rollout(
            loop.state(q, velocity), command, 100, parameters=lighter(made, body.inertia, part), record=["q"], every=100
        )
        R, p = made.robot.frame_pose(out["q"][-1], "base")
        errors.append(np.abs(p + R @ made.center_of_mass - x[:3]).max())
    assert errors[0] > 1e-4 and errors[1] < 0.02 * errors[0] and errors[2] < 2e-4 * errors[0]


def lighter(made: flight.Airframe, inertia: np.ndarray, part: float) -> dict[str, Any]:
    """Parameters with which gimbals have a part of their mass, and the base the rest of the whole."""
    model = made.robot.model
    mass, com = made.mass, made.center_of_mass
    h, I = mass * com, inertia + mass * (com @ com * np.eye(3) - np.outer(com, com))
    given: dict[str, Any] = {}
    for link in model.links[1:]:
        body, X = link.inertia, link.pose(model.neutral())
        given |= {f"{link.name}.mass": part * body.mass, f"{link.name}.inertia": part * proper(body.I_com)}
        c = X.R @ body.com + X.p
        mass, h = mass - part * body.mass, h - part * body.mass * c
        I = I - part * (X.R @ proper(body.I_com) @ X.R.T + body.mass * (c @ c * np.eye(3) - np.outer(c, c)))
    c = h / mass
    return given | {"base.mass": mass, "base.com": c, "base.inertia": I - mass * (c @ c * np.eye(3) - np.outer(c, c))}


def proper(I: np.ndarray) -> np.ndarray:
    """The gimbals' published moments with a third one that a body can have."""
    return np.diag([I[0, 0], I[1, 1], I[0, 0] + I[1, 1]])


def test_thrusts_and_angles_have_columns_in_b() -> None:
    vehicle, loop = birotor(integrator="semi_implicit_euler")
    robot = vehicle.simulation.robot
    x, command, h = loop.state(vehicle.configuration()), np.array([7.5, 7.0, 0.2, -0.1]), 1e-4
    _, A, B = loop.step(x, command, derivatives=True)
    assert A.shape == (17, 17) and B.shape == (17, 4)
    for k in range(4):
        after, before = (loop.step(x, command + d) for d in (h * np.eye(4)[k], -h * np.eye(4)[k]))
        change = np.concatenate([robot.difference(before[:9], after[:9]), after[9:17] - before[9:17]]) / (2.0 * h)
        np.testing.assert_allclose(B[:16, k], change, atol=1e-8)
    assert abs(B[10, 0]) > 1e-3 and B[6, 2] > 0.03


def test_a_batch_has_the_bits_of_one_by_one() -> None:
    vehicle, loop = birotor(wind=flight.Dryden(4.0), air=flight.Air(0.1, 0.02))
    rng = np.random.default_rng(0)
    X = np.array([loop.state(vehicle.configuration(rng.normal(size=3)), 0.1 * rng.normal(size=8)) for _ in range(5)])
    given = {"turbulence.velocity": rng.normal(size=(5, 3)), "base.mass": rng.uniform(0.9, 1.0, 5)}
    commands = np.concatenate([rng.uniform(6, 8, (5, 2)), 0.3 * rng.normal(size=(5, 2))], axis=1)[:, None]
    together = loop.rollout(X, commands, 30, seed=3, parameters=given).x
    assert np.array_equal(loop.rollout(X, commands, 30, seed=3, parameters=given, lanes=1).x, together)


# -- servos in torque form


def test_a_servo_in_torque_form() -> None:
    vehicle, loop = birotor(servo="torque")
    out = loop.rollout(
        loop.state(vehicle.configuration()), step_command(vehicle, 0.05, 0.05), 100, record=["q", "vehicle.torques"]
    )
    # both thrusts tilted alike turn about z: D / P is the lag, and I / D is short
    t = 0.005 * np.arange(1, 101)
    np.testing.assert_allclose(out["q"][:, 7], 0.05 * (1.0 - np.exp(-t / LAG)), atol=0.001)
    assert out["vehicle.torques"][0, 0] == pytest.approx(0.05 * 0.8 / LAG)


# -- the ground


@pytest.mark.slow
def test_it_lands_stands_and_takes_off() -> None:
    vehicle, loop = birotor(ground=cd.Plane())
    x = loop.state(vehicle.configuration((0.0, 0.0, 0.25), (1.0, 0.05, 0.02, 0.0)))
    landed = loop.rollout(x, np.array([2.0, 2.0, 0.0, 0.0]), 400, record=["q", "v", "contact_forces"])
    feet = 0.26 + vehicle.airframe.center_of_mass[2]
    assert landed["q"][-1, 2] + vehicle.airframe.center_of_mass[2] == pytest.approx(feet, abs=1e-3)
    assert np.abs(landed["v"][-1]).max() < 1e-3 and np.abs(landed["q"][-1, 3:5]).max() < 1e-3
    total = landed["contact_forces"][-1, :, 2].sum()
    assert total == pytest.approx(vehicle.airframe.mass * G - 4.0, abs=1e-3)
    up = loop.rollout(landed.x, vehicle.hover * 1.1, 100, record=["q", "v"])
    assert up["v"][-1, 2] == pytest.approx(0.1 * G * 0.5, rel=0.01)


@pytest.mark.parametrize("options", [{}, {"ground": cd.Plane()}], ids=["in the air", "on the ground"])
def test_a_run_repeats_from_its_records(options: dict[str, Any], tmp_path: Path) -> None:
    vehicle, loop = birotor(**options)
    x = loop.state(vehicle.configuration((0.0, 0.0, 0.22)))
    command = np.repeat([np.array([5.0, 6.0, 0.3, 0.1])], 60, axis=0)
    with cd.Recorder(loop, x, tmp_path / "flight.cdl", record=["vehicle.torques"]) as recorder:
        recorder.rollout({"command": command}, 60)
    assert cd.read_run(tmp_path / "flight.cdl").check()
