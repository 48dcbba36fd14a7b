"""Frozen dataclasses as JSON and back, by the types of their fields: every number exactly, every entry checked when read.

    encode(value)              dataclasses, enums, arrays, tuples, mappings, numbers, texts, paths and None as JSON data
    decode(kind, data, where)  a value of the type `kind`; a DecodeError says where the data is wrong, and how

A dataclass is {"type": its name, field: value, ...}; only classes that the expected type names are constructed, so nothing in a
file chooses what is executed. JSON gives back every float exactly. What it lacks is marked: "inf" and "-inf", and {"float64": x}
for NumPy's floats, whose repr differs from Python's, so that a hash of the text of a robot stays the same.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from condyle.errors import CondyleError

T = TypeVar("T")

MAX_TEXT = 20_000  # characters of one name or sentence
MAX_ITEMS = 100_000  # of one list
MAX_DEPTH = 64  # lists and objects inside each other
INFINITE = {"inf": math.inf, "-inf": -math.inf}
KEPT = 1e-12  # how far a constructor may move a vector that it scales to length 1 again


class EncodeError(ValueError):
    """Something that a file cannot hold; the message says where and what."""


class DecodeError(ValueError):
    """Data that is not what was expected; the message says where and what."""


@dataclass(frozen=True)
class Floats:
    """The type of an array of finite numbers; None in `shape` is any size."""

    shape: tuple[int | None, ...]


class Infinite:
    """The type of a number that may be infinite."""


# ---- to data


def encode(value: Any, where: str = "data") -> Any:
    """The value as JSON data; an EncodeError if it holds a function, an unknown class, or a number that is NaN."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, np.ndarray):
        if value.dtype.kind not in "fiu" or not np.isfinite(value).all():
            raise EncodeError(f"{where} is an array with entries that are not finite numbers")
        return value.astype(float).tolist()
    if isinstance(value, int | float | np.integer | np.floating):
        return encode_number(value, where)
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, slice):
        return [value.start, value.stop]
    if isinstance(value, tuple | list):
        return [encode(item, f"{where}[{k}]") for k, item in enumerate(value)]
    if isinstance(value, Mapping):
        return {str(key): encode(item, f"{where}.{key}") for key, item in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value) if field.init]
        return {"type": type(value).__name__, **{name: encode(getattr(value, name), f"{where}.{name}") for name in names}}
    raise EncodeError(f"{where} is a {'function' if callable(value) else type(value).__name__}, which a file cannot hold")


def encode_number(number: Any, where: str) -> Any:
    """A number as JSON holds it, with its type: int, float, NumPy's int64 or float64."""
    if isinstance(number, np.integer):
        return {"int64": int(number)}
    if isinstance(number, np.floating):
        return {"float64": encode_number(float(number), where)}
    if math.isnan(number):
        raise EncodeError(f"{where} is not a number")
    return number if math.isfinite(number) else "inf" if number > 0.0 else "-inf"


def dumps(data: Any) -> bytes:
    """The JSON text of data; an EncodeError if it would not come back equal."""
    try:
        text = json.dumps(data, allow_nan=False, separators=(",", ":"))
        same = not too_deep(data) and json.loads(text) == data
    except (ValueError, TypeError, RecursionError):
        same = False
    if not same:
        raise EncodeError(
            "data that JSON does not give back: take strings, finite numbers, lists and dicts with string keys, "
            f"at most {MAX_DEPTH} inside each other"
        )
    return text.encode()


# ---- from data


def loads(text: bytes | str) -> Any:
    """The data of a JSON text; a DecodeError for any other text, and for NaN and Infinity."""

    def refuse(word: str) -> Any:
        raise DecodeError(f"{word} is not a number")

    try:
        data = json.loads(text, parse_constant=refuse)
    except DecodeError:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        raise DecodeError(f"not JSON ({str(error) or type(error).__name__:.60})") from None
    if too_deep(data):
        raise DecodeError(f"more than {MAX_DEPTH} lists and objects inside each other")
    return data


def too_deep(data: Any) -> bool:
    """Whether lists and objects are nested more than MAX_DEPTH deep."""
    level = [data]
    for _ in range(MAX_DEPTH + 1):
        inside = [list(item.values()) if isinstance(item, dict) else item for item in level if isinstance(item, dict | list)]
        if not inside:
            return False
        level = [item for row in inside for item in row]
    return True


def printable(text: str) -> str:
    """A text of a file as a terminal may get it: control characters, such as escapes, are spelt out."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def entry(data: Any, name: str, where: str) -> Any:
    """data[name] of an object."""
    if not isinstance(data, dict):
        raise DecodeError(f"{where} is not an object with names and values")
    if name not in data:
        raise DecodeError(f"{where} has no '{name}'")
    return data[name]


def build(where: str, make: Callable[[], T]) -> T:
    """What `make` returns; its errors about the data as a DecodeError."""
    try:
        return make()
    except DecodeError:
        raise
    except CondyleError as error:
        raise DecodeError(f"{where} cannot be built: {error}") from error
    except (ValueError, ArithmeticError, LookupError, TypeError) as error:
        raise DecodeError(f"{where} cannot be built ({str(error) or type(error).__name__:.80})") from error


def decode(kind: Any, data: Any, where: str, overrides: Mapping[tuple[type, str], Any] | None = None) -> Any:
    """The value of the type `kind` in JSON data; `overrides`: types of fields that an annotation does not say exactly."""
    fields = overrides or {}
    if kind is Any:
        return data
    if kind is NoneType or kind is None:
        return _expect(data is None, data, where, "null")
    if kind in (float, Infinite):
        return decode_number(data, where, infinite=kind is Infinite)
    if kind is int:
        return _expect(type(data) is int and abs(data) < 1 << 63, data, where, "a whole number")
    if kind is bool:
        return _expect(isinstance(data, bool), data, where, "true or false")
    if kind is str:
        return decode_text(data, where)
    if kind is Path:
        return Path(_expect("\0" not in decode_text(data, where), data, where, "the name of a file"))
    if kind is slice:
        return slice(*decode(tuple[int, int], data, where))
    if isinstance(kind, Floats):
        return _decode_array(kind.shape, data, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind[_expect(data in kind.__members__, data, where, f"one of {', '.join(kind.__members__)}")]
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, data, where, fields)
    origin, args = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return decode(_member(args, data, where), data, where, fields)
    if origin is Literal:
        return _expect(data in args, data, where, f"one of {', '.join(map(str, args))}")
    if origin is dict or (isinstance(origin, type) and issubclass(origin, Mapping)):
        _expect(isinstance(data, dict) and len(data) <= MAX_ITEMS, data, where, "an object with names and values")
        return {decode_text(k, where): decode(args[1], item, f"{where}.{k:.40}", fields) for k, item in data.items()}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        _expect(isinstance(data, list) and len(data) <= MAX_ITEMS, data, where, f"a list of at most {MAX_ITEMS:,}")
        kinds = args[:1] * len(data) if origin is not tuple or args[1:] == (...,) else args
        if len(kinds) != len(data):
            raise DecodeError(f"{where} has {len(data)} entries, not {len(kinds)}")
        return tuple(decode(k, item, f"{where}[{n}]", fields) for n, (k, item) in enumerate(zip(kinds, data, strict=True)))
    raise TypeError(f"{where}: a codec for {kind} is missing")


def decode_number(data: Any, where: str, *, infinite: bool = False) -> Any:
    """A number as `encode_number` wrote it; finite unless it may be infinite."""
    if isinstance(data, dict) and len(data) == 1 and next(iter(data)) in ("float64", "int64"):
        kind, inner = next(iter(data.items()))
        found = decode_number(inner, where, infinite=infinite) if not isinstance(inner, dict) else None
        if kind == "int64" and type(found) is int:
            return np.int64(found)
        if kind == "float64" and type(found) is float:
            return np.float64(found)
    if infinite and isinstance(data, str) and data in INFINITE:
        return INFINITE[data]
    good = (type(data) is float and math.isfinite(data)) or (type(data) is int and abs(data) < 1 << 63)
    return _expect(good, data, where, "a finite number")


def decode_text(data: Any, where: str) -> str:
    """A text of limited length, without half of a surrogate pair."""
    if not isinstance(data, str) or len(data) > MAX_TEXT or any("\ud800" <= letter <= "\udfff" for letter in data):
        raise DecodeError(f"{where} is not a text of at most {MAX_TEXT:,} characters")
    return data


def _expect(condition: bool, data: Any, where: str, wanted: str) -> Any:
    if not condition:
        raise DecodeError(f"{where} is not {wanted}, but {data!r:.40}")
    return data


def _decode_array(shape: Sequence[int | None], data: Any, where: str) -> Any:
    if not shape:
        return float(decode_number(data, where))
    _expect(isinstance(data, list) and len(data) <= MAX_ITEMS, data, where, "a list of numbers")
    if shape[0] is not None and len(data) != shape[0]:
        raise DecodeError(f"{where} has {len(data)} entries, not {shape[0]}")
    rows = [_decode_array(shape[1:], row, f"{where}[{k}]") for k, row in enumerate(data)]
    return build(where, lambda: np.array(rows, dtype=float))


def _member(kinds: Sequence[Any], data: Any, where: str) -> Any:
    """The type of a union to which the data belongs."""
    if data is None and NoneType in kinds:
        return NoneType
    kinds = [kind for kind in kinds if kind is not NoneType]
    if len(kinds) == 1:
        return kinds[0]
    classes: dict[str, Any] = {getattr(kind, "__name__", ""): kind for kind in kinds if dataclasses.is_dataclass(kind)}
    if classes and isinstance(data, dict):
        name = entry(data, "type", where)
        _expect(isinstance(name, str) and name in classes, name, f"{where}.type", f"one of {', '.join(classes)}")
        return classes[name]
    wanted = tuple if isinstance(data, list) else type(data)
    for kind in kinds:
        if (get_origin(kind) or kind) is wanted or (kind is float and wanted in (int, dict)):
            return kind
    raise DecodeError(f"{where} is not {' or '.join(getattr(kind, '__name__', str(kind)) for kind in kinds)}, but {data!r:.40}")


@cache
def _field_types(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls) if field.init}


def _decode_dataclass(cls: Any, data: Any, where: str, overrides: Mapping[tuple[type, str], Any]) -> Any:
    """An instance of `cls` with exactly the fields of the data."""
    name, kinds = entry(data, "type", where), _field_types(cls)
    _expect(name == cls.__name__, name, f"{where}.type", cls.__name__)
    if unknown := data.keys() - kinds.keys() - {"type"}:
        raise DecodeError(f"{where} has '{min(unknown):.40}', which a {cls.__name__} does not have")
    values = {
        field: decode(overrides.get((cls, field), kind), entry(data, field, where), f"{where}.{field}", overrides)
        for field, kind in kinds.items()
    }
    made = build(where, lambda: cls(**values))
    # a constructor may scale a unit vector again, which changes its last bit: keep the one of the file
    for field, value in values.items():
        if isinstance(value, tuple) and (kept := getattr(made, field)) != value:
            same = len(kept) == len(value) and all(isinstance(x, float) for x in (*kept, *value))
            if not same or max(abs(a - b) for a, b in zip(kept, value, strict=True)) > KEPT:
                raise DecodeError(f"{where}.{field} is not as a {cls.__name__} keeps it, {kept!r:.60}")
            object.__setattr__(made, field, value)
    return made
