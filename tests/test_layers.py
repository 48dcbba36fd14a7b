"""The shape of the package: imports point one way, extras wait, files stay short, nothing dangerous, a fast start."""

import ast
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "condyle"

# data flows down this list; a file imports from its own folder and from rows above, never from a neighbour in its row
LAYERS = [
    ["tape"],
    ["robot"],
    ["dynamics"],
    ["constraints"],
    ["multibody", "doctor"],
    ["obstacles"],
    ["simulate"],
    ["closed_loop"],
    ["blocks"],
    ["runs"],
    ["control"],
    ["mpc", "learn", "planning", "identify"],
    ["view"],
    ["flight", "pidog"],
    ["tasks"],
    ["deploy"],
    ["compat", "connect"],
    ["lab"],
    ["demos"],
    ["commands"],
    ["cli"],
    ["__main__"],
]
RANK = {name: rank for rank, row in enumerate(LAYERS) for name in row}

# all that may be imported when a module loads; the rest is an extra, and is imported in the function that needs it
AT_THE_TOP = sys.stdlib_module_names | {"condyle", "numpy", "llvmlite", "typer", "rich"}

# `import condyle` loads none of these
NOT_AT_START = {
    "llvmlite",
    "typer",
    "rich",
    "gmpy2",
    "flint",
    "casadi",
    "matplotlib",
    "mujoco",
    "torch",
    "jax",
    "viser",
    "gymnasium",
}

LONGEST_FILE = 600  # lines
SLOWEST_IMPORT = 0.6  # s of one processor, at best of five: 0.25 on an idle computer, up to twice that on a busy one

FILES = sorted(PACKAGE.rglob("*.py"))


def test_there_are_files() -> None:
    assert FILES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_file(path: Path) -> None:
    """Imports point one way, optional packages are imported where they are used, nothing is dangerous, and it is short."""
    inside, text = path.relative_to(PACKAGE).parts, path.read_text()
    tree, lines = ast.parse(text), len(text.splitlines())
    faults = [*imported_too_early(tree), *dangers(tree)]
    if inside != ("__init__.py",):  # the door: it names what every layer offers
        layer = inside[0].removesuffix(".py")
        known = layer in ("errors", "atomic_write") or layer in RANK
        assert known, f"condyle/{inside[0]} has no place in LAYERS of {Path(__file__).name}"
        faults += wrong_way(tree, inside)
    if lines > LONGEST_FILE:
        faults.append((LONGEST_FILE, f"the file has {lines} lines, more than {LONGEST_FILE}: split it"))
    assert not faults, "\n".join(f"{path.relative_to(ROOT)}:{line}: {fault}" for line, fault in sorted(faults))


# -- which way imports point


def imported(tree: ast.Module, module: list[str]) -> Iterator[tuple[int, str]]:
    """(line, absolute dotted name) of everything imported anywhere in a file; `module` is the file's own package."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=source, names=names, level=level):
                start = module[: len(module) - level + 1] if level else []
                origin = ".".join(start + ([source] if source else []))
                yield from ((node.lineno, f"{origin}.{alias.name}") for alias in names)
            case ast.Call(func=function, args=[ast.Constant(value=str(target)), *_]):
                if ast.unparse(function).rpartition(".")[2] in ("import_module", "__import__", "require"):
                    yield node.lineno, target


def wrong_way(tree: ast.Module, inside: tuple[str, ...]) -> list[tuple[int, str]]:
    """Imports that break the order, in the file with the path `inside` the package: ("tape", "ops.py")."""
    layer = inside[0].removesuffix(".py")
    faults = []
    for line, name in imported(tree, ["condyle", *inside[:-1]]):
        top, _, rest = name.partition(".")
        target = rest.partition(".")[0]
        if top != "condyle" or target in ("errors", "atomic_write", "__version__"):
            continue
        if target not in RANK:
            if layer not in ("cli", "__main__"):
                faults.append((line, f"imports {name}: name the module it comes from, not the package"))
        elif layer not in RANK or (target != layer and RANK[target] >= RANK[layer]):
            faults.append((line, f"{layer} may not import {name}: data flows {' < '.join(map(', '.join, LAYERS))}"))
    return faults


@pytest.mark.parametrize(
    ("inside", "source", "allowed"),
    [
        ("tape/ops.py", "from condyle.tape.graph import Tape", True),
        ("tape/ops.py", "from . import graph", True),
        ("tape/ops.py", "from condyle import __version__", True),
        ("tape/ops.py", "from ..errors import ShapeError", True),
        ("tape/cache.py", "from condyle.atomic_write import replacing", True),
        ("atomic_write.py", "from condyle.errors import FileError", True),
        ("tape/ops.py", "from ..robot import model", False),
        ("tape/ops.py", "def f():\n    import condyle.dynamics.rnea", False),
        ("tape/ops.py", "from condyle import Function", False),
        ("tape/ops.py", "import condyle", False),
        ("robot/library/arm.py", "from ...tape import ops", True),
        ("robot/library/arm.py", "from .. import model", True),
        ("robot/library/arm.py", "from ... import view", False),
        ("plan/sample.py", "from condyle.control import lqr", False),
        ("view/window.py", "from condyle.learn import policy", True),
        ("view/window.py", "importlib.import_module('condyle.compat.gym')", False),
        ("cli.py", "from condyle import tape, view, load", True),
        ("errors.py", "from condyle.tape import ops", False),
        ("errors.py", "from importlib import import_module", True),
    ],
)
def test_the_rule_itself(inside: str, source: str, allowed: bool) -> None:
    faults = wrong_way(ast.parse(source), tuple(inside.split("/")))
    assert (not faults) == allowed


# -- what a file may contain


def at_load(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported: not in functions, not under `if TYPE_CHECKING`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from at_load(child)


def imported_too_early(tree: ast.Module) -> list[tuple[int, str]]:
    """Imports of optional packages that run when the module is loaded."""
    faults = []
    for node in at_load(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        for name in names:
            if name.partition(".")[0] not in AT_THE_TOP:
                faults.append((node.lineno, f"imports {name} when loaded: move it into the function that needs it"))
    return faults


UNPICKLERS = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "marshal", "shelve"}
SHELLS = {"system", "popen"}


def dangers(tree: ast.Module) -> list[tuple[int, str]]:
    """Running text as code, unpickling, and shells."""
    faults = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                faults += [(node.lineno, f"import {a.name}") for a in names if a.name.partition(".")[0] in UNPICKLERS]
            case ast.ImportFrom(module=str(source), names=names):
                faults += [(node.lineno, f"from {source}")] if source.partition(".")[0] in UNPICKLERS else []
                faults += [(node.lineno, f"os.{a.name}") for a in names if source == "os" and a.name in SHELLS]
            case ast.Attribute(value=ast.Name(id="os"), attr=name) if name in SHELLS:
                faults.append((node.lineno, f"os.{name}"))
            case ast.Name(id="eval" | "exec" | "builtins" as name):
                faults.append((node.lineno, name))
            case ast.keyword(arg="shell" | "allow_pickle" as name, value=value):
                if not (isinstance(value, ast.Constant) and value.value is False):
                    faults.append((value.lineno, f"{name}={ast.unparse(value)}"))
    return faults


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("eval('1')", 1),
        ("exec(code, {})", 1),
        ("builtins.exec(code)", 1),
        ("model.eval()", 0),
        ("import pickle", 1),
        ("from pickle import loads", 1),
        ("os.system('ls')", 1),
        ("from os import system, path", 1),
        ("subprocess.run('ls', shell=True)", 1),
        ("subprocess.run(['ls'], shell=False)", 0),
        ("np.load(path, allow_pickle=True)", 1),
    ],
)
def test_the_dangers_themselves(source: str, count: int) -> None:
    assert len(dangers(ast.parse(source))) == count


# -- how it starts

CHILD = """
import time; start = time.process_time()
import condyle
seconds = time.process_time() - start
import json, sys
print(json.dumps([seconds, condyle.__version__, sorted(sys.modules)]))
"""


def test_import_is_fast_silent_and_light() -> None:
    times = []
    for _ in range(5):
        child = subprocess.run([sys.executable, "-c", CHILD], cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert child.returncode == 0, child.stderr
        printed = child.stdout + child.stderr
        assert printed.count("\n") == 1, f"`import condyle` printed: {printed}"
        seconds, version, modules = json.loads(child.stdout)
        times.append(seconds)
        if seconds < SLOWEST_IMPORT:
            break
    assert not NOT_AT_START & set(modules), "`import condyle` loads a package that belongs where it is used"
    assert version == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert min(times) < SLOWEST_IMPORT, f"`import condyle` took {min(times):.3f} s at best"
