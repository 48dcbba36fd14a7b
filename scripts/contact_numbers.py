"""Print what boxes and balls do against the closed forms of dry friction, at steps of 1 ms and 0.1 ms.

    python scripts/contact_numbers.py

Friction 0.5 and defaults otherwise; tests/simulate/test_contact_laws.py asserts the same with tolerances.
"""

from __future__ import annotations

from math import cos, radians, sin

import numpy as np
from contact_pictures import DT, HALF, MU, RADIUS, REST, G, body, run

import condyle as cd

UP = (0.0, 0.0, 0.0, 1.0)


def turned(degrees: float, height: float) -> list[float]:
    """At `height` above a slope, turned with it: positive slopes rise along x, which is a turn about -y."""
    a = radians(degrees)
    return [-height * sin(a), 0.0, height * cos(a), 0.0, -sin(a / 2.0), 0.0, cos(a / 2.0)]


def rows(dt: float) -> list[tuple[str, float, float]]:
    """(what, expected, measured)."""
    out = []
    box, ball = body("box", cd.Plane(MU), dt=dt), body("ball", cd.Plane(MU), dt=dt)

    xs = run(box, [0.0, 0.0, HALF - REST, *UP], np.zeros(6), 1.0)
    out.append(("box at rest: force, N", G, float(box.contact_forces(xs[-1])[:, 2].sum())))
    out.append(("box at rest: depth, mm", 1e3 * REST, 1e3 * (HALF - xs[-1, 2])))

    xs = run(box, [0.0, 0.0, HALF - REST, *UP], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0], 0.4)
    out.append(("box thrown at 1 m/s: distance, m", 1.0 / (2.0 * MU * G), float(xs[-1, 0])))
    out.append(("  how much deeper it ends, mm", 0.0, 1e3 * (HALF - REST - xs[-1, 2])))

    angle = radians(35.0)
    slope = body("box", cd.Slope(35.0, friction=MU), dt=dt)
    xs = run(slope, turned(35.0, HALF - REST), np.zeros(6), 0.5)
    way = np.hypot(xs[-1, 0] - xs[0, 0], xs[-1, 2] - xs[0, 2])
    t = 0.5
    out.append(("box on 35 degrees: way in 0.5 s, m", 0.5 * G * (sin(angle) - MU * cos(angle)) * t * (t + dt), float(way)))

    creeping = body("box", cd.Slope(np.degrees(np.arctan(MU)) / 2.0, friction=MU), dt=dt)
    xs = run(creeping, turned(float(np.degrees(np.arctan(MU)) / 2.0), HALF - REST), np.zeros(6), 0.5)
    out.append(("creep at half the angle of friction, mm/s", 0.0, 1e3 * float(np.linalg.norm(np.diff(xs[-2:, :3], axis=0)) / dt)))

    xs = run(ball, [0.0, 0.0, RADIUS - REST, *UP], [2.0, 0.0, 0.0, 0.0, 0.0, 0.0], 0.3)
    speed = np.diff(xs[:, 0]) / dt
    slip = speed - RADIUS * xs[1:, 7 + 4]
    out.append(("ball bowled at 2 m/s: speed at the end", 10.0 / 7.0, float(speed[-1])))
    out.append(("  time until it rolls, s", 4.0 / (7.0 * MU * G), float(np.argmax(slip < 1e-2)) * dt))

    tilted = body("ball", cd.Slope(20.0, friction=MU), dt=dt)
    xs = run(tilted, turned(20.0, RADIUS - REST), np.zeros(6), 0.5)
    way = np.hypot(xs[-1, 0] - xs[0, 0], xs[-1, 2] - xs[0, 2])
    out.append(("ball rolls down 20 degrees: way, m", 0.5 * (5.0 / 7.0) * G * sin(radians(20.0)) * t * (t + dt), float(way)))

    for across in (1.0, 8.0):
        xs = run(ball, [0.0, 0.0, RADIUS, *UP], [across, 0.0, -1.0, 0.0, 0.0, 0.0], 0.15)
        out.append((f"ball lands at ({across:.0f}, -1) m/s: rebound, m/s", 0.0, max(float(np.max(np.diff(xs[:, 2]))) / dt, 0.0)))

    distances = []
    for k in range(16):
        a = 2.0 * np.pi * k / 16.0
        end = run(box, [0.0, 0.0, HALF - REST, *UP], [cos(a), sin(a), 0.0, 0.0, 0.0, 0.0], 0.4)[-1]
        distances.append(float(np.hypot(end[0], end[1])))
    out.append(("16 directions: spread over mean", 0.0, float(np.ptp(distances) / np.mean(distances))))
    return out


def main() -> None:
    coarse, fine = rows(DT), rows(DT / 10.0)
    print(f"{'':46s}{'expected':>12s}{'1 ms':>14s}{'0.1 ms':>14s}")
    for (what, expected, a), (_, expected_fine, b) in zip(coarse, fine, strict=True):
        if expected:
            print(f"{what:46s}{expected_fine:12.6g}{a / expected - 1.0:+14.1e}{b / expected_fine - 1.0:+14.1e}   relative")
        else:
            print(f"{what:46s}{expected:12.6g}{a:14.3g}{b:14.3g}")


if __name__ == "__main__":
    main()
