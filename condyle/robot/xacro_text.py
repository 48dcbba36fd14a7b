"""Text of a xacro file with its ${expressions} and $(arguments) filled in, and the scopes in which names are looked up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from condyle.robot.expression_functions import GLOBALS
from condyle.robot.expression_values import MAX_SIZE, Value, text
from condyle.robot.expressions import Evaluator
from condyle.robot.fields import GRAMMAR, SPACE
from condyle.robot.names import quoted
from condyle.robot.xacro_functions import Failed, Substitutions
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
INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)


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
    namespace: bool = False  # of an <xacro:include ns=...>
    spaces: dict[str, Scope] = field(default_factory=dict)  # the namespaces defined here

    def chain(self) -> Iterator[Scope]:
        """This scope and those around it."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def macro(self, name: str) -> tuple[Macro, Scope] | None:
        """The macro of this name and the scope it is called in: this one, or for `space.name` that of the namespace."""
        for scope in self.chain():
            if name in scope.macros:
                return scope.macros[name], self
        *spaces, last = name.split(".")
        found: Scope | None = self
        for level, space in enumerate(spaces):
            within = list(found.chain()) if level == 0 and found is not None else [found]
            found = next((scope.spaces[space] for scope in within if scope is not None and space in scope.spaces), None)
        return (found.macros[last], found) if spaces and found is not None and last in found.macros else None

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
    """Fills in text: expressions in the scope they stand in, substitutions, and one evaluator that counts all steps."""

    def __init__(self, substitutions: Substitutions) -> None:
        self.substitutions = substitutions
        self.evaluator: Evaluator = substitutions.evaluator
        self.evaluating: set[tuple[int, str]] = set()  # properties whose text is being filled in

    def fill(self, written: str, scope: Scope, element: Element) -> Value:
        """The text with every ${...} and $(...) replaced; a value that is alone keeps its type."""
        if "$" not in written:
            return written
        self.evaluator.step(1 + len(written) // 100)
        self.evaluator.enter()
        before, self.substitutions.element = self.substitutions.element, element
        parts = [self._part(kind, inner, scope, element) for kind, inner in pieces(written)]
        self.substitutions.element = before
        self.evaluator.nesting -= 1
        if len(parts) == 1:
            return parts[0]
        joined = "".join(map(text, parts))
        if len(joined) > MAX_SIZE:
            raise ValueError(f"a text has at most {MAX_SIZE:,} characters")
        return joined

    def write(self, written: str, scope: Scope, element: Element) -> str:
        """The text filled in, as text."""
        return text(self.fill(written, scope, element))

    def lookup(self, name: str, scope: Scope) -> Value:
        """The value of a property or parameter; KeyError when there is none."""
        for level, around in enumerate(scope.chain()):
            if name in around.waiting:
                if (id(around), name) in self.evaluating:
                    raise ValueError(f"property '{name}' is defined by itself: write lazy_eval=\"false\" where it is redefined")
                self.evaluating.add((id(around), name))
                written, element = around.waiting[name]
                around.set(name, self.fill(written, around, element))
                self.evaluating.discard((id(around), name))
            if name in around.values:
                self.evaluator.step(level // 8)
                return around.values[name]
        raise KeyError(name)

    def known(self, name: str, scope: Scope) -> bool:
        """Whether a name has a value: a property or parameter, or one that all files know, such as pi."""
        return scope.has(name) or name in GLOBALS

    def _part(self, kind: str, inner: str, scope: Scope, element: Element) -> Value:
        if kind == "":
            return inner
        inner = self.write(inner, scope, element)
        if kind == "(":
            return self.substitutions.substitute(inner)
        try:
            return self.evaluator.evaluate(inner, lambda name: self.lookup(name, scope), self.substitutions.functions)
        except ValueError as error:
            raise Failed(inner, error) from None


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
    """Where the bracket that opens at `start` is closed, inner brackets skipped, and strings in expressions."""
    opening, closing, level, quote = text[start], CLOSING[text[start]], 0, ""
    expression = opening == "{" or text.startswith("eval ", start + 1)
    for i in range(start, len(text)):
        c = text[i]
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"" and expression:
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
    if GRAMMAR.fullmatch(stripped) or INFINITE.fullmatch(stripped):
        return float(stripped)
    return BOOLEANS.get(value, value)


def boolean(value: Value) -> bool:
    """True or false, as xacro's conditions read it."""
    value = literal(value)
    if isinstance(value, str):
        raise ValueError(f"{quoted(value)} is neither true nor false")
    return bool(value)
