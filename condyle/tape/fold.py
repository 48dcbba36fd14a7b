"""Exact foldings: rewrites that change no digit of any finite result.

A number that stands in the program as zero is structural: the term it multiplies is absent, so `0 * x` is 0 and `x + 0`
is x. (These two may change the sign of a zero, and an absent term cannot bring in a NaN; nothing else is given up.) Two
constants are combined only if the result is exact in float64, because a tape has no precision of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from condyle.tape.interpret import INTEGERS, WORD, to_int

if TYPE_CHECKING:
    from condyle.tape.graph import Graph

Args = tuple[int, ...]
SPECIAL = frozenset({"const", "neg"})  # what sums and products look for among their arguments


def _exact(result: float, a: float, b: float, op: str) -> bool:
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(result)) or (result == 0.0 and op != "add"):
        return False
    x, y = Fraction(a), Fraction(b)
    if op == "div":
        return Fraction(result) * y == x
    return Fraction(result) == (x + y if op == "add" else x * y)


def _negated(g: Graph, i: int) -> int | None:
    node = g.nodes[i]
    return node.args[0] if node.op == "neg" else None


def add(g: Graph, args: Args) -> int | None:
    """a + b: a zero is absent, two numbers are added if exactly, a + (-b) is a - b."""
    a, b = args
    if g.nodes[a].op not in SPECIAL and g.nodes[b].op not in SPECIAL:
        return g.record("add", (b, a) if a > b else args, None)
    x, y = g.value(a), g.value(b)
    if x == 0.0:
        return b
    if y == 0.0:
        return a
    if x is not None and y is not None:
        return g.const(x + y) if _exact(x + y, x, y, "add") else None
    if (n := _negated(g, b)) is not None:
        return g.emit("sub", (a, n))
    if (n := _negated(g, a)) is not None:
        return g.emit("sub", (b, n))
    return g.record("add", (b, a), None) if a > b else None


def sub(g: Graph, args: Args) -> int | None:
    """a - b: likewise."""
    a, b = args
    if g.nodes[a].op not in SPECIAL and g.nodes[b].op not in SPECIAL:
        return None
    x, y = g.value(a), g.value(b)
    if y == 0.0:
        return a
    if x == 0.0:
        return g.emit("neg", (b,))
    if x is not None and y is not None and _exact(x - y, x, -y, "add"):
        return g.const(x - y)
    if (n := _negated(g, b)) is not None:
        return g.emit("add", (a, n))
    return None


def mul(g: Graph, args: Args) -> int | None:
    """a * b: 0, 1 and -1 are absent or a sign, signs move outwards."""
    a, b = args
    if g.nodes[a].op not in SPECIAL and g.nodes[b].op not in SPECIAL:
        return g.record("mul", (b, a) if a > b else args, None)
    x, y = g.value(a), g.value(b)
    if x is not None and y is not None:
        if x == 0.0 or y == 0.0:
            return g.const(0.0)
        return g.const(x * y) if _exact(x * y, x, y, "mul") else g.record("mul", (min(a, b), max(a, b)), None)
    for number, other in ((x, b), (y, a)):
        if number is None:
            continue
        if number == 0.0:
            return g.const(0.0)
        if number == 1.0:
            return other
        if number == -1.0:
            return g.emit("neg", (other,))
        if (n := _negated(g, other)) is not None:
            return g.emit("mul", (g.const(-number), n))
    for this, other in ((a, b), (b, a)):
        if (n := _negated(g, this)) is not None:
            return g.emit("neg", (g.emit("mul", (n, other)),))
    return g.record("mul", (b, a), None) if a > b else None


def div(g: Graph, args: Args) -> int | None:
    """a / b: by a power of two it is a product."""
    a, b = args
    x, y = g.value(a), g.value(b)
    if x == 0.0 and y != 0.0:
        return g.const(0.0)
    if y is not None and y != 0.0 and math.isfinite(y):
        if x is not None and _exact(x / y, x, y, "div"):
            return g.const(x / y)
        mantissa, exponent = math.frexp(y)
        if abs(mantissa) == 0.5 and abs(exponent) < 100:
            return g.emit("mul", (a, g.const(1.0 / y)))
    if (n := _negated(g, a)) is not None:
        return g.emit("neg", (g.emit("div", (n, b)),))
    if (n := _negated(g, b)) is not None:
        return g.emit("neg", (g.emit("div", (a, n)),))
    return None


def neg(g: Graph, args: Args) -> int | None:
    """-a: of a number, or of -b."""
    (a,) = args
    x = g.value(a)
    return g.const(-x) if x is not None else _negated(g, a)


def absolute(g: Graph, args: Args) -> int | None:
    """|a|: of a number, of |b| or of -b."""
    (a,) = args
    x = g.value(a)
    if x is not None:
        return g.const(abs(x))
    if g.nodes[a].op == "abs":
        return a
    n = _negated(g, a)
    return None if n is None else g.emit("abs", (n,))


def stop_gradient(g: Graph, args: Args) -> int | None:
    """a, if it is a number or stopped already."""
    return args[0] if g.nodes[args[0]].op in ("const", "stop_gradient") else None


def fma(g: Graph, args: Args) -> int | None:
    """a * b + c: a product or a sum, where one of the three is 0, 1 or -1."""
    a, b, c = args
    if g.value(c) == 0.0:
        return g.emit("mul", (a, b))
    if any(g.value(i) in (0.0, 1.0, -1.0) for i in (a, b)):
        return g.emit("add", (g.emit("mul", (a, b)), c))
    return g.record("fma", (b, a, c), None) if a > b else None


def select(g: Graph, args: Args) -> int | None:
    """b if both choices are b; `not` swaps the choices."""
    a, b, c = args
    if b == c:
        return b
    if g.nodes[a].op == "not":
        return g.emit("select", (g.nodes[a].args[0], c, b))
    return None


def spread(g: Graph, args: Args) -> int | None:
    """A number of the whole robot if all limbs have the same; what it was picked from, in the same order."""
    return args[0] if all(a == args[0] for a in args) else picked_from(g, args)


def picked_from(g: Graph, numbers: Args) -> int | None:
    """The number of each limb that these numbers were picked from, in order; None if there is none."""
    op, args, _ = g.nodes[numbers[0]]
    whole = op == "pick" and g.limbs.get(args[0]) == len(numbers)
    return args[0] if whole and all(g.nodes[a] == ("pick", args, k) for k, a in enumerate(numbers)) else None


def in_order(op: str) -> Callable[[Graph, Args], int | None]:
    """A folding that only puts the arguments of a symmetric operation in order, so that equal ones are found again."""

    def fold(g: Graph, args: Args) -> int | None:
        return g.record(op, (args[1], args[0]), None) if args[0] > args[1] else None

    return fold


def invert(g: Graph, args: Args) -> int | None:
    """not a: of `not b`."""
    node = g.nodes[args[0]]
    return node.args[0] if node.op == "not" else None


# what leaves the other argument as it is, and what decides the result alone
_NEUTRAL = {"iadd": 0, "ior": 0, "ixor": 0, "imul": 1, "iand": WORD}
_DECIDING = {"imul": 0, "imulhi": 0, "iand": 0, "ior": WORD}
_SECOND_NEUTRAL = {"isub": 0, "ishl": 0, "ishr": 0}


def words(op: str) -> Callable[[Graph, Args], int | None]:
    """A folding of an operation on words: two constants are one, and the arguments of a symmetric one are in order."""

    def fold(g: Graph, args: Args) -> int | None:
        a, b = args
        x, y = g.value(a), g.value(b)
        if x is not None and y is not None:
            return g.const(INTEGERS[op](x, y))
        symmetric = op in _NEUTRAL or op == "imulhi"
        for number, this, other in ((x, a, b), (y, b, a)):
            if number is None or not (symmetric or this == b):
                continue
            if number == (_NEUTRAL if symmetric else _SECOND_NEUTRAL).get(op):
                return other
            if number == _DECIDING.get(op):
                return this
        return g.record(op, (b, a), None) if symmetric and a > b else None

    return fold


def compared_words(op: str) -> Callable[[Graph, Args], int | None]:
    """A folding of a comparison of words that is known now: a comparison of 0 and 1 is as true or false."""

    def fold(g: Graph, args: Args) -> int | None:
        a, b = args
        x, y = g.value(a), g.value(b)
        never = op == "ilt" and (a == b or y == 0 or x == WORD)
        if never or (x is not None and y is not None):
            truth = not never and INTEGERS[op](x, y)
            return g.record("lt", (g.const(0.0), g.const(1.0)) if truth else (g.const(1.0), g.const(0.0)), None)
        return g.record(op, (b, a), None) if op == "ieq" and a > b else None

    return fold


def number_to_word(g: Graph, args: Args) -> int | None:
    """The word of a number; a constant is its float64 value in every precision."""
    x = g.value(args[0])
    return None if x is None else g.const(to_int(x))


def word_to_number(g: Graph, args: Args) -> int | None:
    """The number of a constant word, which float64 has."""
    x = g.value(args[0])
    return None if x is None else g.const(float(x))


FOLD: dict[str, Callable[[Graph, Args], int | None]] = {
    **{fold.__name__: fold for fold in (add, sub, mul, div, neg, stop_gradient, fma, select, spread)},
    **{op: in_order(op) for op in ("eq", "and", "or")},
    "abs": absolute,
    "not": invert,
    **{op: compared_words(op) for op in ("ilt", "ieq")},
    **{op: words(op) for op in INTEGERS if op not in ("ilt", "ieq")},
    "to_int": number_to_word,
    "to_real": word_to_number,
}
