"""Joint forces of a reference motion at the actual velocity, M a_r + C(q, v) v_r + g, and their matrix by the masses.

Passivity-based control (Slotine and Li 1987) needs the Coriolis matrix with Mdot - 2 C skew-symmetric. It is that of
`coriolis_matrix`: a particle with the Jacobian J has the reference acceleration  J a_r + Jdot(q, v) v_r,  and the sum over all
particles of J^T dm times it is what is computed here, without a matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from condyle.dynamics.coriolis import angular_velocities
from condyle.dynamics.regressor import by_inertia
from condyle.robot.model import Model
from condyle.robot.spatial import Array, Force, Inertia, Motion, cross, product, skew


@dataclass(frozen=True)
class ReferenceMotion:
    """Of one link, in its axes: its angular velocity w, that of the reference w_r, and the reference acceleration."""

    w: Array
    w_r: Array
    A: Motion  # J a_r + Jdot v_r of the link's origin, and its angular part; gravity included

    def force(self, I: Inertia) -> Force:
        """Sum over particles at r of  dm (a + w_r' x r + w_r x (w x r)),  and its moment about the origin.

        The moment of the last term is  w x I w_r - 1/2 tr(I) w x w_r.
        """
        turned = cross(self.w_r, cross(self.w, I.h))
        moment = cross(self.w, product(I.I, self.w_r)) - cross(self.w, self.w_r) * (0.5 * np.trace(I.I))
        return I @ self.A + Force(turned, moment)

    def row(self, S: Motion) -> Array:
        """S . force as a row over the ten numbers of `regressor.PARAMETERS`."""
        D = skew(self.A.angular) + product(skew(self.w_r), skew(self.w))
        by_I = by_inertia(self.A.angular, S.angular) + by_inertia(self.w_r, cross(S.angular, self.w))
        by_trace = product(S.angular, cross(self.w, self.w_r)) * 0.5
        by_I = by_I - np.array([by_trace, 0.0, by_trace, 0.0, 0.0, by_trace])
        by_h = product(S.linear, D) + cross(self.A.linear, S.angular)
        return np.concatenate([[product(S.linear, self.A.linear)], by_h, by_I])


def reference_motions(model: Model, q: Array, v: Array, v_r: Array, a_r: Array) -> list[ReferenceMotion]:
    """The reference motion of every link, from the base outward.

    With r the link's origin in the parent, (vJ, wJ) the joint's motion and (vJ_r, wJ_r) that of the reference, in the link:
    linear  R^T (w_rp x (w_p x r)) + (w_r - wJ_r) x vJ + w x vJ_r,  angular  w x wJ_r.
    """
    w, w_r = angular_velocities(model, q, v), angular_velocities(model, q, v_r)
    world = Motion(-np.array(model.gravity), np.zeros(3))
    found: list[ReferenceMotion] = []
    for i, link in model.outward():
        X, p = link.pose(q), link.parent
        J, J_r = link.velocity(v), link.velocity(v_r)
        linear = cross(w_r[i] - J_r.angular, J.linear) + cross(w[i], J_r.linear)
        if p >= 0:
            linear = linear + product(X.R.T, cross(w_r[p], cross(w[p], X.p)))
        bias = Motion(linear, cross(w[i], J_r.angular))
        A = X.carry(found[p].A if p >= 0 else world) + link.velocity(a_r) + bias
        found.append(ReferenceMotion(w[i], w_r[i], A))
    return found


def reference_forces(model: Model, q: Array, v: Array, v_r: Array, a_r: Array) -> Array:
    """M(q) a_r + C(q, v) v_r + g(q), (nv,), with Mdot - 2 C skew-symmetric; inverse dynamics where v_r = v."""
    F = [at.force(link.inertia) for at, link in zip(reference_motions(model, q, v, v_r, a_r), model.links, strict=True)]
    tau = np.zeros(model.nv, dtype=object)
    for i, link in model.inward():
        for k, S in enumerate(link.axes):
            tau[link.v.start + k] = S.dot(F[i]) + link.armature * a_r[link.v.start + k]
        if link.parent >= 0:
            F[link.parent] = F[link.parent] + link.pose(q) @ F[i]
    return tau


def reference_regressor(model: Model, q: Array, v: Array, v_r: Array, a_r: Array) -> Array:
    """Y(q, v, v_r, a_r) with  reference_forces = Y pi + armature a_r,  nv x 10 n_links, pi as in `inertial_parameters`."""
    axes: list[dict[int, Motion]] = []  # per link: the axes of all joints that move it, by velocity, in its frame
    Y = np.zeros((model.nv, 10 * len(model.links)), dtype=object)
    for (i, link), at in zip(model.outward(), reference_motions(model, q, v, v_r, a_r), strict=True):
        axes.append({row: link.pose(q).carry(S) for row, S in axes[link.parent].items()} if link.parent >= 0 else {})
        axes[i].update({link.v.start + k: S for k, S in enumerate(link.axes)})
        for row, S in axes[i].items():
            Y[row, 10 * i : 10 * (i + 1)] = at.row(S)
    return Y
