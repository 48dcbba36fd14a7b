"""Watching a run that another process serves: its newest state, read from shared memory without a word to the simulation."""

from __future__ import annotations

import os

from condyle.errors import ConnectError
from condyle.simulate.simulation import Simulation
from condyle.workbench.connect import memory_block
from condyle.workbench.connect.memory_block import OVER, SERVER, SIGNAL
from condyle.workbench.connect.transport import split
from condyle.workbench.runs.json_codec import DecodeError
from condyle.workbench.runs.serialize import decode_simulation
from condyle.workbench.view.window import Watched, Window, watch_window


class Watch:
    """The newest state of a simulation that serves at a name or path of shared memory; any number of processes may watch.

    `simulation` is the one that was served, built from what the file describes.
    """

    def __init__(self, name: str | os.PathLike[str] = "robot") -> None:
        self._block = memory_block.attach(memory_block.path_of(name), read_only=True)
        try:
            data = self._block.description().get("simulation")
            if data is None:
                raise ConnectError(f"{self._block.path} does not describe its world, which has functions: it cannot be shown")
            try:
                self.simulation: Simulation = decode_simulation(data)
            except DecodeError as error:
                raise ConnectError(f"{self._block.path} describes no simulation that can be built: {error}") from None
        except BaseException:
            self._block.close()
            raise
        self._shapes, self._dt = self._block.shapes(SIGNAL), float(self._block.number("dt"))
        self._seen, self.over = 0, ""

    def newest(self) -> Watched | str | None:
        """The newest state; None if it has not changed since the last call; why the run is over, when it is."""
        block = self._block
        if self.over:
            return self.over
        found = block.read_block("state", self._seen)
        if block.number("server_end") == OVER:
            self.over = block.text("server_reason") or "the run is over"
        elif found is None and not block.locked(SERVER):
            tick = block.number("state_tick")
            self.over = f"the simulation (process {block.number('server_pid')}) ended without a word after tick {tick:,}"
        if self.over:
            return self.over
        if found is None:
            return None
        self._seen, tick, numbers = found
        parts = split(numbers, self._shapes)
        return Watched(tick * self._dt, parts["q"], parts["v"], parts.get("u", numbers[:0]), parts.get("wrenches"))

    def close(self) -> None:
        """None; the shared memory is let go."""
        self._block.close()


def open_watch(
    name: str | os.PathLike[str] = "robot", *, dark: bool = False, host: str = "127.0.0.1", port: int = 8080
) -> Window:
    """A window in the browser that shows the run which another process serves."""
    watch = Watch(name)
    title = os.fspath(name)
    return watch_window(watch.simulation, watch.newest, title=title, dark=dark, host=host, port=port)
