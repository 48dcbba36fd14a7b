"""An MJCF scene: passive forces as MuJoCo has them, keyframes, start pose, ground, friction and contact bits, gravity, time."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.dynamics.energy import potential_energy
from condyle.dynamics.manifold import integrate, random_configuration
from condyle.dynamics.passive import passive_forces
from condyle.dynamics.posture import posture_energy, posture_forces
from condyle.robot.build import build
from condyle.robot.conventions import q_to_mujoco, v_to_mujoco
from condyle.robot.mjcf import read_mjcf

mujoco = pytest.importorskip("mujoco")

# the same forces in float64
SAME = 1e-12

# springs with springref beside ref, on a slide and on ball joints; compensated bodies, one of them fixed to another; a free box
PASSIVE = """
<mujoco model="passive">
  <compiler angle="radian"/>
  <option gravity="0.3 0 -9.5"/>
  <worldbody>
    <body name="a" gravcomp="1">
      <joint name="a" axis="0 1 0" stiffness="3" springref="0.4" ref="0.1" damping="0.2" frictionloss="0.1" armature="0.05"/>
      <geom type="box" size="0.1 0.05 0.2" pos="0.2 0 0.1"/>
      <body name="fixed" pos="0.1 0.2 0" euler="0.3 0.2 0.1" gravcomp="0.5"><geom size="0.1" pos="0.1 0 0"/></body>
      <body name="b" pos="0.5 0 0" euler="0.1 0.5 -0.2">
        <joint name="b" type="ball" stiffness="2" damping="0.3"/>
        <geom type="capsule" size="0.05 0.2" pos="0 0.1 0.2"/>
        <body name="c" pos="0 0 0.5" gravcomp="0.3">
          <joint name="c" type="slide" axis="1 1 0" stiffness="50" springref="-0.1" damping="1"/>
          <geom type="ellipsoid" size="0.1 0.2 0.05"/>
        </body>
      </body>
    </body>
    <body name="box" pos="1 0 1" gravcomp="0.7"><freejoint/><geom type="box" size="0.1 0.2 0.1"/></body>
  </worldbody>
</mujoco>
"""


@pytest.mark.parametrize("seed", range(3))
def test_passive_forces_are_those_of_mujoco(seed: int) -> None:
    rng, theirs, description = np.random.default_rng(seed), mujoco.MjModel.from_xml_string(PASSIVE), read_mjcf(PASSIVE)
    assert description.gravity is not None
    model = build(description, gravity=description.gravity)
    q, v = random_configuration(model, rng), rng.uniform(-2.0, 2.0, model.nv)
    data = mujoco.MjData(theirs)
    data.qpos[:], data.qvel[:] = q_to_mujoco(model, q), v_to_mujoco(model, q, v)
    mujoco.mj_forward(theirs, data)
    model = replace(model, links=tuple(replace(link, friction=0.0) for link in model.links))  # a constraint in MuJoCo
    found = v_to_mujoco(model, q, passive_forces(model, q, v).astype(float))
    np.testing.assert_allclose(found, data.qfrc_passive, atol=SAME * np.abs(data.qfrc_passive).max())

    # the forces are minus the gradient of their energy
    for k, e in enumerate(np.eye(model.nv)):
        up, down = (float(posture_energy(model, integrate(model, q, e * d).astype(float))) for d in (1e-6, -1e-6))
        assert float(posture_forces(model, q)[k]) == pytest.approx((down - up) / 2e-6, abs=1e-7 * abs(up))
    assert potential_energy(model, q) != 0.0


# a hinge and a ball joint with all of that, and nothing else
SMALL = PASSIVE[: PASSIVE.index('        <body name="c"')] + "</body></body></worldbody></mujoco>"
PLAIN: dict[str, Any] = {"joint_friction": False, "integrator": "explicit_euler"}


def test_passive_forces_act_in_a_simulation(tmp_path: Path) -> None:
    path = tmp_path / "small.xml"
    path.write_text(SMALL.replace('gravity="0.3 0 -9.5"', 'gravity="0.3 0 -9.5" timestep="1e-6"'))
    theirs = mujoco.MjModel.from_xml_path(str(path))
    theirs.dof_frictionloss[:] = 0.0
    simulation = cd.Simulation(cd.load(path), **PLAIN)
    model, rng = simulation.robot.model, np.random.default_rng(0)
    assert model.gravity == (0.3, 0.0, -9.5) and simulation.dt == 1e-6 and simulation.ground is None
    q, v = random_configuration(model, rng), rng.uniform(-1.0, 1.0, model.nv)
    data = mujoco.MjData(theirs)
    data.qpos[:], data.qvel[:] = q_to_mujoco(model, q), v
    mujoco.mj_forward(theirs, data)
    x1 = simulation.step(simulation.state(q, v), np.zeros(simulation.nu), backend="reference")
    # differences of velocities over a microsecond keep nine digits
    np.testing.assert_allclose((simulation.split(x1)[1] - v) / simulation.dt, data.qacc, atol=1e-7 * np.abs(data.qacc).max())


def test_derivatives_of_a_step_know_passive_forces(tmp_path: Path) -> None:
    path = tmp_path / "small.xml"
    path.write_text(SMALL)
    simulation = cd.Simulation(cd.load(path), dt=0.01, **PLAIN)
    robot, rng = simulation.robot, np.random.default_rng(1)
    q, v, u = random_configuration(robot.model, rng), rng.uniform(-1.0, 1.0, robot.nv), np.zeros(simulation.nu)
    _, A, _ = simulation.step(simulation.state(q, v), u, derivatives=True, backend="reference")
    for k, e in enumerate(np.eye(robot.nv)):
        near = [integrate(robot.model, q, e * d).astype(float) for d in (1e-6, -1e-6)]
        up, down = (simulation.split(simulation.step(simulation.state(n, v), u, backend="reference"))[1] for n in near)
        np.testing.assert_allclose(A[robot.nv :, k], (up - down) / 2e-6, atol=1e-7)


# a robot between two bodies of its own, on a tilted and a level plane, with bits, pairs, excludes and frictions of all kinds
SCENE = """
<mujoco model="scene">
  <compiler angle="radian"/>
  <option timestep="0.005" gravity="0 0 -3.7"/>
  <worldbody>
    <geom name="ramp" type="plane" size="1 1 1" euler="0.2 0 0"/>
    <body name="table" pos="0 0 0.1">
      <geom name="floor" type="plane" size="1 1 1" friction="0.6" contype="2" conaffinity="1"/>
    </body>
    <geom name="wall" type="box" size="0.1 1 1" pos="3 0 0"/>
    <body name="cup" pos="1 0 0.5" quat="0 1 0 0"><freejoint name="cup"/><geom name="cup" size="0.05" contype="1"/></body>
    <body name="base" pos="0 0 1">
      <freejoint/>
      <geom name="same" size="0.1" friction="0.3"/>
      <geom name="rough" size="0.1" friction="0.9"/>
      <geom name="slick" size="0.1" friction="0.1" priority="1"/>
      <geom name="apart" size="0.1" contype="4" conaffinity="4"/>
      <body name="hand" pos="0.3 0 0">
        <joint name="wrist" axis="0 1 0" ref="0.2"/>
        <geom name="excluded" type="capsule" size="0.02 0.1"/>
      </body>
      <body name="foot" pos="0 0 -0.5">
        <joint name="ankle" type="ball"/>
        <geom name="paired" type="ellipsoid" size="0.1 0.05 0.03" contype="0" conaffinity="0"/>
      </body>
    </body>
  </worldbody>
  <contact><pair geom1="paired" geom2="floor"/><exclude body1="table" body2="hand"/></contact>
  <actuator><motor name="m" joint="wrist"/></actuator>
  <keyframe>
    <key name="home" qpos="1 0 0.2 1 0 0 0  0 0 0.8 0.6 0 0.8 0  0.4  2 0 0 0"
         qvel="0 0 0 0 0 0  1 0 0 0 0 0  3  0 0 0" ctrl="0.7"/>
    <key/>
  </keyframe>
</mujoco>
"""


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> cd.Robot:
    """The robot of the scene."""
    path = tmp_path_factory.mktemp("scene") / "scene.xml"
    path.write_text(SCENE)
    return cd.load(path)


def test_the_written_pose_is_neutral_and_keyframes_are_in_our_layout(scene: cd.Robot) -> None:
    np.testing.assert_array_equal(scene.neutral(), [1, 0, 0.5, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0.2, 0, 0, 0, 1])
    assert list(scene.keyframes) == ["home", "key1"]
    home = scene.keyframes["home"]
    np.testing.assert_allclose(home.q, [1, 0, 0.2, 0, 0, 0, 1, 0, 0, 0.8, 0, 0.8, 0, 0.6, 0.4, 0, 0, 0, 1], atol=1e-15)
    # the base is turned about y, and its velocity along x of the world is along x and z of its own
    np.testing.assert_allclose(home.v[6:9], [-0.28, 0.0, 0.96], atol=1e-15)
    assert home.v[12] == 3.0 and home.u.tolist() == [0.7]

    # a base before it, and joints locked, change the layout
    robot = build(read_mjcf(SCENE), base="planar")
    assert len(robot.keyframes["home"].q) == robot.nq == scene.nq + 3
    locked = scene.lock("wrist").keyframes["home"]
    assert (len(locked.q), len(locked.v)) == (scene.nq - 1, scene.nv - 1) and 0.4 not in locked.q


def test_a_level_plane_is_the_ground_and_bits_and_frictions_are_those_of_mujoco(scene: cd.Robot) -> None:
    model = scene.model
    assert model.gravity == (0.0, 0.0, -3.7) and model.timestep == 0.005
    assert model.ground is not None and (model.ground.height, model.ground.friction) == (0.1, 0.6)
    shapes = {shape.name: shape for link in model.links for shape in link.collisions}
    assert {name: shape.contact for name, shape in shapes.items()} == {
        "cup": True, "same": True, "rough": True, "slick": True, "apart": False, "excluded": False, "paired": True,
    }  # fmt: skip
    # MuJoCo takes the larger friction, 1 where none is written, or that of the geom with more priority
    assert [shapes[name].friction for name in ("cup", "same", "rough", "slick")] == [1.0, None, 0.9, 0.1]
    assert [shape.name for shape in model.collisions] == ["wall"]
    notes = "\n".join(note.what for note in model.notes)
    assert "gravity of the file, (0, 0, -3.7)" in notes and "plane geoms, which a link cannot have here: ramp" in notes

    world = cd.Simulation(scene)
    assert world.dt == 0.005 and world.ground == cd.Plane(0.6, offset=0.1)
    points = {point.name: point for point in cd.Simulation(scene, contacts="collisions").contact_points}
    assert {"cup", "same", "rough", "slick"} <= set(points) and "apart" not in points
    assert points["rough"].friction == 0.9 and points["same"].friction is None
    assert cd.Simulation(scene, ground=None).contact_points == () and cd.Simulation(scene, dt=0.001, ground=None).dt == 0.001
    # spheres inside the ellipsoid: about its centre, and at the ends of its longer axes
    inside = sorted((point.radius, point.position) for name, point in points.items() if name.startswith("paired"))
    assert [round(radius, 6) for radius, _ in inside] == [0.009, 0.009, 0.018, 0.018, 0.03]
    assert max(abs(p[0]) + r for r, p in inside) == pytest.approx(0.1)


TETRAHEDRON = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 1 4 3\n"
PART = """<mujoco><asset><mesh name="m" file="m.obj"/></asset>
<worldbody><body name="part"><joint name="j"/><geom type="mesh" mesh="m"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize("compiler", ["", '<compiler meshdir="shared"/>'])
@pytest.mark.parametrize("mesh", ["m.obj", "sub/m.obj", "sub/deep/m.obj", "shared/m.obj", "sub/shared/m.obj"])
def test_files_are_found_where_mujoco_finds_them(tmp_path: Path, compiler: str, mesh: str) -> None:
    (tmp_path / "sub/deep").mkdir(parents=True)
    (tmp_path / mesh).parent.mkdir(exist_ok=True)
    (tmp_path / mesh).write_text(TETRAHEDRON)
    (tmp_path / "sub/deep/part.xml").write_text(PART)
    (tmp_path / "sub/middle.xml").write_text('<mujoco><include file="deep/part.xml"/></mujoco>')
    main = tmp_path / "main.xml"
    main.write_text(f'<mujoco>{compiler}<include file="sub/middle.xml"/></mujoco>')
    try:
        mujoco.MjModel.from_xml_path(str(main))
    except ValueError:
        with pytest.raises(cd.RobotError, match="there is no such file"):
            cd.load(main)
    else:
        assert cd.load(main).joint_names == ["j"]


def test_assets_of_another_branch_of_a_python_package_are_found(tmp_path: Path) -> None:
    for folder in ("pack", "pack/one/two/three", "pack/other"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    (tmp_path / "pack/other/m.obj").write_text(TETRAHEDRON)
    robot = tmp_path / "pack/one/two/three/robot.xml"
    robot.write_text(PART.replace("m.obj", "../../../other/m.obj"))
    with pytest.raises(cd.RobotError, match=r"leads out of the allowed folders.*package_dirs"):
        cd.load(robot)
    (tmp_path / "pack/__init__.py").touch()
    assert cd.load(robot).nv == 1


FINGERS = """
<mujoco>
  <compiler angle="radian"/>
  <worldbody>
    <body><joint name="a"/><geom size="0.1" pos="0.1 0 0"/></body>
    <body pos="1 0 0"><joint name="b" ref="0.3"/><geom size="0.1" pos="0.1 0 0"/></body>
    <body pos="2 0 0"><joint name="c"/><geom size="0.1" pos="0.1 0 0"/></body>
    <body pos="3 0 0"><joint name="d"/><geom size="0.1" pos="0.1 0 0"/><site name="a"/></body>
  </worldbody>
  <tendon>
    <fixed name="two"><joint joint="a" coef="2"/><joint joint="b" coef="-0.5"/></fixed>
    <fixed name="three"><joint joint="a" coef="1"/><joint joint="b" coef="1"/><joint joint="d" coef="1"/></fixed>
  </tendon>
  <equality>
    <tendon name="t" tendon1="two" polycoef="0.1 0 0 0 0"/>
    <joint name="chain" joint1="c" joint2="a" polycoef="0 -1 0 0 0"/>
    <joint name="ring" joint1="b" joint2="c"/>
    <tendon name="left" tendon1="three"/>
  </equality>
</mujoco>
"""


def test_tendons_of_two_joints_and_chains_couple_them(tmp_path: Path) -> None:
    path = tmp_path / "fingers.xml"
    path.write_text(FINGERS)
    robot = cd.load(path)
    assert robot.joint_names == ["b", "d"]
    theirs = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(theirs)
    data.qpos[:] = robot.full(np.array([0.7, 0.2]))
    mujoco.mj_forward(theirs, data)
    # 2 a - 0.5 b = length at the start + 0.1, and c = -a
    assert data.ten_length[0] == pytest.approx(theirs.tendon_length0[0] + 0.1, abs=1e-15)
    assert data.qpos[2] == -data.qpos[0]
    assert [note.what for note in robot.model.notes] == [
        "kept: joints that mimic others, softly in MuJoCo and exactly here: a, c",
        "repaired: sites with the name of a link or joint, which are called NAME_site: a",
        "not simulated: equality constraints (joint), which are left out: ring",
        "not simulated: equality constraints (tendon), which are left out: left",
        "not simulated: contact of moving bodies with each other: "
        "body1 - body2, body1 - body3, body1 - body4, body2 - body3, body2 - body4, body3 - body4",
    ]


@pytest.mark.parametrize(("axis", "floor"), [("0 0 1", False), ("0.1 0 1", True)])
def test_the_floor_is_left_out_where_nothing_moves_up_or_down(axis: str, floor: bool) -> None:
    text = '<mujoco><worldbody><geom type="plane" size="1 1 1"/><body name="b" pos="0 0 0.1"><joint type="slide" axis="1 0 0"/>'
    text += (
        f'<joint type="slide" axis="0 1 0"/><joint axis="{axis}"/><geom size="0.1" pos="0.2 0 0"/></body></worldbody></mujoco>'
    )
    assert (cd.Simulation(cd.load(read_mjcf(text))).ground is not None) == floor


def test_springs_and_dry_friction_of_free_joints_are_named() -> None:
    text = '<mujoco><option><flag frictionloss="enable"/></option><worldbody><body name="b">'
    text += '<joint name="root" type="free" stiffness="1" frictionloss="2"/><geom size="0.1"/></body></worldbody></mujoco>'
    ours = [note.what for note in read_mjcf(text).notes]
    assert "not simulated: springs of free joints: root" in ours
    assert "not simulated: dry friction of free joints: root" in ours
    off = [note.what for note in read_mjcf(text.replace('"enable"', '"disable"')).notes]
    assert not any("dry friction" in what for what in off)


def test_robots_of_published_shapes_load(tmp_path: Path) -> None:
    """Attached and replicated models, classes, frames, mocap, flags that are off, and a slide held still by damping."""
    (tmp_path / "arm.xml").write_text(
        '<mujoco model="arm"><default><default class="light"><geom mass="0.5"/></default></default><worldbody>'
        '<body name="arm"><joint name="j" stiffness="1"/><geom class="light" size="0.1" pos="0.2 0 0"/></body>'
        "</worldbody></mujoco>"
    )
    main = tmp_path / "scene.xml"
    main.write_text("""
<mujoco model="two arms">
  <option><flag gravity="disable" spring="disable" damper="disable" frictionloss="disable" limit="disable"/></option>
  <asset><model file="arm.xml"/></asset>
  <worldbody>
    <body name="target" mocap="true"><geom size="0.01" contype="0" conaffinity="0"/></body>
    <frame pos="0 1 0" euler="0 0 90"><attach model="arm" body="arm" prefix="left/"/></frame>
    <frame pos="0 -1 0"><attach model="arm" body="arm" prefix="right/"/></frame>
    <body name="rail">
      <joint name="rail" type="slide" damping="1e11" range="-1 1" frictionloss="1"/><geom size="0.1"/>
      <replicate count="3" euler="0 0 120">
        <body name="finger" pos="0.1 0 0"><joint name="f"/><geom size="0.01"/></body>
      </replicate>
    </body>
  </worldbody>
</mujoco>""")
    robot = cd.load(main)
    assert robot.model.gravity == (0.0, 0.0, 0.0) and robot.nv == 6
    assert sorted(robot.joint_names) == ["f0", "f1", "f2", "left/j", "rail", "right/j"]
    rail = next(link for link in robot.model.links if link.joint == "rail")
    assert (rail.damping, rail.friction, rail.limits.lower, robot.model.links[0].stiffness) == (0.0, 0.0, None, 0.0)
    main.write_text(main.read_text().replace('damper="disable"', ""))
    assert max(link.damping for link in cd.load(main).model.links) == 1e11
