"""The functions of a robot by name: which arrays go in, and the physics that makes the results out of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from condyle.dynamics import coriolis, energy, kinematics, manifold
from condyle.dynamics.aba import forward_dynamics
from condyle.dynamics.crba import mass_matrix
from condyle.dynamics.derivatives import forward_dynamics_derivatives, inverse_dynamics_derivatives
from condyle.dynamics.rnea import inverse_dynamics
from condyle.errors import RobotError
from condyle.robot.model import Model
from condyle.robot.names import nearest
from condyle.robot.spatial import Force

# of a Model or a constrained robot
SIZES: dict[str, Callable[[Any], int]] = {
    "q": lambda model: model.nq,
    "q0": lambda model: model.nq,
    "q1": lambda model: model.nq,
    "v": lambda model: model.nv,
    "a": lambda model: model.nv,
    "tau": lambda model: model.nv,
    "dv": lambda model: model.nv,
    "tau_full": lambda constrained: constrained.model.nv,
}


@dataclass(frozen=True)
class Kernel:
    """Inputs by name (their sizes are in SIZES), the physics, and the names of the outputs."""

    inputs: tuple[str, ...]
    physics: Callable[..., Any]
    outputs: tuple[str, ...]


# fmt: off
KERNELS: dict[str, Kernel] = {
    "forward_dynamics":   Kernel(("q", "v", "tau"), forward_dynamics, ("a",)),
    "inverse_dynamics":   Kernel(("q", "v", "a"), inverse_dynamics, ("tau",)),
    "mass_matrix":        Kernel(("q",), mass_matrix, ("M",)),
    "inverse_mass_matrix": Kernel(("q",), coriolis.inverse_mass_matrix, ("Minv",)),
    "gravity_forces":     Kernel(("q",), coriolis.gravity_forces, ("g",)),
    "bias_forces":        Kernel(("q", "v"), coriolis.bias_forces, ("c",)),
    "coriolis_matrix":    Kernel(("q", "v"), coriolis.coriolis_matrix, ("C",)),
    "inverse_dynamics_derivatives": Kernel(("q", "v", "a"), inverse_dynamics_derivatives, ("dtau_dq", "dtau_dv", "dtau_da")),
    "forward_dynamics_derivatives": Kernel(("q", "v", "tau"), forward_dynamics_derivatives, ("da_dq", "da_dv", "da_dtau")),
    "center_of_mass":     Kernel(("q",), energy.center_of_mass, ("com",)),
    "center_of_mass_jacobian": Kernel(("q",), energy.com_jacobian, ("Jcom",)),
    "kinetic_energy":     Kernel(("q", "v"), energy.kinetic_energy, ("T",)),
    "potential_energy":   Kernel(("q",), energy.potential_energy, ("V",)),
    "momentum":           Kernel(("q", "v"), energy.momentum, ("h",)),
    "integrate":          Kernel(("q", "dv"), manifold.integrate, ("q1",)),
    "difference":         Kernel(("q0", "q1"), manifold.difference, ("dv",)),
}
# fmt: on


def kernel(name: str, table: dict[str, Kernel] = KERNELS) -> Kernel:
    """The kernel of this name."""
    if name not in table:
        raise RobotError([f"there is no kernel '{name}'{nearest(name, list(table))}"])
    return table[name]


def jacobian(model: Model, q: Any, frame: str, reference: str) -> dict[str, Any]:
    """J with frame velocity = J v."""
    return {"J": kinematics.jacobian(model, q, frame, reference)}


def jacobian_rate(model: Model, q: Any, v: Any, frame: str, reference: str) -> dict[str, Any]:
    """Its time derivative."""
    return {"dJ": kinematics.jacobian_rate(model, q, v, frame, reference)}


def frame_pose(model: Model, q: Any, frame: str) -> dict[str, Any]:
    """R and p of a frame in the world."""
    X = kinematics.frame_pose(model, q, frame)
    return {"R": X.R, "p": X.p}


def applied(model: Model, q: Any, where: Sequence[tuple[str, str]], wrenches: Sequence[Any]) -> dict[int, Force]:
    """Link -> total force on it in its own frame, from wrenches (force, then couple) at frames.

    Each is given at the origin of its frame, in the frame's own axes ("local") or in those of the world ("world_aligned").
    """
    X = kinematics.poses(model, q)
    total: dict[int, Force] = {}
    for (name, reference), six in zip(where, wrenches, strict=True):
        frame = model.frame(name)
        if frame.link < 0:
            continue
        force = Force.of(six)
        if reference == "world_aligned":
            R = X[frame.link].R @ frame.pose.R
            force = Force(R.T @ force.linear, R.T @ force.angular)
        force = frame.pose @ force
        total[frame.link] = total[frame.link] + force if frame.link in total else force
    return total
