"""`condyle identify`: parameters of an arm from logs of its motion, and the motion to record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from condyle.commands import options
from condyle.commands.app import command
from condyle.commands.scene import Origin
from condyle.commands.terminal import report
from condyle.errors import CondyleError
from condyle.methods.identify.regressor import DEFAULT_TERMS, TERMS


@command(
    "condyle identify ur3 log.csv -o identified.json --report page.html",
    "condyle identify ur3 one.cdl two.cdl --validate three.cdl --term inertia --term friction",
    "condyle identify ur3 --excite -o excite.csv",
)
def identify(
    source: options.Source,
    logs: Annotated[
        list[Path] | None, typer.Argument(metavar="[LOG...]", help="Runs (.cdl), tables (.csv) or bags (.mcap); may repeat.")
    ] = None,
    excite: Annotated[bool, typer.Option("--excite", help="Write a motion that shows every parameter, as a table.")] = False,
    validate: Annotated[Path | None, typer.Option(help="A log to measure the prediction of joint forces on.")] = None,
    term: Annotated[
        list[str] | None,
        typer.Option(help=f"What to identify: {', '.join(TERMS)}; may repeat; by default {', '.join(DEFAULT_TERMS)}."),
    ] = None,
    cutoff: Annotated[
        float | None, typer.Option(help="Cut-off of the filters, Hz; by default from the spectrum of the log.")
    ] = None,
    average: Annotated[float | None, typer.Option(help="Average the logs over periods of so many seconds.")] = None,
    lead: Annotated[
        float | None, typer.Option(help="How long after its row a logged force acts, s; a held one: half a sample.")
    ] = None,
    resample: Annotated[bool, typer.Option("--resample", help="Interpolate logs whose times are not uniform.")] = False,
    total_mass: Annotated[float | None, typer.Option(help="Mass of all moving links, kg, if it is known.")] = None,
    confidence: Annotated[float, typer.Option(min=0.01, max=0.9999, help="Of the intervals.")] = 0.95,
    period: Annotated[float, typer.Option(min=0.1, help="With --excite: period of the motion, s.")] = 10.0,
    periods: Annotated[int, typer.Option(min=1, max=1000, help="With --excite: how many periods.")] = 2,
    harmonics: Annotated[int, typer.Option(min=2, max=50, help="With --excite: harmonics of each joint.")] = 5,
    reach: Annotated[float | None, typer.Option(help="With --excite: how far a joint moves from the middle, rad or m.")] = None,
    acceleration: Annotated[float | None, typer.Option(help="With --excite: limit, rad/s^2 or m/s^2.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="With --excite: seed of the search.")] = 0,
    out: Annotated[Path | None, options.out_option(help="identified.json; with --excite, the table of the motion.")] = None,
    page: Annotated[Path | None, options.output_option("--report", help="A page with tables and charts, .html.")] = None,
    force: options.Force = False,
    base: options.Base = None,
    package_dir: options.PackageDirs = None,
    arg: options.Arguments = None,
    lock: options.Lock = None,
    as_json: options.Json = False,
) -> None:
    """Masses, inertias and friction of an arm from logs.

    Least squares on the regressor, with confidence intervals; links stay physically possible. --excite writes the motion to
    record. Tables have the columns t, q.JOINT and u.JOINT, in SI units.
    """
    for path in filter(None, (out, page)):
        if path.exists() and not force:
            raise CondyleError(f"{path} exists: give another name, or --force to overwrite it.")
    robot = Origin(source, base, package_dir, arg, lock).load()
    terms = tuple(term or DEFAULT_TERMS)
    if excite:
        if logs or page is not None or validate is not None:
            raise CondyleError("--excite writes a motion and reads no log: leave the logs, --validate and --report out")
        given = {"period": period, "periods": periods, "harmonics": harmonics, "reach": reach, "acceleration": acceleration}
        report(_excite(robot, terms, given, seed, out), as_json, _show_motion, dict)
        return
    if not logs:
        raise CondyleError("give at least one log, a .cdl, .csv or .mcap file; or --excite to write a motion to record")
    reading = {"lead": lead, "resample": resample}
    report(
        _identified(robot, terms, logs, validate, average, reading, cutoff, total_mass, confidence, out, page),
        as_json,
        _show,
        _facts,
    )


def _excite(robot: Any, terms: Any, given: dict[str, Any], seed: int, out: Path | None) -> dict[str, Any]:
    from condyle.methods.identify.excitation import excitation

    motion = excitation(robot, terms=terms, seed=seed, **given)
    if out is not None:
        motion.save(out)
    return {
        "robot": robot.name,
        "period": motion.period,
        "periods": motion.periods,
        "start": motion.start.tolist(),
        "condition": motion.condition,
        "file": None if out is None else str(out),
    }


def _identified(
    robot: Any, terms: Any, logs: list[Path], validate: Path | None, average: float | None, reading: Any, *rest: Any
) -> Any:
    from condyle.methods.identify.fit import identify as fit
    from condyle.methods.identify.report import write_report
    from condyle.workbench.runs.logs import read_log

    cutoff, total_mass, confidence, out, page = rest
    read = [read_log(robot, path, **reading) for path in logs]
    read = [log.averaged(average) for log in read] if average is not None else read
    other = None if validate is None else read_log(robot, validate, **reading)
    found = fit(robot, read, terms=terms, cutoff=cutoff, total_mass=total_mass, confidence=confidence, validation=other)
    if out is not None:
        found.save(out)
    if page is not None:
        write_report(found, page)
    return found


def _facts(found: Any) -> dict[str, Any]:
    data: dict[str, Any] = found.as_dict()
    return data


def _show(found: Any, console: Console) -> None:
    """Print the base parameters with their intervals, and how well forces are predicted."""
    table = Table("parameter", "value", f"+- {found.confidence:.0%}", "nominal", "unit", box=None)
    for k, row in enumerate(found.table()):
        half = found.quantile * found.standard_errors[k]
        cells = (row["name"], f"{row['value']:.5g}", f"{half:.2g}", f"{row['nominal']:.5g}", row["unit"])
        table.add_row(*cells, style=None if row["determined"] else "dim")
    console.print(table)
    if found.weak:
        console.print(f"weakly determined: {', '.join(found.weak)}", highlight=False)
    p = found.prediction
    on = "the validation log" if found.validated else "the log of the fit"
    console.print(f"joint forces of {on}: error {p.total:.2%} of their size, {p.total_nominal:.1%} before", highlight=False)
    each = ", ".join(f"{joint} {error:.2%}" for joint, error in zip(p.joints, p.relative, strict=True))
    console.print(f"of each joint: {each}", highlight=False)


def _show_motion(found: dict[str, Any], console: Console) -> None:
    """Print the motion in words."""
    to = f", written to {found['file']}" if found["file"] else "; -o writes it to a table"
    console.print(
        f"{found['periods']} periods of {found['period']:g} s, condition number {found['condition']:.1f}{to}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"begin at rest at q = {', '.join(f'{q:.4f}' for q in found['start'])}", highlight=False, soft_wrap=True)
