"""Inequalities of a stage, lower <= h(x, u) <= upper: bounds on named parts and on functions, hard or soft."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.methods.mpc.space import Space, part_named
from condyle.tape.array import array

FUNCTION = "constraints"


@dataclass(frozen=True)
class Side:
    """One side of an inequality: sign h[row] <= sign bound, with the weights of its slack in the cost.

    A slack e >= 0 costs l1 e + l2 e^2 / 2; a hard side has l2 = inf. A hard equality has both bounds in one.
    """

    row: int
    sign: float
    l1: float
    l2: float
    equality: bool = False
    of_state: bool = False  # of the state alone: nothing to decide in the first stage


@dataclass(frozen=True)
class Constraints:
    """h(x, u) in the order of `names`, with default bounds (rows,)."""

    names: tuple[str, ...]  # of each row
    picks: tuple[tuple[int, int, int], ...]  # (row, space, entry): bounds on single entries
    function: Callable[..., Any] | None
    outputs: tuple[tuple[str, int], ...]  # (name, size) of what the function gives, in its order
    lower: np.ndarray
    upper: np.ndarray
    sides: tuple[Side, ...]

    @property
    def rows(self) -> int:
        """Entries of h."""
        return len(self.names)

    def values(self, x: Any, u: Any, p: Any) -> Any:
        """h(x, u)."""
        spaces = (x, u)
        found = [spaces[space][entry] for _, space, entry in self.picks]
        if self.function is not None:
            given = self.function(*((x, u, p) if u is not None else (x, p)))
            found += [each for value in _named(given).values() for each in np.ravel(np.asarray(value, dtype=object))]
        return array(found)

    def place(self, name: str) -> slice:
        """The rows of the part or function output with this name."""
        rows = [k for k, each in enumerate(self.names) if each == name]
        if not rows:
            known = ", ".join(dict.fromkeys(self.names)) or "none"
            raise ControlError(f"there are no bounds on '{name}'; bounded are {known}")
        return slice(rows[0], rows[-1] + 1)


NO_CONSTRAINTS = Constraints((), (), None, (), np.zeros(0), np.zeros(0), ())


def constraints(
    states: Space,
    controls: Space | None,
    function: Callable[..., Any] | None,
    sizes: Mapping[str, int],
    bounds: Mapping[str, Any] | None,
    soft: Mapping[str, Any] | None,
    *,
    what: str = "bounds",
) -> Constraints:
    """The constraints of a stage, or of the final state if there are no controls.

    `sizes`: of the outputs of `function`, by name. `bounds`: {name: b} for |.| <= b, or {name: (low, high)}, None for no bound.
    """
    bounds, soft = dict(bounds or {}), dict(soft or {})
    spaces = [states] if controls is None else [states, controls]
    names: list[str] = []
    picks: list[tuple[int, int, int]] = []
    lower: list[float] = []
    upper: list[float] = []
    sides: list[Side] = []
    for name in [n for n in bounds if n not in sizes] + list(sizes):
        if name in sizes:
            if name not in bounds:
                raise ControlError(f"{FUNCTION}: '{name}' has no bounds; give {what}={{'{name}': (low, high)}}")
            count, of_state = sizes[name], controls is None
        else:
            space, own, tangent = part_named(name, *spaces)
            count, of_state = own.stop - own.start, space == 0
            if count != tangent.stop - tangent.start:
                raise ControlError(f"{what}: '{name}' is a rotation, which has no bounds entry by entry; bound a function of it")
            picks += [(len(names) + k, space, own.start + k) for k in range(count)]
        low, high = _interval(what, name, bounds[name], count)
        l1, l2 = _weights(name, soft[name]) if name in soft else (0.0, np.inf)
        for k in range(count):
            row = len(names)
            names.append(name)
            lower.append(float(low[k]))
            upper.append(float(high[k]))
            if low[k] == high[k] and np.isinf(l2):
                sides.append(Side(row, 1.0, 0.0, np.inf, equality=True, of_state=of_state))
                continue
            finite = [(sign, b) for sign, b in ((1.0, high[k]), (-1.0, low[k])) if np.isfinite(b)]
            sides += [Side(row, sign, l1, l2, of_state=of_state) for sign, _ in finite]
    known = tuple((n, sizes[n]) for n in sizes)
    return Constraints(tuple(names), tuple(picks), function, known, np.array(lower), np.array(upper), tuple(sides))


def output_sizes(given: Any) -> dict[str, int]:
    """{name: size} of what a constraint function returned: a dict of arrays, or one array called "constraints"."""
    return {name: int(np.size(np.asarray(value, dtype=object))) for name, value in _named(given).items()}


def _named(given: Any) -> dict[str, Any]:
    return dict(given) if isinstance(given, Mapping) else {FUNCTION: given}


def _interval(what: str, name: str, given: Any, count: int) -> tuple[np.ndarray, np.ndarray]:
    try:
        if isinstance(given, (tuple, list)) and len(given) == 2:
            low, high = (
                np.broadcast_to(np.asarray(default if b is None else b, dtype=float), (count,))
                for b, default in zip(given, (-np.inf, np.inf), strict=True)
            )
        else:
            high = np.broadcast_to(np.asarray(given, dtype=float), (count,))
            low = -high
    except (TypeError, ValueError):
        raise ControlError(
            f"{what}: '{name}' takes a number b for |{name}| <= b, or a pair (low, high) of numbers or arrays of {count}, "
            f"None for no bound; got {given!r:.60}"
        ) from None
    if np.isnan(low).any() or np.isnan(high).any():
        raise ControlError(f"{what}: '{name}' has a bound that is NaN; use None for no bound")
    bad = np.flatnonzero(low > high)
    if len(bad):
        k = int(bad[0])
        raise ControlError(f"{what}: '{name}'[{k}] has its lower bound {low[k]:g} above its upper bound {high[k]:g}")
    return low, high


def _weights(name: str, given: Any) -> tuple[float, float]:
    """(l1, l2) of soft={name: l2} or {name: (l1, l2)}."""
    l1, l2 = given if isinstance(given, (tuple, list)) and len(given) == 2 else (0.0, given)
    if not all(isinstance(w, (int, float)) and np.isfinite(w) and w >= 0.0 for w in (l1, l2)) or l1 + l2 <= 0.0:
        raise ControlError(
            f"soft: '{name}' takes the weight l2 of its squared slack, or (l1, l2), positive and finite; got {given!r:.60}"
        )
    return float(l1), float(l2)
