"""`condyle bench`: rates by batch, and which backend to use; the GPU is the interpreter of PTX."""

import json
from pathlib import Path

import pytest
from command_line import CliRunner
from tape.interpreted_gpu import take_the_place_of_a_gpu

from condyle.commands import bench as bench_command
from condyle.commands import bench_batches
from condyle.commands.bench_batches import GPU, ONE_THREAD, sentence
from condyle.commands.cli import app
from condyle.errors import BackendError
from condyle.tape import cuda_driver
from condyle.tape.timing import crossover


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_batches, "ON_CPU", (1, 4, 8))
    monkeypatch.setattr(bench_batches, "ON_GPU", (4, 8))
    monkeypatch.setattr(bench_batches, "STATES", 8)
    # two processes each, which test_cli.py starts
    monkeypatch.setattr(bench_command, "first_results", lambda of: {"compiled": 0.2, "cached": 0.1})


def bench(*words: str) -> str:
    done = CliRunner().invoke(app, ["bench", *words, "--seconds", "0", "--batch", "4"])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_without_a_gpu_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(number: int) -> None:
        raise BackendError("there is no GPU 0")

    monkeypatch.setattr(cuda_driver, "device", none)
    (robot,) = json.loads(bench("double_pendulum", "--json"))["robots"]
    found = robot["batches"]
    assert found["gpu"] == "" and found["advice"] == ["no GPU was found, so only the processor was measured: there is no GPU 0"]
    assert set(found["tasks"]) == {"forward dynamics"} and GPU not in found["tasks"]["forward dynamics"]
    assert set(found["tasks"]["forward dynamics"][ONE_THREAD]) == {"1", "4", "8"}
    assert "no GPU was found" in bench("double_pendulum")


def test_with_a_gpu_it_says_which_backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    take_the_place_of_a_gpu(monkeypatch)
    text = bench("pendulum", "--precision", "f32", "--plot", str(tmp_path / "rates.png"))
    # the interpreter takes milliseconds for a state
    assert "interpreter" in text and "the processor at every measured batch, up to 8 states" in text and "float32" in text
    assert (tmp_path / "rates.png").stat().st_size > 5_000


@pytest.mark.slow
def test_a_robot_with_feet_is_measured_in_contact() -> None:
    tasks = bench_batches.tasks_of(bench_batches.Origin("pidog"))
    function, (x, u) = tasks["step with 27 contact points"]
    after, residual = function(x, u)
    assert after.shape == x.shape and residual.max() < 1e-9


def test_where_the_gpu_overtakes() -> None:
    cpu = {1: 1.0, 100: 10.0, 10_000: 10.0}
    assert crossover(cpu, {100: 1.0, 10_000: 100.0}) == pytest.approx(1000.0)
    assert crossover(cpu, {100: 11.0, 10_000: 100.0}) == 100.0
    assert crossover(cpu, {100: 1.0, 10_000: 9.0}) is None
    assert crossover({1: 1.0}, {2: 5.0}) is None
    # ahead, behind, ahead: only what stays ahead counts
    there = crossover({10: 1.0, 100: 1.0, 1000: 1.0}, {10: 2.0, 100: 0.1, 1000: 10.0})
    assert there is not None and 100.0 < there < 1000.0
    rates = {ONE_THREAD: {1: 1.0}, "16 threads": {100: 10.0, 10_000: 10.0}, GPU: {100: 1.0, 10_000: 100.0}}
    assert sentence("step", rates) == "step: below 1,000 states the processor, above it the GPU"


def test_a_wrong_precision_is_one_sentence() -> None:
    done = CliRunner().invoke(app, ["bench", "pendulum", "--precision", "f16"])
    assert done.exit_code == 2 and "--precision must be f64 or f32, got 'f16'" in done.output
