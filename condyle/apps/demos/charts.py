"""Charts of the demo robots' runs over time, for the report."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from condyle.workbench.runs.run import Run
from condyle.workbench.view.plots import Chart

Array = np.ndarray


def charts(name: str, run: Run) -> list[Chart]:
    """The charts of the demo of this name."""
    return CHARTS[name](run)


def push_intervals(run: Run) -> list[tuple[float, float]]:
    """(begin, end) of the times, s, in which any wrench was applied."""
    pushed = np.any(run.wrenches != 0.0, axis=(1, 2)) if run.wrenches.size else np.zeros(run.steps, dtype=bool)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], pushed.astype(int), [0]])))
    return [(float(a * run.dt), float(b * run.dt)) for a, b in edges.reshape(-1, 2)]


def _columns(values: Array, names: list[str] | str) -> dict[str, Array]:
    return {name: values[:, k] for k, name in enumerate(names)}


def _birotor(run: Run) -> list[Chart]:
    from condyle.apps.demos.birotor import tilt_and_heading, tracking_errors

    times, distance, _ = tracking_errors(run)
    angles = _columns(np.degrees(run.q[:-1, 7:9]), ["gimbal 1", "gimbal 2"])
    commands = _columns(np.degrees(run.extras["law.commands"]), ["gimbal 1, command", "gimbal 2, command"])
    return [
        Chart("centre of mass, m", run.t, _columns(run.robot.center_of_mass(run.q), "xyz")),
        Chart("position error, mm", times, {"": 1e3 * distance}),
        Chart("thrust of the rotors, N", run.t[:-1], _columns(run.extras["law.thrusts"], ["rotor 1", "rotor 2"])),
        Chart("gimbal angles and their commands, degrees", run.t[:-1], {**angles, **commands}),
        Chart("tilt of the body, degrees", run.t, {"": np.degrees(tilt_and_heading(run.q)[0])}),
    ]


def _arm(run: Run) -> list[Chart]:
    from condyle.apps.demos.arm import TOOL, tool_errors

    bands, names = push_intervals(run), run.robot.joint_names
    return [
        Chart("position of the tool, m", run.t, _columns(run.robot.frame_pose(run.q, TOOL)[1], "xyz"), bands),
        Chart("tool error, mm; shaded: pushed", run.t[:-1], {"": 1e3 * tool_errors(run)}, bands),
        Chart("joints, degrees", run.t, _columns(np.degrees(run.q), names), bands),
        Chart("torques, N m", run.t[:-1], _columns(run.u, names), bands),
    ]


def _wheeled_pendulum(run: Run) -> list[Chart]:
    from condyle.apps.demos.wheeled_pendulum import ground_forces

    bands, t, (normal, friction) = push_intervals(run), run.t[:-1], ground_forces(run)
    return [
        Chart("angle of the body, degrees", run.t, {"": np.degrees(run.q[:, 1])}, bands),
        Chart("position of its upper end, m", run.t, {"": run.q[:, 0]}, bands),
        Chart("torque of the motor, N m", t, {"": run.u[:, 0]}, bands),
        Chart("force of the ground, N", t, {"normal": normal, "friction": friction}, bands),
    ]


def _legged(run: Run) -> list[Chart]:
    from condyle.apps.demos.fourlimb import tilt

    bands, t, normal = push_intervals(run), run.t[:-1], run.contact_forces[..., 2]
    weight = run.simulation.weight
    total = {"sum": normal.sum(axis=1), "weight": np.full(len(t), weight)}
    return [
        Chart("position of the base, m", run.t, _columns(run.q[:, :3] - np.append(run.q[0, :2], 0.0), "xyz"), bands),
        Chart("tilt of the base, degrees", run.t, {"": np.degrees(tilt(run.x))}, bands),
        Chart("vertical force on the feet, N", t, _columns(normal, run.simulation.contact_names), bands),
        Chart(f"their sum, and the weight of {weight:.4g} N", t, total),
    ]


CHARTS: dict[str, Callable[[Run], list[Chart]]] = {
    "birotor": _birotor,
    "arm": _arm,
    "wheeled-pendulum": _wheeled_pendulum,
    "pidog": _legged,
    "fourlimb": _legged,
}
