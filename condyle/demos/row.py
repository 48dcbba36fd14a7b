"""One line of a verification: what was measured, and what it may be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Say = Callable[[str, int, int], object]  # (what, how many are done, of how many)


def silent(what: str, done: int, total: int) -> None:
    """Tells nobody."""


@dataclass(frozen=True)
class Row:
    """A number with its bounds; `value` is None where the check was not made, and `low` or `high` where there is no bound.

    `said` is a sentence to show in place of a number that means little by itself. A row without any bound is only told: it can
    not fail, and does not count as a check.
    """

    group: str
    check: str
    value: float | None
    unit: str = ""
    low: float | None = None
    high: float | None = None
    form: str = ".1e"
    said: str = ""

    @property
    def passed(self) -> bool | None:
        """None if the check was not made; a value that is not a number fails."""
        if self.value is None:
            return None
        above = self.low is None or self.value >= self.low
        return bool(np.isfinite(self.value) and above and (self.high is None or self.value <= self.high))

    @property
    def told(self) -> bool:
        """Whether this is a number without a bound: nothing that could fail."""
        return self.low is None and self.high is None and not self.said

    @property
    def counts(self) -> bool:
        """Whether this is a check that was made."""
        return self.value is not None and not self.told

    @property
    def bound(self) -> str:
        if self.said:
            return ""
        if self.low is not None and self.high is not None:
            middle, half = (self.low + self.high) / 2.0, (self.high - self.low) / 2.0
            if half == 0.0:
                return f"exactly {middle:{self.form}}"
            if 0.0 < half < 1e-3 * abs(middle):
                return f"{middle:{self.form}} ± {half:.2g}"
            return f"{self.low:g} to {self.high:g}"
        return f"at least {self.low:g}" if self.low is not None else f"at most {self.high:g}" if self.high is not None else ""

    @property
    def shown(self) -> str:
        if self.said:
            return self.said
        return "" if self.value is None else f"{self.value:{self.form}} {self.unit}".strip()

    def facts(self) -> dict[str, Any]:
        """As plain data."""
        numbers = {"value": self.value, "unit": self.unit, "low": self.low, "high": self.high}
        return {"group": self.group, "check": self.check, **numbers, "said": self.said, "told": self.told, "passed": self.passed}


def near(group: str, check: str, value: Any, wanted: float, within: float, unit: str = "", form: str = ".6g") -> Row:
    """A number that must be this one, but for so much."""
    return Row(group, check, float(value), unit, wanted - within, wanted + within, form)


def apart(group: str, check: str, found: Any, wanted: Any, unit: str = "", within: float = 1e-12) -> Row:
    """Numbers that must be these: the largest difference. One too many or too few fails, and so does one that is missing."""
    one, other = np.asarray(found, dtype=float), np.asarray(wanted, dtype=float)
    return Row(group, check, worst(one - other) if one.shape == other.shape else np.inf, unit, high=within)


def worst(values: Any) -> float:
    """The largest size of any entry."""
    return float(np.max(np.abs(values)))
