"""YAML as plain values: the scalars, lists and dicts of one document, of a bounded size, and no objects.

The events of PyYAML's parser are put together here, without recursion: an alias stands for what it names and counts as often as
it is used, tags are those of plain values and the units that xacro has, and everything else is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from condyle.robot.expression_values import MAX_LEVELS, DottedDict, Value
from condyle.robot.names import quoted

MAX_BYTES = 128 * 2**10  # of one file
MAX_ENTRIES = 20_000  # with aliases written out
MAX_SCALAR = 400  # characters of a number, true, false or null

# what xacro's tags multiply with: radians and metres
UNITS = {
    "!radians": 1.0,
    "!degrees": math.pi / 180.0,
    "!meters": 1.0,
    "!millimeters": 0.001,
    "!foot": 0.3048,
    "!inches": 0.0254,
}
STANDARD = "tag:yaml.org,2002:"
SCALARS = tuple(STANDARD + name for name in ("null", "bool", "int", "float"))
TEXTS = tuple(STANDARD + name for name in ("str", "timestamp", "value"))  # a date stays as it is written
MERGE = STANDARD + "merge"


def read_yaml(content: bytes, evaluate: Callable[[str], Value]) -> Value:
    """The value of a YAML document, dicts readable by dots; `evaluate` computes a number with a unit, such as !degrees 180/2."""
    if len(content) > MAX_BYTES:
        raise ValueError(f"the YAML file has {len(content):,} bytes, more than {MAX_BYTES:,}")
    import yaml

    try:
        text = content.decode("utf-8-sig")
        return _Document(yaml.SafeLoader(text), yaml, evaluate).read()
    except UnicodeDecodeError:
        raise ValueError("the YAML file is not UTF-8: save it as UTF-8") from None
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1})" if mark is not None else ""
        what = getattr(error, "problem", None) or "it cannot be read"
        raise ValueError(f"this is not YAML{line}: {quoted(str(what))[1:-1]}") from None


class _Document:
    """A document being put together: the lists and dicts that are open, and what the anchors name."""

    def __init__(self, loader: Any, yaml: Any, evaluate: Callable[[str], Value]) -> None:
        self.loader, self.yaml, self.evaluate = loader, yaml, evaluate
        self.open: list[list[Value]] = [[]]  # the values of each open list or dict, keys and values in turn
        self.starts: list[Any] = []  # the events that opened them
        self.counts = [0]  # entries, those of aliases included, of each
        self.anchors: dict[str, tuple[Value, int]] = {}

    def read(self) -> Value:
        yaml, documents = self.yaml, 0
        while True:
            event = self.loader.get_event()
            match event:
                case None | yaml.StreamEndEvent():
                    break
                case yaml.DocumentStartEvent():
                    documents += 1
                    if documents > 1:
                        raise self.wrong(event, "there is more than one document")
                case yaml.ScalarEvent():
                    self.add(event, self.scalar(event), 1 + len(event.value) // 8)
                case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                    self.begin(event)
                case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                    self.end()
                case yaml.AliasEvent():
                    if event.anchor not in self.anchors:
                        raise self.wrong(event, f"the alias *{quoted(event.anchor)[1:-1]} names nothing that is complete")
                    value, count = self.anchors[event.anchor]
                    self.put(event, value, count)
        return self.open[0][0] if self.open[0] else None

    def begin(self, event: Any) -> None:
        kind = "seq" if isinstance(event, self.yaml.SequenceStartEvent) else "map"
        if event.tag not in (None, "!", STANDARD + kind):
            raise self.wrong(event, f"the tag {quoted(event.tag)} is not allowed")
        if len(self.open) > MAX_LEVELS:
            raise self.wrong(event, f"lists are nested deeper than {MAX_LEVELS} levels")
        self.open.append([])
        self.counts.append(1)
        self.starts.append(event)

    def end(self) -> None:
        event, values, count = self.starts.pop(), self.open.pop(), self.counts.pop()
        if isinstance(event, self.yaml.SequenceStartEvent):
            self.add(event, values, count)
            return
        made, merged = DottedDict(), DottedDict()
        for key, value in zip(values[::2], values[1::2], strict=True):
            if key is MERGE:
                for each in reversed(value) if isinstance(value, list) else [value]:
                    if not isinstance(each, dict):
                        raise self.wrong(event, "<< takes a dict, or a list of dicts")
                    merged.update(each)
            elif isinstance(key, (list, dict)):
                raise self.wrong(event, "a key is a number or a text")
            else:
                made[key] = value
        self.add(event, DottedDict({**merged, **made}), count)

    def add(self, event: Any, value: Value, count: int) -> None:
        if event.anchor is not None:
            self.anchors[event.anchor] = value, count
        self.put(event, value, count)

    def put(self, event: Any, value: Value, count: int) -> None:
        self.open[-1].append(value)
        self.counts[-1] += count
        if sum(self.counts) > MAX_ENTRIES:
            raise self.wrong(event, f"it has more than {MAX_ENTRIES:,} entries, with aliases written out")

    def scalar(self, event: Any) -> Value:
        """The value of a number, text, true, false or null."""
        text = event.value
        tag = event.tag
        if tag is None or tag == "!":
            tag = self.loader.resolve(self.yaml.ScalarNode, text, event.implicit)
        if tag == MERGE:
            return MERGE
        if tag in TEXTS:
            return text
        if tag in UNITS:
            try:
                return float(self.evaluate(text)) * UNITS[tag]
            except (ValueError, TypeError, OverflowError) as error:
                raise self.wrong(event, f"{tag} {quoted(text)}: {error}") from None
        if tag not in SCALARS:
            raise self.wrong(event, f"the tag {quoted(tag)} is not allowed")
        if len(text) > MAX_SCALAR:
            raise self.wrong(event, f"a number has at most {MAX_SCALAR} characters")
        try:
            return self.loader.construct_object(self.yaml.ScalarNode(tag, text))
        except (ValueError, KeyError, IndexError, OverflowError):
            raise self.wrong(event, f"{quoted(text)} is no {tag.removeprefix(STANDARD)}") from None

    def wrong(self, event: Any, what: str) -> ValueError:
        return ValueError(f"line {event.start_mark.line + 1} of the YAML file: {what}")
