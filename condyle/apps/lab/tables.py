"""The tables of an experiment file, with their keys, defaults, units and ranges."""

# ruff: noqa: RUF009 (the fields of tables are made by functions that add their rules)

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from condyle.apps.lab.schema import NAME, Table, flag, integer, number, numbers, options, points, table, text, texts
from condyle.errors import ControlError
from condyle.methods.planning.obstacle_shapes import Box, Capsule, Plane, Sphere
from condyle.robot.names import quoted

JOINT_KINDS = ("hold", "step", "sine", "point_to_point", "table")
TOOL_KINDS = ("line", "circle", "spline")
PROFILES = ("quintic", "trapezoidal", "jerk_limited")
# keys of a reference that a kind uses, beside those of all
USED = {
    "hold": (),
    "step": ("target", "at"),
    "sine": ("amplitude", "frequency", "phase"),
    "point_to_point": ("waypoints", "profile", "speed", "acceleration", "jerk", "pause"),
    "table": ("path",),
    "line": ("points", "profile", "speed", "acceleration", "jerk", "pause"),
    "circle": ("centre", "normal", "angle", "profile", "speed", "acceleration", "jerk"),
    "spline": ("points", "profile", "speed", "acceleration", "jerk"),
}


@dataclass(frozen=True)
class Payload(Table):
    """A body at a frame: mass, position of its centre in the frame, inertia about the centre (xx, yy, zz).

    `known`: whether the controller's model has it.
    """

    header: ClassVar[str] = "robot.payload"
    mass: float = number(low=0.0, unit="kg")
    frame: str | None = text(None)  # the tool by default
    position: Any = numbers((0.0, 0.0, 0.0), size=3, unit="m")
    inertia: Any = numbers((0.0, 0.0, 0.0), size=3, low=0.0, unit="kg m^2")
    known: bool = flag(False)


@dataclass(frozen=True)
class RobotTable(Table):
    """The robot: a built-in or published name or a file, its base, where it starts, its tool, and its load."""

    header: ClassVar[str] = "robot"
    name: str = text("ur3")
    base: str | None = text(None, choices=("fixed", "free", "planar", "euler", "auto"))
    lock: tuple[str, ...] = texts()  # joints that are fixed at zero, or the beginnings of their names, as of a gripper
    q: Any = numbers(None, unit="rad or m")  # where it starts; by default where the reference starts
    tool: str | None = text(None)  # a frame; by default 'tool', or the last frame
    gravity: Any = numbers(None, size=3, unit="m/s^2")
    integrator: str = text("semi_implicit_euler", choices=("semi_implicit_euler", "rk2", "rk4"))
    joint_limits: bool = flag(True)
    payload: Payload | None = table(Payload)

    def data(self) -> dict[str, Any]:
        """The table as plain data, with the name in any case."""
        return {"name": self.name, **super().data()}


@dataclass(frozen=True)
class Rates(Table):
    """Updates per second. A tick is one step of the physics; control and planner are updated at every n-th tick."""

    header: ClassVar[str] = "rates"
    physics: int = integer(4000, low=1, high=1_000_000, unit="Hz")
    control: int = integer(1000, low=1, high=1_000_000, unit="Hz")
    planner: int = integer(50, low=1, high=1_000_000, unit="Hz")

    def check(self) -> None:
        """Rates divide each other."""
        for fast, slow in (("physics", "control"), ("control", "planner")):
            above, below = getattr(self, fast), getattr(self, slow)
            if above % below:
                raise ControlError(
                    f"[rates] {slow} must divide {fast}, so that it is updated at whole ticks; {above} / {below} is not whole"
                )

    @property
    def control_ticks(self) -> int:
        """Ticks between two updates of the controller."""
        return self.physics // self.control

    @property
    def planner_ticks(self) -> int:
        """Ticks between two updates of the planner."""
        return self.physics // self.planner


@dataclass(frozen=True)
class ControllerTable(Table):
    """A controller by its name in `condyle.apps.lab.controllers`; all other keys are its options and gains."""

    header: ClassVar[str] = "controller"
    rest: ClassVar[str] = "options"
    name: str = text("pid")
    rate: str = text("control", choices=("control", "planner"))
    options: Any = options()

    def data(self) -> dict[str, Any]:
        """Name, rate and options in one table."""
        found = super().data()
        return {"name": self.name, **{k: v for k, v in found.items() if k == "rate"}, **self.options}


@dataclass(frozen=True)
class Reference(Table):
    """What the arm should do. Joint kinds: hold, step, sine, point_to_point, table; tool kinds: line, circle, spline.

    `speed`, `acceleration` and `jerk` are limits of joints (rad), or of the tool along its path (m).
    """

    header: ClassVar[str] = "reference"
    kind: str = text("hold", choices=(*JOINT_KINDS, *TOOL_KINDS))
    sampled: str = text("control", choices=("control", "planner"))
    wrench: Any = numbers(None, size=6, unit="N, N m")  # that the tool should exert, for force control
    start: float = number(0.0, low=0.0, unit="s")  # when it begins
    at: float = number(0.0, low=0.0, unit="s")  # of a step
    target: Any = numbers(None, unit="rad or m")
    amplitude: Any = numbers(0.2, unit="rad or m")
    frequency: Any = numbers(0.5, low=0.0, unit="Hz")
    phase: Any = numbers(0.0, unit="rad")
    waypoints: Any = points(unit="rad or m")
    points: Any = points(unit="m")
    centre: Any = numbers(None, size=3, unit="m")
    normal: Any = numbers((0.0, 0.0, 1.0), size=3)
    angle: float = number(6.283185307179586, unit="rad")
    profile: str = text("quintic", choices=PROFILES)
    speed: Any = numbers(None, above=0.0, unit="rad/s or m/s")
    acceleration: Any = numbers(None, above=0.0, unit="rad/s^2 or m/s^2")
    jerk: Any = numbers(None, above=0.0, unit="rad/s^3 or m/s^3")
    pause: float = number(0.0, low=0.0, unit="s")  # at every waypoint
    path: str | None = text(None)  # of a table, .csv or .npz

    def check(self) -> None:
        """What a kind needs is there, and nothing that it does not use."""
        needed = {"step": "target", "point_to_point": "waypoints", "table": "path", "line": "points", "circle": "centre"}
        needed["spline"] = "points"
        key = needed.get(self.kind)
        if key is not None and getattr(self, key) is None:
            raise ControlError(f"[reference] {key} is missing: a reference of kind '{self.kind}' needs it")
        common = ("kind", "sampled", "wrench", "start")
        for key in self.data():
            if key not in (*common, *USED[self.kind]):
                usual = ", ".join(USED[self.kind]) or "no further keys"
                raise ControlError(f"[reference] {key} has no use for the kind '{self.kind}', which takes {usual}: leave it out")
        if self.profile == "jerk_limited" and self.jerk is None:
            raise ControlError("[reference] jerk is missing: the profile 'jerk_limited' needs it (rad/s^3 or m/s^3)")


@dataclass(frozen=True)
class Friction(Table):
    """Coulomb, viscous and Stribeck friction of the joints (`condyle.blocks.JointFriction`), which sticks at rest.

    With `smooth_speed` it is the torque -viscous v - coulomb tanh(v / smooth_speed) instead, which needs no solver.
    """

    header: ClassVar[str] = "friction"
    coulomb: Any = numbers(0.0, low=0.0, unit="N m")
    viscous: Any = numbers(0.0, low=0.0, unit="N m s/rad")
    static: Any = numbers(None, low=0.0, unit="N m")
    stribeck_speed: Any = numbers(0.1, above=0.0, unit="rad/s")
    smooth_speed: Any = numbers(None, above=0.0, unit="rad/s")

    def check(self) -> None:
        """Smooth friction has no static friction."""
        if self.smooth_speed is not None and self.static is not None:
            raise ControlError("[friction] static has no use with smooth_speed, which makes friction smooth: leave one out")


@dataclass(frozen=True)
class Flexibility(Table):
    """Motors that drive their joints through springs (`condyle.blocks.SeriesElastic`)."""

    header: ClassVar[str] = "flexibility"
    stiffness: Any = numbers(low=0.0, unit="N m/rad")
    motor_inertia: Any = numbers(above=0.0, unit="kg m^2")
    damping: Any = numbers(0.0, low=0.0, unit="N m s/rad")
    motor_damping: Any = numbers(0.0, low=0.0, unit="N m s/rad")


@dataclass(frozen=True)
class Sensors(Table):
    """Encoders of all joints (`condyle.blocks.Encoders`), read at the rate of the controller."""

    header: ClassVar[str] = "sensors"
    position_noise: Any = numbers(None, low=0.0, unit="rad")
    velocity_noise: Any = numbers(None, low=0.0, unit="rad/s")
    position_bias: Any = numbers(None, unit="rad")
    velocity_bias: Any = numbers(None, unit="rad/s")
    counts: float | None = number(None, low=1.0, unit="per turn")
    differences: bool = flag(False)  # velocity from differences of positions
    delay: float | None = number(None, low=0.0, unit="s")
    max_delay: float | None = number(None, above=0.0, unit="s")
    dropout: float | None = number(None, low=0.0, high=1.0)


@dataclass(frozen=True)
class ForceSensor(Table):
    """A sensor of the wrench at the tool (`condyle.blocks.Measurement`); without this table it has no errors."""

    header: ClassVar[str] = "force_sensor"
    noise: Any = numbers(None, low=0.0, unit="N, N m")
    bias: Any = numbers(None, unit="N, N m")
    resolution: Any = numbers(None, low=0.0, unit="N, N m")
    delay: float | None = number(None, low=0.0, unit="s")
    max_delay: float | None = number(None, above=0.0, unit="s")
    dropout: float | None = number(None, low=0.0, high=1.0)


@dataclass(frozen=True)
class Actuators(Table):
    """Between the controller's torque and the joint's: a limit, a delay and a first-order lag, in this order."""

    header: ClassVar[str] = "actuators"
    effort: Any = numbers(None, low=0.0, unit="N m")  # the limits of the robot act in any case
    delay: float | None = number(None, low=0.0, unit="s")
    max_delay: float | None = number(None, above=0.0, unit="s")
    lag: float | None = number(None, low=0.0, unit="s")


@dataclass(frozen=True)
class Wrench(Table):
    """A wrench at a frame by schedule: pulse, sine or random pushes (`condyle.blocks.disturbances`)."""

    header: ClassVar[str] = "wrenches"
    name: str = text()
    kind: str = text("pulse", choices=("pulse", "sine", "random"))
    frame: str | None = text(None)  # the tool by default
    wrench: Any = numbers(None, size=6, unit="N, N m")
    deviation: Any = numbers(None, size=6, low=0.0, unit="N, N m")
    local: bool = flag(False)  # in the axes of the frame
    start: float = number(0.0, low=0.0, unit="s")
    duration: float = number(0.1, low=0.0, unit="s")
    period: float | None = number(None, above=0.0, unit="s")
    frequency: float = number(1.0, low=0.0, unit="Hz")
    phase: float = number(0.0, unit="rad")
    rate: float = number(0.5, low=0.0, unit="1/s")

    def check(self) -> None:
        """Every kind has what it needs, and a name that a block can have."""
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.name):
            raise ControlError(f"[wrenches] name must be {NAME}, like 'push', got {quoted(self.name)}")
        needed = "deviation" if self.kind == "random" else "wrench"
        if getattr(self, needed) is None:
            raise ControlError(f"[wrenches] {needed} is missing: '{self.name}', of kind '{self.kind}', needs six numbers")
        used = {"pulse": ("start", "duration", "period"), "sine": ("frequency", "phase"), "random": ("rate", "duration")}
        for key in self.data():
            if key not in ("name", "kind", "frame", "local", needed, *used[self.kind]):
                raise ControlError(f"[wrenches] {key} of '{self.name}' has no use for the kind '{self.kind}': leave it out")


@dataclass(frozen=True)
class Wall(Table):
    """An elastic wall that the tool can touch: force = stiffness depth + damping speed along the normal, never pulling."""

    header: ClassVar[str] = "wall"
    point: Any = numbers(size=3, unit="m")
    normal: Any = numbers((0.0, 0.0, 1.0), size=3)
    stiffness: float = number(1e4, low=0.0, unit="N/m")
    damping: float = number(50.0, low=0.0, unit="N s/m")


@dataclass(frozen=True)
class ObstacleTable(Table):
    """A solid that the safety filter keeps the arm away from: sphere, capsule, box or plane (`cd.obstacles`)."""

    header: ClassVar[str] = "obstacles"
    kind: str = text(choices=("sphere", "capsule", "box", "plane"))
    position: Any = numbers((0.0, 0.0, 0.0), size=3, unit="m")
    axis: Any = numbers((0.0, 0.0, 1.0), size=3)  # of a capsule, or the normal of a plane
    radius: Any = number(None, above=0.0, unit="m")
    length: Any = number(None, low=0.0, unit="m")
    size: Any = numbers(None, size=3, above=0.0, unit="m")

    def check(self) -> None:
        """Every kind has its sizes."""
        needed = {"sphere": ("radius",), "capsule": ("radius", "length"), "box": ("size",), "plane": ()}[self.kind]
        for key in ("radius", "length", "size"):
            if (getattr(self, key) is None) == (key in needed):
                what = "is missing" if key in needed else "has no use"
                raise ControlError(f"[obstacles] {key} {what} for the kind '{self.kind}'")

    def solid(self) -> Any:
        """The obstacle."""
        if self.kind == "sphere":
            return Sphere(position=self.position, radius=self.radius)
        if self.kind == "box":
            return Box(position=self.position, size=self.size)
        plane = Plane.through(self.position, self.axis)
        if self.kind == "plane":
            return plane
        return Capsule(position=self.position, rotation=plane.rotation, radius=self.radius, length=self.length)


@dataclass(frozen=True)
class Safety(Table):
    """A safety filter around the controller (`condyle.methods.control.safety_filter`): no link comes closer than `margin`."""

    header: ClassVar[str] = "safety"
    margin: float = number(0.02, low=0.0, unit="m")
    alpha: float | None = number(None, above=0.0, unit="1/s")
    decay: float | None = number(None, above=0.0, unit="1/s")
    samples: int = integer(2, low=1, high=10)
    self_collision: bool = flag(False)  # whether pairs of links are watched, too
