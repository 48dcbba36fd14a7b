"""Controllers of joints on a UR3: closed-form responses, stored energy, learned torques, optimal costs, and their times."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks.measure import best
from condyle.methods.control.adaptive import AdaptiveControl, PassivityControl
from condyle.methods.control.joint_control import ComputedTorque, JointImpedance, JointPID
from condyle.methods.control.lqr_control import LQRControl, TimeVaryingLQR
from condyle.methods.control.passivity import EnergyMeter
from condyle.methods.planning.profiles import Sample, quintic
from condyle.robot.spatial import Inertia

READY = np.array([0.0, -np.pi / 2, np.pi / 2, -np.pi / 2, 0.0, 0.0])
AWAY = np.array([0.8, 0.5, -0.6, 0.4, 0.5, 0.7])  # rad
KP, KD = (1.98, 2.97, 1.49, 0.726, 1.86, 1.17), (2.36, 3.54, 0.788, 0.15, 0.0375, 0.0125)  # published for this arm
CLAMPS = dict.fromkeys(("integral_limit", "derivative_limit", "torque_limit"), 100.0)
OMEGA, ZETA, SECONDS = 10.0, 0.7, 0.5
GOAL, HOME = Sample(READY + AWAY, 0.0, 0.0), Sample(READY, 0.0, 0.0)
PUSH = (20.0, 20.0, 20.0, 2.0, 2.0, 2.0)  # N, N m: standard deviations


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the tables and return their numbers."""
    robot = cd.load("ur3")
    found: dict[str, Any] = {}
    found["computed_torque"] = responses(console, robot, (1e-3,) if tiny else (1e-3, 1e-4, 1e-5, 1e-6, 1e-7))
    found["pid"] = tracking(console, robot, 1 if tiny else None)
    found["energy"] = pushes(console, robot, (50, (1e-3,)) if tiny else (1000, (2e-3, 1e-3, 5e-4, 2.5e-4)))
    found["adaptive"] = adaptation(console, robot, 2.0 if tiny else 60.0)
    found["lqr"] = costs(console, 20 if tiny else 1000, tiny)
    found["seconds"] = times(console, robot, 0.01 if tiny else 1.0, 1 if tiny else None)
    return found


# ---- computed torque


def continuous(t: np.ndarray) -> np.ndarray:
    """e(t) / e(0) of  e'' + 2 zeta omega e' + omega^2 e = 0  from rest."""
    damped = OMEGA * np.sqrt(1.0 - ZETA**2)
    return np.asarray(np.exp(-ZETA * OMEGA * t) * (np.cos(damped * t) + ZETA * OMEGA / damped * np.sin(damped * t)))


def sampled(steps: np.ndarray, h: float) -> np.ndarray:
    """e_k / e_0 from rest of  v1 = v + h (omega^2 e - 2 zeta omega v), e1 = e - h v1,  by the eigenvalues of this recursion."""
    kp, kd = OMEGA**2, 2.0 * ZETA * OMEGA
    powers, vectors = np.linalg.eig(np.array([[1.0 - h * h * kp, -h * (1.0 - h * kd)], [h * kp, 1.0 - h * kd]]))
    weights = vectors[0] * np.linalg.solve(vectors, [1.0, 0.0])
    return np.asarray((weights * powers ** steps[:, None]).sum(axis=1).real)


def as_force(law: ComputedTorque, model: Any, q: Any, v: Any) -> Any:
    """The law as the force of a simulation."""
    return law.torque(q, v, GOAL)


def responses(console: Console, robot: cd.Robot, ticks: tuple[float, ...]) -> list[dict[str, float]]:
    """Largest difference of a step response of six joints from the closed forms, rad."""
    rows = []
    for h in ticks:
        world = cd.Simulation(robot, dt=h, damping=False, threads=1)
        law = ComputedTorque(world, frequency=OMEGA, damping_ratio=ZETA)
        loop = cd.Loop(world, partial(hold, law, GOAL))
        steps, every = round(SECONDS / h), max(round(SECONDS / h) // 500, 1)
        q = loop.rollout(loop.state(READY), steps=steps, record=["q"], every=every)["q"]
        k = np.arange(every, steps + 1, every)
        row = {"dt": h, "sampled": largest(q, sampled(k, h)), "continuous": largest(q, continuous(h * k))}
        if h >= 1e-4:
            exact = cd.Simulation(robot, dt=h, integrator="rk4", force=partial(as_force, law), damping=False, threads=1)
            xs = exact.rollout(exact.state(READY), np.zeros((steps, 6)))
            row["runge_kutta"] = largest(xs[1:, :6], continuous(h * np.arange(1, steps + 1)))
        rows.append(row)
    table = Table(
        "tick, s",
        "every tick, from the sampled system",
        "from the continuous one",
        "within a Runge-Kutta step, from it",
        title="rad",
    )
    for row in rows:
        last = f"{row['runge_kutta']:.1e}" if "runge_kutta" in row else ""
        table.add_row(f"{row['dt']:g}", f"{row['sampled']:.1e}", f"{row['continuous']:.1e}", last)
    console.print(table)
    return rows


def largest(q: np.ndarray, response: np.ndarray) -> float:
    """The largest distance of joints from a response, rad."""
    return float(np.abs(GOAL.position - q - response[:, None] * AWAY).max())


# ---- PID


def tracking(console: Console, robot: cd.Robot, most: int | None) -> dict[str, tuple[float, float, float]]:
    """Errors along a move of 2 s and after it, rad: largest, RMS, 4 s after the end."""
    world, move = cd.Simulation(robot, dt=1e-3, threads=1), quintic(READY, READY + AWAY, 2.0)
    target, rows = move.at(1e-3 * np.arange(1, 6001)).position, {}
    kinds: dict[str, Any] = {
        "PID, published gains": JointPID(world, kp=KP, kd=KD, **CLAMPS),
        "the same, without Coriolis": JointPID(world, kp=KP, kd=KD, coriolis=False, **CLAMPS),
        "the same, without gravity": JointPID(world, kp=KP, kd=KD, gravity=False, **CLAMPS),
        "the same, with a derivative of positions": JointPID(world, kp=KP, kd=KD, derivative_lag=1e-3, **CLAMPS),
        "PID, default gains": JointPID(world),
        "computed torque": ComputedTorque(world),
        "impedance": JointImpedance(world),
        "impedance, factorised": JointImpedance(world, design="factorised"),
        "passivity-based": PassivityControl(world),
        "time-varying LQR": TimeVaryingLQR(world, move),
    }
    for name, law in list(kinds.items())[:most]:
        loop = cd.Loop(world, partial(follow, law, move))
        e = loop.rollout(loop.state(READY), steps=6000, record=["q"])["q"] - target
        rows[name] = (float(np.abs(e).max()), float(np.sqrt(np.mean(e[:2000] ** 2))), float(np.abs(e[-1]).max()))
    table = Table("a move of 2 s", "largest error, rad", "RMS", "4 s after the end")
    for name, row in rows.items():
        table.add_row(name, *(f"{value:.1e}" for value in row))
    console.print(table)
    return rows


def hold(law: Any, reference: Sample, x: Any) -> Any:
    """The function of a loop: to a pose."""
    return law(x, reference)


def follow(law: Any, motion: Any, x: Any) -> Any:
    """The function of a loop: along a motion."""
    return law(x, motion.at(x.t))


# ---- passive controllers


def pushes(console: Console, robot: cd.Robot, size: tuple[int, tuple[float, ...]]) -> list[dict[str, Any]]:
    """The largest growth of stored energy beyond the work of the pushes, relative to the work put in; one push of each arm."""
    count, ticks = size
    rows = []
    for h in ticks:
        world = cd.Simulation(robot, dt=h, damping=False, threads=1)
        kinds: dict[str, Any] = {
            "impedance": JointImpedance(world),
            "impedance, factorised": JointImpedance(world, design="factorised"),
            "impedance, damping ratio 0.1": JointImpedance(world, damping_ratio=0.1),
            "passivity-based": PassivityControl(world),
        }
        if h * 4 <= 1e-3:
            kinds["impedance, updated at every 4th tick"] = JointImpedance(world, every=4)
        for name, law in list(kinds.items())[: 1 if count < 1000 else None]:
            rows.append({"dt": h, "law": name, **pushed(world, law, count)})
    table = Table(f"{count:,} pushes", "tick, s", "work put in, J: median", "largest growth beyond it, J", "relative")
    for row in rows:
        table.add_row(row["law"], f"{row['dt']:g}", f"{row['input']:.2f}", f"{row['growth']:.1e}", f"{row['relative']:.1e}")
    console.print(table)
    return rows


def pushed(world: cd.Simulation, law: Any, count: int) -> dict[str, float]:
    """Work put in (median) and growth of energy beyond it (largest, and relative to the work), of arms pushed once each."""
    push, meter = cd.blocks.WrenchPulse("tool", np.zeros(6), name="push"), EnergyMeter(6, name="meter")

    def control(x: Any) -> dict[str, Any]:
        wrench, found = push(x), law(x, HOME)
        force, V = world.robot.jacobian(x.q, "tool").T @ wrench["wrenches"]["tool"], law.energy(x.q, x.v, HOME)
        if isinstance(found, dict):
            meter(V, -force, found["s"])
            return {"u": found["u"], **wrench}
        meter(V, force, x.v)
        return {"u": found, **wrench}

    loop, rng = cd.Loop(world, control), np.random.default_rng(1)
    drawn = {
        "push.wrench": rng.normal(size=(count, 6)) * PUSH,
        "push.start": rng.uniform(0.0, 0.05, count),
        "push.duration": rng.uniform(0.02, 0.1, count),
    }
    x0 = np.repeat(loop.state(READY)[None], count, axis=0)
    steps = round(1.0 / world.dt)
    out = loop.rollout(x0, steps=steps, every=steps, parameters=drawn, record=["meter.gain", "meter.input"])
    growth, put_in = out["meter.gain"][:, -1], out["meter.input"][:, -1]
    return {"input": float(np.median(put_in)), "growth": float(growth.max()), "relative": float(np.max(growth / put_in))}


# ---- adaptation


class Sines:
    """A sum of three sines in every joint."""

    def __init__(self, start: np.ndarray, seed: int, size: float) -> None:
        rng = np.random.default_rng(seed)
        self.start, self.omega = start, 2.0 * np.pi * np.array([0.3, 0.5, 0.8])
        self.size = size * rng.uniform(-1.0, 1.0, (3, len(start))) * (self.omega[0] / self.omega)[:, None]
        self.phase = rng.uniform(0.0, 2.0 * np.pi, (3, len(start)))

    def at(self, t: Any) -> Sample:
        """Position, velocity and acceleration; t is a number, or traced."""
        q, v, a = self.start, 0.0, 0.0
        for omega, size, phase in zip(self.omega, self.size, self.phase, strict=True):
            s, c = np.sin(omega * t + phase), np.cos(omega * t + phase)
            q, v, a = q + size * s, v + size * omega * c, a - size * omega**2 * s
        return Sample(q, v, a)

    def rows(self, times: np.ndarray) -> tuple[np.ndarray, ...]:
        """Position, velocity and acceleration at several times, (T, joints) each."""
        return tuple(np.array(part) for part in zip(*[self.at(t) for t in times], strict=True))


def with_load(robot: cd.Robot, link: str, mass: float, com: Any, moment: float) -> cd.Robot:
    """The robot with a ball of this mass and moment of inertia on a link."""
    load = Inertia.about_com(mass, np.array(com), moment * np.eye(3))
    links = [replace(each, inertia=each.inertia + load) if each.name == link else each for each in robot.model.links]
    return cd.Robot(replace(robot.model, links=tuple(links)))


def adaptation(console: Console, robot: cd.Robot, seconds: float) -> list[dict[str, Any]]:
    """A UR3 with 1 kg at its tool that the controller does not know: errors, and of predicted torques on another motion."""
    true = with_load(robot, "wrist_3", 1.0, (0.0, 0.12, 0.0), 1e-3)
    world, motion, other = cd.Simulation(true, dt=1e-3, threads=1), Sines(READY, 1, 0.35), Sines(READY, 7, 0.35)
    q, v, a = other.rows(np.linspace(0.0, 10.0, 500))
    tau = true.inverse_dynamics(q, v, a) + 0.01 * v
    kinds: dict[str, dict[str, Any]] = {"the last link": {"links": "wrist_3"}}
    if seconds > 10.0:
        kinds |= {"all links": {}, "all links and friction": {"estimate_friction": True}}
    rows, steps, start = [], round(seconds / 1e-3), motion.at(0.0)
    target = motion.rows(0.01 * np.arange(1, steps // 10 + 1))[0]
    for name, options in kinds.items():
        law = AdaptiveControl(world, model=robot, **options)
        loop = cd.Loop(world, partial(follow, law, motion))
        gains = np.array([0.0, 1.0, 10.0]) * float(law.adaptation.default)
        x0 = np.tile(loop.state(start.position, start.velocity), (3, 1))
        record = ["q", "adaptive_control.estimate"]
        out = loop.rollout(x0, steps=steps, every=10, parameters={"adaptive_control.gain": gains}, record=record)
        e = np.abs(out["q"] - target).max(axis=2)
        for k, gain in enumerate(gains):
            wrong = law.predicted(q, v, a, out["adaptive_control.estimate"][k, -1]) - tau
            error, late = float(np.linalg.norm(wrong) / np.linalg.norm(tau)), float(e[k, -min(500, steps // 20) :].max())
            rows.append({"estimate": name, "gain": float(gain), "torque": error, "first": float(e[k, :200].max()), "last": late})
    table = Table(
        f"estimate after {seconds:g} s", "gain, 1/J", "torque error", "largest error in the first 2 s, rad", "in the last 5 s"
    )
    for row in rows:
        table.add_row(row["estimate"], f"{row['gain']:.3g}", f"{row['torque']:.2%}", f"{row['first']:.4f}", f"{row['last']:.4f}")
    console.print(table)
    return rows


# ---- regulators


def costs(console: Console, count: int, tiny: bool) -> dict[str, Any]:
    """Cost of the regulator over x^T P x, and costs along a fast swing, relative to that of the time-varying regulator."""
    arm = cd.Simulation(cd.load("ur3"), dt=1e-3, threads=1)
    pendulum = cd.Simulation(cd.load("double_pendulum"), dt=1e-3, threads=1)
    world, pose = (pendulum, np.zeros(2)) if tiny else (arm, READY)
    law, n = LQRControl(world, pose), world.robot.nv
    loop, ratios = cd.Loop(world, lambda x: law(x)), {}
    direction = np.random.default_rng(0).normal(size=2 * n)
    for size in (1e-2, 1e-3, 1e-4, 1e-5):
        d = size * direction
        X, U = simulated(loop, loop.state(pose + d[:n], d[n:])[None], n, 4000)
        total = cost(law, X - np.concatenate([pose, np.zeros(n)]), U - law.u)[0]
        ratios[size] = float(total / (d @ law.cost_to_go @ d) - 1.0)
    table = Table("deviation", "cost / x^T P x - 1")
    for size, ratio in ratios.items():
        table.add_row(f"{size:g}", f"{ratio:.1e}")
    console.print(table)
    swings = {"double pendulum": swing(pendulum, np.zeros(2), np.array([np.pi, 0.0]), 0.8, count)}
    if not tiny:
        swings["UR3"] = swing(arm, READY, READY + 2.0 * AWAY, 0.8, count)
    table = Table(f"{count:,} deviations along a swing of 0.8 s", "mean cost, of that predicted by P_0", "RMS error, rad")
    for name, rows in swings.items():
        for kind, (relative, rms) in rows.items():
            table.add_row(f"{name}: {kind}", f"{relative:.3f}", f"{rms:.4f}")
    console.print(table)
    open_loop, kept = acrobot(count)
    console.print(
        f"double pendulum with a motor in its elbow only, {count:,} deviations of 0.01 along an unstable motion of 4 s: "
        f"{open_loop:.2g} rad off at its end without feedback (median), at most {kept:.1e} rad with time-varying LQR"
    )
    return {"ratios": {str(size): ratio for size, ratio in ratios.items()}, "swings": swings, "acrobot": (open_loop, kept)}


def swing(world: cd.Simulation, q0: np.ndarray, q1: np.ndarray, T: float, count: int) -> dict[str, tuple[float, float]]:
    """(mean cost over the one predicted, RMS error of joints) from random deviations of 0.05 rad and 0.3 rad/s."""
    robot, move, n, steps = world.robot, quintic(q0, q1, T), world.robot.nv, round(T / world.dt)
    law, fixed = TimeVaryingLQR(world, move), LQRControl(world, q0)
    pd, pid = JointPID(world, gravity=False, coriolis=False, friction=False, name="pd"), JointPID(world)
    damping = np.array([joint.damping for joint in world.joint_forces])

    def with_feedforward(x: Any) -> Any:
        q, v, a = reference = move.at(x.t)
        return pd(x, reference) + robot.inverse_dynamics(q, v, a) + damping * v

    d = np.random.default_rng(2).normal(size=(count, 2 * n)) * np.repeat([0.05, 0.3], n)
    expected = np.einsum("ni,ij,nj->n", d, law.cost_to_go[0], d)
    kinds = {
        "time-varying LQR": lambda x: law(x),
        "LQR about the start, with inverse dynamics": partial(follow, fixed, move),
        "PD, with inverse dynamics": with_feedforward,
        "PID, with gravity and Coriolis": partial(follow, pid, move),
    }
    rows = {}
    for name, control in kinds.items():
        loop = cd.Loop(world, control)
        X, U = simulated(loop, loop.state(q0 + d[:, :n], d[:, n:]), n, steps)
        X, U = X - law.states_table.default, U - law.controls_table.default[:-1]
        total = cost(law, X, U) + np.einsum("...i,ij,...j->...", X[..., -1, :], law.cost_to_go[-1], X[..., -1, :])
        rows[name] = (float(np.mean(total / expected)), float(np.sqrt(np.mean(X[..., :n] ** 2))))
    return rows


def acrobot(count: int) -> tuple[float, float]:
    """How far joints are from a motion of 4 s at its end, rad: median without feedback, largest with the regulator."""
    world = cd.Simulation(cd.load("double_pendulum"), dt=2e-3, actuated=["elbow"], threads=1)
    U = 12.0 * np.sin(2.5 * world.dt * np.arange(2000))[:, None]
    X = world.rollout(world.state(np.array([2.5, 0.3])), U)
    law = TimeVaryingLQR(world, (X, U), terminal_cost=1.0)
    loop = cd.Loop(world, lambda x: law(x))
    x0 = X[0] + 0.01 * np.random.default_rng(3).normal(size=(count, 4))
    kept = loop.rollout(loop.state(x0[:, :2], x0[:, 2:]), steps=2000, every=2000)["q"][:, -1] - X[-1, :2]
    lost = world.rollout(x0, U)[:, -1, :2] - X[-1, :2]
    return float(np.median(np.abs(lost).max(axis=1))), float(np.abs(kept).max())


def simulated(loop: cd.Loop, x0: np.ndarray, n: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """(states, controls) of a batch."""
    out = loop.rollout(x0, steps=steps, record=["q", "v", "u"])
    return np.concatenate([x0[:, None, : 2 * n], np.concatenate([out["q"], out["v"]], axis=-1)], axis=1), out["u"]


def cost(law: Any, X: np.ndarray, U: np.ndarray) -> np.ndarray:
    """The cost of deviations X and U, without that of the end."""
    Z = X[:, :-1]
    return np.asarray(np.einsum("nki,ij,nkj->n", Z, law.Q, Z) + np.einsum("nki,ij,nkj->n", U, law.R, U))


# ---- times


def times(console: Console, robot: cd.Robot, seconds: float, most: int | None) -> dict[str, tuple[float, float]]:
    """Seconds per tick, physics and reference included: one arm, and one of 1,024 arms on one thread."""
    world, move = cd.Simulation(robot, dt=1e-3, threads=1), quintic(READY, READY + AWAY, 2.0)
    kinds: dict[str, Any] = {
        "PID": JointPID(world),
        "computed torque": ComputedTorque(world),
        "impedance": JointImpedance(world),
        "impedance, factorised": JointImpedance(world, design="factorised"),
        "passivity-based": PassivityControl(world),
        "adaptive, all links": AdaptiveControl(world),
        "adaptive, the last link": AdaptiveControl(world, links="wrist_3"),
        "LQR": LQRControl(world, READY),
        "time-varying LQR": TimeVaryingLQR(world, move),
    }
    rows = {}
    for name, law in list(kinds.items())[:most]:
        loop = cd.Loop(world, partial(follow, law, move))
        one, many = loop.state(READY), np.tile(loop.state(READY), (1024, 1))
        steps = 500
        single = best(partial(loop.rollout, one, steps=steps, record=["q"], every=steps), seconds) / steps
        batch = best(partial(loop.rollout, many, steps=steps, record=["q"], every=steps), seconds) / steps / 1024
        rows[name] = (single, batch)
    table = Table("tick of a UR3 at 1 kHz", "one arm, us", "1,024 arms, us each")
    for name, (single, batch) in rows.items():
        table.add_row(name, f"{1e6 * single:.2f}", f"{1e6 * batch:.3f}")
    console.print(table)
    return rows
