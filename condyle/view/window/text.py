"""Words of files in the panel: as text, never as markup. viser runs the HTML and Markdown it is given, so all goes by here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

LONGEST = 400  # letters of one value
DEEPEST = 3  # levels of nested facts
MOST_ROWS = 80

_CELL = "padding:1px 8px 1px 0;vertical-align:top;overflow-wrap:anywhere"


def short(value: object, most: int = LONGEST) -> str:
    """A value as text on one line, cut where it is too long, without letters that are not seen."""
    text = f"{value:.9g}" if isinstance(value, float) else str(value)
    text = "".join(c if c.isprintable() else " " for c in text[: most + 1])
    return text if len(text) <= most else text[:most] + "…"


def paragraph(text: object, *, color: str = "", small: bool = False) -> str:
    """HTML of one paragraph of text."""
    style = f"margin:0;padding:2px 10px;overflow-wrap:anywhere;font-size:{'0.8em' if small else '0.875em'};line-height:1.4"
    return f'<p style="{style}{";color:" + color if color else ""}">{escape(short(text))}</p>'


def paragraphs(texts: Iterable[object], **looks: Any) -> str:
    """HTML of paragraphs, one after the other."""
    return "".join(paragraph(text, **looks) for text in texts)


def table(rows: Iterable[tuple[object, object]]) -> str:
    """HTML of a table of names and values."""
    body = "".join(
        f'<tr><td style="{_CELL};opacity:0.7;max-width:9em">{escape(short(name, 80))}</td>'
        f'<td style="{_CELL}">{escape(short(value))}</td></tr>'
        for name, value in rows
    )
    return f'<table style="font-size:0.8em;line-height:1.35;margin:2px 10px;border-spacing:0">{body}</table>'


def facts(about: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Rows (name, value) of nested plain data, names of inner parts joined by a dot; long ones end in a row that says so."""
    rows: list[tuple[str, str]] = []

    def add(prefix: str, value: Any, depth: int) -> None:
        if isinstance(value, Mapping) and depth < DEEPEST:
            for name, inner in value.items():
                add(f"{prefix}.{name}" if prefix else str(name), inner, depth + 1)
        elif isinstance(value, (list, tuple)) and len(value) > 8:
            rows.append((prefix, f"{len(value)} entries"))
        elif value is not None and value != "":
            rows.append((prefix, short(value)))

    add("", about, 0)
    return rows if len(rows) <= MOST_ROWS else [*rows[:MOST_ROWS], ("", f"and {len(rows) - MOST_ROWS} more")]
