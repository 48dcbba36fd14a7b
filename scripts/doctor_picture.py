"""Draw docs/images/doctor.png: what `condyle doctor` prints about the broken arm of docs/doctor.md, and the corrected arm.

python scripts/doctor_picture.py [docs/images/doctor.png]
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from rich.console import Console
from rich.text import Text

import condyle as cd
from condyle.atomic_write import write_bytes
from condyle.commands.doctor import examine, show
from condyle.workbench.view.picture import picture

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "doctor.md"
COLUMNS, SIZE, LEADING, MARGIN = 84, 17, 24, 28
PAPER, INK = (24, 27, 33), (222, 225, 230)
# red, green, yellow and cyan, by their numbers in a terminal
COLORS = {1: (255, 107, 107), 2: (118, 205, 140), 3: (240, 196, 84), 6: (104, 196, 214)}
POSE = (0.5, 0.9)


def main(target: Path) -> None:
    """Write the picture."""
    arm = re.search(r'ARM = """(.*?)"""', PAGE.read_text(), re.DOTALL)
    assert arm is not None
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("arm.urdf").write_text(arm[1])
            said = printed("arm.urdf")
            examine("arm.urdf", fix=True)
            robot = cd.load("arm.fixed.urdf")
        finally:
            os.chdir(here)
    left = terminal(["$ condyle doctor arm.urdf", *said])
    right = picture(robot, np.array(POSE), size=(560, left.shape[0]), label=False)
    image = Image.fromarray(np.concatenate([left, right], axis=1))
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True)
    write_bytes(target, out.getvalue())
    print(target, image.size)


def printed(path: str) -> list[Text | str]:
    """What the command prints, in lines with their colours."""
    console = Console(width=COLUMNS, force_terminal=True, no_color=False, color_system="standard", file=io.StringIO())
    with console.capture() as capture:
        show(examine(path), console)
    return list(Text.from_ansi(capture.get()).split("\n", allow_blank=True))


def terminal(lines: list[Text | str]) -> np.ndarray:
    """The lines as a picture of a terminal, (height, width, 3)."""
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    plain = ImageFont.truetype(str(fonts / "DejaVuSansMono.ttf"), SIZE)
    bold = ImageFont.truetype(str(fonts / "DejaVuSansMono-Bold.ttf"), SIZE)
    step = plain.getlength("m")
    while lines and not str(lines[-1]).strip():
        lines = lines[:-1]
    image = Image.new("RGB", (round(COLUMNS * step) + 2 * MARGIN, LEADING * len(lines) + 2 * MARGIN), PAPER)
    draw = ImageDraw.Draw(image)
    console = Console(color_system="standard", file=io.StringIO())
    for row, line in enumerate(lines):
        text = line if isinstance(line, Text) else Text(line, "bold")
        for column, letter in enumerate(text.plain):
            style = text.get_style_at_offset(console, column)
            color = COLORS.get(style.color.number or 0, INK) if style.color is not None else INK
            if style.dim:
                color = tuple(round(0.68 * c + 0.32 * p) for c, p in zip(color, PAPER, strict=True))  # type: ignore[assignment]
            draw.text((MARGIN + column * step, MARGIN + row * LEADING), letter, color, bold if style.bold else plain)
    return np.asarray(image)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images" / "doctor.png")
