"""The arm at work: a plan of its joints at 1 kHz, computed torque at 1 kHz on physics at 4 kHz, and a payload at the tool.

The plan grips and releases the payload. In between, mass, centre of mass and inertia of the last link are those of link and
payload together, as parameters of each tick. The controller knows it by as much as `tracking.feed_forward` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from os import PathLike
from typing import Any

import numpy as np

from condyle.apps.demos.arm import DOWN, START, TOOL, joint_rates, robot
from condyle.apps.demos.checks import Progress, recorded, silent
from condyle.closed_loop.loop import Loop
from condyle.dynamics.rnea import inverse_dynamics
from condyle.errors import ControlError
from condyle.methods.control.arm_controller import ArmController
from condyle.methods.planning.profiles import Sample
from condyle.multibody.inverse_kinematics_path import inverse_kinematics_path
from condyle.robot.library.ur3 import FRICTION
from condyle.robot.model import Model
from condyle.robot.parameters import with_parameters
from condyle.simulate.simulation import Simulation
from condyle.workbench.runs.loops import built_in
from condyle.workbench.runs.run import Run

RATE, EVERY = 1000, 4  # Hz of plan and controller; ticks of the physics for each
DT = 1.0 / (RATE * EVERY)  # s
KP, KD = 1600.0, 80.0  # 1/s^2 and 1/s: errors decay critically damped at 40 rad/s
LAST = "wrist_3"  # the link that holds the tool
AHEAD, EDGE = 0.03, 0.06  # m: the payload's centre ahead of the tool, and its edge: a cube


@cache
def world() -> Simulation:
    """The arm at 4 kHz."""
    return Simulation(robot(), DT, integrator="rk4")


# -- the plan


@dataclass(frozen=True)
class Plan:
    """Joints, velocities, accelerations (n, 6), whether the payload is gripped, and the part of each row, at 1 kHz."""

    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    holding: np.ndarray  # 1 while the payload is gripped, else 0
    part: np.ndarray

    @property
    def t(self) -> np.ndarray:
        """The time of each row, s."""
        return np.arange(len(self.q)) / RATE

    @property
    def references(self) -> dict[str, np.ndarray]:
        """The references of the loop, one row for each tick of the physics."""
        rows = np.concatenate([self.q, self.v, self.a, self.holding[:, None]], axis=1)
        return {"plan": np.repeat(rows, EVERY, axis=0)}


def planned(parts: Sequence[tuple[str, Sample, float]]) -> Plan:
    """The plan of (name, samples of the joints, whether the payload is gripped) one after another."""
    q, v, a = (np.concatenate([getattr(sample, name) for _, sample, _ in parts]) for name in Sample._fields)
    holding = np.concatenate([np.full(len(sample.position), holding) for _, sample, holding in parts])
    part = np.concatenate([np.full(len(sample.position), name) for name, sample, _ in parts])
    return Plan(q, v, a, holding, part)


def times(duration: float) -> np.ndarray:
    """The times of the plan's rows within a motion, s; the last one is at its end or after it."""
    return np.arange(int(np.ceil(duration * RATE)) + 1) / RATE


@cache
def _rates() -> Any:
    return robot().function(joint_rates, velocity=3, acceleration=3)


def joints_along(tool: Sample, q0: np.ndarray) -> Sample:
    """Joints with the tool down along positions (n, 3) with their derivatives in time, continued from q0."""
    found = inverse_kinematics_path(robot(), TOOL, DOWN, tool.position, q0, tolerance=1e-12)
    if not np.all(found.ok) or np.any(found.jump):
        k = int(np.argmin(found.ok & ~found.jump))
        raise ControlError(
            f"the tool cannot follow its path at {np.round(tool.position[k], 4).tolist()} m: it is out of reach, or a joint jumps"
        )
    v, a = _rates()(found.q, tool.velocity, tool.acceleration)
    return Sample(found.q, v, a)


def rest(q: np.ndarray, seconds: float) -> Sample:
    """The arm at rest."""
    still = np.zeros((round(seconds * RATE), 6))
    return Sample(still + q, still, still)


# -- the payload and the controller


def with_payload(model: Model, mass: Any) -> dict[str, Any]:
    """Mass, centre of mass and inertia of the last link with a cube of this mass at the tool, by their parameters' names."""
    link, tool = next(each for each in model.links if each.name == LAST), model.frame(TOOL).pose
    own = link.inertia
    d = np.asarray(tool.p + AHEAD * tool.R[:, 2], dtype=float) - np.asarray(own.com, dtype=float)
    total = own.mass + mass
    spread = (d @ d) * np.eye(3) - np.outer(d, d)
    inertia = np.asarray(own.I_com, dtype=float) + mass * (EDGE**2 / 6.0) * np.eye(3) + (own.mass * mass / total) * spread
    return {f"{LAST}.mass": total, f"{LAST}.com": own.com + (mass / total) * d, f"{LAST}.inertia": inertia}


class Tracking(ArmController):
    """u = M a + c + f v*, a = a* + kp (q* - q) + kd (v* - v), with M and c of the arm and as much of the payload as it knows."""

    def __init__(self, simulation: Simulation, *, payload: float, **options: Any) -> None:
        super().__init__(simulation, **options)
        self.kp, self.kd = self.gain("kp", KP, "1/s^2"), self.gain("kd", KD, "1/s")
        self.payload = self.parameter("payload", payload, "kg", minimum=0.0)
        self.feed_forward = self.parameter("feed_forward", 1.0, minimum=0.0)

    def step(self, state: dict[str, Any], x: Any, reference: Sample, holding: Any) -> tuple[Any, dict[str, Any]]:
        """(u, no state)."""
        q, v, a = reference
        known = with_payload(self.robot.model, self.payload * self.feed_forward * holding)
        wanted = a + self.kp * (q - x.q) + self.kd * (v - x.v)
        return inverse_dynamics(with_parameters(self.robot.model, known), x.q, x.v, wanted) + FRICTION * v, {}


@built_in("arm_tracking")
def loop(simulation: Simulation, x0: Any, *, payload: float = 0.0) -> Loop:
    """The arm follows its plan: references (q, v, a, holding), 19 numbers; `payload`: kg, gripped where the plan says so."""
    tracking = Tracking(simulation, payload=payload, every=EVERY, name="tracking")

    def follow(x: Any, plan: Any) -> dict[str, Any]:
        torque = tracking(x, Sample(plan[:6], plan[6:12], plan[12:18]), plan[18])
        if not payload:
            return {"u": torque}
        return {"u": torque, "parameters": with_payload(simulation.robot.model, tracking.payload * plan[18])}

    return Loop(simulation, follow, plan=19)


def run_plan(
    plan: Plan, path: str | PathLike[str] | None, title: str, payload: float = 0.0, *, progress: Progress = silent
) -> Run:
    """The recorded run of a plan from its first joints."""
    here = loop(world(), None, payload=payload)
    options: Mapping[str, Any] = {"title": title, "controller": "computed torque at 1 kHz"}
    return recorded(here, here.state(plan.q[0]), path, EVERY * len(plan.q), plan.references, progress=progress, **options)


def tool_errors(q: np.ndarray, plan: Plan) -> np.ndarray:
    """Distance of the tool from where the planned joints put it, m, at every row of the plan; q (ticks, 6) at each tick."""
    error = robot().frame_pose(q[::EVERY][: len(plan.q)], TOOL)[1] - robot().frame_pose(plan.q, TOOL)[1]
    distance: np.ndarray = np.linalg.norm(error, axis=-1)
    return distance


def start() -> np.ndarray:
    """The joints at the start, tool down."""
    return np.array(START)
