"""A replay says bit-identical, or the first step and entry that differ; never the one for the other."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workbench.runs.small import pendulum, swing

import condyle as cd
from condyle.errors import FileError, SimulationError
from condyle.workbench.runs.run import Run
from condyle.workbench.runs.signals import extremes


@pytest.fixture(scope="module")
def run() -> Run:
    return swing(100)


def changed(run: Run, step: int, entry: int, value: float) -> Run:
    x = run.x.copy()
    x[step, entry] = value
    return replace(run, x=x).with_simulation(run.simulation)


@pytest.mark.parametrize("options", [{}, {"lanes": 1}, {"lanes": 4}, {"threads": 2}, {"backend": "reference"}], ids=str)
def test_every_backend_replays(run: Run, options: dict[str, object]) -> None:
    replay = run.check(**options)
    assert replay and replay.identical and replay.steps == 100 and replay.step is None and replay.difference == 0.0


@given(st.integers(1, 100), st.integers(0, 3))
def test_one_changed_bit_is_found(run: Run, step: int, entry: int) -> None:
    value = np.nextafter(run.x[step, entry], np.inf)
    replay = changed(run, step, entry, float(value)).check()
    assert not replay and (replay.step, replay.entry) == (step, run.names[entry])
    assert replay.ulps == 1 and replay.expected == value and replay.got == run.x[step, entry]
    assert f"differs first at step {step} in {run.names[entry]}: " in str(replay) and "1 ulp apart" in str(replay)


def test_long_runs_are_computed_in_batches(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in (1, 7, 50, 100):
        monkeypatch.setattr("condyle.workbench.runs.replay.BATCH", size)
        assert run.check().identical and changed(run, 50, 2, 0.5).check().step == 50


def test_a_changed_start_or_control_differs_after_it(run: Run) -> None:
    assert changed(run, 0, 0, 0.1).check().step == 1
    u = run.u.copy()
    u[41, 0] += 1e-3
    assert replace(run, u=u).with_simulation(run.simulation).check().step == 42
    pushed = run.wrenches.copy()
    pushed[12] += 1.0
    assert replace(run, wrenches=pushed).with_simulation(run.simulation).check().step == 13
    assert changed(run, 50, 1, np.nan).check().step == 50


def test_zero_and_minus_zero_differ() -> None:
    still = cd.Recorder(pendulum(), np.zeros(4))
    still.step()
    run = still.finish()
    k = int(np.flatnonzero(run.x[1] == 0.0)[0])
    replay = changed(run, 1, k, -0.0 if not np.signbit(run.x[1, k]) else 0.0).check()
    assert not replay.identical and replay.difference == 0.0 and replay.ulps == 1


def test_other_simulations_are_refused(run: Run) -> None:
    robot = cd.load("double_pendulum")
    frame = [robot.frame_names[-1]]
    assert run.check(simulation=cd.Simulation(robot, 0.002, wrenches=frame)).identical
    with pytest.raises(FileError, match="recorded with another world"):
        run.check(simulation=cd.Simulation(robot, 0.001, wrenches=frame))
    with pytest.raises(FileError, match="recorded with another robot"):
        run.check(simulation=cd.Simulation(cd.load("cartpole"), 0.002))
    with pytest.raises(SimulationError, match="needs the simulation"):
        run.with_simulation(robot)  # type: ignore[arg-type]
    older = replace(run, about={**run.about, "world_hash": "0" * 64, "versions": {"condyle": "0.0.1"}})
    with pytest.raises(FileError, match=r"recorded with Condyle 0\.0\.1, this is"):
        older.check()
    with pytest.raises(FileError, match="its dt in the header"):
        replace(run, about={**run.about, "dt": 0.004}).check()


def test_simulation_with_a_function_is_passed(tmp_path: Path) -> None:
    """A force that is a function: the run is recorded all the same, and repeats with its simulation."""
    path = tmp_path / "force.cdl"
    robot = cd.load("cartpole")
    simulation = cd.Simulation(robot, 0.01, force=lambda model, q, v, t: -0.1 * v * (1.0 + t))
    with cd.Recorder(simulation, simulation.state(v=[1.0, 0.0]), path) as recorder:
        for _ in range(20):
            recorder.step([0.1, 0.0])
    run = cd.read_run(path)
    assert run.about["simulation_data"] is None and "force is a function" in run.about["simulation_missing"]
    with pytest.raises(FileError, match=r"force is a function, .* pass the simulation: run.check\(simulation=...\)"):
        run.check()
    assert run.check(simulation=simulation).identical and cd.read_run(path, simulation=simulation).check().identical
    # the robot is there all the same, and time is counted in the state
    assert run.robot.joint_names == robot.joint_names and run.names[-1] == "ticks" and run.x[-1, -1] == 20.0
    assert run.q.shape == run.v.shape == (21, 2) and "other states" in run.signals()


def test_extremes_keep_peaks() -> None:
    values = np.random.default_rng(0).normal(size=100_001)
    values[[31_415, 92_653]] = 9.0, -9.0
    which = extremes(values, 100)
    assert len(which) == 200 and np.all(np.diff(which) >= 0) and {31_415, 92_653} <= set(which)
    assert np.array_equal(extremes(values[:200], 100), np.arange(200))
