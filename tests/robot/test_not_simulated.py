"""What an MJCF file asks and a simulation does not do is said: in the report, by doctor, info, sim, and once by a Simulation."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import CliRunner

import condyle as cd
from condyle.commands.cli import app
from condyle.robot.mjcf import read_mjcf
from condyle.robot.mjcf_collisions import geom_pairs
from condyle.workbench.doctor.diagnose import diagnose

mujoco = pytest.importorskip("mujoco")

ACROBOT = """<mujoco model="acrobot"><worldbody>
  <body name="upper" pos="0 0 2"><joint name="shoulder" axis="0 1 0"/><geom type="capsule" size="0.05 0.4"/>
    <body name="lower" pos="0 0 -1"><joint name="elbow" axis="0 1 0"/><geom type="capsule" size="0.05 0.4"/></body></body>
</worldbody><actuator><motor name="motor" joint="elbow" gear="2" ctrlrange="-1 1"/></actuator></mujoco>"""

ARM = '<body name="{0}" pos="{1} 0 0"><joint name="{0}" axis="0 1 0" {2}/><geom name="g{0}" size="0.1" {3}/>{4}</body>'


def arm(name: str, x: float, inside: str = "", joint: str = "", geom: str = "") -> str:
    return ARM.format(name, x, joint, geom, inside)


def scene(world: str, rest: str = "", option: str = "") -> str:
    return f"<mujoco>{option}<worldbody>{world}</worldbody>{rest}</mujoco>"


CHAIN = arm("a", 0, arm("b", 0.3, arm("c", 0.3)))
FREE = '<body name="{0}" pos="{1} 0 1"><freejoint/><geom name="g{0}" size="0.1"/></body>'
FLOOR = '<geom name="floor" type="plane" size="1 1 1"/>'
KEY = '<actuator><general name="m" joint="a" dyntype="integrator"/></actuator><keyframe><key name="home" act="0.5"/></keyframe>'

# what a file asks, and what is said of it
ASKED = {
    "itself": (scene(CHAIN), "contact of the robot with itself, by links: a - c"),
    "bodies": (scene(FREE.format("cup", 0) + FREE.format("can", 1)), "contact of moving bodies with each other: cup - can"),
    "table": (
        scene(FREE.format("cube", 0) + '<geom name="table" type="box" size="1 1 0.1"/>'),
        "contact with geoms fixed in the world: table",
    ),
    "second floor": (
        scene(FREE.format("cube", 0) + FLOOR + '<geom name="step" type="plane" size="1 1 1" pos="0 0 -1"/>'),
        "contact with geoms fixed in the world: step",
    ),
    "floor": (scene(arm("a", 0) + FLOOR), "contact with the floor, for a robot that is fixed in the world"),
    "overlap": (
        scene(arm("a", 0, arm("b", 0.3, arm("c", -0.3)))),
        "links that begin inside each other, and would be pushed apart: a - c",
    ),
    "overlap in keyframes": (
        scene(CHAIN, '<keyframe><key qpos="0 0.1 0"/><key name="folded" qpos="0 3.1 0"/><key qpos="0 3.1 1"/></keyframe>'),
        "links that begin inside each other, and would be pushed apart: a - c (keyframe folded)",
    ),
    "condim 4": (scene(arm("a", 0, geom='condim="4"')), "condim 4 and 6, friction against turning and rolling, of geoms: ga"),
    "condim 6": (
        scene(CHAIN, '<contact><pair geom1="ga" geom2="gb" condim="6"/></contact>'),
        "condim 4 and 6, friction against turning and rolling, of geoms: ga - gb",
    ),
    "pair": (
        scene(CHAIN, '<contact><pair geom1="ga" geom2="gb" friction="0.1 0.1 0 0 0"/></contact>'),
        "friction and softness of contact pairs: ga - gb",
    ),
    "solreflimit": (
        scene(arm("a", 0, joint='range="-1 1" solreflimit="0.1 1"')),
        "solreflimit, solimplimit and margin of limits (they are as hard as `limit_depth` says): a",
    ),
    "solreffriction": (
        scene(arm("a", 0, joint='frictionloss="1" solreffriction="0.1 1"')),
        "solreffriction and solimpfriction of dry friction: a",
    ),
    "actuatorgravcomp": (scene(arm("a", 0, joint='actuatorgravcomp="true"')), "actuatorgravcomp"),
    "act": (scene(CHAIN, KEY), "activations (act) of keyframes (those of `cd.stance` hold its pose): home"),
    "integrator": (scene(CHAIN, option='<option integrator="implicit"/>'), "integrator = implicit"),
    "pyramid": (scene(CHAIN, option='<option cone="pyramidal"/>'), "cone = pyramidal"),
    "ellipse": (scene(CHAIN, option='<option cone="elliptic" impratio="10"/>'), "cone = elliptic"),
    "flag": (scene(CHAIN, option='<option><flag eulerdamp="disable"/></option>'), "flag eulerdamp = disable"),
    "controls": (ACROBOT, "controls of actuators as u of a Simulation"),
    "motors": (
        ACROBOT,
        "joints without a motor, which have one in u of a Simulation unless `actuated` leaves them out: shoulder",
    ),
}


@pytest.mark.parametrize("asked", ASKED)
def test_what_a_file_asks_and_nobody_does_is_in_the_report(asked: str) -> None:
    text, said = ASKED[asked]
    found = [note.what for note in read_mjcf(text).notes if note.what.startswith("not simulated: ")]
    assert sum(said in what for what in found) == 1, found
    # and each kind once
    assert len({what.partition(": ")[2].partition(": ")[0] for what in found}) == len(found)


def test_a_file_that_asks_for_nothing_else_has_no_such_note() -> None:
    cube = scene(FREE.format("cube", 0) + FLOOR, option='<option timestep="0.001"><flag warmstart="disable"/></option>')
    assert read_mjcf(cube).notes == ()


@pytest.mark.parametrize("flag", ["contact", "constraint"])
def test_contact_that_a_file_turns_off_does_not_act_and_is_not_missed(flag: str) -> None:
    joint = 'range="-1 1" frictionloss="1"'
    text = scene(arm("a", 0, arm("b", 0.3, arm("c", 0.3)), joint) + FLOOR, option=f'<option><flag {flag}="disable"/></option>')
    robot = read_mjcf(text)
    assert robot.ground is None and not any("simulated" in note.what for note in robot.notes)
    joint_a = next(joint for joint in robot.joints if joint.name == "a")
    off = flag == "constraint"  # which means limits and dry friction, too
    assert (joint_a.limits.upper, joint_a.friction) == ((None, 0.0) if off else (pytest.approx(np.deg2rad(1.0)), 1.0))


def test_friction_of_a_contact_pair_with_the_floor_acts() -> None:
    pair = '<contact><pair geom1="gcube" geom2="floor" friction="0.3 0.3 0 0 0"/></contact>'
    robot = cd.load(read_mjcf(scene(FREE.format("cube", 0) + FLOOR, pair)))
    assert robot.report == []
    (point,) = cd.Simulation(robot).contact_points
    assert point.friction == 0.3


def randomly(rng: np.random.Generator, depth: int = 0) -> str:
    """A tree of bodies with random joints, contact bits and names, some welded to their parents."""

    def bodies(count: int, depth: int) -> Iterator[str]:
        for _ in range(count):
            name = f"b{rng.integers(10**9)}"
            geoms = "".join(
                f'<geom name="{name}_{k}" size="0.1" contype="{rng.integers(4)}" conaffinity="{rng.integers(4)}"/>'
                for k in range(rng.integers(1, 3))
            )
            joint = '<joint type="ball"/>' if rng.random() < 0.6 else ""
            inside = "".join(bodies(int(rng.integers(0, 3)), depth + 1)) if depth < 3 else ""
            yield f'<body name="{name}">{joint}{geoms}{inside}</body>'

    return '<geom name="world" size="0.1"/>' + "".join(bodies(3, depth))


@pytest.mark.parametrize("seed", range(8))
def test_pairs_are_those_that_mujoco_looks_at(seed: int) -> None:
    rng = np.random.default_rng(seed)
    world = randomly(rng)
    first = mujoco.MjModel.from_xml_string(scene(world))
    bodies = [first.body(i).name for i in range(1, first.nbody)]
    geoms = [first.geom(i).name for i in range(first.ngeom)]
    rest = "".join(
        f'<exclude body1="{a}" body2="{b}"/>' for a, b in {tuple(sorted(rng.choice(bodies, 2, replace=False))) for _ in range(3)}
    )
    rest += "".join(
        f'<pair geom1="{a}" geom2="{b}"/>' for a, b in {tuple(sorted(rng.choice(geoms, 2, replace=False))) for _ in range(3)}
    )
    option = '<option><flag filterparent="disable"/></option>' if seed % 2 else ""
    model = mujoco.MjModel.from_xml_string(scene(world, f"<contact>{rest}</contact>", f'<size memory="50M"/>{option}'))
    # all geoms lie in one place, so that whatever may touch does
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    data.geom_xpos[:] = 1e-3 * rng.normal(size=data.geom_xpos.shape)
    mujoco.mj_collision(model, data)
    theirs = {tuple(sorted(map(int, contact.geom))) for contact in data.contact[: data.ncon]}
    # a <pair> of one rigid body moves nothing
    weld = model.body_weldid[model.geom_bodyid]
    theirs = {(a, b) for a, b in theirs if weld[a] != weld[b]}
    assert {tuple(sorted(pair)) for pair in geom_pairs(mujoco, model)} == theirs and len(theirs) > 5


def test_it_is_said_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "acrobot.xml"
    path.write_text(ACROBOT)
    robot = cd.load(path)
    asked = [note.what for note in robot.model.notes]
    assert len(asked) == 2 and all(what.startswith("not simulated: ") for what in asked)
    assert robot.report == [f"{path}: {what}" for what in asked]
    assert [finding.what for finding in diagnose(path).findings] == robot.report
    for command in (["info", str(path)], ["sim", str(path), "--seconds", "0.01"]):
        done = CliRunner().invoke(app, command)
        said = " ".join((done.stdout + done.stderr).split())
        assert done.exit_code == 0 and all(what.removeprefix("not simulated: ") in said for what in asked)


def warned(function: Any, *arguments: Any, **options: Any) -> list[str]:
    """The texts of the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*arguments, **options)
    assert all(warning.category is cd.CondyleWarning and warning.filename == __file__ for warning in caught)
    return [str(warning.message) for warning in caught]


def test_a_simulation_warns_once_for_each_robot(tmp_path: Path) -> None:
    path = tmp_path / "acrobot.xml"
    path.write_text(ACROBOT)
    for _ in range(2):
        robot = cd.load(path)
        (said,) = warned(cd.Simulation, robot)
        assert all(note.what in said for note in robot.model.notes)
        assert warned(cd.Simulation, robot) == []
    assert warned(cd.Simulation, cd.load("ur3")) == []
