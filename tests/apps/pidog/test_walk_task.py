"""PiDog's walking task: its controller, symmetry, randomisation, and a gait that walks before anything is learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from condyle.apps.pidog import controller
from condyle.apps.pidog import training_robot as pidog_robot
from condyle.apps.pidog.kinematics import FEET, JOINTS
from condyle.apps.pidog.walk_task import WALK, make
from condyle.methods.learn.mirror import mirrored
from condyle.methods.learn.task import load_task
from condyle.robot.library.pidog import FOOT_RADIUS
from condyle.tape.function import Function
from condyle.tape.trace import trace

N, M = sum(size for _, size in controller.OBSERVATION), len(controller.ACTION)
SWAP = (1, 0, 3, 2)
FLIP = np.array([1.0, -1.0, 1.0])  # of a vector in a mirror; an angular velocity gets the other signs


def random_state(rng: np.random.Generator) -> dict[str, np.ndarray]:
    state = {name: 0.1 * rng.normal(size=np.shape(value)) for name, value in controller.initial().items()}
    down = np.array([0.1, -0.15, -1.0])
    return {**state, "phase": rng.uniform(size=1), "down": down / np.linalg.norm(down), "command": np.array([0.15, 0.2])}


def frame(state: dict[str, Any], rate: Any, acceleration: Any, command: Any, action: Any) -> tuple[Any, Any, dict[str, Any]]:
    """One frame of the dog's program: observation, angles, next state."""
    seen, state = controller.observe(controller.NUMBERS, state, rate, acceleration, command)
    angles, state = controller.act(controller.NUMBERS, state, action)
    return seen, angles, state


def test_controller_traced_gives_what_numpy_gives() -> None:
    rng = np.random.default_rng(0)
    state = random_state(rng)
    ends = np.cumsum([value.size for value in state.values()])

    def traced(rate: Any, acceleration: Any, command: Any, action: Any, packed: Any) -> dict[str, Any]:
        parts = {name: packed[end - state[name].size : end] for name, end in zip(state, ends, strict=True)}
        seen, angles, after = frame(parts, rate, acceleration, command, action)
        return {"seen": seen, "angles": angles, **{f"next_{name}": value for name, value in after.items()}}

    function = Function(trace(traced, rate=3, acceleration=3, command=2, action=M, packed=int(ends[-1])), "reference")
    inputs = rng.normal(size=3), np.array([0.3, -0.2, 9.5]), np.array([0.2, -0.1]), rng.normal(size=M)
    found = function(*inputs, np.concatenate(list(state.values())))
    seen, angles, after = frame(state, *inputs)
    for got, wanted in zip(found, [seen, angles, *after.values()], strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-14)


def test_observation_and_action_have_the_sizes_and_names_of_the_task() -> None:
    assert load_task("pidog", "walk") is WALK
    seen, angles, _ = frame(controller.initial(), np.zeros(3), np.array([0.0, 0.0, 9.81]), np.zeros(2), np.zeros(M))
    assert seen.shape == (N,) and angles.shape == (8,) and tuple(JOINTS) == pidog_robot.JOINTS


def test_mirror_is_a_symmetry_of_the_controller() -> None:
    rng = np.random.default_rng(1)
    mirror = WALK.mirror
    assert mirror is not None
    at = np.cumsum([0, *[size for _, size in controller.OBSERVATION]])
    signs = {
        name: np.array(mirror.observation[1][a:b]) for (name, _), a, b in zip(controller.OBSERVATION, at, at[1:], strict=False)
    }
    for _ in range(5):
        state, action = random_state(rng), rng.normal(size=M)
        image = {name: value * signs.get(name, 1.0) for name, value in state.items()}
        image |= {"phase": (state["phase"] + 0.5) % 1.0, "action": mirrored(state["action"], mirror.action)}
        rate, acceleration, command = rng.normal(size=3), np.array([0.3, -0.2, 9.5]), np.array([0.2, -0.1])
        seen, angles, _ = frame(state, rate, acceleration, command, action)
        inputs = rate * -FLIP, acceleration * FLIP, command * (1.0, -1.0), mirrored(action, mirror.action)
        image_seen, image_angles, _ = frame(image, *inputs)
        np.testing.assert_allclose(image_seen, mirrored(seen, mirror.observation), atol=1e-12)
        # servos of the right side are mounted mirrored
        np.testing.assert_allclose(image_angles.reshape(4, 2), -angles.reshape(4, 2)[list(SWAP)], atol=1e-12)


def test_randomization_has_all_that_differs_from_dog_to_dog() -> None:
    names = set(pidog_robot.randomization())
    servo = {f"servo.{name}" for name in ("effort", "speed", "dead_band", "delay", "backlash", "source_resistance")}
    imu = {f"imu.{name}" for name in ("rate_bias", "acceleration_bias", "misalignment", "delay")}
    assert names == servo | imu | {"torso.mass", "torso.com", "ground.friction", "horn.offset", "push.force", "gravity"}
    drawn = pidog_robot.randomized(np.random.default_rng(0), 200)
    tilt = np.degrees(np.arccos(-drawn["gravity"][:, 2] / 9.81))
    assert 4.0 < tilt.max() < 5.0 and drawn["ground.friction"].min() < 0.32 and drawn["horn.offset"].shape == (200, 8)
    heights = pidog_robot.rough(*np.random.default_rng(1).uniform(-1.0, 1.0, (2, 10_000)))
    assert np.ptp(heights) == pytest.approx(0.005, rel=0.02)


@pytest.mark.slow
def test_gait_walks_before_anything_is_learned() -> None:
    env = make(8, randomize=False, speed=0.22, turn=0.0)
    assert env.observation_size == N and env.privileged_size == 37 and env.action_size == M
    places = []
    for step in range(200):
        _, rewards, terminated, _, _ = env.step(np.zeros((8, M), np.float32))
        assert np.isfinite(rewards).all() and not terminated.any()
        if step in (74, 199):
            places.append(env["q"][:, 0].copy())
    speed = (places[1] - places[0]) / 2.5
    assert speed.mean() > 0.15, speed


def test_the_dog_stands_on_all_feet() -> None:
    """Front legs are longer than hind legs, so it is pitched; feet in the ground would throw it up in MuJoCo."""
    q, robot = pidog_robot.standing(), pidog_robot.robot()
    heights = [float(robot.frame_pose(q, foot)[1][2]) - FOOT_RADIUS for foot in FEET]
    np.testing.assert_allclose(heights, 0.0, atol=1e-12)
    assert controller.NUMBERS["depth"][0] > controller.NUMBERS["depth"][1] and q[4] < 0.0  # nose up
