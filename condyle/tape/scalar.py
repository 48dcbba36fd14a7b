"""Traced scalars: `Scalar` for a number, `Bool` for a comparison, `Int` for a word. Arithmetic on them is recorded, not done."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from condyle.errors import TraceError
from condyle.tape.graph import Graph
from condyle.tape.ops import BOOL, INT, OPS, REAL

_OURS = (str(Path(__file__).parents[1]), str(Path(np.__file__).parent), "<")


def caller() -> str:
    """'file:line' of the innermost code that is neither Condyle's nor NumPy's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_OURS):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class _Traced:
    """A value of a graph, by position."""

    __slots__ = ("graph", "index")

    def __init__(self, graph: Graph, index: int) -> None:
        self.graph = graph
        self.index = index

    def __repr__(self) -> str:
        return f"%{self.index}"

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        from condyle.tape.array import apply_ufunc

        return apply_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        from condyle.tape.array import apply_function

        return apply_function(function, args, options)


class Lazy:
    """What stands for a value that depends on the trace."""

    __slots__ = ()

    def resolve(self) -> Any:
        """The value now."""
        raise NotImplementedError


def _arithmetic(op: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """The two methods of an operator of a comparison and a number: with the comparison on the left, and on the right."""

    def apply(self: Bool, other: Any, *, left: bool) -> Any:
        if isinstance(other, (Bool, bool, np.bool_)):
            self._no_sum()
        one = self.where(1.0, 0.0)
        return _binary(op, one, other) if left else _binary(op, other, one)

    return lambda self, other: apply(self, other, left=True), lambda self, other: apply(self, other, left=False)


class Bool(_Traced):
    """A traced comparison. Combine with & | ~, use it in `where`, or as the number 1 or 0 in arithmetic with numbers."""

    __slots__ = ()
    __hash__ = object.__hash__

    __add__, __radd__ = _arithmetic("add")
    __sub__, __rsub__ = _arithmetic("sub")
    __truediv__, __rtruediv__ = _arithmetic("div")
    __lt__, __gt__ = _arithmetic("lt")
    __le__, __ge__ = _arithmetic("le")

    def __mul__(self, other: Any) -> Any:
        # of comparisons, as in NumPy: the product of 1 and 0 is that of "and"
        return self & other if isinstance(other, (Bool, bool, np.bool_)) else _binary("mul", self.where(1.0, 0.0), other)

    __rmul__ = __mul__

    def __pow__(self, power: Any) -> Any:
        return self.where(1.0, 0.0) ** power

    def __rpow__(self, base: Any) -> Any:
        return base ** self.where(1.0, 0.0)

    def _no_sum(self, *_: Any) -> NoReturn:
        raise TraceError(
            f"{caller()}: with other comparisons and alone, a traced comparison is a truth and no number: write a | b, a & b, ~a "
            "or 1.0 * a for the number that it is; np.sum counts those of an array that is made by condyle.array"
        )

    def _no_number(self, *_: Any) -> NoReturn:
        raise TraceError(
            f"{caller()}: a traced comparison has no value yet, so float(), int() and astype() cannot use it; write "
            "1.0 * (x > 0), or condyle.where(x > 0, 1.0, 0.0)"
        )

    __neg__ = __pos__ = __abs__ = _no_sum
    __float__ = __int__ = __index__ = __complex__ = __round__ = __trunc__ = _no_number

    def where(self, a: Any, b: Any) -> Any:
        """`a` where this holds, else `b`."""
        if isinstance(a, Int) or isinstance(b, Int):
            return integer("iselect", self, a, b)
        return emit("select", self, a, b)

    def __and__(self, other: Any) -> Any:
        if isinstance(other, (bool, np.bool_)):
            return self if other else False
        return compare("and", self, other) if isinstance(other, Bool) else NotImplemented

    def __or__(self, other: Any) -> Any:
        if isinstance(other, (bool, np.bool_)):
            return True if other else self
        return compare("or", self, other) if isinstance(other, Bool) else NotImplemented

    def __invert__(self) -> Bool:
        return compare("not", self)

    def __eq__(self, other: object) -> Any:
        return ~(self ^ other) if isinstance(other, (Bool, bool, np.bool_)) else _binary("eq", self.where(1.0, 0.0), other)

    def __ne__(self, other: object) -> Any:
        equal = self == other
        return equal if equal is NotImplemented else ~equal

    def __xor__(self, other: Any) -> Any:
        if isinstance(other, (bool, np.bool_)):
            return ~self if other else self
        return (self | other) & ~(self & other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __bool__(self) -> NoReturn:
        raise TraceError(
            f"{caller()}: a traced comparison has no truth value yet (tracing runs once, for all inputs), so `if`, `while`, "
            "`and`, `or` and `not` cannot use it; write condyle.where(condition, a, b), and & | ~ between conditions "
            "(to compare a whole np.array of traced values, make it with condyle.array)"
        )


def _operator(op: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """The two methods of an operator: with the traced number on the left, and on the right."""
    return lambda self, other: _binary(op, self, other), lambda self, other: _binary(op, other, self)


def _function(op: str) -> Callable[..., Scalar]:
    """The method of a function of one or two numbers."""
    return lambda self, *others: emit(op, self, *others)


class Scalar(_Traced):
    """A traced number."""

    __slots__ = ()
    __hash__ = object.__hash__

    __add__, __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("sub")
    __mul__, __rmul__ = _operator("mul")
    __truediv__, __rtruediv__ = _operator("div")
    __lt__, __gt__ = _operator("lt")
    __le__, __ge__ = _operator("le")
    __eq__, _ = _operator("eq")

    def __ne__(self, other: object) -> Any:
        equal = _binary("eq", self, other)
        return equal if equal is NotImplemented else ~equal

    def __neg__(self) -> Scalar:
        return emit("neg", self)

    def __pos__(self) -> Scalar:
        return self

    def __abs__(self) -> Scalar:
        return emit("abs", self)

    def __pow__(self, power: Any) -> Any:
        if isinstance(power, np.ndarray):
            return NotImplemented
        if not _is_number(power):
            raise TraceError(f"{caller()}: the power of a traced value must be a number; write np.exp(p * np.log(x)) instead")
        return _power(self, float(power))

    def __rpow__(self, base: Any) -> NoReturn:
        raise TraceError(f"{caller()}: the power of a number must be a number; write np.exp(p * np.log(base)) instead")

    # NumPy calls these on plain arrays of objects: np.sin(a) calls a[i].sin()
    sin, cos, tan = _function("sin"), _function("cos"), _function("tan")
    arcsin, arccos, arctan2 = _function("asin"), _function("acos"), _function("atan2")
    exp, log, sqrt, tanh = _function("exp"), _function("log"), _function("sqrt"), _function("tanh")
    rint, floor, fabs = _function("rint"), _function("floor"), _function("abs")

    def arctan(self) -> Scalar:
        """The angle whose tangent this is."""
        return emit("atan2", self, 1.0)

    def to_int(self) -> Int:
        """The word that the nearest whole number is modulo 2^32; 0 for NaN and from 2^51 on."""
        return integer("to_int", self)

    def ceil(self) -> Scalar:
        """The smallest whole number that is no less."""
        return -emit("floor", -self)

    def conjugate(self) -> Scalar:
        """Itself: it is real."""
        return self

    def __bool__(self) -> NoReturn:
        raise TraceError(
            f"{caller()}: a traced number has no truth value yet (tracing runs once, for all inputs); "
            "compare it and choose with condyle.where(condition, a, b)"
        )

    def _no_number(self, *_: Any) -> NoReturn:
        raise TraceError(
            f"{caller()}: a traced number has no value yet, so float(), int(), round(), indexing with it and the functions "
            "of `math` cannot use it; use NumPy's functions (np.sin, ...), and assign into an array made by "
            "condyle.array(np.zeros(3)) or np.zeros(3, dtype=object), not into one of floats"
        )

    __float__ = __int__ = __index__ = __complex__ = __round__ = __trunc__ = _no_number


def _word_operator(op: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """The two methods of an operator: with the traced word on the left, and on the right."""

    def apply(*operands: Any) -> Any:
        if not all([isinstance(x, (Int, int, np.integer)) for x in operands]):
            return NotImplemented
        return compare(op, *operands) if op in _TRUTHS else integer(op, *operands)

    return apply, lambda self, other: apply(other, self)


class Int(_Traced):
    """A traced word: a whole number of 32 bits without sign, modulo 2^32, exact in every precision."""

    __slots__ = ()
    __hash__ = object.__hash__

    __add__, __radd__ = _word_operator("iadd")
    __sub__, __rsub__ = _word_operator("isub")
    __mul__, __rmul__ = _word_operator("imul")
    __and__, __rand__ = _word_operator("iand")
    __or__, __ror__ = _word_operator("ior")
    __xor__, __rxor__ = _word_operator("ixor")
    __lshift__, __rlshift__ = _word_operator("ishl")
    __rshift__, __rrshift__ = _word_operator("ishr")
    __lt__, __gt__ = _word_operator("ilt")
    __eq__, _ = _word_operator("ieq")

    def __ne__(self, other: object) -> Any:
        return ~(self == other)

    def __invert__(self) -> Int:
        return integer("ixor", self, 2**32 - 1)

    def multiply_high(self, other: Any) -> Int:
        """The upper 32 bits of the product, of which * gives the lower ones."""
        return integer("imulhi", self, other)

    def to_real(self) -> Scalar:
        """The word as a number; exact in float64, rounded in float32."""
        return emit("to_real", self)

    def __bool__(self) -> NoReturn:
        raise TraceError(
            f"{caller()}: a traced word has no truth value yet (tracing runs once, for all inputs); "
            "compare it and choose with condyle.where(condition, a, b)"
        )


def _is_number(x: object) -> bool:
    return isinstance(x, (float, int, np.floating, np.integer)) and not isinstance(x, (bool, np.bool_))


def _binary(op: str, a: Any, b: Any) -> Any:
    # both of one graph is the common case, so it comes first
    if type(a) is Scalar and type(b) is Scalar and a.graph is b.graph:
        graph = a.graph
        index = graph.emit(op, (a.index, b.index))
    elif type(a) is Scalar and isinstance(b, (float, int)):
        graph = a.graph
        index = graph.emit(op, (a.index, graph.const(float(b))))
    else:
        for x in (a, b):
            if not isinstance(x, Scalar) and not _is_number(x):
                return NotImplemented
        return compare(op, a, b) if op in _TRUTHS else emit(op, a, b)
    return Bool(graph, index) if op in _TRUTHS else Scalar(graph, index)


_TRUTHS = frozenset(name for name, op in OPS.items() if op.gives == BOOL)


def emit(op: str, *operands: Any, data: Any = None) -> Scalar:
    """The traced number that an operation gives on traced values and numbers, in the innermost graph among them."""
    return Scalar(*_record(op, operands, data))


def compare(op: str, *operands: Any) -> Bool:
    """The traced comparison or combination of comparisons that an operation gives."""
    return Bool(*_record(op, operands, None))


def integer(op: str, *operands: Any) -> Int:
    """The traced word that an operation gives on traced values, words and whole numbers."""
    return Int(*_record(op, operands, None))


def _record(op: str, operands: tuple[Any, ...], data: Any) -> tuple[Graph, int]:
    graph: Graph | None = None
    for x in operands:
        if isinstance(x, _Traced) and (graph is None or x.graph.depth > graph.depth):
            graph = x.graph
    if graph is None and any(isinstance(x, Lazy) for x in operands):
        return _record(op, tuple([x.resolve() if isinstance(x, Lazy) else x for x in operands]), data)
    if graph is None:
        raise TraceError(f"{caller()}: {op} needs at least one traced value")
    kinds = OPS[op].takes
    args = []
    for x, kind in zip(operands, kinds, strict=True):
        if isinstance(x, Bool) and kind == REAL:
            x = x.where(1.0, 0.0)
        if isinstance(x, _Traced):
            if isinstance(x, Int) != (kind == INT):
                advice = "call .to_real() of it" if isinstance(x, Int) else "call .to_int() of it"
                raise TraceError(f"{caller()}: {op} takes {', '.join(kinds)}, and got a traced {type(x).__name__}; {advice}")
            args.append(graph.adopt(x.graph, x.index))
        elif isinstance(x, Lazy):
            args.append(graph.place(x.resolve()))
        else:
            args.append(graph.const(word(x) if kind == INT else number(x)))
    return graph, graph.emit(op, tuple(args), data)


def constant(x: Any) -> float | None:
    """The number that a traced value or a number is for certain, or None."""
    known = x if isinstance(x, Scalar) else number(x)
    return known.graph.value(known.index) if isinstance(known, Scalar) else known


def number(x: Any) -> float:
    """A Python float from any real number, the traced number of a parameter, or an error that names what was given."""
    if isinstance(x, Int):
        raise TraceError(
            f"{caller()}: only numbers can be stacked, carried by a loop or returned, and this is a traced word; call .to_real() "
            "of it (in float32, which rounds, of its halves x >> 16 and x & 0xFFFF)"
        )
    if isinstance(x, Lazy):
        value: Any = x.resolve()
        return value if isinstance(value, Scalar) else number(value)  # type: ignore[return-value]
    if isinstance(x, Bool):
        raise TraceError(
            f"{caller()}: only numbers can be stacked, carried by a loop or returned, and this is a traced comparison; write "
            "1.0 * (x > 0), or condyle.where(x > 0, 1.0, 0.0)"
        )
    if not _is_number(x):
        raise TraceError(f"{caller()}: expected a traced value or a number, got {type(x).__name__} {x!r:.60}")
    return float(x)


def word(x: Any) -> int:
    """A word from any whole number, modulo 2^32, or an error that names what was given."""
    if isinstance(x, (bool, np.bool_)) or not isinstance(x, (int, np.integer)):
        raise TraceError(f"{caller()}: expected a traced word or a whole number (int), got {type(x).__name__} {x!r:.60}")
    return int(x) & 2**32 - 1


def _power(x: Scalar, p: float) -> Scalar:
    # few multiplications stay within two units in the last place; other powers are an operation of their own
    quick: dict[float, Callable[[], Scalar]] = {
        0.0: lambda: Scalar(x.graph, x.graph.const(1.0)),
        1.0: lambda: x,
        2.0: lambda: x * x,
        3.0: lambda: x * x * x,
        4.0: lambda: (x * x) * (x * x),
        0.5: lambda: x.sqrt(),
        1.5: lambda: x * x.sqrt(),
        -0.5: lambda: 1.0 / x.sqrt(),
        -1.0: lambda: 1.0 / x,
        -2.0: lambda: 1.0 / (x * x),
        -3.0: lambda: 1.0 / (x * x * x),
    }
    return quick[p]() if p in quick else emit("pow", x, data=p)
