"""What a simulation says about itself, and that nobody outside needs its internals."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np

import condyle as cd

ROOT = Path(__file__).parents[2]
INSIDE = ("condyle/simulate/", "tests/simulate/", "benchmarks/step_parts.py", "tests/robot/test_angles.py")


def test_no_file_outside_reads_the_internals_of_a_simulation() -> None:
    files = [p for folder in ("condyle", "tests", "benchmarks", "examples", "tools") for p in (ROOT / folder).rglob("*.py")]
    found = []
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        if not name.startswith(INSIDE):
            nodes = ast.walk(ast.parse(path.read_text()))
            found += [f"{name}:{n.lineno}" for n in nodes if isinstance(n, ast.Attribute) and n.attr in ("_world", "_setup")]
    assert not found


def test_controls_have_names_and_limits() -> None:
    robot = cd.load("pidog")
    simulation = cd.Simulation(robot, ground=cd.Plane(0.6), contacts="*_foot", wrenches=["torso"])
    assert simulation.control_names == [name for name in robot.joint_names if name != robot.joint_names[0]]
    assert simulation.actuated == tuple(range(6, robot.nv))
    assert np.array_equal(simulation.effort_limits, [simulation.joint_forces[k].effort for k in simulation.actuated])
    assert np.all(np.isinf(cd.Simulation(robot, torque_limits=False).effort_limits))
    assert [point.name for point in simulation.contact_points] == simulation.contact_names
    assert (simulation.wrench_frames, simulation.wrench_axes) == (("torso",), ("world_aligned",))
    assert simulation.ground == cd.Plane(0.6) and simulation.holonomic and not simulation.timed
    assert simulation.weight == robot.mass * 9.81 and simulation.rest_depth == 1e-3
    assert cd.Simulation(cd.load("pidog"), actuated=[robot.joint_names[0]]).control_names == [
        f"{robot.joint_names[0]}.{k}" for k in range(6)
    ]
