"""The textbook robots: pendulum, double pendulum, cart-pole, and a chain of any number of links, all swinging about y.

Sizes are ours: pendulums have bobs of 1 kg, points, on massless rods of 1 m, so that q'' = -(g/l) sin q; links of a chain
are uniform rods of 0.2 m, 0.2 kg and radius 0.01 m; both hang down at zero. The cart-pole is that of Barto, Sutton and
Anderson (1983): cart 1 kg, pole 0.1 kg and 1 m, track +-2.4 m, push 10 N, upright at zero. Nothing has friction.
"""

from __future__ import annotations

from condyle.robot.description import Description
from condyle.robot.parts import BLUE, DARK, RED, STEEL, X, Y, body, box, frame, joint, link, pose, rod, solid, sphere

MAX_CHAIN = 1_000  # links

LENGTH = 1.0
BOB = 1.0
LINK_LENGTH, LINK_MASS, LINK_RADIUS = 0.2, 0.2, 0.01
CART, POLE, TRACK, PUSH = 1.0, 0.1, 2.4, 10.0


def pendulum() -> Description:
    """One bob on a rod."""
    return _bobs("pendulum", ["swing"])


def double_pendulum() -> Description:
    """A bob on a rod below another."""
    return _bobs("double_pendulum", ["shoulder", "elbow"])


def chain(count: int) -> Description:
    """A hanging chain of uniform rods."""
    base = link("base", None, [box((0.06, 0.06, 0.02), color=DARK)])
    links, joints = [base], []
    for i in range(1, count + 1):
        shape = rod((0.0, 0.0, 0.0), (0.0, 0.0, -LINK_LENGTH), LINK_RADIUS, BLUE if i % 2 else STEEL, kind="cylinder")
        links.append(link(f"link_{i}", solid(LINK_MASS, shape), [shape], [shape]))
        at = pose((0.0, 0.0, -LINK_LENGTH if i > 1 else 0.0))
        joints.append(joint(f"joint_{i}", "continuous", links[i - 1].name, f"link_{i}", at, Y))
    tip = frame("tip", f"link_{count}", (0.0, 0.0, -LINK_LENGTH))
    return Description(f"chain_{count}", tuple(links), tuple(joints), (tip,), source="library")


def cartpole() -> Description:
    """A pole on a cart, upright at zero: the cart slides along x, the pole turns about y."""
    cart = box((0.4, 0.2, 0.15), color=DARK)
    pole = rod((0.0, 0.0, 0.0), (0.0, 0.0, LENGTH), 0.02, RED, kind="cylinder")
    slender = body(POLE, (0.0, 0.0, LENGTH / 2.0), (POLE * (LENGTH * LENGTH) / 12.0, POLE * (LENGTH * LENGTH) / 12.0, 0.0))
    links = (
        link("rail", None, [box((2.0 * TRACK + 0.4, 0.04, 0.02), pose((0.0, 0.0, -0.085)), STEEL)]),
        link("cart", solid(CART, cart), [cart], [cart]),
        link("pole", slender, [pole], [pole]),
    )
    joints = (
        joint("slide", "prismatic", "rail", "cart", axis=X, limits=TRACK, effort=PUSH),
        joint("hinge", "continuous", "cart", "pole", axis=Y),
    )
    return Description("cartpole", links, joints, (frame("tip", "pole", (0.0, 0.0, LENGTH)),), source="library")


def _bobs(name: str, hinges: list[str]) -> Description:
    """Point masses on massless rods, one below the other."""
    links, joints = [link("base", None, [box((0.1, 0.1, 0.04), color=DARK)])], []
    end = (0.0, 0.0, -LENGTH)
    for i, hinge in enumerate(hinges):
        child = f"rod_{i + 1}" if len(hinges) > 1 else "rod"
        bob = sphere(0.06, end, RED)
        links.append(link(child, body(BOB, end), [rod((0.0, 0.0, 0.0), end, 0.012, STEEL), bob], [bob]))
        joints.append(joint(hinge, "continuous", links[i].name, child, pose(end if i else (0.0, 0.0, 0.0)), Y))
    return Description(name, tuple(links), tuple(joints), (frame("tip", links[-1].name, end),), source="library")
