"""Which law of which robot was not obeyed, at which tick of a loop: what `status.failures` and the exception say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.simulate.law_residuals import law_names
from condyle.simulate.status import Failure, worst_law

if TYPE_CHECKING:
    from condyle.closed_loop.loop import Loop


def find_failures(
    loop: Loop,
    places: np.ndarray,
    call: Mapping[str, Any],
    rows: Mapping[str, Any],
    hold: int,
    x1: np.ndarray,
    residual: np.ndarray,
) -> Callable[[], Iterator[Failure]]:
    """What finds the failures of the robots at these places of a batch; their numbers are copied.

    `call`: states, keys and parameters by name, as the kernel took them. `rows`: the references, each row held for `hold` ticks.
    """
    lead, index = residual.shape, tuple(places.T)

    def pick(a: Any, shape: tuple[int, ...]) -> Any:
        return np.array(np.broadcast_to(a, (*lead, *shape))[index]).reshape(len(places), *shape)

    shapes = {"x": (loop.nx,), "seed": (2,), "robot": (2,), **{n: loop.parameters[n].shape for n in call if n in loop.parameters}}
    given = {name: pick(call[name], shape) for name, shape in shapes.items()}
    worst, tick = pick(residual, ()), loop.layout["tick"][0]
    # a robot that is not stepped stays as it is
    passed = (pick(x1, (loop.nx,))[:, tick] - given["x"][:, tick])[:, 0].astype(int)
    given["x"] = pick(x1, (loop.nx,))
    for name, value in rows.items():
        table = pick(value, value.shape[-2:]).astype(given["x"].dtype)
        given[name] = table[np.arange(len(places)), np.minimum(passed // hold, table.shape[1] - 1)]
    tables = {name: call[name] for name in loop.weights}

    def look() -> Iterator[Failure]:
        laws = np.full((len(places), 1, 1), np.nan)
        if loop.world is not None and loop.integrator != "backward_euler":
            laws = loop._law_residuals(tuple(n for n in given if n in loop.parameters))(**given, **tables)
        for place, x, found, r in zip(places.tolist(), given["x"], laws, worst, strict=True):
            yield _failure(loop, tuple(place), int(x[tick][0]), found, float(r))

    return look


def _failure(loop: Loop, place: tuple[int, ...], tick: int, steps: np.ndarray, residual: float) -> Failure:
    """The failure of one robot, by the residuals of all laws in each step of the physics in its last tick."""
    names = [] if loop.world is None else law_names(loop.world.world)
    for row in steps:
        law, _ = worst_law(names, row)
        if law is not None:
            return Failure(place, tick, law, residual)
    return Failure(place, tick, None, residual)
