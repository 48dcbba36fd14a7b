"""Fingerprints of functions: a hash of all that a trace of a user's function can depend on.

Code counts as bytecode with its constants; what it uses from closures, defaults, globals and modules counts by value, functions
and classes likewise; functions of this package by the source of their modules. Where anything cannot be known for certain (files,
clocks, random numbers, objects of unknown libraries, imports inside of functions), there is no fingerprint.
"""

from __future__ import annotations

import dataclasses
import dis
import functools
import hashlib
import platform
import struct
import sys
import sysconfig
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Collection, Iterable
from enum import Enum
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    GenericAlias,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any, Generic, TypeVar

import numpy as np

from condyle.tape.parameter import Parameter
from condyle.tape.scalar import _Traced
from condyle.tape.table import Table

PACKAGE = __name__.partition(".")[0]
# modules whose functions give the same for the same arguments; of the libraries among them the version counts
STANDARD = frozenset(
    {
        "math",
        "cmath",
        "functools",
        "itertools",
        "operator",
        "collections",
        "dataclasses",
        "enum",
        "abc",
        "types",
        "typing",
        "numbers",
        "fractions",
        "copy",
    }
)
LIBRARIES = ("numpy", "scipy")
# what depends on more than its arguments, or does more than give a result
REFUSED_BUILTINS = frozenset(
    {
        "print",
        "input",
        "open",
        "eval",
        "exec",
        "compile",
        "globals",
        "locals",
        "vars",
        "dir",
        "id",
        "hash",
        "breakpoint",
        "__import__",
        "memoryview",
    }
)
REFUSED_ATTRIBUTES = frozenset({"random", "load", "loadtxt", "genfromtxt", "fromfile", "memmap"})  # of numpy
# parts of a class that say nothing about what it does
INCIDENTAL = frozenset(
    {
        "__hash__",
        "__doc__",
        "__module__",
        "__dict__",
        "__weakref__",
        "__annotations__",
        "__annotate__",
        "__annotations_cache__",
        "__firstlineno__",
        "__repr__",
        "__static_attributes__",
        "_abc_impl",
        "__abstractmethods__",
        "__orig_bases__",
        "__parameters__",
        "__type_params__",
        "__dataclass_fields__",
        "__dataclass_params__",
    }
)
LIBRARY_FOLDERS = tuple(
    sorted({str(Path(sysconfig.get_path(name)).resolve()) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
)
EVERYTHING = "*"  # all attributes of a module
HOLDERS = (OrderedDict, Counter, defaultdict, SimpleNamespace)  # their state is what they hold
C_FUNCTIONS = (
    BuiltinFunctionType,
    MethodDescriptorType,
    WrapperDescriptorType,
    MethodWrapperType,
    GetSetDescriptorType,
    MemberDescriptorType,
    np.ufunc,
)


class UnknownError(Exception):
    """A trace may depend on something that has no fingerprint."""


@dataclasses.dataclass(frozen=True)
class Fingerprint:
    """The hash of a function, the modules of this package that it uses, and the parameters it may use, by name."""

    digest: str
    modules: tuple[str, ...]
    parameters: dict[str, Parameter]


def fingerprint(*values: Any) -> Fingerprint | None:
    """The fingerprint of functions and of what they are given; None where it cannot be known."""
    hasher = _Hasher()
    try:
        hasher.add(values)
    except (UnknownError, RecursionError):
        return None
    return Fingerprint(hasher.sha.hexdigest(), tuple(sorted(hasher.modules)), hasher.parameters)


class _Hasher:
    """A walk over values; each object is visited once."""

    def __init__(self) -> None:
        self.sha = hashlib.sha256(f"{sys.version} {platform.machine()} {np.__version__}".encode())
        self.modules: set[str] = set()
        self.parameters: dict[str, Parameter] = {}
        self.seen: dict[Any, tuple[int, Any]] = {}  # objects are kept alive, so that no address is used twice

    def word(self, *parts: object) -> None:
        """Text that begins a value."""
        text = " ".join(map(str, parts)).encode()
        self.sha.update(struct.pack("<q", len(text)) + text)

    def add(self, value: Any) -> None:
        """One value, by its kind."""
        kind = type(value)
        if value is None or value is ... or value is NotImplemented or kind in (bool, int, str, bytes, complex):
            self.word(kind.__name__, repr(value))
        elif kind is float:
            self.sha.update(b"f" + struct.pack("<d", value))
        elif kind in (tuple, frozenset, CodeType):
            # constants, which may be one object or several
            self.object(value, kind)
        elif self.first(id(value), value):
            self.object(value, kind)

    def first(self, key: Any, value: Any) -> bool:
        """Whether an object is met for the first time; otherwise its number is part of the fingerprint."""
        if key in self.seen:
            self.word("again", self.seen[key][0])
            return False
        self.seen[key] = (len(self.seen), value)
        return True

    def object(self, value: Any, kind: type) -> None:
        """A value that is not a plain number or text."""
        if kind in (tuple, list):
            self.word(kind.__name__, len(value))
            self.all(value)
        elif kind in (dict, MappingProxyType):
            self.word("dict", len(value))
            self.all(x for pair in value.items() for x in pair)
        elif kind in (set, frozenset):
            self.word(kind.__name__, len(value), sorted(map(_alone, value)))
        elif isinstance(value, CodeType):
            self.code(value)
        elif isinstance(value, FunctionType):
            self.function(value)
        elif isinstance(value, MethodType):
            self.word("method")
            self.all((value.__func__, value.__self__))
        elif isinstance(value, type):
            self.class_(value)
        elif isinstance(value, ModuleType):
            self.module(value, {EVERYTHING})
        elif isinstance(value, C_FUNCTIONS):
            self.c_function(value)
        elif isinstance(value, (range, slice, np.dtype)):
            self.word(kind.__name__, repr(value))
        elif isinstance(value, functools.partial):
            self.word("partial")
            self.all((value.func, value.args, value.keywords))
        elif isinstance(value, property):
            self.word("property")
            self.all((value.fget, value.fset, value.fdel))
        elif isinstance(value, (staticmethod, classmethod)):
            self.word(kind.__name__)
            self.add(value.__func__)
        else:
            self.instance(value, kind)

    def all(self, values: Iterable[Any]) -> None:
        """Several values in order."""
        for value in values:
            self.add(value)

    # ---- code

    def code(self, code: CodeType) -> None:
        """A code object: what it does, not where it is written."""
        self.word("code", code.co_name, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
        self.word(code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        self.all((code.co_code, code.co_exceptiontable, code.co_consts))

    def function(self, function: FunctionType) -> None:
        """A Python function, with all that it reaches."""
        module, code = function.__module__ or "", function.__code__
        ours = _is_ours(module)
        library = None if ours else _library(module, code.co_filename)
        self.word("function", module if ours else library or "", function.__qualname__)
        self.all((function.__defaults__, function.__kwdefaults__))
        used, words = ({}, set()) if ours or library else _names_used(function)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            try:
                self.variable(name, cell.cell_contents, used, words)
            except ValueError:  # not assigned yet
                self.word("empty")
        if ours:
            self.modules.add(module)
        elif not library:
            self.all((code, dict(sorted(vars(function).items()))))
            for name in sorted(used):
                if name in function.__globals__:
                    self.variable(name, function.__globals__[name], used, words)
                elif name in REFUSED_BUILTINS:
                    raise UnknownError(f"{function.__qualname__} uses {name}")

    def variable(self, name: str, value: Any, used: dict[str, set[str]], words: set[str]) -> None:
        """A variable from around a function; of a module, the attributes that are used."""
        self.word("variable", name)
        self.module(value, used.get(name, {EVERYTHING}), words) if isinstance(value, ModuleType) else self.add(value)

    def module(self, module: ModuleType, attributes: Collection[str], words: Collection[str] = (EVERYTHING,)) -> None:
        """A module: of this package or a library by itself, a user's by the values of these attributes.

        `words`: all names in the code, which may be attributes of modules within it.
        """
        name = module.__name__
        if name == PACKAGE and EVERYTHING in attributes:
            raise UnknownError("what the whole package is depends on what has been imported of it so far")
        attributes = vars(module) if EVERYTHING in attributes else attributes
        self.word("module", name)
        if name == PACKAGE:
            self.all(getattr(module, word) for word in sorted(attributes) if word in module.__all__)
        elif _is_ours(name):
            self.modules.add(name)
        elif (library := _library(name, getattr(module, "__file__", None))) is not None:
            if name.startswith("numpy.random") or (name == "numpy" and not REFUSED_ATTRIBUTES.isdisjoint(attributes)):
                raise UnknownError(f"{name} has functions that depend on more than their arguments")
            self.word(library)
        elif self.first((id(module), frozenset(attributes)), module):
            for word in sorted(vars(module).keys() & set(attributes)):
                value = vars(module)[word]
                self.word(word)
                self.module(value, words, words) if isinstance(value, ModuleType) else self.add(value)

    def c_function(self, value: Any) -> None:
        """A function that is not written in Python, by its name and library."""
        owner = getattr(value, "__objclass__", None) or getattr(value, "__self__", None)
        if owner is not None and not isinstance(owner, (type, ModuleType)):
            self.word("bound", value.__name__)
            self.add(owner)
            return
        module = owner.__module__ if isinstance(owner, type) else getattr(value, "__module__", None)
        module = "numpy" if isinstance(value, np.ufunc) else module or "builtins"
        name = getattr(value, "__qualname__", value.__name__)
        if module == "builtins" and name in REFUSED_BUILTINS:
            raise UnknownError(f"{name} is used")
        if isinstance(owner, type) and not _library(module, None):
            self.word("slot", name)  # of a class that is itself part of the fingerprint
            return
        self.word("builtin", name, _known_library(module))

    # ---- objects

    def class_(self, kind: type) -> None:
        """A class: of this package or a library by name, a user's by all it defines."""
        module = kind.__module__
        self.word("class", module if _is_ours(module) else "", kind.__qualname__)
        if _is_ours(module):
            self.modules.add(module)
        elif (library := _library(module, getattr(sys.modules.get(module), "__file__", None))) is not None:
            self.word(library)
        else:
            self.all(kind.__bases__)
            self.all((name, value) for name, value in sorted(vars(kind).items()) if name not in INCIDENTAL)

    def instance(self, value: Any, kind: type) -> None:
        """An object: the data that it says a trace depends on, or else its class and its state."""
        if isinstance(value, (_Traced, Table)):
            raise UnknownError("a value of another trace is used")
        if isinstance(value, Parameter):
            if self.parameters.setdefault(value.name, value) is not value:
                raise UnknownError(f"two parameters are called '{value.name}'")
            self.word("parameter", value.name)
            self.add(value.default)
            return
        wrapped = getattr(value, "__wrapped__", None)
        if kind.__module__ == "functools" and wrapped is not None:  # functools.cache
            self.add(wrapped)
            return
        if isinstance(value, functools.cached_property):
            self.add(value.func)
            return
        if kind.__name__ == "_tuplegetter":  # a field of a named tuple
            self.word("field", value.__reduce__()[1][0])
            return
        if kind.__name__ == "_ArrayFunctionDispatcher":  # a function of numpy
            self.word("builtin", value.__qualname__, _known_library(value.__module__))
            return
        if isinstance(value, TypeVar | GenericAlias):
            self.word(repr(value))
            return
        self.add(kind)
        data = getattr(value, "trace_data", None)
        if _is_ours(kind.__module__) and data is not None:
            self.add(data())
        elif isinstance(value, np.ndarray):
            self.array(value)
        elif isinstance(value, np.generic):
            self.word(value.dtype.str, value.tobytes().hex())
        elif isinstance(value, Enum):
            self.word(value.name)
        elif _is_ours(kind.__module__) and dataclasses.is_dataclass(value):
            self.all(getattr(value, field.name) for field in dataclasses.fields(value))
        else:
            self.state(value, kind)

    def array(self, value: np.ndarray) -> None:
        """An array by its entries."""
        self.word("array", value.dtype.str, value.shape)
        if value.dtype.kind in "biufcSU":
            self.sha.update(np.ascontiguousarray(value).tobytes())
        elif value.dtype == object:
            self.all(value.ravel().tolist())
        else:
            raise UnknownError(f"arrays of {value.dtype} have no fingerprint")

    def state(self, value: Any, kind: type) -> None:
        """The attributes of an object, and what it holds if its class extends a built-in one."""
        for base in kind.__mro__:
            if base in (int, float, complex, str, bytes, tuple, list):
                self.add(base(value))
            elif base is dict:
                self.add([*value.items()])
            elif base not in (object, Generic, *HOLDERS) and not _in_python(base):
                raise UnknownError(f"objects of {base.__qualname__} have no fingerprint")
        if isinstance(value, defaultdict):
            self.add(value.default_factory)
        slots = [name for base in kind.__mro__ for name in _slots(base)]
        self.all((name, getattr(value, name)) for name in slots if hasattr(value, name))
        self.add(dict(sorted(getattr(value, "__dict__", {}).items())))


# ---- inside


def _alone(value: Any) -> str:
    """The hash of a member of a set, whose order says nothing."""
    hasher = _Hasher()
    hasher.add(value)
    if hasher.modules or hasher.parameters:
        raise UnknownError("a set of functions has no fingerprint")
    return hasher.sha.hexdigest()


def _names_used(function: FunctionType) -> tuple[dict[str, set[str]], set[str]]:
    """(variables from around a function with the attributes of them that are used, all names in its code)."""
    used: dict[str, set[str]] = {}
    words: set[str] = set()
    for code in _with_nested(function.__code__):
        names = {*code.co_names, *[c for c in code.co_consts if isinstance(c, str)]}
        words |= names
        instructions = list(dis.get_instructions(code))
        for at, following in zip(instructions, [*instructions[1:], instructions[-1]], strict=True):
            if at.opname in ("IMPORT_NAME", "STORE_GLOBAL", "DELETE_GLOBAL"):
                raise UnknownError(f"{function.__qualname__} imports a module or sets a global variable")
            if at.opname in ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_GLOBALS"):
                attribute = following.opname in ("LOAD_ATTR", "LOAD_METHOD")
                used.setdefault(at.argval, set()).add(following.argval if attribute else EVERYTHING)
    return used, words


def _with_nested(code: CodeType) -> list[CodeType]:
    """A code object and those of the functions it defines."""
    return [code, *[inner for c in code.co_consts if isinstance(c, CodeType) for inner in _with_nested(c)]]


def _is_ours(module: str | None) -> bool:
    return module is not None and (module == PACKAGE or module.startswith(PACKAGE + "."))


def _library(module: str, file: str | None) -> str | None:
    """Name and version of the library that a module belongs to; None for a user's module, an error for an unknown library."""
    top = module.partition(".")[0]
    if top in STANDARD or module in ("builtins", "_operator", "_functools", "_collections", "_abc"):
        return "python"
    if top in LIBRARIES:
        return f"{top} {getattr(sys.modules.get(top), '__version__', '')}"
    if top in sys.stdlib_module_names and top != "__main__":
        raise UnknownError(f"{module} may depend on more than its arguments")
    if file is not None and not file.startswith("<") and str(Path(file).resolve()).startswith(LIBRARY_FOLDERS):
        raise UnknownError(f"{module} is a library that is not known")
    return None


def _known_library(module: str) -> str:
    found = _library(module, None)
    if found is None:
        raise UnknownError(f"{module} is not known")
    return found


def _in_python(kind: type) -> bool:
    """Whether a class is written in Python by the user or in this package, so that objects hold no state but their attributes."""
    if _is_ours(kind.__module__) or kind.__module__ in ("abc", "dataclasses", "fractions", "numbers"):
        return True
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return _library(kind.__module__, file) is None and (file is None or file.endswith(".py"))


def _slots(kind: type) -> list[str]:
    names = vars(kind).get("__slots__", ())
    listed = [names] if isinstance(names, str) else list(names)
    return [f"_{kind.__name__.lstrip('_')}{n}" if n.startswith("__") and not n.endswith("__") else n for n in listed]
