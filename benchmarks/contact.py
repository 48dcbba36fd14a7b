"""Microseconds per step of ANYmal in contact, with and without derivatives, against MuJoCo on the same robot in one process."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from time import perf_counter, process_time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks import standing
from benchmarks.measure import SECONDS, busy, in_new_process
from benchmarks.measured import Rate
from benchmarks.step_parts import iterations, operations

Call = Callable[[], object]
Calls = dict[str, tuple[Call, int]]  # (what is timed, how many steps that is)

HOW = (
    "Ours: float64, called from Python on the whole batch. MuJoCo: motors with given torques, Newton's method and every other\n"
    "default (pyramids), loops inside MuJoCo (mj_step with nstep, mujoco.rollout); elliptic: with round cones, as ours.\n"
    "standing: each in its own state of rest, under constant torques. treading: diagonal legs in turn, random phase, rate and\n"
    "size; both are given the same first states and the same torques. Competitors take turns; the smallest time counts, of the\n"
    "processor for one thread and on the wall for two.\n"
)


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the tables and return their numbers."""
    missing = [name for name in ("pinocchio", "mujoco") if find_spec(name) is None]
    robot = standing.anymal()
    if missing or robot is None:
        console.print(f"needs {', '.join(missing) or 'example-robot-data'}: pip install 'condyle[peers]'")
        return {}
    bench = Bench(robot, tiny)
    found: dict[str, Any] = {"robot": robot.name, "batch": bench.batch}
    for name in ("sanity", "steps", "derivatives", "rollouts", "threads", "options", "parts", "compiling"):
        with console.status(name):
            found[name] = getattr(bench, name)()
        console.print(TABLES[name](found[name]))
    console.print(HOW, highlight=False)
    return found | {"busy": busy()}


class Bench:
    """Both simulators with the states they are timed on."""

    def __init__(self, robot: cd.Robot, tiny: bool) -> None:
        self.tiny, self.seconds = tiny, 0.01 if tiny else 2.0 * SECONDS
        self.batch, self.few, self.horizon = (16, 2, 4) if tiny else (4096, 16, 64)
        self.world = standing.simulation(robot, threads=1)
        self.twins = {"MuJoCo": standing.twin(self.world), "MuJoCo, elliptic": standing.twin(self.world, elliptic=True)}
        self.difference = max(standing.check_twin(self.world, other) for other in self.twins.values())
        self.stance = standing.settled(self.world, 10 if tiny else 1000)
        self.rest = {name: standing.settled_mujoco(self.world, other, 10 if tiny else 1000) for name, other in self.twins.items()}
        self.x, self.u = standing.nearby(self.stance, self.batch)
        self.first, self.us, self.xs = standing.moving(self.world, self.stance, self.batch, self.horizon)
        # states in the midst of treading, each with its control
        every = np.arange(self.batch) % self.horizon
        self.mid = self.xs[np.arange(self.batch), every], self.us[np.arange(self.batch), every]

    def sanity(self) -> dict[str, Any]:
        """Whether both stand: height, remaining speed, force below the feet over the weight; and that it is one robot."""
        weight = self.world.robot.mass * 9.81
        stances: dict[str, standing.Stance] = {"Condyle": self.stance} | {name: stance for name, (stance, _) in self.rest.items()}
        rows = {name: {"height": s.x[2], "speed": s.speed, "force": s.force / weight} for name, s in stances.items()}
        forces = self.world.contact_forces(self.xs[:, :-1], self.us)[..., 2]
        return {
            "stances": rows,
            "mass_matrix_difference": self.difference,
            "feet_on_the_ground": float(np.mean(forces > 1.0)),
            "fastest_joint": float(np.abs(self.xs[..., 25:]).max()),
            "worst_residual": self.worst(),
        }

    def worst(self) -> float:
        """The largest residual of our solver on all states of treading."""
        self.world.step(self.xs[:, :-1], self.us)
        assert self.world.status is not None
        return float(self.world.status.residual.max())

    # ---- one step

    def steps(self) -> dict[str, dict[str, float]]:
        """Microseconds per step and robot, one thread."""
        world, few = self.world, self.few
        rest: Calls = {"Condyle": (lambda: world.step(self.x, self.u), self.batch)}
        tread: Calls = {"Condyle": (lambda: world.rollout(self.first, self.us), self.batch * self.horizon)}
        for name, other in self.twins.items():
            rest[name] = (self.mujoco_standing(name), 100)
            tread[name] = (mujoco_rollout(world, other, self.first[:few], self.us[:few]), few * self.horizon)
        return {"standing": timed(rest, self.seconds), "treading": timed(tread, self.seconds)}

    def mujoco_standing(self, name: str) -> Call:
        """A hundred steps from rest under constant torques, inside MuJoCo."""
        import mujoco

        other, (_, data) = self.twins[name], self.rest[name]
        everything = mujoco.mjtState.mjSTATE_INTEGRATION
        state = np.zeros(mujoco.mj_stateSize(other, everything))
        mujoco.mj_getState(other, data, state, everything)

        def steps() -> None:
            mujoco.mj_setState(other, data, state, everything)
            mujoco.mj_step(other, data, 100)

        return steps

    # ---- with derivatives

    def derivatives(self) -> dict[str, dict[str, float]]:
        """Microseconds of a step with A and B, one thread."""
        found = {}
        few = self.few
        for what, (x, u) in {"standing": (self.x, self.u), "treading": self.mid}.items():
            calls: Calls = {
                "Condyle": (lambda x=x, u=u: self.world.step(x, u, derivatives=True), self.batch),
            }
            theirs = (np.tile(self.rest["MuJoCo"][0].x, (few, 1)), np.tile(self.rest["MuJoCo"][0].u, (few, 1)))
            if what == "treading":
                theirs = x[:few], u[:few]
            for word, centred in (("forward", False), ("centred", True)):
                calls[f"MuJoCo, {word}"] = (mujoco_differences(self.world, self.twins["MuJoCo"], *theirs, centred), few)
            found[what] = timed(calls, self.seconds)
        return found

    # ---- long ones

    def rollouts(self) -> dict[str, dict[str, float]]:
        """Microseconds per step of rollouts of 1,000 steps, servos inside the step."""
        steps = 10 if self.tiny else 1000
        held = standing.simulation(self.world.robot, threads=1, force=standing.servo_force)
        held_twin = standing.twin(self.world, servos=True)
        found = {}
        for count in (1, self.batch):
            some = min(count, 16)
            x = self.x[0] if count == 1 else self.x
            us = np.zeros((*x.shape[:-1], steps, 12))
            targets = np.tile(standing.POSE, (some, steps, 1))
            calls: Calls = {
                "Condyle": (lambda x=x, us=us: held.rollout(x, us), count * steps),
                "MuJoCo": (mujoco_rollout(self.world, held_twin, self.x[:some], targets), some * steps),
            }
            if count == 1 and not self.tiny:
                calls["Condyle, lanes=1"] = (lambda x=x, us=us: held.rollout(x, us, lanes=1), steps)
            found[f"{count:,} robots" if count > 1 else "1 robot"] = timed(calls, self.seconds)
        return found

    def threads(self) -> dict[str, dict[str, float]]:
        """Microseconds per step of treading on two threads."""
        calls: Calls = {
            "Condyle": (lambda: self.world.rollout(self.first, self.us, threads=2), self.batch * self.horizon),
            "MuJoCo": (
                mujoco_rollout(self.world, self.twins["MuJoCo"], self.first[: self.few], self.us[: self.few], threads=2),
                self.few * self.horizon,
            ),
        }
        x, u = self.mid
        slopes: Calls = {"Condyle": (lambda: self.world.step(x, u, derivatives=True, threads=2), self.batch)}
        found = {"treading": calls, "treading, derivatives": slopes}
        return {what: timed(these, self.seconds, perf_counter) for what, these in found.items()}

    # ---- where the time goes

    def options(self) -> dict[str, dict[str, float]]:
        """Microseconds per step of other settings of ours, one thread."""
        makers = {"as above": {}, "limits=False": {"limits": False}, "cone=4": {"cone": 4}, "substeps=2": {"substeps": 2}}
        if self.tiny:
            makers = {"as above": {}}
        worlds = {name: standing.simulation(self.world.robot, threads=1, **options) for name, options in makers.items()}
        worlds["no ground"] = cd.Simulation(self.world.robot, self.world.dt, threads=1, limits=False)
        found = {}
        for what, (x, u) in {"standing": (self.x, self.u), "treading": self.mid}.items():
            calls = {
                name: (lambda world=world, x=x, u=u: world.step(x, u, freeze=True), self.batch) for name, world in worlds.items()
            }
            found[what] = timed(calls, self.seconds)
        return found

    def parts(self) -> dict[str, Any]:
        """Operations of the parts of a step, and how many iterations its solver takes."""
        taken = {
            what: iterations(self.world, x, u) for what, (x, u) in {"standing": (self.x, self.u), "treading": self.mid}.items()
        }
        return {"operations": operations(self.world), "iterations": taken}

    def compiling(self) -> dict[str, dict[str, float]]:
        """Seconds to the first result, in a process with an empty cache and in one that finds it filled."""
        if self.tiny:
            return {}
        found = {}
        for what in ("step", "derivatives", "rollout"):
            code = f"from benchmarks.contact import first_result; first_result({what!r})"
            with tempfile.TemporaryDirectory(prefix="condyle-bench-") as cache:
                runs = [in_new_process(code, CONDYLE_CACHE=cache) for _ in range(2)]
            found[what] = {"cold": runs[0]["seconds"], "cached": runs[1]["seconds"]}
        return found


def first_result(what: str) -> None:
    """Print as JSON the seconds from a simulation to its first step, derivatives or rollout."""
    robot = standing.anymal()
    assert robot is not None
    cd.function(lambda x: x + 1.0, x=1)(np.zeros(1))  # start LLVM
    begin = perf_counter()
    world = standing.simulation(robot)
    x, u = world.state(), np.zeros(12)
    if what == "rollout":
        world.rollout(x, np.zeros((64, 12)))
    else:
        world.step(x, u, derivatives=what == "derivatives")
    print(json.dumps({"seconds": perf_counter() - begin}))


# ---- MuJoCo's calls


def mujoco_rollout(world: cd.Simulation, other: Any, x: np.ndarray, us: np.ndarray, threads: int = 1) -> Call:
    """A rollout of each of these robots inside MuJoCo."""
    import mujoco
    from mujoco.rollout import rollout

    data = [mujoco.MjData(other) for _ in range(threads)]
    states = standing.mujoco_states(world, other, x)
    out = np.zeros((len(x), us.shape[1], states.shape[1]))
    us = np.ascontiguousarray(us)
    return lambda: rollout(other, data, states, us, state=out, nstep=us.shape[1], persistent_pool=threads > 1)


def mujoco_differences(world: cd.Simulation, other: Any, x: np.ndarray, u: np.ndarray, centred: bool) -> Call:
    """A and B by mjd_transitionFD, at states whose solver has a warm start; all but this is done before."""
    import mujoco

    states = standing.mujoco_states(world, other, x)
    datas = []
    for state, control in zip(states, u, strict=True):
        data = mujoco.MjData(other)
        mujoco.mj_setState(other, data, state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
        data.ctrl = control
        mujoco.mj_forward(other, data)
        datas.append(data)
    n = 2 * other.nv
    A, B = np.zeros((n, n)), np.zeros((n, other.nu))

    def all_of_them() -> None:
        for data in datas:
            mujoco.mjd_transitionFD(other, data, 1e-6, centred, A, B, None, None)

    return all_of_them


def timed(calls: Calls, seconds: float, clock: Callable[[], float] = process_time) -> dict[str, float]:
    """Microseconds per step of each, after one call that compiles; they take turns, and the smallest time counts.

    Time of the processor by default, because these calls are too long for a moment without others; two threads need the wall's.
    """
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call, _ in calls.values():
        call()
    end = perf_counter() + seconds * len(calls)
    while perf_counter() < end or not all(times.values()):
        for name, (call, _) in calls.items():
            start = clock()
            call()
            times[name].append(clock() - start)
    return {name: 1e6 * min(times[name]) / steps for name, (_, steps) in calls.items()}


# ---- tables


def sanity_table(found: dict[str, Any]) -> Table:
    title = (
        f"two seconds after a drop of 1 mm; mass matrices differ by {found['mass_matrix_difference']:.0e}.\n"
        f"treading: {100 * found['feet_on_the_ground']:.0f} % of the feet on the ground, joints up to "
        f"{found['fastest_joint']:.0f} rad/s, our largest residual {found['worst_residual']:.0e}"
    )
    table = Table(title=title, title_justify="left")
    for head in ("", "height, m", "fastest coordinate", "force / weight"):
        table.add_column(head, justify="left" if not head else "right")
    for name, row in found["stances"].items():
        table.add_row(name, f"{row['height']:.4f}", f"{row['speed']:.1e}", f"{row['force']:.6f}")
    return table


def ratio_table(title: str) -> Callable[[dict[str, dict[str, float]]], Table]:
    """A table of microseconds with the ratios to ours beside them."""

    def made(found: dict[str, dict[str, float]]) -> Table:
        table = Table(title=f"{title} ({busy()})", title_justify="left")
        names = list(dict.fromkeys(name for row in found.values() for name in row))
        for head in ("", *names):
            table.add_column(head, justify="left" if not head else "right")
        for what, row in found.items():
            ours = next(iter(row.values()))
            cells = [f"{row[n]:.2f}" + (f"  ({row[n] / ours:.2f})" if k else "") if n in row else "" for k, n in enumerate(names)]
            table.add_row(what, *cells)
        return table

    return made


def parts_table(found: dict[str, Any]) -> Table:
    taken = "; ".join(
        f"{what}: {row['mean']:.1f} iterations, {row['lanes']:.1f} until all lanes of a vector are done, {row['most']} at most"
        for what, row in found["iterations"].items()
    )
    table = Table(title=f"operations of a step, once for a robot\n{taken}", title_justify="left")
    table.add_column("part")
    table.add_column("operations", justify="right")
    table.add_column("of these div and sqrt", justify="right")
    for name, (count, slow) in found["operations"].items():
        table.add_row(name, f"{count:,}", f"{slow:,}")
    return table


def compile_table(found: dict[str, dict[str, float]]) -> Table:
    table = Table(
        title=f"seconds to the first result: trace and compile, and with a filled cache ({busy()})", title_justify="left"
    )
    for head in ("", "empty cache", "filled cache"):
        table.add_column(head, justify="left" if not head else "right")
    for name, row in found.items():
        table.add_row(name, f"{row['cold']:.2f}", f"{row['cached']:.3f}")
    return table


TABLES: dict[str, Callable[[Any], Table]] = {
    "sanity": sanity_table,
    "steps": ratio_table("microseconds per step, one thread; in brackets times ours"),
    "derivatives": ratio_table("microseconds per step with A and B, one thread; MuJoCo by finite differences"),
    "rollouts": ratio_table("microseconds per step of rollouts of 1,000 steps, servos inside, one thread"),
    "threads": ratio_table("microseconds per step, two threads"),
    "options": ratio_table("microseconds per step of other settings, one thread"),
    "parts": parts_table,
    "compiling": compile_table,
}


def rates(found: dict[str, Any]) -> list[Rate]:
    """The numbers as rates of a result file."""
    tasks = {
        **{f"step, {what}": (row, found["batch"]) for what, row in found["steps"].items()},
        **{f"step with A and B, {what}": (row, found["batch"]) for what, row in found["derivatives"].items()},
        "rollout of 1,000 steps, 1 robot": (found["rollouts"]["1 robot"], 1),
    }
    return [
        Rate(task, found["robot"], 18, library, "cpu", "f64", batch, 1e6 / microseconds)
        for task, (row, batch) in tasks.items()
        for library, microseconds in row.items()
    ]
