"""`condyle deploy`: a policy as files for the robot."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from condyle.commands.app import FAILED, command
from condyle.commands.hints import shell_command
from condyle.commands.options import Force, control_option
from condyle.commands.terminal import progress, terminal

ENDED = "the time is over"  # why a run of dog.py ends that nothing has stopped


@command(
    "condyle deploy policy.cdp -o dog",
    "condyle deploy policy.cdp -o dog --no-onnx",
    "condyle deploy policy.cdp -o dog --simulate 10",
    "condyle deploy policy.cdp -o dog --simulate 10 --dogs 60 --force",
    "condyle deploy policy.cdp -o dog --check dog/log.csv",
)
def deploy(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="A policy of PiDog, as `condyle train` writes it.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write, or to check.")] = Path("dog"),
    onnx: Annotated[bool, typer.Option("--onnx/--no-onnx", help="Write policy.onnx; needs the extra `onnx`.")] = True,
    check: Annotated[
        Path | None, typer.Option(metavar="LOG", help="Write nothing; compute the pulses of a log of dog.py with all files.")
    ] = None,
    simulate: Annotated[
        float | None,
        control_option(metavar="SECONDS", help="Then walk so long with dog.py on the simulated dog, and write its log.csv."),
    ] = None,
    speed: Annotated[float, control_option(help="The simulated dog's command, m/s.")] = 0.21,
    turn: Annotated[float, control_option(help="The simulated dog's command, rad/s to the left.")] = 0.0,
    seed: Annotated[
        int | None, control_option(min=0, help="A random dog with pushes, as in training; by default the nominal one.")
    ] = None,
    dogs: Annotated[
        int | None, control_option(min=1, help="So many random dogs, from the seed on (0 by default), without logs.")
    ] = None,
    force: Force = False,
) -> None:
    """A policy as a program for PiDog: Python, C99 and ONNX.

    dog.py needs only NumPy, and has the safety around the policy; policy.c is the same step in C. README.md says what to
    do first; --simulate runs dog.py, as it is, before there is a dog.
    """
    from condyle.apps.pidog.deploy.deploy import check_log
    from condyle.apps.pidog.deploy.deploy import deploy as write
    from condyle.methods.learn.policy_file import PolicyFile

    file = PolicyFile.load(policy)
    if check is None:
        for name, size in write(file, out, onnx=onnx, force=force).items():
            typer.echo(f"{out / name}: {size:,} bytes")
        if simulate is not None and dogs is not None:
            _simulate_many(out, simulate, (speed, turn), range(seed or 0, (seed or 0) + dogs))
        elif simulate is not None:
            _simulate(out, simulate, (speed, turn), seed)
            typer.echo(f"next: {shell_command('deploy', str(policy), '-o', str(out), '--check', str(out / 'log.csv'))}")
        if simulate is None:
            typer.echo(f"next: python3 {out / 'dog.py'} --dry-run")
        return
    found = check_log(file, check, out)
    for name, same, text in found:
        typer.echo(f"{name:12} {'-' if same is None else 'ok' if same else 'differs'}: {text}")
    if not all(same is not False for _, same, _ in found):
        raise typer.Exit(FAILED)


def _simulate(folder: Path, seconds: float, command: tuple[float, float], seed: int | None) -> None:
    """Walk with dog.py on the simulated dog, and print how it went; exit code 1 if its safety stopped it."""
    from condyle.apps.pidog.deploy.simulation import SimulatedPiDog, dog_program
    from condyle.apps.pidog.deploy.simulation import simulate as run

    with progress(terminal(stderr=True)) as say:
        say("simulating PiDog", 0, 1)
        found = run(dog_program(folder / "dog.py"), seconds, command, dog=SimulatedPiDog(seed), log=folder / "log.csv")
    typer.echo(f"simulated: {'the nominal dog' if seed is None else f'dog {seed}'}, {command[0]:g} m/s, {command[1]:g} rad/s")
    if len(times := sorted(found.step_times)):
        walked = f"walked {0.02 * found.commanded.sum():.1f} s at {found.speed:.3f} m/s, turned {found.turned:.0f} degrees"
        typer.echo(f"  {walked}, tilted {found.tilt:.0f} at most")
        typer.echo(f"  a step takes {1e3 * times[len(times) // 2]:.2f} ms here, {1e3 * times[-1]:.2f} at most")
    typer.echo(f"  {folder / 'log.csv'}: {len(found.times)} frames")
    typer.echo(f"  off: {found.reason}")
    if found.reason != ENDED:
        raise typer.Exit(FAILED)


def _simulate_many(folder: Path, seconds: float, command: tuple[float, float], seeds: range) -> None:
    """Walk with dog.py on random dogs, and print how many walked to the end, at which speed, and why others stopped."""
    from condyle.apps.pidog.deploy.simulation import SimulatedPiDog, dog_program
    from condyle.apps.pidog.deploy.simulation import simulate as run

    program, speeds, reasons = dog_program(folder / "dog.py"), [], Counter[str]()
    with progress(terminal(stderr=True)) as say:
        for k, seed in enumerate(seeds):
            say("simulating PiDogs", k, len(seeds))
            found = run(program, seconds, command, dog=SimulatedPiDog(seed))
            if found.reason == ENDED:
                speeds.append(found.speed)
            else:
                reasons[found.reason.partition(":")[0].partition(" by ")[0]] += 1
    typer.echo(f"simulated: {len(seeds)} random dogs, {command[0]:g} m/s, {command[1]:g} rad/s, {seconds:g} s")
    mean = f", at {sum(speeds) / len(speeds):.3f} m/s in the mean" if speeds else ""
    typer.echo(f"  {len(speeds)} walked to the end{mean}")
    for reason, count in reasons.most_common():
        typer.echo(f"  {count} stopped: {reason}")
