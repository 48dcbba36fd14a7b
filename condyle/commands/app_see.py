"""The verbs to see with: demo, view, info, plot."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from condyle.commands import complete
from condyle.commands.app import DIFFERENT, SEE, Stop, terminal, verb
from condyle.commands.options import (
    OUTPUT,
    Arguments,
    Base,
    Contacts,
    Dt,
    Friction,
    Ground,
    Json,
    PackageDirs,
    RunFile,
    Source,
    Strict,
    origin,
    print_json,
)
from condyle.errors import CondyleError


@verb(SEE, "condyle demo", "condyle demo pidog birotor --out shown", "condyle demo --view")
def demo(
    machines: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MACHINE]...", help="Some of the machines only, such as pidog.", autocompletion=complete.shown),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="A folder for report.html, the pictures and the runs; made if missing.", rich_help_panel=OUTPUT
        ),
    ] = Path("out"),
    view: Annotated[bool, typer.Option("--view", help="Show the runs in the viewer at the end.")] = False,
    as_json: Json = False,
) -> None:
    """Five machines simulated and checked in a minute.

    Writes report.html, which needs no network, and a run of each machine. The exit code is 1 if any check fails.
    """
    from condyle.demo.show import run
    from condyle.demos.table import machine

    names = list(dict.fromkeys(machine(name).name for name in machines or ()))
    found = run(out, terminal(stderr=as_json), names)
    if as_json:
        print_json(found)
    if view and found["machines"]:
        from condyle.commands.view import view as look

        look([str(out / shown["run"]) for shown in found["machines"].values()], console=terminal(stderr=as_json))
    if not found["passed"]:
        raise Stop(DIFFERENT)


@verb(SEE, "condyle view ur3", "condyle view my.urdf", "condyle view run.cdl other.cdl", "condyle view pidog --live")
def view(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="ROBOT|RUN...",
            help="A robot, a robot file or a run; two runs are compared, of more one is chosen.",
            autocompletion=complete.robots_and_runs,
        ),
    ],
    live: Annotated[bool, typer.Option("--live", help="Simulate in real time, and push with the mouse.")] = False,
    joint: Annotated[list[str] | None, typer.Option(help="Where a joint is at first, NAME=VALUE, rad or m; may repeat.")] = None,
    height: Annotated[float, typer.Option(help="Of --live: how high the lowest contact is at first, m.")] = 0.0,
    dark: Annotated[bool, typer.Option("--dark", help="Light on dark.")] = False,
    browser: Annotated[bool, typer.Option("--browser", help="Open the page in the browser, too.")] = False,
    seconds: Annotated[float | None, typer.Option(help="End after so many seconds; at Ctrl-C if not given.")] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the page; the next one that is free is taken.")] = 8080,
    host: Annotated[str, typer.Option(help="Where to listen; any but loopback is open to the network.")] = "127.0.0.1",
    base: Base = None,
    package_dir: PackageDirs = None,
    arg: Arguments = None,
    dt: Dt = 0.002,
    ground: Ground = None,
    friction: Friction = 0.8,
    contacts: Contacts = None,
) -> None:
    """A robot or a run in the browser: move, play, compare, push.

    Prints the address of the page; Ctrl-C ends it. Needs the extra `viewer`.
    """
    from condyle.commands.view import view as look

    look(
        targets,
        base=base,
        package_dirs=package_dir or (),
        arguments=arg or (),
        host=host,
        port=port,
        open_browser=browser,
        live=live,
        seconds=seconds,
        joints=joint or (),
        ground=ground,
        contacts=contacts or (),
        friction=friction,
        dt=dt,
        height=height,
        dark=dark,
        console=terminal(),
    )


@verb(SEE, "condyle info ur3", "condyle info my.urdf --base free", "condyle info pidog --json")
def info(
    source: Source,
    base: Base = None,
    package_dir: PackageDirs = None,
    arg: Arguments = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """A robot's joints, links and frames, and doubts about its file.

    A file that cannot be loaded gives the list of its problems and exit code 2.
    """
    from condyle.commands import info as telling
    from condyle.commands.notes import examined

    of = origin(source, base, package_dir, arg, strict)
    robot, found = of.load(), examined(of)
    if as_json:
        print_json(telling.facts(robot))
    else:
        telling.show(robot, terminal(wide=1000))
        telling.show_next(found, robot, terminal(wide=1000))
    for note in found.notes:
        typer.echo(f"note: {note}", err=True)


@verb(
    SEE,
    "condyle plot run.cdl",
    "condyle plot run.cdl -o picture.svg --signals height --signals contact_forces",
    "condyle plot run.cdl --compare other.cdl",
    "condyle plot run.cdl --video run.gif",
)
def plot(
    run: RunFile,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The picture: .png, .svg or .pdf, in a folder that is made if missing; run.png beside the run if not given.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    signals: Annotated[
        list[str] | None,
        typer.Option(
            help="What to draw, such as joints; may repeat. All that the run has if not given.", autocompletion=complete.signals
        ),
    ] = None,
    compare: Annotated[
        str | None, typer.Option(metavar="RUN", help="Another run, drawn dashed over the first.", autocompletion=complete.runs)
    ] = None,
    video: Annotated[
        Path | None, typer.Option(help="Write a video of the robot instead: .gif or .mp4.", rich_help_panel=OUTPUT)
    ] = None,
    fps: Annotated[float, typer.Option(help="Frames of the video per second.", rich_help_panel=OUTPUT)] = 20.0,
) -> None:
    """A run as a picture over time, or as a video.

    Heights, contact forces, energy, joints and controls, pushes shaded. Needs the extra `plot`.
    """
    from condyle.runs.run import read_run

    done = read_run(run)
    if video is not None:
        from condyle.commands.bar import bar
        from condyle.view.video import check_suffix, save_video

        check_suffix(video)
        if out is not None or compare is not None or signals:
            raise CondyleError("--video writes a video and no picture: leave out -o, --signals and --compare")
        with bar(terminal(stderr=True)) as say:
            save_video(done, video, fps=fps, progress=lambda k, frames: say(f"drawing {video.name}", k, frames))
        typer.echo(f"{video}: a video of {done.t[-1]:g} s")
        return
    target = out or Path(run).with_suffix(".png")
    done.plot(target, signals=signals or (), compare=None if compare is None else read_run(compare))
    typer.echo(str(target))
