"""Runs on the command line: replay, plot, video, export, import, and how each refuses."""

import json
import shutil

import numpy as np
import pytest
from command_line import CliRunner

from condyle.commands.cli import app
from condyle.errors import install_command
from condyle.workbench.runs import plot
from condyle.workbench.runs.run import read_run

PNG = b"\x89PNG\r\n\x1a\n"


def condyle(*arguments):
    done = CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "80"})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def refused(*arguments, code=2):
    done = condyle(*arguments)
    assert done.exit_code == code and done.stderr.startswith("condyle: "), done.output
    assert len(done.stderr.strip().splitlines()) == 1
    return done.stderr


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Two runs: an arm that sways and is pushed, and the same with noise."""
    folder = tmp_path_factory.mktemp("runs")
    swing = ("sim", "ur3", "--controller", "swing", "--seconds", "0.3", "--push", "0", "5", "0")
    assert condyle(*swing, "-o", folder / "run.cdl").exit_code == 0
    assert condyle(*swing, "--noise", "1", "--seed", "3", "-o", folder / "other.cdl").exit_code == 0
    return folder


@pytest.fixture
def folder(recorded, tmp_path):
    for path in recorded.glob("*.cdl"):
        shutil.copy(path, tmp_path)
    return tmp_path


# ---- replay


def test_replay_tells_what_a_run_holds(folder):
    done = condyle("replay", folder / "run.cdl")
    assert done.exit_code == 0
    for word in ("ur3", "swing", "0.3 s, 150 steps of 2 ms", "u.pan_joint", "--check"):
        assert word in done.stdout
    assert max(map(len, done.stdout.splitlines()[:-1])) <= 130
    assert "measured" in condyle("replay", folder / "other.cdl").stdout


def test_replay_check_is_bit_identical(folder):
    done = condyle("replay", folder / "run.cdl", "--check")
    assert done.exit_code == 0 and "bit-identical: 150 steps, 13 entries each" in done.stdout
    found = json.loads(condyle("replay", folder / "run.cdl", "--check", "--json").stdout)
    assert found["replay"]["identical"] and found["steps"] == 150 and len(found["sha256"]) == 64
    assert "simulation_data" not in found["about"] and found["about"]["controller"] == "swing"


@pytest.mark.slow
def test_replay_check_tells_the_first_step_and_entry_that_differ(folder):
    from dataclasses import replace

    run = read_run(folder / "run.cdl")
    x = run.x.copy()
    x[101:, 3] = np.nextafter(x[101:, 3], np.inf)
    changed = folder / "changed.cdl"
    replace(run, x=x).save(changed)
    done = condyle("replay", changed, "--check")
    assert done.exit_code == 1 and "differs first at step 101 in q.wrist_1_joint" in done.stdout and "1 ulp apart" in done.stdout
    found = json.loads(condyle("replay", changed, "--check", "--json").stdout)["replay"]
    assert (found["identical"], found["step"], found["entry"], found["ulps"]) == (False, 101, "q.wrist_1_joint", 1)


def test_replay_finds_a_difference_behind_the_first_block(folder, monkeypatch):
    from dataclasses import replace

    from condyle.commands import replay

    monkeypatch.setattr(replay, "BATCH", 40)
    run = read_run(folder / "run.cdl")
    x = run.x.copy()
    x[101, 0] += 1e-9
    replace(run, x=x).save(folder / "changed.cdl")
    assert "differs first at step 101 in q.pan_joint" in condyle("replay", folder / "changed.cdl", "--check").stdout


def test_a_run_that_was_cut_tells_what_was_lost(folder):
    whole = (folder / "run.cdl").read_bytes()
    cut = folder / "cut.cdl"
    cut.write_bytes(whole[: int(0.8 * len(whole))])
    done = condyle("replay", cut, "--check")
    found = read_run(cut)
    assert done.exit_code == 0 and 0 < found.steps < 150 and found.lost in done.stdout.replace("\n", " ")
    assert f"bit-identical as far as it goes: {found.steps:,} steps" in done.stdout


@pytest.mark.parametrize("verb", [["replay"], ["plot"], ["export", "--csv"]])
def test_what_is_not_a_run_is_refused(verb, tmp_path):
    assert "nosuch.cdl" in refused(verb[0], tmp_path / "nosuch.cdl", *verb[1:])
    (tmp_path / "text.cdl").write_text("hello")
    assert "text.cdl" in refused(verb[0], tmp_path / "text.cdl", *verb[1:])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["text.cdl"]


# ---- plot


def test_plot_is_written_beside_the_run(folder):
    done = condyle("plot", folder / "run.cdl")
    assert done.exit_code == 0 and done.stdout.strip() == str(folder / "run.png")
    assert (folder / "run.png").read_bytes()[:8] == PNG
    first = (folder / "run.png").read_bytes()
    condyle("plot", folder / "run.cdl")
    assert (folder / "run.png").read_bytes() == first, "the same picture for the same run"


def test_plot_as_svg_has_what_it_should(folder):
    target = folder / "out.svg"
    assert condyle("plot", folder / "run.cdl", "-o", target, "--compare", folder / "other.cdl").exit_code == 0
    assert target.read_text().startswith("<?xml") and target.stat().st_size > 10_000
    assert condyle("plot", folder / "run.cdl", "-o", folder / "out.pdf").exit_code == 0
    assert (folder / "out.pdf").read_bytes()[:5] == b"%PDF-"


def test_subplots_of_a_run(folder):
    run = read_run(folder / "run.cdl")
    found = {subplot.label: subplot for subplot in plot.subplots(run)}
    assert list(found) == ["energy, J", "joint angles, rad", "torques, N m"], "an arm has no height and no contacts"
    joints = found["joint angles, rad"]
    assert list(joints.lines) == ["pan", "lift", "elbow", "wrist_1", "wrist_2", "wrist_3"]
    assert np.array_equal(joints.lines["elbow"], run.x[:, 2]) and len(joints.t) == 151
    ((begin, end),) = plot.pushed(run)
    assert (begin, end) == pytest.approx((0.1, 0.2))
    assert [p.label for p in plot.subplots(run, ["external_forces", "velocities"])] == [
        "external forces, N",
        "joint velocities, rad/s",
    ]
    assert [p.label for p in plot.subplots(read_run(folder / "other.cdl"), ["measured.v"])] == ["measured.v"]


def test_what_plot_refuses(folder):
    assert "did you mean 'joints'" in refused("plot", folder / "run.cdl", "--signals", "joint")
    assert "has no height; it has energy, joints" in refused("plot", folder / "run.cdl", "--signals", "height")
    assert "try run.png" in refused("plot", folder / "run.cdl", "-o", folder / "run.bmp")


def test_without_matplotlib_the_exit_code_is_3(folder, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert f": {install_command('plot')}" in refused("plot", folder / "run.cdl", code=3)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["gif", "mp4"])
def test_a_video_is_written(folder, suffix):
    target = folder / f"run.{suffix}"
    done = condyle("video", folder / "run.cdl", "-o", target, "--fps", "10")
    assert done.exit_code == 0, done.output
    content = target.read_bytes()
    if suffix == "mp4":
        assert content[4:8] == b"ftyp" and len(content) > 1000
        return
    from PIL import Image

    with Image.open(target) as image:
        assert image.n_frames == 4 and image.size == (640, 360)
        first = np.asarray(image.convert("RGB"))
        image.seek(3)
        assert np.abs(first.astype(int) - np.asarray(image.convert("RGB"))).max() > 30, "the arm has moved"


def test_what_video_refuses(folder):
    assert "try run.gif" in refused("video", folder / "run.cdl", "-o", folder / "run.avi")
    assert "fps" in refused("video", folder / "run.cdl", "--fps", "0")


# ---- export and import


def test_export_and_import_keep_every_bit(folder):
    done = condyle("export", folder / "other.cdl", "--csv", "--parquet", "--mcap")
    assert done.exit_code == 0, done.output
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == [
        str(folder / f"other.{kind}") for kind in ("csv", "parquet", "mcap")
    ]
    hashed = read_run(folder / "other.cdl").hash
    for kind in ("csv", "parquet", "mcap"):
        again = folder / f"{kind}.cdl"
        assert condyle("import", folder / f"other.{kind}", "-o", again).exit_code == 0
        assert read_run(again).hash == hashed
    done = condyle("replay", folder / "csv.cdl", "--check")
    assert done.exit_code == 0 and "bit-identical" in done.stdout


def test_export_names(folder):
    assert condyle("export", folder / "run.cdl", "--csv", "-o", folder / "table.txt").exit_code == 0
    assert condyle("export", folder / "run.cdl", "-o", folder / "by_name.csv").exit_code == 0
    assert (folder / "table.txt").read_bytes() == (folder / "by_name.csv").read_bytes()
    assert condyle("import", folder / "by_name.csv").exit_code == 0
    assert read_run(folder / "by_name.cdl").hash == read_run(folder / "run.cdl").hash


def test_what_export_and_import_refuse(folder):
    run = folder / "run.cdl"
    assert "no format was given" in refused("export", run)
    assert "names one file" in refused("export", run, "--csv", "--mcap", "-o", folder / "x")
    assert "--csv" in refused("export", run, "-o", folder / "x.xlsx")
    assert "leave one or the other out" in refused("export", run, "--csv", "--c", folder / "x.c")
    assert "condyle sim ur3 -o ur3.cdl" in refused("export", "ur3", "--csv")
    (folder / "run.csv").write_text("mine")
    assert "--force" in refused("export", run, "--csv") and (folder / "run.csv").read_text() == "mine"
    assert condyle("export", run, "--csv", "--force").exit_code == 0
    assert "--force" in refused("import", folder / "run.csv")
    assert "does not end in .cdl" in refused("import", folder / "run.csv", "-o", folder / "x.txt")
    (folder / "other.csv").write_text("a,b\n1,2\n")
    assert "other.csv" in refused("import", folder / "other.csv", "-o", folder / "x.cdl")
    assert not (folder / "x.cdl").exists()
