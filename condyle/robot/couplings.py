"""Coupled joints: whom each mimic joint follows in the end, through however many others."""

from __future__ import annotations

from fractions import Fraction

from condyle.errors import RobotError
from condyle.robot.model import Model


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
