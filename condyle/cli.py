"""The command `condyle`: its verbs are in condyle/commands, one file app_*.py for each group."""

from __future__ import annotations

from condyle.commands.main import app, main

__all__ = ["app", "main"]

if __name__ == "__main__":
    main()
