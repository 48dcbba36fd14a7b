"""What a compiled loop consists of: the vector instructions of its assembly text, by kind."""

from __future__ import annotations

import re
from collections import Counter

KINDS = {
    "fma": r"vf(n?)m(add|sub)",
    "mul": r"vmul",
    "add, sub": r"v(add|sub)p",
    "div": r"vdiv",
    "sqrt": r"vsqrt",
    "compare, select": r"v(cmp|blend|pblend|p?max|p?min)|k",
    "bitwise": r"v(p?and|p?or|p?xor|pternlog|rndscale|round)",
    "shuffle": r"v(perm|unpck|shuf|insert|extract|align|p?broadcast\w+ %|punpck|mov[dhl]|pblendm)",
    "load constant": "",
    "load stack": "",
    "load other": "",
    "store stack": "",
    "store other": "",
    "copy": "",
    "all": "",
}
_STACK = re.compile(r"\(%r[sb]p\)")  # with an index it is not a spill: rbp may hold any pointer
_CONSTANT = re.compile(r"\(%rip")


def loop_instructions(assembly: str) -> dict[str, int]:
    """Kind -> how many vector instructions in the longest loop; an operand in memory also counts as a load."""
    counts: Counter[str] = Counter()
    for line in _longest_loop(assembly):
        text = line.partition("#")[0].strip()
        if not re.match(r"v|k[a-z]", text):
            continue
        counts["all"] += 1
        name, _, operands = text.partition("\t")
        stored = re.search(r"\)(\{%k\d\})?$", operands) is not None  # the target comes last
        move = re.match(r"v(mov[au]p|movdq|mov[sd]|p?broadcast)", name) is not None
        if stored:
            counts["store stack" if _STACK.search(operands) else "store other"] += 1
            continue
        if "(" in operands:
            where = "constant" if _CONSTANT.search(operands) else "stack" if _STACK.search(operands) else "other"
            counts[f"load {where}"] += 1
            if move:
                continue
        elif move:
            counts["copy"] += 1
            continue
        kind = next((kind for kind, pattern in KINDS.items() if pattern and re.match(pattern, text)), None)
        if kind:
            counts[kind] += 1
    return {kind: counts[kind] for kind in KINDS}


def _longest_loop(assembly: str) -> list[str]:
    """The lines between a label and the last jump back to it, where that is the longest such stretch."""
    lines = assembly.splitlines()
    labels: dict[str, int] = {}
    stretch = (0, 0)
    for i, line in enumerate(lines):
        if label := re.match(r"([.\w]+):", line):
            labels[label[1]] = i
        elif jump := re.match(r"\s+j\w+\s+([.\w]+)", line):
            start = labels.get(jump[1], i)
            stretch = max(stretch, (start, i), key=lambda s: s[1] - s[0])
    return lines[stretch[0] : stretch[1]]
