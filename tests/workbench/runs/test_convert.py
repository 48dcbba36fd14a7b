"""Export and import: the same bits come back, edited tables are marked as changed, other files are refused."""

import csv
import io
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from workbench.runs.small import same, swing

import condyle as cd
from condyle.errors import FileError
from condyle.workbench.runs import convert
from condyle.workbench.runs.convert import export_run, import_run
from condyle.workbench.runs.run import Run

KINDS = ("csv", "parquet", "mcap")


@pytest.fixture(scope="module")
def run() -> Run:
    return swing(100)


def awkward(run: Run) -> Run:
    """The run with signed zeros, denormals and extreme floats."""
    x, u = run.x.copy(), run.u.copy()
    x[0] = [-0.0, 0.0, 5e-324, -2.2250738585072009e-308]
    x[1] = [1.7976931348623157e308, 0.1, 1.0 / 3.0, -1e-200]
    u[:, 0] = np.where(np.arange(len(u)) % 2, 0.0, -0.0)
    return replace(run, x=x, u=u)


@pytest.mark.parametrize("kind", KINDS)
def test_round_trip_is_bit_exact(run: Run, kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"run.{kind}"
    for original in (run, awkward(run), swing(0), replace(run, lost="something was lost")):
        export_run(original, path)
        again = import_run(path)
        assert same(again, original) and again.lost == original.lost and again.path == path
    assert os.listdir(tmp_path) == [path.name]
    export_run(run, path)
    assert import_run(path).check().identical
    # and from there to a run file
    import_run(path).save(tmp_path / "run.cdl")
    assert same(import_run(tmp_path / "run.cdl"), run)


@pytest.mark.parametrize("kind", KINDS)
def test_without_controls_wrenches_and_signals(kind: str, tmp_path: Path) -> None:
    robot = cd.load("pendulum")
    recorder = cd.Recorder(cd.Simulation(robot, 0.01, actuated=[]), [0.5, 0.0])
    for _ in range(5):
        recorder.step()
    bare = recorder.finish()
    export_run(bare, tmp_path / "bare", kind)
    again = import_run(tmp_path / "bare")
    assert same(again, bare) and again.u.shape == (5, 0) and again.wrenches.shape == (5, 0, 6) and again.check().identical


def test_csv_columns(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    export_run(run, path)
    first, about, *lines = path.read_text().splitlines()
    assert first == "# condyle run 2" and json.loads(about[2:])["robot"] == "double_pendulum"
    rows = list(csv.DictReader(io.StringIO("\n".join(lines))))
    frame = run.about["columns"]["wrenches"][0]
    assert list(rows[0])[:3] == ["t", "q.joint1", "q.joint2"] or list(rows[0])[1:3] == run.names[:2]
    assert float(rows[7][run.names[1]]) == run.x[7, 1] and float(rows[3][f"wrench.{frame}.fx"]) == run.wrenches[3, 0, 0]
    assert float(rows[9]["extra.error.1.0"]) == run.extras["error"][9, 1, 0] and float(rows[9]["t"]) == run.t[9]
    assert len(rows) == 101 and rows[-1]["extra.level"] == ""
    assert np.loadtxt(path, delimiter=",", skiprows=3, max_rows=100)[:, 1:5].tobytes() == run.x[:-1].tobytes()


def test_parquet_columns_and_mcap_messages(run: Run, tmp_path: Path) -> None:
    import pyarrow.parquet
    from mcap.reader import make_reader

    export_run(run, tmp_path / "run.parquet")
    stored = pyarrow.parquet.read_table(tmp_path / "run.parquet")
    assert stored.column(run.names[2]).to_numpy().tobytes() == run.x[:, 2].tobytes() and stored.num_rows == 101
    export_run(run, tmp_path / "run.mcap")
    with open(tmp_path / "run.mcap", "rb") as stream:
        messages = [(c.topic, m.log_time, json.loads(m.data)) for _, c, m in make_reader(stream).iter_messages()]
    states = [message for topic, _, message in messages if topic == "/joint_states"]
    assert states[5]["positions"] == dict(zip(run.robot.joint_names, run.q[5].tolist(), strict=True))
    assert states[5]["velocities"] == dict(zip(run.robot.joint_names, run.v[5].tolist(), strict=True))
    assert list(states[5]["efforts"].values()) == run.u[5].tolist() and states[100]["efforts"] == {}
    assert messages[-1][1] == 200_000_000 and {topic for topic, _, _ in messages} == {"/joint_states", "/wrenches", "/signals"}


def test_edited_table_is_imported_as_changed(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    export_run(run, path)
    lines = path.read_text().splitlines()
    cells = lines[3 + 20].split(",")
    cells[1] = "0.25"
    path.write_text("\n".join([*lines[:23], ",".join(cells), *lines[24:]]))
    edited = import_run(path)
    assert edited.lost == convert.CHANGED and edited.x[20, 0] == 0.25
    assert edited.check().step == 20
    # it says so in a run file too
    edited.save(tmp_path / "edited.cdl")
    assert cd.read_run(tmp_path / "edited.cdl").lost == convert.CHANGED
    # rows left out at the end are a change as well
    path.write_text("\n".join([*lines[:53], ",".join(lines[53].split(",")[:5]) + "," * (len(cells) - 5)]))
    shorter = import_run(path)
    assert shorter.steps == 50 and shorter.lost == convert.CHANGED and shorter.check().identical


def edits(lines: list[str]) -> dict[str, list[str]]:
    """Faults of a CSV file -> its lines."""
    about, names, row = lines[1], lines[2], lines[5]
    return {
        "second line": [lines[0], "{}", *lines[2:]],
        "not JSON": [lines[0], about[:50], *lines[2:]],
        "has no": [lines[0], "# {}", *lines[2:]],
        "line 3": [*lines[:2], names + ",more", *lines[3:]],
        "line 6 has": [*lines[:5], row + ",1", *lines[6:]],
        "not a number": [*lines[:5], row.replace(",", ",x", 1), *lines[6:]],
        "not finite": [*lines[:5], ",".join(["0", "nan", *row.split(",")[2:]]), *lines[6:]],
        "last row": lines[:-1],
        "last row must": lines[:3],
    }


def test_broken_csv(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "run.csv"
    export_run(run, path)
    lines_written = path.read_text().splitlines()
    for says, lines in edits(lines_written).items():
        path.write_text("\n".join(lines))
        refused(path, says)
    path.write_bytes("\n".join(lines_written).encode()[:9000] + b"\xff\xfe\n")
    refused(path)


def refused(path: Path, says: str = "") -> None:
    with pytest.raises(FileError) as caught:
        import_run(path)
    assert str(caught.value).startswith(str(path)) and says in str(caught.value), str(caught.value)


@pytest.mark.parametrize("kind", ["parquet", "mcap"])
def test_damaged_files_give_no_wrong_numbers(run: Run, kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"run.{kind}"
    export_run(swing(10), path)
    data = path.read_bytes()
    rng = np.random.default_rng(2)
    for place in rng.integers(8, len(data) * 8, 150):
        damaged = bytearray(data)
        damaged[place // 8] ^= 1 << int(place % 8)
        path.write_bytes(damaged)
        try:
            again = import_run(path)
        except FileError as error:
            assert str(error).startswith(str(path))
            continue
        assert again.lost is not None or again.hash == swing(10).hash
    for length in range(8, len(data), len(data) // 40):
        path.write_bytes(data[:length])
        refused(path)


def test_unknown_suffixes_and_files_are_refused(run: Run, tmp_path: Path) -> None:
    for name in ("run", "run.xlsx", "run.cdl"):
        with pytest.raises(FileError, match=r"take \.csv, \.parquet or \.mcap"):
            export_run(run, tmp_path / name)
    with pytest.raises(FileError, match="folder must exist"):
        export_run(run, tmp_path / "no" / "run.csv")
    (tmp_path / "text").write_text("hello")
    refused(tmp_path / "text", "is not a run")
    refused(tmp_path / "missing", "No such file")
    refused(tmp_path, "not a plain file")


def test_missing_packages_are_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, kind in (("pyarrow", "parquet"), ("mcap.writer", "mcap")):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(cd.MissingExtraError, match=r"pip install .*\[export\]'"):
            export_run(run, tmp_path / f"run.{kind}")
        assert not list(tmp_path.iterdir())


def test_interrupted_export_leaves_the_old_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.csv"
    path.write_text("old")

    def stop(*arguments: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(csv, "writer", stop)
    with pytest.raises(KeyboardInterrupt):
        export_run(run, path)
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["run.csv"]
