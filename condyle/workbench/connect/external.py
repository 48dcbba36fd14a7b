"""A closed loop whose command comes from another program, in lock-step or in real time.

    external = ExternalControl(loop, SharedMemory("arm"), command="effort", every=4)
    run = external.run(loop.state(q), 4000, "run.cdl")

In lock-step the simulation waits for the command of every control period, so that the run depends on the program's numbers
alone. In real time a period begins by the clock; a command that is not there in time is an overrun, and the last one is held.
Either way the commands are recorded as references of the loop: `run.check(loop)` repeats the run bit for bit, without it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import numpy as np

from condyle.atomic_write import PathLike
from condyle.closed_loop.arguments import whole_number
from condyle.closed_loop.kernel import recordable
from condyle.closed_loop.loop import Loop
from condyle.errors import ConnectError, RobotError
from condyle.robot.names import nearest
from condyle.robot.to_urdf import to_urdf
from condyle.simulate.simulation import Simulation
from condyle.workbench.connect.pacing import Pacing, precise_sleep
from condyle.workbench.connect.served_loop import served
from condyle.workbench.connect.transport import LOCKSTEP, MODES, REALTIME, Command, Exchange, Requests, Transport
from condyle.workbench.runs.json_codec import EncodeError
from condyle.workbench.runs.loops import plant
from condyle.workbench.runs.recorder import Recorder
from condyle.workbench.runs.run import Run
from condyle.workbench.runs.serialize import encode_simulation

__all__ = ["Command", "Exchange", "ExternalControl", "Requests", "Transport"]

TIMEOUT = 10.0  # s that a command may take in lock-step
CONNECT_TIME = 60.0  # s that the program has to connect
PAUSE = 0.05  # s between signs of life while a run is paused
DEADLINE = 0.8  # of a control period: when a command is late; the rest is for the simulation
GIVEN, OWN = ("q", "v"), ("u", "wrenches")  # signals that every program gets, before those that are named


class ExternalControl:
    """Runs a loop whose reference `command` comes from another program by a transport, once in `every` ticks.

    `command`: the name of one reference, or of several; by default all that are not given. `references`: the other ones, {name:
    (size,) or (T, size)}, a row for each tick, of which the last is held. `signals`: what the program gets besides q, v and u, by
    the names that a loop can record, or of other references: those that a controller in the loop would have at this tick.
    `timeout` and `connect_time` are in s. In real time, `deadline` is the part of a period after which a command is late, and
    `priority` (1 to 99) puts this thread above other processes, where the system allows it. `urdf`: the text that clients get as
    the robot's description, by default written from its model. A program that does not connect or respond, or ends without a
    word, is a ConnectError; the run up to there is complete, in its file and in `runs`.
    """

    def __init__(
        self,
        loop: Loop | Simulation,
        transport: Transport,
        *,
        command: str | Sequence[str] | None = None,
        mode: str = LOCKSTEP,
        every: int = 4,
        signals: Sequence[str] = (),
        references: Mapping[str, Any] | None = None,
        timeout: float = TIMEOUT,
        connect_time: float = CONNECT_TIME,
        deadline: float = DEADLINE,
        priority: int = 0,
        urdf: str | None = None,
    ) -> None:
        self.loop = served(loop, None) if isinstance(loop, Simulation) else loop
        if not isinstance(self.loop, Loop):
            raise ConnectError(f"an external program controls a cd.Loop or a cd.Simulation, got {type(loop).__name__}")
        if mode not in MODES:
            raise ConnectError(f"mode must be lockstep or realtime, got {mode!r:.40}{nearest(str(mode), list(MODES))}")
        if not 0.0 < deadline <= 1.0:
            raise ConnectError(f"deadline is a part of a control period, above 0 and at most 1; got {deadline!r:.40}")
        self.transport, self.mode, self.every = transport, mode, whole_number("every", every, 1)
        self.timeout, self.connect_time, self.deadline = float(timeout), float(connect_time), float(deadline)
        self.priority = whole_number("priority", priority, 0)
        self.simulation = plant(self.loop)
        names = self._command_names(command, references or {})
        self._rows = self._other_references(names, references or {})
        self._signals = self._signal_names(tuple(signals))
        self.exchange = Exchange(
            robot=self.simulation.robot.name,
            mode=mode,
            dt=self.loop.dt,
            every=self.every,
            signals=self._signal_shapes(self._signals),
            commands={name: self.loop.inputs[name] for name in names},
            joints=tuple(self.simulation.control_names),
            coordinates=tuple(name for name, _ in _columns(self.simulation, 0)),
            velocities=tuple(name for name, _ in _columns(self.simulation, 1)),
            urdf=_urdf_of(self.simulation) if urdf is None else urdf,
            simulation_data=_data_of(self.simulation),
        )
        self.requests = Requests()
        self.runs: list[Run] = []
        self.pacing = Pacing(self.exchange.period)
        self.ended = ""  # why the last run ended, one sentence

    def run(
        self,
        x0: Any,
        steps: int | None = None,
        path: PathLike | None = None,
        *,
        seed: int | None = None,
        robot: int = 0,
        parameters: Mapping[str, Any] | None = None,
        record: Sequence[str] = (),
        title: str = "",
        about: Mapping[str, Any] | None = None,
        overwrite: bool = False,
        progress: Callable[[int], None] | None = None,
        monitors: Sequence[Callable[[int, Mapping[str, np.ndarray]], None]] = (),
    ) -> Run:
        """The recorded run of `steps` ticks (a multiple of `every`), or until the program ends it or `requests.stop()`.

        Options as in cd.Recorder. After a reset the next run begins, in the file path-2, and so on: all are in `runs`, and the
        last is returned. `progress(ticks)` and `monitors(tick, signals)` are called after every period; they cannot change it.
        """
        if steps is not None and (whole_number("steps", steps, 1) % self.every):
            raise ConnectError(f"steps must be a multiple of the {self.every} ticks of a control period, got {steps}")
        kept = tuple(dict.fromkeys([*record, *(name for name in self._signals if name in self.loop.plan.signals)]))
        facts = {"external": {"mode": self.mode, "every": self.every, "commands": list(self.exchange.commands)}}
        options: dict[str, Any] = {"seed": seed, "robot": robot, "parameters": parameters, "record": kept, "overwrite": overwrite}
        options |= {"title": title, "controller": "external", "about": {**facts, **(about or {})}}
        # compile first: a program does not wait for that, and no file is left behind by an error
        self._compile(self._recorder(x0, None, options))
        begun: Recorder | None = None
        self.runs, self.pacing, self.ended = [], Pacing(self.exchange.period), ""
        reason = "the server ended with an error"
        try:
            again = True
            with precise_sleep(self.priority) if self.mode == REALTIME else nullcontext():
                # inside: threads of the transport have the same priority
                self.transport.open(self.exchange, self.requests)
                while again:
                    begun = self._recorder(x0, _numbered(path, len(self.runs) + 1), options)
                    with begun as recorder:
                        again = self._periods(recorder, steps, progress, monitors)
                        complete = not again and recorder.k == steps
                        recorder.finish(None if complete else "reset" if again else self.ended)
                    self.runs.append(begun.finish())
                    begun = None
            reason = self.ended
        except BaseException as error:
            # a recorder that an error left has finished its run
            if begun is not None and begun.run is not None:
                self.runs.append(begun.run)
            reason = str(error) or type(error).__name__
            raise
        finally:
            self.ended = reason
            self.requests.clear()
            with suppress(ConnectError):
                self.transport.close(reason)
        return self.runs[-1]

    # ---- inside

    def _periods(
        self,
        recorder: Recorder,
        steps: int | None,
        progress: Callable[[int], None] | None,
        monitors: Sequence[Callable[[int, Mapping[str, np.ndarray]], None]],
    ) -> bool:
        """Whether a reset ended the run; otherwise `ended` says why it is over."""
        paced, last, requests = self.mode == REALTIME, None, self.requests
        signals = self._signals_of(recorder, {name: np.zeros(shape) for name, shape in self.exchange.commands.items()})
        self.pacing.restart()
        while steps is None or recorder.k < steps:
            tick = recorder.k
            if requests.paused:
                self._pause()
            if requests.take_reset():
                return True
            if requests.stopped:
                self.ended = requests.stopped
                return False
            requests.take_period()
            # the first command may take as long as the program needs to start; the clock begins with it
            first = last is None
            due = self.pacing.begin() if paced and not first else time.monotonic()
            limit = self.connect_time if first else self.deadline * self.exchange.period if paced else self.timeout
            command = self.transport.exchange(tick, signals, due + limit)
            if command is None and (requests.urgent or requests.paused):
                continue
            if command is not None and command.end:
                self.ended = command.end
                return False
            late = command is None or command.tick != tick
            if command is None and (first or not paced):
                raise ConnectError(self._no_answer(tick, first, limit))
            last = last if command is None else command
            assert last is not None
            clock: dict[str, float] = {}
            if paced:
                self.pacing.overruns += late
                clock = {"late": float(late), "lateness": 0.0 if first else self.pacing.last}
                if first:
                    self.pacing.restart()
            recorder.hold(self._references(tick, last.values), self.every, **clock)
            signals = self._signals_of(recorder, last.values)
            for monitor in monitors:
                monitor(recorder.k, signals)
            if progress is not None:
                progress(recorder.k)
        self.ended = f"the run is complete: {recorder.k:,} ticks"
        return False

    def _pause(self) -> None:
        """None, when the run may go on."""
        while self.requests.paused and not self.requests.urgent:
            self.transport.check()
            self.requests.wait(PAUSE)
        self.pacing.restart()

    def _no_answer(self, tick: int, first: bool, limit: float) -> str:
        if first:
            return f"no program gave a first command within {limit:g} s: start it, or give it more time (connect_time=)"
        return (
            f"the external program gave no command for tick {tick:,} within {limit:g} s: it hangs, or needs more time (timeout=)"
        )

    def _recorder(self, x0: Any, path: PathLike | None, options: dict[str, Any]) -> Recorder:
        return Recorder(self.loop, x0, path, **options)

    def _compile(self, recorder: Recorder) -> None:
        """None; the kernel of a tick is compiled before a program waits for it. The recorder stays as it is."""
        zeros = {name: np.zeros(shape) for name, shape in self.loop.inputs.items()}
        parameters = recorder.parameters or None
        self.loop.step(recorder.x, {**zeros, **self._others(0)}, record=recorder.recorded, parameters=parameters, freeze=True)

    def _signals_of(self, recorder: Recorder, last: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The signals at the present state: states, other references, u and wrenches of the last tick, and the outputs of this
        one, which sensors and their noise make as they will in the tick itself; a command in an output is the last one."""
        shapes, parts = self.exchange.signals, {**self.loop.unpacked(recorder.x), **self._others(recorder.k)}
        parts |= {name: recorder.last.get(name, np.zeros(shapes[name])) for name in OWN if name in shapes}
        if any(name not in parts for name in shapes):
            parts = {**recorder.outputs(self._references(recorder.k, last)), **parts}
        return {name: np.asarray(parts[name]) for name in shapes}

    def _references(self, tick: int, commands: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        given = {**self._others(tick), **commands}
        return {name: given[name] for name in self.loop.inputs}

    def _others(self, tick: int) -> dict[str, np.ndarray]:
        return {name: rows[min(tick, len(rows) - 1)] for name, rows in self._rows.items()}

    def _command_names(self, command: str | Sequence[str] | None, references: Mapping[str, Any]) -> tuple[str, ...]:
        inputs = self.loop.inputs
        if command is None:
            command = [name for name in inputs if name not in references]
        names = (command,) if isinstance(command, str) else tuple(command)
        if not names:
            raise ConnectError("an external program needs a reference of the loop to command, and this loop has none left for it")
        for name in names:
            if name not in inputs:
                raise ConnectError(f"the loop has no reference '{name!s:.60}' to command{nearest(str(name), list(inputs))}")
        return names

    def _other_references(self, names: tuple[str, ...], given: Mapping[str, Any]) -> dict[str, np.ndarray]:
        wanted = [name for name in self.loop.inputs if name not in names]
        for name in given:
            if name not in wanted:
                raise ConnectError(f"'{name!s:.60}' is no other reference of the loop{nearest(str(name), wanted)}")
        rows = {}
        for name in wanted:
            if name not in given:
                raise ConnectError(f"the reference '{name}' is neither a command nor given: references={{'{name}': ...}}")
            rows[name] = np.atleast_2d(np.asarray(given[name], dtype=float))
            if rows[name].ndim != 2 or rows[name].shape[1:] != self.loop.inputs[name] or not len(rows[name]):
                raise ConnectError(
                    f"the reference '{name}' has {self.loop.inputs[name][0]} entries, got shape {np.shape(given[name])}"
                )
        return rows

    def _signal_names(self, signals: tuple[str, ...]) -> tuple[str, ...]:
        """The names of what is sent: q, v, u, wrenches if there are any, and those that are given."""
        own = [name for name in OWN if name in self.loop.plan.signals]
        return tuple(dict.fromkeys([*GIVEN, *own, *signals]))

    def _signal_shapes(self, names: tuple[str, ...]) -> dict[str, tuple[int, ...]]:
        known = recordable(self.loop, tuple(name for name in names if name not in self._rows))
        return {name: self.loop.inputs[name] if name in self._rows else known[name] for name in names}


def _columns(simulation: Simulation, which: int) -> list[tuple[str, str]]:
    """Names and units of the entries of q (0) or v (1)."""
    from condyle.workbench.runs.signals import columns_of

    columns = [(name, unit) for name, unit in columns_of(simulation)["x"]]
    nq, nv = simulation.robot.nq, simulation.robot.nv
    found = columns[:nq] if which == 0 else columns[nq : nq + nv]
    return [(name.partition(".")[2], unit) for name, unit in found]


def _urdf_of(simulation: Simulation) -> str:
    with suppress(RobotError):
        return to_urdf(simulation.robot.model)
    return ""


def _data_of(simulation: Simulation) -> Any:
    with suppress(EncodeError):
        return encode_simulation(simulation)
    return None


def _numbered(path: PathLike | None, number: int) -> Path | None:
    """run.cdl, run-2.cdl, run-3.cdl."""
    if path is None or number == 1:
        return None if path is None else Path(path)
    whole = Path(path)
    return whole.with_name(f"{whole.stem}-{number}{whole.suffix}")
