"""One function for traced and for plain arrays: recorded where it is called, or compiled once per shape and called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import lru_cache, partial, wraps
from typing import Any, TypeVar, cast

import numpy as np

from condyle.errors import ShapeError
from condyle.tape.array import Array
from condyle.tape.scalar import Scalar, _Traced, caller, emit, number
from condyle.tape.table import Table, current

VECTORS = -1  # axes of a right-hand side: one or two
KEPT = 64  # compiled functions that are kept, one per function, shapes and options

F = TypeVar("F", bound=Callable[..., Any])


def for_arrays(**axes: int) -> Callable[[F], F]:
    """The function of traced arrays made callable on plain ones; `axes`: how many axes each array has without a batch.

    VECTORS means one or two: one if the array has one axis, or one axis less than the first array.
    """

    def decorate(record: F) -> F:
        signature = inspect.signature(record)

        @wraps(record)
        def call(*args: Any, **named: Any) -> Any:
            bound = signature.bind(*args, **named).arguments
            arrays = {name: as_array(bound[name]) for name in axes if bound.get(name) is not None}
            options = {name: value for name, value in bound.items() if name not in axes}
            leading = max(len(next(iter(arrays.values())).shape) - next(iter(axes.values())), 0)
            cores = {name: _core(record.__name__, name, a.shape, axes[name], leading) for name, a in arrays.items()}
            if any(isinstance(a, Table) or a.dtype == object for a in arrays.values()):
                for name, core in cores.items():
                    if len(core) != len(arrays[name].shape):
                        raise ShapeError(
                            f"{caller()}: linalg.{record.__name__} takes one traced '{name}', of shape {core}, got shape "
                            f"{arrays[name].shape}; a batch is the leading axes of the compiled function's arguments"
                        )
                return record(**arrays, **options)
            return _compiled(record, tuple(cores.items()), tuple(sorted(options.items())))(*arrays.values())

        return cast(F, call)

    return decorate


def as_array(x: Any) -> Any:
    """A plain array of numbers, an array of traced values and numbers, or a table."""
    if isinstance(x, _Traced):
        box = np.empty((), dtype=object)
        box[()] = x
        return box.view(Array)
    if isinstance(x, Table):
        return x
    array = np.asarray(x)
    return array.view(Array) if array.dtype == object else array


def _core(function: str, name: str, shape: tuple[int, ...], axes: int, leading: int) -> tuple[int, ...]:
    n = axes if axes != VECTORS else 1 if len(shape) <= 1 or (leading and len(shape) == leading + 1) else 2
    if len(shape) < n:
        wanted = {0: "a number", 1: "a vector", 2: "a matrix"}.get(n, f"an array of {n} axes")
        raise ShapeError(f"{caller()}: linalg.{function} needs {wanted} as '{name}', got shape {shape}")
    return shape[len(shape) - n :]


@lru_cache(maxsize=KEPT)
def _compiled(record: Callable[..., Any], shapes: tuple[tuple[str, Any], ...], options: tuple[tuple[str, Any], ...]) -> Any:
    from condyle.tape.function import function

    traced = partial(record, **dict(options))
    traced.__name__ = record.__name__  # type: ignore[attr-defined]
    return function(traced, **dict(shapes))


# ---- entries: all of them traced, so that numbers are folded exactly or not at all


def entries(x: Any) -> np.ndarray:
    """A plain array of traced scalars, numbers among them as constants of the trace."""
    array = np.asarray([x[i] for i in range(len(x))] if isinstance(x, Table) else x, dtype=object)
    made = np.empty(array.shape, dtype=object)
    graph = current()
    made.reshape(-1)[:] = [v if isinstance(v, Scalar) else Scalar(graph, graph.const(number(v))) for v in array.ravel().tolist()]
    return made


def scalar(x: Any) -> Scalar:
    """One entry."""
    return cast(Scalar, entries(x)[()])


def zeros(*shape: int) -> np.ndarray:
    """Entries that are structurally zero."""
    return entries(np.zeros(shape))


def traced(x: np.ndarray) -> Any:
    """The array as a user sees it; a scalar for an array without axes."""
    return x.view(Array) if x.ndim else x[()]


def fma(a: Scalar, b: Scalar, c: Scalar) -> Scalar:
    """a * b + c, rounded once; terms that are structurally zero are absent."""
    return emit("fma", a, b, c)


def dot(x: Any, y: Any) -> Any:
    """x0 y0 + x1 y1 + ..., from the first term to the last."""
    return plus_dot(x[0] * y[0], x[1:], y[1:])


def plus_dot(start: Any, x: Any, y: Any) -> Any:
    """start + x0 y0 + x1 y1 + ..., from the first term to the last."""
    for a, b in zip(x, y, strict=True):
        start = fma(a, b, start)
    return start


def less_dot(start: Any, x: Any, y: Any) -> Any:
    """start - x0 y0 - x1 y1 - ..., from the first term to the last."""
    for a, b in zip(x, y, strict=True):
        start = fma(-a, b, start)
    return start


def require_square(function: str, **matrices: np.ndarray) -> int:
    """The common size of square matrices."""
    sizes = {n for a in matrices.values() for n in a.shape}
    if len(sizes) != 1:
        given = ", ".join(f"{name} {a.shape}" for name, a in matrices.items())
        raise ShapeError(f"{caller()}: linalg.{function} needs square matrices of one size, got {given}")
    return cast(int, sizes.pop())


def require_rows(function: str, n: int, **arrays: np.ndarray) -> None:
    """Raise unless all arrays have n rows."""
    for name, a in arrays.items():
        if a.ndim < 1 or len(a) != n:
            raise ShapeError(f"{caller()}: linalg.{function} needs {n} rows in '{name}', got shape {a.shape}")
