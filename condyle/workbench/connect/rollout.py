"""Rollouts of closed loops as operations: states, references and parameters in, the final state and records out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from condyle.closed_loop.arguments import halves
from condyle.closed_loop.kernel import recordable
from condyle.closed_loop.loop import Loop
from condyle.errors import ControlError
from condyle.tape.device import on_device
from condyle.workbench.connect.operation import Operation, Operations


class RolloutOperations(Operations):
    """The operations of one loop: a call takes x, the references in order, and parameters and shared arrays by name.

    `steps`: ticks, by default as many as the references have rows; `record`, `every` and `checkpoint` as in Loop.vjp. The keys
    of noise, `seed` and `robots`, are given with a call.
    """

    def __init__(
        self, loop: Loop, *, steps: int | None = None, record: Sequence[str] = (), every: int = 1, checkpoint: int = 1
    ) -> None:
        self.loop, self.rates = loop, (steps, every, checkpoint)
        self.record = (record,) if isinstance(record, str) else tuple(record)
        self.shapes = recordable(loop, self.record)
        self.name, self.run_time = "rollout", True
        self.inputs, self.parameters = ["x", *loop.inputs], [*loop.parameters, *loop.parameters.aliases, *loop.weights]
        self._operations: dict[Any, Operation] = {}

    @property
    def function(self) -> Any:  # type: ignore[override]
        """The loop."""
        return self.loop

    def bind(self, args: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        """The values of a call by the names of inputs, and the keys of noise as lists."""
        seed, robots = (named.pop(name, default) for name, default in (("seed", 0), ("robots", None)))
        keys = {"seed": halves("seed", seed).tolist()}
        return super().bind(args, named) | keys | ({} if robots is None else {"robot": halves("robots", robots).tolist()})

    def arranged(self, values: dict[str, Any], library: Any, constant: Any) -> tuple[Operation, list[Any], Any]:
        """(operation, arrays in its order, how its outputs become the result) for the arrays of a call."""
        loop, x = self.loop, values["x"]
        if x.ndim < 1 or x.shape[-1] != loop.nx:
            parts = ", ".join(loop.layout)
            raise ControlError(f"x must have {loop.nx} entries in its last axis ({parts}), got shape {tuple(x.shape)}")
        lead = tuple(x.shape[:-1])
        # the shapes of the kernel's rows are found on arrays without memory
        given = {name: np.broadcast_to(0.0, tuple(values[name].shape)) for name in loop.inputs}
        _, schedule, rows = loop.schedule(given or None, *self.rates)
        arrays = {"x": x, "seed": values["seed"]}
        arrays["robot"] = values.get("robot")
        if arrays["robot"] is None and on_device((x,)):
            arrays |= loop._device_keys(x, lead, {"robot": None})
        elif arrays["robot"] is None:
            arrays["robot"] = constant(halves("robots", np.arange(math.prod(lead)).reshape(lead)))
        for name, like in rows.items():
            arrays[name] = _rows(library, values[name], like.shape) if name in loop.inputs else constant(like)
        own = {name for name in values if name not in (*arrays, *loop.weights)}
        parameters = {loop.parameters[name].name: values[name] for name in own}
        arrays |= {name: parameters[name] for name in sorted(parameters)}
        arrays |= {name: values[name] if name in values else constant(w.default) for name, w in loop.weights.items()}
        key = (schedule, tuple(arrays))
        if key not in self._operations:
            function = loop._function(self.record, schedule, dict.fromkeys(sorted(parameters)), ("cpu", None, None))
            self._operations[key] = Operation(function, tuple(arrays))
        return self._operations[key], list(arrays.values()), self.result

    def result(self, outputs: Sequence[Any]) -> Any:
        """The final state; with records a tuple of it and of them."""
        x1, _, *written = outputs
        records = [a.reshape((*x1.shape[:-1], -1, *self.shapes[name])) for name, a in zip(self.record, written, strict=True)]
        return (x1, *records) if records else x1


def _rows(library: Any, value: Any, shape: tuple[int, ...]) -> Any:
    """References (..., rows, size), one row or none repeated, in the shape of the rows that a kernel scans."""
    lead = tuple(value.shape[:-2])
    whole = library.broadcast_to(value, (*lead, math.prod(shape[len(lead) : -1]), value.shape[-1]))
    return whole.reshape(shape)
