"""`condyle lab` and `condyle tune` from the command line: files they write, and one sentence for wrong input."""

import json

import pytest
from apps.lab.experiments import TOML
from command_line import CliRunner

import condyle as cd
from condyle.commands.cli import app


def condyle(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments], env={"COLUMNS": "100"}, prog_name="condyle")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with an experiment and a run of it."""
    place = tmp_path_factory.mktemp("cli")
    (place / "lab.toml").write_text(TOML)
    done = condyle("lab", "run", place / "lab.toml", "-o", place / "a.cdl", "--page", place / "a.html")
    assert done.exit_code == 0, done.output
    assert "rms error" in done.output and "replay" in done.output and (place / "a.html").stat().st_size > 5000
    return place


def test_run_replays_and_compares(folder):
    assert condyle("replay", folder / "a.cdl", "--check").exit_code == 0
    done = condyle(
        "lab", "run", folder / "lab.toml", "-o", folder / "b.cdl", "--set", "controller.kp=100", "--seed", "7", "--json"
    )
    found = json.loads(done.stdout)
    assert found["sha256"] == cd.read_run(folder / "b.cdl").hash and found["metrics"]["rms_error"] > 0.0
    done = condyle("lab", "compare", folder / "a.cdl", folder / "b.cdl", "--page", folder / "c.html")
    assert done.exit_code == 0 and "rms error" in done.output and (folder / "c.html").exists()


def test_sweep_and_tune_write_their_files(folder):
    words = ["lab", "sweep", folder / "lab.toml", "--grid", "controller.kp=100:400:3", "--workers", "1", "-o", folder / "s.cds"]
    done = condyle(*words, "--page", folder / "s.html")
    assert done.exit_code == 0 and "3 runs" in done.output and (folder / "s.csv").read_text().count("\n") == 4
    again = json.loads(condyle(*words, "--json").stdout)
    assert again["computed"] == 0 and again["runs"] == 3
    words = ["tune", folder / "lab.toml", "-p", "controller.kp", "--method", "grid", "--trials", "3", "--seconds", "0.1"]
    done = condyle(*words, "--warm-up", "0.02", "-o", folder / "tuned.toml", "--page", folder / "t.html")
    assert done.exit_code == 0 and "before" in done.output, done.output
    assert condyle("lab", "run", folder / "tuned.toml", "--json").exit_code == 0


def test_init_writes_a_file_that_is_read(tmp_path):
    assert condyle("lab", "init", tmp_path / "new.toml").exit_code == 0
    assert condyle("lab", "init", tmp_path / "new.toml").exit_code == 2


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["lab", "runn"], "there is no command 'lab runn' (did you mean 'run'?)"),
        (["lab", "run"], "lab run needs EXPERIMENT"),
        (["lab", "run", "lab.toml", "--sett", "x"], "has no option --sett (did you mean '--set'?)"),
        (["lab", "run", "nosuch.toml"], "cannot be read"),
        (["lab", "run", "lab.toml", "--set", "controller.kp"], "--set is written KEY=VALUE"),
        (["lab", "run", "lab.toml", "--set", "controller.kp=[1,"], "write a number"),
        (["lab", "run", "lab.toml", "--set", "controller.kpp=1"], "lab.toml: [controller] ComputedTorque has no option 'kpp'"),
        (["lab", "run", "lab.toml", "--set", "controller.name=pidd"], "did you mean 'pid'"),
        (["lab", "run", "lab.toml", "--seed", "-1"], "must be at least 0"),
        (["lab", "run", "lab.toml", "-o", "run.csv"], "does not end in .cdl"),
        (["lab", "run", "lab.toml", "-o", "a.cdl"], "exists already"),
        (["lab", "run", "lab.toml", "--view"], "add -o run.cdl"),
        (["lab", "compare"], "lab compare needs RUN"),
        (["lab", "compare", "lab.toml"], "lab.toml"),
        (["lab", "sweep", "lab.toml"], "something to vary"),
        (["lab", "sweep", "lab.toml", "--grid", "controller.kp=1:2"], "low:high:count"),
        (["lab", "sweep", "lab.toml", "--grid", "controller.kp=1:2:2", "--engine", "rayy"], "no engine 'rayy'"),
        (["lab", "sweep", "lab.toml", "--grid", "controller.kp=1:2:2", "--metric", "rmss"], "--metric 'rmss' is not known"),
        (["tune", "lab.toml"], "needs --parameters"),
        (["tune", "lab.toml", "-p", "controller.kpp"], "no parameter of the loop"),
        (["tune", "lab.toml", "-p", "controller.kp", "--method", "simplex"], "no method 'simplex'"),
    ],
)
def test_wrong_input_is_one_sentence(folder, monkeypatch, words, sentence):
    monkeypatch.chdir(folder)
    done = condyle(*words)
    assert done.exit_code == 2 and sentence in done.stderr, done.stderr
    assert len(done.stderr.strip().splitlines()) == 1 and done.stderr.startswith("condyle: ")
