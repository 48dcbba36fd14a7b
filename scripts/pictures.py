"""Draw pictures of the pages in docs/, each by its name.

python scripts/pictures.py elementary            # writes docs/images/elementary.png
python scripts/pictures.py all
python scripts/pictures.py notation --to out     # writes out/notation.png
"""

from __future__ import annotations

import argparse
import ast
from importlib import import_module
from pathlib import Path
from time import perf_counter

PLOTS = Path(__file__).resolve().parent / "plots"
IMAGES = PLOTS.parent.parent / "docs" / "images"


def drawn_in() -> dict[str, str]:
    """{picture: its file in scripts/plots}: the functions that `@picture` decorates, read without running them."""
    return {
        node.name: path.stem
        for path in sorted(PLOTS.glob("*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and any(ast.unparse(each).startswith("picture(") for each in node.decorator_list)
    }


def main() -> None:
    known = drawn_in()
    parser = argparse.ArgumentParser(description="Draw pictures of the pages in docs/.")
    parser.add_argument("names", nargs="+", choices=[*known, "all"], metavar="NAME", help=", ".join([*known, "all"]))
    parser.add_argument("--to", type=Path, default=IMAGES, help="the folder to write to (docs/images)")
    options = parser.parse_args()
    for name in known if "all" in options.names else options.names:
        start = perf_counter()
        path = options.to / f"{name}.png"
        getattr(import_module(f"plots.{known[name]}"), name)(path)
        print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB in {perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main()
