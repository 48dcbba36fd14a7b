"""Masses and inertias: bodies that are missing, bodies that cannot exist, and numbers that look like another unit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from condyle.doctor.patient import DOUBT, ERROR, HINT, Finding, Patient, listed, named, written
from condyle.doctor.shapes import bounds, estimate, shapes, volume
from condyle.doctor.text import Edits
from condyle.robot.check import MAX_NEGATIVE, ROUNDING, TRIANGLE
from condyle.robot.names import quoted
from condyle.robot.spatial import Inertia
from condyle.robot.xml import Element

MOMENTS = ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
ADMISSIBLE = 1e-6  # of the largest: how far inside of what is possible a corrected inertia lies, so that rounding keeps it there

# a body of size L has a radius of gyration below L / 2; beyond these shares of L it is not this body
TOO_LARGE, TOO_SMALL = 3.0, 1.0 / 300.0
DENSEST = 25_000.0  # kg/m3: osmium has 22,590
MARKER = 0.01  # m: smaller shapes only mark a place
FAR = 1.0  # how many sizes of its shapes a centre of mass may lie outside of them


def bodies(patient: Patient) -> Iterator[Finding]:
    """What is wrong with the body of each link, and which moving parts have none."""
    for link in patient.links:
        inertial = patient.child(link, "inertial")
        if inertial is not None:
            yield from _parts(patient, link, inertial)
            yield from _possible(patient, link, inertial)
            yield from _plausible(patient, link, inertial)
    yield from _missing(patient)


def moments(patient: Patient, link: Element | None) -> np.ndarray | None:
    """The moments about the centre of mass, in the axes of <inertial>, as written; None when they cannot be read."""
    element = patient.child(patient.child(link, "inertial"), "inertia")
    if element is None:
        return None
    values = []
    for name in MOMENTS:
        absent = name in ("ixy", "ixz", "iyz") and name not in element.attributes
        values.append(0.0 if absent else patient.number(element, name))
    if None in values:
        return None
    xx, xy, xz, yy, yz, zz = values
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]], dtype=float)


def body(patient: Patient, link: Element | None) -> tuple[float, np.ndarray] | None:
    """(mass, moments) as written; None when something is missing."""
    mass = patient.number(patient.child(patient.child(link, "inertial"), "mass"), "value")
    I = moments(patient, link)
    return None if mass is None or I is None else (mass, I)


def inertial_lines(found: Inertia, how: str) -> list[str]:
    """An <inertial> with this body, and how it was found in a comment."""
    I = found.I_com
    values = " ".join(f'{name}="{written(float(I[i, j]))}"' for name, i, j in zip(MOMENTS, _ROWS, _COLUMNS, strict=True))
    return [
        "<inertial>",
        f"  <!-- condyle doctor: {how} -->",
        f'  <origin xyz="{listed(_clean(found.com))}" rpy="0 0 0"/>',
        f'  <mass value="{written(float(found.mass))}"/>',
        f"  <inertia {values}/>",
        "</inertial>",
    ]


_ROWS, _COLUMNS = (0, 0, 0, 1, 1, 2), (0, 1, 2, 1, 2, 2)


def _clean(x: np.ndarray) -> np.ndarray:
    """Without what is only rounding."""
    return np.where(np.abs(x) < 1e-12, 0.0, x)


def _said(found: Inertia) -> str:
    return f"{found.mass:.4g} kg, moments {', '.join(f'{m:.3g}' for m in np.diag(found.I_com))} kg m2"


def _parts(patient: Patient, link: Element, inertial: Element) -> Iterator[Finding]:
    """An <inertial> without its mass or its moments."""
    mass, inertia = patient.child(inertial, "mass"), patient.child(inertial, "inertia")
    lost = [f"<{tag}>" for tag, part in (("mass", mass), ("inertia", inertia)) if part is None]
    covers: tuple[str, ...] = (f"{inertial.where}: ", "has no <")
    if mass is not None and "value" not in mass.attributes:
        lost, covers = [*lost, "the value of <mass>"], (f"{mass.where}: ", "attribute 'value' is missing")
    gone = [name for name in ("ixx", "iyy", "izz") if inertia is not None and name not in inertia.attributes]
    if gone and inertia is not None:
        lost, covers = [*lost, " and ".join(gone)], (f"{inertia.where}: ", "is missing")
    if not lost:
        return
    found, how = _scaled(patient, link, patient.number(mass, "value"))
    yield Finding(
        ERROR, "inertial-part", inertial.where, f"{named(link)} <inertial> has no {' and no '.join(lost)}",
        "Write them: URDF wants mass and all moments.", f"writes the whole, {how} ({_said(found)})",
        patient.page.replace(inertial, inertial_lines(found, how)), covers,
    )  # fmt: skip


def _scaled(patient: Patient, link: Element, mass: float | None) -> tuple[Inertia, str]:
    """The estimate for a link, with the mass that is written, if one is."""
    found, how = estimate(patient, link)
    if mass is None or not 1e-9 < mass < 1e6:
        return found, how
    share = mass / found.mass
    return Inertia(mass, found.h * share, found.I * share), f"moments {how}, scaled to the mass written"


def _possible(patient: Patient, link: Element, inertial: Element) -> Iterator[Finding]:
    """A body that can exist: mass not negative, principal moments a <= b <= c with 0 <= a and c <= a + b."""
    element, inertia = patient.child(inertial, "mass"), patient.child(inertial, "inertia")
    mass, I = patient.number(element, "value"), moments(patient, link)
    who = f"link {quoted(link.attributes.get('name', ''))} <inertial>"
    if element is not None and mass is not None and mass < 0.0:
        plain = written(-mass)
        yield Finding(
            ERROR, "mass-negative", element.where, f"{named(link)} has the negative mass {mass:g} kg", f'Write value="{plain}".',
            f'writes value="{plain}"', patient.page.set(element, "value", plain), (f"{who}: mass",),
        )  # fmt: skip
    if inertia is None or I is None or mass == 0.0 or np.abs(I).max() > 1e100 or admissible(I):
        return
    better, how = nearest_body(I)
    a, b, c = np.linalg.eigvalsh(I)
    p = patient.pose(inertial).p
    if max(abs(a), abs(c)) <= ROUNDING * (np.trace(I) + 2.0 * (mass or 0.0) * (p @ p)):
        return  # a point
    a, b, c = (0.0 if abs(m) <= ROUNDING * max(abs(a), abs(c)) else float(m) for m in (a, b, c))
    grave = a < -MAX_NEGATIVE * max(abs(a), abs(c))
    edits: Edits = ()
    for name, i, j in zip(MOMENTS, _ROWS, _COLUMNS, strict=True):
        if float(better[i, j]) != float(I[i, j]):
            edits += patient.page.set(inertia, name, written(float(better[i, j])))
    after = ", ".join(f"{m:.4g}" for m in np.linalg.eigvalsh(better))
    yield Finding(
        ERROR if grave else DOUBT, "inertia-impossible", inertia.where,
        f"{named(link)} has the principal moments {a:.4g}, {b:.4g}, {c:.4g}, which no body has: "
        + ("none may be negative" if a < 0.0 else "none may exceed the sum of the others"),
        "Check the moments against the drawing: signs, and which is which.", f"{how}: principal moments {after}", edits,
        (f"{who}: principal moments",),
    )  # fmt: skip


def admissible(I: np.ndarray, slack: float = TRIANGLE) -> bool:
    """Whether some body has these moments, to within what few digits leave open."""
    a, b, c = np.linalg.eigvalsh(I)
    largest = max(abs(a), abs(c))
    return bool(a >= -ROUNDING * largest and a + b >= c * (1.0 - slack))


def nearest_body(I: np.ndarray) -> tuple[np.ndarray, str]:
    """(moments that a body can have, how they were found): a sign or a product undone where that is enough, else the nearest.

    The second moments of the mass, S = tr(I)/2 - I, must have no negative principal value; those that have are raised to zero.
    """
    plain = I.copy()
    np.fill_diagonal(plain, np.abs(np.diag(I)))
    if np.any(np.diag(I) < 0.0) and admissible(plain, 0.0):
        return plain, "takes the minus signs away"
    alone = np.diag(np.abs(np.diag(I)))
    large = np.abs(I - np.diag(np.diag(I))).max() >= np.diag(alone).max()
    if large and admissible(alone, 0.0):
        return alone, "takes out the products, which are larger than the moments"
    values, axes = np.linalg.eigh(np.trace(I) / 2.0 * np.eye(3) - I)
    values = np.maximum(values, ADMISSIBLE * max(np.abs(values).max(), 1e-300))
    S = (axes * values) @ axes.T
    nearest = np.trace(S) * np.eye(3) - S
    nearest[np.abs(nearest) < 1e-12 * np.abs(nearest).max()] = 0.0
    return (nearest + nearest.T) / 2.0, "writes the nearest that a body can have"


def _plausible(patient: Patient, link: Element, inertial: Element) -> Iterator[Finding]:
    """Numbers that some body could have, but hardly this one."""
    read = body(patient, link)
    found = shapes(patient, link)
    box = bounds(found)
    size = float(np.linalg.norm(box[1] - box[0])) if box is not None else 0.0
    if read is None or read[0] <= 0.0 or box is None or size < MARKER:
        return
    mass, I = read
    gyration = float(np.sqrt(max(np.linalg.eigvalsh(I)[2], 0.0) / mass)) if np.abs(I).max() < 1e100 else 0.0
    where = (patient.child(inertial, "inertia") or inertial).where
    if gyration > TOO_LARGE * size:
        ratio = (gyration / (0.3 * size)) ** 2
        unit = (
            "kg mm2 (divide by 1e6)" if 1e5 < ratio < 1e8 else "kg cm2 (divide by 1e4)" if 1e3 < ratio < 1e5 else "a placeholder"
        )
        yield Finding(
            HINT, "inertia-large", where,
            f"{named(link)} has the inertia of something {2.0 * gyration:.3g} m across, and its shapes are {size:.3g} m",
            f"It may be {unit}: URDF has kg m2.",
        )  # fmt: skip
    elif 0.0 < gyration < TOO_SMALL * size:
        yield Finding(
            HINT, "inertia-small", where,
            f"{named(link)} has the inertia of something {2.0 * gyration:.3g} m across, and its shapes are {size:.3g} m",
            "It may be in other units than kg m2, or a placeholder: simulations with small inertias need small steps.",
        )  # fmt: skip
    filled = sum(volume(each) for each in found)
    if filled > 0.0 and mass / filled > DENSEST:
        grams = ", or in grams" if 100.0 < mass / filled / 1000.0 < 20_000.0 else ""
        yield Finding(
            HINT, "mass-large", (patient.child(inertial, "mass") or inertial).where,
            f"{named(link)} has {mass:g} kg in {filled * 1e3:.3g} litres, denser than any metal",
            f"The mass may be too large{grams}: URDF has kg.",
        )  # fmt: skip
    com = patient.pose(inertial).p
    outside = float(np.linalg.norm(np.maximum(np.maximum(box[0] - com, com - box[1]), 0.0)))
    if outside > FAR * size:
        yield Finding(
            HINT, "com-outside", (patient.child(inertial, "origin") or inertial).where,
            f"{named(link)} has its centre of mass {outside:.3g} m outside of its shapes, which are {size:.3g} m",
            "Check the <origin> of <inertial>: it is in the frame of the link, in metres.",
        )  # fmt: skip


def _missing(patient: Patient) -> Iterator[Finding]:
    """Moving parts without mass: their joint cannot be simulated, unless something beyond them has mass."""
    massive: set[str] = set()  # links of parts that have mass, or carry some
    unsure: set[str] = set()  # links whose mass cannot be told
    for link in patient.links:
        name, read = link.attributes.get("name", ""), body(patient, link)
        if read is None and patient.child(link, "inertial") is not None:
            unsure.add(name)
        if (read is not None and read[0] != 0.0) or name in unsure:
            while name and name not in massive:
                massive.add(name)
                joint = patient.into.get(name)
                name = patient.end(joint, "parent") if joint is not None else ""
    for head, members in patient.bodies.items():
        joint = patient.into.get(head)
        if joint is None or patient.kind(joint) == "fixed" or "type" not in joint.attributes:
            continue
        own = [body(patient, patient.first_link[name]) for name in members]
        if any(read is not None and read[0] != 0.0 for read in own) or unsure.intersection(members):
            if not any(np.any(read[1]) for read in own if read is not None) and not unsure.intersection(members):
                heavy = next(name for name, read in zip(members, own, strict=True) if read is not None and read[0] != 0.0)
                yield from _point(patient, joint, heavy)
            continue
        shaped = [name for name in members if shapes(patient, patient.first_link[name])]
        carries = head in massive
        follows = patient.child(joint, "mimic") is not None
        if (carries or follows) and not shaped:
            continue  # a frame between two joints, or one that is led: common, and harmless
        link = patient.first_link[shaped[0] if shaped and head not in shaped else head]
        inertial = patient.child(link, "inertial")
        found, how = estimate(patient, link)
        lines = inertial_lines(found, how)
        covers = (f"{named(joint)} moves no inertia",)
        turns = any(np.any(read[1]) for read in own if read is not None)  # moments without a mass
        if turns:
            covers = (f"link {quoted(link.attributes.get('name', ''))} <inertial>: an inertia without mass",)
        harmless = carries or follows or turns  # it can be simulated as it is, and only its author knows whether it is so
        yield Finding(
            DOUBT if harmless else ERROR, "no-inertia", (patient.child(inertial, "mass") or inertial or link).where,
            f"{named(link)} has no mass" + ("" if harmless else f", so that {named(joint)} cannot be simulated"),
            "Write an <inertial> with the mass and inertia of the part" + (", if it has any." if harmless else "."),
            "" if harmless else f"writes one, {how} ({_said(found)})",
            () if harmless else patient.page.inside(link, lines) if inertial is None else patient.page.replace(inertial, lines),
            covers,
        )  # fmt: skip


def _point(patient: Patient, joint: Element, name: str) -> Iterator[Finding]:
    """A moving part whose mass is written and whose moments are all zero."""
    link = patient.first_link[name]
    inertial = patient.child(link, "inertial")
    inertia, read = patient.child(inertial, "inertia"), body(patient, link)
    if inertial is None or inertia is None or read is None or patient.kind(joint) == "prismatic":
        return
    found, how = _scaled(patient, link, abs(read[0]))
    R = patient.pose(inertial).R
    I = _clean(R.T @ found.I_com @ R)
    edits: Edits = ()
    for moment, i, j in zip(MOMENTS, _ROWS, _COLUMNS, strict=True):
        if I[i, j] != 0.0:
            edits += patient.page.set(inertia, moment, written(float(I[i, j])))
    yield Finding(
        DOUBT, "inertia-zero", inertia.where, f"{named(link)} has {read[0]:g} kg and no moments, like a point",
        "Write its moments: parts that turn need them.", f"writes {how}", edits, (f"{named(joint)} moves no inertia",),
    )  # fmt: skip
