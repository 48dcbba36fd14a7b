"""The checks of the promise: the same bits whatever computes them."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from condyle.promises.pendulum import compiled, states
from condyle.promises.result import Result, Skip

MANY = 4099  # states: whole blocks of every lane width, and a tail
FEW = 1  # state for the reference interpreter, which takes seconds for each: every fma in exact fractions


def digest(outputs: np.ndarray) -> str:
    """The first digits of the sha256 of the bits."""
    return hashlib.sha256(np.ascontiguousarray(outputs).tobytes()).hexdigest()[:16]


def verdict(found: dict[str, str], what: str) -> Result:
    """Whether all digests are one."""
    if len(set(found.values())) == 1:
        return Result(True, f"{what}: {next(iter(found.values()))}", {"digests": found})
    listed = ", ".join(f"{name}: {bits}" for name, bits in found.items())
    return Result(False, f"{what} differ: {listed}", {"digests": found})


def lane_widths(lanes: Sequence[int], dtype: Any) -> Result:
    """The pendulum in vectors of every width."""
    f, x = compiled("pendulum"), states(MANY).astype(dtype)
    return verdict({f"{n} lanes": digest(f.on("cpu", lanes=n)(x)) for n in lanes}, f"{MANY:,} states")


def batch_sizes(sizes: Sequence[int]) -> Result:
    """The pendulum called on pieces of a batch."""
    f, x = compiled("pendulum"), states(max(sizes))
    whole = f(x)
    found = {f"all {len(x)}": digest(whole)}
    for size in sizes:
        count = min(len(x), 64 * size)
        pieces = np.concatenate([f(x[k : k + size]) for k in range(0, count, size)])
        found[f"by {size}"] = digest(np.concatenate([pieces, whole[count:]]))
    return verdict(found, f"{len(x):,} states")


def thread_counts(counts: Sequence[int]) -> Result:
    """The pendulum shared by several threads."""
    f, x = compiled("pendulum"), states(4 * MANY)
    return verdict({f"{n} threads": digest(f.on("cpu", threads=n)(x)) for n in counts}, f"{len(x):,} states")


def reference() -> Result:
    """The pendulum in plain Python floats, with an fma of exact fractions: the definition of what a tape means."""
    f = compiled("pendulum")
    found = {}
    for dtype in (np.float64, np.float32):
        x = states(FEW).astype(dtype)
        here, there = digest(f(x)), digest(f.on("reference")(x))
        found[dtype.__name__] = {"cpu": here, "reference": there}
        if here != there:
            return Result(False, f"{dtype.__name__} differs: cpu {here}, reference {there}", found)
    operations = f.operations
    return Result(True, f"{operations:,} operations in float64, and in float32", found)


def exported_c(levels: Sequence[str]) -> Result:
    """The pendulum as C, compiled by another compiler."""
    compiler = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)
    if compiler is None:
        raise Skip("there is no C compiler here: install gcc or clang to check the exported C")
    f, x = compiled("pendulum"), states(64)
    found = {"llvm": digest(f(x))}
    with tempfile.TemporaryDirectory(prefix="condyle-demo-") as folder:
        source = Path(folder, "pendulum.c")
        source.write_text(f.source("c"))
        for level in levels:
            library = Path(folder, f"pendulum{level}.so")
            flags = ["-std=c99", level, "-ffp-contract=off", "-fPIC", "-shared"]
            made = subprocess.run([compiler, *flags, str(source), "-o", str(library), "-lm"], capture_output=True, text=True)
            if made.returncode:
                return Result(False, f"{compiler} {level} failed: {made.stderr.strip()[:200]}")
            found[f"{Path(compiler).name} {level}"] = digest(_call_c(library, x))
    return verdict(found, f"{len(x)} states")


def _call_c(library: Path, x: np.ndarray) -> np.ndarray:
    function = ctypes.CDLL(str(library)).pendulum
    function.argtypes, function.restype = [ctypes.c_void_p] * 2, None
    y = np.empty_like(x)
    for row, out in zip(x, y, strict=True):
        function(row.ctypes.data, out.ctypes.data)
    return y


def fresh_and_cached() -> Result:
    """The pendulum compiled by a process that has no cache, and loaded by the next one, which finds it there."""
    with tempfile.TemporaryDirectory(prefix="condyle-demo-") as cache:
        runs = [elsewhere(CHILD, CONDYLE_CACHE=cache) for _ in range(2)]
    found = {name: run["digest"] for name, run in zip(("fresh", "cached"), runs, strict=True)}
    found["here"] = digest(compiled("pendulum")(states(MANY)))
    first, second = (run["load_seconds"] for run in runs)
    result = verdict(found, f"{first:.2f} s, then {second:.3f} s")
    return Result(result.passed, result.detail, {**result.numbers, "fresh_seconds": first, "cached_seconds": second})


def hash_seeds(seeds: Sequence[int]) -> Result:
    """The pendulum traced and compiled by processes in which sets and dicts of strings have another order."""
    runs = {f"PYTHONHASHSEED={seed}": elsewhere(CHILD, CONDYLE_CACHE="off", PYTHONHASHSEED=str(seed)) for seed in seeds}
    here = compiled("pendulum")
    found = {name: run["digest"] for name, run in runs.items()} | {"here": digest(here(states(MANY)))}
    tapes = {run["tape"] for run in runs.values()} | {here.tape.hash}
    if len(tapes) > 1:
        return Result(False, "the tapes differ: " + ", ".join(sorted(t[:16] for t in tapes)))
    return verdict(found, f"{MANY:,} states")


def elsewhere(code: str, **environment: str) -> dict[str, Any]:
    """What a line of Python printed as JSON in a new process."""
    package = str(Path(__file__).parents[2])
    path = os.pathsep.join(p for p in (package, os.environ.get("PYTHONPATH")) if p)
    settings = {**os.environ, "PYTHONPATH": path, **environment}
    done = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise RuntimeError(f"another Python process failed: {done.stderr.strip()[-300:]}")
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


CHILD = "from condyle.promises.bits import child; child()"


def child() -> None:
    """Print the tape's hash, the digest of the states and the seconds until the kernel was ready, as JSON."""
    f = compiled("pendulum")
    start = perf_counter()
    f.kernel()
    seconds = perf_counter() - start
    print(json.dumps({"tape": f.tape.hash, "digest": digest(f(states(MANY))), "load_seconds": seconds}))
