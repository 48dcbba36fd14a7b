"""Every Python block of README.md and docs/*.md runs as printed.

The blocks of a page run in order in one namespace, in an empty folder; one after
`<!-- not run: reason -->` is skipped, and a page with `<!-- needs: package, ... -->` where a package is not installed.
A `text` block below a Python block is what that block prints.
"""

import contextlib
import io
import re
import sys
import traceback
from pathlib import Path

import pytest
from check_pages import Block, blocks, make_targets, shell_words

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

PYTHON = {"python", "python3", "py"}
NEEDS = re.compile(r"^<!--\s*needs:\s*(?P<packages>[\w, ]+?)\s*-->$", re.MULTILINE)
PAGES_WITH_CODE = [page for page in PAGES if any(block.language in PYTHON for block in blocks(page.read_text()))]


def test_the_readme_shows_python() -> None:
    assert PAGES_WITH_CODE[0] == ROOT / "README.md"


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


@pytest.mark.docs
@pytest.mark.parametrize("page", PAGES_WITH_CODE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = list(blocks(page.read_text()))
    for mark in NEEDS.finditer(page.read_text()):
        for package in mark["packages"].split(","):
            pytest.importorskip(package.strip())
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
    assert list(shell_words(code)) == [(1, "make", "test"), (2, "condyle", "demo")]
    assert list(shell_words("$ make demo\nmake took 2 s, that's all\n")) == [(0, "make", "demo")]
    assert {"demo", "test", "bench", "lint", "clean", "help"} <= make_targets()
