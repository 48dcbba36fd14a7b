"""Derivatives of the velocity after a step of a robot with limbs, written for one limb that stands for all.

The linearized equation is that of step_derivatives.py, in folded coordinates (condyle/dynamics/limbs.py). A change of a limb's
coordinates has a solution of its own in the whole robot and in each limb (condyle/dynamics/limb_solve.py).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from condyle.dynamics.limb_solve import LimbColumns, LimbFactor, picked
from condyle.dynamics.posture import has_posture_forces
from condyle.dynamics.solve import pattern_factor
from condyle.robot.spatial import Array
from condyle.simulate.contact_frame import from_ground_axes, to_ground_axes
from condyle.simulate.folded_world import FoldedWorld, folded
from condyle.simulate.solver import Solution
from condyle.simulate.step import Inputs, in_body_axes, problem, solved
from condyle.simulate.step_derivatives import by_controls, linearization, lost_derivatives
from condyle.simulate.velocity_products import limits_products
from condyle.simulate.world import World


@dataclass(frozen=True)
class FoldedVelocityDerivatives:
    """The solution of a step, folded, and its derivatives by q (in the tangent space), v and u, one after the other."""

    v: Array
    acceleration: Array
    columns: LimbColumns


def folded_for_derivatives(world: World) -> FoldedWorld | None:
    """The world with one limb for all; None where forces or contacts are not folded."""
    forces = world.wrenches or world.force is not None or has_posture_forces(world.model)
    return None if forces or world.point_table is not None else folded(world)


def folded_inputs(world: FoldedWorld, x: Inputs) -> Inputs:
    """What a step is given, folded."""
    return replace(x, q=world.configuration(x.q), v=world.limbs.fold(x.v), u=world.controls(x.u))


def folded_velocity_derivatives(world: FoldedWorld, x: Inputs, solution: Solution | None = None) -> FoldedVelocityDerivatives:
    """`next_velocity_derivatives` with limbs; `x` and `solution` are those of all coordinates."""
    robot, limbs, own = world.of, world.limbs, folded_inputs(world, x)
    solution = solution or solved(robot, problem(robot, x, fold=True))
    now = problem(world, own)
    # first, while few other numbers are alive
    lost = [np.zeros(world.nv)] * 2
    if limits_products(world):
        lost = [limbs.fold(part) for part in np.split(lost_derivatives(robot, robot.at(x.q), x, now.products.lost), 2)]
    iterates = world.fold_iterates(now.constraints, solution.iterates)
    at = linearization(world, own, now, in_body_axes(now, replace(solution, dv=limbs.fold(solution.dv), iterates=iterates)))
    factor = LimbFactor.of(pattern_factor(world.ancestor_dofs, at.H, limbs))
    parts, n = (at.R_q, at.R_v, by_controls(world, now.at, own.u)), world.trunk
    starts = [n, n, sum(k < n for k in world.actuated)]
    of_all = [part[:, :start] for part, start in zip(parts, starts, strict=True)]
    of_limb = [part[:, start:] for part, start in zip(parts, starts, strict=True)]
    columns = np.column_stack([*of_all, now.products.momentum, *of_limb])
    dv = factor.solve(to_ground_axes(now.rotation, columns), sum(starts) + 1, negative=True)
    dv = replace(dv, trunk=from_ground_axes(now.rotation, dv.trunk))
    return FoldedVelocityDerivatives(at.v, at.acceleration, _with_lost(world, dv, lost))


def _with_lost(world: FoldedWorld, dv: LimbColumns, lost: list[Array]) -> LimbColumns:
    """The columns without that of the momentum lost, which is multiplied by the derivatives of the fraction lost by q and v."""
    n, w = world.trunk, dv.width - 1
    of_all, of_limb = [np.concatenate([part[own] for part in lost]) for own in (slice(None, n), slice(n, None))]

    def added(rows: Array, momentum: Array, factors: Array) -> Array:
        out = np.array(rows, dtype=object)
        out[:, : len(factors)] = out[:, : len(factors)] + np.outer(momentum, factors)
        return out

    trunk, own = [
        np.hstack([added(rows[:, :w], rows[:, w], of_all), added(rows[:, w + 1 :], rows[:, w], of_limb)])
        for rows in (dv.trunk, dv.own)
    ]
    return LimbColumns(w, trunk, own, lambda j: added(dv.others(j), picked(dv.own[:, w], j), of_limb))
