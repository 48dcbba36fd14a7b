"""`kill -9` of either side: the other one says so in one sentence, and the run up to there is in its file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from workbench.connect.pendulum_loop import START, noisy_loop
from workbench.connect.test_external import external, fresh

import condyle as cd
from condyle.errors import ConnectError
from condyle.workbench.connect.client import connect
from condyle.workbench.connect.shared_memory import SharedMemory
from condyle.workbench.connect.transport import Transport
from condyle.workbench.connect.websocket import WebSocket
from condyle.workbench.view.server import free_port

FOLDER = Path(__file__).resolve().parents[2]
LAST = 300  # tick of the last command

CLIENT = f"""
import os, signal, sys
from workbench.connect.pendulum_loop import law
from condyle.workbench.connect.client import connect
link = connect(sys.argv[1], wait=30.0)
for state in link:
    link.send(**law(state))
    if state.tick == {LAST}:
        os.kill(os.getpid(), signal.SIGKILL)
"""
SERVER = """
import sys
from workbench.connect.pendulum_loop import START, noisy_loop
from workbench.connect.test_external import external
from workbench.connect.test_kill import transport_of
external(transport_of(sys.argv[1])).run(noisy_loop().state(START), 100_000, sys.argv[2], seed=3)
"""


def transport_of(where: str) -> Transport:
    """The transport that serves at a name or an address."""
    return WebSocket(int(where.rpartition(":")[2])) if where.startswith("ws:") else SharedMemory(where)


def places() -> list[str]:
    return [fresh(), f"ws://127.0.0.1:{free_port('127.0.0.1', 0)}"]


def start(code: str, *arguments: str) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER.parent), str(FOLDER)])}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], env=environment)


@pytest.mark.parametrize("kind", [0, 1], ids=["shared memory", "websocket"])
def test_the_program_is_killed(kind: int, tmp_path: Path) -> None:
    where = places()[kind]
    program = start(CLIENT, where)
    control = external(transport_of(where), connect_time=40.0)
    # the kernel may drop what a killed process has just sent over a socket
    sentence = (
        r"process .* ended without a word at tick 304" if kind == 0 else r"closed its connection without a word at tick 30[04]"
    )
    with pytest.raises(ConnectError, match=sentence):
        control.run(noisy_loop().state(START), 10_000, tmp_path / "run.cdl", seed=3)
    assert program.wait(20.0) == -signal.SIGKILL
    run = cd.read_run(tmp_path / "run.cdl")
    # complete up to the last command, and it says why it ended
    assert LAST + 4 * (kind == 0) <= run.steps <= LAST + 4 and run.lost is None and run.check(noisy_loop()).identical
    assert "without a word" in run.about["stopped"]


@pytest.mark.parametrize("kind", [0, 1], ids=["shared memory", "websocket"])
def test_the_simulation_is_killed(kind: int, tmp_path: Path) -> None:
    from workbench.connect.pendulum_loop import law

    where = places()[kind]
    server = start(SERVER, where, str(tmp_path / "run.cdl"))
    try:
        with (
            pytest.raises(ConnectError, match=r"simulation .*without a word after tick"),
            connect(where, wait=40.0, timeout=10.0) as link,
        ):
            for state in link:
                link.send(**law(state))
                if state.tick == LAST:
                    server.kill()
        assert server.wait(20.0) == -signal.SIGKILL
    finally:
        server.kill()
    run = cd.read_run(tmp_path / "run.cdl")
    assert LAST - 64 <= run.steps <= LAST + 400 and run.lost is not None and not run.changed
    assert run.check(noisy_loop()).identical
    if kind == 0:
        # what the server left behind is replaced by the next one
        assert SharedMemory(where).path.exists()
        control = external(SharedMemory(where), connect_time=0.01)
        with pytest.raises(ConnectError, match="no program gave a first command"):
            control.run(noisy_loop().state(START), 8)
        assert not SharedMemory(where).path.exists()
