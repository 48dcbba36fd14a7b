"""The picture of the page on lab sheets: figures of the notebooks, as they draw them."""

from __future__ import annotations

import base64
import os
import tempfile
from io import BytesIO
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from picture_style import save_image
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
SHOWN = (("1_mass_matrix", 1), ("3_jacobians_and_forces", 0), ("4_passivity_and_energy", 0), ("5_sampling_and_delay", 0))
WIDTH = 1200


def lab_sheets(path: Path) -> None:
    """Ellipsoids of inertia, velocity and force, the balance of energy, and the regions of stable gains."""
    (a, b), rest = [_figure(*each) for each in SHOWN[:2]], [_figure(*each) for each in SHOWN[2:]]
    height = round(WIDTH / (a.width / a.height + b.width / b.height))
    top = [image.resize((round(image.width * height / image.height), height), Image.Resampling.LANCZOS) for image in (a, b)]
    rows = [image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS) for image in rest]
    page = Image.new("RGB", (WIDTH, height + sum(row.height for row in rows)), "white")
    page.paste(top[0], (0, 0))
    page.paste(top[1], (top[0].width, 0))
    y = height
    for row in rows:
        page.paste(row, (0, y))
        y += row.height
    save_image(page, path, colors=64)


def _figure(name: str, number: int) -> Image.Image:
    """A figure of a notebook, by its number."""
    book = nbformat.read(ROOT / "examples" / "lab_sheets" / f"{name}.ipynb", as_version=4)
    os.environ["PYTHONPATH"] = str(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    images = [output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    return Image.open(BytesIO(base64.b64decode(images[number]))).convert("RGB")
