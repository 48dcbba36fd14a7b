"""The tables of docs/software_in_the_loop.md are those of the code: the layout of the shared memory, and the messages."""

from pathlib import Path

import pytest

from condyle.workbench.connect import messages
from condyle.workbench.connect.memory_block import HEADER, ROW, ROW_FIELDS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "software_in_the_loop.md"


def layout_rows() -> list[str]:
    """The rows of the header."""
    return [f"| {field.offset} | {field.type} | `{name}` | {field.about} |" for name, field in HEADER.items()]


def table_rows() -> list[str]:
    """The rows of the table of names."""
    return [f"| `{name}` | {about} |" for name, about in ROW_FIELDS.items()]


def message_rows(table: dict[str, dict[str, messages.Member]]) -> list[str]:
    """A row for each message and member."""
    rows = []
    for kind, members in table.items():
        if not members:
            rows.append(f"| `{kind}` | | | |")
        for k, (name, member) in enumerate(members.items()):
            needed = " (required)" if member.required and table is messages.FROM_CLIENT else ""
            rows.append(f"| {f'`{kind}`' if k == 0 else ''} | `{name}` | {member.type} | {member.about}{needed} |")
    return [row.replace("|  |", "| |") for row in rows]


@pytest.mark.parametrize(
    "rows",
    [layout_rows(), table_rows(), message_rows(messages.FROM_CLIENT), message_rows(messages.FROM_SERVER)],
    ids=["layout", "table of names", "from a client", "from the simulation"],
)
def test_the_page_has_the_table(rows: list[str]) -> None:
    assert "\n".join(rows) in PAGE.read_text()


def test_sizes_on_the_page() -> None:
    text = PAGE.read_text()
    assert f"a row of {ROW.size} bytes" in text and f"at most {messages.MAX_BYTES // 1024} KiB" in text
