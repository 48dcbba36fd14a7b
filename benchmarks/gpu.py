"""Million evaluations per second on an NVIDIA GPU beside this processor, by the size of the batch, with the same bits.

The GPU is timed by its own events, with states and results that lie there; the processor by the wall clock. A computer without
LLVM measures the GPU alone.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks.measure import best, busy
from condyle.errors import BackendError, RobotError
from condyle.tape.backends.cuda import CudaKernel, cuda_kernel
from condyle.tape.cuda_driver import Buffer, Timer, device
from condyle.tape.device import SIDE_BY_SIDE
from condyle.tape.function import Function
from condyle.tape.tape import run_time_rows

BATCHES = (1 << 10, 1 << 13, 1 << 15, 1 << 17, 1 << 20)
MEMORY = 1 << 33  # bytes of states and results at most
REPEATS = 5
DTYPES = {"f32": np.float32, "f64": np.float64}

Case = tuple[Function, list[np.ndarray]]  # a function, and arrays (states, ...) of which batches are made


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the table and return its numbers."""
    try:
        gpu = device(0).name
    except BackendError as error:
        console.print(str(error))
        if not tiny:
            return {}
        gpu = ""
    batches = (16,) if tiny else BATCHES
    found: dict[str, Any] = {"gpu": gpu, "batches": list(batches), "cases": {}}
    for name, make in cases(tiny).items():
        try:
            function, arrays = make()
        except RobotError as error:
            console.print(f"{name} left out: {error}")
            continue
        for precision in ("f32", "f64"):
            states = [a.astype(DTYPES[precision]) for a in arrays]
            row: dict[str, Any] = {}
            with console.status(f"{name} {precision}"):
                if gpu:
                    row |= on_gpu(function, states, precision, batches)
                if find_spec("llvmlite"):
                    row["cpu"] = {n: rate(function, states, n) for n in batches if fits(function, n)}
            found["cases"][f"{name} {precision}"] = row
    console.print(table(found))
    return found | {"busy": busy()}


def cases(tiny: bool) -> dict[str, Callable[[], Case]]:
    """What is measured, by name: forward dynamics, derivatives, and steps with contact."""
    if tiny:
        return {"forward dynamics, pendulum": lambda: dynamics("double_pendulum", "forward_dynamics")}
    return {
        "forward dynamics, ur3": lambda: dynamics("ur3", "forward_dynamics"),
        "forward dynamics, panda": lambda: dynamics("panda", "forward_dynamics"),
        "forward dynamics, pidog": lambda: dynamics("pidog", "forward_dynamics"),
        "forward dynamics, fourlimb": lambda: dynamics("fourlimb", "forward_dynamics"),
        "derivatives, ur3": lambda: dynamics("ur3", "forward_dynamics_derivatives"),
        "derivatives, panda": lambda: dynamics("panda", "forward_dynamics_derivatives"),
        "step with contact, pidog": pidog_step,
    }


def dynamics(name: str, what: str) -> Case:
    """A function of a robot at random states."""
    robot = cd.load(name)
    rng = np.random.default_rng(0)
    q, v, tau = robot.random_configuration(rng, 1024), rng.normal(size=(1024, robot.nv)), rng.normal(size=(1024, robot.nv))
    return robot.function(what), [q, v, tau]


def pidog_step() -> Case:
    """One step of PiDog, which stands on its feet at heights a little different."""
    from condyle.simulate.kernels import Stepper, compiled
    from condyle.tape.trace import Rows

    world = cd.Simulation(cd.load("pidog"), 0.002, cd.Plane(0.5), "*_foot")
    x = np.tile(world.stand(), (1024, 1))
    rng = np.random.default_rng(0)
    x[:, 2] += rng.uniform(-1e-4, 1e-4, 1024)
    x[:, world.robot.nq :] += 0.01 * rng.standard_normal((1024, world.robot.nv))
    function = compiled(Stepper(world.world, world.integrator, 1), "rollout", {}, x=world.nx, us=Rows(None, world.nu))
    return function, [x, np.zeros((1024, 1, world.nu))]


def fits(function: Function, states: int) -> bool:
    """Whether a batch has a size that is worth its memory."""
    numbers = sum(max(port.size, port.columns) for port in (*function.tape.inputs, *function.tape.outputs))
    return states * numbers * 8 <= MEMORY


def tiled(arrays: list[np.ndarray], states: int) -> list[np.ndarray]:
    """As many states, taken from the given ones in turn."""
    return [np.ascontiguousarray(np.resize(a, (states, *a.shape[1:]))) for a in arrays]


def rate(function: Function, arrays: list[np.ndarray], states: int) -> float:
    """Million states per second on the processor."""
    batch = tiled(arrays, states)
    out = function(*batch)
    return states / best(lambda: function(*batch, out=out), 0.2) / 1e6


def on_gpu(function: Function, arrays: list[np.ndarray], precision: str, batches: tuple[int, ...]) -> dict[str, Any]:
    """Seconds of the first launch, whether the bits are those of the processor, and million states per second."""
    start = perf_counter()
    kernel = cuda_kernel(function.tape, precision, 0)
    first = launched(kernel, arrays, len(arrays[0]), repeats=1)[1]
    found: dict[str, Any] = {"first_launch": perf_counter() - start}
    if find_spec("llvmlite"):
        outputs = function(*arrays)
        here = [np.asarray(a) for a in (outputs if isinstance(outputs, tuple) else (outputs,))]
        found["same_bits"] = all(np.array_equal(a.reshape(b.shape), b) for a, b in zip(here, first, strict=True))
    found["cuda"] = {n: n / launched(kernel, arrays, n)[0] / 1e3 for n in batches if fits(function, n)}
    return found


def launched(kernel: CudaKernel, arrays: list[np.ndarray], states: int, repeats: int = REPEATS) -> tuple[float, list[np.ndarray]]:
    """(milliseconds of a launch at best, the outputs as rows); large outputs have their states side by side, as calls have."""
    batch = [a.reshape(states, -1) for a in tiled(arrays, states)]
    rows = run_time_rows(kernel.tape.inputs, batch)
    size, buffers, ports = batch[0].itemsize, [], []
    for a in batch:
        buffers.append(Buffer(kernel.device, a.nbytes))
        buffers[-1].fill(a)
        ports.append((buffers[-1].address, a.strides[0], size))
    widths = [rows * port.columns if port.run_time else port.size for port in kernel.tape.outputs]
    for width in widths:
        buffers.append(Buffer(kernel.device, states * width * size))
        apart = width >= SIDE_BY_SIDE
        ports.append((buffers[-1].address, size, states * size) if apart else (buffers[-1].address, width * size, size))
    times = []
    for _ in range(repeats + 1):
        timer = Timer(kernel.device)
        timer.mark(0)
        kernel.launch(ports, states, rows)
        timer.mark(1)
        times.append(timer.milliseconds)
    outputs = []
    for buffer, width in zip(buffers[len(batch) :], widths, strict=True):
        shape = (width, states) if width >= SIDE_BY_SIDE else (states, width)
        outputs.append(np.empty(shape, batch[0].dtype))
        buffer.read(outputs[-1])
        outputs[-1] = outputs[-1].T if width >= SIDE_BY_SIDE else outputs[-1]
    return min(times[1:] or times), outputs


def table(found: dict[str, Any]) -> Table:
    """Rates by case and batch."""
    out = Table(title=f"million per second{', ' + found['gpu'] if found['gpu'] else ''}")
    for column in ("", "first launch, s", *[f"{n:,}" for n in found["batches"]]):
        out.add_column(column, justify="right")
    for name, row in found["cases"].items():
        for where in ("cuda", "cpu"):
            if where in row:
                first = f"{row['first_launch']:.2f}" if where == "cuda" else ""
                rates = [f"{row[where][n]:,.3g}" if n in row[where] else "" for n in found["batches"]]
                out.add_row(f"{name}, {where}", first, *rates)
    return out
