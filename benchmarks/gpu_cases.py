"""What is measured on a GPU: tapes with states, made where robots and LLVM are installed, in a folder that needs neither.

python -m benchmarks.gpu_cases FOLDER       # here: tapes, states, checksums of the results, kernels of the processor, MJCF
python -m benchmarks.gpu FOLDER             # there: only NumPy and the driver of the GPU
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from condyle.tape.function import Function
from condyle.tape.tape import Port, Tape
from condyle.tape.tape_codec import decode_block, encode_block

STATES = 1024  # given ones, of which larger batches are made; their results are compared bit for bit
STEPS = 64  # of a rollout
DTYPES = {"f32": np.float32, "f64": np.float64}
CASES, BUNDLE, PEERS, MJCF = "cases.npz", "cases.bundle", "peers.npz", "anymal.xml"
PROCESSOR = "cpu:x86-64-v4"


@dataclass(frozen=True)
class Case:
    """A tape with its states, and what the processor computed from them: sha256 of the results by precision."""

    task: str
    robot: str
    nv: int
    tape: Tape
    arrays: list[np.ndarray]
    steps: int = 1  # that one evaluation makes
    checksums: dict[str, str] | None = None

    @property
    def name(self) -> str:
        """The task and its robot."""
        return f"{self.task}, {self.robot}"

    @property
    def bytes_per_state(self) -> int:
        """Memory of inputs and results in float64."""
        rows = self.arrays[-1].shape[1] if self.arrays[-1].ndim > 2 else 1
        ports = (*self.tape.inputs, *self.tape.outputs)
        return 8 * sum(rows * port.columns if port.run_time else port.size for port in ports)


def checksum(outputs: Sequence[np.ndarray]) -> str:
    """sha256 of all bits of some arrays of rows; all NaNs are one, for processors and GPUs give them different bits."""
    digest = hashlib.sha256()
    for a in outputs:
        digest.update(np.ascontiguousarray(np.where(np.isnan(a), np.asarray(np.nan, a.dtype), a)).tobytes())
    return digest.hexdigest()


# ---- making them


def cases(only: str = "", states: int = STATES) -> Iterator[Case]:
    """The cases whose task and robot contain a text, one after the other, as they are traced."""
    for (task, robot), make in makers(states).items():
        if only in f"{task}, {robot}":
            yield make()


def makers(states: int) -> dict[tuple[str, str], Callable[[], Case]]:
    """What makes each case, by task and robot."""
    dynamics = {
        ("forward dynamics", robot): ("forward_dynamics", robot)
        for robot in ("double_pendulum", "ur3", "panda", "anymal", "fourlimb", "talos")
    } | {("derivatives", robot): ("forward_dynamics_derivatives", robot) for robot in ("panda", "anymal", "talos")}
    found: dict[tuple[str, str], Callable[[], Case]] = {
        key: (lambda key=key, which=which: of_dynamics(key[0], *which, states)) for key, which in dynamics.items()
    }
    for task in ("step, standing", "step, treading", f"rollout of {STEPS} steps", "step with A and B"):
        found[task, "anymal"] = lambda task=task: anymal_step(task, states)
    for robot in ("pidog", "fourlimb"):
        found["step, standing", robot] = lambda robot=robot: built_in_step(robot, states)
    return found


def robot_of(name: str) -> Any:
    """A robot of the benchmarks: panda, anymal and talos as `python -m benchmarks robots` has them."""
    import condyle as cd
    from benchmarks.robots import FILES, example_robots
    from condyle.errors import RobotError

    if name not in FILES:
        return cd.load(name)
    folder = example_robots()
    if folder is None:
        raise RobotError([f"{name} is a robot of example-robot-data, which is not installed: pip install 'condyle[peers]'"])
    file, base, lock = FILES[name]
    robot = cd.load(str(folder / file), base, constraints=False)
    return robot.lock(lock) if lock else robot


def of_dynamics(task: str, function: str, name: str, states: int) -> Case:
    """A function of a robot at random states."""
    robot, rng = robot_of(name), np.random.default_rng(0)
    q, v, tau = robot.random_configuration(rng, states), rng.normal(size=(states, robot.nv)), rng.normal(size=(states, robot.nv))
    return Case(task, name, robot.nv, robot.function(function).tape, [q, v, tau])


def step_tape(world: Any, kernel: str = "rollout") -> Tape:
    """The tape of a step or rollout, or with "jacobians" of a step with A and B."""
    from condyle.simulate.kernels import Stepper, compiled
    from condyle.tape.trace import Rows

    shapes = {"us": Rows(None, world.nu)} if kernel == "rollout" else {"u": world.nu}
    return compiled(Stepper(world.world, world.integrator, world.substeps), kernel, {}, x=world.nx, **shapes).tape


def anymal_step(task: str, states: int) -> Case:
    """ANYmal as in benchmarks/contact.py: standing, or in the midst of treading, each state with its control."""
    from benchmarks import standing

    world = standing.simulation(robot_of("anymal"))
    stance = standing.settled(world)
    name, nv = "anymal", world.robot.nv
    if task == "step, standing":
        x, u = standing.nearby(stance, states)
        return Case(task, name, nv, step_tape(world), [x, u[:, None]])
    first, us, xs = standing.moving(world, stance, states, STEPS)
    if task.startswith("rollout"):
        return Case(task, name, nv, step_tape(world), [first, us], STEPS)
    every = np.arange(states) % STEPS
    x, u = xs[np.arange(states), every], us[np.arange(states), every]
    if task == "step with A and B":
        return Case(task, name, nv, step_tape(world, "jacobians"), [x, u])
    return Case(task, name, nv, step_tape(world), [x, u[:, None]])


def built_in_step(name: str, states: int) -> Case:
    """A built-in robot on its feet, at heights and speeds a little different."""
    import condyle as cd
    from benchmarks.fourlimb import FEET

    feet = "*_foot" if name == "pidog" else FEET
    world = cd.Simulation(cd.load(name), 0.002, cd.Plane(0.5), feet)
    x, rng = np.tile(world.stand(), (states, 1)), np.random.default_rng(0)
    x[:, 2] += rng.uniform(-1e-4, 1e-4, states)
    x[:, world.robot.nq :] += 0.01 * rng.standard_normal((states, world.robot.nv))
    return Case("step, standing", name, world.robot.nv, step_tape(world), [x, np.zeros((states, 1, world.nu))])


def results(case: Case, precision: str) -> list[np.ndarray]:
    """The results of the processor, as rows."""
    found = Function(case.tape)(*[a.astype(DTYPES[precision]) for a in case.arrays])
    arrays = found if isinstance(found, tuple) else (found,)
    return [np.asarray(a).reshape(len(case.arrays[0]), -1) for a in arrays]


# ---- in a folder


def save(folder: Path, made: Sequence[Case]) -> None:
    """Write cases with the checksums of their results, and their kernels for the processor."""
    from condyle.tape.bundle import save_bundle

    folder.mkdir(parents=True, exist_ok=True)
    listed, arrays = [], {}
    for k, case in enumerate(made):
        sums = {precision: checksum(results(case, precision)) for precision in DTYPES}
        ports = {side: [_port_record(p) for p in getattr(case.tape, side)] for side in ("inputs", "outputs")}
        facts = {"task": case.task, "robot": case.robot, "nv": case.nv, "steps": case.steps, "checksums": sums}
        listed.append({**facts, "tape": case.tape.name, **ports, "arrays": len(case.arrays)})
        arrays |= {f"{k}/{i}": a for i, a in enumerate(case.arrays)}
        arrays[f"{k}/block"] = np.frombuffer(encode_block(case.tape.block), np.uint8)
    np.savez_compressed(folder / CASES, cases=np.frombuffer(json.dumps(listed).encode(), np.uint8), **arrays)
    save_bundle(folder / BUNDLE, {case.name: Function(case.tape) for case in made}, [PROCESSOR])


def load(folder: Path) -> list[Case]:
    """The cases of a folder."""
    with np.load(folder / CASES) as file:
        found = []
        for k, facts in enumerate(json.loads(file["cases"].tobytes())):
            inputs, outputs = (tuple(_port(p) for p in facts[side]) for side in ("inputs", "outputs"))
            tape = Tape(facts["tape"], decode_block(file[f"{k}/block"].tobytes()), inputs, outputs)
            arrays = [file[f"{k}/{i}"] for i in range(facts["arrays"])]
            found.append(Case(facts["task"], facts["robot"], facts["nv"], tape, arrays, facts["steps"], facts["checksums"]))
    return found


def _port_record(port: Port) -> dict[str, Any]:
    assert port.parameter is None, f"{port.name} is a parameter"
    return {"name": port.name, "shape": port.shape, "table": port.table, "uniform": port.uniform}


def _port(record: dict[str, Any]) -> Port:
    return Port(**{**record, "shape": tuple(record["shape"])})


def save_peers(folder: Path, states: int = STATES) -> None:
    """Write ANYmal as MJCF, with MuJoCo's states: standing under constant torques, and at the start of the rollouts."""
    from benchmarks import standing

    world = standing.simulation(robot_of("anymal"))
    spec = standing.twin_spec(world)
    twin = spec.compile()
    standing.check_twin(world, twin)
    (folder / MJCF).write_text(spec.to_xml())
    stance, data = standing.settled_mujoco(world, twin)
    first = standing.moving(world, standing.settled(world), states, 1)[0]
    start = standing.mujoco_states(world, twin, first)[:, 1:]
    np.savez_compressed(folder / PEERS, standing=np.concatenate([data.qpos, data.qvel]), torques=stance.u, treading=start)


def main(folder: str, only: str = "") -> None:
    """Write the folder."""
    made = []
    for case in cases(only):
        print(f"{case.name}: {case.tape.operations:,} operations", flush=True)
        made.append(case)
    save(Path(folder), made)
    if not only:
        save_peers(Path(folder))
    for path in sorted(Path(folder).iterdir()):
        print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
