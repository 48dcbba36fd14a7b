"""`condyle version` and `condyle completion`: the installed software, the computer, and the shell."""

from __future__ import annotations

import os
import platform
from importlib.util import find_spec
from typing import Annotated, Any

import typer
from rich.console import Console

from condyle.commands import completion as words
from condyle.commands.app import EPILOG, app, command
from condyle.commands.options import Json
from condyle.commands.terminal import report
from condyle.errors import CondyleError, install_command
from condyle.tape.host_info import processor, versions

# the optional extras, with the modules of each
EXTRAS = {
    "viewer": ("viser", "trimesh", "collada"),
    "plot": ("matplotlib", "PIL", "imageio_ffmpeg"),
    "export": ("pyarrow", "mcap"),
    "notebook": ("ipykernel",),
    "mjcf": ("mujoco",),
    "precision": ("gmpy2", "flint"),
    "casadi": ("casadi",),
    "control": ("scipy",),
    "websocket": ("websockets",),
    "torch": ("torch",),
    "jax": ("jax",),
    "learn": ("gymnasium", "torch", "rsl_rl", "stable_baselines3"),
    "onnx": ("onnx", "onnxruntime"),
    "tune": ("optuna",),
    "cluster": ("ray", "dask", "distributed"),
}
GIB = 2**30
SHELLS = ("bash", "zsh", "fish")
COMPLETE_VARIABLE = "_CONDYLE_COMPLETE"  # set by a shell that asks for completions


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback(epilog=EPILOG)
def condyle(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Same as the command `version`.")
    ] = False,
) -> None:
    """A robot simulator that compiles the robot: the same bits everywhere, exact derivatives of everything.

    Start with:
      [not dim bold]condyle demo[/]                              five robots, checked, in a minute
      [not dim bold]condyle view ur3[/]                          a robot in the browser
      [not dim bold]condyle sim my.urdf -c swing -o run.cdl[/]   your own robot, simulated
    """


@command("condyle version", "condyle version --json")
def version(as_json: Json = False) -> None:
    """Versions, the computer, and the extras installed."""
    report(facts(), as_json, show)


@command("condyle completion bash >> ~/.bashrc", "condyle completion zsh >> ~/.zshrc", "condyle completion fish")
def completion(
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish.", autocompletion=words.one_of(*SHELLS))],
) -> None:
    """A script for Tab completion of commands, robots and joints.

    Append it to the file that your shell reads when it starts.
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]

    if shell not in SHELLS:
        raise CondyleError(f"completion works in {', '.join(SHELLS)}, not in {shell!r:.40}: try condyle completion bash")
    names = {"prog_name": "condyle", "complete_var": COMPLETE_VARIABLE, "shell": shell}
    typer.echo(get_completion_script(**names))


def facts() -> dict[str, Any]:
    """Versions, computer and extras, for JSON."""
    missing = {extra: [module for module in modules if find_spec(module) is None] for extra, modules in EXTRAS.items()}
    return {
        **versions(),
        "os": f"{_distribution()}, {platform.system()} {platform.release()}, {platform.machine()}",
        "processor": processor(),
        "cores": os.cpu_count(),
        "memory": _memory(),
        "extras": {
            "installed": [extra for extra, absent in missing.items() if not absent],
            "missing": {extra: absent for extra, absent in missing.items() if absent},
        },
    }


def show(found: dict[str, Any], console: Console) -> None:
    """Print the facts, one per line."""
    memory, extras = found["memory"], found["extras"]
    lines = {
        **{name: value for name, value in found.items() if name != "extras"},
        "lanes": ", ".join(f"{n} of {kind}" for kind, n in found["lanes"].items()),
        "memory": "unknown" if memory is None else f"{memory / GIB:.1f} GiB",
        "extras": ", ".join(extras["installed"]) or "none",
    }
    if extras["missing"]:
        lines["missing"] = f"{', '.join(extras['missing'])}: {install_command(*extras['missing'])}"
    for name, text in lines.items():
        console.print(f"{name:9} {text}", highlight=False, markup=False, soft_wrap=True)


def _memory() -> int | None:
    """Bytes of memory, None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def _distribution() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()
