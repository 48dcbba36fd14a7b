"""Every function of a robot: numbers that are too large or not numbers are an error or a flag, and wrong types are a sentence."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.constraints.reduced_dynamics import FRAME_FUNCTIONS, ROBOT_FUNCTIONS, SIZES
from condyle.robot.description import Description
from condyle.robot.parts import body, joint, link

# the Jacobian of the centre of mass has no method
FUNCTIONS = {
    name: function for name, function in (ROBOT_FUNCTIONS | FRAME_FUNCTIONS).items() if name != "center_of_mass_jacobian"
}
SPOILED = (1e300, -1e300, 1e160, np.nan, np.inf, -np.inf)
WRONG: list[Any] = [None, "abc", b"abc", {}, {"a": 1}, set(), [[1, 2], [3]], 1 + 2j, object(), lambda: 0, np.zeros(2), 3]
WRONG += [["x"] * 6, [None] * 6, np.full(6, "x"), np.full(6, True), np.full(6, "2020-01-01", dtype="M8[D]"), np.zeros((2, 3))]


@cache
def robot(name: str) -> cd.Robot:
    """An arm, a body that flies, or a slide that carries a hinge and a slide."""
    if name != "slides":
        return cd.load(name)
    bodies = [link("base"), *[link(f"l{k}", body(1.0 + k, (0.1, 0.2, 0.1 * k), (0.1, 0.1, 0.1))) for k in range(3)]]
    axes = {"prismatic": (0.6, 0.0, 0.8), "continuous": (0.0, 0.6, 0.8)}
    kinds = ["prismatic", "continuous", "prismatic"]
    joints = [joint(f"j{k}", kind, bodies[k].name, f"l{k}", axis=axes[kind]) for k, kind in enumerate(kinds)]
    return cd.load(Description("slides", tuple(bodies), tuple(joints)))


def call(name: str, of: cd.Robot, arrays: list[Any], **options: Any) -> Any:
    """A function of a robot, of its last frame if it is one of frames."""
    return getattr(of, name)(*arrays, *([of.frame_names[-1]] if name in FRAME_FUNCTIONS else []), **options)


def good(name: str, of: cd.Robot) -> list[np.ndarray]:
    """One valid state for a function."""
    rng = np.random.default_rng(5)
    sizes = {n: SIZES[n](of.system) for n in FUNCTIONS[name].inputs}
    return [of.random_configuration(rng) if n.startswith("q") else rng.normal(size=size) for n, size in sizes.items()]


def all_finite(results: Any) -> bool:
    return all(np.all(np.isfinite(x)) for x in (results if isinstance(results, tuple) else (results,)))


@pytest.mark.parametrize("of", ["ur3", "slides", "birotor"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_result_that_is_not_finite_comes_back_without_an_error(name: str, of: str) -> None:
    subject = robot(of)
    arrays = good(name, subject)
    assert all_finite(call(name, subject, arrays))
    batches: list[list[np.ndarray]] = []
    for k, array in enumerate(arrays):
        for value in SPOILED:
            for entry in range(len(array)):
                spoiled = [a.copy() for a in arrays]
                spoiled[k][entry] = value
                batches.append(spoiled)
    stacked = [np.array([row[k] for row in batches]) for k in range(len(arrays))]
    *results, ok = call(name, subject, stacked, mask=True)
    rows_finite = np.all([np.isfinite(x.reshape(len(batches), -1)).all(axis=1) for x in results], axis=0)
    assert not np.any(ok & ~rows_finite), "flagged where a result is not finite"
    given_finite = np.all([np.isfinite(x).all(axis=1) for x in stacked], axis=0)
    assert not np.any(ok & ~given_finite), "flagged where an input is not finite"
    # one call each way, for one state: the quick way and the general one give the same sentence
    for row in np.flatnonzero(~ok)[:: max(1, int((~ok).sum() / 4))]:
        with pytest.raises(
            cd.RobotError, match=r"is (nan|inf|-inf); pass finite|the inputs are finite and the result is not|length 1"
        ):
            call(name, subject, batches[row])
    assert all_finite(call(name, subject, arrays))


@pytest.mark.parametrize("precision", [np.float64, np.float32])
def test_matrices_of_numbers_that_are_too_large_are_an_error(precision: type) -> None:
    arm, q = robot("ur3"), np.zeros(6, precision)
    large = q.copy()
    large[2] = 1e300 if precision is np.float64 else 1e30
    for result in (arm.mass_matrix, arm.inverse_mass_matrix, lambda q: arm.jacobian(q, "tool")):
        with pytest.raises(cd.RobotError, match="too large"):
            result(large)
    with pytest.raises(cd.RobotError, match="too large"):
        arm.coriolis_matrix(q, large)
    with pytest.raises(cd.RobotError, match="too large"):
        arm.forward_dynamics_derivatives(q, large, q)
    assert arm.mass_matrix(q).dtype == precision


def test_what_divides_by_zero_in_a_matrix_is_an_error() -> None:
    # nothing with inertia beyond the last joint
    light = Description("light", (link("base"), link("a", body(1.0, (0.1, 0.0, 0.0), (0.1, 0.1, 0.1))), link("b")), (
        joint("j0", "continuous", "base", "a"), joint("j1", "continuous", "a", "b"),
    ))  # fmt: skip
    try:
        subject = cd.load(light)
    except cd.RobotError:
        return
    with pytest.raises(cd.RobotError, match="moves nothing that has inertia"):
        subject.inverse_mass_matrix(np.zeros(2))
    with pytest.raises(cd.RobotError, match="moves nothing that has inertia"):
        subject.forward_dynamics_derivatives(*np.zeros((3, 2)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrong_types_are_a_sentence(name: str) -> None:
    arm = robot("ur3")
    for k in range(len(FUNCTIONS[name].inputs)):
        for wrong in WRONG:
            arrays: list[Any] = list(good(name, arm))
            arrays[k] = wrong
            with pytest.raises(cd.CondyleError):
                call(name, arm, arrays)


NAMES: list[Any] = [None, 3, 3.5, ["tool"], ("tool",), {}, {"tool"}, np.zeros(2), b"tool", "nosuch", object(), slice(3), True]


@pytest.mark.parametrize("name", FRAME_FUNCTIONS)
def test_frames_and_references_that_are_no_names_are_a_sentence(name: str) -> None:
    arm = robot("ur3")
    for wrong in NAMES:
        with pytest.raises(cd.RobotError, match="frame"):
            getattr(arm, name)(*good(name, arm), wrong)
        if name != "frame_pose":
            with pytest.raises(cd.RobotError, match="the reference must be one of"):
                getattr(arm, name)(*good(name, arm), "tool", wrong)


CALLS: dict[str, tuple[Callable[[cd.Robot, Any], Any], list[Any]]] = {
    "wrenches": (lambda r, x: r.forward_dynamics(*np.zeros((3, 6)), x), [3, "x", [1], object(), np.zeros(6), {3: np.zeros(6)}]),
    "wrench": (lambda r, x: r.inverse_dynamics(*np.zeros((3, 6)), {"tool": x}), ["x", None, np.zeros(3), {}]),
    "axes": (lambda r, x: r.forward_dynamics(*np.zeros((3, 6)), {("tool", x): np.zeros(6)}), ["nosuch", 3, None]),
    "backend": (lambda r, x: r.mass_matrix(np.zeros(6), backend=x), [3, None, "nosuch", "mpfr:x", []]),
    "threads": (lambda r, x: r.mass_matrix(np.zeros(6), threads=x), ["x", -1, 0, 1.5]),
    "out": (lambda r, x: r.mass_matrix(np.zeros(6), out=x), [3, "x", {}, (), [3], np.zeros(3), [np.zeros(6)]]),
    "q_slice": (lambda r, x: r.q_slice(x), WRONG),
    "v_slice": (lambda r, x: r.v_slice(x), WRONG),
    "lock": (lambda r, x: r.lock(x), [x for x in WRONG if x is not None] + [None]),
    "lock at": (lambda r, x: r.lock(r.joint_names[0], x), WRONG[1:]),
    "parameter": (lambda r, x: r.parameter(x), WRONG),
    "function": (lambda r, x: r.function(x), [x for x in WRONG if not callable(x)]),
    "random": (lambda r, x: r.random_configuration(x), WRONG),
    "count": (lambda r, x: r.random_configuration(np.random.default_rng(0), x), ["x", -1, 1.5, []]),
    "ik frame": (lambda r, x: r.inverse_kinematics(x, np.zeros(3)), NAMES),
    "ik q0": (lambda r, x: r.inverse_kinematics("tool", np.zeros(3), x), [x for x in WRONG if x is not None]),
    "couple": (lambda r, x: r.couple(x, x), WRONG),
    "couple to": (lambda r, x: r.couple(r.joint_names[0], x), WRONG),
    "close_loop": (lambda r, x: r.close_loop(x, x), WRONG),
    "full": (lambda r, x: r.full(x), [x for x in WRONG if not (isinstance(x, int) or np.shape(np.asarray(x, object)) != ())]),
    "load": (lambda r, x: cd.load(x), [None, 3, [], object()]),
}


@pytest.mark.parametrize("what", CALLS)
def test_other_arguments_of_a_wrong_type_are_a_sentence(what: str) -> None:
    function, wrong = CALLS[what]
    for x in wrong:
        with pytest.raises(cd.CondyleError):
            function(robot("ur3"), x)
            pytest.fail(f"{what} takes {x!r}")
