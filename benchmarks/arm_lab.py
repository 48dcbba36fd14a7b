"""An arm at 4 kHz with 1 kHz control and full logging: from Python, in the kernel, 1,024 arms; MuJoCo and Pinocchio loops."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.measure import SECONDS, busy, race
from benchmarks.peers import mujoco_twin, pinocchio_twin
from condyle.apps.lab.experiment import Experiment, Setup
from condyle.apps.lab.run import run_experiment

PHYSICS, CONTROL = 4000, 1000  # Hz
KP, KD = 400.0, 40.0  # 1/s^2, 1/s
START = np.array([0.0, -1.2, 1.2, -1.5, -1.5, 0.3])
END = np.array([0.5, -1.0, 1.0, -1.4, -1.3, 0.5])
LOGGED = ["q", "v", "u"]


FAULTS: dict[str, Any] = {
    "sensors": {"position_noise": 1e-4},
    "actuators": {"effort": 60.0},
    "wrenches": [{"name": "push", "wrench": [0.0, 20.0, 0.0, 0.0, 0.0, 0.0], "start": 1.2}],
}
COULOMB = [0.2, 0.2, 0.1, 0.02, 0.02, 0.01]  # N m


def experiment(seconds: float, *, limits: bool, **more: Any) -> Experiment:
    """A quintic move of the UR3; `limits`: whether the solver watches the limits of its joints."""
    return Experiment(
        **more,
        duration=seconds,
        robot={"name": "ur3", "q": START, "joint_limits": limits},
        rates={"physics": PHYSICS, "control": CONTROL},
        controller={"name": "computed_torque", "kp": KP, "kd": KD},
        reference={"kind": "point_to_point", "waypoints": [END]},
    )


@cache
def setup(seconds: float, limits: bool) -> Setup:
    """The loop and its references."""
    return experiment(seconds, limits=limits).setup(threads=1)


def from_python(at: Setup) -> Callable[[], np.ndarray]:
    """`loop.step` for every tick, with the row of the reference and the log kept in Python."""
    loop, every = at.loop, PHYSICS // CONTROL
    rows, x0, ticks = at.rows, at.x0, at.ticks
    log_x, log_u = np.zeros((ticks, loop.nx)), np.zeros((ticks, 6))

    def run() -> np.ndarray:
        x, k = x0, 0
        for row in rows:
            for _ in range(every):
                x, out = loop.step(x, row, record=("u",))
                log_x[k], log_u[k] = x, out["u"]
                k += 1
        return x[:6]

    return run


def in_the_kernel(at: Setup, arms: int | None = None) -> Callable[[], np.ndarray]:
    """One rollout that records q, v and u at every tick; of many arms, at every update of the controller."""
    x = at.x0 if arms is None else np.repeat(at.x0[None], arms, axis=0)
    every = 1 if arms is None else PHYSICS // CONTROL

    def run() -> np.ndarray:
        out = at.loop.rollout(x, {"reference": at.rows}, at.ticks, record=LOGGED, every=every, threads=1)
        return np.atleast_2d(out.x)[0, :6]

    return run


def into_a_file(of: Experiment, path: Path) -> Callable[[], np.ndarray]:
    """`condyle lab run -o`: the loop is built, and every tick is written with checksums."""

    def run() -> np.ndarray:
        return run_experiment(of, path, overwrite=True).run.q[-1]

    return run


def with_mujoco(at: Setup) -> Callable[[], np.ndarray]:
    """mj_step at every tick, mj_inverse at every update: the same law, logged."""
    import mujoco

    twin = mujoco_twin(at.experiment.arm.model)
    twin.opt.timestep = 1.0 / PHYSICS
    data, model_data = mujoco.MjData(twin), mujoco.MjData(twin)
    rows, every, ticks = at.rows, PHYSICS // CONTROL, at.ticks
    log_q, log_v, log_u = np.zeros((ticks, 6)), np.zeros((ticks, 6)), np.zeros((ticks, 6))
    twin.dof_damping[:] = [link.damping for link in at.experiment.arm.model.links]

    def run() -> np.ndarray:
        mujoco.mj_resetData(twin, data)
        data.qpos[:] = START
        k = 0
        for row in rows:
            q, v = data.qpos, data.qvel
            model_data.qpos, model_data.qvel = q, v
            model_data.qacc = row[12:] + KD * (row[6:12] - v) + KP * (row[:6] - q)
            mujoco.mj_inverse(twin, model_data)
            u = np.array(model_data.qfrc_inverse)  # with the damping that the arm has
            data.qfrc_applied = u
            for _ in range(every):
                mujoco.mj_step(twin, data)
                log_q[k], log_v[k], log_u[k] = data.qpos, data.qvel, u
                k += 1
        return np.array(data.qpos)

    return run


def with_pinocchio(at: Setup) -> Callable[[], np.ndarray]:
    """aba and a semi-implicit Euler step at every tick, rnea at every update: the same law, logged."""
    import pinocchio as pin

    model = at.experiment.arm.model
    twin = pinocchio_twin(model)
    data, h = twin.createData(), 1.0 / PHYSICS
    damping = np.array([link.damping for link in model.links])
    rows, every, ticks = at.rows, PHYSICS // CONTROL, at.ticks
    log_q, log_v, log_u = np.zeros((ticks, 6)), np.zeros((ticks, 6)), np.zeros((ticks, 6))

    def run() -> np.ndarray:
        q, v = START.copy(), np.zeros(6)
        k = 0
        for row in rows:
            u = pin.rnea(twin, data, q, v, row[12:] + KD * (row[6:12] - v) + KP * (row[:6] - q)) + damping * v
            for _ in range(every):
                v = v + h * pin.aba(twin, data, q, v, u - damping * v)
                q = q + h * v
                log_q[k], log_v[k], log_u[k] = q, v, u
                k += 1
        return q

    return run


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print times real time of each way, and where the arm ends in each."""
    seconds, arms = (0.02, 16) if tiny else (2.0, 1024)
    short = 0.02 if tiny else 0.2
    free, limited = setup(seconds, False), setup(seconds, True)
    noisy = experiment(seconds, limits=False, **FAULTS).setup(threads=1)
    smooth = {"coulomb": COULOMB, "viscous": 0.01, "smooth_speed": 0.05}
    rubbing = experiment(seconds, limits=False, friction=smooth, **FAULTS).setup(threads=1)
    sticking = experiment(seconds, limits=False, friction={"coulomb": COULOMB, "viscous": 0.01}, **FAULTS).setup(threads=1)
    with TemporaryDirectory(prefix="condyle-bench-") as folder:
        calls: dict[str, tuple[Callable[[], np.ndarray], float]] = {
            "loop.step from Python, every tick logged": (from_python(free), seconds),
            "one kernel, every tick logged": (in_the_kernel(free), seconds),
            "one kernel, joint limits, every tick logged": (in_the_kernel(limited), seconds),
            "one kernel, noise, torque limits, a push": (in_the_kernel(noisy), seconds),
            "one kernel, these and smooth friction": (in_the_kernel(rubbing), seconds),
            "one kernel, these and friction that sticks": (in_the_kernel(sticking), seconds),
            "condyle lab run -o, with its file": (
                into_a_file(experiment(seconds, limits=False), Path(folder) / "run.cdl"),
                seconds,
            ),
            f"{arms:,} arms, one core": (in_the_kernel(setup(short, False), arms), short * arms),
            f"{arms:,} arms, joint limits, one core": (in_the_kernel(setup(short, True), arms), short * arms),
            "Pinocchio loop in Python": (with_pinocchio(free), seconds),
            "MuJoCo loop in Python": (with_mujoco(free), seconds),
        }
        ends = {name: call() for name, (call, _) in calls.items()}
        times = race({name: call for name, (call, _) in calls.items()}, 0.01 if tiny else 2.0 * SECONDS)
    table = Table("UR3, 4 kHz physics, 1 kHz computed torque", "us a tick", "times real time")
    found: dict[str, Any] = {"busy": busy(), "times_real_time": {}}
    for name, (_, simulated) in calls.items():
        found["times_real_time"][name] = simulated / times[name]
        table.add_row(name, f"{1e6 * times[name] / (simulated * PHYSICS):.3f}", f"{simulated / times[name]:,.0f}")
    console.print(table)
    reference = ends["one kernel, every tick logged"]
    same = [name for name in ends if not any(word in name for word in ("arms", "these", "noise"))]
    apart = {name: float(np.abs(ends[name] - reference).max()) for name in same}
    found["apart"] = apart
    console.print(
        "largest difference of a joint at the end from the kernel, rad: " + ", ".join(f"{n} {x:.1e}" for n, x in apart.items())
    )
    return found
