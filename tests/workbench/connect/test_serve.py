"""`condyle serve` and `condyle watch`: a served robot is recorded and repeats, and is shown as it runs; errors are a sentence."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import CliRunner
from workbench.connect.pendulum_loop import Program
from workbench.connect.test_external import external, fresh

import condyle as cd
from condyle.commands.cli import app
from condyle.errors import ConnectError
from condyle.workbench.connect.external import Requests
from condyle.workbench.connect.shared_memory import SharedMemory
from condyle.workbench.connect.transport import Exchange, Transport
from condyle.workbench.connect.watch import Watch
from condyle.workbench.view.server import free_port


def invoke(*words: str) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def damp(link: Any) -> None:
    link.control(
        lambda state: {name: -0.1 * state["v"] if name == "effort" else np.zeros(shape) for name, shape in link.commands.items()}
    )


def test_a_served_robot_is_recorded_and_repeats(tmp_path: Path) -> None:
    name, file = fresh(), tmp_path / "new" / "run.cdl"
    program = Program(name, damp)
    words = [
        "double_pendulum",
        "--name",
        name,
        "--dt",
        "0.001",
        "--seconds",
        "0.1",
        "--joint",
        "shoulder=0.4",
        "--json",
        "-o",
        str(file),
    ]
    done = invoke("serve", *words, "--signal", "gravity", "--wrench", "tip")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["steps"] == 100 and found["files"] == [str(file)] and found["pacing"] is None
    assert found["commands"] == {"effort": [2], "wrench": [6]} and list(found["signals"]) == [
        "q",
        "v",
        "u",
        "wrenches",
        "gravity",
    ]
    assert program.done().ended == found["ended"] == "the run is complete: 100 ticks"
    again = invoke("replay", str(file), "--check")
    assert again.exit_code == 0 and "bit-identical: 100 steps" in again.output


EXPERIMENT = """
duration = 0.05
[robot]
name = "double_pendulum"
[controller]
name = "NAME"
[sensors]
position_noise = 1e-3
delay = 0.002
dropout = 0.1
"""


def test_an_experiment_of_the_lab_is_served(tmp_path: Path) -> None:
    pytest.importorskip("condyle.apps.lab.experiment", reason="the lab is another part of the package")
    name, file, run = fresh(), tmp_path / "lab.toml", tmp_path / "run.cdl"

    def act(link: Any) -> None:
        link.control(lambda state: {"u_external": 2.0 * (state["reference"][:2] - state["sensors.position"])})

    file.write_text(EXPERIMENT.replace("NAME", "external"))
    program = Program(name, act)
    done = invoke("serve", str(file), "--name", name, "-o", str(run))
    assert done.exit_code == 0 and not program.done().error, done.output
    again = invoke("replay", str(run), "--check")
    assert again.exit_code == 0 and "bit-identical" in again.output
    file.write_text(EXPERIMENT.replace("NAME", "pid"))
    done = invoke("serve", str(file), "--name", name)
    assert done.exit_code == 2 and 'write name = "external" to serve it' in done.stderr


def test_in_real_time_over_a_websocket() -> None:
    port = free_port("127.0.0.1", 0)
    program = Program(f"ws://127.0.0.1:{port}", damp, token="abc")
    words = ["--transport", "websocket", "--port", str(port), "--mode", "realtime", "--token", "abc"]
    done = invoke("serve", "double_pendulum", *words, "--dt", "0.001", "--seconds", "0.1")
    assert done.exit_code == 0, done.output
    assert "late commands, the last one was held" in done.stdout and not program.done().error


def test_a_program_that_leaves_is_exit_code_one(tmp_path: Path) -> None:
    name, file = fresh(), tmp_path / "run.cdl"

    def crash(link: Any) -> None:
        for state in link:
            if state.tick == 40:
                link._block.close()  # as the kernel does when a process dies
                link._open = False
                return
            link.send(effort=np.zeros(2))

    Program(name, crash)
    done = invoke("serve", "double_pendulum", "--name", name, "--dt", "0.001", "-o", str(file))
    assert done.exit_code == 1
    assert "ended without a word at tick 40" in done.stderr and cd.read_run(file).steps == 40


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--transport", "shmm"], "--transport must be shm or websocket, got 'shmm' (did you mean 'shm'?)"),
        (["--mode", "fast"], "--mode must be lockstep or realtime"),
        (["--seconds", "-1"], "--seconds must be above zero"),
        (["-o", "run.txt"], "does not end in .cdl"),
        (["--command", "torque"], "a program commands effort or position, not 'torque'"),
        (["--wrench", "nowhere"], "has no frame 'nowhere' for a wrench"),
        (["--signal", "gravty"], "the loop has no 'gravty' to record (did you mean 'gravity'?)"),
    ],
)
def test_wrong_options_are_one_sentence(words: list[str], sentence: str) -> None:
    done = invoke("serve", "double_pendulum", *words)
    assert done.exit_code == 2 and sentence in done.stderr and done.stderr.count("\n") <= 2


def test_the_viewer_is_another_process_that_ends_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Any] = []

    class Viewer:
        def __init__(self, arguments: list[str], **_: Any) -> None:
            self.name, self.seen, self.ended = arguments[4], [], False
            started.append(self)

        def terminate(self) -> None:
            self.ended = True

        def wait(self) -> None:
            pass

    monkeypatch.setattr("condyle.commands.serve.subprocess.Popen", Viewer)
    port = free_port("127.0.0.1", 0)

    def act(link: Any) -> None:
        for state in link:
            if state.tick == 8:
                watch = Watch(started[0].name)
                started[0].seen.append(watch.newest())
                watch.close()
            link.send(effort=np.zeros(2))

    program = Program(f"ws://127.0.0.1:{port}", act)
    words = ["--transport", "websocket", "--port", str(port), "--dt", "0.001", "--seconds", "0.02", "--view"]
    done = invoke("serve", "double_pendulum", *words)
    assert done.exit_code == 0 and not program.done().error, done.output
    (viewer,) = started
    assert viewer.ended and viewer.seen[0].t == 0.008 and not Path(viewer.name).exists()


def test_nothing_to_watch() -> None:
    done = invoke("watch", fresh(), "--wait", "0")
    assert done.exit_code == 2 and "no simulation serves there" in done.stderr


def test_a_window_shows_the_newest_state() -> None:
    pytest.importorskip("viser", reason="the viewer needs viser: pip install 'condyle[viewer]'")
    from condyle.workbench.connect.watch import open_watch

    memory = SharedMemory(fresh())
    described = external(memory).exchange
    memory.open(described, Requests())
    signals = {name: np.zeros(shape) for name, shape in described.signals.items()}
    with open_watch(memory.path, port=0) as window:
        for tick in range(1, 60):
            memory.publish(10 * tick, {**signals, "q": np.array([0.01 * tick, 0.2])})
            time.sleep(0.005)
        end = time.monotonic() + 20.0
        while (window.view.now is None or window.view.now.t < 0.59) and time.monotonic() < end:
            time.sleep(0.02)
        assert window.view.now.q.tolist() == [0.59, 0.2] and window.view.states > 3 and window.error is None
        memory.close("it is over")
        while not window.view.over and time.monotonic() < end:
            time.sleep(0.02)
        assert window.view.over == "it is over"
        time.sleep(0.3)
        assert "over: it is over" in window.view.status.content and window.error is None


def test_what_cannot_be_shown_is_one_sentence() -> None:
    memory = SharedMemory(fresh())
    described = external(memory).exchange
    memory.open(Exchange(**{**vars(described), "simulation_data": None}), Requests())
    with pytest.raises(ConnectError, match="does not describe its world"):
        Watch(memory.path)
    memory.close("")


def test_a_transport_is_an_interface() -> None:
    assert Transport.__abstractmethods__ == {"open", "exchange", "check", "close"}
