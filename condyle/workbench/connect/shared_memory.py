"""An external program over shared memory: the server's side. The layout is in `memory_block`, the program's side in `client`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from condyle.errors import ConnectError
from condyle.workbench.connect import memory_block
from condyle.workbench.connect.memory_block import CLIENT, OVER, SERVER, Block
from condyle.workbench.connect.transport import LOCKSTEP, Command, Exchange, Requests, Transport


class SharedMemory(Transport):
    """A file in memory, /dev/shm/condyle-NAME or at a path, that one program reads signals from and writes commands to.

    `spin`: s of looking for a command before sleeping, which takes the processor from others.
    """

    def __init__(self, name: str | os.PathLike[str] = "robot", *, spin: float = memory_block.SPIN) -> None:
        self.path: Path = memory_block.path_of(name)
        self.spin = float(spin)
        self._block: Block | None = None
        self._seen, self._lost = 0, ""

    def open(self, exchange: Exchange, requests: Requests) -> None:
        """None; the file is there, and a program can connect."""
        self._exchange, self._requests, self._seen, self._lost = exchange, requests, 0, ""
        self._lockstep = exchange.mode == LOCKSTEP
        mode = 0 if self._lockstep else 1
        text = description_of(exchange)
        self._block = memory_block.create(self.path, exchange.signals, exchange.commands, mode, exchange.dt, exchange.every, text)
        self._node = os.stat(self.path).st_ino

    def exchange(self, tick: int, signals: Mapping[str, np.ndarray], deadline: float) -> Command | None:
        """The command for a tick; see Transport."""
        block, requests = self._opened(), self._requests
        self.publish(tick, signals)
        older: Command | None = None
        while True:
            found = block.read_block("command", self._seen)
            if found is not None:
                self._seen, answered, numbers = found
                if block.number("client_end") == OVER:
                    said = block.text("client_reason") or "it has finished"
                    return Command(answered, {}, f"the external program ended the run: {said}")
                command = Command(answered, self._exchange.command_of(numbers))
                if answered == tick:
                    return command
                # an answer to an earlier tick is the newest command in real time, and nothing in lock-step
                older = None if self._lockstep else command
            if requests.urgent or not block.wait("command", self._seen, deadline, self._alive, self.spin):
                return older

    def publish(self, tick: int, signals: Mapping[str, np.ndarray]) -> None:
        """None; the signals of a tick are in the file, for the program and for those who watch."""
        block = self._opened()
        block.heartbeat(SERVER)
        block.write_block("state", tick, self._exchange.flat(signals), ("state_time", tick * self._exchange.dt))

    def check(self) -> None:
        """None; a sign of life, and a ConnectError if the program has ended."""
        self._opened().heartbeat(SERVER)
        self._alive()

    def close(self, reason: str) -> None:
        """None; the program learns why, and the file is removed."""
        block, self._block = self._block, None
        if block is None:
            return
        block.write_text("server_reason", reason)
        tick = int(block.number("state_tick"))
        block.write_block("state", tick, None, ("server_end", OVER))
        with suppress(OSError):
            if os.stat(self.path).st_ino == self._node:
                os.unlink(self.path)
        block.close()

    def _opened(self) -> Block:
        if self._block is None:
            raise ConnectError("this shared memory is not open: ExternalControl.run opens it")
        return self._block

    def _alive(self) -> bool:
        """Whether to go on waiting; a ConnectError if the program was connected and has ended without a word."""
        block = self._opened()
        block.heartbeat(SERVER)
        process = int(block.number("client_pid"))
        if process and not block.locked(CLIENT):
            # its last command may have come before it ended
            if block.read_block("command", self._seen) is not None:
                return True
            tick = int(block.number("state_tick"))
            raise ConnectError(f"the external program (process {process}) ended without a word at tick {tick:,}")
        return not self._requests.urgent


def description_of(exchange: Exchange) -> dict[str, Any]:
    """What the description of the file has, as JSON data."""
    return {
        "robot": exchange.robot,
        "mode": exchange.mode,
        "dt": exchange.dt,
        "every": exchange.every,
        "joints": list(exchange.joints),
        "coordinates": list(exchange.coordinates),
        "velocities": list(exchange.velocities),
        "urdf": exchange.urdf,
        "simulation": exchange.simulation_data,
    }
