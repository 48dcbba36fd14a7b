"""Million steps per second of ANYmal in contact on an NVIDIA GPU, against MuJoCo Warp and MJX there, in the same process.

    python -m benchmarks gpu_peers                                # where robots and LLVM are installed
    python -m benchmarks.gpu_peers FOLDER --json gpu_peers.json   # from a folder of `python -m benchmarks.gpu_cases FOLDER`

All compute in float32, 64 steps in one call: ours as one kernel, MuJoCo Warp as a CUDA graph, MJX as one scan. Standing: each in
its own state of rest under constant torques. Treading: the same first states and torques for all.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import gpu_cases
from benchmarks.gpu_cases import STEPS, Case
from benchmarks.measured import Rate, computer, gpu_name, load_average, write
from benchmarks.mjx_steps import Scenes
from benchmarks.mjx_steps import stepper as mjx_stepper

if TYPE_CHECKING:
    from rich.console import Console

BATCHES = (1 << 10, 1 << 13, 1 << 15, 1 << 17)
TASKS = ("step, standing", "step, treading")
REPEATS = 5
CONTACTS, CONSTRAINTS = 8, 32  # of a robot, that MuJoCo Warp keeps memory for: four feet, their pyramids, and joint limits
TOO_SLOW = 20.0  # s of a call from which on larger batches are left out
COMMAND = "python -m benchmarks gpu_peers"
Call = Callable[[], Any]  # 64 steps of a batch, until the results are there


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the rates and return them."""
    if not gpu_name():
        console.print("no GPU was found: nothing is measured")
        return {}
    with tempfile.TemporaryDirectory(prefix="condyle-bench-") as folder:
        gpu_cases.main(folder, "anymal")
        gpu_cases.save_peers(Path(folder))
        return {"rows": [vars(row) for row in measure(Path(folder), BATCHES[:1] if tiny else BATCHES, console.print)]}


def rates(found: dict[str, Any]) -> list[Rate]:
    """The rates of a result file."""
    return [Rate(**row) for row in found["rows"]]


def main(words: Sequence[str] | None = None) -> None:
    """Measure from a folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu_peers", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="written by python -m benchmarks.gpu_cases FOLDER")
    parser.add_argument("--json", type=Path, dest="file", help="also write a result file")
    parser.add_argument("--batches", default="", help="sizes, with commas")
    parser.add_argument("--libraries", default=",".join(LIBRARIES), help="which, with commas")
    given = parser.parse_args(words)
    if not gpu_name():
        raise SystemExit("no GPU was found: nothing is measured")
    load = load_average()
    batches = tuple(int(n) for n in given.batches.split(",")) if given.batches else BATCHES
    rows: list[Rate] = []
    for row in measure(given.folder, batches, lambda text: print(text, flush=True), given.libraries.split(",")):
        rows.append(row)
        # after each one: what was measured survives a later failure
        if given.file:
            write(given.file, "gpu_peers", COMMAND, rows, {}, computer(gpu_name(), load))


def measure(folder: Path, batches: Sequence[int], say: Callable[[str], None], names: Sequence[str] = ()) -> Iterator[Rate]:
    """The rates of each library, as they are measured; one sentence for a library that is missing or fails."""
    say(f"million steps per second, float32; batches {', '.join(f'{n:,}' for n in batches)}")
    for name in names or LIBRARIES:
        try:
            for task in TASKS:
                yield from rates_of(name, task, folder, batches, say)
        except ModuleNotFoundError as error:
            say(f"{name} is left out: the package {error.name} is not installed")


def rates_of(name: str, task: str, folder: Path, batches: Sequence[int], say: Callable[[str], None]) -> Iterator[Rate]:
    """The rates of one library, up to the batch where it fails or is too slow."""
    for count in batches:
        start = perf_counter()
        try:
            call = LIBRARIES[name](folder, task, count)
            first = perf_counter() - start
            seconds = timed(call)
        except ModuleNotFoundError:
            raise
        except Exception as error:  # a library may fail in its own ways; the others are measured all the same
            reason = (str(error).splitlines() or [""])[0][:200]
            say(f"{name}, {task}, {count:,} robots: {type(error).__name__}: {reason}")
            return
        rate = count * STEPS / seconds
        say(f"{name:12} {task:15} {count:9,} {rate / 1e6:9.4g}   first call after {first:.1f} s")
        yield Rate(task, "anymal", 18, name, "cuda", "f32", count, rate, 0)
        if seconds > TOO_SLOW:
            return


def timed(call: Call) -> float:
    """The smallest time of some calls, s."""
    times = []
    for _ in range(REPEATS):
        start = perf_counter()
        call()
        times.append(perf_counter() - start)
        if times[-1] > TOO_SLOW:
            break
    return min(times)


def scenes(folder: Path) -> Scenes:
    """The robot and its states as MuJoCo has them."""
    import mujoco

    with np.load(folder / gpu_cases.PEERS) as file:
        given = {name: file[name] for name in ("standing", "torques", "treading")}
    model = mujoco.MjModel.from_xml_path(str(folder / gpu_cases.MJCF))
    return Scenes(model, **given, us=case_of(folder, f"rollout of {STEPS} steps").arrays[1])


def case_of(folder: Path, task: str) -> Case:
    """Our case of a task with ANYmal."""
    return next(case for case in gpu_cases.load(folder) if case.task == task and case.robot == "anymal")


# ---- one call of each library


def ours(folder: Path, task: str, count: int) -> Call:
    """One kernel of 64 steps, which writes all states."""
    from condyle.tape.backends.cuda import cuda_kernel
    from condyle.tape.device_timing import DeviceBatch

    case = case_of(folder, f"rollout of {STEPS} steps")
    arrays = case.arrays
    if task == "step, standing":
        x, u = case_of(folder, task).arrays
        arrays = [x, np.tile(u.mean(axis=0), (len(x), STEPS, 1))]
    batch = DeviceBatch(cuda_kernel(case.tape, "f32", 0), [a.astype(np.float32) for a in arrays], count)
    batch.wait(count)
    return lambda: batch.wait(count)


def warp(folder: Path, task: str, count: int) -> Call:
    """MuJoCo Warp: a CUDA graph of 64 steps, started from the same states each time."""
    import mujoco
    import mujoco_warp as mjw
    import warp as wp

    wp.config.log_level = wp.LOG_WARNING
    given = scenes(folder)
    qpos, qvel, us = given.batch(task, count, STEPS)
    model, data = mjw.put_model(given.model), mjw.make_data(given.model, nworld=count, nconmax=CONTACTS, njmax=CONSTRAINTS)
    start = [wp.array(np.ascontiguousarray(a, np.float32), dtype=wp.float32) for a in (qpos, qvel)]
    controls = [wp.array(np.ascontiguousarray(u, np.float32), dtype=wp.float32) for u in us]

    def steps() -> None:
        wp.copy(data.qpos, start[0])
        wp.copy(data.qvel, start[1])
        for u in controls:
            wp.copy(data.ctrl, u)
            mjw.step(model, data)

    # kernels are compiled before the graph is recorded
    wp.copy(data.qpos, start[0])
    mjw.step(model, data)
    with wp.ScopedCapture() as capture:
        steps()

    kept = (model, data, start, controls)  # a graph does not keep the arrays that it reads and writes

    def call() -> None:
        assert kept
        wp.capture_launch(capture.graph)
        wp.synchronize()

    call()
    # the first robot against MuJoCo itself; float32 in contact agrees to a few digits
    other = mujoco.MjData(given.model)
    other.qpos, other.qvel = qpos[0], qvel[0]
    for u in us[:, 0]:
        other.ctrl = u
        mujoco.mj_step(given.model, other)
    apart = np.abs(data.qpos.numpy()[0] - other.qpos).max()
    print(f"{'':39} MuJoCo Warp and mj_step are {apart:.0e} apart after {STEPS} steps")
    return call


def mjx(folder: Path, task: str, count: int) -> Call:
    """MJX on the GPU."""
    return mjx_stepper(scenes(folder), task, count, STEPS)


LIBRARIES: dict[str, Callable[[Path, str, int], Call]] = {"Condyle": ours, "MuJoCo Warp": warp, "MJX": mjx}

if __name__ == "__main__":
    main()
