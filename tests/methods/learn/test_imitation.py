"""Imitation: demonstrations and their files, clones that are the same for a seed, gradients through an environment."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from condyle.apps.pidog.gait_teacher import servo_targets, teacher
from condyle.blocks import MLP
from condyle.errors import ControlError, FileError
from condyle.methods.learn.demonstrations import Demonstrations
from condyle.methods.learn.gradients import rollout_vjp
from condyle.methods.learn.imitation import clone
from condyle.methods.learn.policy import initial_policy
from condyle.methods.learn.shac import SHAC, Settings
from condyle.methods.learn.task import load_task


def demonstrations() -> Demonstrations:
    """A teacher that answers by two of three observations."""
    x = np.random.default_rng(0).normal(size=(20, 40, 3)).astype(np.float32)
    y = np.stack([np.sin(x[..., 0]), 0.5 * x[..., 1]], axis=-1)
    return Demonstrations(x, y, np.ones((20, 40), bool), "pidog", "walk", 50.0, [("a", 3)], ["u", "v"])


@pytest.mark.parametrize("network", ["mlp", "lstm"])
def test_a_clone_answers_as_its_teacher_and_depends_on_the_seed_alone(network: str) -> None:
    options: dict[str, Any] = {"hidden": (16,), "epochs": 200, "learning_rate": 1e-2}
    first, again = clone(demonstrations(), network, **options), clone(demonstrations(), network, **options)
    for a, b in zip(first.policy.arrays().values(), again.policy.arrays().values(), strict=True):
        assert np.array_equal(a, b)
    assert first.held_out < 0.5 * demonstrations().actions.std()  # few samples: most of what varies is answered
    with pytest.raises(ControlError, match="a network is one of mlp, lstm"):
        clone(demonstrations(), "gru")


def test_files_of_demonstrations(tmp_path: Path) -> None:
    path = demonstrations().save(tmp_path / "data.cdd")
    assert np.array_equal(Demonstrations.load(path).actions, demonstrations().actions.astype(np.float32))
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(FileError, match="truncated or damaged"):
        Demonstrations.load(path)
    with pytest.raises(ControlError, match=r"actions must be \(20, 40, 3\)"):
        data = demonstrations()
        Demonstrations(data.observations, data.actions, data.valid, "pidog", "walk", 50.0, [("a", 3)], ["u", "v", "w"])


def test_a_teachers_actions_are_its_gait() -> None:
    guide = teacher("walk")
    phase = np.arange(len(guide.feet)) / len(guide.feet)
    actions = guide.actions(phase, guide.speed, 0.0)
    angles = servo_targets(guide.numbers, actions)
    assert np.abs(actions).max() < guide.numbers["action_limit"] and np.isfinite(angles).all()
    turning = guide.actions(phase, guide.speed, guide.turn)  # left steps are 0.3 of the right ones
    np.testing.assert_allclose(turning[:, 0], 0.3 * actions[:, 0], atol=1e-12)
    np.testing.assert_allclose(turning[:, 2], actions[:, 2], atol=1e-12)
    with pytest.raises(ControlError, match="a gait to imitate is one of walk, trot, controller"):
        teacher("gallop")


@pytest.mark.slow
def test_gradients_through_an_environment_are_differences_and_shac_uses_them() -> None:
    env = load_task("cartpole", "swing-up").make(4, seed=1, dtype=np.float64)
    policy, std = initial_policy((env.observation_size, 8, env.action_size), seed=1, gain=0.5), np.array([0.1])
    rng, start = np.random.default_rng(0), env.state
    found, pullback = rollout_vjp(env, policy, 6, std)
    weights, last = rng.normal(size=found["reward"].shape), rng.normal(size=found["final_observation"].shape)
    by = pullback(reward=weights, final_observation=last)
    direction = [rng.normal(size=(W.shape[0], W.shape[1] + 1)) for W, _ in policy.layers]
    values = []
    for h in (1e-5, -1e-5):
        env.restore(start)
        moved = [np.column_stack([W, b]).astype(float) + h * d for (W, b), d in zip(policy.layers, direction, strict=True)]
        block = MLP(
            [(rows[:, :-1], rows[:, -1]) for rows in moved], "elu", mean=policy.mean, std=policy.std, observation_clip=5.0
        )
        out, _ = rollout_vjp(env, block, 6, std)
        values.append((out["reward"] * weights).sum() + (out["final_observation"] * last).sum())
    along = sum(float((by[f"policy.layer{k}"] * d).sum()) for k, d in enumerate(direction))
    np.testing.assert_allclose(along, (values[0] - values[1]) / 2e-5, rtol=1e-4)  # the error of central differences
    agent = SHAC(env.observation_size, env.action_size, settings=Settings(horizon=6, hidden=(8,), critic_epochs=1))
    before = agent.parameters.copy()
    _, numbers = agent.iterate(env)
    assert np.isfinite(numbers["gradient_norm"]) and not np.array_equal(before, agent.parameters)
