"""Draw the ratios of docs/numbers.md as bars: python tools/numbers_picture.py"""

from __future__ import annotations

import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

from matplotlib.figure import Figure

from condyle.atomic_write import write_bytes

DOCS = Path(__file__).resolve().parent.parent / "docs"
BLUE, INK, FAINT = "#2a6bbf", "#22252b", "#8b909a"
NAMES = {"panda": "Panda", "anymal": "ANYmal", "talos": "Talos", "MuJoCo": "ANYmal"}
ROWS = {  # of the page's tables: the words that begin a row, and what the bar is called
    "forward dynamics derivatives": "derivatives of forward dynamics, against Pinocchio",
    "forward dynamics": "forward dynamics, against Pinocchio",
    "inverse dynamics": "inverse dynamics, against Pinocchio",
    "mass matrix": "mass matrix, against Pinocchio",
    "standing, with derivatives": "step with derivatives, standing, against MuJoCo",
    "treading, with derivatives": "step with derivatives, treading, against MuJoCo",
    "standing": "step with contact, standing, against MuJoCo",
    "treading": "step with contact, treading, against MuJoCo",
}


def bars(text: str) -> Iterator[tuple[str, float]]:
    """(name, times as fast) of every bold ratio in the tables; a table's columns are its robots."""
    heads: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if cells and not any("**" in cell for cell in cells) and "--" not in line:
            heads = cells
        row = next((name for words, name in ROWS.items() if cells and cells[0].startswith(words)), None)
        for head, cell in zip(heads, cells, strict=False):
            ratio = re.search(r"= \*\*([\d.]+)\*\*", cell)
            if row and ratio:
                yield f"{row}: {NAMES[head.partition(',')[0]]}", float(ratio[1])


def draw(path: Path) -> None:
    """One bar for each ratio, longest first, on a logarithmic scale."""
    found = sorted(bars((DOCS / "numbers.md").read_text()), key=lambda pair: pair[1])
    figure = Figure(figsize=(9.5, 0.33 * len(found) + 0.9), dpi=100, layout="constrained")
    ax = figure.subplots()
    ax.barh(range(len(found)), [ratio for _, ratio in found], color=BLUE, height=0.66)
    ax.set_yticks(range(len(found)), [name for name, _ in found], fontsize=9, color=INK)
    for k, (_, ratio) in enumerate(found):
        ax.text(ratio * 1.03, k, f"{ratio:g}", va="center", fontsize=9, color=INK)
    ax.set_xscale("log")
    ax.set_xlim(1.0, 110.0)
    ax.set_xticks([1, 2, 5, 10, 20, 50, 100], ["1", "2", "5", "10", "20", "50", "100"], color=FAINT)
    ax.set_title("times as fast, one core, in the same process", loc="left", fontsize=11, color=INK)
    ax.grid(axis="x", color=FAINT, alpha=0.3, lw=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.tick_params(length=0)
    content = BytesIO()
    figure.savefig(content, format="png", facecolor="white")
    write_bytes(path, content.getvalue())


if __name__ == "__main__":
    draw(DOCS / "images" / "numbers.png")
