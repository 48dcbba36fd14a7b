"""Random numbers that are functions of their keys: Philox 4x32-10 on words, uniform and normal numbers.

There is no state and no order: the number of (seed, robot, tick, channel) is the same wherever it is computed, and next to which
others. On traced values the functions are recorded; on plain numbers and NumPy arrays they run as a compiled function, with the
same bits.

    counter = (robot, tick, channel, block), key = (seed modulo 2^32, seed / 2^32)

A block has four words. Entry k of a shape comes from block k // 2 (uniform) or k // 4 (normal), so a longer shape begins with the
numbers of a shorter one. Blocks of normal numbers are counted from 2^31, so that they are independent of the uniform ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.errors import BackendError, ShapeError, TraceError
from condyle.tape.array import _objects, assemble, where
from condyle.tape.interpret import WORD
from condyle.tape.loop import scan
from condyle.tape.scalar import Int, Scalar, _Traced, caller
from condyle.tape.table import current, is_recording
from condyle.tape.trace import trace

if TYPE_CHECKING:
    from condyle.tape.function import Function

ROUNDS = 10
UNROLLED = 16  # blocks of one call that are written out; more of them become a loop


def uniform(seed: Any, robot: Any, tick: Any, channel: Any, *, shape: int | tuple[int, ...] = (), dtype: Any = None) -> Any:
    """Uniform random numbers in [0, 1), of the given shape, for whole numbers seed < 2^64 and robot, tick, channel < 2^32.

    In float64 they are the multiples of 2^-53. In float32 they are those numbers rounded, but for what would become 1: that is
    1 - 2^-24. Arrays of keys broadcast, and the shape comes after their axes. `dtype`: of the result on plain numbers.
    """
    return _numbers("uniform", (seed, robot, tick, channel), shape, dtype)


def normal(seed: Any, robot: Any, tick: Any, channel: Any, *, shape: int | tuple[int, ...] = (), dtype: Any = None) -> Any:
    """Normal random numbers of mean 0 and variance 1, of the given shape, for the keys of `uniform`.

    Two numbers are r cos(a) and r sin(a) with r = sqrt(-2 log u) (Box and Muller 1958), from 40 random bits for u and 24 for the
    angle, in float32 as in float64. They are at most 7.54, which a normal number exceeds with a probability of 5e-14.
    """
    return _numbers("normal", (seed, robot, tick, channel), shape, dtype)


def philox(counter: Sequence[Any], key: Sequence[Any]) -> tuple[Any, ...]:
    """Four random words of a counter of four words and a key of two: Philox 4x32-10 (Salmon et al. 2011, Random123).

    Of traced words or numbers they are traced words; of whole numbers and NumPy arrays of them, uint32 arrays.
    """
    if len(counter) != 4 or len(key) != 2:
        raise ShapeError(f"{caller()}: philox needs four words as counter and two as key, got {len(counter)} and {len(key)}")
    if any(isinstance(x, _Traced) for x in (*counter, *key)):
        return tuple(_philox([_word(x) for x in counter], [_word(x) for x in key]))
    words = np.broadcast_arrays(*[_whole_number("a word", x, 32) for x in (*counter, *key)])
    return tuple([np.asarray(w, np.uint32)[()] for w in _philox(words[:4], words[4:])])


def _philox(counter: Sequence[Any], key: Sequence[Any]) -> list[Any]:
    """The rounds, on traced words, or on uint64 arrays of words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for i in range(ROUNDS):
        if i:
            k0, k1 = (k0 + 0x9E3779B9) & WORD, (k1 + 0xBB67AE85) & WORD
        (high0, low0), (high1, low1) = _product(c0, 0xD2511F53), _product(c2, 0xCD9E8D57)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
    return [c0, c1, c2, c3]


def _product(word: Any, factor: int) -> tuple[Any, Any]:
    """The upper and the lower word of a product."""
    if isinstance(word, Int):
        return word.multiply_high(factor), word * factor
    return word * factor >> 32, word * factor & WORD


# ---- numbers from words


def _uniform_pair(words: list[Int]) -> list[Any]:
    """Two numbers of 53 bits."""
    numbers = []
    for a, b in (words[:2], words[2:]):
        high = (a >> 8).to_real() * 2.0**-24
        u = high + (b >> 3).to_real() * 2.0**-53
        # only float32 can round up to 1
        numbers.append(where(u < 1.0, u, high))
    return numbers


def _normal_quartet(words: list[Int]) -> list[Any]:
    """Four numbers, in two pairs."""
    numbers = []
    for a, b in (words[:2], words[2:]):
        # between 2^-41 and 1, with all digits that the precision has where it is small, which is where the tails come from
        u = (a.to_real() + ((b & 0xFF).to_real() + 0.5) * 2.0**-8) * 2.0**-32
        radius = np.sqrt(-2.0 * np.log(u))
        # the angles are those of 2^24 points on the circle, half a step away from the axes; the difference is exact
        angle = ((b >> 8).to_real() - (2.0**23 - 0.5)) * (2.0**-23 * math.pi)
        numbers += [radius * np.cos(angle), radius * np.sin(angle)]
    return numbers


# kind -> (numbers of a block, first block, how they are made)
_KINDS: dict[str, tuple[int, int, Callable[[list[Int]], list[Any]]]] = {
    "uniform": (2, 0, _uniform_pair),
    "normal": (4, 2**31, _normal_quartet),
}


def _block(kind: str, keys: Sequence[Int], block: Any) -> list[Any]:
    """The numbers of one block, from five words: those of the seed, robot, tick and channel."""
    low, high, robot, tick, channel = keys
    _, first, make = _KINDS[kind]
    return make(_philox([robot, tick, channel, block + first], [low, high]))


# ---- traced, or compiled


def _numbers(kind: str, keys: tuple[Any, ...], shape: int | tuple[int, ...], dtype: Any) -> Any:
    shape = (shape,) if isinstance(shape, (int, np.integer)) else tuple(shape)
    each = _KINDS[kind][0]
    blocks = -(-math.prod(shape) // each)
    if blocks >= 2**31:
        raise ShapeError(f"{caller()}: {kind} numbers of shape {shape} are more than one key has; use more channels")
    if is_recording() or any(isinstance(x, _Traced) or np.asarray(x).dtype == object for x in keys):
        if dtype is not None:
            raise TraceError(f"{caller()}: traced numbers have the precision of the compiled function; leave out dtype={dtype!r}")
        fields = np.broadcast_arrays(*[_objects(x) for x in keys])
        made = [_traced(kind, state, blocks)[: math.prod(shape)] for state in zip(*[f.flat for f in fields], strict=True)]
        return assemble([x for numbers in made for x in numbers], (*fields[0].shape, *shape))
    return _computed(kind, keys, shape, blocks, np.dtype(np.float64 if dtype is None else dtype))


def _traced(kind: str, keys: tuple[Any, ...], blocks: int) -> list[Any]:
    """The numbers of the first blocks of one key, recorded."""
    seed, *others = keys
    words = [*_seed(seed), *[_word(x) for x in others]]
    if blocks <= UNROLLED:
        return [x for block in range(blocks) for x in _block(kind, words, block)]
    _, rows = scan(lambda i, state, _: (state, np.array(_block(kind, words, i.to_int()))), (), count=blocks)
    return [x for block in range(blocks) for x in rows[block]]


def _word(x: Any) -> Int:
    """A traced word."""
    if isinstance(x, Int):
        return x
    if isinstance(x, Scalar):
        return x.to_int()
    graph = current()
    return Int(graph, graph.const(int(_whole_number("a key", x, 32))))


def _seed(x: Any) -> tuple[Int, Int]:
    """The lower and the upper word of a seed."""
    if isinstance(x, Scalar):
        return x.to_int(), np.floor(x * 2.0**-32).to_int()
    if isinstance(x, Int):
        return x, _word(0)
    seed = int(_whole_number("the seed", x, 64))
    return _word(seed & WORD), _word(seed >> 32)


def _whole_number(what: str, x: Any, bits: int) -> np.ndarray:
    """Whole numbers of so many bits as uint64, or an error."""
    array = np.asarray(x)
    if array.dtype == object and all(isinstance(n, int) for n in array.flat):
        fits = all(0 <= n < 2**bits for n in array.flat)
    elif array.dtype.kind in "iu":
        fits = bool(((array >= 0) & (array <= 2**bits - 1)).all())
    else:
        fits = array.dtype.kind == "f" and bool(((array >= 0.0) & (array < 2.0**bits) & (array == np.floor(array))).all())
    if not fits:
        raise ShapeError(f"{caller()}: {what} of random numbers must be a whole number from 0 to 2^{bits} - 1, got {x!r:.60}")
    return array.astype(np.uint64)


def _computed(kind: str, keys: tuple[Any, ...], shape: tuple[int, ...], blocks: int, dtype: Any) -> Any:
    """The numbers of plain keys, by a compiled function of one block."""
    if dtype not in (np.dtype(np.float64), np.dtype(np.float32)):
        raise ShapeError(f"{caller()}: random numbers are float64 or float32, not {dtype}")
    seed = _whole_number("the seed", keys[0], 64)
    words = [seed & WORD, seed >> 32, *[_whole_number("a key", x, 32) for x in keys[1:]]]
    lead = np.broadcast_shapes(*[w.shape for w in words])
    each = _KINDS[kind][0]
    # float32 holds halves of words exactly
    columns = [*[w[..., None] for w in words], np.arange(blocks, dtype=np.uint64)]
    halves = [np.stack([w >> 16, w & 0xFFFF], axis=-1).astype(dtype) for w in columns]
    found = _generator(kind, dtype.str)(*halves) if blocks and math.prod(lead) else np.empty((*lead, blocks, each), dtype)
    result = found.reshape(*lead, blocks * each)[..., : math.prod(shape)].reshape((*lead, *shape))
    return result[()] if result.ndim == 0 else np.ascontiguousarray(result)


@cache
def _generator(kind: str, dtype: str) -> Function:
    """The compiled function of one block; where no code can be compiled, the interpreted one, with the same bits."""
    from condyle.tape.function import Function

    def numbers(**halves: Any) -> Any:
        *keys, block = [high.to_int() << 16 | low.to_int() for high, low in halves.values()]
        return np.array(_block(kind, keys, block))

    tape = trace(numbers, **dict.fromkeys(("seed_low", "seed_high", "robot", "tick", "channel", "block"), 2))
    compiled = Function(tape)
    try:
        compiled.kernel("f64" if np.dtype(dtype) == np.float64 else "f32")
    except BackendError:
        return Function(tape, "reference")
    return compiled
