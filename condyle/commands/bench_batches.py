"""Rates of a robot by the size of the batch on the processor and on a GPU, and the batch from which on the GPU is faster."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from condyle.commands.scene import Origin, Scene
from condyle.errors import BackendError, SimulationError, require
from condyle.tape.function import Function
from condyle.tape.host_info import available_threads
from condyle.tape.timing import crossover, shortest

ON_CPU = (1, 16, 256, 4096, 32768)
ON_GPU = (256, 4096, 32768, 262144)
STATES = 1024  # different ones, of which larger batches are made
MEMORY = 1 << 30  # bytes of states and results at most
DTYPES = {"f64": np.float64, "f32": np.float32}
NAMES = {"f64": "float64", "f32": "float32"}
ONE_THREAD, GPU = "1 thread", "GPU"

Rates = dict[int, float]  # states per second by the size of the batch


def measure_batches(of: Origin, precision: str, seconds: float) -> dict[str, Any]:
    """{"gpu": its name, or why there is none, "tasks": {task: {where: {batch: states per second}}}, "advice": sentences}."""
    gpu, reason = gpu_found()
    tasks: dict[str, dict[str, Rates]] = {}
    for name, (function, arrays) in tasks_of(of).items():
        given = [a.astype(DTYPES[precision]) for a in arrays]
        tasks[name] = on_cpu(function, given, seconds)
        if gpu:
            tasks[name][GPU] = on_gpu(function, given, precision)
    advice = (
        [sentence(name, rates) for name, rates in tasks.items()]
        if gpu
        else [f"no GPU was found, so only the processor was measured: {reason}"]
    )
    return {"gpu": gpu, "precision": NAMES[precision], "tasks": tasks, "advice": advice}


def gpu_found() -> tuple[str, str]:
    """(name of the first GPU, "") or ("", why there is none)."""
    from condyle.tape import cuda_driver

    try:
        return cuda_driver.device(0).name, ""
    except BackendError as error:
        return "", str(error)


def tasks_of(of: Origin) -> dict[str, tuple[Function, list[np.ndarray]]]:
    """What is measured with its states: forward dynamics, and a step where the robot has contacts with its ground."""
    from condyle.simulate.kernels import Stepper, compiled

    robot, rng = of.load(constraints=False), np.random.default_rng(0)
    q, v, tau = robot.random_configuration(rng, STATES), *rng.normal(size=(2, STATES, robot.nv))
    found = {"forward dynamics": (robot.function("forward_dynamics"), [q, v, tau])}
    try:
        world = Scene(of).simulation()
        x = np.tile(world.stand(), (STATES, 1)) if world.contact_points else None
    except SimulationError:  # it has no world to stand in
        return found
    if x is not None:
        x[:, world.robot.nq : world.robot.nq + world.robot.nv] += 1e-3 * rng.normal(size=(STATES, world.robot.nv))
        points = f"{len(world.contact_points)} contact points"
        nu = max(world.nu, 1)
        step = compiled(Stepper(world.world, world.integrator, world.substeps), "step", x=world.nx, u=nu)
        found[f"step with {points}"] = (step, [x, np.zeros((STATES, nu))])
    return found


# ---- rates


def sizes(function: Function, batches: Sequence[int]) -> list[int]:
    """The batches that fit into memory."""
    entries = sum(port.size for port in (*function.tape.inputs, *function.tape.outputs))
    return [n for n in batches if 8 * n * entries <= MEMORY]


def on_cpu(function: Function, arrays: list[np.ndarray], seconds: float) -> dict[str, Rates]:
    """Rates of one thread and of all."""
    found: dict[str, Rates] = {}
    for threads in dict.fromkeys((1, available_threads())):
        there = function.on("cpu", threads=threads)
        rates: Rates = {}
        for n in sizes(function, ON_CPU):
            batch = [np.ascontiguousarray(np.resize(a, (n, *a.shape[1:]))) for a in arrays]
            first = [a[0] for a in batch]
            out = there(*batch)
            call: Callable[[], object] = partial(there, *first) if n == 1 else partial(there, *batch, out=out)
            rates[n] = n / shortest(call, seconds, 100 if n == 1 else 1)
        found[ONE_THREAD if threads == 1 else f"{threads} threads"] = rates
    return found


def on_gpu(function: Function, arrays: list[np.ndarray], precision: str) -> Rates:
    """Rates of a GPU, with states and results in its memory, from the call until the results are there."""
    from condyle.tape.device_timing import DeviceBatch

    batches = sizes(function, ON_GPU)
    batch = DeviceBatch(function.device_kernel(precision, 0), arrays, max(batches))
    return {n: n / batch.seconds(n) for n in batches}


# ---- which backend


def sentence(task: str, rates: Mapping[str, Rates]) -> str:
    """Which backend to use for which batch."""
    cpu = list(rates.values())[-2]  # with all threads
    gpu = rates[GPU]
    batch = crossover(cpu, gpu)
    if batch is None:
        return f"{task}: the processor at every measured batch, up to {max(cpu.keys() & gpu.keys()):,} states"
    if batch == min(cpu.keys() & gpu.keys()):
        return f"{task}: the GPU from {batch:,.0f} states on, the smallest batch measured there"
    return f"{task}: below {float(f'{batch:.2g}'):,.0f} states the processor, above it the GPU"


def plot(found: dict[str, Any], path: Path) -> None:
    """Rates over the batch as an image, one panel for each robot and task."""
    require("matplotlib", "plot", "a plot of a benchmark")
    from matplotlib.figure import Figure

    panels = {
        f"{robot['robot']}: {task}": rates for robot in found["robots"] for task, rates in robot["batches"]["tasks"].items()
    }
    figure = Figure(figsize=(5.0 * len(panels), 4.2), dpi=120, layout="constrained")
    for ax, (title, lines) in zip(np.ravel(figure.subplots(1, len(panels))), panels.items(), strict=True):
        for name, rates in lines.items():
            ax.loglog(list(rates), list(rates.values()), "o-", ms=4, lw=1.4, label=name)
        ax.set_title(title, loc="left", fontsize=11)
        ax.set_xlabel("states in a batch")
        ax.set_ylabel("states per second")
        ax.grid(alpha=0.2)
        ax.legend(frameon=False, fontsize=9)
    figure.savefig(path)
