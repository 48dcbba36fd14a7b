"""Options and arguments that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from condyle.commands import completion

ROBOT, WORLD, CONTROL, OUTPUT = "Robot", "World", "Control", "Output"  # the boxes of a --help

Source = Annotated[
    str,
    typer.Argument(
        metavar="ROBOT",
        help="A URDF, xacro or MJCF file, or a built-in name such as ur3 or pidog.",
        autocompletion=completion.robots,
    ),
]
RunFile = Annotated[
    str, typer.Argument(metavar="RUN", help="A run, as `condyle sim -o` writes it.", autocompletion=completion.runs)
]
Base = Annotated[
    str | None,
    typer.Option(
        help="How the base moves: fixed, free, planar or euler; by default as the file says, else fixed.",
        autocompletion=completion.one_of("fixed", "free", "planar", "euler"),
        rich_help_panel=ROBOT,
    ),
]
PackageDirs = Annotated[
    list[str] | None,
    typer.Option("--package-dir", help="A folder where package:// paths are looked up; may repeat.", rich_help_panel=ROBOT),
]
Arguments = Annotated[
    list[str] | None, typer.Option("--arg", help="A xacro argument, name:=value; may repeat.", rich_help_panel=ROBOT)
]
Lock = Annotated[
    list[str] | None,
    typer.Option(
        help="Fix a joint at zero and remove it; a prefix fixes every joint whose name begins with it; may repeat.",
        autocompletion=completion.joints,
        rich_help_panel=ROBOT,
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Stop at a value that would be repaired while loading.", rich_help_panel=ROBOT)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead, for scripts.", rich_help_panel=OUTPUT)]
Force = Annotated[bool, typer.Option("--force", help="Overwrite files that exist.", rich_help_panel=OUTPUT)]
PlotFile = Annotated[Path | None, typer.Option(help="Also plot the run: .png, .svg or .pdf.", rich_help_panel=OUTPUT)]
Height = Annotated[float, typer.Option(help="Initial height of the lowest contact over the ground, m.", rich_help_panel=WORLD)]
JointValues = Annotated[
    list[str] | None,
    typer.Option(
        help="Initial position of a joint, NAME=VALUE in rad or m; * matches any letters; may repeat.",
        autocompletion=completion.joint_values,
        rich_help_panel=WORLD,
    ),
]
Dt = Annotated[float, typer.Option(help="Time step, s.", rich_help_panel=WORLD)]
Ground = Annotated[
    str | None,
    typer.Option(
        help="plane, none or slope:DEGREES; by default a plane if the base moves, else none.",
        autocompletion=completion.one_of("plane", "none", "slope:10"),
        rich_help_panel=WORLD,
    ),
]
Friction = Annotated[float, typer.Option(help="Coulomb friction coefficient of the ground.", rich_help_panel=WORLD)]
Contacts = Annotated[
    list[str] | None,
    typer.Option(
        help="A link, collision shape or frame that can touch the ground; * matches any letters; may repeat; feet by default.",
        rich_help_panel=WORLD,
    ),
]
Integrator = Annotated[
    str,
    typer.Option(
        help="Integration method: semi_implicit_euler, rk4, ...; see docs/contact.md.",
        autocompletion=completion.names_in("condyle.simulate.config", "INTEGRATORS"),
        rich_help_panel=WORLD,
    ),
]
