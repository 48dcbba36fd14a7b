"""Physically consistent numbers that agree with the estimated base parameters: every link a body of positive density.

    min over x, s, o   (beta(pi) - beta_hat)^T C^-1 (beta(pi) - beta_hat)  +  1 / (2 spread^2) sum over links of d(P(x), P_0)  +
    priors

C is the covariance of beta_hat, P(x) the pseudo-inertia of a link by its log-Cholesky numbers, d Bregman's distance from the
nominal one (`pseudo_inertia.py`); armature and friction are squares s^2, so never negative; offsets o are free.
Where the log determines a combination of numbers, the first term decides; along the others the numbers stay as near to the
nominal ones as they can. Near the nominal body d = 2 |x|^2 on the diagonal, so `spread` is the standard deviation of a link's
relative scale that one expects of the nominal model. Solved by Levenberg and Marquardt's method; the derivatives of P(x) come
from the tape.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.methods.identify.base_parameters import BaseParameters
from condyle.methods.identify.pseudo_inertia import body, bregman_residuals, pseudo_inertia, upper_factor
from condyle.methods.identify.regressor import Array
from condyle.tape.function import Function, function

ITERATIONS, ROUGH = 1000, 50  # of the fit, and of those that lead to it
LOOSE = 10.0  # standard errors: beyond this distance of beta, a fit with a smaller weight comes first
CONVERGED, IN_A_ROW = 1e-6, 3  # decrease of the sum of squares, in variances, that ends the search, if it is no larger so often
SQUARES = ("armature", "damping", "friction")
MASS_SHARE = 1e-3  # of the total mass, where it is given: its standard deviation


@cache
def body_function() -> tuple[Function, Function]:
    """(the ten numbers of a link and the residuals of its distance, their Jacobian by x), compiled once for all robots."""

    def numbers(U: Any, x: Any) -> Any:
        return np.concatenate([body(U, x), bregman_residuals(x)])

    compiled = function(numbers, U=(4, 4), x=10)
    (output,) = compiled.outputs
    return compiled, compiled.jacobian(output, "x")


@dataclass(frozen=True)
class ConsistentNumbers:
    """pi of real bodies, (columns,); its standard deviations with the nominal model as a prior; distances of links."""

    pi: Array
    deviations: Array
    distances: dict[str, float]  # d(P, P_0) of every link


class _Unknowns:
    """How the unknowns z make pi: ten of each link, then one of each column of a joint."""

    def __init__(self, base: BaseParameters) -> None:
        self.columns, self.nominal = base.regressor.columns, base.regressor.nominal
        names = [column.owner for column in self.columns if column.what == "m"]
        self.links = [(name, [k for k, c in enumerate(self.columns) if c.owner == name and _inertial(c.what)]) for name in names]
        self.joints = [k for k, c in enumerate(self.columns) if not _inertial(c.what)]
        self.squared = np.array([self.columns[k].what in SQUARES for k in self.joints], dtype=bool)
        self.U = np.array([upper_factor(pseudo_inertia(self.nominal[at])) for _, at in self.links]).reshape(-1, 4, 4)
        self.size = 10 * len(self.links) + len(self.joints)

    def at(self, z: Array) -> tuple[Array, Array, Array, Array]:
        """(pi, dpi/dz, residuals of distances (10 links,), their Jacobian)."""
        n = len(self.links)
        pi, J = np.zeros(len(self.columns)), np.zeros((len(self.columns), self.size))
        r, Jr = np.zeros(10 * n), np.zeros((10 * n, self.size))
        if n:
            values, jacobians = (np.asarray(f(self.U, z[: 10 * n].reshape(n, 10))) for f in body_function())
            for k, (_, at) in enumerate(self.links):
                own = slice(10 * k, 10 * k + 10)
                pi[at], J[at, own] = values[k, :10], jacobians[k, :10]
                r[own], Jr[own, own] = values[k, 10:], jacobians[k, 10:]
        s = z[10 * n :]
        pi[self.joints] = np.where(self.squared, s * s, s)
        J[self.joints, 10 * n + np.arange(len(self.joints))] = np.where(self.squared, 2.0 * s, 1.0)
        return pi, J, r, Jr


def consistent_numbers(
    base: BaseParameters,
    beta: Array,
    covariance: Array,
    *,
    spread: float = 0.5,
    total_mass: float | None = None,
) -> ConsistentNumbers:
    """The numbers of real bodies nearest to beta in its covariance, and to the nominal model where beta leaves them open."""
    if not spread > 0.0:
        raise ControlError(f"spread must be positive, the relative error that the nominal model may have; got {spread!r:.20}")
    unknowns = _Unknowns(base)
    joints, pi0 = unknowns.joints, base.regressor.nominal
    deviation = np.sqrt(np.diag(covariance))
    root = np.linalg.cholesky(_inverse(covariance, deviation)).T
    # of a joint's numbers: what the log says of them, or a tenth of the joint's inertia, may differ from the nominal ones
    alone = base.alone()
    guess = np.array([alone[k] @ beta if k in alone else pi0[k] for k in joints])
    error = np.array([np.sqrt(alone[k] @ covariance @ alone[k]) if k in alone else 0.0 for k in joints])
    allowed = np.array([_allowed(base, k) for k in joints])
    scale = 10.0 * spread * np.maximum(np.maximum(np.abs(pi0[joints]), np.abs(guess) + 3.0 * error), allowed) + 1e-12

    def residuals(z: Array, loose: float) -> tuple[Array, Array, Array, Array]:
        pi, J, r, Jr = unknowns.at(z)
        data = root / loose
        parts = [
            (data @ (base.map @ pi - beta), data @ base.map @ J),
            (r / (np.sqrt(2.0) * spread), Jr / (np.sqrt(2.0) * spread)),
        ]
        parts.append(((pi[joints] - pi0[joints]) / scale, J[joints] / scale[:, None]))
        if total_mass is not None:
            masses = [at[0] for _, at in unknowns.links]
            off = (pi[masses].sum() - total_mass) / (MASS_SHARE * total_mass)
            parts.append((np.array([off]), J[masses].sum(axis=0, keepdims=True) / (MASS_SHARE * total_mass)))
        return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]), pi, J

    start = np.zeros(unknowns.size)
    first = np.maximum(guess, 0.1 * error + 1e-3 * allowed + 1e-9)
    start[10 * len(unknowns.links) :] = np.where(unknowns.squared, np.sqrt(np.maximum(first, 1e-12)), guess)
    # the weight of the log grows to its own in steps: a narrow curved valley is followed from its wide end
    z, distance = start, float(np.max(np.abs(root @ (base.map @ unknowns.at(start)[0] - beta))))
    for power in range(max(int(np.ceil(np.log10(max(distance, LOOSE) / LOOSE))), 0), -1, -1):
        z, _, J, pi, by = _levenberg_marquardt(partial(residuals, loose=10.0**power), z, rough=power > 0)
    spread_z = np.linalg.pinv(J.T @ J, rcond=1e-14, hermitian=True)
    deviations = np.sqrt(np.maximum(np.einsum("ia,ab,ib->i", by, spread_z, by), 0.0))
    each = unknowns.at(z)[2].reshape(-1, 10)
    return ConsistentNumbers(pi, deviations, {name: float(d @ d) for (name, _), d in zip(unknowns.links, each, strict=True)})


def _levenberg_marquardt(residuals: Any, z: Array, *, rough: bool) -> tuple[Array, Array, Array, Array, Array]:
    """(z, r, dr/dz, pi, dpi/dz) at the minimum of |r|^2, or near it after a few iterations if that is enough."""
    r, J, pi, by = residuals(z)
    cost, damping, small = float(r @ r), 1.0, 0
    for _ in range(ROUGH if rough else ITERATIONS):
        H, g = J.T @ J, J.T @ r
        step = -np.linalg.solve(H + damping * np.eye(len(z)), g)
        trial = residuals(z + step)
        found = float(trial[0] @ trial[0])
        if np.isfinite(found) and found <= cost:
            small = small + 1 if cost - found <= CONVERGED * (1.0 + cost) else 0
            z, (r, J, pi, by), cost, damping = z + step, trial, found, max(damping / 5.0, 1e-12)
            if small >= IN_A_ROW:
                return z, r, J, pi, by
        else:
            damping *= 4.0
            if damping > 1e12:
                return z, r, J, pi, by
    if rough:
        return z, r, J, pi, by
    raise ControlError(
        f"no physically consistent numbers were found in {ITERATIONS} iterations; give a smaller spread, or better nominal masses"
    )


def _allowed(base: BaseParameters, k: int) -> float:
    """A size of a joint's number that is small but not nothing: of a rotor, a tenth of the inertia that the joint moves."""
    column = base.regressor.columns[k]
    if column.what != "armature":
        return 0.0
    robot = base.regressor.robot
    at = [link.joint for link in robot.model.links].index(column.owner)
    return 0.1 * float(robot.mass_matrix(robot.neutral())[at, at])


def _inverse(C: Array, deviation: Array) -> Array:
    d = 1.0 / np.maximum(deviation, 1e-300)
    inverse = np.linalg.inv(C * np.outer(d, d)) * np.outer(d, d)
    return np.asarray((inverse + inverse.T) / 2.0)


def _inertial(what: str) -> bool:
    return what[0] in "mI"
