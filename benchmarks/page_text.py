"""Numbers and tables as the benchmark page shows them."""

from __future__ import annotations

import re
from textwrap import fill

from benchmarks.measured import Rate

UNITS = ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms"))


class Table:
    """A table in Markdown; all columns but the first are numbers, and the last one is text with `left_end`."""

    def __init__(self, *heads: str, left_end: bool = False) -> None:
        rule = ["---", *["--:"] * (len(heads) - 1)]
        if left_end:
            rule[-1] = "---"
        self.lines = [_line(heads), _line(rule)]

    def add(self, *cells: str) -> None:
        """Append a line."""
        self.lines.append(_line(cells))

    def __str__(self) -> str:
        return "\n".join(self.lines) + "\n"


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def paragraph(*texts: str) -> str:
    """Sentences as a paragraph of lines that are not too long; no line ends inside of code."""
    kept = re.sub("`[^`]*`", lambda code: code[0].replace(" ", "\0"), " ".join(texts))
    return fill(kept, 130, break_long_words=False, break_on_hyphens=False).replace("\0", " ") + "\n"


def span(rate: Rate) -> str:
    """The time of one evaluation."""
    return seconds(1.0 / rate.per_second)


def seconds(time: float) -> str:
    """A time with three digits, in ns, µs, ms or s."""
    for limit, factor, unit in UNITS:
        if time < limit:
            return f"{digits(factor * time)} {unit}"
    return f"{digits(time)} s"


def digits(number: float) -> str:
    """Three digits, or all in front of the point, with commas."""
    rounded = float(f"{number:.3g}") if number < 1000.0 else round(number)
    return f"{rounded:,.0f}" if rounded >= 100.0 else f"{rounded:.3g}"


def million(per_second: float) -> str:
    """A rate in millions."""
    return digits(per_second / 1e6)


def counted(number: float) -> str:
    """A number with two digits."""
    return f"{float(f'{number:.2g}'):,.0f}"


def faster(ours: float, theirs: float) -> str:
    """How many times as fast ours is, by two rates or the inverses of two times, in bold."""
    return f"**{float(f'{ours / theirs:.2g}'):g}**"


def ratio(theirs: Rate, ours: Rate) -> str:
    """Two times and how many times as fast ours is."""
    return f"{span(theirs)} / {span(ours)} = **{ours.per_second / theirs.per_second:.1f}**"
