"""Text of a xacro file with its ${expressions} and $(arguments) filled in, and the scopes in which names are looked up."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from condyle.robot.expressions import MAX_SIZE, Evaluator, Value
from condyle.robot.fields import GRAMMAR, SPACE
from condyle.robot.names import nearest, quoted
from condyle.robot.paths import Places
from condyle.robot.xml import Element

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
WHOLE = re.compile(r"[+-]?[0-9]{1,38}")
ESCAPED = re.compile(r"\$(\$+[{(])")
CLOSING = {"{": "}", "(": ")"}

# name, name:=default, name:=^ (from the caller), name:=^|default; possessive, so that no text makes it slow
PARAMETER = re.compile(
    r"""\s*+(?P<name>[^\s:=]++)(?:\s*+:?=\s*+(?P<outer>\^\|?)?"""
    r"""(?P<default>(?:\$\{[^}]*+\}|\$\([^)]*+\)|'[^']*+'|"[^"]*+"|[^\s'"])*+))?+(?=\s|$)"""
)
BOOLEANS = {"true": True, "True": True, "false": False, "False": False}


@dataclass(frozen=True)
class Macro:
    """A macro: its parameters with (taken from the caller?, default), its block parameters in order, and its body."""

    name: str
    parameters: dict[str, tuple[bool, str | None]]
    blocks: tuple[str, ...]  # "*one" is inserted whole, "**all" only what is in it
    body: Element

    @staticmethod
    def of(element: Element) -> Macro:
        """The macro that a <xacro:macro name params> defines."""
        name = element.attributes.get("name", "").removeprefix("xacro:")
        parameters: dict[str, tuple[bool, str | None]] = {}
        blocks: list[str] = []
        text, i = element.attributes.get("params", "").rstrip(), 0
        while i < len(text):
            match = PARAMETER.match(text, i)
            if match is None or not IDENTIFIER.fullmatch(match["name"].lstrip("*")):
                raise ValueError(f"macro {quoted(name)}: cannot read the parameters from {quoted(text[i:].strip())} on")
            i = match.end()
            if match["name"].startswith("*"):
                blocks.append(match["name"])
            else:
                parameters[match["name"]] = bool(match["outer"]), match["default"] or None
        return Macro(name, parameters, tuple(blocks), element)


@dataclass
class Scope:
    """Names and what they mean: of the whole file, or inside one call of a macro, which also sees the names of its caller."""

    parent: Scope | None = None
    call: str = ""  # "macro 'leg', called at quad.xacro:12"
    values: dict[str, Value] = field(default_factory=dict)
    waiting: dict[str, tuple[str, Element]] = field(default_factory=dict)  # texts of properties nobody has asked for yet
    blocks: dict[str, Element] = field(default_factory=dict)
    macros: dict[str, Macro] = field(default_factory=dict)
    depth: int = 0

    def chain(self) -> Iterator[Scope]:
        """This scope and those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def has(self, name: str) -> bool:
        """Whether the name is defined here or around."""
        return any(name in scope.values or name in scope.waiting for scope in self.chain())

    def set(self, name: str, value: Value) -> None:
        """Define a name here."""
        self.waiting.pop(name, None)
        self.values[name] = literal(value)

    def wait(self, name: str, text: str, element: Element) -> None:
        """Define a property whose text is evaluated when it is first asked for."""
        self.values.pop(name, None)
        self.waiting[name] = text, element

    def remove(self, name: str) -> None:
        """Forget a name here and around."""
        for scope in self.chain():
            scope.values.pop(name, None)
            scope.waiting.pop(name, None)


class Text:
    """Fills in text: what `$(arg x)` and `$(find package)` mean, and the evaluator that counts all steps of the file."""

    def __init__(self, places: Places, arguments: Mapping[str, str]) -> None:
        self.places, self.evaluator = places, Evaluator()
        self.arguments: dict[str, str] = dict(arguments)
        self.evaluating: set[tuple[int, str]] = set()  # properties whose text is being filled in
        self.folders: dict[str, Path] = {}  # of each file, by the name its elements carry

    def fill(self, text: str, scope: Scope, element: Element) -> Value:
        """The text with every ${...} and $(...) replaced; a value that is alone keeps its type."""
        if "$" not in text:
            return text
        self.evaluator.step(1 + len(text) // 100)
        self.evaluator.enter()
        parts = [self._part(kind, inner, scope, element) for kind, inner in pieces(text)]
        self.evaluator.nesting -= 1
        if len(parts) == 1:
            return parts[0]
        joined = "".join(map(str, parts))
        if len(joined) > MAX_SIZE:
            raise ValueError(f"a text has at most {MAX_SIZE:,} characters")
        return joined

    def lookup(self, name: str, scope: Scope) -> Value:
        """The value of a property or parameter; KeyError when there is none."""
        for level, around in enumerate(scope.chain()):
            if name in around.waiting:
                if (id(around), name) in self.evaluating:
                    raise ValueError(f"property '{name}' is defined by itself: write lazy_eval=\"false\" where it is redefined")
                self.evaluating.add((id(around), name))
                text, element = around.waiting[name]
                around.set(name, self.fill(text, around, element))
                self.evaluating.discard((id(around), name))
            if name in around.values:
                self.evaluator.step(level // 8)
                return around.values[name]
        raise KeyError(name)

    def _part(self, kind: str, inner: str, scope: Scope, element: Element) -> Value:
        if kind == "":
            return inner
        inner = str(self.fill(inner, scope, element))
        if kind == "(":
            return self._substitution(inner, element)
        try:
            return self.evaluator.evaluate(inner, lambda name: self.lookup(name, scope), {})
        except ValueError as error:
            raise _Failed(inner, error) from None

    def _substitution(self, text: str, element: Element) -> Value:
        """$(arg name), $(find package), $(dirname), $(eval expression)."""
        command, _, rest = text.strip().partition(" ")
        rest = rest.strip()
        if command == "arg":
            if rest in self.arguments:
                return self.arguments[rest]
            raise ValueError(f"$(arg {rest}): there is no such argument{nearest(rest, list(self.arguments))}")
        if command == "find":
            found = [home for home in self.places.packages(rest) if os.path.isdir(home)]
            if found:
                return os.path.abspath(found[0])
            raise ValueError(f"$(find {rest}): the package is in none of the package folders: give its parent in `package_dirs`")
        if command == "dirname":
            return str(self.folders[element.file])
        if command == "eval":
            values = {name: literal(value) for name, value in self.arguments.items()}
            try:
                return self.evaluator.evaluate(rest, lambda name: values[name], {"arg": lambda name: values[name]})
            except ValueError as error:
                raise _Failed(rest, error) from None
            except KeyError as error:
                raise ValueError(f"$(eval {quoted(rest)[1:-1]}): there is no argument {error}") from None
        if command in ("env", "optenv"):
            raise ValueError(f"$({command} ...) is refused: a robot must not depend on the environment; use <xacro:arg>")
        raise ValueError(f"$({quoted(text)[1:-1]}) is unknown: there are $(arg x), $(find package), $(dirname), $(eval ...)")


class _Failed(ValueError):
    """An expression that failed, with the innermost expression in its sentence."""

    def __init__(self, text: str, error: Exception) -> None:
        super().__init__(str(error) if isinstance(error, _Failed) else f"in expression {quoted(text)}: {error}")


def pieces(text: str) -> Iterator[tuple[str, str]]:
    """("", plain text), ("{", inside of ${...}) and ("(", inside of $(...)), in order; $${ is a plain ${."""
    literal_text, i = "", 0
    while i < len(text):
        escaped = ESCAPED.match(text, i)
        if escaped:
            literal_text, i = literal_text + escaped[1], escaped.end()
        elif text[i] == "$" and text[i + 1 : i + 2] in CLOSING:
            if literal_text:
                yield "", literal_text
            end = _closing(text, i + 1)
            yield text[i + 1], text[i + 2 : end]
            literal_text, i = "", end + 1
        else:
            stop = text.find("$", i + 1)
            stop = len(text) if stop < 0 else stop
            literal_text, i = literal_text + text[i:stop], stop
    if literal_text:
        yield "", literal_text


def _closing(text: str, start: int) -> int:
    """Where the bracket that opens at `start` is closed, strings and inner brackets skipped."""
    opening, closing, level, quote = text[start], CLOSING[text[start]], 0, ""
    for i in range(start, len(text)):
        c = text[i]
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c == opening:
            level += 1
        elif c == closing:
            level -= 1
            if level == 0:
                return i
    raise ValueError(f"${opening} in {quoted(text)} is never closed by {closing}")


def literal(value: Value) -> Value:
    """A text as the value it spells: a number, true, false, 'quoted'; other texts, and values, as they are."""
    if not isinstance(value, str):
        return value
    if len(value) >= 2 and value[0] == value[-1] == "'":
        return value[1:-1]
    stripped = value.strip(SPACE)
    if WHOLE.fullmatch(stripped):
        return int(stripped)
    if GRAMMAR.fullmatch(stripped):
        return float(stripped)
    return BOOLEANS.get(value, value)


def boolean(value: Value) -> bool:
    """True or false, as xacro's conditions read it."""
    value = literal(value)
    if isinstance(value, str):
        raise ValueError(f"{quoted(value)} is neither true nor false")
    return bool(value)
