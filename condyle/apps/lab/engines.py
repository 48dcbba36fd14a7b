"""Where the chunks of a sweep are computed: in this process, in processes of this computer, on a Ray cluster, or with Dask.

An engine takes jobs, which are plain data, and yields (number, result) in the order in which they end. A job whose worker dies,
or that fails by anything but wrong values, is repeated; after RETRIES times the sweep ends with an error; what is done is kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

from condyle.apps.lab.chunks import compute_safely
from condyle.errors import ControlError, require
from condyle.robot.names import nearest

RETRIES = 3
AHEAD = 2  # jobs for each worker that are handed out at once
Result = tuple[list[bool], list[list[float]]]
Jobs = Sequence[tuple[int, dict[str, Any]]]  # (number, job)
Done = Iterator[tuple[int, Result]]


def local(jobs: Jobs, workers: int, address: str | None = None) -> Done:
    """On processes of this computer; one worker, or one job, is computed in this process.

    A job that fails is repeated. If a process is killed, all are started again.
    """
    if address is not None:
        raise ControlError("the engine 'local' takes no address: it is this computer; choose --engine ray or dask")
    if workers == 1 or len(jobs) < 2:
        for number, job in jobs:
            yield number, compute_safely(job)
        return
    waiting, failures = list(jobs), 0
    cause: Exception | None = None
    while waiting:
        running: dict[Future[Result], tuple[int, dict[str, Any]]] = {}
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_one_thread) as pool:
            while (waiting or running) and failures <= RETRIES:
                try:
                    while waiting and len(running) < AHEAD * workers:
                        running[pool.submit(compute_safely, waiting[0][1])] = waiting[0]
                        del waiting[0]
                    ended, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in ended:
                        result = future.result()
                        yield running.pop(future)[0], result
                except BrokenProcessPool as error:
                    failures, cause = failures + 1, error
                    waiting = [*running.values(), *waiting]
                    break
                except (OSError, MemoryError, RuntimeError) as error:
                    failures, cause = failures + 1, error
                    failed = [each for each in ended if each in running and each.exception() is not None]
                    waiting = [*(running.pop(each) for each in failed), *waiting]
        if failures > RETRIES:
            raise given_up(cause) from cause


def given_up(cause: BaseException | None) -> ControlError:
    """The error after a job has failed too often."""
    why = "" if cause is None else f" ({type(cause).__name__}: {' '.join(str(cause).split())[:120]})"
    return ControlError(
        f"a job of the sweep failed {RETRIES + 1} times{why}, perhaps for lack of memory: give --batch a smaller number and "
        "run it again; what is done is kept"
    )


def _one_thread() -> None:
    """None; the linear algebra of a worker uses one thread: all cores have a worker already."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def ray(jobs: Jobs, workers: int, address: str | None = None) -> Done:
    """On a Ray cluster: that at `address`, or one of this computer; Ray repeats the tasks of workers that die."""
    library = require("ray", "cluster", "sweeps on a Ray cluster")
    started = not library.is_initialized()
    if started:
        more = {"address": address} if address is not None else {"num_cpus": workers, "include_dashboard": False}
        library.init(log_to_driver=False, configure_logging=False, **more)
    try:
        remote = library.remote(num_cpus=1, max_retries=RETRIES, retry_exceptions=True)(compute_safely)
        waiting = list(jobs)
        running: dict[Any, int] = {}
        while waiting or running:
            while waiting and len(running) < AHEAD * workers:
                number, job = waiting.pop(0)
                running[remote.remote(job)] = number
            ended, _ = library.wait(list(running), num_returns=1)
            for each in ended:
                try:
                    result = library.get(each)
                except library.exceptions.RayError as error:
                    raise given_up(error) from error
                yield running.pop(each), result
    finally:
        if started:
            library.shutdown()


def dask(jobs: Jobs, workers: int, address: str | None = None) -> Done:
    """With Dask: the scheduler at `address`, or a local cluster with so many workers."""
    library = require("distributed", "cluster", "sweeps with Dask")
    options = (
        {"address": address}
        if address is not None
        else {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None}
    )
    with library.Client(**options) as client:
        waiting = list(jobs)
        queue = library.as_completed()
        numbers: dict[Any, int] = {}

        def hand_out() -> None:
            number, job = waiting.pop(0)
            future = client.submit(compute_safely, job, pure=False, retries=RETRIES)
            numbers[future.key] = number
            queue.add(future)

        for _ in range(min(AHEAD * workers, len(waiting))):
            hand_out()
        for future in queue:
            if future.status == "error":
                raise given_up(future.exception())
            yield numbers.pop(future.key), future.result()
            if waiting:
                hand_out()


ENGINES: dict[str, Callable[..., Done]] = {"local": local, "ray": ray, "dask": dask}


def engine(name: str) -> Callable[..., Done]:
    """The engine of this name."""
    if name not in ENGINES:
        raise ControlError(f"there is no engine '{name:.40}'{nearest(name, list(ENGINES))}")
    return ENGINES[name]
