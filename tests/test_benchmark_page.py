"""The benchmark page and the README's table are what the command makes of the committed results; nothing is typed by hand."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.measured import RESULTS, Measured, Rate, read, read_all, write
from benchmarks.page import PAGE, README, advice, page, with_table
from benchmarks.page_pictures import draw
from benchmarks.page_text import counted, paragraph, seconds


@pytest.fixture(scope="module")
def found() -> list[Measured]:
    return read_all()


def test_the_page_is_made_from_the_results(found: list[Measured]) -> None:
    assert PAGE.read_text() == page(found), "run python -m benchmarks page"


def test_the_readme_s_table_is_made_from_the_results(found: list[Measured]) -> None:
    text = README.read_text()
    assert with_table(text, found) == text, "run python -m benchmarks page"


def test_another_result_gives_another_page(found: list[Measured]) -> None:
    robots = next(each for each in found if each.name == "robots")
    slower = [replace(rate, per_second=rate.per_second / 2) if rate.library == "Condyle" else rate for rate in robots.rates]
    changed = [replace(each, rates=slower) if each is robots else each for each in found]
    assert page(changed) != page(found) and with_table(README.read_text(), changed) != README.read_text()


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.name)
def test_a_result_says_where_and_how_it_was_measured(path: Path) -> None:
    result = read(path)
    assert result.command.startswith("python -m benchmarks ") and result.date
    assert {"processor", "cores", "load", "versions"} <= result.computer.keys()
    assert all(rate.per_second > 0.0 and rate.batch > 0 for rate in result.rates)
    assert result.rates or result.facts


@pytest.mark.docs
def test_both_pictures_are_drawn(found: list[Measured], tmp_path: Path) -> None:
    paths = draw(found, tmp_path)
    assert [path.name for path in paths] == ["benchmarks_batch.png", "benchmarks_dof.png"]
    assert all(5_000 < path.stat().st_size < 100_000 for path in paths)


def test_a_result_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    rate = Rate("forward dynamics", "panda", 7, "Condyle", "cuda", "f32", 1024, 1e9, 0)
    write(
        tmp_path / "x.json", "gpu", "python -m benchmarks gpu", [rate], {"cases": {}}, {"processor": "p", "cores": 2, "load": 0.5}
    )
    again = read(tmp_path / "x.json")
    assert again.rates == [rate] and again.place.startswith("p, 2 cores, load 0.5, ")


def test_where_the_gpu_overtakes() -> None:
    def rates(backend: str, *values: float) -> list[Rate]:
        batches = (100, 10_000)
        return [Rate("step", "r", 7, "Condyle", backend, "f32", n, x) for n, x in zip(batches, values, strict=True)]

    cpu = rates("cpu", 10.0, 10.0)
    assert advice([*cpu, *rates("cuda", 1.0, 100.0)], "step", "r", "f32") == "1,000"
    assert advice([*cpu, *rates("cuda", 20.0, 100.0)], "step", "r", "f32") == "100 or less"
    assert advice([*cpu, *rates("cuda", 1.0, 9.0)], "step", "r", "f32") == "never"
    assert advice(cpu, "step", "r", "f32") == "-"


def test_numbers_and_lines() -> None:
    assert [seconds(t) for t in (56.49e-9, 1.2345e-6, 4.14e-4, 2.0, 1234.4)] == ["56.5 ns", "1.23 µs", "414 µs", "2 s", "1,234 s"]
    assert counted(3149.0) == "3,100"
    lines = paragraph("word " * 24 + "`python -m benchmarks page` and more").splitlines()
    assert len(lines) == 2 and any("`python -m benchmarks page`" in line for line in lines)
