"""Servos, torque actuators, implicit PD, motors and series elastic joints on a pendulum, against their closed forms."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from simulate.bodies import a_pendulum

import condyle as cd
from condyle.blocks.actuators import torque_bounds
from condyle.errors import ControlError

H, G = 0.002, 9.81
INERTIA = 1.0 + 1e-9  # of the pendulum, kg m^2
LAW = 1e-9  # rad or rad/s: of closed forms in the torque forms


def pendulum(control: Any, gravity: float = G, **options: Any) -> cd.Loop:
    """A loop around a pendulum of 1 kg at 1 m; at angle 0 gravity turns it with 9.81 N m."""
    references = {name: options.pop(name) for name in ("target", "command") if name in options}
    return cd.Loop(cd.Simulation(a_pendulum(gravity=gravity), H, **options), control, **references)


def states(loop: cd.Loop, n: int, q: float = 0.0, v: float = 0.0) -> np.ndarray:
    """n equal states."""
    return np.tile(loop.state(q=[q], v=[v]), (n, 1))


# ---- kinematic servos


def test_kinematic_servos_are_exact() -> None:
    first, second = cd.blocks.FirstOrderServo(1, 0.05, name="first"), cd.blocks.SecondOrderServo(1, 2.0, name="second")
    loop = cd.Loop(None, lambda t, target: {"y": np.concatenate([first(target), second(target)])}, dt=H, target=1)
    zeta = np.array([0.0, 0.3, 0.999999, 1.0, 1.000001, 2.0, 30.0])
    lag, frequency = np.linspace(0.01, 0.3, 7), np.linspace(0.5, 8.0, 7)
    numbers = {"first.lag": lag, "second.frequency": frequency, "second.damping_ratio": zeta}
    x = np.tile(loop.state(), (7, 1))
    y = loop.rollout(x, np.ones((7, 1, 1)), 500, parameters=numbers, record=["y"])["y"]
    t = H * np.arange(1, 501)
    np.testing.assert_allclose(y[:, :, 0], 1.0 - np.exp(-t / lag[:, None]), atol=1e-12)
    w = (2.0 * np.pi * frequency)[:, None]
    root = np.emath.sqrt(zeta[:, None] ** 2 - 1.0)
    root[3] = 0.5
    a, b = w * (zeta[:, None] - root), w * (zeta[:, None] + root)
    exact = 1.0 - ((b * np.exp(-a * t) - a * np.exp(-b * t)) / (b - a)).real
    exact[3] = 1.0 - (1.0 + w[3] * t) * np.exp(-w[3] * t)
    # the formula itself loses digits near the critical damping
    np.testing.assert_allclose(y[:, :, 1], exact, atol=1e-9)


# ---- torque forms


@cache
def servo_loop(kind: str, effort: float | None) -> cd.Loop:
    """A pendulum under gravity with a servo in torque form."""
    if kind == "first":
        servo: Any = cd.blocks.FirstOrderTorqueServo("hinge", 0.1, effort, name="servo")
    else:
        servo = cd.blocks.SecondOrderTorqueServo("hinge", 1.5, 0.4, effort, name="servo")
    return pendulum(lambda x, target: servo(target, x), target=1)


@pytest.mark.parametrize("effort", [None, 1e5])
def test_a_joint_follows_the_first_order_lag_whatever_it_carries(effort: float | None) -> None:
    loop = servo_loop("first", effort)
    lag = np.array([0.03, 0.1, 0.5])
    q = loop.rollout(states(loop, 3, 0.2), np.full((3, 1, 1), 1.2), 400, parameters={"servo.lag": lag})["q"][..., 0]
    t = H * np.arange(1, 401)
    np.testing.assert_allclose(q, 1.2 - np.exp(-t / lag[:, None]), atol=LAW)


@pytest.mark.parametrize("effort", [None, 1e5])
def test_a_joint_has_the_second_order_response(effort: float | None) -> None:
    loop = servo_loop("second", effort)
    q = loop.rollout(loop.state(q=[0.2]), np.array([1.2]), 400)["q"][:, 0]
    w, zeta, t = 2.0 * np.pi * 1.5, 0.4, H * np.arange(1, 401)
    d = w * np.sqrt(1.0 - zeta**2)
    np.testing.assert_allclose(q, 1.2 - np.exp(-zeta * w * t) * (np.cos(d * t) + zeta * w / d * np.sin(d * t)), atol=LAW)


def test_a_servo_at_its_effort_limit_falls_behind_and_recovers() -> None:
    loop = servo_loop("first", 1e5)
    out = loop.rollout(loop.state(q=[0.0]), np.array([2.5]), 1500, parameters={"servo.effort": 20.0})
    q, v = out["q"][:, 0], out["v"][:, 0]
    # I a = tau + 9.81 cos(q): gravity turns it downward, which is +
    torque = INERTIA * np.diff(v) / H - G * np.cos(q[:-1])
    assert np.abs(torque).max() <= 20.0 * (1.0 + 1e-6) and np.abs(torque).max() > 19.9
    assert q[-1] == pytest.approx(2.5, abs=1e-6)


# ---- implicit PD


def test_implicit_pd_is_stable_at_any_gain_and_saturates() -> None:
    pd = cd.blocks.ImplicitPD("hinge", 100.0, 1.0, effort=30.0)
    loop = pendulum(lambda x, target: pd(target, x), target=1)
    kp, kd = 10.0 ** np.array([0.0, 2.0, 4.0, 6.0, 9.0, 12.0]), np.array([0.01, 1.0, 2e3, 2e5, 2e8, 1e6])
    numbers = {"implicit_pd.kp": kp, "implicit_pd.kd": kd}
    out = loop.rollout(states(loop, 6), np.full((6, 1, 1), 0.5), 2000, parameters=numbers)
    q, v = out["q"][..., 0], out["v"][..., 0]
    torque = INERTIA * np.diff(v, axis=1) / H - G * np.cos(q[:, :-1])
    wanted = np.clip(kp[:, None] * (0.5 - q[:, 1:]) - kd[:, None] * v[:, 1:], -30.0, 30.0)
    # where rounding of q itself is not larger than that
    np.testing.assert_allclose(torque[:4], wanted[:4], atol=30.0 * 1e-6)
    assert np.abs(torque).max() <= 30.0 * (1.0 + 1e-6)
    np.testing.assert_allclose(q[2:5, -1], 0.5, atol=2e-3)
    # derivatives by the implicit function theorem: at its limit the drive is a constant torque, else a spring and damper
    x, d = loop.state(q=[0.3], v=[0.4]), 1e-6
    for effort, saturated in ((1.0, True), (1e3, False)):
        own = {"implicit_pd.effort": effort}
        _, A, B = loop.step(x, np.array([0.5]), parameters=own, derivatives=True)
        ends = [loop.step(x, np.array([0.5 + e]), parameters=own) for e in (d, -d)]
        np.testing.assert_allclose(B[:, 0], (ends[0] - ends[1]) / (2 * d), atol=1e-9)
        ends = [loop.step(x + np.array([0.0, e, 0.0]), np.array([0.5]), parameters=own) for e in (d, -d)]
        np.testing.assert_allclose(A[:, 1], (ends[0] - ends[1]) / (2 * d), atol=1e-9)
        assert (B[1, 0] == 0.0) == saturated


# ---- torque actuator


def test_torque_speed_line_in_all_quadrants() -> None:
    v = np.array([-30.0, -20.0, -10.0, 0.0, 10.0, 20.0, 30.0])
    lower, upper = torque_bounds(v, 4.0, 6.0, 20.0)
    # motoring forward, v > 0: the line; braking, v < 0: the effort; beyond the no-load speed only braking
    np.testing.assert_allclose(upper, [4.0, 4.0, 4.0, 4.0, 3.0, 0.0, -3.0])
    np.testing.assert_allclose(lower, -upper[::-1])


def test_a_torque_actuator_runs_up_to_its_no_load_speed() -> None:
    motor = cd.blocks.TorqueActuator("hinge", 4.0, stall=6.0, speed=20.0)
    loop = pendulum(lambda x, command: motor(command, x), gravity=0.0, command=1)
    speed = np.array([20.0, 20.0, 1e-3])
    command = np.array([10.0, -2.0, 10.0])[:, None, None] * np.ones((3, 1, 1))
    out = loop.rollout(states(loop, 3), command, 8000, parameters={"torque_actuator.speed": speed})
    v = out["v"][..., 0]
    # full effort at first, then the line; a weaker command until the line allows no more
    np.testing.assert_allclose(v[0, :100], 4.0 * H * np.arange(1, 101) / INERTIA, rtol=1e-6)
    np.testing.assert_allclose(v[1, :100], -2.0 * H * np.arange(1, 101) / INERTIA, rtol=1e-6)
    assert v[0, -1] == pytest.approx(20.0, abs=0.2) and np.all(np.diff(v[0]) > -1e-9)
    # a steep line is stable: it settles at the tiny no-load speed
    assert v[2, -1] == pytest.approx(1e-3, rel=1e-3) and np.abs(v[2]).max() < 0.1


# ---- motors


def test_dc_motor_reaches_its_speed_and_its_current() -> None:
    motor = cd.blocks.DCMotor("hinge", 2.0, 0.05, gear_ratio=10.0, rotor_inertia=1e-3, inductance=4e-3, supply=24.0, name="motor")
    loop = pendulum(lambda x, command: motor(command, x), gravity=0.0, command=1)
    out = loop.rollout(loop.state(), np.array([30.0]), 50000, record=["v", "motor.current"])
    v, current = out["v"][:, 0], out["motor.current"][:, 0]
    # the voltage is limited by the supply, and the back EMF ends the run-up: V = N ke v
    assert v[-1] == pytest.approx(24.0 / (10.0 * 0.05), rel=1e-3)
    # the exact mean over each tick of the current in a rotor that hardly turns
    t = H * np.arange(5)
    np.testing.assert_allclose(current[:5], 12.0 * (1.0 - np.exp(-t * 2.0 / 4e-3)), rtol=2e-3)
    # inertia of the joint and of the rotor behind the gear
    lag = 4e-3 / 2.0
    mean = 12.0 * (1.0 - lag / H * (1.0 - np.exp(-H / lag)))
    damping = 0.25 / 2.0 * (1.0 - lag / H * (1.0 - np.exp(-H / lag)))
    assert v[0] == pytest.approx(0.5 * mean * H / (INERTIA + 0.1 + damping * H), rel=1e-9)


def test_a_gear_without_full_efficiency_holds_a_small_load() -> None:
    motor = cd.blocks.DCMotor("hinge", 1.0, 0.1, gear_ratio=20.0, efficiency=0.7, current_limit=50.0, name="motor")
    loop = pendulum(lambda x, command: motor(command, x), command=1)
    # 9.81 N m of gravity downward; holding takes less than 9.81, lifting more
    volts = -np.array([9.81 * 0.75, 9.81, 9.81 / 0.75, 9.81 / 0.65]) / 2.0
    v = loop.rollout(states(loop, 4), volts[:, None, None], 100)["v"][..., 0]
    assert np.all(np.abs(v[:3, -1]) < 1e-3) and v[3, -1] < -0.02


def test_series_elastic_is_the_implicit_step_of_two_inertias() -> None:
    k, J, d, b = 300.0, 0.2, 0.4, 0.1
    elastic = cd.blocks.SeriesElastic("hinge", k, J, damping=d, motor_damping=b, name="elastic")
    loop = pendulum(lambda x, command: elastic(command, x), gravity=0.0, command=1)
    record = ["q", "v", "elastic.angle"]
    out = loop.rollout(loop.state(q=[0.1]), np.array([2.0]), 300, record=record)
    M, K = np.diag([INERTIA, J]), k * np.array([[1.0, -1.0], [-1.0, 1.0]])
    B = d * np.array([[1.0, -1.0], [-1.0, 1.0]]) + np.diag([0.0, b])
    q, v = np.array([0.1, 0.1]), np.zeros(2)
    for i in range(300):
        assert float(out["elastic.angle"][i, 0]) == pytest.approx(q[1], abs=1e-9)
        v = np.linalg.solve(M + H * B + H * H * K, M @ v + H * (np.array([0.0, 2.0]) - K @ q))
        q = q + H * v
        assert out["q"][i, 0] == pytest.approx(q[0], abs=1e-9)
    # any stiffness is stable: the two inertias move as one
    stiff = loop.rollout(loop.state(), np.array([2.0]), 300, parameters={"elastic.stiffness": 1e12, "elastic.motor_damping": 0.0})
    assert stiff["v"][-1, 0] == pytest.approx(2.0 * 300 * H / (INERTIA + J), rel=1e-6)


# ---- errors


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cd.blocks.ImplicitPD([], 1.0), "needs the names of one or more joints"),
        (lambda: cd.blocks.ImplicitPD(["a", "a"], 1.0), "names a joint twice"),
        (lambda: cd.blocks.ImplicitPD(["a", "b"], [1.0, 2.0, 3.0]), "kp must be one number, or 2 for its 2 joints"),
        (lambda: cd.blocks.ImplicitPD("a", -1.0), "'implicit_pd.kp' must be .*at least 0"),
        (lambda: cd.blocks.TorqueActuator("a", 1.0, stall=2.0), "needs the no-load speed"),
        (lambda: cd.blocks.Rotor("a", 1e-5, direction=0.5), "direction must be 1"),
        (lambda: cd.blocks.DCMotor("a", 1.0, 0.1, efficiency=1.2), "efficiency' must be .*at most 1"),
    ],
)
def test_impossible_values_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ControlError, match=message):
        make()


def test_a_wrong_joint_is_named() -> None:
    pd = cd.blocks.ImplicitPD("hing", 1.0)
    with pytest.raises(cd.CondyleError, match="hinge"):
        pendulum(lambda x: pd(0.1, x))
