"""The command `verify`: what it prints, how it ends, what it writes, and how it refuses."""

import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from condyle.cli import app
from condyle.commands import verify
from condyle.demos.row import Row, silent
from condyle.view import video


def condyle(*arguments):
    done = CliRunner().invoke(app, list(arguments))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def refused(*arguments):
    """What a command says that ends with exit code 2, in one sentence."""
    done = condyle(*arguments)
    assert done.exit_code == 2 and done.stderr.startswith("condyle: ") and len(done.stderr.strip().splitlines()) == 1
    return done.stderr


def pretend(monkeypatch, *rows):
    """A machine that has these rows, and a run that is a word."""
    machine = verify.Machine("pretended", lambda say: "run", lambda run, quick, say: iter(rows))
    monkeypatch.setattr(verify, "save_video", lambda run, path, progress: path.write_text(run))
    monkeypatch.setitem(verify.OWN, "wheeled-pendulum", lambda: machine)


@pytest.mark.parametrize("name", ["wheeled-pendulum", "two-wheeled"])
def test_verify_passes_and_tells_everything_as_json(name):
    done = condyle("verify", name, "--quick", "--json")
    assert done.exit_code == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["machine"] == name and found["passed"]
    assert all(row["passed"] is not False for row in found["rows"]) and any(row["passed"] is None for row in found["rows"])
    assert {"group", "check", "value", "unit", "low", "high", "said", "told", "passed"} == set(found["rows"][0])


def test_the_table_is_readable(monkeypatch):
    pretend(monkeypatch, Row("heights", "of the wheel", 2e-17, "m", high=1e-15), Row("skips", "a million", None, high=1.0))
    done = condyle("verify", "wheeled-pendulum")
    assert done.exit_code == 0
    for word in ("heights", "of the wheel", "2.0e-17 m", "at most 1e-15", "ok", "skipped", "all 1 passed; 1 skipped"):
        assert word in done.stdout


def test_a_row_that_fails_ends_with_exit_code_1(monkeypatch):
    pretend(monkeypatch, Row("g", "slip", 1e-3, "m/s", high=1e-14), Row("g", "height", 0.0, "m", high=1e-15))
    done = condyle("verify", "wheeled-pendulum")
    assert done.exit_code == 1 and "FAILED" in done.stdout and "1 of 2 failed: slip" in done.stdout
    done = condyle("verify", "wheeled-pendulum", "--json")
    assert done.exit_code == 1 and json.loads(done.stdout)["passed"] is False


def test_a_value_that_is_not_a_number_fails(monkeypatch):
    pretend(monkeypatch, Row("g", "slip", float("nan"), "m/s", high=1e-14))
    assert condyle("verify", "wheeled-pendulum").exit_code == 1
    row = json.loads(condyle("verify", "wheeled-pendulum", "--json").stdout, parse_constant=pytest.fail)["rows"][0]
    assert row["value"] is None and row["passed"] is False, "JSON has no word for it"


def test_the_video_is_written(monkeypatch, tmp_path):
    pretend(monkeypatch, Row("g", "c", 0.0, high=1.0))
    video_file = tmp_path / "video.gif"
    assert condyle("verify", "wheeled-pendulum", "--animate", str(video_file)).exit_code == 0
    assert video_file.read_text() == "run"


@pytest.mark.parametrize("name", ["wheeled-pendulum", "two-wheeled"])
def test_videos_of_the_demos(name, tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(video, "write_video", lambda path, frames, fps, size: written.append(next(frames)))
    demo = verify.machine(name)
    video.save_video(demo.trajectory(demo.run(silent)), tmp_path / "video.gif", size=(64, 36), **demo.video)
    assert written[0].shape == (36, 64, 3)


def test_machines_of_the_table_can_be_verified_too(monkeypatch):
    from condyle.demos import table

    class Pretended(table.Machine):
        def run(self, *, say):
            say("simulating", 1, 2)
            return "run"

        @property
        def checks(self):
            return lambda run, quick, say: iter([Row("g", f"{run} {quick}", 0.5, high=1.0), Row("g", "told", 0.0, said="fine")])

    monkeypatch.setitem(table.MACHINES, "birotor", Pretended("birotor", "Birotor", "", "", "", ""))
    done = condyle("verify", "birotor", "--quick")
    assert done.exit_code == 0 and "run True" in done.stdout and "fine" in done.stdout and "all 2 passed" in done.stdout
    assert set(verify.names()) >= {*table.MACHINES, "two-wheeled", "compiler"}


def test_mistakes():
    done = condyle("verify", "wheeled-pendulum", "--mistakes")
    assert done.exit_code == 0
    line = next(line for line in done.stdout.splitlines() if "Tdot" in line)
    assert "8.2867" in line and "33.4 %" in line and "0.2879" in line
    found = json.loads(condyle("verify", "wheeled-pendulum", "--mistakes", "--json").stdout)
    assert len(found["rows"]) == 5 and found["rows"][0]["pole"]["real"] == pytest.approx(8.2867, abs=5e-5)
    assert found["rows"][1]["falls"][1]["released"] == 0.5


def test_what_it_refuses(tmp_path):
    assert "did you mean 'wheeled-pendulum'?" in refused("verify", "wheel-pendulum")
    assert "does not move" in refused("verify", "compiler", "--animate", str(tmp_path / "video.gif"))
    assert "two-wheeled" in refused("verify", "unicorn") and "compiler" in refused("verify", "unicorn")
    assert "try video.gif" in refused("verify", "two-wheeled", "--animate", str(tmp_path / "video.avi"))
    assert "none are known" in refused("verify", "two-wheeled", "--mistakes")
    assert "no machine" in refused("verify", "nosuch", "--mistakes")
    assert "leave one or the other out" in refused("verify", "wheeled-pendulum", "--mistakes", "--quick")
    assert not list(tmp_path.iterdir())


def test_nothing_is_shown_on_a_quiet_console(monkeypatch):
    pretend(monkeypatch, Row("g", "c", 0.0, high=1.0))
    assert verify.verify("wheeled-pendulum", Console(quiet=True))[0].passed
