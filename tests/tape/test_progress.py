"""The line that says what is compiled: late, on a terminal alone, gone afterwards."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

import condyle as cd
from condyle.tape import progress


class FakeTerminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTerminal]:
    """A terminal, as if this were no test; the line comes after 30 ms."""
    found = FakeTerminal()
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=found, modules={}))
    monkeypatch.setattr(progress, "DELAY", 0.03)
    monkeypatch.setattr(progress, "INTERVAL", 0.01)
    monkeypatch.setattr(progress, "_last", ("", 0.0, 0.0))
    monkeypatch.setattr(progress, "TESTED", "NOT_SET")
    monkeypatch.delenv("CONDYLE_PROGRESS", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    yield found


def slow(label: str = "step of 'dog'", seconds: float = 0.1) -> None:
    with progress.compiling(label):
        time.sleep(seconds)


def seen(text: str) -> str:
    """The visible text of a line of a terminal."""
    line = ""
    for part in text.split("\r"):
        line = part + line[len(part) :]
    return line.rstrip()


def test_the_line_appears_late_and_is_cleared(screen: FakeTerminal) -> None:
    slow(seconds=0.0)
    assert screen.getvalue() == ""
    slow()
    assert "compiling step of 'dog' ... 0 s" in screen.getvalue() and seen(screen.getvalue()) == ""


def test_an_error_clears_it_too(screen: FakeTerminal) -> None:
    with pytest.raises(KeyboardInterrupt), progress.compiling("x"):
        time.sleep(0.1)
        raise KeyboardInterrupt
    assert "compiling x" in screen.getvalue() and seen(screen.getvalue()) == ""


def test_trace_and_kernel_of_one_thing_have_one_clock(screen: FakeTerminal) -> None:
    for _ in range(4):
        slow(seconds=0.02)  # each too short for a line
    assert "compiling step of 'dog'" in screen.getvalue()


def test_of_two_lines_the_outer_one_is_shown(screen: FakeTerminal) -> None:
    with progress.compiling("outer"):
        slow("inner")
    assert "outer" in screen.getvalue() and "inner" not in screen.getvalue()


def test_who_draws_on_the_terminal_shows_it_itself(screen: FakeTerminal) -> None:
    shown: list[str] = []
    with progress.shown_by(shown.append):
        slow()
    assert screen.getvalue() == "" and shown[0].startswith("compiling step of 'dog'") and shown[-1] == ""


@pytest.mark.parametrize("why", ["pipe", "CONDYLE_PROGRESS", "TERM", "NOT_SET"])
def test_nobody_to_see_it(screen: FakeTerminal, monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    if why == "pipe":
        screen = io.StringIO()  # type: ignore[assignment]
        monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=screen, modules={}))
    else:
        monkeypatch.setenv(why, {"CONDYLE_PROGRESS": "off", "TERM": "dumb"}.get(why, "1"))
    slow()
    assert screen.getvalue() == ""


def test_functions_say_what_they_are(screen: FakeTerminal) -> None:
    robot = cd.load("pendulum")
    world = cd.Simulation(robot, 0.01)
    assert world.step_function().label == "step of 'pendulum'"
    assert cd.function(lambda x: x * x, x=1).label == "a function"
    assert cd.function(lambda x: x * x, x=1).jacobian().label == "derivatives of a function"
