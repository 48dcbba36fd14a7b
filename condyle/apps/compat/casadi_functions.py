"""CasADi expressions as Python functions of traced values: the instructions of a casadi.Function, carried out one by one.

    f = replayed(casadi.Function("f", [x, u], [rhs]))
    rhs, = f(x, u)                                       # arrays of numbers or of traced values

The other direction, a tape as a casadi.Function, is condyle.tape.export.casadi.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.errors import ControlError, require
from condyle.tape.array import array, where
from condyle.tape.scalar import constant


def is_expression(value: Any) -> bool:
    """Whether a value is one of CasADi's expressions (SX, MX) or matrices (DM)."""
    return type(value).__module__.partition(".")[0] == "casadi" and hasattr(value, "sparsity")


def size_of(value: Any) -> int:
    """The number of entries of an expression, dense."""
    rows, columns = value.shape
    return int(rows) * int(columns)


def expression_function(where_: str, inputs: list[Any], expression: Any) -> Replay:
    """The Python function of an expression in the symbols `inputs`; one may be None or empty. `where_`: its name in errors."""
    casadi = require("casadi", "casadi", "models that are CasADi expressions")
    kinds = {type(each) for each in [*inputs, expression] if is_expression(each)}
    kind = casadi.MX if casadi.MX in kinds else casadi.SX
    symbols = [each if is_expression(each) and size_of(each) else kind(0, 1) for each in inputs]
    try:
        made = casadi.Function("f", symbols, [kind(casadi.densify(expression))], {"allow_free": True})
    except Exception as error:
        reason = str(error).strip().splitlines()[-1]
        raise ControlError(f"{where_}: CasADi makes no function of this expression and of x, u and p: {reason:.200}") from None
    if made.has_free():
        raise ControlError(
            f"{where_} contains {', '.join(made.get_free())}, which is not part of the model's x, u or p; add it there"
        )
    if not made.is_a("SXFunction"):
        try:
            made = made.expand()
        except Exception:
            raise ControlError(
                f"{where_} calls functions that CasADi cannot write out in scalar operations (look-up tables, external code, "
                "loops); write it with SX, or as a Python function of NumPy arrays"
            ) from None
    return replayed(made, where_)


def replayed(function: Any, where_: str = "") -> Replay:
    """The instructions of a casadi.Function of scalar expressions, as a Python function that gives a list of arrays."""
    casadi = require("casadi", "casadi", "models that are CasADi expressions")
    if not function.is_a("SXFunction"):
        function = function.expand()
    names = {
        getattr(casadi, f"OP_{name}"): name for name in (*OPERATIONS, "CONST", "INPUT", "OUTPUT") if hasattr(casadi, f"OP_{name}")
    }
    program: list[tuple[str, tuple[int, ...], Any]] = []
    for k in range(function.n_instructions()):
        code = function.instruction_id(k)
        taken, given = tuple(function.instruction_input(k)), tuple(function.instruction_output(k))
        name = names.get(code)
        if name is None:
            raise ControlError(
                f"{where_ or function.name()} uses an operation of CasADi that has no counterpart here (number {code}); "
                f"there are {', '.join(name.lower() for name in OPERATIONS)}"
            )
        if name == "CONST":
            program.append((name, given, float(function.instruction_constant(k))))
        elif name == "OUTPUT":
            program.append((name, given, taken[0]))
        else:
            program.append((name, taken, given[0]))
    inputs = tuple(_places(function.sparsity_in(k)) for k in range(function.n_in()))
    outputs = tuple((*function.size_out(k), _places(function.sparsity_out(k))) for k in range(function.n_out()))
    return Replay(function.name(), tuple(program), inputs, outputs)


def _places(sparsity: Any) -> tuple[tuple[int, int], ...]:
    """(row, column) of each entry that is not zero by structure, in CasADi's order."""
    rows, columns = sparsity.get_triplet()
    return tuple(zip(map(int, rows), map(int, columns), strict=True))


@dataclass(frozen=True)
class Replay:
    """A list of scalar instructions (name, registers read, register written) as a function of arrays.

    An input may be a vector or, for a matrix, an array of two axes; an output with one column is a vector.
    """

    name: str
    program: tuple[tuple[str, tuple[int, ...], Any], ...]
    inputs: tuple[tuple[tuple[int, int], ...], ...]
    outputs: tuple[tuple[int, int, tuple[tuple[int, int], ...]], ...]

    def __call__(self, *args: Any) -> list[Any]:
        """The outputs."""
        found = [np.zeros((rows, columns), dtype=object) for rows, columns, _ in self.outputs]
        registers: dict[int, Any] = {}
        for name, registers_read, other in self.program:
            if name == "CONST":
                registers[registers_read[0]] = other
            elif name == "INPUT":
                k, entry = registers_read
                row, column = self.inputs[k][entry]
                registers[other] = args[k][row] if np.ndim(args[k]) == 1 else args[k][row, column]
            elif name == "OUTPUT":
                k, entry = registers_read
                found[k][self.outputs[k][2][entry]] = registers[other]
            else:
                registers[other] = OPERATIONS[name](*[registers[r] for r in registers_read])
        return [array(each[:, 0] if each.shape[1] == 1 else each) for each in found]


# ---- CasADi's operations; its comparisons give 0 or 1


def _as_number(condition: Any) -> Any:
    return where(condition, 1.0, 0.0)


def _power(a: Any, b: Any) -> Any:
    exponent, base = constant(b), constant(a)
    if exponent is not None:
        return a**exponent
    if base is not None and base > 0.0:
        return np.exp(b * math.log(base))
    return np.exp(b * np.log(a))


def _truncated(x: Any) -> Any:
    return where(x < 0.0, -np.floor(-x), np.floor(x))


def _asinh(x: Any) -> Any:
    size = abs(x)
    return np.copysign(np.log(size + np.sqrt(size * size + 1.0)), x)


OPERATIONS: dict[str, Callable[..., Any]] = {
    "ASSIGN": lambda a: a,
    "ADD": lambda a, b: a + b,
    "SUB": lambda a, b: a - b,
    "MUL": lambda a, b: a * b,
    "DIV": lambda a, b: a / b,
    "NEG": lambda a: -a,
    "SQ": lambda a: a * a,
    "TWICE": lambda a: 2.0 * a,
    "INV": lambda a: 1.0 / a,
    "SQRT": np.sqrt,
    "POW": _power,
    "CONSTPOW": _power,
    "EXP": np.exp,
    "LOG": np.log,
    "EXPM1": lambda a: np.exp(a) - 1.0,
    "LOG1P": lambda a: np.log(1.0 + a),
    "SIN": np.sin,
    "COS": np.cos,
    "TAN": np.tan,
    "ASIN": np.arcsin,
    "ACOS": np.arccos,
    "ATAN": np.arctan,
    "ATAN2": np.arctan2,
    "SINH": lambda a: 0.5 * (np.exp(a) - np.exp(-a)),
    "COSH": lambda a: 0.5 * (np.exp(a) + np.exp(-a)),
    "TANH": np.tanh,
    "ASINH": _asinh,
    "ACOSH": lambda a: np.log(a + np.sqrt(a * a - 1.0)),
    "ATANH": lambda a: 0.5 * np.log((1.0 + a) / (1.0 - a)),
    "HYPOT": np.hypot,
    "FABS": abs,
    "SIGN": np.sign,
    "COPYSIGN": np.copysign,
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "FMIN": np.minimum,
    "FMAX": np.maximum,
    "FMOD": lambda a, b: a - b * _truncated(a / b),
    "REMAINDER": lambda a, b: a - b * np.rint(a / b),
    "LT": lambda a, b: _as_number(a < b),
    "LE": lambda a, b: _as_number(a <= b),
    "EQ": lambda a, b: _as_number(a == b),
    "NE": lambda a, b: _as_number(a != b),
    "NOT": lambda a: _as_number(a == 0.0),
    "AND": lambda a, b: _as_number((a != 0.0) & (b != 0.0)),
    "OR": lambda a, b: _as_number((a != 0.0) | (b != 0.0)),
    "IF_ELSE_ZERO": lambda a, b: where(a != 0.0, b, 0.0),
}
