"""`condyle info`: a robot's tree of joints and links, its totals, its frames, and notes from loading its file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import typer
from rich.console import Console, Group
from rich.markup import escape
from rich.text import Text
from rich.tree import Tree

from condyle.commands.app import command
from condyle.commands.hints import FileHints, file_hints, shell_command
from condyle.commands.options import Arguments, Base, Json, PackageDirs, Source, Strict
from condyle.commands.scene import Origin
from condyle.commands.terminal import print_json, terminal
from condyle.multibody.robot import Robot
from condyle.robot.joints import Prismatic, Revolute
from condyle.robot.model import Link
from condyle.robot.report import IGNORED, KEPT, NOT_SIMULATED, REPAIRED

UNITS: dict[type, tuple[str, str, str]] = {Revolute: ("rad", "rad/s", "N m"), Prismatic: ("m", "m/s", "N")}

# what to do about each kind of note
ADVICE = {
    REPAIRED: "Repaired while loading: write the repaired value into the file; --strict makes it an error.",
    KEPT: "Kept as written, though it looks wrong: check it against the real robot.",
    NOT_SIMULATED: "Not simulated, though the file asks for it:",
    IGNORED: "Ignored: not used by the simulation.",
}
SHOWN_FRAMES = 60


@command("condyle info ur3", "condyle info my.urdf --base free", "condyle info pidog --json")
def info(
    source: Source,
    base: Base = None,
    package_dir: PackageDirs = None,
    arg: Arguments = None,
    strict: Strict = False,
    as_json: Json = False,
) -> None:
    """A robot's joints, links and frames, and notes on its file.

    A file that cannot be loaded gives the list of its problems and exit code 2.
    """
    of = Origin(source, base, package_dir, arg, strict=strict)
    robot, hints = of.load(), file_hints(of)
    if as_json:
        print_json(facts(robot))
    else:
        show(robot, terminal(width=1000))
        show_next(hints, robot, terminal(width=1000))
    for hint in hints.sentences:
        typer.echo(f"note: {hint}", err=True)


def facts(robot: Robot) -> dict[str, Any]:
    """Everything that `show` prints, for JSON."""
    return {
        "name": robot.name,
        "mass": robot.mass,
        "nq": robot.nq,
        "nv": robot.nv,
        "constraints": constraints(robot),
        "gravity": list(robot.model.gravity),
        "joints": [joint(link, robot) for link in robot.model.links],
        "frames": [
            {"name": f.name, "link": robot.model.links[f.link].name if f.link >= 0 else "world"} for f in robot.model.frames
        ],
        "report": robot.report,
    }


def constraints(robot: Robot) -> dict[str, Any] | None:
    """Independent coordinates, dependent joints and loops; None for a robot without constraints."""
    if robot.coordinate_map.identity:
        return None
    return {
        "all": {"nq": robot.model.nq, "nv": robot.model.nv},
        "remain": robot.velocity_names,
        "follow": [link.joint for link in robot.model.links if link.joint in robot.coordinate_map.passive],
        "loops": [{"name": k.name, "frames": [k.frame_a, k.frame_b], "axes": list(k.axes)} for k in robot.model.loops],
    }


def joint(link: Link, robot: Robot) -> dict[str, Any]:
    """One joint with the link it moves."""
    return {
        "name": link.joint,
        "kind": type(link.kind).__name__.lower(),
        "axis": list(getattr(link.kind, "axis", ())) or None,
        "link": link.name,
        "parent": robot.model.links[link.parent].name if link.parent >= 0 else "world",
        "q": [link.q.start, link.q.stop],
        "v": [link.v.start, link.v.stop],
        "limits": vars(link.limits),
        "damping": link.damping,
        "friction": link.friction,
        "armature": link.armature,
        "mimic": None if link.mimic is None else vars(link.mimic),
        "mass": float(link.inertia.mass),
        "center_of_mass": [float(x) for x in link.inertia.com] if link.inertia.mass > 0.0 else None,
    }


def show(robot: Robot, console: Console) -> None:
    """Print the tree, the totals, the constraints, the frames and the notes."""
    console.print(tree(robot), highlight=False)
    model, names = robot.model, robot.frame_names
    x, y, z = model.gravity
    n = len(model.links)
    mass, sizes = (f"\n{robot.mass:.6g} kg", "green"), (f"nq {robot.nq}, nv {robot.nv}", "bold")
    end = f"; gravity ({x:g}, {y:g}, {z:g}) m/s^2"
    lines = [Text.assemble(mass, f" in {n} moving link{'s' * (n != 1)}; ", sizes, end)]
    if not robot.coordinate_map.identity:
        remain = ", ".join(robot.velocity_names[:SHOWN_FRAMES])
        lines.append(Text(f"\nConstrained: {robot.nv} of {model.nv} velocities remain ({remain}).", "yellow"))
        lines += [Text(f"  {constraint.summary()}") for constraint in robot.coordinate_map.constraints]
        lines += [Text(f"  loop {k.name}: {k.frame_b} stays on {k.frame_a} in {' '.join(k.axes)}") for k in model.loops]
    if names:
        more = f", and {len(names) - SHOWN_FRAMES} more (--json lists all)" if len(names) > SHOWN_FRAMES else ""
        lines.append(Text(f"\n{len(names)} frames: {', '.join(names[:SHOWN_FRAMES])}{more}"))
    console.print(Group(*lines, *notes(robot)), highlight=False, soft_wrap=True)


def show_next(hints: FileHints, robot: Robot, console: Console) -> None:
    """Print commands to type next."""
    source, own = hints.source, Path(hints.source).is_file()
    run = f"{Path(source).name.partition('.')[0] if own else robot.name}.cdl"
    how = ["--base", "free", "--controller", "hold"] if hints.fixed_in_air else ["--controller", "swing"]
    lines = [shell_command("view", source), shell_command("sim", source, *how, "-o", run)]
    if own and (hints.warnings or robot.model.notes):
        lines.insert(0, shell_command("doctor", source))
    console.print(Text("\nNext:  " + "\n       ".join(lines)), highlight=False, soft_wrap=True)


def tree(robot: Robot) -> Tree:
    """The kinematic tree; each line is a joint and the link that it moves."""
    root = Tree(f"[bold]{escape(robot.name)}[/]  [dim](world)", guide_style="dim")
    branches = {-1: root}
    for i, link in robot.model.outward():
        branches[i] = branches[link.parent].add(line(link))
    return root


def line(link: Link) -> Text:
    """`joint  kind axis  limits  -> link  mass`."""
    text = Text.assemble((link.joint, "bold"), f"  {type(link.kind).__name__.lower()}")
    axis = getattr(link.kind, "axis", None)
    if axis is not None:
        text.append(f" {axis_name(axis)}", "cyan")
    if span := limits(link):
        text.append(f"  {span}")
    if link.mimic is not None:
        text.append(f"  follows: {link.mimic.multiplier:g} x {link.mimic.joint} {link.mimic.offset:+g}", "yellow")
    text.append(f"  {link.name}", "dim")
    text.append(f"  {float(link.inertia.mass):.6g} kg", "green")
    return text


def axis_name(axis: tuple[float, float, float]) -> str:
    """x, -z, or three numbers."""
    for name, unit in zip("xyz", np.eye(3), strict=True):
        if np.abs(axis).tolist() == unit.tolist():
            return name if sum(axis) > 0.0 else f"-{name}"
    return f"({axis[0]:.4g}, {axis[1]:.4g}, {axis[2]:.4g})"


def limits(link: Link) -> str:
    """The limits, with their units."""
    units = UNITS.get(type(link.kind))
    if units is None:
        return ""
    low, high = link.limits.lower, link.limits.upper
    position = None
    if low is not None or high is not None:
        position = f"[{'-inf' if low is None else f'{low:.4g}'}, {'inf' if high is None else f'{high:.4g}'}]"
    speed, force = (None if x is None else f"{x:.4g}" for x in (link.limits.velocity, link.limits.effort))
    return ", ".join(f"{text} {unit}" for text, unit in zip((position, speed, force), units, strict=True) if text)


def notes(robot: Robot) -> list[Text]:
    """What was repaired, kept or ignored while loading, each group under its advice."""
    found: list[Text] = []
    rest = list(robot.model.notes)
    for kind, advice in {**ADVICE, "": ""}.items():
        group = [note for note in rest if note.what.startswith(kind)]
        rest = [note for note in rest if note not in group]
        if group and advice:
            found.append(Text(f"\n{advice}", "yellow" if kind != IGNORED else "dim"))
        found += [Text(f"  {note.where + ': ' if note.where else ''}{note.what.removeprefix(kind)}") for note in group]
    return found
