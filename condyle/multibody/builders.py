"""Constraints without multipliers: what makes a robot with fewer coordinates out of a robot, and what it can tell afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from condyle.errors import RobotError

if TYPE_CHECKING:
    from condyle.constraints.coordinate_map import ConstraintMap, CoordinateMap
    from condyle.constraints.loop_residuals import Conditions
    from condyle.multibody.robot import Robot
    from condyle.robot.edit import Locked
    from condyle.robot.model import Model


class Constraining:
    """The methods of a robot that have to do with constraints. Each of the first ones gives a new robot."""

    model: Model
    reduced: Model
    coordinate_map: CoordinateMap | None
    locked: Locked | None
    described = False  # whether the constraints are just those of the description
    rolled: dict[str, Any] | None = None  # how its wheels roll, as plain data; not on a ground that is a function
    neutral: Callable[[], np.ndarray]
    _call: Callable[..., Any]

    def embed(
        self,
        gamma: Callable[..., Any],
        velocity: Callable[..., Any] | None = None,
        *,
        names: Sequence[str] | None = None,
        start: Any = None,
        velocities: Sequence[str] | None = None,
    ) -> Robot:
        """The robot that moves only as  q = gamma(y), v = (dgamma/dy) w, or v = velocity(y) w.

        `gamma`: a function of y, or of (model, y), written with NumPy, that gives all coordinates. `velocity`: a matrix of nv
        rows, where the constraint is one of velocities, such as rolling; then there may be fewer velocities w than coordinates y.
        `names`: of the coordinates; `velocities`: names of the velocities; `start`: the y that takes the place of zero.
        """
        from condyle.constraints.explicit_map import explicit

        return self._with(explicit(self._below(), gamma, velocity, names, start, velocities))

    def couple(self, joint: str | Mapping[str, Any], to: Any = None, ratio: float = 1.0, offset: float = 0.0) -> Robot:
        """The robot whose `joint` follows: q[joint] = offset + ratio * q[to]; `to` may be {other joint: ratio, ...} for several.

        Several joints at once: couple({"finger2": ("finger1", 1.0, 0.0), "finger3": ({"finger1": 0.5, "thumb": 0.5}, 0.1)}).
        """
        from condyle.constraints.couplings import Coupled, coupling_of
        from condyle.constraints.reduced_coordinates import remaining_joint

        row = (to, offset) if isinstance(to, Mapping) else (to, ratio, offset)
        rows = joint if isinstance(joint, Mapping) else {joint: row}
        couplings = tuple(coupling_of(name, row) for name, row in rows.items())
        if not couplings:
            raise RobotError(
                [f"robot '{self.model.name}': name the joints that follow, as {{'joint': ('other', ratio, offset)}}"]
            )
        below = self._below()
        for name in [name for c in couplings for name in (c.joint, *c.ratios)]:
            remaining_joint(self.model, below, name)
        return self._with(Coupled(below, couplings))

    def close_loop(
        self,
        frame_a: str,
        frame_b: str,
        axes: str | Sequence[str] = "xyz",
        *,
        q: Any = None,
        independent: Sequence[str] | None = None,
        dependent: Sequence[str] | None = None,
        name: str = "",
        through: bool = False,
    ) -> Robot:
        """The robot whose frame b stays on frame a, in the displacements `axes` ("xyz" is a ball joint), in the axes of a.

        `q`: a pose near a closed one, of the robot that this is called on; zero, or the last closed pose, by default.
        `independent`: the joints that remain, of those in loops; `dependent`: those that follow. By default they are chosen by
        pivoting at the closed pose. Called again on the result, it closes one more loop together with those before.
        `through`: whether to go straight on beyond singular poses, where the mechanism could go on in two ways, as a flat
        parallelogram can; they are reported otherwise.
        """
        loops = [(frame_a, frame_b, axes, name)]
        return self.close_loops(loops, q=q, independent=independent, dependent=dependent, through=through)

    def close_loops(
        self,
        loops: Sequence[tuple[Any, ...]],
        *,
        q: Any = None,
        independent: Sequence[str] | None = None,
        dependent: Sequence[str] | None = None,
        through: bool = False,
    ) -> Robot:
        """Several loops at once, each (frame_a, frame_b, axes) with a name or without; otherwise as `close_loop`."""
        from condyle.constraints.loop_residuals import closure_of

        new = tuple(closure_of(self.model, loop) for loop in loops)
        if not new:
            raise RobotError([f"robot '{self.model.name}': name the loops to close, as [(frame_a, frame_b, axes), ...]"])
        return self._closed(new, q, independent, dependent, through)

    def constrain(
        self,
        condition: Callable[..., Any],
        *,
        q: Any = None,
        independent: Sequence[str] | None = None,
        dependent: Sequence[str] | None = None,
        name: str = "condition",
    ) -> Robot:
        """The robot with condition(model, q) = 0: one number or several, written with NumPy and condyle.dynamics.

        q there are all coordinates. The other arguments are those of `close_loop`.
        """
        from condyle.constraints.loop_residuals import Condition

        return self._closed((Condition.of(self.model, name, condition),), q, independent, dependent)

    def roll(
        self,
        wheels: str | Sequence[str],
        radius: float,
        *,
        ground: Callable[[Any], Any] | None = None,
        independent: Sequence[str] | None = None,
    ) -> Robot:
        """The robot whose wheels roll on the ground z = 0 without slipping; `wheels` are their hinges.

        One wheel under a planar base rolls in the plane: the base's height and the wheel's angle follow. There, `ground` may be
        the height as a function of x; the coordinate root_x is then that of the point of contact. Wheels in space roll on flat
        ground and do not slide sideways: the base's height and roll follow, and of its velocities those that the wheels fix.
        `independent`: velocities that remain, in space; by default the wheels' own, and what they leave free.
        """
        from condyle.constraints.rolling import planar_roll, rolling
        from condyle.constraints.wheels import Wheel

        hinges = [wheels] if isinstance(wheels, str) else list(wheels) if isinstance(wheels, Iterable) else []
        if not hinges:
            raise RobotError([f"robot '{self.model.name}': name the hinges of the wheels that roll"])
        found = tuple(Wheel.of(self.model, name, radius) for name in hinges)
        remain = [independent] if isinstance(independent, str) else None if independent is None else list(independent)
        below = self._below()
        if self.model.base_link("free") is not None:
            raise RobotError(
                [f"robot '{self.model.name}': in space wheels roll under the base 'euler': load it with base='euler'"]
            )
        if self.model.base_link("y") is None:
            if len(found) > 1 or self.coordinate_map is not None:
                raise RobotError(
                    [
                        f"robot '{self.model.name}': in the plane one wheel rolls, under a robot without other constraints; "
                        "two wheels side by side are one there"
                    ]
                )
            robot = self._with(planar_roll(below, found[0], ground))
        elif ground is not None:
            raise RobotError([f"robot '{self.model.name}': in space wheels roll on flat ground only; leave ground= out"])
        else:
            robot = self._with(*rolling(self.model, self._lower(), found, remain))
        if ground is None and (self.coordinate_map is None or self.described):
            before = self.coordinate_map is not None
            robot.rolled = {"wheels": hinges, "radius": float(radius), "independent": remain, "described": before}
        return robot

    def point_on(
        self,
        frame: str,
        surface: Callable[..., Any],
        *,
        q: Any = None,
        independent: Sequence[str] | None = None,
        dependent: Sequence[str] | None = None,
    ) -> Robot:
        """The robot whose frame has its origin on a surface: surface(p) = 0 for its position p in the world, (3,)."""
        from condyle.dynamics.kinematics import frame_pose

        self.model.frame(frame)
        if not callable(surface):
            raise RobotError([f"the surface must be a function of a position (x, y, z) that is zero on it; got {surface!r:.40}"])

        def condition(model: Model, q: Any) -> Any:
            return surface(frame_pose(model, q, frame).p)

        return self.constrain(condition, q=q, independent=independent, dependent=dependent, name=f"{frame} on surface")

    def lift(self, y: Any, w: Any, **options: Any) -> Any:
        """(q, v): all coordinates and their velocities."""
        self._needs_constraint("lift")
        return self._call("lift", (y, w), options)

    def reduce_forces(self, y: Any, tau: Any, **options: Any) -> Any:
        """T^T tau: what the joint forces tau, one for each entry of the full v, do along the velocities that remain."""
        self._needs_constraint("reduce_forces")
        return self._call("reduce_forces", (y, self._full_forces(tau)), options)

    def constraint_forces(self, y: Any, w: Any, tau: Any = None, **options: Any) -> Any:
        """What the full equations of motion lack, (..., full nv): the forces of the constraint along all coordinates.

        `tau`: the joint forces, one for each entry of the full v (none: zero), because it matters in which joint a motor sits.
        """
        self._needs_constraint("constraint_forces")
        return self._call("constraint_forces", (y, w, self._full_forces(tau)), options)

    def reactions(self, y: Any, w: Any, tau: Any = None, **options: Any) -> Any:
        """{name: force} by which loops, couplings and wheels are held, N or N m; positive along their conditions' gradients."""
        self._needs_constraint("reactions")
        assert self.coordinate_map is not None
        names = [name for layer in self.coordinate_map.constraints for name in layer.reaction_names]
        found = self._call("reactions", (y, w, self._full_forces(tau)), options)
        # a mask comes behind the values
        values, *mask = found if isinstance(found, tuple) else (found,)
        forces = {name: values[..., k] for k, name in enumerate(names)}
        return (forces, *mask) if mask else forces

    def explain(self, y: Any) -> str | None:
        """Why the constraint cannot be met at y, or at the first bad row of y; None if it can."""
        if self.coordinate_map is None:
            return None
        from condyle.constraints.diagnostics import why_not
        from condyle.constraints.reduced_coordinates import floats

        return why_not(self.model, self.coordinate_map, np.atleast_1d(floats(self.model, "y", y)))

    def constrain_as_described(self) -> Robot:
        """The robot with the constraints of its description: mimic joints follow, and loops close from the written pose.

        `load` does this, unless it is told constraints=False; joints can be locked before.
        """
        from condyle.multibody.from_description import as_described

        return as_described(self)  # type: ignore[arg-type]

    # ---- inside

    def _closed(
        self,
        new: Conditions,
        q: Any,
        independent: Sequence[str] | None,
        dependent: Sequence[str] | None,
        through: bool = False,
    ) -> Robot:
        """With more conditions; those of a layer of loops on top are solved together with them."""
        from condyle.constraints.assembly import assembled
        from condyle.constraints.continuation import with_guess
        from condyle.constraints.coordinate_map import CoordinateMap
        from condyle.constraints.loops import Loops
        from condyle.constraints.reduced_coordinates import floats, remaining_joint

        self._below()
        lower, before = self._lower(), list[Any]()
        begin = self.neutral()
        top = lower.constraints[-1] if lower.constraints else None
        if isinstance(top, Loops):
            lower, before, begin = CoordinateMap(lower.constraints[:-1]), list(top.conditions), top.first.copy()
            through = through or top.through
        below = top.below if isinstance(top, Loops) else self.reduced
        if q is not None:
            given = floats(self.model, "q", q)
            if given.shape not in ((self.reduced.nq,), (below.nq,)) or not np.all(np.isfinite(given)):
                raise RobotError(
                    [
                        f"robot '{self.model.name}': q, a pose near a closed one, must be {self.reduced.nq} finite numbers; "
                        f"got {_short(given)}"
                    ]
                )
            # the coordinates that follow in loops closed before begin where they are
            if isinstance(top, Loops) and given.shape == (self.reduced.nq,):
                begin[top.kept[0]] = given
            else:
                begin = given
        named = [
            None if given is None else [given] if isinstance(given, str) else list(given) for given in (independent, dependent)
        ]
        for joint in [joint for names in named for joint in names or ()]:
            remaining_joint(self.model, below, joint)
        mechanism, loops = assembled(self.model, lower, (*before, *new), begin, *named)
        return self._made((*lower.constraints, with_guess(mechanism, replace(loops, through=through))))

    def _full_forces(self, tau: Any) -> Any:
        """Joint forces of all coordinates, checked."""
        if tau is None:
            return np.zeros(self.model.nv)
        if np.shape(tau)[-1:] != (self.model.nv,):
            raise RobotError(
                [
                    f"robot '{self.model.name}': tau must have {self.model.nv} entries, one for each joint of the full robot, "
                    f"got the shape {np.shape(tau)}; T^T of it is what reduce_forces gives"
                ]
            )
        return tau

    def _lower(self) -> CoordinateMap:
        """All constraints so far."""
        from condyle.constraints.coordinate_map import CoordinateMap

        return CoordinateMap() if self.coordinate_map is None else self.coordinate_map

    def _below(self) -> Model:
        if self.coordinate_map is None:
            return self.model
        if not self.coordinate_map.holonomic or getattr(self.coordinate_map.constraints[-1], "map", None) is not None:
            raise RobotError(
                [
                    f"robot '{self.model.name}' rolls already: its velocities are others than its coordinates have; "
                    "put other constraints before that"
                ]
            )
        return self.coordinate_map.reduced

    def _with(self, *constraints: ConstraintMap) -> Robot:
        return self._made((*self._lower().constraints, *constraints))

    def _made(self, constraints: tuple[ConstraintMap, ...]) -> Robot:
        from condyle.constraints.coordinate_map import CoordinateMap
        from condyle.multibody.robot import Robot

        return Robot(self.model, self.locked, CoordinateMap(constraints))

    def _needs_constraint(self, what: str) -> None:
        if self.coordinate_map is None:
            raise RobotError(
                [
                    f"robot '{self.model.name}' is not constrained, so {what} has nothing to do; "
                    "see embed, couple, close_loop and roll"
                ]
            )


def _short(given: np.ndarray) -> str:
    return f"the shape {given.shape}" if given.ndim != 1 or np.all(np.isfinite(given)) else f"{given}"
