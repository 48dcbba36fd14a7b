"""The entry point of `condyle`: all commands of condyle/commands."""

from __future__ import annotations

import os

from condyle.commands import (  # noqa: F401 (each adds its commands to the app)
    bench,
    compile,
    demos,
    deploy,
    doctor,
    export,
    fly,
    gradcheck,
    identify,
    imitate,
    info,
    judge,
    lab,
    pictures,
    pidog,
    replay,
    robots,
    ros2,
    serve,
    sim,
    train,
    tune,
    version,
    view,
)
from condyle.commands.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line, or answer the shell's request for completions."""
    if version.COMPLETE_VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    app(prog_name="condyle")


if __name__ == "__main__":
    main()
