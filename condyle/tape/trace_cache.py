"""Traces kept between processes, and hashes of the source that decides a trace or a kernel.

A module is hashed by its bytecode, as the import system keeps it, and a set of modules with everything of the package that
they import, directly or not. Digests and imports are remembered in the object cache by path, modification time and size, so a
warm start only asks for dates.
"""

from __future__ import annotations

import dis
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import fields
from functools import cache, cached_property, partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

from condyle.errors import TraceError
from condyle.tape.cache import shared_cache
from condyle.tape.fingerprint import fingerprint
from condyle.tape.frozen_random import watch_random
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

STORE_NAME = bytes([dis.opmap["STORE_NAME"]])
SETTLED_NS = 1_000_000_000

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
        with watch_random(function):
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
        self._specs: dict[str, ModuleSpec | None] = {}
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
        spec = self.spec(module)
        if spec is None or spec.origin is None:
            raise ValueError(f"there is no module {module} in {self.root}: pass the name of a module of the package")
        info = _stat(Path(spec.origin))
        known = self._known.get(module)
        if known is None or known[:2] != [info.st_mtime_ns, info.st_size]:
            loader: Any = spec.loader
            imports = self._imports(loader.get_source(module))
            known = self._known[module] = [info.st_mtime_ns, info.st_size, _digest(_bytecode(spec, info.st_mtime_ns)), imports]
            self._new = True
        return known[2], known[3]

    def remember(self) -> None:
        """Keep what was learned for the next process."""
        if self._new:
            shared_cache().store(self._place, json.dumps(self._known).encode())
            self._new = False

    def spec(self, module: str) -> ModuleSpec | None:
        """Where the import system finds a module, in a folder or an archive; None when there is none. Nothing is imported."""
        if module not in self._specs:
            package, _, _ = module.rpartition(".")
            parent = self.spec(package) if package else None
            places = [str(self.root)] if not package else parent.submodule_search_locations if parent is not None else None
            self._specs[module] = PathFinder.find_spec(module, places) if places else None
        return self._specs[module]

    def _imports(self, text: str) -> list[str]:
        found = set()
        plain = re.sub("#.*", "", LONG_STRING.sub("", text))
        for source, listed, modules in IMPORT.findall(FOR_TYPES.sub("", plain)):
            names = [part.split()[0] for part in (listed or modules).strip("()\n ").split(",") if part.strip()]
            # a name of a package is a module of it, or something that its __init__ defines
            parts = [f"{source}.{name}" for name in names] if source else names
            # what is outside of the package is not looked for
            found |= {part if not source or (part.startswith("condyle.") and self.spec(part)) else source for part in parts}
        return sorted(name for name in found if name.partition(".")[0] == "condyle" and self.spec(name))


def _stat(path: Path) -> os.stat_result:
    """Of a file, or of the archive that it is in."""
    return path.stat() if path.exists() or path == path.parent else _stat(path.parent)


def _bytecode(spec: ModuleSpec, modified_ns: int) -> CodeType:
    """The code of a module, which the import system keeps beside its source."""
    loader: Any = spec.loader
    code: CodeType
    # the import system compares whole seconds: bytecode written within one of them may be that of another source
    if isinstance(spec.loader, SourceFileLoader) and not _written_after(spec.cached, modified_ns + SETTLED_NS):
        code = loader.source_to_code(loader.get_data(loader.path), loader.path)
    else:
        code = loader.get_code(spec.name)
    return code


def _written_after(path: str | None, moment_ns: int) -> bool:
    try:
        return path is not None and os.stat(path).st_mtime_ns > moment_ns
    except OSError:
        return False


def _digest(code: CodeType) -> str:
    """Sha256 of what a module does: of its bytecode, to which comments, layout and the words of docstrings are nothing."""
    sha = hashlib.sha256()
    _update(sha, code)
    return sha.hexdigest()


def _update(sha: hashlib._Hash, value: Any) -> None:
    """Hash a constant of a module, or code without the places where it is written."""
    if isinstance(value, CodeType):
        counts = (value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags)
        names = (value.co_name, value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
        sha.update(repr((counts, names, value.co_code, value.co_exceptiontable, len(value.co_consts))).encode())
        for part in (None, *value.co_consts[1:]) if _begins_with_docstring(value) else value.co_consts:
            _update(sha, part)
    elif isinstance(value, tuple | frozenset):
        sha.update(f"{type(value).__name__} {len(value)}".encode())
        for part in sorted(value, key=repr) if isinstance(value, frozenset) else value:
            _update(sha, part)
    else:
        sha.update(repr(value).encode())


def _begins_with_docstring(code: CodeType) -> bool:
    """Whether the first constant is text that is nothing but a docstring: no instruction takes it, or it becomes `__doc__`."""
    if not code.co_consts or not isinstance(code.co_consts[0], str):
        return False
    plain = code.co_code
    for k in range(0, len(plain), 2):
        if plain[k + 1] == 0 and plain[k] in dis.hasconst:
            stores = plain[k + 2 : k + 3] == STORE_NAME and code.co_names[plain[k + 3]] == "__doc__"
            if not stores:
                return False
    return True


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
