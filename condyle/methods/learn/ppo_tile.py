"""The loss of PPO and its gradient for a tile of samples: small enough for the caches of one core, the same on any thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.methods.learn.actor import Perceptron, Recurrent
from condyle.methods.learn.mirror import Mirror
from condyle.methods.learn.tile_body import BLOCK, LANES
from condyle.methods.learn.tile_code import functions
from condyle.methods.learn.tile_loss import NUMBERS, SUMS
from condyle.methods.learn.tile_network import BlockWorkspace, PackedLayers, gather
from condyle.tape.backends.cpu import address


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
        """Numbers of a row, a multiple of LANES; the last of them are not used."""
        return -(-(self.advantage + 4) // LANES) * LANES

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

    def __init__(
        self, columns: Columns, actor: Perceptron | Recurrent, critic: PackedLayers, settings: Any, mirror: Mirror | None
    ) -> None:
        self.columns, self.settings = columns, settings
        self.rows = np.zeros((actor.tile // BLOCK, columns.width, BLOCK), np.float32)
        self.actor, self.critic = actor.workspace(self.rows), BlockWorkspace(critic, self.rows)
        self.numbers = np.zeros(actor.tile, np.int64)
        self.shared = np.zeros(len(NUMBERS) + columns.actions + LANES * (len(SUMS) + columns.actions), np.float32)
        self.mirror = None if mirror is None else columns.mirror(mirror)

    def values(self, rows: np.ndarray) -> np.ndarray:
        """What the critic says of consecutive rows."""
        n = len(rows)
        blocks = -(-n // BLOCK)
        self.numbers[: blocks * BLOCK] = np.minimum(np.arange(blocks * BLOCK), n - 1)
        gather(rows, self.numbers[: blocks * BLOCK], self.rows)
        return self.critic.forward(blocks)[:blocks, 0].reshape(-1)[:n]

    def gradient(
        self, rows: np.ndarray, index: np.ndarray, log_std: np.ndarray, count: int, gradients: tuple[np.ndarray, ...]
    ) -> np.ndarray:
        """Sums (surrogate, squared value error, squared distance of means for the KL divergence, clipped samples, originals).

        `rows`: all samples; `index`: those of this tile; `gradients`: padded ones of actor and critic, and that of log_std,
        written here, for a loss that is the mean over `count` samples.
        """
        s, c, n = self.settings, self.columns, len(index)
        blocks = -(-n // BLOCK)
        self.numbers[:n], self.numbers[n : blocks * BLOCK] = index, index[0]
        gather(rows, self.numbers[: blocks * BLOCK], self.rows)
        originals = n
        if self.mirror is not None:  # half of each tile in a mirror: all epochs together see both
            half = blocks - blocks // 2
            order, signs = self.mirror
            self.rows[half:blocks] = self.rows[half:blocks, order] * signs[:, None]
            originals = min(half * BLOCK, n)
        self.actor.select(index)
        means, values = self.actor.forward(blocks), self.critic.forward(blocks)
        bounded = s.action_bound is not None and s.bound_coefficient > 0.0
        start = len(NUMBERS)
        self.shared[:start] = (
            log_std.sum(),
            1.0 - s.clip,
            1.0 + s.clip,
            -1.0 / count,
            s.action_bound if bounded else 0.0,
            2.0 * s.bound_coefficient / count if bounded else 0.0,
            2.0 * s.value_coefficient / count,
            s.value_clip or 0.0,
            s.value_clip is not None,
        )
        self.shared[start : start + c.actions] = np.exp(-log_std)
        sums = self.shared[start + c.actions :].reshape(-1, LANES)
        sums[:] = 0.0
        places = (address(each) for each in (self.rows, means, values, self.shared))
        sizes = blocks, c.actions, c.width, means.shape[1], values.shape[1], c.action.start, n, originals
        functions().loss(*places, *sizes)
        self.actor.backward(blocks, gradients[0])
        self.critic.backward(blocks, gradients[1])
        total = np.add.reduce(sums, axis=1)
        gradients[2][:] = total[len(SUMS) :]
        return np.append(total[: len(SUMS)].astype(np.float64), originals)
