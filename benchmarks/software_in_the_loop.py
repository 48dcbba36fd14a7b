"""An external program that controls the UR3 over shared memory and a WebSocket: round trips in lock-step, jitter in real time."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from condyle.errors import ConnectError
from condyle.workbench.connect.external import Command, ExternalControl, Requests, Transport
from condyle.workbench.connect.shared_memory import SharedMemory
from condyle.workbench.connect.websocket import WebSocket
from condyle.workbench.view.server import free_port

ROOT = Path(__file__).resolve().parent.parent
READY = np.array([0.0, -np.pi / 2, np.pi / 2, -np.pi / 2, 0.0, 0.0])
DT, EVERY = 0.00025, 4
PRIORITY = 50

PYTHON = """
import sys
from condyle.workbench.connect.client import connect
where, option = sys.argv[1:]
link = connect(where, wait=60.0, binary=option == "binary")
if option == "spin":
    link.spin = 2e-5
with link:
    for state in link:
        link.send(effort=-2.0 * state["v"])
"""
C = """
#include "condyle_link.h"
int main(int n, char **words)
{
    struct condyle_link link;
    if (condyle_connect(&link, words[n - 1], 60.0))
        return 1;
    const double *v = condyle_signal(&link, "v");
    while (condyle_receive(&link) > 0) {
        for (int i = 0; i < 6; i++)
            link.command[i] = -2.0 * v[i];
        condyle_send(&link);
    }
    condyle_close(&link, "");
    return 0;
}
"""


class Inside(Transport):
    """The same law without a program, for comparison."""

    def open(self, exchange: Any, requests: Requests) -> None:
        """None."""

    def exchange(self, tick: int, signals: Any, deadline: float) -> Command:
        """The command."""
        return Command(tick, {"effort": -2.0 * signals["v"]})

    def check(self) -> None:
        """None."""

    def close(self, reason: str) -> None:
        """None."""


class Connections:
    """The connections to a program: a transport, and the command line of the program that uses it."""

    def __init__(self, folder: str) -> None:
        self.name = f"benchmark-{os.getpid()}"
        self.program = self._built(folder)

    def _built(self, folder: str) -> Path | None:
        if shutil.which("gcc") is None:
            return None
        Path(folder, "damp.c").write_text(C)
        program = Path(folder, "damp")
        include = ["-I", str(ROOT / "examples" / "external")]
        subprocess.run(["gcc", "-O2", *include, "-o", str(program), str(Path(folder, "damp.c"))], check=True)
        return program

    def all(self) -> dict[str, Callable[[], tuple[Transport, list[str] | None]]]:
        """{label: () -> (transport, command line)}."""
        python = [sys.executable, "-c", PYTHON]

        def memory(option: str, spin: float = 0.0) -> Callable[[], tuple[Transport, list[str] | None]]:
            return lambda: (SharedMemory(self.name, spin=spin), [*python, self.name, option])

        def socket(option: str) -> Callable[[], tuple[Transport, list[str] | None]]:
            port = free_port("127.0.0.1", 0)
            return lambda: (WebSocket(port), [*python, f"ws://127.0.0.1:{port}", option])

        found: dict[str, Callable[[], tuple[Transport, list[str] | None]]] = {
            "no program": lambda: (Inside(), None),
            "shared memory, Python": memory("sleep"),
            "shared memory, Python, spinning for 20 us": memory("spin", 2e-5),
        }
        if self.program is not None:
            program = str(self.program)
            found["shared memory, C"] = lambda: (SharedMemory(self.name), [program, self.name])
        return found | {"WebSocket, Python, bytes": socket("binary"), "WebSocket, Python, JSON": socket("json")}


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the tables and return their numbers, in seconds."""
    world = cd.Simulation(cd.load("ur3"), dt=DT)
    external = ExternalControl(world, Inside(), every=EVERY)
    loop = external.loop
    periods, seconds = (20, 0.02) if tiny else (10_000, 10.0)
    console.print(f"load of the computer, 1, 5 and 15 minutes: {' '.join(f'{x:.2f}' for x in os.getloadavg())}")
    with TemporaryDirectory() as folder:
        connections = Connections(folder).all()
        lockstep = {label: round_trips(loop, connection, periods) for label, connection in connections.items()}
        table = Table("lock-step, 4 ticks of 0.25 ms each", "round trips per s", "median, us", "99 %, us", "times real time")
        for label, times in lockstep.items():
            mean = float(np.mean(times))
            quantiles = [f"{1e6 * np.quantile(times, part):.0f}" for part in (0.5, 0.99)]
            table.add_row(label, f"{1.0 / mean:,.0f}", *quantiles, f"{DT * EVERY / mean:.1f}")
        console.print(table)
        paced: dict[str, Any] = {}
        for label, connection in connections.items():
            if label.endswith(("20 us", "JSON")) or (tiny and "WebSocket" in label):
                continue
            for priority in (0, PRIORITY):
                pacing = in_real_time(loop, connection, seconds, priority)
                if pacing is not None:
                    paced[f"{label}, priority {priority}" if priority else label] = pacing.summary()
    head = ("real time, 1 kHz", "periods", "late commands", "left out", "median, us", "99 %", "99.9 %", "latest")
    table = Table(*head)
    for label, found in paced.items():
        late = [f"{1e6 * found['late'][key]:.0f}" for key in ("median", "p99", "p999", "max")]
        table.add_row(label, f"{found['periods']:,}", f"{found['overruns']:,}", f"{found['slips']:,}", *late)
    console.print(table)
    numbers = {label: {"mean": float(np.mean(times)), "median": float(np.median(times))} for label, times in lockstep.items()}
    return {"load": os.getloadavg(), "lockstep": numbers, "realtime": paced}


def started(command: list[str] | None, priority: int = 0) -> subprocess.Popen[bytes] | None:
    """The program, with the same priority as the simulation, where the system allows it."""
    if command is None:
        return None
    program = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)})
    if priority:
        with suppress(PermissionError):
            os.sched_setscheduler(program.pid, os.SCHED_FIFO, os.sched_param(priority))
    return program


def round_trips(loop: cd.Loop, connection: Callable[[], tuple[Transport, list[str] | None]], periods: int) -> np.ndarray:
    """Seconds of every control period in lock-step, with simulation and recording in a file."""
    transport, command = connection()
    external = ExternalControl(loop, transport, every=EVERY)
    program, marks = started(command), []
    with TemporaryDirectory() as folder:
        external.run(
            loop.state(READY), periods * EVERY, Path(folder, "run.cdl"), progress=lambda _: marks.append(time.perf_counter())
        )
    if program is not None:
        program.wait(20.0)
    return np.diff(marks)


def in_real_time(
    loop: cd.Loop, connection: Callable[[], tuple[Transport, list[str] | None]], seconds: float, priority: int
) -> Any:
    """How punctual the periods of a run by the clock were; None if the system does not allow the priority."""
    transport, command = connection()
    external = ExternalControl(loop, transport, every=EVERY, mode="realtime", priority=priority)
    program = started(command, priority)
    with TemporaryDirectory() as folder:
        try:
            external.run(loop.state(READY), round(seconds / (DT * EVERY)) * EVERY, Path(folder, "run.cdl"))
        except ConnectError as error:
            if "does not allow the priority" not in str(error):
                raise
            if program is not None:
                program.kill()
            return None
    if program is not None:
        program.wait(20.0)
    return external.pacing


if __name__ == "__main__":
    run(Console())
