"""Running mean and variance of samples, float64, in an order that does not depend on threads."""

from __future__ import annotations

import numpy as np


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
