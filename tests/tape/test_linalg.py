"""cd.linalg: values against NumPy, the same bits on every backend, and matrices that have no answer."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tape.random_tapes import same_bits

import condyle as cd
from condyle import linalg

CLOSE = 1e-12  # relative to the largest entry, for matrices of condition below about 100


def close(got, wanted):
    scale = np.abs(wanted).max(initial=0.0)
    return np.shape(got) == np.shape(wanted) and np.abs(got - wanted).max(initial=0.0) <= CLOSE * max(scale, 1.0)


def swap(A):
    return np.swapaxes(A, -1, -2)


def conditioned(rng, n, m=None, batch=(3,)):
    """Random matrices (n, m) with singular values between 0.5 and 2."""
    m = n if m is None else m
    U, _ = np.linalg.qr(rng.normal(size=(*batch, n, n)))
    V, _ = np.linalg.qr(rng.normal(size=(*batch, m, m)))
    return (U[..., :, : min(n, m)] * rng.uniform(0.5, 2.0, size=(*batch, 1, min(n, m)))) @ swap(V)[..., : min(n, m), :]


def positive(rng, n, batch=(3,)):
    A = conditioned(rng, n, batch=batch)
    return A @ swap(A)


SIZES = st.sampled_from([1, 4])
EXAMPLES = settings(max_examples=10)


@EXAMPLES
@given(n=SIZES, seed=st.integers(0, 10**6))
def test_products_and_triangular_solves(n, seed):
    rng = np.random.default_rng(seed)
    A, B, b = rng.normal(size=(3, n, n)), rng.normal(size=(3, n, 2)), rng.normal(size=(3, n))
    assert close(linalg.matmul(A, B), A @ B)
    assert close(linalg.matmul(A, b), np.einsum("zij,zj->zi", A, b))
    L = np.linalg.cholesky(positive(rng, n))
    junk = L + np.triu(rng.normal(size=(n, n)), 1)
    assert close(L @ linalg.solve_triangular(junk, B), B)
    assert close(swap(L) @ linalg.solve_triangular(junk, B, trans=True), B)
    assert close(swap(L) @ linalg.solve_triangular(swap(junk), B, lower=False), B)
    assert close(L @ linalg.solve_triangular(swap(junk), B, lower=False, trans=True), B)
    unit = np.tril(L, -1) + np.eye(n)
    assert close(np.einsum("zij,zj->zi", unit, linalg.solve_triangular(L, b, unit_diagonal=True)), b)


@EXAMPLES
@given(n=SIZES, seed=st.integers(0, 10**6))
def test_symmetric_factorisations(n, seed):
    rng = np.random.default_rng(seed)
    A, b, B = positive(rng, n), rng.normal(size=(3, n)), rng.normal(size=(3, n, 2))
    L = linalg.cholesky(np.tril(A))
    assert close(L, np.linalg.cholesky(A))
    assert close(linalg.cholesky_solve(L, B), np.linalg.solve(A, B))
    unit, d = linalg.ldl(np.tril(A))
    assert close((unit * d[:, None]) @ swap(unit), A) and np.array_equal(np.triu(unit), np.broadcast_to(np.eye(n), A.shape))
    assert close(linalg.ldl_solve(unit, d, b), np.linalg.solve(A, b[..., None])[..., 0])
    outer = b[:, :, None] * b[:, None]
    more = linalg.cholesky_update(L, b)
    assert close(more, np.linalg.cholesky(A + outer))
    assert close(linalg.cholesky_downdate(more, 0.5 * b), np.linalg.cholesky(A + 0.75 * outer))
    for alpha in (0.7, -0.1 / np.einsum("zi,zi->z", b, np.linalg.solve(A, b[..., None])[..., 0])):
        new, e = linalg.ldl_update(unit, d, b, alpha)
        assert close((new * e[:, None]) @ swap(new), A + np.reshape(alpha, (-1, 1, 1)) * outer)


@EXAMPLES
@given(n=st.sampled_from([1, 3]), seed=st.integers(0, 10**6))
def test_elimination(n, seed):
    rng = np.random.default_rng(seed)
    A, b, B = conditioned(rng, n), rng.normal(size=(3, n)), rng.normal(size=(3, n, 2))
    L, U, p = linalg.lu(A)
    assert close(L @ U, np.take_along_axis(A, p[..., None].astype(int), 1))
    assert np.abs(L).max() <= 1.0 and not np.triu(L, 1).any() and not np.tril(U, -1).any()
    assert close(linalg.lu_solve(L, U, p, b), np.linalg.solve(A, b[..., None])[..., 0])
    assert close(linalg.solve(A, B), np.linalg.solve(A, B))
    assert close(linalg.inverse(A), np.linalg.inv(A)) and close(linalg.det(A), np.linalg.det(A))
    S = positive(rng, n)
    for assume in ("symmetric", "positive"):
        assert close(linalg.solve(np.tril(S), b, assume=assume), np.linalg.solve(S, b[..., None])[..., 0])
        assert close(linalg.inverse(np.tril(S), assume=assume), np.linalg.inv(S))


def test_pivots_are_those_of_each_lane():
    A = np.array([[[0.0, 1.0], [2.0, 3.0]], [[4.0, 1.0], [2.0, 3.0]], [[1.0, 5.0], [-1.0, 3.0]], [[1e-20, 1.0], [1.0, 1.0]]])
    _, _, p = linalg.lu(A)
    assert p.tolist() == [[1, 0], [0, 1], [0, 1], [1, 0]]  # the first of two equal ones stays
    assert close(linalg.solve(A, np.ones(2)), np.linalg.solve(A, np.ones((4, 2, 1)))[..., 0])


@EXAMPLES
@given(n=st.sampled_from([1, 3]), more=st.sampled_from([0, 3]), seed=st.integers(0, 10**6))
def test_householder(n, more, seed):
    rng = np.random.default_rng(seed)
    A, b = conditioned(rng, n + more, n), rng.normal(size=(3, n + more))
    for mine, theirs in zip(linalg.qr(A), np.linalg.qr(A), strict=True):
        assert close(mine, theirs)
    assert close(linalg.least_squares(A, b), np.stack([np.linalg.lstsq(M, y)[0] for M, y in zip(A, b, strict=True)]))


def test_reflections_of_columns_that_are_zero_below_the_diagonal():
    A = np.array([[-2.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    Q, R = linalg.qr(A)
    assert np.array_equal(Q @ R, A) and np.array_equal(R, [[-2.0, 1.0], [0.0, 0.0]])


@EXAMPLES
@given(n=st.sampled_from([1, 2, 3, 6]), seed=st.integers(0, 10**6))
def test_eigenvalues(n, seed):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.normal(size=(3, n, n)))
    w = np.round(rng.normal(size=(3, n)) * 4) / 2  # some are equal, some zero
    A = (Q * w[:, None]) @ swap(Q)
    got, V = linalg.eigh(np.tril(A))
    assert close(got, np.sort(w)) and close(A @ V, V * got[:, None]) and close(swap(V) @ V, np.broadcast_to(np.eye(n), A.shape))


def test_eigenvalues_far_apart_in_size_and_already_diagonal():
    A = np.diag([3.0, -1.0, 2.0])
    w, V = linalg.eigh(A)
    assert np.array_equal(w, [-1.0, 2.0, 3.0]) and np.array_equal(V, np.eye(3)[:, [1, 2, 0]])
    # graded: small eigenvalues keep their digits, as those of LAPACK do not
    scale = np.diag([1e-8, 1.0, 1e8])
    w, _ = linalg.eigh(scale @ (np.eye(3) + 0.5) @ scale)
    assert np.allclose(w, [1.25e-16, 4 / 3, 1.5e16], rtol=1e-12)


# ---- stages


def lqr_problem(rng, N, n, m):
    A, B = rng.normal(size=(N, n, n)) / np.sqrt(n), rng.normal(size=(N, n, m))
    Q, R = positive(rng, n, (N + 1,)), positive(rng, m, (N,))
    S = 0.1 * rng.normal(size=(N, m, n))
    return A, B, Q, R, S, rng.normal(size=(N + 1, n)), rng.normal(size=(N, m)), rng.normal(size=(N, n))


def by_kkt(A, B, Q, R, S, q, r, c, x0):
    """(x, u) of the linear-quadratic problem, from all its optimality conditions at once."""
    N, n, m = len(A), A.shape[1], B.shape[2]
    size = N * (n + m)
    H, h, C, e = np.zeros((size, size)), np.zeros(size), np.zeros((N * n, size)), np.zeros(N * n)
    for k in range(N):
        u, x, after = (slice(k * (n + m), k * (n + m) + m), slice((k - 1) * (n + m) + m, k * (n + m)), slice(k * n, k * n + n))
        following = slice(k * (n + m) + m, (k + 1) * (n + m))
        H[u, u], H[following, following] = R[k], Q[k + 1]
        h[u] += r[k] if k else r[k] + S[0] @ x0
        h[following] += q[k + 1]
        C[after, following], C[after, u], e[after] = np.eye(n), -B[k], c[k] if k else c[0] + A[0] @ x0
        if k:
            H[u, x], H[x, u], C[after, x] = S[k], S[k].T, -A[k]
    z = np.linalg.solve(np.block([[H, C.T], [C, np.zeros((N * n, N * n))]]), np.r_[-h, e])[:size].reshape(N, n + m)
    return z[:, m:], z[:, :m]


def test_riccati_solves_the_linear_quadratic_problem():
    rng = np.random.default_rng(1)
    N, n, m = 7, 3, 2
    problem, x0 = lqr_problem(rng, N, n, m), rng.normal(size=(4, n))
    gains = linalg.riccati(*problem)
    A, B, *_, c = problem
    x, u = linalg.riccati_rollout(A, B, gains.K, gains.k, x0, c)
    assert gains.P.shape == (N, n, n) and gains.p.shape == (N, n) and x.shape == (4, N, n)
    for k, start in enumerate(x0):
        for mine, theirs in zip((x[k], u[k]), by_kkt(*problem, start), strict=True):
            assert close(mine, theirs)
    # without affine terms
    zero = linalg.riccati(*problem[:4])
    assert close(zero.K, linalg.riccati(*problem[:4], None, 0.0 * problem[5]).K) and not zero.k.any()


def test_a_stage_is_recorded_once():
    def count(N):
        shapes = {"A": (N, 6, 6), "B": (N, 6, 3), "Q": (N + 1, 6, 6), "R": (N, 3, 3)}
        return len(cd.trace(lambda A, B, Q, R: linalg.riccati(A, B, Q, R), **shapes).block.nodes) - sum(
            np.prod(s) for s in shapes.values()
        )

    assert count(5) == count(50)


def test_block_tridiagonal_systems():
    rng = np.random.default_rng(0)
    N, n = 6, 3
    D, E, b = positive(rng, n, (N,)) + 4 * np.eye(n), rng.normal(size=(N - 1, n, n)) / 3, rng.normal(size=(2, N, n))
    M = np.zeros((N, n, N, n))
    for k in range(N):
        M[k, :, k] = D[k]
        if k:
            M[k, :, k - 1], M[k - 1, :, k] = E[k - 1], E[k - 1].T
    wanted = np.linalg.solve(M.reshape(N * n, N * n), b.reshape(2, -1).T).T.reshape(b.shape)
    assert close(linalg.block_tridiagonal_solve(np.tril(D), E, b), wanted)


# ---- the same bits everywhere

N = 3
FUNCTIONS = {
    "matmul": lambda A, b: linalg.matmul(A, b),
    "cholesky_solve": lambda A, b: linalg.cholesky_solve(linalg.cholesky(A @ A.T), b),
    "ldl_solve": lambda A, b: linalg.ldl_solve(*linalg.ldl(A @ A.T), b),
    "updates": lambda A, b: linalg.cholesky_downdate(linalg.cholesky_update(linalg.cholesky(A @ A.T), b), 0.5 * b),
    "ldl_update": lambda A, b: linalg.ldl_update(*linalg.ldl(A @ A.T), b, 0.5),
    "solve": lambda A, b: linalg.solve(A, b),
    "inverse": lambda A, b: (linalg.inverse(A), linalg.det(A)),
    "qr": lambda A, b: (*linalg.qr(A), linalg.least_squares(A, b)),
    "eigh": lambda A, b: linalg.eigh(A),
    "riccati": lambda A, b: linalg.riccati([A] * 4, [A[:, :2]] * 4, [A @ A.T] * 5, [np.eye(2)] * 4, q=[b] * 5)[:2],
}


def inputs(dtype, count=11):
    """Ordinary matrices, and some that are singular, infinite or NaN."""
    rng = np.random.default_rng(0)
    A, b = rng.normal(size=(count, N, N)), rng.normal(size=(count, N))
    A[-1], A[-2, 1], A[-3, 0, 0], A[-4, 2, 1], A[-5] = 0.0, 0.0, np.nan, np.inf, np.eye(N)
    return A.astype(dtype), b.astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_lane_width_gives_the_bits_of_the_reference(name, dtype):
    f = cd.function(FUNCTIONS[name], A=(N, N), b=N)
    arguments = inputs(dtype)
    wanted = f.on("reference")(*arguments)
    for lanes in (1, 2, 4, 8) if dtype == "float64" else (1, 16):
        got = f.on("cpu", lanes=lanes)(*arguments)
        for a, b in zip(*[x if isinstance(x, tuple) else (x,) for x in (got, wanted)], strict=True):
            assert same_bits(a, b), (name, lanes)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_exported_c_gives_the_same_bits(tmp_path):
    arrays = inputs("float64")
    functions = {name: cd.function(f, A=(N, N), b=N) for name, f in FUNCTIONS.items()}
    for name, f in functions.items():
        source = f.source("c").replace(f"void {f.tape.name}(", f"void {name}(")
        (tmp_path / f"{name}.c").write_text(source)
    command = ["gcc", "-O2", "-std=c99", "-shared", "-fPIC", *[f"{n}.c" for n in functions], "-o", "all.so", "-lm"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[:2000]
    library = ctypes.CDLL(str(tmp_path / "all.so"))
    for name, f in functions.items():
        got = f(*arrays)
        for lane in range(len(arrays[0])):
            out = [np.empty(shape) for shape in f.outputs.values()]
            places = [np.ascontiguousarray(a[lane]) for a in arrays] + out
            getattr(library, name)(*[ctypes.c_void_p(a.ctypes.data) for a in places])
            for a, b in zip(out, got if isinstance(got, tuple) else (got,), strict=True):
                assert same_bits(a, np.asarray(b[lane])), name


def test_plain_arrays_and_traced_ones_give_the_same_bits():
    A, b = inputs("float64")
    assert same_bits(linalg.solve(A, b), cd.function(FUNCTIONS["solve"], A=(N, N), b=N)(A, b))
    for mine, theirs in zip(linalg.eigh(A), cd.function(FUNCTIONS["eigh"], A=(N, N), b=N)(A, b), strict=True):
        assert same_bits(mine, theirs)
    assert linalg.solve(A.astype(np.float32), b.astype(np.float32)).dtype == np.float32


def test_matrices_without_an_answer_give_numbers_that_are_not_finite():
    A, b = inputs("float64")
    bad, good = slice(-4, None), slice(0, -4)
    for result in (linalg.solve(A, b), linalg.inverse(A).reshape(-1, N * N)):
        assert not np.isfinite(result[bad]).all(axis=1).any() and np.isfinite(result[good]).all()
    assert np.isnan(linalg.cholesky(np.array([[1.0, 0.0], [2.0, 1.0]]))[1, 1])
    assert np.isnan(linalg.eigh(A)[0][-3]).all() and np.isfinite(linalg.eigh(A)[0][good]).all()
    assert linalg.det(A)[-1] == 0.0


# ---- structure


def test_zeros_of_the_program_cost_nothing():
    def band(x):
        """A tridiagonal matrix."""
        A = np.zeros((8, 8), dtype=object)
        A[range(8), range(8)] = x + 4.0
        A[range(1, 8), range(7)] = A[range(7), range(1, 8)] = x[1:]
        return A

    L = cd.function(lambda x: linalg.cholesky(band(x)), x=8)
    assert L.operations < 60 and cd.function(linalg.cholesky, A=(8, 8)).operations > 150
    solve = cd.function(lambda x: linalg.solve(band(x), x, assume="symmetric"), x=8)
    x = np.random.default_rng(0).uniform(size=8)
    assert solve.operations < 90
    dense = np.diag(x + 4.0) + np.diag(x[1:], 1) + np.diag(x[1:], -1)
    assert close(solve(x), np.linalg.solve(dense, x))
    triangular = cd.function(lambda x: linalg.solve(np.triu(x[:, None] + x), x), x=4)
    assert "select" not in triangular.source("tape")


def test_numpy_functions_on_traced_arrays():
    rng = np.random.default_rng(0)
    A, b = conditioned(rng, 3, batch=()), rng.normal(size=3)
    S = A @ A.T
    cases = {
        "solve": lambda np_, A: np_.linalg.solve(A, b),
        "inv": lambda np_, A: np_.linalg.inv(A),
        "det": lambda np_, A: np_.linalg.det(A),
        "cholesky": lambda np_, A: np_.linalg.cholesky(A),
        "qr": lambda np_, A: np_.linalg.qr(A)[1],
        "eigh": lambda np_, A: np_.linalg.eigh(A)[0],
    }
    for case in cases.values():
        assert close(cd.function(lambda A, case=case: case(np, A), A=(3, 3))(S), case(np, S))
    with pytest.raises(cd.TraceError, match=r"np.linalg.svd has no traced meaning; condyle.linalg has matmul, "):
        cd.function(lambda A: np.linalg.svd(A), A=(3, 3))
    with pytest.raises(cd.TraceError, match=r"np.linalg.cholesky with upper has no traced meaning"):
        cd.function(lambda A: np.linalg.cholesky(A, upper=True), A=(3, 3))


def test_shapes_that_do_not_fit_are_named():
    square, tall = np.eye(3), np.ones((3, 2))
    with pytest.raises(cd.ShapeError, match=r"linalg.cholesky needs square matrices of one size, got A \(3, 2\)"):
        linalg.cholesky(tall)
    with pytest.raises(cd.ShapeError, match=r"linalg.solve needs 3 rows in 'b', got shape \(2,\)"):
        linalg.solve(square, np.ones(2))
    with pytest.raises(cd.ShapeError, match=r"linalg.qr needs at least as many rows as columns, got shape \(2, 3\)"):
        linalg.qr(tall.T)
    with pytest.raises(cd.ShapeError, match=r"linalg.det needs a matrix as 'A', got shape \(3,\)"):
        linalg.det(np.ones(3))
    with pytest.raises(cd.ShapeError, match=r"assumes one of 'general', 'symmetric', 'positive', got 'spd'"):
        linalg.solve(square, np.ones(3), assume="spd")
    with pytest.raises(cd.ShapeError, match=r"takes one traced 'A', of shape \(2, 2\), got shape \(2, 2, 2\)"):
        cd.function(linalg.cholesky, A=(2, 2, 2))
    with pytest.raises(cd.ShapeError, match=r"linalg.riccati needs 'Q' of shape \(5, 3, 3\), got \(4, 3, 3\)"):
        linalg.riccati(np.ones((4, 3, 3)), np.ones((4, 3, 1)), np.ones((4, 3, 3)), np.ones((4, 1, 1)))
    with pytest.raises(cd.ShapeError, match=r"as many rows in 'B' as 'A' has columns, got \(3, 2\) and \(3, 3\)"):
        linalg.matmul(tall, square)
