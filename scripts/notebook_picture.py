"""Run examples/first_minute.ipynb and take a picture of what it shows: python scripts/notebook_picture.py

Needs the packages of the tests, and Chromium.
"""

from __future__ import annotations

import sys
import tempfile
import time
from html import escape
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "view"))
sys.path.insert(0, str(ROOT / "scripts"))

from browser import Browser  # noqa: E402
from picture_style import save_image  # noqa: E402

STYLE = """body{font:15px system-ui,sans-serif;margin:16px 24px;max-width:860px}
pre{background:#f2f4f7;padding:8px 12px;border-radius:6px;font-size:13px;margin:10px 0 6px}.out{margin:0 0 14px}"""


def page(book: nbformat.NotebookNode) -> str:
    """The cells and their outputs, as a notebook shows them."""
    out = []
    for cell in book.cells:
        if cell.cell_type == "markdown":
            head, _, rest = cell.source.partition("\n\n")
            out.append(
                f"<h2>{escape(head[2:])}</h2><p>{escape(rest)}</p>" if head.startswith("# ") else f"<p>{escape(cell.source)}</p>"
            )
            continue
        out.append(f"<pre>{escape(cell.source)}</pre>")
        for output in cell.outputs:
            html = output.data["text/html"] if "data" in output else f"<pre>{escape(output.text)}</pre>"
            out.append(f'<div class="out">{html}</div>')
    return f'<!doctype html><meta charset="utf-8"><style>{STYLE}</style>{"".join(out)}'


def draw(path: Path) -> None:
    book = nbformat.read(ROOT / "examples" / "first_minute.ipynb", as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
        shown = Path(folder) / "notebook.html"
        shown.write_text(page(book), encoding="utf-8")
        with Browser((900, 1500)) as browser:
            browser.open(shown)
            time.sleep(6.0)
            image = browser.screenshot()
    save_image(Image.fromarray(image), path)


if __name__ == "__main__":
    draw(ROOT / "docs" / "images" / "notebook.png")
