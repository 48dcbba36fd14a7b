"""Million evaluations per second on an NVIDIA GPU beside this processor, by the size of the batch, with the same bits.

    python -m benchmarks gpu                                   # where robots and LLVM are installed
    python -m benchmarks.gpu FOLDER --json gpu.json            # from a folder of `python -m benchmarks.gpu_cases FOLDER`

The GPU is timed by its own events, with states and results that lie there; the processor by the wall clock, with all its threads.
The second command needs NumPy and the driver of the GPU alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks import gpu_cases
from benchmarks.gpu_cases import DTYPES, Case
from benchmarks.measured import Rate, computer, gpu_name, load_average, write
from condyle.errors import BackendError, CondyleError
from condyle.tape.backends.cuda import cuda_kernel
from condyle.tape.device_timing import DeviceBatch, first_launch
from condyle.tape.function import Function
from condyle.tape.host_info import available_threads
from condyle.tape.timing import crossover, shortest

if TYPE_CHECKING:
    from rich.console import Console

BATCHES = (1 << 8, 1 << 10, 1 << 12, 1 << 15, 1 << 17, 1 << 20)
MEMORY = 4 << 30  # bytes of states and results in float64 at most
COMMAND = "python -m benchmarks gpu"
Say = Callable[[str], None]
Call = Callable[..., Any]  # a function of the processor: arrays in, arrays out


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the table and return its rows."""
    if not gpu_name() and not tiny:
        console.print("no GPU was found: nothing is measured")
        return {}
    only, states, batches = ("double_pendulum", 16, (16,)) if tiny else ("", gpu_cases.STATES, BATCHES)
    found = measure(
        gpu_cases.cases(only, states), batches, lambda case: Function(case.tape), say=console.print, seconds=0.01 if tiny else 0.2
    )
    return {"rows": [vars(row) for row in found[0]], "cases": found[1]}


def rates(found: dict[str, Any]) -> list[Rate]:
    """The rates of a result file."""
    return [Rate(**row) for row in found["rows"]]


def main(words: Sequence[str] | None = None) -> None:
    """Measure the cases of a folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="written by python -m benchmarks.gpu_cases FOLDER")
    parser.add_argument("--json", type=Path, dest="file", help="also write a result file")
    parser.add_argument("--only", default="", help="cases whose task and robot contain this text")
    parser.add_argument("--precision", choices=["f32", "f64"], help="one of them alone")
    parser.add_argument("--batches", default="", help="sizes, with commas")
    parser.add_argument("--no-cpu", action="store_true", help="the GPU alone")
    given = parser.parse_args(words)
    load = load_average()
    batches = tuple(int(n) for n in given.batches.split(",")) if given.batches else BATCHES
    made = [case for case in gpu_cases.load(given.folder) if given.only in case.name]
    on_cpu = (lambda case: None) if given.no_cpu else bundled(given.folder)
    precisions = (given.precision,) if given.precision else ("f32", "f64")

    def keep(rows: list[Rate], facts: dict[str, Any]) -> None:
        # after each case: what was measured survives a later failure
        if given.file:
            write(given.file, "gpu", COMMAND, rows, {"cases": facts}, computer(gpu_name(), load))

    measure(made, batches, on_cpu, precisions=precisions, say=lambda text: print(text, flush=True), keep=keep)


def bundled(folder: Path) -> Callable[[Case], Call | None]:
    """The function of the processor for a case: compiled now where there is LLVM, else from the folder's bundle."""
    if find_spec("llvmlite"):
        return lambda case: Function(case.tape)
    from condyle.tape.bundle import load_bundle, this_processor

    path = folder / gpu_cases.BUNDLE
    if not path.is_file() or gpu_cases.PROCESSOR.partition(":")[2] not in this_processor():
        print(f"the processor is left out: it has no LLVM, and there is no code of {path.name} for it")
        return lambda case: None
    functions = load_bundle(path)
    return lambda case: functions[case.name]


def measure(
    made: Iterable[Case],
    batches: Sequence[int],
    on_cpu: Callable[[Case], Call | None],
    *,
    precisions: Sequence[str] = ("f32", "f64"),
    say: Say,
    seconds: float = 0.2,
    keep: Callable[[list[Rate], dict[str, Any]], None] = lambda rows, facts: None,
) -> tuple[list[Rate], dict[str, Any]]:
    """(rows, {case: seconds of the first launch, whether the bits agree}); prints lines for each case and precision."""
    gpu = bool(gpu_name())
    rows: list[Rate] = []
    facts: dict[str, Any] = {}
    say(f"million per second; batches {', '.join(f'{n:,}' for n in batches)}")
    for case in made:
        sizes = [n for n in batches if n * case.bytes_per_state <= MEMORY]
        for precision in precisions:
            states = [a.astype(DTYPES[precision]) for a in case.arrays]
            call = on_cpu(case)
            if gpu:
                try:
                    rates, known = on_gpu(case, precision, states, sizes, call)
                except CondyleError as error:
                    say(f"{case.name} {precision}: {error}")
                    continue
                rows += [rate_of(case, precision, "cuda", n, rate, 0) for n, rate in rates.items()]
                facts[f"{case.name} {precision}"] = known
                bits = {True: "same bits", False: "BITS DIFFER", None: "bits unknown"}[known["same_bits"]]
                say(f"{case.name:36} {precision} cuda {numbers(rates)}  first {known['first_launch']:.2f} s, {bits}")
            if call is not None:
                here = {n: case.steps * n / cpu_seconds(call, states, n, seconds) for n in sizes}
                rows += [rate_of(case, precision, "cpu", n, rate, available_threads()) for n, rate in here.items()]
                batch = crossover(here, rates) if gpu else None
                overtakes = "" if batch is None else f"  the GPU overtakes at {batch:,.0f}"
                say(f"{case.name:36} {precision} cpu  {numbers(here)}{overtakes}")
            keep(rows, facts)
    return rows, facts


def rate_of(case: Case, precision: str, backend: str, batch: int, rate: float, threads: int) -> Rate:
    """One rate as a result file has it."""
    return Rate(case.task, case.robot, case.nv, "Condyle", backend, precision, batch, rate, threads)


def numbers(rates: dict[int, float]) -> str:
    """Rates in millions, in columns."""
    return " ".join(f"{rate / 1e6:9,.4g}" for rate in rates.values())


def on_gpu(
    case: Case, precision: str, states: list[np.ndarray], sizes: Sequence[int], call: Call | None
) -> tuple[dict[int, float], dict[str, Any]]:
    """({batch: evaluations or steps per second}, {seconds of the first launch, whether the bits are those of the processor})."""
    kernel = cuda_kernel(case.tape, precision, 0)
    seconds, outputs = first_launch(kernel, states, len(states[0]))
    wanted = (case.checksums or {}).get(precision)
    if wanted is None and call is not None:
        found = call(*states)
        wanted = gpu_cases.checksum(found if isinstance(found, tuple) else [found])
    known = {"first_launch": seconds, "same_bits": None if wanted is None else gpu_cases.checksum(outputs) == wanted}
    batch = DeviceBatch(kernel, states, max(sizes))
    return {n: 1e3 * case.steps * n / batch.milliseconds(n) for n in sizes}, known


def cpu_seconds(call: Call, arrays: list[np.ndarray], states: int, seconds: float) -> float:
    """The time of a batch on the processor."""
    batch = [np.ascontiguousarray(np.resize(a, (states, *a.shape[1:]))) for a in arrays]
    out = call(*batch)
    return shortest(lambda: call(*batch, out=out), seconds)


if __name__ == "__main__":
    try:
        main()
    except BackendError as error:
        raise SystemExit(str(error)) from None
