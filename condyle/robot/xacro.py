"""Xacro: URDF with properties, macros, conditions and includes, expanded to plain elements that still know their file and line.

Expansion is one loop over a stack of jobs, in the order of the document. Nothing recurses, all work is counted, and files
are read only from the allowed folders.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from condyle.errors import RobotError
from condyle.robot.description import Description
from condyle.robot.expression_values import Namespace, Value
from condyle.robot.names import nearest, quoted
from condyle.robot.paths import Folders, Places
from condyle.robot.report import Report
from condyle.robot.urdf import describe
from condyle.robot.xacro_functions import Substitutions
from condyle.robot.xacro_text import Macro, Scope, Text, boolean, literal
from condyle.robot.xml import MAX_BYTES, MAX_DEPTH, Element, read_xml

MAX_PRODUCED = 50_000  # elements
MAX_CALLS = 100  # macros that call macros
MAX_INCLUDE_DEPTH = 20  # files that include files
MAX_INCLUDES = 200  # in all
MAX_INCLUDED_BYTES = 2 * MAX_BYTES  # in all


def read_xacro(
    source: str | bytes,
    file: str = "robot.xacro",
    *,
    roots: Folders = (),
    package_dirs: Folders = (),
    arguments: Mapping[str, str] | None = None,
) -> Description:
    """The robot that a xacro text describes, with these values of its <xacro:arg>s. RobotError if it cannot be read."""
    return describe_xacro(source, file, Places.around(file, roots, package_dirs), arguments)


def describe_xacro(
    source: str | bytes, file: str, places: Places, arguments: Mapping[str, str] | None = None, report: Report | None = None
) -> Description:
    """The robot that a xacro text describes, with files from these places."""
    report = Report() if report is None else report
    return describe(expand_xacro(source, file, places, arguments, report), file, places, report)


def expand_xacro(
    source: str | bytes, file: str, places: Places, arguments: Mapping[str, str] | None = None, report: Report | None = None
) -> Element:
    """The elements that a xacro text expands to; `write_xml` makes text of them. What it took from where is in the report."""
    substitutions = Substitutions(places, arguments or {}, Report() if report is None else report)
    substitutions.folders[file] = Path(file).parent
    root = read_xml(source, file)
    for child in root.children:
        if child.tag == "xacro:arg" and "$" not in child.attributes.get("default", "$"):
            substitutions.defaults.setdefault(child.attributes.get("name", ""), child.attributes["default"])
    return _Expander(Text(substitutions)).expand(root)


def is_xacro(root: Element) -> bool:
    """Whether a tree of elements has anything for xacro to do."""
    for element in root.walk():
        if element.tag.startswith("xacro:"):
            return True
        if any("${" in value or "$(" in value for value in element.attributes.values()):
            return True
    return False


@dataclass(frozen=True)
class _Frame:
    """Where expansion stands: the scope, the element that takes what is produced, its depth, how deep the includes are, and the
    file that is read."""

    scope: Scope
    parent: Element
    depth: int = 1
    includes: int = 0
    file: str = ""


class _Expander:
    """The stack of jobs, and what each xacro element does."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.jobs: list[Callable[[], None]] = []
        self.produced = self.included = self.included_bytes = 0
        self.files: dict[Path, Element] = {}
        self.commands = {
            "xacro:property": self.property,
            "xacro:macro": self.macro,
            "xacro:arg": self.argument,
            "xacro:include": self.include,
            "xacro:if": self.condition,
            "xacro:unless": self.condition,
            "xacro:insert_block": self.insert,
            "xacro:attribute": self.attribute,
        }

    def expand(self, root: Element) -> Element:
        scope, holder = Scope(), Element("", {})
        self.jobs.append(partial(self.element, root, _Frame(scope, holder, 0, 0, root.file)))
        while self.jobs:
            self.jobs.pop()()
        return holder.children[0] if holder.children else root

    def all(self, elements: Sequence[Element], frame: _Frame, expanded: bool = False) -> None:
        """Expand these elements next, in this order; `expanded` ones are expanded already and only copied."""
        self.jobs.extend(partial(self.element, element, frame, expanded) for element in reversed(elements))

    def element(self, element: Element, frame: _Frame, expanded: bool = False) -> None:
        """Expand one element, whatever it is; what is wrong is reported with its line."""
        try:
            self.text.evaluator.step()
            self.text.substitutions.file = frame.file
            if expanded:
                copy = self.add(Element(element.tag, dict(element.attributes), element.file, element.line), frame)
                copy.text = element.text
                self.all(element.children, replace(frame, parent=copy, depth=frame.depth + 1), expanded=True)
            elif element.tag in self.commands:
                self.commands[element.tag](element, frame)
            elif element.tag == "xacro:element":
                self.produce(element, frame, self.name(element, "xacro:name", frame.scope))
            elif element.tag.startswith("xacro:"):
                self.call(element, frame)
            else:
                self.produce(element, frame, element.tag)
        except ValueError as error:
            if isinstance(error, RobotError):
                raise
            inside = f" (in {frame.scope.call})" if frame.scope.call else ""
            raise RobotError([f"{element.where}: <{quoted(element.tag)[1:-1]}>: {error}{inside}"]) from None

    def produce(self, element: Element, frame: _Frame, tag: str) -> None:
        """A plain element: its attributes and text are filled in, its children expanded into it."""
        if not tag or tag.startswith("xacro:"):
            raise ValueError("an element needs a proper name")
        made = self.add(Element(tag, {}, element.file, element.line), frame)
        for name, value in element.attributes.items():
            if not name.startswith(("xacro:", "xmlns:xacro")):
                made.attributes[name] = self.text.write(value, frame.scope, element)
        made.text = self.text.write(element.text, frame.scope, element) if element.text.strip() else ""
        self.all(element.children, replace(frame, parent=made, depth=frame.depth + 1))

    def add(self, made: Element, frame: _Frame) -> Element:
        self.produced += 1
        if self.produced > MAX_PRODUCED:
            raise ValueError(f"the file expands to more than {MAX_PRODUCED:,} elements")
        if frame.depth > MAX_DEPTH:
            raise ValueError(f"elements are nested deeper than {MAX_DEPTH}")
        frame.parent.children.append(made)
        return made

    def inside(self, element: Element, frame: _Frame) -> None:
        """Expand what stands in a command or macro, its text included, into the parent."""
        if element.text.strip():
            frame.parent.text += self.text.write(element.text, frame.scope, element).strip()
        self.all(element.children, frame)

    def value(self, element: Element, name: str, scope: Scope) -> Value:
        """An attribute that must be there, filled in."""
        if name not in element.attributes:
            raise ValueError(f"attribute '{name}' is missing")
        return self.text.fill(element.attributes[name], scope, element)

    def name(self, element: Element, name: str, scope: Scope) -> str:
        """An attribute that must be there, filled in, as text."""
        if name not in element.attributes:
            raise ValueError(f"attribute '{name}' is missing")
        return self.text.write(element.attributes[name], scope, element)

    # -- what each command does

    def property(self, element: Element, frame: _Frame) -> None:
        scope, attributes = frame.scope, element.attributes
        name = self.name(element, "name", scope)
        if not name.isidentifier() or name.startswith("__"):
            raise ValueError(f"a property cannot be called {quoted(name)}: use letters, digits and _")
        if "value" in attributes and "default" in attributes:
            raise ValueError(f"property {quoted(name)} has both 'value' and 'default': keep one")
        if "remove" in attributes and boolean(self.value(element, "remove", scope)):
            scope.remove(name)
            return
        if "default" in attributes and self.text.known(name, scope):
            return
        where = attributes.get("scope", "")
        if where not in ("", "parent", "global"):
            raise ValueError(f"scope {quoted(where)} is unknown: write 'parent' or 'global'")
        target = scope if not where else _parent(scope) if where == "parent" else list(scope.chain())[-1]
        text = attributes.get("value", attributes.get("default"))
        if text is None:
            target.blocks["**" + name] = element
        elif where or ("lazy_eval" in attributes and not boolean(self.value(element, "lazy_eval", scope))):
            target.set(name, self.text.fill(text, scope, element))
        else:
            # quotes around the whole are taken off at once, and what is inside is read when it is asked for
            text = literal(text)
            if isinstance(text, str) and "$" in text:
                target.wait(name, text, element)
            else:
                target.set(name, text)

    def macro(self, element: Element, frame: _Frame) -> None:
        macro = Macro.of(element)
        if not macro.name or "." in macro.name or "xacro:" + macro.name in self.commands or macro.name in ("call", "element"):
            raise ValueError(f"a macro cannot be called {quoted(macro.name)}")
        frame.scope.macros[macro.name] = macro

    def argument(self, element: Element, frame: _Frame) -> None:
        name, arguments = self.name(element, "name", frame.scope), self.text.substitutions.arguments
        if name in arguments:
            return
        if "default" not in element.attributes:
            raise ValueError(f"argument {quoted(name)} has no default: give it a value in `xacro_args`")
        arguments[name] = self.name(element, "default", frame.scope)

    def condition(self, element: Element, frame: _Frame) -> None:
        if boolean(self.value(element, "value", frame.scope)) == (element.tag == "xacro:if"):
            self.inside(element, frame)

    def attribute(self, element: Element, frame: _Frame) -> None:
        name, value = (self.name(element, key, frame.scope) for key in ("name", "value"))
        if not name:
            raise ValueError("an attribute needs a name")
        frame.parent.attributes[name] = value

    def include(self, element: Element, frame: _Frame) -> None:
        name, substitutions = self.name(element, "filename", frame.scope), self.text.substitutions
        self.included += 1
        if frame.includes >= MAX_INCLUDE_DEPTH or self.included > MAX_INCLUDES:
            limit = f"{MAX_INCLUDE_DEPTH} deep and {MAX_INCLUDES} in all"
            raise ValueError(f"{quoted(name)}: files include files at most {limit}: does this one include itself?")
        if "ns" in element.attributes:
            frame = replace(frame, scope=self.namespace(self.name(element, "ns", frame.scope), frame.scope))
        substitutions.element = element
        try:
            paths = [substitutions.locate(each) for each in self.matching(name, element)]
        except FileNotFoundError as error:
            if "optional" in element.attributes and boolean(self.value(element, "optional", frame.scope)):
                return
            raise ValueError(str(error)) from None
        for path in reversed(paths):
            root = self.file(path, substitutions.folders[element.file])
            inner = replace(frame, includes=frame.includes + 1, file=root.file)
            self.jobs.append(partial(self.inside, root, inner))

    def matching(self, name: str, element: Element) -> list[str]:
        """The name, or the files that it matches if it has wildcards."""
        if not re.search(r"[*?\[]", name):
            return [name]
        folder = self.text.substitutions.folders[element.file] / os.path.dirname(name)
        if re.search(r"[*?\[]", os.path.dirname(name)) or not self.text.substitutions.places.contains(folder):
            raise ValueError(f"{quoted(name)}: wildcards stand in the last part of the name of a file in the allowed folders")
        found = sorted(glob.glob(os.path.basename(name), root_dir=folder))
        if len(found) > MAX_INCLUDES:
            raise ValueError(f"{quoted(name)} matches {len(found)} files, more than {MAX_INCLUDES}")
        return [os.path.join(os.path.dirname(name), each) for each in found]

    def namespace(self, name: str, scope: Scope) -> Scope:
        """A new scope for the properties and macros of an included file, which are written `name.property` and `name.macro`."""
        if not name.isidentifier() or name.startswith("__"):
            raise ValueError(f"a namespace cannot be called {quoted(name)}: use letters, digits and _")
        space = Scope(scope, scope.call, depth=scope.depth, namespace=True)
        scope.spaces[name] = space
        scope.set(name, Namespace(name, lambda key: self.text.lookup(key, space), lambda: [*space.values, *space.waiting]))
        return space

    def file(self, path: Path, folder: Path) -> Element:
        """The root of an included file, read once."""
        if path not in self.files:
            self.included_bytes += path.stat().st_size
            if self.included_bytes > MAX_INCLUDED_BYTES:
                raise ValueError(f"the included files have more than {MAX_INCLUDED_BYTES:,} bytes")
            shown = os.path.relpath(path) if not folder.is_absolute() else str(path)
            self.text.substitutions.folders[shown] = path.parent
            try:
                self.files[path] = read_xml(path.read_bytes(), shown)
            except OSError as error:
                raise ValueError(f"file '{path}' cannot be read: {error.strerror}") from None
        return self.files[path]

    # -- macros

    def call(self, element: Element, frame: _Frame) -> None:
        """A macro call: first its blocks are expanded, where the caller stands; then its body, in a scope of its own."""
        scope, attributes = frame.scope, dict(element.attributes)
        name = element.tag.removeprefix("xacro:")
        if name == "call":
            name = self.name(element, "macro", scope)
            del attributes["macro"]
        found = scope.macro(name)
        if found is None:
            known = [known for around in scope.chain() for known in around.macros]
            known += [
                f"{space}.{macro}" for around in scope.chain() for space in around.spaces for macro in around.spaces[space].macros
            ]
            raise ValueError(f"there is no macro {quoted(name)}{nearest(name[:200], known[:200])}")
        if scope.depth >= MAX_CALLS:
            raise ValueError(f"macro {quoted(name)}: macros call macros more than {MAX_CALLS} deep: does this one end?")
        macro, home = found
        inner = Scope(home, f"macro {quoted(name)}, called at {element.where}", depth=scope.depth + 1)
        for key, text in attributes.items():
            if key not in macro.parameters:
                raise ValueError(
                    f"macro {quoted(name)} has no parameter {quoted(key)}{nearest(key[:200], list(macro.parameters))}"
                )
            inner.set(key, self.text.fill(text, scope, element))
        for key, (outer, default) in macro.parameters.items():
            if key in attributes:
                continue
            if outer and scope.has(key):
                inner.set(key, self.text.lookup(key, scope))
            elif default is not None:
                inner.set(key, self.text.fill(default, scope, element))
            else:
                raise ValueError(f"macro {quoted(name)} needs the parameter '{key}'")
        holder = Element("", {})
        self.jobs.append(partial(self.body, element, macro, holder, inner, frame))
        self.all(element.children, replace(frame, parent=holder))

    def body(self, element: Element, macro: Macro, holder: Element, inner: Scope, frame: _Frame) -> None:
        """Expand the body of a macro, now that its blocks are there."""
        if len(holder.children) != len(macro.blocks):
            wanted = f"{len(macro.blocks)} blocks ({', '.join(macro.blocks)})" if macro.blocks else "no blocks"
            what = f"macro {quoted(macro.name)} takes {wanted}, not {len(holder.children)}"
            raise RobotError([f"{element.where}: <{quoted(element.tag)[1:-1]}>: {what}"])
        inner.blocks.update(zip(macro.blocks, holder.children, strict=True))
        self.inside(macro.body, replace(frame, scope=inner))

    def insert(self, element: Element, frame: _Frame) -> None:
        """A block: one given to the macro, which is expanded already, or a property."""
        name = self.name(element, "name", frame.scope)
        for stars in ("**", "*"):
            for scope in frame.scope.chain():
                block = scope.blocks.get(stars + name)
                if block is not None:
                    self.all(block.children if stars == "**" else [block], frame, expanded=block.tag != "xacro:property")
                    return
        raise ValueError(f"there is no block {quoted(name)}")


def _parent(scope: Scope) -> Scope:
    """Where scope="parent" puts a property: around a namespace, or at the caller of a macro, past the macro's namespace."""
    parent = scope.parent or scope
    while not scope.namespace and parent.namespace and parent.parent is not None:
        parent = parent.parent
    return parent
