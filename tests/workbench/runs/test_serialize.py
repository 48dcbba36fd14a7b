"""A simulation encoded and decoded is the same simulation; wrong data gives an error that says where."""

import copy
import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.apps.demos import two_wheeled, wheeled_pendulum
from condyle.errors import CondyleError, FileError
from condyle.robot.library import ROBOTS
from condyle.robot.model import digest
from condyle.workbench.runs.json_codec import DecodeError, EncodeError, decode_number, encode
from condyle.workbench.runs.run import Run
from condyle.workbench.runs.serialize import decode_robot, decode_simulation, encode_robot, encode_simulation

BASES = ("fixed", "free", "planar", "euler")

FINGERS = """
<robot name="fingers">
  <link name="palm"/>
  <link name="a"><inertial><mass value="1"/><origin xyz="0.1 0 0"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial>
    <visual><origin rpy="0.1 0.2 0.3"/><geometry><mesh filename="hand.stl" scale="1 2 3"/></geometry>
      <material name="red"><color rgba="1 0 0 0.5"/></material></visual>
    <collision name="pad"><geometry><sphere radius="0.01"/></geometry></collision></link>
  <link name="b"><inertial><mass value="0.5"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="one" type="revolute"><parent link="palm"/><child link="a"/><axis xyz="1 2 3"/>
    <limit lower="-1" upper="2" velocity="3" effort="4"/><dynamics damping="0.1" friction="0.2"/></joint>
  <joint name="two" type="revolute"><parent link="palm"/><child link="b"/><origin xyz="0 0.1 0" rpy="0.3 0 0.1"/>
    <axis xyz="0 0 1"/><limit lower="-9" upper="9" velocity="3" effort="4"/><mimic joint="one" multiplier="-0.3" offset="0.1"/>
  </joint>
</robot>
"""


def again(simulation: cd.Simulation) -> cd.Simulation:
    """The simulation encoded to text and decoded."""
    data = encode_simulation(simulation)
    made = decode_simulation(json.loads(json.dumps(data, allow_nan=False)))
    assert encode_simulation(made) == data
    assert made.hash == simulation.hash and digest(made.robot.model) == digest(simulation.robot.model)
    assert made.dt == simulation.dt and made.contact_names == simulation.contact_names and made.nu == simulation.nu
    assert [made.robot.name, made.robot.joint_names] == [simulation.robot.name, simulation.robot.joint_names]
    return made


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("name", ROBOTS)
def test_every_robot_with_every_base(name: str, base: str) -> None:
    robot = cd.load(name, base=base, gravity=(0.1, 0.0, -9.8))
    if not robot.nv:
        return  # a body that is fixed has nothing to simulate
    made = again(cd.Simulation(robot, 1e-3, integrator="rk4", substeps=3)).robot
    assert repr(made.model) == repr(robot.model) and made.report == robot.report
    shapes = [
        (s, t)
        for a, b in zip(robot.model.links, made.model.links, strict=True)
        for s, t in zip(a.visuals, b.visuals, strict=True)
    ]
    assert all(s.color == t.color and s.pose.p.tobytes() == t.pose.p.tobytes() for s, t in shapes)


@pytest.mark.parametrize(
    "ground",
    [
        cd.Plane(0.3, (0.1, 0.2, 1.7), 0.01),
        cd.Slope(12.3, 45.6, 0.7),
        cd.Stairs(0.02, 0.1, 3, 0.6, 0.03, 0.2),
        cd.HeightField(np.sin(np.arange(20.0)).reshape(4, 5) / 100, (0.1, 0.2), (-0.3, 0.1), 0.4),
    ],
    ids=lambda ground: type(ground).__name__,
)
def test_every_ground(ground: Any) -> None:
    again(cd.Simulation(cd.load("pidog"), 0.002, ground, cone=6, contacts=["*_foot"]))


def test_every_option(tmp_path: Path) -> None:
    (tmp_path / "fingers.urdf").write_text(FINGERS)
    (tmp_path / "hand.stl").write_bytes(b"")
    robot = cd.load(tmp_path / "fingers.urdf", base="free")
    assert not robot.coordinate_map.identity
    made = again(
        cd.Simulation(
            robot,
            0.003,
            cd.Plane(),
            {"a": 0.02},
            integrator="explicit_euler",
            rest_depth_mm=0.3,
            smoothing=2e-3,
            recovery_time=None,
            limits=False,
            limit_depth=0.02,
            joint_friction=False,
            damping=False,
            torque_limits=False,
            springs={"one": (3.0, 0.1)},
            actuated=["one"],
            wrenches=["a", "palm"],
        )
    )
    assert made.robot.velocity_names == robot.velocity_names and made.robot.nv == 7
    link = made.robot.model.links[1]
    assert link.visuals[0].mesh == tmp_path / "hand.stl" and link.visuals[0].size == (1.0, 2.0, 3.0)
    assert link.visuals[0].color == (1.0, 0.0, 0.0, 0.5) and link.collisions[0].name == "pad"
    # the tree alone, and joints locked
    again(cd.Simulation(cd.load(tmp_path / "fingers.urdf", constraints=False), 0.001))
    again(cd.Simulation(cd.load("pidog").lock(["head", "tail"]), 0.001, cd.Plane(), ["*_foot"]))


@pytest.mark.slow
def test_wheels_roll_again() -> None:
    for simulation in (wheeled_pendulum.world(push=True), two_wheeled.world()):
        made = again(simulation)
        assert made.robot.velocity_names == simulation.robot.velocity_names and made.robot.rolled == simulation.robot.rolled
    named = cd.load("two_wheeled").roll(two_wheeled.MOTORS, 0.04, independent=["root_pitch", "left_wheel", "right_wheel"])
    again(cd.Simulation(named, 0.001))
    assert copy.copy(named).rolled == named.rolled


def test_a_rolling_run_repeats(tmp_path: Path) -> None:
    here, path = wheeled_pendulum.world(push=True), tmp_path / "roll.cdl"
    with cd.Recorder(here, here.state(wheeled_pendulum.leaning()), path) as recorder:
        for k in range(200):
            recorder.step([0.01], [[float(k > 100), 0.0, 0.0, 0.0, 0.0, 0.0]])
    run = cd.read_run(path)
    assert run.check().identical and run.names == ["q.root_x", "q.root_pitch", "v.root_x", "v.root_pitch"]
    assert run.about["columns"]["u"] == [["u.axle", "N m"]] and run.wrenches[101, 0, 0] == 1.0


def test_functions_cannot_be_encoded() -> None:
    cartpole, wheels = cd.load("cartpole"), cd.load("wheeled_pendulum")
    embedded = cartpole.embed(lambda y: np.array([y[0], 0.3 * y[0]]), names=["s"])
    for simulation, why in (
        (cd.Simulation(cartpole, 0.01, force=lambda model, q, v: -v), "force"),
        (
            cd.Simulation(cd.load("pidog"), 0.002, cd.Terrain(lambda x, y: 0.01 * np.sin(x)), ["*_foot"]),
            "ground.height is a function",
        ),
        (cd.Simulation(embedded, 0.01), "constraints"),
        (cd.Simulation(wheels.roll("axle", 0.04, ground=lambda x: 0.01 * np.sin(x)), 0.001), "constraints"),
    ):
        with pytest.raises(EncodeError, match=why):
            encode_simulation(simulation)
        run = cd.Recorder(simulation, simulation.state()).finish()
        assert run.about["simulation_data"] is None and why in run.about["simulation_missing"]
        assert (run.about["robot_data"] is None) == (why == "constraints")


def test_numbers_keep_their_type() -> None:
    for value in (1, 1.0, -0.0, 5e-324, math.inf, -math.inf, np.float64(0.1), np.float64(-np.inf), np.int64(3), 2**62):
        found = decode_number(json.loads(json.dumps(encode(value))), "", infinite=True)
        assert type(found) is type(value) and repr(found) == repr(value)
    for value in (math.nan, np.nan, 1j, np.float64("nan"), {1, 2}, print, object(), np.array([np.inf]), np.array(["a"])):
        with pytest.raises(EncodeError):
            encode(value)
    for data in ("inf", "nan", None, [], {}, {"float64": "x"}, {"float64": {"float64": 1.0}}, {"int64": 1.5}, 10**30, True, "1"):
        with pytest.raises(DecodeError):
            decode_number(data, "here")


# ---- hostile data


def places(data: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path to every entry of JSON data."""
    found = [at] if at else []
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in pairs:
        found += places(value, (*at, key))
    return found


DEEP: Any = []
for _ in range(500):
    DEEP = [DEEP]
ODD = [None, True, -1, 0, 7, 10**20, 1e308, -1e-320, "", "x", "inf", "__class__", [], {}, [[]], {"a": 1}, {"float64": 1}, DEEP]


def test_hostile_data_is_refused_or_harmless() -> None:
    """Anything put in any place gives a simulation or one sentence, and never another kind of error."""
    robot = cd.load("pendulum", base="euler")
    complete = encode_simulation(
        cd.Simulation(robot, 0.01, cd.Plane(), {robot.frame_names[-1]: 0.1}, wrenches=robot.frame_names[-1:])
    )
    rng, everywhere, refused = random.Random(5), places(complete), 0
    for trial in range(500):
        data = copy.deepcopy(complete)
        at = rng.choice(everywhere)
        inside = data
        for key in at[:-1]:
            inside = inside[key]
        if trial % 5 == 0:
            del inside[at[-1]]
        else:
            inside[at[-1]] = rng.choice(ODD)
        try:
            with np.errstate(all="ignore"):
                decode_simulation(data)
        except DecodeError as error:
            refused += 1
            assert str(error)
        except CondyleError as error:
            raise AssertionError(f"{at}: {error}") from error
    assert refused > 250


@pytest.mark.parametrize(
    ("at", "value", "says"),
    [
        (("robot", "model", "links", 3, "parent"), 3, "parent"),
        (("robot", "model", "links", 0, "parent"), 5, "parent"),
        (("robot", "model", "links", 1, "joint"), "root_x", "two joints of one name"),
        (("robot", "model", "links", 1, "inertia", "mass"), "inf", "mass"),
        (("robot", "model", "links", 1, "visuals"), [{}], "no 'type'"),
        (("robot", "model", "links", 1, "mimic"), ["root_x", 1.0], "mimic"),
        (("robot", "model", "links", 1, "q"), [0, 1], "does not follow the link before it"),
        (("robot", "model", "links", 1, "kind", "type"), "Model", "not one of Revolute, Prismatic, Ball, Free"),
        (("robot", "model", "frames", 0, "link"), 99, "link"),
        (("robot", "model", "extra"), 1, "has 'extra', which a Model does not have"),
        (("robot", "described"), "eval", "described is not true or false"),
        (("robot", "rolling"), {"type": "Rolling", "wheels": ["x"], "radius": 1.0, "independent": None}, "no joint 'x'"),
        (("config", "ground"), {"type": "Terrain"}, "not one of Plane, Slope, Stairs, HeightField"),
        (("config", "ground", "normal"), [0.0, 0.0, 2.0], "normal is not as a Plane keeps it"),
        (("config", "substeps"), 10**9, "substeps"),
        (("config", "integrator"), "euler", "integrator"),
        (("config", "springs"), [["nosuch", 1.0, 0.0]], "nosuch"),
        (("config", "dt"), -1.0, "dt"),
    ],
    ids=str,
)
def test_faults_are_named(at: tuple[Any, ...], value: Any, says: str) -> None:
    robot = cd.load("pendulum", base="euler")
    data = encode_simulation(cd.Simulation(robot, 0.01, cd.Plane(), {robot.frame_names[-1]: 0.1}))
    inside: Any = data
    for key in at[:-1]:
        inside = inside[key]
    inside[at[-1]] = value
    with pytest.raises(DecodeError, match=says):
        decode_simulation(data)
    run = cd.Recorder(cd.Simulation(robot, 0.01), np.zeros(14)).finish()
    wrong = Run({**run.about, "simulation_data": data}, run.x, run.u, run.wrenches)
    with pytest.raises(FileError, match="its simulation cannot be built") as caught:
        _ = wrong.simulation
    assert "run.check(simulation=...)" in str(caught.value)


def test_robot_round_trip() -> None:
    robot = cd.load("birotor")
    assert repr(decode_robot(encode_robot(robot)).model) == repr(robot.model)
