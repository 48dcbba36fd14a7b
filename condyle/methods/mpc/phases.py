"""The real-time iteration in two phases: `prepare` before the state is known, `feedback` when it is.

What the first one leaves for the second one is the quadratic program and the factors of its first iteration. Matrices which loops
over columns read are left as they are read; of all others, entries that the structure fixes, as zeros, are left out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from condyle.methods.mpc.barrier import Sides
from condyle.methods.mpc.program import QP
from condyle.methods.mpc.riccati import Factors, Stages
from condyle.tape.array import array
from condyle.tape.loop import map_rows
from condyle.tape.scalar import constant
from condyle.tape.table import table, zeros_table

STAGE = ("c", "H", "g", "C", "d", "active")
END = ("H_end", "g_end", "C_end", "d_end", "active_end", "scale")


@dataclass
class Packing:
    """Which entries of a quadratic program are packed, in order, and the numbers of the others; filled in by `pack`."""

    sides: Sides
    sides_end: Sides
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    fixed: dict[str, list[float | None]] = field(default_factory=dict)

    def pack(self, qp: QP, factors: Factors) -> dict[str, Any]:
        """The inputs of the second phase: arrays of the stages, the "end", matrices and factors."""
        left: dict[str, Any] = {}
        self.shapes["AB"], self.fixed["AB"] = qp.system.AB.shape, list(qp.system.known)
        for name in STAGE:
            x = qp.system.c if name == "c" else getattr(qp, name)
            if x is None:
                continue
            self.shapes[name] = x.shape[1:]
            self.fixed[name] = [x.constant(c) for c in range(x.columns)]
            if name == "H":
                # beside the whole matrix, only those entries that springs are added to
                sprung = np.ravel(self._with_springs(qp))
                self.fixed[name] = [0.0 if not t else known for t, known in zip(sprung, self.fixed[name], strict=True)]
            if None in self.fixed[name]:
                left[_packed(name)] = map_rows(lambda row, name=name: self._varying(name, row), x)
        rest = []
        for name in END:
            x = getattr(qp, name)
            if x is not None:
                entries = np.ravel(np.asarray(x, dtype=object)).tolist()
                self.shapes[name], self.fixed[name] = np.shape(x), [constant(e) for e in entries]
                rest += self._varying(name, entries).tolist()
        N, n, m = qp.system.sizes
        matrices = {"AB": qp.system.flat.reshape(N, n * (n + m)), "H": qp.flat.reshape(N, (n + m) ** 2)}
        left |= {"end": array(rest)} if rest else {}
        return left | matrices | {"K": factors.K, "L": factors.L, "Pc": factors.Pc}

    def unpack(self, left: dict[str, Any]) -> tuple[QP, Factors]:
        """The program and the factors of what the first phase left."""
        N = self.shapes["AB"][0]
        rows: dict[str, Any] = {}
        for name in STAGE:
            if name in self.shapes:
                given = table(left[_packed(name)]) if _packed(name) in left else zeros_table((N, 1))
                if any(known is not None for known in self.fixed[name]):
                    given = map_rows(lambda row, name=name: self._filled([name], iter(row))[name], given)
                rows[name] = given.shaped((N, *self.shapes[name]))
        end = self._filled([name for name in END if name in self.shapes], iter(left.get("end", ())))
        AB, H = table(left["AB"]), table(left["H"])
        flat, flat_H = (x.reshape(x.rows * x.columns, 1) for x in (AB, H))
        program = QP(
            Stages(AB.shaped(self.shapes["AB"]), rows["c"], flat, tuple(self.fixed["AB"])),
            rows["H"],
            flat_H,
            rows["g"],
            **{name: rows.get(name) for name in ("C", "d", "active")},
            **{name: end.get(name) for name in END},
            sides=self.sides,
            sides_end=self.sides_end,
        )
        return program, Factors(*[table(left[name]) for name in ("K", "L", "Pc")])

    def _with_springs(self, qp: QP) -> np.ndarray:
        """Which entries of the Hessians springs are added to."""
        s = qp.H.shape[1]
        sprung = np.zeros((s, s), dtype=bool)
        if qp.C is not None:
            for row in {side.row for side in self.sides.sides}:
                columns = [j for j in range(s) if qp.C.constant(row * s + j) != 0.0]
                sprung[np.ix_(columns, columns)] = True
        return sprung

    def _varying(self, name: str, entries: Any) -> Any:
        return array([e for e, known in zip(np.ravel(entries), self.fixed[name], strict=True) if known is None])

    def _filled(self, names: list[str], entries: Any) -> dict[str, Any]:
        found = {}
        for name in names:
            values = [next(entries) if known is None else known for known in self.fixed[name]]
            found[name] = array(np.array(values, dtype=object).reshape(self.shapes[name]))
        return found


def _packed(name: str) -> str:
    """The name of an array of the entries that differ from stage to stage."""
    return f"{name}_stages"
