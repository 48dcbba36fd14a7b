"""Shared memory: blocks are read whole while they are written, one program at a time, and C has the same layout and bits."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from workbench.connect.pendulum_loop import START, Program
from workbench.connect.test_external import fresh

import condyle as cd
from condyle.errors import ConnectError
from condyle.workbench.connect import memory_block
from condyle.workbench.connect.client import MemoryLink, connect
from condyle.workbench.connect.external import ExternalControl
from condyle.workbench.connect.memory_block import CLIENT, COMMAND, HEADER, HEADER_BYTES, ROW, SERVER, SIGNAL
from condyle.workbench.connect.served_loop import served
from condyle.workbench.connect.shared_memory import SharedMemory

ROOT = Path(__file__).resolve().parents[3]
EXTERNAL = ROOT / "examples" / "external"
SIGNALS, COMMANDS = {"q": (3,), "image": (2, 4)}, {"effort": (2,)}
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")


@pytest.fixture
def block() -> Any:
    made = memory_block.create(memory_block.path_of(fresh()), SIGNALS, COMMANDS, 0, 0.001, 4, {"robot": "none"})
    yield made
    made.path.unlink(missing_ok=True)
    made.close()


def test_the_table_and_the_description(block: memory_block.Block) -> None:
    other = memory_block.attach(block.path)
    assert other.shapes(SIGNAL) == SIGNALS and other.shapes(COMMAND) == COMMANDS
    assert other.description() == {"robot": "none"} and len(other.state) == 11
    assert (other.number("state_offset") | other.number("command_offset")) % 64 == 0
    assert block.locked(CLIENT) and other.locked(SERVER) and block.quiet(CLIENT) < 60.0
    other.close()
    assert not block.locked(CLIENT)


def test_a_block_is_read_whole_while_it_is_written(block: memory_block.Block) -> None:
    reader = memory_block.attach(block.path, read_only=True)
    over = threading.Event()

    def write() -> None:
        tick = 0
        while not over.is_set():
            tick += 1
            block.write_block("state", tick, np.full(11, float(tick)))

    thread = threading.Thread(target=write)
    thread.start()
    seen, ticks, start = 0, [], time.monotonic()
    # half a second, or as long as a busy computer needs for a few blocks
    while (past := time.monotonic() - start) < 0.5 or (len(ticks) <= 10 and past < 60.0):
        found = reader.read_block("state", seen)
        if found is not None:
            seen, tick, numbers = found
            assert set(numbers.tolist()) == {float(tick)}
            ticks.append(tick)
    over.set()
    thread.join()
    reader.close()
    assert len(ticks) > 10 and ticks == sorted(set(ticks))


def test_a_block_that_is_never_finished_is_not_read(block: memory_block.Block) -> None:
    block._words[HEADER["state_sequence"].offset // 4] = 7  # odd: its writer died
    assert block.read_block("state", 0) is None
    assert not block.wait("state", 0, time.monotonic() + 0.05, lambda: True)


def test_who_waits_is_woken(block: memory_block.Block) -> None:
    other = memory_block.attach(block.path)
    woken: list[float] = []

    def wait() -> None:
        if other.wait("state", 0, time.monotonic() + 10.0, lambda: True, spin=0.0):
            woken.append(time.monotonic())

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.05)
    sent = time.monotonic()
    block.write_block("state", 1, np.zeros(11))
    thread.join(10.0)
    other.close()
    assert woken and woken[0] - sent < memory_block.SLICE + 5.0


def test_one_program_at_a_time(block: memory_block.Block) -> None:
    first = MemoryLink(block.path)
    with pytest.raises(ConnectError, match=r"^another program .process .* is connected"):
        connect(str(block.path), wait=0.0)
    first.close()
    MemoryLink(block.path).close()


def test_one_server_at_a_time(block: memory_block.Block, tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match=r"^another simulation serves at"):
        memory_block.create(block.path, SIGNALS, COMMANDS, 0, 0.001, 4, {})
    other = tmp_path / "notes.txt"
    other.write_text("these are notes of mine")
    with pytest.raises(ConnectError, match="exists and is no shared memory"):
        memory_block.create(other, SIGNALS, COMMANDS, 0, 0.001, 4, {})
    assert other.read_text() == "these are notes of mine"


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 4096, b"CDYLLINK" + b"\x02" + b"\0" * 4096, b"CDYLLINK\x01\0\0\0" + b"\xff" * 4096]
)
def test_other_files_are_refused_in_one_sentence(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ConnectError, match=re.escape(str(path))):
        memory_block.attach(path)


def test_there_is_nothing_to_connect_to(tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match=r"^/dev/shm/condyle-.* cannot be opened .no simulation serves there"):
        connect(fresh(), wait=0.0)
    with pytest.raises(ConnectError, match="needs a name"):
        memory_block.path_of("")
    with pytest.raises(ConnectError, match="names have at most 95 bytes"):
        memory_block.create(tmp_path / "a", {"x" * 96: (1,)}, {}, 0, 0.001, 4, {})
    with pytest.raises(ConnectError, match="cannot be created"):
        memory_block.create(tmp_path / "no" / "a", {}, {}, 0, 0.001, 4, {})


@pytest.fixture(scope="module")
def pendulum() -> cd.Loop:
    return served(cd.Simulation(cd.load("double_pendulum"), dt=0.001), None)


def test_wrong_commands_are_refused_where_they_are_made(pendulum: cd.Loop) -> None:
    found: list[str] = []

    def act(link: Any) -> None:
        state = link.receive()
        for wrong in ({"efort": [0, 0]}, {}, {"effort": [1.0]}, {"effort": [np.nan, 0]}, {"effort": "ab"}):
            try:
                link.send(**wrong)
            except ConnectError as error:
                found.append(str(error))
        try:
            state["gravty"]
        except ConnectError as error:
            found.append(str(error))
        # past the checks: the simulation refuses it
        link.transmit(np.array([np.nan, 0.0]))
        link.receive()

    name = fresh()
    program = Program(name, act)
    control = ExternalControl(pendulum, SharedMemory(name), connect_time=20.0)
    with pytest.raises(ConnectError, match="the command 'effort' has a number that is not finite"):
        control.run(pendulum.state(START), 40)
    assert program.done().error == "" and program.ended.startswith("the command 'effort' has a number that is not finite")
    wanted = ["no command 'efort'", "is missing", "has shape", "finite numbers", "must be numbers", "no signal 'gravty'"]
    assert len(found) == 6 and all(word in text for word, text in zip(wanted, found, strict=True))


# ---- C


@needs_gcc
def test_the_layout_in_c_is_the_layout_in_python(tmp_path: Path) -> None:
    members = [*HEADER, "server_reason"]
    lines = [f'printf("{name} %zu\\n", offsetof(struct condyle_header, {name}));' for name in members]
    source = tmp_path / "layout.c"
    source.write_text(
        f'#include "{EXTERNAL / "condyle_link.h"}"\nint main(void) {{ {" ".join(lines)} '
        'printf("header %zu row %zu\\n", sizeof(struct condyle_header), sizeof(struct condyle_row)); return 0; }\n'
    )
    subprocess.run(["gcc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-o", tmp_path / "layout", source], check=True)
    *rows, sizes = subprocess.run([tmp_path / "layout"], check=True, capture_output=True, text=True).stdout.splitlines()
    assert dict(row.split() for row in rows) == {name: str(field.offset) for name, field in HEADER.items()}
    assert sizes == f"header {HEADER_BYTES} row {ROW.size}"


@needs_gcc
def test_a_program_in_c_gives_the_bits_of_one_in_python(pendulum: cd.Loop, tmp_path: Path) -> None:
    build = [
        "gcc",
        "-std=c11",
        "-O2",
        "-ffp-contract=off",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-o",
        tmp_path / "pd",
        EXTERNAL / "pd.c",
    ]
    subprocess.run(build, check=True)
    goal, runs = np.array([0.3, -0.4]), []

    def law(state: Any) -> dict[str, Any]:
        return {"effort": state["gravity"] + state["inertia"] * (100.0 * (goal - state["q"]) - 20.0 * state["v"])}

    for language in ("c", "python"):
        name = fresh()
        control = ExternalControl(pendulum, SharedMemory(name), signals=["gravity", "inertia"], connect_time=20.0)
        if language == "c":
            program = subprocess.Popen([tmp_path / "pd", name, *map(str, goal)], stdout=subprocess.PIPE, text=True)
        else:
            thread = Program(name, lambda link: link.control(law))
        runs.append(control.run(pendulum.state(START), 2000))
        if language == "c":
            out, _ = program.communicate(timeout=20.0)
            assert program.returncode == 0 and out == "the run is complete: 2,000 ticks\n"
        else:
            assert not thread.done().error
    assert runs[0].hash == runs[1].hash and np.abs(runs[0].q[-1] - goal).max() < 1e-3


@needs_gcc
def test_a_program_in_c_says_what_is_wrong(tmp_path: Path) -> None:
    source = tmp_path / "connects.c"
    source.write_text(
        f'#include "{EXTERNAL / "condyle_link.h"}"\n'
        "int main(int n, char **a) { struct condyle_link link; int k = condyle_connect(&link, a[n - 1], 0.0);"
        ' printf("%s\\n", link.message); return k ? 1 : 0; }\n'
    )
    subprocess.run(["gcc", "-std=c11", "-o", tmp_path / "connects", source], check=True)
    (tmp_path / "zeros").write_bytes(b"\0" * 4096)
    for name, sentence in (
        ("nosuch-robot", "no simulation serves at /dev/shm/condyle-nosuch-robot"),
        (tmp_path / "zeros", "no shared"),
    ):
        done = subprocess.run([tmp_path / "connects", name], capture_output=True, text=True, timeout=20)
        assert done.returncode == 1 and sentence in done.stdout
