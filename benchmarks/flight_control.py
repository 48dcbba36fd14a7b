"""Airframes as multibodies under their controllers: tracking, solver times and violations, batches, the limits of the rotors."""

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

DT, EVERY = 0.005, 2  # s, and ticks between two solves
LINEAR, QUADRATIC = 0.2, 0.05  # N s/m and N s^2/m^2: about 1 N at 3 m/s
GUST = (3.0, 0.0, 0.0)  # m/s
CONTROLLERS = {
    "nmpc": cd.flight.Nmpc,
    "nmpc, offset-free": cd.flight.OffsetFreeNmpc,
    "geometric": cd.flight.Geometric,
    "indi": cd.flight.Indi,
}
KINDS: dict[str, Any] = {
    "steps": {},
    "trajectory": {"preview": True},
    "aggressive": {"max_velocity": 8.0, "max_rate": 12.0, "preview": True},
}


@dataclass(frozen=True)
class Setup:
    """A vehicle with noise on its state, drag and gusts, and its controller."""

    vehicle: Any
    control: Any
    loop: cd.Loop

    @property
    def body(self) -> Any:
        """The controller's model."""
        return self.control.body

    def start(self, position: Any = (0.0, 0.0, 0.0)) -> np.ndarray:
        """At rest, level."""
        return self.loop.state(self.vehicle.configuration(position))

    def fly(self, x0: np.ndarray, rows: np.ndarray, *, gust: Any = (0.0, 0.0, 0.0), record: Any = (), **options: Any) -> Any:
        """The rollout over all rows of references, one for each solve; records of states at every solve."""
        parameters = {"gust.velocity": np.asarray(gust, dtype=float), **options.pop("parameters", {})}
        steps = EVERY * rows.shape[-2]
        return self.loop.rollout(x0, rows, steps, every=EVERY, record=["state", *record], parameters=parameters, **options)


@cache
def setup(name: str, controller: str = "nmpc", kind: str = "steps") -> Setup:
    """The closed loop of an airframe."""
    airframe = cd.flight.airframe(name)
    gust = cd.flight.Gust(GUST, start=1.0, duration=2.0, period=4.0)
    vehicle = cd.flight.Vehicle(airframe, DT, air=cd.flight.Air(LINEAR, QUADRATIC), wind=gust)
    options = KINDS[kind] if "nmpc" in controller else {}
    control = CONTROLLERS[controller](airframe, every=EVERY, name="control", **options)
    noise = cd.flight.StateNoise(every=EVERY)

    def flown(x: Any, reference: Any) -> Any:
        state = vehicle.measured(x)
        return {"command": control(noise(state), reference), "state": state}

    return Setup(vehicle, control, vehicle.loop(flown, reference=control.reference_size))


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the tables and return their numbers."""
    numbers: dict[str, Any] = {"busy": busy()}
    numbers["standard"] = standard(console, ("birotor",) if tiny else ("birotor", "trirotor", "quadrotor", "hexarotor"), tiny)
    numbers["batch"] = batch(console, 16 if tiny else 1024, 0.1 if tiny else 10.0)
    if not tiny:
        numbers["controllers"] = compared(console)
        numbers["limits"] = limits(console)
        numbers["weak rotor"] = weak_rotor(console)
    return numbers


# ---- the standard scenario


def standard(console: Console, names: tuple[str, ...], tiny: bool) -> dict[str, Any]:
    """12 s of the standard scenario with sensor noise, calm and with gusts."""
    show = Table("", "mm at 2 s", "6 s", "12 s", "rms of the last 2 s", "heading and tilt at 6 s, deg", "beyond hard bounds",
                 "solve, us, mean / p99", "iterations", title=f"12 s of the standard scenario, noise, {busy()}")  # fmt: skip
    found = {}
    for name in names:
        for wind in (np.zeros(3), np.array(GUST)):
            each = scenario(setup(name), wind, 1.0 if tiny else 12.0)
            label = f"{name}, {'gusts of 3 m/s' if wind.any() else 'calm'}"
            found[label] = each
            show.add_row(
                label, *[f"{1e3 * e:.1f}" for e in each["errors"]], f"{1e3 * each['rms']:.1f}",
                f"{each['heading']:.1f} {each['tilt']:.1f}", f"{each['violation']:.0e}",
                f"{each['mean']:.0f} / {each['p99']:.0f}", f"{each['iterations']:.2f}",
            )  # fmt: skip
    console.print(show)
    return found


def scenario(flight: Setup, gust: np.ndarray, seconds: float) -> dict[str, Any]:
    """Numbers of one flight of the standard scenario."""
    control, body = flight.control, flight.body
    times = EVERY * DT * np.arange(round(seconds / (EVERY * DT)))
    rows = control.references(cd.flight.standard_scenario(), times)
    names = list(control.solver.plan_shapes)
    record = ["noise", "control.output", "control.iterations", "control.failures", *[f"control.{key}" for key in names]]
    out = flight.fly(flight.start(), rows, gust=gust, record=record, seed=1)
    x, u = out["state"], out["control.output"]
    away = np.linalg.norm(x[:, :3] - rows[:, :3], axis=-1)
    at = [min(round(t / (EVERY * DT)), len(x)) - 1 for t in (2.0, 6.0, 12.0)]
    w, i, j, k = x[at[1], 6:10]
    hard = [u[:, : body.n] - body.thrust[:, 1], body.thrust[:, 0] - u[:, : body.n], u[:, body.n :] - body.angle[:, 1]]
    hard += [body.angle[:, 0] - u[:, body.n :], np.abs(x[:, 13 : 13 + body.n_g]) - body.angle[:, 1]]
    spent = solver_times(control, rows, out, names)
    return {
        "errors": [float(away[k]) for k in at],
        "rms": float(np.sqrt(np.mean(away[-round(2.0 / (EVERY * DT)) :] ** 2))),
        "heading": float(np.degrees(np.arctan2(2 * (w * k + i * j), 1 - 2 * (j * j + k * k)))),
        "tilt": float(np.degrees(np.arccos(np.clip(1 - 2 * (i * i + j * j), -1.0, 1.0)))),
        "violation": max(0.0, *(float(each.max()) for each in hard)),
        "velocity": float(np.abs(x[:, 3:6]).max()),
        "failures": float(out["control.failures"][-1]),
        "iterations": float(out["control.iterations"].mean()),
        "mean": float(spent.mean()),
        "p99": float(np.percentile(spent, 99)),
    }


def solver_times(control: Any, rows: np.ndarray, out: Any, names: list[str]) -> np.ndarray:
    """Processor time of each solve of a flight, made again from its recorded states and plans, us."""
    kernel, N = control.solver.function.on("cpu", lanes=1), control.solver.problem.N
    found = []
    for k in range(1, len(rows)):
        arrays = [np.ascontiguousarray(a) for a in (out["noise"][k], *[out[f"control.{key}"][k - 1] for key in names])]
        r = rows[k].reshape(N + 1, -1).copy() if control.preview else np.tile(rows[k], (N + 1, 1))
        if k == 1:
            kernel(*arrays, reference=r)
        start = time.thread_time()
        kernel(*arrays, reference=r)
        found.append(time.thread_time() - start)
    return 1e6 * np.array(found)


# ---- many at once


def batch(console: Console, count: int, seconds: float) -> dict[str, Any]:
    """Birotors under NMPC, each in its own wind, with its own mass: time, and the bits of some of them flown alone."""
    flight, rng = setup("birotor"), np.random.default_rng(0)
    rows = flight.control.references(cd.flight.standard_scenario(), EVERY * DT * np.arange(round(seconds / (EVERY * DT))))
    x0 = np.tile(flight.start(), (count, 1))
    wind = rng.uniform(-2.0, 2.0, (count, 3)) * [1.0, 1.0, 0.3]
    mass = 0.942482 * rng.uniform(0.9, 1.1, count)
    given: dict[str, Any] = {"record": ["control.failures", "control.unconverged"], "seed": 1}
    flight.fly(x0, rows[:2], gust=wind, parameters={"base.mass": mass}, **given)
    wall, spent = time.perf_counter(), time.process_time()
    out = flight.fly(x0, rows, gust=wind, parameters={"base.mass": mass}, **given)
    wall, spent = time.perf_counter() - wall, time.process_time() - spent
    same = 0
    alone = range(0, count, max(count // 8, 1))
    for k in alone:
        one = flight.fly(x0[k], rows, gust=wind[k], parameters={"base.mass": mass[k]}, robots=k, **given)
        same += int(np.array_equal(one["state"], out["state"][k]) and np.array_equal(one.x, out.x[k]))
    away = np.linalg.norm(out["state"][:, -1, :3] - rows[-1, :3], axis=-1)
    solves = count * len(rows)
    found = {
        "robots": count, "seconds each": seconds, "wall, s": wall, "processor, s": spent,
        "1,000 flights of 10 s at this speed, processor s": spent * (1000.0 * 10.0) / (count * seconds),
        "us of a solve and its two ticks": 1e6 * spent / solves, "same bits alone": f"{same} of {len(alone)}",
        "failures": float(out["control.failures"][:, -1].sum()), "unconverged": float(out["control.unconverged"][:, -1].sum()),
        "away at the end, m, median": float(np.median(away)), "largest": float(away.max()),
    }  # fmt: skip
    show = Table("birotors under NMPC, own wind and mass", "", title=busy())
    for name, value in found.items():
        show.add_row(name, value if isinstance(value, str) else f"{value:.4g}")
    console.print(show)
    return found


# ---- controllers beside each other, and where the rotors end


def compared(console: Console) -> dict[str, Any]:
    """A circle of 1 m in 6 s, calm and with gusts, and with a base that is 10 % heavier."""
    path = cd.flight.Circle(center=(0.0, 0.0, 1.0), radius=0.8, period=6.0, turns=1.5, ramp=1.5, begin=0.5)
    times = EVERY * DT * np.arange(round(12.0 / (EVERY * DT)))
    target = path.sample(times).position[:, 0]
    show = Table("birotor", "calm, rms, mm", "gusts of 3 m/s", "10 % heavier", title="a circle of 0.8 m radius in 6 s, noise")
    found: dict[str, Any] = {}
    for name in CONTROLLERS:
        flight = setup("birotor", name, "trajectory")
        rows = flight.control.references(path, times)
        x0 = flight.start(target[0])
        cases = [(np.zeros(3), 1.0), (np.array(GUST), 1.0), (np.zeros(3), 1.1)]
        each = []
        for gust, heavy in cases:
            out = flight.fly(x0, rows, gust=gust, parameters={"base.mass": 0.942482 * heavy}, seed=1)
            each.append(float(np.sqrt(np.mean(np.sum((out["state"][:, :3] - target) ** 2, axis=-1)))))
        found[name] = each
        show.add_row(name, *[f"{1e3 * e:.1f}" for e in each])
    console.print(show)
    return found


def limits(console: Console) -> dict[str, Any]:
    """Circles of 1 m radius at rising speed under NMPC with preview: error, and how long thrusts and commands are at limits."""
    flight = setup("birotor", "nmpc", "aggressive")
    body = flight.body
    show = Table("m/s", "m/s^2", "rms, mm", "largest", "at a thrust limit, %", "largest command, deg", "tilt, deg", "flies",
                 title="birotor, circles of 1 m radius, NMPC with preview, noise")  # fmt: skip
    found: dict[str, Any] = {}
    for speed in (1.0, 2.0, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0):
        period = 2.0 * np.pi / speed
        path = cd.flight.Circle(center=(0.0, 0.0, 1.0), radius=1.0, period=period, turns=3.0, ramp=2.0, begin=0.5)
        times = EVERY * DT * np.arange(round((path.seconds + 2.0) / (EVERY * DT)))
        out = flight.fly(flight.start((1.0, 0.0, 1.0)), flight.control.references(path, times), record=["control.output"], seed=1)
        x, u = out["state"], out["control.output"]
        away = np.linalg.norm(x[:, :3] - path.sample(times).position[:, 0], axis=-1)
        thrust = u[:, : body.n]
        at_limit = (thrust < body.thrust[:, 0] + 1e-3) | (thrust > body.thrust[:, 1] - 1e-3)
        tilt = np.degrees(np.arccos(np.clip(1.0 - 2.0 * (x[:, 7] ** 2 + x[:, 8] ** 2), -1.0, 1.0)))
        flies = bool(away[-1] < 0.1)
        rms, saturated = float(np.sqrt(np.mean(away**2))), float(at_limit.any(axis=-1).mean())
        found[f"{speed:g} m/s"] = [rms, float(away.max()), saturated, flies]
        show.add_row(
            f"{speed:g}", f"{speed**2:.1f}", f"{1e3 * rms:.0f}", f"{1e3 * away.max():.0f}", f"{100 * saturated:.0f}",
            f"{np.degrees(np.abs(u[:, body.n :]).max()):.0f}", f"{tilt.max():.0f}", str(flies),
        )  # fmt: skip
    console.print(show)
    return found


def weak_rotor(console: Console) -> dict[str, Any]:
    """A birotor whose first rotor gives a part of its thrust: hovering after 8 s under each controller."""
    factors = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
    times = EVERY * DT * np.arange(800)
    show = Table("birotor, hovering after 8 s: m away (tilt, deg)", *[f"{100 * f:.0f} %" for f in factors])
    found: dict[str, Any] = {}
    for name in CONTROLLERS:
        flight = setup("birotor", name)
        rows = flight.control.references(cd.flight.Hover((0.0, 0.0, 1.0)), times)
        x0 = np.tile(flight.start((0.0, 0.0, 1.0)), (len(factors), 1))
        given = {"vehicle.thrust_factor": np.array([[f, 1.0] for f in factors])}
        x = flight.fly(x0, rows, parameters=given, seed=1)["state"][:, -1]
        away = np.linalg.norm(x[:, :3] - rows[-1, :3], axis=-1)
        tilt = np.degrees(np.arccos(np.clip(1.0 - 2.0 * (x[:, 7] ** 2 + x[:, 8] ** 2), -1.0, 1.0)))
        found[name] = away.tolist()
        show.add_row(name, *[f"{a:.3f} ({t:.0f})" if a < 100.0 else "lost" for a, t in zip(away, tilt, strict=True)])
    console.print(show)
    return found
