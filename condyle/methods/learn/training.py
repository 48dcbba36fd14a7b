"""Training of a task: rollouts in the kernel, updates by PPO or SHAC, checkpoints; the same seed gives the same bits.

On a GPU (`device`) rollouts and updates stay there; a checkpoint of one device goes on with any other.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from time import perf_counter
from typing import Any, Protocol

import numpy as np

from condyle import __version__
from condyle.errors import ControlError, FileError
from condyle.methods.learn import ppo, shac
from condyle.methods.learn.checkpoint import load_checkpoint, save_checkpoint
from condyle.methods.learn.env_arrays import checked_device, on_host
from condyle.methods.learn.policy_file import PolicyFile
from condyle.methods.learn.rollouts import HostRollouts
from condyle.methods.learn.task import Task, load_task
from condyle.robot.model import digest
from condyle.robot.names import nearest

# of each algorithm: robots where the task does not say how many, and hyperparameters of PPO that it takes over
ALGORITHMS = {"ppo": 2048, "shac": 256}
TAKEN = ("hidden", "activation", "action_bound")
# on a GPU: times the robots of a task, which hardly take longer there; so many more samples need fewer iterations
GPU_ENVS, GPU_ITERATIONS = 16, 0.5
SMOOTHING = "contact.smoothing"
# numbers of every iteration, besides those of the task and the terms of the reward
NUMBERS = ("reward", "return", "length", "falls", "kl", "std", "learning_rate", "value_loss", "simulating", "updating")
TERM = "term "  # begins the name of a term of the reward


@dataclass(frozen=True)
class Iteration:
    """What an iteration gave: `numbers` by name, the policy steps so far, and the seconds so far."""

    number: int
    numbers: Mapping[str, float]
    steps: int
    seconds: float

    @property
    def speed(self) -> float:
        """Policy steps per second of this iteration."""
        return self.numbers["samples"] / max(self.numbers["simulating"] + self.numbers["updating"], 1e-9)


class Learner(Protocol):
    """An algorithm with its networks. `arrays()` is everything that the next iteration depends on."""

    iteration: int

    @property
    def policy(self) -> Any:
        """The policy of now."""

    def begin(self, env: Any, init: Any = None) -> None:
        """None; a first rollout, which trains nothing; `init`: a policy to begin with."""

    def iterate(self, env: Any, record: Any = ()) -> tuple[Any, dict[str, float]]:
        """(rollouts with these records, numbers of the iteration, with the seconds of "simulating")."""

    def arrays(self) -> dict[str, np.ndarray]:
        """For a checkpoint."""

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """None; as it was when `arrays()` gave these."""


class Training:
    """A training of one task. `run` iterates; `save` and `resume` continue it later with the same bits.

    `algorithm`: "ppo", or "shac", which trains with smooth blocks (`VectorEnv.smooth_parameters`) and softer contact.
    `hyperparameters` replace those of the task; `init`: a policy file to begin with; `threads`: of the update. Nothing depends on
    the clock, so the weights depend on the seed, the numbers given here, and the iteration alone. `device`: None for NumPy, or
    "cuda", "cuda:1" for tensors on a GPU (`torch_ppo.py`), with more robots and fewer iterations by default; "cpu" for tensors.
    """

    def __init__(
        self,
        task: Task,
        *,
        seed: int = 0,
        envs: int | None = None,
        hyperparameters: Mapping[str, Any] | None = None,
        init: PolicyFile | None = None,
        randomize: bool = True,
        threads: int | None = None,
        algorithm: str = "ppo",
        device: str | None = None,
    ) -> None:
        if algorithm not in ALGORITHMS:
            names = list(ALGORITHMS)
            raise ControlError(f"an algorithm is one of {', '.join(names)}; got '{algorithm!s:.40}'{nearest(algorithm, names)}")
        if device is not None and algorithm != "ppo":
            raise ControlError(f"{algorithm.upper()} trains on the processor only: leave the device out, or use PPO")
        self.device = None if device is None else checked_device(device)
        self.task, self.seed, self.randomize, self.algorithm = task, seed, randomize, algorithm
        given = {"hidden": task.hidden, **task.hyperparameters}
        if algorithm == "shac":
            given = {name: value for name, value in given.items() if name in TAKEN} | dict(task.shac)
        if self.device not in (None, "cpu"):
            given = on_gpu(given, task.iterations)
        given |= hyperparameters or {}
        usual, self.iterations = int(given.pop("envs", ALGORITHMS[algorithm])), int(given.pop("iterations", task.iterations))
        if init is not None and init.policy.kind == "lstm" and algorithm == "ppo":
            given["units"] = init.policy.sizes[1]
        self.env = task.make(usual if envs is None else envs, seed=seed, randomize=randomize, **task.training, device=self.device)
        n, m, p = self.env.observation_size, self.env.action_size, self.env.privileged_size
        named = sum(size for _, size in task.observation)
        if named not in (0, n):
            raise ControlError(f"task '{task.name}' names {named} observations, and its environment gives {n}")
        self.settings: ppo.Settings | shac.Settings
        self.learner: Learner
        self.smooth: dict[str, float] = {}
        if self.device is not None:
            from condyle.methods.learn.torch_ppo import TorchPPO

            self.settings = ppo.Settings.of(given)
            self.learner = TorchPPO(n, m, p, self.settings, seed=seed, mirror=task.mirror, device=self.device)
        elif algorithm == "ppo":
            self.settings = ppo.Settings.of(given)
            self.learner = ppo.PPO(n, m, p, self.settings, seed=seed, mirror=task.mirror, threads=threads)
        else:
            self.settings = shac.Settings.of(given)
            self.learner = shac.SHAC(n, m, p, self.settings, seed=seed)
            world = self.env.loop.world
            soft = {SMOOTHING: self.settings.smoothing} if world is not None and world.contact_names else {}
            self.smooth = {**self.env.smooth_parameters, **soft}
            self.env = self.env.with_parameters(self.smooth) if self.smooth else self.env
        self.names: list[str] = []
        self.curves: list[list[float]] = []
        self.steps, self.seconds = 0, 0.0
        self.init, self.init_hash = init, "" if init is None else init.hash
        if init is not None:
            init.require_robot(task.robot)
            init.require_observation(n)
            if init.policy.kind != "mlp" and algorithm == "shac":
                kind = init.policy.kind
                raise ControlError(f"SHAC begins with a policy of the kind 'mlp', and this one is of the kind '{kind}': use PPO")

    @property
    def iteration(self) -> int:
        """Iterations so far."""
        return self.learner.iteration

    def run(self, iterations: int | None = None, seconds: float | None = None) -> Iterator[Iteration]:
        """Every iteration up to number `iterations`, or until `seconds` of training have passed."""
        last = self.iterations if iterations is None else iterations
        while self.iteration < last and (seconds is None or self.seconds < seconds):
            yield self.step()

    def step(self) -> Iteration:
        """One iteration: a rollout of all robots, and the update by it."""
        start = perf_counter()
        if self.iteration == 0:
            self._begin()
        self._schedule()
        clock = perf_counter()
        rollouts, found = self.learner.iterate(self.env, self.task.record)
        samples = math.prod(rollouts.rewards.shape)
        numbers = rollout_numbers(self.task, rollouts if self.device is None else HostRollouts(rollouts)) | found
        numbers |= {"updating": perf_counter() - clock - found["simulating"], "samples": float(samples)}
        if not self.names:
            self.names = list(numbers)
        self.curves.append([float(numbers.get(name, np.nan)) for name in self.names])
        self.steps += samples
        self.seconds += perf_counter() - start
        return Iteration(self.iteration, numbers, self.steps, self.seconds)

    def _begin(self) -> None:
        """Episodes at different times, and the normalisation from a first rollout, which trains nothing."""
        limit = self.env.max_episode_steps
        if limit is not None and limit > 1:
            rng = np.random.default_rng([self.seed, 0, 1])
            self.env.set("episode.step", rng.integers(0, limit, self.env.num_envs))
        self._schedule()
        self.learner.begin(self.env, None if self.init is None else self.init.policy)

    def _schedule(self) -> None:
        """The shared values of the environment for this iteration."""
        if self.task.schedule is not None:
            for name, value in self.task.schedule(self.iteration).items():
                self.env.shared[name] = value

    # ---- files

    def policy_file(self, score: Mapping[str, Any] | None = None) -> PolicyFile:
        """The policy of now, with everything its use needs."""
        task, env = self.task, self.env
        training = {
            "algorithm": self.algorithm,
            "seed": self.seed,
            "iterations": self.iteration,
            "envs": env.num_envs,
            "steps": self.steps,
            "seconds": round(self.seconds, 3),
            "condyle": __version__,
            "randomize": self.randomize,
            "settings": asdict(self.settings),
        }
        if self.init_hash:
            training["init"] = self.init_hash
        if self.smooth:
            training["smooth"] = self.smooth
        if self.device is not None:
            training["device"] = self.device
        return PolicyFile(self.learner.policy, training=training, score=score or {}, **policy_facts(task, env))

    def save(self, path: str | os.PathLike[str]) -> None:
        """None; the checkpoint at `path` continues this training."""
        facts = {
            "robot": self.task.robot,
            "task": self.task.name,
            "algorithm": self.algorithm,
            "robot_hash": _robot_hash(self.env),
            "seed": self.seed,
            "envs": self.env.num_envs,
            "randomize": self.randomize,
            "settings": asdict(self.settings),
            "names": self.names,
            "init": self.init_hash,
            "steps": self.steps,
            "seconds": self.seconds,
        }
        curves = np.array(self.curves, float).reshape(-1, max(len(self.names), 1))
        memory = {} if self.env.memory is None else {"memory": on_host(self.env.memory)}
        save_checkpoint(path, facts, {**self.learner.arrays(), "env": on_host(self.env.state), "curves": curves, **memory})

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike[str],
        task: Task | None = None,
        *,
        threads: int | None = None,
        device: str | None = None,
    ) -> Training:
        """The training that `save` kept at `path`; `task`: that of the checkpoint by default. `device`: where it goes on."""
        facts, arrays = load_checkpoint(path)
        try:
            robot, name, settings = str(facts["robot"]), str(facts["task"]), dict(facts["settings"])
            seed, envs, randomize = int(facts["seed"]), int(facts["envs"]), bool(facts["randomize"])
            steps, seconds, names = int(facts["steps"]), float(facts["seconds"]), [str(each) for each in facts["names"]]
            env, curves, init = arrays["env"], arrays["curves"], str(facts["init"])
            algorithm = str(facts["algorithm"])
        except (KeyError, TypeError, ValueError) as error:
            raise FileError(f"{path} is damaged ({error!s:.60}): train again.") from error
        if task is not None and (task.robot, task.name) != (robot, name):
            raise ControlError(f"{path} is of a training of '{robot}' for '{name}', not of '{task.robot}' for '{task.name}'")
        options: dict[str, Any] = {"seed": seed, "envs": envs, "randomize": randomize, "threads": threads, "algorithm": algorithm}
        training = cls(task or load_task(robot, name), hyperparameters=settings, device=device, **options)
        if facts.get("robot_hash") != _robot_hash(training.env):
            raise ControlError(f"{path} was trained with another model of the robot '{robot}': train again.")
        training.env.restore(env)
        training.learner.restore(arrays)
        if "memory" in arrays:
            training.env.remember(training.learner.policy, arrays["memory"])
        training.names, training.curves = names, curves.tolist()
        training.steps, training.seconds, training.init_hash = steps, seconds, init
        return training

    def curve(self, name: str) -> np.ndarray:
        """A number of every iteration."""
        return np.array(self.curves, float).reshape(-1, max(len(self.names), 1))[:, self.names.index(name)]


def on_gpu(given: Mapping[str, Any], iterations: int) -> dict[str, Any]:
    """Hyperparameters for a GPU: more robots, and fewer iterations, over which what falls with them falls accordingly."""
    found = {**given, "envs": GPU_ENVS * int(given.get("envs", ALGORITHMS["ppo"]))}
    found["iterations"] = max(round(GPU_ITERATIONS * iterations), 1)
    if "anneal" in given:
        first, last = given["anneal"]
        found["anneal"] = (round(GPU_ITERATIONS * first), round(GPU_ITERATIONS * last))
    return found


def policy_facts(task: Task, env: Any) -> dict[str, Any]:
    """What the file of a policy says of its task."""
    return {
        "robot": task.robot,
        "robot_hash": _robot_hash(env),
        "task": task.name,
        "rate": 1.0 / env.dt,
        "observation": task.observation or (("observation", env.observation_size),),
        "action": task.action or tuple(f"action {k}" for k in range(env.action_size)),
        "controller": task.controller,
        "commands": task.commands,
    }


def _robot_hash(env: Any) -> str:
    return "" if env.loop.world is None else digest(env.loop.world.robot.model)


def rollout_numbers(task: Task, rollouts: Any) -> dict[str, float]:
    """The progress that a rollout shows."""
    returns, lengths = rollouts.episode_returns, rollouts.episode_lengths
    found = {
        "reward": float(np.mean(rollouts.rewards, dtype=float)),
        "return": float(np.mean(returns)) if len(returns) else np.nan,
        "length": float(np.mean(lengths)) if len(lengths) else np.nan,
        "falls": 1000.0 * float(np.mean(rollouts.terminated)),  # per 1,000 policy steps
    }
    found |= {name: float(value) for name, value in task.measure(rollouts).items()}
    return found | {f"{TERM}{name}": float(value) for name, value in rollouts.reward_terms.items()}
