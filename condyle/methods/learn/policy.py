"""A policy: a multilayer perceptron of normalised observations, in NumPy; the same as a block of a closed loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from condyle.blocks.policy import MLP
from condyle.errors import ControlError

OBSERVATION_CLIP = 5.0


def elu(x: np.ndarray) -> np.ndarray:
    """x above zero, exp(x) - 1 below."""
    return np.where(x > 0.0, x, np.exp(np.minimum(x, np.float32(0.0))) - np.float32(1.0))


ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "elu": elu,
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, np.float32(0.0)),
}


@dataclass(frozen=True)
class Policy:
    """Mean actions net(clip((observation - mean) / std)), and the deviations exp(log_std) of exploration.

    `layers`: ((W, b), ...), W of shape (outputs, inputs); `activation`: "elu", "tanh" or "relu", of all but the last layer;
    `mean`, `std`: of the observations; `observation_clip`: bound of the normalised ones. All arrays are float32.
    """

    layers: tuple[tuple[np.ndarray, np.ndarray], ...]
    activation: str = "elu"
    mean: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    std: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    observation_clip: float = OBSERVATION_CLIP
    log_std: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))

    kind = "mlp"

    def __post_init__(self) -> None:
        layers = tuple((_float32(W), _float32(b)) for W, b in self.layers)
        object.__setattr__(self, "layers", layers)
        _check_layers(layers)
        inputs, outputs = self.sizes[0], self.sizes[-1]
        for name, size, fill in (("mean", inputs, 0.0), ("std", inputs, 1.0), ("log_std", outputs, 0.0)):
            given = _float32(getattr(self, name))
            value = np.full(size, fill, np.float32) if given.size == 0 else given
            if value.shape != (size,):
                raise ControlError(f"a policy with sizes {self.sizes} needs {name} of shape ({size},), got {given.shape}")
            object.__setattr__(self, name, value)
        if self.activation not in ACTIVATIONS:
            raise ControlError(f"the activation of a policy is one of {', '.join(ACTIVATIONS)}; got {self.activation!r:.40}")
        if not (self.observation_clip > 0.0 and np.isfinite(self.observation_clip)):
            raise ControlError(f"observation_clip of a policy must be above zero, got {self.observation_clip:g}")
        for name, array in self.arrays().items():
            if not np.isfinite(array).all():
                raise ControlError(
                    f"'{name}' of the policy has values that are not finite: training diverged, or the file is damaged"
                )
        if not (self.std > 0.0).all():
            raise ControlError(f"std of the policy's observations must be above zero, got {self.std.min():g}")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of observations, of neurons of each layer, and of actions."""
        return (self.layers[0][0].shape[1], *(len(b) for _, b in self.layers))

    def __call__(self, observations: Any) -> np.ndarray:
        """Mean actions (..., actions) of observations (..., n), float32."""
        x = np.asarray(observations, np.float32)
        if x.shape[-1:] != self.mean.shape:
            raise ControlError(f"the policy takes {self.sizes[0]} observations, and is given an array of shape {x.shape}")
        x = np.clip((x - self.mean) / self.std, -self.observation_clip, self.observation_clip, dtype=np.float32)
        for k, (W, b) in enumerate(self.layers):
            x = x @ W.T + b
            x = x if k == len(self.layers) - 1 else ACTIVATIONS[self.activation](x)
        return x

    def block(self, **options: Any) -> MLP:
        """The policy as a block of a closed loop; `options` are those of cd.blocks.MLP: scale, offset, every, name, ..."""
        normalization: dict[str, Any] = {"mean": self.mean, "std": self.std, "observation_clip": self.observation_clip}
        return MLP(self.layers, self.activation, **(normalization | options))

    # ---- files

    def facts(self) -> dict[str, Any]:
        """What is not an array, for the file."""
        return {"activation": self.activation, "observation_clip": float(self.observation_clip), "layers": len(self.layers)}

    def arrays(self) -> dict[str, np.ndarray]:
        """All arrays by name: W0, b0, W1, ..., mean, std, log_std."""
        layers = {name: a for k, (W, b) in enumerate(self.layers) for name, a in ((f"W{k}", W), (f"b{k}", b))}
        return {**layers, "mean": self.mean, "std": self.std, "log_std": self.log_std}

    @classmethod
    def from_arrays(cls, facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Policy:
        """The policy that `facts` and `arrays` of another one describe."""
        count = facts.get("layers")
        if not isinstance(count, int) or not 1 <= count <= 64:
            raise ControlError(f"a policy has between 1 and 64 layers, got {count!r:.40}")
        wanted = [f"{letter}{k}" for k in range(count) for letter in "Wb"] + ["mean", "std", "log_std"]
        missing = [name for name in wanted if name not in arrays]
        if missing:
            raise ControlError(f"the policy lacks the array '{missing[0]}'")
        clip = facts.get("observation_clip", OBSERVATION_CLIP)
        if not isinstance(clip, int | float):
            raise ControlError(f"observation_clip of a policy must be a number, got {clip!r:.40}")
        layers = tuple((arrays[f"W{k}"], arrays[f"b{k}"]) for k in range(count))
        rest = {name: arrays[name] for name in ("mean", "std", "log_std")}
        return cls(layers, str(facts.get("activation", "elu")), observation_clip=float(clip), **rest)


def initial_policy(
    sizes: Sequence[int], *, activation: str = "elu", std: float = 1.0, gain: float = 0.01, seed: int = 0, **options: Any
) -> Policy:
    """A policy with random orthogonal layers; the last one is scaled by `gain`, so that its actions begin near zero."""
    rng = np.random.default_rng([seed, 0])
    last = len(sizes) - 2
    layers = tuple(
        (orthogonal(rng, rows, columns, gain if k == last else np.sqrt(2.0)), np.zeros(rows, np.float32))
        for k, (columns, rows) in enumerate(pairwise(sizes))
    )
    return Policy(layers, activation, log_std=np.full(sizes[-1], np.log(std), np.float32), **options)


def orthogonal(rng: np.random.Generator, rows: int, columns: int, gain: float) -> np.ndarray:
    """A random matrix (rows, columns), float32, with orthogonal rows or columns of length `gain`, by Gram-Schmidt."""
    a = rng.standard_normal((min(rows, columns), max(rows, columns)))
    for k in range(len(a)):  # twice, so that rounding does not add up; no LAPACK, whose bits depend on the processor
        for _ in range(2):
            for j in range(k):
                a[k] -= (a[j] * a[k]).sum() * a[j]
        a[k] /= np.sqrt((a[k] * a[k]).sum())
    return _float32(gain * (a if rows <= columns else a.T))


def _float32(value: Any) -> np.ndarray:
    try:
        return np.ascontiguousarray(value, np.float32)
    except (TypeError, ValueError):
        raise ControlError(f"arrays of a policy must be numbers, got {value!r:.60}") from None


def _check_layers(layers: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
    if not layers:
        raise ControlError("a policy needs at least one layer (W, b)")
    for k, (W, b) in enumerate(layers):
        if W.ndim != 2 or b.shape != W.shape[:1]:
            raise ControlError(
                f"layer {k} of a policy must have W of shape (outputs, inputs) and b of shape (outputs,); got {W.shape} "
                f"and {b.shape}"
            )
    for k, (below, above) in enumerate(pairwise(layers)):
        if above[0].shape[1] != len(below[1]):
            raise ControlError(f"layer {k} of a policy has {len(below[1])} outputs, and layer {k + 1} takes {above[0].shape[1]}")
