"""Arguments that are tables: rows by the dozen, rows whose number is known at run time, and tables that a batch shares."""

import ctypes
from pathlib import Path

import numpy as np
import pytest
from tape.test_export_c import COMPILERS, build

import condyle as cd
from condyle.tape.export.c import c_source
from condyle.tape.passes import lower

RANDOM = np.random.default_rng(3)


def rollout(x, u):
    """States before each step, and the last one."""
    last, states = cd.scan(lambda i, s, row: (0.9 * s + np.sin(row) + 0.01 * i, s * row), x, u)
    return states, last


def network(x, first, second):
    """Two layers of a network, whose weights are rows with a bias at the end."""
    hidden = cd.map_rows(lambda row: np.tanh(row[:-1] @ x + row[-1]), first)
    return cd.map_rows(lambda row: row[:-1] @ hidden[:] + row[-1], second)


def nearest(x, heights):
    """A height map read at an index that differs from state to state."""
    i = np.floor(x[0])
    return heights[i] + (x[0] - i) * (heights[i + 1.0] - heights[i])


def test_one_kernel_for_any_number_of_rows():
    """A rollout compiles once, and gives the bits of the reference for every number of steps, lane and batch."""
    f = cd.function(rollout, x=2, u=cd.Rows(None, 2))
    kernels = {lanes: f.on("cpu", lanes=lanes) for lanes in (1, 2, 8)}
    for steps in (1, 7, 30):
        x, u = RANDOM.normal(size=(5, 2)), RANDOM.normal(size=(5, steps, 2))
        states, last = f.on("reference")(x, u)
        assert states.shape == (5, steps, 2)
        for g in kernels.values():
            assert all(np.array_equal(a, b) for a, b in zip(g(x, u), (states, last), strict=True))
            assert np.array_equal(g(x[0], u[0])[0], states[0])
        assert [list(g._kernels) for g in kernels.values()] == [["f64"]] * 3
    out = (np.empty((5, 30, 2)), np.empty((5, 2)))
    assert f(x, u, out=out)[0] is out[0] and np.array_equal(out[0], states)
    shared = f(x, u[0])
    assert np.array_equal(shared[0][2], f(x[2], u[0])[0])


def test_forward_derivatives_of_any_number_of_rows():
    """Derivatives by the start, and along directions of the rows, of as many rows as are given."""
    f = cd.function(rollout, x=2, u=cd.Rows(None, 2))
    fixed = cd.function(rollout, x=2, u=(6, 2))
    x, u, direction = RANDOM.normal(size=2), RANDOM.normal(size=(6, 2)), RANDOM.normal(size=(6, 2))
    np.testing.assert_allclose(f.jacobian("out0", "x")(x, u), fixed.jacobian("out0", "x")(x, u), rtol=1e-14, atol=1e-15)
    along = f.jvp("u")(x, u, direction)
    np.testing.assert_allclose(along[0], fixed.jvp("u")(x, u, direction)[0], rtol=1e-14)
    with pytest.raises(cd.TraceError, match="known at run time"):
        f.jacobian("out0", "u")
    with pytest.raises(cd.TraceError, match="memory without a bound"):
        f.vjp()


def test_tables_as_arguments_are_differentiated():
    """Jacobian, vjp and Hessian by a table equal those by the array it is."""
    f, g = (cd.function(rollout, x=2, u=shape) for shape in (cd.Rows(4, 2), (4, 2)))
    x, u = RANDOM.normal(size=2), RANDOM.normal(size=(4, 2))
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(
            f.jacobian("out1", "u", mode=mode)(x, u), g.jacobian("out1", "u")(x, u), rtol=1e-13, atol=1e-15
        )
    weights = RANDOM.normal(size=(4, 2)), RANDOM.normal(size=2)
    for a, b in zip(f.vjp()(x, u, *weights), g.vjp()(x, u, *weights), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)
    for a, b in zip(f.hessian("out1")(x, u, weights[1]), g.hessian("out1")(x, u, weights[1]), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


def test_uniform_arrays():
    """Weights are read from where they lie; another value is no other kernel; gradients by them; the same bits everywhere."""
    f = cd.function(network, x=3, first=cd.Uniform(8, 4), second=cd.Uniform(2, 9))
    x, first, second = RANDOM.normal(size=(20, 3)), RANDOM.normal(size=(8, 4)), RANDOM.normal(size=(2, 9))
    wanted = np.tanh(x @ first[:, :-1].T + first[:, -1]) @ second[:, :-1].T + second[:, -1]
    np.testing.assert_allclose(f(x, first, second), wanted, rtol=1e-13)
    for lanes in (1, 4, 8):
        assert np.array_equal(f.on("cpu", lanes=lanes)(x, first, second), f.on("reference")(x, first, second))
    weights = RANDOM.normal(size=(20, 2))
    gradient = f.vjp("second")(x, first, second, weights)
    hidden = np.tanh(x @ first[:, :-1].T + first[:, -1])
    np.testing.assert_allclose(gradient[..., :-1], weights[:, :, None] * hidden[:, None, :], rtol=1e-13)
    assert len(f.tape.block.nodes) < 40 and f.source("c").count("\n") < 250, "no node and no line per weight"
    with pytest.raises(cd.ShapeError, match="shared by the batch"):
        f(x, np.zeros((20, 8, 4)), second)


def test_a_height_map_is_read_by_index():
    """Indices that differ from lane to lane read shared memory."""
    f = cd.function(nearest, x=1, heights=cd.Uniform(50))
    x, heights = RANDOM.uniform(0.0, 48.9, size=(33, 1)), RANDOM.normal(size=50)
    np.testing.assert_allclose(f(x, heights), np.interp(x[:, 0], np.arange(50), heights), rtol=1e-13, atol=1e-14)
    for lanes in (1, 8):
        assert np.array_equal(f.on("cpu", lanes=lanes)(x, heights), f.on("reference")(x, heights))
    slope = f.jacobian("out", "x")(x, heights)[:, 0]
    np.testing.assert_allclose(slope, np.diff(heights)[x[:, 0].astype(int)], rtol=1e-12, atol=1e-14)


@pytest.mark.skipif(not COMPILERS, reason="no C compiler")
def test_exported_c(tmp_path: Path):
    """C takes tables where they lie, and the number of rows as an argument."""
    f = cd.function(rollout, x=2, u=cd.Rows(None, 2))
    library = build(c_source(lower(f.tape, "f64"), name="roll"), tmp_path, ["-std=c99", "-O2"])
    x, u = RANDOM.normal(size=2), RANDOM.normal(size=(9, 2))
    states, last = np.empty((9, 2)), np.empty(2)
    library.roll(*[ctypes.c_void_p(a.ctypes.data) for a in (x, u, states, last)], ctypes.c_size_t(9))
    assert np.array_equal(states, f(x, u)[0]) and np.array_equal(last, f(x, u)[1])


@pytest.mark.parametrize(
    "function, words",
    [
        (lambda x, u: u[0], "known at run time can be scanned"),
        (lambda x, u: cd.loop(lambda i, s: cd.scan(lambda j, z, r: (z + r[0], None), s, u)[0], x[0], 3), "known at run time"),
        (lambda x, u: cd.scan(lambda i, s, r: (s, r), x, {"u": u, "v": np.zeros((3, 2))})[0], "same first axis"),
    ],
)
def test_wrong_rows_are_explained(function, words):
    """A sentence says what rows whose number is unknown can do."""
    with pytest.raises(cd.TraceError, match=words):
        cd.trace(function, x=2, u=cd.Rows(None, 2))


def test_wrong_shapes_are_explained():
    """Unequal numbers of rows, none at all, and wrong columns."""
    f = cd.function(lambda a, b: cd.scan(lambda i, s, r: (s, r[0] + r[1]), (), (a, b))[1], a=cd.Rows(None, 2), b=cd.Rows(None, 2))
    with pytest.raises(cd.ShapeError, match="one and the same number of rows"):
        f(np.zeros((3, 2)), np.zeros((4, 2)))
    with pytest.raises(cd.ShapeError, match="at least one"):
        f(np.zeros((0, 2)), np.zeros((0, 2)))
    with pytest.raises(cd.ShapeError, match=r"expected \(rows, 2\)"):
        f(np.zeros((3, 3)), np.zeros((3, 2)))
    with pytest.raises(cd.TraceError, match="positive whole number"):
        cd.trace(lambda x: x[0], x=cd.Uniform(None, 3))
