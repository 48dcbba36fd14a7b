"""Forward sensitivities of rollouts: how records change along directions in states and parameters, in one kernel.

    records, tangents = rollout_jvp(loop, x0, references, steps, along={"elbow.mass": 1.0}, parameters={"elbow.mass": 1.2})

One lane computes a rollout and one direction; leading axes are the batch, and directions broadcast like parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.closed_loop.arguments import state_array
from condyle.closed_loop.kernel import recordable
from condyle.errors import ControlError
from condyle.robot.names import nearest
from condyle.tape.device import on_device

if TYPE_CHECKING:
    from condyle.closed_loop.loop import Loop


def rollout_jvp(
    loop: Loop,
    x: Any,
    references: Any = None,
    steps: int | None = None,
    *,
    along: Mapping[str, Any],
    parameters: Mapping[str, Any] | None = None,
    record: Sequence[str] = ("q",),
    every: int = 1,
    seed: int = 0,
    robots: Any = None,
    threads: int | None = None,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """({name: records}, {name: their derivative along the direction}), (..., T, *shape) each.

    `along`: {"x" or the name of a given parameter: direction}, zero for those that are not named. Noise is that of the seed.
    """
    values, state = loop._values(parameters), state_array(x, loop.layout)
    known = {"x": loop.nx, **{name: loop.parameters[name].shape for name in values}}
    own = {}
    for name, direction in along.items():
        key = name if name == "x" else (loop.parameters[name].name if name in loop.parameters else name)
        if key not in known:
            raise ControlError(
                f"there is no derivative along '{name!s:.60}'{nearest(name, list(known))}; a parameter must be given a value"
            )
        own[key] = direction if on_device((direction,)) else np.asarray(direction, dtype=float)
    _, schedule, rows = loop.schedule(references, steps, every, 1)
    shapes, names = recordable(loop, tuple(record)), sorted(own)
    function = loop._function(tuple(record), schedule, values, ("cpu", None, threads))
    arrays = {"x": state, **loop._keys(state, seed, robots), **rows, **values, **loop.tables(parameters)}
    derivative = function.jvp(names)
    ports = {p.name for p in derivative.tape.inputs}
    tangents = {f"{name}_tangent": own[name] for name in names}
    found = derivative(**{name: value for name, value in arrays.items() if name in ports}, **tangents)
    outputs = dict(zip([p.name for p in derivative.tape.outputs], found if isinstance(found, tuple) else (found,), strict=True))
    primal = function(**arrays)
    values_out = dict(zip([p.name for p in function.tape.outputs], primal, strict=True))

    def shaped(array: np.ndarray, name: str) -> np.ndarray:
        lead = array.ndim - values_out[name].ndim + state.ndim - 1
        return array.reshape(*array.shape[:lead], -1, *shapes[name])

    return (
        {name: shaped(values_out[name], name) for name in record},
        {name: shaped(outputs[f"{name}_tangent"], name) for name in record},
    )
