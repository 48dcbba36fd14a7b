"""A block by itself, on plain numbers: one update after the other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import condyle as cd
from condyle.closed_loop.tick import Tick


def updates(block: cd.Block, inputs: Iterable[tuple[Any, ...]], dt: float) -> tuple[list[Any], dict[str, Any]]:
    """(the outputs for each row of inputs, the last state) of a block that is updated every dt seconds."""
    if hasattr(block, "prepare"):
        block.prepare(dt)
    state: dict[str, Any] = {name: np.array(value) for name, value in block.states.items()}
    # plain numbers in place of constants of a trace
    numbers = {p.name: p.default if p.shape else float(p.default) for p in block.parameters.values()}
    h, outputs = np.asarray(dt / block.every), []
    for k, row in enumerate(inputs):
        with Tick(h, k * block.every, parameters=numbers).running():
            output, after = block.step(dict(state), *row)
        state |= {name: np.asarray(value, dtype=float) for name, value in after.items()}
        outputs.append(output)
    return outputs, state


def signal(block: cd.Block, inputs: Any, dt: float) -> np.ndarray:
    """The outputs of a block with one input, as an array."""
    return np.array(updates(block, [(np.asarray(u),) for u in inputs], dt)[0], dtype=float)
