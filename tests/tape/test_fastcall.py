"""The fast path for one state takes contiguous float64 arrays and numbers of the right shapes, and has the same bits."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.tape import fastcall
from condyle.tape.backends.interface import FastCall


def double(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return 2.0 * x + y[0]


@pytest.fixture
def function() -> cd.Function:
    return cd.function(double, x=3, y=(2, 3))


def call_of(function: cd.Function) -> FastCall:
    found = function.fast_call()
    assert found is not None, "objects are laid out in another way here: the fast path is switched off"
    return found


X, Y = np.array([1.0, 2.0, 3.0]), np.arange(6.0).reshape(2, 3)


def test_it_gives_a_new_array_with_the_bits_of_the_reference(function: cd.Function) -> None:
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


def test_the_general_call_takes_what_the_fast_one_does_not(function: cd.Function) -> None:
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


@pytest.mark.slow
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


def several(x: np.ndarray, h: np.ndarray) -> dict[str, np.ndarray]:
    return {"y": h * x, "n": x[0] + h, "A": np.array([x, x])}


@pytest.mark.parametrize("h", [0.5, np.float64(0.5), np.array(0.5)])
def test_several_outputs_and_single_numbers(h: object) -> None:
    function = cd.function(several, x=3, h=())
    call = call_of(function)
    result = call((X, h))
    assert result is not None and result._fields == ("y", "n", "A") and type(result.n) is np.float64
    for a, b in zip(result, function.on("reference")(X, h), strict=True):
        assert np.array_equal(a, b) and np.shape(a) == np.shape(b)
    assert call((X, 1)) is None and call((X, np.array([0.5]))) is None and call((0.5, X)) is None
    assert function(X, 2)._fields == ("y", "n", "A")


@pytest.mark.parametrize("count", [1, 2])
def test_a_check_that_is_not_zero_gives_none(count: int) -> None:
    function = cd.function(lambda x: [*[x * k for k in range(count)], x[0] - x[0]], x=3)
    call = function.fast_call(guarded=True)
    assert call is not None
    results = call((X,))
    results = (results,) if count == 1 else results
    assert type(results) is tuple and [r.tolist() for r in results] == [(X * k).tolist() for k in range(count)]
    assert call((np.array([np.nan, 1.0, 2.0]),)) is None


def test_results_are_neither_lost_nor_kept() -> None:
    import sys

    call = call_of(cd.function(several, x=3, h=()))
    kind, key, first = type(call((X, 0.5))), sys.getrefcount(()), call((X, 0.5))
    before = sys.getrefcount(kind), sys.getrefcount(float)
    for _ in range(1000):
        call((X, 0.5))
    assert abs(sys.getrefcount(kind) - before[0]) < 100 and abs(sys.getrefcount(float) - before[1]) < 100
    assert abs(sys.getrefcount(()) - key) < 100 and gc.is_tracked(first)
    array = weakref.ref(first.y)
    del first
    assert array() is None


def test_it_is_off_where_objects_look_different(function: cd.Function, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastcall, "layout_is_known", lambda: False)
    assert function.fast_call() is None
    assert np.array_equal(function(X, Y), 2.0 * X + Y[0])


def test_one_row_of_an_input_with_any_number_of_rows_goes_the_fast_way() -> None:
    def summed(x: Any, rows: Any, k: Any) -> Any:
        end, written = cd.scan(lambda i, s, row: (np.sin(s) * k + row, s - row), x, rows)
        return {"end": end, "written": written}

    function = cd.function(summed, x=3, rows=cd.Rows(None, 3), k=())
    rng = np.random.default_rng(5)
    x, rows, k = rng.normal(size=3), rng.normal(size=(1, 3)), 0.5
    slow = function(x, rows, k)
    fast = function.fast_call()
    assert fast is not None
    for a, b in zip(slow, fast((x, rows, k)), strict=True):
        assert a.shape == b.shape
        np.testing.assert_array_equal(a, b)
    # other numbers of rows take the general way
    assert fast((x, np.zeros((2, 3)), k)) is None
    assert function(x, np.zeros((2, 3)), k).written.shape == (2, 3)
