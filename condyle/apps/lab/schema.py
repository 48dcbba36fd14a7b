"""Tables of an experiment as frozen dataclasses whose fields carry a rule: type, range and unit of what a file may write there.

    @dataclass(frozen=True)
    class Rates(Table):
        physics: int = integer(4000, low=1, unit="Hz")

`read(Rates, {"physics": 4000}, "rates")` checks names, types and ranges, and so does `Rates(physics=4000)` in Python. Every error
is one sentence with table, key, what was wanted and what was given.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar, TypeVar

import numpy as np

from condyle.errors import ControlError
from condyle.robot.names import nearest, quoted

MAX_NUMBERS = 100_000  # of one list
MAX_TEXT = 1000  # characters
NAME = "letters, digits and _"


@dataclass(frozen=True)
class Rule:
    """What a key may hold. `kind`: "number", "numbers" (one or a list), "integer", "flag", "text", "texts", "points" (a list of
    lists of equal length), "table", "tables", "options" (a table of any numbers, texts and lists). None is allowed if it is the
    default."""

    kind: str
    low: float | None = None
    high: float | None = None
    above: float | None = None
    unit: str = ""
    choices: tuple[str, ...] = ()
    size: int | None = None
    optional: bool = False
    of: Any = None  # the class of a table

    def checked(self, value: Any) -> Any:
        """The value as the table holds it; ControlError with the end of a sentence that begins with the key."""
        if value is None:
            if self.optional:
                return None
            raise ControlError(f"must be {self.wanted()}, and is missing")
        return getattr(self, f"_{self.kind}")(value)

    def wanted(self) -> str:
        """What is expected, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        bounds = [
            *([f"from {self.low:g}"] if self.low is not None else []),
            *([f"above {self.above:g}"] if self.above is not None else []),
            *([f"up to {self.high:g}"] if self.high is not None else ["up"] if self.low is not None else []),
        ]
        words = {
            "number": "a number",
            "numbers": f"a list of {self.size} numbers" if self.size else "a number, or a list with one for each joint",
            "integer": "a whole number",
            "flag": "true or false",
            "text": "a text in quotes",
            "texts": "a list of texts",
            "points": "a list of points, each a list of numbers",
            "table": "a table",
            "tables": "a list of tables",
            "options": "a table",
        }[self.kind]
        unit = f" ({self.unit})" if self.unit else ""
        return f"{words}{' ' * bool(bounds)}{' '.join(bounds)}{unit}"

    def _wrong(self, value: Any) -> ControlError:
        return ControlError(f"must be {self.wanted()}, got {quoted(repr(value))}")

    def _one(self, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
            raise self._wrong(value)
        number = float(value)
        outside = (
            (self.low is not None and number < self.low)
            or (self.high is not None and number > self.high)
            or (self.above is not None and number <= self.above)
        )
        if not math.isfinite(number) or outside:
            raise self._wrong(value)
        return number

    def _number(self, value: Any) -> float:
        return self._one(value)

    def _integer(self, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
            raise self._wrong(value)
        self._one(value)
        return int(value)

    def _numbers(self, value: Any) -> float | tuple[float, ...]:
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, (list, tuple)):
            if self.size is not None:
                raise self._wrong(value)
            return self._one(value)
        if not value or len(value) > MAX_NUMBERS or (self.size is not None and len(value) != self.size):
            raise self._wrong(value)
        return tuple(self._one(each) for each in value)

    def _points(self, value: Any) -> tuple[tuple[float, ...], ...]:
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if not isinstance(value, (list, tuple)) or not value or len(value) > MAX_NUMBERS:
            raise self._wrong(value)
        rows = tuple(Rule("numbers", self.low, self.high, unit=self.unit)._numbers(each) for each in value)
        if not all(isinstance(row, tuple) and len(row) == len(rows[0]) for row in rows):  # type: ignore[arg-type]
            raise self._wrong(value)
        return rows  # type: ignore[return-value]

    def _flag(self, value: Any) -> bool:
        if not isinstance(value, bool):
            raise self._wrong(value)
        return value

    def _text(self, value: Any) -> str:
        if not isinstance(value, str) or len(value) > MAX_TEXT:
            raise self._wrong(value)
        if self.choices and value not in self.choices:
            raise ControlError(f"must be {self.wanted()}, got {quoted(value)}{_meant(value, self.choices)}")
        return value

    def _texts(self, value: Any) -> tuple[str, ...]:
        if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
            raise self._wrong(value)
        return tuple(value)

    def _table(self, value: Any) -> Any:
        if isinstance(value, self.of):
            return value
        if not isinstance(value, Mapping):
            raise self._wrong(value)
        return read(self.of, value)

    def _tables(self, value: Any) -> tuple[Any, ...]:
        if not isinstance(value, (list, tuple)):
            raise self._wrong(value)
        return tuple(self._table(each) for each in value)

    def _options(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            raise self._wrong(value)
        return {str(key): _plain(str(key), each) for key, each in value.items()}


def _plain(key: str, value: Any) -> Any:
    """A value of a free table: a flag, a text, a finite number, or lists of them."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        if not math.isfinite(value):
            raise ControlError(f"{key} must be a finite number, got {value!r}")
        return value
    if isinstance(value, list | tuple):
        return [_plain(key, each) for each in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(f"{key}.{name}", each) for name, each in value.items()}
    raise ControlError(f"{key} must be a number, a text, true, false or a list, got {type(value).__name__}")


def _meant(name: str, known: Sequence[str]) -> str:
    found = nearest(name, known)
    return found if "did you mean" in found else ""


class Table:
    """A table of an experiment: every field has a rule, and is checked when it is made. `header`: its name in the file."""

    header: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]
            rule: Rule = each.metadata["rule"]
            try:
                value = rule.checked(getattr(self, each.name))
            except ControlError as error:
                raise placed(error, self.header, each.name, rule) from None
            object.__setattr__(self, each.name, value)
        self.check()

    def check(self) -> None:
        """Raise a ControlError where fields do not fit together."""

    def data(self) -> dict[str, Any]:
        """The table as plain data, without what has its default: what a file would hold."""
        found: dict[str, Any] = {}
        for each in fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            default = each.default if each.default_factory is MISSING else each.default_factory()
            if value is None or value == default:
                continue
            found[each.name] = _data(value)
        return found


def _data(value: Any) -> Any:
    if isinstance(value, Table):
        return value.data()
    if isinstance(value, tuple | list):
        return [_data(each) for each in value]
    if isinstance(value, dict):
        return {name: _data(each) for name, each in value.items()}
    return value


T = TypeVar("T")


def read(kind: type[T], data: Mapping[str, Any], table: str | None = None) -> T:
    """The table of a class from plain data; ControlError for names that it does not have."""
    name = getattr(kind, "header", "") if table is None else table
    known = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    rest = getattr(kind, "rest", None)  # the field that takes all other keys
    free = [key for key in data if key not in known or key == rest]
    if rest is None and free:
        where = f"[{name}] " if name else ""
        raise ControlError(f"{where}has no key {quoted(str(free[0]))}{nearest(str(free[0]), known)}")
    given = {key: value for key, value in data.items() if key in known and key != rest}
    if rest is not None:
        given[rest] = {key: data[key] for key in free}
    missing = [each.name for each in fields(kind) if each.default is MISSING and each.default_factory is MISSING]  # type: ignore[arg-type]
    for key in missing:
        given.setdefault(key, None)
    return kind(**given)


def placed(error: ControlError, table: str, key: str, rule: Rule) -> ControlError:
    """The error with its table and key in front, once."""
    text = str(error)
    if rule.kind in ("table", "tables") and text.startswith("["):
        return error
    where = f"[{table}] " if table else ""
    return ControlError(f"{where}{key} {text}" if rule.kind != "options" else f"{where}{text}")


# -- fields


def number(default: Any = MISSING, *, low: Any = None, high: Any = None, above: Any = None, unit: str = "") -> Any:
    """A field for one number."""
    return _field(default, Rule("number", low, high, above, unit, optional=default is None))


def numbers(
    default: Any = MISSING, *, low: Any = None, high: Any = None, above: Any = None, unit: str = "", size: int | None = None
) -> Any:
    """A field for one number, or a list with one for each joint; with `size`, for a list of so many."""
    return _field(default, Rule("numbers", low, high, above, unit, size=size, optional=default is None))


def integer(default: Any = MISSING, *, low: Any = None, high: Any = None, unit: str = "") -> Any:
    """A field for a whole number."""
    return _field(default, Rule("integer", low, high, unit=unit, optional=default is None))


def flag(default: Any = MISSING) -> Any:
    """A field for true or false."""
    return _field(default, Rule("flag", optional=default is None))


def text(default: Any = MISSING, *, choices: Sequence[str] = ()) -> Any:
    """A field for a text, or for one of some words."""
    return _field(default, Rule("text", choices=tuple(choices), optional=default is None))


def texts(default: Any = ()) -> Any:
    """A field for a list of texts."""
    return _field(default, Rule("texts"))


def points(default: Any = None, *, unit: str = "") -> Any:
    """A field for a list of points."""
    return _field(default, Rule("points", unit=unit, optional=default is None))


def table(kind: type, *, optional: bool = True) -> Any:
    """A field for a table of a class; by default None, or the table with its defaults."""
    rule = Rule("table", of=kind, optional=optional)
    return field(default=None, metadata={"rule": rule}) if optional else field(default_factory=kind, metadata={"rule": rule})


def tables(kind: type) -> Any:
    """A field for a list of tables of a class."""
    return _field((), Rule("tables", of=kind))


def options() -> Any:
    """A field for a table of free names."""
    return field(default_factory=dict, metadata={"rule": Rule("options")})


def _field(default: Any, rule: Rule) -> Any:
    return field(metadata={"rule": rule}) if default is MISSING else field(default=default, metadata={"rule": rule})
