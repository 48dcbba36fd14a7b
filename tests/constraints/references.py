"""What closed mechanisms do, from books and by hand: nothing here uses the dynamics of Condyle.

One coordinate: the four-bar, the slider-crank and the parallelogram chain as  I(t) t'' + I'(t)/2 t'^2 + V'(t) = torque, with
kinematic ratios in closed form. They take a float, or a gmpy2.mpfr inside `with gmpy2.context(precision=256)`.
Seven bodies: Andrews' squeezer as published, with multipliers and the published end.
Any loops: M a + c = tau + A^T multipliers,  A a + Adot v = 0,  with M, c and A from Pinocchio.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from constraints import mechanisms as m
from dynamics.random_robots import pinocchio_model

import condyle as cd

G = 9.81
Number = Any  # a float or a gmpy2.mpfr


def maths(x: Number) -> Any:
    """The functions for numbers of this kind: those of math, or those of gmpy2 in the caller's precision."""
    if isinstance(x, float):
        return math
    import gmpy2

    return gmpy2


# -- one coordinate: curves and their derivatives by it


@dataclass(frozen=True)
class Curve:
    """A number or a vector at some coordinate t, and its first and second derivatives by t."""

    value: Any
    first: Any
    second: Any

    def __add__(self, other: Curve) -> Curve:
        return Curve(self.value + other.value, self.first + other.first, self.second + other.second)

    def __sub__(self, other: Curve) -> Curve:
        return Curve(self.value - other.value, self.first - other.first, self.second - other.second)


def unit(angle: Number) -> np.ndarray:
    """u = (cos, -sin): where x points after a turn about y, in (x, z)."""
    return np.array([maths(angle).cos(angle), -maths(angle).sin(angle)])


def normal(angle: Number) -> np.ndarray:
    """du/dangle = (-sin, -cos), which is -z turned; its derivative is -u."""
    return np.array([-maths(angle).sin(angle), -maths(angle).cos(angle)])


def rotated(turn: Curve, at: m.Point) -> Curve:
    """The path from a body's hinge to its point (x, z), p = x u - z n, while the body turns."""
    u, n = unit(turn.value), normal(turn.value)
    p, dp = at[0] * u - at[1] * n, at[0] * n + at[1] * u
    return Curve(p, dp * turn.first, dp * turn.second - p * turn.first**2)


@dataclass(frozen=True)
class Equation:
    """I t'' + derivative t'^2 + pull = torque at one t, where derivative is I'/2 and pull is V'."""

    inertia: Number
    derivative: Number
    pull: Number
    potential: Number  # V, zero at the height of the origin

    def acceleration(self, rate: Number, torque: Number) -> Number:
        return (torque - self.derivative * rate * rate - self.pull) / self.inertia

    def torque(self, rate: Number, acceleration: Number) -> Number:
        return self.inertia * acceleration + self.derivative * rate * rate + self.pull

    def energy(self, rate: Number) -> Number:
        return self.inertia * rate * rate / 2 + self.potential


def equation(bodies: Iterable[tuple[float, float, Curve, Curve]]) -> Equation:
    """Of bodies (mass, moment, centre of mass, turn):  I = sum m c'.c' + J a'^2,  I'/2 = sum m c'.c'' + J a' a''."""
    inertia = derivative = pull = potential = 0
    for mass, moment, c, turn in bodies:
        inertia += mass * (c.first @ c.first) + moment * turn.first**2
        derivative += mass * (c.first @ c.second) + moment * turn.first * turn.second
        pull += G * (mass * c.first[1])
        potential += G * (mass * c.value[1])
    return Equation(inertia, derivative, pull, potential)


def _rod(rod: m.Bar, hinge: Curve, turn: Curve) -> tuple[float, float, Curve, Curve]:
    return rod.mass, rod.moment, hinge + rotated(turn, rod.com), turn


def _fixed(x: float, z: float) -> Curve:
    return Curve(np.array([x, z]), np.zeros(2), np.zeros(2))


# -- the crank-rocker


def four_bar_turns(crank: Number) -> tuple[Curve, Curve, Curve]:
    """The turns of crank, coupler and rocker from the x axis, of  a u1 + b u2 = P + c u3  (Freudenstein 1954).

    With d = P - a u1, the rocker obeys  d.u3 = (b^2 - c^2 - d.d) / 2c = k,  a quadratic in the tangent of half its angle:
    (k + dx) t^2 + 2 dz t + k - dx = 0. Ratios by dot products of the loop's derivatives with u2 and u3.
    """
    f = maths(crank)
    a, b, c = m.CRANK.length, m.COUPLER.length, m.ROCKER.length
    u1, n1 = unit(crank), normal(crank)
    d = np.array(m.GROUND) - a * u1
    k = (b * b - c * c - d @ d) / (2 * c)
    rocker = 2 * f.atan2(-d[1] - f.sqrt(d @ d - k * k), k + d[0])
    u3, n3 = unit(rocker), normal(rocker)
    bu2 = d + c * u3
    coupler = f.atan2(-bu2[1], bu2[0])
    u2, n2 = unit(coupler), normal(coupler)
    # a n1 + b n2 r2 = c n3 r3
    r2, r3 = -a * (n1 @ u3) / (b * (n2 @ u3)), a * (n1 @ u2) / (c * (n3 @ u2))
    # -a u1 - b u2 r2^2 + b n2 s2 = -c u3 r3^2 + c n3 s3
    s2 = (a * (u1 @ u3) + b * (u2 @ u3) * r2**2 - c * r3**2) / (b * (n2 @ u3))
    s3 = (c * (u3 @ u2) * r3**2 - a * (u1 @ u2) - b * r2**2) / (c * (n3 @ u2))
    return Curve(crank, 1, 0), Curve(coupler, r2, s2), Curve(rocker, r3, s3)


def four_bar_curve(crank: Number) -> Curve:
    """q of the tree by the crank's angle, so that v = first w and a = first w' + second w^2."""
    one, two, three = four_bar_turns(crank)
    return _stacked(one, two - one, three)


def four_bar_equation(crank: Number) -> Equation:
    """The four-bar's equation of motion in the crank's angle."""
    one, two, three = four_bar_turns(crank)
    knee = rotated(one, (m.CRANK.length, 0.0))
    return equation([_rod(m.CRANK, _fixed(0.0, 0.0), one), _rod(m.COUPLER, knee, two), _rod(m.ROCKER, _fixed(*m.GROUND), three)])


def _stacked(*curves: Curve) -> Curve:
    return Curve(*(np.array([getattr(c, part) for c in curves]) for part in ("value", "first", "second")))


# -- the slider-crank


def slider_crank_turns(crank: Number) -> tuple[Curve, Curve, Curve]:
    """The turns of crank and rod from the x axis, and the slider's height s, of  r u1 + l u2 = (e, s).

    The first row is  r cos t + l cos p = e  with the rod upwards, sin p < 0; the second is  s = -r sin t - l sin p.
    """
    f = maths(crank)
    r, l, e = m.ARM.length, m.ROD.length, m.OFFSET
    c1, s1 = f.cos(crank), f.sin(crank)
    c2 = (e - r * c1) / l
    s2 = -f.sqrt(1 - c2 * c2)
    p1 = -r * s1 / (l * s2)
    p2 = -(r * c1 + l * c2 * p1**2) / (l * s2)
    slide = Curve(-r * s1 - l * s2, -r * c1 - l * c2 * p1, r * s1 + l * s2 * p1**2 - l * c2 * p2)
    return Curve(crank, 1, 0), Curve(f.atan2(s2, c2), p1, p2), slide


def slider_crank_curve(crank: Number) -> Curve:
    """q of the tree by the crank's angle."""
    one, two, slide = slider_crank_turns(crank)
    return _stacked(one, two - one, slide)


def slider_crank_equation(crank: Number) -> Equation:
    """The slider-crank's equation of motion in the crank's angle."""
    one, two, slide = slider_crank_turns(crank)
    pin = Curve(*(np.array([x, z]) for x, z in ((m.OFFSET, slide.value), (0, slide.first), (0, slide.second))))
    return equation(
        [
            _rod(m.ARM, _fixed(0.0, 0.0), one),
            _rod(m.ROD, rotated(one, (m.ARM.length, 0.0)), two),
            (m.SLIDER, 0.0, pin, Curve(0, 0, 0)),
        ]
    )


# -- the row of parallelograms: one pendulum that stands on its head


def four_bars_equation(count: int, angle: Number) -> Equation:
    """n + 1 rods turn, n couplers only travel:  I = (n + 1)/3 + n,  V = g ((n + 1)/2 + n) cos t.

    A third is the float 1/12 + 1/4, the moment that the model has.
    """
    f, number = maths(angle), type(angle)
    weight = number(G) * (1.5 * count + 0.5)
    return Equation(number(1 / 12 + 0.25) * (count + 1) + count, number(0), -weight * f.sin(angle), weight * f.cos(angle))


# -- motions


def follow(rate: Callable[[Any], Any], x: Any, seconds: Number, steps: int, order: int = 12) -> Any:
    """x after `seconds` of x' = rate(x): Gragg's method extrapolated to an even order (Hairer, Nørsett, Wanner I, II.9)."""
    for _ in range(steps):
        x = _extrapolated(rate, x, seconds / steps, order // 2)
    return x


def _extrapolated(rate: Callable[[Any], Any], x: Any, h: Number, columns: int) -> Any:
    """One step by Neville's scheme in h^2 over the step numbers 2, 4, 6, ..."""
    row: list[Any] = []
    for j in range(1, columns + 1):
        new = [_midpoint(rate, x, h, 2 * j)]
        for i, before in enumerate(row):
            ratio = j * j, (j - i - 1) ** 2
            new.append(new[i] + (new[i] - before) * ratio[1] / (ratio[0] - ratio[1]))
        row = new
    return row[-1]


def _midpoint(rate: Callable[[Any], Any], x: Any, h: Number, steps: int) -> Any:
    """Gragg's smoothed midpoint rule, whose error has even powers of h only."""
    h = h / steps
    before, now = x, x + h * rate(x)
    for _ in range(steps - 1):
        before, now = now, before + 2 * h * rate(now)
    return (before + now + h * rate(now)) / 2


def swing(
    equation_at: Callable[[Number], Equation], angle: Number, rate: Number, seconds: Number, steps: int, order: int = 12
) -> tuple[Number, Number]:
    """(angle, rate) after a passive motion of a mechanism with one coordinate, in the precision of its arguments."""

    def rates(x: np.ndarray) -> np.ndarray:
        return np.array([x[1], equation_at(x[0]).acceleration(x[1], 0)])

    end = follow(rates, np.array([angle, rate]), seconds, steps, order)
    return end[0], end[1]


# -- Andrews' squeezer as published, in the book's order of angles: beta, theta, gamma, phi, delta, omega, epsilon

# at t = 0 and at t = 0.03 s: Mazzia and Magherini, Test Set for Initial Value Problem Solvers, problem "andrews"
ANDREWS_ACCELERATION = (14222.4439199541138705911625887, -10666.8329399655854029433719415, 0.0, 0.0, 0.0, 0.0, 0.0)
ANDREWS_MULTIPLIERS = (98.5668703962410896057654982170, -6.12268834425566265503114393122, 0.0, 0.0, 0.0, 0.0)
# the end is published with an error of about 1.2e-9 in beta: it is on the loops to the last digit, but 1.0e-12 s late
ANDREWS_END = (
    0.1581077119629904e2,
    -0.1575637105984298e2,
    0.4082224013073101e-1,
    -0.5347301163226948,
    0.5244099658805304,
    0.5347301163226948,
    0.1048080741042263e1,
)


def andrews_mass(p: np.ndarray) -> np.ndarray:
    """M(p): the chains k1 k2, k3, k5 k4 and k7 k6, which only the loops connect."""
    k1, k2, k3, k4, k5, k6, k7 = m.PLATES.values()
    e, f = m.E - m.EA, m.ZF - m.FA
    cos_theta, sin_phi, sin_omega = np.cos(p[1]), np.sin(p[3]), np.sin(p[5])
    M = np.zeros((7, 7))
    M[0, 0] = k1.mass * m.RA**2 + k2.mass * (m.RR**2 - 2 * m.DA * m.RR * cos_theta + m.DA**2) + k1.moment + k2.moment
    M[0, 1] = M[1, 0] = k2.mass * (m.DA**2 - m.DA * m.RR * cos_theta) + k2.moment
    M[1, 1] = k2.mass * m.DA**2 + k2.moment
    M[2, 2] = k3.mass * (m.SA**2 + m.SB**2) + k3.moment
    M[3, 3] = k4.mass * e**2 + k4.moment
    M[3, 4] = M[4, 3] = k4.mass * (e**2 + m.ZT * e * sin_phi) + k4.moment
    M[4, 4] = k4.mass * (m.ZT**2 + 2 * m.ZT * e * sin_phi + e**2) + k5.mass * (m.TA**2 + m.TB**2) + k4.moment + k5.moment
    M[5, 5] = k6.mass * f**2 + k6.moment
    M[5, 6] = M[6, 5] = k6.mass * (f**2 - m.U * f * sin_omega) + k6.moment
    M[6, 6] = k6.mass * (f**2 - 2 * m.U * f * sin_omega + m.U**2) + k7.mass * (m.UA**2 + m.UB**2) + k6.moment + k7.moment
    return M


def andrews_spring(gamma: float) -> tuple[np.ndarray, float]:
    """(force on the point d of body 3, its torque about the hinge of body 3): -c0 (L - l0) along the path from c to d."""
    arm = np.array([m.SD * np.cos(gamma) + m.SC * np.sin(gamma), m.SD * np.sin(gamma) - m.SC * np.cos(gamma)])
    path = np.array(m.B) + arm - np.array(m.C)
    length = np.hypot(*path)
    force = -m.STIFFNESS * (length - m.REST) / length * path
    return force, float(arm[0] * force[1] - arm[1] * force[0])


def andrews_forces(p: np.ndarray, v: np.ndarray) -> np.ndarray:
    """f(p, v): drive, spring, and what the velocities do, on the right of M p'' + G^T multipliers = f."""
    k2, k4, k6 = m.PLATES["k2"].mass * m.DA * m.RR, m.PLATES["k4"].mass * (m.E - m.EA), m.PLATES["k6"].mass * (m.ZF - m.FA)
    sin_theta, cos_phi, cos_omega = np.sin(p[1]), np.cos(p[3]), np.cos(p[5])
    return np.array(
        [
            m.DRIVE - k2 * v[1] * (v[1] + 2 * v[0]) * sin_theta,
            k2 * v[0] ** 2 * sin_theta,
            andrews_spring(p[2])[1],
            k4 * m.ZT * v[4] ** 2 * cos_phi,
            -k4 * m.ZT * v[3] * (v[3] + 2 * v[4]) * cos_phi,
            -k6 * m.U * v[6] ** 2 * cos_omega,
            k6 * m.U * v[5] * (v[5] + 2 * v[6]) * cos_omega,
        ]
    )


# the vectors of the loops: length, its angle as a sum of entries of p, and how far that is from the vector's own angle;
# k2's end is RR along beta and -D along beta + theta, and from it three chains lead back to B, A and A
_K2 = ((m.RR, (0,), 0.0), (-m.D, (0, 1), 0.0))
_BACK = (
    (m.B, ((m.SS, (2,), -np.pi / 2),)),
    (m.A, ((m.E, (3, 4), -np.pi / 2), (m.ZT, (4,), 0.0))),
    (m.A, ((m.ZF, (5, 6), 0.0), (m.U, (6,), -np.pi / 2))),
)


def andrews_constraints(p: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(g, G, G' v): the six conditions that the ends of k3, k4 and k6 are at the end of k2, G = dg/dp, and the rate of G."""
    g, G, rate = np.zeros(6), np.zeros((6, 7)), np.zeros(6)
    for k, (foot, back) in enumerate(_BACK):
        rows = slice(2 * k, 2 * k + 2)
        g[rows] -= foot
        for sign, vectors in ((1.0, _K2), (-1.0, back)):
            for length, places, beyond in vectors:
                angle = p[list(places)].sum() + beyond
                along = sign * length * np.array([np.cos(angle), np.sin(angle)])
                g[rows] += along
                G[rows, list(places)] += np.array([-along[1], along[0]])[:, None]
                rate[rows] -= along * v[list(places)].sum() ** 2
    return g, G, rate


def andrews_acceleration(p: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(p'', multipliers) of the equations with index 1:  M p'' + G^T multipliers = f,  G p'' = -G' v."""
    _, G, rate = andrews_constraints(p, v)
    x = np.linalg.solve(np.block([[andrews_mass(p), G.T], [G, np.zeros((6, 6))]]), np.concatenate([andrews_forces(p, v), -rate]))
    return x[:7], x[7:]


@cache
def andrews_motion(seconds: float = 0.03, steps: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """(p, v) after the start from rest, in the book's order."""
    start = np.concatenate([m.SQUEEZER_START, np.zeros(7)])
    end = follow(lambda x: np.concatenate([x[7:], andrews_acceleration(x[:7], x[7:])[0]]), start, seconds, steps)
    return end[:7], end[7:]


def squeezer_forces(q: np.ndarray) -> np.ndarray:
    """Drive and spring as joint forces of the tree `squeezer()`, in its own order."""
    tau = np.zeros(7)
    tau[m.TREE.index("beta")] = m.DRIVE
    tau[m.TREE.index("gamma")] = andrews_spring(q[m.TREE.index("gamma")])[1]
    return tau


# -- any loops, by Pinocchio


def twin_of(robot: cd.Robot) -> Any:
    """The robot in Pinocchio, made once."""
    if robot not in _TWINS:
        _TWINS[robot] = pinocchio_model(robot.model)
    return _TWINS[robot]


_TWINS: dict[cd.Robot, Any] = {}


@dataclass(frozen=True)
class Moving:
    """A frame as it moves: place, and of its origin and its turn the velocity, the Jacobian and the Jacobian's rate times v."""

    R: np.ndarray
    p: np.ndarray
    velocity: np.ndarray
    J: np.ndarray
    Jdot_v: np.ndarray


def moving(robot: cd.Robot, q: np.ndarray, v: np.ndarray, name: str) -> Moving:
    """A frame of the open robot by Pinocchio, all in the axes of the world."""
    import pinocchio as pin

    frame = robot.model.frame(name)
    if frame.link < 0:
        return Moving(frame.pose.R, frame.pose.p, np.zeros(6), np.zeros((6, robot.nv)), np.zeros(6))
    twin = twin_of(robot)
    data, which = twin.createData(), twin.getFrameId(name)
    pin.computeJointJacobiansTimeVariation(twin, data, q, v)
    pin.framesForwardKinematics(twin, data, q)
    J, Jdot = (
        get(twin, data, which, pin.ReferenceFrame.LOCAL_WORLD_ALIGNED)
        for get in (pin.getFrameJacobian, pin.getFrameJacobianTimeVariation)
    )
    return Moving(data.oMf[which].rotation.copy(), data.oMf[which].translation.copy(), J @ v, J, Jdot @ v)


def closure(robot: cd.Robot, q: np.ndarray, v: np.ndarray, loops: Iterable[m.Loop]) -> tuple[np.ndarray, np.ndarray]:
    """(A, Adot v) of the loops at a closed state: A v is the rate of the displacements that should stay zero.

    r = Ra^T d,  d = pb - pa:  r'' = Ra^T (d'' - wa' x d - 2 wa x d' + wa x (wa x d)).  Two or three rotations are zero as long
    as that many components of Ra^T (wb - wa) are; one alone depends on what is meant by its angle, and is refused.
    """
    rows, rates = [], []
    for name_a, name_b, axes in loops:
        a, b = moving(robot, q, v, name_a), moving(robot, q, v, name_b)
        straight, turns = m.axes_of(axes)
        if len(turns) == 1:
            raise ValueError("one rotation alone has no Jacobian without a definition of its angle")
        d, d1, w = b.p - a.p, (b.velocity - a.velocity)[:3], a.velocity[3:]
        J = b.J - a.J
        fast = b.Jdot_v - a.Jdot_v
        linear = J[:3] + np.cross(d, a.J[3:], axisb=0, axisc=0)
        linear_rate = fast[:3] - np.cross(a.Jdot_v[3:], d) - 2.0 * np.cross(w, d1) + np.cross(w, np.cross(w, d))
        turn_rate = fast[3:] - np.cross(w, b.velocity[3:])
        rows += [(a.R.T @ linear)[straight], (a.R.T @ J[3:])[turns]]
        rates += [(a.R.T @ linear_rate)[straight], (a.R.T @ turn_rate)[turns]]
    return np.concatenate(rows), np.concatenate(rates)


def tangent(A: np.ndarray, free: list[int]) -> np.ndarray:
    """T with A T = 0 and the unit matrix in the rows `free`: v = T w for the velocities w of the independent joints."""
    bound = [i for i in range(A.shape[1]) if i not in free]
    T = np.zeros((A.shape[1], len(free)))
    T[free] = np.eye(len(free))
    T[bound] = -np.linalg.solve(A[:, bound], A[:, free])
    return T


def with_multipliers(
    robot: cd.Robot, q: np.ndarray, v: np.ndarray, tau: np.ndarray, A: np.ndarray, Adot_v: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(a, multipliers) of  M a + c = tau + A^T multipliers,  A a = -Adot v;  A of full rank, M and c by Pinocchio.

    The loops' joint forces are A^T multipliers.
    """
    import pinocchio as pin

    twin = twin_of(robot)
    data = twin.createData()
    M, c = pin.crba(twin, data, q), pin.nonLinearEffects(twin, data, q, v)
    M = np.triu(M) + np.triu(M, 1).T
    left = np.block([[M, -A.T], [A, np.zeros((len(A), len(A)))]])
    x = np.linalg.solve(left, np.concatenate([tau - c, -Adot_v]))
    return x[: robot.nv], x[robot.nv :]
