"""One contact by itself: the impulse it exerts, as a function of where its sphere is and how it moves, with derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.robot.spatial import Array, Pose
from condyle.simulate.contact_frame import surface
from condyle.simulate.contacts import LawNumbers, contact_law, friction_of, limit_law
from condyle.simulate.friction_cone import Cone, Iterate, Polytope
from condyle.simulate.points import ContactPoint
from condyle.simulate.world import World
from condyle.tape.array import stop_gradient
from condyle.tape.derive import jacobian, trace_inside
from condyle.tape.inline import inline
from condyle.tape.tape import Tape
from condyle.tape.trace import trace


@dataclass(frozen=True)
class ContactJacobians:
    """The impulse where the sphere touches, (3,), and its derivatives, (3, 3) each: by the sphere's centre, and by the velocity
    of the touching point after and before the step; and that of the arm from centre to touching point by the centre."""

    impulse: Array
    by_place: Array
    by_after: Array
    by_before: Array
    arm_by_place: Array


def contact_jacobians(
    world: World, point: ContactPoint, X_0F: Pose, centre: Array, after: Array, before: Array, iterate: Iterate
) -> ContactJacobians:
    """At the solution `iterate`, with the least smoothing of its law; all in the frame F.

    `after` and `before` are the velocities of the touching point, (3,).
    """
    tape, around = _tape(world, point, len(iterate["y"]))
    arrays = [centre, after, before, X_0F.R, X_0F.p, iterate["y"], *_bound_and_smoothing(iterate)]
    results = inline(tape, [*[x for array in arrays for x in np.ravel(array)], *around])
    return ContactJacobians(*[results[p.name].reshape(p.shape) for p in tape.outputs])


def contact_impulse(
    world: World, point: ContactPoint, X_0F: Pose, centre: Array, after: Array, before: Array, y: Array, s: Any, smoothing: Any
) -> dict[str, Array]:
    """{"impulse", "arm"}: where y and s solve the law with a smoothing of at least that, and from the centre to there."""
    ground = surface(world, point, X_0F, centre)
    mass = next(m for p, m in zip(world.points, world.effective_masses, strict=True) if p is point)
    law = contact_law(world, LawNumbers.of(world), friction_of(world, point), mass, ground.depth, ground.C @ before)
    return {"impulse": ground.C.T @ impulse(law.smoothed(smoothing), ground.C @ after, y, s), "arm": ground.arm}


def impulse(law: Cone | Polytope, u: Array, y: Array, s: Any) -> Array:
    """The impulse of a law whose solution is y, in a form with the right first derivatives."""
    y, s = stop_gradient(y), stop_gradient(s)
    # at the solution the gradient is dual(u) / kappa, which loses no digits where the contact slides
    error = law.dual(u, y) - law.kappa * stop_gradient(law.dual(u, y) * law.per)
    return law.impulse(y - stop_gradient(law.compliance(y, s, u)) @ error)


def limit_jacobian(world: World, k: int, angle: Any, after: Any, before: Any, iterate: Iterate) -> tuple[Any, Any]:
    """The derivatives of the impulse of joint k's limits, by the angle and by the speed before the step."""

    def local(angle: Array, before: Array, after: Array, y: Array, s: Array, smoothing: Array) -> Any:
        law = limit_law(world, k, angle[0], before[0]).smoothed(smoothing[0])
        return {"impulse": impulse(law, after, y, s[0])}

    tape, around = trace_inside(local, one_limb=True, angle=1, before=1, after=1, y=1, s=1, smoothing=1)
    tape = jacobian(tape, "impulse", ["angle", "before"], mode="forward")
    s, smoothing = _bound_and_smoothing(iterate)
    found = inline(tape, [angle, before, after, iterate["y"][0], *s, *smoothing, *around])
    return found["dimpulse_dangle"][0], found["dimpulse_dbefore"][0]


def _bound_and_smoothing(iterate: Iterate) -> tuple[Array, Array]:
    """s and the smoothing of a solution, each an array of one number."""
    s, smoothing = (np.array([x], dtype=object) for x in (iterate["s"], iterate.get("smoothing", 0.0)))
    return s, smoothing


def _tape(world: World, point: ContactPoint, corners: int) -> tuple[Tape, list[Any]]:
    """The impulse with the derivatives, as a tape of its own, and its last arguments, parameters of the world."""

    def local(centre: Array, after: Array, before: Array, R: Array, p: Array, y: Array, s: Array, smoothing: Array) -> Any:
        return contact_impulse(world, point, Pose(R, p), centre, after, before, y, s[0], smoothing[0])

    shapes: dict[str, Any] = {"centre": 3, "after": 3, "before": 3, "R": (3, 3), "p": 3, "y": corners, "s": 1, "smoothing": 1}
    tape, around = trace_inside(local, one_limb=True, **shapes)
    jacobians = jacobian(tape, "impulse", ["centre", "after", "before"], mode="forward")
    of_arm = jacobian(tape, "arm", "centre", mode="forward")

    def all_of_them(**arrays: Any) -> Any:
        flat = [x for array in arrays.values() for x in np.ravel(array)]
        results = {name: values.reshape(shape) for t in (tape, jacobians, of_arm) for name, values, shape in _results(t, flat)}
        return {name: value for name, value in results.items() if name != "arm"}

    return trace(all_of_them, **{p.name: p.shape for p in tape.inputs}), around


def _results(tape: Tape, flat: list[Any]) -> list[tuple[str, Array, tuple[int, ...]]]:
    found = inline(tape, flat)
    return [(p.name, found[p.name], p.shape) for p in tape.outputs]
