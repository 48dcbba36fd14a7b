"""One machine's part of the demo: its run, its checks, its picture and its section of the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from condyle.demo.pictures import draw
from condyle.demo.report import section
from condyle.demos.row import Row
from condyle.demos.table import MACHINES
from condyle.runs.run import Run
from condyle.simulate.record import digest_of

Tell = Callable[[str], object]


@dataclass(frozen=True)
class Performance:
    """What came of it, in plain data that another process can hand over; paths are inside the demo's folder."""

    name: str
    rows: list[Row]
    seconds: float
    steps: int
    simulated: float
    run: str
    picture: str
    hashes: dict[str, str]
    html: str

    @property
    def failed(self) -> list[str]:
        return [row.check for row in self.rows if row.passed is False]


def perform(name: str, out: Path, tell: Tell = lambda what: None) -> Performance:
    """Simulate a machine into out/runs, check it, draw out/NAME.png, and write its section."""
    machine, begin = MACHINES[name], perf_counter()
    path, image = Path("runs") / f"{name}.cdl", Path(f"{name}.png")
    (out / "runs").mkdir(parents=True, exist_ok=True)
    tell("compiling and simulating")
    run = machine.run(out / path, say=lambda what, done, total: tell(what))
    tell("checking")
    rows = list(machine.checks(run, quick=True, say=lambda what, done, total: tell(what)))
    tell("drawing")
    draw(machine, run, out / image)
    html = section(machine, run, rows, out / path)
    return Performance(name, rows, perf_counter() - begin, run.steps, float(run.t[-1]), str(path), str(image), _hashes(run), html)


def _hashes(run: Run) -> dict[str, str]:
    """Of the robot, of the world, and of every bit of the states."""
    return {
        "robot": str(run.about["robot_hash"]),
        "world": str(run.about["world_hash"]),
        "states": digest_of({"x": run.x, "u": run.u, "wrenches": run.wrenches}),
    }
