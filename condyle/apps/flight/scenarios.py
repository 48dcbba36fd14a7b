"""Flights: an airframe, one of its models, a controller and a scenario, as a closed loop that is recorded and replays.

flight = Flight("birotor", scenario="circle", model="multibody", controller="nmpc")
run = flight.record("circle.cdl")
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np

from condyle.apps.flight.air import Air
from condyle.apps.flight.airframe import Airframe, airframe
from condyle.apps.flight.estimation import StateNoise
from condyle.apps.flight.flyable import require_flyable
from condyle.apps.flight.geometric import Geometric
from condyle.apps.flight.indi import Indi
from condyle.apps.flight.nmpc import Nmpc
from condyle.apps.flight.references import Circle, FigureEight, Hover, MinimumSnap, Trajectory, standard_scenario
from condyle.apps.flight.rigid_vehicle import VEHICLES
from condyle.apps.flight.vehicle import Vehicle
from condyle.apps.flight.wind import Gust, Wind
from condyle.closed_loop.loop import Loop
from condyle.errors import ControlError
from condyle.robot.names import nearest
from condyle.simulate.simulation import Simulation
from condyle.simulate.terrain import Plane
from condyle.tape.array import array
from condyle.workbench.runs.loops import built_in
from condyle.workbench.runs.recorder import Recorder
from condyle.workbench.runs.run import Run

CONTROL_DT = 0.01  # s
DRAG: dict[str, Any] = {
    "linear": 0.1,
    "quadratic": (0.04, 0.02, 0.03),
}  # N s/m and N s^2/m^2, of a body of about 0.1 x 0.3 x 0.2 m
NOISE: dict[str, Any] = {"position": 1e-3, "velocity": 5e-3, "attitude": 1e-3, "rate": 5e-3}  # m, m/s, rad, rad/s
SIGNALS = ("thrusts", "commands", "angles", "rates", "torques", "wind")  # of the vehicle, that are recorded
BELOW = 0.12  # m under the height of standing, where a landing ends: the thrust falls while it stands
Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Scenario:
    """What is flown: `path(height)` for the height of the centre of mass when the vehicle stands, in `seconds`.

    `preview`: whether the controller sees the path ahead. `idle`: (begin, end) with the motors at their least thrust. `options`:
    of the NMPC.
    """

    summary: str
    seconds: float
    path: Callable[[float], Trajectory]
    preview: bool = False
    gust: float = 0.0  # m/s, at the peak
    ground: bool = False
    idle: tuple[float, float] = (0.0, 0.0)
    options: dict[str, Any] = field(default_factory=dict)


def _landing(height: float) -> Trajectory:
    z = height + np.array([1.0, 0.25, -BELOW])
    return MinimumSnap(np.stack([0.0 * z, 0.0 * z, z], axis=1), [0.5, 2.7, 4.5])


def _rising(height: float) -> Trajectory:
    return MinimumSnap([[0.0, 0.0, height], [0.0, 0.0, height + 1.0]], [1.0, 3.0])


FAST = {"max_velocity": 4.0, "max_rate": 10.0}
SCENARIOS = {
    "hover": Scenario("from 0.3 m beside it to a point, and stay", 4.0, lambda h: Hover((0.3, 0.0, 1.0))),
    "circle": Scenario("a circle of 0.5 m in 4 s, twice", 11.0, lambda h: Circle((-0.5, 0.0, 1.0), 0.5, 4.0, begin=0.5), True),
    "attitude": Scenario(
        "to a point, then an attitude of 30, 60, 90 degrees that two rotors cannot reach, then to another point",
        12.0,
        lambda h: standard_scenario(),
    ),
    "aggressive": Scenario(
        "a figure of eight of 1.5 m in 2 s, at the limit of thrust",
        9.0,
        lambda h: FigureEight((0.0, 0.0, 1.0), 1.5, 2.0, begin=0.5),
        True,
        options=FAST,
    ),
    "gust": Scenario("staying at a point in gusts of 3 m/s", 8.0, lambda h: Hover((0.0, 0.0, 1.0)), gust=3.0),
    "land": Scenario("down from 1 m to the ground, and motors off", 6.0, _landing, True, ground=True, idle=(4.7, np.inf)),
    "takeoff": Scenario("up from the ground to 1 m", 5.0, _rising, True, ground=True, idle=(0.0, 0.5)),
}
CONTROLLERS = ("nmpc", "geometric", "indi")


@dataclass(frozen=True)
class Flight:
    """One flight. `source`: a built-in airframe or a robot file. `noise`: 1 for that of usual sensors. `wind`: m/s, world axes.

    `gust`: m/s along x, again and again; None for that of the scenario. `thrust_factor`: of each rotor, such as (0.7, 1).
    """

    source: str
    scenario: str = "hover"
    model: str = "multibody"
    controller: str = "nmpc"
    dt: float = 0.005
    seconds: float | None = None
    noise: float = 0.0
    wind: tuple[float, float, float] = (0.0, 0.0, 0.0)
    gust: float | None = None
    seed: int = 0
    thrust_factor: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for what, value, known in (
            ("scenario", self.scenario, list(SCENARIOS)),
            ("model", self.model, list(VEHICLES)),
            ("controller", self.controller, list(CONTROLLERS)),
        ):
            if value not in known:
                raise ControlError(f"there is no {what} '{value!s:.40}'{nearest(value, known)}")
        ticks = CONTROL_DT / self.dt if np.isfinite(self.dt) and self.dt > 0.0 else 0.0
        if ticks < 0.5 or abs(ticks - round(ticks)) > 1e-9:
            raise ControlError(
                f"dt must be {CONTROL_DT} s, the time between two commands, by a whole number; got {self.dt!r:.40}"
            )
        numbers: dict[str, Any] = {"noise": self.noise, "wind": self.wind, "gust": self.gust or 0.0, "seconds": self.duration}
        for what, given in numbers.items():
            if not np.all(np.isfinite(given)) or (what != "wind" and np.any(np.asarray(given) < 0.0)):
                rule = "finite" if what == "wind" else "finite and not negative"
                raise ControlError(f"{what} must be {rule}, got {given!r:.40}")
        require_flyable(self.airframe)
        if round(self.duration / CONTROL_DT) < 1:
            raise ControlError(f"a flight has at least {CONTROL_DT} s, got {self.duration:g}")
        if self.thrust_factor is not None and len(self.thrust_factor) != self.airframe.n:
            raise ControlError(
                f"'{self.airframe.name}' has {self.airframe.n} rotors, and thrust_factor {len(self.thrust_factor)} numbers"
            )

    @property
    def of(self) -> Scenario:
        """The scenario."""
        return SCENARIOS[self.scenario]

    @property
    def duration(self) -> float:
        """Seconds."""
        return self.of.seconds if self.seconds is None else self.seconds

    @property
    def every(self) -> int:
        """Ticks from one command to the next."""
        return round(CONTROL_DT / self.dt)

    @property
    def steps(self) -> int:
        """Ticks of the flight."""
        return round(self.duration / CONTROL_DT) * self.every

    @cached_property
    def airframe(self) -> Airframe:
        """The airframe."""
        return airframe(self.source)

    @cached_property
    def vehicle(self) -> Vehicle:
        """The vehicle of the model."""
        gust = self.of.gust if self.gust is None else self.gust
        winds: list[Wind] = [Wind(self.wind)] if any(self.wind) else []
        winds += [Gust((gust, 0.0, 0.0), 1.0, 1.5, period=3.0)] if gust else []
        ground = Plane(0.6) if self.of.ground else None
        return VEHICLES[self.model](self.airframe, self.dt, air=Air(**DRAG), wind=winds or None, ground=ground)

    @cached_property
    def control(self) -> Any:
        """The controller as a block."""
        if self.controller == "nmpc":
            options: dict[str, Any] = {"preview": self.of.preview, **self.of.options}
            return Nmpc(self.vehicle.body, every=self.every, start=self.start_state, **options)
        made = Geometric if self.controller == "geometric" else Indi
        return made(self.vehicle.body, every=self.every)

    @cached_property
    def standing(self) -> float:
        """The height of the centre of mass over the ground when the vehicle stands, m."""
        simulation = self.vehicle.simulation
        robot, q = simulation.robot, simulation.robot.neutral()
        low = []
        for point in simulation.contact_points:
            R, p = robot.frame_pose(q, robot.model.links[point.link].name)
            low.append(float((R @ point.position + p)[2] - point.radius))
        return float(robot.center_of_mass(q)[2]) - min(low, default=0.0)

    @cached_property
    def path(self) -> Trajectory:
        """What is followed."""
        return self.of.path(self.standing if self.of.ground else 0.0)

    @cached_property
    def start_state(self) -> np.ndarray:
        """The state of the single body at the start: at rest at the first point, or at (0, 0, 1) before a hover."""
        first = self.path.sample([0.0]).position[0, 0]
        if self.scenario == "hover":
            first = first - np.array([0.3, 0.0, 0.0])
        elif self.scenario == "attitude":
            first = np.zeros(3)
        return self.vehicle.body.state(first)

    @cached_property
    def loop(self) -> Loop:
        """The closed loop: references in; noise, controller and vehicle inside."""
        vehicle, control, n = self.vehicle, self.control, self.airframe.n
        noise = StateNoise(**{name: size * self.noise for name, size in NOISE.items()}) if self.noise else None

        def fly(x: Any, reference: Any, power: Any) -> dict[str, Any]:
            state = vehicle.measured(x)
            seen = state if noise is None else noise(state)
            command = control(seen, reference)
            return {"command": array([*(command[:n] * power[0]), *command[n:]]), "state": state, "seen": seen}

        return vehicle.loop(fly, reference=control.reference_size, power=1)

    def references(self) -> dict[str, np.ndarray]:
        """The references of every tick."""
        times = self.dt * np.arange(self.steps)
        rows = self.control.references(self.path, CONTROL_DT * np.arange(self.steps // self.every))
        begin, end = self.of.idle
        on = np.where((times >= begin) & (times < end), 0.0, 1.0)
        return {"reference": np.repeat(rows, self.every, axis=0), "power": on[:, None]}

    @property
    def options(self) -> dict[str, Any]:
        """What a file keeps, to make the loop again."""
        return {
            "source": self.source,
            "scenario": self.scenario,
            "model": self.model,
            "controller": self.controller,
            "dt": self.dt,
            "noise": self.noise,
            "wind": list(self.wind),
            "gust": self.gust,
        }

    def record(
        self,
        path: str | PathLike[str] | None = None,
        *,
        overwrite: bool = False,
        realtime: bool = False,
        progress: Progress | None = None,
        stopped: Callable[[], bool] = lambda: False,
    ) -> tuple[Run, Pace]:
        """(run, how it kept to the clock); with `realtime` each command waits for its time on the wall clock."""
        loop, vehicle = self.loop, self.vehicle
        loop.built_in = "flight", self.options
        rows, say = self.references(), progress or (lambda *_: None)
        record = [f"vehicle.{name}" for name in SIGNALS if f"vehicle.{name}" in loop.plan.signals] + ["state", "seen"]
        drawn = {"nmpc.states": (0, 1, 2)} if self.controller == "nmpc" else {}
        parameters = {} if self.thrust_factor is None else {"vehicle.thrust_factor": list(self.thrust_factor)}
        named: dict[str, Any] = {"title": f"{self.airframe.name}, {self.model}: {self.scenario}", "controller": self.controller}
        x0 = loop.state(vehicle.configuration(self.start_state[:3]))
        pace = Pace()
        given: dict[str, Any] = {"seed": self.seed, "record": record, "polylines": drawn, "parameters": parameters}
        with Recorder(loop, x0, path, overwrite=overwrite, **given, **named) as recorder:
            recorder.compile({name: value[:1] for name, value in rows.items()})
            chunk = self.every if realtime else 64
            start = time.perf_counter()
            while recorder.k < self.steps and not stopped():
                k, count = recorder.k, min(chunk, self.steps - recorder.k)
                recorder.rollout({name: value[k : k + count] for name, value in rows.items()}, count)
                if realtime:
                    pace.wait(start + recorder.k * self.dt)
                say(f"{self.airframe.name}, {self.model}", recorder.k, self.steps)
            pace.wall = time.perf_counter() - start
        return recorder.finish(), pace


@dataclass
class Pace:
    """How a flight kept to the wall clock: commands that came too late, the longest delay, and all of its time, s."""

    overruns: int = 0
    latest: float = 0.0
    wall: float = 0.0

    def wait(self, due: float) -> None:
        """Sleep until a time; count it if it is over."""
        late = time.perf_counter() - due
        if late > 0.0:
            self.overruns, self.latest = self.overruns + 1, max(self.latest, late)
        else:
            time.sleep(-late)


@built_in("flight")
def flight_loop(simulation: Simulation, x0: Any, **options: Any) -> Loop:
    """The loop of a recorded flight, by the names and numbers that its file keeps."""
    options["wind"] = tuple(options.get("wind", (0.0, 0.0, 0.0)))
    return Flight(**options).loop
