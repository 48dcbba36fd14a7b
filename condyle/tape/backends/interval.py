"""The interval backend: certified enclosures of what a tape computes over the real numbers, as balls of FLINT's arb.

A ball that is NaN says "anything, or undefined": an operation gives it when its result has no bounds, and it spreads.
A comparison of balls may be undecided (None); a choice between two values on such a condition gives a ball around both.
A word is exact, or unknown (None) where the ball that it comes from holds several.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from threading import RLock
from typing import Any

from condyle.errors import BackendError, require
from condyle.tape.backends.interface import Backend, Kernel, Options
from condyle.tape.backends.reference import InterpretedKernel
from condyle.tape.interpret import INTEGERS, OPERATORS, Arithmetic, to_int
from condyle.tape.tape import Tape

Decision = bool | None

_flint_precision = RLock()  # flint.ctx is one for all threads


class Interval(Arithmetic):
    """Enclosures computed with `bits` digits: the real result lies in the ball, whatever the rounding.

    Constants and floats are exact points. Zeros have no sign, so where the sign of a zero matters (1 / 0, copysign, atan2) the
    ball covers both. FLINT's precision outside of `working` makes the balls wider or narrower, never wrong.
    """

    def __init__(self, bits: int = 53) -> None:
        self.flint = require("flint", "precision", "the interval backend")
        if not 2 <= bits <= 1_000_000:
            raise BackendError(f"intervals are computed with 2 to 1,000,000 bits, not {bits}")
        self.bits = bits
        arb = self.flint.arb
        self.anything, self.infinity = arb("nan"), arb("inf")
        self._arb = arb
        total = self.total
        self.functions = {name: total(OPERATORS[name]) for name in ("add", "mul", "div", "neg")}
        self.functions |= {name: total(getattr(arb, name)) for name in ("sqrt", "min", "max", "exp", "log", "tanh")}
        self.functions |= {name: self.finite(getattr(arb, name)) for name in ("sin", "cos", "tan", "asin", "acos")}
        self.functions |= {
            # x - x of one value is zero however wide its ball is
            "sub": total(lambda a, b: arb(0) if a is b and a.is_finite() else a - b),
            "fma": total(lambda a, b, c: a * b + c),
            "abs": total(self.absolute),
            "copysign": total(self.copysign),
            "rint": total(lambda a: self.rounded(a, round_half_even)),
            "floor": total(lambda a: self.rounded(a, lambda m, shift: m >> shift)),
            "pow2": total(lambda a: arb(2) ** a),
            "logb": total(self.logb),
            "stop_gradient": OPERATORS["stop_gradient"],
            "lt": self.less,
            "le": lambda a, b: negate(self.less(b, a)),
            "eq": self.equal,
            "and": both,
            "or": lambda a, b: negate(both(negate(a), negate(b))),
            "not": negate,
            "select": self.select,
            "atan2": self.finite(self.atan2),
            "pow": self.power,
            **{op: known(function) for op, function in INTEGERS.items()},
            "iselect": lambda a, b, c: (b if a else c) if a is not None else (b if b == c else None),
            "to_int": self.to_int,
            "to_real": lambda a: arb(2**31, 2**31) if a is None else self.number(a),
        }

    @contextmanager
    def working(self) -> Iterator[None]:
        """FLINT at this precision, restored afterwards; one thread at a time, because FLINT's setting is global."""
        with _flint_precision, self.flint.ctx.workprec(self.bits):
            yield

    def number(self, value: Any) -> Any:
        """A float or whole number as a point; a ball as it is, but a new object: one object is one number."""
        return self.bounded(self._arb(value))

    # ---- what is undefined stays undefined

    def total(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function made NaN for NaN, and wherever its ball is unbounded without being one infinity."""

        def checked(*args: Any) -> Any:
            if any([a.is_nan() for a in args]):
                return self.anything
            return self.bounded(function(*args))

        return checked

    def bounded(self, ball: Any) -> Any:
        """The ball if it is finite, or one of the infinities; NaN otherwise."""
        if ball.is_finite():
            return ball
        middle = ball.mid()
        return middle if not (middle.is_nan() or middle.is_finite()) and ball.rad().is_finite() else self.anything

    def finite(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function made NaN for infinite arguments as well."""
        checked = self.total(function)
        return lambda *args: checked(*args) if all([a.is_finite() for a in args]) else self.anything

    # ---- comparisons and choices

    def less(self, a: Any, b: Any) -> Decision:
        """Whether a < b: True, False, or None where both are possible."""
        if a < b:
            return True
        return False if a >= b or self.same(a, b) else None

    def equal(self, a: Any, b: Any) -> Decision:
        """Whether a == b: True, False, or None where both are possible."""
        if a == b or self.same(a, b):
            return True
        return False if a != b else None

    def same(self, a: Any, b: Any) -> bool:
        """Whether the two are one value of the tape, and it is a number: then x == x holds however wide its ball is."""
        return a is b and not a.is_nan()

    def select(self, condition: Decision, b: Any, c: Any) -> Any:
        """b, c, or a ball around both."""
        if condition is None:
            return self.hull(b, c)
        return b if condition else c

    def hull(self, a: Any, b: Any) -> Any:
        """A ball around two balls; two different infinities, or one and a number, have none."""
        if a.is_nan() or b.is_nan():
            return self.anything
        if a.is_finite() and b.is_finite():
            return a.union(b)
        return a if a == b else self.anything

    # ---- functions with corners and jumps

    def index(self, table: Any, row: int, column: int, offset: Any = None) -> Any:
        """The hull of the entries that an offset may mean."""
        rows = self.possible_rows(row, offset, len(table))
        return reduce(self.hull, [table[r][column] for r in rows])

    def update(self, table: Any, value: Any, row: int, column: int, offset: Any = None) -> Any:
        """The table with another entry, or with the hull of old and new wherever the offset may mean."""
        rows = self.possible_rows(row, offset, len(table))
        for r in rows:
            new = value if len(rows) == 1 else self.hull(table[r][column], value)
            table = super().update(table, new, r, column)
        return table

    def possible_rows(self, row: int, offset: Any, rows: int) -> range:
        """The rows that `row` + `offset` may be."""
        if offset is None:
            return range(row, row + 1)
        low, high = (float(end) for end in self.ends(offset))
        if low != low or high != high:
            return range(rows)
        return range(self.row(row, low, rows), self.row(row, high, rows) + 1)

    def absolute(self, a: Any) -> Any:
        """|a|, from zero on when the ball holds both signs."""
        return abs(a) if not a.is_finite() or a > 0 or a < 0 else a.abs_upper().union(self._arb(0))

    def copysign(self, a: Any, b: Any) -> Any:
        """|a| with the sign of b; both signs where b may be zero, because a zero has an unknown sign here."""
        size = self.absolute(a)
        if b > 0:
            return size
        return -size if b < 0 else self.hull(size, -size)

    def rounded(self, a: Any, step: Callable[[int, int], int]) -> Any:
        """A ball around the whole numbers that a rising step function takes on a; step(m, k) rounds m / 2^k."""
        if not a.is_finite():
            return a
        low, high = self.ends(a)
        return self.hull(self._step(low, step), self._step(high, step))

    def ends(self, a: Any) -> tuple[Any, Any]:
        """The lowest and the highest point of a ball, exact if it is a point, else rounded outwards."""
        return (a, a) if a.is_exact() else (a.lower(), a.upper())

    def _step(self, point: Any, step: Callable[[int, int], int]) -> Any:
        mantissa, exponent = (int(x) for x in point.man_exp())
        if exponent >= 0:
            return point
        # far below one half, only the sign matters: no need to shift by millions of places
        places = -exponent
        if places > abs(mantissa).bit_length() + 2:
            mantissa, places = (mantissa > 0) - (mantissa < 0), 2
        return self._arb(step(mantissa, places))

    def to_int(self, a: Any) -> int | None:
        """The word of the whole number nearest to a, if there is only one."""
        if a >= 2**51 or a <= -(2**51):
            return 0
        if not a.is_finite() or not (-(2**51) < a < 2**51):
            return None
        low, high = [self._step(end, round_half_even) for end in self.ends(a)]
        return to_int(float(low)) if low == high else None

    def logb(self, a: Any) -> Any:
        """floor(log2 |a|)."""
        if not a.is_finite() or a.contains(0):
            return abs(a) if not a.is_finite() else self.anything
        low, high = self.ends(abs(a))
        return self.hull(self._arb(_exponent(low)), self._arb(_exponent(high)))

    def atan2(self, a: Any, b: Any) -> Any:
        """The angle of the point (b, a); all angles where the cut, with its two signs of zero, may be touched."""
        if a.contains(0) and not b > 0:
            pi = self._arb.pi()
            return pi.union(-pi)
        return self._arb.atan2(a, b)

    def power(self, a: Any, p: float) -> Any:
        """a^p for a number p."""
        if p == 0.0:
            return self._arb(1)
        if a.is_nan() or not a.is_finite() or not math.isfinite(p):
            return self.anything
        ball = a ** self.flint.fmpz(int(p)) if p.is_integer() and abs(p) < 2**62 else a ** self._arb(p)
        return ball if ball.is_finite() else self.anything


def both(a: Decision, b: Decision) -> Decision:
    """a and b; False decides, whatever the other."""
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def known(function: Callable[..., Any]) -> Callable[..., Any]:
    """An operation on words, whose result is unknown if one of them is."""
    return lambda *words: None if None in words else function(*words)


def negate(a: Decision) -> Decision:
    """not a; None stays undecided."""
    return None if a is None else not a


def round_half_even(m: int, shift: int) -> int:
    """m / 2^shift to the nearest whole number, ties to even."""
    down = m >> shift
    twice = (m - (down << shift)) * 2
    one = 1 << shift
    return down + (twice > one or (twice == one and down % 2 == 1))


def _exponent(point: Any) -> int:
    mantissa, exponent = (int(x) for x in point.man_exp())
    return mantissa.bit_length() - 1 + exponent


class IntervalBackend(Backend):
    """Certified enclosures computed with `bits` digits; arrays hold flint.arb, and on the way in also exact floats and ints."""

    takes_objects = encloses = True

    def __init__(self, bits: int = 53) -> None:
        self.bits = bits

    def compile(self, tape: Tape, precision: str, options: Options) -> Kernel:
        """The tape interpreted with balls."""
        return InterpretedKernel(tape, Interval(self.bits))
