"""What is no number, of a wrong shape or without sense: one sentence each, or a frozen lane whose neighbours keep their bits."""

from typing import Any

import numpy as np
import pytest
from simulate.bodies import (
    BOX,
    HALF,
    REST,
    a_box,
    a_pendulum,
    a_slider,
    a_sphere,
    box_on,
    light_feet,
    random_drops,
    simulation,
    upright,
)

import condyle as cd
from condyle.errors import CondyleError, SimulationError
from condyle.robot.urdf import read_urdf

NOT_NUMBERS = (np.nan, np.inf, -np.inf)
GROUND = cd.Plane(0.5)
LANES = 37  # no multiple of the lanes of any processor
BAD = (0, 5, 18, 36)


def feet(**options: Any) -> cd.Simulation:
    return simulation(light_feet(), 1e-3, GROUND, ("foot0", "foot1", "foot2", "foot3"), wrenches=("torso",), **options)


def states(s: cd.Simulation, count: int = LANES) -> np.ndarray:
    rng = np.random.default_rng(7)
    q = np.tile(s.robot.neutral(), (count, 1))
    q[:, 2] = rng.uniform(0.15, 0.25, count)
    return s.state(q, rng.uniform(-0.5, 0.5, (count, s.robot.nv)))


# -- numbers


@pytest.mark.parametrize("value", NOT_NUMBERS)
@pytest.mark.parametrize("where", ("the state", "the control", "the wrench"))
@pytest.mark.parametrize("call", ("step", "rollout"))
def test_a_number_that_is_none_is_named(value: float, where: str, call: str) -> None:
    s = feet()
    arrays = {"the state": states(s), "the control": np.zeros((LANES, 2, s.nu)), "the wrench": np.zeros((LANES, 1, 6))}
    spot = (5, *(n - 1 for n in arrays[where].shape[1:]))
    arrays[where][spot] = value
    x, u, wrenches = arrays.values()
    with pytest.raises(SimulationError, match=f"^light_feet: entry .* of {where} is {value}; pass finite numbers") as error:
        s.step(x, u[:, -1], wrenches=wrenches) if call == "step" else s.rollout(x, u, wrenches=wrenches)
    # the place is that in the array that was passed
    expected = spot if call == "rollout" or where != "the control" else (spot[0], spot[-1])
    assert f"[{', '.join(map(str, expected))}]" in str(error.value)


@pytest.mark.parametrize("value", NOT_NUMBERS)
@pytest.mark.parametrize("entry", (0, 4, 7, 11, 17))  # position, quaternion, joint, velocities
def test_a_frozen_lane_stays_and_its_neighbours_keep_their_bits(value: float, entry: int) -> None:
    s = feet()
    x, us = states(s), np.zeros((5, s.nu))
    clean_step, clean_run = s.step(x), s.rollout(x, us)
    bad = x.copy()
    bad[BAD, entry] = value
    others = np.setdiff1d(np.arange(LANES), BAD)
    for found, clean in ((s.step(bad, freeze=True), clean_step), (s.rollout(bad, us, freeze=True), clean_run)):
        assert s.status is not None
        assert np.array_equal(np.flatnonzero(~s.status.ok), BAD)
        assert found[others].tobytes() == clean[others].tobytes()
        last = found if found.ndim == 2 else found[:, -1]
        np.testing.assert_array_equal(last[list(BAD)], bad[list(BAD)])
    # the lanes that go on do so as if they were alone
    np.testing.assert_array_equal(s.step(x[others]), clean_step[others])


def test_controls_and_wrenches_freeze_their_own_lane() -> None:
    s = feet()
    x = states(s)
    u, wrenches = np.zeros((LANES, s.nu)), np.zeros((LANES, 1, 6))
    clean = s.step(x, u, wrenches=wrenches)
    u[5, 1], wrenches[18, 0, 3] = np.nan, np.inf
    found = s.step(x, u, wrenches=wrenches, freeze=True)
    assert np.array_equal(np.flatnonzero(~s.status.ok), [5, 18])
    others = np.setdiff1d(np.arange(LANES), [5, 18])
    assert found[others].tobytes() == clean[others].tobytes()
    assert found[[5, 18]].tobytes() == x[[5, 18]].tobytes()


def test_a_lane_that_goes_bad_on_the_way_stays_where_it_was() -> None:
    s = feet()
    x, us = states(s, 3), np.zeros((3, 20, s.nu))
    us[1, 12] = np.nan
    found = s.rollout(x, us, freeze=True)
    np.testing.assert_array_equal(s.status.ok, [True, False, True])
    clean = s.rollout(x, np.zeros((20, s.nu)))
    assert found[[0, 2]].tobytes() == clean[[0, 2]].tobytes()
    np.testing.assert_array_equal(found[1, :13], clean[1, :13])
    np.testing.assert_array_equal(found[1, 13:], np.broadcast_to(found[1, 12], (8, s.nx)))


def test_numbers_too_large_are_an_error_and_freeze() -> None:
    s = box_on(GROUND, 1e-3)
    x = s.state(upright(np.full(3, HALF - REST)))
    x[1, 7:] = 1e200
    with pytest.raises(SimulationError, match=r"^box: the step of state \[1\] .*; take a smaller dt"):
        s.step(x)
    found = s.step(x, freeze=True)
    np.testing.assert_array_equal(s.status.ok, [True, False, True])
    assert found[[0, 2]].tobytes() == s.step(x[[0, 2]]).tobytes()


def test_a_quaternion_of_another_length_is_refused() -> None:
    s = box_on(GROUND, 1e-3)
    q = upright(1.0)
    q[6] = 1.1
    with pytest.raises(SimulationError, match="of joint 'root_joint' in q must have length 1"):
        s.state(q)


# -- shapes


@pytest.mark.parametrize(
    "call, sentence",
    [
        (lambda s: s.step(np.zeros(3)), "x must have 23 entries in its last axis"),
        (lambda s: s.step(np.zeros(())), "x must have 23 entries"),
        (lambda s: s.step(s.state(), np.zeros(3)), "u must have 4 entries"),
        (lambda s: s.rollout(s.state(), np.zeros(4)), r"us must have the shape \(..., steps, 4\)"),
        (lambda s: s.rollout(s.state(), np.zeros((0, 4))), r"us must have the shape \(..., steps, 4\)"),
        (lambda s: s.rollout(s.state(), np.zeros((5, 3))), "us must have 4 entries"),
        (lambda s: s.step(s.state(), wrenches=np.zeros(6)), r"wrenches must have the shape \(..., 1, 6\)"),
        (lambda s: s.step(s.state(), wrenches=np.zeros((2, 6))), r"wrenches must have the shape \(..., 1, 6\)"),
        (lambda s: s.state(np.zeros(5)), "q must have 11 entries"),
        (lambda s: s.state(v=np.zeros(5)), "v must have 10 entries"),
        (lambda s: s.split(np.zeros(5)), "x must have 23 entries"),
        (lambda s: s.energy(np.zeros(5)), "x must have 23 entries"),
    ],
    ids=range(12),
)
def test_shapes_are_named(call: Any, sentence: str) -> None:
    s = feet()
    assert (s.nx, s.nu) == (21, 4) or s.nx == 23
    with pytest.raises(SimulationError, match=sentence.replace("23", str(s.nx))):
        call(s)


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.step(np.zeros((2, s.nx)), np.zeros((3, s.nu))),
        lambda s: s.rollout(np.zeros((2, s.nx)), np.zeros((3, 4, s.nu))),
        lambda s: s.step(["a"] * s.nx),
        lambda s: s.step([[0.0], [0.0, 1.0]]),
    ],
    ids=("batches", "batches of rollouts", "letters", "ragged"),
)
def test_what_does_not_fit_is_one_of_our_errors(call: Any) -> None:
    with pytest.raises(CondyleError):
        call(feet())


# -- options


BOX_ROBOT = a_box(BOX)


@pytest.mark.parametrize(
    "options, sentence",
    [
        ({"dt": 0.0}, "Simulation: dt must be greater than zero, got 0.0"),
        ({"dt": -1e-3}, "dt must be greater than zero"),
        ({"dt": np.nan}, "dt must be a finite number, got nan"),
        ({"dt": np.inf}, "dt must be a finite number, got inf"),
        ({"dt": "fast"}, "dt must be a finite number, got 'fast'"),
        ({"integrator": "magic"}, "the integrator must be one of semi_implicit_euler, .*; got 'magic'"),
        ({"integrator": 3}, "the integrator must be one of"),
        ({"substeps": 0}, "substeps must be a whole number from 1 up"),
        ({"substeps": 1.5}, "substeps must be a whole number from 1 up"),
        ({"substeps": np.nan}, "substeps must be a finite number"),
        ({"cone": "square"}, "the cone must be \"round\" or the number of directions of a pyramid, 3 to 32; got 'square'"),
        ({"cone": 2}, "the cone must be"),
        ({"cone": 33}, "the cone must be"),
        ({"cone": 4.5}, "the cone must be"),
        ({"cone": True}, "the cone must be"),
        ({"cone": None}, "the cone must be"),
        ({"cone": np.nan}, "the cone must be"),
        ({"smoothing": 0.0}, "smoothing must be greater than zero"),
        ({"smoothing": -1.0}, "smoothing must be greater than zero"),
        ({"smoothing": np.nan}, "smoothing must be a finite number"),
        ({"rest_depth_mm": 0.0}, "rest_depth_mm must be greater than zero"),
        ({"rest_depth_mm": np.inf}, "rest_depth_mm must be a finite number"),
        ({"recovery_time": 0.0}, "recovery_time must be greater than zero"),
        ({"recovery_time": np.inf}, "recovery_time must be a finite number"),
        ({"limit_depth": -0.1}, "limit_depth must be greater than zero"),
        ({"contacts": "foot"}, "robot 'box' has no link, collision shape or frame 'foot'"),
        ({"contacts": ["box", "nothing*"]}, "robot 'box' has no link, collision shape or frame 'nothing"),
        ({"contacts": []}, "is empty"),
        ({"contacts": {"box": -1.0}}, "radius must not be negative"),
        ({"contacts": {"box": np.nan}}, "radius must be a finite number"),
        ({"contacts": 3}, "a contact must be a name or a ContactPoint"),
    ],
    ids=str,
)
def test_options_without_sense(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(SimulationError, match=sentence):
        cd.Simulation(BOX_ROBOT, options.pop("dt", 1e-3), GROUND, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"wrenches": ["nothing"]},
        {"actuated": ["nothing"]},
        {"springs": {"nothing": (1.0, 0.0)}},
        {"springs": {"root_joint": (1.0, 0.0)}},
        {"springs": {"slide0": (-1.0, 0.0)}},
        {"springs": {"slide0": (np.nan, 0.0)}},
        {"springs": {"slide0": (1.0, np.nan)}},
        {"springs": {"slide0": 1.0}},
        {"force": lambda model, q, v: v[:2]},
        {"force": 3},
        {"ground": 3},
        {"ground": "plane"},
        {"threads": -1},
        {"threads": 1.5},
    ],
    ids=lambda options: next(iter(options)),
)
def test_what_else_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(CondyleError):
        s = cd.Simulation(light_feet(), 1e-3, **{"ground": GROUND, "contacts": "foot*", **options})
        s.step(s.state())


def test_a_robot_that_cannot_move() -> None:
    from condyle.robot.description import Description
    from condyle.robot.parts import body, link

    with pytest.raises(SimulationError, match="has no joint that moves"):
        cd.Simulation(cd.load(Description("rock", (link("rock", body(1.0)),), ())))


def test_a_robot_without_mass() -> None:
    text = '<robot name="ghost"><link name="a"/><link name="b"><visual><origin xyz="1 0 0"/><geometry>'
    text += '<sphere radius="0.1"/></geometry></visual></link><joint name="j" type="continuous">'
    text += '<origin xyz="0.5 0 0"/><parent link="a"/><child link="b"/><axis xyz="0 1 0"/></joint></robot>'
    for ground in (None, GROUND):
        with pytest.raises(SimulationError, match=r"^robot 'ghost' has no mass: .*doctor FILE --fix` estimate"):
            cd.Simulation(cd.load(read_urdf(text, "ghost.urdf")), 1e-3, ground)


def test_a_body_without_motors() -> None:
    # nothing to control is no reason not to fall
    for s in (cd.Simulation(a_sphere(), 1e-3, GROUND), cd.Simulation(a_slider(), 1e-3, actuated=())):
        assert s.nu == 0
        x = s.state()
        assert s.step(x).shape == (s.nx,)
        assert s.rollout(x, np.zeros((3, 0))).shape == (4, s.nx)
        _, A, B = s.step(x, derivatives=True)
        assert A.shape == (s.ndx, s.ndx)
        assert B.shape == (s.ndx, 0)


def test_wrenches_that_nobody_asked_for() -> None:
    s = simulation(a_pendulum(), 1e-3)
    with pytest.raises(SimulationError, match="this simulation takes no wrenches"):
        s.step(s.state(), wrenches=np.zeros((1, 6)))


def test_many_lanes_of_nonsense_do_no_harm() -> None:
    s = box_on(GROUND, 1e-3)
    rng = np.random.default_rng(0)
    q, v = random_drops(rng, 500)
    x = s.state(q, v)
    clean = s.step(x)
    bits = rng.integers(0, 2**64, (200, s.nx), dtype=np.uint64).view(np.float64)
    mixed = np.insert(x, rng.integers(0, 500, 200), bits, axis=0)
    found = s.step(mixed, freeze=True)
    good = np.array([any(row.tobytes() == one.tobytes() for one in x) for row in mixed])
    assert good.sum() == 500
    assert found[good].tobytes() == clean.tobytes()


def test_the_status_is_there_after_an_error() -> None:
    world = cd.Simulation(cd.load("double_pendulum"))
    x = np.tile(world.state(), (3, 1))
    world.step(x)
    x[1, 0] = np.nan
    with pytest.raises(cd.SimulationError):
        world.step(x)
    assert world.status is not None and world.status.ok.tolist() == [True, False, True]
