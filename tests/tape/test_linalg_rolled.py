"""cd.linalg as loops over tables: the same bits as straight code, on every backend, and the same derivatives."""

import ctypes
import shutil
import subprocess
from importlib.util import find_spec

import numpy as np
import pytest
from markers import slow_except
from tape.random_tapes import same_bits

import condyle as cd
from condyle import linalg
from condyle.tape.linalg import rolled
from condyle.tape.linalg.gauss_jordan import eliminated
from condyle.tape.table import table

N = 6
FUNCTIONS = {
    "matmul": lambda A, B: linalg.matmul(A, B),
    "cholesky": lambda A, B: linalg.cholesky(A @ A.T),
    "ldl": lambda A, B: linalg.ldl(A @ A.T),
    "lu": lambda A, B: linalg.lu(A),
    "solve": lambda A, B: linalg.solve(A, B),
    "solve vector": lambda A, B: linalg.solve(A, B[0]),
    "solve positive": lambda A, B: linalg.solve(A @ A.T, B, assume="positive"),
    "solve symmetric": lambda A, B: linalg.solve(A @ A.T, B[0], assume="symmetric"),
    "inverse": lambda A, B: linalg.inverse(A),
    "det": lambda A, B: linalg.det(A),
    "triangular": lambda A, B: linalg.solve_triangular(A, B, lower=False, trans=True),
    "backward": lambda A, B: linalg.solve_triangular(A, B, lower=False, unit_diagonal=True),
}


@pytest.fixture
def forms(monkeypatch):
    """f -> (straight, rolled), compiled."""

    def both(f, **shapes):
        straight, loops = (10**9, 10**9, 8), (10, 5, 4)
        made = []
        for terms, rows, block in (straight, loops):
            for name, value in {"TERMS": terms, "SUBSTITUTION": terms, "CHOLESKY": rows, "LU": rows}.items():
                monkeypatch.setattr(rolled, name, value)
            monkeypatch.setattr(rolled, "BLOCK", block)
            # traced here: the cache of traces knows no changed thresholds
            made.append(cd.Function(cd.trace(f, **(shapes or {"A": (N, N), "B": (N, N)}))))
        return made

    return both


def inputs(dtype="float64", count=9):
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(count, N, N)), rng.normal(size=(count, N, N))
    A[-1, 2], A[-2, 0, 0] = 0.0, np.nan
    return A.astype(dtype), B.astype(dtype)


def tuples(*results):
    return zip(*[x if isinstance(x, tuple) else (x,) for x in results], strict=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_loops_and_straight_code_give_the_same_bits(name, forms):
    straight, loops = forms(FUNCTIONS[name])
    assert any(n.op == "loop" for n in loops.lowered().block.nodes)
    A, B = inputs()
    for wanted, got in tuples(straight.on("cpu", lanes=4)(A, B), loops.on("cpu", lanes=4)(A, B)):
        # what a lane that is not finite gives is NaN or infinite in both
        good = np.isfinite(A).all(axis=(1, 2))
        assert same_bits(wanted[good], got[good])
    reference = loops.on("reference")(A, B)
    for lanes in (1, 8):
        for wanted, got in tuples(reference, loops.on("cpu", lanes=lanes)(A, B)):
            assert same_bits(wanted, got), lanes
    single = [a.astype(np.float32) for a in (A, B)]
    for wanted, got in tuples(loops.on("reference")(*single), loops.on("cpu", lanes=16)(*single)):
        assert same_bits(wanted, got)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler")
def test_exported_c_gives_the_same_bits(forms, tmp_path):
    A, B = inputs()
    functions = {name.replace(" ", "_"): forms(f)[1] for name, f in FUNCTIONS.items()}
    for name, f in functions.items():
        (tmp_path / f"{name}.c").write_text(f.source("c").replace(f"void {f.tape.name}(", f"void kernel_{name}("))
    command = ["gcc", "-O1", "-std=c99", "-shared", "-fPIC", *[f"{n}.c" for n in functions], "-o", "all.so", "-lm"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[:2000]
    library = ctypes.CDLL(str(tmp_path / "all.so"))
    for name, f in functions.items():
        result = f.on("reference")(A[0], B[0])
        out = [np.empty(shape) for shape in f.outputs.values()]
        getattr(library, f"kernel_{name}")(*[ctypes.c_void_p(a.ctypes.data) for a in (A[0].copy(), B[0].copy(), *out)])
        for wanted, got in tuples(result, tuple(out)):
            assert same_bits(np.asarray(wanted), got), name


@pytest.mark.parametrize(
    "name",
    slow_except(
        ["cholesky", "solve positive", "triangular", "matmul"],
        ["matmul", "cholesky", "solve", "solve positive", "inverse", "det", "triangular"],
    ),
)
def test_derivatives_are_those_of_straight_code(name, forms):
    straight, loops = forms(FUNCTIONS[name])
    A, B = inputs(count=4)
    A, B = A[:2], B[:2]
    rng = np.random.default_rng(1)
    weight, dA, dB = (rng.normal(size=s) for s in (straight.tape.outputs[0].shape, (N, N), (N, N)))
    pairs = [*tuples(*[f.vjp()(A, B, weight) for f in (straight, loops)])]
    pairs += tuples(*[f.jvp()(A, B, dA, dB) for f in (straight, loops)])
    for wanted, got in pairs:
        assert np.abs(got - wanted).max() <= 1e-10 * max(1.0, np.abs(wanted).max())


def test_a_matrix_of_mostly_zeros_stays_straight():
    def f(x):
        A = np.zeros((44, 44), dtype=object)
        A[range(44), range(44)] = 4.0 + x
        A[range(1, 44), range(43)] = A[range(43), range(1, 44)] = x[1:]
        return linalg.solve(A, x, assume="symmetric"), linalg.solve(A, x, assume="positive"), linalg.matmul(A, A)

    g = cd.function(f, x=44)
    assert all(n.op != "loop" for n in g.lowered().block.nodes)


@pytest.mark.slow
def test_large_products_are_small_programs():
    f = cd.function(lambda A, B: linalg.matmul(A, B), A=(36, 36), B=(36, 36))
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(36, 36)), rng.normal(size=(36, 36))
    np.testing.assert_allclose(f(A, B), A @ B, rtol=1e-12, atol=1e-12)
    assert f.operations > 36**3 and len(f.lowered().block.nodes) < 3 * 36**2 and len(f.source("c").splitlines()) < 400
    gradient = f.vjp()
    weight = rng.normal(size=(36, 36))
    np.testing.assert_allclose(gradient(A, B, weight).A_gradient, weight @ B.T, rtol=1e-11, atol=1e-11)


def test_tables_in_and_out():
    def f(A, B):
        C = linalg.matmul(cd.table(A), cd.table(B))
        return C, linalg.matmul(C, cd.table(A))

    A, B = inputs(count=4)
    C, D = cd.function(f, A=(N, N), B=(N, N))(A[:2], B[:2])
    assert same_bits(C, linalg.matmul(A[:2], B[:2])) and same_bits(D, linalg.matmul(C, A[:2]))


def test_a_shared_table_times_a_vector():
    rng = np.random.default_rng(0)
    W, x = rng.normal(size=(20, 12)), rng.normal(size=(5, 12))
    f = cd.function(lambda x, W: linalg.matmul(W, x), x=12, W=cd.Uniform(20, 12))
    assert any(n.op == "loop" for n in f.tape.block.nodes)
    assert same_bits(f(x, W), linalg.matmul(W, x.T).T.copy()) and same_bits(f(x, W), f.on("reference")(x, W))
    np.testing.assert_allclose(f.jacobian(wrt="x")(x[0], W), W, rtol=1e-15)
    weight = rng.normal(size=20)
    np.testing.assert_allclose(f.vjp("x")(x[0], W, weight), W.T @ weight, rtol=1e-13)


def test_other_backends(forms):
    A, B = inputs(count=4)
    for name in ("solve positive", "matmul"):
        f = forms(FUNCTIONS[name])[1]
        wanted = f(A[0], B[0])
        np.testing.assert_allclose(f.on("mpfr:200")(A[0], B[0]).astype(float), wanted, rtol=1e-9)
        if find_spec("flint"):
            narrow = f.on("interval:200")(A[0], B[0])
            assert all(a.overlaps(b) for a, b in zip(f.on("interval")(A[0], B[0]).flat, narrow.flat, strict=True))
        if find_spec("casadi"):
            np.testing.assert_allclose(np.array(f.casadi()(A[0], B[0])).reshape(N, N), wanted, rtol=1e-9)
    if find_spec("casadi"):
        with pytest.raises(cd.BackendError, match="CasADi"):
            forms(FUNCTIONS["solve"])[1].casadi()(A[0], B[0])


def test_gauss_jordan_solves_with_pivots():
    """For lanes that choose other pivots each, with the same bits as one by one; columns of zeros are skipped."""

    def solved(A, B):
        return {"X": eliminated(table(np.concatenate([A, B], axis=1)))}

    f = cd.function(solved, cache=False, A=(11, 11), B=(11, 3))
    rng = np.random.default_rng(3)
    A, B = rng.standard_normal((9, 11, 11)), rng.standard_normal((9, 11, 3))
    A[:, 0, 0] = 0.0
    X = f(A, B)
    np.testing.assert_allclose(A @ X, B, atol=1e-10)
    one, reference = f.on("cpu", lanes=1), f.on("reference")
    assert all(same_bits(one(a, b), x) for a, b, x in zip(A, B, X, strict=True))
    assert same_bits(reference(A[2], B[2]), X[2])
    assert np.isfinite(f(np.zeros((11, 11)), B[0])).all()
