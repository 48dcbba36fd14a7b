"""Every Python block of README.md and docs/*.md runs as printed; every `make` target and `condyle` verb shown exists.

The blocks of a page run in order in one namespace, in an empty folder; one after
`<!-- not run: reason -->` is skipped, and a page with `<!-- needs: package, ... -->` where a package is not installed.
A `text` block below a Python block is what that block prints.
"""

import contextlib
import io
import re
import shlex
import sys
import textwrap
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if page.exists()]
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())

PYTHON = {"python", "python3", "py"}
SHELL = {"bash", "sh", "shell", "console"}

FENCE = re.compile(r"^\s*(?P<fence>`{3,}|~{3,})\s*(?P<language>[\w+-]*)")
NEEDS = re.compile(r"^<!--\s*needs:\s*(?P<packages>[\w, ]+?)\s*-->$", re.MULTILINE)
NOT_RUN = re.compile(r"^\s*<!--\s*not run\b:?(?P<reason>.*?)-->\s*$")


class Block(NamedTuple):
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


def run(page: Path, block: Block, namespace: dict[str, object]) -> str:
    """What one block prints; a failure is an AssertionError that begins with page:line."""
    # blank lines in front, so that tracebacks show the page's own lines
    source = "\n" * (block.line - 1) + block.code
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(source, str(page), "exec"), namespace)
    except Exception as error:
        here = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(page)]
        line = error.lineno if isinstance(error, SyntaxError) and error.filename == str(page) else here[-1]
        raise AssertionError(f"{page.name}:{line}: {type(error).__name__}: {error}") from error
    return printed.getvalue()


def same_text(shown: str, printed: str) -> bool:
    """Whether two texts are equal, spaces at the ends of lines and empty lines around them aside."""
    first, second = ("\n".join(line.rstrip() for line in text.strip().splitlines()) for text in (shown, printed))
    return first == second


@each_page
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = list(blocks(page.read_text()))
    for mark in NEEDS.finditer(page.read_text()):
        for package in mark["packages"].split(","):
            pytest.importorskip(package.strip())
    assert page != ROOT / "README.md" or any(block.language in PYTHON for block in found), "README.md shows no Python block"
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed: str | None = None
    for block in found:
        if block.language == "text" and printed is not None:
            here = f"{page.name}:{block.line}"
            assert same_text(block.code, printed), f"{here}: the code above prints something else:\n{printed}"
        printed = None
        if block.language in PYTHON:
            assert block.not_run != "", f"{page.name}:{block.line}: `<!-- not run: ... -->` needs a reason"
            if block.not_run is None:
                printed = run(page, block, namespace)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


# -- shell blocks: checked, not run


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


def shown(code: str) -> Iterator[tuple[int, str, str]]:
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


def condyle_verbs() -> set[str]:
    from typer.main import get_command

    from condyle.cli import app

    # an app of a single command takes no verb, unless it has a callback
    return set(getattr(get_command(app), "commands", ()))


@each_page
def test_shell_blocks_name_what_exists(page: Path) -> None:
    faults = []
    for block in blocks(page.read_text()):
        for line, program, word in shown(block.code) if block.language in SHELL else ():
            known = make_targets() if program == "make" else condyle_verbs()
            if word not in known:
                place = f"{page.name}:{block.line + line}"
                faults.append(f"{place}: `{program} {word}` does not exist; there are {', '.join(sorted(known))}")
    assert not faults, "\n".join(faults)


# -- the reader itself

PAGE = """\
text

```python
x = 1
```

<!-- not run: needs a GPU -->
```python
y = 2
```

<!-- not run: -->

```python
z = 3
```

- in a list

  ```py
  if x:
      w = 4
  ```

````markdown
```python
shown, not run
```
````
"""


def test_blocks_are_found() -> None:
    assert list(blocks(PAGE)) == [
        Block(4, "python", "x = 1", None),
        Block(9, "python", "y = 2", "needs a GPU"),
        Block(15, "python", "z = 3", ""),
        Block(21, "py", "if x:\n    w = 4", None),
        Block(26, "markdown", "```python\nshown, not run\n```", None),
    ]
    with pytest.raises(AssertionError, match=r"line 2: .* never closed"):
        list(blocks("text\n```python\nx = 1\n"))


@pytest.mark.parametrize(("code", "line"), [("x = 1\ny = nosuch", 8), ("x = 1\n\nif", 9)])
def test_a_failure_names_page_and_line(code: str, line: int, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=rf"^page\.md:{line}: (NameError|SyntaxError): "):
        run(tmp_path / "page.md", Block(7, "python", code, None), {})


def test_printed_text_is_compared(tmp_path: Path) -> None:
    printed = run(tmp_path / "page.md", Block(1, "python", "print('one  ')\nprint('two')", None), {})
    assert same_text("one\ntwo", printed)
    assert not same_text("one\n two", printed)


def test_commands_are_found() -> None:
    code = """\
git clone somewhere/condyle && cd condyle
make test PYTEST_ARGS="-k make" -j 2  # or make nosuch
CONDYLE_CACHE=cache .venv/bin/condyle demo --fast \\
    panda | head
pip install condyle; condyle --help
"""
    assert list(shown(code)) == [(1, "make", "test"), (2, "condyle", "demo")]
    assert list(shown("$ make demo\nmake took 2 s, that's all\n")) == [(0, "make", "demo")]
    assert {"demo", "test", "bench", "lint", "clean", "help"} <= make_targets()
