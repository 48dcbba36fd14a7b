"""`condyle train`: learn a task, with its progress, checkpoints and a report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column, Table

from condyle.commands import completion, options
from condyle.commands.app import INTERRUPTED, command
from condyle.commands.hints import shell_command
from condyle.commands.terminal import interrupts, progress, report, terminal
from condyle.errors import CondyleError, FileError
from condyle.methods.learn.checkpoint import SUFFIX as CHECKPOINT
from condyle.methods.learn.env_arrays import checked_device
from condyle.methods.learn.policy_file import PolicyFile
from condyle.methods.learn.task import load_task, task_names
from condyle.methods.learn.training import TERM, Iteration, Training

SUFFIX = ".cdp"
# columns of the progress, with the text of a number
SHOWN = {"reward": "{:.3f}", "return": "{:.1f}", "speed": "{:.3f}", "falls": "{:.2f}", "std": "{:.2f}", "kl": "{:.4f}"}
UNSHOWN = ("samples", "simulating", "updating", "surrogate", "gradient_norm", "largest_gradient", "value_loss", "clipped")


def complete_tasks(incomplete: str) -> list[str]:
    """The tasks, for the shell."""
    return sorted({name for _, name in task_names() if name.startswith(incomplete)})


@command(
    "condyle train pidog --task walk -o walk.cdp",
    "condyle train cartpole --task balance -o balance.cdp --seconds 20",
    "condyle train pidog --task walk -o walk.cdp --resume --iterations 800",
    "condyle train cartpole --task swing-up -o swing.cdp --algorithm shac",
    "condyle train pidog --task walk -o walk.cdp --device cuda",
)
def train(
    robot: Annotated[str, typer.Argument(metavar="ROBOT", help="A robot that has tasks: pidog, cartpole, ...")],
    task: Annotated[
        str, typer.Option(help="What to learn; an unknown name lists those of the robot.", autocompletion=complete_tasks)
    ],
    out: Annotated[Path, options.out_option(help="The file of the policy, .cdp; report and checkpoint are beside it.")],
    iterations: Annotated[int | None, typer.Option(min=1, help="Iterations in all; by default those of the task.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Stop after this time of training, s.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers: the same seed gives the same weights.")] = 0,
    envs: Annotated[
        int | None, typer.Option(min=1, help="Robots that are simulated at once; by default those of the task.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint beside the policy, with its seed.")] = False,
    init: Annotated[Path | None, typer.Option(help="Begin with the weights of this policy, .cdp.")] = None,
    algorithm: Annotated[
        str | None, typer.Option(help="ppo (default), or shac, which uses gradients through the simulation.")
    ] = None,
    device: Annotated[
        str,
        typer.Option(
            help="Where to compute: cpu, or cuda (cuda:1, ...), an NVIDIA GPU with 16 times the robots by default.",
            autocompletion=completion.one_of("cpu", "cuda"),
        ),
    ] = "cpu",
    numbers: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A hyperparameter, such as minibatches=8; may repeat."),
    ] = None,
    library: Annotated[str | None, typer.Option(hidden=True)] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of the update; they do not change the weights.")] = None,
    every: Annotated[float, options.output_option("--checkpoint", help="Time between two checkpoints, s.")] = 10.0,
    page: Annotated[
        bool, options.output_option("--report/--no-report", help="Judge the policy shortly, and write the report, an HTML page.")
    ] = True,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Learn a task by PPO or SHAC, with checkpoints and a report.

    Ctrl-C stops after the iteration and keeps everything. Checkpoints are written on the way: a training that was killed
    goes on with --resume, to the same weights.
    """
    _check(out, seconds, library)
    place = _device(device, algorithm)
    given = hyperparameters(numbers or [])
    chosen = load_task(robot, task)
    checkpoint = Path(f"{out}{CHECKPOINT}")
    if resume and (init is not None or given):
        raise CondyleError("--resume goes on with a training as it was: leave --init and --set out")
    if not resume and out.exists() and not force:
        raise FileError(f"{out} exists: give another name, --resume to go on with its training, or --force to overwrite it.")
    begin = None if init is None else PolicyFile.load(init)
    console = terminal(stderr=True)
    with progress(console) as say:
        say(f"compiling {robot} {task}", 0, 1)
        if resume:
            training = Training.resume(checkpoint, chosen, threads=threads, device=place)
            if algorithm not in (None, training.algorithm):
                raise CondyleError(f"{checkpoint} is of a training by {training.algorithm}: leave --algorithm {algorithm} out")
        else:
            settings: dict[str, Any] = {"hyperparameters": given, "algorithm": algorithm or "ppo", "device": place}
            training = Training(chosen, seed=seed, envs=envs, init=begin, threads=threads, **settings)
    last = training.iterations if iterations is None else iterations
    interrupted = learn(training, last, seconds, console, out, checkpoint, every)
    file, curves = training.policy_file(), {name: training.curve(name) for name in training.names}
    path = None
    if page:
        from condyle.methods.learn.judge_task import score_steps, short_score
        from condyle.workbench.view.training_report import training_report

        with progress(console) as say:
            if not interrupted:
                say(f"compiling {robot} {task}", 0, 1)
                total = score_steps(chosen, file.rate)
                file = replace(file, score=short_score(chosen, file, lambda done: say("judging", done, total), place))
                file.save(out)
            say("writing the report", 0, 1)
            path = training_report(out.with_suffix(".html"), chosen, file, curves, place)
    report(facts(out, file, curves, path), as_json, show)
    if interrupted:
        typer.echo(f"condyle: interrupted after {file.training['iterations']:,} iterations, which are kept", err=True)
        raise typer.Exit(INTERRUPTED)


def learn(
    training: Training,
    last: int,
    seconds: float | None,
    console: Console,
    out: Path,
    checkpoint: Path,
    every: float,
) -> bool:
    """Whether Ctrl-C stopped the training; policy and checkpoint are written after `every` seconds and at the end."""
    saved = perf_counter()

    def save() -> None:
        training.save(checkpoint)
        training.policy_file().save(out)

    with interrupts() as interrupted, _table(training, last, seconds, console) as show_iteration:
        for done in training.run(last, seconds):
            show_iteration(done)
            if interrupted():
                break
            if perf_counter() - saved >= every:
                save()
                saved = perf_counter()
        save()
        return interrupted()


@contextmanager
def _table(training: Training, last: int, seconds: float | None, console: Console) -> Iterator[Any]:
    """A function that shows an iteration in a live table; nothing where there is no terminal."""
    if not console.is_terminal:
        yield lambda done: None
        return
    title = f"{training.task.robot} {training.task.name}, {training.env.num_envs:,} robots"
    bar = Progress(TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[rest]}"), console=console)
    bar_task = bar.add_task(title, total=1.0, rest="")
    with Live(console=console, auto_refresh=False, transient=True) as live:

        def show_iteration(done: Iteration) -> None:
            part = done.number / last
            if seconds is not None:
                part = max(part, done.seconds / seconds)
            rest = done.seconds * (1.0 / max(part, 1e-9) - 1.0)
            bar.update(bar_task, completed=min(part, 1.0), rest=f"{duration(done.seconds)}, {duration(rest)} left")
            grid = Table.grid()
            grid.add_row(numbers_table(done))
            grid.add_row(bar)
            live.update(grid, refresh=True)

        yield show_iteration


def numbers_table(done: Iteration) -> Table:
    """The numbers of an iteration in one row."""
    n = done.numbers
    simulating, updating = n["simulating"], n["updating"]
    texts = {"iteration": f"{done.number:,}"}
    texts |= {name: text.format(n[name]) for name, text in SHOWN.items() if isfinite(n.get(name, float("nan")))}
    texts |= {"steps/s": f"{done.speed:,.0f}", "simulating": f"{100.0 * simulating / max(simulating + updating, 1e-9):.0f} %"}
    table = Table(*(Column(name, justify="right") for name in texts))
    table.add_row(*texts.values())
    return table


def duration(seconds: float) -> str:
    """A time in words: 45 s, 3 min 5 s, 2 h 10 min."""
    s = round(seconds)
    if s < 60:
        return f"{s} s"
    return f"{s // 60} min {s % 60} s" if s < 3600 else f"{s // 3600} h {s % 3600 // 60} min"


def facts(out: Path, file: PolicyFile, curves: dict[str, Any], page: Path | None) -> dict[str, Any]:
    """Everything that `show` prints, for JSON."""
    return {
        "file": str(out),
        "report": None if page is None else str(page),
        "robot": file.robot,
        "task": file.task,
        "training": dict(file.training),
        "hash": file.hash,
        "score": dict(file.score),
        "last": {name: float(values[-1]) for name, values in curves.items() if len(values)},
        "curves": {name: [float(value) for value in values] for name, values in curves.items()},
    }


def show(f: dict[str, Any], console: Console) -> None:
    """Print the result as a table, and commands to type next."""
    t, last = f["training"], f["last"]
    title = f"{f['robot']} {f['task']}: {t['iterations']:,} iterations, {t['steps']:,} steps, {duration(t['seconds'])}"
    table = Table(
        Column(min_width=max(len(title) - 23, 0)), Column(justify="right"), title=title, title_justify="left", show_header=False
    )
    for name, value in last.items():
        if name in UNSHOWN:
            continue
        label = f"reward: {name.removeprefix(TERM)}" if name.startswith(TERM) else name.replace("_", " ")
        table.add_row(label, f"{value:.4g}" if isfinite(value) else "-")
    simulating, updating = last.get("simulating", 0.0), last.get("updating", 0.0)
    if simulating + updating > 0.0:
        table.add_row("policy steps per second", f"{t['steps'] / max(t['seconds'], 1e-9):,.0f}")
        table.add_row("part of the time simulating", f"{100.0 * simulating / (simulating + updating):.0f} %")
    table.add_row("hash of the weights", f["hash"][:16])
    console.print(table)
    kept = f"{f['file']} contains the policy" + (f", {f['report']} the report." if f["report"] else ".")
    lines = [f"{kept} Next:", shell_command("judge", f["file"])]
    console.print("\n  ".join(lines), highlight=False, markup=False, soft_wrap=True)


def hyperparameters(given: list[str]) -> dict[str, Any]:
    """{name: value} of texts such as minibatches=8 or hidden=[128,128]."""
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        try:
            found[name.strip()] = json.loads(value)
        except ValueError:
            equals = ""
        if not equals:
            raise CondyleError(f"--set {text:.40}: write NAME=VALUE with a number, as in --set minibatches=8")
    return found


def _device(device: str, algorithm: str | None) -> str | None:
    """The device of tensors; None for NumPy on the processor; CondyleError for what cannot be."""
    if device == "cpu":
        return None
    if algorithm not in (None, "ppo"):
        what = f"--algorithm {algorithm}"
        raise CondyleError(f"{what} trains on the processor only: leave --device {device:.20} or {what} out")
    return checked_device(device)


def _check(out: Path, seconds: float | None, library: str | None) -> None:
    """CondyleError for options that cannot be."""
    if out.suffix != SUFFIX:
        raise CondyleError(f"a policy is written to a file that ends in {SUFFIX}, got {out.name}: try -o {out.stem}{SUFFIX}")
    if seconds is not None and not (isfinite(seconds) and seconds > 0.0):
        raise CondyleError(f"--seconds must be above zero, got {seconds:g}: leave it out, or try --seconds 60")
    if library is not None:
        raise CondyleError(
            "--library is an example now: examples/26_train_with_rsl_rl.py trains a task by rsl-rl to the same policy file"
        )
