"""Names and units of everything in a run: each entry of a state, of a control, and the frames of wrenches."""

from __future__ import annotations

from typing import Any

from condyle.constraints.reduced_coordinates import velocity_names
from condyle.robot.joints import Ball, Free, Prismatic
from condyle.robot.model import Link
from condyle.simulate.simulation import Simulation

PLACE, TURN, SPEED, SPIN = ("x", "y", "z"), ("qx", "qy", "qz", "qw"), ("vx", "vy", "vz"), ("wx", "wy", "wz")


def columns_of(simulation: Simulation) -> dict[str, Any]:
    """{"x": [[name, unit], ...], "u": [[name, unit], ...], "wrenches": [frame, ...], "contacts": [name, ...],
    "base": [joint, ...]} as plain data."""
    robot = simulation.robot
    x = [row for link in robot.reduced.links for row in _places(link)]
    if robot.velocity_names == velocity_names(robot.reduced):
        x += [row for link in robot.reduced.links for row in _speeds(link)]
    else:
        units = {row[0]: row[1] for link in robot.reduced.links for row in _speeds(link)}
        x += [[f"v.{name}", units.get(f"v.{name}", "")] for name in robot.velocity_names]
    x += [["ticks", ""]] * simulation.timed
    u = []
    for k, name in zip(simulation.actuated, simulation.control_names, strict=True):
        link = next(link for link in robot.model.links if link.v.start <= k < link.v.stop)
        slides = isinstance(link.kind, Prismatic) or (isinstance(link.kind, Free) and k - link.v.start < 3)
        u.append([f"u.{name}", "N" if slides else "N m"])
    frames, base = list(simulation.wrench_frames), [link.joint for link in robot.model.links if link.base]
    return {"x": x, "u": u, "wrenches": frames, "contacts": simulation.contact_names, "base": base}


def _places(link: Link) -> list[list[str]]:
    joint = f"q.{link.joint}"
    if isinstance(link.kind, Free | Ball):
        places = [[f"{joint}.{axis}", "m"] for axis in PLACE] if isinstance(link.kind, Free) else []
        return [*places, *[[f"{joint}.{axis}", ""] for axis in TURN]]
    return [[joint, "m" if isinstance(link.kind, Prismatic) else "rad"]]


def _speeds(link: Link) -> list[list[str]]:
    joint = f"v.{link.joint}"
    if isinstance(link.kind, Free | Ball):
        speeds = [[f"{joint}.{axis}", "m/s"] for axis in SPEED] if isinstance(link.kind, Free) else []
        return [*speeds, *[[f"{joint}.{axis}", "rad/s"] for axis in SPIN]]
    return [[joint, "m/s" if isinstance(link.kind, Prismatic) else "rad/s"]]
