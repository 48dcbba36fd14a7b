"""Training of a task by rsl-rl's PPO: the same environment, hyperparameters and policy file as our own training.

    training = RslRlTraining(load_task("cartpole", "balance"), seed=0)
    for done in training.run(iterations=30): ...
    training.policy_file().save("balance.cdp")

Policy steps go through torch one at a time. Of our settings, rsl-rl has no `action_bound`, takes `clip` for `value_clip`, and has
bounds of the learning rate of its own; it does not normalise returns. A task's mirror is its symmetry, by doubled minibatches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import asdict
from io import StringIO
from time import perf_counter
from typing import Any, cast

import numpy as np

from condyle import __version__
from condyle.errors import require
from condyle.methods.learn.env import Rollouts, VectorEnv
from condyle.methods.learn.mirror import Mirror
from condyle.methods.learn.policy import Policy
from condyle.methods.learn.policy_file import PolicyFile
from condyle.methods.learn.ppo import Settings
from condyle.methods.learn.rsl_rl import rsl_rl_env
from condyle.methods.learn.task import Task
from condyle.methods.learn.training import ALGORITHMS, Iteration, policy_facts, rollout_numbers

UNBOUNDED = 1e6  # rsl-rl does not clip the normalised observations


class RslRlTraining:
    """A training of one task by rsl-rl, with the interface of `Training`, but for checkpoints."""

    def __init__(
        self,
        task: Task,
        *,
        seed: int = 0,
        envs: int | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        randomize: bool = True,
        threads: int | None = None,
    ) -> None:
        runners = require("rsl_rl.runners", "learn", "--library rsl-rl")
        torch = require("torch", "learn", "--library rsl-rl")
        torch.manual_seed(seed)
        if threads is not None:
            torch.set_num_threads(threads)
        given = {"hidden": task.hidden, **task.hyperparameters, **(hyperparameters or {})}
        usual = int(given.pop("envs", ALGORITHMS["ppo"]))
        self.task, self.seed, self.randomize, self.settings = task, seed, randomize, Settings.of(given)
        self.env = task.make(usual if envs is None else envs, seed=seed, randomize=randomize, **task.training)
        self.collector = Collector(self.env, task.record)
        mirror = task.mirror if self.settings.mirror else None
        configuration = runner_configuration(self.settings, self.env.privileged_size > 0, mirror)
        with redirect_stdout(StringIO()):  # it prints its networks
            wrapped = rsl_rl_env(cast("VectorEnv", self.collector))
            self.runner = runners.OnPolicyRunner(wrapped, configuration, log_dir=None, device="cpu")
        self.names: list[str] = []
        self.curves: list[list[float]] = []
        self.iterations, self.iteration, self.steps, self.seconds = task.iterations, 0, 0, 0.0

    def run(self, iterations: int | None = None, seconds: float | None = None) -> Iterator[Iteration]:
        """Every iteration up to number `iterations`, or until `seconds` of training have passed."""
        last = self.iterations if iterations is None else iterations
        while self.iteration < last and (seconds is None or self.seconds < seconds):
            yield self.step()

    def step(self) -> Iteration:
        """One iteration: a rollout of all robots, and the update by it."""
        if self.task.schedule is not None:
            for name, value in self.task.schedule(self.iteration).items():
                self.env.shared[name] = value
        self.collector.found.clear()
        start = perf_counter()
        self.runner.learn(1, init_at_random_ep_len=self.iteration == 0 and self.env.max_episode_steps is not None)
        end = perf_counter()
        self.iteration += 1
        rollouts = self.collector.rollouts()
        algorithm = self.runner.alg
        numbers = rollout_numbers(self.task, rollouts)
        numbers |= {"learning_rate": float(algorithm.learning_rate), "std": float(np.exp(self.policy().log_std).mean())}
        numbers |= {"simulating": self.collector.last - start, "updating": end - self.collector.last}
        numbers["samples"] = float(rollouts.rewards.size)
        self.names = self.names or list(numbers)
        self.curves.append([float(numbers.get(name, np.nan)) for name in self.names])
        self.steps += rollouts.rewards.size
        self.seconds += perf_counter() - start
        return Iteration(self.iteration, numbers, self.steps, self.seconds)

    def policy(self) -> Policy:
        """The actor of now."""
        actor = self.runner.alg.get_policy()
        linear = [each for each in actor.mlp if hasattr(each, "weight")]
        normalizer = actor.obs_normalizer
        layers = tuple((each.weight.detach().numpy().copy(), each.bias.detach().numpy().copy()) for each in linear)
        mean, std = normalizer.mean.numpy(), (normalizer.std + normalizer.eps).numpy()
        log_std = np.maximum(actor.distribution.log_std_param.detach().numpy(), np.log(self.settings.min_std))
        return Policy(layers, self.settings.activation, mean, std, UNBOUNDED, log_std)

    def policy_file(self, score: Mapping[str, Any] | None = None) -> PolicyFile:
        """The policy of now, with everything its use needs."""
        training = {
            "algorithm": "ppo",
            "library": "rsl-rl",
            "seed": self.seed,
            "iterations": self.iteration,
            "envs": self.env.num_envs,
            "steps": self.steps,
            "seconds": round(self.seconds, 3),
            "condyle": __version__,
            "randomize": self.randomize,
            "settings": asdict(self.settings),
        }
        return PolicyFile(self.policy(), training=training, score=score or {}, **policy_facts(self.task, self.env))

    def curve(self, name: str) -> np.ndarray:
        """A number of every iteration."""
        return np.array(self.curves, float).reshape(-1, max(len(self.names), 1))[:, self.names.index(name)]


class Collector:
    """An environment whose steps are collected, so that an iteration has the numbers that our own rollouts give."""

    def __init__(self, env: VectorEnv, record: Mapping[str, Any]) -> None:
        self.env, self.record = env, record
        self.found: list[tuple[np.ndarray, Rollouts]] = []
        self.last = 0.0  # time at the end of the last step

    def __getattr__(self, name: str) -> Any:
        return getattr(self.env, name)

    def __getitem__(self, name: str) -> Any:
        return self.env[name]

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """(observations, rewards, terminated, truncated, infos) after one policy step of all robots."""
        before = self.env.observations
        found = self.env.rollout(np.array(actions)[:, None, :], record=self.record)
        self.found.append((before, found))
        self.last = perf_counter()
        infos: dict[str, Any] = {"reward_terms": {}, "privileged": found.last_privileged}
        return found.last_observations, found.rewards[:, 0], found.terminated[:, 0], found.truncated[:, 0], infos

    def rollouts(self) -> Rollouts:
        """All collected steps as one rollout."""
        steps = [found for _, found in self.found]

        def joined(name: str) -> Any:
            return np.concatenate([getattr(each, name) for each in steps], axis=1)

        return Rollouts(
            observations=np.stack([before for before, _ in self.found], axis=1),
            privileged=None,
            means=None,
            **{name: joined(name) for name in ("actions", "rewards", "terminated", "truncated", "failed", "returns", "lengths")},
            reward_names=self.env.reward_names,
            reward_means=np.mean([each.reward_means for each in steps], axis=0),
            last_observations=steps[-1].last_observations,
            last_privileged=steps[-1].last_privileged,
            records={name: np.concatenate([each[name] for each in steps], axis=1) for name in self.record},
            final_observations=None,
            final_privileged=None,
        )


def runner_configuration(s: Settings, privileged: bool, mirror: Mirror | None) -> dict[str, Any]:
    """What rsl-rl's runner takes, for our settings."""
    network = {"class_name": "MLPModel", "hidden_dims": list(s.hidden), "activation": s.activation, "obs_normalization": True}
    noise = {"class_name": "GaussianDistribution", "init_std": s.initial_std, "std_type": "log", "std_range": (s.min_std, 1e6)}
    symmetry = None
    if mirror is not None:
        symmetry = {"data_augmentation_func": _augmentation(mirror), "use_data_augmentation": True}
    algorithm = {
        "class_name": "PPO",
        "num_learning_epochs": s.epochs,
        "num_mini_batches": s.minibatches,
        "clip_param": s.clip,
        "gamma": s.gamma,
        "lam": s.lam,
        "value_loss_coef": s.value_coefficient,
        "entropy_coef": s.entropy,
        "learning_rate": s.learning_rate,
        "max_grad_norm": s.max_gradient_norm,
        "use_clipped_value_loss": s.value_clip is not None,
        "schedule": "fixed" if s.desired_kl is None else "adaptive",
        "desired_kl": s.desired_kl,
        "symmetry_cfg": symmetry,
    }
    return {
        "num_steps_per_env": s.steps,
        "save_interval": 1,
        "obs_groups": {"actor": ["policy"], "critic": ["policy", "critic"] if privileged else ["policy"]},
        "actor": {**network, "distribution_cfg": noise},
        "critic": dict(network),
        "algorithm": algorithm,
    }


def _augmentation(mirror: Mirror) -> Any:
    """The function by which rsl-rl appends mirror images to observations and actions."""
    import torch

    maps = {"policy": mirror.observation, "critic": mirror.privileged, "action": mirror.action}
    tables = {
        name: (torch.tensor(list(given[0])), torch.tensor(list(given[1]), dtype=torch.float32))
        for name, given in maps.items()
        if given is not None
    }

    def both(name: str, x: Any) -> Any:
        order, signs = tables[name]
        return torch.cat([x, x[..., order] * signs])

    def augmented(env: Any, obs: Any, actions: Any) -> tuple[Any, Any]:
        if obs is not None:
            from tensordict import TensorDict

            groups = {name: both(name, obs[name]) for name in obs.keys()}  # noqa: SIM118, a TensorDict iterates over its rows
            obs = TensorDict(groups, batch_size=[2 * obs.batch_size[0]], device=obs.device)
        return obs, None if actions is None else both("action", actions)

    return augmented
