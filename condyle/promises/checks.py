"""Everything the compiler promises, one row each: `condyle verify compiler`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from condyle.demos.row import Row, Say, silent
from condyle.errors import CondyleError, MissingExtraError
from condyle.promises import bits, numbers
from condyle.promises.pendulum import compiled
from condyle.promises.result import Result, Skip

LANES = (1, 2, 4, 8)
Check = tuple[str, str, Callable[[], Result]]  # group, name, what gives the result


def checks(run: object = None, *, quick: bool = False, say: Say = silent) -> Iterator[Row]:
    """The rows, in order; `quick` leaves out the large tapes and the million pendulums. There is no run to look at."""
    compiled("pendulum").on("cpu", lanes=max(LANES)).kernel()  # a backend that cannot run says so before anything starts
    found = _table()
    for k, (group, name, make) in enumerate(found):
        say(name, k, len(found))
        if quick and group == "fast":
            yield Row(group, name, None)
            continue
        result = _result(make)
        yield Row(group, name, None if result.passed is None else float(not result.passed), high=0.0, said=result.detail)


def _table() -> list[Check]:
    everywhere, right, fast = "same bits", "right", "fast"
    lanes = ", ".join(map(str, LANES))
    return [
        (everywhere, f"lanes {lanes}", partial(bits.lane_widths, LANES, np.float64)),
        (everywhere, f"lanes {lanes}, 16; f32", partial(bits.lane_widths, (*LANES, 16), np.float32)),
        (everywhere, "batches of 1, 3, 4096", partial(bits.batch_sizes, (1, 3, 4096))),
        (everywhere, "threads 1, 2", partial(bits.thread_counts, (1, 2))),
        (everywhere, "plain Python", bits.reference),
        (everywhere, "exported C, -O0, -O3", partial(bits.exported_c, ("-O0", "-O3"))),
        (everywhere, "compiled, and cached", bits.fresh_and_cached),
        (everywhere, "other hash seeds", partial(bits.hash_seeds, (1, 2))),
        (right, "derivative of the loop", numbers.derivative),
        (right, "certified enclosure", numbers.enclosure),
        (fast, "compile, no cache", partial(numbers.compile_times, (5_000, 50_000))),
        (fast, "one call", numbers.call_overhead),
        (fast, "a million lanes", lambda: numbers.million()[0]),
    ]


def _result(make: Callable[[], Result]) -> Result:
    try:
        return make()
    except (Skip, MissingExtraError) as reason:
        return Result(None, str(reason))
    except (CondyleError, OSError, RuntimeError, ArithmeticError) as error:
        return Result(False, f"{type(error).__name__}: {error}")
