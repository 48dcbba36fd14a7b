"""Second derivatives of a step: the gradient of weight . (next state), and its derivative along one direction after the other.

The solution of contact has a derivative rule of its own (solution.py), which is differentiated again.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.dynamics.manifold import difference, integrate
from condyle.robot.spatial import Array
from condyle.simulate.integrate import integrate_step
from condyle.simulate.step import Inputs
from condyle.simulate.world import World
from condyle.tape.array import stop_gradient
from condyle.tape.derive import jvp, trace_inside, vjp
from condyle.tape.inline import inline
from condyle.tape.loop import scan


def weighted_hessian(world: World, x: Inputs, weight: Array, integrator: str) -> Any:
    """Second derivatives of  weight . (next state)  by (q, v, u) in the tangent space: (ndx + nu, ndx + nu)."""
    reduced, nd, nu = world.reduced, world.nd, world.nu
    n = nd + world.nv
    size = n + nu
    count = max(len(world.wrenches), 1)

    def objective(d: Array, q: Array, v: Array, u: Array, t: Array, wrenches: Array, weight: Array) -> Any:
        at = Inputs(integrate(reduced, q, d[:nd]), v + d[nd:n], u + d[n:], t[0], wrenches)
        after = integrate_step(world, at, integrator)
        return {"f": weight[:nd] @ difference(reduced, stop_gradient(after.q), after.q) + weight[nd:] @ after.v}

    sizes: dict[str, Any] = {"d": size, "q": reduced.nq, "v": world.nv, "u": max(nu, 1), "t": 1, "wrenches": (count, 6)}
    sizes["weight"] = n
    tape, around = trace_inside(objective, **sizes)
    gradient = vjp(tape, "d")
    along = jvp(gradient, "d")
    wrenches = np.zeros((count, 6)) if x.wrenches is None else x.wrenches
    u = x.u if nu else np.zeros(1)
    rest = [*np.zeros(size), *x.q, *x.v, *u, x.t, *np.ravel(wrenches), *weight, *around]

    def body(_: Any, state: Any, direction: Any) -> Any:
        return state, inline(along, [*rest, 1.0, *direction])["d_gradient_tangent"]

    _, rows = scan(body, np.zeros(1), np.eye(size))
    return rows
