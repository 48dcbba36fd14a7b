"""PiDog stands and is pushed, 3,000 steps: the run repeats bit for bit, exported, imported, and cut by a kill."""

import os
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from workbench.runs.small import same

import condyle as cd
from condyle.workbench.runs.convert import export_run, import_run
from condyle.workbench.runs.run import Run

pytestmark = pytest.mark.slow

STEPS, TESTS = 3000, Path(__file__).resolve().parents[2]

CHILD = "import sys; from pathlib import Path; from workbench.runs.test_pidog import stand; stand(Path(sys.argv[1]))"


@cache
def world() -> cd.Simulation:
    """On its feet, with a wrench at the torso."""
    return cd.Simulation(cd.load("pidog"), 0.002, cd.Plane(friction=0.5), ["*_foot"], wrenches=["torso"])


def stand(path: Path | None = None) -> Run:
    """Dropped from a little height, held by PD with noise on what it measures, pushed every second."""
    here = world()
    q0 = here.robot.neutral()
    q0[2] = 0.12
    for end, angles in {"f": (40.61, 15.54), "h": (60.28, 5.26)}.items():
        for side, sign in (("l", 1.0), ("r", -1.0)):
            for joint, angle in zip(("hip", "knee"), angles, strict=True):
                q0[here.robot.q_slice(f"{side}{end}_{joint}")] = np.radians(sign * angle)
    with cd.Recorder(here, here.state(q0), path, title="stand", controller="PD", seed=7) as recorder:
        for k in range(STEPS):
            q, v = here.split(recorder.x)
            measured = q[7:] + 0.01 * cd.random.normal(7, 0, k, 0, shape=12)
            push = np.zeros((1, 6))
            push[0, 1] = 0.5 if k % 500 < 25 else 0.0
            recorder.step(2.0 * (q0[7:] - measured) - 0.01 * v[6:], push, measured=measured)
    assert recorder.run is not None
    return recorder.run


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Path]:
    path = tmp_path_factory.mktemp("pidog") / "pidog.cdl"
    return stand(path), path


def test_three_thousand_steps_replay(standing: tuple[Run, Path]) -> None:
    run, path = standing
    again = cd.read_run(path)
    assert same(again, run) and again.lost is None
    replay = again.check()
    assert str(replay) == "bit-identical: 3,000 steps, 37 entries each"
    # it is on the ground, not thrown about: the feet carry its weight
    assert 0.0 < again.q[-1, 2] < 0.13 and np.abs(again.v[-1]).max() < 3.0
    load = again.contact_forces[1000:, :, 2].sum(axis=1).mean()
    assert load == pytest.approx(again.robot.mass * 9.81, rel=0.05)
    x = again.x.copy()
    x[1700, 20] = np.nextafter(x[1700, 20], 1.0)
    changed = Run(again.about, x, again.u, again.wrenches, again.extras).with_simulation(again.simulation).check()
    assert not changed.identical and changed.step == 1700 and changed.entry == run.names[20]


@pytest.mark.parametrize("kind", ["csv", "parquet", "mcap"])
def test_replay_after_export_and_import(standing: tuple[Run, Path], kind: str, tmp_path: Path) -> None:
    run, path = standing
    export_run(cd.read_run(path), tmp_path / f"pidog.{kind}")
    again = import_run(tmp_path / f"pidog.{kind}")
    assert same(again, run) and str(again.check(simulation=run.simulation)) == "bit-identical: 3,000 steps, 37 entries each"
    again.save(tmp_path / "again.cdl")
    assert same(cd.read_run(tmp_path / "again.cdl"), run)


def test_replay_after_a_kill(standing: tuple[Run, Path], tmp_path: Path) -> None:
    run, _ = standing
    path = tmp_path / "killed.cdl"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)])}
    process = subprocess.Popen([sys.executable, "-c", CHILD, str(path)], env=environment)
    try:
        start = time.monotonic()
        while not (path.exists() and path.stat().st_size > 400_000) and time.monotonic() - start < 120:
            time.sleep(1e-3)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    cut = cd.read_run(path)
    assert 500 < cut.steps < STEPS and cut.lost is not None and f"after step {cut.steps:,}" in cut.lost
    assert cut.x.tobytes() == run.x[: cut.steps + 1].tobytes() and cut.u.tobytes() == run.u[: cut.steps].tobytes()
    assert cut.check(simulation=run.simulation).identical
