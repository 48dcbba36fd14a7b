"""Identification of a double pendulum: exact without noise, intervals that cover, physically consistent numbers, and errors."""

import json

import numpy as np
import pytest
from methods.identify.arms import log, motion, pendulum, true_pendulum

from condyle.errors import ControlError, FileError
from condyle.methods.identify import Log, identify, write_report
from condyle.methods.identify.filtering import filtered_motion, root_raised_cosine
from condyle.methods.identify.identified import read_parameters
from condyle.methods.identify.regressor import Regressor

TRIALS = 40


@pytest.fixture(scope="module")
def robot():
    return pendulum()


@pytest.fixture(scope="module")
def true():
    return true_pendulum()


@pytest.fixture(scope="module")
def found(robot, true):
    return identify(robot, log(true, noise=0.05, encoder=2e-6), validation=log(true, path=motion(4), seed=9), cutoff=8.0)


def test_without_noise_the_numbers_are_those_of_the_robot(robot, true):
    result = identify(robot, log(true), cutoff=8.0, stick_speed=0.05)
    beta = result.base.map @ Regressor(true).nominal
    assert np.abs(result.values - beta).max() < 1e-3 * np.abs(beta).max()
    assert result.identifiable["elbow.friction"][0] == pytest.approx(0.15, abs=1e-3)


@pytest.mark.slow
def test_intervals_cover_as_often_as_they_say(robot, true):
    scores = []
    for seed in range(TRIALS):
        result = identify(robot, log(true, noise=0.05, encoder=2e-6, seed=seed), cutoff=8.0)
        scores.append((result.values - result.base.map @ Regressor(true).nominal) / result.standard_errors)
    z = np.array(scores)
    # 40 x 10 scores: the share inside is 0.95 within 0.011, were they independent
    assert 0.90 < np.mean(np.abs(z) < 1.96) < 0.985
    assert 0.85 < z.std() < 1.15


def test_forces_of_another_motion_are_predicted(found):
    assert found.validated and found.prediction.total < 0.01 < 0.05 < found.prediction.total_nominal
    assert "validation" in repr(found)


def test_the_numbers_are_those_of_real_bodies(found, true):
    for name in ("rod_1", "rod_2"):
        moments = np.linalg.eigvalsh(found.parameters[f"{name}.inertia"])
        assert found.parameters[f"{name}.mass"] > 0.0 and moments[0] > 0.0 and moments[0] + moments[1] >= moments[2]
    # they agree with the base parameters within their errors
    off = found.base.map @ found.consistent.pi - found.values
    assert np.max(np.abs(off) / found.standard_errors) < 1.0
    q, v, a = motion(7).at(np.linspace(0.0, 10.0, 50))
    tau = found.robot.inverse_dynamics(q, v, a)
    assert np.allclose(tau, true.inverse_dynamics(q, v, a), atol=0.02 * np.abs(tau).max())


def test_a_poor_log_gives_real_bodies_too(robot, true):
    poor = identify(robot, log(true, noise=3.0, seed=5), cutoff=8.0, total_mass=2.1)
    assert poor.weak and np.linalg.eigvalsh(poor.parameters["rod_2.inertia"])[0] > 0.0
    assert all(value >= 0.0 for name, value in poor.parameters.items() if name.endswith(("damping", "friction")))
    assert poor.parameters["rod_1.mass"] + poor.parameters["rod_2.mass"] == pytest.approx(2.1, rel=0.01)


def test_the_mean_over_periods(robot, true):
    two = log(true, noise=0.05, encoder=1e-5, path=motion(periods=2))
    averaged = two.averaged(10.0)
    assert averaged.repeats == 2 and len(averaged.t) == 5000
    result = identify(robot, averaged, cutoff=8.0)
    score = (result.values - result.base.map @ Regressor(true).nominal) / result.standard_errors
    assert np.abs(score).max() < 4.0
    with pytest.raises(ControlError, match="needs two periods"):
        two.averaged(15.0)


def test_white_noise_stays_white_in_the_rows():
    g, D = root_raised_cosine(20), 20
    full = np.convolve(g, g)
    assert np.abs(full[len(full) // 2 + D :: D]).max() < 2e-3 and full[len(full) // 2] == pytest.approx(1.0)


def test_derivatives_of_a_sine_are_exact_and_without_delay(robot):
    t = 0.002 * np.arange(5000)
    q = np.stack([np.sin(5.0 * t), np.cos(3.0 * t)], axis=1)
    found = filtered_motion(Log.of(robot, t, q, q), 5.0)
    assert np.allclose(found.v[:, 0], 5.0 * np.cos(5.0 * found.t), atol=5e-4)
    assert np.allclose(found.a[:, 1], -9.0 * np.cos(3.0 * found.t), atol=1e-3)


# ---- files


def test_files(found, tmp_path):
    found.save(tmp_path / "identified.json")
    data = json.loads((tmp_path / "identified.json").read_text())
    assert data["base_parameters"][0]["combination"] == "rod_1.mcx" and data["prediction"]["on"] == "validation"
    again = read_parameters(tmp_path / "identified.json")
    assert again["rod_2.mass"] == found.parameters["rod_2.mass"] and again["rod_2.inertia"].shape == (3, 3)
    write_report(found, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 3 and "rod_2.Iyy" in page and "http" not in page
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(FileError, match="no identification"):
        read_parameters(tmp_path / "other.json")


# ---- errors


def test_a_joint_that_stands_still_is_named(robot, true):
    whole = log(true)
    still = Log.of(robot, whole.t, whole.q * [1.0, 0.0], whole.tau)
    with pytest.raises(ControlError, match=r"joint elbow does not move; so elbow.damping, elbow.friction cannot"):
        identify(robot, still)


def test_too_little_excitation_names_the_parameters(robot):
    # one frequency, both joints alike: combinations stay open
    t = 0.002 * np.arange(5000)
    q = np.stack([np.sin(3.0 * t), 0.0 * t], axis=1) + 1e-3 * np.sin(3.0 * t)[:, None]
    v, a = np.gradient(q, 0.002, axis=0), np.gradient(np.gradient(q, 0.002, axis=0), 0.002, axis=0)
    tau = robot.inverse_dynamics(q, v, a)
    with pytest.raises(ControlError, match=r"does not excite every parameter .*(rod|elbow|shoulder)"):
        identify(robot, Log.of(robot, t, q, tau), cutoff=5.0, terms=("inertia", "damping", "armature", "offset"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda t, q, tau: (t, np.where(np.arange(len(t))[:, None] == 7, np.nan, q), tau),
            r"q of joint 'shoulder' is nan in row 7",
        ),
        (lambda t, q, tau: (np.where(np.arange(len(t)) == 9, t + 5e-4, t), q, tau), "sampling is not uniform"),
        (lambda t, q, tau: (np.where(np.arange(len(t)) > 9, t + 1.0, t), q, tau), "no samples from"),
        (lambda t, q, tau: (t[::-1], q, tau), "must increase"),
        (lambda t, q, tau: (t, q[:, :1], tau), r"q has shape \(5000, 1\), expected \(5000, 2\)"),
        (lambda t, q, tau: (t[:9], q[:9], tau[:9]), "at least 50 samples"),
    ],
)
def test_wrong_logs(robot, true, change, message):
    whole = log(true)
    with pytest.raises(ControlError, match=message):
        Log.of(robot, *change(whole.t, whole.q, whole.tau))


def test_wrong_options(robot, true):
    for options, message in (
        ({"confidence": 95.0}, "between 0 and 1"),
        ({"cutoff": 400.0}, "cut-off must be positive and at most"),
        ({"stick_speed": [0.1] * 3}, "one for each of 2 joints"),
        ({"spread": 0.0}, "spread must be positive"),
        ({"total_mass": -1.0}, "total mass must be positive"),
    ):
        with pytest.raises(ControlError, match=message):
            identify(robot, log(true), **options)
