"""A kernel of a robot written as C99."""

from __future__ import annotations

from pathlib import Path

from condyle.demo.result import write
from condyle.dynamics.robot import Robot
from condyle.errors import CondyleError
from condyle.tape.export_c import c_header, c_source


def export(robot: Robot, kernel: str, source: Path, header: Path | None, *, single: bool, force: bool) -> list[str]:
    """Write the files and say in one line each what they are; an existing file stops it unless `force`."""
    function = robot.function(kernel)
    for path in (source, header):
        if path is not None and path.is_dir():
            raise CondyleError(f"{path} is a folder; give the name of a file to write")
        if path is not None and path.exists() and not force:
            raise CondyleError(f"{path} is there already: --force writes over it")
    if header is not None and header.resolve() == source.resolve():
        raise CondyleError(f"--c and --header both name {source}; give two names, as in --c arm.c --header arm.h")
    precision, dtype = ("f32", "float32") if single else ("f64", "float64")
    tape = function.lowered(precision)
    _write(source, c_source(tape, dtype))
    ports = ", ".join(f"{p.name}{list(p.shape)}" for p in (*tape.inputs, *tape.outputs))
    said = [f"{source}: {kernel}({ports}), {tape.operations:,} operations in {dtype}; compile with -std=c99 -ffp-contract=off"]
    if header is not None:
        _write(header, c_header(tape, dtype))
        said.append(f"{header}: its declaration, for C and C++")
    return said


def _write(path: Path, text: str) -> None:
    try:
        write(path, text.encode())
    except OSError as error:
        raise CondyleError(f"{path} cannot be written ({error.strerror}); choose another place") from None
