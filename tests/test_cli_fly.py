"""The command `fly`: what it prints, what it writes, how it replays, and how it refuses."""

import json
from pathlib import Path

import pytest
from command_line import CliRunner

from condyle.commands.cli import app
from condyle.commands.fly import show
from condyle.commands.terminal import terminal
from condyle.workbench.runs.run import read_run

SHORT = ["--controller", "geometric", "--seconds", "0.2"]


def condyle(*arguments):
    done = CliRunner().invoke(app, list(arguments))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def test_both_models_are_flown_reported_and_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, page = tmp_path / "run.cdl", tmp_path / "flight.html"
    extra = ["--wind", "1", "0", "0", "--noise", "1", "--seed", "3", "--compare", "--realtime"]
    done = condyle("fly", "birotor", *SHORT, *extra, "-o", str(run), "--report", str(page), "--json")
    assert done.exit_code == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found["models"]) == ["multibody", "single"] and found["steps"] == 40
    both, one = found["models"].values()
    assert both["gimbal_torque_max"] > 0.0 and one["gimbal_torque_max"] == 0.0 and both["overruns"] is not None
    assert both["limit_violation"] == 0.0 and both["solver_mean_us"] is None
    text = page.read_text()
    for title in ("tracking error", "joint torques", "joint velocities", "energies", "induced power", "wind, m/s", "thrusts, N"):
        assert title in text
    assert text.count('class="condyle-player"') == 2 and "http://" not in text.replace("http://www.w3.org", "")
    for name in ("run.cdl", "run-single.cdl"):
        assert read_run(tmp_path / name).check()
    show(found, terminal())
    printed = capsys.readouterr().out
    assert "multibody" in printed and "late" in printed and "replay" in printed
    assert "exists already" in condyle("fly", "birotor", *SHORT, "-o", str(run)).stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["birotor", "--scenario", "circel"], "no scenario 'circel' (did you mean 'circle'?)"),
        (["birotor", "--model", "rigid"], "no model 'rigid'"),
        (["birotor", "--controller", "pid"], "no controller 'pid'"),
        (["birotor", "--wind", "nan", "0", "0"], "wind must be finite"),
        (["birotor", "--gust", "-1"], "gust must be finite and not negative"),
        (["birotor", "--dt", "0.004"], "dt must be"),
        (["birotor", "--seconds", "0"], "at least"),
        (["birotor", "--weak-rotor", "1.5"], "at most 1"),
        (["birotor", "-o", "run.txt"], "run.cdl"),
        (["birotor", "--report", "page.pdf"], "page.html"),
        (["ur3"], "no free base"),
        (["no_such_robot"], "no_such_robot"),
    ],
)
def test_what_cannot_be_flown_is_a_sentence(arguments: list[str], sentence: str) -> None:
    done = condyle("fly", *arguments)
    assert done.exit_code == 2 and sentence in done.stderr and len(done.stderr.strip().splitlines()) == 1
