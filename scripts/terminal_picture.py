"""A picture of what a command prints, as in a terminal, for the documentation.

python scripts/terminal_picture.py docs/images/command_line.png condyle --help
python scripts/terminal_picture.py docs/images/install.png condyle verify compiler

Needs Chromium, which draws the letters.
"""

from __future__ import annotations

import argparse
import html
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from picture_style import save_image
from PIL import Image
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

COLUMNS, SCALE = 80, 2
PIXELS = (8.43, 17)  # of one letter of 14 px
ROOM = 22  # around the text
INK, PAPER = (222, 226, 233), (24, 27, 33)
NORMAL = [(24, 27, 33), (235, 110, 104), (124, 199, 122), (229, 192, 105), (106, 163, 240), (197, 134, 222), (98, 190, 201), INK]
THEME = TerminalTheme(PAPER, INK, NORMAL, NORMAL)
PAGE = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: rgb{paper}; }}
pre {{ margin: {room}px; font: 14px/17px "DejaVu Sans Mono", monospace; color: rgb{ink}; white-space: pre; }}
</style><pre>{text}</pre>"""


def printed(command: list[str]) -> str:
    """What a command writes to a terminal of eighty columns, colours included."""
    leader, follower = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color", "FORCE_COLOR": "1"}
    environment.pop("NO_COLOR", None)
    child = subprocess.Popen(command, stdout=follower, stderr=subprocess.DEVNULL, env=environment)
    os.close(follower)
    parts = []
    while True:
        try:
            part = os.read(leader, 65536)
        except OSError:
            break
        if not part:
            break
        parts.append(part)
    child.wait()
    os.close(leader)
    return b"".join(parts).decode().replace("\r", "")


def page(command: list[str], text: str) -> tuple[str, int]:
    """(HTML of the terminal, its lines)."""
    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), color_system="truecolor", force_terminal=True)  # noqa: SIM115
    shown = Text.assemble(("$ ", "bold green"), (" ".join(command), "bold"), "\n\n")
    for line in text.strip("\n").splitlines():
        shown.append_text(Text.from_ansi(line.rstrip()))
        shown.append("\n")
    console.print(shown, soft_wrap=True, end="")
    made = console.export_html(theme=THEME, inline_styles=True, code_format="{code}")
    lines = html.unescape(re.sub(r"<[^>]*>", "", made)).rstrip("\n").count("\n") + 1
    return PAGE.format(paper=PAPER, ink=INK, room=ROOM, text=made), lines


def main() -> None:
    """Run the command and write the picture."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("out", type=Path)
    arguments.add_argument("command", nargs=argparse.REMAINDER)
    given = arguments.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("Chromium is needed to draw the letters: apt-get install chromium")
    program = shutil.which(given.command[0], path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    content, lines = page(given.command, printed([program or given.command[0], *given.command[1:]]))
    size = (round(COLUMNS * PIXELS[0]) + 2 * ROOM, lines * PIXELS[1] + 2 * ROOM)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "page.html").write_text(content)
        flags = ["--headless", "--no-sandbox", "--hide-scrollbars", f"--force-device-scale-factor={SCALE}"]
        flags += [
            f"--window-size={size[0]},{size[1]}",
            f"--user-data-dir={folder}/profile",
            f"--screenshot={folder}/page.png",
        ]
        given.out.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([chromium, *flags, f"file://{folder}/page.html"], check=True, capture_output=True, timeout=120)
        save_image(Image.open(f"{folder}/page.png"), given.out, 64)
    print(given.out)


if __name__ == "__main__":
    main()
