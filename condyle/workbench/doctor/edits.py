"""A robot file as text that can be edited: where each element stands in it, and edits that leave the rest as it was."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from condyle.robot.report import Edit
from condyle.robot.xml import Element

# comments, character data and instructions, which are passed over, and tags: '/' of an end tag, name, and the rest up to '>'.
# the text has been read as XML before, so these few rules are enough; possessive, so that no text makes them slow
TOKEN = re.compile(
    r"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|<(/?)([^\s/>]++)((?:[^>\"']++|\"[^\"]*+\"|'[^']*+')*+)>",
    re.DOTALL,
)
ATTRIBUTE = re.compile(r"([^\s=]++)\s*+=\s*+(\"[^\"]*+\"|'[^']*+')")


Edits = tuple[Edit, ...]


@dataclass
class _Span:
    """An element in the text: its start tag, and its end tag (empty, behind the start tag, for <x/>)."""

    start: int
    opened: int
    closing: int
    end: int

    @property
    def empty(self) -> bool:
        return self.closing == self.opened and self.end == self.opened


class SourceText:
    """The text of a file whose elements are `root` and below. Every edit is a value; `corrected` applies what fits together."""

    def __init__(self, text: str, root: Element) -> None:
        self.text = text
        self.newline = "\r\n" if "\r\n" in text else "\n"
        self.one_line = "\n" not in text.strip()
        self._spans: dict[int, _Span] = {}
        self._root = root  # keeps the ids of its elements taken
        self._starts: list[int] = []  # of all elements, in the order written, with each one's span and that of its parent
        self._nested: list[tuple[_Span, int]] = []
        elements, waiting = root.walk(), [-1]
        for token in TOKEN.finditer(text):
            if token[2] is None:
                continue
            if token[1]:
                span = self._nested[waiting.pop()][0]
                span.closing, span.end = token.start(), token.end()
                continue
            span = _Span(token.start(), token.end(), token.end(), token.end())
            self._spans[id(next(elements))] = span
            self._starts.append(span.start)
            self._nested.append((span, waiting[-1]))
            if not token[3].endswith("/"):
                waiting.append(len(self._nested) - 1)

    def path(self, at: int) -> tuple[int, ...]:
        """Where the elements begin that hold this place, the outermost first; none for a place outside of all."""
        k = bisect_right(self._starts, at) - 1
        while k >= 0 and self._nested[k][0].end <= at:
            k = self._nested[k][1]
        found: list[int] = []
        while k >= 0:
            found.append(self._starts[k])
            k = self._nested[k][1]
        return tuple(reversed(found))

    # -- attributes

    def set(self, element: Element, name: str, value: str) -> Edits:
        """The attribute gets this value, and is added where there was none."""
        span = self._spans[id(element)]
        found = self._attribute(span, name)
        if found is not None:
            quote = self.text[found.start(2)]
            return (Edit(found.start(2), found.end(2), f"{quote}{_escaped(value, quote)}{quote}"),)
        at = self._tag_end(span)
        return (Edit(at, at, f' {name}="{_escaped(value, chr(34))}"'),)

    def rename_attribute(self, element: Element, old: str, new: str) -> Edits:
        """The attribute gets this name."""
        found = self._attribute(self._spans[id(element)], old)
        return () if found is None else (Edit(found.start(1), found.end(1), new),)

    def drop_attribute(self, element: Element, name: str) -> Edits:
        """The attribute goes, with the white space before it."""
        found = self._attribute(self._spans[id(element)], name)
        if found is None:
            return ()
        return (Edit(self._before_space(found.start()), found.end(), ""),)

    # -- elements

    def rename(self, element: Element, tag: str) -> Edits:
        """The element gets this tag."""
        span, size = self._spans[id(element)], len(element.tag)
        first = Edit(span.start + 1, span.start + 1 + size, tag)
        return (first,) if span.empty else (first, Edit(span.closing + 2, span.closing + 2 + size, tag))

    def drop(self, element: Element) -> Edits:
        """The element goes, and its line too if nothing else is on it."""
        start, end = self._spans[id(element)].start, self._spans[id(element)].end
        before = start - len(self._indent(start))
        at_line_start = before == 0 or self.text[before - 1] == "\n"
        rest = re.compile(r"[ \t]*\r?\n").match(self.text, end)
        if at_line_start and rest is not None:
            return (Edit(before, rest.end(), ""),)
        return (Edit(start, end, ""),)

    def replace(self, element: Element, lines: Sequence[str]) -> Edits:
        """The element becomes these lines."""
        span = self._spans[id(element)]
        return (Edit(span.start, span.end, self._joined(lines, self._indent(span.start))),)

    def inside(self, element: Element, lines: Sequence[str]) -> Edits:
        """These lines become the element's last children."""
        span = self._spans[id(element)]
        outer = self._indent(span.start)
        if self.one_line:
            if span.empty:
                at = self._tag_end(span)
                return (Edit(at, span.opened, f">{self._joined(lines, '')}</{element.tag}>"),)
            return (Edit(span.closing, span.closing, self._joined(lines, "")),)
        inner = outer + "  "
        if element.children and (first := self._indent(self._spans[id(element.children[0])].start)):
            inner = first
        block = self.newline + inner + self._joined(lines, inner)
        if span.empty:
            at = self._tag_end(span)
            return (Edit(at, span.opened, f">{block}{self.newline}{outer}</{element.tag}>"),)
        # behind the last child, before the white space that indents the end tag
        at = self._before_space(span.closing)
        tail = "" if "\n" in self.text[at : span.closing] else self.newline + outer
        return (Edit(at, at, block + tail),)

    def corrected(self, groups: Iterable[Edits]) -> tuple[str, list[int]]:
        """The text after these groups of edits, and which groups were made; one that overlaps an earlier one is left out."""
        made: list[int] = []
        taken: list[Edit] = []  # in the order of the text
        for number, group in enumerate(groups):
            if group and all(_fits(taken, edit) for edit in group):
                for edit in group:
                    insort(taken, edit, key=_stretch)
                made.append(number)
        parts, at = [], 0
        for edit in taken:
            parts += [self.text[at : edit.start], edit.text]
            at = edit.end
        return "".join([*parts, self.text[at:]]), made

    # -- the text

    def _attribute(self, span: _Span, name: str) -> re.Match[str] | None:
        at = span.start + 1
        while not self.text[at].isspace() and at < span.opened - 1:
            at += 1
        return next((m for m in ATTRIBUTE.finditer(self.text, at, span.opened) if m[1] == name), None)

    def _tag_end(self, span: _Span) -> int:
        """Where the last attribute of the start tag ends."""
        return self._before_space(span.opened - (2 if self.text[span.opened - 2] == "/" else 1))

    def _before_space(self, at: int) -> int:
        """Where the white space before a place begins."""
        while self.text[at - 1].isspace():
            at -= 1
        return at

    def _indent(self, at: int) -> str:
        """The white space between the start of the line and here; none if something else is before."""
        start = at
        while start > 0 and self.text[start - 1] in " \t":
            start -= 1
        if start > 0 and self.text[start - 1] != "\n":
            return ""
        return self.text[start:at]

    def _joined(self, lines: Sequence[str], indent: str) -> str:
        if self.one_line:
            return "".join(line.strip() for line in lines)
        return (self.newline + indent).join(lines)


def _stretch(edit: Edit) -> tuple[int, int]:
    return edit.start, edit.end


def _fits(taken: Sequence[Edit], edit: Edit) -> bool:
    """Whether an edit overlaps none of those taken; insertions may share a place, nothing else may."""
    at = bisect_left(taken, _stretch(edit), key=_stretch)
    return (at == 0 or taken[at - 1].end <= edit.start) and (at == len(taken) or taken[at].start >= edit.end)


def _escaped(value: str, quote: str) -> str:
    return escape(value, {'"': "&quot;"} if quote == '"' else {"'": "&apos;"})
