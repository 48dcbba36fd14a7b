"""Force laws of constraints in an interior-point step: the round friction cone, and polytopes (limits, dry friction, pyramids).

The impulse is  lambda = D y  with y in a set K that has a barrier, so that (docs/contact.md)

    D u + kappa grad(barrier)(y) = 0,     u the velocity after the step along lambda.

The multipliers z (of the cone) and w (of the bound  s > 0) are unknowns too, with y z = kappa and s w = kappa in the cone's
algebra: the primal-dual form allows long steps (Nesterov and Todd 1998; Mehrotra 1992).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from condyle.robot.spatial import Array, vector
from condyle.tape.array import where
from condyle.tape.precision import by_precision

Iterate = dict[str, Any]  # the unknowns of one constraint: y, z, s, w
ROUNDING_SINGLE = 5e-7  # relative rounding error of a sum of three products in float32
KNOWN, KNOWN_SINGLE = 1e-15, 1e-4  # relative error of the velocity at which the force of dry friction is asked for


@dataclass(frozen=True)
class Cone:
    """The round cone |y_t| <= y_n <= 1: impulse (S y_n, mu S y_t); three entries, the normal first."""

    D: Array  # (S, mu S, mu S)
    kappa: Any
    per: Any  # 1 / kappa
    slip: Any  # added to the normal velocity: mu times the sliding speed, so that sliding does not lift, less that of recovery
    degree = 3
    unknowns = 3

    @staticmethod
    def of(S: Any, mu: float, kappa: Any, slip: Any = 0.0) -> Cone:
        """The cone with the largest normal impulse S and the friction coefficient mu."""
        return Cone(vector(S, mu * S, mu * S), kappa, 1.0 / kappa, slip)

    @property
    def max_impulse(self) -> Any:
        """S, the largest impulse."""
        return self.D[0]

    def smoothed(self, least: Any) -> Cone:
        """The law with a smoothing of at least `least`, J."""
        factor = np.maximum(self.per * least, 1.0)
        return replace(self, kappa=self.kappa * factor, per=self.per * (1.0 / factor))

    @property
    def start_impulse(self) -> Any:
        """The impulse whose work the smoothing starts from: S, or half of the largest friction where that is more."""
        return np.maximum(self.D[0], 0.5 * self.D[1])

    @property
    def lift(self) -> Any:
        """The normal velocity that the law aims at, zero or more."""
        return np.maximum(-self.slip, 0.0)

    def initial_fraction(self, impulse: Any) -> Any:
        """y_n of an expected impulse."""
        return impulse / (1.5 * impulse + self.max_impulse)

    def start(self, impulse: Any, k: Any, free: Array, mass: float) -> Iterate:
        """A point of the central path at the smoothing k, near the expected impulse, sliding along the `free` velocity."""
        y = self.initial_fraction(impulse)
        s = 1.0 - y
        # the fraction of the sliding speed that remains after friction
        speed = np.sqrt(free[1] * free[1] + free[2] * free[2] + 1e-30)
        kept = np.maximum(1.0 - self.D[1] * y / (mass * speed), 0.0)
        a = free[1:] * (kept * self.D[1] / k)
        root = np.sqrt(1.0 + (a @ a) * y * y)
        more = (root + 1.0) / (y * y)  # 2 / det
        tangential = a * (-1.0 / more)
        return {
            "y": vector(y, *tangential),
            "z": vector(k * more * y, *(tangential * (-k * more))),
            "s": s,
            "w": k / s,
            "dety": 2.0 / more,
            "detz": 2.0 * k * k * more,
            "yz": 2.0 * k,
        }

    def impulse(self, y: Array) -> Array:
        """lambda = D y."""
        return self.D * y

    def dual(self, u: Array, y: Array | None = None) -> Array:
        """D (u + slip e): the dual of a velocity u; it does not depend on y."""
        return self.D * vector(u[0] + self.slip, u[1], u[2])

    def dual_change(self, du: Array) -> Array:
        """D du."""
        return self.D * du

    def dual_residual(self, iterate: Iterate, u: Array) -> Array:
        """dual(u) - z + w e: zero at the solution."""
        return self.dual(u) - iterate["z"] + vector(iterate["w"], 0.0, 0.0)

    def scaled(self, iterate: Iterate, residual: Array, u: Array) -> ScaledCone:
        """The law linearised about an iterate, with the Nesterov-Todd scaling."""
        return ScaledCone(self, iterate, residual)

    def compliance(self, y: Array, s: Any, u: Array | None = None) -> Array:
        """Q^-1 with  dy = -Q^-1 d(D u)  at the solution: the inverse Hessian of the barrier over kappa.

        With the velocity u the determinant of y comes from the law, which loses no digits where the contact slides.
        """
        dety = determinant(y)
        if u is not None:
            from_law = 2.0 * self.kappa * y[0] / (self.dual(u)[0] + self.kappa / s)
            dety = np.where(dety < 0.5 * (y[0] * y[0]), from_law, dety)
        return cone_inverse(y, self.per, 0.5 * dety * self.per, s * s * self.per)

    def gradient(self, y: Array, s: Any) -> Array:
        """grad(barrier)(y) with the minus sign taken out:  2 y^-1 - e / s."""
        inverse = 2.0 / determinant(y)
        return vector(y[0] * inverse - 1.0 / s, -y[1] * inverse, -y[2] * inverse)

    def slack(self, y: Array) -> Any:
        """s = 1 - y_n."""
        return 1.0 - y[0]

    def residual_energy(self, y: Array, s: Any, u: Array) -> Any:
        """A bound of the squared residual of the law at the velocity u, in the norm of kinetic energy, J.

        With z = dual(u) + kappa / s e the law is  y z = 2 kappa e  in the cone's algebra. Its residual
        rho = kappa grad(y) - dual(u)  has  rho^T Q^-1 rho <= |y z - 2 kappa e|^2 / (2 kappa),  without a determinant, which loses
        digits where the contact slides.
        """
        z = self.dual(u) + vector(self.kappa / s, 0.0, 0.0)
        off = jordan(y, z) - vector(2.0 * self.kappa, 0.0, 0.0)
        return 0.5 * self.per * (off @ off)

    def room(self, y: Array, s: Any) -> Any:
        """Positive inside the cone and below its end."""
        return -largest([-y[0], -determinant(y), -s])

    def consistent(self, iterate: Iterate) -> Iterate:
        """The iterate with s = 1 - y_n again: the smaller of both is the one with more digits."""
        full, rest = iterate["s"] < 0.5, 1.0 - iterate["y"][0]
        scale = where(full, (1.0 - iterate["s"]) / iterate["y"][0], 1.0)
        scaled = {"y": iterate["y"] * scale, "dety": iterate["dety"] * (scale * scale), "yz": iterate["yz"] * scale}
        return iterate | scaled | {"s": where(full, iterate["s"], rest)}

    def distance(self, iterate: Iterate) -> Any:
        """The largest squared distance of the products of an iterate from kappa, relative to it."""
        trace, bound = 0.5 * iterate["yz"] * self.per - 1.0, iterate["s"] * iterate["w"] * self.per - 1.0
        product = 0.25 * (iterate["dety"] * self.per) * (iterate["detz"] * self.per)
        return largest([trace * trace, abs(1.0 - product), bound * bound])

    def slack_decrease(self, dy: Array) -> Any:
        """The change of -s with y."""
        return dy[0]

    def impulse_change(self, dy: Array) -> Array:
        """The change of impulse with y."""
        return self.D * dy

    def stiffness(self, compliance: Array) -> Array:
        """Sigma: impulses change by -Sigma du."""
        return np.outer(self.D, self.D) * compliance


def cone_inverse(p: Array, a: Any, e: Any, b: Any) -> Array:
    """(P^-1 + e0 e0^T / b)^-1 for P = a p p^T - e diag(1, -1, -1), with no difference of large numbers."""
    per = 1.0 / (a * p[0] * p[0] - e + b)
    first, rest = a * p[0] * b * per, a * (b - e) * per
    Q = np.empty((3, 3), dtype=object)
    Q[0, 0] = (a * p[0] * p[0] - e) * b * per
    for i in (1, 2):
        Q[0, i] = Q[i, 0] = first * p[i]
        Q[i, i] = rest * p[i] * p[i] + e
    Q[1, 2] = Q[2, 1] = rest * p[1] * p[2]
    return Q


def determinant(y: Array) -> Any:
    """y0^2 - |y1|^2: positive inside the cone."""
    return y[0] * y[0] - y[1] * y[1] - y[2] * y[2]


def largest(values: list[Any]) -> Any:
    """The maximum of some scalars."""
    top = values[0]
    for x in values[1:]:
        top = np.maximum(top, x)
    return top


class ScaledCone:
    """The law of a cone, linearised:  dy = Q^-1 (rho - D du),  with the scaling of Nesterov and Todd, W z = W^-1 y = l.

    Where a contact slides, y and z are near the boundary, and det y, det z and y . z computed from them lose digits. l is not:
    these three are carried from step to step in the scaled axes, for as long as the difference is one of rounding.
    """

    def __init__(self, law: Cone, iterate: Iterate, residual: Array) -> None:
        y, z, s, w = iterate["y"], iterate["z"], iterate["s"], iterate["w"]
        self.law, self.y, self.z, self.s, self.w = law, y, z, s, w
        rounding = by_precision(1e-15, ROUNDING_SINGLE)
        dety = tracked(iterate["dety"], determinant(y), rounding * (y[0] * y[0]))
        detz = tracked(iterate["detz"], determinant(z), rounding * (z[0] * z[0]))
        yz = tracked(iterate["yz"], y @ z, rounding * (y[0] * z[0]))
        bound = 1.0 / (s * w)
        self.per_s, self.per_w = w * bound, s * bound
        # W maps z to l and l to y; a = det l, and l0^2 = (a + y . z) / 2
        a, l0 = np.sqrt(dety * detz), np.sqrt(0.5 * (np.sqrt(dety * detz) + yz))
        self.per_a, self.per_l = 1.0 / a, 1.0 / l0
        self.e, self.per_e = dety * self.per_a, detz * self.per_a
        self.root = np.sqrt(self.e)
        self.per_root = self.root * self.per_e
        # a Lorentz boost w, up to the factor sqrt(e)
        half = 0.5 * self.per_root * self.per_l
        w1, w2 = (y[1] - self.e * z[1]) * half, (y[2] - self.e * z[2]) * half
        self.boost = vector(np.sqrt(1.0 + w1 * w1 + w2 * w2), w1, w2)
        self.per_boost = 1.0 / (1.0 + self.boost[0])
        # W^2 = e (2 w w^T - diag(1, -1, -1))
        self.Q_inverse = cone_inverse(self.boost, 2.0 * self.e, self.e, s * self.per_w)
        # rounding errors of W z that are larger than l can be are no direction
        _, l1, l2 = self.boosted(z, 1.0) * self.root
        known = l1 * l1 + l2 * l2 <= np.maximum(2.0 * (yz - a), 1e-5 * a)
        self.l = vector(l0, np.where(known, l1, 0.0), np.where(known, l2, 0.0))
        self.residual = residual
        self.energy = yz + s * w  # `degree` kappa at the solution
        self.error = law.distance({"dety": dety, "detz": detz, "yz": yz, "s": s, "w": w})

    def impulse_toward(self, k: Any, ahead: dict[str, Any] | None, go: Any, most: Any) -> Array:
        """The change of impulse at constant velocity, towards the smoothing k.

        `ahead`: the predictor step, whose second-order products are clipped to `most`. `go`: 0 for a pure centering step, which
        ignores them and the residual, else 1.
        """
        target = 2.0 * k * self.per_a
        self.toward = vector(self.l[0] * (target - 1.0), -self.l[1] * (target + 1.0), -self.l[2] * (target + 1.0))
        to_w = k * self.per_s - self.w
        if ahead is not None:
            product = jordan(ahead["scaled_y"], ahead["scaled_z"])
            top = largest([abs(x) for x in product])
            product = product * (most * go * (1.0 / np.maximum(top, most)))
            self.toward = self.toward - jordan_divide(self.l, self.per_a, self.per_l, product)
            to_w = to_w + np.minimum(np.maximum(ahead["y"][0] * ahead["w"], -most), most) * (self.per_s * go)
        self.to_w, self.closing = to_w, self.residual * go
        self.rho = self.boosted(self.toward, -1.0) * self.per_root - self.closing - vector(to_w, 0.0, 0.0)
        return self.law.D * (self.Q_inverse @ self.rho)

    def step(self, du: Array) -> dict[str, Any]:
        """The step of all unknowns when the velocity changes by du."""
        D_du = self.law.D * du
        dn = self.Q_inverse[0] @ (self.rho - D_du)
        dw = self.to_w + self.w * self.per_s * dn
        dz = self.closing + D_du + vector(dw, 0.0, 0.0)
        scaled_z = self.boosted(dz, 1.0) * self.root
        scaled_y = self.toward - scaled_z
        dy = self.boosted(scaled_y, 1.0) * self.root
        return {"y": dy, "z": dz, "s": -dn, "w": dw, "scaled_y": scaled_y, "scaled_z": scaled_z}

    def moved(self, step: dict[str, Any], a: Any) -> Iterate:
        """The iterate after a step of length a."""
        on = {name: getattr(self, name) + step[name] * a for name in ("y", "z", "s", "w")}
        y, z = self.l + step["scaled_y"] * a, self.l + step["scaled_z"] * a
        return on | {"dety": determinant(y) * self.e, "detz": determinant(z) * self.per_e, "yz": y @ z}

    def boosted(self, x: Array, sign: float) -> Array:
        """The Lorentz boost of x by `boost`, or its inverse: the scaling without its factor."""
        w0, w1, w2 = self.boost[0], self.boost[1] * sign, self.boost[2] * sign
        along = w1 * x[1] + w2 * x[2]
        push = x[0] + along * self.per_boost
        return vector(w0 * x[0] + along, x[1] + w1 * push, x[2] + w2 * push)

    def inverse_step_limit(self, step: dict[str, Any]) -> Any:
        """1 / (the largest multiple of a step that stays inside)."""
        return largest(
            [
                inverse_exit_distance(self.l, step["scaled_y"], self.per_a),
                inverse_exit_distance(self.l, step["scaled_z"], self.per_a),
                -step["s"] * self.per_s,
                -step["w"] * self.per_w,
            ]
        )


def tracked(value: Any, computed: Any, rounding: Any) -> Any:
    """`value`, if what is computed anew differs from it by rounding errors only; a positive number in any case."""
    return where(abs(computed - value) <= rounding, value, np.maximum(computed, 0.01 * value))


def inverse_exit_distance(y: Array, dy: Array, per_y: Any) -> Any:
    """1 / t for the smallest t > 0 with y + t dy on the cone; not positive if there is none."""
    b = (y[0] * dy[0] - y[1] * dy[1] - y[2] * dy[2]) * per_y
    return np.sqrt(np.maximum(b * b - determinant(dy) * per_y, 0.0)) - b


def jordan(a: Array, b: Array) -> Array:
    """The product of the cone's algebra: (a . b, a0 b1 + b0 a1)."""
    return vector(a @ b, a[0] * b[1] + b[0] * a[1], a[0] * b[2] + b[0] * a[2])


def jordan_divide(l: Array, per_det: Any, per: Any, d: Array) -> Array:
    """x with l x = d in the cone's algebra; per_det = 1 / det l, per = 1 / l0."""
    x0 = (l[0] * d[0] - l[1] * d[1] - l[2] * d[2]) * per_det
    return vector(x0, (d[1] - x0 * l[1]) * per, (d[2] - x0 * l[2]) * per)


@dataclass(frozen=True)
class Polytope:
    """Impulse  offset + E y  with y >= 0 and sum y <= 1; E has one column for each vertex besides the offset.

    One vertex: a joint's limit (E = S) or dry friction (E = 2 S, offset = -S). Many: a friction pyramid.
    """

    E: Array
    kappa: Any
    per: Any  # 1 / kappa
    offset: Array | float = 0.0
    slip: Any = 0.0  # of a pyramid, as of a cone

    @staticmethod
    def of(E: Array, kappa: Any, offset: Array | float = 0.0, slip: Any = 0.0) -> Polytope:
        """The polytope with these vertices."""
        return Polytope(E, kappa, 1.0 / kappa, offset, slip)

    @property
    def max_impulse(self) -> Any:
        """The largest impulse, along the first direction."""
        return abs(self.E[0, 0])

    def smoothed(self, least: Any) -> Polytope:
        """The law with a smoothing of at least `least`, J."""
        factor = np.maximum(self.per * least, 1.0)
        return replace(self, kappa=self.kappa * factor, per=self.per * (1.0 / factor))

    @property
    def start_impulse(self) -> Any:
        """The impulse whose work the smoothing starts from."""
        return self.max_impulse

    @property
    def lift(self) -> Any:
        """The normal velocity that the law of a pyramid aims at, zero or more."""
        return np.maximum(-self.slip, 0.0)

    @property
    def unknowns(self) -> int:
        """Entries of y."""
        return int(self.E.shape[1])

    @property
    def degree(self) -> int:
        """The degree of the barrier."""
        return int(self.E.shape[1]) + 1

    def initial_fraction(self, impulse: Any) -> Any:
        """y of equal shares of an expected impulse."""
        return impulse / (self.degree * impulse + self.max_impulse)

    def start(self, impulse: Any, k: Any, free: Array, mass: float) -> Iterate:
        """A point at the smoothing k: with one vertex the one that fits the `free` velocity, else equal shares of the impulse."""
        n = self.degree - 1
        if n == 1:
            E, low = self.E[0, 0], self.offset if isinstance(self.offset, float) else self.offset[0]
            a, b = low + np.minimum(E, 0.0), low + np.maximum(E, 0.0)
            kept = free[0] + np.minimum(np.maximum(free[0] * -mass, a), b) * (1.0 / mass)
            # E u = k (1/y - 1/s)
            ratio = E * kept / k
            if isinstance(self.offset, float):
                # far beyond a limit the expected impulse is a small fraction of the largest: y / s = x there
                x = impulse / (impulse + self.max_impulse)
                ratio = ratio + (1.0 / x - x)
            root = np.sqrt(ratio * ratio + 4.0)
            y, s = 2.0 / (root + (2.0 + ratio)), 2.0 / (root + (2.0 - ratio))
            return {"y": np.array([y], dtype=object), "z": np.array([k / y], dtype=object), "s": s, "w": k / s}
        y = self.initial_fraction(impulse)
        s = 1.0 - n * y
        return {"y": np.array([y] * n, dtype=object), "z": np.array([k / y] * n, dtype=object), "s": s, "w": k / s}

    def impulse(self, y: Array) -> Array:
        """lambda = offset + E y."""
        return self.E @ y + self.offset

    def dual(self, u: Array, y: Array | None = None) -> Array:
        """E^T (u + slip e): the dual of a velocity u; it does not depend on y."""
        return self.E.T @ u + self.E[0] * self.slip

    def dual_change(self, du: Array) -> Array:
        """E^T du."""
        return self.E.T @ du

    def dual_residual(self, iterate: Iterate, u: Array) -> Array:
        """dual(u) - z + w: zero at the solution."""
        return self.dual(u) - iterate["z"] + iterate["w"]

    def scaled(self, iterate: Iterate, residual: Array, u: Array) -> ScaledPolytope:
        """The law linearised about an iterate."""
        return ScaledPolytope(self, iterate, residual)

    def compliance(self, y: Array, s: Any, u: Array | None = None) -> Array:
        """Q^-1 at the solution, Q = kappa (diag(1 / y^2) + 1 / s^2)."""
        return _inverse_with_bound(y * y * self.per, s * s * self.per)

    def gradient(self, y: Array, s: Any) -> Array:
        """1 / y - 1 / s, entry by entry."""
        return 1.0 / y - 1.0 / s

    def slack(self, y: Array) -> Any:
        """s = 1 - sum y."""
        return 1.0 - sum(y[1:], y[0])

    def residual_energy(self, y: Array, s: Any, u: Array) -> Any:
        """A bound of the squared residual of the law at the velocity u, in the norm of kinetic energy, J.

        rho^T Q^-1 rho  is at most  |y rho|^2 / kappa,  and with one vertex  (s rho)^2 / kappa.
        """
        rho = self.kappa * self.gradient(y, s) - self.dual(u)
        off = rho * (np.minimum(y, s) if len(y) == 1 else y)
        return self.per * (off @ off)

    def room(self, y: Array, s: Any) -> Any:
        """Positive inside the polytope."""
        return -largest([-s, *[-x for x in y]])

    @property
    def is_friction(self) -> bool:
        """Whether this is the dry friction of a joint: limits and pyramids have no offset."""
        return not isinstance(self.offset, float)

    def force_error(self, y: Any, u: Any, speed: Any, change: Any) -> Any:
        """|lambda - law(u)| of dry friction over its bound, beyond what the error of the velocity makes of it.

        `speed`: that before the step. `change`: of velocity by the largest impulse.
        """
        E = self.E[0, 0]
        # E u = kappa (1/y - 1/s), solved for the smaller of both
        ratio = abs(E * u) * self.per
        smaller = 2.0 / (np.sqrt(ratio * ratio + 4.0) + (2.0 + ratio))
        off = abs(where(u > 0.0, y, 1.0 - y) - smaller)
        slope = 1.0 / (1.0 / (smaller * smaller) + 1.0)
        rounding = by_precision(1e-15, ROUNDING_SINGLE) * change
        off_speed = by_precision(KNOWN, KNOWN_SINGLE) * (abs(u) + speed) + rounding
        return 2.0 * np.maximum(off - slope * (E * self.per) * off_speed, 0.0)

    def consistent(self, iterate: Iterate) -> Iterate:
        """The iterate with s = 1 - sum y again, as for a cone."""
        full, total = iterate["s"] < 0.5, sum(iterate["y"][1:], iterate["y"][0])
        scale = where(full, (1.0 - iterate["s"]) / total, 1.0)
        return iterate | {"y": iterate["y"] * scale, "s": where(full, iterate["s"], 1.0 - total)}

    def distance(self, iterate: Iterate) -> Any:
        """The largest squared distance of the products of an iterate from kappa, relative to it."""
        pairs = zip((*iterate["y"], iterate["s"]), (*iterate["z"], iterate["w"]), strict=True)
        off = [a * b * self.per - 1.0 for a, b in pairs]
        return largest([x * x for x in off])

    def slack_decrease(self, dy: Array) -> Any:
        """The change of -s with y."""
        return sum(dy[1:], dy[0])

    def impulse_change(self, dy: Array) -> Array:
        """The change of impulse with y."""
        return self.E @ dy

    def stiffness(self, compliance: Array) -> Array:
        """Sigma: impulses change by -Sigma du."""
        return self.E @ compliance @ self.E.T


def _inverse_with_bound(p: Array, b: Any) -> Array:
    """(diag(1/p) + 1 1^T / b)^-1."""
    if len(p) == 1:
        return np.array([[p[0] * b / (p[0] + b)]], dtype=object)
    return np.diag(p) - np.outer(p, p) * (1.0 / (b + sum(p[1:], p[0])))


class ScaledPolytope:
    """The law of a polytope, linearised:  dy = Q^-1 (rho - E^T du)."""

    def __init__(self, law: Polytope, iterate: Iterate, residual: Array) -> None:
        self.law, self.y, self.z, self.s, self.w = law, iterate["y"], iterate["z"], iterate["s"], iterate["w"]
        if len(self.y) == 1:
            # one division for each pair
            (y,), (z,) = self.y, self.z
            per_ys, per_zw = 1.0 / (y * self.s), 1.0 / (z * self.w)
            self.per_y, self.per_s = np.array([self.s * per_ys], dtype=object), y * per_ys
            self.per_z, self.per_w = np.array([self.w * per_zw], dtype=object), z * per_zw
            self.Q_inverse = np.array([[1.0 / (z * self.per_y[0] + self.w * self.per_s)]], dtype=object)
        else:
            self.per_y, self.per_z = 1.0 / self.y, 1.0 / self.z
            self.per_s, self.per_w = 1.0 / self.s, 1.0 / self.w
            self.Q_inverse = _inverse_with_bound(self.y * self.per_z, self.s * self.per_w)
        self.residual = residual
        self.energy = self.y @ self.z + self.s * self.w  # `degree` kappa at the solution
        self.error = law.distance(iterate)

    def impulse_toward(self, k: Any, ahead: dict[str, Any] | None, go: Any, most: Any) -> Array:
        """The change of impulse at constant velocity, towards the smoothing k; arguments as for a cone."""
        to_z, to_w = k * self.per_y - self.z, k * self.per_s - self.w
        if ahead is not None:
            # half of kappa is left: at a target of zero the products would never come near kappa
            top = most - 0.5 * self.law.kappa
            to_z = to_z - np.minimum(np.maximum(ahead["y"] * ahead["z"], -most), top) * (self.per_y * go)
            to_w = to_w - np.minimum(np.maximum(ahead["s"] * ahead["w"], -most), top) * (self.per_s * go)
        self.to_w, self.closing = to_w, self.residual * go
        self.rho = to_z - self.closing - to_w
        return self.law.E @ (self.Q_inverse @ self.rho)

    def step(self, du: Array) -> dict[str, Any]:
        """The step of all unknowns when the velocity changes by du."""
        E_du = self.law.E.T @ du
        dy = self.Q_inverse @ (self.rho - E_du)
        ds = -sum(dy[1:], dy[0])
        dw = self.to_w - self.w * self.per_s * ds
        return {"y": dy, "z": self.closing + E_du + dw, "s": ds, "w": dw}

    def moved(self, step: dict[str, Any], a: Any) -> Iterate:
        """The iterate after a step of length a."""
        return {name: getattr(self, name) + step[name] * a for name in ("y", "z", "s", "w")}

    def inverse_step_limit(self, step: dict[str, Any]) -> Any:
        """1 / (the largest multiple of a step that stays inside)."""
        pairs = [*zip(step["y"], self.per_y, strict=True), *zip(step["z"], self.per_z, strict=True)]
        return largest([-a * b for a, b in [*pairs, (step["s"], self.per_s), (step["w"], self.per_w)]])
