"""The program with all its verbs, as the entry points start it."""

from __future__ import annotations

import os

from condyle.commands import app_about, app_check, app_run, app_see  # noqa: F401 (their verbs join the app)
from condyle.commands.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Read the command line and do what it says; a shell may also ask what could follow."""
    if app_about.VARIABLE in os.environ:
        from typer.completion import completion_init

        completion_init()
    app(prog_name="condyle")
