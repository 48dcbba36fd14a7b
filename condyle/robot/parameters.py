"""Numbers that may vary: their names, units, defaults and bounds, the checks of given values, and a model with some replaced.

A model has LINK.mass, .com and .inertia (about the centre of mass; of the whole moving link, fixed children included),
JOINT.armature, .friction, .damping, .effort, .lower, .upper, .position and .rpy (of the joint's frame in the parent),
FRAME.position and .rpy (of a frame in its link), and gravity. A joint may be named by its link, and a link by its joint.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from condyle.errors import RobotError
from condyle.robot.angles import rotation_rpy
from condyle.robot.joints import Prismatic, Revolute
from condyle.robot.model import Link, Model
from condyle.robot.names import nearest
from condyle.robot.spatial import Inertia, Pose
from condyle.tape.device import on_device

OF_BODY, OF_JOINT = ("mass", "com", "inertia"), ("armature", "friction", "damping", "effort", "lower", "upper")
OF_PLACEMENT = ("position", "rpy")
ORDERED = (("lower", "upper"), ("rounding", "run"))  # numbers of one owner: the first must not be above the second
ROUNDING = 1e-9  # of the largest moment: by so much principal moments may miss the triangle inequality


# ---- descriptions


@dataclass(frozen=True)
class ParameterSpec:
    """One number or array that may vary: `minimum` and `maximum` bound every entry; `open_bounds`: they are excluded."""

    name: str
    unit: str
    default: Any  # a float, or an array
    minimum: float = -inf
    maximum: float = inf
    open_bounds: bool = False
    infinite: bool = False  # whether an entry may be infinite: no limit

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """() for a single number."""
        return np.shape(self.default)

    @property
    def port(self) -> str:
        """The name of the input of a compiled function: letters, digits and _."""
        return re.sub(r"\W", "_", self.name)

    def checked(self, value: Any, error: type[Exception] = RobotError) -> Any:
        """The value as an array of floats, its batch axes first; an error that says which robot's value is impossible."""
        if isinstance(value, float) and not self.shape and self.minimum < value < self.maximum:
            return np.asarray(value)  # the usual case, quickly
        if on_device((value,)):
            return self._on_device(value, error)
        try:
            given = np.asarray(value, dtype=float)
        except (TypeError, ValueError):
            raise error(f"parameter '{self.name}' must be {self._wanted()}, got {value!r:.60}") from None
        axes = given.ndim - len(self.shape)
        if axes < 0 or given.shape[axes:] != self.shape:
            raise error(f"parameter '{self.name}' must be {self._wanted()}, or one for each robot; got shape {given.shape}")
        below = given <= self.minimum if self.open_bounds else given < self.minimum
        above = given >= self.maximum if self.open_bounds else given > self.maximum
        wrong = np.isnan(given) | (below | above if self.infinite else below | above | np.isinf(given))
        if np.any(wrong):
            at = tuple(np.argwhere(wrong)[0])
            raise error(f"parameter '{self.name}' must be {self._bounds()}, got {given[at]:g}{place(at, axes)}")
        if self.name.endswith(".inertia"):
            self._check_moments(given, axes, error)
        return given

    def _on_device(self, given: Any, error: type[Exception]) -> Any:
        """An array on a GPU, of which only the shape is checked: nothing waits for its numbers."""
        shape = tuple(given.shape)
        if len(shape) < len(self.shape) or shape[len(shape) - len(self.shape) :] != self.shape:
            raise error(f"parameter '{self.name}' must be {self._wanted()}, or one for each robot; got shape {shape}")
        return given

    def _check_moments(self, given: np.ndarray, axes: int, error: type[Exception]) -> None:
        """The principal moments a <= b <= c of any mass: a > 0 and a + b >= c; a point mass may stay one, all zero."""
        moments = np.linalg.eigvalsh((given + np.swapaxes(given, -1, -2)) / 2.0)
        size, point = ROUNDING * abs(moments[..., 2]), ~np.any(given, axis=(-1, -2)) & (not np.any(self.default))
        tests = (
            (np.max(abs(given - np.swapaxes(given, -1, -2)), axis=(-1, -2)) <= size, "be symmetric"),
            ((moments[..., 0] > 0.0) | point, "be positive definite"),
            (moments[..., 0] + moments[..., 1] >= moments[..., 2] - size, "obey a + b >= c for its principal moments a, b, c"),
        )
        for good, what in tests:
            if not np.all(good):
                at = tuple(np.argwhere(~good)[0])
                shown = ", ".join(f"{moment:g}" for moment in moments[at])
                raise error(f"parameter '{self.name}' must {what}, its principal moments are {shown}{place(at, axes)}")

    def _wanted(self) -> str:
        unit = f" ({self.unit})" if self.unit else ""
        return f"a number{unit}" if not self.shape else f"an array of shape {self.shape}{unit}"

    def _bounds(self) -> str:
        below, above = ("greater than", "less than") if self.open_bounds else ("at least", "at most")
        parts = [] if self.infinite else ["finite"]
        parts += [f"{below} {self.minimum:g} {self.unit}".rstrip()] if self.minimum > -inf else []
        parts += [f"{above} {self.maximum:g} {self.unit}".rstrip()] if self.maximum < inf else []
        return " and ".join(parts) or "a number"


def place(at: tuple[Any, ...], axes: int) -> str:
    """' for robot [3]': the end of a sentence about the entry `at` of an array with so many batch axes."""
    return f" for robot [{', '.join(str(int(i)) for i in at[:axes])}]" if axes else ""


class Parameters(Mapping[str, ParameterSpec]):
    """The parameters that there are, by name; it prints as a table. An alias gives the parameter that it stands for."""

    def __init__(
        self,
        specs: Iterable[ParameterSpec],
        aliases: Mapping[str, str] | None = None,
        of: str = "",
        hints: Mapping[str, str] | None = None,
    ) -> None:
        self._specs = {spec.name: spec for spec in specs}
        self.aliases, self._of = dict(aliases or {}), of
        self.hints = dict(hints or {})  # names that are not there: what is meant instead, as half a sentence

    def __getitem__(self, name: str) -> ParameterSpec:
        found = self._specs.get(self.aliases.get(name, name)) if isinstance(name, str) else None
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._specs)

    def __len__(self) -> int:
        return len(self._specs)

    def require(self, name: str, error: type[Exception] = RobotError) -> ParameterSpec:
        """The parameter of this name, or an error with the nearest one."""
        if name in self:
            return self[name]
        if isinstance(name, str) and name in self.hints:
            raise error(f"{self._of}: there is no parameter '{name}'; {self.hints[name]}")
        what = name.rpartition(".")[2] if isinstance(name, str) else ""
        same = [known for known in self if known.endswith(f".{what}")]
        raise error(f"{self._of}: there is no parameter '{name!s:.60}'{nearest(name, same or list(self))}")

    def checked(self, values: Mapping[str, Any], error: type[Exception] = RobotError) -> dict[str, np.ndarray]:
        """The values by their parameters' own names, each possible by itself and with the others."""
        out: dict[str, np.ndarray] = {}
        for name, value in values.items():
            spec = self.require(name, error)
            if spec.name in out:
                raise error(f"{self._of}: parameter '{spec.name}' is given twice, once as '{name}'")
            out[spec.name] = spec.checked(value, error)
        for small, large in ORDERED:
            for owner in {name.rpartition(".")[0] for name in out if name.rpartition(".")[2] in (small, large)}:
                names = (f"{owner}.{small}", f"{owner}.{large}")
                both = [out.get(name, self[name].default) for name in names if name in self]
                if len(both) == 2 and not on_device(both):
                    self._check_order(names, both, error)
        return out

    def _check_order(self, names: tuple[str, str], values: list[Any], error: type[Exception]) -> None:
        low, high = np.broadcast_arrays(*values)
        if np.any(wrong := low > high):
            at = tuple(np.argwhere(wrong)[0])
            raise error(f"'{names[0]}' must not be above '{names[1]}', got {low[at]:g} and {high[at]:g}{place(at, len(at))}")

    def __repr__(self) -> str:
        rows = [("parameter", "unit", "default"), *((s.name, s.unit, _shown(s.default)) for s in self.values())]
        widths = [max(len(row[k]) for row in rows) for k in range(2)]
        return "\n".join(f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]}".rstrip() for row in rows)


def _shown(value: Any) -> str:
    """Numbers with six digits, rows of a matrix separated by a semicolon; of a large array its shape."""
    entries = np.asarray(value, dtype=float)
    if entries.size > 12:
        return f"array of shape {entries.shape}"
    rows = [", ".join(f"{x + 0.0:.6g}" for x in row) for row in np.atleast_2d(entries)]
    return f"[{'; '.join(rows)}]" if entries.ndim else rows[0]


# ---- the numbers of a model


def model_parameters(model: Model) -> Parameters:
    """The parameters of a model."""
    specs, aliases = _described(model)
    own = {name for link in model.links for name in (link.name, link.joint)}
    hints = {}
    for frame in model.frames:
        if frame.link >= 0 and frame.name not in own:
            body = model.links[frame.link].name
            for what in OF_BODY:
                hints[f"{frame.name}.{what}"] = f"'{frame.name}' is fixed to link '{body}', and '{body}.{what}' is that of both"
    return Parameters(specs, aliases, f"robot '{model.name}'", hints)


def _described(model: Model) -> tuple[list[ParameterSpec], dict[str, str]]:
    specs = [ParameterSpec("gravity", "m/s^2", np.array(model.gravity, dtype=float))]
    aliases: dict[str, str] = {}
    for _, link in model.outward():
        for what in OF_BODY if link.base else (*OF_BODY, *OF_JOINT, *OF_PLACEMENT):
            spec = _of_link(link, what)
            if spec is not None:
                specs.append(spec)
                aliases[f"{link.joint if what in OF_BODY else link.name}.{what}"] = spec.name
    own = {name for link in model.links for name in (link.name, link.joint)}
    for frame in model.frames:
        if frame.name not in own:
            position, rpy = _placement(frame.pose)
            specs += [ParameterSpec(f"{frame.name}.position", "m", position), ParameterSpec(f"{frame.name}.rpy", "rad", rpy)]
    names = {spec.name for spec in specs}
    return specs, {alias: name for alias, name in aliases.items() if alias not in names}


def _of_link(link: Link, what: str) -> ParameterSpec | None:
    """The description of a number of a link or of its joint; None where it has no meaning."""
    if what in OF_BODY:
        if link.base and not link.inertia.mass:
            return None  # a motion of the base, whose last one moves the body
        name, values = f"{link.name}.{what}", body_values(link)
        least = 0.0 if what == "mass" else -inf
        unit = {"mass": "kg", "com": "m", "inertia": "kg m^2"}[what]
        return ParameterSpec(name, unit, values[what], least, open_bounds=bool(link.inertia.mass))
    name = f"{link.joint}.{what}"
    if what in OF_PLACEMENT:
        position, rpy = _placement(link.placement)
        return ParameterSpec(name, "m", position) if what == "position" else ParameterSpec(name, "rad", rpy)
    turns = not isinstance(link.kind, Prismatic)
    if what == "armature":
        return ParameterSpec(name, "kg m^2" if turns else "kg", float(link.armature), 0.0)
    if not isinstance(link.kind, Revolute | Prismatic):
        return None
    force = "N m" if turns else "N"
    if what == "friction":
        return ParameterSpec(name, force, float(link.friction), 0.0)
    if what == "damping":
        return ParameterSpec(name, "N m s/rad" if turns else "N s/m", float(link.damping), 0.0)
    if what == "effort":
        return ParameterSpec(name, force, float(link.limits.effort or inf), 0.0, infinite=True)
    bound, none = (link.limits.lower, -inf) if what == "lower" else (link.limits.upper, inf)
    return ParameterSpec(name, "rad" if turns else "m", none if bound is None else float(bound), infinite=True)


def body_values(link: Link) -> dict[str, Any]:
    """Mass, centre of mass and inertia about it; a link without mass has them at the origin of its frame."""
    body = link.inertia
    massless = isinstance(body.mass, float) and not body.mass
    com, I_com = (np.zeros(3), body.I) if massless else (body.com, body.I_com)
    return {"mass": body.mass, "com": com, "inertia": I_com}


def _placement(pose: Pose) -> tuple[np.ndarray, np.ndarray]:
    """(position, roll pitch yaw) of a pose of numbers; at a pitch of 90 degrees the roll is zero."""
    R = np.asarray(pose.R, dtype=float)
    across = float(np.hypot(R[0, 0], R[1, 0]))
    pitch = np.arctan2(-R[2, 0], across)
    if across < 1e-9:
        return np.asarray(pose.p, dtype=float), np.array([0.0, pitch, np.arctan2(-R[0, 1], R[1, 1])])
    return np.asarray(pose.p, dtype=float), np.array([np.arctan2(R[2, 1], R[2, 2]), pitch, np.arctan2(R[1, 0], R[0, 0])])


def geometric(name: str) -> bool:
    """Whether a parameter moves frames or joints, so that closed loops close elsewhere."""
    return name.rpartition(".")[2] in OF_PLACEMENT


def with_parameters(model: Model, values: Mapping[str, Any]) -> Model:
    """The model with these numbers replaced by others, traced ones too; names are those of `model_parameters`."""
    known = model_parameters(model)
    return with_numbers(model, {known.require(name).name: value for name, value in values.items()})


def with_numbers(model: Model, names: Mapping[str, Any]) -> Model:
    """The model with those of the numbers that are its own, by their proper names; its numbers may be traced already."""
    links = [_with(link, names) for link in model.links]
    own = {name for link in model.links for name in (link.name, link.joint)}
    frames = [
        frame if frame.name in own else replace(frame, pose=_moved(frame.pose, frame.name, names)) for frame in model.frames
    ]
    gravity = tuple(names["gravity"]) if "gravity" in names else model.gravity
    return replace(model, links=tuple(links), frames=tuple(frames), gravity=gravity)


def _with(link: Link, values: Mapping[str, Any]) -> Link:
    """A link with those of the numbers that are its own."""
    body = {what: values[f"{link.name}.{what}"] for what in OF_BODY if f"{link.name}.{what}" in values}
    if body:
        numbers = body_values(link) | body
        link = replace(link, inertia=Inertia.about_com(numbers["mass"], numbers["com"], numbers["inertia"]))
    own = {what: values[f"{link.joint}.{what}"] for what in OF_JOINT if f"{link.joint}.{what}" in values}
    bounds = {what: own.pop(what) for what in ("effort", "lower", "upper") if what in own}
    if bounds:
        link = replace(link, limits=replace(link.limits, **bounds))
    return replace(link, placement=_moved(link.placement, link.joint, values), **own)


def _moved(pose: Pose, name: str, values: Mapping[str, Any]) -> Pose:
    """A placement with those of the values that are its own."""
    p, R = values.get(f"{name}.position", pose.p), pose.R
    if f"{name}.rpy" in values:
        R = rotation_rpy(*values[f"{name}.rpy"], trig=lambda angle: (np.cos(angle), np.sin(angle)))
    return pose if p is pose.p and R is pose.R else Pose(R, p)
