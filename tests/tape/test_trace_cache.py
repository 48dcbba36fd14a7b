"""Keys of the cache follow what the source does and what it depends on, not how it is written or what lies beside it."""

from __future__ import annotations

import ast
import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.machinery import SourceFileLoader
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import pytest

import condyle as cd
from condyle.tape import trace_cache
from condyle.tape.cache import ObjectCache
from condyle.tape.trace_cache import Sources, source_hash, trace_key

FILES = {
    "__init__": '"""The package."""\nfrom condyle.b import g\n',
    "a": '"""Docstring."""\nfrom condyle import b\n\n\ndef f(x):\n    """What it gives."""\n    return b.g(x) + 1.0  # why\n',
    "b": "def g(x):\n    from condyle.c import h\n\n    return h(x) * 2.0\n",
    "c": "def h(x):\n    return x - 3.0\n",
    "other": "VALUE = 1.0\n",
    # text that is no docstring, though it comes first
    "text": 'X = "first"\n\n\ndef f():\n    return "second"\n\n\ndef g(xs):\n    return [f"third{x}" for x in xs]\n',
    "typed": "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from condyle.other import VALUE\n",
}


@pytest.fixture
def edit(tmp_path: Path) -> Callable[..., str]:
    """edit(module, old, new) changes a small package and gives the new hash of what module `a` or `root` depends on."""
    folder = tmp_path / "condyle"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / f"{name}.py").write_text(text)

    def change(module: str = "a", old: str = "", new: str = "", root: str = "a") -> str:
        path = folder / f"{module}.py"
        assert old in path.read_text()
        path.write_text(path.read_text().replace(old, new, 1))
        return json.dumps({name: digest for name, (digest, _) in Sources(tmp_path).closure([f"condyle.{root}"]).items()})

    return change


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("a", "  # why", ""),
        ("a", "What it gives.", "Something else."),
        ("a", '"""Docstring."""', '"""Other words."""'),
        ("a", "b.g(x) + 1.0", "(b.g(x)\n            + 1.0)"),
        ("other", "1.0", "2.0"),
        ("__init__", "from condyle.b import g", "from condyle.c import h"),
    ],
)
def test_wording_layout_and_unrelated_modules_change_no_key(edit: Callable[..., str], module: str, old: str, new: str) -> None:
    assert edit() == edit(module, old, new)


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("text", '"first"', '"other"'),
        ("text", '"second"', '"other"'),
        ("text", '"third', '"other'),
        ("a", "+ 1.0", "- 1.0"),
        ("b", "* 2.0", "* 3.0"),
        ("c", "x - 3.0", "x + 3.0"),
    ],
)
def test_an_operation_in_a_dependency_changes_the_key(edit: Callable[..., str], module: str, old: str, new: str) -> None:
    root = "text" if module == "text" else "a"
    assert edit(root=root) != edit(module, old, new, root=root)


def test_imports_for_type_checkers_are_no_dependency(edit: Callable[..., str]) -> None:
    assert edit(root="typed") == edit("other", "1.0", "2.0", root="typed")


def test_what_is_known_of_a_file_is_kept_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "condyle").mkdir()
    path = tmp_path / "condyle" / "a.py"
    path.write_text("X = 1\n")
    sources = Sources(tmp_path)
    first = sources.source("condyle.a")
    sources.remember()
    monkeypatch.setattr(trace_cache, "_digest", lambda tree: "read again")
    assert Sources(tmp_path).source("condyle.a") == tuple(first)
    os.utime(path, ns=(1, 1))
    assert Sources(tmp_path).source("condyle.a")[0] == "read again"


def package(folder: Path, text: str) -> Path:
    """The source of condyle.a in a package of its own."""
    (folder / "condyle").mkdir()
    (folder / "condyle" / "__init__.py").touch()
    path = folder / "condyle" / "a.py"
    path.write_text(text)
    return path


def test_bytecode_comes_from_the_import_system_where_it_is_certain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(trace_cache, "shared_cache", lambda: ObjectCache(None))
    path = package(tmp_path, "X = 1\n")
    second = int(path.stat().st_mtime) - 100
    os.utime(path, (second, second + 0.25))
    first = Sources(tmp_path).source("condyle.a")  # compiled
    loader = SourceFileLoader("condyle.a", str(path))
    loader.get_code("condyle.a")
    with monkeypatch.context() as no_compiler:
        no_compiler.setattr(SourceFileLoader, "source_to_code", None)
        assert Sources(tmp_path).source("condyle.a") == first
    # another source of the same size in the same second, which the import system takes for the same
    path.write_text("X = 2\n")
    os.utime(path, (second, second + 0.75))
    cached = cache_from_source(path)
    os.utime(cached, (second, second + 0.5))
    assert loader.get_code("condyle.a").co_consts[0] == 1
    assert Sources(tmp_path).source("condyle.a") != first
    os.unlink(cached)
    assert Sources(tmp_path).source("condyle.a") != first


def test_modules_in_an_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace_cache, "shared_cache", lambda: ObjectCache(None))

    def archived(text: str) -> tuple[Sources, Any]:
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        (package(folder, text).parent / "b.py").write_text("Y = 1\n")
        path = shutil.make_archive(str(folder), "zip", folder)
        return Sources(Path(path)), Sources(folder)

    sources, folder = archived("from condyle.b import Y\nX = Y + 1\n")
    assert sources.closure(["condyle.a"]) == folder.closure(["condyle.a"]) and len(sources.closure(["condyle.a"])) == 2
    other, _ = archived("from condyle.b import Y\nX = Y + 2\n")
    assert sources.source("condyle.a") != other.source("condyle.a")


def test_imports_are_those_of_the_syntax_tree() -> None:
    sources = Sources(trace_cache.ROOT)
    for path in sorted((trace_cache.ROOT / "condyle" / "closed_loop").glob("*.py")):
        tree = ast.parse(path.read_text())
        for_types = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
        skipped = {id(node) for block in for_types for node in ast.walk(block)}
        found = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module and id(node) not in skipped:
                parts = [f"{node.module}.{alias.name}" for alias in node.names]
                found |= {part if sources.spec(part) else node.module for part in parts}
        expected = sorted(name for name in found if name.startswith("condyle"))
        assert sources.source(f"condyle.closed_loop.{path.stem}")[1] == expected


def test_a_name_that_is_no_module_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"there is no module condyle\.nonsense"):
        source_hash("condyle.nonsense")


def closure(*modules: str) -> set[str]:
    return set(Sources(trace_cache.ROOT).closure(modules, trace_cache.IRRELEVANT))


def test_forward_dynamics_depends_on_its_own_algorithm() -> None:
    found = closure("condyle.dynamics.aba")
    assert {"condyle.dynamics.aba", "condyle.robot.spatial", "condyle.tape.scalar", "condyle.tape.fold"} <= found
    assert not found & {"condyle.dynamics.crba", "condyle.robot.urdf", "condyle.tape.llvm", "condyle.errors"}


def test_no_trace_depends_on_a_backend() -> None:
    assert not [m for m in closure("condyle.simulate.kernels") if m.startswith(("condyle.tape.llvm", "condyle.tape.backends"))]


@dataclass(frozen=True)
class Held:
    values: tuple[Any, ...]


def test_the_modules_of_what_a_function_is_given_count(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, ...]] = []
    monkeypatch.setattr(trace_cache, "source_hash", lambda *modules: asked.append(modules) or "")
    model = cd.load("pendulum").model

    def physics() -> Any:
        return model

    for value in (model, physics, partial(print, model), [{"a": (model,)}]):
        trace_key(value)
    assert all("condyle.robot.model" in modules and "condyle.robot.joints" in modules for modules in asked)
    trace_key(cd.array)
    assert asked[-1] == ("condyle.tape.array", "condyle.tape.trace")
