"""Runs as tables and logs for other programs and back, and a kernel of a robot as C99."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from condyle.atomic_write import write_bytes
from condyle.commands.notes import command
from condyle.errors import CondyleError
from condyle.multibody.robot import Robot
from condyle.robot import library
from condyle.runs import convert
from condyle.runs.json_codec import printable
from condyle.runs.run import read_run
from condyle.tape.export.c import c_header, c_source

KINDS = {"csv": "a CSV table", "parquet": "a Parquet table", "mcap": "an MCAP log"}
RUN = ".cdl"


def export(robot: Robot, kernel: str, source: Path, header: Path | None, *, single: bool, force: bool) -> list[str]:
    """Write the files and say in one line each what they are; an existing file stops it unless `force`."""
    function = robot.function(kernel)
    for path in (source, header):
        if path is not None:
            _free(path, force)
    if header is not None and header.resolve() == source.resolve():
        raise CondyleError(f"--c and --header both name {source}; give two names, as in --c arm.c --header arm.h")
    precision, dtype = ("f32", "float32") if single else ("f64", "float64")
    tape = function.lowered(precision)
    write_bytes(source, c_source(tape, dtype).encode())
    ports = ", ".join(f"{p.name}{list(p.shape)}" for p in (*tape.inputs, *tape.outputs))
    said = [f"{source}: {kernel}({ports}), {tape.operations:,} operations in {dtype}; compile with -std=c99 -ffp-contract=off"]
    if header is not None:
        write_bytes(header, c_header(tape, dtype).encode())
        said.append(f"{header}: its declaration, for C and C++")
    return said


def export_run(source: str, kinds: Sequence[str], out: Path | None, *, force: bool) -> list[str]:
    """Write a run as tables of these kinds, beside it or as `out`, and say in one line each what they are."""
    if not kinds and out is None:
        raise CondyleError("what to write? --csv, --parquet or --mcap for a run, --c FILE for a robot")
    if not kinds and out is not None:
        kinds = [out.suffix[1:].lower()]
    if out is not None and len(kinds) > 1:
        raise CondyleError(f"-o names one file, and {len(kinds)} kinds are asked for: leave -o out, or ask for one kind")
    if kinds[0] not in KINDS:
        raise CondyleError(f"-o {out}: a run is written as .csv, .parquet or .mcap; take one of these names, or add --csv")
    path = Path(source)
    if not path.exists() and (library.meant(source) in library.ROBOTS):
        recorded = command("sim", source, "-o", f"{source}.cdl")
        raise CondyleError(f"{source} is a robot, and tables are of runs: record one with {recorded}")
    targets = [out or path.with_suffix(f".{kind}") for kind in kinds]
    run = read_run(path)
    for target in targets:
        _free(target, force)
    said = []
    for kind, target in zip(kinds, targets, strict=True):
        convert.export_run(run, target, kind)
        said.append(f"{target}: {run.steps:,} steps as {KINDS[kind]}, {target.stat().st_size:,} bytes")
    return said + ([f"note: {run.lost}"] if run.lost is not None else [])


def import_run(table: Path, out: Path | None, *, force: bool) -> list[str]:
    """Write the run that a table was made of."""
    target = out or table.with_suffix(RUN)
    if target.suffix.lower() != RUN:
        raise CondyleError(f"-o writes a run, and {target.name} does not end in {RUN}: try -o {target.stem}{RUN}")
    run = convert.import_run(table)
    _free(target, force)
    run.save(target)
    note = [f"note: {run.lost}"] if run.lost is not None else []
    return [f"{target}: {run.steps:,} steps of {printable(run.about['robot'])}; next: {command('replay', target)} --check", *note]


def _free(path: Path, force: bool) -> None:
    """A sentence if the file may not be written."""
    if path.is_dir():
        raise CondyleError(f"{path} is a folder; give the name of a file to write")
    if os.path.lexists(path) and not force:  # also a link that leads nowhere yet
        raise CondyleError(f"{path} is there already: --force writes over it")
