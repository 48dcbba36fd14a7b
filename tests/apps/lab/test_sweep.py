"""Sweeps: one table whatever the batch, the workers and the kills."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from apps.lab.experiments import TOML, small

from condyle.apps.lab.experiment import Experiment
from condyle.apps.lab.run import run_experiment
from condyle.apps.lab.sweep import Draw, SweepSpec, draw_of, grid_values, read_sweep, sweep
from condyle.apps.lab.sweep_page import sweep_page
from condyle.apps.lab.sweep_table import read_rows
from condyle.errors import ControlError, FileError

GRID = {"controller.kp": [100.0, 400.0, 900.0]}
RANDOM = {
    "plant.rod_2.mass": Draw("uniform", 0.8, 1.5),
    "seed": Draw("uniform", 0, 1000),
    "friction.coulomb": Draw("log_uniform", 1e-3, 1e-1),
}


@pytest.fixture(scope="module")
def complete():
    """Eighteen runs in one batch, in memory."""
    return sweep(small(), grid=GRID, random=RANDOM, samples=6, workers=1)


def test_the_table_does_not_depend_on_the_batch(complete):
    other = sweep(small(), grid=GRID, random=RANDOM, samples=6, workers=1, batch=5)
    assert other.hash == complete.hash and complete.ids == sorted(complete.ids) and len(set(complete.ids)) == 18
    assert np.all(complete.ok) and complete.csv.count("\n") == 19


def test_a_row_is_the_run_with_its_values(complete):
    k = 7
    values = {path: float(column[k]) for path, column in complete.values.items()}
    alone = run_experiment(small(seed=round(values.pop("seed"))), values=values)
    assert alone.metrics["rms_error"] == complete["rms_error"][k] and alone.metrics["effort"] == complete["effort"][k]


def test_it_goes_on_from_its_file(tmp_path, complete):
    path = tmp_path / "s.cds"
    first = sweep(small(), grid=GRID, random=RANDOM, samples=6, workers=1, batch=4, path=path)
    data = path.read_bytes()
    assert first.hash == complete.hash and first.computed == 18
    for cut in (len(data) * 2 // 3, len(data) - 5):
        path.write_bytes(data[:cut])
        again = sweep(small(), grid=GRID, random=RANDOM, samples=6, workers=1, batch=7, path=path)
        assert again.hash == complete.hash and 0 < again.computed < 18 and "ends in the middle of a record" in again.lost
        assert (tmp_path / "s.csv").read_text() == complete.csv
    flipped = bytearray(data)
    flipped[len(data) * 2 // 3] ^= 1
    path.write_bytes(flipped)
    assert sweep(small(), grid=GRID, random=RANDOM, samples=6, workers=1, path=path).hash == complete.hash
    with pytest.raises(FileError, match="another sweep"):
        sweep(small(), grid={"controller.kp": [100.0]}, workers=1, path=path)
    path.write_text("x,y\n")
    with pytest.raises(FileError, match="no table of a sweep"):
        sweep(small(), grid=GRID, workers=1, path=path)


CHILD = """
import sys
from condyle.apps.lab.experiment import Experiment
from condyle.apps.lab.sweep import Draw, sweep
draws = {"controller.kp": Draw("uniform", 100, 900)}
sweep(Experiment.read(sys.argv[1]), random=draws, samples=4000, workers=1, batch=4, path=sys.argv[2])
"""


@pytest.mark.slow
def test_kill_nine_and_resume(tmp_path):
    (tmp_path / "lab.toml").write_text(TOML)
    path, at = tmp_path / "s.cds", Experiment.read(tmp_path / "lab.toml")
    kept = 0
    for _ in range(2):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path / "lab.toml"), str(path)])
        end = time.monotonic() + 60
        while time.monotonic() < end and child.poll() is None:
            time.sleep(0.02)
            if path.exists() and path.stat().st_size > 1000 and len(read_rows(path)[1]) >= kept + 40:
                break
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        before, kept = kept, len(read_rows(path)[1])
        assert before < kept < 4000
    draws = {"controller.kp": Draw("uniform", 100, 900)}
    resumed = sweep(at, random=draws, samples=4000, workers=1, path=path)
    assert resumed.computed == 4000 - kept
    assert resumed.hash == sweep(at, random=draws, samples=4000, workers=1).hash


def test_values_that_need_a_build_or_rows_are_grouped():
    found = sweep(small(sensors=None), grid={"rates.control": [250.0, 500.0], "reference.at": [0.02, 0.04]}, workers=1)
    assert len(found.ids) == 4 and np.all(found.ok) and len(np.unique(found["iae"])) == 4


def test_runs_that_diverge_or_are_refused_are_marked():
    found = sweep(small(sensors=None), grid={"controller.kp": [400.0, 1e9]}, workers=1)
    best = found.best("rms_error")
    assert found.values["controller.kp"][best] == 400.0


def test_grids_and_draws_are_read():
    assert grid_values("1:3:3") == (1.0, 2.0, 3.0) and grid_values("1,2,4") == (1.0, 2.0, 4.0)
    assert np.allclose(grid_values("log:1:100:3"), [1.0, 10.0, 100.0])
    assert draw_of("normal:1:0.1") == Draw("normal", 1.0, 0.1)
    draws = [Draw("log_uniform", 1.0, 100.0).value(0, k, "x") for k in range(2000)]
    assert min(draws) >= 1.0 and max(draws) <= 100.0 and abs(np.mean(np.log10(draws)) - 1.0) < 0.05
    for text in ("1:2", "a", "log:0:1:3", "1:2:0", "inf"):
        with pytest.raises(ControlError, match="low:high:count"):
            grid_values(text)
    for text in ("uniform:2:1", "cauchy:0:1", "uniform:1", "log_uniform:0:1"):
        with pytest.raises(ControlError):
            draw_of(text)


def test_what_cannot_be_swept_is_one_sentence():
    with pytest.raises(ControlError, match=r"'controller.kpp' cannot be swept|no option|did you mean 'controller.kp'"):
        sweep(small(), grid={"controller.kpp": [1.0]}, workers=1)
    with pytest.raises(ControlError, match="has no key"):
        sweep(small(), grid={"friction.coulombb": [1.0]}, workers=1)
    with pytest.raises(ControlError, match="something to vary"):
        SweepSpec({}, {})
    with pytest.raises(ControlError, match="no engine 'rayy'"):
        sweep(small(), grid=GRID, engine="rayy")


def test_a_sweep_file(tmp_path):
    (tmp_path / "lab.toml").write_text(TOML)
    file = tmp_path / "sweep.toml"
    file.write_text('experiment = "lab.toml"\nsamples = 3\n[grid]\n"controller.kp" = [1, 2]\n[random]\n"seed" = "uniform:0:9"\n')
    experiment, spec = read_sweep(file)
    assert spec.count == 6 and experiment.rates.physics == 1000
    file.write_text('experiment = "lab.toml"\ngridd = 1\n')
    with pytest.raises(ControlError, match=r"sweep.toml: has no key 'gridd' \(did you mean 'grid'"):
        read_sweep(file)


def test_pages(complete):
    assert sweep_page(complete).count("<circle") > 18
    two = sweep(small(sensors=None), grid={"controller.kp": [100.0, 400.0], "controller.kd": [20.0, 40.0]}, workers=1)
    page = sweep_page(two, "rms_error")
    assert "controller.kd" in page and page.count("<title>") >= 4 and "http:" not in page
