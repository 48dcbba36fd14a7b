"""Gait metrics of four feet: how a robot walks, from recorded arrays, one recording or a batch (..., T, ...).

    found = gait_metrics(dt, feet, forces, position, rotation, mass=0.629, slip_velocities=..., torques=..., joint_velocities=...)
    found.duty_factor, found.lift, found.slip_ratio, ...        # arrays (...,), those of feet (..., 4)

A foot is loaded where the ground pushes it up with at least LOADED of the weight. All of it in SI units, world axes with z up.

| metric | definition |
|---|---|
| duty_factor (4) | loaded time / time |
| steps (4) | swings that begin and end in the recording, at least SHORTEST_SWING long |
| lift (4) | median over these swings of the largest height of the foot's lowest point above the ground; 0 without a swing |
| slip (4) | distance that the loaded foot's contact point slides on the ground, m |
| slip_ratio | mean of slip over the feet / distance |
| distance | length of the body's horizontal path, sampled every `stride` seconds, so that sway within a stride is not counted |
| advance, drift | displacement along and to the left of the initial heading, m |
| turn | change of heading, rad, unwrapped |
| speed | advance / time |
| energy | positive work of the joints, sum max(tau v, 0) dt, J |
| cost_of_transport | energy / (m g distance) |
| stability_margin | mean over time of the distance from the centre of mass, seen from above, to the edge of the polygon of the |
| | loaded feet; negative outside, and where less than three feet are loaded; without a loaded foot not counted |
| worst_margin | the smallest of it |
| tilt | largest angle between the body's z axis and the vertical, rad |
| shake | root mean square of the roll and pitch rates, rad/s |
| fell | tilted by more than FALLEN_TILT, or touched the ground with something else than a foot (`body_forces`) |
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import combinations
from typing import Any

import numpy as np

from condyle.errors import CondyleError

Array = np.ndarray

GRAVITY = 9.81  # m/s^2
LOADED = 0.05  # of the weight
SHORTEST_SWING = 0.04  # s: shorter ones are a foot that bounces
FALLEN_TILT = 1.0  # rad
STRIDE = 0.5  # s
PAIRS = tuple(combinations(range(4), 2))


@dataclass(frozen=True)
class GaitMetrics:
    """The metrics of the table above: each (...,), those of feet (..., 4)."""

    seconds: float
    duty_factor: Array
    steps: Array
    lift: Array
    slip: Array
    slip_ratio: Array
    distance: Array
    advance: Array
    drift: Array
    turn: Array
    speed: Array
    energy: Array
    cost_of_transport: Array
    stability_margin: Array
    worst_margin: Array
    tilt: Array
    shake: Array
    fell: Array

    def data(self) -> dict[str, Any]:
        """Names and values, for JSON."""
        return {each.name: np.asarray(getattr(self, each.name)).tolist() for each in fields(self)}


def gait_metrics(
    dt: float,
    feet: Any,
    forces: Any,
    position: Any,
    rotation: Any,
    *,
    mass: Any,
    slip_velocities: Any = None,
    torques: Any = None,
    joint_velocities: Any = None,
    com: Any = None,
    body_forces: Any = None,
    ground_height: Any = 0.0,
    foot_radius: float = 0.008,
    stride: float = STRIDE,
    fallen_tilt: float = FALLEN_TILT,
) -> GaitMetrics:
    """The metrics of rows dt seconds apart.

    `feet` (..., T, 4, 3): centres of the feet; `forces` (..., T, 4, 3): of the ground on them; `position` (..., T, 3) and
    `rotation` (..., T, 3, 3) of the body. `slip_velocities` (..., T, 4, 3): of the feet's material points that touch the ground
    (contact_velocities); without them the centres' displacements are taken, which also move when a foot rolls. `torques`,
    `joint_velocities` (..., T, n): without them energy and cost of transport are NaN. `com` (..., T, 3): by default the body's
    position. `body_forces` (..., T, k, 3): of the ground on other contact points. `ground_height`: a number or (..., T, 4), below
    each foot. `mass`: one or (...,).
    """
    feet, forces, position, rotation = (np.asarray(each, dtype=float) for each in (feet, forces, position, rotation))
    _check(dt, feet, forces, position, rotation)
    count = feet.shape[-3]
    weight = np.asarray(mass, dtype=float) * GRAVITY
    loaded = forces[..., 2] >= LOADED * weight[..., None, None]
    if slip_velocities is None:
        slip_velocities = np.gradient(feet, dt, axis=-3)
    slip_velocities = np.asarray(slip_velocities, dtype=float)
    sliding = np.hypot(slip_velocities[..., 0], slip_velocities[..., 1]) * loaded * dt
    slip = sliding.sum(axis=-2)
    distance = path_length(position[..., :2], max(round(stride / dt), 1))
    yaw = np.unwrap(np.arctan2(rotation[..., 1, 0], rotation[..., 0, 0]), axis=-1)
    moved = position[..., -1, :] - position[..., 0, :]
    ahead, left = np.cos(yaw[..., 0]), np.sin(yaw[..., 0])
    advance, drift = moved[..., 0] * ahead + moved[..., 1] * left, moved[..., 1] * ahead - moved[..., 0] * left
    seconds = (count - 1) * dt
    energy = np.full(distance.shape, np.nan)
    if torques is not None and joint_velocities is not None:
        power = np.maximum(np.asarray(torques, dtype=float) * np.asarray(joint_velocities, dtype=float), 0.0)
        energy = power.sum(axis=(-1, -2)) * dt
    margin = stability_margins(position if com is None else np.asarray(com, dtype=float), feet, loaded)
    tilts = np.arccos(np.clip(rotation[..., 2, 2], -1.0, 1.0))
    tilt = tilts.max(axis=-1)
    fell = tilt > fallen_tilt
    if body_forces is not None:
        fell = fell | np.any(np.asarray(body_forces, dtype=float)[..., 2] >= LOADED * weight[..., None, None], axis=(-1, -2))
    clearance = feet[..., 2] - foot_radius - np.broadcast_to(np.asarray(ground_height, dtype=float), feet.shape[:-1])
    steps, lift = swings(loaded, clearance, max(round(SHORTEST_SWING / dt), 1))
    return GaitMetrics(
        seconds=seconds,
        duty_factor=loaded.mean(axis=-2),
        steps=steps,
        lift=lift,
        slip=slip,
        slip_ratio=_ratio(slip.mean(axis=-1), distance),
        distance=distance,
        advance=advance,
        drift=drift,
        turn=yaw[..., -1] - yaw[..., 0],
        speed=advance / seconds,
        energy=energy,
        cost_of_transport=_ratio(energy, weight * distance),
        stability_margin=_ratio(np.nansum(margin, axis=-1), np.sum(np.isfinite(margin), axis=-1)),
        worst_margin=np.min(np.where(np.isfinite(margin), margin, np.inf), axis=-1),
        tilt=tilt,
        shake=np.sqrt(np.mean(_rates(rotation, dt) ** 2, axis=(-1, -2))),
        fell=fell,
    )


def contact_velocities(linear: Any, angular: Any, radius: float = 0.008) -> Array:
    """Velocities (..., 3) of the points of balls that touch level ground:  v + omega x (0, 0, -r); v of their centres."""
    linear, angular = np.asarray(linear, dtype=float), np.asarray(angular, dtype=float)
    x, y, z = np.moveaxis(linear, -1, 0)
    return np.stack([x - angular[..., 1] * radius, y + angular[..., 0] * radius, z], axis=-1)


def path_length(points: Array, every: int) -> Array:
    """Length (...,) of the path through every `every`-th of the points (..., T, 2) and the last one."""
    picked = np.concatenate([points[..., :-1:every, :], points[..., -1:, :]], axis=-2)
    steps = np.diff(picked, axis=-2)
    length: Array = np.hypot(steps[..., 0], steps[..., 1]).sum(axis=-1)
    return length


def swings(loaded: Array, clearance: Array, shortest: int) -> tuple[Array, Array]:
    """(number of swings, median of their largest clearance), both (..., 4), of feet (..., T, 4).

    A swing lies between two loaded times and lasts at least `shortest` rows; a foot without one has 0.
    """
    count = loaded.shape[-2]
    down = np.moveaxis(loaded, -1, -2).reshape(-1, count)
    high = np.moveaxis(clearance, -1, -2).reshape(-1, count)
    # rows since the foot was loaded are numbered by the touchdowns before them; 0 is before the first one
    number = np.cumsum(down & ~np.concatenate([np.zeros((len(down), 1), dtype=bool), down[:, :-1]], axis=1), axis=1)
    most = int(number.max(initial=0)) + 1
    highest, length = np.full((len(down), most), -np.inf), np.zeros((len(down), most), dtype=int)
    robot, row = np.nonzero(~down)
    swing = number[robot, row]
    np.maximum.at(highest, (robot, swing), high[robot, row])
    np.add.at(length, (robot, swing), 1)
    # the one before the first touchdown has no beginning; the last one has no end
    index = np.arange(most)
    whole = (index > 0) & (index < number[:, -1:]) & (length >= shortest)
    steps = whole.sum(axis=1)
    ordered = np.sort(np.where(whole, highest, np.inf), axis=1)
    rows = np.arange(len(down))
    low, up = ordered[rows, np.maximum(steps - 1, 0) // 2], ordered[rows, np.minimum(steps // 2, most - 1)]
    lift = np.where(steps > 0, 0.5 * (np.where(steps > 0, low, 0.0) + np.where(steps > 0, up, 0.0)), 0.0)
    shape = (*loaded.shape[:-2], 4)
    return steps.reshape(shape), lift.reshape(shape)


def stability_margins(com: Array, feet: Array, loaded: Array) -> Array:
    """Distance (..., T) from `com` (..., T, 3), seen from above, to the edge of the polygon of the loaded feet; negative outside.

    NaN where no foot is loaded. Two loaded feet: minus the distance to the line between them; one: to that foot.
    """
    p, c = feet[..., :2], com[..., None, :2]
    away = np.where(loaded, np.hypot(*np.moveaxis(p - c, -1, 0)), np.inf)
    outside = away.min(axis=-1)  # distance to the nearest loaded foot, then to the nearest line between two
    inside = np.full(outside.shape, np.inf)
    left_of_all = np.zeros(outside.shape, dtype=bool)
    for i, j in PAIRS:
        both = loaded[..., i] & loaded[..., j]
        edge, to_com = p[..., j, :] - p[..., i, :], c[..., 0, :] - p[..., i, :]
        length = np.maximum(np.hypot(edge[..., 0], edge[..., 1]), 1e-12)
        part = np.clip(np.sum(edge * to_com, axis=-1) / length**2, 0.0, 1.0)
        gap = np.hypot(*np.moveaxis(to_com - part[..., None] * edge, -1, 0))
        outside = np.where(both, np.minimum(outside, gap), outside)
        # an edge of the polygon has all other loaded feet on one side; inside is on their side of every edge
        side = _cross(edge, to_com) / length
        others = [_cross(edge, p[..., k, :] - p[..., i, :]) / length for k in range(4) if k not in (i, j)]
        beside = [loaded[..., k] for k in range(4) if k not in (i, j)]
        for sign in (1.0, -1.0):
            on_side = [~on | (sign * each >= 0.0) for each, on in zip(others, beside, strict=True)]
            is_edge = both & on_side[0] & on_side[1] & (beside[0] | beside[1])
            inside = np.where(is_edge, np.minimum(inside, sign * side), inside)
            left_of_all |= is_edge
    margin = np.where(left_of_all & (inside >= 0.0), inside, -outside)
    return np.where(loaded.any(axis=-1), margin, np.nan)


def _cross(a: Array, b: Array) -> Array:
    area: Array = a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]
    return area


def _rates(rotation: Array, dt: float) -> Array:
    """Roll and pitch rates (..., T - 1, 2), rad/s, in body axes, of rotations dt apart."""
    turned = np.swapaxes(rotation[..., :-1, :, :], -1, -2) @ rotation[..., 1:, :, :]
    roll, pitch = turned[..., 2, 1] - turned[..., 1, 2], turned[..., 0, 2] - turned[..., 2, 0]
    return np.stack([roll, pitch], axis=-1) / (2.0 * dt)


def _ratio(above: Any, below: Any) -> Array:
    """above / below, infinite where below is zero and above is not, 0 where both are."""
    above, below = np.broadcast_arrays(np.asarray(above, dtype=float), np.asarray(below, dtype=float))
    safe = np.where(below > 0.0, below, 1.0)
    return np.where(below > 0.0, above / safe, np.where(above > 0.0, np.inf, 0.0 * above))


def _check(dt: float, feet: Array, forces: Array, position: Array, rotation: Array) -> None:
    shape = feet.shape[:-2]
    if feet.ndim < 3 or feet.shape[-2:] != (4, 3) or shape[-1] < 2:
        raise CondyleError(f"feet must be (..., T, 4, 3) with at least two rows in time, got {feet.shape}")
    for name, value, rest in (("forces", forces, (4, 3)), ("position", position, (3,)), ("rotation", rotation, (3, 3))):
        if value.shape != (*shape, *rest):
            raise CondyleError(f"{name} must be {(*shape, *rest)}, as feet {feet.shape} say; got {value.shape}")
    if not dt > 0.0:
        raise CondyleError(f"dt must be the positive time between two rows, s; got {dt!r:.40}")
