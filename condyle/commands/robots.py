"""`condyle robots`: the robots that can be loaded by name."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

from condyle.commands.app import command
from condyle.commands.options import Json
from condyle.commands.terminal import report
from condyle.errors import install_command
from condyle.robot import library
from condyle.robot.presets import EXAMPLE_ROBOTS, presets

BUILT_IN = "condyle"


@command("condyle robots", "condyle robots --json")
def robots(as_json: Json = False) -> None:
    """The robots that can be loaded by name.

    Built-in ones, and those of example-robot-data and robot_descriptions, where these packages are installed. Any of them can be
    given to info, view and sim; their file is read where it lies, and nothing is downloaded.
    """
    report(found(), as_json, show)


def found() -> list[dict[str, Any]]:
    """Name, package, base and file of each robot; the file of a built-in one, or of one to be downloaded, is None."""
    built_in = [{"name": name, "package": BUILT_IN, "base": entry.base, "file": None} for name, entry in library.ROBOTS.items()]
    chain = {"name": f"{library.NUMBERED}:n", "package": BUILT_IN, "base": "fixed", "file": None}
    published = [
        {"name": each.name, "package": each.package, "base": each.base, "file": None if each.path is None else str(each.path)}
        for each in presets().values()
    ]
    return [*built_in, chain, *sorted(published, key=lambda each: (each["package"], str(each["name"])))]


def show(entries: list[dict[str, Any]], console: Console) -> None:
    """Print the names by package; those of a package that still have to be downloaded are counted."""
    table = Table("from", "names", show_header=False, box=None, padding=(0, 3, 1, 0))
    for package in dict.fromkeys(str(each["package"]) for each in entries):
        own = [each for each in entries if each["package"] == package]
        here = [str(each["name"]) for each in own if each["file"] is not None or package == BUILT_IN]
        names = ", ".join(here) or "none yet"
        missing = len(own) - len(here)
        if missing:
            names += f"; {missing} more after `python -m robot_descriptions pull NAME` (--json lists them)"
        table.add_row(f"[bold]{'built in' if package == BUILT_IN else package}", names)
    console.print(table, highlight=False)
    if not any(each["package"] != BUILT_IN for each in entries):
        some = ", ".join(list(EXAMPLE_ROBOTS)[:6])
        console.print(f"Published ones ({some}, ...): {install_command('robots')}", highlight=False, markup=False, soft_wrap=True)
