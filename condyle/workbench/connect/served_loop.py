"""The loop that `condyle serve` runs: an external program commands joint forces or positions, and a wrench at a named frame."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from condyle.closed_loop.loop import Loop
from condyle.errors import ConnectError
from condyle.methods.control.controllers import PDController, motors
from condyle.robot.names import nearest
from condyle.simulate.simulation import Simulation
from condyle.workbench.runs.loops import built_in

COMMANDS = ("effort", "position")


@built_in("served")
def served(simulation: Simulation, x0: Any, *, command: str = "effort", frame: str = "") -> Loop:
    """A loop with the reference "effort" (nu,), u = effort, or "position" (nu,), u = P (position - q) - D v + g.

    P and D hold every joint against gravity, critically damped; the joint forces of gravity are added for a fixed base. `frame`:
    where the reference "wrench" (6,) acts, force then torque in world axes. The output "gravity" (nu,) are the joint forces that
    hold the robot against gravity, and "inertia" (nu,) what each joint moves, the diagonal of the mass matrix.
    """
    robot = simulation.robot
    if command not in COMMANDS:
        raise ConnectError(f"a program commands effort or position, not {command!r:.40}{nearest(str(command), list(COMMANDS))}")
    if not simulation.nu:
        raise ConnectError(f"robot '{robot.name}' has no motors that an external program could command")
    if frame and frame not in robot.frame_names:
        raise ConnectError(f"robot '{robot.name}' has no frame '{frame:.60}' for a wrench{nearest(frame, robot.frame_names)}")
    pd, actuated = None, list(simulation.actuated)
    if command == "position":
        at = motors(simulation)
        if len(at.names) != simulation.nu:
            raise ConnectError(f"robot '{robot.name}' has motors in joints with several coordinates: command efforts")
        gravity = not robot.model.base_coordinates
        pd = PDController(simulation, at, *at.gains(), lambda t: (0.0, 0.0), gravity=gravity)

    def control(x: Any, **given: Any) -> dict[str, Any]:
        target = given[command]
        found: dict[str, Any] = {"u": target}
        if pd is not None:
            # in the order of u; the controller's is that of its motors
            wanted = target[pd.motors.at_u]
            follower = copy(pd)
            follower.reference = lambda t: (wanted, np.zeros(simulation.nu))
            found = follower(x)
        # outputs are computed only where a program asks for them
        found["gravity"] = robot.gravity_forces(x.q)[actuated]
        found["inertia"] = np.diagonal(robot.mass_matrix(x.q))[actuated]
        return {**found, "wrenches": {frame: given["wrench"]}} if frame else found

    sizes: dict[str, Any] = {command: simulation.nu, **({"wrench": 6} if frame else {})}
    return Loop(simulation, control, **sizes)
