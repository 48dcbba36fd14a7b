"""The robots that come with Condyle, by name. Each is data in a file of its own, with its choices in the docstring."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from condyle.errors import RobotError
from condyle.robot.description import Description
from condyle.robot.library import birotor, chains, crazyflie, fourlimb, pidog, tilting_rotors, two_wheeled, ur3, wheeled_pendulum
from condyle.robot.names import nearest


@dataclass(frozen=True)
class Entry:
    """A robot of the library: how to make it, and the base it is meant to stand on."""

    make: Callable[[], Description]
    base: str = "fixed"


ROBOTS = {
    "pendulum": Entry(chains.pendulum),
    "double_pendulum": Entry(chains.double_pendulum),
    "cartpole": Entry(chains.cartpole),
    "wheeled_pendulum": Entry(wheeled_pendulum.description, "planar"),
    "two_wheeled": Entry(two_wheeled.description, "euler"),
    "ur3": Entry(ur3.description),
    "birotor": Entry(birotor.description, "free"),
    "trirotor": Entry(tilting_rotors.trirotor, "free"),
    "quadrotor": Entry(tilting_rotors.quadrotor, "free"),
    "hexarotor": Entry(tilting_rotors.hexarotor, "free"),
    "crazyflie": Entry(crazyflie.description, "free"),
    "pidog": Entry(pidog.description, "free"),
    "fourlimb": Entry(fourlimb.description, "free"),
}
ALSO = {"arm": "ur3"}
NUMBERED = "chain"


def names() -> tuple[str, ...]:
    """The names that `description` knows; "chain:n" stands for a chain of n links."""
    return (*ROBOTS, *ALSO, f"{NUMBERED}:n")


def meant(name: str) -> str:
    """The name under which a robot is known, for what people write: Wheeled-Pendulum is wheeled_pendulum, and arm is ur3."""
    lower = name.lower().replace("-", "_")
    return ALSO.get(lower, lower)


def knows(name: str) -> bool:
    """Whether `description` knows this name; that of a chain may still have a wrong number."""
    return meant(name) in ROBOTS or name.lower().partition(":")[0] == NUMBERED


def description(name: str) -> Description:
    """The robot of this name; "chain:12" is a chain of twelve links."""
    return _entry(name).make()


def base(name: str) -> str:
    """The base that the robot of this name is meant to stand on: "fixed", "free", "planar" or "euler"."""
    return _entry(name).base


def _entry(name: str) -> Entry:
    word, colon, number = name.lower().partition(":")
    if word == NUMBERED:
        count = _count(name, number) if colon else 1
        return Entry(lambda: chains.chain(count))
    entry = ROBOTS.get(meant(name))
    if entry is None:
        raise RobotError([f"there is no built-in robot '{name}'{nearest(name, names())}"])
    return entry


def _count(name: str, number: str) -> int:
    """The number of links written behind the colon."""
    if not (number.isascii() and number.isdecimal() and 1 <= int(number[:9]) <= chains.MAX_CHAIN):
        raise RobotError([f"'{name}': write chain:n with n from 1 to {chains.MAX_CHAIN:,} links, as in chain:12"])
    return int(number)
