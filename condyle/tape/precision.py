"""Numbers that depend on the precision of the backend, which a tape does not know: it is chosen by the arrays of a call."""

from __future__ import annotations

from typing import Any

import numpy as np

from condyle.tape.scalar import Scalar
from condyle.tape.table import recorded

BIT = 2.0**-30  # lost beside 1 in float32, kept in float64 and above


def by_precision(double: float, single: float) -> Any:
    """`single` where the backend computes in float32, else `double`; `double` outside of a trace."""
    graph = recorded()
    if graph is None:
        return double
    one = Scalar(graph, graph.const(1.0))
    # not exact in float64, and therefore left to the passes, which compute it in the precision of the backend
    bit = (one + BIT * (1.0 + BIT)) - one
    lost = np.maximum(1.0 - bit * (1.0 / BIT), 0.0)  # 1 in float32, else 0
    return double * (1.0 - lost) + single * lost
