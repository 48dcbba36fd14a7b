"""Lean blocks: divisions and roots without branches within their bounds, everything again beyond them, and no bit changes."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tape.ptx_interpreter import Code
from tape.random_tapes import same_bits

import condyle as cd
from condyle.tape.lean import FAST
from condyle.tape.loop import loop
from condyle.tape.partition import device_form
from condyle.tape.ptx import ptx_source
from condyle.tape.table import zeros_table
from condyle.tape.tape import Block, Tape

TYPES = {"f64": np.float64, "f32": np.float32}
# zeros, subnormal numbers, the ends of the range and of the bounds, and what is no number
ODD = {
    "f64": [0.0, -0.0, 5e-324, 1e-310, 2.3e-308, 1e-290, 1e-150, 1e300, 1.7e308, np.inf, -np.inf, np.nan, -1e-3, 1.0],
    "f32": [0.0, -0.0, 1e-45, 1e-40, 1.2e-38, 1e-30, 1e-16, 1e37, 3.4e38, np.inf, -np.inf, np.nan, -1e-3, 1.0],
}


def solved(x: Any) -> Any:
    """Divisions and roots before, inside and behind an iteration, which ends at another time for every state."""
    scale = 1.0 / (x[0] + 2.0 * x[3])

    def body(_: Any, s: Any) -> Any:
        return 0.5 * s + np.sqrt(s * s + x[1] * x[1]) * scale + x[2] / s

    end = loop(body, x[1] + 1.0, 12, until=lambda s: s > 4.0 + x[3])
    return {"end": end, "more": x[0] / (x[2] * end), "root": np.sqrt(x[3]), "of": x[0] / x[3], "small": 1e-40 / x[1]}


def on_gpu(tape: Tape, precision: str, x: np.ndarray) -> list[np.ndarray]:
    """The outputs of a tape in the form of a GPU, by the interpreter."""
    return launched(ptx_source(tape, precision), tape, x)


def launched(text: str, tape: Tape, x: np.ndarray) -> list[np.ndarray]:
    """The outputs of the PTX of a tape."""
    out = [np.full((len(x), port.size), 7.5, x.dtype) for port in tape.outputs]
    words = [word for a in (x, *out) for word in (a.ctypes.data, a.strides[0], a.itemsize)]
    Code(None, text.encode(), "kernel").launch(-(-len(x) // 64), 64, struct.pack(f"<{len(words)}q", *words), (len(x), 0))
    return out


def fast_operations(block: Block) -> int:
    """Divisions and roots without branches, in loops, too."""
    return sum([node.data == FAST if node.op != "loop" else fast_operations(node.data.body) for node in block.nodes])


@pytest.fixture(scope="module")
def function() -> Any:
    return cd.function(solved, cache=False, x=4)


@pytest.fixture(scope="module")
def forms(function: Any) -> dict[str, Tape]:
    """The function in the form of a GPU, by precision."""
    return {precision: device_form(function.tape, precision) for precision in TYPES}


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_odd_numbers_have_the_bits_of_the_processor(function: Any, precision: str) -> None:
    form = device_form(function.tape, precision)
    assert fast_operations(form.block) == 7
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 4)).astype(TYPES[precision])
    for states in (slice(0, 400), slice(100, 400), slice(200, 400)):  # up to three odd numbers in a state
        x[np.arange(400)[states], rng.integers(0, 4, 400)[states]] = rng.choice(ODD[precision], 400)[states]
    for found, wanted in zip(on_gpu(form, precision, x), function(x), strict=True):
        assert same_bits(found, np.asarray(wanted).reshape(found.shape))


@pytest.mark.parametrize("precision", ["f64", "f32"])
def test_every_pair_of_odd_numbers_is_divided_as_by_the_processor(precision: str) -> None:
    """One division at a time: no other one tells that a number is beyond its bounds."""

    def divided(x: Any) -> Any:
        end = loop(lambda _, s: 0.5 * s + 1.0 / s, x[2], 4, until=lambda s: s < 1.5)
        return {"of": x[0] / x[1], "end": end}

    function, odd = cd.function(divided, cache=False, x=3), np.array(ODD[precision], TYPES[precision])
    a, b = np.meshgrid(odd, odd)
    x = np.ascontiguousarray(np.column_stack([a.ravel(), b.ravel(), np.full(a.size, 2.0)]).astype(TYPES[precision]))
    for found, wanted in zip(on_gpu(device_form(function.tape, precision), precision, x), function(x), strict=True):
        assert same_bits(found, np.asarray(wanted).reshape(found.shape))


@pytest.mark.parametrize("precision", ["f64", "f32"])
@given(bits=st.lists(st.integers(0, 2**64 - 1), min_size=4, max_size=4))
def test_any_numbers_have_the_bits_of_the_processor(
    function: Any, forms: dict[str, Tape], precision: str, bits: list[int]
) -> None:
    word = np.array(bits, np.uint64) if precision == "f64" else (np.array(bits, np.uint64) >> np.uint64(32)).astype(np.uint32)
    x = np.ascontiguousarray(word.view(TYPES[precision])[None, :])
    for found, wanted in zip(on_gpu(forms[precision], precision, x), function(x), strict=True):
        assert same_bits(found, np.asarray(wanted).reshape(found.shape))


def test_usual_numbers_are_computed_once(function: Any) -> None:
    """What is behind the lean form is not entered: it may be anything."""
    form = device_form(function.tape, "f64")
    text = ptx_source(form, "f64")
    broken = text.replace("div.rn.f64", "sub.rn.f64")
    assert broken != text
    usual = np.random.default_rng(1).uniform(0.5, 1.0, (64, 4))
    for found, wanted in zip(launched(broken, form, usual), function(usual), strict=True):
        assert same_bits(found, np.asarray(wanted).reshape(found.shape))
    odd = np.concatenate([usual[:, :2], np.full((64, 1), 1e-300), usual[:, 3:]], axis=1)
    assert not same_bits(launched(broken, form, odd)[0], np.asarray(function(odd)[0]).reshape(64, 1))


def test_a_table_among_the_results_leaves_the_iterations_lean() -> None:
    def both(x: Any) -> Any:
        def tick(k: Any, carry: Any) -> Any:
            table, s = carry
            end = loop(lambda _, y: 0.5 * (y + s / y), s + 1.0, 20, until=lambda y: abs(y * y - s) < 1e-3 * s)
            return table.set((k, 0), end), end + 1.0 / s

        table, s = loop(tick, (zeros_table((3, 1)), x[0]), 3)
        return {"s": s, "sum": table[0, 0] + table[2, 0]}

    made = cd.function(both, cache=False, x=1)
    form = device_form(made.tape, "f64")
    assert fast_operations(form.block) == 1
    x = np.array([[2.0], [1e-300], [3.0], [np.nan], [0.0]])
    for found, wanted in zip(on_gpu(form, "f64", x), made(x), strict=True):
        assert same_bits(found, np.asarray(wanted).reshape(found.shape))
