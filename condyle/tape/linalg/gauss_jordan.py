"""Gauss-Jordan elimination with partial pivoting as loops over a table: the code grows with its width, not with its area.

For systems that are part of larger kernels, as those of implicit integrators, whose straight code would be long.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from condyle.tape.array import array, fma, where
from condyle.tape.loop import loop, map_rows, scan
from condyle.tape.table import Table

STEPS = 8  # of one loop: what is done of the matrix is dropped after so many


def eliminated(system: Table) -> Table:
    """X (n, r) with A X = B, of the system [A B] (n, n + r). A column without a pivot, of a singular A, is skipped."""
    n = system.rows
    rows = system
    for first in range(0, n, STEPS):
        steps = min(STEPS, n - first)
        rows = map_rows(lambda row, done=steps: row[:-done], loop(partial(_step, first), rows, steps))
    return rows


def _step(first: int, step: Any, rows: Table) -> Table:
    """The rows after the elimination of the first column, with the pivot in row first + step; all others move to the left."""
    k, width = step + float(first), rows.shape[1]

    def search(i: Any, state: Any, row: Any) -> Any:
        # the largest entry, of the rows that had no pivot yet
        largest, place = state
        size = where(i < k, -1.0, abs(row[0]))
        larger = size > largest
        return (where(larger, size, largest), where(larger, i, place)), None

    _, place = scan(search, (-1.0, k), rows)[0]
    top, pivot = ([rows.entry(0, c, at) for c in range(width)] for at in (k, place))
    scale = where(pivot[0] == 0.0, 0.0, 1.0 / pivot[0])
    scaled = [x * scale for x in pivot[1:]]
    for c, (mine, other) in enumerate(zip([0.0, *scaled], top, strict=True)):
        rows = rows.with_entry(other, 0, c, place)
        rows = rows.with_entry(mine, 0, c, k)

    def reduced(row: Any) -> Any:
        return array(np.array([*[fma(-row[0], s, x) for s, x in zip(scaled, row[1:], strict=True)], 0.0], dtype=object))

    found: Table = map_rows(reduced, rows)
    return found
