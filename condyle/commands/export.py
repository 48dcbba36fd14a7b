"""`condyle export` and `condyle import`: runs as tables and logs and back, and a function of a robot as C99."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from condyle.atomic_write import write_bytes
from condyle.commands import completion
from condyle.commands.app import command
from condyle.commands.hints import shell_command
from condyle.commands.options import Arguments, Base, Force, Lock, PackageDirs
from condyle.commands.scene import Origin
from condyle.errors import CondyleError
from condyle.multibody.robot import Robot
from condyle.robot import library
from condyle.tape.export.c import c_header, c_source
from condyle.workbench.runs import convert
from condyle.workbench.runs.json_codec import printable
from condyle.workbench.runs.run import Run, read_run

KINDS = {"csv": "a CSV table", "parquet": "a Parquet table", "mcap": "an MCAP log", "bag": "a bag of ROS 2"}
RUN = ".cdl"
code_option = partial(typer.Option, rich_help_panel="C code of a robot")


@command(
    "condyle export run.cdl --csv",
    "condyle export run.cdl --csv --parquet --mcap",
    "condyle export run.cdl --csv -o table.csv",
    "condyle export run.cdl --bag",
    "condyle export ur3 --c ur3.c --header ur3.h --kernel forward_dynamics",
)
def export(
    source: Annotated[
        str,
        typer.Argument(
            metavar="RUN|ROBOT", help="A run, or a robot for --c, as for `info`.", autocompletion=completion.robots_and_runs
        ),
    ],
    csv: Annotated[bool, typer.Option("--csv", help="Write a CSV table, run.csv next to the run.")] = False,
    parquet: Annotated[bool, typer.Option("--parquet", help="Write a Parquet table, run.parquet.")] = False,
    mcap: Annotated[bool, typer.Option("--mcap", help="Write a log for Foxglove, run.mcap.")] = False,
    bag: Annotated[bool, typer.Option("--bag", help="Write a bag of ROS 2, the folder run_bag.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Name of the file, if only one is written.")] = None,
    c: Annotated[Path | None, code_option("--c", help="Write a function of the robot into this C file.")] = None,
    kernel: Annotated[
        str,
        code_option(
            help="The function to write, as listed in docs/robots.md.",
            autocompletion=completion.names_in("condyle.multibody.robot", "FUNCTIONS"),
        ),
    ] = "forward_dynamics",
    header: Annotated[Path | None, code_option(help="Also write a header file.")] = None,
    float32: Annotated[bool, code_option("--float32", help="Use single precision.")] = False,
    force: Force = False,
    base: Base = None,
    package_dir: PackageDirs = None,
    arg: Arguments = None,
    lock: Lock = None,
) -> None:
    """A run as CSV, Parquet, MCAP or ROS 2 bag; a robot's function as C.

    Tables keep every bit, and `condyle import` makes them runs again. C is C99 without dependencies, with the same bits as
    the compiled function. Parquet and MCAP need the extra `export`, bags `ros2`.
    """
    kinds = [kind for kind, wanted in (("csv", csv), ("parquet", parquet), ("mcap", mcap), ("bag", bag)) if wanted]
    if c is not None and (kinds or out is not None):
        raise CondyleError(
            "--c is for robots, and --csv, --parquet, --mcap, --bag and -o are for runs: leave one or the other out"
        )
    if c is not None:
        robot = Origin(source, base, package_dir, arg, lock).load()
        lines = export_c(robot, kernel, c, header, single=float32, force=force)
    else:
        lines = export_run(source, kinds, out, force=force)
    for line in lines:
        typer.echo(line)


@command("condyle import run.csv -o again.cdl", "condyle import run.parquet -o again.cdl")
def import_(
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="A .csv, .parquet or .mcap that `condyle export` wrote.", autocompletion=completion.tables
        ),
    ],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The run to write, .cdl; by default next to the table.")] = None,
    force: Force = False,
) -> None:
    """An exported table made a run again, bit for bit.

    `condyle replay --check` compares it with a new computation.
    """
    for line in import_run(Path(table), out, force=force):
        typer.echo(line)


def export_c(robot: Robot, kernel: str, source: Path, header: Path | None, *, single: bool, force: bool) -> list[str]:
    """Write a function as C; one line about each file. Files that exist are overwritten only with `force`."""
    function = robot.function(kernel)
    for path in filter(None, (source, header)):
        _check_target(path, force)
    if header is not None and header.resolve() == source.resolve():
        raise CondyleError(f"--c and --header both name {source}; give two names, as in --c arm.c --header arm.h")
    precision, dtype = ("f32", "float32") if single else ("f64", "float64")
    tape = function.lowered(precision)
    write_bytes(source, c_source(tape, precision).encode())
    ports = ", ".join(f"{p.name}{list(p.shape)}" for p in (*tape.inputs, *tape.outputs))
    lines = [f"{source}: {kernel}({ports}), {tape.operations:,} operations in {dtype}; compile with -std=c99 -ffp-contract=off"]
    if header is not None:
        write_bytes(header, c_header(tape, precision).encode())
        lines.append(f"{header}: its declaration, for C and C++")
    return lines


def export_run(source: str, kinds: Sequence[str], out: Path | None, *, force: bool) -> list[str]:
    """Write a run as tables of these kinds, next to it or as `out`; one line about each file."""
    if not kinds:
        if out is None:
            raise CondyleError("no format was given: add --csv, --parquet, --mcap or --bag for a run, or --c FILE for a robot")
        kinds = [out.suffix[1:].lower()]
    if out is not None and len(kinds) > 1:
        raise CondyleError(f"-o names one file, and {len(kinds)} formats were given: leave -o out, or give one format")
    if kinds[0] not in KINDS:
        raise CondyleError(f"-o {out}: a run is written as .csv, .parquet or .mcap; use one of these suffixes, or add --csv")
    path = Path(source)
    if not path.exists() and (library.meant(source) in library.ROBOTS):
        recorded = shell_command("sim", source, "-o", f"{source}.cdl")
        raise CondyleError(f"{source} is a robot, and tables are of runs: record one with {recorded}")
    targets = [out or (path.with_name(f"{path.stem}_bag") if kind == "bag" else path.with_suffix(f".{kind}")) for kind in kinds]
    run = read_run(path)
    for kind, target in zip(kinds, targets, strict=True):
        _check_target(target, force, folder=kind == "bag")
    lines = []
    for kind, target in zip(kinds, targets, strict=True):
        convert.export_run(run, target, kind)
        size = sum(each.stat().st_size for each in ([target] if target.is_file() else target.iterdir()))
        lines.append(f"{target}: {run.steps:,} steps as {KINDS[kind]}, {size:,} bytes")
    return lines + _lost(run)


def import_run(table: Path, out: Path | None, *, force: bool) -> list[str]:
    """Write the run that a table was exported from; one line about the file."""
    target = out or table.with_suffix(RUN)
    if target.suffix.lower() != RUN:
        raise CondyleError(f"-o writes a run, and {target.name} does not end in {RUN}: try -o {target.stem}{RUN}")
    run = convert.import_run(table)
    _check_target(target, force)
    run.save(target)
    robot, again = printable(run.about["robot"]), shell_command("replay", target)
    return [f"{target}: {run.steps:,} steps of {robot}; next: {again} --check", *_lost(run)]


def _lost(run: Run) -> list[str]:
    return [] if run.lost is None else [f"note: {run.lost}"]


def _check_target(path: Path, force: bool, *, folder: bool = False) -> None:
    """CondyleError if the file, or folder, cannot be written, or exists and `force` is not given."""
    if path.is_dir() and not folder:
        raise CondyleError(f"{path} is a folder; give the name of a file to write")
    if os.path.lexists(path) and not force:  # also a link that leads nowhere yet
        raise CondyleError(f"{path} exists already: --force overwrites it")
