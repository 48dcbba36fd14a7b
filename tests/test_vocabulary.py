"""The words of the package: the field's terms in module names, definitions and prose, and a docstring on everything public.

The names on the left of the table in the style guide must not return. A module, function, class, parameter or constant may not
have one of them; prose (comments, docstrings, messages, pages) may not use the words in the meaning that the table replaces.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# file names that say nothing about what is inside, or are metaphors
MODULES = """
    here inner recorded single native tiles vectors text blocks structure turning chart constraining constrained conditions
    described guess branch elimination tied touch touch_frame laws boxes local move aligned make setup numbers plain whole
    recipe patient bar notes panels beat looks film films mistakes promises machines together performance words cures
"""
# names of functions, classes, parameters and constants
NAMES = """
    Truth held slopes_at_zero rate_at_zero Turning spins Place Found Layer chart Tied Corners Bounded Part Patient Ward ILL
    patient sharper carried felt lightness carriers shares tied touches laws boxes aligned turned_back whole recipe BY_PLACE
    BY_RATE MOST_SIDEWAYS hastening swaying shaking told cured healthy doubts film films beat looks panels bar together machine
    machines Machine MACHINES slopes Slopes Row truth way firm bold careful tries arrives arrived
"""
FORBIDDEN_MODULES, FORBIDDEN_NAMES = set(MODULES.split()), set(NAMES.split())
# (pattern, usual term)
PROSE = [
    (r"\barriv(e|es|ed|ing)\b", "converge"),
    (r"\bfirm(er|est|ly)\b|\bboldly\b|\bcarefully\b|\bhow (boldly|firmly)\b", "the parameter's name"),
    (r"\btries\b", "attempts"),
    (r"\bpatient\b|\bcure[sd]?\b|\bhealthy\b|\bdoubt(s|ful)?\b", "document, fix, ok, warning"),
    (r"\btold\b|\bunless told\b", "info, by default"),
    (r"\bfelt\b|\blightness\b|\bcarriers?\b", "effective mass, inverse inertia, ancestors"),
    (r"\bstand(s|ing)? still\b", "inertial frame, at rest"),
    (r"\btied\b", "projected, constrained"),
    (r"\bfree numbers?\b", "parameters"),
    (r"\bfilm(s|ed|ing)?\b", "video"),
    (r"\bplastic\b", "inelastic"),
    (r"force,? (then|and) (a )?couple\b|\(force, couple\)", "torque"),
    (r"\bslopes?_at", "jacobian"),
    (r"\bmachines?\b(?! code| precision| epsilon|\(\))", "backend, robot or computer"),
    (r"\bwhat is left\b", "residual"),
]
PATTERNS = [(re.compile(pattern, re.IGNORECASE), usual) for pattern, usual in PROSE]
ANY_PATTERN = re.compile("|".join(f"(?:{pattern})" for pattern, _ in PROSE), re.IGNORECASE)  # most lines match none

# file: words that are right there, as a pattern
ALLOWED = {
    "tests/test_vocabulary.py": ".*",  # this file
    "CHANGELOG.md": ".*",  # its list of renamed names
}

# not clean yet; the goal is an empty set
NOT_YET: set[str] = set()

SUFFIXES = {".py", ".md", ".js", ".css", ".ipynb"}
FOLDERS = ("condyle", "docs", "examples", "tools", "benchmarks", "tests")
FILES = sorted(
    path
    for path in [ROOT / "README.md", ROOT / "CHANGELOG.md", *(p for folder in FOLDERS for p in (ROOT / folder).rglob("*"))]
    if path.suffix in SUFFIXES
)


def name_of(path: Path) -> str:
    """The path from the root of the repository."""
    return path.relative_to(ROOT).as_posix()


def skipped(path: Path, paths: set[str]) -> bool:
    """Whether the file, or a folder that contains it, is in the list."""
    name = name_of(path)
    return any(name == each or name.startswith(f"{each}/") for each in paths)


# ---- words


def definitions(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, name) of functions, classes, parameters, and names assigned in a module or class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        if isinstance(node, ast.Module | ast.ClassDef):
            for child in node.body:
                targets = (
                    child.targets if isinstance(child, ast.Assign) else [child.target] if isinstance(child, ast.AnnAssign) else []
                )
                for target in targets:
                    yield from ((child.lineno, name.id) for name in ast.walk(target) if isinstance(name, ast.Name))


def faults(path: Path, text: str, allowed: str = "") -> list[str]:
    """The words of a file that have a usual term, but for those that match `allowed`."""
    found = []
    if path.suffix == ".py":
        if path.stem in FORBIDDEN_MODULES:
            found.append((1, path.stem, "a module named after its content"))
        names = definitions(ast.parse(text))
        found += [(line, name, "see the style guide") for line, name in names if name.lstrip("_") in FORBIDDEN_NAMES]
    for number, line in enumerate(text.splitlines() if ANY_PATTERN.search(text) else (), 1):
        found += [(number, match[0], usual) for pattern, usual in PATTERNS for match in pattern.finditer(line)]
    return [f"{line}: '{word}' (usual: {usual})" for line, word, usual in found if not re.fullmatch(allowed, word)]


@pytest.mark.parametrize("path", [path for path in FILES if not skipped(path, NOT_YET)], ids=name_of)
def test_the_field_s_terms_are_used(path: Path) -> None:
    found = faults(path, path.read_text(), ALLOWED.get(name_of(path), ""))
    assert not found, "\n".join(f"{name_of(path)}:{fault}" for fault in found)


def test_what_is_skipped_exists() -> None:
    assert all((ROOT / name).exists() for name in NOT_YET | set(ALLOWED))


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("def carriers(x): pass", 2),
        ("def f(Layer): pass", 1),
        ("class Corners: pass", 1),
        ("held = 1", 1),
        ("def f():\n    held = 1", 0),
        ("# the solver converges", 0),
        ("# the solver arrives", 1),
        ("'machine code'", 0),
        ("'the machine'", 1),
    ],
)
def test_words_are_found(source: str, count: int) -> None:
    assert len(faults(Path("file.py"), source)) == count


# ---- docstrings


def undocumented(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[int, str]]:
    """(line, name) of public functions, classes and methods without a docstring."""
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        decorators = [ast.unparse(each) for each in node.decorator_list]
        if any(each.endswith((".setter", "overload")) for each in decorators):
            continue
        if ast.get_docstring(node) is None:
            yield node.lineno, prefix + node.name
        if isinstance(node, ast.ClassDef):
            yield from undocumented(node, f"{prefix}{node.name}.")


@pytest.mark.parametrize("path", sorted((ROOT / "condyle").rglob("*.py")), ids=name_of)
def test_everything_public_has_a_docstring(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), f"{name_of(path)} has no docstring"
    missing = [f"{name_of(path)}:{line}: {name} has no docstring" for line, name in undocumented(tree)]
    assert not missing, "\n".join(missing)


def test_missing_docstrings_are_found() -> None:
    source = (
        'class A:\n    "a"\n    def f(self): pass\n    def _g(self): pass\n    @x.setter\n    def x(self, v): pass\ndef h(): pass'
    )
    assert [name for _, name in undocumented(ast.parse(source))] == ["A.f", "h"]
