"""Run files: the same bits come back, or complete blocks and what was lost, or an error; never wrong numbers."""

import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from workbench.runs.small import same, swing

import condyle as cd
from condyle.errors import FileError
from condyle.workbench.runs import file
from condyle.workbench.runs.run import Run

STEPS = 150  # three blocks, the last not full


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, bytes]:
    """A run and its file, in blocks of 64 steps however slow the computer is."""
    path = tmp_path_factory.mktemp("runs") / "swing.cdl"
    run = swing(STEPS)
    run.save(path)
    return run, path.read_bytes()


def refused(path: Path, says: str = "") -> None:
    """None; reading the file is refused with one sentence that names it and contains `says`."""
    with pytest.raises(FileError) as caught:
        cd.read_run(path)
    sentence = str(caught.value)
    assert sentence.startswith(str(path)) and says in sentence and "\n" not in sentence and sentence.endswith("."), sentence


def beginning(run: Run, of: Run) -> bool:
    """Whether a run has the first steps of another, bit for bit."""
    n = run.steps
    parts = [(run.x, of.x[: n + 1]), (run.u, of.u[:n]), (run.wrenches, of.wrenches[:n])]
    parts += [(array, of.extras[name][:n]) for name, array in run.extras.items()]
    return all(a.tobytes() == b.tobytes() for a, b in parts)


def test_reading_gives_what_was_recorded(saved: tuple[Run, bytes], tmp_path: Path) -> None:
    run, data = saved
    path = tmp_path / "a.cdl"
    path.write_bytes(data)
    again = cd.read_run(path)
    assert same(again, run) and again.lost is None and again.path == path
    assert again.x.shape == (STEPS + 1, 4) and again.u.shape == (STEPS, 2) and again.wrenches.shape == (STEPS, 1, 6)
    assert {name: array.shape for name, array in again.extras.items()} == {
        "reference": (STEPS, 3),
        "error": (STEPS, 2, 2),
        "level": (STEPS,),
    }
    assert np.signbit(again.x[0, 0]) and again.x[0, 2] == 5e-324
    assert again.t[-1] == 0.002 * STEPS and again.steps == STEPS and again.title == "a swing"
    assert again.q.tobytes() == run.x[:, :2].tobytes() and again.v.tobytes() == run.x[:, 2:].tobytes()
    assert again.simulation.hash == run.simulation.hash and again.simulation is not run.simulation
    assert str(again.check()) == f"bit-identical: {STEPS} steps, 4 entries each"
    with pytest.raises(ValueError, match="read-only"):
        again.x[0, 0] = 1.0


def test_save_and_read(saved: tuple[Run, bytes], tmp_path: Path) -> None:
    run, _ = saved
    path = tmp_path / "b.cdl"
    path.write_bytes(b"something else")
    run.save(path)
    again = cd.read_run(path)
    assert same(again, run) and again.check().identical
    again.save(path)
    assert same(cd.read_run(path), run) and os.listdir(tmp_path) == ["b.cdl"]
    with pytest.raises(FileError, match="folder must exist"):
        run.save(tmp_path / "no" / "b.cdl")


def test_file_cut_at_every_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every length gives a run that is the beginning of the complete one and says what was lost, or one sentence."""
    monkeypatch.setattr(file, "BLOCK", 4)
    run = swing(10)
    run = replace(run, about={**run.about, "simulation_data": None})
    path = tmp_path / "cut.cdl"
    run.save(path)
    data = path.read_bytes()
    found = []
    handle = os.open(path, os.O_RDWR)
    for length in reversed(range(len(data))):
        os.ftruncate(handle, length)
        try:
            cut = cd.read_run(path)
        except FileError as error:
            # only within the header is nothing known of the run
            assert "\n" not in str(error) and str(error).endswith(".") and length < data.index(b"COLS")
            continue
        assert cut.lost is not None and cut.lost.startswith("the file ends") and beginning(cut, run)
        found.append(cut.steps)
    os.close(handle)
    assert set(found) == {0, 4, 8, 10} and found == sorted(found, reverse=True) and len(found) > 1500


def test_lost_steps_are_reported(saved: tuple[Run, bytes], tmp_path: Path) -> None:
    _, data = saved
    path = tmp_path / "cut.cdl"
    path.write_bytes(data[: data.rindex(b"DATA") + 100])
    cut = cd.read_run(path)
    assert cut.lost == (
        "the file ends in the middle of a block after step 128: the run was not finished, and at most 64 steps were lost if its "
        "program was stopped"
    )
    assert cut.steps == cut.about["steps"] == 128 and cut.check().identical and "after step 128" in repr(cut)
    # saved again, it still says so
    cut.save(path)
    again = cd.read_run(path)
    assert again.lost == cut.lost and same(again, cut)
    path.write_bytes(data + b"more")
    longer = cd.read_run(path)
    assert longer.steps == STEPS and longer.lost is not None and "4 bytes after its end" in longer.lost


def test_flipped_bits_are_detected(saved: tuple[Run, bytes], tmp_path: Path) -> None:
    run, data = saved
    path = tmp_path / "flipped.cdl"
    rng = random.Random(8)
    first, second = data.index(b"DATA"), data.index(b"DATA", data.index(b"DATA") + 4)
    places = [rng.randrange(len(data) * 8) for _ in range(400)]
    # and every bit of the front of a record
    places += range(second * 8, (second + file.FRONT) * 8)
    for place in places:
        damaged = bytearray(data)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        try:
            read = cd.read_run(path)
        except FileError as error:
            assert "\n" not in str(error) and place // 8 < first, error
            continue
        assert read.lost is not None and beginning(read, run) and read.steps < STEPS + (place // 8 > data.rindex(b"END "))
    damaged = bytearray(data)
    damaged[second + 200] ^= 4
    path.write_bytes(damaged)
    lost = cd.read_run(path).lost
    assert lost == "the file is damaged after step 64: its checksum is wrong there, and what follows was not read"


def test_missing_or_exchanged_records_are_detected(saved: tuple[Run, bytes], tmp_path: Path) -> None:
    _, data = saved
    a = data.index(b"DATA")
    b = data.index(b"DATA", a + 4)
    c = data.index(b"DATA", b + 4)
    path = tmp_path / "mixed.cdl"
    path.write_bytes(data[:a] + data[b:c] + data[a:b] + data[c:])
    assert cd.read_run(path).steps == 0
    path.write_bytes(data[:b] + data[c:])
    left_out = cd.read_run(path)
    assert left_out.steps == 64 and left_out.lost is not None and "damaged after step 64" in left_out.lost


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.cdl"
    refused(path, "No such file")
    refused(tmp_path, "not a plain file")
    path.write_bytes(b"")
    refused(path, "is empty")
    path.write_text("t,x\n0,1\n")
    refused(path, "is not a run")
    path.write_bytes(file.MAGIC[:5])
    refused(path, "ends after 5 bytes")
    path.write_bytes(file.PREFIX.pack(file.MAGIC, 3))
    refused(path, "newer Condyle")
    path.write_bytes(file.PREFIX.pack(file.MAGIC, 1))
    refused(path, "was made by an older Condyle, in format 1, and this Condyle reads format 2 only")
    path.write_bytes(file.PREFIX.pack(file.MAGIC, 0))
    refused(path, "damaged")
    path.write_bytes(np.random.default_rng(0).bytes(5000))
    refused(path, "is not a run")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "not a plain file")


def forged(path: Path, *records: tuple[bytes, Any]) -> Path:
    """A file whose checksums are right over whatever content."""
    data, checksum = file.prefix()
    for kind, payload in records:
        payload = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        part, checksum = file.record(kind, payload, checksum)
        data += part
    path.write_bytes(data)
    return path


HOSTILE: list[tuple[str, Any]] = [
    ("columns", None),
    ("columns", {"x": [], "u": [], "wrenches": [], "contacts": [], "base": []}),
    ("columns", {"x": 3, "u": [], "wrenches": [], "contacts": [], "base": []}),
    ("columns", {"x": [["q", 1]] * 4, "u": [], "wrenches": [], "contacts": [], "base": []}),
    ("columns", {"x": [["q", ""]] * 4, "u": [], "wrenches": []}),
    ("dt", 0.0),
    ("dt", "0.002"),
    ("dt", True),
    ("nq", -1),
    ("nq", 5),
    ("nv", 10**30),
    ("robot", ["a"]),
    ("title", 7),
    ("title", "x" * 10**6),
    ("title", "\ud800"),
    ("versions", []),
    ("world_hash", None),
]


@pytest.mark.parametrize(("name", "value"), HOSTILE, ids=lambda value: f"{value!r:.30}")
def test_hostile_headers(name: str, value: Any, saved: tuple[Run, bytes], tmp_path: Path) -> None:
    run, _ = saved
    about = {**run.about, name: value}
    refused(forged(tmp_path / "h.cdl", (b"HEAD", about), (b"STRT", run.x[0].tobytes())))


def test_hostile_records(saved: tuple[Run, bytes], tmp_path: Path) -> None:
    run, _ = saved
    path, about, start = tmp_path / "h.cdl", (b"HEAD", run.about), (b"STRT", run.x[0].tobytes())
    columns, rows = (b"COLS", []), file.ROWS.pack(0, 1) + bytes(8 * 12)
    for records in (
        [(b"HEAD", b"{" * 100_000)],
        [(b"HEAD", b"[" * 100_000)],
        [(b"HEAD", b'{"dt": NaN}')],
        [(b"HEAD", b"\xff\xfe")],
        [(b"HEAD", [])],
        [(b"STRT", b"")],
        [about],
        [about, (b"STRT", bytes(24))],
        [about, start, columns, columns],
        [about, start, (b"COLS", [["a", [-1]]])],
        [about, start, (b"COLS", [["a", [10**12, 10**12]]])],
        [about, start, (b"COLS", [["a", []], ["a", []]])],
        [about, start, (b"COLS", {"a": []})],
        [about, start, (b"OTHR", b"")],
        [about, start, (b"DATA", file.ROWS.pack(1, 1) + bytes(96))],
        [about, start, (b"DATA", file.ROWS.pack(0, 2) + bytes(96))],
        [about, start, (b"DATA", file.ROWS.pack(0, 2**63) + bytes(96))],
        [about, start, (b"DATA", b"")],
        [about, start, (b"DATA", rows), (b"END ", {"steps": 2})],
        [about, start, (b"DATA", rows), (b"END ", {"steps": 1, "sha256": "0"})],
        [about, start, (b"DATA", rows), (b"END ", [1])],
    ):
        refused(forged(path, *records))
    # right, though nobody ended it
    assert cd.read_run(forged(path, about, start, columns, (b"DATA", rows))).steps == 1


@settings(max_examples=40)
@given(st.integers(0, 200), st.dictionaries(st.text(max_size=5), st.lists(st.integers(0, 3), max_size=3), max_size=3), st.data())
def test_any_shape_round_trips(
    tmp_path_factory: pytest.TempPathFactory, steps: int, shapes: dict[str, list[int]], data: st.DataObject
) -> None:
    nx, nu, frames = (data.draw(st.integers(minimum, 5)) for minimum in (1, 0, 0))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))

    def numbers(*shape: int) -> np.ndarray:
        """Any bits but those of NaN and inf."""
        bits = rng.integers(0, 2**64, shape, dtype=np.uint64)
        return np.where(np.isfinite(bits.view(np.float64)), bits.view(np.float64), -0.0)

    names = {"x": [[f"q.{k}", "rad"] for k in range(nx)], "u": [[f"u.{k}", "N m"] for k in range(nu)]}
    columns = {**names, "wrenches": [f"f{k}" for k in range(frames)], "contacts": [], "base": []}
    texts = dict.fromkeys(("robot", "title", "controller", "robot_hash", "world_hash", "created"), "a")
    about = {"dt": 0.1, "nq": nx, "nv": 0, "columns": columns, "versions": {}, "steps": steps, **texts}
    extras = {name: numbers(steps, *shape) for name, shape in shapes.items()}
    run = Run(about, numbers(steps + 1, nx), numbers(steps, nu), numbers(steps, frames, 6), extras)
    path = tmp_path_factory.mktemp("any") / "run.cdl"
    try:
        run.save(path)
    except FileError as error:
        # half a letter is no name
        assert any("\ud800" <= letter <= "\udfff" for name in shapes for letter in name), error
        return
    assert same(cd.read_run(path), run)
