"""What expressions in a file may call: functions and methods that end soon, return values of a bounded size and read nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from string import Formatter

from condyle.robot import rounded
from condyle.robot.angles import FARTHEST, cos_sin, tangent
from condyle.robot.expression_values import MAX_BITS, MAX_SIZE, Function, Namespace, Value, dotted, entries, kind, size, text
from condyle.robot.fields import number
from condyle.robot.names import quoted

MAX_DIGITS = 100  # of a rounding
MAX_WHOLE = 64  # characters of a text read as a whole number


# -- numbers


def _round(x: Value, ndigits: Value = None) -> Value:
    if ndigits is not None and not (isinstance(ndigits, int) and abs(ndigits) <= MAX_DIGITS):
        raise ValueError(f"round() takes at most {MAX_DIGITS} digits")
    return round(x, ndigits)


def power(x: Value, y: Value) -> Value:
    """x to the y, when it is real and not too large."""
    if isinstance(x, int) and isinstance(y, int) and abs(x) > 1 and abs(y) * x.bit_length() > 2 * MAX_BITS:
        raise ValueError("the power is too large")
    result = x**y
    if isinstance(result, complex):
        raise ValueError("a broken power of a negative number")
    return rounded.power(x, y) if isinstance(result, float) else result


def _float(x: Value = 0.0) -> Value:
    if isinstance(x, str) and x.strip().lower().lstrip("+-") in ("inf", "infinity"):
        return float(x)
    return number(x) if isinstance(x, str) else float(x)


def _int(x: Value = 0, base: Value = None) -> Value:
    if isinstance(x, str) and len(x) > MAX_WHOLE:
        raise ValueError(f"int() takes a text of at most {MAX_WHOLE} characters")
    if base is not None:
        return int(x, base)
    return int(number(x)) if isinstance(x, str) else int(x)


def _cosine(x: Value) -> Value:
    return cos_sin(float(math.fabs(x)))[0] if abs(x) <= FARTHEST else math.cos(x)


def _sine(x: Value) -> Value:
    return math.copysign(1.0, x) * cos_sin(float(math.fabs(x)))[1] if abs(x) <= FARTHEST else math.sin(x)


def _tangent(x: Value) -> Value:
    return math.copysign(1.0, x) * tangent(float(math.fabs(x))) if abs(x) <= FARTHEST else math.tan(x)


def _number(x: Value) -> Value:
    if not isinstance(x, (int, float)):
        raise ValueError(f"it needs numbers, not a {kind(x)}")
    return x


def _sum(values: Value, start: Value = 0) -> Value:
    total = _number(start)
    for value in entries(values):
        total = total + _number(value)
    return total


def _product(values: Value) -> Value:
    total: Value = 1
    for value in entries(values):
        total = total * _number(value)
        size(total)
    return total


# -- lists, dicts and texts


def _range(*bounds: Value) -> Value:
    if not all(isinstance(bound, int) and bound.bit_length() <= MAX_BITS for bound in bounds):
        raise ValueError("range() takes whole numbers")
    numbers = range(*bounds)
    if len(numbers[: MAX_SIZE + 1]) > MAX_SIZE:
        raise ValueError(f"range() has at most {MAX_SIZE:,} numbers")
    return list(numbers)


def _called(function: Value) -> Callable[..., Value]:
    if not isinstance(function, Function):
        raise ValueError(f"a function is needed, not a {kind(function)}")
    return function.call


def _map(function: Value, *lists: Value) -> Value:
    return [_called(function)(*values) for values in zip(*map(entries, lists), strict=False)]


def _filter(function: Value, values: Value) -> Value:
    return [value for value in entries(values) if (value if function is None else _called(function)(value))]


def _sorted(values: Value, *, key: Value = None, reverse: Value = False) -> Value:
    return sorted(entries(values), key=None if key is None else _called(key), reverse=bool(reverse))


def _extreme(choose: Callable[..., Value]) -> Callable[..., Value]:
    def function(*values: Value, **options: Value) -> Value:
        if options.get("key") is not None:
            options["key"] = _called(options["key"])
        return choose(*([entries(values[0])] if len(values) == 1 else values), **options)

    return function


def _dict(pairs: Value = (), **more: Value) -> Value:
    return dict(dict(pairs) if isinstance(pairs, dict) else [tuple(entries(pair)) for pair in entries(pairs)], **more)


def _isinstance(value: Value, kinds: Value) -> bool:
    wanted = kinds if isinstance(kinds, (list, tuple)) else [kinds]
    return isinstance(value, tuple(TYPES[each.name] for each in wanted if isinstance(each, Function) and each.name in TYPES))


def _tokenize(value: Value, sep: Value = ",; ", skip_empty: Value = True) -> Value:
    """The parts of a text between any of the characters of `sep`."""
    parts = re.split(f"[{re.escape(sep)}]", value) if sep else [value]
    return [part for part in parts if part] if skip_empty else parts


TYPES: dict[str, type] = {"str": str, "float": float, "int": int, "bool": bool, "list": list, "dict": dict, "tuple": tuple}

# the same on every processor: rounded correctly, or made of operations that IEEE 754 fixes
MATHEMATICS: dict[str, Callable[..., Value]] = {
    **{"sin": _sine, "cos": _cosine, "tan": _tangent, "pow": power, "prod": _product},
    **{f.__name__: f for f in (rounded.asin, rounded.acos, rounded.atan, rounded.atan2, math.hypot, math.sqrt)},
    **{f.__name__: f for f in (rounded.exp, rounded.log, rounded.log10, rounded.sinh, rounded.cosh, rounded.tanh)},
    **{f.__name__: f for f in (math.fabs, math.radians, math.degrees, math.floor, math.ceil, math.trunc, math.fmod)},
    **{f.__name__: f for f in (math.copysign, math.isclose, math.isfinite, math.isinf, math.isnan, math.gcd, math.fsum)},
}
BUILTINS: dict[str, Callable[..., Value]] = {
    **{"list": lambda values=(): entries(values), "dict": _dict, "map": _map, "len": len, "str": lambda x="": text(x)},
    **{
        "float": _float,
        "int": _int,
        "bool": lambda x=False: bool(x),
        "min": _extreme(min),
        "max": _extreme(max),
        "round": _round,
    },
    **{"sorted": _sorted, "range": _range, "abs": lambda x: abs(_number(x)), "sum": _sum, "filter": _filter},
    **{"tuple": lambda values=(): tuple(entries(values)), "set": lambda values=(): set(entries(values))},
    **{"all": lambda values: all(entries(values)), "any": lambda values: any(entries(values)), "ord": ord},
    **{"enumerate": lambda values, start=0: list(enumerate(entries(values), start))},
    **{"divmod": lambda x, y: divmod(_number(x), _number(y)), "repr": lambda x: repr(x) if isinstance(x, str) else text(x)},
    **{"reversed": lambda values: entries(values)[::-1], "isinstance": _isinstance},
    **{"zip": lambda *lists: list(zip(*map(entries, lists), strict=False))},
}

FUNCTIONS = {name: Function(name, call) for name, call in {**MATHEMATICS, **BUILTINS}.items()}
CONSTANTS: dict[str, Value] = {
    **{"pi": math.pi, "e": math.e, "tau": math.tau, "inf": math.inf},
    **{"true": True, "false": False, "True": True, "False": False, "None": None},
}
_IN_MATH = {name: FUNCTIONS[name] for name in MATHEMATICS} | {name: CONSTANTS[name] for name in ("pi", "e", "tau", "inf")}
_IN_PYTHON = {name: FUNCTIONS[name] for name in BUILTINS} | {"True": True, "False": False}
GLOBALS: dict[str, Value] = {
    **CONSTANTS,
    **FUNCTIONS,
    "math": Namespace("math", _IN_MATH.__getitem__, lambda: list(_IN_MATH)),
    "python": Namespace("python", _IN_PYTHON.__getitem__, lambda: list(_IN_PYTHON)),
    "dotify": Function("dotify", dotted),
}
TOKENIZE = Function("tokenize", _tokenize)


# -- methods


def _join(separator: str, values: Value) -> str:
    parts = entries(values)
    if not all(isinstance(part, str) for part in parts):
        raise ValueError("join() takes a list of strings")
    _fits(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


def _replace(value: str, old: Value, new: Value, count: Value = -1) -> str:
    found = value.count(old) if count < 0 else min(count, value.count(old))
    _fits(len(value) + found * len(new))
    return value.replace(old, new, count)


def _padded(name: str) -> Callable[..., Value]:
    def method(value: str, width: Value, *fill: Value) -> Value:
        _fits(width)
        return getattr(str, name)(value, width, *fill)

    return method


def _fits(length: int) -> None:
    if length > MAX_SIZE:
        raise ValueError(f"a text has at most {MAX_SIZE:,} characters")


# {}, {0}, {name} with a format such as :.3f; no attributes, no indices, no formats from values
FIELD = re.compile(r"[0-9]{0,3}|[A-Za-z_][A-Za-z0-9_]*")
SPECIFICATION = re.compile(r"(?:.?[<>=^])?[-+ ]?#?0?[0-9]{0,3}[,_]?(?:\.[0-9]{1,3})?[bcdeEfFgGosxX%]?")
PERCENT = re.compile(r"%(?:\([A-Za-z0-9_]+\))?[-#0 +]{0,5}[0-9]{0,3}(?:\.[0-9]{0,3})?[diouxXeEfFgGcrs%]")


def _format(template: str, *values: Value, **named: Value) -> str:
    """`template.format(...)` for fields that are only numbered or named."""
    written, length, following = [], 0, 0
    for literal, name, specification, conversion in Formatter().parse(template):
        written.append(literal)
        length += len(literal)
        if name is not None:
            if (
                not FIELD.fullmatch(name)
                or not SPECIFICATION.fullmatch(specification or "")
                or conversion not in (None, "s", "r")
            ):
                raise ValueError(f"format() takes fields such as {{}}, {{0}} or {{name:.3f}}, not {quoted('{' + name + '}')}")
            index, following = (following, following + 1) if name == "" else (int(name) if name.isdigit() else 0, following)
            value = named[name] if name in named else values[index] if name == "" or name.isdigit() else _absent(name)
            if conversion is not None or not isinstance(value, (int, float, str)):
                value = repr(value) if conversion == "r" and isinstance(value, str) else text(value)
            written.append(format(value, specification or ""))
            length += len(written[-1])
        _fits(length)
    return "".join(written)


def _absent(name: str) -> Value:
    raise ValueError(f"format() has no value for {quoted('{' + name + '}')}")


def percent(template: str, values: Value) -> str:
    """`template % values` for widths and precisions of up to three digits."""
    fields = PERCENT.findall(template)
    if "%" in PERCENT.sub("", template):
        raise ValueError(f"{quoted(template)} has a % that is no simple field such as %d, %.3f or %s")
    _fits(len(template) + len(fields) * (1000 if not isinstance(values, dict) else 1000 + size(values)))
    given = values if isinstance(values, (tuple, dict)) else (values,)
    for value in given.values() if isinstance(given, dict) else given:
        text(value)
    return template % given


def _method(of: type, *names: str) -> dict[str, Callable[..., Value]]:
    return {name: getattr(of, name) for name in names}


TESTS = ("isdigit", "isalpha", "isalnum", "isdecimal", "isnumeric", "isspace", "isupper", "islower", "isidentifier")
METHODS: dict[type, dict[str, Callable[..., Value]]] = {
    str: {
        **_method(str, "split", "rsplit", "splitlines", "partition", "rpartition", "strip", "lstrip", "rstrip"),
        **_method(str, "lower", "upper", "title", "capitalize", "swapcase", "casefold", "removeprefix", "removesuffix"),
        **_method(str, "startswith", "endswith", "find", "rfind", "index", "rindex", "count", *TESTS),
        **{name: _padded(name) for name in ("zfill", "ljust", "rjust", "center")},
        **{"join": _join, "replace": _replace, "format": _format},
    },
    list: _method(list, "index", "count", "copy"),
    tuple: _method(tuple, "index", "count"),
    set: _method(set, "union", "intersection", "difference", "issubset", "issuperset"),
    dict: {
        **{"keys": lambda d: list(d.keys()), "values": lambda d: list(d.values())},
        **{"items": lambda d: list(d.items()), "get": lambda d, key, default=None: d.get(key, default), "copy": lambda d: d},
    },
    float: _method(float, "is_integer"),
}


def method(value: Value, name: str) -> Callable[..., Value] | None:
    """The method of a value, None when it has none of this name that may be called."""
    return next((methods[name] for of, methods in METHODS.items() if isinstance(value, of) and name in methods), None)
