"""NumPy on traced values: an array class whose comparisons, `np.where`, `np.maximum`, ... are recorded like arithmetic."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from condyle.errors import TraceError
from condyle.tape.graph import Graph
from condyle.tape.ops import OPS
from condyle.tape.scalar import Bool, Lazy, Scalar, _Traced, caller, emit


class Array(np.ndarray):
    """An array of traced values; NumPy functions on it give arrays of traced values."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return apply_ufunc(ufunc, method, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return apply_function(function, args, options)


def array(values: Any) -> Array:
    """An array of traced values from nested lists, plain arrays of traced values, or numbers."""
    made: Array = _objects(values).view(Array)
    return made


def assemble(scalars: list[Any], shape: tuple[int, ...]) -> Any:
    """The scalars as an array of the given shape; a bare scalar for shape ()."""
    if shape == ():
        return scalars[0]
    entries = np.empty(len(scalars), dtype=object)
    entries[:] = scalars
    return entries.reshape(shape).view(Array)


def where(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds, else `b`, entry by entry. Both are computed; the choice is made for each lane."""
    with np.errstate(all="ignore"):
        return _wrap(_where(_objects(condition), _objects(a), _objects(b)))


def select(condition: Any, a: Any, b: Any) -> Any:
    """`where` that stays with NumPy's numbers if the condition is one of numbers."""
    plain = isinstance(condition, bool) or getattr(getattr(condition, "dtype", None), "kind", "O") == "b"
    return np.where(condition, a, b) if plain else where(condition, a, b)


def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once."""
    return _wrap(_fma(_objects(a), _objects(b), _objects(c)))


def isfinite(x: Any) -> Any:
    """Whether `x` is neither infinite nor NaN, entry by entry: `where(isfinite(x), x, 0.0)`. The same as np.isfinite(x)."""
    found = _ufuncs[np.isfinite](_objects(x))
    return _wrap(found) if _any_traced(found) else np.asarray(found, dtype=bool)[()]


def stop_gradient(x: Any) -> Any:
    """`x` as a value that derivatives take for a constant, entry by entry. It costs nothing when it is computed."""
    return _wrap(_stopped(_objects(x))) if isinstance(x, _Traced) or np.asarray(x).dtype == object else x


def _objects(x: Any) -> np.ndarray:
    if isinstance(x, _Traced):
        box = np.empty((), dtype=object)
        box[()] = x
        return box
    return np.asarray(x, dtype=object).view(np.ndarray)


def _wrap(result: Any) -> Any:
    return result.view(Array) if isinstance(result, np.ndarray) and result.dtype == object else result


def _choose(condition: Any, a: Any, b: Any) -> Any:
    return condition.where(a, b) if isinstance(condition, Bool) else (a if condition else b)


def _traced(x: Any) -> bool:
    return isinstance(x, (_Traced, Lazy))


def _any_traced(x: Any) -> bool:
    return any(map(_traced, x.flat)) if isinstance(x, np.ndarray) else _traced(x)


def _elementary(op: str, on_numbers: Callable[..., Any]) -> Callable[..., Any]:
    """The traced operation, while a function is traced; on plain numbers, NumPy's value in float64."""
    exact = OPS[op].exact

    def function(*xs: Any) -> Any:
        if any(map(_traced, xs)):
            return emit(op, *xs)
        value = float(on_numbers(*map(float, xs)))
        # a tape takes no number from the C library, whose last bit depends on the processor
        if exact or value in (0.0, 1.0, -1.0) or (graph := _recorded()) is None:
            return value
        return emit(op, *[Scalar(graph, graph.const(float(x))) for x in xs])

    return function


def _recorded() -> Graph | None:
    from condyle.tape.table import recorded

    return recorded()


def _clip(x: Any, low: Any, high: Any) -> Any:
    return _functions[np.minimum](_functions[np.maximum](x, low), high)


def _copysign(a: Any, b: Any) -> Any:
    # backends disagree on the sign of a NaN, so it gives NaN
    if not _traced(b):
        return _elementary("copysign", np.copysign)(a, b)
    return where(b == b, emit("copysign", a, b), b)


def _sign(x: Any) -> Any:
    return (x < 0).where(-1.0, (x > 0).where(1.0, x)) if _traced(x) else float(np.sign(x))


def _isfinite(x: Any) -> Any:
    # no x == x, which other programs take for true
    return abs(x) < math.inf if _traced(x) else math.isfinite(x)


def _isnan(x: Any) -> Any:
    return ~(abs(x) <= math.inf) if _traced(x) else math.isnan(x)


def _isinf(x: Any) -> Any:
    return abs(x) == math.inf if _traced(x) else math.isinf(x)


_where = np.frompyfunc(_choose, 3, 1)
_as_numbers = np.frompyfunc(lambda x: x.where(1.0, 0.0) if isinstance(x, Bool) else x, 1, 1)
_stopped = np.frompyfunc(lambda x: emit("stop_gradient", x) if isinstance(x, Scalar) else x, 1, 1)
_fma = np.frompyfunc(lambda a, b, c: emit("fma", a, b, c), 3, 1)

_same = {getattr(np, op): op for op in ("sin", "cos", "tan", "exp", "log", "sqrt", "tanh", "rint", "floor")}
_renamed = {np.arcsin: "asin", np.arccos: "acos", np.arctan2: "atan2", np.minimum: "min", np.maximum: "max"}
_functions: dict[Any, Callable[..., Any]] = {ufunc: _elementary(op, ufunc) for ufunc, op in (_same | _renamed).items()}
_functions |= {
    np.arctan: lambda x: _functions[np.arctan2](x, 1.0),
    np.ceil: lambda x: -_functions[np.floor](-x),
    np.isfinite: _isfinite,
    np.isnan: _isnan,
    np.isinf: _isinf,
    np.absolute: abs,
    np.fabs: abs,
    np.sign: _sign,
    np.copysign: _copysign,
    np.hypot: lambda a, b: _functions[np.sqrt](a * a + b * b),
    np.square: lambda x: x * x,
    np.reciprocal: lambda x: 1.0 / x,
    np.deg2rad: lambda x: x * (np.pi / 180.0),
    np.radians: lambda x: x * (np.pi / 180.0),
    np.rad2deg: lambda x: x * (180.0 / np.pi),
    np.degrees: lambda x: x * (180.0 / np.pi),
    np.logical_not: lambda a: ~a if _traced(a) else not a,
    np.invert: lambda a: ~a if _traced(a) else not a,
}
_comparisons = {"less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne"}
_logic = {f"{kind}_{name}": f"{name}_" for kind in ("logical", "bitwise") for name in ("and", "or")}
_logic |= {"logical_xor": "xor", "bitwise_xor": "xor"}
_functions |= {getattr(np, name): getattr(operator, ours) for name, ours in (_comparisons | _logic).items()}
_ufuncs = {ufunc: np.frompyfunc(function, ufunc.nin, 1) for ufunc, function in _functions.items()}
_ufuncs[np._core.umath.clip] = np.frompyfunc(_clip, 3, 1)  # type: ignore[attr-defined]
# these work on objects through the operators of Scalar
_operators: dict[Any, Callable[..., Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.divide: operator.truediv,
    np.negative: operator.neg,
    np.positive: operator.pos,
    np.power: operator.pow,
    np.float_power: operator.pow,
}
_native = {*_operators, np.matmul}
_native |= {getattr(np, name) for name in ("vecdot", "matvec", "vecmat", "conjugate") if hasattr(np, name)}
# functions of np.linalg that are ours
_LINALG = {name: name for name in ("solve", "cholesky", "det", "qr", "eigh")} | {"inv": "inverse"}


def apply_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A NumPy ufunc on arrays of traced values: its recorded counterpart, entry by entry."""
    ours = ufunc if ufunc in _native else _ufuncs.get(ufunc)
    if ours is None:
        known = ", ".join(sorted({f.__name__ for f in (*_functions, *_native)}))
        raise TraceError(f"{caller()}: np.{ufunc.__name__} has no traced meaning; there are: {known}")
    if ufunc in _operators and method == "__call__" and not any(isinstance(x, np.ndarray) for x in inputs):
        # one of NumPy's numbers met a traced scalar; as a Python number it leaves the arithmetic to the scalar
        return _operators[ufunc](*[x.item() if isinstance(x, np.generic) else x for x in inputs])
    out = options.pop("out", None)
    options = {key: value for key, value in options.items() if key in ("axis", "keepdims", "axes", "initial")}
    # numbers that meet before a traced value does may overflow, as they may at run time
    with np.errstate(all="ignore"):
        operands = [_objects(x) for x in inputs]
        if method != "__call__" and ufunc in (np.add, np.multiply):  # sums count comparisons, as in NumPy
            operands = [_as_numbers(x) for x in operands]
        result = getattr(ours, method)(*operands, **options)
    if out is None:
        return _wrap(result)
    np.copyto(out[0].view(np.ndarray), result)
    return out[0]


def apply_function(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A NumPy function on arrays of traced values: `where` is recorded; the others work through what they call."""
    if function is np.where and len(args) == 3:
        return where(*args)
    if function.__module__ == "numpy.linalg" and function.__name__ not in ("norm", "multi_dot", "matrix_power", "trace", "cross"):
        from condyle.tape import linalg

        ours = _LINALG.get(function.__name__)
        if ours is None or options:
            with_options = "" if ours is None else f" with {', '.join(options)}"
            raise TraceError(
                f"{caller()}: np.linalg.{function.__name__}{with_options} has no traced meaning; condyle.linalg has "
                f"{', '.join(linalg.__all__)}"
            )
        return getattr(linalg, ours)(*args)
    implementation = getattr(function, "_implementation", function)
    return _wrap(implementation(*args, **options))
