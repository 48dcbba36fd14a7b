"""Coupled joints and closed loops: whom each mimic joint follows, which loops can move, and how far they are open."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from condyle.errors import RobotError
from condyle.robot.description import LOOP_AXES
from condyle.robot.model import Frame, Loop, Model
from condyle.robot.names import nearest, quoted
from condyle.robot.spatial import Pose


def linear_couplings(model: Model) -> dict[str, tuple[str, float, float]]:
    """Joint -> (leader, multiplier, offset) of every mimic joint, in the order of the links:  q = multiplier * q_leader + offset.

    A leader follows nobody. Chains, q = m1 (m2 q_leader + o2) + o1, are composed without rounding and rounded at the end.
    """
    mimics = {link.joint: link.mimic for link in model.links if link.mimic is not None}
    moving = {link.joint for link in model.links}
    exact: dict[str, tuple[str, Fraction, Fraction]] = {}
    for start in mimics:
        # up the chain, to a joint that follows nobody or is known already
        joint, chain = start, dict[str, None]()
        while joint in mimics and joint not in exact:
            if joint in chain:
                raise RobotError([f"robot '{model.name}': joint '{joint}' follows itself, by {' -> '.join([*chain][:9])}"])
            chain[joint] = None
            joint = mimics[joint].joint
        leader, scale, shift = exact.get(joint, (joint, Fraction(1), Fraction(0)))
        if leader not in moving:
            what = f"joint '{start}' follows joint '{leader}', which does not move: lock both, or neither"
            raise RobotError([f"robot '{model.name}': {what}"])

        # and down again
        for name in reversed(chain):
            m, o = (Fraction(number) for number in (mimics[name].multiplier, mimics[name].offset))
            scale, shift = m * scale, m * shift + o
            exact[name] = leader, scale, shift
    return {name: _rounded(model, name, *exact[name]) for name in mimics}


def _rounded(model: Model, joint: str, leader: str, scale: Fraction, shift: Fraction) -> tuple[str, float, float]:
    try:
        return leader, float(scale), float(shift)
    except OverflowError:
        raise RobotError(
            [f"robot '{model.name}': joint '{joint}' follows joint '{leader}' by a number that is too large"]
        ) from None


# m and rad: what a position solver leaves, or a file written with few digits
CLOSED = 1e-6


def displacement(X_ab: Pose) -> np.ndarray:
    """(x, y, z, rx, ry, rz) of frame b in the axes of frame a: its origin, and the vector of its rotation (axis times angle)."""
    R = np.asarray(X_ab.R, dtype=float)
    sine = np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / 2.0  # axis * sin(angle)
    cosine = (np.trace(R) - 1.0) / 2.0
    angle = float(np.arctan2(np.linalg.norm(sine), cosine))
    if cosine < 0.0:
        # near a half turn the sine fades: (R + R^T)/2 - cos 1 = (1 - cos) n n^T has the axis, up to its sign
        outer = (R + R.T) / 2.0 - cosine * np.eye(3)
        n = outer[int(np.argmax(np.diag(outer)))]
        turn = n / np.linalg.norm(n) * (angle if n @ sine >= 0.0 else -angle)
    else:
        turn = sine * (angle / np.sin(angle) if angle > 0.0 else 1.0)
    return np.concatenate([np.asarray(X_ab.p, dtype=float), turn])


def moving_loops(loops: Iterable[Loop], frames: Sequence[Frame], robot: str) -> tuple[Loop, ...]:
    """The loops between links that move against each other.

    One whose frames are fixed to each other is dropped where it is closed; where it is not, a RobotError says how far it is open.
    """
    known = {frame.name: frame for frame in frames}
    kept, problems = [], []
    for loop in loops:
        who = f"robot '{robot}': loop {quoted(loop.name)}"
        missing = [name for name in (loop.frame_a, loop.frame_b) if name not in known]
        if missing:
            problems.append(f"{who}: frame {quoted(missing[0])} does not exist{nearest(missing[0], list(known))}")
            continue
        a, b = known[loop.frame_a], known[loop.frame_b]
        if a.link != b.link:
            kept.append(loop)
        elif far := _apart(a.pose.inv() @ b.pose, loop.axes):
            problems.append(
                f"{who}: frames {quoted(a.name)} and {quoted(b.name)} are fixed to each other, {far} apart: "
                "hold the joints between them where the loop is closed, or leave the loop out"
            )
    if problems:
        raise RobotError(problems)
    return tuple(kept)


def _apart(X_ab: Pose, axes: Sequence[str]) -> str:
    """How far b is from a in these axes, "0.1 m, 0.2 rad"; nothing where the loop is closed."""
    gap = np.where([axis in axes for axis in LOOP_AXES], displacement(X_ab), 0.0)
    gaps = ((np.linalg.norm(gap[:3]), "m"), (np.linalg.norm(gap[3:]), "rad"))
    return ", ".join(f"{size:.3g} {unit}" for size, unit in gaps if not size <= CLOSED)
