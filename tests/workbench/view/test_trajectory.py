"""Where links, contacts and forces are, in one configuration and over a run."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import condyle as cd
from condyle.errors import CondyleError, FileError, RobotError, ShapeError
from condyle.workbench.view.trajectory import (
    frame_positions,
    link_poses,
    mass_center,
    polyline_points,
    quaternions,
    sample_run,
    samples,
    trajectory,
)

RNG = np.random.default_rng(7)


@pytest.fixture(scope="module")
def push_run() -> cd.Run:
    """A cart with a pole at rest, then pushed sideways."""
    robot = cd.load("cartpole")
    simulation = cd.Simulation(robot, dt=0.01, wrenches=["cart"])
    with cd.Recorder(simulation, simulation.state(), title="a push") as recorder:
        for k in range(40):
            recorder.step(wrenches=[[2.0 if k >= 20 else 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]])
    assert recorder.run is not None
    return recorder.run


@pytest.mark.parametrize("name", ["ur3", "birotor", "pidog", "two_wheeled"])
def test_links_are_where_the_robot_says(name: str) -> None:
    robot = cd.load(name)
    q = robot.random_configuration(RNG, 3)
    R, p = link_poses(robot, q)
    assert R.shape == (3, len(robot.model.links), 3, 3)
    frame = next(f for f in reversed(robot.model.frames) if f.link >= 0)
    wanted = robot.frame_pose(q, frame.name)
    np.testing.assert_allclose(frame_positions(robot, R, p, frame.name), wanted[1], atol=1e-14)
    np.testing.assert_allclose(R[:, frame.link] @ frame.pose.R, wanted[0], atol=1e-14)
    np.testing.assert_allclose(mass_center(robot, q), robot.center_of_mass(q), atol=1e-14)
    one = link_poses(robot, q[1])
    assert np.array_equal(one[0], R[1])
    assert np.array_equal(one[1], p[1])


def test_a_constrained_robot_is_lifted() -> None:
    robot = cd.load("chain:3").couple("joint_2", {"joint_1": -2.0})
    q = np.array([0.3, 0.1])
    full = robot.lift(q, np.zeros(2))[0]
    np.testing.assert_allclose(link_poses(robot, q)[1], link_poses(cd.load("chain:3"), full)[1], atol=1e-14)


def test_wrong_configurations_are_refused_with_a_sentence() -> None:
    robot = cd.load("ur3")
    with pytest.raises(ShapeError, match="6 entries"):
        link_poses(robot, np.zeros(5))
    with pytest.raises(RobotError, match="not finite"):
        link_poses(robot, np.full(6, np.nan))
    with pytest.raises(ShapeError, match="array of numbers"):
        link_poses(robot, ["a"] * 6)
    with pytest.raises(ShapeError, match="times"):
        trajectory(robot, [0.0, 1.0], np.zeros((3, 6)))


def test_a_run_as_a_motion(push_run: cd.Run) -> None:
    shown = sample_run(push_run, fps=50.0)
    assert len(shown) == 21
    assert shown.t[0] == 0.0
    assert shown.t[-1] == pytest.approx(0.4)
    np.testing.assert_allclose(shown.center[-1], push_run.robot.center_of_mass(push_run.q[-1]))
    assert shown.pushes.shape == (21, 1, 3)
    # the push acts from step 20 on, and its arrow is at the cart, in the axes of the world
    np.testing.assert_allclose(shown.pushes[:10, 0], 0.0)
    np.testing.assert_allclose(shown.pushes[10:, 0], [[2.0, 0.0, 0.0]] * 11)
    np.testing.assert_allclose(shown.push_points[-1, 0], push_run.robot.frame_pose(push_run.q[-1], "cart")[1], atol=1e-14)


def test_contacts_and_forces_of_a_run() -> None:
    robot = cd.load("birotor")
    simulation = cd.Simulation(robot, dt=0.004, ground=cd.Plane(), contacts={robot.frame_names[0]: 0.1})
    q = robot.neutral()
    q[2] = 0.0995
    with cd.Recorder(simulation, simulation.state(q)) as recorder:
        for _ in range(25):
            recorder.step()
    run = recorder.run
    assert run is not None
    shown = sample_run(run, fps=1000.0)
    assert shown.contacts.shape == shown.forces.shape == (26, 1, 3)
    np.testing.assert_allclose(shown.contacts[0, 0], [0.0, 0.0, -0.0005], atol=1e-12)
    assert np.array_equal(shown.forces[:-1], run.contact_forces)
    assert np.array_equal(shown.forces[-1], run.contact_forces[-1])
    assert shown.forces[-1, 0, 2] > 0.1 * robot.mass * 9.81
    assert shown.ground == 0.0


def test_a_run_that_does_not_hold_its_world_is_shown_without_forces(tmp_path: Path) -> None:
    simulation = cd.Simulation(cd.load("cartpole"), dt=0.01, force=lambda model, q, v, t: 0.1 * v)
    with cd.Recorder(simulation, simulation.state(v=[1.0, 0.0]), tmp_path / "run.cdl", title="odd") as recorder:
        for _ in range(10):
            recorder.step()
    run = cd.read_run(tmp_path / "run.cdl")
    with pytest.raises(FileError):
        _ = run.simulation
    shown = sample_run(run)
    assert shown.title == "odd"
    assert shown.forces.shape == (len(shown), 0, 3)
    np.testing.assert_allclose(shown.q[-1], run.q[-1])


@settings(max_examples=200)
@given(states=st.integers(1, 5000), dt=st.floats(1e-4, 0.1), fps=st.floats(1.0, 500.0))
def test_samples_have_both_ends_and_no_repeats(states: int, dt: float, fps: float) -> None:
    found = samples(states, dt, fps)
    assert found[0] == 0
    assert found[-1] == states - 1
    assert np.all(np.diff(found) > 0)
    assert len(found) <= (states - 1) * dt * fps + 2.0


def test_quaternions_turn_as_the_matrices_do_and_do_not_jump() -> None:
    angles = np.linspace(0.0, 12.0, 400)
    axis = np.array([1.0, 2.0, -2.0]) / 3.0
    K = np.cross(np.eye(3), -axis)
    R = np.eye(3) + np.sin(angles)[:, None, None] * K + (1.0 - np.cos(angles))[:, None, None] * (K @ K)
    q = quaternions(R)
    assert np.abs(np.diff(q, axis=0)).max() < 0.02
    v = np.array([0.3, -0.7, 0.2])
    xyz, w = q[:, :3], q[:, 3:]
    rotated = v + 2.0 * np.cross(xyz, np.cross(xyz, v) + w * v)
    np.testing.assert_allclose(rotated, R @ v, atol=1e-13)


class Ahead(cd.Block):
    """A plan of four configurations, kept as a state: the present one and three beyond it."""

    def __init__(self) -> None:
        super().__init__(name="ahead", every=2)
        self.state("states", np.zeros((4, 5)))

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        (q,) = inputs
        rows = [np.concatenate([q + 0.1 * k, np.zeros(3)]) for k in range(4)]
        return q, {"states": np.array(rows)}


@pytest.fixture(scope="module")
def planned() -> cd.Loop:
    block = Ahead()

    def control(x: Any) -> dict[str, Any]:
        return {"u": 0.0 * block(x.q), "path": np.array([[x.t, 0.0, 0.1 * k] for k in range(3)])}

    return cd.Loop(cd.Simulation(cd.load("double_pendulum"), dt=0.01), control)


def test_plans_are_recorded_and_become_points_of_a_frame(planned: cd.Loop, tmp_path: Path) -> None:
    path, drawn = tmp_path / "plan.cdl", {"ahead.states": "tip", "path": None}
    with cd.Recorder(planned, planned.state([0.3, 0.2]), path, polylines=drawn) as recorder:
        recorder.rollout(None, 20)
    run = cd.read_run(path)
    shown = sample_run(run, fps=100.0)
    tips, points = shown.polylines
    assert tips.shape == (21, 4, 3) and points.shape == (21, 3, 3)
    # the plan of the tick that begins at a state starts there, and is held for two ticks
    where = run.robot.frame_pose(run.q, "tip")[1]
    np.testing.assert_allclose(tips[0:20:2, 0], where[0:20:2], atol=1e-14)
    np.testing.assert_array_equal(tips[1:20:2], tips[0:20:2])
    np.testing.assert_allclose(tips[4, 3], run.robot.frame_pose(run.q[4] + 0.3, "tip")[1], atol=1e-14)
    np.testing.assert_allclose(points[5], [[0.05, 0.0, 0.0], [0.05, 0.0, 0.1], [0.05, 0.0, 0.2]], atol=1e-15)
    np.testing.assert_array_equal(polyline_points(run, [7])[0][0], tips[7])
    # three columns, and the centre of mass
    for source, wanted in (((1, 0, 1), None), ("center_of_mass", run.robot.center_of_mass(run.q[6]))):
        with cd.Recorder(planned, planned.state([0.3, 0.2]), polylines={"ahead.states": source}) as recorder:
            recorder.rollout(None, 20)
        assert recorder.run is not None
        found = sample_run(recorder.run, fps=100.0).polylines[0][6, 0]
        np.testing.assert_allclose(found, run.q[6, [1, 0, 1]] if wanted is None else wanted, atol=1e-14)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"ahead.states": "tipp"}, "no frame 'tipp'.*did you mean 'tip'"),
        ({"ahead.states": (0, 1)}, "three columns like"),
        ({"ahead.states": (0, 1, 5)}, "columns 0 to 4"),
        ({"path": (0, 1, -1)}, "columns 0 to 2"),
        (["ahead.states"], "5 numbers for each point"),
        (["u"], "shape"),
        (["nothing"], "no 'nothing' to record"),
        ({3: "tip"}, "named by signals"),
    ],
)
def test_polylines_that_cannot_be_drawn_are_refused(planned: cd.Loop, given: Any, sentence: str) -> None:
    with pytest.raises(CondyleError, match=sentence):
        cd.Recorder(planned, planned.state(), polylines=given)


def test_a_run_of_steps_has_polylines_and_a_changed_header_is_a_sentence() -> None:
    world = cd.Simulation(cd.load("double_pendulum"), dt=0.01)
    with cd.Recorder(world, world.state(), polylines=["way"]) as recorder:
        for k in range(3):
            recorder.step(way=np.full((2, 3), 0.1 * k))
    run = recorder.run
    assert run is not None
    np.testing.assert_array_equal(sample_run(run, fps=100.0).polylines[0][:, 0, 0], [0.0, 0.1, 0.2, 0.2])
    with pytest.raises(FileError, match="header was changed"):
        polyline_points(replace(run, about={**run.about, "polylines": {"gone": None}}), [0])
    recorder = cd.Recorder(world, world.state(), polylines=["way"])
    with pytest.raises(CondyleError, match="give it with every step"):
        recorder.step()
