"""Joint friction, rotors, wrenches, hobby servos and policies in loops, against their closed forms."""

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from simulate.bodies import a_box, a_pendulum

import condyle as cd
from condyle.blocks import policy as network
from condyle.errors import ControlError

H, G = 0.002, 9.81


# ---- friction


def test_a_joint_really_sticks_and_slips() -> None:
    friction = cd.blocks.JointFriction("hinge", 2.0, 0.3, static=3.0, stribeck_speed=0.2)
    sim = cd.Simulation(a_pendulum(gravity=0.0), H)
    loop = cd.Loop(sim, lambda x, push: cd.blocks.combined(push, friction(x)), push=1)
    push = np.array([2.9, 3.2, -1.5])
    v = loop.rollout(np.tile(loop.state(), (3, 1)), push[:, None, None], 1000)["v"][..., 0]
    # 1.5 and 2.9 N m do not move it, but for the creep of the contact solver; 3.2 N m do
    assert np.abs(v[2]).max() < 1e-5 and np.abs(v[0]).max() < 2e-4 and v[1, -1] > 0.5
    # at speed: I v' = push - coulomb - viscous v, the Stribeck part is gone
    late = v[1, 500:]
    assert late[-1] < (3.2 - 2.0) / 0.3
    predicted = (late[:-1] + H * (3.2 - friction_at(late[:-1]))) / (1.0 + 0.3 * H)
    np.testing.assert_allclose(late[1:], predicted, rtol=1e-4)


def friction_at(v: np.ndarray) -> np.ndarray:
    """Coulomb and Stribeck friction of the test above."""
    return 2.0 + (3.0 - 2.0) * np.exp(-((v / 0.2) ** 2))


# ---- wrenches


@cache
def box_loop() -> cd.Loop:
    """A box of 1 kg in free fall with pushes, a rotor and a sine force."""
    pulse = cd.blocks.WrenchPulse("box", [6.0, 0, 0, 0, 0, 0], start=0.0123, duration=0.0301, name="pulse")
    train = cd.blocks.WrenchPulse("box", [0, 2.0, 0, 0, 0, 0], start=0.005, duration=0.0077, period=0.0253, name="train")
    sine = cd.blocks.SineWrench("box", [0, 0, 1.0, 0, 0, 0], 5.0, 0.3, name="sine")
    pushes = cd.blocks.RandomPushes("box", [0, 0, 0, 0, 0, 0], rate=20.0, duration=0.011, name="pushes")
    return cd.Loop(cd.Simulation(a_box(), H), lambda x: cd.blocks.combined(pulse(x), train(x), sine(x), pushes(x)), dt=None)


def test_pulses_have_their_exact_impulse() -> None:
    loop = box_loop()
    v = loop.rollout(loop.state(), None, 100)["v"]
    np.testing.assert_allclose(v[[5, 20, 99], 0], [0.0, 6.0 * (0.042 - 0.0123), 6.0 * 0.0301], atol=1e-9)
    t = H * np.arange(1, 101)
    cycles = np.floor(np.maximum(t - 0.005, 0.0) / 0.0253)
    on = cycles * 0.0077 + np.minimum(np.maximum(t - 0.005, 0.0) - cycles * 0.0253, 0.0077)
    np.testing.assert_allclose(v[:, 1], 2.0 * on, atol=1e-9)
    w = 2.0 * np.pi * 5.0
    np.testing.assert_allclose(v[:, 2] + G * t, (np.cos(0.3) - np.cos(w * t + 0.3)) / w, atol=1e-9)


def test_random_pushes_are_functions_of_seed_and_robot() -> None:
    loop = box_loop()
    x = np.tile(loop.state(), (64, 1))
    numbers = {"pushes.deviation": [3.0, 0, 0, 0, 0, 0.1], "pulse.wrench": np.zeros(6)}
    v = loop.rollout(x, None, 500, parameters=numbers, seed=4)["v"]
    again = loop.rollout(x[10:13], None, 500, parameters=numbers, seed=4, robots=[10, 11, 12])["v"]
    np.testing.assert_array_equal(v[10:13], again)
    changes = np.abs(np.diff(v[..., 5], axis=1)) > 1e-12
    # a push starts at a rate of 20 in the time in which there is none
    busy = changes.mean()
    starts = np.count_nonzero(changes[:, 1:] & ~changes[:, :-1]) / (64 * 500 * H)
    assert starts == pytest.approx(20.0 * (1.0 - busy), rel=0.2)


# ---- rotor


def test_rotor_thrust_drag_and_reaction() -> None:
    k, lag, J = 2e-5, 0.05, 4e-4
    rotor = cd.blocks.Rotor("box", k, direction=-1, drag=0.02, lag=lag, spin_inertia=J, max_speed=900.0, name="rotor")
    loop = cd.Loop(cd.Simulation(a_box(), H), lambda x, command: rotor(command[0], x), command=1)
    out = loop.rollout(loop.state(), np.array([800.0]), 200, record=["v", "rotor.thrust", "rotor.speed"])
    t = H * np.arange(1, 201)
    np.testing.assert_allclose(out["rotor.speed"], 800.0 * (1.0 - np.exp(-t / lag)), rtol=1e-12)
    # the impulse of k w^2 with w = 800 (1 - exp(-t / lag))
    impulse = k * 800.0**2 * (t - 2.0 * lag * (1.0 - np.exp(-t / lag)) + 0.5 * lag * (1.0 - np.exp(-2.0 * t / lag)))
    np.testing.assert_allclose(out["v"][:, 2], impulse - G * t, rtol=1e-9, atol=1e-9)
    # turning clockwise, its drag and its acceleration turn the body counter-clockwise
    inertia = (0.2**2 + 0.2**2) / 12.0
    np.testing.assert_allclose(out["v"][:, 5], (0.02 * impulse + J * out["rotor.speed"]) / inertia, rtol=1e-9)
    # a rolling body: the gyroscopic torque turns the spin's axis, w x L
    spinning = loop.state(v=[0, 0, 0, 1.0, 0, 0], **{"rotor.speed": 800.0})
    x1 = loop.step(spinning, np.array([800.0]))
    I_y = (0.2**2 + 0.1**2) / 12.0
    # torque -(w x s J w z) = -(1, 0, 0) x (0, 0, -0.32) = (0, -0.32, 0)
    assert loop.unpacked(x1)["v"][4] == pytest.approx(-J * 800.0 * H / I_y, rel=1e-2)
    assert float(rotor.speed_of(k * 250.0**2)) == pytest.approx(250.0)


# ---- hobby servo


@cache
def servo_loop() -> cd.Loop:
    """A pendulum without gravity, of little inertia, with a hobby servo."""
    servo = cd.blocks.HobbyServo(
        "hinge", effort=400.0, speed=5.0, dead_band=0.02, resolution=0.01, delay=0.01, max_delay=0.03, name="servo"
    )
    return cd.Loop(cd.Simulation(a_pendulum(gravity=0.0), H), lambda x, target: servo(target, x), target=1)


def test_hobby_servo_delay_rate_dead_band_and_steps() -> None:
    loop = servo_loop()
    names = ["servo.shaft", "q"]
    out = loop.rollout(loop.state(), np.array([0.5043]), 200, record=names)
    shaft = out["servo.shaft"][:, 0]
    t = H * np.arange(1, 201)
    # 5 rad/s after 10 ms, to the dead band before the quantised target
    expected = np.minimum(np.maximum(5.0 * (t - 0.01), 0.0), 0.5 - 0.02)
    np.testing.assert_allclose(shaft, expected, atol=1e-9)
    assert out["q"][-1, 0] == pytest.approx(0.48, abs=1e-3)
    # within the dead band nothing moves
    still = loop.rollout(loop.state(), np.array([0.0199]), 50, record=names)
    np.testing.assert_allclose(still["q"], 0.0, atol=1e-12)
    later = loop.rollout(loop.state(), np.array([0.5043]), 200, record=names, parameters={"servo.delay": 0.03})
    np.testing.assert_allclose(later["servo.shaft"][10:, 0], shaft[:-10], atol=1e-12)


def test_hobby_servo_backlash_and_sag() -> None:
    loop = servo_loop()
    play = loop.rollout(loop.state(), np.array([0.5]), 600, parameters={"servo.backlash": 0.1})["q"][:, 0]
    # pushed from below, the joint stops half the gap before the shaft at 0.48, or coasts on within the gap
    assert 0.43 - 1e-3 < play[-1] < 0.53 + 1e-3
    names = ["servo.voltage", "servo.torque", "servo.shaft"]
    out = loop.rollout(
        loop.state(),
        np.array([0.5]),
        100,
        record=names,
        parameters={"servo.source_resistance": 1e-3, "servo.current_per_torque": 6.0},
    )
    voltage, torque, shaft = out["servo.voltage"], out["servo.torque"][:, 0], out["servo.shaft"][:, 0]
    np.testing.assert_allclose(voltage, 6.0 - 1e-3 * 6.0 * np.abs(torque), rtol=1e-12)
    assert voltage.min() < 5.9
    # the speed falls with the voltage
    moving = (shaft > 0.01) & (shaft < 0.4)
    speed = np.diff(shaft, prepend=0.0) / H
    np.testing.assert_allclose(speed[moving], 5.0 * voltage[moving] / 6.0, rtol=1e-9)


# ---- policy


def reference(x: np.ndarray, layers: Any, activation: Any) -> np.ndarray:
    """The network in NumPy."""
    for k, (W, b) in enumerate(layers):
        x = x @ W.T + b
        x = activation(x) if k < len(layers) - 1 else x
    return x


@pytest.mark.parametrize("activation", ["elu", "relu", "tanh"])
def test_policy_is_its_network(activation: str) -> None:
    rng = np.random.default_rng(1)
    sizes = (5, 16, 8, 3)
    new = lambda: [(rng.normal(size=(n, m)) / 3.0, rng.normal(size=n)) for m, n in pairwise(sizes)]  # noqa: E731
    layers, others = new(), new()
    mean, std = rng.normal(size=5), rng.uniform(0.5, 2.0, 5)
    policy = cd.blocks.MLP(
        layers, activation, mean=mean, std=std, observation_clip=2.0, scale=0.5, offset=[0.1, 0.2, 0.3], clip=1.0
    )
    loop = cd.Loop(None, lambda t, observation: {"action": policy(observation)}, dt=0.02, observation=5)
    function = {
        "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
        "relu": lambda x: np.maximum(x, 0),
        "tanh": np.tanh,
    }
    x = rng.normal(size=(40, 1, 5))
    for given in (layers, others):
        tables = {f"policy.layer{k}": np.column_stack(layer) for k, layer in enumerate(given)}
        found = loop.rollout(np.tile(loop.state(), (40, 1)), x, 1, parameters=tables, record=["action"])["action"][:, 0]
        net = reference(np.clip((x[:, 0] - mean) / std, -2.0, 2.0), given, function[activation])
        np.testing.assert_allclose(found, np.clip(net, -1.0, 1.0) * 0.5 + [0.1, 0.2, 0.3], rtol=1e-12, atol=1e-13)
    # other weights are data: one compiled function
    assert len(loop._functions) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neurons_computed_together_have_the_bits_of_each_by_itself(dtype: type, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(40, 9)).astype(dtype)

    def outputs(count: int, most: int) -> np.ndarray:
        monkeypatch.setattr(network, "TOGETHER", most)
        weights = np.random.default_rng(count).normal(size=(count, 10)).astype(dtype)
        function = cd.function(lambda x, w: network.layer(w, x, network.elu), x=9, w=cd.Uniform(count, 10), cache=False)
        found: np.ndarray = function(x, weights)
        return found

    # in groups of 4 and of 3, and one by one
    for count in (16, 9, 11):
        assert np.array_equal(outputs(count, 4), outputs(count, 1))


def test_policies_with_wrong_shapes_are_refused() -> None:
    with pytest.raises(ControlError, match="layer 0 has 4 outputs, and layer 1 takes 3"):
        cd.blocks.MLP([(np.ones((4, 2)), np.ones(4)), (np.ones((1, 3)), np.ones(1))])
    with pytest.raises(ControlError, match="activation must be one of elu"):
        cd.blocks.MLP([(np.ones((4, 2)), np.ones(4))], "gelu")


def test_a_slow_block_holds_a_wrench_in_local_axes() -> None:
    rotor = cd.blocks.Rotor("box", 2e-5, every=4)
    loop = cd.Loop(cd.Simulation(a_box(), H), lambda x, command: rotor(command[0], x), command=1)
    v = loop.rollout(loop.state(), np.array([500.0]), 40)["v"]
    assert v[-1, 2] == pytest.approx((2e-5 * 500.0**2 - G) * 40 * H, rel=1e-9)
