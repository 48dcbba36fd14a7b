"""Numbers in robot files, by one strict grammar: sign, digits, fraction, exponent. Never a locale, a unit, hex, nan or inf."""

from __future__ import annotations

import math
import re

from condyle.robot.report import quoted

# possessive (++), so that no text makes it slow
GRAMMAR = re.compile(r"[+-]?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?+")
SPACE = " \t\r\n"  # white space in XML; str.split() would take more

# what people write instead, and the cure
COMMA = re.compile(r"([+-]?+[0-9]{1,20}),([0-9]{1,20})")
UNIT = re.compile(r"[+-]?+[0-9.]++(?:[eE][+-]?+[0-9]++)?+\s*+(mm|cm|m|deg|rad|°|kg|g|N|Nm|s|%)")


def number(text: str) -> float:
    """The finite number that `text` spells; ValueError with a sentence otherwise."""
    stripped = text.strip(SPACE)
    if GRAMMAR.fullmatch(stripped) is None:
        raise ValueError(f"{quoted(text)} is not a number{_cure(stripped)}")
    value = float(stripped)
    if math.isinf(value):
        raise ValueError(f"{quoted(text)} is too large for a 64-bit number")
    return value


def numbers(text: str, count: int) -> tuple[float, ...]:
    """Exactly `count` finite numbers, separated by white space; ValueError with a sentence otherwise."""
    parts = text.split()
    if len(parts) != count:
        cure = ": separate numbers by spaces, without commas" if "," in text else ""
        raise ValueError(f"{quoted(text)} has {len(parts)} {'number' if len(parts) == 1 else 'numbers'}, not {count}{cure}")
    return tuple(number(part) for part in parts)


def _cure(text: str) -> str:
    """How to write what was probably meant."""
    if match := COMMA.fullmatch(text):
        return f": write {match[1]}.{match[2]}"
    if text.endswith(","):
        return ": separate numbers by spaces, without commas"
    if match := UNIT.fullmatch(text):
        return f": write it without the unit '{match[1]}', in SI units (metres, radians, kilograms, seconds)"
    if text.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return ": only finite numbers are allowed"
    if text.lower().lstrip("+-").startswith("0x"):
        return ": write it in decimal"
    if "_" in text:
        return ": write it without underscores"
    if "${" in text or "$(" in text:
        return ": this is a xacro expression; name the file .xacro, or expand it first"
    if not text:
        return ": it is empty"
    return ": write it as -1.5 or 2e-3"
