"""Short-horizon actor-critic: the policy climbs the gradient of its return, taken through the simulation (Xu et al. 2022).

Over a window of H steps, with a critic V for what comes after it,

    maximise  mean over robots of   sum_t gamma^t r_t + gamma^H V(o_H)

by its gradient by the weights of the policy, in reverse mode through policy, physics, contact and rewards (gradients.py). The
window goes on where the last one ended. The critic is fitted to TD(lambda) returns. Gradients through contact are heavy-tailed:
those of each robot are bounded by a multiple of their median, and then their mean is.

What blocks gradients: a servo's dead band, its backlash and the resolution of its pulses (their derivative is zero nearly
everywhere), and whatever saturates. The first three are zero while this algorithm trains (`VectorEnv.smooth_parameters`), and
contact is softer: through hard contact, gradients of longer windows are so large that their mean says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.methods.learn.blas import single_threaded_blas
from condyle.methods.learn.checkpoint import check_arrays, undone_if_interrupted
from condyle.methods.learn.env import VectorEnv
from condyle.methods.learn.gradients import rollout_vjp
from condyle.methods.learn.network import Adam, Network, Running, Workspace, clip_norm
from condyle.methods.learn.policy import OBSERVATION_CLIP, Policy, initial_policy
from condyle.methods.learn.ppo import SMALLEST_VARIANCE, AlgorithmSettings
from condyle.methods.learn.rollouts import Rollouts, rollouts_of

Array = np.ndarray


@dataclass(frozen=True)
class Settings(AlgorithmSettings):
    """Numbers of the algorithm."""

    ALGORITHM = "SHAC"

    horizon: int = 16  # policy steps of a window
    gamma: float = 0.95  # a critic of what comes soon is learned soon, and its gradient is used
    lam: float = 0.95
    hidden: tuple[int, ...] = (64, 64)
    activation: str = "elu"
    learning_rate: float = 3e-4  # of the policy; both rates fall linearly to a tenth in `decay` iterations, and stay there
    critic_rate: float = 2e-3
    decay: int = 1000
    critic_epochs: int = 4
    minibatches: int = 4
    bootstrap: bool = True  # an episode that ends is worth what the critic says of its last state, as one that is cut, not zero
    target: float = 0.2  # part of the old target critic that stays
    robot_bound: float = 1.0  # of a robot's gradient, in medians
    max_gradient_norm: float = 1.0
    action_bound: float = 1.0  # actions beyond it cost bound_coefficient times the square of what is beyond, in a step
    bound_coefficient: float = 0.1
    initial_std: float = 0.1
    min_std: float = 0.05
    smoothing: float = 0.3  # of contact in training, "contact.smoothing", where the world has contact

    def __post_init__(self) -> None:
        self.require_counts("horizon", "critic_epochs", "minibatches", "decay")
        self.require_positive(
            "learning_rate", "critic_rate", "robot_bound", "max_gradient_norm", "initial_std", "min_std", "smoothing"
        )
        object.__setattr__(self, "hidden", tuple(self.hidden))


class SHAC:
    """Actor, critic and their optimisers; `iterate(env)` is one window of all robots and one step of the policy."""

    def __init__(
        self, observations: int, actions: int, privileged: int = 0, settings: Settings | None = None, *, seed: int = 0
    ) -> None:
        self.settings = s = settings or Settings()
        self.seed, self.iteration = seed, 0
        n, m, p = observations, actions, privileged
        first = initial_policy((n, *s.hidden, m), activation=s.activation, std=s.initial_std, seed=seed)
        self.actor, self.critic = Network(first.sizes, first.activation), Network((n + p, *s.hidden, 1), s.activation)
        # small values at first: V is this times 1 / (1 - gamma), and the actor follows its gradient
        value = initial_policy(self.critic.sizes, activation=s.activation, gain=0.01, seed=seed + 1_000_003)
        self.parameters = np.concatenate([self.actor.pack(first.layers), first.log_std])
        self.value = self.critic.pack(value.layers)
        self.target = self.value.copy()
        self.adam, self.critic_adam = Adam(len(self.parameters)), Adam(len(self.value))
        self.inputs = Running(n + p)
        self.observations = n

    @property
    def policy(self) -> Policy:
        """The policy of now, with the present normalisation."""
        a, n = self.actor.count, self.observations
        mean, std = self._normalization()
        layers = self.actor.unpack(self.parameters[:a])
        return Policy(layers, self.actor.activation, mean[:n], std[:n], OBSERVATION_CLIP, self.parameters[a:].copy())

    def begin(self, env: VectorEnv, init: Policy | None = None) -> None:
        """None; the normalisation of observations begins with those of a first rollout, the actor with `init`, if it is given."""
        first = self.policy if init is None else init
        if not isinstance(first, Policy) or first.sizes != self.actor.sizes or first.activation != self.actor.activation:
            raise ControlError(
                f"the policy to begin with is of the kind '{first.kind}' with sizes {first.sizes}, and SHAC trains a perceptron "
                f"with sizes {self.actor.sizes} and {self.actor.activation}: give such a policy, or train by PPO"
            )
        seen = env.rollout(first, self.settings.horizon)
        parts = [seen.observations, *([] if seen.privileged is None else [seen.privileged])]
        self.inputs.add_rows(np.concatenate([np.asarray(part) for part in parts], axis=-1).reshape(-1, self.critic.sizes[0]))
        if init is not None:
            self.parameters[:] = np.concatenate([self.actor.pack(init.layers), init.log_std])
            n = self.observations
            variance = np.maximum(init.std.astype(float) ** 2 - SMALLEST_VARIANCE, 0.0)
            self.inputs.mean[:n], self.inputs.squares[:n] = init.mean, variance * self.inputs.count

    def iterate(self, env: VectorEnv, record: Any = ()) -> tuple[Rollouts, dict[str, float]]:
        """(what the robots did, numbers of the iteration); actor and critic are improved."""
        if record:
            raise ControlError("this task measures values of every step, which rollouts with gradients do not keep: use PPO")
        adams = self.adam, self.critic_adam
        moments = [array for adam in adams for array in (adam.m, adam.v)]
        with undone_if_interrupted([self, *adams, self.inputs], [self.parameters, self.value, self.target, *moments]):
            return self._iterate(env)

    def _iterate(self, env: VectorEnv) -> tuple[Rollouts, dict[str, float]]:
        s, policy, start = self.settings, self.policy, perf_counter()
        std = np.exp(policy.log_std.astype(float))
        left = 1.0 - 0.9 * min(self.iteration / s.decay, 1.0)
        found, pullback = rollout_vjp(env, policy, s.horizon, std)
        with single_threaded_blas():
            gradient, largest = self._actor_gradient(found, pullback, std)
            simulated = perf_counter() - start
            norm = clip_norm(gradient, s.max_gradient_norm)
            if np.isfinite(norm):
                self.adam.step(self.parameters, gradient, s.learning_rate * left)
                log_std = self.parameters[self.actor.count :]
                np.clip(log_std, np.log(s.min_std), 1.0, out=log_std)
            loss = self._fit_critic(found, s.critic_rate * left)
        self.inputs.add_rows(_joined(found, "observations", "privileged").reshape(-1, self.critic.sizes[0]))
        self.iteration += 1
        terms = found["term_sums"].sum(axis=0, dtype=float) / found["reward"].size
        numbers = {"learning_rate": s.learning_rate * left, "std": float(std.mean()), "value_loss": loss}
        numbers |= {"gradient_norm": norm, "largest_gradient": largest, "simulating": simulated}
        return rollouts_of(found, env.reward_names, terms, found["actions"], {}), numbers

    def arrays(self) -> dict[str, Array]:
        """Everything that the next iteration depends on."""
        return {
            "parameters": self.parameters,
            "value": self.value,
            "target": self.target,
            "moments": np.stack([self.adam.m, self.adam.v]),
            "critic_moments": np.stack([self.critic_adam.m, self.critic_adam.v]),
            "inputs": self.inputs.arrays(),
            "counters": np.array([self.iteration, self.adam.steps, self.critic_adam.steps, self.seed], np.int64),
        }

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """None; the state is the one whose `arrays()` these are; a ControlError if they have other shapes."""
        check_arrays(self.arrays(), arrays)
        self.parameters[:], self.value[:], self.target[:] = (arrays[name] for name in ("parameters", "value", "target"))
        (self.adam.m[:], self.adam.v[:]), (self.critic_adam.m[:], self.critic_adam.v[:]) = (
            arrays[name] for name in ("moments", "critic_moments")
        )
        self.inputs.restore(arrays["inputs"])
        self.iteration, self.adam.steps, self.critic_adam.steps, self.seed = (int(each) for each in arrays["counters"])

    # ---- the policy

    def _actor_gradient(self, found: dict[str, Array], pullback: Any, std: Array) -> tuple[Array, float]:
        """(gradient of the loss by all parameters of the policy, the largest robot's norm by the median)."""
        s, reward = self.settings, found["reward"]
        robots, steps = reward.shape
        terminated, truncated = self._ends(found)
        discount, weights, last = np.ones(robots), np.zeros((robots, steps)), np.zeros((robots, steps))
        for t in range(steps):
            weights[:, t] = discount
            ends = truncated[:, t] | ((t == steps - 1) & ~terminated[:, t])
            last[:, t] = np.where(ends, s.gamma * discount, 0.0)
            discount = np.where(terminated[:, t] | truncated[:, t], 1.0, s.gamma * discount)
        at = last > 0.0
        x = _joined(found, "final_observation", "final_privileged")
        by_input = np.zeros((*last.shape, self.critic.sizes[0]), np.float32)
        by_input[at] = self._value_gradient(x[at]) * last[at][:, None]
        scale, n = -1.0 / steps, self.observations
        given = {"reward": scale * weights, "final_observation": scale * by_input[..., :n]}
        if self.critic.sizes[0] > n:
            given["final_privileged"] = scale * by_input[..., n:]
        # an action that saturates has no gradient of its own by which it would come back
        beyond = found["actions"] - np.clip(found["actions"], -s.action_bound, s.action_bound)
        by = pullback(**given, actions=2.0 * s.bound_coefficient / steps * beyond)
        rows = [by[f"policy.layer{k}"] for k in range(len(self.actor.sizes) - 1)]
        flat = np.concatenate(
            [part.reshape(robots, -1) for row in rows for part in (row[..., :-1].swapaxes(1, 2), row[..., -1])]
            + [by["std"] * std],
            axis=1,
        )
        # a robot whose contact made its gradient large, or not a number, does not decide for all
        norms = np.sqrt(np.sum(np.square(flat, dtype=np.float64), axis=1))
        fine = np.isfinite(norms)
        median = float(np.median(norms[fine])) if fine.any() else 1.0
        bound = s.robot_bound * max(median, 1e-12)
        factor = np.where(fine, np.minimum(1.0, bound / np.maximum(np.where(fine, norms, 1.0), 1e-12)), 0.0)
        gradient = (np.where(fine[:, None], flat, 0.0) * factor[:, None]).sum(axis=0) / robots
        largest = float(np.max(norms[fine], initial=0.0) / max(median, 1e-12))
        return gradient.astype(np.float32), largest

    def _ends(self, found: dict[str, Array]) -> tuple[Array, Array]:
        """(steps after which nothing is worth anything, steps after which an episode is cut)."""
        failed, ended = found["failed"] > 0.5, found["terminated"] > 0.5
        cut = found["truncated"] > 0.5
        return (failed, cut | (ended & ~failed)) if self.settings.bootstrap else (ended, cut)

    # ---- the critic: V (1 - gamma), of normalised inputs

    def _normalization(self) -> tuple[Array, Array]:
        deviation = np.sqrt(self.inputs.variance + SMALLEST_VARIANCE)
        return self.inputs.mean.astype(np.float32), deviation.astype(np.float32)

    def _normalized(self, x: Array) -> Array:
        mean, std = self._normalization()
        found: Array = np.clip((x.astype(np.float32) - mean) / std, -OBSERVATION_CLIP, OBSERVATION_CLIP)
        return found

    def _values(self, flat: Array, x: Array) -> Array:
        """V of inputs (..., n)."""
        rows = self._normalized(x).reshape(-1, x.shape[-1])
        found = Workspace(self.critic, len(rows)).forward(self.critic.views(flat), rows)
        return found.reshape(x.shape[:-1]).astype(np.float64) / (1.0 - self.settings.gamma)

    def _value_gradient(self, x: Array) -> Array:
        """dV/dx of the target critic at rows of x."""
        if not len(x):
            return np.zeros(x.shape, np.float32)
        layers, rows = self.critic.views(self.target), self._normalized(x)
        work, unused = Workspace(self.critic, len(rows)), self.critic.views(np.empty_like(self.target))
        work.forward(layers, rows)
        work.backward(layers, unused, rows, np.ones((len(rows), 1), np.float32))
        by = work.deltas[0][: len(rows)] @ layers[0][0].T
        _, std = self._normalization()
        inside = np.abs(rows) < OBSERVATION_CLIP
        found: Array = np.where(inside, by / std, 0.0) / np.float32(1.0 - self.settings.gamma)
        return found

    def _fit_critic(self, found: dict[str, Array], rate: float) -> float:
        """Mean squared error of the first pass; the critic moves to TD(lambda) returns, the target after it."""
        s, reward = self.settings, found["reward"].astype(np.float64)
        terminated, truncated = self._ends(found)
        after = self._values(self.target, _joined(found, "final_observation", "final_privileged"))
        goal, wanted = after[:, -1], np.empty_like(reward)
        for t in range(reward.shape[1] - 1, -1, -1):
            mixed = (1.0 - s.lam) * after[:, t] + s.lam * goal
            goal = reward[:, t] + s.gamma * np.where(terminated[:, t], 0.0, np.where(truncated[:, t], after[:, t], mixed))
            wanted[:, t] = goal
        x = self._normalized(_joined(found, "observations", "privileged")).reshape(-1, self.critic.sizes[0])
        y = (wanted * (1.0 - s.gamma)).reshape(-1, 1).astype(np.float32)
        fine = np.isfinite(x).all(axis=1) & np.isfinite(y[:, 0])
        x, y = x[fine], y[fine]
        gradient = np.empty_like(self.value)
        layers, gradients = self.critic.views(self.value), self.critic.views(gradient)
        work, first, rng = Workspace(self.critic, len(x)), 0.0, np.random.default_rng([self.seed, 6, self.iteration])
        for epoch in range(s.critic_epochs):
            for chosen in np.array_split(rng.permutation(len(x)), s.minibatches):
                below = x[chosen]
                error = work.forward(layers, below) - y[chosen]
                first += float(np.mean(np.square(error))) / s.minibatches if epoch == 0 else 0.0
                work.backward(layers, gradients, below, error * np.float32(2.0 / len(error)))
                clip_norm(gradient, s.max_gradient_norm)
                self.critic_adam.step(self.value, gradient, rate)
        self.target += np.float32(1.0 - s.target) * (self.value - self.target)
        return first


def _joined(found: dict[str, Array], observation: str, privileged: str) -> Array:
    """Inputs of the critic."""
    parts = [found[observation], *([found[privileged]] if privileged in found else [])]
    return np.concatenate(parts, axis=-1)
