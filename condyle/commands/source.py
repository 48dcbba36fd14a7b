"""Where a robot comes from, as given on a command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from condyle.dynamics.robot import Robot, load
from condyle.errors import RobotError


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


def arguments(texts: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Pairs (name, value) of arguments written as ROS does, name:=value."""
    pairs = []
    for text in texts:
        name, separator, value = text.partition(":=")
        if not separator or not name:
            raise RobotError([f"--arg {text!r}: write it as name:=value, as in --arg hand:=true"])
        pairs.append((name, value))
    return tuple(pairs)
