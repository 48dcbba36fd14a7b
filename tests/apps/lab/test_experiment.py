"""Runs of experiments: they replay from their file alone, and nothing around them changes their bits."""

import numpy as np
import pytest
from apps.lab.experiments import small

import condyle as cd
from condyle.apps.lab.chunks import Plan, compute
from condyle.apps.lab.compare import compare, compare_page, named_runs
from condyle.apps.lab.experiment import Experiment
from condyle.apps.lab.metrics import NAMES
from condyle.apps.lab.references import control_times, joint_rows, tool_rows
from condyle.apps.lab.run import Session, run_experiment, run_metrics, run_signals
from condyle.apps.lab.tables import Reference
from condyle.errors import ControlError
from condyle.methods.planning.robot_distances import robot_distances


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The run in a file."""
    path = tmp_path_factory.mktemp("lab") / "run.cdl"
    return run_experiment(small(), path)


def test_a_run_replays_from_its_file_with_noise_delay_and_dropout(recorded):
    run = cd.read_run(recorded.run.path)
    assert run.check() and run.check().entries == run.all_states.shape[1]
    assert np.mean(run.states["sensors.started"]) > 0.0 and np.any(np.diff(run.extras["command"], axis=0) != 0.0)
    assert run.about["experiment"] == small().data()


def test_without_file_and_in_one_rollout_it_has_the_same_bits(recorded):
    assert run_experiment(small()).run.hash == recorded.run.hash
    setup = small().setup()
    out = setup.loop.rollout(setup.x0, setup.references(), setup.ticks, seed=3, record=["x"])
    assert np.array_equal(out["x"], recorded.run.all_states[1:])


def test_a_run_of_a_batch_has_the_metrics_of_the_run_alone(recorded):
    plan = Plan(small(), ["seed"])
    ok, rows = compute(plan.job(plan.group({"seed": 3.0}), [{"seed": 9.0}, {"seed": 3.0}, {"seed": 4.0}]))
    assert all(ok)
    assert np.array_equal(rows[1], [recorded.metrics[name] for name in NAMES], equal_nan=True)
    assert rows[0] != rows[1]


def test_values_of_the_loop_and_of_the_file():
    soft = run_experiment(small(), values={"controller.kp": 100.0, "duration": 0.1})
    assert soft.run.steps == 100 and soft.run.about["loop"]["parameters"] == {"controller.kp": 100.0}
    assert soft.run.check()
    with pytest.raises(ControlError, match=r"controller.kp"):
        run_experiment(small(), values={"controller.kp": -1.0})


def test_an_external_controller_is_called_at_every_update_and_replays():
    external = small(controller={"name": "external"}, actuators=None)
    arm, calls = external.arm, []

    def commands(session):
        q, v = session.measured
        calls.append(session.t)
        return arm.inverse_dynamics(q, v, 400.0 * (session.reference[:2] - q) - 40.0 * v)

    done = run_experiment(external, commands=commands)
    assert np.allclose(calls, np.arange(100) / 500.0) and done.run.check()
    assert done.run.extras["u_external"].shape == (200, 2) and done.metrics["final_error"] < 0.05
    with pytest.raises(ControlError, match="come from outside"):
        run_experiment(external)


def test_what_the_controller_measures_is_what_session_gives():
    with Session(small(record=["sensors.position"])) as session:
        seen = []
        while session.update < 10:
            seen.append(session.measured[0])
            session.advance()
        run = session.finish().run
    assert np.array_equal(seen, run.extras["sensors.position"][::2])


def test_the_plant_differs_from_the_model():
    light, heavy = (run_experiment(small(plant={"rod_2.mass": m}, sensors=None)).metrics["rms_error"] for m in (1.0, 3.0))
    same = run_experiment(small(sensors=None)).metrics["rms_error"]
    assert light == pytest.approx(same, rel=1e-9) and heavy > 1.05 * same


def test_a_known_payload_is_in_the_model_and_an_unknown_one_is_not():
    load = {"mass": 2.0, "position": [0.0, 0.0, 0.1], "inertia": [1e-3, 1e-3, 1e-3]}
    base = {"name": "double_pendulum", "q": [0.3, -0.2], "tool": "tip"}
    known, unknown = (
        small(robot=base | {"payload": load | {"known": k}}, reference={"kind": "hold"}, wrenches=[]) for k in (True, False)
    )
    assert known.arm.mass == pytest.approx(unknown.arm.mass + 2.0)
    assert not known.parameters and set(unknown.parameters) == {"rod_2.mass", "rod_2.com", "rod_2.inertia"}
    errors = [run_experiment(e).metrics["rms_error"] for e in (known, unknown)]
    assert errors[1] > 10.0 * errors[0]


def test_flexibility_and_a_wall_change_the_run():
    flexible = small(flexibility={"stiffness": 200.0, "motor_inertia": 0.02, "damping": 0.5}, actuators=None, friction=None)
    run = run_experiment(flexible).run
    assert run.check() and "flexibility.angle" in run.states and np.all(run.u == 0.0) and np.any(run.extras["command"])


def test_comparison_has_a_table_and_a_page(recorded):
    runs = named_runs([recorded.run, recorded.run])
    assert len(runs) == 2
    page = compare_page(compare(runs))
    assert page.count("<svg") == 4 and "rms error" in page and "http" not in page.replace("http-equiv", "")
    assert run_metrics(recorded.run) == recorded.metrics or np.isnan(recorded.metrics["settling_time"])


def test_smooth_friction_is_its_formula_and_close_to_dry_friction():
    held = {"sensors": None, "actuators": None, "wrenches": []}
    smooth = run_experiment(small(friction={"coulomb": 0.3, "viscous": 0.05, "smooth_speed": 0.01}, **held)).run
    dry = run_experiment(small(friction={"coulomb": 0.3, "viscous": 0.05}, **held)).run
    v = smooth.v[:-1]
    assert np.allclose(smooth.u - smooth.extras["command"], -0.05 * v - 0.3 * np.tanh(v / 0.01), atol=1e-12)
    assert smooth.check() and np.abs(smooth.q - dry.q).max() < 0.02 * np.abs(smooth.q - smooth.q[0]).max()


@pytest.mark.slow
def test_a_safety_filter_keeps_the_arm_away(ur3):
    data = {
        "duration": 1.0,
        "robot": {"name": "ur3", "q": Q0},
        "rates": {"physics": 1000, "control": 500},
        "controller": {"name": "computed_torque", "kp": 100.0},
        "reference": {"kind": "point_to_point", "waypoints": [Q0 + np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0])]},
        "safety": {"margin": 0.02},
        "obstacles": [{"kind": "sphere", "position": [0.2477, 0.3126, 0.2915], "radius": 0.05}],
    }
    made = Experiment.from_data(data)
    distances = robot_distances(ur3, [each.solid() for each in made.obstacles], self_collision=False)
    safe = run_experiment(made).run
    through = run_experiment(Experiment.from_data({k: v for k, v in data.items() if k not in ("safety", "obstacles")})).run
    assert np.min(distances(through.q)) < -0.05 and np.min(distances(safe.q)) > 0.02 and safe.check()


# -- references


@pytest.fixture(scope="module")
def ur3():
    return cd.load("ur3")


Q0 = np.array([0.0, -1.2, 1.2, -1.5, -1.5, 0.3])


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "line", "points": [[0.30, 0.2, 0.3], [0.28, 0.1, 0.32]], "pause": 0.05},
        {"kind": "circle", "centre": [0.3, 0.194, 0.3], "normal": [0.0, 0.0, 1.0], "angle": 1.0},
        {"kind": "spline", "points": [[0.30, 0.2, 0.3], [0.28, 0.1, 0.32]]},
    ],
)
def test_joints_of_a_tool_path_bring_the_tool_there(ur3, given):
    R0, p0 = ur3.frame_pose(Q0, "tool")
    if given["kind"] == "circle":
        given = given | {"centre": (p0 + np.array([0.05, 0.0, 0.0])).tolist()}
    reference = Reference(**given, speed=0.2, acceleration=1.0)
    t = np.arange(1000) / 500.0
    rows, tool = joint_rows(reference, ur3, Q0, "tool", t), tool_rows(reference, ur3, Q0, "tool", t)
    R, p = ur3.frame_pose(np.ascontiguousarray(rows[:, :6]), "tool")
    assert np.abs(p - tool[:, 9:12]).max() < 1e-8 and np.abs(R - R0).max() < 1e-8
    velocity = ur3.frame_velocity(np.ascontiguousarray(rows[:, :6]), np.ascontiguousarray(rows[:, 6:12]), "tool")
    linear = np.concatenate(velocity, axis=-1)[:, :3] if isinstance(velocity, tuple) else velocity[:, :3]
    assert np.abs(linear - tool[:, 12:15]).max() < 1e-3


def test_tool_rows_of_a_joint_motion_are_its_derivatives(ur3):
    reference = Reference(kind="sine", amplitude=0.2, frequency=0.5)
    t = np.arange(2001) / 1000.0
    rows = tool_rows(reference, ur3, Q0, "tool", t)
    p, v, a = rows[:, 9:12], rows[:, 12:15], rows[:, 18:21]
    assert np.abs(np.gradient(p, t, axis=0)[1:-1] - v[1:-1]).max() < 1e-5
    assert np.abs(np.gradient(v, t, axis=0)[1:-1] - a[1:-1]).max() < 1e-4


def test_a_planner_holds_its_samples_and_a_start_waits():
    t = control_times(Reference(kind="hold", sampled="planner", start=0.02), 100, 1000, 50, 0.04)
    assert np.array_equal(np.unique(t), np.round(np.array([-0.06, -0.04, -0.02, 0.0, 0.02]), 9)) or len(np.unique(t)) == 5
    assert t[0] == pytest.approx(-0.06)


def test_tables_are_followed(tmp_path):
    t = np.linspace(0.0, 0.2, 21)
    q = np.column_stack([0.3 + 0.1 * np.sin(5 * t), -0.2 + 0.0 * t])
    np.savez(tmp_path / "ref.npz", t=t, q=q)
    names = small().arm.joint_names
    text = "\n".join(
        [",".join(["t", *names]), *[f"{a!r},{b[0]!r},{b[1]!r}" for a, b in zip(t.tolist(), q.tolist(), strict=True)]]
    )
    (tmp_path / "ref.csv").write_text(text)
    rows = [small(reference={"kind": "table", "path": str(tmp_path / f"ref.{end}")}).rows() for end in ("npz", "csv")]
    assert np.array_equal(*rows) and np.abs(rows[0][::5, 0] - q[:20, 0]).max() < 1e-12
    (tmp_path / "run.csv").write_text(text.replace(names[0], f"q.{names[0]}").replace(names[1], f"q.{names[1]}"))
    assert np.array_equal(small(reference={"kind": "table", "path": str(tmp_path / "run.csv")}).rows(), rows[0])
    np.savez(tmp_path / "bad.npz", t=t)
    with pytest.raises(ControlError, match=r"has no array 'q'"):
        run_experiment(small(reference={"kind": "table", "path": str(tmp_path / "bad.npz")}), tmp_path / "run.cdl")
    assert not (tmp_path / "run.cdl").exists()


def test_overshoot_of_a_run_that_ends_on_its_way_back():
    """The way to a waypoint and part of the way back: how far the joints pass the waypoint, wherever the run ends."""
    there = {"kind": "point_to_point", "waypoints": [[0.5, 0.1], [0.3, -0.2]], "profile": "quintic", "acceleration": 8.0}
    found = {}
    for duration in (0.6, 0.7, 0.9, 1.4):
        run = run_experiment(small(reference=there, duration=duration)).run
        signals = run_signals(run)
        turn, start = np.array([0.5, 0.1]), np.array([0.3, -0.2])
        assert np.abs(signals.reference - turn).max(axis=1).min() < 1e-3, "it reaches the waypoint"
        past = ((signals.response - start) / (turn - start)).max(axis=0) - 1.0
        found[duration] = run_metrics(run)["overshoot"]
        assert found[duration] == pytest.approx(max(past.max(), 0.0), abs=1e-3)
    assert max(found.values()) < 0.1
