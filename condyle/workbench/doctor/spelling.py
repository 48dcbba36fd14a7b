"""Misspelt words of a robot file, and numbers written in other ways than URDF's: what is meant, if only one thing can be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches
from math import pi

from condyle.robot.fields import number
from condyle.robot.names import MAX_NAME, MAX_SUGGESTED
from condyle.robot.urdf import JOINT_KINDS

DIGITS = re.compile(r"[0-9]+")

# what other programs and people call URDF's joints
JOINT_TYPES = {
    "hinge": "revolute", "rotational": "revolute", "rotary": "revolute", "rotation": "revolute", "revolve": "revolute",
    "slide": "prismatic", "slider": "prismatic", "linear": "prismatic", "translational": "prismatic",
    "free": "floating", "freeflyer": "floating", "weld": "fixed", "static": "fixed", "rigid": "fixed", "wheel": "continuous",
}  # fmt: skip

# a unit behind a number, and what it is in SI
UNITS = {"mm": 1e-3, "cm": 1e-2, "m": 1.0, "deg": pi / 180.0, "°": pi / 180.0, "rad": 1.0, "kg": 1.0, "g": 1e-3, "N": 1.0,
         "Nm": 1.0, "s": 1.0}  # fmt: skip
WITH_UNIT = re.compile(r"([+-]?+[0-9.]++(?:[eE][+-]?+[0-9]++)?+)\s*+(mm|cm|m|deg|rad|°|kg|g|Nm|N|s)")
DECIMAL_COMMA = re.compile(r"[+-]?+[0-9]{1,20},[0-9]{1,20}")
THOUSANDS = re.compile(r"[+-]?+[1-9][0-9]{0,2},[0-9]{3}")  # one and a bit, or a thousand and more


def close(word: str, known: Sequence[str], cutoff: float = 0.7) -> str:
    """The one known word that `word` must mean: the same but for case and space, or much like it and like no other; else ''."""
    same = [each for each in known if each.strip().lower() == word.strip().lower()]
    if len(same) == 1:
        return same[0]
    if len(known) > MAX_SUGGESTED or len(word) > MAX_NAME:
        return ""
    # another number is another thing
    alike = [each for each in known if len(each) <= MAX_NAME and DIGITS.findall(each) == DIGITS.findall(word)]
    near = get_close_matches(word, alike, n=2, cutoff=cutoff)
    return near[0] if len(near) == 1 else ""


def misspelt(word: str, known: Sequence[str]) -> str:
    """The one known word that `word` is but for its case or a slip: a letter wrong, too many, lost or exchanged, or two in a long
    word; else ''. A known word with something added, such as rpy_deg, is another word.
    """
    same = [each for each in known if each.lower() == word.strip().lower()]
    near = [] if same or len(word) > 40 else [each for each in known if _slip(word.strip().lower(), each.lower())]
    return (same or near)[0] if len(same or near) == 1 else ""


def _slip(word: str, right: str) -> bool:
    most = 1 if len(right) < 6 else 2
    if abs(len(word) - len(right)) > most or any(not c.isalpha() and c not in right for c in word):
        return False
    if word.startswith(right) and word[len(right) :] not in ("s", right[-1]):
        return False
    if word.endswith(right) and word.removesuffix(right) != right[0]:
        return False
    return edit_distance(word, right) <= most


def edit_distance(a: str, b: str) -> int:
    """How many letters must be changed, added, taken out or exchanged with the next to make one word the other."""
    before, last = list[int](), list(range(len(b) + 1))
    for i, x in enumerate(a):
        row = [i + 1]
        for j, y in enumerate(b):
            cost = min(last[j + 1] + 1, row[j] + 1, last[j] + (x != y))
            if i and j and x == b[j - 1] and y == a[i - 1]:
                cost = min(cost, before[j - 1] + 1)
            row.append(cost)
        before, last = last, row
    return last[-1]


def similar(name: str, free: Sequence[str]) -> str:
    """The attribute that an unknown one looks like, among those that are not given; '' if there is none."""
    return close(name, free, 0.6) or next((known for known in free if name.lower().startswith(f"{known}_")), "")


def joint_type(written: str) -> str:
    """The type of joint that a wrong word must mean; '' if none."""
    return JOINT_TYPES.get(written.strip().lower()) or close(written, list(JOINT_KINDS))


def in_si(value: str, name: str, count: int) -> str | None:
    """The `count` numbers of attribute `name` that were probably meant, as URDF writes them; None when that is a guess."""
    parts = re.split(r"[;\s]+", value.strip())
    if count > 1 and not (len(parts) == count and all(DECIMAL_COMMA.fullmatch(part) for part in parts)):
        parts = [part for part in re.split(r"[,;\s]+", value.strip(" ,;\t\r\n()[]")) if part]
    found = [_one(part) for part in parts] if len(parts) <= 8 else []
    numbers = [each for each in found if each is not None]
    if not found or len(numbers) < len(found):
        return None
    if name == "scale" and len(numbers) == 1:
        numbers *= 3
    if name == "rgba" and len(numbers) == 3:
        numbers.append("1")
    return " ".join(numbers) if len(numbers) == count else None


def _one(text: str) -> str | None:
    try:
        number(text)
        return text
    except ValueError:
        pass
    if THOUSANDS.fullmatch(text):
        return None
    if DECIMAL_COMMA.fullmatch(text):
        return text.replace(",", ".")
    unit = WITH_UNIT.fullmatch(text)
    try:
        return written(number(unit[1]) * UNITS[unit[2]]) if unit else None
    except ValueError:
        return None


def written(value: float) -> str:
    """A number as it is put into a file: ten digits, no minus zero."""
    return f"{value + 0.0:.10g}"


def listed(values: Sequence[float]) -> str:
    """Numbers as they are put into a file."""
    return " ".join(written(float(value)) for value in values)
