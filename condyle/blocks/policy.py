"""Policies: multilayer perceptrons whose weights are data of the loop, not part of the compiled code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from condyle.closed_loop.block import Block
from condyle.errors import ControlError
from condyle.tape.array import array, where
from condyle.tape.loop import map_rows
from condyle.tape.table import Table

# neurons that one iteration computes: their sums do not wait for each other; and weights of them, which take time to compile
TOGETHER, WEIGHTS = 4, 640


def elu(x: Any) -> Any:
    """x above zero, exp(x) - 1 below."""
    return where(x > 0.0, x, np.exp(np.minimum(x, 0.0)) - 1.0)


def relu(x: Any) -> Any:
    """max(x, 0)."""
    return np.maximum(x, 0.0)


def identity(x: Any) -> Any:
    """x."""
    return x


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"elu": elu, "relu": relu, "tanh": np.tanh, "identity": identity}


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + np.exp(-x))


class Normalization:
    """clip((observation - mean) / std), each part optional: parameters of a block."""

    def __init__(self, block: Block, size: int, mean: Any, std: Any, bound: float | None) -> None:
        self.name, self.size = block.name, size
        self.mean = _optional(block, "mean", mean, size)
        self.std = _optional(block, "std", std, size, minimum=1e-12)
        self.bound = _optional(block, "observation_clip", bound, 0, minimum=0.0)

    def __call__(self, observation: Any) -> Any:
        """The normalised observations."""
        x = array(observation).reshape(-1) if not isinstance(observation, np.ndarray) else observation.reshape(-1)
        if len(x) != self.size:
            raise ControlError(f"block '{self.name}' takes {self.size} observations, and is given {len(x)}")
        x = x if self.mean is None else x - self.mean
        x = x if self.std is None else x / self.std
        return _clipped(x, self.bound)


class Scaling:
    """offset + scale * clip(output), each part optional: parameters of a block."""

    def __init__(self, block: Block, size: int, scale: Any, offset: Any, bound: float | None) -> None:
        self.scale = _optional(block, "scale", scale, size)
        self.offset = _optional(block, "offset", offset, size)
        self.bound = _optional(block, "clip", bound, 0, minimum=0.0)

    def __call__(self, x: Any) -> Any:
        """The actions of a network's output."""
        x = _clipped(x, self.bound)
        x = x if self.scale is None else x * self.scale
        return x if self.offset is None else x + self.offset


class MLP(Block):
    """action = offset + scale * net((observation - mean) / std), of layers activation(W x + b), the last one without activation.

    `layers`: [(W, b), ...], W of shape (outputs, inputs). `activation`: "elu", "relu", "tanh" or "identity". `mean`, `std`: of
    each observation; `observation_clip`: bound of the normalised ones. `scale`, `offset`: of each action; `clip`: bound of the
    net's output before them. Weights are shared arrays "policy.layer0", ... of shape (outputs, inputs + 1), the bias in the last
    column: other weights of the same shapes are given with each call, and do not compile again.
    """

    def __init__(
        self,
        layers: Sequence[tuple[Any, Any]],
        activation: str = "elu",
        *,
        mean: Any = None,
        std: Any = None,
        observation_clip: float | None = None,
        scale: Any = None,
        offset: Any = None,
        clip: float | None = None,
        name: str = "policy",
        **options: Any,
    ) -> None:
        super().__init__(name=name, **options)
        if activation not in ACTIVATIONS:
            raise ControlError(f"block '{self.name}': activation must be one of {', '.join(ACTIVATIONS)}; got {activation!r:.40}")
        self.activation = activation
        arrays = [_with_bias(self.name, k, layer) for k, layer in enumerate(layers)]
        if not arrays:
            raise ControlError(f"block '{self.name}' needs at least one layer (W, b)")
        for k, (below, above) in enumerate(pairwise(arrays)):
            if above.shape[1] - 1 != below.shape[0]:
                raise ControlError(
                    f"block '{self.name}': layer {k} has {below.shape[0]} outputs, and layer {k + 1} takes {above.shape[1] - 1}"
                )
        self.layers = [self.weights(f"layer{k}", rows) for k, rows in enumerate(arrays)]
        self.inputs, self.outputs = arrays[0].shape[1] - 1, arrays[-1].shape[0]
        self.normalization = Normalization(self, self.inputs, mean, std, observation_clip)
        self.scaling = Scaling(self, self.outputs, scale, offset, clip)

    def step(self, state: dict[str, Any], observation: Any) -> tuple[Any, dict[str, Any]]:
        """The action for an observation."""
        x = self.normalization(observation)
        for k, weights in enumerate(self.layers):
            shape = identity if k == len(self.layers) - 1 else ACTIVATIONS[self.activation]
            x = layer(weights.value, x, shape)
        return self.scaling(x), {}


class LSTM(Block):
    """action = offset + scale * (W h + b), with one layer of long short-term memory (Hochreiter and Schmidhuber 1997):

        (i, f, g, o) = gates [x, h, 1],   c' = sigmoid(f) c + sigmoid(i) tanh(g),   h' = sigmoid(o) tanh(c')

    of normalised observations x. `gates`: (units, 4, observations + units + 1), the bias in the last column; `output`: (W, b).
    Other options are those of MLP. The shared arrays are "policy.gates" and "policy.output", the states "policy.h", "policy.c".
    """

    def __init__(
        self,
        gates: Any,
        output: tuple[Any, Any],
        *,
        mean: Any = None,
        std: Any = None,
        observation_clip: float | None = None,
        scale: Any = None,
        offset: Any = None,
        clip: float | None = None,
        name: str = "policy",
        **options: Any,
    ) -> None:
        super().__init__(name=name, **options)
        rows, last = np.asarray(gates, dtype=float), _with_bias(self.name, 0, output)
        if rows.ndim != 3 or rows.shape[1] != 4 or rows.shape[2] < len(rows) + 2:
            raise ControlError(
                f"block '{self.name}': gates must have the shape (units, 4, observations + units + 1), got {rows.shape}"
            )
        units = len(rows)
        if last.shape[1] - 1 != units:
            raise ControlError(f"block '{self.name}' has {units} units, and its output layer takes {last.shape[1] - 1}")
        self.inputs, self.outputs = rows.shape[2] - units - 1, len(last)
        self.gates, self.output = self.weights("gates", rows), self.weights("output", last)
        self.normalization = Normalization(self, self.inputs, mean, std, observation_clip)
        self.scaling = Scaling(self, self.outputs, scale, offset, clip)
        self.state("h", np.zeros(units))
        self.state("c", np.zeros(units))

    def step(self, state: dict[str, Any], observation: Any) -> tuple[Any, dict[str, Any]]:
        """The action for an observation, and the next state."""
        x = self.normalization(observation)
        inputs, gates, before = np.concatenate([x, state["h"]]), self.gates.value, state["c"]

        def unit(row: Any, c: Any) -> tuple[Any, Any]:
            i, f, g, o = (row[..., k, :-1] @ inputs + row[..., k, -1] for k in range(4))
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            return c, sigmoid(o) * np.tanh(c)

        c, h = map_rows(unit, gates, before) if isinstance(gates, Table) else unit(gates, before)
        h = h[:]
        return self.scaling(layer(self.output.value, h, identity)), {"h": h, "c": c[:]}


def layer(weights: Any, x: Any, activation: Callable[[Any], Any]) -> Any:
    """activation(W x + b) for rows of a neuron's weights and its bias: a loop over neurons for a table, else NumPy."""
    if not isinstance(weights, Table):
        return activation(weights[:, :-1] @ x + weights[:, -1])
    count, size = weights.shape
    n = max(k for k in range(1, TOGETHER + 1) if k == 1 or (count % k == 0 and k * size <= WEIGHTS))

    def neurons(row: Any) -> Any:
        return array([activation(each[:-1] @ x + each[-1]) for each in row.reshape(n, size)])

    return map_rows(neurons, weights.reshape(count // n, n * size))[:].reshape(-1)


def _with_bias(name: str, k: int, given: Any) -> np.ndarray:
    """A layer as one array, the bias in the last column."""
    try:
        W, b = (np.asarray(part, dtype=float) for part in given)
    except (TypeError, ValueError):
        raise ControlError(f"block '{name}': layer {k} must be a pair (W, b) of arrays of numbers") from None
    if W.ndim != 2 or b.shape != W.shape[:1]:
        raise ControlError(
            f"block '{name}': layer {k} must have W of shape (outputs, inputs) and b of shape (outputs,); got {W.shape} "
            f"and {b.shape}"
        )
    return np.column_stack([W, b])


def _optional(block: Block, name: str, value: Any, size: int, minimum: float | None = None) -> Any:
    """A parameter of the block, or None."""
    if value is None:
        return None
    if np.shape(value) not in ((), (size,)):
        raise ControlError(
            f"block '{block.name}': {name} must be one number{f' or {size}' if size else ''}, got shape {np.shape(value)}"
        )
    return block.parameter(name, value, minimum=minimum)


def _clipped(x: Any, bound: Any) -> Any:
    return x if bound is None else np.minimum(np.maximum(x, -bound), bound)
