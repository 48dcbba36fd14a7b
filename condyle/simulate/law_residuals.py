"""How well each law of a step is obeyed, one by one: what `status` and the exception name when a step is not ok."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.dynamics.solve import pattern_factor
from condyle.robot.spatial import Array
from condyle.simulate.constraint_list import with_smoothing
from condyle.simulate.contact_table import PointGeometry
from condyle.simulate.solver import Motion
from condyle.simulate.step import Inputs, problem, solved
from condyle.simulate.world import World
from condyle.tape.array import where

OF_JOINTS = ("limit", "dry friction", "drive")


def law_names(world: World) -> list[str]:
    """What the residuals of `law_residuals` belong to."""
    joints = [""] * world.model.nv
    for link in world.model.links:
        for n, k in enumerate(range(link.v.start, link.v.stop)):
            joints[k] = f"joint '{link.joint}'" + (f" ({n})" if link.kind.nv > 1 else "")
    contacts = [f"contact '{point.name}'" for point in world.points]
    tendons = [f"limit of tendon '{tendon.name}'" for tendon in world.model.tendons][: len(world.tendons)]
    return ["equation of motion", *contacts, *[f"{law} of {joint}" for law in OF_JOINTS for joint in joints], *tendons]


def law_residuals(world: World, x: Inputs) -> Array:
    """The residual of each law at the solution of a step, as `status` has the largest of them; zero for laws without a force."""
    now = problem(world, x)
    solution = solved(world, now)
    n, motion = len(world.points), Motion(world.ancestor_dofs, now.M, now.p, now.v)
    of_tendons = 1 + n + len(OF_JOINTS) * world.model.nv
    out = np.zeros(of_tendons + len(world.tendons), dtype=object)
    dv, v, M_change = solution.dv, now.v + solution.dv, motion.times(solution.dv)
    scale = sum((b.mass * b.velocity_scale * b.velocity_scale for b in now.constraints), 0.0)
    if now.contacts is not None:
        scale = scale + sum(now.contacts.mass) * (now.contacts.velocity_scale * now.contacts.velocity_scale)

    def norm(square: Any) -> Any:
        return motion.relative_norm(dv, M_change, abs(square), scale)

    def of_law(law: Any, u: Array, y: Array, s: Any) -> Any:
        return where(law.room(y, s) > 0.0, norm(law.residual_energy(y, s, u)), np.inf)

    r = M_change - now.p
    for b, iterate in zip(with_smoothing(now.constraints, solution.smoothing), solution.iterates, strict=True):
        kind, k = b.label
        y, u = iterate["y"], b.velocity(v)
        idle = 0.0 if b.idle is None else b.idle
        b.add_impulse(b.law.impulse(y) * (1.0 - idle), r, -1.0)
        if kind == "tendon":
            at = of_tendons + k - len(world.joints)
        else:
            at = 1 + k if kind == "contact" else 1 + n + OF_JOINTS.index(kind) * world.model.nv + k
        error = 0.0 if kind == "drive" else of_law(b.law, u, y, iterate["s"])
        if kind in ("dry friction", "drive"):
            error = np.maximum(error, b.force_error(y, u, b.velocity(now.v)))
        out[at] = where(idle > 0.5, 0.0, error)
    if now.contacts is not None and solution.points is not None:
        contacts, (unknowns, impulses) = now.contacts, solution.points
        after, before = contacts.velocities(v), contacts.velocities(now.v)
        wrenches = np.zeros((len(contacts.layout.links), 6), dtype=object)
        for row, point in enumerate(contacts.layout.points):
            if point is None:
                continue
            link, geometry = row // contacts.layout.rows, PointGeometry.of(contacts.geometry[row])
            law = contacts.law(
                contacts.numbers, contacts.friction[row], contacts.mass[link], geometry.depth, geometry.velocity(before[link])
            ).smoothed(solution.smoothing)
            error = of_law(law, geometry.velocity(after[link]), unknowns[row][:3], unknowns[row][3])
            wrenches[link] = wrenches[link] + geometry.wrench(impulses[row])
            out[1 + point] = where(geometry.depth > 0.0, error, 0.0)
        contacts.add_wrenches(wrenches, r, -1.0)
    out[0] = norm(r @ pattern_factor(world.ancestor_dofs, now.M).solve(r))
    return out
