"""What a thread computes of PPO: networks over blocks of samples, and the loss and its gradient for a tile of samples.

A tile is small enough for the caches of one core, and gives the same bits on any thread; tile_code.py is its machine code.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.methods.learn.mirror import Mirror
from condyle.methods.learn.network import Network
from condyle.methods.learn.tile_code import BLOCK, LANES, NUMBERS, OUTPUTS, SUMS, functions
from condyle.tape.backends.cpu import address

if TYPE_CHECKING:
    from condyle.methods.learn.actor import Perceptron, Recurrent

ROOM = 4  # further features that a product may read, and further rows that it may write


class PackedLayers:
    """The layers of a network as the code reads them, copied from a vector of parameters; neurons are padded with zeros.

    `count`: numbers of a padded gradient: for each layer (inputs + ROOM, padded outputs), then (padded outputs,).
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        sizes = network.sizes
        self.padded = tuple(-(-n // OUTPUTS) * OUTPUTS for n in sizes)
        self.weights = [np.zeros((m, self.padded[k + 1]), np.float32) for k, m in enumerate(sizes[:-1])]
        self.biases = [np.zeros(n, np.float32) for n in self.padded[1:]]
        self.transposed = [np.zeros((n, self.padded[k]), np.float32) for k, n in enumerate(sizes[1:])]
        self.zeros = np.zeros(max(self.padded), np.float32)
        shapes = [(m + ROOM, n) for m, n in zip(sizes[:-1], self.padded[1:], strict=True)]
        self.starts = np.cumsum([0] + [part for m, n in shapes for part in (m * n, n)]).tolist()
        self.count = int(self.starts[-1])

    def load(self, flat: np.ndarray) -> None:
        """None; the layers are those of a vector of parameters."""
        for k, (Wt, b) in enumerate(self.network.views(flat)):
            m, n = Wt.shape
            self.weights[k][:, :n], self.biases[k][:n], self.transposed[k][:, :m] = Wt, b, Wt.T

    def unpad(self, padded: np.ndarray, flat: np.ndarray) -> None:
        """None; `flat` is a padded gradient as a vector like the parameters."""
        for k, (Wt, b) in enumerate(self.network.views(flat)):
            start, middle, end = self.starts[2 * k : 2 * k + 3]
            Wt[:] = padded[start:middle].reshape(-1, self.padded[k + 1])[: Wt.shape[0], : Wt.shape[1]]
            b[:] = padded[middle:end][: len(b)]


class BlockWorkspace:
    """Arrays (blocks, features, 32) for the outputs of the layers and their gradients; `x`: (blocks, features, 32), the inputs.

    One feature more than there are neurons: a block is no power of two long, so that blocks do not share a set of the cache.
    The gradient by the outputs is written over the outputs, before `backward`.
    """

    def __init__(self, layers: PackedLayers, x: np.ndarray) -> None:
        self.layers = p = layers
        sizes, padded, code = p.network.sizes, p.padded, functions()
        self.outputs = [np.zeros((len(x), n + 1, BLOCK), np.float32) for n in padded[1:]]
        deltas = [np.zeros((len(x), n + 1, BLOCK), np.float32) for n in padded[1:-1]]
        self._kept = [x, *deltas]
        ys, ds, act = [x, *self.outputs], [*deltas, self.outputs[-1]], p.network.activation
        last = len(sizes) - 2
        forward: list[list[int]] = []
        backward: list[list[int]] = []
        gradients: list[tuple[int, int]] = []
        for k, (below, y) in enumerate(pairwise(ys)):
            name = f"affine_{'identity' if k == last else act}"
            places = [address(a) for a in (y, below, p.weights[k], p.biases[k], y)]
            strides = [padded[k + 1], padded[k + 1], below.shape[1], y.shape[1]]
            forward.append([code.products[name], *places, 0, sizes[k], *strides])
        for k in range(last, -1, -1):
            below, d, n = ys[k], ds[k], padded[k + 1]
            gradients += [(len(backward), p.starts[2 * k]), (len(backward) + 1, p.starts[2 * k + 1])]
            products = [code.products["outer"], 0, address(d), address(below), 0, 0]
            backward.append([*products, 0, sizes[k], n, n, d.shape[1], below.shape[1]])
            backward.append([code.products["sums"], 0, address(d), 0, 0, 0, 0, n, d.shape[1], 0, 0, 0])
            if k > 0:
                to, w = ds[k - 1], p.transposed[k]
                places = [address(a) for a in (to, d, w, p.zeros, below)]
                strides = [padded[k], padded[k], d.shape[1], to.shape[1]]
                backward.append([code.products[f"affine_d_{act}"], *places, 0, sizes[k + 1], *strides])
        self._forward, self._backward = np.array(forward, np.int64), np.array(backward, np.int64)
        self._rows, self._offsets = (np.array(each, np.int64) for each in zip(*gradients, strict=True))
        self._run = code.run

    def select(self, index: np.ndarray) -> None:
        """None; the numbers of the samples do not matter to a perceptron."""

    def forward(self, blocks: int) -> np.ndarray:
        """Outputs (blocks, padded outputs + 1, 32), all blocks of this workspace."""
        self._forward[:, 6] = blocks
        self._run(address(self._forward), len(self._forward))
        return self.outputs[-1]

    def backward(self, blocks: int, gradient: np.ndarray) -> None:
        """None; `gradient` is the padded gradient of a loss, whose gradient by the outputs is in the place of the outputs."""
        self._backward[:, 6] = blocks
        self._backward[self._rows, 1] = address(gradient) + 4 * self._offsets
        self._run(address(self._backward), len(self._backward))


def gather(rows: np.ndarray, numbers: np.ndarray, out: np.ndarray) -> None:
    """None; out (blocks, columns, 32) has the rows with these numbers; columns are a multiple of 16, numbers of 32."""
    functions().gather(address(out), address(rows), address(numbers), len(numbers), rows.shape[1])


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
