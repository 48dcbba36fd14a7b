"""The commands `sim` and `gradcheck`: what they print, what they write, and how they refuse."""

import json

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import condyle as cd
from condyle.cli import app
from condyle.commands import gradcheck as checking
from condyle.commands.scene import Scene, feet, placed, places, posed
from condyle.commands.source import Origin
from condyle.simulate.gradcheck import Row

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


def test_feet_are_found_by_their_names():
    for name, count in (("pidog", 4), ("fourlimb", 4), ("ur3", 0), ("cartpole", 0)):
        model = cd.load(name).model
        points = feet(model)
        assert len(points) == count and all(point.radius > 0.0 for point in points), name


@pytest.mark.parametrize("base", ["free", "planar", "euler"])
@pytest.mark.parametrize("ground", ["plane", "slope:15"])
def test_a_robot_is_placed_on_its_lowest_contact(base, ground):
    simulation = Scene(Origin("fourlimb", base), ground=ground).simulation()
    q = placed(simulation, posed(simulation.robot, ["pitch_1_f*=0.4"]), 0.03)
    under = simulation.world.ground
    gaps = [
        float(under.distance(p)[0]) - point.radius
        for p, point in zip(places(simulation, q), simulation.world.points, strict=True)
    ]
    assert min(gaps) == pytest.approx(0.03, abs=1e-12)


# ---- sim


def test_sim_tells_what_happened_and_saves_it(tmp_path):
    run, picture = tmp_path / "deep" / "run.cdl", tmp_path / "run.png"
    arguments = ("sim", "pidog", "--seconds", "0.3", "--height", "0.01", "--gain", "2", "0.05", "--joint", "*_hip=0.0")
    done = condyle(*arguments, "--out", str(run), "--plot", str(picture), "--json")
    assert done.exit_code == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["steps"] == 150 and set(facts["contacts"]) == {"lf_foot", "rf_foot", "lh_foot", "rh_foot"}
    assert facts["worst_residual"] < 1e-10 and facts["real_time_factor"] > 0.0
    assert sum(force[2] for force in facts["contacts"].values()) == pytest.approx(facts["weight"], rel=0.5)
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == ["run.cdl", "run.png"], "no temporary files are left"
    # the file belongs to the simulation that anyone would make, and holds what was seen
    robot = cd.load("pidog")
    saved = cd.Simulation(robot, 0.002, cd.Plane(), feet(robot.model)).load(run)
    assert saved["xs"].shape == (151, robot.nq + robot.nv) and saved["us"].shape == (150, robot.nv - 6)
    assert saved["xs"][-1, :3] == pytest.approx(facts["base"]["position"], abs=1e-12)


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
    assert "worst residual" in done.stdout and "real time" in done.stdout


# ---- gradcheck


def test_gradcheck_passes_on_small_robots():
    done = condyle("gradcheck", "double_pendulum", "--steps", "10", "--bits", "256")
    assert done.exit_code == 0, done.stdout + done.stderr
    for what in ("dq1/dq", "dv1/du", "dq10/dv0", "d2x1/dqdv", "all within 1e-07"):
        assert what in done.stdout


def test_gradcheck_as_json_with_contact():
    done = condyle("gradcheck", "pidog", "--steps", "1", "--json")
    assert done.exit_code == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["passed"] and len(found["rows"]) == 12 and max(row["error"] for row in found["rows"]) < 1e-9


def test_gradcheck_fails_with_exit_code_1(monkeypatch):
    monkeypatch.setattr(checking, "check", lambda *_, **__: [Row("dq1/dq", 1e-3, 1.0, 2), Row("dv1/dq", 1e-12, 1.0, 2)])
    done = condyle("gradcheck", "pendulum")
    assert done.exit_code == 1 and "FAILED" in done.stdout and "not all within" in done.stdout


def test_the_state_that_is_checked_touches_the_ground_within_limits():
    simulation = Scene(Origin("pidog")).simulation()
    x, u = checking.state(simulation, 3)
    assert np.abs(simulation.contact_forces(x, u)).max() > 0.1
    again, _ = checking.state(simulation, 3)
    assert np.array_equal(x, again)


# ---- refusals


def test_wrong_use_is_one_sentence(tmp_path):
    assert "slope:10" in refused("sim", "pidog", "--ground", "hill")
    assert "between -90 and 90" in refused("sim", "pidog", "--ground", "slope:95")
    assert "--ground plane" in refused("sim", "ur3", "--contacts", "wrist_3")
    assert "no joint 'swng' (did you mean 'swing'" in refused("sim", "pendulum", "--joint", "swng=1")
    assert "NAME=VALUE" in refused("sim", "pendulum", "--joint", "swing")
    assert "integrator must be one of" in refused("sim", "pendulum", "--integrator", "magic")
    assert "1 to 10,000,000" in refused("sim", "pendulum", "--seconds", "0")
    assert ".png" in refused("sim", "pendulum", "--plot", str(tmp_path / "run.pdf"))
    assert "not be negative" in refused("sim", "pendulum", "--gain", "-1", "0")
    assert "128 to 1024 bits" in refused("gradcheck", "pendulum", "--bits", "64")
    assert "did you mean" in refused("gradcheck", "pidoog")
    assert not list(tmp_path.iterdir())


def test_help_has_examples():
    for verb in ("sim", "gradcheck"):
        assert "Example" in condyle(verb, "--help").stdout
