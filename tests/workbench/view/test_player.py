"""The player of a motion in a web page: what is in its HTML, and what a browser draws and does with it."""

import base64
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import condyle as cd
from condyle.errors import ShapeError
from condyle.multibody.robot import Robot
from condyle.workbench.view.player import framed_page, player_data, player_html, player_page, script_json
from condyle.workbench.view.trajectory import Trajectory, trajectory

from .browser import Browser, changed

EVIL = "</script><script>window.evil=1</script><img src=x onerror=window.evil=1>&\"'\u2028"


def moving(name: str = "pidog", *, far: float = 0.0) -> Trajectory:
    """A robot whose joints move for two seconds, and which goes `far` metres."""
    robot = cd.load(name)
    t = np.linspace(0.0, 2.0, 41)
    q = np.tile(robot.neutral(), (41, 1))
    q[:, -1] += 0.5 * np.sin(3.0 * t)
    q[:, 7:] += 0.3 * np.sin(2.0 * t)[:, None]
    q[:, 0] += far * t / 2.0
    q[:, 2] += 0.1
    shown = trajectory(robot, t, q, title="moving")
    contacts = shown.p[:, :1] - [0.0, 0.0, 0.1]
    return replace(shown, contacts=contacts, forces=np.tile([0.0, 0.0, 3.0], (41, 1, 1)))


def unpacked(html: str) -> dict[str, object]:
    """The data inside a player."""
    found = re.search(r'<script type="application/json">(.*?)</script>', html, re.S)
    assert found is not None
    data: dict[str, object] = json.loads(found[1])
    return data


def floats(text: object) -> np.ndarray:
    return np.frombuffer(base64.b64decode(str(text)), "<f4")


# -- what is in it


def test_the_data_is_the_motion() -> None:
    m = moving(far=1.0)
    data = player_data(m)
    np.testing.assert_allclose(floats(data["t"]), m.t, atol=1e-6)
    poses = floats(data["poses"]).reshape(41, 13, 7)
    np.testing.assert_allclose(poses[..., 4:], m.p, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(poses[..., :4], axis=-1), 1.0, atol=1e-6)
    np.testing.assert_allclose(floats(data["center"]).reshape(41, 3), m.center, atol=1e-6)
    # every face belongs to one group, and the groups follow each other
    groups = data["groups"]
    faces = np.frombuffer(base64.b64decode(data["body"]["faces"]), "<u4")
    assert [g["first"] for g in groups] == np.cumsum([0, *(g["count"] for g in groups)])[:-1].tolist()
    assert sum(g["count"] for g in groups) == len(faces)
    assert {g["link"] for g in groups} == set(range(13))
    assert data["follow"] is True
    assert player_data(moving())["follow"] is False
    assert player_data(moving(far=1.0), follow=False)["follow"] is False


def test_a_piece_of_html_needs_nothing_from_elsewhere() -> None:
    html = player_html(moving(), title="a title", poster=True)
    assert not re.findall(r"""(?:src|href|srcset)=["'](?!data:)""", html)
    assert "http://" not in html.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in html
    assert "onclick" not in html
    assert html.count("data:image/png;base64,") == 2, "a light and a dark poster"
    assert html.isascii()
    assert len(html) < 1_500_000


def test_names_are_text() -> None:
    m = moving()
    model = replace(
        m.robot.model,
        name=EVIL,
        links=tuple(replace(link, name=EVIL, joint=EVIL + str(i)) for i, link in m.robot.model.outward()),
    )
    evil = replace(m, robot=Robot(model), title=EVIL)
    html = player_html(evil, title=EVIL, poster=False)
    assert html.count("<script") == html.count("</script>") == 3
    assert "<img" not in html
    assert unpacked(html)["title"] == EVIL
    assert "\u2028" not in script_json({"a": EVIL})
    page = framed_page(evil, title=EVIL, poster=False)
    assert page.count("<") == 2, "an iframe and nothing else"


def test_bad_requests() -> None:
    for height in (10, 100_000):
        with pytest.raises(ShapeError, match="pixels high"):
            player_html(moving(), height=height, poster=False)


def test_robots_without_links_shapes_or_time() -> None:
    still = trajectory(cd.load("ur3"), [0.0], np.zeros((1, 6)))
    assert unpacked(player_html(still, poster=False))["trail"] is None
    with pytest.raises(ValueError, match="Out of range"):
        script_json({"a": float("nan")})


# -- in a browser


@pytest.fixture
def browser(browser_of: Callable[[int, int], Browser]) -> Browser:
    return browser_of(640, 420)


def opened(browser: Browser, folder: Path, html: str) -> None:
    page = folder / "page.html"
    page.write_text(html, encoding="utf-8")
    browser.console.clear()
    browser.requests.clear()
    browser.open(page)
    browser.wait_for("window.condylePlayers && condylePlayers.length && condylePlayers[0].drawn > 0")


def settled(browser: Browser) -> np.ndarray:
    """The screen after what was asked for is drawn."""
    browser.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return browser.screenshot()


@pytest.mark.browser
def test_it_draws_plays_and_scrubs(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, player_page(moving(far=0.5), title=EVIL, autoplay=False, poster=False))
    start = settled(browser)
    x, y, w, h = (int(k) for k in browser.box(".condyle-stage"))
    stage = (slice(y, y + h), slice(x, x + w))
    assert start[stage].reshape(-1, 3).std(axis=0).min() > 10.0, "there is a robot and a ground"
    assert browser.evaluate("condylePlayers[0].playing") is False
    # space plays, and what is on the screen moves
    browser.evaluate("document.querySelector('.condyle-player').focus()")
    browser.click_on("button[aria-label=Play]")
    browser.wait_for("condylePlayers[0].time > 0.3")
    browser.click_on("button[aria-label=Pause]")
    assert browser.evaluate("condylePlayers[0].playing") is False
    later = settled(browser)
    assert changed(start[stage], later[stage]) > 0.01
    # the slider takes it to the end
    x0, y0, w0, h0 = browser.box("input[type=range]")
    browser.click(x0 + w0 - 2, y0 + h0 / 2)
    assert browser.evaluate("condylePlayers[0].time") > 1.9
    assert "/ 2.00 s" in browser.evaluate("document.querySelector('.condyle-clock').textContent")
    end = settled(browser)
    assert changed(later[stage], end[stage]) > 0.01
    assert browser.evaluate("window.evil") is None
    assert browser.evaluate("document.querySelector('.condyle-title').textContent") == EVIL
    assert not browser.console
    assert [url for url in browser.requests if not url.startswith(("file:", "data:"))] == []


@pytest.mark.browser
def test_dragging_wheel_and_reset(browser: Browser, tmp_path: Path) -> None:
    opened(browser, tmp_path, player_page(moving(), autoplay=False, poster=False))
    start = settled(browser)
    browser.drag((320, 150), (420, 190))
    assert changed(start, settled(browser)) > 0.05
    browser.evaluate("document.activeElement.blur()")
    browser.wheel(320, 150, -300.0)
    assert browser.evaluate("condylePlayers[0].distance") == 1, "the wheel scrolls the page until the player is chosen"
    browser.evaluate("document.querySelector('.condyle-player').focus()")
    browser.wheel(320, 150, -300.0)
    browser.wait_for("condylePlayers[0].distance < 0.9")
    browser.click_on("button[aria-label='Reset the view']")
    browser.evaluate("document.activeElement.blur()")
    browser.move(5, 5)
    assert changed(start[:360], settled(browser)[:360]) < 0.002


@pytest.mark.browser
def test_forces_and_plans_can_be_hidden_and_a_dark_page_is_dark(browser: Browser, tmp_path: Path) -> None:
    shown = moving()
    points = np.tile([[0.02 * k, 0.0, 0.2] for k in range(6)], (len(shown), 1, 1))
    opened(browser, tmp_path, player_page(replace(shown, polylines=(points,)), autoplay=False, poster=False))

    def orange() -> int:
        shot = settled(browser).astype(int)
        return int(np.count_nonzero((shot[..., 0] > 150) & (shot[..., 2] < 90) & (shot[..., 1] < 140)))

    def green() -> int:
        shot = settled(browser)[:360].astype(int)
        return int(np.count_nonzero((shot[..., 1] > shot[..., 0] + 40) & (shot[..., 1] > shot[..., 2] + 25)))

    assert orange() > 50 and green() > 50
    browser.click_on("button[aria-pressed]")
    assert orange() == 0 and green() > 50
    browser.click_on("button[aria-pressed]", 1)
    assert green() == 0
    light = settled(browser)
    browser.color_scheme(dark=True)
    dark = settled(browser)
    browser.color_scheme(dark=False)
    assert light[10:300].mean() > 170 > 80 > dark[10:300].mean()


@pytest.mark.browser
def test_five_on_one_page_have_a_context_only_in_sight(browser: Browser, tmp_path: Path) -> None:
    m = moving("ur3")
    part = player_html(m, height=360, poster=False, autoplay=True)
    opened(browser, tmp_path, f"<!doctype html><body>{part * 5}</body>")
    assert browser.evaluate("condylePlayers.length") == 5
    assert browser.evaluate("document.querySelectorAll('canvas').length") < 5
    browser.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    browser.wait_for("condylePlayers[4].drawn > 1 && condylePlayers[4].time > 0")
    browser.wait_for("!condylePlayers[0].drawing")
    assert browser.evaluate("document.querySelectorAll('canvas').length") < 5
    browser.evaluate("window.scrollTo(0, 0)")
    browser.wait_for("condylePlayers[0].drawing && condylePlayers[0].root.classList.contains('condyle-live')")
    assert not browser.console


@pytest.mark.browser
def test_without_webgl_the_poster_stays(browser: Browser, tmp_path: Path) -> None:
    blind = "<script>HTMLCanvasElement.prototype.getContext = () => null;</script>"
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html><body>{blind}{player_html(moving(), autoplay=False)}</body>", encoding="utf-8")
    browser.open(page)
    browser.wait_for("condylePlayers[0].failed")
    shot = settled(browser)
    assert shot[40:300, 100:540].reshape(-1, 3).std(axis=0).min() > 10.0
    assert browser.evaluate("getComputedStyle(document.querySelector('img')).visibility") == "visible"
