"""Shorter C: stretches of statements that repeat become functions, variables and numbers are short. No operation changes.

Exported C is a list of `const double x12 = ...;`. The same leg four times, or the same sine eight times, are the same list with
other names, and are written once.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import accumulate, pairwise

STATEMENT = re.compile(r"( +)const (double|int) (\w+) = (.*);")
# a word before a parenthesis is a function
TOKEN = re.compile(r"0x[0-9a-f.]+p[+-]\d+|[A-Za-z_]\w*\(|[A-Za-z_]\w*(?:\[\d+\])?|.")
NAME = re.compile(r"[A-Za-z_]\w*(?:\[\d+\])?")
OWN = re.compile(r"\b[a-z]\d+(?:_\w+)?\b")
HEXADECIMAL = re.compile(r"0x[0-9a-f.]+p[+-]\d+")
NEGATIVE = re.compile(r"(?<=, )\((-[\w.+-]+)\)(?=[,)])")  # an argument of a function
WORDS = frozenset(("NAN", "INFINITY"))
LONGEST = 80  # statements of a function
LEAST = 120  # letters that a function has to save


@dataclass(frozen=True)
class Statement:
    """`const kind name = tokens;`, or any other line, which has no name."""

    line: str
    kind: str = ""
    name: str = ""
    tokens: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[str, ...]:
        """Its tokens, with names numbered in the order in which they appear."""
        seen: dict[str, str] = {}
        return (self.kind, *(seen.setdefault(t, f"${len(seen)}") if is_name(t) else t for t in self.tokens))


def is_name(token: str) -> bool:
    """Whether a token is a variable or an entry of an array."""
    return NAME.fullmatch(token) is not None and token not in WORDS and not token.startswith("0x")


def statement(line: str) -> Statement:
    """The parts of a line; entries of arrays that a counter chooses stay where they are."""
    found = STATEMENT.fullmatch(line)
    if found is None or re.search(r"\[\D", found[4]):
        return Statement(line)
    return Statement(line, found[2], found[3], tuple(TOKEN.findall(found[4])))


def outlined(lines: list[str], prefix: str) -> list[str]:
    """The lines, after repeated stretches as static functions called prefix0, prefix1, ..., which may call each other."""
    body = [statement(line) for line in lines]
    kinds: dict[str, str] = {}
    for number in range(100):
        best = _best(body)
        if best is None:
            break
        body = _replaced(body, *best, prefix, number, kinds)
    return [s.line for s in body]


def _best(body: list[Statement]) -> tuple[list[int], int] | None:
    """The stretch that saves most: (where it begins, each time; how many statements)."""
    numbers: dict[tuple[str, ...], int] = {}
    codes = [numbers.setdefault(s.shape, len(numbers)) if s.name else -1 for s in body]
    letters = [0, *accumulate(len(s.line) + 1 for s in body)]
    # stretches whose statements look alike one by one, by the most that they could save
    candidates: list[tuple[int, int, list[int]]] = []
    alive = [i for i, code in enumerate(codes) if code >= 0]
    for length in range(1, LONGEST + 1):
        groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for i in alive:
            if i + length <= len(body) and codes[i + length - 1] >= 0:
                groups[tuple(codes[i : i + length])].append(i)
        repeated = [found for found in groups.values() if len(found) > 1]
        candidates += [((len(g) - 1) * (letters[g[0] + length] - letters[g[0]]), length, g) for g in repeated]
        alive = sorted(i for found in repeated for i in found)
    uses = _uses(body)
    best, most = None, LEAST
    for bound, length, found in sorted(candidates, reverse=True):
        if bound <= most:
            break
        same: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for i in found:
            same[_canonical(body[i : i + length])].append(i)
        for starts in same.values():
            apart = [starts[0]]
            for i in starts[1:]:
                if i >= apart[-1] + length:
                    apart.append(i)
            saved = _saved(body, apart, length, uses)
            if saved > most:
                best, most = (apart, length), saved
    return best


def _saved(body: list[Statement], starts: list[int], length: int, uses: dict[str, list[int]]) -> int:
    """Letters that a function for a stretch saves; 0 if it cannot be one."""
    part = body[starts[0] : starts[0] + length]
    results = {k for i in starts for k in _results(body, i, length, uses)}
    if len(starts) < 2 or any(part[k].kind != "double" for k in results):
        return 0
    arguments, letters = len(_arguments(part)), sum(len(s.line) + 1 for s in part)
    call = 24 + 7 * arguments + (12 * len(results) if len(results) > 1 else 0)
    return (len(starts) - 1) * letters - len(starts) * call - 60 - 11 * arguments - 20 * len(results)


def _uses(body: list[Statement]) -> dict[str, list[int]]:
    """The lines in which each name appears."""
    uses: dict[str, list[int]] = defaultdict(list)
    for i, s in enumerate(body):
        names = s.tokens if s.name else OWN.findall(s.line)
        for name in set(names):
            uses[name].append(i)
    return uses


def _results(body: list[Statement], start: int, length: int, uses: dict[str, list[int]]) -> list[int]:
    """Which statements of a stretch are used after it."""
    return [k for k in range(length) if any(i >= start + length for i in uses[body[start + k].name])]


def _arguments(part: list[Statement]) -> list[str]:
    """Names from outside, in the order in which they appear."""
    own = {s.name for s in part}
    return list(dict.fromkeys(t for s in part for t in s.tokens if is_name(t) and t not in own))


def _canonical(part: list[Statement]) -> tuple[str, ...]:
    """The stretch with its names numbered."""
    seen: dict[str, str] = {}
    out: list[str] = []
    for s in part:
        out += [seen.setdefault(t, f"${len(seen)}") if is_name(t) else t for t in s.tokens]
        out.append(seen.setdefault(s.name, f"${len(seen)}"))
    return tuple(out)


def _replaced(
    body: list[Statement], starts: list[int], length: int, prefix: str, number: int, kinds: dict[str, str]
) -> list[Statement]:
    """A new function, and the body that calls it. `kinds`: types of the arguments of functions so far."""
    uses, name = _uses(body), f"{prefix}{number}"
    results = sorted({k for i in starts for k in _results(body, i, length, uses)})
    first = body[starts[0] : starts[0] + length]
    known = {**kinds, **{s.name: s.kind for s in body if s.name}}
    given = {a: f"a{number}_{j}" for j, a in enumerate(_arguments(first))}
    kinds.update({short: known.get(a, "double") for a, short in given.items()})
    inner = {s.name: f"b{number}_{j}" for j, s in enumerate(first)}
    single = len(results) == 1
    declared = [f"{kinds[short]} {short}" for short in given.values()]
    declared += [] if single else [f"double *o{number}_{j}" for j in range(len(results))]
    made = [Statement(f"static {'double' if single else 'void'} {name}({', '.join(declared)})"), Statement("{")]
    for s in first:
        made.append(
            statement(f"    const {s.kind} {inner[s.name]} = {''.join(given.get(t, inner.get(t, t)) for t in s.tokens)};")
        )
    if single:
        made.append(Statement(f"    return {inner[first[results[0]].name]};"))
    made += [] if single else [Statement(f"    *o{number}_{j} = {inner[first[k].name]};") for j, k in enumerate(results)]
    made += [Statement("}"), Statement("")]
    for begin, end in pairwise([-length, *starts, len(body)]):
        if begin >= 0:
            part = body[begin : begin + length]
            passed, indent = _arguments(part), part[0].line[: -len(part[0].line.lstrip())]
            names = [part[k].name for k in results]
            if single:
                tokens = (f"{name}(", *[x for a in passed for x in (a, ", ")][:-1], ")")
                made.append(Statement(f"{indent}const double {names[0]} = {''.join(tokens)};", "double", names[0], tokens))
            else:
                made.append(Statement(f"{indent}double {', '.join(names)};"))
                made.append(Statement(f"{indent}{name}({', '.join([*passed, *(f'&{n}' for n in names)])});"))
        made += body[begin + length : end]
    return made


def renamed(lines: list[str]) -> list[str]:
    """The lines with the variables of each function numbered, without `const`, and less indented."""
    out: list[str] = []
    begins = [k for k, line in enumerate(lines) if line == "{"]
    # a function begins one line before its brace
    for first, last in pairwise([0, *(k - 1 for k in begins[1:]), len(lines)]):
        part = [_short(line) for line in lines[first:last]]
        counts = Counter(name for line in part for name in OWN.findall(line))
        frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        short = {name: f"v{k}" for k, (name, _) in enumerate(frequent)}
        out += [OWN.sub(lambda found, short=short: short[found[0]], line) for line in part]  # type: ignore[misc]
    return out


def _short(line: str) -> str:
    text = HEXADECIMAL.sub(_number, line.lstrip().removeprefix("const "))
    return " " * ((len(line) - len(line.lstrip())) // 2) + NEGATIVE.sub(r"\1", text)


def _number(found: re.Match[str]) -> str:
    """A number as a decimal that rounds to it, where that is shorter."""
    decimal = repr(float.fromhex(found[0]))
    return decimal if len(decimal) < len(found[0]) and "e" not in decimal else found[0]
