"""Draw faults in the core of the package, one at a time, and count how many of them the tests of `make test` find.

python scripts/mutate.py                      # 40 faults of seed 1; an interrupted run goes on where it was
python scripts/mutate.py --seed 2 --count 10
python scripts/mutate.py --list               # the faults that would be tried

Each fault is written into a temporary copy of the tracked files. First the tests of the folder that mirrors its module run, for
all faults; then, for each fault that survives them, all that `make test` runs, until one fails. The checkout is never changed.
Progress is kept in out/, the table is
benchmarks/results/mutations.md: the notes in its last column, one for each survivor, are kept when it is written again.
"""

from __future__ import annotations

import ast
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("tape", "robot", "dynamics", "constraints", "multibody", "simulate", "closed_loop", "blocks")
KINDS = ("sign", "missing term", "index", "comparison", "constant")
QUICK = "not (slow or docs or peers or browser or gpu)"  # what `make test` runs
MAX_MEMORY = 8 << 30  # bytes of one process: a fault may allocate without end

OPERATORS: dict[type[ast.AST], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
COMPARISONS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
}


@dataclass(frozen=True)
class Fault:
    """Characters `start` to `end` of a file, replaced by `text`."""

    file: str
    line: int
    kind: str
    start: int
    end: int
    text: str

    def apply(self, source: str) -> str:
        """The source with the fault."""
        return source[: self.start] + self.text + source[self.end :]


# -- which faults there are


def faults(file: str, source: str) -> Iterator[Fault]:
    """Every place of a file with what may be wrong there; what is said, documented, raised or annotated stays as it is."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    text = source.encode()

    def position(line: int, column: int) -> int:
        return len(text[: starts[line - 1] + column].decode())

    def span(node: ast.expr) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return position(node.lineno, node.col_offset), position(node.end_lineno, node.end_col_offset)

    def between(left: ast.expr, right: ast.expr, old: str, new: str) -> tuple[int, int, str] | None:
        """The operator between two operands, parentheses and comments around it aside."""
        start, end = span(left)[1], span(right)[0]
        match = re.fullmatch(rf"[\s)\\]*({re.escape(old)})[\s(\\]*", source[start:end])
        return (start + match.start(1), start + match.end(1), new) if match else None

    for node, in_index in arithmetic(ast.parse(source)):
        edits: list[tuple[str, tuple[int, int, str] | None]] = []
        match node:
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                sign = OPERATORS[type(op)]
                if sign != "*":
                    edits.append(("sign", between(left, right, sign, "+" if sign == "-" else "-")))
                edits.append(("missing term", (*span(node), source[slice(*span(left))])))
            case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
                edits.append(("sign", (*span(node), source[slice(*span(operand))])))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
                edits.append(("comparison", between(left, right, *COMPARISONS[type(op)])))
            case ast.Constant(value=value) if type(value) is int and in_index:
                edits.append(("index", (*span(node), str(value + 1 if value < 2 else value - 1))))
            case ast.Constant(value=value) if type(value) in (int, float):
                edits.append(("constant", (*span(node), repr(value + 1 if value == 0 or type(value) is int else 2.0 * value))))
        for kind, edit in edits:
            if edit is not None:
                yield Fault(file, node.lineno, kind, *edit)


def arithmetic(node: ast.AST, in_index: bool = False) -> Iterator[tuple[ast.expr, bool]]:
    """(expression, whether it is an index) of all that is computed: no annotations, texts, messages, exports or type names."""
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or field in ("annotation", "returns", "decorator_list", "type_params", "bases"):
                continue
            if isinstance(child, ast.Raise | ast.Assert | ast.JoinedStr):
                continue
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            inside = field == "slice" if isinstance(node, ast.Subscript) else in_index and not isinstance(node, ast.Call)
            if isinstance(child, ast.expr):
                yield child, inside
            yield from arithmetic(child, inside)


def leaves_a_program(fault: Fault, source: str) -> bool:
    """Whether the file can still be read, and says something else."""
    try:
        changed = ast.dump(ast.parse(fault.apply(source)))
    except SyntaxError:
        return False
    return changed != ast.dump(ast.parse(source))


def draw(seed: int, count: int) -> list[Fault]:
    """Faults in turn from every folder and of every kind; within a folder each place is as likely as any other."""
    numbers = random.Random(seed)
    drawn: list[Fault] = []
    while len(drawn) < count:
        folder, kind = FOLDERS[len(drawn) % len(FOLDERS)], KINDS[len(drawn) % len(KINDS)]
        files = sorted((ROOT / "condyle" / folder).rglob("*.py"))
        lengths = [path.stat().st_size for path in files]
        while True:
            (path,) = numbers.choices(files, lengths)
            source = path.read_text()
            places = [fault for fault in faults(path.relative_to(ROOT).as_posix(), source) if fault.kind == kind]
            if places and (fault := numbers.choice(places)) not in drawn and leaves_a_program(fault, source):
                drawn.append(fault)
                break
    return drawn


# -- trying one


@dataclass(frozen=True)
class Outcome:
    """What the tests said of a fault: the first test that failed, "" if none did."""

    fault: Fault
    before: str  # the line, and what it became
    after: str
    failed: str
    seconds: float
    complete: bool = True  # whether all tests ran, and not those of the mirrored folder alone


def copy_of_checkout(folder: Path) -> None:
    """The tracked files, with what is changed in them."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


def first_failure(folder: Path, what: list[str], workers: int, limit: float) -> str:
    """The first test that fails in the copy; "" if all pass."""
    options = f"-x -n {workers} --dist loadfile --tb=no -rfE".split()
    command = [sys.executable, "-m", "pytest", "-m", QUICK, *options, *what]
    environment = {**os.environ, "PYTHONPATH": str(folder), "CONDYLE_TEST_CACHE": str(ROOT / "out" / "mutants_cache")}
    environment.pop("CONDYLE_CACHE", None)
    child = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (MAX_MEMORY, MAX_MEMORY)),
    )
    try:
        out, _ = child.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        return f"no end after {limit:.0f} s"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    if child.returncode in (0, 5):  # 5: no test was selected
        return ""
    match = re.search(r"(?m)^(?:FAILED|ERROR) (\S+)", out)
    return match[1] if match else f"exit status {child.returncode}"


def attempt(fault: Fault, folder: Path, workers: int, limit: float, complete: bool) -> Outcome:
    """Write the fault into the copy, run the tests (all, or those of the mirrored folder), and put the file back."""
    start, path = time.monotonic(), folder / fault.file
    source = path.read_text()
    changed = fault.apply(source)
    before, after = (text.splitlines()[fault.line - 1].strip() for text in (source, changed))
    path.write_text(changed)
    try:
        failed = first_failure(folder, [] if complete else [f"tests/{Path(fault.file).parts[1]}"], workers, limit)
    finally:
        path.write_text(source)
    return Outcome(fault, before, after, failed, round(time.monotonic() - start, 1), complete)


# -- the table


def table(outcomes: list[Outcome], seed: int, notes: dict[str, str]) -> str:
    """The outcomes as a Markdown table."""
    caught = sum(bool(outcome.failed) for outcome in outcomes)
    rows = [
        f"# {caught} of {len(outcomes)} faults are found by `make test`",
        "",
        f"Written by `python scripts/mutate.py --seed {seed}`; the notes are kept.",
        "",
        "| # | place | kind | line | with the fault | found by | note |",
        "| --: | --- | --- | --- | --- | --- | --- |",
    ]
    for number, outcome in enumerate(outcomes, 1):
        place = f"{outcome.fault.file}:{outcome.fault.line}"
        code = [f"`` {text.replace('|', chr(92) + '|')} ``" for text in (outcome.before, outcome.after)]
        rows.append(
            f"| {number} | {place} | {outcome.fault.kind} | {' | '.join(code)} | {outcome.failed} | {notes.get(place, '')} |"
        )
    return "\n".join(rows) + "\n"


def notes_of(text: str) -> dict[str, str]:
    """{place: note} of a table."""
    rows = [re.split(r"(?<!\\)\|", line) for line in text.splitlines() if line.startswith("|")]
    return {row[2].strip(): row[7].strip() for row in rows if len(row) == 9}


def outcomes_in(path: Path) -> dict[Fault, Outcome]:
    """What was kept of an interrupted run."""
    kept = {}
    for line in path.read_text().splitlines() if path.is_file() else ():
        row = json.loads(line)
        fault = Fault(**row.pop("fault"))
        kept[fault] = Outcome(fault, **row)
    return kept


def main(
    seed: Annotated[int, typer.Option(help="of the drawing")] = 1,
    count: Annotated[int, typer.Option(help="faults")] = 40,
    workers: Annotated[int, typer.Option(help="test processes")] = (os.cpu_count() or 1) + 1,
    limit: Annotated[float, typer.Option(help="seconds of one run of tests: a fault may make a loop without end")] = 900.0,
    to: Annotated[Path, typer.Option(help="the table")] = ROOT / "benchmarks" / "results" / "mutations.md",
    list_only: Annotated[bool, typer.Option("--list", help="print the faults, run nothing")] = False,
) -> None:
    """Draw faults and count how many `make test` finds."""
    console, drawn = Console(), draw(seed, count)
    if list_only:
        for fault in drawn:
            source = (ROOT / fault.file).read_text()
            line = fault.apply(source).splitlines()[fault.line - 1].strip()
            console.print(
                f"{fault.file}:{fault.line}: {fault.kind}: {line}", markup=False, emoji=False, highlight=False, soft_wrap=True
            )
        return
    progress_file = ROOT / "out" / f"mutations_{seed}.jsonl"
    progress_file.parent.mkdir(exist_ok=True)
    kept = outcomes_in(progress_file)
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    with tempfile.TemporaryDirectory(prefix="condyle-mutants-") as name, Progress(*columns, console=console) as progress:
        folder, task = Path(name), progress.add_task("tests without a fault", total=len(drawn))
        copy_of_checkout(folder)
        # fills the cache of kernels, and shows that it is the fault that fails
        if not kept and (failed := first_failure(folder, [], workers, 4.0 * limit)):
            console.print(f"the tests fail without a fault: {failed}", style="red")
            raise typer.Exit(1)
        for complete in (False, True):
            progress.reset(task, total=len(drawn))
            for fault in drawn:
                progress.update(task, description=f"{fault.file}:{fault.line}")
                if fault not in kept or (complete and not (kept[fault].failed or kept[fault].complete)):
                    kept[fault] = attempt(fault, folder, workers, limit, complete)
                    with open(progress_file, "a") as file:
                        file.write(json.dumps(asdict(kept[fault])) + "\n")
                    failed = kept[fault].failed or ("survives" if complete else "survives its own folder")
                    text = f"{fault.file}:{fault.line}: {failed}"
                    progress.console.print(text, style="" if kept[fault].failed else "yellow", markup=False, emoji=False)
                progress.advance(task)
    to.write_text(table([kept[fault] for fault in drawn], seed, notes_of(to.read_text()) if to.is_file() else {}))
    console.print(f"{sum(bool(kept[fault].failed) for fault in drawn)} of {len(drawn)} found: {to}")


if __name__ == "__main__":
    typer.run(main)
