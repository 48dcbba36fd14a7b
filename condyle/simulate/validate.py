"""Checks of numbers that users pass: finite Python floats, or a SimulationError that says what was wanted."""

from __future__ import annotations

import math
from typing import Any

from condyle.errors import SimulationError


def finite(what: str, name: str, given: Any) -> float:
    """The finite number given as `name` of `what`."""
    try:
        number = math.nan if isinstance(given, (str, bytes)) else float(given)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise SimulationError(f"{what}: {name} must be a finite number, got {given!r:.60}")
    return number


def finites(what: str, name: str, given: Any, count: int) -> tuple[float, ...]:
    """The `count` finite numbers given as `name` of `what`."""
    try:
        entries = list(given)
    except TypeError:
        entries = []
    if len(entries) != count:
        raise SimulationError(f"{what}: {name} must be {count} finite numbers, got {given!r:.60}")
    return tuple(finite(what, f"{name}[{i}]", x) for i, x in enumerate(entries))


def not_negative(what: str, name: str, given: Any) -> float:
    """The finite number from zero up given as `name` of `what`."""
    number = finite(what, name, given)
    if number < 0.0:
        raise SimulationError(f"{what}: {name} must not be negative, got {number!r}")
    return number


def positive(what: str, name: str, given: Any) -> float:
    """The finite number above zero given as `name` of `what`."""
    number = finite(what, name, given)
    if number <= 0.0:
        raise SimulationError(f"{what}: {name} must be greater than zero, got {number!r}")
    return number


def integer(what: str, name: str, given: Any, minimum: int) -> int:
    """The whole number from `minimum` up given as `name` of `what`."""
    number = finite(what, name, given)
    if number != int(number) or number < minimum:
        raise SimulationError(f"{what}: {name} must be a whole number from {minimum} up, got {given!r:.60}")
    return int(number)


def assign(instance: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass while it is made."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)
