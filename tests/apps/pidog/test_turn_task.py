"""PiDog's tasks "turn" and "heading": commands change, headings are followed by the gyroscope, errors are measured."""

import numpy as np
import pytest

from condyle.apps.pidog import controller
from condyle.apps.pidog import turn_task as pidog_turn
from condyle.apps.pidog.plant import attitude
from condyle.methods.learn.env import Rollouts
from condyle.methods.learn.task import load_task

ROBOTS, STEPS = 8, 350


def rollout(name: str, *more: str) -> Rollouts:
    """Robots that are not randomised, without a network, for 7 s."""
    task = load_task("pidog", name)
    env = task.make(ROBOTS, seed=2, randomize=False)
    actions = np.zeros((ROBOTS, STEPS, env.action_size), np.float32)
    return env.rollout(actions, record={**task.record, **dict.fromkeys(("q", "asked", *more))})


@pytest.mark.slow
def test_the_heading_is_estimated_and_followed() -> None:
    found = rollout("heading", "follow.estimate", "controller.command", "controller.rate", "controller.down")
    assert not found.failed.any() and not found.terminated.any()
    asked, yaw = found["asked"][..., 1], np.unwrap(attitude(found["q"].astype(float))[..., 2], axis=1)
    # the estimate is the sum of measured rates about the vertical that was estimated a frame before
    estimate = found["follow.estimate"].reshape(yaw.shape)
    vertical = -np.sum(found["controller.down"][:, :-1] * found["controller.rate"][:, 1:], axis=-1)
    assert np.diff(estimate, axis=1) == pytest.approx(vertical / controller.RATE, abs=1e-5)
    # rates are sampled 50 times a second, and feet hit the ground in between: about a tenth of a rad in 7 s; how far a single dog
    # is off depends on when its feet hit, which rounding errors decide
    off = np.abs(estimate - yaw).max(axis=1)
    assert np.median(off) < 0.15 and off.max() < 0.35
    # a command holds for a policy step: the next one's frame sees what the last left
    error = (asked[:, :-1] - estimate[:, 1:] + np.pi) % (2.0 * np.pi) - np.pi
    wanted = np.clip(pidog_turn.GAIN * error, *pidog_turn.TURNS)
    assert found["controller.command"][:, 1:, 1] == pytest.approx(wanted, abs=1e-4)
    first = asked[:, 0]
    assert np.abs(first).max() <= pidog_turn.STEP and len(np.unique(first)) == ROBOTS
    # before it changes, about half of the way to a heading is turned, also without a network
    held = np.argmax(asked != first[:, None], axis=1)
    held = np.where(held == 0, STEPS, held) - 1
    assert (held < STEPS - 1).any() and held.min() >= 299
    late = np.abs(first - yaw[np.arange(ROBOTS), held])
    assert late.mean() < 0.6 * np.abs(first).mean()
    measures = load_task("pidog", "heading").measure(found)
    assert set(measures) == {"heading_error", "speed_error", "falls"} and 0.0 < measures["heading_error"] < 30.0


@pytest.mark.slow
def test_turning_is_asked_for_on_the_spot_and_while_walking() -> None:
    found = rollout("turn", "turning", "target")
    asked = found["asked"].reshape(-1, 2)
    assert not found.failed.any() and (asked[:, 0] == 0.0).any() and (asked[:, 0] > 0.05).any()
    assert np.abs(asked[:, 1]).max() <= pidog_turn.TURNS[1] and len(np.unique(asked[:, 1])) > ROBOTS
    # a dog that turns too slowly is not asked for more than what the controller remembers
    yaw = np.unwrap(attitude(found["q"].astype(float))[..., 2], axis=1)
    late = np.abs(found["target"].reshape(yaw.shape) - yaw)
    assert late.max() < controller.NUMBERS["heading_limit"] + 1e-3
    settled = found["since"] > pidog_turn.SETTLED["turn"]
    rate, wanted = found["turning"][settled], found["asked"][..., 1][settled]
    assert np.corrcoef(rate, wanted)[0, 1] > 0.7  # the controller alone; feet slide while it turns
    measures = load_task("pidog", "turn").measure(found)
    assert measures["turn_error"] == pytest.approx(np.abs(rate - wanted).mean(), rel=1e-5)
