"""Where a robot comes from, as given on a command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from condyle.errors import RobotError
from condyle.multibody.robot import Robot, load


@dataclass(frozen=True)
class Origin:
    """What `condyle.load` needs, and the joints to lock afterwards; plain data, so that another process can load it too."""

    source: str
    base: str | None = None
    package_dirs: tuple[str, ...] = ()
    xacro_args: tuple[tuple[str, str], ...] = ()
    strict: bool = False
    lock: tuple[str, ...] = ()

    def load(self, *, constraints: bool = True) -> Robot:
        """The robot; `constraints` as in `condyle.load`."""
        check_source(self.source)
        options = {"package_dirs": self.package_dirs, "xacro_args": dict(self.xacro_args), "strict": self.strict}
        robot = load(self.source, self.base, constraints=constraints, **options)
        return robot.lock(self.lock) if self.lock else robot

    def data(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return asdict(self)

    @staticmethod
    def of(data: dict[str, Any]) -> Origin:
        """The origin with these fields, lists in place of tuples."""
        pairs = tuple((str(name), str(value)) for name, value in data["xacro_args"])
        return Origin(data["source"], data["base"], tuple(data["package_dirs"]), pairs, bool(data["strict"]), tuple(data["lock"]))


def is_run(target: str) -> bool:
    """Whether this is a file that begins as a run does."""
    from condyle.runs.file import MAGIC

    try:
        with Path(target).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except (OSError, ValueError):
        return False


def check_source(source: str) -> None:
    """Refuses a run and a folder in place of a robot."""
    from condyle.robot import library

    path = Path(source)
    if is_run(source):
        from condyle.commands.notes import command

        raise RobotError([f"{source} is a run, not a robot: view, plot and replay show it, as in {command('view', source)}"])
    if library.meant(source) in library.ROBOTS or not path.is_dir():
        return
    inside = sorted(p.name for p in path.iterdir() if p.suffix in (".urdf", ".xacro"))[:1]
    raise RobotError([f"{source} is a folder, not a robot: give a file" + (f", as {path / inside[0]}" if inside else " in it")])


def arguments(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Pairs (name, value) of arguments written as ROS does, name:=value."""
    pairs = []
    for text in texts:
        name, separator, value = text.partition(":=")
        if not separator or not name:
            raise RobotError([f"--arg {text!r}: write it as name:=value, as in --arg hand:=true"])
        pairs.append((name, value))
    return tuple(pairs)
