"""The real-time iteration in two phases: `prepare` before the state is known, `feedback` when it is.

What the first one leaves for the second one, the quadratic program, is one array (N, columns) of what differs from stage to stage
and one of the end. Entries that the structure fixes, as zeros, are in neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from condyle.mpc.barrier import Sides
from condyle.mpc.interior_point import QP
from condyle.mpc.riccati import row_after_row, stages
from condyle.tape.array import array
from condyle.tape.loop import map_rows, scan
from condyle.tape.scalar import constant
from condyle.tape.table import Table

STAGE = ("AB", "c", "H", "g", "C", "d", "active")
END = ("H_end", "g_end", "C_end", "d_end", "active_end")


@dataclass
class Packing:
    """Which entries of a quadratic program are packed, in order, and the numbers of the others; filled in by `pack`."""

    sides: Sides
    sides_end: Sides
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    fixed: dict[str, list[float | None]] = field(default_factory=dict)

    def pack(self, qp: QP) -> tuple[Table, Any]:
        """(N, columns) and (entries,) of a program."""
        tables = {name: x for name, x in _stage_tables(qp).items() if x is not None}
        for name, x in tables.items():
            self.shapes[name] = x.shape[1:]
            self.fixed[name] = [x.constant(c) for c in range(x.columns)]

        def row(k: Any, _: Any, given: Any) -> Any:
            entries = []
            for name, x in given.items():
                entries += [e for e, known in zip(np.ravel(x), self.fixed[name], strict=True) if known is None]
            return _, array(entries)

        _, packed = scan(row, (), tables)
        rest = []
        for name in END:
            x = getattr(qp, name)
            if x is not None:
                entries = np.ravel(np.asarray(x, dtype=object)).tolist()
                self.shapes[name], self.fixed[name] = np.shape(x), [constant(e) for e in entries]
                rest += [e for e, known in zip(entries, self.fixed[name], strict=True) if known is None]
        return packed, array(rest)

    def unpack(self, packed: Table, rest: Any) -> QP:
        """The program of packed arrays."""
        names = [name for name in STAGE if name in self.shapes]

        def split(row: Any) -> dict[str, Any]:
            return self._filled(names, iter(row))

        rows = map_rows(split, packed)
        end = self._filled([name for name in END if name in self.shapes], iter(rest))
        return QP(
            stages(rows["AB"], rows["c"]),
            rows["H"],
            row_after_row(rows["H"]),
            rows["g"],
            **{name: rows.get(name) for name in ("C", "d", "active")},
            **{name: end.get(name) for name in END},
            sides=self.sides,
            sides_end=self.sides_end,
        )

    def _filled(self, names: list[str], entries: Any) -> dict[str, Any]:
        found = {}
        for name in names:
            values = [next(entries) if known is None else known for known in self.fixed[name]]
            found[name] = array(np.array(values, dtype=object).reshape(self.shapes[name]))
        return found


def _stage_tables(qp: QP) -> dict[str, Table | None]:
    own = {"AB": qp.system.AB, "c": qp.system.c}
    return {name: own[name] if name in own else getattr(qp, name) for name in STAGE}
