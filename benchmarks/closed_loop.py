"""Closed loops in one kernel: PiDog under a policy beside mujoco.rollout, an arm at 4 kHz, and their compile times."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks.measure import SECONDS, busy, race
from condyle.apps.pidog.poses import pose_angles
from condyle.robot.conventions import q_to_mujoco, v_to_mujoco
from condyle.workbench.compare.to_mujoco import mujoco_compiled, mujoco_spec

# -- PiDog: eight servos, an IMU, a policy of 50 Hz, 5 x 4 ms of physics

DT, DECIMATION, FRICTION, HEIGHT = 0.004, 5, 0.8, 0.12
EFFORT, KP, KD, DELAY = 0.216, 4.0, 0.05, 0.012  # N m, N m/rad, N m s/rad, s
HIDDEN, ACTION = 64, 0.1  # neurons of two layers; rad: an action of 1 moves a target so far
OBSERVED = 3 + 3 + 8 + 8 + 3  # rate, acceleration, angles, speeds, command
ROBOTS, POLICY_STEPS = 1024, 10


@cache
def dog() -> cd.Robot:
    """PiDog without its head's and tail's joints."""
    return cd.load("pidog").lock(["head", "tail"])


def network(rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Random layers (W, b)."""
    sizes = (OBSERVED, HIDDEN, HIDDEN, 8)
    return [(rng.normal(size=(n, m)) / np.sqrt(m), 0.1 * rng.normal(size=n)) for m, n in pairwise(sizes)]


def world() -> cd.Simulation:
    """The dog on a plane that its feet can touch."""
    return cd.Simulation(dog(), DT, cd.Plane(FRICTION), "*_foot")


def dog_loop(*, physics_only: bool = False) -> cd.Loop:
    """Servos with delay and dead band, IMU, policy; `physics_only`: the policy is outside, and gives the targets."""
    stand = np.deg2rad(pose_angles("stand"))
    imu = cd.blocks.IMU("torso", rate_noise=1e-3, acceleration_noise=1e-2, every=DECIMATION)
    servo = cd.blocks.HobbyServo(
        dog().joint_names[1:], effort=EFFORT, kp=KP, kd=KD, dead_band=0.008, delay=DELAY, max_delay=2 * DELAY, name="servo"
    )
    policy = cd.blocks.MLP(network(np.random.default_rng(0)), "elu", scale=ACTION, offset=stand, every=DECIMATION)

    def observation(x: Any, command: Any) -> Any:
        measured = imu(x)
        return np.concatenate([measured["rate"], 0.1 * measured["acceleration"], x.q[7:] - stand, 0.1 * x.v[6:], command])

    def closed(x: Any, command: Any) -> Any:
        return servo(policy(observation(x, command)), x)

    def opened(x: Any, target: Any, command: Any) -> Any:
        return {**servo(target, x), "observation": observation(x, command)}

    return cd.Loop(world(), opened, target=8, command=3) if physics_only else cd.Loop(world(), closed, command=3)


def start(loop: cd.Loop, robots: int) -> np.ndarray:
    """The dogs a little above the ground, in the pose in which they stand."""
    q = dog().neutral()
    q[2], q[7:] = HEIGHT, np.deg2rad(pose_angles("stand"))
    return loop.state(np.repeat(q[None], robots, axis=0))


def varied(robots: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Masses, frictions and gains of the robots."""
    mass = float(dog().parameter("torso.mass"))
    return {
        "torso.mass": mass * rng.uniform(0.8, 1.2, robots),
        "ground.friction": rng.uniform(0.5, 1.0, robots),
        "servo.kp": KP * rng.uniform(0.8, 1.2, robots),
        "servo.delay": DELAY * rng.uniform(0.5, 1.5, robots),
    }


def forward(layers: list[tuple[np.ndarray, np.ndarray]], x: np.ndarray) -> np.ndarray:
    """The policy in NumPy, of a batch."""
    for k, (W, b) in enumerate(layers):
        x = x @ W.T + b
        if k < len(layers) - 1:
            x = np.where(x > 0.0, x, np.exp(np.minimum(x, 0.0)) - 1.0)
    return np.asarray(ACTION * x)


def mujoco_dog() -> Any:
    """mujoco.MjModel of the same robot: feet on a plane, position servos with the same gains and efforts."""
    import mujoco

    model, feet = dog().model, world().contact_points
    spec = mujoco_spec(model)
    spec.compiler.degree = False
    spec.option.timestep, spec.option.integrator = DT, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    rough = [FRICTION, 0.005, 0.0001]
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], friction=rough)
    for point in feet:
        body, size = spec.body(model.links[point.link].name), [point.radius, 0, 0]
        body.add_geom(type=mujoco.mjtGeom.mjGEOM_SPHERE, size=size, pos=point.position, friction=rough, mass=0.0)
    for link in model.links[1:]:
        motor = spec.add_actuator(name=link.joint, target=link.joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        motor.set_to_position(kp=KP, kv=KD)
        motor.forcelimited, motor.forcerange = True, [-EFFORT, EFFORT]
    return mujoco_compiled(spec)


class MujocoDogs:
    """A batch of dogs in MuJoCo: five steps by mujoco.rollout, then the policy in NumPy on the states."""

    def __init__(self, x: np.ndarray, threads: int) -> None:
        import mujoco
        from mujoco import rollout

        self.model, nq = mujoco_dog(), dog().nq
        q, v = x[:, :nq], x[:, nq : nq + dog().nv]
        time_column = np.zeros((len(x), 1))
        self.state = np.concatenate([time_column, q_to_mujoco(dog().model, q), v_to_mujoco(dog().model, q, v)], axis=1)
        self.data = [mujoco.MjData(self.model) for _ in range(threads)]
        self.pool, self.layers = rollout.Rollout(nthread=threads), network(np.random.default_rng(0))
        self.stand, self.nq = np.deg2rad(pose_angles("stand")), nq

    def policy_step(self) -> None:
        """One step of the policy of all robots, without IMU, delay, dead band and noise."""
        q, v = self.state[:, 1 + 7 : 1 + self.nq], self.state[:, 1 + self.nq + 6 :]
        seen = np.concatenate([np.zeros((len(q), 6)), q - self.stand, 0.1 * v, np.zeros((len(q), 3))], axis=1)
        target = self.stand + forward(self.layers, seen)
        control = np.repeat(target[:, None], DECIMATION, axis=1)
        states, _ = self.pool.rollout(self.model, self.data, self.state, control)
        self.state = states[:, -1]


def race_of_dogs(console: Console, *, tiny: bool) -> dict[str, Any]:
    """Processor time and policy steps per second, all in the kernel, stepped from Python, and in MuJoCo."""
    robots, steps = (16, 2) if tiny else (ROBOTS, POLICY_STEPS)
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    rng = np.random.default_rng(1)
    inside, outside = dog_loop(), dog_loop(physics_only=True)
    parameters, command = varied(robots, rng), np.array([0.1, 0.0, 0.0])
    options: dict[str, Any] = {"parameters": parameters, "record": ["q"], "every": DECIMATION, "freeze": True}
    ticks = steps * DECIMATION
    settled = inside.rollout(start(inside, robots), command, 40 * DECIMATION if not tiny else ticks, **options)
    ours = {"x": settled.x}
    theirs = {"x": start(outside, robots)}
    theirs["x"][:, : inside.layout["tick"][0].start] = settled.x[:, : inside.layout["tick"][0].start]
    layers, stand = network(np.random.default_rng(0)), np.deg2rad(pose_angles("stand"))
    dogs = MujocoDogs(settled.x, threads)

    frozen = {"ours": 0.0, "float32": 0.0}

    def kernel() -> None:
        out = inside.rollout(ours["x"], command, ticks, **options)
        ours["x"], frozen["ours"] = out.x, max(frozen["ours"], float(np.mean(~out.status.ok)))

    single = {"x": ours["x"].astype(np.float32)}

    def kernel_single() -> None:
        out = inside.rollout(single["x"], command, ticks, **options)
        single["x"], frozen["float32"] = out.x, max(frozen["float32"], float(np.mean(~out.status.ok)))

    def stepped() -> None:
        target = np.broadcast_to(stand, (robots, 8))
        for _ in range(steps):
            rows = {"target": target[:, None], "command": command}
            out = outside.rollout(theirs["x"], rows, DECIMATION, **{**options, "record": ["observation"]})
            theirs["x"], target = out.x, stand + forward(layers, out["observation"][:, -1])

    def mujoco_steps() -> None:
        for _ in range(steps):
            dogs.policy_step()

    calls = {
        "all in one kernel, float64": kernel,
        "all in one kernel, float32": kernel_single,
        "policy in Python between rollouts of 5 ticks": stepped,
        "mujoco.rollout of 5 ticks, policy in NumPy": mujoco_steps,
    }
    wall, cpu = race_both(calls, 0.01 if tiny else 2.0 * SECONDS)
    count = robots * steps
    table = Table("PiDog, 1,024 robots", "us a policy step", "processor us", "policy steps/s", "MuJoCo / this")
    last = wall["mujoco.rollout of 5 ticks, policy in NumPy"]
    for name in calls:
        table.add_row(
            name,
            f"{1e6 * wall[name] / count:.2f}",
            f"{1e6 * cpu[name] / count:.2f}",
            f"{count / wall[name]:,.0f}",
            f"{last / wall[name]:.1f}",
        )
    console.print(table)
    # none may fall over, or fast would mean nothing
    heights = {"ours": ours["x"][:, 2], "float32": single["x"][:, 2], "MuJoCo": dogs.state[:, 3]}
    standing = {name: float(np.mean((z > 0.04) & (z < 0.16))) for name, z in heights.items()}
    console.print(", ".join(f"{name}: {100 * part:.0f} % between 40 and 160 mm" for name, part in standing.items()))
    # nor stop: a robot that does not converge stays as it is
    console.print(", ".join(f"{name}: {100 * part:.2g} % frozen at most" for name, part in frozen.items()))
    return {"wall": wall, "cpu": cpu, "policy_steps": count, "threads": threads, "standing": standing, "frozen": frozen}


def race_both(calls: dict[str, Callable[[], object]], seconds: float) -> tuple[dict[str, float], dict[str, float]]:
    """The smallest wall time and the smallest processor time of each call."""
    cpu: dict[str, list[float]] = {name: [] for name in calls}

    def timed(name: str) -> Callable[[], None]:
        def call() -> None:
            before = time.process_time()
            calls[name]()
            cpu[name].append(time.process_time() - before)

        return call

    for call in calls.values():
        call()
    wall = race({name: timed(name) for name in calls}, seconds)
    return wall, {name: min(each) for name, each in cpu.items()}


# -- an arm at 4 kHz, computed torque at 1 kHz

ARM_DT, ARM_EVERY, ARM_DELAY = 0.00025, 4, 0.002
VISCOUS, COULOMB, SMOOTH = 0.1, 0.5, 0.02  # N m s/rad, N m, rad/s


class ComputedTorque(cd.Block):
    """tau = ID(q, v, a) with  a = -kp (q - q_ref) - kd v + noise of the measurement."""

    def __init__(self, robot: cd.Robot, **options: Any) -> None:
        super().__init__(**options)
        self.robot = robot
        self.kp, self.kd = self.parameter("kp", 400.0, "1/s^2"), self.parameter("kd", 40.0, "1/s")

    def step(self, state: dict[str, Any], *inputs: Any) -> tuple[Any, dict[str, Any]]:
        """The torque for a target, and the measured angles and speeds."""
        target, q, v = inputs
        q = q + 1e-4 * self.normal(self.robot.nv)
        return self.robot.inverse_dynamics(q, v, self.kp * (target - q) - self.kd * v), {}


def arm_loop() -> cd.Loop:
    """A UR3 with friction, a delay of 2 ms between controller and motors, and noisy encoders."""
    robot = cd.load("ur3")
    control, delay = ComputedTorque(robot, every=ARM_EVERY, name="control"), cd.blocks.Delay(6, ARM_DELAY, every=ARM_EVERY)

    def closed(x: Any, target: Any) -> Any:
        friction = -VISCOUS * x.v - COULOMB * np.tanh(x.v / SMOOTH)
        return delay(control(target, x.q, x.v)) + friction

    return cd.Loop(cd.Simulation(robot, ARM_DT, damping=False), closed, target=6)


def race_of_arms(console: Console, *, tiny: bool) -> dict[str, Any]:
    """Times real time: one arm stepped from Python, one arm in a kernel, 1,024 arms on one core."""
    loop = arm_loop()
    ticks, robots = (40, 16) if tiny else (4000, 1024)
    target = np.array([0.5, -1.0, 1.0, -0.5, 0.5, 0.2])
    x0 = loop.state(np.array([0.0, -1.2, 0.8, 0.0, 0.3, 0.0]))
    X, many = np.repeat(x0[None], robots, axis=0), ticks // 10
    state = {"x": x0}

    def stepped() -> None:
        for _ in range(many):
            state["x"] = loop.step(state["x"], target)

    calls = {
        "one arm, loop.step from Python": (stepped, many * ARM_DT),
        "one arm, one kernel": (lambda: loop.rollout(x0, target, ticks, record=["q"], every=ARM_EVERY, lanes=1), ticks * ARM_DT),
        f"{robots:,} arms, one thread": (
            lambda: loop.rollout(X, target, many, record=["q"], every=ARM_EVERY, threads=1),
            many * ARM_DT * robots,
        ),
    }
    for call, _ in calls.values():
        call()
    times = race({name: call for name, (call, _) in calls.items()}, 0.01 if tiny else SECONDS)
    table = Table("UR3 at 4 kHz, computed torque at 1 kHz", "us a tick", "times real time")
    found = {}
    for name, (_, simulated) in calls.items():
        found[name] = simulated / times[name]
        table.add_row(name, f"{1e6 * times[name] * ARM_DT / simulated:.3f}", f"{found[name]:,.0f}")
    console.print(table)
    return found


# -- compile times


@contextmanager
def empty_cache() -> Any:
    """A kernel cache with nothing in it."""
    with TemporaryDirectory(prefix="condyle-bench-") as folder, patch.dict(os.environ, {"CONDYLE_CACHE": folder}):
        from condyle.tape.cache import shared_cache

        shared_cache.cache_clear() if hasattr(shared_cache, "cache_clear") else None
        yield
    shared_cache.cache_clear() if hasattr(shared_cache, "cache_clear") else None


def compile_times(console: Console) -> dict[str, Any]:
    """Seconds until the first result, with an empty cache and with a full one."""
    found: dict[str, Any] = {}
    table = Table("seconds to the first rollout", "empty cache", "full cache")
    with empty_cache():
        for name, make, size in (("PiDog's closed loop", dog_loop, 3), ("the arm's closed loop", arm_loop, 6)):
            times = []
            for _ in range(2):
                begin = time.perf_counter()
                loop = make()
                loop.rollout(loop.state(), np.zeros(size), 4 if size == 6 else 5, record=["q"], freeze=True)
                times.append(time.perf_counter() - begin)
            found[name] = times
            table.add_row(name, *[f"{t:.2f}" for t in times])
    console.print(table)
    return found


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the tables and return their numbers."""
    found: dict[str, Any] = {"busy": busy()}
    found["dogs"] = race_of_dogs(console, tiny=tiny)
    found["arms"] = race_of_arms(console, tiny=tiny)
    if not tiny:
        found["compile"] = compile_times(console)
    return found
