"""Tables in loops: read, updated, carried, captured and nested, with the same bits on every backend and in C."""

from pathlib import Path

import gmpy2
import numpy as np
import pytest
from tape.test_export_c import COMPILERS, MODES, build, call

import condyle as cd
from condyle.tape.export.c import c_source
from condyle.tape.passes import lower


def running_sums(x):
    """Rows written into a table that the loop carries."""

    def body(i, state):
        table, a = state
        a = a + x[0]
        return table.set(i, np.array([a, a * x[1]])), a

    return cd.loop(body, (cd.zeros_table((5, 2)), 0.0 * x[2]), 5)


def cholesky(x):
    """Three nested loops over two tables; entry (i, j) of both is counted by the loops."""
    n = 3
    a = cd.table(x[:9].reshape(n, n) @ x[:9].reshape(n, n).T + np.eye(n))

    def column(j, L):
        def row(i, L):
            s = a[i, j] - cd.loop(lambda k, s: s + cd.where(k < j, L[i, k] * L[j, k], 0.0), 0.0 * x[0], n)
            below = s / cd.where(i > j, L[j, j], 1.0)
            return L.set((i, j), cd.where(i < j, 0.0, cd.where(i == j, np.sqrt(cd.where(i == j, s, 1.0)), below)))

        return cd.loop(row, L, n)

    return cd.loop(column, cd.zeros_table((n, n)), n)


def exchange(x):
    """Two carried tables that change places, one of them updated."""
    a, b = cd.loop(lambda i, s: (s[1], s[0].set(i, s[0][i] + 1.0)), (cd.table(x[:4]), cd.table(2.0 * x[:4])), 3)
    return np.array([*[a[k] for k in range(4)], *[b[k] for k in range(4)]])


def old_and_new(x):
    """A table that is read after it was updated."""
    a = cd.table(x[:4])
    b = a.set(1, 5.0)
    c = b.set(slice(2, 4), x[4:6])
    return np.array([a[1], b[1], a[2] + b[2], *c[:]])


def by_lane(x):
    """Indices that differ from lane to lane, out of range and NaN; numbers shared by all lanes."""
    numbers, values = cd.table([1.0, 10.0, 100.0]), cd.table(x[:6])
    i = 3.0 * x[0]
    nan = (x[1] - x[1]) / (x[1] - x[1])
    return np.array([numbers[i], values[i], numbers[-i], values[nan], values.set(i, 7.0)[2], values[1e300 * i]])


def shifted(x):
    """Counters with factors, constants and clamped ends, in a loop that counts down."""
    t = cd.table(x[:9])
    _, out = cd.scan(lambda i, s, row: (s, np.array([t[2 * i + 1], t[i - 2], t[3 * i], t[8 - i]])), (), count=4, reverse=True)
    return out


def nested_scans(x):
    """A scan in the body of a loop writes a table, a second one reads it backward, and the loop carries what comes out."""

    def sweep(i, path):
        _, forces = cd.scan(lambda k, s, row: (s + row, np.sin(s) - row), 0.1 * x[0], path)
        _, back = cd.scan(lambda k, s, row: (0.5 * s + row, s), x[1], forces, reverse=True)
        return cd.map_rows(lambda a, b: a + 0.1 * b, path, back)

    return cd.loop(sweep, cd.table(x[:6]), 4)


def until_small(x):
    """A loop that exits and carries a table: each lane keeps its own."""
    half = lambda i, s: cd.map_rows(lambda a: 0.5 * a, s)  # noqa: E731
    return cd.loop(half, cd.table(x[:4].reshape(2, 2)), 9, until=lambda s: s[0, 0] < 0.2)


CASES = [running_sums, cholesky, exchange, old_and_new, by_lane, shifted, nested_scans, until_small]


def states(count: int = 5) -> np.ndarray:
    """Random states."""
    return np.random.default_rng(0).uniform(size=(count, 9))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_same_bits_on_every_lane(case, dtype):
    """Any number of lanes gives the bits of the reference."""
    f, x = cd.function(case, x=9), states().astype(dtype)
    wanted = f.on("reference")(x)
    for lanes in (1, 2, 8):
        given = f.on("cpu", lanes=lanes)(x)
        for a, b in zip(*[r if isinstance(r, tuple) else (r,) for r in (given, wanted)], strict=True):
            assert np.array_equal(a, b, equal_nan=True)


def test_values():
    """What the loops compute, against NumPy."""
    x = states()
    a = x.reshape(5, 3, 3) @ x.reshape(5, 3, 3).transpose(0, 2, 1) + np.eye(3)
    np.testing.assert_allclose(cd.function(cholesky, x=9)(x), np.linalg.cholesky(a), rtol=1e-14, atol=1e-15)
    sums = x[:, :1] * np.arange(1, 6)
    table, last = cd.function(running_sums, x=9)(x)
    np.testing.assert_allclose(table, np.stack([sums, sums * x[:, 1:2]], -1), rtol=1e-15)
    np.testing.assert_allclose(last, sums[:, -1], rtol=1e-15)
    rows = np.stack(
        [[state[2 * i + 1], state[max(i - 2, 0)], state[min(3 * i, 8)], state[8 - i]] for state in x for i in range(4)]
    )
    assert np.array_equal(cd.function(shifted, x=9)(x), rows.reshape(5, 4, 4))
    numbers = np.array([1.0, 10.0, 100.0])
    i = np.rint(3.0 * x[:, 0]).astype(int)
    found = cd.function(by_lane, x=9)(x)
    assert np.array_equal(found[:, 0], numbers[np.minimum(i, 2)]) and np.array_equal(found[:, 1], x[np.arange(5), i])
    assert np.array_equal(found[:, 3], x[:, 0]) and np.array_equal(found[:, 2], np.ones(5))


@pytest.mark.skipif(not COMPILERS, reason="no C compiler")
@pytest.mark.parametrize("case", CASES)
def test_exported_c(case, tmp_path: Path):
    """The C of tables in loops gives the bits of the reference."""
    f, x = cd.function(case, x=9), states(3)
    tape = lower(f.tape, "f64")
    wanted = f.on("reference")(x)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for flags in MODES:
        library = build(c_source(tape, name="kernel"), tmp_path, flags)
        for a, b in zip(call(library, "kernel", tape, [x]), wanted, strict=True):
            assert np.array_equal(a.reshape(b.shape), b, equal_nan=True)


def test_tables_keep_kernels_short():
    """A loop over a large table is as short as over a small one."""

    def f(x):
        table = cd.loop(lambda i, t: t.set(i, x[0] * i), cd.zeros_table(5000), 5000)
        return table[x[1]]

    g = cd.function(f, x=2)
    assert len(g.tape.block.nodes) < 12 and g.source("c").count("\n") < 80
    assert g(np.array([2.0, 1234.4])) == 2468.0


@pytest.mark.parametrize(
    "function, words",
    [
        (lambda x: cd.table(x)[4], "index 4 of an axis of length 3"),
        (lambda x: cd.loop(lambda i, s: s + cd.table(x)[i + 3], x[0], 2), "index from 3 to 4 of an axis of length 3"),
        (lambda x: cd.table(x)[0, 0], "has 1 axes, and 2 indices"),
        (lambda x: cd.table(x).set(0, x)[0], "cannot be set to a value of shape"),
        (lambda x: cd.table(x)["a"], "an index of a table is"),
        (lambda x: cd.table(x[0]), "at least one axis"),
    ],
)
def test_wrong_tables_are_explained(function, words):
    """A sentence says what was given and what there is."""
    with pytest.raises((cd.TraceError, IndexError), match=words):
        cd.trace(function, x=3)


@pytest.mark.parametrize("case", CASES)
def test_other_backends(case):
    """Any precision agrees to rounding; enclosures hold the value; CasADi agrees where rows are counted."""
    f, x = cd.function(case, x=9), states(1)[0]
    first = lambda r: np.asarray(r[0] if isinstance(r, tuple) else r)  # noqa: E731
    wanted = first(f(x))
    np.testing.assert_allclose(first(f.on("mpfr:80")(x)).astype(float), wanted, rtol=1e-13, atol=1e-15)
    if case is not by_lane:
        for ball, value in zip(first(f.on("interval")(x)).ravel(), wanted.ravel(), strict=True):
            assert abs(float(ball.mid()) - value) <= float(ball.rad()) + 1e-12
        pytest.importorskip("casadi")
        np.testing.assert_allclose(np.asarray(first(f.casadi()(x))).reshape(wanted.shape), wanted, rtol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_derivatives(case):
    """Forward and reverse mode agree with each other to rounding and with differences in 300 bits; so do second derivatives."""

    def first(x):
        out = case(x)
        return out[0] if isinstance(out, tuple) else out

    f, x = cd.function(first, x=9), states(1)[0] * 0.9 + 0.05
    given = f.jacobian(mode="forward")(x)
    np.testing.assert_allclose(given, differences(f.on("mpfr:300"), x), rtol=1e-12, atol=1e-13)
    gradient = f.vjp()
    weights = np.random.default_rng(1).normal(size=f.outputs["out"])
    backward = gradient(x, weights)
    np.testing.assert_allclose(backward, np.tensordot(weights, given, weights.ndim), rtol=1e-12, atol=1e-13)
    for lanes in (1, 8):
        assert np.array_equal(gradient.on("cpu", lanes=lanes)(x, weights), gradient.on("reference")(x, weights))
    if case in (running_sums, nested_scans, cholesky):
        exact = gradient.on("mpfr:300")
        second = differences(lambda s: exact(s, weights), x)
        np.testing.assert_allclose(f.hessian()(x, weights), second, rtol=1e-11, atol=1e-12)


def differences(function, x):
    """The Jacobian of a function in 300 bits, by differences."""
    with gmpy2.context(gmpy2.get_context(), precision=300):
        h = gmpy2.mpfr(2) ** -120
        steps = [np.array([gmpy2.mpfr(v) + (h if k == c else 0) for k, v in enumerate(x)]) for c in range(len(x))]
        return np.stack([((function(s) - function(x)) / h).astype(float) for s in steps], -1)


def products(x):
    """C = A B: the columns of a row of C do not depend on each other; the sum inside is a loop."""
    a, b = cd.table(np.outer(x, x[::-1]) + 1.0), cd.table(np.outer(x, 2.0 - x))

    def row(i, c):
        def entry(j, c):
            return c.set((i, j), cd.loop(lambda k, s: s + a[i, k] * b[k, j], 0.0, 9))

        return cd.loop(entry, c, 9)

    return cd.loop(row, cd.zeros_table((9, 9)), 9)


def rows_apart(x):
    """Rows that are computed by themselves, with a table, a loop and a scan of their own."""

    def row(u, v):
        small = cd.loop(lambda i, t: t.set(i, t[i] + u * i), cd.table(np.array([u, v, u * v])), 3)
        _, sums = cd.scan(lambda i, s, r: (s + r, s * r), v, small)
        return np.array([sums[0], sums[2], np.sin(u) * cd.where(v > 0.5, u, v), sums[u]])

    return cd.map_rows(row, cd.table(np.repeat(x, 3) * np.arange(1.0, 28.0)), cd.table(np.tile(x, 3)))


def own_tables(x):
    """Rows with a table of their own, which is read and written at the row's number: another entry in each lane."""

    def row(i, _, u):
        own = cd.table(np.array([u * j for j in range(1, 10)])).set(8.0 - i, np.exp(u))
        return _, np.array([np.sin(own[i]) * u, own[8.0 - i]])

    return cd.scan(row, (), cd.table(x))[1]


def dependent(x):
    """Iterations that read what others wrote, or write to the same place: one after the other."""
    fibonacci = cd.loop(lambda i, t: t.set(i + 2, t[i] + t[i + 1]), cd.table(np.concatenate([x, x])), 16)
    last = cd.loop(lambda i, t: t.set(0.0 * i + 1, x[0] * i), cd.table(x), 9)
    overlapping = cd.loop(lambda i, t: t.set(i, x[1] * i).set(i + 1, x[2]), cd.table(x), 8)
    return np.concatenate([fibonacci[:], last[:], overlapping[:]])


@pytest.mark.parametrize("case, across", [(products, True), (rows_apart, True), (own_tables, True), (dependent, False)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_loops_across_lanes(case, across, dtype):
    """In a kernel of one lane, iterations that do not depend on each other are lanes of vectors, with the same bits."""
    f, x = cd.function(case, x=9), states(3).astype(dtype)
    one = f.on("cpu", lanes=1)
    wanted = f.on("reference")(x)
    assert np.array_equal(one(x), wanted) and np.array_equal(f.on("cpu", lanes=4)(x), wanted)
    element, text = ("double", one.source("llvm")) if dtype == np.float64 else ("float", one.source("llvm", "f32"))
    assert (f"<4 x {element}>" in text or f"<8 x {element}>" in text or f"<16 x {element}>" in text) == across


def test_long_bodies_across_lanes():
    """A body that is cut into pieces, partly assembled, with a loop inside that ends early: its iterations are lanes, too."""
    from tape.test_same_bits import kernel, run

    def body(x, y):
        root = cd.loop(
            lambda _, r: r - (r * r * r - x) / (3.0 * r * r + 0.1), abs(x) + 1.0, 40, until=lambda r: r * r * r <= x + 1e-9
        )
        z = root
        for k in range(60):
            z = np.sqrt(abs(z + y)) - 0.01 * k * root
        t = cd.table([[z, root], [root, z], [z * root, 1.0]])
        total, rows = cd.scan(lambda i, s, row: (s + row[0] * s + row[1], cd.array([s * i])), z, t)
        return cd.array([root, z, total, rows[1, 0]])

    f = cd.function(lambda x: cd.map_rows(lambda row: body(row[0], row[1]), cd.table(x)), x=(13, 2))
    x = np.random.default_rng(0).normal(size=(1, 13, 2))
    wanted = f.on("reference")(x)
    cuts = {"uncut": 40, "uncut_in_loops": 1, "piece": 30, "straight_in_loops": 40, "assembled_run": 20}
    lowered = f.lowered()
    got = run(kernel(lowered, "f64", 1, **cuts), f.tape, [x])[0]
    assert np.array_equal(got.reshape(wanted.shape), wanted)
