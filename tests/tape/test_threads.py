"""Calls from several threads, interrupted calls, forked processes, and calls while the interpreter ends.

Programs run in a process of their own, where a fault of memory or a wait without end is seen.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import condyle as cd
from condyle.tape import cache, threads, trace_cache
from condyle.tape.backends import cpu

ROOT = Path(__file__).resolve().parents[2]

# a function that takes 10 to 20 microseconds for a state
SLOW = """
import gc, os, random, signal, sys, threading, time, warnings
import numpy as np
import condyle as cd

def slow(x):
    return cd.loop(lambda i, y: np.sin(y + x), x, 500)

F = cd.function(slow, x=8).on("cpu", threads=4)
X = np.random.default_rng(0).normal(size=(4000, 8))
RIGHT = F(X)  # from now on it is known how long a state takes
"""


def run(program: str, *arguments: object, seconds: float = 100.0) -> str:
    """What a program prints that must end well, in development mode, with warnings as errors."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-X", "faulthandler", "-c", program, *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0 and not done.stderr, f"status {done.returncode}\n{done.stdout}\n{done.stderr[-3000:]}"
    return done.stdout


INTERRUPTED = """
class Late(Exception):
    pass

def late(*_):
    if armed:
        raise Late

armed = False
signal.signal(signal.SIGALRM, late)
rng, count, again = random.Random(7), int(sys.argv[1]), float(sys.argv[2])
start = time.perf_counter()
F(X)
duration, stopped = time.perf_counter() - start, 0
for k in range(count):
    out = np.full_like(RIGHT, -1.0) if k % 2 else None
    ended = False
    try:
        armed = True
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, duration), again)
        F(X.copy(), out=out)  # the copy is freed with the call
        ended = True
    except Late:
        pass
    armed = False
    signal.setitimer(signal.ITIMER_REAL, 0)
    before = None if out is None else out.copy()
    fresh = [np.full_like(RIGHT, 7.0) for _ in range(4)]
    time.sleep(0.3 * duration)
    stopped += not ended
    assert all((a == 7.0).all() for a in fresh), "arrays made afterwards were written"
    assert out is None or np.array_equal(out, before), "`out` was written after the exception"
    assert not ended or out is None or np.array_equal(out, RIGHT)
assert np.array_equal(F(X), RIGHT)
assert stopped >= count // 10, stopped
print(stopped)
"""


@pytest.mark.parametrize("again", [0.0, 0.0005], ids=["once", "again and again"])
@pytest.mark.parametrize("count", [30, pytest.param(500, marks=pytest.mark.slow)])
def test_nothing_is_written_after_a_call_was_interrupted(count: int, again: float) -> None:
    run(SLOW + INTERRUPTED, count, again, seconds=600.0)


def test_a_failing_helper_fails_the_call() -> None:
    class Failing:
        pieces = 1

        def run(self) -> None:
            if threading.current_thread() is not threading.main_thread():
                raise MemoryError("none left")
            time.sleep(0.2)  # until the helper has begun

    with pytest.raises(MemoryError, match="none left"):
        threads.share(Failing(), 1)


class Waiting:
    """Work of another thread and so many helpers, which have begun, until its end is set."""

    def __init__(self, helpers: int) -> None:
        self.pieces, self.end, self.begun = 1, threading.Event(), threading.Semaphore(0)
        self.caller = threading.Thread(target=threads.share, args=(self, helpers))
        self.caller.start()
        for _ in range(helpers):
            assert self.begun.acquire(timeout=10.0)

    def run(self) -> None:
        if threading.current_thread() is not self.caller:
            self.begun.release()
        self.end.wait()


def test_a_batch_does_not_wait_for_helpers_that_work_for_others() -> None:
    function = cd.function(lambda x: np.sin(x) * x, x=3).on("cpu", threads=3)
    x = np.random.default_rng(1).normal(size=(200_000, 3))
    kernel = function.kernel()
    assert isinstance(kernel, cpu.CpuKernel)
    others = Waiting(max(threads._pool.threads, 2))
    try:
        kernel.block_seconds = 1.0  # as if it were long: it asks for helpers, all of which are busy
        right = np.sin(x) * x
        done = threading.Event()
        caller = threading.Thread(target=lambda: np.testing.assert_allclose(function(x), right) or done.set(), daemon=True)
        caller.start()
        assert done.wait(timeout=10.0), "the batch waits for helpers of others"
    finally:
        others.end.set()
        others.caller.join()


def test_all_numbers_of_threads_share_one_pool() -> None:
    function = cd.function(lambda x: np.sin(x) * x, x=3)
    x, before = np.zeros((50_000, 3)), threads._pool.threads
    for k in range(2, 7):
        parallel = function.on("cpu", threads=k)
        parallel.kernel().block_seconds = 1.0  # type: ignore[attr-defined]
        parallel(x)
    assert threads._pool.threads == max(before, 5)
    # a batch that is over is kept by nobody, even if no helper ever began it
    others, array = Waiting(5), np.zeros((50_000, 3))
    try:
        parallel.kernel().block_seconds = 1.0  # type: ignore[attr-defined]
        parallel(array)
        assert sys.getrefcount(array) == 2
    finally:
        others.end.set()
        others.caller.join()


# ---- the fast call


def outer(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.outer(x, 2.0 * x), x + 1.0


def test_the_fast_call_from_several_threads_gives_each_its_own_numbers() -> None:
    function = cd.function(outer, x=40)
    call = function.fast_call()
    assert call is not None
    wrong = []

    def work(k: int) -> None:
        x = np.arange(40.0) + k
        right = outer(x)
        for _ in range(2000):
            found = call((x,))
            if found[1][0] != right[1][0] or found[0][0, 1] != right[0][0, 1] or found[0][-1, -1] != right[0][-1, -1]:
                wrong.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_the_fast_call_inside_of_itself_by_garbage_that_is_collected() -> None:
    import gc

    function = cd.function(outer, x=5)
    call = function.fast_call()
    assert call is not None
    x, right, inner = np.arange(5.0), outer(np.arange(5.0)), []

    class Garbage:
        def __init__(self) -> None:
            self.itself = self

        def __del__(self) -> None:
            inner.append(call((x + 100.0,)))

    thresholds = gc.get_threshold()
    gc.collect()
    try:
        gc.set_threshold(1)
        for _ in range(200):
            Garbage()
            for a, b in zip(call((x,)), right, strict=True):
                assert np.array_equal(a, b)
    finally:
        gc.set_threshold(*thresholds)
    gc.collect()
    assert len(inner) == 200
    for found in inner:
        assert np.array_equal(found[1], x + 101.0)


# ---- other processes, and the end of this one

FORKED = """
import concurrent.futures, multiprocessing
warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of each fork of a process with threads

def answer(x):
    return np.array_equal(F(x), RIGHT)

def in_child():
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # a wait without end
        small = cd.function(lambda x: x * 3.0, x=2)
        os._exit(0 if answer(X) and small(np.ones(2))[0] == 3.0 else 1)
    assert os.waitpid(child, 0)[1] == 0

F(X)
in_child()
thread = threading.Thread(target=in_child)
thread.start()
thread.join()
# while other threads are in the middle of a batch, or of a compilation
from condyle.tape.backends import cpu
text, over = F.source("llvm"), threading.Event()

def computing():
    while not over.is_set():
        F(X)

def compiling():
    while not over.is_set():
        cpu.object_code(text)

others = [threading.Thread(target=work) for work in (computing, compiling)]
for thread in others:
    thread.start()
for _ in range(5):
    time.sleep(0.01)
    in_child()
over.set()
for thread in others:
    thread.join()
context = multiprocessing.get_context("fork")
with context.Pool(2) as pool:
    assert all(pool.map_async(answer, [X] * 4).get(timeout=30))
with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
    assert all(pool.map(answer, [X] * 4, timeout=30))
assert answer(X)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_batches_in_forked_processes() -> None:
    run(SLOW + FORKED)


ENDING = """
import atexit

def check(where, call=F, given=X, right=RIGHT, same=np.array_equal, say=print):
    assert same(call(given), right)
    say(where, flush=True)

class Late:
    def __del__(self, check=check):
        check("finalizer")

def outlives():
    threading.main_thread().join()
    check("thread")

late = Late()
atexit.register(check, "atexit")
threading.Thread(target=outlives).start()
"""

DAEMON = """
def forever():
    while True:
        F(X)

for _ in range(3):
    threading.Thread(target=forever, daemon=True).start()
time.sleep(random.Random(int(sys.argv[1])).uniform(0.0, 0.1))
"""


def test_batches_while_the_interpreter_ends() -> None:
    assert set(run(SLOW + ENDING).split()) == {"thread", "atexit", "finalizer"}


@pytest.mark.parametrize("seed", [0, *[pytest.param(k, marks=pytest.mark.slow) for k in range(1, 20)]])
def test_a_process_ends_while_other_threads_compute(seed: int) -> None:
    run(SLOW + DAEMON, seed)


# ---- compilation


@pytest.mark.parametrize("shared", [True, False], ids=["one simulation", "one for each thread"])
def test_what_several_threads_need_is_compiled_once(shared: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty = cache.ObjectCache(tmp_path / "cache")
    for module in (cpu, trace_cache):
        monkeypatch.setattr(module, "shared_cache", lambda: empty)
    compiled: list[str] = []
    object_code = cpu.object_code

    def counted(text: str) -> bytes:
        compiled.append(text)
        time.sleep(0.1)
        return object_code(text)

    monkeypatch.setattr(cpu, "object_code", counted)
    robot = cd.load("pendulum")
    results: list[Any] = []
    warm = cd.Simulation(robot)
    warm.step(warm.state())  # what all functions need once is compiled
    compiled.clear()

    def world() -> cd.Simulation:
        return cd.Simulation(robot, dt=0.003)

    one, start = world(), threading.Barrier(4)

    def work() -> None:
        mine = one if shared else world()
        start.wait()
        results.append(mine.step(mine.state()))

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(results) == 4 and all(np.array_equal(x, results[0]) for x in results)
    assert len(compiled) == len(set(compiled)) == 1
