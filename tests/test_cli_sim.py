"""The commands `sim` and `gradcheck`: what they print, what they write, and how they refuse."""

import json

import numpy as np
import pytest
from command_line import CliRunner
from rich.console import Console

import condyle as cd
from condyle.commands import gradcheck as checking
from condyle.commands.cli import app
from condyle.commands.scene import Origin, Scene, contacts, initial_configuration, place_on_ground
from condyle.simulate.gradcheck import DerivativeError
from condyle.simulate.points import contact_points, point_on
from condyle.simulate.standing import contact_centers, gaps
from condyle.workbench.runs.run import read_run

QUIET = Console(quiet=True)


def condyle(*arguments):
    done = CliRunner().invoke(app, list(arguments))
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def refused(*arguments):
    """What a command says that ends with exit code 2, in one sentence."""
    done = condyle(*arguments)
    assert done.exit_code == 2 and done.stderr.startswith("condyle: ") and len(done.stderr.strip().splitlines()) == 1
    return done.stderr


# ---- worlds


def test_contacts_from_texts():
    model = cd.load("pidog").model
    for name in ("pidog", "fourlimb"):
        points = contact_points(cd.load(name).model, "feet")
        assert len(points) == 4 and all(point.radius > 0.0 for point in points), name
    nose, tail, *names = contacts(model, ["nose:0.01", "tail:0.1,0,-0.02", "*_foot", "auto"])
    assert (nose, tail) == (point_on(model, "nose", radius=0.01), point_on(model, "tail", (0.1, 0.0, -0.02)))
    assert names == ["*_foot", "auto"] and contacts(model, ["none"]) == "none"
    assert not Scene(Origin("pidog"), contacts=["none"]).simulation().contact_points
    assert "did you mean 'nose'" in refused("sim", "pidog", "--contacts", "nosee:0.1")


@pytest.mark.parametrize("base", ["free", "planar", "euler"])
@pytest.mark.parametrize("ground", ["plane", "slope:15"])
def test_a_robot_is_placed_on_its_lowest_contact(base, ground):
    simulation = Scene(Origin("fourlimb", base), ground=ground).simulation()
    q = place_on_ground(simulation, initial_configuration(simulation.robot, ["pitch_1_f*=0.4"]), 0.03)
    assert gaps(simulation, contact_centers(simulation, q[None]))[0].min() == pytest.approx(0.03, abs=1e-12)


# ---- sim


def test_sim_tells_what_happened_and_records_it(tmp_path):
    run, picture = tmp_path / "deep" / "run.cdl", tmp_path / "run.png"
    arguments = ("sim", "pidog", "--seconds", "0.3", "--height", "0.01", "--gain", "2", "0.05", "--joint", "*_hip=0.0")
    arguments += ("--contacts", "*_foot")
    done = condyle(*arguments, "--out", str(run), "--plot", str(picture), "--json")
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["steps"] == 150 and set(facts["contacts"]) >= {"lf_foot", "rf_foot", "lh_foot", "rh_foot"}
    assert facts["controller"] == "hold" and facts["file"] == str(run) and not facts["interrupted"]
    assert facts["largest_residual"] < 1e-10 and facts["real_time_factor"] > 0.0
    assert sum(force[2] for force in facts["contacts"].values()) == pytest.approx(facts["weight"], rel=0.5)
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == ["run.cdl", "run.png"], "no temporary files are left"
    # the file belongs to the simulation that anyone would make, and holds what was seen
    robot = cd.load("pidog")
    saved = read_run(run, cd.Simulation(robot, 0.002, cd.Plane(), "*_foot"))
    assert saved.x.shape == (151, robot.nq + robot.nv) and saved.u.shape == (150, robot.nv - 6)
    assert saved.x[-1, :3] == pytest.approx(facts["base"]["position"], abs=1e-12)
    # a run is not lost by the next one
    assert "--force" in refused(*arguments, "--out", str(run))
    assert condyle(*arguments, "--out", str(run), "--force").exit_code == 0
    assert read_run(run).hash == saved.hash, "the same run again, bit for bit"


def test_the_table_says_what_to_type_next(tmp_path):
    done = condyle("sim", "pendulum", "--joint", "swing=1", "--seconds", "0.1", "-o", str(tmp_path / "run.cdl"))
    for verb in ("view", "plot", "replay"):
        assert f"condyle {verb} {tmp_path / 'run.cdl'}" in done.stdout
    assert "controller none" in done.stdout


@pytest.mark.parametrize("controller", ["none", "hold", "gravity", "swing", "noise"])
def test_every_controller_for_any_robot(controller, tmp_path):
    run = tmp_path / "run.cdl"
    done = condyle("sim", "double_pendulum", "-c", controller, "--joint", "shoulder=0.5", "--seconds", "0.5", "-o", str(run))
    assert done.exit_code == 0, done.stderr
    found = read_run(run)
    assert found.about["controller"] == controller and found.title == f"double_pendulum: {controller}"
    assert (np.abs(found.u).max() > 0.0) == (controller != "none")
    moved = np.abs(found.q - found.q[0]).max()
    assert {"none": moved > 0.1, "hold": moved < 0.05, "gravity": moved < 1e-9, "swing": moved > 0.05, "noise": moved > 0.01}[
        controller
    ]


@pytest.mark.parametrize(
    ("robot", "controller", "seconds", "frames"),
    [
        pytest.param("pidog", "stand", 0.5, 0, marks=pytest.mark.slow),
        pytest.param("pidog", "walk", 0.2, 0, marks=pytest.mark.slow),
        pytest.param("pidog", "trot", 0.2, 0, marks=pytest.mark.slow),
        ("birotor", "hover", 0.3, 2),
    ],
)
def test_controllers_of_one_robot(robot, controller, seconds, frames, tmp_path):
    run = tmp_path / "run.cdl"
    done = condyle("sim", robot, "-c", controller, "--seconds", str(seconds), "-o", str(run), "--json")
    assert done.exit_code == 0, done.stderr
    facts, found = json.loads(done.stdout), read_run(run)
    assert found.wrenches.shape[1] == frames and np.abs(found.u).max() + np.abs(found.wrenches).sum() > 0.0
    tilt = np.abs(facts["base"]["roll_pitch_yaw"][:2]).max()
    assert tilt < 0.15, "it is upright"
    assert found.check().identical


@pytest.mark.slow
def test_hovering_stays_and_comes_back_from_a_push():
    done = condyle("sim", "birotor", "-c", "hover", "--seconds", "3", "--push", "0", "4", "0", "--json")
    place = json.loads(done.stdout)["base"]["position"]
    assert np.abs(np.array(place) - (0.0, 0.0, 1.0)).max() < 0.2
    still = json.loads(condyle("sim", "birotor", "-c", "hover", "--seconds", "0.5", "--height", "2", "--json").stdout)
    assert still["base"]["position"] == pytest.approx([0.0, 0.0, 2.0], abs=1e-3)


def test_balancing_on_one_wheel():
    done = condyle("sim", "wheeled_pendulum", "-c", "balance", "--seconds", "3", "--push", "0.5", "0", "0", "--json")
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["dt"] == 0.001 and abs(facts["base"]["roll_pitch_yaw"][1]) < 0.02 and facts["speed"] < 0.3


def test_noise_of_the_sensors_is_recorded_and_repeats_with_its_seed(tmp_path):
    def measured(name, *more):
        arguments = ("sim", "double_pendulum", "-c", "hold", "--seconds", "0.1", "-o", str(tmp_path / name), *more)
        assert condyle(*arguments).exit_code == 0
        return read_run(tmp_path / name)

    first, again, other = measured("1.cdl", "--noise", "1", "--seed", "4"), measured("2.cdl", "--noise", "1", "--seed", "4"), None
    other = measured("3.cdl", "--noise", "1", "--seed", "5")
    assert first.hash == again.hash != other.hash
    off = first.extras["measured.q"] - first.q[:-1], first.extras["measured.v"] - first.v[:-1]
    assert 0.005 < np.std(off[0]) < 0.02 and 0.05 < np.std(off[1]) < 0.2 and first.check().entries == 5
    assert "measured.q" not in measured("4.cdl").extras


def test_a_simulation_that_fails_keeps_what_was_recorded(tmp_path, monkeypatch):
    from condyle.methods.control import controllers

    monkeypatch.setattr(controllers, "zero_torque", lambda simulation: lambda x: [1.0 / (x.tick - 20.0)])
    run = tmp_path / "run.cdl"
    said = refused("sim", "pendulum", "--seconds", "1", "-o", str(run))
    assert "after 0.04 s: the loop stops at tick 20 (t = 0.04 s): a value is not finite; look at gains and --dt" in said
    assert f"the 20 steps before are in {run}" in said
    found = read_run(run)
    assert found.steps == 20 and "not finite" in found.about["stopped"]


def test_sim_without_ground_and_motors_keeps_the_energy():
    done = condyle("sim", "double_pendulum", "--joint", "shoulder=1", "--seconds", "0.5", "--integrator", "rk4", "--json")
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["contacts"] == {} and facts["energy"]["last"] == pytest.approx(facts["energy"]["first"], rel=1e-6)
    assert facts["speed"] > 0.1


def test_a_push_moves_the_robot_and_the_table_is_readable():
    done = condyle("sim", "birotor", "--ground", "none", "--push", "0", "5", "0", "--seconds", "0.4")
    assert done.exit_code == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if "base, m" in line)
    moved = float(line.split("y ")[-1].split()[0])
    # 0.1 s of 5 N on 1.44 kg from 0.132 s on, not quite at the centre of mass
    assert moved == pytest.approx(5.0 * 0.1 / 1.44442 * 0.218, rel=0.2)
    assert "largest residual" in done.stdout and "real time" in done.stdout


# ---- gradcheck


def test_gradcheck_passes_on_small_robots():
    done = condyle("gradcheck", "double_pendulum", "--steps", "10", "--bits", "256")
    assert done.exit_code == 0, done.stdout + done.stderr
    for what in ("dq1/dq", "dv1/du", "dq10/dv0", "d2x1/dqdv", "all within 1e-07"):
        assert what in done.stdout


BALL = """<robot name="ball"><link name="foot"><inertial><mass value="1"/>
<inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>
<collision><geometry><sphere radius="0.1"/></geometry></collision></link></robot>"""


def test_gradcheck_as_json_with_contact(tmp_path):
    (tmp_path / "ball.urdf").write_text(BALL)
    done = condyle("gradcheck", str(tmp_path / "ball.urdf"), "--base", "free", "--steps", "1", "--bits", "256", "--json")
    assert done.exit_code == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["passed"] and len(found["rows"]) >= 8 and max(row["error"] for row in found["rows"]) < 1e-9


def test_gradcheck_fails_with_exit_code_1(monkeypatch):
    monkeypatch.setattr(
        checking, "check", lambda *_, **__: [DerivativeError("dq1/dq", 1e-3, 1.0, 2), DerivativeError("dv1/dq", 1e-12, 1.0, 2)]
    )
    done = condyle("gradcheck", "pendulum")
    assert done.exit_code == 1 and "FAILED" in done.stdout and "not all within" in done.stdout


@pytest.mark.slow
def test_the_state_that_is_checked_touches_the_ground_within_limits():
    simulation = Scene(Origin("pidog")).simulation()
    x, u = checking.random_state(simulation, 3)
    assert np.abs(simulation.contact_forces(x, u)).max() > 0.1
    again, _ = checking.random_state(simulation, 3)
    assert np.array_equal(x, again)


# ---- refusals


@pytest.mark.slow
def test_wrong_use_is_one_sentence(tmp_path):
    assert "slope:10" in refused("sim", "pidog", "--ground", "hill")
    assert "between -90 and 90" in refused("sim", "pidog", "--ground", "slope:95")
    assert "--ground plane" in refused("sim", "ur3", "--contacts", "wrist_3")
    assert "no joint 'swng' (did you mean 'swing'" in refused("sim", "pendulum", "--joint", "swng=1")
    assert "NAME=VALUE" in refused("sim", "pendulum", "--joint", "swing")
    assert "integrator must be one of" in refused("sim", "pendulum", "--integrator", "magic")
    assert "1 to 10,000,000" in refused("sim", "pendulum", "--seconds", "0")
    assert "try run.png" in refused("sim", "pendulum", "--plot", str(tmp_path / "run.bmp"))
    assert "try -o run.cdl" in refused("sim", "pendulum", "-o", str(tmp_path / "run.csv"))
    assert "did you mean 'hold'" in refused("sim", "pendulum", "-c", "holt")
    assert "none, hold, gravity" in refused("sim", "pendulum", "-c", "xyz")
    assert "'walk' is for pidog, not for ur3: use one of none, hold" in refused("sim", "arm", "-c", "walk")
    assert "leave --joint out" in refused("sim", "pidog", "-c", "walk", "--joint", "lf_hip=1")
    assert "leave --dt out" in refused("sim", "wheeled_pendulum", "-c", "balance", "--dt", "0.01")
    assert "belongs to --controller hold" in refused("sim", "pendulum", "-c", "swing", "--gain", "1", "1")
    assert "level of noise" in refused("sim", "pendulum", "-c", "hold", "--noise", "-1")
    assert "not be negative" in refused("sim", "pendulum", "--gain", "-1", "0")
    assert "128 to 1024 bits" in refused("gradcheck", "pendulum", "--bits", "64")
    assert "did you mean" in refused("gradcheck", "pidoog")
    assert not list(tmp_path.iterdir())


def test_a_joint_that_moves_nothing_is_refused_with_a_cure(tmp_path):
    path = tmp_path / "light.urdf"
    path.write_text(
        """<robot name="light"><link name="a"/><link name="b"/><joint name="j" type="continuous">
        <parent link="a"/><child link="b"/><axis xyz="0 1 0"/></joint></robot>"""
    )
    said = refused("sim", str(path))
    assert "--base free" in refused("sim", "ur3", *[w for name in cd.load("ur3").joint_names for w in ("--lock", name)])
    assert "joint 'j' moves no inertia" in said and f"condyle doctor {path} --fix" in said


@pytest.mark.slow
def test_every_free_body_is_reported_the_largest_tree_first(tmp_path):
    path = tmp_path / "scene.xml"
    path.write_text("""<mujoco><worldbody><geom type="plane" size="3 3 0.1"/>
      <body name="crate" pos="1 0 1"><freejoint/><geom type="box" size="0.1 0.1 0.1"/></body>
      <body name="dog" pos="0 0 0.3"><freejoint/><geom type="box" size="0.2 0.1 0.05"/>
        <body name="leg" pos="0.1 0 -0.05"><joint axis="0 1 0"/><geom type="capsule" size="0.02 0.1"/></body></body>
      <body name="ball" pos="-1 0 0.5"><freejoint/><geom size="0.1"/></body></worldbody></mujoco>""")
    done = condyle("sim", str(path), "--seconds", "1", "--json")
    found = json.loads(done.stdout)
    assert found["base"]["frame"] == "dog" and [body["frame"] for body in found["other_bodies"]] == ["crate", "ball"]
    crate, ball = (body["position"] for body in found["other_bodies"])
    np.testing.assert_allclose([crate, ball], [[1.0, 0.0, 0.1], [-1.0, 0.0, 0.1]], atol=2e-3)
    assert any("contact of moving bodies with each other" in note for note in found["notes"])
    table = condyle("sim", str(path), "--seconds", "0.1").stdout
    assert all(name in table for name in ("dog, m", "crate, m", "ball, m"))
