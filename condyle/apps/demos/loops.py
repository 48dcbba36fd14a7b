"""The loops of `condyle sim`: a controller by its name, noisy sensors, and a push."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from condyle.apps.demos import birotor, wheeled_pendulum
from condyle.apps.pidog import plant
from condyle.apps.pidog.servos import SERVOS
from condyle.blocks.disturbances import WrenchPulse
from condyle.blocks.joints import combined
from condyle.closed_loop.loop import Loop
from condyle.errors import ControlError
from condyle.methods.control import controllers
from condyle.methods.control.controllers import Control
from condyle.methods.control.stance import stance
from condyle.robot.names import nearest
from condyle.simulate.simulation import Simulation
from condyle.workbench.runs.loops import built_in

# name -> (simulation, x0, gain) -> function of a loop
CONTROLS: dict[str, Callable[[Simulation, Any, Any], Control]] = {
    "none": lambda simulation, x0, gain: controllers.zero_torque(simulation),
    "stance": lambda simulation, x0, gain: stance(simulation, q=simulation.split(x0)[0]),
    "hold": controllers.hold,
    "gravity": lambda simulation, x0, gain: controllers.gravity_compensation(simulation, x0),
    "swing": lambda simulation, x0, gain: controllers.sine_motion(simulation, x0),
    "noise": lambda simulation, x0, gain: controllers.random_torque(simulation),
    **dict.fromkeys(("stand", "walk", "trot"), lambda simulation, x0, gain: plant.servos(simulation)),
    "hover": lambda simulation, x0, gain: birotor.hover(simulation, x0),
    "balance": lambda simulation, x0, gain: wheeled_pendulum.balance,
}
REFERENCES = {name: {"reference": len(SERVOS)} for name in ("stand", "walk", "trot")}


@built_in("sim")
def sim(
    simulation: Simulation,
    x0: Any,
    *,
    controller: str = "none",
    gain: Sequence[float] | None = None,
    noise: float = 0.0,
    push: Sequence[float] | None = None,
    frame: str = "",
    start: float = 0.0,
    duration: float = 0.1,
) -> Loop:
    """A controller by its name; `gain`: (P, D) of hold. `noise`: of the state it measures. `push`: N at a frame, world axes."""
    if controller not in CONTROLS:
        raise ControlError(f"there is no controller '{controller!s:.60}'{nearest(controller, list(CONTROLS))}")
    control = CONTROLS[controller](simulation, x0, gain)
    if noise:
        control = controllers.with_noise(control, simulation, noise)
    if push is None:
        return Loop(simulation, control, **REFERENCES.get(controller, {}))  # type: ignore[arg-type]
    pulse = WrenchPulse(frame, [*push, 0.0, 0.0, 0.0], start, duration, name="push")

    def pushed(x: Any, **references: Any) -> dict[str, Any]:
        return combined(control(x, **references), pulse())

    return Loop(simulation, pushed, **REFERENCES.get(controller, {}))  # type: ignore[arg-type]
