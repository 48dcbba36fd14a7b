"""Logs from runs, tables and bags; fits through the simulation; the command line."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from command_line import CliRunner
from methods.identify.arms import motion, pendulum

import condyle as cd
from condyle.closed_loop.tangent import rollout_jvp
from condyle.commands.cli import app
from condyle.errors import ControlError, FileError
from condyle.methods.identify import Log, fit_simulation, identify
from condyle.workbench.runs import bags
from condyle.workbench.runs.logs import read_log

HIDDEN = {"elbow.mass": 1.3, "shoulder.damping": 0.4, "elbow.friction": 0.3}


@pytest.fixture(scope="module")
def robot():
    return pendulum()


@pytest.fixture(scope="module")
def loop(robot):
    path = motion()
    world = cd.Simulation(robot, dt=0.002)

    def control(x):
        goal = path.at(x.tick * 0.002)
        return (
            robot.inverse_dynamics(goal.position, goal.velocity, goal.acceleration)
            + 80.0 * (goal.position - x.q)
            - 8.0 * (x.v - goal.velocity)
        )

    return cd.Loop(world, control)


@pytest.fixture(scope="module")
def run(loop):
    with cd.Recorder(loop, loop.state(motion().start), parameters=HIDDEN) as recorder:
        recorder.rollout(None, 5000)
    return recorder.run


def test_a_run_is_identified_with_its_friction(robot, run):
    found = identify(robot, read_log(robot, run), cutoff=8.0)
    assert found.identifiable["shoulder.damping"][0] == pytest.approx(0.4, abs=0.01)
    assert found.identifiable["elbow.friction"][0] == pytest.approx(0.3, abs=0.01)
    assert found.prediction.total < 0.02 < found.prediction.total_nominal


def test_files_have_the_same_log(robot, run, tmp_path):
    run.save(tmp_path / "run.cdl")
    cd.export_run(run, tmp_path / "run.csv")
    cd.export_run(run, tmp_path / "run.mcap")
    direct = read_log(robot, run)
    for name in ("run.cdl", "run.csv", "run.mcap"):
        log = read_log(robot, tmp_path / name)
        assert np.array_equal(log.q, direct.q) and np.array_equal(log.tau, direct.tau)


def test_a_table_in_any_order_with_a_lead(robot, run, tmp_path):
    t, q, u = run.t[:200], run.q[:200], run.u[:200]
    head = "t,u.elbow,q.elbow,u.shoulder,q.shoulder"
    table = np.column_stack([t, u[:, 1], q[:, 1], u[:, 0], q[:, 0]])
    np.savetxt(tmp_path / "log.csv", table, delimiter=",", header=head, comments="", fmt="%.17g")
    log = read_log(robot, tmp_path / "log.csv", lead=0.001)
    assert np.array_equal(log.q, q) and np.allclose(log.tau[1:], 0.5 * (u[1:] + u[:-1]), atol=1e-9)
    jittered = table + np.outer(1e-5 * np.random.default_rng(0).normal(size=200), [1.0, 0, 0, 0, 0])
    np.savetxt(tmp_path / "jitter.csv", jittered, delimiter=",", header=head, comments="", fmt="%.17g")
    with pytest.raises(ControlError, match="not uniform"):
        read_log(robot, tmp_path / "jitter.csv")
    assert np.allclose(read_log(robot, tmp_path / "jitter.csv", resample=True).q, q, atol=1e-4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no rows"),
        ("t,q.shoulder,q.elbow,u.shoulder\n0,0,0,0\n", "no column 'u.elbow'"),
        ("time,q.shoulder,q.elbow,u.shoulder,u.elbow\n0,0,0,0,0\n", "no column 't'"),
        ("t,q.shoulder,q.elbow,u.shoulder,u.elbow\n0,0,x,0,0\n", "'x' in column 3"),
    ],
)
def test_wrong_tables(robot, tmp_path, text, message):
    (tmp_path / "log.csv").write_text(text)
    with pytest.raises(FileError, match=message):
        read_log(robot, tmp_path / "log.csv")


def test_other_files_and_joints(robot, run, tmp_path):
    with pytest.raises(FileError, match=r"check its name"):
        read_log(robot, tmp_path / "none.csv")
    (tmp_path / "log.txt").write_text("t")
    with pytest.raises(FileError, match=r"is no log"):
        read_log(robot, tmp_path / "log.txt")
    with pytest.raises(ControlError, match=r"no positions of joint 'pan_joint'"):
        read_log(cd.load("ur3"), run)
    with pytest.raises(ControlError, match=r"position='encoder' was not recorded"):
        read_log(robot, run, position="encoder")


def test_joint_states_of_a_bag(robot, run, tmp_path, monkeypatch):
    effort = np.vstack([run.u[:, ::-1], [[np.nan, np.nan]]])
    states = SimpleNamespace(t=run.t, names=("elbow", "shoulder"), position=run.q[:, ::-1], effort=effort)
    monkeypatch.setattr(bags, "read_joint_states", lambda path: states)
    log = read_log(robot, tmp_path)
    assert np.array_equal(log.q, run.q[:-1]) and np.array_equal(log.tau, run.u)


# ---- through the simulation


def test_forward_sensitivities_are_those_of_differences(loop):
    x0, names, h = loop.state(motion().start), ["elbow.mass", "shoulder.damping"], 1e-6
    given = {"elbow.mass": 1.2, "shoulder.damping": 0.3, "elbow.friction": 0.2}
    for name in names:
        _, found = rollout_jvp(loop, x0, None, 200, along={name: 1.0}, parameters=given)
        sides = [loop.rollout(x0, None, 200, parameters={**given, name: given[name] + d})["q"] for d in (-h, h)]
        assert np.allclose(found["q"], (sides[1] - sides[0]) / (2.0 * h), atol=1e-8)
    with pytest.raises(ControlError, match=r"no derivative along 'elbow.damping'"):
        rollout_jvp(loop, x0, None, 200, along={"elbow.damping": 1.0}, parameters=given)


def test_a_run_gives_the_parameters_of_its_loop(loop, run):
    found = fit_simulation(loop, run, list(HIDDEN))
    for name, value in HIDDEN.items():
        assert found.values[name] == pytest.approx(value, rel=1e-6)


def test_a_noisy_log_gives_them_within_their_intervals(robot, run):
    world = cd.Simulation(robot, dt=0.002)
    driven = cd.Loop(world, lambda x, u: u, u=2)
    rng = np.random.default_rng(1)
    log = Log.of(robot, run.t[:-1], run.q[:-1] + 1e-5 * rng.normal(size=(5000, 2)), run.u)
    found = fit_simulation(driven, log, list(HIDDEN), start={"elbow.friction": 0.1})
    for name, value in HIDDEN.items():
        assert abs(found.values[name] - value) < 4.0 * found.standard_errors[name] < 0.05 * value
    assert np.all(found.rms < 1.3e-5) and found.intervals["elbow.mass"][0] < found.values["elbow.mass"]


def test_wrong_fits(loop, run):
    for names, options, message in (
        (["elbow.masss"], {}, "no parameter 'elbow.masss'"),
        (["elbow.inertia"], {}, "is a matrix"),
        (["elbow.mass"], {"parameters": {"elbow.mass": 1.0}}, "either fitted or given"),
        (["elbow.mass"], {"window": 100.0}, "shorter than one window"),
    ):
        with pytest.raises(ControlError, match=message):
            fit_simulation(loop, run, names, **options)


# ---- command line


def test_command_line(robot, run, tmp_path):
    cd.export_run(run, tmp_path / "run.csv")
    out, page = tmp_path / "identified.json", tmp_path / "page.html"
    arguments = ["identify", "double_pendulum", str(tmp_path / "run.csv"), "--cutoff", "8", "-o", str(out), "--report", str(page)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0 and "elbow.friction" in done.output and "joint forces of the log of the fit" in done.output
    assert json.loads(out.read_text())["parameters"]["elbow.friction"] == pytest.approx(0.3, abs=0.01)
    assert "<svg" in page.read_text()
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == 2 and "exists" in again.output


def test_command_line_excites(tmp_path):
    table = tmp_path / "excite.csv"
    done = CliRunner().invoke(app, ["identify", "double_pendulum", "--excite", "--period", "4", "-o", str(table), "--json"])
    assert done.exit_code == 0 and json.loads(done.output)["periods"] == 2
    assert table.read_text().startswith("t,q.shoulder,q.elbow")
    for arguments in (["identify", "double_pendulum"], ["identify", "double_pendulum", "x.csv", "--excite"]):
        assert CliRunner().invoke(app, arguments).exit_code == 2
