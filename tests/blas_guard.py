"""An import hook that finds what would depend on the processor: floats that the package multiplies by BLAS, solves by LAPACK or
passes to the C library, by the line that does it.

    import blas_guard                 # before condyle: every module of the package is compiled with calls in place of @ and **
    ...
    blas_guard.found                  # {(what, line of the package, whether a function was being traced)}

`x ** k` of a float is C's pow; powers of two are exact everywhere. Products that meet a traced value are recorded, not computed.
"""

from __future__ import annotations

import ast
import builtins
import importlib.abc
import importlib.machinery
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

SPEC = importlib.machinery.PathFinder.find_spec("condyle")
assert SPEC is not None and SPEC.origin is not None
PACKAGE = SPEC.origin.removesuffix("__init__.py")  # the folder of a clone may have the package's name, too

found: set[tuple[str, str, bool]] = set()

LINALG = ("norm", "solve", "inv", "det", "svd", "qr", "eigvalsh", "eigh", "lstsq", "pinv", "matrix_rank", "cholesky", "eig")
PRODUCTS = ("dot", "einsum", "inner", "vdot", "tensordot")
UFUNCS = ("sin", "cos", "tan", "arctan2", "arcsin", "arccos", "arctan", "exp", "log", "tanh", "power", "float_power")
LIBRARY = ("sin", "cos", "tan", "atan2", "asin", "acos", "atan", "exp", "log", "log10", "log2", "pow", "tanh", "sinh", "cosh")


def _place() -> str:
    frame = sys._getframe(2)
    while frame.f_back is not None and not frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename.removeprefix(PACKAGE)} {frame.f_code.co_name}"


def _number(x: Any) -> bool:
    return isinstance(x, (float, int)) or (isinstance(x, (np.ndarray, np.generic)) and x.dtype.kind == "f")


def note(what: str) -> None:
    """Keep what was done, and where."""
    table = sys.modules.get("condyle.tape.table")
    found.add((what, _place(), table is not None and table.recorded() is not None))


def matmul(a: Any, b: Any) -> Any:
    """a @ b, noted if it is BLAS that multiplies."""
    if _number(a) and _number(b):
        note("@")
    return a @ b


def power(a: Any, b: Any) -> Any:
    """a ** b, noted if it is C's pow."""
    if isinstance(a, float) and _number(b) and not (a in (2.0, 0.5, 0.25) and float(b).is_integer()):
        note("**")
    return a**b


def watched(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function, noted when it is called with numbers alone."""

    def call(*args: Any, **options: Any) -> Any:
        if any(_number(x) for x in args) and not any(isinstance(x, np.ndarray) and x.dtype == object for x in args):
            note(name)
        return function(*args, **options)

    call.__name__ = function.__name__
    return call


class Rewritten(ast.NodeTransformer):
    """`a @ b` and `a ** b` as calls."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """One operator."""
        self.generic_visit(node)
        name = {ast.MatMult: "watched_matmul", ast.Pow: "watched_power"}.get(type(node.op))
        call = ast.Call(ast.Name(name, ast.Load()), [node.left, node.right], []) if name else node
        return ast.copy_location(call, node)


class Loader(importlib.machinery.SourceFileLoader):
    """A loader that compiles the rewritten source, never a cached one."""

    def get_code(self, fullname: str) -> Any:
        """The code of a module."""
        tree = ast.fix_missing_locations(Rewritten().visit(ast.parse(self.get_data(self.path))))
        return compile(tree, self.path, "exec", dont_inherit=True)


class Finder(importlib.abc.MetaPathFinder):
    """Modules of the package, by that loader."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        """The spec of a module of the package."""
        spec = importlib.machinery.PathFinder.find_spec(fullname, path) if fullname.partition(".")[0] == "condyle" else None
        if spec is not None and spec.origin is not None and spec.origin.endswith(".py"):
            spec.loader = Loader(fullname, spec.origin)
        return spec


def install() -> None:
    """Watch everything from now on."""
    assert "condyle" not in sys.modules, "import blas_guard before condyle"
    vars(builtins).update(watched_matmul=matmul, watched_power=power)
    sys.meta_path.insert(0, Finder())
    for module, names, prefix in ((np, PRODUCTS, "np"), (np.linalg, LINALG, "np.linalg"), (math, LIBRARY, "math")):
        for name in names:
            setattr(module, name, watched(getattr(module, name), f"{prefix}.{name}"))
    import condyle.tape.array  # noqa: F401  its table of NumPy's functions is made of NumPy's own

    for name in UFUNCS:
        setattr(np, name, watched(getattr(np, name), f"np.{name}"))


install()
