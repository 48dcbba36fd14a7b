"""Subroutines: lowered alone, so that the bits of their results depend on their arguments and on nothing around the call."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markers import slow_except
from tape import random_tapes
from tape.evaluation import computed, interpreted, on, reference
from tape.ptx_interpreter import Buffer, Code, Device
from tape.random_tapes import inputs_for, inputs_from, same_bits, tape_from
from tape.test_export_c import COMPILERS, MODES, assert_same, build, call
from tape.test_same_bits import check_all_lanes

import condyle as cd
from condyle.errors import TraceError
from condyle.tape import limb_values as limbs
from condyle.tape import link
from condyle.tape.array import array
from condyle.tape.backends import cpu, cuda
from condyle.tape.backends.interface import Options
from condyle.tape.cache import ObjectCache
from condyle.tape.derive import jacobian, vjp
from condyle.tape.export.c import c_source
from condyle.tape.inline import Recorder, record_again
from condyle.tape.interpret import Ieee, evaluate
from condyle.tape.limbs import unrolled
from condyle.tape.passes import lower, lowered_alone
from condyle.tape.subroutine import subroutine
from condyle.tape.tape import Subroutine, Tape, subroutines
from condyle.tape.tape_codec import decode_block, encode_block
from condyle.tape.trace import trace, trace_values

PRECISION = {"float64": "f64", "float32": "f32"}
CALLS = random_tapes.CALLS


class Alone(Ieee):
    """The definition: a subroutine is interpreted where it is called, in the operations that it has when it is lowered alone."""

    def call(self, call: Any, args: list[Any]) -> tuple[list[Any], Any]:
        body = lowered_alone(call.body, "f32" if self.single else "f64")
        return evaluate(unrolled(body), args, self), None


def by_definition(tape: Tape, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs of a tape whose subroutines are interpreted."""
    dtype = inputs[0].dtype
    block = lowered_alone(tape.block, PRECISION[str(dtype)])
    return interpreted(Tape(tape.name, block, tape.inputs, tape.outputs), inputs, Alone(single=dtype == np.float32), dtype)


def with_calls(pick: Callable[[int], int], *, elementary: bool = False) -> Tape:
    """A random tape with subroutines."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random_tapes, "LOOPS", CALLS)
        return tape_from(pick, elementary=elementary)


class InPlace(Recorder):
    """Recorder in which the operations of a subroutine are recorded where it is called, among all others."""

    def call(self, call: Any, args: list[Any]) -> tuple[list[Any], Any]:
        return evaluate(call.body, args, self), None


def in_place(tape: Tape) -> Tape:
    """The same program without subroutines."""
    return Tape(tape.name, record_again(tape.block, InPlace()), tape.inputs, tape.outputs)


def calls(tape: Tape) -> int:
    return sum(isinstance(node.data, Subroutine) for node in tape.block.nodes)


def seeded(seeds: int, **options: Any) -> list[Tape]:
    """Random tapes, most of which call subroutines."""
    tapes = [with_calls(random.Random(seed).randrange, **options) for seed in range(seeds)]
    assert sum(map(calls, tapes)) > 0.5 * seeds
    return tapes


# ---- the same bits on every backend


@pytest.mark.parametrize("dtype", slow_except(["float64"], PRECISION))
@settings(max_examples=20)
@given(data=st.data())
def test_random_tapes_on_the_cpu(dtype: str, data: st.DataObject) -> None:
    tape = with_calls(lambda n: data.draw(st.integers(0, n - 1)), elementary=bool(data.draw(st.booleans())))
    inputs = data.draw(inputs_for(tape, dtype=dtype))
    wanted = by_definition(tape, inputs)
    found = reference(lower(tape, PRECISION[dtype]), inputs)
    assert all(same_bits(a, b) for a, b in zip(found, wanted, strict=True)), f"{tape}\n{lower(tape, PRECISION[dtype])}"
    check_all_lanes(tape, PRECISION[dtype], inputs)


@pytest.mark.parametrize("dtype", slow_except(["float64"], PRECISION))
def test_random_tapes_on_a_gpu(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    monkeypatch.setattr(cuda, "Code", Code)
    monkeypatch.setattr(cuda, "Buffer", Buffer)
    for k, tape in enumerate(seeded(30)):
        inputs = inputs_from(random.Random(-k).randrange, tape, dtype=dtype)
        out = [np.full((len(inputs[0]), p.size), 7.0, dtype) for p in tape.outputs]
        cuda.CudaKernel(tape, PRECISION[dtype], Device())(inputs, out)
        assert all(same_bits(a, b) for a, b in zip(out, by_definition(tape, inputs), strict=True)), f"{tape}"


@pytest.mark.skipif(not COMPILERS, reason="no C compiler")
@pytest.mark.parametrize("dtype", slow_except(["float64"], PRECISION))
def test_random_tapes_in_c(dtype: str, tmp_path: Path) -> None:
    tapes = seeded(60, elementary=True)
    source = "\n".join(c_source(lower(t, PRECISION[dtype]), PRECISION[dtype], f"kernel{k}") for k, t in enumerate(tapes))
    library = build(source, tmp_path, MODES[0])
    for k, tape in enumerate(tapes):
        inputs = inputs_from(random.Random(-k).randrange, tape, dtype=dtype, most=8)
        assert_same(call(library, f"kernel{k}", tape, inputs), by_definition(tape, inputs), tape)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6))
def test_values_are_those_of_the_operations(seed: int) -> None:
    """Where nothing is contracted, a subroutine gives what its operations give in its place; so do derivatives."""
    tape = with_calls(random.Random(seed).randrange)
    inputs = [x.astype(object) for x in inputs_from(random.Random(seed).randrange, tape, special=False)]
    for a, b in zip(on("mpfr:200", tape, inputs), on("mpfr:200", in_place(tape), inputs), strict=True):
        assert [str(x) for x in a.ravel()] == [str(x) for x in b.ravel()]


# ---- derivatives


def swinging(x: Any, u: Any, push: Any) -> Any:
    """An angle and its rate after some time, with a product that both read, a loop, a table and a value that is not used."""
    states, _ = cd.scan(lambda i, s, r: ((s[0] + 0.1 * s[1], s[1] - 0.1 * np.sin(s[0]) * r), None), (x[0], x[1]), u * push)
    table, _ = cd.scan(lambda i, s, r: (s * r, None), x[0] * x[1], u)
    return {"q": states[0] * x[1], "v": states[1] + x[0] * x[1], "unused": x[0] * x[1] * push, "product": table}


def swung(form: Callable[[Any], Any]) -> Callable[..., Any]:
    """A function that calls it in the body of a loop, with a value of the body."""

    def f(x: Any, u: Any) -> Any:
        def body(i: Any, s: Any) -> Any:
            end = form(lambda x, u: swinging(x, u, s[0] + i))(s, u)
            return array([end["q"] + end["product"], end["v"]])

        end = form(lambda y: {"y": y * y, "z": y[0] * y[1]})(cd.loop(body, x, 3))
        return {"y": end["y"] * x, "z": end["z"]}

    return f


def test_derivatives_are_those_of_the_operations() -> None:
    x, u = np.random.default_rng(0).normal(size=(2, 4, 2))
    ours, theirs = [cd.function(swung(form), x=2, u=2) for form in (subroutine, lambda f: f)]
    assert "call" in str(ours.tape) and "call" not in str(theirs.tape)
    weights = [np.random.default_rng(1).normal(size=(4, 2)), np.ones(4)]
    for derived in (
        lambda f: f.jacobian(mode="forward")(x, u),
        lambda f: f.jacobian(mode="reverse")(x, u),
        lambda f: f.jvp("x")(x, u, np.ones(2)),
        lambda f: f.vjp()(x, u, *weights),
        lambda f: f.hessian("z")(x, u),
        lambda f: f.sparse_jacobian("y", "u")[1:],
        lambda f: f.forward_and_backward()[1](x, u, *weights),
        lambda f: f.forward_and_backward()[0](x, u),
    ):
        for a, b in zip(derived(ours), derived(theirs), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_derivatives_of_random_tapes() -> None:
    """Of the same operations in the same order, at 200 bits."""
    compared = 0
    for seed in range(25):
        tape = with_calls(random.Random(seed).randrange)
        inputs = [x.astype(object) for x in inputs_from(random.Random(seed).randrange, tape, special=False)]
        pairs = [(jacobian(t, mode="forward"), vjp(t)) for t in (tape, in_place(tape))]
        for a, b in zip(*pairs, strict=True):
            weights = [np.ones((len(inputs[0]), p.size), object) for p in a.inputs[len(inputs) :]]
            for p, q in zip(on("mpfr:200", a, [*inputs, *weights]), on("mpfr:200", b, [*inputs, *weights]), strict=True):
                for m, n in zip(p.ravel(), q.ravel(), strict=True):
                    assert (m != m and n != n) or m == n or abs(m - n) <= 1e-40 * max(abs(m), abs(n), 1), f"{seed} {tape}"
                    compared += m != 0
    assert compared > 100


# ---- an edge that no decision of lowering crosses


def products(x: Any) -> list[Any]:
    """Sums of products, in which every product can be fused."""
    return [x[0] * x[1] + x[2], x[1] * x[2] - x[0], x[0] * x[1] + x[1] * x[2]]


READERS: dict[str, Callable[[Any, Any], Any]] = {
    "nothing": lambda x, r: [],
    "products of arguments": lambda x, r: [x[0] * x[1], x[1] * x[2]],
    "the same expressions": lambda x, r: [np.sin(y) for y in products(x)],
    "products of results": lambda x, r: [r[0] * r[1], r[0] * r[1] + r[2]],
}


def reading(form: Callable[[Any], Any], readers: str, given: tuple[int, ...] = (0, 1, 2)) -> cd.Function:
    def f(x: Any) -> dict[str, Any]:
        r = form(products)(x)
        return {"results": array([r[k] for k in given]), "more": array([*READERS[readers](x, r), 0.0])}

    return cd.function(f, cache=False, x=3)


@pytest.mark.parametrize("lanes", [1, 4])
def test_results_do_not_change_when_more_is_read(lanes: int) -> None:
    x = np.random.default_rng(0).normal(size=(200, 3))
    wanted = cd.function(lambda x: array(products(x)), x=3)(x)
    for readers in READERS:
        for some in ((0, 1, 2), (0,), (2, 1)):
            found = reading(subroutine, readers, some).on("cpu", lanes=lanes)(x)
            assert same_bits(found.results, wanted[:, some]), f"{readers}, {some}"
    # without an edge they do
    changed = [reading(lambda f: f, readers)(x).results for readers in READERS]
    assert not all(same_bits(found, wanted) for found in changed)


@settings(max_examples=15)
@given(data=st.data())
def test_results_of_random_subroutines_do_not_change_when_more_is_read(data: st.DataObject) -> None:
    """Random functions, read by what computes the same products, in part, twice, and with arguments that are one value."""
    seed, count = data.draw(st.integers(0, 10**6)), data.draw(st.integers(1, 4))
    x = np.random.default_rng(seed).normal(size=(5, 3))
    some = data.draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=4))

    def body(x: Any) -> list[Any]:
        scope = random_tapes.Scope(random.Random(seed).randrange, list(x), [], True)
        scope.grow(12, depth=2)
        return [scope.value() for _ in range(count)]

    def around(x: Any) -> Any:
        first, second = subroutine(body)(x), subroutine(body)(array([x[0], x[0], x[1]]))
        again = cd.loop(lambda i, s: array(subroutine(body)(array([x[0], x[1] + i, s[0]]))), array(first), 2)
        more = [a * b for a in (*x, *first, *body(x)) for b in (*second, *again)]
        return {"some": array([first[k] for k in some]), "more": array(more)}

    wanted = cd.function(lambda x: array(body(x)), cache=False, x=3)(x)
    assert same_bits(cd.function(around, cache=False, x=3)(x).some, wanted[:, some])


def test_a_compiled_function_gives_the_bits_of_a_call() -> None:
    f = cd.function(lambda x, k: {"r": array(products(x)) * k, "s": x @ x}, x=3, k=())
    x, k = np.random.default_rng(0).normal(size=(50, 3)), 0.3
    g = cd.function(lambda x: {**f.subroutine(x, 0.3)._asdict(), "p": array([x[0] * x[1], x @ x, f(x, 0.3).s])}, x=3)
    for a, b in zip(g(x), f(x, k), strict=False):
        assert same_bits(a, b)
    assert same_bits(f.subroutine(x, k).r, f(x, k).r)


# ---- linked


@pytest.fixture
def linked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """All subroutines that take and give numbers are linked."""
    monkeypatch.setattr(link, "LINKED", 1)
    yield


def on_the_cpu(tape: Tape, dtype: str, lanes: int | None, inputs: list[np.ndarray]) -> list[np.ndarray]:
    return computed(cpu.CpuBackend().compile(tape, PRECISION[dtype], Options(lanes)), tape, inputs, dtype)


@pytest.mark.parametrize("seed", slow_except(range(6), range(40)))
def test_random_tapes_with_linked_subroutines(linked: None, seed: int) -> None:
    """Inlined = linked, for each number of lanes, and for one state and batches as they are by default."""
    tape = with_calls(random.Random(seed).randrange, elementary=seed % 2 == 0)
    for dtype, precision in PRECISION.items():
        inputs = inputs_from(random.Random(-seed).randrange, tape, dtype=dtype, most=12)
        wanted = by_definition(tape, inputs)
        for lanes in (None, 1, 2, 4, 8):
            found = on_the_cpu(tape, dtype, lanes, inputs)
            assert all(same_bits(a, b) for a, b in zip(found, wanted, strict=True)), (
                f"{lanes} lanes\n{link.lower_linked(tape, precision)}"
            )


def test_most_random_subroutines_are_linked(linked: None) -> None:
    tapes = [with_calls(random.Random(seed).randrange) for seed in range(6)]
    assert sum(bool(subroutines(link.lower_linked(tape, "f64").block)) for tape in tapes) >= 3


def long_limbs(x: Any) -> Any:
    """Numbers of four limbs through a loop that ends when a sum over them is small, and one number of all."""
    y = limbs.spread(*[x[k] for k in range(4)])

    def body(i: Any, s: Any) -> Any:
        y = 0.5 * s + 0.1 * np.sin(s * x[4])
        return y - 0.01 * limbs.limb_sum(y * y)

    y = cd.loop(body, y, 20, until=lambda s: limbs.limb_max(s) < 0.01)
    return {"each": array([limbs.pick(y, k) for k in range(4)]), "sum": limbs.limb_sum(y * y)}


@pytest.mark.parametrize("dtype", PRECISION)
def test_a_linked_subroutine_has_its_limbs_side_by_side_for_one_state(linked: None, dtype: str) -> None:
    tape = trace_values(lambda x: {**(r := subroutine(long_limbs)(x)), "more": r["sum"] * x[0]}, x=5)
    assert subroutines(link.lower_linked(tape, "f64").block)
    alone = trace_values(long_limbs, x=5)
    lanes, few = cpu.limb_lanes(alone, PRECISION[dtype])
    assert lanes == 4 and cpu.limb_lanes(tape, PRECISION[dtype]) == (1, few)
    for states in (1, 13):
        inputs = [np.random.default_rng(0).normal(size=(states, 5)).astype(dtype)]
        wanted = reference(lower(alone, PRECISION[dtype]), inputs)
        for own in (None, 1, 2, 4):
            found = on_the_cpu(tape, dtype, own, inputs)
            assert all(same_bits(a, b) for a, b in zip(found, wanted, strict=False)), f"{own} lanes"


def test_long_bodies_are_linked_and_short_ones_are_not() -> None:
    def long(x: Any) -> Any:
        for _ in range(60):
            x = np.sin(x * x[::-1]) + x
        return x

    for body, count in ((long, 1), (lambda x: x * x, 0)):
        tape = trace(lambda x, body=body: subroutine(body)(x) * x, x=3)
        assert len(subroutines(link.lower_linked(tape, "f64").block)) == count
        inputs = inputs_from(random.Random(1).randrange, tape, most=20)
        for lanes in (None, 1, 8):
            assert same_bits(on_the_cpu(tape, "float64", lanes, inputs)[0], by_definition(tape, inputs)[0])
    rows = trace(lambda r: subroutine(lambda t: cd.scan(lambda i, s, x: (s + x[0], None), 0.0, t)[0])(r), r=cd.Rows(5, 1))
    assert not link.is_linked(subroutines(rows.block)[0], "f64"), "it takes a table"


def test_the_second_client_compiles_nothing_of_a_linked_subroutine(
    linked: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cache = ObjectCache(tmp_path / "cache")
    for module in (cpu, link):
        monkeypatch.setattr(module, "shared_cache", lambda: cache)
    step = cd.function(lambda x: np.tan(x) * x[0], cache=False, x=2)
    texts: list[str] = []
    compile_object = cpu.object_code
    monkeypatch.setattr(cpu, "object_code", lambda text: texts.append(text) or compile_object(text))
    x = np.array([[0.3, 0.7], [0.2, 0.1]])
    clients = [cd.function(lambda x, k=k: step.subroutine(x) * k, cache=False, x=2) for k in (2.0, 3.0)]
    assert np.array_equal(clients[0].on("cpu", lanes=2)(x), step(x) * 2.0)
    first = len(texts)
    assert sum("define void @subroutine_" in text for text in texts) == 1
    monkeypatch.setattr(Subroutine, "body", property(lambda self: pytest.fail("its operations are looked at")))
    assert np.array_equal(clients[1].on("cpu", lanes=2)(x), step(x) * 3.0)
    assert not any("define void @subroutine_" in text for text in texts[first:])
    # where its code is lost, it is compiled again
    monkeypatch.undo()
    for module in (cpu, link):
        monkeypatch.setattr(module, "shared_cache", lambda: cache)
    monkeypatch.setattr(link, "LINKED", 1)
    cpu._loaded.clear()
    for path in (tmp_path / "cache").glob("*.cdo"):
        if b"subroutine_" in path.read_bytes()[:200]:
            path.unlink()
    again = cd.function(lambda x: step.subroutine(x) * 2.0, cache=False, x=2).on("cpu", lanes=2)
    assert np.array_equal(again(x), step(x) * 2.0)


# ---- one node


def limbs_inside(x: Any) -> Any:
    """Sums over limbs of what each limb computes."""
    y = limbs.spread(x[0], x[1], x[2])
    return {"sum": limbs.limb_sum(y * y + x[0]), "each": [limbs.pick(np.sin(y * x[1]) + y, k) for k in range(3)]}


@pytest.mark.parametrize("record", [trace, trace_values])
def test_limbs_inside(record: Callable[..., Tape]) -> None:
    def f(x: Any) -> Any:
        found = subroutine(limbs_inside)(x)
        y = limbs.spread(found["each"][0], x[1])
        return {"r": array([found["sum"], *found["each"]]), "t": limbs.limb_sum(y * y)}

    tape = record(f, x=3)
    inputs = inputs_from(random.Random(0).randrange, tape, most=12)
    alone = record(lambda x: array([*[(r := limbs_inside(x))["sum"]], *r["each"]]), x=3)
    wanted = reference(lower(alone, "f64"), inputs)
    assert same_bits(reference(lower(tape, "f64"), inputs)[0], wanted[0])
    assert calls(tape) == 1
    check_all_lanes(tape, "f64", inputs)
    assert same_bits(cd.tape.function.Function(tape)(inputs[0])[0], wanted[0])
    assert np.isfinite(cd.tape.function.Function(tape).jacobian("r")(np.ones(3))).all()


def test_equal_calls_are_one_and_others_are_not() -> None:
    def f(x: Any) -> Any:
        return array([g(x)[0] for g in (subroutine(products), subroutine(products), subroutine(lambda x: [x[0] * x[1]]))])

    tape = trace(f, x=3)
    assert calls(tape) == 2
    assert tape.hash != trace(lambda x: array([products(x)[0]] * 2 + [x[0] * x[1]]), x=3).hash


def test_printed_stored_and_counted() -> None:
    tape = trace(swung(subroutine), x=2, u=2)
    again = Tape(tape.name, decode_block(encode_block(tape.block)), tape.inputs, tape.outputs)
    assert again.hash == tape.hash and str(again) == str(tape) and "call subroutine" in str(tape)
    assert tape.operations > trace(swung(lambda f: f), x=2, u=2).operations, "also what is not read"
    assert lower(again, "f64").hash == lower(tape, "f64").hash


def test_outside_of_a_trace_it_is_the_function() -> None:
    assert subroutine(products)([1.0, 2.0, 3.0]) == products([1.0, 2.0, 3.0])


def test_errors() -> None:
    total = subroutine(lambda rows: cd.scan(lambda i, s, x: (s + x[0], None), 0.0, rows)[0])
    with pytest.raises(TraceError, match="known at run time"):
        cd.function(lambda rows: total(rows), rows=cd.Rows(None, 1))
    with pytest.raises(TraceError, match="pick those of each limb"):
        trace_values(lambda x: limbs.pick(subroutine(lambda y: y * 2.0)(limbs.spread(x[0], x[1])), 0), x=2)
    with pytest.raises(TraceError, match="pick those of each limb"):
        trace_values(lambda x: limbs.pick(subroutine(lambda y: limbs.spread(y, 2.0 * y))(x[0]), 0), x=2)
