"""Searches: gradients against differences, the same result for the same seed, and scores that fall."""

import numpy as np
import pytest
from apps.lab.experiments import small

from condyle.apps.lab.metrics import metrics
from condyle.apps.lab.run import run_experiment
from condyle.apps.lab.tune import Objective, SmoothScore, smooth_score, tune, variable
from condyle.errors import ControlError

SHORT = {"seconds": 1.0, "warm_up": 0.02}


@pytest.fixture(scope="module")
def soft():
    """An experiment whose gains are too small."""
    return small(
        controller={"name": "pid", "kp": [20.0, 10.0], "kd": [0.4, 0.2]},
        reference={"kind": "step", "target": [0.4, -0.1]},
        sensors=None,
        actuators=None,
        wrenches=[],
        friction=None,
    )


def test_the_gradient_of_the_smooth_score_is_that_of_differences():
    rng = np.random.default_rng(0)
    r = np.linspace(0.0, 1.0, 30)[:, None] * np.array([0.3, -0.2]) + 0.1
    q, v = r + 0.05 * rng.normal(size=r.shape), rng.normal(size=r.shape)
    _, dq, dv = smooth_score(r, q, v, 0.01, r[0])
    for k in ((3, 0), (29, 1), (28, 0)):
        step = np.zeros_like(q)
        step[k] = 1e-6
        assert dq[k] == pytest.approx(
            (smooth_score(r, q + step, v, 0.01, r[0])[0] - smooth_score(r, q - step, v, 0.01, r[0])[0]) / 2e-6, rel=1e-4, abs=1e-6
        )
        assert dv[k] == pytest.approx(
            (smooth_score(r, q, v + step, 0.01, r[0])[0] - smooth_score(r, q, v - step, 0.01, r[0])[0]) / 2e-6, rel=1e-4, abs=1e-6
        )


def test_the_gradient_through_the_loop_is_that_of_differences(soft):
    setup = soft.setup()
    of = Objective(soft, [variable(setup, "controller.kp[*]"), variable(setup, "controller.kd")], 0.2, 0.02)
    smooth, x = SmoothScore(of), np.array([[1.3, 0.8, 1.1]])
    _, gradient = smooth(x)
    for k in range(3):
        d = np.zeros((1, 3))
        d[0, k] = 1e-5
        assert gradient[0, k] == pytest.approx((smooth(x + d)[0][0] - smooth(x - d)[0][0]) / 2e-5, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("method", ["grid", "optuna", "gradient"])
def test_each_method_makes_the_score_smaller_and_repeats(soft, method):
    pytest.importorskip("optuna") if method == "optuna" else None
    first, again = (tune(soft, ["controller.kp", "controller.kd"], method=method, trials=12, **SHORT) for _ in range(2))
    assert first.score < 0.9 * first.start and first.trials == again.trials
    assert first.trials[0].factors == (1.0, 1.0) and first.history()[-1] == first.score
    kp = first.values["controller.kp"]
    assert kp[0] / 20.0 == pytest.approx(kp[1] / 10.0) and first.tuned.controller.options["kp"] == kp


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("controller.kpp", "no parameter of the loop.*did you mean 'controller.kp'"),
        ("controller.kp=3", "range is written"),
        ("controller.kp=3:1", "0 < low < high"),
        ("controller.ki", "is zero in the file"),
    ],
)
def test_wrong_parameters_are_one_sentence(soft, text, sentence):
    with pytest.raises(ControlError, match=sentence):
        tune(soft, [text], method="grid")


def test_wrong_methods_are_one_sentence(soft):
    with pytest.raises(ControlError, match="did you mean 'grid'"):
        tune(soft, ["controller.kp"], method="gridd")
    with pytest.raises(ControlError, match="more than 12"):
        tune(soft, [f"controller.{name}[*]" for name in ("kp", "kd")], method="grid", trials=12)


def test_the_smooth_score_of_a_reference_that_turns_back():
    """Close to the score itself, with the gradient of differences."""
    t = 0.01 * np.arange(150)
    r = 0.3 * np.sin(np.pi * t)[:, None] * np.array([1.0, -0.5])
    q = r * 1.1 + 0.01 * np.random.default_rng(0).normal(size=r.shape)
    v = np.gradient(q, 0.01, axis=0)
    value, dq, _ = smooth_score(r, q, v, 0.01, r[0])
    # the soft maximum is less than the maximum, by up to the logarithm of how many numbers it has
    assert 0.0 < metrics(t, r, q, velocity=v)["score"] - value < 40.7 * np.log(2.0 * r.size) / 200.0
    for k in ((np.argmax(q[:, 0]), 0), (np.argmin(q[:, 1]), 1), (20, 0)):
        step = np.zeros_like(q)
        step[k] = 1e-7
        difference = (smooth_score(r, q + step, v, 0.01, r[0])[0] - smooth_score(r, q - step, v, 0.01, r[0])[0]) / 2e-7
        assert dq[k] == pytest.approx(difference, rel=1e-4, abs=1e-6)


def test_a_search_runs_as_long_as_the_file_says(soft):
    """Duration and warm-up of the experiment, unless others are given."""
    own = soft.with_values({"duration": 0.3, "warm_up": 0.05})
    one, other = (
        tune(e, ["controller.kp"], method="grid", trials=3, **given)
        for e, given in ((own, {}), (soft, {"seconds": 0.3, "warm_up": 0.05}))
    )
    assert one.trials == other.trials and one.trials != tune(soft, ["controller.kp"], method="grid", trials=3).trials
    assert one.start == run_experiment(own).metrics["score"]
