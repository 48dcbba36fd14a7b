"""`condyle judge`: how well a policy does its task, in randomised episodes."""

from __future__ import annotations

from itertools import product
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from condyle.commands import completion, options
from condyle.commands.app import command
from condyle.commands.hints import shell_command
from condyle.commands.terminal import progress, report, terminal
from condyle.errors import CondyleError
from condyle.methods.learn.env_arrays import checked_device
from condyle.methods.learn.policy_file import PolicyFile

SPEED, SECONDS = 0.21, 20.0  # m/s, s


@command(
    "condyle judge walk.cdp",
    "condyle judge walk.cdp --episodes 100 --speed 0.1 --speed 0.2 -o walk.png",
    "condyle judge walk.cdp --engine mujoco --episodes 100",
)
def judge(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="A policy, as `condyle train` writes it.")],
    episodes: Annotated[int, typer.Option(min=1, max=100_000, help="Randomised episodes.")] = 1000,
    seconds: Annotated[
        float | None, typer.Option(help="Length of an episode, s; by default 20 for walking, else that of the task.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the episodes.")] = 0,
    speed: Annotated[list[float] | None, typer.Option(help="Commanded speed of PiDog, m/s; may repeat; by default 0.21.")] = None,
    turn: Annotated[list[float] | None, typer.Option(help="Commanded turn of PiDog, rad/s; may repeat; by default 0.")] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="Where PiDog walks: condyle, or mujoco, which needs the extra `mjcf`.",
            autocompletion=completion.one_of("condyle", "mujoco"),
        ),
    ] = "condyle",
    device: Annotated[
        str,
        typer.Option(
            help="Where to simulate: cpu, or cuda (cuda:1, ...), an NVIDIA GPU with PyTorch; the episodes are the same.",
            autocompletion=completion.one_of("cpu", "cuda"),
        ),
    ] = "cpu",
    out: Annotated[Path | None, options.out_option(help="A picture of the episodes: .png, .svg or .pdf.")] = None,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """How well a policy does its task, in randomised episodes.

    PiDog's walk is judged by its gait: foot lift, slip, heading, energy, smoothness, falls, and a score of all. Other
    tasks: returns, lengths, falls, and what the task measures.
    """
    from condyle.apps.pidog.judge import check_picture, save_picture

    if out is not None:
        check_picture(out)
        if out.exists() and not force:
            raise CondyleError(f"{out} exists: give another name, or --force to overwrite it.")
    place = None if device == "cpu" else checked_device(device)
    file = PolicyFile.load(policy)
    if (file.robot, file.task) == ("pidog", "walk"):
        every, found = _walking(file, episodes, SECONDS if seconds is None else seconds, seed, speed, turn, engine, place)
    else:
        every, found = _other(file, episodes, seconds, seed, {"--speed": speed, "--turn": turn}, engine, place)
    found = {"file": str(policy), "robot": file.robot, "task": file.task, "hash": file.hash, "seed": seed, **found}
    found["picture"] = None if out is None else str(out)
    if out is not None:
        save_picture(every, out, f"{policy.name}: {file.robot} {file.task}, {episodes:,} episodes, {found['engine']}")
    report(found, as_json, show)


def _walking(
    file: PolicyFile,
    count: int,
    seconds: float,
    seed: int,
    speed: list[float] | None,
    turn: list[float] | None,
    engine: str,
    device: str | None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(every episode, means) of PiDog's walk."""
    from condyle.apps.pidog.gait_episodes import Trial
    from condyle.apps.pidog.judge import measured, summary

    commands = tuple(product(speed or [SPEED], turn or [0.0]))
    trial, start = Trial(count, seconds, seed, commands), perf_counter()
    with progress(terminal(stderr=True)) as say:
        say(f"compiling {file.robot} {file.task}", 0, 1)
        every = measured(file, trial, engine, lambda done: say("walking", done, count), device)
    took = {"commands": [list(each) for each in commands], "episode_seconds": seconds, "took": perf_counter() - start}
    return every, {"engine": engine, **took, **summary(every)}


def _other(
    file: PolicyFile, count: int, seconds: float | None, seed: int, commands: dict[str, Any], engine: str, device: str | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(every episode, means) of another task."""
    from condyle.methods.learn.judge_task import judge_task
    from condyle.methods.learn.task import load_task

    task = load_task(file.robot, file.task)
    what = f"the task '{file.task}' of '{file.robot}'"
    for name, given in commands.items():
        if given:
            raise CondyleError(f"{name} is a command of PiDog's walk, and this is a policy of {what}: leave it out")
    if engine != "condyle":
        raise CondyleError(f"--engine {engine:.20}: only PiDog's walk has a twin, and this is a policy of {what}: leave it out")
    length, start = task.episode_seconds if seconds is None else seconds, perf_counter()
    with progress(terminal(stderr=True)) as say:
        say(f"compiling {file.robot} {file.task}", 0, 1)
        steps = round(length * file.rate)
        every, found = judge_task(task, file, count, seconds, seed, lambda done: say(file.task, done, steps), device)
    return every, {"engine": engine, "episode_seconds": length, "took": perf_counter() - start, **found}


def walking_rows(f: dict[str, Any]) -> list[tuple[str, str]]:
    """Labels and values of PiDog's walk."""

    def text(name: str, form: str = "{:.3f}", factor: float = 1.0) -> str:
        value = f[name]
        each = value if isinstance(value, list) else [value]
        return "  ".join(form.format(factor * v) if v is not None and isfinite(v) else "-" for v in each)

    parts = [f"{name.removeprefix('part_')} {f[name]:.2f}" for name in f if name.startswith("part_") and f[name] is not None]
    return [
        ("score, of 100", text("score", "{:.1f}")),
        ("score of the worst decile, at most", text("worst_decile", "{:.1f}")),
        ("falls", _falls(f)),
        ("speed, m/s", text("speed")),
        ("speed error, m/s", text("speed_error")),
        ("heading error after 10 s, degrees", text("heading_error", "{:.1f}")),
        ("lift of the feet LF RF LH RH, mm", text("lift", "{:.1f}", 1e3)),
        ("duty of the feet", text("duty", "{:.2f}")),
        ("slip, % of the distance", text("slip", "{:.1f}", 100.0)),
        ("cost of transport", text("cost_of_transport", "{:.2f}")),
        ("roll and pitch rates, rad/s", text("shake", "{:.2f}")),
        ("change of actions between steps", text("action_change")),
        ("parts of the score", ",\n".join(", ".join(parts[k : k + 3]) for k in range(0, len(parts), 3)) or "-"),
    ]


def other_rows(f: dict[str, Any]) -> list[tuple[str, str]]:
    """Labels and values of another task."""
    from condyle.methods.learn.judge_task import label

    rows = [("return", f"{f['return']:.4g}"), ("return of the worst decile, at most", f"{f['return_worst_decile']:.4g}")]
    rows += [("length of an episode, s", f"{f['seconds']:.2f}"), ("ended early", _falls(f))]
    if "success" in f:
        rows.append(("success", f"{100.0 * f['success']:.1f} %"))
    return rows + [(label(name), f"{value:.4g}") for name, value in f["measures"].items()]


def _falls(f: dict[str, Any]) -> str:
    return f"{round(f['falls'] * f['episodes']):,} of {f['episodes']:,}"


def show(f: dict[str, Any], console: Console) -> None:
    """Print the result as a table, and a command to type next."""
    walking = "score" in f
    title = (
        f"{f['robot']} {f['task']}: {f['episodes']:,} episodes of {f['episode_seconds']:g} s, {f['engine']}, {f['took']:.0f} s"
    )
    if walking:
        shown = ", ".join(f"{speed:g} m/s {turn:g} rad/s" for speed, turn in f["commands"][:4])
        title += f"\ncommands: {shown}{', ...' if len(f['commands']) > 4 else ''}"
    rows = walking_rows(f) if walking else other_rows(f)
    width = max(len(line) for line in title.splitlines()) - max(len(label) for label, _ in rows) - 7  # of borders
    table = Table(
        Column(), Column(justify="right", min_width=max(width, 0)), title=title, title_justify="left", show_header=False
    )
    for row in rows:
        table.add_row(*row)
    console.print(table)
    if walking:
        console.print("Means over the episodes without a fall; the score is 0 after one.", highlight=False)
    if f["picture"] is not None:
        console.print(f"{f['picture']} shows the episodes.", highlight=False, markup=False, soft_wrap=True)
    if walking:
        console.print(f"Next:\n  {shell_command('deploy', f['file'])}", highlight=False, markup=False, soft_wrap=True)
