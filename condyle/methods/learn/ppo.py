"""Proximal policy optimisation in NumPy float32 (Schulman et al. 2017), with the details of rsl-rl.

Each minibatch is divided into tiles of fixed size; threads work on tiles, and sums over tiles are made in their order, so the
weights do not depend on the number of threads. The actor is a perceptron or an LSTM (actor.py); minibatches of an LSTM are of
whole sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np

from condyle.errors import ControlError
from condyle.methods.learn.actor import TILE, actor_of
from condyle.methods.learn.blas import single_threaded_blas
from condyle.methods.learn.checkpoint import check_arrays, undone_if_interrupted
from condyle.methods.learn.env_arrays import on_host
from condyle.methods.learn.lstm import LSTMPolicy
from condyle.methods.learn.mirror import Mirror
from condyle.methods.learn.network import Adam, Network, Running, clip_norm
from condyle.methods.learn.policy import OBSERVATION_CLIP, Policy, initial_policy
from condyle.methods.learn.tile import Columns, PackedLayers, Tile
from condyle.robot.names import nearest
from condyle.tape.host_info import available_threads

SMALLEST_VARIANCE = 1e-4  # of an observation: one that is constant does not become noise


@dataclass(frozen=True)
class AlgorithmSettings:
    """Numbers of an algorithm, by name."""

    ALGORITHM: ClassVar[str]

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Settings with some numbers given by name; a ControlError for an unknown name."""
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise ControlError(f"{cls.ALGORITHM} has no setting '{name}'{nearest(str(name), known)}")
        return cls(**given)

    def require_counts(self, *names: str) -> None:
        """Raise a ControlError unless these are whole numbers above zero."""
        for name in names:
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ControlError(
                    f"'{name}' of {self.ALGORITHM} must be a whole number above zero, got {getattr(self, name)!r:.40}"
                )

    def require_positive(self, *names: str) -> None:
        """Raise a ControlError unless these are above zero."""
        for name in names:
            if not getattr(self, name) > 0.0:
                raise ControlError(f"'{name}' of {self.ALGORITHM} must be above zero, got {getattr(self, name):g}")


@dataclass(frozen=True)
class Settings(AlgorithmSettings):
    """Numbers of the algorithm; a task gives its own as `hyperparameters`."""

    ALGORITHM = "PPO"

    steps: int = 24  # policy steps of each robot in an iteration
    epochs: int = 4
    minibatches: int = 4
    hidden: tuple[int, ...] = (64, 64)  # of actor and critic
    units: int = 0  # of an actor with memory, an LSTM; 0: the actor is a perceptron
    activation: str = "elu"
    gamma: float = 0.99  # discount of one policy step
    lam: float = 0.95  # of the generalised advantage estimate
    clip: float = 0.2  # of the ratio of probabilities
    value_clip: float | None = None  # in standard deviations of the return
    value_coefficient: float = 1.0
    entropy: float = 0.005
    learning_rate: float = 1e-3
    desired_kl: float | None = 0.01  # adapts the learning rate between these bounds; None: constant
    final_kl: float | None = None  # what desired_kl falls to, linearly, between these iterations
    anneal: tuple[int, int] = (0, 0)
    smallest_rate: float = 1e-5
    largest_rate: float = 1e-2
    max_gradient_norm: float = 1.0
    initial_std: float = 0.6  # of the actions
    min_std: float = 0.05
    action_bound: float | None = 1.0  # means beyond it are penalised
    bound_coefficient: float = 0.01
    mirror: bool = True  # use the symmetry of the task, if it has one; a memory has no mirror image, so an LSTM does not

    def __post_init__(self) -> None:
        self.require_counts("steps", "epochs", "minibatches")
        if not isinstance(self.units, int) or self.units < 0:
            raise ControlError(f"'units' of PPO must be a whole number from 0 up, got {self.units!r:.40}")
        for name in ("gamma", "lam"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ControlError(f"'{name}' of PPO must be between 0 and 1, got {getattr(self, name):g}")
        self.require_positive("clip", "learning_rate", "max_gradient_norm", "initial_std", "min_std")
        if self.final_kl is not None and (self.desired_kl is None or len(self.anneal) != 2 or self.anneal[0] >= self.anneal[1]):
            raise ControlError(f"'final_kl' of PPO needs desired_kl, and anneal=(first, last iteration), got {self.anneal!r:.40}")
        object.__setattr__(self, "hidden", tuple(self.hidden))
        object.__setattr__(self, "anneal", tuple(self.anneal))

    def kl_at(self, iteration: int) -> float | None:
        """The KL divergence that an iteration aims at."""
        if self.desired_kl is None or self.final_kl is None:
            return self.desired_kl
        first, last = self.anneal
        part = min(max((iteration - first) / (last - first), 0.0), 1.0)
        return self.desired_kl + part * (self.final_kl - self.desired_kl)


class ActorCritic:
    """Actor, critic, their normalisation and optimiser: what PPO is in the arrays of any library, NumPy's or PyTorch's.

    A library gives `xp`, `own` and the precisions, `inputs`, `returns` (running statistics), `adam`, and `_update`.
    """

    xp: Any = np
    adam: Any
    inputs: Any
    returns: Any

    def __init__(
        self, observations: int, actions: int, privileged: int, settings: Settings | None, seed: int, mirror: Mirror | None
    ) -> None:
        self.settings = s = settings or Settings()
        self.seed, self.iteration = seed, 0
        self.columns = c = Columns(observations, privileged, actions)
        self.actor = actor_of(observations, actions, s)
        self.critic = Network((c.critic.stop, *s.hidden, 1), s.activation)
        self.mirror = checked_mirror(mirror, c) if s.mirror and not s.units else None
        self._signed = None if self.mirror is None else tuple(self.own(part) for part in c.mirror(self.mirror))
        # one vector: the actor, log_std, the critic
        self._split = self.actor.count, self.actor.count + actions
        first = self.actor.initial(seed)
        value = initial_policy(self.critic.sizes, activation=s.activation, gain=1.0, seed=seed + 1_000_003)
        parts = self.actor.pack(first), first.log_std, self.critic.pack(value.layers)
        self.parameters = self.own(np.concatenate(parts).astype(np.float32))
        self.learning_rate = self.own(s.learning_rate)

    # ---- arrays of the library

    def own(self, value: Any) -> Any:
        """An array or a number of NumPy as one of the library."""
        return value

    def single(self, array: Any) -> Any:
        """In float32."""
        return array.astype(np.float32)

    def double(self, array: Any) -> Any:
        """In float64."""
        return array.astype(np.float64)

    # ---- the policy

    @property
    def policy(self) -> Policy | LSTMPolicy:
        """The policy of now, with the present normalisation, on the host."""
        flat, log_std, _ = self._parts(on_host(self.parameters))
        mean, std = (on_host(part)[: self.columns.observations] for part in self._normalization())
        try:
            return self.actor.policy(flat, mean, std, log_std.copy())
        except ControlError as error:
            raise self._diverged(str(error)) from error

    @property
    def acting(self) -> Any:
        """The policy of now as a rollout takes it."""
        return self.policy

    def start_from(self, policy: Any) -> None:
        """None; the actor, its deviations and the normalisation of observations are those of `policy`; the critic stays."""
        if not self.actor.fits(policy):
            raise ControlError(
                f"the policy to begin with is of the kind '{policy.kind}' with sizes {policy.sizes}, and the task trains "
                f"{self.actor.form}: give a policy of this task, or the same hidden sizes"
            )
        flat, log_std, _ = self._parts(self.parameters)
        flat[:] = self.own(self.actor.pack(policy))
        log_std[:] = self.own(np.maximum(policy.log_std, np.log(self.settings.min_std)))
        n = self.columns.observations
        counts, mean, squares = self.inputs.arrays()
        variance = squares / counts if self.inputs.count else np.ones_like(mean)
        mean[:n], variance[:n] = policy.mean, np.maximum(policy.std.astype(float) ** 2 - SMALLEST_VARIANCE, 0.0)
        counts = np.maximum(counts, 1.0)
        self.inputs.restore(np.stack([counts, mean, variance * counts]))

    # ---- one iteration

    def begin(self, env: Any, init: Any = None) -> None:
        """None; the normalisation begins with a first rollout, which trains nothing, and the actor with `init`, if given."""
        self.observe(env.rollout(self.acting if init is None else init, self.settings.steps))
        if init is not None:
            self.start_from(init)

    def observe(self, rollouts: Any) -> None:
        """None; the normalisation of observations begins with those of `rollouts`."""
        raise NotImplementedError

    def update(self, rollouts: Any) -> dict[str, float]:
        """Numbers of the iteration: KL divergence, learning rate, deviations, losses; actor and critic are improved."""
        owners = [self, self.adam, self.inputs, self.returns]
        with undone_if_interrupted(owners, [self.parameters, self.adam.m, self.adam.v]):
            return self._update(rollouts)

    def _update(self, rollouts: Any) -> dict[str, float]:
        raise NotImplementedError

    def _numbers(self, sums: Mapping[str, float], samples: int, rate: float, std: float) -> dict[str, float]:
        """Numbers of an iteration, from sums over the samples of all epochs and over its minibatches."""
        steps, seen = self.settings.epochs * self.settings.minibatches, float(self.settings.epochs * samples)
        return {
            "kl": sums["kl"] / steps,
            "learning_rate": rate,
            "std": std,
            "surrogate": -sums["surrogate"] / seen,
            "value_loss": sums["value_loss"] / seen,
            "clipped": sums["clipped"] / seen,
            "gradient_norm": sums["norm"] / steps,
        }

    def _normalized_returns(self, returns: Any, values: Any) -> tuple[Any, Any]:
        """Targets and old values of the critic, whose last layer changes so that its values stay the same (PopArt)."""
        center, scale = self._return_scale()
        self.returns.add_rows(returns.reshape(-1, 1))
        new_center, new_scale = self._return_scale()
        Wt, b = self.critic.views(self._parts(self.parameters)[2])[-1]
        Wt *= scale / new_scale
        b[:] = (b * scale + center - new_center) / new_scale
        return (returns - new_center) / new_scale, (values - new_center) / new_scale

    def _return_scale(self) -> tuple[Any, Any]:
        return self.single(self.returns.mean), self.single(self.xp.sqrt(self.returns.variance + 1e-8))

    def _normalization(self) -> tuple[Any, Any]:
        """Mean and deviation of the inputs, float32; those of a mirrored robot are the same."""
        mean, variance = self.inputs.mean, self.inputs.variance
        if self._signed is not None:
            order, signs = (part[: self.columns.critic.stop] for part in self._signed)
            square = variance + mean * mean
            mean = 0.5 * (mean + signs * mean[order])
            variance = self._positive(0.5 * (square + square[order]) - mean * mean)
        return self.single(mean), self.single(self.xp.sqrt(variance + SMALLEST_VARIANCE))

    def _add_inputs(self, moments: Any, samples: int) -> None:
        """None; sums of inputs that were normalised by `_normalization`, and of their squares, are part of the statistics."""
        mean, std = (self.double(part) for part in self._normalization())
        center = moments[0] / samples
        squares = self._positive(moments[1] - samples * center * center)
        self.inputs.add(samples, mean + std * center, std * std * squares)

    def _positive(self, x: Any) -> Any:
        """max(x, 0)."""
        return self.xp.where(x < 0.0, 0.0, x)

    def _parts(self, flat: Any) -> tuple[Any, Any, Any]:
        """Parameters of the actor, log_std, parameters of the critic: views."""
        return flat[: self._split[0]], flat[self._split[0] : self._split[1]], flat[self._split[1] :]

    def _diverged(self, why: str) -> ControlError:
        return ControlError(
            f"training diverged in iteration {self.iteration}: {why}; try a smaller learning_rate, desired_kl or reward"
        )

    # ---- checkpoints

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that the next iteration depends on, on the host."""
        return {
            "parameters": on_host(self.parameters).copy(),
            "adam_m": on_host(self.adam.m).copy(),
            "adam_v": on_host(self.adam.v).copy(),
            "inputs": self.inputs.arrays(),
            "returns": self.returns.arrays(),
            "counters": np.array([self.iteration, self.adam.steps, self.seed], np.int64),
            "learning_rate": np.array([float(self.learning_rate)]),
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """None; the state is the one whose `arrays()` these are; a ControlError if they have other shapes."""
        check_arrays(self.arrays(), arrays)
        for target, name in ((self.parameters, "parameters"), (self.adam.m, "adam_m"), (self.adam.v, "adam_v")):
            target[:] = self.own(arrays[name])
        self.inputs.restore(arrays["inputs"])
        self.returns.restore(arrays["returns"])
        self.iteration, self.adam.steps, self.seed = (int(number) for number in arrays["counters"])
        self.learning_rate = self.own(float(arrays["learning_rate"][0]))


class PPO(ActorCritic):
    """PPO with NumPy and tiles of compiled code; `update` improves it by the samples of a rollout."""

    def __init__(
        self,
        observations: int,
        actions: int,
        privileged: int = 0,
        settings: Settings | None = None,
        *,
        seed: int = 0,
        mirror: Mirror | None = None,
        threads: int | None = None,
    ) -> None:
        super().__init__(observations, actions, privileged, settings, seed, mirror)
        self.threads = available_threads() if threads is None else max(1, threads)
        self.adam = Adam(len(self.parameters))
        self.inputs, self.returns = Running(self.columns.critic.stop), Running(1)
        self._packed = self.actor.packed, PackedLayers(self.critic)
        self._tiles = [Tile(self.columns, self.actor, self._packed[1], self.settings, self.mirror) for _ in range(self.threads)]

    def observe(self, rollouts: Any) -> None:
        """None; the normalisation of observations begins with those of `rollouts`."""
        rows = [_flat(rollouts.observations)] + ([_flat(rollouts.privileged)] if self.columns.privileged else [])
        fresh = Running(self.columns.critic.stop)
        fresh.add_rows(np.concatenate(rows, axis=1))
        self.inputs = fresh

    def iterate(self, env: Any, record: Any = ()) -> tuple[Any, dict[str, float]]:
        """(rollouts of all robots with these records, numbers of the iteration); actor and critic are improved."""
        start = perf_counter()
        rollouts = env.rollout(self.acting, self.settings.steps, record=record)
        simulating = perf_counter() - start
        return rollouts, self.update(rollouts) | {"simulating": simulating}

    def _update(self, rollouts: Any) -> dict[str, float]:
        s = self.settings
        self.iteration += 1
        rng = np.random.default_rng([self.seed, self.iteration])
        with single_threaded_blas(), ThreadPoolExecutor(self.threads) as pool:
            rows, sums, moments = self._rows(rollouts, pool)
            self.actor.begin(rollouts)
            samples, group = len(rows), self.actor.group
            size = -(-samples // (group * s.minibatches))
            for _ in range(s.epochs):
                order = rng.permutation(samples // group)
                for start in range(0, len(order), size):
                    index = (group * order[start : start + size, None] + np.arange(group)).ravel()
                    sums += self._minibatch(rows, index, pool)
        self._add_inputs(moments, samples)
        named = dict(
            zip(("surrogate", "value_loss", "distance", "clipped", "originals", "kl", "norm"), sums.tolist(), strict=True)
        )
        std = float(np.exp(self._parts(self.parameters)[1]).mean())
        return self._numbers(named, samples, self.learning_rate, std)

    def _minibatch(self, rows: np.ndarray, index: np.ndarray, pool: ThreadPoolExecutor) -> np.ndarray:
        """Sums over the samples of a minibatch, after one step of Adam."""
        s = self.settings
        self._load()
        log_std = self._parts(self.parameters)[1]
        size = self.actor.tile // self.actor.group * self.actor.group
        starts = range(0, len(index), size)
        a, c = (packed.count for packed in self._packed)
        padded = np.zeros((len(starts), a + c + len(log_std)), np.float32)  # products leave padding as it is
        sums = np.zeros((len(starts), 5))

        def work(tile: Tile, k: int) -> None:
            part, row = index[starts[k] : starts[k] + size], padded[k]
            sums[k] = tile.gradient(rows, part, log_std, len(index), (row[:a], row[a : a + c], row[a + c :]))

        self._on_threads(pool, work, len(starts))
        total, whole = sums.sum(axis=0), np.add.reduce(padded, axis=0)
        gradient = np.empty_like(self.parameters)
        actor, d, critic = self._parts(gradient)
        self._packed[0].unpad(whole[:a], actor)
        self._packed[1].unpad(whole[a : a + c], critic)
        d[:] = whole[a + c :]
        d -= np.float32(s.entropy)  # the entropy is the sum of log_std, and a constant
        kl = self._kl(total[2] / max(total[4], 1.0), log_std)
        wanted = s.kl_at(self.iteration)
        if wanted is not None:
            if kl > 2.0 * wanted:
                self.learning_rate = max(s.smallest_rate, self.learning_rate / 1.5)
            elif 0.0 < kl < 0.5 * wanted:
                self.learning_rate = min(s.largest_rate, self.learning_rate * 1.5)
        norm = clip_norm(gradient[: self._split[1]], s.max_gradient_norm)
        clip_norm(gradient[self._split[1] :], s.max_gradient_norm)
        self.adam.step(self.parameters, gradient, self.learning_rate)
        np.maximum(log_std, np.float32(np.log(s.min_std)), out=log_std)
        return np.concatenate([total, [kl, norm]])

    def _kl(self, distance: float, log_std: np.ndarray) -> float:
        """Mean KL divergence from the policy that took the actions, for the mean squared distance of the means in deviations."""
        change = (self._old_log_std - log_std).astype(np.float64)
        return float((0.5 * np.exp(2.0 * change) - 0.5 - change).sum() + 0.5 * distance)

    # ---- samples

    def _rows(self, rollouts: Any, pool: ThreadPoolExecutor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(rows of all samples, zero sums, sums of normalised inputs and of their squares)."""
        s, c = self.settings, self.columns
        observations, actions, means = _flat(rollouts.observations), _flat(rollouts.actions), _flat(rollouts.means)
        if observations.shape[1] != c.observations:
            raise ControlError(
                f"the policy takes {c.observations} observations, and the environment gives {observations.shape[1]}"
            )
        log_std = self._parts(self.parameters)[1]
        self._old_log_std = log_std.copy()
        inverse_std = np.exp(-log_std)
        self._load()
        mean, std = self._normalization()
        inverse = (1.0 / std).astype(np.float32)
        parts = [(observations, slice(0, c.observations))]
        last = [(_flat(rollouts.last_observations), slice(0, c.observations))]
        if c.privileged:
            parts.append((_flat(rollouts.privileged), slice(c.observations, c.critic.stop)))
            last.append((_flat(rollouts.last_privileged), slice(c.observations, c.critic.stop)))
        rows = np.zeros((len(observations), c.width), np.float32)
        final = np.zeros((len(last[0][0]), c.width), np.float32)
        starts = range(0, len(rows), TILE)
        moments = np.zeros((len(starts), 2, c.critic.stop))

        def normalize(sources: list[tuple[np.ndarray, slice]], part: slice, x: np.ndarray) -> None:
            for source, columns in sources:
                np.subtract(source[part], mean[columns], out=x[:, columns])
            x *= inverse

        def work(tile: Tile, k: int) -> None:
            part = slice(starts[k], starts[k] + TILE)
            row = rows[part]
            x = row[:, c.critic]
            normalize(parts, part, x)
            moments[k, 0] = x.sum(axis=0)
            moments[k, 1] = (x * x).sum(axis=0)
            np.clip(x, -OBSERVATION_CLIP, OBSERVATION_CLIP, out=x)
            row[:, c.action], row[:, c.mean] = actions[part], means[part]
            z = (row[:, c.action] - row[:, c.mean]) * inverse_std
            row[:, c.advantage + 3] = -0.5 * (z * z).sum(axis=1) - log_std.sum()
            row[:, c.advantage + 2] = tile.values(row)

        def work_last(tile: Tile, k: int) -> None:
            part = slice(k * TILE, (k + 1) * TILE)
            x = final[part, c.critic]
            normalize(last, part, x)
            np.clip(x, -OBSERVATION_CLIP, OBSERVATION_CLIP, out=x)
            final[part, c.advantage] = tile.values(final[part])

        self._on_threads(pool, work, len(starts))
        self._on_threads(pool, work_last, -(-len(final) // TILE))
        # values in the units of the reward, advantages, and the returns that normalise the critic
        center, scale = self._return_scale()
        shape = np.shape(rollouts.rewards)
        values = (rows[:, c.advantage + 2] * scale + center).reshape(shape)
        advantages = generalized_advantages(
            np.asarray(rollouts.rewards, np.float32),
            values,
            final[:, c.advantage] * scale + center,
            np.asarray(rollouts.terminated, bool),
            np.asarray(rollouts.truncated, bool),
            s.gamma,
            s.lam,
        )
        returns = (advantages + values).ravel()
        rows[:, c.advantage + 1], rows[:, c.advantage + 2] = self._normalized_returns(returns, values.ravel())
        flat = advantages.ravel()
        deviation = float(flat.std(dtype=np.float64))
        rows[:, c.advantage] = (flat - np.float32(flat.mean(dtype=np.float64))) * np.float32(1.0 / (deviation + 1e-8))
        if not np.isfinite(deviation):
            raise self._diverged("rewards or values are not finite")
        return rows, np.zeros(7), moments.sum(axis=0)

    # ---- threads

    def _on_threads(self, pool: ThreadPoolExecutor, work: Callable[[Tile, int], None], count: int) -> None:
        """None; work(tile, k) for every k, on all threads."""

        def some(thread: int) -> None:
            for k in range(thread, count, self.threads):
                work(self._tiles[thread], k)

        if self.threads == 1 or count == 1:
            for k in range(count):
                work(self._tiles[0], k)
        else:
            list(pool.map(some, range(self.threads)))

    def _load(self) -> None:
        """None; the tiles compute with the present parameters."""
        actor, _, critic = self._parts(self.parameters)
        self._packed[0].load(actor)
        self._packed[1].load(critic)


def generalized_advantages(
    rewards: np.ndarray,
    values: np.ndarray,
    last_values: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    gamma: float,
    lam: float,
) -> np.ndarray:
    """Advantages (robots, steps), float32 (Schulman et al. 2016); an episode that is truncated goes on with its present value."""
    r, v = np.ascontiguousarray(rewards.T), np.ascontiguousarray(values.T)  # steps first: rows of all robots
    ends, cut = np.ascontiguousarray((terminated | truncated).T), np.ascontiguousarray((truncated & ~terminated).T)
    r = r + np.float32(gamma) * v * cut
    advantages = np.empty_like(r)
    after, value_after = np.zeros_like(r[0]), last_values.astype(np.float32)
    for k in range(len(r) - 1, -1, -1):
        goes_on = np.where(ends[k], np.float32(0.0), np.float32(gamma))
        after = r[k] + goes_on * value_after - v[k] + goes_on * np.float32(lam) * after
        advantages[k], value_after = after, v[k]
    return np.ascontiguousarray(advantages.T)


def _flat(array: Any) -> np.ndarray:
    """(robots, steps, n) or (robots, n) as rows (samples, n), float32."""
    a = np.ascontiguousarray(array, np.float32)
    return a.reshape(-1, a.shape[-1])


def checked_mirror(mirror: Mirror | None, c: Columns) -> Mirror | None:
    """The mirror, if its sizes are those of the environment."""
    if mirror is None:
        return None
    sizes = {"observation": c.observations, "action": c.actions, "privileged": c.privileged}
    for name, size in sizes.items():
        given = getattr(mirror, name)
        if size and (given is None or len(given[0]) != size):
            raise ControlError(
                f"the mirror of the {name} has {0 if given is None else len(given[0])} entries, and the task has {size}"
            )
    return mirror
