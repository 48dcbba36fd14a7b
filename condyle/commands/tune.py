"""`condyle tune`: search for parameters of an experiment that make its score small."""

from __future__ import annotations

from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Column, Table

from condyle.atomic_write import write_bytes
from condyle.commands import completion, options
from condyle.commands.app import command
from condyle.commands.hints import shell_command
from condyle.commands.lab import ExperimentFile, Settings, about, require_free, require_suffix, settings
from condyle.commands.terminal import print_json, progress, terminal
from condyle.errors import CondyleError


@command(
    "condyle tune lab.toml --parameters controller.kp --parameters controller.kd",
    "condyle tune lab.toml --parameters controller.kp[*] --method gradient --page tune.html",
)
def tune(
    file: ExperimentFile,
    parameters: Annotated[
        list[str],
        options.control_option(
            "--parameters",
            "-p",
            metavar="KEY",
            help="A parameter of the loop, such as controller.kp; KEY[*]: one for each joint; KEY=LOW:HIGH: a range; may repeat.",
        ),
    ],
    method: Annotated[
        str,
        options.control_option(
            help="How to search: grid, optuna, gradient.", autocompletion=completion.one_of("grid", "optuna", "gradient")
        ),
    ] = "optuna",
    trials: Annotated[int, options.control_option(min=1, max=1_000_000, help="How many runs to make.")] = 30,
    seconds: Annotated[
        float | None, options.control_option(min=1e-6, help="Length of a run, s, by default the file's duration.")
    ] = None,
    warm_up: Annotated[
        float | None, options.control_option(min=0.0, help="Time before it that does not count, s, by default the file's.")
    ] = None,
    seed: Annotated[int, options.control_option(min=0, max=2**32 - 1, help="Seed of the search.")] = 0,
    set_: Settings = None,
    out: Annotated[Path | None, options.out_option(help="The experiment with the values that were found, .toml.")] = None,
    page: Annotated[Path | None, options.output_option("--page", help="Also write a page with before and after, .html.")] = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Search for parameters that make the score of a run small.

    The score is 3 IAE + 0.2 mean|v| + final error + 0.7 overshoot + 40 max(0, overshoot - 0.1). Values are searched from 1/5 to 5
    times those of the file. The same command gives the same result.
    """
    from condyle.apps.lab.experiment import Experiment
    from condyle.apps.lab.toml_text import toml_text
    from condyle.apps.lab.tune import tune as search

    for path, suffix in ((out, ".toml"), (page, ".html")):
        if path is not None:
            require_suffix(path, suffix)
            require_free(path, force)
    experiment = Experiment.read(file)
    with about(file), progress(terminal(stderr=True)) as say:
        if set_:
            experiment = experiment.with_values(settings(set_))
        seconds = experiment.duration if seconds is None else seconds
        warm_up = experiment.warm_up if warm_up is None else warm_up
        say("compiling", 0, 1)
        found = search(experiment, parameters, method=method, trials=trials, seconds=seconds, warm_up=warm_up, seed=seed, say=say)
    if not np.isfinite(found.score):
        raise CondyleError("no run of the search reached its end: look at the experiment with `condyle lab run`")
    facts = {"method": method, "trials": len(found.trials), "before": found.start, "after": found.score, "values": found.values}
    if as_json:
        print_json(facts)
    else:
        show(facts, terminal())
    if out is not None:
        write_bytes(out, toml_text(found.tuned.data()).encode())
        if not as_json:
            typer.echo(f"{out} is the tuned experiment. Next: {shell_command('lab', 'run', out, '-o', 'tuned.cdl')}")
    if page is not None:
        write_bytes(page, report(found, seconds, warm_up).encode())
        typer.echo(f"{page} has the plots", err=True)


def show(facts: dict[str, Any], console: Console) -> None:
    """Print the scores and the values that were found."""
    scores = f"score {facts['before']:.4g} before, {facts['after']:.4g} after"
    title = f"{facts['method']}, {facts['trials']} runs with that of the file: {scores}"
    console.print(title, highlight=False)
    table = Table("parameter", Column("value", justify="right", overflow="fold"))
    for path, value in facts["values"].items():
        table.add_row(path, ", ".join(f"{x:.5g}" for x in value) if isinstance(value, list) else f"{value:.5g}")
    console.print(table)


def report(found: Any, seconds: float, warm_up: float) -> str:
    """The page of a search: the score after each trial, and the run before and after."""
    from condyle.apps.lab.compare import compare, compare_page
    from condyle.apps.lab.run import run_experiment
    from condyle.apps.lab.tune import values_text
    from condyle.workbench.view.plots import Chart, chart_html

    evaluated = replace(found.experiment, duration=seconds, warm_up=warm_up)
    runs = {
        "before": run_experiment(evaluated).run,
        "after": run_experiment(evaluated, values=found.values).run,
    }
    page = compare_page(compare(runs), f"{found.experiment.title or found.experiment.arm.name}, tuned by {found.method}")
    number = np.arange(len(found.trials), dtype=float)
    scores = np.array([trial.score if np.isfinite(trial.score) else np.nan for trial in found.trials])
    lines = {"each trial": scores, "the best so far": found.history()}
    chart = chart_html(Chart("score", number, lines, label="trial")) if len(number) > 1 else ""
    section = f'<section><h2>Search</h2><p>{escape(values_text(found.values))}</p><div class="charts">{chart}</div></section>'
    return page.replace("<main>\n", f"<main>\n{section}\n", 1)
