"""Traces of users' functions on disk: found again when nothing they depend on has changed, and only then."""

from __future__ import annotations

import functools
import itertools
import math
import os
import subprocess
import sys
import time
import types
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from tape.random_tapes import random_tapes

import condyle as cd
from condyle.tape import trace_cache
from condyle.tape.fingerprint import fingerprint
from condyle.tape.tape import Tape
from condyle.tape.tape_codec import decode_block, encode_block
from condyle.tape.trace_cache import CachedTape

SCALE = 2.0


def digest(*values):
    found = fingerprint(*values)
    return None if found is None else found.digest


# ---- what changes a fingerprint


@dataclass
class Settings:
    gain: float
    matrix: np.ndarray

    def scaled(self, x):
        return x * self.gain


class Child(Settings):
    pass


@dataclass(frozen=True)
class Frozen:
    gain: float
    others: tuple[float, ...] = field(default_factory=tuple)


class Point(NamedTuple):
    x: float
    y: float = 2.0


class Mode(Enum):
    SLOW = 1.0
    FAST = 2.0


def closing_over(value):
    return lambda x: x * value


def defaulting_to(value):
    return lambda x, y=value: x * y


def helper_of(constant):
    """A function whose helper has another constant in its code."""
    helper = eval(f"lambda x: x * {constant}", {})
    return lambda x: helper(x)


def module_of(value):
    module = types.ModuleType("helpers")
    module.gain, module.unused = value, value if isinstance(value, float) else 0.0
    return eval("lambda x: x * helpers.gain", {"helpers": module})


def method_of(value):
    return types.SimpleNamespace if value is None else Settings(value, np.eye(2)).scaled


def attribute_of(value):
    def function(x):
        return x * function.gain

    function.gain = value
    return function


PAIRS = [
    (attribute_of, 1.0, 2.0),
    (closing_over, 1.0, 2.0),
    (closing_over, 0.0, -0.0),
    (closing_over, 1, 1.0),
    (closing_over, 1, True),
    (closing_over, (1, 2), (1, 3)),
    (closing_over, [1, [2]], [[1], 2]),
    (closing_over, {"a": 1}, {"a": 2}),
    (closing_over, {1, 2}, {1, 3}),
    (closing_over, np.arange(3.0), np.arange(3.0) + 1e-16 * np.array([0, 2.3, 0])),
    (closing_over, np.zeros(4), np.zeros((2, 2))),
    (closing_over, np.zeros(4), np.zeros(4, np.float32)),
    (closing_over, np.float64(1.0), np.float32(1.0)),
    (closing_over, Settings(1.0, np.eye(2)), Settings(1.0, 2 * np.eye(2))),
    (closing_over, Settings(1.0, np.eye(2)), Child(1.0, np.eye(2))),
    (closing_over, Frozen(1.0), Frozen(2.0)),
    (closing_over, Point(1.0), Point(1.0, 3.0)),
    (closing_over, Mode.SLOW, Mode.FAST),
    (closing_over, types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)),
    (closing_over, OrderedDict(a=1, b=2), OrderedDict(b=2, a=1)),
    (closing_over, defaultdict(list), defaultdict(dict)),
    (closing_over, Fraction(1, 3), Fraction(1, 4)),
    (closing_over, np.cross, np.dot),
    (closing_over, np.sin, np.cos),
    (closing_over, math.sin, math.cos),
    (closing_over, functools.partial(pow, 2), functools.partial(pow, 3)),
    (closing_over, slice(1), slice(2)),
    (closing_over, len, sum),
    (defaulting_to, 1.0, 2.0),
    (helper_of, 1.0, 2.0),
    (module_of, 1.0, 2.0),
    (method_of, 1.0, 2.0),
]


@pytest.mark.parametrize("make, a, b", PAIRS)
def test_another_value_is_another_fingerprint(make, a, b):
    assert digest(make(a)) is not None and digest(make(a)) == digest(make(a))
    assert digest(make(b)) is not None and digest(make(a)) != digest(make(b))


def test_globals_count_if_they_are_used():
    text = "def f(x):\n    return x * GAIN + g(x)\ndef g(x):\n    return x + OFFSET\n"
    found = []
    for values in ({"GAIN": 1.0, "OFFSET": 1.0}, {"GAIN": 2.0, "OFFSET": 1.0}, {"GAIN": 1.0, "OFFSET": 2.0}):
        for unused in (3.0, time):
            names = {**values, "UNUSED": unused}
            exec(text, names)
            found.append(digest(names["f"]))
    assert None not in found and found[0::2] == found[1::2] and len(set(found)) == 3


def test_of_a_module_what_is_used_counts():
    import math as m
    import time as t

    import numpy as numpy_here

    assert digest(lambda x: numpy_here.sin(x) * m.pi) is not None
    assert digest(lambda x: numpy_here.random.normal()) is None and digest(lambda x: t.time()) is None
    assert digest(lambda x: cd.random.normal(1, 2, 3, 4) + numpy_here.sin(x)) is not None
    assert digest(closing_over(np)) is None


def test_layout_and_comments_do_not_count():
    first, second = {}, {}
    exec("def f(x):\n    return x * 2.0\n", first)
    exec("\n\n# why\ndef f(x):\n\n    # because\n    return (x *\n        2.0)\n", second)
    assert digest(first["f"]) == digest(second["f"]) is not None


def test_robots_simulations_functions_and_parameters():
    arm, other = cd.load("pendulum"), cd.load("chain:2")
    f = cd.function(lambda x: x * 3.0, x=2)
    g = cd.function(lambda x: x * 4.0, x=2)
    worlds = [cd.Simulation(arm), cd.Simulation(arm, 0.001), cd.Simulation(other)]
    mass = cd.parameter("mass", 1.0)
    values = [arm, other, f, g, f.tape, *worlds, mass, cd.parameter("mass", 2.0), cd.parameter("m", 1.0)]
    digests = [digest(closing_over(v)) for v in values]
    assert None not in digests and len(set(digests)) == len(values)
    assert digest(closing_over(cd)) is None, "its names are imported when they are used"
    # using them changes nothing
    before = digest(arm, worlds[0])
    worlds[0].step(worlds[0].state(), np.zeros(1))
    arm.mass_matrix(arm.neutral())
    loaded = cd.load("pendulum")
    assert digest(arm, worlds[0]) == before == digest(loaded, cd.Simulation(loaded))
    assert fingerprint(closing_over(mass)).parameters == {"mass": mass}
    assert "condyle.multibody.robot" in fingerprint(closing_over(arm.mass_matrix)).modules


class Opaque:
    __slots__ = ("file",)


def prints(x):
    print("traced")
    return x


def reads(x):
    with open("gain.txt") as file:
        return x * float(file.read())


def waits(x):
    return x * time.time()


def draws(x):
    return x * np.random.normal()


def imports(x):
    import math

    return x * math.pi


def asks(x):
    return x * float(os.environ.get("GAIN", "1"))


def sets(x):
    global SCALE
    SCALE = 3.0
    return x


@pytest.mark.parametrize(
    "function",
    [
        *(prints, reads, waits, draws, imports, asks, sets),
        closing_over(np.random.default_rng(0)),
        closing_over(iter([1, 2])),
        closing_over(itertools.count()),
        closing_over(open(os.devnull)),  # noqa: SIM115
        closing_over(Path(".")),
        closing_over(pytest),
        closing_over(pytest.approx(1.0)),
        closing_over(np.random.normal),
    ],
)
def test_what_cannot_be_known_has_no_fingerprint(function):
    assert fingerprint(function) is None
    assert digest(lambda x: function(x)) is None


# ---- traces


def test_a_function_is_traced_once(monkeypatch):
    calls = []
    real = trace_cache.trace
    monkeypatch.setattr(trace_cache, "trace", lambda f, **shapes: calls.append(1) or real(f, **shapes))

    def made(gain, **options):
        return cd.function(lambda x: np.sin(gain * x) * SCALE + 0.123456, x=3, **options)

    number = float(np.random.default_rng().normal())
    f, again = made(number), made(number)
    assert len(calls) == 1 and isinstance(again.tape, CachedTape) and not isinstance(f.tape, CachedTape)
    x = np.arange(3.0)
    assert np.array_equal(f(x), again(x)) and repr(f) == repr(again)
    made(number + 1.0)
    assert len(calls) == 2
    monkeypatch.setitem(globals(), "SCALE", SCALE + number)
    changed = made(number)
    assert len(calls) == 3 and not np.array_equal(changed(x), f(x))
    made(number, cache=False)
    assert len(calls) == 4
    # the tape is that of the values at the time it was traced, not of those now
    assert again.tape.block.nodes == f.tape.block.nodes and len(calls) == 4
    assert again.jacobian().tape.hash == f.jacobian().tape.hash != changed.jacobian().tape.hash


def test_a_function_that_leaves_something_behind_is_traced_each_time():
    seen = []

    def f(x):
        seen.append(x.shape)
        return x * 0.456

    for count in (1, 2, 3):
        seen.clear() if count == 3 else None
        cd.function(f, x=2)
        assert len(seen) == (count if count < 3 else 1)


def test_parameters_are_the_same_objects(monkeypatch):
    mass = cd.parameter("mass", float(np.random.default_rng().normal()))
    made = [cd.function(lambda x: x * mass + 0.789, x=2) for _ in range(2)]
    assert isinstance(made[1].tape, CachedTape) and made[1].parameters == {"mass": mass}
    assert np.array_equal(made[0](np.ones(2)), made[1](np.ones(2)))
    jacobians = [f.jacobian("out", "mass") for f in made]
    assert jacobians[1].parameters == {"mass": mass} and np.array_equal(jacobians[0](np.ones(2)), jacobians[1](np.ones(2)))
    # one that is created while tracing is not known before
    made = [cd.function(lambda x: x * cd.parameter("late", 2.0) + 0.789, x=2) for _ in range(2)]
    assert not isinstance(made[1].tape, CachedTape) and np.array_equal(made[1](np.ones(2)), [2.789, 2.789])


def test_operations_that_are_no_longer_there_are_traced_again_or_an_error(monkeypatch):
    gain = {"value": float(np.random.default_rng().normal())}

    def f(x):
        return x * gain["value"]

    cd.function(f, x=2)
    monkeypatch.setattr(trace_cache, "_block_place", lambda tape_hash: "0" * 64)
    assert cd.function(f, x=2).tape.block.params == 2
    late = cd.function(f, x=2)
    gain["value"] += 1.0
    with pytest.raises(cd.TraceError, match="has changed since it was compiled"):
        late.tape.block  # noqa: B018


def test_linearize_follows_what_a_python_function_uses(monkeypatch):
    def f(x):
        return x * SCALE

    assert cd.linearize(f, 1.0)[1] == SCALE
    monkeypatch.setitem(globals(), "SCALE", 7.0)
    assert cd.linearize(f, 1.0)[1] == 7.0


@settings(max_examples=30)
@given(random_tapes(elementary=True))
def test_blocks_are_the_same_after_encoding(tape):
    assert Tape(tape.name, decode_block(encode_block(tape.block)), tape.inputs, tape.outputs).hash == tape.hash


def test_blocks_with_loops_calls_tables_and_odd_numbers_are_the_same_after_encoding():
    def f(x):
        rule = cd.custom_jvp(lambda y: y * 2.0, lambda args, y, t: t[0] * 3.0)
        table = cd.table(x).set(1, np.inf)
        end = cd.loop(lambda i, s: s * table[i] + rule(s), x[0], 3, until=lambda s: s > 1e300)
        return {"a": end, "b": x * np.nan, "c": np.copysign(0.0, -1.0) * x[0] - 0.0, "d": (x[0].to_int() + 5).to_real()}

    tape = cd.trace(f, x=3)
    assert Tape(tape.name, decode_block(encode_block(tape.block)), tape.inputs, tape.outputs).hash == tape.hash


# ---- between processes

SCRIPT = """
import json, sys
import numpy as np
import condyle as cd
import helpers
from condyle.tape import passes, trace_cache
from condyle.tape.backends import cpu

counts = {"trace": 0, "lower": 0, "compile": 0}

def counted(module, name, what):
    real = getattr(module, name)
    def call(*args, **named):
        counts[what] += 1
        return real(*args, **named)
    setattr(module, name, call)

robot = cd.load("pendulum")

def user(q, v):
    return helpers.damped(robot.forward_dynamics(q, v, np.zeros(1)), v)

counted(trace_cache, "trace", "trace")
counted(cpu, "lower", "lower")
counted(cpu, "_compiled", "compile")
f = cd.function(user, q=1, v=1)
result = f([0.3], [0.5]), f.jacobian("out", "q")([0.3], [0.5])
print(json.dumps([counts, [np.asarray(r).tolist() for r in result]]))
"""


@pytest.mark.slow
def test_a_second_process_neither_traces_nor_lowers_nor_compiles(tmp_path):
    import json

    (tmp_path / "script.py").write_text(SCRIPT)
    helpers, constants = tmp_path / "helpers.py", tmp_path / "constants.py"
    helpers.write_text("import constants\n\ndef damped(a, v):\n    return a - constants.DRAG * v\n")
    constants.write_text("DRAG = 0.25\n")
    (tmp_path / "cache").mkdir(mode=0o700)
    environment = {
        **os.environ,
        "CONDYLE_CACHE": str(tmp_path / "cache"),
        "PYTHONPATH": str(trace_cache.ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
    }

    def run():
        done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    cold, warm = run(), run()
    assert cold[0]["trace"] == 1 and cold[0]["compile"] > 0 and warm[0] == {"trace": 0, "lower": 0, "compile": 0}
    assert warm[1] == cold[1]
    constants.write_text("DRAG = 0.5\n")
    changed = run()
    assert changed[0]["trace"] == 1 and changed[1][0] != cold[1][0]
