"""The options of a simulation as one frozen, hashable value: what `Simulation` takes, a run file holds and a hash covers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from condyle.errors import SimulationError, require_importable
from condyle.simulate.points import ContactPoint
from condyle.simulate.terrain import Ground
from condyle.simulate.validate import assign, finite, integer, not_negative, positive

SMOOTHING = {"backward_euler": 1e-3}  # of integrators whose Newton method needs more than the others
DEFAULT_SMOOTHING = 1e-5
EULER = ("semi_implicit_euler", "explicit_euler")  # integrators that solve for one velocity, at the state itself
INTEGRATORS = (*EULER, "rk2", "rk4", "backward_euler")


@dataclass(frozen=True)
class SimulationConfig:
    """The options of `Simulation`, names resolved to contact points and frames; numbers are checked when it is made."""

    dt: float = 0.002
    ground: Ground | None = None
    contacts: tuple[ContactPoint, ...] = ()
    integrator: str = "semi_implicit_euler"
    substeps: int = 1
    cone: str | int = "round"
    rest_depth_mm: float | None = None  # a hundredth of the robot's size, at most 1 mm
    smoothing: float | None = None  # SMOOTHING of the integrator
    recovery_time: float | None = 0.1
    depth_exponent: int = 3
    limits: bool = True
    limit_depth: float = 0.01
    joint_friction: bool = True
    damping: bool = True
    torque_limits: bool = True
    springs: tuple[tuple[str, float, float], ...] = ()  # (joint, stiffness, rest)
    actuated: tuple[str, ...] | None = None
    wrenches: tuple[tuple[str, str], ...] = ()  # (frame, axes)
    force: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        if self.integrator not in INTEGRATORS:
            raise SimulationError(f"the integrator must be one of {', '.join(INTEGRATORS)}; got {self.integrator!r:.40}")
        ground = self.ground
        if ground is not None and not all(hasattr(ground, name) for name in ("distance", "friction", "key")):
            raise SimulationError(
                f"the ground must be a Plane, Slope, Stairs, HeightField, Uneven or Terrain, or None; got {ground!r:.40}"
            )
        if self.cone != "round" and (isinstance(self.cone, (str, bool)) or self.cone not in range(3, 33)):
            raise SimulationError(
                f'the cone must be "round" or the number of directions of a pyramid, 3 to 32; got {self.cone!r:.40}'
            )
        if self.force is not None and not callable(self.force):
            raise SimulationError(
                f"force must be a function (model, q, v) or (model, q, v, t) -> joint forces, got {self.force!r:.40}"
            )
        if self.smoothing is None:
            assign(self, smoothing=SMOOTHING.get(self.integrator, DEFAULT_SMOOTHING))
        for name in ("dt", "rest_depth_mm", "smoothing", "recovery_time", "limit_depth"):
            if name not in ("rest_depth_mm", "recovery_time") or getattr(self, name) is not None:
                assign(self, **{name: positive("Simulation", name, getattr(self, name))})
        for name in ("substeps", "depth_exponent"):
            assign(self, **{name: integer("Simulation", name, getattr(self, name), 1)})
        for name in ("limits", "joint_friction", "damping", "torque_limits"):
            assign(self, **{name: bool(getattr(self, name))})
        assign(self, springs=tuple(_spring(*spring) for spring in self.springs))

    def __getstate__(self) -> dict[str, Any]:
        require_importable("the simulation", self.force)
        return self.__dict__

    @property
    def pyramid(self) -> int:
        """The directions of the friction pyramid; 0 for the round cone."""
        return 0 if isinstance(self.cone, str) else int(self.cone)


def _spring(joint: str, stiffness: Any, rest: Any) -> tuple[str, float, float]:
    return (
        joint,
        not_negative("Simulation", f"the spring of joint '{joint}'", stiffness),
        finite("Simulation", f"the rest of the spring of joint '{joint}'", rest),
    )
