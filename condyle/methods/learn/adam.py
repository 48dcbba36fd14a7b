"""Adam on one vector of parameters, float32."""

from __future__ import annotations

import numpy as np

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8


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
