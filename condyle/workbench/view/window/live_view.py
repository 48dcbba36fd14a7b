"""The view of a simulation as it runs: in real time or slower, paused, pushed with the mouse or a button, and saved as a run.

The clock only says how many steps are due; a step itself never reads it.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from condyle.blocks.joints import combined
from condyle.closed_loop.loop import Loop
from condyle.errors import ControlError
from condyle.methods.control.controllers import Control, gravity_compensation, hold, sine_motion, zero_torque
from condyle.methods.control.stance import stance
from condyle.multibody.robot import Robot
from condyle.robot.model import Frame
from condyle.simulate.simulation import Simulation
from condyle.workbench.runs.loops import OPEN, plant
from condyle.workbench.runs.recorder import Recorder
from condyle.workbench.view.plots import round_up
from condyle.workbench.view.trajectory import frame_positions, link_poses, mass_center, snapshot
from condyle.workbench.view.window.objects import Environment, RobotNode
from condyle.workbench.view.window.panel import Panel, View, paragraph, short
from condyle.workbench.view.window.signal_plot import Signal, SignalPlot

OWN, ACTUATORS = "own controller", "actuators of its file"
CONTROLS: dict[str, Callable[[Simulation, np.ndarray], Control]] = {
    ACTUATORS: lambda simulation, x: stance(simulation, q=simulation.split(x)[0]),
    "hold the pose": hold,
    "gravity compensation": gravity_compensation,
    "sine motion": sine_motion,
    "none": lambda simulation, _: zero_torque(simulation),
}
FRAME_BUDGET = 0.030  # s of one frame that steps may take
MAX_RECORDED = 120.0  # s of simulated time that are kept
PLOTTED = 5.0  # s of simulated time in the plot
SAMPLE_TIME = 0.02  # s of simulated time between samples of the plot
SPEEDS = (0.05, 1.0)
SIGNALS = {"height of the centre of mass": "m", "joint coordinates": "rad or m", "push": "N", "upward contact force": "N"}
HEIGHT, JOINTS, PUSH, CONTACT = SIGNALS
MAX_FRAMES = 48  # that a simulation takes wrenches at, one for each link
MAX_PULL = 3.0  # the force of the mouse, in weights of the robot
DAMPING_RATIO = 0.5  # of the mouse's spring


def pushable(robot: Robot) -> list[str]:
    """A frame of each link with a mass, for `Simulation(..., wrenches=pushable(robot))`; of many links, of the heaviest."""
    frames: dict[int, str] = {}
    for frame in robot.model.frames:
        if frame.link >= 0 and robot.model.links[frame.link].inertia.mass > 0.0:
            frames.setdefault(frame.link, frame.name)
    heavy = sorted(frames, key=lambda link: -float(robot.model.links[link].inertia.mass))[:MAX_FRAMES]
    return [frames[link] for link in sorted(heavy)]


@dataclass
class Pull:
    """A damped spring from the point `grip` of a link, in its frame, to a `target` in the world."""

    link: int
    grip: np.ndarray
    target: np.ndarray
    last: np.ndarray | None = None  # where the point was a step ago


class Pushes:
    """The wrenches of each step, (frames, 6), by a button or by the mouse; safe to use from several threads."""

    def __init__(self, simulation: Simulation, size: float) -> None:
        self.simulation, self.robot = simulation, simulation.robot
        self.frames: list[Frame] = [self.robot.model.frame(name) for name in simulation.wrench_frames]
        self.by_link = {frame.link: k for k, frame in reversed(list(enumerate(self.frames)))}
        self.weight = simulation.weight
        # a pull over half the robot's size is as strong as its weight
        self.stiffness = self.weight / (0.5 * size)
        self._lock = threading.Lock()
        self._pull: Pull | None = None
        self._push: tuple[int, np.ndarray, float] | None = None  # frame, force, seconds left

    def push(self, frame: int, force: np.ndarray, seconds: float) -> None:
        """Push at a frame, by its index, with a force for some time."""
        with self._lock:
            self._push = (frame, np.asarray(force, dtype=float), float(seconds))

    def pull(self, link: int, grip: np.ndarray, target: np.ndarray) -> None:
        """Pull a point of a link, given in its frame, towards a target in the world."""
        with self._lock:
            if self._pull is not None and self._pull.link == link and np.array_equal(self._pull.grip, grip):
                self._pull.target = np.asarray(target, dtype=float)
            else:
                self._pull = Pull(link, np.asarray(grip, dtype=float), np.asarray(target, dtype=float))

    def release(self) -> None:
        """End both."""
        with self._lock:
            self._pull = self._push = None

    @property
    def active(self) -> bool:
        """Whether anything acts."""
        return self._pull is not None or self._push is not None

    def wrenches(self, poses: Callable[[], tuple[np.ndarray, np.ndarray]], dt: float) -> np.ndarray | None:
        """The wrenches of the next step of dt seconds; `poses()` gives (R, p) of the links and is called only if needed."""
        if not self.frames:
            return None
        out = np.zeros((len(self.frames), 6))
        with self._lock:
            pull, push = self._pull, self._push
            if push is not None:
                frame, force, left = push
                out[frame, :3] = force
                self._push = (frame, force, left - dt) if left - dt > 0.5 * dt else None
        if pull is not None and pull.link in self.by_link:
            k = self.by_link[pull.link]
            R, p = poses()
            point = R[pull.link] @ pull.grip + p[pull.link]
            force = self._spring(pull, point, dt)
            out[k, :3] += force
            out[k, 3:] += np.cross(point - frame_positions(self.robot, R, p, self.frames[k].name), force)
        return out

    def _spring(self, pull: Pull, point: np.ndarray, dt: float) -> np.ndarray:
        """k (target - point) - d velocity, at most MAX_PULL weights."""
        velocity = np.zeros(3) if pull.last is None else (point - pull.last) / dt
        pull.last = point
        mass = float(self.robot.model.links[pull.link].inertia.mass)
        # the damping of a heavy robot would be unstable on a light link
        damping = min(2.0 * DAMPING_RATIO * np.sqrt(self.stiffness * self.robot.mass), 0.2 * mass / dt)
        force = self.stiffness * (pull.target - point) - damping * velocity
        size, most = float(np.linalg.norm(force)), MAX_PULL * self.weight
        return np.asarray(force if size <= most else force * (most / size))


def pushed_loop(simulation: Simulation, control: Control, references: Mapping[str, int]) -> Loop:
    """The loop of a controller whose reference "push" are the wrenches at the frames of the simulation, six numbers each."""
    frames = simulation.config.wrenches

    def pushed(x: Any, **given: Any) -> dict[str, Any]:
        push = given.pop("push", None)
        wrenches: dict[str, list[Any]] = {}
        for k, (frame, axes) in enumerate(frames):
            wrenches.setdefault(frame, []).append((push[6 * k : 6 * k + 6], axes))
        return combined({"wrenches": wrenches}, control(x, **given))

    sizes: dict[str, Any] = {**references, **({"push": 6 * len(frames)} if frames else {})}
    return Loop(simulation, pushed, **sizes)


def drives(loop: Loop) -> list[str]:
    """The signals of a loop that are parameters of the world, as the drives of actuators are."""
    return [name for name in loop.plan.signals if name.startswith(OPEN)]


class LiveView(View):
    """A simulation in a window, stepped as a loop; `x` is its state, `time` in s."""

    def __init__(
        self,
        server: Any,
        panel: Panel,
        simulation: Simulation,
        *,
        q: Any,
        control: Control | None,
        references: Mapping[str, Any] | None,
        dark: bool,
    ) -> None:
        self.simulation, self.robot, self.folder = simulation, simulation.robot, Path.cwd()
        self._start = simulation.state(q)
        self._state, self.k = self._start, 0
        self.node = RobotNode(server, self.robot, "/robot")
        self.pushes = Pushes(simulation, self.node.size)
        low, high = self.node.mesh.bounds(*self._poses())
        margin = 0.1 * (high - low)
        environment = Environment(server, low - margin, high + margin, simulation.ground, dark=dark)
        super().__init__(server, panel, [self.node], environment)
        self._own, self._loops = control, dict[str, Loop]()
        self._references = {name: np.atleast_2d(rows) for name, rows in (references or {}).items()}
        usable = any(not actuator.unsupported for actuator in self.robot.actuators)
        supplied = [name for name in CONTROLS if name != ACTUATORS or usable]
        self._choices = (*[OWN] * (control is not None), *supplied)
        self.playing, self.speed, self.pace = True, 1.0, 1.0
        self._lock = threading.RLock()
        self._recorder: Recorder | None = None
        self._due, self._message, self._plot_age = 0.0, "", 1.0
        self._wrenches: np.ndarray | None = None
        self._contact = np.zeros((len(simulation.contact_points), 3))
        self.choose(self._choices[0])
        self._grip: np.ndarray | None = None
        self._joints = [link for link in self.robot.reduced.links if link.kind.nv == 1]
        self._history: deque[tuple[float, dict[str, np.ndarray]]] = deque(maxlen=int(PLOTTED / SAMPLE_TIME))
        self._build()
        self.node.on_drag(self._dragged)

    def _build(self) -> None:
        panel, gui = self.panel, self.panel.gui
        self.status = gui.add_html("")
        self.button = panel.button("pause", self.toggle)
        panel.buttons("run", {"reset": self.reset, "step": self.step, "save": self.save})
        panel.linked(gui.add_slider("speed", *SPEEDS, 0.05, 1.0), lambda value: setattr(self, "speed", float(value)))
        panel.linked(gui.add_dropdown("motors", self._choices, initial_value=self.control), self.choose)
        tabs = gui.add_tab_group()
        with tabs.add_tab("Push"):
            self._build_push()
        with tabs.add_tab("Plot"):
            groups = [name for name in SIGNALS if name != CONTACT or self.simulation.contact_points]
            self.plot = SignalPlot(panel, groups, self._signals, HEIGHT, cursor=False)
        with tabs.add_tab("Show"):
            self.add_layers("plan", "trail")
        with tabs.add_tab("About"):
            ground = "none" if self.simulation.ground is None else short(repr(self.simulation.ground), 120)
            rows = [("step", f"{self.simulation.dt * 1e3:g} ms"), ("integrator", self.simulation.integrator), ("ground", ground)]
            panel.about_robot(self.robot, self.node.warnings, rows)

    def _build_push(self) -> None:
        gui, pushes = self.panel.gui, self.pushes
        if not pushes.frames:
            gui.add_html(paragraph("this simulation takes no pushes: make it with wrenches=pushable(robot)"))
            return
        gui.add_html(paragraph("drag a link with the mouse to pull it, or push it for a moment:", small=True))
        labels = {f"{k + 1}. {short(frame.name, 50)}": k for k, frame in enumerate(pushes.frames)}
        # a base is pushed, or the far end of a robot with a fixed base
        first_frame = list(labels)[0 if self.robot.model.base_coordinates else -1]
        where = gui.add_dropdown("where", tuple(labels), initial_value=first_frame)
        step = round_up(pushes.weight / 30.0)
        most, first = (round(factor * pushes.weight / step) * step for factor in (3.0, 0.8))
        force = [gui.add_slider(f"{axis}, N", -most, most, step, first if axis == "x" else 0.0) for axis in "xyz"]
        seconds = gui.add_slider("for, s", 0.02, 1.0, 0.02, 0.1)
        self.panel.button("push", lambda: pushes.push(labels[where.value], np.array([s.value for s in force]), seconds.value))

    def _dragged(self, link: int, event: Any) -> None:
        """The mouse pulls a link, or lets it go."""
        if link not in self.pushes.by_link:
            return
        try:
            if event.phase == "end":
                self._grip = None
                self.pushes.release()
            else:
                if self._grip is None:
                    R, p = self._poses()
                    self._grip = R[link].T @ (np.array(event.start_position) - p[link])
                self.pushes.pull(link, self._grip, np.array(event.end_position))
        except Exception as error:  # shown, whatever it is
            self.panel.fail(error)

    @property
    def time(self) -> float:
        """Simulated time, s."""
        return self.k * self.simulation.dt

    def toggle(self) -> None:
        """Pause, or go on."""
        self.playing = not self.playing
        self.button.label = "pause" if self.playing else "go on"

    def reset(self) -> None:
        """Return to the initial state."""
        with self._lock:
            self.pushes.release()
            self._state, self.k, self._due = self._packed(self._start, 0), 0, 0.0
            self._wrenches, self._contact = None, np.zeros_like(self._contact)
            self._history.clear()
            self._record()
            self._changed = True

    def choose(self, control: str) -> None:
        """Let a controller drive the motors, about the initial pose."""
        if control not in self._loops:
            own = {name: rows.shape[1] for name, rows in self._references.items()} if control == OWN else {}
            try:
                made = self._own if control == OWN else CONTROLS[control](self.simulation, self._start)
            except ControlError:
                # a robot without motors
                made = zero_torque(self.simulation)
            assert made is not None
            loop = pushed_loop(self.simulation, made, own)
            # compile before the clock goes on
            loop.step(loop.state(*self.simulation.split(self._start)), self._given(loop), record=self._signals_of(loop))
            self._loops[control] = loop
        with self._lock:
            state = self._start if self._recorder is None else self.x
            self.control, self.loop = control, self._loops[control]
            self._plant = plant(self.loop)
            self._state = self._packed(state, self.k)
            # drives of one controller are parameters of the world, which only the run of a loop has
            continues = self._recorder is not None and self._recorder.loop is None and not drives(self.loop)
            if self._recorder is None or not continues or self._recorder.simulation.config != self._plant.config:
                self._record()

    def _packed(self, x: np.ndarray, k: int) -> np.ndarray:
        """The state of the loop for one of the simulation, after k steps; its blocks start."""
        return self.loop.state(*self.simulation.split(x), tick=float(k))

    def _given(self, loop: Loop, push: np.ndarray | None = None) -> dict[str, np.ndarray] | None:
        """The references of the next step; the last row of a reference is held."""
        given = {name: rows[min(self.k, len(rows) - 1)] for name, rows in self._references.items() if name in loop.inputs}
        if "push" in loop.inputs:
            given["push"] = np.zeros(loop.inputs["push"]) if push is None else push.ravel()
        return given or None

    @staticmethod
    def _signals_of(loop: Loop) -> list[str]:
        return [name for name in ("u", "wrenches", "contact_forces", *drives(loop)) if name in loop.plan.signals]

    def step(self) -> None:
        """Pause, and make one step."""
        if self.playing:
            self.toggle()
        with self._lock:
            self._advance()
        self._changed = True

    def save(self) -> None:
        """Write what happened since the beginning, or the last time it was saved, to a new file in the working folder."""
        with self._lock:
            self._message = "nothing to save yet"
            if self._recorder is not None and self._recorder.k:
                word = re.sub(r"[^A-Za-z0-9_-]+", "_", self.robot.name)[:40].strip("_") or "robot"
                path = next(p for k in range(1, 100_000) if not (p := self.folder / f"live-{word}-{k}.cdl").exists())
                run = self._recorder.finish()
                run.save(path)
                self._record()
                self._message = f"saved {path.name}: {run.steps} steps; it goes on in a new one"
        self._update_status()

    def _record(self) -> None:
        title = f"{self.robot.name}, live"
        made_by = (self.loop, self._state) if drives(self.loop) else (self._plant, self.x)
        self._recorder = Recorder(*made_by, title=title, controller=self.control)

    @property
    def x(self) -> np.ndarray:
        """The state of the simulation."""
        state = np.array(self._state[: self.simulation.nx])
        if self.simulation.timed:
            state[-1] *= self.simulation.substeps
        return state

    def draw(self, elapsed: float) -> bool:
        """Make the steps that are due, and draw; whether more is to come."""
        if self.playing:
            dt = self.simulation.dt
            self._due += min(elapsed, 0.1) * self.speed
            begin, made, due = time.perf_counter(), 0, int(self._due / dt)
            with self._lock:
                while made < due and time.perf_counter() - begin < FRAME_BUDGET:
                    self._advance()
                    made += 1
            # steps that do not fit into the budget are dropped: the simulation is slower than real time
            self._due = self._due - made * dt if made == due else 0.0
            if elapsed > 0.0:
                self.pace += 0.05 * (made * dt / max(elapsed, 1e-3) - self.pace)
        elif not self._changed:
            return False
        self._changed = False
        with self._lock:
            q, wrenches, forces = self._q, self._wrenches, self._contact if len(self._contact) else None
        now = snapshot(self.robot, q, self._plant, forces=forces, wrenches=wrenches)
        with self._server.atomic():
            self.node.draw(now)
        self._plot_age += elapsed
        if self._plot_age > 0.1:
            self._plot_age = 0.0
            self.plot.draw()
            self._update_status()
        return self.playing

    def _advance(self) -> None:
        dt = self.simulation.dt
        try:
            given = self._given(self.loop, self.pushes.wrenches(self._poses, dt))
            self._state, found = self.loop.step(self._state, given, record=self._signals_of(self.loop))
            self._wrenches, self._contact = found.get("wrenches"), found.get("contact_forces", self._contact)
            if self._recorder is not None and self._recorder.k * dt < MAX_RECORDED:
                if self._recorder.loop is None:
                    self._recorder.append(self.x, found["u"], self._wrenches)
                else:
                    self._recorder.append_tick(self._state, found, given or {})
        except Exception:
            # it stops at the last state; the panel shows the error
            self.playing = False
            self.button.label = "go on"
            raise
        self.k += 1
        if self.k % max(round(SAMPLE_TIME / dt), 1) == 0:
            self._history.append((self.time, self._sample()))

    @property
    def _q(self) -> np.ndarray:
        return self._state[: self.robot.nq]

    def _poses(self) -> tuple[np.ndarray, np.ndarray]:
        return link_poses(self.robot, self._q)

    def _sample(self) -> dict[str, np.ndarray]:
        q = self._q
        pushed = 0.0 if self._wrenches is None else float(np.linalg.norm(self._wrenches[:, :3], axis=1).max(initial=0.0))
        return {
            HEIGHT: mass_center(self.robot, q)[2:],
            JOINTS: np.array([q[link.q.start] for link in self._joints]),
            PUSH: np.array([pushed]),
            CONTACT: self._contact[:, 2],
        }

    def _signals(self, name: str) -> list[Signal]:
        rows = list(self._history)
        if len(rows) < 2:
            return []
        names = {JOINTS: [link.joint for link in self._joints], CONTACT: self.simulation.contact_names}.get(name, [name])
        return [Signal(np.array([t for t, _ in rows]), np.array([row[name] for _, row in rows]), SIGNALS[name], names)]

    def _update_status(self) -> None:
        """Time, pace, and the last message."""
        text = f"{self.time:.2f} s" + (f", {self.pace:.2f} times real time" if self.playing else ", paused")
        if self._recorder is not None and self._recorder.k * self.simulation.dt >= MAX_RECORDED - 1e-9:
            text += f"; the first {MAX_RECORDED:g} s are kept"
        self.status.content = paragraph(*filter(None, (text, self._message)), small=True)
