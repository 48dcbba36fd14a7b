"""Runs as CSV: two lines that begin with "# ", one of names, then a row for each state. Every float comes back exactly."""

from __future__ import annotations

import csv
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from condyle.atomic_write import PathLike, file_errors
from condyle.errors import FileError
from condyle.runs import json_codec
from condyle.runs.run import Run
from condyle.runs.table import headings, layout_in, others, run_of, told

FIRST = "# condyle run 1"
MOST_BYTES = 1 << 34


def write_csv(run: Run, path: Path) -> None:
    """None; the rows are t, the state, and what acts from it to the next: nothing in the last row."""
    states, between = headings(run)
    with open(path, "x", newline="", encoding="utf-8") as out:
        out.write(f"{FIRST}\n# {json_codec.text_of(told(run)).decode()}\n")
        rows = csv.writer(out, lineterminator="\n")
        rows.writerow(["t", *states, *between])
        # Python writes the shortest decimals that give the same float again
        for row in zip(run.t.tolist(), run.x.tolist(), [*others(run).tolist(), [""] * len(between)], strict=True):
            rows.writerow([row[0], *row[1], *row[2]])


def read_csv(path: PathLike) -> Run:
    """The run of a CSV file that `write_csv` wrote; numbers that were changed since are taken, and `lost` says so."""
    with file_errors(path, "read", "check its name and its permissions"):
        try:
            with open(path, newline="", encoding="utf-8-sig") as text:
                if os.fstat(text.fileno()).st_size > MOST_BYTES:
                    raise json_codec.Wrong(f"more than {MOST_BYTES:,} bytes")
                return _read(text, path)
        except (json_codec.Wrong, csv.Error, UnicodeDecodeError) as error:
            raise FileError(f"{path} is not a run that was exported as CSV, {error!s:.200}: export it again.") from None


def _read(text: Any, path: PathLike) -> Run:
    if text.readline(100).rstrip("\r\n") != FIRST:
        raise json_codec.Wrong(f"its first line is not '{FIRST}'")
    line = text.readline(1 << 24)
    if not line.startswith("# "):
        raise json_codec.Wrong("its second line does not begin with '# '")
    about = json_codec.from_text(line[2:])
    layout = layout_in(about)
    width = layout.row_bytes // 8
    rows = csv.reader(text)
    names = next(rows, [])
    if len(names) != width + 1:
        raise json_codec.Wrong(f"line 3 does not have {width + 1} names")
    times, states, between = [], [], list[np.ndarray]()
    last: list[str] = []
    blank = 0
    for number, row in enumerate(rows, 4):
        if not any(cell.strip() for cell in row):
            blank = blank or number
            continue
        if blank:
            raise json_codec.Wrong(f"line {blank} is empty, and it goes on after it")
        if last:
            between.append(_floats(last, number - 1))
        if len(row) != width + 1:
            raise json_codec.Wrong(f"line {number} has {len(row)} entries, not {width + 1}")
        times.append(_floats(row[:1], number))
        states.append(_floats(row[1 : layout.nx + 1], number))
        last = row[layout.nx + 1 :]
    if not states or any(last):
        raise json_codec.Wrong("its last row must be a state, with nothing behind it")
    if not last:
        between = [np.zeros(0)] * (len(states) - 1)
    others = np.array(between).reshape(len(states) - 1, width - layout.nx)
    run = run_of(about, layout, np.array(states), others, path, np.array(times))
    wanted = ["t", *itertools.chain(*headings(run))]
    for k, (name, found) in enumerate(zip(wanted, names, strict=True), 1):
        if name.splitlines() != found.splitlines():
            raise json_codec.Wrong(f"column {k} is called {found!r:.40}, not {name!r:.40}")
    return run


def _floats(row: list[str], line: int) -> np.ndarray:
    try:
        found = np.array(list(map(float, row)))
    except ValueError:
        wrong = next(itertools.chain(_not_numbers(row), [""]))
        raise json_codec.Wrong(f"line {line} has {wrong!r:.40}, which is not a number") from None
    if not np.all(np.isfinite(found)):
        raise json_codec.Wrong(f"line {line} has a number that is not finite")
    return found


def _not_numbers(row: list[str]) -> Iterator[str]:
    for cell in row:
        try:
            float(cell)
        except ValueError:
            yield cell
