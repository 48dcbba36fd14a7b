"""Recording: steps survive a kill of the process, and errors name what cannot be recorded."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from workbench.runs.small import pendulum, same, swing

import condyle as cd
from condyle.atomic_write import atomic_file, write_bytes
from condyle.errors import FileError, SimulationError

TESTS = Path(__file__).resolve().parents[2]

ENDLESS = """
import sys, numpy as np, condyle as cd
from workbench.runs.small import pendulum
recorder = cd.Recorder(pendulum(), [0.1, 0.2, 0.0, 0.0], sys.argv[1])
while True:
    recorder.step([0.01 * np.sin(0.1 * recorder.k), 0.0], level=float(recorder.k))
"""

FULL = """
import resource, sys, condyle as cd
from workbench.runs.small import pendulum
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
recorder = cd.Recorder(pendulum(), [0.1, 0.2, 0.0, 0.0], sys.argv[1])
try:
    while True:
        recorder.step()
except cd.FileError as error:
    print(error)
    run = recorder.finish()
    print(run.steps, run.check(), run.lost)
"""


KILLED = """
import os, signal, sys, condyle as cd
from workbench.runs.small import pendulum
os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
cd.Recorder(pendulum(), [0.1, 0.2, 0.0, 0.0], sys.argv[1], overwrite=True)
"""


def child(code: str, path: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    return subprocess.Popen([sys.executable, "-c", code, str(path)], env=environment, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("write", ["recorder", "overwriting recorder", "any file"])
def test_temporary_files_of_killed_processes_are_removed(write: str, tmp_path: Path) -> None:
    path = tmp_path / "a.cdl"
    path.write_bytes(b"old")
    with child(KILLED, path) as process:
        assert process.wait() == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    (abandoned,) = tmp_path.glob("condyle-*.tmp")
    elsewhere = [tmp_path / f"condyle-0123abcd-1-{k:016x}.tmp" for k in range(2)]
    for each in elsewhere:
        each.write_bytes(b"of another computer")
    os.utime(elsewhere[0], (1.0, time.time() - 3700.0))
    mine = tmp_path / "condyle-results.tmp"
    mine.write_bytes(b"of the user")
    with atomic_file(tmp_path / "b") as temporary:
        temporary.write_bytes(b"being written")
        if write == "any file":
            write_bytes(tmp_path / "c", b"other")
        else:
            other = path if write == "overwriting recorder" else tmp_path / "new.cdl"
            cd.Recorder(pendulum(), [0.1, 0.2, 0.0, 0.0], other, overwrite=True).finish()
        assert temporary.exists() and not abandoned.exists()
    assert set(tmp_path.glob("condyle-*")) == {elsewhere[1], mine}


def test_killed_process_leaves_its_run(tmp_path: Path) -> None:
    """kill -9 at some moment, several times: the file is read, replays bit for bit, and lacks at most one block."""
    pendulum().step(np.zeros(4))  # compiled before the children ask for it
    rng = np.random.default_rng(11)
    for trial, size in enumerate(rng.integers(20_000, 400_000, 4)):
        path = tmp_path / f"killed{trial}.cdl"
        process = child(ENDLESS, path)
        try:
            start = time.monotonic()
            while not (path.exists() and path.stat().st_size > size) and time.monotonic() - start < 60:
                time.sleep(1e-4)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()
        run = cd.read_run(path)
        # a step has 4 states, 2 controls, 6 of a wrench and a level
        assert (run.steps + 64) * 13 * 8 >= size - 10_000 and run.lost is not None and "was not finished" in run.lost
        assert run.extras["level"].tolist() == list(range(run.steps))
        replay = run.check()
        assert replay.identical and replay.steps == run.steps > 64


def test_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "full.cdl"
    output, _ = child(FULL, path).communicate(timeout=60)
    sentence, facts = output.splitlines()
    assert sentence.startswith(f"{path} cannot be written further (") and "steps are safe in it" in sentence
    kept = cd.read_run(path)
    # what does not fit is cut off, so that whole blocks remain, and the memory still has all
    assert kept.steps > 64 and kept.lost is not None and "the file ends after step" in kept.lost and kept.check().identical
    steps, _, rest = facts.partition(" ")
    assert int(steps) > kept.steps and rest == f"bit-identical: {int(steps):,} steps, 4 entries each None"


def test_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "run.cdl"
    path.write_text("precious")
    with pytest.raises(FileError, match=r"exists already.*overwrite=True"):
        swing(1, path)
    assert path.read_text() == "precious"
    run = swing(70, path, overwrite=True)
    assert same(cd.read_run(path), run) and os.listdir(tmp_path) == ["run.cdl"]
    # a second writer of the same file is refused while the first is at work
    other = tmp_path / "other.cdl"
    recorder = cd.Recorder(pendulum(), np.zeros(4), other)
    with pytest.raises(FileError, match="exists already"):
        cd.Recorder(pendulum(), np.zeros(4), other)
    recorder.step()
    assert recorder.finish().steps == cd.read_run(other).steps == 1
    for bad in (tmp_path, tmp_path / "no" / "run.cdl"):
        with pytest.raises(FileError, match="cannot be written"):
            cd.Recorder(pendulum(), np.zeros(4), bad)
        with pytest.raises(FileError, match="cannot be written"):
            cd.Recorder(pendulum(), np.zeros(4), bad, overwrite=True)


def test_states_are_those_of_the_simulation() -> None:
    simulation = pendulum()
    rng = np.random.default_rng(0)
    us, x = rng.standard_normal((100, 2)), np.array([0.5, -0.5, 1.0, 0.0])
    recorder = cd.Recorder(simulation, x)
    for k, u in enumerate(us):
        assert recorder.k == k and recorder.x.tobytes() == x.tobytes()
        x = simulation.step(x, u)
        assert recorder.step(u).tobytes() == x.tobytes()
    run = recorder.finish()
    assert run.path is None and run.u.tobytes() == us.tobytes() and run.simulation is simulation
    assert run.x.tobytes() == simulation.rollout(run.x[0], us).tobytes()
    assert recorder.finish() is run and recorder.run is run
    with pytest.raises(SimulationError, match="has finished"):
        recorder.step()


def test_blocks_are_written_with_time(tmp_path: Path) -> None:
    path = tmp_path / "slow.cdl"
    recorder = cd.Recorder(pendulum(), np.zeros(4), path)
    recorder.step()
    time.sleep(0.26)
    recorder.step()
    assert cd.read_run(path).steps >= 2
    recorder.finish()
    assert cd.read_run(path).lost is None


def test_error_in_the_block_ends_the_run(tmp_path: Path) -> None:
    path = tmp_path / "stopped.cdl"
    with pytest.raises(ZeroDivisionError), cd.Recorder(pendulum(), np.zeros(4), path) as recorder:
        recorder.step()
        _ = 1 / 0
    run = cd.read_run(path)
    assert run.steps == 1 and run.lost is None and run.about["stopped"] == "ZeroDivisionError: division by zero"


def test_wrong_arguments_are_refused() -> None:
    simulation = pendulum()
    for x0 in (np.zeros(3), np.zeros((2, 4)), [np.nan, 0.0, 0.0, 0.0], "x"):
        with pytest.raises(SimulationError):
            cd.Recorder(simulation, x0)
    with pytest.raises(SimulationError, match="needs a Simulation"):
        cd.Recorder(simulation.robot, np.zeros(4))  # type: ignore[arg-type]
    for about in ({"robot": "other"}, {"steps": 3}):
        with pytest.raises(SimulationError, match="must not have the name"):
            cd.Recorder(simulation, np.zeros(4), about=about)
    for odd in (np.float64(1.0) * np.ones(2), (1, 2), float("nan"), {3: 4}):
        with pytest.raises(FileError, match="JSON"):
            cd.Recorder(simulation, np.zeros(4), about={"odd": odd})
    for title in ("x" * 30_000, "\ud800"):
        with pytest.raises(SimulationError, match=r"about\.title"):
            cd.Recorder(simulation, np.zeros(4), title=title)
    recorder = cd.Recorder(simulation, np.zeros(4))
    for extras in ({"a": np.zeros(3_000_000)}, {"a": np.zeros((1,) * 9)}, {"\ud800": 1.0}):
        with pytest.raises(SimulationError, match="further signals"):
            recorder.step(**extras)
    recorder.step(a=1.0)
    for extras in ({}, {"a": [1.0]}, {"a": 1.0, "b": 2.0}, {"a": np.nan}, {"a": "x"}):
        with pytest.raises(SimulationError):
            recorder.step(**extras)
    with pytest.raises(SimulationError):
        recorder.step(np.zeros((2, 2)), a=1.0)
    with pytest.raises(SimulationError):
        recorder.step([np.inf, 0.0], a=1.0)
    # nothing of that was recorded
    run = recorder.finish()
    assert run.steps == 1 and run.check().identical


def test_run_without_steps(tmp_path: Path) -> None:
    run = swing(0, tmp_path / "none.cdl")
    again = cd.read_run(tmp_path / "none.cdl")
    assert same(again, run) and again.check().identical and again.contact_forces.shape == (0, 0, 3)
    assert again.steps == 0 and again.t.tolist() == [0.0]


def test_about_and_signals() -> None:
    run = swing(3, about={"friction": 0.5}, controller="noise")
    about = run.about
    assert (
        about["robot"] == "double_pendulum" and about["seed"] == 3 and about["friction"] == 0.5 and about["controller"] == "noise"
    )
    assert about["versions"]["condyle"] == cd.__version__ and about["computer"]["lanes"]["float64"] in (2, 4, 8)
    assert set(about["versions"]) >= {"condyle", "numpy", "python", "llvmlite"} and about["created"].endswith("+00:00")
    assert about["world_hash"] == run.simulation.hash and about["dt"] == run.dt == 0.002 and run.seconds == 0.006
    groups = run.signals()
    names = {group: signal.names for group, signal in groups.items()}
    assert groups["joint angles"].unit == "rad" and groups["joint angles"].values.tobytes() == run.q.tobytes()
    assert names["joint angles"] == run.robot.joint_names == names["torques"]
    assert {signal.unit for signal in groups.values()} == {"rad", "rad/s", "N m", "N", ""}
    assert groups["error"].values.shape == (3, 4) and names["error"] == ["error.0.0", "error.0.1", "error.1.0", "error.1.1"]
    assert all(signal.values.shape[1] == len(signal.names) for signal in groups.values())


def test_plot_returns_a_figure_and_writes_it(tmp_path: Path) -> None:
    run = swing(20)
    figure = run.plot(tmp_path / "a.svg", signals=["joints", "controls", "level"], compare=swing(10))
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert titles == ["joint angles, rad", "torques, N m", "level"] and (tmp_path / "a.svg").read_text().startswith("<?xml")
    assert len(run.plot().axes) == 4 and list(tmp_path.iterdir()) == [tmp_path / "a.svg"]
    with pytest.raises(cd.CondyleError, match=r"try a\.png"):
        run.plot(tmp_path / "a.bmp")
    with pytest.raises(cd.CondyleError, match="did you mean 'joints'"):
        run.plot(signals=["joint"])
