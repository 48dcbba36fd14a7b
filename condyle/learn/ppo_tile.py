"""The loss of PPO and its gradient for a tile of samples: small enough for the caches of one core, the same on any thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.learn.mirror import Mirror
from condyle.learn.network import Network, Workspace

TILE = 1024  # samples; sums over tiles are made in their order, so bits do not depend on the number of threads
LARGEST_LOG_RATIO = 20.0
Layers = Sequence[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Columns:
    """Where the numbers of a sample are in its row: all of them in one row, so that a shuffle is one gather."""

    observations: int
    privileged: int
    actions: int

    @property
    def critic(self) -> slice:
        """Inputs of the critic: observations and privileged ones."""
        return slice(0, self.observations + self.privileged)

    @property
    def action(self) -> slice:
        """The action that was taken."""
        return slice(self.critic.stop, self.critic.stop + self.actions)

    @property
    def mean(self) -> slice:
        """The mean of the policy that took it."""
        return slice(self.action.stop, self.action.stop + self.actions)

    @property
    def advantage(self) -> int:
        """Followed by the target of the critic, its value when the action was taken, and the logarithm of the probability."""
        return int(self.mean.stop)

    @property
    def width(self) -> int:
        """Numbers of a row."""
        return self.advantage + 4

    def mirror(self, mirror: Mirror) -> tuple[np.ndarray, np.ndarray]:
        """(order, signs) of a mirrored row."""
        maps = [mirror.observation, mirror.privileged or ((), ()), mirror.action, mirror.action]
        sizes = [self.observations, self.privileged, self.actions, self.actions]
        order, signs, start = [], [], 0
        for (o, s), size in zip(maps, sizes, strict=True):
            order.append(start + np.asarray(o, int))
            signs.append(np.asarray(s, np.float32))
            start += size
        rest = np.arange(start, self.width)
        return np.concatenate([*order, rest]).astype(int), np.concatenate([*signs, np.ones(len(rest), np.float32)])


class Tile:
    """Workspace of one thread."""

    def __init__(self, columns: Columns, actor: Network, critic: Network, settings: Any, mirror: Mirror | None) -> None:
        self.columns, self.settings = columns, settings
        self.actor, self.critic = Workspace(actor, TILE), Workspace(critic, TILE)
        self.rows = np.empty((TILE, columns.width), np.float32)
        self.delta, self.scratch = (np.empty((TILE, columns.actions), np.float32) for _ in range(2))
        self.value_delta = np.empty((TILE, 1), np.float32)
        self.half = np.full(columns.actions, -0.5, np.float32)
        self.mirror = None if mirror is None else columns.mirror(mirror)

    def gradient(
        self,
        rows: np.ndarray,
        index: np.ndarray,
        actor: Layers,
        critic: Layers,
        log_std: np.ndarray,
        gradients: tuple[Layers, Layers, np.ndarray],
        count: int,
    ) -> np.ndarray:
        """Sums (surrogate, squared value error, squared distance of means for the KL divergence, its samples, clipped samples).

        `rows`: all samples; `index`: those of this tile; `gradients`: of actor, critic and log_std, written here, for a loss
        that is the mean over `count` samples.
        """
        s, c, n = self.settings, self.columns, len(index)
        taken = np.take(rows, index, axis=0, out=self.rows[:n], mode="clip")
        original = n
        if self.mirror is not None:  # half of each tile in a mirror, so that all epochs together see both
            original = n - n // 2
            taken[original:] = taken[original:][:, self.mirror[0]] * self.mirror[1]

        # surrogate: min(ratio A, clip(ratio) A)
        mean = self.actor.forward(actor, taken[:, : c.observations])
        inverse_std = np.exp(-log_std)
        z, scratch = self.delta[:n], self.scratch[:n]
        np.subtract(taken[:, c.action], mean, out=z)
        z *= inverse_std
        np.multiply(z, z, out=scratch)
        advantage = taken[:, c.advantage]
        log_ratio = scratch @ self.half
        log_ratio -= taken[:, c.advantage + 3]
        log_ratio -= log_std.sum()
        np.clip(log_ratio, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO, out=log_ratio)
        ratio = np.exp(log_ratio, out=log_ratio)
        bounded = np.clip(ratio, 1.0 - s.clip, 1.0 + s.clip)
        bounded *= advantage
        weight = np.multiply(ratio, advantage, out=ratio)
        active = weight <= bounded
        surrogate = np.minimum(weight, bounded).sum()
        weight *= active
        weight *= np.float32(-1.0 / count)
        np.subtract(weight @ scratch, weight.sum(), out=gradients[2])  # of log_std: weight (z^2 - 1)

        # KL divergence of the samples that are not mirrored
        np.subtract(mean[:original], taken[:original, c.mean], out=scratch[:original])
        scratch[:original] *= inverse_std
        distance = np.dot(scratch[:original].ravel(), scratch[:original].ravel())

        # actor: d loss / d mean = weight z / std, and the penalty on means beyond the bound
        z *= weight[:, None]
        z *= inverse_std
        if s.action_bound is not None and s.bound_coefficient > 0.0:
            np.clip(mean, -s.action_bound, s.action_bound, out=scratch)
            np.subtract(mean, scratch, out=scratch)
            scratch *= np.float32(2.0 * s.bound_coefficient / count)
            z += scratch
        self.actor.backward(actor, gradients[0], taken[:, : c.observations], z)

        # critic: squared error against the normalised return
        value = self.critic.forward(critic, taken[:, c.critic])[:, 0]
        target, old = taken[:, c.advantage + 1], taken[:, c.advantage + 2]
        error = value - target
        loss = error * error
        if s.value_clip is not None:
            near = np.clip(value - old, -s.value_clip, s.value_clip) + old - target
            near *= near
            error *= loss >= near
            loss = np.maximum(loss, near)
        np.multiply(error, np.float32(2.0 * s.value_coefficient / count), out=self.value_delta[:n, 0])
        self.critic.backward(critic, gradients[1], taken[:, c.critic], self.value_delta[:n])
        return np.array([surrogate, loss.sum(), distance, original, n - np.count_nonzero(active)], np.float64)
