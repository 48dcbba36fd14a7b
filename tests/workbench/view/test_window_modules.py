"""The parts of the viewer that need no browser: coordinates and sliders, text that stays text, ellipsoids, plots, pushes."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import condyle as cd
from condyle.errors import CondyleError
from condyle.robot.mjcf import read_mjcf
from condyle.robot.model import Link
from condyle.robot.parts import X, Y, body, joint, link, pose
from condyle.workbench.view.plots import round_up, value_range
from condyle.workbench.view.trajectory import frame_positions, link_poses, push_lines
from condyle.workbench.view.window import Pushes, coordinates, objects, open_window, pushable, tool
from condyle.workbench.view.window.live_view import MAX_PULL
from condyle.workbench.view.window.panel import flatten, legend, paragraph, short, table
from condyle.workbench.view.window.signal_plot import Signal

# -- live


SERVO = """
<mujoco><worldbody><body name="arm"><joint name="j" axis="0 1 0"/><geom size="0.05" pos="0.2 0 0" mass="1"/></body></worldbody>
<actuator><position joint="j" kp="50" dampratio="1"/></actuator></mujoco>
"""


def test_a_live_run_under_the_actuators_of_a_file_repeats(tmp_path: Path) -> None:
    robot = cd.load(read_mjcf(SERVO))
    with open_window(cd.Simulation(robot, wrenches=pushable(robot)), q=[0.5], port=0) as window:
        live = window.view
        live.folder = tmp_path
        if live.playing:
            live.toggle()
        live.reset()
        assert live.control == "actuators of its file"
        live.pushes.push(0, np.array([0.0, 0.0, 5.0]), 0.01)
        for control in ("actuators of its file", "none", "gravity compensation"):
            live.choose(control)
            for _ in range(10):
                live.step()
            if control != "none":  # from no control to another one, a run goes on
                live.save()
        assert window.error is None
    runs = [cd.read_run(path) for path in sorted(tmp_path.iterdir())]
    assert [run.steps for run in runs] == [10, 20]
    assert all(run.check() for run in runs) and np.abs(runs[0].wrenches).max() == 5.0


# -- text


class Reader(HTMLParser):
    """The words and the tags of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.words, self.tags = "", set[str]()
        self.feed(html)
        self.close()

    def handle_data(self, data: str) -> None:
        self.words += data

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)


@given(st.text(max_size=60))
def test_text_stays_text(text: str) -> None:
    for html, tags in ((paragraph(text), {"p"}), (table([(text, text)]), {"table", "tr", "td"})):
        read = Reader(html)
        assert read.tags == tags
        assert short(text) in read.words


@pytest.mark.parametrize("text", ["<img src=x onerror=alert(1)>", "</td><script>alert(1)</script>", "a & b < c", '" onload="x'])
def test_hostile_text(text: str) -> None:
    assert Reader(paragraph(text)).words == text and Reader(paragraph(text)).tags == {"p"}


def test_facts_are_flat_and_short() -> None:
    rows = flatten({"a": {"b": 1, "c": {"d": {"e": 2}}}, "long": list(range(100)), "none": None, "text": "x" * 1000})
    assert dict(rows)["a.b"] == "1" and dict(rows)["long"] == "100 entries" and "none" not in dict(rows)
    assert len(dict(rows)["text"]) == 401
    assert len(flatten({str(k): k for k in range(500)})) == 81


# -- sliders


@pytest.mark.parametrize("name", ["pidog", "ur3", "birotor", "wheeled_pendulum", "two_wheeled", "chain:30"])
def test_every_coordinate_has_a_slider_and_keeps_its_value(name: str) -> None:
    robot = cd.load(name)
    found = coordinates.coordinates(robot, 0.5)
    assert len(found) == sum(link.kind.nv for link in robot.reduced.links)
    rng = np.random.default_rng(3)
    q = coordinates.within(robot, found, robot.random_configuration(rng))
    for each in found:
        value = float(rng.uniform(each.low, each.high))
        moved = each.set(q, value)
        assert each.of(moved) == pytest.approx(value, abs=1e-9)
        # and the others stay
        for other in found:
            if other is not each:
                assert other.of(moved) == pytest.approx(other.of(q), abs=1e-6)
    assert [each for chain in coordinates.chains(robot, found) for each in chain] == found


@given(st.one_of(st.none(), st.floats()), st.one_of(st.none(), st.floats()), st.booleans())
def test_a_slider_always_has_a_range(lower: float | None, upper: float | None, slides: bool) -> None:
    from condyle.robot.description import Limits
    from condyle.robot.joints import Prismatic, Revolute
    from condyle.robot.spatial import Inertia, Pose

    kind = Prismatic(X) if slides else Revolute(X)
    found = Link("l", "j", -1, kind, Pose.identity(), Inertia.zero(), slice(0, 1), slice(0, 1), Limits(lower, upper))
    low, high = coordinates.limits(found, 1.0)
    assert np.isfinite([low, high]).all() and low < high
    if lower is not None and upper is not None and -3.0 < lower < upper - 0.01 < 3.0:
        assert (low, high) == (lower, upper)


def test_a_configuration_as_text_and_back() -> None:
    robot = cd.load("pidog")
    q = robot.random_configuration(np.random.default_rng(0))
    assert coordinates.from_text(robot, coordinates.as_text(q)) == pytest.approx(q, abs=1e-5)
    assert coordinates.from_text(robot, " ".join(map(str, q))) == pytest.approx(q, abs=1e-12)
    for text, words in (
        ("", "got 0"),
        ("1, 2", "got 2"),
        ("one", "numbers with commas"),
        ("0 " * 19, "zero"),
        ("nan " * 19, "finite"),
    ):
        with pytest.raises(CondyleError, match=words):
            coordinates.from_text(robot, text)


def test_sliders_show_degrees_and_metres() -> None:
    robot = cd.load("cartpole")
    slide, hinge = coordinates.coordinates(robot, 0.5)
    q = slide.set(hinge.set(robot.neutral(), np.radians(12.34)), 0.1234)
    assert (hinge.shown(q), slide.shown(q)) == (12.3, 0.123)
    assert hinge.ends == (-180.0, 180.0) and (hinge.step, slide.step) == (0.1, 1e-3)


# -- the tool


def tool_of(robot: cd.Robot) -> tool.Tool:
    """The tool of a robot in a window that is not there."""
    return tool.Tool(MagicMock(), MagicMock(), robot, 1.0, lambda q: None)


def test_the_tool_is_dragged_and_the_joints_follow() -> None:
    robot = cd.load("ur3")
    found = tool_of(robot)
    assert found.frame == "tool" and found.turns
    q = np.array([0.1, -1.2, 1.4, -1.7, -1.5, 0.2])
    R, p = robot.frame_pose(q, "tool")
    event = SimpleNamespace(
        phase="update", target=SimpleNamespace(position=p + np.array([0.05, 0.1, -0.1]), wxyz=objects.wxyz(R))
    )
    found._dragged(event)
    moved = found.follow(q)
    R1, p1 = robot.frame_pose(moved, "tool")
    assert p1 == pytest.approx(event.target.position, abs=1e-6) and pytest.approx(R, abs=1e-6) == R1
    assert found.message == "" and found.follow(moved) is moved  # once
    event.target.position = np.array([3.0, 0.0, 0.0])
    found._dragged(event)
    far = found.follow(moved)
    assert "out of reach" in found.message and np.all(far >= robot.lower) and np.all(far <= robot.upper)
    found.draw(far)


def test_a_foot_is_dragged_and_the_base_stays() -> None:
    robot = cd.load("pidog")
    found = tool_of(robot)
    found.frame, found.turns = "lf_foot", tool.joints_before(robot, "lf_foot") >= 6
    assert not found.turns
    q = robot.neutral()
    q[:7] = [0.3, -0.2, 0.4, 0.0, 0.0, np.sin(0.3), np.cos(0.3)]
    R, _ = robot.frame_pose(q, "lf_foot")
    wanted = robot.frame_pose(within_leg(robot, q), "lf_foot")[1]
    moved = found.solve(q, R, wanted)
    assert robot.frame_pose(moved, "lf_foot")[1] == pytest.approx(wanted, abs=1e-5)
    assert np.array_equal(moved[:7], q[:7])


def within_leg(robot: cd.Robot, q: np.ndarray) -> np.ndarray:
    """q with one leg elsewhere."""
    q = q.copy()
    q[robot.q_slice("lf_hip")] = 0.4
    q[robot.q_slice("lf_knee")] = -0.3
    return q


def test_likely_tools() -> None:
    assert [tool.tool_frame(cd.load(name)) for name in ("ur3", "double_pendulum")] == ["tool", "tip"]


# -- the camera, and legends


def test_the_camera_stays_above_the_ground_at_its_distance() -> None:
    low, high = np.array([-0.5, -0.5, 0.0]), np.array([0.5, 0.5, 1.0])
    environment = objects.Environment(MagicMock(), low, high)
    camera = SimpleNamespace(position=np.array([2.0, 0.0, -1.5]), look_at=np.array([0.0, 0.0, 0.5]))
    environment.keep_above_ground(camera)
    assert 0.0 < camera.position[2] < 0.05
    assert np.linalg.norm(camera.position - camera.look_at) == pytest.approx(np.hypot(2.0, 2.0))
    before = camera.position.copy()
    environment.keep_above_ground(camera)
    assert np.array_equal(camera.position, before)


def test_a_legend_keeps_text_as_text() -> None:
    read = Reader(legend([("#ff0000", "<b>one</b>"), ("#00ff00 dashed", "two")]))
    assert "<b>one</b>" in read.words and read.tags == {"p", "span", "i"}


# -- shapes


def test_an_ellipsoid_has_the_inertia_of_its_link() -> None:
    half = np.array([0.1, 0.2, 0.3])
    mass = 2.5
    moments = mass / 5.0 * (np.sum(half**2) - half**2)
    rotated = pose((0.3, -0.2, 0.1), (0.4, 0.5, 0.6))
    robot = cd.load(_one(body(mass, moments=tuple(moments), at=rotated)), base="fixed")
    found = objects.ellipsoid(robot.model.links[0])
    assert found is not None
    centre, R, axes = found
    assert centre == pytest.approx(rotated.p, abs=1e-12)
    assert np.sort(axes) == pytest.approx(half, abs=1e-12)
    # the same body, whichever way its axes are written
    assert R @ np.diag(axes**2) @ R.T == pytest.approx(rotated.R @ np.diag(half**2) @ rotated.R.T, abs=1e-12)


def _one(inertia: object) -> object:
    from condyle.robot.description import Description

    hinge = joint("hinge", "revolute", "base", "arm", axis=Y)
    return Description("one", (link("base"), link("arm", inertia)), (hinge,))  # type: ignore[arg-type]


@given(st.floats(1e-6, 1e6))
def test_round_lengths(length: float) -> None:
    assert 0.999 <= round_up(length) / length < 2.51
    assert f"{round_up(length):.0e}"[0] in "125"


def test_the_ground_is_rotated_to_its_normal() -> None:
    for normal in np.random.default_rng(1).standard_normal((20, 3)):
        normal = normal / np.linalg.norm(normal)
        w, x, y, z = objects.z_to(normal)
        rotated = [2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)]
        assert rotated == pytest.approx(normal, abs=1e-9)


# -- plots


def test_no_peak_is_lost_in_a_long_signal() -> None:
    t = np.arange(100_000) * 1e-3
    values = np.sin(t)[:, None].copy()
    values[54_321] = 7.0
    thin = Signal(t, values, "m", ["y"]).thinned()
    assert len(thin.t) <= 802 and thin.values.max() == 7.0 and np.all(np.diff(thin.t) > 0.0)


def test_the_difference_of_two_signals() -> None:
    one = Signal(np.arange(11) * 0.1, np.outer(np.arange(11.0), [1.0, 2.0]), "m", ["a", "b"])
    two = Signal(np.arange(41) * 0.02, np.outer(np.arange(41.0), [0.4]) + 1.0, "m", ["b"])
    found = two.minus(one)
    assert found.names == ["b"] and found.t[-1] == pytest.approx(0.8)
    assert found.values[:, 0] == pytest.approx(1.0 + 20.0 * found.t - 20.0 * found.t, abs=1e-9)


@given(st.lists(st.floats(allow_nan=True), max_size=8))
def test_a_chart_always_has_a_height(values: list[float]) -> None:
    with np.errstate(over="ignore"):
        low, high = value_range([np.array(values)])
    assert low < high or not np.isfinite([low, high]).all()


# -- pushes


@pytest.fixture(scope="module")
def arm() -> Pushes:
    robot = cd.load("double_pendulum")
    return Pushes(cd.Simulation(robot, wrenches=pushable(robot)), 1.0)


def test_the_mouse_pulls_at_the_point_it_holds(arm: Pushes) -> None:
    robot = arm.robot
    q = np.array([0.3, -0.5])
    R, p = link_poses(robot, q)
    grip, target = np.array([0.05, 0.02, -0.3]), np.array([0.2, 0.1, -0.4])
    arm.pull(1, grip, target)
    found = arm.wrenches(lambda: (R, p), 1e-3)
    arm.release()
    assert found is not None
    point = R[1] @ grip + p[1]
    k = arm.by_link[1]
    force, torque = found[k, :3], found[k, 3:]
    assert force == pytest.approx(arm.stiffness * (target - point), rel=1e-12)
    # the torque is that of the force at the point, about the frame
    arm_of = point - frame_positions(robot, R, p, arm.frames[k].name)
    assert torque == pytest.approx(np.cross(arm_of, force), abs=1e-12)
    assert np.count_nonzero(np.delete(found, k, axis=0)) == 0
    # and it is drawn on the line on which it acts
    points, forces = push_lines(arm.simulation, R, p, found)
    assert forces[k] == pytest.approx(force)
    assert np.cross(points[k] - point, force) == pytest.approx(np.zeros(3), abs=1e-9)


def test_no_pull_is_stronger_than_a_few_weights(arm: Pushes) -> None:
    R, p = link_poses(arm.robot, np.zeros(2))
    arm.pull(0, np.zeros(3), np.array([1e6, 0.0, 0.0]))
    found = arm.wrenches(lambda: (R, p), 1e-3)
    arm.release()
    assert np.linalg.norm(found[:, :3]) == pytest.approx(MAX_PULL * arm.weight)
    assert arm.wrenches(lambda: (R, p), 1e-3) == pytest.approx(0.0)


def test_a_push_lasts_as_long_as_it_should(arm: Pushes) -> None:
    arm.push(1, np.array([0.0, 3.0, 0.0]), 0.1)
    count = 0
    while arm.active:
        assert arm.wrenches(None, 0.002)[1, 1] == 3.0
        count += 1
    assert count == 50


def test_every_link_with_a_mass_can_be_pushed() -> None:
    robot = cd.load("pidog")
    frames = [robot.model.frame(name).link for name in pushable(robot)]
    assert frames == sorted(set(frames)) == [i for i, link in robot.model.outward() if link.inertia.mass > 0.0]
