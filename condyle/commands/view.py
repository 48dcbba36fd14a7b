"""`condyle view`: a robot, a run, two runs, or a simulation as it happens, in the browser."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from condyle.commands.controllers import Plan, standing
from condyle.commands.notes import examined
from condyle.commands.scene import Scene, placed, posed
from condyle.commands.source import Origin, is_run
from condyle.commands.source import arguments as pairs
from condyle.demos import pidog
from condyle.errors import CondyleError, FileError
from condyle.robot import library
from condyle.runs.run import read_run
from condyle.view import server
from condyle.view.window import Window, open_gallery, open_window, pushable

EVERYWHERE = (
    "whoever can reach port {port} of this machine can use the viewer, without a password; --host 127.0.0.1 keeps it private"
)


def view(
    targets: Sequence[str],
    *,
    base: str | None = None,
    package_dirs: Sequence[str] = (),
    arguments: Sequence[str] = (),
    host: str = server.LOOPBACK,
    port: int = 8080,
    open_browser: bool = False,
    live: bool = False,
    seconds: float | None = None,
    joints: Sequence[str] = (),
    ground: str | None = None,
    contacts: Sequence[str] = (),
    friction: float = 0.8,
    dt: float = 0.002,
    height: float = 0.0,
    dark: bool = False,
    console: Console | None = None,
) -> None:
    """Open a window on a robot, a run, two runs together, or one of more, print its address, and wait for Ctrl-C or `seconds`.

    `live`: simulate the robot in its world, from the pose that `joints` (NAME=VALUE) gives, `height` above the ground.
    """
    console = console or Console()
    if not targets:
        raise CondyleError("condyle view shows a robot or runs, and no name was given: try condyle view ur3")
    if not (np.isfinite(dt) and dt > 0.0 and np.isfinite(height)):
        raise CondyleError(f"--dt must be above zero, and --height finite, got {dt:g} and {height:g}: leave them out")
    if seconds is not None and not (np.isfinite(seconds) and seconds >= 0.0):
        raise CondyleError(f"--seconds must be a number that is not negative, got {seconds:g}")
    origins = [Origin(target, base, tuple(package_dirs), pairs(arguments)) for target in targets]
    where = {"host": host, "port": port, "dark": dark}
    if live:
        scene = Scene(origins[0], dt, ground, friction, tuple(contacts))
        window = _live(targets, scene, joints, height, where)
    else:
        window = _still(targets, origins, joints, where)
    if not is_run(targets[0]):
        found = examined(origins[0])
        for note in (found if live else replace(found, nailed=False)).notes:  # to be looked at, a robot needs no ground
            console.print(f"note: {note}", highlight=False, soft_wrap=True, markup=False)
    with window:
        _wait(window, console, host, open_browser, seconds)


def _still(targets: Sequence[str], origins: Sequence[Origin], joints: Sequence[str], where: dict[str, Any]) -> Window:
    runs = [is_run(target) for target in targets]
    if len(targets) > 1 and not all(runs):
        odd = targets[runs.index(False)]
        raise CondyleError(f"only runs can be shown together, and {odd} is none: give files that condyle sim -o wrote")
    if all(runs):
        if joints:
            raise CondyleError("--joint sets the pose of a robot; a run has its own: leave it out")
        found = [read_run(target) for target in targets]
        return open_window(*found, **where) if len(found) <= 2 else open_gallery(found, **where)
    if Path(targets[0]).suffix == ".cdl":
        # not a run, so the loader of robots would only be puzzled by it; the reader of runs says what is wrong
        if not Path(targets[0]).exists():
            raise FileError(f"{targets[0]} is not there: give a run that condyle sim -o wrote, or a robot")
        return open_window(read_run(targets[0]), **where)
    robot = origins[0].load()
    return open_window(robot, q=posed(robot, joints), **where)


def _live(targets: Sequence[str], scene: Scene, joints: Sequence[str], height: float, where: dict[str, Any]) -> Window:
    if len(targets) != 1 or is_run(targets[0]):
        raise CondyleError(
            f"--live simulates one robot, and {' and '.join(targets)} is none: give the name or the file of a robot"
        )
    first, x = standing(scene, Plan(height=height, joints=tuple(joints)))
    simulation = scene.simulation(wrenches=pushable(first.robot))
    if not joints and library.meant(scene.origin.source) == "pidog" and first.robot.model.base_coordinates:
        # at zero its legs lie flat: it begins as it stands
        q = placed(simulation, simulation.split(pidog.placed(simulation))[0], height)
    else:
        q = first.split(x)[0]
    return open_window(simulation, q=q, **where)


def _wait(window: Window, console: Console, host: str, open_browser: bool, seconds: float | None) -> None:
    console.print(f"viewer at {window.url} (Ctrl-C ends it)", highlight=False, soft_wrap=True, markup=False)
    if not server.is_loopback(host):
        console.print(
            f"warning: {EVERYWHERE.format(port=window.url.rpartition(':')[2])}", highlight=False, soft_wrap=True, markup=False
        )
    if open_browser and not webbrowser.open(window.url):
        console.print("no browser could be started: open the address yourself", markup=False)
    with suppress(KeyboardInterrupt):
        window.wait(seconds)
    console.print("viewer closed", markup=False)
