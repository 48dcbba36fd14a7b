"""Derivative rules around linear algebra: what is constant in a trace stays so on both sides of the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from condyle.tape.custom import custom_jvp
from condyle.tape.pytree import flatten
from condyle.tape.scalar import constant

Rule = Callable[[Any, Any, Any], Any]


def with_rule(function: Callable[..., Any], rule: Rule) -> Callable[..., Any]:
    """custom_jvp(function, rule) that passes only values that are not constants, so that structural zeros are seen and given.

    Constants have the tangent zero, and a result that is a constant has none.
    """

    def call(*args: Any) -> Any:
        leaves, rebuild, _ = flatten(args)
        known = [constant(x) for x in leaves]
        free = [x for x, value in zip(leaves, known, strict=True) if value is None]
        if not free:
            return function(*args)
        results: dict[str, Any] = {}

        def arguments(values: list[Any], others: list[Any]) -> Any:
            given = iter(values)
            return rebuild([next(given) if value is None else other for value, other in zip(known, others, strict=True)])

        def body(*values: Any) -> list[Any]:
            found, make, _ = flatten(function(*arguments(list(values), known)))
            fixed = [constant(x) for x in found]
            results.update(make=make, fixed=fixed)
            return [x for x, value in zip(found, fixed, strict=True) if value is None]

        def complete(values: list[Any]) -> Any:
            given = iter(values)
            return results["make"]([next(given) if value is None else value for value in results["fixed"]])

        def derivative(values: Any, found: Any, tangents: Any) -> list[Any]:
            zero = [0.0] * len(known)
            moved = rule(arguments(list(values), known), complete(found), arguments(list(tangents), zero))
            leaves, _, _ = flatten(moved)
            return [x for x, value in zip(leaves, results["fixed"], strict=True) if value is None]

        return complete(custom_jvp(body, derivative)(*free))

    return call
