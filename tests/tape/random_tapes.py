"""Random tapes and inputs, for comparing backends.

A tape is built as a user would build it, by tracing: operations of the whole table on earlier values, constants and
captured values; loops that run plainly, freeze lanes, read rows, write tables, run backwards and stand in one another.
Choices come from a `pick`, a function that gives a whole number below its argument. Hypothesis supplies one that
shrinks; a seed supplies one that is fast.

    @given(st.data())
    def test(data):
        tape = data.draw(random_tapes())
        inputs = data.draw(inputs_for(tape))

    tape = tape_from(random.Random(7).randrange)
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from condyle.tape.array import array, where
from condyle.tape.loop import loop, scan
from condyle.tape.ops import INT, OPS, REAL
from condyle.tape.scalar import Bool, Int, Scalar, compare, constant, emit, integer
from condyle.tape.subroutine import subroutine
from condyle.tape.table import Table, current
from condyle.tape.tape import Tape
from condyle.tape.trace import trace

Pick = Callable[[int], int]

EXACT = [op for op in OPS.values() if op.exact]
ELEMENTARY = [op for op in OPS.values() if not op.exact]
CONSTANTS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    -0.5,
    3.0,
    1e-3,
    math.pi,
    1.0 / 3.0,
    -7.25,
    1e10,
    1e-300,
    1e300,
    math.inf,
    -math.inf,
    math.nan,
]
WORDS = [0, 1, 5, 16, 31, 32, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xD2511F53, 0xFFFFFFFF]
POWERS = [5.0, -4.0, 0.25, 1.7, -0.3]
SHAPES: list[Any] = [(), 1, 2, 3, (2, 2), (2, 3), (2, 1, 2)]

SPECIAL64 = [
    0.0,
    -0.0,
    math.inf,
    -math.inf,
    math.nan,
    5e-324,
    -5e-324,
    2.2250738585072009e-308,
    2.2250738585072014e-308,
]
SPECIAL64 += [
    1.7976931348623157e308,
    -1.7976931348623157e308,
    1e300,
    -1e-300,
    4503599627370495.5,
    9007199254740993.0,
    0.49999999999999994,
]
SPECIAL32 = [0.0, -0.0, math.inf, -math.inf, math.nan, 1e-45, -1e-45, 1.1754942e-38, 1.17549435e-38]
SPECIAL32 += [3.4028235e38, -3.4028235e38, 1e30, -1e-30, 8388607.5, 16777217.0, 0.49999997]


# ---- tapes


def random_tapes(elementary: bool = False) -> st.SearchStrategy[Tape]:
    """Tapes over all exact operations, and over the elementary ones too if asked."""
    return st.composite(lambda draw: tape_from(lambda n: draw(st.integers(0, n - 1)), elementary=elementary))()


def tape_from(pick: Pick, *, elementary: bool = False) -> Tape:
    """The tape that a sequence of picks describes."""
    shapes = {name: SHAPES[pick(len(SHAPES))] for name in ("q", "v", "u")[: 1 + pick(3)]}

    def random_tape(**inputs: Any) -> dict[str, Any]:
        reals = [x for value in inputs.values() for x in _leaves(value)]
        scope = Scope(pick, reals, [], elementary)
        scope.grow(3 + pick(14), depth=2)
        return scope.outputs()

    return trace(random_tape, **shapes)


def _leaves(value: Any) -> list[Scalar]:
    # what a scan wrote as a number comes back as a number
    entries = np.array([value], dtype=object).ravel().tolist()
    return [x if isinstance(x, Scalar) else Scalar(current(), current().const(float(x))) for x in entries]


class Scope:
    """The values that can be used at one place of a program; an inner scope starts with those of the outer one."""

    def __init__(self, pick: Pick, reals: list[Any], truths: list[Bool], elementary: bool, words: tuple[Int, ...] = ()) -> None:
        self.pick = pick
        self.reals = list(reals)
        self.truths = list(truths)
        self.words = list(words)
        self.tables: list[Table] = []
        self.elementary = elementary

    def inner(self, *more: Any) -> Scope:
        return Scope(self.pick, [*self.reals, *more], self.truths, self.elementary, tuple(self.words))

    def grow(self, steps: int, depth: int) -> None:
        """Add operations, and loops while `depth` lasts."""
        for _ in range(steps):
            kind = self.pick(14)
            if depth and kind < len(LOOPS):
                LOOPS[kind](self, depth - 1)
            else:
                self.operation()

    def operation(self) -> None:
        """Add one operation of the table."""
        table = ELEMENTARY if self.elementary and self.pick(3) == 0 else EXACT
        op = table[self.pick(len(table))]
        choose = {REAL: self.value, INT: self.word}
        args: list[Any] = [choose.get(kind, self.condition)() for kind in op.takes]
        if op.name == "copysign":
            # the sign of a NaN is not defined: 0 / 0 has another one on x86 than elsewhere
            args[1] = (args[1] == args[1]).where(args[1], 1.0)
        if op.gives == REAL:
            self.reals.append(emit(op.name, *args, data=POWERS[self.pick(len(POWERS))] if op.name == "pow" else None))
        elif op.gives == INT:
            self.words.append(integer(op.name, *args))
        else:
            self.truths.append(compare(op.name, *args))

    def value(self) -> Scalar:
        """A known value, more often a recent one, or a constant."""
        if self.pick(5) == 0 or not self.reals:
            graph = current()
            return Scalar(graph, graph.const(CONSTANTS[self.pick(len(CONSTANTS))]))
        recent = self.reals[-4:] if self.pick(2) else self.reals
        return recent[self.pick(len(recent))]

    def word(self) -> Int:
        """A known word, a constant, or the word of a value."""
        kind = self.pick(4)
        if kind == 0:
            graph = current()
            return Int(graph, graph.const(WORDS[self.pick(len(WORDS))]))
        if kind == 1 or not self.words:
            self.words.append(self.value().to_int())
        return self.words[-1 - self.pick(min(3, len(self.words)))]

    def condition(self) -> Bool:
        """A comparison, a combination of known ones, or a known one."""
        kind = self.pick(3) if self.truths else 0
        known = self.truths[-3:]
        if kind == 0:
            self.truths.append(compare(("lt", "le", "eq")[self.pick(3)], self.value(), self.value()))
        elif kind == 1:
            a, b = known[self.pick(len(known))], known[self.pick(len(known))]
            self.truths.append((a & ~b, a | b, ~a | b)[self.pick(3)])
        return self.truths[-1] if kind < 2 else known[self.pick(len(known))]

    def outputs(self) -> dict[str, Any]:
        """One to three named arrays of values, and the tables written at this level."""
        out: dict[str, Any] = {}
        for name in ("out", "y", "q_next")[: 1 + self.pick(3)]:
            shape = SHAPES[self.pick(len(SHAPES))]
            shape = (shape,) if isinstance(shape, int) else shape
            values = [self.value() for _ in range(math.prod(shape))]
            out[name] = array(values).reshape(shape) if shape else values[0]
        for k, table in enumerate(self.tables[:3]):
            out[f"table{k}"] = table
        return out


# ---- loops


def plain_loop(scope: Scope, depth: int) -> None:
    """A state of two values; the next one may be the same two exchanged."""
    start = array([scope.value(), scope.value()])

    def body(i: Scalar, state: Any) -> Any:
        inner = scope.inner(i, *state)
        inner.grow(2 + scope.pick(5), depth)
        return state[::-1] if scope.pick(6) == 0 else array([inner.value(), inner.value()])

    scope.reals += list(loop(body, start, 1 + scope.pick(5)))


def freezing_loop(scope: Scope, depth: int) -> None:
    """A lane whose state passes a bound, or for which something outside holds, keeps its state."""
    start = {"x": scope.value(), "y": scope.value()}
    bound, outside, kind = scope.value(), scope.condition(), scope.pick(6)

    def body(i: Scalar, state: dict[str, Any]) -> dict[str, Any]:
        inner = scope.inner(i, *state.values())
        inner.grow(2 + scope.pick(5), depth)
        return {"x": inner.value(), "y": inner.value()}

    def done(state: dict[str, Any]) -> Any:
        x, y = state["x"], state["y"]
        # the second also holds for NaN
        return [x > bound, ~(y <= bound), (x > bound) & (y > 0.0), (x > bound) | outside, outside, x > bound][kind]

    final = loop(body, start, 1 + scope.pick(8), until=done)
    scope.reals += list(final.values())


def scanning_loop(scope: Scope, depth: int) -> None:
    """Rows of values are read and rows are written, forwards or backwards."""
    count, width = 1 + scope.pick(4), 1 + scope.pick(2)
    rows: dict[str, Any] = {"a": array([[scope.value() for _ in range(width)] for _ in range(count)])}
    if scope.pick(2):
        rows["b"] = np.arange(count) * 0.75 - 1.0
    carry = [scope.value() for _ in range(scope.pick(3))]
    _scan(scope, depth, carry, rows, count)


def table_loop(scope: Scope, depth: int) -> None:
    """A table that an earlier loop of this level wrote is read, row by row; without one, rows are only written."""
    carry = [scope.value() for _ in range(1 + scope.pick(2))]
    if scope.tables:
        table = scope.tables[scope.pick(len(scope.tables))]
        _scan(scope, depth, carry, table, len(table))
    else:
        _scan(scope, depth, carry, None, 1 + scope.pick(4))


def _scan(scope: Scope, depth: int, carry: list[Any], rows: Any, count: int) -> None:
    writes = 1 + scope.pick(2)

    def body(i: Scalar, state: tuple[Any, ...], row: Any) -> tuple[Any, Any]:
        leaves = [] if row is None else [x for part in (row.values() if isinstance(row, dict) else [row]) for x in _leaves(part)]
        inner = scope.inner(i, *leaves, *state)
        inner.grow(2 + scope.pick(5), depth)
        out = {"x": inner.value(), "y": array([inner.value(), inner.value()])}
        return tuple(inner.value() for _ in state), dict(list(out.items())[:writes])

    final, tables = scan(body, tuple(carry), rows, count=None if rows is not None else count, reverse=bool(scope.pick(2)))
    scope.reals += list(final)
    scope.tables += list(tables.values())
    some = tables["x"]
    scope.reals.append(where(some[0] < some[-1], some[-1], some[scope.pick(count)]))


def subroutine_call(scope: Scope, depth: int) -> None:
    """Values computed alone: of arguments that are not constants, of values outside, of loops and further calls inside."""
    count, writes = 1 + scope.pick(3), scope.pick(2)
    # a constant would be folded in the place of the call
    values = [x for x in scope.reals if constant(x) is None]
    if not values:
        return
    x, y, z = [values[scope.pick(len(values))] for _ in range(3)]

    def body(x: Any, y: Any) -> Any:
        inner = scope.inner(*_leaves(x), y)
        inner.grow(3 + scope.pick(6), depth)
        return {"numbers": [inner.value() for _ in range(count)], "table": inner.tables[-1] if inner.tables and writes else 0.5}

    found = subroutine(body)(array([x, y]), z)
    scope.reals += [x for x in found["numbers"] if isinstance(x, Scalar)]
    if isinstance(found["table"], Table):
        scope.tables.append(found["table"])


LOOPS = [plain_loop, freezing_loop, scanning_loop, table_loop]
CALLS = [*LOOPS, subroutine_call, subroutine_call, subroutine_call]


# ---- inputs


def inputs_for(tape: Tape, special: bool = True, dtype: str = "float64", most: int = 3) -> st.SearchStrategy[list[np.ndarray]]:
    """One array of shape (N, size) per input port, N up to `most`.

    `special`: among them signed zeros, infinities, NaN, subnormal and huge numbers.
    """
    return st.composite(
        lambda draw: inputs_from(lambda n: draw(st.integers(0, n - 1)), tape, special=special, dtype=dtype, most=most)
    )()


def inputs_from(pick: Pick, tape: Tape, *, special: bool = True, dtype: str = "float64", most: int = 3) -> list[np.ndarray]:
    """The inputs that a sequence of picks describes."""
    count = 1 + pick(most)
    out = []
    for port in tape.inputs:
        values = [_number(pick, special, dtype) for _ in range(count * port.size)]
        with np.errstate(over="ignore"):
            out.append(np.array(values).astype(dtype).reshape(count, port.size))
    return out


def _number(pick: Pick, special: bool, dtype: str) -> float:
    kind = pick(8 if special else 4)
    if kind == 0:
        return (pick(17) - 8) / 2
    if kind < 4:
        return math.ldexp(pick(2**54) - 2.0**53, pick(12) - 56)
    if kind < 7:
        values = SPECIAL64 if dtype == "float64" else SPECIAL32
        return values[pick(len(values))]
    # any bits at all
    return (
        struct.unpack("<d", struct.pack("<Q", pick(2**64)))[0]
        if dtype == "float64"
        else struct.unpack("<f", struct.pack("<I", pick(2**32)))[0]
    )


# ---- outputs


def same_bits(a: Any, b: Any) -> bool:
    """Whether two arrays have one dtype, one shape and the same bits; every NaN equals every NaN."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    integer = np.dtype(f"u{a.dtype.itemsize}")
    same = np.ascontiguousarray(a).view(integer) == np.ascontiguousarray(b).view(integer)
    return bool(np.all(same | (np.isnan(a) & np.isnan(b))))
