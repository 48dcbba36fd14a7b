"""The rules of scripts/check_pages.py themselves, and the tool that draws the pages' pictures."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from check_pages import (
    LOCAL_PATH,
    SCRIPTS,
    Shown,
    anchors,
    command_fault,
    command_faults,
    file_faults,
    images,
    link_faults,
    local_paths,
    name_faults,
    picture_faults,
    shell_faults,
    unmakeable,
)

# -- the tool that draws


@pytest.mark.docs
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


@pytest.mark.docs
def test_a_wrong_name_lists_the_right_ones() -> None:
    made = draw("nosuch")
    assert made.returncode == 2 and "'notation'" in made.stderr


def draw(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SCRIPTS / "pictures.py"), *words], capture_output=True, text=True, timeout=300)


# -- the reader itself

PAGE = """\
# One, two & three

![a cat on a mat](cat.png)

*Made by `python scripts/pictures.py cat`,
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
    assert shown == Shown(3, "a cat on a mat", tmp_path / "cat.png", "*Made by `python scripts/pictures.py cat`, in a minute.*")
    assert anchors(PAGE) == {"one-two--three", "twice", "twice-1", "what-code-says-a-link"}


def test_commands_are_judged() -> None:
    assert unmakeable("python scripts/pictures.py notation", "notation") == ""
    assert "not robots" in unmakeable("python scripts/pictures.py notation", "robots")
    assert "does not exist" in unmakeable("python scripts/nosuch.py", "cat")
    assert "only scripts/pictures.py draws" in unmakeable("python scripts/mutate.py", "zebra")
    assert unmakeable("python scripts/pictures.py four_bar", "four_bar") == ""


PAGE_WITH_FAULTS = """\
# A title

see [there](#nowhere), [this](nosuch.md), [it](#a-title) and [that](https://example.org): `condyle swim ur3` in `docs/nosuch.md`

`cd.load` and `cd.nosuch`; `/home/me/x`

![a cat](nosuch.png)

no command

```bash
make nosuch
make lint; condyle swim
```
"""


def test_every_fault_of_a_page_has_its_line(tmp_path: Path) -> None:
    page, text = tmp_path / "page.md", PAGE_WITH_FAULTS
    page.write_text(text)
    found = list(link_faults(page, text))
    assert found == [(3, "#nowhere: no such heading; there are a-title"), (3, "nosuch.md: there is no such file")]
    assert list(file_faults(text)) == [(3, "docs/nosuch.md does not exist")]
    assert list(command_faults(text)) == [(3, "there is no `condyle swim`")]
    assert list(name_faults(text)) == [(5, "condyle has no nosuch")]
    assert [line for line, _ in local_paths(text)] == [5]
    assert [fault.partition(" ")[0] for line, fault in picture_faults(page, text) if line == 7] == [
        "nosuch.png",
        "say",
        "the",
    ]
    assert [(line, fault.partition(" does")[0]) for line, fault in shell_faults(text)] == [
        (12, "`make nosuch`"),
        (13, "`condyle swim`"),
    ]
    assert list(picture_faults(page, "text")) == [(1, "shows no picture")]
    ((_, fault),) = shell_faults("text\n```bash\nmake\n")
    assert "never closed" in fault


def test_condyle_commands_are_judged() -> None:
    assert command_fault("condyle info ur3 --json") == ""
    assert command_fault("condyle --version") == command_fault("condyle VERB --flag") == ""
    assert "no `condyle swim`" in command_fault("condyle swim ur3")
    assert "has no --wings" in command_fault("condyle info ur3 --wings 2")


@pytest.mark.parametrize("line", ["see /home/me/x", "`/tmp/run.cdl`", "cd /opt/robots"])
def test_places_are_found(line: str) -> None:
    assert LOCAL_PATH.search(line)


@pytest.mark.parametrize("line", ["~/.cache/condyle", "src/tmp/x", "https://a.b/usr/c", "out/home/x"])
def test_other_paths_are_not(line: str) -> None:
    assert not LOCAL_PATH.search(line)
