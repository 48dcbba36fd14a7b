"""Runs of closed loops: step, rollout, file and replay have the same bits; block states, references and parameters are kept."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from closed_loop.parts import Lag, NoisyPD, arm_loop
from workbench.runs.small import same

import condyle as cd
from condyle.errors import ControlError, FileError, SimulationError
from condyle.workbench.runs.convert import export_run, import_run
from condyle.workbench.runs.run import Run

TARGET = np.array([0.4, 0.5])
STEPS = 150


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A lag, a delay, a noisy controller and resets, with a parameter of a block and one of the world."""
    path = tmp_path_factory.mktemp("loop") / "arm.cdl"
    loop = arm_loop()
    with cd.Recorder(loop, loop.state([0.1, 0.2]), path, seed=7, robot=5, parameters=PARAMETERS, record=["pd.error"]) as recorder:
        recorder.rollout(TARGET, 100)
        for _ in range(STEPS - 100):
            recorder.step(TARGET)
    assert recorder.run is not None
    return recorder.run


PARAMETERS = {"servo.lag": 0.04}


def test_step_rollout_file_and_replay_have_the_same_bits(run: Run) -> None:
    loop = arm_loop()
    x = loop.state([0.1, 0.2])
    out = loop.rollout(x[None], TARGET, STEPS, seed=7, robots=np.array([5]), parameters=PARAMETERS, record=["x", "u", "pd.error"])
    np.testing.assert_array_equal(run.all_states[1:], out["x"][0])
    np.testing.assert_array_equal(run.u, out["u"][0])
    np.testing.assert_array_equal(run.extras["pd.error"], out["pd.error"][0])
    np.testing.assert_array_equal(run.extras["target"], np.tile(TARGET, (STEPS, 1)))
    assert run.path is not None and same(cd.read_run(run.path), run) and run.lost is None
    for options in ({}, {"lanes": 4}, {"batch": 7}):
        replay = cd.read_run(run.path).check(loop, **options)
        assert replay and replay.steps == STEPS and replay.entries == loop.nx
    assert run.states["episode.count"][-1] > 0


def test_states_of_blocks_have_names(run: Run, tmp_path: Path) -> None:
    assert run.x.shape == (STEPS + 1, 4) and run.states["servo.angle"].shape == (STEPS + 1, 2)
    assert run.names[4] == "tick" and "servo.angle.1" in run.names and run.states["tick"].tolist() == list(range(STEPS + 1))
    assert run.signals()["servo.angle"].names == ["servo.angle.0", "servo.angle.1"]
    run.plot(tmp_path / "a.svg", signals=["servo.angle", "pd.error", "target"])
    for suffix in ("csv", "parquet", "mcap"):
        path = tmp_path / f"run.{suffix}"
        export_run(run, path)
        assert same(import_run(path), run) and import_run(path).check(arm_loop())
    assert "servo.angle.0" in (tmp_path / "run.csv").read_text().splitlines()[2]


def test_a_changed_bit_of_a_block_or_reference_is_found(run: Run) -> None:
    assert run.block_states is not None
    column = run.names.index("servo.angle.0") - 4
    changed = run.block_states.copy()
    changed[60, column] = np.nextafter(changed[60, column], 1.0)
    found = replace(run, block_states=changed).check(arm_loop())
    assert (found.step, found.entry, found.ulps) == (60, "servo.angle.0", 1)
    extras = {**run.extras, "target": run.extras["target"] + 1e-9}
    assert not replace(run, extras=extras).check(arm_loop())
    assert replace(run, u=run.u * 1.0001).check(arm_loop()).entry == "u.0"
    assert not replace(run, about={**run.about, "seed": 8}).check(arm_loop())


def test_without_its_loop_a_run_says_what_it_needs(run: Run) -> None:
    assert run.path is not None
    with pytest.raises(FileError, match=r"episodes, which only its loop can begin again: pass it, run\.check\(loop\)"):
        cd.read_run(run.path).check()
    other = cd.Loop(cd.Simulation(cd.load("double_pendulum"), 0.004), lambda x, target: target, target=2)
    with pytest.raises(FileError, match="recorded with another loop: its states"):
        run.check(other)
    slower = cd.Loop(cd.Simulation(cd.load("double_pendulum"), 0.002), lambda x, target: target, target=2)
    with pytest.raises(FileError, match="recorded with another world"):
        run.check(slower)
    unknown = replace(run, about={**run.about, "loop": {**run.about["loop"], "built_in": "os.system"}})
    with pytest.raises(FileError, match=r"names the loop 'os\.system', which this Condyle does not have"):
        unknown.check()


@pytest.mark.parametrize("changing", [False, True])
def test_the_robot_alone_is_replayed_from_what_it_was_given(changing: bool, tmp_path: Path) -> None:
    """A user's loop, without the loop: noise, a local wrench; damping by the tick and a mass by the call."""
    lag, pd = Lag(2, 0.05, name="servo"), NoisyPD(2, name="pd")
    robot = cd.load("double_pendulum")
    tip, link, joint = robot.frame_names[-1], robot.model.links[-1].name, robot.joint_names[0]

    def control(x: Any, target: Any) -> dict[str, Any]:
        push = (np.concatenate([x.q, np.zeros(4)]), "local")
        damping = {f"{joint}.damping": 0.1 + 0.01 * x.t} if changing else {}
        return {"u": pd(lag(target), x.q, x.v)["tau"], "wrenches": {tip: push}, "parameters": damping}

    loop = cd.Loop(cd.Simulation(robot, 0.004), control, target=2)
    path = tmp_path / "own.cdl"
    with cd.Recorder(loop, loop.state([0.1, 0.2]), path, parameters={f"{link}.mass": 1.3} if changing else None) as recorder:
        recorder.rollout(TARGET, 70)
    run = cd.read_run(path)
    assert run.wrenches.shape == (70, 1, 6) and (f"parameters.{joint}.damping" in run.extras) == changing
    assert run.check() and run.check(loop) and run.check().entries == 4 + changing
    x = run.x.copy()
    x[30, 1] += 1e-15
    assert replace(run, x=x).check().step == 30


def test_a_loop_that_fails_keeps_the_ticks_before(tmp_path: Path) -> None:
    loop = cd.Loop(cd.Simulation(cd.load("double_pendulum"), 0.004), lambda x, target: target / (x.tick - 80.0), target=2)
    with pytest.raises(ControlError, match="tick 80"), cd.Recorder(loop, loop.state(), tmp_path / "a.cdl") as recorder:
        recorder.rollout(TARGET, 200)
    run = cd.read_run(tmp_path / "a.cdl")
    assert run.steps == 80 and run.check(loop) and "tick 80" in run.about["stopped"]
    simulation = cd.Simulation(cd.load("double_pendulum"), 0.004)
    with pytest.raises(SimulationError, match="belong to runs of a loop"):
        cd.Recorder(simulation, simulation.state(), record=["q"])
    with pytest.raises(SimulationError, match="references alone"):
        cd.Recorder(loop, loop.state()).step(TARGET, level=1.0)
    with pytest.raises(ControlError, match="has no 'uu' to record"):
        cd.Recorder(loop, loop.state(), record=["uu"])


def test_a_robot_without_controls_is_recorded_and_replays() -> None:
    robot = cd.load("birotor").lock(["tilt_1", "tilt_2"])
    world = cd.Simulation(robot, dt=0.01, wrenches=["thrust_1"])
    loop = cd.Loop(world, lambda x, f: {"u": np.zeros(0), "wrenches": {"thrust_1": f}}, f=6)
    with cd.Recorder(loop, loop.state()) as recorder:
        recorder.rollout([0.1, 0.2, 7.0, 0.01, 0.02, 0.03], 10)
        recorder.step([0.1, 0.2, 7.0, 0.01, 0.02, 0.03])
    run = recorder.run
    assert run is not None and run.u.shape == (11, 0) and run.check(loop) and run.check()


def test_a_loop_that_was_cut_before_its_first_tick_is_checked() -> None:
    loop = arm_loop()
    empty = cd.Recorder(loop, loop.state([0.1, 0.2])).finish()
    assert empty.steps == 0 and empty.check(loop)
