"""Functions: arrays in, arrays out, any batch axes, sentences when something does not fit."""

import pickle
import threading

import numpy as np
import pytest

import condyle as cd


@pytest.fixture(scope="module")
def f():
    return cd.function(lambda q, v, h: {"q1": q + h * v, "e": v @ v}, q=3, v=3, h=())


Q, V = np.arange(3.0), np.array([1.0, -2.0, 0.5])


def test_one_state_and_named_arguments(f):
    assert f.inputs == {"q": (3,), "v": (3,), "h": ()} and f.outputs == {"q1": (3,), "e": ()}
    for out in (
        f(Q, V, 0.5),
        f(Q, V, 0.5),
        f(h=0.5, v=V, q=Q),
        f(list(Q), tuple(V), 0.5),
        f(Q, V, np.float64(0.5)),
        f(Q, V, 1 / 2),
    ):
        assert np.array_equal(out.q1, [0.5, 0.0, 2.25]) and out.e == 5.25
        assert isinstance(out.e, float) and out.q1.dtype == np.float64
    q1, e = f(Q, V, 0.5)
    assert e == 5.25 and q1.shape == (3,)


def test_batches_broadcast(f):
    rng = np.random.default_rng(0)
    q, v, h = rng.normal(size=(4, 1, 3)), rng.normal(size=(5, 3)), rng.normal(size=(4, 5))
    out = f(q, v, h)
    assert out.q1.shape == (4, 5, 3) and out.e.shape == (4, 5)
    for i in range(4):
        for j in range(5):
            one = f(q[i, 0], v[j], h[i, j])
            assert np.array_equal(out.q1[i, j], one.q1) and out.e[i, j] == one.e


def test_any_memory_layout(f):
    rng = np.random.default_rng(1)
    q = rng.normal(size=(6, 3))
    wanted = f(q, V, 0.1).q1
    wide = np.zeros((6, 8))
    wide[:, 2:5] = q
    assert np.array_equal(f(wide[:, 2:5], V, 0.1).q1, wanted)
    assert np.array_equal(f(np.asfortranarray(q), V, 0.1).q1, wanted)
    assert np.array_equal(f(q[::-1], V, 0.1).q1, wanted[::-1])
    assert np.array_equal(f(np.repeat(q, 2, 0)[::2], V, 0.1).q1, wanted)
    assert np.array_equal(f(q.astype(">f8"), V, 0.1).q1, wanted)


def test_empty_batch(f):
    out = f(np.zeros((0, 3)), V, 0.1)
    assert out.q1.shape == (0, 3) and out.e.shape == (0,)


def test_float32_only_when_all_are(f):
    single = [a.astype(np.float32) for a in (Q, V)]
    assert f(*single, np.float32(0.5)).q1.dtype == np.float32
    assert f(*single, np.array(0.5, np.float32)).q1.dtype == np.float32
    assert f(*single, 0.5).q1.dtype == np.float64
    assert f(single[0], V, np.float32(0.5)).q1.dtype == np.float64


def test_out_arrays_are_filled(f):
    q = np.random.default_rng(2).normal(size=(1000, 3))
    q1, e = np.empty((1000, 3)), np.empty(1000)
    result = f(q, V, 0.1, out=(q1, e))
    assert result.q1 is q1 and np.array_equal(q1, f(q, V, 0.1).q1) and np.array_equal(e, f(q, V, 0.1).e)
    g = cd.function(lambda x: 2.0 * x, x=3)
    y = np.empty((2, 5, 3))
    assert g(np.ones((2, 5, 3)), out=y) is y and np.all(y == 2.0)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda f: f(Q[:2], V, 0.1), r"input 'q' has shape \(2,\), expected \(3,\) or a batch \(..., 3\)"),
        (lambda f: f(Q, V, np.zeros((4, 2, 2, 3))[0, 0]), None),
        (lambda f: f(np.zeros((4, 3)), np.zeros((5, 3)), 0.1), "do not fit each other: q"),
        (lambda f: f(Q, V), "needs the input 'h'"),
        (lambda f: f(Q, V, 0.1, 0.2), "takes 3 arrays"),
        (lambda f: f(Q, V, 0.1, q=Q), "given twice"),
        (lambda f: f(Q, V, dt=0.1), "no input 'dt'; its inputs are q, v, h"),
        (lambda f: f("abc", V, 0.1), "must be an array of real numbers"),
        (lambda f: f(Q, V, None), "must be an array of real numbers|nan"),
        (lambda f: f(Q + 1j, V, 0.1), "must be an array of real numbers"),
        (lambda f: f(Q, V, 0.1, out=np.empty(3)), "`out` needs 2 arrays"),
        (lambda f: f(Q, V, 0.1, out=(np.empty(4), np.empty(()))), r"'q1' must be float64 of shape \(3,\)"),
        (lambda f: f(Q, V, 0.1, out=(np.empty(3, np.float32), np.empty(()))), "must be float64"),
        (lambda f: f(np.ones((4, 3)), V, 0.1, out=(np.empty((3, 4)).T, np.empty(4))), "C-contiguous"),
        (lambda f: f(V, V, 0.1, out=(V, np.empty(()))), "shares memory"),
    ],
)
def test_what_does_not_fit_is_a_sentence(f, call, words):
    if words is None:
        assert call(f).q1.shape == (2, 3, 3)
        return
    with pytest.raises(cd.ShapeError, match=words):
        call(f)


@pytest.mark.parametrize("backend", ["gpu", "mpfr", "mpfr:", "mpfr:abc", "cpu4", ""])
def test_backends_are_listed_when_there_is_no_such_one(f, backend):
    with pytest.raises(cd.BackendError, match="'cpu', 'cuda', 'reference', 'mpfr:BITS'"):
        f.on(backend)


def test_options_are_checked(f):
    with pytest.raises(cd.BackendError, match="lanes must be"):
        f.on("cpu", lanes=3)
    with pytest.raises(cd.BackendError, match="threads must be"):
        f.on("cpu", threads=0)
    with pytest.raises(cd.BackendError, match="'tape' or 'c', and on the cpu backend 'llvm' or 'asm'"):
        f.source("cobol")


def test_sources_can_be_read(f):
    assert "fma" in f.source("llvm") and "define void @kernel" in f.source("llvm")
    assert "vfmadd" in f.source("asm") or "fmla" in f.source("asm")
    assert "void" in f.source("c") and "fma(" in f.source("c")
    assert f.source("tape").startswith("function(q[3], v[3], h[])")
    assert "fmaf(" in f.source("c", "f32")
    assert "q[3]" in repr(f) and "cpu" in repr(f)


def test_no_contraction_but_ours():
    # a * b + c where the product is used elsewhere too must stay two roundings, in every backend's text
    g = cd.function(lambda a, b, c: (a * b + c, np.sqrt(a * b)), a=(), b=(), c=())
    assert "fma" not in g.source("tape")
    a, b = 1.0 + 2.0**-30, 1.0 - 2.0**-30
    assert g(a, b, -1.0).out0 == 0.0
    h = cd.function(lambda a, b, c: a * b + c, a=(), b=(), c=())
    assert h(a, b, -1.0) == -(2.0**-60)


def test_calls_from_many_threads_do_not_meet(f):
    rng = np.random.default_rng(3)
    states = rng.normal(size=(8, 200, 3))
    found = [None] * 8

    def work(k):
        found[k] = [f(q, V, 0.25).q1 for q in states[k]]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for k in range(8):
        assert np.array_equal(found[k], states[k] + 0.25 * V)


@pytest.mark.slow
def test_many_inputs_outputs_and_sizes():
    # tiles of every width: rows of 1 to 19 entries, in and out
    for sizes in (range(1, 6), range(6, 11), range(11, 16), range(16, 20)):
        g = cd.function(
            lambda **rows: {f"{end}{name}": each for name, x in rows.items() for end, each in (("a", x * 2.0), ("b", x[::-1]))},
            **{f"x{n}": n for n in sizes},
        )
        rows = {f"x{n}": np.random.default_rng(n).normal(size=(13, n)) for n in sizes}
        for lanes in (1, 2, 4, 8, 16):
            out = g.on("cpu", lanes=lanes)(**rows)._asdict()
            for name, x in rows.items():
                assert np.array_equal(out[f"a{name}"], 2.0 * x) and np.array_equal(out[f"b{name}"], x[:, ::-1]), (name, lanes)


def test_nothing_is_written_beyond_the_outputs():
    g = cd.function(lambda x: x + 1.0, x=5)
    for rows in range(1, 20):
        guarded = np.full((rows + 2, 5), 77.0)
        g(np.zeros((rows, 5)), out=guarded[1:-1])
        assert np.all(guarded[[0, -1]] == 77.0) and np.all(guarded[1:-1] == 1.0)


def test_operations_are_expected_and_worst():
    def halved(x, until):
        return cd.loop(lambda i, y: y * 0.5, x, 100, until=until)

    ends = cd.function(lambda x: halved(x, lambda y: y < 1.0), x=()).operations
    runs = cd.function(lambda x: halved(x, None), x=()).operations
    assert (runs, runs.expected, runs.worst, str(runs)) == (100, 100, 100, "100")
    assert ends == ends.worst == 100 * (ends.expected // 8) and str(ends) == f"{ends.expected} expected, {ends.worst} at worst"
    assert pickle.loads(pickle.dumps(ends)).expected == ends.expected and f"{ends:,}" == "400"
    short = cd.function(lambda x: cd.loop(lambda i, y: y * 0.5, x, 3, until=lambda y: y < 1.0), x=()).operations
    assert short.expected == short.worst


def test_without_llvm_the_reference_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    from condyle.tape.backends import interface

    x = np.linspace(-1.0, 1.0, 6).reshape(2, 3)
    wanted = cd.function(lambda x: np.sin(x) * x[0], cache=False, x=3)(x)
    monkeypatch.setattr(interface, "find_spec", lambda name: None)
    made = cd.function(lambda x: np.sin(x) * x[0], cache=False, x=3)
    assert type(made._backend).__name__ == "ReferenceBackend" and np.array_equal(made(x), wanted)
