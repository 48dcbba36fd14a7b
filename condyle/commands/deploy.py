"""`condyle deploy`: a policy as files for the robot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from condyle.commands.app import FAILED, command
from condyle.commands.options import Force


@command(
    "condyle deploy policy.cdp -o dog",
    "condyle deploy policy.cdp -o dog --no-onnx",
    "condyle deploy policy.cdp -o dog --check log.csv",
)
def deploy(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="A policy of PiDog, as `condyle train` writes it.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write, or to check.")] = Path("dog"),
    onnx: Annotated[bool, typer.Option("--onnx/--no-onnx", help="Write policy.onnx; needs the extra `onnx`.")] = True,
    check: Annotated[
        Path | None, typer.Option(metavar="LOG", help="Write nothing; compute the pulses of a log of dog.py with all files.")
    ] = None,
    force: Force = False,
) -> None:
    """A policy as a program for PiDog: Python, C99 and ONNX.

    dog.py needs only NumPy, and has the safety around the policy; policy.c is the same step in C. README.md says what to
    do first.
    """
    from condyle.deploy.deploy import check_log
    from condyle.deploy.deploy import deploy as write
    from condyle.learn.policy_file import PolicyFile

    file = PolicyFile.load(policy)
    if check is None:
        for name, size in write(file, out, onnx=onnx, force=force).items():
            typer.echo(f"{out / name}: {size:,} bytes")
        typer.echo(f"next: python3 {out / 'dog.py'} --dry-run")
        return
    found = check_log(file, check, out)
    for name, same, text in found:
        typer.echo(f"{name:12} {'-' if same is None else 'ok' if same else 'differs'}: {text}")
    if not all(same is not False for _, same, _ in found):
        raise typer.Exit(FAILED)
