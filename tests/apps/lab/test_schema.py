"""Files of experiments: what is wrong is one sentence with table and key."""

import tomllib

import pytest
from apps.lab.experiments import DATA, small
from hypothesis import given
from hypothesis import strategies as st

from condyle.apps.lab.experiment import Experiment
from condyle.apps.lab.experiment_data import toml_data
from condyle.apps.lab.toml_text import STARTING_FILE, toml_text
from condyle.errors import ControlError


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"durration": 1.0}, r"has no key 'durration' \(did you mean 'duration'\?\)"),
        ({"duration": -1.0}, r"duration must be a number above 0 up to 100000 \(s\), got '-1.0'"),
        ({"duration": "3"}, "duration must be a number"),
        ({"duration": 0.0011}, "whole number of updates"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"seed": True}, "seed must be a whole number"),
        ({"rates": {"physics": 1000, "control": 300}}, r"\[rates\] control must divide physics"),
        ({"rates": {"fysics": 1000}}, r"\[rates\] has no key 'fysics' \(did you mean 'physics'\?\)"),
        ({"rates": 3}, "rates must be a table"),
        ({"controller": {"name": "pidd"}}, r"\[controller\] name 'pidd' is not known \(did you mean 'pid'\?\)"),
        ({"controller": {"name": "pid", "rate": "slow"}}, r"\[controller\] rate must be one of control, planner, got 'slow'"),
        ({"friction": {"static": 1.0, "smooth_speed": 0.1}}, r"\[friction\] static has no use with smooth_speed"),
        ({"sensors": {"dropout": 1.5}}, r"\[sensors\] dropout must be a number from 0 up to 1, got '1.5'"),
        ({"sensors": {"position_noise": [0.1, "x"]}}, r"\[sensors\] position_noise must be a number, or a list"),
        ({"reference": {"kind": "stepp"}}, r"\[reference\] kind must be one of .*did you mean 'step'"),
        ({"reference": {"kind": "step"}}, r"\[reference\] target is missing"),
        ({"reference": {"kind": "hold", "speed": 1.0}}, r"\[reference\] speed has no use for the kind 'hold'"),
        (
            {"reference": {"kind": "point_to_point", "waypoints": [[1, 2], [1]]}},
            r"\[reference\] waypoints must be a list of points",
        ),
        (
            {"reference": {"kind": "point_to_point", "waypoints": [[1, 2]], "profile": "jerk_limited"}},
            r"\[reference\] jerk is missing",
        ),
        ({"flexibility": {"stiffness": 100.0}}, r"\[flexibility\] motor_inertia must be .* and is missing"),
        ({"wrenches": [{"name": "p q", "wrench": [0] * 6}]}, r"\[wrenches\] name must be letters"),
        ({"wrenches": [{"name": "push", "wrench": [0] * 5}]}, r"\[wrenches\] wrench must be a list of 6 numbers"),
        ({"wrenches": [{"name": "push"}]}, r"\[wrenches\] wrench is missing"),
        ({"wrenches": [{"name": "wall", "wrench": [0] * 6}]}, r"\[wrenches\] name 'wall' is taken"),
        ({"wrenches": {"name": "push"}}, "wrenches must be a list of tables"),
        ({"robot": {"name": "ur3", "payload": {"mass": -1.0}}}, r"\[robot.payload\] mass must be"),
        ({"plant": {"wrist_3.mass": float("nan")}}, "must be a finite number"),
        ({"obstacles": [{"kind": "sphere", "radius": 0.1}]}, r"\[obstacles\] only the safety filter sees obstacles"),
        ({"safety": {}, "obstacles": [{"kind": "sphere"}]}, r"\[obstacles\] radius is missing for the kind 'sphere'"),
        ({"safety": {}, "obstacles": [{"kind": "plane", "radius": 0.1}]}, r"\[obstacles\] radius has no use"),
        ({"record": "q"}, "record must be a list of texts"),
    ],
)
def test_wrong_data_is_one_sentence(change, sentence):
    with pytest.raises(ControlError, match=sentence) as error:
        small(**change)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"controller": {"name": "computed_torque", "kpp": 3.0}},
            r"\[controller\] ComputedTorque has no option 'kpp' \(did you mean 'kp'",
        ),
        ({"controller": {"name": "computed_torque", "kp": [1.0, 2.0, 3.0]}}, r"\[controller\].*kp must be one number, or 2"),
        ({"controller": {"name": "computed_torque", "kp": -4.0}}, r"\[controller\].*kp"),
        ({"controller": {"name": "external", "kp": 4.0}}, r"\[controller\] an external controller has no options"),
        ({"robot": {"name": "double_pendulum", "q": [0.1]}}, r"\[robot\] q must be a list of 2 numbers"),
        ({"robot": {"name": "double_pendulum", "tool": "tipp"}}, r"\[robot\] tool 'tipp' is no frame .*did you mean 'tip'"),
        ({"robot": {"name": "pidog"}}, r"\[robot\] name 'pidog' has coupled joints"),
        ({"plant": {"rod_2.masss": 1.0}}, r"\[plant\] the loop has no parameter 'rod_2.masss'.*did you mean"),
        ({"reference": {"kind": "step", "target": [0.1, 0.2, 0.3]}}, r"\[reference\] target must be one number, or 2"),
        ({"reference": {"kind": "table", "path": "nosuch.csv"}}, r"\[reference\] path nosuch.csv cannot be read"),
        ({"safety": {}}, r"\[safety\] has nothing to keep away from"),
        ({"wrenches": [{"name": "p", "wrench": [0] * 6, "frame": "nose"}]}, r"\[wrenches\] frame 'nose' is no frame"),
    ],
)
def test_what_only_the_robot_shows_is_one_sentence(change, sentence):
    with pytest.raises(ControlError, match=sentence) as error:
        _ = small(**change).setup().rows
    assert "\n" not in str(error.value)


def test_a_file_that_is_no_toml_is_named_with_its_line(tmp_path):
    file = tmp_path / "bad.toml"
    file.write_text("seed = 1\nseed = = 2\n")
    with pytest.raises(ControlError, match=r"bad.toml is not valid TOML: .*line 2"):
        toml_data(file)


def test_errors_of_a_file_name_it(tmp_path):
    file = tmp_path / "exp.toml"
    file.write_text("[rates]\nphysic = 3\n")
    with pytest.raises(ControlError, match=r"exp.toml: \[rates\] has no key 'physic'"):
        Experiment.read(file)


def test_data_and_toml_give_the_experiment_back():
    made = small(plant={"rod_2.mass": 1.25})
    again = Experiment.from_data(made.data())
    assert again == made
    assert Experiment.from_data(tomllib.loads(toml_text(made.data()))) == made
    assert made.data()["plant"] == {"rod_2.mass": 1.25}


def test_the_starting_file_is_an_experiment():
    made = Experiment.from_data(tomllib.loads(STARTING_FILE.format(name="lab.toml", title="lab")))
    assert made.rates.control_ticks == 4 and made.wrenches[0].name == "push"


def test_values_at_paths():
    made = small().with_values({"controller.kp": 300.0, "wrenches.push.start": 0.05, "plant.rod_2.mass": 1.2})
    assert made.controller.options["kp"] == 300.0 and made.wrenches[0].start == 0.05 and made.plant == {"rod_2.mass": 1.2}
    with pytest.raises(ControlError, match=r"no \[\[wrenches\]\] with the name 'shove'"):
        small().with_values({"wrenches.shove.start": 0.05})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from([*DATA, "wall", "flexibility", "force_sensor", "plant", "record", "x"]), JSON)
def test_any_data_is_an_experiment_or_one_sentence(key, value):
    try:
        Experiment.from_data({**DATA, key: value})
    except ControlError as error:
        assert len(str(error)) < 1000
