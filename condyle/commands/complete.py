"""What the shell offers when Tab is pressed: robots, runs, joints, controllers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import typer

ROBOT_FILES = (".urdf", ".xacro", ".xml", ".mjcf")
RUN_FILES = (".cdl",)
MOST = 200  # names that are offered

Found = list[tuple[str, str]]  # (what may be typed, what it is)


def one_of(*words: str) -> Callable[[str], list[str]]:
    """Completes to one of a few words."""

    def completed(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return completed


def robots(incomplete: str) -> Found:
    """The built-in robots, and files that may describe one."""
    from condyle.robot.library import ALSO, ROBOTS

    built_in = [(name, "a built-in robot") for name in (*ROBOTS, *ALSO) if name.startswith(incomplete)]
    return built_in + _files(incomplete, ROBOT_FILES)


def runs(incomplete: str) -> Found:
    """Files that may be runs."""
    return _files(incomplete, RUN_FILES)


def robots_and_runs(incomplete: str) -> Found:
    """Whatever has a robot in it."""
    return robots(incomplete) + runs(incomplete)


def tables(incomplete: str) -> Found:
    """Files that a run can be made of."""
    return _files(incomplete, (".csv", ".parquet", ".mcap"))


def machines(incomplete: str) -> list[str]:
    """The machines that can be verified."""
    from condyle.commands.verify import names

    return [name for name in names() if name.startswith(incomplete)]


def shown(incomplete: str) -> list[str]:
    """The machines of the demo."""
    from condyle.demos.table import MACHINES

    return [name for name in MACHINES if name.startswith(incomplete)]


def integrators(incomplete: str) -> list[str]:
    from condyle.simulate.setup import INTEGRATORS

    return [name for name in INTEGRATORS if name.startswith(incomplete)]


def controllers(incomplete: str) -> Found:
    from condyle.commands.controllers import CONTROLLERS

    return [(name, choice.summary) for name, choice in CONTROLLERS.items() if name.startswith(incomplete)]


def signals(incomplete: str) -> list[str]:
    from condyle.runs.plot import PANELS

    return [name for name in PANELS if name.startswith(incomplete)]


def kernels(incomplete: str) -> list[str]:
    from condyle.dynamics.kernels import KERNELS

    return [name for name in KERNELS if name.startswith(incomplete)]


def joints(ctx: typer.Context, incomplete: str) -> list[str]:
    """The joints of the robot that was typed before, where there is one."""
    return [name for name in _joint_names(ctx) if name.startswith(incomplete)][:MOST]


def joint_values(ctx: typer.Context, incomplete: str) -> list[str]:
    """NAME= for the joints of the robot that was typed before."""
    return [f"{name}=" for name in _joint_names(ctx) if name.startswith(incomplete)][:MOST]


def _joint_names(ctx: typer.Context) -> Iterable[str]:
    from condyle.errors import CondyleError
    from condyle.multibody.robot import load

    # an option that is not complete leaves the robot among the words that were not understood
    words = [word for word in (ctx.params.get("source"), *ctx.args) if word and not word.startswith("-")]
    try:
        return load(words[0], ctx.params.get("base")).joint_names if words else ()
    except CondyleError:  # nobody to tell: what is wrong is said when the command is run
        return ()


def _files(incomplete: str, suffixes: tuple[str, ...]) -> Found:
    """Files with one of the suffixes, and folders, as far as they are typed."""
    folder, _, start = incomplete.rpartition("/")
    before = f"{folder}/" if "/" in incomplete else ""
    try:
        entries = sorted(Path(before or ".").iterdir())
    except OSError:
        return []
    found: Found = []
    for entry in entries:
        name = entry.name
        if not name.startswith(start) or not name.isprintable() or (name.startswith(".") and not start):
            continue
        if entry.is_dir():
            found.append((f"{before}{name}/", "a folder"))
        elif entry.suffix.lower() in suffixes:
            found.append((f"{before}{name}", "a file"))
    return found[:MOST]
