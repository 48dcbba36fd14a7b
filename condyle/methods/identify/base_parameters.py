"""Base parameters: the least number of linear combinations of a robot's unknown numbers that joint forces depend on.

    tau = Y pi = Y_b beta,    Y_b: linearly independent columns of Y,    beta = pi_b + K pi_d

Columns are taken from the base outward; one that depends on those before it is dropped, and its number is added to theirs
(Gautier 1991, by QR decomposition). Joint forces never show more than beta: numbers of single links can be moved along the null
space of this map without any difference.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condyle.methods.identify.regressor import Array, Regressor

INDEPENDENT = 1e-8  # the part of a column outside of the span of those before it, relative to its length
ZERO = 1e-8  # coefficients of combinations below this are rounding


@dataclass(frozen=True)
class BaseParameters:
    """The map of all numbers to those that joint forces depend on:  beta = map @ pi,  Y pi = Y[:, independent] beta."""

    regressor: Regressor
    independent: Array  # (n_b,): the columns that remain
    map: Array  # (n_b, columns)

    @property
    def names(self) -> list[str]:
        """The leading number of each combination, such as "lift.mcx"; "+" where others are added to it."""
        return [
            self.regressor.names[k] + (" +" if np.count_nonzero(row) > 1 else "")
            for k, row in zip(self.independent, self.map, strict=True)
        ]

    @property
    def units(self) -> list[str]:
        """The units of beta."""
        return [self.regressor.columns[k].unit for k in self.independent]

    def words(self, number: int, digits: int = 4) -> str:
        """The combination in words, such as "shoulder.Izz + 0.25 elbow.m"."""
        row = self.map[number]
        order = [int(self.independent[number]), *[int(k) for k in np.flatnonzero(row) if k != self.independent[number]]]
        text = ""
        for k in order:
            factor, name = float(row[k]), self.regressor.names[k]
            size = "" if abs(abs(factor) - 1.0) < ZERO else f"{abs(factor):.{digits}g} "
            sign = ("-" if factor < 0.0 else "") if not text else (" - " if factor < 0.0 else " + ")
            text += f"{sign}{size}{name}"
        return text

    def alone(self) -> dict[int, Array]:
        """{column: coefficients c} of single numbers that beta determines:  pi[column] = c . beta."""
        # e_k is in the row space of the map
        pseudo = np.linalg.pinv(self.map)
        projector = pseudo @ self.map
        found = {}
        for k in range(self.map.shape[1]):
            unit = np.zeros(self.map.shape[1])
            unit[k] = 1.0
            if np.abs(projector[k] - unit).max() < 1e-7:
                found[k] = pseudo[k]
        return found

    def __repr__(self) -> str:
        width = max(len(name) for name in self.names)
        return "\n".join(f"{name:<{width}}  {self.words(k)}" for k, name in enumerate(self.names))


def base_parameters(regressor: Regressor, seed: int = 0) -> BaseParameters:
    """The base parameters of a robot for the regressor's columns, from its values at random states."""
    count = max(2 * len(regressor.columns) // regressor.nv, 8) + 8
    W = regressor(*regressor.random_states(count, seed)).reshape(-1, len(regressor.columns))
    size = np.linalg.norm(W, axis=0)
    used = size > INDEPENDENT * np.max(size)
    scaled = W / np.where(used, size, 1.0)
    # Gram-Schmidt in the order of the columns, twice for orthogonality to rounding
    basis = np.zeros((len(W), 0))
    independent: list[int] = []
    for k in np.flatnonzero(used):
        rest = scaled[:, k] - basis @ (basis.T @ scaled[:, k])
        rest = rest - basis @ (basis.T @ rest)
        length = np.linalg.norm(rest)
        if length > INDEPENDENT**0.75:
            basis = np.column_stack([basis, rest / length])
            independent.append(int(k))
    chosen = np.array(independent, dtype=int)
    K = np.linalg.lstsq(scaled[:, chosen], scaled, rcond=None)[0] * np.where(used, size, 0.0) / size[chosen, None]
    K[np.abs(K) < ZERO] = 0.0
    K[:, chosen] = np.eye(len(chosen))
    return BaseParameters(regressor, chosen, K)
