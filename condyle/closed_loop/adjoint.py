"""Gradients of rollouts in reverse mode: one kernel forward, which keeps states, and one kernel backward through them.

    lambda_k = (d tick / d x)^T lambda_{k+1} + weights of tick k        gradient += (d tick / d parameters)^T lambda_{k+1}

Neither kernel depends on the number of ticks. With `checkpoint=n` the state is kept at every n-th row only, and the ticks of n
rows are run again when the backward kernel comes to them: memory of rows / n + n states. The steps of the physics are
differentiated by the implicit function theorem, at their solution.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.closed_loop.arguments import as_precise_as, state_array
from condyle.closed_loop.kernel import recordable
from condyle.errors import ControlError
from condyle.robot.names import nearest
from condyle.simulate.status import Status
from condyle.tape.device import beside, placed_alike, repeated
from condyle.tape.threads import made_once

if TYPE_CHECKING:
    from condyle.closed_loop.loop import Loop, Rollout

Pullback = Callable[..., dict[str, np.ndarray]]


def rollout_vjp(
    loop: Loop,
    given: Mapping[str, Any],
    rates: tuple[int | None, int, int],
    record: tuple[str, ...],
    wrt: Sequence[str] | None,
    keys: tuple[Any, Any],
    on: tuple[str, int | None, int | None],
) -> tuple[Rollout, Pullback]:
    """(rollout, pullback) of a loop; `rates`: steps, every and checkpoint; `keys`: seed and robots. See Loop.vjp."""
    from condyle.closed_loop.loop import Rollout

    steps, every, checkpoint = rates
    parameters, x = given["parameters"], state_array(given["x"], loop.layout)
    _, schedule, rows = loop.schedule(given["references"], steps, every, checkpoint)
    shapes, values = recordable(loop, record), loop._values(parameters)
    arrays = {"x": x, **loop._keys(x, *keys), **rows, **values, **loop.tables(parameters)}
    arrays = as_precise_as(x, placed_alike(arrays))
    originals = _originals(loop, given, x)
    names = _chosen(wrt, originals)
    function = loop._function(record, schedule, values, on)
    # a parameter may be given by another name than its own
    own = [loop.parameters[name].name if name in parameters and name not in loop.weights else name for name in names]
    forward, backward = made_once(loop._passes, (function, *own), lambda: function.forward_and_backward(own))
    found = forward(**arrays)
    outputs = dict(zip([p.name for p in forward.tape.outputs], found, strict=True))
    kept = {name: value for name, value in outputs.items() if name not in function.outputs}
    lead = outputs["x1"].shape[:-1]
    loop._last.value = status = Status.of(outputs["worst_residual"])
    records = {name: outputs[name].reshape(*lead, -1, *shapes[name]) for name in record}

    def pullback(**weights: Any) -> dict[str, np.ndarray]:
        """{name: gradient} of the sum of weights times results."""
        sizes = {"x1": outputs["x1"].shape, **{name: value.shape for name, value in records.items()}}
        results = backward(**arrays, **kept, **_weights(weights, outputs, sizes))
        gradients = dict(zip(names, results if isinstance(results, tuple) else (results,), strict=True))
        for name in loop.inputs:
            if name in gradients:
                rows = gradients[name].reshape(*lead, -1, gradients[name].shape[-1])
                # a constant reference has no axis of rows
                gradients[name] = rows if len(originals[name]) > 1 else rows.sum(-2)
        return {name: _summed(gradient, originals[name]) for name, gradient in gradients.items()}

    return Rollout(records, outputs["x1"], status), pullback


def _originals(loop: Loop, given: Mapping[str, Any], x: np.ndarray) -> dict[str, tuple[int, ...]]:
    """The shapes of what a call was given and can be differentiated by."""
    references = given["references"]
    if not isinstance(references, Mapping):
        references = dict(zip(loop.inputs, [references], strict=False))
    found = {"x": x.shape, **{name: np.shape(references[name]) for name in loop.inputs}}
    return found | {name: np.shape(value) for name, value in given["parameters"].items()}


def _chosen(wrt: Sequence[str] | None, known: Mapping[str, Any]) -> list[str]:
    if wrt is None:
        return list(known)
    names = [wrt] if isinstance(wrt, str) else list(wrt)
    for name in names:
        if name not in known:
            raise ControlError(
                f"there is no gradient by '{name!s:.60}'{nearest(name, list(known))}; a parameter must be given a value to "
                "differentiate by it"
            )
    return names


def _weights(
    given: Mapping[str, Any], outputs: Mapping[str, np.ndarray], shapes: Mapping[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """The weight of every output of the kernel."""
    for name in given:
        if name not in shapes:
            raise ControlError(f"the rollout gives no '{name!s:.60}' that could have a weight{nearest(name, list(shapes))}")
    worst = outputs["worst_residual"]
    found = {"worst_residual_weight": repeated(beside(worst, 0.0), tuple(np.shape(worst)))}
    for name, shape in shapes.items():
        try:
            weight = repeated(beside(outputs[name], given.get(name, 0.0)), tuple(shape))
        except (ValueError, RuntimeError):
            raise ControlError(f"the weight of '{name}' has shape {np.shape(given[name])}, expected {tuple(shape)}") from None
        found[f"{name}_weight"] = weight.reshape(outputs[name].shape)
    return found


def _summed(gradient: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """A gradient with the shape of what was given, summed over all axes along which that was repeated."""
    more = gradient.ndim - len(shape)
    axes = (*range(more), *[more + k for k, n in enumerate(shape) if n == 1 and gradient.shape[more + k] > 1])
    return gradient.sum(axes).reshape(shape) if axes else gradient
