"""Costs of a stage: half the weighted square of a residual, and any other scalar, with their quadratic models.

l(x, u) = 1/2 sum_i w_i r_i(x, u)^2 + cost(x, u)        Gauss-Newton: H = J^T W J + d2 cost
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.methods.mpc.space import Space, no_change
from condyle.tape.array import array, stop_gradient
from condyle.tape.linalg import eigh
from condyle.tape.linearize import linearize
from condyle.tape.scalar import constant


@dataclass(frozen=True)
class Cost:
    """The cost of a stage, or of the final state if there are no controls.

    `residual` and `cost` take (x, u, r, p), or (x, r, p) without controls. `weights`: the default weights of the residual.
    """

    states: Space
    controls: Space | None
    residual: Callable[..., Any] | None
    cost: Callable[..., Any] | None
    weights: np.ndarray

    def value(self, x: Any, u: Any, r: Any, p: Any, weights: Any) -> Any:
        """l(x, u)."""
        total: Any = 0.0
        if self.residual is not None:
            e = self._residual(x, u, r, p)
            total = total + 0.5 * (e @ (weights * e))
        return total if self.cost is None else total + self._cost(x, u, r, p)

    def quadratic(self, x: Any, u: Any, r: Any, p: Any, weights: Any) -> tuple[Any, Any]:
        """(gradient, Hessian) by (dx, du): Gauss-Newton of the residual, and that of a scalar cost without negative curvature."""
        n = self.states.tangent + (self.controls.size if self.controls is not None else 0)
        gradient, hessian = np.zeros(n, dtype=object), np.zeros((n, n), dtype=object)
        if self.residual is not None:
            e, J = self._by_change(self._residual, x, u, r, p)
            gradient, hessian = gradient + J.T @ (weights * e), hessian + J.T @ (weights[:, None] * J)
        if self.cost is not None:
            G, H = self._second_order(x, u, r, p)
            gradient, hessian = gradient + G, _convex(symmetric(array(hessian + H)))
        return array(gradient), array(hessian)

    def _residual(self, x: Any, u: Any, r: Any, p: Any) -> Any:
        assert self.residual is not None
        e = array(np.ravel(np.asarray(self.residual(*_arguments(x, u, r, p)), dtype=object)))
        if len(e) != len(self.weights):
            raise ControlError(
                f"the residual has {len(e)} entries and there are {len(self.weights)} weights; they must be as many"
            )
        return e

    def _cost(self, x: Any, u: Any, r: Any, p: Any) -> Any:
        assert self.cost is not None
        value = self.cost(*_arguments(x, u, r, p))
        if np.shape(value) != ():
            raise ControlError(f"a cost is one number, got an array of shape {np.shape(value)}; a residual may be an array")
        return value

    def _by_change(self, function: Callable[..., Any], x: Any, u: Any, r: Any, p: Any) -> tuple[Any, Any]:
        """(value, Jacobian by (dx, du))."""
        zero = no_change(self.states.tangent)
        if u is None:
            return linearize(lambda d: function(self.states.retract(x, d), None, r, p), zero)
        value, by_x, by_u = linearize(lambda d, u: function(self.states.retract(x, d), u, r, p), zero, u)
        return value, np.concatenate([by_x, by_u], axis=-1)

    def _second_order(self, x: Any, u: Any, r: Any, p: Any) -> tuple[Any, Any]:
        """(gradient, Hessian) of the scalar cost by (dx, du)."""

        def gradient(x: Any, u: Any, r: Any, p: Any) -> Any:
            return self._by_change(self._cost, x, u, r, p)[1]

        if all(p.retract is None for p in self.states.parts):
            return self._by_change(gradient, x, u, r, p)
        # the second change starts at x again: a derivative of the gradient at a moved point lacks the curvature of (+)
        n = self.states.tangent
        zero = no_change(n + (self.controls.size if u is not None and self.controls is not None else 0))

        def moved(d: Any) -> Any:
            return self._cost(self.states.retract(x, d[:n]), None if u is None else u + d[n:], r, p)

        return linearize(lambda d: linearize(moved, d)[1], zero)


def _arguments(x: Any, u: Any, r: Any, p: Any) -> tuple[Any, ...]:
    return (x, r, p) if u is None else (x, u, r, p)


def symmetric(H: Any) -> Any:
    """A matrix that is equal up to rounding on both sides of its diagonal, with the same bits on both."""
    for i, j in zip(*np.tril_indices(len(H), -1), strict=True):
        H[j, i] = H[i, j]
    return H


def _convex(H: Any) -> Any:
    """The matrix with its negative eigenvalues raised to zero; a convex one as it is. Derivatives are those of H."""
    numbers = [constant(entry) for entry in H.ravel()]
    if None not in numbers and np.linalg.eigvalsh(np.array(numbers, dtype=float).reshape(H.shape)).min() >= 0.0:
        return H
    w, V = eigh(stop_gradient(H))
    return H + symmetric((V * np.maximum(-w, 0.0)) @ V.T)
