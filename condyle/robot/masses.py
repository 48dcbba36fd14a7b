"""Bodies that can exist: no negative mass, principal moments that some body could have, no joint without inertia."""

from __future__ import annotations

import numpy as np

from condyle.robot.description import Description, JointSpec, LinkSpec
from condyle.robot.report import Report, quoted
from condyle.robot.spatial import Inertia

# moments below this share of the largest moment about the link's own origin are rounding
ROUNDING = 1e-9

# the triangle inequality may be missed by this share of the largest moment: files are written with a few digits
TRIANGLE = 1e-3

# published robots have negative moments of up to 0.4 of the largest (typing errors in small parts); beyond this nothing works
MAX_NEGATIVE = 0.5


def masses(description: Description, order: list[str], report: Report) -> None:
    """Check every link's body, and what every joint has to move; `order` has the links from the root to the tips."""
    before = len(report.problems)
    for link in description.links:
        if link.inertia is not None:
            _body(link, link.inertia, report)
    if len(report.problems) == before:
        _moved(description, order, report)


def _body(link: LinkSpec, body: Inertia, report: Report) -> None:
    """The principal moments a <= b <= c about the centre of mass: of any mass whatsoever, a >= 0 and a + b >= c."""
    who = f"link {quoted(link.name)} <inertial>"
    if body.mass < 0.0:
        report.problem(link.where, f"{who}: mass {body.mass:g} must not be negative")
    if body.mass <= 0.0:
        if np.any(body.I) and body.mass == 0.0:
            report.kept(link.where, f"{who}: an inertia without mass")
        return
    a, b, c = np.linalg.eigvalsh(body.I_com)
    largest = max(abs(a), abs(c))
    a, b, c = (0.0 if abs(moment) <= ROUNDING * largest else float(moment) for moment in (a, b, c))
    moments = f"principal moments {a:.4g}, {b:.4g}, {c:.4g}"
    if largest <= ROUNDING * np.trace(body.I):
        return  # a point
    if a < -MAX_NEGATIVE * largest:
        report.problem(link.where, f"{who}: {moments}: none may be negative; check the signs of ixx ... izz")
    elif a < 0.0:
        report.kept(link.where, f"{who}: {moments}: no body has a negative one")
    elif a + b < c * (1.0 - TRIANGLE):
        report.kept(link.where, f"{who}: {moments}: no body has one larger than the sum of the others")


def _moved(description: Description, order: list[str], report: Report) -> None:
    """At the zero configuration, each joint moves some inertia: M_ii = S^T I S + armature > 0, I of all that it carries."""
    bodies = {link.name: link.inertia or Inertia.zero() for link in description.links}
    joint_of = {joint.child: joint for joint in description.joints}
    inertia: dict[str, float] = {}
    for name in reversed(order):
        joint = joint_of.get(name)
        if joint is None:
            continue
        inertia[joint.name] = _inertia(joint, bodies[name])
        bodies[joint.parent] = bodies[joint.parent] + bodies[name].seen_from(joint.pose)
    followers = _followers(description)
    for joint in description.joints:
        if joint.kind == "fixed" or joint.mimic is not None:
            continue
        total = inertia[joint.name] + sum(scale**2 * inertia[name] for name, scale in followers.get(joint.name, []))
        who = f"joint {quoted(joint.name)}"
        if total < 0.0:
            report.problem(joint.where, f"{who}: the links it moves have the negative inertia {total:.4g}: check their inertias")
        elif total == 0.0:
            report.kept(
                joint.where,
                f"{who} moves no inertia, so that no force has a finite acceleration: give link {quoted(joint.child)} "
                "or one beyond it a mass, or make the joint fixed",
            )


def _inertia(joint: JointSpec, body: Inertia) -> float:
    """The least inertia that a body has along the joint's motions; zero when it is only rounding."""
    n = np.asarray(joint.axis, dtype=float)
    if joint.kind in ("revolute", "continuous"):
        least = n @ body.I @ n / (n @ n)
    elif joint.kind == "prismatic":
        least = body.mass
    elif joint.kind == "planar":
        least = min(body.mass, n @ body.I @ n / (n @ n))
    else:
        least = min(np.linalg.eigvalsh(body.I)[0], body.mass if joint.kind == "free" else np.inf)
    if abs(least) <= ROUNDING * ROUNDING * max(np.trace(body.I), body.mass):
        least = 0.0
    return float(least + joint.armature)


def _followers(description: Description) -> dict[str, list[tuple[str, float]]]:
    """For every joint that others mimic, directly or through others: their names and overall multipliers."""
    by_name = {joint.name: joint for joint in description.joints}
    followers: dict[str, list[tuple[str, float]]] = {}
    for joint in description.joints:
        leader, scale = joint, 1.0
        while leader.mimic is not None:
            scale *= leader.mimic.multiplier
            leader = by_name[leader.mimic.joint]
        if leader is not joint:
            followers.setdefault(leader.name, []).append((joint.name, scale))
    return followers
