"""Incomplete, damaged, changed or impossible runs never pass as complete ones; interrupts and concurrent writers lose nothing."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest
from command_line import CliRunner
from workbench.runs.small import pendulum, same, swing

import condyle as cd
from condyle.commands.cli import app
from condyle.errors import FileError, SimulationError
from condyle.workbench.runs import file, json_codec
from condyle.workbench.runs.convert import export_run, import_run
from condyle.workbench.runs.run import Run


@pytest.fixture(scope="module")
def run() -> Run:
    return swing(100)


def invoke(*words: object) -> tuple[int, str]:
    """(exit code, what a command prints)."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.output


# ---- steps that cannot be computed


def frozen(run: Run, u: float) -> Run:
    """The run under another control from step 51 on, with states that stay as they are."""
    x, controls = run.x.copy(), run.u.copy()
    x[51:], controls[50:] = x[50], u
    return replace(run, x=x, u=controls).with_simulation(run.simulation)


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_nonfinite_states_do_not_replay(run: Run, number: float) -> None:
    replay = replace(run, x=np.full_like(run.x, number)).with_simulation(run.simulation).check()
    assert not replay and replay.step == 1
    assert str(replay) == (
        "differs first at step 1, which cannot be computed: the state before it has a number that is not finite"
    )


def test_steps_that_cannot_be_computed_do_not_replay() -> None:
    robot = cd.load("double_pendulum")
    recorder = cd.Recorder(cd.Simulation(robot, 5.0, torque_limits=False), [0.0, 0.0, 0.0, 0.0])
    for _ in range(100):
        recorder.step([0.0, 0.0])
    run = recorder.finish()
    for u, reason in ((1e308, "it overflows"), (np.nan, "the control before it has a number that is not finite")):
        for batch in (None, 7):
            replay = frozen(run, u).check(batch=batch)
            assert not replay and replay.step == 51 and replay.reason == reason, replay


def test_nonfinite_wrench(run: Run) -> None:
    pushes = run.wrenches.copy()
    pushes[3, 0, 2] = np.nan
    assert "step 4, which cannot be computed: the wrench" in str(
        replace(run, wrenches=pushes).with_simulation(run.simulation).check()
    )


@pytest.mark.parametrize("name", ["x", "u", "wrenches", "reference"])
def test_nonfinite_numbers_are_neither_written_nor_read(run: Run, name: str, tmp_path: Path) -> None:
    array = (run.extras[name] if name in run.extras else getattr(run, name)).copy()
    array.reshape(-1)[-1] = np.inf
    bad = replace(run, **{name: array}) if name != "reference" else replace(run, extras={**run.extras, name: array})
    with pytest.raises(FileError, match="numbers that are not finite"):
        bad.save(tmp_path / "bad.cdl")
    assert not list(tmp_path.iterdir())
    # as somebody else would write it
    parts, checksum = file.prefix()
    about = {key: value for key, value in run.about.items() if key != "steps"}
    extras = {key: value.shape[1:] for key, value in bad.extras.items()}
    arrays = [bad.x[1:65], *[a[:64] for a in (bad.u, bad.wrenches, *bad.extras.values())]]
    which = ["x", "u", "wrenches", "reference"].index(name)
    arrays[which] = np.full_like(arrays[which], np.nan)
    for kind, payload in (
        (b"HEAD", json_codec.dumps(about)),
        (b"STRT", run.x[0].tobytes()),
        (b"COLS", file.signals(extras)),
        (b"DATA", file.rows(0, arrays)),
    ):
        part_bytes, checksum = file.record(kind, payload, checksum)
        parts += part_bytes
    (tmp_path / "nan.cdl").write_bytes(parts)
    with pytest.raises(FileError, match="cannot be read as a run, it has a number that is not finite among the 64 steps after"):
        cd.read_run(tmp_path / "nan.cdl")


def test_recorder_refuses_infinite_controls() -> None:
    """Beyond a torque limit it would change nothing, and could not be read again."""
    recorder = cd.Recorder(pendulum(), [0.1, 0.2, 0.0, 0.0])
    with pytest.raises(SimulationError, match=r"finite|beyond all numbers"):
        recorder.step([np.inf, 0.0])
    assert recorder.k == 0 and len(recorder.finish().u) == 0


# ---- cut, damaged, changed


def test_cut_run_replays_as_far_as_it_goes(run: Run, tmp_path: Path) -> None:
    path, cut = tmp_path / "a.cdl", tmp_path / "cut.cdl"
    run.save(path)
    assert invoke("replay", path, "--check")[0] == 0
    cut.write_bytes(path.read_bytes()[:-900])
    replay = cd.read_run(cut).check()
    assert replay and replay.identical and not replay.changed and replay.steps == 64
    assert str(replay).startswith("bit-identical as far as it goes: 64 steps, 4 entries each; the file ends in the middle")
    code, output = invoke("replay", cut, "--check")
    assert code == 0 and "as far as it goes: 64 steps" in output
    facts = json.loads(invoke("replay", cut, "--check", "--json")[1])
    assert facts["replay"]["identical"] and not facts["changed"] and facts["replay"]["lost"] == facts["lost"] != ""


def test_damaged_run_fails_the_check(run: Run, tmp_path: Path) -> None:
    path, bad = tmp_path / "a.cdl", tmp_path / "bad.cdl"
    run.save(path)
    data = bytearray(path.read_bytes())
    data[-600] ^= 1
    for content in (bytes(data), path.read_bytes() + b"more"):
        bad.write_bytes(content)
        replay = cd.read_run(bad).check()
        assert replay.identical and replay.changed and not replay
        code, output = invoke("replay", bad, "--check")
        assert code == 1 and "the numbers are not all as they were recorded" in output and "bit-identical" not in output
        # what was damaged stays damaged, however it is written again
        cd.read_run(bad).save(tmp_path / "again.cdl")
        assert cd.read_run(tmp_path / "again.cdl").changed and not cd.read_run(tmp_path / "again.cdl").check()
        export_run(cd.read_run(bad), tmp_path / "again.csv")
        assert import_run(tmp_path / "again.csv").changed


def test_changes_that_steps_do_not_show_are_detected_by_the_hash(run: Run, tmp_path: Path) -> None:
    """A further signal, and a control beyond its limit: the states repeat, and the run does not pass."""
    table, imported = tmp_path / "a.csv", tmp_path / "a.cdl"
    export_run(run, table)
    lines = table.read_text().split("\n")
    cells = lines[50].split(",")
    cells[-1] = "17.0"
    lines[50] = ",".join(cells)
    table.write_text("\n".join(lines))
    changed = import_run(table)
    assert changed.changed and changed.check().identical and not changed.check()
    assert invoke("import", table, "-o", imported)[0] == 0 and invoke("replay", imported, "--check")[0] == 1


# ---- interrupts and concurrent writers


def interrupted_at(event: int, work: Callable[[], None]) -> bool:
    """Whether work was interrupted, as by Ctrl-C, before this executed line of the recorder or the writer."""
    count = 0

    def trace(frame: FrameType, what: str, _: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename.endswith(("runs/recorder.py", "runs/file.py")) and frame.f_code.co_name != "__init__":
            if what == "line":
                count += 1
                if count == event:
                    raise KeyboardInterrupt
            return trace
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def test_interrupt_loses_at_most_its_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("condyle.workbench.runs.file.BLOCK", 4)
    events = [*range(1, 120), *range(120, 400, 11)]
    for event in events:
        path = tmp_path / f"{event}.cdl"
        recorder = cd.Recorder(pendulum(), [0.1, 0.2, 0.0, 0.0], path)

        def six(recorder: cd.Recorder = recorder) -> None:
            for _ in range(6):
                recorder.step([0.1, 0.0], level=float(recorder.k))

        interrupted_at(event, six)
        made = recorder.k
        six()
        run = recorder.finish()
        assert run.steps == made + 6 and run.extras["level"].tolist() == list(range(made + 6)), event
        found = cd.read_run(path)
        assert found.lost is None and same(found, run) and found.check(), event
        path.unlink()


def test_interrupted_finish_gives_a_cut_or_complete_run(tmp_path: Path) -> None:
    for event in range(1, 60):
        path = tmp_path / f"{event}.cdl"
        recorder = cd.Recorder(pendulum(), [0.1, 0.2, 0.0, 0.0], path)
        for _ in range(3):
            recorder.step([0.1, 0.0])
        interrupted_at(event, lambda recorder=recorder: recorder.finish())  # type: ignore[misc]
        found = cd.read_run(path)
        assert not found.changed and found.check() and found.steps in (0, 3), event
        del recorder


def test_interrupted_write_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.write, 0

    def half(handle: int, data: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == 3:
            real(handle, bytes(data)[: len(data) // 2])
            raise KeyboardInterrupt
        return real(handle, data)

    with pytest.raises(KeyboardInterrupt), cd.Recorder(pendulum(), [0.1, 0.2, 0.0, 0.0], tmp_path / "a.cdl") as recorder:
        monkeypatch.setattr(os, "write", half)
        for _ in range(300):
            recorder.step([0.1, 0.0])
    run = cd.read_run(tmp_path / "a.cdl")
    assert recorder.run is not None and run.steps == recorder.run.steps > 100 and run.lost is None and run.check()
    assert run.about["stopped"].startswith("KeyboardInterrupt")


def test_one_recorder_per_file(tmp_path: Path) -> None:
    path, start = tmp_path / "a.cdl", [0.1, 0.2, 0.0, 0.0]
    first = cd.Recorder(pendulum(), start, path, title="first", overwrite=True)
    first.step()
    for _ in range(2):
        with pytest.raises(FileError, match="is being written by another recorder: finish that one first"):
            cd.Recorder(pendulum(), start, path, overwrite=True)
        with pytest.raises(FileError, match="is being written by another recorder"):
            swing(1).save(path)
    first.step()
    first.finish()
    assert cd.read_run(path).title == "first" and cd.read_run(path).steps == 2
    with cd.Recorder(pendulum(), start, path, title="second", overwrite=True) as second:
        second.step()
    assert cd.read_run(path).title == "second"
    # an unfinished recorder releases its file
    third = cd.Recorder(pendulum(), start, path, overwrite=True)
    del third
    cd.Recorder(pendulum(), start, path, overwrite=True).finish()


# ---- untrusted text


def test_escapes_do_not_reach_the_terminal(tmp_path: Path) -> None:
    path, evil = tmp_path / "a.cdl", "\x1b]0;pwned\x07\x1b[2J\x9b2J"
    with cd.Recorder(pendulum(), np.zeros(4), path, title=evil, controller=evil) as recorder:
        recorder.step(**{evil: 1.0})
    run = cd.read_run(path)
    assert run.about["title"] == evil and run.title.isprintable() and repr(run).isprintable()
    assert all(name.isprintable() for group, signal in run.signals().items() for name in (group, *signal.names))
    unknown = ("plot", path, "--signals", "nobody")
    for words in (("replay", path), ("replay", path, "--check"), unknown, ("export", path, "--csv")):
        output = invoke(*words)[1]
        assert "\x1b" not in output and "\x9b" not in output and "\x07" not in output
    assert "\\x1b]0;pwned" in invoke("replay", path)[1]


def test_deep_json_is_neither_written_nor_read() -> None:
    deep: Any = 1
    for _ in range(json_codec.MAX_DEPTH + 2):
        deep = [deep]
    with pytest.raises(FileError, match="at most 64 inside each other"):
        cd.Recorder(pendulum(), np.zeros(4), about={"mine": deep})
    for text in ("[" * 100 + "]" * 100, '{"a":' * 100 + "1" + "}" * 100, "[" * 200_000 + "]" * 200_000):
        with pytest.raises(json_codec.DecodeError):
            json_codec.loads(text)
    assert json_codec.loads("[" * 60 + "]" * 60) is not None


def test_dangling_link_is_not_written_through(run: Run, tmp_path: Path) -> None:
    run.save(tmp_path / "a.cdl")
    (tmp_path / "a.csv").symlink_to(tmp_path / "elsewhere.txt")
    code, output = invoke("export", tmp_path / "a.cdl", "--csv")
    assert code == 2 and "exists already" in output and not (tmp_path / "elsewhere.txt").exists()
    assert invoke("export", tmp_path / "a.cdl", "--csv", "--force")[0] == 0


def test_run_without_blocks_has_signals(tmp_path: Path) -> None:
    run = swing(0, tmp_path / "zero.cdl")
    assert run.signals()["external forces"].values.shape == run.signals()["external torques"].values.shape == (0, 3)
    assert run.check() and "signals" not in repr(run) and run._repr_html_()


# ---- tables that other programs wrote again


def test_csv_with_byte_order_mark_and_empty_lines(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    export_run(run, path)
    content = path.read_bytes()
    for again in (b"\xef\xbb\xbf" + content, content + b"\n\n", content.replace(b"\n", b"\r\n"), content + b",,,\n"):
        path.write_bytes(again)
        assert import_run(path).hash == run.hash and import_run(path).lost is None


def test_csv_with_other_names_or_times(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    export_run(run, path)
    lines = path.read_text().split("\n")
    names = lines[2].split(",")
    names[1], names[2] = names[2], names[1]
    path.write_text("\n".join([*lines[:2], ",".join(names), *lines[3:]]))
    with pytest.raises(FileError, match=r"column 2 is called 'q.elbow', not 'q.shoulder'"):
        import_run(path)
    path.write_text("\n".join([*lines[:10], "9" + lines[10], *lines[11:]]))
    assert import_run(path).changed
    path.write_text("\n".join([*lines[:10], "", *lines[10:]]))
    with pytest.raises(FileError, match="line 11 is empty, and it goes on after it"):
        import_run(path)
