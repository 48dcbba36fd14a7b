"""The pages: a picture on each, made by a command named below it; links, files, commands and names that exist.

What their Python blocks do is checked by tests/test_readme.py.
"""

from __future__ import annotations

import ast
import re
import shlex
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from check_layers import RANK
from pictures import IMAGES, drawn_in

ROOT = Path(__file__).resolve().parent.parent
DOCS, SCRIPTS = ROOT / "docs", ROOT / "scripts"
PAGES = sorted(DOCS.rglob("*.md"))
ALL_PAGES = [ROOT / "README.md", *PAGES]
SOURCES_OF_NAMES = [*ALL_PAGES, ROOT / "CHANGELOG.md", *sorted((ROOT / "examples").glob("*.py"))]

MAX_IMAGE_BYTES, MAX_BYTES_OF_ALL_IMAGES = 400_000, 7_000_000
MIN_WORDS = 20  # characters that say what an image shows

IMAGE = re.compile(r"!\[(?P<words>[^\]]*)\]\((?P<target>[^)\s]+)\)")
LINK = re.compile(r"(?<!!)\[[^\]]+\]\((?P<target>[^)\s]+)\)")
SPAN = re.compile(r"`([^`]+)`")
COMMAND = re.compile(r"^(python (scripts/\S+\.py|-m \S+)|condyle [a-z]|make [a-z])")
FILE_NAME = re.compile(r"^(?:condyle|scripts|tests|examples|benchmarks|docs)/[\w./-]+\.(?:py|md|png|css|js)$")
LOCAL_PATH = re.compile(r"(?<![\w.~$}])/(?:home|root|work|tmp|usr|opt|var|mnt|Users)/")
STOP = re.compile(r"`(condyle/[\w/]+\.py)` `([\w.]+)`")
FENCE = re.compile(r"^\s*(?P<fence>`{3,}|~{3,})\s*(?P<language>[\w+-]*)")
NOT_RUN = re.compile(r"^\s*<!--\s*not run\b:?(?P<reason>.*?)-->\s*$")
SHELL = {"bash", "sh", "shell", "console"}

Fault = tuple[int, str]  # line of the page, what is wrong there


def check_pages() -> list[str]:
    """Pages without pictures, and links, files, commands, targets and names on them that do not exist."""
    faults = []
    for page in ALL_PAGES:
        text = page.read_text()
        rules = [link_faults(page, text), file_faults(text), command_faults(text), shell_faults(text), local_paths(text)]
        if page in PAGES:
            rules.append(picture_faults(page, text))
        faults += [f"{page.relative_to(ROOT)}:{line}: {fault}" for rule in rules for line, fault in rule]
    for page in SOURCES_OF_NAMES:
        # CHANGELOG.md has a table of old names
        text = re.sub(r"(?m)^\|.*$", "", page.read_text()) if page.name == "CHANGELOG.md" else page.read_text()
        faults += [f"{page.relative_to(ROOT)}:{line}: {fault}" for line, fault in name_faults(text)]
    return [*faults, *image_faults(), *architecture_faults(), *index_faults()]


# -- the parts of a page


class Shown(NamedTuple):
    """An image on a page: its line, its description for those who cannot see it, its file, and the paragraph below it."""

    line: int
    words: str
    path: Path
    below: str


class Block(NamedTuple):
    """A fenced code block of a page."""

    line: int  # of its first line of code, counted from 1
    language: str
    code: str
    not_run: str | None  # the reason given above it, if any


def blocks(text: str) -> Iterator[Block]:
    """The fenced code blocks of a page, in order."""
    fence, language, start, reason = "", "", 0, None
    code: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        match = FENCE.match(line)
        if not fence and match:
            fence, language, start, code = match["fence"], match["language"].lower(), number + 1, []
        elif not fence:
            # a reason holds for the block right below it, blank lines aside
            mark = NOT_RUN.match(line)
            reason = mark["reason"].strip() if mark else reason if not line.strip() else None
        elif line.strip().startswith(fence) and not line.strip().strip(fence[0]):
            yield Block(start, language, textwrap.dedent("\n".join(code)), reason)
            fence, reason = "", None
        else:
            code.append(line)
    assert not fence, f"line {start - 1}: the code block is never closed"


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


def picture_faults(page: Path, text: str) -> Iterator[Fault]:
    """A page without a picture, and pictures without a file, a description or a command that makes them."""
    shown = images(page, text)
    if not shown:
        yield 1, "shows no picture"
    for image in shown:
        if not image.path.is_file():
            yield image.line, f"{image.path.name} does not exist"
        if len(image.words) <= MIN_WORDS:
            yield image.line, f"say in words what {image.path.name} shows"
        commands = [span for span in SPAN.findall(image.below) if COMMAND.match(span)]
        if not commands:
            yield (
                image.line,
                f"the paragraph below {image.path.name} names no command such as `python scripts/pictures.py NAME`",
            )
        elif reason := unmakeable(commands[0], image.path.stem):
            yield image.line, f"`{commands[0]}`: {reason}"


def unmakeable(command: str, stem: str) -> str:
    """Why a command cannot make the image of this name; "" if nothing speaks against it."""
    words = command.split()
    if words[0] != "python" or words[1] == "-m":
        return ""
    tool = ROOT / words[1]
    if not tool.is_file():
        return f"{words[1]} does not exist"
    if tool.name == "pictures.py":
        wanted = [word for word in words[2:] if not word.startswith("-")]
        return "" if wanted == [stem] and stem in drawn_in() else f"it draws {', '.join(drawn_in())}, not {stem}"
    return f"only scripts/pictures.py draws, not {words[1]}"


def image_faults() -> Iterator[str]:
    """Images that are on no page, too large, or not what their names say."""
    used = {image.path.resolve() for page in ALL_PAGES for image in images(page, page.read_text())}
    files = sorted(path for path in IMAGES.iterdir() if path.is_file())
    for path in files:
        name = path.relative_to(ROOT)
        if path.resolve() not in used:
            yield f"{name}: is on no page"
        if path.stat().st_size >= MAX_IMAGE_BYTES:
            yield f"{name}: has {path.stat().st_size / 1000:.0f} kB, at most {MAX_IMAGE_BYTES / 1000:.0f} are allowed"
        if path.suffix == ".png" and not path.read_bytes().startswith(b"\x89PNG\r\n"):
            yield f"{name}: is no PNG file"
    if not 0 < sum(path.stat().st_size for path in files) < MAX_BYTES_OF_ALL_IMAGES:
        yield f"docs/images: has no files, or {MAX_BYTES_OF_ALL_IMAGES} bytes or more"


# -- links, files and names


def link_faults(page: Path, text: str) -> Iterator[Fault]:
    """Links to files and headings that do not exist."""
    for number, line in enumerate(prose(text).splitlines(), 1):
        for target in (match["target"] for match in LINK.finditer(line)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            goal = page.parent / name if name else page
            if not goal.exists():
                yield number, f"{target}: there is no such file"
            elif anchor and anchor not in (known := anchors(goal.read_text())):
                yield number, f"{target}: no such heading; there are {', '.join(sorted(known))}"


def file_faults(text: str) -> Iterator[Fault]:
    """Files of the repository that are named and do not exist."""
    for number, line in enumerate(prose(text).splitlines(), 1):
        for word in (word for span in SPAN.findall(line) for word in span.split()):
            if FILE_NAME.match(word) and not (ROOT / word).exists():
                yield number, f"{word} does not exist"


def local_paths(text: str) -> Iterator[Fault]:
    """Folders of one computer."""
    for number, line in enumerate(text.splitlines(), 1):
        if LOCAL_PATH.search(line):
            yield number, f"names a folder of one computer: {line.strip()}"


def name_faults(text: str) -> Iterator[Fault]:
    """Uses of `cd.NAME` that the package does not have."""
    import condyle

    for number, line in enumerate(text.splitlines(), 1):
        for name in re.findall(r"\bcd\.([A-Za-z_]\w*)", line):
            if name not in (*condyle.__all__, "__version__"):
                yield number, f"condyle has no {name}"


# -- commands


@cache
def verbs() -> dict[str, Any]:
    """The commands of `condyle` by name."""
    from typer.main import get_command

    from condyle.commands.cli import app

    return dict(getattr(get_command(app), "commands", {}))


def command_fault(command: str) -> str:
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


def command_faults(text: str) -> Iterator[Fault]:
    """Commands `condyle ...` with a verb or an option that does not exist."""
    for number, line in enumerate(text.splitlines(), 1):
        spans = SPAN.findall(line) + ([line.strip().removeprefix("$ ").partition("  #")[0]] if "`" not in line else [])
        for span in spans:
            if span.startswith("condyle ") and (fault := command_fault(re.split(r"[|;&>]", span)[0])):
                yield number, fault


def commands(code: str) -> Iterator[tuple[int, list[str]]]:
    """(line in the block, words) of each simple command; where some lines begin with `$`, the others are output."""
    lines = code.splitlines()
    session = any(line.lstrip().startswith("$ ") for line in lines)
    continued, first = "", 0
    for number, line in enumerate(lines):
        line = line.strip()
        if session and not continued and not line.startswith("$ "):
            continue
        first = first if continued else number
        continued += line.removeprefix("$ ")
        if continued.endswith("\\"):
            continued = continued[:-1] + " "
            continue
        lexer = shlex.shlex(continued, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if not set(word) <= set(lexer.punctuation_chars):
                words.append(word)
            elif words:
                yield first, words
                words = []
        continued = ""


def shell_words(code: str) -> Iterator[tuple[int, str, str]]:
    """(line, "make" or "condyle", target or verb) of every use in a shell block."""
    for line, words in commands(code):
        # settings in front of a command are not the command
        while words and "=" in words[0]:
            words = words[1:]
        program = Path(words[0]).name if words else ""
        plain = [word for word in words[1:] if re.match(r"[A-Za-z][^=]*$", word)]
        if program == "make":
            yield from ((line, program, target) for target in plain)
        elif program == "condyle":
            yield from ((line, program, verb) for verb in plain[:1])


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z][\w-]*):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE))


def shell_faults(text: str) -> Iterator[Fault]:
    """Targets of `make` and verbs of `condyle` in shell blocks that do not exist."""
    try:
        found = list(blocks(text))
    except AssertionError as error:
        yield 1, str(error)
        return
    for block in found:
        for line, program, word in shell_words(block.code) if block.language in SHELL else ():
            known = make_targets() if program == "make" else set(verbs())
            if word not in known:
                yield block.line + line, f"`{program} {word}` does not exist; there are {', '.join(sorted(known))}"


# -- the architecture page and the index


def defined(tree: ast.Module) -> set[str]:
    """Names of the functions, classes and methods of a file: f, C, C.m."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{child.name}" for child in node.body if isinstance(child, ast.FunctionDef)}
    return names


def architecture_faults() -> Iterator[str]:
    """Stops of the walks of docs/architecture.md that do not exist, and folders that its table leaves out."""
    text = (DOCS / "architecture.md").read_text()
    sections = text.split("\n## ")[1:]
    if len(sections) != 2:
        yield f"docs/architecture.md: has {len(sections)} walks, not 2"
    for section in sections:
        stops = [int(stop) for stop in re.findall(r"(?m)^(\d+)\. ", section)]
        if not 5 <= len(stops) <= 12 or stops != list(range(1, len(stops) + 1)):
            yield f"docs/architecture.md: the stops of a walk are 1 to 5 ... 12, not {stops}"
        for file, name in STOP.findall(section):
            if not (ROOT / file).is_file() or name not in defined(ast.parse((ROOT / file).read_text())):
                yield f"docs/architecture.md: {file} has no {name}"
    named = set(re.findall(r"(?m)^\| `([\w/]+)/`", text))
    rooms = (name.replace(".", "/") for name in RANK)
    folders = {name for name in rooms if (ROOT / "condyle" / name).is_dir()}
    if named != folders:
        yield f"docs/architecture.md: its table and the package differ in {', '.join(sorted(named ^ folders))}"


def index_faults() -> Iterator[str]:
    """Pages that docs/README.md does not lead to."""
    index = {match["target"].partition("#")[0] for match in LINK.finditer((DOCS / "README.md").read_text())}
    for page in PAGES:
        name = page.relative_to(DOCS).as_posix()
        if name not in ("README.md", *index):
            yield f"docs/README.md: does not lead to {name}"
