"""An external program in lock-step and in real time: its commands are recorded, and the run repeats without it, bit for bit."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from workbench.connect.pendulum_loop import START, TARGET, Program, law, noisy_loop

import condyle as cd
from condyle.errors import ConnectError
from condyle.workbench.connect.client import State
from condyle.workbench.connect.external import Command, Exchange, ExternalControl, Requests, Transport
from condyle.workbench.connect.pacing import Pacing, precise_sleep
from condyle.workbench.connect.served_loop import served
from condyle.workbench.connect.shared_memory import SharedMemory
from condyle.workbench.connect.watch import Watch
from condyle.workbench.view.window import Watched

STEPS = 200
NUMBERS = count()


def fresh() -> str:
    """A name of shared memory that no other test uses."""
    return f"test-{os.getpid()}-{next(NUMBERS)}"


class Inside(Transport):
    """A program in this process, without any transmission; `late` ticks get no answer in time."""

    def __init__(self, late: tuple[int, ...] = (), act: Any = law) -> None:
        self.late, self.act, self.ticks, self.reason = late, act, [], ""

    def open(self, exchange: Exchange, requests: Requests) -> None:
        self.described, self.requests = exchange, requests

    def exchange(self, tick: int, signals: Mapping[str, np.ndarray], deadline: float) -> Command | None:
        self.ticks.append(tick)
        if tick in self.late:
            return None
        return Command(tick, self.act(State(tick, 0.0, signals)))

    def check(self) -> None:
        pass

    def close(self, reason: str) -> None:
        self.reason = reason


def external(transport: Transport, **options: Any) -> ExternalControl:
    given = {"command": "effort", "references": TARGET, "signals": ["measured", "target"], "every": 4, "timeout": 5.0}
    return ExternalControl(noisy_loop(), transport, **{**given, "connect_time": 20.0, **options})


@pytest.fixture(scope="module")
def alone() -> cd.Run:
    """The run without transmission."""
    return external(Inside()).run(noisy_loop().state(START), STEPS, seed=3)


# ---- lock-step


def test_a_run_repeats_without_the_program(alone: cd.Run) -> None:
    assert alone.steps == STEPS and alone.check(noisy_loop()).identical
    # commands are held for a period, and are not zero
    effort = alone.extras["effort"]
    assert np.array_equal(effort[::4], effort[3::4]) and np.abs(effort).min() > 0.0
    # another seed is another run: noise is part of it
    other = external(Inside()).run(noisy_loop().state(START), STEPS, seed=4)
    assert other.hash != alone.hash


def test_shared_memory_gives_the_same_bits_with_and_without_viewer_and_file(alone: cd.Run, tmp_path: Path) -> None:
    name = fresh()
    program = Program(name)
    seen: list[Any] = []
    watches: list[Watch] = []

    def look(tick: int, signals: Any) -> None:
        if not watches:
            watches.append(Watch(name))
        seen.append(watches[0].newest())

    control = external(SharedMemory(name))
    run = control.run(noisy_loop().state(START), STEPS, tmp_path / "run.cdl", seed=3, monitors=[look])
    assert program.done().ended == control.ended == "the run is complete: 200 ticks"
    assert run.hash == alone.hash
    again = cd.read_run(tmp_path / "run.cdl")
    assert again.hash == alone.hash and again.check(noisy_loop()).identical and again.lost is None
    states = [each for each in seen if isinstance(each, Watched)]
    assert len(states) > 10 and states[-1].t <= run.t[-1]
    assert watches[0].newest() == control.ended
    watches[0].close()


def test_held_references_and_rollouts_have_the_same_bits() -> None:
    loop, x0 = noisy_loop(), noisy_loop().state(START)
    given = {"effort": np.array([0.1, -0.2]), "target": np.zeros(2)}
    held, rolled = (cd.Recorder(loop, x0, seed=1, record=["measured"]) for _ in range(2))
    held.hold(given, 70)  # across a block of the file
    rolled.rollout(given, 70)
    assert held.finish().hash == rolled.finish().hash
    with pytest.raises(cd.CondyleError, match="in a loop"):
        cd.Recorder(loop.world, loop.world.state()).hold()


def test_the_program_ends_the_run(tmp_path: Path) -> None:
    name = fresh()

    def leave(link: Any) -> None:
        for state in link:
            if state.tick == 40:
                link.close("that is enough")
                return
            link.send(**law(state))

    program = Program(name, leave)
    run = external(SharedMemory(name)).run(noisy_loop().state(START), STEPS, tmp_path / "run.cdl")
    program.done()
    assert run.steps == 40 and run.check(noisy_loop()).identical
    assert cd.read_run(tmp_path / "run.cdl").about["stopped"] == "the external program ended the run: that is enough"


def test_a_reset_begins_another_run(tmp_path: Path) -> None:
    transport = Inside()

    def act(state: State) -> Any:
        if state.tick == 20 and not control.runs:
            control.requests.reset()
        return law(state)

    transport.act = act
    control = external(transport)
    run = control.run(noisy_loop().state(START), 40, tmp_path / "run.cdl", seed=3)
    assert [each.steps for each in control.runs] == [24, 40] and run is control.runs[1]
    first, second = (cd.read_run(tmp_path / name) for name in ("run.cdl", "run-2.cdl"))
    assert first.about["stopped"] == "reset" and "stopped" not in second.about
    assert np.array_equal(first.x, second.x[:25])


def test_a_program_that_hangs_or_never_comes_is_one_sentence() -> None:
    hangs = external(Inside(late=(8,)), timeout=0.1)
    with pytest.raises(ConnectError, match=r"^the external program gave no command for tick 8 within 0.1 s: it hangs"):
        hangs.run(noisy_loop().state(START), STEPS)
    assert hangs.runs[-1].steps == 8 and hangs.runs[-1].about["stopped"].startswith("ConnectError: the external program gave no")
    assert hangs.transport.reason.startswith("the external program gave no command")  # type: ignore[attr-defined]
    with pytest.raises(ConnectError, match=r"^no program gave a first command within 0.05 s"):
        external(SharedMemory(fresh()), connect_time=0.05).run(noisy_loop().state(START), STEPS)


def test_an_error_before_the_first_tick_leaves_no_file(tmp_path: Path) -> None:
    name = fresh()
    first = SharedMemory(name)
    first.open(external(Inside()).exchange, Requests())
    control = external(SharedMemory(name))
    with pytest.raises(ConnectError, match="another simulation serves at"):
        control.run(noisy_loop().state(START), 8, tmp_path / "run.cdl")
    first.close("")
    assert not (tmp_path / "run.cdl").exists() and control.runs == []


def test_what_was_asked_of_a_run_does_not_end_the_next() -> None:
    control = external(Inside())
    control.requests.stop("not yet")
    assert control.run(noisy_loop().state(START), 8).steps == 0 and control.ended == "not yet"
    assert control.run(noisy_loop().state(START), 8).steps == 8


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"command": "efort"}, "no reference 'efort' to command .did you mean 'effort'"),
        ({"command": "effort", "references": {}}, "the reference 'target' is neither a command nor given"),
        ({"references": {"target": np.zeros(3)}}, "the reference 'target' has 2 entries, got shape"),
        ({"references": {**TARGET, "goal": 0}}, "'goal' is no other reference"),
        ({"mode": "lock-step"}, "mode must be lockstep or realtime"),
        ({"deadline": 2.0}, "deadline is a part of a control period"),
        ({"signals": ["mesured"]}, "has no 'mesured' to record.*measured"),
        ({"every": 0}, "every must be a whole number from 1 up"),
    ],
)
def test_wrong_options_are_one_sentence(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(cd.CondyleError, match=sentence):
        external(Inside(), **options)


def test_steps_are_whole_periods() -> None:
    with pytest.raises(ConnectError, match="a multiple of the 4 ticks"):
        external(Inside()).run(noisy_loop().state(START), 10)


# ---- pause and step


def test_pause_step_and_resume() -> None:
    transport = Inside()
    control = external(transport)
    waits: list[int] = []

    def act(state: State) -> Any:
        if state.tick == 8:
            control.requests.pause()
        return law(state)

    transport.act = act

    def check() -> None:
        # called while the run is paused: two periods at once, then on
        waits.append(transport.ticks[-1])
        control.requests.step(2) if len(waits) < 3 else control.requests.resume()

    transport.check = check  # type: ignore[method-assign]
    run = control.run(noisy_loop().state(START), 40)
    assert waits == [8, 16, 24] and run.steps == 40


# ---- in real time


def test_late_commands_are_counted_recorded_and_held() -> None:
    control = external(Inside(late=(8, 12, 40)), mode="realtime")
    run = control.run(noisy_loop().state(START), 80, seed=3)
    assert control.pacing.overruns == 3 and len(control.pacing.late) == 19
    late = run.extras["clock.late"]
    assert [int(k) for k in np.flatnonzero(late[::4])] == [2, 3, 10] and np.array_equal(late[::4], late[3::4])
    effort = run.extras["effort"][::4]
    assert np.array_equal(effort[1], effort[2]) and np.array_equal(effort[1], effort[3])
    # what the clock says is kept, and not computed again
    assert run.check(noisy_loop()).identical and np.all(run.extras["clock.lateness"] >= 0.0)


def test_a_late_answer_is_the_newest_command() -> None:
    class Slow(Inside):
        def exchange(self, tick: int, signals: Mapping[str, np.ndarray], deadline: float) -> Command | None:
            return Command(max(tick - 4, 0), self.act(State(tick, 0.0, signals)))

    control = external(Slow(), mode="realtime")
    run = control.run(noisy_loop().state(START), 40)
    assert control.pacing.overruns == 9 and not np.array_equal(run.extras["effort"][4], run.extras["effort"][8])


def test_the_clock_slips_rather_than_hurries(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("condyle.workbench.connect.pacing.time.monotonic", lambda: now[0])
    monkeypatch.setattr("condyle.workbench.connect.pacing.time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    pacing = Pacing(0.5)
    assert pacing.begin() == 100.0
    assert pacing.begin() == 100.5
    now[0] += 0.75
    assert pacing.begin() == 101.0 and pacing.last == 0.25
    now[0] += 1.5
    assert pacing.begin() == 102.5 and pacing.slips == 2
    found = pacing.summary()
    assert found["periods"] == 4 and sum(found["histogram"]["counts"]) == 4 and found["late"]["max"] == 1.25
    assert "4 periods of 500 ms: 0 late commands, 2 periods left out" in str(pacing)


def test_precise_sleep_leaves_no_trace() -> None:
    import gc
    import sys

    before = sys.getswitchinterval(), gc.isenabled(), os.sched_getscheduler(0)
    with precise_sleep():
        assert sys.getswitchinterval() < before[0] and not gc.isenabled()
    assert (sys.getswitchinterval(), gc.isenabled(), os.sched_getscheduler(0)) == before
    with pytest.raises(ConnectError, match="priority is a number"), precise_sleep(100):
        pass


# ---- the loop of condyle serve


def test_positions_are_held_against_gravity() -> None:
    world = cd.Simulation(cd.load("double_pendulum"), dt=0.002)
    loop = served(world, None, command="position", frame="tip")
    goal = np.array([0.6, 0.4])
    out = loop.rollout(loop.state(START), {"position": goal, "wrench": np.zeros(6)}, 4000)
    assert np.abs(out["q"][-1] - goal).max() < 1e-6
    with pytest.raises(ConnectError, match=r"no frame 'tipp' for a wrench.*tip"):
        served(world, None, frame="tipp")
    with pytest.raises(ConnectError, match="effort or position, not 'torque'"):
        served(world, None, command="torque")
