"""Forward and backward pass of a perceptron with tensors of PyTorch, and running statistics of tensors: no atomics, no waits."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.methods.learn.network import Network
from condyle.methods.learn.statistics import Running

Tensor = Any  # of PyTorch, which is imported by those who make tensors


class TensorNetwork:
    """A perceptron whose layers are views of a vector of parameters, and whose gradients are views of another one."""

    def __init__(self, torch: Any, network: Network, parameters: Tensor, gradient: Tensor) -> None:
        self.torch, self.activation = torch, network.activation
        self.layers: list[Any] = network.views(parameters)
        self.gradients: list[Any] = network.views(gradient)
        self.outputs: list[Tensor] = []  # inputs of the network, then the outputs of each layer but the last

    def forward(self, x: Tensor) -> Tensor:
        """Outputs (n, outputs) of the rows of x."""
        self.outputs = [x]
        for k, (Wt, b) in enumerate(self.layers):
            x = self.torch.addmm(b, x, Wt)
            if k < len(self.layers) - 1:
                x = self._activated(x)
                self.outputs.append(x)
        return x

    def backward(self, delta: Tensor) -> None:
        """None; the gradients are those of the parameters, for the gradient `delta` (n, outputs) of the outputs of `forward`."""
        for k in range(len(self.layers) - 1, -1, -1):
            below = self.outputs[k]
            self.torch.mm(below.T, delta, out=self.gradients[k][0])
            self.torch.sum(delta, 0, out=self.gradients[k][1])
            if k > 0:
                delta = self._times_derivative(delta @ self.layers[k][0].T, below)

    def _activated(self, x: Tensor) -> Tensor:
        """The activation of x, in its place."""
        if self.activation == "tanh":
            return x.tanh_()
        return x.relu_() if self.activation == "relu" else self.torch.nn.functional.elu_(x)

    def _times_derivative(self, d: Tensor, y: Tensor) -> Tensor:
        """d times the derivative of the activation, from its value y."""
        aten = self.torch.ops.aten
        if self.activation == "tanh":
            return aten.tanh_backward(d, y)
        return aten.threshold_backward(d, y, 0.0) if self.activation == "relu" else aten.elu_backward(d, 1.0, 1.0, 1.0, True, y)


class TensorRunning(Running):
    """Running mean and variance of rows of tensors, float64, on their device; the number of rows is known to the host."""

    def __init__(self, torch: Any, size: int, device: str) -> None:
        self.torch, self.count = torch, 0.0
        self.mean: Tensor = torch.zeros(size, dtype=torch.float64, device=device)
        self.squares: Tensor = torch.zeros_like(self.mean)

    @property
    def variance(self) -> Tensor:
        """Of the rows; one before there are any."""
        return self.squares / self.count if self.count else self.torch.ones_like(self.mean)

    def add_rows(self, rows: Tensor) -> None:
        """None; the rows (n, size) are part of the statistics."""
        mean = rows.mean(0, dtype=self.torch.float64)
        squares = (rows - mean.to(rows.dtype)).square().sum(0, dtype=self.torch.float64)
        self.add(len(rows), mean, squares)

    def arrays(self) -> np.ndarray:
        """Everything in one array (3, size), on the host."""
        mean, squares = self.mean.cpu().numpy(), self.squares.cpu().numpy()
        return np.stack([np.full_like(mean, self.count), mean, squares])

    def restore(self, arrays: np.ndarray) -> None:
        """None; the statistics are those whose `arrays()` these are."""
        mean, squares = (self.torch.from_numpy(row.copy()).to(self.mean.device) for row in arrays[1:])
        self.count, self.mean, self.squares = float(arrays[0, 0]), mean, squares
