"""Perceptrons in one vector of parameters, and what trains them in NumPy float32: passes, Adam, statistics of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

ROWS = 16  # rows that are joined where a vector is added to every row: longer inner loops
BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8  # of Adam


class Network:
    """The layout of a perceptron in one vector of parameters: for each layer W^T (inputs, outputs), then b (outputs,)."""

    def __init__(self, sizes: Sequence[int], activation: str = "elu") -> None:
        self.sizes, self.activation = tuple(sizes), activation
        shapes = list(pairwise(self.sizes))
        self.count = sum(m * n + n for m, n in shapes)

    def views(self, flat: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """(W^T, b) of each layer, as views of a vector with `count` entries."""
        layers, start = [], 0
        for m, n in pairwise(self.sizes):
            middle, end = start + m * n, start + m * n + n
            layers.append((flat[start:middle].reshape(m, n), flat[middle:end]))
            start = end
        return layers

    def pack(self, layers: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """The vector of layers (W, b), W of shape (outputs, inputs)."""
        return np.concatenate([part for W, b in layers for part in (W.T.ravel(), b)]).astype(np.float32)

    def unpack(self, flat: np.ndarray) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Layers (W, b) of a vector, W of shape (outputs, inputs)."""
        return tuple((np.ascontiguousarray(Wt.T), b.copy()) for Wt, b in self.views(flat))


class Workspace:
    """Arrays for a tile of at most `rows` samples: outputs of the layers and their gradients."""

    def __init__(self, network: Network, rows: int) -> None:
        self.network = network
        self.outputs = [np.empty((rows, n), np.float32) for n in network.sizes[1:]]
        self.deltas = [np.empty((rows, n), np.float32) for n in network.sizes[1:]]
        self.scratch = [np.empty((rows, n), np.float32) for n in network.sizes[1:]]
        self.zeros = [np.zeros((rows, n), np.float32) for n in network.sizes[1:]]  # two arrays are faster than array and number
        self.biases = [np.empty((ROWS, n), np.float32) for n in network.sizes[1:]]
        self.ones = np.ones(rows, np.float32)

    def forward(self, layers: Sequence[tuple[np.ndarray, np.ndarray]], x: np.ndarray) -> np.ndarray:
        """Outputs (n, outputs) of the rows of x, a view of this workspace."""
        n, last = len(x), len(layers) - 1
        for k, (Wt, b) in enumerate(layers):
            y = self.outputs[k][:n]
            np.matmul(x, Wt, out=y)
            _add_to_rows(y, b, self.biases[k])
            if k < last:
                _activate(self.network.activation, y, self.scratch[k][:n], self.zeros[k][:n])
            x = y
        return x

    def backward(
        self,
        layers: Sequence[tuple[np.ndarray, np.ndarray]],
        gradients: Sequence[tuple[np.ndarray, np.ndarray]],
        x: np.ndarray,
        delta: np.ndarray,
    ) -> None:
        """None; `gradients` are those of the parameters, for the gradient `delta` (n, outputs) of the outputs of `forward`."""
        n = len(x)
        for k in range(len(layers) - 1, -1, -1):
            below = x if k == 0 else self.outputs[k - 1][:n]
            np.matmul(below.T, delta, out=gradients[k][0])
            np.matmul(self.ones[:n], delta, out=gradients[k][1])
            if k > 0:
                d, s = self.deltas[k - 1][:n], self.scratch[k - 1][:n]
                np.matmul(delta, layers[k][0].T, out=d)
                _times_derivative(self.network.activation, d, below, s, self.zeros[k - 1][:n])
                delta = d


def _add_to_rows(y: np.ndarray, b: np.ndarray, repeated: np.ndarray) -> None:
    """y += b for every row of y; `repeated` has room for ROWS times b."""
    n, m = y.shape
    if n % ROWS == 0:
        repeated[:] = b
        y, b = y.reshape(n // ROWS, ROWS * m), repeated.reshape(-1)
    np.add(y, b, out=y)


def _activate(activation: str, y: np.ndarray, scratch: np.ndarray, zeros: np.ndarray) -> None:
    """y becomes its activation."""
    if activation == "tanh":
        np.tanh(y, out=y)
    elif activation == "relu":
        np.maximum(y, zeros, out=y)
    else:  # elu: exp(min(y, 0)) - 1 is 0 where y > 0, and at least y elsewhere; NumPy has no AVX2 code for expm1
        np.minimum(y, zeros, out=scratch)
        np.exp(scratch, out=scratch)
        np.subtract(scratch, np.float32(1.0), out=scratch)
        np.maximum(y, scratch, out=y)


def _times_derivative(activation: str, d: np.ndarray, y: np.ndarray, scratch: np.ndarray, zeros: np.ndarray) -> None:
    """d is multiplied by the derivative of the activation, from its value y."""
    if activation == "tanh":
        np.multiply(y, y, out=scratch)
        np.subtract(np.float32(1.0), scratch, out=scratch)
    elif activation == "relu":
        np.sign(y, out=scratch)
    else:  # elu: 1 where y > 0, else exp(x) = y + 1
        np.minimum(y, zeros, out=scratch)
        np.add(scratch, np.float32(1.0), out=scratch)
    np.multiply(d, scratch, out=d)


class Adam:
    """Moments of the gradient of a vector of parameters (Kingma and Ba 2015), and the step they give."""

    def __init__(self, size: int) -> None:
        self.m, self.v = np.zeros(size, np.float32), np.zeros(size, np.float32)
        self.steps = 0
        self._a, self._b = np.empty(size, np.float32), np.empty(size, np.float32)

    def step(self, parameters: np.ndarray, gradient: np.ndarray, rate: float) -> None:
        """None; the parameters move against the gradient: p -= rate * m / (sqrt(v) + epsilon), both moments without bias."""
        self.steps += 1
        a, b, f = self._a, self._b, np.float32
        self.m *= f(BETA1)
        np.multiply(gradient, f(1.0 - BETA1), out=a)
        self.m += a
        self.v *= f(BETA2)
        np.multiply(gradient, gradient, out=a)
        a *= f(1.0 - BETA2)
        self.v += a
        np.sqrt(self.v, out=b)
        b *= f(1.0 / np.sqrt(1.0 - BETA2**self.steps))
        b += f(EPSILON)
        np.divide(self.m, b, out=a)
        a *= f(rate / (1.0 - BETA1**self.steps))
        parameters -= a


def clip_norm(gradient: np.ndarray, bound: float) -> float:
    """The Euclidean norm of the gradient before it is scaled down to `bound`, where it is larger."""
    norm = float(np.sqrt(np.sum(gradient * gradient, dtype=np.float64)))
    if norm > bound:
        gradient *= np.float32(bound / (norm + 1e-6))
    return norm


class Running:
    """Mean and sum of squared deviations of all rows so far (Chan, Golub and LeVeque 1983)."""

    def __init__(self, size: int) -> None:
        self.count, self.mean, self.squares = 0.0, np.zeros(size), np.zeros(size)

    @property
    def variance(self) -> np.ndarray:
        """Of the rows; one before there are any."""
        return self.squares / self.count if self.count else np.ones_like(self.mean)

    def add(self, count: float, mean: np.ndarray, squares: np.ndarray) -> None:
        """None; `count` more rows with this mean and sum of squared deviations from it."""
        total = self.count + count
        delta = mean - self.mean
        self.mean = self.mean + delta * (count / total)
        self.squares = self.squares + squares + delta * delta * (self.count * count / total)
        self.count = total

    def add_rows(self, rows: np.ndarray) -> None:
        """None; the rows (n, size) are part of the statistics."""
        mean = rows.mean(axis=0, dtype=np.float64)
        # both passes over the rows are in float64 sums of float32 numbers
        squares = np.maximum(np.square(rows - mean.astype(rows.dtype)).sum(axis=0, dtype=np.float64), 0.0)
        self.add(len(rows), mean, squares)

    def arrays(self) -> np.ndarray:
        """Everything in one array (3, size)."""
        return np.stack([np.full_like(self.mean, self.count), self.mean, self.squares])

    def restore(self, arrays: np.ndarray) -> None:
        """None; the statistics are those whose `arrays()` these are."""
        self.count, self.mean, self.squares = float(arrays[0, 0]), arrays[1].copy(), arrays[2].copy()
