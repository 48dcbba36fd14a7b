"""`condyle lab`: experiments as files, run, compared and swept."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Column, Table

from condyle.atomic_write import write_bytes
from condyle.commands import completion, options
from condyle.commands.app import INTERRUPTED, command, group
from condyle.commands.hints import shell_command
from condyle.commands.terminal import interrupts, print_json, progress, terminal
from condyle.errors import CondyleError, ControlError
from condyle.robot.names import quoted
from condyle.workbench.runs.run import Run, read_run

RUN, TABLE, PAGE = ".cdl", ".cds", ".html"

lab_group = group(
    "lab",
    "Experiments with arms as files: run, compare and sweep.",
    "condyle lab init lab.toml",
    "condyle lab run lab.toml -o run.cdl",
    "condyle lab compare a.cdl b.cdl",
    "condyle lab sweep lab.toml --grid controller.kp=100:400:7",
)


def experiment_files(incomplete: str) -> completion.Completions:
    """Files that may be experiments."""
    return completion.files(incomplete, (".toml",))


ExperimentFile = Annotated[
    Path,
    typer.Argument(metavar="EXPERIMENT", help="A file as `condyle lab init` writes it.", autocompletion=experiment_files),
]
Settings = Annotated[
    list[str] | None,
    options.control_option(
        "--set", metavar="KEY=VALUE", help="Another value of a key of the file, such as controller.kp=300; may repeat."
    ),
]
Seed = Annotated[int | None, options.control_option(min=0, max=2**32 - 1, help="Another seed of all random numbers.")]
Page = Annotated[Path | None, options.output_option("--page", help="Also write a page with plots, .html.")]


@command("condyle lab init lab.toml", of=lab_group)
def init(
    file: Annotated[Path, typer.Argument(metavar="EXPERIMENT", help="The file to write, .toml.")] = Path("lab.toml"),
    force: options.Force = False,
) -> None:
    """Write an experiment to begin with, every key explained."""
    from condyle.apps.lab.toml_text import STARTING_FILE

    if file.suffix.lower() != ".toml":
        raise CondyleError(f"an experiment is a .toml file, and {file.name} is none: try {file.with_suffix('.toml').name}")
    require_free(file, force)
    title = re.sub(r"[^A-Za-z0-9 ]+", " ", file.stem).strip() or "experiment"
    write_bytes(file, STARTING_FILE.format(name=file.name, title=title).encode())
    typer.echo(f"{file} is written. Next: {shell_command('lab', 'run', file, '-o', 'run.cdl')}")


@command("condyle lab run lab.toml", "condyle lab run lab.toml -o run.cdl --set controller.kp=300", of=lab_group)
def run(
    file: ExperimentFile,
    out: Annotated[Path | None, options.out_option(help="Record the run in this file, .cdl.")] = None,
    set_: Settings = None,
    seed: Seed = None,
    page: Page = None,
    view: Annotated[bool, options.output_option("--view", help="Show the run in the browser when it is done.")] = False,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Run an experiment, record it, and print its metrics.

    Values of --set that are parameters of the loop need no compilation. Ctrl-C ends the run early and keeps what was recorded.
    """
    from condyle.apps.lab.compare import compare, compare_page
    from condyle.apps.lab.experiment import Experiment
    from condyle.apps.lab.run import run_experiment

    for path, suffix in ((out, RUN), (page, PAGE)):
        if path is not None:
            require_suffix(path, suffix)
            require_free(path, force)
    if view and out is None:
        raise CondyleError("--view shows the file of the run: add -o run.cdl")
    values = settings(set_)
    if seed is not None:
        values["seed"] = seed
    experiment = Experiment.read(file)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
    begin = perf_counter()
    with about(file), progress(terminal(stderr=True)) as say, interrupts() as interrupted:
        done = run_experiment(experiment, out, values=values, overwrite=force, say=say, stop=interrupted)
        stopped = interrupted()
    wall = perf_counter() - begin
    found: dict[str, Any] = {"file": None if out is None else str(out), "seconds": done.run.seconds, "steps": done.run.steps}
    found |= {"metrics": done.metrics, "sha256": done.run.hash}
    if as_json:
        print_json(found)
    else:
        compared = compare({done.run.title: done.run})
        show_comparison(compared, terminal())
        speed = done.run.seconds / wall
        typer.echo(f"{done.run.steps:,} steps of {done.run.dt * 1e3:g} ms, {speed:.0f} times real time with compilation and file")
        if out is not None:
            next_ = [shell_command("replay", out, "--check"), shell_command("view", out), shell_command("lab", "compare", out)]
            typer.echo(f"{out} contains the run. Next: {', '.join(next_)}")
    if page is not None:
        write_bytes(page, compare_page(compare({done.run.title: done.run})).encode())
    if stopped:
        typer.echo(f"condyle: interrupted after {done.run.steps:,} steps", err=True)
        raise typer.Exit(INTERRUPTED)
    if view:
        from condyle.commands.view import view as show_run

        show_run([str(out)])


@command("condyle lab compare a.cdl b.cdl", "condyle lab compare a.cdl b.cdl --page compare.html", of=lab_group)
def compare(
    runs: Annotated[
        list[str],
        typer.Argument(metavar="RUN...", help="Runs, as `condyle lab run -o` writes them.", autocompletion=completion.runs),
    ],
    page: Page = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Compare the metrics of runs: errors, overshoot, effort, smoothness.

    The page has their responses, errors and torques over time, and needs no network.
    """
    from condyle.apps.lab.compare import compare as compared_runs
    from condyle.apps.lab.compare import compare_page, named_runs

    if page is not None:
        require_suffix(page, PAGE)
        require_free(page, force)
    read: list[Run] = [read_run(path) for path in runs]
    found = compared_runs(named_runs(read))
    if as_json:
        print_json({"unit": found.unit, "runs": found.metrics})
    else:
        show_comparison(found, terminal())
        for name, each in found.runs.items():
            if each.lost is not None:
                typer.echo(f"note: {name}: {each.lost}", err=True)
    if page is not None:
        write_bytes(page, compare_page(found).encode())
        typer.echo(f"{page} has the plots", err=True)


def show_comparison(found: Any, console: Console) -> None:
    """Print the metrics as a table; the smallest value of a row is bold where there are several."""
    from condyle.apps.lab.compare import rows, shown

    table = Table("metric", "unit", *[Column(name, justify="right", overflow="fold") for name in found.runs])
    for name, unit, _, values in rows(found):
        best = np.nanmin(values) if len(values) > 1 else None
        cells = [f"[bold]{shown(x)}[/]" if x == best else shown(x) for x in values]
        table.add_row(name.replace("_", " "), unit, *cells)
    console.print(table)


@command(
    "condyle lab sweep lab.toml --grid controller.kp=100:400:7 -o kp.cds",
    "condyle lab sweep lab.toml --random plant.wrist_3.mass=uniform:0.3:0.6 --samples 1000",
    "condyle lab sweep sweep.toml --engine ray --page sweep.html",
    of=lab_group,
)
def sweep(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="An experiment, or a sweep: a file with [grid] and [random].", autocompletion=experiment_files
        ),
    ],
    grid: Annotated[
        list[str] | None,
        options.control_option(
            metavar="KEY=VALUES", help="Values of a key: low:high:count, log:low:high:count or a list 1,2,4; may repeat."
        ),
    ] = None,
    random: Annotated[
        list[str] | None,
        options.control_option(
            metavar="KEY=DRAW", help="Random values: uniform:LOW:HIGH, log_uniform:LOW:HIGH or normal:MEAN:DEVIATION; may repeat."
        ),
    ] = None,
    samples: Annotated[int | None, options.control_option(min=1, help="Random draws at every point of the grid.")] = None,
    draw_seed: Annotated[int | None, options.control_option(min=0, help="Seed of the random draws.")] = None,
    set_: Settings = None,
    out: Annotated[
        Path, options.out_option(help="The table, .cds; an interrupted sweep goes on from it. A .csv is written beside it.")
    ] = Path("sweep.cds"),
    metric: Annotated[str, options.output_option(help="What is plotted, and sorts the best runs.")] = "score",
    page: Page = None,
    engine: Annotated[
        str,
        options.world_option(
            help="Where runs are computed: local, ray, dask.", autocompletion=completion.one_of("local", "ray", "dask")
        ),
    ] = "local",
    workers: Annotated[int | None, options.world_option(min=1, help="Processes; by default one for each core.")] = None,
    batch: Annotated[int | None, options.world_option(min=1, help="Runs in one kernel call.")] = None,
    address: Annotated[str | None, options.world_option(help="Address of a Ray cluster or a Dask scheduler.")] = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Run an experiment with many values of its parameters.

    Rows are kept as they are computed: the same command after a kill goes on, and the final table is the same, whatever the
    engine, the number of workers and the batch. A run that diverges has ok = 0.
    """
    from condyle.apps.lab.experiment import Experiment
    from condyle.apps.lab.experiment_data import toml_data
    from condyle.apps.lab.sweep import SweepSpec, draw_of, grid_values, read_sweep, run_sweep
    from condyle.apps.lab.sweep_page import sweep_page

    require_suffix(out, TABLE)
    if page is not None:
        require_suffix(page, PAGE)
        require_free(page, force)
    if "experiment" in toml_data(file):
        if grid or random or samples is not None or draw_seed is not None:
            raise CondyleError(f"{file} says what is swept: leave --grid, --random, --samples and --draw-seed out")
        experiment, spec = read_sweep(file)
    else:
        experiment = Experiment.read(file)
        points = {path: grid_values(text) for path, text in pairs(grid, "--grid", "controller.kp=100:400:7")}
        draws = {path: draw_of(text) for path, text in pairs(random, "--random", "plant.wrist_3.mass=uniform:0.3:0.6")}
        spec = SweepSpec(points, draws, 1 if samples is None else samples, 0 if draw_seed is None else draw_seed)
    _metric(metric)
    with about(file), progress(terminal(stderr=True)) as say:
        if set_:
            experiment = experiment.with_values(settings(set_))
        found = run_sweep(
            experiment, spec, out, engine=engine, workers=workers, batch=batch, address=address, overwrite=force, say=say
        )
    if found.lost is not None:
        typer.echo(f"note: {out}: {found.lost}", err=True)
    best = found.best(metric)
    facts = {
        "file": str(out),
        "runs": len(found.ids),
        "computed": found.computed,
        "failed": int(len(found.ids) - found.ok.sum()),
        "sha256": found.hash,
        "best": {
            "id": found.ids[best],
            **{p: float(v[best]) for p, v in found.values.items()},
            metric: float(found[metric][best]),
        },
    }
    if as_json:
        print_json(facts)
    else:
        show_sweep(found, metric, terminal())
        kept = len(found.ids) - found.computed
        before = f", {kept:,} were in the file" if kept else ""
        typer.echo(f"{found.computed:,} runs in {found.seconds:.1f} s{before}; {facts['failed']:,} did not reach their end")
        typer.echo(f"{out.with_suffix('.csv')} has the table, sha256 {found.hash[:16]}")
    if page is not None:
        write_bytes(page, sweep_page(found, metric).encode())
        typer.echo(f"{page} has the plots", err=True)


def show_sweep(found: Any, metric: str, console: Console, most: int = 10) -> None:
    """Print the best runs of a sweep."""
    from condyle.apps.lab.compare import shown

    columns = list(dict.fromkeys([metric, "rms_error", "overshoot", "effort"]))
    heads = ["id", *found.values, *[name.replace("_", " ") for name in columns]]
    table = Table(*[Column(head, justify="right") for head in heads], title=f"the best by {metric}", title_justify="left")
    column = np.where(found.ok & np.isfinite(found[metric]), found[metric], np.inf)
    for k in np.argsort(column, kind="stable")[:most]:
        cells = [
            found.ids[k],
            *(f"{v[k]:.5g}" for v in found.values.values()),
            *(shown(float(found[name][k])) for name in columns),
        ]
        table.add_row(*cells)
    console.print(table)


# ---- what is typed


@contextmanager
def about(file: Path) -> Iterator[None]:
    """Errors about a table of an experiment name the file, too."""
    try:
        yield
    except ControlError as error:
        if str(error).startswith("["):
            raise ControlError(f"{file}: {error}") from error
        raise


def pairs(texts: list[str] | None, option: str, example: str) -> list[tuple[str, str]]:
    """(key, value) of each KEY=VALUE."""
    found = []
    for text in texts or []:
        key, equals, value = text.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise CondyleError(f"{option} is written KEY=VALUE, like {option} {example}; got {quoted(text)}")
        found.append((key.strip(), value.strip()))
    return found


def settings(texts: list[str] | None) -> dict[str, Any]:
    """{key: value} of each KEY=VALUE of --set; values are written as in TOML, and words need no quotes."""
    found: dict[str, Any] = {}
    for key, text in pairs(texts, "--set", "controller.kp=300"):
        try:
            found[key] = tomllib.loads(f"x = {text}")["x"]
        except tomllib.TOMLDecodeError:
            if not re.fullmatch(r"[A-Za-z_./][\w./ -]*", text):
                raise CondyleError(
                    f"--set {key}: write a number, a text, true, false or a list like [1, 2]; got {quoted(text)}"
                ) from None
            found[key] = text
    return found


def _metric(name: str) -> None:
    from condyle.apps.lab.metrics import NAMES
    from condyle.robot.names import nearest

    if name not in NAMES:
        raise CondyleError(f"--metric {quoted(name)} is not known{nearest(name, NAMES)}")


def require_suffix(path: Path, suffix: str) -> None:
    """Raise if the name of a file does not end so."""
    if path.suffix.lower() != suffix:
        raise CondyleError(f"{path.name} does not end in {suffix}: try {path.with_suffix(suffix).name}")


def require_free(path: Path, force: bool) -> None:
    """Raise if a file exists and may not be overwritten."""
    if os.path.exists(path) and not force:
        raise CondyleError(f"{path} exists already: --force overwrites it, or choose another name")
