"""Expressions written in a file, such as ${pi/2 + side*0.1}: Python's grammar, a short list of what may occur in it, and bounds.

Nothing is run: the text is parsed to a tree, and the tree is walked here. No attribute but an entry of a dict or namespace, and
no call but of the functions and methods of `expression_functions`, can be reached, so there is nothing to escape to. Every value
has a bounded size and every walk a bounded number of steps.
"""

from __future__ import annotations

import ast
import math
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from condyle.robot.expression_functions import FUNCTIONS, GLOBALS, METHODS, method, percent, power
from condyle.robot.expression_values import MAX_SIZE, DottedDict, Function, Namespace, Value, entries, kind, size
from condyle.robot.names import nearest, quoted

MAX_EXPRESSION = 4_000  # characters
MAX_STEPS = 100_000  # nodes visited in all expressions of one file
MAX_NESTING = 100  # expressions in expressions, properties in properties

Lookup = Callable[[str], Value]

ON_NUMBERS: dict[type[ast.operator], Callable[[Value, Value], Value]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: power,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
SEQUENCES = (str, list, tuple)
JOINED: dict[type[ast.operator], tuple[type, ...]] = {
    ast.Add: SEQUENCES,
    ast.Sub: (set,),
    ast.BitOr: (dict, set),
    ast.BitAnd: (set,),
    ast.BitXor: (set,),
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
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}


@dataclass
class Evaluator:
    """Evaluates expressions and counts its steps; one for a whole file. What is wrong is a ValueError with a sentence."""

    steps: int = 0
    nesting: int = 0
    _parsed: dict[str, ast.expr] = field(default_factory=dict)

    def evaluate(self, text: str, lookup: Lookup, functions: Mapping[str, Value]) -> Value:
        """The value of an expression; `lookup` gives the value of a name, or raises KeyError; then come these `functions`."""

        def name(wanted: str) -> Value:
            try:
                return lookup(wanted)
            except KeyError:
                if wanted in functions:
                    return functions[wanted]
                if wanted in GLOBALS:
                    return GLOBALS[wanted]
            what = f"{quoted(wanted)} is not defined{_near(wanted)}"
            raise ValueError(f"{what}: define it by <xacro:property> or as a parameter") from None

        if text not in self._parsed:
            self._parsed[text] = parse(text)
        try:
            return self._value(self._parsed[text], name)
        except ZeroDivisionError:
            raise ValueError("division by zero") from None
        except OverflowError:
            raise ValueError("the result is too large") from None
        except (TypeError, LookupError, AttributeError) as error:
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

    def charge(self, *values: Value) -> None:
        """Count the work on values by their sizes, which are checked."""
        for value in values:
            self.step(size(value) // 50)

    def _value(self, node: ast.expr, names: Lookup) -> Value:
        self.step()
        self.enter()

        def value(inner: ast.expr) -> Value:
            return self._value(inner, names)

        result: Value
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None as constant):
                result = constant
            case ast.Name(id=name):
                result = names(_plain(name))
            case ast.Attribute(value=holder, attr=name):
                result = _attribute(value(holder), _plain(name))
            case ast.UnaryOp(op=ast.Not(), operand=x):
                result = not value(x)
            case ast.UnaryOp(op=ast.USub(), operand=x):
                result = -_number(value(x), "-")
            case ast.UnaryOp(op=ast.UAdd(), operand=x):
                result = +_number(value(x), "+")
            case ast.BinOp(left=x, op=op, right=y) if type(op) in ON_NUMBERS:
                result = self._combine(op, value(x), value(y))
            case ast.BoolOp(op=word, values=parts):
                result = value(parts[0])
                for part in parts[1:]:
                    if bool(result) == isinstance(word, ast.Or):
                        break
                    result = value(part)
            case ast.Compare(left=x, ops=signs, comparators=others):
                result = self._compare(value(x), signs, others, value)
            case ast.IfExp(test=test, body=yes, orelse=no):
                result = value(yes) if value(test) else value(no)
            case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.Set(elts=parts):
                result = _spread(parts, value)
                result = tuple(result) if isinstance(node, ast.Tuple) else set(result) if isinstance(node, ast.Set) else result
                self.charge(result)
            case ast.Dict(keys=keys, values=parts):
                result = {}
                for key, part in zip(keys, parts, strict=True):
                    result |= {value(key): value(part)} if key is not None else value(part)
                self.charge(result)
            case ast.Subscript(value=x, slice=ast.Slice(lower=lower, upper=upper, step=by)):
                holder, bounds = value(x), [None if bound is None else value(bound) for bound in (lower, upper, by)]
                result = _slice(holder, bounds)
                self.charge(result)
            case ast.Subscript(value=x, slice=index):
                result = _entry(value(x), value(index))
            case ast.Call(func=function, args=arguments, keywords=keywords):
                result = self._call(function, _spread(arguments, value), keywords, value)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                result = self._comprehension(node, names)
            case _:
                raise ValueError(f"{_kind(node)} is not allowed in an expression")
        self.nesting -= 1
        return result

    def _combine(self, op: ast.operator, x: Value, y: Value) -> Value:
        """x op y: on numbers, on two strings, lists, dicts or sets, and the repetition or formatting of a string."""
        self.charge(x, y)
        if isinstance(op, ast.Mod) and isinstance(x, str):
            result: Value = percent(x, y)
        else:
            if isinstance(op, ast.Mult) and (isinstance(x, SEQUENCES) or isinstance(y, SEQUENCES)):
                _fits(x, y)
            elif not any(isinstance(x, each) and isinstance(y, each) for each in JOINED.get(type(op), ())):
                _number(x, type(op).__name__)
                _number(y, type(op).__name__)
            result = ON_NUMBERS[type(op)](x, y)
            if isinstance(result, float) and math.isinf(result) and not (math.isinf(x) or math.isinf(y)):
                raise ValueError("the result is not finite")
        self.charge(result)
        return result

    def _compare(self, left: Value, signs: list[ast.cmpop], others: list[ast.expr], value: Callable[[ast.expr], Value]) -> bool:
        for sign, other in zip(signs, others, strict=True):
            if isinstance(sign, (ast.Is, ast.IsNot)) and not isinstance(other, ast.Constant):
                raise ValueError("'is' is only for None, True and False: write ==")
            right = value(other)
            self.charge(left, right)
            if not COMPARISONS[type(sign)](left, right):
                return False
            left = right
        return True

    def _call(
        self, node: ast.expr, arguments: list[Value], keywords: list[ast.keyword], value: Callable[[ast.expr], Value]
    ) -> Value:
        """The result of a function, by its name or behind a namespace, or of a method of a string, list, tuple, set or dict."""
        call: Callable[..., Value] | None = None
        if isinstance(node, ast.Attribute):
            holder = value(node.value)
            call = method(holder, _plain(node.attr))
            if call is not None:
                arguments = [holder, *arguments]
            elif not isinstance(holder, (Namespace, DottedDict)):
                known = [name for of, methods in METHODS.items() if isinstance(holder, of) for name in methods]
                raise ValueError(
                    f"a {kind(holder)} has no method {quoted(node.attr)} that is allowed{nearest(node.attr[:200], known)}"
                )
            else:
                node_value = _attribute(holder, node.attr)
        else:
            node_value = value(node)
        if call is None:
            if not isinstance(node_value, Function):
                raise ValueError(f"a {kind(node_value)} cannot be called")
            call = node_value.call
        named: dict[str, Value] = {}
        for keyword in keywords:
            given = value(keyword.value)
            named |= {_plain(keyword.arg): given} if keyword.arg is not None else {_plain(str(key)): given[key] for key in given}
        self.charge(arguments, named)
        result = call(*arguments, **named)
        self.charge(result)
        return result

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, names: Lookup) -> Value:
        """A list, set or dict made by loops; a generator is a list."""
        local: dict[str, Value] = {}
        pairs: dict[Value, Value] = {}
        found: list[Value] = []

        def inside(name: str) -> Value:
            return local[name] if name in local else names(name)

        def loop(level: int) -> None:
            if level == len(node.generators):
                if isinstance(node, ast.DictComp):
                    pairs[self._value(node.key, inside)] = self._value(node.value, inside)
                else:
                    found.append(self._value(node.elt, inside))
                if len(found) + len(pairs) > MAX_SIZE:
                    raise ValueError(f"a value has at most {MAX_SIZE:,} characters or entries")
                return
            generator = node.generators[level]
            values = self._value(generator.iter, inside if level else names)
            self.charge(values)
            for each in entries(values):
                self.step()
                _assign(generator.target, each, local)
                if all(self._value(condition, inside) for condition in generator.ifs):
                    loop(level + 1)

        if any(generator.is_async for generator in node.generators):
            raise ValueError("async is not allowed in an expression")
        loop(0)
        result = pairs if isinstance(node, ast.DictComp) else set(found) if isinstance(node, ast.SetComp) else found
        self.charge(result)
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


def _plain(name: str) -> str:
    if name.startswith("__"):
        raise ValueError(f"the name {quoted(name)} is not allowed")
    return name


def _near(name: str) -> str:
    near = nearest(name[:200], [*FUNCTIONS])
    return near if near.startswith(" (") else ""


def _attribute(holder: Value, name: str) -> Value:
    """An entry behind a dot: of a namespace, or of a dict from a YAML file."""
    if isinstance(holder, Namespace):
        return holder.entry(name)
    if isinstance(holder, DottedDict):
        return _entry(holder, name)
    raise ValueError(f"an attribute (x.{quoted(name)[1:-1]}) of a {kind(holder)} is not allowed")


def _spread(parts: list[ast.expr], value: Callable[[ast.expr], Value]) -> list[Value]:
    """The values of a list of expressions; *x stands for all entries of x."""
    values: list[Value] = []
    for part in parts:
        values += entries(value(part.value)) if isinstance(part, ast.Starred) else [value(part)]
        if len(values) > MAX_SIZE:
            raise ValueError(f"a value has at most {MAX_SIZE:,} characters or entries")
    return values


def _assign(target: ast.expr, value: Value, local: dict[str, Value]) -> None:
    """Give the names of a loop their values."""
    if isinstance(target, ast.Name):
        local[_plain(target.id)] = value
    elif isinstance(target, (ast.Tuple, ast.List)):
        parts = entries(value)
        if len(parts) != len(target.elts):
            raise ValueError(f"a loop over {len(target.elts)} names got {len(parts)} values")
        for inner, part in zip(target.elts, parts, strict=True):
            _assign(inner, part, local)
    else:
        raise ValueError("a loop gives its values to names")


def _fits(x: Value, y: Value) -> None:
    """Whether a string or list, repeated, is within bounds."""
    repeated, times = (y, x) if isinstance(x, int) else (x, y)
    if isinstance(times, int) and size(repeated) * max(times, 0) > 2 * MAX_SIZE:
        raise ValueError(f"a value has at most {MAX_SIZE:,} characters or entries")


def _number(x: Value, op: str) -> Value:
    if not isinstance(x, (int, float)):
        raise ValueError(f"{op} needs numbers, not {quoted(x) if isinstance(x, str) else 'a ' + kind(x)}")
    return x


def _entry(values: Value, index: Value) -> Value:
    if isinstance(values, (list, tuple, str)) and isinstance(index, int):
        if not -len(values) <= index < len(values):
            raise ValueError(f"there is no entry {index} in a {kind(values)} of {len(values)}")
        return values[index]
    if isinstance(values, dict) and isinstance(index, (int, float, str, tuple)):
        if index in values:
            return values[index]
        known = [str(key) for key in list(values)[:200]]
        raise ValueError(f"there is no entry {quoted(str(index))}{nearest(str(index)[:200], known)}")
    raise ValueError(f"{kind(values)}[{kind(index)}] is not allowed")


def _slice(values: Value, bounds: list[Value]) -> Value:
    if not isinstance(values, (list, tuple, str)) or not all(bound is None or isinstance(bound, int) for bound in bounds):
        raise ValueError(f"a slice of a {kind(values)} is not allowed")
    return values[slice(*bounds)]


def _kind(node: ast.AST) -> str:
    names = {"JoinedStr": "an f-string", "NamedExpr": ":=", "Lambda": "a lambda", "LShift": "a shift", "Await": "await"}
    return names.get(type(node).__name__, type(node).__name__.lower())
