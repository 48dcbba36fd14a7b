"""Derivatives of one tick of a closed loop: A and B in the tangent space, blocks included."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.closed_loop.kernel import Context, call_context
from condyle.dynamics.manifold import difference, integrate
from condyle.tape.array import stop_gradient
from condyle.tape.compose import traced_array
from condyle.tape.linearize import linearize

if TYPE_CHECKING:
    from condyle.closed_loop.loop import Loop


def displaced(loop: Loop, x: Any, d: Any) -> Any:
    """The state x moved by a small change d (ndx,): q along its tangent space, the other entries by addition."""
    if loop.plant is None:
        return x + d
    nq, nd = loop.nq, loop.plant.nd
    return np.concatenate([integrate(loop.plant.reduced, x[:nq], d[:nd]), x[nq:] + d[nd:]])


def change(loop: Loop, x: Any, after: Any) -> Any:
    """The small change (ndx,) that leads from x to `after`."""
    if loop.plant is None:
        return after - x
    nq = loop.nq
    return np.concatenate([difference(loop.plant.reduced, x[:nq], after[:nq]), after[nq:] - x[nq:]])


def jacobian_kernel(loop: Loop, parameters: tuple[str, ...]) -> Callable[..., dict[str, Any]]:
    """The traced function of A (ndx, ndx), and of B (ndx, size) for each reference."""

    def jacobians(**arrays: Any) -> dict[str, Any]:
        context = call_context(loop, arrays, parameters)
        names = list(loop.inputs)
        # traced also where there are no references
        zero = traced_array("d", np.zeros(loop.ndx), (loop.ndx,))
        _, A, *Bs = linearize(_change_of_tick(context, arrays["x"], names), zero, *[arrays[n] for n in names])
        return {"A": A, **{f"B_{name}": B for name, B in zip(names, Bs, strict=True)}}

    return jacobians


def _change_of_tick(context: Context, x: Any, names: list[str]) -> Callable[..., Any]:
    """d, references -> the change of the next state, near zero where they are those of the state itself."""

    def moved(d: Any, *references: Any) -> Any:
        after, _, _ = context.tick(displaced(context.loop, x, d), dict(zip(names, references, strict=True)))
        return change(context.loop, stop_gradient(after), after)

    return moved
