"""The command `verify`: what it prints, how it ends, what it writes, and how it refuses."""

import json
from functools import partial

import pytest
from command_line import CliRunner

from condyle.apps.demos import registry
from condyle.apps.demos.checks import Check
from condyle.commands import completion
from condyle.commands.cli import app
from condyle.workbench.view import video


def condyle(*arguments):
    done = CliRunner().invoke(app, list(arguments))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def refused(*arguments):
    """The error of a command that ends with exit code 2, one sentence."""
    done = condyle(*arguments)
    assert done.exit_code == 2 and done.stderr.startswith("condyle: ") and len(done.stderr.strip().splitlines()) == 1
    return done.stderr


def pretend(monkeypatch, *rows):
    """The arm has these checks."""

    class Pretended(registry.Demo):
        def run(self, path=None, *, progress):
            progress("simulating", 1, 2)
            return "run"

        def checks(self, run):
            return iter(rows)

    monkeypatch.setitem(registry.DEMOS, "arm", Pretended("arm", "Arm", ""))


@pytest.mark.parametrize("name", ["wheeled-pendulum", "two-wheeled"])
def test_verify_passes_and_prints_everything_as_json(name):
    done = condyle("verify", name, "--json")
    assert done.exit_code == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["name"] == name and found["ok"]
    assert all(check["ok"] for check in found["checks"])
    assert {"group", "name", "value", "unit", "low", "high", "detail", "ok"} == set(found["checks"][0])


def test_verify_writes_a_video(monkeypatch, tmp_path):
    image = pytest.importorskip("PIL.Image")
    monkeypatch.setattr(video, "save_video", partial(video.save_video, fps=0.5))
    done = condyle("verify", "wheeled-pendulum", "--video", str(tmp_path / "out.gif"))
    assert done.exit_code == 0 and "passed" in done.stdout, done.stdout + done.stderr
    with image.open(tmp_path / "out.gif") as gif:
        assert gif.format == "GIF" and gif.n_frames > 1


def test_the_table_is_readable(monkeypatch):
    pretend(monkeypatch, Check("heights", "of the wheel", 2e-17, "m", high=1e-15), Check("skips", "a million", None, high=1.0))
    done = condyle("verify", "arm")
    assert done.exit_code == 0
    for word in ("heights", "of the wheel", "2.0e-17 m", "at most 1e-15", "ok", "skipped", "all 1 passed; 1 skipped"):
        assert word in done.stdout


def test_a_check_that_fails_ends_with_exit_code_1(monkeypatch):
    pretend(monkeypatch, Check("g", "slip", 1e-3, "m/s", high=1e-14), Check("g", "height", 0.0, "m", high=1e-15))
    done = condyle("verify", "arm")
    assert done.exit_code == 1 and "FAILED" in done.stdout and "1 of 2 failed: slip" in done.stdout
    done = condyle("verify", "arm", "--json")
    assert done.exit_code == 1 and json.loads(done.stdout)["ok"] is False


def test_a_value_that_is_not_a_number_fails(monkeypatch):
    pretend(monkeypatch, Check("g", "slip", float("nan"), "m/s", high=1e-14))
    assert condyle("verify", "arm").exit_code == 1
    row = json.loads(condyle("verify", "arm", "--json").stdout, parse_constant=pytest.fail)["checks"][0]
    assert row["value"] is None and row["ok"] is False, "JSON has no NaN"


def test_names_that_can_be_verified():
    assert set(completion.names_in("condyle.apps.demos.registry", "DEMOS", "OTHERS")("")) >= {
        *registry.DEMOS,
        "two-wheeled",
        "compiler",
    }
    assert registry.find("UR3").name == "arm"


def test_what_it_refuses(tmp_path):
    assert "did you mean 'wheeled-pendulum'?" in refused("verify", "wheel-pendulum")
    assert "leave --video out" in refused("verify", "compiler", "--video", str(tmp_path / "video.gif"))
    assert "two-wheeled" in refused("verify", "unicorn") and "compiler" in refused("verify", "unicorn")
    assert "video.gif" in refused("verify", "arm", "--video", str(tmp_path / "video.avi"))
    assert not list(tmp_path.iterdir())
