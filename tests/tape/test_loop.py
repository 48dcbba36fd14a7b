"""Loops inside a trace: fixed count, frozen lanes, rows read and written."""

import numpy as np
import pytest
from tape.random_tapes import same_bits

import condyle as cd


def test_newton_freezes_each_lane_when_it_has_converged():
    def root(a):
        def body(i, s):
            x, steps = s
            return 0.5 * (x + a / x), steps + 1.0

        return cd.loop(body, (a, 0.0), 60, until=lambda s: abs(s[0] * s[0] - a) < 1e-13 * a)

    a = np.array([1.0, 2.0, 1e6, 1e-6, 3.0, 1e12, 9.0])
    x, steps = cd.function(root, a=())(a)
    np.testing.assert_allclose(x, np.sqrt(a), rtol=1e-12)
    assert steps[0] == 0 and len(set(steps)) > 3, "lanes stop at different counts"
    for each, n in zip(a, steps, strict=True):
        assert cd.function(root, a=())(each).out1 == n


FOREVER = 10**15  # iterations that no computer has the time for


def test_a_loop_ends_when_no_lane_would_change():
    def root(a):
        return cd.loop(lambda i, y: 0.5 * (y + a / y), a, FOREVER, until=lambda y: abs(y * y - a) <= 1e-15 * a)

    f = cd.function(root, a=())
    a = np.array([2.0, 3e10, 7e-8, 0.0, 5.0, 1e20, 9.0, 1.0, 11.0])
    np.testing.assert_allclose(f(a), np.sqrt(a), rtol=1e-15)
    for g in (*[f.on("cpu", lanes=lanes) for lanes in (1, 2, 4, 8)], f.on("reference"), f.on("mpfr:53")):
        assert np.array_equal(g(a).astype(float), f(a))
    # forward derivatives end with it
    np.testing.assert_allclose(f.jvp()(a[:2], 1.0), 0.5 / np.sqrt(a[:2]), rtol=1e-12)
    np.testing.assert_allclose(f.jacobian(mode="forward").jacobian(mode="forward")(2.0), -0.25 * 2.0**-1.5, rtol=1e-9)


def counted(until):
    """A root by Heron's method and its number of steps, ended by a condition on (root, steps, a)."""

    def root(a):
        return cd.loop(lambda i, s: (0.5 * (s[0] + a / s[0]), s[1] + 1.0), (a, 0.0), 1000, until=lambda s: until(*s, a))

    return cd.function(root, a=())


def off(y, a):
    return abs(y * y - a)


CONDITIONS = {
    "le": lambda y, n, a: off(y, a) <= 1e-15 * a,
    "lt": lambda y, n, a: 1e-15 * a > off(y, a),
    "not": lambda y, n, a: ~(off(y, a) > 1e-15 * a),
    "eq": lambda y, n, a: np.maximum(off(y, a) - 1e-15 * a, 0.0) == 0.0,
    "and": lambda y, n, a: (off(y, a) <= 1e-15 * a) & (n >= 3.0),
    "or": lambda y, n, a: (off(y, a) <= 1e-15 * a) | (n >= 500.0),
    "mixed": lambda y, n, a: ~((off(y, a) > 1e-15 * a) | (n < 2.0)),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_lane_that_is_nan_is_done_at_once(name):
    f = counted(CONDITIONS[name])
    a = np.array([2.0, np.nan, 3e10, 7.0, 1e-9, 5.0, np.nan, 11.0, 13.0])
    root, steps = f(a)
    np.testing.assert_allclose(root[~np.isnan(a)], np.sqrt(a[~np.isnan(a)]), rtol=1e-12)
    assert np.all(steps[np.isnan(a)] == 0.0) and np.all(steps < 50.0)
    alone = [f(x) for x in a]
    assert same_bits(root, np.array([x.out0 for x in alone])), "neighbours keep their bits"
    for g in (*[f.on("cpu", lanes=lanes) for lanes in (1, 2, 4, 8)], f.on("reference")):
        assert all(same_bits(x, y) for x, y in zip(f(a), g(a), strict=True))
    assert [float(n) for n in f.on("mpfr:53")(a).out1] == list(steps)


def test_a_lane_that_becomes_nan_ends_the_loop():
    f = cd.function(lambda x: cd.loop(lambda i, y: np.sqrt(y - 1.0), x, FOREVER, until=lambda y: y == 7.0), x=())
    assert np.isnan(f(np.array([3.0, 100.0, np.nan]))).all()
    assert np.isnan(f.on("reference")(3.0)) and np.isnan(f.jvp()(3.0, 1.0).ravel()).all()


def test_infinity_is_a_number_that_may_come_back():
    # as a residual that is not known yet
    f = cd.function(lambda x: cd.loop(lambda i, s: (s[0] * 0.5, abs(s[0])), (x, np.inf), 60, until=lambda s: s[1] < 1.0), x=())
    assert f(np.array([8.0])).out0[0] == 0.25


def test_intervals_end_when_the_condition_is_certain():
    def count(x):
        return cd.loop(lambda i, s: (s[0] / 3.0, s[1] + 1.0), (x, 0.0), FOREVER, until=lambda s: s[1] >= 5.0)[0]

    assert cd.function(count, x=()).on("interval")(1.0).overlaps(cd.function(count, x=()).on("interval:200")(1.0))


def test_until_may_ask_for_what_is_outside_and_for_nothing():
    def f(x, a):
        outside = cd.loop(lambda i, s: s + 1.0, x, FOREVER, until=lambda s: a > 0.0)
        inner = cd.loop(lambda i, s: cd.loop(lambda k, z: z + 1.0, s, FOREVER, until=lambda z: z > s + i), x, 3)
        return outside, inner, cd.loop(lambda i, s: s + 1.0, x, 4, until=lambda s: False)

    out, inner, all_four = cd.function(f, x=(), a=())(np.array([0.0, 0.5]), 1.0)
    assert np.array_equal(out, [0.0, 0.5]) and np.array_equal(inner, [6.0, 6.5]) and np.array_equal(all_four, [4.0, 4.5])


def test_a_loop_that_ends_is_another_program():
    def f(until, x):
        return cd.loop(lambda i, s: cd.where(s > 9.0, s, s * 1.5), x, 20, until=until)

    ends, runs = cd.trace(lambda x: f(lambda s: s > 9.0, x), x=()), cd.trace(lambda x: f(None, x), x=())
    assert ends.hash != runs.hash and "until" in str(ends) and "until" not in str(runs)


def test_state_can_be_nested():
    def f(x):
        out = cd.loop(lambda i, s: {"p": s["p"] + s["v"][0], "v": (s["v"][0] * 0.5, s["v"][1] - i)}, {"p": x, "v": (1.0, x)}, 4)
        return out["p"], out["v"][1]

    p, v = cd.function(f, x=2)(np.array([1.0, 2.0]))
    assert np.array_equal(p, [2.875, 3.875]) and np.array_equal(v, [-5.0, -4.0])


def test_scan_reads_and_writes_rows():
    def f(x, us):
        final, (path, energy) = cd.scan(lambda i, s, u: (s + u, (s, s @ s)), x, us)
        return {"final": final, "path": path, "energy": energy, "third": path[2]}

    us = np.arange(10.0).reshape(5, 2)
    x = np.array([1.0, -1.0])
    out = cd.function(f, x=2, us=(5, 2))(x, us)
    path = x + np.vstack([np.zeros(2), np.cumsum(us, 0)])
    assert np.array_equal(out.final, path[-1]) and np.array_equal(out.path, path[:-1])
    assert np.array_equal(out.energy, np.sum(path[:-1] ** 2, 1)) and np.array_equal(out.third, path[2])


def test_scan_can_run_backward_and_read_what_another_wrote():
    def f(us):
        _, sums = cd.scan(lambda i, s, u: (s + u, s + u), 0.0, us)
        _, back = cd.scan(lambda i, s, row: (s + row, s), 0.0, sums, reverse=True)
        return back

    us = np.array([1.0, 2.0, 3.0, 4.0])
    sums = np.cumsum(us)
    assert np.array_equal(cd.function(f, us=4)(us), [9.0 + 10.0, 16.0, 10.0, 0.0]), sums


def test_rows_may_be_a_dict_of_arrays_and_numbers():
    def f(a):
        rows = {"a": a, "k": np.arange(3.0)}
        return cd.scan(lambda i, s, r: (s + r["a"] * r["k"] + i, ()), 0.0, rows)[0]

    assert cd.function(f, a=3)(np.array([1.0, 10.0, 100.0])) == 10.0 + 200.0 + 3.0


def test_long_rollouts_stay_short_tapes():
    f = cd.function(lambda x, us: cd.scan(lambda i, s, u: (0.99 * s + u, s), x, us)[1], x=2, us=(1000, 2))
    assert len(f.tape.block.nodes) < 2100, "inputs, one table, one loop"
    x, us = np.ones(2), np.zeros((1000, 2))
    assert np.allclose(f(x, us)[999], 0.99**999, rtol=1e-12)
    batch = f(np.ones((11, 2)), us)
    assert batch.shape == (11, 1000, 2) and np.array_equal(batch[7], f(x, us))


def test_nested_loops():
    f = cd.function(lambda x: cd.loop(lambda i, s: cd.loop(lambda j, z: z + i * j, s, 3), x, 4), x=())
    assert f(0.5) == 0.5 + sum(i * j for i in range(4) for j in range(3))


@pytest.mark.parametrize(
    "function, words",
    [
        (lambda x: cd.loop(lambda i, s: s[:1], x, 3), "keep its shape"),
        (lambda x: cd.loop(lambda i, s: (s, s), x, 3), "keep its shape"),
        (lambda x: cd.loop(lambda i, s: s, x, 0), "at least one iteration"),
        (lambda x: cd.scan(lambda i, s, r: (s, s), x)[0], "at least one iteration"),
        (lambda x: cd.scan(lambda i, s, r: (s, s), x, {"a": x, "b": np.zeros(5)})[0], "same first axis"),
        (lambda x: cd.scan(lambda i, s, r: (s, s), x, count=3)[1][7], "index 7 of an axis of length 3"),
        (lambda x: cd.scan(lambda i, s, r: (s, s), x, count=3)[1]["a"], "whole number, a slice"),
        (lambda x: cd.loop(lambda i, s: s > 0, x, 3), "this is a traced comparison; write 1.0"),
    ],
)
def test_wrong_loops_are_explained(function, words):
    with pytest.raises((cd.TraceError, IndexError), match=words):
        cd.trace(function, x=2)


def test_an_inner_loop_reads_an_outer_table():
    def f(x):
        _, path = cd.scan(lambda i, s, r: (s + 1.0, s), x, count=3)
        return cd.loop(lambda i, s: cd.scan(lambda j, z, row: (z + row, None), s, path)[0], x, 2)

    assert cd.function(f, x=())(0.5) == 0.5 + 2 * (0.5 + 1.5 + 2.5)


def test_outside_of_a_trace_there_are_no_loops():
    with pytest.raises(cd.TraceError, match=r"compile it with condyle\.function"):
        cd.loop(lambda i, s: s, 1.0, 3)
