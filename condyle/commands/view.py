"""`condyle view`: a robot, one or more runs, or a live simulation in the browser."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from condyle.commands import completion
from condyle.commands.app import command
from condyle.commands.controllers import Plan, posed
from condyle.commands.hints import file_hints
from condyle.commands.options import Arguments, Base, Contacts, Dark, Dt, Friction, Ground, Height, JointValues, PackageDirs
from condyle.commands.scene import Origin, Scene, initial_configuration, is_run, place_on_ground
from condyle.errors import CondyleError, FileError
from condyle.robot import library
from condyle.workbench.runs.run import read_run

if TYPE_CHECKING:
    from condyle.workbench.view.window import Window


@command("condyle view ur3", "condyle view my.urdf", "condyle view run.cdl other.cdl", "condyle view pidog --live")
def view(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="ROBOT|RUN...",
            help="A robot, a robot file, or runs: two are compared, of more one is selected.",
            autocompletion=completion.robots_and_runs,
        ),
    ],
    live: Annotated[bool, typer.Option("--live", help="Simulate in real time, and push with the mouse.")] = False,
    joint: JointValues = None,
    height: Height = 0.0,
    dark: Dark = False,
    browser: Annotated[bool, typer.Option("--browser", help="Also open the page in the browser.")] = False,
    seconds: Annotated[float | None, typer.Option(help="Exit after so many seconds; by default at Ctrl-C.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; if taken, the next free one is used.")] = 8080,
    host: Annotated[str, typer.Option(help="Address to listen on; any but a loopback one is open to the network.")] = "127.0.0.1",
    base: Base = None,
    package_dir: PackageDirs = None,
    arg: Arguments = None,
    dt: Dt = None,
    ground: Ground = None,
    friction: Friction = 0.8,
    contacts: Contacts = None,
) -> None:
    """A robot or a run in the browser: move, play, compare, push.

    Prints the address of the page; Ctrl-C ends it. Needs the extra `viewer`.
    """
    if not np.isfinite(height):
        raise CondyleError(f"--height must be a finite number, got {height:g}: leave it out")
    if dt is not None and not (np.isfinite(dt) and dt > 0.0):
        raise CondyleError(f"--dt must be above zero, got {dt:g}: leave it out")
    if seconds is not None and not (np.isfinite(seconds) and seconds >= 0.0):
        raise CondyleError(f"--seconds must be a number that is not negative, got {seconds:g}")
    of = Origin(targets[0], base, package_dir, arg)
    scene = Scene(of, dt, ground, friction, contacts)
    server = {"host": host, "port": port, "dark": dark}
    if live:
        window = _live(targets, scene, joint or (), height, server)
    elif all(map(is_run, targets)):
        if joint:
            raise CondyleError("--joint sets the pose of a robot; a run has its own: leave it out")
        window = _runs(targets, server)
    else:
        window = _robot(targets, scene, joint or (), server)
    if not is_run(targets[0]):
        hints = file_hints(of)
        for hint in (hints if live else replace(hints, fixed_in_air=False)).sentences:  # a robot at rest needs no ground
            typer.echo(f"note: {hint}")
    wait(window, host, browser=browser, seconds=seconds)


def open_and_wait(runs: Sequence[str], *, stderr: bool) -> None:
    """Show runs in the browser until Ctrl-C; the address is printed on the standard error if `stderr`."""
    wait(_runs(runs, {}), stderr=stderr)


def _runs(targets: Sequence[str], server: dict[str, Any]) -> Window:
    from condyle.workbench.view.window import open_gallery, open_window

    found = [read_run(target) for target in targets]
    return open_window(*found, **server) if len(found) <= 2 else open_gallery(found, **server)


def _robot(targets: Sequence[str], scene: Scene, joints: Sequence[str], server: dict[str, Any]) -> Window:
    from condyle.workbench.view.window import open_window

    if len(targets) > 1:
        odd = next(target for target in targets if not is_run(target))
        raise CondyleError(f"only runs can be shown together, and {odd} is none: give files that condyle sim -o wrote")
    if Path(targets[0]).suffix == ".cdl":
        # read as a run, for an error about runs and not about robots
        if not Path(targets[0]).exists():
            raise FileError(f"{targets[0]} does not exist: give a run that condyle sim -o wrote, or a robot")
        return open_window(read_run(targets[0]), **server)
    robot = scene.origin.load()
    return open_window(robot, q=initial_configuration(robot, joints), **server)


def _live(targets: Sequence[str], scene: Scene, joints: Sequence[str], height: float, server: dict[str, Any]) -> Window:
    from condyle.apps.pidog import plant
    from condyle.workbench.view.window import open_window, pushable

    if len(targets) != 1 or is_run(targets[0]):
        raise CondyleError(
            f"--live simulates one robot, and {' and '.join(targets)} is none: give the name or the file of a robot"
        )
    begun = posed(scene, Plan(height=height, joints=joints).with_controller(scene.origin))
    robot = begun.simulation.robot
    simulation, q = scene.simulation(wrenches=pushable(robot)), begun.q
    if not joints and library.meant(scene.origin.source) == "pidog" and robot.model.base_coordinates:
        # at zero its legs lie flat: begin with the standing pose
        q = place_on_ground(simulation, simulation.split(plant.standing_state(simulation))[0], height)
    return open_window(simulation, q=q, **server)


def wait(
    window: Window, host: str = "127.0.0.1", *, browser: bool = False, seconds: float | None = None, stderr: bool = False
) -> None:
    """Print the address of the viewer, wait for Ctrl-C or `seconds`, and close it."""
    from condyle.workbench.view.server import is_loopback

    say = partial(typer.echo, err=stderr)
    with window:
        say(f"viewer at {window.url} (Ctrl-C ends it)")
        if not is_loopback(host):
            port = window.url.rpartition(":")[2]
            say(
                f"warning: whoever can reach port {port} of this computer can use the viewer, without a password; "
                "--host 127.0.0.1 keeps it private"
            )
        if browser and not webbrowser.open(window.url):
            say("no browser could be started: open the address yourself")
        with suppress(KeyboardInterrupt):
            window.wait(seconds)
        say("viewer closed")
