"""What an external program and a simulation exchange, and the interface of everything that transmits it.

A transport is a connection to a program: shared memory, a WebSocket, topics of ROS 2. The simulation sends the signals of a
tick and gets the command that answers them; nothing else passes.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from condyle.errors import ConnectError
from condyle.robot.names import nearest

Shapes = dict[str, tuple[int, ...]]
LOCKSTEP, REALTIME = "lockstep", "realtime"
MODES = (LOCKSTEP, REALTIME)


@dataclass(frozen=True)
class Exchange:
    """What is exchanged in every control period: names and shapes, in the order in which numbers are sent.

    `signals` go to the program, "q" and "v" first; `commands` come back. `dt` is a tick in s, and a control period has `every`
    ticks. `joints` are the names of the entries of "u", `coordinates` and `velocities` those of "q" and "v".
    """

    robot: str
    mode: str
    dt: float
    every: int
    signals: Shapes
    commands: Shapes
    joints: tuple[str, ...] = ()
    coordinates: tuple[str, ...] = ()
    velocities: tuple[str, ...] = ()
    urdf: str = ""
    simulation_data: Any = field(default=None, repr=False)  # as run files have it, for viewers; None if it cannot be written

    @property
    def period(self) -> float:
        """Seconds from one command to the next."""
        return self.dt * self.every

    @property
    def sent(self) -> int:
        """How many numbers the signals of a tick have."""
        return sum(map(prod, self.signals.values()))

    @property
    def answered(self) -> int:
        """How many numbers a command has."""
        return sum(map(prod, self.commands.values()))

    def flat(self, signals: Mapping[str, np.ndarray]) -> np.ndarray:
        """The signals of a tick as one array, in their order."""
        return np.concatenate([np.ravel(signals[name]) for name in self.signals])

    def signals_of(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """{name: array} of the signals of a tick."""
        return split(numbers, self.signals)

    def command_of(self, numbers: np.ndarray) -> dict[str, np.ndarray]:
        """{name: array} of a command; a ConnectError if a number is not finite."""
        if not np.isfinite(numbers).all():
            bad = next(name for name, value in split(numbers, self.commands).items() if not np.isfinite(value).all())
            raise ConnectError(f"the command '{bad}' has a number that is not finite: check what the external program computes")
        return split(numbers, self.commands)

    def checked(self, values: Mapping[str, Any], before: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
        """A command by name, checked; commands that are not given are as `before`, which was the last one."""
        found = dict(before or {})
        for name, value in values.items():
            if name not in self.commands:
                raise ConnectError(f"there is no command '{name!s:.60}'{nearest(str(name), list(self.commands))}")
            try:
                array = np.array(value, dtype=float)
            except (TypeError, ValueError, OverflowError):
                raise ConnectError(f"the command '{name}' must be a list of numbers, got {value!r:.60}") from None
            if array.shape != self.commands[name]:
                raise ConnectError(f"the command '{name}' has shape {self.commands[name]}, got {array.shape}")
            if not np.isfinite(array).all():
                raise ConnectError(f"the command '{name}' must be finite numbers, got {value!r:.60}")
            found[name] = array
        missing = [name for name in self.commands if name not in found]
        if missing:
            raise ConnectError(f"the command '{missing[0]}' is missing; a first command has all of {', '.join(self.commands)}")
        return found


def split(numbers: np.ndarray, shapes: Shapes) -> dict[str, np.ndarray]:
    """{name: array} of numbers that are in the order of `shapes`."""
    found, at = {}, 0
    for name, shape in shapes.items():
        size = prod(shape)
        found[name] = numbers[at : at + size].reshape(shape)
        at += size
    return found


@dataclass(frozen=True)
class Command:
    """A command by name, and the tick of the signals that it answers. `end`: why the program ends the run, if it does."""

    tick: int
    values: Mapping[str, np.ndarray]
    end: str = ""


class Requests:
    """What a user asks of a run besides commands: pause, resume, step, reset, stop. Safe to call from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._paused, self._steps, self._reset, self._stop = False, 0, False, ""

    def pause(self) -> None:
        """Hold the simulation before its next control period."""
        with self._changed:
            self._paused, self._steps = True, 0
            self._changed.notify_all()

    def resume(self) -> None:
        """Let it go on."""
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    def step(self, periods: int = 1) -> None:
        """Pause, and let so many control periods pass."""
        with self._changed:
            self._paused, self._steps = True, self._steps + periods
            self._changed.notify_all()

    def reset(self) -> None:
        """End this run, and begin another one with the initial state."""
        with self._changed:
            self._reset = True
            self._changed.notify_all()

    def stop(self, reason: str = "it was stopped") -> None:
        """End the run."""
        with self._changed:
            self._stop = self._stop or reason
            self._changed.notify_all()

    def clear(self) -> None:
        """Forget all that was asked for, for another run."""
        with self._changed:
            self._paused, self._steps, self._reset, self._stop = False, 0, False, ""

    @property
    def paused(self) -> bool:
        """Whether the next period waits."""
        return self._paused and not self._steps

    @property
    def stopped(self) -> str:
        """Why the run is to end; empty if it goes on."""
        return self._stop

    @property
    def urgent(self) -> bool:
        """Whether a transport that waits for a command should return at once, because the run ends or begins again."""
        return bool(self._stop) or self._reset

    def take_reset(self) -> bool:
        """Whether a reset was asked for; it is not any more."""
        with self._changed:
            was, self._reset = self._reset, False
            return was

    def take_period(self) -> None:
        """None; a period passes, one less of those that `step` allows."""
        if self._steps:
            with self._changed:
                self._steps = max(self._steps - 1, 0)

    def wait(self, seconds: float) -> None:
        """None, when something was asked for, or after some seconds."""
        with self._changed:
            if self.paused and not self.urgent:
                self._changed.wait(seconds)


class Transport(ABC):
    """A connection to an external program. `exchange` is all that a run needs; times are those of time.monotonic()."""

    @abstractmethod
    def open(self, exchange: Exchange, requests: Requests) -> None:
        """None; the program can connect from now on. `requests` are for what it asks for besides commands."""

    @abstractmethod
    def exchange(self, tick: int, signals: Mapping[str, np.ndarray], deadline: float) -> Command | None:
        """The command for a tick: sends the signals, and waits for the answer until the deadline.

        Returns None if there is none in time, or as soon as `requests.urgent`; an older command if that is the newest one that
        has come. Raises a ConnectError if the program was connected and is not any more, or sends what cannot be used.
        """

    @abstractmethod
    def check(self) -> None:
        """None; shows the program that this side is alive, while a run is paused. A ConnectError if the program has ended."""

    @abstractmethod
    def close(self, reason: str) -> None:
        """None; tells the program why the run is over, and frees what was opened. Does nothing the second time."""
