"""The numbers of a ground that may vary: friction, height, the slope of planes, the steps of stairs, measured heights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import inf, pi
from typing import Any

import numpy as np

from condyle.robot.parameters import ParameterSpec
from condyle.simulate.terrain import Ground, HeightField, Heights, Plane, Slope, Stairs, coefficients
from condyle.simulate.uneven import Uneven
from condyle.simulate.validate import assign
from condyle.tape.scalar import constant

UNEVEN = (("roughness", "m", 0.0), ("step", "m", -inf), ("slope", "deg", -90.0), ("azimuth", "deg", -inf), ("offset", "m", -inf))
STAIRS = (("rise", -inf), ("run", 0.0), ("rounding", 0.0), ("start", -inf))  # (name, lower bound)


def ground_parameters(ground: Ground) -> list[ParameterSpec]:
    """ground.friction and .height, and the numbers of this kind of ground; azimuth 0 is towards +x, 90 towards +y."""
    specs = [ParameterSpec("ground.friction", "1", float(ground.friction), 0.0)]
    if isinstance(ground, Plane | Slope):
        slope, azimuth, height = _plane_numbers(ground)
        specs.append(ParameterSpec("ground.height", "m", height))
        specs.append(ParameterSpec("ground.slope", "deg", slope, -90.0, 90.0, open_bounds=True))
        specs.append(ParameterSpec("ground.azimuth", "deg", azimuth))
    elif isinstance(ground, Heights):
        specs.append(ParameterSpec("ground.height", "m", 0.0))
    if isinstance(ground, Stairs):
        specs += [ParameterSpec(f"ground.{n}", "m", getattr(ground, n), least, open_bounds=True) for n, least in STAIRS]
    if isinstance(ground, Uneven):
        for name, unit, least in UNEVEN:
            default = np.array(ground.offset, dtype=float) if name == "offset" else getattr(ground, name)
            specs.append(ParameterSpec(f"ground.{name}", unit, default, least, 90.0 if name == "slope" else inf, name == "slope"))
    if isinstance(ground, HeightField):
        specs.append(ParameterSpec("ground.heights", "m", ground.heights))
    return specs


def with_ground_parameters(ground: Ground, values: Mapping[str, Any]) -> Ground:
    """The ground with these numbers, traced ones too; names without "ground."."""
    if not values:
        return ground
    new = _copy(ground)
    if "friction" in values:
        assign(new, friction=values["friction"])
    if isinstance(ground, Plane | Slope):
        own = zip(("slope", "azimuth", "height"), _plane_numbers(ground), strict=True)
        plane = _plane(ground, values)
        assign(new, **({"plane": plane} if isinstance(ground, Slope) else {"normal": plane.normal, "offset": plane.offset}))
        assign(new, plane_numbers=tuple(values.get(name, value) for name, value in own))
    assign(new, **{name: values[name] for name, _ in STAIRS if name in values})
    if isinstance(ground, Uneven):
        assign(new, **{name: values[name] for name, _, _ in UNEVEN if name in values})
    if "heights" in values:
        # the elimination is that of the numbers, row by row
        heights = np.asarray(values["heights"], dtype=object)
        assign(new, coefficients=tuple(tuple(row) for row in coefficients(coefficients(heights).T).T))
    return Raised(new, values["height"], new.friction) if "height" in values and isinstance(new, Heights) else new


@dataclass(frozen=True, eq=False)
class Raised(Heights):
    """A ground of heights with a number added to all of them."""

    ground: Heights
    height: Any
    friction: Any

    def surface(self, x: Any, y: Any) -> tuple[Any, Any, Any]:
        """(h + height, h_x, h_y)."""
        h, h_x, h_y = self.ground.surface(x, y)
        return h + self.height, h_x, h_y


def _plane_numbers(ground: Plane | Slope) -> tuple[Any, Any, Any]:
    """(slope, azimuth, height over the world's origin) of a plane, degrees and metres."""
    if "plane_numbers" in vars(ground):  # parameters, which may be traced
        return vars(ground)["plane_numbers"]  # type: ignore[no-any-return]
    if isinstance(ground, Slope):
        return ground.degrees, ground.azimuth, 0.0
    x, y, z = ground.normal
    level = not (x or y)
    slope = 0.0 if level else float(np.degrees(np.arctan2(np.hypot(x, y), z)))
    return slope, 0.0 if level else float(np.degrees(np.arctan2(-y, -x))), ground.offset / z if z else inf


def _plane(ground: Plane | Slope, values: Mapping[str, Any]) -> Plane:
    """The plane with these numbers; what none of them changes stays as it is to the last bit."""
    plane = ground.plane if isinstance(ground, Slope) else ground
    new: Plane = _copy(plane)
    normal = plane.normal
    slope, azimuth, height = _plane_numbers(ground)
    if "slope" in values or "azimuth" in values:
        c, s, along_x, along_y = (
            f(values.get(name, default) * (pi / 180.0))
            for name, default in (("slope", slope), ("azimuth", azimuth))
            for f in (np.cos, np.sin)
        )
        normal = (-s * along_x, -s * along_y, c)
    offset = plane.offset
    if "height" in values or (normal is not plane.normal and constant(height) != 0.0):
        offset = values.get("height", height) * normal[2]
    assign(new, normal=normal, offset=offset)
    return new


def _copy(ground: Any) -> Any:
    """The same ground as a new object; its fields are assigned without the checks of numbers."""
    new = object.__new__(type(ground))
    assign(new, **{name: getattr(ground, name) for name in {f.name for f in fields(ground)} | set(vars(ground))})
    return new
