"""Actors of PPO: a perceptron whose samples are independent, and an LSTM whose samples are sequences.

Both have the same parts: a vector of `count` parameters made of a policy by `pack` and made a policy by `policy`; `packed`, the
parameters as tiles read them, with `load`, `unpad` and the `count` of a padded gradient; and workspaces of tiles with `select`,
`forward` and `backward`. `group`: samples that stay together, in the order of time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.methods.learn import lstm
from condyle.methods.learn.lstm import LSTMPolicy, State, initial_lstm
from condyle.methods.learn.network import Network
from condyle.methods.learn.policy import OBSERVATION_CLIP, Policy, initial_policy
from condyle.methods.learn.tile import BlockWorkspace, PackedLayers
from condyle.methods.learn.tile_code import BLOCK

TILE = 512  # samples; sums over tiles are made in their order, so bits do not depend on the number of threads
ROBOTS = 64  # sequences of a tile of a recurrent actor

Array = np.ndarray


class Perceptron:
    """A multilayer perceptron."""

    group, tile = 1, TILE

    def __init__(self, observations: int, actions: int, settings: Any) -> None:
        self.settings = settings
        self.network = Network((observations, *settings.hidden, actions), settings.activation)
        self.packed = PackedLayers(self.network)
        self.sizes, self.count = self.network.sizes, self.network.count

    @property
    def form(self) -> str:
        """What a policy to begin with must be."""
        return f"a perceptron with sizes {self.sizes} and {self.settings.activation}"

    def initial(self, seed: int) -> Policy:
        """The policy before any training."""
        return initial_policy(self.sizes, activation=self.settings.activation, std=self.settings.initial_std, seed=seed)

    def fits(self, policy: Any) -> bool:
        """Whether training may begin with this policy."""
        return isinstance(policy, Policy) and policy.sizes == self.sizes and policy.activation == self.settings.activation

    def pack(self, policy: Any) -> Array:
        """The parameters of a policy."""
        return self.network.pack(policy.layers)

    def policy(self, flat: Array, mean: Array, std: Array, log_std: Array) -> Policy:
        """The policy with these parameters."""
        return Policy(self.network.unpack(flat), self.settings.activation, mean, std, OBSERVATION_CLIP, log_std)

    def begin(self, rollouts: Any) -> None:
        """None; samples of a perceptron depend on nothing before them."""

    def workspace(self, rows: Array) -> BlockWorkspace:
        """Of one thread."""
        return BlockWorkspace(self.packed, rows)


class Recurrent:
    """A layer of long short-term memory; gradients are by backpropagation through the steps of a rollout.

    The memory at the start of the rollout is that of the weights which took the actions, and constant.
    """

    def __init__(self, observations: int, actions: int, settings: Any) -> None:
        self.settings, self.group = settings, settings.steps
        self.sizes = (observations, settings.units, actions)
        self.packed = PackedLSTM(*self.sizes)
        self.count = self.packed.count
        self.tile = -(-max(ROBOTS * self.group, TILE) // BLOCK) * BLOCK

    @property
    def form(self) -> str:
        """What a policy to begin with must be."""
        return f"an LSTM with sizes {self.sizes}"

    def initial(self, seed: int) -> LSTMPolicy:
        """The policy before any training."""
        return initial_lstm(*self.sizes, seed=seed, deviation=self.settings.initial_std)

    def fits(self, policy: Any) -> bool:
        """Whether training may begin with this policy."""
        return isinstance(policy, LSTMPolicy) and policy.sizes == self.sizes

    def pack(self, policy: Any) -> Array:
        """The parameters of a policy."""
        return np.concatenate([policy.parameters()[name].ravel() for name in self.packed.shapes])

    def policy(self, flat: Array, mean: Array, std: Array, log_std: Array) -> LSTMPolicy:
        """The policy with these parameters."""
        arrays = {name: view.copy() for name, view in self.packed.views(flat).items()}
        return LSTMPolicy(**arrays, mean=mean, std=std, observation_clip=OBSERVATION_CLIP, log_std=log_std)

    def begin(self, rollouts: Any) -> None:
        """None; the following samples are those of these rollouts."""
        ended = np.asarray(rollouts.terminated, bool) | np.asarray(rollouts.truncated, bool)
        self.packed.begins = np.concatenate([np.zeros((len(ended), 1), bool), ended[:, :-1]], axis=1)
        self.packed.memory = np.asarray(rollouts.memory, np.float32)

    def workspace(self, rows: Array) -> SequenceWorkspace:
        """Of one thread."""
        return SequenceWorkspace(self.packed, rows)


class PackedLSTM:
    """The arrays of an LSTM in one vector of parameters, and the sequences of the present rollout."""

    def __init__(self, observations: int, units: int, actions: int) -> None:
        self.shapes = {"gates": (units, 4, observations + units + 1), "W": (actions, units), "b": (actions,)}
        self.count = sum(int(np.prod(shape)) for shape in self.shapes.values())
        self.weights = self.views(np.zeros(self.count, np.float32))
        self.begins, self.memory = np.zeros((0, 0), bool), np.zeros((0, 2 * units), np.float32)

    def views(self, flat: Array) -> dict[str, Array]:
        """The arrays by name, as views of a vector."""
        found, at = {}, 0
        for name, shape in self.shapes.items():
            size = int(np.prod(shape))
            found[name] = flat[at : at + size].reshape(shape)
            at += size
        return found

    def load(self, flat: Array) -> None:
        """None; the weights are those of a vector of parameters."""
        for name, view in self.views(flat).items():
            self.weights[name][:] = view

    def unpad(self, padded: Array, flat: Array) -> None:
        """None; there is no padding."""
        flat[:] = padded


class SequenceWorkspace:
    """Means of the sequences in blocks of samples (blocks, features, 32), and gradients by the weights."""

    def __init__(self, packed: PackedLSTM, x: Array) -> None:
        self.packed, self.x = packed, x
        self.outputs = np.zeros((len(x), packed.shapes["b"][0], BLOCK), np.float32)
        self.robots = np.zeros(0, int)
        self._kept: lstm.Sequence | None = None

    def select(self, index: Array) -> None:
        """None; the samples have these numbers, all steps of one robot after those of another."""
        self.robots = index[:: self.packed.begins.shape[1]] // self.packed.begins.shape[1]

    def forward(self, blocks: int) -> Array:
        """Outputs (blocks, actions, 32)."""
        p, (robots, steps) = self.packed, (len(self.robots), self.packed.begins.shape[1])
        n, units = p.shapes["gates"][2] - len(p.weights["gates"]) - 1, len(p.weights["gates"])
        x = self.x[:blocks, :n].swapaxes(1, 2).reshape(-1, n)[: robots * steps].reshape(robots, steps, n)
        h, c = p.memory[self.robots, :units], p.memory[self.robots, units:]
        means, _, self._kept = lstm.forward(p.weights, x, State(h, c), p.begins[self.robots])
        rows = np.zeros((blocks * BLOCK, means.shape[-1]), np.float32)
        rows[: robots * steps] = means.reshape(robots * steps, -1)
        self.outputs[:blocks] = rows.reshape(blocks, BLOCK, -1).swapaxes(1, 2)
        return self.outputs

    def backward(self, blocks: int, gradient: Array) -> None:
        """None; `gradient` is that of a loss, whose gradient by the outputs is in the place of the outputs."""
        robots, steps = len(self.robots), self.packed.begins.shape[1]
        above = self.outputs[:blocks].swapaxes(1, 2).reshape(blocks * BLOCK, -1)[: robots * steps]
        assert self._kept is not None
        by = lstm.backward(self.packed.weights, self._kept, np.ascontiguousarray(above.reshape(robots, steps, -1)))
        for name, view in self.packed.views(gradient).items():
            view[:] = by[name]


def actor_of(observations: int, actions: int, settings: Any) -> Perceptron | Recurrent:
    """The actor that the settings ask for."""
    made: type[Perceptron] | type[Recurrent] = Recurrent if settings.units else Perceptron
    return made(observations, actions, settings)
