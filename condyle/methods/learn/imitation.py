"""Behaviour cloning: a policy that answers as a teacher does, by regression on demonstrations, in NumPy float32.

    cloned = clone(Demonstrations.load("trot.cdd"), network="lstm")
    cloned.policy, cloned.held_out                    # rms error of the actions of episodes that were not trained on

A perceptron sees single observations in random order, an LSTM sequences. Both are trained by Adam with a learning rate that
falls to zero along half a cosine. Equal seeds give equal weights, bit for bit, on one processor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.methods.learn import lstm
from condyle.methods.learn.blas import single_threaded_blas
from condyle.methods.learn.demonstrations import Demonstrations
from condyle.methods.learn.lstm import LSTMPolicy, State, initial_lstm
from condyle.methods.learn.network import Adam, Network, Workspace, clip_norm
from condyle.methods.learn.policy import Policy, initial_policy

NETWORKS = ("mlp", "lstm")
HELD_OUT = 0.1  # of the episodes
SMALLEST_STD = 0.05  # of an observation in training: one that is nearly constant does not become noise
EXPLORATION = 0.1  # standard deviation of the actions with which fine-tuning begins
BATCH, WINDOW, SEQUENCES = 512, 50, 32  # samples of a minibatch; steps of a sequence, and sequences of a minibatch
GRADIENT = 1.0  # largest norm of a gradient

Array = np.ndarray


@dataclass(frozen=True)
class Cloned:
    """A policy and how well it answers: rms errors of the actions, in training and on the episodes held out."""

    policy: Policy | LSTMPolicy
    training: float
    held_out: float


@dataclass(frozen=True)
class Epoch:
    """Progress: the number of the epoch, of all, and the rms error of its minibatches."""

    number: int
    epochs: int
    error: float


def clone(
    data: Demonstrations,
    network: str = "mlp",
    *,
    hidden: tuple[int, ...] | None = None,
    epochs: int = 20,
    learning_rate: float = 2e-3,
    seed: int = 0,
    progress: Callable[[Epoch], None] = lambda epoch: None,
) -> Cloned:
    """A policy that imitates the demonstrations: a perceptron ("mlp", hidden layers (64, 64)), or an LSTM ("lstm", 64 units)."""
    if network not in NETWORKS:
        raise ControlError(f"a network is one of {', '.join(NETWORKS)}; got {network!r:.40}")
    if epochs < 1 or not learning_rate > 0.0:
        raise ControlError(f"epochs must be 1 or more and learning_rate above zero, got {epochs} and {learning_rate:g}")
    train, test = data.split(HELD_OUT, seed)
    if not train.count or not test.count:
        raise ControlError("the demonstrations have no valid steps: every robot fell at once")
    seen = train.observations[train.valid].astype(np.float64)
    numbers: dict[str, Any] = {"mean": seen.mean(0), "std": np.maximum(seen.std(0), SMALLEST_STD)}
    n, m = data.observations.shape[-1], data.actions.shape[-1]
    first: Policy | LSTMPolicy
    if network == "mlp":
        first = initial_policy((n, *((64, 64) if hidden is None else hidden), m), std=EXPLORATION, gain=0.1, seed=seed)
        first = replace(first, mean=numbers["mean"].astype(np.float32), std=numbers["std"].astype(np.float32))
    else:
        units = 64 if hidden is None else hidden[0]
        first = initial_lstm(n, units, m, seed=seed, deviation=EXPLORATION, **numbers)
    rows: Any = _mlp_epochs if isinstance(first, Policy) else _lstm_epochs
    policy = first
    with single_threaded_blas():
        for number, (trained, error) in enumerate(rows(first, train, epochs, learning_rate, seed), 1):
            policy = trained
            progress(Epoch(number, epochs, error))
        return Cloned(policy, action_error(policy, train), action_error(policy, test))


def answers(policy: Policy | LSTMPolicy, observations: Array) -> Array:
    """Mean actions (episodes, steps, m) of whole episodes of observations."""
    if isinstance(policy, Policy):
        return policy(observations)
    return lstm.forward(policy.parameters(), policy.normalized(observations), policy.initial(len(observations)))[0]


def action_error(policy: Policy | LSTMPolicy, data: Demonstrations) -> float:
    """Root mean square of the difference of the policy's and the teacher's actions, over valid steps."""
    difference = (answers(policy, data.observations) - data.actions)[data.valid].astype(np.float64)
    return float(np.sqrt(np.mean(difference * difference)))


def _rate(rate: float, step: int, steps: int) -> float:
    return float(0.5 * rate * (1.0 + np.cos(np.pi * step / steps)))


def _mlp_epochs(first: Policy, data: Demonstrations, epochs: int, rate: float, seed: int) -> Iterator[tuple[Policy, float]]:
    """(policy, rms error) after each pass over the samples."""
    rng, network = np.random.default_rng([seed, 3]), Network(first.sizes, first.activation)
    bound = first.observation_clip
    x = np.clip((data.observations[data.valid] - first.mean) / first.std, -bound, bound, dtype=np.float32)
    y = data.actions[data.valid].astype(np.float32)
    flat, gradient = network.pack(first.layers), np.empty(network.count, np.float32)
    layers, gradients = network.views(flat), network.views(gradient)
    adam, work, size = Adam(len(flat)), Workspace(network, BATCH), min(BATCH, len(x))
    batches = len(x) // size
    for epoch in range(epochs):
        order, total = rng.permutation(len(x)), 0.0
        for k in range(batches):
            chosen = order[k * size : (k + 1) * size]
            below = x[chosen]
            error = work.forward(layers, below) - y[chosen]
            total += float(np.mean(np.square(error), dtype=np.float64))
            work.backward(layers, gradients, below, error * np.float32(2.0 / error.size))
            clip_norm(gradient, GRADIENT)
            adam.step(flat, gradient, _rate(rate, epoch * batches + k, epochs * batches))
        yield replace(first, layers=network.unpack(flat)), np.sqrt(total / batches)


def _lstm_epochs(
    first: LSTMPolicy, data: Demonstrations, epochs: int, rate: float, seed: int
) -> Iterator[tuple[LSTMPolicy, float]]:
    """(policy, rms error) after each pass over the sequences, by backpropagation through windows.

    The windows of an episode follow each other, and each begins with the state that the weights of then gave at the end of the
    one before, so that the memory may reach further back than a window.
    """
    rng, episodes = np.random.default_rng([seed, 3]), len(data.observations)
    x, y = first.normalized(data.observations), data.actions.astype(np.float32)
    weight, steps = data.valid.astype(np.float32), data.observations.shape[1]
    shapes = {name: array.shape for name, array in first.parameters().items()}
    flat = np.concatenate([array.ravel() for array in first.parameters().values()])
    adam, size, window = Adam(len(flat)), min(SEQUENCES, episodes), min(WINDOW, steps)
    batches, windows = episodes // size, steps // window
    for epoch in range(epochs):
        order, squares, counted = rng.permutation(episodes), 0.0, 0.0
        for k in range(batches):
            rows, state = order[k * size : (k + 1) * size], first.initial(size)
            for w in range(windows):
                part = slice(w * window, (w + 1) * window)
                weights, mask = _views(flat, shapes), weight[rows, part, None]
                found, end, kept = lstm.forward(weights, x[rows, part], state)
                error = (found - y[rows, part]) * mask
                many = max(float(mask.sum()) * error.shape[-1], 1.0)
                by = lstm.backward(weights, kept, error * np.float32(2.0 / many))
                gradient = np.concatenate([by[name].ravel() for name in shapes])
                clip_norm(gradient, GRADIENT)
                adam.step(flat, gradient, _rate(rate, (epoch * batches + k) * windows + w, epochs * batches * windows))
                squares, counted = squares + float(np.sum(np.square(error), dtype=np.float64)), counted + many
                state = State(end.h, end.c)
        new: dict[str, Any] = {name: array.copy() for name, array in _views(flat, shapes).items()}
        yield replace(first, **new), np.sqrt(squares / counted)


def _views(flat: Array, shapes: dict[str, tuple[int, ...]]) -> dict[str, Array]:
    """The arrays of these shapes in one vector."""
    found, at = {}, 0
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        found[name] = flat[at : at + size].reshape(shape)
        at += size
    return found
