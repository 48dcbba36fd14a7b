"""Parameters: numbers that a traced function uses without taking them as arguments. They become inputs with defaults."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from condyle.errors import TraceError
from condyle.tape.array import array, assemble
from condyle.tape.graph import Graph
from condyle.tape.scalar import Lazy, Scalar, caller
from condyle.tape.table import current, is_recording


def parameter(name: str, default: Any) -> Parameter:
    """A number or array that becomes the input `name`, with a default, of every compiled function that uses it.

    stiffness = condyle.parameter("stiffness", 40.0)
    force = condyle.function(lambda x: -stiffness * x, x=1)
    force(x), force(x, stiffness=50.0), force.jacobian("out", "stiffness")(x)
    """
    return Parameter(name, default)


def _unary(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda self: function(self.resolve())


def _binary(function: Callable[[Any, Any], Any]) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """The two methods of an operator: with the parameter on the left, and on the right."""
    return (
        lambda self, other: function(self.resolve(), resolved(other)),
        lambda self, other: function(resolved(other), self.resolve()),
    )


class Parameter(Lazy):
    """A named value with a default: inside a trace a traced number or array, outside the default."""

    __slots__ = ("default", "name")
    __hash__ = object.__hash__

    def __init__(self, name: str, default: Any) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise TraceError(f"{caller()}: a parameter has a name like 'mass', which is an input's name, got {name!r:.60}")
        try:
            values = np.array(default, dtype=float)
        except (TypeError, ValueError):
            raise TraceError(
                f"{caller()}: the default of parameter '{name}' must be an array of numbers, got {default!r:.60}"
            ) from None
        if not values.size:
            raise TraceError(f"{caller()}: the default of parameter '{name}' has no entries, shape {values.shape}")
        values.flags.writeable = False
        self.name, self.default = name, values

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the default."""
        return self.default.shape

    def resolve(self) -> Any:
        """What it is now: traced values of the function being traced, or else the default."""
        if not is_recording():
            return self.default if self.shape else float(self.default)
        graph = current()
        while graph.parent is not None:
            graph = graph.parent
        return assemble([Scalar(graph, k) for k in _places(graph, self)], self.shape)

    def __repr__(self) -> str:
        return f"parameter({self.name!r}, {self.default.tolist()!r:.60})"

    # ---- as a number or an array

    __add__, __radd__ = _binary(operator.add)
    __sub__, __rsub__ = _binary(operator.sub)
    __mul__, __rmul__ = _binary(operator.mul)
    __truediv__, __rtruediv__ = _binary(operator.truediv)
    __matmul__, __rmatmul__ = _binary(operator.matmul)
    __pow__, __rpow__ = _binary(operator.pow)
    __lt__, __gt__ = _binary(operator.lt)
    __le__, __ge__ = _binary(operator.le)
    __eq__, _ = _binary(operator.eq)
    __ne__, _ = _binary(operator.ne)
    __neg__, __pos__, __abs__ = _unary(operator.neg), _unary(operator.pos), _unary(operator.abs)
    __len__, __iter__, __float__ = _unary(len), _unary(iter), _unary(float)

    def __getitem__(self, key: Any) -> Any:
        return self.resolve()[key]

    def __bool__(self) -> bool:
        return bool(self.resolve())

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in Parameter.__slots__:
            raise AttributeError(f"a parameter has no attribute '{name}'")
        return getattr(self.resolve(), name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        now = self.resolve()
        if isinstance(now, Scalar):
            now = array(now)
        return np.array(now, dtype=dtype).view(np.ndarray)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return getattr(ufunc, method)(*[resolved(x) for x in inputs], **options)

    def __array_function__(self, function: Any, types: Any, args: Any, options: Any) -> Any:
        return function(*[resolved(x) for x in args], **{key: resolved(x) for key, x in options.items()})

    def __deepcopy__(self, memo: Any) -> Parameter:
        return self

    def __copy__(self) -> Parameter:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.default)


def resolved(value: Any) -> Any:
    """A value with its parameters, also in tuples and lists, as what they are now."""
    if isinstance(value, Parameter):
        return value.resolve()
    return type(value)(map(resolved, value)) if type(value) in (tuple, list) else value


def _places(root: Graph, parameter: Parameter) -> list[int]:
    """The positions of a parameter's entries in the graph of a function, which are new inputs when it is first used."""
    known = root.parameters
    if known is None:
        raise TraceError(
            f"{caller()}: parameter '{parameter.name}' is used in a function with a derivative rule of its own, which may use "
            "its arguments only; pass the parameter to it"
        )
    if parameter.name not in known:
        known[parameter.name] = (parameter, [root.param() for _ in range(parameter.default.size)])
    owner, places = known[parameter.name]
    if owner is not parameter:
        what = "an input" if owner is None else "another parameter"
        raise TraceError(
            f"{caller()}: the function that is traced has {what} called '{parameter.name}' already; give the parameter another "
            "name, or use the same object in both places"
        )
    return places
