"""What several verbs are told in the same words: the robot, its world, and how to print."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isfinite
from typing import Annotated, Any

import typer

from condyle.commands import complete
from condyle.commands.scene import Scene
from condyle.commands.source import Origin, arguments

ROBOT, WORLD, OUTPUT = "Robot", "World", "Output"  # the boxes of a --help

Source = Annotated[
    str,
    typer.Argument(
        metavar="ROBOT",
        help="A URDF, xacro or MJCF file, or a built-in name such as ur3 or pidog.",
        autocompletion=complete.robots,
    ),
]
RunFile = Annotated[
    str, typer.Argument(metavar="RUN", help="A run, as `condyle sim -o` writes it.", autocompletion=complete.runs)
]
Base = Annotated[
    str | None,
    typer.Option(
        help="fixed, free, planar or euler; files are fixed unless told.",
        autocompletion=complete.one_of("fixed", "free", "planar", "euler"),
        rich_help_panel=ROBOT,
    ),
]
PackageDirs = Annotated[
    list[str] | None,
    typer.Option("--package-dir", help="A folder of packages, for package://; may repeat.", rich_help_panel=ROBOT),
]
Arguments = Annotated[
    list[str] | None, typer.Option("--arg", help="A xacro argument, name:=value; may repeat.", rich_help_panel=ROBOT)
]
Lock = Annotated[
    list[str] | None,
    typer.Option(
        help="A joint, or how joints begin, to hold at zero; may repeat.", autocompletion=complete.joints, rich_help_panel=ROBOT
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="What would be repaired is an error.", rich_help_panel=ROBOT)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead, for scripts.", rich_help_panel=OUTPUT)]
Dt = Annotated[float, typer.Option(help="The time step, s.", rich_help_panel=WORLD)]
Ground = Annotated[
    str | None,
    typer.Option(
        help="plane, none or slope:DEGREES; a plane if the base moves, else none.",
        autocompletion=complete.one_of("plane", "none", "slope:10"),
        rich_help_panel=WORLD,
    ),
]
Friction = Annotated[float, typer.Option(help="Coulomb's coefficient of the ground.", rich_help_panel=WORLD)]
Contacts = Annotated[
    list[str] | None,
    typer.Option(
        help="A link, collision shape or frame that touches, * for any letters; may repeat. Feet if not given.",
        rich_help_panel=WORLD,
    ),
]
Integrator = Annotated[
    str,
    typer.Option(
        help="As for `condyle.Simulation`: semi_implicit_euler, rk4, ...",
        autocompletion=complete.integrators,
        rich_help_panel=WORLD,
    ),
]


def origin(
    source: str,
    base: str | None = None,
    package_dirs: Sequence[str] | None = None,
    args: Sequence[str] | None = None,
    strict: bool = False,
    lock: Sequence[str] | None = None,
) -> Origin:
    """Where the robot comes from."""
    return Origin(source, base, tuple(package_dirs or ()), arguments(args or []), strict, tuple(lock or ()))


def scene(of: Origin, dt: float, ground: str | None, friction: float, contacts: Sequence[str] | None, integrator: str) -> Scene:
    """The robot's world."""
    return Scene(of, dt, ground, friction, tuple(contacts or ()), integrator)


def print_json(data: Any) -> None:
    """Data as JSON, on the standard output; a number that is not finite is null, because JSON has no other."""
    typer.echo(json.dumps(_plain(data), indent=2, ensure_ascii=False, allow_nan=False))


def _plain(data: Any) -> Any:
    if isinstance(data, float):
        return data if isfinite(data) else None
    if isinstance(data, dict):
        return {str(key): _plain(value) for key, value in data.items()}
    return [_plain(value) for value in data] if isinstance(data, list | tuple) else data
