"""Random numbers: the published vectors of Philox, the same bits everywhere, the right distribution, no order and no state."""

import random as stdlib_random
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tape.evaluation import on, reference
from tape.random_tapes import same_bits
from tape.test_same_bits import DTYPE, LANES, kernel, run

import condyle as cd
from condyle.errors import BackendError, ShapeError, TraceError
from condyle.tape import random as ours
from condyle.tape.export.c import c_source
from condyle.tape.interpret import WORD
from condyle.tape.passes import lower
from condyle.tape.scalar import Int

# D. E. Shaw Research, Random123, tests/kat_vectors, lines "philox4x32 10": counter, key, result
VECTORS = [
    "00000000 00000000 00000000 00000000 00000000 00000000 6627e8d5 e169c58d bc57ac4c 9b00dbd8",
    "ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff 408f276d 41c83b0e a20bc7c6 6d5451fd",
    "243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0 d16cfe09 94fdcceb 5001e420 24126ea1",
]
KNOWN = np.array([[int(word, 16) for word in line.split()] for line in VECTORS], np.uint64)
SEED, ROBOT, CHANNEL = 2**40 + 12345, 7, 3
KINDS = {"uniform": cd.random.uniform, "normal": cd.random.normal}
both_kinds = pytest.mark.parametrize("kind", KINDS)
both_precisions = pytest.mark.parametrize("precision", ["f64", "f32"])


def halves(words):
    words = np.asarray(words, np.uint64)
    return np.stack([words >> 16, words & 0xFFFF], axis=-1).astype(float)


def philox_of_halves(words):
    w = [high.to_int() << 16 | low.to_int() for high, low in words]
    return np.array([[(x >> 16).to_real(), (x & 0xFFFF).to_real()] for x in cd.random.philox(w[:4], w[4:])])


# ---- Philox


def test_known_answers_in_numpy():
    for row in KNOWN:
        assert [int(w) for w in cd.random.philox(row[:4].tolist(), row[4:6].tolist())] == row[6:].tolist()
    words = cd.random.philox(list(KNOWN[:, :4].T), list(KNOWN[:, 4:6].T))
    assert all(w.dtype == np.uint32 for w in words) and (np.stack(words, axis=-1) == KNOWN[:, 6:]).all()


@both_precisions
def test_known_answers_on_every_backend(precision):
    tape = cd.trace(philox_of_halves, words=(6, 2))
    inputs = [halves(KNOWN[:, :6]).reshape(3, -1).astype(DTYPE[precision])]
    wanted = halves(KNOWN[:, 6:]).reshape(3, -1)
    lowered = lower(tape, precision)
    assert same_bits(reference(lowered, inputs)[0], wanted.astype(DTYPE[precision]))
    for lanes in LANES[precision]:
        assert same_bits(run(kernel(lowered, precision, lanes), tape, inputs)[0], wanted.astype(DTYPE[precision]))
    for backend in ("mpfr:64", "interval"):
        assert (on(backend, tape, inputs)[0].astype(float) == wanted).all()


@settings(max_examples=20)
@given(words=st.lists(st.integers(0, WORD), min_size=6, max_size=6))
def test_constant_words_are_folded_to_the_same(words):
    wanted = [int(w) for w in cd.random.philox(words[:4], words[4:])]
    found = []

    def f(x):
        counter = [Int(x.graph, x.graph.const(w)) for w in words[:4]]
        found.extend(x.graph.value(w.index) for w in cd.random.philox(counter, words[4:]))
        return x

    cd.trace(f, x=())
    assert found == wanted


# ---- the same bits


def noise(kind, shape=5):
    return lambda tick: KINDS[kind](SEED, ROBOT, tick, CHANNEL, shape=shape)


@both_kinds
@both_precisions
def test_compiled_numbers_have_the_bits_of_python_at_every_lane_width(kind, precision):
    tape = cd.trace(noise(kind), tick=())
    ticks = np.array([0, 1, 2, 3, 1000, 65535, 65536, 2**24 - 1, 2**24], DTYPE[precision])
    wanted = KINDS[kind](SEED, ROBOT, ticks, CHANNEL, shape=5, dtype=DTYPE[precision])
    assert wanted.dtype == DTYPE[precision] and wanted.shape == (9, 5)
    lowered = lower(tape, precision)
    assert same_bits(reference(lowered, [ticks[:, None]])[0], wanted)
    for lanes in LANES[precision]:
        for cuts in ({}, {"uncut": 60, "piece": 40}):
            assert same_bits(run(kernel(lowered, precision, lanes, **cuts), tape, [ticks[:, None]])[0], wanted), (lanes, cuts)


@pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler")
@both_precisions
def test_exported_c_has_the_same_bits(precision, tmp_path):
    from tape.test_export_c import MODES, build, call

    ticks = np.arange(0, 50, 7).astype(DTYPE[precision])
    tapes = {kind: lower(cd.trace(noise(kind, 4), tick=()), precision) for kind in KINDS}
    source = "\n".join(c_source(tape, precision, kind) for kind, tape in tapes.items())
    for flags in MODES:
        library = build(source, tmp_path, flags)
        for kind, tape in tapes.items():
            wanted = KINDS[kind](SEED, ROBOT, ticks, CHANNEL, shape=4, dtype=DTYPE[precision])
            assert same_bits(call(library, kind, tape, [ticks[:, None]])[0], wanted)


def test_mpfr_and_intervals():
    ticks = np.arange(4.0)[:, None]
    uniform = on("mpfr:200", cd.trace(noise("uniform"), tick=()), [ticks])[0].astype(float)
    assert same_bits(uniform, cd.random.uniform(SEED, ROBOT, ticks[:, 0], CHANNEL, shape=5))
    tape = cd.trace(noise("normal"), tick=())
    true, balls = on("mpfr:200", tape, [ticks])[0], on("interval:80", tape, [ticks])[0]
    ours = cd.random.normal(SEED, ROBOT, ticks[:, 0], CHANNEL, shape=5)
    assert np.abs(ours / true.astype(float) - 1.0).max() < 4e-15
    assert all(
        float(ball.rad()) < 1e-18 and abs(float(ball.mid()) - float(x)) < 1e-15
        for ball, x in zip(balls.flat, true.flat, strict=True)
    )


@both_kinds
def test_neither_order_nor_batch_nor_shape_changes_a_number(kind):
    make = KINDS[kind]
    robots, ticks = np.arange(5)[:, None], np.arange(7)
    every = make(1, robots, ticks, 2, shape=(2, 3))
    assert every.shape == (5, 7, 2, 3)
    keys = [(r, t) for r in range(5) for t in range(7)]
    stdlib_random.Random(3).shuffle(keys)
    for r, t in keys[:12]:
        one = make(1, r, t, 2, shape=(2, 3))
        assert same_bits(one, every[r, t])
        # a shorter shape is the beginning of a longer one
        assert make(1, r, t, 2) == one.flat[0] and same_bits(make(1, float(r), np.uint8(t), 2, shape=11)[:6], one.ravel())


def test_every_key_matters_and_kinds_differ():
    base = dict(seed=5, robot=6, tick=7, channel=8)
    found = [cd.random.uniform(*base.values(), shape=4)]
    for name, other in [("seed", 6), ("seed", 5 + 2**32), ("robot", 7), ("tick", 8), ("channel", 9), ("tick", 7 + 2**31)]:
        found.append(cd.random.uniform(*(base | {name: other}).values(), shape=4))
    numbers = np.concatenate(found)
    assert len(set(numbers.tolist())) == numbers.size
    # a robot is no tick
    assert cd.random.uniform(0, 1, 2, 3) != cd.random.uniform(0, 2, 1, 3)
    u, z = cd.random.uniform(0, np.arange(20000), 0, 0), cd.random.normal(0, np.arange(20000), 0, 0)
    assert abs(np.corrcoef(u, z)[0, 1]) < 0.03


@both_precisions
def test_constant_keys_in_a_traced_function_too(precision):
    dtype = DTYPE[precision]
    for kind, make in KINDS.items():
        function = cd.function(lambda x, make=make: x + make(SEED, 1, 2, 3, shape=3), x=3)
        assert same_bits(function(np.zeros(3, dtype)), make(SEED, 1, 2, 3, shape=3, dtype=dtype)), kind


@both_kinds
def test_arrays_of_traced_keys_broadcast(kind):
    make = KINDS[kind]
    function = cd.function(lambda robot, tick: make(9, robot, tick, np.arange(2)[:, None], shape=3), robot=4, tick=())
    found = function(np.arange(4.0), 11.0)
    assert found.shape == (2, 4, 3) and same_bits(found, make(9, np.arange(4), 11, np.arange(2)[:, None], shape=3))


def test_traced_seeds():
    function = cd.function(lambda seed: cd.random.uniform(seed, 1, 2, 3, shape=2), seed=())
    for seed in (0, 1, 2**32 - 1, 2**32, 2**45 + 77, 2**51 - 1):
        assert same_bits(function(float(seed)), cd.random.uniform(seed, 1, 2, 3, shape=2))
    word = cd.function(lambda a: cd.random.uniform(a.to_int(), a.to_int() + 1, 2, 3), a=())
    assert word(8.0) == cd.random.uniform(8, 9, 2, 3)


# ---- numbers from words


def made(make, words, precision):
    tape = lower(cd.trace(lambda x: np.array(make([Int(x.graph, x.graph.const(w)) for w in words])) + 0.0 * x, x=()), precision)
    return reference(tape, [np.zeros((1, 1), DTYPE[precision])])[0][0]


@both_precisions
def test_the_ends_of_the_ranges(precision):
    last = 1.0 - 2.0 ** {"f64": -53, "f32": -24}[precision]
    assert made(ours._uniform_pair, [WORD, WORD, 0, 0], precision).tolist() == [last, 0.0]
    assert made(ours._uniform_pair, [0, 8, WORD, 0], precision).tolist() == [2.0**-53, 1.0 - 2.0**-24]
    for words in ([0, 0, WORD, WORD], [WORD, 0, 0, WORD], [0, 0x80000000, 0, 0x7FFFFFFF], [0, 0x40000000, 0, 0xC0000000]):
        z = made(ours._normal_quartet, words, precision).astype(float)
        assert np.isfinite(z).all() and np.hypot(z[::2], z[1::2]).max() < 7.54
    assert np.hypot(*made(ours._normal_quartet, [0, 0, 0, 0], precision)[:2].astype(float)) > 7.538


def test_float32_numbers_are_the_float64_ones_rounded():
    keys = (3, np.arange(20000), 0, 0)
    u64, u32 = cd.random.uniform(*keys), cd.random.uniform(*keys, dtype=np.float32)
    assert np.abs(u64 - u32).max() <= 2.0**-24 and u32.max() < 1.0
    z64, z32 = cd.random.normal(*keys), cd.random.normal(*keys, dtype=np.float32)
    assert np.abs(z64 - z32).max() < 5e-4 and np.median(np.abs(z64 - z32)) < 1e-6


# ---- statistics: fixed keys, so that nothing is left to chance

COUNT = 200_000


@pytest.fixture(scope="module")
def samples():
    """Many numbers of each kind, with the key that varies in their name."""
    n = np.arange(COUNT)
    keys = {"robot": (1, n, 0, 0), "tick": (1, 0, n, 0), "channel": (1, 0, 0, n), "seed": (n, 0, 0, 0)}
    return {(kind, name): make(*key) for kind, make in KINDS.items() for name, key in keys.items()}


def test_moments(samples):
    # five standard deviations of each estimate
    for (kind, name), x in samples.items():
        y = x if kind == "normal" else (x - 0.5) * np.sqrt(12.0)
        fourth = 3.0 if kind == "normal" else 1.8
        assert abs(y.mean()) < 5.0 / np.sqrt(COUNT), (kind, name)
        assert abs((y * y).mean() - 1.0) < 5.0 * np.sqrt((fourth - 1.0) / COUNT), (kind, name)
        assert abs((y**3).mean()) < 5.0 * np.sqrt((15.0 if kind == "normal" else 27.0 / 7.0) / COUNT), (kind, name)
        assert abs((y**4).mean() - fourth) < 5.0 * np.sqrt((96.0 if kind == "normal" else 9.0 - 3.24) / COUNT), (kind, name)


@pytest.mark.slow
def test_distributions_by_kolmogorov_and_smirnov(samples):
    stats = pytest.importorskip("scipy.stats")
    for (kind, name), x in samples.items():
        assert stats.kstest(x, "norm" if kind == "normal" else "uniform").pvalue > 1e-3, (kind, name)
    four = cd.random.normal(2, np.arange(COUNT // 4), 0, 0, shape=4)
    for k in range(4):
        assert stats.kstest(four[:, k], "norm").pvalue > 1e-3
    # the tails: as many as there should be beyond three and four
    z = np.concatenate([samples["normal", name] for name in ("robot", "tick", "channel", "seed")])
    for bound in (3.0, 4.0):
        wanted = 2.0 * stats.norm.sf(bound) * z.size
        assert abs((np.abs(z) > bound).sum() - wanted) < 5.0 * np.sqrt(wanted)


def test_neighbours_are_uncorrelated(samples):
    for (kind, name), x in samples.items():
        for lag in (1, 2, 4, 256):
            assert abs(np.corrcoef(x[:-lag], x[lag:])[0, 1]) < 5.0 / np.sqrt(COUNT), (kind, name, lag)
    for kind, make in KINDS.items():
        z = make(4, np.arange(COUNT // 4), 0, 0, shape=6)
        off = np.corrcoef(z.T) - np.eye(6)
        off_squares = np.corrcoef((z * z).T) - np.eye(6)
        assert max(np.abs(off).max(), np.abs(off_squares).max()) < 5.0 / np.sqrt(COUNT // 4), kind


def test_every_bit_is_fair():
    words = cd.random.philox([np.arange(20000), 0, 0, 0], [0, 0])
    for w in words:
        ones = [(w >> b & 1).mean() for b in range(32)]
        assert np.abs(np.array(ones) - 0.5).max() < 5.0 * 0.5 / np.sqrt(20000)


# ---- in loops, and derivatives


@both_kinds
@both_precisions
def test_a_scan_with_its_counter_as_tick(kind, precision):
    make, dtype = KINDS[kind], DTYPE[precision]

    def rollout(robot):
        return cd.scan(lambda i, s, _: (s, make(SEED, robot, i, CHANNEL, shape=3)), (), count=6)[1]

    function = cd.function(rollout, robot=())
    robots = np.arange(5).astype(dtype)
    wanted = make(SEED, np.arange(5)[:, None], np.arange(6), CHANNEL, shape=3, dtype=dtype)
    for backend in (function, function.on("cpu", lanes=1), function.on("reference")):
        assert same_bits(backend(robots), wanted)


def test_keys_from_outside_of_nested_loops():
    def f(seed, robot):
        w = robot.to_int() + 1

        def outer(i, s):
            return cd.loop(lambda j, t: t + cd.random.uniform(seed, w, i, j), s, 3)

        return cd.loop(outer, 0.0, 2)

    wanted = 0.0
    for i in range(2):
        for j in range(3):
            wanted = wanted + cd.random.uniform(2**33 + 5, 9, i, j)
    assert cd.function(f, seed=(), robot=())(2.0**33 + 5, 8.0) == wanted


@both_kinds
def test_many_numbers_are_made_in_a_loop(kind):
    many = cd.function(lambda tick: KINDS[kind](1, 2, tick, 3, shape=(20, 10)), tick=())
    assert len(many.source("tape").splitlines()) < 600
    wanted = KINDS[kind](1, 2, np.arange(3), 3, shape=(20, 10))
    assert same_bits(many(np.arange(3.0)), wanted)


def test_derivatives_take_noise_for_constant():
    def f(x, tick):
        noise = cd.random.normal(SEED, ROBOT, tick, CHANNEL, shape=2)
        return np.sum(np.sin(x) * (1.0 + 0.1 * noise)) + cd.loop(lambda i, s: s + x[0] * cd.random.uniform(1, tick, i, 0), 0.0, 3)

    function = cd.function(f, x=2, tick=())
    x, tick = np.array([0.3, -1.2]), 17
    z = cd.random.normal(SEED, ROBOT, tick, CHANNEL, shape=2)
    wanted = np.cos(x) * (1.0 + 0.1 * z) + np.array([sum(cd.random.uniform(1, tick, i, 0) for i in range(3)), 0.0])
    gradient = function.vjp()(x, float(tick), 1.0)
    np.testing.assert_allclose(gradient.x_gradient, wanted, rtol=1e-14)
    assert gradient.tick_gradient == 0.0
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(function.jacobian(wrt="x", mode=mode)(x, float(tick)), wanted, rtol=1e-14)
    second = function.hessian(wrt="x")(x, float(tick))
    np.testing.assert_allclose(np.diag(second), -np.sin(x) * (1.0 + 0.1 * z), rtol=1e-13)


# ---- errors and the fallback


@pytest.mark.parametrize(
    "keys", [(-1, 0, 0, 0), (2**64, 0, 0, 0), (0, 0.5, 0, 0), (0, 0, 2**32, 0), (0, 0, 0, np.nan), (0, 0, 0, "a")]
)
def test_keys_that_are_no_words(keys):
    with pytest.raises(ShapeError, match="whole number from 0 to"):
        cd.random.uniform(*keys)


def test_other_errors():
    with pytest.raises(ShapeError, match="four words"):
        cd.random.philox([1, 2], [3, 4])
    with pytest.raises(ShapeError, match="float64 or float32"):
        cd.random.normal(0, 0, 0, 0, dtype=np.int32)
    with pytest.raises(TraceError, match="leave out dtype"):
        cd.function(lambda t: cd.random.normal(0, 0, t, 0, dtype=np.float32), t=())
    with pytest.raises(ShapeError, match="more channels"):
        cd.random.normal(0, 0, 0, 0, shape=2**34)
    assert cd.random.normal(0, 0, 0, 0, shape=(0, 3)).shape == (0, 3)
    assert cd.random.normal(0, np.arange(0), 0, 0, shape=2).shape == (0, 2)


def test_without_a_compiler_the_reference_gives_the_same_bits(monkeypatch):
    wanted = cd.random.normal(1, 2, 3, 4, shape=6)

    def refuse(*_, **__):
        raise BackendError("no code here")

    monkeypatch.setattr("condyle.tape.backends.cpu.cached_kernel", refuse)
    ours._generator.cache_clear()
    try:
        assert ours._generator("normal", "<f8").backend == "reference"
        assert same_bits(cd.random.normal(1, 2, 3, 4, shape=6), wanted)
    finally:
        ours._generator.cache_clear()
