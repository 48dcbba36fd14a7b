"""The interpreter: what a tape means, for any kind of number.

An `Arithmetic` gives one function per operation. With IEEE floats this is the `reference` backend, the definition that every
other backend must match bit for bit; with traced scalars it is how tapes are rewritten and differentiated.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from fractions import Fraction
from typing import Any

from condyle.tape.dead_code import dead_code
from condyle.tape.limbs import unrolled
from condyle.tape.tape import RUN_TIME, Block, Call, Loop, Subroutine

# operations that Python's operators are
OPERATORS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in ("add", "sub", "mul", "neg", "lt", "le", "eq")},
    "div": operator.truediv,
    "stop_gradient": lambda a: a,
}
# and choices, for numbers that Python compares; NaN in either argument of min and max gives NaN
CHOICES: dict[str, Callable[..., Any]] = OPERATORS | {
    "min": lambda a, b: b if b != b else (b if a >= b else a),
    "max": lambda a, b: b if b != b else (b if a <= b else a),
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "not": operator.not_,
    "select": lambda a, b, c: b if a else c,
}
WORD = 2**32 - 1  # the bits of a word
# operations on words, which are Python's whole numbers from 0 to WORD
INTEGERS: dict[str, Callable[..., Any]] = {
    "iadd": lambda a, b: a + b & WORD,
    "isub": lambda a, b: a - b & WORD,
    "imul": lambda a, b: a * b & WORD,
    "imulhi": lambda a, b: a * b >> 32,
    "iand": operator.and_,
    "ior": operator.or_,
    "ixor": operator.xor,
    "ishl": lambda a, b: a << (b & 31) & WORD,
    "ishr": lambda a, b: a >> (b & 31),
    "ilt": operator.lt,
    "ieq": operator.eq,
}
CHOICES |= INTEGERS | {"iselect": CHOICES["select"]}


def to_int(a: float) -> int:
    """rint(a) modulo 2^32; 0 for NaN and from |a| = 2^51 on."""
    return round(a) & WORD if abs(a) < 2.0**51 else 0


class Arithmetic:
    """One function per operation, in `functions`; `number` makes a number of it; `loop` repeats a body."""

    functions: dict[str, Callable[..., Any]]

    def number(self, value: float) -> Any:
        """The constant `value` in this arithmetic; words are whole numbers in all of them."""
        return value

    def word(self, value: int) -> Any:
        """A word."""
        return value

    def working(self) -> AbstractContextManager[Any]:
        """What must be entered to compute."""
        return nullcontext()

    def loop(self, loop: Loop, start: list[Any], tables: list[Any], captured: list[Any]) -> tuple[list[Any], Any]:
        """(carried values at the end, rows written) of a loop."""
        carry = start
        count = loop.count if loop.count != RUN_TIME else len(tables[0])
        written: list[Any] = [None] * (count if loop.writes else 0)
        for i in reversed(range(count)) if loop.reverse else range(count):
            row = [entry for table in tables for entry in table[i]]
            params = [self.number(float(i)), *carry, *row, *captured]
            if loop.exits and evaluate(_ending(loop), params, self)[0] is True:
                break
            results = evaluate(loop.body, params, self)
            carry = results[: loop.carries]
            if loop.writes:
                written[i] = results[loop.carries :]
        return carry, written

    def call(self, call: Call | Subroutine, args: list[Any]) -> tuple[list[Any], Any]:
        """(results of a call, what else an arithmetic keeps of it)."""
        return evaluate(unrolled(call.body), args, self), None

    def table(self, entries: list[Any], rows: int, columns: int) -> Any:
        """A table of the entries, row after row."""
        return [entries[i * columns : (i + 1) * columns] for i in range(rows)]

    def slice(self, written: Any, first: int, last: int) -> Any:
        """The table of some columns of what a loop wrote."""
        return [row[first:last] for row in written]

    def fill(self, value: float | None, rows: int, columns: int) -> Any:
        """A table with one number in every entry; None: any."""
        return [[self.number(0.0 if value is None else value)] * columns for _ in range(rows)]

    def reshape(self, table: Any, rows: int, columns: int) -> Any:
        """The same entries, row after row."""
        return self.table([entry for row in table for entry in row], rows, columns)

    def index(self, table: Any, row: int, column: int, offset: Any = None) -> Any:
        """One entry of a table."""
        return table[self.row(row, offset, len(table))][column]

    def update(self, table: Any, value: Any, row: int, column: int, offset: Any = None) -> Any:
        """The table with one other entry."""
        at = self.row(row, offset, len(table))
        return [*table[:at], [*table[at][:column], value, *table[at][column + 1 :]], *table[at + 1 :]]

    def row(self, row: int, offset: Any, rows: int) -> int:
        """The row `row` + `offset`, within the rows that there are."""
        return row if offset is None else int(min(max(row + self.nearest_integer(offset), 0), rows - 1))

    def nearest_integer(self, x: Any) -> float:
        """The whole number nearest to a number, ties to even; zero for NaN."""
        number = float(x)
        return 0.0 if number != number else float(round(number)) if math.isfinite(number) else number


def evaluate(block: Block, params: Sequence[Any], arithmetic: Arithmetic) -> list[Any]:
    """The results of a block for given params."""
    values = evaluate_nodes(block, params, arithmetic)
    return [values[i] for i in block.results]


def evaluate_nodes(block: Block, params: Sequence[Any], arithmetic: Arithmetic) -> list[Any]:
    """The value of every node of a block."""
    functions = arithmetic.functions
    values: list[Any] = []
    for op, args, data in block.nodes:
        value: Any
        if op == "param":
            value = params[data]
        elif op == "limb":
            value = params[data[0]]
        elif op == "const":
            value = arithmetic.word(data) if isinstance(data, int) else arithmetic.number(data)
        elif op == "loop":
            value = arithmetic.loop(data, *data.split([values[i] for i in args]))
        elif op == "call":
            value = arithmetic.call(data, [values[i] for i in args])
        elif op == "get":
            value = values[args[0]][0][data]
        elif op == "slice":
            value = arithmetic.slice(values[args[0]][1], *data)
        elif op == "table":
            value = arithmetic.table([values[i] for i in args], *data)
        elif op == "index":
            value = arithmetic.index(values[args[0]], *data, *[values[i] for i in args[1:]])
        elif op == "input":
            value = params[data[0]]
        elif op == "fill":
            value = arithmetic.fill(*data)
        elif op == "after":
            value = values[args[0]][0][data[0]]
        elif op == "update":
            value = arithmetic.update(values[args[0]], values[args[1]], *data[:2], *[values[i] for i in args[2:]])
        elif op == "reshape":
            value = arithmetic.reshape(values[args[0]], *data)
        elif data is None:
            value = functions[op](*[values[i] for i in args])
        else:
            value = functions[op](*[values[i] for i in args], data)
        values.append(value)
    return values


def _ending(loop: Loop) -> Block:
    """What says whether a loop that exits is at its end."""
    known: Block | None = loop.__dict__.get("_ending")
    if known is None:
        known = loop.__dict__["_ending"] = dead_code(Block(loop.body.nodes, loop.body.params, (loop.body.results[-1],)))
    return known


class Ieee(Arithmetic):
    """IEEE 754 binary arithmetic on Python floats, rounded to float32 after each operation when `single`."""

    def __init__(self, *, single: bool = False) -> None:
        self.single = single
        self.digits, self.lowest, self.bias = (24, -149, 127) if single else (53, -1074, 1023)
        r = self.round = _to_single if single else _same
        self.functions = CHOICES | {
            "add": lambda a, b: r(a + b),
            "sub": lambda a, b: r(a - b),
            "mul": lambda a, b: r(a * b),
            "div": lambda a, b: r(divide(a, b)),
            "fma": self.fma,
            "sqrt": lambda a: r(math.sqrt(a)) if a >= 0.0 else (a if a == 0.0 else math.nan),
            "abs": abs,
            "copysign": math.copysign,
            "rint": lambda a: math.copysign(float(round(a)), a) if math.isfinite(a) else a,
            "floor": lambda a: math.copysign(float(math.floor(a)), a) if math.isfinite(a) else a,
            "pow2": lambda a: math.ldexp(1.0, round(min(a, self.bias) if a > 1 - self.bias else 1 - self.bias)),
            "logb": self.logb,
            "to_int": to_int,
            "to_real": lambda a: r(float(a)),
        }

    def number(self, value: float) -> float:
        """The constant rounded to this precision."""
        return self.round(value)

    def fma(self, a: float, b: float, c: float) -> float:
        """a * b + c with one rounding, by exact fractions."""
        if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
            # a finite product must not overflow before it meets an infinity
            return c if math.isfinite(a) and math.isfinite(b) else a * b + c
        exact = Fraction(a) * Fraction(b) + Fraction(c)
        return self.nearest(exact) if exact else a * b + c

    def nearest(self, x: Fraction) -> float:
        """The floating-point number nearest to a nonzero fraction, ties to even."""
        magnitude = abs(x)
        exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
        if magnitude < Fraction(2) ** exponent:
            exponent -= 1
        unit = max(exponent - self.digits + 1, self.lowest)
        digits = round(magnitude / Fraction(2) ** unit)
        rounded = math.inf if digits.bit_length() + unit > self.bias + 1 else math.ldexp(float(digits), unit)
        return rounded if x > 0 else -rounded

    def logb(self, a: float) -> float:
        """The exponent field less the bias: zero and subnormal numbers give the lowest, infinity and NaN the highest."""
        if not math.isfinite(a):
            return float(self.bias + 1)
        return float(max(math.frexp(a)[1] - 1, -self.bias)) if a else float(-self.bias)


def divide(a: float, b: float) -> float:
    """a / b by IEEE 754, where division by zero has a value."""
    if b:
        return a / b
    return math.nan if a != a or a == 0.0 or b != b else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _same(x: float) -> float:
    return x


def _to_single(x: float) -> float:
    import numpy as np

    with np.errstate(over="ignore"):
        return float(np.float32(x))
