"""XML as plain data: elements with tag, attributes, children, text and the line they began at. Nothing else of XML gets in.

Document types, entities and processing instructions are refused, every size has a limit, and nothing recurses.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from condyle.errors import RobotError
from condyle.robot.names import quoted

MAX_BYTES = 16 * 2**20  # of one file
MAX_ELEMENTS = 200_000  # in one file
MAX_DEPTH = 100  # of elements in elements
MAX_ATTRIBUTES = 64  # of one element
MAX_VALUE = 65_536  # characters of one attribute or text

HARMLESS_INSTRUCTIONS = ("xml-model", "xml-stylesheet")  # hints for editors and browsers
UTF_8 = ("utf-8", "utf8", "us-ascii", "ascii")


# <?xml ...?> after spaces and comments, where XML does not allow it; possessive, so that no text makes it slow
LATE_DECLARATION = re.compile(rb"(?=[\s<])(?!<\?xml)(?:\s++|<!--(?:[^-]++|-(?!->))*+-->)++(<\?xml\s[^>?]{0,200}\?>)")


class Element:
    """One element: `<tag name="value"> children and text </tag>`, and where it began. Names keep their prefix: "xacro:if"."""

    __slots__ = ("tag", "attributes", "children", "text", "file", "line")

    def __init__(self, tag: str, attributes: dict[str, str], file: str = "", line: int = 0) -> None:
        self.tag, self.attributes, self.file, self.line = tag, attributes, file, line
        self.children: list[Element] = []
        self.text = ""

    @property
    def where(self) -> str:
        """The file and line it began at: "arm.urdf:12"."""
        return f"{self.file}:{self.line}"

    def walk(self) -> Iterator[Element]:
        """This element and all below it, in the order written."""
        waiting = [self]
        while waiting:
            element = waiting.pop()
            yield element
            waiting.extend(reversed(element.children))


def read_xml(source: str | bytes, file: str) -> Element:
    """The root element of an XML file; RobotError with file and line if anything is wrong with it."""
    return _Builder(file).build(_utf8(source, file))


def write_xml(root: Element) -> str:
    """The text of an element and all below it, indented."""
    lines: list[str] = []
    waiting: list[tuple[int, Element | str]] = [(0, root)]
    while waiting:
        depth, item = waiting.pop()
        if isinstance(item, str):
            lines.append("  " * depth + item)
            continue
        attributes = "".join(f" {name}={quoteattr(value)}" for name, value in item.attributes.items())
        opening, text = f"<{item.tag}{attributes}", escape(item.text.strip())
        if not item.children:
            lines.append("  " * depth + (f"{opening}>{text}</{item.tag}>" if text else f"{opening}/>"))
            continue
        lines.append("  " * depth + f"{opening}>{text}")
        waiting.append((depth, f"</{item.tag}>"))
        waiting.extend((depth + 1, child) for child in reversed(item.children))
    return "\n".join(lines) + "\n"


def _utf8(source: str | bytes, file: str) -> bytes:
    """The file as clean UTF-8, without byte-order mark."""
    if isinstance(source, str):
        source = source.removeprefix("\ufeff").encode("utf-8", "surrogatepass")
    if len(source) > MAX_BYTES:
        raise RobotError([f"{file}:1: the file has {len(source):,} bytes, more than the limit of {MAX_BYTES:,}"])
    if source[:2] in (b"\xff\xfe", b"\xfe\xff") or source[:4] in (b"<\0?\0", b"\0<\0?", b"<\0r\0", b"\0<\0r"):
        raise RobotError([f"{file}:1: the file is UTF-16: save it as UTF-8"])
    source = source.removeprefix(b"\xef\xbb\xbf")
    if late := LATE_DECLARATION.match(source):
        # a declaration below blank lines or comments says nothing that is not known; the lines stay where they are
        source = source[: late.start(1)] + re.sub(rb"[^\n]", b" ", late[1]) + source[late.end(1) :]
    try:
        source.decode("utf-8")
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        raise RobotError([f"{file}:{line}: byte 0x{source[error.start]:02x} is not UTF-8: save the file as UTF-8"]) from None
    if b"\0" in source:
        line = source.count(b"\n", 0, source.index(b"\0")) + 1
        raise RobotError([f"{file}:{line}: the file has a NUL byte: it is not XML text"])
    if not source.strip():
        raise RobotError([f"{file}:1: the file is empty: a robot is written <robot name=...> ... </robot>"])
    return source


CLOSING = re.compile(rb"</([^<>\s]{1,200})\s*>")


class _Builder:
    """The handlers that expat calls, and the stack of elements still open."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.open: list[Element] = []
        self.root: Element | None = None
        self.count = 0
        self.texts: list[list[str]] = []
        self.text_size = 0
        self.parser = expat.ParserCreate(encoding="utf-8")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self.start
        self.parser.EndElementHandler = self.end
        self.parser.CharacterDataHandler = self.characters
        self.parser.ProcessingInstructionHandler = self.instruction
        self.parser.StartDoctypeDeclHandler = self.doctype
        self.parser.EntityDeclHandler = self.doctype
        self.parser.ExternalEntityRefHandler = self.doctype
        self.parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)

    def build(self, source: bytes) -> Element:
        # expat takes all as UTF-8; a file that says otherwise is believed only if it makes no difference
        declared = re.match(rb"<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9._-]+)", source)
        if declared and declared[1].decode().lower() not in UTF_8 and not source.isascii():
            self.refuse(f"the file says it is {declared[1].decode()}: save it as UTF-8")
        try:
            self.parser.Parse(source, True)
        except expat.ExpatError as error:
            unclosed = f" inside <{self.open[-1].tag}> of line {self.open[-1].line}" if self.open else ""
            what = expat.ErrorString(error.code)
            # expat points behind the bracket of a second closing tag
            second = None if self.open else CLOSING.match(source, max(0, self.parser.ErrorByteIndex - 1))
            if self.root is not None and second:
                tag = quoted(second[1].decode("utf-8", "replace"))[1:-1]
                what = f"a second </{tag}> stands after the one that ends the file: delete one of them"
            raise RobotError([f"{self.file}:{error.lineno}: the XML is broken{unclosed}: {what}"]) from None
        assert self.root is not None  # expat refuses a document without one
        return self.root

    def refuse(self, what: str) -> None:
        raise RobotError([f"{self.file}:{max(1, self.parser.CurrentLineNumber)}: {what}"])

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.count += 1
        if self.count > MAX_ELEMENTS:
            self.refuse(f"the file has more than {MAX_ELEMENTS:,} elements")
        if len(self.open) >= MAX_DEPTH:
            self.refuse(f"<{quoted(tag)[1:-1]}> is nested deeper than {MAX_DEPTH} elements")
        if len(attributes) > MAX_ATTRIBUTES:
            self.refuse(f"<{quoted(tag)[1:-1]}> has {len(attributes)} attributes, more than {MAX_ATTRIBUTES}")
        for name, value in attributes.items():
            if max(len(value), len(name), len(tag)) > MAX_VALUE:
                self.refuse(f"<{quoted(tag)[1:-1]}> has an attribute of {len(value):,} characters, more than {MAX_VALUE:,}")
        element = Element(tag, dict(attributes), self.file, self.parser.CurrentLineNumber)
        if self.open:
            self.open[-1].children.append(element)
        else:
            self.root = element
        self.open.append(element)
        self.texts.append([])

    def end(self, tag: str) -> None:
        self.open.pop().text = "".join(self.texts.pop())
        self.text_size = 0

    def characters(self, text: str) -> None:
        self.text_size += len(text)
        if self.text_size > MAX_VALUE and text.strip():
            self.refuse(f"<{self.open[-1].tag}> has more than {MAX_VALUE:,} characters of text")
        self.texts[-1].append(text)

    def instruction(self, target: str, data: str) -> None:
        if target not in HARMLESS_INSTRUCTIONS:
            self.refuse(f"<?{quoted(target)[1:-1]} ...?> is a processing instruction, which has no meaning here: delete it")

    def doctype(self, *ignored: object) -> int:
        self.refuse("document types and entities (<!DOCTYPE>, <!ENTITY>) are not allowed: delete them, write values out")
        return 0
