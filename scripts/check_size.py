"""The size of every storey in files, lines and statements, against the budget that `make lint` enforces.

python scripts/check_size.py        # the table
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from check_layers import STOREYS

ROOT = Path(__file__).resolve().parent.parent


class Size(NamedTuple):
    """Of Python files: how many, their lines, their statements."""

    files: int
    lines: int
    statements: int


# what was reached; what makes a storey smaller lowers its budget, and what makes it larger has to say why
BUDGET = {
    "core": Size(276, 50_000, 34_500),
    "methods": Size(106, 19_200, 12_700),
    "workbench": Size(73, 14_300, 10_100),
    "apps": Size(116, 20_000, 12_600),
    "commands": Size(34, 5_300, 3_100),
    "tests": Size(334, 58_300, 37_100),
    "scripts": Size(28, 5_700, 4_000),
    "benchmarks": Size(61, 10_500, 7_200),
    "examples": Size(28, 1_700, 1_100),
}


def storey(path: Path) -> str:
    """What a file of the repository counts for."""
    top, *rest = path.parts
    return (rest[0] if rest[0] in STOREYS else "core") if top == "condyle" else top


def sizes() -> dict[str, Size]:
    """Of every storey, and of what is around the package."""
    listed = subprocess.run(["git", "ls-files", "-z", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = dict.fromkeys(BUDGET, Size(0, 0, 0))
    for name in filter(None, listed.split("\0")):
        if (kind := storey(Path(name))) in found and (ROOT / name).is_file():
            text = (ROOT / name).read_text()
            statements = sum(isinstance(node, ast.stmt) for node in ast.walk(ast.parse(text)))
            before = found[kind]
            found[kind] = Size(before.files + 1, before.lines + len(text.splitlines()), before.statements + statements)
    return found


def check_size() -> Iterator[str]:
    """Storeys beyond their budget."""
    for kind, size in sizes().items():
        for what, count, limit in zip(Size._fields, size, BUDGET[kind], strict=True):
            if count > limit:
                yield f"{kind} has {count:,} {what}, and its budget in scripts/check_size.py is {limit:,}: merge before adding"


def table() -> str:
    """The sizes as Markdown."""
    found = sizes()
    package = [found[kind] for kind in ("core", *STOREYS)]
    total = Size(*(sum(column) for column in zip(*package, strict=True)))
    rows = [f"| {kind} | {size.files:,} | {size.lines:,} | {size.statements:,} |" for kind, size in found.items()]
    rows.insert(len(package), f"| **package** | {total.files:,} | {total.lines:,} | {total.statements:,} |")
    return "\n".join(["| | files | lines | statements |", "|---|--:|--:|--:|", *rows])


if __name__ == "__main__":
    print(table())
