"""What a controller is: the state in, the controls of the next step out."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Controller(Protocol):
    """(u, wrenches) of step `k` from the state `x`: u is (nu,), wrenches (frames, 6) or None, as `Simulation.step` takes them.

    Called once for every step, in order, k = 0, 1, ...; what it remembers between steps belongs to the one run it was made for.
    """

    def __call__(self, k: int, x: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]: ...
