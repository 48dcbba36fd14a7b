"""Constrained robots: a rolling pendulum beside NumPy with Pinocchio, and what closing the loops of legs and chains costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import condyle as cd
from benchmarks.measure import SECONDS, busy, per_call, race
from condyle.robot.description import Description
from condyle.robot.parts import X, Y, body, frame, joint, link, pose

LENGTH, RADIUS = 0.2, 0.04  # of the wheeled pendulum
STATES = 1 << 16

# a leg: thigh and crank on one axis, a coupler from the crank to a lever on the shank
THIGH, LEVER, CRANK, COUPLER = 0.25, 0.045, 0.05, 0.25


def run(console: Console, *, tiny: bool = False) -> dict[str, Any]:
    """Print the tables and return their numbers."""
    seconds, states = (0.01, 64) if tiny else (SECONDS, STATES)
    pendulum = wheeled_pendulum(states, seconds, 10 if tiny else 1000)
    costs = {name: cost(open_, closed, states, seconds) for name, open_, closed in mechanisms(tiny)}
    console.print(pendulum_table(pendulum))
    console.print(cost_table(costs))
    return {"pendulum": pendulum, "costs": costs, "busy": busy()}


# ---- the rolling pendulum


def wheeled_pendulum(states: int, seconds: float, calls: int) -> dict[str, float]:
    """Seconds of the reduced forward dynamics: one state, with NumPy and Pinocchio beside it, and per state of a batch."""
    robot = cd.load("wheeled_pendulum").roll("axle", RADIUS)
    y, w, tau = np.array([0.1, 0.3]), np.array([0.5, -1.2]), np.array([0.02, 0.01])
    theirs = with_pinocchio()
    assert np.allclose(robot.forward_dynamics(y, w, tau), theirs(y, w, tau), rtol=1e-11)
    rng = np.random.default_rng(0)
    ys, ws, taus = (rng.standard_normal((states, 2)) for _ in range(3))
    out = np.empty_like(ys)
    return {
        "one": per_call(lambda: robot.forward_dynamics(y, w, tau), seconds, calls),
        "one_peer": per_call(lambda: theirs(y, w, tau), seconds, max(calls // 10, 1)),
        "batch": race({"": lambda: robot.forward_dynamics(ys, ws, taus, out=out, threads=1)}, seconds)[""] / states,
    }


def with_pinocchio() -> Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]:
    """T^T M T by hand: M and c from Pinocchio, T and Tdot w in NumPy."""
    import pinocchio as pin

    disc = 0.5 * RADIUS**2
    model = pin.Model()
    body_, wheel = np.diag([0.01, 0.01, 0.001]), np.diag([disc / 4, disc / 2, disc / 4])
    bodies = [pin.Inertia.Zero(), pin.Inertia.Zero(), pin.Inertia(1.0, np.array([0, 0, -LENGTH / 2]), body_)]
    bodies.append(pin.Inertia(0.5, np.zeros(3), wheel))
    places = [pin.SE3.Identity()] * 3 + [pin.SE3(np.eye(3), np.array([0.0, 0.0, -LENGTH]))]
    parent = 0
    joints = (pin.JointModelPX(), pin.JointModelPZ(), pin.JointModelRY(), pin.JointModelRY())
    for name, kind, place, inertia in zip("xzbw", joints, places, bodies, strict=True):
        parent = model.addJoint(parent, kind, place, name)
        model.appendBodyToJoint(parent, inertia, pin.SE3.Identity())
    data = model.createData()
    q, T, drift = np.zeros(4), np.zeros((4, 2)), np.zeros(4)
    T[0, 0] = T[2, 1] = 1.0
    T[3, 0] = 1.0 / RADIUS

    def forward(y: np.ndarray, w: np.ndarray, tau: np.ndarray) -> np.ndarray:
        s, c = np.sin(y[1]), np.cos(y[1])
        q[0], q[1], q[2], q[3] = y[0], RADIUS + LENGTH * c, y[1], (y[0] - LENGTH * s) / RADIUS - y[1]
        T[1, 1], T[3, 1] = -LENGTH * s, -LENGTH * c / RADIUS - 1.0
        drift[1], drift[3] = -LENGTH * c * w[1] ** 2, LENGTH * s / RADIUS * w[1] ** 2
        M = pin.crba(model, data, q)
        bias = pin.nonLinearEffects(model, data, q, T @ w)
        return np.linalg.solve(T.T @ M @ T, tau - T.T @ (bias + M @ drift))

    return forward


def pendulum_table(found: dict[str, float]) -> Table:
    table = Table(title="forward dynamics of the rolling pendulum, one core", title_justify="left")
    for name in ("", "condyle", "NumPy with Pinocchio", "ratio"):
        table.add_column(name, justify="left" if not name else "right")
    ratio = found["one_peer"] / found["one"]
    table.add_row("one state", f"{found['one'] * 1e6:.2f} us", f"{found['one_peer'] * 1e6:.1f} us", f"{ratio:.1f}x")
    table.add_row("a batch, states a second", f"{1e-6 / found['batch']:.1f} million", "", "")
    return table


# ---- what a loop costs


def mechanisms(tiny: bool) -> list[tuple[str, cd.Robot, cd.Robot]]:
    """(name, with its loops open, with its loops closed)."""
    fixed, free = (cd.load(leg(), base=base) for base in ("fixed", "free"))
    found = [("four-bar leg on a free body", free, closed_leg(free)), ("four-bar leg on a fixed hip", fixed, closed_leg(fixed))]
    return found[:1] if tiny else found


def leg() -> Description:
    """A leg whose knee is driven by a crank at the hip through a coupler."""
    links = (
        link("torso", body(6.0, (0.0, 0.0, 0.05), (0.06, 0.08, 0.05))),
        link("hip", body(0.6, (0.0, 0.01, 0.0), (8e-4, 8e-4, 8e-4))),
        link("thigh", body(0.9, (0.0, 0.0, -0.1), (5e-3, 5e-3, 6e-4))),
        link("shank", body(0.3, (0.0, 0.0, -0.1), (2e-3, 2e-3, 8e-5))),
        link("crank", body(0.1, (CRANK / 2, 0.0, 0.0), (2e-5, 4e-5, 4e-5))),
        link("coupler", body(0.08, (0.0, 0.0, -COUPLER / 2), (4e-4, 4e-4, 1e-5))),
    )
    joints = (
        joint("hip_roll", "revolute", "torso", "hip", pose((0.2, 0.1, 0.0)), X, limits=0.6),
        joint("hip_pitch", "revolute", "hip", "thigh", pose((0.0, 0.06, 0.0)), Y, limits=1.5),
        joint("knee", "revolute", "thigh", "shank", pose((0.0, 0.0, -THIGH)), Y, limits=(-2.2, 1.0)),
        joint("knee_motor", "revolute", "thigh", "crank", pose((0.0, 0.03, 0.0)), Y, limits=0.9),
        joint("coupler_pin", "revolute", "crank", "coupler", pose((CRANK, 0.0, 0.0)), Y, limits=1.5),
    )
    frames = (frame("lever", "shank", (LEVER, 0.03, 0.0)), frame("coupler_end", "coupler", (0.0, 0.0, -COUPLER)))
    return Description("four_bar_leg", links, joints, frames)


def closed_leg(robot: cd.Robot) -> cd.Robot:
    """The leg with its coupler on the lever; the motor at the hip remains."""
    return robot.close_loop("coupler_end", "lever", "xz", dependent=["knee", "coupler_pin"])


def cost(robot: cd.Robot, closed: cd.Robot, states: int, seconds: float) -> dict[str, float]:
    """Nanoseconds of the forward dynamics of a state in a batch, loop open and closed."""
    rng = np.random.default_rng(1)
    calls: dict[str, Callable[[], object]] = {}
    for name, r in (("open", robot), ("closed", closed)):
        v, tau = rng.standard_normal((states, r.nv)), rng.standard_normal((states, r.nv))
        calls[name] = _forward(r, r.random_configuration(rng, states), v, tau)
    times = race(calls, seconds)
    return {name: t / states * 1e9 for name, t in times.items()}


def _forward(robot: cd.Robot, q: np.ndarray, v: np.ndarray, tau: np.ndarray) -> Callable[[], object]:
    out = np.empty_like(v)
    return lambda: robot.forward_dynamics(q, v, tau, out=(out,), mask=True, threads=1)


def cost_table(costs: dict[str, dict[str, float]]) -> Table:
    table = Table(title="forward dynamics in batch, one core, ns a state", title_justify="left")
    for name in ("", "open tree", "loop closed", "ratio"):
        table.add_column(name, justify="left" if not name else "right")
    for name, row in costs.items():
        table.add_row(name, f"{row['open']:.1f}", f"{row['closed']:.1f}", f"{row['closed'] / row['open']:.2f}x")
    return table
