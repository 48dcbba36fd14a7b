"""Robots and runs in notebooks: tables, and a player that needs no server."""

import html
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.errors import ShapeError
from condyle.multibody.html import robot_html
from condyle.multibody.robot import Robot
from condyle.workbench.runs.plot import SPARK_POINTS, run_html, sparkline
from condyle.workbench.view.notebook import show, sweep
from condyle.workbench.view.trajectory import trajectory

from .browser import MISSING, Browser, changed, chromium

EVIL = "<script>alert(1)</script>&\"'"


def test_a_robot_as_a_table() -> None:
    robot = cd.load("ur3")
    table = robot._repr_html_()
    assert table == robot_html(robot)
    for joint in robot.joint_names:
        assert html.escape(joint) in table
    assert f"{robot.mass:.6g} kg" in table
    assert table.count("<tr>") == 7


def test_names_in_tables_are_text() -> None:
    model = cd.load("cartpole").model
    evil = replace(model, name=EVIL, links=tuple(replace(link, name=EVIL, joint=EVIL + str(i)) for i, link in model.outward()))
    table = Robot(evil)._repr_html_()
    assert "<script" not in table
    assert html.escape(EVIL) in table
    about = {"title": EVIL, "robot": EVIL, "controller": EVIL, "dt": 0.1, "created": EVIL, "seed": 1}
    x = np.zeros((3, 2))
    run: Any = SimpleNamespace(about=about, title=EVIL, q=x, v=x, u=x[:2], dt=0.1, steps=2, lost=EVIL, path=None)
    assert "<script" not in run_html(run)
    assert run_html(run).count(html.escape(EVIL)) == 5


def test_a_run_as_a_table() -> None:
    simulation = cd.Simulation(cd.load("cartpole"), dt=0.01)
    with cd.Recorder(simulation, simulation.state(), title="a rest", controller="none", seed=3) as recorder:
        for _ in range(5):
            recorder.step()
    assert recorder.run is not None
    table = recorder.run._repr_html_()
    assert "<b>a rest</b>" in table
    assert "0.05 s, 5 steps of 0.01 s" in table
    assert table.count("<svg") == 3


def test_small_plots_keep_their_extremes() -> None:
    values = np.zeros((10_000, 1))
    values[5_001], values[7_777] = 3.0, -1.0
    svg = sparkline(values)
    y = [float(point.split(",")[1]) for point in re.findall(r"[\d.]+,[\d.]+", svg)]
    assert len(y) == 2 * SPARK_POINTS
    assert min(y) == 2.0
    assert max(y) == 42.0
    assert "-1 to 3" in svg
    assert sparkline(np.zeros((0, 3))) == "none"
    assert "nan" not in sparkline(np.array([[np.nan], [1.0], [np.inf]]))


def test_a_sweep_stays_within_the_limits_and_moves_every_joint() -> None:
    robot = cd.load("pidog")
    q = sweep(robot).q
    for link in robot.model.links[1:]:
        column = q[:, link.q.start]
        assert column.min() >= link.limits.lower
        assert column.max() <= link.limits.upper
        assert np.ptp(column) > 0.5
    np.testing.assert_allclose(q[:, :7], [[0, 0, 0, 0, 0, 0, 1]] * len(q))
    np.testing.assert_allclose(q[0], q[-1], atol=1e-12)
    # the feet are under the hips at first, and the ground under the feet; an arm stands on its base
    assert sweep(robot).ground == pytest.approx(-0.05, abs=0.01)
    assert sweep(cd.load("ur3")).ground == 0.0


def test_what_can_be_shown() -> None:
    robot = cd.load("cartpole")
    still = show(robot, q=[0.0, 0.1], poster=False)
    assert "cartpole" in repr(still)
    moving = trajectory(robot, [0.0, 1.0], np.zeros((2, 2)), title="mine")
    assert 'title="mine"' in show(moving, poster=False)._repr_html_()
    with pytest.raises(ShapeError, match="a robot, a run or a trajectory, got int"):
        show(3)  # type: ignore[arg-type]


EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "first_minute.ipynb"


@pytest.mark.browser
def test_a_notebook_shows_it(tmp_path: Path, browser_of: Callable[[int, int], Browser]) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    pytest.importorskip("PIL")
    book = nbformat.read(EXAMPLE, as_version=4)
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    table, player, run_table, run_player = (output.data["text/html"] for output in outputs[:4])
    assert outputs[4].text == "bit-identical: 1,500 steps, 12 entries each\n"
    assert "wrist_3" in table and "let go" in run_table and "srcdoc=" in run_player
    assert player.startswith("<iframe")
    assert "srcdoc=" in player
    if chromium() is None:
        pytest.skip(MISSING)
    page = tmp_path / "notebook.html"
    page.write_text(f"<!doctype html><body>{table}{player}</body>", encoding="utf-8")
    browser = browser_of(700, 620)
    browser.open(page)
    x, y, w, h = (int(k) for k in browser.box("iframe"))
    stage = (slice(y + 30, y + h - 60), slice(x + 10, x + w - 10))
    end = time.monotonic() + 30.0
    before = browser.screenshot()
    # it plays by itself, inside its frame
    while changed(before[stage], browser.screenshot()[stage]) < 0.01 and time.monotonic() < end:
        time.sleep(0.3)
    after = browser.screenshot()
    assert changed(before[stage], after[stage]) >= 0.005
    assert after[stage].reshape(-1, 3).std(axis=0).min() > 8.0
    assert not browser.console
    assert [url for url in browser.requests if not url.startswith(("file:", "data:", "about:"))] == []
