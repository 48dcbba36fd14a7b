"""`condyle compile`: functions of a robot as one file of machine code, for computers without a compiler."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from condyle.commands import completion, options
from condyle.commands.app import command
from condyle.commands.scene import Origin
from condyle.errors import CondyleError
from condyle.multibody.robot import FUNCTIONS, Robot
from condyle.robot.names import nearest
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import Plane
from condyle.tape.bundle import save_bundle, targets
from condyle.tape.function import Function

STEP = "step"


@command(
    "condyle compile ur3 --kernels forward_dynamics,mass_matrix -o ur3.bundle",
    "condyle compile pidog --kernels step --dt 0.002 --target cuda:sm_90,cpu:x86-64-v3,cpu:aarch64 -o pidog.bundle",
)
def compile_(
    source: options.Source,
    out: Annotated[Path, typer.Option("--out", "-o", help="The file to write, such as robot.bundle.")],
    kernels: Annotated[
        str,
        typer.Option(
            help="Functions of the robot, with commas between; `step` is a step of its simulation.",
            autocompletion=completion.names_in("condyle.multibody.robot", "FUNCTIONS"),
        ),
    ] = "forward_dynamics",
    target: Annotated[
        str, typer.Option(help="Processors and GPUs: cpu:x86-64-v3, cpu:x86-64-v4, cpu:aarch64, cuda:sm_90.")
    ] = "cpu:x86-64-v3,cpu:x86-64-v4",
    dt: Annotated[float, typer.Option(help="Time step of `step`, s.")] = 0.002,
    friction: Annotated[float, typer.Option(help="Friction of the ground under a robot that moves, for `step`.")] = 0.8,
    force: options.Force = False,
    base: options.Base = None,
    package_dir: options.PackageDirs = None,
    arg: options.Arguments = None,
    lock: options.Lock = None,
) -> None:
    """Compile functions of a robot into a file that needs no compiler.

    `condyle.load_bundle(FILE)["forward_dynamics"](q, v, tau)` calls it, with NumPy alone and the same bits; arrays on a GPU
    need code for it. A bundle is a program: load only those that you would run.
    """
    chosen = targets(target)
    if out.exists() and not force:
        raise CondyleError(f"{out} exists already: give another name, or --force to replace it")
    robot = Origin(source, base, package_dir, arg, lock).load()
    functions = {name: kernel(robot, name, dt, friction) for name in dict.fromkeys(n.strip() for n in kernels.split(","))}
    save_bundle(out, functions, chosen)
    typer.echo(
        f"{out} contains {', '.join(functions)} of '{robot.name}' for {', '.join(chosen)}: {out.stat().st_size / 1e3:,.0f} kB"
    )


def kernel(robot: Robot, name: str, dt: float, friction: float) -> Function:
    """A function of the robot by name, or a step of its simulation on a plane if its base moves."""
    if name == STEP:
        moves = bool(robot.model.base_coordinates)
        return Simulation(robot, dt, Plane(friction) if moves else None).step_function()
    if name not in FUNCTIONS:
        raise CondyleError(f"--kernels names '{name:.60}', which is no function of a robot{nearest(name, [*FUNCTIONS, STEP])}")
    return robot.function(name)
