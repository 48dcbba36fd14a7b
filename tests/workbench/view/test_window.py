"""The viewer as a user has it: in a real browser, with real clicks and keys, and a look at what is on the screen."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from workbench.view.browser import MISSING, Browser, changed, chromium

import condyle as cd
from condyle.commands.view import view
from condyle.errors import CondyleError
from condyle.methods.control.controllers import zero_torque
from condyle.workbench.runs.recorder import Recorder
from condyle.workbench.runs.run import Run, read_run
from condyle.workbench.view.window import Window, open_gallery, open_window, pushable

pytest.importorskip("viser", reason="the viewer needs viser: pip install 'condyle[viewer]'")
pytestmark = pytest.mark.skipif(chromium() is None, reason=MISSING)

SIZE = (820, 520)
SCENE = (slice(0, 520), slice(0, 470))  # rows and columns beside the panel
IMAGE, MARKDOWN = "<img src=x onerror=alert(1)>", "**b** [x](javascript:alert(2)) /a/../b"


# JavaScript: let the page draw so many pictures
PASS = "new Promise(done => { let n = 0; const f = () => ++n < COUNT ? requestAnimationFrame(f) : done(1); f(); })"

# JavaScript: where an element is on the screen, after it was scrolled into view
BOX = """(each => { each.scrollIntoView({block: "nearest"}); const r = each.getBoundingClientRect();
    return [r.x, r.y, r.width, r.height]; })"""


@pytest.fixture
def browser(browser_of: Callable[[int, int], Browser]) -> Browser:
    return browser_of(*SIZE)


@pytest.fixture(scope="module")
def runs() -> tuple[Run, Run]:
    """Two swings of a double pendulum, the second pushed."""
    robot = cd.load("double_pendulum")
    simulation = cd.Simulation(robot, 0.005, wrenches=pushable(robot))
    found = []
    for push in (0.0, 6.0):
        recorder = Recorder(simulation, simulation.state([0.9, 0.3]), title=f"pushed by {push:g} N", controller="none")
        for k in range(400):
            wrenches = np.zeros((len(simulation.wrench_frames), 6))
            wrenches[-1, 0] = push if 100 <= k < 160 else 0.0
            recorder.step(None, wrenches)
        found.append(recorder.finish())
    return found[0], found[1]


def enter(browser: Browser, window: Window) -> None:
    """Open a window in the browser, and wait until its first picture no longer changes."""
    # light from one side and no shadows: software draws them slowly, and no test looks at them
    window.server.scene.configure_environment_map(hdri=None)
    window.server.scene.configure_default_lights(cast_shadow=False)
    browser.console.clear()
    browser.requests.clear()
    # the page draws coarser pictures when it is slow; here they are to be compared
    browser.open(f"{window.url}/?fixedDpr=1")
    browser.wait_for(lambda: len(window.server.get_clients()) > 0, 60.0)
    browser.evaluate("document.querySelectorAll('.mantine-Notification-closeButton').forEach(button => button.click())")
    browser.evaluate(PASS.replace("COUNT", "30"))


def still(browser: Browser, seconds: float = 30.0) -> np.ndarray:
    """The picture, when the scene has stopped changing."""
    end, last = time.monotonic() + seconds, None
    while time.monotonic() < end:
        # pictures that the page itself has drawn: a busy computer may take its time for each
        browser.evaluate(PASS.replace("COUNT", "6"))
        now = browser.screenshot()
        if last is not None and changed(last[SCENE], now[SCENE], 3) == 0.0 and now[SCENE].std() > 3.0:
            return now
        last = now
    raise TimeoutError(f"the scene still changes after {seconds:g} s")


def field(label: str) -> str:
    """JavaScript for the input beside a label."""
    return f"""(() => {{
        let at = [...document.querySelectorAll("label")].find(each => each.textContent === {json.dumps(label)});
        while (at && !at.querySelector("input:not([type=hidden])")) at = at.parentElement;
        return at && at.querySelector("input:not([type=hidden])"); }})()"""


def write(browser: Browser, label: str, text: str) -> None:
    """Click into the input beside a label, and type."""
    browser.wait_for(f"!!{field(label)}")
    x, y, width, height = browser.evaluate(f"{BOX}({field(label)})")
    browser.click(x + width / 2, y + height / 2)
    browser.evaluate(f"{field(label)}.select()")
    browser.keys(text)
    browser.keys("Enter")


def click(browser: Browser, text: str, kind: str = "button") -> None:
    """Click on the button, or another kind of element, with this text."""
    find = f"[...document.querySelectorAll({json.dumps(kind)})].find(each => each.textContent.trim() === {json.dumps(text)})"
    browser.wait_for(f"!!{find}")
    x, y, width, height = browser.evaluate(f"{BOX}({find})")
    browser.click(x + width / 2, y + height / 2)


def slide(browser: Browser, label: str, part: float) -> None:
    """Press the slider beside a label, and drag it to a part of its length."""
    find = f'[...document.querySelectorAll("label")].find(each => each.textContent === {json.dumps(label)}).htmlFor'
    x, y, width, height = browser.evaluate(f"{BOX}(document.getElementById({find}))")
    browser.drag((x + 0.5 * width, y + 0.35 * height), (x + part * width, y + 0.35 * height))


def words(browser: Browser) -> str:
    return str(browser.evaluate("document.body.innerText"))


# -- a robot


@pytest.mark.browser
def test_sliders_move_the_robot_on_the_screen(browser: Browser) -> None:
    with open_window(cd.load("ur3"), port=0) as window:
        enter(browser, window)
        before = still(browser)
        assert window.view.q == pytest.approx(np.zeros(6))
        write(browser, "lift_joint", "-70")  # degrees
        browser.wait_for(lambda: window.view.q[1] == pytest.approx(np.radians(-70.0)))
        after = still(browser)
        assert changed(before[SCENE], after[SCENE]) > 0.02
        assert json.loads(browser.evaluate(f"{field('q')}.value"))[1] == pytest.approx(np.radians(-70.0), abs=1e-4)
        # by the mouse
        slide(browser, "pan_joint", 0.75)
        browser.wait_for(lambda: window.view.q[0] == pytest.approx(np.pi, abs=0.5))
        rotated = still(browser)
        assert changed(after[SCENE], rotated[SCENE]) > 0.02
        # not beyond the limits, +-pi
        write(browser, "elbow_joint", "999")
        browser.keys("Tab")
        browser.wait_for(lambda: window.view.q[2] == pytest.approx(np.pi, abs=1e-3))
        browser.wait_for(f"Number({field('elbow_joint')}.value) < 181 && {field('q')}.value.includes('3.14')")
        # a configuration of one's own, and back
        write(browser, "q", "[0, 0.5, 0, 0, 0, 0.25]")
        browser.wait_for(lambda: window.view.q[5] == pytest.approx(0.25) and window.view.q[1] == pytest.approx(0.5))
        write(browser, "q", "[0, 0.5]")
        browser.wait_for(lambda: window.error is not None)
        assert "6 finite numbers, got 2" in str(window.error)
        browser.wait_for(lambda: "6 finite numbers, got 2" in words(browser))
        click(browser, "reset")
        browser.wait_for(lambda: window.view.q == pytest.approx(np.zeros(6)) and window.error is None)
        assert changed(before[SCENE], still(browser)[SCENE]) < 0.005
        # layers
        click(browser, "Show", "[role=tab]")
        for label, layer in (("frames", "frames"), ("inertia ellipsoids", "inertias")):
            browser.evaluate(f"{field(label)}.click()")
            browser.wait_for(lambda layer=layer: layer in window.view.node.shown)
        browser.evaluate(f"{field('centre of mass')}.click()")
        browser.wait_for(lambda: "center" in window.view.node.shown)
        marked = still(browser)
        assert changed(before[SCENE], marked[SCENE]) > 0.01
        # dark
        browser.evaluate(f"{field('dark')}.click()")
        browser.wait_for(lambda: window.view.environment.dark)
        dark = still(browser)
        assert dark[SCENE].mean() < 80 < 180 < marked[SCENE].mean()
        # nothing came from anywhere else
        away = [url for url in browser.requests if not url.startswith((window.url, "data:", "blob:" + window.url))]
        assert browser.requests and not away


@pytest.mark.browser
def test_names_from_files_are_shown_as_text(browser: Browser, tmp_path: Path) -> None:
    def safe(text: str) -> str:
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

    solid = '<inertial><mass value="1"/><inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>'
    path = tmp_path / "hostile.urdf"
    path.write_text(f"""<robot name="{safe("<script>alert(3)</script>")}">
      <link name="base">{solid}<visual><geometry><box size="0.2 0.2 0.1"/></geometry></visual></link>
      <link name="{safe(IMAGE)}">{solid}
        <visual><geometry><mesh filename="{safe("<b>missing</b>.stl")}"/></geometry></visual></link>
      <joint name="{safe(MARKDOWN)}" type="revolute"><parent link="base"/><child link="{safe(IMAGE)}"/><origin xyz="0 0 0.1"/>
        <axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="5" velocity="3"/></joint></robot>""")
    robot = cd.load(path)
    with open_window(robot, port=0) as window:
        enter(browser, window)
        window.view.show("frames", True)
        browser.wait_for(lambda: MARKDOWN in words(browser))
        assert "<script>alert(3)</script>" in words(browser)
        click(browser, "About", "[role=tab]")
        browser.wait_for(lambda: "<b>missing</b>.stl" in words(browser))
        browser.evaluate(f"{field(MARKDOWN)} === null")
        assert browser.evaluate("document.querySelectorAll('img[src=x], a[href^=javascript]').length") == 0
    # a run of it: titles, names of signals in a chart, facts
    simulation = cd.Simulation(robot, wrenches=pushable(robot))
    recorder = Recorder(simulation, simulation.state(), title=IMAGE, controller=MARKDOWN, about={"note": IMAGE})
    for _ in range(5):
        recorder.step(**{IMAGE: 1.0})
    with open_window(recorder.finish(), port=0) as window:
        enter(browser, window)
        browser.wait_for(lambda: IMAGE in words(browser))
        browser.wait_for(lambda: MARKDOWN in words(browser))
        click(browser, "About", "[role=tab]")
        browser.wait_for(lambda: words(browser).count(IMAGE) >= 3)
        assert browser.evaluate("document.querySelectorAll('img[src=x], a[href^=javascript]').length") == 0
    assert browser.dialogs == []


# -- runs


@pytest.mark.browser
def test_a_run_plays_and_is_scrubbed(browser: Browser, runs: tuple[Run, Run], tmp_path: Path) -> None:
    runs[1].save(tmp_path / "run.cdl")
    with open_window(read_run(tmp_path / "run.cdl"), port=0) as window:
        enter(browser, window)
        first = still(browser)
        browser.evaluate(f"{field('loop')}.click()")
        browser.wait_for(lambda: not window.view.loop)
        click(browser, "play")
        browser.wait_for(lambda: window.view.time > 0.1)
        click(browser, "pause")
        browser.wait_for(lambda: not window.view.playing)
        paused = window.view.time
        assert 0.1 < paused <= 2.0
        browser.wait_for(f"Math.abs(Number({field('time, s')}.value) - {paused}) < 0.01")
        # to the end, where it stops
        click(browser, "play")
        browser.wait_for(lambda: window.view.time == 2.0 and not window.view.playing)
        assert np.abs(runs[1].q[-1] - runs[1].q[0]).max() > 0.3
        assert changed(first[SCENE], still(browser)[SCENE]) > 0.003
        # scrub: the state of that time is drawn
        write(browser, "time, s", "0.6")
        browser.wait_for(lambda: window.view.time == pytest.approx(0.6))
        pushed = still(browser)
        assert changed(first[SCENE], pushed[SCENE]) > 0.003
        # while it is pushed there is a violet arrow, and none before
        assert violet(pushed[SCENE]) > 30 > 5 > violet(first[SCENE])
        click(browser, ">")
        browser.wait_for(lambda: window.view.time == pytest.approx(0.605))
        click(browser, "|<")
        browser.wait_for(lambda: window.view.time == 0.0)
        assert changed(first[SCENE], still(browser)[SCENE]) < 0.003
        click(browser, "About", "[role=tab]")
        browser.wait_for(lambda: runs[1].about["world_hash"] in words(browser))


def violet(picture: np.ndarray) -> int:
    """How many pixels have the colour of a push."""
    r, g, b = (picture[..., k].astype(int) for k in range(3))
    return int(((b - g > 50) & (r - g > 25) & (b > r)).sum())


def pink(picture: np.ndarray) -> int:
    """How many pixels have the tint of a second run."""
    r, g, b = (picture[..., k].astype(int) for k in range(3))
    return int(((r - g > 30) & (b - g > 10) & (r > b)).sum())


@pytest.mark.browser
def test_two_runs_are_compared(browser: Browser, runs: tuple[Run, Run]) -> None:
    with open_window(*runs, port=0) as window:
        enter(browser, window)
        window.view.show("trail", False)
        write(browser, "time, s", "1.2")
        browser.wait_for(lambda: window.view.time == pytest.approx(1.2))
        ghost = still(browser)
        window.view.compare("hidden")
        alone = still(browser)
        assert pink(ghost[SCENE]) > pink(alone[SCENE]) + 80
        window.view.compare("side by side")
        beside = still(browser)
        assert changed(ghost[SCENE], beside[SCENE]) > 0.003
        # both at the same time
        x0, x1 = (track.run.x[track.state(window.view.time)] for track in window.view.tracks)
        assert x0 == pytest.approx(runs[0].x[240]) and x1 == pytest.approx(runs[1].x[240])
        # and how they differ
        browser.evaluate(f"{field('difference')}.click()")
        browser.wait_for(lambda: len(window.view.plot.data) == 3)
        t, *rows = window.view.plot.data
        assert rows[0] == pytest.approx((runs[1].q - runs[0].q)[: len(t), 0], abs=1e-12)
        assert np.abs(rows[0]).max() > 0.1


# -- live


@pytest.mark.browser
def test_a_simulation_is_pushed_while_it_runs(browser: Browser, tmp_path: Path) -> None:
    robot = cd.load("double_pendulum")
    simulation = cd.Simulation(robot, 0.002, wrenches=pushable(robot))
    with open_window(simulation, control=zero_torque(simulation), port=0) as window:
        live = window.view
        live.folder = tmp_path
        enter(browser, window)
        browser.wait_for(lambda: live.time > 0.2)
        # it hangs, and stays
        assert live.x == pytest.approx(simulation.state(), abs=1e-9)
        rest = still(browser)
        begun, wall = live.time, time.monotonic()
        click(browser, "push")
        browser.wait_for(lambda: np.abs(live.x).max() > 0.05)
        swung = browser.screenshot()
        assert changed(rest[SCENE], swung[SCENE]) > 0.002
        assert live.time - begun < 1.3 * (time.monotonic() - wall) + 0.5
        click(browser, "reset")
        browser.wait_for(lambda: live.time < 5.0 and np.abs(live.x).max() < 1e-9)
        still(browser)
        # by the mouse: take the lower bob, and pull it aside
        at = bob(browser)
        browser.drag(at, (at[0] - 90, at[1] - 40), hold=1.0)
        assert np.abs(live.x[: robot.nq]).max() > 0.05
        browser.wait_for(lambda: not live.pushes.active)
        click(browser, "save")
        path = tmp_path / "live-double_pendulum-1.cdl"
        browser.wait_for(path.exists)
        saved = read_run(path)
        assert saved.lost is None and saved.check().identical and np.abs(saved.wrenches).max() > 0.0
        assert window.error is None


def bob(browser: Browser) -> tuple[float, float]:
    """Where the lowest part of the robot is on the screen: the middle of the lowest dark or coloured stretch."""
    picture = still(browser)[SCENE].astype(int)
    body = (picture.max(axis=-1) - picture.min(axis=-1) > 40) | (picture.max(axis=-1) < 90)
    rows = np.flatnonzero(body.sum(axis=1) > 6)
    row = rows[-1] - 4
    return float(np.flatnonzero(body[row]).mean()), float(row)


# -- the window as an object, and the command


@pytest.mark.browser
def test_one_of_many_runs_is_chosen(browser: Browser, runs: tuple[Run, Run]) -> None:
    with open_gallery([runs[0], runs[1], runs[0]], port=0) as window:
        enter(browser, window)
        assert window.view.playing and window.view.tracks[0].run is runs[0]
        title = f"1. {runs[0].title}"
        browser.wait_for(f"{field('show')}.value === {json.dumps(title)}")
        x, y, width, height = browser.evaluate(f"{BOX}({field('show')})")
        browser.click(x + width / 2, y + height / 2)
        browser.wait_for("[...document.querySelectorAll('[role=option]')].some(each => each.textContent.startsWith('2. '))")
        click(browser, f"2. {runs[1].title}", "[role=option]")
        browser.wait_for(lambda: window.view.tracks[0].run is runs[1])
        browser.wait_for(f"({field('show')} || {{}}).value === {json.dumps(f'2. {runs[1].title}')}")
        before = window.view.time
        browser.wait_for(lambda: window.view.time != before)
        assert window.error is None


def test_a_window_opens_closes_and_shows_itself() -> None:
    with open_window(cd.load("pendulum"), port=0) as window:
        assert window.url.startswith("http://127.0.0.1:") and not window.closed
        assert f'src="{window.url}"' in window._repr_html_() and "<iframe" in window.iframe(300)
        with open_window(cd.load("pendulum"), port=int(window.url.rpartition(":")[2])) as second:
            assert second.url != window.url
    assert window.closed and "closed" in window._repr_html_() and window.wait(0.0)
    window.close()


def test_what_no_window_shows_is_a_sentence() -> None:
    robot: Any = cd.load("pendulum")
    with pytest.raises(CondyleError, match="a window shows a robot, a run or a simulation"):
        open_window("ur3", port=0)  # type: ignore[arg-type]
    with pytest.raises(CondyleError, match="only two runs"):
        open_window(robot, robot, port=0)
    with pytest.raises(CondyleError, match="must have 1 entries"):
        open_window(robot, q=[1.0, 2.0], port=0)


def test_the_command(runs: tuple[Run, Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*targets: str, **options: Any) -> str:
        view(list(targets), port=0, seconds=0.0, **options)
        return capsys.readouterr().out

    first, second = (str(tmp_path / name) for name in ("one.cdl", "two.cdl"))
    runs[0].save(first)
    runs[1].save(second)
    for targets, options in (
        (["pendulum"], {}),
        ([first], {}),
        ([first, second], {}),
        ([first] * 3, {}),
        (["pendulum"], {"live": True}),
    ):
        lines = printed(*targets, **options).splitlines()
        assert len(lines) == 2 and lines[0].startswith("viewer at http://127.0.0.1:") and lines[1] == "viewer closed"
    assert "without a password" in printed("pendulum", host="0.0.0.0")
    for targets, options, words_ in (
        ([first, second, "pendulum"], {}, "only runs can be shown together"),
        (["pendulum", first], {}, "only runs can be shown together"),
        ([first], {"live": True}, "--live simulates one robot"),
        ([first], {"joint": ["a=1"]}, "a run has its own"),
        (["nosuch.cdl"], {}, "does not exist"),
        (["nosuch.urdf"], {}, "no such file"),
        (["pendulum"], {"joint": ["knee=1"]}, "no joint 'knee'"),
    ):
        with pytest.raises(CondyleError, match=words_):
            printed(*targets, **options)
