"""A chaotic function has the same bits from a fresh process, from the cache, for every hash seed, and as C by another compiler.

`condyle verify compiler` checks lanes, batches, threads, backends, a derivative and an interval of the same function.
"""

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from processors import elsewhere

from condyle.apps.demos.compiler import MANY, compiled, digest, states

CHILD = """
import json
from condyle.apps.demos.compiler import MANY, compiled, digest, states
f = compiled()
print(json.dumps([f.tape.hash, digest(f(states(MANY)))]))
"""


@pytest.fixture(scope="module")
def expected() -> list[str]:
    f = compiled()
    return [f.tape.hash, digest(f(states(MANY)))]


def test_fresh_and_cached(expected: list[str], tmp_path: Path) -> None:
    assert [json.loads(elsewhere(CHILD, tmp_path, {})) for _ in range(2)] == [expected] * 2
    assert any(tmp_path.rglob("*"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["0", "1", "12345"])
def test_hash_seeds(expected: list[str], tmp_path: Path, seed: str) -> None:
    """Sets and dicts of strings have another order in that process."""
    assert json.loads(elsewhere(CHILD, tmp_path, {"PYTHONHASHSEED": seed})) == expected


@pytest.mark.parametrize("level", ["-O0", "-O2", "-O3"])
def test_exported_c(tmp_path: Path, level: str) -> None:
    compiler = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)
    if compiler is None:
        pytest.skip("there is no C compiler")
    f, x = compiled(), states(64)
    source, library = tmp_path / "pendulum.c", tmp_path / "pendulum.so"
    source.write_text(f.source("c"))
    flags = ["-std=c99", level, "-ffp-contract=off", "-fPIC", "-shared"]
    subprocess.run([compiler, *flags, str(source), "-o", str(library), "-lm"], check=True)
    function = ctypes.CDLL(str(library)).pendulum
    function.argtypes, function.restype = [ctypes.c_void_p] * 2, None
    y = np.empty_like(x)
    for state, out in zip(x, y, strict=True):
        function(state.ctypes.data, out.ctypes.data)
    assert np.array_equal(y.view(np.int64), f(x).view(np.int64))
