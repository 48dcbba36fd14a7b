"""Numbers, attributes and children of an element: what is wrong is a problem, what nobody asked for a note."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from condyle.robot.names import quoted
from condyle.robot.report import Report
from condyle.robot.xml import Element

# possessive (++), so that no text makes it slow
GRAMMAR = re.compile(r"[+-]?+(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?+")
SPACE = " \t\r\n"  # white space in XML; str.split() would take more

# what people write instead, and how to write it
COMMA = re.compile(r"([+-]?+[0-9]{1,20}),([0-9]{1,20})")
UNIT = re.compile(r"[+-]?+[0-9.]++(?:[eE][+-]?+[0-9]++)?+\s*+(mm|cm|m|deg|rad|°|kg|g|N|Nm|s|%)")


def number(text: str) -> float:
    """The finite number that `text` spells; ValueError with a sentence otherwise."""
    stripped = text.strip(SPACE)
    if GRAMMAR.fullmatch(stripped) is None:
        raise ValueError(f"{quoted(text)} is not a number{_advice(stripped)}")
    value = float(stripped)
    if math.isinf(value):
        raise ValueError(f"{quoted(text)} is too large for a 64-bit number")
    return value


def numbers(text: str, count: int) -> tuple[float, ...]:
    """Exactly `count` finite numbers, separated by white space; ValueError with a sentence otherwise."""
    parts = text.split()
    if len(parts) != count:
        advice = ": separate numbers by spaces, without commas" if "," in text else ""
        raise ValueError(f"{quoted(text)} has {len(parts)} {'number' if len(parts) == 1 else 'numbers'}, not {count}{advice}")
    return tuple(number(part) for part in parts)


def _advice(text: str) -> str:
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


class Fields:
    """One element of the file, the owner its sentences name ("joint 'j2'"), and which of its parts have been read."""

    def __init__(self, element: Element, report: Report, owner: str = "") -> None:
        self.element, self.report, self.owner = element, report, owner
        self._read: set[str] = {"xmlns"}

    @property
    def where(self) -> str:
        """The file and line of the element."""
        return self.element.where

    def problem(self, what: str, advice: str = "", rule: str = "error", **about: Any) -> None:
        """A problem at this element: "arm.urdf:41: joint 'j2' <mimic>: ..."."""
        self.report.problem(self.where, f"{self.place}: {what}", advice, rule, element=self.element, **about)

    @property
    def place(self) -> str:
        """The element in a sentence: "joint 'j2' <mimic>"."""
        tag = f"<{self.element.tag}>"
        if not self.owner:
            return tag
        return self.owner if self.owner.startswith(self.element.tag + " ") else f"{self.owner} {tag}"

    # -- attributes

    def has(self, name: str) -> bool:
        """Whether the attribute is written."""
        self._read.add(name)
        return name in self.element.attributes

    def text(self, name: str, default: str | None = None) -> str:
        """The attribute as written; a problem when it is missing or empty and has no default."""
        self._read.add(name)
        value = self.element.attributes.get(name)
        if value is None or (not value.strip() and default is None):
            if default is None:
                what = f"attribute '{name}' is {'missing' if value is None else 'empty'}"
                self.problem(what, rule="attribute-missing", name=name)
            return default or ""
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """The attribute as a number; a problem, and a harmless value, when it is not one."""
        return self.vector(name, 1, None if default is None else (default,))[0]

    def optional(self, name: str) -> float | None:
        """The attribute as a number, None when it is missing."""
        return self.number(name, 0.0) if self.has(name) else None

    def vector(self, name: str, count: int, default: tuple[float, ...] | None = None) -> tuple[float, ...]:
        """The attribute as `count` numbers; a problem, and harmless values, when it is not."""
        harmless = default or (1.0,) * count
        if not self.has(name) and default is not None:
            return default
        text = self.text(name)
        if not text:
            return harmless
        try:
            return (number(text),) if count == 1 else numbers(text, count)
        except ValueError as error:
            self.problem(f"attribute '{name}': {error}", rule="number", name=name, data=count)
            return harmless

    # -- children

    def child(self, tag: str, required: bool = False) -> Fields | None:
        """The one child with this tag; a note, or for the ends of a joint a problem, when there are several.

        A problem, too, when there is none where one is `required`.
        """
        found = list(self.children(tag))
        if len(found) > 1:
            first, second = found[0].element, found[1]
            what = f"is given twice (first in line {first.line})"
            if tag in ("parent", "child"):
                second.problem(what, "delete one", "part-twice", data=first)
            else:
                what = f"{second.place} {what}: the first counts"
                self.report.kept(second.where, what, "part-twice", element=second.element, data=first)
        if not found and required:
            self.problem(f"has no <{tag}>", rule="part-missing", name=tag)
        return found[0] if found else None

    def children(self, tag: str) -> Iterator[Fields]:
        """All children with this tag, in the order written."""
        self._read.add("<" + tag)
        return (Fields(child, self.report, self.owner) for child in self.element.children if child.tag == tag)

    # -- the rest

    def skip(self, *tags: str, why: str) -> None:
        """Children known to say nothing about the physics: one note for each kind."""
        for child in self.element.children:
            if child.tag in tags:
                self._read.add("<" + child.tag)
                self.report.ignored(child.where, f"<{child.tag}> of <{self.element.tag}>, {why}", element=child)

    def finish(self) -> None:
        """Note every attribute and child that nobody read."""
        tag, ignored = self.element.tag, self.report.ignored
        known = sorted(name for name in self._read if not name.startswith(("<", "xmlns")))
        for name in self.element.attributes:
            if name not in self._read and not name.startswith("xmlns:"):
                what = f"unknown attribute {quoted(name)} of <{tag}>"
                ignored(self.where, what, "unknown-attribute", element=self.element, name=name, data=known)
        known = sorted(name[1:] for name in self._read if name.startswith("<"))
        for child in self.element.children:
            if "<" + child.tag not in self._read:
                what = f"unknown element <{quoted(child.tag)[1:-1]}> in <{tag}>"
                ignored(child.where, what, "unknown-element", element=child, data=(known, self.element))
        if self.element.text.strip():
            ignored(self.where, f"text in <{tag}>", element=self.element)
