"""The quick way for one state takes whole float64 arrays of the right shapes, and nothing else, and has the same bits."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import condyle as cd
from condyle.tape import native


def double(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return 2.0 * x + y[0]


@pytest.fixture
def function() -> cd.Function:
    return cd.function(double, x=3, y=(2, 3))


def call_of(function: cd.Function) -> native.Callable:  # type: ignore[name-defined]
    found = native.native_call(function.kernel(), function.tape, guarded=False)
    assert found is not None, "objects are laid out in another way here: the quick way is switched off"
    return found


X, Y = np.array([1.0, 2.0, 3.0]), np.arange(6.0).reshape(2, 3)


def test_it_gives_a_new_array_with_the_bits_of_the_long_way(function: cd.Function) -> None:
    call = call_of(function)
    first = call((X, Y))
    assert np.array_equal(first, function.on("reference")(X, Y)) and first.flags.owndata
    second = call((X + 1.0, Y))
    assert np.array_equal(first, 2.0 * X + Y[0]) and np.array_equal(second, 2.0 * (X + 1.0) + Y[0])


@pytest.mark.parametrize(
    "arguments",
    [
        (X,),
        (X, Y, X),
        (X.tolist(), Y),
        (X.astype(np.float32), Y),
        (X.astype(">f8"), Y),
        (X[:2], Y),
        (X, Y.T),
        (X, Y[:, ::-1]),
        (X[None], Y),
        (np.zeros(6)[::2], Y),
        (X, np.asfortranarray(Y)),
        (np.ma.masked_array(X), Y),
        (None, Y),
        (1.0, Y),
        (),
    ],
)
def test_anything_else_is_left_alone(function: cd.Function, arguments: tuple[object, ...]) -> None:
    assert call_of(function)(arguments) is None


def test_not_even_a_tuple(function: cd.Function) -> None:
    call = call_of(function)
    assert call([X, Y]) is None and call(None) is None and call(7) is None  # type: ignore[arg-type]


def test_none_is_not_used_up(function: cd.Function) -> None:
    import sys

    call, before = call_of(function), sys.getrefcount(None)
    for _ in range(1000):
        call((None, Y))
    assert abs(sys.getrefcount(None) - before) < 100


def test_the_long_way_takes_what_the_quick_one_does_not(function: cd.Function) -> None:
    function(X, Y)
    assert np.array_equal(function(np.repeat(X, 2)[::2], np.asfortranarray(Y)), 2.0 * X + Y[0])
    assert np.array_equal(function(X.tolist(), Y), 2.0 * X + Y[0])


def test_a_robot_says_what_is_wrong_as_before() -> None:
    robot = cd.load("wheeled_pendulum")
    q, v = robot.neutral(), np.zeros(robot.nv)
    for _ in range(3):
        robot.forward_dynamics(q, v, v)
    with pytest.raises(cd.RobotError, match="nan"):
        robot.forward_dynamics(q, v, np.full(robot.nv, np.nan))


def test_it_goes_when_its_function_goes() -> None:
    function = cd.function(lambda x: x * 3.0, x=3)
    call = call_of(function)
    kernel = weakref.ref(function.kernel())
    del function
    gc.collect()
    assert kernel() is not None and np.array_equal(call((X,)), X * 3.0)
    del call
    gc.collect()
    assert kernel() is None


def test_threads_do_not_meet(function: cd.Function) -> None:
    call, wrong = call_of(function), []

    def work(k: int) -> None:
        x = X + k
        for _ in range(2000):
            if not np.array_equal(call((x, Y)), 2.0 * x + Y[0]):
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_it_is_off_where_objects_look_different(function: cd.Function, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_as_expected", lambda: False)
    assert native.native_call(function.kernel(), function.tape, guarded=False) is None
    assert np.array_equal(function(X, Y), 2.0 * X + Y[0])
