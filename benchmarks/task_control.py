"""Controllers of the tool: stiffness by a push, energy over 1,000 pushes, force on a plane, response, time per tick, MPC."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks.measure import best
from condyle.blocks.force_sensors import ForceTorque
from condyle.dynamics.rotations import quaternion_exp, quaternion_log, quaternion_of
from condyle.methods.control.arm_controller import ToolSample
from condyle.methods.control.external_wrench import ExternalWrench
from condyle.methods.control.force_control import Admittance, HandGuiding, HybridForcePosition
from condyle.methods.control.passivity import EnergyBalance
from condyle.methods.control.task_control import CartesianImpedance, OperationalSpace
from condyle.methods.mpc.arm_mpc import ArmMPC
from condyle.methods.planning.profiles import Sample, quintic
from condyle.robot.joints import rotation_of

READY = np.array([0.3, -1.2, 1.6, -2.0, -1.57, 0.2])
TOOL = {"ur3": "tool", "panda": "panda_hand_tcp"}
PUSH = np.array([10.0, 10.0, 10.0, 1.0, 1.0, 1.0])  # N, N m
FORCE, FRICTION, SPEED = 20.0, 0.3, 0.03  # N on the plane, its friction, m/s along it


def arm(name: str) -> cd.Robot:
    """The arm; the Panda with its fingers locked."""
    robot = cd.load(name)
    return robot.lock(["panda_finger"]) if name == "panda" else robot


def poses(robot: cd.Robot, frame: str, count: int, seed: int = 0) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Random configurations away from singularities (effective masses below 50 kg in all), and references there."""
    rng, found = np.random.default_rng(seed), np.zeros((0, robot.nv))
    middle = READY if robot.name == "ur3" else 0.5 * (robot.lower + robot.upper)
    S = np.array([1.0, 1.0, 1.0, 0.15, 0.15, 0.15])
    while len(found) < count:
        q = middle + rng.uniform(-1.0, 1.0, (256, robot.nv))
        J = robot.jacobian(q, frame)
        A = (J @ robot.inverse_mass_matrix(q) @ np.swapaxes(J, 1, 2)) * np.outer(S, S)
        found = np.concatenate([found, q[np.trace(np.linalg.inv(A), axis1=1, axis2=2) < 50.0]])
    q = found[:count]
    R, p = robot.frame_pose(q, frame)
    return q, {"R": R.reshape(count, 1, 9), "p": p[:, None]}


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the tables and return their numbers."""
    found: dict[str, Any] = {}
    names = ("ur3",) if tiny else ("ur3", "panda")
    table = Table("measured", "arm", "result")
    for name in names:
        found[f"stiffness, {name}"] = worst = stiffness(name, 2 if tiny else 50, 200 if tiny else 6000)
        table.add_row("largest error of the stiffness, relative to K", name, f"{worst:.1e}")
        found[f"response, {name}"] = errors = response(name, (2e-3,) if tiny else (5e-4, 2.5e-4))
        table.add_row(
            "response of the tool beside its closed form, at each dt, extrapolated", name, ", ".join(f"{e:.1e}" for e in errors)
        )
        found[f"null space, {name}"] = leak = null_space(name, 4 if tiny else 1000)
        table.add_row(
            "acceleration of the tool by null-space torques, m/s^2 and rad/s^2; of the joints",
            name,
            f"{leak[0]:.1e}; {leak[1]:.1e}",
        )
    found["admittance"] = steady = admittance(200 if tiny else 5000)
    table.add_row("admittance: |d - F/K| / (F/K), error of the inner loop", "ur3", f"{steady[0]:.1e}, {steady[1]:.1e}")
    for path in ("line",) if tiny else ("line", "circle"):
        for compensation in (1.0,) if tiny else (0.0, 0.9, 1.0):
            key = f"{path}, compensation {compensation:g}"
            found[key] = numbers = sliding(path, compensation, 200 if tiny else 6000)
            table.add_row(f"force on a plane along a {key}: largest error, at the end, error of the path, mm", "ur3",
                          f"{numbers[0]:.1e}, {numbers[1]:.1e}, {1e3 * numbers[2]:.3f}")  # fmt: skip
    for inertia in () if tiny else (True, False):
        key = f"line, sensor with noise of 0.1 N and a delay of 2 ms, {'inertia and weight' if inertia else 'weight'} taken out"
        found[key] = numbers = sliding("line", 0.9, 6000, inertia=inertia, delay=0.002, force_noise=0.1, torque_noise=0.005)
        table.add_row(f"force on a plane along a {key}", "ur3", f"{numbers[0]:.1e}, {numbers[1]:.1e}, {1e3 * numbers[2]:.3f}")
    console.print(table)
    found["energy"] = energies(console, tiny)
    found["seconds"] = speeds(console, 0.02 if tiny else 1.0)
    found["mpc"] = predictive(console, tiny)
    return found


# ---- properties


def referenced(R: Any, p: Any) -> ToolSample:
    """The reference of two arrays of a loop."""
    return ToolSample(R.reshape(3, 3), p)


def stiffness(name: str, count: int, ticks: int) -> float:
    """max |K d - F| / |F| after a constant push along each of six axes, at `count` poses."""
    robot, frame = arm(name), TOOL[name]
    control = CartesianImpedance(cd.Simulation(robot, dt=0.001, ground=None), frame)
    loop = cd.Loop(
        control.simulation,
        lambda x, R, p, push: {**control(x, referenced(R, p)), "wrenches": {frame: push}},
        R=9, p=3, push=6,
    )  # fmt: skip
    q, rows = poses(robot, frame, count)
    rows = {key: np.repeat(value, 6, axis=0) for key, value in rows.items()}
    push = np.tile(np.diag(PUSH), (count, 1))
    out = loop.rollout(loop.state(np.repeat(q, 6, axis=0)), {**rows, "push": push[:, None]}, ticks, record=["error"], every=ticks)
    # rotations as parts of PUSH's torque, displacements of its force
    return float(np.max(np.abs(-out["error"][:, -1] * control.K.default - push) / PUSH))


def response(name: str, steps: tuple[float, ...]) -> list[float]:
    """max |e - closed form| / |e0| over 0.5 s for each dt, and extrapolated from the last two."""
    robot, frame = arm(name), TOOL[name]
    q = READY if name == "ur3" else np.array([0.2, -0.5, 0.1, -2.2, 0.1, 1.8, 0.5])
    kp, e0 = np.array([100.0, 150.0, 200.0, 120.0, 120.0, 120.0]), np.array([0.05, -0.04, 0.03, 0.1, 0.2, -0.1])
    R, p = robot.frame_pose(q, frame)
    goal = ToolSample(rotation_of(quaternion_exp(e0[3:])) @ R, p + e0[:3])
    t, w = 0.02 * np.arange(1, 26)[:, None], np.sqrt(kp)
    closed_form = e0 * (1.0 + w * t) * np.exp(-w * t)
    errors = []
    for dt in steps:
        control = OperationalSpace(cd.Simulation(robot, dt=dt, ground=None), frame, kp=kp, friction=True)
        loop, every = cd.Loop(control.simulation, partial(_followed, control, goal)), round(0.02 / dt)
        # an error is that at the start of a tick: one more before
        x = loop.step(loop.state(q))
        errors.append(loop.rollout(x, steps=25 * every, record=["error"], every=every)["error"] - closed_form)
    if len(errors) > 1:
        errors.append(2.0 * errors[-1] - errors[-2])
    return [float(np.max(np.abs(error) / np.abs(e0))) for error in errors]


def _followed(control: Any, goal: Any, x: Any) -> Any:
    return control(x, goal)


def null_space(name: str, count: int) -> tuple[float, float]:
    """Largest acceleration of tool and joints between the torques of two postures, at random states."""
    robot, frame = arm(name), TOOL[name]
    axes = ("x", "y", "z") if robot.nv == 6 else ("x", "y", "z", "rx", "ry", "rz")
    control = OperationalSpace(cd.Simulation(robot, dt=0.001, ground=None), frame, axes=axes, name="tool")
    loop = cd.Loop(control.simulation, lambda x, R, p: control(x, referenced(R, p)), R=9, p=3)
    q, rows = poses(robot, frame, count, 1)
    x = loop.state(q, np.random.default_rng(0).normal(size=q.shape))
    u = [loop.rollout(x, rows, 1, record=["u"], parameters={"tool.posture": q + d})["u"][:, 0] for d in (0.0, 0.3)]
    joints = np.einsum("nij,nj->ni", robot.inverse_mass_matrix(q), u[1] - u[0])
    tool = np.einsum("nij,nj->ni", robot.jacobian(q, frame)[:, : len(axes)], joints)
    return float(np.abs(tool).max()), float(np.abs(joints).max())


def sensed(world: cd.Simulation, frame: str, inertia: bool = True, **errors: Any) -> Callable[..., Any]:
    """The external wrench as a sensor gives it."""
    sensor, external = ForceTorque(frame, **errors), ExternalWrench(world, frame, inertia=inertia)
    return lambda x, wrenches=None: external(x, sensor(x, wrenches))


def admittance(ticks: int) -> tuple[float, float]:
    """max |d - F/K| / (F/K), and the error of the inner loop in m and rad, under a constant push along each axis."""
    robot, frame = arm("ur3"), "tool"
    world = cd.Simulation(robot, dt=0.001, ground=None)
    control, measured = Admittance(world, frame), sensed(world, frame)

    def closed(x: Any, R: Any, p: Any, push: Any) -> dict[str, Any]:
        return {**control(x, referenced(R, p), wrench=measured(x, {frame: push})), "wrenches": {frame: push}}

    loop = cd.Loop(world, closed, R=9, p=3, push=6)
    q, rows = poses(robot, frame, 20)
    rows = {key: np.repeat(value, 6, axis=0) for key, value in rows.items()}
    push, expected = np.tile(np.diag(PUSH), (20, 1)), PUSH / control.stiffness.default
    out = loop.rollout(
        loop.state(np.repeat(q, 6, axis=0)), {**rows, "push": push[:, None]}, ticks, every=ticks, record=["q", "error"]
    )
    R, p = robot.frame_pose(out["q"][:, -1], frame)
    turns = [rotation_vector(R1 @ R0.reshape(3, 3).T) for R1, R0 in zip(R, rows["R"], strict=True)]
    moved = np.concatenate([p - rows["p"][:, 0], np.array(turns)], axis=1)
    return float(np.max(np.abs(moved - push / control.stiffness.default) / expected)), float(np.abs(out["error"]).max())


def rotation_vector(R: np.ndarray) -> np.ndarray:
    """log(R) of a rotation matrix of numbers."""
    return np.asarray(quaternion_log(quaternion_of(R)), dtype=float)


def sliding(path: str, compensation: float, ticks: int, **sensor: Any) -> tuple[float, float, float]:
    """(largest relative error of the force, that at the end, largest error along the plane in m), after the first third."""
    robot, frame = arm("ur3"), "tool"
    R, p = robot.frame_pose(READY, frame)
    world = cd.Simulation(robot, dt=0.001, ground=cd.Plane(friction=FRICTION, offset=p[2] - 0.04), contacts={frame: 0.02})
    control = HybridForcePosition(world, frame, compensation=compensation, friction=True)
    measured, wrench = sensed(world, frame, **sensor), np.array([0.0, 0.0, -FORCE, 0.0, 0.0, 0.0])

    def closed(x: Any) -> Any:
        radius, zero = 0.05, 0.0 * x.t
        angle, rate = x.t * (SPEED / radius), SPEED / radius
        s, c = np.sin(angle), np.cos(angle)
        if path == "circle":
            d = radius * cd.array([s, 1.0 - c, zero])
            v, a = radius * rate * cd.array([c, s, *[zero] * 4]), radius * rate**2 * cd.array([-s, c, *[zero] * 4])
        else:
            d, v, a = SPEED * cd.array([-x.t, zero, zero]), SPEED * np.array([-1.0, 0.0, 0.0, 0.0, 0.0, 0.0]), np.zeros(6)
        return control(x, ToolSample(R, p + d, v, a, wrench), wrench=measured(x))

    loop = cd.Loop(world, closed)
    out = loop.rollout(loop.state(READY), steps=ticks, record=["force_error", "error"], every=5)
    late = len(out["error"]) // 3
    force = np.abs(out["force_error"][late:, 2]) / FORCE
    return float(force.max()), float(force[-1]), float(np.abs(out["error"][late:, :2]).max())


def energies(console: Console, tiny: bool) -> dict[str, list[float]]:
    """Print and return the largest excess of energy over 1,000 pairs of pushes, relative to what was put in, for each dt."""
    steps, count = ((1e-3,), 8) if tiny else ((8e-3, 4e-3, 2e-3, 1e-3, 5e-4), 1000)
    found: dict[str, list[float]] = {}
    kinds: dict[str, tuple[str, bool, Callable[..., Any]]] = {
        "Cartesian impedance": ("ur3", True, lambda world, frame: CartesianImpedance(world, frame, passive=True)),
        "the same, Panda": ("panda", True, lambda world, frame: CartesianImpedance(world, frame, passive=True)),
        "hand guiding with wall, lock, speed limit": (
            "ur3", True, lambda world, frame: HandGuiding(world, frame, walls=[((0.0, 0.0, 1.0), 0.2)], speed=0.2, locked="y"),
        ),
        "impedance without any damping": (
            "ur3", False, lambda world, frame: CartesianImpedance(world, frame, passive=True, damping_ratio=None),
        ),
    }  # fmt: skip
    for kind, (name, damped, make) in kinds.items() if not tiny else list(kinds.items())[:1]:
        found[kind] = [_excess(name, dt, count, damped, make) for dt in steps]
    table = Table(f"largest excess of energy in {count:,} robots, of what was put in", *[f"dt {1e3 * dt:g} ms" for dt in steps])
    for kind, numbers in found.items():
        table.add_row(kind, *[f"{number:.1e}" for number in numbers])
    console.print(table)
    return found


def _excess(name: str, dt: float, count: int, damped: bool, make: Callable[..., Any]) -> float:
    robot, frame = arm(name), TOOL[name]
    world = cd.Simulation(robot, dt=dt, ground=None, damping=damped)
    control, balance = make(world, frame), EnergyBalance(frame)

    def closed(x: Any, R: Any, p: Any, push: Any) -> dict[str, Any]:
        out = control(x, referenced(R, p))
        ledger = balance(x, robot.kinetic_energy(x.q, x.v) + out["stored"], push)
        return {"u": out["u"], **ledger, "wrenches": {frame: push}}

    loop = cd.Loop(world, closed, R=9, p=3, push=6)
    q, rows = poses(robot, frame, count, 2)
    # nothing, a push, another, nothing: 0.2 s each
    pushes = np.random.default_rng(3).normal(size=(count, 4, 6)) * PUSH
    pushes[:, [0, 3]] = 0.0
    ticks = round(0.8 / dt)
    given = {**rows, "push": pushes}
    out = loop.rollout(loop.state(q), given, ticks, record=["excess", "supplied"], every=ticks, freeze=True)
    return float(np.max(out["excess"] / np.maximum(out["supplied"], 1e-9))) if np.all(out.status.ok) else np.inf


# ---- time


def speeds(console: Console, seconds: float) -> dict[str, float]:
    """Print and return the time of a tick of the UR3, physics included: alone, and one of a batch of 1,024, on one thread."""
    robot, frame = arm("ur3"), "tool"
    world = cd.Simulation(robot, dt=0.001, ground=None)
    R, p = robot.frame_pose(READY, frame)
    goal, wrench = ToolSample(R, p), np.zeros(6)
    space, ratio = OperationalSpace(world, frame), CartesianImpedance(world, frame)
    plain, soft = CartesianImpedance(world, frame, damping_ratio=None, damping=20.0), Admittance(world, frame)
    hybrid, hand = HybridForcePosition(world, frame), HandGuiding(world, frame)
    loops: dict[str, Callable[..., Any]] = {
        "operational space": lambda x: space(x, goal),
        "Cartesian impedance, damping by ratio": lambda x: ratio(x, goal),
        "Cartesian impedance, constant damping": lambda x: plain(x, goal),
        "admittance": lambda x: soft(x, goal, wrench=wrench),
        "hybrid force and position": lambda x: hybrid(x, goal, wrench=wrench),
        "hand guiding": lambda x: hand(x, goal),
        "gravity compensation": lambda x: robot.gravity_forces(x.q),
    }
    table, found = (
        Table("tick of the UR3 with its physics, one thread", "alone, us", "in a batch of 1,024, us", "compiled in, s"),
        {},
    )
    for name, function in list(loops.items())[: 2 if seconds < 0.1 else None]:
        loop = cd.Loop(world, function)
        one, many = loop.state(READY), loop.state(np.tile(READY, (1024, 1)))
        begun = time.process_time()
        loop.rollout(one, steps=200, record=["q"], every=200, threads=1)
        first = time.process_time() - begun
        alone = best(partial(loop.rollout, one, steps=200, record=["q"], every=200, threads=1), seconds) / 200
        batch = best(partial(loop.rollout, many, steps=200, record=["q"], every=200, threads=1), seconds) / 200 / 1024
        found[name], found[f"{name}, batch"] = alone, batch
        table.add_row(name, f"{1e6 * alone:.2f}", f"{1e6 * batch:.3f}", f"{first:.1f}")
    console.print(table)
    return found


def predictive(console: Console, tiny: bool) -> dict[str, Any]:
    """Print and return compile time, time per solve, error and use of limits of ArmMPC on the UR3."""
    robot = cd.load("double_pendulum" if tiny else "ur3")
    world = cd.Simulation(robot, dt=0.001, ground=None)
    q0 = np.zeros(2) if tiny else np.array([0.0, -1.57, 1.57, -1.57, -1.57, 0.0])
    q1 = np.full(2, 0.3) if tiny else np.array([1.0, -1.0, 1.2, -2.0, -0.5, 1.0])
    limit = np.full(2, 20.0) if tiny else np.array([3.0, 14.0, 7.0, 1.5, 1.0, 0.5])
    ticks, found = 100 if tiny else 3000, {}
    table = Table(
        "MPC, every 10 ticks of 1 ms", "compiled in, s", "per solve, us", "largest torque / limit", "speed / limit", "error, rad"
    )
    for steps in (4,) if tiny else (10, 20):
        for kind in ("step to a pose", "quintic move of 2.5 s")[: 1 if tiny else 2]:
            mpc = ArmMPC(world, horizon=0.4, steps=steps, every=10, torque=limit, friction=True, start=q0, name="mpc")
            move = quintic(q0, q1, 2.5)
            reference = (lambda x: Sample(q1, 0.0, 0.0)) if kind.startswith("step") else (lambda x, move=move: move)
            loop = cd.Loop(world, lambda x, mpc=mpc, reference=reference: mpc(x, reference(x)))
            call = partial(loop.rollout, loop.state(q0), steps=ticks, record=["q", "v", "u"], every=10, threads=1)
            begun = time.process_time()
            out = call()
            compiled = time.process_time() - begun
            solve = best(call, 0.02 if tiny else 1.0) / (ticks / 10)
            goal = q1 if kind.startswith("step") else move.at(0.01 * np.arange(1, ticks // 10 + 1)).position
            error = np.abs(out["q"][-1] - q1).max() if kind.startswith("step") else np.abs(out["q"] - goal).max()
            used = float(np.max(np.abs(out["u"]) / limit)), float(np.max(np.abs(out["v"]) / robot.velocity_limits))
            found[f"{kind}, {steps} stages"] = [compiled, solve, *used, float(error)]
            table.add_row(
                f"{kind}, {steps} stages",
                f"{compiled:.1f}",
                f"{1e6 * solve:.0f}",
                f"{used[0]:.4f}",
                f"{used[1]:.4f}",
                f"{error:.1e}",
            )
    console.print(table)
    return found
