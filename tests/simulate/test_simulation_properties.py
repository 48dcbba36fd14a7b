"""The properties, the options and the pickles of a simulation."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import fields

import numpy as np
import pytest

import condyle as cd
from condyle.simulate.config import SimulationConfig


def test_controls_have_names_and_limits() -> None:
    robot = cd.load("pidog")
    simulation = cd.Simulation(robot, ground=cd.Plane(0.6), contacts="*_foot", wrenches=["torso"])
    assert simulation.control_names == [name for name in robot.joint_names if name != robot.joint_names[0]]
    assert simulation.actuated == tuple(range(6, robot.nv))
    assert np.array_equal(simulation.effort_limits, [simulation.joint_forces[k].effort for k in simulation.actuated])
    assert np.all(np.isinf(cd.Simulation(robot, torque_limits=False).effort_limits))
    assert [point.name for point in simulation.contact_points] == simulation.contact_names
    assert (simulation.wrench_frames, simulation.wrench_axes) == (("torso",), ("world_aligned",))
    assert simulation.ground == cd.Plane(0.6) and simulation.holonomic and not simulation.timed
    assert simulation.weight == robot.mass * 9.81 and simulation.rest_depth == 1e-3
    assert cd.Simulation(cd.load("pidog"), actuated=[robot.joint_names[0]]).control_names == [
        f"{robot.joint_names[0]}.{k}" for k in range(6)
    ]


def hill(x: float, y: float) -> float:
    return 0.1 * np.sin(x) * np.cos(y)


def spring_force(model: object, q: np.ndarray, v: np.ndarray, t: float) -> np.ndarray:
    return -0.1 * v * (1.0 + np.sin(t))


GROUNDS = [
    cd.Plane(0.5),
    cd.Slope(10.0),
    cd.Stairs(0.01, 0.2, 3),
    cd.HeightField(np.outer([0.0, 0.01, 0.02], [1.0, 1.0, 0.5]), 0.5),
    cd.Terrain(hill),
]


def test_the_config_has_the_options_of_the_constructor() -> None:
    parameters = inspect.signature(cd.Simulation).parameters
    options = {f.name: f.default for f in fields(SimulationConfig)}
    assert set(options) == set(parameters) - {"robot", "threads"}
    assert parameters["ground"].default == "file" and options["ground"] is None
    for name, default in options.items():
        if name != "ground":  # a file may have one
            assert parameters[name].default in (default, None) or default == parameters[name].default, name


@pytest.mark.parametrize("ground", GROUNDS, ids=lambda ground: type(ground).__name__)
def test_configs_are_hashable_and_make_the_same_simulation(ground: object) -> None:
    options = {
        "ground": ground,
        "contacts": "*_foot",
        "springs": {"tail_wag": (1.0, 0.1)},
        "wrenches": "torso",
        "force": spring_force,
    }
    a, b = (cd.Simulation(cd.load("pidog"), **options) for _ in range(2))  # type: ignore[arg-type]
    assert a.config == b.config and hash(a.config) == hash(b.config)
    again = cd.Simulation.from_config(a.robot, a.config)
    assert again.hash == a.hash == pickle.loads(pickle.dumps(a)).hash
    assert cd.Simulation(a.robot, cone=8).config != a.config


def test_a_used_simulation_pickles() -> None:
    simulation = cd.Simulation(cd.load("pidog"), ground=cd.Plane(0.5), contacts="*_foot", threads=1)
    x, u = simulation.state(), np.full(simulation.nu, 0.01)
    x[2] = 0.08
    x1 = simulation.step(x, u)
    copy = pickle.loads(pickle.dumps(simulation))
    assert copy.threads == 1 and copy.status is not None and copy.status.ok
    assert copy.step(x, u).tobytes() == x1.tobytes()


@pytest.mark.slow
def test_wrenches_are_named_like_contacts() -> None:
    robot = cd.load("pidog")
    feet = [name for name in robot.frame_names if name.endswith("_foot")]
    assert cd.Simulation(robot, wrenches="*_foot").wrench_frames == tuple(feet)
    named = cd.Simulation(robot, wrenches=["torso", ("lf_foot", "local")])
    assert named.wrench_frames == ("torso", "lf_foot") and named.wrench_axes == ("world_aligned", "local")
    same = cd.Simulation(robot, wrenches={"torso": "world_aligned", "lf_foot": "local"})
    assert (same.wrench_frames, same.wrench_axes) == (named.wrench_frames, named.wrench_axes)
    given = np.zeros((2, 6))
    given[1] = [1.0, 0.0, 0.0, 0.0, 0.1, 0.0]
    x = named.state()
    assert np.array_equal(named.step(x, wrenches={"lf_foot": given[1]}), named.step(x, wrenches=given))
    assert not np.array_equal(named.step(x, wrenches=given), named.step(x))
    batch = named.step(x, wrenches={"torso": np.ones((4, 6))})
    assert batch.shape == (4, named.nx) and np.array_equal(batch[0], named.step(x, wrenches={"torso": np.ones(6)}))


@pytest.mark.parametrize(
    ("wrenches", "what"),
    [
        ("nosuch", "no frame 'nosuch'"),
        ("x*", "no frame 'x*'"),
        ([3], "named by a frame"),
        ([("torso", "world")], "world_aligned or local"),
        ({"torso": "world"}, "world_aligned or local"),
        ({"torso": [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]}, "world_aligned or local"),
    ],
)
def test_wrong_wrench_frames_are_errors(wrenches: object, what: str) -> None:
    with pytest.raises(cd.CondyleError) as error:
        cd.Simulation(cd.load("pidog"), wrenches=wrenches)  # type: ignore[arg-type]
    assert what in str(error.value)


def test_wrong_wrenches_and_quaternions_are_errors() -> None:
    simulation = cd.Simulation(cd.load("pidog"), wrenches="torso")
    with pytest.raises(cd.SimulationError, match="takes wrenches at torso, not at 'tail'"):
        simulation.step(simulation.state(), wrenches={"tail": np.zeros(6)})
    with pytest.raises(cd.SimulationError, match="6 entries"):
        simulation.step(simulation.state(), wrenches={"torso": np.zeros(3)})
    q = simulation.robot.neutral()
    q[3:7] *= 2.0
    with pytest.raises(cd.SimulationError, match="must have length 1, got 2; divide it by its norm"):
        simulation.state(q)
