"""What a flight shows: its results as numbers, its signals as charts, and one HTML page of one model or of both."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from condyle.apps.flight.air import induced_power
from condyle.apps.flight.nmpc import reference_size
from condyle.apps.flight.scenarios import Flight, Pace
from condyle.tape.host_info import program
from condyle.workbench.runs.run import Run
from condyle.workbench.view.page import facts_html, html_page
from condyle.workbench.view.player import player_html
from condyle.workbench.view.plots import Chart, chart_html

Array = np.ndarray

DENSITY = 1.225  # kg/m^3
SETTLED = 1.0  # s at the end, of the error that stays
TOUCHING = 1e-3  # of the weight: a force of the ground that counts as contact
OVERTURNED, UPRIGHT = 45.0, 5.0  # degrees
LOST_TILT, LOST_ERROR = 90.0, 5.0  # degrees, m: beyond these nothing is flown any more


@dataclass(frozen=True)
class Flown:
    """A flight with its run, how it kept to the clock, and seconds of processor time of each solve."""

    flight: Flight
    run: Run
    pace: Pace
    solves: Array

    @staticmethod
    def of(flight: Flight, run: Run, pace: Pace) -> Flown:
        """With its solves, timed again one by one."""
        return Flown(flight, run, pace, solve_times(flight, run))

    # ---- signals, (T,) or (T, n), at the starts of ticks

    @property
    def t(self) -> Array:
        """The times, s."""
        return self.run.t[:-1]

    @property
    def state(self) -> Array:
        """The states of the single body, (T, n)."""
        return np.asarray(self.run.extras["state"])

    @property
    def error(self) -> Array:
        """The distance of the centre of mass from its reference, m: (T,)."""
        return np.asarray(np.linalg.norm(self.state[:, :3] - self.run.extras["reference"][:, :3], axis=1))

    @property
    def tilt(self) -> Array:
        """The angle between the body's z axis and the vertical, degrees: (T,)."""
        return tilts(self.state)

    @property
    def heading(self) -> Array:
        """The heading of the body's x axis, degrees: (T,)."""
        w, x, y, z = self.state[:, 6:10].T
        return np.asarray(np.degrees(np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))))

    @property
    def power(self) -> Array:
        """The induced power of the rotors, W: (T, n)."""
        radius = np.array([rotor.radius for rotor in self.flight.airframe.rotors])
        return np.asarray(induced_power(self.signal("thrusts"), radius, DENSITY), dtype=float)

    @property
    def energies(self) -> dict[str, Array]:
        """Kinetic and potential energy, J: (T,) each."""
        robot, q, v = self.run.robot, self.run.q[:-1], self.run.v[:-1]
        return {"kinetic": np.asarray(robot.kinetic_energy(q, v)), "potential": np.asarray(robot.potential_energy(q))}

    def signal(self, name: str) -> Array:
        """A signal of the vehicle, (T, n); no columns where it has none."""
        found = self.run.extras.get(f"vehicle.{name}")
        return np.zeros((self.run.steps, 0)) if found is None else np.asarray(found)

    # ---- results

    @property
    def diverged(self) -> str:
        """When and how the vehicle was lost, in half a sentence; "" where it was not."""
        bad = ~np.isfinite(self.state).all(axis=1)
        ways = {
            "is not finite": bad,
            "is upside down": self.tilt > LOST_TILT,
            f"is {LOST_ERROR:g} m from its path": self.error > LOST_ERROR,
        }
        first = {how: int(np.argmax(lost)) for how, lost in ways.items() if lost.any()}
        if not first:
            return ""
        how = min(first, key=lambda name: first[name])
        return f"it {how} after {self.t[first[how]]:.3g} s"

    def results(self) -> dict[str, Any]:
        """The numbers of the flight, SI units unless their names say otherwise; a number that it does not have is None."""
        run, frame = self.run, self.flight.airframe
        last = self.t >= self.t[-1] - SETTLED
        thrusts, torques, rates = self.signal("thrusts"), self.signal("torques"), self.signal("rates")
        limits, angles = frame.thrust_limits, self.signal("angles")
        beyond = [np.maximum(limits[:, 0] - thrusts, thrusts - limits[:, 1])] if self.flight.thrust_factor is None else []
        if angles.shape[1]:
            beyond.append(np.maximum(frame.gimbal_limits[:, 0] - angles, angles - frame.gimbal_limits[:, 1]))
        nmpc = self.flight.controller == "nmpc"
        found: dict[str, Any] = {
            "error_rms": float(np.sqrt(np.mean(self.error**2))),
            "error_max": float(self.error.max()),
            "error_end": float(self.error[last].mean()),
            "tilt_max_degrees": float(self.tilt.max()),
            "heading_end_degrees": float(self.heading[-1]),
            "thrust_min": float(thrusts.min()),
            "thrust_max": float(thrusts.max()),
            "gimbal_angle_max_degrees": float(np.degrees(np.abs(angles).max(initial=0.0))),
            "gimbal_rate_max": float(np.abs(rates).max(initial=0.0)),
            "gimbal_torque_max": float(np.abs(torques).max(initial=0.0)),
            "limit_violation": max([0.0, *(float(each.max()) for each in beyond)]),
            "power_mean": float(self.power.sum(axis=1).mean()),
            "solver_mean_us": float(1e6 * self.solves.mean()) if len(self.solves) else None,
            "solver_p99_us": float(1e6 * np.percentile(self.solves, 99)) if len(self.solves) else None,
            "solver_failures": int(run.states["nmpc.failures"][-1]) if nmpc else None,
            "solver_unconverged": int(run.states["nmpc.unconverged"][-1]) if nmpc else None,
        }
        return found | (self.touchdown() if self.flight.of.ground else {})

    def touchdown(self) -> dict[str, Any]:
        """How it came down; see `touchdown`."""
        return touchdown(self.state, np.asarray(self.run.contact_forces), self.run.simulation.weight)


def tilts(state: Array) -> Array:
    """The angle between the body's z axis and the vertical, degrees, of states (..., n)."""
    x, y = state[..., 7], state[..., 8]
    return np.asarray(np.degrees(np.arccos(np.clip(1.0 - 2.0 * (x * x + y * y), -1.0, 1.0))))


def touchdown(state: Array, forces: Array, weight: float) -> dict[str, Any]:
    """The speed at the first contact after flight, the largest tilt after it, the slide, and whether it stands.

    `state` (T, n) of the single body, `forces` (T, contacts, 3) of the ground, N.
    """
    tilt, touching = tilts(state), np.linalg.norm(forces.sum(axis=1), axis=1) > TOUCHING * weight
    flown = np.flatnonzero(~touching)
    after = np.flatnonzero(touching & (np.arange(len(touching)) > (flown[0] if len(flown) else 0)))
    standing = bool(touching[-1] and tilt[-1] < UPRIGHT)
    if not len(after):
        return {"touchdown_speed": None, "touchdown_tilt_degrees": None, "slide": None, "stands": standing, "overturned": False}
    first = int(after[0])
    return {
        "touchdown_speed": float(-state[first, 5]),
        "touchdown_tilt_degrees": float(tilt[first:].max()),
        "slide": float(np.linalg.norm(state[-1, :2] - state[first, :2])),
        "stands": standing,
        "overturned": bool(tilt[first:].max() > OVERTURNED),
    }


def solve_times(flight: Flight, run: Run) -> Array:
    """Processor time of each solve, s, from the recorded states and plans: (commands,); empty for other controllers."""
    if flight.controller != "nmpc":
        return np.zeros(0)
    control, every, found, states = flight.control, flight.every, [], run.states
    solver, rows, size = control.solver, run.extras["reference"], reference_size(control.body)
    kernel, stages = solver.function.on("cpu", lanes=1), solver.problem.N + 1
    for k in range(0, run.steps, every):
        plan = [states[f"nmpc.{name}"][k] for name in solver.plan_shapes]
        target = np.ascontiguousarray(np.broadcast_to(rows[k].reshape(-1, size), (stages, size)))
        x = np.array(run.extras["seen"][k])
        if not k:
            kernel(x, *plan, reference=target)
        begin = time.thread_time()
        kernel(x, *plan, reference=target)
        found.append(time.thread_time() - begin)
    return np.array(found)


# ---- charts and the page


def charts(flown: Sequence[Flown]) -> list[Chart]:
    """The charts of one flight, or of several models of the same one in common charts."""
    first, many = flown[0], len(flown) > 1
    out: list[Chart] = []

    def add(title: str, signals: dict[str, list[Array]]) -> None:
        """Lines by name, one for each flight."""
        lines = {}
        for name, values in signals.items():
            for one, value in zip(flown, values, strict=True):
                if len(value):
                    lines[f"{name}, {one.flight.model}".lstrip(", ") if many else name] = value[: len(first.t)]
        if lines:
            out.append(Chart(title, first.t, lines))

    def columns(names: Sequence[str], values: list[Array]) -> dict[str, list[Array]]:
        return {name: [v[:, k] if k < v.shape[1] else np.zeros(0) for v in values] for k, name in enumerate(names)}

    frame = first.flight.airframe
    rotors, gimbals = [f"rotor {k + 1}" for k in range(frame.n)], list(frame.gimbals)
    add("tracking error, mm", {"": [1e3 * each.error for each in flown]})
    if many and len({each.run.steps for each in flown}) == 1:
        apart = np.linalg.norm(first.state[:, :3] - flown[1].state[:, :3], axis=1)
        out.append(Chart("distance between the two models, mm", first.t, {"": 1e3 * apart}))
    add("centre of mass, m", columns("xyz", [each.state[:, :3] for each in flown]))
    add("thrusts, N", columns(rotors, [each.signal("thrusts") for each in flown]))
    angles = columns(gimbals, [np.degrees(each.signal("angles")) for each in flown])
    commands = columns([f"{name}, command" for name in gimbals], [np.degrees(each.signal("commands")) for each in flown])
    add("gimbal angles and their commands, degrees", {**angles, **commands})
    add("joint velocities, rad/s", columns(gimbals, [each.signal("rates") for each in flown]))
    add("joint torques, N m", columns(gimbals, [each.signal("torques") for each in flown]))
    add("tilt of the body, degrees", {"": [each.tilt for each in flown]})
    add("energies, J", {name: [each.energies[name] for each in flown] for name in ("kinetic", "potential")})
    add("induced power of the rotors, W", {"": [each.power.sum(axis=1) for each in flown]})
    if first.signal("wind").any():
        add("wind, m/s", columns("xyz", [each.signal("wind") for each in flown[:1]] + [np.zeros((0, 0))] * (len(flown) - 1)))
    if len(first.solves) > 1:
        times = first.t[:: first.flight.every]
        lines = {each.flight.model if many else "": 1e6 * each.solves for each in flown if len(each.solves) == len(times)}
        out.append(Chart("processor time of each solve, us", times, lines))
    return out


def page(flown: Sequence[Flown]) -> str:
    """The report of one flight, or of both models compared."""
    flight = flown[0].flight
    both = len(flown) > 1
    title = f"{flight.airframe.name}: {flight.scenario}, {flight.controller}"
    models = " and ".join(each.flight.model for each in flown)
    header = (
        f"<h1>{escape(title)}</h1><p>{escape(flight.of.summary.capitalize())}; {escape(models)}, noise {flight.noise:g}, seed "
        f"{flight.seed}. Thrusts are violet arrows, the plan of the controller is green.</p>"
    )
    players = "".join(f"<div>{player_html(each.run, title=f'{each.flight.model}', height=420)}</div>" for each in flown)
    parts = [f'<section><h2>Results</h2><div class="pair">{players}{"" if both else _table(flown)}</div>']
    parts += [_table(flown)] if both else []
    parts += [f'<div class="charts">{"".join(map(chart_html, charts(flown)))}</div>']
    commands = [f"{program()} {verb} {each.run.path}" for each in flown if each.run.path for verb in ("view", "replay --check")]
    parts += [f"<h3>Repeat it</h3><pre>{escape(chr(10).join(commands))}</pre>"] if commands else []
    facts = {"airframe": repr(flight.airframe).strip("<>"), "steps": f"{flight.steps:,} of {1e3 * flight.dt:g} ms"}
    facts |= {f"sha256, {each.flight.model}": each.run.hash for each in flown}
    return html_page(title, header, "".join([*parts, "</section>"]), facts_html(facts))


LABELS = {
    "error_rms": ("tracking error, rms", "mm", 1e3),
    "error_max": ("tracking error, largest", "mm", 1e3),
    "error_end": ("tracking error, mean of the last second", "mm", 1e3),
    "tilt_max_degrees": ("largest tilt", "degrees", 1.0),
    "heading_end_degrees": ("heading at the end", "degrees", 1.0),
    "thrust_min": ("least thrust", "N", 1.0),
    "thrust_max": ("largest thrust", "N", 1.0),
    "gimbal_angle_max_degrees": ("largest gimbal angle", "degrees", 1.0),
    "gimbal_rate_max": ("largest joint velocity", "rad/s", 1.0),
    "gimbal_torque_max": ("largest joint torque", "N m", 1.0),
    "limit_violation": ("beyond the limits of thrust or angle", "N, rad", 1.0),
    "power_mean": ("mean induced power", "W", 1.0),
    "solver_mean_us": ("processor time of a solve, mean", "us", 1.0),
    "solver_p99_us": ("processor time of a solve, 99th percentile", "us", 1.0),
    "solver_failures": ("solves that failed", "", 1.0),
    "solver_unconverged": ("solves at their limit of iterations", "", 1.0),
    "touchdown_speed": ("speed at touchdown", "m/s", 1.0),
    "touchdown_tilt_degrees": ("largest tilt after touchdown", "degrees", 1.0),
    "slide": ("slide after touchdown", "m", 1.0),
    "stands": ("stands at the end", "", 1.0),
    "overturned": ("overturned", "", 1.0),
}


def shown(name: str, value: Any) -> str:
    """A result as text, with its unit."""
    _, unit, scale = LABELS[name]
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{np.round(value * scale, 6):.4g} {unit}".strip()


def _table(flown: Sequence[Flown]) -> str:
    results = [each.results() for each in flown]
    head = "".join(f'<th style="text-align:right">{escape(each.flight.model)}</th>' for each in flown)
    rows = "".join(
        f"<tr><td>{escape(LABELS[name][0])}</td>"
        + "".join(f'<td class="value">{escape(shown(name, each[name]))}</td>' for each in results)
        + "</tr>"
        for name in results[0]
    )
    table = f"<table><tr><th></th>{head}</tr>{rows}</table>"
    return f'<div><div class="rows" tabindex="0" role="region" aria-label="results">{table}</div></div>'
