"""The constraints of a step: contact points on the ground, joint limits, dry joint friction and drives, with their force laws."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from condyle.dynamics.energy import total_mass
from condyle.dynamics.kinematics import ancestors, axes, root_poses
from condyle.robot.angles import of_degrees
from condyle.robot.spatial import Array, Pose, skew
from condyle.simulate.constraint_list import Constraint
from condyle.simulate.contact_frame import ground_axes, point_velocity, surface, surface_under, to_ground_axes
from condyle.simulate.contact_table import ContactTable, Layout
from condyle.simulate.drives import Drive
from condyle.simulate.friction_cone import Cone, Polytope
from condyle.simulate.points import ContactPoint
from condyle.simulate.world import IMPACT, World
from condyle.tape.array import where
from condyle.tape.loop import loop
from condyle.tape.precision import by_precision
from condyle.tape.scalar import constant
from condyle.tape.table import Table, table, zeros_table

NEGLIGIBLE, NEGLIGIBLE_SINGLE = 1e-9, 1e-5  # the least dry friction that is a parameter, relative to the load of the joint
NOWHERE = -1e6  # radius of a row without a point, m: it is never deep enough to touch
LIMIT_SMOOTHING = 100.0  # of joint limits, relative to that of contacts: light links beyond their limits need it
RECOVERY_DEPTH = 5.0  # how far beyond its limit a joint is brought back from, relative to the depth under its load
RECOVERY_TIME = 0.1  # s, in which the distance to that depth falls by e
RECOVERY_RANGE = 10.0  # the speed of recovery approaches this many depths per recovery time
MOST_SLIP = 2.0  # the largest friction whose whole sliding speed is added to the normal velocity
LIFTED_FROM = 1.5  # the depth from which a contact comes up, relative to the depth at rest
LIFT_RANGE = 20.0  # the speed of coming up approaches this many depths at rest per recovery time
LIFT_ONSET = 0.01  # the part of that range over which it begins, twice continuously differentiable
LIFT_STEPS = 4.0  # the recovery time is at least so many steps
MOST_WEIGHTS = 100.0  # the largest impulse grows with the depth up to so many times that of the robot's weight in a step
MOST_MOMENTA = 10.0  # and so many times the robot's mass at the speed of the contact


class LawNumbers(NamedTuple):
    """What the force laws of all contacts of a step share."""

    strength: Any  # h k of the largest normal impulse h k depth^power
    smoothing: Any  # kappa at rest, J
    load: Any  # mass supported by one contact at rest, kg
    velocity_scale: Any  # velocity change by gravity in one step, m/s
    mass: Any  # of the whole robot, kg
    lift: Any = 0.0  # bound on the speed at which a deep contact comes up, m/s
    per_range: Any = 0.0  # 1 / (depth from which it has half that speed), 1/m

    @staticmethod
    def of(world: World) -> LawNumbers:
        """Those of a world."""
        scale = world.gravity * world.h
        law = world.h * world.stiffness, world.contact_smoothing, world.nominal_load, scale, total_mass(world.plain.model)
        if world.recovery_time is None:
            return LawNumbers(*law)
        reach = LIFT_RANGE * world.depth
        return LawNumbers(*law, reach / np.maximum(world.recovery_time, LIFT_STEPS * world.h), 1.0 / reach)


def depth_power(world: World, depth: Any) -> Any:
    """depth^power, zero where the depth is negative."""
    d = np.maximum(depth, 0.0)
    product = d
    for _ in range(world.power - 1):
        product = product * d
    return product


def contact_law(world: World, numbers: LawNumbers, mu: Any, mass: Any, depth: Any, u: Array) -> Cone | Polytope:
    """The law of one contact at this depth; u is its velocity before the step, and `mass` the effective mass there.

    The largest normal impulse is  S = h k depth^power,  zero above the ground, and bounded.
    """
    S = bounded_impulse(numbers, depth_power(world, depth) * numbers.strength, u)
    recovery = recovery_speed(world, numbers, depth)
    change = u @ u + recovery * recovery  # the squared speed that the contact may have to change
    impact = impact_smoothing(np.sqrt(mass * numbers.load), numbers.velocity_scale, S, change)
    kappa = numbers.smoothing + impact * np.maximum(mu * (1.0 / MOST_SLIP), 1.0)  # as large against high friction
    # the sliding speed before the step, smooth at rest; high friction ends it within a step, in which all of it would sink a body
    square, velocity_scale = u[1] * u[1] + u[2] * u[2], numbers.velocity_scale
    slip = np.minimum(mu, MOST_SLIP) * square / np.sqrt(square + velocity_scale * velocity_scale)
    if not world.pyramid:
        return Cone.of(S, mu, kappa, slip + holding_speed(world, numbers, S, 2, change) - recovery)
    n = world.pyramid
    around = [of_degrees(360.0 * k / n) for k in range(n)]
    directions = np.array([[1.0] * n, [mu * c for c, _ in around], [mu * s for _, s in around]])
    return Polytope.of(directions * S, kappa, slip=slip + holding_speed(world, numbers, S, n, change) - recovery)


def bounded_impulse(numbers: LawNumbers, S: Any, u: Array) -> Any:
    """The largest impulse S of a contact of velocity u, as it is up to a bound that is far above what stops the robot.

    Beyond the bound it approaches twice that, twice continuously differentiable. A point deep in the ground that cannot come up,
    because its link does not move so or others hold it, would push with millions of weights.
    """
    scale = numbers.velocity_scale
    speed = np.sqrt(u @ u + scale * scale) - scale
    most = numbers.mass * (MOST_WEIGHTS * scale + MOST_MOMENTA * speed)
    x = np.maximum(S / most - 1.0, 0.0)
    return np.minimum(S, most) + most * (x / np.sqrt(1.0 + x * x))


def friction_of(world: World, point: ContactPoint) -> Any:
    """The coefficient of a point: its own, or that of the ground."""
    assert world.ground is not None
    return world.ground.friction if point.friction is None else point.friction


def holding_speed(world: World, numbers: LawNumbers, S: Any, degree: int, square: Any) -> Any:
    """A speed taken from the normal velocity of a contact deeper than at rest, that at which the barrier would lift it, m/s.

    Under the nominal impulse the barrier lifts at  degree kappa / nominal (x - 1) / (x - 2/3), x = S / (3/2 nominal): without it
    the depth of an impact would be given back, and energy rise at rest. Zero up to x = 1, full from x = 2 on, smooth
    between. `square`: the squared speed before the step, for the lift by the smoothing of an impact.
    """
    if not world.on_surface:
        return 0.0
    velocity_scale = numbers.velocity_scale
    nominal = numbers.load * velocity_scale
    beyond = np.maximum(S * (1.0 / (1.5 * nominal)) - 1.0, 0.0)
    t = np.minimum(beyond, 1.0)
    full = t * t * t * (10.0 - t * (15.0 - 6.0 * t))
    lift = numbers.smoothing / nominal + IMPACT * square / np.sqrt(square + velocity_scale * velocity_scale)
    return (float(degree) * lift) * (full * (beyond / (beyond + 1.0 / 3.0)))


def recovery_speed(world: World, numbers: LawNumbers, depth: Any) -> Any:
    """The speed at which a contact comes up that is deeper than LIFTED_FROM depths at rest, m/s.

    With s the depth beyond that, over the range: lift s^3 / (s^3 + s^2 + onset^2), which is s / (1 + s) but for the onset. It
    slows down by less than lift / (6 recovery time), far less than gravity would: what comes up does not leave the ground.
    """
    if world.recovery_time is None:
        return 0.0
    s = np.maximum(depth * numbers.per_range - LIFTED_FROM / LIFT_RANGE, 0.0)
    square = s * s
    return numbers.lift * (square * s) / (square * (s + 1.0) + LIFT_ONSET * LIFT_ONSET)


def coordinates(world: World, link: int) -> tuple[int, ...]:
    """The coordinates that move a link."""
    links = world.model.links
    return tuple(k for i in ancestors(world.model, link) for k in range(links[i].v.start, links[i].v.stop))


def contact_constraints(world: World, q: Array, v: Array, points: Iterable[int] | None = None) -> list[Constraint]:
    """Contacts at q one by one, in the coordinates of contact_frame.py; v is the velocity before the step, in those of q.

    `points`: which of the world's points, None for all of them.
    """
    chosen = range(len(world.points)) if points is None else points
    if world.ground is None:
        return []
    X_0F, X = root_poses(world.model, q)
    S = axes(world.model, X)
    rotation = ground_axes(world, q)
    numbers = LawNumbers.of(world)
    out = []
    for k in chosen:
        point, mass = world.points[k], world.effective_masses[k]
        centre = X[point.link].point(np.array(point.position))
        ground = surface(world, point, X_0F, centre)
        path = coordinates(world, point.link)
        J = np.array([point_velocity(S[k], centre + ground.arm) for k in path]).T
        C = ground.C
        if rotation is not None:
            # the base's columns are 1 and -[r] in any axes; the others rotation
            J = np.hstack([np.eye(3), -skew(C @ (centre + ground.arm)), C @ J[:, 6:]])
            C = None
            u = J @ to_ground_axes(rotation, v)[list(path)]
        else:
            u = C @ (J @ v[list(path)])
        law = contact_law(world, numbers, friction_of(world, point), mass, ground.depth, u)
        velocity_scale = numbers.velocity_scale
        speed = np.sqrt(u @ u) + velocity_scale + law.lift
        out.append(Constraint(law, path, J, C, speed, mass, velocity_scale, label=("contact", k)))
    return out


def contact_table(
    world: World, q: Array, T: Array | None = None, poses: tuple[Pose, list[Pose]] | None = None
) -> ContactTable | None:
    """The contacts at q of the points that are in a table, in the coordinates of contact_frame.py; None without such points.

    `T`: velocities of a constrained robot by the reduced ones. `poses`: those of `root_poses`, where they are known.
    """
    layout = world.point_table
    if layout is None:
        return None
    X_0F, X = root_poses(world.model, q) if poses is None else poses
    rotation = ground_axes(world, q)
    S = np.array([motion.vector() for motion in axes(world.model, X)], dtype=object)
    if rotation is not None:
        S = np.array([np.concatenate([rotation @ row[:3], rotation @ row[3:]]) for row in S], dtype=object)
        S[:6] = np.eye(6)
    points = [None if k is None else world.points[k] for k in layout.points]
    masses = [world.effective_masses[layout.points_of(n)[0]] for n in range(len(layout.links))]
    return ContactTable(
        layout,
        lambda numbers, *rest: contact_law(world, LawNumbers(*numbers), *rest),
        np.array(LawNumbers.of(world), dtype=object),
        S,
        _geometry(world, layout, points, X_0F, [X[i] for i in layout.links], rotation),
        np.array([0.0 if point is None else friction_of(world, point) for point in points], dtype=object),
        np.array(masses, dtype=object),
        world.gravity * world.h,
        T,
    )


def _geometry(
    world: World, layout: Layout, points: list[ContactPoint | None], X_0F: Pose, X: list[Pose], rotation: Array | None
) -> Array:
    """(where it touches, depth) of each row of the table, and the axes of the ground there unless they are the frame's."""
    places = table([[0.0, 0.0, 0.0, NOWHERE] if p is None else [*p.position, p.radius] for p in points])
    poses = table([[*pose.R.ravel(), *pose.p] for pose in X])
    m = float(layout.rows)

    def on_link(l: Any, found: Table) -> Table:
        R_p = poses[l]
        pose = Pose(R_p[:9].reshape(3, 3), R_p[9:])

        def on_point(k: Any, found: Table) -> Table:
            row = l * m + k
            place = places[row]
            centre = pose.point(place[:3])
            ground = surface_under(world, place[3], X_0F, centre)
            touch = centre + ground.arm
            entries = [*(touch if rotation is None else rotation @ touch), ground.depth]
            return found.set(row, [*entries, *(ground.C.ravel() if rotation is None else ())])

        on: Table = loop(on_point, found, layout.rows)
        return on

    found = loop(on_link, zeros_table((len(points), 4 if rotation is not None else 13)), len(layout.links))
    entries: Array = found[:]
    return entries


def joint_constraints(world: World, q: Array, v: Array) -> list[Constraint]:
    """Joint limits, dry friction, and drives with an effort limit; then limits of tendons."""
    out = []
    for k, joint in enumerate(world.joints):
        scale = joint.load * world.h / joint.inertia
        speed = abs(v[k]) + scale
        if joint.lower is not None or joint.upper is not None:
            angle = q[position(world, k)]
            law, idle = limit_law(world, k, angle, v[k]), where(limit_depth(world, k, angle)[0] <= 0.0, 1.0, 0.0)
            out.append(Constraint(law, (k,), None, None, speed, joint.inertia, scale, idle, label=("limit", k)))
        if constant(joint.friction) != 0.0:
            # a parameter may be zero, and the law must not be singular
            known = constant(joint.friction) is not None
            friction = (
                joint.friction if known else np.maximum(joint.friction, by_precision(NEGLIGIBLE, NEGLIGIBLE_SINGLE) * joint.load)
            )
            S = friction * world.h
            kappa = world.least_smoothing * S * S / joint.inertia
            dry = Polytope.of(np.array([[2.0 * S]]), kappa, np.array([-S]))
            out.append(Constraint(dry, (k,), None, None, speed, joint.inertia, scale, label=("dry friction", k)))
        if joint.drive_yields and joint.drive_effort is not None:
            drive = drive_law(world, k, q[position(world, k)], speed)
            out.append(Constraint(drive, (k,), None, None, speed, joint.inertia, scale, label=("drive", k)))
    for k, tendon in enumerate(world.tendons, start=len(world.joints)):
        length, rate, forces = tendon.length(q), tendon.rate(v), tendon.forces
        scale = forces.load * world.h / forces.inertia
        law, idle = limit_law(world, k, length, rate), where(limit_depth(world, k, length)[0] <= 0.0, 1.0, 0.0)
        J, speed = np.array([tendon.coefficients], dtype=object), abs(rate) + scale
        out.append(Constraint(law, tendon.path, J, None, speed, forces.inertia, scale, idle, label=("tendon", k)))
    return out


def drive_law(world: World, k: int, angle: Any, max_speed: Any) -> Drive:
    """tau = clip(force + K (target - q - h v) - B v, -effort, effort) of a joint's drive, with v after the step.

    `max_speed`: a bound on the velocity before the step and its change by gravity.
    """
    joint, h = world.joints[k], world.h
    w = h * (joint.drive_force + joint.drive_stiffness * (joint.drive_target - angle))
    G = h * joint.drive_damping + h * h * joint.drive_stiffness
    S = h * joint.drive_effort
    return Drive(w, G, S, joint.inertia, np.minimum(S, abs(w) + G * max_speed) + NEGLIGIBLE * (h * joint.load))


def impact_smoothing(mass: Any, velocity_scale: Any, S: Any, square: Any) -> Any:
    """A fraction of the energy that an impact can dissipate: speed times the smaller of S and mass times speed.

    `square`: the squared speed; speeds below `velocity_scale` do not count. In steady sliding friction is smaller by this
    fraction, at any dt.
    """
    speed = np.sqrt(square + velocity_scale * velocity_scale)
    return (IMPACT * mass) * (square * S / (S + mass * speed))


def limit_law(world: World, k: int, angle: Any, speed: Any) -> Polytope:
    """The law of the limits of a joint, or tendon (World.limited), at an angle; `speed` is that before the step."""
    joint = world.limited(k)
    depth, inward = limit_depth(world, k, angle)
    scale = joint.load * world.h / joint.inertia
    # in terms of the depth under the load: at 1, half of it supports that load
    x = depth * (1.0 / joint.depth)
    S = depth_power(world, x) * (2.0 * joint.load * world.h)
    smoothing = np.maximum(LIMIT_SMOOTHING * world.smoothing, world.least_smoothing)
    kappa = smoothing * joint.inertia * scale * scale + impact_smoothing(joint.inertia, scale, S, speed * speed)
    return Polytope.of(np.array([[where(inward, S, -S)]], dtype=object), kappa + recovery_smoothing(world, k, x, speed))


def limit_depth(world: World, k: int, angle: Any) -> tuple[Any, Any]:
    """(how far a joint is beyond its nearer limit, negative inside; whether that is the lower one)."""
    joint = world.limited(k)
    if joint.lower is None or joint.upper is None:
        return (angle - joint.upper, False) if joint.lower is None else (joint.lower - angle, True)
    below, above = joint.lower - angle, angle - joint.upper
    return np.maximum(below, above), below >= above


def recovery_smoothing(world: World, k: int, x: Any, speed: Any) -> Any:
    """The smoothing that moves a joint far beyond its limit back, J; x: the depth, relative to that under the joint's load.

    The impulse L h of a load moves the joint at kappa / (L h): kappa = (I w + load h) w gives about the speed w to a joint by
    itself, and to one under its load. w is the distance beyond RECOVERY_DEPTH over RECOVERY_TIME, bounded for large ones, and
    kappa is zero for a joint that is as fast already. Twice continuously differentiable.
    """
    joint = world.limited(k)
    unit = joint.depth / np.maximum(RECOVERY_TIME, 4.0 * world.h)
    far = np.maximum(x - RECOVERY_DEPTH, 0.0)
    near, bounded = 1.0 + far, 1.0 + far * (1.0 / RECOVERY_RANGE)
    per = 1.0 / (near * bounded)
    w, v = far * (near * per), speed * (1.0 / unit)
    c = np.maximum(w * w - v * v, 0.0)
    t = np.minimum(c, 1.0)
    square = (c - t) + t * t * t * (1.0 - 0.5 * t)
    return square * (joint.inertia * unit * unit + joint.load * world.h * unit * (bounded * per))


def position(world: World, k: int) -> int:
    """The index in q of the joint with the single velocity coordinate k."""
    for link in world.model.links:
        if link.v.start == k and link.kind.nv == 1:
            return int(link.q.start)
    raise AssertionError(f"coordinate {k} is not a joint of one coordinate")
