"""Options and arguments that several commands share, and the boxes of a --help."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer

from condyle.commands import completion

# an option in a box of the --help
robot_option = partial(typer.Option, rich_help_panel="Robot")
world_option = partial(typer.Option, rich_help_panel="World")
control_option = partial(typer.Option, rich_help_panel="Control")
output_option = partial(typer.Option, rich_help_panel="Output")
out_option = partial(output_option, "--out", "-o")

robot_argument = partial(typer.Argument, autocompletion=completion.robots)
Source = Annotated[
    str, robot_argument(metavar="ROBOT", help="A URDF, xacro or MJCF file, or a built-in name such as ur3 or pidog.")
]
RunFile = Annotated[
    str, typer.Argument(metavar="RUN", help="A run, as `condyle sim -o` writes it.", autocompletion=completion.runs)
]

Base = Annotated[
    str | None,
    robot_option(
        help="How the base moves: fixed, free, planar, euler, or auto (free for robots with feet, wheels or rotors); by default "
        "as the file says, else fixed.",
        autocompletion=completion.one_of("fixed", "free", "planar", "euler", "auto"),
    ),
]
PackageDirs = Annotated[
    list[str] | None, robot_option("--package-dir", help="A folder where package:// paths are looked up; may repeat.")
]
Arguments = Annotated[list[str] | None, robot_option("--arg", help="A xacro argument, name:=value; may repeat.")]
Lock = Annotated[
    list[str] | None,
    robot_option(
        help="Fix a joint at zero and remove it; a prefix fixes every joint whose name begins with it; may repeat.",
        autocompletion=completion.joints,
    ),
]
Strict = Annotated[bool, robot_option("--strict", help="Stop at a value that would be repaired while loading.")]

Height = Annotated[float, world_option(help="Initial height of the lowest contact over the ground, m.")]
JointValues = Annotated[
    list[str] | None,
    world_option(
        help="Initial position of a joint, NAME=VALUE in rad or m; * matches any letters; may repeat.",
        autocompletion=completion.joint_values,
    ),
]
Dt = Annotated[float | None, world_option(help="Time step, s; by default that of the file, else 0.002.")]
Ground = Annotated[
    str | None,
    world_option(
        help="plane, none or slope:DEGREES; by default a plane if the base moves, else none.",
        autocompletion=completion.one_of("plane", "none", "slope:10"),
    ),
]
Friction = Annotated[float, world_option(help="Coulomb friction coefficient of the ground.")]
Contacts = Annotated[
    list[str] | None,
    world_option(
        help="What can touch the ground: auto (feet and points about the robot; the default), feet, collisions, none, a link, "
        "shape or frame (* matches any letters), FRAME:RADIUS or FRAME:X,Y,Z,RADIUS in m; may repeat."
    ),
]
Integrator = Annotated[
    str,
    world_option(
        help="Integration method: semi_implicit_euler, rk4, ...; see docs/contact.md.",
        autocompletion=completion.names_in("condyle.simulate.config", "INTEGRATORS"),
    ),
]

Json = Annotated[bool, output_option("--json", help="Print JSON instead, for scripts.")]
Force = Annotated[bool, output_option("--force", help="Overwrite files that exist.")]
Dark = Annotated[bool, typer.Option("--dark", help="Use a dark theme.")]
