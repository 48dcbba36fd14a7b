"""Microseconds per state of a small network inside a kernel, its weights shared by the batch, one thread, against NumPy."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks.measure import SECONDS, busy, race

SIZES = (45, 64, 64, 12)  # entries in, neurons of two hidden layers, entries out
ACTIVATIONS = {
    "tanh": (np.tanh, np.tanh),
    "relu": (lambda x: np.maximum(x, 0.0), lambda x: np.maximum(x, 0.0)),
    "elu": (
        lambda x: cd.where(x > 0.0, x, np.exp(np.minimum(x, 0.0)) - 1.0),
        lambda x: np.where(x > 0, x, np.exp(np.minimum(x, 0)) - 1),
    ),
}


def network(activation: Any) -> cd.Function:
    """The network as a compiled function; a row of a layer's table holds the weights of a neuron and its bias."""

    def layer(x: Any, weights: Any, shape: Any) -> Any:
        return cd.map_rows(lambda row: shape(row[:-1] @ x + row[-1]), weights)[:]

    def evaluate(x: Any, first: Any, second: Any, third: Any) -> Any:
        return layer(layer(layer(x, first, activation), second, activation), third, lambda y: y)

    shapes = [cd.Uniform(n, m + 1) for m, n in pairwise(SIZES)]
    return cd.function(evaluate, x=SIZES[0], first=shapes[0], second=shapes[1], third=shapes[2])


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the table and return its numbers."""
    states, rng = 64 if tiny else 4096, np.random.default_rng(0)
    numbers: dict[str, Any] = {"busy": busy()}
    table = Table("us a state", "float32", "float64", "NumPy, float32", title=" x ".join(map(str, SIZES)))
    for name, (ours, theirs) in ACTIVATIONS.items():
        f = network(ours).on("cpu", threads=1)
        calls: dict[str, Any] = {}
        for kind in (np.float32, np.float64):
            weights = [rng.normal(size=(n, m + 1)).astype(kind) / 8.0 for m, n in pairwise(SIZES)]
            x, out = rng.normal(size=(states, SIZES[0])).astype(kind), np.empty((states, SIZES[-1]), kind)
            calls[kind.__name__] = lambda f=f, x=x, weights=weights, out=out: f(x, *weights, out=out)
        w1, w2, w3 = (w.astype(np.float32) for w in weights)
        x32 = x.astype(np.float32)

        def numpy_network(shape: Any = theirs, w1: Any = w1, w2: Any = w2, w3: Any = w3, x32: Any = x32) -> Any:
            h = shape(x32 @ w1[:, :-1].T + w1[:, -1])
            return shape(h @ w2[:, :-1].T + w2[:, -1]) @ w3[:, :-1].T + w3[:, -1]

        calls["NumPy"] = numpy_network
        times = {key: 1e6 * seconds / states for key, seconds in race(calls, 0.01 if tiny else SECONDS).items()}
        table.add_row(name, *[f"{t:.3f}" for t in times.values()])
        numbers[name] = times
    console.print(table)
    return numbers
