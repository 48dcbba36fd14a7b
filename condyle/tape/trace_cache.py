"""Traces kept between processes, and hashes of the source that decides a trace or a kernel.

A module is hashed by its bytecode, and a set of modules with everything of the package that they import, directly or not.
Digests and imports are remembered in the object cache by path, modification time and size, so a warm start only asks for dates.
"""

from __future__ import annotations

import dis
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cache, cached_property, partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

from condyle.errors import TraceError
from condyle.tape.cache import shared_cache
from condyle.tape.fingerprint import fingerprint
from condyle.tape.tape import Block, Port, Tape
from condyle.tape.tape_codec import decode_block, encode_block
from condyle.tape.threads import in_turn
from condyle.tape.trace import trace, trace_values

ROOT = Path(__file__).parents[2]  # the folder that holds the package
# a backend computes what the tape defines, and errors are sentences: no trace depends on them
IRRELEVANT = (
    "condyle.errors",
    "condyle.tape.backends",
    "condyle.tape.export",
    "condyle.tape.function",
    "condyle.tape.progress",
    "condyle.tape.trace_cache",
)

# a user's function may call compiled functions, which are recorded in its trace
TRACERS = ("condyle.tape.function", "condyle.tape.trace")
UNTRACED = (*[name for name in IRRELEVANT if name not in TRACERS], "condyle.tape.cache", "condyle.tape.fingerprint")

# imports as they are written in the package; those for type checkers, and what long strings show, are none
LONG_STRING = re.compile(r'"""(?:[^"\\]|\\.|"(?!""))*"""', re.DOTALL)
FOR_TYPES = re.compile(r"^( *)if TYPE_CHECKING:\n(?:\1 +.*\n|\n)*", re.MULTILINE)
IMPORT = re.compile(r"^ *(?:from +([\w.]+) +import +(\([^)]*\)|.*)|import +(.*))$", re.MULTILINE)

NOP = dis.opmap["NOP"]

Source = tuple[str, list[str]]  # digest of a module, modules of the package that it imports


class CachedTape(Tape):
    """A tape that is loaded or traced only when someone looks into it; compiled code is found by its hash."""

    def __init__(
        self, name: str, inputs: tuple[Port, ...], outputs: tuple[Port, ...], known_hash: str, make: Callable[[], Tape]
    ) -> None:
        self.__dict__.update(name=name, inputs=inputs, outputs=outputs, hash=known_hash, make=make)

    @cached_property
    def block(self) -> Block:
        """The operations, from the cache or traced now."""
        stored = shared_cache().load(_block_place(self.hash))
        if stored is not None:
            with suppress(ValueError, KeyError):
                return decode_block(stored)
        make: Callable[[], Tape] = self.__dict__["make"]
        tape = make()
        if tape.hash != self.hash:
            raise TraceError(
                f"what the function {self.name} uses has changed since it was compiled, and its operations are no longer cached; "
                "compile it again"
            )
        return tape.block


def cached_trace(
    key: str,
    make: Callable[[], Tape],
    *,
    parameters: Mapping[str, Any] | None = None,
    keep: bool = False,
    unchanged: Callable[[], bool] = lambda: True,
) -> Tape:
    """The tape that `make` traces, without tracing it if it was recorded under this key before.

    The key must say all that the tape depends on: the data, and by `trace_key` the source of the functions that are traced.
    `parameters`: those that the tape may have, by name. `keep`: the operations are kept, too, for tracing later may give others.
    A tape is not kept if `unchanged` is false after it was traced.
    """
    cache, place = shared_cache(), hashlib.sha256(f"tape {key}".encode()).hexdigest()
    known = parameters or {}

    def find() -> Tape:
        stored = cache.load(place)
        record = None if stored is None else json.loads(stored)
        if record is not None and {p["parameter"] for p in record["inputs"] if p["parameter"]} <= known.keys():
            inputs, outputs = (tuple(_port(stored, known) for stored in record[side]) for side in ("inputs", "outputs"))
            return CachedTape(record["name"], inputs, outputs, record["hash"], make)
        tape = make()
        # parameters are objects of this process: they can be found again only by name
        own = all(p.parameter is None or known.get(p.parameter.name) is p.parameter for p in tape.inputs)
        if cache.directory is not None and own and unchanged():
            ports = {side: [_port_record(p) for p in getattr(tape, side)] for side in ("inputs", "outputs")}
            cache.store(place, json.dumps({"name": tape.name, "hash": tape.hash, **ports}).encode())
            if keep:
                cache.store(_block_place(tape.hash), encode_block(tape.block))
        return tape

    return in_turn(place, find)


def _block_place(tape_hash: str) -> str:
    return hashlib.sha256(f"block {tape_hash}".encode()).hexdigest()


def _port_record(port: Port) -> dict[str, Any]:
    record = {field.name: getattr(port, field.name) for field in fields(port)}
    return record | {"parameter": None if port.parameter is None else port.parameter.name}


def _port(record: dict[str, Any], known: Mapping[str, Any]) -> Port:
    return Port(**{**record, "shape": tuple(record["shape"]), "parameter": known.get(record["parameter"])})


def traced_function(
    function: Callable[..., Any], shapes: dict[str, Any], *, cache: bool = True, values_only: bool = False
) -> Tape:
    """The trace of a user's function, from the cache if nothing that it depends on has changed.

    `values_only`: no derivatives are taken of the tape, so that derivative rules need not be traced.
    """
    make = partial(trace_values if values_only else trace, function, **shapes)
    before = fingerprint(function, shapes) if cache and shared_cache().directory is not None else None
    if before is None:
        return make()

    def unchanged() -> bool:
        # a function that leaves something behind when it is traced must be traced each time
        after = fingerprint(function, shapes)
        return after is not None and after.digest == before.digest

    key = f"user {before.digest} {values_only} {source_hash(*before.modules, *TRACERS, without=UNTRACED)}"
    return cached_trace(key, make, parameters=before.parameters, keep=True, unchanged=unchanged)


# ---- keys


def trace_key(*values: Any) -> str:
    """Sha256 of the source that decides what is traced from `values`: functions, and the objects they are given."""
    return source_hash(*sorted({"condyle.tape.trace", *_modules_of(values)}))


def source_hash(*modules: str, without: tuple[str, ...] = IRRELEVANT) -> str:
    """Sha256 of these modules and of all that they import from the package, but for modules that begin with `without`."""
    return _hashed(modules, without, ROOT)


@cache
def _hashed(modules: tuple[str, ...], without: tuple[str, ...], root: Path) -> str:
    sources = Sources(root)
    found = sources.closure(modules, without)
    sources.remember()
    return hashlib.sha256(json.dumps(sorted((name, digest) for name, (digest, _) in found.items())).encode()).hexdigest()


class Sources:
    """The modules of the package in the folder `root`; what is known of them is kept in the object cache."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._place = hashlib.sha256(f"sources {root}".encode()).hexdigest()
        stored = shared_cache().load(self._place)
        self._known: dict[str, Any] = {} if stored is None else json.loads(stored)  # module -> time, size, digest, imports
        self._new = False

    def closure(self, modules: Iterable[str], without: tuple[str, ...] = ()) -> dict[str, Source]:
        """{module: its source} of the modules and of all they import, but for those that begin with `without`."""
        found: dict[str, Source] = {}
        waiting = list(modules)
        while waiting:
            name = waiting.pop()
            if name not in found and not name.startswith(without):
                found[name] = self.source(name)
                waiting += found[name][1]
        return found

    def source(self, module: str) -> Source:
        """(digest, imports) of a module."""
        path = self.path(module)
        if path is None:
            raise ValueError(f"there is no module {module} in {self.root}: pass the name of a module of the package")
        info = path.stat()
        known = self._known.get(module)
        if known is None or known[:2] != [info.st_mtime_ns, info.st_size]:
            text = path.read_text(encoding="utf-8")
            known = self._known[module] = [info.st_mtime_ns, info.st_size, _digest(text), self._imports(text)]
            self._new = True
        return known[2], known[3]

    def remember(self) -> None:
        """Keep what was learned for the next process."""
        if self._new:
            shared_cache().store(self._place, json.dumps(self._known).encode())
            self._new = False

    def path(self, module: str) -> Path | None:
        """The file of a module; None when there is none."""
        place = self.root.joinpath(*module.split("."))
        return next((p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file()), None)

    def _imports(self, text: str) -> list[str]:
        found = set()
        plain = re.sub("#.*", "", LONG_STRING.sub("", text))
        for source, listed, modules in IMPORT.findall(FOR_TYPES.sub("", plain)):
            names = [part.split()[0] for part in (listed or modules).strip("()\n ").split(",") if part.strip()]
            # a name of a package is a module of it, or something that its __init__ defines
            parts = [f"{source}.{name}" for name in names] if source else names
            found |= {part if self.path(part) or not source else source for part in parts}
        return sorted(name for name in found if name.partition(".")[0] == "condyle" and self.path(name))


def _digest(text: str) -> str:
    """Sha256 of what a module does: of its bytecode, to which docstrings, comments and layout are nothing."""
    sha = hashlib.sha256()
    _update(sha, compile(text, "", "exec", dont_inherit=True, optimize=2))
    return sha.hexdigest()


def _update(sha: hashlib._Hash, value: Any) -> None:
    """Hash a constant of a module, or code without the places where it is written."""
    if isinstance(value, CodeType):
        counts = (value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags)
        names = (value.co_name, value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
        # where a docstring was, an instruction is left that does nothing
        code = value.co_code
        if NOP in code[::2]:
            code = b"".join([code[k : k + 2] for k in range(0, len(code), 2) if code[k] != NOP])
        sha.update(repr((counts, names, code, value.co_exceptiontable, len(value.co_consts))).encode())
        for part in value.co_consts:
            _update(sha, part)
    elif isinstance(value, tuple | frozenset):
        sha.update(f"{type(value).__name__} {len(value)}".encode())
        for part in sorted(value, key=repr) if isinstance(value, frozenset) else value:
            _update(sha, part)
    else:
        sha.update(repr(value).encode())


def _modules_of(values: Iterable[Any]) -> set[str]:
    """The modules of the package that define these functions and objects, and the ones they hold."""
    found: set[str] = set()
    seen: dict[int, Any] = {}
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, (tuple, list, set, frozenset)):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, partial):
            waiting += [value.func, *value.args, *value.keywords.values()]
        elif isinstance(value, (FunctionType, MethodType)):
            found.add(value.__module__)
            waiting += [cell.cell_contents for cell in value.__closure__ or ()] + [getattr(value, "__self__", None)]
        else:
            module = (value if isinstance(value, type) else type(value)).__module__
            found.add(module)
            # what a compiled function holds is data, and data belongs to the other part of the key
            if module.startswith("condyle.") and not module.startswith("condyle.tape.") and not isinstance(value, type):
                waiting += (
                    vars(value).values() if hasattr(value, "__dict__") else [getattr(value, n, None) for n in _slots(value)]
                )
    return {name for name in found if name.startswith("condyle.")}


def _slots(value: Any) -> list[str]:
    return [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
