"""The package's shape: imports point one way, extras are imported where they are used, nothing is dangerous, files are short."""

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "condyle"

STOREYS = ("methods", "workbench", "apps", "commands")  # above the core; their rooms are folders of their own

# data flows down this list; a file imports from its own room and from rows above, never from a neighbour in its row
LAYERS = [
    # the core
    ["tape"],
    ["robot"],
    ["dynamics"],
    ["constraints"],
    ["multibody"],
    ["simulate"],
    ["closed_loop"],
    ["blocks"],
    ["methods.planning"],
    ["methods.control"],
    ["methods.mpc", "methods.learn", "methods.identify"],
    ["workbench.doctor", "workbench.runs"],
    ["workbench.view", "workbench.compare"],
    ["workbench.connect"],
    ["apps.flight", "apps.pidog", "apps.quadrupeds", "apps.lab"],
    ["apps.compat", "apps.demos"],
    ["commands"],
    ["__main__"],
]
RANK = {name: rank for rank, row in enumerate(LAYERS) for name in row}
FREE = ("errors", "atomic_write", "registered", "__version__")  # what every room may import
NAMED_IN_TEXT = sorted({name.partition(".")[0] for name in RANK})  # a text that names a module counts as an import
FACADE = ("__init__.py", "moved.py")  # they name what every storey offers

# all that may be imported when a module loads; the rest is an extra, and is imported in the function that needs it
AT_THE_TOP = sys.stdlib_module_names | {"condyle", "numpy", "llvmlite", "typer", "rich"}

LONGEST_FILE = 600  # lines


def check_layers() -> list[str]:
    """Files of the package that import against the order, load an extra, run text, or are too long."""
    files = sorted(PACKAGE.rglob("*.py"))
    assert files
    faults = [(path, *fault) for path in files for fault in file_faults(path.relative_to(PACKAGE).parts, path.read_text())]
    return [*(f"{path.relative_to(ROOT)}:{line}: {fault}" for path, line, fault in faults), *internals_of_simulations()]


def file_faults(inside: tuple[str, ...], text: str) -> list[tuple[int, str]]:
    """(line, fault) of the file with the path `inside` the package: ("tape", "ops.py")."""
    tree, lines = ast.parse(text), len(text.splitlines())
    faults = [*imported_too_early(tree), *dangers(tree)]
    room = room_of([part.removesuffix(".py") for part in inside])
    if inside[-1] != "__init__.py" and room not in (*RANK, *FREE, "moved"):
        faults.append((1, f"{'/'.join(('condyle', *inside))} has no place in LAYERS of scripts/{Path(__file__).name}"))
    if inside[0] not in FACADE:
        faults += wrong_way(tree, inside)
    if lines > LONGEST_FILE:
        faults.append((LONGEST_FILE, f"the file has {lines} lines, more than {LONGEST_FILE}: split it"))
    return sorted(faults)


# -- which way imports point


def room_of(parts: Sequence[str]) -> str:
    """The room of a module by its path inside the package: "tape", "methods.mpc"."""
    return ".".join(parts[: 1 + (parts[0] in STOREYS and parts[0] != "commands")])


def imported(tree: ast.Module, module: list[str]) -> Iterator[tuple[int, str]]:
    """(line, absolute dotted name) of everything imported or named in a text anywhere in a file; `module` is its own package."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from ((node.lineno, alias.name) for alias in names)
            case ast.ImportFrom(module=source, names=names, level=level):
                start = module[: len(module) - level + 1] if level else []
                origin = ".".join(start + ([source] if source else []))
                yield from ((node.lineno, f"{origin}.{alias.name}") for alias in names)
            case ast.Constant(value=str(text)) if re.fullmatch(rf"condyle\.({'|'.join(NAMED_IN_TEXT)})(\.\w+)*", text):
                yield node.lineno, text


def wrong_way(tree: ast.Module, inside: tuple[str, ...]) -> list[tuple[int, str]]:
    """Imports that break the order, in the file with the path `inside` the package: ("tape", "ops.py")."""
    room = room_of([part.removesuffix(".py") for part in inside])
    faults = []
    for line, name in imported(tree, ["condyle", *inside[:-1]]):
        top, _, rest = name.partition(".")
        if top != "condyle" or rest.partition(".")[0] in FREE:
            continue
        target = room_of(rest.split("."))
        if target not in RANK:
            if room != "__main__":
                faults.append((line, f"names {name}: name the module it comes from, not the package"))
        elif room not in RANK or (target != room and RANK[target] >= RANK[room]):
            faults.append((line, f"{room} may not name {name}: data flows {' < '.join(map(', '.join, LAYERS))}"))
    return faults


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


# what a simulation keeps for itself, and the files that may read it
INTERNALS, INSIDE = ("_world", "_stepper"), ("condyle/simulate/", "tests/simulate/")


def internals_of_simulations() -> Iterator[str]:
    """Files outside condyle/simulate/ that read the internals of a simulation."""
    for folder in ("condyle", "tests", "benchmarks", "examples", "scripts"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            for node in ast.walk(ast.parse(path.read_text())) if not name.startswith(INSIDE) else ():
                if isinstance(node, ast.Attribute) and node.attr in INTERNALS:
                    yield f"{name}:{node.lineno}: reads {node.attr}, which belongs to condyle/simulate/"
