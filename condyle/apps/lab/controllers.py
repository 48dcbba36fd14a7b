"""Controllers of experiments by name: where the class is, which reference it takes, and the options of its constructor.

    [controller]
    name = "computed_torque"
    kp = 400.0

The keys of the table are keywords of the constructor, read from its signature. "external" has no class: commands come from
outside as the reference `u_external` of the loop.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from condyle.errors import ControlError
from condyle.robot.names import nearest, quoted
from condyle.simulate.simulation import Simulation

EXTERNAL = "external"
GIVEN = ("self", "simulation", "frame", "model", "name", "every", "options", "motion")  # by the lab, not by the file


@dataclass(frozen=True)
class Entry:
    """Module and class of a controller; `space`: "joint" or "tool"; `wrench`: called with the measured wrench at the tool."""

    module: str
    name: str
    space: str = "joint"
    wrench: bool = False
    summary: str = ""

    def cls(self) -> Any:
        """The class."""
        return getattr(import_module(self.module), self.name)


_JOINT, _ADAPTIVE, _LQR = (
    "condyle.methods.control.joint_control",
    "condyle.methods.control.adaptive",
    "condyle.methods.control.lqr_control",
)
_TASK, _FORCE = "condyle.methods.control.task_control", "condyle.methods.control.force_control"
CONTROLLERS: dict[str, Entry] = {
    "pid": Entry(_JOINT, "JointPID", summary="PID with filtered derivative, anti-windup, gravity and Coriolis feed-forward"),
    "computed_torque": Entry(_JOINT, "ComputedTorque", summary="inverse dynamics with linear error dynamics"),
    "joint_impedance": Entry(_JOINT, "JointImpedance", summary="stiffness and damping of the joints"),
    "passivity": Entry(_ADAPTIVE, "PassivityControl", summary="passivity-based control by Slotine and Li"),
    "adaptive": Entry(_ADAPTIVE, "AdaptiveControl", summary="the same, with adaptation of the inertial parameters"),
    "lqr": Entry(_LQR, "LQRControl", summary="linear-quadratic regulator about the final pose"),
    "time_varying_lqr": Entry(_LQR, "TimeVaryingLQR", summary="linear-quadratic regulator along the reference"),
    "operational_space": Entry(_TASK, "OperationalSpace", "tool", summary="operational space control with null space"),
    "cartesian_impedance": Entry(_TASK, "CartesianImpedance", "tool", True, "stiffness and damping of the tool"),
    "admittance": Entry(_FORCE, "Admittance", "tool", True, "a virtual mass, damper and spring moved by the measured force"),
    "hybrid_force_position": Entry(_FORCE, "HybridForcePosition", "tool", True, "force along some axes, position along others"),
    "hand_guiding": Entry(_FORCE, "HandGuiding", "tool", True, "the tool follows the hand that pushes it"),
    "mpc": Entry("condyle.methods.mpc.arm_mpc", "ArmMPC", summary="model-predictive control under torque limits"),
    "tool_mpc": Entry("condyle.methods.mpc.arm_mpc", "ArmMPC", "tool", summary="the same, of the tool's position"),
}


def names() -> list[str]:
    """All names that an experiment may write."""
    return [*CONTROLLERS, EXTERNAL]


def canonical(name: str) -> str:
    """The name in the registry; names of classes are understood, too."""
    by_class = {entry.name: key for key, entry in reversed(CONTROLLERS.items())}
    found = by_class.get(name, name)
    if found != EXTERNAL and found not in CONTROLLERS:
        raise ControlError(f"[controller] name {quoted(name)} is not known{nearest(name, names())}")
    return found


def options_of(cls: Any) -> list[str]:
    """The keywords that the constructor of a class, and those of its parents if it takes any, accept from a file."""
    found: list[str] = []
    for each in cls.__mro__:
        if "__init__" not in vars(each) or each is object:
            continue
        parameters = inspect.signature(each.__init__).parameters
        found += [name for name, p in parameters.items() if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
        if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            break
    return [name for name in dict.fromkeys(found) if name not in GIVEN]


def build(
    name: str, simulation: Simulation, tool: str, options: Mapping[str, Any], every: int, motion: Any = None
) -> tuple[Any, Entry]:
    """(the controller's block, its entry) for a simulation; `motion`: for classes that need it when they are made."""
    entry = CONTROLLERS[canonical(name)]
    cls = entry.cls()
    known = options_of(cls)
    for key in options:
        if key not in known:
            raise ControlError(f"[controller] {entry.name} has no option {quoted(str(key))}{nearest(str(key), known)}")
    arguments: dict[str, Any] = {"name": "controller", "every": every}
    parameters = inspect.signature(cls.__init__).parameters
    if entry.space == "tool":
        arguments["frame"] = tool
    if "motion" in parameters:
        arguments["motion"] = motion
    if "q" in parameters and "q" not in options:
        # a regulator about a pose: that in which the reference ends
        arguments["q"] = motion.at(np.array([motion.duration])).position[0]
    given = {key: np.array(value, dtype=float) if _is_array(value) else value for key, value in options.items()}
    try:
        return cls(simulation, **arguments, **given), entry
    except ControlError as error:
        raise ControlError(f"[controller] {error}") from None
    except (TypeError, ValueError) as error:
        raise ControlError(
            f"[controller] {entry.name} cannot be made with {', '.join(options) or 'no options'}: {error!s:.200}"
        ) from None


def _is_array(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, int | float) for each in value)
