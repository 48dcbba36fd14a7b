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
        self.mean = self._optional("mean", mean, self.inputs)
        self.std = self._optional("std", std, self.inputs, minimum=1e-12)
        self.scale = self._optional("scale", scale, self.outputs)
        self.offset = self._optional("offset", offset, self.outputs)
        self.observation_clip = self._optional("observation_clip", observation_clip, 0, minimum=0.0)
        self.clip = self._optional("clip", clip, 0, minimum=0.0)

    def step(self, state: dict[str, Any], observation: Any) -> tuple[Any, dict[str, Any]]:
        """The action for an observation."""
        x = array(observation).reshape(-1) if not isinstance(observation, np.ndarray) else observation.reshape(-1)
        if len(x) != self.inputs:
            raise ControlError(f"block '{self.name}' takes {self.inputs} observations, and is given {len(x)}")
        x = x if self.mean is None else x - self.mean
        x = x if self.std is None else x / self.std
        x = _clipped(x, self.observation_clip)
        for k, weights in enumerate(self.layers):
            shape = identity if k == len(self.layers) - 1 else ACTIVATIONS[self.activation]
            x = layer(weights.value, x, shape)
        x = _clipped(x, self.clip)
        x = x if self.scale is None else x * self.scale
        return x if self.offset is None else x + self.offset, {}

    def _optional(self, name: str, value: Any, size: int, minimum: float | None = None) -> Any:
        if value is None:
            return None
        if np.shape(value) not in ((), (size,)):
            raise ControlError(
                f"block '{self.name}': {name} must be one number{f' or {size}' if size else ''}, got shape {np.shape(value)}"
            )
        return self.parameter(name, value, minimum=minimum)


def layer(weights: Any, x: Any, activation: Callable[[Any], Any]) -> Any:
    """activation(W x + b) for rows of a neuron's weights and its bias: a loop over neurons for a table, else NumPy."""
    if not isinstance(weights, Table):
        return activation(weights[:, :-1] @ x + weights[:, -1])
    return map_rows(lambda row: activation(row[:-1] @ x + row[-1]), weights)[:]


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


def _clipped(x: Any, bound: Any) -> Any:
    return x if bound is None else np.minimum(np.maximum(x, -bound), bound)
