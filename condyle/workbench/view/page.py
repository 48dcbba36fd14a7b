"""A report as one HTML page that needs no network: styles, players and charts are inside."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any

from condyle.workbench.view.plots import PLAYHEAD, STYLE

# the page may use what is in it, and nothing else
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; frame-src 'self'"


def html_page(title: str, header: str, main: str, footer: str = "") -> str:
    """The page; `title` is text, the rest is HTML. A playhead moves in the charts of a section with its player."""
    style = f"{files('condyle.workbench.view').joinpath('web', 'report.css').read_text(encoding='utf-8')}{STYLE}"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<header>
{header}
</header>
<main>
{main}
</main>
<footer>
{footer}
</footer>
<script>{PLAYHEAD}</script>
</body>
</html>
"""


def facts_html(facts: Mapping[str, Any]) -> str:
    """Names and values as a list."""
    return f"<dl>{''.join(f'<dt>{escape(str(k))}</dt><dd>{escape(str(v))}</dd>' for k, v in facts.items())}</dl>"
