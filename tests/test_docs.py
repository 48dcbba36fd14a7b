"""The pages as a whole: a picture on each, made by a command named below it; links and file names that lead somewhere.

What their code blocks do is checked by test_readme.py.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS, IMAGES, TOOLS = ROOT / "docs", ROOT / "docs" / "images", ROOT / "tools"
PAGES = sorted(DOCS.rglob("*.md"))
ALL = [ROOT / "README.md", *PAGES]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
each_text = pytest.mark.parametrize("page", ALL, ids=lambda page: page.relative_to(ROOT).as_posix())

LARGEST = 400_000  # bytes of an image
MOST = 7_000_000  # bytes of all of them

IMAGE = re.compile(r"!\[(?P<words>[^\]]*)\]\((?P<target>[^)\s]+)\)")
LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?P<target>[^)\s]+)\)")
SPAN = re.compile(r"`([^`]+)`")
COMMAND = re.compile(r"^(python (tools/\S+\.py|-m \S+)|condyle [a-z]|make [a-z])")
OURS = re.compile(r"^(?:condyle|tools|tests|examples|benchmarks|docs)/[\w./-]+\.(?:py|md|png|css|js)$")
PLACE = re.compile(r"(?<![\w.~$}])/(?:home|root|work|tmp|usr|opt|var|mnt|Users)/")


class Shown(NamedTuple):
    """An image on a page: its line, what is said of it for those who cannot see it, its file, and the paragraph below it."""

    line: int
    words: str
    path: Path
    below: str


def prose(text: str) -> str:
    """The page without its code blocks; lines keep their numbers."""
    out, fence = [], ""
    for line in text.splitlines():
        mark = re.match(r"\s*(`{3,}|~{3,})", line)
        if mark and (not fence or line.strip().startswith(fence)):
            fence = "" if fence else mark[1]
            out.append("")
        else:
            out.append("" if fence else line)
    return "\n".join(out)


def images(page: Path, text: str) -> list[Shown]:
    """The images of a page in order."""
    lines = prose(text).splitlines()
    found = []
    for number, line in enumerate(lines):
        for match in IMAGE.finditer(line):
            rest = [*lines[number + 1 :], ""]
            start = next((k for k, after in enumerate(rest) if after.strip()), 0)
            end = next(k for k, after in enumerate(rest) if k >= start and not after.strip())
            found.append(Shown(number + 1, match["words"], page.parent / match["target"], " ".join(rest[start:end])))
    return found


def anchors(text: str) -> set[str]:
    """What `#...` may name on a page: its headings, as GitHub spells them."""
    found: dict[str, int] = {}
    out = set()
    for line in prose(text).splitlines():
        if match := re.match(r"#+\s+(.*)", line):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[1]).strip().lower()
            slug = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
            count = found[slug] = found.get(slug, -1) + 1
            out.add(f"{slug}-{count}" if count else slug)
    return out


# -- pictures


@each_page
def test_every_page_has_a_picture(page: Path) -> None:
    shown = images(page, page.read_text())
    assert shown, f"{page.name} shows no picture"
    for each in shown:
        here = f"{page.name}:{each.line}"
        assert each.path.is_file(), f"{here}: {each.path.name} does not exist"
        assert len(each.words) > 20, f"{here}: say in words what {each.path.name} shows"


@each_page
def test_a_picture_names_the_command_that_makes_it(page: Path) -> None:
    for each in images(page, page.read_text()):
        here = f"{page.name}:{each.line}"
        commands = [span for span in SPAN.findall(each.below) if COMMAND.match(span)]
        assert commands, (
            f"{here}: the paragraph below {each.path.name} names no command such as `python tools/page_pictures.py NAME`"
        )
        fault = unmakeable(commands[0], each.path.stem)
        assert not fault, f"{here}: `{commands[0]}`: {fault}"


def unmakeable(command: str, stem: str) -> str:
    """Why a command cannot make the image of this name; "" if nothing speaks against it."""
    words = command.split()
    if words[0] != "python" or words[1] == "-m":
        return ""
    tool = ROOT / words[1]
    if not tool.is_file():
        return f"{words[1]} does not exist"
    if tool.name == "page_pictures.py":
        wanted = [word for word in words[2:] if not word.startswith("-")]
        return "" if wanted == [stem] and stem in drawn_in() else f"it draws {', '.join(drawn_in())}, not {stem}"
    source = tool.read_text()
    missing = [word for word in words[2:] if word not in source]
    if missing:
        return f"{tool.name} knows no {missing[0]}"
    parts = [part for part in stem.split("_") if part not in source]
    return f"{tool.name} says nothing of {stem}" if parts else ""


def test_images_are_used_and_small() -> None:
    used = {each.path.resolve() for page in ALL for each in images(page, page.read_text())}
    files = sorted(path for path in IMAGES.iterdir() if path.is_file())
    assert files
    for path in files:
        assert path.resolve() in used, f"docs/images/{path.name} is on no page"
        assert path.stat().st_size < LARGEST, f"docs/images/{path.name} has {path.stat().st_size / 1000:.0f} kB"
        assert path.suffix != ".png" or path.read_bytes().startswith(b"\x89PNG\r\n"), f"docs/images/{path.name} is no PNG file"
    assert sum(path.stat().st_size for path in files) < MOST


# -- the tool that draws them


def drawn_in() -> dict[str, str]:
    """{picture: file} of tools/page_pictures.py, read without running it."""
    for node in ast.parse((TOOLS / "page_pictures.py").read_text()).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DRAWN_IN":
            found: dict[str, str] = ast.literal_eval(node.value)
            return found
    raise AssertionError("tools/page_pictures.py has no table DRAWN_IN")


def test_every_name_is_a_function() -> None:
    for name, file in drawn_in().items():
        functions = {
            node.name for node in ast.parse((TOOLS / f"{file}.py").read_text()).body if isinstance(node, ast.FunctionDef)
        }
        assert name in functions, f"tools/{file}.py has no function {name}"


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    from PIL import Image

    made = draw("notation", "--to", str(tmp_path))
    assert made.returncode == 0, made.stderr
    with Image.open(tmp_path / "notation.png") as image:
        width, height = image.size
        assert width >= 900 and height >= 300
        # ink on white: a picture that is empty, or all dark, was not drawn
        gray = image.convert("L").histogram()
    assert 0.005 < sum(gray[:128]) / (width * height) < 0.3


def test_a_wrong_name_lists_the_right_ones() -> None:
    made = draw("nosuch")
    assert made.returncode == 2 and "'notation'" in made.stderr


def draw(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(TOOLS / "page_pictures.py"), *words], capture_output=True, text=True, timeout=300)


# -- links and names


@each_text
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    faults = []
    for number, line in enumerate(prose(text).splitlines(), 1):
        for target in (match["target"] for match in LINK.finditer(line)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            goal = page.parent / name if name else page
            if not goal.exists():
                faults.append(f"{page.name}:{number}: {target}: there is no such file")
            elif anchor and anchor not in (known := anchors(goal.read_text())):
                faults.append(f"{page.name}:{number}: {target}: no such heading; there are {', '.join(sorted(known))}")
    assert not faults, "\n".join(faults)


@each_text
def test_files_named_exist(page: Path) -> None:
    faults = []
    for number, line in enumerate(prose(page.read_text()).splitlines(), 1):
        for span in SPAN.findall(line):
            for word in span.split():
                if OURS.match(word) and not (ROOT / word).exists():
                    faults.append(f"{page.name}:{number}: {word} does not exist")
    assert not faults, "\n".join(faults)


@cache
def verbs() -> dict[str, Any]:
    """The commands of `condyle` by name."""
    from typer.main import get_command

    from condyle.cli import app

    return dict(getattr(get_command(app), "commands", {}))


def command_faults(command: str) -> str:
    """What is wrong with a `condyle ...` command as the pages show it: its verb or an option; "" if both exist."""
    known = verbs()
    words = command.split()[1:]
    if not words or words[0].startswith("-") or not words[0].islower():
        return ""  # about condyle itself, or a placeholder
    if words[0] not in known:
        return f"there is no `condyle {words[0]}`"
    inside = getattr(known[words[0]], "commands", {})
    if inside and len(words) > 1 and words[1].islower():
        if words[1] not in inside:
            return f"there is no `condyle {words[0]} {words[1]}`"
        known, words = inside, words[1:]
    options = {name for option in known[words[0]].params for name in (*option.opts, *option.secondary_opts)} | {"--help", "-h"}
    given = [word.partition("=")[0] for word in words[1:] if re.match(r"--?[a-z]", word)]
    wrong = [word for word in given if word not in options]
    return f"`condyle {words[0]}` has no {wrong[0]}" if wrong else ""


@each_text
def test_commands_named_exist(page: Path) -> None:
    faults = []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        spans = SPAN.findall(line) + ([line.strip().removeprefix("$ ").partition("  #")[0]] if "`" not in line else [])
        for span in spans:
            if span.startswith("condyle ") and (fault := command_faults(re.split(r"[|;&>]", span)[0])):
                faults.append(f"{page.name}:{number}: {fault}")
    assert not faults, "\n".join(faults)


@each_text
def test_no_path_of_one_computer(page: Path) -> None:
    for number, line in enumerate(page.read_text().splitlines(), 1):
        assert not PLACE.search(line), f"{page.name}:{number}: names a folder of one computer: {line.strip()}"


STOP = re.compile(r"`(condyle/[\w/]+\.py)` `([\w.]+)`")


def defined(tree: ast.Module) -> set[str]:
    """Names of the functions, classes and methods of a file: f, C, C.m."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{child.name}" for child in node.body if isinstance(child, ast.FunctionDef)}
    return names


def test_the_walks_of_the_architecture_page_exist() -> None:
    sections = (DOCS / "architecture.md").read_text().split("\n## ")[1:]
    assert len(sections) == 2
    for section in sections:
        stops = re.findall(r"(?m)^(\d+)\. ", section)
        assert 5 <= len(stops) <= 12 and [int(stop) for stop in stops] == list(range(1, len(stops) + 1))
        for file, name in STOP.findall(section):
            assert name in defined(ast.parse((ROOT / file).read_text())), f"{file} has no {name}"


def test_the_folders_of_the_architecture_page_are_all() -> None:
    named = set(re.findall(r"(?m)^\| `(\w+)/`", (DOCS / "architecture.md").read_text()))
    folders = {path.name for path in (ROOT / "condyle").iterdir() if path.is_dir() and not path.name.startswith("_")}
    assert named == folders


def test_every_page_is_in_the_index() -> None:
    index = {match["target"].partition("#")[0] for match in LINK.finditer((DOCS / "README.md").read_text())}
    pages = [page.relative_to(DOCS).as_posix() for page in PAGES]
    missing = [page for page in pages if page not in ("README.md", *index)]
    assert not missing, f"docs/README.md does not lead to {', '.join(missing)}"


# -- the reader itself

PAGE = """\
# One, two & three

![a cat on a mat](cat.png)

*Made by `python tools/page_pictures.py cat`,
in a minute.*

```python
# no heading
x = "![no image](no.png)"
```

## Twice
## Twice
## What `code()` says: [a link](b.md)
"""


def test_images_and_headings_are_found(tmp_path: Path) -> None:
    (shown,) = images(tmp_path / "page.md", PAGE)
    assert shown == Shown(
        3, "a cat on a mat", tmp_path / "cat.png", "*Made by `python tools/page_pictures.py cat`, in a minute.*"
    )
    assert anchors(PAGE) == {"one-two--three", "twice", "twice-1", "what-code-says-a-link"}


def test_commands_are_judged() -> None:
    assert unmakeable("python tools/page_pictures.py notation", "notation") == ""
    assert "not robots" in unmakeable("python tools/page_pictures.py notation", "robots")
    assert "does not exist" in unmakeable("python tools/nosuch.py", "cat")
    assert "says nothing" in unmakeable("python tools/touchdown_picture.py", "zebra")
    assert unmakeable("python tools/constraint_pictures.py", "four_bar") == ""


def test_condyle_commands_are_judged() -> None:
    assert command_faults("condyle info ur3 --json") == ""
    assert command_faults("condyle --version") == command_faults("condyle VERB --flag") == ""
    assert "no `condyle swim`" in command_faults("condyle swim ur3")
    assert "has no --wings" in command_faults("condyle info ur3 --wings 2")


@pytest.mark.parametrize("line", ["see /home/me/x", "`/tmp/run.cdl`", "cd /opt/robots"])
def test_places_are_found(line: str) -> None:
    assert PLACE.search(line)


@pytest.mark.parametrize("line", ["~/.cache/condyle", "src/tmp/x", "https://a.b/usr/c", "out/home/x"])
def test_other_paths_are_not(line: str) -> None:
    assert not PLACE.search(line)
