"""The demo: its pictures, its report and its table; what fails is reported and stops nothing else."""

import json
import re
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from workbench.view.browser import MISSING, Browser, chromium

from condyle.apps.demos import show
from condyle.apps.demos.charts import charts, push_intervals
from condyle.apps.demos.checks import Check
from condyle.apps.demos.report import page
from condyle.errors import FileError
from condyle.tape.host_info import program
from condyle.workbench.runs.run import read_run

NAME = "wheeled-pendulum"  # the quickest


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict, str]:
    out = tmp_path_factory.mktemp("demo") / "out"
    text = StringIO()
    found = show.run(out, Console(file=text, width=250), [NAME])
    return out, found, text.getvalue()


def test_everything_is_there(shown: tuple[Path, dict, str]) -> None:
    out, found, text = shown
    assert found["ok"] and not found["errors"]
    assert json.loads((out / "demo.json").read_text()) == found
    for name in (f"{NAME}.png", "demo.png"):
        assert (out / name).read_bytes().startswith(b"\x89PNG")
    run = read_run(out / found["demos"][NAME]["run"])
    assert run.lost is None and run.check().identical
    made = len(found["demos"][NAME]["checks"])
    assert made >= 10 and f"all {made} checks passed" in text and f"{program()} --help" in text and "report.html" in text


def test_the_report_needs_no_network_and_says_everything(shown: tuple[Path, dict, str]) -> None:
    out, found, _ = shown
    html = (out / "report.html").read_text()
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", html)
    assert "default-src 'none'" in html
    for check in found["demos"][NAME]["checks"]:
        assert check["name"].replace("'", "&#x27;") in html
    for text in (found["demos"][NAME]["hashes"]["states"], found["versions"]["condyle"], found["versions"]["cpu"]):
        assert text in html
    assert html.count('class="chart"') == len(charts(NAME, read_run(out / "runs" / f"{NAME}.cdl")))
    assert f"{program()} view {out / 'runs' / NAME}.cdl" in html
    made = len(found["demos"][NAME]["checks"])
    assert f"{made} checks in" in html and f"✓ {made}<" in html


@pytest.mark.browser
@pytest.mark.skipif(chromium() is None, reason=MISSING)
@pytest.mark.parametrize(("width", "dark"), [(1280, True), (420, False)])
def test_the_report_on_the_screen(shown: tuple[Path, dict, str], width: int, dark: bool) -> None:
    """It fits, it can be read, its player plays, and it requests nothing but itself."""
    with Browser((width, 800), dark=dark) as browser:
        browser.open(shown[0] / "report.html")
        assert browser.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
        assert (
            browser.evaluate("Math.min(...[...document.querySelectorAll('.rows td:first-child')].map(c => c.offsetWidth))") >= 110
        )
        assert browser.evaluate("[...document.querySelectorAll('.mark')].every(c => c.scrollWidth <= c.clientWidth + 1)")
        browser.evaluate("document.querySelector('section').scrollIntoView()")
        browser.wait_for("window.condylePlayers && window.condylePlayers.length === 1 && window.condylePlayers[0].drawn > 2")
        first = browser.evaluate("window.condylePlayers[0].time")
        browser.wait_for(f"window.condylePlayers[0].time !== {first}")
        # ink and page far enough apart to be read
        colors = browser.evaluate("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")
        light = [sum(int(n) for n in re.findall(r"\d+", color)[:3]) / 765.0 for color in colors]
        assert abs(light[0] - light[1]) > 0.6 and (light[1] < 0.5) == dark
        assert not browser.console
        assert [url for url in browser.requests if not url.startswith(("file:", "data:", "about:"))] == []


def test_a_page_of_a_failure() -> None:
    check = Check("<group>", "<script>alert(1)</script>", 2.0, high=1.0)
    result = show.Result("pidog", [check], hashes={"states": "ab"})
    html = page([result], {"arm": "RobotError: <b>no</b> arm"}, {"lanes": {"float64": 8}}, 2.0)
    assert "2 of them failed" in html and "&lt;b&gt;no&lt;/b&gt; arm" in html and "<b>no" not in html


def test_a_robot_that_fails_stops_no_other(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file where the folder should be")
    (result,) = show.simulate_all([NAME], tmp_path)
    assert result.name == NAME and "runs" in result.error


def test_out_must_be_a_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(FileError, match="--out must be a folder"):
        show.run(tmp_path / "out", Console(file=StringIO()), [NAME])


def test_pushes_are_found(shown: tuple[Path, dict, str]) -> None:
    run = read_run(shown[0] / "runs" / f"{NAME}.cdl")
    assert np.allclose(push_intervals(run), [(4.0, 4.1)])
