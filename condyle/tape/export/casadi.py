"""A tape as a CasADi function, for its solvers, derivatives and code generators: a tape interpreted with CasADi's symbols.

The un-lowered tape is exported: sin stays sin. CasADi simplifies (x == x is true) and an fma becomes a product and a sum, so
results agree to rounding as long as no NaN occurs. Short loops are unrolled into scalar expressions (SX); with a long one the
block around it becomes matrix expressions (MX), and its body a function that CasADi repeats (mapaccum).
"""

from __future__ import annotations

import math
from typing import Any

from condyle.errors import BackendError, require
from condyle.tape.dead_code import dead_code
from condyle.tape.interpret import OPERATORS, Arithmetic, evaluate
from condyle.tape.limbs import unrolled
from condyle.tape.ops import ELEMENTARY, INT, OPS
from condyle.tape.passes import operations_used
from condyle.tape.tape import Block, Loop, Port, Tape, operations

UNROLL = 10_000  # operations that a loop may become when it is written out


def casadi_function(tape: Tape, name: str | None = None) -> Any:
    """The casadi.Function of a tape, with named inputs and outputs.

    A vector is a column, a matrix is a matrix, a single number is 1 x 1; an array of more axes is a column, flattened row
    after row. Names that CasADi does not allow are changed, and an output named like an input has `_out` added.
    """
    casadi = require("casadi", "casadi", "exporting to CasADi")
    if any(port.run_time for port in tape.inputs):
        raise BackendError(f"{tape.name}: CasADi has no number of rows that is known at run time; trace it with that number")
    block = dead_code(unrolled(tape.block))
    if words := sorted(op for op in operations_used(block) if op in OPS and INT in (OPS[op].gives, *OPS[op].takes)):
        raise BackendError(
            f"{tape.name}: CasADi has no words of 32 bits, so it cannot take {', '.join(words)}; pass random numbers as an input"
        )
    arithmetic = arithmetic_for(casadi, block)
    names = _names(casadi, [*tape.inputs, *tape.outputs])
    inputs = [arithmetic.kind.sym(n, *_size(port)) for n, port in zip(names, tape.inputs, strict=False)]
    # CasADi counts down the columns, a tape along the rows
    params: list[Any] = []
    for port, symbol in zip(tape.inputs, inputs, strict=True):
        entries = [symbol[r, c] for r in range(symbol.shape[0]) for c in range(symbol.shape[1])]
        params += [arithmetic.table(entries, port.shape[0], port.columns)] if port.table else entries
    results = iter(evaluate(block, params, arithmetic))
    outputs = []
    for port in tape.outputs:
        values = arithmetic.flat(next(results)) if port.table else [next(results) for _ in range(port.size)]
        rows, columns = _size(port)
        outputs.append(casadi.reshape(casadi.densify(arithmetic.column(values)), columns, rows).T)
    known = casadi.Function.fix_name(name or tape.name)
    return casadi.Function(known, inputs, outputs, names[: len(inputs)], names[len(inputs) :])


def arithmetic_for(casadi: Any, block: Block) -> Scalars:
    """Scalar expressions, or matrix expressions if some loop is long."""
    if operations_used(block) & {"input", "fill", "after", "update", "reshape"}:
        return Scalars(casadi)  # rows are counted where loops are unrolled
    loops = [node.data for node in block.nodes if node.op == "loop"]
    long = any(loop.count * max(operations(loop.body), 1) > UNROLL for loop in loops)
    return Matrices(casadi) if long else Scalars(casadi)


class Scalars(Arithmetic):
    """CasADi's SX, where every entry is an expression of its own and loops are unrolled."""

    def __init__(self, casadi: Any) -> None:
        self.casadi = casadi
        self.kind = casadi.SX
        same = ("sqrt", "copysign", "floor", *ELEMENTARY)
        other = {"abs": "fabs", "min": "fmin", "max": "fmax", "select": "if_else", "pow": "power"}
        other |= {name: f"logic_{name}" for name in ("and", "or", "not")}
        self.functions = OPERATORS | {name: getattr(casadi, other.get(name, name)) for name in (*same, *other)}
        self.functions |= {
            "fma": lambda a, b, c: a * b + c,
            # C's remainder rounds to nearest, ties to even; large numbers are whole already
            "rint": lambda a: casadi.if_else(casadi.fabs(a) < 2.0**52, a - casadi.remainder(a, 1), a),
            "pow2": lambda a: casadi.power(2, casadi.fmin(casadi.fmax(a, -1022), 1023)),
            "logb": self.logb,
        }

    def number(self, value: float) -> Any:
        """A constant expression."""
        return self.kind(value)

    def nearest_integer(self, x: Any) -> float:
        """The row that a constant names; CasADi's scalar expressions cannot be indexed by anything else."""
        if not self.casadi.SX(x).is_constant():
            raise BackendError(
                "CasADi's expressions have no table indexed by a number that is not a constant or a loop's counter"
            )
        return super().nearest_integer(x)

    def column(self, values: list[Any]) -> Any:
        """Values one below the other."""
        return self.casadi.vertcat(*values) if values else self.kind(0, 1)

    def flat(self, table: Any) -> list[Any]:
        """The entries of a table, row after row, as one or more columns."""
        return [entry for row in table for entry in row]

    def logb(self, a: Any) -> Any:
        """The exponent of a, by logarithm and then by comparison with the two powers of two around it."""
        casadi, size = self.casadi, self.casadi.fabs(a)
        guess = casadi.fmax(casadi.floor(casadi.log(size) / math.log(2.0)), -1022)
        low, high = casadi.power(2, guess), casadi.power(2, guess + 1)
        return guess - casadi.if_else(size < low, 1, 0) + casadi.if_else(size >= high, 1, 0)


class Matrices(Scalars):
    """CasADi's MX, where a loop stays a loop; a table is a matrix with one column per row of the table."""

    def __init__(self, casadi: Any) -> None:
        super().__init__(casadi)
        self.kind = casadi.MX

    def loop(self, loop: Loop, start: list[Any], tables: list[Any], captured: list[Any]) -> tuple[list[Any], Any]:
        """A loop as a mapped accumulation."""
        order = [*reversed(range(loop.count))] if loop.reverse else [*range(loop.count)]
        iteration = self.casadi.DM([order])
        rows = self.casadi.vertcat(*tables)[:, order] if tables else self.kind(0, loop.count)
        outside = self.casadi.repmat(self.column(captured), 1, loop.count)
        repeated = self.body(loop, len(captured)).mapaccum("loop", loop.count)
        states, written = repeated(self.column(start), iteration, rows, outside)
        final = [states[j, loop.count - 1] for j in range(loop.carries)]
        return final, written[:, order]

    def body(self, loop: Loop, captured: int) -> Any:
        """The function (carry, iteration, row, captured) -> (next carry, row written) of one iteration."""
        inner = arithmetic_for(self.casadi, loop.body)
        sizes = {"carried": loop.carries, "iteration": 1, "row": loop.reads, "captured": captured}
        carry, iteration, row, outside = symbols = [inner.kind.sym(name, size) for name, size in sizes.items()]
        params = [part[k] for part in (iteration, carry, row, outside) for k in range(part.shape[0])]
        results = evaluate(loop.body, params, inner)
        following, written = results[: loop.carries], results[loop.carries : loop.carries + loop.writes]
        outputs = [self.casadi.densify(inner.column(part)) for part in (following, written)]
        return self.casadi.Function("body", symbols, outputs)

    def table(self, entries: list[Any], rows: int, columns: int) -> Any:
        """A matrix with one column per row."""
        return self.casadi.reshape(self.column(entries), columns, rows)

    def slice(self, written: Any, first: int, last: int) -> Any:
        """Some rows of the matrix."""
        return written[first:last, :]

    def index(self, table: Any, row: int, column: int, offset: Any = None) -> Any:
        """One entry."""
        return table[column, row]

    def flat(self, table: Any) -> list[Any]:
        """All entries, as one column."""
        return [self.casadi.vec(table)]


# ---- ports


def _size(port: Port) -> tuple[int, int]:
    return (port.shape[0], port.shape[1]) if len(port.shape) == 2 else (port.size, 1)


def _names(casadi: Any, ports: list[Port]) -> list[str]:
    names: list[str] = []
    for port in ports:
        name = casadi.Function.fix_name(port.name)
        while name in names:
            name += "_out" if not name.endswith("_out") else "2"
        names.append(name)
    return names
