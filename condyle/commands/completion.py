"""Shell completion: the words that can follow a command line. `condyle completion` itself is in version.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

import typer

MOST = 200  # words offered at once

Completions = list[tuple[str, str]]  # (word, description)


def one_of(*words: str) -> Callable[[str], list[str]]:
    """A completer of these words."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def names_in(module: str, *tables: str) -> Callable[[str], list[str]]:
    """A completer of the keys of tables, whose module is imported only then."""
    return lambda incomplete: one_of(*[name for table in tables for name in getattr(import_module(module), table)])(incomplete)


def robots(incomplete: str) -> Completions:
    """The built-in and published robots, and files that may describe one."""
    from condyle.robot.library import ALSO, ROBOTS
    from condyle.robot.presets import presets

    built_in = [(name, "a built-in robot") for name in one_of(*ROBOTS, *ALSO)(incomplete)]
    known = {name: preset.package for name, preset in presets().items() if preset.path is not None and incomplete}
    published = [(name, f"of {known[name]}") for name in one_of(*known)(incomplete)]
    return built_in + published + files(incomplete, (".urdf", ".xacro", ".xml", ".mjcf"))


def runs(incomplete: str) -> Completions:
    """Files that may be runs."""
    return files(incomplete, (".cdl",))


def robots_and_runs(incomplete: str) -> Completions:
    """Robots, and files that may be runs."""
    return robots(incomplete) + runs(incomplete)


def tables(incomplete: str) -> Completions:
    """Exported tables, which can be imported as runs."""
    return files(incomplete, (".csv", ".parquet", ".mcap"))


def joints(ctx: typer.Context, incomplete: str) -> list[str]:
    """The joints of the robot on the command line."""
    return one_of(*_joint_names(ctx))(incomplete)[:MOST]


def joint_values(ctx: typer.Context, incomplete: str) -> list[str]:
    """NAME= for each joint of the robot on the command line."""
    return [f"{name}=" for name in joints(ctx, incomplete)]


def _joint_names(ctx: typer.Context) -> Iterable[str]:
    from condyle.errors import CondyleError
    from condyle.multibody.robot import load

    # an incomplete option leaves the robot among the unparsed words
    words = [word for word in (ctx.params.get("source"), *ctx.args) if word and not word.startswith("-")]
    try:
        return load(words[0], ctx.params.get("base")).joint_names if words else ()
    except CondyleError:  # reported when the command is run
        return ()


def files(incomplete: str, suffixes: tuple[str, ...]) -> Completions:
    """Files with one of the suffixes, and folders."""
    folder, slash, start = incomplete.rpartition("/")
    before = folder + slash
    try:
        entries = sorted(Path(before or ".").iterdir())
    except OSError:
        return []
    found: Completions = []
    for entry in entries:
        name = entry.name
        if not name.startswith(start) or not name.isprintable() or (name.startswith(".") and not start):
            continue
        if entry.is_dir():
            found.append((f"{before}{name}/", "a folder"))
        elif entry.suffix.lower() in suffixes:
            found.append((f"{before}{name}", "a file"))
    return found[:MOST]
