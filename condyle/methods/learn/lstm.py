"""A policy with memory: one layer of long short-term memory and a linear output, in NumPy float32, with its gradients.

    (i, f, g, o) = gates [x, h, 1],   c' = sigmoid(f) c + sigmoid(i) tanh(g),   h' = sigmoid(o) tanh(c'),   action = W h' + b

(Hochreiter and Schmidhuber 1997). Gradients are by backpropagation through time over a batch of sequences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from condyle.blocks.policy import LSTM
from condyle.errors import ControlError
from condyle.methods.learn.policy import OBSERVATION_CLIP, orthogonal

Array = np.ndarray


class State(NamedTuple):
    """Output and cell of the units, each (batch, units)."""

    h: Array
    c: Array


class Sequence(NamedTuple):
    """What the backward pass needs of a sequence: inputs [x, h, 1], gates and cells of each step, and what of a state is kept."""

    inputs: Array  # (steps, batch, observations + units + 1)
    gates: Array  # (steps, batch, units, 4), after their functions
    cells: Array  # (steps + 1, batch, units)
    h: Array  # (steps, batch, units)
    keep: Array | None = None  # (steps, batch, 1): 0 where an episode begins, else 1


@dataclass(frozen=True)
class LSTMPolicy:
    """Mean actions of observations and of what was observed before; deviations exp(log_std) of exploration.

    `gates`: (units, 4, observations + units + 1), rows in the order input, forget, cell, output gate, the bias in the last
    column; `W` (actions, units), `b`; `mean`, `std`: of the observations; `observation_clip`: bound of the normalised ones.
    """

    gates: Array
    W: Array
    b: Array
    mean: Array = field(default_factory=lambda: np.zeros(0, np.float32))
    std: Array = field(default_factory=lambda: np.zeros(0, np.float32))
    observation_clip: float = OBSERVATION_CLIP
    log_std: Array = field(default_factory=lambda: np.zeros(0, np.float32))

    kind = "lstm"

    def __post_init__(self) -> None:
        for name in ("gates", "W", "b", "mean", "std", "log_std"):
            try:
                object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), np.float32))
            except (TypeError, ValueError):
                raise ControlError(f"'{name}' of an LSTM policy must be an array of numbers") from None
        gates, W, b = self.gates, self.W, self.b
        if gates.ndim != 3 or gates.shape[1] != 4 or gates.shape[2] < len(gates) + 2:
            raise ControlError(
                f"gates of an LSTM policy must have the shape (units, 4, observations + units + 1), got {gates.shape}"
            )
        if W.ndim != 2 or W.shape[1] != len(gates) or b.shape != W.shape[:1]:
            raise ControlError(
                f"the output of an LSTM policy of {len(gates)} units must have W (actions, {len(gates)}) and b (actions,), got "
                f"{W.shape} and {b.shape}"
            )
        n, _, m = self.sizes
        for name, size, fill in (("mean", n, 0.0), ("std", n, 1.0), ("log_std", m, 0.0)):
            given = getattr(self, name)
            value = np.full(size, fill, np.float32) if given.size == 0 else given
            if value.shape != (size,):
                raise ControlError(f"an LSTM policy with sizes {self.sizes} needs {name} of shape ({size},), got {given.shape}")
            object.__setattr__(self, name, value)
        for name, array in self.arrays().items():
            if not np.isfinite(array).all():
                raise ControlError(
                    f"'{name}' of the policy has values that are not finite: training diverged, or the file is damaged"
                )
        if not ((self.std > 0.0).all() and self.observation_clip > 0.0):
            raise ControlError("std and observation_clip of a policy must be above zero")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Numbers of observations, units and actions."""
        units = len(self.gates)
        return self.gates.shape[2] - units - 1, units, len(self.W)

    def initial(self, count: int) -> State:
        """The state of `count` robots that have observed nothing."""
        return State(*np.zeros((2, count, len(self.gates)), np.float32))

    def normalized(self, observations: Any) -> Array:
        """clip((observations - mean) / std), float32."""
        x = np.asarray(observations, np.float32)
        if x.shape[-1:] != self.mean.shape:
            raise ControlError(f"the policy takes {self.sizes[0]} observations, and is given an array of shape {x.shape}")
        found: Array = np.clip((x - self.mean) / self.std, -self.observation_clip, self.observation_clip, dtype=np.float32)
        return found

    def __call__(self, observations: Any, state: State) -> tuple[Array, State]:
        """(mean actions (batch, actions), next state) of observations (batch, n)."""
        actions, state, _ = forward(self.parameters(), self.normalized(observations)[:, None], state)
        return actions[:, 0], state

    def parameters(self) -> dict[str, Array]:
        """The trained arrays: gates, W, b."""
        return {"gates": self.gates, "W": self.W, "b": self.b}

    def block(self, **options: Any) -> LSTM:
        """The policy as a block of a closed loop; `options` are those of cd.blocks.LSTM: scale, offset, every, name, ..."""
        normalization: dict[str, Any] = {"mean": self.mean, "std": self.std, "observation_clip": self.observation_clip}
        return LSTM(self.gates, (self.W, self.b), **(normalization | options))

    # ---- files

    def facts(self) -> dict[str, Any]:
        """What is not an array, for the file."""
        return {"observation_clip": float(self.observation_clip)}

    def arrays(self) -> dict[str, Array]:
        """All arrays by name."""
        return {**self.parameters(), "mean": self.mean, "std": self.std, "log_std": self.log_std}

    @classmethod
    def from_arrays(cls, facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> LSTMPolicy:
        """The policy that `facts` and `arrays` of another one describe."""
        names = ("gates", "W", "b", "mean", "std", "log_std")
        missing = [name for name in names if name not in arrays]
        if missing:
            raise ControlError(f"the policy lacks the array '{missing[0]}'")
        clip = facts.get("observation_clip", OBSERVATION_CLIP)
        if not isinstance(clip, int | float):
            raise ControlError(f"observation_clip of a policy must be a number, got {clip!r:.40}")
        return cls(**{name: arrays[name] for name in names}, observation_clip=float(clip))


def initial_lstm(
    observations: int, units: int, actions: int, *, seed: int = 0, deviation: float = 1.0, **options: Any
) -> LSTMPolicy:
    """An LSTM policy with orthogonal weights, and forget gates that begin open (bias 1)."""
    rng = np.random.default_rng([seed, 1])
    gates = np.zeros((units, 4, observations + units + 1), np.float32)
    for k in range(4):
        gates[:, k, :observations] = rng.standard_normal((units, observations)) / np.sqrt(observations)
        gates[:, k, observations:-1] = orthogonal(rng, units, units, 1.0)
    gates[:, 1, -1] = 1.0
    W = orthogonal(rng, actions, units, 0.1)
    return LSTMPolicy(gates, W, np.zeros(actions, np.float32), log_std=np.full(actions, np.log(deviation), np.float32), **options)


def forward(weights: Mapping[str, Array], x: Array, state: State, begins: Array | None = None) -> tuple[Array, State, Sequence]:
    """(actions (batch, steps, m), the last state, what the backward pass needs) of normalised observations (batch, steps, n).

    `begins`: (batch, steps), steps before which the state is forgotten, because an episode begins.
    """
    batch, steps, n = x.shape
    units, one = len(weights["gates"]), x.dtype.type(1.0)
    rows = weights["gates"].reshape(4 * units, -1).T
    inputs = np.empty((steps, batch, n + units + 1), x.dtype)
    inputs[:, :, :n], inputs[:, :, -1] = x.swapaxes(0, 1), one
    gates, cells = np.empty((steps, batch, units, 4), x.dtype), np.empty((steps + 1, batch, units), x.dtype)
    outputs = np.empty((steps, batch, units), x.dtype)
    keep = None if begins is None else np.where(begins.T[:, :, None], x.dtype.type(0.0), one)
    h, cells[0] = state
    for t in range(steps):
        c = cells[t]
        if keep is not None:
            h, c = h * keep[t], c * keep[t]
        inputs[t, :, n:-1] = h
        z = (inputs[t] @ rows).reshape(batch, units, 4)
        gates[t] = one / (one + np.exp(-z))
        gates[t, :, :, 2] = np.tanh(z[:, :, 2])
        i, f, g, o = np.moveaxis(gates[t], -1, 0)
        cells[t + 1] = f * c + i * g
        h = outputs[t] = o * np.tanh(cells[t + 1])
    actions = outputs.swapaxes(0, 1) @ weights["W"].T + weights["b"]
    return actions, State(h, cells[-1]), Sequence(inputs, gates, cells, outputs, keep)


def backward(weights: Mapping[str, Array], kept: Sequence, gradient: Array) -> dict[str, Array]:
    """Gradients by the arrays of `weights` for that by the actions (batch, steps, m); the state at the start is constant."""
    steps, batch, width = kept.inputs.shape
    units, one = len(weights["gates"]), gradient.dtype.type(1.0)
    rows = weights["gates"].reshape(4 * units, width)
    above = gradient.swapaxes(0, 1).reshape(steps * batch, -1)
    by_W, by_b = above.T @ kept.h.reshape(steps * batch, units), above.sum(0)
    by_h = (above @ weights["W"]).reshape(steps, batch, units)
    by_z = np.empty_like(kept.gates)
    h_next, c_next = np.zeros((2, batch, units), gradient.dtype)
    n = width - units - 1
    for t in range(steps - 1, -1, -1):
        i, f, g, o = np.moveaxis(kept.gates[t], -1, 0)
        dh, squashed = by_h[t] + h_next, np.tanh(kept.cells[t + 1])
        dc = c_next + dh * o * (one - squashed * squashed)
        c = kept.cells[t] if kept.keep is None else kept.cells[t] * kept.keep[t]
        by_z[t, :, :, 0] = dc * g * i * (one - i)
        by_z[t, :, :, 1] = dc * c * f * (one - f)
        by_z[t, :, :, 2] = dc * i * (one - g * g)
        by_z[t, :, :, 3] = dh * squashed * o * (one - o)
        c_next, h_next = dc * f, by_z[t].reshape(batch, -1) @ rows[:, n:-1]
        if kept.keep is not None:
            c_next, h_next = c_next * kept.keep[t], h_next * kept.keep[t]
    by_gates = by_z.reshape(steps * batch, -1).T @ kept.inputs.reshape(steps * batch, -1)
    return {"gates": by_gates.reshape(units, 4, width), "W": by_W, "b": by_b}
