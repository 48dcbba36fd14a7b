"""Pictures of what commands print, and of what a browser shows. The latter need Chromium."""

from __future__ import annotations

import io
import os
import pty
import shutil
import subprocess
import sys
import tempfile
import time
from html import escape
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from plots.style import ROOT, picture, program
from rich.console import Console
from rich.text import Text

import condyle as cd
from condyle.workbench.view.picture import picture as render

SIZE, LEADING, MARGIN = 17, 20, 28  # pixels
PAPER, INK = (24, 27, 33), (222, 225, 230)
# by their numbers in a terminal: red, green, yellow, blue, magenta, cyan
COLORS = {1: (255, 107, 107), 2: (118, 205, 140), 3: (240, 196, 84), 4: (106, 163, 240), 5: (197, 134, 222), 6: (104, 196, 214)}


# -- terminals


@picture(colors=64)
def command_line() -> Any:
    return terminal("condyle --help", 80)


@picture(colors=64)
def install() -> Any:
    return terminal("condyle verify compiler", 80)


@picture()
def doctor() -> Any:
    """What `condyle doctor` prints about the broken arm of its page, and the corrected arm."""
    arm = program("doctor")["ARM"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "arm.urdf").write_text(arm)
        left = terminal("condyle doctor arm.urdf", 84, folder)
        printed("condyle doctor arm.urdf --fix", 84, folder)
        right = render(cd.load(Path(folder) / "arm.fixed.urdf"), np.array([0.5, 0.9]), size=(560, left.height), label=False)
    return Image.fromarray(np.concatenate([np.asarray(left), right], axis=1))


def printed(command: str, width: int, folder: str | Path = ".") -> str:
    """What a command writes to a terminal, colours included."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(width), "TERM": "xterm-256color", "FORCE_COLOR": "1"}
    environment.pop("NO_COLOR", None)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    name, *rest = command.split()
    words, parts = [shutil.which(name, path=path) or name, *rest], []
    child = subprocess.Popen(words, stdout=follower, stderr=subprocess.DEVNULL, env=environment, cwd=folder)
    os.close(follower)
    try:
        while part := os.read(leader, 65536):
            parts.append(part)
    except OSError:
        pass  # the end of a terminal, on Linux
    child.wait()
    os.close(leader)
    return b"".join(parts).decode().replace("\r", "")


def terminal(command: str, width: int, folder: str | Path = ".") -> Image.Image:
    """A terminal in which a command was entered."""
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    plain, bold = (ImageFont.truetype(str(fonts / f"DejaVuSansMono{weight}.ttf"), SIZE) for weight in ("", "-Bold"))
    text = printed(command, width, folder).strip("\n")
    lines = [Text(f"$ {command}", "bold"), Text(), *Text.from_ansi(text).split("\n", allow_blank=True)]
    advance, console = plain.getlength("m"), Console(color_system="standard", file=io.StringIO())
    image = Image.new("RGB", (round(width * advance) + 2 * MARGIN, LEADING * len(lines) + 2 * MARGIN), PAPER)
    draw = ImageDraw.Draw(image)
    for row, line in enumerate(lines):
        for column, letter in enumerate(line.plain):
            style = line.get_style_at_offset(console, column)
            color = COLORS.get(style.color.number or 0, INK) if style.color is not None else INK
            if style.dim:
                color = tuple(round(0.68 * c + 0.32 * p) for c, p in zip(color, PAPER, strict=True))
            draw.text((MARGIN + column * advance, MARGIN + row * LEADING), letter, color, bold if style.bold else plain)
    return image


# -- browsers


@picture()
def viewer() -> Any:
    """The viewer with PiDog's walk, as a browser shows it. Needs the extra `viewer`."""
    from workbench.view.browser import Browser

    from condyle.apps.demos import pidog
    from condyle.workbench.view.window import open_window

    with open_window(pidog.run(), port=0) as window, Browser((1200, 720)) as browser:
        browser.open(f"{window.url}/?fixedDpr=1")
        browser.wait_for(lambda: len(window.server.get_clients()) > 0, 60.0)
        browser.evaluate("document.querySelectorAll('.mantine-Notification-closeButton').forEach(button => button.click())")
        window.view.seek(2.2)
        # the light of the surroundings is worked out slowly in software
        time.sleep(20.0)
        return Image.fromarray(browser.screenshot())


@picture()
def notebook() -> Any:
    """What examples/first_minute.ipynb shows."""
    import nbformat
    from nbclient import NotebookClient
    from workbench.view.browser import Browser

    book = nbformat.read(ROOT / "examples" / "first_minute.ipynb", as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
        shown = Path(folder) / "notebook.html"
        shown.write_text(notebook_page(book), encoding="utf-8")
        with Browser((900, 1500)) as browser:
            browser.open(shown)
            time.sleep(6.0)
            return Image.fromarray(browser.screenshot())


def notebook_page(book: Any) -> str:
    """The cells and their outputs, as a notebook shows them."""
    style = """body{font:15px system-ui,sans-serif;margin:16px 24px;max-width:860px}
pre{background:#f2f4f7;padding:8px 12px;border-radius:6px;font-size:13px;margin:10px 0 6px}.out{margin:0 0 14px}"""
    out = [f'<!doctype html><meta charset="utf-8"><style>{style}</style>']
    for cell in book.cells:
        if cell.cell_type == "markdown":
            head, _, rest = cell.source.partition("\n\n")
            titled = head.startswith("# ")
            out.append(f"<h2>{escape(head[2:])}</h2><p>{escape(rest)}</p>" if titled else f"<p>{escape(cell.source)}</p>")
            continue
        out.append(f"<pre>{escape(cell.source)}</pre>")
        for output in cell.outputs:
            html = output.data["text/html"] if "data" in output else f"<pre>{escape(output.text)}</pre>"
            out.append(f'<div class="out">{html}</div>')
    return "".join(out)
