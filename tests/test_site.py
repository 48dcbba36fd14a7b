"""The site of `make docs`: every page, every public name, links and anchors that lead somewhere, and nothing from the network."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import condyle

pytestmark = pytest.mark.docs

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    pytest.importorskip("markdown_it")
    pytest.importorskip("pygments")
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import build_site
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    return build_site


@pytest.fixture(scope="module")
def site(builder: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        builder.build(folder)
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    return folder


def test_links_and_anchors_lead_somewhere(builder: ModuleType, site: Path) -> None:
    assert builder.check(site) == []


def test_every_page_is_there_and_in_the_navigation(site: Path) -> None:
    menu = re.search(r'<nav class="menu">.*?</nav>', (site / "contents.html").read_text(), re.DOTALL)
    assert menu
    for page in sorted((ROOT / "docs").rglob("*.md")):
        name = page.relative_to(ROOT / "docs").with_suffix(".html").as_posix()
        assert name == "README.html" or ((site / name).is_file() and f'href="{name}"' in menu[0]), name


def test_every_public_name_is_in_the_reference(site: Path) -> None:
    text = "".join(path.read_text() for path in (site / "api").glob("*.html"))
    modules = {"blocks", "linalg", "random", "torch", "jax"}
    missing = [name for name in condyle.__all__ if name not in modules and f"<code>cd.{name}</code>" not in text]
    assert not missing
    assert "<code>cd.blocks.IMU</code>" in text and "<code>cd.linalg.cholesky</code>" in text and "cd.random.normal" in text
    assert "object at 0x" not in text and "&lt;function" not in text


def test_nothing_comes_from_the_network(site: Path) -> None:
    for path in [*site.rglob("*.html"), *site.glob("*.css"), *site.glob("*.js")]:
        loaded = re.findall(r'(?:src="|url\(|@import |<link[^>]*href=")(https?:[^")]*)', path.read_text())
        assert not loaded, f"{path.name} loads {loaded[0]}"


def test_the_search_knows_headings(site: Path) -> None:
    index = (site / "search_index.js").read_text()
    assert '"Robot.forward_dynamics"' in index and '"Joint limits' not in index[:20]


def test_faults_are_found(builder: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<h2 id="x"></h2><a href="b.html"></a><a href="#y"></a><a href="a.html#x"></a>')
    assert builder.check(tmp_path) == ["a.html: b.html does not exist", "a.html: #y has no such heading"]
