"""The words of the repository: the field's terms in module names, definitions and prose, and a docstring on everything public.

The names on the left of the table in the style guide must not return. A module, function, class, parameter or constant may not
have one of them; prose (comments, docstrings, messages, pages) may not use the words in the meaning that the table replaces.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

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
    "scripts/check_words.py": ".*",  # this file
    "tests/test_vocabulary.py": ".*",  # its examples of wrong words
    "CHANGELOG.md": ".*",  # its list of renamed names
}

SUFFIXES = {".py", ".md", ".js", ".css", ".ipynb"}
FOLDERS = ("condyle", "docs", "examples", "scripts", "benchmarks", "tests")


def check_words() -> list[str]:
    """Forbidden words in any text of the repository, and public definitions of the package without a docstring."""
    faults = [f"{name}: is listed in ALLOWED and does not exist" for name in ALLOWED if not (ROOT / name).exists()]
    files = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))]
    for path in sorted(path for path in files if path.suffix in SUFFIXES):
        name, text = path.relative_to(ROOT).as_posix(), path.read_text()
        faults += [f"{name}:{fault}" for fault in wrong_words(path, text, ALLOWED.get(name, ""))]
        if name.startswith("condyle/") and path.suffix == ".py":
            faults += [f"{name}:{line}: {definition} has no docstring" for line, definition in undocumented(ast.parse(text))]
    return faults


# -- words


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


def wrong_words(path: Path, text: str, allowed: str = "") -> list[str]:
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


# -- docstrings


def undocumented(tree: ast.Module | ast.ClassDef, prefix: str = "") -> Iterator[tuple[int, str]]:
    """(line, name) of a module, and of public functions, classes and methods, without a docstring."""
    if isinstance(tree, ast.Module) and not ast.get_docstring(tree):
        yield 1, "the module"
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
