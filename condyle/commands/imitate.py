"""`condyle collect` and `condyle imitate`: demonstrations of gaits, and policies that imitate them."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Column, Table

from condyle.commands import options
from condyle.commands.app import command
from condyle.commands.hints import shell_command
from condyle.commands.terminal import progress, report, terminal
from condyle.errors import CondyleError, FileError
from condyle.methods.learn.demonstrations import Demonstrations
from condyle.methods.learn.imitation import NETWORKS, Epoch, clone
from condyle.robot.names import nearest

DATA, POLICY = ".cdd", ".cdp"


@command(
    "condyle collect pidog --gait walk -o walk.cdd",
    "condyle collect pidog --gait trot --episodes 512 --noise 2 -o trot.cdd",
)
def collect(
    robot: Annotated[str, typer.Argument(metavar="ROBOT", help="The robot: pidog.")],
    gait: Annotated[str, typer.Option(help="What it demonstrates: walk, trot (its manufacturer's), or controller (ours).")],
    out: Annotated[Path, options.out_option(help="The file of the demonstrations, .cdd.")],
    episodes: Annotated[int, typer.Option(min=2, help="Number of episodes, each of another randomised robot.")] = 256,
    seconds: Annotated[float, typer.Option(min=1.0, max=1000.0, help="Length of an episode, s.")] = 10.0,
    noise: Annotated[
        float, typer.Option(min=0.0, max=100.0, help="Noise: 1 is 0.01 rad on joint targets and 0.1 rad/s on measured rates.")
    ] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all random numbers.")] = 0,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Demonstrate a gait with noise, for a policy to imitate.

    Randomised robots walk the gait; actions are executed with noise, and written as the gait has them without.
    """
    from condyle.apps.pidog import collect as collecting

    _writable(out, DATA, force)
    if robot != "pidog":
        raise CondyleError(f"there are no gaits to demonstrate for the robot '{robot:.60}'{nearest(robot, ['pidog'])}")
    begin = perf_counter()
    with progress(terminal(stderr=True)) as say:
        data = collecting.collect(
            gait,
            episodes=episodes,
            seconds=seconds,
            noise=noise,
            seed=seed,
            progress=lambda done, of: say(f"demonstrating {gait}", done, of),
        )
    data.save(out)
    report(_collected(out, data, perf_counter() - begin), as_json, _show_collected)


@command(
    "condyle imitate trot.cdd -o trot.cdp",
    "condyle imitate walk.cdd --network lstm --epochs 40 -o walk.cdp",
)
def imitate(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Demonstrations, as `condyle collect` writes them.")],
    out: Annotated[Path, options.out_option(help="The file of the policy, .cdp.")],
    network: Annotated[str, typer.Option(help=f"The network: {' or '.join(NETWORKS)}.")] = "mlp",
    epochs: Annotated[int, typer.Option(min=1, max=100_000, help="Passes over the demonstrations.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="Seed: the same seed gives the same weights.")] = 0,
    force: options.Force = False,
    as_json: options.Json = False,
) -> None:
    """Train a policy that imitates demonstrations.

    A tenth of the episodes is held out, and the error on it is printed.
    """
    from condyle.apps.pidog.imitation_tasks import cloned_file, joint_error

    _writable(out, POLICY, force)
    found = Demonstrations.load(data)
    begin = perf_counter()
    with progress(terminal(stderr=True)) as say:

        def show(epoch: Epoch) -> None:
            say(f"imitating {found.gait}, error {epoch.error:.3f}", epoch.number, epoch.epochs)

        cloned = clone(found, network, epochs=epochs, seed=seed, progress=show)
    file = cloned_file(found, cloned, epochs, seed, perf_counter() - begin)
    file.save(out)
    facts = {
        "file": str(out),
        "robot": file.robot,
        "task": file.task,
        "network": network,
        "sizes": list(file.policy.sizes),
        "steps": found.count,
        "error": cloned.held_out,
        "training_error": cloned.training,
        "joint_error_degrees": joint_error(found, cloned.policy),
        "seconds": file.training["seconds"],
        "hash": file.hash,
    }
    report(facts, as_json, _show_imitated)


def _writable(out: Path, suffix: str, force: bool) -> None:
    if out.suffix != suffix:
        raise CondyleError(f"-o needs the name of a file that ends in {suffix}, got {out.name}: try -o {out.stem}{suffix}")
    if out.exists() and not force:
        raise FileError(f"{out} exists: give another name, or --force to overwrite it.")


def _collected(out: Path, data: Demonstrations, seconds: float) -> dict[str, Any]:
    return {
        "file": str(out),
        "robot": data.robot,
        "gait": data.gait,
        "episodes": len(data.observations),
        "steps": data.count,
        "fell": data.facts["fell"],
        "noise": data.facts["noise"],
        "bytes": out.stat().st_size,
        "seconds": seconds,
    }


def _show_collected(f: dict[str, Any], console: Console) -> None:
    title = f"{f['robot']} {f['gait']}: {f['steps']:,} steps of {f['episodes']:,} episodes"
    table = Table(Column(), Column(justify="right"), title=title, title_justify="left", show_header=False)
    table.add_row("robots that fell", f"{f['fell']:,}")
    table.add_row("noise", f"{f['noise']:g}")
    table.add_row("file", f"{f['bytes'] / 1e6:.1f} MB")
    table.add_row("time", f"{f['seconds']:.1f} s")
    console.print(table)
    next_one = shell_command("imitate", f["file"], "-o", str(Path(f["file"]).with_suffix(POLICY)))
    console.print(f"Next:\n  {next_one}", highlight=False, markup=False, soft_wrap=True)


def _show_imitated(f: dict[str, Any], console: Console) -> None:
    title = f"{f['network']} {' x '.join(map(str, f['sizes']))}: imitates {f['steps']:,} steps"
    table = Table(Column(), Column(justify="right"), title=title, title_justify="left", show_header=False)
    table.add_row("error of actions, episodes held out", f"{f['error']:.4f}")
    table.add_row("in training", f"{f['training_error']:.4f}")
    table.add_row("error of joint targets", f"{f['joint_error_degrees']:.2f} degrees rms")
    table.add_row("time", f"{f['seconds']:.1f} s")
    table.add_row("hash of the weights", f["hash"][:16])
    console.print(table)
    name = Path(f["file"])
    tuned = str(name.with_name(f"{name.stem}_tuned{POLICY}"))
    next_one = shell_command("train", f["robot"], "--task", f["task"], "--init", f["file"], "-o", tuned)
    console.print(f"Next:\n  {next_one}", highlight=False, markup=False, soft_wrap=True)
