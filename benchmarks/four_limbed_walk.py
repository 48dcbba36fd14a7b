"""Walks of the four-limbed robot through contact: 181 knots of 0.05 s at 0.4 m/s, planar and in space, on five slopes.

The task: friction 0.7, forces up to 1e6 N/m^2 times depth squared, smoothing 1e-3, |u| <= 300 N m, from a standing
start. One step of the physics is one knot. Nothing says when a foot has contact. The first plan is kinematic, a trot; sequential
quadratic programming makes a motion of it, with a soft reference for the feet.

The slope is in the direction of gravity, so x is along the ground and z normal to it, and all slopes are one kernel.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks.measure import busy
from condyle.apps.demos.fourlimb import FEET, FOOT_RADIUS, D, P, above, planar

KNOTS, DT, SPEED, EFFORT, FRICTION = 181, 0.05, 0.4, 300.0, 0.7
SLOPES = (0.0, 10.0, -10.0, 20.0, -20.0)  # degrees, rising along x
STRENGTH = 1e6  # N/m^2, of the largest contact force k depth^2
PERIOD, SWING, LIFT, RAMP = 0.8, 0.4, 0.08, 0.8  # s, s, m, s: of the first plan, a trot
PHASES = (0.5, 0.0, 0.0, 0.5)  # of FEET
GAIT, SLIP = 300.0, 10.0  # weights of the first plan's feet, and of the slip of feet
CLEARANCE = 0.03  # m: slip counts exp(-height / clearance) as much
SMOOTHINGS = (1e-2, 1e-3)  # of contact
STEP = 2.5  # degrees: a slope is approached from flat ground
SCALE = 0.01  # of all costs: the line search weighs them against the gaps of the dynamics


@dataclass(frozen=True)
class Task:
    """A problem with its solver: `x0` stands, `u0` holds it on flat ground."""

    base: str
    world: cd.Simulation
    problem: Any
    solver: Any
    x0: np.ndarray
    u0: np.ndarray

    @property
    def robot(self) -> Any:
        """The robot."""
        return self.world.robot


@cache
def task(base: str, knots: int = KNOTS) -> Task:
    """The problem of one base, "planar" or "free"."""
    robot = planar() if base == "planar" else cd.load("fourlimb")
    # at the surface two thirds of the largest force carry the robot
    depth = float(np.sqrt(1.5 * robot.mass * 9.81 / STRENGTH))
    world = cd.Simulation(
        robot, DT, cd.Plane(FRICTION), "foot_*", rest_depth_mm=1e3 * depth, depth_exponent=2, smoothing=1e-3
    )  # fmt: skip
    # a trot stands on two feet
    x0 = above(world, (1.0 - np.sqrt(0.5)) * depth)
    nq, nv, nu = robot.nq, robot.nv, world.nu
    feet0 = feet(robot, x0[:nq])

    def errors(x: Any, r: Any, p: Any) -> Any:
        q, v = x[:nq], x[nq : nq + nv]
        if base == "planar":
            place, attitude, velocity = [q[0] - r[0], q[1] - r[2]], [q[2]], [v[0] - r[1], v[1], v[2]]
        else:
            place, attitude = [q[0] - r[0], q[1], q[2] - r[2]], [2.0 * q[3], 2.0 * q[4], 2.0 * q[5]]
            velocity = [v[0] - r[1], *v[1:6]]
        slips, lifts, steps = [], [], []
        for k, foot in enumerate(FEET):
            at, V = robot.frame_pose(q, foot)[1], robot.frame_velocity(q, v, foot)
            height = at[2] - FOOT_RADIUS
            near = np.exp(-height / p["clearance"])
            # the foot rolls: its lowest point is at rest
            along, across = V[0] - FOOT_RADIUS * V[4], V[1] + FOOT_RADIUS * V[3]
            slips += [along * near] if base == "planar" else [along * near, across * near]
            lifts.append(height - r[3 + k])
            steps += [at[0] - r[7 + k]] if base == "planar" else [at[0] - r[7 + k], at[1] - feet0[k, 1]]
        joints = [*(q[nq - nu :] - x0[nq - nu : nq]), *v[nv - nu :]]
        return cd.array([*place, *attitude, *velocity, *joints, *slips, *lifts, *steps])

    problem = cd.ocp(
        world, N=knots - 1, residual=lambda x, u, r, p: np.concatenate([errors(x, r, p), u]), weights=weights(base, nu),
        terminal_residual=errors, terminal_weights=weights(base, nu)[:-nu], reference=11, bounds={"u": EFFORT},
        parameters={"gravity": [0.0, 0.0, -9.81], "contact_smoothing": 1e-3, "clearance": CLEARANCE},
    )  # fmt: skip
    return Task(base, world, problem, problem.sqp(iterations=100, tolerance=1e-5), x0, statics(world, x0))


def weights(base: str, nu: int) -> np.ndarray:
    """Of the residual; places of the feet count a third of their heights."""
    w = [0.0, 50.0, 50.0, 30.0, 1.0, 1.0]
    if base == "free":
        w = [0.0, 50.0, 50.0, *[50.0] * 3, 30.0, *[1.0] * 5]
    along = 1 if base == "planar" else 2
    feet = [SLIP] * 4 * along + [GAIT] * 4 + [GAIT / 3.0] * 4 * along
    return SCALE * np.array([*w, *[1.0] * nu, *[0.01] * nu, *feet, *[1e-5] * nu])


def feet(robot: Any, q: np.ndarray) -> np.ndarray:
    """The feet's centres (..., 4, 3)."""
    return np.stack([robot.frame_pose(q, foot)[1] for foot in FEET], axis=-2)


def statics(world: Any, x: np.ndarray) -> np.ndarray:
    """Torques that hold the standing robot, the forces of the feet those of the least squares."""
    robot, q = world.robot, x[: world.robot.nq]
    rest = robot.nv - world.nu
    J = np.concatenate([robot.jacobian(q, foot)[:3] for foot in FEET])
    needed = np.asarray(robot.gravity_forces(q), dtype=float)
    forces = np.linalg.lstsq(J.T[:rest], needed[:rest], rcond=None)[0]
    return np.asarray((needed - J.T @ forces)[rest:])


# ---- the first plan


def trot(given: Task) -> np.ndarray:
    """References (N + 1, 11): x, its speed, height of the base, heights of the feet above their stance, their places."""
    robot, x0, t = given.robot, given.x0, DT * np.arange(given.problem.N + 1)
    height = 1 if given.base == "planar" else 2

    def moved(t: Any) -> Any:
        return SPEED * np.where(np.asarray(t) < RAMP, 0.5 * np.square(t) / RAMP, np.asarray(t) - 0.5 * RAMP)

    r = np.zeros((len(t), 11))
    r[:, 0], r[:, 1], r[:, 2] = moved(t), SPEED * np.minimum(t / RAMP, 1.0), x0[height]
    for k, start in enumerate(feet(robot, x0[: robot.nq])[:, 0]):
        step = np.floor(t / PERIOD - PHASES[k])  # how many have begun, less one
        phase = np.clip((t - (step + PHASES[k]) * PERIOD) / SWING, 0.0, 1.0)

        def stance(n: np.ndarray, start: float = start, k: int = k) -> np.ndarray:
            """Where the foot stands after step n: below the hip in the middle of the stance."""
            return start + np.where(n < 0, 0.0, moved((n + PHASES[k]) * PERIOD + 0.5 * (SWING + PERIOD)))

        r[:, 3 + k] = np.where(step < 0, 0.0, LIFT * np.sin(np.pi * phase) ** 2)
        way = phase - np.sin(2.0 * np.pi * phase) / (2.0 * np.pi)
        r[:, 7 + k] = stance(step - 1) + (stance(step) - stance(step - 1)) * np.where(step < 0, 0.0, way)
    return r


def first_plan(given: Task, r: np.ndarray) -> dict[str, np.ndarray]:
    """States that follow the reference by the inverse kinematics of each limb in its plane, and the torques of standing."""
    robot, x0 = given.robot, given.x0
    nq, nv = robot.nq, robot.nv
    at = [[robot.v_slice(f"pitch_{i}_{foot[5:]}").start for i in (1, 2, 3)] for foot in FEET]
    shift = nq - nv
    q, home, height = x0[:nq].copy(), x0[:nq], feet(robot, x0[:nq])[:, 2]
    plan = given.solver.start(x0, u=given.u0)
    for i, row in enumerate(r):
        q[0] = row[0]
        for _ in range(8):
            for k, foot in enumerate(FEET):
                J = robot.jacobian(q, foot)[np.ix_([0, 2], at[k])]
                p = robot.frame_pose(q, foot)[1]
                inverse = np.linalg.pinv(J)
                own = np.array(at[k]) + shift
                # the third joint stays near its angle of standing
                q[own] += inverse @ [row[7 + k] - p[0], row[3 + k] + height[k] - p[2]]
                q[own] += (np.eye(3) - inverse @ J) @ (0.1 * (home - q)[own])
        plan["states"][i, :nq] = q
    states = plan["states"]
    states[1:, nq:] = robot.difference(states[:-1, :nq], states[1:, :nq]) / DT
    states[0, nq:] = 0.0
    return plan


# ---- the walk


@dataclass(frozen=True)
class Walk:
    """A plan, and how it was found: the solution of the last solve, and iterations and seconds of all."""

    task: Task
    slope: float
    smoothing: float
    found: Any
    iterations: int
    seconds: float


def gravity(slope: float) -> np.ndarray:
    """Gravity in axes along and normal to a slope that rises along x."""
    a = np.radians(slope)
    return 9.81 * np.array([-np.sin(a), 0.0, -np.cos(a)])


def walk(given: Task, slope: float) -> Walk:
    """The plan on a slope: that of flat ground, tilted little by little, then with less smoothing where that converges."""
    begin, total, r = time.process_time(), 0, trot(given)
    plan = first_plan(given, r)

    def solved(angle: float, smoothing: float, plan: Any, attempts: int = 3) -> Any:
        nonlocal total
        for _ in range(attempts):
            found = given.solver(given.x0, plan, reference=r, gravity=gravity(angle), contact_smoothing=smoothing)
            total, plan = total + int(found.iterations), found.plan
            if found.status == 0:
                break
        return found

    angles = np.linspace(0.0, slope, 1 + round(abs(slope) / STEP))
    for angle in angles[:-1]:
        plan = solved(angle, SMOOTHINGS[0], plan, 1).plan
    found, smoothing = solved(slope, SMOOTHINGS[0], plan), SMOOTHINGS[0]
    if (sharper := solved(slope, SMOOTHINGS[1], found.plan, 2)).status == 0:
        found, smoothing = sharper, SMOOTHINGS[1]
    return Walk(given, slope, smoothing, found, total, time.process_time() - begin)


def measure(done: Walk) -> dict[str, Any]:
    """Speed, lift and slip of the feet, torques and tilt of a plan."""
    given, found, robot = done.task, done.found, done.task.robot
    states, nq, half = found.states, robot.nq, len(found.states) // 2
    at = feet(robot, states[:, :nq])
    V = np.stack([robot.frame_velocity(states[1:, :nq], states[1:, nq:], foot) for foot in FEET], axis=-2)
    slipped = DT * np.hypot(V[..., 0] - FOOT_RADIUS * V[..., 4], V[..., 1] + FOOT_RADIUS * V[..., 3])
    numbers = {"gravity": gravity(done.slope), "contact.smoothing": done.smoothing}
    forces = given.world.contact_forces(states[:-1], found.controls, parameters=numbers)
    carries = forces[:, :, 2] > 0.02 * given.world.weight
    way = float(states[-1, 0] - states[0, 0])
    tilt = np.abs(states[:, 2]) if given.base == "planar" else 2.0 * np.arcsin(np.hypot(states[:, 3], states[:, 4]))
    return {
        "base": given.base, "slope": done.slope, "converged": bool(found.status == 0), "smoothing": done.smoothing,
        "iterations": done.iterations, "seconds": done.seconds, "cost": float(found.cost),
        "gap": float(found.residuals["dynamics"]), "stationarity": float(found.residuals["stationarity"]),
        "speed": float(states[-1, 0] - states[half, 0]) / (DT * (len(states) - 1 - half)), "way": way,
        "lift": float((at[:, :, 2].max(axis=0) - at[0, :, 2]).min()),
        "steps": np.sum(~carries[:-1] & carries[1:], axis=0).tolist(),
        "slip": float((slipped * carries).sum()) / 4.0 / way,
        "tracked": tracked(given, done.slope, states, found.controls),
        "torque": float(np.abs(found.controls).max()), "tilt": float(np.degrees(tilt.max())),
    }  # fmt: skip


def tracked(given: Task, slope: float, states: np.ndarray, controls: np.ndarray, h: float = 0.001) -> float:
    """How far it walks with steps of 1 ms and rigid contact, by torques and joint servos that track a plan, m; 0 if it falls."""
    robot, x, nu, nq = given.robot, given.x0, given.world.nu, given.robot.nq
    world = cd.Simulation(robot, h, cd.Plane(FRICTION), "foot_*")
    damping = np.array([D[name[:-3]] for name in world.control_names])
    for i in range(round(DT / h) * len(controls)):
        k = int(i * h / DT + 1e-9)
        a = i * h / DT - k
        q = (1.0 - a) * states[k, nq - nu : nq] + a * states[k + 1, nq - nu : nq]
        servo = P * (q - x[nq - nu : nq]) + damping * (states[k + 1, -nu:] - x[-nu:])
        x = world.step(x, np.clip(controls[k] + servo, -EFFORT, EFFORT), parameters={"gravity": gravity(slope)}, freeze=True)
    fallen = feet(robot, x[:nq])[:, 2].max() + 0.3 > x[1 if given.base == "planar" else 2]
    return 0.0 if fallen else float(x[0] - given.x0[0])


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the table and return its numbers."""
    rows = []
    table = Table(
        "base", "slope", "converged", "iterations", "s", "speed, m/s", "lift, mm", "steps", "slip, mm/m", "torque", "tilt, deg",
        "way, tracked, m",
        title=f"plans of {SPEED} m/s, one core ({busy()})", title_justify="left",
    )  # fmt: skip
    if tiny:  # its kernel takes longer to compile than all else: the first plan alone
        plan = first_plan(given := task("planar", 12), trot(given))
        console.print(f"{given.problem}: the first plan moves by {plan['states'][-1, 0]:.3f} m")
        return {"rows": rows, "busy": busy()}
    for base in ("planar", "free"):
        begin = time.process_time()
        given = task(base)
        given.solver.function.on("cpu", lanes=1).kernel()
        console.print(f"{base}: {given.problem}, compiled in {time.process_time() - begin:.0f} s, cache as found")
        for slope in SLOPES:
            with console.status(f"{base} {slope:+.0f}"):
                rows.append(row := measure(walk(given, slope)))
            table.add_row(
                base, f"{slope:+.0f}", f"{row['smoothing']:.0e}" if row["converged"] else f"no, gap {row['gap']:.1g}",
                f"{row['iterations']}", f"{row['seconds']:.1f}", f"{row['speed']:.3f}", f"{1e3 * row['lift']:.0f}",
                f"{max(row['steps'])}", f"{1e3 * row['slip']:.0f}", f"{row['torque']:.0f}", f"{row['tilt']:.1f}",
                f"{row['way']:.2f}, {row['tracked']:.2f}",
            )  # fmt: skip
    console.print(table)
    return {"rows": rows, "busy": busy()}
