"""Values of the expressions in a file, and their bounds: numbers, strings, lists, dicts and functions, each of a bounded size."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from condyle.robot.names import nearest, quoted

MAX_LEVELS = 20  # of lists in lists
MAX_BITS = 128  # of a whole number
MAX_SIZE = 65_536  # characters of a string, entries of a list with all its lists

# a number, a string, True, False, None, a list, tuple, set or dict of them, a Function or a Namespace
Value = Any


@dataclass(frozen=True)
class Function:
    """A function that an expression may call; it takes and returns values only."""

    name: str
    call: Callable[..., Value]


class Namespace:
    """Names behind a dot, as `math.pi`: `lookup` gives the value of a name, or raises KeyError."""

    def __init__(self, name: str, lookup: Callable[[str], Value], known: Callable[[], list[str]] = list) -> None:
        self.name, self.lookup, self.known = name, lookup, known

    def entry(self, name: str) -> Value:
        """The value of a name; ValueError when there is none."""
        try:
            return self.lookup(name)
        except KeyError:
            near = nearest(name[:200], self.known()[:500])
            raise ValueError(f"{quoted(self.name)[1:-1]} has no {quoted(name)}{near}") from None


class DottedDict(dict[Any, Any]):
    """A dict whose entries can also be written `d.key`: what a YAML file holds."""


def dotted(value: Value) -> Value:
    """The value with every dict in it readable by dots, as in xacro."""
    if isinstance(value, dict):
        return DottedDict((key, dotted(part)) for key, part in value.items())
    return [dotted(part) for part in value] if isinstance(value, list) else value


def entries(value: Value) -> list[Value]:
    """What a loop over the value visits; a set in a fixed order."""
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if isinstance(value, (list, tuple, str, dict)):
        return list(value)
    raise ValueError(f"a {kind(value)} has no entries to go through")


def kind(value: Value) -> str:
    """What a value is, in a sentence."""
    names = {"DottedDict": "dict", "NoneType": "None", "Function": "function", "Namespace": "namespace"}
    name = type(value).__name__
    return names.get(name, name)


def size(value: Value) -> int:
    """The number of characters and entries of a value with all its parts, if every part is within bounds."""
    total, waiting = 0, [(value, 0)]
    while waiting:
        part, level = waiting.pop()
        total += 1
        if level > MAX_LEVELS:
            raise ValueError(f"lists are nested deeper than {MAX_LEVELS} levels")
        if isinstance(part, str):
            total += len(part)
        elif isinstance(part, int):
            if part.bit_length() > MAX_BITS:
                raise ValueError(f"a whole number has at most {MAX_BITS} bits")
        elif isinstance(part, float):
            if math.isnan(part):
                raise ValueError("the result is not a number")
        elif isinstance(part, (list, tuple, set, dict)):
            if len(part) > MAX_SIZE:
                total += len(part)
            else:
                waiting.extend((inner, level + 1) for inner in _parts(part))
        elif not (part is None or isinstance(part, (Function, Namespace))):
            raise ValueError(f"a {kind(part)} is not allowed in an expression")
        if total + len(waiting) > 2 * MAX_SIZE or total > MAX_SIZE:
            raise ValueError(f"a value has at most {MAX_SIZE:,} characters or entries")
    return total


def _parts(value: Value) -> Iterator[Value]:
    if isinstance(value, dict):
        yield from value.keys()
        yield from value.values()
    else:
        yield from value


def text(value: Value) -> str:
    """The value as text, as Python writes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, (Function, Namespace)) or _holds(value, (set, Function, Namespace)):
        raise ValueError(f"a {kind(value)} cannot be written as text")
    written = str(value)
    if len(written) > MAX_SIZE:
        raise ValueError(f"a text has at most {MAX_SIZE:,} characters")
    return written


def _holds(value: Value, kinds: tuple[type, ...]) -> bool:
    if isinstance(value, kinds):
        return True
    return isinstance(value, (list, tuple, dict)) and any(_holds(part, kinds) for part in _parts(value))
