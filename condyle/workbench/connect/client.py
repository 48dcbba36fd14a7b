"""The external program's side, in Python: connect to a simulation, get the signals of every control period, send commands.

    with connect("arm") as link:                    # shared memory; "ws://127.0.0.1:8765" is a WebSocket
        for state in link:
            link.send(effort=-0.5 * state["v"])

Nothing here compiles anything: NumPy and the standard library are enough for shared memory, `websockets` for a WebSocket.
"""

from __future__ import annotations

import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from types import TracebackType
from typing import Any, Self

import numpy as np

from condyle.errors import ConnectError, require
from condyle.robot.names import nearest
from condyle.workbench.connect import memory_block
from condyle.workbench.connect.memory_block import CLIENT, COMMAND, OVER, SERVER, SIGNAL

TIMEOUT = 30.0  # s that the simulation may take for a control period
CONNECT_TIME = 10.0  # s that it may take to begin
MAX_BYTES = 1 << 26  # of a message from the simulation
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class State:
    """The signals of a tick by name, `state["q"]`; t is the simulated time in s."""

    tick: int
    t: float
    signals: Mapping[str, np.ndarray]

    def __getitem__(self, name: str) -> np.ndarray:
        """A signal."""
        if name not in self.signals:
            raise ConnectError(f"the simulation sends no signal '{name!s:.60}'{nearest(str(name), list(self.signals))}")
        return self.signals[name]


class Link(ABC):
    """A connection to a simulation: an iterator over the states of its control periods, until the run is over.

    `signals` and `commands` are names and shapes; `description` has robot, mode, dt, every and the names of joints. `ended` says
    why the run is over. A simulation that ends without a word is a ConnectError.
    """

    signals: Shapes
    commands: Shapes
    description: dict[str, Any]
    ended: str = ""

    def __iter__(self) -> Iterator[State]:
        while (state := self.receive()) is not None:
            yield state

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close("" if error is None else f"{kind.__name__ if kind else ''}: {error}")

    @abstractmethod
    def receive(self) -> State | None:
        """The signals of the next control period, the newest if several have passed; None when the run is over."""

    @abstractmethod
    def transmit(self, numbers: np.ndarray) -> None:
        """None; sends a command as its numbers in the order of `commands`; it answers the last state that was received."""

    @abstractmethod
    def close(self, reason: str = "") -> None:
        """None; ends the run if it is not over, and says why."""

    def send(self, **commands: Any) -> None:
        """None; sends a command by name, which answers the last state that was received. All commands must be given."""
        for name in commands:
            if name not in self.commands:
                raise ConnectError(f"the simulation takes no command '{name!s:.60}'{nearest(name, list(self.commands))}")
        parts = []
        for name, shape in self.commands.items():
            if name not in commands:
                raise ConnectError(f"the command '{name}' is missing; the simulation takes {', '.join(self.commands)}")
            try:
                value = np.asarray(commands[name], dtype=float)
            except (TypeError, ValueError):
                raise ConnectError(f"the command '{name}' must be numbers, got {commands[name]!r:.60}") from None
            if value.shape != shape:
                raise ConnectError(f"the command '{name}' has shape {shape}, got {value.shape}")
            parts.append(value.ravel())
        numbers = np.concatenate(parts)
        if not np.isfinite(numbers).all():
            raise ConnectError("a command must be finite numbers: it has a NaN or an infinity")
        self.transmit(numbers)

    def control(self, law: Callable[[State], Mapping[str, Any]]) -> str:
        """Why the run ended, after every state was answered with the commands law(state)."""
        for state in self:
            self.send(**law(state))
        return self.ended


def connect(
    where: str = "robot", *, wait: float = CONNECT_TIME, timeout: float = TIMEOUT, token: str = "", binary: bool = True
) -> Link:
    """A link to the simulation that serves at `where`: a name or path of shared memory, or an address ws://127.0.0.1:PORT.

    It waits up to `wait` s for the simulation to begin, and later up to `timeout` s for each state. `token` and `binary` are of
    WebSockets.
    """
    end = time.monotonic() + wait
    while True:
        try:
            if where.startswith(("ws://", "wss://")):
                return SocketLink(where, timeout=timeout, token=token, binary=binary)
            return MemoryLink(where, timeout=timeout)
        except (ConnectError, ConnectionError) as error:
            if time.monotonic() > end or "another program" in str(error) or "token" in str(error):
                raise error if isinstance(error, ConnectError) else ConnectError(f"{where}: {error}") from None
            time.sleep(0.02)


def split(numbers: np.ndarray, shapes: Shapes) -> dict[str, np.ndarray]:
    """{name: array} of numbers that are in the order of `shapes`."""
    found, at = {}, 0
    for name, shape in shapes.items():
        size = prod(shape)
        found[name] = numbers[at : at + size].reshape(shape)
        at += size
    return found


class MemoryLink(Link):
    """A link over shared memory."""

    def __init__(self, name: str | os.PathLike[str], *, timeout: float = TIMEOUT, spin: float = memory_block.SPIN) -> None:
        self._block = memory_block.attach(memory_block.path_of(name))
        self.timeout, self.spin = timeout, spin
        self.description = self._block.description()
        self.signals, self.commands = self._block.shapes(SIGNAL), self._block.shapes(COMMAND)
        self._dt = float(self._block.number("dt"))
        self._seen, self._tick, self._open = 0, 0, True

    def receive(self) -> State | None:
        """The next state; see Link."""
        block, end = self._block, time.monotonic() + self.timeout
        while self._open and not self.ended:
            found = block.read_block("state", self._seen)
            if found is not None:
                self._seen, self._tick, numbers = found
                if block.number("server_end") == OVER:
                    self.ended = block.text("server_reason") or "the run is over"
                    return None
                return State(self._tick, self._tick * self._dt, split(numbers, self.signals))
            if not block.wait("state", self._seen, end, self._alive, self.spin) and time.monotonic() >= end:
                quiet = f"its last sign of life was {block.quiet(SERVER):.1f} s ago"
                raise ConnectError(f"the simulation sent nothing after tick {self._tick:,} for {self.timeout:g} s; {quiet}")
        return None

    def transmit(self, numbers: np.ndarray) -> None:
        """None; see Link."""
        if not self.ended:
            self._block.heartbeat(CLIENT)
            self._block.write_block("command", self._tick, numbers)

    def close(self, reason: str = "") -> None:
        """None; see Link."""
        if not self._open:
            return
        self._open = False
        if not self.ended:
            self._block.write_text("client_reason", reason)
            self._block.write_block("command", self._tick, None, ("client_end", OVER))
        self._block.close()

    def _alive(self) -> bool:
        block = self._block
        block.heartbeat(CLIENT)
        if not block.locked(SERVER) and block.read_block("state", self._seen) is None:
            process = block.number("server_pid")
            raise ConnectError(f"the simulation (process {process}) ended without a word after tick {self._tick:,}")
        return True


class SocketLink(Link):
    """A link over a WebSocket, as the program that commands; the messages are those of `condyle.workbench.connect.messages`."""

    def __init__(self, address: str, *, timeout: float = TIMEOUT, token: str = "", binary: bool = True) -> None:
        require("websockets", "websocket", "a WebSocket")
        from websockets.exceptions import ConnectionClosed
        from websockets.sync.client import connect as open_socket

        self._closed: type[Exception] = ConnectionClosed
        self.timeout, self.binary, self._tick = timeout, binary, 0
        self._socket = open_socket(address, compression=None, max_size=MAX_BYTES, open_timeout=10.0)
        hello = {"type": "hello", "role": "commander", "binary": binary, **({"token": token} if token else {})}
        self._socket.send(json.dumps(hello))
        welcome = self._next()
        if not isinstance(welcome, dict) or welcome.get("type") != "welcome":
            self._socket.close()
            said = welcome.get("message", welcome) if isinstance(welcome, dict) else "bytes"
            raise ConnectError(f"{address} refused this program: {said}")
        self.description = welcome
        self.signals = {name: tuple(shape) for name, shape in welcome["signals"].items()}
        self.commands = {name: tuple(shape) for name, shape in welcome["commands"].items()}

    def receive(self) -> State | None:
        """The next state; see Link."""
        while not self.ended:
            found = self._next()
            if isinstance(found, bytes):
                self._tick = int.from_bytes(found[:8], "little")
                t = float(np.frombuffer(found, "<f8", 1, 8)[0])
                return State(self._tick, t, split(np.frombuffer(found, "<f8", -1, 16), self.signals))
            if found.get("type") == "end":
                self.ended = str(found.get("reason"))
            elif found.get("type") == "error":
                raise ConnectError(f"the simulation refuses a message: {found.get('message')}")
            elif found.get("type") == "state":
                self._tick = int(found["tick"])
                given = {name: np.array(found["signals"][name], dtype=float) for name in self.signals}
                return State(self._tick, float(found["t"]), given)
        return None

    def transmit(self, numbers: np.ndarray) -> None:
        """None; see Link."""
        if self.binary:
            self._send(self._tick.to_bytes(8, "little") + numbers.astype("<f8").tobytes())
        else:
            values = {name: value.tolist() for name, value in split(numbers, self.commands).items()}
            self._send(json.dumps({"type": "command", "tick": self._tick, "values": values}))

    def request(self, kind: str, **fields: Any) -> None:
        """None; asks for "pause", "resume", "step" (periods=n), "reset" or "stop"."""
        self._send(json.dumps({"type": kind, **fields}))

    def close(self, reason: str = "") -> None:
        """None; see Link."""
        if not self.ended:
            with suppress(self._closed):
                self._socket.send(json.dumps({"type": "stop", "reason": reason[:200]}))
        self._socket.close()
        self.ended = self.ended or "this program closed the connection"

    def _send(self, message: str | bytes) -> None:
        # of a closed connection the end, if there is one, is among the messages that have come
        with suppress(self._closed):
            self._socket.send(message)

    def _next(self) -> Any:
        try:
            found = self._socket.recv(timeout=self.timeout)
        except TimeoutError:
            raise ConnectError(f"the simulation sent nothing after tick {self._tick:,} for {self.timeout:g} s") from None
        except self._closed:
            raise ConnectError(f"the simulation closed the connection without a word after tick {self._tick:,}") from None
        return found if isinstance(found, bytes) else json.loads(found)
