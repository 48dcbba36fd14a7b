"""Build the documentation as one site of plain files: pages, programs, the reference from docstrings, and a search.

python scripts/build_site.py              # writes site/; open site/index.html
python scripts/build_site.py --to out

Nothing is loaded from the network, neither here nor by the pages. A link that leads nowhere is an error.
"""

from __future__ import annotations

import argparse
import html
import json
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from posixpath import normpath, relpath
from time import perf_counter
from typing import Any

from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

ROOT = Path(__file__).resolve().parent.parent
DOCS, LOOKS = ROOT / "docs", ROOT / "scripts" / "site"
CODE = HtmlFormatter(nowrap=True, style="default")
LANGUAGES = {"": "text", "text": "text", "console": "console", "urdf": "xml"}


@dataclass
class Page:
    """A page: its address, title, content, headings (level, anchor, text) and the words that the search finds."""

    address: str
    title: str
    body: str
    headings: list[tuple[int, str, str]] = field(default_factory=list)
    words: list[tuple[str, str, str]] = field(default_factory=list)  # (anchor, heading, text)
    kind: str = "page"


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the documentation as one site.")
    parser.add_argument("--to", type=Path, default=ROOT / "site", help="the folder to write to (site)")
    given = parser.parse_args()
    start = perf_counter()
    pages = build(given.to)
    faults = check(given.to)
    print(f"{len(pages)} pages in {perf_counter() - start:.1f} s: {given.to / 'index.html'}")
    sys.exit("\n".join(faults) if faults else 0)


def build(to: Path) -> list[Page]:
    """Write all pages, images and the search index; `to` is emptied first if it is a site."""
    if to.exists() and any(to.iterdir()):
        if not (to / "search_index.js").is_file():
            sys.exit(f"{to} holds files that are no site; give an empty folder with --to")
        shutil.rmtree(to)
    to.mkdir(parents=True, exist_ok=True)
    pages = [*written_pages(), *programs(), *reference()]
    groups = navigation()
    for page in pages:
        path = to / page.address
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(framed(page, groups))
    shutil.copytree(DOCS / "images", to / "images", dirs_exist_ok=True)
    for name in ("site.css", "site.js"):
        shutil.copy(LOOKS / name, to / name)
    (to / "code.css").write_text(CODE.get_style_defs(".code"))
    index = [[page.address, page.title, *entry] for page in pages if page.kind != "program" for entry in page.words]
    (to / "search_index.js").write_text(f"const SEARCH_INDEX = {json.dumps(index, ensure_ascii=False)};\n")
    return pages


# -- where things lie


def address(path: str) -> str:
    """The address in the site of a file of the repository: docs/x.md is x.html, README.md is index.html."""
    if path in ("examples", "examples/"):
        return "examples/index.html"
    if path == "README.md":
        return "index.html"
    if path == "docs/README.md":
        return "contents.html"
    inner = path.removeprefix("docs/")
    return inner.removesuffix(".md") + ".html" if path.endswith(".md") else f"{path}.html"


def moved(target: str, source: str) -> str:
    """A link of the file `source` as one of its page."""
    if re.match(r"[a-z]+:|#", target):
        return target
    name, mark, anchor = target.partition("#")
    path = normpath(f"{Path(source).parent.as_posix()}/{name}")
    goal = path.removeprefix("docs/") if path.startswith("docs/images/") else address(path)
    return relpath(goal, Path(address(source)).parent.as_posix()) + mark + anchor


def navigation() -> list[tuple[str, list[tuple[str, str]]]]:
    """(group, [(title, address)]) of docs/README.md: its headings, and the links that begin an entry of a list."""
    groups: list[tuple[str, list[tuple[str, str]]]] = []
    for line in (DOCS / "README.md").read_text().splitlines():
        if line.startswith("## "):
            groups.append((line[3:], []))
        elif groups and (match := re.match(r"(?:\d+\.|-) \[([^\]]+)\]\(([^)#]+)\)", line)):
            groups[-1][1].append((match[1].replace("`", ""), address(normpath(f"docs/{match[2]}"))))
    groups.append(("API reference", [(title, f"api/{name}.html") for name, title in reference_titles()]))
    return [group for group in groups if group[1]]


# -- pages


def written_pages() -> list[Page]:
    """The pages written by hand."""
    files = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
    return [markdown_page(path.relative_to(ROOT).as_posix(), path.read_text()) for path in files]


def markdown_page(source: str, text: str) -> Page:
    """A file of Markdown as a page."""
    reader = MarkdownIt("commonmark", {"highlight": colored}).enable("table")
    tokens = reader.parse(re.sub(r"(?m)^<!--.*?-->\n", "", text))
    taken: dict[str, int] = {}
    page = Page(address(source), "", "")
    anchor = heading = ""
    for i, token in enumerate(tokens):
        for child in token.children or []:
            for name in ("href", "src"):
                if (value := child.attrGet(name)) is not None:
                    child.attrSet(name, moved(str(value), source))
        if token.type == "heading_open":
            heading = plain(tokens[i + 1])
            anchor = slug(heading, taken)
            token.attrSet("id", anchor)
            page.title = page.title or heading
            page.headings.append((int(token.tag[1]), anchor, heading))
            page.words.append((anchor, heading, ""))
        elif token.type in ("inline", "fence") and page.words and tokens[i - 1].type != "heading_open":
            said = token.content if token.type == "fence" else plain(token)
            page.words[-1] = (anchor, heading, f"{page.words[-1][2]} {said}".strip())
    page.title = page.title or Path(source).stem
    page.body = reader.renderer.render(tokens, reader.options, {}).replace("<table>", '<div class="wide"><table>')
    page.body = page.body.replace("</table>", "</table></div>")
    return page


def plain(token: Any) -> str:
    """The words of a line without its marks."""
    return "".join(child.content for child in token.children or [] if child.type in ("text", "code_inline", "softbreak"))


def slug(title: str, taken: dict[str, int]) -> str:
    """The anchor of a heading, as GitHub spells it."""
    name = re.sub(r"[^\w\- ]", "", title.strip().lower()).replace(" ", "-")
    count = taken[name] = taken.get(name, -1) + 1
    return f"{name}-{count}" if count else name


def colored(code: str, language: str, _attributes: str = "") -> str:
    """A code block as HTML."""
    try:
        lexer = get_lexer_by_name(LANGUAGES.get(language, language))
    except ClassNotFound:
        lexer = get_lexer_by_name("text")
    kind = "text" if language == "text" else "source"
    return f'<pre class="code {kind}"><code>{highlight(code, lexer, CODE).rstrip()}</code></pre>'


def programs() -> list[Page]:
    """The examples, and the sources that pages link to."""
    linked = set()
    for path in sorted(DOCS.rglob("*.md")):
        here = path.relative_to(ROOT).parent.as_posix()
        for target in re.findall(r"\]\(([^)#\s]+\.(?:py|ipynb))\)", path.read_text()):
            linked.add(normpath(f"{here}/{target}"))
    examples = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "examples").glob("*.py"))]
    pages, rows = [], []
    for name in sorted({*examples, *linked}):
        text = (ROOT / name).read_text()
        if name.endswith(".ipynb"):
            pages.append(markdown_page(name, notebook(text)))
            pages[-1].address = address(name)
            continue
        body = f"<h1>{html.escape(name)}</h1>{colored(text, 'python')}"
        pages.append(Page(address(name), name, body, kind="program"))
        if name in examples:
            said = text.split('"""')[1].strip().splitlines()[0]
            rows.append(f"- [{Path(name).name}]({Path(name).name}): {said}")
    front = markdown_page("examples/index.md", "# Examples\n\nEach ends with a check of what it claims.\n\n" + "\n".join(rows))
    return [*pages, Page("examples/index.html", "Examples", front.body, front.headings, front.words)]


def notebook(text: str) -> str:
    """A notebook as Markdown."""
    parts = []
    for cell in json.loads(text)["cells"]:
        said = "".join(cell["source"])
        parts.append(said if cell["cell_type"] == "markdown" else f"```python\n{said}\n```")
    return "\n\n".join(parts)


def reference() -> list[Page]:
    """The reference, from docstrings."""
    from site_reference import PAGES, reference_markdown

    pages = []
    for name, (title, _, _) in PAGES.items():
        page = markdown_page(f"docs/api/{name}.md", reference_markdown(name))
        page.title = title
        pages.append(page)
    return pages


def reference_titles() -> list[tuple[str, str]]:
    """(name, title) of the pages of the reference."""
    from site_reference import PAGES

    return [(name, title) for name, (title, _, _) in PAGES.items()]


# -- the frame around a page


def framed(page: Page, groups: list[tuple[str, list[tuple[str, str]]]]) -> str:
    """A page with its navigation."""
    up = relpath(".", Path(page.address).parent.as_posix())
    up = "" if up == "." else f"{up}/"
    menu, flat = [], [entry for _, entries in groups for entry in entries]
    for name, entries in groups:
        items = []
        for title, goal in entries:
            here = ' class="here"' if goal == page.address else ""
            items.append(f'<li><a href="{up}{goal}"{here}>{html.escape(title)}</a></li>')
        menu.append(f"<h2>{html.escape(name)}</h2><ul>{''.join(items)}</ul>")
    inside = [(level, anchor, text) for level, anchor, text in page.headings if level in (2, 3)]
    toc = "".join(f'<li class="level{level}"><a href="#{anchor}">{html.escape(text)}</a></li>' for level, anchor, text in inside)
    aside = f"<aside><h2>On this page</h2><ul>{toc}</ul></aside>" if len(inside) > 1 else ""
    return (
        (LOOKS / "page.html")
        .read_text()
        .format(
            title=html.escape(page.title), up=up, menu="".join(menu), body=page.body, aside=aside, turn=neighbours(page, flat, up)
        )
    )


def neighbours(page: Page, flat: list[tuple[str, str]], up: str) -> str:
    """Links to the page before and the page after this one."""
    at = next((i for i, (_, goal) in enumerate(flat) if goal == page.address), None)
    if at is None:
        return ""
    before = f'<a href="{up}{flat[at - 1][1]}">&larr; {html.escape(flat[at - 1][0])}</a>' if at else "<span></span>"
    after = f'<a href="{up}{flat[at + 1][1]}">{html.escape(flat[at + 1][0])} &rarr;</a>' if at + 1 < len(flat) else ""
    return f'<nav class="turn">{before}{after}</nav>'


# -- links


def check(site: Path) -> list[str]:
    """Links, anchors and images of a site that lead nowhere, and anything that a page would load from the network."""
    texts = {path.relative_to(site).as_posix(): path.read_text() for path in sorted(site.rglob("*.html"))}
    anchors = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in texts.items()}
    faults = []
    for name, text in texts.items():
        for kind, target in re.findall(r'\b(href|src)="([^"]*)"', text):
            if re.match(r"[a-z]+:", target):
                if kind == "src":
                    faults.append(f"{name}: {target} would be loaded from the network")
                continue
            path, _, anchor = html.unescape(target).partition("#")
            goal = normpath(f"{Path(name).parent.as_posix()}/{path}") if path else name
            if goal not in texts and not (site / goal).is_file():
                faults.append(f"{name}: {target} does not exist")
            elif anchor and anchor not in anchors.get(goal, set()):
                faults.append(f"{name}: {target} has no such heading")
    return faults


if __name__ == "__main__":
    main()
