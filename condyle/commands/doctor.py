"""`condyle doctor`: the problems of a robot file and their remedies, and a corrected file on request."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from condyle.atomic_write import write_bytes
from condyle.commands.app import command
from condyle.commands.hints import shell_command
from condyle.commands.options import Arguments, Json, PackageDirs, Strict, robot_argument
from condyle.commands.scene import Origin, is_run
from condyle.commands.terminal import report
from condyle.errors import FileError, RobotError
from condyle.robot.names import quoted
from condyle.robot.report import ERROR, HINT, WARNING, Finding
from condyle.workbench.doctor.diagnose import (
    FAILS,
    FIXED_BASE,
    LOADS,
    NOT_SIMULABLE,
    WARNINGS,
    Diagnosis,
    corrected_path,
    diagnose,
)

OK, FIXED, ERRORS = 0, 1, 2  # exit codes: no problems; warnings, or errors that --fix corrected; errors that remain
COLORS = {ERROR: "bold red", WARNING: "yellow", HINT: "cyan"}
VERDICTS = {LOADS: "bold green", WARNINGS: "bold yellow", NOT_SIMULABLE: "bold red", FAILS: "bold red"}
SHOWN = {ERROR: 30, WARNING: 20, HINT: 8}  # findings of each severity


@command("condyle doctor my.urdf", "condyle doctor my.urdf --fix", "condyle doctor arm.urdf.xacro --arg hand:=true --json")
def doctor(
    file: Annotated[str, robot_argument(metavar="FILE", help="A URDF, xacro or MJCF file, or the name of a published robot.")],
    fix: Annotated[bool, typer.Option("--fix", help="Write a corrected file next to it, my.fixed.urdf.")] = False,
    force: Annotated[bool, typer.Option("--force", help="With --fix, overwrite a corrected file that exists.")] = False,
    package_dir: PackageDirs = None,
    arg: Arguments = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """Problems of a robot file, and how to fix them.

    Exit codes: 0 ok; 1 warnings, or errors that --fix corrected; 2 errors remain, or there is no such file.
    """
    options = Origin(file, None, package_dir, arg).reader_options
    found = examine(file, **options, fix=fix, force=force, strict=strict)
    report(found, as_json, show, facts)
    raise typer.Exit(exit_code(found))


def examine(
    path: str | PathLike[str],
    package_dirs: Sequence[str | PathLike[str]] = (),
    xacro_args: Mapping[str, str] | None = None,
    *,
    fix: bool = False,
    strict: bool = False,
    force: bool = False,
) -> Diagnosis:
    """The diagnosis of a file; with `fix`, NAME.fixed.urdf is written beside it if anything can be corrected.

    The file itself is never changed; a NAME.fixed.urdf that exists is overwritten only with `force`. `strict` makes warnings
    errors.
    """
    path, preset = Path(path), None
    if not path.exists() and not path.suffix and path.parent == Path():
        from condyle.robot import library, presets

        if library.meant(path.name) in library.ROBOTS:
            raise RobotError([f"{path} is a built-in robot, not a file: {shell_command('info', path)} shows it"])
        preset = presets.find(path.name) if presets.known(path.name) else None
    if preset is not None and preset.path is not None:
        if fix:
            raise RobotError([f"{path} is part of {preset.package}: copy its file, {preset.path}, and give the copy to --fix"])
        path, package_dirs = preset.path, (*package_dirs, *preset.package_dirs)
        xacro_args = {**preset.xacro_args, **(xacro_args or {})}
    if is_run(str(path)):
        raise RobotError([f"{path} is a run, not a robot: {shell_command('replay', path)} --check examines it"])
    target = corrected_path(path)
    if fix and os.path.lexists(target) and not force:  # also a link that leads nowhere yet
        raise FileError(f"{target} exists already: move it away, or add --force to overwrite it")
    found = diagnose(path, package_dirs=package_dirs, xacro_args=xacro_args, fix=fix, strict=strict)
    if preset is not None and preset.base == "free":
        # by its name it is loaded with the base it is meant for
        return replace(found, findings=tuple(each for each in found.findings if each.rule != FIXED_BASE))
    if found.corrected is None:
        return found
    try:
        write_bytes(target, found.corrected.encode("utf-8"))
    except OSError as error:
        raise FileError(f"{target} cannot be written ({error.strerror}): copy {path.name} to a folder of yours") from None
    return replace(found, written=target)


def exit_code(found: Diagnosis) -> int:
    """0 without problems; 1 for warnings, and for errors that the corrected file no longer has; 2 for errors that remain."""
    last = found.findings if found.corrected is None else found.remains
    grave = (ERROR, WARNING) if found.strict else (ERROR,)
    if any(finding.severity in grave for finding in last):
        return ERRORS
    return FIXED if any(finding.severity in (ERROR, WARNING) for finding in found.findings) else OK


def facts(found: Diagnosis) -> dict[str, Any]:
    """Everything that `show` prints, for JSON."""
    return {
        "file": str(found.path),
        "format": found.format,
        "verdict": found.verdict,
        "exit_code": exit_code(found),
        "counts": {severity: found.count(severity) for severity in COLORS},
        "findings": [_finding(finding) for finding in found.findings],
        "robot": found.summary,
        "corrected": None if found.corrected is None else {
            "file": str(found.written) if found.written else None,
            "verdict": found.verdict_after,
            "fixed": [_finding(finding) for finding in found.fixed],
            "remains": [_finding(finding) for finding in found.remains],
        },
    }  # fmt: skip


def _finding(finding: Finding) -> dict[str, Any]:
    file, _, line = finding.where.rpartition(":")
    place = {"file": file, "line": int(line)} if line.isdigit() else {"file": finding.where, "line": None}
    words = {"severity": finding.severity, "rule": finding.rule, "where": finding.where, **place}
    return {**words, "what": finding.what, "advice": finding.advice, "fixable": finding.fixable, "fix": finding.fix}


def show(found: Diagnosis, console: Console) -> None:
    """Print the verdict, the findings with their remedies, the robot, and commands to type next."""
    say = partial(console.print, highlight=False, soft_wrap=True)
    count = f"; {_counts(found.findings)}" if found.findings else ""
    say(Text.assemble((found.path.name, "bold"), f" ({found.format}): ", (found.verdict, VERDICTS[found.verdict]), count))
    after = found.verdict_after
    if after is None:
        _list(found.findings, console, found.path)
    else:
        _list(found.fixed, console, found.path, done=True)
        written = found.written or corrected_path(found.path)
        count = f"; remaining: {_counts(found.remains)}" if found.remains else "; no findings remain"
        say(Text.assemble("\n", (written.name, "bold"), ": ", (after, VERDICTS[after]), count))
        _list(found.remains, console, written)
    if found.summary is not None:
        say(Text(f"\nIt is {'' if after is None else 'now '}{_robot(found.summary)}"))
    if lines := _next(found):
        say(Text("\n  " + "\n  ".join(lines), "bold"))


def _counts(findings: Sequence[Finding]) -> str:
    numbers = {severity: sum(finding.severity == severity for finding in findings) for severity in COLORS}
    return ", ".join(f"{n} {severity}{'s' * (n != 1)}" for severity, n in numbers.items() if n)


def _list(findings: Sequence[Finding], console: Console, path: Path, done: bool = False) -> None:
    """One row per finding: severity, place, what is wrong, and below it the remedy or what was done."""
    if not findings:
        return
    table = Table.grid(Column(no_wrap=True), Column(no_wrap=True), Column(overflow="fold", ratio=1), padding=(0, 2, 0, 0))
    for severity, color in COLORS.items():
        group = [finding for finding in findings if finding.severity == severity]
        for finding in group[: SHOWN[severity]]:
            place = finding.where.removeprefix(str(path)).lstrip(":")
            other = place.replace("\\", "/").rpartition("/")[2][-40:]  # the name of another file, with the line
            place = f"line {place}" if place.isdigit() else "" if place == finding.where == str(path) else other
            text = Text(finding.what).append("\nDone:" if done else f"\n{finding.advice}", "green" if done else "dim")
            if done or finding.fixable:
                text.append(f" --fix {finding.fix}.", "green")
            table.add_row(Text(severity, color), Text(place), text)
        if len(group) > SHOWN[severity]:
            table.add_row(Text(severity, color), "", Text(f"and {len(group) - SHOWN[severity]} more: --json lists all"))
    console.print()
    console.print(table, highlight=False)


def _robot(robot: dict[str, Any]) -> str:
    x, y, z = robot["extent"]
    freedom, links = robot["degrees_of_freedom"], robot["links"]
    text = f"{quoted(robot['name'])}: {links} link{'s' * (links != 1)}, "
    text += f"{freedom} degree{'s' * (freedom != 1)} of freedom, {robot['mass']:.4g} kg, "
    text += f"{x:.3g} x {y:.3g} x {z:.3g} m with all joints at zero"
    return text + (", meshes not counted." if robot["meshes"] else ".")


def _next(found: Diagnosis) -> list[str]:
    """Commands to type next."""
    target = corrected_path(found.path)
    if found.corrected is not None:
        return [shell_command("view", found.written or target)] if found.verdict_after in (LOADS, WARNINGS) else []
    fixable = sum(finding.fixable for finding in found.findings)
    lines = [shell_command("view", found.path)] if found.verdict in (LOADS, WARNINGS) else []
    if fixable and found.format in ("URDF", "xacro"):
        lines.insert(0, f"{shell_command('doctor', found.path)} --fix   # fixes {fixable} of these, in {target.name}")
    return lines
