"""The benchmark of the GPU from a folder of prepared cases, run in the interpreter of PTX."""

import json
from pathlib import Path

import numpy as np
import pytest
from tape.interpreted_gpu import take_the_place_of_a_gpu

from benchmarks import gpu, gpu_cases, gpu_peers, measured


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    gpu_cases.save(tmp_path, list(gpu_cases.cases("double_pendulum", states=8)))
    return tmp_path


def test_a_case_survives_the_folder(folder: Path) -> None:
    (case,) = gpu_cases.cases("double_pendulum", states=8)
    (again,) = gpu_cases.load(folder)
    assert again.tape.hash == case.tape.hash and again.name == case.name
    assert all(np.array_equal(a, b) for a, b in zip(again.arrays, case.arrays, strict=True))


def test_rates_and_bits_go_into_the_result_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    take_the_place_of_a_gpu(monkeypatch)
    gpu.main([str(folder), "--batches", "4,16", "--precision", "f32", "--json", str(folder / "gpu.json")])
    found = measured.read(folder / "gpu.json")
    assert found.computer["gpu"] == "interpreter"
    assert {(row.backend, row.batch) for row in found.rates} == {(where, n) for where in ("cuda", "cpu") for n in (4, 16)}
    assert all(row.per_second > 0.0 and row.task == "forward dynamics" and row.nv == 2 for row in found.rates)
    assert found.facts["cases"]["forward dynamics, double_pendulum f32"]["same_bits"] is True
    assert "same bits" in capsys.readouterr().out


def test_other_bits_are_noticed(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    take_the_place_of_a_gpu(monkeypatch)
    with np.load(folder / gpu_cases.CASES) as file:
        arrays = dict(file)
    arrays["0/0"][7, 1] = np.nextafter(arrays["0/0"][7, 1], 9.0)  # one input of one state, by one bit
    np.savez(folder / gpu_cases.CASES, **arrays)
    gpu.main([str(folder), "--batches", "4", "--precision", "f64", "--no-cpu", "--json", str(folder / "gpu.json")])
    assert "BITS DIFFER" in capsys.readouterr().out
    facts = json.loads((folder / "gpu.json").read_text())["facts"]["cases"]
    assert facts["forward dynamics, double_pendulum f64"]["same_bits"] is False


def test_a_library_that_is_missing_or_fails_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(folder: Path, task: str, count: int) -> gpu_peers.Call:
        if count > 4:
            raise MemoryError("out of memory\nand more")
        return lambda: None

    def missing(folder: Path, task: str, count: int) -> gpu_peers.Call:
        raise ModuleNotFoundError("No module named 'warp'", name="warp")

    libraries = {"missing": missing, "fails": fails}
    monkeypatch.setattr(gpu_peers, "LIBRARIES", libraries)
    said: list[str] = []
    rates = list(gpu_peers.measure(tmp_path, (4, 8), said.append))
    assert [(rate.library, rate.task, rate.batch) for rate in rates] == [("fails", task, 4) for task in gpu_peers.TASKS]
    assert said.count("missing is left out: the package warp is not installed") == 1
    assert "fails, step, standing, 8 robots: MemoryError: out of memory" in said
