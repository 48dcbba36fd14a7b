"""Obstacles drawn with a robot and kept in a run: shapes where they are, the same numbers from the file, bad data refused."""

from pathlib import Path

import numpy as np
import pytest

import condyle as cd
from condyle.errors import CondyleError, RobotError
from condyle.methods.planning.obstacle_scene import solids_data, solids_from
from condyle.methods.planning.obstacles import Box, Capsule, Plane, Sphere, with_obstacles

TURNED = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]])
SOLIDS = [
    Box((0.2, 0.3, 0.4), position=(0.5, 0.1, 0.2), rotation=TURNED, name="crate"),
    Sphere(0.1, position=(0.0, 0.5, 0.5)),
    Capsule(0.05, 0.6, position=(0.1, -0.4, 0.3), name="post"),
    Plane(name="floor"),
]


def test_a_robot_has_them_as_shapes_and_is_the_same_otherwise() -> None:
    robot = cd.load("ur3")
    shown = with_obstacles(robot, SOLIDS, {"crate": (1.0, 0.0, 0.0)})
    added = shown.model.visuals[len(robot.model.visuals) :]
    assert [(s.kind, s.size, s.name) for s in added] == [
        ("box", (0.2, 0.3, 0.4), "crate"),
        ("sphere", (0.1,), ""),
        ("capsule", (0.05, 0.6), "post"),
    ]
    assert np.array_equal(added[0].pose.R, TURNED) and added[0].color == (1.0, 0.0, 0.0, 1.0)
    q = np.linspace(0.1, 0.6, 6)
    assert np.array_equal(shown.mass_matrix(q), robot.mass_matrix(q))


def test_a_run_keeps_and_draws_them(tmp_path: Path) -> None:
    world = cd.Simulation(cd.load("double_pendulum"), dt=0.01)
    path = tmp_path / "run.cdl"
    with cd.Recorder(world, world.state(), path, obstacles=SOLIDS) as recorder:
        recorder.step()
    run = cd.read_run(path)
    assert solids_data(run.obstacles) == solids_data(SOLIDS)
    assert len(run.scene.model.visuals) == len(run.robot.model.visuals) + 3
    assert run.check().identical


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({}, "a list of objects"),
        ([3], "an obstacle is a sphere"),
        ([{"kind": "torus"}], "an obstacle is a sphere"),
        ([{"kind": "sphere", "name": "", "position": [0, 0, 0], "rotation": np.eye(3).tolist()}], "and nothing else"),
        ([solids_data(SOLIDS[1:2])[0] | {"radius": -1.0}], "radius"),
        ([solids_data(SOLIDS[1:2])[0] | {"position": [0, 0, float("nan")]}], "position"),
    ],
)
def test_bad_data_is_refused(data: object, sentence: str) -> None:
    with pytest.raises(RobotError, match=sentence):
        solids_from(data)
    world = cd.Simulation(cd.load("double_pendulum"), dt=0.01)
    with pytest.raises(CondyleError):
        cd.Recorder(world, world.state(), about={"obstacles": data})
