"""States and controls as vectors with named parts; a state may lie on a manifold, and then changes in its tangent space.

A change d (ndx,) leads from x to x (+) d, and y (-) x is the change that leads from x to y.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from condyle.closed_loop.loop import Loop
from condyle.dynamics.manifold import difference, integrate
from condyle.errors import ControlError
from condyle.robot.names import nearest
from condyle.simulate.simulation import Simulation
from condyle.tape.array import array
from condyle.tape.compose import traced_array


def no_change(size: int) -> Any:
    """The change 0, as constants of the trace: what a state is differentiated by."""
    return traced_array("d", np.zeros(size), (size,))


MOST = 512  # entries of a state or control


@dataclass(frozen=True)
class Component:
    """A named part of a vector: `size` numbers with a tangent space of `tangent` dimensions.

    `retract(x, d)` and `difference(x, y)` are given where the two differ.
    """

    name: str
    size: int
    tangent: int
    retract: Callable[[Any, Any], Any] | None = None
    difference: Callable[[Any, Any], Any] | None = None


@dataclass(frozen=True)
class Space:
    """A vector of named parts."""

    parts: tuple[Component, ...]

    @property
    def size(self) -> int:
        """Numbers of a point: nx."""
        return sum(p.size for p in self.parts)

    @property
    def tangent(self) -> int:
        """Dimensions of its tangent space: ndx."""
        return sum(p.tangent for p in self.parts)

    def slices(self) -> dict[str, tuple[slice, slice]]:
        """(entries of the point, entries of the tangent space) of each part by name."""
        found, at, d = {}, 0, 0
        for p in self.parts:
            found[p.name] = (slice(at, at + p.size), slice(d, d + p.tangent))
            at, d = at + p.size, d + p.tangent
        return found

    def retract(self, x: Any, d: Any) -> Any:
        """x (+) d."""
        if all(p.retract is None for p in self.parts):
            return x + d
        places = self.slices().values()
        return np.concatenate(
            [
                x[own] + d[tangent] if p.retract is None else p.retract(x[own], d[tangent])
                for p, (own, tangent) in zip(self.parts, places, strict=True)
            ]
        )

    def difference(self, x: Any, y: Any) -> Any:
        """y (-) x: the change that leads from x to y."""
        if all(p.difference is None for p in self.parts):
            return y - x
        places = self.slices().values()
        return np.concatenate(
            [
                y[own] - x[own] if p.difference is None else p.difference(x[own], y[own])
                for p, (own, _) in zip(self.parts, places, strict=True)
            ]
        )

    def neutral(self) -> np.ndarray:
        """A valid point: zeros, and unit quaternions."""
        x = np.zeros(self.size)
        for p, (own, _) in zip(self.parts, self.slices().values(), strict=True):
            if p.retract is not None:
                x[own] = _NEUTRAL.get(p.retract, x[own])
        return x

    def trace_data(self) -> tuple[Any, ...]:
        """All that a trace depends on."""
        return tuple((p.name, p.size, p.tangent, p.retract, p.difference) for p in self.parts)


class quaternion:
    """A part of a state that is a unit quaternion, in the order "xyzw" or "wxyz"; its changes are rotations in body axes.

    A change d is the Gibbs vector q (1, d / 2) / |(1, d / 2)|: a rotation by 2 atan(|d| / 2), without trigonometry.
    """

    def __init__(self, order: str = "xyzw") -> None:
        if order not in ("xyzw", "wxyz"):
            raise ControlError(f"the order of a quaternion is 'xyzw' or 'wxyz', got {order!r:.40}")
        self.order = order

    def part(self, name: str) -> Component:
        """The part of a space."""
        if self.order == "xyzw":
            return Component(name, 4, 3, _retract_xyzw, _difference_xyzw)
        return Component(name, 4, 3, _retract_wxyz, _difference_wxyz)


def _multiply(p: Any, q: Any) -> list[Any]:
    """The product of two quaternions (x, y, z, w)."""
    x, y, z, w = p
    a, b, c, d = q
    return [
        w * a + x * d + y * c - z * b,
        w * b - x * c + y * d + z * a,
        w * c + x * b - y * a + z * d,
        w * d - x * a - y * b - z * c,
    ]


def _retract_xyzw(q: Any, d: Any) -> Any:
    x, y, z, w = _multiply(q, [0.5 * d[0], 0.5 * d[1], 0.5 * d[2], 1.0])
    scale = 1.0 / np.sqrt(x * x + y * y + z * z + w * w)
    return array([x * scale, y * scale, z * scale, w * scale])


def _difference_xyzw(p: Any, q: Any) -> Any:
    x, y, z, w = _multiply([-p[0], -p[1], -p[2], p[3]], q)
    scale = 2.0 / w
    return array([x * scale, y * scale, z * scale])


def _retract_wxyz(q: Any, d: Any) -> Any:
    x, y, z, w = _retract_xyzw([q[1], q[2], q[3], q[0]], d)
    return array([w, x, y, z])


def _difference_wxyz(p: Any, q: Any) -> Any:
    return _difference_xyzw([p[1], p[2], p[3], p[0]], [q[1], q[2], q[3], q[0]])


_NEUTRAL: dict[Any, Any] = {_retract_xyzw: [0.0, 0.0, 0.0, 1.0], _retract_wxyz: [1.0, 0.0, 0.0, 0.0]}


@dataclass(frozen=True)
class _Configuration:
    """The maps of a robot's configuration space."""

    model: Any

    def retract(self, q: Any, d: Any) -> Any:
        return integrate(self.model, q, d)

    def difference(self, p: Any, q: Any) -> Any:
        return difference(self.model, p, q)


def space_of_world(world: Simulation) -> Space:
    """The state of a simulation: "q" on the robot's configuration manifold, "v", and the tick where there is one."""
    reduced = world.world.reduced
    maps = _Configuration(reduced)
    flat = reduced.nq == world.world.nd
    q = Component("q", reduced.nq, world.world.nd, None if flat else maps.retract, None if flat else maps.difference)
    rest = world.nx - reduced.nq - world.world.nv
    parts = [q, Component("v", world.world.nv, world.world.nv)]
    return Space(tuple(parts + ([Component("t", rest, rest)] if rest else [])))


def space_of_loop(loop: Loop) -> Space:
    """The state of a closed loop: "q", "v", "tick", and the states of its blocks, "block.state" as "block_state"."""
    sizes = {name.replace(".", "_"): place.stop - place.start for name, (place, _) in loop.layout.items()}
    components = [Component(name, size, size) for name, size in sizes.items()]
    if loop.plant is not None and loop.nq != loop.plant.nd:
        maps = _Configuration(loop.plant.reduced)
        components[0] = Component("q", loop.nq, loop.plant.nd, maps.retract, maps.difference)
    return Space(tuple(components))


def space(what: str, given: Any, single: str) -> Space:
    """The space of a size, or of {name: size or quaternion()}; `single` names the only part of a size."""
    if isinstance(given, Space):
        return given
    parts = given if isinstance(given, Mapping) else {single: given}
    made = []
    for name, part in parts.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise ControlError(f"{what}: the parts of a vector have names like 'velocity', got {name!r:.40}")
        if isinstance(part, quaternion):
            made.append(part.part(name))
        elif isinstance(part, (int, np.integer)) and not isinstance(part, bool) and 1 <= part <= MOST:
            made.append(Component(name, int(part), int(part)))
        else:
            raise ControlError(
                f"{what}: '{name}' must be a whole number from 1 to {MOST}, or condyle.methods.mpc.quaternion(), got {part!r:.60}"
            )
    if not made or sum(p.size for p in made) > MOST:
        raise ControlError(f"{what}: from 1 to {MOST} numbers are possible, got {sum(p.size for p in made)}")
    return Space(tuple(made))


def part_named(name: str, *spaces: Space) -> tuple[int, slice, slice]:
    """(which space, entries of the point, entries of the tangent space) of the part with this name."""
    for k, each in enumerate(spaces):
        if name in (places := each.slices()):
            return k, *places[name]
    names = [p.name for each in spaces for p in each.parts]
    raise ControlError(f"there is no part '{name}'{nearest(name, names)}; the parts are {', '.join(names)}")
