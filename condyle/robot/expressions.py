"""Arithmetic written in a file, such as ${pi/2 + side*0.1}: Python's grammar, a short list of what may occur in it, and bounds.

Nothing is run: the text is parsed to a tree, and the tree is walked here. No attribute, no method, no call but of the functions
below can be reached, so there is nothing to escape to. Every value has a bounded size and every walk a bounded number of steps.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from condyle.robot import rounded
from condyle.robot.angles import FARTHEST, cos_sin, tangent
from condyle.robot.fields import number
from condyle.robot.names import nearest, quoted

MAX_EXPRESSION = 2_000  # characters
MAX_STEPS = 100_000  # nodes visited in all expressions of one file
MAX_NESTING = 100  # expressions in expressions, properties in properties
MAX_LEVELS = 20  # of lists in lists
MAX_BITS = 128  # of a whole number
MAX_SIZE = 65_536  # characters of a string, entries of a list with all its lists

Value = Any  # a number, a string, True, False, None, or a list, tuple or dict of them


def _round(x: Value, digits: Value = None) -> Value:
    if digits is not None and not (isinstance(digits, int) and abs(digits) <= 100):
        raise ValueError("round() takes at most 100 digits")
    return round(x, digits)


def _power(x: Value, y: Value) -> Value:
    if isinstance(x, int) and isinstance(y, int) and abs(x) > 1 and abs(y) * x.bit_length() > 2 * MAX_BITS:
        raise ValueError("the power is too large")
    result = x**y
    if isinstance(result, complex):
        raise ValueError("a broken power of a negative number")
    return rounded.power(x, y) if isinstance(result, float) else result


def _float(x: Value) -> Value:
    return number(x) if isinstance(x, str) else float(x)


def _int(x: Value) -> Value:
    return int(number(x)) if isinstance(x, str) else int(x)


def _text(*values: Value) -> str:
    if any(isinstance(value, (list, tuple, dict)) for value in values):
        raise ValueError("str() takes numbers and strings")
    return str(*values)


def _cosine(x: Value) -> Value:
    return cos_sin(float(math.fabs(x)))[0] if abs(x) <= FARTHEST else math.cos(x)


def _sine(x: Value) -> Value:
    return math.copysign(1.0, x) * cos_sin(float(math.fabs(x)))[1] if abs(x) <= FARTHEST else math.sin(x)


def _tangent(x: Value) -> Value:
    return math.copysign(1.0, x) * tangent(float(math.fabs(x))) if abs(x) <= FARTHEST else math.tan(x)


FUNCTIONS: dict[str, Callable[..., Value]] = {
    # the same on every processor: rounded correctly, or made of operations that IEEE 754 fixes
    **{"sin": _sine, "cos": _cosine, "tan": _tangent},
    **{f.__name__: f for f in (rounded.asin, rounded.acos, rounded.atan, rounded.atan2, math.hypot, math.sqrt)},
    **{f.__name__: f for f in (rounded.exp, rounded.log, rounded.log10, rounded.sinh, rounded.cosh, rounded.tanh)},
    **{f.__name__: f for f in (math.fabs, math.radians, math.degrees, math.floor, math.ceil, math.fmod, math.copysign)},
    **{"abs": abs, "min": min, "max": max, "round": _round, "pow": _power, "len": len},
    **{"int": _int, "float": _float, "str": _text, "bool": bool},
}
CONSTANTS: dict[str, Value] = {"pi": math.pi, "e": math.e, "tau": math.tau, "true": True, "false": False}

ON_NUMBERS: dict[type[ast.operator], Callable[[Value, Value], Value]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
COMPARISONS: dict[type[ast.cmpop], Callable[[Value, Value], Value]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda x, y: x in y,
    ast.NotIn: lambda x, y: x not in y,
}


@dataclass
class Evaluator:
    """Evaluates expressions and counts its steps; one for a whole file. What is wrong is a ValueError with a sentence."""

    steps: int = 0
    nesting: int = 0
    _parsed: dict[str, ast.expr] = field(default_factory=dict)

    def evaluate(self, text: str, lookup: Callable[[str], Value], functions: Mapping[str, Callable[..., Value]]) -> Value:
        """The value of an expression; `lookup` gives the value of a name, or raises KeyError."""
        if text not in self._parsed:
            self._parsed[text] = parse(text)
        try:
            return self._value(self._parsed[text], lookup, functions)
        except ZeroDivisionError:
            raise ValueError("division by zero") from None
        except OverflowError:
            raise ValueError("the result is too large") from None
        except (TypeError, IndexError, AttributeError) as error:
            raise ValueError(str(error)) from None

    def step(self, count: int = 1) -> None:
        """Count work done; the total is bounded, so that no file takes forever."""
        self.steps += count
        if self.steps > MAX_STEPS:
            raise ValueError(f"the file needs more than {MAX_STEPS:,} steps to evaluate")

    def enter(self) -> None:
        """One level deeper, in an expression or from a property to the next; `self.nesting -= 1` on the way back."""
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise ValueError(f"it is nested deeper than {MAX_NESTING} levels")

    def _value(self, node: ast.expr, lookup: Callable[[str], Value], functions: Mapping[str, Callable[..., Value]]) -> Value:
        self.step()
        self.enter()

        def value(inner: ast.expr) -> Value:
            return self._value(inner, lookup, functions)

        result: Value
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None as constant):
                result = constant
            case ast.Name(id=name):
                result = _name(name, lookup)
            case ast.Attribute(value=ast.Name(id="math"), attr=name) if name in CONSTANTS:
                result = CONSTANTS[name]
            case ast.UnaryOp(op=ast.Not(), operand=x):
                result = not value(x)
            case ast.UnaryOp(op=ast.USub(), operand=x):
                result = -_number(value(x), "-")
            case ast.UnaryOp(op=ast.UAdd(), operand=x):
                result = +_number(value(x), "+")
            case ast.BinOp(left=x, op=op, right=y) if type(op) in ON_NUMBERS:
                result = _combine(op, value(x), value(y))
            case ast.BoolOp(op=word, values=parts):
                result = value(parts[0])
                for part in parts[1:]:
                    if bool(result) == isinstance(word, ast.Or):
                        break
                    result = value(part)
            case ast.Compare(left=x, ops=signs, comparators=others):
                left, result = value(x), True
                for sign, other in zip(signs, others, strict=True):
                    if type(sign) not in COMPARISONS:
                        raise ValueError("'is' is not allowed: write ==")
                    right = value(other)
                    result = bool(COMPARISONS[type(sign)](left, right))
                    if not result:
                        break
                    left = right
            case ast.IfExp(test=test, body=yes, orelse=no):
                result = value(yes) if value(test) else value(no)
            case ast.List(elts=parts) | ast.Tuple(elts=parts) if not any(isinstance(part, ast.Starred) for part in parts):
                result = [value(part) for part in parts]
            case ast.Dict(keys=keys, values=parts) if None not in keys:
                result = {value(key): value(part) for key, part in zip(keys, parts, strict=True) if key is not None}
            case ast.Subscript(value=x, slice=index) if not isinstance(index, ast.Slice):
                result = _entry(value(x), value(index))
            case ast.Call(func=function, args=arguments, keywords=[]):
                result = _function(function, functions)(*[value(argument) for argument in arguments])
            case _:
                raise ValueError(f"{_kind(node)} is not allowed in an expression")
        self.nesting -= 1
        self.step(_bounded(result) // 100)
        return result


def parse(text: str) -> ast.expr:
    """The tree of an expression."""
    if len(text) > MAX_EXPRESSION:
        raise ValueError(f"an expression has at most {MAX_EXPRESSION:,} characters, this has {len(text):,}")
    if "\\" in text:
        raise ValueError("an expression has no backslashes")
    try:
        # what Python only warns of, such as "1if 2 else 3", is no expression either
        with warnings.catch_warnings(action="error"):
            return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError, Warning):
        raise ValueError("this is not an expression") from None


def _name(name: str, lookup: Callable[[str], Value]) -> Value:
    if name.startswith("__"):
        raise ValueError(f"the name '{name[:40]}' is not allowed")
    try:
        return lookup(name)
    except KeyError:
        if name in CONSTANTS:
            return CONSTANTS[name]
        raise ValueError(f"{quoted(name)} is not defined: define it by <xacro:property> or as a parameter") from None


def _function(node: ast.expr, functions: Mapping[str, Callable[..., Value]]) -> Callable[..., Value]:
    """The function that is called, by its name alone or as math.name."""
    match node:
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="math"), attr=name):
            function = functions.get(name) or FUNCTIONS.get(name)
            if function is not None:
                return function
            raise ValueError(f"the function {quoted(name)} is not allowed{nearest(name, [*FUNCTIONS])}")
        case ast.Attribute(value=ast.Name(id="xacro"), attr=name):
            raise ValueError(f"xacro.{quoted(name)[1:-1]}() is not supported: write the values as properties")
    raise ValueError("only functions can be called by name: no methods")


def _combine(op: ast.operator, x: Value, y: Value) -> Value:
    """x op y: on numbers, and + also on two strings or two lists."""
    joined = any(isinstance(x, kind) and isinstance(y, kind) for kind in (str, list))
    if not (joined and isinstance(op, ast.Add)):
        _number(x, type(op).__name__)
        _number(y, type(op).__name__)
    return ON_NUMBERS[type(op)](x, y)


def _number(x: Value, op: str) -> Value:
    if not isinstance(x, (int, float)):
        raise ValueError(f"{op} needs numbers, not {quoted(str(x)) if isinstance(x, str) else type(x).__name__}")
    return x


def _entry(values: Value, index: Value) -> Value:
    if isinstance(values, (list, str)) and isinstance(index, int):
        return values[index]
    if isinstance(values, dict) and isinstance(index, (int, float, str)):
        if index in values:
            return values[index]
        raise ValueError(f"there is no entry {quoted(str(index))}")
    raise ValueError(f"{type(values).__name__}[{type(index).__name__}] is not allowed")


def _kind(node: ast.AST) -> str:
    names = {"ListComp": "a comprehension", "GeneratorExp": "a comprehension", "SetComp": "a comprehension"}
    names |= {"DictComp": "a comprehension", "JoinedStr": "an f-string", "NamedExpr": ":=", "Attribute": "an attribute (x.y)"}
    return names.get(type(node).__name__, type(node).__name__.lower())


def _bounded(value: Value, level: int = 0) -> int:
    """The size of a value, if every part of it is within bounds."""
    if level > MAX_LEVELS:
        raise ValueError(f"lists are nested deeper than {MAX_LEVELS} levels")
    if isinstance(value, int):
        if value.bit_length() > MAX_BITS:
            raise ValueError(f"a whole number has at most {MAX_BITS} bits")
        return 1
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("the result is not finite")
        return 1
    if isinstance(value, str):
        size = len(value)
    elif isinstance(value, dict):
        size = sum(_bounded(key) + _bounded(part, level + 1) for key, part in value.items()) + 1
    elif isinstance(value, (list, tuple)):
        size = sum(_bounded(part, level + 1) for part in value) + 1
    else:
        return 1
    if size > MAX_SIZE:
        raise ValueError(f"a value has at most {MAX_SIZE:,} characters or entries")
    return size
