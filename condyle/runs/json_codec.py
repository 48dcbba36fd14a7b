"""Plain JSON data: numbers written down exactly, and everything read back checked, with the place of the first fault.

JSON gives back every float exactly. What it lacks is marked: "inf" and "-inf", and {"float64": x} for NumPy's own floats, which
print differently from Python's, so that a hash of the text of a robot stays the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")

MOST_LETTERS = 20_000  # of one name or sentence
MOST_ITEMS = 100_000  # of one list
DEEPEST = 64  # lists and tables inside each other
ENDLESS = {"inf": math.inf, "-inf": -math.inf}


class Unwritable(ValueError):
    """Something that cannot be written down as plain data; the message is half a sentence that says what."""


class Wrong(ValueError):
    """Data that is not what was written; the message says where and what."""


# ---- to data


def data_of(number: Any) -> Any:
    """A number as JSON can hold it."""
    if isinstance(number, bool | np.bool_):
        raise Unwritable(f"{number!r} is not a number")
    if isinstance(number, np.integer):
        return {"int64": int(number)}
    if isinstance(number, np.floating) and not math.isnan(number):
        return {"float64": data_of(float(number))}
    if isinstance(number, int):
        return number
    if not isinstance(number, float) or math.isnan(number):
        raise Unwritable(f"{number!r:.40} is not a number that a file can hold")
    return number if math.isfinite(number) else "inf" if number > 0.0 else "-inf"


def optional(number: Any) -> Any:
    """A number, or None."""
    return None if number is None else data_of(number)


def table(array: Any) -> Any:
    """An array of finite numbers as nested lists."""
    floats = np.asarray(array, dtype=float)
    if not np.all(np.isfinite(floats)):
        raise Unwritable("an array with entries that are not finite")
    return floats.tolist()


def text_of(data: Any) -> bytes:
    """JSON of plain data, without any number that is not finite; Unwritable if it would not come back equal."""
    try:
        text = json.dumps(data, allow_nan=False, separators=(",", ":"))
        same = not deep(data) and json.loads(text) == data
    except (ValueError, TypeError, RecursionError):
        same = False
    if not same:
        raise Unwritable(
            "data that JSON does not give back: take strings, finite numbers, lists and dicts with string keys, "
            f"at most {DEEPEST} inside each other"
        )
    return text.encode()


# ---- from data


def from_text(text: bytes | str) -> Any:
    """The data of a JSON text; Wrong for any other text, and for NaN and Infinity."""

    def refuse(word: str) -> Any:
        raise Wrong(f"{word} is not a number")

    try:
        data = json.loads(text, parse_constant=refuse)
        if deep(data):
            raise Wrong(f"more than {DEEPEST} lists and tables inside each other")
        return data
    except Wrong:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        raise Wrong(f"not JSON ({str(error) or type(error).__name__:.60})") from None


def deep(data: Any) -> bool:
    """Whether lists and tables are nested deeper than anything that walks through them may go."""
    level = [data]
    for _ in range(DEEPEST + 1):
        inside = [list(item.values()) if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        if not inside:
            return False
        level = [item for row in inside for item in row]
    return True


def printable(text: str) -> str:
    """A text of a file as a terminal may get it: whatever is not seen, such as an escape, is spelt out."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def entry(data: Any, name: str, where: str) -> Any:
    """data[name] of a dict."""
    if not isinstance(data, dict):
        raise Wrong(f"{where} is not a table of names and values")
    if name not in data:
        raise Wrong(f"{where} has no '{name}'")
    return data[name]


def number(data: Any, where: str, *, endless: bool = False) -> Any:
    """A number as `data_of` wrote it, finite unless it may be endless."""
    if isinstance(data, dict) and len(data) == 1 and next(iter(data)) in ("float64", "int64"):
        kind, inner = next(iter(data.items()))
        found = number(inner, where, endless=endless) if not isinstance(inner, dict) else None
        if kind == "int64" and type(found) is int and abs(found) < 1 << 63:
            return np.int64(found)
        if kind == "float64" and type(found) is float:
            return np.float64(found)
    if endless and isinstance(data, str) and data in ENDLESS:
        return ENDLESS[data]
    if type(data) is float and math.isfinite(data):
        return data
    if type(data) is int and abs(data) < 1 << 63:
        return data
    raise Wrong(f"{where} is not a finite number")


def maybe(data: Any, where: str, *, endless: bool = False) -> Any:
    """A number, or None."""
    return None if data is None else number(data, where, endless=endless)


def whole(data: Any, where: str, least: int, most: int) -> int:
    """A whole number between two others."""
    if type(data) is not int or not least <= data <= most:
        raise Wrong(f"{where} is not a whole number from {least:,} to {most:,}")
    return data


def truth(data: Any, where: str) -> bool:
    if not isinstance(data, bool):
        raise Wrong(f"{where} is neither true nor false")
    return data


def text(data: Any, where: str) -> str:
    if not isinstance(data, str) or len(data) > MOST_LETTERS:
        raise Wrong(f"{where} is not a text of at most {MOST_LETTERS:,} letters")
    if any("\ud800" <= letter <= "\udfff" for letter in data):
        raise Wrong(f"{where} has half a letter")
    return data


def items(data: Any, where: str, read: Callable[[Any, str], T], most: int = MOST_ITEMS) -> tuple[T, ...]:
    """Each item of a list, read."""
    if not isinstance(data, list) or len(data) > most:
        raise Wrong(f"{where} is not a list of at most {most:,}")
    return tuple(read(item, f"{where}[{k}]") for k, item in enumerate(data))


def array(data: Any, where: str, shape: Sequence[int]) -> np.ndarray:
    """Finite numbers in nested lists of this shape."""
    if not shape:
        return np.float64(number(data, where))  # type: ignore[return-value]
    rows = items(data, where, lambda row, at: array(row, at, shape[1:]), most=shape[0])
    if len(rows) != shape[0]:
        raise Wrong(f"{where} has {len(rows)} entries, not {shape[0]}")
    return np.array(rows, dtype=float)
