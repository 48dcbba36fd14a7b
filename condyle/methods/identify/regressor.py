"""The matrix of a robot's unknown numbers: joint forces are linear in inertial parameters, rotor inertia, friction and offsets.

    tau = Y(q, v, a) pi,   pi = (ten inertial parameters of each link; armature, viscous and dry friction, offset of each joint)

    tau_i = (row i of the inertial regressor) + armature_i a_i + viscous_i v_i + dry_i s(v_i) + offset_i

s(v) = v / sqrt(v^2 + friction_speed^2) is the direction of dry friction, as in `condyle/dynamics/passive.py`. Inertial parameters
are those of `condyle/dynamics/regressor.py`: of each link m, m c and the inertia about the origin of its frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from condyle.dynamics.passive import FRICTION_SPEED
from condyle.dynamics.regressor import PARAMETERS, inertial_parameters, inverse_dynamics_regressor
from condyle.errors import ControlError
from condyle.multibody.robot import Robot
from condyle.robot.joints import Prismatic, Revolute
from condyle.robot.model import Model
from condyle.robot.names import nearest
from condyle.tape.function import Function

Array = np.ndarray

OF_JOINT = ("armature", "damping", "friction", "offset")  # columns beside the inertial ones, one of each for every joint
TERMS = ("inertia", *OF_JOINT)
DEFAULT_TERMS = ("inertia", "damping", "friction")
BODY_UNITS = ("kg", *3 * ("kg m",), *6 * ("kg m^2",))


def full_regressor(model: Model, q: Array, v: Array, a: Array, *, friction_speed: float = FRICTION_SPEED) -> Array:
    """Y, nv x (10 n_links + 4 nv): the inertial regressor, then the columns of armature, damping, dry friction and offset."""
    direction = v / np.sqrt(v * v + friction_speed * friction_speed)
    parts = [inverse_dynamics_regressor(model, q, v, a)]
    for diagonal in (a, v, direction, np.ones(model.nv)):
        block = np.zeros((model.nv, model.nv), dtype=object)
        block[np.arange(model.nv), np.arange(model.nv)] = diagonal
        parts.append(block)
    return np.concatenate(parts, axis=1)


@dataclass(frozen=True)
class Column:
    """One unknown number: what it is ("mcx", "damping", ...), of which link or joint, and its unit."""

    owner: str
    what: str
    unit: str

    @property
    def name(self) -> str:
        """Such as "lift.mcx" or "elbow.friction"."""
        return f"{self.owner}.{self.what}"


class Regressor:
    """The compiled regressor of an arm, with the chosen terms as columns.

    `terms`: of "inertia" (ten numbers of each link with mass), "armature", "damping", "friction" (dry), "offset" (a constant
    force); by default inertia, damping and friction. `friction_speed`: below it dry friction is smooth, rad/s or m/s.
    regressor(q, v, a) gives Y, (..., nv, columns); regressor.nominal is pi of the robot as it is loaded.
    """

    def __init__(self, robot: Robot, terms: Sequence[str] = DEFAULT_TERMS, *, friction_speed: float = FRICTION_SPEED) -> None:
        if not isinstance(robot, Robot):
            raise ControlError(f"identification needs a robot, as condyle.load gives it; got {robot!r:.40}")
        model = robot.model
        kinds = {type(link.kind) for link in model.links}
        if not robot.coordinate_map.identity or not kinds <= {Revolute, Prismatic}:
            raise ControlError(
                f"identification is for robots on a fixed base with one coordinate in each joint; robot '{robot.name}' has "
                f"{'joints that follow others' if not robot.coordinate_map.identity else 'a free base or ball joints'}: lock "
                "those joints (robot.lock), or load it with base='fixed'"
            )
        known = [terms] if isinstance(terms, str) else list(terms)
        for term in known:
            if term not in TERMS:
                raise ControlError(f"there is no term '{term!s:.40}' of the joint forces{nearest(str(term), TERMS)}")
        if not known:
            raise ControlError(f"identification needs at least one term of {', '.join(TERMS)}")
        if not friction_speed > 0.0:
            raise ControlError(f"the friction speed must be positive, got {friction_speed!r:.20}")
        self.robot, self.terms, self.friction_speed = robot, tuple(t for t in TERMS if t in known), float(friction_speed)
        every = _columns(model)
        massless = {link.name for link in model.links if not float(link.inertia.mass)}
        # a massless link still has a joint with friction
        chosen = [k for k, c in enumerate(every) if _term(c) in self.terms and not (c.what in PARAMETERS and c.owner in massless)]
        self.index = np.array(chosen, dtype=int)
        self.columns = [every[k] for k in chosen]
        self.names = [column.name for column in self.columns]
        self.nv = model.nv

    @cached_property
    def function(self) -> Function:
        """The compiled function of (q, v, a), with all columns."""
        speed = self.friction_speed

        def regressor(model: Model, q: Array, v: Array, a: Array) -> Array:
            return full_regressor(model, q, v, a, friction_speed=speed)

        return self.robot.function(regressor)

    @cached_property
    def nominal(self) -> Array:
        """pi of the robot as it is loaded; offsets are zero."""
        return np.asarray(self._all_nominal()[self.index])

    @cached_property
    def constant_part(self) -> Array:
        """pi of what is not among the columns, over all columns: it is taken as known."""
        full = self._all_nominal()
        full[self.index] = 0.0
        return full

    def _all_nominal(self) -> Array:
        links = self.robot.model.links
        parts = [np.asarray(inertial_parameters(self.robot.model), dtype=float)]
        parts += [np.array([float(getattr(link, what)) for link in links]) for what in OF_JOINT[:3]]
        return np.concatenate([*parts, np.zeros(self.nv)])

    def __call__(self, q: Any, v: Any, a: Any) -> Array:
        """Y of the chosen columns, (..., nv, columns)."""
        return np.asarray(self.function(q, v, a))[..., self.index]

    def with_known(self, q: Any, v: Any, a: Any, direction: Array | None = None) -> tuple[Array, Array]:
        """(Y, known joint forces): those of the numbers that are no columns, (..., nv).

        `direction`: of dry friction, (..., nv), in the place of v / sqrt(v^2 + friction_speed^2).
        """
        full = np.asarray(self.function(q, v, a))
        if direction is not None:
            joint = np.arange(self.nv)
            full[..., joint, full.shape[-1] - 2 * self.nv + joint] = direction
        return full[..., self.index], full @ self.constant_part

    def random_states(self, count: int, seed: int = 0) -> tuple[Array, Array, Array]:
        """(q, v, a) of states that excite every column: uniform angles within the limits, normal v and a."""
        rng = np.random.default_rng(seed)
        lower, upper = np.maximum(self.robot.lower, -np.pi), np.minimum(self.robot.upper, np.pi)
        q = rng.uniform(lower, np.maximum(upper, lower + 1e-3), (count, self.nv))
        return q, rng.normal(size=q.shape), rng.normal(size=q.shape) * 3.0


def _columns(model: Model) -> list[Column]:
    columns = [Column(link.name, what, unit) for link in model.links for what, unit in zip(PARAMETERS, BODY_UNITS, strict=True)]
    for what in OF_JOINT:
        for link in model.links:
            turns = not isinstance(link.kind, Prismatic)
            force, length = ("N m", "rad") if turns else ("N", "m")
            unit = {"armature": "kg m^2" if turns else "kg", "damping": f"{force} s/{length}"}.get(what, force)
            columns.append(Column(link.joint, what, unit))
    return columns


def _term(column: Column) -> str:
    return "inertia" if column.what in PARAMETERS else column.what
