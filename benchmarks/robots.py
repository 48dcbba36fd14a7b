"""Nanoseconds per state of the dynamics of robots on one thread, against Pinocchio and MuJoCo in the same process.

All compute the same robot, which is built for the others joint by joint from our model, and the results are compared before
anything is timed. Competitors take turns and the smallest time of each counts, so that a busy moment hurts all alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.measured import Rate
from benchmarks.peers import mujoco_acceleration, mujoco_twin, pinocchio_twin
from condyle.commands.bench import BUILT_IN, first_results, load_average
from condyle.commands.scene import Origin
from condyle.commands.version import processor
from condyle.errors import CondyleError, install_command
from condyle.multibody.robot import Robot

# (file in example-robot-data, base, joints to lock)
FILES = {
    "panda": ("panda_description/urdf/panda.urdf", "fixed", ("panda_finger",)),
    "anymal": ("anymal_b_simple_description/robots/anymal.urdf", "free", ()),
    "talos": ("talos_data/robots/talos_reduced.urdf", "free", ()),
}
HOW = (
    "Pinocchio: abaInParallel and rneaInParallel with one thread; crba and computeABADerivatives from a Python loop, calls\n"
    "included; these two keep only the last result, while Condyle writes all of them. mj_step also integrates.\n"
    "difference: the largest, over the largest entry. first result: trace and compile."
)
# largest difference from a peer over the largest entry; rounding times the condition number of M
SAME = 1e-8

Call = Callable[[], object]


@dataclass(frozen=True)
class Setting:
    """How much to measure: states in a batch, seconds for each race, and calls counted together for one state."""

    batch: int = 4096
    seconds: float = 1.0
    calls: int = 1000


KERNELS = ("forward_dynamics", "inverse_dynamics", "mass_matrix", "forward_dynamics_derivatives")
# lines only where they help: eight columns fit into eighty letters
PLAIN: dict[str, Any] = {"title_justify": "left", "box": box.SIMPLE_HEAD, "pad_edge": False}


@dataclass
class Measured:
    """The numbers of one robot: nanoseconds per state, microseconds per call, seconds to compile."""

    robot: str
    nv: int
    kernels: dict[str, dict[str, float]] = field(default_factory=dict)
    mujoco_step: float | None = None
    call: dict[str, float] = field(default_factory=dict)
    compile: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the tables and return their numbers."""
    if tiny:
        return measure([Origin("double_pendulum")], Setting(batch=16, seconds=0.01, calls=10), console)
    return measure(standard(), Setting(), console)


def measure(origins: Sequence[Origin], setting: Setting, console: Console) -> dict[str, Any]:
    """Print the tables and return their numbers."""
    missing = [name for name in ("pinocchio", "mujoco") if find_spec(name) is None]
    found = []
    for origin in origins:
        with console.status(origin.source) as status:
            found.append(measure_one(origin, setting, missing, status.update))
    console.print(f"{processor()}, one thread, batches of {setting.batch:,} ({load_average()})", highlight=False)
    console.print(kernel_table(found), call_table(found))
    console.print(HOW, highlight=False, soft_wrap=True)
    notes = [f"{name} is not installed, so nothing is compared with it: {install_command('peers')}" for name in missing]
    for note in [*notes, *dict.fromkeys(f"{m.robot}: {note}" for m in found for note in m.notes)]:
        console.print(f"note: {note}", highlight=False, markup=False, soft_wrap=True)
    return {
        "processor": processor(),
        "load": load_average(),
        "batch": setting.batch,
        "robots": [vars(m) for m in found],
        "notes": notes,
    }


def measure_one(origin: Origin, setting: Setting, missing: Sequence[str], say: Callable[[str], None]) -> Measured:
    """All numbers of one robot."""
    say(f"{origin.source}: loading")
    # the others compute the tree, with its mimic joints and loops left free
    robot = origin.load(constraints=False)
    if not robot.nv:
        raise CondyleError(f"{robot.name} has no moving joint: there is nothing to measure; --base free lets it move")
    found = Measured(robot.name, robot.nv)
    rng = np.random.default_rng(0)
    n = setting.batch
    q = robot.random_configuration(rng, n)
    v, tau = rng.normal(size=(n, robot.nv)), rng.normal(size=(n, robot.nv))
    twin = None if "pinocchio" in missing else pinocchio_twin(robot.model)
    for name in KERNELS:
        say(f"{robot.name}: {name}")
        found.kernels[name] = race_kernel(robot, name, (q, v, tau), twin, setting)
    say(f"{robot.name}: one state")
    found.call = race_call(robot, (q[0], v[0], tau[0]), twin, setting)
    if "mujoco" not in missing:
        say(f"{robot.name}: MuJoCo")
        try:
            found.mujoco_step = mujoco_step(robot, (q, v, tau), setting)
        except CondyleError as reason:
            found.notes.append(f"not compared with MuJoCo: {reason}")
    say(f"{robot.name}: compiling")
    found.compile = first_results(origin)
    return found


# ---- one kernel


def race_kernel(robot: Robot, name: str, states: tuple[np.ndarray, ...], twin: Any, setting: Setting) -> dict[str, float]:
    """Nanoseconds per state of ours and Pinocchio's, our operations, and how far the results are apart."""
    function = robot.function(name).on("cpu", threads=1)
    arrays = states[: len(function.inputs)]
    out = first = function(*arrays)
    competitors: dict[str, Call] = {"condyle": lambda: function(*arrays, out=out)}
    numbers: dict[str, float] = {"operations": function.operations}
    if twin is not None:
        call, results = pinocchio_call(name, twin, arrays)
        competitors["pinocchio"] = call
        call()
        some = min(64, setting.batch)
        numbers["difference"] = difference(name, [a[:some] for a in as_list(first)], results(some))
    times = race(competitors, setting.seconds)
    return numbers | {who: 1e9 * seconds / setting.batch for who, seconds in times.items()}


def pinocchio_call(name: str, twin: Any, arrays: Sequence[np.ndarray]) -> tuple[Call, Callable[[int], list[np.ndarray]]]:
    """(what computes the whole batch, what gives the results of the first states)."""
    import pinocchio as pin

    q = arrays[0]
    if name in ("forward_dynamics", "inverse_dynamics"):
        parallel = pin.abaInParallel if name == "forward_dynamics" else pin.rneaInParallel
        pool = pin.ModelPool(twin, 1)
        columns = [np.asfortranarray(a.T) for a in arrays]
        result = np.zeros((twin.nv, len(q)), order="F")
        return lambda: parallel(1, pool, *columns, result), lambda some: [result.T[:some]]
    data = twin.createData()
    one = pin.crba if name == "mass_matrix" else pin.computeABADerivatives

    def all_of_them() -> None:
        for state in zip(*arrays, strict=True):
            one(twin, data, *state)

    def results(some: int) -> list[np.ndarray]:
        rows: list[list[np.ndarray]] = []
        for state in zip(*[a[:some] for a in arrays], strict=True):
            one(twin, data, *state)
            if name == "mass_matrix":
                M = np.triu(data.M)
                rows.append([M + np.triu(M, 1).T])
            else:
                rows.append([data.ddq_dq.copy(), data.ddq_dv.copy(), data.Minv.copy()])
        return [np.stack(column) for column in zip(*rows, strict=True)]

    return all_of_them, results


def difference(name: str, ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> float:
    """The largest difference over the largest entry; more than rounding explains is an error, not a number in a table."""
    found = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(ours, theirs, strict=True))
    if not found < SAME:
        raise CondyleError(
            f"{name}: the results differ by {found:.1e} of the largest entry, so their times say nothing; "
            "has every joint something with inertia to move by itself?"
        )
    return found


def race_call(robot: Robot, state: tuple[np.ndarray, ...], twin: Any, setting: Setting) -> dict[str, float]:
    """Microseconds of forward dynamics called from Python on one state."""
    q, v, tau = state
    robot.forward_dynamics(q, v, tau)
    competitors: dict[str, Call] = {"condyle": lambda: robot.forward_dynamics(q, v, tau)}
    if twin is not None:
        import pinocchio as pin

        data = twin.createData()
        competitors["pinocchio"] = lambda: pin.aba(twin, data, q, v, tau)
    many = {who: repeated(call, setting.calls) for who, call in competitors.items()}
    return {who: 1e6 * seconds / setting.calls for who, seconds in race(many, setting.seconds).items()}


def mujoco_step(robot: Robot, states: tuple[np.ndarray, ...], setting: Setting) -> float:
    """Nanoseconds of one mj_step, many of them inside MuJoCo; it also integrates, and has no shapes to collide."""
    import mujoco

    twin = mujoco_twin(robot.model)
    data = mujoco.MjData(twin)
    q, v, tau = (a[:4] for a in states)
    ours = robot.forward_dynamics(q, v, tau)
    rows = zip(q, v, tau, strict=True)
    theirs = np.stack([mujoco_acceleration(robot.model, twin, data, *row) for row in rows])
    difference("mj_forward", [ours], [theirs])

    def fall() -> None:
        mujoco.mj_resetData(twin, data)
        mujoco.mj_step(twin, data, setting.calls)

    return 1e9 * race({"mujoco": fall}, setting.seconds)["mujoco"] / setting.calls


# ---- which robots


def standard() -> list[Origin]:
    """Panda, ANYmal and Talos where example-robot-data is installed, else built-in robots."""
    folder = example_robots()
    if folder is None:
        return [Origin(name) for name in BUILT_IN]
    return [Origin(str(folder / file), base, lock=lock) for file, base, lock in FILES.values()]


def example_robots() -> Path | None:
    """Where the package example-robot-data keeps its robots; it lies beside Pinocchio."""
    spec = find_spec("pinocchio")
    for parent in Path(spec.origin).parents if spec is not None and spec.origin else ():
        if (folder := parent / "share" / "example-robot-data" / "robots").is_dir():
            return folder
    return None


# ---- timing


def race(competitors: dict[str, Call], seconds: float) -> dict[str, float]:
    """The smallest time of each call in seconds; they take turns of three calls, so that each finds its own data in the cache."""
    times: dict[str, list[float]] = {name: [] for name in competitors}
    end = perf_counter() + seconds * len(competitors)
    while perf_counter() < end or not all(times.values()):
        for name, call in competitors.items():
            for _ in range(3):
                start = perf_counter()
                call()
                times[name].append(perf_counter() - start)
    return {name: min(spent) for name, spent in times.items()}


def repeated(call: Call, count: int) -> Call:
    """A call that is `count` calls."""

    def many() -> None:
        for _ in range(count):
            call()

    return many


def as_list(results: Any) -> list[np.ndarray]:
    """One array or several, as a list."""
    return [results] if isinstance(results, np.ndarray) else list(results)


# ---- tables


def kernel_table(found: Sequence[Measured]) -> Table:
    """Nanoseconds per state, robot by robot."""
    table = Table(title="nanoseconds per state", **PLAIN)
    for head in ("robot", "nv", "function", "operations", "Condyle", "Pinocchio", "times as fast", "difference"):
        table.add_column(head, justify="left" if head in ("robot", "function") else "right")
    for measured in found:
        for k, (name, row) in enumerate(measured.kernels.items()):
            theirs = row.get("pinocchio")
            compared = ("-", "-", "-")
            if theirs is not None:
                compared = (f"{theirs:,.0f}", f"{theirs / row['condyle']:.1f}", f"{row['difference']:.0e}")
            first = ("", "") if k else (measured.robot, str(measured.nv))
            table.add_row(*first, name.replace("_", " "), f"{row['operations']:,}", f"{row['condyle']:,.0f}", *compared)
        table.add_section()
    return table


def call_table(found: Sequence[Measured]) -> Table:
    """One state from Python, MuJoCo's step beside our batch, and the seconds until the first result."""
    table = Table(title="forward dynamics: one call, one step, one compilation", **PLAIN)
    heads = ["robot", "one call, us", "pin.aba, us", "times as fast", "mj_step, ns", "batch against it"]
    for head in [*heads, "first result, s", "from the cache, s"]:
        table.add_column(head, justify="left" if head == "robot" else "right")
    for m in found:
        ours, theirs = m.call["condyle"], m.call.get("pinocchio")
        batch = m.kernels["forward_dynamics"]["condyle"]
        table.add_row(
            m.robot,
            f"{ours:.2f}",
            *(("-", "-") if theirs is None else (f"{theirs:.2f}", f"{theirs / ours:.2f}")),
            *(("-", "-") if m.mujoco_step is None else (f"{m.mujoco_step:,.0f}", f"{m.mujoco_step / batch:.1f}")),
            f"{m.compile['compiled']:.2f}",
            f"{m.compile['cached']:.3f}",
        )
    return table


def rates(found: dict[str, Any]) -> list[Rate]:
    """The numbers as rates of a result file; one state called from Python is a batch of one."""
    rows = []
    for row in found["robots"]:
        one = partial(Rate, robot=row["robot"], nv=row["nv"], backend="cpu", precision="f64")
        for name, times in row["kernels"].items():
            for library, key in (("Condyle", "condyle"), ("Pinocchio", "pinocchio")):
                if key in times:
                    rows.append(one(name.replace("_", " "), library=library, batch=found["batch"], per_second=1e9 / times[key]))
        for library, key in (("Condyle", "condyle"), ("Pinocchio", "pinocchio")):
            if key in row["call"]:
                rows.append(one("forward dynamics", library=library, batch=1, per_second=1e6 / row["call"][key]))
        if row["mujoco_step"] is not None:
            rows.append(one("forward dynamics", library="MuJoCo", batch=found["batch"], per_second=1e9 / row["mujoco_step"]))
    return rows
