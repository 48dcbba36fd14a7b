"""The command `pidog`: what it lists, prints, writes and refuses."""

import json

import numpy as np
import pytest
from command_line import CliRunner

from condyle.apps.pidog.footfall import stance_intervals
from condyle.commands.cli import app
from condyle.workbench.runs.run import read_run


def condyle(*arguments):
    done = CliRunner().invoke(app, ["pidog", *arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def test_all_actions_are_listed():
    assert all(name in condyle().stdout for name in ("walk", "trot-left", "high-five", "wag-tail"))
    assert {row["source"] for row in json.loads(condyle("--json").stdout)} == {"table", "ours"}


@pytest.mark.slow
def test_a_walk_is_measured_drawn_and_recorded(tmp_path):
    run, plot = tmp_path / "walk.cdl", tmp_path / "walk.png"
    done = condyle("walk", "--cycles", "1", "-o", str(run), "--plot", str(plot))
    assert done.exit_code == 0, done.stderr
    for word in ("duty factor", "foot lift", "slip", "cost of transport", "stability margin", "advance per cycle", "falls"):
        assert word in done.stdout
    assert plot.read_bytes()[:4] == b"\x89PNG" and read_run(run).check()
    assert "exists already" in condyle("walk", "-o", str(run)).stderr
    found = json.loads(condyle("nod", "--json").stdout)
    assert found["fell"] is False and found["action"] == "nod"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["wlak"], "did you mean 'walk'"),
        (["walk", "--speed", "200"], "from 0 to 100"),
        (["walk", "--friction", "nan"], "from 0 up"),
        (["walk", "--cycles", "0"], "at least 1"),
        (["walk", "-o", "run.txt"], "run.cdl"),
        (["walk", "--view"], "add -o"),
        (["walk", "--plot", "a.txt"], ".png"),
        (["walk", "--video", "a.txt"], ".gif"),
    ],
)
def test_what_cannot_be_played_is_a_sentence(arguments, sentence):
    done = condyle(*arguments)
    assert done.exit_code == 2 and sentence in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_intervals_of_stance():
    loaded = np.array([[1, 0, 0, 1], [1, 1, 0, 0], [0, 1, 0, 1]])
    found = stance_intervals(loaded, 0.5)
    assert found == [[(0.0, 1.0)], [(0.5, 1.0)], [], [(0.0, 0.5), (1.0, 0.5)]]
