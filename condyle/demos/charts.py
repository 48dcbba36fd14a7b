"""The charts of each machine's run: what someone who knows the machine would look at first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from condyle.errors import CondyleError
from condyle.runs.run import Run
from condyle.view.plots import Chart

Array = np.ndarray


def charts(name: str, run: Run) -> list[Chart]:
    """The charts of the machine of this name."""
    if name not in CHARTS:
        raise CondyleError(f"there are no charts for a machine '{name}'; there are {', '.join(CHARTS)}")
    return CHARTS[name](run)


def pushes(run: Run) -> list[tuple[float, float]]:
    """(begin, end) of the times, s, in which any wrench was given."""
    pushed = np.any(run.wrenches != 0.0, axis=(1, 2)) if run.wrenches.size else np.zeros(run.steps, dtype=bool)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], pushed.astype(int), [0]])))
    return [(float(a * run.dt), float(b * run.dt)) for a, b in edges.reshape(-1, 2)]


def _birotor(run: Run) -> list[Chart]:
    from condyle.demos.birotor import CONTROL_DT

    robot, t = run.robot, run.t[:-1]
    center = robot.center_of_mass(run.q)[:-1]
    R, _ = robot.frame_pose(run.q, "flight_controller")
    wanted, thrusts, commands = run.extras["reference"], run.extras["thrusts"], run.extras["commands"]
    tilt = np.degrees(np.arccos(np.clip(R[:-1, 2, 2], -1.0, 1.0)))
    off, every = center - wanted[:, :3], round(CONTROL_DT / run.dt)  # where it should be is told with every new command
    angles = {f"gimbal {i}": np.degrees(run.q[:-1, robot.q_slice(f"tilt_{i}").start]) for i in (1, 2)}
    asked = {f"gimbal {i}, commanded": np.degrees(commands[:, i - 1]) for i in (1, 2)}
    where = {axis: center[:, k] for k, axis in enumerate("xyz")}
    return [
        Chart("where its centre of mass is, m", t, where),
        Chart("how far that is from where it should be, mm", t[::every], {"": 1e3 * np.linalg.norm(off[::every], axis=1)}),
        Chart("thrust of the rotors, N", t, {"rotor 1": thrusts[:, 0], "rotor 2": thrusts[:, 1]}),
        Chart("gimbals, degrees: they follow their commands late", t, {**angles, **asked}),
        Chart("tilt of the body, degrees", t, {"": tilt}),
    ]


def _arm(run: Run) -> list[Chart]:
    robot, shade = run.robot, pushes(run)
    _, tool = robot.frame_pose(run.q, "tool")
    _, planned = robot.frame_pose(run.extras["reference"], "tool")
    away = 1e3 * np.linalg.norm(tool[:-1] - planned, axis=1)
    names = robot.joint_names
    joints = {name: np.degrees(run.q[:, k]) for k, name in enumerate(names)}
    torques = {name: run.u[:, k] for k, name in enumerate(names)}
    return [
        Chart("where the tool is, m", run.t, {axis: tool[:, k] for k, axis in enumerate("xyz")}, shade),
        Chart("how far that is from its plan, mm; shaded: pushed", run.t[:-1], {"": away}, shade),
        Chart("joints, degrees", run.t, joints, shade),
        Chart("torques, N m", run.t[:-1], torques, shade),
    ]


def _wheel(run: Run) -> list[Chart]:
    from condyle.demos.wheel_run import told

    done, shade = told(run), pushes(run)
    t = run.t[:-1]
    return [
        Chart("angle of the body, degrees", run.t, {"": np.degrees(run.q[:, 1])}, shade),
        Chart("how far it has gone, m", run.t, {"": run.q[:, 0]}, shade),
        Chart("torque of the motor, N m", t, {"": run.u[:, 0]}, shade),
        Chart("force of the ground, N", t, {"normal": done.normal, "friction": done.friction}, shade),
    ]


def _legged(run: Run) -> list[Chart]:
    shade, t = pushes(run), run.t[:-1]
    forces = run.contact_forces
    names = run.simulation.contact_names
    weight = run.simulation.weight
    base = {axis: run.q[:, k] - (run.q[0, k] if k < 2 else 0.0) for k, axis in enumerate("xyz")}
    return [
        Chart("where the body is, m", run.t, base, shade),
        Chart("tilt of the body, degrees", run.t, {"": tilt(run)}, shade),
        Chart("upward force on the feet, N", t, {name: forces[:, k, 2] for k, name in enumerate(names)}, shade),
        Chart(
            f"their sum, and the weight of {weight:.4g} N",
            t,
            {"sum": forces[..., 2].sum(axis=1), "weight": np.full(len(t), weight)},
        ),
    ]


def tilt(run: Run) -> Array:
    """How far the body's z axis is from the vertical, degrees."""
    x, y = run.q[:, 3], run.q[:, 4]
    return np.asarray(np.degrees(np.arccos(np.clip(1.0 - 2.0 * (x * x + y * y), -1.0, 1.0))))


CHARTS: dict[str, Callable[[Run], list[Chart]]] = {
    "birotor": _birotor,
    "arm": _arm,
    "wheeled-pendulum": _wheel,
    "pidog": _legged,
    "fourlimb": _legged,
}
